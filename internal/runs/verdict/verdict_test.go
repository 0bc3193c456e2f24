package verdict_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/pin"
	"github.com/rocketgpt/orchestrator/internal/runs/verdict"
)

func check(id string, category contract.Category) contract.Check {
	return contract.Check{ID: id, Category: category}
}

var (
	passed = contract.CheckResult{Check: check("test-go-1", contract.CategoryTest), OK: true, Summary: contract.TestSummary{Passed: 2}}
	failed = contract.CheckResult{
		Check: check("test-go-1", contract.CategoryTest), Code: contract.CodeTestsFailed, Message: "TestGreet failed", Major: 1,
		Summary: contract.TestSummary{Failed: 1, Passed: 1},
	}
	deleted = contract.Finding{Severity: contract.SeverityMajor, Category: contract.CategoryTest, Message: "TestA was deleted", Rule: "pinned-tests/deleted"}
	edited  = contract.Finding{Severity: contract.SeverityMedium, Category: contract.CategoryTest, Message: "TestB was changed", Rule: "pinned-tests/edited"}
	added   = contract.Finding{Severity: contract.SeverityMinor, Category: contract.CategoryTest, Message: "TestC checks more", Rule: "pinned-tests/edited"}
)

func TestARemovedTestFailsARunInEnforceModeAndWarnsInReportMode(t *testing.T) {
	t.Parallel()
	enforced, findings := verdict.Pinned([]contract.Finding{edited, deleted, added}, verdict.PinnedEnforce)
	require.False(t, enforced.OK)
	require.Equal(t, []int{1, 1, 1}, []int{enforced.Major, enforced.Medium, enforced.Minor})
	out := verdict.Of([]contract.CheckResult{enforced, passed}, contract.Thresholds{MaxMedium: 1})
	require.Equal(t, contract.CodeFindings, out.Failure.Code)
	require.Contains(t, out.Failure.Message, "pinned-tests: TestA was deleted; TestB was changed; restore these tests")
	require.Contains(t, out.Failure.Message, "verification.pinned_tests=report")

	reported, graded := verdict.Pinned(findings, verdict.PinnedReport)
	require.True(t, reported.OK)
	require.Equal(t, []int{0, 2, 1}, []int{reported.Major, reported.Medium, reported.Minor})
	out = verdict.Of([]contract.CheckResult{reported, passed}, contract.Thresholds{MaxMedium: 1})
	require.Nil(t, out.Failure)
	require.Contains(t, out.Warning, "findings.max_medium")

	again, _ := verdict.Pinned(graded, verdict.PinnedEnforce)
	require.Equal(t, enforced, again, "what was reported can be enforced later")
}

func TestChangesOfTestsCountAgainstTheThreshold(t *testing.T) {
	t.Parallel()
	pins, _ := verdict.Pinned([]contract.Finding{deleted}, verdict.PinnedEnforce)
	require.Nil(t, verdict.Of([]contract.CheckResult{pins, passed}, contract.Thresholds{MaxMajor: 1}).Failure)
	require.NotNil(t, verdict.Of([]contract.CheckResult{pins, passed}, contract.Thresholds{}).Failure)
}

func TestACheckThatIsRedWithoutAFailedTestDoesNotCountFailedTests(t *testing.T) {
	t.Parallel()
	cut := contract.CheckResult{Check: check("test-go-1", contract.CategoryTest), Code: contract.CodeTestsFailed, Message: "its tests were not seen to end", Major: 1}
	out := verdict.Of([]contract.CheckResult{cut}, contract.Thresholds{})
	require.Equal(t, contract.CodeTestsFailed, out.Failure.Code)
	require.Equal(t, "test-go-1 failed: its tests were not seen to end", out.Failure.Message)
}

func TestARedTestIsReportedAsSuchAlsoWhereTestsWereChanged(t *testing.T) {
	t.Parallel()
	pins, _ := verdict.Pinned([]contract.Finding{edited}, verdict.PinnedEnforce)
	out := verdict.Of([]contract.CheckResult{pins, failed}, contract.Thresholds{MaxMajor: 100})
	require.Equal(t, contract.ClassAssertion, out.Failure.Class)
	require.Equal(t, contract.CodeTestsFailed, out.Failure.Code)
	require.Equal(t, "1 of 2 tests failed, in test-go-1: TestGreet failed; the change also modified tests: TestB was changed", out.Failure.Message)
	require.True(t, verdict.Judged(out.Failure))
}

func TestSkippedTestsAreNoneThatPassed(t *testing.T) {
	t.Parallel()
	skipped := contract.CheckResult{Check: check("test-go-1", contract.CategoryTest), OK: true, Summary: contract.TestSummary{Skipped: 4}}
	out := verdict.Of([]contract.CheckResult{skipped}, contract.Thresholds{MaxMedium: 10})
	require.Zero(t, out.Summary.Passed)
	require.Equal(t, "no tests ran: all 4 were skipped", out.Warning)
}

func TestAGreenReTestCountsNothingAndARedOneFails(t *testing.T) {
	t.Parallel()
	again := passed
	again.Check = passed.Check.AsRetest(1, 3)
	require.Equal(t, "test-go-1~2", again.Check.ID)
	require.Equal(t, passed.Check, again.Check.Original())
	require.Equal(t, "test-go-1~4", again.Check.AsRetest(3, 3).ID)
	out := verdict.Of([]contract.CheckResult{passed, again}, contract.Thresholds{})
	require.Nil(t, out.Failure)
	require.Equal(t, 2, out.Summary.Passed)

	red := failed
	red.Check = failed.Check.AsRetest(2, 3)
	red.Code = contract.CodeTimeout
	out = verdict.Of([]contract.CheckResult{passed, again, red}, contract.Thresholds{MaxMajor: 100})
	require.Equal(t, contract.ClassAssertion, out.Failure.Class)
	require.Equal(t, "not stable: in retest 2 of 3, test-go-1 failed after it had passed: TestGreet failed", out.Failure.Message)
	require.Equal(t, 1, out.Summary.Failed)
}

func TestRecordedOutcomesAreJudgedAgainAsTheyWouldHaveBeen(t *testing.T) {
	t.Parallel()
	pins, findings := verdict.Pinned([]contract.Finding{deleted}, verdict.PinnedReport)
	recorded := []verdict.Recorded{{Result: pins, Findings: findings}, {Result: passed}}
	require.Nil(t, verdict.Rejudge(recorded, contract.Thresholds{MaxMedium: 9}, verdict.Modes{Pinned: verdict.PinnedReport}).Failure)
	require.Equal(t, contract.CodeFindings, verdict.Rejudge(recorded, contract.Thresholds{}, verdict.Modes{Pinned: verdict.PinnedEnforce}).Failure.Code)
	require.Zero(t, verdict.Rejudge(recorded, contract.Thresholds{}, verdict.Modes{Pinned: verdict.PinnedOff}).Medium)
}

func TestWhatCouldNotBeCarriedOutIsNoVerdict(t *testing.T) {
	t.Parallel()
	require.False(t, verdict.Judged(nil))
	require.False(t, verdict.Judged(&contract.Failure{Class: contract.ClassInfra, Code: contract.CodeTimeout}))
	require.False(t, verdict.Judged(&contract.Failure{Class: contract.ClassRuntime, Code: contract.CodeUnknown}))
}

func TestANewTestThatProvesNothingIsMajorWhereThatIsEnforcedAndMediumWhereItWarns(t *testing.T) {
	t.Parallel()
	unproven := pin.Added{Path: "a_test.go", Line: 3, Name: "TestA"}.Finding("also passes without the change")
	warned, findings := verdict.Proved([]contract.Finding{unproven}, verdict.NewWarn)
	require.True(t, warned.OK)
	require.Equal(t, contract.SeverityMedium, findings[0].Severity)
	require.Nil(t, verdict.Of([]contract.CheckResult{passed, warned}, contract.Thresholds{}).Failure)

	enforced, findings := verdict.Proved(findings, verdict.NewEnforce)
	require.Equal(t, contract.SeverityMajor, findings[0].Severity)
	out := verdict.Of([]contract.CheckResult{passed, enforced}, contract.Thresholds{})
	require.Equal(t, contract.ClassAssertion, out.Failure.Class)
	require.Equal(t, contract.CodeFindings, out.Failure.Code)
	require.Contains(t, out.Failure.Message, "new-tests: TestA also passes without the change; new tests must fail without the change")
	require.Contains(t, out.Failure.Message, "verification.prove_new_tests=warn")
	require.Nil(t, verdict.Of([]contract.CheckResult{passed, enforced}, contract.Thresholds{MaxMajor: 1}).Failure, "it counts by its findings")

	recorded := []verdict.Recorded{{Result: passed}, {Result: warned, Findings: findings}}
	require.NotNil(t, verdict.Rejudge(recorded, contract.Thresholds{}, verdict.Modes{New: verdict.NewEnforce}).Failure)
	require.Equal(t, 1, verdict.Rejudge(recorded, contract.Thresholds{}, verdict.Modes{New: verdict.NewWarn}).Medium)
	require.Zero(t, verdict.Rejudge(recorded, contract.Thresholds{}, verdict.Modes{}).Medium, "runs of before have it off")

	clean, _ := verdict.Proved(nil, verdict.NewEnforce)
	require.True(t, clean.OK)
	require.Empty(t, clean.Message)
}
