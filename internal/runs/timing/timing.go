// Package timing computes how a run spent its time.
package timing

import (
	"slices"
	"time"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/internal/store/views"
)

// Part is one kind of work in a run.
type Part struct {
	Name   string `json:"name"`
	Count  int    `json:"count"`   // pieces of work
	BusyMS int64  `json:"busy_ms"` // sum of all durations, including parallel ones
	WallMS int64  `json:"wall_ms"` // wall time during which this part, and none listed before it, was running
}

// Timing is how a run spent its time. The wall times of the parts add up to the wall time of the
// run. Critical is the longest chain of sequential agent work (model, tools, tests): the time that
// the run would have taken without orchestration. Ratio is the wall time divided by Critical.
type Timing struct {
	RunID      int64   `json:"runId"`
	WallMS     int64   `json:"wall_ms"`
	CriticalMS int64   `json:"critical_path_ms"`
	Ratio      float64 `json:"ratio"`
	Parts      []Part  `json:"parts"`
}

// Span is the time of one piece of work.
type Span struct {
	From, To time.Time
}

// Group is a kind of work with its spans.
type Group struct {
	Name  string
	Spans []Span
}

// The names of the parts.
const (
	Environment   = "environment"
	Baseline      = "baseline"
	Model         = "model"
	Tools         = "tools"
	Tests         = "tests"
	Git           = "git"
	Queue         = "queue"
	Orchestration = "orchestration"
)

// Of returns how a run spent its time, based on its database rows and its workflow histories (git,
// queue). Overlapping work is counted once, for the part that is listed first.
func Of(run store.Run, plan contract.Plan, rows views.Timing, more ...Group) Timing {
	end := time.Now()
	if run.FinishedAt != nil {
		end = *run.FinishedAt
	}
	whole := Span{run.CreatedAt, end}
	groups := append(preparing(rows.Preparing, end), modelCalls(rows), toolCalls(rows), checks(rows))
	groups = append(groups, more...)
	t := Timing{RunID: run.ID, WallMS: end.Sub(run.CreatedAt).Milliseconds(), CriticalMS: critical(plan, rows).Milliseconds()}
	t.Parts = attribute(whole, groups)
	if t.CriticalMS > 0 {
		t.Ratio = float64(t.WallMS) / float64(t.CriticalMS)
	}
	return t
}

// preparing returns when the environment was created or fetched, and when the checks ran on the
// base commit. Unfinished work lasts until end.
func preparing(events []contract.Event, end time.Time) []Group {
	environment, baseline := Group{Name: Environment}, Group{Name: Baseline}
	var open *Group
	var from time.Time
	ended := func(at time.Time) {
		if open != nil {
			open.Spans = append(open.Spans, Span{from, at})
			open = nil
		}
	}
	for _, e := range events {
		ended(e.CreatedAt)
		switch e.Type {
		case contract.EventEnvironmentStarted:
			open, from = &environment, e.CreatedAt
		case contract.EventBaselineStarted:
			open, from = &baseline, e.CreatedAt
		default: // an end
		}
	}
	ended(end)
	return []Group{environment, baseline}
}

func modelCalls(rows views.Timing) Group {
	g := Group{Name: Model}
	for _, c := range rows.ModelCalls {
		if c.FinishedAt != nil {
			g.Spans = append(g.Spans, Span{c.StartedAt, *c.FinishedAt})
		}
	}
	return g
}

func toolCalls(rows views.Timing) Group {
	g := Group{Name: Tools}
	for _, c := range rows.ToolCalls {
		g.Spans = append(g.Spans, Span{c.StartedAt, c.FinishedAt})
	}
	return g
}

func checks(rows views.Timing) Group {
	g := Group{Name: Tests}
	for _, c := range rows.Checks {
		g.Spans = append(g.Spans, Span{c.StartedAt, c.FinishedAt})
	}
	return g
}

// attribute divides a span among groups: each moment is attributed to the first active group, or to
// orchestration if no group was active.
func attribute(whole Span, groups []Group) []Part {
	cuts := []time.Time{whole.From, whole.To}
	for _, g := range groups {
		for _, s := range g.Spans {
			for _, at := range []time.Time{s.From, s.To} {
				if at.After(whole.From) && at.Before(whole.To) {
					cuts = append(cuts, at)
				}
			}
		}
	}
	slices.SortFunc(cuts, time.Time.Compare)
	wall := make([]time.Duration, len(groups)+1)
	for i := 1; i < len(cuts); i++ {
		from, to := cuts[i-1], cuts[i]
		owner := slices.IndexFunc(groups, func(g Group) bool {
			return slices.ContainsFunc(g.Spans, func(s Span) bool { return !s.From.After(from) && !s.To.Before(to) })
		})
		if owner < 0 {
			owner = len(groups)
		}
		wall[owner] += to.Sub(from)
	}
	parts := make([]Part, 0, len(wall))
	for i, g := range groups {
		p := Part{Name: g.Name, Count: len(g.Spans), WallMS: wall[i].Milliseconds()}
		for _, s := range g.Spans {
			p.BusyMS += s.To.Sub(s.From).Milliseconds()
		}
		parts = append(parts, p)
	}
	rest := wall[len(groups)].Milliseconds()
	return append(parts, Part{Name: Orchestration, BusyMS: rest, WallMS: rest})
}

// critical returns the length of the longest chain of agent work: the planner's calls, the longest
// path through the step graph, and the longest check of each verification stage. Only the last
// attempts count.
func critical(plan contract.Plan, rows views.Timing) time.Duration {
	work := map[int64]time.Duration{}
	for _, c := range rows.ModelCalls {
		work[c.ExecutionID] += time.Duration(c.LatencyMS) * time.Millisecond
	}
	for _, c := range rows.ToolCalls {
		work[c.ExecutionID] += c.FinishedAt.Sub(c.StartedAt)
	}
	var planner time.Duration
	steps := map[string]time.Duration{}
	var tester int64
	for _, e := range rows.Executions {
		switch {
		case e.Step != "":
			steps[e.Step] = work[e.ID]
		case e.Phase == contract.PhasePlanner:
			planner = work[e.ID]
		case e.Phase == contract.PhaseTester:
			tester = e.ID
		}
	}
	longest := map[contract.Category]time.Duration{}
	for _, c := range rows.Checks {
		if c.ExecutionID == tester {
			longest[c.Result.Check.Category] = max(longest[c.Result.Check.Category], c.FinishedAt.Sub(c.StartedAt))
		}
	}
	total := planner + longestPath(plan, steps)
	for _, d := range longest {
		total += d
	}
	return total
}

func longestPath(plan contract.Plan, steps map[string]time.Duration) time.Duration {
	until := map[string]time.Duration{}
	var most time.Duration
	for _, id := range plan.Order() {
		step, _ := plan.Step(id)
		var start time.Duration
		for _, d := range step.Dependencies {
			start = max(start, until[d])
		}
		until[id] = start + steps[id]
		most = max(most, until[id])
	}
	return most
}
