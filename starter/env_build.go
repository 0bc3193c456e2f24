package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/backend"
	"github.com/rocketgpt/orchestrator/internal/control"
	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/internal/store/views"
	"github.com/rocketgpt/orchestrator/internal/terminal"
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
	c := control.Creation{PrepareOnly: true}
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
