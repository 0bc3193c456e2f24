package activities

import (
	"context"
	"fmt"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/fault"
	"github.com/rocketgpt/orchestrator/internal/prompt"
)

// OpenStep brings together what a step starts from and opens its conversation.
func (a *Activities) OpenStep(ctx context.Context, in contract.OpenStepInput) (contract.OpenStepResult, error) {
	if in.Quick && !a.Workspaces.Cached(in.Workspace.Repo, in.Workspace.Base) {
		return contract.OpenStepResult{Cold: true}, nil
	}
	start, _, conflict, err := a.Workspaces.Fold(ctx, in.Workspace, in.Needs)
	if err != nil || conflict != nil {
		return contract.OpenStepResult{Conflict: conflict}, err
	}
	p, err := a.stepPrompt(ctx, in.Execution, start)
	if err != nil {
		return contract.OpenStepResult{}, err
	}
	return contract.OpenStepResult{Workspace: start, Prompt: p.Version}, a.open(ctx, in.Execution, p)
}

func (a *Activities) stepPrompt(ctx context.Context, execution contract.ExecutionRef, start contract.Workspace) (prompt.Prompt, error) {
	run, err := a.Store.Run(ctx, execution.RunID)
	if err != nil {
		return prompt.Prompt{}, err
	}
	plan, err := a.Store.Plan(ctx, execution.RunID)
	if err != nil {
		return prompt.Prompt{}, err
	}
	step, ok := plan.Step(execution.Step)
	if !ok {
		return prompt.Prompt{}, fault.New(contract.ClassLogic, contract.CodeInvalidPlan, "the plan of run %d has no step %s any more", execution.RunID, execution.Step)
	}
	files, err := a.listing(ctx, start)
	if err != nil {
		return prompt.Prompt{}, err
	}
	return prompt.Builder(prompt.BuilderTask{
		GoalTitle: run.GoalTitle, GoalDescription: run.GoalDescription, PlanSummary: plan.Summary, Step: step, Files: files,
	})
}

// Integrate brings the changes of all steps together, in plan order.
func (a *Activities) Integrate(ctx context.Context, in contract.IntegrateInput) (contract.IntegrateResult, error) {
	final, stages, conflict, err := a.Workspaces.Fold(ctx, in.Workspace, in.Changes)
	if err != nil || conflict != nil {
		return contract.IntegrateResult{Conflict: conflict}, err
	}
	out := contract.IntegrateResult{Workspace: final}
	for _, s := range stages {
		out.Stages = append(out.Stages, s.Slim())
	}
	return out, nil
}

// CleanUp removes a run's working directories on this host.
func (a *Activities) CleanUp(ctx context.Context, runID int64) error {
	return a.Workspaces.CleanUp(ctx, fmt.Sprint(runID))
}
