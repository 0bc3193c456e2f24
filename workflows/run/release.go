package run

import (
	"fmt"

	"go.temporal.io/sdk/workflow"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/workflows/internal/options"
)

// releaseOutput is the content of a run's releaser_output.
type releaseOutput struct {
	Branch string `json:"branch"`
	Commit string `json:"commit"`
	Pushed bool   `json:"pushed"`
	// PullRequest is the pull request for the branch; nil: none was asked for.
	PullRequest *contract.PullRequest `json:"pull_request,omitempty"`
}

// findProtected finds the changed files that need an approval before they are pushed.
func (r *run) findProtected(ctx workflow.Context) error {
	s := r.in.Settings.Release
	r.Protected = contract.ProtectedFiles{}
	if !contract.Pushes(r.in.Settings.Repo, s) || len(s.Protected) == 0 {
		return nil
	}
	return r.affinityOf(contract.PhaseReleaser, "").Execute(ctx, options.LongWork, contract.ActivityProtected, contract.ProtectedInput{
		Workspace: r.Workspace, Stages: r.Stages, Patterns: s.Protected, From: r.pushedBefore(),
	}).Get(ctx, &r.Protected)
}

// releaseBranch creates the branch with the run's commits, the report and the zip. If the releaser
// finds other labels than those that were judged, the release is judged again first. The labels may have
// changed back meanwhile, so it is also tried again with the same verdict, but only once.
func (r *run) releaseBranch(ctx workflow.Context, execution contract.ExecutionRef) (any, *contract.Failure) {
	result, failure := r.publish(ctx, execution)
	refused := "" // the subject that was tried again
	for r.atOnce && failure != nil && failure.Code == contract.CodeStaleVerdict && r.Gate.Subject != refused {
		judged := r.Gate.Subject
		r.Relabelled = true
		if !r.mustJudge() {
			break // the labels never stay the same
		}
		if end := r.awaitRelease(ctx); end != nil {
			return nil, end
		}
		if end := r.awaitUnpaused(ctx); end != nil {
			return nil, end
		}
		if r.Gate.Subject == judged {
			refused = judged
		}
		result, failure = r.publish(ctx, execution)
	}
	if failure != nil {
		return nil, failure
	}
	r.Branch, r.Commit = result.Branch, result.Commit
	r.Watch.Head, r.Watch.Published = r.Commit, len(r.Changes)
	if err := r.recordUpdate(ctx); err != nil {
		return nil, r.failureOf(err)
	}
	r.noteLateLabels(ctx)
	output := releaseOutput{Branch: result.Branch, Commit: result.Commit, Pushed: result.Pushed}
	if result.Failure != nil || r.in.Settings.Release.PullRequest == nil {
		return output, result.Failure
	}
	opened, err := r.openPullRequest(ctx, execution)
	output.PullRequest = opened
	if err == nil && opened.State != contract.PullRequestOpen {
		r.Watch.Closed = fmt.Sprintf("pull request %d was %s, so nothing is left to do", opened.Number, opened.State)
	}
	return output, r.failureOf(err)
}

// publish has the releaser make the release that was judged and approved.
func (r *run) publish(ctx workflow.Context, execution contract.ExecutionRef) (contract.ReleaseResult, *contract.Failure) {
	credits := make([]contract.Credit, len(r.Changes))
	for i, c := range r.Changes {
		credits[i] = r.Credits[c.Step]
	}
	replaces := ""
	if r.Onto != nil {
		replaces = r.Head()
	}
	var result contract.ReleaseResult
	err := r.affinityOf(contract.PhaseReleaser, "").Execute(ctx, options.LongWork, contract.ActivityRelease, contract.ReleaseInput{
		Execution: execution, Repo: r.in.Settings.Repo, PlanID: r.PlanID, Workspace: r.Workspace,
		Credits: credits, Stages: r.Stages, Release: r.in.Settings.Release, ApprovedBy: r.approverOf(contract.ApprovalRelease),
		Gate: r.Gate.Subject, Authors: r.Authors, Onto: r.Onto, Replaces: replaces, Merged: r.MergedBase(),
	}).Get(ctx, &result)
	if err != nil {
		return result, r.failureOf(err)
	}
	return result, nil
}

// openPullRequest opens the pull request of the released branch, or updates it after another release.
func (r *run) openPullRequest(ctx workflow.Context, execution contract.ExecutionRef) (*contract.PullRequest, error) {
	var opened contract.PullRequest
	err := workflow.ExecuteActivity(options.Remote(ctx, contract.QueueReleaser, options.LongWork), contract.ActivityPullRequest, contract.PullRequestInput{
		Execution: execution, Repo: r.in.Settings.Repo, Release: r.in.Settings.Release, Branch: r.Branch, Commit: r.Commit,
		Workspace: r.Workspace, Merged: r.MergedBase(), Approved: r.Gate.Decision == contract.GateNeedsApproval,
	}).Get(ctx, &opened)
	return &opened, err
}
