package activities

import (
	"context"
	"time"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/pin"
	"github.com/rocketgpt/orchestrator/internal/setup"
	"github.com/rocketgpt/orchestrator/internal/telemetry"
	"github.com/rocketgpt/orchestrator/internal/verdict"
)

// quickPins is how many changed files of tests short work compares. More may
// take longer than a workflow task should wait.
const quickPins = 100

// comparePins compares the tests of a workspace with those that its run began
// with and stores what was done to them as the check pinned-tests. It reports
// false where this would take long and the caller wants it quick. A change that
// leaves tests alone costs one git process, an unchanged workspace none.
func (a *Activities) comparePins(ctx context.Context, in contract.TestPlanInput, base contract.Repo, spec setup.RunSpec) (done []contract.CheckResult, ok bool, err error) {
	mode := spec.Verification.PinnedTests
	if !mode.On() {
		return nil, true, nil
	}
	started := time.Now()
	files, err := a.pinned(ctx, base.Workspace(), in.Workspace)
	if err != nil || in.Quick && len(files) > quickPins {
		return nil, false, err
	}
	result, findings := verdict.Pinned(pin.Findings(pin.Check(files)), mode)
	result.DurationMS = time.Since(started).Milliseconds()
	for _, f := range findings {
		telemetry.CountFinding(f.Severity, f.Category)
	}
	return []contract.CheckResult{result}, true, a.Store.SaveCheck(ctx, in.Execution, result.Check.ID, result, nil, findings, "")
}
