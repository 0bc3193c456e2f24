package run

import (
	"time"

	"go.temporal.io/sdk/workflow"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/fault"
	"github.com/rocketgpt/orchestrator/workflows/internal/records"
)

const (
	// relabelPause is the shortest time between two judgements because of labels.
	relabelPause = 10 * time.Second
	// maxRelabels is the number of judgements because of labels until a person answers. A client that keeps
	// changing labels must neither keep people from answering, nor cost more than these.
	maxRelabels = 20
)

// withdrawnReason says why a question is withdrawn.
const withdrawnReason = "the labels of the run were changed, and its release was judged again"

// judgesLabelsAtOnce reports whether the run judges a change of its labels at once. Runs of earlier
// versions did so after an answer that they waited for.
func (r *run) judgesLabelsAtOnce(ctx workflow.Context) bool {
	if r.in.Settings.Gate == nil {
		return false
	}
	return r.in.Logic >= contract.LogicLocalSetup || workflow.GetVersion(ctx, "labels-at-once", workflow.DefaultVersion, 1) >= 1
}

// receiveLabels notes changes of the run's labels.
func (r *run) receiveLabels(ctx workflow.Context) {
	changed := workflow.GetSignalChannel(ctx, contract.SignalLabels)
	workflow.Go(ctx, func(ctx workflow.Context) {
		for {
			changed.Receive(ctx, nil)
			r.Relabelled = true
		}
	})
}

// beginJudging begins the judgement of a release, from the decision about a review on: labels that
// change from now on are judged afterwards.
func (r *run) beginJudging(ctx workflow.Context) {
	if r.atOnce = r.judgesLabelsAtOnce(ctx); r.atOnce {
		r.Relabelled, r.relabels = false, 0
	}
}

// mustJudge reports whether the labels were changed since the release was judged. After too many
// judgements, the labels are judged when a person has answered.
func (r *run) mustJudge() bool {
	return r.Relabelled && (!r.atOnce || r.relabels < maxRelabels)
}

// awaitRelabelPause waits until labels may be judged again, or until a condition holds.
func (r *run) awaitRelabelPause(ctx workflow.Context, over func() bool) error {
	now := workflow.Now(ctx)
	pause := relabelPause - now.Sub(r.relabelledAt)
	if r.relabelledAt.IsZero() || pause <= 0 {
		return nil
	}
	_, err := workflow.AwaitWithTimeout(ctx, pause, over)
	return err
}

// judgeAgain has the release judged with the run's current labels, and reviewed if they demand it.
// What such a review finds does not go back to an agent, because the change has passed its checks: it
// is judged with the change. judgeAgain returns a failure if the release is denied or was not judged.
func (r *run) judgeAgain(ctx workflow.Context) *contract.Failure {
	tester := r.Executions[string(contract.PhaseTester)]
	if r.atOnce {
		if err := r.awaitRelabelPause(ctx, func() bool { return false }); err != nil {
			return r.failureOf(err)
		}
		r.relabelledAt = workflow.Now(ctx)
		r.relabels++
		r.judging, r.Relabelled = true, false
		defer func() { r.judging = false }()
		if err := r.flush(ctx); err != nil {
			return r.failureOf(err)
		}
		if _, failure := r.reviewOnce(ctx, tester); failure != nil {
			r.Relabelled = true
			return failure
		}
	}
	failure := r.judgeRelease(ctx, tester)
	if failure == nil {
		return nil
	}
	if r.Gate.Decision != contract.GateDeny { // the gate did not decide
		r.Relabelled = true
		return failure
	}
	// Its files were not denied before, so an agent cannot correct it.
	return &fault.New(contract.ClassHuman, contract.CodeRejected, "after a change of its labels, %s", failure.Message).Failure
}

// outOfDate reports whether an unanswered question is about a verdict that other labels may change, or about a
// failure of the branch that people may have fixed by a push.
func (r *run) outOfDate(a *approval) bool {
	switch {
	case a.answered():
		return false
	case a.kind == contract.InterventionHelp:
		return r.pushWaits()
	}
	return r.atOnce && a.kind == contract.ApprovalRelease && r.mustJudge()
}

// judgeAsked judges a release again that a person is asked about. The question stays if it is about the
// same and still needed; otherwise it is withdrawn.
func (r *run) judgeAsked(ctx workflow.Context, a *approval) *contract.Failure {
	if err := r.awaitRelabelPause(ctx, a.answered); err != nil {
		return r.failureOf(err)
	}
	if a.answered() { // rejected meanwhile
		return nil
	}
	subject, verdict := r.subject(a.kind), r.Gate.ID
	failure := r.judgeAgain(ctx)
	if a.answered() {
		return nil
	}
	needed, _ := r.needsRelease()
	if failure == nil && needed && r.subject(a.kind) == subject && r.Gate.ID == verdict && !r.hasApproval(a.kind) {
		return nil
	}
	a.withdrawn, r.controls.approval = true, nil
	if !r.controls.paused {
		r.EndInterruption()
	}
	payload := a.payload()
	payload["withdrawn"], payload["subject"], payload["reason"] = true, subject, withdrawnReason
	rec := records.EventRecord(contract.EventApprovalExpired, payload)
	rec.Notes = map[string]string{"id": a.id, "kind": a.kind, "status": "expired", "reason": withdrawnReason}
	if _, err := r.transition(ctx, rec); err != nil && failure == nil {
		failure = r.failureOf(err)
	}
	return failure
}

// awaitLabels judges changes of the labels that arrived while a release was about to start.
func (r *run) awaitLabels(ctx workflow.Context, p contract.Phase) *contract.Failure {
	for p == contract.PhaseReleaser && r.atOnce && r.mustJudge() {
		if failure := r.awaitRelease(ctx); failure != nil {
			return failure
		}
		if failure := r.separateCommands(ctx); failure != nil {
			return failure
		}
	}
	return nil
}

// noteLateLabels says in the run's events that its labels changed while its release was under way, and
// what the gate decides with them.
func (r *run) noteLateLabels(ctx workflow.Context) {
	if !r.atOnce || !r.Relabelled {
		return
	}
	r.Relabelled = false
	made := r.Gate
	failure := r.judge(ctx, r.Executions[string(contract.PhaseTester)])
	now := r.Gate
	r.Gate = made
	if now.Subject == made.Subject {
		return // it was made with these labels
	}
	payload := map[string]any{
		"labels_too_late": true, "commit": r.Commit, "branch": r.Branch, "verdict_id": made.ID,
		"reason": "the labels of the run were changed while its release was under way; it was made by the verdict about the labels before",
	}
	if now.ID != 0 {
		payload["verdict_id_now"], payload["decision_now"] = now.ID, now.Decision
	} else if failure != nil {
		payload["not_judged"] = failure.Message
	}
	if _, err := r.transition(ctx, records.EventRecord(contract.EventRunUpdated, payload)); err != nil {
		r.log.Error("Could not record that labels were changed during the release", "error", err)
	}
}
