package workflows

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/contract"
)

// reminded returns the reminders that a run sent: minutes after its start, and receivers.
func (w *runFixture) reminded(start time.Time) (out []sentReminder) {
	for _, rec := range w.recorded() {
		for _, e := range rec.Events {
			if _, kind, _ := strings.Cut(string(e.Type), "."); kind == "reminded" || kind == "escalated" {
				content, _ := e.Payload.(map[string]any)
				out = append(out, sentReminder{e.Type, rec.At.Sub(start).Round(time.Minute), content["to"]})
			}
		}
	}
	return out
}

type sentReminder struct {
	event contract.EventType
	after time.Duration
	to    any
}

func remindTwice(s *contract.Settings) {
	s.ApproveRelease = true
	s.Reminders = []contract.Reminder{
		{Before: 10 * time.Minute, To: []string{"webhook:managers"}, Escalate: true},
		{After: 15 * time.Minute, To: []string{"page", "webhook:team"}},
		{Before: 2 * time.Hour, To: []string{"page"}}, // longer than the time for an answer
		{After: time.Hour, To: []string{"page"}},      // at the deadline
	}
}

func TestAnApprovalIsRemindedOfAtTheConfiguredTimesAndThenExpires(t *testing.T) {
	t.Parallel()
	w := newRunFixture(t)
	start := w.env.Now()
	require.Equal(t, contract.CodeApprovalExpired, w.orchestrate(t, remindTwice).Failure.Code)
	require.Equal(t, []sentReminder{
		{contract.EventApprovalReminded, 15 * time.Minute, []string{"page", "webhook:team"}},
		{contract.EventApprovalEscalated, 50 * time.Minute, []string{"webhook:managers"}},
	}, w.reminded(start))
	var planned []contract.PlannedReminder
	for _, rec := range w.recorded() {
		for _, e := range rec.Events {
			if e.Type == contract.EventApprovalRequested {
				planned, _ = e.Payload.(map[string]any)["reminders"].([]contract.PlannedReminder)
			}
		}
	}
	require.Len(t, planned, 2, "who reads the question sees what is planned")
}

func TestNobodyIsRemindedAfterTheAnswer(t *testing.T) {
	t.Parallel()
	w := newRunFixture(t)
	start := w.env.Now()
	w.after(20*time.Minute, func() { w.update(contract.UpdateApprove, contract.Command{ID: "1", By: "ann"}) })
	require.Equal(t, contract.StatusDone, w.orchestrate(t, remindTwice).Status)
	require.Equal(t, []sentReminder{{contract.EventApprovalReminded, 15 * time.Minute, []string{"page", "webhook:team"}}}, w.reminded(start))
}

func TestAnAnswerThatWaitsForAPausedRunEndsTheReminders(t *testing.T) {
	t.Parallel()
	w := newRunFixture(t)
	start := w.env.Now()
	w.after(5*time.Minute, func() { w.update(contract.UpdatePause, contract.Command{ID: "1", By: "ann"}) })
	w.after(6*time.Minute, func() { w.update(contract.UpdateApprove, contract.Command{ID: "2", By: "ann"}) })
	w.after(3*time.Hour, func() { w.update(contract.UpdateResume, contract.Command{ID: "3", By: "ann"}) })
	require.Equal(t, contract.StatusDone, w.orchestrate(t, remindTwice).Status)
	require.Empty(t, w.reminded(start))
}

func TestRequestsForHelpAreRemindedOfLikeApprovals(t *testing.T) {
	t.Parallel()
	w := newRunFixture(t)
	start := w.env.Now()
	withFakeEnvironment(w, &fakeEnvironment{envs: []contract.EnvironmentResult{{Failure: &contract.Failure{Class: contract.ClassConfig, Message: "no"}}}, baselines: []contract.BaselineResult{{}}})
	w.orchestrate(t, prepared(), func(s *contract.Settings) { remindTwice(s); s.InterventionWait = time.Hour })
	require.Equal(t, []sentReminder{
		{contract.EventInterventionReminded, 15 * time.Minute, []string{"page", "webhook:team"}},
		{contract.EventInterventionEscalated, 50 * time.Minute, []string{"webhook:managers"}},
	}, w.reminded(start))
}
