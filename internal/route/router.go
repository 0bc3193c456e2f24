package route

import (
	"context"
	"slices"
	"time"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/model"
)

// ExpectedOutput is the number of response tokens to expect of a call.
const ExpectedOutput = 2_000

// Router makes the decisions of a worker. Its functions find out what a decision depends on; they are
// called only for agents whose strategy is not fixed, except Settings, which is called once for a run,
// and Entry.
type Router struct {
	// Settings returns the frozen settings of a run.
	Settings func(ctx context.Context, runID int64) (contract.Settings, error)
	// Entry returns the catalogue's entry for a model, and whether it is known.
	Entry func(contract.ModelChoice) (model.CatalogueEntry, bool)
	// Out returns why a model cannot be called now, "" if it can, and the time until it may be tried
	// again, 0 if time alone does not help.
	Out func(ctx context.Context, choice contract.ModelChoice) (why string, wait time.Duration)
	// Outcomes returns how the models did in earlier runs of a run's project.
	Outcomes func(ctx context.Context, runID int64, agent contract.Agent) (map[contract.ModelChoice]Outcomes, error)

	settings recent
}

// Call is a call whose model is to be chosen.
type Call struct {
	Execution contract.ExecutionRef
	// Own is the agent's model now: that of the run's settings, or the one that a person or a heal
	// switched to. Others are the run's other models.
	Own    contract.ModelChoice
	Others []contract.ModelChoice
	// Facts finds out the rest; it is called only if the strategy is not fixed.
	Facts func(ctx context.Context) (Facts, error)
}

// Facts are what a call asks of its model, and the state of its conversation and budgets; see Need.
type Facts struct {
	Prompt, Bound                      int64
	MinOutput, MinReasoning            int64
	Tools, Schema, Images, Temperature bool
	Current                            contract.ModelChoice
	Cached                             int64
	Left                               int64
}

// Need returns what a call of an execution requires of its model.
func (f Facts) Need(e contract.ExecutionRef) Need {
	return Need{
		Agent: e.Agent, Prompt: f.Prompt, Bound: f.Bound,
		Output: max(ExpectedOutput, f.MinOutput), MinOutput: f.MinOutput, MinReasoning: f.MinReasoning,
		Tools: f.Tools, Schema: f.Schema, Images: f.Images, Temperature: f.Temperature,
		Importance: Importance(e.Agent, e.Attempt), Left: f.Left, Current: f.Current, Cached: min(f.Cached, f.Prompt),
	}
}

// Route chooses the model of a call; a nil router takes the agent's own. An agent that was switched
// to another model than that of the run's settings keeps it, whatever the strategy.
func (r *Router) Route(ctx context.Context, c Call) (Decision, error) {
	if r == nil {
		return Decide(Need{Agent: c.Execution.Agent}, []Candidate{{Choice: c.Own, Known: true}}, Policy{Strategy: contract.RouteFixed})
	}
	routing, err := r.routing(ctx, c)
	if err != nil {
		return Decision{}, err
	}
	strategy := routing.Strategy(c.Execution.Agent)
	if strategy == contract.RouteFixed {
		own := Candidate{Choice: c.Own}
		own.Entry, own.Known = r.Entry(c.Own)
		return Decide(Need{Agent: c.Execution.Agent}, []Candidate{own}, Policy{Strategy: strategy})
	}
	f, err := c.Facts(ctx)
	if err != nil {
		return Decision{}, err
	}
	n := f.Need(c.Execution)
	var outcomes map[contract.ModelChoice]Outcomes
	if routing.Learn {
		if outcomes, err = r.Outcomes(ctx, c.Execution.RunID, c.Execution.Agent); err != nil {
			return Decision{}, err
		}
	}
	var candidates []Candidate
	for _, choice := range slices.Concat([]contract.ModelChoice{c.Own}, routing.Candidates, c.Others) {
		candidate := r.candidate(ctx, c.Execution.Agent, choice)
		candidate.Outcomes = outcomes[contract.ModelChoice{Provider: choice.Provider, Model: choice.Model}]
		candidates = append(candidates, candidate)
	}
	return Decide(n, candidates, Policy{Strategy: strategy, Weights: routing.Weights})
}

// routing returns a run's routing, nil if the agent's model is fixed or was switched.
func (r *Router) routing(ctx context.Context, c Call) (*contract.Routing, error) {
	frozen, ok := r.settings.get(c.Execution.RunID)
	if !ok {
		s, err := r.Settings(ctx, c.Execution.RunID)
		if err != nil {
			return nil, err
		}
		frozen = runSettings{routing: s.Routing, models: s.Models}
		if s.Deliberation != nil {
			frozen.members = s.Deliberation.Models
		}
		r.settings.put(c.Execution.RunID, frozen)
	}
	own, ok := frozen.models[c.Execution.Agent]
	if !ok {
		own, ok = frozen.members[c.Execution.Agent]
	}
	if !ok || !same(own, c.Own) {
		return nil, nil //nolint:nilnil // fixed
	}
	return frozen.routing, nil
}

// candidate describes a model that an agent may use.
func (r *Router) candidate(ctx context.Context, agent contract.Agent, choice contract.ModelChoice) Candidate {
	c := Candidate{Choice: choice}
	c.Out, c.OutFor = r.Out(ctx, choice)
	c.Entry, c.Known = r.Entry(choice)
	c.Score, c.ScoreSource = ScoreOf(c.Entry, agent)
	return c
}

// Admitted returns the record of a decision after the call was admitted with a model, which is another
// one if the chosen one is out; passed says why it is not one of the others.
func (d Decision) Admitted(choice contract.ModelChoice, passed []contract.PassedOver) *contract.RouteDecision {
	out := d.RouteDecision
	if !same(choice, d.Choice) {
		out.Reasons = append([]string{name(d.Choice) + " is out, so " + name(choice) + " takes its place"}, out.Reasons...)
		out.PassedOver = slices.Concat(out.PassedOver, passed)
		out.ExpectedMicroUSD, out.Assumed = 0, false
	}
	return &out
}
