package control

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/config"
	"github.com/rocketgpt/orchestrator/internal/fault"
	"github.com/rocketgpt/orchestrator/internal/setup"
	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/internal/storetest"
	"github.com/rocketgpt/orchestrator/internal/verify/checks"
	"github.com/rocketgpt/orchestrator/test/harness"
)

func TestARunThatOnlyPreparesNeedsNeitherModelNorGoal(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	repo := harness.Repo(t, filepath.Join(dir, "app"), map[string]string{"a": "b"})
	runs := preparer(t, dir)
	c := Creation{Repo: repo, PrepareOnly: true}
	require.NoError(t, c.Check())
	made, err := runs.prepare(t.Context(), c, runs.Config, &Created{})
	require.NoError(t, err)
	require.True(t, made.Settings.PrepareOnly)
	require.Empty(t, made.Settings.Models)
	require.NotNil(t, made.Settings.Environment)
	c.nameGoal()
	require.Equal(t, "Set up app", c.Goal)

	_, err = runs.prepare(t.Context(), Creation{Repo: repo, Goal: "x"}, runs.Config, &Created{})
	require.ErrorContains(t, err, "no model is configured", "any other run needs one")

	runs.Config.Environment.Enabled = false
	_, err = runs.prepare(t.Context(), c, runs.Config, &Created{})
	require.ErrorContains(t, err, "environment.enabled")
}

func TestTheEnvironmentOfOneRunIsNoneOrWhatItsDocumentSaysWithinTheRulesOfRequests(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	repo := harness.Repo(t, filepath.Join(dir, "app"), map[string]string{"rgpt.yaml": "environment: {setup: [theirs], timeout: 1m}\n"})
	runs := preparer(t, dir)
	chosen := func(text string) (*contract.EnvironmentSettings, []string, error) {
		// Models are resolved before; a run that prepares has the same environment.
		at, cfg, err := runs.resolve(t.Context(), Creation{Repo: repo}, &Created{})
		require.NoError(t, err)
		settings, spec := setup.FreezeWithoutModels(cfg, at)
		err = runs.chooseEnvironment(Creation{Environment: text}, &settings, &spec)
		return settings.Environment, spec.Environment.Setup, err
	}
	s, commands, err := chosen("auto")
	require.NoError(t, err)
	require.NotNil(t, s)
	require.Equal(t, []string{"theirs"}, commands)
	s, commands, err = chosen("none")
	require.NoError(t, err)
	require.Nil(t, s)
	require.Empty(t, commands)
	s, commands, err = chosen("environment: {setup: [mine], network: {hosts: [registry.npmjs.org]}}\n")
	require.NoError(t, err)
	require.Equal(t, []string{"mine"}, commands)
	require.Equal(t, "1m0s", s.Timeout.String(), "what it does not say stays")
	for text, wrong := range map[string]string{
		"environment: {network: {hosts: [evil.example.com]}}":                          "environment.network.hosts",
		"environment: {network: {credentials: [{host: a.b, header: X-A, env: HOME}]}}": "environment.network.credentials",
		"environment: {enabled: false}":                                                "environment.enabled",
		"environment: {variables: {LD_PRELOAD: /x}}":                                   "LD_PRELOAD",
		"execution: {max_retries: 9}\nenvironment: {}":                                 "only the environment section",
		"{}":               "has no environment section",
		"environment: [":   "invalid YAML",
		"/etc/environment": "expected",
	} {
		_, _, err = chosen(text)
		require.ErrorContains(t, err, wrong, text)
		require.Equal(t, contract.ClassConfig, fault.Of(err).Class)
	}
}

func preparer(tb testing.TB, dir string) *Runs {
	tb.Helper()
	cfg := config.Default()
	blobs, err := setup.Artifacts(tb.Context(), cfg, dir)
	require.NoError(tb, err)
	tb.Cleanup(func() { _ = blobs.Close() })
	return &Runs{Config: cfg, DataDir: dir, Artifacts: blobs}
}

func TestARunDividesItsBrowserTestsByTheDurationsOfEarlierRuns(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	f := storetest.Setup(t)
	runs := preparer(t, dir)
	runs.Store = f.Store
	repo := harness.Repo(t, filepath.Join(dir, "app"), map[string]string{"a": "b"})
	prepared := func() (store.NewRun, checks.Durations) {
		made, err := runs.prepare(t.Context(), Creation{Repo: repo, PrepareOnly: true}, runs.Config, &Created{})
		require.NoError(t, err)
		return made, made.Spec.(setup.RunSpec).Verification.Durations
	}
	runs.Config.Verification.Shards = 2
	made, durations := prepared()
	require.Empty(t, durations, "nothing was measured")

	made.GoalTitle = "Set up app"
	earlier, _, err := f.CreateRun(t.Context(), made)
	require.NoError(t, err)
	_, err = f.OpenBaseline(t.Context(), earlier.ID, store.Baseline{Key: "k", Repo: earlier.Repo})
	require.NoError(t, err)
	require.NoError(t, f.SaveBaselineCheck(t.Context(), "k", store.BaselineCheck{
		Result: contract.CheckResult{Check: contract.Check{ID: "test-playwright-1"}},
		Cases: []contract.TestCase{
			{Name: "[one] login.spec.ts › logs in", Status: contract.TestPassed, DurationMS: 100}, {Name: "[two] login.spec.ts › logs in › again", Status: contract.TestPassed, DurationMS: 20},
			{Name: "sub/cart.spec.ts › adds", Status: contract.TestPassed, DurationMS: 7}, {Name: "npx playwright test", Status: contract.TestPassed, DurationMS: 9},
		},
	}))
	_, durations = prepared()
	require.Equal(t, checks.Durations{"login.spec.ts": 120, "sub/cart.spec.ts": 7}, durations)

	runs.Config.Verification.Shards = 1
	_, durations = prepared()
	require.Empty(t, durations, "there is nothing to divide")
}
