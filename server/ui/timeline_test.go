package ui

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/internal/store/views"
)

var began = time.Date(2026, 3, 1, 9, 0, 0, 0, time.UTC)

func after(d time.Duration) *time.Time {
	t := began.Add(d)
	return &t
}

func span(kind views.SpanKind, from, to time.Duration) views.Span {
	return views.Span{Kind: kind, From: began.Add(from), To: after(to)}
}

func TestAnHourOfWaitingIsNarrowAndKeepsItsPlace(t *testing.T) {
	t.Parallel()
	spans := []views.Span{
		span(views.SpanModel, 0, time.Minute), span(views.SpanWait, time.Minute, 4*time.Hour), span(views.SpanTool, 4*time.Hour, 4*time.Hour+time.Minute),
	}
	s := NewScale(began, *after(4*time.Hour + time.Minute), spans, false)
	require.Len(t, s.gaps(), 1)
	require.InDelta(t, 0.485, s.X(*after(time.Minute)), 1e-9)
	require.InDelta(t, 0.515, s.X(*after(4 * time.Hour)), 1e-9)
	require.InDelta(t, 1, s.X(*after(4*time.Hour + time.Minute)), 1e-9)
	for _, at := range []time.Duration{0, 20 * time.Second, time.Minute, 2 * time.Hour, 4*time.Hour + 30*time.Second} {
		require.WithinDuration(t, *after(at), s.At(s.X(*after(at))), time.Millisecond, "a place leads back to its moment")
	}
	whole := NewScale(began, *after(4*time.Hour + time.Minute), spans, true)
	require.Empty(t, whole.gaps())
	require.InDelta(t, 1.0/241, whole.X(*after(time.Minute)), 1e-9)
}

func TestLabelsOfTheAxisNeverCrowd(t *testing.T) {
	t.Parallel()
	for _, whole := range []time.Duration{time.Millisecond, 7 * time.Second, time.Minute, 41 * time.Minute, 9 * time.Hour, 9 * 24 * time.Hour, 400 * 24 * time.Hour} {
		ticks := NewScale(began, *after(whole), []views.Span{span(views.SpanModel, 0, whole)}, false).ticks(began)
		require.NotEmpty(t, ticks, whole)
		require.LessOrEqual(t, len(ticks), 13, whole)
		for i := 1; i < len(ticks); i++ {
			require.Greater(t, ticks[i].X-ticks[i-1].X, 0.08, whole)
			require.NotEqual(t, ticks[i].Word, ticks[i-1].Word, whole)
		}
	}
}

// manySteps is a run of a number of steps, each with its execution and calls.
func manySteps(steps, calls int) Timeline {
	t := Timeline{Query: TimelineQuery{Run: 1}, Start: began, From: began, Now: began.Add(time.Hour), To: began.Add(time.Hour), End: began.Add(time.Hour)}
	for i := range steps {
		at := time.Duration(i) * time.Second
		step := fmt.Sprintf("step-%03d", i+1)
		e := span(views.SpanStep, at, at+time.Minute)
		e.Key, e.ExecutionID, e.Phase, e.Step, e.Attempt = fmt.Sprintf("exec-%d", i+1), int64(i+1), contract.PhaseBuilder, step, 1
		t.Spans = append(t.Spans, e)
		for c := range calls {
			from := at + time.Duration(c)*time.Minute/time.Duration(calls)
			call := span(views.SpanModel, from, from+time.Second)
			call.Key, call.ExecutionID, call.Status = fmt.Sprintf("call-%d-%d", i, c), int64(i+1), contract.ExecutionCompleted
			t.Spans = append(t.Spans, call)
		}
	}
	return t
}

func TestManyLanesAreFoldedAndCanBeUnfolded(t *testing.T) {
	t.Parallel()
	tl := manySteps(90, 2)
	tl.Draw()
	require.Len(t, tl.Lanes, lanesShown+1)
	require.Equal(t, "50 more steps", tl.Lanes[lanesShown].Name)
	require.Len(t, tl.Lanes[lanesShown].Bars, 50, "a bar for each step that is folded")
	require.Contains(t, tl.Lanes[lanesShown].Href, "lanes=all")
	all := manySteps(90, 2)
	all.Query.Lanes = true
	all.Draw()
	require.Len(t, all.Lanes, 90)
}

func TestBarsLieSideBySideAndAreNeverTooThinToSee(t *testing.T) {
	t.Parallel()
	tl := manySteps(1, 0)
	for i := range 3 {
		s := span(views.SpanTool, 10*time.Second, 10*time.Second+time.Millisecond)
		s.Key, s.ExecutionID = fmt.Sprintf("tool-1-1-%d", i), 1
		tl.Spans = append(tl.Spans, s)
	}
	tl.Draw()
	seen := map[int]bool{}
	for _, b := range tl.Lanes[0].Bars[1:] {
		require.GreaterOrEqual(t, b.W, narrowest)
		require.LessOrEqual(t, b.X+b.W, 1.0000001)
		require.False(t, seen[b.Y], "three at the same time are in three rows")
		seen[b.Y] = true
		require.LessOrEqual(t, b.Y+b.H, tl.Lanes[0].Height)
	}
}

func TestHiddenSpansAndThoseOutsideTheWindowAreNotDrawn(t *testing.T) {
	t.Parallel()
	tl := manySteps(2, 3)
	tl.Query.Hidden = []views.SpanKind{views.SpanModel}
	tl.Draw()
	for _, l := range tl.Lanes {
		for _, b := range l.Bars {
			require.NotEqual(t, views.SpanModel, b.Kind)
		}
	}
	zoomed := manySteps(2, 3)
	zoomed.From, zoomed.To = began.Add(30*time.Minute), began.Add(31*time.Minute)
	zoomed.Draw()
	require.Empty(t, zoomed.Lanes)
}

func TestZoomingInAndOutComesBackToTheWhole(t *testing.T) {
	t.Parallel()
	tl := manySteps(1, 1)
	tl.Query.Gaps = true
	tl.Draw()
	require.Equal(t, "/runs/1/timeline?from=900000&gaps=all&to=2700000", tl.zoom(0.25, 0.75))
	tl.From, tl.To, tl.Query.From, tl.Query.To = began.Add(15*time.Minute), began.Add(45*time.Minute), 15*time.Minute, 45*time.Minute
	tl.Draw()
	require.Equal(t, "/runs/1/timeline?gaps=all", tl.zoom(-0.5, 1.5))
}

func chainOf(steps int, needs func(i int) []int) contract.Plan {
	var p contract.Plan
	for i := range steps {
		s := contract.Step{ID: fmt.Sprintf("step-%03d", i+1), Name: "a step"}
		for _, n := range needs(i) {
			s.Dependencies = append(s.Dependencies, fmt.Sprintf("step-%03d", n+1))
		}
		p.Steps = append(p.Steps, s)
	}
	return p
}

func TestStepsOfAPlanStandAfterWhatTheyNeedAndNeverOnEachOther(t *testing.T) {
	t.Parallel()
	plan := chainOf(contract.MaxPlanSteps, func(i int) []int {
		switch {
		case i < 5:
			return nil
		case i%3 == 0:
			return []int{i - 5, i / 2}
		default:
			return []int{i - 4}
		}
	})
	g := DrawPlan(plan, nil, store.Run{}, PlanQuery{})
	require.Len(t, g.Nodes, contract.MaxPlanSteps)
	at := map[string]PlanNode{}
	for _, n := range g.Nodes {
		at[n.ID] = n
		require.LessOrEqual(t, n.X+nodeWidth, g.Width)
		require.LessOrEqual(t, n.Y+nodeHeight, g.Height)
		require.GreaterOrEqual(t, n.Y, 0)
	}
	for i, a := range g.Nodes {
		for _, b := range g.Nodes[i+1:] {
			require.False(t, a.X == b.X && a.Y < b.Y+nodeHeight && b.Y < a.Y+nodeHeight, "%s covers %s", a.ID, b.ID)
		}
	}
	for _, e := range g.Edges {
		require.Less(t, at[e.From].X+nodeWidth, at[e.To].X, e)
	}
	require.NotEmpty(t, g.Edges)
}

func TestAPlanThatCannotBeCarriedOutIsShownAllTheSame(t *testing.T) {
	t.Parallel()
	circle := chainOf(3, func(i int) []int { return []int{(i + 1) % 3} })
	require.Len(t, DrawPlan(circle, nil, store.Run{}, PlanQuery{Critical: true}).Nodes, 3)
	unknown := contract.Plan{Steps: []contract.Step{{ID: "a", Dependencies: []string{"nowhere", "a"}}, {ID: "a"}}}
	require.NotPanics(t, func() { DrawPlan(unknown, nil, store.Run{}, PlanQuery{Critical: true}) })
}

func TestTheLongestChainIsThatWhichTookLongest(t *testing.T) {
	t.Parallel()
	plan := chainOf(4, func(i int) []int { return [][]int{nil, {0}, {0}, {1, 2}}[i] })
	var work []views.Span
	for i, took := range []time.Duration{time.Second, time.Minute, 2 * time.Minute, time.Second} {
		s := span(views.SpanStep, 0, took)
		s.Phase, s.Step, s.Status = contract.PhaseBuilder, plan.Steps[i].ID, contract.ExecutionCompleted
		work = append(work, s)
	}
	g := DrawPlan(plan, work, store.Run{}, PlanQuery{Critical: true})
	var chain []string
	for _, n := range g.Nodes {
		if n.Critical {
			chain = append(chain, n.ID)
		}
	}
	require.Equal(t, []string{"step-001", "step-003", "step-004"}, chain)
	require.Equal(t, 2*time.Minute+2*time.Second, g.ChainTook)
}

func TestVersionsOfAPlanAreCompared(t *testing.T) {
	t.Parallel()
	before := chainOf(3, func(int) []int { return nil })
	after := chainOf(4, func(int) []int { return nil })
	after.Steps = after.Steps[1:]
	after.Steps[0].Files, after.Steps[0].Description = []string{"a.go"}, "more"
	after.Steps[1].Files = []string{}
	require.Equal(t, []StepChange{
		{"step-002", "a step", "changed", []string{"description", "files"}}, {"step-004", "a step", "added", nil}, {"step-001", "a step", "removed", nil},
	}, ComparePlans(before, after))
}

func TestHealsAndReplaysArePaidForApart(t *testing.T) {
	t.Parallel()
	work := make([]views.Span, 5)
	for i := range work {
		work[i] = span(views.SpanStep, time.Duration(i)*time.Minute, time.Duration(i+1)*time.Minute)
		work[i].ExecutionID, work[i].Phase, work[i].Step = int64(i+1), contract.PhaseBuilder, "step-001"
	}
	work[2].Step = contract.StepRepair
	heal := span(views.SpanHeal, 30*time.Second, time.Hour)
	var spending []views.Spending
	for i := range work {
		spending = append(spending, views.Spending{ExecutionID: int64(i + 1), Provider: "p", Model: "m", Usage: contract.Usage{Calls: 1, MicroUSD: 1 << i}})
	}
	var p CostPage
	// 1 first, 2 after the heal, 3 the Repair agent, 4 by a replay, 5 again in it without a heal.
	p.Reckon(spending, work, []views.Span{heal}, []views.Replay{{ExecutionID: 4}})
	got := map[string]int64{}
	for _, r := range p.Why.Rows {
		got[r.Name] = r.MicroUSD
	}
	require.Equal(t, map[string]int64{firstTime: 1, forHeal: 2 + 4, forReplay: 8 + 16}, got)
	require.EqualValues(t, 31, p.Usage.MicroUSD)
	for _, g := range p.Groups {
		var all int64
		for _, r := range g.Rows {
			all += r.MicroUSD
		}
		require.EqualValues(t, 31, all, g.Title)
	}
}

func BenchmarkDrawTwoThousandBars(b *testing.B) {
	for b.Loop() {
		t := manySteps(40, 50)
		t.Draw()
		require.Len(b, t.Lanes, 40)
	}
}
