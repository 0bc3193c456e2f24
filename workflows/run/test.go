package run

import (
	"slices"

	"go.temporal.io/sdk/workflow"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/workflows/internal/affinity"
	"github.com/rocketgpt/orchestrator/workflows/internal/checks"
	"github.com/rocketgpt/orchestrator/workflows/internal/options"
)

// testOutput is the content of a run's tester_output besides results and artifacts, which are read
// from their own tables.
type testOutput struct {
	Summary contract.TestSummary   `json:"summary"`
	Checks  []contract.CheckResult `json:"checks"`
	Major   int                    `json:"major"`
	Medium  int                    `json:"medium"`
	Minor   int                    `json:"minor"`
	Warning string                 `json:"warning,omitempty"`
	// Protected are files that are pushed only with an approval.
	Protected []string `json:"protected,omitempty"`
	// Review is that of the change by a model; nil: none was made.
	Review *contract.ReviewResult `json:"review,omitempty"`
}

// test verifies the workspace: stage after stage, the checks of a stage in parallel,
// each on a clean checkout. A failed check is a result; the report over all of them
// decides whether the run continues.
func (r *run) test(ctx workflow.Context, execution contract.ExecutionRef) (any, *contract.Failure) {
	s := r.in.Settings
	if failure := r.findMarkers(ctx); failure != nil {
		return nil, failure
	}
	plan, err := affinity.LocalFirst(ctx, r.affinityOf(contract.PhaseTester, ""), contract.ActivityTestPlan, 0, func(quick bool) any {
		return contract.TestPlanInput{Execution: execution, Workspace: r.Workspace, LocalOnly: quick, Base: r.pushedBefore()}
	}, func(r contract.TestPlanResult) bool { return r.Cold })
	if err != nil {
		return nil, r.failureOf(err)
	}
	out := testOutput{Checks: plan.Done}
	for _, stage := range plan.Stages {
		if failure := r.awaitUnpaused(ctx); failure != nil {
			return nil, failure
		}
		if contract.IsNewTestProof(stage) && slices.ContainsFunc(out.Checks, contract.CheckResult.StopsRun) {
			continue // a test has already failed
		}
		results, err := r.verify(ctx, execution, stage)
		if err != nil {
			return nil, r.failureOf(err)
		}
		out.Checks = append(out.Checks, results...)
		if contract.BuildFailed(results) {
			break // a change that does not build cannot be tested
		}
	}
	report, err := r.report(ctx, execution)
	if err == nil && report.Failure == nil && s.StableRetests > 0 {
		again, failure := r.retest(ctx, execution, plan.Stages)
		if failure != nil {
			return nil, failure
		}
		out.Checks = append(out.Checks, again...)
		report, err = r.report(ctx, execution)
	}
	if err != nil {
		return nil, r.failureOf(err)
	}
	out.Summary, out.Major, out.Medium, out.Minor = report.Summary, report.Major, report.Medium, report.Minor
	out.Warning = report.Warning
	if report.Failure != nil {
		return out, report.Failure
	}
	if err := r.findProtected(ctx); err != nil {
		return nil, r.failureOf(err)
	}
	out.Protected = r.Protected.Paths
	r.beginJudging(ctx)
	var failure *contract.Failure
	if out.Review, failure = r.reviewRelease(ctx, execution); failure != nil {
		return out, failure
	}
	return out, r.judgeRelease(ctx, execution)
}

// report summarizes the checks of an execution.
func (r *run) report(ctx workflow.Context, execution contract.ExecutionRef) (contract.TestReportResult, error) {
	var report contract.TestReportResult
	err := workflow.ExecuteLocalActivity(options.Local(ctx), contract.ActivityTestReport, contract.TestReportInput{
		Execution: execution, Thresholds: r.in.Settings.Thresholds,
	}).Get(ctx, &report)
	return report, err
}

// retest repeats passed tests, as often as the run's settings require, until a round fails. Each
// round has its own checks. The report judges failed checks; retest returns a failure only if it
// could not run a round.
func (r *run) retest(ctx workflow.Context, execution contract.ExecutionRef, stages [][]contract.Check) ([]contract.CheckResult, *contract.Failure) {
	var all []contract.CheckResult
	most := r.in.Settings.StableRetests
	for round := 1; round <= most; round++ {
		if failure := r.awaitUnpaused(ctx); failure != nil {
			return nil, failure
		}
		results, err := r.verify(ctx, execution, contract.RetestChecks(stages, round, most))
		if err != nil {
			return nil, r.failureOf(err)
		}
		all = append(all, results...)
		if slices.ContainsFunc(results, func(c contract.CheckResult) bool { return !c.OK }) {
			break
		}
	}
	return all, nil
}

// verify runs the checks of one stage on the run's workspace.
func (r *run) verify(ctx workflow.Context, execution contract.ExecutionRef, stage []contract.Check) ([]contract.CheckResult, error) {
	return r.verifyFor(ctx, contract.VerifyInput{Execution: execution, Workspace: r.Workspace, Base: r.pushedBefore()}, stage)
}

// verifyFor runs the checks of one stage in parallel, each with the input in.
func (r *run) verifyFor(ctx workflow.Context, in contract.VerifyInput, stage []contract.Check) ([]contract.CheckResult, error) {
	s := r.in.Settings
	in.Timeout = s.VerifyTimeout
	return checks.Stage(ctx, stage, s.ChecksTogether, in, func(in contract.VerifyInput) workflow.Future {
		return r.affinityOf(contract.PhaseTester, "").Execute(ctx, in.Timeout+s.SetupTimeout()+options.CoreWait, contract.ActivityVerify, in)
	})
}
