package run

import (
	"time"

	"go.temporal.io/sdk/workflow"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/fault"
	"github.com/rocketgpt/orchestrator/workflows/internal/options"
	"github.com/rocketgpt/orchestrator/workflows/internal/records"
)

// choiceEvery is how often an attempt looks for the choice without being told that it was made.
const choiceEvery = time.Minute

// awaitChoice waits before the release until one of several attempts at the goal is chosen. If another one
// is, the run ends as cancelled, with all its results.
func (r *run) awaitChoice(ctx workflow.Context, of contract.Attempt) *contract.Failure {
	if err := r.flush(ctx); err != nil { // what is stored includes the results of the tests
		return r.failureOf(err)
	}
	err := r.affinityOf(contract.PhaseReleaser, "").Execute(ctx, options.LongWork, contract.ActivityAttemptHeld, contract.HeldInput{
		RunID: r.in.RunID, Attempt: of, Workspace: r.Workspace,
	}).Get(ctx, nil)
	if err != nil {
		return r.failureOf(err)
	}
	if failure := r.awaitUnpaused(ctx); failure != nil {
		return failure
	}
	r.controls.held, r.WaitingFor = contract.WaitsForChoice, contract.WaitsForChoice
	defer func() { r.controls.held = "" }()
	if _, err := r.transition(ctx, records.EventRecord(contract.EventRunUpdated, map[string]any{
		"waiting_for": r.WaitingFor, "attempt": of.Number, "of": of.Of, "group": of.Group,
	})); err != nil {
		return r.failureOf(err)
	}
	r.tellGroup(ctx)
	choice, err := r.readChoice(ctx, of)
	if err != nil {
		return r.failureOf(err)
	}
	if failure := r.awaitUnpaused(ctx); failure != nil {
		return failure
	}
	r.controls.held, r.WaitingFor = "", ""
	if _, err := r.transition(ctx, records.EventRecord(contract.EventRunUpdated, map[string]any{
		"attempt": of.Number, "of": of.Of, "group": of.Group, "chosen": choice.Chosen, "winner": choice.Winner, "rule": choice.Rule, "reason": choice.Reason,
	})); err != nil {
		return r.failureOf(err)
	}
	if r.Chosen = choice.Chosen; r.Chosen {
		return nil
	}
	return r.notChosen(choice, of)
}

// readChoice waits for the choice and returns it.
func (r *run) readChoice(ctx workflow.Context, of contract.Attempt) (contract.Choice, error) {
	made := workflow.GetSignalChannel(ctx, contract.SignalChoice)
	for {
		for made.ReceiveAsync(nil) { // what follows sees the choice
		}
		var choice contract.Choice
		err := workflow.ExecuteLocalActivity(options.Local(ctx), contract.ActivityAttemptChoice, contract.ChoiceInput{RunID: r.in.RunID, Attempt: of}).Get(ctx, &choice)
		if err != nil || choice.Made {
			return choice, err
		}
		if _, err := workflow.AwaitWithTimeout(ctx, choiceEvery, func() bool { return made.Len() > 0 || r.controls.resumed }); err != nil {
			return choice, err
		}
		if r.controls.resumed {
			r.controls.resumed = false
			if _, err := r.transition(ctx, contract.Record{}); err != nil { // the group reads the row
				return choice, err
			}
			r.tellGroup(ctx)
		}
	}
}

// notChosen stops the run because another attempt was chosen. A person who prefers this one can resume
// it.
func (r *run) notChosen(choice contract.Choice, of contract.Attempt) *contract.Failure {
	why := fault.New(contract.ClassHuman, contract.CodeNotChosen,
		"attempt %d of %d was not chosen: run %d was (%s); its results are kept, and rgpt run resume %d releases it as well", of.Number, of.Of, choice.Winner, choice.Reason, r.in.RunID)
	if choice.Winner == 0 {
		why = fault.New(contract.ClassHuman, contract.CodeNotChosen,
			"attempt %d of %d was not chosen: no attempt was (%s); its results are kept, and rgpt run resume %d releases it", of.Number, of.Of, choice.Reason, r.in.RunID)
	}
	r.controls.stop = &why.Failure
	r.controls.stopper = &contract.PipelineCommand{By: contract.AttemptsWorkflowID(of.Group), Reason: "it was not chosen"}
	r.cancel()
	return r.controls.stop
}

// tellGroup tells the workflow of the run's group that something about this attempt has changed. If that
// fails, the workflow finds out by itself.
func (r *run) tellGroup(ctx workflow.Context) {
	of := r.in.Settings.Attempt
	if of == nil {
		return
	}
	if err := workflow.SignalExternalWorkflow(ctx, contract.AttemptsWorkflowID(of.Group), "", contract.SignalAttempt, of.Number).Get(ctx, nil); err != nil {
		r.log.Debug("Could not tell the group of attempts of a change; it has ended, or looks by itself", "group", of.Group, "error", err)
	}
}
