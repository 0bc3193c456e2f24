package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/goccy/go-yaml"
	"github.com/spf13/cobra"

	"encoding/json"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/backend"
	"github.com/rocketgpt/orchestrator/internal/control"
	"github.com/rocketgpt/orchestrator/internal/fault"
	"github.com/rocketgpt/orchestrator/internal/planning"
	"github.com/rocketgpt/orchestrator/internal/runs/verdict"
	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/internal/store/views"
	"github.com/rocketgpt/orchestrator/internal/telemetry"
	"github.com/rocketgpt/orchestrator/internal/terminal"
)

// creation is a request of `run create`.
type creation struct {
	control.Creation
	goalFile, planFile string
	env                string
	wait, watch        bool
	yes, estimate      bool
	timeout, watchTime time.Duration
	maxCost            float64
	set                []string
	pictures           []string // files
	repos, repoGoals   []string
}

func newRunCreate(a *app) *cobra.Command {
	var c creation
	cmd := &cobra.Command{
		Use:   "create [--repo PATH_OR_URL] [--goal TEXT] [--issue URL]",
		Short: "Start a run",
		Example: `  rgpt run create --repo . --goal "Add dark mode" --wait
  rgpt run create --repo https://example.com/app.git --base v2 --goal-file goal.md --json
  rgpt run create --issue https://github.com/acme/app/issues/12 --pull-request
  rgpt run create --repo . --goal "Upgrade pgx" --plan-only --wait
  rgpt run create --repo ../api --repo ../web --goal "Rename the field" --pull-request
  rgpt run create --repo . --goal "Fix the docs" --env none
  rgpt run create --repo . --goal "Speed up search" --attempts 3 --estimate
  rgpt run create --repo . --goal "Speed up search" --attempts 3 --max-cost 5 --wait`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c.watch = cmd.Flags().Changed("stay") // even 0 overrides the configuration
			return a.createRun(cmd.Context(), c)
		},
	}
	f := cmd.Flags()
	f.StringArrayVar(&c.repos, "repo", nil, "repository: a directory (with --server: on the server's host) or a URL (default with --issue: that of the issue); repeatable, for a change set")
	f.StringArrayVar(&c.repoGoals, "repo-goal", nil, "what to do in one of several repositories, besides the goal: REPO=TEXT, with a REPO as in --repo; repeatable")
	f.StringVar(&c.Base, "base", "", "branch, tag or commit to start from (default: the checked-out commit, or the default branch)")
	f.StringVar(&c.Goal, "goal", "", "goal of the change; the first line is its title")
	f.StringVar(&c.Description, "description", "", "additional details about the goal")
	f.StringVar(&c.Issue, "issue", "", "address of an issue on one of the forges; its title is the goal unless --goal is given, and its text describes it")
	f.StringVar(&c.goalFile, "goal-file", "", "read the goal from this file; - is standard input")
	pictureFlag(cmd, &c)
	f.StringVar(&c.planFile, "plan", "", "use the plan in this file (YAML or JSON) instead of asking the planner")
	f.StringVar(&c.env, "env", control.EnvironmentAuto, "auto: set up as configured; none: no environment and no baseline; FILE: a YAML file with an environment section, as printed by rgpt env show --yaml")
	f.StringVar(&c.Project, "project", "", "project name (default: the repository's name)")
	f.StringVar(&c.Model, "model", "", "model for all agents, as provider/model")
	effortFlag(cmd, &c.Effort, "as configured")
	f.StringVar(&c.Key, "idempotency-key", "", "requests with the same key create only one run")
	f.BoolVar(&c.PlanOnly, "plan-only", false, "stop after planning")
	f.StringArrayVar(&c.Labels, "label", nil, "label of the run, which the policy gate reads; repeatable")
	f.StringVar(&c.PlanBy, "plan-by", "", "planner, deliberation (ALPHA and BETA), or auto, which uses deliberation if the planner rates the goal as complex (deliberation.plan_by)")
	f.BoolVar(&c.ApprovePlan, "approve-plan", false, "wait for approval before building")
	f.BoolVar(&c.ApproveRelease, "approve-release", false, "wait for approval before releasing")
	f.BoolVar(&c.Push, "push", false, "also push the branch to --remote")
	f.BoolVar(&c.PullRequest, "pull-request", false, "also push the branch to --remote, and open a pull request for it (git.release)")
	f.StringVar(&c.Remote, "remote", "", "remote to push to: a name or a URL (default with --push: origin)")
	f.BoolVar(&c.wait, "wait", false, "follow the run until it ends")
	f.DurationVar(&c.watchTime, "stay", 0, "how long the run watches its branch after the release, to fix reported check failures (git.stay)")
	f.DurationVar(&c.timeout, "timeout", 0, "maximum duration of the run (execution.run.time)")
	f.IntVar(&c.Attempts, "attempts", 0, "number of independent attempts at the goal, of which the best one is released (execution.attempts.count)")
	f.StringArrayVar(&c.AttemptModels, "attempt-model", nil, "model of one attempt, as provider/model; repeatable, in the order of the attempts (execution.attempts.models)")
	f.BoolVar(&c.yes, "yes", false, "create several attempts without asking for confirmation; rgpt only asks on a terminal")
	f.BoolVar(&c.estimate, "estimate", false, "print what the run, or all attempts together, will probably cost and take, and create nothing")
	f.Float64Var(&c.maxCost, "max-cost", 0, "maximum cost of the run, or of all attempts together, in US dollars (execution.run.cost_usd)")
	f.StringArrayVar(&c.set, "set", nil, "set a configuration key for this run: key=value; repeatable")
	_ = cmd.RegisterFlagCompletionFunc("env", cobra.FixedCompletions([]cobra.Completion{control.EnvironmentAuto, control.EnvironmentNone}, cobra.ShellCompDirectiveDefault))
	complete(cmd, "plan-by", []string{"auto", "planner", "deliberation"})
	return cmd
}

// createRun creates a run, unless the request is invalid.
func (a *app) createRun(ctx context.Context, c creation) error {
	if err := a.takeSettings(c); err != nil {
		return err
	}
	if err := a.readInputs(&c); err != nil {
		return err
	}
	for _, r := range c.Repositories {
		if err := checkRemote(r.Repo); a.server() != "" && err != nil {
			return err
		}
	}
	if a.server() != "" {
		if c.Repo != "" || c.Issue == "" && len(c.Repositories) == 0 {
			if err := checkRemote(c.Repo); err != nil {
				return err
			}
		}
		c.Settings = a.set
	}
	h, err := a.open(ctx, backend.NeedTemporal|backend.NeedArtifacts)
	if err != nil {
		return err
	}
	defer h.Close()
	if c.estimate {
		return a.printEstimate(ctx, h, c)
	}
	shown, err := a.confirmAttempts(ctx, h, c)
	if err != nil {
		return err
	}
	c.By = caller()
	created, err := h.Create(ctx, c.Creation)
	if err != nil {
		return err
	}
	created.Notes = slices.DeleteFunc(created.Notes, func(note string) bool { return slices.Contains(shown, note) })
	a.reportCreation(created)
	if created.ChangeSet != nil {
		return a.reportChangeSet(ctx, h, *created.ChangeSet, created.Fresh, c.wait)
	}
	if created.Attempts != nil {
		return a.reportAttempts(ctx, h, *created.Attempts, created.Fresh, c.wait)
	}
	return a.reportCreated(ctx, h, created.Run, created.Fresh, c.wait)
}

// reportCreation prints the notes about a new run.
func (a *app) reportCreation(c control.Created) {
	for _, note := range c.Notes {
		fmt.Fprintln(a.errs, "Note:", note)
	}
	if c.Waiting != "" {
		fmt.Fprintln(a.errs, "rgpt: run", c.Run.ID, "was created but has not started yet; the worker will start it:", c.Waiting)
	}
}

// takeSettings converts flags to configuration keys.
func (a *app) takeSettings(c creation) error {
	for _, s := range c.set {
		key, value, ok := strings.Cut(s, "=")
		if !ok || key == "" {
			return usageError{fmt.Errorf("--set %q must have the form key=value", s)}
		}
		a.set[key] = value
	}
	if c.watch {
		a.set["git.stay"] = c.watchTime.String()
	}
	if c.timeout > 0 {
		a.set["execution.run.time"] = c.timeout.String()
	}
	if c.maxCost < 0 {
		return usageError{fmt.Errorf("--max-cost %g is invalid; it must be an amount of US dollars", c.maxCost)}
	}
	if c.maxCost > 0 {
		a.set["execution.run.cost_usd"] = strconv.FormatFloat(c.maxCost, 'f', -1, 64)
	}
	return nil
}

// readInputs reads the goal and the plan from their files.
func (a *app) readInputs(c *creation) (err error) {
	if err := c.readRepositories(); err != nil {
		return err
	}
	if c.goalFile != "" {
		if c.Goal != "" {
			return usageError{errors.New("--goal and --goal-file cannot be combined")}
		}
		if c.Goal, err = a.read(c.goalFile); err != nil {
			return err
		}
	}
	if c.planFile != "" {
		if c.Plan, err = a.readPlan(c.planFile); err != nil {
			return err
		}
	}
	if c.Environment, err = a.readEnvironment(c.env); err != nil {
		return err
	}
	if err := c.readPictures(); err != nil {
		return err
	}
	return c.Check()
}

// readRepositories takes over the repositories that the flags name.
func (c *creation) readRepositories() (err error) {
	if len(c.repos) == 1 && len(c.repoGoals) == 0 {
		c.Repo = c.repos[0]
		return nil
	}
	c.Repositories, err = namedRepositories(c.repos, c.repoGoals)
	if err == nil && len(c.Repositories) > 1 && c.Base != "" {
		err = usageError{errors.New("--base is for one repository; with several, each run starts from its default branch or checked-out commit")}
	}
	return err
}

// pictureFlag adds the flag for pictures of a goal.
func pictureFlag(cmd *cobra.Command, c *creation) {
	cmd.Flags().StringArrayVar(&c.pictures, "picture", nil, "picture that belongs to the goal (PNG, JPEG, GIF or WebP), for models that can see; repeatable")
}

// readPictures reads the pictures of a goal from their files.
func (c *creation) readPictures() error {
	for _, name := range c.pictures {
		data, err := readPicture(name)
		if err != nil {
			return usageError{fmt.Errorf("cannot read the picture %s: %w", name, err)}
		}
		c.Pictures = append(c.Pictures, control.PictureFile{Name: filepath.Base(name), Data: data})
	}
	return nil
}

func readPicture(name string) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxPicture+1))
	if err == nil && len(data) > maxPicture {
		err = fmt.Errorf("it is larger than %d MiB", maxPicture>>20)
	}
	return data, err
}

// maxPicture is the largest size that execution.pictures.max_size can allow.
const maxPicture = 20 << 20

// maxInput is the maximum size of a goal or plan file, more than any needs.
const maxInput = 16 << 20

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
	raw, err := io.ReadAll(io.LimitReader(from, maxInput+1))
	if err != nil {
		return "", usageError{fmt.Errorf("cannot read %s: %w", file, err)}
	}
	if len(raw) > maxInput {
		return "", usageError{fmt.Errorf("cannot read %s: it is larger than %d MiB", file, maxInput>>20)}
	}
	if !utf8.Valid(raw) { // a parser would replace invalid bytes
		return "", usageError{fmt.Errorf("cannot read %s: it is not valid UTF-8; save it as UTF-8", file)}
	}
	return string(raw), nil
}

// readPlan reads a plan from a file.
func (a *app) readPlan(file string) (*contract.Plan, error) {
	text, err := a.read(file)
	if err != nil {
		return nil, err
	}
	var plan contract.Plan
	if err := readStrictly(file, "plan", text, &plan); err != nil {
		return nil, err
	}
	plan = plan.Completed()
	return &plan, verdict.Plan(plan)
}

// maxComplaint limits the message about an invalid file: if it is not text, the parser may quote
// all of it.
const maxComplaint = 1000

// readStrictly reads a YAML or JSON file as one document without unknown fields.
func readStrictly(file, what, text string, into any) error {
	docs := yaml.NewDecoder(strings.NewReader(text), yaml.Strict(), yaml.UseJSONUnmarshaler())
	switch err := docs.Decode(into); {
	case errors.Is(err, io.EOF): // the caller's check reports what is missing
	case err != nil:
		return usageError{fmt.Errorf("%s is not a valid %s: %s", file, what, fault.Clip(errorText(err), maxComplaint))}
	}
	if err := docs.Decode(new(any)); !errors.Is(err, io.EOF) {
		return usageError{fmt.Errorf("%s is not a valid %s: it contains more than one document (---); use only one", file, what)}
	}
	return nil
}

// errorText is an error's text for users.
func errorText(err error) string {
	if f, ok := errors.AsType[*fault.Error](err); ok {
		return f.Message
	}
	return err.Error()
}

// reportCreated prints the new run, or follows it if --wait is set.
func (a *app) reportCreated(ctx context.Context, h backend.Backend, run store.Run, fresh, wait bool) error {
	if !wait {
		if a.json {
			a.printJSON(map[string]any{"runId": run.ID, "status": run.Status, "created": fresh, "workflow_id": contract.RunWorkflowID(run.ID)})
			return nil
		}
		fmt.Fprintf(a.out, "Run %d started: %s\n", run.ID, terminal.Clean(run.GoalTitle))
		fmt.Fprintf(a.out, "Follow it with: rgpt run watch %d\n", run.ID)
		return nil
	}
	return a.follow(ctx, h, run.ID)
}

// knownPlan is a run's current plan, and how it was checked; nil if that is not known.
type knownPlan struct {
	contract.Plan
	review *contract.PlanReview
}

// planOf returns the plan of a run, and whether it has one.
func planOf(d views.RunDetails) (knownPlan, bool) {
	var out struct {
		Plan   contract.Plan        `json:"plan"`
		PlanID int64                `json:"plan_id"`
		Review *contract.PlanReview `json:"review"`
	}
	err := json.Unmarshal(d.PlannerOutput, &out)
	if out.PlanID != d.PlanID { // a person has edited the plan since
		out.Review = nil
	}
	return knownPlan{out.Plan, out.Review}, err == nil && len(out.Plan.Steps) > 0
}

// maxShownEdits is the number of bytes of a plan's edits that are printed. All of them are in the JSON.
const maxShownEdits = 16 << 10

// printPlan prints a plan for its approval.
func printPlan(w io.Writer, p knownPlan) {
	fmt.Fprintf(w, "Plan (complexity %.2f): %s\n", p.ComplexityScore, terminal.OneLine(p.Summary))
	for _, s := range p.Steps {
		printStep(w, s)
	}
	if len(p.Edits) > 0 {
		fmt.Fprintf(w, "  edits that the planner made, before the agent of the step begins:\n")
		for line := range strings.Lines(telemetry.Redact(planning.EditsText(p.Edits, maxShownEdits))) {
			fmt.Fprintf(w, "    %s\n", terminal.Clean(strings.TrimRight(line, "\n")))
		}
	}
	for _, n := range p.Notes {
		fmt.Fprintf(w, "  note: %s: %s\n", terminal.OneLine(n.Lines()), terminal.OneLine(n.Fact))
	}
	if p.review != nil {
		printReview(w, *p.review)
	}
}

func printStep(w io.Writer, s contract.Step) {
	facts := []string{}
	if s.EstimatedComplexity != "" && s.RiskLevel != "" {
		facts = append(facts, string(s.EstimatedComplexity)+" complexity", string(s.RiskLevel)+" risk")
	}
	if len(s.Dependencies) > 0 {
		facts = append(facts, "after "+strings.Join(s.Dependencies, ", "))
	}
	fmt.Fprintf(w, "  %s  %s", terminal.Clean(s.ID), terminal.OneLine(s.Name))
	if len(facts) > 0 {
		fmt.Fprintf(w, " (%s)", terminal.OneLine(strings.Join(facts, ", ")))
	}
	fmt.Fprintln(w)
	fmt.Fprintf(w, "      %s\n", terminal.OneLine(s.Description))
	if len(s.Files) > 0 {
		fmt.Fprintf(w, "      files: %s\n", terminal.OneLine(strings.Join(s.Files, ", ")))
	}
	for _, c := range s.VerificationCriteria {
		fmt.Fprintf(w, "      done when: %s\n", terminal.OneLine(c))
	}
}

// printReview prints what to expect of a plan, and what is wrong with it.
func printReview(w io.Writer, r contract.PlanReview) {
	fmt.Fprintf(w, "  cost: %s\n  time: %s\n", r.Estimate.CostText(), r.Estimate.TimeText())
	if r.Risk.Level != "" {
		fmt.Fprintf(w, "  risk: %s\n", r.Risk.Level)
	}
	for _, reason := range r.Risk.Reasons {
		fmt.Fprintf(w, "    %s\n", terminal.OneLine(reason))
	}
	if n := len(r.Dropped); n > 0 {
		fmt.Fprintf(w, "  notes dropped because the planner has not read what they state: %d\n", n)
	}
}

// printInput prints the question of a planner that waits for an answer.
func printInput(w io.Writer, run int64, q contract.PlannerQuestion) {
	fmt.Fprintf(w, "waiting for an answer: %s\n  why: %s\n", terminal.OneLine(q.Question), terminal.OneLine(q.Why))
	for i, option := range q.Options {
		note := ""
		if option == q.Default {
			note = " (applies if nobody answers in time)"
		}
		fmt.Fprintf(w, "  %d: %s%s\n", i+1, terminal.OneLine(option), note)
	}
	fmt.Fprintf(w, "  to answer: rgpt run answer %d OPTION\n", run)
}
