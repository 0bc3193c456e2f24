package commands

import (
	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/fault"
)

// labelsGuard is the guard of a run's labels, which no agent can change.
const labelsGuard = "labels"

// Denied returns the failure of a change that the policy gate denied; nil if it did not. A change that
// only a label blocks fails for good: an agent could not correct it.
func Denied(what string, v contract.GateVerdict) *contract.Failure {
	if v.Decision != contract.GateDeny {
		return nil
	}
	class, code := contract.ClassHuman, contract.CodeRejected
	for _, r := range v.Reasons {
		if r.Decision == contract.GateDeny && r.Guard != labelsGuard {
			class, code = contract.ClassSafety, contract.CodeDenied
		}
	}
	return &fault.New(class, code, "the policy gate denied %s: %s", what, v.Summary()).Failure
}
