package store

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/fault"
	"github.com/rocketgpt/orchestrator/internal/runs/issue"
	"github.com/rocketgpt/orchestrator/internal/store/db"
	"github.com/rocketgpt/orchestrator/internal/store/internal/dberr"
	"github.com/rocketgpt/orchestrator/internal/store/internal/rowconv"
	"github.com/rocketgpt/orchestrator/internal/telemetry"
)

// PipelineProject is the project of pipelines that do not specify one.
const PipelineProject = "pipeline"

// Limits of a pipeline's objective in rows and events, in bytes.
const (
	pipelineTitle   = 200
	pipelineSummary = 500
)

// pipelineKey is a prefix that distinguishes the idempotency keys of pipelines from those of runs.
const pipelineKey = "pipeline:"

// NewPipelineRow is an independent pipeline to be created.
type NewPipelineRow struct {
	Tenant         string // default: DefaultTenant
	Project        string // whose webhooks receive its events; default: PipelineProject
	Objective      string // default: the task's objective
	Task           contract.DeliberationTask
	Settings       contract.DeliberationSettings
	IdempotencyKey string // the same key returns the same pipeline; empty: always a new one
	RequestDigest  string // distinguishes a repeated request from another one with the same key
	By             string // who creates it: a person, or a client such as contract.ByAPI
}

// Pipeline is a pipeline from its row.
type Pipeline struct {
	ID             int64                         `json:"pipeline_id"`
	RunID          int64                         `json:"run_id"` // the run that has its budget and events: the run that it plans, or the row that accounts for it
	ForRun         bool                          `json:"for_run"`
	ExecutionID    int64                         `json:"execution_id,omitempty"` // of the planner, where ForRun
	Tenant         string                        `json:"tenant"`
	Objective      string                        `json:"objective"`
	Task           contract.DeliberationTask     `json:"task"`
	Mode           contract.PipelineMode         `json:"mode"`
	AutoContinue   bool                          `json:"auto_continue"`
	Attempt        int                           `json:"attempt"`
	RetryCount     int                           `json:"retry_count"` // Attempt less one
	PriorID        int64                         `json:"prior_id,omitempty"`
	RecoveredBy    int64                         `json:"recovered_by,omitempty"`
	Status         contract.PipelineStatus       `json:"status"`
	Iteration      int                           `json:"iteration"`
	WaitingFor     string                        `json:"waiting_for,omitempty"`
	Members        []contract.MemberView         `json:"members"`
	Metrics        contract.DeliberationMetrics  `json:"metrics"`
	Analysis       []string                      `json:"analysis"`
	AbortReason    contract.AbortReason          `json:"abort_reason,omitempty"`
	HandoffRef     string                        `json:"handoff_ref,omitempty"`
	Consensus      *contract.Entry               `json:"consensus,omitempty"` // with its whole text if a single pipeline was requested
	Failure        *contract.Failure             `json:"failure,omitempty"`
	FailureContext *contract.FailureContext      `json:"failure_context,omitempty"`
	Inherited      *contract.Inherited           `json:"inherited,omitempty"` // of a recovery
	Settings       contract.DeliberationSettings `json:"settings"`
	WorkflowID     string                        `json:"workflow_id"`
	WorkflowRunID  string                        `json:"workflow_run_id"`
	CreatedAt      time.Time                     `json:"created_at"`
	UpdatedAt      time.Time                     `json:"updated_at"`
	StartedAt      *time.Time                    `json:"started_at"`
	FinishedAt     *time.Time                    `json:"finished_at"`
}

// Cursor returns the position of the pipeline in lists.
func (p Pipeline) Cursor() Cursor { return Cursor{CreatedAt: p.CreatedAt, ID: p.ID} }

// Limits of a task's lists in a workflow's input. The full lists are in the database, from which
// the prompts are built.
const (
	inputSubtasks    = 20
	inputConditions  = 20
	shortenedSubtask = 128
)

// Input returns the input of the pipeline's workflow. Its texts are truncated to limit the
// history's size; the whole texts are read from the row.
func (p Pipeline) Input() contract.DeliberationInput {
	task := p.Task
	task.Objective = fault.Clip(task.Objective, contract.TextHead)
	task.Constraints = heads(task.Constraints)
	task.SuccessCriteria = heads(task.SuccessCriteria)
	task.Subtasks = slices.Clone(task.Subtasks[:min(len(task.Subtasks), inputSubtasks)])
	for i := range task.Subtasks {
		t := &task.Subtasks[i]
		t.ID, t.Status = fault.Clip(t.ID, shortenedSubtask), fault.Clip(t.Status, shortenedSubtask)
		t.Description, t.Dependencies = fault.Clip(t.Description, contract.TextHead), nil
	}
	return contract.DeliberationInput{
		PipelineID: p.ID, RunID: p.RunID, Tenant: p.Tenant, ForRun: p.ForRun, Attempt: p.Attempt,
		Task: task, Settings: p.Settings, Inherited: p.Inherited,
	}
}

func heads(texts []string) []string {
	return rowconv.Convert(texts[:min(len(texts), inputConditions)], func(s string) string { return fault.Clip(s, contract.TextHead) })
}

// SpawnPipeline stores a new pipeline, the row that accounts for it and the event pipeline.spawned,
// all or nothing. If the tenant has already used the idempotency key, it returns that pipeline and
// false, or a HUMAN_ERROR with CodeConflict if the request was different.
func (s *Store) SpawnPipeline(ctx context.Context, n NewPipelineRow) (Pipeline, bool, error) {
	params, err := n.params()
	if err != nil {
		return Pipeline{}, false, err
	}
	row, err := s.q.SpawnPipeline(ctx, params)
	if err == nil {
		p, err := s.Pipeline(ctx, row.ID)
		return p, true, err
	}
	if !errors.Is(err, pgx.ErrNoRows) {
		return Pipeline{}, false, dberr.Explain(err, "create the pipeline")
	}
	p, err := s.PipelineByKey(ctx, params.Tenant, n.IdempotencyKey, n.RequestDigest)
	return p, false, err
}

// PipelineByKey returns the pipeline that was created with a tenant's idempotency key, or
// ErrNotFound. If the request was different, the error is a HUMAN_ERROR with CodeConflict.
func (s *Store) PipelineByKey(ctx context.Context, tenant, key, digest string) (Pipeline, error) {
	known, err := s.q.PipelineByKey(ctx, db.PipelineByKeyParams{Tenant: tenant, IdempotencyKey: pipelineKey + key})
	if err != nil {
		return Pipeline{}, dberr.Or(err, dberr.NotFound("no pipeline has this idempotency key"), "find the pipeline for an idempotency key")
	}
	if known.ID == 0 || known.RequestDigest != digest {
		return Pipeline{}, fault.New(contract.ClassHuman, CodeConflict,
			"the idempotency key %q was already used for a different request; use a new key", key)
	}
	return s.Pipeline(ctx, known.ID)
}

func (n NewPipelineRow) params() (db.SpawnPipelineParams, error) {
	n.Objective = cmp.Or(n.Objective, n.Task.Objective)
	n.Task.Objective = cmp.Or(n.Task.Objective, n.Objective)
	p := db.SpawnPipelineParams{
		Tenant: n.Tenant, Project: rowconv.Text(n.Project), GoalTitle: title(n.Objective), Objective: rowconv.Text(n.Objective),
		CarrierSettings: json.RawMessage("{}"), RequestDigest: n.RequestDigest,
		Mode: string(n.Settings.Mode), AutoContinue: n.Settings.AutoContinue, EventType: string(contract.EventPipelineSpawned),
	}
	p.Tenant = cmp.Or(p.Tenant, DefaultTenant)
	p.Project = cmp.Or(p.Project, PipelineProject)
	if n.IdempotencyKey != "" {
		key := pipelineKey + n.IdempotencyKey
		p.IdempotencyKey = &key
	}
	var err error
	if p.Task, err = rowconv.Encode(n.Task); err != nil {
		return p, err
	}
	if p.Settings, err = rowconv.Encode(n.Settings); err != nil {
		return p, err
	}
	payload := spawnedPayload(n.Objective, n.Settings, 1, 0)
	payload["by"] = rowconv.Text(telemetry.Redact(n.By))
	p.Payload, err = rowconv.Encode(payload)
	return p, err
}

// title returns the first line of an objective.
func title(objective string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(objective), "\n")
	return rowconv.Text(fault.Clip(strings.TrimSpace(line), pipelineTitle))
}

// spawnedPayload is the payload of the event of a new pipeline; its id is added when it is known.
func spawnedPayload(objective string, settings contract.DeliberationSettings, attempt int, prior int64) map[string]any {
	payload := map[string]any{
		"objective": fault.Clip(telemetry.Redact(objective), pipelineSummary), "auto_continue": settings.AutoContinue, "mode": settings.Mode,
		"status": contract.PipelineSpawned, "attempt": attempt,
	}
	if prior != 0 {
		payload["prior_id"] = prior
	}
	return payload
}

// CreatePipeline stores a pipeline that a workflow starts, with its event: a recovery of another
// pipeline (Prior), or the pipeline of a run's planner (Execution). A repeat returns the existing
// pipeline. A recovery has the task of the previous pipeline, with a different time limit if one is
// specified; a planner's task is derived from the run's goal.
func (s *Store) CreatePipeline(ctx context.Context, n contract.NewPipeline) (Pipeline, error) {
	if n.Prior == 0 && (n.Execution == 0 || !n.ForRun) {
		return Pipeline{}, fault.New(contract.ClassRuntime, contract.CodeUnknown,
			"a pipeline started by a workflow must either recover another pipeline or plan a run; the pipeline for run %d does neither", n.RunID)
	}
	params, err := s.newPipeline(ctx, n)
	if err != nil {
		return Pipeline{}, err
	}
	q, batch := newBatch(s.pool)
	batch.queue(q.LockRun(ctx, n.RunID))
	row, err := q.CreatePipeline(ctx, params)
	id := row.ID
	again := errors.Is(err, pgx.ErrNoRows)
	if again {
		id, err = s.createdPipeline(ctx, n)
	}
	if err != nil {
		return Pipeline{}, dberr.OfRun(err, n.RunID, "create a pipeline of run %d", n.RunID)
	}
	if n.Prior != 0 && !again {
		telemetry.CountRecovery(priorAbort(n))
	}
	return s.Pipeline(ctx, id)
}

// priorAbort returns the reason why the pipeline that a new one recovers was aborted.
func priorAbort(n contract.NewPipeline) contract.AbortReason {
	if n.Inherited == nil {
		return ""
	}
	return n.Inherited.AbortReason
}

// createdPipeline finds the pipeline that the first of several calls created.
func (s *Store) createdPipeline(ctx context.Context, n contract.NewPipeline) (int64, error) {
	if n.Prior != 0 {
		return s.q.PipelineOfPrior(ctx, n.Prior)
	}
	return s.q.PipelineOfExecution(ctx, n.Execution)
}

func (s *Store) newPipeline(ctx context.Context, n contract.NewPipeline) (db.CreatePipelineParams, error) {
	objective, task, err := s.taskOf(ctx, n)
	if err != nil {
		return db.CreatePipelineParams{}, err
	}
	attempt := max(1, n.Attempt)
	p := db.CreatePipelineParams{
		RunID: n.RunID, ForRun: n.ForRun, Objective: rowconv.Text(objective), Mode: string(n.Settings.Mode),
		AutoContinue: n.Settings.AutoContinue, Attempt: int32(attempt), EventType: string(contract.EventPipelineSpawned),
	}
	if n.Execution != 0 {
		p.ExecutionID = &n.Execution
	}
	if n.Prior != 0 {
		p.PriorID = &n.Prior
	}
	if p.Task, err = rowconv.Encode(task); err != nil {
		return p, err
	}
	if p.Settings, err = rowconv.Encode(n.Settings); err != nil {
		return p, err
	}
	if n.Inherited != nil {
		if p.Inherited, err = rowconv.Encode(n.Inherited); err != nil {
			return p, err
		}
	}
	p.Payload, err = rowconv.Encode(spawnedPayload(objective, n.Settings, attempt, n.Prior))
	return p, err
}

// taskOf returns the task of a pipeline that a workflow starts.
func (s *Store) taskOf(ctx context.Context, n contract.NewPipeline) (string, contract.DeliberationTask, error) {
	if n.Prior != 0 { // the whole task; the workflow has only the beginnings of its texts
		prior, err := s.Pipeline(ctx, n.Prior)
		if err == nil && prior.RunID != n.RunID {
			err = dberr.NotFound("pipeline %d does not belong to run %d", n.Prior, n.RunID)
		}
		return prior.Objective, prior.Task, err
	}
	if n.Task.Objective != "" {
		return n.Task.Objective, n.Task, nil
	}
	run, err := s.q.AccountOfPipeline(ctx, n.RunID)
	if err != nil {
		return "", n.Task, dberr.OfRun(err, n.RunID, "read the goal of run %d", n.RunID)
	}
	settings, err := rowconv.Decode[contract.Settings](run.Settings)
	if err != nil {
		return "", n.Task, err
	}
	task := n.Task
	task.Objective = strings.TrimSpace(issue.GoalTitle(settings.Issue, run.GoalTitle) + "\n\n" + run.GoalDescription)
	if task.TaskID == "" {
		task.TaskID = contract.RunWorkflowID(run.ID)
	}
	return task.Objective, task, nil
}

// Pipeline returns a pipeline, its consensus with the whole text, or ErrNotFound.
func (s *Store) Pipeline(ctx context.Context, id int64) (Pipeline, error) {
	row, err := s.q.GetPipeline(ctx, id)
	if err != nil {
		return Pipeline{}, ofPipeline(err, id, "read pipeline %d", id)
	}
	p, err := pipelineOf(row)
	if err != nil || p.Consensus == nil {
		return p, err
	}
	return p, s.ResolvePipelineTexts(ctx, id, &p.Consensus.Value)
}

func ofPipeline(err error, id int64, format string, args ...any) error {
	return dberr.Or(err, dberr.NotFound("pipeline %d not found; see rgpt pipeline list", id), format, args...)
}

// PipelineFilter selects pipelines. Empty fields select all.
type PipelineFilter struct {
	Status []contract.PipelineStatus // any of them
	RunID  int64                     // those that plan this run
	Text   string                    // is part of the objective, ignoring case
	Abort  contract.AbortReason
	ForRun *bool     // whether the pipeline plans a run; nil: both
	Since  time.Time // created then or later
	Before Cursor    // pipelines after this one in the list; the zero value: from the newest on
	Limit  int       // default 50, at most 1000
}

// ListPipelines returns pipelines, newest first. For the next page, set PipelineFilter.Before to
// the Cursor of the last one.
func (s *Store) ListPipelines(ctx context.Context, f PipelineFilter) ([]Pipeline, error) {
	params := db.ListPipelinesParams{Text: rowconv.Optional(rowconv.Text(f.Text)), Most: rowconv.Limit(f.Limit, 50)}
	if len(f.Status) > 0 {
		params.Statuses = rowconv.Convert(f.Status, func(s contract.PipelineStatus) string { return string(s) })
	}
	if !f.Since.IsZero() {
		params.Since = &f.Since
	}
	params.Abort, params.ForRun = rowconv.Optional(string(f.Abort)), f.ForRun
	if f.RunID != 0 {
		planning := true // the row that accounts for pipelines is not a run
		params.RunID, params.ForRun = &f.RunID, &planning
	}
	if f.Before.ID != 0 {
		params.BeforeAt, params.BeforeID = &f.Before.CreatedAt, f.Before.ID
	}
	rows, err := s.lists.ListPipelines(ctx, params)
	if err != nil {
		return nil, dberr.Explain(err, "list pipelines")
	}
	return rowconv.ConvertAll(rows, pipelineOf)
}

func pipelineOf(row db.Pipeline) (Pipeline, error) {
	p := Pipeline{
		ID: row.ID, RunID: row.RunID, ForRun: row.ForRun, ExecutionID: rowconv.Deref(row.ExecutionID), Tenant: row.Tenant, Objective: row.Objective,
		Mode: contract.PipelineMode(row.Mode), AutoContinue: row.AutoContinue, Attempt: int(row.Attempt), RetryCount: int(row.Attempt) - 1,
		PriorID: rowconv.Deref(row.PriorID), RecoveredBy: rowconv.Deref(row.RecoveredBy), Status: contract.PipelineStatus(row.Status),
		Iteration: int(row.Iteration), WaitingFor: row.WaitingFor, AbortReason: contract.AbortReason(row.AbortReason), HandoffRef: row.HandoffRef,
		WorkflowID: row.WorkflowID, WorkflowRunID: row.WorkflowRunID,
		CreatedAt: row.CreatedAt, UpdatedAt: row.UpdatedAt, StartedAt: row.StartedAt, FinishedAt: row.FinishedAt,
	}
	for _, part := range []struct {
		doc  json.RawMessage
		into any
	}{
		{row.Task, &p.Task}, {row.Settings, &p.Settings}, {row.Members, &p.Members}, {row.Metrics, &p.Metrics}, {row.Inherited, &p.Inherited},
		{row.Consensus, &p.Consensus}, {row.Failure, &p.Failure}, {row.FailureContext, &p.FailureContext},
	} {
		if len(part.doc) == 0 {
			continue
		}
		if err := json.Unmarshal(part.doc, part.into); err != nil {
			return p, fault.Wrap(err, contract.ClassRuntime, contract.CodeUnknown, "cannot read a stored %T of pipeline %d", part.into, row.ID)
		}
	}
	p.Analysis = p.Metrics.Analysis()
	return p, nil
}

// UnstartedPipelines returns the oldest pipelines, at most limit, that were spawned longer than
// olderThan ago and whose workflow is not known to have started. It omits pipelines that other
// workflows start.
func (s *Store) UnstartedPipelines(ctx context.Context, olderThan time.Duration, limit int) ([]Pipeline, error) {
	ids, err := s.q.UnstartedPipelines(ctx, db.UnstartedPipelinesParams{OlderThanSeconds: olderThan.Seconds(), Most: int32(limit)})
	if err != nil {
		return nil, dberr.Explain(err, "find pipelines that have no workflow")
	}
	return rowconv.ConvertAll(ids, func(id int64) (Pipeline, error) { return s.Pipeline(ctx, id) })
}

// MarkPipelineStarted stores which workflow carries out a pipeline, so that the
// reconciler skips it. A repeat is harmless.
func (s *Store) MarkPipelineStarted(ctx context.Context, id int64, workflowID, workflowRunID string) error {
	n, err := s.q.MarkPipelineStarted(ctx, db.MarkPipelineStartedParams{WorkflowID: workflowID, WorkflowRunID: workflowRunID, ID: id})
	if err == nil && n == 0 {
		err = pgx.ErrNoRows
	}
	return ofPipeline(err, id, "mark pipeline %d as started", id)
}
