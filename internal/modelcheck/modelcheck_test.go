package modelcheck_test

import (
	"bytes"
	"image/png"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/model"
	"github.com/rocketgpt/orchestrator/internal/modelcheck"
	"github.com/rocketgpt/orchestrator/internal/modelclient"
	"github.com/rocketgpt/orchestrator/internal/scripted"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// able answers each question of a check as a model that can do everything.
const able = `
models:
  - {name: able}
  - {name: plain, lacks: [tools, json_schema, vision, streaming, effort, thinking, temperature]}
  - {name: older, lacks: [effort]}
  - {name: embedder}
rules:
  - when: {step: effort}
    reply: {text: "346", reasoning: "17 times 23 is 391"}
  - when: {step: json_schema}
    reply: {json: {sky: clear, degrees: 25}}
  - when: {step: tools, turn: 1}
    reply: {tool_calls: [{name: get_weather, arguments: {city: Lima}}, {name: get_weather, arguments: {city: Oslo}}]}
  - when: {step: tools, turn: 2}
    reply: {text: "Both are clear."}
  - when: {step: vision}
    reply: {text: "Green, yellow and blue."}
  - when: {step: prompt_cache, turn: 1}
    usage: {prompt_tokens: 1400, completion_tokens: 2}
    reply: {text: ready}
  - when: {step: prompt_cache, turn: 2}
    usage: {prompt_tokens: 1400, cached_tokens: 1280, completion_tokens: 2}
    reply: {text: ready}
  - reply: {text: ready}
`

// wires has a provider for each API.
var wires = []model.Provider{
	{Kind: model.KindScripted, API: model.APIChat}, {Kind: model.KindScripted, API: model.APIResponses},
	{Kind: model.KindAnthropic}, {Kind: model.KindGemini},
	{Kind: model.KindBedrock, Region: "eu-central-1"}, {Kind: model.KindVertex, Region: "europe-west1", Project: "a-project"},
}

// place is a scripted provider.
type place struct {
	p   model.Provider
	log string
}

func serve(t *testing.T, p model.Provider, yaml string) place {
	t.Helper()
	sc, err := scripted.Parse("scenario.yaml", []byte(yaml))
	require.NoError(t, err)
	log := filepath.Join(t.TempDir(), "requests.jsonl")
	server, err := scripted.New(sc, scripted.Options{LogPath: log})
	require.NoError(t, err)
	h := httptest.NewServer(server)
	t.Cleanup(func() {
		require.NoError(t, server.Close())
		h.Close()
	})
	p.Name, p.BaseURL, p.APIKeyEnv = "p", h.URL+"/v1", "KEY"
	if p.Kind == model.KindGemini || p.Kind.Cloud() { // whose SDK adds the version
		p.BaseURL = h.URL
	}
	return place{p.WithDefaults(), log}
}

const plenty = 1_000_000 // a dollar

func (s place) check(t *testing.T, name string, maxMicroUSD int64, can ...model.Capability) modelcheck.Report {
	t.Helper()
	r, err := modelcheck.Run(t.Context(), modelcheck.Target{
		Provider: s.p, Choice: contract.ModelChoice{Provider: "p", Model: name}, MaxMicroUSD: maxMicroUSD,
		Catalogue: model.Catalogue{{Provider: "p", Model: "*", PriceIn: 2, PriceOut: 10, Capabilities: can}},
		Client:    modelclient.Options{Getenv: func(string) string { return "a-key" }},
	})
	require.NoError(t, err)
	return r
}

func found(t *testing.T, r modelcheck.Report, of model.Capability) modelcheck.Finding {
	t.Helper()
	for _, f := range r.Findings {
		if f.Capability == of {
			return f
		}
	}
	require.Fail(t, "nothing was found about "+string(of))
	return modelcheck.Finding{}
}

// everything are the capabilities of models that respond.
var everything = []model.Capability{
	modelcheck.Chat, model.CapabilityStreaming, model.CapabilityFixedTemperature, model.CapabilityEffort, model.CapabilityJSONSchema,
	model.CapabilityTools, model.CapabilityParallelTools, model.CapabilityVision, model.CapabilityPromptCache,
}

func TestEachCapabilityOfAModelIsFoundOverEachAPI(t *testing.T) {
	t.Parallel()
	for _, p := range wires {
		t.Run(string(p.Kind)+string(p.API), func(t *testing.T) {
			t.Parallel()
			r := serve(t, p, able).check(t, "able", plenty)
			of := everything
			if p.Kind.Messages() {
				of = append(slices.Clone(of), model.CapabilityThinkingBudget)
			}
			require.Len(t, r.Findings, len(of))
			for _, of := range of {
				f, want := found(t, r, of), modelcheck.Yes
				if of == model.CapabilityFixedTemperature || of == model.CapabilityThinkingBudget {
					want = modelcheck.No
				}
				require.Equal(t, want, f.Found, "%+v", f)
				require.NotEmpty(t, f.Evidence)
			}
			require.Zero(t, r.NeededMicroUSD)
			require.True(t, found(t, r, model.CapabilityVision).Differs(), "the catalogue says that it cannot")
		})
	}
}

func TestAModelThatLacksCapabilitiesIsFoundToLackThem(t *testing.T) {
	t.Parallel()
	claimed := []model.Capability{model.CapabilityTools, model.CapabilityJSONSchema, model.CapabilityVision, model.CapabilityEffort}
	for _, p := range wires {
		t.Run(string(p.Kind)+string(p.API), func(t *testing.T) {
			t.Parallel()
			r := serve(t, p, able).check(t, "plain", plenty, claimed...)
			require.Equal(t, modelcheck.Yes, found(t, r, modelcheck.Chat).Found)
			require.Equal(t, modelcheck.Yes, found(t, r, model.CapabilityFixedTemperature).Found)
			require.Equal(t, modelcheck.No, found(t, r, model.CapabilityStreaming).Found)
			for _, of := range claimed {
				f := found(t, r, of)
				require.Equal(t, modelcheck.No, f.Found, "%+v", f)
				require.Contains(t, f.Evidence, "rejected with HTTP 400")
				require.True(t, f.Differs())
			}
			require.Equal(t, modelcheck.Skipped, found(t, r, model.CapabilityParallelTools).Found)
			require.Equal(t, map[model.Capability]bool{
				model.CapabilityStreaming: false, model.CapabilityFixedTemperature: true, model.CapabilityEffort: false, model.CapabilityJSONSchema: false,
				model.CapabilityTools: false, model.CapabilityVision: false, model.CapabilityPromptCache: true,
			}, r.Found())
		})
	}
}

func TestAModelThatIgnoresWhatItIsAskedForIsFoundToLackIt(t *testing.T) {
	t.Parallel()
	for _, p := range wires {
		t.Run(string(p.Kind)+string(p.API), func(t *testing.T) {
			t.Parallel()
			s := serve(t, p, "rules:\n  - reply: {text: I would rather not say green or yellow.}\n")
			r := s.check(t, "m", plenty)
			for of, says := range map[model.Capability]string{
				model.CapabilityJSONSchema: "in spite of the schema", model.CapabilityTools: "called no tool in two responses", model.CapabilityVision: "described it twice wrongly",
			} {
				f := found(t, r, of)
				require.Equal(t, modelcheck.No, f.Found)
				require.Contains(t, f.Evidence, says)
			}
			require.Equal(t, modelcheck.Unknown, found(t, r, model.CapabilityEffort).Found, "nothing shows that it reasons")
			require.Equal(t, modelcheck.Unknown, found(t, r, model.CapabilityPromptCache).Found, "caches promise nothing")
			require.NotContains(t, r.Found(), model.CapabilityPromptCache)
		})
	}
}

func TestAnOlderModelOfAnthropicIsFoundToHaveABudgetForThinking(t *testing.T) {
	t.Parallel()
	for _, p := range wires {
		for _, known := range [][]model.Capability{nil, {model.CapabilityEffort, model.CapabilityThinkingBudget}} {
			r := serve(t, p, able).check(t, "older", plenty, known...)
			if !p.Kind.Messages() {
				require.Equal(t, modelcheck.No, found(t, r, model.CapabilityEffort).Found)
				continue
			}
			require.Equal(t, modelcheck.Yes, found(t, r, model.CapabilityEffort).Found, "%+v", r.Findings)
			require.Equal(t, modelcheck.Yes, found(t, r, model.CapabilityThinkingBudget).Found)
		}
	}
}

func TestAFailureThatSaysNothingAboutTheModelIsNoFact(t *testing.T) {
	t.Parallel()
	trials := []string{"fixed_temperature", "effort", "json_schema", "tools", "vision", "prompt_cache"}
	for name, fault := range map[string]string{
		"busy": "{status: 429}", "overloaded": "{status: 503}", "key": "{status: 401}", "forbidden": "{status: 403}", "quota": "{status: 429, code: insufficient_quota}",
		"network": "{disconnect: true}", "cut off": "{truncate: true}", "too long": "{status: 413}",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, p := range wires {
				yaml := "rules:\n"
				for _, step := range trials {
					yaml += "  - when: {step: " + step + "}\n    fault: " + fault + "\n"
				}
				r := serve(t, p, yaml+"  - reply: {text: ready}\n").check(t, "m", plenty)
				require.Equal(t, map[model.Capability]bool{model.CapabilityStreaming: true}, r.Found(), "%s: %+v", p.Kind, r.Findings)
				for _, of := range trials {
					require.Equal(t, modelcheck.Unknown, found(t, r, model.Capability(of)).Found)
				}
				r = serve(t, p, "rules:\n  - fault: "+fault+"\n").check(t, "m", plenty)
				require.Empty(t, r.Found())
				require.Equal(t, modelcheck.Unknown, found(t, r, modelcheck.Chat).Found)
				require.Equal(t, modelcheck.Skipped, found(t, r, model.CapabilityTools).Found)
			}
		})
	}
	r := serve(t, wires[0], "rules:\n  - when: {step: chat}\n    reply: {text: ready}\n").check(t, "m", plenty)
	require.Equal(t, map[model.Capability]bool{model.CapabilityStreaming: true}, r.Found(), "a scenario without a rule says nothing")
}

func TestACheckNeverCostsMoreThanItsLimit(t *testing.T) {
	t.Parallel()
	for _, p := range wires {
		t.Run(string(p.Kind)+string(p.API), func(t *testing.T) {
			t.Parallel()
			tried := -1
			for _, limit := range []int64{0, 500, 3000, 6000, 10_000, 20_000, 100_000} {
				s := serve(t, p, able)
				r := s.check(t, "able", limit)
				var tokensIn, tokensOut int64
				lines, err := scripted.ReadLog(s.log)
				require.NoError(t, err)
				for _, l := range lines {
					require.Equal(t, 200, l.Status)
					tokensIn, tokensOut = tokensIn+l.PromptTokens, tokensOut+l.CompletionTokens
				}
				require.Equal(t, len(lines), r.Usage.Calls)
				require.Equal(t, []int64{tokensIn, tokensOut}, []int64{r.Usage.PromptTokens, r.Usage.CompletionTokens}, "as the provider counts")
				require.LessOrEqual(t, 2*tokensIn+10*tokensOut, limit)
				require.Equal(t, 2*tokensIn+10*tokensOut, r.Usage.MicroUSD)
				require.GreaterOrEqual(t, len(lines), tried)
				tried = len(lines)
				if limit == 0 {
					require.Zero(t, r.Usage.Calls)
					require.Contains(t, found(t, r, modelcheck.Chat).Evidence, "could cost up to $0.0")
				}
				if limit < 10_000 {
					require.Greater(t, r.NeededMicroUSD, limit)
				} else if limit == 100_000 {
					require.Zero(t, r.NeededMicroUSD)
				}
			}
		})
	}
}

func TestEmbeddingsAreTriedWhereTheCatalogueHasThem(t *testing.T) {
	t.Parallel()
	for _, p := range wires {
		t.Run(string(p.Kind)+string(p.API), func(t *testing.T) {
			t.Parallel()
			s := serve(t, p, able)
			r := s.check(t, "embedder", plenty, model.CapabilityEmbeddings)
			require.Len(t, r.Findings, 1, "it does nothing else")
			f := found(t, r, model.CapabilityEmbeddings)
			if p.Kind.Messages() {
				require.Equal(t, modelcheck.No, f.Found, "the API has none")
				return
			}
			require.Equal(t, modelcheck.Yes, f.Found, f.Evidence)
			require.Equal(t, "a vector of 256 dimensions", f.Evidence)
			require.Positive(t, r.Usage.MicroUSD)
			lacking := strings.Replace(able, "{name: embedder}", "{name: embedder, lacks: [embeddings]}", 1)
			require.Equal(t, map[model.Capability]bool{model.CapabilityEmbeddings: false}, serve(t, p, lacking).check(t, "embedder", plenty, model.CapabilityEmbeddings).Found())
		})
	}
}

func TestThePictureShowsGreenYellowAndBlue(t *testing.T) {
	t.Parallel()
	f, err := os.Open("stripes.png")
	require.NoError(t, err)
	defer f.Close()
	picture, err := png.Decode(f)
	require.NoError(t, err)
	for y, want := range map[int][3]bool{10: {false, true, false}, 48: {true, true, false}, 85: {false, false, true}} { // red, green, blue
		r, g, b, _ := picture.At(48, y).RGBA()
		const bright = 0x8000
		require.Equal(t, want, [3]bool{r > bright, g > bright, b > bright}, "line %d", y)
	}
}

func TestWhatIsRejectedOnlyTogetherWithAnEffortIsNotLacking(t *testing.T) {
	t.Parallel()
	sc, err := scripted.Parse("scenario.yaml", []byte(able))
	require.NoError(t, err)
	server, err := scripted.New(sc, scripted.Options{})
	require.NoError(t, err)
	h := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		if bytes.Contains(body, []byte(`"tools"`)) && bytes.Contains(body, []byte(`"reasoning_effort"`)) {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusBadRequest)
			_, _ = w.Write([]byte(`{"error":{"message":"Function tools with reasoning_effort are not supported for this model","type":"invalid_request_error"}}`))
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		server.ServeHTTP(w, r)
	}))
	t.Cleanup(func() {
		require.NoError(t, server.Close())
		h.Close()
	})
	s := place{p: model.Provider{Name: "p", Kind: model.KindScripted, API: model.APIChat, BaseURL: h.URL + "/v1", APIKeyEnv: "KEY"}.WithDefaults()}
	report := s.check(t, "able", plenty, model.CapabilityTools)
	require.Equal(t, modelcheck.Yes, found(t, report, model.CapabilityEffort).Found)
	tools := found(t, report, model.CapabilityTools)
	require.Equal(t, modelcheck.Yes, tools.Found, tools.Evidence)
}
