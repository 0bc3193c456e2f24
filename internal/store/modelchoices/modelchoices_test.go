package modelchoices_test

import (
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/fault"
	"github.com/rocketgpt/orchestrator/internal/store/modelchoices"
	"github.com/rocketgpt/orchestrator/internal/storetest"
)

func TestAChoiceIsKeptWithWhoAndWhen(t *testing.T) {
	t.Parallel()
	s := modelchoices.New(storetest.Setup(t).Store)
	cold := 0.2
	first := contract.ModelChoice{Provider: "openai", Model: "gpt-5", Effort: contract.EffortHigh}
	second := contract.ModelChoice{Provider: "ollama", Model: "qwen3", Temperature: &cold}

	_, err := s.Set(t.Context(), contract.AgentPlanner, first, nil, "ana")
	require.NoError(t, err)
	stored, err := s.Set(t.Context(), contract.AgentBuilder, first, nil, "ana")
	require.NoError(t, err)
	require.Equal(t, first, stored.Model)
	require.NotZero(t, stored.Version)
	changed, err := s.Set(t.Context(), contract.AgentBuilder, second, &stored.Version, "ben\x00")
	require.NoError(t, err)
	require.NotEqual(t, stored.Version, changed.Version)

	list, err := s.List(t.Context())
	require.NoError(t, err)
	require.Len(t, list, 2)
	require.Equal(t, changed, list[0])
	require.Equal(t, second, list[0].Model)
	require.Contains(t, list[0].By, "ben")
	require.False(t, list[0].At.IsZero())

	removed, err := s.Unset(t.Context(), contract.AgentBuilder, nil, "eve")
	require.NoError(t, err)
	require.True(t, removed)
	removed, err = s.Unset(t.Context(), contract.AgentBuilder, nil, "eve")
	require.NoError(t, err)
	require.False(t, removed, "there is no choice any more")

	changes, err := s.Changes(t.Context(), contract.AgentBuilder, 10)
	require.NoError(t, err)
	require.Len(t, changes, 3, "removing what is not there is no change")
	require.Equal(t, "eve", changes[0].By)
	require.Equal(t, &second, changes[0].From)
	require.Nil(t, changes[0].To)
	require.Equal(t, &first, changes[1].From)
	require.Equal(t, &second, changes[1].To)
	require.Nil(t, changes[2].From)
	all, err := s.Changes(t.Context(), "", 10)
	require.NoError(t, err)
	require.Len(t, all, 4)
}

func TestOfTwoPeopleWhoSawTheSameChoiceOneSaves(t *testing.T) {
	t.Parallel()
	s := modelchoices.New(storetest.Setup(t).Store)
	for _, seenBefore := range []bool{false, true} {
		var seen int64 // no choice yet
		if seenBefore {
			list, err := s.List(t.Context())
			require.NoError(t, err)
			seen = list[0].Version
		}
		errs := make([]error, 8)
		var all sync.WaitGroup
		for i := range errs {
			all.Go(func() {
				model := contract.ModelChoice{Provider: "openai", Model: fmt.Sprintf("model-%d", i)}
				_, errs[i] = s.Set(t.Context(), contract.AgentBuilder, model, &seen, fmt.Sprintf("person %d", i))
			})
		}
		all.Wait()
		winner := -1
		for i, err := range errs {
			if err == nil {
				require.Equal(t, -1, winner, "both %d and %d saved", winner, i)
				winner = i
				continue
			}
			require.True(t, fault.Is(err, contract.CodeRejected), "%v", err)
		}
		require.NotEqual(t, -1, winner)
		list, err := s.List(t.Context())
		require.NoError(t, err)
		require.Equal(t, fmt.Sprintf("model-%d", winner), list[0].Model.Model)
		loser := (winner + 1) % len(errs)
		require.ErrorContains(t, errs[loser], fmt.Sprintf("person %d", winner), "it says who was faster")
	}
	zero := int64(0)
	_, err := s.Unset(t.Context(), contract.AgentBuilder, &zero, "ana")
	require.True(t, fault.Is(err, contract.CodeRejected), "a reset by somebody who has not seen the choice is rejected")
	_, err = s.Unset(t.Context(), contract.AgentBuilder, nil, "ana")
	require.NoError(t, err)
	gone := int64(1)
	_, err = s.Set(t.Context(), contract.AgentBuilder, contract.ModelChoice{Provider: "a", Model: "b"}, &gone, "ana")
	require.ErrorContains(t, err, "reset to the configuration")
}

func TestTheHistoryOfAnAgentIsBounded(t *testing.T) {
	t.Parallel()
	s := modelchoices.New(storetest.Setup(t).Store)
	_, err := s.Set(t.Context(), contract.AgentPlanner, contract.ModelChoice{Provider: "a", Model: "b"}, nil, "ana")
	require.NoError(t, err)
	for i := range modelchoices.KeepChanges + 3 {
		_, err := s.Set(t.Context(), contract.AgentBuilder, contract.ModelChoice{Provider: "a", Model: fmt.Sprint(i)}, nil, "ana")
		require.NoError(t, err)
	}
	changes, err := s.Changes(t.Context(), "", 10*modelchoices.KeepChanges)
	require.NoError(t, err)
	require.Len(t, changes, modelchoices.KeepChanges+1, "the other agent's history is kept")
	require.Equal(t, fmt.Sprint(modelchoices.KeepChanges+2), changes[0].To.Model)
}
