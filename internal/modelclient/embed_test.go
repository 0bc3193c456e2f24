package modelclient

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/model"
	"github.com/rocketgpt/orchestrator/internal/scripted"
)

// embeddable is a request for the embeddings of texts.
func embeddable(texts ...string) model.EmbeddingRequest {
	return model.EmbeddingRequest{
		Choice: contract.ModelChoice{Provider: "p", Model: "m"}, Texts: texts,
		Headers: model.Identity{Run: 42, Agent: string(contract.AgentIndexer), Attempt: 1, Turn: 3}, IdempotencyKey: "rgpt-42-1-3",
	}
}

func TestEachKindOfProviderReturnsAVectorForEachTextInOrder(t *testing.T) {
	t.Parallel()
	for _, kind := range []model.Kind{model.KindScripted, model.KindOpenAI, model.KindCompatible, model.KindOllama, model.KindGemini} {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			url, log := scenario(t, "rules: []")
			if kind == model.KindGemini {
				url = strings.TrimSuffix(url, "/v1")
			}
			c := newClient(t, model.Provider{Kind: kind, BaseURL: url, APIKeyEnv: "KEY"}, Options{Getenv: func(string) string { return "secret" }})
			one, err := c.Embed(t.Context(), embeddable("open the file"))
			require.NoError(t, err)
			three, err := c.Embed(t.Context(), embeddable("close the door", "open the file", "close the door"))
			require.NoError(t, err)
			require.Len(t, three.Vectors, 3)
			require.Equal(t, one.Vectors[0], three.Vectors[1], "a text's vector does not depend on the other texts")
			require.Equal(t, three.Vectors[0], three.Vectors[2])
			require.NotEqual(t, three.Vectors[0], three.Vectors[1])
			require.Positive(t, three.Usage.PromptTokens)
			require.Zero(t, three.Usage.CompletionTokens)
			require.Equal(t, 1, three.Usage.Calls)
			require.Equal(t, kind == model.KindGemini, three.Estimated, "the scripted Gemini reports no usage")

			short := embeddable("open the file")
			short.Dimensions = 64
			small, err := c.Embed(t.Context(), short)
			require.NoError(t, err)
			require.Len(t, small.Vectors[0], 64)

			entries, err := scripted.ReadLog(log)
			require.NoError(t, err)
			require.Len(t, entries, 3)
			require.Equal(t, int64(42), entries[0].Run)
			require.Equal(t, "indexer", entries[0].Agent)
		})
	}
}

func TestEmbeddingsAreChargedAtThePriceOfTheirModel(t *testing.T) {
	t.Parallel()
	for name, usage := range map[string]string{"prompt": `{"prompt_tokens": 1500000, "total_tokens": 1500000}`, "only a total": `{"total_tokens": 1500000}`} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url := serve(t, answer(http.StatusOK, `{"model": "m-1", "data": [{"index": 0, "embedding": [1, 0]}], "usage": `+usage+`}`))
			c := newClient(t, model.Provider{Kind: model.KindCompatible, BaseURL: url}, Options{})
			c.SetCatalogue(model.Catalogue{{Provider: "p", Model: "m", PriceIn: 0.02, Capabilities: []model.Capability{model.CapabilityEmbeddings}}})
			out, err := c.Embed(t.Context(), embeddable("a"))
			require.NoError(t, err)
			require.Equal(t, contract.Usage{Calls: 1, PromptTokens: 1_500_000, MicroUSD: 30_000}, out.Usage)
			require.Equal(t, "m-1", out.Model)
			require.Positive(t, out.Latency)
		})
	}
}

func TestVectorsAreInTheOrderOfTheTextsWhateverTheOrderOfTheResponse(t *testing.T) {
	t.Parallel()
	for name, data := range map[string]string{
		"by their index": `[{"index": 1, "embedding": [0, 1]}, {"index": 0, "embedding": [1, 0]}]`,
		"without one":    `[{"embedding": [1, 0]}, {"embedding": [ 0 , 1e0 ]}]`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url := serve(t, answer(http.StatusOK, `{"data": `+data+`}`))
			out, err := newClient(t, model.Provider{Kind: model.KindCompatible, BaseURL: url}, Options{}).Embed(t.Context(), embeddable("a", "b"))
			require.NoError(t, err)
			require.Equal(t, [][]float32{{1, 0}, {0, 1}}, out.Vectors)
		})
	}
}

func TestAResponseWithoutAVectorForEachTextIsUnusableButPaidFor(t *testing.T) {
	t.Parallel()
	good := `{"index": 0, "embedding": [1, 0]}, `
	for name, data := range map[string]string{
		"none":                   `[]`,
		"no list":                `{}`,
		"null":                   `null`,
		"numbers":                `[1, 2]`,
		"one is missing":         `[{"index": 0, "embedding": [1, 0]}]`,
		"one more":               `[` + good + `{"index": 1, "embedding": [1, 0]}, {"index": 2, "embedding": [1, 0]}]`,
		"one twice":              `[{"index": 1, "embedding": [1, 0]}, {"index": 1, "embedding": [1, 0]}]`,
		"one of nothing":         `[{"index": 0, "embedding": []}, {"index": 1, "embedding": []}]`,
		"of different lengths":   `[` + good + `{"index": 1, "embedding": [1, 0, 0]}]`,
		"of a text nobody asked": `[` + good + `{"index": 7, "embedding": [1, 0]}]`,
		"at a negative index":    `[` + good + `{"index": -1, "embedding": [1, 0]}]`,
		"null for NaN":           `[` + good + `{"index": 1, "embedding": [1, null]}]`,
		"NaN":                    `[` + good + `{"index": 1, "embedding": [1, NaN]}]`,
		"an infinite number":     `[` + good + `{"index": 1, "embedding": [1, -1e39]}]`,
		"a text":                 `[` + good + `{"index": 1, "embedding": ["1", "0"]}]`,
		"packed":                 `[` + good + `{"index": 1, "embedding": "AACAPwAAAAA="}]`,
		"nested":                 `[` + good + `{"index": 1, "embedding": [[1, 0]]}]`,
		"too long":               `[{"index": 0, "embedding": [` + strings.Repeat("1,", maxDimensions) + `1]}, {"index": 1, "embedding": [` + strings.Repeat("1,", maxDimensions) + `1]}]`,
		"thousands":              `[` + strings.Repeat(good, 5000) + `{}]`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url := serve(t, answer(http.StatusOK, `{"data": `+data+`, "usage": {"prompt_tokens": 9}}`))
			out, err := newClient(t, model.Provider{Kind: model.KindCompatible, BaseURL: url}, Options{}).Embed(t.Context(), embeddable("a", "b"))
			_ = requireFault(t, err, contract.ClassLLM, contract.CodeInvalidOutput)
			if name != "NaN" { // which is no JSON at all
				require.Equal(t, int64(9), out.Usage.PromptTokens)
			}
			require.Positive(t, out.Usage.PromptTokens)
			require.Equal(t, 1, out.Usage.Calls)
			require.Nil(t, out.Vectors)
		})
	}
	short := embeddable("a")
	short.Dimensions = 3
	url := serve(t, answer(http.StatusOK, `{"data": [{"embedding": [1, 0]}]}`))
	_, err := newClient(t, model.Provider{Kind: model.KindCompatible, BaseURL: url}, Options{}).Embed(t.Context(), short)
	f := requireFault(t, err, contract.ClassLLM, contract.CodeInvalidOutput)
	require.Contains(t, f.Message, "2 numbers instead of 3")
}

func TestAGeminiThatReturnsOtherVectorsIsUnusable(t *testing.T) {
	t.Parallel()
	for name, body := range map[string]string{
		"one is missing": `{"embeddings": [{"values": [1, 0]}]}`,
		"one is empty":   `{"embeddings": [{"values": [1, 0]}, {}]}`,
		"null for NaN":   `{"embeddings": [{"values": [1, 0]}, {"values": [null, 0]}]}`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			out, err := wireAt(t, geminiWire, answer(http.StatusOK, body), Options{}).Embed(t.Context(), embeddable("a", "b"))
			_ = requireFault(t, err, contract.ClassLLM, contract.CodeInvalidOutput)
			require.True(t, out.Estimated)
			require.Positive(t, out.Usage.PromptTokens)
		})
	}
}

func TestAnEmbeddingThatFailsHasTheClassOfItsCause(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		answer http.HandlerFunc
		class  contract.Class
		code   contract.Code
	}{
		"rate limit": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Retry-After", "7")
			w.WriteHeader(http.StatusTooManyRequests)
		}, contract.ClassInfra, contract.CodeRateLimited},
		"broken connection":      {breakConnection, contract.ClassInfra, contract.CodeUnavailable},
		"wrong key":              {answer(http.StatusUnauthorized, ""), contract.ClassConfig, contract.CodeUnauthorized},
		"not JSON":               {answer(http.StatusOK, "hello"), contract.ClassLLM, contract.CodeInvalidOutput},
		"an error with HTTP 200": {answer(http.StatusOK, `{"error": {"message": "overloaded", "code": 503}}`), contract.ClassInfra, contract.CodeUnavailable},
		"too much":               {answer(http.StatusOK, `{"data": "`+strings.Repeat("x", 100<<10)+`"}`), contract.ClassLLM, contract.CodeTruncated},
	} {
		for _, kind := range []model.Kind{model.KindCompatible, model.KindGemini} {
			t.Run(name+" "+string(kind), func(t *testing.T) {
				t.Parallel()
				p := model.Provider{Kind: kind, BaseURL: serve(t, c.answer), APIKeyEnv: "KEY"}
				_, err := newClient(t, p, Options{MaxResponse: 1 << 10, Getenv: func(string) string { return "secret" }}).Embed(t.Context(), embeddable("a"))
				f := requireFault(t, err, c.class, c.code)
				require.NotContains(t, f.Message, "secret")
				if name == "rate limit" {
					require.Equal(t, 7*time.Second, f.RetryAfter)
				}
			})
		}
	}
	_, err := wireAt(t, anthropicWire, breakConnection, Options{}).Embed(t.Context(), embeddable("a"))
	_ = requireFault(t, err, contract.ClassConfig, contract.CodeBadRequest)
}

func TestTextsThatNoProviderCanEmbedAreNotSent(t *testing.T) {
	t.Parallel()
	url := serve(t, func(http.ResponseWriter, *http.Request) { t.Error("sent") })
	c := newClient(t, model.Provider{Kind: model.KindCompatible, BaseURL: url}, Options{})
	c.SetCatalogue(model.Catalogue{{Provider: "p", Model: "m", ContextWindow: 100, MaxTexts: 3}})
	for name, req := range map[string]model.EmbeddingRequest{
		"none": embeddable(), "an empty one": embeddable("a", ""), "too many": embeddable("a", "b", "c", "d"),
		"absurd dimensions": {Choice: embeddable().Choice, Texts: []string{"a"}, Dimensions: maxDimensions + 1},
	} {
		_, err := c.Embed(t.Context(), req)
		f := requireFault(t, err, contract.ClassRuntime, contract.CodeUnknown)
		require.NotEmpty(t, f.Message, name)
	}
	_, err := c.Embed(t.Context(), embeddable("a", strings.Repeat("long ", 100)))
	f := requireFault(t, err, contract.ClassLogic, contract.CodeTooLarge)
	require.Contains(t, f.Message, "text 2")
}

func TestARequestForEmbeddingsHasNothingButTheTexts(t *testing.T) {
	t.Parallel()
	var body map[string]any
	url := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if json.NewDecoder(r.Body).Decode(&body) != nil || r.URL.Path != "/v1/embeddings" || r.Header.Get("Idempotency-Key") != "rgpt-42-1-3" {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		_, _ = w.Write([]byte(`{"data": [{"index": 0, "embedding": [1]}]}`))
	})
	_, err := newClient(t, model.Provider{Kind: model.KindOllama, BaseURL: url}, Options{}).Embed(t.Context(), embeddable("a"))
	require.NoError(t, err)
	require.Equal(t, map[string]any{"model": "m", "input": []any{"a"}}, body)
}
