package run

import (
	"go.temporal.io/sdk/workflow"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/fault"
	"github.com/rocketgpt/orchestrator/workflows/deliberation"
	"github.com/rocketgpt/orchestrator/workflows/internal/options"
)

// planTogether gets the run's plan from a deliberation, if that was requested or the planner finds
// the goal too complex to plan alone. The consensus is kept: a later attempt makes another plan
// from it without paying for another deliberation.
func (r *run) planTogether(ctx workflow.Context, execution contract.ExecutionRef) (contract.PlanResult, error) {
	if r.Transcript != nil {
		return r.askPlanner(ctx, execution)
	}
	if r.Consensus == nil && r.in.Settings.PlanBy != contract.PlanByDeliberation {
		alone, err := r.askPlanner(ctx, execution)
		if over := r.in.Settings.Deliberation.GammaComplexityOver; err != nil || over <= 0 || alone.Plan.ComplexityScore <= over {
			return alone, err
		}
		r.Usage = r.Usage.Add(alone.Usage)
	}
	if r.Consensus == nil {
		if err := r.deliberate(ctx, execution); err != nil {
			return contract.PlanResult{}, err
		}
	}
	if err := r.keepTranscript(ctx, execution); err != nil {
		return contract.PlanResult{}, err
	}
	if failure := r.awaitUnpaused(ctx); failure != nil { // a paused run calls no model
		return contract.PlanResult{}, fault.Restore(*failure)
	}
	if r.Transcript.PlanID != 0 {
		return contract.PlanResult{ID: r.Transcript.PlanID, Plan: r.Transcript.Plan}, nil
	}
	return r.askPlanner(ctx, execution)
}

// deliberate lets ALPHA and BETA agree on how to reach the run's goal. A stop of the run ends the
// deliberation; a pause lets work in progress finish.
func (r *run) deliberate(ctx workflow.Context, execution contract.ExecutionRef) error {
	settings := r.deliberationSettings()
	r.knownMemberModels = settings.Models
	result, err := deliberation.RunChild(ctx, contract.NewPipeline{RunID: r.in.RunID, ForRun: true, Execution: execution.ID, Attempt: 1, Settings: settings}, deliberation.Hooks{
		StoppedBy: func() *contract.PipelineCommand { return r.controls.stopper },
		Created:   func(contract.DeliberationInput) {},
		Starting: func(child workflow.ChildWorkflowFuture) {
			r.deliberation = child
			r.syncDeliberationModels(ctx) // switched while its row was being created
		},
	})
	r.Usage = r.Usage.Add(result.Usage)
	switch {
	case err != nil:
		return err
	case ctx.Err() != nil:
		return ctx.Err()
	case !result.Consensus:
		return noConsensus(result)
	}
	r.Consensus = &result
	return nil
}

// deliberationSettings returns the settings of a deliberation about the plan: the run's settings,
// with the current models of the members, and with what the members are to learn from failed attempts.
func (r *run) deliberationSettings() contract.DeliberationSettings {
	s := *r.in.Settings.Deliberation
	s.Models = r.memberModels()
	of := r.lessonsOf(contract.PhasePlanner, "")
	s.Lessons, s.Input = contract.Lessons{Heals: of.Heals, Compact: of.Compact}, r.Input // the rest is for the planner alone
	return s
}

// syncDeliberationModels sends the deliberation that is planning the run the models
// that its members must use, if they differ from those it was last sent.
func (r *run) syncDeliberationModels(ctx workflow.Context) {
	if r.deliberation == nil || r.deliberation.IsReady() || deliberation.SameModels(r.knownMemberModels, r.memberModels()) {
		return
	}
	r.knownMemberModels = r.memberModels()
	deliberation.SwitchModels(ctx, r.deliberation, contract.PipelineCommand{Order: r.Revision, By: contract.RunWorkflowID(r.in.RunID), Models: r.memberModels(), Passed: true})
}

// keepTranscript saves the transcript as artifacts of the run, and finds out whether the consensus
// is already a plan.
func (r *run) keepTranscript(ctx workflow.Context, execution contract.ExecutionRef) error {
	var minutes contract.SaveTranscriptResult
	err := workflow.ExecuteActivity(options.Persistent(ctx), contract.ActivitySaveTranscript, contract.SaveTranscriptInput{
		RunID: r.in.RunID, Execution: execution, Result: *r.Consensus,
	}).Get(ctx, &minutes)
	if err == nil {
		r.Transcript = &minutes
	}
	return err
}

// noConsensus returns the failure of a planner whose deliberation failed. A deliberation that a
// person, a budget or a machine ended is not the plan's fault, and no heal retries one that a
// person stopped.
func noConsensus(result contract.DeliberationResult) error {
	if f := result.Failure; f != nil && (result.Status == contract.PipelineStopped || result.Status == contract.PipelineFailed || f.Class == contract.ClassHuman) {
		return fault.Restore(*f)
	}
	why := contract.ReasonNoConsensus
	if result.AbortReason != "" {
		why = string(result.AbortReason)
	}
	return fault.New(contract.ClassLogic, contract.CodeNoConsensus,
		"the deliberation about the plan reached no consensus in %d attempts (%s; the last is pipeline %d); see rgpt pipeline status %d",
		result.Attempts, why, result.PipelineID, result.PipelineID)
}

// pipelineID returns the pipeline whose deliberation produced the plan, 0 if there was none.
func (r *run) pipelineID() int64 {
	if r.Consensus == nil {
		return 0
	}
	return r.Consensus.PipelineID
}
