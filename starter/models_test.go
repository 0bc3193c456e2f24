package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/control"
	"github.com/rocketgpt/orchestrator/internal/model"
)

// litellm is a source with one model whose price changes, and one that is new.
const litellm = `{
  "gpt-6-sol": {"litellm_provider": "openai", "mode": "chat", "max_input_tokens": 922000, "max_output_tokens": 128000, "input_cost_per_token": 3e-06, "output_cost_per_token": 1e-05, "supports_function_calling": true},
  "gpt-9": {"litellm_provider": "openai", "mode": "chat", "max_input_tokens": 1000, "max_output_tokens": 100, "input_cost_per_token": 7e-06, "output_cost_per_token": 8e-06, "supports_function_calling": true}
}`

// models returns what rgpt models knows.
func (p *testEnv) models(t *testing.T) control.Models {
	t.Helper()
	var known control.Models
	require.NoError(t, json.Unmarshal([]byte(p.ok(t, "models", "--json").out), &known))
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
		{[]string{}, "specify either --file or --reset"},
		{[]string{"--file", file, "--reset"}, "specify either --file or --reset"},
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
