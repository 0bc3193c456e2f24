package activities

import (
	"context"
	"errors"
	"fmt"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/fault"
	"github.com/rocketgpt/orchestrator/internal/prompt"
)

// OpenStep writes that a step begins, brings together what it starts from and
// opens its conversation. A repeat finds the execution that has begun.
func (a *Activities) OpenStep(ctx context.Context, in contract.OpenStepInput) (contract.OpenStepResult, error) {
	begun, err := a.Record(ctx, in.Record)
	if err != nil {
		return contract.OpenStepResult{}, err
	}
	out := contract.OpenStepResult{Execution: begun.Execution}
	if in.Quick && !a.Workspaces.Cached(in.Workspace.Repo, in.Workspace.Base) {
		out.Cold = true
		return out, nil
	}
	if out.Workspace, _, out.Conflict, err = a.Workspaces.Fold(ctx, in.Workspace, in.Needs); err != nil || out.Conflict != nil {
		return out, err
	}
	p, err := a.stepPrompt(ctx, out.Execution, in.PlanID, out.Workspace)
	if err != nil {
		return contract.OpenStepResult{}, err
	}
	out.Prompt = p.Version
	return out, a.open(ctx, out.Execution, p)
}

func (a *Activities) stepPrompt(ctx context.Context, execution contract.ExecutionRef, planID int64, start contract.Workspace) (prompt.Prompt, error) {
	run, err := a.Store.Run(ctx, execution.RunID)
	if err != nil {
		return prompt.Prompt{}, err
	}
	plan, err := a.Store.PlanByID(ctx, execution.RunID, planID)
	if err != nil {
		return prompt.Prompt{}, err
	}
	step, ok := plan.Step(execution.Step)
	if !ok {
		return prompt.Prompt{}, fault.New(contract.ClassLogic, contract.CodeInvalidPlan, "plan %d of run %d has no step %s", planID, execution.RunID, execution.Step)
	}
	files, err := a.Workspaces.Files(ctx, start)
	if err != nil {
		return prompt.Prompt{}, err
	}
	return prompt.Builder(prompt.BuilderTask{
		GoalTitle: run.GoalTitle, GoalDescription: run.GoalDescription, PlanSummary: plan.Summary, Step: step, Files: listing(files),
	})
}

// Integrate brings the changes of all steps together, in plan order.
func (a *Activities) Integrate(ctx context.Context, in contract.IntegrateInput) (contract.IntegrateResult, error) {
	if in.Quick && !a.Workspaces.Cached(in.Workspace.Repo, in.Workspace.Base) {
		return contract.IntegrateResult{Cold: true}, nil
	}
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

// CleanUp removes a run's working directories and build caches on this host.
func (a *Activities) CleanUp(ctx context.Context, runID int64) error {
	return errors.Join(a.Workspaces.CleanUp(ctx, fmt.Sprint(runID)), a.caches().RemoveRun(runID))
}
