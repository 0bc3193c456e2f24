package views_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/internal/store/views"
	"github.com/rocketgpt/orchestrator/internal/storetest"
)

func TestAQuestionShowsWhichRemindersWereSentAndWhichIsNext(t *testing.T) {
	t.Parallel()
	st := storetest.New(t)
	run, _, err := st.CreateRun(t.Context(), store.NewRun{Project: "app", GoalTitle: "x", Settings: contract.Settings{Repo: contract.Repo{URL: "/r", Base: "c", Tree: "t"}}})
	require.NoError(t, err)
	seq := int64(0)
	write := func(r contract.Record) {
		seq++
		r.RunID, r.Seq, r.At = run.ID, seq, time.Now()
		_, err := st.Record(t.Context(), store.Source{WorkflowID: contract.RunWorkflowID(run.ID), WorkflowRunID: "first"}, r)
		require.NoError(t, err)
	}
	begin := time.Date(2027, 1, 2, 3, 4, 5, 678, time.UTC)
	ask := func(deadline time.Time) {
		write(contract.Record{
			Run: &contract.RunChange{Phase: contract.PhaseReleaser, Status: contract.StatusWaitingForApproval, WaitingFor: contract.ApprovalRelease},
			Events: []contract.EventDraft{{Type: contract.EventApprovalRequested, Payload: map[string]any{
				"approval_id": "release", "deadline": deadline, "reminders": []contract.PlannedReminder{
					{Number: 1, At: deadline.Add(-2 * time.Hour), To: []string{"page"}},
					{Number: 2, At: deadline.Add(-time.Hour), To: []string{"webhook:managers"}, Escalation: true},
				},
			}}},
			Notes: map[string]string{"id": "release", "kind": contract.ApprovalRelease, "status": "pending", "deadline": deadline.Format(time.RFC3339)},
		})
	}
	remind := func(deadline time.Time, number int) {
		write(contract.Record{Events: []contract.EventDraft{{Type: contract.EventApprovalReminded, Payload: map[string]any{
			"approval_id": "release", "deadline": deadline, "reminder": number, "of": 2, "to": []string{"page"},
		}}}})
	}
	ask(begin)
	remind(begin, 1)
	remind(begin, 2)
	later := begin.Add(24 * time.Hour)
	ask(later) // again: what was sent before does not count
	remind(later, 1)

	open, err := views.New(st).Questions(t.Context(), run.ID, 1)
	require.NoError(t, err)
	require.Len(t, open, 1)
	sent := open[0].Reminders
	require.Len(t, sent, 2)
	require.Equal(t, 1, views.LastReminder(sent).Number)
	next := views.NextReminder(sent)
	require.Equal(t, []string{"webhook:managers"}, next.To)
	require.True(t, next.Escalation)
	require.True(t, next.At.Equal(later.Add(-time.Hour)))
	details, err := views.New(st).RunDetails(t.Context(), run.ID)
	require.NoError(t, err)
	require.Equal(t, sent, details.Approvals[0].Reminders)
}
