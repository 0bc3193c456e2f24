package control

import (
	"context"

	"github.com/rocketgpt/orchestrator/internal/config"
	"github.com/rocketgpt/orchestrator/internal/gate"
	"github.com/rocketgpt/orchestrator/internal/gate/policy"
)

// PoliciesInForce are the policies and limits of the gate for new runs.
type PoliciesInForce struct {
	// Policy is the built-in policy; none: no change is judged, and the other fields are empty.
	Policy string `json:"policy"`
	// Directory contains the operator's policies; empty: there are none.
	Directory string          `json:"directory,omitempty"`
	Bundles   []policy.Bundle `json:"bundles"`
	Files     []PolicySource  `json:"files"`
	Guards    []string        `json:"guards"`
	Rules     policy.Rules    `json:"rules"`
	Tests     string          `json:"tests"` // verification.pinned_tests
}

// PolicySource is a file with policies in Rego.
type PolicySource struct {
	Name    string `json:"name"`
	Content string `json:"content"`
}

// Policies returns the policies that are in force for new runs. A repository can make them stricter.
// An error in the operator's policies names file and line.
func (r *Runs) Policies(ctx context.Context) (PoliciesInForce, error) {
	r, err := r.current()
	if err != nil {
		return PoliciesInForce{}, err
	}
	cfg := r.Config
	out := PoliciesInForce{Policy: cfg.Gate.Policy, Bundles: []policy.Bundle{}, Files: []PolicySource{}, Guards: []string{}}
	if cfg.Gate.Policy == config.GateOff {
		return out, nil
	}
	g, err := gate.New(ctx, cfg)
	if err != nil {
		return out, err
	}
	files, err := policy.BuiltIn(cfg.Gate.Policy)
	if err != nil {
		return out, err
	}
	if cfg.Gate.Policies != "" {
		own, err := policy.Load(cfg.Gate.Policies, false)
		if err != nil {
			return out, err
		}
		files = append(own, files...) // what the operator wrote comes first
	}
	for _, f := range files {
		out.Files = append(out.Files, PolicySource{f.Name, string(f.Content)})
	}
	out.Directory, out.Bundles, out.Guards = cfg.Gate.Policies, g.Bundles(), g.Names()
	out.Rules, out.Tests = g.Rules(), cfg.Verification.PinnedTests
	return out, nil
}
