package config_test

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/config"
	"github.com/rocketgpt/orchestrator/internal/fault"
)

func TestARepositorySaysHowItIsVerified(t *testing.T) {
	t.Parallel()
	base := config.Default()
	base.Models.Fallback = []config.Choice{{Provider: "openai", Model: "gpt-5"}}
	unchanged := config.Default()
	unchanged.Models.Fallback = slices.Clone(base.Models.Fallback)
	c, err := config.LoadRepository(base, []byte(`
execution:
  max_retries: 1
  approve_release: true
  step: {turns: 10, cost_usd: 0.50}
  run: {time: 1h}
findings: {max_major: 0, max_medium: 5}
verification:
  test: {enabled: true, command: make test, format: junit, report: "out/*.xml"}
  lint: {enabled: false}
  require_tests: true
  custom: [{name: licences, command: ./licences.sh, timeout: 2m}]
git: {branch_prefix: bots/rgpt-, author_name: Bot, author_email: bot@example.com}
models:
  phases: {builder: {provider: openai, model: gpt-5}}
  cache_identical: true
  cache_retention: 1h
`), "rgpt.yaml")
	require.NoError(t, err)
	require.True(t, c.Models.CacheIdentical)
	require.Equal(t, time.Hour, c.Models.CacheRetention)
	require.Equal(t, 1, c.Execution.MaxRetries)
	require.True(t, c.Execution.ApproveRelease)
	require.Equal(t, 10, c.Execution.Step.Turns)
	require.Equal(t, 400_000, int(c.Execution.Step.Tokens), "what it does not say stays")
	require.Equal(t, config.MicroUSD(500_000), c.Execution.Step.CostUSD)
	require.Equal(t, time.Hour, c.Execution.Run.Time)
	require.Equal(t, 5, c.Findings.MaxMedium)
	require.Equal(t, "make test", c.Verification.Test.Command)
	require.Equal(t, config.Off, c.Verification.Lint.Enabled)
	require.Equal(t, "licences", c.Verification.Custom[0].Name)
	require.Equal(t, "exit-code", c.Verification.Custom[0].Format)
	require.Equal(t, "bots/rgpt-", c.Git.BranchPrefix)
	require.Equal(t, "gpt-5", c.Models.Phases["builder"].Model)
	require.Equal(t, "rgpt.yaml:3", c.Origin("execution.max_retries").String())
	equal(t, unchanged, base)
	require.True(t, base.Origin("execution.max_retries").IsDefault(), "the operator's settings stay as they are")
}

func TestARepositoryMayNotWidenWhatItMayDo(t *testing.T) {
	t.Parallel()
	tests := []struct{ name, in, want string }{
		{"the sandbox", "execution: {sandbox: {allow_unisolated: true}}", "rgpt.yaml:1: execution.sandbox.allow_unisolated: a repository may not set this: the sandbox protects the operator's host"},
		{"the sandbox's limits", "execution:\n  sandbox:\n    memory: 1GiB", "rgpt.yaml:3: execution.sandbox.memory: a repository may not set this: the sandbox protects the operator's host"},
		{"folders of the host", "execution: {sandbox: {read_only: [/etc]}}", "rgpt.yaml:1: execution.sandbox.read_only: a repository may not set this: the sandbox protects the operator's host"},
		{"pushing", "git: {release: push}", "rgpt.yaml:1: git.release: a repository may not set this: only the operator decides where changes are pushed"},
		{"the remote", "git: {remote: \"https://evil\"}", "rgpt.yaml:1: git.remote: a repository may not set this: only the operator decides where changes are pushed"},
		{"a provider", "models: {providers: {evil: {kind: compatible, base_url: \"http://evil\"}}}", "rgpt.yaml:1: models.providers.evil.base_url: a repository may not set this: providers, keys and budgets belong to the operator"},
		{"a provider's address", "models: {providers: {openai: {base_url: \"http://evil\"}}}", "rgpt.yaml:1: models.providers.openai.base_url: a repository may not set this: providers, keys and budgets belong to the operator"},
		{"budgets", "models: {budgets: {day_tokens: 1}}", "rgpt.yaml:1: models.budgets.day_tokens: a repository may not set this: providers, keys and budgets belong to the operator"},
		{"the default model", "models: {default: {model: x}}", "rgpt.yaml:1: models.default.model: a repository may not set this: providers, keys and budgets belong to the operator"},
		{"responses for longer", "models: {cache_retention: 1000h}", "rgpt.yaml:1: models.cache_retention: a repository may lower this but not raise it; the operator's value is 168h"},
		{"more responses", "models: {cache_entries: 100000}", "rgpt.yaml:1: models.cache_entries: a repository may not set this: providers, keys and budgets belong to the operator"},
		{"a forge", "forges: {evil: {kind: gitea, url: \"https://evil\", token_env: HOME}}", "rgpt.yaml:1: forges.evil.token_env: a repository may not set this: credentials and the services that they are sent to belong to the operator"},
		{"the server", "server: {address: \"0.0.0.0:80\"}", "rgpt.yaml:1: server.address: a repository may not set this: it affects the operator's hosts"},
		{"the database", "database: {url: \"postgres://evil/x\"}", "rgpt.yaml:1: database.url: a repository may not set this: it affects the operator's hosts"},
		{"the store", "artifacts: {url: \"s3://evil\"}", "rgpt.yaml:1: artifacts.url: a repository may not set this: only the operator decides where data is stored"},
		{"more money", "execution: {run: {cost_usd: 1000}}", "rgpt.yaml:1: execution.run.cost_usd: a repository may lower this limit but not raise it (0 means no limit); the operator's value is 25"},
		{"endless money", "execution: {step: {cost_usd: 0}}", "rgpt.yaml:1: execution.step.cost_usd: a repository may lower this limit but not raise it (0 means no limit); the operator's value is 5"},
		{"laxer about tests", "verification: {pinned_tests: report}", "rgpt.yaml:1: verification.pinned_tests: a repository may make this stricter but not less strict; the operator's value is \"enforce\""},
		{"blind to tests", "verification: {pinned_tests: off}", "rgpt.yaml:1: verification.pinned_tests: a repository may make this stricter but not less strict; the operator's value is \"enforce\""},
		{"more retries", "execution: {max_retries: 20}", "rgpt.yaml:1: execution.max_retries: a repository may lower this but not raise it; the operator's value is 3"},
		{"more time for commands", "execution: {command_timeout: 1h}", "rgpt.yaml:1: execution.command_timeout: a repository may lower this but not raise it; the operator's value is 5m"},
		{"more time for checks", "verification: {timeout: 1h}", "rgpt.yaml:1: verification.timeout: a repository may lower this but not raise it; the operator's value is 15m"},
		{"more time for its own check", "verification:\n  custom:\n    - name: a\n      command: b\n      timeout: 1h", "rgpt.yaml:5: verification.custom[0].timeout: a repository may not allow more time than the operator's verification.timeout, 15m"},
		{"more major findings", "findings: {max_major: 1000}", "rgpt.yaml:1: findings.max_major: a repository may lower this but not raise it; the operator's value is 0"},
		{"more medium findings", "findings:\n  max_medium: 11", "rgpt.yaml:2: findings.max_medium: a repository may lower this but not raise it; the operator's value is 10"},
		{"new tests that prove nothing", "verification: {prove_new_tests: off}", "rgpt.yaml:1: verification.prove_new_tests: a repository may make this stricter but not less strict; the operator's value is \"warn\""},
		{"the network", "verification: {test: {network: [evil.org]}}", "rgpt.yaml:1: verification.test.network: a repository may not open the network to \"evil.org\"; only the operator may do so, in this setting or in execution.sandbox.network"},
		{"the network for its own check", "verification: {custom: [{name: a, command: b, network: [evil.org]}]}", "rgpt.yaml:1: verification.custom[0].network: a repository may not open the network to \"evil.org\"; only the operator may do so, in this setting or in execution.sandbox.network"},
		{"the network as it once was", "verification: {test: {network: true}}", "rgpt.yaml:1: verification.test.network: must be a list of hosts: replace true with the allowed hosts, such as [packages.example.com], and false with an empty list, []"},
		{"the network for the installation", "environment: {network: {hosts: [" + config.RegistryHosts()["node"][0] + ", evil.org]}}", "rgpt.yaml:1: environment.network.hosts: a repository may not open the network to \"evil.org\"; only the operator may do so, in this setting; public registries are always allowed"},
		{"credentials", "environment: {network: {credentials: [{host: a.org, header: X, env: HOME}]}}", "rgpt.yaml:1: environment.network.credentials[0].env: a repository may not set this: only the operator decides what is stored and trusted on the worker's host"},
		{"private addresses", "environment: {network: {allow_private: [a.org]}}", "rgpt.yaml:1: environment.network.allow_private: a repository may not set this"},
		{"what is loaded", "environment: {variables: {LD_PRELOAD: ./x.so}}", "rgpt.yaml:1: environment.variables.LD_PRELOAD: invalid key; expected the name of an environment variable that does not affect which programs are loaded"},
		{"what Go starts", "environment: {variables: {GOFLAGS: -mod=mod -toolexec=./x}}", "rgpt.yaml:1: environment.variables.GOFLAGS: has an option that loads other programs or code"},
		{"what Node loads", "environment: {variables: {NODE_OPTIONS: \"--max-old-space-size=4096 --require ./x.js\"}}", "rgpt.yaml:1: environment.variables.NODE_OPTIONS: has an option that loads"},
		{"no baseline", "verification: {baseline: off}", "rgpt.yaml:1: verification.baseline: a repository may make this stricter but not less strict; the operator's value is \"on\""},
		{"an unknown provider", "models: {phases: {builder: {provider: evil, model: m}}}", "rgpt.yaml:1: models.phases.builder.provider: a repository may choose only models that the operator lists"},
		{"a dearer model", "models: {phases: {builder: {provider: openai, model: o1-pro}}}", "rgpt.yaml:1: models.phases.builder.model: a repository may choose only models that the operator lists in models.default, models.fallback or models.phases"},
		{"nonsense", "zoo: 1", "rgpt.yaml:1: zoo: unknown section; expected one of execution, findings, verification, environment, git, gate, forges, triggers, notifications, artifacts, brain, retention, ledger, logging, models, deliberation, server, temporal, worker, database"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			_, err := config.LoadRepository(config.Default(), []byte(tt.in), "rgpt.yaml")
			require.ErrorContains(t, err, tt.want)
		})
	}
}

func TestARepositoryMayNotSwitchApprovalsOff(t *testing.T) {
	t.Parallel()
	base := config.Default()
	base.Execution.ApprovePlan = true
	base.Verification.RequireTests = true
	_, err := config.LoadRepository(base, []byte("execution: {approve_plan: false}\nverification: {require_tests: false}"), "rgpt.yaml")
	require.EqualError(t, err, `the configuration has 2 errors:
  rgpt.yaml:1: execution.approve_plan: a repository may turn this on but not off; the operator's configuration requires it
  rgpt.yaml:2: verification.require_tests: a repository may turn this on but not off; the operator's configuration requires it`)
}

func TestARepositoryMayUseTheNetworkThatTheOperatorOpened(t *testing.T) {
	t.Parallel()
	base := config.Default()
	base.Execution.Sandbox.Network = []string{"*.example.com"}
	base.Verification.Test.Network = []string{"t.org"}
	base.Verification.Custom = []config.CustomCheck{{Name: "licences", Command: "c", Network: []string{"l.org"}}}
	c, err := config.LoadRepository(base, []byte("verification: {test: {network: [a.example.com, t.org]}, custom: [{name: mine, command: m}, {name: licences, command: other, network: [l.org]}]}\n"+
		"environment: {setup: [npm ci], variables: {A: b, NODE_OPTIONS: --max-old-space-size=4096}, network: {hosts: [pypi.org, b.example.com]}}"), "rgpt.yaml")
	require.NoError(t, err)
	require.Equal(t, []string{"a.example.com", "t.org"}, c.Verification.Test.Network)
	require.Equal(t, []string{"pypi.org", "b.example.com"}, c.Environment.Network.Hosts)
	for _, in := range []string{
		"verification: {build: {network: [t.org]}}", "verification: {test: {network: [\"t.org:22\"]}}", "verification: {test: {network: [example.com]}}",
		"verification: {custom: [{name: other, command: c, network: [l.org]}]}",
	} {
		_, err := config.LoadRepository(base, []byte(in), "rgpt.yaml")
		require.ErrorContains(t, err, "may not open the network", in)
	}
}

func TestARepositoryMayLimitWhatTheOperatorDoesNot(t *testing.T) {
	t.Parallel()
	base := config.Default()
	base.Execution.Run.CostUSD = 0
	c, err := config.LoadRepository(base, []byte("execution: {run: {cost_usd: 1000}}"), "rgpt.yaml")
	require.NoError(t, err)
	require.Equal(t, 1000*config.USD, c.Execution.Run.CostUSD)
}

// A project of the user's own has one file, which is read first for the operator and
// then for the repository.
func TestARepositoryMaySayWhatTheOperatorSays(t *testing.T) {
	t.Parallel()
	const content = `
server: {address: "127.0.0.1:9999"}
execution: {sandbox: {network: [a.example.com], memory: 8GiB}, run: {cost_usd: 100}}
models: {providers: {box: {kind: compatible, base_url: "http://127.0.0.1:1/v1"}}, default: {provider: box, model: m}}
worker: {roles: [run, builder]}
`
	base, err := load(t, content)
	require.NoError(t, err)
	c, err := config.LoadRepository(base, []byte(content), "rgpt.yaml")
	require.NoError(t, err)
	equal(t, base, c)
}

func TestEverySettingHasItsTrust(t *testing.T) {
	t.Parallel()
	trust := config.Trust()
	for key, want := range map[string]string{
		"execution.parallel_steps": "lower only", "execution.step.tokens": "lower only", "execution.sandbox.network": "no",
		"execution.approve_plan": "true only", "findings.max_major": "lower only", "verification.custom[].command": "yes",
		"verification.test.network": "hosts that the operator allows", "environment.network.hosts": "registries, and hosts that the operator allows",
		"environment.setup": "yes", "environment.variables": "yes", "environment.network.credentials[].env": "no", "environment.enabled": "no", "git.release": "no", "git.pull_request.reviewers": "no", "git.remote": "no", "git.author_name": "yes",
		"models.phases.<name>.model": "models that the operator lists", "models.providers.<name>.base_url": "no", "models.default.model": "no",
		"server.address": "no", "temporal.address": "no", "worker.roles": "no", "database.url": "no", "artifacts.url": "no", "logging.dir": "no",
	} {
		require.Equal(t, want, trust[key], key)
	}
}

func TestARepositoryMayAskForMoreReTestsAndStricterPinsButNotTheReverse(t *testing.T) {
	t.Parallel()
	base := config.Default()
	base.Execution.StableRetests, base.Verification.PinnedTests = 2, "report"
	c, err := config.LoadRepository(base, []byte("execution: {stable_retests: 3}\nverification: {pinned_tests: enforce}"), "rgpt.yaml")
	require.NoError(t, err)
	require.Equal(t, 3, c.Execution.StableRetests)
	require.Equal(t, "enforce", c.Verification.PinnedTests)
	for in, want := range map[string]string{
		"execution: {stable_retests: 1}":      "a repository may raise this but not lower it; the operator's value is 2",
		"verification: {pinned_tests: off}":   "a repository may make this stricter but not less strict; the operator's value is \"report\"",
		"verification: {pinned_tests: never}": "one of enforce, report, off",
	} {
		_, err := config.LoadRepository(base, []byte(in), "rgpt.yaml")
		require.ErrorContains(t, err, want)
	}
}

func TestARequestSetsTheLimitsOfItsRunAndNothingOfTheOperators(t *testing.T) {
	t.Parallel()
	base := config.Default()
	base.Execution.ApproveRelease = true
	cfg, err := config.LoadRequest(base, map[string]string{
		"execution.run.time": "99h", "findings.max_major": "9", "git.stay": "2h", "models.phases.builder.model": "other", "models.phases.builder.provider": "openai",
	})
	require.NoError(t, err)
	require.Equal(t, 99*time.Hour, cfg.Execution.Run.Time)
	require.Equal(t, 9, cfg.Findings.MaxMajor)
	require.Equal(t, 2*time.Hour, cfg.Git.Stay)
	require.Equal(t, "other", cfg.Models.Phases["builder"].Model)
	require.Zero(t, base.Git.Stay, "the operator's stay as they are")
	for key, value := range map[string]string{
		"execution.approve_release": "false", "verification.pinned_tests": "off", "verification.test.network": "evil.org",
		"verification.custom": "[{name: x, command: y, network: [evil.org]}]", "execution.sandbox.network": "evil.org", "execution.sandbox.allow_unisolated": "true",
		"models.providers.openai.base_url": "https://evil.example.com", "models.budget.day_usd": "1000000", "database.url": "postgres://evil/x", "server.address": ":1",
		"artifacts.url": "s3://evil", "temporal.address": "evil:1", "git.release": "push", "no.such": "x", "execution": "x", "": "x", "findings.max_major": "-1",
	} {
		_, err := config.LoadRequest(base, map[string]string{key: value})
		require.Error(t, err, key)
		require.Equal(t, contract.CodeInvalidConfig, fault.Of(err).Code, key)
	}
	same, err := config.LoadRequest(base, map[string]string{"execution.approve_release": "true"})
	require.NoError(t, err, "it says what the operator says")
	require.True(t, same.Execution.ApproveRelease)
}
