package modelsource

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/rocketgpt/orchestrator/internal/model"
)

// litellmModel is a model in LiteLLM's model_prices_and_context_window.json. Costs are US dollars
// per token.
type litellmModel struct {
	Provider   string   `json:"litellm_provider"`
	Mode       string   `json:"mode"`
	MaxInput   number   `json:"max_input_tokens"`
	MaxOutput  number   `json:"max_output_tokens"`
	In         number   `json:"input_cost_per_token"`
	Out        number   `json:"output_cost_per_token"`
	Cached     number   `json:"cache_read_input_token_cost"`
	CacheWrite number   `json:"cache_creation_input_token_cost"`
	Reasoning  number   `json:"output_cost_per_reasoning_token"`
	Deprecated string   `json:"deprecation_date"`
	Endpoints  []string `json:"supported_endpoints"`
	Outputs    []string `json:"supported_output_modalities"`

	Tools          bool  `json:"supports_function_calling"`
	Schema         bool  `json:"supports_response_schema"`
	NativeSchema   bool  `json:"supports_native_structured_output"` // Anthropic: otherwise a schema is a tool
	Vision         bool  `json:"supports_vision"`
	Reasons        bool  `json:"supports_reasoning"`
	Effort         bool  `json:"supports_output_config"` // Anthropic
	SamplingParams *bool `json:"supports_sampling_params"`
	AudioOut       bool  `json:"supports_audio_output"`

	In128  number `json:"input_cost_per_token_above_128k_tokens"`
	In200  number `json:"input_cost_per_token_above_200k_tokens"`
	In272  number `json:"input_cost_per_token_above_272k_tokens"`
	Out128 number `json:"output_cost_per_token_above_128k_tokens"`
	Out200 number `json:"output_cost_per_token_above_200k_tokens"`
	Out272 number `json:"output_cost_per_token_above_272k_tokens"`

	Cached200 number `json:"cache_read_input_token_cost_above_200k_tokens"`
	Cached272 number `json:"cache_read_input_token_cost_above_272k_tokens"`
	Write200  number `json:"cache_creation_input_token_cost_above_200k_tokens"`
	Write272  number `json:"cache_creation_input_token_cost_above_272k_tokens"`
}

// litellmKinds are LiteLLM's names of the providers that this program calls, with their kinds here
// and the prefixes of their models' names.
var litellmKinds = map[string]struct{ kind, prefix string }{
	"openai":    {"openai", ""},
	"anthropic": {"anthropic", ""},
	"gemini":    {"gemini", "gemini/"},
	"azure":     {"azure", "azure/"},
}

// LiteLLM reads LiteLLM's list of models. It returns those that this program can use: with tools, or
// for embeddings.
func LiteLLM(data []byte) (model.Catalogue, error) {
	var all map[string]json.RawMessage
	if err := decode(data, &all); err != nil {
		return nil, err
	}
	var out model.Catalogue
	for name, raw := range all {
		var m litellmModel
		if name == "sample_spec" || json.Unmarshal(raw, &m) != nil {
			continue // LiteLLM's own checks let unusual types pass, for models that are not used here
		}
		if e, ok := m.entry(name); ok {
			out = append(out, e)
		}
	}
	return tidy(out), nil
}

// entry returns the model as an entry, false if it cannot be used.
func (m litellmModel) entry(name string) (model.CatalogueEntry, bool) {
	p, ok := litellmKinds[m.Provider]
	name, prefixed := strings.CutPrefix(name, p.prefix)
	if !ok || !prefixed || strings.ContainsAny(name, "/:") { // regional prices and fine-tuned models
		return model.CatalogueEntry{}, false
	}
	e := model.CatalogueEntry{
		Provider: p.kind, Model: name, ContextWindow: m.MaxInput.whole(), MaxOutput: m.MaxOutput.whole(),
		PriceIn: m.In.perMillion(), PriceCached: m.Cached.perMillion(), PriceCacheWrite: m.CacheWrite.perMillion(), PriceOut: m.Out.perMillion(),
		LongContext: m.long(), Deprecated: day(m.Deprecated),
	}
	if r := m.Reasoning.perMillion(); r != e.PriceOut {
		e.PriceReasoning = r
	}
	if m.Mode == "embedding" {
		e.MaxOutput, e.LongContext, e.Capabilities = 0, nil, []model.Capability{model.CapabilityEmbeddings}
		return e, true
	}
	if !m.talks() {
		return e, false
	}
	if m.Mode == "responses" || (len(m.Endpoints) > 0 && !slices.Contains(m.Endpoints, "/v1/chat/completions")) {
		e.API = "responses"
	}
	e.Capabilities = m.capabilities(p.kind)
	return e, true
}

// talks reports whether the model responds with text and calls tools.
func (m litellmModel) talks() bool {
	if (m.Mode != "chat" && m.Mode != "responses") || !m.Tools || m.AudioOut {
		return false
	}
	if len(m.Outputs) > 0 && !slices.Contains(m.Outputs, "text") {
		return false
	}
	return len(m.Endpoints) == 0 || slices.Contains(m.Endpoints, "/v1/chat/completions") || slices.Contains(m.Endpoints, "/v1/responses")
}

func (m litellmModel) capabilities(kind string) []model.Capability {
	all := []model.Capability{model.CapabilityTools}
	anthropic := kind == string(model.KindAnthropic)
	add := func(has bool, c model.Capability) {
		if has {
			all = append(all, c)
		}
	}
	add(m.Schema && (m.NativeSchema || !anthropic), model.CapabilityJSONSchema)
	add(m.Vision, model.CapabilityVision)
	add(m.Reasons, model.CapabilityEffort)
	openai := kind == string(model.KindOpenAI) || kind == "azure"
	add((m.SamplingParams != nil && !*m.SamplingParams) || (openai && m.Reasons), model.CapabilityFixedTemperature)
	add(m.Reasons && anthropic && !m.Effort, model.CapabilityThinkingBudget)
	return all
}

// long returns the prices of long prompts.
func (m litellmModel) long() *model.LongContext {
	switch {
	case m.In200 > 0:
		return &model.LongContext{Above: 200_000, PriceIn: m.In200.perMillion(), PriceCached: m.Cached200.perMillion(), PriceCacheWrite: m.Write200.perMillion(), PriceOut: m.Out200.perMillion()}
	case m.In272 > 0:
		return &model.LongContext{Above: 272_000, PriceIn: m.In272.perMillion(), PriceCached: m.Cached272.perMillion(), PriceCacheWrite: m.Write272.perMillion(), PriceOut: m.Out272.perMillion()}
	case m.In128 > 0:
		return &model.LongContext{Above: 128_000, PriceIn: m.In128.perMillion(), PriceOut: m.Out128.perMillion()}
	}
	return nil
}
