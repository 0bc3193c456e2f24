package activities

import (
	"context"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/telemetry"
)

// prove carries out the check of new tests: it runs them on the commit that the run started from,
// to which only the change's test files are added.
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
	proof, err := a.host().Prove(ctx, a.task(run, spec, in, &kept), run.Settings.Repo.Workspace(), spec.Verification.NewTests)
	if err != nil {
		return contract.CheckResult{}, err
	}
	for _, f := range proof.Findings {
		telemetry.CountFinding(f.Severity, f.Category)
	}
	return proof.Result, a.Store.SaveCheck(ctx, in.Execution, proof.Result.Check.ID, proof.Result, nil, proof.Findings, "")
}
