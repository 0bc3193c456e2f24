package showcase

import (
	"slices"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/config"
	"github.com/rocketgpt/orchestrator/internal/model"
	"github.com/rocketgpt/orchestrator/internal/route"
)

// scores are invented results of models, as an operator's own tests would have them.
var scores = []struct {
	provider          string
	kind              model.Kind
	model             string
	coding, reasoning float64
}{
	{"openai", model.KindOpenAI, "gpt-5", 0.61, 0.79},
	{"anthropic", model.KindAnthropic, "claude-sonnet-4-5", 0.88, 0.74},
	{"anthropic", model.KindAnthropic, "claude-opus-4-1", 0.9, 0.83},
}

// withScores returns entries of the catalogue with scores added.
func withScores(own []config.CatalogueEntry) []config.CatalogueEntry {
	usd := func(dollars float64) config.MicroUSD { return config.MicroUSD(dollars * 1e6) }
	for _, s := range scores {
		i := slices.IndexFunc(own, func(e config.CatalogueEntry) bool { return e.Provider == s.provider && e.Model == s.model })
		if i < 0 {
			e, _ := model.DefaultCatalogue().Find(model.Provider{Name: s.provider, Kind: s.kind}, s.model)
			entry := config.CatalogueEntry{
				Provider: s.provider, Model: s.model, ContextWindow: int(e.ContextWindow), MaxOutput: int(e.MaxOutput), PriceIn: usd(e.PriceIn),
				PriceCached: usd(e.PriceCached), PriceWrite: usd(e.PriceCacheWrite), PriceOut: usd(e.PriceOut), Released: e.Released, Deprecated: e.Deprecated,
			}
			for _, c := range e.Capabilities {
				entry.Capabilities = append(entry.Capabilities, string(c))
			}
			own, i = append(own, entry), len(own)
		}
		own[i].Scores = []config.Score{
			{Name: model.ScoreCoding, Value: s.coding, Source: "our own tasks", Date: "2026-10-01"},
			{Name: model.ScoreReasoning, Value: s.reasoning, Source: "our own tasks", Date: "2026-10-01"},
		}
	}
	return own
}

// routing is how the installation of the showcase chooses models.
var routing = map[contract.Agent]struct {
	strategy contract.RouteStrategy
	others   []contract.ModelChoice
}{
	contract.AgentPlanner: {contract.RouteCheapest, []contract.ModelChoice{
		{Provider: "anthropic", Model: "claude-sonnet-4-5"}, {Provider: "anthropic", Model: "claude-opus-4-1"}, {Provider: "ollama", Model: "gpt-oss"},
	}},
	contract.AgentBuilder: {contract.RouteBalanced, []contract.ModelChoice{
		{Provider: "openai", Model: "gpt-5"}, {Provider: "anthropic", Model: "claude-opus-4-1"}, {Provider: "gemini", Model: "gemini-2.5-flash"}, {Provider: "openrouter", Model: "qwen/qwen3-coder"},
	}},
}

// decided returns why a call used its model. If its agent's strategy would have chosen another one,
// its model is fixed.
func (f *dataset) decided(e contract.ExecutionRef, choice contract.ModelChoice, turn int, prompt int64) *contract.RouteDecision {
	rule := routing[e.Agent]
	need := route.Need{
		Agent: e.Agent, Prompt: prompt, Output: route.ExpectedOutput, MinOutput: 1_000, Tools: e.Agent == contract.AgentBuilder, Importance: route.Importance(e.Agent, e.Attempt), Left: -1,
	}
	if turn > 1 {
		need.Current, need.Cached = choice, prompt*9/10
	}
	var candidates []route.Candidate
	for _, m := range append([]contract.ModelChoice{choice}, rule.others...) {
		c := route.Candidate{Choice: m}
		c.Entry, c.Known = f.cat.Find(model.Provider{Name: m.Provider, Kind: model.Kind(f.cfg.Models.Providers[m.Provider].Kind)}, m.Model)
		if m.Provider == "ollama" {
			c.Out = "its circuit breaker is open until 12:00:30, after 5 failures"
		}
		c.Score, c.ScoreSource = route.ScoreOf(c.Entry, e.Agent)
		candidates = append(candidates, c)
	}
	d, err := route.Decide(need, candidates, route.Policy{Strategy: rule.strategy})
	if rule.strategy == "" || err != nil || d.Choice.Model != choice.Model {
		d, err = route.Decide(route.Need{Agent: e.Agent}, candidates[:1], route.Policy{Strategy: contract.RouteFixed})
	}
	if err != nil {
		return nil
	}
	return &d.RouteDecision
}
