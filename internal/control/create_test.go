package control

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/config"
	"github.com/rocketgpt/orchestrator/internal/fault"
	"github.com/rocketgpt/orchestrator/internal/setup"
	"github.com/rocketgpt/orchestrator/internal/store"
)

func TestAProjectIsNamedAfterItsRepository(t *testing.T) {
	t.Parallel()
	for url, want := range map[string]string{
		"/repos/app": "app", "/repos/app/": "app", "/repos/app.git": "app", "https://example.com/team/app.git": "app", "https://example.com/team/app/": "app", "https://example.com/app?x=1": "app",
		"git@example.com:team/app.git": "app", "git@example.com:app.git": "app", "ssh://git@example.com:22/app": "app", "https://user:secret@example.com": "example.com", "file:///repos/app": "app",
		"/": "project", "": "project", ".": "project", "..": "project", ".git": "project",
	} {
		require.Equal(t, want, setup.ProjectOf(url), "%q", url)
	}
}

func TestAGoalIsATitleAndWhatFollows(t *testing.T) {
	t.Parallel()
	runs := &Runs{Config: config.Default()}
	for name, c := range map[string]struct {
		in                 Creation
		title, description string
		wrong              string
	}{
		"one line":              {in: Creation{Goal: "Add dark mode"}, title: "Add dark mode"},
		"several lines":         {in: Creation{Goal: "Add dark mode\n\nfor all pages\nand e-mails\n"}, title: "Add dark mode", description: "for all pages\nand e-mails"},
		"lines of another kind": {in: Creation{Goal: "\n  From a file \r\n\r\nmore\r\n"}, title: "From a file", description: "more"},
		"blank lines before it": {in: Creation{Goal: "\n \n Add dark mode "}, title: "Add dark mode"},
		"a description":         {in: Creation{Goal: "Add", Description: "more"}, title: "Add", description: "more"},
		"both":                  {in: Creation{Goal: "Add\none", Description: "two"}, title: "Add", description: "one\n\ntwo"},
		"nothing":               {in: Creation{}, wrong: "is empty"},
		"white space":           {in: Creation{Goal: " \n\t"}, wrong: "is empty"},
		"NUL":                   {in: Creation{Goal: "a\x00b"}, wrong: "must be valid UTF-8 without NUL bytes"},
		"no UTF-8":              {in: Creation{Goal: "a", Description: "\xff"}, wrong: "must be valid UTF-8 without NUL bytes"},
		"too long":              {in: Creation{Goal: strings.Repeat("x", int(config.Default().Execution.MaxGoalBytes.Int64())+1)}, wrong: "max_goal_bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			title, description, err := runs.goal(c.in)
			if c.wrong != "" {
				require.ErrorContains(t, err, c.wrong)
				require.Equal(t, contract.ClassHuman, fault.Of(err).Class)
				return
			}
			require.NoError(t, err)
			require.Equal(t, []string{c.title, c.description}, []string{title, description})
		})
	}
}

func TestAModelThatIsNamedHasTheTimeOutOfItsProvider(t *testing.T) {
	t.Parallel()
	warm, cold := 0.7, 0.0
	cfg := &config.Config{Models: config.Models{Providers: map[string]config.Provider{"slow": {Kind: "ollama", Timeout: 40 * time.Minute}}}}
	was := contract.ModelChoice{Provider: "openai", Model: "gpt-5", Temperature: &warm, Timeout: time.Minute}
	runs, run := &Runs{Config: cfg}, store.Run{Settings: contract.Settings{Models: map[contract.Agent]contract.ModelChoice{contract.AgentBuilder: was}}}
	for name, c := range map[string]struct {
		model       string
		temperature *float64
		want        *contract.ModelChoice
	}{
		"nothing":                   {"", nil, nil},
		"a model":                   {"slow/qwen3", nil, &contract.ModelChoice{Provider: "slow", Model: "qwen3", Timeout: 40 * time.Minute}},
		"a model with slashes":      {"slow/a/b", nil, &contract.ModelChoice{Provider: "slow", Model: "a/b", Timeout: 40 * time.Minute}},
		"a temperature":             {"", &cold, &contract.ModelChoice{Provider: "openai", Model: "gpt-5", Temperature: &cold, Timeout: time.Minute}},
		"a model and a temperature": {"slow/x", &warm, &contract.ModelChoice{Provider: "slow", Model: "x", Temperature: &warm, Timeout: 40 * time.Minute}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := runs.ModelFor(t.Context(), run, contract.AgentBuilder, ModelOverride{Model: c.model, Temperature: c.temperature})
			require.NoError(t, err)
			require.Equal(t, c.want, got)
		})
	}
	require.InDelta(t, 0.7, *was.Temperature, 0, "what there was stays as it is")
	for _, bad := range []string{"x", "/x", "slow/", "fast/x"} {
		_, err := Model(cfg, bad)
		require.Equal(t, contract.ClassHuman, fault.Of(err).Class, bad)
	}
}
