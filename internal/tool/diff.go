package tool

import (
	"context"
	_ "embed"
	"strings"

	"github.com/rocketgpt/orchestrator/contract"
)

//go:embed diff.md
var diffDescription string

type diffParams struct {
	Path string `json:"path,omitempty" jsonschema_description:"File or directory. Default: all."`
}

func diff() Tool {
	return define(Definition{Name: Diff, Description: diffDescription, ReadOnly: true}, runDiff)
}

func runDiff(ctx context.Context, env Env, p diffParams) (Result, error) {
	if env.Diff == nil {
		return failed(contract.CodeForbidden, "The workspace cannot be compared: it has no base commit."), nil
	}
	name, err := cleanDir(p.Path)
	if err != nil {
		return answer(Result{}, err)
	}
	if name == "." {
		name = ""
	}
	text, err := env.Diff(ctx, name)
	if err != nil {
		return Result{}, err
	}
	if text == "" {
		return Result{OK: true, Text: "[no differences]\n"}, nil
	}
	var b strings.Builder
	err = env.show(ctx, &b, []section{{text: cleanOutput([]byte(text))}})
	return Result{OK: true, Text: b.String()}, err
}
