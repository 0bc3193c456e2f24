package activities

import (
	"context"
	"encoding/json"
	"fmt"
	"runtime"
	"slices"
	"time"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/runs/verdict"
	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/internal/store/flaky"
	"github.com/rocketgpt/orchestrator/internal/tester"
)

// The values of verification.flaky.quarantine that matter here.
const (
	quarantineOff  = "off"
	quarantineAuto = "auto"
)

// currentQuarantine returns the quarantined tests of a run's repository.
func (a *Activities) currentQuarantine(ctx context.Context, run store.Run) ([]contract.QuarantinedTest, error) {
	s := a.Config.Verification.Flaky
	if s.Quarantine == quarantineOff {
		return nil, nil
	}
	return flaky.New(a.Store).Current(ctx, run, s.MaxQuarantined)
}

// useQuarantine stores the quarantined tests that apply to all checks of an execution, and returns their
// number.
func (a *Activities) useQuarantine(ctx context.Context, execution contract.ExecutionRef, tests []contract.QuarantinedTest) (int, error) {
	if len(tests) == 0 {
		return 0, nil
	}
	used, err := flaky.New(a.Store).Use(ctx, execution.ID, tests)
	return len(used), err
}

// applyQuarantine applies the quarantine that was stored for the execution to the outcome of a check.
func (a *Activities) applyQuarantine(ctx context.Context, in contract.VerifyInput, c *checked, base *verdict.Baseline) error {
	if in.Check.Category != contract.CategoryTest {
		return nil
	}
	used, err := flaky.New(a.Store).Used(ctx, in.Execution.ID)
	if err != nil || len(used) == 0 {
		return err
	}
	out := verdict.Quarantine(used, verdict.Recorded{Result: c.result, Cases: c.outcome.Cases, Findings: c.outcome.Findings}, base.Whole(in.Check))
	c.result, c.outcome.Cases, c.outcome.Findings = out.Result, out.Cases, out.Findings
	return nil
}

// recordTests adds the test cases of a check, with their outcomes before the quarantine, to the history
// of the repository's tests, and quarantines flaky tests if the policy says so. The verdict does not
// depend on the history, so a failure is only logged.
func (a *Activities) recordTests(ctx context.Context, in contract.VerifyInput, c checked, cases []contract.TestCase) {
	if in.Check.Category != contract.CategoryTest || c.result.Unnamed || len(cases) == 0 || slices.Contains(passing, c.result.Code) {
		return // the end of a command may have failed its tests
	}
	if err := a.recordIn(ctx, c.run, in, cases); err != nil {
		a.Log.WarnContext(ctx, "Could not record the outcomes of tests", "run", in.Execution.RunID, "check", in.Check.ID, "error", err)
	}
}

func (a *Activities) recordIn(ctx context.Context, run store.Run, in contract.VerifyInput, cases []contract.TestCase) error {
	state, err := a.stateOf(ctx, run, in.Workspace)
	if err != nil {
		return err
	}
	s := a.Config.Verification.Flaky
	r := flaky.Recording{
		Source: fmt.Sprintf("execution/%d/%s", in.Execution.ID, in.Check.ID), Repo: run.Repo, Check: in.Check, RunID: run.ID,
		State: state, Window: s.Window, Cases: cases,
	}
	if in.Baseline != "" { // it may run several times, for different runs
		r.Source, r.OfBase = fmt.Sprintf("baseline/%s/%s/%d", in.Baseline, in.Check.ID, time.Now().UnixNano()), true
	}
	history := flaky.New(a.Store)
	if err := history.Record(ctx, r); err != nil || s.Quarantine != quarantineAuto {
		return err
	}
	added, err := history.Apply(ctx, run.Repo, flaky.Policy{Window: s.Window, After: s.QuarantineAfter, Expiry: min(s.QuarantineFor, s.QuarantineMax), Most: s.MaxQuarantined})
	for _, e := range added {
		a.Log.WarnContext(ctx, "Quarantined a flaky test", "run", run.ID, "repo", run.Repo, "check", e.Check, "test", e.Test, "reason", e.Reason, "expires", e.ExpiresAt)
	}
	return err
}

// stateOf identifies everything that the outcome of a test that is not flaky depends on: the files, the
// environment and the tools.
func (a *Activities) stateOf(ctx context.Context, run store.Run, ws contract.Workspace) (string, error) {
	available, err := a.toolsOfRun(ctx, run)
	if err != nil {
		return "", err
	}
	tools, err := json.Marshal(available)
	if err != nil {
		return "", fmt.Errorf("identify the tools: %w", err)
	}
	return tester.DigestOf("test state 1", ws.Tree, run.Environment, string(tools), runtime.GOOS, runtime.GOARCH), nil
}
