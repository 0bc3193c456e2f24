// Package verdict decides what the outcomes of checks mean for a run: whether it may
// continue, and if not, why. It reads nothing and runs nothing, so recorded outcomes
// can be judged again under other thresholds.
package verdict

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/fault"
)

// Of sums up the checks of one execution of the tester and decides whether the run may
// continue. A failed test or build always stops it; other checks, including those of
// pinned and of new tests, count by their findings. What Compare found to be known from
// the base commit neither stops a run nor counts.
func Of(checks []contract.CheckResult, most contract.Thresholds) contract.TestReportResult {
	var out contract.TestReportResult
	for _, c := range checks {
		if c.Counts() {
			out.Summary = out.Summary.Add(c.Summary)
		}
		out.Major += c.Major
		out.Medium += c.Medium
		out.Minor += c.Minor
	}
	if e := failure(out, checks, most); e != nil {
		out.Failure = &e.Failure
	}
	switch s := out.Summary; {
	case s.Skipped > 0 && s.Passed+s.Failed+s.Flaky == 0:
		out.Warning = fmt.Sprintf("no test ran: all %d were skipped", s.Skipped)
	case out.Medium > most.MaxMedium:
		out.Warning = fmt.Sprintf("verification has %d medium findings, above the warning threshold of %d (findings.max_medium)", out.Medium, most.MaxMedium)
	}
	return out
}

// Judged reports whether a failure is what Of says about checks, and not that they
// could not be carried out.
func Judged(f *contract.Failure) bool {
	if f == nil {
		return false
	}
	if f.Class == contract.ClassConfig {
		return f.Code == contract.CodeMissing
	}
	if f.Class != contract.ClassAssertion && f.Class != contract.ClassRuntime {
		return false
	}
	return slices.Contains([]contract.Code{
		contract.CodeTestsFailed, contract.CodeCheckFailed, contract.CodeNoTests, contract.CodeFindings, contract.CodeTimeout, contract.CodeCommandCrashed,
	}, f.Code)
}

func failure(out contract.TestReportResult, checks []contract.CheckResult, most contract.Thresholds) *fault.Error {
	red := slices.DeleteFunc(slices.Clone(checks), func(c contract.CheckResult) bool { return c.OK || c.KnownOnly })
	for _, c := range red {
		if stops(c) && c.Check.Retest == 0 {
			return redCheck(c, out, checks)
		}
	}
	for _, c := range red {
		if stops(c) {
			return fault.New(contract.ClassAssertion, contract.CodeTestsFailed, "not stable: failed in retest %d of %d: %s, which passed before: %s",
				c.Check.Retest, c.Check.Retests, c.Check.Original().ID, c.Message)
		}
	}
	if out.Major > most.MaxMajor {
		return fault.New(contract.ClassAssertion, contract.CodeFindings,
			"verification has %d major findings, more than the %d allowed (findings.max_major)%s", out.Major, most.MaxMajor, firstRed(red))
	}
	return nil
}

// stops reports whether a failed check stops a run, whatever the thresholds say.
func stops(c contract.CheckResult) bool {
	switch c.Check.Category {
	case contract.CategoryTest:
		return c.Check.ID != contract.CheckPinnedTests && c.Check.ID != contract.CheckNewTests && c.Code != contract.CodeFindings
	case contract.CategoryBuild:
		return true
	default:
		return false
	}
}

// redCheck returns the failure for a failed check.
func redCheck(c contract.CheckResult, out contract.TestReportResult, checks []contract.CheckResult) *fault.Error {
	name, message := c.Check.ID, c.Message
	switch c.Code {
	case contract.CodeTestsFailed:
		if out.Summary.Failed == 0 { // something other than a test is wrong with the tests
			return fault.New(contract.ClassAssertion, contract.CodeTestsFailed, "%s failed: %s", name, message+known(c)+touched(checks))
		}
		return fault.New(contract.ClassAssertion, contract.CodeTestsFailed, "%d of %d tests failed, in %s: %s%s",
			out.Summary.Failed, out.Summary.Failed+out.Summary.Passed+out.Summary.Flaky, name, message, known(c)+touched(checks))
	case contract.CodeTimeout:
		return fault.New(contract.ClassRuntime, contract.CodeTimeout, "%s exceeded its time limit after %s (verification.timeout): %s", name, time.Duration(c.DurationMS)*time.Millisecond, message)
	case contract.CodeCommandCrashed:
		return fault.New(contract.ClassRuntime, contract.CodeCommandCrashed, "%s crashed: %s", name, message)
	case contract.CodeMissing:
		return fault.New(contract.ClassConfig, contract.CodeMissing, "%s could not run: %s", name, message)
	case contract.CodeNoTests:
		return fault.New(contract.ClassAssertion, contract.CodeNoTests, "%s found nothing to run: %s", name, message)
	default:
		return fault.New(contract.ClassAssertion, contract.CodeCheckFailed, "%s failed: %s", name, message)
	}
}

// known says how much of a failed check is not the change's fault.
func known(c contract.CheckResult) string {
	if c.Known == 0 {
		return ""
	}
	return fmt.Sprintf("; %d of its findings also exist on the base commit", c.Known)
}

// touched says what the change did to tests: a test that fails because it was changed
// looks the same as one that found an error.
func touched(checks []contract.CheckResult) string {
	for _, c := range checks {
		if c.Check.ID == contract.CheckPinnedTests && c.Message != "" {
			return "; the change also modified tests: " + c.Message
		}
	}
	return ""
}

func firstRed(red []contract.CheckResult) string {
	if len(red) == 0 {
		return ""
	}
	return "; " + red[0].Check.ID + ": " + strings.TrimSpace(red[0].Message)
}
