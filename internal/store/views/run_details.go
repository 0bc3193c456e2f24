package views

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/internal/store/db"
	"github.com/rocketgpt/orchestrator/internal/store/followups"
	"github.com/rocketgpt/orchestrator/internal/store/internal/dberr"
	"github.com/rocketgpt/orchestrator/internal/store/internal/rowconv"
	"github.com/rocketgpt/orchestrator/internal/store/providers"
	"github.com/rocketgpt/orchestrator/internal/store/pullrequests"
	"github.com/rocketgpt/orchestrator/internal/store/retain"
	"github.com/rocketgpt/orchestrator/internal/store/verdicts"
)

// PhaseAttempt is one attempt of a phase in a run's timeline.
type PhaseAttempt struct {
	Phase       contract.Phase           `json:"phase"`
	Attempt     int                      `json:"attempt"`
	ExecutionID int64                    `json:"execution_id"`
	Status      contract.ExecutionStatus `json:"status"`
	StartedAt   time.Time                `json:"started_at"`
	FinishedAt  *time.Time               `json:"finished_at"`
}

// Approval is a question to a person.
type Approval struct {
	ID        string     `json:"id"`
	Kind      string     `json:"kind"`   // plan, release or input
	Status    string     `json:"status"` // pending, granted, rejected or expired: not answered in time, or before the run ended
	By        string     `json:"by,omitempty"`
	Reason    string     `json:"reason,omitempty"`
	Deadline  *time.Time `json:"deadline"`
	CreatedAt time.Time  `json:"created_at"`
	DecidedAt *time.Time `json:"decided_at"`

	Subject  string `json:"subject,omitempty" doc:"digest of what exactly was asked about; for a plan, its id. Each subject of a run has its own entry"`
	Approved string `json:"approved_subject,omitempty" doc:"what was approved; it differs from subject if the person edited the plan"`
	// What the policy gate judged, if it asked.
	VerdictID  int64                  `json:"verdict_id,omitempty"`
	Policy     string                 `json:"policy,omitempty" doc:"digest of the policies, guards and settings that asked"`
	Files      []contract.GateFile    `json:"files,omitempty" doc:"first changed files"`
	FilesTotal int                    `json:"files_total,omitempty"`
	Reasons    []contract.GateReason  `json:"reasons,omitempty" doc:"why the policies ask"`
	Findings   []contract.GateFinding `json:"findings,omitempty"`

	Input *contract.PlannerQuestion `json:"input,omitempty"` // the open question of a planner; Reason is its text, and afterwards the answer

	Reminders []Reminder `json:"reminders,omitempty" doc:"reminders of it, sent and planned"`
}

// RunDetails is a run with all its data. It marshals to the JSON of the specification.
type RunDetails struct {
	store.Run
	// In JSON, Environment and Baseline replace Run's digest and key.
	Environment    *RunEnvironment         `json:"environment,omitempty"`
	Baseline       *RunBaseline            `json:"baseline,omitempty"`
	PlannerOutput  json.RawMessage         `json:"planner_output"`
	BuilderOutput  json.RawMessage         `json:"builder_output"`
	TesterOutput   json.RawMessage         `json:"tester_output"`
	ReleaserOutput json.RawMessage         `json:"releaser_output"`
	Phases         []PhaseAttempt          `json:"phases"`
	Executions     []store.Execution       `json:"executions"`
	Events         []contract.Event        `json:"events"`
	SelfHealEvents []store.HealEvent       `json:"self_heal_events"`
	Findings       []store.Finding         `json:"findings"`
	Artifacts      []contract.Artifact     `json:"artifacts"`
	Hold           *retain.Hold            `json:"hold,omitempty"` // keeps the files of the run
	Approvals      []Approval              `json:"approvals"`
	Gate           []contract.GateRecord   `json:"gate" doc:"what the policy gate decided about the run's changes, oldest first"`
	Reviews        []contract.ReviewRecord `json:"reviews" doc:"reviews of the run's change by a model before its release, oldest first"`
	PullRequests   []contract.PullRequest  `json:"pull_requests" doc:"pull requests of the run's branch, as last seen"`
	Interventions  []Intervention          `json:"manual_interventions"`
	Usage          contract.Usage          `json:"usage"`
	ModelUsage     []ModelUsage            `json:"model_usage"`
	Budgets        []BudgetState           `json:"budgets"` // of the run, then of its agents that have one
	Lineage        followups.Lineage       `json:"lineage" doc:"runs from which this one continues, and that continue from it"`
	WaitingCalls   []providers.Waiting     `json:"waiting_calls" doc:"model calls that wait for their turn at a provider with limits"`
}

// BudgetState is a budget with its limits; 0 means none.
type BudgetState struct {
	store.Budget
	LimitTokens int64 `json:"limit_tokens"`
	LimitMicros int64 `json:"limit_micros"`
}

// Left describes what the budget has left, with what is reserved taken off, such as "$1.50 and 200
// tokens"; empty without a limit.
func (b BudgetState) Left() string {
	var parts []string
	if b.LimitMicros > 0 {
		parts = append(parts, fmt.Sprintf("$%.2f", float64(max(0, b.LimitMicros-b.SpentMicros-b.ReservedMicros))/1e6))
	}
	if b.LimitTokens > 0 {
		parts = append(parts, fmt.Sprintf("%d tokens", max(0, b.LimitTokens-b.SpentTokens-b.ReservedTokens)))
	}
	return strings.Join(parts, " and ")
}

// Budgets returns the states of budgets.
func (v *Views) Budgets(ctx context.Context, scopes []store.Scope) ([]BudgetState, error) {
	out := make([]BudgetState, 0, len(scopes))
	for _, scope := range scopes {
		b, err := v.store.Budget(ctx, scope.Kind, scope.Key)
		if err != nil {
			return nil, err
		}
		out = append(out, BudgetState{Budget: b, LimitTokens: scope.LimitTokens, LimitMicros: scope.LimitMicros})
	}
	return out, nil
}

// RunDetails returns the whole run as of one moment, or ErrNotFound.
func (v *Views) RunDetails(ctx context.Context, id int64) (RunDetails, error) {
	return v.snapshot(ctx, id, allEvents)
}

// RecentDetails is like RunDetails, with only the last events, at most 1000, for pages about long
// runs.
func (v *Views) RecentDetails(ctx context.Context, id int64, events int) (RunDetails, error) {
	return v.snapshot(ctx, id, func(ctx context.Context, st *store.Store, run store.Run) ([]contract.Event, error) {
		return st.Events(ctx, run.ID, max(0, run.EventSeq-int64(events)), events)
	})
}

// Hold returns the hold that keeps the files of a run; nil if it has none.
func (v *Views) Hold(ctx context.Context, id int64) (*retain.Hold, error) {
	return retain.New(v.store).HoldOf(ctx, id)
}

type eventReader func(ctx context.Context, st *store.Store, run store.Run) ([]contract.Event, error)

// snapshot reads a run as of one moment, with the events that the caller selects.
func (v *Views) snapshot(ctx context.Context, id int64, events eventReader) (d RunDetails, err error) {
	err = v.store.Snapshot(ctx, func(st *store.Store) error {
		d, err = New(st).details(ctx, id, events)
		return err
	})
	return d, dberr.OfRun(err, id, "read run %d", id)
}

// details reads the parts one by one; the transaction makes them consistent.
func (v *Views) details(ctx context.Context, id int64, events eventReader) (d RunDetails, err error) {
	if d.Run, err = v.store.Run(ctx, id); err != nil {
		return d, err
	}
	outputs, err := v.Outputs(ctx, id)
	if err != nil {
		return d, err
	}
	d.PlannerOutput, d.BuilderOutput, d.TesterOutput, d.ReleaserOutput = outputs.Planner, outputs.Builder, outputs.Tester, outputs.Releaser
	if d.Executions, err = v.store.Executions(ctx, id); err != nil {
		return d, err
	}
	if d.Events, err = events(ctx, v.store, d.Run); err != nil {
		return d, err
	}
	prepared, err := v.Preparation(ctx, d.Run)
	if err != nil {
		return d, err
	}
	d.Environment, d.Baseline = prepared.Environment, prepared.Baseline
	if d.Findings, err = v.store.Findings(ctx, id); err != nil {
		return d, err
	}
	if d.Artifacts, err = v.store.Artifacts(ctx, id); err != nil {
		return d, err
	}
	if d.Lineage, err = followups.Of(ctx, v.store, d.Run); err != nil {
		return d, err
	}
	if d.Hold, err = v.Hold(ctx, id); err != nil {
		return d, err
	}
	if d.Usage, err = v.store.Usage(ctx, id); err != nil {
		return d, err
	}
	if d.Budgets, err = v.Budgets(ctx, store.RunScopes(id, d.Settings.RunBudget)); err != nil {
		return d, err
	}
	if err := v.people(ctx, id, &d); err != nil {
		return d, err
	}
	if d.WaitingCalls, err = v.WaitingCalls(ctx, id); err != nil {
		return d, err
	}
	return d, v.outputs(ctx, &d)
}

// people reads phases, heals, questions to people, verdicts of the gate, and costs.
func (v *Views) people(ctx context.Context, id int64, d *RunDetails) error {
	var err error
	if d.Phases, err = v.Phases(ctx, id); err != nil {
		return err
	}
	if d.SelfHealEvents, err = v.store.Heals(ctx, id); err != nil {
		return err
	}
	asked, err := v.reminders(ctx, id)
	if err != nil {
		return err
	}
	if d.Approvals, err = v.approvals(ctx, id, asked); err != nil {
		return err
	}
	interventions, err := v.q.ManualInterventions(ctx, id)
	if err != nil {
		return err
	}
	d.Interventions = rowconv.Convert(interventions, func(r db.ManualInterventionsRow) Intervention {
		i := interventionOf(r.ManualIntervention, r.Kind)
		i.Reminders = asked.of(contract.InterventionID(id, i.Number), i.Deadline)
		return i
	})
	if d.Gate, err = verdicts.Of(ctx, v.store, id); err != nil {
		return err
	}
	describeApprovals(d.Approvals, d.Gate)
	if d.Reviews, err = verdicts.Reviews(ctx, v.store, id); err != nil {
		return err
	}
	if d.PullRequests, err = pullrequests.Of(ctx, v.store, id); err != nil {
		return err
	}
	d.ModelUsage, err = v.ModelUsage(ctx, id)
	return err
}

// approvals reads the questions of a run that are stored as approvals.
func (v *Views) approvals(ctx context.Context, id int64, asked reminders) ([]Approval, error) {
	rows, err := v.q.Approvals(ctx, id)
	return rowconv.Convert(rows, func(a db.Approval) Approval {
		reason, input := inputOf(a.Kind, a.Reason)
		return Approval{
			Input: input, ID: a.ID, Kind: a.Kind, Status: a.Status, By: a.DecidedBy, Reason: reason,
			Deadline: a.Deadline, CreatedAt: a.CreatedAt, DecidedAt: a.DecidedAt,
			Subject: a.Subject, Approved: a.DecidedSubject, VerdictID: a.VerdictID, Reminders: asked.of(a.ID, a.Deadline),
		}
	}), dberr.Explain(err, "read the approvals of run %d", id)
}

// Approvals returns the approvals of a run's plans and releases, oldest first, with what exactly they are
// about.
func (v *Views) Approvals(ctx context.Context, id int64) ([]Approval, error) {
	asked, err := v.reminders(ctx, id)
	if err != nil {
		return nil, err
	}
	all, err := v.approvals(ctx, id, asked)
	if err != nil {
		return nil, err
	}
	judged, err := verdicts.Of(ctx, v.store, id)
	describeApprovals(all, judged)
	return slices.DeleteFunc(all, func(a Approval) bool { return a.Kind == contract.AskInput }), err
}

// describeApprovals says what exactly the approvals that the policy gate demands are about.
func describeApprovals(approvals []Approval, verdicts []contract.GateRecord) {
	for i := range approvals {
		a := &approvals[i]
		for _, v := range verdicts {
			if a.VerdictID != 0 && v.ID == a.VerdictID {
				a.Policy, a.Files, a.FilesTotal, a.Findings = v.Policy, v.Files, v.FilesTotal, v.Findings
				for _, r := range v.Reasons {
					if r.Decision != contract.GateAllow {
						a.Reasons = append(a.Reasons, r)
					}
				}
			}
		}
	}
}

func allEvents(ctx context.Context, st *store.Store, run store.Run) ([]contract.Event, error) {
	all := []contract.Event{}
	for {
		var after int64
		if len(all) > 0 {
			after = all[len(all)-1].Seq
		}
		page, err := st.Events(ctx, run.ID, after, 1000)
		if err != nil || len(page) == 0 {
			return all, err
		}
		all = append(all, page...)
	}
}

// Phases returns a run's attempts at its phases, in the order in which they began.
func (v *Views) Phases(ctx context.Context, runID int64) ([]PhaseAttempt, error) {
	rows, err := v.q.Phases(ctx, runID)
	return rowconv.Convert(rows, func(p db.Phase) PhaseAttempt {
		return PhaseAttempt{
			Phase: contract.Phase(p.Phase), Attempt: int(p.Attempt), ExecutionID: p.ExecutionID,
			Status: contract.ExecutionStatus(p.Status), StartedAt: p.StartedAt, FinishedAt: p.FinishedAt,
		}
	}), dberr.Explain(err, "read the phases of run %d", runID)
}

// PlanVersion is a plan of a run without its steps.
type PlanVersion struct {
	ID          int64
	Author      string
	Steps       int
	ExecutionID int64 // of the planner; 0: a person gave or edited it
	CreatedAt   time.Time
}

// Plans returns the versions of a run's plan, newest first, at most the given number.
func (v *Views) Plans(ctx context.Context, runID int64, most int) ([]PlanVersion, error) {
	rows, err := v.q.PlansOfRun(ctx, db.PlansOfRunParams{RunID: runID, Most: int32(most)})
	return rowconv.Convert(rows, func(r db.PlansOfRunRow) PlanVersion {
		return PlanVersion{ID: r.ID, Author: r.Author, Steps: int(r.StepCount), ExecutionID: r.ExecutionID, CreatedAt: r.CreatedAt}
	}), dberr.Explain(err, "read the plans of run %d", runID)
}
