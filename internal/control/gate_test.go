package control

import (
	"errors"
	"testing"
	"time"

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
	fork, err := got.gateOfFork(t.Context(), &contract.GateSettings{Policy: "default"})
	require.NoError(t, err)
	require.Equal(t, "strict", fork.Policy)

	r.Reload = func() (*config.Config, error) { return nil, errors.New("rgpt.yaml:3: no such policy") }
	_, err = r.Create(t.Context(), Creation{Goal: "Add a page", Repo: "/repo"})
	require.ErrorContains(t, err, "rgpt.yaml:3", "a broken file creates no runs")
}

func TestAForkIsReviewedIfTheForkedRunIs(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ operator, old, want string }{
		"of a reviewed run":        {contract.ReviewOff, contract.ReviewOn, contract.ReviewOn},
		"of a run without":         {contract.ReviewPolicy, "", contract.ReviewPolicy},
		"now reviewed in any case": {contract.ReviewOn, contract.ReviewPolicy, contract.ReviewOn},
		"neither":                  {contract.ReviewOff, "", ""},
	} {
		r := &Runs{Config: config.Default()}
		r.Config.Gate.Review = c.operator
		old := &contract.GateSettings{Policy: "default"}
		if c.old != "" {
			old.Review = &contract.ReviewSettings{Mode: c.old, Rounds: 3}
		}
		got, err := r.gateOfFork(t.Context(), old)
		require.NoError(t, err)
		if c.want == "" {
			require.Nil(t, got.Review, name)
			continue
		}
		require.Equal(t, c.want, got.Review.Mode, name)
	}
}

func TestTheReviewersModelIsThatOfTheSetting(t *testing.T) {
	t.Parallel()
	r := &Runs{Config: config.Default()}
	cfg := r.Config
	cfg.Gate.Review, cfg.Gate.ReviewModel = contract.ReviewOn, "other/judge"
	_, err := r.gateSettings(t.Context(), cfg)
	require.ErrorContains(t, err, "gate.review_model")
	cfg.Models.Providers = map[string]config.Provider{"other": {}}
	got, err := r.gateSettings(t.Context(), cfg)
	require.NoError(t, err)
	require.Equal(t, contract.ModelChoice{Provider: "other", Model: "judge"}, *got.Review.Model)
	require.Equal(t, []int{1, 192 << 10}, []int{got.Review.Rounds, got.Review.DiffBytes})
}

func TestAForkKeepsWhatMadeTheForkedRunStricter(t *testing.T) {
	t.Parallel()
	r := &Runs{Config: config.Default()}
	r.Config.Gate.Allowed = []string{"src/**", "docs/**"}
	r.Config.Gate.Labels = config.GateLabels{Automerge: []string{"automerge", "fast"}, Blocked: []string{"blocked"}, Review: []string{"needs-review"}}
	r.Config.Gate.Limits.Files, r.Config.Gate.Limits.Lines, r.Config.Verification.PinnedTests = 500, 0, "report"
	got, err := r.gateOfFork(t.Context(), &contract.GateSettings{
		Policy: "default", Tests: "enforce", Limits: contract.GateLimits{Files: 10, Lines: 100, Deletions: 999, Allowed: []string{"src/**"}},
		LabelRules: contract.GateLabelRules{Automerge: []string{"automerge"}, Blocked: []string{"hold"}, Review: []string{"needs-review", "risky"}},
	})
	require.NoError(t, err)
	require.Equal(t, []int{10, 100, r.Config.Gate.Limits.Deletions}, []int{got.Limits.Files, got.Limits.Lines, got.Limits.Deletions})
	require.Equal(t, []string{"src/**"}, got.Limits.Allowed)
	require.Equal(t, "enforce", got.Tests)
	require.Equal(t, contract.GateLabelRules{
		Automerge: []string{"automerge"}, Blocked: []string{"blocked", "hold"}, Review: []string{"needs-review", "risky"},
	}, got.LabelRules)

	for now, want := range map[time.Duration]time.Duration{time.Hour: 3 * time.Hour, 5 * time.Hour: 5 * time.Hour} {
		r.Config.Gate.Dependencies.Lookup, r.Config.Gate.Dependencies.MinAge = true, now
		got, err = r.gateOfFork(t.Context(), &contract.GateSettings{Policy: "default", Dependencies: &contract.GateDependencies{MinAge: 3 * time.Hour}})
		require.NoError(t, err)
		require.Equal(t, want, got.Dependencies.MinAge)
	}
	r.Config.Gate.Dependencies.Lookup = false
	got, err = r.gateOfFork(t.Context(), &contract.GateSettings{Policy: "default", Dependencies: &contract.GateDependencies{}})
	require.NoError(t, err)
	require.Nil(t, got.Dependencies, "the operator no longer allows it")

	r.Config.Gate.Allowed = []string{"docs/**"}
	got, err = r.gateOfFork(t.Context(), &contract.GateSettings{Policy: "default", Limits: contract.GateLimits{Allowed: []string{"src/**"}}})
	require.NoError(t, err)
	require.Equal(t, []string{"src/**"}, got.Limits.Allowed, "an empty list would allow everything")
}
