package workflows

import (
	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/fault"
)

// maxReason bounds the words that go with a command: they are part of histories
// and prompts.
const maxReason = 4 << 10

// maxName bounds a name that a caller sent where a message repeats it.
const maxName = 64

func rejected(format string, args ...any) error {
	return fault.ToTemporal(fault.New(contract.ClassHuman, contract.CodeRejected, format, args...), 1)
}

func because(reason string) string {
	if reason == "" {
		return ""
	}
	return " (" + reason + ")"
}

// conflictFailure says which step's change does not go together with the others.
func conflictFailure(c contract.Conflict) *contract.Failure {
	return &fault.New(contract.ClassLogic, contract.CodeMergeConflict,
		"the change of step %s conflicts with those of steps it does not depend on, in %s; let one depend on the other", c.Step, listed(c.Paths)).Failure
}

// listed names a few of many.
func listed(names []string) string {
	const most = 10
	out := ""
	for i, n := range names {
		if i == most {
			return out + " and more"
		}
		if i > 0 {
			out += ", "
		}
		out += n
	}
	return out
}
