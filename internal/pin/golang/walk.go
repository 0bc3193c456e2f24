package golang

import (
	"go/ast"
	"go/token"
	"slices"
	"strconv"
	"strings"

	"github.com/rocketgpt/orchestrator/internal/pin/lexer"
	"github.com/rocketgpt/orchestrator/internal/pin/testfile"
)

// scope maps names to their meaning within one function.
type scope struct {
	testing   map[string]bool // variables of type *testing.T and the like
	asserters map[string]bool // assert.New(t), s.Require()
	closures  map[string]string
	tables    map[string][]ast.Expr
	callbacks map[string]testfile.Use // parameters that are functions
	receiver  string
}

// walker visits the statements of a unit and counts its checks.
type walker struct {
	g      *file
	u      *testfile.Unit
	scope  *scope
	weight int      // how often this statement runs: once for each case of a table
	depth  int      // conditions around this statement
	guard  ast.Node // the innermost condition
	inner  bool     // in a function within the function
	row    ast.Expr // the element of a list around this statement
	each   string   // variable of the loop over a table, and the table
	list   []ast.Expr
	given  *testfile.Given // the function that another one is given around this statement
}

func (w walker) parameters(f *ast.FuncType) {
	for _, p := range f.Params.List {
		if _, ok := ast.Unparen(p.Type).(*ast.FuncType); ok {
			for _, n := range p.Names {
				w.scope.callbacks[n.Name] = testfile.Unused
			}
		}
		switch testingType(p.Type) {
		case "T", "B", "F", "TB":
			for _, n := range p.Names {
				w.scope.testing[n.Name] = true
			}
		case "C":
			for _, n := range p.Names {
				w.scope.testing[n.Name] = w.g.gocheck
				w.scope.asserters[n.Name] = w.g.gocheck
			}
		}
	}
}

// Visit implements ast.Visitor.
func (w walker) Visit(n ast.Node) ast.Visitor {
	switch n := n.(type) {
	case *ast.BlockStmt:
		w.block(n.List)
		return nil
	case *ast.CaseClause:
		return w.clause(n, n.Body)
	case *ast.CommClause:
		return w.clause(n, n.Body)
	case *ast.IfStmt:
		w.branch(n)
		return nil
	case *ast.RangeStmt:
		w.loop(n)
		return nil
	case *ast.ForStmt:
		if n.Cond == nil || constant(w.g, n.Cond) != testfile.False {
			w.forLoop(n)
		}
		return nil
	case *ast.AssignStmt:
		return w.assign(n)
	case *ast.ValueSpec:
		recordTables(w.scope.tables, idents(n.Names), n.Values)
	case *ast.FuncLit:
		inner := w
		inner.inner = true
		inner.parameters(n.Type)
		inner.block(n.Body.List)
		inner.leave(n.Type)
		return nil
	case *ast.CompositeLit:
		if list, ok := elements(n); ok {
			for _, e := range list {
				row := w
				row.row = e
				ast.Walk(row, e)
			}
			return nil
		}
	case *ast.CallExpr:
		return w.call(n, false)
	case *ast.ExprStmt:
		if call, ok := n.X.(*ast.CallExpr); ok {
			if v := w.call(call, true); v != nil {
				walkCall(v, call)
			}
			return nil
		}
	case *ast.SelectorExpr:
		ast.Walk(w, n.X)
		return nil
	case *ast.Ident:
		w.use(n.Name, 0)
	}
	return w
}

func walkCall(v ast.Visitor, call *ast.CallExpr) {
	ast.Walk(v, call.Fun)
	for _, a := range call.Args {
		ast.Walk(v, a)
	}
}

// key returns the key of the function that a name means.
func (w walker) key(name string) string {
	if local, ok := w.scope.closures[name]; ok {
		return local
	}
	return name
}

// use records that a function is called or passed on. One that the unit is given contains no checks of
// its own: they count where it is written.
func (w walker) use(name string, fallback int) {
	if use, given := w.scope.callbacks[name]; given {
		n := testfile.Always
		if w.depth > 0 {
			n = testfile.Sometimes
		}
		w.scope.callbacks[name] = max(use, n)
		return
	}
	w.u.Calls = append(w.u.Calls, testfile.Call{Key: w.key(name), Weight: w.weight, Conditional: w.depth > 0, Assumed: fallback, Given: w.given})
}

// usedCallbacks returns how a function whose body was read uses the functions that it is given.
func (w walker) usedCallbacks(f *ast.FuncType) (uses map[int]testfile.Use) {
	at := 0
	for _, p := range f.Params.List {
		for i, n := range p.Names {
			if use, ok := w.scope.callbacks[n.Name]; ok {
				if uses == nil {
					uses = map[int]testfile.Use{}
				}
				uses[at+i] = use
			}
		}
		at += max(1, len(p.Names))
	}
	return uses
}

// block walks statements until control flow ends, and reports whether it does.
func (w walker) block(list []ast.Stmt) bool {
	for i, s := range list {
		before := len(w.u.Checks) + len(w.u.Calls)
		ast.Walk(w, s)
		if !w.ends(s, testfile.MaxDepth) {
			continue
		}
		if _, returns := s.(*ast.ReturnStmt); returns && before == 0 && i < len(list)-1 && w.depth == 0 && !w.inner {
			w.u.Skips = append(w.u.Skips, testfile.Skip{Always: true, Reason: "it returns before it checks anything"})
		}
		return true
	}
	return false
}

// ends reports whether control flow ends at a statement. It checks a limited number of levels.
func (w walker) ends(s ast.Stmt, levels int) bool {
	if levels == 0 {
		return false
	}
	switch s := s.(type) {
	case *ast.ReturnStmt, *ast.BranchStmt:
		return true
	case *ast.BlockStmt:
		return slices.ContainsFunc(s.List, func(s ast.Stmt) bool { return w.ends(s, levels-1) })
	case *ast.LabeledStmt:
		return w.ends(s.Stmt, levels-1)
	case *ast.IfStmt:
		return constant(w.g, s.Cond) == testfile.True && w.ends(s.Body, levels-1)
	case *ast.ExprStmt:
		call, ok := s.X.(*ast.CallExpr)
		if !ok {
			return false
		}
		name := w.g.callee(call)
		switch name {
		case "panic", "os.Exit", "syscall.Exit", "runtime.Goexit":
			return true
		}
		x, method, _ := strings.Cut(name, ".")
		return w.isTesting(x) && slices.Contains([]string{"Skip", "Skipf", "SkipNow", "Fatal", "Fatalf", "FailNow"}, method)
	}
	return false
}

func (w walker) clause(n ast.Node, body []ast.Stmt) ast.Visitor {
	w.depth++
	w.guard = n
	w.block(body)
	return nil
}

func (w walker) branch(n *ast.IfStmt) {
	if n.Init != nil {
		ast.Walk(w, n.Init)
	}
	known := constant(w.g, n.Cond)
	if known == testfile.False {
		w.u.Hollow++ // whatever its body reports
	} else {
		ast.Walk(w, n.Cond)
		then := w
		then.guard = n
		if known != testfile.True {
			then.depth++
		}
		checked := len(w.u.Checks)
		then.block(n.Body.List)
		if known != testfile.True && checked == 0 && len(w.u.Checks) == 0 && w.depth == 0 && !w.inner && endsWithReturn(n.Body.List) {
			w.u.EarlyReturns++
		}
	}
	if n.Else != nil && known != testfile.True {
		other := w
		if _, chain := n.Else.(*ast.IfStmt); !chain && known != testfile.False {
			other.depth++
			other.guard = n
		}
		ast.Walk(other, n.Else)
	}
}

// endsWithReturn reports whether statements end with a return.
func endsWithReturn(list []ast.Stmt) bool {
	if len(list) == 0 {
		return false
	}
	_, ok := list[len(list)-1].(*ast.ReturnStmt)
	return ok
}

// loop walks a loop over a table once for each of its cases.
func (w walker) loop(n *ast.RangeStmt) {
	ast.Walk(w, n.X)
	if list, ok := w.table(n.X); ok {
		w.weight = testfile.Saturate(w.weight * len(list))
		if !w.g.result.Full() {
			rows := make([]lexer.Span, 0, len(list))
			for _, e := range list {
				rows = append(rows, w.g.span(e))
			}
			w.g.result.AddCases(w.u, w.g.Source, rows)
		}
		if value, ok := n.Value.(*ast.Ident); ok {
			w.each, w.list = value.Name, list
		}
	}
	w.counted(n, n.Body)
}

func (w walker) forLoop(n *ast.ForStmt) {
	if n.Init != nil {
		ast.Walk(w, n.Init)
	}
	if n.Cond != nil {
		ast.Walk(w, n.Cond)
	}
	if n.Post != nil {
		ast.Walk(w, n.Post)
	}
	w.counted(n, n.Body)
}

// counted walks a loop, and records its bounds.
func (w walker) counted(n ast.Node, body *ast.BlockStmt) {
	before := w.u.Extent()
	w.block(body.List)
	w.u.AddLoop(w.g.Source, lexer.Span{From: w.g.token(n.Pos()), To: w.g.token(body.Pos())}, before)
}

// skippable returns the cases of a table that a call of Skip here can skip: the one around it, or those
// that set the field which the condition around it reads. It returns nil for all.
func (w walker) skippable() []lexer.Digest {
	if w.row != nil {
		return []lexer.Digest{w.g.digest(w.row)}
	}
	n, ok := w.guard.(*ast.IfStmt)
	if !ok || w.each == "" {
		return nil
	}
	field := ""
	ast.Inspect(n.Cond, func(n ast.Node) bool {
		if sel, ok := n.(*ast.SelectorExpr); ok {
			if x, ok := sel.X.(*ast.Ident); ok && x.Name == w.each {
				field = sel.Sel.Name
			}
		}
		return true
	})
	if field == "" {
		return nil
	}
	cases := []lexer.Digest{}
	for _, row := range w.list {
		lit, ok := row.(*ast.CompositeLit)
		if !ok {
			return nil
		}
		for _, e := range lit.Elts {
			set, ok := e.(*ast.KeyValueExpr)
			if !ok {
				return nil // fields without names
			}
			if key, ok := set.Key.(*ast.Ident); ok && key.Name == field {
				cases = append(cases, w.g.digest(row))
			}
		}
	}
	return cases
}

func (w walker) table(x ast.Expr) ([]ast.Expr, bool) {
	if list, ok := elements(x); ok {
		return list, true
	}
	id, ok := ast.Unparen(x).(*ast.Ident)
	if !ok {
		return nil, false
	}
	if list, ok := w.scope.tables[id.Name]; ok {
		return list, true
	}
	list, ok := w.g.tables[id.Name]
	return list, ok
}

// assign records the values of variables.
func (w walker) assign(n *ast.AssignStmt) ast.Visitor {
	recordTables(w.scope.tables, n.Lhs, n.Rhs)
	for i, x := range n.Lhs {
		id, ok := x.(*ast.Ident)
		if !ok || len(n.Lhs) != len(n.Rhs) {
			ast.Walk(w, x)
			continue
		}
		switch v := ast.Unparen(n.Rhs[i]).(type) {
		case *ast.FuncLit:
			w.closure(id.Name, v)
			continue
		case *ast.Ident:
			if id.Name == "_" {
				continue // no use of it
			}
		case *ast.CallExpr:
			if w.isAsserter(v) {
				w.scope.asserters[id.Name] = true
				continue
			}
		}
		if w.scope.testing[id.Name] {
			delete(w.scope.testing, id.Name) // from here on, it has a different value
		}
		ast.Walk(w, n.Rhs[i])
	}
	if len(n.Lhs) != len(n.Rhs) {
		for _, x := range n.Rhs {
			ast.Walk(w, x)
		}
	}
	return nil
}

// closure makes a function within a function a separate unit, whose checks count where it is
// called.
func (w walker) closure(name string, f *ast.FuncLit) {
	u := w.g.result.Add(&testfile.Unit{
		Name: w.u.Name + "." + name, Key: w.u.Name + localMark + name + localMark + strconv.Itoa(len(w.scope.closures)), Local: true,
		Line: w.g.line(f), Empty: len(f.Body.List) == 0, Body: w.g.digest(f),
	})
	w.scope.closures[name] = u.Key
	inner := w
	inner.u, inner.weight, inner.depth, inner.inner, inner.given = u, 1, 0, true, nil
	inner.parameters(f.Type)
	inner.block(f.Body.List)
	u.Callbacks = inner.usedCallbacks(f.Type)
	inner.leave(f.Type)
}

// leave forgets the functions that a function within a function is given.
func (w walker) leave(f *ast.FuncType) {
	for _, p := range f.Params.List {
		for _, n := range p.Names {
			delete(w.scope.callbacks, n.Name)
		}
	}
}

func (w walker) isTesting(name string) bool { return w.scope.testing[name] }

// call judges a call: a subtest, a check, a skip, or a helper. It returns nil if it has walked the
// complete call.
func (w walker) call(n *ast.CallExpr, statement bool) ast.Visitor {
	if w.subtest(n) {
		return nil
	}
	name := w.g.callee(n)
	x, method, _ := strings.Cut(name, ".")
	root := w.root(n.Fun)
	switch {
	case w.isTesting(x) && method != "" && (!w.scope.asserters[x] || !assertions[method]) || root == w.scope.receiver && root != "" && testingMethod(n.Fun):
		w.testingCall(n, name[strings.LastIndexByte(name, '.')+1:])
		return w
	case w.isCheck(n, root):
		w.check(n, root)
		return w
	}
	fallback := 0
	if statement && slices.ContainsFunc(n.Args, w.passesTesting) {
		fallback = 1
	}
	switch f := ast.Unparen(n.Fun).(type) {
	case *ast.Ident:
		w.use(f.Name, fallback)
		for i, a := range n.Args {
			arg := w
			switch ast.Unparen(a).(type) {
			case *ast.FuncLit, *ast.Ident:
				arg.given = &testfile.Given{To: w.key(f.Name), Position: i, Outer: w.given}
			}
			ast.Walk(arg, a)
		}
		return nil
	case *ast.SelectorExpr:
		if _, imported := w.g.imports[root]; imported && root == x {
			w.use(root+"."+f.Sel.Name, fallback) // never known, but counted
		} else {
			w.use("."+f.Sel.Name, fallback)
		}
	}
	return w
}

// testingMethod recognizes s.T().Fatal.
func testingMethod(f ast.Expr) bool {
	sel, ok := f.(*ast.SelectorExpr)
	if !ok {
		return false
	}
	call, ok := sel.X.(*ast.CallExpr)
	if !ok {
		return false
	}
	inner, ok := call.Fun.(*ast.SelectorExpr)
	return ok && inner.Sel.Name == "T"
}

func (w walker) passesTesting(a ast.Expr) bool {
	switch a := ast.Unparen(a).(type) {
	case *ast.Ident:
		return w.isTesting(a.Name)
	case *ast.CallExpr:
		return w.scope.receiver != "" && w.g.callee(a) == w.scope.receiver+".T"
	}
	return false
}

// root returns the name at the beginning of a chain of calls.
func (w walker) root(x ast.Expr) string {
	for range testfile.MaxDepth {
		switch t := ast.Unparen(x).(type) {
		case *ast.SelectorExpr:
			x = t.X
		case *ast.CallExpr:
			x = t.Fun
		case *ast.IndexExpr:
			x = t.X
		case *ast.Ident:
			return t.Name
		default:
			return ""
		}
	}
	return ""
}

func (w walker) add(c testfile.Check) {
	c.Weight, c.Given = w.weight, w.given
	w.u.Checks = append(w.u.Checks, c)
}

// subtest makes t.Run("name", func…) a separate unit.
func (w walker) subtest(n *ast.CallExpr) bool {
	x, method, _ := strings.Cut(w.g.callee(n), ".")
	if method != "Run" || len(n.Args) != 2 || !w.isTesting(x) && x != w.scope.receiver || x == "" {
		return false
	}
	title, ok := n.Args[0].(*ast.BasicLit)
	f, isFunc := n.Args[1].(*ast.FuncLit)
	if !ok || !isFunc || title.Kind != token.STRING {
		return false
	}
	name, _ := strconv.Unquote(title.Value)
	u := w.g.result.Add(&testfile.Unit{
		Name: w.u.Name + "/" + strings.ReplaceAll(name, " ", "_"), Test: w.u.Test, Line: w.g.line(n), Parent: w.u,
		Empty: len(f.Body.List) == 0, Skips: nil,
	})
	if w.depth > 0 {
		u.Skips = append(u.Skips, testfile.Skip{Always: false, Reason: "it does not always run"})
	}
	inner := w
	inner.u, inner.depth, inner.guard, inner.inner = u, 0, nil, false
	inner.parameters(f.Type)
	inner.block(f.Body.List)
	u.Source, u.Text = w.g.Source, lexer.Span{From: w.g.token(f.Type.Pos()), To: w.g.token(f.End())}
	u.Body = w.g.DigestWithout(u.Text, w.g.holes[u])
	w.g.holes[w.u] = append(w.g.holes[w.u], w.g.span(n))
	return true
}
