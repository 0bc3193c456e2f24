package control

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/config"
)

func TestAForkHasTheOperatorsGateAndIsNotJudgedMoreMildly(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ operator, old, want string }{
		"of a run without a gate": {"default", "", "default"},
		"of a stricter run":       {"default", "strict", "strict"},
		"of a milder run":         {"strict", "permissive", "strict"},
		"of a run before it":      {"permissive", "default", "default"},
		"without a gate":          {config.GateOff, "strict", ""},
	} {
		r := &Runs{Config: config.Default()}
		r.Config.Gate.Policy = c.operator
		var old *contract.GateSettings
		if c.old != "" {
			old = &contract.GateSettings{Policy: c.old}
		}
		got, err := r.gateOfFork(t.Context(), old)
		require.NoError(t, err)
		if c.want == "" {
			require.Nil(t, got, name)
			continue
		}
		require.Equal(t, c.want, got.Policy, name)
		require.NotZero(t, got.Limits, name)
	}
}

func TestNewRunsAreJudgedByTheSettingsThatAreInForceNow(t *testing.T) {
	t.Parallel()
	now := config.Default()
	r := &Runs{Config: config.Default(), Reload: func() (*config.Config, error) { return now, nil }}
	now.Gate.Policy, now.Gate.Limits.Files, now.Git.Protected = "strict", 7, []string{"x"}
	got, err := r.current()
	require.NoError(t, err)
	require.Equal(t, now.Gate, got.Config.Gate)
	require.Equal(t, config.Default().Git, got.Config.Git, "all else needs a restart")
	require.Equal(t, "default", r.Config.Gate.Policy)
	fork, err := r.gateOfFork(t.Context(), &contract.GateSettings{Policy: "default"})
	require.NoError(t, err)
	require.Equal(t, "strict", fork.Policy)

	r.Reload = func() (*config.Config, error) { return nil, errors.New("rgpt.yaml:3: no such policy") }
	_, err = r.Create(t.Context(), Creation{Goal: "Add a page", Repo: "/repo"})
	require.ErrorContains(t, err, "rgpt.yaml:3", "a broken file creates no runs")
}
