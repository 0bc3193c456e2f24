package golang

import "go/ast"

// main judges TestMain: it must run the tests and report how they ended.
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

// exitsWithSuccess finds an unconditional end of the process that reports success.
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
				g.result.Suppresses = "it ends the tests with exit code 0, whatever they found"
				return true
			}
		}
	}
	return false
}
