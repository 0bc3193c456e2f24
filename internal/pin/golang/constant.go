package golang

import (
	"go/ast"
	"go/token"

	"github.com/rocketgpt/orchestrator/internal/pin/testfile"
)

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
