package tool

import (
	"context"
	_ "embed"
)

//go:embed finish.md
var finishDescription string

type finishParams struct {
	Summary string `json:"summary" jsonschema:"minLength=1" jsonschema_description:"What was changed, why, and how it was checked, in a few sentences."`
	Blocked string `json:"blocked,omitempty" jsonschema_description:"The obstacle, and what would help. A person is asked."`
}

func finish() Tool {
	return define(Definition{Name: Finish, Description: finishDescription, ReadOnly: true},
		func(_ context.Context, _ Env, p finishParams) (Result, error) {
			return Result{OK: true, Text: "Done.", Finish: true, Summary: p.Summary, Blocked: p.Blocked}, nil
		})
}
