package run

import (
	"fmt"
	"strings"

	"go.temporal.io/sdk/workflow"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/fault"
	"github.com/rocketgpt/orchestrator/workflows/internal/flow"
)

// errorBudget counts what an agent did wrong in a run.
type errorBudget struct {
	generation int // of the agent, from 1; a revoked one is followed by the next
	errors     int
	same       map[string]int
}

func (h *heals) budgetOf(agent contract.Agent) *errorBudget {
	if h.budgets[agent] == nil {
		h.budgets[agent] = &errorBudget{generation: 1, same: map[string]int{}}
	}
	return h.budgets[agent]
}

// spend counts a failure and says why the agent has to be revoked, if so.
// Failures of machines are nobody's fault.
func (c *errorBudget) spend(step string, f *contract.Failure, l contract.AgentLimits) (revoked string) {
	if f.Class == contract.ClassInfra || f.Class == contract.ClassConfig || f.Class == contract.ClassHuman {
		return ""
	}
	kind := strings.Join([]string{step, string(f.Class), string(f.Code), fault.WithoutNumbers(f.Message)}, "|")
	c.errors++
	c.same[kind]++
	violations := 0
	if f.Class == contract.ClassSafety { // its single violations are counted where it works
		violations = l.Violations + 1
	}
	switch l.Past(c.errors, c.same[kind], violations) {
	case contract.OffenceViolations:
		return "it went outside its allowed tools or paths"
	case contract.OffenceRepeats:
		return fmt.Sprintf("it repeated the same error %d times", l.Repeats)
	case contract.OffenceErrors:
		return fmt.Sprintf("it made %d errors", c.errors)
	}
	return ""
}

// recordFailure counts a failure for an agent. One that has used up a budget is
// replaced by a fresh one, which finds in writing what was tried.
func (r *run) recordFailure(ctx workflow.Context, agent contract.Agent, b contract.Blame) {
	c := r.heals.budgetOf(agent)
	why := c.spend(r.failed.step, &b.Failure, r.in.Settings.Agents)
	if why == "" {
		return
	}
	r.heals.budgets[agent] = &errorBudget{generation: c.generation + 1, same: map[string]int{}}
	if err := r.handOff(ctx, agent, c.generation, why, b.Execution); err != nil {
		r.log.Error("Could not hand off the work of a revoked agent; the next one begins without", "agent", agent, "error", err)
	}
}

// handOff writes down what a revoked agent tried, and says why it was revoked.
func (r *run) handOff(ctx workflow.Context, agent contract.Agent, generation int, why string, last contract.ExecutionRef) error {
	var handoff contract.HandoffResult
	err := workflow.ExecuteLocalActivity(flow.Local(ctx), contract.ActivityHandoff, contract.HandoffInput{
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
