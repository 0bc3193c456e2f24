package main

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/store"
)

func TestOnlyAnswersThatARunTakesAreOffered(t *testing.T) {
	t.Parallel()
	p := withStore(t)
	for kind, want := range map[string]string{
		contract.InterventionQuota: "Continue now: rgpt run approve", contract.InterventionHelp: "Other action: rgpt run heal",
	} {
		run, _, err := p.CreateRun(t.Context(), store.NewRun{Project: kind, GoalTitle: kind, Settings: contract.Settings{Repo: contract.Repo{URL: "/r", Base: "b", Tree: "t"}}})
		require.NoError(t, err)
		_, err = p.Record(t.Context(), store.Source{WorkflowID: contract.RunWorkflowID(run.ID), WorkflowRunID: "first"}, contract.Record{
			RunID: run.ID, Seq: 1, Interventions: []contract.InterventionNote{{Number: 1, Status: "open", Reason: "why " + kind, ActionRequired: "do"}},
			Events: []contract.EventDraft{{Type: contract.EventInterventionRequested, Payload: map[string]any{
				"intervention_id": contract.InterventionID(run.ID, 1), "kind": kind,
			}}},
		})
		require.NoError(t, err)
		out := p.ok(t, "run", "interventions", fmt.Sprint(run.ID)).out
		require.Contains(t, out, want)
		if kind == contract.InterventionQuota {
			require.NotContains(t, out, "rgpt run heal", "a run that waits for a quota refuses it")
		}
	}
	require.Contains(t, p.ok(t, "run", "interventions").out, "Continue now: rgpt run approve")
}
