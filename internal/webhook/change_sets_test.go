package webhook_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/await"
	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/internal/store/changesets"
	"github.com/rocketgpt/orchestrator/internal/storetest"
	"github.com/rocketgpt/orchestrator/internal/webhook"
)

func TestWebhooksHearThatAChangeSetWaitsForAPerson(t *testing.T) {
	t.Parallel()
	b := setup(t)
	r := newReceiver(t, nil)
	w := b.register(t, webhook.Registration{URL: r.URL, Events: []string{"change_set.*"}})
	b.start(t)
	set, _, err := changesets.Create(t.Context(), b.Store, changesets.New{
		Tenant: store.DefaultTenant, Title: "Rename the field", Settings: contract.ChangeSetSettings{Incomplete: contract.IncompleteHold, Wait: time.Nanosecond},
		Runs: []store.NewRun{storetest.Filled(store.NewRun{Project: "api"}), storetest.Filled(store.NewRun{Project: "web"})},
	})
	require.NoError(t, err)
	ready := set.Runs[0].RunID
	_, err = b.Record(t.Context(), store.Source{WorkflowID: contract.RunWorkflowID(ready), WorkflowRunID: "first"}, contract.Record{
		RunID: ready, Seq: 1, Run: &contract.RunChange{Phase: contract.PhaseTester, Status: contract.PhaseTester.Completed(), WaitingFor: contract.WaitsForChangeSet},
	})
	require.NoError(t, err)
	_, _, err = changesets.Ready(t.Context(), b.Store, set.ID, ready, "first")
	require.NoError(t, err)
	_, err = changesets.Release(t.Context(), b.Store, set.ID, "mara", "")
	require.NoError(t, err)
	_, err = changesets.Decide(t.Context(), b.Store, set.ID)
	require.NoError(t, err)
	await.Until(t, "both are delivered", func() bool {
		all := b.all(t, w.Webhook.ID)
		return len(all) == 2 && all[0].Status == store.DeliveryDelivered && all[1].Status == store.DeliveryDelivered
	})
	said := map[string]contract.ChangeSetWaiting{}
	for _, request := range r.all() {
		var e struct {
			Type, Subject string
			Data          struct{ Payload contract.ChangeSetWaiting }
		}
		require.NoError(t, json.Unmarshal(request.body, &e))
		require.Equal(t, contract.RunWorkflowID(ready), e.Subject)
		said[e.Type] = e.Data.Payload
	}
	require.Equal(t, []string{"rgpt set release 1", "rgpt set stop 1"}, said["rgpt.change_set.waiting"].Commands)
	require.Equal(t, "it is not ready yet", said["rgpt.change_set.waiting"].Missing[0].Why)
	require.Equal(t, said["rgpt.change_set.waiting"].WaitingID, said["rgpt.change_set.resolved"].WaitingID)
}
