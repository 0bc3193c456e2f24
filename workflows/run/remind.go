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

// awaitAnswer waits for the answer to a question. Until then, it reminds as planned; each reminder is one
// record, so it is sent once.
func (r *run) awaitAnswer(ctx workflow.Context, a *approval, q question, plan []reminder, payload map[string]any) error {
	given := func() bool { return a.answered() && !r.controls.paused }
	var waited time.Duration
	for i, one := range plan {
		if pause := one.at - waited; pause > 0 {
			answered, err := workflow.AwaitWithTimeout(ctx, pause, given)
			if err != nil || answered {
				return err
			}
			waited = one.at
		}
		if a.answered() { // but the run is paused
			return nil
		}
		event := copied(payload)
		event["reminder"], event["of"], event["to"] = i+1, len(plan), one.To
		if _, err := r.transition(ctx, records.EventRecord(q.reminds(one.Escalate), event)); err != nil {
			return err
		}
	}
	answered, err := workflow.AwaitWithTimeout(ctx, q.wait-waited, given)
	a.expired = err == nil && !answered && !a.answered()
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
