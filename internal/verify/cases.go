package verify

import (
	"fmt"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/verify/checks"
	"github.com/rocketgpt/orchestrator/internal/verify/output"
)

// cases returns the test cases of all executions; a command that reports no tests counts as one
// case.
func (r *run) cases() []output.Case {
	var all []output.Case
	if r.job.Check.Category != contract.CategoryTest {
		return nil
	}
	for _, e := range r.executions {
		switch {
		case e.Invocation.Setup, e.startFailure() != nil:
		case e.counted:
			all = append(all, e.Parsed.Cases...)
		default:
			all = append(all, commandAsCase(e))
		}
	}
	return all
}

// summary counts the tests of all executions.
func (r *run) summary() contract.TestSummary {
	var sum contract.TestSummary
	if r.job.Check.Category != contract.CategoryTest {
		return sum
	}
	for _, e := range r.executions {
		switch {
		case e.Invocation.Setup, e.startFailure() != nil:
		case e.counted:
			sum = sum.Add(e.Parsed.Summary())
		default:
			sum = sum.Add(output.Summarize([]output.Case{commandAsCase(e)}))
		}
	}
	return sum
}

func commandAsCase(e *execution) output.Case {
	c := output.Case{}
	c.Name = output.Name(e.Invocation.String())
	c.DurationMS = e.Result.Duration.Milliseconds()
	c.Status = contract.TestPassed
	if e.failed() {
		c.Status, c.Message = contract.TestFailed, unexplained(e)
	}
	return c
}

// caseList limits the number and the texts of cases. Failed and flaky cases have priority, because
// people read those; the order does not change.
func caseList(cases []output.Case, f *findings) []contract.TestCase {
	room := output.MaxCases
	for _, c := range cases {
		if c.Status == contract.TestFailed || c.Status == contract.TestFlaky {
			room--
		}
	}
	room = max(0, room)
	var out []contract.TestCase
	texts := maxMessages
	for _, c := range cases {
		red := c.Status == contract.TestFailed || c.Status == contract.TestFlaky
		if !red {
			if room == 0 {
				continue
			}
			room--
		}
		if len(out) >= output.MaxCases {
			break
		}
		if texts -= len(c.Message); texts < 0 {
			c.Message = ""
		}
		out = append(out, c.TestCase)
	}
	if left := len(cases) - len(out); left > 0 {
		f.add(contract.SeverityMinor, fmt.Sprintf("%d more test cases are counted but not listed", left), "", "")
	}
	return out
}

// ranNothing reports whether a test check succeeded without running a single test.
func (r *run) ranNothing() bool {
	if r.job.Check.Category != contract.CategoryTest || len(r.executions) == 0 {
		return false
	}
	for _, e := range r.executions {
		if e.failed() {
			return false
		}
	}
	s := r.summary()
	return s.Ran() == 0
}

// noTests returns the finding that no tests ran. One of several shards may have no tests, so only
// an unsharded check can lack required tests.
func (r *run) noTests() contract.Finding {
	what, severity := "no tests were run", contract.SeverityMinor
	whole := r.job.Check.Shards <= 1
	if skipped := r.summary().Skipped; skipped > 0 {
		what = fmt.Sprintf("no tests were run: all %d were skipped", skipped)
		if whole {
			severity = contract.SeverityMedium
		}
	}
	return checks.NoTests(what, severity, r.env.Settings.RequireTests && whole)
}
