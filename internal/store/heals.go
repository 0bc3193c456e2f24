package store

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/fault"
	"github.com/rocketgpt/orchestrator/internal/store/db"
	"github.com/rocketgpt/orchestrator/internal/store/internal/dberr"
	"github.com/rocketgpt/orchestrator/internal/store/internal/rowconv"
)

// HealEvent records how self-heal handled a failure.
type HealEvent struct {
	ID          int64               `json:"id"`
	RunID       int64               `json:"runId"`
	Number      int                 `json:"number"` // within the run, from 1; a replay continues the numbering from its starting point
	Phase       contract.Phase      `json:"phase"`
	Step        string              `json:"step,omitempty"`
	ExecutionID int64               `json:"execution_id,omitempty"` // the failed execution
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

// Output returns the heal's result from its row; empty if it cannot be read.
func (h HealEvent) Output() contract.HealOutput {
	var out contract.HealOutput
	_ = json.Unmarshal(h.HealOutput, &out) // Record encoded it from the same type
	return out
}

// Heals returns the heals of a run in the order in which they began.
func (s *Store) Heals(ctx context.Context, runID int64) ([]HealEvent, error) {
	rows, err := s.q.SelfHealEvents(ctx, runID)
	return rowconv.Convert(rows, healOf), dberr.Explain(err, "read the self-heal events of run %d", runID)
}

// Heal returns a heal of a run, or ErrNotFound.
func (s *Store) Heal(ctx context.Context, runID, id int64) (HealEvent, error) {
	r, err := s.q.HealOfRun(ctx, db.HealOfRunParams{ID: id, RunID: runID})
	return healOf(r), dberr.Explain(err, "read heal %d of run %d", id, runID)
}

func healOf(h db.SelfHealEvent) HealEvent {
	return HealEvent{
		ID: h.ID, RunID: h.RunID, Number: int(h.Number), Phase: contract.Phase(h.Phase), Step: h.Step, ExecutionID: h.ExecutionID,
		ErrorType: contract.Class(h.ErrorType), ErrorCode: contract.Code(h.ErrorCode), RootCause: h.RootCause,
		HealAction: contract.HealAction(h.HealAction), AskedBy: h.AskedBy, Status: contract.HealStatus(h.Status),
		HealOutput: h.HealOutput, CreatedAt: h.CreatedAt, FinishedAt: h.FinishedAt,
	}
}

// AddReplay stores the changes with which a phase of a run is replayed, and returns the replay's
// id. The next execution of the phase uses it. Each ended workflow run can be replayed once: if
// several callers try concurrently, one succeeds and the others are refused. ReplayByKey finds the
// replay by its key, which may be empty.
func (s *Store) AddReplay(ctx context.Context, runID int64, workflowRunID string, phase contract.Phase, o contract.ReplaySpec, key string) (int64, error) {
	doc, err := rowconv.Encode(o)
	if err != nil {
		return 0, err
	}
	q, batch := newBatch(s.pool)
	batch.queue(q.LockRun(ctx, runID))
	id, err := q.AddReplay(ctx, db.AddReplayParams{RunID: runID, WorkflowRunID: workflowRunID, Phase: string(phase), ReplayOrder: doc, Request: rowconv.Optional(key)})
	busy := fault.New(contract.ClassHuman, contract.CodeForbidden,
		"another replay of run %d is in progress or has just finished; see rgpt run watch %d, or try again in a minute", runID, runID)
	return id, dberr.Or(err, busy, "store the replay of run %d", runID)
}

// KeyedReplay is a replay that was requested under a key.
type KeyedReplay struct {
	ID              int64
	Phase           contract.Phase
	Spec            contract.ReplaySpec
	FromWorkflowRun string // that was to be reset
}

// ReplayByKey returns the replay of a run that was requested under a key, or
// ErrNotFound. The run's workflow knows whether it happened.
func (s *Store) ReplayByKey(ctx context.Context, runID int64, key string) (KeyedReplay, error) {
	row, err := s.q.ReplayByRequest(ctx, db.ReplayByRequestParams{RunID: runID, Request: key})
	if err != nil {
		return KeyedReplay{}, dberr.Explain(err, "find the replay for an idempotency key")
	}
	order, err := rowconv.Decode[contract.ReplaySpec](row.ReplayOrder)
	return KeyedReplay{ID: row.ID, Phase: contract.Phase(row.Phase), Spec: order, FromWorkflowRun: row.FromWorkflowRun}, err
}

// RunTimeFrom returns the time from which a run's time limit counts: its creation or its last
// replay.
func (s *Store) RunTimeFrom(ctx context.Context, runID int64) (time.Time, error) {
	at, err := s.q.RunTimeFrom(ctx, runID)
	return at, dberr.Explain(err, "read the start time of run %d", runID)
}

// DropReplay removes a replay that never began.
func (s *Store) DropReplay(ctx context.Context, id int64) error {
	return dberr.Explain(s.q.DropReplay(ctx, id), "remove replay %d", id)
}

// TakeReplay returns the replay that started an execution of a phase, or nil if none did. A replay
// belongs to the first execution that takes it; a repeat for the same execution returns the same
// replay.
func (s *Store) TakeReplay(ctx context.Context, e contract.ExecutionRef) (*contract.ReplaySpec, error) {
	doc, err := s.q.TakeReplay(ctx, db.TakeReplayParams{RunID: e.RunID, Phase: string(e.Phase), ExecutionID: e.ID})
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, dberr.Explain(err, "find a replay of run %d", e.RunID)
	}
	o, err := rowconv.Decode[contract.ReplaySpec](doc)
	return &o, err
}
