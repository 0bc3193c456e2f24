package views_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/store/views"
	"github.com/rocketgpt/orchestrator/internal/storetest"
)

func prepared(kind contract.EventType, payload string) contract.Event {
	return contract.Event{Type: kind, Payload: json.RawMessage(payload)}
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
		p := views.PreparationOf(events, false)
		require.Equal(t, &views.RunEnvironment{State: views.PreparationReady, Digest: "abc", Files: 3}, p.Environment, name)
		require.Equal(t, &views.RunBaseline{
			State: views.PreparationFailed, Failure: &contract.Failure{Class: contract.ClassInfra, Code: "unavailable", Message: "the worker is gone"},
		}, p.Baseline, name)
	}
}

func TestAFailureOfTheSetUpIsNoneOfTheBaseline(t *testing.T) {
	t.Parallel()
	for name, events := range map[string][]contract.Event{
		"the first":            {setupStarts, setupFails},
		"after a baseline ran": {setupStarts, setupReady, baselineStarts, setupStarts, setupFails},
	} {
		p := views.PreparationOf(events, true)
		require.Equal(t, views.PreparationFailed, p.Environment.State, name)
		require.Equal(t, "the worker is gone", p.Environment.Failure.Message, name)
		require.Nil(t, p.Baseline, name)
	}
}

func TestNothingRunsOnceTheRunHasEnded(t *testing.T) {
	t.Parallel()
	events := []contract.Event{setupStarts}
	require.Equal(t, views.PreparationRunning, views.PreparationOf(events, false).Environment.State)
	require.Equal(t, &views.RunEnvironment{State: views.PreparationFailed}, views.PreparationOf(events, true).Environment)

	events = append(events, setupReady, baselineStarts)
	require.Equal(t, views.PreparationRunning, views.PreparationOf(events, false).Baseline.State)
	p := views.PreparationOf(events, true)
	require.Equal(t, views.PreparationReady, p.Environment.State)
	require.Equal(t, &views.RunBaseline{State: views.PreparationFailed}, p.Baseline)
}

func TestThePreparationOfARunThatEndedDoesNotRun(t *testing.T) {
	t.Parallel()
	b := storetest.Setup(t)
	b.Apply(t, contract.Record{
		Run:    &contract.RunChange{Status: contract.StatusCancelled, Finished: true},
		Events: []contract.EventDraft{{Type: contract.EventEnvironmentStarted}},
	})
	run, err := b.Run(t.Context(), b.First.ID)
	require.NoError(t, err)
	p, err := b.Preparation(t.Context(), run)
	require.NoError(t, err)
	require.Equal(t, views.PreparationFailed, p.Environment.State)
}
