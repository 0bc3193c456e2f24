package activities

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/fault"
	"github.com/rocketgpt/orchestrator/internal/gate"
	"github.com/rocketgpt/orchestrator/internal/gate/change"
	"github.com/rocketgpt/orchestrator/internal/gate/policy"
	"github.com/rocketgpt/orchestrator/internal/gate/review"
	"github.com/rocketgpt/orchestrator/internal/model"
	"github.com/rocketgpt/orchestrator/internal/prompt"
	"github.com/rocketgpt/orchestrator/internal/runs/followup"
	"github.com/rocketgpt/orchestrator/internal/runs/issue"
	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/internal/store/verdicts"
	"github.com/rocketgpt/orchestrator/internal/telemetry"
)

const (
	// reviewTurns is the number of calls in which a reviewer can give a usable response.
	reviewTurns = 2
	// reviewedDiff limits the diff that is read before it is fitted to what the reviewer sees.
	reviewedDiff = 16 << 20
	// reviewedPlan limits the plan that a reviewer sees, in bytes, and reviewedFiles and reviewedChecks
	// the files and checks.
	reviewedPlan, reviewedFiles, reviewedChecks = 16 << 10, 300, 50
	// shortFinding limits the texts of findings in histories, and shortFailure the reason of a failure.
	shortFinding, shortFailure = 300, 1000
)

// repeatable are the codes of unusable responses after which the model is asked again.
var repeatable = []contract.Code{contract.CodeInvalidOutput, contract.CodeTruncated, contract.CodeEmptyOutput}

// ReviewDue decides whether a change must be reviewed before its release: reviews are on, or a policy
// asks for one, and the change would not be denied anyway.
func (a *Activities) ReviewDue(ctx context.Context, in contract.ReviewDueInput) (contract.ReviewDue, error) {
	g := in.Gate
	if g.LocalOnly && !a.Workspaces.Cached(g.To.Repo, g.To.Base) {
		return contract.ReviewDue{Cold: true}, nil
	}
	run, err := a.Store.Run(ctx, g.Execution.RunID)
	if err != nil {
		return contract.ReviewDue{}, err
	}
	if run.Settings.Gate == nil || run.Settings.Gate.Review == nil {
		return contract.ReviewDue{}, nil
	}
	known, found, err := a.lastReview(ctx, run.ID, g.From, g.To)
	if err != nil {
		return contract.ReviewDue{}, err
	}
	if found && known.Failed == "" {
		answers, err := a.answersSince(ctx, run.ID, known.CreatedAt)
		if err != nil {
			return contract.ReviewDue{}, err
		}
		if len(answers) == 0 {
			r := slimReview(known, contract.Usage{})
			return contract.ReviewDue{Known: &r}, nil
		}
	}
	j, err := a.gateCase(ctx, run, g)
	if err != nil {
		return contract.ReviewDue{}, err
	}
	judged, _, err := j.judge(ctx)
	if errors.Is(err, errLookups) {
		return contract.ReviewDue{Cold: true}, nil
	}
	v := judged.Verdict
	return contract.ReviewDue{Due: v.Decision != policy.Deny && (run.Settings.Gate.Review.Mode == contract.ReviewOn || v.Review)}, err
}

// lastReview returns the last review of a change.
func (a *Activities) lastReview(ctx context.Context, run int64, from, to contract.Workspace) (contract.ReviewRecord, bool, error) {
	return verdicts.ReviewOf(ctx, a.Store, run, from.Tree, to.Tree)
}

// answersSince returns the answers to findings of the last Repair agent that began after a time.
func (a *Activities) answersSince(ctx context.Context, run int64, at time.Time) (map[string]string, error) {
	all, err := a.Store.Executions(ctx, run)
	if err != nil {
		return nil, err
	}
	for _, e := range slices.Backward(all) {
		if e.Agent != contract.AgentRepair || !e.StartedAt.After(at) {
			continue
		}
		said, err := followup.LastWords(ctx, a.Store, e.ID)
		return review.Answers(said), err
	}
	return nil, nil
}

// reviewOf returns what the gate knows about a review of the change that it judges; nil: none is made.
func (j *gateCase) reviewOf(ctx context.Context) error {
	s := j.run.Settings.Gate.Review
	if s == nil || j.in.Stage != contract.GateRelease {
		return nil
	}
	r, found, err := j.activities.lastReview(ctx, j.run.ID, j.in.From, j.in.To)
	if err != nil {
		return err
	}
	j.review = &gate.Review{Review: policy.Review{Mode: s.Mode}}
	if found {
		j.review.Review = policy.Review{Mode: s.Mode, Made: r.Failed == "", Failed: r.Failed != "", Model: r.Model, SameModel: r.SameModel}
		j.review.Findings = review.Findings(r)
	}
	return nil
}

// Review lets a model that has not made a change review it, with a fresh context, and stores what it
// found. A repeat of the activity finds the stored responses, and then the stored review.
func (a *Activities) Review(ctx context.Context, in contract.ReviewInput) (contract.ReviewResult, error) {
	known, found, err := verdicts.ReviewBy(ctx, a.Store, in.Execution.RunID, in.Execution.ID)
	if err != nil || found {
		return slimReview(known, contract.Usage{}), err
	}
	t, err := a.reviewing(ctx, in)
	if err != nil {
		return contract.ReviewResult{}, err
	}
	if in.Failure != nil {
		t.record.Failed = fault.Clip(in.Failure.Message, shortFailure)
	} else if err := t.ask(ctx); err != nil {
		return contract.ReviewResult{Usage: t.usage}, err
	}
	if t.record.Failed != "" {
		t.record.Findings = review.Unreviewed(t.before)
	}
	stored, err := verdicts.SaveReview(ctx, a.Store, t.record)
	return slimReview(stored, t.usage), err
}

// slimReview returns what the workflow needs of a review.
func slimReview(r contract.ReviewRecord, used contract.Usage) contract.ReviewResult {
	out := contract.ReviewResult{
		ID: r.ID, Major: r.Count(contract.SeverityMajor), Minor: r.Count(contract.SeverityMinor), Model: r.Model, Prompt: r.Prompt, SameModel: r.SameModel,
		Failed: clipped(r.Failed, shortFailure), Usage: used,
	}
	for _, f := range r.Open() {
		if f.Severity != contract.SeverityMajor {
			continue
		}
		if out.Open = append(out.Open, f.ID); len(out.Findings) < contract.MaxGateReasons {
			f.What, f.Action, f.Answer = clipped(f.What, shortFinding), clipped(f.Action, shortFinding), clipped(f.Answer, shortFinding)
			out.Findings = append(out.Findings, f)
		}
	}
	return out
}

// reviewing is a review under way.
type reviewing struct {
	*Activities
	in     contract.ReviewInput
	run    store.Run
	record contract.ReviewRecord
	before review.Before
	change change.Change
	usage  contract.Usage
}

// reviewing reads what was found before.
func (a *Activities) reviewing(ctx context.Context, in contract.ReviewInput) (*reviewing, error) {
	run, err := a.Store.Run(ctx, in.Execution.RunID)
	if err != nil {
		return nil, err
	}
	if run.Settings.Gate == nil || run.Settings.Gate.Review == nil {
		return nil, fault.New(contract.ClassRuntime, contract.CodeUnknown, "run %d has no reviews", run.ID)
	}
	t := &reviewing{Activities: a, in: in, run: run, record: contract.ReviewRecord{
		RunID: run.ID, ExecutionID: in.Execution.ID, Round: in.Round, From: in.From.Tree, Tree: in.To.Tree,
		Model: in.Model.Provider + "/" + in.Model.Model, SameModel: in.SameModel,
	}}
	all, err := verdicts.Reviews(ctx, a.Store, run.ID)
	if err != nil || in.Round <= 1 || len(all) == 0 {
		return t, err
	}
	last := all[len(all)-1]
	for _, f := range last.Open() {
		if f.Severity == contract.SeverityMajor {
			t.before.Findings = append(t.before.Findings, f)
		}
	}
	for _, r := range all {
		t.before.Numbered = max(t.before.Numbered, review.Highest(r.Findings))
	}
	t.before.Answers = map[string]string{}
	for _, f := range t.before.Findings { // an answer to an earlier round is still one
		t.before.Answers[f.ID] = f.Answer
	}
	answers, err := a.answersSince(ctx, run.ID, last.CreatedAt)
	maps.Copy(t.before.Answers, answers)
	return t, err
}

// ask asks the model until its response is usable.
func (t *reviewing) ask(ctx context.Context) error {
	var err error
	if t.change, err = gate.Read(ctx, t.Workspaces, t.in.From.Of(t.in.To), t.in.To); err != nil {
		return err
	}
	p, err := t.prompt(ctx)
	if err != nil {
		return err
	}
	t.record.Prompt = p.Version
	if err := t.open(ctx, t.in.Execution, p); err != nil {
		return err
	}
	schema := review.Schema()
	var told []model.Message
	for turn := 1; turn <= reviewTurns; turn++ {
		answer, err := t.Activities.ask(ctx, question{
			execution: t.in.Execution, turn: turn, choice: t.in.Model, fallbacks: t.in.Fallbacks, budget: t.in.Budget, timeout: t.run.Settings.Gate.Review.Timeout,
			schema: &schema, prompt: p.Version, limits: "execution.agents", told: told,
			usable: func(r model.Response) bool { _, err := review.Parse(schema, r.Text); return err == nil },
		})
		t.usage = t.usage.Add(answer.Usage)
		if err == nil {
			var said review.Response
			if said, err = review.Parse(schema, answer.Text); err == nil {
				return t.take(ctx, turn, said)
			}
		}
		f := fault.Of(err)
		if f.Class != contract.ClassLLM {
			return err
		}
		t.record.Failed = "the response of the reviewer's model was not usable: " + fault.Clip(f.Message, shortFailure)
		if !slices.Contains(repeatable, f.Code) {
			return nil
		}
		told = []model.Message{{Role: model.RoleUser, Text: unusable + f.Message}}
	}
	return nil
}

// take adopts a response.
func (t *reviewing) take(ctx context.Context, turn int, said review.Response) (err error) {
	t.record.Failed = ""
	t.record.Summary = review.Text(said.Summary, review.MaxSummary)
	if t.record.Findings, t.record.Omitted, err = review.Of(ctx, t.change, said, t.before); err != nil {
		return err
	}
	calls, err := t.Store.ModelCalls(ctx, t.run.ID)
	for _, c := range calls { // another model may have answered, while the chosen one was out
		if c.ExecutionID == t.in.Execution.ID && c.Turn == turn && c.Model != "" {
			t.record.Model = c.Provider + "/" + c.Model
			t.record.SameModel = t.in.SameModel && c.Model == t.in.Model.Model // none of the others is the author's
		}
	}
	return err
}

// prompt renders the task of the reviewer.
func (t *reviewing) prompt(ctx context.Context) (prompt.Prompt, error) {
	task := prompt.ReviewTask{GoalTitle: issue.GoalTitle(t.run.Settings.Issue, t.run.GoalTitle), GoalDescription: t.run.GoalDescription, Earlier: slices.Clone(t.before.Findings)}
	for i, f := range task.Earlier {
		task.Earlier[i].Answer = t.before.Answers[f.ID]
	}
	plan, err := t.Store.PlanByID(ctx, t.run.ID, t.in.PlanID)
	if err != nil {
		return prompt.Prompt{}, err
	}
	task.Plan = clipped(telemetry.Redact(planText(plan)), reviewedPlan)
	checks, err := t.Store.Checks(ctx, t.in.Tester.ID)
	if err != nil {
		return prompt.Prompt{}, err
	}
	for _, c := range checks[:min(len(checks), reviewedChecks)] {
		task.Checks = append(task.Checks, reviewedCheck(c))
	}
	diff, err := t.Workspaces.DiffBetween(ctx, t.in.From.Of(t.in.To), t.in.To, reviewedDiff)
	if err != nil {
		return prompt.Prompt{}, err
	}
	text, cut := review.Fit(telemetry.Redact(diff), t.run.Settings.Gate.Review.DiffBytes)
	t.record.Unshown = cut
	if len(diff) >= reviewedDiff {
		shown := review.Names(diff)
		for _, f := range t.change.Files {
			if f.From == "" && !slices.Contains(shown, f.Path) {
				t.record.Unshown = append(t.record.Unshown, f.Path)
			}
		}
	}
	task.Diff = review.Numbered(text)
	for _, name := range t.record.Unshown[:min(len(t.record.Unshown), reviewedFiles)] {
		task.Unshown = append(task.Unshown, prompt.ShownPath(name))
	}
	for _, f := range t.change.Files {
		added, removed := f.Lines()
		task.Files = append(task.Files, fmt.Sprintf("%s (+%d -%d)", prompt.ShownPath(f.Path), len(added), len(removed)))
	}
	if extra := len(task.Files) - reviewedFiles + t.change.Unread; extra > 0 {
		task.Files = append(task.Files[:min(len(task.Files), reviewedFiles)], fmt.Sprintf("and %d more", extra))
	}
	return prompt.Review(task)
}

// planText returns what a plan says.
func planText(plan contract.Plan) string {
	var b strings.Builder
	b.WriteString(plan.Summary + "\n")
	for _, s := range plan.Steps {
		fmt.Fprintf(&b, "\n%s: %s\n%s\n", s.ID, s.Name, s.Description)
		for _, c := range s.VerificationCriteria {
			fmt.Fprintf(&b, "- %s\n", c)
		}
	}
	return b.String()
}

// checkLine describes the result of a check in a line.
func reviewedCheck(c store.Check) string {
	result := "passed"
	switch {
	case c.Result.Skipped:
		result = "skipped"
	case !c.Result.OK:
		result = "failed, which the run tolerates"
	}
	return fmt.Sprintf("%s: %s, %d tests", c.Result.Check.Name, result, len(c.Cases))
}

// unanswered is the result of a call to finish whose summary does not answer all findings of a review.
const unanswered = "Not finished: the summary does not answer these findings of the review: %s. Call finish again, with a line in the summary for each of them that begins with its id: \"R1: fixed: …\" or \"R1: not fixed, because …\"."

// findingsToAnswer returns findings of the last review of a run by their ids; no ids: none.
func (a *Activities) findingsToAnswer(ctx context.Context, run int64, ids []string) ([]contract.ReviewFinding, error) {
	if len(ids) == 0 {
		return nil, nil
	}
	all, err := verdicts.Reviews(ctx, a.Store, run)
	if err != nil || len(all) == 0 {
		return nil, err
	}
	var out []contract.ReviewFinding
	for _, f := range all[len(all)-1].Open() {
		if slices.Contains(ids, f.ID) {
			out = append(out, f)
		}
	}
	return out, nil
}
