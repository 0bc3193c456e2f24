package checks

import (
	"fmt"
	"slices"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/fault"
	"github.com/rocketgpt/orchestrator/internal/sandbox"
	"github.com/rocketgpt/orchestrator/internal/verify/output"
)

// Finished is a command that has ended.
type Finished struct {
	Invocation Invocation
	Result     sandbox.Result
	Parsed     output.Results
	// HasReport: the command left a report.
	HasReport bool
}

// DropUnseen records that the tests of a command, or of a package in dir, were not seen
// to end. What passed there is not counted.
func (f *Finished) DropUnseen(l output.Level, dir, text string, of func(output.Case) bool) {
	f.Parsed.Cases = slices.DeleteFunc(f.Parsed.Cases, func(c output.Case) bool { return c.Status == contract.TestPassed && of(c) })
	f.Parsed.Reported = nil
	f.Parsed.Problems = append(f.Parsed.Problems, output.Problem{Level: l, Path: dir, Rule: RuleCutShort, Message: text})
}

// RuleCutShort marks the finding that tests ended with exit code 0 and were not seen
// to run to their end.
const RuleCutShort = "tests-cut-short"

func anyCase(output.Case) bool { return true }

// unseenMessage says what was not seen of a command that ended with exit code 0. It has no
// counts: the same finding of the base commit is recognized by its message.
func unseenMessage(f *Finished, missing, causes string) string {
	return fmt.Sprintf("`%s` ended with exit code 0, but its tests were not seen to end: %s. What it reports as passed does not count. "+
		"Code under test has ended the process early, or printed results of its own; look for %s in what is imported and tested",
		fault.Clip(output.Clean(f.Invocation.String()), 200), missing, causes)
}

// mustReport fails a command that ends with exit code 0 and leaves no report, although its
// runner always writes one.
func mustReport(causes string) func(*Finished, output.Paths) {
	return func(f *Finished, _ output.Paths) {
		if f.Result.OK() && !f.HasReport {
			f.DropUnseen(output.Error, "", unseenMessage(f, "the report that the runner writes at its end is missing", causes), anyCase)
		}
	}
}
