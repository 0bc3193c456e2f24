package run

import (
	"go.temporal.io/sdk/workflow"

	"github.com/rocketgpt/orchestrator/contract"
)

// notifyAgents sends the running steps and the running heal the run's current directives.
func (r *run) notifyAgents(ctx workflow.Context) {
	r.Revision++
	r.notifyHeal(ctx)
	for _, s := range r.Steps {
		switch {
		case r.loops[s.ID] != nil:
			r.loops[s.ID].Apply(r.instructionsFor(contract.AgentBuilder))
		case r.reachable[s.ID]:
			r.notifyStep(ctx, s.ID)
		}
	}
}

func (r *run) notifyStep(ctx workflow.Context, step string) {
	r.notify(ctx, contract.StepWorkflowID(r.in.RunID, step), contract.AgentBuilder)
}

// notifyHeal sends the directives to a running heal, which passes them on to the Repair agent.
func (r *run) notifyHeal(ctx workflow.Context) {
	if n := r.Heals.UnderWay; n > 0 {
		r.notify(ctx, contract.HealWorkflowID(r.in.RunID, n), contract.AgentRepair)
	}
}

// instructionsFor returns the current directives for an agent.
func (r *run) instructionsFor(agent contract.Agent) contract.Directives {
	return contract.Directives{Seq: r.Revision, Paused: r.controls.paused, Model: r.Models[agent]}
}

func (r *run) notify(ctx workflow.Context, id string, agent contract.Agent) {
	directives := r.instructionsFor(agent)
	workflow.Go(ctx, func(ctx workflow.Context) {
		// An agent that has just ended does not need directives.
		if err := workflow.SignalExternalWorkflow(ctx, id, "", contract.SignalDirectives, directives).Get(ctx, nil); err != nil {
			r.log.Info("Could not signal a child workflow", "workflow", id, "error", err)
		}
	})
}
