package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/control"
	"github.com/rocketgpt/orchestrator/internal/model"
	"github.com/rocketgpt/orchestrator/internal/scripted"
	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/internal/store/catalogue"
)

// litellm is a source with one model whose price changes, and one that is new.
const litellm = `{
  "gpt-6-sol": {"litellm_provider": "openai", "mode": "chat", "max_input_tokens": 922000, "max_output_tokens": 128000, "input_cost_per_token": 3e-06, "output_cost_per_token": 1e-05, "supports_function_calling": true},
  "gpt-9": {"litellm_provider": "openai", "mode": "chat", "max_input_tokens": 1000, "max_output_tokens": 100, "input_cost_per_token": 7e-06, "output_cost_per_token": 8e-06, "supports_function_calling": true}
}`

// models returns what rgpt models knows.
func (p *testEnv) models(t *testing.T, options ...string) control.Models {
	t.Helper()
	var known control.Models
	require.NoError(t, json.Unmarshal([]byte(p.ok(t, append([]string{"models", "--json"}, options...)...).out), &known))
	return known
}

func price(known control.Models, name string) (float64, bool) {
	e, ok := known.Catalogue.Find(model.Provider{Name: "openai", Kind: model.KindOpenAI}, name)
	return e.PriceIn, ok
}

func TestAnUpdateOfTheCatalogueIsShownBeforeItIsStored(t *testing.T) {
	t.Parallel()
	p := withStore(t)
	file := filepath.Join(p.dir, "prices.json")
	require.NoError(t, os.WriteFile(file, []byte(litellm), 0o600))

	dry := p.ok(t, "models", "update", "--file", file, "--date", "2026-12-01", "--dry-run").out
	require.Regexp(t, `(?m)^price +openai/gpt-6-sol +\$2 in, .* → \$3 in`, dry)
	require.Regexp(t, `(?m)^new +openai/gpt-9 +\$7 in, \$8 out`, dry)
	require.Regexp(t, `(?m)^removed +openai/gpt-5\.5 `, dry)
	require.NotContains(t, dry, "claude", "the file is silent about other providers")
	require.Contains(t, dry, "2 models in the file (litellm)")
	require.Contains(t, dry, "Nothing was stored")
	_, known := price(p.models(t), "gpt-9")
	require.False(t, known)

	require.Contains(t, p.ok(t, "models", "update", "--file", file, "--date", "2026-12-01").out, "Stored")
	for name, want := range map[string]float64{"gpt-6-sol": 3, "gpt-9": 7, "gpt-5.5": 5} {
		got, known := price(p.models(t), name)
		require.True(t, known)
		require.InDelta(t, want, got, 0, name)
	}
	require.Regexp(t, `(?m)^openai +gpt-9 .* litellm 2026-12-01$`, p.ok(t, "models", "--all").out)
	require.NotContains(t, p.ok(t, "models", "update", "--file", file, "--date", "2026-12-01").out, "gpt-9", "the second time, it is known")

	require.Contains(t, p.ok(t, "models", "update", "--reset").out, "Removed 2 stored entries")
	_, known = price(p.models(t), "gpt-9")
	require.False(t, known)
}

func TestAnUpdateIsRefusedWithItsReason(t *testing.T) {
	t.Parallel()
	p := withStore(t)
	file := filepath.Join(p.dir, "prices.json")
	require.NoError(t, os.WriteFile(file, []byte("<html>"), 0o600))
	for _, tc := range []struct {
		args   []string
		reason string
	}{
		{[]string{}, "specify one of --file, --scores and --reset"},
		{[]string{"--file", file, "--reset"}, "specify one of --file, --scores and --reset"},
		{[]string{"--file", file, "--scores", file, "--categories", file}, "specify one of --file, --scores and --reset"},
		{[]string{"--scores", file}, "--scores and --categories must be specified together"},
		{[]string{"--scores", file, "--categories", filepath.Join(p.dir, "missing")}, "cannot read the categories"},
		{[]string{"--scores", file, "--categories", file}, "cannot read the scores in "},
		{[]string{"--file", file}, "neither LiteLLM"},
		{[]string{"--file", filepath.Join(p.dir, "missing")}, "cannot read the models"},
		{[]string{"--file", file, "--date", "yesterday"}, "is not a day"},
	} {
		r := p.run(t, append([]string{"models", "update"}, tc.args...)...)
		require.Equal(t, exitInput, r.code, tc.args)
		require.Contains(t, r.errs, tc.reason)
	}
}

func TestAModelWithoutAKnownPriceIsShownAsEstimated(t *testing.T) {
	t.Parallel()
	p := withStore(t)
	for name, want := range map[string]string{"of-tomorrow": `unknown \(estimated: [1-9]`, "gpt-6-sol": "2, 10 "} {
		file := filepath.Join(p.dir, name+".yaml")
		require.NoError(t, os.WriteFile(file, []byte("models: {default: {provider: openai, model: "+name+"}}"), 0o600))
		require.Regexp(t, `(?m)^planner +openai/`+name+" +"+want, p.ok(t, "models", "--config", file).out)
	}
}

func TestTheCatalogueShowsNoAssumedPricesAndNoControlCharacters(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	evil := "\x1b[2J"
	(&app{out: &out}).printModels(control.Models{Catalogue: model.Catalogue{
		{Provider: "openai" + evil, Model: "m" + evil, PriceIn: 7.5, PriceOut: 8.5, Released: evil, Deprecated: evil, Checked: evil, Source: evil, SourceDate: evil},
		{Provider: "openai", Model: "checked", PriceIn: 6.25, PriceOut: 9.75, Assumed: true, Checked: "2026-11-26"},
	}}, true)
	require.NotContains(t, out.String(), "\x1b")
	require.Contains(t, out.String(), "7.5")
	require.NotContains(t, out.String(), "6.25")
	require.Regexp(t, `checked +0 +0 +unknown +unknown`, out.String())
}

func TestWithoutItsDatabaseTheCatalogueSaysWhatIsMissing(t *testing.T) {
	t.Parallel()
	p := empty(t)
	p.env = append(p.env, "DATABASE_URL=postgres://rgpt@127.0.0.1:1/rgpt")
	known := p.models(t)
	require.NotEmpty(t, known.Catalogue)
	require.NotEmpty(t, known.Missing)
	require.Contains(t, p.ok(t, "models").out, "Without what this installation has stored about models: ")
	require.Empty(t, known.Prices[contract.AgentPlanner])
}

// serveScenario serves a scripted model and returns its base URL.
func serveScenario(t *testing.T, yaml string) string {
	t.Helper()
	sc, err := scripted.Parse("scenario.yaml", []byte(yaml))
	require.NoError(t, err)
	server, err := scripted.New(sc, scripted.Options{})
	require.NoError(t, err)
	h := httptest.NewServer(server)
	t.Cleanup(func() {
		require.NoError(t, server.Close())
		h.Close()
	})
	return h.URL + "/v1"
}

// lacking is a scenario whose models differ in what they can do.
const lacking = `
models:
  - {name: full}
  - {name: plain, lacks: [tools, vision]}
rules:
  - when: {step: json_schema}
    reply: {json: {sky: clear, degrees: 25}}
  - when: {step: tools, turn: 1}
    reply: {tool_calls: [{name: get_weather, arguments: {city: Lima}}, {name: get_weather, arguments: {city: Oslo}}]}
  - when: {step: vision}
    reply: {text: "green, yellow, blue"}
  - when: {step: prompt_cache, turn: 2}
    usage: {prompt_tokens: 1400, cached_tokens: 1280, completion_tokens: 2}
    reply: {text: ready}
  - reply: {text: ready}
`

// withModels is a place whose provider house serves a scenario, and the options that select its
// configuration.
func withModels(t *testing.T, yaml, choices string) (p *testEnv, options []string) {
	t.Helper()
	p = withStore(t)
	key, file := filepath.Join(p.dir, "key"), filepath.Join(p.dir, "rgpt.yaml")
	require.NoError(t, os.WriteFile(key, []byte("a-key"), 0o600))
	require.NoError(t, os.WriteFile(file, []byte(`
models:
  `+choices+`
  providers:
    house: {kind: anthropic, base_url: "`+serveScenario(t, yaml)+`", api_key_file: "`+key+`"}
  catalogue:
    - {provider: house, model: "*", price_in: 1, price_out: 5, capabilities: [tools, json_schema, vision]}
`), 0o600))
	return p, []string{"--config", file}
}

// checked runs a deep check and returns what it found.
func (p *testEnv) checked(t *testing.T, options []string, args ...string) control.ModelChecks {
	t.Helper()
	var out control.ModelChecks
	require.NoError(t, json.Unmarshal([]byte(p.ok(t, append(append([]string{"models", "--check", "--deep", "--json"}, args...), options...)...).out), &out))
	return out
}

func TestADeepCheckFindsWhatModelsCanDoAndLaterCallsUseIt(t *testing.T) {
	t.Parallel()
	p, options := withModels(t, lacking, "default: {provider: house, model: full}\n  fallback: [{provider: house, model: plain}]")
	with := func(args ...string) []string { return append(args, options...) }
	p.ok(t, with("models", "set", "builder", "--model", "house/plain")...)

	table := p.ok(t, with("models", "--check", "--deep", "--max-cost", "1")...).out
	require.Regexp(t, `(?m)^house/full \(planner, repair, alpha, beta, gamma\)$`, table)
	require.Regexp(t, `(?m)^house/plain \(builder\)$`, table)
	require.Regexp(t, `(?m)^CAPABILITY +CATALOGUE +FOUND +EVIDENCE$`, table)
	require.Regexp(t, `(?m)^tools +yes +yes +called get_weather, and read the result: "ready"$`, table)
	require.Regexp(t, `(?m)^vision +yes +no ! +rejected with HTTP 400: This model does not support image inputs\.$`, table)
	require.Regexp(t, `(?m)^\d+ calls, \d+ tokens in, \d+ out, \$0\.00\d\d\. What was found is stored`, table)
	require.Regexp(t, `(?m)^Spent \$0\.0\d\d\d of at most \$1\.0000\.$`, table)

	known := p.models(t, options...)
	e, _ := known.Catalogue.Find(model.Provider{Name: "house", Kind: model.KindAnthropic}, "plain")
	require.False(t, e.Can(model.CapabilityTools))
	require.False(t, e.Can(model.CapabilityVision))
	require.True(t, e.Can(model.CapabilityJSONSchema))
	require.Equal(t, time.Now().UTC().Format(time.DateOnly), e.Checked)
	require.Regexp(t, `(?m)^house +plain .* `+e.Checked+` +configuration`, p.ok(t, with("models")...).out)

	r := p.run(t, with("models", "set", "repair", "--model", "house/plain")...)
	require.Equal(t, exitInput, r.code)
	require.Contains(t, r.errs, "which house/plain does not support")
	learned, err := catalogue.New(p.Store).Read(t.Context())
	require.NoError(t, err)
	e, _ = model.Catalogue{}.Correct(learned.Checks, []model.Provider{{Name: "house"}}).Find(model.Provider{Name: "house"}, "full")
	require.Equal(t, map[model.Capability]bool{
		model.CapabilityStreaming: true, model.CapabilityFixedTemperature: false, model.CapabilityJSONSchema: true, model.CapabilityTools: true,
		model.CapabilityParallelTools: true, model.CapabilityVision: true, model.CapabilityPromptCache: true,
	}, e.Found)
}

func TestADeepCheckNamesItsModelsAndKeepsToItsLimit(t *testing.T) {
	t.Parallel()
	p, options := withModels(t, lacking, "default: {provider: house, model: full}")
	for _, args := range [][]string{{"house/plain"}, {"--model", "house/plain"}} {
		out := p.checked(t, options, args...)
		require.Len(t, out.Models, 1)
		require.Equal(t, "plain", out.Models[0].Model)
		require.EqualValues(t, 10_000, out.MaxMicroUSD, "a cent by default")
		require.LessOrEqual(t, out.Usage.MicroUSD, out.MaxMicroUSD)
		require.Positive(t, out.Usage.MicroUSD)
		require.True(t, out.Models[0].Stored)
	}
	both := p.checked(t, options, "house/plain", "--model", "house/full", "--max-cost", "0.005")
	require.Len(t, both.Models, 2)
	require.LessOrEqual(t, both.Usage.MicroUSD, int64(5000))
	require.Greater(t, both.Needed, int64(5000))
	require.EqualValues(t, 2500, both.Models[0].MaxMicroUSD, "each model gets the same share")
	require.Contains(t, fmt.Sprint(both.Models[0].Findings), "of the limit (--max-cost)")
	require.Greater(t, both.Models[1].MaxMicroUSD, int64(2500), "and what the ones before left")

	for _, tc := range []struct {
		args   []string
		reason string
	}{
		{[]string{"house/plain"}, "only for rgpt models --check --deep"},
		{[]string{"--max-cost", "1"}, "only for rgpt models --check --deep"},
		{[]string{"--deep", "--max-cost", "-1"}, "must be from 0 to 1000"},
		{[]string{"--deep", "--max-cost", "NaN"}, "must be from 0 to 1000"},
		{[]string{"--deep", "nobody/knows"}, `model provider "nobody" not found`},
		{[]string{"--deep", "a/b", "c/d"}, "at most one model"},
		{[]string{"frobnicate"}, `has no command "frobnicate"`},
		{[]string{"--deep", "--server", "http://127.0.0.1:1"}, "only on this machine"},
	} {
		r := p.run(t, append(append([]string{"models", "--check"}, tc.args...), options...)...)
		require.Equal(t, exitInput, r.code, tc.args)
		require.Contains(t, r.errs, tc.reason)
	}
}

func TestADeepCheckOfABusyProviderForgetsNothing(t *testing.T) {
	t.Parallel()
	busy := "rules:\n  - when: {step: chat}\n    reply: {text: ready}\n  - fault: {status: 429}\n"
	p, options := withModels(t, busy, "default: {provider: house, model: full}")
	stored := catalogue.New(p.Store)
	require.NoError(t, stored.Check(t.Context(), model.Checked{Provider: "house", Model: "full", Found: map[model.Capability]bool{model.CapabilityTools: false}}, "ada"))
	out := p.checked(t, options, "--max-cost", "1")
	require.Contains(t, fmt.Sprint(out.Models[0].Findings), "HTTP 429")
	learned, err := stored.Read(t.Context())
	require.NoError(t, err)
	require.Len(t, learned.Checks, 1)
	require.Equal(t, map[model.Capability]bool{model.CapabilityTools: false, model.CapabilityStreaming: true}, learned.Checks[0].Found)

	down, options := withModels(t, "rules:\n  - fault: {status: 503}\n", "default: {provider: house, model: full}")
	r := down.run(t, append([]string{"models", "--check", "--deep"}, options...)...)
	require.Equal(t, exitError, r.code, "no model responds")
	require.Regexp(t, `(?m)^chat +- +unknown +HTTP 503`, r.out)
	require.NotContains(t, r.out, "is stored")
}

func TestACheckFindsModelsThatTheirProviderDoesNotHave(t *testing.T) {
	t.Parallel()
	p, options := withModels(t, lacking, "default: {provider: house, model: full}")
	with := func(args ...string) []string { return append(args, options...) }
	require.Regexp(t, `(?m)^builder +house/full .* models\.default +ok$`, p.ok(t, with("models", "--check")...).out)
	require.Regexp(t, `(?m)^ok +model: house +responds at .*; used by \[alpha beta builder gamma planner repair\]`, p.run(t, with("doctor")...).out)

	p.ok(t, with("models", "set", "builder", "--model", "house/of-tomorrow")...) // as on the settings page
	require.Regexp(t, `(?m)^builder +house/of-tomorrow .* does not list the model of-tomorrow`, p.ok(t, with("models", "--check")...).out)
	diagnosis := p.run(t, with("doctor")...)
	require.Regexp(t, `(?m)^fail +model: house +.* does not list the model of-tomorrow`, diagnosis.out)
	require.Contains(t, diagnosis.out, "→ choose another model for builder")
}

func TestADiagnosisAlsoChecksTheModelsOfSearches(t *testing.T) {
	t.Parallel()
	diagnosis := func(provider, name string) string {
		p, options := withModels(t, lacking, "default: {provider: house, model: full}")
		settings, err := os.OpenFile(options[1], os.O_APPEND|os.O_WRONLY, 0)
		require.NoError(t, err)
		defer settings.Close()
		_, err = fmt.Fprintf(settings, "brain:\n  rerank: {provider: %s, model: %s}\n", provider, name)
		require.NoError(t, err)
		return p.run(t, append([]string{"doctor"}, options...)...).out
	}
	out := diagnosis("house", "of-tomorrow")
	require.Contains(t, out, "used by [alpha beta brain.rerank builder gamma planner repair]")
	require.Regexp(t, `(?m)^fail +model: house +.* does not list the model of-tomorrow`, out)
	require.Contains(t, out, "→ choose another model for brain.rerank (brain.rerank.model)")

	out = diagnosis("nowhere", "m")
	require.Contains(t, out, `brain.rerank requires a provider from models.providers; got "nowhere"`)
	require.Contains(t, out, "→ correct brain.rerank.provider")
}

func TestScoresArePrintedWithTheirSourceAndDay(t *testing.T) {
	t.Parallel()
	p := withStore(t)
	require.Regexp(t, `(?m)^openai +gpt-5 +agentic_coding +0\.75 +2025-08-07 +SWE-bench Verified, as published by OpenAI, `, p.ok(t, "models", "--all").out)
	file := filepath.Join(p.dir, "scores.yaml")
	require.NoError(t, os.WriteFile(file, []byte(`sources: [{name: our tests, date: 2026-12-01}]
models:
  - {provider: openai, model: gpt-9, context_window: 1000, price_in: 1, price_out: 2, released: 2026-12-01, capabilities: [tools],
     scores: [{name: coding, value: 0.764, source: "LiveBench: gpt-9", date: 2026-11-01}, {name: reasoning, value: 0.9, source: "LiveBench: gpt-9", date: 2026-11-01}]}
`), 0o600))
	p.ok(t, "models", "update", "--file", file)
	for _, args := range [][]string{{"models"}, {"models", "--all"}} {
		out := p.ok(t, args...).out
		require.Regexp(t, `(?m)^openai +gpt-9 +coding +0\.76 +2026-11-01 +LiveBench: gpt-9$`, out)
		require.Regexp(t, `(?m)^openai +gpt-9 +reasoning +0\.90 `, out)
	}
}

func TestScoresOfABenchmarkReplaceThoseThatMakersPublished(t *testing.T) {
	t.Parallel()
	p := withStore(t)
	table, categories := filepath.Join(p.dir, "table_2026_11_25.csv"), filepath.Join(p.dir, "categories.json")
	require.NoError(t, os.WriteFile(table, []byte("model,generation,agents,puzzles\ngpt-5-high,70,60,90\nof-nobody,1,1,1\n"), 0o600))
	require.NoError(t, os.WriteFile(categories, []byte(`{"Coding": ["generation"], "Agentic Coding": ["agents"], "Reasoning": ["puzzles"]}`), 0o600))
	update := []string{"models", "update", "--scores", table, "--categories", categories}

	dry := p.ok(t, append(update, "--dry-run")...).out
	require.Regexp(t, `(?m)^scores +openai/gpt-5 +coding 0\.7, agentic_coding 0\.6, reasoning 0\.9 \(LiveBench: gpt-5-high\)$`, dry)
	require.Contains(t, dry, "2 results in the table")
	require.NotContains(t, p.ok(t, "models", "--all").out, "LiveBench")

	require.Contains(t, p.ok(t, update...).out, "Stored")
	out := p.ok(t, "models", "--all").out
	require.Regexp(t, `(?m)^openai +gpt-5 +agentic_coding +0\.60 +2026-11-25 +LiveBench: gpt-5-high$`, out)
	require.NotContains(t, out, "as published by", "results of two benchmarks are not mixed")
	require.Contains(t, p.ok(t, update...).out, "The catalogue has all of it already.")

	p.ok(t, "models", "update", "--reset")
	require.Contains(t, p.ok(t, "models", "--all").out, "as published by OpenAI")
}

func TestWhatIsLeftOfTheSharedBudgetsIsShown(t *testing.T) {
	t.Parallel()
	p := withStore(t)
	require.Empty(t, p.models(t).Budgets)
	p.env = append(p.env, "RGPT_MODELS_BUDGETS_DAY_COST_USD=5", "RGPT_MODELS_BUDGETS_PROJECT_MONTH_TOKENS=1000", "RGPT_MODELS_BUDGETS_TENANT_DAY_TOKENS=900")
	require.Contains(t, p.ok(t, "models").out, "budget for the day "+time.Now().UTC().Format(time.DateOnly)+": $0.0000 of $5.0000, $5.00 left")
	made := p.spawn(t, "o")
	opened, err := p.Record(t.Context(), store.Source{WorkflowID: contract.PipelineWorkflowID(made.ID), WorkflowRunID: "first"}, contract.Record{
		RunID: made.RunID, Seq: 1, Begin: &contract.ExecutionBegin{Phase: contract.PhasePlanner, Step: "alpha", Agent: contract.AgentAlpha},
	})
	require.NoError(t, err)
	now := time.Now()
	call, err := p.ReserveCall(t.Context(), store.Reservation{Execution: opened.Execution, Turn: 1, Provider: "p", Model: "m", Prompt: 250, Scopes: []store.Scope{
		store.DayScope(now, 0, 5_000_000), store.PeriodScope(store.ScopeProject, "my app", now, store.Monthly, 1000, 0), store.PeriodScope(store.ScopeProject, "my app", now, store.Daily, 0, 0),
		store.PeriodScope(store.ScopeTenant, "local", now, store.Daily, 900, 0), store.PeriodScope(store.ScopeProject, "long ago", now.AddDate(-1, 0, 0), store.Monthly, 1000, 0),
	}})
	require.NoError(t, err)
	require.NoError(t, p.CompleteCall(t.Context(), call.ID, contract.Usage{PromptTokens: 250, MicroUSD: 1_500_000}, 0, []byte(`{}`), nil))
	out := p.ok(t, "models").out
	for _, line := range []string{
		"budget for the day " + now.UTC().Format(time.DateOnly) + ": $1.5000 of $5.0000, $3.50 left",
		"budget for the project my app in " + now.UTC().Format("2006-01") + ": 250 tokens of 1000 tokens, 750 tokens left",
		"budget for the tenant local in " + now.UTC().Format(time.DateOnly) + ": 250 tokens of 900 tokens, 650 tokens left",
	} {
		require.Contains(t, out, line)
	}
	require.NotContains(t, out, "long ago")
	require.Len(t, p.models(t).Budgets, 3)
	require.Contains(t, p.ok(t, "pipeline", "status", fmt.Sprint(made.ID)).out, "$3.50 left")
}
