package workflows

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/contract"
)

// retesting repeats passed tests n times.
func retesting(n int) func(*contract.Settings) {
	return func(s *contract.Settings) { s.StableRetests = n }
}

// green makes every check pass with one passed test.
func green(contract.VerifyInput) contract.CheckResult {
	return contract.CheckResult{OK: true, Summary: contract.TestSummary{Passed: 1}}
}

// ids returns the ids of the checks that ran.
func (w *runFixture) ids() []string {
	var out []string
	for _, c := range w.verified {
		out = append(out, c.Check.ID)
	}
	return out
}

// testerOutput is the part of a run's tester_output that these tests read.
type testerOutput struct {
	Summary contract.TestSummary   `json:"summary"`
	Checks  []contract.CheckResult `json:"checks"`
	Major   int                    `json:"major"`
	Medium  int                    `json:"medium"`
	Minor   int                    `json:"minor"`
	Warning string                 `json:"warning"`
}

// tested returns the output of the tester.
func (w *runFixture) tested(t *testing.T) testerOutput {
	t.Helper()
	var out testerOutput
	for _, rec := range w.recorded() {
		for _, e := range rec.Events {
			if e.Type == contract.PhaseTester.CompletedEvent() {
				require.NoError(t, json.Unmarshal(rec.End.Output, &out))
			}
		}
	}
	return out
}

func TestGreenTestsRunAgainAsOftenAsAskedAndCountOnce(t *testing.T) {
	t.Parallel()
	w := newRunFixture(t)
	w.onVerify = green
	require.Equal(t, contract.StatusDone, w.orchestrate(t, retesting(2)).Status)
	require.ElementsMatch(t, []string{
		"build-go", "test-go-1", "test-go-2", "test-go-1~2", "test-go-2~2", "test-go-1~3", "test-go-2~3",
	}, w.ids(), "what is built once is not built again")
	require.Equal(t, 3, w.tested(t).Summary.Passed)
	require.Len(t, w.tested(t).Checks, 7)
}

func TestWithoutReTestsEachCheckRunsOnce(t *testing.T) {
	t.Parallel()
	w := newRunFixture(t)
	w.onVerify = green
	require.Equal(t, contract.StatusDone, w.orchestrate(t).Status)
	require.ElementsMatch(t, []string{"build-go", "test-go-1", "test-go-2"}, w.ids())
}

func TestOneRedReTestFailsTheTesterAndNoFurtherRoundRuns(t *testing.T) {
	t.Parallel()
	w := newRunFixture(t)
	w.onVerify = func(in contract.VerifyInput) contract.CheckResult {
		if in.Check.ID == "test-go-2~3" {
			return contract.CheckResult{Code: contract.CodeTestsFailed, Message: "TestSometimes failed", Summary: contract.TestSummary{Failed: 1}}
		}
		return green(in)
	}
	result := w.orchestrate(t, retesting(5))
	require.Equal(t, contract.StatusFailed, result.Status)
	require.Equal(t, contract.ClassAssertion, result.Failure.Class)
	require.Equal(t, contract.CodeTestsFailed, result.Failure.Code)
	require.Contains(t, result.Failure.Message, "not stable: in retest 2 of 5, test-go-2 failed after it had passed: TestSometimes failed")
	require.NotContains(t, w.ids(), "test-go-1~4")
	require.Empty(t, w.released.Release.Branch)
}

func TestRedTestsAreNotReTested(t *testing.T) {
	t.Parallel()
	w := newRunFixture(t)
	w.onVerify = func(in contract.VerifyInput) contract.CheckResult {
		if in.Check.Category == contract.CategoryTest {
			return contract.CheckResult{Code: contract.CodeTestsFailed, Message: "TestAdd failed", Summary: contract.TestSummary{Failed: 1}}
		}
		return green(in)
	}
	result := w.orchestrate(t, retesting(2))
	require.Equal(t, contract.StatusFailed, result.Status)
	require.Contains(t, result.Failure.Message, "2 of 3 tests failed")
	require.Len(t, w.ids(), 3)
}

func TestAStopBetweenReTestsEndsThem(t *testing.T) {
	t.Parallel()
	w := newRunFixture(t)
	w.onVerify = func(in contract.VerifyInput) contract.CheckResult {
		if in.Check.Retest == 1 {
			w.after(0, func() { w.update(contract.UpdateStop, contract.Command{ID: "stop", By: "ann"}) })
		}
		return green(in)
	}
	require.Equal(t, contract.StatusCancelled, w.orchestrate(t, retesting(20), func(s *contract.Settings) { s.RunBudget.Time = time.Hour }).Status)
	require.Less(t, len(w.ids()), 40)
}

// proving adds the check of new tests to the plan.
func (w *runFixture) proving() {
	w.checks = append(w.checks, []contract.Check{{ID: contract.CheckNewTests, Category: contract.CategoryTest}})
}

func TestNewTestsAreProvenOnceAfterAllElseIsGreen(t *testing.T) {
	t.Parallel()
	w := newRunFixture(t)
	w.proving()
	w.onVerify = green
	require.Equal(t, contract.StatusDone, w.orchestrate(t, retesting(1)).Status)
	require.ElementsMatch(t, []string{"build-go", "test-go-1", "test-go-2", contract.CheckNewTests, "test-go-1~2", "test-go-2~2"}, w.ids())
	require.Equal(t, contract.CheckNewTests, w.ids()[3])
}

func TestNewTestsAreNotProvenWhereTestsAreRed(t *testing.T) {
	t.Parallel()
	w := newRunFixture(t)
	w.proving()
	w.onVerify = func(in contract.VerifyInput) contract.CheckResult {
		if in.Check.ID == "test-go-1" {
			return contract.CheckResult{Code: contract.CodeTestsFailed, Message: "TestAdd failed", Summary: contract.TestSummary{Failed: 1}}
		}
		return green(in)
	}
	require.Equal(t, contract.StatusFailed, w.orchestrate(t).Status)
	require.NotContains(t, w.ids(), contract.CheckNewTests)
}

func TestFlakyAndQuarantinedTestsCauseNoHeal(t *testing.T) {
	t.Parallel()
	w := newRunFixture(t)
	w.onVerify = func(in contract.VerifyInput) contract.CheckResult {
		r := green(in)
		if in.Check.Category == contract.CategoryTest {
			r.Summary, r.Medium, r.Warning = contract.TestSummary{Passed: 1, Flaky: 1, Quarantined: 1}, 1, "a quarantined test failed"
		}
		return r
	}
	require.Equal(t, contract.StatusDone, w.orchestrate(t, healing).Status)
	require.Empty(t, w.actions())
	require.Equal(t, 1, w.begun["tester/"])
	out := w.tested(t)
	require.Equal(t, contract.TestSummary{Passed: 3, Flaky: 2, Quarantined: 2}, out.Summary)
	require.Contains(t, out.Warning, "test-go-1: a quarantined test failed; test-go-2: a quarantined test failed")
}
