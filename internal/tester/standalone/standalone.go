// Package standalone verifies a work tree or a commit on this host with the checks of a run's
// tester, but without a run: it needs no database, no Temporal and no model.
//
// Settings, environments, checks and verdicts are those of a run that starts from the verified
// state, or, with a base, of a run that changes the base into it.
package standalone

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/config"
	"github.com/rocketgpt/orchestrator/internal/environment"
	"github.com/rocketgpt/orchestrator/internal/fault"
	"github.com/rocketgpt/orchestrator/internal/runs/verdict"
	"github.com/rocketgpt/orchestrator/internal/setup"
	"github.com/rocketgpt/orchestrator/internal/tester"
	"github.com/rocketgpt/orchestrator/internal/verify/checks"
	"github.com/rocketgpt/orchestrator/internal/workspace"
)

// Options describe a verification. Config, Repo, DataDir, Log and Progress are required.
type Options struct {
	// Config contains the user's own settings.
	Config *config.Config
	// Includes reports whether Config already contains the rgpt.yaml at the top of a work tree,
	// because the user trusts it. Nil: it does not.
	Includes func(top string) bool
	// Repo is an absolute path or a URL.
	Repo string
	// Commit is a branch, tag or commit. Empty: the work tree as it is, or the default branch of a
	// URL.
	Commit string
	// Base is a branch, tag or commit that the verified state is compared with. Its newest common
	// ancestor with the verified commit counts, if it is known. Empty: nothing is compared.
	Base string
	// Only lists the stages and checks to run. Empty: all.
	Only []string
	// Quarantine are tests whose failures do not count. There is no access to the quarantine of an
	// installation, and the repository cannot quarantine its own tests.
	Quarantine []contract.QuarantinedTest
	// NoEnvironment disables the environment, and with it the baseline.
	NoEnvironment bool
	// Environment is a YAML document with the section environment; see config.LoadEnvironment.
	// Empty: as configured.
	Environment string
	// Artifacts is a directory for logs, reports and other files. Empty: none are kept.
	Artifacts string
	// DataDir has the caches, which other verifications and a worker may share.
	DataDir  string
	Log      *slog.Logger
	Progress Progress
}

// Progress receives what a verification does. Calls may be concurrent. base is true for the work on
// the base.
type Progress interface {
	// Begin is called once the verified state is known.
	Begin(r Report)
	// Note receives what a user should know.
	Note(text string)
	// SettingUp is called before an environment is built, and Ready when there is one.
	SettingUp(base bool, what string)
	Ready(base bool, e Environment)
	// Started and Finished are called for each check.
	Started(base bool, c contract.Check)
	Finished(base bool, r contract.CheckResult)
	// Output receives the output of setups and checks as it arrives.
	Output(chunk []byte)
}

// Report is the result of a verification, in the form in which it is printed as JSON.
type Report struct {
	OK       bool   `json:"ok"`
	Repo     string `json:"repo"`
	Commit   string `json:"commit"`        // the verified commit, or the one that the work tree is based on
	WorkTree bool   `json:"work_tree"`     // the work tree was verified, with its changes
	Changed  int    `json:"changed_files"` // in the work tree
	Tree     string `json:"tree"`          // git tree id of the verified state
	Base     string `json:"base,omitempty"`
	contract.TestResult
	Checks      []contract.CheckResult `json:"checks"`
	Findings    []Finding              `json:"findings"`
	Major       int                    `json:"major"`
	Medium      int                    `json:"medium"`
	Minor       int                    `json:"minor"`
	Warning     string                 `json:"warning,omitempty"`
	Failure     *contract.Failure      `json:"failure"`
	Advice      string                 `json:"advice,omitempty"` // what to do about a failed setup
	Environment *Environment           `json:"environment"`      // null: nothing was set up
	Baseline    []contract.CheckResult `json:"baseline,omitempty"`
	Notes       []string               `json:"notes,omitempty"`
	DurationMS  int64                  `json:"duration_ms"`
}

// Finding is a finding with the check that reported it.
type Finding struct {
	Check string `json:"check"`
	contract.Finding
}

// Environment describes the environment of the verified state.
type Environment struct {
	Digest     string   `json:"digest"`
	Summary    string   `json:"summary"`
	Kept       bool     `json:"kept"` // it existed already
	Bytes      int64    `json:"bytes"`
	Files      int64    `json:"files"`
	Missing    []string `json:"missing,omitempty"` // tools that the repository requires
	DurationMS int64    `json:"duration_ms"`
}

// Judged reports whether there is a verdict: the checks passed, or at least one that could run
// failed.
func (r Report) Judged() bool {
	if r.Failure == nil {
		return true
	}
	return verdict.Judged(r.Failure) && (r.Failure.Code != contract.CodeMissing || slices.ContainsFunc(r.Checks, func(c contract.CheckResult) bool {
		return c.StopsRun() && c.Code != contract.CodeMissing
	}))
}

// Unjudged is the error of a verification that was started but has no verdict.
type Unjudged struct{ Err error }

// Error returns the reason.
func (e *Unjudged) Error() string { return e.Err.Error() }

// Unwrap returns the underlying error.
func (e *Unjudged) Unwrap() error { return e.Err }

// Verify verifies a repository. The repository and its work tree do not change. A failed check or
// setup is a result. An error means that the input is invalid, or, as an Unjudged, that the
// verification could not be completed.
func Verify(ctx context.Context, o Options) (Report, error) {
	v := newVerification(o)
	if err := v.open(ctx); err != nil {
		return v.report, err
	}
	defer v.close(ctx)
	if err := v.plan(ctx); err != nil {
		return v.report, err
	}
	v.Progress.Begin(v.report)
	err := v.verify(ctx)
	v.report.DurationMS = time.Since(v.started).Milliseconds()
	if v.files != nil {
		v.report.Artifacts = v.files.list()
	}
	if err != nil {
		return v.report, &Unjudged{err}
	}
	return v.report, nil
}

// verification is a verification in progress.
type verification struct {
	Options
	started time.Time
	key     string // of its working directories
	id      int64  // of its build caches; negative, unlike a run's
	host    *tester.Host
	// commands is the sandbox once it is open.
	commands *setup.Commands
	files    *keeper // nil: no files are kept
	patches  *memory // of workspaces

	settings contract.Settings
	spec     setup.RunSpec
	ws       contract.Workspace // the verified state
	base     contract.Workspace // zero: none

	pipeline, basePipeline checks.Pipeline
	env, baseEnv           prepared
	baseline               *verdict.Baseline
	pins                   []contract.Finding

	held   []*environment.Environment // which no other process may remove
	mu     sync.Mutex
	report Report
}

// keyPrefix starts the keys of working directories, unlike those of runs.
const keyPrefix = "verify-"

func newVerification(o Options) *verification {
	v := &verification{Options: o, started: time.Now(), key: keyPrefix + strconv.FormatUint(rand.Uint64(), 36), id: -1 - rand.Int64()}
	v.report.Results, v.report.Artifacts = []contract.TestCase{}, []string{}
	v.report.Checks, v.report.Findings = []contract.CheckResult{}, []Finding{}
	return v
}

// state is one of the two states on which checks run.
func (v *verification) state(base bool) contract.Workspace {
	if base {
		return v.base
	}
	return v.ws
}

func (v *verification) compares() bool { return v.base.Base != "" }

// directory returns the key of a working directory.
func (v *verification) directory(base bool) string {
	if base {
		return v.key + "/" + contract.StepBaseline
	}
	return v.key
}

// note tells the user something.
func (v *verification) note(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	v.mu.Lock()
	v.report.Notes = append(v.report.Notes, text)
	v.mu.Unlock()
	v.Progress.Note(text)
}

// open finds the repository, its settings and the state to verify.
func (v *verification) open(ctx context.Context) error {
	v.patches = &memory{}
	workspaces, err := setup.Workspaces(v.Config, v.DataDir, v.patches, setup.KeepSpares(v.Config))
	if err != nil {
		return err
	}
	outlet, err := setup.Proxy(v.Config)
	if err != nil {
		return err
	}
	v.host = &tester.Host{Config: v.Config, Workspaces: workspaces, Proxy: outlet, DataDir: v.DataDir, Log: v.Log, Facts: &sync.Map{}}
	err = v.resolve(ctx)
	if err == nil && v.Artifacts != "" {
		v.files, err = openKeeper(v.Artifacts, v.Config.Artifacts.MaxFile.Int64())
	}
	if err != nil {
		v.close(ctx)
	}
	return err
}

// resolve determines the state to verify, its base and the settings.
func (v *verification) resolve(ctx context.Context) error {
	workspaces := v.host.Workspaces
	repo, info, err := workspaces.Resolve(ctx, v.Repo, v.Commit)
	if err != nil {
		return err
	}
	if v.ws, err = workspaces.Start(ctx, repo); err != nil {
		return err
	}
	r := &v.report
	r.Repo, r.Commit = repo.URL, repo.Base
	if v.Commit == "" && info.Path != "" {
		taken, err := workspaces.Snapshot(ctx, v.ws, v.ownFiles(info.Path)...)
		if err != nil {
			return err
		}
		v.ws, r.WorkTree, r.Changed = taken.Workspace, true, taken.Changed
		if len(taken.Skipped) > 0 {
			v.note("left out, because they are special files or other repositories: %s", some(taken.Skipped))
		}
	}
	if v.Base != "" {
		if err := v.resolveBase(ctx, repo, info); err != nil {
			return err
		}
	}
	repo.Base, repo.Tree = v.ws.Base, v.ws.Tree
	if v.compares() {
		repo.Tree = v.base.Tree
	}
	r.Tree, r.Base = v.ws.Tree, v.base.Base
	return v.configure(ctx, repo, info)
}

// ownFiles returns the directories in a work tree that contain files of this program.
func (v *verification) ownFiles(top string) []string {
	var out []string
	for _, dir := range []string{v.DataDir, v.Artifacts} {
		if dir == "" {
			continue
		}
		path, err := realPath(dir)
		if err != nil {
			continue
		}
		if rel, err := filepath.Rel(top, path); err == nil && rel != "." && filepath.IsLocal(rel) {
			out = append(out, path)
		}
	}
	return out
}

// resolveBase determines the base, and turns the verified state into a change of it.
func (v *verification) resolveBase(ctx context.Context, repo contract.Repo, info workspace.Info) error {
	workspaces := v.host.Workspaces
	of, _, err := workspaces.Resolve(ctx, v.Repo, v.Base)
	if err != nil {
		return err
	}
	if info.Path != "" {
		common, err := workspaces.MergeBase(ctx, info.Path, of.Base, repo.Base)
		switch {
		case err != nil:
			return err
		case common == "":
			v.note("%s and %.12s have no known common ancestor, so %s itself is the base (a shallow clone lacks history)", v.Base, repo.Base, v.Base)
		default:
			of.Base = common
		}
	}
	if v.base, err = workspaces.Start(ctx, contract.Repo{URL: repo.URL, Base: of.Base}); err != nil {
		return err
	}
	v.ws, err = workspaces.Onto(ctx, v.ws, of.Base)
	return err
}

// configure resolves the settings: those of the user, restricted further by the rgpt.yaml of the
// base, or, without one, of the verified state.
func (v *verification) configure(ctx context.Context, repo contract.Repo, info workspace.Info) error {
	cfg, of := v.Config, v.ws
	if v.compares() {
		of = v.base
	}
	if info.Path == "" || v.Includes == nil || !v.Includes(info.Path) {
		var err error
		if cfg, err = setup.RepositoryConfig(ctx, v.host.Workspaces, cfg, of, info); err != nil {
			return err
		}
	}
	if v.Environment == "" && !v.NoEnvironment {
		var note string
		var err error
		if cfg, note, err = setup.WithImage(ctx, v.host.Workspaces, cfg, of); err != nil {
			return err
		}
		if note != "" {
			v.note("%s", note)
		}
	}
	v.settings, v.spec = setup.FreezeWithoutModels(cfg, repo)
	switch {
	case v.NoEnvironment:
		v.settings.Environment = nil
	case v.Environment != "":
		given, err := config.LoadEnvironment(v.Config, []byte(v.Environment), "the environment of --env")
		if err != nil {
			return err
		}
		v.spec.Environment = setup.EnvironmentSettings(given)
		if v.settings.Environment == nil {
			return fault.New(contract.ClassHuman, contract.CodeInvalidConfig, "environments are disabled in your configuration (environment.enabled)")
		}
		if given.Timeout != v.Config.Environment.Timeout {
			v.settings.Environment.Timeout = given.Timeout
		}
	}
	return nil
}

// plan plans the checks, and finds out whether the selected ones exist.
func (v *verification) plan(ctx context.Context) (err error) {
	if v.pipeline, err = v.planOf(ctx, false); err != nil {
		return err
	}
	if v.compares() {
		if v.basePipeline, err = v.planOf(ctx, true); err != nil {
			return err
		}
	}
	known := slices.Concat(v.pipeline.Stages...)
	if v.compares() {
		known = append(known, contract.Check{ID: contract.CheckPinnedTests, Category: contract.CategoryTest}, verdict.ProofCheck())
	}
	for _, name := range v.Only {
		if !slices.ContainsFunc(known, func(c contract.Check) bool { return matches(c, name) }) {
			return fault.New(contract.ClassHuman, contract.CodeInvalidConfig, "nothing to run for --only %s; planned checks: %s", name, names(known))
		}
	}
	return nil
}

func (v *verification) planOf(ctx context.Context, base bool) (checks.Pipeline, error) {
	view, err := v.host.Workspaces.OpenShared(ctx, v.state(base))
	if err != nil {
		return checks.Pipeline{}, err
	}
	defer view.Close()
	return checks.Plan(view.Path(), v.spec.Verification)
}

func matches(c contract.Check, name string) bool { return string(c.Category) == name || c.ID == name }

// selected reports whether a check is to run.
func (v *verification) selected(c contract.Check) bool {
	return len(v.Only) == 0 || slices.ContainsFunc(v.Only, func(name string) bool { return matches(c, name) })
}

// filtered returns the stages with the selected checks.
func (v *verification) filtered(stages [][]contract.Check) [][]contract.Check {
	var out [][]contract.Check
	for _, stage := range stages {
		selected := slices.DeleteFunc(slices.Clone(stage), func(c contract.Check) bool { return !v.selected(c) })
		if len(selected) > 0 {
			out = append(out, selected)
		}
	}
	return out
}

// openSandbox prepares this host to run commands.
func (v *verification) openSandbox(ctx context.Context) error {
	commands, err := setup.OpenSandbox(ctx, v.Config, v.DataDir, v.Log)
	if err != nil {
		return err
	}
	v.commands, v.host.Sandbox, v.host.Tools, v.host.BuildImage = commands, commands, commands.Tools, commands.BuildImage
	return nil
}

// cleanUpTime limits the removal of working directories. A later verification removes the rest.
const cleanUpTime = 10 * time.Second

// close removes the working directories, and rarely what the caches no longer need.
func (v *verification) close(ctx context.Context) {
	for _, e := range v.held {
		e.Close()
	}
	v.files.close()
	if v.commands != nil {
		v.commands.Close()
	}
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanUpTime)
	defer cancel()
	err := v.host.Workspaces.CleanUp(last, v.key)
	_, failed := setup.BuildCaches(v.DataDir).RemoveRun(v.id)
	if err = errors.Join(err, failed); err != nil {
		v.Log.WarnContext(ctx, "Could not remove the working directories", "error", err)
	}
	if ctx.Err() == nil {
		v.sweep(ctx)
	}
}

// some lists the first of many names.
func some(all []string) string {
	const most = 5
	text := strings.Join(all[:min(len(all), most)], ", ")
	if more := len(all) - most; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

func names(all []contract.Check) string {
	ids := make([]string, len(all))
	for i, c := range all {
		ids[i] = c.ID
	}
	return strings.Join(ids, ", ")
}
