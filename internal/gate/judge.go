package gate

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/config"
	"github.com/rocketgpt/orchestrator/internal/fault"
	"github.com/rocketgpt/orchestrator/internal/gate/change"
	"github.com/rocketgpt/orchestrator/internal/gate/policy"
	"github.com/rocketgpt/orchestrator/internal/gate/review"
	"github.com/rocketgpt/orchestrator/internal/workspace"
)

// Gate judges changes with guards and policies. It is safe for concurrent use.
type Gate struct {
	guards []change.Guard
	engine *policy.Engine
	limits change.Limits
	labels policy.Labels
}

// New returns a gate as configured, with the guards of Guards. It reads and compiles the operator's
// policies: an error in them names file and line.
func New(ctx context.Context, cfg *config.Config) (*Gate, error) {
	guards, err := Guards(cfg)
	if err != nil {
		return nil, err
	}
	return NewWith(ctx, cfg, guards)
}

// NewWith returns a gate with these guards.
func NewWith(ctx context.Context, cfg *config.Config, guards []change.Guard) (*Gate, error) {
	operator, err := operatorModules(cfg)
	if err != nil {
		return nil, err
	}
	return assemble(ctx, cfg, guards, operator)
}

// newGate returns a gate as configured, with other policies in place of the operator's.
func newGate(ctx context.Context, cfg *config.Config, operator []policy.Module) (*Gate, error) {
	guards, err := Guards(cfg)
	if err != nil {
		return nil, err
	}
	return assemble(ctx, cfg, guards, operator)
}

func assemble(ctx context.Context, cfg *config.Config, guards []change.Guard, operator []policy.Module) (*Gate, error) {
	engine, err := policy.New(ctx, policy.Options{Bundle: cfg.Gate.Policy, Operator: operator, Timeout: cfg.Gate.Timeout, Memory: cfg.Gate.Memory.Int64()})
	if err != nil {
		return nil, err
	}
	g, l := cfg.Gate, cfg.Gate.Limits
	minAge := g.Dependencies.MinAge
	if !g.Dependencies.Lookup {
		minAge = 0
	}
	return &Gate{
		guards: guards, engine: engine,
		limits: change.Limits{
			Files: l.Files, Deletions: l.Deletions, Lines: l.Lines, FileBytes: l.FileBytes.Int64(), Bytes: l.Bytes.Int64(),
			Allowed: g.Allowed, Protected: cfg.Git.Protected, MinAge: minAge,
			Labels: change.Labels{Automerge: g.Labels.Automerge, NeedsApproval: g.Labels.Review, Blocked: g.Labels.Blocked},
		},
		labels: policy.Labels{Allowed: g.Labels.Allowed, Automerge: g.Labels.Automerge, Blocked: g.Labels.Blocked, Review: g.Labels.Review},
	}, nil
}

// operatorModules reads the operator's policies; nil if there are none.
func operatorModules(cfg *config.Config) ([]policy.Module, error) {
	if cfg.Gate.Policies == "" {
		return nil, nil
	}
	modules, err := policy.Load(cfg.Gate.Policies, false)
	if err != nil {
		return nil, fault.Wrap(err, contract.ClassConfig, contract.CodeInvalidConfig, "the operator's policies (gate.policies) cannot be read: %v", err)
	}
	return modules, nil
}

// Bundles returns the policies that the gate evaluates on each change, in addition to those of the
// repository.
func (g *Gate) Bundles() []policy.Bundle { return g.engine.Bundles() }

// Rules returns the limits, the paths and the labels' meanings that policies read.
func (g *Gate) Rules() policy.Rules {
	in := policy.NewInput(policy.StageCheck, change.Change{Limits: g.limits}, nil)
	in.Rules.Labels = g.labels
	return in.Rules
}

// Facts are what a gate must know about a change in addition to the change.
type Facts struct {
	Stage policy.Stage
	Run   policy.Run
	// Approvals are those that people gave for this change. The caller keeps those for other content
	// away; only an approval of a finding names the content that it is for.
	Approvals []policy.Approval
	// Base is the tree of the run's base commit, which contains the repository's policies. Nil: the
	// change's own base. It is required at the stages step and repair, where the change's base may
	// contain earlier changes of the run.
	Base change.Tree
	// Review is what is known about a review of the change; nil: none is made here.
	Review *Review
}

// Review is what is known about a review of a change.
type Review struct {
	policy.Review
	// Findings are what the review adds.
	Findings []change.Finding
}

// missing reports whether a review is required that has not been tried. A change that is denied needs
// none.
func (r *Review) missing(v policy.Verdict) bool {
	return r != nil && !r.Made && !r.Failed && v.Decision != policy.Deny && (r.Mode == contract.ReviewOn || v.Review)
}

// Judge runs the guards on a change and evaluates the policies on what they found. The change's
// limits are replaced by the configured ones. An error means that there is no verdict.
func (g *Gate) Judge(ctx context.Context, c change.Change, f Facts) (policy.Verdict, error) {
	j, err := g.Decide(ctx, c, f)
	return j.Verdict, err
}

// Judgement is a verdict with all that it was made of, so that it can be explained, and other policies
// can judge the same.
type Judgement struct {
	Verdict  policy.Verdict
	Findings []change.Finding
	Input    policy.Input
	// Repository are the policies of the base commit.
	Repository policy.RepositoryPolicies
	// Data are the digests of what guards know besides their code, by the guard's name.
	Data map[string]string
}

// Decide is Judge that also returns what the guards found and the policies read.
func (g *Gate) Decide(ctx context.Context, c change.Change, f Facts) (Judgement, error) {
	base := f.Base
	if base == nil {
		if f.Stage == policy.StageStep || f.Stage == policy.StageRepair {
			return Judgement{}, errors.New("judge a change: the tree of the run's base commit is required")
		}
		base = c.Base
	}
	c.Limits = g.limits
	found, err := g.findings(ctx, c)
	if err != nil {
		return Judgement{}, err
	}
	if f.Review != nil {
		found = append(found, f.Review.Findings...)
	}
	var own policy.RepositoryPolicies
	if base != nil {
		if own, err = policy.ReadRepository(ctx, base); err != nil {
			return Judgement{}, err
		}
	}
	v, in, err := g.evaluate(ctx, c, found, f, own)
	if err == nil && f.Review.missing(v) {
		found = append(found, review.Missing())
		v, in, err = g.evaluate(ctx, c, found, f, own)
	}
	if err != nil {
		return Judgement{}, fmt.Errorf("judge a change: %w", err)
	}
	return Judgement{Verdict: v, Findings: found, Input: in, Repository: own, Data: g.Data()}, nil
}

// planned are the names of the guards that can judge a plan: files without contents, and texts.
var planned = []string{"secrets", "rewrite", "labels", "injection"}

// DecidePlan judges the change that a plan announces, at the stage plan: its files have no contents, and
// its texts are those of the plan. Policies of a repository do not judge it.
func (g *Gate) DecidePlan(ctx context.Context, c change.Change, run policy.Run) (Judgement, error) {
	c.Limits = g.limits
	found, err := Findings(ctx, slices.DeleteFunc(slices.Clone(g.guards), func(guard change.Guard) bool { return !slices.Contains(planned, guard.Name()) }), c)
	if err != nil {
		return Judgement{}, err
	}
	v, in, err := g.evaluate(ctx, c, found, Facts{Stage: policy.StagePlan, Run: run}, policy.RepositoryPolicies{})
	if err != nil {
		return Judgement{}, fmt.Errorf("judge a plan: %w", err)
	}
	return Judgement{Verdict: v, Findings: found, Input: in}, nil
}

// evaluate evaluates the policies on what was found in a change.
func (g *Gate) evaluate(ctx context.Context, c change.Change, found []change.Finding, f Facts, own policy.RepositoryPolicies) (policy.Verdict, policy.Input, error) {
	in := policy.NewInput(f.Stage, c, found)
	in.Run, in.Approvals, in.Rules.Labels = f.Run, f.Approvals, g.labels
	if f.Review != nil {
		in.Review = f.Review.Review
	}
	v, err := g.engine.Judge(ctx, in, own)
	return v, in, err
}

// earlierCommit says what to do about a finding in an earlier commit.
const earlierCommit = " (in a commit that a later one changes; it would be published all the same, and a repair cannot change it: " +
	"do the steps of the run again, with rgpt run replay RUN --phase builder)"

// findings runs the guards on a change, and those that look for what must not be published on its
// earlier states: a commit that takes something back does not unpublish it.
func (g *Gate) findings(ctx context.Context, c change.Change) ([]change.Finding, error) {
	found, err := Findings(ctx, g.guards, c)
	if err != nil || len(c.Earlier) == 0 {
		return found, err
	}
	published := slices.DeleteFunc(slices.Clone(g.guards), func(guard change.Guard) bool { return !slices.Contains(publication, guard.Name()) })
	for _, read := range c.Earlier {
		earlier, err := read(ctx)
		if err != nil {
			return nil, err
		}
		earlier.Author, earlier.Limits, earlier.Plan, earlier.Labels = c.Author, c.Limits, c.Plan, c.Labels
		more, err := Findings(ctx, published, earlier)
		if err != nil {
			return nil, err
		}
		for _, f := range more {
			if !slices.Contains(found, f) && !slices.Contains(amounts, f.Rule) {
				f.Message += earlierCommit
				found = append(found, f)
			}
		}
	}
	return found, nil
}

// Tree returns the tree of a workspace, for Facts.
func Tree(m *workspace.Manager, w contract.Workspace) change.Tree {
	return &tree{manager: m, workspace: w}
}
