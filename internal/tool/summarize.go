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
	Summary string `json:"summary" jsonschema:"minLength=1,maxLength=16384" jsonschema_description:"What you would need to continue without the conversation: what you found out and where (files, lines), decisions and their reasons, what has been changed and checked with which result, what failed and why, and what is left to do."`
}

func summarize() Tool {
	return define(Definition{Name: Summarize, Description: summarizeDescription, ReadOnly: true},
		func(_ context.Context, _ Env, _ summarizeParams) (Result, error) {
			return Result{OK: true, Text: "The earlier part of the conversation is replaced by your summary."}, nil
		})
}
