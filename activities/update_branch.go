package activities

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/fault"
	"github.com/rocketgpt/orchestrator/internal/forge"
	"github.com/rocketgpt/orchestrator/internal/store/pullrequests"
	"github.com/rocketgpt/orchestrator/internal/workspace"
)

// UpdateBranch brings the newest commit of the base of a pull request into the branch of its run, without
// pushing it. Git decides whether there is a conflict, whatever the forge says. It must be the base for
// which the run opened the pull request. A repeat returns the same, unless people pushed to the base or the branch.
func (a *Activities) UpdateBranch(ctx context.Context, in contract.UpdateBranchInput) (contract.UpdateBranchResult, error) {
	settings := in.Release.PullRequest
	if settings == nil || settings.Update == nil {
		return contract.UpdateBranchResult{}, fault.New(contract.ClassRuntime, contract.CodeUnknown, "run %d does not update its branch", in.RunID)
	}
	pr, reason, err := a.openPullRequest(ctx, in)
	if err != nil || reason != "" {
		return contract.UpdateBranchResult{Reason: reason}, err
	}
	head, base, behind, err := a.Workspaces.Tips(ctx, in.Repo, workspace.Continued{Branch: in.Branch, Into: pr.Base, Remote: pushTarget(in.Release)})
	switch {
	case err != nil:
		return contract.UpdateBranchResult{}, err
	case head != in.Head:
		return contract.UpdateBranchResult{Reason: fmt.Sprintf("the branch is at %.12s, not at %.12s, as the run left it", head, in.Head)}, nil
	case !behind:
		return contract.UpdateBranchResult{Reason: "the branch has all commits of its base", UpToDate: true}, nil
	}
	update := contract.BranchUpdate{Head: head, Base: base, Into: clipped(withoutSecrets(pr.Base), contract.CheckName), At: in.At.UTC().Truncate(time.Second)}
	update.Rebased = settings.Update.Method == contract.UpdateRebase && !in.Pushed
	made, err := a.Workspaces.Update(ctx, in.Repo, a.updateOf(in.RunID, in.Repo, in.Release, in.Branch, update))
	switch {
	case err != nil:
		return contract.UpdateBranchResult{}, err
	case len(made.Conflicts) == 0 && in.Why == contract.ConclusionConflict && settings.Update.When == contract.UpdateOnConflict:
		return contract.UpdateBranchResult{Reason: fmt.Sprintf("git merges %.12s of the base without a conflict", base)}, nil
	case len(made.Conflicts) > contract.MaxUpdateConflicts:
		return contract.UpdateBranchResult{}, fault.New(contract.ClassHuman, contract.CodeMergeConflict,
			"%d files conflict with the base, and a run resolves at most %d; merge the base by hand", len(made.Conflicts), contract.MaxUpdateConflicts)
	}
	update.Conflicts, update.Rebased = made.Conflicts, made.Rebased
	out := contract.UpdateBranchResult{Point: contract.BranchPoint{Commit: made.Commit, Workspace: made.Workspace.Slim(), Update: &update}}
	if settings.Update.Method == contract.UpdateRebase && !made.Rebased {
		out.Note = "the base is merged, because the branch has commits that are not only of this run, or that do not apply without a conflict"
	}
	content, err := a.Workspaces.ContentOf(ctx, in.Repo, base)
	update.Content = content.Slim()
	return out, err
}

// openPullRequest returns the pull request of a run's branch as it is on the forge, or why it needs no update.
func (a *Activities) openPullRequest(ctx context.Context, in contract.UpdateBranchInput) (pr forge.PullRequest, reason string, err error) {
	known, err := pullrequests.Of(ctx, a.Store, in.RunID)
	if err != nil {
		return pr, "", err
	}
	at := slices.IndexFunc(known, func(p contract.PullRequest) bool { return p.State == contract.PullRequestOpen && p.Head == in.Branch })
	if at < 0 {
		return pr, "the branch has no open pull request", nil
	}
	service, err := a.Forges.Named(known[at].Forge)
	if err != nil {
		return pr, "", err
	}
	if pr, err = service.PullRequest(ctx, known[at].Repo, known[at].Number); err != nil {
		return pr, "", err
	}
	if pr.State != forge.Open {
		return pr, fmt.Sprintf("pull request %d is %s", pr.Number, pr.State), nil
	}
	run, err := a.Store.Run(ctx, in.RunID)
	if err != nil {
		return pr, "", err
	}
	// What the base brings is not judged, so a person who can change the base must not choose what that is.
	if own := baseOf(run, in.Release.PullRequest); own != "" && pr.Base != own {
		return pr, fmt.Sprintf("the base of pull request %d was changed from %s to %s, so it is not brought in", pr.Number, own, clipped(withoutSecrets(pr.Base), contract.CheckName)), nil
	}
	return pr, "", nil
}

// updateOf returns how git brings the base into a branch: the same for the same update, on every host.
func (a *Activities) updateOf(run int64, repo contract.Repo, release contract.ReleaseSettings, branch string, u contract.BranchUpdate) workspace.Update {
	text := withoutSecrets
	if contract.Pushes(repo, release) {
		text = func(s string) string { return defused(withoutSecrets(s)) }
	}
	own := [2]string{"RGPT-Run", fmt.Sprint(run)}
	out := workspace.Update{Head: u.Head, Base: u.Base, Remote: pushTarget(release), Message: workspace.CommitMessage{
		Subject: text(fmt.Sprintf("Merge %s into %s", u.Into, branch)), Date: u.At, AuthorName: release.AuthorName, AuthorEmail: release.AuthorEmail,
		Trailers: [][2]string{own},
	}}
	if len(u.Conflicts) > 0 {
		out.Message.Body = text("Conflicts resolved in: " + strings.Join(u.Conflicts, ", "))
	}
	if u.Rebased {
		out.Owned = []string{own[0] + ": " + own[1]}
	}
	return out
}

// updateCommits makes the commits of a release that brings the base into the branch. Conflicts must be
// resolved, whatever the workflow did.
func (a *Activities) updateCommits(ctx context.Context, in contract.ReleaseInput, messages []workspace.CommitMessage) (string, error) {
	update := *in.Onto.Update
	left, err := a.ConflictMarkers(ctx, contract.ConflictMarkersInput{From: in.Onto.Workspace, To: in.Workspace, Update: update})
	if err != nil {
		return "", err
	}
	if len(left) > 0 {
		return "", fault.New(contract.ClassRuntime, contract.CodeUnknown, "run %d has left conflict markers in %s; nothing was released", in.Execution.RunID, strings.Join(left, ", "))
	}
	return a.Workspaces.UpdateCommits(ctx, in.Repo, a.updateOf(in.Execution.RunID, in.Repo, in.Release, in.Release.Branch, update), *in.Onto, in.Stages, messages)
}

// ConflictMarkers returns the files in which the resolution of conflicts with the base has left markers.
func (a *Activities) ConflictMarkers(ctx context.Context, in contract.ConflictMarkersInput) ([]string, error) {
	return a.Workspaces.Markers(ctx, in.From.Of(in.To), in.To, in.Update.Head, in.Update.Base, in.Update.Conflicts)
}

// mergedBase returns what a change is compared with for people: the base as it was brought into the branch
// last, or the base commit.
func (a *Activities) mergedBase(ctx context.Context, merged, ws contract.Workspace) (contract.Workspace, error) {
	if merged.Tree != "" {
		return merged.Of(ws), nil
	}
	return a.Workspaces.Start(ctx, contract.Repo{URL: ws.Repo, Base: ws.Base})
}

// conflictEvidence returns the files that conflict with the base, for a prompt.
func (a *Activities) conflictEvidence(ctx context.Context, m contract.CheckMessage, start contract.Workspace) (string, error) {
	paths := strings.Split(m.Details, "\n")
	text, err := a.Workspaces.Conflicts(ctx, start, paths, evidenceBytes)
	return m.Summary + "\n" + text, err
}
