package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/backend"
	"github.com/rocketgpt/orchestrator/internal/config"
	"github.com/rocketgpt/orchestrator/internal/control"
	"github.com/rocketgpt/orchestrator/internal/environment"
	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/internal/store/views"
	"github.com/rocketgpt/orchestrator/internal/terminal"
	"github.com/rocketgpt/orchestrator/internal/tester/standalone"
	"github.com/rocketgpt/orchestrator/server/ui"
)

// built is the result of `env build`.
type built struct {
	RunID       int64                 `json:"runId"`
	Status      contract.Status       `json:"status"`
	Environment *views.RunEnvironment `json:"environment"`
	Baseline    *views.RunBaseline    `json:"baseline"`
	Failure     *contract.Failure     `json:"failure"`
}

func newEnvBuild(a *app) *cobra.Command {
	c := control.Creation{PrepareOnly: true, By: caller()}
	var env string
	wait := true
	cmd := &cobra.Command{
		Use: "build --repo PATH_OR_URL", Short: "Set up a repository and run its checks without making a change",
		Long: `Builds the environment of a commit, unless it is already stored, and runs the project's own checks in it:
the preparation that each run performs before it spends money. It calls no model and needs no human input.

Exit codes: 0 set up (checks may still fail), 2 the setup failed or a check could not start.`,
		Example: `  rgpt env build --repo .
  rgpt env build --repo https://example.com/app.git --base v2 --json
  rgpt env build --repo . --env my-environment.yaml`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			if c.Environment, err = a.readEnvironment(env); err != nil {
				return err
			}
			return a.buildEnvironment(cmd.Context(), c, wait)
		},
	}
	f := cmd.Flags()
	f.StringVar(&c.Repo, "repo", "", "repository: a directory (with --server: on the server's host) or a URL")
	f.StringVar(&c.Base, "base", "", "branch, tag or commit (default: the checked-out commit, or the default branch)")
	f.StringVar(&c.Project, "project", "", "project name (default: the repository's name)")
	f.StringVar(&c.Key, "idempotency-key", "", "requests with the same key create only one run")
	f.StringVar(&env, "env", control.EnvironmentAuto, "auto, or a YAML file with an environment section, as printed by rgpt env show --yaml")
	f.BoolVar(&wait, "wait", true, "follow the build until it ends")
	return cmd
}

// readEnvironment reads the flag --env: a keyword or a file.
func (a *app) readEnvironment(flag string) (string, error) {
	switch flag {
	case "", control.EnvironmentAuto:
		return "", nil
	case control.EnvironmentNone:
		return flag, nil
	}
	text, err := a.read(flag)
	if err == nil && strings.TrimSpace(text) == "" {
		err = usageError{fmt.Errorf("%s is empty; --env must be auto, none, or a YAML file with an environment section", flag)}
	}
	return text, err
}

func (a *app) buildEnvironment(ctx context.Context, c control.Creation, wait bool) error {
	if err := c.Check(); err != nil {
		return err
	}
	if a.server() != "" {
		if err := checkRemote(c.Repo); err != nil {
			return err
		}
	}
	h, err := a.open(ctx, backend.NeedTemporal|backend.NeedArtifacts)
	if err != nil {
		return err
	}
	defer h.Close()
	created, err := h.Create(ctx, c)
	if err != nil {
		return err
	}
	a.reportCreation(created)
	if !wait {
		if a.json {
			a.printJSON(built{RunID: created.Run.ID, Status: created.Run.Status})
			return nil
		}
		return a.reportCreated(ctx, h, created.Run, created.Fresh, false)
	}
	return a.followBuild(ctx, h, created.Run)
}

// followBuild follows a preparation-only run until it ends, and reports the result.
func (a *app) followBuild(ctx context.Context, h backend.Backend, run store.Run) error {
	var show *progress
	if !a.json {
		show = a.newProgress(run)
		defer show.close()
		show.tail(ctx, h)
	}
	if err := a.untilEnd(ctx, h, run.ID, 0, show); err != nil {
		return err
	}
	d, err := withRetries(ctx, func() (views.RunDetails, error) { return h.RunDetails(ctx, run.ID) })
	if err != nil {
		return err
	}
	b := built{RunID: d.ID, Status: d.Status, Environment: d.Environment, Baseline: d.Baseline, Failure: d.Failure}
	if a.json {
		a.printJSON(b)
	} else {
		show.close()
		fmt.Fprintf(a.out, "\nRun %d is %s.\n", d.ID, d.Status)
		a.printPreparation(d)
		if f := d.Failure; f != nil {
			fmt.Fprintf(a.out, "  %s (%s): %s\n", f.Class, f.Code, terminal.Clean(f.Message))
		}
	}
	code := contract.Code("")
	if d.Failure != nil {
		code = d.Failure.Code
	}
	if exit := exitOf(d.Status, code); exit != exitDone {
		return ended{exit}
	}
	return nil
}

// printPreparation prints the environment and baseline of a run, if any.
func (a *app) printPreparation(d views.RunDetails) {
	if e := d.Environment; e != nil {
		fmt.Fprintf(a.out, "  environment  %s\n", terminal.Clean(environmentLine(*e)))
		for _, m := range e.Missing {
			fmt.Fprintf(a.out, "    missing    %s\n", terminal.Clean(m))
		}
		if e.Failure != nil {
			fmt.Fprintf(a.out, "    failed     %s\n    to do      %s\n", terminal.Clean(e.Failure.Message), terminal.Clean(e.Advice))
			if e.Failure.Cause != "" {
				fmt.Fprintf(a.out, "    output     %s\n", strings.ReplaceAll(terminal.CleanLines(strings.TrimSpace(e.Failure.Cause)), "\n", "\n               "))
			}
		}
	}
	b := d.Baseline
	if b == nil {
		return
	}
	fmt.Fprintf(a.out, "  baseline     %s\n", baselineLine(*b))
	if b.Failure != nil {
		fmt.Fprintf(a.out, "    failed     %s\n", terminal.Clean(b.Failure.Message))
	}
	if len(b.Red) > 0 {
		fmt.Fprintf(a.out, "    fails      %s\n", terminal.Clean(strings.Join(b.Red, ", ")))
	}
	for _, u := range b.Unavailable {
		fmt.Fprintf(a.out, "    cannot run %s\n", terminal.Clean(u))
	}
	for _, u := range b.Unjudged {
		fmt.Fprintf(a.out, "    skipped    %s\n", terminal.Clean(u))
	}
	if b.Advice != "" {
		fmt.Fprintf(a.out, "    to do      %s\n", terminal.Clean(b.Advice))
	}
}

// environmentLine summarizes an environment in one line.
func environmentLine(e views.RunEnvironment) string {
	switch {
	case e.State == views.PreparationRunning:
		return "being set up"
	case e.State == views.PreparationFailed && e.Failure == nil:
		return "the run ended before the setup finished"
	case e.State == views.PreparationFailed:
		return "setup failed"
	case e.Digest == "":
		return "no setup needed"
	}
	how := "built"
	if e.Kept {
		how = "reused"
	}
	return fmt.Sprintf("%s  %s: %s, %d files, %s in %s", short(e.Digest), e.Summary, ui.Size(e.Bytes), e.Files, how, lasted(e.DurationMS))
}

// baselineLine summarizes a baseline in one line.
func baselineLine(b views.RunBaseline) string {
	switch {
	case b.State == views.PreparationRunning:
		return "checks are running on the base commit"
	case b.State == views.PreparationFailed && b.Failure == nil:
		return "the run ended before the checks on the base commit finished"
	case b.State == views.PreparationFailed:
		return "the checks could not run on the base commit"
	}
	return fmt.Sprintf("%d passed, %d failed, %d skipped in %s", b.Passed, b.Failed, b.Skipped, lasted(b.DurationMS))
}

// image is the result of `env image`.
type image struct {
	Name       string            `json:"name"`
	ID         string            `json:"id"`
	Bytes      int64             `json:"bytes"`
	Kept       bool              `json:"kept"` // it existed already
	DurationMS int64             `json:"durationMs"`
	Dockerfile string            `json:"dockerfile"`
	Tools      map[string]string `json:"tools"`
}

func newEnvImage(a *app) *cobra.Command {
	v := verification{env: control.EnvironmentAuto}
	var given environment.Dockerfile
	var args []string
	cmd := &cobra.Command{
		Use: "image", Short: "Build the container image of a repository on this machine",
		Long: `Builds the image of a repository's Dockerfile with this machine's Docker engine, as a worker with the
docker runner does before a run's environment, and tests whether commands can run in it. The Dockerfile is
--dockerfile, or environment.dockerfile in rgpt.yaml, or that of the dev container. By default, the work
tree is used as it is; a run uses its base commit.

Your configuration must set execution.sandbox.runner: docker and allow builds
(execution.sandbox.docker.build.enabled) and the images that the Dockerfile uses
(execution.sandbox.docker.images). The command needs no running components.`,
		Example: `  rgpt env image
  rgpt env image --repo ~/src/app --dockerfile .rgpt/Dockerfile
  rgpt env image --dockerfile Dockerfile --target dev --arg NODE_VERSION=24 --json`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			if given.Args, err = pairs("arg", args); err != nil {
				return err
			}
			if given.Path == "" && (given.Context != "" || given.Target != "" || len(args) > 0) {
				return usageError{errors.New("--context, --target and --arg need --dockerfile")}
			}
			return a.buildImage(cmd.Context(), v, given)
		},
	}
	f := cmd.Flags()
	f.StringVar(&v.Repo, "repo", ".", "repository: a directory or a URL")
	f.StringVar(&v.Commit, "commit", "", "use this branch, tag or commit instead of the work tree")
	f.StringVar(&given.Path, "dockerfile", "", "path of the Dockerfile in the repository; default: as the repository chooses")
	f.StringVar(&given.Context, "context", "", "directory whose files the Dockerfile may copy; default: the repository's root")
	f.StringVar(&given.Target, "target", "", "stage to build; default: the last")
	f.StringArrayVar(&args, "arg", nil, "value of an ARG instruction: name=value; repeatable")
	return cmd
}

// buildImage builds the image of a repository and says how to use it.
func (a *app) buildImage(ctx context.Context, v verification, given environment.Dockerfile) error {
	if given.Path != "" {
		if err := config.CheckDockerfile(config.Environment{Dockerfile: given.Path, Build: config.DockerfileBuild{Context: given.Context, Target: given.Target, Args: given.Args}}); err != nil {
			return usageError{err}
		}
		v.env = control.EnvironmentNone // what the repository chooses does not matter
	}
	show := a.newVerifyProgress()
	defer show.close()
	if err := a.prepareVerify(&v, show); err != nil {
		return err
	}
	v.Progress = &buildProgress{verifyProgress: show}
	made, err := standalone.BuildImage(ctx, v.Options, given)
	show.close()
	if err != nil {
		return err
	}
	if a.json {
		a.printJSON(image{
			Name: made.Name, ID: made.ID, Bytes: made.Bytes, Kept: made.Kept, DurationMS: made.Time.Milliseconds(), Dockerfile: made.Dockerfile.Path, Tools: made.Tools,
		})
		return nil
	}
	how := "built in " + lasted(made.Time.Milliseconds())
	if made.Kept {
		how = "it existed already"
	}
	fmt.Fprintf(a.out, "Image %s\n  %s, %s\n  id     %s\n", made.Name, ui.Size(made.Bytes), how, made.ID)
	var tools []string
	for _, name := range slices.Sorted(maps.Keys(made.Tools)) {
		if name != environment.ImageTool {
			tools = append(tools, name+" "+made.Tools[name])
		}
	}
	fmt.Fprintf(a.out, "  tools  %s\n", terminal.Clean(cmp.Or(strings.Join(tools, ", "), "none that RocketGPT knows")))
	a.sayHowToUse(v.Repo, given)
	return nil
}

// sayHowToUse says how runs use an image that was built from a Dockerfile, "" if they already do.
func (a *app) sayHowToUse(repo string, d environment.Dockerfile) {
	if d.Path == "" {
		fmt.Fprintln(a.out, "Runs of the repository use it: its files choose it.")
		return
	}
	fmt.Fprintf(a.out, "To use it, add this to the repository's rgpt.yaml:\n\n%s\n", terminal.CleanLines(string(environment.Recipe{Dockerfile: &d}.YAML())))
	if d.Context == "" && d.Target == "" && len(d.Args) == 0 {
		fmt.Fprintf(a.out, "or, for this installation only: rgpt env set --repo %s --dockerfile %s\n", terminal.Clean(repo), terminal.Clean(d.Path))
	}
}

// buildProgress prints the output of a build.
type buildProgress struct{ *verifyProgress }

// Output implements standalone.Progress.
func (p *buildProgress) Output(chunk []byte) {
	if text := strings.TrimSpace(string(chunk)); text != "" { // the engine sends line breaks on their own
		fmt.Fprintln(p.writer(), terminal.CleanLines(text))
	}
}
