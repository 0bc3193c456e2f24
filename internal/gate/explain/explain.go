// Package explain explains stored verdicts of the policy gate, and judges the same changes by other
// policies. It reads no repository: a verdict is stored with what the policies read.
package explain

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/config"
	"github.com/rocketgpt/orchestrator/internal/gate"
	"github.com/rocketgpt/orchestrator/internal/gate/policy"
	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/internal/store/verdicts"
	"github.com/rocketgpt/orchestrator/internal/telemetry"
)

// Basis returns what a judgement was based on, for storing: without secrets.
func Basis(j gate.Judgement) (verdicts.Basis, error) {
	raw, err := json.Marshal(j.Input.Redacted(telemetry.Redact))
	if err != nil {
		return verdicts.Basis{}, fmt.Errorf("encode the input of the policies: %w", err)
	}
	b := verdicts.Basis{Input: raw, Repository: j.Repository.Digest(), Files: map[string]string{}, Refused: j.Repository.Refused()}
	for _, m := range j.Repository.Modules() {
		b.Files[m.Name] = string(m.Content)
	}
	return b, nil
}

// Reason returns a reason of a verdict as it is stored.
func Reason(r policy.Reason) contract.GateReason {
	return contract.GateReason{
		Decision: contract.GateDecision(r.Decision), ID: r.ID, Source: r.Source, Waived: r.Waived, Guard: r.Guard, Rule: r.Rule,
		Path: r.Path, Line: r.Line, Text: r.Text, Approver: r.Approver,
	}
}

// Case is what the policies read for a stored verdict.
type Case struct {
	Record     contract.GateRecord
	Input      policy.Input
	repository policy.RepositoryPolicies
}

// Load returns the case of a verdict; false if the verdict is older than the version that keeps cases.
func Load(ctx context.Context, st *store.Store, v contract.GateRecord) (Case, bool, error) {
	basis, ok, err := verdicts.BasisOf(ctx, st, v.RunID, v.ID)
	if err != nil || !ok {
		return Case{}, false, err
	}
	c := Case{Record: v, repository: policy.RecordedPolicies(modules(basis.Files), basis.Refused)}
	if err := json.Unmarshal(basis.Input, &c.Input); err != nil {
		return Case{}, false, fmt.Errorf("read what verdict %d was based on: %w", v.ID, err)
	}
	return c, true, nil
}

// Engine returns the policies of a run: its built-in one and the operator's that it began with, with
// the limits of evaluation of this host. Empty arguments are replaced by those of the run: bundle by
// its built-in policy, operator (contents by name; nil, not empty) by its operator's policies. Policies
// that are given are those of others: another process with a memory limit evaluates them.
func Engine(ctx context.Context, st *store.Store, s contract.GateSettings, host config.Gate, bundle string, operator map[string]string) (*policy.Engine, error) {
	if bundle == "" {
		bundle = s.Policy
	}
	foreign := operator != nil
	if operator == nil && s.Bundle != "" {
		var err error
		if operator, err = verdicts.Policies(ctx, st, s.Bundle); err != nil {
			return nil, err
		}
	}
	return policy.New(ctx, policy.Options{Bundle: bundle, Operator: modules(operator), Foreign: foreign, Timeout: host.Timeout, Memory: host.Memory.Int64()})
}

func modules(files map[string]string) (out []policy.Module) {
	for _, name := range slices.Sorted(maps.Keys(files)) {
		out = append(out, policy.Module{Name: name, Content: []byte(files[name])})
	}
	return out
}

// Judge judges the case by other policies.
func (c Case) Judge(ctx context.Context, e *policy.Engine) (policy.Verdict, error) {
	return e.Judge(ctx, c.Input, c.repository)
}

// Explanation says how a verdict came about.
type Explanation struct {
	Verdict contract.GateRecord `json:"verdict"`
	// Totals are those of the change, and Files its first files.
	Totals policy.Totals `json:"totals"`
	Files  []policy.File `json:"files"`
	// Findings are what the guards found, each with what the policies made of it.
	Findings []JudgedFinding `json:"findings"`
	// Others are reasons without a finding.
	Others []GivenReason `json:"others"`
	// Changed says that the policies of this version differ from those that decided. The rules are
	// then those of this version, and Now is what they decide.
	Changed bool                  `json:"changed"`
	Now     contract.GateDecision `json:"now"`
}

// JudgedFinding is a finding with the reasons that it led to.
type JudgedFinding struct {
	policy.Finding
	Given []GivenReason `json:"given"`
}

// GivenReason is a reason with the rules that gave it, as file:line. A repository's rules are not known.
type GivenReason struct {
	contract.GateReason
	Rules []string `json:"rules,omitempty"`
}

// MaxFiles is the number of files in an Explanation.
const MaxFiles = 200

// Explain returns how the verdict came about, with the run's policies (Engine).
func (c Case) Explain(ctx context.Context, e *policy.Engine) (Explanation, error) {
	now, origins, err := e.Explain(ctx, c.Input, c.repository)
	if err != nil {
		return Explanation{}, err
	}
	out := Explanation{
		Verdict: c.Record, Totals: c.Input.Change.Totals, Files: c.Input.Change.Files, Now: contract.GateDecision(now.Decision),
		Findings: []JudgedFinding{}, Others: []GivenReason{},
	}
	out.Files = out.Files[:min(len(out.Files), MaxFiles)]
	for _, b := range now.Bundles {
		out.Changed = out.Changed || c.Record.Policies[b.Name] != b.Digest
	}
	given := map[string][]GivenReason{}
	for _, r := range now.Reasons {
		given[r.ID] = append(given[r.ID], GivenReason{Reason(r), origins.Of(r)})
	}
	for _, f := range c.Input.Findings {
		out.Findings = append(out.Findings, JudgedFinding{f, append([]GivenReason{}, given[f.ID]...)})
		given[f.ID] = nil
	}
	for _, r := range now.Reasons {
		out.Others = append(out.Others, given[r.ID]...)
		given[r.ID] = nil
	}
	return out, nil
}
