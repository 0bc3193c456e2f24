package server_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/config"
	"github.com/rocketgpt/orchestrator/internal/control"
	"github.com/rocketgpt/orchestrator/internal/fault"
	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/internal/store/chain"
	"github.com/rocketgpt/orchestrator/internal/store/triggers"
)

// withTriggers is a server whose configuration has triggers.
func withTriggers(tb testing.TB) *fixture {
	tb.Helper()
	b := withChannels(tb)
	b.config.Triggers = map[string]config.Trigger{
		"nightly": {On: config.OnSchedule, Cron: "0 3 * * *", Zone: "UTC", Repo: "https://ann:secret@git.example.com/team/app", Goal: "Update", Overlap: "queue", Concurrent: 1, Waiting: 5, PerDay: 7, CatchUp: time.Hour},
		"label":   {On: config.OnIssue, Forge: "work", Repository: "team/app", Label: "rgpt", Overlap: "skip", Concurrent: 2, Waiting: 5, PerDay: 7},
	}
	return b
}

func TestTheClientFiresPausesAndRepeatsTriggersAsTheServerDoes(t *testing.T) {
	t.Parallel()
	b := withTriggers(t)
	ctx := t.Context()
	c, _ := clientOf(t, b.handler, quietly)
	list, err := c.Triggers(ctx)
	require.NoError(t, err)
	require.Len(t, list, 2)
	require.Equal(t, []string{"label", "nightly"}, []string{list[0].Name, list[1].Name})
	require.NotContains(t, list[1].Repo, "secret")

	f, err := c.FireTrigger(ctx, "nightly", control.TriggerFire{Text: "the build is slow", Key: "ticket-1", By: "ann"})
	require.NoError(t, err)
	require.Equal(t, []any{triggers.Waiting, 1, "command:ticket-1", "the build is slow", "ann"}, []any{f.State, f.Position, f.Delivery, f.Payload.Text, f.Payload.Author})
	again, err := c.FireTrigger(ctx, "nightly", control.TriggerFire{Text: "another text", Key: "ticket-1", By: "ann"})
	require.NoError(t, err)
	require.Equal(t, f.ID, again.ID)
	second, err := c.FireTrigger(ctx, "nightly", control.TriggerFire{})
	require.NoError(t, err)
	require.Equal(t, 2, second.Position)

	paused, err := c.PauseTrigger(ctx, "nightly", control.TriggerPause{Reason: "release week", By: "bob"})
	require.NoError(t, err)
	require.NotNil(t, paused.PausedAt)
	require.Equal(t, []any{"bob", "release week", 2}, []any{paused.PausedBy, paused.Reason, paused.Waiting})
	_, err = c.PauseTrigger(ctx, "nightly", control.TriggerPause{Reason: "again"})
	require.True(t, fault.Is(err, contract.CodeRejected), err)
	resumed, err := c.ResumeTrigger(ctx, "nightly", "bob")
	require.NoError(t, err)
	require.Nil(t, resumed.PausedAt)
	_, err = c.ResumeTrigger(ctx, "nightly", "bob")
	require.True(t, fault.Is(err, contract.CodeRejected), err)

	_, err = c.RedeliverTrigger(ctx, f.ID, "ann")
	require.True(t, fault.Is(err, contract.CodeRejected), err)
	_, err = triggers.InTurn(ctx, b.Store, "nightly", 10, func(turn *triggers.Turn) error {
		return turn.End(ctx, triggers.Skipped, "too many", turn.Waiting[0])
	})
	require.NoError(t, err)
	page, err := c.TriggerDeliveries(ctx, triggers.Filter{Trigger: "nightly", State: triggers.Skipped, Limit: 10})
	require.NoError(t, err)
	require.Len(t, page.Deliveries, 1)
	require.Equal(t, "too many", page.Deliveries[0].Reason)
	waits, err := c.RedeliverTrigger(ctx, f.ID, "ann")
	require.NoError(t, err)
	require.Equal(t, []any{triggers.Waiting, ""}, []any{waits.State, waits.Reason})
	page, err = c.TriggerDeliveries(ctx, triggers.Filter{Limit: 1})
	require.NoError(t, err)
	require.Equal(t, second.ID, page.Next)

	entries, err := chain.List(ctx, b.Store, chain.Filter{Limit: 100})
	require.NoError(t, err)
	var got []string
	for _, e := range entries {
		if strings.HasPrefix(e.Action, "trigger.") {
			got = append([]string{fmt.Sprintf("%s %s %s %s", e.Actor, e.Name, e.Action, e.Object)}, got...)
		}
	}
	require.Equal(t, []string{
		"person ann trigger.requested trigger nightly", "client api trigger.requested trigger nightly",
		"person bob trigger.paused trigger nightly", "person bob trigger.resumed trigger nightly", "person ann trigger.redelivered trigger nightly",
	}, got)
}

func TestTriggersThatTheConfigurationDoesNotHaveAreNotFound(t *testing.T) {
	t.Parallel()
	b := withTriggers(t)
	ctx := t.Context()
	c, _ := clientOf(t, b.handler, quietly)
	for name, do := range map[string]func() error{
		"show":      func() error { _, err := c.Trigger(ctx, "weekly"); return err },
		"fire":      func() error { _, err := c.FireTrigger(ctx, "weekly", control.TriggerFire{}); return err },
		"pause":     func() error { _, err := c.PauseTrigger(ctx, "weekly", control.TriggerPause{Reason: "r"}); return err },
		"resume":    func() error { _, err := c.ResumeTrigger(ctx, "weekly", ""); return err },
		"redeliver": func() error { _, err := c.RedeliverTrigger(ctx, 99, ""); return err },
	} {
		require.ErrorIs(t, do(), store.ErrNotFound, name)
	}
	for path, body := range map[string]string{
		"/api/triggers/label/fire":    `{}`,
		"/api/triggers/nightly/pause": `{}`,
		"/api/triggers/nightly/fire":  `{"key": "` + strings.Repeat("k", 201) + `"}`,
	} {
		require.Equal(t, http.StatusUnprocessableEntity, b.send(t, http.MethodPost, path, body).Code, path)
	}
}
