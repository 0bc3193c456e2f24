package control

import (
	"context"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/config"
	"github.com/rocketgpt/orchestrator/internal/gate"
	"github.com/rocketgpt/orchestrator/internal/store/verdicts"
)

// gateSettings returns the settings of the policy gate for a new run, and stores the operator's policies,
// which the run keeps even if their files change.
func (r *Runs) gateSettings(ctx context.Context, cfg *config.Config) (*contract.GateSettings, error) {
	s := gate.Settings(cfg)
	if s == nil {
		return nil, nil
	}
	digest, files, err := gate.OperatorPolicies(ctx, cfg)
	if err != nil || digest == "" {
		return s, err
	}
	s.Bundle = digest
	return s, verdicts.SavePolicies(ctx, r.Store, digest, files)
}
