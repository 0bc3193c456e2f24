package activities

import (
	"context"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/internal/telemetry"
)

// comparedWith returns the workspace with which the change of a run is compared: what people pushed to
// its branch last, which is theirs, or the base commit if they pushed nothing.
func comparedWith(run store.Run, base contract.Workspace) contract.Workspace {
	if base.Tree == "" {
		return run.Settings.Repo.Workspace()
	}
	return base.Of(run.Settings.Repo.Workspace())
}

// prove carries out the check of new tests: it runs them on the commit that the run started from, or
// that people pushed last, to which only the change's test files are added.
func (a *Activities) prove(ctx context.Context, in contract.VerifyInput) (contract.CheckResult, error) {
	run, err := a.Store.Run(ctx, in.Execution.RunID)
	if err != nil {
		return contract.CheckResult{}, err
	}
	spec, err := specOf(run)
	if err != nil {
		return contract.CheckResult{}, err
	}
	// The log is stored for users, not as the log of a failed check: the failures in it were
	// expected.
	var kept keptFiles
	proof, err := a.host().Prove(ctx, a.task(run, spec, in, &kept), comparedWith(run, in.Base), spec.Verification.NewTests)
	if err != nil {
		return contract.CheckResult{}, err
	}
	for _, f := range proof.Findings {
		telemetry.CountFinding(f.Severity, f.Category)
	}
	return proof.Result, a.Store.SaveCheck(ctx, in.Execution, proof.Result.Check.ID, proof.Result, nil, proof.Findings, "")
}
