package modelclient

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/model"
)

func TestProbeSaysWhatToFix(t *testing.T) {
	t.Parallel()
	status := func(n int) http.HandlerFunc { return answer(n, `{}`) }
	cases := map[string]struct {
		kind  model.Kind
		h     http.HandlerFunc
		class contract.Class // empty: it is healthy
		code  contract.Code
	}{
		"well":                   {kind: model.KindOpenAI, h: answer(200, `{"data":[]}`)},
		"busy":                   {kind: model.KindOpenAI, h: status(429)},
		"no list, compatible":    {kind: model.KindCompatible, h: status(404)},
		"no list, scripted":      {kind: model.KindScripted, h: status(404), class: contract.ClassConfig, code: contract.CodeInvalidConfig},
		"401":                    {kind: model.KindOpenAI, h: status(401), class: contract.ClassConfig, code: contract.CodeUnauthorized},
		"403":                    {kind: model.KindOpenAI, h: status(403), class: contract.ClassConfig, code: contract.CodeUnauthorized},
		"Gemini's 400":           {kind: model.KindGemini, h: answer(400, `[{"error":{"message":"API key not valid."}}]`), class: contract.ClassConfig, code: contract.CodeUnauthorized},
		"500":                    {kind: model.KindOpenAI, h: status(500), class: contract.ClassInfra, code: contract.CodeUnavailable},
		"a redirect":             {kind: model.KindOpenAI, h: status(302), class: contract.ClassConfig, code: contract.CodeInvalidConfig},
		"a broken connection":    {kind: model.KindOpenAI, h: breakConnection, class: contract.ClassInfra, code: contract.CodeUnavailable},
		"OpenRouter: bad key":    {kind: model.KindOpenRouter, h: byPath("/v1/key", 401, "/v1/models", 200), class: contract.ClassConfig, code: contract.CodeUnauthorized},
		"OpenRouter: good key":   {kind: model.KindOpenRouter, h: byPath("/v1/key", 200, "", 0)},
		"OpenRouter's imitation": {kind: model.KindOpenRouter, h: byPath("/v1/models", 200, "", 0)},
		"Azure's header": {kind: model.KindAzure, h: func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("Api-Key") != "the-key" || r.Header.Get("Authorization") != "" {
				w.WriteHeader(http.StatusUnauthorized)
			}
		}},
		"Gemini's headers": {kind: model.KindGemini, h: func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path != "/v1/models" || r.Header.Get("X-Goog-Api-Key") != "the-key" || r.Header.Get("Authorization") != "" {
				w.WriteHeader(http.StatusUnauthorized)
			}
		}},
		"Anthropic's headers": {kind: model.KindAnthropic, h: func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("X-Api-Key") != "the-key" || r.Header.Get("Anthropic-Version") == "" || r.Header.Get("Authorization") != "" {
				w.WriteHeader(http.StatusUnauthorized)
			}
		}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			base := serve(t, tc.h)
			c := newClient(t, model.Provider{Kind: tc.kind, BaseURL: base, APIKeyEnv: "MY_KEY"}, Options{Getenv: func(string) string { return "the-key" }})
			err := c.Probe(t.Context(), "p")
			if tc.class == "" {
				require.NoError(t, err)
				return
			}
			f := requireFault(t, err, tc.class, tc.code)
			require.Contains(t, f.Message, "model provider p ("+base+")")
			if tc.code == contract.CodeUnauthorized {
				require.Contains(t, f.Message, "MY_KEY")
			}
		})
	}
}

// byPath answers two paths with a status each and everything else with 404.
func byPath(path1 string, status1 int, path2 string, status2 int) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case path1:
			w.WriteHeader(status1)
		case path2:
			w.WriteHeader(status2)
		default:
			w.WriteHeader(http.StatusNotFound)
		}
	}
}

func TestProbeReachesTheScriptedModel(t *testing.T) {
	t.Parallel()
	url, _ := scenario(t, "rules: []\n")
	require.NoError(t, Probe(t.Context(), model.Provider{Name: "s", Kind: model.KindScripted, BaseURL: url}))
	require.NoError(t, probe(t.Context(), http.DefaultClient, model.Provider{Name: "g", Kind: model.KindGemini, BaseURL: strings.TrimSuffix(url, "/v1")}, func(string) string { return "a-key" }))
	for _, wrong := range []string{url + "/wrong", ""} {
		_ = requireFault(t, Probe(t.Context(), model.Provider{Name: "s", Kind: model.KindScripted, BaseURL: wrong}), contract.ClassConfig, contract.CodeInvalidConfig)
	}
}

func TestProbeSaysWhichVariableHoldsNoKey(t *testing.T) {
	t.Parallel()
	c := newClient(t, model.Provider{Kind: model.KindOpenRouter}, Options{Getenv: func(string) string { return "" }})
	f := requireFault(t, c.Probe(t.Context(), "p"), contract.ClassConfig, contract.CodeUnauthorized)
	require.Contains(t, f.Message, "https://openrouter.ai/api/v1")
	require.Contains(t, f.Message, "OPENROUTER_API_KEY")
	_ = requireFault(t, c.Probe(t.Context(), "nobody"), contract.ClassConfig, contract.CodeInvalidConfig)
}

func TestRetryAfterIsReadInAllItsFormsAndLimited(t *testing.T) {
	t.Parallel()
	now := time.Date(2025, 1, 1, 0, 0, 0, 0, time.UTC)
	for name, tc := range map[string]struct {
		header map[string]string
		want   time.Duration
	}{
		"none":             {nil, 0},
		"seconds":          {map[string]string{"Retry-After": "3"}, 3 * time.Second},
		"fraction":         {map[string]string{"Retry-After": "0.5"}, 500 * time.Millisecond},
		"milliseconds win": {map[string]string{"Retry-After": "3", "Retry-After-Ms": "20"}, 20 * time.Millisecond},
		"a date":           {map[string]string{"Retry-After": now.Add(7 * time.Second).Format(http.TimeFormat)}, 7 * time.Second},
		"a past date":      {map[string]string{"Retry-After": now.Add(-time.Hour).Format(http.TimeFormat)}, 0},
		"too long":         {map[string]string{"Retry-After": "186400"}, MaxQuotaWait},
		"far too long":     {map[string]string{"Retry-After-Ms": "1e300"}, MaxQuotaWait},
		"a window's end":   {map[string]string{"X-RateLimit-Reset": "1735689660"}, time.Minute},
		"in milliseconds":  {map[string]string{"X-RateLimit-Reset": "1735689660500"}, time.Minute + 500*time.Millisecond},
		"a count":          {map[string]string{"X-RateLimit-Reset": "60"}, 0},
		"a window of past": {map[string]string{"X-RateLimit-Reset": "1735680000"}, 0},
		"less than 0":      {map[string]string{"Retry-After": "-5"}, 0},
		"no number":        {map[string]string{"Retry-After": "NaN"}, 0},
		"nonsense":         {map[string]string{"Retry-After": "soon"}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := http.Header{}
			for k, v := range tc.header {
				h.Set(k, v)
			}
			require.Equal(t, tc.want, retryAfter(h, now, true))
			if h.Get("X-RateLimit-Reset") != "" {
				require.Zero(t, retryAfter(h, now, false), "nobody asks to wait who only tells when a window ends")
			}
		})
	}
}

// Probe is Probe for one of the client's providers, by name.
func (c *Client) Probe(ctx context.Context, provider string) error {
	p, ok := c.providers[provider]
	if !ok {
		return unknownProvider(provider)
	}
	return probe(ctx, c.http, p.Provider, c.opts.Getenv)
}

func TestProbeModelReportsOnlyModelsThatAProviderSaysItDoesNotHave(t *testing.T) {
	t.Parallel()
	list := func(body string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path != "/v1/models" {
				w.WriteHeader(http.StatusNotFound)
				return
			}
			answer(http.StatusOK, body)(w, r)
		}
	}
	for name, tc := range map[string]struct {
		kind    model.Kind
		h       http.HandlerFunc
		missing bool
	}{
		"described":           {kind: model.KindOpenAI, h: byPath("/v1/models/some/model:free", 200, "", 0)},
		"in the list":         {kind: model.KindOpenRouter, h: list(`{"data":[{"id":"a"},{"id":"some/model:free"}]}`)},
		"without its variant": {kind: model.KindOpenRouter, h: list(`{"data":[{"id":"some/model"}]}`)},
		"not in the list":     {kind: model.KindOllama, h: list(`{"data":[{"id":"some/model-2"}]}`), missing: true},
		"not in Gemini's":     {kind: model.KindGemini, h: list(`{"models":[{"name":"models/other"}]}`), missing: true},
		"a part of a list":    {kind: model.KindAnthropic, h: list(`{"data":[{"id":"a"}],"has_more":true}`)},
		"an empty list":       {kind: model.KindCompatible, h: list(`{"data":[]}`)},
		"no list":             {kind: model.KindCompatible, h: answer(404, `{}`)},
		"Azure's deployments": {kind: model.KindAzure, h: list(`{"data":[{"id":"a"}]}`)},
		"a bad key":           {kind: model.KindOpenAI, h: answer(401, `{}`)},
		"down":                {kind: model.KindOpenAI, h: breakConnection},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := model.Provider{Name: "p", Kind: tc.kind, BaseURL: serve(t, tc.h), APIKeyEnv: "KEY"}
			client, closeIdle := newHTTPClient(nil)
			t.Cleanup(closeIdle)
			err := probeModel(t.Context(), client, p, "some/model:free", func(string) string { return "the-key" })
			if !tc.missing {
				require.NoError(t, err)
				return
			}
			f := requireFault(t, err, contract.ClassConfig, contract.CodeModelNotFound)
			require.Contains(t, f.Message, "does not list the model some/model:free")
		})
	}
}
