package planning

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/fault"
	"github.com/rocketgpt/orchestrator/internal/glob"
)

// Past is what some steps of earlier runs took: their number and medians.
type Past struct {
	Complexity       contract.Level // empty: of any complexity
	Same             bool           // carried out by the run's builder model; otherwise by any
	Steps            int
	MicroUSD         float64
	PromptTokens     float64
	CompletionTokens float64
	Seconds          float64
}

// Basis is what an estimate is made of.
type Basis struct {
	Steps   []Past
	Tests   int     // earlier verifications of the repository
	Testing float64 // their median, in seconds
	// Priced reports whether the builder's model has known prices, which Cost applies.
	Priced   bool
	Cost     func(contract.Usage) int64
	Parallel int // steps at the same time
}

// Fewest is the number of earlier steps, or runs, from which their median counts.
const Fewest = 3

// Estimate returns what the steps of a plan and the first verification will probably take: medians of
// earlier work, without heals. What too little is known about stays unknown.
func Estimate(p contract.Plan, b Basis) *contract.PlanEstimate {
	out := &contract.PlanEstimate{CostBasis: contract.BasisUnknown, TimeBasis: contract.BasisUnknown}
	var cost float64
	costs, times := true, map[string]float64{}
	for _, s := range p.Steps {
		micro, basis, n := b.costOf(s.EstimatedComplexity)
		if basis == contract.BasisUnknown {
			costs = false
		} else {
			cost += micro
			out.CostFrom(basis, n)
		}
		if took, n, known := b.timeOf(s.EstimatedComplexity); known {
			times[s.ID] = took
			out.TimeFrom(n)
		}
	}
	if costs && len(p.Steps) > 0 {
		micro := int64(cost)
		out.MicroUSD = &micro
	} else {
		out.CostBasis, out.CostSamples = contract.BasisUnknown, 0
	}
	if len(times) < len(p.Steps) || len(p.Steps) == 0 || b.Tests == 0 {
		out.TimeBasis, out.TimeSamples = contract.BasisUnknown, 0
		return out
	}
	took := int64((duration(p, times, max(1, b.Parallel)) + b.Testing) * float64(time.Second/time.Millisecond))
	out.DurationMS, out.TimeBasis = &took, contract.BasisHistory
	return out
}

// pick returns the first of several groups of earlier steps that is large enough.
func (b Basis) pick(groups ...Past) (Past, bool) {
	for _, g := range groups {
		at := slices.IndexFunc(b.Steps, func(p Past) bool { return p.Complexity == g.Complexity && p.Same == g.Same })
		if at >= 0 && b.Steps[at].Steps >= Fewest {
			return b.Steps[at], true
		}
	}
	return Past{}, false
}

// costOf estimates the cost of a step: what such steps cost with this model, else the tokens that
// they needed with any model, at this model's prices.
func (b Basis) costOf(l contract.Level) (micro float64, basis string, samples int) {
	if !b.Priced {
		return 0, contract.BasisUnknown, 0
	}
	if p, ok := b.pick(Past{Complexity: l, Same: true}, Past{Same: true}); ok {
		return p.MicroUSD, contract.BasisHistory, p.Steps
	}
	if p, ok := b.pick(Past{Complexity: l}, Past{}); ok {
		return float64(b.Cost(contract.Usage{PromptTokens: int64(p.PromptTokens), CompletionTokens: int64(p.CompletionTokens)})), contract.BasisPrices, p.Steps
	}
	return 0, contract.BasisUnknown, 0
}

func (b Basis) timeOf(l contract.Level) (seconds float64, samples int, known bool) {
	p, ok := b.pick(Past{Complexity: l, Same: true}, Past{Same: true}, Past{Complexity: l}, Past{})
	return p.Seconds, p.Steps, ok
}

// duration returns the time from the first to the last step if as many steps as allowed run at the
// same time, each as soon as it can.
func duration(p contract.Plan, took map[string]float64, parallel int) float64 {
	ends := map[string]float64{}
	free := make([]float64, parallel) // when each place is free
	last := 0.0
	for _, id := range p.Order() {
		s, _ := p.Step(id)
		start := 0.0
		for _, d := range s.Dependencies {
			start = max(start, ends[d])
		}
		place := 0
		for i := range free {
			if free[i] < free[place] {
				place = i
			}
		}
		ends[id] = max(start, free[place]) + took[id]
		free[place] = ends[id]
		last = max(last, ends[id])
	}
	return last
}

// SideBySide returns the time in which work that takes these times ends if parallel of it is carried
// out at the same time (0: all of it), in its order.
func SideBySide(took []float64, parallel int) float64 {
	if parallel <= 0 {
		parallel = len(took)
	}
	free := make([]float64, max(1, parallel)) // when each place is free
	for _, t := range took {
		at := slices.Index(free, slices.Min(free))
		free[at] += t
	}
	return slices.Max(free)
}

// Risk returns the risk of a plan, and the reasons for it.
func Risk(p contract.Plan, findings []contract.PlanFinding, protected []string, failing int) contract.PlanRisk {
	out := contract.PlanRisk{Level: contract.LevelLow}
	raise := func(l contract.Level, format string, args ...any) {
		if order(l) > order(out.Level) {
			out.Level = l
		}
		if len(out.Reasons) < maxReasons {
			out.Reasons = append(out.Reasons, fault.Clip(fmt.Sprintf(format, args...), maxReason))
		}
	}
	for _, s := range p.Steps {
		if order(s.RiskLevel) > order(contract.LevelLow) {
			raise(s.RiskLevel, "the planner rates the risk of %s as %s", s.ID, s.RiskLevel)
		}
		for _, name := range s.Files {
			name = path.Clean(name)
			if at := slices.IndexFunc(protected, func(pattern string) bool { return glob.Match(strings.ToLower(pattern), strings.ToLower(name)) }); at >= 0 {
				raise(contract.LevelHigh, "%s changes %s, which is protected (git.protected)", s.ID, shown(name))
			}
		}
	}
	for _, f := range findings {
		raise(contract.LevelMedium, "%s", f.Text)
	}
	if failing > 0 {
		raise(contract.LevelMedium, "tests already fail on the base commit: %d", failing)
	}
	return out
}

// maxReasons is the number of reasons for a risk that a run records.
const maxReasons = 10

// maxReason is the size of a reason.
const maxReason = 300

func order(l contract.Level) int {
	return slices.Index([]contract.Level{contract.LevelLow, contract.LevelMedium, contract.LevelHigh}, cmp.Or(l, contract.LevelLow))
}
