package evals_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/rocketgpt/orchestrator/internal/eval"
	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/internal/store/evals"
	"github.com/rocketgpt/orchestrator/internal/storetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(storetest.Main(m)) }

func TestAnEvaluationContinuesAsItBegan(t *testing.T) {
	t.Parallel()
	s := evals.New(storetest.Setup(t).Store)
	ctx := t.Context()
	variants := []eval.Variant{{Name: "a", Model: "p/m"}, {Name: "b", Oracle: eval.OracleExact}}
	id, err := s.Create(ctx, evals.Eval{Set: "set", Digest: "d", Variants: variants, MaxCostMicros: 10, CreatedBy: "me"}, []evals.Pair{
		{Position: 0, Task: "one", Variant: "a", Repo: "r", Title: "t"}, {Position: 1, Task: "one", Variant: "b"}, {Position: 2, Task: "two", Variant: "b"},
	})
	require.NoError(t, err)
	open, err := s.Open(ctx, "d")
	require.NoError(t, err)
	require.Equal(t, id, open)
	open, err = s.Open(ctx, "another")
	require.NoError(t, err)
	require.Zero(t, open)

	started, err := s.Start(ctx, id, "one", "a", 500)
	require.NoError(t, err)
	require.Equal(t, evals.Started{CapMicros: 500, Attempt: 1}, started)
	require.NoError(t, s.SetRun(ctx, id, "one", "a", 42))
	// The process was killed. The share and the run remain.
	n, err := s.Reopen(ctx, id, nil)
	require.NoError(t, err)
	require.Equal(t, int64(1), n)
	started, err = s.Start(ctx, id, "one", "a", 900)
	require.NoError(t, err)
	require.Equal(t, evals.Started{RunID: 42, CapMicros: 500, Attempt: 1}, started)
	outcome := evals.Outcome{
		Solved: true, CostMicros: 7, CostKnown: true, FreshTokens: 1, CachedTokens: 2, ReasoningTokens: 3, OutputTokens: 4, Turns: 5, Heals: 6, Seconds: 1.5,
		Tests: &evals.Tests{FailToPass: evals.Count{Passed: 1, Total: 1}, Passed: true},
	}
	require.NoError(t, s.Finish(ctx, id, "one", "a", outcome))
	_, err = s.Start(ctx, id, "one", "a", 1)
	require.ErrorIs(t, err, store.ErrNotFound)
	require.NoError(t, s.Finish(ctx, id, "one", "b", evals.Outcome{Reason: "environment", Detail: "no", CostKnown: true}))

	results, err := s.Results(ctx, id)
	require.NoError(t, err)
	require.Len(t, results, 3)
	require.Equal(t, outcome, results[0].Outcome)
	require.Equal(t, int64(42), results[0].RunID)
	require.NotNil(t, results[0].FinishedAt)
	require.Equal(t, []evals.Status{evals.Done, evals.Done, evals.Pending}, []evals.Status{results[0].Status, results[1].Status, results[2].Status})

	list, err := s.List(ctx, 0, 10)
	require.NoError(t, err)
	require.Len(t, list, 1)
	require.Equal(t, []int64{3, 2, 1, 7}, []int64{list[0].Results, list[0].Finished, list[0].Solved, list[0].CostMicros})
	require.Equal(t, variants, list[0].Variants)
	list, err = s.List(ctx, id, 10)
	require.NoError(t, err)
	require.Empty(t, list)

	n, err = s.Reopen(ctx, id, []string{"environment"})
	require.NoError(t, err)
	require.Equal(t, int64(1), n)
	started, err = s.Start(ctx, id, "one", "b", 0)
	require.NoError(t, err)
	require.Equal(t, 2, started.Attempt, "a repeated result is another run")

	require.NoError(t, s.SetStatus(ctx, id, evals.Done, "", 10))
	open, err = s.Open(ctx, "d")
	require.NoError(t, err)
	require.Zero(t, open)
	e, err := s.Get(ctx, id)
	require.NoError(t, err)
	require.NotNil(t, e.FinishedAt)
	_, err = s.Get(ctx, id+1)
	require.ErrorIs(t, err, store.ErrNotFound)
}
