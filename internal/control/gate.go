package control

import (
	"cmp"
	"context"
	"slices"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/config"
	"github.com/rocketgpt/orchestrator/internal/gate"
	"github.com/rocketgpt/orchestrator/internal/gate/policy"
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

// gateOfFork returns the settings of the policy gate for a fork: the operator's current ones, with the
// built-in policy of the forked run if that is stricter.
func (r *Runs) gateOfFork(ctx context.Context, old *contract.GateSettings) (*contract.GateSettings, error) {
	s, err := r.gateSettings(ctx, r.Config)
	if err != nil || s == nil || old == nil {
		return s, err
	}
	strictness := policy.Names() // default, strict, permissive
	if old.Policy == policy.Strict || slices.Contains(strictness, old.Policy) && s.Policy == policy.Permissive {
		s.Policy = old.Policy
	}
	s.Approver = cmp.Or(s.Approver, old.Approver)
	return s, nil
}
