package run

import (
	"go.temporal.io/sdk/workflow"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/fault"
	"github.com/rocketgpt/orchestrator/workflows/agentloop"
	"github.com/rocketgpt/orchestrator/workflows/internal/options"
	"github.com/rocketgpt/orchestrator/workflows/internal/records"
)

// carryOutStep carries out a step of the plan: as a part of this workflow as long as its history has room, and
// as a child workflow from then on. The input has the directives of the given revision.
func (r *run) carryOutStep(ctx workflow.Context, in contract.StepInput, revision int64) (contract.StepResult, error) {
	if r.in.Logic < contract.LogicSteps || workflow.GetInfo(ctx).GetContinueAsNewSuggested() {
		result, _, err := r.carryOutApart(ctx, in, revision)
		return result, err
	}
	loop := agentloop.New(ctx, in, r.rowsOf(ctx, in.Step), contract.QueueBuilder)
	if revision != r.Revision {
		loop.Apply(r.instructionsFor(contract.AgentBuilder))
	}
	r.loops[in.Step] = loop
	delete(r.Apart, in.Step)
	result, more, err := loop.Run(ctx)
	delete(r.loops, in.Step)
	if !more {
		return result, err
	}
	result, started, err := r.carryOutApart(ctx, loop.Rest(), r.Revision)
	if !started {
		return loop.End(ctx, fault.Of(err))
	}
	return result, err
}

// rowsOf returns the recorder of a step. Its attempts in this workflow count their records together.
func (r *run) rowsOf(ctx workflow.Context, step string) *records.Recorder {
	if r.stepRows[step] == nil {
		r.stepRows[step] = records.NewPartRecorder(ctx, r.in.RunID, contract.StepWorkflowID(r.in.RunID, step))
	}
	return r.stepRows[step]
}

// carryOutApart carries out a step as a child workflow, and reports whether that has started. When it has, it gets
// the directives that the run got in the meantime; later ones are sent immediately.
func (r *run) carryOutApart(ctx workflow.Context, in contract.StepInput, revision int64) (result contract.StepResult, started bool, err error) {
	child := workflow.ExecuteChildWorkflow(options.Child(ctx, contract.StepWorkflowID(r.in.RunID, in.Step), contract.QueueBuilder), contract.WorkflowStep, in)
	if started = child.GetChildWorkflowExecution().Get(ctx, nil) == nil; started {
		if r.Apart == nil {
			r.Apart = map[string]bool{}
		}
		r.Apart[in.Step], r.reachable[in.Step] = true, true
		if r.Revision != revision {
			r.notifyStep(ctx, in.Step)
		}
	}
	err = child.Get(ctx, &result)
	delete(r.reachable, in.Step)
	return result, started, err
}
