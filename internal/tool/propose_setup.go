package tool

import (
	"context"
	_ "embed"

	"github.com/rocketgpt/orchestrator/contract"
)

//go:embed propose_setup.md
var proposeSetupDescription string

// SetupProposal describes how to set up a repository, as proposed by the environment agent.
type SetupProposal struct {
	Commands  []string          `json:"commands" jsonschema:"minItems=1,maxItems=30" jsonschema_description:"Shell commands, in order."`
	Variables map[string]string `json:"variables,omitempty" jsonschema_description:"Environment variables for the setup and for every later command."`
	Reason    string            `json:"reason" jsonschema:"minLength=1" jsonschema_description:"The problem, and why this setup solves it."`
}

func proposeSetup() Tool {
	return define(Definition{Name: ProposeSetup, Description: proposeSetupDescription, ReadOnly: true},
		func(_ context.Context, env Env, p SetupProposal) (Result, error) {
			if env.Propose == nil {
				return failed(contract.CodeForbidden, "A setup cannot be proposed here."), nil
			}
			if wrong := env.Propose(p); wrong != "" {
				return failed(contract.CodeInvalidOutput, "The proposal was rejected: %s.", wrong), nil
			}
			return Result{OK: true, Text: "Recorded. Call finish to try the proposal."}, nil
		})
}
