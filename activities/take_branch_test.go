package activities_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/store/pullrequests"
)

// pushes adds a commit of a person to the branch of the run, and returns it.
func (h *fixture) pushes(branch, file, text string) string {
	h.t.Helper()
	clone := h.t.TempDir()
	h.git("clone", "-q", "--branch", branch, h.repo.URL, clone)
	h.git("-C", clone, "config", "user.name", "Ann")
	h.git("-C", clone, "config", "user.email", "ann@example.com")
	require.NoError(h.t, os.WriteFile(filepath.Join(clone, file), []byte(text), 0o600))
	h.git("-C", clone, "add", "-A")
	h.git("-C", clone, "commit", "-qm", "By hand")
	h.git("-C", clone, "push", "-q", "origin", branch)
	return h.git("-C", clone, "rev-parse", "HEAD")
}

func TestARunReleasesOnTopOfWhatPeoplePushedAndOnlyItsOwnChangeIsJudged(t *testing.T) {
	t.Parallel()
	h := newFixture(t, "  []")
	h.gated()
	first, judged := h.releaseOf(h.changed(h.repo.Workspace(), "hello.txt", "hello again\n"))
	verdict, failure := do[contract.GateVerdict](h, h.JudgeChange, judged)
	require.Nil(t, failure)
	first.Gate = verdict.Subject
	released, failure := do[contract.ReleaseResult](h, h.Release, first)
	require.Nil(t, failure)
	require.NoError(t, pullrequests.Save(t.Context(), h.Store, contract.PullRequest{
		RunID: h.run.ID, Forge: "work", Repo: "team/app", Number: 7, URL: "https://git.example.com/7", Title: "t", Head: released.Branch, Base: "main",
		Commit: released.Commit, State: contract.PullRequestOpen,
	}, true))

	theirs := h.pushes(released.Branch, "person.txt", "by hand\n")
	mine := h.changed(first.Workspace, "hello.txt", "hello once more\n") // made meanwhile
	take := contract.TakeBranchInput{
		RunID: h.run.ID, Repo: h.repo, Release: first.Release, Branch: released.Branch, Commit: released.Commit,
		Changes: []contract.Change{{Step: "heal-1", From: first.Workspace.Slim(), To: mine.Slim()}},
	}
	taken, failure := do[contract.TakeBranchResult](h, h.TakeBranch, take)
	require.Nil(t, failure)
	require.Equal(t, theirs, taken.Point.Commit)
	require.Equal(t, 1, taken.Commits)
	require.Contains(t, taken.People, "ann@example.com")
	require.Nil(t, taken.Conflict)
	require.Len(t, taken.Stages, 1)
	prs, err := pullrequests.Of(t.Context(), h.Store, h.run.ID)
	require.NoError(t, err)
	require.Equal(t, theirs, prs[0].Commit, "checks of the pushed commit count from now on")

	next := first
	next.Execution = h.begin(contract.PhaseReleaser, "")
	next.Workspace, next.Stages = taken.Stages[0].Of(first.Workspace), taken.Stages
	next.Credits, next.Onto, next.Replaces = first.Credits[:1], &taken.Point, theirs
	judged.Execution, judged.From, judged.To, judged.Stages, judged.Credits = next.Execution, taken.Point.Workspace, next.Workspace, next.Stages, next.Credits
	verdict, failure = do[contract.GateVerdict](h, h.JudgeChange, judged)
	require.Nil(t, failure)
	next.Gate = verdict.Subject
	of := contract.ProtectedInput{Workspace: next.Workspace, Stages: next.Stages, Patterns: []string{"*.txt"}, From: taken.Point.Workspace}
	files, failure := do[contract.ProtectedFiles](h, h.Protected, of)
	require.Nil(t, failure)
	require.Equal(t, []string{"hello.txt"}, files.Paths, "what people pushed is theirs")

	wrong := next
	wrong.Onto = &contract.BranchPoint{Commit: theirs, Workspace: next.Workspace.Slim()}
	_, failure = do[contract.ReleaseResult](h, h.Release, wrong)
	require.NotNil(t, failure, "the run's own change is not what people pushed")

	again, failure := do[contract.ReleaseResult](h, h.Release, next)
	require.Nil(t, failure)
	require.Equal(t, theirs, h.git("-C", h.repo.URL, "rev-parse", again.Commit+"^"))
	require.Equal(t, again.Commit, h.git("-C", h.repo.URL, "rev-parse", released.Branch))
	require.Equal(t, "by hand", h.git("-C", h.repo.URL, "show", again.Commit+":person.txt"))
	require.Equal(t, "hello once more", h.git("-C", h.repo.URL, "show", again.Commit+":hello.txt"))
	repeated, failure := do[contract.ReleaseResult](h, h.Release, next)
	require.Nil(t, failure)
	require.Equal(t, again.Commit, repeated.Commit)
}

func TestAChangeThatConflictsWithAPushIsNotPutOnTopOfIt(t *testing.T) {
	t.Parallel()
	h := newFixture(t, "  []")
	h.gated()
	first, judged := h.releaseOf(h.changed(h.repo.Workspace(), "hello.txt", "hello again\n"))
	verdict, failure := do[contract.GateVerdict](h, h.JudgeChange, judged)
	require.Nil(t, failure)
	first.Gate = verdict.Subject
	released, failure := do[contract.ReleaseResult](h, h.Release, first)
	require.Nil(t, failure)
	theirs := h.pushes(released.Branch, "hello.txt", "hello by hand\n")
	mine := h.changed(first.Workspace, "hello.txt", "hello once more\n")
	taken, failure := do[contract.TakeBranchResult](h, h.TakeBranch, contract.TakeBranchInput{
		RunID: h.run.ID, Repo: h.repo, Release: first.Release, Branch: released.Branch, Commit: released.Commit,
		Changes: []contract.Change{{Step: "heal-1", From: first.Workspace.Slim(), To: mine.Slim()}},
	})
	require.Nil(t, failure)
	require.Equal(t, theirs, taken.Point.Commit)
	require.Equal(t, []string{"hello.txt"}, taken.Conflict.Paths)
	require.Empty(t, taken.Stages)
}

func TestTheReviewOfAChangeOnTopOfAPushIsOnlyAboutIt(t *testing.T) {
	t.Parallel()
	h := newFixture(t, findsOne)
	h.reviewed(contract.ReviewOn, "strict")
	theirs := h.changed(h.repo.Workspace(), "person.txt", "by hand\n")
	mine := h.changed(theirs, "hello.txt", "hello again\n")
	_, judged := h.releaseOf(mine)
	judged.From = theirs.Slim()
	in := h.review(1, mine)
	in.From = judged.From
	made, failure := do[contract.ReviewResult](h, h.Review, in)
	require.Nil(t, failure)
	verdict, failure := do[contract.GateVerdict](h, h.JudgeChange, judged)
	require.Nil(t, failure)
	require.Equal(t, "review", verdict.Reasons[0].Guard)
	require.NotContains(t, verdict.Summary(), "was not reviewed")
	due, failure := do[contract.ReviewDue](h, h.ReviewDue, contract.ReviewDueInput{Gate: judged})
	require.Nil(t, failure)
	require.Equal(t, made.Findings, due.Known.Findings)
}

func TestAnotherBaseOfAPullRequestHidesNobodyWhoPushed(t *testing.T) {
	t.Parallel()
	h := newFixture(t, "  []")
	first, _, released, _ := releasedPull(t, h, "hello.txt", "hello again\n")
	h.git("-C", h.repo.URL, "branch", "other", released.Branch)
	theirs := h.pushes("other", "person.txt", "by hand\n")
	h.git("-C", h.repo.URL, "update-ref", "refs/heads/"+released.Branch, theirs)
	elsewhere := h.git("-C", h.repo.URL, "commit-tree", "-p", "main", "-m", "Rewritten", theirs+"^{tree}")
	h.git("-C", h.repo.URL, "update-ref", "refs/heads/"+released.Branch, elsewhere)
	rewritten := h.pushes(released.Branch, "more.txt", "more by hand\n")
	h.git("-C", h.repo.URL, "update-ref", "refs/heads/other", rewritten)

	// A release after the pull request was given another base stores that one.
	prs, err := pullrequests.Of(t.Context(), h.Store, h.run.ID)
	require.NoError(t, err)
	prs[0].Base = "other"
	require.NoError(t, pullrequests.Save(t.Context(), h.Store, prs[0], false))
	release := first.Release
	release.PullRequest = &contract.PullRequestSettings{Base: "main"}
	taken, failure := do[contract.TakeBranchResult](h, h.TakeBranch, contract.TakeBranchInput{
		RunID: h.run.ID, Repo: h.repo, Release: release, Branch: released.Branch, Commit: released.Commit,
	})
	require.Nil(t, failure)
	require.True(t, taken.Rewritten)
	require.Equal(t, 2, taken.Commits)
	require.Contains(t, taken.People, "ann@example.com", "she wrote what is on the branch")
}
