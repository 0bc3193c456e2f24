package main

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/terminal"
	"github.com/rocketgpt/orchestrator/internal/tester/standalone"
)

// shownOfEach is how many failed tests and findings are printed. The JSON output contains all.
const shownOfEach = 50

// printChecks prints a table of checks.
func (a *app) printChecks(checks []contract.CheckResult) {
	if len(checks) == 0 {
		return
	}
	fmt.Fprintln(a.out)
	w := tabwriter.NewWriter(a.out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "CHECK\tRESULT\tTESTS\tFINDINGS\tTOOK")
	for _, c := range checks {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", terminal.Clean(c.Check.ID), checkWord(c), checkTests(c), checkFindings(c), lasted(c.DurationMS))
	}
	_ = w.Flush()
}

// checkWord describes the outcome of a check.
func checkWord(c contract.CheckResult) string {
	switch {
	case c.Skipped:
		return "skipped"
	case c.KnownOnly:
		return "passed (as on the base)"
	case c.OK:
		return "passed"
	case c.Code == contract.CodeMissing:
		return "could not start"
	case c.Code == contract.CodeTimeout:
		return "timed out"
	case c.Code == contract.CodeCommandCrashed:
		return "crashed"
	default:
		return "failed"
	}
}

func checkTests(c contract.CheckResult) string {
	if c.Summary == (contract.TestSummary{DurationMS: c.Summary.DurationMS}) {
		return "-"
	}
	return testCounts(c.Summary)
}

// testCounts lists the counts that are not zero.
func testCounts(s contract.TestSummary) string {
	var parts []string
	for _, part := range []struct {
		n    int
		what string
	}{{s.Passed, "passed"}, {s.Failed, "failed"}, {s.Flaky, "flaky"}, {s.Quarantined, "quarantined"}, {s.Skipped, "skipped"}} {
		if part.n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", part.n, part.what))
		}
	}
	return strings.Join(parts, ", ")
}

// testsLine summarizes all tests.
func testsLine(s contract.TestSummary) string {
	n := s.Ran() + s.Skipped
	if n == 0 {
		return "No tests"
	}
	return counted(fmt.Sprint(n), "test") + ": " + testCounts(s)
}

func checkFindings(c contract.CheckResult) string {
	var parts []string
	for _, part := range []struct {
		n    int
		what string
	}{{c.Major, "major"}, {c.Medium, "medium"}, {c.Minor, "minor"}, {c.Known, "known"}} {
		if part.n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", part.n, part.what))
		}
	}
	return cmp.Or(strings.Join(parts, ", "), "-")
}

// printSkipped prints why checks could not judge the verified state.
func (a *app) printSkipped(r standalone.Report) {
	skipped := skippedChecks(r)
	if len(skipped) == 0 {
		return
	}
	fmt.Fprintln(a.out, "\nSkipped")
	for _, c := range skipped {
		fmt.Fprintf(a.out, "  %s: %s\n", terminal.Clean(c.Check.ID), skipReason(c))
	}
}

// skippedChecks returns the checks that could not judge the verified state. If no scanner is installed
// for a check, the base alone shows it, as in a run.
func skippedChecks(r standalone.Report) []contract.CheckResult {
	var skipped []contract.CheckResult
	judged := map[string]bool{}
	for _, c := range r.Checks {
		judged[c.Check.ID] = true
	}
	for _, c := range slices.Concat(r.Checks, r.Baseline) {
		if c.Skipped && (judged[c.Check.ID] || c.Code == contract.CodeMissing) && !slices.ContainsFunc(skipped, func(s contract.CheckResult) bool { return s.Check.ID == c.Check.ID }) {
			skipped = append(skipped, c)
		}
	}
	return skipped
}

// skipReason returns why a check was skipped.
func skipReason(c contract.CheckResult) string {
	return terminal.OneLine(strings.TrimPrefix(c.Message, "skipped: "))
}

// printFailedTests prints the tests that failed, are flaky or are quarantined.
func (a *app) printFailedTests(r standalone.Report) {
	failed := slices.DeleteFunc(slices.Clone(r.Results), func(t contract.TestCase) bool {
		return !red(t.Status)
	})
	if len(failed) == 0 {
		return
	}
	fmt.Fprintln(a.out, "\nFailed tests")
	for _, t := range failed[:min(len(failed), shownOfEach)] {
		note := ""
		if t.Status != contract.TestFailed {
			note = fmt.Sprintf(" (%s)", t.Status)
		}
		fmt.Fprintf(a.out, "  %s%s%s\n", located(t.Location), terminal.Clean(t.Name), note)
		if t.Message != "" {
			fmt.Fprintf(a.out, "    %s\n", terminal.OneLine(t.Message))
		}
	}
	a.printRest(len(failed))
}

// red reports whether a test failed at least once, whether or not that counts.
func red(s contract.TestStatus) bool {
	return s == contract.TestFailed || s == contract.TestFlaky || s == contract.TestQuarantined
}

// located is the location of a finding before its text.
func located(location string) string {
	if location == "" {
		return ""
	}
	return terminal.Clean(location) + ": "
}

func (a *app) printRest(n int) {
	if n > shownOfEach {
		fmt.Fprintf(a.out, "  … and %d more; --json lists all\n", n-shownOfEach)
	}
}

// printFindings prints the findings that are not failed tests, the worst first.
func (a *app) printFindings(r standalone.Report) {
	tests := map[string]bool{}
	for _, t := range r.Results {
		tests[t.Name] = red(t.Status)
	}
	found := slices.DeleteFunc(slices.Clone(r.Findings), func(f standalone.Finding) bool { return tests[f.Rule] })
	if len(found) == 0 {
		return
	}
	order := []contract.Severity{contract.SeverityMajor, contract.SeverityMedium, contract.SeverityMinor}
	slices.SortStableFunc(found, func(x, y standalone.Finding) int {
		if known := cmp.Compare(isKnown(x), isKnown(y)); known != 0 {
			return known
		}
		return cmp.Compare(slices.Index(order, x.Severity), slices.Index(order, y.Severity))
	})
	fmt.Fprintln(a.out, "\nFindings")
	for _, f := range found[:min(len(found), shownOfEach)] {
		severity := string(f.Severity)
		if isKnown(f) > 0 {
			severity += ", known"
		}
		rule := ""
		if f.Rule != "" {
			rule = " [" + terminal.Clean(f.Rule) + "]"
		}
		fmt.Fprintf(a.out, "  %-6s  %-12s  %s%s%s\n", severity, terminal.Clean(f.Check), located(f.Location), terminal.OneLine(f.Message), rule)
	}
	a.printRest(len(found))
}

// printCoverage prints which of the changed lines the tests executed.
func (a *app) printCoverage(c *contract.Coverage) {
	if c == nil {
		return
	}
	fmt.Fprintln(a.out, c.Summary())
	if c.Note != "" {
		fmt.Fprintf(a.out, "  %s\n", terminal.OneLine(c.Note))
	}
	missed := c.Missed()
	for _, f := range missed[:min(len(missed), shownOfEach)] {
		fmt.Fprintf(a.out, "  not covered: %s: %s\n", terminal.Clean(f.Path), f.MissedText())
	}
	a.printRest(len(missed))
}

// isKnown is 1 for a finding that the base has as well, which does not count.
func isKnown(f standalone.Finding) int {
	if f.Status == contract.FindingKnown {
		return 1
	}
	return 0
}
