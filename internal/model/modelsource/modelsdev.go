package modelsource

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/rocketgpt/orchestrator/internal/model"
)

// devProvider is a provider in models.dev's api.json.
type devProvider struct {
	ID     string                     `json:"id"`
	Models map[string]json.RawMessage `json:"models"`
}

// devModel is a model in models.dev's api.json. Costs are US dollars per million tokens.
type devModel struct {
	ID          string `json:"id"`
	Family      string `json:"family"`
	Attachment  bool   `json:"attachment"`
	Reasoning   bool   `json:"reasoning"`
	ToolCall    bool   `json:"tool_call"`
	Schema      bool   `json:"structured_output"`
	Temperature *bool  `json:"temperature"`
	Released    string `json:"release_date"`
	Status      string `json:"status"`
	Options     []struct {
		Type string `json:"type"`
	} `json:"reasoning_options"`
	Modalities struct {
		Input  []string `json:"input"`
		Output []string `json:"output"`
	} `json:"modalities"`
	Limit struct {
		Context number `json:"context"`
		Output  number `json:"output"`
	} `json:"limit"`
	Cost *devCost `json:"cost"`
}

type devCost struct {
	devPrices
	Reasoning number `json:"reasoning"`
	Tiers     []struct {
		devPrices
		Tier struct {
			Type string `json:"type"`
			Size number `json:"size"`
		} `json:"tier"`
	} `json:"tiers"`
	Over200 *devPrices `json:"context_over_200k"`
}

type devPrices struct {
	In         number `json:"input"`
	Out        number `json:"output"`
	CacheRead  number `json:"cache_read"`
	CacheWrite number `json:"cache_write"`
}

// devKinds are models.dev's names of the providers that this program calls, with their kinds here.
var devKinds = map[string]string{
	"openai": "openai", "anthropic": "anthropic", "google": "gemini", "openrouter": "openrouter", "azure": "azure",
}

// ModelsDev reads the API of models.dev. It returns the models that this program can use: with
// tools, or for embeddings.
func ModelsDev(data []byte) (model.Catalogue, error) {
	var all map[string]devProvider
	if err := decode(data, &all); err != nil {
		return nil, err
	}
	var out model.Catalogue
	for id, kind := range devKinds {
		for name, raw := range all[id].Models {
			var m devModel
			if json.Unmarshal(raw, &m) != nil {
				continue
			}
			if e, ok := m.entry(kind, name); ok {
				out = append(out, e)
			}
		}
	}
	return tidy(out), nil
}

// entry returns the model as an entry, false if it cannot be used.
func (m devModel) entry(kind, name string) (model.CatalogueEntry, bool) {
	if m.Cost == nil || m.Status == "deprecated" || strings.HasPrefix(name, "~") || strings.Contains(name, ":") {
		return model.CatalogueEntry{}, false // ~ is an alias of changing models, : a variant with other limits
	}
	e := model.CatalogueEntry{
		Provider: kind, Model: name, ContextWindow: m.Limit.Context.whole(), MaxOutput: m.Limit.Output.whole(),
		PriceIn: float64(m.Cost.In), PriceCached: float64(m.Cost.CacheRead), PriceCacheWrite: float64(m.Cost.CacheWrite), PriceOut: float64(m.Cost.Out),
		LongContext: m.Cost.long(), Released: day(m.Released),
	}
	if r := float64(m.Cost.Reasoning); r != e.PriceOut {
		e.PriceReasoning = r
	}
	if strings.Contains(m.Family, "embedding") || strings.Contains(name, "embedding") {
		e.MaxOutput, e.LongContext, e.Capabilities = 0, nil, []model.Capability{model.CapabilityEmbeddings}
		return e, true
	}
	if !m.ToolCall || !slices.Equal(m.Modalities.Output, []string{"text"}) {
		return e, false
	}
	e.Capabilities = []model.Capability{model.CapabilityTools}
	add := func(has bool, c model.Capability) {
		if has {
			e.Capabilities = append(e.Capabilities, c)
		}
	}
	add(m.Schema, model.CapabilityJSONSchema)
	add(slices.Contains(m.Modalities.Input, "image"), model.CapabilityVision)
	add(m.Reasoning, model.CapabilityEffort)
	openai := kind == string(model.KindOpenAI) || kind == "azure"
	add((m.Temperature != nil && !*m.Temperature) || (openai && m.Reasoning), model.CapabilityFixedTemperature)
	add(m.Reasoning && kind == string(model.KindAnthropic) && !m.setsEffort(), model.CapabilityThinkingBudget)
	return e, true
}

// setsEffort reports whether Anthropic's API sets an effort. Older models have a budget of tokens
// instead; at the other providers, an effort is translated to what the model has.
func (m devModel) setsEffort() bool {
	for _, o := range m.Options {
		if o.Type == "effort" {
			return true
		}
	}
	return false
}

// long returns the prices of long prompts.
func (c devCost) long() *model.LongContext {
	of := func(above int64, p devPrices) *model.LongContext {
		return &model.LongContext{Above: above, PriceIn: float64(p.In), PriceCached: float64(p.CacheRead), PriceCacheWrite: float64(p.CacheWrite), PriceOut: float64(p.Out)}
	}
	for _, t := range c.Tiers {
		if t.Tier.Type == "context" && t.Tier.Size > 0 {
			return of(t.Tier.Size.whole(), t.devPrices)
		}
	}
	if c.Over200 != nil {
		const above = 200_000
		return of(above, *c.Over200)
	}
	return nil
}
