package run

import (
	"fmt"
	"slices"

	"go.temporal.io/sdk/workflow"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/fault"
	"github.com/rocketgpt/orchestrator/workflows/internal/commands"
	"github.com/rocketgpt/orchestrator/workflows/internal/records"
)

func (r *run) checkSwitchModel(c contract.Command) error {
	if c.Model == nil || c.Model.Provider == "" || c.Model.Model == "" {
		return commands.Rejected("switch_model needs a provider and a model")
	}
	if len(c.Model.Provider)+len(c.Model.Model)+len(c.By) > commands.MaxReason {
		return commands.Rejected("the names of the provider, the model and the sender must have at most %d bytes in total", commands.MaxReason)
	}
	if known := r.providers(); !slices.Contains(known, c.Model.Provider) {
		return commands.Rejected("run %d has no model provider %q; available: %s", r.in.RunID, c.Model.Provider, commands.ListFew(known))
	}
	_, known := r.Models[c.Agent]
	switch isMember := slices.ContainsFunc(contract.Members(), func(m contract.Member) bool { return m.Agent() == c.Agent }); {
	case c.Agent == "", known:
		return nil
	case !isMember:
		return commands.Rejected("unknown agent %q", fault.Clip(string(c.Agent), commands.MaxName))
	case !r.deliberates(c.Agent):
		return commands.Rejected("run %d has no deliberation about its plan (plan_by: planner), so %s is never used; switch the planner's model instead", r.in.RunID, c.Agent)
	case r.Consensus != nil:
		return commands.Rejected("the deliberation about the plan of run %d is over (pipeline %d), so %s is no longer used; to deliberate again: rgpt run replay %d --phase planner",
			r.in.RunID, r.Consensus.PipelineID, c.Agent, r.in.RunID)
	}
	return nil
}

// providers returns the names of the run's providers: the configured ones, and the providers of its
// models.
func (r *run) providers() []string {
	known := slices.Clone(r.in.Settings.Providers)
	for _, agent := range workflow.DeterministicKeys(r.Models) {
		known = append(known, r.Models[agent].Provider)
	}
	slices.Sort(known)
	return slices.Compact(known)
}

func (r *run) applySwitchModel(ctx workflow.Context, c contract.Command) (contract.Record, string) {
	for _, agent := range workflow.DeterministicKeys(r.Models) {
		if c.Agent == "" || c.Agent == agent {
			r.setModel(agent, *c.Model)
		}
	}
	for _, m := range contract.Members() {
		if r.deliberates(m.Agent()) && (c.Agent == "" || c.Agent == m.Agent()) {
			r.SwitchedModels[m.Agent()] = *c.Model
		}
	}
	r.notifyAgents(ctx)
	r.syncDeliberationModels(ctx)
	whom := "all agents"
	if c.Agent != "" {
		whom = "the " + string(c.Agent)
	}
	message := fmt.Sprintf("%s switched to %s (%s), starting with the next call", whom, c.Model.Model, c.Model.Provider)
	return records.EventRecord(contract.EventModelSwitched, map[string]any{"agent": c.Agent, "model": c.Model, "by": c.By, "message": message}), message
}

// setModel changes an agent's model for the rest of the run. A member that was switched to the
// planner's model for the deliberation about the plan keeps following the planner.
func (r *run) setModel(agent contract.Agent, m contract.ModelChoice) {
	if agent == contract.AgentPlanner {
		r.followPlanner(m)
	}
	next := map[contract.Agent]contract.ModelChoice{}
	for _, a := range workflow.DeterministicKeys(r.Models) {
		next[a] = r.Models[a]
	}
	next[agent] = m
	r.Models = next
}

// otherModels returns the models that a heal may switch to, and that agents use while their own is
// out: the configured fallbacks, then those of the other agents.
func (r *run) otherModels() []contract.ModelChoice {
	others := slices.Clone(r.in.Settings.Fallbacks)
	for _, agent := range workflow.DeterministicKeys(r.Models) {
		m := r.Models[agent]
		if !slices.ContainsFunc(others, func(o contract.ModelChoice) bool { return o.Provider == m.Provider && o.Model == m.Model }) {
			others = append(others, m)
		}
	}
	return others
}

// deliberates reports whether an agent may deliberate about the plan.
func (r *run) deliberates(agent contract.Agent) bool {
	return r.in.Settings.Deliberation != nil && slices.ContainsFunc(contract.Members(), func(m contract.Member) bool { return m.Agent() == agent })
}

// everyModel returns the model of each agent from the next call on, including the
// members of a deliberation.
func (r *run) everyModel() map[contract.Agent]contract.ModelChoice {
	if r.in.Settings.Deliberation == nil {
		return r.Models
	}
	out := r.memberModels()
	for _, agent := range workflow.DeterministicKeys(r.Models) {
		out[agent] = r.Models[agent]
	}
	return out
}

// memberModels returns the models of the members that deliberate about the plan: the model that a
// person chose for the member, else the model from the start of the run. A member on the planner's
// model follows the planner when a person, or an outage of its provider, switches it.
func (r *run) memberModels() map[contract.Agent]contract.ModelChoice {
	s := r.in.Settings.Deliberation
	first, now := r.in.Settings.Models[contract.AgentPlanner], r.Models[contract.AgentPlanner]
	models := map[contract.Agent]contract.ModelChoice{}
	for _, m := range contract.Members() {
		own := s.Models[m.Agent()]
		if own.Provider == first.Provider && own.Model == first.Model && now.Model != "" {
			own = now
		}
		if other, ok := r.SwitchedModels[m.Agent()]; ok {
			own = other
		}
		models[m.Agent()] = own
	}
	return models
}

// followPlanner switches the members on the planner's model to the planner's next model.
func (r *run) followPlanner(next contract.ModelChoice) {
	planner := r.Models[contract.AgentPlanner]
	for _, m := range contract.Members() {
		if own, ok := r.SwitchedModels[m.Agent()]; ok && own.Provider == planner.Provider && own.Model == planner.Model {
			r.SwitchedModels[m.Agent()] = next
		}
	}
}
