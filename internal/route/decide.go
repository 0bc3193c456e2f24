package route

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/fault"
)

// Decision is the model that makes a call, and why.
type Decision struct {
	Choice contract.ModelChoice
	contract.RouteDecision
}

// Policy is how to choose among the models that can make a call.
type Policy struct {
	Strategy contract.RouteStrategy
	Weights  contract.RouteWeights // of RouteBalanced; zero: DefaultWeights
}

// DefaultWeights are the weights of RouteBalanced.
var DefaultWeights = contract.RouteWeights{Quality: 0.6, Price: 0.4}

// Decide chooses the model of a call. The first candidate is the agent's own model.
//
// RouteFixed takes the agent's own model, even if the request looks too large for it: its size is an
// estimate, and a heal makes the context smaller. The other strategies keep the model of a
// conversation that has begun, because another one would read it without cache and without its
// reasoning. Otherwise they choose among the candidates that can make the call within the budget and
// fulfil the most wishes; the order of the candidates does not matter to them.
//
// If no candidate can make the call, the error is an INFRA_ERROR, to be retried when the first of them
// may be tried again, if one of them only is out at the moment, and otherwise a CONFIG_ERROR; it says
// why for each candidate.
func Decide(n Need, candidates []Candidate, p Policy) (Decision, error) {
	candidates = distinct(candidates)
	d := Decision{RouteDecision: contract.RouteDecision{Strategy: p.Strategy}}
	if p.Strategy == contract.RouteFixed && len(candidates) > 0 {
		d.Reasons = append(d.Reasons, fmt.Sprintf("%s is the model of the %s", name(candidates[0].Choice), n.Agent))
		d.settle(n, candidates[0])
		return d, nil
	}
	var fit []Candidate
	for _, c := range candidates {
		if why := n.unfit(c); why != "" {
			d.pass(c, why)
			continue
		}
		fit = append(fit, c)
	}
	if len(fit) == 0 {
		return d, noneFits(n, candidates, d.PassedOver)
	}
	var chosen Candidate
	current := slices.IndexFunc(fit, func(c Candidate) bool { return same(c.Choice, n.Current) })
	if current >= 0 {
		chosen = fit[current]
		d.Reasons = append(d.Reasons, fmt.Sprintf("the conversation stays with %s, which has its prompt in the cache", name(chosen.Choice)))
	} else {
		fit = d.affordable(n, fit)
		fit = d.mostWishes(n, fit)
		chosen = d.rank(n, fit, p)
	}
	d.settle(n, chosen)
	return d, nil
}

// StandIn chooses the model that makes a call while the configured one is out: of those that can make it
// within the budget and fulfil the most wishes, the first in their order. It reports false if none can;
// the decision says why for each.
func StandIn(n Need, candidates []Candidate) (Decision, bool) {
	var d Decision
	var fit []Candidate
	for _, c := range candidates {
		if why := n.unfit(c); why != "" {
			d.pass(c, why)
			continue
		}
		fit = append(fit, c)
	}
	if len(fit) == 0 {
		return d, false
	}
	d.settle(n, d.mostWishes(n, d.affordable(n, fit))[0])
	return d, true
}

// settle completes a decision for a model.
func (d *Decision) settle(n Need, chosen Candidate) {
	d.Choice, d.ExpectedMicroUSD, d.Assumed = chosen.Choice, n.cost(chosen, n.Output), !chosen.Known
	if !chosen.Known {
		d.Reasons = append(d.Reasons, "the catalogue does not have this model, so its price is an assumption")
	}
	if lacks := n.lacks(chosen); len(lacks) > 0 {
		d.Reasons = append(d.Reasons, "the call does without some of what it asks for: "+strings.Join(lacks, ", "))
	}
}

// pass notes a candidate that cannot make the call.
func (d *Decision) pass(c Candidate, why string) {
	d.PassedOver = append(d.PassedOver, contract.PassedOver{Provider: c.Choice.Provider, Model: c.Choice.Model, Why: why})
}

// distinct removes repeated models; the first one counts.
func distinct(candidates []Candidate) []Candidate {
	var out []Candidate
	for _, c := range candidates {
		if !slices.ContainsFunc(out, func(o Candidate) bool { return same(o.Choice, c.Choice) }) {
			out = append(out, c)
		}
	}
	return out
}

// noneFits is the error if no candidate can make the call.
func noneFits(n Need, candidates []Candidate, passed []contract.PassedOver) error {
	if len(candidates) == 0 {
		return fault.New(contract.ClassConfig, contract.CodeInvalidConfig, "no model is configured for the %s", n.Agent)
	}
	var why []string
	for _, p := range passed {
		why = append(why, fmt.Sprintf("%s/%s: %s", p.Provider, p.Model, p.Why))
	}
	text := strings.Join(why, "; ")
	var wait time.Duration
	for _, c := range candidates {
		if c.OutFor > 0 && n.fits(c) == "" && (wait == 0 || c.OutFor < wait) {
			wait = c.OutFor
		}
	}
	if wait > 0 {
		return fault.New(contract.ClassInfra, contract.CodeUnavailable, "no model can make this call of the %s now: %s", n.Agent, text).After(wait)
	}
	return fault.New(contract.ClassConfig, contract.CodeInvalidConfig,
		"no model can make this call of the %s: %s; add a model that can to models.fallback or models.routing.candidates", n.Agent, text)
}

// affordable returns the candidates whose shortest useful response the budgets still cover. If there
// is none, it returns the cheapest one, and the budget decides.
func (d *Decision) affordable(n Need, fit []Candidate) []Candidate {
	if n.Left < 0 {
		return fit
	}
	var within, over []Candidate
	for _, c := range fit {
		if n.reserves(c) <= n.Left {
			within = append(within, c)
		} else {
			over = append(over, c)
		}
	}
	if len(within) == 0 {
		slices.SortFunc(over, func(a, b Candidate) int {
			return cmp.Or(cmp.Compare(n.reserves(a), n.reserves(b)), byName(a, b))
		})
		within, over = over[:1], over[1:]
	}
	for _, c := range over {
		d.pass(c, fmt.Sprintf("it can cost %s, and the budgets have %s left", costOf(n.reserves(c), c), dollars(n.Left)))
	}
	return within
}

// mostWishes returns the candidates that lack the fewest wishes.
func (d *Decision) mostWishes(n Need, fit []Candidate) []Candidate {
	fewest := len(n.lacks(fit[0]))
	for _, c := range fit {
		fewest = min(fewest, len(n.lacks(c)))
	}
	var out []Candidate
	for _, c := range fit {
		if lacks := n.lacks(c); len(lacks) > fewest {
			d.pass(c, strings.Join(lacks, ", "))
			continue
		}
		out = append(out, c)
	}
	return out
}

// byName orders candidates that are otherwise equal.
func byName(a, b Candidate) int { return cmp.Compare(name(a.Choice), name(b.Choice)) }
