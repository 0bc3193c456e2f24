// Package rerun repeats finished runs: from a phase on, or from where they ended, by a
// reset of their workflow. What was finished before that point stays and is not paid
// for again.
package rerun

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/google/uuid"
	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
	sdktemporal "go.temporal.io/sdk/temporal"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/fault"
	"github.com/rocketgpt/orchestrator/internal/store"
)

// Request is what to repeat, and what is different this time.
type Request struct {
	RunID       int64
	Phase       contract.Phase // empty: the one in which the run ended
	Step        string         // of the builder: this step and what depends on it; empty: the whole phase
	OnlyMissing bool           // of the builder: keep every step that was completed
	Model       *contract.ModelChoice
	By          string
	Reason      string
	Key         string // idempotency key: the same key is one replay, however often it is used
}

// Result is what was started.
type Result struct {
	RunID         int64          `json:"runId"`
	Phase         contract.Phase `json:"phase"`
	Step          string         `json:"step,omitempty"`
	Kept          []string       `json:"kept_steps,omitempty"` // whose work is kept
	WorkflowRunID string         `json:"workflow_run_id"`
	Started       bool           `json:"begun"` // a worker has begun it
}

// Temporal is where the workflows of runs are.
type Temporal struct {
	client.Client
	Namespace string
	Converter converter.DataConverter // of the client: only it can read histories
}

// Replay repeats a run from a phase on. It refuses, with a reason and as a HUMAN_ERROR,
// a run that is still running, a phase that the run never reached, and a run whose
// history Temporal has deleted.
func Replay(ctx context.Context, temporal Temporal, st *store.Store, o Request) (Result, error) {
	run, err := st.Run(ctx, o.RunID)
	if err != nil {
		return Result{}, err
	}
	if o.Key != "" {
		if out, known, err := knownResult(ctx, temporal, st, o); known || err != nil {
			return out, err
		}
	}
	if !run.Status.Terminal() {
		return Result{}, forbidden("run %d is %s and cannot be replayed while it is in progress; stop it first: rgpt run stop %d", run.ID, run.Status, run.ID)
	}
	if run.StayingUntil != nil {
		return Result{}, forbidden("run %d stays with its branch until %s and cannot be replayed while it does; stop it first: rgpt run stop %d",
			run.ID, run.StayingUntil.UTC().Format(time.RFC3339), run.ID)
	}
	o.Phase = cmp.Or(o.Phase, run.Phase)
	if !o.Phase.Valid() {
		return Result{}, forbidden("%q is not a phase; must be one of %v", o.Phase, contract.Phases())
	}
	at, err := resetPoint(ctx, temporal, o)
	if err != nil {
		return Result{}, err
	}
	order, err := specOf(ctx, st, run, o)
	if err != nil {
		return Result{}, err
	}
	id, err := st.AddReplay(ctx, o.RunID, at.newest, o.Phase, order, o.Key)
	if err != nil {
		return Result{}, err
	}
	reset, err := temporal.ResetWorkflowExecution(ctx, &workflowservice.ResetWorkflowExecutionRequest{
		Namespace:                 temporal.Namespace,
		WorkflowExecution:         &commonpb.WorkflowExecution{WorkflowId: contract.RunWorkflowID(o.RunID), RunId: at.workflowRun},
		Reason:                    fmt.Sprintf("replay of the %s by %s", o.Phase, o.By),
		WorkflowTaskFinishEventId: at.event,
		RequestId:                 requestID(o),
		// Directives that people gave then were meant for that attempt.
		ResetReapplyExcludeTypes: []enumspb.ResetReapplyExcludeType{
			enumspb.RESET_REAPPLY_EXCLUDE_TYPE_SIGNAL, enumspb.RESET_REAPPLY_EXCLUDE_TYPE_UPDATE,
		},
	})
	if err != nil {
		err = fault.Wrap(err, fault.Of(err).Class, fault.Of(err).Code, "run %d could not be reset to the start of its %s", o.RunID, o.Phase)
		if !refused(err) {
			return Result{}, err // it may have been reset: then the order is needed
		}
		return Result{}, errors.Join(err, st.DropReplay(context.WithoutCancel(ctx), id))
	}
	out := Result{RunID: o.RunID, Phase: o.Phase, Step: o.Step, WorkflowRunID: reset.GetRunId(), Kept: keptSteps(order)}
	out.Started, err = awaitStart(ctx, st, o.RunID, out.WorkflowRunID)
	return out, err
}

// requestID lets Temporal recognize a reset that is requested again, because the first
// requester may have died.
func requestID(o Request) string {
	if o.Key == "" {
		return uuid.NewString()
	}
	return uuid.NewSHA1(uuid.NameSpaceOID, fmt.Appendf(nil, "rgpt replay of run %d: %s", o.RunID, o.Key)).String()
}

func keptSteps(o contract.ReplaySpec) (steps []string) {
	for _, c := range o.Kept {
		steps = append(steps, c.Step)
	}
	return steps
}

// knownResult answers a replay whose key was used before, if it happened: then the run's
// workflow is another one than it was to reset. If not, the requester died in between,
// and nothing was done yet.
func knownResult(ctx context.Context, temporal Temporal, st *store.Store, o Request) (Result, bool, error) {
	known, err := st.ReplayByKey(ctx, o.RunID, o.Key)
	if errors.Is(err, store.ErrNotFound) {
		return Result{}, false, nil
	}
	if err != nil {
		return Result{}, false, err
	}
	described, err := temporal.DescribeWorkflowExecution(ctx, contract.RunWorkflowID(o.RunID), "")
	if err != nil {
		return Result{}, false, unreadable(err, o)
	}
	now := described.GetWorkflowExecutionInfo().GetExecution().GetRunId()
	if now == known.FromWorkflowRun {
		return Result{}, false, st.DropReplay(ctx, known.ID)
	}
	out := Result{RunID: o.RunID, Phase: known.Phase, Step: known.Spec.Step, WorkflowRunID: now, Kept: keptSteps(known.Spec)}
	out.Started, err = awaitStart(ctx, st, o.RunID, now)
	return out, true, err
}

// refused reports whether Temporal has refused a reset, as opposed to not answering.
func refused(err error) bool {
	var gone *serviceerror.NotFound
	var invalid *serviceerror.InvalidArgument
	var early *serviceerror.FailedPrecondition
	return errors.As(err, &gone) || errors.As(err, &invalid) || errors.As(err, &early)
}

const (
	// takeTime is how long a replay waits for a worker to begin it. It continues even if
	// nobody waits.
	takeTime = 10 * time.Second
	takePoll = 10 * time.Millisecond
	// closeTime is how long a finished run may take to clean up before it can be replayed.
	closeTime = 30 * time.Second
)

// awaitStart waits until the workflow of a replay has written its first record, so that the
// next reader of the run does not see the end of the attempt before.
func awaitStart(ctx context.Context, st *store.Store, runID int64, workflowRun string) (bool, error) {
	tick := time.NewTicker(takePoll)
	defer tick.Stop()
	late := time.NewTimer(takeTime)
	defer late.Stop()
	for {
		run, err := st.Run(ctx, runID)
		if err != nil || run.WorkflowRunID == workflowRun {
			return err == nil, err
		}
		select {
		case <-ctx.Done():
			return false, ctx.Err()
		case <-late.C:
			return false, nil
		case <-tick.C:
		}
	}
}

// specOf returns the order for the phase that is repeated.
func specOf(ctx context.Context, st *store.Store, run store.Run, o Request) (contract.ReplaySpec, error) {
	order := contract.ReplaySpec{Step: o.Step, Model: o.Model, By: o.By, Reason: o.Reason}
	var err error
	if order.Kept, err = keep(ctx, st, run, o); err != nil {
		return order, err
	}
	heals, err := st.Heals(ctx, o.RunID)
	last := map[int]contract.HealStatus{} // of each number; a replay continues the numbers from where it began
	for _, h := range heals {
		last[h.Number] = h.Status
	}
	for _, number := range slices.Sorted(maps.Keys(last)) {
		if last[number] == contract.HealApplied {
			order.Open = append(order.Open, number)
		}
	}
	return order, err
}

func forbidden(format string, args ...any) error {
	return fault.New(contract.ClassHuman, contract.CodeForbidden, format, args...)
}

// point is where a run's history is reset.
type point struct {
	newest      string // workflow run of the run now
	workflowRun string // that is reset: the newest, or one that it continued as new from
	event       int64  // of the workflow task that is repeated
}

// resetPoint finds the workflow task in which the run's last execution of a phase
// began: history up to there stays, what follows is repeated.
func resetPoint(ctx context.Context, temporal Temporal, o Request) (point, error) {
	id := contract.RunWorkflowID(o.RunID)
	described, err := temporal.DescribeWorkflowExecution(ctx, id, "")
	if err != nil {
		return point{}, unreadable(err, o)
	}
	p := point{newest: described.GetWorkflowExecutionInfo().GetExecution().GetRunId()}
	if err := closed(ctx, temporal, id, p.newest); err != nil {
		return point{}, forbidden("run %d has ended but its workflow is still running: it is already being replayed, or is cleaning up; try again in a moment", o.RunID)
	}
	for p.workflowRun = p.newest; ; {
		found, err := searchHistory(ctx, temporal, p.workflowRun, o)
		switch {
		case err != nil:
			return point{}, unreadable(err, o)
		case found.began != 0:
			p.event = found.began
			return p, nil
		case found.continuedFrom != "":
			p.workflowRun = found.continuedFrom
			continue
		case o.Phase == contract.PhasePlanner && found.first != 0:
			p.event = found.first // it ended during the preparation, which comes before the planner
			return p, nil
		}
		return point{}, forbidden("run %d never reached its %s; replay an earlier phase: %v", o.RunID, o.Phase, contract.Phases())
	}
}

// landmarks are the events of a history that a reset looks for; 0 stands for none.
type landmarks struct {
	first         int64  // workflow task that was completed
	began         int64  // workflow task in which the phase began last
	continuedFrom string // workflow run before this one
}

// searchHistory looks for the start of a phase in one history of a run.
func searchHistory(ctx context.Context, temporal Temporal, workflowRun string, o Request) (out landmarks, err error) {
	history := temporal.GetWorkflowHistory(ctx, contract.RunWorkflowID(o.RunID), workflowRun, false, enumspb.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
	for history.HasNext() {
		e, err := history.Next()
		if err != nil {
			return out, err
		}
		if started := e.GetWorkflowExecutionStartedEventAttributes(); started.GetInitiator() == enumspb.CONTINUE_AS_NEW_INITIATOR_WORKFLOW {
			out.continuedFrom = started.GetContinuedExecutionRunId()
		}
		if out.first == 0 && e.GetEventType() == enumspb.EVENT_TYPE_WORKFLOW_TASK_COMPLETED {
			out.first = e.GetEventId()
		}
		if began(e, temporal.Converter) == o.Phase {
			out.began = e.GetMarkerRecordedEventAttributes().GetWorkflowTaskCompletedEventId()
		}
	}
	return out, nil
}

// closed waits for the end of a workflow, which comes shortly after that of its run.
// How it ended does not matter.
func closed(ctx context.Context, temporal Temporal, id, workflowRun string) error {
	ctx, cancel := context.WithTimeout(ctx, closeTime)
	defer cancel()
	err := temporal.GetWorkflow(ctx, id, workflowRun).Get(ctx, nil)
	var ended *sdktemporal.WorkflowExecutionError
	if errors.As(err, &ended) {
		return nil
	}
	return err
}

func unreadable(err error, o Request) error {
	var gone *serviceerror.NotFound
	if errors.As(err, &gone) {
		return forbidden("Temporal no longer has the history of run %d, so the run cannot be replayed; start a new run", o.RunID)
	}
	return fault.Wrap(err, fault.Of(err).Class, fault.Of(err).Code, "the history of run %d could not be read", o.RunID)
}

// began returns the phase whose execution began with an event, if any: the answer to a
// record is in the marker of its local activity.
func began(e *historypb.HistoryEvent, from converter.DataConverter) contract.Phase {
	marker := e.GetMarkerRecordedEventAttributes()
	for _, payload := range marker.GetDetails()["result"].GetPayloads() {
		var result contract.RecordResult
		if from.FromPayload(payload, &result) == nil && result.Execution.ID > 0 && result.Execution.Step == "" {
			return result.Execution.Phase
		}
	}
	return ""
}

// changes returns what the completed steps of a run's plan did, the last result of
// each. What the Repair agent made of a failed step replaces that step's. Work for an
// earlier plan does not count. A fork begins with what it kept from the run before.
func changes(ctx context.Context, st *store.Store, run store.Run) (map[string]contract.StepOutput, error) {
	executions, err := st.Executions(ctx, run.ID)
	if err != nil {
		return nil, err
	}
	heals, err := st.Heals(ctx, run.ID)
	if err != nil {
		return nil, err
	}
	repaired := map[int64][]contract.StepOutput{} // by the execution that had failed
	for _, h := range heals {
		if c := h.Output().Change; c != nil {
			repaired[h.ExecutionID] = append(repaired[h.ExecutionID], *c)
		}
	}
	done := map[string]contract.StepOutput{}
	for _, e := range executions {
		var c contract.StepOutput
		switch {
		case e.Phase == contract.PhasePlanner && e.Step == "" && e.Status == contract.ExecutionCompleted:
			clear(done)
			carryOver(done, run)
		case e.Phase != contract.PhaseBuilder || e.Step == "":
		case e.Status == contract.ExecutionCompleted && json.Unmarshal(e.Output, &c) == nil && c.Step != "":
			done[e.Step] = c
		default: // a later attempt failed
			delete(done, e.Step)
		}
		for _, c := range repaired[e.ID] {
			done[c.Step] = c
		}
	}
	return done, nil
}

// keep returns the changes of the builder's steps that are not repeated.
func keep(ctx context.Context, st *store.Store, run store.Run, o Request) ([]contract.StepOutput, error) {
	if o.Phase != contract.PhaseBuilder || o.Step == "" && !o.OnlyMissing {
		return nil, nil
	}
	plan, err := st.Plan(ctx, o.RunID)
	if err != nil {
		return nil, err
	}
	if _, ok := plan.Step(o.Step); !ok && o.Step != "" {
		return nil, forbidden("the plan of run %d has no step %s", o.RunID, o.Step)
	}
	done, err := changes(ctx, st, run)
	if err != nil {
		return nil, err
	}
	var kept []contract.StepOutput
	for _, id := range plan.Order() {
		c, ok := done[id]
		again := id == o.Step || o.Step != "" && slices.Contains(plan.Requires(id), o.Step)
		if ok && !again {
			kept = append(kept, c)
		}
	}
	return kept, nil
}
