package tool

import (
	"context"
	_ "embed"
)

//go:embed finish.md
var finishDescription string

type finishParams struct {
	Summary string `json:"summary" jsonschema:"minLength=1" jsonschema_description:"Summary of what was done, in a few sentences."`
	Blocked string `json:"blocked,omitempty" jsonschema_description:"Only if the task cannot be done here: the obstacle, and what would help. A person will be asked for help."`
}

func finish() Tool {
	return define(Definition{Name: Finish, Description: finishDescription, ReadOnly: true},
		func(_ context.Context, _ Env, p finishParams) (Result, error) {
			return Result{OK: true, Text: "Done.", Finish: true, Summary: p.Summary, Blocked: p.Blocked}, nil
		})
}
