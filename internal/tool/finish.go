package tool

import (
	"context"
	_ "embed"
)

//go:embed finish.md
var finishDescription string

type finishParams struct {
	Summary string `json:"summary" jsonschema:"minLength=1" jsonschema_description:"What was done, in a few sentences."`
}

func finish() Tool {
	return define(Definition{Name: Finish, Description: finishDescription, ReadOnly: true},
		func(_ context.Context, _ Env, p finishParams) (Result, error) {
			return Result{OK: true, Text: "Done.", Finish: true, Summary: p.Summary}, nil
		})
}
