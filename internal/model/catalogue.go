package model

import (
	"cmp"
	"embed"
	"errors"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strings"
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
	// CapabilityThinkingBudget marks a model of Anthropic's whose effort is set as a budget of tokens. It
	// reasons only if an effort is set.
	CapabilityThinkingBudget Capability = "thinking_budget"
)

// Capabilities that only a check at the provider finds out: the catalogue's sources do not have them.
const (
	CapabilityStreaming     Capability = "streaming"
	CapabilityParallelTools Capability = "parallel_tools" // several tool calls in one response
	CapabilityPromptCache   Capability = "prompt_cache"   // parts of prompts are read from a cache
)

// Capabilities returns all capabilities that the catalogue lists.
func Capabilities() []Capability {
	return []Capability{CapabilityJSONSchema, CapabilityTools, CapabilityVision, CapabilityEmbeddings, CapabilityFixedTemperature, CapabilityEffort, CapabilityThinkingBudget}
}

// CatalogueEntry describes one model.
type CatalogueEntry struct {
	// Provider is a provider's name or kind; Model is the provider's name for the model, "*" means
	// any.
	Provider string `koanf:"provider" yaml:"provider" json:"provider" validate:"required"`
	Model    string `koanf:"model" yaml:"model" json:"model" validate:"required"`
	// ContextWindow and MaxOutput are in tokens; 0 means unknown.
	ContextWindow int64 `koanf:"context_window" yaml:"context_window,omitempty" json:"context_window,omitempty" validate:"gte=0"`
	MaxOutput     int64 `koanf:"max_output" yaml:"max_output,omitempty" json:"max_output,omitempty" validate:"gte=0"`
	// MaxTexts limits the texts of one call for embeddings; 0 means as usual for the kind of provider.
	MaxTexts int `koanf:"max_texts" yaml:"max_texts,omitempty" json:"max_texts,omitempty" validate:"gte=0,lte=2048"`
	// PriceIn and PriceOut are US dollars per million tokens. PriceCached and PriceCacheWrite apply to
	// the part of the prompt that the provider reads from its cache and writes to it; 0 means PriceIn.
	// PriceReasoning applies to the part of the response that is reasoning; 0 means PriceOut.
	PriceIn         float64 `koanf:"price_in" yaml:"price_in,omitempty" json:"price_in,omitempty" validate:"gte=0"`
	PriceCached     float64 `koanf:"price_cached" yaml:"price_cached,omitempty" json:"price_cached,omitempty" validate:"gte=0"`
	PriceCacheWrite float64 `koanf:"price_cache_write" yaml:"price_cache_write,omitempty" json:"price_cache_write,omitempty" validate:"gte=0"`
	PriceOut        float64 `koanf:"price_out" yaml:"price_out,omitempty" json:"price_out,omitempty" validate:"gte=0"`
	PriceReasoning  float64 `koanf:"price_reasoning" yaml:"price_reasoning,omitempty" json:"price_reasoning,omitempty" validate:"gte=0"`
	// LongContext has the prices of calls with long prompts; nil: the same.
	LongContext  *LongContext `koanf:"long_context" yaml:"long_context,omitempty" json:"long_context,omitempty"`
	Capabilities []Capability `koanf:"capabilities" yaml:"capabilities,omitempty" json:"capabilities,omitempty" validate:"dive,oneof=json_schema tools vision embeddings fixed_temperature effort thinking_budget"`
	// API is the only API of the provider that serves the model: "responses"; empty: any of its APIs.
	API string `koanf:"api" yaml:"api,omitempty" json:"api,omitempty" validate:"omitempty,oneof=responses"`
	// Released and Deprecated are the days on which the provider offers the model first and last;
	// empty: unknown.
	Released   string  `koanf:"released" yaml:"released,omitempty" json:"released,omitempty" validate:"omitempty,datetime=2006-01-02"`
	Deprecated string  `koanf:"deprecated" yaml:"deprecated,omitempty" json:"deprecated,omitempty" validate:"omitempty,datetime=2006-01-02"`
	Scores     []Score `koanf:"scores" yaml:"scores,omitempty" json:"scores,omitempty" validate:"dive"`
	// Source names where the prices come from, and SourceDate is the day of that source; empty:
	// unknown.
	Source     string `koanf:"-" yaml:"source,omitempty" json:"source,omitempty"`
	SourceDate string `koanf:"-" yaml:"-" json:"source_date,omitempty" validate:"omitempty,datetime=2006-01-02"`
	// Assumed is set if the model's prices are unknown: those here are assumed.
	Assumed bool `koanf:"-" yaml:"-" json:"assumed,omitempty"`
	// Checked is the day on which the capabilities were last tried at the provider; empty: never. Found
	// has what these checks found out; Capabilities is already corrected by it.
	Checked string              `koanf:"-" yaml:"-" json:"checked,omitempty"`
	Found   map[Capability]bool `koanf:"-" yaml:"-" json:"found,omitempty" doc:"what checks at the provider found out"`
}

// LongContext has the prices of a call whose prompt is longer than Above tokens. 0 means as for
// other calls.
type LongContext struct {
	Above           int64   `koanf:"above" yaml:"above" json:"above" validate:"gt=0"`
	PriceIn         float64 `koanf:"price_in" yaml:"price_in,omitempty" json:"price_in,omitempty" validate:"gte=0"`
	PriceCached     float64 `koanf:"price_cached" yaml:"price_cached,omitempty" json:"price_cached,omitempty" validate:"gte=0"`
	PriceCacheWrite float64 `koanf:"price_cache_write" yaml:"price_cache_write,omitempty" json:"price_cache_write,omitempty" validate:"gte=0"`
	PriceOut        float64 `koanf:"price_out" yaml:"price_out,omitempty" json:"price_out,omitempty" validate:"gte=0"`
}

// Names of scores.
const (
	ScoreCoding        = "coding"
	ScoreAgenticCoding = "agentic_coding"
	ScoreReasoning     = "reasoning"
)

// Score is a model's result in a public benchmark.
type Score struct {
	Name   string  `koanf:"name" yaml:"name" json:"name" validate:"required"`
	Value  float64 `koanf:"value" yaml:"value" json:"value" validate:"gte=0,lte=1" doc:"fraction of the possible points"`
	Source string  `koanf:"source" yaml:"source" json:"source" doc:"benchmark, and the name of the model's result there"`
	Date   string  `koanf:"date" yaml:"date" json:"date" validate:"omitempty,datetime=2006-01-02" doc:"day of the benchmark's questions, or of the test"`
}

// Score returns a score of the model; false if it is unknown.
func (e CatalogueEntry) Score(name string) (float64, bool) {
	for _, s := range e.Scores {
		if s.Name == name {
			return s.Value, true
		}
	}
	return 0, false
}

// Can reports whether the model has a capability.
func (e CatalogueEntry) Can(c Capability) bool { return slices.Contains(e.Capabilities, c) }

// Reasons reports whether the model is known to reason, within the tokens of its response, before it
// responds to a call with an effort; empty: the provider's default.
func (e CatalogueEntry) Reasons(effort contract.Effort) bool {
	if e.Can(CapabilityThinkingBudget) {
		return effort != ""
	}
	return e.Can(CapabilityEffort) || e.Can(CapabilityFixedTemperature)
}

// FoundNot reports whether a check at the provider found that the model lacks a capability.
func (e CatalogueEntry) FoundNot(c Capability) bool {
	found, tried := e.Found[c]
	return tried && !found
}

// WithCapability returns the entry with or without a capability.
func (e CatalogueEntry) WithCapability(c Capability, has bool) CatalogueEntry {
	e.Capabilities = slices.DeleteFunc(slices.Clone(e.Capabilities), func(o Capability) bool { return o == c })
	if has {
		e.Capabilities = append(e.Capabilities, c)
	}
	return e
}

// at returns the entry with the prices of a call with a prompt of this size.
func (e CatalogueEntry) at(prompt int64) CatalogueEntry {
	if long := e.LongContext; long != nil && prompt > long.Above {
		e.PriceIn = cmp.Or(long.PriceIn, e.PriceIn)
		e.PriceCached, e.PriceCacheWrite = cmp.Or(long.PriceCached, e.PriceCached), cmp.Or(long.PriceCacheWrite, e.PriceCacheWrite)
		e.PriceReasoning = 0
		e.PriceOut = cmp.Or(long.PriceOut, e.PriceOut)
	}
	return e
}

// Catalogue lists models. If two entries describe the same model, the later one applies.
type Catalogue []CatalogueEntry

// CatalogueFile is a catalogue with its sources.
type CatalogueFile struct {
	Sources []CatalogueSource `yaml:"sources" validate:"required,dive"`
	Models  Catalogue         `yaml:"models" validate:"dive"`
}

// CatalogueSource is where entries of a catalogue come from.
type CatalogueSource struct {
	Name     string `yaml:"name" validate:"required"` // which entries refer to
	URL      string `yaml:"url,omitempty"`
	Revision string `yaml:"revision,omitempty"`
	Date     string `yaml:"date" validate:"required,datetime=2006-01-02"`
	License  string `yaml:"license,omitempty"`
}

// ReadCatalogue reads a catalogue file. Each entry states its source, by default the first one.
func ReadCatalogue(data []byte) (CatalogueFile, error) {
	var file CatalogueFile
	if err := yaml.UnmarshalWithOptions(data, &file, yaml.Strict()); err != nil {
		return file, err
	}
	if len(file.Sources) == 0 {
		return file, errors.New("the file has no sources")
	}
	for i := range file.Models {
		e := &file.Models[i]
		e.Source = cmp.Or(e.Source, file.Sources[0].Name)
		at := slices.IndexFunc(file.Sources, func(s CatalogueSource) bool { return s.Name == e.Source })
		if at < 0 {
			return file, fmt.Errorf("%s/%s comes from %q, which is not one of the file's sources", e.Provider, e.Model, e.Source)
		}
		e.SourceDate = file.Sources[at].Date
	}
	return file, nil
}

// The embedded catalogue: catalogue.yaml is generated from public sources, by the command in its
// head; catalogue_own.yaml has the models that they do not have.
//
//go:embed catalogue.yaml catalogue_own.yaml
var catalogueFiles embed.FS

var defaultCatalogue = sync.OnceValue(func() CatalogueFile {
	var all CatalogueFile
	for _, name := range []string{"catalogue.yaml", "catalogue_own.yaml"} {
		data, err := catalogueFiles.ReadFile(name)
		if err == nil {
			var file CatalogueFile
			file, err = ReadCatalogue(data)
			all.Sources, all.Models = append(all.Sources, file.Sources...), append(all.Models, file.Models...)
		}
		if err != nil {
			panic("the embedded " + name + ": " + err.Error()) //nolint:forbidigo // a broken build, which the tests detect
		}
	}
	return all
})

// DefaultCatalogue returns the embedded catalogue.
func DefaultCatalogue() Catalogue { return slices.Clone(defaultCatalogue().Models) }

// DefaultSources returns the sources of the embedded catalogue.
func DefaultSources() []CatalogueSource { return slices.Clone(defaultCatalogue().Sources) }

// With returns the catalogue with entries added; they override existing entries for the same model.
func (c Catalogue) With(entries ...CatalogueEntry) Catalogue {
	return slices.Concat(c, entries)
}

// Find returns the entry for a provider's model: by the provider's name, otherwise by its kind,
// otherwise by "*" of either. For an unknown model it returns false and an assumed entry: if the
// provider charges, it has the highest known prices of its kind, so that budgets err on the safe
// side. A cost that is computed from it is an estimate.
func (c Catalogue) Find(p Provider, model string) (CatalogueEntry, bool) {
	wants := [][2]string{{p.Name, model}, {string(p.Kind), model}, {p.Kind.inCatalogue(), model}, {p.Name, "*"}, {string(p.Kind), "*"}}
	for i, want := range wants {
		if i == 2 && p.Kind.Cloud() { // whose names and prices differ from Anthropic's
			if e, ok := c.atAnthropic(p, model); ok {
				return e, !e.Assumed
			}
			continue
		}
		for i := len(c) - 1; i >= 0; i-- { // only the entry that is found is copied: entries are large
			if c[i].Provider == want[0] && c[i].Model == want[1] {
				e := c[i]
				e.Provider, e.Model = p.Name, model
				return e, !e.Assumed
			}
		}
	}
	return c.guess(p, model), false
}

// Serves reports whether an entry of the catalogue is about a model of this provider: by its name, or
// by its kind.
func (p Provider) Serves(e CatalogueEntry) bool {
	return e.Provider == p.Name || e.Provider == string(p.Kind) || e.Provider == p.Kind.inCatalogue()
}

// Gone reports whether the provider no longer offers the model on a day such as 2026-11-20.
func (e CatalogueEntry) Gone(day string) bool { return e.Deprecated != "" && e.Deprecated < day }

// Newest orders entries for people who choose a model: the newest first, and those with a last day
// after all others, the one that ends first at the end. Models without a day of release count as
// old.
func Newest(a, b CatalogueEntry) int {
	return cmp.Or(
		cmp.Compare(cmp.Or(b.Deprecated, "9999"), cmp.Or(a.Deprecated, "9999")),
		cmp.Compare(b.Released, a.Released),
		cmp.Compare(a.Provider, b.Provider), cmp.Compare(a.Model, b.Model),
	)
}

// inCatalogue returns the kind whose entries also apply to a kind: Azure serves OpenAI's models, Bedrock
// and Vertex serve Anthropic's.
func (k Kind) inCatalogue() string {
	switch {
	case k == KindAzure:
		return string(KindOpenAI)
	case k.Cloud():
		return string(KindAnthropic)
	}
	return string(k)
}

// cloudName matches a cloud's name of one of Anthropic's models: us.anthropic.claude-haiku-4-5-20251001-v1:0
// at Bedrock, claude-haiku-4-5@20251001 at Vertex.
var cloudName = regexp.MustCompile(`^(?:(?:[a-z-]+\.)?anthropic\.)?(claude-[a-z0-9-]+?)(?:[-@]((?:19|20)\d{6}|default|latest))?(?:-v\d+(?::\d+)?)?$`)

// regionalPremium is how much more the clouds charge in one region than for requests that any region
// may answer.
const regionalPremium = 1.1

// atAnthropic returns the entry of a model that a cloud serves by that of Anthropic itself. In a single
// region, its prices are assumed.
func (c Catalogue) atAnthropic(p Provider, model string) (CatalogueEntry, bool) {
	_, resource, isARN := strings.Cut(model, "inference-profile/")
	if !isARN {
		resource = model
	}
	m := cloudName.FindStringSubmatch(resource)
	if m == nil {
		return CatalogueEntry{}, false
	}
	for _, name := range []string{m[1] + "-" + m[2], m[1]} {
		for _, e := range slices.Backward(c) {
			if e.Provider != string(KindAnthropic) || e.Model != name {
				continue
			}
			e.Provider, e.Model = p.Name, model
			if p.Region != "global" && !strings.HasPrefix(resource, "global.") {
				e = e.regional()
			}
			return e, true
		}
	}
	return CatalogueEntry{}, false
}

// regional returns the entry with the assumed prices of a single region.
func (e CatalogueEntry) regional() CatalogueEntry {
	e.Assumed = true
	prices := []*float64{&e.PriceIn, &e.PriceCached, &e.PriceCacheWrite, &e.PriceOut, &e.PriceReasoning}
	if e.LongContext != nil {
		long := *e.LongContext
		e.LongContext = &long
		prices = append(prices, &long.PriceIn, &long.PriceCached, &long.PriceCacheWrite, &long.PriceOut)
	}
	for _, price := range prices {
		*price *= regionalPremium
	}
	return e
}

// guess returns an assumed entry for an unknown model.
func (c Catalogue) guess(p Provider, model string) CatalogueEntry {
	guess := CatalogueEntry{Provider: p.Name, Model: model, Assumed: true, Capabilities: []Capability{CapabilityTools}}
	if !p.Kind.Messages() {
		guess.Capabilities = append(guess.Capabilities, CapabilityJSONSchema)
	}
	for _, e := range c {
		if p.Serves(e) && !e.Assumed {
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
	e = e.at(u.PromptTokens)
	// Dollars per million tokens are millionths of a dollar per token.
	micro := float64(u.PromptTokens-u.CachedTokens-u.CacheWriteTokens)*e.PriceIn +
		float64(u.CachedTokens)*cmp.Or(e.PriceCached, e.PriceIn) +
		float64(u.CacheWriteTokens)*cmp.Or(e.PriceCacheWrite, e.PriceIn) +
		float64(u.CompletionTokens-u.ReasoningTokens)*e.PriceOut +
		float64(u.ReasoningTokens)*cmp.Or(e.PriceReasoning, e.PriceOut)
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
