package activities

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/activity"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/fault"
	"github.com/rocketgpt/orchestrator/internal/model"
	"github.com/rocketgpt/orchestrator/internal/pin"
	"github.com/rocketgpt/orchestrator/internal/prompt"
	"github.com/rocketgpt/orchestrator/internal/runs/choice"
	"github.com/rocketgpt/orchestrator/internal/runs/issue"
	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/internal/store/attempts"
	"github.com/rocketgpt/orchestrator/internal/telemetry"
	"github.com/rocketgpt/orchestrator/internal/temporal"
)

const (
	// judgedBytes limits the diffs of all attempts that a judge sees together. Each gets the same share.
	judgedBytes = 192 << 10
	// judgeReason limits the reason of a judge, in bytes.
	judgeReason = 1500
	// judgedCriteria is the maximum number of criteria of an attempt's plan that a judge sees.
	judgedCriteria = 40
)

// AttemptHeld stores what an attempt consists of that has passed its verification: how large its change
// is, and what was found in it. A repeat stores the same.
func (a *Activities) AttemptHeld(ctx context.Context, in contract.HeldInput) error {
	stat, err := a.Workspaces.DiffStat(ctx, in.Workspace)
	if err != nil {
		return err
	}
	held := attempts.Held{RunID: in.RunID, Workspace: in.Workspace, Files: len(stat.Files)}
	for _, f := range stat.Files {
		if pin.IsTest(f.Path) {
			held.TestLines += f.Added + f.Deleted
		} else {
			held.Lines += f.Added + f.Deleted
		}
	}
	findings, err := a.Store.Findings(ctx, in.RunID)
	if err != nil {
		return err
	}
	for _, f := range findings {
		switch {
		case f.Resolved:
		case f.Severity == contract.SeverityMajor:
			held.Major++
		case f.Severity == contract.SeverityMedium:
			held.Medium++
		}
	}
	return attempts.Hold(ctx, a.Store, held)
}

// AttemptChoice returns the choice of a group as one of its attempts sees it.
func (a *Activities) AttemptChoice(ctx context.Context, in contract.ChoiceInput) (contract.Choice, error) {
	return attempts.ChoiceFor(ctx, a.Store, in.Attempt.Group, in.RunID, activity.GetInfo(ctx).WorkflowExecution.RunID)
}

// AttemptsState returns how far the attempts of a group are.
func (a *Activities) AttemptsState(ctx context.Context, group int64) (contract.AttemptsState, error) {
	g, err := attempts.Read(ctx, a.Store, group)
	return g.State(), err
}

// RankAttempts decides among the attempts of a group that wait for the choice, as far as checks and sizes
// do.
func (a *Activities) RankAttempts(ctx context.Context, group int64) (contract.AttemptsRanking, error) {
	g, err := attempts.Read(ctx, a.Store, group)
	if err != nil {
		return contract.AttemptsRanking{}, err
	}
	var all []choice.Candidate
	for _, t := range g.Attempts {
		if t.Passed() && t.Workspace != nil {
			all = append(all, choice.Candidate{Number: t.Number, RunID: t.RunID, Tree: t.Workspace.Tree, Major: t.Major, Medium: t.Medium, Lines: t.Lines})
		}
	}
	return choice.Rank(all, g.Settings.SizeMargin), nil
}

// DecideAttempts stores the choice of a group, and returns the one that counts.
func (a *Activities) DecideAttempts(ctx context.Context, d contract.AttemptsDecision) (contract.AttemptsDecision, error) {
	return attempts.Decide(ctx, a.Store, d)
}

// NotifyAttempts tells the attempts of a group that the choice was made, and stops those that still work.
// It is idempotent.
func (a *Activities) NotifyAttempts(ctx context.Context, group int64) error {
	g, err := attempts.Read(ctx, a.Store, group)
	if err != nil {
		return err
	}
	by := contract.AttemptsWorkflowID(group)
	stop := contract.Command{ID: by + "/stop", By: by, Reason: "the choice was made: " + g.Reason}
	if g.StoppedAt != nil {
		stop.By, stop.Reason = g.StoppedBy, "all attempts were stopped"
	}
	for _, t := range g.Attempts {
		switch {
		case t.Status.Terminal():
		case t.Chosen || t.Passed() && g.StoppedAt == nil:
			err = a.signalAttempt(ctx, t, contract.SignalChoice, nil)
		default:
			err = a.signalAttempt(ctx, t, contract.UpdateStop, stop)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// signalAttempt sends a signal to the workflow of an attempt. An attempt that is queued is started, because
// it also ends through its workflow.
func (a *Activities) signalAttempt(ctx context.Context, t attempts.Attempt, name string, args any) error {
	if t.WorkflowID == "" {
		run, err := a.Store.Run(ctx, t.RunID)
		if err == nil {
			err = temporal.StartRun(ctx, a.Temporal, a.Store, run)
		}
		if err != nil {
			return err
		}
	}
	err := a.Temporal.SignalWorkflow(ctx, contract.RunWorkflowID(t.RunID), "", name, args)
	var over *serviceerror.NotFound
	if errors.As(err, &over) { // it has ended
		return nil
	}
	if err != nil {
		return fmt.Errorf("tell run %d of the choice among attempts: %w", t.RunID, err)
	}
	return nil
}

// judgement is the response of a judge.
type judgement struct {
	Best   string `json:"best" jsonschema:"description=letter of the best attempt"`
	Reason string `json:"reason" jsonschema:"description=why it is better than the others in at most five sentences"`
}

// judgementSchema is the strict schema of a judge's response about a number of attempts.
func judgementSchema(n int) model.Schema {
	letters := make([]any, n)
	for i := range letters {
		letters[i] = letter(i)
	}
	return model.SchemaOf[judgement]().Bounded("choice", model.Bounds{"best": {"enum": letters}})
}

// letter names an attempt for a judge, who must not know which one it is.
func letter(i int) string { return string(rune('A' + i)) }

// JudgeAttempts lets a model decide among attempts that are equally good otherwise. An unusable response is
// a result, not an error.
func (a *Activities) JudgeAttempts(ctx context.Context, in contract.AttemptsJudgeInput) (contract.AttemptsJudgement, error) {
	g, err := attempts.Read(ctx, a.Store, in.Group)
	if err != nil {
		return contract.AttemptsJudgement{}, err
	}
	shown, err := a.judged(ctx, g, in.Runs)
	if err != nil {
		return contract.AttemptsJudgement{}, err
	}
	run, err := a.Store.Run(ctx, in.Execution.RunID)
	if err != nil {
		return contract.AttemptsJudgement{}, err
	}
	task := prompt.JudgeTask{GoalTitle: issue.GoalTitle(run.Settings.Issue, run.GoalTitle), GoalDescription: run.GoalDescription}
	for _, s := range shown {
		task.Attempts = append(task.Attempts, s.text)
	}
	p, err := prompt.Judge(task)
	if err != nil {
		return contract.AttemptsJudgement{}, err
	}
	if err := a.open(ctx, in.Execution, p); err != nil {
		return contract.AttemptsJudgement{}, err
	}
	schema := judgementSchema(len(shown))
	answer, err := a.ask(ctx, question{
		execution: in.Execution, turn: 1, choice: *in.Settings.Judge, budget: in.Settings.Budget, timeout: in.Settings.Timeout,
		schema: &schema, prompt: p.Version, limits: "execution.attempts",
	})
	out := contract.AttemptsJudgement{Usage: answer.Usage}
	if f := fault.Of(err); f != nil && f.Class == contract.ClassLLM {
		out.Why = f.Message
		return out, nil
	}
	if err != nil {
		return out, err
	}
	return readJudgement(schema, answer.Text, shown, out), nil
}

// readJudgement reads a judge's response.
func readJudgement(schema model.Schema, text string, shown []judgedAttempt, out contract.AttemptsJudgement) contract.AttemptsJudgement {
	doc, err := model.CheckJSON(schema, text)
	var said judgement
	if err == nil {
		err = json.Unmarshal(doc, &said)
	}
	at := slices.IndexFunc(shown, func(s judgedAttempt) bool { return s.text.Letter == said.Best })
	switch {
	case err != nil:
		out.Why = "its response is not a choice"
	case at < 0:
		out.Why = "it chose an attempt that does not exist"
	default:
		out.Winner = shown[at].run
		out.Reason = fault.Clip(telemetry.Redact(storable(named(said.Reason, shown))), judgeReason)
	}
	return out
}

// named replaces the letters by which a judge knows the attempts by their numbers.
func named(reason string, shown []judgedAttempt) string {
	var pairs []string
	for _, s := range shown {
		for _, word := range []string{"attempt ", "Attempt "} {
			pairs = append(pairs, word+s.text.Letter, fmt.Sprint(word, s.number))
		}
	}
	return strings.NewReplacer(pairs...).Replace(reason)
}

// judgedAttempt is an attempt as a judge sees it.
type judgedAttempt struct {
	run    int64
	number int
	text   prompt.JudgedAttempt
}

// judged returns what a judge sees of attempts, in an order that does not show which is which: the same
// for every repeat.
func (a *Activities) judged(ctx context.Context, g attempts.Group, runs []int64) ([]judgedAttempt, error) {
	var out []judgedAttempt
	for _, t := range g.Attempts {
		if t.Workspace == nil || !slices.Contains(runs, t.RunID) {
			continue
		}
		diff, err := a.Workspaces.Diff(ctx, *t.Workspace, judgedBytes/len(runs))
		if err != nil {
			return nil, err
		}
		plan, err := a.Store.Plan(ctx, t.RunID)
		if err != nil && !errors.Is(err, store.ErrNotFound) {
			return nil, err
		}
		text := prompt.JudgedAttempt{Diff: telemetry.Redact(diff)}
		for _, s := range plan.Steps {
			text.Criteria = append(text.Criteria, s.VerificationCriteria...)
		}
		text.Criteria = text.Criteria[:min(len(text.Criteria), judgedCriteria)]
		out = append(out, judgedAttempt{run: t.RunID, number: t.Number, text: text})
	}
	order := rand.New(rand.NewPCG(uint64(g.ID), uint64(g.CreatedAt.UnixNano()))) //nolint:gosec // an order that nobody must be able to influence, not a secret
	order.Shuffle(len(out), func(i, j int) { out[i], out[j] = out[j], out[i] })
	for i := range out {
		out[i].text.Letter = letter(i)
	}
	return out, nil
}
