package tool

import (
	"context"
	_ "embed"
	"strings"

	"github.com/rocketgpt/orchestrator/contract"
)

//go:embed ask_brain.md
var askBrainDescription string

type askBrainParams struct {
	Query string `json:"query" jsonschema:"minLength=1,maxLength=8000" jsonschema_description:"What to find."`
}

func askBrain() Tool {
	return define(Definition{Name: AskBrain, Description: askBrainDescription, ReadOnly: true}, queryBrain)
}

func queryBrain(ctx context.Context, env Env, p askBrainParams) (Result, error) {
	if strings.TrimSpace(p.Query) == "" {
		return failed(contract.CodeInvalidOutput, "The query is blank. Say in words what to find."), nil
	}
	if env.Brain == nil {
		return failed("", "This repository has no index here. Use search and list_files instead."), nil
	}
	text, err := env.Brain(ctx, p.Query)
	if err != nil {
		return Result{}, err
	}
	if text == "" {
		text = "[nothing found] Use other words, or search for an exact name."
	}
	return Result{OK: true, Text: text}, nil
}
