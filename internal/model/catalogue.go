package model

import (
	"cmp"
	_ "embed"
	"math"
	"slices"
	"sync"

	"github.com/goccy/go-yaml"

	"github.com/rocketgpt/orchestrator/contract"
)

// Capability is a feature that not every model supports.
type Capability string

// Capabilities in the catalogue.
const (
	CapabilityJSONSchema Capability = "json_schema" // responses that conform to a JSON schema
	CapabilityTools      Capability = "tools"
	CapabilityVision     Capability = "vision"
	CapabilityEmbeddings Capability = "embeddings"
	// CapabilityFixedTemperature marks a model that rejects a temperature, so none is sent.
	CapabilityFixedTemperature Capability = "fixed_temperature"
	// CapabilityEffort marks a reasoning model whose amount of reasoning can be set.
	CapabilityEffort Capability = "effort"
)

// CatalogueEntry describes one model.
type CatalogueEntry struct {
	// Provider is a provider's name or kind; Model is the provider's name for the model, "*" means
	// any.
	Provider string `koanf:"provider" yaml:"provider" json:"provider" validate:"required"`
	Model    string `koanf:"model" yaml:"model" json:"model" validate:"required"`
	// ContextWindow and MaxOutput are in tokens; 0 means unknown.
	ContextWindow int64 `koanf:"context_window" yaml:"context_window,omitempty" json:"context_window,omitempty" validate:"gte=0"`
	MaxOutput     int64 `koanf:"max_output" yaml:"max_output,omitempty" json:"max_output,omitempty" validate:"gte=0"`
	// PriceIn and PriceOut are US dollars per million tokens. PriceCached and PriceCacheWrite apply to
	// the part of the prompt that the provider reads from its cache and writes to it; 0 means PriceIn.
	PriceIn         float64      `koanf:"price_in" yaml:"price_in,omitempty" json:"price_in,omitempty" validate:"gte=0"`
	PriceCached     float64      `koanf:"price_cached" yaml:"price_cached,omitempty" json:"price_cached,omitempty" validate:"gte=0"`
	PriceCacheWrite float64      `koanf:"price_cache_write" yaml:"price_cache_write,omitempty" json:"price_cache_write,omitempty" validate:"gte=0"`
	PriceOut        float64      `koanf:"price_out" yaml:"price_out,omitempty" json:"price_out,omitempty" validate:"gte=0"`
	Capabilities    []Capability `koanf:"capabilities" yaml:"capabilities,omitempty" json:"capabilities,omitempty" validate:"dive,oneof=json_schema tools vision embeddings fixed_temperature effort"`
}

// Can reports whether the model has a capability.
func (e CatalogueEntry) Can(c Capability) bool { return slices.Contains(e.Capabilities, c) }

// Catalogue lists models. If two entries describe the same model, the later one applies.
type Catalogue []CatalogueEntry

//go:embed catalogue.yaml
var catalogueYAML []byte

var defaultCatalogue = sync.OnceValue(func() Catalogue {
	var file struct {
		Models Catalogue `yaml:"models"`
	}
	if err := yaml.UnmarshalWithOptions(catalogueYAML, &file, yaml.Strict()); err != nil {
		panic("the embedded catalogue: " + err.Error()) //nolint:forbidigo // a broken build, which the tests detect
	}
	return file.Models
})

// DefaultCatalogue returns the embedded catalogue.
func DefaultCatalogue() Catalogue { return slices.Clone(defaultCatalogue()) }

// With returns the catalogue with entries added; they override existing entries for the same model.
func (c Catalogue) With(entries ...CatalogueEntry) Catalogue {
	return slices.Concat(c, entries)
}

// Find returns the entry for a provider's model: by the provider's name, otherwise by its kind,
// otherwise by "*" of either. For an unknown model it returns false and an assumed entry: if the
// provider charges, it has the highest known prices of its kind, so that budgets err on the safe
// side.
func (c Catalogue) Find(p Provider, model string) (CatalogueEntry, bool) {
	kind := p.Kind.inCatalogue()
	for _, want := range [][2]string{{p.Name, model}, {string(p.Kind), model}, {kind, model}, {p.Name, "*"}, {string(p.Kind), "*"}} {
		for _, e := range slices.Backward(c) {
			if e.Provider == want[0] && e.Model == want[1] {
				e.Provider, e.Model = p.Name, model
				return e, true
			}
		}
	}
	return c.guess(p, model), false
}

// inCatalogue returns the kind whose entries also apply to a kind: Azure serves OpenAI's models.
func (k Kind) inCatalogue() string {
	if k == KindAzure {
		return string(KindOpenAI)
	}
	return string(k)
}

// guess returns an assumed entry for an unknown model.
func (c Catalogue) guess(p Provider, model string) CatalogueEntry {
	guess := CatalogueEntry{Provider: p.Name, Model: model, Capabilities: []Capability{CapabilityTools}}
	if p.Kind != KindAnthropic {
		guess.Capabilities = append(guess.Capabilities, CapabilityJSONSchema)
	}
	for _, e := range c {
		if e.Provider == p.Name || e.Provider == string(p.Kind) || e.Provider == p.Kind.inCatalogue() {
			guess.PriceIn, guess.PriceOut = max(guess.PriceIn, e.PriceIn), max(guess.PriceOut, e.PriceOut)
		}
	}
	return guess
}

// maxTokens limits the tokens that a provider may report for one call, so that sums of hostile
// numbers do not overflow.
const maxTokens = 1 << 40

// Cost returns the cost of a usage at an entry's prices, in millionths of a US dollar, rounded up.
func Cost(u contract.Usage, e CatalogueEntry) int64 {
	u = Plausible(u)
	// Dollars per million tokens are millionths of a dollar per token.
	micro := float64(u.PromptTokens-u.CachedTokens-u.CacheWriteTokens)*e.PriceIn +
		float64(u.CachedTokens)*cmp.Or(e.PriceCached, e.PriceIn) +
		float64(u.CacheWriteTokens)*cmp.Or(e.PriceCacheWrite, e.PriceIn) +
		float64(u.CompletionTokens)*e.PriceOut
	// Binary fractions turn 0.3 into 0.3000000004, which must not be rounded up to one more.
	return int64(math.Ceil(micro - 1e-6))
}

// Plausible returns a usage as it counts, whatever the provider reported: a part is at most as large
// as the whole.
func Plausible(u contract.Usage) contract.Usage {
	u.PromptTokens, u.CompletionTokens = PlausibleTokens(u.PromptTokens), PlausibleTokens(u.CompletionTokens)
	u.CachedTokens = min(PlausibleTokens(u.CachedTokens), u.PromptTokens)
	u.CacheWriteTokens = min(PlausibleTokens(u.CacheWriteTokens), u.PromptTokens-u.CachedTokens)
	u.ReasoningTokens = min(PlausibleTokens(u.ReasoningTokens), u.CompletionTokens)
	return u
}

// PlausibleTokens returns a number of tokens as it counts, whatever the provider reported.
func PlausibleTokens(n int64) int64 { return min(max(n, 0), maxTokens) }
