package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/goccy/go-yaml"
	"github.com/spf13/cobra"

	"github.com/rocketgpt/orchestrator/activities"
	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/config"
	"github.com/rocketgpt/orchestrator/internal/fault"
	"github.com/rocketgpt/orchestrator/internal/model"
	"github.com/rocketgpt/orchestrator/internal/setup"
	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/internal/workerhost"
	"github.com/rocketgpt/orchestrator/internal/workspace"
)

// creation is what `run create` was asked.
type creation struct {
	repo, base, goal, description, goalFile, planFile, project, key, model string
	planOnly, approvePlan, approveRelease, push, wait, stays               bool
	remote                                                                 string
	timeout, stay                                                          time.Duration
	set                                                                    []string
}

func newRunCreate(a *app) *cobra.Command {
	var c creation
	cmd := &cobra.Command{
		Use:   "create --repo PATH_OR_URL --goal TEXT",
		Short: "Start a run",
		Example: `  rgpt run create --repo . --goal "Add dark mode" --wait
  rgpt run create --repo https://example.com/app.git --base v2 --goal-file goal.md --json
  rgpt run create --repo . --goal "Upgrade pgx" --plan-only --wait`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c.stays = cmd.Flags().Changed("stay") // also 0, where the configuration says more
			return a.createRun(cmd.Context(), c)
		},
	}
	f := cmd.Flags()
	f.StringVar(&c.repo, "repo", "", "repository: a folder or a URL")
	f.StringVar(&c.base, "base", "", "branch, tag or commit to start from (default: what is checked out, or the default branch)")
	f.StringVar(&c.goal, "goal", "", "what the change is to achieve; its first line is the title")
	f.StringVar(&c.description, "description", "", "more about the goal")
	f.StringVar(&c.goalFile, "goal-file", "", "read the goal from this file; - is standard input")
	f.StringVar(&c.planFile, "plan", "", "carry out the plan of this file (YAML or JSON) instead of asking the planner")
	f.StringVar(&c.project, "project", "", "name of the project (default: the repository's name)")
	f.StringVar(&c.model, "model", "", "model of all agents, as provider/model")
	f.StringVar(&c.key, "idempotency-key", "", "the same key makes one run, however often it is asked for")
	f.BoolVar(&c.planOnly, "plan-only", false, "end with the plan")
	f.BoolVar(&c.approvePlan, "approve-plan", false, "wait for a person before building")
	f.BoolVar(&c.approveRelease, "approve-release", false, "wait for a person before releasing")
	f.BoolVar(&c.push, "push", false, "push the branch to --remote as well")
	f.StringVar(&c.remote, "remote", "", "remote to push to: a name or a URL (default with --push: origin)")
	f.BoolVar(&c.wait, "wait", false, "follow the run to its end")
	f.DurationVar(&c.stay, "stay", 0, "how long the run stays with its branch after the release and mends failing checks (git.stay)")
	f.DurationVar(&c.timeout, "timeout", 0, "longest time that the run may take (execution.run.time)")
	f.StringArrayVar(&c.set, "set", nil, "set a configuration key for this run: key=value; repeatable")
	return cmd
}

// createRun checks everything first and then makes the run: what is met by an
// error leaves nothing behind.
func (a *app) createRun(ctx context.Context, c creation) error {
	if err := a.takeSettings(c); err != nil {
		return err
	}
	title, description, err := a.goal(c)
	if err != nil {
		return err
	}
	p, err := a.open(ctx, needTemporal|needArtifacts)
	if err != nil {
		return err
	}
	defer p.Close()
	if most := p.Config.Execution.MaxGoalBytes.Int64(); int64(len(title)+len(description)) > most {
		return fault.New(contract.ClassHuman, contract.CodeInvalidConfig,
			"the goal has %d bytes, more than the %d allowed (execution.max_goal_bytes); say it shorter and put details into the repository", len(title)+len(description), most)
	}
	run, err := a.prepareRun(ctx, p, c, title, description)
	if err != nil {
		return err
	}
	created, fresh, err := p.Store.CreateRun(ctx, run)
	if err != nil {
		return err
	}
	if err := workerhost.Start(ctx, p.Temporal, p.Store, created); err != nil {
		// The run is there; the worker's reconciler starts it when it can.
		fmt.Fprintln(a.errs, "rgpt: run", created.ID, "was made but not started yet; the worker will:", fault.Of(err).Message)
	}
	return a.reportCreated(ctx, p, created, fresh, c.wait)
}

// takeSettings turns flags into configuration keys.
func (a *app) takeSettings(c creation) error {
	for _, s := range c.set {
		key, value, ok := strings.Cut(s, "=")
		if !ok || key == "" {
			return usageError{fmt.Errorf("--set %q is not of the form key=value", s)}
		}
		a.set[key] = value
	}
	if c.stays {
		a.set["git.stay"] = c.stay.String()
	}
	if c.timeout > 0 {
		a.set["execution.run.time"] = c.timeout.String()
	}
	return nil
}

// goal reads the goal: the first line is the title.
func (a *app) goal(c creation) (title, description string, err error) {
	text := c.goal
	if c.goalFile != "" {
		if text != "" {
			return "", "", usageError{errors.New("give --goal or --goal-file, not both")}
		}
		if text, err = a.read(c.goalFile); err != nil {
			return "", "", err
		}
	}
	if !utf8.ValidString(text+c.description) || strings.ContainsRune(text+c.description, 0) {
		return "", "", usageError{errors.New("the goal is no text: it holds bytes that are not UTF-8, or NUL")}
	}
	title, description, _ = strings.Cut(strings.TrimSpace(text), "\n")
	title, description = strings.TrimSpace(title), strings.TrimSpace(strings.TrimSpace(description)+"\n\n"+c.description)
	if title == "" {
		return "", "", usageError{errors.New(`the goal is empty; say what the change is to achieve: --goal "Add dark mode"`)}
	}
	return title, description, nil
}

// inputMost is more than any goal or plan needs, and little enough to read.
const inputMost = 16 << 20

// read reads a text file, or standard input for -.
func (a *app) read(file string) (string, error) {
	from := a.in
	if file != "-" {
		f, err := os.Open(file)
		if err != nil {
			return "", usageError{fmt.Errorf("cannot read %s: %w", file, err)}
		}
		defer f.Close()
		from = f
	}
	raw, err := io.ReadAll(io.LimitReader(from, inputMost+1))
	if err != nil {
		return "", usageError{fmt.Errorf("cannot read %s: %w", file, err)}
	}
	if len(raw) > inputMost {
		return "", usageError{fmt.Errorf("cannot read %s: it is larger than %d MiB", file, inputMost>>20)}
	}
	return string(raw), nil
}

// prepareRun resolves and freezes all inputs of a run.
func (a *app) prepareRun(ctx context.Context, p *parts, c creation, title, description string) (store.NewRun, error) {
	workspaces, err := setup.Workspaces(p.Config, p.DataDir, p.Artifacts)
	if err != nil {
		return store.NewRun{}, err
	}
	repo, cfg, err := a.resolve(ctx, p.Config, workspaces, c)
	if err != nil {
		return store.NewRun{}, err
	}
	settings, spec, err := setup.Freeze(cfg, repo)
	if err != nil {
		return store.NewRun{}, err
	}
	s := &settings
	s.PlanOnly, s.ApprovePlan, s.ApproveRelease = c.planOnly, s.ApprovePlan || c.approvePlan, s.ApproveRelease || c.approveRelease
	if c.push || c.remote != "" {
		s.Release.Push, s.Release.Remote = true, c.remote
	}
	if s.Release.Push && s.Release.Remote == "" {
		s.Release.Remote = "origin"
	}
	if err := chooseModel(cfg, s, c.model); err != nil {
		return store.NewRun{}, err
	}
	run := store.NewRun{
		Tenant: store.DefaultTenant, Project: c.project, GoalTitle: title, GoalDescription: description, MaxRetries: s.MaxRetries, IdempotencyKey: c.key,
	}
	if run.Project == "" {
		run.Project = projectOf(repo.URL)
	}
	if c.planFile != "" {
		if run.GivenPlan, err = a.readPlan(c.planFile); err != nil {
			return store.NewRun{}, err
		}
		s.PlanGiven = true
	}
	if err := probe(ctx, cfg, *s); err != nil {
		return store.NewRun{}, err
	}
	run.Settings, run.Spec = settings, spec
	run.RequestDigest, err = digestOf(run)
	return run, err
}

// resolve finds the repository and the commit, and the configuration that the
// repository brings along.
func (a *app) resolve(ctx context.Context, cfg *config.Config, workspaces *workspace.Manager, c creation) (contract.Repo, *config.Config, error) {
	if c.repo == "" {
		return contract.Repo{}, nil, usageError{errors.New("no repository is named; use --repo with a folder or a URL")}
	}
	where := c.repo
	if !strings.Contains(where, ":") {
		abs, err := filepath.Abs(where)
		if err != nil {
			return contract.Repo{}, nil, fmt.Errorf("find %s: %w", where, err)
		}
		where = abs
	}
	repo, info, err := workspaces.Resolve(ctx, where, c.base)
	if err != nil {
		return repo, nil, err
	}
	start, err := workspaces.Start(ctx, repo)
	if err != nil {
		return repo, nil, err
	}
	repo.Tree = start.Tree
	if info.Dirty {
		fmt.Fprintf(a.errs, "Note: %s has changes that are in no commit. They are no part of the run, which starts from %.12s.\n", info.Path, repo.Base)
	}
	cfg, err = repositoryConfig(ctx, workspaces, cfg, start, info)
	return repo, cfg, err
}

// maxConfig is the largest rgpt.yaml that is read from a repository.
const maxConfig = 1 << 20

// repositoryConfig merges the rgpt.yaml of the commit that a run starts from,
// which may set less than the operator's. What is in no commit does not count,
// nor what the run makes of the file: nobody reads it again.
func repositoryConfig(ctx context.Context, workspaces *workspace.Manager, cfg *config.Config, start contract.Workspace, info workspace.Info) (*config.Config, error) {
	name := config.FileName + " of the repository"
	if info.Path != "" {
		name = filepath.Join(info.Path, config.FileName)
		if here, err := filepath.Abs(config.FileName); err == nil && here == name {
			return cfg, nil // read as the operator's already
		}
	}
	data, found, err := workspaces.BaseFile(ctx, start, config.FileName, math.MaxInt64)
	if err != nil || !found {
		return cfg, err
	}
	if len(data) > maxConfig {
		return nil, usageError{fmt.Errorf("%s has %d bytes, more than the %d that are read of one; what it forbids cannot be left out", name, len(data), maxConfig)}
	}
	return config.LoadRepository(cfg, data, name)
}

// chooseModel sets the model of all agents, as provider/model.
func chooseModel(cfg *config.Config, s *contract.Settings, choice string) error {
	if choice == "" {
		return nil
	}
	chosen, err := parseModel(cfg, choice)
	if err != nil {
		return err
	}
	for agent := range s.Models {
		s.Models[agent] = chosen
	}
	return nil
}

// probe sees that the models that write can be reached, before anything is made.
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
	for _, p := range setup.Providers(cfg) {
		if !slices.Contains(names, p.Name) {
			continue
		}
		if err := model.Probe(ctx, p); err != nil {
			return usageError{fmt.Errorf("the run was not made: %w", err)}
		}
	}
	return nil
}

// readPlan reads a plan that a person wrote.
func (a *app) readPlan(file string) (*contract.Plan, error) {
	text, err := a.read(file)
	if err != nil {
		return nil, err
	}
	var plan contract.Plan
	if err := yaml.UnmarshalWithOptions([]byte(text), &plan, yaml.Strict(), yaml.UseJSONUnmarshaler()); err != nil {
		return nil, usageError{fmt.Errorf("%s is no plan: %w", file, err)}
	}
	return &plan, activities.CheckPlan(plan)
}

// projectOf names a project after its repository.
func projectOf(url string) string {
	url, _, _ = strings.Cut(url, "?")
	name := filepath.Base(strings.TrimRight(url, "/"))
	if at := strings.LastIndexAny(name, "@:"); at >= 0 { // user:password@host, git@host:app.git
		name = name[at+1:]
	}
	name = strings.TrimSuffix(name, ".git")
	if strings.Trim(name, "./") == "" {
		return "project"
	}
	return name
}

// digestOf recognises the same request under an idempotency key.
func digestOf(run store.NewRun) (string, error) {
	raw, err := json.Marshal(run)
	if err != nil {
		return "", fmt.Errorf("recognise the request: %w", err)
	}
	sum := sha256.Sum256(raw)
	return hex.EncodeToString(sum[:]), nil
}

// reportCreated says which run was made, and follows it where that was asked.
func (a *app) reportCreated(ctx context.Context, p *parts, run store.Run, fresh, wait bool) error {
	if !wait {
		if a.json {
			a.printJSON(map[string]any{"runId": run.ID, "status": run.Status, "created": fresh, "workflow_id": contract.RunWorkflowID(run.ID)})
			return nil
		}
		fmt.Fprintf(a.out, "Run %d started: %s\n", run.ID, clean(run.GoalTitle))
		fmt.Fprintf(a.out, "Follow it with: rgpt run watch %d\n", run.ID)
		return nil
	}
	return a.follow(ctx, p, run.ID)
}
