package pin

import (
	"go/ast"
	gotoken "go/token"
	"path"
	"slices"
	"strconv"
	"strings"
)

// goScope is what names mean within one function.
type goScope struct {
	testing   map[string]bool // variables of type *testing.T and the like
	asserters map[string]bool // assert.New(t), s.Require()
	closures  map[string]string
	tables    map[string][]ast.Expr
	receiver  string
}

// goWalk goes through the statements of a unit and counts what it checks.
type goWalk struct {
	g      *goFile
	u      *unit
	scope  *goScope
	weight int      // how often this place is passed: once for each case of a table
	depth  int      // conditions around this place
	guard  ast.Node // the innermost condition
	inner  bool     // in a function within the function
}

func (w goWalk) parameters(f *ast.FuncType) {
	for _, p := range f.Params.List {
		switch testingType(p.Type) {
		case "T", "B", "F", "TB":
			for _, n := range p.Names {
				w.scope.testing[n.Name] = true
			}
		}
	}
}

// Visit lets ast.Walk go through a unit.
func (w goWalk) Visit(n ast.Node) ast.Visitor {
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
		if n.Cond != nil && constant(w.g, n.Cond) == no {
			return nil
		}
	case *ast.AssignStmt:
		return w.assign(n)
	case *ast.ValueSpec:
		noteTables(w.scope.tables, idents(n.Names), n.Values)
	case *ast.FuncLit:
		inner := w
		inner.inner = true
		inner.parameters(n.Type)
		inner.block(n.Body.List)
		return nil
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

// use notes that a function is called or passed on.
func (w goWalk) use(name string, fallback int) {
	if local, ok := w.scope.closures[name]; ok {
		name = local
	}
	w.u.calls = append(w.u.calls, call{key: name, weight: w.weight, conditional: w.depth > 0, fallback: fallback})
}

// block goes through statements up to the one after which nothing runs, and
// says whether there is one.
func (w goWalk) block(list []ast.Stmt) bool {
	for i, s := range list {
		before := len(w.u.checks) + len(w.u.calls)
		ast.Walk(w, s)
		if !w.ends(s, maxDepth) {
			continue
		}
		if _, returns := s.(*ast.ReturnStmt); returns && before == 0 && i < len(list)-1 && w.depth == 0 && !w.inner {
			w.u.skips = append(w.u.skips, skip{true, "it returns before it checks anything"})
		}
		return true
	}
	return false
}

// ends says whether nothing after a statement runs. It looks a bounded number of
// levels down.
func (w goWalk) ends(s ast.Stmt, levels int) bool {
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
		return constant(w.g, s.Cond) == yes && w.ends(s.Body, levels-1)
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

func (w goWalk) clause(n ast.Node, body []ast.Stmt) ast.Visitor {
	w.depth++
	w.guard = n
	w.block(body)
	return nil
}

func (w goWalk) branch(n *ast.IfStmt) {
	if n.Init != nil {
		ast.Walk(w, n.Init)
	}
	known := constant(w.g, n.Cond)
	if known != no {
		ast.Walk(w, n.Cond)
		then := w
		then.guard = n
		if known != yes {
			then.depth++
		}
		checked := len(w.u.checks)
		then.block(n.Body.List)
		if known != yes && checked == 0 && len(w.u.checks) == 0 && w.depth == 0 && !w.inner && endsWithReturn(n.Body.List) {
			w.u.early++
		}
	}
	if n.Else != nil && known != yes {
		other := w
		if _, chain := n.Else.(*ast.IfStmt); !chain && known != no {
			other.depth++
			other.guard = n
		}
		ast.Walk(other, n.Else)
	}
}

// endsWithReturn says whether statements end with a return.
func endsWithReturn(list []ast.Stmt) bool {
	if len(list) == 0 {
		return false
	}
	_, ok := list[len(list)-1].(*ast.ReturnStmt)
	return ok
}

// loop goes through a loop over a table once for each of its cases.
func (w goWalk) loop(n *ast.RangeStmt) {
	ast.Walk(w, n.X)
	if list, ok := w.table(n.X); ok {
		w.weight = saturated(w.weight * len(list))
		if w.g.suite.noted <= maxCases {
			rows := make([]digest, 0, len(list))
			for _, e := range list {
				rows = append(rows, w.g.digest(e))
			}
			w.g.suite.note(w.u, rows)
		}
	}
	w.block(n.Body.List)
}

func (w goWalk) table(x ast.Expr) ([]ast.Expr, bool) {
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

// assign notes what variables stand for.
func (w goWalk) assign(n *ast.AssignStmt) ast.Visitor {
	noteTables(w.scope.tables, n.Lhs, n.Rhs)
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
		case *ast.CallExpr:
			if w.isAsserter(v) {
				w.scope.asserters[id.Name] = true
				continue
			}
		}
		if w.scope.testing[id.Name] {
			delete(w.scope.testing, id.Name) // something else poses as t
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

// closure makes a function within a function a unit of its own: what it checks
// counts where it is called.
func (w goWalk) closure(name string, f *ast.FuncLit) {
	u := w.g.suite.add(&unit{
		name: w.u.name + "." + name, key: w.u.name + localMark + name + localMark + strconv.Itoa(len(w.scope.closures)), local: true,
		line: w.g.line(f), blank: len(f.Body.List) == 0, body: w.g.digest(f),
	})
	w.scope.closures[name] = u.key
	inner := w
	inner.u, inner.weight, inner.depth, inner.inner = u, 1, 0, true
	inner.parameters(f.Type)
	inner.block(f.Body.List)
}

// isAsserter recognises assert.New(t), require.New(t), s.Require().
func (w goWalk) isAsserter(call *ast.CallExpr) bool {
	x, method, _ := strings.Cut(w.g.callee(call), ".")
	switch method {
	case "New", "NewWithT", "NewGomegaWithT":
		return w.isAssertPackage(x)
	case "Require", "Assert":
		return x == w.scope.receiver && x != ""
	}
	return false
}

func (w goWalk) isAssertPackage(name string) bool {
	p, ok := w.g.imports[name]
	if !ok {
		return false
	}
	switch path.Base(p) {
	case "assert", "require", "is", "quicktest", "gomega", "must", "be", "check", "testify":
		return true
	}
	return strings.Contains(p, "testify") || strings.Contains(p, "assert")
}

func (w goWalk) isTesting(name string) bool { return w.scope.testing[name] }

// call judges a call: a subtest, a check, a skip, or a helper. It answers nil
// when all of it was gone through.
func (w goWalk) call(n *ast.CallExpr, statement bool) ast.Visitor {
	if w.subtest(n) {
		return nil
	}
	name := w.g.callee(n)
	x, method, _ := strings.Cut(name, ".")
	root := w.root(n.Fun)
	switch {
	case w.isTesting(x) && method != "" || root == w.scope.receiver && root != "" && testingMethod(n.Fun):
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
		for _, a := range n.Args {
			ast.Walk(w, a)
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

// testingMethod recognises s.T().Fatal.
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

func (w goWalk) passesTesting(a ast.Expr) bool {
	switch a := ast.Unparen(a).(type) {
	case *ast.Ident:
		return w.isTesting(a.Name)
	case *ast.CallExpr:
		return w.scope.receiver != "" && w.g.callee(a) == w.scope.receiver+".T"
	}
	return false
}

// root is the name that a chain of calls begins with.
func (w goWalk) root(x ast.Expr) string {
	for range maxDepth {
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

// testingCall judges a method of t.
func (w goWalk) testingCall(n *ast.CallExpr, method string) {
	switch method {
	case "Error", "Errorf", "Fatal", "Fatalf", "Fail", "FailNow":
		at := ast.Node(n)
		if w.guard != nil {
			at = w.guard // the condition is what is checked
		}
		w.add(check{text: w.g.digest(at), conditional: w.depth > 1})
	case "Skip", "Skipf", "SkipNow":
		s := skip{w.depth == 0 && !w.inner, "it calls " + method}
		if w.depth > 0 && w.guard != nil && strings.Contains(w.condition(), "testing.Short") {
			s.why = "it is left out of short runs"
		}
		w.u.skips = append(w.u.skips, s)
	case "Add": // a case of a fuzz test
		w.u.rows = append(w.u.rows, w.g.digest(n))
	}
}

func (w goWalk) condition() string {
	if n, ok := w.guard.(*ast.IfStmt); ok {
		if call, ok := n.Cond.(*ast.CallExpr); ok {
			return w.g.callee(call)
		}
	}
	return ""
}

func (w goWalk) add(c check) {
	c.weight = w.weight
	w.u.checks = append(w.u.checks, c)
}

// isCheck says whether a call is one of an assertion library.
func (w goWalk) isCheck(n *ast.CallExpr, root string) bool {
	switch f := ast.Unparen(n.Fun).(type) {
	case *ast.Ident: // imported with a dot
		return goChecks[f.Name] && (w.g.imports["."] != "" && w.isAssertPackage("."))
	case *ast.SelectorExpr:
		if _, chained := f.X.(*ast.CallExpr); chained && root != w.scope.receiver {
			// Expect(x).To(Equal(y)): the end of the chain counts.
			return gomegaEnds[f.Sel.Name] && (w.isAssertPackage(root) || w.scope.asserters[root] || w.isAssertPackage("."))
		}
		switch {
		case w.isAssertPackage(root):
			return goChecks[strings.TrimSuffix(f.Sel.Name, "f")] || goChecks[f.Sel.Name] || w.isExpression(n)
		case w.scope.asserters[root]:
			return f.Sel.Name != "Expect" && f.Sel.Name != "New"
		case root == w.scope.receiver && root != "":
			return goChecks[f.Sel.Name] || goChecks[strings.TrimSuffix(f.Sel.Name, "f")]
		}
	}
	return false
}

// isExpression: of an assertion library that is not known by heart, what is
// given t is a check.
func (w goWalk) isExpression(n *ast.CallExpr) bool {
	return len(n.Args) > 0 && w.passesTesting(n.Args[0])
}

var (
	goChecks = set(`Condition Contains DirExists ElementsMatch Empty Equal EqualError EqualExportedValues EqualValues Error
		ErrorAs ErrorContains ErrorIs Eventually EventuallyWithT Exactly Fail FailNow False FileExists Greater GreaterOrEqual
		HTTPBodyContains HTTPSuccess Implements InDelta InEpsilon IsType JSONEq Len Less LessOrEqual Negative Never Nil
		NoDirExists NoError NoFileExists NotContains NotEmpty NotEqual NotErrorIs NotNil NotPanics NotRegexp NotSame NotSubset
		NotZero Panics PanicsWithError PanicsWithValue Positive Regexp Same Subset True WithinDuration WithinRange YAMLEq Zero
		DeepEqual NilError Assert Check ErrorType Is Expect`)
	goVague    = set("NotNil NotEmpty NotPanics NotZero Condition Implements IsType NotEqual")
	gomegaEnds = set("To ToNot NotTo Should ShouldNot")
)

// check notes an assertion, unless it holds whatever the code does.
func (w goWalk) check(n *ast.CallExpr, root string) {
	sel, ok := ast.Unparen(n.Fun).(*ast.SelectorExpr)
	name := ""
	if ok {
		name = sel.Sel.Name
	}
	base := name
	if !goChecks[base] {
		base = strings.TrimSuffix(base, "f")
	}
	args := n.Args
	if w.isAssertPackage(root) && len(args) > 0 {
		if w.poses(args[0]) {
			return
		}
		args = args[1:]
	}
	if w.hollow(base, args) {
		return
	}
	w.add(check{text: w.g.digest(n), vague: goVague[base], conditional: w.depth > 0})
}

// poses recognises new(testing.T) and &testing.T{}, which no failure reaches.
func (w goWalk) poses(x ast.Expr) bool {
	switch x := ast.Unparen(x).(type) {
	case *ast.UnaryExpr:
		lit, ok := x.X.(*ast.CompositeLit)
		return ok && testingType(lit.Type) == "T"
	case *ast.CallExpr:
		return w.g.callee(x) == "new"
	}
	return false
}

// hollow: it compares a thing with itself or looks at constants only.
func (w goWalk) hollow(name string, args []ast.Expr) bool {
	if len(args) == 0 {
		return false
	}
	switch name {
	case "Fail", "FailNow":
		return false
	case "True", "False", "Nil", "NoError", "NotNil", "Empty", "NotEmpty", "Zero", "NotZero", "Assert", "Check", "NilError":
		return constant(w.g, args[0]) != unknown || fixed(args[0])
	}
	if len(args) < 2 {
		return false
	}
	return w.g.digest(args[0]) == w.g.digest(args[1]) && !impure(args[0]) || fixed(args[0]) && fixed(args[1])
}

// impure: two calls of the same may differ, so comparing them says something.
func impure(x ast.Expr) bool {
	_, ok := x.(*ast.CallExpr)
	return ok
}

// fixed recognises literals and nil.
func fixed(x ast.Expr) bool {
	switch x := ast.Unparen(x).(type) {
	case *ast.BasicLit:
		return true
	case *ast.Ident:
		return x.Name == "nil" || x.Name == "true" || x.Name == "false"
	case *ast.UnaryExpr:
		return x.Op != gotoken.AND && x.Op != gotoken.ARROW && fixed(x.X)
	}
	return false
}

// subtest makes t.Run("name", func…) a unit of its own.
func (w goWalk) subtest(n *ast.CallExpr) bool {
	x, method, _ := strings.Cut(w.g.callee(n), ".")
	if method != "Run" || len(n.Args) != 2 || !w.isTesting(x) && x != w.scope.receiver || x == "" {
		return false
	}
	title, ok := n.Args[0].(*ast.BasicLit)
	f, isFunc := n.Args[1].(*ast.FuncLit)
	if !ok || !isFunc || title.Kind != gotoken.STRING {
		return false
	}
	name, _ := strconv.Unquote(title.Value)
	u := w.g.suite.add(&unit{
		name: w.u.name + "/" + strings.ReplaceAll(name, " ", "_"), test: w.u.test, line: w.g.line(n), parent: w.u,
		blank: len(f.Body.List) == 0, skips: nil,
	})
	if w.depth > 0 {
		u.skips = append(u.skips, skip{false, "it is run"})
	}
	inner := w
	inner.u, inner.depth, inner.guard, inner.inner = u, 0, nil, false
	inner.parameters(f.Type)
	inner.block(f.Body.List)
	whole := span{w.g.token(f.Type.Pos()), w.g.token(f.End())}
	u.body = w.g.without(whole, w.g.holes[u])
	w.g.holes[w.u] = append(w.g.holes[w.u], w.g.span(n))
	return true
}

// truth is what is known of a condition without running anything.
type truth uint8

const (
	unknown truth = iota
	yes
	no
)

func truthOf(b bool) truth {
	if b {
		return yes
	}
	return no
}

// constant evaluates conditions that do not depend on anything.
func constant(g *goFile, x ast.Expr) truth {
	switch x := ast.Unparen(x).(type) {
	case *ast.Ident:
		if x.Name == "true" || x.Name == "false" {
			return truthOf(x.Name == "true")
		}
	case *ast.UnaryExpr:
		if v := constant(g, x.X); x.Op == gotoken.NOT && v != unknown {
			return truthOf(v == no)
		}
	case *ast.BinaryExpr:
		return constantPair(g, x)
	}
	return unknown
}

func constantPair(g *goFile, x *ast.BinaryExpr) truth {
	switch x.Op {
	case gotoken.LAND, gotoken.LOR:
		decides := truthOf(x.Op == gotoken.LOR)
		a, b := constant(g, x.X), constant(g, x.Y)
		if a == decides || b == decides {
			return decides
		}
		if a != unknown && b != unknown {
			return truthOf(decides == no)
		}
	case gotoken.EQL, gotoken.NEQ:
		if g.digest(x.X) == g.digest(x.Y) && !impure(x.X) {
			return truthOf(x.Op == gotoken.EQL)
		}
		if fixed(x.X) && fixed(x.Y) {
			return truthOf(x.Op == gotoken.NEQ)
		}
	default: // depends on values
	}
	return unknown
}
