package store

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"time"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/fault"
	"github.com/rocketgpt/orchestrator/internal/store/db"
	"github.com/rocketgpt/orchestrator/internal/store/internal/dberr"
	"github.com/rocketgpt/orchestrator/internal/store/internal/rowconv"
	"github.com/rocketgpt/orchestrator/internal/telemetry"
)

// PipelineRecord applies one step of a pipeline, in one transaction and one round trip:
// its row, the blackboard, messages, votes, errors, the report and the events, numbered
// with all events of the run that it belongs to. (workflow id, workflow run id, Seq)
// makes it idempotent: a repeat changes nothing.
//
// A terminal status never changes: a record with another status is applied without it. The row that
// accounts for pipelines follows the newest of them. The workflow limits how many errors are
// recorded (100): the rows match its history exactly.
func (s *Store) PipelineRecord(ctx context.Context, from Source, r contract.PipelineRecord) error {
	params, err := pipelineParams(from, r)
	if err != nil {
		return err
	}
	q, batch := newBatch(s.pool)
	batch.queue(q.LockRun(ctx, r.RunID))
	row, err := q.PipelineRecord(ctx, params)
	if err != nil {
		return dberr.Or(err, dberr.NotFound("run %d has no pipeline %d", r.RunID, r.PipelineID), "record pipeline %d", r.PipelineID)
	}
	countPipeline(r, params.At, row)
	return nil
}

// ClosePipeline ends a pipeline whose workflow will not record its end: from is its workflow run,
// or NeverStarted. Earlier records are kept. A pipeline that has ended does not change, and a
// repeat changes nothing.
func (s *Store) ClosePipeline(ctx context.Context, from Source, p Pipeline, status contract.PipelineStatus, failure contract.Failure) error {
	if p.Status.Terminal() {
		return nil
	}
	return s.PipelineRecord(ctx, from, contract.PipelineRecord{
		PipelineID: p.ID, RunID: p.RunID, ForRun: p.ForRun, Seq: lastPipelineRecord,
		Change: &contract.PipelineChange{Status: status, Iteration: p.Iteration, Members: p.Members, Metrics: p.Metrics, Failure: &failure, Finished: true},
		Events: []contract.EventDraft{{Type: contract.EventPipelineUpdated, Payload: map[string]any{"status": status, "failure": failure}}},
	})
}

// lastPipelineRecord is the number of the record that closes a pipeline in place of its workflow:
// anything the workflow sends after it counts as late.
const lastPipelineRecord = math.MaxInt64

// NeverStarted replaces the run id in a pipeline's row if its workflow never started.
const NeverStarted = "never started"

// countPipeline updates the metrics for a record that is applied for the first time: repeats and
// records after the end do not count.
func countPipeline(r contract.PipelineRecord, at time.Time, row db.PipelineRecordRow) {
	if !row.Fresh {
		return
	}
	for _, m := range r.Messages {
		telemetry.CountMessage(m)
	}
	for _, e := range r.Errors {
		telemetry.CountPipelineError(e)
	}
	if !row.Changed {
		return
	}
	c := r.Change
	telemetry.CountRefused(c.Metrics.Refused - int(row.WasRefused))
	if c.Metrics.GammaSpawned && !row.HadGamma {
		telemetry.CountGamma(c.Metrics.GammaReason)
	}
	if c.Finished && row.WasOpen {
		telemetry.EndedPipeline(c.Status, c.AbortReason, at.Sub(row.Began), c.Iteration)
	}
}

func pipelineParams(from Source, r contract.PipelineRecord) (db.PipelineRecordParams, error) {
	p := db.PipelineRecordParams{
		PipelineID: r.PipelineID, RunID: r.RunID, ForRun: r.ForRun, WorkflowID: from.WorkflowID, WorkflowRunID: from.WorkflowRunID, Seq: r.Seq, At: r.At,
		Members: json.RawMessage("[]"), Metrics: json.RawMessage("{}"),
	}
	if from.WorkflowID == "" || from.WorkflowRunID == "" || r.Seq < 1 {
		return p, fault.New(contract.ClassRuntime, contract.CodeUnknown,
			"a record for pipeline %d requires a workflow ID, a workflow run ID and a number of at least 1; got %q, %q and %d", r.PipelineID, from.WorkflowID, from.WorkflowRunID, r.Seq)
	}
	if p.At.IsZero() {
		p.At = time.Now()
	}
	if err := changeParams(&p, r.Change); err != nil {
		return p, err
	}
	for _, part := range []struct {
		into *json.RawMessage
		v    any
	}{
		{&p.Entries, newest(r.Entries, func(e contract.Entry) string { return fmt.Sprint(e.Section, "/", e.Key, "/", e.Version) })},
		{&p.Messages, NotNil(r.Messages)},
		{&p.Votes, newest(r.Votes, func(v contract.Vote) string { return fmt.Sprint(v.Key, "/", v.Version, "/", v.Voter) })},
		{&p.Errors, NotNil(r.Errors)},
		{&p.Events, NotNil(r.Events)},
	} {
		var err error
		if *part.into, err = rowconv.Encode(part.v); err != nil {
			return p, err
		}
	}
	return p, nil
}

// newest keeps the last element with each key, in the original order.
func newest[T any](list []T, key func(T) string) []T {
	last := make(map[string]int, len(list))
	for i, v := range list {
		last[key(v)] = i
	}
	out := make([]T, 0, len(last))
	for i, v := range list {
		if last[key(v)] == i {
			out = append(out, v)
		}
	}
	return out
}

func changeParams(p *db.PipelineRecordParams, c *contract.PipelineChange) error {
	if c == nil {
		return nil
	}
	p.SetChange, p.Status, p.Iteration, p.WaitingFor = true, string(c.Status), int32(c.Iteration), rowconv.Text(c.WaitingFor)
	p.AbortReason, p.HandoffRef, p.RecoveredBy, p.Finished = string(c.AbortReason), rowconv.Text(c.HandoffRef), c.RecoveredBy, c.Finished
	p.CarrierStatus = string(carrierStatus(*c))
	var err error
	if p.Members, err = rowconv.Encode(NotNil(c.Members)); err != nil {
		return err
	}
	if p.Metrics, err = rowconv.Encode(c.Metrics); err != nil {
		return err
	}
	if p.Report, err = rowconv.EncodeSome(c.Report); err != nil {
		return err
	}
	if p.FailureContext, err = rowconv.EncodeSome(c.FailureCtx); err != nil {
		return err
	}
	if p.Settings, err = rowconv.EncodeSome(c.Settings); err != nil {
		return err
	}
	if p.Consensus, err = rowconv.EncodeSome(c.Consensus); err != nil {
		return err
	}
	p.Failure, err = rowconv.EncodeSome(c.Failure)
	return err
}

// carrierStatus returns the status of the row that accounts for a pipeline.
func carrierStatus(c contract.PipelineChange) contract.Status {
	switch c.Status {
	case contract.PipelineSpawned:
		return contract.StatusPending
	case contract.PipelineRunning, contract.PipelineReport, contract.PipelineOrchestrating:
		if c.WaitingFor != "" {
			return contract.StatusWaitingForApproval
		}
		return contract.PhasePlanner.Running()
	case contract.PipelineCompleted:
		return contract.StatusDone
	case contract.PipelineStopped:
		return contract.StatusCancelled
	case contract.PipelineFailed, contract.PipelineTimeout, contract.PipelineOrchestrationFailed:
	}
	return contract.StatusFailed
}
