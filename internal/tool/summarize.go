package tool

import (
	"context"
	_ "embed"
)

//go:embed summarize.md
var summarizeDescription string

// SummaryBytes limits the summary that a model makes of its conversation.
const SummaryBytes = 16 << 10

type summarizeParams struct {
	Summary string `json:"summary" jsonschema:"minLength=1,maxLength=16384" jsonschema_description:"All you need to continue: findings with files and lines, decisions and reasons, changes, checks and their results, failures, what is left."`
}

func summarize() Tool {
	return define(Definition{Name: Summarize, Description: summarizeDescription, ReadOnly: true},
		func(_ context.Context, _ Env, _ summarizeParams) (Result, error) {
			return Result{OK: true, Text: "The earlier part of the conversation is replaced by your summary."}, nil
		})
}
