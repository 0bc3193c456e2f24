package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/config"
	"github.com/rocketgpt/orchestrator/internal/control"
	"github.com/rocketgpt/orchestrator/internal/fault"
	"github.com/rocketgpt/orchestrator/internal/setup"
	"github.com/rocketgpt/orchestrator/internal/telemetry"
	"github.com/rocketgpt/orchestrator/internal/terminal"
	"github.com/rocketgpt/orchestrator/internal/tester/standalone"
)

// verification is a request of `verify`.
type verification struct {
	standalone.Options
	env        string
	set        []string
	quarantine string
}

func newVerify(a *app) *cobra.Command {
	var v verification
	cmd := &cobra.Command{
		Use: "verify", Short: "Run the checks of a work tree or a commit, without a run",
		Long: `Runs the checks that a run's tester performs: it sets up the repository, then builds, tests,
lints and scans it, in the sandbox and on clean copies. It needs no running components and
calls no model. The work tree does not change.

By default, the work tree is verified as it is, with changed and new files, but without
files that git ignores. With --base, the checks also run on the base, so that known failures
do not count, and removed, weakened and unproven tests are reported.

With --quarantine, failures of the tests in the file do not count, as in a run. The
repository itself cannot quarantine tests.

Caches are stored in the user's cache directory (~/.cache/rgpt), unless --data-dir or
RGPT_DATA_DIR names a data folder.

Exit codes: 0 the checks passed, 1 there is no verdict (the setup failed, a check could not
start, or an error occurred), 2 a check failed, 3 interrupted, 4 invalid input.`,
		Example: `  rgpt verify
  rgpt verify --base main --json
  rgpt verify --commit v1.2.0 --only build,test
  rgpt verify --repo ~/src/app --artifacts out
  rgpt verify --base main --quarantine quarantine.json`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.verify(cmd.Context(), v) },
	}
	f := cmd.Flags()
	f.StringVar(&v.Repo, "repo", ".", "repository: a directory or a URL")
	f.StringVar(&v.Commit, "commit", "", "verify this branch, tag or commit instead of the work tree")
	f.StringVar(&v.Base, "base", "", "compare with this branch, tag or commit, at the common ancestor")
	f.StringSliceVar(&v.Only, "only", nil, "run only these stages (build, test, lint, security, custom) or checks (such as test-go-1)")
	f.StringVar(&v.env, "env", control.EnvironmentAuto, "auto: set up as configured; none: no environment and no baseline; FILE: a YAML file with an environment section")
	f.StringVar(&v.Artifacts, "artifacts", "", "keep logs, reports and screenshots in this directory")
	f.StringArrayVar(&v.set, "set", nil, "set a configuration key: key=value; repeatable")
	f.StringVar(&v.quarantine, "quarantine", "", "file with quarantined tests, the output of rgpt quarantine list --json; -: standard input")
	_ = cmd.RegisterFlagCompletionFunc("env", cobra.FixedCompletions([]cobra.Completion{control.EnvironmentAuto, control.EnvironmentNone}, cobra.ShellCompDirectiveDefault))
	complete(cmd, "only", stages())
	return cmd
}

func stages() []string {
	var names []string
	for _, c := range contract.Categories() {
		names = append(names, string(c))
	}
	return names
}

// verify verifies a repository and reports the result.
func (a *app) verify(ctx context.Context, v verification) error {
	show := a.newVerifyProgress()
	defer show.close()
	if err := a.prepareVerify(&v, show); err != nil {
		return err
	}
	report, err := standalone.Verify(ctx, v.Options)
	show.close()
	switch {
	case ctx.Err() != nil:
		a.reportError(fault.New(contract.ClassHuman, contract.CodeCancelled, "the verification was interrupted, so there is no verdict"))
		return ended{exitStopped}
	case err != nil:
		return err
	case a.json:
		a.printJSON(report)
	default:
		a.printVerified(report, v.Artifacts)
	}
	switch {
	case report.OK:
		return nil
	case report.Judged():
		return ended{exitFailed}
	default:
		return ended{exitError}
	}
}

// prepareVerify completes the options of a verification.
func (a *app) prepareVerify(v *verification, show *verifyProgress) error {
	for _, s := range v.set {
		key, value, ok := strings.Cut(s, "=")
		if !ok || key == "" {
			return usageError{fmt.Errorf("--set %q must have the form key=value", s)}
		}
		a.set[key] = value
	}
	environment, err := a.readEnvironment(v.env)
	if err != nil {
		return err
	}
	if v.NoEnvironment = environment == control.EnvironmentNone; !v.NoEnvironment {
		v.Environment = environment
	}
	if v.quarantine != "" {
		if v.Quarantine, err = a.readQuarantine(v.quarantine); err != nil {
			return err
		}
	}
	if v.Repo == "" {
		return usageError{errors.New("--repo is empty; specify a directory or a URL")}
	}
	if !strings.Contains(v.Repo, ":") {
		if v.Repo, err = filepath.Abs(v.Repo); err != nil {
			return fmt.Errorf("find the repository: %w", err)
		}
	}
	if v.Artifacts != "" {
		if v.Artifacts, err = filepath.Abs(v.Artifacts); err != nil {
			return fmt.Errorf("find the directory for artifacts: %w", err)
		}
	}
	if v.DataDir, err = a.verifyDataDir(); err != nil {
		return err
	}
	var left []string
	if v.Config, err = a.ownConfig(func(file string) { left = append(left, file) }); err != nil {
		return err
	}
	v.Includes, show.leftOut = a.includes(left), left
	v.Progress = show
	v.Log, _, err = telemetry.NewLogger(telemetry.LogOptions{Console: show.writer(), Level: "warn", Format: "text"})
	return err
}

// verifyDataDir returns the directory of the caches: the data folder, if one is specified, otherwise
// the user's cache directory. A verification needs none of a stack's data, and must not create a data
// folder in the work tree.
func (a *app) verifyDataDir() (string, error) {
	for _, dir := range []string{a.dataDirFlag, a.getenv(setup.DataDir)} {
		if dir != "" {
			return filepath.Abs(dir)
		}
	}
	if dir := a.getenv("XDG_CACHE_HOME"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "rgpt"), nil
	}
	if home := a.getenv("HOME"); filepath.IsAbs(home) {
		return filepath.Join(home, ".cache", "rgpt"), nil
	}
	return "", fault.New(contract.ClassConfig, contract.CodeInvalidConfig, "there is no directory for caches: neither XDG_CACHE_HOME nor HOME is set; choose one with --data-dir or %s", setup.DataDir)
}

// ownConfig reads the user's own configuration. The files in the current directory belong to it only
// if they are trusted; the others are left out.
func (a *app) ownConfig(leftOut func(file string)) (*config.Config, error) {
	from := config.Sources{Project: a.configFile, Flags: a.set, Env: a.env}
	if from.Project == "" {
		var err error
		if from.Dir, err = os.Getwd(); err != nil {
			return nil, fmt.Errorf("find the current directory: %w", err)
		}
		from.Trusts, from.LeftOut = a.trusted().Trusts, leftOut
	}
	cfg, err := setup.Load(from, "")
	if err != nil {
		return nil, err
	}
	setup.RegisterSecrets(cfg)
	return cfg, nil
}

// includes returns a function that reports whether the user's own configuration includes the
// rgpt.yaml at the top of a work tree.
func (a *app) includes(leftOut []string) func(top string) bool {
	return func(top string) bool {
		here, err := os.Getwd()
		if err != nil || a.configFile != "" {
			return false
		}
		file := filepath.Join(here, config.FileName)
		if _, err := os.Stat(file); err != nil || slices.Contains(leftOut, file) {
			return false
		}
		here, err = filepath.EvalSymlinks(here)
		return err == nil && here == top
	}
}

// printVerified prints the result of a verification that kept its files in a directory.
func (a *app) printVerified(r standalone.Report, artifacts string) {
	a.printChecks(r.Checks)
	a.printSkipped(r)
	a.printFailedTests(r)
	a.printFindings(r)
	if len(r.Checks) > 0 {
		fmt.Fprintf(a.out, "\n%s; %d major, %d medium and %d minor findings, in %s\n", testsLine(r.Summary), r.Major, r.Medium, r.Minor, lasted(r.DurationMS))
	}
	a.printCoverage(r.Coverage)
	if len(r.Artifacts) > 0 {
		fmt.Fprintf(a.out, "%s kept in %s\n", counted(fmt.Sprint(len(r.Artifacts)), "file"), terminal.Clean(artifacts))
	}
	if r.Warning != "" {
		fmt.Fprintln(a.out, "Warning:", terminal.Clean(r.Warning))
	}
	f := r.Failure
	switch {
	case r.OK && len(r.Checks) == 0 && len(skippedChecks(r)) > 0:
		fmt.Fprintln(a.out, "\nNothing could be checked.")
	case r.OK && len(r.Checks) == 0:
		fmt.Fprintln(a.out, "\nNothing to check was found.")
	case r.OK:
		fmt.Fprintln(a.out, "Passed.")
	case f != nil:
		word := "Failed"
		if !r.Judged() {
			word = "No verdict"
		}
		fmt.Fprintf(a.out, "%s: %s (%s): %s\n", word, f.Class, f.Code, terminal.Clean(f.Message))
		if f.Cause != "" && f.Cause != f.Message {
			fmt.Fprintf(a.out, "  output  %s\n", indented(f.Cause, "          "))
		}
		if r.Advice != "" {
			fmt.Fprintf(a.out, "  to do   %s\n", terminal.CleanLine(r.Advice))
		}
	}
}

// indented cleans a text of several lines and indents all but the first.
func indented(text, by string) string {
	return strings.ReplaceAll(terminal.CleanLines(strings.TrimSpace(text)), "\n", "\n"+by)
}
