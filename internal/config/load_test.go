package config_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/config"
	"github.com/rocketgpt/orchestrator/internal/fault"
)

// load reads a project file with this content and nothing else.
func load(t testing.TB, content string) (*config.Config, error) {
	t.Helper()
	return config.Load(config.Sources{Project: write(t, t.TempDir(), "rgpt.yaml", content), Env: []string{}})
}

func write(t testing.TB, dir, name, content string) string {
	t.Helper()
	path := filepath.Join(dir, name)
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
	require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
	return path
}

// equal compares settings without their origins.
func equal(t *testing.T, want, got *config.Config) {
	t.Helper()
	require.Equal(t, config.Values(want), config.Values(got))
}

func TestNothingGivesTheDefaults(t *testing.T) {
	t.Parallel()
	c, err := config.Load(config.Sources{Env: []string{}, Dir: t.TempDir()})
	require.NoError(t, err)
	equal(t, config.Default(), c)
	require.Equal(t, 4, c.Execution.ParallelSteps)
	require.Equal(t, int64(5_000_000), c.Execution.Step.CostUSD.Int64())
	require.Equal(t, int64(32<<10), c.Execution.MaxGoalBytes.Int64())
	require.True(t, c.Origin("execution.parallel_steps").IsDefault())
}

func TestEachLayerOverridesTheOneBefore(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	base := write(t, dir, "base/rgpt.yaml", "execution: {max_retries: 1, parallel_steps: 11, command_timeout: 1m, step: {turns: 11, tokens: 11}}\nlogging: {level: debug}\n")
	project := write(t, dir, "p/rgpt.yaml", "execution: {max_retries: 2, command_timeout: 2m, step: {turns: 12}}\n")
	local := write(t, dir, "p/rgpt.local.yaml", "execution: {max_retries: 3, command_timeout: 3m}\n")
	c, err := config.Load(config.Sources{
		Dir:   filepath.Dir(project),
		Env:   []string{"RGPT_CONFIG_BASE=" + base, "RGPT_EXECUTION_MAX_RETRIES=4", "RGPT_EXECUTION_COMMAND_TIMEOUT=4m"},
		Flags: map[string]string{"execution.max_retries": "5"},
	})
	require.NoError(t, err)
	require.Equal(t, 5, c.Execution.MaxRetries)
	require.Equal(t, 4*time.Minute, c.Execution.CommandTimeout)
	require.Equal(t, 12, c.Execution.Step.Turns)
	require.Equal(t, int64(11), c.Execution.Step.Tokens)
	require.Equal(t, 11, c.Execution.ParallelSteps)
	require.Equal(t, "debug", c.Logging.Level)
	require.Equal(t, 5*config.USD, c.Execution.Step.CostUSD)

	require.Equal(t, "flag execution.max_retries", c.Origin("execution.max_retries").String())
	require.Equal(t, "environment variable RGPT_EXECUTION_COMMAND_TIMEOUT", c.Origin("execution.command_timeout").String())
	require.Equal(t, project+":1", c.Origin("execution.step.turns").String())
	require.Equal(t, base+":2", c.Origin("logging.level").String())
	require.Equal(t, "default", c.Origin("execution.step.cost_usd").String())
	require.FileExists(t, local)
}

func TestTheBaseFileIsFoundInTheHomeFolder(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	write(t, home, ".config/rgpt/rgpt.yaml", "logging: {level: warn}")
	write(t, home, "xdg/rgpt/rgpt.yaml", "logging: {level: error}")
	c, err := config.Load(config.Sources{Env: []string{"HOME=" + home}})
	require.NoError(t, err)
	require.Equal(t, "warn", c.Logging.Level)
	c, err = config.Load(config.Sources{Env: []string{"HOME=" + home, "XDG_CONFIG_HOME=" + home + "/xdg"}})
	require.NoError(t, err)
	require.Equal(t, "error", c.Logging.Level)
}

func TestAFileThatWasNamedMustExist(t *testing.T) {
	t.Parallel()
	for _, from := range []config.Sources{
		{Project: "missing/rgpt.yaml", Env: []string{}},
		{Base: "missing/rgpt.yaml", Env: []string{}},
		{Env: []string{"RGPT_CONFIG_BASE=missing/rgpt.yaml"}},
	} {
		_, err := config.Load(from)
		require.ErrorContains(t, err, "missing/rgpt.yaml: cannot be read: no such file or directory")
	}
	_, err := config.Load(config.Sources{Project: t.TempDir(), Env: []string{}})
	require.ErrorContains(t, err, "is a directory")
}

func TestListsReplaceAndMapsMerge(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	base := write(t, dir, "base.yaml", `
verification: {custom: [{name: one, command: "true"}, {name: two, command: "true"}]}
models:
  providers:
    mine: {kind: compatible, base_url: "http://127.0.0.1:1/v1", headers: {X-A: "1", a.b: "2"}}
    openai: {timeout: 9s}
`)
	project := write(t, dir, "rgpt.yaml", `
verification: {custom: [{name: three, command: "false"}]}
models: {providers: {mine: {max_concurrent: 3, headers: {X-B: "3"}}}}
`)
	c, err := config.Load(config.Sources{Base: base, Project: project, Env: []string{}})
	require.NoError(t, err)
	require.Equal(t, []config.CustomCheck{{Name: "three", Command: "false", Format: "exit-code", Severity: "major"}}, c.Verification.Custom)
	mine := c.Models.Providers["mine"]
	require.Equal(t, config.Provider{
		Kind: "compatible", BaseURL: "http://127.0.0.1:1/v1", MaxConcurrent: 3,
		Headers: map[string]string{"X-A": "1", "X-B": "3", "a.b": "2"},
	}, mine)
	require.Equal(t, 9*time.Second, c.Models.Providers["openai"].Timeout)
	require.Equal(t, "OPENAI_API_KEY", c.Models.Providers["openai"].APIKeyEnv)
	require.True(t, c.Origin("verification.custom[1].name").IsDefault(), "the place of a replaced element is gone")
	require.Equal(t, project+":2", c.Origin("verification.custom[0].name").String())
}

func TestTheEnvironmentSetsEveryKindOfValue(t *testing.T) {
	t.Parallel()
	c, err := config.Load(config.Sources{Env: []string{
		"RGPT_EXECUTION_STEP_TURNS=7", "RGPT_EXECUTION__STEP__COST_USD=0.25", "RGPT_EXECUTION_SANDBOX_MEMORY=2GiB",
		"RGPT_EXECUTION_SANDBOX_READ_ONLY=/opt/a, /opt/b", "RGPT_VERIFICATION_TEST_ENABLED=true",
		"RGPT_VERIFICATION_TEST_COMMAND=true", "RGPT_GIT_RELEASE=push", "RGPT_GIT_AUTHOR_NAME=42",
		"RGPT_MODELS_BUDGETS_WARN_AT=0.5", "RGPT_MODELS__PROVIDERS__MY_BOX__BASE_URL=http://127.0.0.1:1/v1",
		"RGPT_MODELS_PROVIDERS_MY_BOX_KIND=compatible", "RGPT_MODELS_DEFAULT_PROVIDER=my_box", "RGPT_MODELS_DEFAULT_MODEL=m",
		"RGPT_MODELS_PHASES_BUILDER_MODEL=b", "RGPT_WORKER_ROLES=[run, builder]", "RGPT_LOGGING_LEVEL=",
		"DATABASE_URL=postgres://a:b@c/d", "TEMPORAL_ADDRESS=one:1", "TEMPORAL_NAMESPACE=ns", "RGPT_TEMPORAL_ADDRESS=two:2",
		"OPENAI_API_KEY=sk-not-a-setting", "RGPT_DATA_DIR=/somewhere", "RGPT_UNRELATED=1", "NONSENSE",
		`RGPT_VERIFICATION_CUSTOM=[{name: x, command: "make x"}]`,
	}})
	require.NoError(t, err)
	require.Equal(t, 7, c.Execution.Step.Turns)
	require.Equal(t, config.MicroUSD(250_000), c.Execution.Step.CostUSD)
	require.Equal(t, 2*config.GiB, c.Execution.Sandbox.Memory)
	require.Equal(t, []string{"/opt/a", "/opt/b"}, c.Execution.Sandbox.ReadOnly)
	require.Equal(t, config.On, c.Verification.Test.Enabled)
	require.Equal(t, "true", c.Verification.Test.Command)
	require.Equal(t, config.ReleasePush, c.Git.Release)
	require.Equal(t, "42", c.Git.AuthorName)
	require.InEpsilon(t, 0.5, c.Models.Budgets.WarnAt, 1e-9)
	require.Equal(t, "http://127.0.0.1:1/v1", c.Models.Providers["my_box"].BaseURL)
	require.Equal(t, "b", c.Models.Phases["builder"].Model)
	require.Equal(t, []string{"run", "builder"}, c.Worker.Roles)
	require.Equal(t, "info", c.Logging.Level, "an empty variable sets nothing")
	require.Equal(t, "postgres://a:b@c/d", c.Database.URL)
	require.Equal(t, "two:2", c.Temporal.Address)
	require.Equal(t, "ns", c.Temporal.Namespace)
	require.Equal(t, "make x", c.Verification.Custom[0].Command)
	require.Equal(t, "environment variable DATABASE_URL", c.Origin("database.url").String())
}

func TestTheVariablesOfDeliberationsAreUnderstood(t *testing.T) {
	t.Parallel()
	c, err := config.Load(config.Sources{Env: []string{
		"GAMMA_STUCK_THRESHOLD=45", "GAMMA_CONFLICT_THRESHOLD=5", "GAMMA_COMPLEXITY_THRESHOLD=0.5", "ORCHESTRATION_TIMEOUT=2m", "AUTO_ORCHESTRATE=true",
	}})
	require.NoError(t, err)
	d := c.Deliberation
	require.Equal(t, []any{45 * time.Second, 5, 0.5, 2 * time.Minute, true}, []any{d.GammaStuckAfter, d.GammaConflictAt, d.GammaComplexityOver, d.Timeout, d.AutoContinue})
	c, err = config.Load(config.Sources{Env: []string{"ORCHESTRATION_TIMEOUT=90", "RGPT_DELIBERATION_TIMEOUT=3m", "GAMMA_STUCK_THRESHOLD=1.5"}})
	require.NoError(t, err)
	require.Equal(t, []any{3 * time.Minute, 1500 * time.Millisecond}, []any{c.Deliberation.Timeout, c.Deliberation.GammaStuckAfter})
	_, err = config.Load(config.Sources{Env: []string{"GAMMA_CONFLICT_THRESHOLD=many"}})
	require.ErrorContains(t, err, "environment variable GAMMA_CONFLICT_THRESHOLD: deliberation.gamma_conflict_at: expected a whole number")
}

func TestThePasswordOfTheDatabaseMayLieInAFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := write(t, dir, "password", "p@ss word/1\n")
	from := func(env ...string) (*config.Config, error) {
		return config.Load(config.Sources{Env: append([]string{"HOME=" + dir}, env...)})
	}

	c, err := from("DATABASE_URL=postgres://a@db:5432/rgpt?sslmode=disable", "RGPT_DATABASE_PASSWORD_FILE="+file)
	require.NoError(t, err)
	require.Equal(t, "postgres://a:p%40ss%20word%2F1@db:5432/rgpt?sslmode=disable", c.Database.URL)
	require.Contains(t, c.Secrets(os.Getenv), "p@ss word/1")

	c, err = from("DATABASE_URL=postgres://a:b@db/rgpt", "RGPT_DATABASE_PASSWORD_FILE="+file)
	require.NoError(t, err)
	require.Equal(t, "postgres://a:b@db/rgpt", c.Database.URL, "a password in the address counts")

	c, err = from("RGPT_DATABASE_PASSWORD_FILE=" + file)
	require.NoError(t, err)
	require.Empty(t, c.Database.URL)

	_, err = from("DATABASE_URL=postgres://a@db/rgpt", "RGPT_DATABASE_PASSWORD_FILE="+filepath.Join(dir, "missing"))
	require.ErrorContains(t, err, "environment variable RGPT_DATABASE_PASSWORD_FILE: database.password_file: cannot be read: no such file or directory")
	_, err = from("DATABASE_URL=postgres://a@db/rgpt", "RGPT_DATABASE_PASSWORD_FILE="+write(t, dir, "empty", "\n"))
	require.ErrorContains(t, err, "expected a file that contains a password")
}

func TestEveryScalarSettingHasAVariable(t *testing.T) {
	t.Parallel()
	for _, k := range config.Schema() {
		if k.Env != "" {
			require.Equal(t, k.Key, config.EnvKey(strings.TrimPrefix(k.Env, "RGPT_")), k.Env)
		}
	}
}

func TestVariablesOfKubernetesAreNoSettings(t *testing.T) {
	t.Parallel()
	_, err := config.Load(config.Sources{Env: []string{
		"RGPT_SERVER_SERVICE_HOST=10.0.0.1", "RGPT_SERVER_SERVICE_PORT=80", "RGPT_SERVER_SERVICE_PORT_HTTP=80",
		"RGPT_SERVER_PORT=tcp://10.0.0.1:80", "RGPT_SERVER_PORT_80_TCP=tcp://10.0.0.1:80", "RGPT_SERVER_PORT_80_TCP_ADDR=10.0.0.1",
		"RGPT_WORKER_PORT_80_TCP_PROTO=tcp",
	}})
	require.NoError(t, err)
}

func TestAnErrorIsAConfigErrorWithEveryMistake(t *testing.T) {
	t.Parallel()
	_, err := load(t, "execution: {max_retries: -1, parallel_steps: x}\n")
	var list *config.Error
	require.ErrorAs(t, err, &list)
	require.Len(t, list.Mistakes, 2)
	f := fault.Of(err)
	require.Equal(t, contract.ClassConfig, f.Class)
	require.Equal(t, contract.CodeInvalidConfig, f.Code)
	require.Equal(t, err.Error(), f.Message)
	require.True(t, fault.Is(err, contract.CodeInvalidConfig))
}

func TestEmptyFilesAndSectionsSetNothing(t *testing.T) {
	t.Parallel()
	for _, content := range []string{"", "# nothing\n", "---\n", "execution:\n", "models: {providers: }\nverification: {custom: }\n", "{}"} {
		c, err := load(t, content)
		require.NoError(t, err, content)
		equal(t, config.Default(), c)
	}
}

func TestAnchorsMayBeUsed(t *testing.T) {
	t.Parallel()
	c, err := load(t, "execution: {step: {time: &t 7m}, run: {time: *t}}\n")
	require.NoError(t, err)
	require.Equal(t, 7*time.Minute, c.Execution.Run.Time)
}

func TestSecretsAreTheValuesBehindTheSettings(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	key := write(t, dir, "key", "from-a-file\n")
	c, err := load(t, `
database: {url: "postgres://u:db%20pass@h/d"}
models: {providers: {mine: {kind: scripted, api_key_file: `+key+`, headers: {X-Title: RocketGPT, Authorization: Bearer from-a-header}}}}
`)
	require.NoError(t, err)
	env := map[string]string{"OPENAI_API_KEY": "from-the-environment"}
	require.ElementsMatch(t, []string{"db pass", "from-a-file", "from-a-header", "from-the-environment"},
		c.Secrets(func(name string) string { return env[name] }))
}
