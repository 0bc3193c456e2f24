// Package verdict decides from the outcomes of checks whether a run may continue, and if not, why.
// It reads nothing and runs nothing, so recorded outcomes can be judged again under different
// thresholds.
package verdict

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/fault"
)

// Of sums up the checks of one execution of the tester and decides whether the run may continue. A
// failed test or build always stops it; other checks, including the checks of pinned and new tests,
// are judged by their findings. Findings that Compare matched to the base commit neither stop a run
// nor count.
func Of(checks []contract.CheckResult, most contract.Thresholds) contract.TestReportResult {
	var out contract.TestReportResult
	var warnings []string
	for _, c := range checks {
		if c.Counts() {
			out.Summary = out.Summary.Add(c.Summary)
		}
		out.Major += c.Major
		out.Medium += c.Medium
		out.Minor += c.Minor
		if c.Warning != "" && c.Counts() {
			warnings = append(warnings, c.Check.ID+": "+c.Warning)
		}
	}
	if e := failure(out, checks, most); e != nil {
		out.Failure = &e.Failure
	}
	switch s := out.Summary; {
	case s.Skipped > 0 && s.Ran() == 0:
		out.Warning = fmt.Sprintf("no tests ran: all %d were skipped", s.Skipped)
	case out.Medium > most.MaxMedium:
		out.Warning = fmt.Sprintf("verification reported %d medium findings, above the warning threshold of %d (findings.max_medium)", out.Medium, most.MaxMedium)
	}
	if len(warnings) > 0 {
		all := slices.DeleteFunc(append(warnings, out.Warning), func(w string) bool { return w == "" })
		out.Warning = fault.Clip(strings.Join(all, "; "), maxComparedMsg)
	}
	return out
}

// Judged reports whether a failure is a verdict of Of, as opposed to checks that could not be
// executed.
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
			return fault.New(contract.ClassAssertion, contract.CodeTestsFailed, "not stable: in retest %d of %d, %s failed after it had passed: %s",
				c.Check.Retest, c.Check.Retests, c.Check.Original().ID, c.Message)
		}
	}
	if out.Major > most.MaxMajor {
		return fault.New(contract.ClassAssertion, contract.CodeFindings,
			"verification reported %d major findings, more than the %d allowed (findings.max_major)%s", out.Major, most.MaxMajor, firstRed(red))
	}
	return nil
}

// stops reports whether a failed check stops a run regardless of the thresholds.
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
		if out.Summary.Failed == 0 { // the failure is not in a single test
			return fault.New(contract.ClassAssertion, contract.CodeTestsFailed, "%s failed: %s", name, message+known(c)+touched(checks))
		}
		return fault.New(contract.ClassAssertion, contract.CodeTestsFailed, "%d of %d tests failed, in %s: %s%s",
			out.Summary.Failed, out.Summary.Ran(), name, message, known(c)+touched(checks))
	case contract.CodeTimeout:
		return fault.New(contract.ClassRuntime, contract.CodeTimeout, "%s timed out after %s (verification.timeout): %s", name, time.Duration(c.DurationMS)*time.Millisecond, message)
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

// known describes how many findings of a failed check are not caused by the change.
func known(c contract.CheckResult) string {
	if c.Known == 0 {
		return ""
	}
	return fmt.Sprintf("; %d of its findings also exist on the base commit", c.Known)
}

// touched describes how the change modified tests, because a test that fails due to its
// modification looks the same as a test that found an error.
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
