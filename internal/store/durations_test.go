package store_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/store"
)

func TestTheNewestDurationOfEachTestOfARepositoryCounts(t *testing.T) {
	t.Parallel()
	b := setup(t)
	other := b.Create(t, store.NewRun{Project: "other"})
	save := func(attempt contract.ExecutionRef, id string, cases ...contract.TestCase) {
		check := contract.Check{ID: id, Category: contract.CategoryTest}
		require.NoError(t, b.SaveCheck(t.Context(), attempt, id, contract.CheckResult{Check: check}, cases, nil, ""))
	}
	durations := func(run store.Run) map[string]int64 {
		found, err := b.TestDurations(t.Context(), run.Project, run.Repo, "test-playwright-")
		require.NoError(t, err)
		return found
	}
	require.Empty(t, durations(b.First))

	// The base commit is tested first.
	baseline, err := b.OpenBaseline(t.Context(), b.First.ID, store.Baseline{Key: "k", Repo: b.First.Repo})
	require.NoError(t, err)
	require.NoError(t, b.SaveBaselineCheck(t.Context(), baseline.Key, store.BaselineCheck{
		Result: contract.CheckResult{Check: contract.Check{ID: "test-playwright-1"}},
		Cases:  []contract.TestCase{{Name: "a", Status: contract.TestPassed, DurationMS: 10}, {Name: "b", Status: contract.TestPassed, DurationMS: 20}},
	}))
	require.Equal(t, map[string]int64{"a": 10, "b": 20}, durations(b.First))

	first := b.begin(t, contract.PhaseTester, "")
	save(first, "test-playwright-1", contract.TestCase{Name: "a", Status: contract.TestFailed, DurationMS: 11}, contract.TestCase{Name: "b", Status: contract.TestSkipped, DurationMS: 1})
	save(first, "test-playwright-2", contract.TestCase{Name: "c", Status: contract.TestFlaky, DurationMS: 30}, contract.TestCase{Name: "quick", Status: contract.TestPassed})
	save(first, "test-node-1", contract.TestCase{Name: "node", Status: contract.TestPassed, DurationMS: 5})
	require.Equal(t, map[string]int64{"a": 11, "b": 20, "c": 30}, durations(b.First))
	require.Empty(t, durations(other))
}
