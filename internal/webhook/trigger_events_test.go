package webhook_test

import (
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/await"
	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/internal/store/triggers"
	"github.com/rocketgpt/orchestrator/internal/webhook"
)

// decides adds a delivery of a trigger and ends it.
func (b *hookFixture) decides(t *testing.T, key string, state triggers.State, reason string) {
	t.Helper()
	_, err := triggers.Add(t.Context(), b.Store, triggers.Delivery{
		Trigger: "nightly", Key: key, OccurredAt: time.Now(), Payload: triggers.Payload{Title: "x", URL: "https://git.example.com/1"},
	})
	require.NoError(t, err)
	b.ends(t, state, reason)
}

// ends ends the delivery that waits.
func (b *hookFixture) ends(t *testing.T, state triggers.State, reason string) {
	t.Helper()
	_, err := triggers.InTurn(t.Context(), b.Store, "nightly", 10, func(turn *triggers.Turn) error {
		return turn.End(t.Context(), state, reason, turn.Waiting[0])
	})
	require.NoError(t, err)
}

func TestWebhooksHearWhatATriggerSkippedOrFailedToDo(t *testing.T) {
	t.Parallel()
	b := setup(t)
	other := newReceiver(t, nil)
	r := newReceiver(t, func(n int, w http.ResponseWriter, _ *http.Request) {
		if n == 1 {
			w.WriteHeader(http.StatusBadGateway) // it is repeated as any event
		}
	})
	skipped := b.register(t, webhook.Registration{URL: r.URL, Events: []string{"trigger.skipped"}})
	every := b.register(t, webhook.Registration{URL: r.URL, Disabled: true})
	failed := b.register(t, webhook.Registration{URL: other.URL, Events: []string{string(contract.EventTriggerFailed)}})
	ofProject := b.register(t, webhook.Registration{URL: r.URL, Project: "app"})
	b.decides(t, "schedule:1", triggers.Skipped, "run 7 is in progress (overlap: skip)")
	b.decides(t, "schedule:2", triggers.Failed, "the branch does not exist")
	list, err := triggers.List(t.Context(), b.Store, triggers.Filter{State: triggers.Skipped})
	require.NoError(t, err)
	done, err := triggers.Redeliver(t.Context(), b.Store, list[0].ID, "ann")
	require.NoError(t, err)
	require.True(t, done)
	b.ends(t, triggers.Skipped, "run 8 is in progress (overlap: skip)")
	b.start(t)
	await.Until(t, "both are delivered", func() bool {
		all := b.all(t, skipped.Webhook.ID)
		return len(all) == 2 && all[0].Status == store.DeliveryDelivered && all[1].Status == store.DeliveryDelivered
	})
	await.Until(t, "the failure is delivered, too", func() bool {
		all := b.all(t, failed.Webhook.ID)
		return len(all) == 1 && all[0].Status == store.DeliveryDelivered
	})
	require.Empty(t, b.all(t, every.Webhook.ID), "it is disabled")
	require.Empty(t, b.all(t, ofProject.Webhook.ID), "triggers belong to no project")
	all := b.all(t, skipped.Webhook.ID)
	require.False(t, all[0].Test)
	require.Equal(t, string(contract.EventTriggerSkipped), all[0].EventType)
	require.NotEqual(t, all[0].Message, all[1].Message)
	require.Contains(t, all[0].Message, "trigger-delivery-1/")
	got := r.all()
	require.Len(t, got, 3)
	reasons := map[string]string{} // by the ID of the event
	for _, request := range got {  // in any order
		var e webhook.Envelope
		require.NoError(t, json.Unmarshal(request.body, &e))
		require.Equal(t, "rgpt.trigger.skipped", e.Type)
		require.Equal(t, "trigger-nightly", e.Subject)
		data, ok := e.Data.(map[string]any)
		require.True(t, ok)
		require.Equal(t, "nightly", data["trigger"])
		require.Equal(t, "schedule:1", data["delivery"])
		require.Equal(t, "https://git.example.com/1", data["url"])
		reason, ok := data["reason"].(string)
		require.True(t, ok)
		reasons[e.ID] = reason
	}
	require.Len(t, reasons, 2)
	require.ElementsMatch(t, []string{all[0].Message, all[1].Message}, slices.Collect(maps.Keys(reasons)))
	require.ElementsMatch(t, []string{"run 7 is in progress (overlap: skip)", "run 8 is in progress (overlap: skip)"}, slices.Collect(maps.Values(reasons)))
}
