package run

import (
	"go.temporal.io/sdk/workflow"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/workflows/internal/options"
	"github.com/rocketgpt/orchestrator/workflows/run/state"
)

// recordFailure counts a failure for an agent. An agent that has used up a budget is replaced by a
// fresh one, which gets a record of the attempts so far.
func (r *run) recordFailure(ctx workflow.Context, agent contract.Agent, b contract.RepairFault) {
	c := r.Heals.Budget(agent)
	why := c.Spend(r.Failed.Step, &b.Failure, r.in.Settings.Agents)
	if why == "" {
		return
	}
	r.Heals.Budgets[agent] = &state.ErrorBudget{Generation: c.Generation + 1, Same: map[string]int{}}
	if err := r.handOff(ctx, agent, c.Generation, why, b.Execution); err != nil {
		r.log.Error("Could not hand off a revoked agent's work; the next agent begins without it", "agent", agent, "error", err)
	}
}

// handOff records the attempts of a revoked agent, and why it was revoked.
func (r *run) handOff(ctx workflow.Context, agent contract.Agent, generation int, why string, last contract.ExecutionRef) error {
	var handoff contract.HandoffResult
	err := workflow.ExecuteLocalActivity(options.Local(ctx), contract.ActivityHandoff, contract.HandoffInput{
		Execution: last, Agent: agent, Generation: generation, Reason: why,
	}).Get(ctx, &handoff)
	if err != nil {
		return err
	}
	_, err = r.transition(ctx, contract.Record{Events: []contract.EventDraft{{Type: contract.EventAgentRevoked, Payload: map[string]any{
		"agent": agent, "generation": generation, "reason": why, "handoff": handoff.Artifact,
	}}}})
	return err
}
