package gate

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"go.yaml.in/yaml/v3"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/config"
	"github.com/rocketgpt/orchestrator/internal/gate/policy"
)

// judgement changes whenever the guards or the built-in policies judge differently, so that verdicts of
// earlier versions are not taken for current ones.
const judgement = 4

// Settings returns the settings of the gate that a run keeps, without the digest of the operator's
// policies and the reviewer's model.
func Settings(cfg *config.Config) *contract.GateSettings {
	if cfg.Gate.Policy == config.GateOff {
		return nil
	}
	g, l := cfg.Gate, cfg.Gate.Limits
	approver := g.Approver
	if approver == config.ApproverAnyone {
		approver = ""
	}
	return &contract.GateSettings{
		Approver: approver, Review: reviewSettings(g), Policy: g.Policy, Tests: cfg.Verification.PinnedTests,
		Dependencies: dependencySettings(g.Dependencies),
		Limits: contract.GateLimits{
			Files: l.Files, Deletions: l.Deletions, Lines: l.Lines, FileBytes: l.FileBytes.Int64(), Bytes: l.Bytes.Int64(), Allowed: g.Allowed,
		},
		LabelRules: contract.GateLabelRules{Allowed: g.Labels.Allowed, Automerge: g.Labels.Automerge, Blocked: g.Labels.Blocked, Review: g.Labels.Review},
	}
}

// dependencySettings returns the settings of questions to registries; nil: they are not asked.
func dependencySettings(d config.GateDependencies) *contract.GateDependencies {
	if !d.Lookup {
		return nil
	}
	return &contract.GateDependencies{MinAge: d.MinAge}
}

// Determinants returns the settings of an operator on which verdicts about changes depend, values by key.
func Determinants(cfg *config.Config) (map[string]any, error) {
	raw, err := yaml.Marshal(map[string]any{
		"gate": cfg.Gate, "verification": map[string]any{"pinned_tests": cfg.Verification.PinnedTests}, "git": map[string]any{"protected": cfg.Git.Protected},
	})
	if err != nil {
		return nil, fmt.Errorf("encode the settings of the policy gate: %w", err)
	}
	var tree map[string]any
	if err := yaml.Unmarshal(raw, &tree); err != nil {
		return nil, fmt.Errorf("read the settings of the policy gate: %w", err)
	}
	out := map[string]any{}
	flatten(out, "", tree)
	return out, nil
}

// flatten adds the values of a tree of settings, with their keys joined by dots.
func flatten(out map[string]any, prefix string, tree map[string]any) {
	for key, value := range tree {
		if section, ok := value.(map[string]any); ok {
			flatten(out, prefix+key+".", section)
			continue
		}
		out[prefix+key] = value
	}
}

// reviewSettings returns the settings of reviews, without the model; nil: there are none.
func reviewSettings(g config.Gate) *contract.ReviewSettings {
	if g.Review == contract.ReviewOff {
		return nil
	}
	return &contract.ReviewSettings{Mode: g.Review, Rounds: g.ReviewRounds, DiffBytes: int(g.ReviewDiff.Int64()), Timeout: g.ReviewTimeout}
}

// OfRun returns the gate of a run: with the settings and the operator's policies (contents by name)
// that the run began with, and the limits of evaluation of this host.
func OfRun(ctx context.Context, s contract.GateSettings, protected []string, operator map[string]string, host config.Gate) (*Gate, error) {
	cfg := config.Default()
	cfg.Gate = host
	cfg.Gate.Policy, cfg.Gate.Allowed, cfg.Git.Protected = s.Policy, s.Limits.Allowed, protected
	cfg.Gate.Limits = config.GateLimits{
		Files: s.Limits.Files, Deletions: s.Limits.Deletions, Lines: s.Limits.Lines,
		FileBytes: config.Size(s.Limits.FileBytes), Bytes: config.Size(s.Limits.Bytes),
	}
	r := s.LabelRules
	cfg.Gate.Labels = config.GateLabels{Allowed: r.Allowed, Automerge: r.Automerge, Blocked: r.Blocked, Review: r.Review}
	cfg.Verification.PinnedTests = s.Tests
	if cfg.Gate.Dependencies.Lookup = s.Dependencies != nil; s.Dependencies != nil {
		cfg.Gate.Dependencies.MinAge = s.Dependencies.MinAge
	}
	var modules []policy.Module
	for _, name := range slices.Sorted(maps.Keys(operator)) {
		modules = append(modules, policy.Module{Name: name, Content: []byte(operator[name])})
	}
	return newGate(ctx, cfg, modules)
}

// OperatorPolicies returns the operator's policies, contents by name, with their digest; nothing if
// there are none. They have been compiled: an error names file and line.
func OperatorPolicies(ctx context.Context, cfg *config.Config) (digest string, files map[string]string, err error) {
	if cfg.Gate.Policies == "" || cfg.Gate.Policy == config.GateOff {
		return "", nil, nil
	}
	modules, err := operatorModules(cfg)
	if err != nil {
		return "", nil, err
	}
	if _, err := newGate(ctx, cfg, modules); err != nil {
		return "", nil, err
	}
	files = map[string]string{}
	for _, m := range modules {
		files[m.Name] = string(m.Content)
	}
	digest, err = digestOf(files)
	return digest, files, err
}

// Digest identifies all that decides about a change besides the change: guards, policies, limits and
// labels' meanings.
func (g *Gate) Digest() (string, error) {
	return digestOf(struct {
		Version int
		Bundles []policy.Bundle
		Limits  any
		Labels  any
		Guards  []string
	}{judgement, g.Bundles(), g.limits, g.labels, g.Names()})
}

// Data are the digests of what guards know besides their code, such as the advisories of the guard
// dependencies, by the guard's name. They are not a part of Digest: newer advisories do not change a
// verdict that a person may have approved.
func (g *Gate) Data() map[string]string {
	digests := map[string]string{}
	for _, guard := range g.guards {
		if d, ok := guard.(interface{ Digest() string }); ok && d.Digest() != "" {
			digests[guard.Name()] = "sha256:" + d.Digest()
		}
	}
	return digests
}

// Names returns the names of the guards.
func (g *Gate) Names() []string {
	names := make([]string, len(g.guards))
	for i, guard := range g.guards {
		names[i] = guard.Name()
	}
	return names
}

func digestOf(v any) (string, error) {
	raw, err := json.Marshal(v)
	if err != nil {
		return "", fmt.Errorf("encode for a digest: %w", err)
	}
	sum := sha256.Sum256(raw)
	return "sha256:" + hex.EncodeToString(sum[:]), nil
}
