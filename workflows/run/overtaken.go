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
	case err != nil, !found.moved:
		return "", nil, false //nolint:nilerr // a person is asked about the failure of the release
	case updating:
		return "", nil, true
	case found.kept:
		return contract.PhaseTester, nil, true
	}
	f := r.Watch.Fixing
	if f == nil {
		return "", nil, false
	}
	r.Failed = state.FailedWork{}
	r.Phase, r.Failure = contract.PhaseTester, &f.Failure
	back, end = r.healCheck(ctx, *f)
	return back, end, true
}

// movedTooOften reports whether people have pushed so often during one fix that a person is asked instead
// of beginning again.
func (r *run) movedTooOften() bool { return r.Watch.Moves >= r.Watch.MaxRepairs }

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
// says that they did, or if a person has asked for another attempt. It reports whether the work is dropped.
func (r *run) takePush(ctx workflow.Context, retry bool) (dropped bool, end *contract.Failure) {
	if !r.pushWaits() && !(retry && r.pushesFirst && r.Watch.On) {
		return false, nil
	}
	if r.Status != contract.StatusSelfHeal {
		if err := r.SetStatus(contract.StatusSelfHeal); err != nil {
			return false, r.failureOf(err)
		}
	}
	dropped = r.lookAtPush(ctx)
	return dropped, r.failureOf(ctx.Err())
}

// lookAtPush looks at the branch, and ends the messages that people pushed to it. It reports whether they did and
// the work on the branch is dropped: what they pushed may resolve the conflict or fix the check, and is looked
// at by itself. What a person asked for is still to be done.
func (r *run) lookAtPush(ctx workflow.Context) (dropped bool) {
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
	if !found.moved {
		return false
	}
	r.Heals.Tried = map[string][]contract.HealAction{}
	f := r.Watch.Fixing
	return updating || f != nil && !f.Comment
}

// pushedWhileAsked looks at the branch while a person is asked about a failure of it. If the work is dropped,
// the question is withdrawn.
func (r *run) pushedWhileAsked(ctx workflow.Context, a *approval) error {
	if r.lookAtPush(ctx) && !a.rejected {
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
