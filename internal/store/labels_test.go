package store_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/internal/store/chain"
)

func TestLabelsOfARunAreChangedOnceWithTheirEvents(t *testing.T) {
	t.Parallel()
	b := setup(t)
	run := b.Create(t, store.NewRun{Labels: []string{"docs", "a", "docs"}})
	require.Equal(t, []string{"a", "docs"}, run.Labels)
	change := func(c store.LabelChange) int {
		n, err := b.ChangeLabels(t.Context(), run.ID, c)
		require.NoError(t, err)
		return n
	}
	require.Equal(t, 2, change(store.LabelChange{Add: []string{"rgpt:blocked", "docs"}, Remove: []string{"a", "unknown"}, By: "ann", Reason: "wait"}))
	require.Zero(t, change(store.LabelChange{Add: []string{"rgpt:blocked"}, Remove: []string{"a"}, By: "bob"}), "a repeat changes nothing")
	run, err := b.Run(t.Context(), run.ID)
	require.NoError(t, err)
	require.Equal(t, []string{"docs", "rgpt:blocked"}, run.Labels)
	events, err := b.Events(t.Context(), run.ID, 0, 0)
	require.NoError(t, err)
	var types []contract.EventType
	for i, e := range events {
		types = append(types, e.Type)
		require.EqualValues(t, i+1, e.Seq)
	}
	require.Equal(t, []contract.EventType{contract.EventRunCreated, contract.EventLabelRemoved, contract.EventLabelAdded}, types)
	entries, err := chain.List(t.Context(), b.Store, chain.Filter{RunID: run.ID, Action: string(contract.EventLabelAdded)})
	require.NoError(t, err)
	require.Len(t, entries, 1)
	require.Equal(t, "ann", entries[0].Name)
	_, err = b.ChangeLabels(t.Context(), 999999, store.LabelChange{Add: []string{"x"}})
	require.ErrorIs(t, err, store.ErrNotFound)
}

func TestARunHasALimitedNumberOfLabelsAndAChangeIsAllOrNothing(t *testing.T) {
	t.Parallel()
	b := setup(t)
	run := b.Create(t, store.NewRun{})
	var many []string
	for i := range contract.MaxLabels {
		many = append(many, fmt.Sprintf("label-%03d", i))
	}
	_, err := b.ChangeLabels(t.Context(), run.ID, store.LabelChange{Add: append(many, "one more")})
	require.ErrorContains(t, err, "which is the maximum")
	run, err = b.Run(t.Context(), run.ID)
	require.NoError(t, err)
	require.Empty(t, run.Labels)
}

func TestRunsAreListedByAllTheirLabels(t *testing.T) {
	t.Parallel()
	b := setup(t)
	one := b.Create(t, store.NewRun{Labels: []string{"a", "b"}})
	two := b.Create(t, store.NewRun{Labels: []string{"b"}})
	list := func(labels ...string) (ids []int64) {
		runs, err := b.ListRuns(t.Context(), store.Filter{Labels: labels})
		require.NoError(t, err)
		for _, r := range runs {
			ids = append(ids, r.ID)
		}
		return ids
	}
	require.Equal(t, []int64{two.ID, one.ID}, list("b"))
	require.Equal(t, []int64{one.ID}, list("b", "a"))
	require.Empty(t, list("c"))
}
