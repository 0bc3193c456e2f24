package flow

import (
	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/fault"
)

// MaxReason bounds the words that go with a command: they are part of histories
// and prompts.
const MaxReason = 4 << 10

// MaxName bounds a name that a caller sent where a message repeats it.
const MaxName = 64

// Rejected is the error of a command that cannot be accepted now. Its sender gets
// the message; nothing is retried.
func Rejected(format string, args ...any) error {
	return fault.ToTemporal(fault.New(contract.ClassHuman, contract.CodeRejected, format, args...), 1)
}

// Because puts a reason that a person gave in parentheses, with a space before
// them; it is empty where no reason was given.
func Because(reason string) string {
	if reason == "" {
		return ""
	}
	return " (" + reason + ")"
}

// MergeConflict says which step's change does not go together with the others.
func MergeConflict(c contract.Conflict) *contract.Failure {
	return &fault.New(contract.ClassLogic, contract.CodeMergeConflict,
		"the change of step %s conflicts with those of steps it does not depend on, in %s; let one depend on the other", c.Step, ListFew(c.Paths)).Failure
}

// ListFew names a few of many.
func ListFew(names []string) string {
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
