package store

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"math"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/fault"
	"github.com/rocketgpt/orchestrator/internal/store/db"
	"github.com/rocketgpt/orchestrator/internal/store/internal/dberr"
	"github.com/rocketgpt/orchestrator/internal/store/internal/rowconv"
)

// DefaultTenant owns the runs of an installation without tenants.
const DefaultTenant = "local"

// NewRun is a run to be created.
type NewRun struct {
	Tenant          string // default: DefaultTenant
	Project         string
	GoalTitle       string
	GoalDescription string
	Settings        contract.Settings // the settings on which the workflow bases decisions; its repository is the run's
	MaxRetries      int
	Spec            any            // everything else resolved once for this run, as JSON; may be nil
	IdempotencyKey  string         // the same key returns the same run; empty: always a new one
	RequestDigest   string         // distinguishes a repeated request from another one with the same key
	GivenPlan       *contract.Plan // a plan as code; may be nil
	Labels          []string
	EarlierWork     any // what the run knows about the work that it continues, as JSON; only with Settings.FollowUp
}

// Run is a run from its row. Only Run and CreateRun set Spec.
type Run struct {
	ID              int64             `json:"runId"`
	Tenant          string            `json:"tenant"`
	Project         string            `json:"project"`
	GoalTitle       string            `json:"goal_title"`
	GoalDescription string            `json:"goal_description"`
	Repo            string            `json:"repo"`
	BaseCommit      string            `json:"base_commit"`
	BaseBranch      string            `json:"base_branch"`
	Labels          []string          `json:"labels"` // sorted
	Phase           contract.Phase    `json:"phase"`
	Status          contract.Status   `json:"status"`
	RetryCount      int               `json:"retry_count"`
	MaxRetries      int               `json:"max_retries"`
	LastHealAction  *string           `json:"last_heal_action"`
	QualityScore    *float64          `json:"quality_score"`
	WaitingFor      string            `json:"waiting_for,omitempty"`
	Failure         *contract.Failure `json:"failure,omitempty"`
	ReleaseBranch   string            `json:"release_branch,omitempty"`
	ReleaseCommit   string            `json:"release_commit,omitempty"`
	PlanID          int64             `json:"plan_id,omitempty"` // of the current plan
	Settings        contract.Settings `json:"settings"`
	Spec            json.RawMessage   `json:"spec,omitempty"`
	WorkflowID      string            `json:"workflow_id"`
	WorkflowRunID   string            `json:"workflow_run_id"`
	EventSeq        int64             `json:"event_seq"` // of the last event
	CreatedAt       time.Time         `json:"created_at"`
	UpdatedAt       time.Time         `json:"updated_at"`
	StartedAt       *time.Time        `json:"started_at"`
	FinishedAt      *time.Time        `json:"finished_at"`
	StayingUntil    *time.Time        `json:"staying_until,omitempty"`      // if the run watches its branch
	Environment     string            `json:"environment_digest,omitempty"` // of the environment of its base commit
	Baseline        string            `json:"baseline_key,omitempty"`       // of the baseline of its base commit
	SetupID         int64             `json:"setup_id,omitempty"`           // of the setup that created its environment, instead of its files
	FilesDeletedAt  *time.Time        `json:"files_deleted_at,omitempty"`   // when retention deleted its files: it can no longer be repeated
}

// Cursor returns the position of the run in lists.
func (r Run) Cursor() Cursor { return Cursor{CreatedAt: r.CreatedAt, ID: r.ID} }

// Cursor is a position in a list of runs, newest first.
type Cursor struct {
	CreatedAt time.Time `json:"created_at"`
	ID        int64     `json:"id"`
}

// Valid reports whether the cursor can be the position of a run.
func (c Cursor) Valid() bool { return c.ID > 0 && !c.CreatedAt.IsZero() }

// Filter selects runs. Empty fields select all.
type Filter struct {
	Tenant     string
	Status     []contract.Status // any of them
	Phase      contract.Phase
	Project    string
	ErrorClass contract.Class
	Labels     []string  // all of them
	Text       string    // is part of the goal's title or description, ignoring case
	Since      time.Time // created then or later
	Until      time.Time // created before
	Before     Cursor    // runs after this one in the list; the zero value: from the newest on
	Limit      int       // default 50, at most 1000
}

// CreateRun stores a new run with status pending, its event run.created as number 1, and the plan
// if one is given, all or nothing. If the tenant has already used the idempotency key, it returns
// that run and false, or a HUMAN_ERROR with CodeConflict if the request was different. A fork of a run
// whose files were deleted is a HUMAN_ERROR with CodeForbidden, and so is a run that continues a branch
// to which another one may still add commits.
func (s *Store) CreateRun(ctx context.Context, n NewRun) (Run, bool, error) {
	params, err := n.params()
	if err != nil {
		return Run{}, false, err
	}
	id, err := s.insertRun(ctx, n, params)
	if err == nil {
		run, err := s.Run(ctx, id)
		return run, true, err
	}
	if !errors.Is(err, pgx.ErrNoRows) {
		return Run{}, false, dberr.Explain(err, "create the run")
	}
	run, err := s.RunByKey(ctx, params.Tenant, n.IdempotencyKey, n.RequestDigest)
	if params.ForkOf != nil && errors.Is(err, ErrNotFound) {
		err = fault.New(contract.ClassHuman, contract.CodeForbidden,
			"run %d cannot be forked: its files have just been deleted by retention; start a new run", *params.ForkOf)
	}
	return run, false, err
}

// CreateRunIn stores a new run like CreateRun, as part of a transaction, and returns its id. If the
// idempotency key was used before, the error is pgx.ErrNoRows.
func (s *Store) CreateRunIn(ctx context.Context, tx pgx.Tx, n NewRun) (int64, error) {
	params, err := n.params()
	if err != nil {
		return 0, err
	}
	return createIn(ctx, db.New(tx), n, params)
}

// createIn stores a run and the pictures of its goal, as part of a transaction.
func createIn(ctx context.Context, q *db.Queries, n NewRun, params db.CreateRunParams) (int64, error) {
	row, err := q.CreateRun(ctx, params)
	if err != nil {
		return 0, err
	}
	return row.ID, addPictures(ctx, q, row.ID, n.Settings.Pictures)
}

// insertRun inserts a run and returns its id, or pgx.ErrNoRows, as the query CreateRun does.
func (s *Store) insertRun(ctx context.Context, n NewRun, params db.CreateRunParams) (id int64, err error) {
	f, pictures := n.Settings.FollowUp, n.Settings.Pictures
	if f == nil && len(pictures) == 0 {
		row, err := s.q.CreateRun(ctx, params)
		return row.ID, err
	}
	work, err := rowconv.Encode(n.EarlierWork)
	if err != nil {
		return 0, err
	}
	err = s.inTx(ctx, func(tx pgx.Tx) error {
		q := s.q.WithTx(tx)
		if f != nil {
			if err := claimBranch(ctx, q, params, f.Branch); err != nil {
				return err
			}
		}
		if id, err = createIn(ctx, q, n, params); err != nil || f == nil {
			return err
		}
		return q.AddFollowUp(ctx, db.AddFollowUpParams{RunID: id, OfRun: f.RunID, Repo: params.Repo, Branch: f.Branch, Work: work})
	})
	return id, err
}

// addPictures lists the pictures of a new run's goal among its files, so that retention keeps them.
func addPictures(ctx context.Context, q *db.Queries, run int64, pictures []contract.Picture) error {
	if len(pictures) == 0 {
		return nil
	}
	files := make([]contract.Artifact, len(pictures))
	for i, p := range pictures {
		files[i] = contract.Artifact{Name: p.ArtifactName(i), Type: contract.ArtifactFile, Size: p.Size, Digest: p.Digest}
	}
	doc, err := artifactRows(files)
	if err != nil {
		return err
	}
	_, err = q.AddArtifacts(ctx, db.AddArtifactsParams{RunID: run, Artifacts: doc, EventType: string(contract.EventArtifactAdded)})
	return err
}

// claimBranch waits until no other run is being created on a branch, and returns an error if one may
// still add commits to it. A repeated request is not one: CreateRun finds its run.
func claimBranch(ctx context.Context, q *db.Queries, params db.CreateRunParams, branch string) error {
	if branch == "" {
		return nil
	}
	if err := q.LockContinuedBranch(ctx, db.LockContinuedBranchParams{Branch: branch, Repo: params.Repo}); err != nil {
		return err
	}
	if params.IdempotencyKey != nil {
		_, err := q.RunByKey(ctx, db.RunByKeyParams{Tenant: params.Tenant, IdempotencyKey: *params.IdempotencyKey})
		if err == nil || !errors.Is(err, pgx.ErrNoRows) {
			return err
		}
	}
	open, err := q.OpenRunOnBranch(ctx, db.OpenRunOnBranchParams{Repo: params.Repo, Branch: branch})
	if err != nil || len(open) == 0 {
		return err
	}
	return fault.New(contract.ClassHuman, contract.CodeForbidden,
		"run %d (%s) is still working on the branch %s, and only one run at a time can add commits to it; wait for it (rgpt run watch %[1]d) or stop it (rgpt run stop %[1]d), then follow up again",
		open[0].ID, open[0].Status, branch)
}

// RunByKey returns the run that was created with an idempotency key, or ErrNotFound. If the request
// was different, the error is a HUMAN_ERROR with CodeConflict.
func (s *Store) RunByKey(ctx context.Context, tenant, key, digest string) (Run, error) {
	known, err := s.q.RunByKey(ctx, db.RunByKeyParams{Tenant: tenant, IdempotencyKey: key})
	if err != nil {
		return Run{}, dberr.Explain(err, "find the run for an idempotency key")
	}
	if known.RequestDigest != digest {
		return Run{}, fault.New(contract.ClassHuman, CodeConflict,
			"the idempotency key %q was already used for a different request, which created run %d; use a new key", key, known.ID)
	}
	return s.Run(ctx, known.ID)
}

func (n NewRun) params() (db.CreateRunParams, error) {
	p := db.CreateRunParams{
		Tenant: n.Tenant, Project: rowconv.Text(n.Project), GoalTitle: rowconv.Text(n.GoalTitle), GoalDescription: rowconv.Text(n.GoalDescription),
		Repo: rowconv.Text(n.Settings.Repo.URL), BaseCommit: n.Settings.Repo.Base, BaseBranch: n.Settings.Repo.Branch,
		MaxRetries: int32(n.MaxRetries), RequestDigest: n.RequestDigest, EventType: string(contract.EventRunCreated),
	}
	p.Tenant = cmp.Or(p.Tenant, DefaultTenant)
	if n.IdempotencyKey != "" {
		p.IdempotencyKey = &n.IdempotencyKey
	}
	p.Labels = rowconv.Convert(n.Labels, rowconv.Text)
	slices.Sort(p.Labels)
	p.Labels = NotNil(slices.Compact(p.Labels))
	if n.Settings.Fork != nil {
		p.ForkOf = &n.Settings.Fork.RunID
	}
	var err error
	if p.Settings, err = rowconv.Encode(n.Settings); err != nil {
		return p, err
	}
	if n.Spec != nil {
		if p.Spec, err = rowconv.Encode(n.Spec); err != nil {
			return p, err
		}
	}
	if n.GivenPlan != nil {
		if p.Plan, err = rowconv.Encode(n.GivenPlan); err != nil {
			return p, err
		}
		p.PlanAuthor = "given"
	}
	created := map[string]any{"status": contract.StatusPending, "tenant": p.Tenant, "project": p.Project, "goal_title": p.GoalTitle}
	if len(n.Labels) > 0 {
		created["labels"] = p.Labels
	}
	if n.Settings.CreatedBy != "" {
		created["by"] = rowconv.Text(n.Settings.CreatedBy)
	}
	p.Payload, err = rowconv.Encode(created)
	return p, err
}

// MarkStarted stores which workflow carries out a run, so that the reconciler skips it. A repeat is
// harmless. The first workflow run id counts until a record of another workflow run is applied.
func (s *Store) MarkStarted(ctx context.Context, runID int64, workflowID, workflowRunID string) error {
	n, err := s.q.MarkStarted(ctx, db.MarkStartedParams{WorkflowID: workflowID, WorkflowRunID: workflowRunID, RunID: runID})
	if err == nil && n == 0 {
		return dberr.NoRun(runID)
	}
	return dberr.Explain(err, "mark run %d as started", runID)
}

// waitsForTurn is the waiting_for value of a queued run.
const waitsForTurn = "turn"

// Enqueue makes a new run wait for its turn if the maximum number of runs are running, or earlier
// runs are waiting, and reports whether it waits. Runs that wait for people do not count as
// running. 0 means no limit.
func (s *Store) Enqueue(ctx context.Context, runID int64, most int) (queued bool, err error) {
	if most <= 0 {
		return false, nil
	}
	err = s.inTx(ctx, func(tx pgx.Tx) error {
		q := s.q.WithTx(tx)
		if err := q.LockQueue(ctx); err != nil {
			return err
		}
		n, err := q.QueueRun(ctx, db.QueueRunParams{RunID: runID, Most: int32(most), WaitingFor: waitsForTurn})
		queued = n > 0
		return err
	})
	return queued, dberr.Explain(err, "check whether run %d must wait in the queue", runID)
}

// Dequeue releases as many queued runs as the maximum allows, longest wait first, and returns them:
// the caller must start their workflows. 0 means no limit.
func (s *Store) Dequeue(ctx context.Context, most int) ([]int64, error) {
	if most <= 0 {
		most = math.MaxInt32
	}
	if queued, err := s.q.AnyQueued(ctx); err != nil || !queued { // the usual case
		return nil, dberr.Explain(err, "check whether any runs are waiting in the queue")
	}
	var ids []int64
	err := s.inTx(ctx, func(tx pgx.Tx) error {
		q := s.q.WithTx(tx)
		if err := q.LockQueue(ctx); err != nil {
			return err
		}
		var err error
		ids, err = q.UnqueueRuns(ctx, int32(most))
		return err
	})
	return ids, dberr.Explain(err, "find the next runs in the queue")
}

// PendingUnstarted returns the oldest runs, at most limit, that were created longer than olderThan
// ago, do not wait for their turn, and whose workflow is not known to have started.
func (s *Store) PendingUnstarted(ctx context.Context, olderThan time.Duration, limit int) ([]Run, error) {
	ids, err := s.q.PendingUnstarted(ctx, db.PendingUnstartedParams{OlderThanSeconds: olderThan.Seconds(), Most: int32(limit)})
	if err != nil {
		return nil, dberr.Explain(err, "find runs that have no workflow")
	}
	return rowconv.ConvertAll(ids, func(id int64) (Run, error) { return s.Run(ctx, id) })
}

// QuietRuns returns the runs after a run, at most limit of them by id, that have a workflow, have
// neither ended nor stopped watching their branch, and changed longer than quiet ago.
func (s *Store) QuietRuns(ctx context.Context, quiet time.Duration, after int64, limit int) ([]int64, error) {
	ids, err := s.q.QuietRuns(ctx, db.QuietRunsParams{QuietSeconds: quiet.Seconds(), After: after, Most: int32(limit)})
	return ids, dberr.Explain(err, "find unfinished runs")
}

// Run returns a run, or ErrNotFound.
func (s *Store) Run(ctx context.Context, id int64) (Run, error) {
	row, err := s.q.GetRun(ctx, id)
	if err != nil {
		return Run{}, dberr.OfRun(err, id, "read run %d", id)
	}
	return runOf(row)
}

// RunStatus returns the status of a run, or ErrNotFound. It is cheaper than Run.
func (s *Store) RunStatus(ctx context.Context, id int64) (contract.Status, error) {
	status, err := s.q.RunStatus(ctx, id)
	return contract.Status(status), dberr.OfRun(err, id, "read the status of run %d", id)
}

// ProjectOf names the project of a run, with its tenant: tenant/project. It returns ErrNotFound if there is
// no such run.
func (s *Store) ProjectOf(ctx context.Context, id int64) (string, error) {
	row, err := s.q.ProjectOf(ctx, id)
	return row.Tenant + "/" + row.Project, dberr.OfRun(err, id, "read the project of run %d", id)
}

// PendingInput is what people want of a run while an agent works.
type PendingInput struct {
	Steered  bool // it is paused, or was paused, continued or given another model
	Messages bool // they have written to the agent what it has not got yet
}

// PendingInputSince returns what people want of the run of an execution, and the conversation of the execution, like
// Transcript, in one round trip. Of commands, those after a time count. The conversation has all messages that are not
// pending because they were delivered.
func (s *Store) PendingInputSince(ctx context.Context, e contract.ExecutionRef, since time.Time) (PendingInput, []TranscriptEntry, error) {
	var input db.PendingInputSinceRow
	var rows []db.TranscriptRow
	err := readTogether(ctx, s.reads, // in this order: a message that is delivered in between must be in one of them
		func(q *db.Queries) (err error) {
			input, err = q.PendingInputSince(ctx, db.PendingInputSinceParams{ID: e.RunID, ExecutionID: e.ID, Step: rowconv.Text(e.Step), Since: since})
			return err
		},
		func(q *db.Queries) (err error) { rows, err = q.Transcript(ctx, e.ID); return err },
	)
	return PendingInput(input), rowconv.Convert(rows, transcriptEntry), dberr.OfRun(err, e.RunID, "read the commands given to run %d", e.RunID)
}

// ListRuns returns runs, newest first. For the next page, set Filter.Before to the Cursor of the
// last one; runs created in between do not matter.
func (s *Store) ListRuns(ctx context.Context, f Filter) ([]Run, error) {
	params := db.ListRunsParams{
		Tenant: rowconv.Optional(f.Tenant), Project: rowconv.Optional(f.Project), Phase: rowconv.Optional(string(f.Phase)), Statuses: rowconv.Convert(f.Status, func(s contract.Status) string { return string(s) }),
		ErrorClass: rowconv.Optional(string(f.ErrorClass)), Text: rowconv.Optional(rowconv.Text(f.Text)), Most: rowconv.Limit(f.Limit, 50),
	}
	if len(f.Status) == 0 {
		params.Statuses = nil
	}
	if len(f.Labels) > 0 {
		params.Labels = rowconv.Convert(f.Labels, rowconv.Text)
	}
	if !f.Since.IsZero() {
		params.Since = &f.Since
	}
	if !f.Until.IsZero() {
		params.Until = &f.Until
	}
	if f.Before.ID != 0 {
		params.BeforeAt, params.BeforeID = &f.Before.CreatedAt, f.Before.ID
	}
	rows, err := s.lists.ListRuns(ctx, params)
	if err != nil {
		return nil, dberr.Explain(err, "list runs")
	}
	return rowconv.ConvertAll(rows, func(r db.ListRunsRow) (Run, error) { return runOf(db.GetRunRow(r)) })
}

func runOf(row db.GetRunRow) (Run, error) {
	settings, err := rowconv.Decode[contract.Settings](row.Settings)
	return Run{
		ID: row.ID, Tenant: row.Tenant, Project: row.Project, GoalTitle: row.GoalTitle, GoalDescription: row.GoalDescription,
		Repo: row.Repo, BaseCommit: row.BaseCommit, BaseBranch: row.BaseBranch, Labels: row.Labels,
		Phase: contract.Phase(row.Phase), Status: contract.Status(row.Status),
		RetryCount: int(row.RetryCount), MaxRetries: int(row.MaxRetries), LastHealAction: row.LastHealAction,
		QualityScore: row.QualityScore, WaitingFor: row.WaitingFor,
		Failure:       rowconv.Failure(row.ErrorClass, row.ErrorCode, row.ErrorMessage, row.ErrorCause),
		ReleaseBranch: row.ReleaseBranch, ReleaseCommit: row.ReleaseCommit, Settings: settings, Spec: row.Spec, PlanID: rowconv.Deref(row.PlanID),
		WorkflowID: row.WorkflowID, WorkflowRunID: row.WorkflowRunID, EventSeq: row.EventSeq,
		CreatedAt: row.CreatedAt, UpdatedAt: row.UpdatedAt, StartedAt: row.StartedAt, FinishedAt: row.FinishedAt, StayingUntil: row.StayingUntil,
		Environment: row.Environment, Baseline: row.Baseline, SetupID: rowconv.Deref(row.SetupID), FilesDeletedAt: row.FilesDeletedAt,
	}, err
}

// SavePlan stores a plan and returns its id. It becomes the current plan when a record of the run's
// workflow selects it (RunChange.PlanID); until then it has no effect. Plans are never overwritten:
// a repeat for the same execution returns the existing one. A zero execution id means a plan edited
// by a person, stored as a new plan each time; author is that person.
func (s *Store) SavePlan(ctx context.Context, runID, executionID int64, author string, plan contract.Plan) (int64, error) {
	doc, err := rowconv.Encode(plan)
	if err != nil {
		return 0, err
	}
	params := db.SavePlanParams{RunID: runID, Author: rowconv.Text(author), Plan: doc}
	if executionID != 0 {
		params.ExecutionID = &executionID
	}
	id, err := s.q.SavePlan(ctx, params)
	return id, dberr.Explain(err, "store the plan of run %d", runID)
}

// TakeEdits reports whether an execution begins with the edits of a plan: only the first one that asks
// does, also if it asks again.
func (s *Store) TakeEdits(ctx context.Context, runID, planID, executionID int64) (bool, error) {
	rows, err := s.q.TakeEdits(ctx, db.TakeEditsParams{RunID: runID, ID: planID, ExecutionID: executionID})
	return rows > 0, dberr.Explain(err, "begin with the edits of plan %d of run %d", planID, runID)
}

// Plan returns the current plan of a run, or ErrNotFound.
func (s *Store) Plan(ctx context.Context, runID int64) (contract.Plan, error) {
	doc, err := s.q.PlanThatCounts(ctx, runID)
	if err != nil {
		return contract.Plan{}, dberr.Or(err, dberr.NotFound("run %d has no plan yet", runID), "read the plan of run %d", runID)
	}
	return rowconv.Decode[contract.Plan](doc)
}

// PlanByID returns a plan of a run, current or not, or ErrNotFound.
func (s *Store) PlanByID(ctx context.Context, runID, planID int64) (contract.Plan, error) {
	doc, err := s.q.PlanByID(ctx, db.PlanByIDParams{RunID: runID, ID: planID})
	if err != nil {
		return contract.Plan{}, dberr.Or(err, dberr.NotFound("run %d has no plan %d", runID, planID), "read plan %d of run %d", planID, runID)
	}
	return rowconv.Decode[contract.Plan](doc)
}
