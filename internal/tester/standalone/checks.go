package standalone

import (
	"context"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/runs/verdict"
	"github.com/rocketgpt/orchestrator/internal/tester"
)

// verify prepares the environment, runs the checks, and judges their results.
func (v *verification) verify(ctx context.Context) error {
	if err := v.openSandbox(ctx); err != nil {
		return err
	}
	if v.settings.Environment != nil {
		if ok, err := v.prepareAll(ctx); !ok || err != nil {
			return err
		}
	}
	if v.compares() && v.settings.Environment != nil && v.settings.Environment.Baseline {
		if err := v.runBaseline(ctx); err != nil {
			return err
		}
	}
	stages, err := v.stages(ctx)
	if err != nil {
		return err
	}
	if err := v.runStages(ctx, stages); err != nil {
		return err
	}
	report := v.judge()
	if report.Failure == nil {
		if err := v.retest(ctx, stages); err != nil {
			return err
		}
		report = v.judge()
	}
	v.report.OK, v.report.Failure, v.report.Warning = report.Failure == nil, report.Failure, report.Warning
	v.report.Coverage = contract.MergeCoverage(v.report.Checks)
	v.report.Summary, v.report.Major, v.report.Medium, v.report.Minor = report.Summary, report.Major, report.Medium, report.Minor
	return nil
}

func (v *verification) judge() contract.TestReportResult {
	return verdict.Of(v.report.Checks, v.settings.Thresholds)
}

// runBaseline runs the checks on the base. A failed build does not end it: if the build of the
// verified state fails in the same way, its tests still run and need results to compare with.
func (v *verification) runBaseline(ctx context.Context) error {
	baseline := verdict.Baseline{Commands: tester.Commands(v.basePipeline)}
	for _, stage := range v.filtered(v.basePipeline.Stages) {
		results, err := v.runStage(ctx, stage, true)
		if err != nil {
			return err
		}
		baseline.Checks = append(baseline.Checks, results...)
	}
	v.report.Baseline = baseline.Results()
	v.baseline = &baseline
	return nil
}

// stages returns the checks to run, after it has compared the tests with those of the base.
func (v *verification) stages(ctx context.Context) ([][]contract.Check, error) {
	if !v.compares() {
		return v.filtered(v.pipeline.Stages), nil
	}
	plan, err := v.host.PlanChange(ctx, tester.Change{
		Base: v.base, Workspace: v.ws, Pipeline: v.pipeline, Settings: v.spec.Verification,
		Baseline:   func(context.Context) (*verdict.Baseline, error) { return v.baseline, nil },
		Quarantine: v.Quarantine,
	})
	if err != nil {
		return nil, err
	}
	v.Quarantine = plan.Quarantine
	if p := plan.Pinned; p != nil {
		v.pins = p.Findings
		if v.selected(p.Result.Check) {
			v.Progress.Finished(false, p.Result)
			v.add(*p)
		}
	}
	return v.filtered(plan.Stages), nil
}

// runStages runs stage after stage, in the order of a run.
func (v *verification) runStages(ctx context.Context, stages [][]contract.Check) error {
	for _, stage := range stages {
		if contract.IsNewTestProof(stage) && slices.ContainsFunc(v.report.Checks, contract.CheckResult.StopsRun) {
			continue // a test has already failed
		}
		results, err := v.runStage(ctx, stage, false)
		if err != nil {
			return err
		}
		v.add(results...)
		if contract.BuildFailed(resultsOf(results)) {
			return nil // what does not build cannot be tested
		}
	}
	return nil
}

// retest repeats passed tests, as often as the settings require, until a round fails.
func (v *verification) retest(ctx context.Context, stages [][]contract.Check) error {
	rounds := v.settings.StableRetests
	for round := 1; round <= rounds; round++ {
		results, err := v.runStage(ctx, contract.RetestChecks(stages, round, rounds), false)
		if err != nil {
			return err
		}
		v.add(results...)
		if slices.ContainsFunc(results, func(r verdict.Recorded) bool { return !r.Result.OK }) {
			return nil
		}
	}
	return nil
}

func resultsOf(recorded []verdict.Recorded) []contract.CheckResult {
	return verdict.Baseline{Checks: recorded}.Results()
}

// add adds outcomes to the report.
func (v *verification) add(all ...verdict.Recorded) {
	for _, r := range all {
		v.report.Checks = append(v.report.Checks, r.Result)
		for _, f := range r.Findings {
			v.report.Findings = append(v.report.Findings, Finding{Check: r.Result.Check.ID, Finding: f})
		}
		if r.Result.Counts() {
			v.report.Results = append(v.report.Results, r.Cases...)
		}
	}
}

// runStage runs the checks of one stage in parallel, and returns their outcomes in order.
func (v *verification) runStage(ctx context.Context, stage []contract.Check, base bool) ([]verdict.Recorded, error) {
	results := make([]verdict.Recorded, len(stage))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(v.Config.Worker.MaxConcurrentActivities)
	for i, c := range stage {
		group.Go(func() (err error) {
			results[i], err = v.check(ctx, c, base)
			return err
		})
	}
	return results, group.Wait()
}

// check carries out one check.
func (v *verification) check(ctx context.Context, c contract.Check, base bool) (out verdict.Recorded, err error) {
	v.Progress.Started(base, c)
	mode := v.spec.Verification.PinnedTests
	if c.ID == contract.CheckNewTests {
		out, err = v.host.Prove(ctx, v.task(c, base), v.base, v.spec.Verification.NewTests)
	} else {
		outcome, result, failed := v.host.Check(ctx, v.task(c, base))
		out, err = verdict.Recorded{Result: result, Findings: outcome.Findings, Cases: outcome.Cases}, failed
		if err == nil && !base {
			out = verdict.Quarantine(v.Quarantine, out, v.baseline.Whole(c))
		}
		if err == nil && !base && v.baseline != nil {
			out = v.baseline.Compare(out, v.pins, mode)
		}
	}
	if err == nil {
		v.Progress.Finished(base, out.Result)
	}
	return out, err
}

func (v *verification) task(c contract.Check, base bool) tester.Task {
	layer := c.ID
	if base {
		layer = contract.StepBaseline + "/" + c.ID
	}
	return tester.Task{
		Check: c, Workspace: v.state(base), Settings: v.spec.Verification, Timeout: v.settings.VerifyTimeout,
		Key: v.directory(base), BaseKey: v.key + "/compiled", Who: "rgpt verify/" + layer, Run: v.id, Layer: layer,
		Environment: func(_ context.Context, ws contract.Workspace, _ string) (*tester.CommandEnv, error) {
			return v.commandEnv(v.compares() && ws.Tree == v.base.Tree)
		},
		Follow: func() (func([]byte), func()) { return v.Progress.Output, func() {} },
		Keep:   func(_ context.Context, f tester.Files) error { return v.keepFiles(layer, f) },
	}
}
