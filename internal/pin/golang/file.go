package golang

import (
	"go/ast"
	"go/build/constraint"
	"go/parser"
	"go/scanner"
	"go/token"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/rocketgpt/orchestrator/internal/pin/lexer"
	"github.com/rocketgpt/orchestrator/internal/pin/testfile"
)

// localMark separates the function from the name in the key of a closure.
const localMark = "·"

// file is a Go file that is being read.
type file struct {
	*lexer.Source
	result  *testfile.File
	ast     *ast.File
	base    int   // of positions in this file
	offsets []int // of tokens
	imports map[string]string
	tables  map[string][]ast.Expr // package variables that contain a list
	gocheck bool                  // its suites are those of gocheck
	data    []byte
	holes   map[*testfile.Unit][]lexer.Span
}

func parse(s *testfile.File, data []byte) {
	set := token.NewFileSet()
	parsed, err := parser.ParseFile(set, s.Path, data, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		s.Broken = err.Error()
		return
	}
	g := &file{
		Source: &lexer.Source{}, result: s, ast: parsed, data: data, base: set.File(parsed.FileStart).Base(),
		imports: map[string]string{}, tables: map[string][]ast.Expr{}, holes: map[*testfile.Unit][]lexer.Span{},
	}
	g.scan(data)
	constrain(s, parsed)
	g.declare()
	for _, d := range parsed.Decls {
		if f, ok := d.(*ast.FuncDecl); ok && f.Body != nil {
			g.function(f)
		}
	}
	g.otherStatements()
}

// constrain determines on which machines the go command compiles a file.
func constrain(s *testfile.File, f *ast.File) {
	x, err := constraintOf(f)
	if err != nil {
		s.Excluded = "its build constraint is not valid"
		return
	}
	var limits []string // in the name of the file
	parts := strings.Split(strings.TrimSuffix(strings.TrimSuffix(path.Base(s.Path), ".go"), "_test"), "_")
	for _, part := range parts[max(1, len(parts)-2):] {
		if systems[part] || architectures[part] {
			limits = append(limits, part)
		}
	}
	for _, system := range []string{"linux", "darwin", "windows", "freebsd"} {
		holds := func(tag string) bool { return tagHolds(tag, system) }
		if (x == nil || x.Eval(holds)) && !slices.ContainsFunc(limits, func(l string) bool { return !holds(l) }) {
			s.Systems = append(s.Systems, system)
		}
	}
	switch {
	case slices.Contains(s.Systems, "linux"):
	case x != nil && !x.Eval(func(tag string) bool { return tagHolds(tag, "linux") }):
		s.Excluded = "build constraint " + x.String()
	default:
		s.Excluded = "its name limits it to " + strings.Join(limits, " and ")
	}
}

// constraintOf returns the build constraint of a file, or nil. Lines in the old notation count only
// without one in the new notation.
func constraintOf(f *ast.File) (constraint.Expr, error) {
	var old constraint.Expr
	for _, group := range f.Comments {
		if group.Pos() >= f.Package {
			break
		}
		for _, c := range group.List {
			switch {
			case constraint.IsGoBuild(c.Text):
				return constraint.Parse(c.Text)
			case constraint.IsPlusBuild(c.Text):
				x, err := constraint.Parse(c.Text)
				if err != nil {
					return nil, err
				}
				if old != nil {
					x = &constraint.AndExpr{X: old, Y: x}
				}
				old = x
			}
		}
	}
	return old, nil
}

// tagHolds reports whether a build tag holds on an ordinary machine with an operating system.
func tagHolds(tag, system string) bool {
	switch tag {
	case system, "amd64", "gc", "cgo":
		return true
	case "unix":
		return system != "windows"
	}
	return strings.HasPrefix(tag, "go1.")
}

var (
	systems       = lexer.Set("aix android darwin dragonfly freebsd illumos ios js linux netbsd openbsd plan9 solaris wasip1 windows")
	architectures = lexer.Set("386 amd64 arm arm64 loong64 mips mips64 mips64le mipsle ppc64 ppc64le riscv64 s390x wasm")
)

// gocheckPackage matches the path of a package whose suites have methods with a parameter of type *C.
var gocheckPackage = regexp.MustCompile(`(^|/)(gocheck|go-check|check\.v1)(/|$)`)

// declare records the imports and lists of the package.
func (g *file) declare() {
	for _, i := range g.ast.Imports {
		p, _ := strconv.Unquote(i.Path.Value)
		name := path.Base(p)
		if i.Name != nil {
			name = i.Name.Name
		}
		g.imports[name] = p
		g.gocheck = g.gocheck || gocheckPackage.MatchString(p)
	}
	for _, d := range g.ast.Decls {
		if gen, ok := d.(*ast.GenDecl); ok {
			for _, spec := range gen.Specs {
				if v, ok := spec.(*ast.ValueSpec); ok {
					recordTables(g.tables, idents(v.Names), v.Values)
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

// recordTables remembers which variables are literal lists.
func recordTables(tables map[string][]ast.Expr, names, values []ast.Expr) {
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

// elements returns the elements of a literal list or map.
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

// otherStatements records statements outside functions, without imports.
func (g *file) otherStatements() {
	for _, d := range g.ast.Decls {
		gen, ok := d.(*ast.GenDecl)
		if !ok || gen.Tok == token.IMPORT {
			continue
		}
		for _, spec := range gen.Specs {
			if v, ok := spec.(*ast.ValueSpec); !ok || !g.isTable(v) {
				g.result.Statements = append(g.result.Statements, g.digest(spec))
			}
		}
	}
}

func (g *file) isTable(v *ast.ValueSpec) bool {
	return len(v.Names) == 1 && g.tables[v.Names[0].Name] != nil
}

// testKind is Test, Benchmark, Fuzz or Example for names that the go command runs.
func testKind(name string) string {
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

// function reads a top-level function.
func (g *file) function(f *ast.FuncDecl) {
	u := g.result.Add(&testfile.Unit{Name: f.Name.Name, Key: f.Name.Name, Line: g.line(f), Empty: len(f.Body.List) == 0})
	kind := testKind(f.Name.Name)
	w := walker{g: g, u: u, scope: &scope{
		testing: map[string]bool{}, asserters: map[string]bool{}, closures: map[string]string{}, tables: map[string][]ast.Expr{},
		callbacks: map[string]testfile.Use{},
	}, weight: 1}
	w.parameters(f.Type)
	if f.Recv != nil {
		u.Name, u.Key, u.Method = receiver(f)+"/"+f.Name.Name, "."+f.Name.Name, true
		if len(f.Recv.List[0].Names) == 1 {
			w.scope.receiver = f.Recv.List[0].Names[0].Name
		}
		u.Test = kind == "Test" && f.Type.Results.NumFields() == 0 && (f.Type.Params.NumFields() == 0 || g.gocheck && f.Type.Params.NumFields() == 1)
	} else {
		u.Test = g.isTest(kind, f)
	}
	if w.block(f.Body.List) && f.Name.Name == "init" && f.Recv == nil {
		g.exitsWithSuccess(f.Body.List)
	}
	u.Callbacks = w.usedCallbacks(f.Type)
	u.Source, u.Text = g.Source, lexer.Span{From: g.token(f.Type.Params.Pos()), To: g.token(f.End())}
	u.Body = g.DigestWithout(u.Text, g.holes[u])
	if kind == "Example" && u.Test {
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

// isTest reports whether the go command runs a function as a test.
func (g *file) isTest(kind string, f *ast.FuncDecl) bool {
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

// testingType is T for *testing.T, and C for gocheck's *check.C.
func testingType(x ast.Expr) string {
	if star, ok := x.(*ast.StarExpr); ok {
		x = star.X
	}
	if sel, ok := x.(*ast.SelectorExpr); ok {
		if id, ok := sel.X.(*ast.Ident); ok && (id.Name == "testing" || sel.Sel.Name == "C") {
			return sel.Sel.Name
		}
	}
	if id, ok := x.(*ast.Ident); ok { // import . "testing"
		return id.Name
	}
	return ""
}

var outputComment = regexp.MustCompile(`(?i)^\s*(unordered )?output:`)

// example reads an example: its output comment is its check; without one, it does not run.
func (g *file) example(u *testfile.Unit, f *ast.FuncDecl) {
	for _, c := range slices.Backward(g.ast.Comments) {
		if c.Pos() < f.Body.Pos() || c.End() > f.Body.End() {
			continue
		}
		if out := c.Text(); outputComment.MatchString(out) {
			u.Checks = append(u.Checks, testfile.Check{Digest: lexer.TextDigest(out), Weight: 1})
			u.Body ^= lexer.TextDigest(out)
			return
		}
		break
	}
	u.Skips = append(u.Skips, testfile.Skip{Always: true, Reason: "an example without an output comment is compiled but not run"})
}

// callee returns the name of the called function: f, pkg.F, x.M.
func (g *file) callee(call *ast.CallExpr) string {
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

// scan makes tokens, ignoring what gofmt adds and removes.
func (g *file) scan(data []byte) {
	var s scanner.Scanner
	set := token.NewFileSet()
	file := set.AddFile("", -1, len(data))
	s.Init(file, data, func(token.Position, string) {}, 0)
	last := 0
	for {
		pos, tok, lit := s.Scan()
		if tok == token.EOF {
			break
		}
		if tok == token.SEMICOLON {
			continue
		}
		line := file.Line(pos)
		t := lexer.Token{Kind: tokenKind(tok), Text: lit, Line: line, StartsLine: line != last}
		if lit == "" || tok.IsOperator() {
			t.Text = tok.String()
		}
		if closing := tok == token.RPAREN || tok == token.RBRACE || tok == token.RBRACK; closing && len(g.Tokens) > 0 && g.Tokens[len(g.Tokens)-1].Is(",") {
			g.Tokens, g.offsets = g.Tokens[:len(g.Tokens)-1], g.offsets[:len(g.offsets)-1]
		}
		last = line
		g.Tokens = append(g.Tokens, t)
		g.offsets = append(g.offsets, file.Offset(pos))
	}
	g.Index()
}

func tokenKind(t token.Token) lexer.TokenKind {
	switch t {
	case token.STRING, token.CHAR:
		return lexer.Text
	case token.INT, token.FLOAT, token.IMAG:
		return lexer.Number
	case token.IDENT:
		return lexer.Word
	default:
		if t.IsKeyword() {
			return lexer.Word
		}
		return lexer.Punct
	}
}

// token returns the index of the first token at or after a position.
func (g *file) token(p token.Pos) int {
	i, _ := slices.BinarySearch(g.offsets, int(p)-g.base)
	return i
}

func (g *file) span(n ast.Node) lexer.Span {
	return lexer.Span{From: g.token(n.Pos()), To: g.token(n.End())}
}

func (g *file) digest(n ast.Node) lexer.Digest {
	s := g.span(n)
	return g.Digest(s.From, s.To)
}

func (g *file) line(n ast.Node) int { return g.At(g.token(n.Pos())).Line }

// main judges TestMain: it must run the tests and report their result.
func (g *file) main(f *ast.FuncDecl) {
	if g.exitsWithSuccess(f.Body.List) {
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
		g.result.Suppresses = "TestMain does not run the tests"
	}
}

// exitsWithSuccess finds an unconditional exit of the process that reports success.
func (g *file) exitsWithSuccess(statements []ast.Stmt) bool {
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
				g.result.Suppresses = "it exits with code 0 regardless of the test results"
				return true
			}
		}
	}
	return false
}
