// Package records writes the progress of a run to its rows, in order.
package records

import (
	"go.temporal.io/sdk/workflow"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/fault"
	"github.com/rocketgpt/orchestrator/workflows/internal/options"
)

// Recorder writes a workflow's records to the database, one after the other, in the
// order in which they were requested.
type Recorder struct {
	runID int64
	as    string // the workflow id under which the records are numbered; empty: the workflow's own
	Seq   int64
	mu    workflow.Mutex // the main coroutine and the handlers of commands both write
}

// NewRecorder returns a recorder for the rows of one run.
func NewRecorder(ctx workflow.Context, runID int64) *Recorder {
	return &Recorder{runID: runID, mu: workflow.NewMutex(ctx)}
}

// NewPartRecorder returns a recorder for a part of a workflow that numbers its records by itself, as if it were
// the workflow with the given id. So it waits for no other part.
func NewPartRecorder(ctx workflow.Context, runID int64, workflowID string) *Recorder {
	r := NewRecorder(ctx, runID)
	r.as = workflowID
	return r
}

// Write writes a record.
func (r *Recorder) Write(ctx workflow.Context, rec contract.Record) error {
	_, err := r.WriteLatest(ctx, func() contract.Record { return rec })
	return err
}

// WriteLatest writes a record and returns the execution that it began, if any. The record is
// drafted when its turn comes, so that it shows the state at that time and never an older one. A
// stop does not interrupt the write. It is retried while the database is down: rows may be late but
// are never lost.
func (r *Recorder) WriteLatest(ctx workflow.Context, draft func() contract.Record) (contract.RecordResult, error) {
	ctx, done := workflow.NewDisconnectedContext(ctx)
	defer done()
	var result contract.RecordResult
	if err := r.mu.Lock(ctx); err != nil {
		return result, err
	}
	defer r.mu.Unlock()
	err := workflow.ExecuteLocalActivity(options.Local(ctx), contract.ActivityRecord, r.next(ctx, draft())).Get(ctx, &result)
	return result, err
}

// WriteWith lets an activity write a record in addition to its own work, which saves a hop. If the
// activity fails, it may or may not have written the record; so the record is written again, which
// is harmless and returns the execution that it began.
func (r *Recorder) WriteWith(ctx workflow.Context, rec contract.Record, work func(contract.Record) (contract.ExecutionRef, error)) (contract.ExecutionRef, error) {
	last, done := workflow.NewDisconnectedContext(ctx)
	defer done()
	if err := r.mu.Lock(last); err != nil {
		return contract.ExecutionRef{}, err
	}
	defer r.mu.Unlock()
	rec = r.next(ctx, rec)
	execution, failed := work(rec)
	if failed == nil {
		return execution, nil
	}
	var result contract.RecordResult
	if err := workflow.ExecuteLocalActivity(options.Local(last), contract.ActivityRecord, rec).Get(last, &result); err != nil {
		return contract.ExecutionRef{}, err
	}
	return result.Execution, failed
}

// next assigns the workflow's next number to a record.
func (r *Recorder) next(ctx workflow.Context, rec contract.Record) contract.Record {
	r.Seq++
	rec.RunID, rec.Workflow, rec.Seq, rec.At = r.runID, r.as, r.Seq, workflow.Now(ctx)
	rec.Task = int64(workflow.GetInfo(ctx).GetCurrentHistoryLength())
	return rec
}

// BeginStopped handles a workflow that was stopped before it began its execution. An earlier
// attempt at its first task may have begun it, in a row that no history contains. So BeginStopped
// begins it now, which finds that row, and the end can close it.
func (r *Recorder) BeginStopped(ctx workflow.Context, begin contract.Record) (contract.ExecutionRef, *contract.Failure) {
	stopped := fault.Of(ctx.Err())
	began, err := r.WriteLatest(ctx, func() contract.Record { return begin })
	if err != nil {
		return contract.ExecutionRef{}, fault.Of(err)
	}
	return began.Execution, stopped
}

// EventRecord returns a record of one event.
func EventRecord(kind contract.EventType, payload map[string]any) contract.Record {
	return contract.Record{Events: []contract.EventDraft{{Type: kind, Payload: payload}}}
}

// HealEvent returns the event for the result of a heal.
func HealEvent(kind contract.EventType, d contract.Directive, result string) contract.EventDraft {
	return contract.EventDraft{Type: kind, Payload: map[string]any{
		"heal": d.Number, "heal_action": d.Action, "error_type": d.Class, "error_code": d.Code, "result": result,
	}}
}
