package store

import (
	"context"
	"encoding/json"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/store/db"
	"github.com/rocketgpt/orchestrator/internal/store/internal/dberr"
	"github.com/rocketgpt/orchestrator/internal/store/internal/rowconv"
)

// Execution is one attempt of a phase or, with a step, of a step.
type Execution struct {
	contract.ExecutionRef
	Status     contract.ExecutionStatus `json:"status"`
	Failure    *contract.Failure        `json:"failure,omitempty"`
	Provider   string                   `json:"provider,omitempty"`
	Model      string                   `json:"model,omitempty"`
	Turns      int                      `json:"turns"`
	Usage      contract.Usage           `json:"usage"` // set when it has ended
	Output     json.RawMessage          `json:"output,omitempty"`
	StartedAt  time.Time                `json:"started_at"`
	FinishedAt *time.Time               `json:"finished_at"`
}

// PhaseAttempt is one attempt of a phase in a run's timeline.
type PhaseAttempt struct {
	Phase       contract.Phase           `json:"phase"`
	Attempt     int                      `json:"attempt"`
	ExecutionID int64                    `json:"execution_id"`
	Status      contract.ExecutionStatus `json:"status"`
	StartedAt   time.Time                `json:"started_at"`
	FinishedAt  *time.Time               `json:"finished_at"`
}

// HealEvent is what self-heal did about a failure.
type HealEvent struct {
	ID          int64               `json:"id"`
	RunID       int64               `json:"runId"`
	Number      int                 `json:"number"` // of the run's heals, from 1; a replay counts on from where it began
	Phase       contract.Phase      `json:"phase"`
	Step        string              `json:"step,omitempty"`
	ExecutionID int64               `json:"execution_id,omitempty"` // that failed
	ErrorType   contract.Class      `json:"error_type"`
	ErrorCode   contract.Code       `json:"error_code,omitempty"`
	RootCause   string              `json:"root_cause,omitempty"`
	HealAction  contract.HealAction `json:"heal_action"`
	AskedBy     string              `json:"asked_by,omitempty"` // empty: the run itself
	Status      contract.HealStatus `json:"status"`
	HealOutput  json.RawMessage     `json:"heal_output"` // contract.HealOutput
	CreatedAt   time.Time           `json:"created_at"`
	FinishedAt  *time.Time          `json:"finished_at"`
}

// Output returns what the heal's row says of its work; what cannot be read is empty.
func (h HealEvent) Output() contract.HealOutput {
	var out contract.HealOutput
	_ = json.Unmarshal(h.HealOutput, &out) // written by Record from this very type
	return out
}

func healOf(h db.SelfHealEvent) HealEvent {
	return HealEvent{
		ID: h.ID, RunID: h.RunID, Number: int(h.Number), Phase: contract.Phase(h.Phase), Step: h.Step, ExecutionID: h.ExecutionID,
		ErrorType: contract.Class(h.ErrorType), ErrorCode: contract.Code(h.ErrorCode), RootCause: h.RootCause,
		HealAction: contract.HealAction(h.HealAction), AskedBy: h.AskedBy, Status: contract.HealStatus(h.Status),
		HealOutput: h.HealOutput, CreatedAt: h.CreatedAt, FinishedAt: h.FinishedAt,
	}
}

// Intervention is something that a person has to do.
type Intervention struct {
	ID             int64          `json:"id"`
	RunID          int64          `json:"runId"`
	Number         int            `json:"number"`         // of the run's interventions, from 1; a replay counts on from where it began
	Kind           string         `json:"kind,omitempty"` // intervention, quota, or the approval that was not given: plan or release
	Phase          contract.Phase `json:"phase,omitempty"`
	Reason         string         `json:"reason"`
	ActionRequired string         `json:"action_required"`
	Status         string         `json:"status"` // open, resolved or expired
	Deadline       *time.Time     `json:"deadline"`
	CreatedAt      time.Time      `json:"created_at"`
	ResolvedAt     *time.Time     `json:"resolved_at"`
	ResolvedBy     string         `json:"resolved_by,omitempty"`
	Answer         string         `json:"answer,omitempty"` // retry or give_up
	Words          string         `json:"words,omitempty"`  // of who answered
}

func interventionOf(m db.ManualIntervention, kind string) Intervention {
	return Intervention{
		Kind: kind, ID: m.ID, RunID: m.RunID, Number: int(m.Number), Phase: contract.Phase(m.Phase), Reason: m.Reason, ActionRequired: m.ActionRequired,
		Status: m.Status, Deadline: m.Deadline, CreatedAt: m.CreatedAt, ResolvedAt: m.ResolvedAt, ResolvedBy: m.ResolvedBy,
		Answer: m.Answer, Words: m.Words,
	}
}

// Approval is a question to a person.
type Approval struct {
	ID        string     `json:"id"`
	Kind      string     `json:"kind"`   // plan or release
	Status    string     `json:"status"` // pending, granted, rejected or expired: not answered in time, or before the run ended
	By        string     `json:"by,omitempty"`
	Reason    string     `json:"reason,omitempty"`
	Deadline  *time.Time `json:"deadline"`
	CreatedAt time.Time  `json:"created_at"`
	DecidedAt *time.Time `json:"decided_at"`
}

// ModelUsage is what one agent used of one model.
type ModelUsage struct {
	Agent    contract.Agent `json:"agent"`
	Provider string         `json:"provider"`
	Model    string         `json:"model"`
	contract.Usage
}

// RunDetails is the whole run. It marshals to the JSON that the specification
// gives.
type RunDetails struct {
	Run
	// Environment and Baseline stand in JSON where a run has only their digest and
	// key; Run has these.
	Environment    *RunEnvironment     `json:"environment,omitempty"`
	Baseline       *RunBaseline        `json:"baseline,omitempty"`
	PlannerOutput  json.RawMessage     `json:"planner_output"`
	BuilderOutput  json.RawMessage     `json:"builder_output"`
	TesterOutput   json.RawMessage     `json:"tester_output"`
	ReleaserOutput json.RawMessage     `json:"releaser_output"`
	Phases         []PhaseAttempt      `json:"phases"`
	Executions     []Execution         `json:"executions"`
	Events         []contract.Event    `json:"events"`
	SelfHealEvents []HealEvent         `json:"self_heal_events"`
	Findings       []Finding           `json:"findings"`
	Artifacts      []contract.Artifact `json:"artifacts"`
	Approvals      []Approval          `json:"approvals"`
	Interventions  []Intervention      `json:"manual_interventions"`
	Usage          contract.Usage      `json:"usage"`
	ModelUsage     []ModelUsage        `json:"model_usage"`
}

// RunDetails returns the whole run as of one moment, or ErrNotFound.
func (s *Store) RunDetails(ctx context.Context, id int64) (RunDetails, error) {
	return s.detailsOf(ctx, id, func(view *Store, run Run) ([]contract.Event, error) { return view.allEvents(ctx, run.ID) })
}

// RecentDetails is RunDetails with the last events only, at most 1000: what a
// page shows of a long run.
func (s *Store) RecentDetails(ctx context.Context, id int64, events int) (RunDetails, error) {
	return s.detailsOf(ctx, id, func(view *Store, run Run) ([]contract.Event, error) {
		return view.Events(ctx, run.ID, max(0, run.EventSeq-int64(events)), events)
	})
}

// detailsOf reads a run as of one moment, with events as the caller wants them.
func (s *Store) detailsOf(ctx context.Context, id int64, events func(*Store, Run) ([]contract.Event, error)) (d RunDetails, err error) {
	options := pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}
	err = pgx.BeginTxFunc(ctx, s.pool, options, func(tx pgx.Tx) error {
		view := &Store{q: db.New(tx)}
		d, err = view.details(ctx, id, events)
		return err
	})
	return d, dberr.OfRun(err, id, "read run %d", id)
}

// details reads one thing after the other; the transaction makes them one moment.
func (s *Store) details(ctx context.Context, id int64, events func(*Store, Run) ([]contract.Event, error)) (d RunDetails, err error) {
	if d.Run, err = s.Run(ctx, id); err != nil {
		return d, err
	}
	outputs, err := s.q.RunOutputs(ctx, id)
	if err != nil {
		return d, err
	}
	d.PlannerOutput, d.BuilderOutput = outputs.PlannerOutput, outputs.BuilderOutput
	d.TesterOutput, d.ReleaserOutput = outputs.TesterOutput, outputs.ReleaserOutput
	if d.Executions, err = s.Executions(ctx, id); err != nil {
		return d, err
	}
	if d.Events, err = events(s, d.Run); err != nil {
		return d, err
	}
	prepared, err := s.Preparation(ctx, d.Run)
	if err != nil {
		return d, err
	}
	d.Environment, d.Baseline = prepared.Environment, prepared.Baseline
	if d.Findings, err = s.Findings(ctx, id); err != nil {
		return d, err
	}
	if d.Artifacts, err = s.Artifacts(ctx, id); err != nil {
		return d, err
	}
	if d.Usage, err = s.Usage(ctx, id); err != nil {
		return d, err
	}
	if err := s.people(ctx, id, &d); err != nil {
		return d, err
	}
	return d, s.outputs(ctx, &d)
}

// people reads what concerns phases, heals, people and money.
func (s *Store) people(ctx context.Context, id int64, d *RunDetails) error {
	phases, err := s.q.Phases(ctx, id)
	if err != nil {
		return err
	}
	d.Phases = rowconv.Convert(phases, phaseOf)
	heals, err := s.q.SelfHealEvents(ctx, id)
	if err != nil {
		return err
	}
	d.SelfHealEvents = rowconv.Convert(heals, healOf)
	approvals, err := s.q.Approvals(ctx, id)
	if err != nil {
		return err
	}
	d.Approvals = rowconv.Convert(approvals, func(a db.Approval) Approval {
		return Approval{
			ID: a.ID, Kind: a.Kind, Status: a.Status, By: a.DecidedBy, Reason: a.Reason,
			Deadline: a.Deadline, CreatedAt: a.CreatedAt, DecidedAt: a.DecidedAt,
		}
	})
	interventions, err := s.q.ManualInterventions(ctx, id)
	if err != nil {
		return err
	}
	d.Interventions = rowconv.Convert(interventions, func(r db.ManualInterventionsRow) Intervention { return interventionOf(r.ManualIntervention, r.Kind) })
	d.ModelUsage, err = s.ModelUsage(ctx, id)
	return err
}

// ModelUsage returns what each agent of a run used of each model.
func (s *Store) ModelUsage(ctx context.Context, runID int64) ([]ModelUsage, error) {
	usage, err := s.q.UsageByModel(ctx, runID)
	return rowconv.Convert(usage, func(u db.UsageByModelRow) ModelUsage {
		return ModelUsage{Agent: contract.Agent(u.Agent), Provider: u.Provider, Model: u.Model, Usage: contract.Usage{
			Calls: int(u.Calls), PromptTokens: u.PromptTokens, CompletionTokens: u.CompletionTokens, MicroUSD: u.CostMicros,
		}}
	}), dberr.Explain(err, "read what run %d used of models", runID)
}

func (s *Store) allEvents(ctx context.Context, runID int64) ([]contract.Event, error) {
	all := []contract.Event{}
	for {
		var after int64
		if len(all) > 0 {
			after = all[len(all)-1].Seq
		}
		page, err := s.Events(ctx, runID, after, 1000)
		if err != nil || len(page) == 0 {
			return all, err
		}
		all = append(all, page...)
	}
}

// Executions returns the executions of a run in the order in which they began.
func (s *Store) Executions(ctx context.Context, runID int64) ([]Execution, error) {
	rows, err := s.q.Executions(ctx, runID)
	if err != nil {
		return nil, dberr.Explain(err, "read the executions of run %d", runID)
	}
	return rowconv.Convert(rows, executionOf), nil
}

func executionOf(r db.Execution) Execution {
	return Execution{
		ExecutionRef: contract.ExecutionRef{
			ID: r.ID, RunID: r.RunID, Phase: contract.Phase(r.Phase), Step: r.Step, Agent: contract.Agent(r.Agent), Attempt: int(r.Attempt),
		},
		Status: contract.ExecutionStatus(r.Status), Failure: rowconv.Failure(r.ErrorClass, r.ErrorCode, r.ErrorMessage, r.ErrorCause),
		Provider: r.Provider, Model: r.Model, Turns: int(r.Turns),
		Usage: contract.Usage{
			Calls: int(r.Turns), PromptTokens: r.PromptTokens, CompletionTokens: r.CompletionTokens, MicroUSD: r.CostMicros,
		},
		Output: r.Output, StartedAt: r.StartedAt, FinishedAt: r.FinishedAt,
	}
}

// Timing is where the time of a run went: what began and ended when.
type Timing struct {
	Executions []Execution `json:"executions"`
	ModelCalls []ModelCall `json:"model_calls"`
	ToolCalls  []ToolCall  `json:"tool_calls"`
	Checks     []Check     `json:"checks"` // without their cases
	// Preparing are the events of environment and baseline.
	Preparing []contract.Event `json:"preparing,omitempty"`
}

// Timing returns where the time of a run went. A run that does not exist took none.
func (s *Store) Timing(ctx context.Context, runID int64) (t Timing, err error) {
	if t.Executions, err = s.Executions(ctx, runID); err != nil {
		return t, err
	}
	if t.ModelCalls, err = s.ModelCalls(ctx, runID); err != nil {
		return t, err
	}
	if t.ToolCalls, err = s.ToolCalls(ctx, runID); err != nil {
		return t, err
	}
	rows, err := s.q.ChecksOfRun(ctx, runID)
	if err != nil {
		return t, dberr.Explain(err, "read the checks of run %d", runID)
	}
	for i := range rows {
		rows[i].Cases = nil
	}
	if t.Checks, err = checksOf(rows); err != nil {
		return t, err
	}
	t.Preparing, err = s.PreparationEvents(ctx, runID)
	return t, err
}
