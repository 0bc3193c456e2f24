package activities_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/forge"
	"github.com/rocketgpt/orchestrator/internal/store/pullrequests"
)

// onePull is a forge with one pull request.
type onePull struct {
	forge.Service // the methods that are not expected are nil
	pr            forge.PullRequest
}

func (o *onePull) For(string) (forge.Service, string, string, error) {
	return o, "work", "team/app", nil
}
func (o *onePull) Named(string) (forge.Service, error)   { return o, nil }
func (o *onePull) Remote(string, string) (string, error) { return "", nil }
func (o *onePull) PullRequest(context.Context, string, int64) (forge.PullRequest, error) {
	return o.pr, nil
}

// releasedPull is a run that released a change of a file, with an open pull request into main.
func releasedPull(t *testing.T, h *fixture, file, text string) (first contract.ReleaseInput, judged contract.GateInput, released contract.ReleaseResult, pull *onePull) {
	t.Helper()
	h.gated()
	h.git("-C", h.repo.URL, "config", "receive.denyCurrentBranch", "ignore") // people push to main
	first, judged = h.releaseOf(h.changed(h.repo.Workspace(), file, text))
	verdict, failure := do[contract.GateVerdict](h, h.JudgeChange, judged)
	require.Nil(t, failure)
	first.Gate = verdict.Subject
	released, failure = do[contract.ReleaseResult](h, h.Release, first)
	require.Nil(t, failure)
	require.NoError(t, pullrequests.Save(t.Context(), h.Store, contract.PullRequest{
		RunID: h.run.ID, Forge: "work", Repo: "team/app", Number: 7, URL: "https://git.example.com/7", Title: "t", Head: released.Branch, Base: "main",
		Commit: released.Commit, State: contract.PullRequestOpen,
	}, true))
	pull = &onePull{pr: forge.PullRequest{Number: 7, State: forge.Open, Head: released.Branch, HeadCommit: released.Commit, Base: "main"}}
	h.Forges = pull
	return first, judged, released, pull
}

func updateOf(h *fixture, first contract.ReleaseInput, released contract.ReleaseResult, when contract.UpdateWhen) contract.UpdateBranchInput {
	release := first.Release
	release.PullRequest = &contract.PullRequestSettings{Update: &contract.UpdateSettings{Method: contract.UpdateMerge, When: when, Max: 3, Interval: time.Minute}}
	return contract.UpdateBranchInput{
		RunID: h.run.ID, Repo: h.repo, Release: release, Branch: released.Branch, Head: released.Commit, Why: contract.ConclusionConflict, At: time.Unix(1700000000, 5),
	}
}

func TestAnotherBaseOfAPullRequestIsNotBroughtIn(t *testing.T) {
	t.Parallel()
	h := newFixture(t, "  []")
	first, _, released, pull := releasedPull(t, h, "hello.txt", "hello again\n")
	h.git("-C", h.repo.URL, "branch", "other", "main")
	h.pushes("other", "other.txt", "not judged\n")
	in := updateOf(h, first, released, contract.UpdateIfBehind)
	in.Release.PullRequest.Base = "main"
	pull.pr.Base = "other"
	found, failure := do[contract.UpdateBranchResult](h, h.UpdateBranch, in)
	require.Nil(t, failure)
	require.Contains(t, found.Reason, "was changed from main to other")
	require.Empty(t, found.Point.Commit)
}

func TestAResolvedConflictIsReleasedAsAMergeOfWhichOnlyTheResolutionIsJudged(t *testing.T) {
	t.Parallel()
	h := newFixture(t, "  []")
	first, judged, released, _ := releasedPull(t, h, "hello.txt", "hello again\n")
	in := updateOf(h, first, released, contract.UpdateOnConflict)
	none, failure := do[contract.UpdateBranchResult](h, h.UpdateBranch, in)
	require.Nil(t, failure)
	require.True(t, none.UpToDate)

	h.pushes("main", "other.txt", "of the base\n")
	clean, failure := do[contract.UpdateBranchResult](h, h.UpdateBranch, in)
	require.Nil(t, failure)
	require.Contains(t, clean.Reason, "without a conflict", "git decides, whatever the forge says")
	theirs := h.pushes("main", "hello.txt", "hello base\n")
	found, failure := do[contract.UpdateBranchResult](h, h.UpdateBranch, in)
	require.Nil(t, failure)
	require.Empty(t, found.Reason)
	again, failure := do[contract.UpdateBranchResult](h, h.UpdateBranch, in)
	require.Nil(t, failure)
	require.Equal(t, found, again)
	update := found.Point.Update
	require.Equal(t, []string{"hello.txt"}, update.Conflicts)
	require.Equal(t, []string{released.Commit, theirs}, []string{update.Head, update.Base})

	merged := found.Point.Workspace.Of(first.Workspace)
	left, failure := do[[]string](h, h.ConflictMarkers, contract.ConflictMarkersInput{From: found.Point.Workspace, To: merged, Update: *update})
	require.Nil(t, failure)
	require.Equal(t, []string{"hello.txt"}, left)
	release := func(to contract.Workspace) contract.ReleaseInput {
		next := first
		next.Execution = h.begin(contract.PhaseReleaser, "")
		next.Workspace, next.Stages, next.Credits = to, []contract.Workspace{to.Slim()}, first.Credits[:1]
		next.Onto, next.Replaces, next.Merged = &found.Point, released.Commit, update.Content
		judged.Execution, judged.From, judged.To, judged.Stages, judged.Credits = next.Execution, found.Point.Workspace, to, next.Stages, next.Credits
		verdict, failure := do[contract.GateVerdict](h, h.JudgeChange, judged)
		require.Nil(t, failure)
		next.Gate = verdict.Subject
		return next
	}
	_, failure = do[contract.ReleaseResult](h, h.Release, release(h.changed(merged, "unrelated.txt", "x\n")))
	require.NotNil(t, failure)
	require.Contains(t, failure.Message, "conflict markers in hello.txt")

	last := release(h.changed(merged, "hello.txt", "hello base, again\n"))
	verdicts, err := h.Views.RunDetails(t.Context(), h.run.ID)
	require.NoError(t, err)
	judgement := verdicts.Gate[len(verdicts.Gate)-1]
	require.Equal(t, 1, judgement.FilesTotal, "what the base brings is not the run's change")
	require.Equal(t, "hello.txt", judgement.Files[0].Path)
	done, failure := do[contract.ReleaseResult](h, h.Release, last)
	require.Nil(t, failure)
	repeated, failure := do[contract.ReleaseResult](h, h.Release, last)
	require.Nil(t, failure)
	require.Equal(t, done.Commit, repeated.Commit)
	require.Equal(t, released.Commit+" "+theirs, h.git("-C", h.repo.URL, "log", "-1", "--format=%P", released.Branch))
	require.Equal(t, "hello base, again", h.git("-C", h.repo.URL, "show", released.Branch+":hello.txt"))
	require.Equal(t, "of the base", h.git("-C", h.repo.URL, "show", released.Branch+":other.txt"))
	require.Contains(t, h.git("-C", h.repo.URL, "log", "-1", "--format=%B", released.Branch), "Merge main into "+released.Branch)
}

func TestACleanUpdateReleasesAMergeThatNeedsNoVerdict(t *testing.T) {
	t.Parallel()
	h := newFixture(t, "  []")
	first, _, released, pull := releasedPull(t, h, "hello.txt", "hello again\n")
	theirs := h.pushes("main", "other.txt", "of the base\n")
	in := updateOf(h, first, released, contract.UpdateIfBehind)
	in.Why = contract.ConclusionBehind
	found, failure := do[contract.UpdateBranchResult](h, h.UpdateBranch, in)
	require.Nil(t, failure)
	require.Empty(t, found.Point.Update.Conflicts)
	next := first
	next.Execution = h.begin(contract.PhaseReleaser, "")
	next.Workspace, next.Stages, next.Credits, next.Gate = found.Point.Workspace.Of(first.Workspace), nil, nil, ""
	next.Onto, next.Replaces, next.Merged = &found.Point, released.Commit, found.Point.Update.Content
	done, failure := do[contract.ReleaseResult](h, h.Release, next)
	require.Nil(t, failure)
	require.Equal(t, found.Point.Commit, done.Commit)
	require.Equal(t, released.Commit+" "+theirs, h.git("-C", h.repo.URL, "log", "-1", "--format=%P", released.Branch))

	pull.pr.State = forge.Closed
	in.Head = done.Commit
	closed, failure := do[contract.UpdateBranchResult](h, h.UpdateBranch, in)
	require.Nil(t, failure)
	require.Contains(t, closed.Reason, "closed")
}
