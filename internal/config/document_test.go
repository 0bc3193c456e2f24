package config_test

import (
	"flag"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/internal/config"
)

var update = flag.Bool("update", false, "write the documents instead of comparing them")

func TestTheDocumentsAreCurrent(t *testing.T) {
	t.Parallel()
	for path, want := range map[string]string{
		"../../docs/CONFIGURATION.md": config.Reference(),
		"../../examples/rgpt.yaml":    config.RenderExample(),
	} {
		if *update {
			require.NoError(t, os.WriteFile(path, []byte(want), 0o644))
		}
		got, err := os.ReadFile(path)
		require.NoError(t, err)
		require.Equal(t, want, string(got), "%s is out of date; run go generate ./internal/config", path)
	}
}

func TestTheExampleShowsTheDefaults(t *testing.T) {
	t.Parallel()
	c, err := config.Load(config.Sources{Project: "../../examples/rgpt.yaml", Env: []string{}})
	require.NoError(t, err)
	equal(t, config.Default(), c)
	require.False(t, c.Origin("execution.max_retries").IsDefault(), "the example says so itself")
}

func TestTheExamplesInTheExampleWork(t *testing.T) {
	t.Parallel()
	// Each line with an example replaces the line above, which has the default.
	text := regexp.MustCompile(`(?m)^( *)(\w+): .*\n *#: (\w+):`).ReplaceAllString(config.RenderExample(), "$1$3:")
	require.NotContains(t, text, "\n    #: custom")
	text = strings.Replace(text, "  image: node:24-bookworm\n", "", 1) // conflicts with environment.dockerfile
	c, err := load(t, text)
	require.NoError(t, err)
	require.Equal(t, "gpt-6-sol", c.Models.Phases["planner"].Model)
	require.Equal(t, "licences", c.Verification.Custom[0].Name)
	require.Equal(t, []string{"/opt/toolchain"}, c.Execution.Sandbox.ReadOnly)
	require.Equal(t, 10*config.USD, c.Models.Catalogue[0].PriceOut)
	require.Equal(t, "RocketGPT", c.Models.Providers["ollama"].Headers["X-Title"])
}

func TestEverySettingIsDocumented(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, k := range config.Schema() {
		require.NotEmpty(t, k.Doc, k.Key)
		require.True(t, strings.HasSuffix(k.Doc, "."), "%s: %s", k.Key, k.Doc)
		require.NotEmpty(t, k.Repository, k.Key)
		require.NotEmpty(t, k.Type, k.Key)
		require.NotContains(t, k.Doc+k.Type+k.Default, "|", "%s breaks the table", k.Key)
		require.False(t, seen[k.Key], k.Key)
		seen[k.Key] = true
	}
	require.Greater(t, len(seen), 90)
}
