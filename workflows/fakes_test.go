package workflows

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/testsuite"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/fault"
	"github.com/rocketgpt/orchestrator/internal/runs/verdict"
)

// runFixture is what the workflows under test use: activities that answer as configured, and
// the records that they wrote.
type runFixture struct {
	mu          sync.Mutex
	env         *testsuite.TestWorkflowEnvironment
	updates     int // sent by updateCheck
	records     []contract.Record
	written     map[string]contract.RecordResult // by workflow and number
	hops        []string
	begun       map[string]int
	plan        contract.Plan
	fail        map[string]*fault.Error // activity (or activity/step) → its failure
	answers     map[string][]contract.ThinkResult
	thinks      map[string]int
	tools       int
	finished    [][]string // failed checks of each call to finish
	held        int        // calls to finish that were refused because another call of the turn failed
	checks      [][]contract.Check
	red         bool
	left        map[string]int // how often an activity still fails; absent: always
	redUntil    string         // the tree that passes
	conflict    string         // the step whose change conflicts
	refused     string         // why repairs are refused
	escapes     map[string]int // tool calls of a step that leave its paths, starting with the first
	released    contract.ReleaseInput
	pulls       []contract.PullRequestInput
	pullStates  []contract.PullRequestState // after each release; open if it has none
	replies     []contract.AnswerInput
	pushed      func(contract.TakeBranchInput) (contract.TakeBranchResult, *fault.Error) // nil: nobody moves the branch
	looked      []contract.TakeBranchInput
	updating    func(contract.UpdateBranchInput) (contract.UpdateBranchResult, *fault.Error)
	updatings   []contract.UpdateBranchInput
	markers     func(contract.ConflictMarkersInput) []string // nil: none are left
	published   []contract.ReleaseInput                      // that were made
	refuses     int                                          // how often releases are refused, because the branch was moved
	protected   contract.ProtectedFiles
	slow        *fault.Error // the failure of quick work
	opened      map[string]contract.OpenStepInput
	edited      map[int64]contract.Plan // plans that people stored
	refusedCode contract.Code
	traits      contract.Traits                                 // of every model
	onVerify    func(contract.VerifyInput) contract.CheckResult // if set, reports are verdicts over its results
	verified    []contract.CheckResult
	onThink     func(contract.ThinkInput)
	onAdopt     func(contract.AdoptPlanInput)
	workers     []string         // that serve each queue
	commits     []string         // trees that were released, in order
	taken       map[string]int   // repairs by message
	spent       int              // repairs of the branch by other runs
	infra       bool             // checks fail because of a machine
	releases    func(commit int) // called while a release is running
	planned     []contract.PlanInput
	edits       bool                                          // plans contain edits
	byPlan      []bool                                        // of each turn of a step: it was the plan's
	onPlan      func(contract.PlanInput) contract.PlanResult  // may ask for another turn
	gate        func(contract.GateInput) contract.GateVerdict // of runs with a gate
	judged      []contract.GateInput
	due         func(contract.GateInput) contract.ReviewDue // of runs with reviews
	review      func(contract.ReviewInput) (contract.ReviewResult, *fault.Error)
	reviews     []contract.ReviewInput
	unanswered  [][]string           // of calls to finish that were refused
	replays     *contract.ReplaySpec // of the builder
	onRecord    func(contract.Record)
}

func newRunFixture(t *testing.T) *runFixture {
	t.Helper()
	var suite testsuite.WorkflowTestSuite
	w := &runFixture{
		env: suite.NewTestWorkflowEnvironment(), written: map[string]contract.RecordResult{}, edited: map[int64]contract.Plan{}, begun: map[string]int{}, taken: map[string]int{}, fail: map[string]*fault.Error{}, left: map[string]int{},
		answers: map[string][]contract.ThinkResult{}, thinks: map[string]int{}, opened: map[string]contract.OpenStepInput{},
		plan:   onePlan("step-001"),
		checks: [][]contract.Check{{{ID: "build-go", Category: contract.CategoryBuild}}, {{ID: "test-go-1", Category: contract.CategoryTest}, {ID: "test-go-2", Category: contract.CategoryTest}}},
	}
	RegisterRun(w.env)
	RegisterStep(w.env)
	RegisterSelfHeal(w.env)
	w.env.SetTestTimeout(time.Minute)
	w.registerPlanAndBuild()
	w.registerTestAndRelease()
	return w
}

func (w *runFixture) register(name string, f any) {
	w.env.RegisterActivityWithOptions(f, activity.RegisterOptions{Name: name})
}

func (w *runFixture) registerPlanAndBuild() {
	w.register(contract.ActivityRecord, w.record)
	w.register(contract.ActivityPlan, func(_ context.Context, in contract.PlanInput) (contract.PlanResult, error) {
		w.mu.Lock()
		w.planned = append(w.planned, in)
		w.mu.Unlock()
		result := contract.PlanResult{}
		if w.onPlan != nil {
			if result = w.onPlan(in); result.More {
				return result, nil
			}
		}
		result.ID, result.Plan, result.Usage = madePlan, w.plan.Skeleton(), contract.Usage{Calls: 1, PromptTokens: 10}
		return result, w.failing(contract.ActivityPlan)
	})
	w.register(contract.ActivityAdoptPlan, func(_ context.Context, in contract.AdoptPlanInput) (contract.PlanResult, error) {
		if w.onAdopt != nil {
			w.onAdopt(in)
		}
		plan, ok := w.edited[in.PlanID]
		if !ok {
			return contract.PlanResult{}, fault.ToTemporal(fault.New(contract.ClassHuman, "not_found", "there is no plan %d", in.PlanID), 1)
		}
		return contract.PlanResult{ID: in.PlanID, Plan: plan.Skeleton()}, nil
	})
	w.register(contract.ActivityOpenStep, w.openStep)
	w.register(contract.ActivityThink, w.think)
	w.register(contract.ActivityTool, w.tool)
	w.register(contract.ActivityIntegrate, func(_ context.Context, in contract.IntegrateInput) (contract.IntegrateResult, error) {
		w.hop(contract.ActivityIntegrate, in.LocalOnly)
		if in.LocalOnly && w.fail["cold"] != nil {
			return contract.IntegrateResult{Cold: true}, nil
		}
		out := contract.IntegrateResult{Workspace: in.Workspace}
		for _, c := range in.Changes {
			if c.From.Tree == out.Workspace.Tree {
				out.Workspace = c.To.Of(out.Workspace)
				out.Stages = append(out.Stages, out.Workspace.Slim())
				continue
			}
			if c.Step == w.conflict {
				out.Conflict = &contract.Conflict{Step: c.Step, Paths: []string{"x.go"}}
				return out, nil
			}
			out.Workspace.Tree += "+" + c.To.Tree
			out.Stages = append(out.Stages, out.Workspace.Slim())
		}
		return out, w.failing(contract.ActivityIntegrate)
	})
	w.register(contract.ActivityTestPlan, func(_ context.Context, in contract.TestPlanInput) (contract.TestPlanResult, error) {
		w.hop(contract.ActivityTestPlan, in.LocalOnly)
		if in.LocalOnly && w.fail["cold"] != nil {
			return contract.TestPlanResult{Cold: true}, nil
		}
		return contract.TestPlanResult{Stages: w.checks}, w.failing(contract.ActivityTestPlan)
	})
}

func (w *runFixture) registerTestAndRelease() {
	w.register(contract.ActivityVerify, func(_ context.Context, in contract.VerifyInput) (contract.CheckResult, error) {
		w.mu.Lock()
		if w.onVerify != nil {
			defer w.mu.Unlock()
			result := w.onVerify(in)
			result.Check = in.Check
			if in.Execution.Step == "" { // else it is an agent's own
				w.verified = append(w.verified, result)
			}
			return result, nil
		}
		if w.redUntil != "" {
			w.red = in.Workspace.Tree != w.redUntil
		}
		red := w.red
		w.mu.Unlock()
		return contract.CheckResult{Check: in.Check, OK: !red}, w.failing(contract.ActivityVerify)
	})
	w.register(contract.ActivityTestReport, func(context.Context, contract.TestReportInput) (contract.TestReportResult, error) {
		if w.onVerify != nil {
			w.mu.Lock()
			defer w.mu.Unlock()
			return verdict.Of(w.verified, contract.Thresholds{}), nil
		}
		if w.red {
			return contract.TestReportResult{Major: 1, Failure: &fault.New(contract.ClassAssertion, contract.CodeTestsFailed, "red").Failure}, nil
		}
		return contract.TestReportResult{Summary: contract.TestSummary{Passed: 3}}, w.failing(contract.ActivityTestReport)
	})
	w.register(contract.ActivityDiagnose, func(_ context.Context, in contract.DiagnoseInput) (contract.Diagnosis, error) {
		return contract.Diagnosis{Failure: in.Failure, RootCause: "root of " + in.Failure.Message, Model: w.traits}, nil
	})
	w.register(contract.ActivityJudge, func(context.Context, contract.JudgeInput) (contract.Judgement, error) {
		return contract.Judgement{Refused: w.refused, Code: w.refusedCode, Diff: "+x"}, nil
	})
	w.register(contract.ActivityCreateDefaults, func(_ context.Context, in contract.DefaultsInput) (contract.DefaultsResult, error) {
		in.Workspace.Tree += "+defaults"
		return contract.DefaultsResult{Workspace: in.Workspace, Created: []string{".env"}}, w.failing(contract.ActivityCreateDefaults)
	})
	w.register(contract.ActivityWorkers, func(context.Context, contract.WorkersInput) (contract.WorkersResult, error) {
		return contract.WorkersResult{Workers: w.workers}, nil
	})
	w.register(contract.ActivityRunTimeFrom, func(context.Context, int64) (time.Time, error) { return time.Time{}, nil })
	w.register(contract.ActivityHandoff, func(_ context.Context, in contract.HandoffInput) (contract.HandoffResult, error) {
		return contract.HandoffResult{Artifact: fmt.Sprintf("handoff/%s-%d.md", in.Agent, in.Generation)}, nil
	})
	w.register(contract.ActivityRelease, func(_ context.Context, in contract.ReleaseInput) (contract.ReleaseResult, error) {
		w.mu.Lock()
		w.released = in
		if w.refuses > 0 {
			w.refuses--
			w.mu.Unlock()
			return contract.ReleaseResult{}, fault.ToTemporal(fault.New(contract.ClassLogic, contract.CodeBranchConflict, "the branch was moved"), 1)
		}
		if n := len(w.commits); n == 0 || w.commits[n-1] != in.Workspace.Tree {
			w.commits = append(w.commits, in.Workspace.Tree)
		}
		n := len(w.commits)
		w.published = append(w.published, in)
		w.mu.Unlock()
		if w.releases != nil {
			w.releases(n)
		}
		return contract.ReleaseResult{Branch: in.Release.Branch, Commit: commitOf(n)}, w.failing(contract.ActivityRelease)
	})
	w.register(contract.ActivityPullRequest, func(_ context.Context, in contract.PullRequestInput) (contract.PullRequest, error) {
		w.mu.Lock()
		w.pulls = append(w.pulls, in)
		state := contract.PullRequestOpen
		if n := len(w.pulls); n <= len(w.pullStates) {
			state = w.pullStates[n-1]
		}
		w.mu.Unlock()
		return contract.PullRequest{Number: 7, URL: "https://git.example.com/o/r/pulls/7", Commit: in.Commit, State: state}, w.failing(contract.ActivityPullRequest)
	})
	w.register(contract.ActivityAnswer, func(_ context.Context, in contract.AnswerInput) (string, error) {
		w.mu.Lock()
		w.replies = append(w.replies, in)
		w.mu.Unlock()
		return "https://git.example.com/o/r/pulls/7#note", w.failing(contract.ActivityAnswer)
	})
	w.register(contract.ActivityProtected, func(context.Context, contract.ProtectedInput) (contract.ProtectedFiles, error) {
		return w.protected, w.failing(contract.ActivityProtected)
	})
	w.register(contract.ActivityGate, func(_ context.Context, in contract.GateInput) (contract.GateVerdict, error) {
		if in.LocalOnly && in.Stage == contract.GateRelease {
			return contract.GateVerdict{Cold: true}, nil
		}
		w.mu.Lock()
		w.judged = append(w.judged, in)
		w.mu.Unlock()
		return w.gate(in), w.failing(contract.ActivityGate)
	})
	w.register(contract.ActivityReviewDue, func(_ context.Context, in contract.ReviewDueInput) (contract.ReviewDue, error) {
		if in.Gate.LocalOnly {
			return contract.ReviewDue{Cold: true}, nil
		}
		if w.due == nil {
			return contract.ReviewDue{Due: true}, w.failing(contract.ActivityReviewDue)
		}
		return w.due(in.Gate), w.failing(contract.ActivityReviewDue)
	})
	w.register(contract.ActivityReview, func(_ context.Context, in contract.ReviewInput) (contract.ReviewResult, error) {
		if in.Failure != nil {
			return contract.ReviewResult{Failed: in.Failure.Message}, nil
		}
		w.mu.Lock()
		w.reviews = append(w.reviews, in)
		w.mu.Unlock()
		out, failed := w.review(in)
		if failed != nil {
			if failed.RetryAfter > 0 {
				return out, fault.ToTemporal(failed, 1)
			}
			return out, fault.ToTemporal(failed, fault.RetryOf(failed.Class).Attempts)
		}
		return out, nil
	})
	w.register(contract.ActivityTakeCheck, w.takeCheck)
	w.register(contract.ActivityTakeBranch, func(_ context.Context, in contract.TakeBranchInput) (contract.TakeBranchResult, error) {
		w.mu.Lock()
		w.looked = append(w.looked, in)
		w.mu.Unlock()
		if w.pushed == nil {
			return contract.TakeBranchResult{Point: contract.BranchPoint{Commit: in.Commit}}, nil
		}
		out, failed := w.pushed(in)
		if failed != nil {
			return out, fault.ToTemporal(failed, fault.RetryOf(failed.Class).Attempts)
		}
		return out, nil
	})
	w.register(contract.ActivityUpdateBranch, func(_ context.Context, in contract.UpdateBranchInput) (contract.UpdateBranchResult, error) {
		w.mu.Lock()
		w.updatings = append(w.updatings, in)
		w.mu.Unlock()
		out, failed := w.updating(in)
		if failed != nil {
			return out, fault.ToTemporal(failed, fault.RetryOf(failed.Class).Attempts)
		}
		return out, nil
	})
	w.register(contract.ActivityConflictMarkers, func(_ context.Context, in contract.ConflictMarkersInput) ([]string, error) {
		if w.markers == nil {
			return nil, nil
		}
		return w.markers(in), nil
	})
	w.register(contract.ActivityCleanUp, func(context.Context, int64) (bool, error) { return true, nil })
}

// commitOf returns the names of the released commits: c0ffee, then c0ffee2.
func commitOf(n int) string {
	if n == 1 {
		return "c0ffee"
	}
	return fmt.Sprint("c0ffee", n)
}

// takeCheck counts repairs like the database does.
func (w *runFixture) takeCheck(_ context.Context, in contract.TakeCheckInput) (contract.TakeCheckResult, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	out := contract.TakeCheckResult{ID: int64(100 + len(w.taken)), Failure: fault.New(contract.ClassAssertion, contract.CodeCheckFailed, "%s failed", in.Message.Name).Failure}
	if w.infra {
		return contract.TakeCheckResult{Failure: fault.New(contract.ClassInfra, contract.CodeUnavailable, "no network").Failure}, nil
	}
	if _, known := w.taken[in.Message.ID]; !known {
		repair := w.spent + 1
		if repair > in.MaxRepairs {
			repair = 0
		} else {
			w.spent++
		}
		w.taken[in.Message.ID] = repair
	}
	out.Repair = w.taken[in.Message.ID]
	return out, nil
}

// failing returns the configured error of an activity, in the form that crosses
// Temporal.
func (w *runFixture) failing(name string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if e := w.fail[name]; e != nil {
		if n, counted := w.left[name]; counted {
			if n == 0 {
				return nil
			}
			w.left[name]--
		}
		return fault.ToTemporal(e, fault.RetryOf(e.Class).Attempts)
	}
	return nil
}

// record applies a record once, like the database does.
func (w *runFixture) record(ctx context.Context, rec contract.Record) (contract.RecordResult, error) {
	if w.onRecord != nil {
		w.onRecord(rec)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	key := fmt.Sprint(activity.GetInfo(ctx).WorkflowExecution, rec.Workflow, rec.Seq)
	if prior, ok := w.written[key]; ok {
		return prior, nil
	}
	w.records = append(w.records, rec)
	var out contract.RecordResult
	if b := rec.Begin; b != nil {
		attempts := fmt.Sprint(b.Phase, "/", b.Step)
		w.begun[attempts]++
		out.Execution = contract.ExecutionRef{
			ID: int64(len(w.records)), RunID: rec.RunID, Phase: b.Phase, Step: b.Step, Agent: b.Agent, Attempt: w.begun[attempts],
		}
		if b.Phase == contract.PhaseBuilder && b.Step == "" {
			out.Replay = w.replays
		}
	}
	w.written[key] = out
	return out, nil
}

// recorded returns the records so far.
func (w *runFixture) recorded() []contract.Record {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.records)
}

func (w *runFixture) openStep(ctx context.Context, in contract.OpenStepInput) (contract.OpenStepResult, error) {
	step := in.Record.Begin.Step
	w.hop(contract.ActivityOpenStep, in.LocalOnly)
	begun, err := w.record(ctx, in.Record)
	if err != nil {
		return contract.OpenStepResult{}, err
	}
	if in.LocalOnly && w.slow != nil {
		return contract.OpenStepResult{}, fault.ToTemporal(w.slow, 1)
	}
	w.mu.Lock()
	w.opened[step] = in
	w.mu.Unlock()
	if in.LocalOnly && w.fail["cold"] != nil {
		return contract.OpenStepResult{Execution: begun.Execution, Cold: true}, nil
	}
	for _, c := range in.Needs {
		in.Workspace.Tree += "+" + c.To.Tree
	}
	return contract.OpenStepResult{Execution: begun.Execution, Workspace: in.Workspace, Prompt: "builder@1", Planned: w.edits}, w.failing(contract.ActivityOpenStep + "/" + step)
}

// madePlan is the id of the plan that the model made.
const madePlan = 1

// hop records work that may be local or ordinary.
func (w *runFixture) hop(name string, quick bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.hops = append(w.hops, fmt.Sprint(name, " quick=", quick))
}

// think answers with the next of the step's answers; when they run out, with
// one tool call, then finish.
func (w *runFixture) think(_ context.Context, in contract.ThinkInput) (contract.ThinkResult, error) {
	if w.onThink != nil {
		w.onThink(in)
	}
	failed := w.failing(contract.ActivityThink + "/" + in.Execution.Step)
	if failed != nil {
		return contract.ThinkResult{}, failed
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.thinks[in.Execution.Step]++
	w.byPlan = append(w.byPlan, in.Planned)
	answer := contract.ThinkResult{Calls: []contract.ToolCallRef{{Tool: "edit_file"}}, Finish: in.Turn > 1}
	if queue, ok := w.answers[in.Execution.Step]; ok {
		answer = queue[min(in.Turn, len(queue))-1]
	}
	answer.Usage = contract.Usage{Calls: 1, PromptTokens: 100, CompletionTokens: 10, MicroUSD: 5}
	return answer, nil
}

// failingTool is the name of a tool whose calls fail.
const failingTool = "broken_edit"

func (w *runFixture) tool(_ context.Context, in contract.ToolInput) (contract.ToolOutcome, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.slow != nil {
		w.hops = append(w.hops, fmt.Sprint(contract.ActivityTool, " quick=", in.LocalOnly))
	}
	if in.LocalOnly && w.slow != nil {
		return contract.ToolOutcome{}, fault.ToTemporal(w.slow, 1)
	}
	w.tools++
	if answers := w.answers[in.Execution.Step]; in.Turn <= len(answers) && answers[in.Turn-1].Calls[in.Index].Tool == "finish" {
		w.finished = append(w.finished, in.Failed)
		if in.Undone {
			w.held++
		}
		if len(in.Unanswered) > 0 {
			w.unanswered = append(w.unanswered, in.Unanswered)
		}
		return contract.ToolOutcome{Workspace: in.Workspace, OK: len(in.Failed) == 0 && !in.Undone, Fingerprint: fmt.Sprint(in.Execution.Step, in.Turn, in.Index)}, nil
	}
	out := contract.ToolOutcome{Workspace: in.Workspace, OK: true, Fingerprint: fmt.Sprint(in.Execution.Step, in.Turn, in.Index)}
	switch answers := w.answers[in.Execution.Step]; {
	case in.Turn <= len(answers) && answers[in.Turn-1].Calls[in.Index].Tool == failingTool:
		out.OK = false
	case w.escapes[in.Execution.Step] > 0:
		w.escapes[in.Execution.Step]--
		out.OK, out.Code = false, contract.CodePathEscape
	case w.fail["escape"] != nil:
		out.OK, out.Code = false, contract.CodePathEscape
	case w.fail["repeat"] != nil:
		out.Fingerprint = "same"
	default:
		step := in.Execution.Step
		if in.Execution.Attempt > 1 && step == contract.StepRepair { // another repair changes something else
			step = fmt.Sprint(step, in.Execution.Attempt)
		}
		out.Workspace.Tree = fmt.Sprintf("%s.%d.%d", step, in.Turn, in.Index)
	}
	return out, nil
}

// statuses returns the run's statuses, in order, without repeats.
func (w *runFixture) statuses() []contract.Status {
	var out []contract.Status
	for _, rec := range w.recorded() {
		if rec.Run != nil && (len(out) == 0 || out[len(out)-1] != rec.Run.Status) {
			out = append(out, rec.Run.Status)
		}
	}
	return out
}

func (w *runFixture) events() []contract.EventType {
	var out []contract.EventType
	for _, rec := range w.recorded() {
		for _, e := range rec.Events {
			out = append(out, e.Type)
		}
	}
	return out
}

// orchestrate runs the workflow to its end.
func (w *runFixture) orchestrate(t *testing.T, change ...func(*contract.Settings)) contract.RunResult {
	t.Helper()
	w.env.ExecuteWorkflow(contract.WorkflowRun, runInput(change...))
	require.True(t, w.env.IsWorkflowCompleted())
	require.NoError(t, w.env.GetWorkflowError())
	var result contract.RunResult
	require.NoError(t, w.env.GetWorkflowResult(&result))
	return result
}

func runInput(change ...func(*contract.Settings)) contract.RunInput {
	model := contract.ModelChoice{Provider: "scripted", Model: "scripted"}
	s := contract.Settings{
		Repo:           contract.Repo{URL: "/repo", Base: "b45e", Tree: "7ree"},
		Models:         map[contract.Agent]contract.ModelChoice{contract.AgentPlanner: model, contract.AgentBuilder: model, contract.AgentTester: model, contract.AgentReleaser: model},
		MaxRetries:     0, // tests of heals set it
		Agents:         contract.AgentLimits{Errors: 8, Repeats: 2, Violations: 1},
		Parallel:       4,
		StepBudget:     contract.StepBudget{Turns: 20, LoopLimit: 5, ErrorLimit: 3},
		RunBudget:      contract.RunBudget{Time: 24 * time.Hour},
		Release:        contract.ReleaseSettings{Branch: "rgpt/run-7"},
		ApprovalWait:   time.Hour,
		CommandTimeout: time.Minute, VerifyTimeout: time.Minute, ModelTimeout: time.Minute,
	}
	for _, c := range change {
		c(&s)
	}
	return contract.RunInput{RunID: 7, Tenant: "local", Project: "sample", Settings: s, Logic: contract.LogicLocalSetup}
}

// onePlan returns a plan of steps without dependencies.
func onePlan(ids ...string) contract.Plan {
	p := contract.Plan{Summary: "s"}
	for _, id := range ids {
		p.Steps = append(p.Steps, contract.Step{ID: id, Name: id})
	}
	return p
}

// after runs f once the workflow has waited for d.
func (w *runFixture) after(d time.Duration, f func()) { w.env.RegisterDelayedCallback(f, d) }

// view asks the run for its state.
func (w *runFixture) view(t *testing.T) contract.RunView {
	t.Helper()
	value, err := w.env.QueryWorkflow(contract.QueryState)
	require.NoError(t, err)
	var v contract.RunView
	require.NoError(t, value.Get(&v))
	return v
}

// update sends an update and returns its answer.
func (w *runFixture) update(name string, c contract.Command) *answer { return w.send(name, c.ID, c) }

func (w *runFixture) send(name, id string, args any) *answer {
	a := &answer{}
	w.env.UpdateWorkflow(name, id, &testsuite.TestUpdateCallback{
		OnAccept: func() { a.accepted = true },
		OnReject: func(err error) { a.err = err },
		OnComplete: func(result any, err error) {
			a.err = err
			if ack, ok := result.(contract.Ack); ok {
				a.ack = ack
			}
		},
	}, args)
	return a
}

type answer struct {
	accepted bool
	ack      contract.Ack
	err      error
}
