// Package rerun repeats finished runs from a given phase, or from the point where they ended, by
// resetting their workflow. Work that was finished before that point is kept and not paid for
// again.
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
	"github.com/rocketgpt/orchestrator/internal/store/followups"
	"github.com/rocketgpt/orchestrator/internal/store/retain"
	"github.com/rocketgpt/orchestrator/internal/store/verdicts"
)

// Request defines the work to repeat, and its changed settings.
type Request struct {
	RunID       int64
	Phase       contract.Phase // empty: the one in which the run ended
	Step        string         // builder only: repeat this step and its dependents; empty: the whole phase
	OnlyMissing bool           // builder only: keep all completed steps
	Model       *contract.ModelChoice
	By          string
	Reason      string
	Key         string // idempotency key: requests with the same key cause only one replay
}

// Result describes the started replay.
type Result struct {
	RunID         int64          `json:"runId"`
	Phase         contract.Phase `json:"phase"`
	Step          string         `json:"step,omitempty"`
	Kept          []string       `json:"kept_steps,omitempty"` // whose work is kept
	WorkflowRunID string         `json:"workflow_run_id"`
	Started       bool           `json:"begun"` // a worker has begun it
}

// Temporal is the connection to the workflows of runs.
type Temporal struct {
	client.Client
	Namespace string
	Converter converter.DataConverter // converter of the client, required to read histories
}

// Replay repeats a run from a given phase. It rejects, with a HUMAN_ERROR that states the reason, a
// run that is still running, a phase that the run never reached, and a run whose history Temporal
// has deleted.
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
		return Result{}, forbidden("run %d is watching its branch until %s; to replay it before then, stop it first: rgpt run stop %d",
			run.ID, run.StayingUntil.UTC().Format(time.RFC3339), run.ID)
	}
	if err := retain.Repeatable(run); err != nil {
		return Result{}, err
	}
	if err := notContinued(ctx, st, run); err != nil {
		return Result{}, err
	}
	o.Phase = cmp.Or(o.Phase, run.Phase)
	if !o.Phase.Valid() {
		return Result{}, forbidden("the phase %q is invalid; must be one of %v", o.Phase, contract.Phases())
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
		// Signals and updates from people were meant for the previous attempt.
		ResetReapplyExcludeTypes: []enumspb.ResetReapplyExcludeType{
			enumspb.RESET_REAPPLY_EXCLUDE_TYPE_SIGNAL, enumspb.RESET_REAPPLY_EXCLUDE_TYPE_UPDATE,
		},
	})
	if err != nil {
		err = fault.Wrap(err, fault.Of(err).Class, fault.Of(err).Code, "cannot reset run %d to the start of its %s", o.RunID, o.Phase)
		if !refused(err) {
			return Result{}, err // the reset may have succeeded: then the order is needed
		}
		return Result{}, errors.Join(err, st.DropReplay(context.WithoutCancel(ctx), id))
	}
	out := Result{RunID: o.RunID, Phase: o.Phase, Step: o.Step, WorkflowRunID: reset.GetRunId(), Kept: keptSteps(order)}
	out.Started, err = awaitStart(ctx, st, o.RunID, out.WorkflowRunID)
	return out, err
}

// notContinued returns an error if another run has added commits to the branch of a run, or is about to:
// a replay could not release to it.
func notContinued(ctx context.Context, st *store.Store, run store.Run) error {
	all, err := followups.Of(ctx, st, run)
	for _, f := range all.FollowUps {
		if f.Commit != "" || !f.Status.Terminal() {
			return forbidden("run %d cannot be replayed, because run %d has continued its branch %s, and a replay would release to it; "+
				"replay run %[2]d, or start a new run from a step: rgpt run fork %[1]d", run.ID, f.RunID, run.ReleaseBranch)
		}
	}
	return err
}

// requestID lets Temporal recognize a repeated request for a reset, because the first requester may
// have died.
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

// knownResult returns the result of an earlier replay with the same key, if it took place: then the
// run's workflow differs from the one to be reset. Otherwise the requester died before the reset.
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

// refused reports whether Temporal rejected a reset, as opposed to not responding.
func refused(err error) bool {
	var gone *serviceerror.NotFound
	var invalid *serviceerror.InvalidArgument
	var early *serviceerror.FailedPrecondition
	return errors.As(err, &gone) || errors.As(err, &invalid) || errors.As(err, &early)
}

const (
	// takeTime is the maximum wait for a worker to start a replay. The replay continues even after
	// this time.
	takeTime = 10 * time.Second
	takePoll = 10 * time.Millisecond
	// closeTime is the maximum wait for a finished run to clean up before it can be replayed.
	closeTime = 30 * time.Second
)

// awaitStart waits until the workflow of a replay has written its first record, so that subsequent
// reads of the run do not show the end of the previous attempt.
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

// specOf returns the specification of the phase to repeat.
func specOf(ctx context.Context, st *store.Store, run store.Run, o Request) (contract.ReplaySpec, error) {
	order := contract.ReplaySpec{Step: o.Step, Model: o.Model, By: o.By, Reason: o.Reason}
	var err error
	if order.Kept, err = keep(ctx, st, run, o); err != nil {
		return order, err
	}
	if order.Authors, err = verdicts.Authors(ctx, st, run); err != nil {
		return order, err
	}
	heals, err := st.Heals(ctx, o.RunID)
	last := map[int]contract.HealStatus{} // by number; a replay reuses the numbers after its starting point
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

// point is the position in a run's history to reset to.
type point struct {
	newest      string // current workflow run
	workflowRun string // workflow run to reset: the newest, or one from which it continued as new
	event       int64  // event of the workflow task to repeat
}

// resetPoint finds the workflow task in which the run's last execution of a phase started. The
// history up to it is kept, and the rest is repeated.
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
			p.event = found.first // the run ended during the preparation, before the planner
			return p, nil
		}
		return point{}, forbidden("run %d never reached its %s; replay an earlier phase: %v", o.RunID, o.Phase, contract.Phases())
	}
}

// landmarks are the events of a history that a reset needs; 0 means none.
type landmarks struct {
	first         int64  // first completed workflow task
	began         int64  // workflow task in which the phase last started
	continuedFrom string // previous workflow run
}

// searchHistory searches one history of a run for the start of a phase.
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

// closed waits for the end of a workflow, which follows shortly after the end of its run. The
// result does not matter.
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
	return fault.Wrap(err, fault.Of(err).Class, fault.Of(err).Code, "cannot read the history of run %d", o.RunID)
}

// began returns the phase whose execution started with an event, if any: the result of a record is
// in the marker of its local activity.
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

// changes returns the last results of the completed steps of a run's plan. The Repair agent's
// result for a failed step replaces the step's own. Results for an earlier plan are excluded. A
// fork starts with the results kept from its original run.
func changes(ctx context.Context, st *store.Store, run store.Run) (map[string]contract.StepOutput, error) {
	executions, err := st.Executions(ctx, run.ID)
	if err != nil {
		return nil, err
	}
	heals, err := st.Heals(ctx, run.ID)
	if err != nil {
		return nil, err
	}
	repaired := map[int64][]contract.StepOutput{} // by failed execution
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
