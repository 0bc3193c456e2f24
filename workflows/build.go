package workflows

import (
	"slices"

	"go.temporal.io/sdk/workflow"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/fault"
)

// stepGraph carries out the plan's steps: each as soon as those it depends on
// are done, at most Parallel at once, each a child workflow in a copy of the
// workspace of its own. A step starts from the changes of the steps that it
// depends on and nothing else, so what it sees does not depend on who was
// faster.
type stepGraph struct {
	run      *run
	order    []string
	running  int
	done     map[string]contract.Change
	failure  *contract.Failure
	cancel   workflow.CancelFunc
	selector workflow.Selector
}

// build carries out the step graph and brings all changes together.
func (r *run) build(ctx workflow.Context) (any, *contract.Failure) {
	work, cancel := workflow.WithCancel(ctx)
	defer cancel()
	g := &stepGraph{
		run: r, order: r.runState.plan.Order(), done: map[string]contract.Change{},
		cancel: cancel, selector: workflow.NewSelector(ctx),
	}
	g.start(work)
	for g.running > 0 {
		// Children end when they are cancelled, so this needs no context of its own.
		g.selector.Select(ctx)
		g.start(work)
	}
	switch {
	case r.held.stop != nil:
		return nil, r.held.stop
	case g.failure != nil:
		return nil, g.failure
	}
	return r.integrate(ctx, g)
}

// start starts every step that is free to start.
func (g *stepGraph) start(ctx workflow.Context) {
	if g.failure != nil || ctx.Err() != nil {
		return
	}
	for _, id := range g.order {
		if g.running >= max(1, g.run.in.Settings.Parallel) {
			return
		}
		step, _ := g.run.runState.plan.Step(id)
		waits := slices.ContainsFunc(step.Dependencies, func(d string) bool { _, ok := g.done[d]; return !ok })
		if view := g.run.step(id); view.Status == contract.StepPending && !waits {
			view.Status = contract.StepRunning
			g.startStep(ctx, step)
		}
	}
}

func (g *stepGraph) startStep(ctx workflow.Context, step contract.Step) {
	r := g.run
	var needs []contract.Change
	for _, id := range r.runState.plan.Requires(step.ID) {
		needs = append(needs, g.done[id])
	}
	// What needs no merge is done here for nothing; the step merges the rest.
	start, rest := contract.FastForward(r.in.Settings.Repo.Workspace(), needs)
	s := r.in.Settings
	child := workflow.ExecuteChildWorkflow(stepOptions(ctx, r.in.RunID, step.ID, contract.QueueBuilder), contract.WorkflowStep, contract.StepInput{
		RunID: r.in.RunID, Step: step.ID, Agent: contract.AgentBuilder, Phase: contract.PhaseBuilder,
		Workspace: start, Needs: rest, Model: r.models[contract.AgentBuilder],
		Settings: contract.LoopSettings{
			Budget: s.StepBudget, RunBudget: s.RunBudget, ModelTimeout: s.ModelTimeout, CommandTimeout: s.CommandTimeout,
		},
	})
	g.running++
	g.selector.AddFuture(child, func(f workflow.Future) {
		g.running--
		var result contract.StepResult
		err := f.Get(ctx, &result)
		g.finish(step.ID, result, err)
	})
}

// finish takes note of how a step ended. The first failure stops the others:
// their work could not be released anyway, and would be paid for.
func (g *stepGraph) finish(id string, result contract.StepResult, err error) {
	r, view := g.run, g.run.step(id)
	view.Attempt, view.Turns = result.Attempt, result.Turns
	r.usage = r.usage.Add(result.Usage)
	failure := result.Failure
	if err != nil {
		failure = fault.Of(err)
	}
	switch {
	case failure == nil:
		view.Status = contract.StepCompleted
		g.done[id] = result.Change
	case failure.Code == contract.CodeCancelled:
		view.Status = contract.StepCancelled
	default:
		view.Status = contract.StepFailed
		if g.failure == nil {
			g.failure = failure
			g.cancel()
		}
	}
}

// integrate brings the changes of all steps together, in plan order.
func (r *run) integrate(ctx workflow.Context, g *stepGraph) (any, *contract.Failure) {
	r.changes, r.stages = nil, nil
	for _, id := range g.order {
		r.changes = append(r.changes, g.done[id])
	}
	base := r.in.Settings.Repo.Workspace()
	head, rest := base, r.changes
	for len(rest) > 0 && rest[0].From.Tree == head.Tree {
		head, rest = rest[0].To.Of(base), rest[1:]
		r.stages = append(r.stages, head.Slim())
	}
	if len(rest) > 0 {
		var result contract.IntegrateResult
		err := workflow.ExecuteActivity(long(ctx, contract.QueueBuilder, longWork), contract.ActivityIntegrate, contract.IntegrateInput{
			RunID: r.in.RunID, Workspace: head, Changes: rest,
		}).Get(ctx, &result)
		if err != nil {
			return nil, r.why(err)
		}
		if c := result.Conflict; c != nil {
			return nil, conflictFailure(*c)
		}
		head = result.Workspace
		r.stages = append(r.stages, result.Stages...)
	}
	r.workspace = head
	return buildOutput{Steps: len(r.changes), Tree: head.Tree, Patch: head.Patch, Usage: r.usage}, nil
}

// buildOutput is what a run's builder_output shows.
type buildOutput struct {
	Steps int            `json:"steps"`
	Tree  string         `json:"tree"`
	Patch string         `json:"patch"`
	Usage contract.Usage `json:"usage"`
}

// conflictFailure says which step's change does not go together with the others.
func conflictFailure(c contract.Conflict) *contract.Failure {
	return &fault.New(contract.ClassLogic, contract.CodeMergeConflict,
		"the change of step %s conflicts with those of steps it does not depend on, in %s; let one depend on the other", c.Step, listed(c.Paths)).Failure
}

// listed names a few of many.
func listed(names []string) string {
	const most = 10
	out := ""
	for i, n := range names {
		if i == most {
			return out + " and more"
		}
		if i > 0 {
			out += ", "
		}
		out += n
	}
	return out
}
