package activities

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/environment"
	"github.com/rocketgpt/orchestrator/internal/fault"
	"github.com/rocketgpt/orchestrator/internal/runs/verdict"
	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/internal/tester"
	"github.com/rocketgpt/orchestrator/internal/verify/checks"
)

// Baseline returns the checks of a project that must run on a run's base commit, unless in.Done
// reports that they have run, and the combined result.
func (a *Activities) Baseline(ctx context.Context, in contract.BaselineInput) (contract.BaselineResult, error) {
	run, err := a.Store.Run(ctx, in.RunID)
	if err != nil {
		return contract.BaselineResult{}, err
	}
	a.prepareIndex(run.Settings.Repo.Workspace())
	var b store.Baseline
	if in.Done {
		b, err = a.Store.Baseline(ctx, run.Baseline)
	} else {
		b, err = a.openBaseline(ctx, run, in.Workspace)
	}
	if err != nil {
		return contract.BaselineResult{}, err
	}
	return summarize(run, b, in.Done), nil
}

// summarize returns the combined result of the checks of a baseline, and those that must run.
func summarize(run store.Run, b store.Baseline, done bool) contract.BaselineResult {
	out := contract.BaselineResult{Key: b.Key, Stages: openChecks(b, done)}
	for _, c := range b.Checks {
		r := c.Result
		out.Summary = out.Summary.Add(r.Summary)
		out.DurationMS += r.DurationMS
		switch {
		case r.Skipped:
			out.Unjudged = append(out.Unjudged, clipped(strings.TrimPrefix(r.Message, "skipped: "), 600))
		case r.OK:
		case unavailable(r):
			out.Unavailable = append(out.Unavailable, fmt.Sprintf("%s (`%s`): %s", r.Check.Name, clipped(b.Commands[r.Check.ID], 200), clipped(r.Message, 600)))
			out.Advice = unavailableAdvice(run, r)
		default:
			out.Red = append(out.Red, r.Check.Name)
		}
	}
	return out
}

// unavailable reports whether a build or test check could not even start because something is not
// installed. Other checks matter less.
func unavailable(r contract.CheckResult) bool {
	return !r.OK && r.Code == contract.CodeMissing && (r.Check.Category == contract.CategoryBuild || r.Check.Category == contract.CategoryTest)
}

// unavailableAdvice returns advice on a check that cannot start.
func unavailableAdvice(run store.Run, r contract.CheckResult) string {
	return strings.Join([]string{
		fmt.Sprintf("configure the setup: rgpt env set --repo %s --command '…', or install the missing software on the workers, ", run.Repo) + tryAgain(run),
		fmt.Sprintf("or add verification: {%s: {command: '…'}} to the repository's rgpt.yaml ({enabled: false} to skip the check), commit it and start a new run", r.Check.Category),
	}, "; ")
}

// passing are the transient outcomes of checks, which depend more on the worker than on the commit:
// a check that could not start, crashed or took too long is retried for the next run.
var passing = []contract.Code{contract.CodeMissing, contract.CodeTimeout, contract.CodeCommandCrashed, contract.CodeUnavailable}

// databaseAge is how long the result of a scan that uses a vulnerability database is reused. The
// database may change although the commit does not; a vulnerability that became known since is not
// the change's fault.
const databaseAge = time.Hour

// outdated reports whether a result for the base commit may be different now: it was transient, or
// its scan used a vulnerability database some time ago. That a scanner is not installed, or may not
// reach its database, is final, because tools and settings belong to the key of a baseline.
func outdated(c store.BaselineCheck) bool {
	switch {
	case c.Result.Skipped:
		return c.Result.Code == contract.CodeUnavailable
	case checks.UsesDatabase(c.Result.Check):
		return time.Since(c.CreatedAt) > databaseAge || slices.Contains(passing, c.Result.Code)
	}
	return slices.Contains(passing, c.Result.Code)
}

// openBaseline plans the checks of the base commit, and finds the known results.
func (a *Activities) openBaseline(ctx context.Context, run store.Run, ws contract.Workspace) (store.Baseline, error) {
	view, err := a.Workspaces.OpenShared(ctx, ws)
	if err != nil {
		return store.Baseline{}, err
	}
	defer view.Close()
	return a.openBaselineIn(ctx, run, ws, view.Path())
}

// openBaselineIn is openBaseline with the files of the base commit in a directory.
func (a *Activities) openBaselineIn(ctx context.Context, run store.Run, ws contract.Workspace, dir string) (store.Baseline, error) {
	spec, err := specOf(run)
	if err != nil {
		return store.Baseline{}, err
	}
	spec.Verification = baselineSettings(spec.Verification)
	pipeline, err := checks.Plan(dir, spec.Verification)
	if err != nil {
		return store.Baseline{}, err
	}
	commands := tester.Commands(pipeline)
	tools, err := a.toolsOfRun(ctx, run)
	if err != nil {
		return store.Baseline{}, err
	}
	key, err := a.baselineKey(run, ws, tools, spec.Verification, pipeline, commands)
	if err != nil {
		return store.Baseline{}, err
	}
	return a.Store.OpenBaseline(ctx, run.ID, store.Baseline{
		Key: key, Repo: run.Repo, BaseCommit: ws.Base, Tree: ws.Tree, Environment: run.Environment, Stages: pipeline.Stages, Commands: commands,
	})
}

// baselineSettings returns the settings of the checks on a base commit. Other runs use their
// outcomes, and may carry out some of them, so these checks are the same for all: durations of
// earlier runs do not divide them.
func baselineSettings(s checks.Settings) checks.Settings {
	s.Durations = nil
	return s
}

// baselineKey identifies a baseline by everything that its outcomes depend on: the files, the
// environment, the tools, and the checks. PinnedTests and NewTests apply only after a change, so
// they are excluded.
func (a *Activities) baselineKey(run store.Run, ws contract.Workspace, tools environment.Tools, s checks.Settings, p checks.Pipeline, commands map[string]string) (string, error) {
	s.PinnedTests, s.NewTests = "", ""
	doc, err := json.Marshal([]any{s, p.Stages, commands, tools, a.Scanners, runtime.GOOS, runtime.GOARCH})
	if err != nil {
		return "", fmt.Errorf("compute the baseline key: %w", err)
	}
	return tester.DigestOf("baseline 5", run.Repo, ws.Tree, run.Environment, string(doc)), nil
}

// openChecks returns the checks of a baseline that have no outcome, or only an outdated one unless
// they ran for this run.
func openChecks(b store.Baseline, done bool) [][]contract.Check {
	var stages [][]contract.Check
	for _, stage := range b.Stages {
		var open []contract.Check
		for _, c := range stage {
			if known, ok := b.Check(c.ID); !ok || !done && outdated(known) {
				open = append(open, c)
			}
		}
		if len(open) > 0 {
			stages = append(stages, open)
		}
	}
	return stages
}

// verifyBaseline carries out one check on the base commit, once for all runs that need it.
func (a *Activities) verifyBaseline(ctx context.Context, in contract.VerifyInput) (contract.CheckResult, error) {
	before, err := a.Store.Baseline(ctx, in.Baseline)
	if err != nil {
		return contract.CheckResult{}, err
	}
	release, err := a.lease(ctx, "baseline/"+in.Baseline+"/"+in.Check.ID)
	if err != nil {
		return contract.CheckResult{}, err
	}
	defer release()
	b, err := a.Store.Baseline(ctx, in.Baseline)
	if err != nil {
		return contract.CheckResult{}, err
	}
	if done, ok := b.Check(in.Check.ID); ok {
		// The outcome from another run counts for all runs that waited for it, whatever it is.
		if was, _ := before.Check(in.Check.ID); !outdated(done) || done.CreatedAt.After(was.CreatedAt) {
			return done.Result, nil
		}
	}
	checked, err := a.check(ctx, in)
	if err != nil {
		return contract.CheckResult{}, err
	}
	if err := a.Store.AddArtifacts(ctx, in.Execution.RunID, checked.files); err != nil {
		return contract.CheckResult{}, err
	}
	// An infrastructure failure does not describe the commit, so it is not stored.
	if fails := checked.result.Code; fails == contract.CodeUnavailable && !checked.result.Skipped {
		return checked.result, fault.New(contract.ClassInfra, fails, "%s could not run: %s", in.Check.Name, checked.result.Message)
	}
	err = a.Store.SaveBaselineCheck(ctx, in.Baseline, store.BaselineCheck{
		Result: checked.result, Cases: checked.outcome.Cases, Findings: checked.outcome.Findings, LogDigest: checked.log,
	})
	if err == nil {
		a.recordTests(ctx, in, checked, checked.outcome.Cases)
	}
	return checked.result, err
}

// compare applies the quarantine of the execution to the outcome of a check, and compares it with its
// outcome on the base commit: problems that existed before are known, and do not count against the
// change.
func (a *Activities) compare(ctx context.Context, run store.Run, settings checks.Settings, in contract.VerifyInput, c *checked) error {
	b, err := a.baselineOf(ctx, run)
	if err != nil {
		return err
	}
	if err := a.applyQuarantine(ctx, in, c, recorded(b)); err != nil || b == nil {
		return err
	}
	pins, err := a.pinFindings(ctx, in.Execution)
	if err != nil {
		return err
	}
	now := verdict.Recorded{Result: c.result, Cases: c.outcome.Cases, Findings: c.outcome.Findings}
	compared := recorded(b).Compare(now, pins, settings.PinnedTests)
	if known, ok := b.Check(in.Check.ID); ok && worse(compared) && checks.UsesDatabase(in.Check) && outdated(known) {
		a.saveFiles(ctx, in, c) // a scan may take long
		compared = recorded(a.scanBaseAgain(ctx, run, in, b)).Compare(now, pins, settings.PinnedTests)
	}
	c.result, c.outcome.Findings = compared.Result, compared.Findings
	return nil
}

// worse reports whether a check has a new finding.
func worse(r verdict.Recorded) bool {
	return slices.ContainsFunc(r.Findings, func(f contract.Finding) bool { return f.Status == contract.FindingNew })
}

// rescanMargin is the part of an activity's time that a repeated scan leaves for storing results.
const rescanMargin = 30 * time.Second

// scanBaseAgain repeats a scan of the base commit, whose outcome is outdated, and returns the
// baseline with the new outcome. If that fails, the old outcome counts.
func (a *Activities) scanBaseAgain(ctx context.Context, run store.Run, in contract.VerifyInput, old *store.Baseline) *store.Baseline {
	in.Execution, in.Workspace, in.Baseline = contract.BaselineExecution(run.ID), run.Settings.Repo.Workspace(), run.Baseline
	if deadline, ok := ctx.Deadline(); ok {
		if in.Timeout = min(in.Timeout, time.Until(deadline)-rescanMargin); in.Timeout <= 0 {
			return old
		}
	}
	_, err := a.verifyBaseline(ctx, in)
	if err == nil {
		var now store.Baseline
		if now, err = a.Store.Baseline(ctx, run.Baseline); err == nil {
			return &now
		}
	}
	a.Log.WarnContext(ctx, "Could not scan the base commit again", "run", run.ID, "check", in.Check.ID, "error", err)
	return old
}

// recorded returns a baseline in the form in which outcomes are judged.
func recorded(b *store.Baseline) *verdict.Baseline {
	if b == nil {
		return nil
	}
	out := &verdict.Baseline{Commands: b.Commands}
	for _, c := range b.Checks {
		out.Checks = append(out.Checks, verdict.Recorded{Result: c.Result, Cases: c.Cases, Findings: c.Findings})
	}
	return out
}

// pinFindings returns the findings of the comparison of tests in an execution.
func (a *Activities) pinFindings(ctx context.Context, execution contract.ExecutionRef) ([]contract.Finding, error) {
	all, err := a.Store.Findings(ctx, execution.RunID)
	var pins []contract.Finding
	for _, f := range all {
		if f.ExecutionID == execution.ID && f.CheckID == contract.CheckPinnedTests {
			pins = append(pins, f.Finding)
		}
	}
	return pins, err
}

// baselineOf returns the baseline of a run, nil if it has none.
func (a *Activities) baselineOf(ctx context.Context, run store.Run) (*store.Baseline, error) {
	if run.Baseline == "" {
		return nil, nil
	}
	b, err := a.Store.Baseline(ctx, run.Baseline)
	if errors.Is(err, store.ErrNotFound) {
		return nil, nil // it was removed, so its outcome is unknown
	}
	return &b, err
}
