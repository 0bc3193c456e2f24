package route

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/model"
)

// The prior of a model's success, before any of its work was seen, counts as much as priorWeight
// outcomes. Its mean is the model's score.
const (
	priorWeight = 8
	priorMean   = 0.5 // of a model without a score
)

// ranked is a candidate with the numbers that decide.
type ranked struct {
	Candidate
	cost    int64
	quality float64
	known   bool // quality was measured or observed
	value   float64
}

// quality returns how well a model is expected to do: the mean of a Beta distribution whose prior is
// the model's score and whose observations are its outcomes.
func quality(c Candidate) (mean float64, known bool) {
	prior := priorMean
	if c.Score != nil {
		prior = *c.Score
	}
	seen := float64(c.Outcomes.Good + c.Outcomes.Bad)
	return (prior*priorWeight + float64(c.Outcomes.Good)) / (priorWeight + seen), c.Score != nil || seen > 0
}

// rank chooses among candidates that can make the call, and says why.
func (d *Decision) rank(n Need, fit []Candidate, p Policy) Candidate {
	rows := make([]ranked, len(fit))
	for i, c := range fit {
		q, known := quality(c)
		rows[i] = ranked{Candidate: c, cost: n.cost(c, n.Output), quality: q, known: known}
	}
	assumeWorst(rows)
	switch p.Strategy {
	case contract.RouteBest:
		slices.SortFunc(rows, func(a, b ranked) int {
			return cmp.Or(cmp.Compare(b.quality, a.quality), compareKnown(a, b), cmp.Compare(a.cost, b.cost), byName(a.Candidate, b.Candidate))
		})
	case contract.RouteBalanced:
		weigh(n, rows, p.Weights)
		slices.SortFunc(rows, func(a, b ranked) int {
			return cmp.Or(cmp.Compare(b.value, a.value), cmp.Compare(a.cost, b.cost), byName(a.Candidate, b.Candidate))
		})
	default:
		slices.SortFunc(rows, func(a, b ranked) int {
			return cmp.Or(cmp.Compare(a.cost, b.cost), cmp.Compare(b.quality, a.quality), byName(a.Candidate, b.Candidate))
		})
	}
	d.explain(n, rows, p.Strategy)
	d.consider(rows)
	return rows[0].Candidate
}

// maxConsidered is the number of ranked candidates that a decision records.
const maxConsidered = 10

// consider records the ranked candidates, unless there was only one.
func (d *Decision) consider(rows []ranked) {
	if len(rows) == 1 {
		return
	}
	for _, r := range rows[:min(len(rows), maxConsidered)] {
		d.Considered = append(d.Considered, contract.RouteCandidate{
			Provider: r.Choice.Provider, Model: r.Choice.Model, ExpectedMicroUSD: r.cost, Assumed: !r.Known,
			Quality: round(r.quality), Basis: basis(r), Value: round(r.value),
		})
	}
}

// round limits a number to what people read of it.
func round(x float64) float64 { return math.Round(x*1000) / 1000 }

// assumeWorst gives models of unknown quality the lowest known one: what nobody measured is not
// preferred for its quality.
func assumeWorst(rows []ranked) {
	lowest, measured := 1.0, false
	for _, r := range rows {
		if r.known {
			lowest, measured = min(lowest, r.quality), true
		}
	}
	for i := range rows {
		if !rows[i].known && measured {
			rows[i].quality = lowest
		}
	}
}

// compareKnown orders a measured quality before an assumed one.
func compareKnown(a, b ranked) int {
	switch {
	case a.known == b.known:
		return 0
	case a.known:
		return -1
	}
	return 1
}

// weigh computes the value of each candidate: its quality, and its price relative to the dearest one.
// An important call weighs quality up to twice as much, an unimportant one not at all.
func weigh(n Need, rows []ranked, w contract.RouteWeights) {
	if w == (contract.RouteWeights{}) {
		w = DefaultWeights
	}
	var dearest int64 = 1
	for _, r := range rows {
		dearest = max(dearest, r.cost)
	}
	for i, r := range rows {
		rows[i].value = w.Quality*2*n.Importance*r.quality + w.Price*(1-float64(r.cost)/float64(dearest))
	}
}

// explain adds the reasons for the first of the ranked candidates.
func (d *Decision) explain(n Need, rows []ranked, s contract.RouteStrategy) {
	best := rows[0]
	if len(rows) == 1 {
		d.Reasons = append(d.Reasons, fmt.Sprintf("%s is the only model that can make the call", name(best.Choice)))
		return
	}
	cheapest := slices.MinFunc(rows, func(a, b ranked) int { return cmp.Or(cmp.Compare(a.cost, b.cost), byName(a.Candidate, b.Candidate)) })
	switch s {
	case contract.RouteBest:
		d.Reasons = append(d.Reasons, fmt.Sprintf("%s has the best %s of %d models: %s; next: %s", name(best.Choice), skill(n.Agent), len(rows), describe(best), describeNamed(rows[1])))
	case contract.RouteBalanced:
		d.Reasons = append(d.Reasons, fmt.Sprintf("%s has the best balance of %s and price of %d models (value %.3f: %s, about %s); next: %s (value %.3f)",
			name(best.Choice), skill(n.Agent), len(rows), best.value, describe(best), costOf(best.cost, best.Candidate), describeNamed(rows[1]), rows[1].value))
	default:
		d.Reasons = append(d.Reasons, fmt.Sprintf("%s is the cheapest of %d models: about %s; next: %s, about %s", name(best.Choice), len(rows), costOf(best.cost, best.Candidate), name(rows[1].Choice), costOf(rows[1].cost, rows[1].Candidate)))
	}
	if extra := best.cost - cheapest.cost; extra > 0 {
		d.Reasons = append(d.Reasons, fmt.Sprintf("it is expected to cost %s more than %s, for its %s", contract.MarkEstimated(dollars(extra), !best.Known || !cheapest.Known), name(cheapest.Choice), skill(n.Agent)))
	}
}

// describe writes a candidate's quality for people.
func describe(r ranked) string {
	switch seen := r.Outcomes.Good + r.Outcomes.Bad; {
	case !r.known:
		return noScore
	case seen > 0:
		return fmt.Sprintf("%.2f, with %s", r.quality, basis(r))
	case r.ScoreSource != "":
		return fmt.Sprintf("%.2f (%s)", r.quality, basis(r))
	}
	return fmt.Sprintf("%.2f", r.quality)
}

// noScore says that nothing is known about a model's quality.
const noScore = "no score is known"

// basis says what a candidate's quality is based on.
func basis(r ranked) string {
	switch seen := r.Outcomes.Good + r.Outcomes.Bad; {
	case !r.known:
		return noScore
	case seen > 0:
		return fmt.Sprintf("%d of %d earlier tasks done without a heal", r.Outcomes.Good, seen)
	}
	return r.ScoreSource
}

func describeNamed(r ranked) string { return name(r.Choice) + ", " + describe(r) }

// Skill is the kind of score that counts for an agent's work.
type Skill string

// Skills, as the catalogue names their scores.
const (
	SkillCoding    Skill = model.ScoreCoding
	SkillReasoning Skill = model.ScoreReasoning
)

// SkillOf returns the skill that an agent's work needs.
func SkillOf(agent contract.Agent) Skill {
	if agent == contract.AgentBuilder || agent == contract.AgentRepair {
		return SkillCoding
	}
	return SkillReasoning
}

func skill(agent contract.Agent) string { return string(SkillOf(agent)) + " score" }

// The importance of the agents' first attempts, and what each further attempt adds.
var importance = map[contract.Agent]float64{
	contract.AgentPlanner: 0.8, contract.AgentGamma: 0.8, contract.AgentRepair: 0.7, contract.AgentAlpha: 0.6, contract.AgentBeta: 0.6,
}

const (
	ordinary   = 0.5 // of all other agents
	perAttempt = 0.15
)

// Importance returns how much a better response of an agent is worth, from 0 to 1: a mistake in a plan
// costs every step after it, and work that already failed is worth a better model.
func Importance(agent contract.Agent, attempt int) float64 {
	base, listed := importance[agent]
	if !listed {
		base = ordinary
	}
	return min(1, base+perAttempt*float64(max(attempt-1, 0)))
}
