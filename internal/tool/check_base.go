package tool

import (
	"context"
	_ "embed"

	"github.com/rocketgpt/orchestrator/contract"
)

//go:embed check_base.md
var checkBaseDescription string

func checkBase() Tool {
	return define(Definition{Name: CheckBase, Description: checkBaseDescription, Long: true, Commands: true}, runOnBase)
}

func runOnBase(ctx context.Context, env Env, p runCommandParams) (Result, error) {
	if env.Base == nil {
		return failed(contract.CodeForbidden, "Commands cannot be run on the base commit here."), nil
	}
	c, done, err := env.Base(ctx)
	if err != nil {
		return Result{}, err
	}
	defer done()
	env.Root, env.Command = c.Root, c
	result, err := run(ctx, env, p)
	result.Changed = false // of the workspace, to which it had no access
	return result, err
}
