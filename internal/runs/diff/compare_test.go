package diff_test

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/runs/diff"
	"github.com/rocketgpt/orchestrator/internal/store"
)

var start = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// side is a finished run, with a test for each outcome, by name.
func side(run int64, cases ...contract.TestCase) diff.Side {
	ended := start.Add(time.Second)
	tester := store.Execution{
		ExecutionRef: contract.ExecutionRef{ID: run * 10, Phase: contract.PhaseTester, Attempt: 1}, Status: contract.ExecutionCompleted,
		StartedAt: start, FinishedAt: &ended,
	}
	return diff.Side{
		Ref: diff.Ref{Run: run}, Goal: "divide", Status: "done", Base: "c0ffee", Repo: "/repos/calculator", Tester: &tester,
		Checks: []store.Check{check("test-go-1", cases...)}, Phases: []store.Execution{tester},
	}
}

func check(id string, cases ...contract.TestCase) store.Check {
	c := contract.Check{ID: id, Category: contract.CategoryTest}
	ok := true
	for _, t := range cases {
		ok = ok && t.Status != contract.TestFailed
	}
	return store.Check{Result: contract.CheckResult{Check: c, OK: ok, DurationMS: 100}, Cases: cases}
}

func test(name string, status contract.TestStatus) contract.TestCase {
	return contract.TestCase{Name: name, Status: status}
}

func names(tests []diff.Test) []string {
	out := []string{}
	for _, t := range tests {
		out = append(out, t.Name)
	}
	return out
}

func kinds(points []diff.Point) []diff.Kind {
	out := []diff.Kind{}
	for _, p := range points {
		out = append(out, p.Kind)
	}
	return out
}

const (
	passed, failed, skipped, flaky = contract.TestPassed, contract.TestFailed, contract.TestSkipped, contract.TestFlaky
	absent                         = contract.TestStatus("")
)

func TestEachPairOfOutcomesIsInTheRightLists(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		left, right contract.TestStatus
		lists       string
		worse       diff.Kind
		better      diff.Kind
	}{
		{passed, passed, "", "", ""},
		{passed, failed, "new_failures", diff.KindFailure, ""},
		{flaky, failed, "new_failures flaky", diff.KindFailure, ""},
		{skipped, failed, "new_failures", diff.KindFailure, ""},
		{absent, failed, "new_failures new_tests", diff.KindFailure, ""},
		{failed, passed, "fixed", "", diff.KindFixed},
		{failed, flaky, "fixed flaky", "", diff.KindFixed},
		{failed, failed, "still_failing", "", ""},
		{failed, skipped, "newly_skipped", diff.KindSkipped, ""},
		{passed, skipped, "newly_skipped", diff.KindSkipped, ""},
		{absent, skipped, "new_tests", "", ""},
		{skipped, skipped, "", "", ""},
		{skipped, passed, "no_longer_skipped", "", diff.KindUnskipped},
		{passed, absent, "gone", diff.KindGone, ""},
		{failed, absent, "gone", diff.KindGone, ""},
		{absent, passed, "new_tests", "", diff.KindNewTest},
		{passed, flaky, "flaky", "", ""},
		{flaky, passed, "flaky", "", ""},
	} {
		t.Run(fmt.Sprintf("from %q to %q", c.left, c.right), func(t *testing.T) {
			t.Parallel()
			// Checks fail on both sides, so that only the test matters.
			left, right := side(1, test("red", failed)), side(2, test("red", failed))
			if c.left != absent {
				left.Checks[0].Cases = append(left.Checks[0].Cases, test("x", c.left))
			}
			if c.right != absent {
				right.Checks[0].Cases = append(right.Checks[0].Cases, test("x", c.right))
			}
			d := diff.Compare(left, right)
			got := ""
			for _, l := range []struct {
				name string
				list []diff.Test
			}{
				{"new_failures", d.Tests.NewFailures}, {"fixed", d.Tests.Fixed}, {"still_failing", d.Tests.StillFailing}, {"new_tests", d.Tests.NewTests},
				{"gone", d.Tests.Gone}, {"newly_skipped", d.Tests.NewlySkipped}, {"no_longer_skipped", d.Tests.NoLongerSkipped}, {"flaky", d.Tests.Flaky},
			} {
				for _, x := range l.list {
					if x.Name == "x" {
						require.Equal(t, diff.Test{Check: "test-go", Name: "x", Left: c.left, Right: c.right}, x)
						got += " " + l.name
					}
				}
			}
			require.Equal(t, c.lists, trim(got))
			require.Equal(t, only(c.worse), kinds(d.Regressions))
			require.Equal(t, only(c.better), kinds(d.Improvements))
		})
	}
}

func trim(s string) string {
	if s == "" {
		return s
	}
	return s[1:]
}

func only(k diff.Kind) []diff.Kind {
	if k == "" {
		return []diff.Kind{}
	}
	return []diff.Kind{k}
}

func TestTestsAreKnownAgainInOtherShards(t *testing.T) {
	t.Parallel()
	left, right := side(1, test("a", passed), test("b", passed), test("twice", passed)), side(2)
	right.Checks = []store.Check{check("test-go-1", test("b", passed), test("twice", passed)), check("test-go-2", test("a", passed))}
	d := diff.Compare(left, right)
	require.Empty(t, d.Regressions)
	require.Empty(t, d.Tests.Checks)

	right.Checks[1].Cases = append(right.Checks[1].Cases, test("twice", failed))
	right.Checks[1].Result.OK = false
	d = diff.Compare(left, right)
	require.Equal(t, []string{"twice"}, names(d.Tests.NewFailures), "of two with one name the one that fails is not hidden by the other")
	require.Equal(t, []diff.Kind{diff.KindFailure}, kinds(d.Regressions))
}

func TestChecksThatDidNotRunAreOneRegressionEach(t *testing.T) {
	t.Parallel()
	build := func(ok bool) store.Check {
		return store.Check{Result: contract.CheckResult{Check: contract.Check{ID: "build-go", Category: contract.CategoryBuild}, OK: ok}}
	}
	left, right := side(1, test("a", passed), test("b", passed)), side(2)
	left.Checks = append(left.Checks, build(true))
	left.Findings = []store.Finding{{Finding: contract.Finding{Severity: contract.SeverityMajor, Category: contract.CategoryTest, Message: "b is slow"}, CheckID: "test-go-1"}}
	right.Status, right.Checks = "failed", []store.Check{build(false)}
	d := diff.Compare(left, right)
	require.Equal(t, []diff.Kind{diff.KindStatus, diff.KindCheckRed, diff.KindCheckGone}, kinds(d.Regressions))
	require.Equal(t, "test-go did not run; it previously ran 2 tests", d.Regressions[2].Message)
	require.Equal(t, []string{"a", "b"}, names(d.Tests.Gone))
	require.Empty(t, d.Findings.Fixed, "what nobody looked at is not fixed")
	require.Len(t, d.Findings.Unchecked, 1)
	require.Empty(t, d.Improvements)

	right.Tester, right.Checks = nil, nil
	require.Equal(t, []diff.Kind{diff.KindStatus, diff.KindUntested}, kinds(diff.Compare(left, right).Regressions))
	right.Status = "builder_running"
	d = diff.Compare(left, right)
	require.Empty(t, d.Regressions, "what is still to come is not judged")
	require.Contains(t, d.Notes, "2: not tested")

	right = side(2, test("a", passed))
	right.Status, right.Tester.FinishedAt = "tester_running", nil
	d = diff.Compare(left, right)
	require.Empty(t, d.Regressions)
	require.Contains(t, d.Notes, "2: tests are still running; missing tests are not counted")
}

func finding(severity contract.Severity, rule, message, location string) store.Finding {
	return store.Finding{Finding: contract.Finding{Severity: severity, Category: contract.CategoryLint, Rule: rule, Message: message, Location: location}, CheckID: "test-go-1"}
}

func TestFindingsAreKnownAgainOnAnotherLine(t *testing.T) {
	t.Parallel()
	left, right := side(1, test("a", passed)), side(2, test("a", passed))
	for i := range left.Checks {
		left.Checks[i].Result.Check.Category, right.Checks[i].Result.Check.Category = contract.CategoryLint, contract.CategoryLint
	}
	left.Findings = []store.Finding{
		finding(contract.SeverityMedium, "errcheck", "unchecked error", "calc.go:3:1"), finding(contract.SeverityMedium, "errcheck", "unchecked error", "calc.go:9"),
		finding(contract.SeverityMajor, "G101", "secret", "calc.go:1"),
	}
	right.Findings = []store.Finding{
		finding(contract.SeverityMedium, "errcheck", "unchecked error", "calc.go:4:1"), finding(contract.SeverityMinor, "lll", "long line", "calc.go:5"),
		finding(contract.SeverityMedium, "errcheck", "unchecked error", "other.go:4:1"),
	}
	d := diff.Compare(left, right)
	require.Len(t, d.Findings.Same, 1)
	require.Len(t, d.Findings.New, 2)
	require.Len(t, d.Findings.Fixed, 2, "two of one kind are not one")
	require.Equal(t, []diff.Kind{diff.KindNewFinding}, kinds(d.Regressions), "minor ones are no regression")
	require.Equal(t, "other.go:4:1", d.Regressions[0].Location)
	require.Equal(t, []diff.Kind{diff.KindFixedFinding, diff.KindFixedFinding}, kinds(d.Improvements))
	require.Equal(t, diff.Severities{Medium: 2, Minor: 1}, d.Findings.Right)
}

func TestAFindingThatOnlyNamesAFailingTestIsNotReportedTwice(t *testing.T) {
	t.Parallel()
	left, right := side(1, test("a", passed)), side(2, test("a", failed))
	right.Findings = []store.Finding{{Finding: contract.Finding{Severity: contract.SeverityMajor, Category: contract.CategoryTest, Rule: "a", Message: "a failed after 3 ms"}, CheckID: "test-go-1"}}
	d := diff.Compare(left, right)
	require.Equal(t, []diff.Kind{diff.KindFailure}, kinds(d.Regressions))
	require.Len(t, d.Findings.New, 1)
	gone := side(3, test("other", passed))
	require.NotContains(t, kinds(diff.Compare(right, gone).Improvements), diff.KindFixedFinding, "a failing test that is deleted is not fixed")
	again := diff.Compare(right, func() diff.Side {
		s := right
		s.Findings = []store.Finding{{Finding: contract.Finding{Severity: contract.SeverityMajor, Category: contract.CategoryTest, Rule: "a", Message: "a failed after 9 ms"}, CheckID: "test-go-1"}}
		return s
	}())
	require.Len(t, again.Findings.Same, 1, "a test's message varies")
}

func TestTimeAndMoneyCountOnlyBeyondBothThresholds(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		left, right time.Duration
		worse       bool
	}{
		{10 * time.Second, 12 * time.Second, false}, // 20 %, not more
		{10 * time.Second, 12*time.Second + time.Millisecond, true},
		{time.Second, 2 * time.Second, false}, // 1 s, not more
		{time.Second, 2*time.Second + time.Millisecond, true},
		{time.Hour, time.Hour + time.Minute, false},
	} {
		left, right := side(1), side(2)
		l, r := start.Add(c.left), start.Add(c.right)
		left.Phases[0].FinishedAt, right.Phases[0].FinishedAt = &l, &r
		d, back := diff.Compare(left, right), diff.Compare(right, left)
		if !c.worse {
			require.Empty(t, d.Regressions, "%v", c)
			require.Empty(t, back.Improvements, "%v", c)
			continue
		}
		require.Equal(t, []diff.Kind{diff.KindSlower}, kinds(d.Regressions), "%v", c)
		require.Equal(t, []diff.Kind{diff.KindFaster}, kinds(back.Improvements), "%v", c)
	}
	for _, c := range []struct {
		left, right int64
		worse       bool
	}{{0, 10_000, false}, {0, 10_001, true}, {100_000, 120_000, false}, {100_000, 120_001, true}, {5, 9000, false}} {
		left, right := side(1), side(2)
		left.Usage.MicroUSD, right.Usage.MicroUSD = c.left, c.right
		require.Equal(t, c.worse, len(diff.Compare(left, right).Regressions) == 1, "%v", c)
	}
}

func TestAPhaseThatHasNotEndedIsNotJudgedByItsTime(t *testing.T) {
	t.Parallel()
	left, right := side(1), side(2)
	long := start.Add(time.Hour)
	left.Phases[0].FinishedAt = &long
	right.Phases[0].FinishedAt = nil
	d := diff.Compare(left, right)
	require.Empty(t, d.Improvements)
	require.Equal(t, diff.TimingDiff{Phase: contract.PhaseTester, LeftMS: 3_600_000, DeltaMS: -3_600_000, LeftEnded: true}, d.Timing[2])
}

func TestPlansAreComparedStepByStepAndFieldByField(t *testing.T) {
	t.Parallel()
	left, right := side(1), side(2)
	left.Plan = &contract.Plan{Summary: "s", Steps: []contract.Step{{ID: "a", Name: "same", Files: []string{}}, {ID: "b", Name: "old", Files: []string{"x"}}, {ID: "c", Name: "gone"}}}
	right.Plan = &contract.Plan{Summary: "t", Steps: []contract.Step{{ID: "a", Name: "same"}, {ID: "b", Name: "new", Files: []string{"x", "y"}}, {ID: "d", Name: "more"}}}
	d := diff.Compare(left, right).Plan
	require.False(t, d.Same)
	require.Equal(t, []diff.FieldChange{{Field: "summary", Left: "s", Right: "t"}}, d.Changed)
	require.Equal(t, []diff.StepName{{ID: "d", Name: "more"}}, d.StepsAdded)
	require.Equal(t, []diff.StepName{{ID: "c", Name: "gone"}}, d.StepsRemoved)
	require.Equal(t, []string{"a"}, d.StepsSame)
	require.Equal(t, []diff.StepChange{{StepName: diff.StepName{ID: "b", Name: "new"}, Changed: []diff.FieldChange{
		{Field: "name", Left: "old", Right: "new"}, {Field: "files", Left: []string{"x"}, Right: []string{"x", "y"}},
	}}}, d.StepsChanged)
	left.Plan = nil
	require.False(t, diff.Compare(left, right).Plan.LeftRecorded)
}

// drawSide draws a side with everything that a side can have.
func drawSide(t *rapid.T, run int64) diff.Side {
	s := side(run)
	s.Status = rapid.SampledFrom([]string{"done", "failed", "cancelled", "builder_running"}).Draw(t, "status")
	s.Usage = contract.Usage{PromptTokens: rapid.Int64Range(0, 1e6).Draw(t, "tokens"), MicroUSD: rapid.Int64Range(0, 1e5).Draw(t, "cost")}
	s.Checks = nil
	for _, id := range []string{"test-go-1", "test-go-2", "test-node-1"} {
		if !rapid.Bool().Draw(t, id) {
			continue
		}
		var cases []contract.TestCase
		for range rapid.IntRange(0, 4).Draw(t, "cases") {
			cases = append(cases, test(rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "name"), rapid.SampledFrom([]contract.TestStatus{passed, failed, skipped, flaky}).Draw(t, "outcome")))
		}
		s.Checks = append(s.Checks, check(id, cases...))
	}
	for range rapid.IntRange(0, 4).Draw(t, "findings") {
		s.Findings = append(s.Findings, finding(rapid.SampledFrom([]contract.Severity{"major", "medium", "minor"}).Draw(t, "severity"), "r", rapid.SampledFrom([]string{"m", "n"}).Draw(t, "message"), "f.go:1"))
	}
	end := start.Add(time.Duration(rapid.Int64Range(0, 5000).Draw(t, "took")) * time.Millisecond)
	s.Phases[0].FinishedAt = &end
	if rapid.Bool().Draw(t, "untested") {
		s.Tester, s.Checks, s.Findings = nil, nil, nil
	}
	s.Plan = &contract.Plan{Steps: []contract.Step{{ID: rapid.SampledFrom([]string{"a", "b"}).Draw(t, "step"), Name: rapid.SampledFrom([]string{"x", "y"}).Draw(t, "step name")}}}
	return s
}

func TestASideIsNeitherWorseNorBetterThanItself(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		s := drawSide(t, 1)
		d := diff.Compare(s, s)
		require.Empty(t, d.Regressions)
		require.Empty(t, d.Improvements)
		require.Empty(t, d.Tests.NewFailures)
		require.Empty(t, d.Tests.Gone)
		require.Empty(t, d.Tests.Checks)
		require.Empty(t, d.Findings.New)
		require.Empty(t, d.Findings.Fixed)
		require.Empty(t, d.Findings.Unchecked)
		require.True(t, d.Plan.Same)
		require.True(t, d.Models.Same)
	})
}

func TestTheOtherWayRoundIsTheMirrorImage(t *testing.T) {
	t.Parallel()
	mirrored := func(tests []diff.Test, keep func(diff.Test) bool) []diff.Test {
		out := []diff.Test{}
		for _, x := range tests {
			x.Left, x.Right = x.Right, x.Left
			if keep(x) {
				out = append(out, x)
			}
		}
		return out
	}
	all := func(diff.Test) bool { return true }
	passes := func(x diff.Test) bool { return x.Right == passed || x.Right == flaky }
	pairs := map[diff.Kind]diff.Kind{
		diff.KindStatus: diff.KindStatusBetter, diff.KindUntested: diff.KindTested, diff.KindSlower: diff.KindFaster, diff.KindDearer: diff.KindCheaper,
	}
	count := func(points []diff.Point) map[diff.Kind]int {
		n := map[diff.Kind]int{}
		for _, p := range points {
			n[p.Kind]++
		}
		return n
	}
	rapid.Check(t, func(t *rapid.T) {
		a, b := drawSide(t, 1), drawSide(t, 2)
		there, back := diff.Compare(a, b), diff.Compare(b, a)
		require.Equal(t, there.Tests.Fixed, mirrored(back.Tests.NewFailures, passes), "what fails the other way round is fixed, if it passes")
		require.Equal(t, there.Tests.Gone, mirrored(back.Tests.NewTests, all))
		require.Equal(t, there.Tests.StillFailing, mirrored(back.Tests.StillFailing, all))
		require.Equal(t, there.Tests.Flaky, mirrored(back.Tests.Flaky, all))
		require.Len(t, back.Findings.New, len(there.Findings.Fixed)+len(there.Findings.Unchecked))
		require.Equal(t, there.Plan.StepsAdded, back.Plan.StepsRemoved)
		require.Equal(t, there.Tokens.Delta, -back.Tokens.Delta)
		for worse, better := range pairs {
			require.Equal(t, count(there.Regressions)[worse], count(back.Improvements)[better], worse)
		}
	})
}

func TestListsAreNeverNullInJSON(t *testing.T) {
	t.Parallel()
	raw, err := json.Marshal(diff.Compare(diff.Side{Ref: diff.Ref{Run: 1}}, diff.Side{Ref: diff.Ref{Run: 2}}))
	require.NoError(t, err)
	require.NotContains(t, string(raw), "null")
}

func TestReferencesAreReadInTheFormsInWhichPeopleWriteThem(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]diff.Ref{"42": {Run: 42}, "#42": {Run: 42}, "run-42": {Run: 42}, "42@3": {Run: 42, Attempt: 3}, "run-42@1": {Run: 42, Attempt: 1}} {
		got, err := diff.ParseRef(text)
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
	for _, text := range []string{"", "x", "0", "-1", "42@", "42@0", "42@-1", "42@x", "@1", "42@1@2"} {
		_, err := diff.ParseRef(text)
		require.Error(t, err, text)
	}
}
