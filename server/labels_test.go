package server_test

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/client"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/internal/store/chain"
)

func TestLabelsAreChangedListedAndFilteredByTheAPI(t *testing.T) {
	t.Parallel()
	b := setup(t)
	id, other := b.run(t, "Add dark mode"), b.run(t, "Another one")
	path := fmt.Sprintf("/api/runs/%d/labels", id)
	w := b.send(t, http.MethodPost, path, `{"add": ["rgpt:blocked", "docs"], "by": "ann", "reason": "wait"}`)
	require.Equal(t, http.StatusOK, w.Code, w.Body)
	require.Contains(t, w.Body.String(), `"labels":["docs","rgpt:blocked"]`)
	require.Contains(t, w.Body.String(), `"changed":2`)
	w = b.send(t, http.MethodPost, path, `{"remove": ["docs"]}`)
	require.Equal(t, http.StatusOK, w.Code, w.Body)
	for _, body := range []string{`{"add": [" x"]}`, `{"add": ["a,b"]}`, `{"add": [""]}`} {
		require.Equal(t, http.StatusUnprocessableEntity, b.send(t, http.MethodPost, path, body).Code, body)
	}
	list := b.get(t, "/api/runs?label=rgpt:blocked").Body.String()
	require.Contains(t, list, fmt.Sprintf(`"runId":%d`, id))
	require.NotContains(t, list, fmt.Sprintf(`"runId":%d`, other))
	require.Contains(t, b.get(t, fmt.Sprintf("/runs/%d", id)).Body.String(), "rgpt:blocked")

	entries, err := chain.List(t.Context(), b.Store, chain.Filter{RunID: id, Action: string(contract.EventLabelRemoved)})
	require.NoError(t, err)
	require.Len(t, entries, 1)
	require.Equal(t, "client api", fmt.Sprint(entries[0].Actor, " ", entries[0].Name))
}

// notified counts the signals of changed labels.
type notified struct {
	client.Client
	signals int
}

func (n *notified) SignalWorkflow(_ context.Context, _, _, name string, _ any) error {
	if name == contract.SignalLabels {
		n.signals++
	}
	return nil
}

func TestLabelsOfARunThatWatchesItsBranchCountForItsNextPush(t *testing.T) {
	t.Parallel()
	b := setup(t)
	n := &notified{}
	b.temporal.Client = n
	until := time.Now().Add(time.Hour)
	for note, change := range map[string]contract.RunChange{
		"are judged before its next push":       {Staying: true, StayingUntil: &until},
		"change nothing about its release":      {},
		`"labels":["docs"],"changed":1}`:        {Status: contract.PhaseTester.Running()},
		`the run has ended, so its labels chan`: {Status: contract.StatusFailed},
	} {
		run, _, err := b.CreateRun(t.Context(), store.NewRun{Project: "p", GoalTitle: "g", Settings: contract.Settings{Gate: &contract.GateSettings{}}})
		require.NoError(t, err)
		require.NoError(t, b.MarkStarted(t.Context(), run.ID, contract.RunWorkflowID(run.ID), "0199"))
		change.Status, change.Phase = cmp.Or(change.Status, contract.StatusDone), contract.PhaseReleaser
		change.Finished = change.Status.Terminal()
		b.record(t, contract.Record{RunID: run.ID, Run: &change})
		before := n.signals
		w := b.send(t, http.MethodPost, fmt.Sprintf("/api/runs/%d/labels", run.ID), `{"add": ["docs"]}`)
		require.Contains(t, w.Body.String(), note)
		require.Equal(t, change.StayingUntil != nil || !change.Status.Terminal(), n.signals > before, note)
	}
}
