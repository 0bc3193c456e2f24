package tool

import (
	"context"
	_ "embed"
	"strings"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/fault"
)

//go:embed check.md
var checkDescription string

type checkParams struct {
	Name string `json:"name" jsonschema:"minLength=1" jsonschema_description:"Name, as in your task."`
	On   string `json:"on,omitempty" jsonschema:"enum=workspace,enum=base" jsonschema_description:"base: without any change. Default: workspace."`
}

func check() Tool {
	return define(Definition{Name: Check, Description: checkDescription, ReadOnly: true, Long: true}, runCheck)
}

func runCheck(ctx context.Context, env Env, p checkParams) (Result, error) {
	if env.Check == nil {
		return failed(contract.CodeForbidden, "The project's checks cannot be run here."), nil
	}
	report, err := env.Check(ctx, p.Name, p.On == "base")
	if err != nil {
		return Result{}, err
	}
	if report.Unknown {
		return failed("", "There is no check named %q. The project's checks: %s.", fault.Clip(p.Name, 100), strings.Join(report.Names, ", ")), nil
	}
	return Result{OK: report.OK, Text: report.Text}, nil
}
