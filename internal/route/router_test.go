package route_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/model"
	"github.com/rocketgpt/orchestrator/internal/route"
)

var (
	dear  = contract.ModelChoice{Provider: "p", Model: "dear"}
	cheap = contract.ModelChoice{Provider: "p", Model: "cheap"}
)

// worker is what a router of the tests finds out, and how often it read settings.
type worker struct {
	settings contract.Settings
	out      map[string]string
	outFor   map[string]time.Duration
	current  contract.ModelChoice
	left     int64
	bound    int64
	outcomes map[contract.ModelChoice]route.Outcomes
	reads    int
}

func (w *worker) router() *route.Router {
	return &route.Router{
		Settings: func(context.Context, int64) (contract.Settings, error) { w.reads++; return w.settings, nil },
		Entry: func(c contract.ModelChoice) (model.CatalogueEntry, bool) {
			e := candidate(c.Model, 0.1, 0.4, nil).Entry
			if c.Model == "dear" {
				e = candidate(c.Model, 5, 25, nil).Entry
				e.Scores = []model.Score{{Name: "coding", Value: 0.8, Source: "bench"}, {Name: "reasoning", Value: 0.9, Source: "bench"}}
			}
			return e, true
		},
		Out: func(_ context.Context, c contract.ModelChoice) (string, time.Duration) {
			return w.out[c.Model], w.outFor[c.Model]
		},
		Outcomes: func(context.Context, int64, contract.Agent) (map[contract.ModelChoice]route.Outcomes, error) {
			return w.outcomes, nil
		},
	}
}

func run(strategy contract.RouteStrategy) *worker {
	return &worker{left: -1, settings: contract.Settings{
		Models: map[contract.Agent]contract.ModelChoice{contract.AgentBuilder: dear},
		Routing: &contract.Routing{
			Strategies: map[contract.Agent]contract.RouteStrategy{contract.AgentBuilder: strategy}, Candidates: []contract.ModelChoice{cheap},
		},
	}}
}

func (w *worker) call(own contract.ModelChoice) route.Call {
	return route.Call{
		Execution: contract.ExecutionRef{ID: 7, RunID: 42, Agent: contract.AgentBuilder, Attempt: 1}, Own: own,
		Facts: func(context.Context) (route.Facts, error) {
			return route.Facts{Prompt: 20_000, Bound: w.bound, MinOutput: 1_000, Tools: true, Current: w.current, Cached: 19_000, Left: w.left}, nil
		},
	}
}

// route decides about a call of the run's builder with its own model.
func (w *worker) route(t *testing.T) route.Decision {
	t.Helper()
	d, err := w.router().Route(t.Context(), w.call(dear))
	require.NoError(t, err)
	return d
}

func TestARunsStrategyChoosesAmongItsModels(t *testing.T) {
	t.Parallel()
	for strategy, want := range map[contract.RouteStrategy]contract.ModelChoice{
		contract.RouteCheapest: cheap, contract.RouteBest: dear, contract.RouteBalanced: cheap, contract.RouteFixed: dear,
	} {
		d := run(strategy).route(t)
		require.Equal(t, want, d.Choice, strategy)
		require.Equal(t, strategy, d.Strategy)
	}
}

func TestAnAgentThatWasSwitchedToAnotherModelKeepsIt(t *testing.T) {
	t.Parallel()
	switched := contract.ModelChoice{Provider: "p", Model: "switched"}
	w := run(contract.RouteCheapest)
	d, err := w.router().Route(t.Context(), w.call(switched))
	require.NoError(t, err)
	require.Equal(t, switched, d.Choice)
	require.Equal(t, contract.RouteFixed, d.Strategy)
}

func TestARunWithoutRoutingReadsItsSettingsOnce(t *testing.T) {
	t.Parallel()
	w := run(contract.RouteCheapest)
	w.settings.Routing = nil
	r := w.router()
	for range 50 {
		d, err := r.Route(t.Context(), w.call(dear))
		require.NoError(t, err)
		require.Equal(t, dear, d.Choice)
	}
	require.Equal(t, 1, w.reads)
}

func TestALaterTurnStaysWithTheModelOfTheConversation(t *testing.T) {
	t.Parallel()
	w := run(contract.RouteCheapest)
	w.current = dear
	d := w.route(t)
	require.Equal(t, dear, d.Choice)
	require.Contains(t, fmt.Sprint(d.Reasons), "stays with p/dear")

	w.out = map[string]string{"dear": "its circuit breaker is open"}
	require.Equal(t, cheap, w.route(t).Choice, "but not while it is out")
}

func TestWhatTheBudgetsHaveLeftAndEarlierRunsCount(t *testing.T) {
	t.Parallel()
	w := run(contract.RouteBest)
	w.left = 10_000 // a cent
	require.Equal(t, cheap, w.route(t).Choice)

	w = run(contract.RouteBest)
	w.outcomes = map[contract.ModelChoice]route.Outcomes{dear: {Bad: 40}, cheap: {Good: 40}}
	require.Equal(t, dear, w.route(t).Choice, "the run does not learn")
	w.settings.Routing.Learn = true
	require.Equal(t, cheap, w.route(t).Choice)
}

func TestTheBudgetsMustCoverTheLongestPossiblePrompt(t *testing.T) {
	t.Parallel()
	w := run(contract.RouteBest)
	w.left, w.bound = 300_000, 20_000 // a third of a dollar
	require.Equal(t, dear, w.route(t).Choice)
	w.bound = 60_000 // at $5 a million tokens, $0.30 without a response
	d := w.route(t)
	require.Equal(t, cheap, d.Choice)
	require.Contains(t, fmt.Sprint(d.PassedOver), "it can cost $0.325, and the budgets have $0.30 left")
}

func TestAMemberOfADeliberationIsRoutedToo(t *testing.T) {
	t.Parallel()
	w := run(contract.RouteCheapest)
	w.settings.Routing.Strategies[contract.AgentGamma] = contract.RouteCheapest
	w.settings.Deliberation = &contract.DeliberationSettings{Models: map[contract.Agent]contract.ModelChoice{contract.AgentGamma: dear}}
	c := w.call(dear)
	c.Execution.Agent = contract.AgentGamma
	d, err := w.router().Route(t.Context(), c)
	require.NoError(t, err)
	require.Equal(t, cheap, d.Choice)
}

func TestTheScoreOfAnAgentIsThatOfItsWork(t *testing.T) {
	t.Parallel()
	e := model.CatalogueEntry{Scores: []model.Score{
		{Name: "coding", Value: 0.5, Source: "bench"}, {Name: "agentic_coding", Value: 0.7, Source: "SWE-bench", Date: "2026-01-02"}, {Name: "reasoning", Value: 0.9, Source: "GPQA"},
	}}
	for agent, want := range map[contract.Agent]string{contract.AgentBuilder: "0.7 SWE-bench, 2026-01-02", contract.AgentRepair: "0.7 SWE-bench, 2026-01-02", contract.AgentPlanner: "0.9 GPQA"} {
		value, source := route.ScoreOf(e, agent)
		require.Equal(t, want, fmt.Sprintf("%g %s", *value, source), agent)
	}
	value, _ := route.ScoreOf(model.CatalogueEntry{Scores: e.Scores[:1]}, contract.AgentBuilder)
	require.InDelta(t, 0.5, *value, 0, "of coding if nothing else was measured")
	value, _ = route.ScoreOf(model.CatalogueEntry{Scores: e.Scores[:1]}, contract.AgentPlanner)
	require.Nil(t, value)
}
