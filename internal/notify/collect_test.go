package notify_test

import (
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/await"
	"github.com/rocketgpt/orchestrator/internal/config"
	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/internal/store/notifications"
)

// settled waits until a number of notifications are known.
func (b *installation) settled(tb testing.TB, n int) {
	tb.Helper()
	await.Until(tb, fmt.Sprintf("%d notifications", n), func() bool { return len(b.list(tb, notifications.Filter{Limit: 1000})) == n })
}

func TestADigestIsOneMessage(t *testing.T) {
	t.Parallel()
	c := newChat(t, nil)
	channel := slackChannel()
	channel.Digest = time.Hour
	b := setup(t, map[string]config.Notification{"team": channel})
	b.env[slackURL] = c.URL
	stop := b.start(t)
	for i := range 25 {
		b.failed(t, fmt.Sprintf("problem %d", i))
	}
	b.event(t, b.run, contract.EventApprovalRequested, map[string]any{"kind": "plan"})
	b.settled(t, 26)
	require.Empty(t, c.all())
	stop() // it is not kept in memory
	b.turn(time.Now().Add(time.Hour + time.Minute))
	b.start(t)
	sent := b.all(t, notifications.Sent, 26)
	for _, n := range sent {
		require.Equal(t, sent[25].ID, n.Message)
	}
	got := c.all()
	require.Len(t, got, 1)
	require.LessOrEqual(t, len(got[0].Blocks), 50, "as many as Slack allows")
	require.Equal(t, "26 notifications: 1 waiting, 25 failed", got[0].Blocks[0].Text.Text)
	require.Contains(t, got[0].Text, "problem 19")
	require.NotContains(t, got[0].Text, "problem 20")
	require.Contains(t, got[0].Text, "and 6 more: rgpt notification list")
}

func TestQuietHoursHoldBackAllButTheExceptions(t *testing.T) {
	t.Parallel()
	p := newPostOffice(t)
	channel := p.channel()
	channel.Quiet = config.Quiet{From: "22:00", To: "07:00", Zone: "Europe/Berlin", Except: []string{config.NotifyWaits}}
	b := setup(t, map[string]config.Notification{"mail": channel})
	b.env["USER"], b.env["PASSWORD"] = "rgpt", "pass-word-1"
	zone, err := time.LoadLocation("Europe/Berlin")
	require.NoError(t, err)
	today := time.Now().In(zone)
	night := time.Date(today.Year(), today.Month(), today.Day()+1, 23, 0, 0, 0, zone)
	b.turn(night)
	b.start(t)
	b.failed(t, "first")
	b.failed(t, "second")
	b.event(t, b.run, contract.EventApprovalRequested, map[string]any{"kind": "plan"})
	b.all(t, notifications.Sent, 1)
	require.Len(t, p.all(), 1)
	require.Contains(t, p.all()[0].body, "waits for approval")
	b.settled(t, 3)
	b.turn(night.Add(8*time.Hour + time.Minute))
	b.all(t, notifications.Sent, 3)
	got := p.all()
	require.Len(t, got, 2)
	require.Equal(t, "[RocketGPT] 2 notifications: 2 failed", subject(t, got[1]))
	require.Equal(t, 2, strings.Count(got[1].body, "Run 1 failed\n"))
}

func TestAnExceptionIsSentInQuietHoursHoweverMuchIsHeldBack(t *testing.T) {
	t.Parallel()
	c := newChat(t, nil)
	channel := slackChannel()
	channel.Quiet = config.Quiet{From: "22:00", To: "07:00", Zone: "Europe/Berlin", Except: []string{config.NotifyWaits}}
	b := setup(t, map[string]config.Notification{"team": channel})
	b.env[slackURL] = c.URL
	zone, err := time.LoadLocation("Europe/Berlin")
	require.NoError(t, err)
	today := time.Now().In(zone)
	night := time.Date(today.Year(), today.Month(), today.Day()+1, 23, 0, 0, 0, zone)
	b.turn(night)
	b.start(t)
	failures := make([]contract.EventDraft, notifications.PageSize+1)
	for i := range failures {
		failures[i] = contract.EventDraft{Type: contract.EventRunFailed, Payload: contract.Failure{Class: contract.ClassInfra, Code: contract.CodeUnavailable}}
	}
	b.events(t, b.run, failures...)
	b.event(t, b.run, contract.EventApprovalRequested, map[string]any{"kind": "plan"})
	require.Equal(t, "waits", b.all(t, notifications.Sent, 1)[0].Kind)
	require.Len(t, c.all(), 1)
	b.turn(night.Add(8*time.Hour + time.Minute))
	await.Until(t, "all", func() bool { return len(b.list(t, notifications.Filter{State: notifications.Pending, Limit: 1})) == 0 })
	require.Len(t, c.all(), 3, "a full message and the rest")
}

func TestAFloodBecomesFewMessagesAndNothingIsLost(t *testing.T) {
	t.Parallel()
	c := newChat(t, nil)
	channel := slackChannel()
	channel.PerHour = 5
	b := setup(t, map[string]config.Notification{"team": channel})
	b.env[slackURL] = c.URL
	b.start(t)
	for range 200 {
		b.failed(t, "x")
	}
	b.settled(t, 200)
	require.LessOrEqual(t, len(c.all()), 5)
	b.turn(time.Now().Add(time.Hour + time.Minute))
	b.all(t, notifications.Sent, 200)
	require.LessOrEqual(t, len(c.all()), 10)
	t.Logf("200 events in %d messages", len(c.all()))
}

func TestAMessageLeavesOutQuestionsThatNeedNoAnswerAnyMore(t *testing.T) {
	t.Parallel()
	c := newChat(t, nil)
	channel := slackChannel()
	channel.Digest = time.Hour
	b := setup(t, map[string]config.Notification{"team": channel})
	b.env[slackURL] = c.URL
	b.start(t)
	b.event(t, b.run, contract.EventApprovalRequested, map[string]any{"kind": "plan"})
	b.event(t, b.run, contract.EventApprovalReminded, map[string]any{"to": []string{"channel:team"}})
	b.event(t, b.run, contract.EventApprovalGranted, map[string]any{})
	b.event(t, b.run, contract.EventInputRequested, map[string]any{"question": "Which one?"})
	ended := b.create(t, "app", "x")
	b.event(t, ended, contract.EventInterventionRequested, map[string]any{"reason": "stuck"})
	b.settled(t, 4)
	_, err := b.Record(t.Context(), store.Source{WorkflowID: contract.RunWorkflowID(ended), WorkflowRunID: "first"}, contract.Record{
		RunID: ended, Seq: b.seq.Add(1), Run: &contract.RunChange{Phase: contract.PhasePlanner, Status: contract.StatusCancelled, Finished: true},
	})
	require.NoError(t, err)
	b.turn(time.Now().Add(time.Hour + time.Minute))
	require.Equal(t, "input.requested", b.all(t, notifications.Sent, 1)[0].EventType)
	for _, n := range b.all(t, notifications.Dropped, 3) {
		require.Equal(t, "no answer was awaited any more: the question had ended, or its run", n.Reason)
	}
	got := c.all()
	require.Len(t, got, 1)
	require.Equal(t, "Run 1 asks a question", got[0].Blocks[0].Text.Text)
}

func TestNobodyIsAskedAgainForAnAnswerThatWasGiven(t *testing.T) {
	t.Parallel()
	var up atomic.Bool
	c := newChat(t, func(_ int, w http.ResponseWriter, _ *http.Request) {
		if !up.Load() {
			w.WriteHeader(http.StatusBadGateway)
		}
	})
	b := setup(t, map[string]config.Notification{"team": slackChannel()})
	b.env[slackURL] = c.URL
	b.start(t)
	b.event(t, b.run, contract.EventApprovalRequested, map[string]any{"kind": "plan"})
	await.Until(t, "an attempt", func() bool { return len(c.all()) > 0 })
	b.event(t, b.run, contract.EventApprovalRejected, map[string]any{})
	require.Positive(t, b.all(t, notifications.Dropped, 1)[0].Attempts)
	up.Store(true)
	b.failed(t, "x")
	require.Equal(t, "run.failed", b.all(t, notifications.Sent, 1)[0].EventType)
	require.Equal(t, "Run 1 failed", c.all()[len(c.all())-1].Blocks[0].Text.Text)
}
