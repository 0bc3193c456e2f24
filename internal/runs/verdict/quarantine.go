package verdict

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/fault"
)

// shownQuarantined is the maximum number of quarantined tests listed in a warning.
const shownQuarantined = 5

// crashes are the beginnings of the messages of tests that ended their process. Tests after them did
// not run, so such a failure is not only that of the quarantined test.
var crashes = []string{"panic: ", "the test did not finish"}

// Quarantine applies the quarantined tests of a project to the outcome of a check, before it is
// compared with base, its outcome on the base commit, if there is one. A failure of a quarantined
// test becomes contract.TestQuarantined, and its finding minor. If such failures were the only reason
// why the check failed, it passes. A warning lists the tests that passed on the base.
//
// Only single tests are quarantined, never a whole check: nothing changes if a command crashed or did
// not compile, if no tests ran, or if commands count as tests. Failures of these tests still count: a
// test that does not run on the base, a test whose name is not unique in the check, and a test that
// ended its process. So do failures of a test with an ignored entry, because the change adds or edits
// the test.
func Quarantine(entries []contract.QuarantinedTest, now Recorded, base *Recorded) Recorded {
	check := now.Result.Check
	if len(entries) == 0 || check.Category != contract.CategoryTest || check.ID == contract.CheckPinnedTests || check.ID == contract.CheckNewTests ||
		now.Result.Unnamed || !now.Result.OK && now.Result.Code != contract.CodeTestsFailed {
		return now
	}
	q := quarantine{entries: entries, check: check, count: map[string]int{}, applied: map[string]contract.QuarantinedTest{}}
	for _, c := range now.Cases {
		q.count[c.Name]++
	}
	if base != nil && complete(*base) {
		q.onBase = map[string]contract.TestStatus{}
		for _, c := range base.Cases {
			q.onBase[c.Name] = c.Status
		}
	}
	out := Recorded{Result: now.Result, Findings: slices.Clone(now.Findings), Cases: slices.Clone(now.Cases)}
	q.cases(&out)
	q.findings(&out)
	q.judge(&out.Result, out.Findings)
	return out
}

// quarantine is the application of a quarantine to one check.
type quarantine struct {
	entries []contract.QuarantinedTest
	check   contract.Check
	count   map[string]int                 // test cases by name
	onBase  map[string]contract.TestStatus // nil: unknown

	applied map[string]contract.QuarantinedTest // by test
	always  []string                            // failed in each attempt, and passed on the base
	refused []string                            // tests whose failures count although they are quarantined, and why
}

// cases marks the failures that do not count.
func (q *quarantine) cases(out *Recorded) {
	for i := range out.Cases {
		c := &out.Cases[i]
		entry, ok := q.of(c.Name)
		if !ok || c.Status != contract.TestFailed && c.Status != contract.TestFlaky {
			continue
		}
		if why := q.refusal(entry, *c); why != "" {
			if c.Status == contract.TestFailed {
				q.refused = append(q.refused, c.Name+": "+why)
			}
			continue
		}
		q.applied[c.Name] = entry
		if c.Status == contract.TestFlaky {
			continue
		}
		c.Status = contract.TestQuarantined
		out.Result.Summary.Failed--
		out.Result.Summary.Quarantined++
		if q.onBase[c.Name] == contract.TestPassed {
			q.always = append(q.always, c.Name)
		}
	}
}

// of returns the entry about a test, preferably one that is not ignored.
func (q *quarantine) of(test string) (found contract.QuarantinedTest, ok bool) {
	for _, e := range q.entries {
		if e.Covers(q.check, test) && (!ok || found.Ignored != "" && e.Ignored == "") {
			found, ok = e, true
		}
	}
	return found, ok
}

// refusal returns why a failure of a quarantined test counts, "" if it does not.
func (q *quarantine) refusal(e contract.QuarantinedTest, c contract.TestCase) string {
	switch {
	case e.Ignored != "":
		return e.Ignored
	case q.count[c.Name] > 1:
		return "several tests of the check have this name"
	case q.onBase != nil && q.onBase[c.Name] == "":
		return "it does not run on the base commit"
	case slices.ContainsFunc(crashes, func(text string) bool { return strings.HasPrefix(c.Message, text) }):
		return "it ended its process, so other tests may not have run"
	}
	return ""
}

// findings makes the findings about quarantined tests minor.
func (q *quarantine) findings(out *Recorded) {
	for i := range out.Findings {
		f := &out.Findings[i]
		e, ok := q.applied[f.Rule]
		if !ok || f.Category != contract.CategoryTest {
			continue
		}
		switch f.Severity {
		case contract.SeverityMajor:
			out.Result.Major--
		case contract.SeverityMedium:
			out.Result.Medium--
		case contract.SeverityMinor:
			continue
		}
		f.Severity = contract.SeverityMinor
		out.Result.Minor++
		f.Message = fault.Clip(fmt.Sprintf("quarantined until %s: %s", e.ExpiresAt.UTC().Format(time.DateOnly), f.Message), maxComparedMsg)
	}
}

// judge decides whether the check still fails.
func (q *quarantine) judge(r *contract.CheckResult, findings []contract.Finding) {
	r.Warning = q.warning()
	switch {
	case r.OK:
	case r.OnlyTests && r.Summary.Failed == 0 && r.Major == 0:
		r.OK, r.OnlyTests, r.Code, r.Message = true, false, "", ""
	case len(q.applied) > 0:
		for _, f := range findings { // the message may be about a quarantined test
			if f.Severity == contract.SeverityMajor {
				r.Message = f.Message
				if f.Location != "" {
					r.Message = f.Location + ": " + f.Message
				}
				return
			}
		}
	}
}

// warning returns the text about quarantined tests that need attention.
func (q *quarantine) warning() string {
	var texts []string
	if n := len(q.always); n > 0 {
		texts = append(texts, fmt.Sprintf("%s passed on the base commit, but failed in each attempt with this change: %s", quarantinedTests(n), listed(q.always)))
	}
	if n := len(q.refused); n > 0 {
		texts = append(texts, fmt.Sprintf("the failure of %s counts: %s", quarantinedTests(n), listed(q.refused)))
	}
	return fault.Clip(strings.Join(texts, "; "), maxComparedMsg)
}

func quarantinedTests(n int) string {
	if n == 1 {
		return "a quarantined test"
	}
	return fmt.Sprintf("%d quarantined tests", n)
}

// listed joins the first of some texts.
func listed(texts []string) string {
	out := strings.Join(texts[:min(len(texts), shownQuarantined)], ", ")
	if more := len(texts) - shownQuarantined; more > 0 {
		out += fmt.Sprintf(" (and %d more)", more)
	}
	return out
}

// TouchedTests returns the entries of a quarantine, those about tests that a change adds or edits with
// the reason why they are ignored. edited and added are names of tests as they are in the source.
func TouchedTests(entries []contract.QuarantinedTest, edited, added []string) []contract.QuarantinedTest {
	out := slices.Clone(entries)
	isEdited, isAdded := namedBy(edited), namedBy(added)
	for i := range out {
		switch {
		case isAdded(out[i].Test):
			out[i].Ignored = "the change adds a test with this name"
		case isEdited(out[i].Test):
			out[i].Ignored = "the change edits a test with this name"
		}
	}
	return out
}
