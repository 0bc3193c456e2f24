package store

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/fault"
	"github.com/rocketgpt/orchestrator/internal/store/db"
	"github.com/rocketgpt/orchestrator/internal/store/internal/dberr"
	"github.com/rocketgpt/orchestrator/internal/store/internal/rowconv"
	"github.com/rocketgpt/orchestrator/internal/telemetry"
)

// Source is the workflow execution that sends records, or a part of it with an id of its own, such as a
// step. Each numbers its records from 1. A workflow that was
// reset continues its previous numbering under a new workflow run id.
type Source struct {
	WorkflowID    string
	WorkflowRunID string
}

// Record applies one transition of a run, in one transaction and usually one round trip: the run's row, the
// execution that begins or ends with its phase, the approval in the notes, and the events.
// (workflow id, workflow run id, Seq) makes it idempotent: a repeat changes nothing and returns the
// first result. Records of one run are applied one after the other.
//
// A late record does not change the run. A record is late if its number is lower than that of an
// earlier record of its workflow, or if another workflow run has replaced its own. So a status
// never reverts, and a terminal status changes only for a workflow run that was not seen before, as
// after a reset, or if the run's own workflow reports that it watches its branch.
//
// A record is in the rows before it is in a history. If its workflow task dies in between, the
// history lacks the record, and the task is repeated: usually the same records follow. If a
// different record follows under the same number (as its signature or the history of the task
// shows), that one counts and is applied in full. If the lost record is sent later under another
// number, it adds no second event and begins nothing twice. Records from a worker whose task has
// been repeated are refused. An execution that a lost record began and that never ends is closed
// with the run.
//
// An execution that ends gets the totals of its model calls; calls that are still open then are
// abandoned and their reservations released.
func (s *Store) Record(ctx context.Context, from Source, r contract.Record) (contract.RecordResult, error) {
	result, _, err := s.record(ctx, from, r, isUsual(r))
	return result, err
}

// record is Record. If the record looks usual, it tries RecordUsual first, and reports whether that applied it. A record
// that RecordUsual declines costs one more round trip.
func (s *Store) record(ctx context.Context, from Source, r contract.Record, usual bool) (result contract.RecordResult, applied bool, err error) {
	params, err := recordParams(from, r)
	if err != nil {
		return contract.RecordResult{}, false, err
	}
	if usual {
		row, err := s.q.RecordUsual(ctx, usualParams(params))
		if !errors.Is(err, pgx.ErrNoRows) {
			if err != nil {
				return contract.RecordResult{}, false, dberr.OfRun(err, r.RunID, "record run %d", r.RunID)
			}
			count(r, db.RecordRow{Fresh: true, RunSet: params.SetRun, EndedPhase: row.EndedPhase, EndedSeconds: row.EndedSeconds})
			result, err = rowconv.Decode[contract.RecordResult](row.Result)
			return result, true, err
		}
	}
	result, err = s.recordInFull(ctx, from, r, params)
	return result, false, err
}

// isUsual reports whether RecordUsual can apply a record as far as its content shows: nearly all records only change a
// run, which may end, begin or end an execution, and have events.
func isUsual(r contract.Record) bool {
	stays := r.Run != nil && (r.Run.Staying || r.Run.StayingUntil != nil)
	return !stays && r.Notes["id"] == "" && len(r.Heals) == 0 && len(r.Interventions) == 0
}

// recordInFull applies a record whatever it is: it locks the run, and finds out whether the record is a repeat, late or
// overtaken, and which records it makes obsolete.
func (s *Store) recordInFull(ctx context.Context, from Source, r contract.Record, params db.RecordParams) (contract.RecordResult, error) {
	q, batch := newBatch(s.pool)
	batch.queue(q.LockRun(ctx, r.RunID), q.ForgetRecords(ctx, db.ForgetRecordsParams{
		WorkflowID: from.WorkflowID, WorkflowRunID: from.WorkflowRunID, Seq: r.Seq, RunID: r.RunID, Signature: params.Signature, Task: r.Task,
	}))
	row, err := q.Record(ctx, params)
	if errors.Is(err, pgx.ErrNoRows) && r.End != nil {
		return contract.RecordResult{}, dberr.NotFound("run %d has no open execution %d", r.RunID, r.End.ExecutionID)
	}
	if err != nil {
		return contract.RecordResult{}, dberr.OfRun(err, r.RunID, "record run %d", r.RunID)
	}
	if row.Overtaken {
		return contract.RecordResult{}, fault.New(contract.ClassInfra, contract.CodeWorkerLost,
			"record %d of workflow %s belongs to a workflow task that another worker has taken over; the record was not applied", r.Seq, from.WorkflowID)
	}
	if row.OpenCalls > 0 { // also for a repeat: the first attempt may have died here
		if err := s.giveUpCalls(ctx, r.End.ExecutionID); err != nil {
			return contract.RecordResult{}, err
		}
	}
	for _, execution := range row.Unneeded {
		if err := s.giveUpCalls(ctx, execution); err != nil {
			return contract.RecordResult{}, err
		}
	}
	count(r, row)
	return rowconv.Decode[contract.RecordResult](row.Result)
}

// count updates the metrics for a record. Only here is it known which records are new: repeats and
// late records do not count.
func count(r contract.Record, row db.RecordRow) {
	if !row.Fresh {
		return
	}
	if row.RunSet && endsRun(r) {
		telemetry.CountRun(r.Run.Status)
	}
	if row.EndedPhase != "" {
		telemetry.ObservePhase(contract.Phase(row.EndedPhase), r.End.Status, time.Duration(row.EndedSeconds*float64(time.Second)))
	}
	for _, h := range r.Heals {
		if h.Status == contract.HealSuccess || h.Status == contract.HealFailed {
			telemetry.CountHeal(h)
		}
	}
}

// endsRun reports whether a record ends its run. A run that watches its branch ends
// with its release, whatever comes later.
func endsRun(rec contract.Record) bool {
	if rec.Run == nil || !rec.Run.Finished {
		return false
	}
	return !rec.Run.Staying || slices.ContainsFunc(rec.Events, func(e contract.EventDraft) bool { return e.Type == contract.EventStayStarted })
}

func recordParams(from Source, r contract.Record) (db.RecordParams, error) {
	p := db.RecordParams{WorkflowID: from.WorkflowID, WorkflowRunID: from.WorkflowRunID, Seq: r.Seq, RunID: r.RunID, At: r.At}
	if from.WorkflowID == "" || from.WorkflowRunID == "" || r.Seq < 1 {
		return p, fault.New(contract.ClassRuntime, contract.CodeUnknown,
			"a record for run %d requires a workflow ID, a workflow run ID and a number of at least 1; got %q, %q and %d", r.RunID, from.WorkflowID, from.WorkflowRunID, r.Seq)
	}
	p.Signature, p.Task = rowconv.Text(signature(r)), r.Task
	if p.At.IsZero() {
		p.At = time.Now()
	}
	if c := r.Run; c != nil {
		p.SetRun, p.Phase, p.Status, p.RetryCount = true, string(c.Phase), string(c.Status), int32(c.RetryCount)
		p.Staying, p.StayingUntil = c.Staying, c.StayingUntil
		p.LastHealAction, p.WaitingFor = rowconv.Text(c.LastHealAction), rowconv.Text(c.WaitingFor)
		p.Branch, p.Commit, p.Finished, p.PlanID = rowconv.Text(c.Branch), c.Commit, c.Finished, c.PlanID
		p.ErrorClass, p.ErrorCode, p.ErrorMessage, p.ErrorCause = failureColumns(c.Failure)
	}
	if b := r.Begin; b != nil {
		p.BeginPhase, p.BeginStep, p.BeginAgent = string(b.Phase), rowconv.Text(b.Step), string(b.Agent)
		p.BeginProvider, p.BeginModel = b.Model.Provider, b.Model.Model
	}
	if e := r.End; e != nil {
		p.EndExecution, p.EndStatus = e.ExecutionID, string(e.Status)
		p.EndClass, p.EndCode, p.EndMessage, p.EndCause = failureColumns(e.Failure)
		var err error
		if p.EndOutput, err = rowconv.Document(e.Output); err != nil {
			return p, err
		}
	}
	if err := approvalParams(&p, r.Notes); err != nil {
		return p, err
	}
	p.EndEvents = int32(r.EndEvents)
	var err error
	if p.Heals, err = rowconv.Encode(NotNil(r.Heals)); err != nil {
		return p, err
	}
	if p.Interventions, err = rowconv.Encode(NotNil(r.Interventions)); err != nil {
		return p, err
	}
	p.Events, err = rowconv.Encode(NotNil(r.Events))
	return p, err
}

// usualParams are the parameters that a usual record has.
func usualParams(p db.RecordParams) db.RecordUsualParams {
	return db.RecordUsualParams{
		WorkflowID: p.WorkflowID, WorkflowRunID: p.WorkflowRunID, Seq: p.Seq, Signature: p.Signature, Task: p.Task, RunID: p.RunID, At: p.At,
		BeginPhase: p.BeginPhase, BeginStep: p.BeginStep, BeginAgent: p.BeginAgent, BeginProvider: p.BeginProvider, BeginModel: p.BeginModel,
		EndExecution: p.EndExecution, EndStatus: p.EndStatus, EndClass: p.EndClass, EndCode: p.EndCode, EndMessage: p.EndMessage,
		EndCause: p.EndCause, EndOutput: p.EndOutput, Events: p.Events,
		SetRun: p.SetRun, PlanID: p.PlanID, Phase: p.Phase, Status: p.Status, RetryCount: p.RetryCount, LastHealAction: p.LastHealAction,
		WaitingFor: p.WaitingFor, ErrorClass: p.ErrorClass, ErrorCode: p.ErrorCode, ErrorMessage: p.ErrorMessage, ErrorCause: p.ErrorCause,
		Branch: p.Branch, Commit: p.Commit, Finishes: p.Finished,
	}
}

// NotNil returns an empty list for nil, so that JSON has [] and not null.
func NotNil[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}

// approvalParams reads the notes: id, kind, status, by, reason, subject, deadline, verdict.
func approvalParams(p *db.RecordParams, notes map[string]string) error {
	if notes["id"] == "" {
		return nil
	}
	p.ApprovalID, p.ApprovalKind, p.ApprovalStatus = rowconv.Text(notes["id"]), notes["kind"], notes["status"]
	p.ApprovalBy, p.ApprovalReason, p.ApprovalSubject = rowconv.Text(notes["by"]), rowconv.Text(notes["reason"]), notes["subject"]
	p.ApprovalStatus = cmp.Or(p.ApprovalStatus, "pending")
	if id := notes["verdict"]; id != "" {
		var err error
		if p.ApprovalVerdict, err = strconv.ParseInt(id, 10, 64); err != nil {
			return fault.Wrap(err, contract.ClassRuntime, contract.CodeUnknown, "approval %s names an invalid verdict", p.ApprovalID)
		}
	}
	if notes["deadline"] != "" {
		deadline, err := time.Parse(time.RFC3339Nano, notes["deadline"])
		if err != nil {
			return fault.Wrap(err, contract.ClassRuntime, contract.CodeUnknown, "approval %s has an invalid deadline", p.ApprovalID)
		}
		p.ApprovalDeadline = &deadline
	}
	return nil
}

func failureColumns(f *contract.Failure) (class, code, message, cause string) {
	if f == nil {
		return "", "", "", ""
	}
	return string(f.Class), string(f.Code), rowconv.Text(f.Message), rowconv.Text(f.Cause)
}
