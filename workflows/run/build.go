package run

import (
	"slices"

	"go.temporal.io/sdk/workflow"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/fault"
	"github.com/rocketgpt/orchestrator/workflows/internal/affinity"
	"github.com/rocketgpt/orchestrator/workflows/internal/commands"
	"github.com/rocketgpt/orchestrator/workflows/run/state"
)

// stepGraph runs the plan's steps: each as soon as its dependencies are done, at most Parallel at
// the same time, each in its own copy of the workspace. A step starts only from
// the changes of the steps that it depends on, so its input does not depend on which step was
// faster.
type stepGraph struct {
	run     *run
	order   []string
	running int
	ended   int // number of steps that have ended; the loop waits for it to grow
	done    map[string]contract.Change
	failure *contract.Failure
	cancel  workflow.CancelFunc
}

// build runs the step graph and merges all changes.
func (r *run) build(ctx workflow.Context) (any, *contract.Failure) {
	work, cancel := workflow.WithCancel(ctx)
	defer cancel()
	g := &stepGraph{run: r, order: r.Plan.Order(), done: r.Done, cancel: cancel}
	g.resetSteps()
	if err := g.carryOut(work); err != nil && g.failure == nil {
		return nil, r.failureOf(err)
	}
	switch {
	case r.controls.stopping():
		return nil, r.controls.stop
	case g.failure != nil:
		return nil, g.failure
	}
	return r.integrate(ctx, g)
}

// resetSteps prepares the steps that are not done yet, which may have failed before.
func (g *stepGraph) resetSteps() {
	for _, id := range g.order {
		view := g.run.Step(id)
		if _, done := g.done[id]; done {
			view.Status = contract.StepCompleted
		} else {
			view.Status = contract.StepPending
		}
	}
}

// carryOut starts steps as they become ready, until all are done, one has failed, or the run was
// stopped, and then waits for the running ones. A paused run starts no steps.
func (g *stepGraph) carryOut(ctx workflow.Context) error {
	for {
		g.start(ctx)
		if g.running == 0 && (g.failure != nil || len(g.done) == len(g.order)) {
			return nil
		}
		ended, paused := g.ended, g.run.controls.paused
		err := workflow.Await(ctx, func() bool { return g.ended != ended || (paused && !g.run.controls.paused) })
		if err != nil {
			// The run was cancelled, and with it its steps: wait for them.
			last, done := workflow.NewDisconnectedContext(ctx)
			defer done()
			if waited := workflow.Await(last, func() bool { return g.running == 0 }); waited != nil {
				return waited
			}
			return err
		}
	}
}

// start starts every step that can start.
func (g *stepGraph) start(ctx workflow.Context) {
	if g.failure != nil || ctx.Err() != nil || g.run.controls.paused {
		return
	}
	for _, id := range g.order {
		if g.running >= max(1, g.run.in.Settings.Parallel) {
			return
		}
		step, _ := g.run.Plan.Step(id)
		waits := slices.ContainsFunc(step.Dependencies, func(d string) bool { _, ok := g.done[d]; return !ok })
		if view := g.run.Step(id); view.Status == contract.StepPending && !waits {
			view.Status = contract.StepRunning
			g.startStep(ctx, step)
		}
	}
}

func (g *stepGraph) startStep(ctx workflow.Context, step contract.Step) {
	r := g.run
	var needs []contract.Change
	for _, id := range r.Plan.Requires(step.ID) {
		needs = append(needs, g.done[id])
	}
	// Changes that need no merge are applied here at no cost; the step merges the rest.
	start, rest := contract.FastForward(r.in.Settings.Repo.Workspace(), needs)
	model, told := r.Models[contract.AgentBuilder], r.Revision
	settings := r.loopSettings()
	if len(r.Plan.Requires(step.ID))+1 < len(g.order) {
		// Its result is not what will be tested: what is missing may be the work of another step.
		settings.FinishRefusals = 0
	}
	settings.Gate = r.in.Settings.Gate != nil
	in := contract.StepInput{
		RunID: r.in.RunID, Step: step.ID, PlanID: r.PlanID, Agent: contract.AgentBuilder, Phase: contract.PhaseBuilder,
		Workspace: start, Needs: rest, Model: model, Settings: settings, Lessons: r.lessonsOf(contract.PhaseBuilder, step.ID),
		Conversation: r.forkedConversation(step.ID), Resume: r.Heals.TakeResume(step.ID),
		Planner: r.plannerCredit(), Worker: r.affinityOf(contract.PhaseBuilder, step.ID).Worker,
	}
	g.running++
	workflow.Go(ctx, func(ctx workflow.Context) {
		result, err := r.carryOutStep(ctx, in, told)
		g.running--
		g.ended++
		g.finish(step.ID, result, err)
	})
}

// plannerCredit names the model that made the plan; empty: a person supplied it.
func (r *run) plannerCredit() contract.Credit {
	if r.Planning.Prompt == "" {
		return contract.Credit{}
	}
	return contract.Credit{Model: r.Models[contract.AgentPlanner].Model, Prompt: r.Planning.Prompt}
}

// forkedConversation returns the beginning of a forked step's conversation. Later attempts start
// from scratch, as in any step.
func (r *run) forkedConversation(step string) *contract.ConversationFork {
	if f := r.in.Settings.Fork; f != nil && f.Step == step && r.Executions[step].ID == 0 {
		return f.Conversation
	}
	return nil
}

// finish records how a step ended. After the first failure no other step starts. If nothing can
// heal the failure, the running steps are stopped too: their work would cost money but could not be
// released.
func (g *stepGraph) finish(id string, result contract.StepResult, err error) {
	r, view := g.run, g.run.Step(id)
	view.Attempt, view.Turns = result.Attempt, result.Turns
	r.Executions[id], r.Credits[id] = contract.ExecutionRef{ID: result.ExecutionID, Attempt: result.Attempt}, result.Credit
	r.Usage = r.Usage.Add(result.Usage)
	failure := result.Failure
	if err != nil {
		failure = fault.Of(err)
	}
	if result.Lost != "" {
		r.Heals.Exclude(result.Lost)
		r.affinityOf(contract.PhaseBuilder, id).Worker = ""
	}
	switch {
	case failure == nil:
		view.Status = contract.StepCompleted
		g.done[id] = result.Change
	case failure.Code == contract.CodeCancelled:
		view.Status = contract.StepCancelled
	default:
		view.Status = contract.StepFailed
	}
	if failure != nil && g.failure == nil {
		g.failure = failure
		r.Failed = state.FailedWork{Step: id, Workspace: result.Change.To, From: result.Change.From}
		if c := result.Conflict; c != nil {
			r.Failed = state.FailedWork{Step: c.Step, Workspace: result.Change.From}
		}
		// Other steps continue while the failure may be healed, so that their work is not paid for
		// twice.
		if r.MaxRetries <= 0 || fault.Final(failure) {
			g.cancel()
		}
	}
}

// integrate merges the changes of all steps, in plan order.
func (r *run) integrate(ctx workflow.Context, g *stepGraph) (any, *contract.Failure) {
	r.Changes, r.Stages = nil, nil
	for _, id := range g.order {
		r.Changes = append(r.Changes, g.done[id])
	}
	base := r.in.Settings.Repo.Workspace()
	head, rest := base, r.Changes
	for len(rest) > 0 && rest[0].From.Tree == head.Tree {
		head, rest = rest[0].To.Of(base), rest[1:]
		r.Stages = append(r.Stages, head.Slim())
	}
	if len(rest) > 0 {
		result, err := affinity.LocalFirst(ctx, r.affinityOf(contract.PhaseBuilder, ""), contract.ActivityIntegrate, len(rest), func(quick bool) any {
			return contract.IntegrateInput{RunID: r.in.RunID, Workspace: head, Changes: rest, LocalOnly: quick}
		}, func(r contract.IntegrateResult) bool { return r.Cold })
		if err != nil {
			return nil, r.failureOf(err)
		}
		if c := result.Conflict; c != nil {
			r.Failed = state.FailedWork{Step: c.Step, Workspace: result.Workspace}
			return nil, commands.MergeConflict(*c)
		}
		head = result.Workspace
		r.Stages = append(r.Stages, result.Stages...)
	}
	r.Workspace = head
	return buildOutput{Steps: len(r.Changes), Tree: head.Tree, Patch: head.Patch, Usage: r.Usage}, nil
}

// buildOutput is the content of a run's builder_output.
type buildOutput struct {
	Steps int            `json:"steps"`
	Tree  string         `json:"tree"`
	Patch string         `json:"patch"`
	Usage contract.Usage `json:"usage"`
}
