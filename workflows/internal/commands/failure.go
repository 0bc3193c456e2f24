package commands

import (
	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/fault"
)

// MaxReason is the maximum length of a command's text in bytes: the text becomes part of histories
// and prompts.
const MaxReason = 4 << 10

// MaxName is the maximum length of a caller's name in a message, in bytes.
const MaxName = 64

// Rejected returns the error for a command that cannot be accepted now. Its sender gets
// the message; nothing is retried.
func Rejected(format string, args ...any) error {
	return fault.ToTemporal(fault.New(contract.ClassHuman, contract.CodeRejected, format, args...), 1)
}

// Because returns a person's reason in parentheses, after a space; it is empty if no
// reason was given.
func Because(reason string) string {
	if reason == "" {
		return ""
	}
	return " (" + reason + ")"
}

// MergeConflict returns the failure of a step whose change conflicts with the others.
func MergeConflict(c contract.Conflict) *contract.Failure {
	return &fault.New(contract.ClassLogic, contract.CodeMergeConflict,
		"the change from step %s conflicts in %s with changes from steps that are independent of it; add a dependency between these steps", c.Step, ListFew(c.Paths)).Failure
}

// ListFew lists the first few of many names.
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
