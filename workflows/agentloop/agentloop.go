// Package agentloop is the loop of an agent that works with tools: the builder, the Repair agent and the
// environment agent. A run carries out its steps as parts of its own workflow; other loops are workflows.
package agentloop

import (
	"encoding/json"
	"time"

	"go.temporal.io/sdk/log"
	"go.temporal.io/sdk/workflow"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/fault"
	"github.com/rocketgpt/orchestrator/workflows/internal/affinity"
	"github.com/rocketgpt/orchestrator/workflows/internal/commands"
	"github.com/rocketgpt/orchestrator/workflows/internal/options"
	"github.com/rocketgpt/orchestrator/workflows/internal/records"
)

// Workflow is an agent loop in a workflow of its own. It continues as new when its history becomes long.
func Workflow(ctx workflow.Context, in contract.StepInput) (contract.StepResult, error) {
	l := New(ctx, in, records.NewRecorder(ctx, in.RunID), workflow.GetInfo(ctx).TaskQueueName)
	if err := l.listen(ctx); err != nil {
		return contract.StepResult{}, err
	}
	result, more, err := l.Run(ctx)
	if more {
		return contract.StepResult{}, l.continueAsNew(ctx)
	}
	return result, err
}

// Loop is one agent loop: the model thinks, calls tools and sees the results, until it reports that it is done
// or its budget is used up. A model call and its tool calls are one activity, which makes further turns as long as
// the loop has nothing to decide; what it leaves to the loop are activities of their own. The conversation stays in the database,
// so the history holds only keys and decisions. LoopState is the part that survives a continue-as-new.
type Loop struct {
	contract.LoopState
	in       contract.StepInput
	affinity *affinity.Affinity // where its work is done
	log      log.Logger
	rows     *records.Recorder
	opened   bool

	conflict *contract.Conflict     // between the changes that the step starts from
	undone   bool                   // a call of the current turn that was to change or check something failed
	made     []contract.ThinkResult // of turns after the current one, made in the same activity
	wait     time.Duration          // before the turn after those, which failed
}

// New returns a loop that records its progress in rows and works on a task queue. It begins with Run.
func New(ctx workflow.Context, in contract.StepInput, rows *records.Recorder, queue string) *Loop {
	l := &Loop{
		in:       in,
		affinity: &affinity.Affinity{Queue: queue, Worker: in.Worker, Summary: in.Step},
		log:      log.With(workflow.GetLogger(ctx), "run", in.RunID, "step", in.Step),
		rows:     rows,
	}
	l.affinity.OnLost = l.workerLost
	if in.State != nil {
		l.LoopState, l.opened = *in.State, true
		l.rows.Seq = in.State.Records
		return l
	}
	l.Model, l.Started = in.Model, workflow.Now(ctx)
	l.Workspace, l.From = in.Workspace, in.Workspace
	return l
}

// Run carries the loop on until it ends. A failed step is a result with a failure, not an error. If the history
// of the workflow becomes long, Run stops between two turns and reports that there is more to do: Rest continues
// the loop in another history.
func (l *Loop) Run(ctx workflow.Context) (result contract.StepResult, more bool, err error) {
	if !l.opened {
		if failure := l.open(ctx); failure != nil {
			result, err = l.End(ctx, failure)
			return result, false, err
		}
	}
	for {
		goesOn, failure := l.turn(ctx)
		if failure == nil && !goesOn {
			failure = l.validate(ctx)
			if failure == nil {
				failure = l.passGate(ctx)
			}
		}
		if failure != nil || !goesOn {
			result, err = l.End(ctx, failure)
			return result, false, err
		}
		if len(l.made) == 0 && l.wait == 0 && ctx.Err() == nil && workflow.GetInfo(ctx).GetContinueAsNewSuggested() {
			return contract.StepResult{}, true, nil
		}
	}
}

// Rest returns the input that continues a loop which Run stopped. The conversation and the workspace are stored
// elsewhere already.
func (l *Loop) Rest() contract.StepInput {
	state, next := l.LoopState, l.in
	state.Records = l.rows.Seq
	next.State, next.Worker = &state, l.affinity.Worker
	return next
}

// Transcript returns where the loop's conversation is stored, as the part of a workflow.
func (l *Loop) Transcript(workflowID string) contract.TranscriptKey {
	return contract.TranscriptKey{
		Phase: l.in.Phase, Step: l.in.Step, Agent: l.in.Agent, Attempt: l.Execution.Attempt,
		ExecutionID: l.Execution.ID, Turns: l.Turn, Workflow: workflowID,
	}
}

// Apply applies directives of the run unless newer ones have already been applied.
func (l *Loop) Apply(o contract.Directives) {
	if o.Seq > l.DirectivesSeq {
		l.DirectivesSeq, l.Paused, l.Model = o.Seq, o.Paused, o.Model
	}
}

// workerLost records that the chosen worker is lost: any worker may continue the step.
func (l *Loop) workerLost(ctx workflow.Context, worker string) {
	l.Lost = worker
	l.log.Warn("The worker chosen for a step did not accept it; any worker can run it now", "worker", worker)
	// While a step is being opened, the recorder is locked until the opening returns, so this
	// record is written in the background.
	workflow.Go(ctx, func(ctx workflow.Context) {
		if err := l.rows.Write(ctx, affinity.WorkerLostRecord(affinity.WorkKey(l.in.Phase, l.in.Step), worker, l.affinity.Queue)); err != nil {
			l.log.Error("Could not record that a worker was lost", "worker", worker, "error", err)
		}
	})
}

// listen receives the run's directives and registers the query for where the conversation is
// stored.
func (l *Loop) listen(ctx workflow.Context) error {
	signals := workflow.GetSignalChannel(ctx, contract.SignalDirectives)
	workflow.Go(ctx, func(ctx workflow.Context) {
		for {
			var o contract.Directives
			if !signals.Receive(ctx, &o) {
				return
			}
			l.Apply(o)
		}
	})
	id := workflow.GetInfo(ctx).WorkflowExecution.ID
	return workflow.SetQueryHandler(ctx, contract.QueryTranscript, func() ([]contract.TranscriptKey, error) {
		return []contract.TranscriptKey{l.Transcript(id)}, nil
	})
}

// open begins the execution, merges the changes that the step starts from, and opens the
// conversation. This is one hop if the repository is on this host and there is little to merge.
func (l *Loop) open(ctx workflow.Context) *contract.Failure {
	// All attempts at a step in one workflow count their records together: without the digest, one that no history
	// knows could be taken for that of another attempt, with another plan.
	with, err := l.in.Digest()
	if err != nil {
		return fault.Of(err)
	}
	begin := contract.Record{
		Begin:  &contract.ExecutionBegin{Phase: l.in.Phase, Step: l.in.Step, Agent: l.in.Agent, Model: l.Model, With: with},
		Events: []contract.EventDraft{{Type: contract.EventStepStarted, Payload: map[string]any{"step": l.in.Step}}},
	}
	if ctx.Err() != nil {
		var stopped *contract.Failure
		l.Execution, stopped = l.rows.BeginStopped(ctx, begin)
		l.opened = l.Execution.ID != 0
		return stopped
	}
	var result contract.OpenStepResult
	var execution contract.ExecutionRef
	execution, err = l.rows.WriteWith(ctx, begin, func(rec contract.Record) (contract.ExecutionRef, error) {
		var err error
		result, err = affinity.LocalFirst(ctx, l.affinity, contract.ActivityOpenStep, len(l.in.Needs), func(quick bool) any {
			return contract.OpenStepInput{
				Record: rec, PlanID: l.in.PlanID, Workspace: l.in.Workspace, Needs: l.in.Needs, LocalOnly: quick, Lessons: l.in.Lessons, Heal: l.in.Heal, Conversation: l.in.Conversation, Resume: l.in.Resume, Setup: l.in.Setup,
			}
		}, func(r contract.OpenStepResult) bool { return r.Cold })
		return result.Execution, err
	})
	l.Execution, l.opened = execution, execution.ID != 0
	if err != nil {
		return fault.Of(err)
	}
	l.Workspace, l.From, l.Prompt, l.conflict = result.Workspace, result.Workspace, result.Prompt, result.Conflict
	l.Planned = result.Planned
	if result.Conflict != nil {
		return commands.MergeConflict(*result.Conflict)
	}
	if result.At.Tree != "" {
		l.Workspace = result.At
	}
	return nil
}

// turn makes one model call and the tool calls that it asks for. It reports whether
// there is more to do.
func (l *Loop) turn(ctx workflow.Context) (bool, *contract.Failure) {
	if failure := l.unpaused(ctx); failure != nil {
		return false, failure
	}
	think, failure := l.think(ctx)
	if failure != nil {
		return false, failure
	}
	l.Usage = l.Usage.Add(think.Usage)
	if think.Bad != "" {
		l.BadAnswers++
		if most := l.in.Settings.Budget.ErrorLimit; most > 0 && l.BadAnswers >= most {
			return false, &fault.New(contract.ClassLLM, contract.CodeInvalidOutput,
				"the model returned %d unusable responses in a row in step %s; the last: %s", l.BadAnswers, l.in.Step, think.Bad).Failure
		}
		return true, nil
	}
	l.BadAnswers = 0
	if think.Unread && l.budgetSpent(ctx) == nil {
		// Not before the agent has read what people wrote. Without a further turn it could not read it,
		// and its work would be lost.
		think.Finish, think.Summary, think.Blocked = false, "", ""
	}
	calls, last := think.Calls, []contract.ToolCallRef(nil)
	if think.Finish && think.Blocked == "" && l.finishesApart() {
		calls, last = finishApart(calls)
	}
	if think.Finish {
		l.Said = think.Summary
	}
	l.undone = false
	calls, done, failure := l.recordDone(calls, think.Done)
	if failure == nil {
		failure = l.callTools(ctx, calls)
	}
	if failure == nil && len(calls) == 0 {
		last, _, failure = l.recordDone(last, done)
	}
	if failure != nil {
		return false, failure
	}
	if len(last) > 0 {
		return l.tryToFinish(ctx, last, think.Unanswered)
	}
	if think.Blocked != "" {
		return false, &fault.New(contract.ClassConfig, contract.CodeBlocked, "the agent of step %s cannot continue: %s", l.in.Step, think.Blocked).Failure
	}
	return !think.Finish, nil
}

// think returns the result of the next turn's model call: one that was made together with that of an earlier
// turn, or a new one.
func (l *Loop) think(ctx workflow.Context) (contract.ThinkResult, *contract.Failure) {
	if len(l.made) > 0 {
		next := l.made[0]
		l.made = l.made[1:]
		l.Turn++
		return next, next.Failure
	}
	if l.wait > 0 {
		if err := workflow.Sleep(ctx, l.wait); err != nil {
			return contract.ThinkResult{}, fault.Of(err)
		}
		l.wait = 0
	}
	if failure := l.budgetSpent(ctx); failure != nil {
		return contract.ThinkResult{}, failure
	}
	l.Turn++
	var long time.Duration
	if !l.mayLoop() {
		long = l.toolTime()
	}
	var result contract.ThinkResult
	err := l.affinity.Execute(ctx, l.in.Settings.ModelTimeout+options.ModelWait+long, contract.ActivityThink, contract.ThinkInput{
		Execution: l.Execution, Turn: l.Turn, Model: l.Model, Budget: l.in.Settings.RunBudget, Timeout: l.in.Settings.ModelTimeout,
		Schema: l.in.Lessons.Schema, Left: l.budgetLeft(), Fallbacks: l.in.Settings.Fallbacks, Planned: l.Planned && l.Turn == 1,
		Answer: l.mustAnswer(),
		Tools: &contract.TurnTools{
			Workspace: l.Workspace, From: l.From.Slim(), Timeout: l.in.Settings.CommandTimeout, Long: long, FinishApart: l.finishesApart(),
			FinishHere: l.Refused >= l.in.Settings.FinishRefusals,
		},
		Further: l.furtherTurns(ctx),
	}).Get(ctx, &result)
	if err != nil {
		return contract.ThinkResult{}, fault.Of(err)
	}
	l.made, l.wait, result.Further = result.Further, result.Wait, nil
	return result, nil
}

// toolTime is the time for a tool call that may take long.
func (l *Loop) toolTime() time.Duration {
	return l.in.Settings.CommandTimeout + l.in.Settings.SetupTimeout + options.SaveTime + options.CoreWait
}

// mayLoop reports whether one more repetition of a call would end the step. Only the loop counts repetitions, so an
// activity must not continue after a call that could be the last one.
func (l *Loop) mayLoop() bool {
	limit := l.in.Settings.Budget.LoopLimit
	most := 0
	for _, fingerprint := range workflow.DeterministicKeys(l.Repeats) {
		most = max(most, l.Repeats[fingerprint])
	}
	return limit > 0 && most+1 >= limit
}

// furtherTurns returns the turns that may be made together with the next one; nil: none.
func (l *Loop) furtherTurns(ctx workflow.Context) *contract.FurtherTurns {
	b := l.in.Settings.Budget
	if l.mayLoop() {
		return nil
	}
	further := contract.FurtherTurns{Turns: contract.MaxFurtherTurns}
	if b.Turns > 0 {
		further.Turns = min(further.Turns, b.Turns-l.Turn)
	}
	if b.Time > 0 {
		further.Time = b.Time - workflow.Now(ctx).Sub(l.Started)
	}
	if further.Turns <= 0 {
		return nil
	}
	return &further
}

// unpaused waits while the run is paused. The wait does not count against the step's time.
func (l *Loop) unpaused(ctx workflow.Context) *contract.Failure {
	asked := workflow.Now(ctx)
	err := workflow.Await(ctx, func() bool { return !l.Paused })
	l.Started = l.Started.Add(workflow.Now(ctx).Sub(asked))
	return fault.Of(err)
}

// validate is the extra check of a step in strict mode: its change counts only if it
// passes the project's first stage of verification, usually the build.
func (l *Loop) validate(ctx workflow.Context) *contract.Failure {
	if !l.in.Lessons.Strict || l.Workspace.Tree == l.From.Tree {
		return nil
	}
	queue, most := contract.QueueTester, l.in.Settings.VerifyTimeout
	var plan contract.TestPlanResult
	err := workflow.ExecuteActivity(options.WithSummary(options.Remote(ctx, queue, options.LongWork), l.in.Step), contract.ActivityTestPlan, contract.TestPlanInput{
		Execution: l.Execution, Workspace: l.Workspace,
	}).Get(ctx, &plan)
	if err != nil {
		return fault.Of(err)
	}
	if len(plan.Stages) == 0 {
		return nil
	}
	for _, check := range plan.Stages[0] {
		var result contract.CheckResult
		within := options.WithSummary(options.Remote(ctx, queue, most+l.in.Settings.SetupTimeout+options.CoreWait), l.in.Step)
		err := workflow.ExecuteActivity(within, contract.ActivityVerify, contract.VerifyInput{
			Execution: l.Execution, Workspace: l.Workspace, Check: check, Timeout: most,
		}).Get(ctx, &result)
		if err != nil {
			return fault.Of(err)
		}
		if !result.OK {
			return &fault.New(contract.ClassAssertion, contract.CodeCheckFailed,
				"step %s ran in strict mode, and its change does not pass %s: %s", l.in.Step, check.Name, result.Message).Failure
		}
	}
	return nil
}

// budgetLeft returns what the step may still use. Call it only if budgetSpent found
// nothing used up.
func (l *Loop) budgetLeft() *contract.StepLeft {
	b := l.in.Settings.Budget
	var left contract.StepLeft
	if b.Tokens > 0 {
		left.Tokens = b.Tokens - l.Usage.Tokens()
	}
	if b.MicroUSD > 0 {
		left.MicroUSD = b.MicroUSD - l.Usage.MicroUSD
	}
	if left == (contract.StepLeft{}) {
		return nil
	}
	return &left
}

// budgetSpent returns the failure for the budget that the step has used up, if any.
func (l *Loop) budgetSpent(ctx workflow.Context) *contract.Failure {
	b := l.in.Settings.Budget
	over := func(what, key string, used, most any) *contract.Failure {
		return &fault.New(contract.ClassLogic, contract.CodeStepBudget,
			"step %s used %v of its %v %s without finishing; split it, or raise %s", l.in.Step, used, most, what, key).Failure
	}
	took := workflow.Now(ctx).Sub(l.Started)
	switch {
	case b.Turns > 0 && l.Turn >= b.Turns:
		return over("turns", "execution.step.turns", l.Turn, b.Turns)
	case b.Tokens > 0 && l.Usage.Tokens() >= b.Tokens:
		return over("tokens", "execution.step.tokens", l.Usage.Tokens(), b.Tokens)
	case b.MicroUSD > 0 && l.Usage.MicroUSD >= b.MicroUSD:
		return over("micro-dollars", "execution.step.cost_usd", l.Usage.MicroUSD, b.MicroUSD)
	case b.Time > 0 && took >= b.Time:
		return over("time", "execution.step.time", took.Round(time.Second), b.Time)
	}
	return nil
}

// callTools carries out the tool calls of a turn in order. Adjacent calls that only
// read run in parallel.
func (l *Loop) callTools(ctx workflow.Context, calls []contract.ToolCallRef) *contract.Failure {
	for len(calls) > 0 {
		if l.Paused {
			if failure := l.unpaused(ctx); failure != nil {
				return failure
			}
		}
		n := contract.SideBySide(calls)
		if failure := l.callSideBySide(ctx, calls[:n]); failure != nil {
			return failure
		}
		calls = calls[n:]
	}
	return nil
}

// finishesApart reports whether a call that finishes is carried out after all others of its turn,
// because it may be refused.
func (l *Loop) finishesApart() bool {
	return l.in.Settings.FinishRefusals > 0 || l.holdsFinish() || len(l.mustAnswer()) > 0
}

// holdsFinish reports whether an agent that wants to finish beside a failed call sees its result first.
// In a turn of the plan, no agent has seen any result.
func (l *Loop) holdsFinish() bool {
	return l.in.Settings.HoldFinish || l.Planned && l.Turn == 1
}

// recordDone records the outcomes of the calls that were carried out with their model call, which are
// the first ones. It returns the calls that are left, and the outcomes that belong to none of them, such as
// that of a call which finishes. Activities of earlier code carry out none.
func (l *Loop) recordDone(calls []contract.ToolCallRef, done []contract.DoneCall) ([]contract.ToolCallRef, []contract.DoneCall, *contract.Failure) {
	for len(done) > 0 && len(calls) > 0 && calls[0].Index == done[0].Index {
		if done[0].Failure != nil {
			return nil, nil, done[0].Failure
		}
		if failure := l.recordOutcome(calls[0], done[0].Outcome); failure != nil {
			return nil, nil, failure
		}
		calls, done = calls[1:], done[1:]
	}
	return calls, done, nil
}

func (l *Loop) callSideBySide(ctx workflow.Context, calls []contract.ToolCallRef) *contract.Failure {
	futures := make([]workflow.Future, len(calls))
	for i, call := range calls {
		futures[i] = l.callTool(ctx, call, refusal{})
	}
	for i, f := range futures {
		var out contract.ToolOutcome
		if err := f.Get(ctx, &out); err != nil {
			return fault.Of(err)
		}
		if failure := l.recordOutcome(calls[i], out); failure != nil {
			return failure
		}
	}
	return nil
}

// callTool carries out one tool call. Short ones are local activities; long ones, and
// calls with a repository that is not on this host yet, are ordinary activities.
func (l *Loop) callTool(ctx workflow.Context, call contract.ToolCallRef, why refusal) workflow.Future {
	args := contract.ToolInput{
		Execution: l.Execution, Turn: l.Turn, Index: call.Index, Workspace: l.Workspace, From: l.From.Slim(), Timeout: l.in.Settings.CommandTimeout,
		Failed: why.failed, Undone: why.undone, Unanswered: why.unanswered,
	}
	ordinary := func() workflow.Future {
		return l.affinity.Execute(ctx, l.toolTime(), contract.ActivityTool, args)
	}
	if call.Long || l.affinity.Worker != "" {
		return ordinary()
	}
	args.LocalOnly = true
	here := workflow.ExecuteLocalActivity(options.LocalOnce(ctx), contract.ActivityTool, args)
	result, set := workflow.NewFuture(ctx)
	workflow.Go(ctx, func(ctx workflow.Context) {
		var out contract.ToolOutcome
		err := here.Get(ctx, &out)
		if err == nil && out.Cold || err != nil && options.RunRemotely(err) {
			args.LocalOnly = false
			err = ordinary().Get(ctx, &out)
		}
		set.Set(out, err)
	})
	return result
}

// recordOutcome records the outcome of a tool call, and stops loops and misconduct.
func (l *Loop) recordOutcome(call contract.ToolCallRef, out contract.ToolOutcome) *contract.Failure {
	l.Workspace = out.Workspace
	if !out.OK && (!call.ReadOnly || call.Tool == checkTool) {
		l.undone = true
	}
	if out.Code == contract.CodePathEscape || out.Code == contract.CodeForbidden {
		l.Violations++
		if l.Violations > l.in.Settings.Agents.Violations {
			return &fault.New(contract.ClassSafety, out.Code,
				"the agent of step %s tried %d times to use tools or paths that are not allowed; the last call was to %s", l.in.Step, l.Violations, call.Tool).Failure
		}
	}
	most := l.in.Settings.Budget.LoopLimit
	if most <= 0 {
		return nil
	}
	if l.Repeats == nil {
		l.Repeats = map[string]int{}
	}
	l.Repeats[out.Fingerprint]++
	if n := l.Repeats[out.Fingerprint]; n >= most {
		return &fault.New(contract.ClassLLM, contract.CodeLoop,
			"the agent of step %s made the same %s call %d times with the same result (execution.step.loop_limit)", l.in.Step, call.Tool, n).Failure
	}
	return nil
}

// credit names the model that made the change: the planner's, if its edits are all of it.
func (l *Loop) credit() contract.Credit {
	if l.Planned && l.Turn <= 1 {
		return contract.Credit{Step: l.in.Step, Model: l.in.Planner.Model, Prompt: l.in.Planner.Prompt}
	}
	return contract.Credit{Step: l.in.Step, Model: l.Model.Model, Prompt: l.Prompt}
}

// End closes the execution and returns the step's result. Run ends a loop itself, unless it stopped: then End is
// for one that could not be continued elsewhere.
func (l *Loop) End(ctx workflow.Context, failure *contract.Failure) (contract.StepResult, error) {
	result := contract.StepResult{
		Change: contract.Change{Step: l.in.Step, From: l.From.Slim(), To: l.Workspace.Slim()},
		Credit: l.credit(),
		Usage:  l.Usage, ExecutionID: l.Execution.ID, Turns: l.Turn, Attempt: l.Execution.Attempt, Failure: failure,
		Conflict: l.conflict, Lost: l.Lost, Said: l.Said,
	}
	if !l.opened {
		return result, nil
	}
	last, done := workflow.NewDisconnectedContext(ctx)
	defer done()
	end := &contract.ExecutionEnd{ExecutionID: l.Execution.ID, Status: contract.ExecutionCompleted, Failure: failure}
	event := contract.EventDraft{Type: contract.EventStepCompleted, Payload: map[string]any{
		"step": l.in.Step, "attempt": l.Execution.Attempt, "turns": l.Turn, "usage": l.Usage,
	}}
	if failure == nil {
		// A replay that keeps this step reads its change from here.
		output, err := json.Marshal(contract.StepOutput{Change: result.Change, Credit: result.Credit})
		if err != nil {
			return result, err
		}
		end.Output = output
	} else {
		end.Status = contract.ExecutionFailed
		if failure.Code == contract.CodeCancelled {
			end.Status = contract.ExecutionCancelled
		}
		event = contract.EventDraft{Type: contract.EventStepError, Payload: map[string]any{
			"step": l.in.Step, "attempt": l.Execution.Attempt, "turns": l.Turn, "failure": failure,
		}}
	}
	// The event belongs to this end: it is written once, even if a lost workflow task already wrote
	// an end.
	return result, l.rows.Write(last, contract.Record{End: end, EndEvents: 1, Events: []contract.EventDraft{event}})
}

// continueAsNew starts the loop's next history. Unread directives from the run would be lost with this history,
// so it reads them first.
func (l *Loop) continueAsNew(ctx workflow.Context) error {
	signals := workflow.GetSignalChannel(ctx, contract.SignalDirectives)
	for {
		var o contract.Directives
		if !signals.ReceiveAsync(&o) {
			break
		}
		l.Apply(o)
	}
	return workflow.NewContinueAsNewError(ctx, contract.WorkflowStep, l.Rest())
}
