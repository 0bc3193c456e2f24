package views

import (
	"cmp"
	"context"
	"encoding/json"
	"time"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/store/db"
	"github.com/rocketgpt/orchestrator/internal/store/internal/dberr"
	"github.com/rocketgpt/orchestrator/internal/store/internal/rowconv"
)

// Question is a run's request to a person: for an approval, which has an id, or for help, which has
// the number of its intervention.
type Question struct {
	RunID          int64          `json:"runId"`
	Project        string         `json:"project"`
	GoalTitle      string         `json:"goal_title"`
	Phase          contract.Phase `json:"phase"`
	Kind           string         `json:"kind"` // plan, release, input, intervention or quota
	ApprovalID     string         `json:"approval_id,omitempty"`
	Intervention   int            `json:"intervention,omitempty"`
	Reason         string         `json:"reason,omitempty"`
	ActionRequired string         `json:"action_required,omitempty"`
	Deadline       *time.Time     `json:"deadline"` // no answer by then counts as a rejection, or as the default
	Since          time.Time      `json:"since"`

	Input *contract.PlannerQuestion `json:"input,omitempty"` // of a planner that asks; Reason is its text

	Reminders []Reminder `json:"reminders,omitempty"` // of the question of one run
}

// Questions returns the open requests of runs to people, earliest deadline first, at most the given
// number; only those of one run if its id is not 0.
func (v *Views) Questions(ctx context.Context, runID int64, most int) ([]Question, error) {
	params := db.QuestionsParams{Most: int32(most)}
	if runID != 0 {
		params.RunID = &runID
	}
	rows, err := v.lists.Questions(ctx, params)
	if err != nil {
		return nil, dberr.Explain(err, "read the requests that a person must answer")
	}
	var asked reminders
	if runID != 0 && len(rows) > 0 {
		if asked, err = v.reminders(ctx, runID); err != nil {
			return nil, err
		}
	}
	return rowconv.Convert(rows, func(r db.QuestionsRow) Question {
		q := Question{
			RunID: r.ID, Project: r.Project, GoalTitle: r.GoalTitle, Phase: contract.Phase(r.Phase), Kind: r.WaitingFor,
			ApprovalID: r.ApprovalID, Intervention: int(r.Intervention), Reason: r.Reason, ActionRequired: r.ActionRequired,
			Deadline: cmp.Or(r.HelpBy, r.ApproveBy), Since: r.Since,
		}
		q.Reason, q.Input = inputOf(q.Kind, r.Reason)
		id := q.ApprovalID
		if id == "" {
			id = contract.InterventionID(r.ID, q.Intervention)
		}
		q.Reminders = asked.of(id, q.Deadline)
		return q
	}), nil
}

// inputOf reads the question of a planner, which is the reason of an open request for input. Other
// reasons stay as they are.
func inputOf(kind, reason string) (string, *contract.PlannerQuestion) {
	var q contract.PlannerQuestion
	if kind != contract.AskInput || json.Unmarshal([]byte(reason), &q) != nil {
		return reason, nil
	}
	return q.Question, &q
}

// Waiting returns the number of runs that wait for a person.
func (v *Views) Waiting(ctx context.Context) (int, error) {
	n, err := v.q.CountWaiting(ctx)
	return int(n), dberr.Explain(err, "count the requests that need a person's answer")
}

// WaitingPipelines returns the number of pipelines that wait for a person.
func (v *Views) WaitingPipelines(ctx context.Context) (int, error) {
	n, err := v.q.CountWaitingPipelines(ctx)
	return int(n), dberr.Explain(err, "count the pipelines waiting for a person")
}

// Intervention is an action that a person must take.
type Intervention struct {
	ID             int64          `json:"id"`
	RunID          int64          `json:"runId"`
	Number         int            `json:"number"`         // within the run, from 1; a replay continues the numbering from its starting point
	Kind           string         `json:"kind,omitempty"` // intervention, quota, or the approval that was not given: plan or release
	Phase          contract.Phase `json:"phase,omitempty"`
	Reason         string         `json:"reason"`
	ActionRequired string         `json:"action_required"`
	Status         string         `json:"status"` // open, resolved or expired
	Deadline       *time.Time     `json:"deadline"`
	CreatedAt      time.Time      `json:"created_at"`
	ResolvedAt     *time.Time     `json:"resolved_at"`
	ResolvedBy     string         `json:"resolved_by,omitempty"`
	Answer         string         `json:"answer,omitempty"` // retry or give_up; empty: none was needed after a push
	Words          string         `json:"words,omitempty"`  // of the person who answered

	Reminders []Reminder `json:"reminders,omitempty"` // in the details of a run
}

// Interventions returns all requests of a run to people except approvals, in order. Kind is not
// set.
func (v *Views) Interventions(ctx context.Context, runID int64) ([]Intervention, error) {
	rows, err := v.q.Interventions(ctx, runID)
	return rowconv.Convert(rows, func(r db.ManualIntervention) Intervention { return interventionOf(r, "") }),
		dberr.Explain(err, "read the interventions of run %d", runID)
}

// OpenInterventions returns the open requests to people in all runs, oldest first, at most the
// given number.
func (v *Views) OpenInterventions(ctx context.Context, most int) ([]Intervention, error) {
	rows, err := v.q.OpenInterventions(ctx, int32(most))
	return rowconv.Convert(rows, func(r db.OpenInterventionsRow) Intervention { return interventionOf(r.ManualIntervention, r.Kind) }), dberr.Explain(err, "read the open interventions")
}

func interventionOf(m db.ManualIntervention, kind string) Intervention {
	return Intervention{
		Kind: kind, ID: m.ID, RunID: m.RunID, Number: int(m.Number), Phase: contract.Phase(m.Phase), Reason: m.Reason, ActionRequired: m.ActionRequired,
		Status: m.Status, Deadline: m.Deadline, CreatedAt: m.CreatedAt, ResolvedAt: m.ResolvedAt, ResolvedBy: m.ResolvedBy,
		Answer: m.Answer, Words: m.Words,
	}
}
