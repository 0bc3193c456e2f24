package route_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/budget"
	"github.com/rocketgpt/orchestrator/internal/fault"
	"github.com/rocketgpt/orchestrator/internal/model"
	"github.com/rocketgpt/orchestrator/internal/route"
)

var update = flag.Bool("update", false, "rewrite the golden decisions")

// unordered lists the strategies that ignore the order of the candidates.
var unordered = []contract.RouteStrategy{contract.RouteCheapest, contract.RouteBest, contract.RouteBalanced}

func score(x float64) *float64 { return &x }

// candidate returns a model with tools, a schema and a window of 200,000 tokens.
func candidate(name string, in, out float64, s *float64) route.Candidate {
	return route.Candidate{
		Choice: contract.ModelChoice{Provider: "p", Model: name}, Known: true, Score: s, ScoreSource: "bench, 2026-11-01",
		Entry: model.CatalogueEntry{
			Provider: "p", Model: name, ContextWindow: 200_000, MaxOutput: 32_000, PriceIn: in, PriceCached: in / 10, PriceOut: out,
			Capabilities: []model.Capability{model.CapabilityTools, model.CapabilityJSONSchema},
		},
	}
}

func need(agent contract.Agent) route.Need {
	return route.Need{Agent: agent, Prompt: 20_000, Output: 2_000, MinOutput: 1_000, Tools: true, Importance: 0.5, Left: -1}
}

// anyCandidates draws up to six models with distinct names.
func anyCandidates(t *rapid.T) []route.Candidate {
	n := rapid.IntRange(1, 6).Draw(t, "candidates")
	out := make([]route.Candidate, n)
	for i := range out {
		c := candidate(fmt.Sprintf("m%d", i), rapid.Float64Range(0, 20).Draw(t, "in"), rapid.Float64Range(0, 80).Draw(t, "out"), nil)
		c.Entry.ContextWindow = rapid.SampledFrom([]int64{0, 8_000, 32_000, 200_000}).Draw(t, "window")
		c.Entry.MaxOutput = rapid.SampledFrom([]int64{0, 512, 8_000}).Draw(t, "max output")
		c.Entry.Capabilities = rapid.SliceOfDistinct(rapid.SampledFrom([]model.Capability{
			model.CapabilityTools, model.CapabilityJSONSchema, model.CapabilityVision, model.CapabilityEmbeddings, model.CapabilityFixedTemperature,
		}), rapid.ID).Draw(t, "capabilities")
		c.Known = rapid.Bool().Draw(t, "known")
		if rapid.Bool().Draw(t, "scored") {
			c.Score = score(rapid.Float64Range(0, 1).Draw(t, "score"))
		}
		if rapid.IntRange(0, 4).Draw(t, "out of order") == 0 {
			c.Out = "its circuit breaker is open"
		}
		c.Outcomes = route.Outcomes{Good: rapid.Int64Range(0, 50).Draw(t, "good"), Bad: rapid.Int64Range(0, 50).Draw(t, "bad")}
		out[i] = c
	}
	return out
}

func anyNeed(t *rapid.T, candidates []route.Candidate) route.Need {
	n := route.Need{
		Agent:     rapid.SampledFrom(contract.Agents()).Draw(t, "agent"),
		Prompt:    rapid.Int64Range(0, 250_000).Draw(t, "prompt"),
		Output:    rapid.Int64Range(1, 8_000).Draw(t, "output"),
		MinOutput: rapid.Int64Range(1, 2_000).Draw(t, "min output"),
		Tools:     rapid.Bool().Draw(t, "tools"), Schema: rapid.Bool().Draw(t, "schema"),
		Images: rapid.Bool().Draw(t, "images"), Temperature: rapid.Bool().Draw(t, "temperature"),
		Importance: rapid.Float64Range(0, 1).Draw(t, "importance"),
		Left:       rapid.Int64Range(-1, 500_000).Draw(t, "left"),
	}
	if rapid.Bool().Draw(t, "has begun") {
		n.Current = rapid.SampledFrom(candidates).Draw(t, "current").Choice
		n.Cached = rapid.Int64Range(0, n.Prompt).Draw(t, "cached")
	}
	return n
}

func find(candidates []route.Candidate, choice contract.ModelChoice) route.Candidate {
	for _, c := range candidates {
		if c.Choice == choice {
			return c
		}
	}
	return route.Candidate{}
}

// cannot reports whether a model cannot make a call, written independently of the package.
func cannot(n route.Need, c route.Candidate) bool {
	e := c.Entry
	onlyEmbeds := e.Can(model.CapabilityEmbeddings) && !e.Can(model.CapabilityTools) && !e.Can(model.CapabilityJSONSchema)
	return c.Out != "" || onlyEmbeds || n.Tools && !e.Can(model.CapabilityTools) ||
		e.ContextWindow > 0 && e.ContextWindow < n.Prompt+n.MinOutput || e.MaxOutput > 0 && e.MaxOutput < n.MinOutput
}

func TestAModelThatCannotMakeTheCallIsNeverChosen(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		candidates := anyCandidates(t)
		n := anyNeed(t, candidates)
		d, err := route.Decide(n, candidates, route.Policy{Strategy: rapid.SampledFrom(unordered).Draw(t, "strategy")})
		able := 0
		for _, c := range candidates {
			if !cannot(n, c) {
				able++
			}
		}
		if able == 0 {
			require.Error(t, err)
			require.Len(t, d.PassedOver, len(candidates))
			return
		}
		require.NoError(t, err)
		require.False(t, cannot(n, find(candidates, d.Choice)), "%+v", d)
		require.NotEmpty(t, d.Reasons)
	})
}

func TestTheOrderOfCandidatesDoesNotMatterExceptToFixed(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		candidates := anyCandidates(t)
		n := anyNeed(t, candidates)
		p := route.Policy{Strategy: rapid.SampledFrom(unordered).Draw(t, "strategy")}
		first, err := route.Decide(n, candidates, p)
		seed := rapid.Uint64().Draw(t, "seed")
		rand.New(rand.NewPCG(seed, seed)).Shuffle(len(candidates), func(i, j int) { candidates[i], candidates[j] = candidates[j], candidates[i] })
		second, again := route.Decide(n, candidates, p)
		require.Equal(t, err == nil, again == nil)
		require.Equal(t, first.Choice, second.Choice)
		require.Equal(t, first.Reasons, second.Reasons)
	})
}

func TestADearerModelHasAReasonThatNamesThePriceDifference(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		candidates := anyCandidates(t)
		n := anyNeed(t, candidates)
		n.Current, n.Cached = contract.ModelChoice{}, 0
		s := rapid.SampledFrom(unordered).Draw(t, "strategy")
		d, err := route.Decide(n, candidates, route.Policy{Strategy: s})
		if err != nil {
			return
		}
		passed := map[string]bool{}
		for _, p := range d.PassedOver {
			passed[p.Model] = true
		}
		cheapest := d.ExpectedMicroUSD
		for _, c := range candidates {
			if !passed[c.Choice.Model] {
				cheapest = min(cheapest, model.Cost(contract.Usage{PromptTokens: n.Prompt, CompletionTokens: n.Output}, c.Entry))
			}
		}
		if s == contract.RouteCheapest {
			require.Equal(t, cheapest, d.ExpectedMicroUSD)
		}
		if d.ExpectedMicroUSD > cheapest {
			require.Contains(t, fmt.Sprint(d.Reasons), "it is expected to cost $")
		}
	})
}

func TestAConversationKeepsItsModelWhileThatCanMakeTheCall(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		candidates := anyCandidates(t)
		n := anyNeed(t, candidates)
		if n.Current.Model == "" || cannot(n, find(candidates, n.Current)) {
			return
		}
		d, err := route.Decide(n, candidates, route.Policy{Strategy: rapid.SampledFrom(unordered).Draw(t, "strategy")})
		require.NoError(t, err)
		require.Equal(t, n.Current, d.Choice)
	})
}

func TestFixedTakesTheAgentsModelWhateverTheCallNeeds(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		candidates := anyCandidates(t)
		d, err := route.Decide(anyNeed(t, candidates), candidates, route.Policy{Strategy: contract.RouteFixed})
		require.NoError(t, err)
		require.Equal(t, candidates[0].Choice, d.Choice)
		require.Empty(t, d.PassedOver)
		require.NotEmpty(t, d.Reasons)
	})
}

func TestTheModelsThatWereComparedAreRecordedTheChosenOneFirst(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		candidates := anyCandidates(t)
		n := anyNeed(t, candidates)
		d, err := route.Decide(n, candidates, route.Policy{Strategy: rapid.SampledFrom(unordered).Draw(t, "strategy")})
		if err != nil || len(d.Considered) == 0 {
			return
		}
		require.Len(t, d.Considered, len(candidates)-len(d.PassedOver), "every candidate was either compared or passed over")
		first := d.Considered[0]
		require.Equal(t, contract.ModelChoice{Provider: first.Provider, Model: first.Model}, d.Choice)
		require.Equal(t, d.ExpectedMicroUSD, first.ExpectedMicroUSD)
		for _, c := range d.Considered {
			require.NotEqual(t, c.Assumed, find(candidates, contract.ModelChoice{Provider: c.Provider, Model: c.Model}).Known)
			require.NotEmpty(t, c.Basis)
		}
	})
}

func TestADecisionRecordsOnlySoManyModels(t *testing.T) {
	t.Parallel()
	var many []route.Candidate
	for i := range 40 {
		many = append(many, candidate(fmt.Sprintf("m%02d", i), float64(i), float64(i), nil))
	}
	d, err := route.Decide(need(contract.AgentBuilder), many, route.Policy{Strategy: contract.RouteCheapest})
	require.NoError(t, err)
	require.Len(t, d.Considered, 10)
}

func TestACallIsRetriedIfAModelIsOnlyOutAtTheMoment(t *testing.T) {
	t.Parallel()
	small, out := candidate("small", 1, 4, nil), candidate("out", 1, 4, nil)
	small.Entry.ContextWindow, out.Out, out.OutFor = 1_000, "its circuit breaker is open until 12:00:30", time.Hour
	_, err := route.Decide(need(contract.AgentBuilder), []route.Candidate{small, out}, route.Policy{Strategy: contract.RouteBest})
	require.Equal(t, contract.ClassInfra, fault.Of(err).Class)
	require.ErrorContains(t, err, "open until 12:00:30")
	var failed *fault.Error
	require.ErrorAs(t, err, &failed)
	delay, again := failed.RetryDelay(1)
	require.True(t, again)
	require.Equal(t, time.Hour, delay, "an earlier attempt would fail too")
	keyless := candidate("keyless", 1, 4, nil)
	keyless.Out = "no key is set"
	small.Out, small.OutFor = "its circuit breaker is open", time.Minute
	_, err = route.Decide(need(contract.AgentBuilder), []route.Candidate{small, keyless}, route.Policy{Strategy: contract.RouteBest})
	require.Equal(t, contract.ClassConfig, fault.Of(err).Class, "time does not help")
	require.ErrorContains(t, err, "no key is set")
	small.Out, small.OutFor = "", 0
	_, err = route.Decide(need(contract.AgentBuilder), []route.Candidate{small}, route.Policy{Strategy: contract.RouteBest})
	require.Equal(t, contract.ClassConfig, fault.Of(err).Class)
	require.ErrorContains(t, err, "its context window of 1,000 tokens is too small for a prompt of about 20,000")
}

func TestAModelWhoseReservationTheBudgetsDoNotCoverIsNotChosen(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		candidates := anyCandidates(t)
		n := anyNeed(t, candidates)
		n.Current, n.Cached, n.Left = contract.ModelChoice{}, 0, max(n.Left, 0)
		n.Bound = n.Prompt + rapid.Int64Range(0, 500_000).Draw(t, "bound")
		n.MinReasoning = n.MinOutput + rapid.Int64Range(0, 8_000).Draw(t, "min reasoning")
		least := func(c route.Candidate) int64 {
			switch most := c.Entry.MaxOutput; {
			case !c.Entry.Can(model.CapabilityFixedTemperature): // it does not reason
				return n.MinOutput
			case most > 0:
				return min(n.MinReasoning, most)
			}
			return n.MinReasoning
		}
		reserved := func(c route.Candidate) int64 { return budget.Cost(n.Bound, least(c), c.Entry) }
		fits := func(c route.Candidate) bool {
			return !cannot(n, c) && (c.Entry.ContextWindow == 0 || n.Prompt+least(c) <= c.Entry.ContextWindow)
		}
		d, err := route.Decide(n, candidates, route.Policy{Strategy: rapid.SampledFrom(unordered).Draw(t, "strategy")})
		if err != nil {
			return
		}
		unaffordable := map[string]bool{}
		for _, p := range d.PassedOver {
			unaffordable[p.Model] = strings.Contains(p.Why, "the budgets have")
		}
		for _, c := range candidates {
			if unaffordable[c.Choice.Model] {
				require.Greater(t, reserved(c), n.Left)
			}
			if reserved(find(candidates, d.Choice)) > n.Left && fits(c) {
				require.GreaterOrEqual(t, reserved(c), reserved(find(candidates, d.Choice)), "if none fits, the budget decides about the cheapest")
			}
		}
	})
}

func TestOutcomesOutweighAScoreOnceThereAreMany(t *testing.T) {
	t.Parallel()
	praised, proven := candidate("praised", 1, 4, score(0.9)), candidate("proven", 1, 4, score(0.6))
	best := func() string {
		d, err := route.Decide(need(contract.AgentBuilder), []route.Candidate{praised, proven}, route.Policy{Strategy: contract.RouteBest})
		require.NoError(t, err)
		return d.Choice.Model
	}
	require.Equal(t, "praised", best())
	proven.Outcomes = route.Outcomes{Good: 2}
	require.Equal(t, "praised", best(), "two successes are not enough to overtake it")
	proven.Outcomes, praised.Outcomes = route.Outcomes{Good: 40, Bad: 2}, route.Outcomes{Good: 20, Bad: 20}
	require.Equal(t, "proven", best())
}

// TestDecisionsReadAsAPersonWouldExplainThem compares decisions with testdata/decisions.
func TestDecisionsReadAsAPersonWouldExplainThem(t *testing.T) {
	t.Parallel()
	large := candidate("large", 5, 25, score(0.88))
	middle := candidate("middle", 3, 15, score(0.82))
	small := candidate("small", 0.25, 2, score(0.55))
	local := candidate("local", 0, 0, nil)
	local.Entry.Capabilities = []model.Capability{model.CapabilityTools}
	unknown := candidate("unknown", 5, 25, nil)
	unknown.Known, unknown.ScoreSource = false, ""
	all := []route.Candidate{middle, large, small, local}
	down := middle
	down.Out = "its circuit breaker is open until 12:00:30, after 5 failures"

	plan := need(contract.AgentPlanner)
	plan.Tools, plan.Schema, plan.Importance = false, true, 0.8
	poor := need(contract.AgentBuilder)
	poor.Left = 30_000
	long := need(contract.AgentBuilder)
	long.Prompt = 240_000
	begun := need(contract.AgentBuilder)
	begun.Current, begun.Cached = large.Choice, 18_000
	learnt := []route.Candidate{middle, large, small}
	learnt[2].Outcomes, learnt[0].Outcomes = route.Outcomes{Good: 95, Bad: 5}, route.Outcomes{Good: 30, Bad: 20}
	wide := small
	wide.Entry.ContextWindow = 1_000_000

	for _, c := range []struct {
		name       string
		need       route.Need
		candidates []route.Candidate
		strategy   contract.RouteStrategy
	}{
		{"fixed", need(contract.AgentBuilder), all, contract.RouteFixed},
		{"fixed with its model out", need(contract.AgentBuilder), []route.Candidate{down, large}, contract.RouteFixed},
		{"fixed with an unknown model", need(contract.AgentBuilder), []route.Candidate{unknown}, contract.RouteFixed},
		{"fixed without schemas", plan, []route.Candidate{local}, contract.RouteFixed},
		{"cheapest", need(contract.AgentBuilder), all, contract.RouteCheapest},
		{"cheapest that enforces schemas", plan, all, contract.RouteCheapest},
		{"best", need(contract.AgentBuilder), all, contract.RouteBest},
		{"best within the budget", poor, all, contract.RouteBest},
		{"best for a long prompt", long, []route.Candidate{large, wide}, contract.RouteBest},
		{"best in a conversation", begun, all, contract.RouteBest},
		{"best by outcomes", need(contract.AgentBuilder), learnt, contract.RouteBest},
		{"balanced", need(contract.AgentBuilder), all, contract.RouteBalanced},
		{"balanced for a plan", plan, []route.Candidate{middle, large, small}, contract.RouteBalanced},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			d, err := route.Decide(c.need, c.candidates, route.Policy{Strategy: c.strategy})
			require.NoError(t, err)
			got, err := json.MarshalIndent(struct {
				Model string `json:"model"`
				contract.RouteDecision
			}{d.Choice.Model, d.RouteDecision}, "", "  ")
			require.NoError(t, err)
			golden(t, c.name, string(got)+"\n")
		})
	}
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	file := filepath.Join("testdata", "decisions", name+".json")
	if *update {
		require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o755))
		require.NoError(t, os.WriteFile(file, []byte(got), 0o644))
	}
	want, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, string(want), got)
}

func TestTheFirstModelThatFulfilsTheMostWishesStandsIn(t *testing.T) {
	t.Parallel()
	n := need(contract.AgentBuilder)
	n.Schema, n.Images = true, true
	noTools, blind, sees, small, down := candidate("no-tools", 1, 4, nil), candidate("blind", 1, 4, nil), candidate("sees", 5, 25, nil), candidate("small", 1, 4, nil), candidate("down", 1, 4, nil)
	noTools.Entry = noTools.Entry.WithCapability(model.CapabilityTools, false)
	sees.Entry = sees.Entry.WithCapability(model.CapabilityVision, true)
	small.Entry.ContextWindow = 10_000
	down.Out = "its circuit breaker is open"
	d, ok := route.StandIn(n, []route.Candidate{noTools, small, down, blind, sees})
	require.True(t, ok)
	require.Equal(t, sees.Choice, d.Choice, "a dearer one that sees pictures")
	why := map[string]string{}
	for _, p := range d.PassedOver {
		why[p.Model] = p.Why
	}
	require.Equal(t, map[string]string{
		"no-tools": "it cannot call tools", "down": "its circuit breaker is open", "blind": "it cannot see pictures",
		"small": "its context window of 10,000 tokens is too small for a prompt of about 20,000",
	}, why)

	d, ok = route.StandIn(n, []route.Candidate{noTools, blind, candidate("later", 0.1, 0.4, nil)})
	require.True(t, ok, "a wish is no condition")
	require.Equal(t, blind.Choice, d.Choice, "in their order")

	n.Left = 50_000 // micro-dollars
	d, ok = route.StandIn(n, []route.Candidate{sees, blind})
	require.True(t, ok)
	require.Equal(t, blind.Choice, d.Choice, "the budgets do not cover the other")

	d, ok = route.StandIn(n, []route.Candidate{noTools, small})
	require.False(t, ok)
	require.Zero(t, d.Choice)
	require.Len(t, d.PassedOver, 2)
}
