package model

import (
	"encoding/json"
	"math"
	"os"
	"regexp"
	"testing"

	"github.com/go-playground/validator/v10"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/rocketgpt/orchestrator/contract"
)

func TestTheEmbeddedCatalogueIsValid(t *testing.T) {
	t.Parallel()
	v := validator.New(validator.WithRequiredStructEnabled())
	seen := map[[2]string]bool{}
	kinds := map[string]bool{}
	for _, e := range DefaultCatalogue() {
		require.NoError(t, v.Struct(e), "%s/%s", e.Provider, e.Model)
		require.False(t, seen[[2]string{e.Provider, e.Model}], "%s/%s is there twice", e.Provider, e.Model)
		seen[[2]string{e.Provider, e.Model}] = true
		kinds[e.Provider] = true
		require.Contains(t, kindDefaults, Kind(e.Provider))
		require.NotEmpty(t, e.Capabilities)
		require.LessOrEqual(t, e.PriceCached, e.PriceIn, "%s/%s", e.Provider, e.Model)
		if long := e.LongContext; long != nil {
			require.GreaterOrEqual(t, long.PriceIn, e.PriceIn, "%s/%s", e.Provider, e.Model)
			require.GreaterOrEqual(t, long.PriceOut, e.PriceOut, "%s/%s", e.Provider, e.Model)
		}
		if e.Deprecated != "" {
			require.GreaterOrEqual(t, e.Deprecated, e.SourceDate, "%s/%s is over", e.Provider, e.Model)
		}
		if e.Provider != "ollama" {
			require.Positive(t, e.PriceIn, "%s/%s", e.Provider, e.Model)
		}
	}
	for _, k := range []Kind{KindOpenAI, KindOpenRouter, KindAnthropic, KindGemini, KindOllama, KindScripted} {
		require.True(t, kinds[string(k)], k)
	}
	for _, s := range DefaultSources() {
		require.NoError(t, v.Struct(s), "each source states its day")
	}
	for _, p := range defaultProviders() {
		require.NoError(t, v.Struct(p))
		require.NoError(t, p.Check())
	}
}

// named matches a model in the documents and examples.
var named = regexp.MustCompile(`provider: ([a-z]+), model: ([a-zA-Z0-9./-]+)[,}]`)

func TestModelsThatDocumentsAndExamplesSelectAreKnown(t *testing.T) {
	t.Parallel()
	seen := 0
	for _, file := range []string{"../../README.md", "../../deploy/compose/rgpt.yaml", "../../docs/CONFIGURATION.md", "../../examples/rgpt.yaml"} {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		for _, m := range named.FindAllStringSubmatch(string(text), -1) {
			if m[2] == "my-model" || m[2] == "some/model" { // examples of unknown ones
				continue
			}
			_, known := DefaultCatalogue().Find(Provider{Name: m[1], Kind: Kind(m[1])}, m[2])
			require.True(t, known, "%s selects %s/%s", file, m[1], m[2])
			seen++
		}
	}
	require.Positive(t, seen)
}

func TestFindPrefersWhatIsNearestToTheProvider(t *testing.T) {
	t.Parallel()
	c := Catalogue{
		{Provider: "openai", Model: "m", PriceIn: 1},
		{Provider: "openai", Model: "dear", PriceIn: 9, PriceOut: 8},
		{Provider: "ollama", Model: "*", PriceIn: 0.5},
	}.With(CatalogueEntry{Provider: "mine", Model: "m", PriceIn: 2}, CatalogueEntry{Provider: "openai", Model: "m", PriceIn: 3})
	mine := Provider{Name: "mine", Kind: KindOpenAI}
	cases := map[string]struct {
		p     Provider
		model string
		price float64
		known bool
	}{
		"by name":                                {mine, "m", 2, true},
		"by kind, the later entry":               {Provider{Name: "other", Kind: KindOpenAI}, "m", 3, true},
		"Azure serves OpenAI's":                  {Provider{Name: "az", Kind: KindAzure}, "m", 3, true},
		"unknown at Azure":                       {Provider{Name: "az", Kind: KindAzure}, "my-deployment", 9, false},
		"by any":                                 {Provider{Name: "o", Kind: KindOllama}, "llama", 0.5, true},
		"unknown: the dearest of who charges":    {mine, "new", 9, false},
		"unknown and nothing known of who sells": {Provider{Name: "c", Kind: KindCompatible}, "new", 0, false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e, known := c.Find(tc.p, tc.model)
			require.Equal(t, tc.known, known)
			require.InDelta(t, tc.price, e.PriceIn, 0)
			require.Equal(t, tc.p.Name, e.Provider)
			require.Equal(t, tc.model, e.Model)
		})
	}
}

func TestCostIsExactAndRoundedUp(t *testing.T) {
	t.Parallel()
	e := CatalogueEntry{PriceIn: 0.1, PriceOut: 0.4}
	cost := func(in, out int64) int64 { return Cost(contract.Usage{PromptTokens: in, CompletionTokens: out}, e) }
	require.EqualValues(t, 0, cost(0, 0))
	require.EqualValues(t, 1, cost(1, 0), "never nothing for something")
	require.EqualValues(t, 1, cost(10, 0))
	require.EqualValues(t, 3, cost(30, 0), "0.1 × 30 is 3.0000000000000004 in binary")
	require.EqualValues(t, 500_000, cost(1_000_000, 1_000_000))
	require.EqualValues(t, 0, cost(-5, math.MinInt64))
	require.Positive(t, cost(math.MaxInt64, math.MaxInt64))
}

func TestReasoningAndLongPromptsHaveTheirOwnPrices(t *testing.T) {
	t.Parallel()
	e := CatalogueEntry{PriceIn: 1, PriceCached: 0.5, PriceOut: 2, PriceReasoning: 3, LongContext: &LongContext{Above: 100, PriceIn: 10, PriceOut: 20}}
	require.EqualValues(t, 100+4*2+6*3, Cost(contract.Usage{PromptTokens: 100, CompletionTokens: 10, ReasoningTokens: 6}, e))
	require.EqualValues(t, 91*10+5+10*20, Cost(contract.Usage{PromptTokens: 101, CachedTokens: 10, CompletionTokens: 10, ReasoningTokens: 6}, e))
	require.EqualValues(t, 7*3, Cost(contract.Usage{CompletionTokens: 7, ReasoningTokens: 7}, CatalogueEntry{PriceOut: 3}), "otherwise reasoning is output")
}

func TestCostNeverFallsWhenTokensGrow(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		e := CatalogueEntry{PriceIn: rapid.Float64Range(0, 1000).Draw(t, "in"), PriceOut: rapid.Float64Range(0, 1000).Draw(t, "out")}
		u := contract.Usage{PromptTokens: rapid.Int64().Draw(t, "prompt"), CompletionTokens: rapid.Int64().Draw(t, "completion")}
		more := u
		more.PromptTokens += rapid.Int64Range(0, math.MaxInt64-max(0, u.PromptTokens)).Draw(t, "more")
		require.GreaterOrEqual(t, Cost(more, e), Cost(u, e))
		require.GreaterOrEqual(t, Cost(u, e), int64(0))
	})
}

func TestEstimateTokensErrsOnTheHighSide(t *testing.T) {
	t.Parallel()
	text := make([]byte, 4000)
	for i := range text {
		text[i] = 'a'
	}
	n := EstimateTokens([]Message{{Role: RoleUser, Text: string(text)}}, nil)
	require.Greater(t, n, int64(1000))
	require.Less(t, n, int64(1200))
	require.Greater(t, EstimateTokens([]Message{{Text: string(text), ToolCalls: []ToolCall{{Arguments: string(text)}}}},
		[]Tool{{Parameters: json.RawMessage(text)}}), 3*n-50)
	require.Positive(t, EstimateTokens(nil, nil))
}

func TestATranscriptSurvivesItsJSON(t *testing.T) {
	t.Parallel()
	in := []Message{
		{Role: RoleSystem, Text: "s"},
		Response{Text: "t", ToolCalls: []ToolCall{{ID: "a", Name: "f", Arguments: `{"x": 1}`}}}.Message(),
		{Role: RoleTool, Text: "result", ToolCallID: "a"},
	}
	data, err := json.Marshal(in)
	require.NoError(t, err)
	var out []Message
	require.NoError(t, json.Unmarshal(data, &out))
	require.Equal(t, in, out)
}

func TestOpenAIsOwnModelsAreCalledByResponses(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		p    Provider
		want API
	}{
		"OpenAI":             {Provider{Kind: KindOpenAI}, APIResponses},
		"a region of OpenAI": {Provider{Kind: KindOpenAI, BaseURL: "https://eu.api.openai.com/v1"}, APIResponses},
		"Azure":              {Provider{Kind: KindAzure, BaseURL: "https://r.openai.azure.com/openai/v1"}, APIResponses},
		"as set":             {Provider{Kind: KindOpenAI, API: APIChat}, APIChat},
		"an imitation":       {Provider{Kind: KindOpenAI, BaseURL: "https://api.openai.com.example/v1"}, APIChat},
		"compatible":         {Provider{Kind: KindCompatible, BaseURL: "https://h/v1"}, APIChat},
		"compatible, as set": {Provider{Kind: KindCompatible, BaseURL: "https://h/v1", API: APIResponses}, APIResponses},
		"Anthropic":          {Provider{Kind: KindAnthropic}, ""},
		"OpenRouter":         {Provider{Kind: KindOpenRouter}, ""},
	} {
		tc.p.Name = "p"
		require.NoError(t, tc.p.Check(), name)
		require.Equal(t, tc.want, tc.p.WithDefaults().API, name)
	}
}

// defaultProviders returns the providers that need no configuration except a key, each
// named after its kind.
func defaultProviders() []Provider {
	var all []Provider
	for _, k := range []Kind{KindOpenAI, KindOpenRouter, KindAnthropic, KindGemini, KindOllama} {
		all = append(all, Provider{Name: string(k), Kind: k}.WithDefaults())
	}
	return all
}

func TestModelsAtCloudsHaveThePricesOfAnthropic(t *testing.T) {
	t.Parallel()
	c := Catalogue{
		{Provider: "anthropic", Model: "claude-haiku-4-5", PriceIn: 1, PriceOut: 5, LongContext: &LongContext{Above: 9, PriceIn: 2}},
		{Provider: "anthropic", Model: "claude-haiku-4-5-20251001", PriceIn: 1.5, PriceOut: 5},
		{Provider: "cloud", Model: "claude-own", PriceIn: 7},
	}
	bedrock, vertex := Provider{Name: "cloud", Kind: KindBedrock, Region: "us-east-1"}, Provider{Name: "cloud", Kind: KindVertex, Region: "us-east5"}
	global := vertex
	global.Region = "global"
	for _, tc := range []struct {
		p     Provider
		model string
		in    float64
		known bool
	}{
		{bedrock, "global.anthropic.claude-haiku-4-5-20251001-v1:0", 1.5, true},
		{bedrock, "us.anthropic.claude-haiku-4-5-20251001-v1:0", 1.5 * 1.1, false},
		{bedrock, "anthropic.claude-haiku-4-5-20301231-v2:0", 1.1, false},
		{bedrock, "arn:aws:bedrock:us-east-1:12:inference-profile/global.anthropic.claude-haiku-4-5", 1, true},
		{global, "claude-haiku-4-5@20251001", 1.5, true},
		{global, "claude-haiku-4-5", 1, true},
		{vertex, "claude-haiku-4-5@20251001", 1.5 * 1.1, false},
		{vertex, "claude-haiku-4-5", 1.1, false},
		{vertex, "claude-own", 7, true},
		{global, "claude-of-tomorrow", 7, false}, // the highest known price
		{bedrock, "meta.llama4", 7, false},
	} {
		e, known := c.Find(tc.p, tc.model)
		require.Equal(t, tc.known, known, tc.model)
		require.InDelta(t, tc.in, e.PriceIn, 1e-9, tc.model)
		require.Equal(t, tc.model, e.Model)
		require.Equal(t, "cloud", e.Provider)
	}
	require.InDelta(t, 2, c[0].LongContext.PriceIn, 0, "the catalogue is unchanged")
}

func TestAModelWithABudgetForThinkingReasonsOnlyWithAnEffort(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		can    []Capability
		effort contract.Effort
		want   bool
	}{
		{nil, contract.EffortHigh, false},
		{[]Capability{CapabilityEffort}, "", true},
		{[]Capability{CapabilityFixedTemperature}, "", true},
		{[]Capability{CapabilityEffort, CapabilityThinkingBudget}, "", false},
		{[]Capability{CapabilityEffort, CapabilityThinkingBudget}, contract.EffortLow, true},
	} {
		require.Equal(t, tc.want, CatalogueEntry{Capabilities: tc.can}.Reasons(tc.effort), tc)
	}
	for _, name := range []string{"claude-haiku-4-5", "claude-sonnet-4-5"} {
		e, _ := DefaultCatalogue().Find(Provider{Name: "anthropic", Kind: KindAnthropic}, name)
		require.True(t, e.Can(CapabilityEffort) && e.Can(CapabilityThinkingBudget), name)
	}
}
