package control

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/test/harness"
)

func TestImpossibleAttemptsAreRefused(t *testing.T) {
	t.Parallel()
	runs, _ := chooser(t, t.TempDir())
	for name, c := range map[string]struct {
		creation Creation
		says     string
	}{
		"a negative number":      {Creation{Attempts: -1}, "--attempts"},
		"more than allowed":      {Creation{Attempts: 6}, "execution.attempts.max"},
		"only a plan":            {Creation{Attempts: 2, PlanOnly: true}, "--plan-only"},
		"only an environment":    {Creation{Attempts: 2, PrepareOnly: true}, "--plan-only"},
		"a model and models":     {Creation{Attempts: 2, Model: "house/a", AttemptModels: []string{"house/b"}}, "--attempt-model or --model"},
		"a model for one":        {Creation{Attempts: 1, AttemptModels: []string{"house/b"}}, "--model"},
		"too many models":        {Creation{Attempts: 2, AttemptModels: []string{"house/a", "house/b", "house/c"}}, "3 models were named for 2 attempts"},
		"a model without a name": {Creation{AttemptModels: []string{"house", "house/b"}}, "provider/model"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c.creation.Repo, c.creation.Goal = "/app", "x"
			err := c.creation.Check()
			if err == nil {
				_, err = runs.attemptsOf(c.creation)
			}
			require.ErrorContains(t, err, c.says)
		})
	}
}

func TestTheNumberOfAttemptsComesFromTheRequestItsModelsOrTheConfiguration(t *testing.T) {
	t.Parallel()
	runs, _ := chooser(t, t.TempDir())
	count := func(c Creation) int {
		n, err := runs.attemptsOf(c)
		require.NoError(t, err)
		return n
	}
	require.Equal(t, 1, count(Creation{}))
	require.Equal(t, 3, count(Creation{Attempts: 3}))
	require.Equal(t, 2, count(Creation{AttemptModels: []string{"house/a", "house/b"}}))
	runs.Config.Execution.Attempts.Count = 4
	require.Equal(t, 4, count(Creation{}))
	require.Equal(t, 1, count(Creation{Attempts: 1}))
	require.Equal(t, 1, count(Creation{PlanOnly: true}), "a plan is made once")
}

func TestAttemptsHaveTheSameCommitAndTheirOwnModels(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	repo := harness.Repo(t, filepath.Join(dir, "app"), map[string]string{"a": "b"})
	runs, f := chooser(t, dir)
	runs.Config.Execution.ConcurrentRuns = 1 // the others are queued, and the first one of the fixture is in progress
	creation := Creation{Repo: repo, Goal: "x", Project: "calculator", Attempts: 3, AttemptModels: []string{"house/a", "house/b"}, Key: "k"}
	made, err := runs.Create(t.Context(), creation)
	require.NoError(t, err)
	require.True(t, made.Fresh)
	require.Contains(t, made.Notes, "cost and time of 3 attempts cannot be estimated, because fewer than 3 earlier runs of the project calculator were released; together, they can cost at most 25.00 USD (execution.run.cost_usd)")
	var models []string
	for i, a := range made.Attempts.Attempts {
		run, err := f.Run(t.Context(), a.RunID)
		require.NoError(t, err)
		require.Equal(t, made.Run.BaseCommit, run.BaseCommit)
		require.Equal(t, i+1, run.Settings.Attempt.Number)
		models = append(models, run.Settings.Models[contract.AgentPlanner].Model)
	}
	require.Equal(t, []string{"a", "b", "a"}, models)
	require.Equal(t, "a", made.Attempts.Settings.Judge.Model, "the judge is the planner's model")

	again, err := runs.Create(t.Context(), creation)
	require.NoError(t, err)
	require.False(t, again.Fresh)
	require.Equal(t, made.Attempts.ID, again.Attempts.ID)
	group, err := runs.AttemptsOf(t.Context(), made.Attempts.Attempts[2].RunID)
	require.NoError(t, err)
	require.Equal(t, made.Attempts.ID, group.ID)
	_, err = runs.AttemptsOf(t.Context(), f.First.ID)
	require.ErrorIs(t, err, store.ErrNotFound)
}
