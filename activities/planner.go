package activities

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/fault"
	"github.com/rocketgpt/orchestrator/internal/gate/change"
	"github.com/rocketgpt/orchestrator/internal/model"
	"github.com/rocketgpt/orchestrator/internal/planning"
	"github.com/rocketgpt/orchestrator/internal/prompt"
	"github.com/rocketgpt/orchestrator/internal/runs/issue"
	"github.com/rocketgpt/orchestrator/internal/runs/verdict"
	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/internal/store/outcomes"
	"github.com/rocketgpt/orchestrator/internal/telemetry"
	"github.com/rocketgpt/orchestrator/internal/tool"
	"github.com/rocketgpt/orchestrator/internal/workspace"
)

// strictPlanSchema rules out as many of the errors that verdict.Plan detects as a schema can: a
// provider that enforces it cannot return a plan with such an error.
var strictPlanSchema = verdict.PlanSchema().Bounded(contract.StrictPlanSchema, model.Bounds{
	"steps":                    {"maxItems": contract.MaxPlanSteps},
	"steps.[].id":              {"pattern": stepIDPattern},
	"steps.[].name":            {"pattern": `\S`},
	"steps.[].dependencies":    {"maxItems": contract.MaxPlanSteps - 1},
	"steps.[].dependencies.[]": {"pattern": stepIDPattern},
	"steps.[].files.[]":        {"pattern": pathPattern},
})

var (
	// stepIDPattern is the form of a step's id.
	stepIDPattern = fmt.Sprintf(`^[A-Za-z0-9_][A-Za-z0-9_.-]{0,%d}$`, contract.MaxStepID-1)
	// pathPattern is the form of a path that never goes up.
	pathPattern = `^` + pathPart + `(/` + pathPart + `)*/?$`
)

// pathPart is a part of a path that is neither . nor .. and not empty.
const pathPart = `([^/\\.][^/\\]*|\.[^/\\.][^/\\]*|\.\.[^/\\]+)`

// The tools of the planner. All of them only read.
var (
	planningTools = tool.ForPlanning(false)
	editingTools  = tool.ForPlanning(true) // if its plan may contain edits
)

// openingMessages is the number of messages with which a conversation begins: the role and the task.
const openingMessages = 2

// Limits of what a planner reads.
const (
	// plannerReads is the maximum size of what all tool calls of one plan return: further calls return
	// only a note. It is lower for a model with a small context window.
	plannerReads = 384 << 10
	// plannerWindowShare divides a model's context window: its share is for what the planner reads.
	plannerWindowShare = 2
	// bytesPerToken is a low estimate of the bytes of code in a token.
	bytesPerToken = 3
)

// plannerLimits restrict one tool call of a planner. They are lower than a builder's: what a planner
// reads stays in its conversation until it has a plan.
var plannerLimits = tool.Limits{ReadBytes: 32 << 10, AnswerBytes: 16 << 10, ListEntries: 500, SearchHits: 100}

// planTurn is one turn of planning.
type planTurn struct {
	*Activities
	in        contract.PlanInput
	run       store.Run
	schema    model.Schema
	turn      int
	owner     int64 // execution that owns the plan's row
	told      []model.Message
	ask       *contract.PlannerQuestion // that a person must answer before the next turn; nil: none
	draft     *contract.Plan            // that the planner reviews in this turn; nil: none
	lostEdits string                    // why the plan's edits were left out; "": they were not
	state     contract.PlanState        // after the turn
}

// Plan makes one turn of planning: a model call, and the read-only tool calls that it asks for. When
// the response is a plan, it is checked and stored.
func (a *Activities) Plan(ctx context.Context, in contract.PlanInput) (contract.PlanResult, error) {
	p, err := a.planningOf(ctx, in)
	if err != nil {
		return contract.PlanResult{}, err
	}
	q, err := p.question()
	if err != nil {
		return contract.PlanResult{}, err
	}
	answer, err := a.ask(ctx, q)
	p.state.Turn, p.state.Usage = p.turn, p.state.Usage.Add(answer.Usage)
	var plan *contract.Plan
	if err == nil {
		plan, err = p.take(ctx, answer)
	}
	if err != nil && p.keepsDraft(err) {
		plan, err = p.draft, nil
	}
	if err != nil {
		return contract.PlanResult{}, err
	}
	more := contract.PlanResult{More: true, State: p.state, Usage: answer.Usage}
	if plan == nil {
		more.Ask = p.ask
		return more, nil
	}
	review, err := p.review(ctx, plan)
	if err != nil {
		return contract.PlanResult{}, err
	}
	if p.draft == nil && p.lostEdits == "" && p.reviewed(plan.ComplexityScore, len(review.Findings)) {
		more.State.Draft = p.turn
		return more, nil
	}
	id, err := a.Store.SavePlan(ctx, in.Execution.RunID, p.owner, string(in.Execution.Agent), *plan)
	if err != nil {
		return contract.PlanResult{}, err
	}
	return contract.PlanResult{ID: id, Plan: plan.Skeleton(), Usage: answer.Usage, State: p.state, Review: review}, nil
}

// reviewed reports whether the planner must review its plan. A plan that is made from a consensus, or
// that a deliberation will replace, has other reviewers.
func (p *planTurn) reviewed(complexity float64, findings int) bool {
	in := p.in
	if in.Planner == nil || in.Consensus != nil || in.DeliberateOver > 0 && complexity > in.DeliberateOver {
		return false
	}
	return in.Planner.Critique.Due(complexity, findings)
}

// keepsDraft reports whether a planner's plan stays as it was because its review failed. Failures that
// are not the response's fault are those of the turn.
func (p *planTurn) keepsDraft(err error) bool {
	f := fault.Of(err)
	return p.draft != nil && (f.Class == contract.ClassLLM || f.Class == contract.ClassLogic && f.Code != contract.CodeBudgetExceeded)
}

// review removes from a plan what the planner may not state, and describes what it found.
func (p *planTurn) review(ctx context.Context, plan *contract.Plan) (*contract.PlanReview, error) {
	conversation, err := p.conversation(ctx, p.in.Execution.ID, p.turn+1)
	if err != nil {
		return nil, err
	}
	r := &contract.PlanReview{Turns: p.state.Turn, Reads: p.state.Reads}
	made := *plan
	plan.Notes, r.Dropped = planning.Notes(plan.Notes, planning.SeenIn(conversation))
	r.Notes, r.Dropped = len(plan.Notes), r.Dropped[:min(len(r.Dropped), maxShownDropped)]
	facts, err := p.facts(ctx)
	if err != nil {
		return nil, err
	}
	r.Findings = planning.Findings(*plan, facts)
	if p.lostEdits != "" {
		r.Findings = append(r.Findings, contract.PlanFinding{Kind: contract.PlanWithoutEdits, Text: "the planner's edits were left out in its last turn: " + p.lostEdits})
	}
	r.Risk = planning.Risk(*plan, r.Findings, p.run.Settings.Release.Protected, len(facts.Failing))
	if r.Estimate, err = p.estimate(ctx, p.run, *plan); err != nil {
		return nil, err
	}
	if p.draft == nil {
		return r, nil
	}
	r.Found = planning.Findings(*p.draft, facts)
	switch {
	case plan == p.draft:
		r.Outcome = contract.ReviewUnusable
	case reflect.DeepEqual(made, *p.draft):
		r.Outcome = contract.ReviewKept
	default:
		r.Outcome = contract.ReviewCorrected
	}
	return r, nil
}

// facts returns what is known about the run besides its plan.
func (p *planTurn) facts(ctx context.Context) (planning.Facts, error) {
	out := planning.Facts{Goal: p.run.GoalTitle + "\n" + p.run.GoalDescription}
	var err error
	if out.Files, err = p.Workspaces.Files(ctx, p.in.Repo.Workspace()); err != nil {
		return out, err
	}
	b, err := p.baselineOf(ctx, p.run)
	if err != nil || b == nil {
		return out, err
	}
	for _, c := range b.Checks {
		for _, t := range c.Cases {
			if t.Status == contract.TestFailed && len(out.Failing) < maxFailingFacts {
				out.Failing = append(out.Failing, t.Name)
			}
		}
	}
	return out, nil
}

// maxFailingFacts is the number of tests that fail on the base commit with which a plan is compared.
const maxFailingFacts = 500

// readDraft returns the plan that the planner made in an earlier turn and reviews in this one.
func (p *planTurn) readDraft(ctx context.Context) (*contract.Plan, error) {
	answer, err := p.responseOf(ctx, p.in.Execution.ID, p.state.Draft)
	if err != nil {
		return nil, err
	}
	for i, c := range answer.ToolCalls {
		if c.Name != tool.SubmitPlan {
			continue
		}
		done, _, err := p.Store.ToolResult(ctx, p.in.Execution.ID, p.state.Draft, i)
		if errors.Is(err, store.ErrNotFound) || err == nil && !done.Outcome.OK {
			continue // not carried out, or refused
		}
		if err != nil {
			return nil, err
		}
		plan, err := planning.Submitted(c.Arguments)
		return &plan, err
	}
	plan, err := verdict.ReadPlan(p.schema, answer.Text)
	return &plan, err
}

// maxShownDropped is the number of dropped notes that a run records.
const maxShownDropped = 10

// planningOf prepares a turn. The first one opens the conversation.
func (a *Activities) planningOf(ctx context.Context, in contract.PlanInput) (*planTurn, error) {
	run, err := a.Store.Run(ctx, in.Execution.RunID)
	if err != nil {
		return nil, err
	}
	consensus, err := a.agreement(ctx, in)
	if err != nil {
		return nil, err
	}
	p := &planTurn{Activities: a, in: in, run: run, owner: in.Execution.ID, state: in.State, schema: verdict.PlanSchema()}
	if in.Lessons.Schema {
		p.schema = strictPlanSchema
	}
	if err := p.answered(ctx); err != nil {
		return nil, err
	}
	if in.State.Turn == 0 {
		if err := p.open(ctx, consensus.text); err != nil {
			return nil, err
		}
	}
	var again bool
	if p.turn, again, p.told, err = a.nextPlanTurn(ctx, in, consensus.text); err != nil {
		return nil, err
	}
	if again { // the planner's own row contains the plan that led to the deliberation
		p.owner = consensus.owner
	}
	return p, p.beginReview(ctx)
}

// answered stores the answer of a person as the result of the call that asked.
func (p *planTurn) answered(ctx context.Context) error {
	at := p.state.Asked
	if at == 0 || p.in.Input == nil {
		return nil
	}
	in := contract.ToolInput{Execution: p.in.Execution, Turn: at, Index: p.state.AskedIndex, Workspace: p.in.Repo.Workspace()}
	call, err := p.toolCall(ctx, in, nil)
	if err != nil {
		return err
	}
	result := tool.Result{OK: true, Text: prompt.PlannerInput(p.in.Input)}
	now := time.Now()
	_, err = p.saveToolResult(ctx, in, call, result, contract.ToolOutcome{Workspace: in.Workspace, OK: true, Fingerprint: fingerprint(call, result.Text)}, now)
	p.state.Asked, p.state.AskedIndex = 0, 0
	return err
}

// mayAsk returns why the planner cannot ask a person, "" if it can.
func (p *planTurn) mayAsk(q contract.PlannerQuestion) string {
	switch {
	case p.in.Planner.QuestionWait <= 0:
		return "people are not asked here (execution.planner.question); decide yourself"
	case p.in.Input != nil || p.ask != nil:
		return "one question can be asked, and it has been; decide the rest yourself"
	case p.in.State.Reads == 0:
		return "look at the repository first; it may settle the matter"
	case p.last():
		return "this was the last turn"
	}
	return q.Problem()
}

// beginReview prepares a turn in which the planner reviews its plan.
func (p *planTurn) beginReview(ctx context.Context) error {
	if p.state.Draft == 0 {
		return nil
	}
	var err error
	if p.draft, err = p.readDraft(ctx); err != nil {
		return err
	}
	facts, err := p.facts(ctx)
	if err != nil {
		return err
	}
	text, err := prompt.PlanReview(issue.GoalTitle(p.run.Settings.Issue, p.run.GoalTitle), planning.Findings(*p.draft, facts))
	p.told = append(p.told, model.Message{Role: model.RoleUser, Text: text})
	return err
}

// open opens the conversation of a plan.
func (p *planTurn) open(ctx context.Context, consensus string) error {
	mayRelease := p.beside(ctx, "the check whether the run can release", func() error {
		if err := p.checkBranch(ctx, p.in.Repo, p.in.Branch, p.run); err != nil {
			return err
		}
		return p.checkForge(ctx, p.in.Repo, p.run)
	})
	text, err := p.firstPrompt(ctx, consensus)
	if err := cmp.Or(mayRelease(), err); err != nil {
		return err
	}
	p.state.Prompt = text.Version
	goalPictures(&text, p.run)
	return p.Activities.open(ctx, p.in.Execution, text)
}

// firstPrompt returns the prompt of the planner's first turn.
func (p *planTurn) firstPrompt(ctx context.Context, consensus string) (prompt.Prompt, error) {
	in, run := p.in, p.run
	files, err := p.Workspaces.Files(ctx, in.Repo.Workspace())
	if err != nil {
		return prompt.Prompt{}, err
	}
	lessons, err := p.lessons(ctx, in.Execution.RunID, in.Lessons)
	if err != nil {
		return prompt.Prompt{}, err
	}
	project, err := p.project(ctx, run)
	if err != nil {
		return prompt.Prompt{}, err
	}
	overview, err := p.overview(ctx, files)
	if err != nil {
		return prompt.Prompt{}, err
	}
	var excerpts []prompt.Excerpt
	if !overview.Map || p.turns() <= 1 { // otherwise it reads what it needs
		if excerpts, err = p.excerpts(ctx, in.Repo.Workspace(), files); err != nil {
			return prompt.Prompt{}, err
		}
	}
	earlier, err := p.earlierWork(ctx, run, in.Lessons.Compact)
	if err != nil {
		return prompt.Prompt{}, err
	}
	return plannerPrompt(prompt.PlannerTask{
		Files:   overview,
		Lessons: lessons, Project: project, EarlierWork: earlier, Pictures: namesOf(run.Settings.Pictures), Consensus: consensus, Turns: p.turns(), Input: in.Input,
		GoalTitle: issue.GoalTitle(run.Settings.Issue, run.GoalTitle), GoalDescription: run.GoalDescription, Branch: in.Repo.Branch, Base: in.Repo.Base, Excerpts: excerpts,
	}, files, in.Lessons.Compact)
}

// overview describes the repository to the planner.
func (p *planTurn) overview(ctx context.Context, files []string) (prompt.Overview, error) {
	m := mapFor{goal: goalOf(p.run), share: 1}
	if p.turns() <= 1 {
		m.share = mapWithoutTools
	}
	return p.overviewOf(ctx, p.run, m, func() string { return plannerList(files, p.turns()) })
}

// turns returns the number of model calls for a plan. A heal that restricts the response to the
// schema of a plan leaves no room for tools: not every provider can enforce both.
func (p *planTurn) turns() int {
	if p.in.Planner == nil || p.in.Lessons.Schema {
		return 1
	}
	return max(1, p.in.Planner.Turns)
}

// last reports whether the planner must submit its plan in this turn.
func (p *planTurn) last() bool { return p.draft != nil || p.turn >= p.turns() }

// question returns the model call of the turn.
func (p *planTurn) question() (question, error) {
	in := p.in
	q := question{
		execution: in.Execution, turn: p.turn, choice: in.Model, budget: in.Budget, timeout: in.Timeout,
		schema: &p.schema, strict: in.Lessons.Schema, prompt: p.state.Prompt, fallbacks: in.Fallbacks, told: p.told,
	}
	q.usable = func(r model.Response) bool {
		_, err := verdict.ReadPlan(p.schema, r.Text)
		return err == nil
	}
	if p.turns() <= 1 {
		return q, nil
	}
	var err error
	q.limits = "execution.planner"
	if q.left, err = p.left(); err != nil {
		return q, err
	}
	q.tools = slices.DeleteFunc(p.tools().Definitions(), func(d tool.Definition) bool {
		return d.Name == tool.AskPerson && p.in.Planner.QuestionWait <= 0 || d.Name == tool.AskBrain && p.Brain == nil
	})
	asPlan := q.usable
	q.usable = func(r model.Response) bool { return len(r.ToolCalls) == 0 && asPlan(r) || p.usableCalls(r) }
	if p.last() && p.draft == nil {
		q.told = append(q.told, model.Message{Role: model.RoleUser, Text: mustSubmit})
	}
	return q, nil
}

// mustSubmit is the message to a planner before its last turn.
const mustSubmit = "This is your last turn. Submit the plan now with `submit_plan`, based on what you have read; no other call will be carried out."

func (p *planTurn) usableCalls(r model.Response) bool {
	return len(r.ToolCalls) > 0 && len(r.ToolCalls) <= contract.TurnCallLimit && !slices.ContainsFunc(r.ToolCalls, func(c model.ToolCall) bool {
		_, known := planningTools.Definition(c.Name)
		return !known
	})
}

// tools returns the planner's tools.
func (p *planTurn) tools() *tool.Set {
	if p.mostEdits() > 0 {
		return editingTools
	}
	return planningTools
}

// mostEdits returns the maximum size of the edits of the plan.
func (p *planTurn) mostEdits() int {
	if p.in.Planner == nil {
		return 0
	}
	return p.in.Planner.EditBytes
}

// acceptable returns why a plan cannot be accepted, or "".
func (p *planTurn) acceptable(plan contract.Plan) string {
	if wrong := verdict.Plan(plan); wrong != nil {
		return fault.Of(wrong).Message
	}
	if size, most := plan.EditBytes(), p.mostEdits(); size > most {
		return fmt.Sprintf("its edits take up %d bytes, more than the %d allowed; submit it without edits, and the agent of the step makes the change", size, most)
	}
	hidden := func(e contract.Edit) bool { return strings.Contains(e.OldText+e.NewText, telemetry.Redacted) }
	if slices.ContainsFunc(plan.Edits, hidden) {
		return "an edit contains " + telemetry.Redacted + ", which stands for text that you cannot see; submit the plan without edits"
	}
	return ""
}

// left returns what the planner's budgets have left, nil if they are unlimited.
func (p *planTurn) left() (*contract.StepLeft, error) {
	limits, used := p.in.Planner, p.state.Usage
	over := func(what, key string, has, most int64) error {
		return fault.New(contract.ClassLogic, contract.CodeStepBudget,
			"the planner used %d of its %d %s without submitting a plan; narrow the goal, or raise execution.planner.%s", has, most, what, key)
	}
	switch {
	case limits.Tokens > 0 && used.Tokens() >= limits.Tokens:
		return nil, over("tokens", "tokens", used.Tokens(), limits.Tokens)
	case limits.MicroUSD > 0 && used.MicroUSD >= limits.MicroUSD:
		return nil, over("micro-dollars", "cost_usd", used.MicroUSD, limits.MicroUSD)
	}
	var left contract.StepLeft
	if limits.Tokens > 0 {
		left.Tokens = limits.Tokens - used.Tokens()
	}
	if limits.MicroUSD > 0 {
		left.MicroUSD = limits.MicroUSD - used.MicroUSD
	}
	if left == (contract.StepLeft{}) {
		return nil, nil //nolint:nilnil // without limits
	}
	return &left, nil
}

// take returns the plan of a response, nil if it asked for something first.
func (p *planTurn) take(ctx context.Context, answer model.Response) (*contract.Plan, error) {
	if len(answer.ToolCalls) == 0 || p.turns() <= 1 {
		plan, err := verdict.ReadPlan(p.schema, answer.Text)
		return &plan, err
	}
	if n := len(answer.ToolCalls); n > contract.TurnCallLimit {
		return nil, fault.New(contract.ClassLLM, contract.CodeInvalidOutput, "the planner's response could not be used: %s", tooMany(n))
	}
	calls := planCalls{planTurn: p}
	defer calls.close()
	for i, call := range answer.ToolCalls {
		plan, err := calls.do(ctx, i, call)
		if plan != nil || err != nil {
			return plan, err
		}
	}
	switch {
	case !p.last():
		return nil, nil //nolint:nilnil // the next turn goes on
	case calls.refused != "":
		return nil, fault.New(contract.ClassLLM, contract.CodeInvalidOutput, "the planner's last response is not a plan: %s", fault.Clip(calls.refused, maxRefusal))
	}
	return nil, fault.New(contract.ClassLogic, contract.CodeStepBudget,
		"the planner used its %d turns without submitting a plan; narrow the goal, or raise execution.planner.turns", p.turns())
}

// maxRefusal is the size of the reason why a plan was not accepted, in a failure.
const maxRefusal = 600

// planCalls carries out the tool calls of a turn, each stored before the next: a repeat finds those
// that are done.
type planCalls struct {
	*planTurn
	dir     *workspace.Shared // the base; nil: not needed yet
	refused string            // why the last submitted plan was not accepted
}

func (c *planCalls) close() {
	if c.dir != nil {
		c.dir.Close()
	}
}

// do carries out a call, unless its result is stored, and returns the plan if it submitted one.
func (c *planCalls) do(ctx context.Context, index int, call model.ToolCall) (*contract.Plan, error) {
	in := contract.ToolInput{Execution: c.in.Execution, Turn: c.turn, Index: index, Workspace: c.in.Repo.Workspace()}
	done, message, err := c.Store.ToolResult(ctx, in.Execution.ID, in.Turn, in.Index)
	switch {
	case errors.Is(err, store.ErrNotFound) && call.Name == tool.AskPerson && c.asks(index, call):
		return nil, nil //nolint:nilnil // a person's answer is the result
	case errors.Is(err, store.ErrNotFound):
		done.Outcome, message, err = c.carryOut(ctx, in, call)
	case err == nil:
	}
	if err != nil {
		return nil, err
	}
	return c.taken(call, done.Outcome, message)
}

// asks reports whether a call asks a person a question that can be asked. The answer is its result.
func (c *planCalls) asks(index int, call model.ToolCall) bool {
	var q contract.PlannerQuestion
	if json.Unmarshal([]byte(call.Arguments), &q) != nil || c.mayAsk(q) != "" {
		return false
	}
	q.Question, q.Why, q.Default = telemetry.Redact(q.Question), telemetry.Redact(q.Why), telemetry.Redact(q.Default)
	for i := range q.Options {
		q.Options[i] = telemetry.Redact(q.Options[i])
	}
	c.ask, c.state.Asked, c.state.AskedIndex = &q, c.turn, index
	return true
}

// carryOut carries out a call and stores its result.
func (c *planCalls) carryOut(ctx context.Context, in contract.ToolInput, call model.ToolCall) (contract.ToolOutcome, store.Message, error) {
	started := time.Now()
	result, err := c.result(ctx, in, call)
	if err != nil {
		return contract.ToolOutcome{}, store.Message{}, err
	}
	outcome := contract.ToolOutcome{Workspace: in.Workspace, OK: result.OK, Code: result.Code, Fingerprint: fingerprint(call, result.Text)}
	telemetry.CountToolCall(c.countedName(call.Name), result.Code)
	outcome, err = c.saveToolResult(ctx, in, call, result, outcome, started)
	if err != nil {
		return outcome, store.Message{}, err
	}
	_, message, err := c.Store.ToolResult(ctx, in.Execution.ID, in.Turn, in.Index)
	return outcome, message, err
}

// result returns the result of a call.
func (c *planCalls) result(ctx context.Context, in contract.ToolInput, call model.ToolCall) (tool.Result, error) {
	env := tool.Env{Limits: halvedLimits(plannerLimits, c.in.Lessons.Compact)}
	env.Brain = c.askBrain(in.Workspace, false)
	env.History = func(ctx context.Context, q tool.HistoryQuery) (string, bool, error) {
		return c.history(ctx, in, in.Workspace, q)
	}
	var err error
	env.Planning = &tool.Planning{
		Ask:    func(q tool.PersonQuestion) string { return c.mayAsk(contract.PlannerQuestion(q)) },
		Submit: c.acceptable,
		Baseline: func(q tool.BaselineQuery) string {
			var text string
			text, err = c.baselineText(ctx, q, env.Limits.AnswerBytes)
			return text
		},
	}
	switch _, known := planningTools.Definition(call.Name); {
	case !known || call.Name == tool.AskPerson:
	case call.Name != tool.SubmitPlan && c.last():
		return tool.Result{Text: "Not carried out: this was the last turn."}, nil
	case call.Name != tool.SubmitPlan && c.state.ReadBytes >= c.readLimit():
		return tool.Result{Text: "Not carried out: you have read as much as fits beside your plan. Submit the plan now."}, nil
	case c.dir == nil && (call.Name != tool.SubmitPlan || c.mostEdits() > 0):
		if c.dir, err = c.Workspaces.OpenShared(ctx, in.Workspace); err != nil {
			return tool.Result{}, err
		}
	}
	if c.dir != nil {
		env.Root = c.dir.Path()
	}
	result, called := c.tools().Call(ctx, env, call.Name, json.RawMessage(call.Arguments))
	result.Text = telemetry.Redact(result.Text)
	return result, errors.Join(err, called)
}

// taken adds the result of a call to the state of planning. It returns the plan if one was submitted.
func (c *planCalls) taken(call model.ToolCall, out contract.ToolOutcome, message store.Message) (*contract.Plan, error) {
	var shown model.Message
	if err := json.Unmarshal(message.Content, &shown); err != nil {
		return nil, fmt.Errorf("read the result of a call of execution %d, turn %d: %w", c.in.Execution.ID, c.turn, err)
	}
	if out.Code == contract.CodePathEscape || out.Code == contract.CodeForbidden {
		c.state.Violations++
		if c.state.Violations > c.in.Violations {
			return nil, fault.New(contract.ClassSafety, out.Code,
				"the planner tried %d times to use tools or paths that are not allowed; the last call was to %s", c.state.Violations, shownName(call.Name))
		}
	}
	if call.Name == tool.SubmitPlan {
		if !out.OK {
			if plan := c.withoutEdits(call.Arguments, shown.Text); plan != nil {
				return plan, nil
			}
			c.refused = shown.Text
			return nil, nil //nolint:nilnil // the model can correct it
		}
		plan, err := planning.Submitted(call.Arguments)
		return &plan, err
	}
	c.state.ReadBytes += len(shown.Text)
	if out.OK && call.Name != tool.AskPerson {
		c.state.Reads++
	}
	return nil, nil //nolint:nilnil // it has read something
}

// withoutEdits returns a refused plan without its edits, if that is a plan and the planner has no turn
// left to correct it: the agent of the step can make the change.
func (c *planCalls) withoutEdits(arguments, why string) *contract.Plan {
	if c.draft != nil || !c.last() {
		return nil
	}
	plan, err := planning.Submitted(arguments)
	if err != nil || len(plan.Edits) == 0 {
		return nil
	}
	plan.Edits = nil
	if verdict.Plan(plan) != nil {
		return nil
	}
	c.lostEdits = fault.Clip(why, maxRefusal)
	return &plan
}

// readLimit returns how much the planner may read for one plan.
func (p *planTurn) readLimit() int {
	most := plannerReads
	if entry, known := p.Model.Entry(p.in.Model); known && entry.ContextWindow > 0 {
		most = min(most, int(entry.ContextWindow/plannerWindowShare*bytesPerToken))
	}
	return most >> p.in.Lessons.Compact
}

// halvedLimits returns limits for a context that was halved some times.
func halvedLimits(l tool.Limits, halved int) tool.Limits {
	return tool.Limits{
		ReadBytes: max(1, l.ReadBytes>>halved), AnswerBytes: max(1, l.AnswerBytes>>halved),
		ListEntries: max(1, l.ListEntries>>halved), SearchHits: max(1, l.SearchHits>>halved),
	}
}

// AdoptPlan adopts the plan that a person supplied or edited, and estimates what it will take.
func (a *Activities) AdoptPlan(ctx context.Context, in contract.AdoptPlanInput) (contract.PlanResult, error) {
	plan, err := a.Store.PlanByID(ctx, in.RunID, in.PlanID)
	if err != nil {
		return contract.PlanResult{}, err
	}
	if err := verdict.Plan(plan); err != nil {
		return contract.PlanResult{}, err
	}
	run, err := a.Store.Run(ctx, in.RunID)
	if err != nil {
		return contract.PlanResult{}, err
	}
	if err := a.judgePlan(ctx, run, 0, change.RolePerson, plan, contract.ClassHuman, contract.CodeRejected); err != nil {
		return contract.PlanResult{}, err
	}
	review := &contract.PlanReview{Notes: len(plan.Notes), Risk: planning.Risk(plan, nil, run.Settings.Release.Protected, 0)}
	review.Estimate, err = a.estimate(ctx, run, plan)
	return contract.PlanResult{ID: in.PlanID, Plan: plan.Skeleton(), Review: review}, err
}

// estimate returns what a plan will probably take, from what earlier runs of the project took.
func (a *Activities) estimate(ctx context.Context, run store.Run, plan contract.Plan) (*contract.PlanEstimate, error) {
	builder := run.Settings.Models[contract.AgentBuilder]
	steps, tests, err := outcomes.Took(ctx, a.Store, run.ID, builder)
	if err != nil {
		return nil, err
	}
	entry, known := a.Model.Entry(builder)
	basis := planning.Basis{
		Tests: tests.Runs, Testing: tests.Seconds, Parallel: run.Settings.Parallel,
		Priced: known && !entry.Assumed, Cost: func(u contract.Usage) int64 { return model.Cost(u, entry) },
	}
	for _, s := range steps {
		basis.Steps = append(basis.Steps, planning.Past(s))
	}
	return planning.Estimate(plan, basis), nil
}

// open opens the conversation of an execution with its prompt, and stores the text of that version
// of the prompt.
func (a *Activities) open(ctx context.Context, execution contract.ExecutionRef, p prompt.Prompt) error {
	if _, kept := a.prompts.Load(p.Version); !kept {
		if err := a.Store.SavePrompt(ctx, p.Name, p.Version, p.System); err != nil {
			return err
		}
		a.prompts.Store(p.Version, true)
	}
	messages, err := encode([]model.Message{{Role: model.RoleSystem, Text: p.System}, {Role: model.RoleUser, Text: p.Task, Images: p.Pictures}})
	if err != nil {
		return err
	}
	return a.Store.OpenConversation(ctx, execution.ID, messages)
}

// excerpts returns the beginnings of the files that describe a repository: its README
// and manifests.
func (a *Activities) excerpts(ctx context.Context, ws contract.Workspace, files []string) ([]prompt.Excerpt, error) {
	var out []prompt.Excerpt
	left := prompt.ExcerptsBytes
	for _, name := range prompt.DescriptiveFiles(files) {
		content, found, err := a.Workspaces.BaseFile(ctx, ws, name, prompt.MaxExcerptFile)
		if err != nil {
			return nil, err
		}
		if !found || !utf8.Valid(content) || left <= 0 {
			continue
		}
		text := prompt.Beginning(telemetry.Redact(string(content)), min(left, prompt.ExcerptBytes))
		left -= len(text)
		out = append(out, prompt.Excerpt{Name: name, Text: text})
	}
	return out, nil
}

// maxNotedFile is the maximum size of a file whose lines a note can show.
const maxNotedFile = 4 << 20

// notes returns the notes of a plan for the builder of a step, with the lines that they are about.
func (a *Activities) notes(ctx context.Context, run store.Run, plan contract.Plan, step contract.Step, start contract.Workspace, most int) ([]prompt.Note, error) {
	base := run.Settings.Repo.Workspace()
	var out []prompt.NoteSource
	for _, n := range plan.Notes[:min(len(plan.Notes), contract.MaxNotes)] {
		source := prompt.NoteSource{Note: n}
		content, found, err := a.Workspaces.BaseFile(ctx, base, n.Path, maxNotedFile)
		if err != nil {
			return nil, err
		}
		source.File, source.Missing = telemetry.Redact(string(content)), !found || !utf8.Valid(content)
		source.Moved = strings.Count(source.File, "\n") != bytes.Count(content, []byte("\n"))
		if found && start.Tree != base.Tree {
			now, there, err := a.Workspaces.File(ctx, start, n.Path, maxNotedFile)
			if err != nil {
				return nil, err
			}
			source.Changed = !there || !bytes.Equal(now, content)
		}
		out = append(out, source)
	}
	return prompt.Notes(out, step, most), nil
}
