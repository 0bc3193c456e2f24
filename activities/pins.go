package activities

import (
	"context"
	"time"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/pin"
	"github.com/rocketgpt/orchestrator/internal/telemetry"
	"github.com/rocketgpt/orchestrator/internal/verdict"
)

// quickPins is how many changed files of tests short work compares. More may
// take longer than a workflow task should wait.
const quickPins = 100

// comparePins compares the tests of a workspace with those that its run began
// with, by the files that differ, and stores what was done to them as the check
// pinned-tests.
func (a *Activities) comparePins(ctx context.Context, in contract.TestPlanInput, files []pin.File, mode verdict.PinnedTests, started time.Time) ([]contract.CheckResult, error) {
	result, findings := verdict.Pinned(pin.Findings(pin.Check(files)), mode)
	result.DurationMS = time.Since(started).Milliseconds()
	for _, f := range findings {
		telemetry.CountFinding(f.Severity, f.Category)
	}
	return []contract.CheckResult{result}, a.Store.SaveCheck(ctx, in.Execution, result.Check.ID, result, nil, findings, "")
}
