package workflows

import (
	"go.temporal.io/sdk/workflow"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/fault"
)

// recorder writes a workflow's records into the database, one after the other
// in the order in which they were asked for.
type recorder struct {
	runID int64
	seq   int64
	one   workflow.Mutex // the main coroutine and the handlers of commands both write
}

func newRecorder(ctx workflow.Context, runID int64) *recorder {
	return &recorder{runID: runID, one: workflow.NewMutex(ctx)}
}

// write writes a record.
func (r *recorder) write(ctx workflow.Context, rec contract.Record) error {
	_, err := r.writeFor(ctx, func() contract.Record { return rec })
	return err
}

// writeFor writes a record and returns the execution that it began, if any. The
// record is made when its turn has come, so that it shows the state as it is
// then and never an older one. A stop does not interrupt it: what happened is
// written. It goes on trying while the database is away: rows are late then,
// never lost.
func (r *recorder) writeFor(ctx workflow.Context, draft func() contract.Record) (contract.RecordResult, error) {
	ctx, done := workflow.NewDisconnectedContext(ctx)
	defer done()
	var result contract.RecordResult
	if err := r.one.Lock(ctx); err != nil {
		return result, err
	}
	defer r.one.Unlock()
	err := workflow.ExecuteLocalActivity(short(ctx), contract.ActivityRecord, r.number(ctx, draft())).Get(ctx, &result)
	return result, err
}

// writeBy lets an activity write a record beside its own work, which saves a
// hop. Where the activity fails it may have written the record or not: then the
// record is repeated, which is harmless, and returns the execution that it began.
func (r *recorder) writeBy(ctx workflow.Context, rec contract.Record, work func(contract.Record) (contract.ExecutionRef, error)) (contract.ExecutionRef, error) {
	last, done := workflow.NewDisconnectedContext(ctx)
	defer done()
	if err := r.one.Lock(last); err != nil {
		return contract.ExecutionRef{}, err
	}
	defer r.one.Unlock()
	rec = r.number(ctx, rec)
	execution, failed := work(rec)
	if failed == nil {
		return execution, nil
	}
	var result contract.RecordResult
	if err := workflow.ExecuteLocalActivity(short(last), contract.ActivityRecord, rec).Get(last, &result); err != nil {
		return contract.ExecutionRef{}, err
	}
	return result.Execution, failed
}

// number makes a record the next one of this workflow.
func (r *recorder) number(ctx workflow.Context, rec contract.Record) contract.Record {
	r.seq++
	rec.RunID, rec.Seq, rec.At = r.runID, r.seq, workflow.Now(ctx)
	rec.Task = int64(workflow.GetInfo(ctx).GetCurrentHistoryLength())
	return rec
}

// stoppedFirst handles a workflow that is stopped before it began its execution. A
// first task of it that died may have begun it, in rows that no history knows; so it
// begins it now, which comes to the same row, for its end to close.
func (r *recorder) stoppedFirst(ctx workflow.Context, begin contract.Record) (contract.ExecutionRef, *contract.Failure) {
	stopped := fault.Of(ctx.Err())
	began, err := r.writeFor(ctx, func() contract.Record { return begin })
	if err != nil {
		return contract.ExecutionRef{}, fault.Of(err)
	}
	return began.Execution, stopped
}

// happened is a record of one event.
func happened(kind contract.EventType, payload map[string]any) contract.Record {
	return contract.Record{Events: []contract.EventDraft{{Type: kind, Payload: payload}}}
}

// healEvent tells what became of a heal.
func healEvent(kind contract.EventType, d contract.Directive, result string) contract.EventDraft {
	return contract.EventDraft{Type: kind, Payload: map[string]any{
		"heal": d.Number, "heal_action": d.Action, "error_type": d.Class, "error_code": d.Code, "result": result,
	}}
}
