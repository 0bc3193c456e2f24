package verify

import (
	"fmt"
	"strings"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/fault"
	"github.com/rocketgpt/orchestrator/internal/verify/output"
)

// startFailure is the reason why a command could not start.
type startFailure struct {
	line string // the line of output that shows it
	what string // what is missing, if known
}

// startFailure returns the reason why a command could not start, or nil if it could: its program is
// missing, or its output reports that dependencies are not installed. If tests ran, it started.
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
	o := &startFailure{line: fault.Clip(output.ErrorLine([]byte(text)), 300)}
	if len(e.Invocation.Args) > 0 && strings.TrimSpace(text) == "" {
		o.what = e.Invocation.Args[0]
	}
	return o
}

// message reports that a command could not start.
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

// unstarted returns the first command of the check that could not start, or nil if all started.
func (r *run) unstarted() *execution {
	for _, e := range r.executions {
		if e.startFailure() != nil {
			return e
		}
	}
	return nil
}
