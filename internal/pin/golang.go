package pin

import (
	"go/ast"
	"go/build/constraint"
	"go/parser"
	"go/scanner"
	gotoken "go/token"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// localMark stands in the key of a closure between its function and its name.
const localMark = "·"

// goFile is a Go file that is being understood.
type goFile struct {
	*source
	suite   *suite
	ast     *ast.File
	base    int   // of positions in this file
	offsets []int // of tokens
	imports map[string]string
	tables  map[string][]ast.Expr // variables of the package that hold a list
	data    []byte
	holes   map[*unit][]span
}

func parseGo(s *suite, data []byte) {
	set := gotoken.NewFileSet()
	parsed, err := parser.ParseFile(set, s.path, data, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		s.broken = err.Error()
		return
	}
	g := &goFile{
		source: &source{}, suite: s, ast: parsed, data: data, base: set.File(parsed.FileStart).Base(),
		imports: map[string]string{}, tables: map[string][]ast.Expr{}, holes: map[*unit][]span{},
	}
	g.scan(data)
	s.off = goOff(s.path, parsed)
	g.declare()
	for _, d := range parsed.Decls {
		if f, ok := d.(*ast.FuncDecl); ok && f.Body != nil {
			g.function(f)
		}
	}
	g.leftover()
}

// scan makes tokens, without what gofmt adds and takes away.
func (g *goFile) scan(data []byte) {
	var s scanner.Scanner
	set := gotoken.NewFileSet()
	file := set.AddFile("", -1, len(data))
	s.Init(file, data, func(gotoken.Position, string) {}, 0)
	last := 0
	for {
		pos, tok, lit := s.Scan()
		if tok == gotoken.EOF {
			break
		}
		if tok == gotoken.SEMICOLON {
			continue
		}
		line := file.Line(pos)
		t := token{kind: goKind(tok), text: lit, line: line, fresh: line != last}
		if lit == "" || tok.IsOperator() {
			t.text = tok.String()
		}
		if closing := tok == gotoken.RPAREN || tok == gotoken.RBRACE || tok == gotoken.RBRACK; closing && len(g.tokens) > 0 && g.tokens[len(g.tokens)-1].is(",") {
			g.tokens, g.offsets = g.tokens[:len(g.tokens)-1], g.offsets[:len(g.offsets)-1]
		}
		last = line
		g.tokens = append(g.tokens, t)
		g.offsets = append(g.offsets, file.Offset(pos))
	}
	g.index()
}

func goKind(t gotoken.Token) tokenKind {
	switch t {
	case gotoken.STRING, gotoken.CHAR:
		return text
	case gotoken.INT, gotoken.FLOAT, gotoken.IMAG:
		return number
	case gotoken.IDENT:
		return word
	default:
		if t.IsKeyword() {
			return word
		}
		return punct
	}
}

// index of the first token at or after a position.
func (g *goFile) token(p gotoken.Pos) int {
	i, _ := slices.BinarySearch(g.offsets, int(p)-g.base)
	return i
}

func (g *goFile) span(n ast.Node) span { return span{g.token(n.Pos()), g.token(n.End())} }

func (g *goFile) digest(n ast.Node) digest {
	s := g.span(n)
	return g.sum(s.from, s.to)
}

func (g *goFile) line(n ast.Node) int { return g.at(g.token(n.Pos())).line }

// goOff says why the go command leaves a file out on an ordinary machine.
func goOff(p string, f *ast.File) string {
	for _, group := range f.Comments {
		if group.Pos() >= f.Package {
			break
		}
		for _, c := range group.List {
			if !constraint.IsGoBuild(c.Text) {
				continue
			}
			x, err := constraint.Parse(c.Text)
			if err != nil {
				return "its build constraint is not valid"
			}
			if !x.Eval(goTag) {
				return "build constraint " + x.String()
			}
		}
	}
	parts := strings.Split(strings.TrimSuffix(strings.TrimSuffix(path.Base(p), ".go"), "_test"), "_")
	for _, part := range parts[max(1, len(parts)-2):] {
		if (goSystems[part] || goMachines[part]) && !goTag(part) {
			return "its name limits it to " + part
		}
	}
	return ""
}

// goTag says whether a build tag holds on an ordinary machine.
func goTag(tag string) bool {
	switch tag {
	case "linux", "unix", "amd64", "gc", "cgo":
		return true
	}
	return strings.HasPrefix(tag, "go1.")
}

func set(words string) map[string]bool {
	out := map[string]bool{}
	for _, w := range strings.Fields(words) {
		out[w] = true
	}
	return out
}

var (
	goSystems  = set("aix android darwin dragonfly freebsd illumos ios js linux netbsd openbsd plan9 solaris wasip1 windows")
	goMachines = set("386 amd64 arm arm64 loong64 mips mips64 mips64le mipsle ppc64 ppc64le riscv64 s390x wasm")
)

// declare notes imports and lists of the package.
func (g *goFile) declare() {
	for _, i := range g.ast.Imports {
		p, _ := strconv.Unquote(i.Path.Value)
		name := path.Base(p)
		if i.Name != nil {
			name = i.Name.Name
		}
		g.imports[name] = p
	}
	for _, d := range g.ast.Decls {
		if gen, ok := d.(*ast.GenDecl); ok {
			for _, spec := range gen.Specs {
				if v, ok := spec.(*ast.ValueSpec); ok {
					noteTables(g.tables, idents(v.Names), v.Values)
				}
			}
		}
	}
}

func idents(names []*ast.Ident) []ast.Expr {
	out := make([]ast.Expr, 0, len(names))
	for _, n := range names {
		out = append(out, n)
	}
	return out
}

// noteTables remembers which variables are lists, written out.
func noteTables(tables map[string][]ast.Expr, names, values []ast.Expr) {
	if len(names) != len(values) {
		return
	}
	for i, n := range names {
		if id, ok := n.(*ast.Ident); ok {
			if list, ok := elements(values[i]); ok {
				tables[id.Name] = list
			} else {
				delete(tables, id.Name)
			}
		}
	}
}

// elements are those of a list or map that is written out.
func elements(x ast.Expr) ([]ast.Expr, bool) {
	lit, ok := ast.Unparen(x).(*ast.CompositeLit)
	if !ok {
		return nil, false
	}
	switch lit.Type.(type) {
	case *ast.ArrayType, *ast.MapType:
		return lit.Elts, true
	}
	return nil, false
}

// leftover notes what stands outside functions, without imports.
func (g *goFile) leftover() {
	for _, d := range g.ast.Decls {
		gen, ok := d.(*ast.GenDecl)
		if !ok || gen.Tok == gotoken.IMPORT {
			continue
		}
		for _, spec := range gen.Specs {
			if v, ok := spec.(*ast.ValueSpec); !ok || !g.isTable(v) {
				g.suite.rest = append(g.suite.rest, g.digest(spec))
			}
		}
	}
}

func (g *goFile) isTable(v *ast.ValueSpec) bool {
	return len(v.Names) == 1 && g.tables[v.Names[0].Name] != nil
}

// goTestKind is Test, Benchmark, Fuzz or Example for names that the go command
// runs.
func goTestKind(name string) string {
	for _, prefix := range []string{"Test", "Benchmark", "Fuzz", "Example"} {
		if rest, ok := strings.CutPrefix(name, prefix); ok {
			r, _ := utf8.DecodeRuneInString(rest)
			if rest == "" || !unicode.IsLower(r) {
				return prefix
			}
		}
	}
	return ""
}

// function understands a function at the top of a file.
func (g *goFile) function(f *ast.FuncDecl) {
	u := g.suite.add(&unit{name: f.Name.Name, key: f.Name.Name, line: g.line(f), blank: len(f.Body.List) == 0})
	kind := goTestKind(f.Name.Name)
	w := goWalk{g: g, u: u, scope: &goScope{
		testing: map[string]bool{}, asserters: map[string]bool{}, closures: map[string]string{}, tables: map[string][]ast.Expr{},
	}, weight: 1}
	w.parameters(f.Type)
	if f.Recv != nil {
		u.name, u.key, u.method = receiver(f)+"/"+f.Name.Name, "."+f.Name.Name, true
		if len(f.Recv.List[0].Names) == 1 {
			w.scope.receiver = f.Recv.List[0].Names[0].Name
		}
		u.test = kind == "Test" && f.Type.Params.NumFields() == 0 && f.Type.Results.NumFields() == 0
	} else {
		u.test = g.isTest(kind, f)
	}
	if w.block(f.Body.List) && f.Name.Name == "init" && f.Recv == nil {
		g.exits(f.Body.List)
	}
	u.body = g.without(span{g.token(f.Type.Params.Pos()), g.token(f.End())}, g.holes[u])
	if kind == "Example" && u.test {
		g.example(u, f)
	}
	if f.Name.Name == "TestMain" && f.Recv == nil {
		g.main(f)
	}
}

func receiver(f *ast.FuncDecl) string {
	x := f.Recv.List[0].Type
	for {
		switch t := x.(type) {
		case *ast.StarExpr:
			x = t.X
		case *ast.IndexExpr:
			x = t.X
		case *ast.IndexListExpr:
			x = t.X
		case *ast.ParenExpr:
			x = t.X
		case *ast.Ident:
			return t.Name
		default:
			return "?"
		}
	}
}

// isTest says whether the go command runs a function as a test.
func (g *goFile) isTest(kind string, f *ast.FuncDecl) bool {
	want := map[string]string{"Test": "T", "Benchmark": "B", "Fuzz": "F"}[kind]
	switch {
	case kind == "" || f.Name.Name == "TestMain" || f.Type.TypeParams != nil:
		return false
	case kind == "Example":
		return f.Type.Params.NumFields() == 0
	}
	if f.Type.Params.NumFields() != 1 {
		return false
	}
	return testingType(f.Type.Params.List[0].Type) == want
}

// testingType is T for *testing.T.
func testingType(x ast.Expr) string {
	if star, ok := x.(*ast.StarExpr); ok {
		x = star.X
	}
	if sel, ok := x.(*ast.SelectorExpr); ok {
		if id, ok := sel.X.(*ast.Ident); ok && id.Name == "testing" {
			return sel.Sel.Name
		}
	}
	if id, ok := x.(*ast.Ident); ok { // import . "testing"
		return id.Name
	}
	return ""
}

var goOutput = regexp.MustCompile(`(?i)^\s*(unordered )?output:`)

// example: what it must print is its check, and without it it is not run.
func (g *goFile) example(u *unit, f *ast.FuncDecl) {
	for _, c := range slices.Backward(g.ast.Comments) {
		if c.Pos() < f.Body.Pos() || c.End() > f.Body.End() {
			continue
		}
		if out := c.Text(); goOutput.MatchString(out) {
			u.checks = append(u.checks, check{text: textDigest(out), weight: 1})
			u.body ^= textDigest(out)
			return
		}
		break
	}
	u.skips = append(u.skips, skip{true, "an example without an output comment is compiled but not run"})
}

// textDigest is the digest of a text that is no token.
func textDigest(s string) digest {
	return (&source{tokens: []token{{kind: text, text: s}}}).index().sum(0, 1)
}

// main judges TestMain: it must run the tests and tell how they ended.
func (g *goFile) main(f *ast.FuncDecl) {
	if g.exits(f.Body.List) {
		return
	}
	runs := false
	ast.Inspect(f.Body, func(n ast.Node) bool {
		if sel, ok := n.(*ast.SelectorExpr); ok && sel.Sel.Name == "Run" {
			runs = true
		}
		if call, ok := n.(*ast.CallExpr); ok {
			for _, a := range call.Args { // goleak.VerifyTestMain(m)
				if id, ok := a.(*ast.Ident); ok && len(f.Type.Params.List) == 1 && len(f.Type.Params.List[0].Names) == 1 && id.Name == f.Type.Params.List[0].Names[0].Name {
					runs = true
				}
			}
		}
		return true
	})
	if !runs {
		g.suite.stops = "TestMain does not run the tests"
	}
}

// exits finds an unconditional end of the process that tells of success.
func (g *goFile) exits(statements []ast.Stmt) bool {
	for _, s := range statements {
		x, ok := s.(*ast.ExprStmt)
		if d, deferred := s.(*ast.DeferStmt); deferred {
			x, ok = &ast.ExprStmt{X: d.Call}, true
		}
		if !ok {
			continue
		}
		call, ok := x.X.(*ast.CallExpr)
		if !ok || len(call.Args) != 1 {
			continue
		}
		switch g.callee(call) {
		case "os.Exit", "syscall.Exit":
			if lit, ok := call.Args[0].(*ast.BasicLit); ok && lit.Value == "0" {
				g.suite.stops = "it ends the tests with exit code 0, whatever they found"
				return true
			}
		}
	}
	return false
}

// callee is the name of what is called: f, pkg.F, x.M.
func (g *goFile) callee(call *ast.CallExpr) string {
	switch f := ast.Unparen(call.Fun).(type) {
	case *ast.Ident:
		return f.Name
	case *ast.SelectorExpr:
		if id, ok := f.X.(*ast.Ident); ok {
			return id.Name + "." + f.Sel.Name
		}
		return "." + f.Sel.Name
	}
	return ""
}
