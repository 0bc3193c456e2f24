package modelsource

import (
	"encoding/json"
	"flag"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/internal/model"
)

var update = flag.Bool("update", false, "rewrite the golden files")

var asOf = time.Date(2026, 11, 20, 0, 0, 0, 0, time.UTC)

// read returns the entries of a recorded excerpt of a source, and its text.
func read(t *testing.T, name string) (Document, []byte) {
	t.Helper()
	data, err := os.ReadFile("testdata/" + name)
	require.NoError(t, err)
	d, err := Read(data, asOf)
	require.NoError(t, err)
	return d, data
}

func TestRecordedExcerptsBecomeTheseEntries(t *testing.T) {
	t.Parallel()
	for name, format := range map[string]Format{"litellm": FormatLiteLLM, "modelsdev": FormatModelsDev} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d, _ := read(t, name+".json")
			require.Equal(t, format, d.Format)
			got, err := json.MarshalIndent(d.Models, "", " ")
			require.NoError(t, err)
			golden := "testdata/" + name + ".golden.json"
			if *update {
				require.NoError(t, os.WriteFile(golden, append(got, '\n'), 0o600))
			}
			want, err := os.ReadFile(golden)
			require.NoError(t, err)
			require.Equal(t, string(want), string(got)+"\n")
		})
	}
}

func TestModelsThatThisProgramCannotUseAreLeftOut(t *testing.T) {
	t.Parallel()
	d, data := read(t, "litellm.json")
	for _, name := range []string{"sample_spec", "ft:gpt-4.1-2025-04-14", "gpt-audio-1.5", "gemini/lyria-3.5", "azure/eu/gpt-5.4", "gemini/gemini-omni-1.2-flash"} {
		require.Contains(t, string(data), `"`+name+`"`)
		for _, e := range d.Models {
			require.NotEqual(t, name[strings.Index(name, "/")+1:], e.Model)
		}
	}
}

func TestASourceIsRefusedWithItsReason(t *testing.T) {
	t.Parallel()
	for text, reason := range map[string]string{
		"":                               "the file has no sources",
		"models: [":                      "neither LiteLLM",
		`{"a": {"litellm_provider": 1}}`: "has no models of OpenAI",
		`{"gpt": {"litellm_provider": "openai", "mode": "chat", "supports_function_calling": true, "max_input_tokens": 5, "input_cost_per_token": -1}}`: "has no models of OpenAI",
		"sources: [{name: a, date: 2026-01-01}]\nmodels: [{provider: openai, model: m, source: b}]":                                                     "which is not one of the file's sources",
	} {
		_, err := Read([]byte(text), asOf)
		require.ErrorContains(t, err, reason, text)
	}
	_, err := Read(make([]byte, MaxSize+1), asOf)
	require.ErrorContains(t, err, "more than")
}

func TestNumbersAndNamesOfStrangersAreBounded(t *testing.T) {
	t.Parallel()
	of := func(name string, in float64) string {
		text, err := json.Marshal(map[string]any{name: map[string]any{
			"litellm_provider": "openai", "mode": "chat", "supports_function_calling": true, "max_input_tokens": 1e300, "input_cost_per_token": in,
		}})
		require.NoError(t, err)
		return string(text)
	}
	c, err := LiteLLM([]byte(of("m", 1e-6)))
	require.NoError(t, err)
	require.EqualValues(t, maxTokens, c[0].ContextWindow)
	require.InDelta(t, 1, c[0].PriceIn, 0)
	for _, bad := range []string{of("m", 1), of("m", -1e-6), of("m", 0), of("m\x1b[2J", 1e-6), of("<b>", 1e-6), of(strings.Repeat("m", maxName+1), 1e-6)} {
		c, err := LiteLLM([]byte(bad))
		require.NoError(t, err)
		require.Empty(t, c, bad)
	}
}

func TestCurrentDropsModelsWhoseLastDayIsOver(t *testing.T) {
	t.Parallel()
	d, _ := read(t, "litellm.json")
	_, listed := find(d.Models, "openai", "gpt-5-codex")
	require.True(t, listed, "an update tells that it is over")
	now := Current(d.Models, "2026-11-20")
	_, listed = find(now, "openai", "gpt-5-codex")
	require.False(t, listed)
	e, _ := find(now, "openai", "gpt-5")
	require.Equal(t, "2026-12-11", e.Deprecated)
}

func TestCompleteAddsOnlyWhatIsMissing(t *testing.T) {
	t.Parallel()
	a, _ := read(t, "litellm.json")
	b, _ := read(t, "modelsdev.json")
	before, _ := find(a.Models, "openai", "gpt-5")
	after, _ := find(Complete(a.Models, b.Models), "openai", "gpt-5")
	require.Equal(t, "2025-08-07", after.Released)
	require.EqualValues(t, 400_000, after.ContextWindow, "LiteLLM has the prompt alone")
	after.Released, after.ContextWindow = before.Released, before.ContextWindow
	require.Equal(t, before, after)
}

const table = `model,one,two,three,four,five
m-1.5-high,80,60,50,40,30
m-1.5-2026-01-02-low-effort,10,10,10,10,10
m-1-5-thinking-64k-medium-effort,70,70,70,70,70
m-1.5-mini-high,1,1,1,1,1
n-thinking,90,90,90,90,
short,1,2
`

const categories = `{"Coding": ["one", "two"], "Agentic Coding": ["three"], "Reasoning": ["four", "five"], "Language": ["one"]}`

func TestScoresAreTheMeansOfTheirTasksAtHighEffort(t *testing.T) {
	t.Parallel()
	results, err := LiveBench(strings.NewReader(table), []byte(categories), "2026-01-08")
	require.NoError(t, err)
	c := AddScores(model.Catalogue{{Model: "v/m-1.5"}, {Model: "m-1-5-mini"}, {Model: "n"}, {Model: "m-1"}, {Model: "short"}}, results)
	require.Equal(t, []model.Score{
		{Name: "coding", Value: 0.7, Source: "LiveBench: m-1.5-high", Date: "2026-01-08"},
		{Name: "agentic_coding", Value: 0.5, Source: "LiveBench: m-1.5-high", Date: "2026-01-08"},
		{Name: "reasoning", Value: 0.35, Source: "LiveBench: m-1.5-high", Date: "2026-01-08"},
	}, c[0].Scores)
	value, known := c[1].Score(model.ScoreCoding)
	require.True(t, known)
	require.InDelta(t, 0.01, value, 0)
	_, known = c[2].Score(model.ScoreReasoning)
	require.False(t, known, "a task is missing")
	_, known = c[2].Score(model.ScoreCoding)
	require.True(t, known)
	require.Empty(t, c[3].Scores, "m-1.5 is another model than m-1")
	require.Empty(t, c[4].Scores)
}

func TestMediumEffortCountsWhereHighWasNotMeasured(t *testing.T) {
	t.Parallel()
	results, err := LiveBench(strings.NewReader(strings.Replace(table, "m-1.5-high", "other", 1)), []byte(categories), "2026-01-08")
	require.NoError(t, err)
	c := AddScores(model.Catalogue{{Model: "m-1.5"}}, results)
	require.Equal(t, "LiveBench: m-1-5-thinking-64k-medium-effort", c[0].Scores[0].Source)
}

func TestNewScoresOfABenchmarkChangeTheirModelsAlone(t *testing.T) {
	t.Parallel()
	results, err := LiveBench(strings.NewReader(table), []byte(categories), "2026-01-08")
	require.NoError(t, err)
	known := model.Catalogue{
		{Provider: "openrouter", Model: "v/m-1.5", PriceIn: 1},
		{Provider: "openai", Model: "m-1.5", PriceIn: 1, SourceDate: "2026-01-01"},
		{Provider: "openai", Model: "m-1.5", PriceIn: 2, SourceDate: "2026-01-02"},
		{Provider: "openai", Model: "unknown there", Scores: []model.Score{{Name: "coding", Value: 0.5}}},
	}
	changes, entries := ScoreChanges(known, results)
	require.Equal(t, []Change{
		{ChangeScores, "openai", "m-1.5", "coding 0.7, agentic_coding 0.5, reasoning 0.35 (LiveBench: m-1.5-high)"},
		{ChangeScores, "openrouter", "v/m-1.5", "coding 0.7, agentic_coding 0.5, reasoning 0.35 (LiveBench: m-1.5-high)"},
	}, changes)
	require.InDelta(t, 2, entries[0].PriceIn, 0, "the entry that counts")
	require.Equal(t, "2026-01-02", entries[0].SourceDate)
	changes, entries = ScoreChanges(append(known, entries...), results)
	require.Empty(t, changes, "the second time, they are known")
	require.Empty(t, entries)
}

func TestAHostileTableHasNoEffectOnTerminalsAndRankings(t *testing.T) {
	t.Parallel()
	results, err := LiveBench(strings.NewReader("model,one,two\nm\x1b[2J"+strings.Repeat("x", 500)+",1,1\nnan,NaN,1\ninf,Inf,1\nhuge,1e9,1\n"), []byte(categories), "2026-01-08")
	require.NoError(t, err)
	require.NotContains(t, results[0].Scores[0].Source, "\x1b")
	require.LessOrEqual(t, len(results[0].Scores[0].Source), maxName+10)
	for _, r := range results[1:] {
		require.Empty(t, r.Scores, r.Name)
	}
}

func TestLowEffortAloneSaysNothing(t *testing.T) {
	t.Parallel()
	results, err := LiveBench(strings.NewReader("model,one,two\nm-low,1,1\n"), []byte(categories), "2026-01-08")
	require.NoError(t, err)
	require.Empty(t, AddScores(model.Catalogue{{Model: "m"}}, results)[0].Scores)
}

func TestAnUpdateTellsWhatChangesAndKeepsWhatIsKnown(t *testing.T) {
	t.Parallel()
	known := model.Catalogue{
		{Provider: "openai", Model: "same", ContextWindow: 9, PriceIn: 1, PriceOut: 2, Source: "old"},
		{Provider: "openai", Model: "dearer", ContextWindow: 9, PriceIn: 1, PriceOut: 2, Released: "2026-01-01", Scores: []model.Score{{Name: "coding", Value: 0.5}}},
		{Provider: "openai", Model: "ending", ContextWindow: 9, PriceIn: 1},
		{Provider: "openai", Model: "gone", ContextWindow: 9, PriceIn: 1},
		{Provider: "ollama", Model: "mine"},
	}
	source := model.Catalogue{
		{Provider: "openai", Model: "dearer", ContextWindow: 9, PriceIn: 3, PriceOut: 2, PriceCached: 0.1},
		{Provider: "openai", Model: "ending", ContextWindow: 9, PriceIn: 1, Deprecated: "2027-01-01"},
		{Provider: "openai", Model: "fresh", ContextWindow: 9, PriceIn: 5, PriceOut: 6},
		{Provider: "openai", Model: "over", ContextWindow: 9, PriceIn: 5, Deprecated: "2026-01-01"},
		{Provider: "openai", Model: "same", ContextWindow: 9, PriceIn: 1, PriceOut: 2, Source: "new"},
	}
	changes, entries := Changes(known, source, "2026-11-26")
	require.Equal(t, []Change{
		{ChangePrice, "openai", "dearer", "$1 in, $2 out → $3 in, $2 out, $0.1 cached"},
		{ChangeDeprecated, "openai", "ending", "offered until 2027-01-01"},
		{ChangeNew, "openai", "fresh", "$5 in, $6 out"},
		{ChangeRemoved, "openai", "gone", "the source does not list it; its known prices remain"},
	}, changes)
	require.Len(t, entries, 3)
	require.Equal(t, "2026-01-01", entries[0].Released)
	require.Equal(t, known[1].Scores, entries[0].Scores)

	known[1].SourceDate = "2026-11-20"
	older, _ := Changes(known, source, "2026-11-26")
	require.NotContains(t, older, changes[0], "an older source changes nothing")
	known[1].SourceDate = ""

	changes, entries = Changes(known.Learn(model.Learned{Updates: entries}), source, "2026-11-26")
	require.Len(t, changes, 1, "the second time, only what the source lacks remains")
	require.Empty(t, entries)
}

func TestACatalogueFileOfStrangersIsBounded(t *testing.T) {
	t.Parallel()
	read := func(entry string) (model.CatalogueEntry, bool) {
		d, err := Read([]byte("sources: [{name: a, date: 2026-01-01}]\nmodels:\n  - {model: m, context_window: 5, price_in: 1, "+entry+"}\n"), asOf)
		require.NoError(t, err)
		if len(d.Models) == 0 {
			return model.CatalogueEntry{}, false
		}
		return d.Models[0], true
	}
	plain, ok := read("provider: openai, max_output: 4, released: 2026-01-01, deprecated: 2027-01-01, api: responses, capabilities: [tools], long_context: {above: 9, price_in: 2}, scores: [{name: coding, value: 0.5, source: s, date: 2026-01-01}]")
	require.True(t, ok)
	require.Equal(t, []any{"openai", int64(4), "2026-01-01", "2027-01-01", "responses", []model.Capability{model.CapabilityTools}, int64(9), 1},
		[]any{plain.Provider, plain.MaxOutput, plain.Released, plain.Deprecated, plain.API, plain.Capabilities, plain.LongContext.Above, len(plain.Scores)})

	for _, entry := range []string{
		`provider: "\x1b[2J"`, `provider: ""`, `provider: ` + strings.Repeat("p", 300), `provider: openai, long_context: {above: 0, price_in: 2}`,
		`provider: openai, price_out: .nan`, `provider: openai, long_context: {above: 9, price_out: -1}`,
	} {
		_, ok := read(entry)
		require.False(t, ok, entry)
	}
	got, ok := read(`provider: openai, max_output: -7, released: "\x1b[2J", deprecated: soon, api: "\x1b[2J", capabilities: ["\x1b[2J", tools], scores: [{name: "\x1b[2J", value: 0.5}, {name: coding, value: 7}, {name: coding, value: .nan}, {name: coding, value: 0.5, source: "\x1b[2J", date: soon}]`)
	require.True(t, ok)
	require.Zero(t, got.MaxOutput)
	require.Empty(t, got.Released+got.Deprecated+got.API)
	require.Equal(t, []model.Capability{model.CapabilityTools}, got.Capabilities)
	require.Equal(t, []model.Score{{Name: model.ScoreCoding, Value: 0.5, Source: "[2J"}}, got.Scores)
	d, err := Read([]byte("sources: [{name: \"\\x1b[2J\", date: 2026-01-01}]\nmodels: [{provider: openai, model: m, context_window: 999999999999, price_in: 1}]"), asOf)
	require.NoError(t, err)
	require.Equal(t, "[2J", d.Models[0].Source)
	require.EqualValues(t, maxTokens, d.Models[0].ContextWindow)
}
