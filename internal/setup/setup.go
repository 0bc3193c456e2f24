// Package setup creates the parts of the product from its configuration: model client,
// sandbox, workspaces, artifact store, and the frozen settings of a run.
package setup

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/admission"
	"github.com/rocketgpt/orchestrator/internal/artifact"
	"github.com/rocketgpt/orchestrator/internal/buildcache"
	"github.com/rocketgpt/orchestrator/internal/config"
	"github.com/rocketgpt/orchestrator/internal/environment"
	"github.com/rocketgpt/orchestrator/internal/fault"
	"github.com/rocketgpt/orchestrator/internal/forge/connect"
	"github.com/rocketgpt/orchestrator/internal/model"
	"github.com/rocketgpt/orchestrator/internal/modelclient"
	"github.com/rocketgpt/orchestrator/internal/runs/verdict"
	"github.com/rocketgpt/orchestrator/internal/sandbox"
	"github.com/rocketgpt/orchestrator/internal/sandbox/docker"
	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/internal/store/providers"
	"github.com/rocketgpt/orchestrator/internal/verify/checks"
	"github.com/rocketgpt/orchestrator/internal/verify/output"
	"github.com/rocketgpt/orchestrator/internal/workspace"
)

// Scripted is the name of the provider and of the model that respond according to a scenario file.
const Scripted = "scripted"

// ScriptedURL is the environment variable with which a stack passes the address of its scripted
// model to its processes.
const ScriptedURL = "RGPT_SCRIPTED_URL"

// DataDir is the environment variable with the path of the data folder.
const DataDir = "RGPT_DATA_DIR"

// SourceConfig is the source of entries of the catalogue that come from models.catalogue.
const SourceConfig = "configuration"

// Load reads the configuration of a directory and adds the stack's scripted model, which is used by
// default.
func Load(from config.Sources, scriptedURL string) (*config.Config, error) {
	cfg, err := config.Load(from)
	if err != nil {
		return nil, err
	}
	if scriptedURL == "" {
		return cfg, nil
	}
	if _, own := cfg.Models.Providers[Scripted]; !own {
		cfg.Models.Providers[Scripted] = config.Provider{Kind: string(model.KindScripted), BaseURL: scriptedURL, MaxConcurrent: 1000}
	}
	if cfg.Models.Default.Model == "" {
		cfg.Models.Default = config.Choice{Provider: Scripted, Model: Scripted}
	}
	return cfg, nil
}

// Providers returns the configured model providers, sorted by name.
func Providers(cfg *config.Config) []model.Provider {
	var all []model.Provider
	for name, p := range cfg.Models.Providers {
		all = append(all, model.Provider{
			Name: name, Kind: model.Kind(p.Kind), BaseURL: p.BaseURL, API: model.API(p.API), APIKeyEnv: p.APIKeyEnv, APIKeyFile: p.APIKeyFile,
			Region: cmp.Or(p.Region, regionOf(model.Kind(p.Kind))), Project: cmp.Or(p.Project, projectOf(model.Kind(p.Kind))),
			Timeout: cmp.Or(p.Timeout, cfg.Models.Timeout), MaxConcurrent: p.MaxConcurrent, Headers: p.Headers,
		}.WithDefaults())
	}
	slices.SortFunc(all, func(a, b model.Provider) int { return cmp.Compare(a.Name, b.Name) })
	return all
}

// regionOf returns the region that the environment sets for a cloud.
func regionOf(k model.Kind) string {
	if k == model.KindBedrock {
		return cmp.Or(os.Getenv("AWS_REGION"), os.Getenv("AWS_DEFAULT_REGION"))
	}
	if k == model.KindVertex {
		return os.Getenv("GOOGLE_CLOUD_LOCATION")
	}
	return ""
}

// projectOf returns the project that the environment sets for a cloud.
func projectOf(k model.Kind) string {
	if k == model.KindVertex {
		return os.Getenv("GOOGLE_CLOUD_PROJECT")
	}
	return ""
}

// Catalogue returns the known properties of models: the built-in catalogue, overridden by the
// configured entries.
func Catalogue(cfg *config.Config) model.Catalogue { return LearnedCatalogue(cfg, model.Learned{}) }

// LearnedCatalogue is Catalogue with what the installation has stored: updates override the built-in
// catalogue, configured entries override both, and capabilities that were tried at a provider
// override all of them. Models without scores get those that their makers published.
func LearnedCatalogue(cfg *config.Config, learned model.Learned) model.Catalogue {
	own := make([]model.CatalogueEntry, 0, len(cfg.Models.Catalogue))
	for _, e := range cfg.Models.Catalogue {
		own = append(own, configured(e))
	}
	return model.DefaultCatalogue().Learn(learned).With(own...).WithPublishedScores(learned).Correct(learned.Checks, Providers(cfg))
}

// configured returns an entry of models.catalogue.
func configured(e config.CatalogueEntry) model.CatalogueEntry {
	price := func(m config.MicroUSD) float64 { return float64(m.Int64()) / 1e6 }
	entry := model.CatalogueEntry{
		Provider: e.Provider, Model: e.Model, ContextWindow: int64(e.ContextWindow), MaxOutput: int64(e.MaxOutput), MaxTexts: e.MaxTexts,
		PriceIn: price(e.PriceIn), PriceCached: price(e.PriceCached), PriceCacheWrite: price(e.PriceWrite), PriceOut: price(e.PriceOut),
		PriceReasoning: price(e.PriceReasoning), API: e.API, Released: e.Released, Deprecated: e.Deprecated, Source: SourceConfig,
	}
	if long := e.LongContext; long.Above > 0 {
		entry.LongContext = &model.LongContext{
			Above: int64(long.Above), PriceIn: price(long.PriceIn), PriceCached: price(long.PriceCached), PriceCacheWrite: price(long.PriceWrite), PriceOut: price(long.PriceOut),
		}
	}
	for _, c := range e.Capabilities {
		entry.Capabilities = append(entry.Capabilities, model.Capability(c))
	}
	for _, s := range e.Scores {
		entry.Scores = append(entry.Scores, model.Score{Name: s.Name, Value: s.Value, Source: s.Source, Date: s.Date})
	}
	return entry
}

// Model returns the client that calls models.
func Model(cfg *config.Config) (*modelclient.Client, error) {
	return modelclient.New(Providers(cfg), Catalogue(cfg), modelclient.Options{IdleTimeout: cfg.Models.IdleTimeout})
}

// Admission returns what decides when the models of a client may be called.
func Admission(cfg *config.Config, db *store.Store, models *modelclient.Client, log *slog.Logger) *admission.Gate {
	b := cfg.Models.Breaker
	limits := map[string]providers.Limits{}
	for name, p := range cfg.Models.Providers {
		limits[name] = providers.Limits{Requests: p.RequestsPerMinute, Tokens: p.TokensPerMinute, Concurrent: int64(p.MaxConcurrentTotal)}
	}
	return admission.New(db, admission.Options{
		Limits:   limits,
		Failures: b.Failures, Pause: b.Pause, LongestPause: b.LongestPause, ProbeLease: b.ProbeLease, Configured: models.Configured, Log: log,
	})
}

// Artifacts opens the artifact store.
func Artifacts(ctx context.Context, cfg *config.Config, dataDir string) (*artifact.Store, error) {
	if err := ClaimDataDir(dataDir); err != nil {
		return nil, err
	}
	return artifact.Open(ctx, cfg.Artifacts.URL, filepath.Join(dataDir, "artifacts"))
}

// Workspaces opens the cache of repositories and working directories. change adapts its options.
func Workspaces(cfg *config.Config, dataDir string, blobs workspace.Blobs, change ...func(*workspace.Options)) (*workspace.Manager, error) {
	if err := ClaimDataDir(dataDir); err != nil {
		return nil, err
	}
	forges, err := connect.New(cfg.Forges, os.Getenv)
	if err != nil {
		return nil, err
	}
	options := workspace.Options{
		CacheDir: filepath.Join(dataDir, "cache"), Blobs: blobs, MaxFileBytes: cfg.Execution.Sandbox.FileSize.Int64(),
		MaxRepositoryFiles: cfg.Git.MaxFiles, MaxRepositoryBytes: cfg.Git.MaxSize.Int64(),
		LinkedFolders: cfg.Git.LinkedFolders, Credential: forges.GitCredential,
	}
	for _, f := range change {
		f(&options)
	}
	return workspace.New(options)
}

// KeepSpares makes a cache of workspaces keep directories for later runs, as the configuration says. Without it, none
// are kept.
func KeepSpares(cfg *config.Config) func(*workspace.Options) {
	return func(o *workspace.Options) {
		o.MaxSpareDirs, o.MinFreeForSpares = cfg.Worker.SpareDirectories, cfg.Worker.SpareFree.Int64()
	}
}

// BuildCaches returns the store of build caches for commands.
func BuildCaches(dataDir string) buildcache.Store {
	return buildcache.At(filepath.Join(dataDir, "cache", "build"))
}

// Environments returns the store of this host for the environments of repositories.
func Environments(dataDir string) environment.Store {
	return environment.At(filepath.Join(dataDir, "cache", "environments"))
}

// Downloads returns the downloads shared by the setups on this host.
func Downloads(dataDir string) environment.Downloads {
	return environment.DownloadsAt(filepath.Join(dataDir, "cache", "downloads"))
}

// Sandbox runs the commands of models and repositories.
type Sandbox interface {
	sandbox.Runner
	// Features reports the isolation of commands.
	Features() []sandbox.Feature
	// Isolated is false if commands run without isolation, because the configuration allows it.
	Isolated() bool
	// Traceable reports whether what commands do to a workspace can be undone afterwards; see
	// [sandbox.Process.Traceable].
	Traceable() bool
}

// Commands is a sandbox with what its commands can use.
type Commands struct {
	Sandbox
	// Tools returns the tools that commands can use.
	Tools environment.ToolsOf
	// BuildImage builds the image that commands name; nil: commands do not run in containers.
	BuildImage func(context.Context, docker.Source) (docker.Built, error)
	// Toolchains describe the tools of the process runner.
	Toolchains sandbox.Toolchains
	// Close ends what runs in the background.
	Close func()
}

// OpenSandbox returns the configured sandbox. Its files are in dataDir.
func OpenSandbox(ctx context.Context, cfg *config.Config, dataDir string, log *slog.Logger) (*Commands, error) {
	if cfg.Execution.Sandbox.Runner == config.RunnerDocker {
		return openContainers(ctx, cfg, dataDir, log)
	}
	tools := sandbox.DetectToolchains()
	runner, err := sandbox.NewProcess(sandbox.Options{
		AllowUnisolated: cfg.Execution.Sandbox.AllowUnisolated, Toolchains: tools, Executable: sandboxHelper(), DataDir: dataDir,
	})
	if err != nil {
		return nil, err
	}
	onHost := func(_ context.Context, image string) (environment.Tools, error) {
		if image != "" {
			return nil, sandbox.ErrNoContainers(image)
		}
		return environment.Tools(tools.Versions), nil
	}
	return &Commands{Sandbox: runner, Tools: onHost, Toolchains: tools, Close: func() {}}, nil
}

// openContainers connects to Docker.
func openContainers(ctx context.Context, cfg *config.Config, dataDir string, log *slog.Logger) (*Commands, error) {
	helper := sandboxHelper()
	if helper == "" {
		return nil, fault.New(contract.ClassConfig, contract.CodeInvalidConfig, "execution.sandbox.runner: docker needs the program rgpt-sandbox beside this one; install all programs of a release in one directory")
	}
	if err := ClaimDataDir(dataDir); err != nil {
		return nil, err
	}
	d := cfg.Execution.Sandbox.Docker
	runner, err := docker.New(ctx, docker.Options{
		Host: d.Host, Image: d.Image, CPUs: d.CPUs, Warm: d.Warm, DataDir: dataDir, Helper: helper, Log: log,
		Allowed: cfg.AllowsImage, Pull: d.Pull == config.PullMissing, PullTimeout: d.PullTimeout,
		Build: docker.BuildOptions{
			Enabled: d.Build.Enabled, Timeout: d.Build.Timeout, ContextBytes: d.Build.ContextSize.Int64(), Network: d.Build.Network,
			Memory: d.Build.Memory.Int64(), LogBytes: d.Build.Log.Int64(), Age: d.Build.Age,
		},
	})
	if err != nil {
		return nil, err
	}
	inImage := func(ctx context.Context, image string) (environment.Tools, error) {
		id, versions, err := runner.Tools(ctx, image)
		if err != nil {
			return nil, err
		}
		tools := environment.Tools{environment.ImageTool: id}
		maps.Copy(tools, versions)
		return tools, nil
	}
	return &Commands{Sandbox: runner, Tools: inImage, BuildImage: runner.Build, Close: runner.Close}, nil
}

// sandboxHelper returns the small program that starts each sandbox, if it is next to this one.
// Otherwise, this program starts itself, which is slower.
func sandboxHelper() string {
	self, err := os.Executable()
	if err != nil {
		return ""
	}
	helper := filepath.Join(filepath.Dir(self), "rgpt-sandbox")
	if info, err := os.Stat(helper); err != nil || !info.Mode().IsRegular() {
		return ""
	}
	return helper
}

// Limits returns the resource limits of a command.
func Limits(cfg *config.Config) sandbox.Limits {
	s := cfg.Execution.Sandbox
	return sandbox.Limits{
		Timeout: cfg.Execution.CommandTimeout, CPUTime: s.CPUTime, MemoryBytes: s.Memory.Int64(), FileBytes: s.FileSize.Int64(),
		Processes: s.Processes, OutputBytes: s.Output.Int64(), DiskBytes: s.Disk.Int64(),
	}
}

// Verification returns the settings of verification in the form that package checks requires.
func Verification(cfg *config.Config) checks.Settings {
	v := cfg.Verification
	network := func(hosts []string) checks.Hosts {
		all := slices.Concat(cfg.Execution.Sandbox.Network, hosts)
		slices.Sort(all)
		return slices.Compact(all)
	}
	stage := func(c config.Check) checks.StageSettings {
		return checks.StageSettings{
			Enabled: checks.Switch(c.Enabled), Command: c.Command, Format: output.Format(c.Format), Report: c.Report,
			Severity: contract.Severity(c.Severity), Network: network(c.Network),
		}
	}
	out := checks.Settings{
		AutoDetect: v.AutoDetect, Shards: v.Shards, RerunFailed: v.RerunFailed, RequireTests: v.RequireTests,
		PinnedTests: verdict.PinnedTests(v.PinnedTests), NewTests: verdict.NewTests(v.ProveNewTests),
		Build: stage(v.Build), Test: stage(v.Test), Lint: stage(v.Lint), Security: stage(v.Security),
		Databases: checks.Databases(v.Databases), Coverage: checks.CoverageMode(v.Coverage),
		Recordings: checks.Recordings(v.Recordings),
	}
	for _, c := range v.Custom {
		out.Custom = append(out.Custom, checks.Custom{
			Name: c.Name, Command: c.Command, Format: output.Format(c.Format), Report: c.Report,
			Severity: contract.Severity(c.Severity), Timeout: c.Timeout, Network: network(c.Network),
		})
	}
	return out
}

// environmentOf resolves the settings of a run's environment and baseline; nil if environments are
// disabled.
func environmentOf(cfg *config.Config) (*contract.EnvironmentSettings, environment.Settings) {
	e := cfg.Environment
	if !e.Enabled {
		return nil, environment.Settings{}
	}
	return &contract.EnvironmentSettings{
		Timeout: e.Timeout, Baseline: cfg.Verification.Baseline == "on", AskIfRed: cfg.Verification.BaselineRed == "ask", AgentTurns: e.AgentTurns,
	}, EnvironmentSettings(e)
}

// EnvironmentSettings returns the setup settings of the section environment.
func EnvironmentSettings(e config.Environment) environment.Settings {
	out := environment.Settings{Image: e.Image, Setup: e.Setup, Hosts: e.Network.Hosts, Variables: e.Variables, Cache: e.Cache}
	if e.Dockerfile != "" {
		out.Dockerfile = &environment.Dockerfile{Path: e.Dockerfile, Context: e.Build.Context, Target: e.Build.Target, Args: e.Build.Args}
	}
	return out
}

// RunSpec has the inputs of a run, apart from the settings that its workflow uses, as resolved at
// its creation and stored in its row. Deployments and edited files do not change it.
type RunSpec struct {
	BranchPrefix string               `json:"branch_prefix"` // the run's ID is appended once it is known
	Verification checks.Settings      `json:"verification"`
	Environment  environment.Settings `json:"environment,omitzero"`
	// EnvironmentGiven is set if Environment was specified for this run only. Then no stored setup
	// is used, except the one that its own environment agent proposes.
	EnvironmentGiven bool `json:"environment_given,omitempty"`
	// ModelSources has, for each agent that calls models, what determined its model at the creation.
	ModelSources map[contract.Agent]string `json:"model_sources,omitempty"`
}

// ReadRunSpec reads the RunSpec in a run's row; the zero value for a run created without one.
func ReadRunSpec(run store.Run) (spec RunSpec, err error) {
	if len(run.Spec) == 0 {
		return spec, nil
	}
	if err := json.Unmarshal(run.Spec, &spec); err != nil {
		return spec, fmt.Errorf("read the inputs of run %d: %w", run.ID, err)
	}
	return spec, nil
}

// Branch returns the release branch of the run with this ID.
func (s RunSpec) Branch(runID int64) string { return s.BranchPrefix + strconv.FormatInt(runID, 10) }

// agents are the agents that need a model in a run.
var agents = []contract.Agent{
	contract.AgentPlanner, contract.AgentBuilder, contract.AgentTester,
	contract.AgentReleaser, contract.AgentAnalyzer, contract.AgentRepair,
}

// Freeze resolves the inputs of a run from the configuration. The caller then applies the options
// of the request.
func Freeze(cfg *config.Config, repo contract.Repo) (contract.Settings, RunSpec, error) {
	settings, spec := FreezeWithoutModels(cfg, repo)
	var err error
	if settings.Models, err = Models(cfg); err != nil {
		return contract.Settings{}, RunSpec{}, err
	}
	if settings.Fallbacks, err = Fallbacks(cfg); err != nil {
		return contract.Settings{}, RunSpec{}, err
	}
	spec.ModelSources = Sources(cfg)
	if settings.Routing, err = Routing(cfg); err != nil {
		return contract.Settings{}, RunSpec{}, err
	}
	return settings, spec, planBy(cfg, &settings)
}

// planner returns the limits of a run's planner.
func planner(l config.PlannerLimits) *contract.PlannerSettings {
	s := &contract.PlannerSettings{
		Turns: l.Turns, Tokens: l.Tokens, MicroUSD: l.CostUSD.Int64(), Critique: contract.CritiqueMode(l.Critique), EditBytes: int(l.Edits.Int64()),
	}
	if l.Question {
		s.QuestionWait = l.QuestionDeadline
	}
	return s
}

// FreezeWithoutModels resolves the inputs of a run that does not call models.
func FreezeWithoutModels(cfg *config.Config, repo contract.Repo) (contract.Settings, RunSpec) {
	e := cfg.Execution
	settings := contract.Settings{
		Repo: repo, Providers: slices.Sorted(maps.Keys(cfg.Models.Providers)), MaxRetries: e.MaxRetries, Parallel: e.ParallelSteps, ChecksTogether: e.ChecksTogether,
		StepBudget: contract.StepBudget{
			Turns: e.Step.Turns, Tokens: e.Step.Tokens, MicroUSD: e.Step.CostUSD.Int64(), Time: e.Step.Time,
			LoopLimit: e.Step.LoopLimit, ErrorLimit: e.Step.ErrorLimit,
		},
		Planner:          planner(e.Planner),
		FinishRefusals:   finishRefusals(e.Step),
		RepairPictures:   e.Pictures.Repair,
		Agents:           contract.AgentLimits{Errors: e.Agent.Errors, Repeats: e.Agent.Repeats, Violations: e.Agent.Violations},
		RunBudget:        runBudget(cfg),
		StableRetests:    e.StableRetests,
		Thresholds:       contract.Thresholds{MaxMajor: cfg.Findings.MaxMajor, MaxMedium: cfg.Findings.MaxMedium},
		Release:          release(cfg),
		ApprovePlan:      e.ApprovePlan,
		ApproveRelease:   e.ApproveRelease,
		ApprovalWait:     e.Approval.Wait,
		Reminders:        reminders(e.Approval.Reminders),
		InterventionWait: e.Intervention.Wait,
		QuotaWait:        e.QuotaWait,
		CommandTimeout:   e.CommandTimeout,
		VerifyTimeout:    cfg.Verification.Timeout,
		ModelTimeout:     cfg.Models.Timeout,
	}
	spec := RunSpec{BranchPrefix: cfg.Git.BranchPrefix, Verification: Verification(cfg)}
	if cfg.Models.CacheIdentical {
		settings.Cache = &contract.ResponseCache{Retention: cfg.Models.CacheRetention}
	}
	settings.Environment, spec.Environment = environmentOf(cfg)
	return settings, spec
}

// release returns how runs release. A pull request requires a push.
func release(cfg *config.Config) contract.ReleaseSettings {
	g := cfg.Git
	s := contract.ReleaseSettings{
		Push: g.Release != config.ReleaseBranch, Remote: g.Remote, AuthorName: g.AuthorName, AuthorEmail: g.AuthorEmail,
		Protected: g.Protected, Stay: g.Stay, MaxRepairs: g.MaxRepairs,
	}
	if g.Release == config.ReleasePullRequest {
		s.PullRequest = PullRequest(cfg)
	}
	return s
}

// PullRequest returns the settings of pull requests.
func PullRequest(cfg *config.Config) *contract.PullRequestSettings {
	p := cfg.Git.PullRequest
	var update *contract.UpdateSettings
	if p.Update != config.UpdateOff && cfg.Git.Stay > 0 {
		update = &contract.UpdateSettings{
			Method: contract.UpdateMethod(p.Update), When: contract.UpdateWhen(p.UpdateWhen), Max: p.MaxUpdates, Interval: p.UpdateInterval,
		}
	}
	return &contract.PullRequestSettings{
		Update: update, Base: p.Base, Draft: contract.DraftPolicy(p.Draft), Labels: p.Labels, Reviewers: p.Reviewers, CodeOwners: p.CodeOwners,
		Statuses: p.Statuses, Comments: p.Comments, CloseIssue: p.CloseIssue, CommentIssue: p.CommentIssue, Link: cfg.Server.URL,
	}
}

// reminders returns the configured reminders of questions to people.
func reminders(listed []config.Reminder) []contract.Reminder {
	var out []contract.Reminder
	for _, one := range listed {
		out = append(out, contract.Reminder{After: one.After, Before: one.Before, To: one.To, Escalate: one.Escalate})
	}
	return out
}

// finishRefusals returns how often failed checks go back to an agent that wants to finish.
func finishRefusals(s config.StepLimits) int {
	if !s.FinishChecks {
		return 0
	}
	return s.FinishRefusals
}

// Fallbacks returns the models that self-heal may switch to, in order.
func Fallbacks(cfg *config.Config) ([]contract.ModelChoice, error) {
	return choices(cfg, "models.fallback", cfg.Models.Fallback)
}

// Routing returns how a run chooses the model of a call; nil if every agent has a fixed model.
func Routing(cfg *config.Config) (*contract.Routing, error) {
	r := cfg.Models.Routing
	out := contract.Routing{
		Strategies: map[contract.Agent]contract.RouteStrategy{}, Learn: r.Learn,
		Weights: contract.RouteWeights{Quality: r.Weights.Quality, Price: r.Weights.Price},
	}
	for _, agent := range contract.Agents() {
		if s := contract.RouteStrategy(cmp.Or(r.Agents[string(agent)], r.Strategy)); s != "" && s != contract.RouteFixed {
			out.Strategies[agent] = s
		}
	}
	if len(out.Strategies) == 0 {
		return nil, nil //nolint:nilnil // runs without routing are valid
	}
	var err error
	out.Candidates, err = choices(cfg, "models.routing.candidates", r.Candidates)
	return &out, err
}

// choices resolves the models of a list in the configuration.
func choices(cfg *config.Config, setting string, list []config.Choice) ([]contract.ModelChoice, error) {
	var out []contract.ModelChoice
	for i, c := range list {
		m := WithTimeout(cfg, contract.ModelChoice{Provider: cmp.Or(c.Provider, cfg.Models.Default.Provider), Model: c.Model, Temperature: c.Temperature, Effort: contract.Effort(c.Effort)})
		if _, ok := cfg.Models.Providers[m.Provider]; !ok || m.Model == "" {
			return nil, fault.New(contract.ClassConfig, contract.CodeInvalidConfig,
				"%s[%d] requires a model and a provider from models.providers; got model %q and provider %q", setting, i, m.Model, m.Provider)
		}
		out = append(out, m)
	}
	return out, nil
}

// Models returns the model of each agent.
func Models(cfg *config.Config) (map[contract.Agent]contract.ModelChoice, error) {
	out := map[contract.Agent]contract.ModelChoice{}
	for _, agent := range agents {
		var err error
		if out[agent], err = modelOf(cfg, agent); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// modelOf returns the model of an agent: its own, else the model of the first of others that has
// one, else the default.
func modelOf(cfg *config.Config, agent contract.Agent, others ...contract.Agent) (contract.ModelChoice, error) {
	base := contract.ModelChoice{
		Provider: cfg.Models.Default.Provider, Model: cfg.Models.Default.Model,
		Temperature: cfg.Models.Default.Temperature, Effort: contract.Effort(cfg.Models.Default.Effort),
	}
	chosen := base
	for _, a := range slices.Backward(append([]contract.Agent{agent}, others...)) {
		own := cfg.Models.Phases[string(a)]
		if own.Model != "" {
			chosen = contract.ModelChoice{Provider: cmp.Or(own.Provider, base.Provider), Model: own.Model}
		}
		if own.Model != "" || own.Temperature != nil {
			chosen.Temperature = own.Temperature
		}
		if own.Model != "" || own.Effort != "" {
			chosen.Effort = contract.Effort(own.Effort)
		}
	}
	if chosen.Model == "" {
		chosen.Model = model.DefaultModel(model.Kind(cfg.Models.Providers[chosen.Provider].Kind), agent)
	}
	if chosen.Provider == "" || chosen.Model == "" {
		return chosen, fault.New(contract.ClassConfig, contract.CodeInvalidConfig,
			"no model is configured for the %s; set models.default (provider and model) in rgpt.yaml, or start the stack with a scenario: rgpt dev --scenario FILE", agent)
	}
	if _, ok := cfg.Models.Providers[chosen.Provider]; !ok {
		return chosen, notConfigured(cfg, agent, chosen, others...)
	}
	return WithTimeout(cfg, chosen), nil
}

// WithTimeout returns a choice with its provider's timeout, if the provider has one, so the timeout
// is frozen with the run.
func WithTimeout(cfg *config.Config, choice contract.ModelChoice) contract.ModelChoice {
	choice.Timeout = cfg.Models.Providers[choice.Provider].Timeout
	return choice
}
