package run

import (
	"slices"

	"go.temporal.io/sdk/workflow"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/workflows/internal/affinity"
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
}

// test verifies the workspace: stage after stage, the checks of a stage in parallel,
// each on a clean checkout. A failed check is a result; the report over all of them
// decides whether the run continues.
func (r *run) test(ctx workflow.Context, execution contract.ExecutionRef) (any, *contract.Failure) {
	s := r.in.Settings
	plan, err := affinity.LocalFirst(ctx, r.affinityOf(contract.PhaseTester, ""), contract.ActivityTestPlan, 0, func(quick bool) any {
		return contract.TestPlanInput{Execution: execution, Workspace: r.Workspace, LocalOnly: quick}
	}, func(r contract.TestPlanResult) bool { return r.Cold })
	if err != nil {
		return nil, r.failureOf(err)
	}
	out := testOutput{Checks: plan.Done}
	for _, stage := range plan.Stages {
		if failure := r.awaitUnpaused(ctx); failure != nil {
			return nil, failure
		}
		if isNewTestProof(stage) && slices.ContainsFunc(out.Checks, stopsRun) {
			continue // a test has already failed
		}
		results, err := r.verify(ctx, execution, stage)
		if err != nil {
			return nil, r.failureOf(err)
		}
		out.Checks = append(out.Checks, results...)
		if buildFailed(results) {
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
	return out, nil
}

// isNewTestProof reports whether a stage runs new tests without their change.
func isNewTestProof(stage []contract.Check) bool {
	return len(stage) == 1 && stage[0].ID == contract.CheckNewTests
}

// stopsRun reports whether a check stops the run regardless of the thresholds.
func stopsRun(c contract.CheckResult) bool {
	return !c.OK && (c.Check.Category == contract.CategoryBuild || c.Check.Category == contract.CategoryTest) && c.Check.ID != contract.CheckPinnedTests
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
		results, err := r.verify(ctx, execution, retestChecks(stages, round, most))
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

// retestChecks returns the test checks of a plan as one round of re-tests.
func retestChecks(stages [][]contract.Check, round, rounds int) []contract.Check {
	var out []contract.Check
	for _, stage := range stages {
		for _, c := range stage {
			if c.Category == contract.CategoryTest && c.ID != contract.CheckNewTests {
				out = append(out, c.AsRetest(round, rounds))
			}
		}
	}
	return out
}

// verify runs the checks of one stage on the run's workspace.
func (r *run) verify(ctx workflow.Context, execution contract.ExecutionRef, stage []contract.Check) ([]contract.CheckResult, error) {
	return r.verifyFor(ctx, contract.VerifyInput{Execution: execution, Workspace: r.Workspace}, stage)
}

// verifyFor runs the checks of one stage in parallel, each with the input in.
func (r *run) verifyFor(ctx workflow.Context, in contract.VerifyInput, stage []contract.Check) ([]contract.CheckResult, error) {
	in.Timeout = r.in.Settings.VerifyTimeout
	checks := make([]workflow.Future, len(stage))
	for i, check := range stage {
		in.Check = check
		checks[i] = r.affinityOf(contract.PhaseTester, "").Execute(ctx, in.Timeout+r.in.Settings.SetupTimeout(), contract.ActivityVerify, in)
	}
	results := make([]contract.CheckResult, len(stage))
	var first error
	for i, f := range checks {
		if err := f.Get(ctx, &results[i]); err != nil && first == nil {
			first = err
		}
	}
	return results, first
}

// buildFailed reports whether a build check failed.
func buildFailed(results []contract.CheckResult) bool {
	return slices.ContainsFunc(results, func(c contract.CheckResult) bool { return c.Check.Category == contract.CategoryBuild && !c.OK })
}
