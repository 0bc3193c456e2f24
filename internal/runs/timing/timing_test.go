package timing

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/internal/store/views"
)

var zero = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func at(ms int) time.Time { return zero.Add(time.Duration(ms) * time.Millisecond) }

func span(from, to int) Span { return Span{at(from), at(to)} }

func TestEachMomentBelongsToTheFirstPartThatWasAtWork(t *testing.T) {
	t.Parallel()
	parts := attribute(span(0, 100), []Group{
		{Name: Model, Spans: []Span{span(10, 30), span(20, 40)}},
		{Name: Tools, Spans: []Span{span(35, 50)}},
		{Name: Queue, Spans: []Span{span(90, 200)}},
	})
	require.Equal(t, []Part{
		{Name: Model, Count: 2, BusyMS: 40, WallMS: 30},
		{Name: Tools, Count: 1, BusyMS: 15, WallMS: 10},
		{Name: Queue, Count: 1, BusyMS: 110, WallMS: 10},
		{Name: Orchestration, BusyMS: 50, WallMS: 50},
	}, parts)
}

func TestTheCriticalPathIsTheLongestChainOfAgentsWork(t *testing.T) {
	t.Parallel()
	plan := contract.Plan{Steps: []contract.Step{{ID: "a"}, {ID: "b", Dependencies: []string{"a"}}, {ID: "c", Dependencies: []string{"a"}}}}
	execution := func(id int64, phase contract.Phase, step string) store.Execution {
		return store.Execution{ExecutionRef: contract.ExecutionRef{ID: id, Phase: phase, Step: step}}
	}
	check := func(category contract.Category, ms int) store.Check {
		return store.Check{ExecutionID: 9, Result: contract.CheckResult{Check: contract.Check{Category: category}}, StartedAt: at(0), FinishedAt: at(ms)}
	}
	got := critical(plan, views.Timing{
		Executions: []store.Execution{execution(1, "planner", ""), execution(2, "builder", "a"), execution(3, "builder", "b"), execution(4, "builder", "c"), execution(9, "tester", "")},
		ModelCalls: []store.ModelCall{{ExecutionID: 1, LatencyMS: 5}, {ExecutionID: 2, LatencyMS: 10}, {ExecutionID: 3, LatencyMS: 20}, {ExecutionID: 4, LatencyMS: 30}},
		ToolCalls:  []store.ToolCall{{ExecutionID: 3, StartedAt: at(0), FinishedAt: at(50)}},
		Checks:     []store.Check{check(contract.CategoryBuild, 7), check(contract.CategoryTest, 3), check(contract.CategoryTest, 4)},
	})
	require.Equal(t, (5+10+20+50+7+4)*time.Millisecond, got)
}

func TestEnvironmentAndBaselineAreSpansOfTheirOwn(t *testing.T) {
	t.Parallel()
	event := func(kind contract.EventType, ms int) contract.Event {
		return contract.Event{Type: kind, CreatedAt: at(ms)}
	}
	groups := preparing([]contract.Event{
		event(contract.EventEnvironmentStarted, 1), event(contract.EventEnvironmentError, 5), event(contract.EventEnvironmentStarted, 10), event(contract.EventEnvironmentReady, 20),
		event(contract.EventBaselineStarted, 21),
	}, at(30))
	require.Equal(t, []Group{{Name: Environment, Spans: []Span{span(1, 5), span(10, 20)}}, {Name: Baseline, Spans: []Span{span(21, 30)}}}, groups)
}
