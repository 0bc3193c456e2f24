package verify

import (
	"fmt"
	"strings"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/fault"
	"github.com/rocketgpt/orchestrator/internal/verify/output"
)

// startFailure is why a command could not even begin its work.
type startFailure struct {
	line string // the line that says so
	what string // what is missing, if known
}

// startFailure says why a command could not do its work at all, nil if it could: its
// program is missing, or it says that what it needs was never installed. If tests ran,
// it could.
func (e *execution) startFailure() *startFailure {
	r := e.Result
	if !e.failed() || r.TimedOut || r.Signal != "" || r.LimitExceeded != "" || e.counted && e.Parsed.Summary() != (contract.TestSummary{}) {
		return nil
	}
	text := string(tail(e))
	if line, what, ok := fault.Unprepared(fault.Output{Command: e.Invocation.String(), ExitCode: r.ExitCode, Text: text}); ok {
		return &startFailure{line: line, what: what}
	}
	if r.ExitCode != 126 && r.ExitCode != 127 {
		return nil
	}
	o := &startFailure{line: fault.Clip(errorLine([]byte(text)), 300)}
	if len(e.Invocation.Args) > 0 && strings.TrimSpace(text) == "" {
		o.what = e.Invocation.Args[0]
	}
	return o
}

// message says that a command could not start.
func (o *startFailure) message(e *execution) string {
	text := fmt.Sprintf("`%s` could not start", fault.Clip(output.Clean(e.Invocation.String()), 200))
	switch {
	case o.what != "":
		text += ": " + o.what + " is not installed"
	case e.Result.ExitCode == 126:
		text += ": a program is not executable"
	case e.Result.ExitCode == 127:
		text += ": a program was not found"
	}
	if o.line != "" {
		text += ": " + o.line
	}
	return output.Message(text)
}

// unstarted is the first command of the check that could not begin its work, nil if
// all could.
func (r *run) unstarted() *execution {
	for _, e := range r.executions {
		if e.startFailure() != nil {
			return e
		}
	}
	return nil
}

// ruleUnavailable marks the finding that a check could not start.
const ruleUnavailable = "check-unavailable"
