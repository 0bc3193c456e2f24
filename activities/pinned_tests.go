package activities

import (
	"context"
	"slices"
	"time"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/pin"
	"github.com/rocketgpt/orchestrator/internal/runs/verdict"
	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/internal/telemetry"
	"github.com/rocketgpt/orchestrator/internal/verify/checks"
)

// maxLocalPins is how many changed test files a local activity compares. More may take
// longer than a workflow task should wait.
const maxLocalPins = 100

// comparePins compares the tests of a workspace with the tests at the start of its run, using the
// changed files and the lost checks, and stores the differences as the check pinned-tests.
func (a *Activities) comparePins(
	ctx context.Context, in contract.TestPlanInput, files []pin.File, lost []contract.Finding, mode verdict.PinnedTests, started time.Time,
) ([]contract.CheckResult, error) {
	problems, err := pin.Check(ctx, files)
	if err != nil {
		return nil, err
	}
	result, findings := verdict.Pinned(slices.Concat(pin.Findings(problems), lost), mode)
	result.DurationMS = time.Since(started).Milliseconds()
	for _, f := range findings {
		telemetry.CountFinding(f.Severity, f.Category)
	}
	return []contract.CheckResult{result}, a.Store.SaveCheck(ctx, in.Execution, result.Check.ID, result, nil, findings, "")
}

// lostChecks returns findings about checks that ran tests on a run's base commit, and that no
// longer run.
func (a *Activities) lostChecks(ctx context.Context, run store.Run, pipeline checks.Pipeline) ([]contract.Finding, error) {
	b, err := a.baselineOf(ctx, run)
	if err != nil || b == nil {
		return nil, err
	}
	results := make([]contract.CheckResult, len(b.Checks))
	for i, c := range b.Checks {
		results[i] = c.Result
	}
	return verdict.LostChecks(results, b.Commands, pipeline.Stages, pipeline.Command), nil
}
