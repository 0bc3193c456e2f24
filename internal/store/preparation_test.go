package store_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/store"
)

func prepared(kind contract.EventType, payload string) contract.Event {
	return contract.Event{Type: kind, Payload: raw("%s", payload)}
}

// What happens while a run is prepared.
var (
	setupStarts    = prepared(contract.EventEnvironmentStarted, `{}`)
	setupReady     = prepared(contract.EventEnvironmentReady, `{"environment": "abc", "files": 3}`)
	setupFails     = prepared(contract.EventEnvironmentError, `{"error_type": "INFRA_ERROR", "error_code": "unavailable", "error_message": "the worker is gone"}`)
	baselineStarts = prepared(contract.EventBaselineStarted, `{"checks": ["Go tests"]}`)
)

func TestAFailureAfterTheSetUpIsOneOfTheBaseline(t *testing.T) {
	t.Parallel()
	for name, events := range map[string][]contract.Event{
		"while it ran":   {setupStarts, setupReady, baselineStarts, setupFails},
		"before it ran":  {setupStarts, setupReady, setupFails},
		"after a retry":  {setupStarts, setupFails, setupStarts, setupReady, baselineStarts, setupFails},
		"and once again": {setupStarts, setupReady, baselineStarts, setupFails, setupStarts, setupReady, baselineStarts, setupFails},
	} {
		p := store.PreparationOf(events, false)
		require.Equal(t, &store.RunEnvironment{State: store.PreparationReady, Digest: "abc", Files: 3}, p.Environment, name)
		require.Equal(t, &store.RunBaseline{
			State: store.PreparationFailed, Failure: &contract.Failure{Class: contract.ClassInfra, Code: "unavailable", Message: "the worker is gone"},
		}, p.Baseline, name)
	}
}

func TestAFailureOfTheSetUpIsNoneOfTheBaseline(t *testing.T) {
	t.Parallel()
	for name, events := range map[string][]contract.Event{
		"the first":            {setupStarts, setupFails},
		"after a baseline ran": {setupStarts, setupReady, baselineStarts, setupStarts, setupFails},
	} {
		p := store.PreparationOf(events, true)
		require.Equal(t, store.PreparationFailed, p.Environment.State, name)
		require.Equal(t, "the worker is gone", p.Environment.Failure.Message, name)
		require.Nil(t, p.Baseline, name)
	}
}

func TestNothingRunsOnceTheRunHasEnded(t *testing.T) {
	t.Parallel()
	events := []contract.Event{setupStarts}
	require.Equal(t, store.PreparationRunning, store.PreparationOf(events, false).Environment.State)
	require.Equal(t, &store.RunEnvironment{State: store.PreparationFailed}, store.PreparationOf(events, true).Environment)

	events = append(events, setupReady, baselineStarts)
	require.Equal(t, store.PreparationRunning, store.PreparationOf(events, false).Baseline.State)
	p := store.PreparationOf(events, true)
	require.Equal(t, store.PreparationReady, p.Environment.State)
	require.Equal(t, &store.RunBaseline{State: store.PreparationFailed}, p.Baseline)
}

func TestThePreparationOfARunThatEndedDoesNotRun(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.record(t, contract.Record{
		Run:    &contract.RunChange{Status: contract.StatusCancelled, Finished: true},
		Events: []contract.EventDraft{{Type: contract.EventEnvironmentStarted}},
	})
	run, err := b.Run(t.Context(), b.run.ID)
	require.NoError(t, err)
	p, err := b.Preparation(t.Context(), run)
	require.NoError(t, err)
	require.Equal(t, store.PreparationFailed, p.Environment.State)
}
