package activities

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/fault"
	"github.com/rocketgpt/orchestrator/internal/gate"
	"github.com/rocketgpt/orchestrator/internal/gate/change"
	"github.com/rocketgpt/orchestrator/internal/gate/explain"
	"github.com/rocketgpt/orchestrator/internal/gate/policy"
	"github.com/rocketgpt/orchestrator/internal/gate/releases"
	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/internal/store/verdicts"
	"github.com/rocketgpt/orchestrator/internal/telemetry"
)

// JudgeChange judges a change by guards and policies, and stores the verdict with its event. A change
// that the same policies have judged before gets the same verdict, without being read again.
func (a *Activities) JudgeChange(ctx context.Context, in contract.GateInput) (contract.GateVerdict, error) {
	if in.LocalOnly && !a.Workspaces.Cached(in.To.Repo, in.To.Base) {
		return contract.GateVerdict{Cold: true}, nil
	}
	run, err := a.Store.Run(ctx, in.Execution.RunID)
	if err != nil {
		return contract.GateVerdict{}, err
	}
	if run.Settings.Gate == nil {
		return contract.GateVerdict{}, fault.New(contract.ClassRuntime, contract.CodeUnknown, "run %d has no policy gate", run.ID)
	}
	if in.LocalOnly && in.Stage == contract.GateRelease && otherBase(run) {
		return contract.GateVerdict{Cold: true}, nil // the forge must be asked
	}
	j, err := a.gateCase(ctx, run, in)
	if err != nil {
		return contract.GateVerdict{}, err
	}
	v, err := j.verdict(ctx)
	if errors.Is(err, errLookups) {
		return contract.GateVerdict{Cold: true}, nil
	}
	out := slim(v, run.Settings.Gate.Approver)
	if err == nil && in.Stage == contract.GateRelease {
		err = a.addPeople(ctx, run, &out)
	}
	return out, err
}

// addPeople adds to a verdict about a release the person who has approved it before, and the authors of the change.
func (a *Activities) addPeople(ctx context.Context, run store.Run, v *contract.GateVerdict) (err error) {
	if v.ApprovedBy, err = verdicts.ApprovedBy(ctx, a.Store, run.ID, v.Subject, v.ID); err != nil || v.Approver != contract.ApproverNotAuthor {
		return err
	}
	known, err := verdicts.Authors(ctx, a.Store, run)
	v.Authors = known[:min(len(known), contract.MaxGateAuthors)]
	return err
}

// verdict returns the stored verdict, or judges the change: for the first time, or because the policies
// of this version are others than those that judged it.
func (j *gateCase) verdict(ctx context.Context) (contract.GateRecord, error) {
	st, stage := j.activities.Store, string(j.in.Stage)
	known, found, err := verdicts.Find(ctx, st, j.key)
	if err != nil || found {
		return known, err
	}
	started := time.Now()
	record, basis, err := j.decide(ctx)
	if err != nil {
		return record, err
	}
	telemetry.GateDuration.WithLabelValues(stage).Observe(time.Since(started).Seconds())
	stored, err := verdicts.Save(ctx, st, j.key.Policy, record, basis)
	if err == nil {
		telemetry.Verdicts.WithLabelValues(stage, string(stored.Decision)).Inc()
	}
	return stored, err
}

// unchanged reports whether no state that would be published differs from where the change begins.
func (j *gateCase) unchanged() bool {
	return j.in.To.Tree == j.in.From.Tree && !slices.ContainsFunc(j.in.Stages, func(w contract.Workspace) bool { return w.Tree != j.in.From.Tree })
}

// slim returns what the workflow needs of a verdict. approver is the restriction of the settings of the run.
func slim(v contract.GateRecord, approver string) contract.GateVerdict {
	out := contract.GateVerdict{ID: v.ID, Decision: v.Decision, Subject: v.Subject, Approver: approverOf(v, approver)}
	for _, r := range v.Reasons {
		if r.Decision == contract.GateAllow {
			continue
		}
		if out.Total++; out.Total <= contract.MaxGateReasons {
			r.Text, r.ID, r.Source = clipped(r.Text, causeBytes), "", "" // the history need not grow by them
			out.Reasons = append(out.Reasons, r)
		}
	}
	return out
}

// approverOf returns the restriction of the approvers of a change: that of the settings, or of a reason of the verdict.
func approverOf(v contract.GateRecord, approver string) string {
	for _, r := range v.Reasons {
		if r.Decision == contract.GateNeedsApproval {
			approver = cmp.Or(approver, r.Approver)
		}
	}
	return approver
}

// gateCase is a change with all that decides about it.
type gateCase struct {
	activities *Activities
	gate       *gate.Gate
	in         contract.GateInput
	run        store.Run
	texts      []change.Text
	said       change.Plan
	author     change.Role
	key        verdicts.Key
	review     *gate.Review // of the change; nil: none is made
	carried    *change.Carried
}

// authors are the authors of the changes of the stages.
var authors = map[contract.GateStage]change.Role{
	contract.GateStep: change.RoleBuilder, contract.GateRepair: change.RoleRepair, contract.GateRelease: change.RoleRun,
}

// gateCase prepares the judgement of a change.
func (a *Activities) gateCase(ctx context.Context, run store.Run, in contract.GateInput) (*gateCase, error) {
	g, err := a.gateOf(ctx, run)
	if err != nil {
		return nil, err
	}
	j := &gateCase{activities: a, gate: g, in: in, run: run, author: authors[in.Stage]}
	if j.texts, err = a.published(ctx, in); err != nil {
		return nil, err
	}
	if j.said, err = j.plan(ctx); err != nil {
		return nil, err
	}
	if err := j.reviewOf(ctx); err != nil {
		return nil, err
	}
	if in.Stage == contract.GateRelease {
		if j.carried, err = a.carried(ctx, run); err != nil {
			return nil, err
		}
	}
	subject, err := j.subject()
	if err != nil {
		return nil, err
	}
	j.key = verdicts.Key{RunID: run.ID, Stage: in.Stage, Subject: subject}
	j.key.Policy, err = g.Digest()
	return j, err
}

// gateOf returns the gate of a run: its settings are those of the run, and the operator's policies
// those that the run began with.
func (a *Activities) gateOf(ctx context.Context, run store.Run) (*gate.Gate, error) {
	var operator map[string]string
	if bundle := run.Settings.Gate.Bundle; bundle != "" {
		var err error
		if operator, err = verdicts.Policies(ctx, a.Store, bundle); err != nil {
			return nil, err
		}
	}
	return gate.OfRun(ctx, *run.Settings.Gate, run.Settings.Release.Protected, operator, a.Config.Gate)
}

// published returns the texts that a release publishes besides files: the messages of its commits.
func (a *Activities) published(ctx context.Context, in contract.GateInput) ([]change.Text, error) {
	if in.Stage != contract.GateRelease {
		return nil, nil
	}
	messages, err := a.commitMessages(ctx, contract.ReleaseInput{Execution: in.Execution, PlanID: in.PlanID, Credits: in.Credits})
	if err != nil {
		return nil, err
	}
	out := make([]change.Text, len(messages))
	for i, m := range messages {
		out[i] = change.Text{Name: "commit message of " + in.Credits[i].Step, Content: m.Subject + "\n\n" + m.Body}
	}
	return out, nil
}

// subject returns the digest of all that is judged: the trees, the commits between them, the texts and
// the labels.
func (j *gateCase) subject() (string, error) {
	trees := []string{j.in.From.Tree}
	for _, s := range j.in.Stages {
		trees = append(trees, s.Tree)
	}
	raw, err := json.Marshal(struct {
		Stage   contract.GateStage
		Author  change.Role
		Trees   []string
		Texts   []change.Text
		Labels  []string
		Plan    change.Plan
		Model   string
		Review  *gate.Review    `json:",omitempty"`
		Carried *change.Carried `json:",omitempty"`
	}{j.in.Stage, j.author, append(trees, j.in.To.Tree), j.texts, labelsOf(j.run), j.said, j.model(), j.review, j.carried})
	if err != nil {
		return "", fmt.Errorf("encode what is judged: %w", err)
	}
	sum := sha256.Sum256(raw)
	return "sha256:" + hex.EncodeToString(sum[:]), nil
}

// labelsOf returns the labels of a run, nil if it has none: as encoded by versions without labels.
func labelsOf(run store.Run) []string {
	if len(run.Labels) == 0 {
		return nil
	}
	return run.Labels
}

// judge reads the change and judges it, without storing anything.
func (j *gateCase) judge(ctx context.Context) (gate.Judgement, change.Change, error) {
	c, err := j.change(ctx)
	if err != nil {
		return gate.Judgement{}, c, err
	}
	if err := j.dependencies(ctx, &c); err != nil {
		return gate.Judgement{}, c, err
	}
	settings := j.run.Settings
	judged, err := j.gate.Decide(ctx, c, gate.Facts{
		Stage: policy.Stage(j.in.Stage), Base: gate.Tree(j.activities.Workspaces, settings.Repo.Workspace().Of(j.in.To)),
		Run: policy.Run{
			ID: j.run.ID, Project: telemetry.Redact(settings.Repo.URL), Pushes: contract.Pushes(settings.Repo, settings.Release), Model: j.model(),
		},
		Review: j.review,
	})
	return judged, c, err
}

// errLookups says that registries must be asked, which takes too long for a local activity.
var errLookups = errors.New("registries must be asked about added dependencies")

// dependencies adds to a change what registries say about the dependencies that it adds.
func (j *gateCase) dependencies(ctx context.Context, c *change.Change) error {
	registries := j.activities.Registries
	switch {
	case j.run.Settings.Gate.Dependencies == nil:
		return nil
	case registries == nil:
		return releases.Unasked(ctx, c, "the worker is not allowed to ask registries, gate.dependencies.lookup")
	case j.in.LocalOnly:
		cached, err := registries.Cached(ctx, *c)
		if err != nil {
			return err
		}
		if !cached {
			return errLookups
		}
	}
	return registries.Lookup(ctx, c)
}

// decide judges the change.
func (j *gateCase) decide(ctx context.Context) (contract.GateRecord, verdicts.Basis, error) {
	judged, c, err := j.judge(ctx)
	if err != nil {
		return contract.GateRecord{}, verdicts.Basis{}, err
	}
	basis, err := explain.Basis(judged)
	if err != nil {
		return contract.GateRecord{}, verdicts.Basis{}, err
	}
	out := recordOf(judged, contract.GateRecord{
		RunID: j.run.ID, ExecutionID: j.in.Execution.ID, Stage: j.in.Stage, Step: j.in.Step, Author: string(j.author),
		Subject: j.key.Subject, From: j.in.From.Tree, Tree: j.in.To.Tree,
	})
	out.Files, out.FilesTotal = gateFiles(c)
	return out, basis, nil
}

// recordOf adds a judgement to the record of a verdict that says what was judged.
func recordOf(judged gate.Judgement, out contract.GateRecord) contract.GateRecord {
	verdict := judged.Verdict
	out.Decision, out.Automerge, out.Findings = contract.GateDecision(verdict.Decision), verdict.Automerge, judged.Findings
	out.Policies = map[string]string{}
	for _, b := range verdict.Bundles {
		out.Policies[b.Name] = b.Digest
	}
	for guard, digest := range judged.Data {
		out.Policies["data of "+guard] = digest
	}
	for _, r := range verdict.Reasons {
		out.Reasons = append(out.Reasons, explain.Reason(r))
	}
	return out
}

// gateFiles returns the first changed files of a change, and the number of all.
func gateFiles(c change.Change) (files []contract.GateFile, total int) {
	total = len(c.Files) + c.Unread
	for _, f := range policy.Files(c.Files[:min(len(c.Files), contract.MaxGateFiles)]) {
		files = append(files, contract.GateFile{Path: f.Path, From: f.From, Status: string(f.Status), Added: f.Added, Removed: f.Removed})
	}
	return files, total
}

// model names the model that made the change, if it was one.
func (j *gateCase) model() string {
	if j.in.Stage == contract.GateRelease {
		return ""
	}
	for _, agent := range []contract.Agent{j.in.Execution.Agent, contract.AgentBuilder} {
		if m, ok := j.run.Settings.Models[agent]; ok {
			return m.Provider + "/" + m.Model
		}
	}
	return ""
}

// change reads the change, with what the plan says about it. Each commit of a release is published,
// also what a later one takes back, so the guards see the changes of all of them.
func (j *gateCase) change(ctx context.Context) (change.Change, error) {
	from := j.in.From.Of(j.in.To)
	c, err := gate.Read(ctx, j.activities.Workspaces, from, j.in.To)
	if err != nil {
		return c, err
	}
	for _, stage := range j.in.Stages {
		if to := stage.Of(j.in.To); stage.Tree != j.in.To.Tree {
			c.Earlier = append(c.Earlier, func(ctx context.Context) (change.Change, error) {
				return gate.Read(ctx, j.activities.Workspaces, from, to)
			})
		}
	}
	c.Author, c.Texts, c.Labels, c.Plan, c.Carried = j.author, j.texts, j.run.Labels, j.said, j.carried
	return c, nil
}

// plan returns what the run's goal and plan say.
func (j *gateCase) plan(ctx context.Context) (change.Plan, error) {
	text := []string{j.run.GoalTitle, j.run.GoalDescription}
	out := change.Plan{}
	if j.in.PlanID != 0 {
		plan, err := j.activities.Store.PlanByID(ctx, j.run.ID, j.in.PlanID)
		if err != nil {
			return out, err
		}
		text = append(text, plan.Summary)
		for _, s := range plan.Steps {
			text = append(text, s.Name, s.Description)
			text = append(text, s.VerificationCriteria...)
			out.Files = append(out.Files, s.Files...)
		}
	}
	out.Text = strings.Join(text, "\n")
	return out, nil
}

// passedGate returns an error unless the gate has judged exactly this release and allowed it, or a
// person has approved exactly this.
func (a *Activities) passedGate(ctx context.Context, run store.Run, in contract.ReleaseInput) error {
	j, err := a.gateCase(ctx, run, contract.GateInput{
		Execution: in.Execution, Stage: contract.GateRelease, From: comparedWith(run, pushedBefore(in)), To: in.Workspace,
		Stages: in.Stages, Credits: in.Credits, PlanID: in.PlanID,
	})
	if err != nil {
		return err
	}
	if j.unchanged() {
		return nil // nothing would be published
	}
	if in.Gate != j.key.Subject {
		return fault.New(contract.ClassRuntime, contract.CodeStaleVerdict,
			"the policy gate has not judged what run %d would release (its files, commits or labels have changed since); nothing was released", run.ID)
	}
	v, err := j.verdict(ctx)
	switch {
	case err != nil:
		return err
	case v.Decision == contract.GateAllow:
		return a.ownApproval(ctx, run, in, in.ApprovedBy, run.Settings.Gate.Approver, v.ID)
	case v.Decision == contract.GateDeny:
		return fault.New(contract.ClassSafety, contract.CodeDenied, "the policy gate denied the release of run %d (verdict %d); nothing was released", run.ID, v.ID)
	}
	by, err := verdicts.ApprovedBy(ctx, a.Store, run.ID, v.Subject, 0)
	if err == nil {
		err = a.ownApproval(ctx, run, in, by, approverOf(v, run.Settings.Gate.Approver), v.ID)
	}
	if err == nil && contract.Nameless(by) {
		err = fault.New(contract.ClassHuman, contract.CodeRejected,
			"the release of run %d needs the approval of a named person (verdict %d); nothing was released", run.ID, v.ID)
	}
	return err
}

// ownApproval returns an error if an author of the change approved its release where that is restricted to
// others.
func (a *Activities) ownApproval(ctx context.Context, run store.Run, in contract.ReleaseInput, by, approver string, verdict int64) error {
	if approver != contract.ApproverNotAuthor || by == "" {
		return nil
	}
	stored, err := verdicts.Authors(ctx, a.Store, run)
	if err != nil {
		return err
	}
	for _, author := range slices.Concat(in.Authors, stored) {
		if contract.SamePerson(author, by) {
			return fault.New(contract.ClassHuman, contract.CodeRejected,
				"the release of run %d needs the approval of a person who is not an author of its change, and %s is one (verdict %d); nothing was released", run.ID, by, verdict)
		}
	}
	return nil
}

// deniedRepair returns why the policy gate refuses a repair; empty: it does not, or the run has no gate.
// errLookups means that it must be asked again without LocalOnly.
func (a *Activities) deniedRepair(ctx context.Context, in contract.JudgeInput) (string, error) {
	run, err := a.Store.Run(ctx, in.Execution.RunID)
	if err != nil || run.Settings.Gate == nil {
		return "", err
	}
	judged := []contract.GateInput{{
		Execution: in.Execution, Stage: contract.GateRepair, Step: in.Execution.Step, From: in.From, To: in.To, LocalOnly: in.LocalOnly,
	}}
	if in.StepFrom.Tree != "" { // the step failed before it was judged, and its change becomes part of the repair
		judged = append(judged, contract.GateInput{Execution: in.Execution, Stage: contract.GateStep, Step: in.Step, From: in.StepFrom, To: in.To, LocalOnly: in.LocalOnly})
	}
	for _, one := range judged {
		v, err := a.JudgeChange(ctx, one)
		if err != nil {
			return "", err
		}
		if v.Cold {
			return "", errLookups
		}
		if v.Decision == contract.GateDeny {
			return "the repair was discarded because the policy gate denied it: " + clipped(v.Summary(), causeBytes), nil
		}
	}
	return "", nil
}
