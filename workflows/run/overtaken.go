package run

import (
	"fmt"
	"slices"

	"go.temporal.io/sdk/workflow"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/workflows/run/state"
)

// This file is about pushes of people while the run works on its branch: they come first.

// afterPush continues a release that was refused because people pushed to the branch meanwhile: with the
// change on top of theirs, which is verified again, or with another repair if it does not fit there.
// false means that the failure has another reason, or that people pushed too often. Without a phase to
// continue from, nothing is left to release: the next look finds out whether the base is still needed.
func (r *run) afterPush(ctx workflow.Context, p contract.Phase, failure *contract.Failure) (back contract.Phase, end *contract.Failure, done bool) {
	late := r.Watch.Until == nil || !workflow.Now(ctx).Before(*r.Watch.Until)
	if p != contract.PhaseReleaser || failure.Code != contract.CodeBranchConflict || !r.takesPushes || !r.Watch.On || late || r.movedTooOften() {
		return "", nil, false
	}
	if end := r.awaitUnpaused(ctx); end != nil {
		return "", end, true
	}
	if err := r.SetStatus(contract.StatusSelfHeal); err != nil {
		return "", r.failureOf(err), true
	}
	updating := r.Updating()
	found, err := r.takeBranch(ctx)
	switch {
	case ctx.Err() != nil:
		return "", r.failureOf(ctx.Err()), true
	case err != nil:
		return "", nil, false //nolint:nilerr // a person is asked about the failure of the release
	}
	found.dropped = updating
	return r.afterMove(ctx, found)
}

// afterMove continues the work on the branch after people pushed to it, unless it is dropped: what was made is
// verified on top of what they pushed, or made again if it does not fit there. false means that nothing was
// made yet, so that the work goes on as it is.
func (r *run) afterMove(ctx workflow.Context, found moves) (back contract.Phase, end *contract.Failure, done bool) {
	f := r.Watch.Fixing
	switch {
	case found.dropped:
		return "", nil, true
	case !r.overtakes(found):
		return "", nil, false
	case found.kept:
		return contract.PhaseTester, nil, true
	case f == nil:
		return "", nil, false
	}
	r.Failed = state.FailedWork{}
	r.Phase, r.Failure = contract.PhaseTester, &f.Failure
	back, end = r.healCheck(ctx, *f)
	return back, end, true
}

// overtakes reports whether the work on the branch does not go on as it is after a look at the branch.
func (r *run) overtakes(found moves) bool {
	return found.dropped || found.moved && r.Watch.Check == 0
}

// movedTooOften reports whether people have pushed so often during one fix that a person is asked instead
// of beginning again.
func (r *run) movedTooOften() bool {
	most := r.Watch.MaxRepairs
	if r.pushesFirst {
		most = max(most, 1) // also a run that may repair nothing asks people to push
	}
	return r.Watch.Moves >= most
}

// healCheck heals the failure in a message about the branch.
func (r *run) healCheck(ctx workflow.Context, f state.Fixing) (contract.Phase, *contract.Failure) {
	r.Watch.Check = f.Check
	back, failure := r.heal(ctx, contract.PhaseTester, &f.Failure)
	r.Watch.Check = 0
	return back, failure
}

// pushWaits reports whether a message waits that says that people pushed to the branch.
func (r *run) pushWaits() bool {
	return r.pushesFirst && r.Watch.On && !r.movedTooOften() && slices.ContainsFunc(r.Watch.Pending, r.isNewPush)
}

func (r *run) isNewPush(m contract.CheckMessage) bool {
	return m.Kind == contract.CheckPush && r.unknownCommit(m)
}

// takePush continues from what people pushed while the run was healing a failure of its branch, if a message
// says that they did. It reports whether the healing is over, and how the run continues.
func (r *run) takePush(ctx workflow.Context) (back contract.Phase, end *contract.Failure, done bool) {
	if !r.pushWaits() {
		return "", nil, false
	}
	return r.continueFromPush(ctx)
}

// beforeRetry looks at the branch before another attempt for which a person has asked: people may have pushed a
// fix.
func (r *run) beforeRetry(ctx workflow.Context) (back contract.Phase, end *contract.Failure, done bool) {
	if !r.pushesFirst || !r.Watch.On {
		return "", nil, false
	}
	if end := r.awaitUnpaused(ctx); end != nil {
		return "", end, true
	}
	r.markApplied() // the heal that asked
	return r.continueFromPush(ctx)
}

func (r *run) continueFromPush(ctx workflow.Context) (back contract.Phase, end *contract.Failure, done bool) {
	if r.Status != contract.StatusSelfHeal {
		if err := r.SetStatus(contract.StatusSelfHeal); err != nil {
			return "", r.failureOf(err), true
		}
	}
	found := r.lookAtPush(ctx)
	if ctx.Err() != nil {
		return "", r.failureOf(ctx.Err()), true
	}
	return r.afterMove(ctx, found)
}

// lookAtPush looks at the branch, and ends the messages that people pushed to it. If they did, work on a failed
// check or a conflict is dropped: what they pushed may fix it, and is looked at by itself. What a person asked
// for is still to be done.
func (r *run) lookAtPush(ctx workflow.Context) moves {
	var pushes []contract.CheckMessage
	r.Watch.Pending = slices.DeleteFunc(slices.Clone(r.Watch.Pending), func(m contract.CheckMessage) bool {
		if !r.isNewPush(m) {
			return false
		}
		pushes = append(pushes, m)
		return true
	})
	updating := r.Updating()
	found, err := r.takeBranch(ctx)
	for _, m := range pushes {
		switch {
		case ctx.Err() != nil:
			r.Watch.Pending = append(r.Watch.Pending, m)
		case err != nil:
			r.ignore(ctx, m, contract.EventCheckIgnored, notContinued(err)) // the server sends it again
		case !found.moved:
			r.notMoved(ctx, m)
		}
	}
	if found.moved {
		r.Heals.Tried = map[string][]contract.HealAction{}
		f := r.Watch.Fixing
		found.dropped = updating || f != nil && !f.Comment && r.Watch.Answering == nil // earlier code did not note Comment
	}
	return found
}

// pushedWhileAsked looks at the branch while a person is asked about a failure of it. The question is withdrawn
// if the work that failed is dropped, or is done again on top of what was pushed.
func (r *run) pushedWhileAsked(ctx workflow.Context, a *approval) error {
	a.found = r.lookAtPush(ctx)
	if r.overtakes(a.found) && !a.rejected {
		a.withdrawn, a.granted, r.controls.approval = true, false, nil
		a.by, a.reason = "a push", fmt.Sprintf("commit %.12s was pushed to the branch", r.Head())
	}
	return ctx.Err()
}

// endDropped ends work on the branch during which people pushed to it, so that nothing was released.
func (r *run) endDropped(ctx workflow.Context, dropped string) error {
	if r.Status != contract.StatusSelfHeal {
		return nil
	}
	r.Phase, r.Status, r.Failure = contract.PhaseReleaser, contract.StatusDone, nil
	notes, events := r.openHealOutcomes("people pushed to the branch first")
	_, err := r.transition(ctx, contract.Record{Heals: notes, Events: append(events, contract.EventDraft{Type: contract.EventRunUpdated, Payload: map[string]any{
		"status": r.Status, "dropped": dropped, "reason": "people pushed to the branch meanwhile",
	}})})
	return err
}
