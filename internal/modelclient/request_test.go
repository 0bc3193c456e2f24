package modelclient

import (
	"encoding/json"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/model"
)

func TestProvidersWithMistakesAreRefused(t *testing.T) {
	t.Parallel()
	for name, list := range map[string][]model.Provider{
		"no name":                              {{Kind: model.KindOpenAI}},
		"no kind":                              {{Name: "a"}},
		"wrong kind":                           {{Name: "a", Kind: "bedrock"}},
		"wrong API":                            {{Name: "a", Kind: model.KindOpenAI, API: "assistants"}},
		"no choice":                            {{Name: "a", Kind: model.KindAnthropic, API: model.APIChat}},
		"no resource":                          {{Name: "a", Kind: model.KindAzure}},
		"no v1 API":                            {{Name: "a", Kind: model.KindAzure, BaseURL: "https://r.openai.azure.com/"}},
		"deployment":                           {{Name: "a", Kind: model.KindAzure, BaseURL: "https://r.openai.azure.com/openai/deployments/gpt"}},
		"no address":                           {{Name: "a", Kind: model.KindCompatible}},
		"no scheme":                            {{Name: "a", Kind: model.KindCompatible, BaseURL: "localhost:8080/v1"}},
		"a query":                              {{Name: "a", Kind: model.KindCompatible, BaseURL: "http://h/v1?x=y"}},
		"twice":                                {{Name: "a", Kind: model.KindOllama}, {Name: "a", Kind: model.KindOpenAI}},
		"less than 0":                          {{Name: "a", Kind: model.KindOllama, MaxConcurrent: -1}},
		"Gemini's endpoint for OpenAI clients": {{Name: "a", Kind: model.KindGemini, BaseURL: "https://generativelanguage.googleapis.com/v1beta/openai/"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := New(list, nil, Options{})
			_ = requireFault(t, err, contract.ClassConfig, contract.CodeInvalidConfig)
		})
	}
}

func TestAChoiceThatIsNotConfiguredIsRefused(t *testing.T) {
	t.Parallel()
	c := newClient(t, model.Provider{Kind: model.KindOllama}, Options{})
	for _, choice := range []contract.ModelChoice{{Provider: "other", Model: "m"}, {Provider: "p"}} {
		req := question()
		req.Choice = choice
		_, err := c.Complete(t.Context(), req)
		_ = requireFault(t, err, contract.ClassConfig, contract.CodeInvalidConfig)
	}
	e, known := c.Entry(contract.ModelChoice{Provider: "p", Model: "m"})
	require.True(t, known)
	require.True(t, e.Can(model.CapabilityTools))
	_, known = c.Entry(contract.ModelChoice{Provider: "other", Model: "m"})
	require.False(t, known)
}

func TestAStrictRequestHoldsTheModelToItsTools(t *testing.T) {
	t.Parallel()
	for kind, parallel := range map[model.Kind]any{model.KindOpenAI: false, model.KindCompatible: nil} {
		for _, strict := range []bool{false, true} {
			var body map[string]any
			url := serve(t, func(w http.ResponseWriter, r *http.Request) {
				_ = json.NewDecoder(r.Body).Decode(&body)
				w.WriteHeader(http.StatusUnauthorized)
			})
			req := question()
			req.Strict = strict
			req.Tools = []model.Tool{{Name: "read", Parameters: json.RawMessage(`{"type":"object","properties":{"path":{"type":"string"}}}`)}}
			_, err := newClient(t, model.Provider{Kind: kind, BaseURL: url, APIKeyEnv: "KEY"}, Options{Getenv: func(string) string { return "a-key" }}).Complete(t.Context(), req)
			require.Error(t, err)
			function := body["tools"].([]any)[0].(map[string]any)["function"].(map[string]any)
			if !strict {
				require.NotContains(t, function, "strict")
				require.NotContains(t, body, "tool_choice")
				continue
			}
			require.Equal(t, true, function["strict"])
			require.Equal(t, []any{"path"}, function["parameters"].(map[string]any)["required"])
			require.Equal(t, "required", body["tool_choice"])
			require.Equal(t, parallel, body["parallel_tool_calls"])
		}
	}
}

func TestACostWithoutAKnownPriceIsAnEstimate(t *testing.T) {
	t.Parallel()
	url, _ := scenario(t, `rules: [{reply: {text: hi}, usage: {prompt_tokens: 10, completion_tokens: 5}}]`)
	c, err := New([]model.Provider{{Name: "p", Kind: model.KindCompatible, BaseURL: url}}, model.Catalogue{{Provider: "p", Model: "dear", PriceIn: 2, PriceOut: 3}}, Options{})
	require.NoError(t, err)
	t.Cleanup(c.Close)
	usage := func() contract.Usage {
		r, err := c.Complete(t.Context(), question())
		require.NoError(t, err)
		return r.Usage
	}
	require.Equal(t, contract.Usage{Calls: 1, PromptTokens: 10, CompletionTokens: 5, MicroUSD: 35, EstimatedPrice: true}, usage(), "at the highest known prices")
	c.SetCatalogue(model.Catalogue{{Provider: "p", Model: "m", PriceIn: 1, PriceOut: 1}})
	require.Equal(t, contract.Usage{Calls: 1, PromptTokens: 10, CompletionTokens: 5, MicroUSD: 15}, usage())
}
