package ui

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/internal/store/views"
)

// The reasons for the cost of an execution.
const (
	firstTime = "first time"
	forHeal   = "heals"
	forReplay = "replays"
	again     = "repeated after a resume"
)

// CostPage shows the usage of a run and its budgets.
type CostPage struct {
	Run      store.Run
	Usage    contract.Usage
	Open     int // calls in progress
	Budgets  []BudgetRow
	Groups   []CostGroup // by phase, agent, model
	Why      CostGroup   // cost of healing and replays
	Rows     []CostRow   // by phase, agent and model, most expensive first
	Dearest  []store.ModelCall
	Over     []int64 // millionths of a dollar spent by the end of each interval; tokens if all models were free
	InTokens bool    // Over holds tokens
	From, To time.Time
	Limit    int64 // of Over; 0 means none
}

// BudgetRow is a budget and its balance.
type BudgetRow struct {
	Name    string
	Setting string // that sets its limits
	views.BudgetState
}

// CostGroup is the usage grouped by one criterion.
type CostGroup struct {
	Title string
	Rows  []CostRow
}

// CostRow is the usage of one group.
type CostRow struct {
	Name string
	contract.Usage
}

// TokensOf describes the tokens of a usage: 12,000 in (9,000 cached), 800 out (300 reasoning).
func TokensOf(u contract.Usage) string {
	in, out := Count(u.PromptTokens)+" in", Count(u.CompletionTokens)+" out"
	switch {
	case u.CachedTokens > 0 && u.CacheWriteTokens > 0:
		in += fmt.Sprintf(" (%s cached, %s written to the cache)", Count(u.CachedTokens), Count(u.CacheWriteTokens))
	case u.CachedTokens > 0:
		in += fmt.Sprintf(" (%s cached)", Count(u.CachedTokens))
	case u.CacheWriteTokens > 0:
		in += fmt.Sprintf(" (%s written to the cache)", Count(u.CacheWriteTokens))
	}
	if u.ReasoningTokens > 0 {
		out += fmt.Sprintf(" (%s reasoning)", Count(u.ReasoningTokens))
	}
	return in + ", " + out
}

func (u CostRow) tokens() int64 { return u.PromptTokens + u.CompletionTokens }

// Reckon adds up the usage of a run. Work lists its executions; those that followed a heal or a
// replay are attributed to it.
func (p *CostPage) Reckon(spending []views.Spending, work []views.Span, heals []views.Span, replays []views.Replay) {
	of := map[int64]views.Span{}
	for _, e := range work {
		of[e.ExecutionID] = e
	}
	why := reasons(work, heals, replays)
	by := map[string]map[string]contract.Usage{}
	for _, s := range spending {
		e := of[s.ExecutionID]
		model := s.Provider + "/" + s.Model
		for group, name := range map[string]string{
			"phase": string(e.Phase), "agent": string(e.Agent), "model": model, "why": cmp.Or(why[s.ExecutionID], firstTime),
			"row": string(e.Phase) + " · " + string(e.Agent) + " · " + model,
		} {
			if by[group] == nil {
				by[group] = map[string]contract.Usage{}
			}
			by[group][name] = by[group][name].Add(s.Usage)
		}
		p.Usage = p.Usage.Add(s.Usage)
		p.Open += s.Open
	}
	p.Groups = []CostGroup{{"By phase", rowsOf(by["phase"])}, {"By agent", rowsOf(by["agent"])}, {"By model", rowsOf(by["model"])}}
	p.Why, p.Rows = CostGroup{"Cost of healing", rowsOf(by["why"])}, rowsOf(by["row"])
}

func rowsOf(by map[string]contract.Usage) []CostRow {
	var out []CostRow
	for name, u := range by {
		out = append(out, CostRow{name, u})
	}
	slices.SortFunc(out, func(a, b CostRow) int {
		return cmp.Or(cmp.Compare(b.MicroUSD, a.MicroUSD), cmp.Compare(b.tokens(), a.tokens()), strings.Compare(a.Name, b.Name))
	})
	return out
}

// reasons returns why executions were repeated.
func reasons(work, heals []views.Span, replays []views.Replay) map[int64]string {
	type owner struct {
		phase contract.Phase
		step  string
		round int
	}
	out, latest := map[int64]string{}, map[owner]views.Span{}
	for _, e := range work {
		round := 0
		for _, r := range replays {
			if r.ExecutionID != 0 && r.ExecutionID <= e.ExecutionID {
				round++
			}
		}
		o := owner{e.Phase, e.Step, round}
		before, repeated := latest[o]
		latest[o] = e
		switch {
		case e.Step == contract.StepRepair:
			out[e.ExecutionID] = forHeal
		case repeated && slices.ContainsFunc(heals, func(h views.Span) bool {
			return h.Kind == views.SpanHeal && !h.From.Before(before.From) && !h.From.After(e.From)
		}):
			out[e.ExecutionID] = forHeal
		case round > 0:
			out[e.ExecutionID] = forReplay
		case repeated:
			out[e.ExecutionID] = again
		}
	}
	return out
}

// healing returns the cost of heals.
func (p *CostPage) healing() contract.Usage {
	for _, r := range p.Why.Rows {
		if r.Name == forHeal {
			return r.Usage
		}
	}
	return contract.Usage{}
}

// chartWidth and chartHeight are the inner dimensions of the spending chart.
const (
	chartWidth  = 1000
	chartHeight = 180
)

// top returns the highest value of the chart.
func (p *CostPage) top() int64 {
	var most int64 = 1
	if len(p.Over) > 0 {
		most = max(most, p.Over[len(p.Over)-1])
	}
	if p.Limit > 0 && p.limitShown() {
		most = max(most, p.Limit)
	}
	return most
}

// limitShown reports whether the budget is low enough to be in the chart: a much higher one would
// flatten the line.
func (p *CostPage) limitShown() bool {
	const near = 4
	return p.Limit > 0 && len(p.Over) > 0 && p.Limit <= near*max(1, p.Over[len(p.Over)-1])
}

func (p *CostPage) y(v int64) float64 {
	const head = 0.92
	return chartHeight * (1 - head*float64(v)/float64(p.top()))
}

// line returns the path of spending over time; closed, it includes the area below.
func (p *CostPage) line(closed bool) string {
	var b strings.Builder
	fmt.Fprintf(&b, "M0 %d", chartHeight)
	for i, v := range p.Over {
		fmt.Fprintf(&b, " H%s V%s", number(float64(i+1)*chartWidth/float64(len(p.Over))), number(p.y(v)))
	}
	if closed {
		fmt.Fprintf(&b, " V%d Z", chartHeight)
	}
	return b.String()
}

func number(f float64) string { return strconv.FormatFloat(f, 'f', 1, 64) }

// used formats an amount of the chart that was spent.
func (p *CostPage) used(v int64) string {
	return contract.MarkEstimated(p.amount(v), p.Usage.EstimatedPrice && !p.InTokens)
}

// spent is the last value of the chart.
func (p *CostPage) spent() int64 { return p.Over[len(p.Over)-1] }

// head formats the highest value of the chart.
func (p *CostPage) head() string {
	if top := p.top(); top != p.spent() {
		return p.amount(top)
	}
	return p.used(p.spent())
}

// amount formats a value of the chart.
func (p *CostPage) amount(v int64) string {
	if p.InTokens {
		return Count(v) + " tokens"
	}
	return Dollars(v)
}
