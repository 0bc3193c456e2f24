package rundiff_test

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/rundiff"
	"github.com/rocketgpt/orchestrator/internal/store"
)

var start = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// side is a run that is done, with a test for each outcome, by name.
func side(run int64, cases ...contract.TestCase) rundiff.Side {
	ended := start.Add(time.Second)
	tester := store.Execution{
		ExecutionRef: contract.ExecutionRef{ID: run * 10, Phase: contract.PhaseTester, Attempt: 1}, Status: contract.ExecutionCompleted,
		StartedAt: start, FinishedAt: &ended,
	}
	return rundiff.Side{
		Ref: rundiff.Ref{Run: run}, Goal: "divide", Status: "done", Base: "c0ffee", Repo: "/repos/calculator", Tester: &tester,
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

func names(tests []rundiff.Test) []string {
	out := []string{}
	for _, t := range tests {
		out = append(out, t.Name)
	}
	return out
}

func kinds(points []rundiff.Point) []rundiff.Kind {
	out := []rundiff.Kind{}
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
		worse       rundiff.Kind
		better      rundiff.Kind
	}{
		{passed, passed, "", "", ""},
		{passed, failed, "new_failures", rundiff.KindFailure, ""},
		{flaky, failed, "new_failures flaky", rundiff.KindFailure, ""},
		{skipped, failed, "new_failures", rundiff.KindFailure, ""},
		{absent, failed, "new_failures new_tests", rundiff.KindFailure, ""},
		{failed, passed, "fixed", "", rundiff.KindFixed},
		{failed, flaky, "fixed flaky", "", rundiff.KindFixed},
		{failed, failed, "still_failing", "", ""},
		{failed, skipped, "newly_skipped", rundiff.KindSkipped, ""},
		{passed, skipped, "newly_skipped", rundiff.KindSkipped, ""},
		{absent, skipped, "new_tests", "", ""},
		{skipped, skipped, "", "", ""},
		{skipped, passed, "no_longer_skipped", "", rundiff.KindUnskipped},
		{passed, absent, "gone", rundiff.KindGone, ""},
		{failed, absent, "gone", rundiff.KindGone, ""},
		{absent, passed, "new_tests", "", rundiff.KindNewTest},
		{passed, flaky, "flaky", "", ""},
		{flaky, passed, "flaky", "", ""},
	} {
		t.Run(fmt.Sprintf("from %q to %q", c.left, c.right), func(t *testing.T) {
			t.Parallel()
			// Checks are red on both sides, so that only the test speaks.
			left, right := side(1, test("red", failed)), side(2, test("red", failed))
			if c.left != absent {
				left.Checks[0].Cases = append(left.Checks[0].Cases, test("x", c.left))
			}
			if c.right != absent {
				right.Checks[0].Cases = append(right.Checks[0].Cases, test("x", c.right))
			}
			d := rundiff.Compare(left, right)
			got := ""
			for _, l := range []struct {
				name string
				list []rundiff.Test
			}{
				{"new_failures", d.Tests.NewFailures}, {"fixed", d.Tests.Fixed}, {"still_failing", d.Tests.StillFailing}, {"new_tests", d.Tests.NewTests},
				{"gone", d.Tests.Gone}, {"newly_skipped", d.Tests.NewlySkipped}, {"no_longer_skipped", d.Tests.NoLongerSkipped}, {"flaky", d.Tests.Flaky},
			} {
				for _, x := range l.list {
					if x.Name == "x" {
						require.Equal(t, rundiff.Test{Check: "test-go", Name: "x", Left: c.left, Right: c.right}, x)
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

func only(k rundiff.Kind) []rundiff.Kind {
	if k == "" {
		return []rundiff.Kind{}
	}
	return []rundiff.Kind{k}
}

func TestTestsAreKnownAgainInOtherShards(t *testing.T) {
	t.Parallel()
	left, right := side(1, test("a", passed), test("b", passed), test("twice", passed)), side(2)
	right.Checks = []store.Check{check("test-go-1", test("b", passed), test("twice", passed)), check("test-go-2", test("a", passed))}
	d := rundiff.Compare(left, right)
	require.Empty(t, d.Regressions)
	require.Empty(t, d.Tests.Checks)

	right.Checks[1].Cases = append(right.Checks[1].Cases, test("twice", failed))
	right.Checks[1].Result.OK = false
	d = rundiff.Compare(left, right)
	require.Equal(t, []string{"twice"}, names(d.Tests.NewFailures), "of two with one name the one that fails is not hidden by the other")
	require.Equal(t, []rundiff.Kind{rundiff.KindFailure}, kinds(d.Regressions))
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
	d := rundiff.Compare(left, right)
	require.Equal(t, []rundiff.Kind{rundiff.KindStatus, rundiff.KindCheckRed, rundiff.KindCheckGone}, kinds(d.Regressions))
	require.Equal(t, "test-go did not run, with 2 tests that it had", d.Regressions[2].Message)
	require.Equal(t, []string{"a", "b"}, names(d.Tests.Gone))
	require.Empty(t, d.Findings.Fixed, "what nobody looked at is not fixed")
	require.Len(t, d.Findings.Unchecked, 1)
	require.Empty(t, d.Improvements)

	right.Tester, right.Checks = nil, nil
	require.Equal(t, []rundiff.Kind{rundiff.KindStatus, rundiff.KindUntested}, kinds(rundiff.Compare(left, right).Regressions))
	right.Status = "builder_running"
	d = rundiff.Compare(left, right)
	require.Empty(t, d.Regressions, "what is still to come is not judged")
	require.Contains(t, d.Notes, "2: nothing was tested")

	right = side(2, test("a", passed))
	right.Status, right.Tester.FinishedAt = "tester_running", nil
	d = rundiff.Compare(left, right)
	require.Empty(t, d.Regressions)
	require.Contains(t, d.Notes, "2: the tests are under way; what is missing is not judged")
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
	d := rundiff.Compare(left, right)
	require.Len(t, d.Findings.Same, 1)
	require.Len(t, d.Findings.New, 2)
	require.Len(t, d.Findings.Fixed, 2, "two of one kind are not one")
	require.Equal(t, []rundiff.Kind{rundiff.KindNewFinding}, kinds(d.Regressions), "minor ones are no regression")
	require.Equal(t, "other.go:4:1", d.Regressions[0].Location)
	require.Equal(t, []rundiff.Kind{rundiff.KindFixedFinding, rundiff.KindFixedFinding}, kinds(d.Improvements))
	require.Equal(t, rundiff.Severities{Medium: 2, Minor: 1}, d.Findings.Right)
}

func TestAFindingThatOnlyNamesAFailingTestIsNotToldTwice(t *testing.T) {
	t.Parallel()
	left, right := side(1, test("a", passed)), side(2, test("a", failed))
	right.Findings = []store.Finding{{Finding: contract.Finding{Severity: contract.SeverityMajor, Category: contract.CategoryTest, Rule: "a", Message: "a failed after 3 ms"}, CheckID: "test-go-1"}}
	d := rundiff.Compare(left, right)
	require.Equal(t, []rundiff.Kind{rundiff.KindFailure}, kinds(d.Regressions))
	require.Len(t, d.Findings.New, 1)
	gone := side(3, test("other", passed))
	require.NotContains(t, kinds(rundiff.Compare(right, gone).Improvements), rundiff.KindFixedFinding, "a failing test that is deleted is not fixed")
	again := rundiff.Compare(right, func() rundiff.Side {
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
		d, back := rundiff.Compare(left, right), rundiff.Compare(right, left)
		if !c.worse {
			require.Empty(t, d.Regressions, "%v", c)
			require.Empty(t, back.Improvements, "%v", c)
			continue
		}
		require.Equal(t, []rundiff.Kind{rundiff.KindSlower}, kinds(d.Regressions), "%v", c)
		require.Equal(t, []rundiff.Kind{rundiff.KindFaster}, kinds(back.Improvements), "%v", c)
	}
	for _, c := range []struct {
		left, right int64
		worse       bool
	}{{0, 10_000, false}, {0, 10_001, true}, {100_000, 120_000, false}, {100_000, 120_001, true}, {5, 9000, false}} {
		left, right := side(1), side(2)
		left.Usage.MicroUSD, right.Usage.MicroUSD = c.left, c.right
		require.Equal(t, c.worse, len(rundiff.Compare(left, right).Regressions) == 1, "%v", c)
	}
}

func TestAPhaseThatHasNotEndedIsNotJudgedByItsTime(t *testing.T) {
	t.Parallel()
	left, right := side(1), side(2)
	long := start.Add(time.Hour)
	left.Phases[0].FinishedAt = &long
	right.Phases[0].FinishedAt = nil
	d := rundiff.Compare(left, right)
	require.Empty(t, d.Improvements)
	require.Equal(t, rundiff.TimingDiff{Phase: contract.PhaseTester, LeftMS: 3_600_000, DeltaMS: -3_600_000, LeftEnded: true}, d.Timing[2])
}

func TestPlansAreComparedStepByStepAndFieldByField(t *testing.T) {
	t.Parallel()
	left, right := side(1), side(2)
	left.Plan = &contract.Plan{Summary: "s", Steps: []contract.Step{{ID: "a", Name: "same", Files: []string{}}, {ID: "b", Name: "old", Files: []string{"x"}}, {ID: "c", Name: "gone"}}}
	right.Plan = &contract.Plan{Summary: "t", Steps: []contract.Step{{ID: "a", Name: "same"}, {ID: "b", Name: "new", Files: []string{"x", "y"}}, {ID: "d", Name: "more"}}}
	d := rundiff.Compare(left, right).Plan
	require.False(t, d.Same)
	require.Equal(t, []rundiff.FieldChange{{Field: "summary", Left: "s", Right: "t"}}, d.Changed)
	require.Equal(t, []rundiff.StepName{{ID: "d", Name: "more"}}, d.StepsAdded)
	require.Equal(t, []rundiff.StepName{{ID: "c", Name: "gone"}}, d.StepsRemoved)
	require.Equal(t, []string{"a"}, d.StepsSame)
	require.Equal(t, []rundiff.StepChange{{StepName: rundiff.StepName{ID: "b", Name: "new"}, Changed: []rundiff.FieldChange{
		{Field: "name", Left: "old", Right: "new"}, {Field: "files", Left: []string{"x"}, Right: []string{"x", "y"}},
	}}}, d.StepsChanged)
	left.Plan = nil
	require.False(t, rundiff.Compare(left, right).Plan.LeftRecorded)
}

// drawSide makes a side of all that may be on one.
func drawSide(t *rapid.T, run int64) rundiff.Side {
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
		d := rundiff.Compare(s, s)
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
	mirrored := func(tests []rundiff.Test, keep func(rundiff.Test) bool) []rundiff.Test {
		out := []rundiff.Test{}
		for _, x := range tests {
			x.Left, x.Right = x.Right, x.Left
			if keep(x) {
				out = append(out, x)
			}
		}
		return out
	}
	all := func(rundiff.Test) bool { return true }
	passes := func(x rundiff.Test) bool { return x.Right == passed || x.Right == flaky }
	pairs := map[rundiff.Kind]rundiff.Kind{
		rundiff.KindStatus: rundiff.KindStatusBetter, rundiff.KindUntested: rundiff.KindTested, rundiff.KindSlower: rundiff.KindFaster, rundiff.KindDearer: rundiff.KindCheaper,
	}
	count := func(points []rundiff.Point) map[rundiff.Kind]int {
		n := map[rundiff.Kind]int{}
		for _, p := range points {
			n[p.Kind]++
		}
		return n
	}
	rapid.Check(t, func(t *rapid.T) {
		a, b := drawSide(t, 1), drawSide(t, 2)
		there, back := rundiff.Compare(a, b), rundiff.Compare(b, a)
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
	raw, err := json.Marshal(rundiff.Compare(rundiff.Side{Ref: rundiff.Ref{Run: 1}}, rundiff.Side{Ref: rundiff.Ref{Run: 2}}))
	require.NoError(t, err)
	require.NotContains(t, string(raw), "null")
}

func TestReferencesAreReadInTheFormsInWhichPeopleWriteThem(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]rundiff.Ref{"42": {Run: 42}, "#42": {Run: 42}, "run-42": {Run: 42}, "42@3": {Run: 42, Attempt: 3}, "run-42@1": {Run: 42, Attempt: 1}} {
		got, err := rundiff.ParseRef(text)
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
	for _, text := range []string{"", "x", "0", "-1", "42@", "42@0", "42@-1", "42@x", "@1", "42@1@2"} {
		_, err := rundiff.ParseRef(text)
		require.Error(t, err, text)
	}
}
