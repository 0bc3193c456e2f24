package golang

import (
	"go/ast"
	"go/token"
	"path"
	"strings"

	"github.com/rocketgpt/orchestrator/internal/pin/lexer"
	"github.com/rocketgpt/orchestrator/internal/pin/testfile"
)

// isAsserter recognizes assert.New(t), require.New(t), s.Require().
func (w walker) isAsserter(call *ast.CallExpr) bool {
	x, method, _ := strings.Cut(w.g.callee(call), ".")
	switch method {
	case "New", "NewWithT", "NewGomegaWithT":
		return w.isAssertPackage(x)
	case "Require", "Assert":
		return x == w.scope.receiver && x != ""
	}
	return false
}

func (w walker) isAssertPackage(name string) bool {
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

// isCheck reports whether a call is one of an assertion library.
func (w walker) isCheck(n *ast.CallExpr, root string) bool {
	switch f := ast.Unparen(n.Fun).(type) {
	case *ast.Ident: // imported with a dot
		return assertions[f.Name] && (w.g.imports["."] != "" && w.isAssertPackage("."))
	case *ast.SelectorExpr:
		if _, chained := f.X.(*ast.CallExpr); chained && root != w.scope.receiver {
			// Expect(x).To(Equal(y)): the end of the chain determines the check.
			return gomegaEnds[f.Sel.Name] && (w.isAssertPackage(root) || w.scope.asserters[root] || w.isAssertPackage("."))
		}
		switch {
		case w.isAssertPackage(root):
			return assertions[strings.TrimSuffix(f.Sel.Name, "f")] || assertions[f.Sel.Name] || w.isExpression(n)
		case w.scope.asserters[root]:
			return f.Sel.Name != "Expect" && f.Sel.Name != "New"
		case root == w.scope.receiver && root != "":
			return assertions[f.Sel.Name] || assertions[strings.TrimSuffix(f.Sel.Name, "f")]
		}
	}
	return false
}

// isExpression reports whether an unlisted function of an assertion library is a check:
// it is passed t.
func (w walker) isExpression(n *ast.CallExpr) bool {
	return len(n.Args) > 0 && w.passesTesting(n.Args[0])
}

var (
	assertions = lexer.Set(`Condition Contains DirExists ElementsMatch Empty Equal EqualError EqualExportedValues EqualValues Error
		ErrorAs ErrorContains ErrorIs Eventually EventuallyWithT Exactly Fail FailNow False FileExists Greater GreaterOrEqual
		HTTPBodyContains HTTPSuccess Implements InDelta InEpsilon IsType JSONEq Len Less LessOrEqual Negative Never Nil
		NoDirExists NoError NoFileExists NotContains NotEmpty NotEqual NotErrorIs NotNil NotPanics NotRegexp NotSame NotSubset
		NotZero Panics PanicsWithError PanicsWithValue Positive Regexp Same Subset True WithinDuration WithinRange YAMLEq Zero
		DeepEqual NilError Assert Check ErrorType Is Expect`)
	vagueAssertions = lexer.Set("NotNil NotEmpty NotPanics NotZero Condition Implements IsType NotEqual")
	anyFailure      = lexer.Set("Error Panics")
	namedFailure    = lexer.Set("EqualError ErrorAs ErrorContains ErrorIs PanicsWithError PanicsWithValue")
	gomegaEnds      = lexer.Set("To ToNot NotTo Should ShouldNot")
)

// check records an assertion unless it always holds.
func (w walker) check(n *ast.CallExpr, root string) {
	sel, ok := ast.Unparen(n.Fun).(*ast.SelectorExpr)
	name := ""
	if ok {
		name = sel.Sel.Name
	}
	base := name
	if !assertions[base] {
		base = strings.TrimSuffix(base, "f")
	}
	args := n.Args
	if w.isAssertPackage(root) && len(args) > 0 {
		if w.fakeTesting(args[0]) {
			w.u.Hollow++
			return
		}
		args = args[1:]
	}
	if w.trivial(base, args) {
		w.u.Hollow++
		return
	}
	anyText := base == "ErrorContains" && len(args) > 1 && emptyText(args[1])
	w.add(testfile.Check{
		Digest: w.g.digest(n), Text: w.g.span(n), Vague: vagueAssertions[base] || anyText, Conditional: w.depth > 0,
		Fails: anyFailure[base] || anyText, FailsAs: namedFailure[base] && !anyText,
	})
}

// fakeTesting recognizes new(testing.T) and &testing.T{}, whose failures are ignored.
func (w walker) fakeTesting(x ast.Expr) bool {
	switch x := ast.Unparen(x).(type) {
	case *ast.UnaryExpr:
		lit, ok := x.X.(*ast.CompositeLit)
		return ok && testingType(lit.Type) == "T"
	case *ast.CallExpr:
		return w.g.callee(x) == "new"
	}
	return false
}

// trivial reports whether an assertion compares a value with itself or checks only constants.
func (w walker) trivial(name string, args []ast.Expr) bool {
	if len(args) == 0 {
		return false
	}
	switch name {
	case "Fail", "FailNow":
		return false
	case "True", "False", "Nil", "NoError", "NotNil", "Empty", "NotEmpty", "Zero", "NotZero", "Assert", "Check", "NilError":
		return constant(w.g, args[0]) != testfile.Unknown || fixed(args[0])
	}
	if len(args) < 2 {
		return false
	}
	return w.g.digest(args[0]) == w.g.digest(args[1]) && !impure(args[0]) || fixed(args[0]) && fixed(args[1])
}

// impure reports whether an expression is a call: two calls may return different results, so
// comparing them is a check.
func impure(x ast.Expr) bool {
	_, ok := x.(*ast.CallExpr)
	return ok
}

// fixed recognizes literals and nil.
func fixed(x ast.Expr) bool {
	switch x := ast.Unparen(x).(type) {
	case *ast.BasicLit:
		return true
	case *ast.Ident:
		return x.Name == "nil" || x.Name == "true" || x.Name == "false"
	case *ast.UnaryExpr:
		return x.Op != token.AND && x.Op != token.ARROW && fixed(x.X)
	}
	return false
}

// emptyText recognizes "", which every text contains.
func emptyText(x ast.Expr) bool {
	lit, ok := ast.Unparen(x).(*ast.BasicLit)
	return ok && lit.Kind == token.STRING && len(lit.Value) == len(`""`)
}

// testingCall judges a method of t.
func (w walker) testingCall(n *ast.CallExpr, method string) {
	switch method {
	case "Error", "Errorf", "Fatal", "Fatalf", "Fail", "FailNow":
		at := ast.Node(n)
		if w.guard != nil {
			at = w.guard // the condition is the check
		}
		w.add(testfile.Check{Digest: w.g.digest(at), Conditional: w.depth > 1})
	case "Skip", "Skipf", "SkipNow":
		s := testfile.Skip{Always: w.depth == 0 && !w.inner, Reason: "it calls " + method, Cases: w.skippable()}
		if w.depth > 0 && w.guard != nil && strings.Contains(w.condition(), "testing.Short") {
			s.Reason = "it is skipped in short runs"
		}
		w.u.Skips = append(w.u.Skips, s)
	case "Add": // a case of a fuzz test
		w.g.result.AddCases(w.u, w.g.Source, []lexer.Span{w.g.span(n)})
	}
}

func (w walker) condition() string {
	if n, ok := w.guard.(*ast.IfStmt); ok {
		if call, ok := n.Cond.(*ast.CallExpr); ok {
			return w.g.callee(call)
		}
	}
	return ""
}

// constant evaluates conditions that do not depend on anything.
func constant(g *file, x ast.Expr) testfile.Truth {
	switch x := ast.Unparen(x).(type) {
	case *ast.Ident:
		if x.Name == "true" || x.Name == "false" {
			return testfile.TruthOf(x.Name == "true")
		}
	case *ast.UnaryExpr:
		if v := constant(g, x.X); x.Op == token.NOT && v != testfile.Unknown {
			return testfile.TruthOf(v == testfile.False)
		}
	case *ast.BinaryExpr:
		return constantPair(g, x)
	}
	return testfile.Unknown
}

func constantPair(g *file, x *ast.BinaryExpr) testfile.Truth {
	switch x.Op {
	case token.LAND, token.LOR:
		decides := testfile.TruthOf(x.Op == token.LOR)
		a, b := constant(g, x.X), constant(g, x.Y)
		if a == decides || b == decides {
			return decides
		}
		if a != testfile.Unknown && b != testfile.Unknown {
			return testfile.TruthOf(decides == testfile.False)
		}
	case token.EQL, token.NEQ:
		if g.digest(x.X) == g.digest(x.Y) && !impure(x.X) {
			return testfile.TruthOf(x.Op == token.EQL)
		}
		if fixed(x.X) && fixed(x.Y) {
			return testfile.TruthOf(x.Op == token.NEQ)
		}
	default: // depends on values
	}
	return testfile.Unknown
}
