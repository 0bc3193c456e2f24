package run

import (
	"cmp"
	"slices"
	"time"

	"go.temporal.io/sdk/workflow"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/workflows/internal/records"
)

// reminderShare divides the time limit for an answer: unless the run's settings list reminders, a person
// is reminded after half of it.
const reminderShare = 2

// reminder is a reminder of a question, at a time since it was asked.
type reminder struct {
	at time.Duration
	contract.Reminder
}

// remindersOf returns the reminders of a question in their order. A question that the run answers itself
// has none, except that of a planner: reminders that the settings list are about it, too.
func (r *run) remindersOf(q question) []reminder {
	listed := r.in.Settings.Reminders
	switch {
	case q.optional && (q.input == nil || len(listed) == 0):
		return nil
	case len(listed) == 0:
		return []reminder{{at: q.wait / reminderShare}}
	}
	var out []reminder
	for _, one := range listed {
		at := one.After
		if one.Before > 0 {
			at = q.wait - one.Before
		}
		if at > 0 && at < q.wait { // the others are for questions with more time
			out = append(out, reminder{at, one})
		}
	}
	slices.SortStableFunc(out, func(a, b reminder) int { return cmp.Compare(a.at, b.at) })
	return out
}

// withReminders adds the planned reminders to the content of the event of a question.
func withReminders(payload map[string]any, asked time.Time, plan []reminder) map[string]any {
	if len(plan) == 0 {
		return payload
	}
	planned := make([]contract.PlannedReminder, len(plan))
	for i, one := range plan {
		planned[i] = contract.PlannedReminder{Number: i + 1, At: asked.Add(one.at), To: one.To, Escalation: one.Escalate}
	}
	out := copied(payload)
	out["reminders"] = planned
	return out
}

// waiting is a question that waits for its answer.
type waiting struct {
	*approval
	q      question
	plan   []reminder
	event  map[string]any // what the events of the reminders say besides
	since  time.Time
	sent   int           // reminders
	waited time.Duration // until the wait begins, or continues
}

// awaitAnswer waits for the answer to a question, or until the question is out of date. Until then, it
// reminds as planned; each reminder is one record, so it is sent once.
func (r *run) awaitAnswer(ctx workflow.Context, w *waiting) error {
	over := func() bool { return !r.controls.paused && (w.answered() || r.outOfDate(w.approval)) }
	for w.sent < len(w.plan) {
		one := w.plan[w.sent]
		if pause := one.at - w.waited; pause > 0 {
			met, err := workflow.AwaitWithTimeout(ctx, pause, over)
			if err != nil || met {
				return err
			}
			w.waited = one.at
		}
		if w.answered() { // but the run is paused
			return nil
		}
		w.sent++
		event := copied(w.event)
		event["reminder"], event["of"], event["to"] = w.sent, len(w.plan), one.To
		if _, err := r.transition(ctx, records.EventRecord(w.q.reminds(one.Escalate), event)); err != nil {
			return err
		}
	}
	met, err := workflow.AwaitWithTimeout(ctx, max(0, w.q.wait-w.waited), over)
	w.expired = err == nil && !met && !w.answered()
	return err
}

// reminds returns the event of a reminder of the question.
func (q question) reminds(escalation bool) contract.EventType {
	events := [2]contract.EventType{contract.EventInterventionReminded, contract.EventInterventionEscalated}
	switch {
	case q.input != nil:
		events = [2]contract.EventType{contract.EventInputReminded, contract.EventInputEscalated}
	case q.problem == nil:
		events = [2]contract.EventType{contract.EventApprovalReminded, contract.EventApprovalEscalated}
	}
	if escalation {
		return events[1]
	}
	return events[0]
}

// copied returns a copy of the content of an event.
func copied(payload map[string]any) map[string]any {
	out := make(map[string]any, len(payload)+3)
	for _, key := range workflow.DeterministicKeys(payload) {
		out[key] = payload[key]
	}
	return out
}
