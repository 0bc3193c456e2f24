package activities

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/fault"
	"github.com/rocketgpt/orchestrator/internal/gate"
	"github.com/rocketgpt/orchestrator/internal/gate/change"
	"github.com/rocketgpt/orchestrator/internal/gate/explain"
	"github.com/rocketgpt/orchestrator/internal/gate/policy"
	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/internal/store/verdicts"
	"github.com/rocketgpt/orchestrator/internal/telemetry"
)

// judgePlan judges a plan that a person or a deliberation made, before the run uses it, and stores the
// verdict. A plan that is denied is an error of this class, with what to do. The repository is not
// read: its own policies judge what the steps change.
func (a *Activities) judgePlan(ctx context.Context, run store.Run, execution int64, author change.Role, plan contract.Plan, class contract.Class, code contract.Code) error {
	if run.Settings.Gate == nil {
		return nil
	}
	g, err := a.gateOf(ctx, run)
	if err != nil {
		return err
	}
	raw, err := json.Marshal(struct {
		Author change.Role
		Plan   contract.Plan
		Labels []string
	}{author, plan, labelsOf(run)})
	if err != nil {
		return fmt.Errorf("encode what is judged: %w", err)
	}
	sum := sha256.Sum256(raw)
	key := verdicts.Key{RunID: run.ID, Stage: contract.GatePlan, Subject: "sha256:" + hex.EncodeToString(sum[:])}
	if key.Policy, err = g.Digest(); err != nil {
		return err
	}
	record, found, err := verdicts.Find(ctx, a.Store, key)
	if err == nil && !found {
		record, err = a.decidePlan(ctx, g, run, execution, key, plannedChange(plan, author, run.Labels))
	}
	if err != nil || record.Decision != contract.GateDeny {
		return err
	}
	return fault.New(class, code, "the policy gate denied the plan: %s", slim(record, "").Summary())
}

// decidePlan judges the change that a plan announces, and stores the verdict.
func (a *Activities) decidePlan(ctx context.Context, g *gate.Gate, run store.Run, execution int64, key verdicts.Key, c change.Change) (contract.GateRecord, error) {
	judged, err := g.DecidePlan(ctx, c, policy.Run{
		ID: run.ID, Project: telemetry.Redact(run.Settings.Repo.URL), Pushes: contract.Pushes(run.Settings.Repo, run.Settings.Release),
	})
	if err != nil {
		return contract.GateRecord{}, err
	}
	basis, err := explain.Basis(judged)
	if err != nil {
		return contract.GateRecord{}, err
	}
	tree := run.Settings.Repo.Tree
	stored, err := verdicts.Save(ctx, a.Store, key.Policy, recordOf(judged, contract.GateRecord{
		RunID: run.ID, ExecutionID: execution, Stage: key.Stage, Author: string(c.Author), Subject: key.Subject, From: tree, Tree: tree,
	}), basis)
	if err == nil {
		telemetry.Verdicts.WithLabelValues(string(key.Stage), string(stored.Decision)).Inc()
	}
	return stored, err
}

// plannedChange is the change that a plan announces: files without contents, and all texts of the plan.
func plannedChange(plan contract.Plan, author change.Role, labels []string) change.Change {
	c := change.Change{Author: author, Labels: labels, Texts: []change.Text{{Name: "summary of the plan", Content: plan.Summary}}}
	paths := map[string]bool{}
	for _, s := range plan.Steps {
		c.Texts = append(c.Texts, change.Text{
			Name: "plan of " + s.ID, Content: strings.Join(append([]string{s.Name, s.Description}, s.VerificationCriteria...), "\n"),
		})
		for _, f := range s.Files {
			paths[f] = true
		}
	}
	for _, n := range plan.Notes {
		c.Texts = append(c.Texts, change.Text{Name: "note of the plan about " + n.Path, Content: n.Fact})
	}
	for _, e := range plan.Edits {
		c.Texts = append(c.Texts, change.Text{Name: "edit of the plan in " + e.Path, Content: e.NewText})
		paths[e.Path] = true
	}
	for _, p := range slices.Sorted(maps.Keys(paths)) {
		c.Files = append(c.Files, change.File{Path: p, After: change.Version{Mode: change.ModeFile, Digest: "planned"}})
	}
	return c
}
