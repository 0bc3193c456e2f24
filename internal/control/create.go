package control

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/config"
	"github.com/rocketgpt/orchestrator/internal/environment"
	"github.com/rocketgpt/orchestrator/internal/fault"
	"github.com/rocketgpt/orchestrator/internal/model"
	"github.com/rocketgpt/orchestrator/internal/modelclient"
	"github.com/rocketgpt/orchestrator/internal/runs/verdict"
	"github.com/rocketgpt/orchestrator/internal/setup"
	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/internal/store/attempts"
	"github.com/rocketgpt/orchestrator/internal/store/changesets"
	"github.com/rocketgpt/orchestrator/internal/temporal"
	"github.com/rocketgpt/orchestrator/internal/verify/checks"
	"github.com/rocketgpt/orchestrator/internal/workspace"
)

// Creation describes the run to create.
type Creation struct {
	Repo           string          // a directory on this host or a URL; empty with an issue: the issue's repository
	Base           string          // branch, tag or commit to start from; empty: the checked-out commit, or the default branch
	Goal           string          // the first line is the title; empty with an issue: the issue's title
	Description    string          // more about the goal
	Issue          string          `json:",omitempty"` // address of an issue on a forge that the run is about
	Project        string          // empty: the repository's name
	Model          string          // model of all agents, as provider/model; empty: as configured
	Effort         contract.Effort `json:",omitempty"` // amount of reasoning of all agents; empty: as configured
	Plan           *contract.Plan  // used instead of asking the planner
	PlanOnly       bool            // the run ends with the plan
	PrepareOnly    bool            `json:",omitempty"` // the run ends with environment and baseline; it needs no model, and no goal
	Environment    string          `json:",omitempty"` // EnvironmentAuto, EnvironmentNone, or a YAML document with the section environment
	PlanBy         string          `json:",omitempty"` // planner, deliberation or auto; empty: as configured (deliberation.plan_by)
	ApprovePlan    bool            // a person approves the plan before it is built
	ApproveRelease bool
	Push           bool
	PullRequest    bool              `json:",omitempty"` // open a pull request for the pushed branch
	Release        string            `json:",omitempty"` // how far the release goes, as git.release, if the caller may lower that; empty: as configured, Push and PullRequest say
	Remote         string            // remote to push to: a name or a URL; empty with Push: origin
	Settings       map[string]string // configuration settings for this run only, by dotted key; see config.LoadRequest
	Key            string            // idempotency key: requests with the same key create only one run
	By             string            `json:"-"` // who creates it: a person, or a client such as contract.ByAPI
	Authors        []string          `json:"-"` // people who caused it besides By: they count as authors of its change
	IssueText      *IssueText        `json:"-"` // of Issue, as it was when the run was wanted; nil: as it is now
	NeedsName      bool              `json:"-"` // refuse a By that names nobody if the authors of the change cannot approve its release
	Labels         []string          `json:",omitempty"`
	Pictures       []PictureFile     `json:",omitempty"` // that belong to the goal

	Attempts      int                   `json:",omitempty"` // independent attempts at the goal, of which the best is released; 0: as configured
	Repositories  []RepositoryGoal      `json:",omitempty"` // several repositories, one run for each, which are released together; Repo and Base are empty then
	AttemptModels []string              `json:",omitempty"` // models of the attempts in their order, as provider/model, repeated if there are fewer; empty: as configured
	configFrom    string                // commit whose rgpt.yaml and dev container apply; empty: Base
	issue         *contract.Issue       // that the run is about, as it is now
	environment   *environment.Settings // of an earlier run that the run continues; nil: as Environment says
}

// Keywords that Creation.Environment accepts instead of a YAML document.
const (
	EnvironmentAuto = "auto" // as configured, like an empty text
	EnvironmentNone = "none" // neither environment nor baseline
)

// Created is a run that was created, now or by an earlier request with the same key.
type Created struct {
	Run   store.Run
	Fresh bool
	// Waiting is why the run has not started yet. The worker starts it as soon as possible.
	Waiting string
	Notes   []string // for the caller
	// Attempts are all attempts if several were created; Run is the first of them.
	Attempts *attempts.Group
	// ChangeSet has all runs if several repositories were named; Run is the first of them.
	ChangeSet *changesets.Set
}

// Create checks all inputs, then creates the run and starts it. If it returns an error, no run was
// created.
func (r *Runs) Create(ctx context.Context, c Creation) (Created, error) {
	var out Created
	r, err := r.current()
	if err != nil {
		return out, err
	}
	operator := r.Config
	if r, err = r.accept(&c); err != nil {
		return out, err
	}
	digest, err := digestOf(c)
	if err != nil {
		return out, err
	}
	if known, err := r.known(ctx, c.Key, digest); known != nil || err != nil {
		return deref(known), err
	}
	count, err := r.attemptsOf(c)
	if err != nil {
		return out, err
	}
	title, description, err := r.wholeGoal(ctx, &c, &out)
	if err != nil {
		return out, err
	}
	goal := store.NewRun{GoalTitle: title, GoalDescription: description, RequestDigest: digest}
	if c.several() {
		err := r.createChangeSet(ctx, c, goal, operator, &out)
		return out, err
	}
	if count > 1 {
		err := r.createAttempts(ctx, c, count, goal, operator, &out)
		return out, err
	}
	prepared, err := r.prepare(ctx, c, operator, &out)
	if err != nil {
		return out, err
	}
	if err := r.noteGate(ctx, operator, prepared.Settings.Gate); err != nil {
		return out, err
	}
	prepared.GoalTitle, prepared.GoalDescription, prepared.RequestDigest = title, description, digest
	if prepared.Settings.Pictures, err = r.storePictures(ctx, c.Pictures); err != nil {
		return out, err
	}
	if out.Run, out.Fresh, err = r.Store.CreateRun(ctx, prepared); err != nil {
		return out, err
	}
	r.start(ctx, &out)
	return out, nil
}

// accept checks a request and completes it. It returns the runs of the installation with the settings
// of the request.
func (r *Runs) accept(c *Creation) (asked *Runs, err error) {
	c.nameGoal()
	if err := c.Check(); err != nil {
		return nil, err
	}
	if asked, err = r.with(*c); err != nil {
		return nil, err
	}
	if _, _, err = asked.goal(*c); err == nil && c.Repo != "" {
		c.Repo, err = withPath(c.Repo)
	}
	if err == nil && c.several() {
		err = about(FieldRepo, asked.acceptRepositories(c))
	}
	return asked, err
}

// with returns the runs of an installation with the configuration settings that apply to one creation
// only.
func (r *Runs) with(c Creation) (*Runs, error) {
	settings := c.settings()
	if len(settings) == 0 {
		return r, nil
	}
	asked := r.apart()
	var err error
	asked.Config, err = config.LoadRequest(r.Config, settings)
	return asked, err
}

// nameGoal sets the fixed goal of a preparation-only run.
func (c *Creation) nameGoal() {
	if c.PrepareOnly && c.Goal == "" {
		c.Goal = "Set up " + cmp.Or(c.Project, setup.ProjectOf(c.Repo))
	}
}

// settings returns the configuration settings for this run only.
func (c Creation) settings() map[string]string {
	if c.PlanBy == "" {
		return c.Settings
	}
	out := map[string]string{"deliberation.plan_by": c.PlanBy}
	maps.Copy(out, c.Settings) // explicit keys take precedence
	return out
}

// known returns the run that was already created under a key, nil if there is none. It is called
// before inputs are resolved, so that a moved branch or a deleted repository does not affect a
// repeated request.
func (r *Runs) known(ctx context.Context, key, digest string) (*Created, error) {
	if key == "" {
		return nil, nil
	}
	run, err := r.Store.RunByKey(ctx, store.DefaultTenant, key, digest)
	if errors.Is(err, store.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	out := Created{Run: run}
	if of := run.Settings.ChangeSet; of != nil {
		return &out, r.startChangeSet(ctx, of.Set, &out)
	}
	if run.Settings.Attempt != nil {
		return &out, r.startAttempts(ctx, run.Settings.Attempt.Group, &out)
	}
	if run.WorkflowID == "" { // its creator did not start it
		r.start(ctx, &out)
	}
	return &out, nil
}

// deref returns the value of a pointer, or the zero value.
func deref[T any](v *T) (out T) {
	if v != nil {
		out = *v
	}
	return out
}

// start starts the workflow of a new run, or leaves it waiting until a worker starts it. If that
// fails, the worker's reconciler starts it later, because the run exists.
func (r *Runs) start(ctx context.Context, c *Created) {
	most := r.Config.Execution.ConcurrentRuns
	queued, err := r.Store.Enqueue(ctx, c.Run.ID, most)
	switch {
	case err != nil:
		c.Waiting = fault.Of(err).Message
		return
	case queued:
		c.Notes = append(c.Notes, fmt.Sprintf("the run is queued: %d runs are in progress (execution.concurrent_runs)", most))
		return
	}
	if err := temporal.StartRun(ctx, r.Temporal, r.Store, c.Run); err != nil {
		c.Waiting = fault.Of(err).Message
	}
}

// Check returns the errors that can be found without access to other systems.
func (c Creation) Check() error {
	c.nameGoal()
	if _, _, err := c.goal(); err != nil {
		return err
	}
	if err := c.checkRepositories(); err != nil {
		return about(FieldRepo, err)
	}
	if c.Repo == "" && c.Issue == "" && len(c.Repositories) == 0 {
		return about(FieldRepo, wrong("no repository given; specify a directory or a URL (--repo), or an issue on a forge (--issue)"))
	}
	if c.PrepareOnly && c.Issue != "" {
		return wrong("a run that only prepares an environment is about no issue; omit --issue")
	}
	if c.PrepareOnly && c.Environment == EnvironmentNone {
		return wrong("a build requires an environment; omit --env none")
	}
	if err := checkLabels(c.Labels); err != nil {
		return about(FieldLabels, err)
	}
	if err := c.checkAttempts(); err != nil {
		return about(FieldAttempts, err)
	}
	if err := CheckSampling(nil, c.Effort); err != nil || c.Model == "" {
		return about(FieldEffort, err)
	}
	return about(FieldModel, CheckModel(c.Model))
}

// goal splits the goal into title and description.
func (c Creation) goal() (title, description string, err error) {
	if !utf8.ValidString(c.Goal+c.Description) || strings.ContainsRune(c.Goal+c.Description, 0) {
		return "", "", about(FieldGoal, wrong("the goal must be valid UTF-8 without NUL bytes"))
	}
	title, description, _ = strings.Cut(strings.TrimSpace(c.Goal), "\n")
	title, description = strings.TrimSpace(title), strings.TrimSpace(strings.TrimSpace(description)+"\n\n"+c.Description)
	if title == "" && c.Issue == "" {
		return "", "", about(FieldGoal, wrong(`the goal is empty; describe what the change should achieve, such as --goal "Add dark mode"`))
	}
	return title, description, nil
}

// goal returns the goal of a creation, and checks its length.
func (r *Runs) goal(c Creation) (title, description string, err error) {
	if title, description, err = c.goal(); err == nil {
		err = r.checkLength(title, description)
	}
	return title, description, err
}

// checkLength returns an error if a goal is too long.
func (r *Runs) checkLength(title, description string) error {
	if most := r.Config.Execution.MaxGoalBytes.Int64(); int64(len(title)+len(description)) > most {
		return about(FieldGoal, wrong("the goal is %d bytes long, more than the %d allowed (execution.max_goal_bytes); shorten it, and move details to files in the repository",
			len(title)+len(description), most))
	}
	return nil
}

// describedGoal adds what the program says to the description of a goal, and checks the length of what people wrote.
func (r *Runs) describedGoal(title, description, added string) (string, error) {
	return strings.TrimSpace(strings.TrimSpace(description) + "\n\n" + added), r.checkLength(title, description)
}

// resolved is what a run is created from: a commit of a repository, the configuration with the settings
// of the request and the repository, and the operator's configuration without them.
type resolved struct {
	repo     contract.Repo
	cfg      *config.Config
	operator *config.Config
}

// prepare resolves and freezes all inputs of a run. operator is the configuration without the settings
// of the request.
func (r *Runs) prepare(ctx context.Context, c Creation, operator *config.Config, out *Created) (store.NewRun, error) {
	repo, cfg, err := r.resolve(ctx, c, out)
	if err != nil {
		return store.NewRun{}, err
	}
	made, err := r.freeze(ctx, c, resolved{repo, cfg, operator})
	if err != nil {
		return made, err
	}
	missing, err := r.missingReceivers(ctx, made.Settings.Reminders)
	if len(missing) > 0 {
		out.Notes = append(out.Notes, fmt.Sprintf("reminders name webhooks that do not exist: %s; add them (rgpt webhook add URL --name NAME), or they get no reminders",
			strings.Join(missing, ", ")))
	}
	return made, err
}

// missingReceivers returns the names of webhooks that reminders name and that do not exist.
func (r *Runs) missingReceivers(ctx context.Context, reminders []contract.Reminder) (missing []string, err error) {
	var wanted []string
	for _, one := range reminders {
		for _, to := range one.To {
			if name := contract.WebhookOf(to); name != "" && !slices.Contains(wanted, name) {
				wanted = append(wanted, name)
			}
		}
	}
	if len(wanted) == 0 {
		return nil, nil
	}
	known, err := r.Store.Webhooks(ctx)
	for _, name := range wanted {
		if err == nil && !slices.ContainsFunc(known, func(w store.Webhook) bool { return w.Name == name }) {
			missing = append(missing, name)
		}
	}
	return missing, err
}

// freeze freezes all inputs of a run that is created from what was resolved.
func (r *Runs) freeze(ctx context.Context, c Creation, from resolved) (store.NewRun, error) {
	repo, cfg := from.repo, from.cfg
	var err error
	if !c.PrepareOnly && c.Model == "" { // otherwise no choice counts
		if cfg, err = withChoices(ctx, r.Store, cfg, from.operator); err != nil {
			return store.NewRun{}, err
		}
	}
	settings, spec, err := freeze(cfg, repo, c)
	if err != nil {
		return store.NewRun{}, err
	}
	s := &settings
	if err := r.chooseEnvironment(c, s, &spec); err != nil {
		return store.NewRun{}, err
	}
	s.CreatedBy, s.Authors, s.Issue = c.By, c.Authors, c.issue
	s.PlanOnly, s.ApprovePlan, s.ApproveRelease = c.PlanOnly, s.ApprovePlan || c.ApprovePlan, s.ApproveRelease || c.ApproveRelease
	switch c.Release {
	case config.ReleaseBranch:
		s.Release.Push, s.Release.PullRequest = false, nil
	case config.ReleasePush:
		s.Release.Push, s.Release.PullRequest = true, nil
	case config.ReleasePullRequest:
		c.PullRequest = true
	}
	if c.Push || c.PullRequest || c.Remote != "" {
		s.Release.Push, s.Release.Remote = true, c.Remote
	}
	if err := withPullRequest(cfg, c, s); err != nil {
		return store.NewRun{}, about(FieldPullRequest, err)
	}
	if s.Release.Push && s.Release.Remote == "" {
		s.Release.Remote = "origin"
	}
	if c.Model != "" {
		spec.ModelSources = requested(spec.ModelSources)
	}
	if err := r.choosePlanner(ctx, cfg, c, s); err != nil {
		return store.NewRun{}, err
	}
	if s.Gate, err = r.gateSettings(ctx, cfg); err != nil {
		return store.NewRun{}, err
	}
	if c.NeedsName && s.Gate != nil && s.Gate.Approver == contract.ApproverNotAuthor && contract.Nameless(c.By) {
		return store.NewRun{}, WrongInput(FieldBy, "authors of a change cannot approve its release (gate.approver: not_author), so the creator of a run must be known; enter your name")
	}
	if err := allowedLabels(s.Gate, c.Labels); err != nil {
		return store.NewRun{}, about(FieldLabels, err)
	}
	project := cmp.Or(c.Project, setup.ProjectOf(repo.URL))
	if spec.Verification.Durations, err = r.durations(ctx, project, repo.URL, spec.Verification.Shards); err != nil {
		return store.NewRun{}, err
	}
	return store.NewRun{
		Tenant: store.DefaultTenant, Project: project, MaxRetries: s.MaxRetries, IdempotencyKey: c.Key,
		GivenPlan: c.Plan, Settings: settings, Spec: spec, Labels: c.Labels,
	}, nil
}

// durations returns how long the test files of a repository took in earlier runs, if they are divided
// into shards.
func (r *Runs) durations(ctx context.Context, project, repo string, shards int) (checks.Durations, error) {
	if shards < 2 {
		return nil, nil
	}
	tests, err := r.Store.TestDurations(ctx, project, repo, checks.PlaywrightChecks)
	if err != nil {
		return nil, err
	}
	return checks.PlaywrightDurations(tests), nil
}

// freeze resolves the inputs of a run, without models if it calls none.
func freeze(cfg *config.Config, repo contract.Repo, c Creation) (contract.Settings, setup.RunSpec, error) {
	if !c.PrepareOnly {
		return setup.Freeze(cfg, repo)
	}
	settings, spec := setup.FreezeWithoutModels(cfg, repo)
	settings.PrepareOnly = true
	return settings, spec, nil
}

// choosePlanner sets models and plan, and checks that the models are reachable. A preparation-only
// run has neither.
func (r *Runs) choosePlanner(ctx context.Context, cfg *config.Config, c Creation, s *contract.Settings) error {
	if s.PrepareOnly {
		return nil
	}
	if err := chooseModel(cfg, s, c.Model); err != nil {
		return about(FieldModel, err)
	}
	if err := r.setEffort(ctx, s.Models, c.Effort); err != nil {
		return about(FieldEffort, err)
	}
	if s.Deliberation != nil {
		if err := r.setEffort(ctx, s.Deliberation.Models, c.Effort); err != nil {
			return about(FieldEffort, err)
		}
	}
	if s.PlanGiven = c.Plan != nil; s.PlanGiven {
		*c.Plan = c.Plan.Completed()
		if err := verdict.Plan(*c.Plan); err != nil {
			return err
		}
	}
	return about(FieldModel, probe(ctx, cfg, *s))
}

// chooseEnvironment sets the run's environment if its creation specifies one.
func (r *Runs) chooseEnvironment(c Creation, s *contract.Settings, spec *setup.RunSpec) error {
	if c.environment != nil && s.Environment != nil {
		spec.Environment, spec.EnvironmentGiven = *c.environment, true
		return nil
	}
	switch c.Environment {
	case "", EnvironmentAuto:
	case EnvironmentNone:
		s.Environment, spec.Environment = nil, environment.Settings{}
		return nil
	default:
		given, err := config.LoadEnvironment(r.Config, []byte(c.Environment), "the environment of this run")
		if err != nil {
			return err
		}
		spec.Environment, spec.EnvironmentGiven = setup.EnvironmentSettings(given), true
		if s.Environment != nil && given.Timeout != r.Config.Environment.Timeout {
			s.Environment.Timeout = given.Timeout
		}
		if s.Environment != nil && given.AgentTurns != r.Config.Environment.AgentTurns {
			s.Environment.AgentTurns = given.AgentTurns
		}
	}
	if s.Environment == nil && (c.PrepareOnly || c.Environment != "" && c.Environment != EnvironmentAuto) {
		return wrong("environments are disabled in the operator's configuration (environment.enabled)")
	}
	return nil
}

// resolve finds the repository and the commit, and the configuration in the repository.
func (r *Runs) resolve(ctx context.Context, c Creation, out *Created) (contract.Repo, *config.Config, error) {
	workspaces, err := setup.Workspaces(r.Config, r.DataDir, r.Artifacts)
	if err != nil {
		return contract.Repo{}, nil, err
	}
	repo, info, err := workspaces.Resolve(ctx, c.Repo, c.Base)
	if workspace.IsAboutBase(err) {
		return repo, nil, about(FieldBase, err)
	}
	if err != nil {
		return repo, nil, about(FieldRepo, err)
	}
	start, err := workspaces.Start(ctx, repo)
	if err != nil {
		return repo, nil, err
	}
	repo.Tree = start.Tree
	if info.Dirty {
		out.Notes = append(out.Notes, fmt.Sprintf(
			"%s has uncommitted changes. The run does not include them; it starts from %.12s.", info.Path, repo.Base))
	}
	from := start
	if c.configFrom != "" && c.configFrom != repo.Base {
		if from, err = workspaces.Start(ctx, contract.Repo{URL: repo.URL, Base: c.configFrom}); err != nil {
			return repo, nil, err
		}
	}
	cfg, err := repositoryConfig(ctx, workspaces, r.Config, from, info)
	if err != nil || c.Environment != "" && c.Environment != EnvironmentAuto {
		return repo, cfg, err
	}
	cfg, note, err := setup.WithImage(ctx, workspaces, cfg, from)
	if note != "" {
		out.Notes = append(out.Notes, note)
	}
	if err == nil {
		err = sameImage(ctx, workspaces, cfg, from, start)
	}
	return repo, cfg, err
}

// withPath makes a directory's path absolute, so that it is valid in any working directory.
func withPath(repo string) (string, error) {
	if strings.Contains(repo, ":") {
		return repo, nil
	}
	abs, err := filepath.Abs(repo)
	if err != nil {
		return "", fmt.Errorf("find %s: %w", repo, err)
	}
	return abs, nil
}

// repositoryConfig merges the rgpt.yaml of the base commit, which may set fewer settings than the
// operator's. An uncommitted file and the run's changes to the file are ignored.
func repositoryConfig(ctx context.Context, workspaces *workspace.Manager, cfg *config.Config, start contract.Workspace, info workspace.Info) (*config.Config, error) {
	if info.Path != "" {
		name := filepath.Join(info.Path, config.FileName)
		if here, err := filepath.Abs(config.FileName); err == nil && here == name {
			return cfg, nil // already read as the operator's configuration
		}
	}
	return setup.RepositoryConfig(ctx, workspaces, cfg, start, info)
}

// chooseModel sets the model of all agents, as provider/model.
func chooseModel(cfg *config.Config, s *contract.Settings, choice string) error {
	if choice == "" {
		return nil
	}
	chosen, err := Model(cfg, choice)
	if err != nil {
		return err
	}
	for agent := range s.Models {
		s.Models[agent] = chosen
	}
	if s.Deliberation != nil {
		deliberateWith(cfg, s.Deliberation, chosen)
	}
	return nil
}

// requestedModel is the source of models that a request names.
const requestedModel = "the request (--model)"

// requested returns the sources of models that a request names for all agents.
func requested(sources map[contract.Agent]string) map[contract.Agent]string {
	out := map[contract.Agent]string{}
	for agent := range sources {
		out[agent] = requestedModel
	}
	return out
}

// CheckModel returns an error unless a model is named as provider/model.
func CheckModel(choice string) error {
	if provider, name, ok := strings.Cut(choice, "/"); !ok || provider == "" || name == "" {
		return wrong("the model %q must have the form provider/model", choice)
	}
	return nil
}

// Model returns the model named as provider/model, with the timeout of its provider.
func Model(cfg *config.Config, choice string) (contract.ModelChoice, error) {
	if err := CheckModel(choice); err != nil {
		return contract.ModelChoice{}, err
	}
	provider, name, _ := strings.Cut(choice, "/")
	if _, known := cfg.Models.Providers[provider]; !known {
		return contract.ModelChoice{}, wrong("model provider %q not found; see rgpt models", provider)
	}
	return setup.WithTimeout(cfg, contract.ModelChoice{Provider: provider, Model: name}), nil
}

// probe checks that the models of planner, builder and deliberation are reachable, before anything
// is created.
func probe(ctx context.Context, cfg *config.Config, s contract.Settings) error {
	var names []string
	for _, agent := range []contract.Agent{contract.AgentPlanner, contract.AgentBuilder} {
		if agent == contract.AgentPlanner && s.PlanGiven {
			continue
		}
		if name := s.Models[agent].Provider; !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	if d := s.Deliberation; d != nil && s.PlanBy == contract.PlanByDeliberation && !s.PlanGiven {
		for _, m := range d.Models {
			names = append(names, m.Provider)
		}
	}
	return reachable(ctx, cfg, names, s.Fallbacks, "the run was not created")
}

// reachable checks that model providers respond and accept their keys, which uses no tokens. A
// provider that is out may be replaced by that of a fallback, as it is during a run. Errors start with
// the text what.
func reachable(ctx context.Context, cfg *config.Config, names []string, fallbacks []contract.ModelChoice, what string) error {
	all := setup.Providers(cfg)
	spare := sync.OnceValue(func() bool {
		return cfg.Models.Breaker.Failures > 0 && slices.ContainsFunc(all, func(p model.Provider) bool {
			used := slices.ContainsFunc(fallbacks, func(f contract.ModelChoice) bool { return f.Provider == p.Name })
			return used && modelclient.Probe(ctx, p) == nil
		})
	})
	for _, p := range all {
		if !slices.Contains(names, p.Name) {
			continue
		}
		why := fault.Of(modelclient.Probe(ctx, p))
		if why == nil || why.Code == contract.CodeUnavailable && spare() {
			continue
		}
		return fault.New(contract.ClassConfig, why.Code, "%s: %s", what, why.Message)
	}
	return nil
}

// digestOf returns a digest that distinguishes different requests with the same idempotency key.
func digestOf(request any) (string, error) {
	raw, err := json.Marshal(request)
	if err != nil {
		return "", fmt.Errorf("compute the request digest: %w", err)
	}
	return fmt.Sprintf("%x", sha256.Sum256(raw)), nil
}
