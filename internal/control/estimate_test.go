package control

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/internal/storetest"
	"github.com/rocketgpt/orchestrator/test/harness"
)

// released adds a run of the project p that was released: its planner took from minute 0 to 2, its
// builder from 1 to 3, and, after a wait of an hour, its tester a minute.
func released(t *testing.T, f *storetest.Fixture, seq int64) {
	t.Helper()
	run := f.Create(t, store.NewRun{Project: "p"})
	_, err := f.Record(t.Context(), store.Source{WorkflowID: contract.RunWorkflowID(run.ID), WorkflowRunID: "w"}, contract.Record{
		RunID: run.ID, Seq: seq, Run: &contract.RunChange{Phase: contract.PhaseReleaser, Status: contract.StatusDone, Commit: "c0ffee", Finished: true},
	})
	require.NoError(t, err)
	storetest.Query(t, f.URL, func(ctx context.Context, conn *pgx.Conn) {
		_, err := conn.Exec(ctx, `INSERT INTO orchestrator_executions (run_id, phase, agent, attempt, started_at, finished_at)
			SELECT $1, phase, phase, 1, '2026-01-31T08:00Z'::timestamptz + make_interval(mins => b), '2026-01-31T08:00Z'::timestamptz + make_interval(mins => e)
			FROM (VALUES ('planner', 0, 2), ('builder', 1, 3), ('tester', 63, 64)) AS x (phase, b, e)`, run.ID)
		require.NoError(t, err)
	})
}

func TestAnEstimateComesFromEarlierRunsAndCreatesNothing(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	repo := harness.Repo(t, filepath.Join(dir, "app"), map[string]string{"a": "b"})
	runs, f := chooser(t, dir)
	for i := range 3 {
		released(t, f, int64(i+1))
	}
	runs.Config.Execution.ConcurrentRuns = 2
	existing, err := f.ListRuns(t.Context(), store.Filter{})
	require.NoError(t, err)

	e, err := runs.Estimate(t.Context(), Creation{Repo: repo, Goal: "x", Project: "p", Attempts: 3, Settings: map[string]string{"execution.run.cost_usd": "5"}})
	require.NoError(t, err)
	require.Equal(t, 3, e.Attempts)
	require.Equal(t, 3, e.Known)
	require.NotNil(t, e.MicroUSD)
	require.Equal(t, 3, e.Samples)
	require.Equal(t, (8 * time.Minute).Milliseconds(), *e.DurationMS, "two at a time, each 4 minutes without the wait")
	require.EqualValues(t, 5_000_000, e.LimitMicroUSD)
	require.Equal(t, (72 * time.Hour).Milliseconds(), e.LimitMS)
	require.Equal(t, "3 attempts will probably cost about 0.0000 USD: 0.0000 USD each (from at least 3 earlier runs); "+
		"they will probably take about 8m0s without waits (from at least 3 earlier runs); together, they can cost at most 5.00 USD (execution.run.cost_usd)", e.Text)

	one, err := runs.Estimate(t.Context(), Creation{Repo: repo, Goal: "x", Project: "p"})
	require.NoError(t, err)
	require.Equal(t, 1, one.Attempts)
	require.Equal(t, (4 * time.Minute).Milliseconds(), *one.DurationMS)
	require.Contains(t, one.Text, "it can cost at most 25.00 USD")

	after, err := f.ListRuns(t.Context(), store.Filter{})
	require.NoError(t, err)
	require.Len(t, after, len(existing))
}

func TestAnEstimateThatIsNotPossibleSaysWhyAndNamesTheLimit(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	repo := harness.Repo(t, filepath.Join(dir, "app"), map[string]string{"a": "b"})
	runs, _ := chooser(t, dir)
	c := Creation{Repo: repo, Goal: "x", Project: "p", Attempts: 2}
	e, err := runs.Estimate(t.Context(), c)
	require.NoError(t, err)
	require.Nil(t, e.MicroUSD)
	require.Nil(t, e.DurationMS)
	require.Equal(t, "cost and time of 2 attempts cannot be estimated, because fewer than 3 earlier runs of the project p were released; together, they can cost at most 25.00 USD (execution.run.cost_usd)", e.Text)

	c.Settings = map[string]string{"execution.run.cost_usd": "0"}
	e, err = runs.Estimate(t.Context(), c)
	require.NoError(t, err)
	require.Contains(t, e.Text, "the cost is not limited")

	c.PlanOnly = true
	_, err = runs.Estimate(t.Context(), c)
	require.ErrorContains(t, err, "--plan-only", "several attempts at a plan are not possible")
	c.Attempts = 0
	_, err = runs.Estimate(t.Context(), c)
	require.ErrorContains(t, err, "omit plan_only and prepare_only")
}

func TestTheCostOfAModelWithoutAPriceIsNotEstimated(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	repo := harness.Repo(t, filepath.Join(dir, "app"), map[string]string{"a": "b"})
	runs, f := chooser(t, dir)
	other := runs.Config.Models.Providers["house"]
	other.Kind = "compatible"
	runs.Config.Models.Providers["other"] = other
	for i := range 3 {
		released(t, f, int64(i+1))
	}
	e, err := runs.Estimate(t.Context(), Creation{Repo: repo, Goal: "x", Project: "p", Attempts: 2, AttemptModels: []string{"house/small", "other/unheard-of"}})
	require.NoError(t, err)
	require.Equal(t, 1, e.Known)
	require.Equal(t, 1, e.Unpriced)
	require.Contains(t, e.Text, "1 of 2 attempts will probably cost about")
	e, err = runs.Estimate(t.Context(), Creation{Repo: repo, Goal: "x", Project: "p", Attempts: 2, AttemptModels: []string{"other/unheard-of"}})
	require.NoError(t, err)
	require.Contains(t, e.Text, "the price of the model is unknown")
	require.Contains(t, e.Text, "they will probably take about 4m0s")
}
