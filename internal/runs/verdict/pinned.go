package verdict

import (
	"fmt"
	"slices"
	"strings"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/pin"
)

// PinnedTests defines how to treat changes of tests (verification.pinned_tests).
type PinnedTests string

// The values of PinnedTests. Empty means off: the run was created before the setting existed.
const (
	PinnedEnforce PinnedTests = "enforce" // removing tests is major
	PinnedReport  PinnedTests = "report"  // removing tests is medium: it is reported, and the run continues
	PinnedOff     PinnedTests = "off"     // not checked
)

// PinnedModes returns all values of PinnedTests.
func PinnedModes() []PinnedTests { return []PinnedTests{PinnedEnforce, PinnedReport, PinnedOff} }

// On reports whether tests are compared with the tests of the base.
func (p PinnedTests) On() bool { return p == PinnedEnforce || p == PinnedReport }

// pinnedRule is the prefix of the rule of each finding about pinned tests; the kind follows.
const pinnedRule = "pinned-tests/"

// grade returns a finding about a pinned test with its severity in this mode. A graded finding can
// be graded again in another mode.
func (p PinnedTests) grade(f contract.Finding) contract.Finding {
	kind, ok := strings.CutPrefix(f.Rule, pinnedRule)
	if !ok || !pin.Kind(kind).Forbidden() {
		return f
	}
	f.Severity = contract.SeverityMajor
	if p == PinnedReport {
		f.Severity = contract.SeverityMedium
	}
	return f
}

// shownProblems is the maximum number of problems in the message of the check; its findings contain
// all of them.
const shownProblems = 3

// Pinned builds the outcome of the check of pinned tests from its findings, and returns both as
// graded in the given mode, which must be on.
func Pinned(findings []contract.Finding, mode PinnedTests) (contract.CheckResult, []contract.Finding) {
	return judged(contract.Check{ID: contract.CheckPinnedTests, Category: contract.CategoryTest, Name: "Pinned tests"}, findings, mode.grade,
		"restore these tests, or, if the goal is to change the tests, start again with --set verification.pinned_tests=report")
}

// judged builds the outcome of a check from its graded findings. todo is the advice if it fails.
func judged(check contract.Check, findings []contract.Finding, grade func(contract.Finding) contract.Finding, todo string) (contract.CheckResult, []contract.Finding) {
	out := contract.CheckResult{Check: check}
	graded := make([]contract.Finding, len(findings))
	var worst, others []string
	for i, f := range findings {
		graded[i] = grade(f)
		switch graded[i].Severity {
		case contract.SeverityMajor:
			out.Major++
			worst = append(worst, f.Message)
		case contract.SeverityMedium:
			out.Medium++
			others = append(others, f.Message)
		default:
			out.Minor++
		}
	}
	out.OK = out.Major == 0
	told := slices.Concat(worst, others)
	out.Message = strings.Join(told[:min(len(told), shownProblems)], "; ")
	if more := len(told) - shownProblems; more > 0 {
		out.Message += fmt.Sprintf(" (and %d more)", more)
	}
	if !out.OK {
		out.Code = contract.CodeFindings
		out.Message += "; " + todo
	}
	return out, graded
}

// Recorded is the outcome of one check as it was stored.
type Recorded struct {
	Result   contract.CheckResult
	Findings []contract.Finding
	Cases    []contract.TestCase // for Compare only
}

// Modes defines how to treat changes of tests and new tests.
type Modes struct {
	Pinned PinnedTests
	New    NewTests
}

// Rejudge judges recorded outcomes under different thresholds and modes, without running the checks
// again.
func Rejudge(recorded []Recorded, most contract.Thresholds, modes Modes) contract.TestReportResult {
	var checks []contract.CheckResult
	for _, r := range recorded {
		switch r.Result.Check.ID {
		case contract.CheckPinnedTests:
			if !modes.Pinned.On() {
				continue
			}
			r.Result, _ = Pinned(r.Findings, modes.Pinned)
		case contract.CheckNewTests:
			if !modes.New.On() {
				continue
			}
			r.Result, _ = Proved(r.Findings, modes.New)
		}
		checks = append(checks, r.Result)
	}
	return Of(checks, most)
}
