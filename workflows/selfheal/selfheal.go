// Package selfheal is the workflow that heals one failure of a run.
package selfheal

import (
	"cmp"
	"fmt"
	"slices"

	"go.temporal.io/sdk/workflow"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/fault"
	"github.com/rocketgpt/orchestrator/workflows/internal/affinity"
	"github.com/rocketgpt/orchestrator/workflows/internal/commands"
	"github.com/rocketgpt/orchestrator/workflows/internal/options"
	"github.com/rocketgpt/orchestrator/workflows/internal/records"
)

// Workflow heals one failure of a run: it diagnoses the failure, chooses the next untried action of
// its class, carries it out, and returns a directive, which the run applies. If the action could
// not be carried out, the directive reports that, and the run starts the next heal.
func Workflow(ctx workflow.Context, in contract.HealInput) (contract.Directive, error) {
	h := &heal{in: in, failure: in.Failure, rows: records.NewRecorder(ctx, in.RunID), instructions: in.Directives}
	h.listen(ctx)
	if err := h.diagnose(ctx); err != nil {
		return contract.Directive{}, err
	}
	// A paused run begins no action.
	if err := workflow.Await(ctx, func() bool { return !h.instructions.Paused }); err != nil {
		return contract.Directive{}, err
	}
	h.lookForWorker(ctx)
	action := h.choose()
	if err := h.recordStart(ctx, action); err != nil {
		return contract.Directive{}, err
	}
	d, err := h.act(ctx, action)
	if err != nil {
		d = contract.Directive{Failed: fault.Of(err).Message, Usage: d.Usage}
	}
	d.Number, d.Action, d.Class, d.Code = in.Number, action, h.failure.Class, h.failure.Code
	return d, h.recordEnd(ctx, d)
}

type heal struct {
	in           contract.HealInput
	failure      contract.Failure // after the diagnosis
	rootCause    string
	asked        string          // what a reviewer of the branch asked for
	traits       contract.Traits // of the failed execution's model
	rows         *records.Recorder
	output       contract.HealOutput
	instructions contract.Directives          // of the run, the newest
	agent        workflow.ChildWorkflowFuture // the Repair agent, while it is running

	worker string // a worker other than the failed one; empty: none
}

// listen receives the run's directives, and passes them on to the Repair agent.
func (h *heal) listen(ctx workflow.Context) {
	told := workflow.GetSignalChannel(ctx, contract.SignalDirectives)
	workflow.Go(ctx, func(ctx workflow.Context) {
		for {
			var o contract.Directives
			if !told.Receive(ctx, &o) {
				return
			}
			if o.Seq > h.instructions.Seq {
				h.instructions = o
				h.forward(ctx)
			}
		}
	})
}

// forward sends the Repair agent, if it is running, the run's current directives.
func (h *heal) forward(ctx workflow.Context) {
	if h.agent == nil {
		return
	}
	sent := h.agent.SignalChildWorkflow(ctx, contract.SignalDirectives, h.instructions)
	workflow.Go(ctx, func(ctx workflow.Context) {
		// An agent that has just ended does not need directives.
		if err := sent.Get(ctx, nil); err != nil {
			workflow.GetLogger(ctx).Info("Could not signal the Repair agent", "heal", h.in.Number, "error", err)
		}
	})
}

// disconnected returns a context for short work between two records, which a stop does not
// interrupt. A workflow task during which a cancellation arrives may be discarded after its records
// were written; its repetition must produce the same records, or the rows would not match any
// history.
func disconnected(ctx workflow.Context) (workflow.Context, workflow.CancelFunc) {
	return workflow.NewDisconnectedContext(ctx)
}

// diagnose examines the results of the failed execution.
func (h *heal) diagnose(ctx workflow.Context) error {
	ctx, done := disconnected(ctx)
	defer done()
	var d contract.Diagnosis
	err := workflow.ExecuteLocalActivity(options.Local(ctx), contract.ActivityDiagnose, contract.DiagnoseInput{
		Execution: h.in.Execution, Failure: h.in.Failure, Check: h.in.Check, Model: h.in.Model,
	}).Get(ctx, &d)
	h.failure, h.rootCause, h.asked, h.traits = d.Failure, d.RootCause, d.Asked, d.Model
	return err
}

// lookForWorker looks for another worker for the failed work, if that is the next action for such a
// failure.
func (h *heal) lookForWorker(ctx workflow.Context) {
	row := fault.HealOf(h.failure.Class, h.failure.Code)
	if h.in.Asked != "" {
		row = []contract.HealAction{h.in.Asked}
	}
	if !slices.Contains(row, contract.HealOtherWorker) || h.in.Asked == "" && slices.Contains(h.in.Tried, contract.HealOtherWorker) {
		return
	}
	ctx, done := disconnected(ctx)
	defer done()
	var found contract.WorkersResult
	err := workflow.ExecuteLocalActivity(options.Local(ctx), contract.ActivityWorkers, contract.WorkersInput{Queue: contract.QueueOf(h.in.Phase)}).Get(ctx, &found)
	if err != nil {
		workflow.GetLogger(ctx).Warn("Could not look for another worker; trying the next action", "run", h.in.RunID, "error", err)
		return
	}
	h.worker = h.otherThanFailed(found.Workers)
}

// otherThanFailed picks the first worker that has not failed. If the failed worker is unknown and
// there is only one worker, that one must have failed.
func (h *heal) otherThanFailed(workers []string) string {
	if h.in.Failure.Worker == "" && len(workers) < 2 {
		return ""
	}
	for _, w := range workers {
		if w != h.in.Failure.Worker && !slices.Contains(h.in.Avoid, w) {
			return w
		}
	}
	return ""
}

// choose returns the requested action, or the next untried action that applies here. If there is
// none, it asks a person.
func (h *heal) choose() contract.HealAction {
	if h.in.Asked != "" {
		return h.in.Asked
	}
	tried := slices.Clone(h.in.Tried)
	for {
		action, ok := fault.NextAction(&h.failure, tried)
		if !ok {
			return contract.HealAskPerson
		}
		if h.applies(action) {
			return action
		}
		tried = append(tried, action)
	}
}

// applies reports whether an action can change anything here.
func (h *heal) applies(action contract.HealAction) bool {
	if needsModel[action] && !h.in.Phase.UsesModel() {
		return false
	}
	switch action {
	case contract.HealLowerTemperature:
		return !h.traits.FixedTemperature && (h.in.Model.Temperature == nil || *h.in.Model.Temperature > 0)
	case contract.HealMoreReasoning:
		_, more := h.in.Model.Effort.More()
		return h.traits.Effort && more && (h.traits.FixedTemperature || h.in.Asked == action)
	case contract.HealLessReasoning:
		_, less := h.in.Model.Effort.Less()
		return h.traits.Effort && less && (h.traits.ReasonedMost || h.in.Asked == action)
	case contract.HealSaferModel:
		return h.otherModel(false) != nil
	case contract.HealOtherProvider:
		return h.otherModel(true) != nil
	case contract.HealStricterSchema, contract.HealCompactContext:
		return h.in.Phase == contract.PhasePlanner || h.in.Step != "" // the other phases do not call a model
	case contract.HealOtherWorker:
		return h.worker != ""
	case contract.HealRepair:
		return h.in.Phase == contract.PhaseTester || h.in.Phase == contract.PhaseBuilder && h.in.Step != ""
	case contract.HealRefineStep:
		return h.in.Step != ""
	case contract.HealRefinePlan:
		return !h.in.PlanGiven
	case contract.HealCreateDefaults:
		return h.in.Phase == contract.PhaseTester
	default:
		return true
	}
}

// needsModel is the set of actions that change the model or its input.
var needsModel = map[contract.HealAction]bool{
	contract.HealCorrectJSON: true, contract.HealRegenerate: true, contract.HealCompactContext: true, contract.HealStricterSchema: true,
	contract.HealLowerTemperature: true, contract.HealMoreReasoning: true, contract.HealLessReasoning: true, contract.HealSaferModel: true, contract.HealOtherProvider: true,
}

// otherModel returns the first model that is not the one that failed, at another
// provider if requested.
func (h *heal) otherModel(provider bool) *contract.ModelChoice {
	for _, m := range h.in.Others {
		if m.Provider != h.in.Model.Provider || !provider && m.Model != h.in.Model.Model {
			return &m
		}
	}
	return nil
}

// recordStart records that the heal has started.
func (h *heal) recordStart(ctx workflow.Context, action contract.HealAction) error {
	h.output = contract.HealOutput{Words: h.in.Words, Before: map[string]any{"model": h.in.Model.Provider + "/" + h.in.Model.Model}}
	if t := h.in.Model.Temperature; t != nil {
		h.output.Before["temperature"] = *t
	}
	switch action {
	case contract.HealMoreReasoning, contract.HealLessReasoning:
		h.output.Before["reasoning"] = cmp.Or(string(h.in.Model.Effort), "the provider's default")
	case contract.HealStricterSchema:
		h.output.Before["schema"], _ = h.schemas()
	case contract.HealCompactContext:
		h.output.Before["context"] = share(h.in.Compacted)
	case contract.HealOtherWorker:
		if h.output.Before["worker"] = "unknown"; h.in.Failure.Worker != "" {
			h.output.Before["worker"] = h.in.Failure.Worker
		}
	default: // all other actions change the model
	}
	return h.rows.Write(ctx, contract.Record{
		Heals: []contract.HealNote{{
			Number: h.in.Number, Status: contract.HealStarted, Phase: h.in.Phase, Step: h.in.Step, ExecutionID: h.in.Execution.ID,
			ErrorType: h.failure.Class, Code: h.failure.Code, Action: action, RootCause: h.rootCause, By: h.in.By, Output: h.output,
		}},
		Events: []contract.EventDraft{{Type: contract.EventHealStarted, Payload: map[string]any{
			"heal": h.in.Number, "phase": h.in.Phase, "step": h.in.Step, "error_type": h.failure.Class, "error_code": h.failure.Code,
			"heal_action": action, "root_cause": h.rootCause,
		}}},
	})
}

// schemas returns the names of the schemas for the model responses in the failed work, in their
// normal and strict forms.
func (h *heal) schemas() (now, strict string) {
	if h.in.Phase == contract.PhasePlanner {
		return contract.PlanSchema, contract.StrictPlanSchema
	}
	return contract.ToolSchemas, contract.StrictToolSchemas
}

// share returns the percentage of a context that remains after the given number of halvings.
func share(halved int) string {
	const whole = 100.0
	return fmt.Sprintf("%g%%", whole/float64(int(1)<<halved))
}

// maxHalvings is the maximum number of halvings of a context: a smaller context would be useless.
const maxHalvings = 6

// act carries out an action.
func (h *heal) act(ctx workflow.Context, action contract.HealAction) (contract.Directive, error) {
	again := contract.Directive{Back: h.in.Phase}
	if err := workflow.Await(ctx, func() bool { return !h.instructions.Paused }); err != nil {
		return again, err
	}
	if h.in.Asked != "" && !h.applies(action) {
		again.Failed = fmt.Sprintf("%s does not apply to this failure of the %s", action, h.in.Phase)
		if action == contract.HealOtherWorker {
			again.Failed = fmt.Sprintf("no other worker for the %s is running; start one (rgpt-worker), then try again", h.in.Phase)
		}
		return again, nil
	}
	switch action {
	case contract.HealStricterSchema:
		again.Strict, again.Schema = true, true
		_, strict := h.schemas()
		h.changed("tries again; the provider enforces the full schema with all bounds", "schema", strict)
	case contract.HealCompactContext:
		again.Compact = min(h.in.Compacted+1, maxHalvings)
		h.changed("tries again, with "+share(again.Compact)+" of the context", "context", share(again.Compact))
	case contract.HealOtherWorker:
		if again.Worker = h.worker; h.worker == "" {
			h.changed("tries again on any free worker", "instructions", string(action))
			break
		}
		h.changed("tries again on the worker "+h.worker, "worker", h.worker)
	case contract.HealRerunStrict:
		again.Strict = true
		h.changed("tries again; a change counts only when the project builds with it", "strict", true)
	case contract.HealLowerTemperature:
		cold, model := 0.0, h.in.Model
		model.Temperature = &cold
		again.Model = &model
		h.changed("tries again at temperature 0", "temperature", cold)
	case contract.HealMoreReasoning, contract.HealLessReasoning:
		model := h.in.Model
		if action == contract.HealMoreReasoning {
			model.Effort, _ = model.Effort.More()
		} else {
			model.Effort, _ = model.Effort.Less()
		}
		again.Model = &model
		h.changed("tries again with reasoning set to "+string(model.Effort), "reasoning", model.Effort)
	case contract.HealSaferModel, contract.HealOtherProvider:
		if again.Model = h.otherModel(action == contract.HealOtherProvider); again.Model == nil {
			again.Failed = "no other model is configured; add one under models.fallback"
			return again, nil
		}
		h.changed("tries again with another model", "model", again.Model.Provider+"/"+again.Model.Model)
	case contract.HealWait:
		again.Wait, again.Reason = h.failure.Wait, h.failure.Message
		if again.Wait == 0 { // no wait time is known
			again.Wait = h.in.QuotaWait
		}
		h.changed(fmt.Sprintf("waits %s for the limit to reset, then tries again", again.Wait), "wait", again.Wait.String())
	case contract.HealRefinePlan:
		again.Back = contract.PhasePlanner
		h.changed("makes a new plan that avoids the problems of the old one", "back", again.Back)
	case contract.HealPolicyCorrection:
		if h.failure.Code == contract.CodeDenied && h.in.Phase == contract.PhaseTester {
			return h.repair(ctx) // the steps are done: the Repair agent corrects what they made
		}
		h.changed(actionMessages[action], "instructions", string(action))
	case contract.HealRepair:
		return h.repair(ctx)
	case contract.HealCreateDefaults:
		return h.createDefaults(ctx)
	case contract.HealAskPerson:
		again.Ask = fault.QuestionAbout(h.in.Phase, h.in.Step, &h.failure)
		h.output.Message = "asks a person: " + again.Ask.ActionRequired
	default:
		h.changed(actionMessages[action], "instructions", string(action))
	}
	return again, nil
}

// actionMessages describe, for people, the actions that change only the instructions
// for the next attempt.
var actionMessages = map[contract.HealAction]string{
	contract.HealCorrectJSON:      "tries again; the model is shown its unusable response and the errors in it",
	contract.HealRegenerate:       "tries again, with constraints derived from the failure",
	contract.HealRefineStep:       "tries the step again; the model is shown what was wrong with it",
	contract.HealPolicyCorrection: "tries again, with a reminder of the rules that the agent broke",
}

// changed records what an action changed.
func (h *heal) changed(message, key string, value any) {
	h.output.Message, h.output.After = message, map[string]any{key: value}
}

// repair lets the Repair agent patch the code, with the builder's agent loop and tools.
// Its changes are judged before they count.
func (h *heal) repair(ctx workflow.Context) (contract.Directive, error) {
	out := contract.Directive{Back: h.in.Phase}
	result, err := h.runRepairAgent(ctx)
	if err != nil {
		return out, err
	}
	out.Usage = result.Usage
	switch {
	case result.Failure != nil:
		out.Failed = "the Repair agent failed: " + result.Failure.Message
		out.RepairFault = &contract.RepairFault{Failure: *result.Failure, Execution: h.executionOf(result)}
		return out, nil //nolint:nilerr // a failed repair is a result
	case result.Change.From.Tree == result.Change.To.Tree:
		out.Failed = "the Repair agent changed nothing"
		return out, nil
	}
	return h.takeOver(ctx, out, result)
}

// runRepairAgent runs the Repair agent to its end.
func (h *heal) runRepairAgent(ctx workflow.Context) (contract.StepResult, error) {
	model, told := h.in.Repair, h.instructions.Seq
	if h.instructions.Model.Model != "" {
		model = h.instructions.Model
	}
	settings := h.in.Settings
	if h.in.Phase != contract.PhaseTester {
		settings.FinishRefusals = 0 // the result of a step is tested together with others
	}
	child := workflow.ExecuteChildWorkflow(
		options.Child(ctx, contract.RepairWorkflowID(h.in.RunID, h.in.Number), contract.QueueRepair), contract.WorkflowStep, contract.StepInput{
			RunID: h.in.RunID, Step: contract.StepRepair, PlanID: h.in.PlanID, Agent: contract.AgentRepair, Phase: h.in.Phase,
			Workspace: h.in.Workspace, Model: model, Settings: settings, Lessons: contract.Lessons{Generation: h.in.Generation},
			Heal: &contract.HealTask{Number: h.in.Number, Step: h.in.Step, Execution: h.in.Execution, Failure: h.failure, RootCause: h.rootCause, Check: h.in.Check, Review: h.in.Review},
			Base: h.in.Base,
		})
	if child.GetChildWorkflowExecution().Get(ctx, nil) == nil {
		h.agent = child
		if h.instructions.Seq != told { // the run received a command in the meantime
			h.forward(ctx)
		}
	}
	var result contract.StepResult
	err := child.Get(ctx, &result)
	h.agent = nil
	return result, err
}

// executionOf returns the execution of the Repair agent.
func (h *heal) executionOf(result contract.StepResult) contract.ExecutionRef {
	return contract.ExecutionRef{
		ID: result.ExecutionID, RunID: h.in.RunID, Phase: h.in.Phase, Step: contract.StepRepair, Agent: contract.AgentRepair, Attempt: result.Attempt,
	}
}

// takeOver accepts a repair unless it breaks a rule.
func (h *heal) takeOver(ctx workflow.Context, out contract.Directive, result contract.StepResult) (contract.Directive, error) {
	execution, to := h.executionOf(result), result.Change.To.Of(h.in.Workspace)
	h.changed("the Repair agent patched the code", "tree", to.Tree)
	h.output.Said, h.output.Asked = result.Said, h.asked
	verdict, err := h.judge(ctx, execution, result.Change.From.Of(h.in.Workspace), to)
	if err != nil || verdict.Refused != "" {
		out.Failed = verdict.Refused
		if err == nil {
			out.RepairFault = &contract.RepairFault{Failure: refusal(verdict), Execution: execution}
		}
		return out, err
	}
	change, credit := result.Change, result.Credit
	change.Step = fmt.Sprintf("heal-%d", h.in.Number)
	if h.in.Phase == contract.PhaseBuilder {
		change.Step = h.in.Step   // the repair replaces the step's own change
		if h.in.From.Tree != "" { // the repair started where the step had ended
			change.From = h.in.From
		}
	}
	credit.Step = change.Step
	if h.in.Phase == contract.PhaseBuilder {
		h.output.Change = &contract.StepOutput{Change: change, Credit: credit}
	}
	out.Change, out.Credit = &change, &credit
	return out, nil
}

// refusal returns the Repair agent's failure when its patch is discarded: the patch left the
// allowed paths, or broke a rule.
func refusal(j contract.Judgement) contract.Failure {
	if j.Code == contract.CodeForbidden || j.Code == contract.CodeDenied {
		return fault.New(contract.ClassSafety, j.Code, "%s", j.Refused).Failure
	}
	return fault.New(contract.ClassAssertion, j.Code, "%s", j.Refused).Failure
}

// judge returns why a patch is refused, if it is, and records its diff.
func (h *heal) judge(ctx workflow.Context, execution contract.ExecutionRef, from, to contract.Workspace) (contract.Judgement, error) {
	ctx, done := disconnected(ctx)
	defer done()
	judged, err := affinity.LocalFirst(ctx, &affinity.Affinity{Queue: contract.QueueRepair}, contract.ActivityJudge, 0, func(quick bool) any {
		in := contract.JudgeInput{Execution: execution, Number: h.in.Number, From: from, To: to, LocalOnly: quick}
		if h.in.Phase == contract.PhaseBuilder && h.in.From.Tree != "" {
			in.Step, in.StepFrom = h.in.Step, h.in.From.Of(to)
		}
		return in
	}, func(j contract.Judgement) bool { return j.Cold })
	h.output.Diff, h.output.Before["tree"] = judged.Diff, from.Tree
	return judged, err
}

// createDefaults creates missing configuration from the defaults that the repository documents.
func (h *heal) createDefaults(ctx workflow.Context) (contract.Directive, error) {
	out := contract.Directive{Back: h.in.Phase}
	var made contract.DefaultsResult
	err := workflow.ExecuteActivity(options.Remote(ctx, contract.QueueRepair, options.LongWork), contract.ActivityCreateDefaults, contract.DefaultsInput{
		Execution: h.in.Execution, Workspace: h.in.Workspace, Wanted: h.failure.Message + "\n" + h.rootCause,
	}).Get(ctx, &made)
	if err != nil {
		return out, err
	}
	if len(made.Created) == 0 {
		out.Failed = "the repository documents no defaults for the missing configuration"
		return out, nil
	}
	h.changed("created "+commands.ListFew(made.Created)+" from the examples beside them", "files", made.Created)
	verdict, err := h.judge(ctx, h.in.Execution, h.in.Workspace, made.Workspace)
	if err != nil || verdict.Refused != "" {
		out.Failed = verdict.Refused
		return out, err
	}
	step := fmt.Sprintf("heal-%d", h.in.Number)
	out.Change = &contract.Change{Step: step, From: h.in.Workspace.Slim(), To: made.Workspace.Slim()}
	out.Credit = &contract.Credit{Step: step}
	return out, nil
}

// recordEnd records the result of the heal. Whether it helped is known when the phase
// has run again; the run records that.
func (h *heal) recordEnd(ctx workflow.Context, d contract.Directive) error {
	note := contract.HealNote{
		Number: h.in.Number, Status: contract.HealApplied, ErrorType: h.failure.Class, Action: d.Action, Output: h.output,
	}
	note.Output.Back, note.Output.Usage = d.Back, &d.Usage
	var events []contract.EventDraft
	if d.Failed != "" {
		note.Status, note.Output.Result = contract.HealFailed, d.Failed
		events = append(events, records.HealEvent(contract.EventHealFailed, d, d.Failed))
	}
	return h.rows.Write(ctx, contract.Record{Heals: []contract.HealNote{note}, Events: events})
}
