package setup_test

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/config"
	"github.com/rocketgpt/orchestrator/internal/fault"
	"github.com/rocketgpt/orchestrator/internal/model"
	"github.com/rocketgpt/orchestrator/internal/runs/verdict"
	"github.com/rocketgpt/orchestrator/internal/sandbox"
	"github.com/rocketgpt/orchestrator/internal/setup"
	"github.com/rocketgpt/orchestrator/internal/store/modelchoices"
	"github.com/rocketgpt/orchestrator/internal/telemetry"
	"github.com/rocketgpt/orchestrator/internal/trust"
	"github.com/rocketgpt/orchestrator/internal/verify/checks"
)

func TestMain(m *testing.M) {
	sandbox.MaybeRunHelper()
	goleak.VerifyTestMain(m)
}

// whole is a configuration in which every key that reaches a run has a distinct value.
const whole = `
execution:
  pictures: {max: 7, max_size: 1MiB, repair: 9}
  parallel_steps: 7
  checks_together: 9
  max_retries: 5
  stable_retests: 6
  command_timeout: 61s
  approve_plan: true
  approve_release: true
  planner: {turns: 21, tokens: 2201, cost_usd: 2.3, critique: "on", question_deadline: 24m, edits: 3KiB}
  step: {turns: 11, tokens: 1201, cost_usd: 1.3, time: 14m, loop_limit: 15, error_limit: 16, finish_refusals: 3}
  agent: {errors: 17, repeats: 18, violations: 19}
  run: {tokens: 2101, cost_usd: 2.2, time: 23h}
  approval: {wait: 31m}
  intervention: {wait: 32m}
  quota_wait: 33m
  sandbox: {memory: 41MiB, processes: 42, cpu_time: 43s, file_size: 44MiB, disk: 45MiB, output: 46KiB}
findings: {max_major: 51, max_medium: 52}
environment: {setup: [make deps], network: {hosts: [registry.npmjs.org]}, variables: {A: b}, timeout: 91s, agent_turns: 19}
deliberation:
  mode: openrouter
  plan_by: deliberation
  gamma_stuck_after: 81s
  gamma_conflict_at: 4
  gamma_complexity_over: 0.7
  abort_after: 82s
  iterations: 12
  timeout: 83s
  opening_timeout: 84s
  continue_wait: 85m
  recoveries: 3
  error_limit: 9
  repeat_limit: 5
  violation_limit: 6
  moves_per_turn: 17
  text_limit: 18KiB
  entries: 190
git: {branch_prefix: work/, release: pull_request, pull_request: {base: trunk, draft: always, labels: [x], reviewers: [bob], code_owners: false, statuses: false, comments: false, close_issue: false, comment_issue: false, update: rebase, update_when: behind, max_updates: 34, update_interval: 35s}, remote: upstream, author_name: Ada, author_email: ada@example.com, protected: [deploy/**], stay: 32h, max_repairs: 33}
verification:
  auto_detect: false
  shards: 6
  timeout: 62s
  rerun_failed: 3
  recordings: always
  require_tests: true
  pinned_tests: report
  baseline_red: ask
  prove_new_tests: enforce
  coverage: auto
  build: {enabled: "true", command: b, format: sarif, report: b.sarif, severity: minor, network: [b.example.com]}
  test: {enabled: "false", command: t, format: junit, report: t.xml, severity: medium, network: [t.example.com]}
  lint: {enabled: "true", command: l, format: tap, severity: major}
  security: {enabled: "false", command: s, format: exit-code, severity: minor}
  databases: {go: /srv/go, osv: /srv/osv, rust: /srv/rust}
  custom: [{name: licences, command: c, format: exit-code, report: c.txt, severity: minor, timeout: 63s, network: [c.example.com]}]
models:
  timeout: 71s
  fallback: [{provider: other, model: spare, temperature: 0.4, effort: medium}]
  default: {provider: house, model: small, temperature: 0.1, effort: high}
  phases:
    planner: {provider: other, model: big, temperature: 0.2}
    builder: {model: middle}
    tester: {temperature: 0.3}
    beta: {model: second}
    gamma: {temperature: 0.5, effort: low}
  providers:
    house: {kind: compatible, base_url: "http://127.0.0.1:1/v1", api_key_env: HOUSE_KEY, timeout: 72s, max_concurrent: 73, headers: {X-Team: a}}
    other: {kind: ollama}
  catalogue: [{provider: house, model: small, context_window: 81, max_output: 82, price_in: 1.25, price_out: 10, capabilities: [tools]}]
`

func load(tb testing.TB, yaml string) *config.Config {
	tb.Helper()
	file := filepath.Join(tb.TempDir(), "rgpt.yaml")
	require.NoError(tb, os.WriteFile(file, []byte(yaml), 0o600))
	cfg, err := setup.Load(config.Sources{Project: file, Env: []string{}}, "")
	require.NoError(tb, err)
	return cfg
}

func warm(f float64) *float64 { return &f }

func TestEveryKeyOfARunReachesItsSettings(t *testing.T) {
	t.Parallel()
	cfg := load(t, whole)
	repo := contract.Repo{URL: "/r", Base: "b", Tree: "t", Branch: "main"}
	settings, spec, err := setup.Freeze(cfg, repo)
	require.NoError(t, err)
	require.Equal(t, contract.Settings{
		Repo: repo, MaxRetries: 5, StableRetests: 6, RepairPictures: 9, Parallel: 7, ChecksTogether: 9, Providers: []string{"anthropic", "gemini", "house", "ollama", "openai", "openrouter", "other"},
		Models: map[contract.Agent]contract.ModelChoice{
			contract.AgentPlanner:  {Provider: "other", Model: "big", Temperature: warm(0.2)},
			contract.AgentBuilder:  {Provider: "house", Model: "middle", Timeout: 72 * time.Second},
			contract.AgentTester:   {Provider: "house", Model: "small", Temperature: warm(0.3), Effort: contract.EffortHigh, Timeout: 72 * time.Second},
			contract.AgentReleaser: {Provider: "house", Model: "small", Temperature: warm(0.1), Effort: contract.EffortHigh, Timeout: 72 * time.Second},
			contract.AgentAnalyzer: {Provider: "house", Model: "small", Temperature: warm(0.1), Effort: contract.EffortHigh, Timeout: 72 * time.Second},
			contract.AgentRepair:   {Provider: "house", Model: "small", Temperature: warm(0.1), Effort: contract.EffortHigh, Timeout: 72 * time.Second},
		},
		StepBudget:  contract.StepBudget{Turns: 11, Tokens: 1201, MicroUSD: 1_300_000, Time: 14 * time.Minute, LoopLimit: 15, ErrorLimit: 16},
		Planner:     &contract.PlannerSettings{Turns: 21, Tokens: 2201, MicroUSD: 2_300_000, Critique: contract.CritiqueOn, QuestionWait: 24 * time.Minute, EditBytes: 3 << 10},
		Agents:      contract.AgentLimits{Errors: 17, Repeats: 18, Violations: 19},
		RunBudget:   contract.RunBudget{Tokens: 2101, MicroUSD: 2_200_000, Time: 23 * time.Hour},
		Thresholds:  contract.Thresholds{MaxMajor: 51, MaxMedium: 52},
		Release:     contract.ReleaseSettings{Push: true, Remote: "upstream", AuthorName: "Ada", AuthorEmail: "ada@example.com", Protected: []string{"deploy/**"}, Stay: 32 * time.Hour, MaxRepairs: 33, PullRequest: &contract.PullRequestSettings{Base: "trunk", Draft: contract.DraftAlways, Labels: []string{"x"}, Reviewers: []string{"bob"}, Update: &contract.UpdateSettings{Method: contract.UpdateRebase, When: contract.UpdateIfBehind, Max: 34, Interval: 35 * time.Second}}},
		ApprovePlan: true, ApproveRelease: true, ApprovalWait: 31 * time.Minute,
		Fallbacks:        []contract.ModelChoice{{Provider: "other", Model: "spare", Temperature: warm(0.4), Effort: contract.EffortMedium}},
		InterventionWait: 32 * time.Minute, QuotaWait: 33 * time.Minute,
		FinishRefusals: 3, CommandTimeout: 61 * time.Second, VerifyTimeout: 62 * time.Second, ModelTimeout: 71 * time.Second,
		Environment: &contract.EnvironmentSettings{Timeout: 91 * time.Second, Baseline: true, AskIfRed: true, AgentTurns: 19},
		PlanBy:      contract.PlanByDeliberation,
		Deliberation: &contract.DeliberationSettings{
			Mode: contract.ModeOpenRouter, AutoContinue: true,
			Models: map[contract.Agent]contract.ModelChoice{
				contract.AgentAlpha: {Provider: "other", Model: "big", Temperature: warm(0.2)},
				contract.AgentBeta:  {Provider: "house", Model: "second", Timeout: 72 * time.Second},
				contract.AgentGamma: {Provider: "other", Model: "big", Temperature: warm(0.5), Effort: contract.EffortLow},
			},
			ModelSources: map[contract.Agent]string{
				contract.AgentAlpha: "models.phases.planner", contract.AgentBeta: "models.phases.beta", contract.AgentGamma: "models.phases.planner",
			},
			Budget: contract.RunBudget{Tokens: 2101, MicroUSD: 2_200_000, Time: 23 * time.Hour}, ModelTimeout: 71 * time.Second,
			GammaStuckAfter: 81 * time.Second, GammaConflictAt: 4, GammaComplexityOver: 0.7, AbortAfter: 82 * time.Second, Iterations: 12,
			Timeout: 83 * time.Second, OpeningTimeout: 84 * time.Second, ContinueWait: 85 * time.Minute, Recoveries: 3,
			ErrorLimit: 9, RepeatLimit: 5, ViolationLimit: 6, MovesPerTurn: 17, TextLimit: 18 << 10, Entries: 190,
			Fallbacks: []contract.ModelChoice{
				{Provider: "other", Model: "spare", Temperature: warm(0.4), Effort: contract.EffortMedium},
				{Provider: "other", Model: "big", Temperature: warm(0.2)}, {Provider: "house", Model: "second", Timeout: 72 * time.Second},
			},
		},
	}, settings)
	require.Equal(t, "work/", spec.BranchPrefix)
	require.Len(t, spec.ModelSources, len(setup.ModelAgents()))
	require.Equal(t, "models.phases.builder", spec.ModelSources[contract.AgentBuilder])
	require.Equal(t, "models.default", spec.ModelSources[contract.AgentRepair])
	require.Equal(t, setup.Verification(cfg), spec.Verification)
}

func TestEveryKeyOfVerificationReachesIt(t *testing.T) {
	t.Parallel()
	require.Equal(t, checks.Settings{
		Shards: 6, RerunFailed: 3, Recordings: checks.RecordAlways, RequireTests: true, PinnedTests: verdict.PinnedReport, NewTests: verdict.NewEnforce, Coverage: checks.CoverageAuto,
		Build:     checks.StageSettings{Enabled: "true", Command: "b", Format: "sarif", Report: "b.sarif", Severity: contract.SeverityMinor, Network: checks.Hosts{"b.example.com"}},
		Test:      checks.StageSettings{Enabled: "false", Command: "t", Format: "junit", Report: "t.xml", Severity: contract.SeverityMedium, Network: checks.Hosts{"t.example.com"}},
		Lint:      checks.StageSettings{Enabled: "true", Command: "l", Format: "tap", Severity: contract.SeverityMajor},
		Security:  checks.StageSettings{Enabled: "false", Command: "s", Format: "exit-code", Severity: contract.SeverityMinor},
		Databases: checks.Databases{Go: "/srv/go", OSV: "/srv/osv", Rust: "/srv/rust"},
		Custom: []checks.Custom{{
			Name: "licences", Command: "c", Format: "exit-code", Report: "c.txt", Severity: contract.SeverityMinor, Timeout: 63 * time.Second, Network: checks.Hosts{"c.example.com"},
		}},
	}, setup.Verification(load(t, whole)))
	require.True(t, setup.Verification(config.Default()).AutoDetect)
}

func TestHostsOfTheSandboxAreOpenToChecksToo(t *testing.T) {
	t.Parallel()
	cfg := config.Default()
	require.Empty(t, setup.Verification(cfg).Test.Network)
	cfg.Execution.Sandbox.Network = []string{"a.example.com"}
	cfg.Verification.Test.Network = []string{"b.example.com", "a.example.com"}
	cfg.Verification.Custom = []config.CustomCheck{{Name: "c"}}
	v := setup.Verification(cfg)
	all := checks.Hosts{"a.example.com"}
	require.Equal(t, []checks.Hosts{all, {"a.example.com", "b.example.com"}, all, all, all},
		[]checks.Hosts{v.Build.Network, v.Test.Network, v.Lint.Network, v.Security.Network, v.Custom[0].Network})
}

func TestACredentialThatIsMissingStopsTheWorker(t *testing.T) {
	cfg := config.Default()
	cfg.Environment.Network.Credentials = []config.HostCredential{{Host: "nexus.example.com", Header: "Authorization", Env: "RGPT_TEST_NEXUS"}}
	_, err := setup.Proxy(cfg)
	require.ErrorContains(t, err, "RGPT_TEST_NEXUS is empty or not set")
	t.Setenv("RGPT_TEST_NEXUS", "Bearer canary-nexus-77")
	p, err := setup.Proxy(cfg)
	require.NoError(t, err)
	require.NotEmpty(t, p.CACertificate())
	require.Subset(t, cfg.Secrets(os.Getenv), []string{"Bearer canary-nexus-77", "canary-nexus-77"}, "it is kept out of logs")
}

func TestEveryLimitOfTheSandboxReachesIt(t *testing.T) {
	t.Parallel()
	require.Equal(t, sandbox.Limits{
		Timeout: 61 * time.Second, CPUTime: 43 * time.Second, MemoryBytes: 41 << 20, FileBytes: 44 << 20,
		Processes: 42, OutputBytes: 46 << 10, DiskBytes: 45 << 20,
	}, setup.Limits(load(t, whole)))
}

func TestProvidersAreThoseOfTheConfigurationByName(t *testing.T) {
	t.Parallel()
	all := setup.Providers(load(t, whole))
	names := make([]string, len(all))
	for i, p := range all {
		names[i] = p.Name
	}
	require.True(t, slices.IsSorted(names))
	i := slices.Index(names, "house")
	require.Equal(t, model.Provider{
		Name: "house", Kind: model.KindCompatible, BaseURL: "http://127.0.0.1:1/v1", APIKeyEnv: "HOUSE_KEY",
		Timeout: 72 * time.Second, MaxConcurrent: 73, Headers: map[string]string{"X-Team": "a"},
	}.WithDefaults(), all[i])
	require.Equal(t, 71*time.Second, all[slices.Index(names, "other")].Timeout, "that of models, where it has none")
	_, err := setup.Model(load(t, whole))
	require.NoError(t, err)
}

func TestAnEntryOfTheCatalogueCountsBeforeTheBuiltInOnes(t *testing.T) {
	t.Parallel()
	catalogue := setup.Catalogue(load(t, whole))
	i := slices.IndexFunc(catalogue, func(e model.CatalogueEntry) bool { return e.Provider == "house" })
	require.GreaterOrEqual(t, i, 0)
	require.Equal(t, model.CatalogueEntry{
		Provider: "house", Model: "small", ContextWindow: 81, MaxOutput: 82, PriceIn: 1.25, PriceOut: 10, Capabilities: []model.Capability{"tools"}, Source: setup.SourceConfig,
	}, catalogue[i])
}

func TestConfiguredEntriesCountBeforeUpdatesAndWhatWasFoundCountsBeforeBoth(t *testing.T) {
	t.Parallel()
	cfg := load(t, whole)
	cfg.Models.Catalogue = []config.CatalogueEntry{{
		Provider: "openai", Model: "a", PriceIn: 3 * config.USD, PriceReasoning: 4 * config.USD, LongContext: config.LongContext{Above: 5, PriceIn: 6 * config.USD},
		Scores: []config.Score{{Name: "coding", Value: 0.5, Source: "ours", Date: "2026-11-01"}}, Capabilities: []string{"tools", "vision"},
	}}
	catalogue := setup.LearnedCatalogue(cfg, model.Learned{
		Updates: model.Catalogue{{Provider: "openai", Model: "a", PriceIn: 1, SourceDate: "2026-12-01"}, {Provider: "openai", Model: "b", PriceIn: 1, SourceDate: "2026-12-01"}},
		Checks:  []model.Checked{{Provider: "openai", Model: "a", Found: map[model.Capability]bool{model.CapabilityVision: false}}},
	})
	p := model.Provider{Name: "openai", Kind: model.KindOpenAI}
	a, known := catalogue.Find(p, "a")
	require.True(t, known)
	require.InDelta(t, 3, a.PriceIn, 0)
	require.InDelta(t, 4, a.PriceReasoning, 0)
	require.Equal(t, &model.LongContext{Above: 5, PriceIn: 6}, a.LongContext)
	require.Equal(t, []model.Score{{Name: "coding", Value: 0.5, Source: "ours", Date: "2026-11-01"}}, a.Scores)
	require.Equal(t, []model.Capability{model.CapabilityTools}, a.Capabilities)
	b, known := catalogue.Find(p, "b")
	require.True(t, known)
	require.InDelta(t, 1, b.PriceIn, 0)
}

// elsewhere are the sections about how processes run, not about what a run is: they are
// read where they are used and need no conversion here.
var elsewhere = []string{"Brain", "Artifacts", "Logging", "Server", "Temporal", "Worker", "Database", "Retention", "Gate", "Ledger", "Forges", "Triggers", "Notifications"}

func TestNoSectionOfTheConfigurationIsForgotten(t *testing.T) {
	t.Parallel()
	converted := []string{"Execution", "Findings", "Verification", "Environment", "Release", "Git", "Models", "Deliberation"}
	for _, f := range reflect.VisibleFields(reflect.TypeFor[config.Config]()) {
		if f.IsExported() {
			require.Contains(t, slices.Concat(converted, elsewhere), f.Name, "a new section: convert it in this package, and test that here")
		}
	}
}

func TestTheScriptedModelServesOnlyWhereNoOtherIsChosen(t *testing.T) {
	t.Parallel()
	const url = "http://127.0.0.1:2/v1"
	cfg, err := setup.Load(config.Sources{Env: []string{}}, url)
	require.NoError(t, err)
	choices, err := setup.Models(cfg)
	require.NoError(t, err)
	for _, c := range choices {
		require.Equal(t, contract.ModelChoice{Provider: setup.Scripted, Model: setup.Scripted}, c)
	}
	require.Equal(t, url, cfg.Models.Providers[setup.Scripted].BaseURL)

	file := filepath.Join(t.TempDir(), "rgpt.yaml")
	require.NoError(t, os.WriteFile(file, []byte(whole), 0o600))
	cfg, err = setup.Load(config.Sources{Project: file, Env: []string{}}, url)
	require.NoError(t, err)
	require.Equal(t, "small", cfg.Models.Default.Model)

	own := "models:\n  providers:\n    scripted: {kind: scripted, base_url: 'http://127.0.0.1:3/v1'}\n"
	require.NoError(t, os.WriteFile(file, []byte(own), 0o600))
	cfg, err = setup.Load(config.Sources{Project: file, Env: []string{}}, url)
	require.NoError(t, err)
	require.Equal(t, "http://127.0.0.1:3/v1", cfg.Models.Providers[setup.Scripted].BaseURL, "the configured one stays")
}

func TestADeliberationIsLocalWhereAllItsModelsAreScripted(t *testing.T) {
	t.Parallel()
	const url = "http://127.0.0.1:2/v1"
	scripted, err := setup.Load(config.Sources{Env: []string{}}, url)
	require.NoError(t, err)
	file := filepath.Join(t.TempDir(), "rgpt.yaml")
	require.NoError(t, os.WriteFile(file, []byte(whole), 0o600))
	mixed, err := setup.Load(config.Sources{Project: file, Env: []string{}}, url)
	require.NoError(t, err)
	for _, c := range []struct {
		cfg         *config.Config
		asked, want contract.PipelineMode
		alpha       string
	}{
		{scripted, "", contract.ModeLocal, setup.Scripted}, {scripted, contract.ModeOpenRouter, contract.ModeLocal, setup.Scripted},
		{mixed, "", contract.ModeOpenRouter, "big"}, {mixed, contract.ModeLocal, contract.ModeLocal, setup.Scripted},
	} {
		d, err := setup.Deliberation(c.cfg, c.asked)
		require.NoError(t, err)
		require.Equal(t, c.want, d.Mode)
		require.Len(t, d.Models, 3)
		require.Equal(t, c.alpha, d.Models[contract.AgentAlpha].Model)
	}
	_, err = setup.Deliberation(load(t, whole), contract.ModeLocal)
	require.Equal(t, contract.ClassConfig, fault.Of(err).Class)
	require.ErrorContains(t, err, "scripted")
	_, err = setup.Deliberation(scripted, "remote")
	require.ErrorContains(t, err, `"remote"`)
}

func TestTheSettingOfEachModelIsNamed(t *testing.T) {
	t.Parallel()
	const url = "http://127.0.0.1:2/v1"
	cfg, err := setup.Load(config.Sources{Env: []string{}}, url)
	require.NoError(t, err)
	cfg.Models.Phases = map[string]config.Choice{"planner": {Model: "p"}, "gamma": {Model: "g"}}
	models, from, err := setup.EveryModel(cfg)
	require.NoError(t, err)
	require.Len(t, models, len(setup.ModelAgents()), "without the agents that call no model")
	require.Equal(t, []string{"p", "p", "g", setup.Scripted}, []string{
		models[contract.AgentPlanner].Model, models[contract.AgentAlpha].Model, models[contract.AgentGamma].Model, models[contract.AgentBuilder].Model,
	})
	require.Equal(t, []string{"models.phases.planner", "models.phases.planner", "models.phases.gamma", "models.default"}, []string{
		from[contract.AgentPlanner], from[contract.AgentAlpha], from[contract.AgentGamma], from[contract.AgentBuilder],
	})

	cfg.Deliberation.Mode = string(contract.ModeLocal)
	models, from, err = setup.EveryModel(cfg)
	require.NoError(t, err)
	require.Equal(t, []string{setup.Scripted, "deliberation.mode", "models.phases.planner"},
		[]string{models[contract.AgentGamma].Model, from[contract.AgentGamma], from[contract.AgentPlanner]})

	bare := config.Default()
	models, _, err = setup.EveryModel(bare)
	require.ErrorContains(t, err, "models.default")
	require.Empty(t, models)
}

func TestAChosenModelOverridesTheOperatorsAndYieldsToTheRepositorysAndTheRequests(t *testing.T) {
	t.Parallel()
	operator := load(t, whole)
	at := time.Date(2026, 5, 3, 10, 0, 0, 0, time.UTC)
	chosen := []modelchoices.Choice{
		{Agent: contract.AgentPlanner, Model: contract.ModelChoice{Provider: "house", Model: "chosen", Temperature: warm(0.9), Effort: contract.EffortHigh}, By: "ana", At: at},
		{Agent: contract.AgentBuilder, Model: contract.ModelChoice{Provider: "other", Model: "chosen"}, By: "ben", At: at},
	}
	settings, spec, err := setup.Freeze(setup.WithChoices(operator, operator, chosen), contract.Repo{})
	require.NoError(t, err)
	require.Equal(t, contract.ModelChoice{Provider: "house", Model: "chosen", Temperature: warm(0.9), Effort: contract.EffortHigh, Timeout: 72 * time.Second}, settings.Models[contract.AgentPlanner])
	require.Equal(t, "chosen", settings.Models[contract.AgentBuilder].Model)
	require.Equal(t, "small", settings.Models[contract.AgentRepair].Model, "as configured")
	require.Equal(t, map[contract.Agent]string{
		contract.AgentPlanner: "settings page, by ana at 2026-05-03T10:00:00Z", contract.AgentBuilder: "settings page, by ben at 2026-05-03T10:00:00Z",
		contract.AgentRepair: "models.default", contract.AgentAlpha: "settings page, by ana at 2026-05-03T10:00:00Z, for the planner",
		contract.AgentBeta: "models.phases.beta", contract.AgentGamma: "settings page, by ana at 2026-05-03T10:00:00Z, for the planner",
	}, spec.ModelSources)
	require.Equal(t, "middle", operator.Models.Phases["builder"].Model, "the operator's configuration stays as it is")

	repository, err := config.LoadRepository(operator, []byte("models: {phases: {builder: {provider: other, model: spare}, planner: {temperature: 0.1}}}\n"), "theirs.yaml")
	require.NoError(t, err)
	settings, spec, err = setup.Freeze(setup.WithChoices(repository, operator, chosen), contract.Repo{})
	require.NoError(t, err)
	require.Equal(t, "spare", settings.Models[contract.AgentBuilder].Model)
	require.Equal(t, "models.phases.builder in theirs.yaml:1", spec.ModelSources[contract.AgentBuilder])
	require.Equal(t, contract.ModelChoice{Provider: "house", Model: "chosen", Temperature: warm(0.1), Effort: contract.EffortHigh, Timeout: 72 * time.Second}, settings.Models[contract.AgentPlanner])

	request, err := config.LoadRequest(operator, map[string]string{"models.phases.builder.model": "asked"})
	require.NoError(t, err)
	settings, spec, err = setup.Freeze(setup.WithChoices(request, operator, chosen), contract.Repo{})
	require.NoError(t, err)
	require.Equal(t, "asked", settings.Models[contract.AgentBuilder].Model)
	require.Equal(t, "setting models.phases.builder.model in the request", spec.ModelSources[contract.AgentBuilder])
	require.Equal(t, "chosen", settings.Models[contract.AgentPlanner].Model)
}

func TestAChosenModelOfAProviderThatIsGoneFailsWithWhatToDo(t *testing.T) {
	t.Parallel()
	operator := load(t, whole)
	gone := []modelchoices.Choice{{Agent: contract.AgentPlanner, Model: contract.ModelChoice{Provider: "gone", Model: "m"}, By: "ana", At: time.Now()}}
	_, _, err := setup.Freeze(setup.WithChoices(operator, operator, gone), contract.Repo{})
	for _, part := range []string{"planner", "by ana", `"gone"`, "rgpt models set planner", "rgpt models unset planner"} {
		require.ErrorContains(t, err, part)
	}
}

func TestWhoPlansRunsIsTheOperatorsToSay(t *testing.T) {
	t.Parallel()
	for by, want := range map[string][]bool{"planner": {false, false}, "auto": {true, false}, "deliberation": {true, true}} {
		cfg, err := setup.Load(config.Sources{Env: []string{"RGPT_DELIBERATION_PLAN_BY=" + by}}, "http://127.0.0.1:2/v1")
		require.NoError(t, err)
		settings, _, err := setup.Freeze(cfg, contract.Repo{})
		require.NoError(t, err)
		require.Equal(t, want, []bool{settings.Deliberation != nil, settings.PlanBy == contract.PlanByDeliberation}, by)
		if settings.Deliberation != nil {
			require.True(t, settings.Deliberation.AutoContinue, "nobody is asked in the middle of planning")
		}
	}
}

func TestModelsThatCannotBeUsedAreConfigurationErrors(t *testing.T) {
	t.Parallel()
	cfg := config.Default()
	_, err := setup.Models(cfg)
	require.Equal(t, contract.ClassConfig, fault.Of(err).Class)
	require.ErrorContains(t, err, "models.default")
	_, _, err = setup.Freeze(cfg, contract.Repo{})
	require.Error(t, err)

	cfg.Models.Default = config.Choice{Provider: "nowhere", Model: "m"}
	_, err = setup.Models(cfg)
	require.Equal(t, contract.ClassConfig, fault.Of(err).Class)
	require.ErrorContains(t, err, `"nowhere"`)
}

func TestPartsAreMadeOfTheConfiguration(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	cfg := load(t, whole)
	blobs, err := setup.Artifacts(t.Context(), cfg, dir)
	require.NoError(t, err)
	defer blobs.Close()
	digest, err := blobs.Put(t.Context(), []byte("x"))
	require.NoError(t, err)
	require.True(t, strings.HasPrefix(digest, "sha256:"))
	require.DirExists(t, filepath.Join(dir, "artifacts"))
	_, err = setup.Workspaces(cfg, dir, blobs)
	require.NoError(t, err)
	commands, err := setup.OpenSandbox(t.Context(), cfg, dir, slog.New(slog.DiscardHandler))
	if err == nil {
		commands.Close()
	}
	var missing *sandbox.IsolationError
	if err != nil {
		require.ErrorAs(t, err, &missing, "only a host that cannot isolate may refuse")
	}
}

func TestTheDataFolderIsTheFirstThatIsThere(t *testing.T) {
	here, home := t.TempDir(), t.TempDir()
	t.Chdir(here)
	t.Setenv("HOME", home)
	t.Setenv(setup.DataDir, "")
	require.NoError(t, os.Unsetenv(setup.DataDir))
	folder := func() string {
		dir, err := setup.DefaultDataDir()
		require.NoError(t, err)
		return dir
	}
	require.Equal(t, filepath.Join(here, ".rgpt"), folder(), "nothing is there yet")
	require.NoError(t, os.WriteFile(filepath.Join(home, ".rgpt"), nil, 0o600))
	require.Equal(t, filepath.Join(here, ".rgpt"), folder(), "a file is no folder")
	require.NoError(t, os.Remove(filepath.Join(home, ".rgpt")))
	require.NoError(t, os.Mkdir(filepath.Join(home, ".rgpt"), 0o700))
	require.Equal(t, filepath.Join(home, ".rgpt"), folder())
	require.NoError(t, os.Mkdir(filepath.Join(here, ".rgpt"), 0o700))
	require.Equal(t, filepath.Join(here, ".rgpt"), folder())
	require.NoError(t, setup.ClaimDataDir(filepath.Join(here, ".rgpt")))
	require.NoError(t, setup.ClaimDataDir(filepath.Join(here, ".rgpt")))
	require.Equal(t, filepath.Join(here, ".rgpt"), folder(), "this user made it")
	t.Setenv(setup.DataDir, "elsewhere")
	require.Equal(t, filepath.Join(here, "elsewhere"), folder())
}

// TestADataFolderThatSomebodyElseMadeIsNotUsed has one like those from an archive: not
// tracked by git, and with whatever its creator put in it.
func TestADataFolderThatSomebodyElseMadeIsNotUsed(t *testing.T) {
	here, home := t.TempDir(), t.TempDir()
	t.Chdir(here)
	t.Setenv("HOME", home)
	t.Setenv("XDG_CONFIG_HOME", "")
	t.Setenv(setup.DataDir, "")
	require.NoError(t, os.Unsetenv(setup.DataDir))
	folder, victim := filepath.Join(here, ".rgpt"), filepath.Join(home, "victim")
	require.NoError(t, os.Mkdir(folder, 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(folder, "stack.json"), []byte(`{"data_dir": ".rgpt"}`), 0o600))
	require.NoError(t, os.WriteFile(victim, []byte("mine"), 0o600))
	require.NoError(t, os.Symlink(victim, filepath.Join(folder, "owner")))
	require.NoError(t, setup.ClaimDataDir(folder), "what has something in it is not claimed")
	_, err := setup.DefaultDataDir()
	require.ErrorContains(t, err, "you did not create it here")
	require.ErrorContains(t, err, "rgpt trust")
	require.NoError(t, setup.TrustDataDir(trust.Default(os.Getenv), folder))
	dir, err := setup.DefaultDataDir()
	require.NoError(t, err)
	require.Equal(t, folder, dir)
	content, err := os.ReadFile(victim)
	require.NoError(t, err)
	require.Equal(t, "mine", string(content), "a link is not written through")
	require.NoError(t, os.Rename(folder, folder+"2"))
	require.NoError(t, os.Mkdir(filepath.Join(here, "moved"), 0o700))
	require.NoError(t, os.Rename(folder+"2", filepath.Join(here, "moved", ".rgpt")))
	t.Chdir(filepath.Join(here, "moved"))
	_, err = setup.DefaultDataDir()
	require.ErrorContains(t, err, "you did not create it here", "it was moved here")
}

func TestSecretsOfTheConfigurationAreNeverShown(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "key")
	require.NoError(t, os.WriteFile(file, []byte("key-of-a-file-canary\n"), 0o600))
	t.Setenv("SETUP_TEST_KEY", "key-of-a-variable-canary")
	t.Setenv("SETUP_TEST_TEMPORAL", "key-of-temporal-canary")
	cfg := config.Default()
	cfg.Models.Providers["a"] = config.Provider{Kind: "compatible", APIKeyEnv: "SETUP_TEST_KEY", Headers: map[string]string{"X-Key": "key-of-a-header-canary"}}
	cfg.Models.Providers["b"] = config.Provider{Kind: "compatible", APIKeyFile: file}
	cfg.Temporal.APIKeyEnv = "SETUP_TEST_TEMPORAL"
	cfg.Database.URL = "postgres://u:password-canary@127.0.0.1/db"
	cfg.Git.Remote = "https://u:remote-password-5-canary@git.example.com/app"
	cfg.Logging.Dir = dir
	service, err := setup.StartService(context.WithoutCancel(t.Context()), cfg, "test")
	require.NoError(t, err)
	for _, secret := range []string{"key-of-a-file-canary", "key-of-a-variable-canary", "key-of-a-header-canary", "key-of-temporal-canary", "password-canary", "remote-password-5-canary"} {
		require.NotContains(t, telemetry.Redact("it is "+secret+"!"), secret)
		service.Log.Log(t.Context(), slog.LevelInfo, "it is "+secret)
	}
	service.Close()
	logs, err := filepath.Glob(filepath.Join(dir, "*.log"))
	require.NoError(t, err)
	require.NotEmpty(t, logs)
	for _, l := range logs {
		text, err := os.ReadFile(l)
		require.NoError(t, err)
		require.NotContains(t, string(text), "canary")
	}
}

func TestRoutingIsFrozenForTheAgentsThatHaveAStrategy(t *testing.T) {
	t.Parallel()
	cfg := config.Default()
	r, err := setup.Routing(cfg)
	require.NoError(t, err)
	require.Nil(t, r, "every agent has a fixed model")

	cfg.Models.Default.Provider = "openai"
	cfg.Models.Routing = config.Routing{
		Strategy: "fixed", Agents: map[string]string{"builder": "cheapest"}, Learn: true, Weights: config.RouteWeights{Quality: 2, Price: 1},
		Candidates: []config.Choice{{Model: "small", Effort: "low"}},
	}
	r, err = setup.Routing(cfg)
	require.NoError(t, err)
	require.Equal(t, &contract.Routing{
		Strategies: map[contract.Agent]contract.RouteStrategy{contract.AgentBuilder: contract.RouteCheapest}, Learn: true,
		Weights: contract.RouteWeights{Quality: 2, Price: 1}, Candidates: []contract.ModelChoice{{Provider: "openai", Model: "small", Effort: contract.EffortLow}},
	}, r)
	cfg.Models.Routing.Candidates[0].Provider = "nobody"
	_, err = setup.Routing(cfg)
	require.ErrorContains(t, err, "models.routing.candidates[0] requires a model and a provider")
}

func TestAProviderAloneIsEnoughForModels(t *testing.T) {
	t.Parallel()
	cfg := config.Default()
	cfg.Models.Default.Provider = "anthropic"
	models, err := setup.Models(cfg)
	require.NoError(t, err)
	require.Equal(t, model.DefaultModel(model.KindAnthropic, contract.AgentPlanner), models[contract.AgentPlanner].Model)
	require.NotEqual(t, models[contract.AgentPlanner].Model, models[contract.AgentTester].Model)
	cfg.Models.Default.Provider = "ollama"
	_, err = setup.Models(cfg)
	require.ErrorContains(t, err, "no model is configured for the")
}
