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
	out := make([]BudgetState, len(scopes))
	for i, scope := range scopes {
		var err error
		if out[i], err = v.budget(ctx, scope); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func (v *Views) budget(ctx context.Context, scope store.Scope) (BudgetState, error) {
	b, err := v.store.Budget(ctx, scope.Kind, scope.Key)
	return BudgetState{Budget: b, LimitTokens: scope.LimitTokens, LimitMicros: scope.LimitMicros}, err
}

// RunDetails returns the whole run as of one moment, or ErrNotFound.
func (v *Views) RunDetails(ctx context.Context, id int64) (RunDetails, error) {
	return v.details(ctx, &detailReads{id: id, allEvents: true})
}

// RecentDetails is like RunDetails, with only the last events, at most 1000, for pages about long
// runs.
func (v *Views) RecentDetails(ctx context.Context, id int64, events int) (RunDetails, error) {
	return v.details(ctx, &detailReads{id: id, lastEvents: events})
}

// Hold returns the hold that keeps the files of a run; nil if it has none.
func (v *Views) Hold(ctx context.Context, id int64) (*retain.Hold, error) {
	return retain.New(v.store).HoldOf(ctx, id)
}

func (v *Views) details(ctx context.Context, r *detailReads) (RunDetails, error) {
	err := v.store.SnapshotTogether(ctx,
		func() []store.Read { return append(r.parts(ctx), r.people(ctx)...) },
		func() []store.Read { return r.rest(ctx) },
	)
	if err == nil {
		err = r.combine()
	}
	return r.d, dberr.OfRun(err, r.id, "read run %d", r.id)
}

// detailReads read the parts of a run's details, in two round trips: the second one has those that depend on others.
type detailReads struct {
	id         int64
	allEvents  bool
	lastEvents int // unless all are read

	d           RunDetails
	outputs     Outputs
	preparation []contract.Event
	reminders   reminders
	plan        *contract.Plan
	checks      []store.Check // of the last execution of the tester
	pages       [][]contract.Event
}

// eventPage is the number of events that one query reads, at most.
const eventPage = 1000

// read returns a read that assigns what a function returns.
func read[T any](to *T, get func(*Views) (T, error)) store.Read {
	return func(st *store.Store) (err error) { *to, err = get(New(st)); return err }
}

// parts returns the reads of what depends on no other part, except those of people.
func (r *detailReads) parts(ctx context.Context) []store.Read {
	reads := []store.Read{
		read(&r.d.Run, func(v *Views) (store.Run, error) { return v.store.Run(ctx, r.id) }),
		read(&r.outputs, func(v *Views) (Outputs, error) { return v.Outputs(ctx, r.id) }),
		read(&r.d.Executions, func(v *Views) ([]store.Execution, error) { return v.store.Executions(ctx, r.id) }),
		read(&r.preparation, func(v *Views) ([]contract.Event, error) { return v.PreparationEvents(ctx, r.id) }),
		read(&r.d.Findings, func(v *Views) ([]store.Finding, error) { return v.store.Findings(ctx, r.id) }),
		read(&r.d.Artifacts, func(v *Views) ([]contract.Artifact, error) { return v.store.Artifacts(ctx, r.id) }),
		read(&r.d.Lineage, func(v *Views) (followups.Lineage, error) { return followups.After(ctx, v.store, r.id) }),
		read(&r.d.Hold, func(v *Views) (*retain.Hold, error) { return v.Hold(ctx, r.id) }),
		read(&r.d.Usage, func(v *Views) (contract.Usage, error) { return v.store.Usage(ctx, r.id) }),
		read(&r.d.ModelUsage, func(v *Views) ([]ModelUsage, error) { return v.ModelUsage(ctx, r.id) }),
		read(&r.d.WaitingCalls, func(v *Views) ([]providers.Waiting, error) { return v.WaitingCalls(ctx, r.id) }),
		read(&r.plan, func(v *Views) (*contract.Plan, error) { return v.planIfAny(ctx, r.id) }),
	}
	if r.allEvents {
		reads = append(reads, read(&r.d.Events, func(v *Views) ([]contract.Event, error) { return v.store.Events(ctx, r.id, 0, eventPage) }))
	}
	return reads
}

// people returns the reads of phases, heals, questions to people, and what was said about the change.
func (r *detailReads) people(ctx context.Context) []store.Read {
	return []store.Read{
		read(&r.d.Phases, func(v *Views) ([]PhaseAttempt, error) { return v.Phases(ctx, r.id) }),
		read(&r.d.SelfHealEvents, func(v *Views) ([]store.HealEvent, error) { return v.store.Heals(ctx, r.id) }),
		read(&r.reminders, func(v *Views) (reminders, error) { return v.reminders(ctx, r.id) }), // before what is asked
		read(&r.d.Approvals, func(v *Views) ([]Approval, error) { return v.approvals(ctx, r.id, r.reminders) }),
		read(&r.d.Interventions, func(v *Views) ([]Intervention, error) { return v.remindedInterventions(ctx, r.id, r.reminders) }),
		read(&r.d.Gate, func(v *Views) ([]contract.GateRecord, error) { return verdicts.Of(ctx, v.store, r.id) }),
		read(&r.d.Reviews, func(v *Views) ([]contract.ReviewRecord, error) { return verdicts.Reviews(ctx, v.store, r.id) }),
		read(&r.d.PullRequests, func(v *Views) ([]contract.PullRequest, error) { return pullrequests.Of(ctx, v.store, r.id) }),
	}
}

// rest returns the reads of what depends on the run, its executions or its first events.
func (r *detailReads) rest(ctx context.Context) []store.Read {
	reads := r.d.Lineage.Before(ctx, r.d.Run)
	scopes := store.RunScopes(r.id, r.d.Settings.RunBudget)
	r.d.Budgets = make([]BudgetState, len(scopes))
	for i, scope := range scopes {
		reads = append(reads, read(&r.d.Budgets[i], func(v *Views) (BudgetState, error) { return v.budget(ctx, scope) }))
	}
	if tested := lastTested(r.d.Executions); tested != 0 {
		reads = append(reads, read(&r.checks, func(v *Views) ([]store.Check, error) { return v.store.Checks(ctx, tested) }))
	}
	if !r.allEvents {
		after := max(0, r.d.EventSeq-int64(r.lastEvents))
		return append(reads, read(&r.d.Events, func(v *Views) ([]contract.Event, error) { return v.store.Events(ctx, r.id, after, r.lastEvents) }))
	}
	if len(r.d.Events) == eventPage {
		first := r.d.Events[eventPage-1].Seq
		r.pages = make([][]contract.Event, (r.d.EventSeq-first+eventPage-1)/eventPage)
		for i := range r.pages {
			after := first + int64(i)*eventPage
			reads = append(reads, read(&r.pages[i], func(v *Views) ([]contract.Event, error) { return v.store.Events(ctx, r.id, after, eventPage) }))
		}
	}
	return reads
}

// combine completes the details with what depends on several reads.
func (r *detailReads) combine() error {
	for _, page := range r.pages {
		last := r.d.Events[len(r.d.Events)-1].Seq
		for _, e := range page {
			if e.Seq > last { // if numbers are missing, pages overlap
				r.d.Events = append(r.d.Events, e)
			}
		}
	}
	prepared := preparationOf(r.preparation, r.d.Run)
	r.d.Environment, r.d.Baseline = prepared.Environment, prepared.Baseline
	describeApprovals(r.d.Approvals, r.d.Gate)
	r.d.PlannerOutput, r.d.BuilderOutput, r.d.TesterOutput, r.d.ReleaserOutput = r.outputs.Planner, r.outputs.Builder, r.outputs.Tester, r.outputs.Releaser
	return addToOutputs(&r.d, r.plan, r.checks)
}

// remindedInterventions is Interventions with the kinds and the reminders.
func (v *Views) remindedInterventions(ctx context.Context, id int64, asked reminders) ([]Intervention, error) {
	rows, err := v.q.ManualInterventions(ctx, id)
	return rowconv.Convert(rows, func(r db.ManualInterventionsRow) Intervention {
		i := interventionOf(r.ManualIntervention, r.Kind)
		i.Reminders = asked.of(contract.InterventionID(id, i.Number), i.Deadline)
		return i
	}), dberr.Explain(err, "read the interventions of run %d", id)
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
