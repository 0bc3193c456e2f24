package control

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/config"
	"github.com/rocketgpt/orchestrator/internal/fault"
	"github.com/rocketgpt/orchestrator/internal/gate"
	"github.com/rocketgpt/orchestrator/internal/gate/explain"
	"github.com/rocketgpt/orchestrator/internal/gate/policy"
	"github.com/rocketgpt/orchestrator/internal/runs/verdict"
	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/internal/store/verdicts"
)

// current returns r with the settings of the gate that apply to new runs now. If they cannot be read,
// no run is created: it would be judged by settings that the operator has replaced.
func (r *Runs) current() (*Runs, error) {
	if r.Reload == nil {
		return r, nil
	}
	now, err := r.Reload()
	if err != nil {
		return nil, err
	}
	out, cfg := r.apart(), *r.Config
	cfg.Gate = now.Gate
	out.Config = &cfg
	return out, nil
}

// gateSettings returns the settings of the policy gate for a new run, and stores the operator's policies,
// which the run keeps even if their files change.
func (r *Runs) gateSettings(ctx context.Context, cfg *config.Config) (*contract.GateSettings, error) {
	s := gate.Settings(cfg)
	if s == nil {
		return nil, nil
	}
	if name := cfg.Gate.ReviewModel; s.Review != nil && name != "" {
		m, err := Model(cfg, name)
		if err != nil {
			return nil, fault.Wrap(err, contract.ClassConfig, contract.CodeInvalidConfig, "gate.review_model: %s", fault.Of(err).Message)
		}
		s.Review.Model = &m
	}
	digest, files, err := gate.OperatorPolicies(ctx, cfg)
	if err != nil || digest == "" {
		return s, err
	}
	s.Bundle = digest
	return s, verdicts.SavePolicies(ctx, r.Store, digest, files)
}

// NoteGate notes in the audit ledger the settings of the policy gate, if they have changed since a server
// started or a run was created the last time.
func (r *Runs) NoteGate(ctx context.Context) error {
	s, err := r.gateSettings(ctx, r.Config)
	if err != nil {
		return err
	}
	return r.noteGate(ctx, r.Config, s)
}

// noteGate is NoteGate for the operator's configuration, and settings of a run with the operator's policies.
func (r *Runs) noteGate(ctx context.Context, operator *config.Config, s *contract.GateSettings) error {
	settings, err := gate.Determinants(operator)
	if err != nil {
		return err
	}
	if s != nil && operator.Gate.Policy != config.GateOff && s.Bundle != "" {
		settings["gate.policies (content)"] = s.Bundle
	}
	return verdicts.SaveSettings(ctx, r.Store, settings)
}

// gateOfFork returns the settings of the policy gate for a fork: the operator's (see current), with the
// built-in policy of the forked run if that is stricter, and reviewed if the forked run is.
func (r *Runs) gateOfFork(ctx context.Context, old *contract.GateSettings) (*contract.GateSettings, error) {
	s, err := r.gateSettings(ctx, r.Config)
	if err != nil || s == nil || old == nil {
		return s, err
	}
	strictness := policy.Names() // default, strict, permissive
	if old.Policy == policy.Strict || slices.Contains(strictness, old.Policy) && s.Policy == policy.Permissive {
		s.Policy = old.Policy
	}
	if modes := contract.ReviewModes(); old.Review != nil && (s.Review == nil || slices.Index(modes, old.Review.Mode) < slices.Index(modes, s.Review.Mode)) {
		s.Review = old.Review
	}
	if s.Dependencies != nil && old.Dependencies != nil {
		s.Dependencies.MinAge = max(s.Dependencies.MinAge, old.Dependencies.MinAge)
	}
	s.Approver = cmp.Or(s.Approver, old.Approver)
	if old.Policy != "" { // what the forked run's repository or request made stricter
		stricter(s, *old)
	}
	return s, nil
}

// stricter gives settings the limits, paths, tests and labels of others where those are stricter.
func stricter(s *contract.GateSettings, old contract.GateSettings) {
	s.Limits.Files, s.Limits.Deletions, s.Limits.Lines = lower(s.Limits.Files, old.Limits.Files), lower(s.Limits.Deletions, old.Limits.Deletions), lower(s.Limits.Lines, old.Limits.Lines)
	s.Limits.FileBytes, s.Limits.Bytes = lower(s.Limits.FileBytes, old.Limits.FileBytes), lower(s.Limits.Bytes, old.Limits.Bytes)
	s.Limits.Allowed = narrower(s.Limits.Allowed, old.Limits.Allowed)
	if old.Tests == string(verdict.PinnedEnforce) {
		s.Tests = old.Tests
	}
	l := &s.LabelRules
	l.Allowed = narrower(l.Allowed, old.LabelRules.Allowed)
	l.Blocked, l.Review = union(l.Blocked, old.LabelRules.Blocked), union(l.Review, old.LabelRules.Review)
	l.Automerge = slices.DeleteFunc(slices.Clone(l.Automerge), func(name string) bool { return !slices.Contains(old.LabelRules.Automerge, name) })
}

// lower returns the lower of two limits; 0 is none.
func lower[N int | int64](a, b N) N {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}

// narrower returns the entries of a list that are in another, too; an empty list contains everything. If
// they have no entry in common, it is the old one.
func narrower(now, old []string) []string {
	switch {
	case len(old) == 0:
		return now
	case len(now) == 0:
		return old
	}
	both := slices.DeleteFunc(slices.Clone(now), func(entry string) bool { return !slices.Contains(old, entry) })
	if len(both) == 0 {
		return old
	}
	return both
}

// union returns the entries of both lists.
func union(a, b []string) []string {
	out := slices.Clone(a)
	for _, entry := range b {
		if !slices.Contains(out, entry) {
			out = append(out, entry)
		}
	}
	return out
}

// GateRetrial is a verdict of the policy gate, and what other policies decide about the same change.
type GateRetrial struct {
	VerdictID int64                 `json:"verdict_id"`
	Stage     contract.GateStage    `json:"stage"`
	Step      string                `json:"step,omitempty"`
	Before    contract.GateDecision `json:"before"`
	Now       contract.GateDecision `json:"now"`
	// Reasons are those of the new decision, without what is only information.
	Reasons []contract.GateReason `json:"reasons,omitempty"`
}

// change compares the decisions: a milder one is better.
func (g GateRetrial) change() string {
	order := []contract.GateDecision{contract.GateAllow, contract.GateNeedsApproval, contract.GateDeny}
	switch before, now := slices.Index(order, g.Before), slices.Index(order, g.Now); {
	case now < before:
		return "better"
	case now > before:
		return "worse"
	default:
		return "same"
	}
}

// rejudgeGate judges the changes that the gate judged, by the policies of rules.
func (r *Runs) rejudgeGate(ctx context.Context, out *Retrials, run store.Run, rules Rules) error {
	all, err := verdicts.Of(ctx, r.Store, run.ID)
	if err != nil {
		return err
	}
	if len(all) == 0 || run.Settings.Gate == nil {
		if rules.Policy != "" || rules.Policies != nil {
			out.Notes = append(out.Notes, "the policy gate judged no change of this run")
		}
		return nil
	}
	engine, err := explain.Engine(ctx, r.Store, *run.Settings.Gate, r.Config.Gate, rules.Policy, rules.Policies)
	if err != nil {
		return err
	}
	out.Policy = cmp.Or(rules.Policy, run.Settings.Gate.Policy)
	left := 0
	for _, v := range all {
		c, ok, err := explain.Load(ctx, r.Store, v)
		if err != nil {
			return err
		}
		if !ok {
			left++
			continue
		}
		now, err := c.Judge(ctx, engine)
		if err != nil {
			return err
		}
		g := &GateRetrial{VerdictID: v.ID, Stage: v.Stage, Step: v.Step, Before: v.Decision, Now: contract.GateDecision(now.Decision)}
		for _, reason := range now.Reasons {
			if reason.Decision != policy.Allow {
				g.Reasons = append(g.Reasons, explain.Reason(reason))
			}
		}
		out.Retrials = append(out.Retrials, Retrial{
			What: "gate", ExecutionID: v.ExecutionID, Before: Opinion{OK: g.Before == contract.GateAllow}, Now: Opinion{OK: g.Now == contract.GateAllow}, Gate: g,
		})
	}
	if left > 0 {
		out.Notes = append(out.Notes, fmt.Sprintf("%d verdicts of the policy gate are of an earlier version, which did not keep what they were based on", left))
	}
	return nil
}

// ExplainGate explains the verdicts of the policy gate about the changes of a run, oldest first, or one
// of them. A run without a gate has none.
func (r *Runs) ExplainGate(ctx context.Context, runID, verdictID int64) ([]explain.Explanation, error) {
	run, err := r.Store.Run(ctx, runID)
	if err != nil {
		return nil, err
	}
	all, err := verdicts.Of(ctx, r.Store, runID)
	if err != nil {
		return nil, err
	}
	if verdictID != 0 {
		all = slices.DeleteFunc(all, func(v contract.GateRecord) bool { return v.ID != verdictID })
	}
	if len(all) == 0 && verdictID != 0 {
		return nil, fault.Wrap(store.ErrNotFound, contract.ClassHuman, store.CodeNotFound, "run %d has no verdict %d; rgpt run inspect %d lists its verdicts", runID, verdictID, runID)
	}
	if len(all) == 0 || run.Settings.Gate == nil {
		return nil, nil
	}
	engine, err := explain.Engine(ctx, r.Store, *run.Settings.Gate, r.Config.Gate, "", nil)
	if err != nil {
		return nil, err
	}
	out := make([]explain.Explanation, 0, len(all))
	for _, v := range all {
		c, ok, err := explain.Load(ctx, r.Store, v)
		if err != nil {
			return nil, err
		}
		if !ok {
			return nil, refused("verdict %d of run %d is of an earlier version, which did not keep what it was based on; rgpt run inspect %d shows its reasons", v.ID, runID, runID)
		}
		e, err := c.Explain(ctx, engine)
		if err != nil {
			return nil, err
		}
		out = append(out, e)
	}
	return out, nil
}
