package run

import (
	"time"

	"go.temporal.io/sdk/workflow"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/fault"
	"github.com/rocketgpt/orchestrator/workflows/internal/options"
	"github.com/rocketgpt/orchestrator/workflows/internal/records"
	"github.com/rocketgpt/orchestrator/workflows/run/state"
)

// A run of a change set looks for the decision without being told that it was made after siblingsFirst, and
// then after twice the time of the last look, at most siblingsMost: each look makes its history longer, and it
// may wait for a person for weeks.
const (
	siblingsFirst = 5 * time.Minute
	siblingsMost  = 6 * time.Hour
)

// awaitTogether waits until the release may start: the policy gate has judged it, a person has approved it
// if that is required, and the other runs of the change set are ready, too. What was judged may change
// while the run waits for them.
func (r *run) awaitTogether(ctx workflow.Context) *contract.Failure {
	if failure := r.awaitRelease(ctx); failure != nil {
		return failure
	}
	of := r.in.Settings.ChangeSet
	if of == nil || r.Together {
		return nil
	}
	if failure := r.awaitSiblings(ctx, *of); failure != nil {
		return failure
	}
	return r.awaitRelease(ctx)
}

// awaitSiblings waits until it was decided that the run is released with the others of its change set. If
// all of them were stopped, the run ends as cancelled, with all its results.
func (r *run) awaitSiblings(ctx workflow.Context, of contract.ChangeSetMember) *contract.Failure {
	if err := r.flush(ctx); err != nil {
		return r.failureOf(err)
	}
	if failure := r.awaitUnpaused(ctx); failure != nil {
		return failure
	}
	began := workflow.Now(ctx)
	r.controls.held, r.controls.resumed = contract.WaitsForChangeSet, false
	r.WaitingFor = r.controls.held
	defer r.endWait(ctx, began)
	if _, err := r.transition(ctx, records.EventRecord(contract.EventRunUpdated, map[string]any{
		"waiting_for": r.WaitingFor, "change_set": of.Set, "number": of.Number, "of": of.Of,
	})); err != nil {
		return r.failureOf(err)
	}
	answer, err := r.readDecision(ctx, of)
	if err != nil {
		return r.failureOf(err)
	}
	if failure := r.awaitUnpaused(ctx); failure != nil {
		return failure
	}
	r.endWait(ctx, began)
	r.WaitingFor = ""
	if _, err := r.transition(ctx, records.EventRecord(contract.EventRunUpdated, map[string]any{
		"change_set": of.Set, "number": of.Number, "of": of.Of, "released": answer.Release, "outcome": answer.Outcome, "reason": answer.Reason,
	})); err != nil {
		return r.failureOf(err)
	}
	if r.Together = answer.Release; r.Together {
		return nil
	}
	r.controls.stop = &fault.New(contract.ClassHuman, contract.CodeCancelled,
		"change set %d was %s; the results of the run are kept, and rgpt run resume %d releases it by itself", of.Set, answer.Reason, r.in.RunID).Failure
	r.controls.stopper = &contract.PipelineCommand{By: contract.ChangeSetWorkflowID(of.Set), Reason: "its change set was stopped"}
	r.cancel()
	return r.controls.stop
}

// endWait ends the wait for the others, which does not count as time of the run. Ending it again changes
// nothing.
func (r *run) endWait(ctx workflow.Context, began time.Time) {
	if r.controls.held == "" {
		return
	}
	now := workflow.Now(ctx)
	r.controls.held, r.Waits = "", append(r.Waits, state.Wait{From: began, Until: now})
	if !r.runDeadline.IsZero() {
		r.runDeadline = r.runDeadline.Add(now.Sub(began))
	}
}

// readDecision waits for the decision about the change set and returns it.
func (r *run) readDecision(ctx workflow.Context, of contract.ChangeSetMember) (contract.ReadyAnswer, error) {
	made, told := workflow.GetSignalChannel(ctx, contract.SignalChangeSetDecided), false
	every := siblingsFirst
	for {
		for made.ReceiveAsync(nil) { // what follows sees the decision
		}
		var answer contract.ReadyAnswer
		err := workflow.ExecuteLocalActivity(options.Local(ctx), contract.ActivityChangeSetReady, contract.ReadyInput{RunID: r.in.RunID, Member: of}).Get(ctx, &answer)
		if err != nil || answer.Decided {
			return answer, err
		}
		if !told { // it counts the run as ready from now on
			r.tellSet(ctx)
			told = true
		}
		heard, err := workflow.AwaitWithTimeout(ctx, every, func() bool { return made.Len() > 0 || r.controls.resumed })
		if err != nil {
			return answer, err
		}
		if every = min(2*every, siblingsMost); heard {
			every = siblingsFirst
		}
		if r.controls.resumed {
			r.controls.resumed, told = false, false
			if _, err := r.transition(ctx, contract.Record{}); err != nil { // the set reads the row
				return answer, err
			}
		}
	}
}

// tellSet tells the workflow of the run's change set that something about this run has changed. If that
// fails, the workflow finds out by itself.
func (r *run) tellSet(ctx workflow.Context) {
	of := r.in.Settings.ChangeSet
	if of == nil {
		return
	}
	if err := workflow.SignalExternalWorkflow(ctx, contract.ChangeSetWorkflowID(of.Set), "", contract.SignalChangeSet, of.Number).Get(ctx, nil); err != nil {
		r.log.Debug("Could not tell the change set of a change; it has ended, or looks by itself", "change_set", of.Set, "error", err)
	}
}
