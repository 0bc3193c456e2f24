package main

import (
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/config"
)

func TestAModelThatAFlagNamesHasTheTimeOutOfItsProvider(t *testing.T) {
	t.Parallel()
	warm, cold := 0.7, 0.0
	cfg := &config.Config{Models: config.Models{Providers: map[string]config.Provider{"slow": {Kind: "ollama", Timeout: 40 * time.Minute}}}}
	was := contract.ModelChoice{Provider: "openai", Model: "gpt-5", Temperature: &warm, Timeout: time.Minute}
	for name, c := range map[string]struct {
		args []string
		want *contract.ModelChoice
	}{
		"nothing":                   {nil, nil},
		"a model":                   {[]string{"--model", "slow/qwen3"}, &contract.ModelChoice{Provider: "slow", Model: "qwen3", Timeout: 40 * time.Minute}},
		"a model with slashes":      {[]string{"--model", "slow/a/b"}, &contract.ModelChoice{Provider: "slow", Model: "a/b", Timeout: 40 * time.Minute}},
		"a temperature":             {[]string{"--temperature", "0"}, &contract.ModelChoice{Provider: "openai", Model: "gpt-5", Temperature: &cold, Timeout: time.Minute}},
		"a model and a temperature": {[]string{"--model", "slow/x", "--temperature", "0.7"}, &contract.ModelChoice{Provider: "slow", Model: "x", Temperature: &warm, Timeout: 40 * time.Minute}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var flags modelFlags
			cmd := &cobra.Command{}
			flags.add(cmd, "m", "t")
			require.NoError(t, cmd.ParseFlags(c.args))
			got, err := flags.choice(cfg, was)
			require.NoError(t, err)
			require.Equal(t, c.want, got)
		})
	}
	require.InDelta(t, 0.7, *was.Temperature, 0, "what there was stays as it is")
	for _, wrong := range []string{"x", "/x", "slow/", "fast/x"} {
		_, err := parseModel(cfg, wrong)
		require.ErrorAs(t, err, &usageError{}, wrong)
	}
}
