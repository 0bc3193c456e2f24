package verify

import (
	"fmt"
	"slices"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/fault"
	"github.com/rocketgpt/orchestrator/internal/verify/output"
)

// brokenMessage describes why a command was interrupted.
func brokenMessage(e *execution, r *run) string {
	command := fault.Clip(output.Clean(e.Invocation.String()), 200)
	switch {
	case e.Result.TimedOut:
		limit, _ := r.timeout()
		return fmt.Sprintf("`%s` was stopped at the check's time limit of %s", command, limit)
	case e.Result.LimitExceeded != "":
		return fmt.Sprintf("`%s` was stopped because it exceeded the limit of %s", command, e.Result.LimitExceeded)
	case e.Result.Signal != "":
		return fmt.Sprintf("`%s` was terminated by signal %s%s", command, e.Result.Signal, because(e))
	}
	return fmt.Sprintf("`%s` crashed: exit code %d, which indicates signal %d%s", command, e.Result.ExitCode, e.Result.ExitCode-128, because(e))
}

// unexplained returns the finding text for a failed command without a known cause.
func unexplained(e *execution) string {
	text := fmt.Sprintf("`%s` exited with code %d", fault.Clip(output.Clean(e.Invocation.String()), 200), e.Result.ExitCode)
	switch {
	case e.Parsed.Summary().Failed > 0:
		text = fmt.Sprintf("%d tests failed in `%s`", e.Parsed.Summary().Failed, fault.Clip(output.Clean(e.Invocation.String()), 200))
	case e.Parsed.Summary().Passed+len(e.Parsed.Cases) > 0:
		text += " although no test failed"
	case e.counted && e.Parsed.Summary() == contract.TestSummary{}:
		text += " without running a test"
	}
	return fault.Clip(text+because(e), output.MaxMessage)
}

// because quotes the most informative line of the output, if any.
func because(e *execution) string {
	line := output.ErrorLine(e.Result.Stderr)
	if line == "" {
		line = output.ErrorLine(e.Result.Stdout)
	}
	if line == "" {
		return ""
	}
	return ": " + fault.Clip(line, 300)
}

// mainMessage returns the most informative line about a failed check.
func (r *run) mainMessage(o Outcome) string {
	for _, e := range r.executions {
		if o := e.startFailure(); o != nil && r.job.Check.Category != contract.CategoryLint {
			return o.message(e)
		}
		if e.interruption() != "" {
			return brokenMessage(e, r)
		}
	}
	var best contract.Finding
	for _, f := range o.Findings {
		if best.Message == "" || rank(f.Severity) > rank(best.Severity) {
			best = f
		}
	}
	text := best.Message
	if best.Location != "" {
		text = best.Location + ": " + text
	}
	if more := o.Summary.Failed - 1; more > 0 {
		text = fault.Clip(text, output.MaxMessage-40) + fmt.Sprintf(" (and %d more failed tests)", more)
	}
	return text
}

// tail is the end of a command's output.
func tail(e *execution) []byte {
	const size = 16 << 10
	out, errs := e.Result.Stdout, e.Result.Stderr
	return slices.Concat(out[max(0, len(out)-size):], errs[max(0, len(errs)-size):])
}

func rank(s contract.Severity) int {
	switch s {
	case contract.SeverityMajor:
		return 3
	case contract.SeverityMedium:
		return 2
	default:
		return 1
	}
}
