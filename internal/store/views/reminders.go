package views

import (
	"cmp"
	"context"
	"strings"
	"time"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/store/internal/dberr"
	"github.com/rocketgpt/orchestrator/internal/store/internal/rowconv"
)

// Reminder is a reminder of a question to a person: planned, or sent.
type Reminder struct {
	contract.PlannedReminder
	SentAt *time.Time `json:"sent_at" doc:"null: not sent, or not yet"`
}

// NextReminder returns the first reminder that was not sent; nil if there is none.
func NextReminder(all []Reminder) *Reminder {
	for i := range all {
		if all[i].SentAt == nil {
			return &all[i]
		}
	}
	return nil
}

// LastReminder returns the last reminder that was sent; nil if none was.
func LastReminder(all []Reminder) (last *Reminder) {
	for i := range all {
		if all[i].SentAt != nil {
			last = &all[i]
		}
	}
	return last
}

// askedOnce is a question as it was asked at one time, with its reminders.
type askedOnce struct {
	id        string
	deadline  time.Time
	reminders []Reminder
}

// askedEvent is the content of the events of questions and of their reminders.
type askedEvent struct {
	ApprovalID     string                     `json:"approval_id"`
	InputID        string                     `json:"input_id"`
	InterventionID string                     `json:"intervention_id"`
	Deadline       time.Time                  `json:"deadline"`
	Planned        []contract.PlannedReminder `json:"reminders"`
	Number         int                        `json:"reminder"` // of a reminder that was sent; 0: the only one
	To             []string                   `json:"to"`
}

// reminders reads the reminders of a run's questions.
func (v *Views) reminders(ctx context.Context, runID int64) (asked reminders, err error) {
	rows, err := v.q.Reminders(ctx, runID)
	if err != nil {
		return nil, dberr.Explain(err, "read the reminders of run %d", runID)
	}
	for _, r := range rows {
		e, err := rowconv.Decode[askedEvent](r.Payload)
		if err != nil {
			return nil, err
		}
		id := cmp.Or(e.ApprovalID, e.InputID, e.InterventionID)
		if strings.HasSuffix(r.EventType, ".requested") {
			one := askedOnce{id: id, deadline: e.Deadline}
			for _, p := range e.Planned {
				one.reminders = append(one.reminders, Reminder{PlannedReminder: p})
			}
			asked = append(asked, one)
			continue
		}
		asked.sent(id, e, Reminder{
			PlannedReminder: contract.PlannedReminder{
				Number: max(e.Number, 1), At: r.CreatedAt, To: e.To, Escalation: strings.HasSuffix(r.EventType, ".escalated"),
			},
			SentAt: &r.CreatedAt,
		})
	}
	return asked, nil
}

// reminders are those of the questions of a run, in the order of asking.
type reminders []askedOnce

// sent enters a reminder that was sent.
func (all reminders) sent(id string, e askedEvent, sent Reminder) {
	for i := len(all) - 1; i >= 0; i-- {
		if all[i].id != id || !all[i].deadline.Equal(e.Deadline) {
			continue
		}
		for n := range all[i].reminders {
			if all[i].reminders[n].Number == sent.Number {
				all[i].reminders[n].SentAt = sent.SentAt
				return
			}
		}
		all[i].reminders = append(all[i].reminders, sent)
		return
	}
}

// of returns the reminders of a question. Its deadline tells apart several times of asking it.
func (all reminders) of(id string, deadline *time.Time) []Reminder {
	for i := len(all) - 1; i >= 0 && deadline != nil; i-- {
		if all[i].id == id && all[i].deadline.Truncate(time.Second).Equal(deadline.Truncate(time.Second)) {
			return all[i].reminders
		}
	}
	return nil
}
