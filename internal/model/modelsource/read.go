package modelsource

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/rocketgpt/orchestrator/internal/fault"
	"github.com/rocketgpt/orchestrator/internal/model"
	"github.com/rocketgpt/orchestrator/internal/terminal"
)

// MaxSize is the maximum size of a source in bytes. LiteLLM's list has 3.5 MB.
const MaxSize = 32 << 20

// Bounds of what a source may say.
const (
	maxPrice  = 10_000      // US dollars per million tokens
	maxTokens = 100_000_000 // of a context window
	maxName   = 200         // bytes of a model's name
)

// Format is the format of a source.
type Format string

// The formats.
const (
	FormatLiteLLM   Format = "litellm"
	FormatModelsDev Format = "models.dev"
	FormatCatalogue Format = "catalogue"
)

// Document is a source that was read.
type Document struct {
	Format Format
	Models model.Catalogue
}

// Read reads a source in any of the formats. The entries of a catalogue file keep its sources; the
// others come from the format's public source, as of the given day.
func Read(data []byte, asOf time.Time) (Document, error) {
	if len(data) > MaxSize {
		return Document{}, fmt.Errorf("the file has %d bytes, more than the %d allowed", len(data), MaxSize)
	}
	var d Document
	var err error
	switch format(data) {
	case FormatLiteLLM:
		d.Format = FormatLiteLLM
		d.Models, err = LiteLLM(data)
	case FormatModelsDev:
		d.Format = FormatModelsDev
		d.Models, err = ModelsDev(data)
	default:
		file, wrong := model.ReadCatalogue(data)
		if wrong != nil {
			return d, fmt.Errorf("the file is neither LiteLLM's model_prices_and_context_window.json nor models.dev's api.json, and not a catalogue: %w", wrong)
		}
		return Document{Format: FormatCatalogue, Models: tidy(file.Models)}, nil
	}
	if err == nil && len(d.Models) == 0 {
		err = errors.New("the file has no models of OpenAI, Anthropic, Gemini, OpenRouter or Azure that can be used")
	}
	for i := range d.Models {
		d.Models[i].Source, d.Models[i].SourceDate = string(d.Format), asOf.UTC().Format(time.DateOnly)
	}
	return d, err
}

// format recognizes a source.
func format(data []byte) Format {
	if data = bytes.TrimSpace(data); len(data) == 0 || data[0] != '{' {
		return FormatCatalogue
	}
	var all map[string]struct {
		LiteLLM json.RawMessage `json:"litellm_provider"`
		Models  json.RawMessage `json:"models"`
	}
	if json.Unmarshal(data, &all) != nil {
		return FormatCatalogue
	}
	for _, v := range all {
		switch {
		case len(v.LiteLLM) > 0:
			return FormatLiteLLM
		case len(v.Models) > 0:
			return FormatModelsDev
		}
	}
	return FormatCatalogue
}

func decode(data []byte, v any) error {
	if len(data) > MaxSize {
		return fmt.Errorf("the source has %d bytes, more than the %d allowed", len(data), MaxSize)
	}
	return json.Unmarshal(data, v)
}

// number is a number that some sources write as text.
type number float64

// UnmarshalJSON reads a number. Anything else is 0, which means unknown.
func (n *number) UnmarshalJSON(data []byte) error {
	var f float64
	if json.Unmarshal(bytes.Trim(data, `"`), &f) == nil {
		*n = number(f)
	}
	return nil
}

// perMillion returns a price per token as one per million, without the error of binary fractions.
func (n number) perMillion() float64 {
	const digits = 1e8
	return math.Round(float64(n)*1e6*digits) / digits
}

func (n number) whole() int64 { return int64(min(max(float64(n), 0), maxTokens)) }

// day returns a date, empty if it is none.
func day(text string) string {
	if _, err := time.Parse(time.DateOnly, text); err != nil {
		return ""
	}
	return text
}

// named matches the names of models that are kept: they are shown in terminals and pages.
var named = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._/+@-]*$`)

// tidy returns the entries that make sense, with only what makes sense of them, sorted by provider and
// model.
func tidy(c model.Catalogue) model.Catalogue {
	c = slices.DeleteFunc(c, func(e model.CatalogueEntry) bool { return !sensible(e) })
	for i := range c {
		e := &c[i]
		e.ContextWindow, e.MaxOutput = min(e.ContextWindow, maxTokens), min(max(e.MaxOutput, 0), maxTokens)
		e.Released, e.Deprecated = day(e.Released), day(e.Deprecated)
		if e.API != "responses" {
			e.API = ""
		}
		e.Source = shown(e.Source)
		e.Capabilities = slices.DeleteFunc(e.Capabilities, func(c model.Capability) bool { return !slices.Contains(model.Capabilities(), c) })
		e.Scores = slices.DeleteFunc(e.Scores, func(s model.Score) bool {
			return !slices.Contains([]string{model.ScoreCoding, model.ScoreAgenticCoding, model.ScoreReasoning}, s.Name) || !(s.Value >= 0 && s.Value <= 1)
		})
		for j := range e.Scores {
			e.Scores[j].Source, e.Scores[j].Date = shown(e.Scores[j].Source), day(e.Scores[j].Date)
		}
	}
	slices.SortFunc(c, compareEntries)
	return slices.CompactFunc(c, func(a, b model.CatalogueEntry) bool { return a.Provider == b.Provider && a.Model == b.Model })
}

// shown returns a text in the form in which terminals and pages show it.
func shown(text string) string { return fault.Clip(terminal.Clean(text), maxName) }

func compareEntries(a, b model.CatalogueEntry) int {
	return cmp.Or(strings.Compare(a.Provider, b.Provider), strings.Compare(a.Model, b.Model))
}

func sensible(e model.CatalogueEntry) bool {
	if len(e.Model) > maxName || (e.Model != "*" && !named.MatchString(e.Model)) || e.ContextWindow <= 0 {
		return false
	}
	if len(e.Provider) > maxName || !named.MatchString(e.Provider) || e.LongContext != nil && e.LongContext.Above <= 0 {
		return false
	}
	prices := []float64{e.PriceIn, e.PriceCached, e.PriceCacheWrite, e.PriceOut, e.PriceReasoning}
	if long := e.LongContext; long != nil {
		prices = append(prices, long.PriceIn, long.PriceCached, long.PriceCacheWrite, long.PriceOut)
	}
	for _, p := range prices {
		if p < 0 || p > maxPrice || math.IsNaN(p) {
			return false
		}
	}
	return e.PriceIn > 0 // sources write 0 for prices that they do not know
}
