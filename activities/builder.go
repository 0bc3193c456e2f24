package activities

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/brain"
	"github.com/rocketgpt/orchestrator/internal/fault"
	"github.com/rocketgpt/orchestrator/internal/model"
	"github.com/rocketgpt/orchestrator/internal/prompt"
	"github.com/rocketgpt/orchestrator/internal/runs/issue"
	"github.com/rocketgpt/orchestrator/internal/store"
)

// OpenStep records the start of a step, merges the changes that it starts from and opens its
// conversation. A repeat finds the existing execution.
func (a *Activities) OpenStep(ctx context.Context, in contract.OpenStepInput) (contract.OpenStepResult, error) {
	begun, err := a.Record(ctx, in.Record)
	if err != nil {
		return contract.OpenStepResult{}, err
	}
	out := contract.OpenStepResult{Execution: begun.Execution}
	if in.LocalOnly && (!a.serves(out.Execution.Agent) || !a.Workspaces.Cached(in.Workspace.Repo, in.Workspace.Base)) {
		out.Cold = true
		return out, nil
	}
	if out.Workspace, _, out.Conflict, err = a.Workspaces.Fold(ctx, in.Workspace, in.Needs); err != nil || out.Conflict != nil {
		return out, err
	}
	p, err := a.stepPrompt(ctx, out.Execution, in, out.Workspace)
	if in.LocalOnly && errors.Is(err, brain.ErrNotReady) {
		return contract.OpenStepResult{Execution: out.Execution, Cold: true}, nil
	}
	if err != nil {
		return contract.OpenStepResult{}, err
	}
	out.Prompt = p.Version
	if in.Conversation != nil {
		out.At, err = a.resumeFrom(ctx, out.Execution, *in.Conversation, out.Workspace)
		return out, err
	}
	if err := a.open(ctx, out.Execution, p); err != nil {
		return out, err
	}
	if resumes(in.Resume, out.Workspace) {
		out.At = in.Resume.At.Of(out.Workspace)
		return out, nil
	}
	out.Planned, err = a.openEdits(ctx, out.Execution, in, out.Workspace)
	return out, err
}

// serves reports whether this worker does the work of an agent that writes code. The workflow of a run does the
// short work of its steps where it is, which may be a worker without the agent's role, and without its tools.
func (a *Activities) serves(agent contract.Agent) bool {
	if agent != contract.AgentBuilder {
		return a.hasRole("repair")
	}
	return a.hasRole("builder")
}

// hasRole reports whether this worker has a role.
func (a *Activities) hasRole(role string) bool {
	return len(a.Config.Worker.Roles) == 0 || slices.Contains(a.Config.Worker.Roles, role)
}

// openEdits stores the edits of a step's plan as its first turn, and reports whether there are any. They
// are for the base commit, so a step that starts from something else does not begin with them. Neither
// does one that is carried out again with the same plan: then the agent is to make the change.
func (a *Activities) openEdits(ctx context.Context, e contract.ExecutionRef, in contract.OpenStepInput, start contract.Workspace) (bool, error) {
	if in.Heal != nil || in.Setup != nil || start.Patch != "" {
		return false, nil
	}
	plan, err := a.Store.PlanByID(ctx, e.RunID, in.PlanID)
	if err != nil || len(plan.Edits) == 0 {
		return false, err
	}
	if taken, err := a.Store.TakeEdits(ctx, e.RunID, in.PlanID, e.ID); err != nil || !taken {
		return false, err
	}
	return true, a.openPlanned(ctx, e, plan)
}

// resumeFrom opens the conversation of an execution with a copy of an earlier one up to a turn, and
// returns the workspace at that point.
func (a *Activities) resumeFrom(ctx context.Context, execution contract.ExecutionRef, from contract.ConversationFork, start contract.Workspace) (contract.Workspace, error) {
	entries, err := a.Store.Transcript(ctx, from.ExecutionID)
	if err != nil {
		return start, err
	}
	var messages []store.Message
	for _, e := range entries {
		if e.Turn <= from.Turn {
			messages = append(messages, e.Message)
		}
	}
	if from.Instructions != "" {
		told, err := encode([]model.Message{{Role: model.RoleUser, Text: from.Instructions}})
		if err != nil {
			return start, err
		}
		messages = append(messages, told...)
	}
	calls, err := a.Store.ToolCalls(ctx, from.RunID)
	if err != nil {
		return start, err
	}
	at, turn, index := start, 0, -1
	for _, c := range calls {
		if c.ExecutionID == from.ExecutionID && c.Turn <= from.Turn && (c.Turn > turn || c.Turn == turn && c.Index > index) {
			at, turn, index = c.Outcome.Workspace, c.Turn, c.Index
		}
	}
	return at, a.Store.OpenConversation(ctx, execution.ID, messages)
}

func (a *Activities) stepPrompt(ctx context.Context, execution contract.ExecutionRef, in contract.OpenStepInput, start contract.Workspace) (prompt.Prompt, error) {
	planID := in.PlanID
	if in.Setup != nil {
		return a.setupPrompt(ctx, execution.RunID, *in.Setup, start, in.LocalOnly)
	}
	if in.Heal != nil {
		return a.repairPrompt(ctx, execution.RunID, planID, *in.Heal, in.Lessons.Generation, start, in.LocalOnly)
	}
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
	lessons, err := a.lessons(ctx, execution.RunID, in.Lessons)
	if err != nil {
		return prompt.Prompt{}, err
	}
	project, err := a.project(ctx, run)
	if err != nil {
		return prompt.Prompt{}, err
	}
	notes, err := a.notes(ctx, run, plan, step, start, prompt.NotesBytes>>in.Lessons.Compact)
	if err != nil {
		return prompt.Prompt{}, err
	}
	view, err := a.viewRepository(ctx, run, start, files, step.Files, in.LocalOnly)
	if err != nil {
		return prompt.Prompt{}, err
	}
	earlier, err := a.earlierWork(ctx, run, in.Lessons.Compact)
	if err != nil {
		return prompt.Prompt{}, err
	}
	p, err := a.builderPrompt(ctx, prompt.BuilderTask{
		EarlierWork: earlier, Pictures: namesOf(run.Settings.Pictures), Lessons: lessons, Project: project, Notes: notes, Repository: view.prompt(),
		GoalTitle: issue.GoalTitle(run.Settings.Issue, run.GoalTitle), GoalDescription: run.GoalDescription, PlanSummary: plan.Summary, Step: step,
	}, files, in, start)
	goalPictures(&p, run)
	return p, err
}

// Integrate merges the changes of all steps, in plan order.
func (a *Activities) Integrate(ctx context.Context, in contract.IntegrateInput) (contract.IntegrateResult, error) {
	if in.LocalOnly && !a.Workspaces.Cached(in.Workspace.Repo, in.Workspace.Base) {
		return contract.IntegrateResult{Cold: true}, nil
	}
	final, stages, conflict, err := a.Workspaces.Fold(ctx, in.Workspace, in.Changes)
	if err != nil || conflict != nil {
		return contract.IntegrateResult{Conflict: conflict, Workspace: final}, err
	}
	out := contract.IntegrateResult{Workspace: final}
	for _, s := range stages {
		out.Stages = append(out.Stages, s.Slim())
	}
	return out, nil
}

// CleanUp removes a run's working directories and build caches on this host. It reports whether there
// were directories, or caches that it removed.
func (a *Activities) CleanUp(ctx context.Context, runID int64) (bool, error) {
	held, err := a.Workspaces.Holds(fmt.Sprint(runID))
	err = errors.Join(err, a.Workspaces.CleanUp(ctx, fmt.Sprint(runID)))
	cached, failed := a.caches().RemoveRun(runID)
	return held || cached, errors.Join(err, failed)
}
