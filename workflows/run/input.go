package run

import (
	"encoding/json"
	"time"

	"go.temporal.io/sdk/workflow"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/workflows/internal/commands"
	"github.com/rocketgpt/orchestrator/workflows/internal/records"
)

// askForInput asks a person what the planner must know, and waits for the answer. If nobody answers
// in time, the default applies.
func (r *run) askForInput(ctx workflow.Context, q contract.PlannerQuestion) *contract.Failure {
	a, failure := r.ask(ctx, question{
		kind: contract.AskInput, phase: contract.PhasePlanner, wait: r.in.Settings.Planner.QuestionWait, optional: true, input: &q,
	})
	if failure != nil {
		return failure
	}
	r.controls.approval = nil
	if a.granted { // recorded when the answer was received
		r.Input = &contract.PlannerInput{Question: q.Question, Option: a.option, By: a.by, Words: a.reason}
		return nil
	}
	r.Input = &contract.PlannerInput{Question: q.Question, Option: q.Default}
	rec := records.EventRecord(contract.EventInputAnswered, map[string]any{"input_id": a.id, "answer": q.Default, "default": true})
	rec.Notes = map[string]string{"id": a.id, "kind": a.kind, "status": "expired", "reason": q.Default}
	if _, err := r.transition(ctx, rec); err != nil {
		return r.failureOf(err)
	}
	return nil
}

// inputRecord returns the record of a planner's question, and the content of its event.
func (r *run) inputRecord(q contract.PlannerQuestion, until time.Time) (contract.Record, map[string]any, error) {
	id := contract.InputID(r.in.RunID)
	raw, err := json.Marshal(q)
	if err != nil {
		return contract.Record{}, nil, err
	}
	payload := map[string]any{
		"input_id": id, "question": q.Question, "options": q.Options, "default": q.Default, "why": q.Why, "deadline": until,
	}
	rec := records.EventRecord(contract.EventInputRequested, payload)
	rec.Notes = map[string]string{"id": id, "kind": contract.AskInput, "status": "pending", "reason": string(raw), "deadline": until.Format(time.RFC3339)}
	return rec, payload, nil
}

// status returns the status of a run while the question is open.
func (a *approval) status() contract.Status {
	if a.input != nil {
		return contract.StatusWaitingForInput
	}
	return contract.StatusWaitingForApproval
}

// checkInput returns why an answer to the planner's question cannot be accepted now.
func (r *run) checkInput(c contract.Command) error {
	a := r.controls.approval
	switch {
	case a == nil || a.input == nil:
		return commands.Rejected("run %d is not waiting for an answer to a question; its status is %s", r.in.RunID, r.Status)
	case c.ApprovalID != "" && c.ApprovalID != a.id:
		return commands.Rejected("run %d is waiting for an answer to %s, not %s", r.in.RunID, a.id, c.ApprovalID)
	case a.answered():
		return commands.Rejected("the question of run %d has already been answered", r.in.RunID)
	}
	if _, known := a.input.Choose(c.Answer); !known {
		return commands.Rejected("that is not one of the options of run %d; use the number of an option, from 1 to %d, or its text", r.in.RunID, len(a.input.Options))
	}
	return nil
}

// applyInput ends the wait for the answer to the planner's question.
func (r *run) applyInput(_ workflow.Context, c contract.Command) (contract.Record, string) {
	a := r.controls.approval
	option, _ := a.input.Choose(c.Answer)
	a.granted, a.by, a.reason, a.option = true, c.By, c.Reason, option
	r.AddAuthor(c.By)
	if !r.controls.paused {
		r.EndInterruption()
	}
	rec := records.EventRecord(contract.EventInputAnswered, map[string]any{
		"input_id": a.id, "answer": option, "by": a.by, "reason": a.reason,
	})
	rec.Notes = map[string]string{"id": a.id, "kind": a.kind, "status": "granted", "by": a.by, "reason": option}
	return rec, "the planner continues with: " + option
}
