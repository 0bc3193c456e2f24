package run

import (
	"slices"

	"go.temporal.io/sdk/workflow"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/workflows/internal/affinity"
	"github.com/rocketgpt/orchestrator/workflows/internal/commands"
	"github.com/rocketgpt/orchestrator/workflows/internal/records"
	"github.com/rocketgpt/orchestrator/workflows/run/state"
)

// judgeRelease has the policy gate judge what the run would release, and keeps its verdict for the
// approval and the release. It takes over an approval that was given because of the same verdict. It returns
// the failure of a change that is denied.
func (r *run) judgeRelease(ctx workflow.Context, execution contract.ExecutionRef) *contract.Failure {
	failure := r.judge(ctx, execution)
	if failure != nil {
		return failure
	}
	if err := r.adoptApproval(ctx); err != nil {
		r.Gate = contract.GateVerdict{}
		return r.failureOf(err)
	}
	return nil
}

// judge is judgeRelease, except that it leaves the approvals alone.
func (r *run) judge(ctx workflow.Context, execution contract.ExecutionRef) *contract.Failure {
	if !r.atOnce {
		r.Gate, r.Relabelled = contract.GateVerdict{}, false
	}
	if r.in.Settings.Gate == nil || !r.changesAnything() {
		r.Gate = contract.GateVerdict{}
		return nil // nothing would be released
	}
	verdict, err := affinity.LocalFirst(ctx, r.affinityOf(contract.PhaseTester, ""), contract.ActivityGate, len(r.Stages), func(quick bool) any {
		return r.gateInput(execution, quick)
	}, func(v contract.GateVerdict) bool { return v.Cold })
	if err != nil {
		r.Gate = contract.GateVerdict{}
		return r.failureOf(err)
	}
	r.Gate = verdict
	for _, by := range verdict.Authors { // the workflow of a run may know fewer of them than the releaser
		r.AddAuthor(by)
	}
	return commands.Denied("the change of the run", verdict)
}

// adoptApproval takes over the approval of exactly what was judged, if one is needed. A person gave it
// because of this very verdict, in an attempt that is being repeated: nobody is asked twice about the same.
func (r *run) adoptApproval(ctx workflow.Context) error {
	by, kind := r.Gate.ApprovedBy, contract.ApprovalRelease
	needed, named := r.needsRelease()
	if !needed || by == "" || r.hasApproval(kind) || named && contract.Nameless(by) || r.needsOther() && r.Authored(by) {
		return nil
	}
	r.Approved[kind] = state.Consent{Subject: r.subject(kind), By: by, Verdict: r.Gate.ID}
	_, err := r.transition(ctx, records.EventRecord(contract.EventRunUpdated, map[string]any{
		"approved_before": true, "kind": kind, "subject": r.Gate.Subject, "approved_by": by, "verdict_id": r.Gate.ID,
	}))
	return err
}

// changesAnything reports whether a state that would be released differs from where the run's changes
// begin.
func (r *run) changesAnything() bool {
	base := r.from().Tree
	return r.Workspace.Tree != base || slices.ContainsFunc(r.Stages, func(w contract.Workspace) bool { return w.Tree != base })
}

// gateInput describes what the run would release.
func (r *run) gateInput(execution contract.ExecutionRef, quick bool) contract.GateInput {
	credits := make([]contract.Credit, len(r.Changes))
	for i, c := range r.Changes {
		credits[i] = r.Credits[c.Step]
	}
	return contract.GateInput{
		Execution: execution, Stage: contract.GateRelease, PlanID: r.PlanID,
		From: r.from().Slim(), To: r.Workspace, Stages: r.Stages, Credits: credits, LocalOnly: quick,
	}
}

// awaitRelease waits until the release may start: the policy gate has judged it with the run's current
// labels, and a person has approved exactly that if it is required.
func (r *run) awaitRelease(ctx workflow.Context) *contract.Failure {
	r.atOnce = r.judgesLabelsAtOnce(ctx)
	for {
		if r.mustJudge() {
			if failure := r.judgeAgain(ctx); failure != nil {
				return failure
			}
			continue
		}
		needed, _ := r.needsRelease()
		if !needed || r.hasApproval(contract.ApprovalRelease) {
			return nil
		}
		if failure := r.askApproval(ctx, contract.ApprovalRelease); failure != nil {
			return failure
		}
	}
}

// needsRelease reports whether a person must approve the release, and whether only a named one can.
func (r *run) needsRelease() (approval, named bool) {
	named = r.Protected.Total > 0 || r.Gate.Decision == contract.GateNeedsApproval || r.needsOther()
	needed := r.Protected.Total > 0 || r.Gate.Decision == contract.GateNeedsApproval || r.in.Settings.ApproveRelease
	return needed, named
}

// needsOther reports whether only a person who is not an author of the change can approve the release.
func (r *run) needsOther() bool {
	gate := r.in.Settings.Gate
	return r.Gate.Approver == contract.ApproverNotAuthor || gate != nil && gate.Approver == contract.ApproverNotAuthor
}

// releaseReason says why a release needs an approval that the settings do not require.
func (r *run) releaseReason() string {
	reason := ""
	if r.Protected.Total > 0 {
		reason = "protected files would be pushed: " + r.Protected.Summary()
	}
	if r.Gate.Decision != contract.GateNeedsApproval {
		return reason
	}
	if reason != "" {
		reason += "; "
	}
	return reason + r.Gate.Summary()
}
