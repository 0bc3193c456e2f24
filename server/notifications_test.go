package server_test

import (
	"encoding/json"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/await"
	"github.com/rocketgpt/orchestrator/internal/config"
	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/internal/store/notifications"
)

func TestTheAPIListsNotificationsByChannelAndState(t *testing.T) {
	t.Parallel()
	b := setup(t)
	require.NoError(t, notifications.Add(t.Context(), b.Store, "team"))
	run, _, err := b.CreateRun(t.Context(), store.NewRun{Project: "app", GoalTitle: "x", Settings: contract.Settings{Repo: contract.Repo{URL: "/r", Base: "c", Tree: "t"}}})
	require.NoError(t, err)
	for seq := range int64(3) {
		_, err = b.Record(t.Context(), store.Source{WorkflowID: contract.RunWorkflowID(run.ID), WorkflowRunID: "first"}, contract.Record{
			RunID: run.ID, Seq: seq + 1, Events: []contract.EventDraft{{Type: contract.EventApprovalRequested, Payload: map[string]string{}}},
		})
		require.NoError(t, err)
	}
	added := 0
	await.Until(t, "three notifications", func() bool { // transactions of other tests may still be open
		_, n, err := notifications.Queue(t.Context(), b.Store, notifications.Channel{Name: "team", Kinds: config.NotifyKinds()}, time.Now(), time.Time{})
		require.NoError(t, err)
		added += n
		return added == 3
	})
	var page struct {
		Notifications []notifications.Notification
		Next          string
	}
	read := func(path string) {
		t.Helper()
		page.Notifications, page.Next = nil, ""
		w := b.get(t, path)
		require.Equal(t, http.StatusOK, w.Code, w.Body)
		require.NoError(t, json.Unmarshal(w.Body.Bytes(), &page))
	}
	read("/api/notifications?channel=team&state=pending&limit=2")
	require.Len(t, page.Notifications, 2)
	require.Equal(t, contract.EventID(run.ID, 4), page.Notifications[0].Event)
	require.Equal(t, "waits", page.Notifications[0].Kind)
	read("/api/notifications?limit=2&cursor=" + page.Next)
	require.Len(t, page.Notifications, 1)
	read("/api/notifications?channel=other")
	require.Empty(t, page.Notifications)
	read("/api/notifications?state=failed")
	require.Empty(t, page.Notifications)
	require.Equal(t, http.StatusNotFound, b.ask(t, http.MethodPost, "/api/notifications/channels/other/test").Code)
}
