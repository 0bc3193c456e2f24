package refactor

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path"
	"slices"
	"strconv"
	"strings"
)

// maxTypeDepth is the depth to which a type is compared.
const maxTypeDepth = 64

// maxBrackets is the nesting of brackets up to which a file is parsed.
const maxBrackets = 2_000

// readGo adds the exported declarations of a Go file.
func readGo(a api, p string, content []byte) {
	if slices.Contains(strings.Split(p, "/"), "internal") || strings.HasSuffix(p, "_test.go") || deep(content) {
		return
	}
	f, err := parser.ParseFile(token.NewFileSet(), "", content, parser.SkipObjectResolution)
	if err != nil || f.Name.Name == "main" || strings.HasSuffix(f.Name.Name, "_test") {
		return
	}
	if slices.ContainsFunc(f.Imports, func(i *ast.ImportSpec) bool { return i.Path.Value == `"testing"` }) {
		return // only tests call it
	}
	g := &goFile{
		scope: a.scope("go:"+path.Dir(p)+":"+f.Name.Name, "go", p), path: p, content: content, imports: map[string]string{}, start: int(f.FileStart),
	}
	for _, i := range f.Imports {
		from, _ := strconv.Unquote(i.Path.Value)
		n := path.Base(from)
		if v := strings.TrimPrefix(n, "v"); v != n && strings.Trim(v, "0123456789") == "" {
			n = path.Base(path.Dir(from))
		}
		if i.Name != nil {
			n = i.Name.Name
		}
		g.imports[n] = from
	}
	for _, d := range f.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			g.function(d)
		case *ast.GenDecl:
			for _, s := range d.Specs {
				switch s := s.(type) {
				case *ast.TypeSpec:
					g.typeSpec(s)
				case *ast.ValueSpec:
					g.values(d.Tok, s)
				}
			}
		}
	}
}

// deep reports whether more brackets are within each other than real files have.
func deep(content []byte) bool {
	depth := 0
	for _, c := range content {
		switch c {
		case '(', '[', '{':
			if depth++; depth > maxBrackets {
				return true
			}
		case ')', ']', '}':
			depth = max(0, depth-1)
		}
	}
	return false
}

// goFile is a file that is being read.
type goFile struct {
	scope   *scope
	path    string
	content []byte
	imports map[string]string // paths by name
	start   int
	line    int // of the last position that was counted
	at      int
}

// lineOf returns the line of a node. Nodes come in the order of the file, so counting takes linear time.
func (g *goFile) lineOf(n ast.Node) int {
	at := min(int(n.Pos())-g.start, len(g.content))
	if at < g.at {
		g.at, g.line = 0, 0
	}
	g.line += strings.Count(string(g.content[g.at:at]), "\n")
	g.at = at
	return g.line + 1
}

func (g *goFile) add(n ast.Node, kind, parent, name string, s shape) {
	g.addAt(g.lineOf(n), kind, parent, name, s)
}

func (g *goFile) addAt(line int, kind, parent, name string, s shape) {
	g.scope.add(symbol{name: name, parent: parent, kind: kind, path: g.path, line: line, shape: s})
}

func (g *goFile) function(d *ast.FuncDecl) {
	if !d.Name.IsExported() {
		return
	}
	if d.Recv == nil {
		g.add(d, "function", "", d.Name.Name, g.signature(d.Type, typeNames(d.Type.TypeParams)))
		return
	}
	if len(d.Recv.List) != 1 {
		return
	}
	owner, params := receiver(d.Recv.List[0].Type)
	if ast.IsExported(owner) {
		g.add(d, "method", owner, d.Name.Name, g.signature(d.Type, params))
	}
}

// receiver returns the type of a receiver and its type parameters, by their position.
func receiver(x ast.Expr) (owner string, names map[string]string) {
	names = map[string]string{}
	for range maxTypeDepth {
		switch t := x.(type) {
		case *ast.StarExpr:
			x = t.X
		case *ast.ParenExpr:
			x = t.X
		case *ast.IndexExpr:
			if id, ok := t.Index.(*ast.Ident); ok {
				names[id.Name] = "$0"
			}
			x = t.X
		case *ast.IndexListExpr:
			for i, e := range t.Indices {
				if id, ok := e.(*ast.Ident); ok {
					names[id.Name] = fmt.Sprint("$", i)
				}
			}
			x = t.X
		case *ast.Ident:
			return t.Name, names
		default:
			return "", names
		}
	}
	return "", names
}

// typeNames gives type parameters names by their position, because their names do not matter.
func typeNames(list *ast.FieldList) map[string]string {
	names := map[string]string{}
	if list != nil {
		for _, f := range list.List {
			for _, n := range f.Names {
				names[n.Name] = fmt.Sprint("$", len(names))
			}
		}
	}
	return names
}

func (g *goFile) signature(f *ast.FuncType, names map[string]string) shape {
	s := shape{known: true, positional: true, typed: true}
	for _, p := range f.Params.List {
		for i := range max(1, len(p.Names)) {
			x := param{typ: g.text(p.Type, names, 0)}
			if i < len(p.Names) {
				x.name = p.Names[i].Name
			}
			_, x.variadic = p.Type.(*ast.Ellipsis)
			s.params = append(s.params, x)
		}
	}
	s.result = g.fields(f.Results, names, 0)
	return s
}

// fields prints the types of a list, without names.
func (g *goFile) fields(list *ast.FieldList, names map[string]string, depth int) string {
	if list == nil {
		return ""
	}
	var out []string
	for _, f := range list.List {
		t := g.text(f.Type, names, depth+1)
		for range max(1, len(f.Names)) {
			out = append(out, t)
		}
	}
	return strings.Join(out, ", ")
}

func (g *goFile) typeSpec(s *ast.TypeSpec) {
	if !s.Name.IsExported() {
		return
	}
	names := typeNames(s.TypeParams)
	parent, line := s.Name.Name, g.lineOf(s)
	x := shape{known: true, alias: s.Assign.IsValid()}
	switch t := s.Type.(type) {
	case *ast.StructType:
		x.text = "struct"
		x.open = g.structFields(parent, t, names)
	case *ast.InterfaceType:
		x.text = "interface"
		x.open, x.closed = g.methods(parent, t, names)
	default:
		x.text = g.text(s.Type, names, 0)
	}
	if s.TypeParams != nil {
		x.text = "[" + g.fields(s.TypeParams, names, 0) + "]" + x.text
	}
	g.addAt(line, "type", "", parent, x)
}

// structFields adds the exported fields of a type, and reports whether it embeds others.
func (g *goFile) structFields(parent string, t *ast.StructType, names map[string]string) (open bool) {
	for _, f := range t.Fields.List {
		typ := shape{known: true, text: g.text(f.Type, names, 0)}
		if len(f.Names) == 0 {
			open = true
			if n := embedded(f.Type); ast.IsExported(n) {
				g.add(f, "field", parent, n, typ)
			}
		}
		for _, n := range f.Names {
			if n.IsExported() {
				g.add(n, "field", parent, n.Name, typ)
			}
		}
	}
	return open
}

// methods adds the exported methods of an interface, and reports whether it embeds others, and whether
// only its own package can implement it.
func (g *goFile) methods(parent string, t *ast.InterfaceType, names map[string]string) (open, closed bool) {
	for _, f := range t.Methods.List {
		open = open || len(f.Names) == 0
		for _, n := range f.Names {
			closed = closed || !n.IsExported()
			if ft, ok := f.Type.(*ast.FuncType); ok && n.IsExported() {
				g.add(n, requirement, parent, n.Name, g.signature(ft, names))
			}
		}
	}
	return open, closed
}

func embedded(x ast.Expr) string {
	for range maxTypeDepth {
		switch t := x.(type) {
		case *ast.StarExpr:
			x = t.X
		case *ast.IndexExpr:
			x = t.X
		case *ast.IndexListExpr:
			x = t.X
		case *ast.SelectorExpr:
			return t.Sel.Name
		case *ast.Ident:
			return t.Name
		default:
			return ""
		}
	}
	return ""
}

func (g *goFile) values(tok token.Token, s *ast.ValueSpec) {
	kind := "variable"
	if tok == token.CONST {
		kind = "constant"
	}
	for _, n := range s.Names {
		if n.IsExported() {
			x := shape{known: s.Type != nil && kind == "variable"}
			if x.known {
				x.text = g.text(s.Type, nil, 0)
			}
			g.add(n, kind, "", n.Name, x)
		}
	}
}

// text prints a type, with the paths of packages instead of their local names.
func (g *goFile) text(x ast.Expr, names map[string]string, depth int) string {
	if depth > maxTypeDepth {
		return "…"
	}
	depth++
	switch t := x.(type) {
	case *ast.Ident:
		if n, ok := names[t.Name]; ok {
			return n
		}
		return t.Name
	case *ast.SelectorExpr:
		if id, ok := t.X.(*ast.Ident); ok {
			if from, ok := g.imports[id.Name]; ok {
				return from + "." + t.Sel.Name
			}
			return id.Name + "." + t.Sel.Name
		}
	case *ast.StarExpr:
		return "*" + g.text(t.X, names, depth)
	case *ast.ParenExpr:
		return g.text(t.X, names, depth)
	case *ast.Ellipsis:
		return "..." + g.text(t.Elt, names, depth)
	case *ast.ArrayType:
		if t.Len == nil {
			return "[]" + g.text(t.Elt, names, depth)
		}
		return "[" + g.text(t.Len, names, depth) + "]" + g.text(t.Elt, names, depth)
	case *ast.MapType:
		return "map[" + g.text(t.Key, names, depth) + "]" + g.text(t.Value, names, depth)
	case *ast.ChanType:
		return map[ast.ChanDir]string{ast.SEND: "chan<- ", ast.RECV: "<-chan "}[t.Dir] + "chan " + g.text(t.Value, names, depth)
	case *ast.FuncType:
		return "func(" + g.fields(t.Params, names, depth) + ") (" + g.fields(t.Results, names, depth) + ")"
	case *ast.IndexExpr:
		return g.text(t.X, names, depth) + "[" + g.text(t.Index, names, depth) + "]"
	case *ast.IndexListExpr:
		list := make([]string, len(t.Indices))
		for i, e := range t.Indices {
			list[i] = g.text(e, names, depth)
		}
		return g.text(t.X, names, depth) + "[" + strings.Join(list, ", ") + "]"
	case *ast.BasicLit:
		return t.Value
	case *ast.UnaryExpr:
		return t.Op.String() + g.text(t.X, names, depth)
	case *ast.BinaryExpr:
		return g.text(t.X, names, depth) + t.Op.String() + g.text(t.Y, names, depth)
	case *ast.StructType:
		return "struct{" + g.members(t.Fields, names, depth) + "}"
	case *ast.InterfaceType:
		if len(t.Methods.List) == 0 {
			return "any"
		}
		return "interface{" + g.members(t.Methods, names, depth) + "}"
	}
	return "?"
}

// members prints the fields or methods of a type that has no name.
func (g *goFile) members(list *ast.FieldList, names map[string]string, depth int) string {
	var out []string
	for _, f := range list.List {
		t := g.text(f.Type, names, depth)
		for _, n := range f.Names {
			out = append(out, n.Name+" "+t)
		}
		if len(f.Names) == 0 {
			out = append(out, t)
		}
	}
	return strings.Join(out, "; ")
}
