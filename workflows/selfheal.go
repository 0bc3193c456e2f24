package workflows

import (
	"fmt"
	"slices"

	"go.temporal.io/sdk/workflow"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/fault"
)

// SelfHeal heals one failure of a run: it looks closer at the failure, chooses
// the next action of its class that was not tried, carries it out, and answers
// with a directive, which the run applies. An action that could not be carried
// out is a directive too, which says so; the run asks for the next one.
func SelfHeal(ctx workflow.Context, in contract.HealInput) (contract.Directive, error) {
	h := &selfHeal{in: in, failure: in.Failure, rows: newRecorder(ctx, in.RunID)}
	if err := h.diagnose(ctx); err != nil {
		return contract.Directive{}, err
	}
	action := h.choose()
	if err := h.began(ctx, action); err != nil {
		return contract.Directive{}, err
	}
	d, err := h.act(ctx, action)
	if err != nil {
		d = contract.Directive{Failed: fault.Of(err).Message, Usage: d.Usage}
	}
	d.Number, d.Action, d.Class, d.Code = in.Number, action, h.failure.Class, h.failure.Code
	return d, h.ended(ctx, d)
}

type selfHeal struct {
	in        contract.HealInput
	failure   contract.Failure // after a closer look
	rootCause string
	rows      *recorder
	output    contract.HealOutput
}

// diagnose looks at what the failed execution left behind.
func (h *selfHeal) diagnose(ctx workflow.Context) error {
	var d contract.Diagnosis
	err := workflow.ExecuteLocalActivity(short(ctx), contract.ActivityDiagnose, contract.DiagnoseInput{
		Execution: h.in.Execution, Failure: h.in.Failure,
	}).Get(ctx, &d)
	h.failure, h.rootCause = d.Failure, d.RootCause
	return err
}

// choose returns what was asked for, or the next action that was not tried and
// that makes sense here. A person is asked when there is none.
func (h *selfHeal) choose() contract.HealAction {
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
func (h *selfHeal) applies(action contract.HealAction) bool {
	switch action {
	case contract.HealLowerTemperature:
		return h.in.Model.Temperature == nil || *h.in.Model.Temperature > 0
	case contract.HealSaferModel:
		return h.otherModel(false) != nil
	case contract.HealOtherProvider:
		return h.otherModel(true) != nil
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

// otherModel returns the first model that is not the one that failed, at
// another provider if that is asked for.
func (h *selfHeal) otherModel(provider bool) *contract.ModelChoice {
	for _, m := range h.in.Others {
		if m.Provider != h.in.Model.Provider || !provider && m.Model != h.in.Model.Model {
			return &m
		}
	}
	return nil
}

// began writes that the heal is under way.
func (h *selfHeal) began(ctx workflow.Context, action contract.HealAction) error {
	h.output = contract.HealOutput{Words: h.in.Words, Before: map[string]any{"model": h.in.Model.Provider + "/" + h.in.Model.Model}}
	if t := h.in.Model.Temperature; t != nil {
		h.output.Before["temperature"] = *t
	}
	return h.rows.write(ctx, contract.Record{
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

// act carries an action out.
func (h *selfHeal) act(ctx workflow.Context, action contract.HealAction) (contract.Directive, error) {
	again := contract.Directive{Back: h.in.Phase}
	if h.in.Asked != "" && !h.applies(action) {
		again.Failed = fmt.Sprintf("%s makes no sense for this failure of the %s", action, h.in.Phase)
		return again, nil
	}
	switch action {
	case contract.HealStricterSchema:
		again.Strict = true
		h.after("once more, and the answer must keep the schema to the letter", "strict", true)
	case contract.HealRerunStrict:
		again.Strict = true
		h.after("once more, and a change counts only when the project builds with it", "strict", true)
	case contract.HealLowerTemperature:
		cold, model := 0.0, h.in.Model
		model.Temperature = &cold
		again.Model = &model
		h.after("once more at temperature 0", "temperature", cold)
	case contract.HealSaferModel, contract.HealOtherProvider:
		if again.Model = h.otherModel(action == contract.HealOtherProvider); again.Model == nil {
			again.Failed = "no other model is configured; name some under models.fallback"
			return again, nil
		}
		h.after("once more with another model", "model", again.Model.Provider+"/"+again.Model.Model)
	case contract.HealWait:
		again.Wait, again.Reason = h.in.QuotaWait, h.failure.Message
		h.after(fmt.Sprintf("waits %s for the limit's window, then once more", again.Wait), "wait", again.Wait.String())
	case contract.HealRefinePlan:
		again.Back = contract.PhasePlanner
		h.after("the plan is made anew, with what was wrong with it", "back", again.Back)
	case contract.HealRepair:
		return h.repair(ctx)
	case contract.HealCreateDefaults:
		return h.createDefaults(ctx)
	case contract.HealAskPerson:
		again.Ask = h.question()
		h.output.Message = "a person is asked: " + again.Ask.ActionRequired
	default:
		h.after(messages[action], "instructions", string(action))
	}
	return again, nil
}

// messages says for people what the actions do that change nothing but what
// the next attempt is told.
var messages = map[contract.HealAction]string{
	contract.HealCorrectJSON:      "once more, with the answer that could not be used and what is wrong with it",
	contract.HealRegenerate:       "once more, with constraints made of what went wrong",
	contract.HealCompactContext:   "once more, with less context",
	contract.HealOtherWorker:      "once more, on whichever worker is free",
	contract.HealRefineStep:       "the step once more, with what was wrong with it",
	contract.HealPolicyCorrection: "once more, with the rules that were broken; the rules stay",
}

// after notes what an action changed.
func (h *selfHeal) after(message, key string, value any) {
	h.output.Message, h.output.After = message, map[string]any{key: value}
}

// question is what a person is asked when no action is left.
func (h *selfHeal) question() *contract.Question {
	failed := string(h.in.Phase)
	if h.in.Step != "" {
		failed += " (" + h.in.Step + ")"
	}
	return &contract.Question{
		Reason:         fmt.Sprintf("%s of the %s: %s", h.failure.Class, failed, h.failure.Message),
		ActionRequired: advice[h.failure.Class],
	}
}

// advice says what a person can do about a failure that nothing mended.
var advice = map[contract.Class]string{
	contract.ClassLLM:       "switch the model (rgpt run switch-model) or make the goal clearer, then let it try again",
	contract.ClassInfra:     "see that the provider, the network and the workers are up, then let it try again",
	contract.ClassAssertion: "look at the failing tests; say in the reason what is wrong, then let it try again",
	contract.ClassRuntime:   "see why the command crashed, mend the environment, then let it try again",
	contract.ClassLogic:     "say in the reason how the plan should be different, then let it try again",
	contract.ClassConfig:    "set what is missing in the configuration or the environment, then let it try again",
	contract.ClassSafety:    "look at what the agent tried; if the goal needs it, do that part by hand, else give up",
	contract.ClassHuman:     "mend the goal or the repository, then let it try again, or give up",
}

// repair lets the Repair agent patch the code, with the agent loop and tools
// that the builder has. What it changed is judged before it counts.
func (h *selfHeal) repair(ctx workflow.Context) (contract.Directive, error) {
	out := contract.Directive{Back: h.in.Phase}
	var result contract.StepResult
	err := workflow.ExecuteChildWorkflow(
		childOptions(ctx, contract.RepairWorkflowID(h.in.RunID, h.in.Number), contract.QueueRepair), contract.WorkflowStep, contract.StepInput{
			RunID: h.in.RunID, Step: contract.StepRepair, PlanID: h.in.PlanID, Agent: contract.AgentRepair, Phase: h.in.Phase,
			Workspace: h.in.Workspace, Model: h.in.Repair, Settings: h.in.Settings,
			Heal: &contract.HealTask{Number: h.in.Number, Step: h.in.Step, Execution: h.in.Execution, Failure: h.failure, RootCause: h.rootCause},
		}).Get(ctx, &result)
	if err != nil {
		return out, err
	}
	out.Usage = result.Usage
	switch {
	case result.Failure != nil:
		out.Failed = "the Repair agent failed: " + result.Failure.Message
		return out, nil //nolint:nilerr // a failed repair is a result
	case result.Change.From.Tree == result.Change.To.Tree:
		out.Failed = "the Repair agent changed nothing"
		return out, nil
	}
	return h.judged(ctx, out, result)
}

// judged takes a repair over unless it breaks a rule.
func (h *selfHeal) judged(ctx workflow.Context, out contract.Directive, result contract.StepResult) (contract.Directive, error) {
	execution := contract.ExecutionRef{
		ID: result.ExecutionID, RunID: h.in.RunID, Phase: h.in.Phase, Step: contract.StepRepair, Agent: contract.AgentRepair, Attempt: result.Attempt,
	}
	to := result.Change.To.Of(h.in.Workspace)
	h.after("the Repair agent patched the code", "tree", to.Tree)
	refused, err := h.judge(ctx, execution, result.Change.From.Of(h.in.Workspace), to)
	if err != nil || refused != "" {
		out.Failed = refused
		return out, err
	}
	change, credit := result.Change, result.Credit
	change.Step = fmt.Sprintf("heal-%d", h.in.Number)
	if h.in.Phase == contract.PhaseBuilder {
		change.Step = h.in.Step // it stands for the step's own change
	}
	credit.Step = change.Step
	out.Change, out.Credit = &change, &credit
	return out, nil
}

// judge says why a patch is refused, if it is, and keeps what it changed.
func (h *selfHeal) judge(ctx workflow.Context, execution contract.ExecutionRef, from, to contract.Workspace) (refused string, err error) {
	judged, err := quickly(ctx, contract.QueueRepair, contract.ActivityJudge, 0, func(quick bool) any {
		return contract.JudgeInput{Execution: execution, Number: h.in.Number, From: from, To: to, Quick: quick}
	}, func(j contract.Judgement) bool { return j.Cold })
	h.output.Diff, h.output.Before["tree"] = judged.Diff, from.Tree
	return judged.Refused, err
}

// createDefaults makes missing configuration from what the repository documents.
func (h *selfHeal) createDefaults(ctx workflow.Context) (contract.Directive, error) {
	out := contract.Directive{Back: h.in.Phase}
	var made contract.DefaultsResult
	err := workflow.ExecuteActivity(long(ctx, contract.QueueRepair, longWork), contract.ActivityCreateDefaults, contract.DefaultsInput{
		Execution: h.in.Execution, Workspace: h.in.Workspace, Wanted: h.failure.Message + "\n" + h.rootCause,
	}).Get(ctx, &made)
	if err != nil {
		return out, err
	}
	if len(made.Made) == 0 {
		out.Failed = "the repository documents no defaults for what is missing"
		return out, nil
	}
	h.after("made "+listed(made.Made)+" from the examples beside them", "files", made.Made)
	refused, err := h.judge(ctx, h.in.Execution, h.in.Workspace, made.Workspace)
	if err != nil || refused != "" {
		out.Failed = refused
		return out, err
	}
	step := fmt.Sprintf("heal-%d", h.in.Number)
	out.Change = &contract.Change{Step: step, From: h.in.Workspace.Slim(), To: made.Workspace.Slim()}
	out.Credit = &contract.Credit{Step: step}
	return out, nil
}

// ended writes what the heal came to. Whether it helped is known when the phase
// has run again; the run writes that.
func (h *selfHeal) ended(ctx workflow.Context, d contract.Directive) error {
	note := contract.HealNote{
		Number: h.in.Number, Status: contract.HealApplied, ErrorType: h.failure.Class, Action: d.Action, Output: h.output,
	}
	note.Output.Back, note.Output.Usage = d.Back, &d.Usage
	var events []contract.EventDraft
	if d.Failed != "" {
		note.Status, note.Output.Result = contract.HealFailed, d.Failed
		events = append(events, healEvent(contract.EventHealFailed, d, d.Failed))
	}
	return h.rows.write(ctx, contract.Record{Heals: []contract.HealNote{note}, Events: events})
}

// healEvent tells what became of a heal.
func healEvent(kind contract.EventType, d contract.Directive, result string) contract.EventDraft {
	return contract.EventDraft{Type: kind, Payload: map[string]any{
		"heal": d.Number, "heal_action": d.Action, "error_type": d.Class, "error_code": d.Code, "result": result,
	}}
}
