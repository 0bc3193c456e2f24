package gitlab_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/fault"
	"github.com/rocketgpt/orchestrator/internal/forge"
	"github.com/rocketgpt/orchestrator/internal/forge/forgetest"
)

const project = "group/sub/app"

func TestAnIssueAndAMergeRequestMayHaveTheSameNumber(t *testing.T) {
	t.Parallel()
	lab := forgetest.NewGitLab(t)
	repo := lab.Repository(project)
	s := open(t, lab, forgetest.BotToken)
	issue := repo.OpenIssue("An issue", "")
	repo.Push("x", map[string]string{"a": "a\n"})
	pr, err := s.CreatePullRequest(t.Context(), project, forge.NewPullRequest{Head: "x", Base: "main", Title: "A change"})
	require.NoError(t, err)
	require.Equal(t, issue, pr.Number)
	require.NoError(t, s.AddLabels(t.Context(), project, forge.OnIssue(issue), []string{"one"}))
	require.NoError(t, s.AddLabels(t.Context(), project, forge.OnPullRequest(pr.Number), []string{"other"}))
	_, err = s.AddComment(t.Context(), project, forge.OnIssue(issue), "Only here")
	require.NoError(t, err)
	got, err := s.Issue(t.Context(), project, issue)
	require.NoError(t, err)
	require.Equal(t, []string{"one"}, got.Labels)
	comments, err := s.Comments(t.Context(), project, forge.OnPullRequest(pr.Number), time.Time{})
	require.NoError(t, err)
	require.Empty(t, comments, "GitLab's own notes are left out too")
}

func TestADraftIsATitleWithAMark(t *testing.T) {
	t.Parallel()
	lab := forgetest.NewGitLab(t)
	repo := lab.Repository(project)
	repo.Push("x", map[string]string{"a": "a\n"})
	s := open(t, lab, forgetest.BotToken)
	pr, err := s.CreatePullRequest(t.Context(), project, forge.NewPullRequest{Head: "x", Base: "main", Title: "[Draft] draft: A change", Draft: true})
	require.NoError(t, err)
	require.Equal(t, []any{"A change", true}, []any{pr.Title, pr.Draft})
	title, ready := "Draft: Another", false
	pr, err = s.UpdatePullRequest(t.Context(), project, pr.Number, forge.PullRequestChange{Title: &title, Draft: &ready})
	require.NoError(t, err)
	require.Equal(t, []any{"Another", false}, []any{pr.Title, pr.Draft})
	pr, err = s.UpdatePullRequest(t.Context(), project, pr.Number, forge.PullRequestChange{Title: &title})
	require.NoError(t, err)
	require.Equal(t, []any{"Another", false}, []any{pr.Title, pr.Draft}, "a title does not make a draft")
}

// behind opens a merge request whose branch lacks a commit of main.
func behind(t *testing.T, repo *forgetest.Repository, s forge.Service) (number int64, head string) {
	t.Helper()
	head = repo.Push("x", map[string]string{"a": "a\n"})
	repo.Push("main", map[string]string{"b": "b\n"})
	pr, err := s.CreatePullRequest(t.Context(), project, forge.NewPullRequest{Head: "x", Base: "main", Title: "t"})
	require.NoError(t, err)
	return pr.Number, head
}

func TestARebaseIsMergedWhenGitLabHasMadeIt(t *testing.T) {
	t.Parallel()
	lab := forgetest.NewGitLab(t)
	repo := lab.Repository(project)
	s := open(t, lab, forgetest.BotToken)
	number, head := behind(t, repo, s)
	merge := forge.Merge{Method: forge.MergeRebase, HeadCommit: head}
	commit, err := s.Merge(t.Context(), project, number, merge)
	require.NoError(t, err)
	require.Equal(t, repo.Head("main"), commit)
	require.NotEqual(t, head, repo.Head("x"), "it was rebased")
	again, err := s.Merge(t.Context(), project, number, merge)
	require.NoError(t, err, "the answer may have been lost")
	require.Equal(t, commit, again)
}

func TestAPushDuringARebaseIsNotMerged(t *testing.T) {
	t.Parallel()
	lab := forgetest.NewGitLab(t)
	repo := lab.Repository(project)
	s := open(t, lab, forgetest.BotToken)
	number, head := behind(t, repo, s)
	before := repo.Head("main")
	lab.DuringRebase(func() { repo.Push("x", map[string]string{"evil": "not judged\n"}) })
	_, err := s.Merge(t.Context(), project, number, forge.Merge{Method: forge.MergeRebase, HeadCommit: head})
	require.True(t, fault.Is(err, contract.CodeMergeConflict), "%v", err)
	require.ErrorContains(t, err, "which is not only a rebase of")
	require.Equal(t, before, repo.Head("main"))
}

func TestAMissingScopeAndRoleAreNamed(t *testing.T) {
	t.Parallel()
	lab := forgetest.NewGitLab(t)
	lab.Scopes("read_api", "read_repository")
	lab.Repository(project).SetMember(forgetest.Bot, forge.PermissionRead)
	access, err := open(t, lab, forgetest.BotToken).Access(t.Context(), project)
	require.NoError(t, err)
	require.Equal(t, []string{"role Developer in the project", "scope api"}, access.Missing)
	require.Equal(t, forge.PermissionRead, access.Permission)
}

func TestAReviewThatWasAddedInPartIsCompleted(t *testing.T) {
	t.Parallel()
	lab := forgetest.NewGitLab(t)
	repo := lab.Repository(project)
	head := repo.Push("x", map[string]string{"a": "one\ntwo\n"})
	s := open(t, lab, forgetest.BotToken)
	pr, err := s.CreatePullRequest(t.Context(), project, forge.NewPullRequest{Head: "x", Base: "main", Title: "t"})
	require.NoError(t, err)
	review := forge.NewReview{Commit: head, Body: "All in all.", Comments: []forge.LineComment{{Path: "a", Line: 1, Body: "First."}, {Path: "a", Line: 2, Body: "Second."}}}
	lab.Add(forgetest.Fault{Method: "POST", Path: "/notes", Status: 503})
	require.True(t, fault.Is(s.Review(t.Context(), project, pr.Number, review), contract.CodeUnavailable))
	require.NoError(t, s.Review(t.Context(), project, pr.Number, review))
	comments, err := s.Comments(t.Context(), project, forge.OnPullRequest(pr.Number), time.Time{})
	require.NoError(t, err)
	require.Len(t, comments, 3)
}

func TestAPipelineThatMustSucceedMakesItsJobsRequired(t *testing.T) {
	t.Parallel()
	lab := forgetest.NewGitLab(t)
	repo := lab.Repository(project)
	head := repo.Push("x", map[string]string{"a": "a\n"})
	repo.Job(head, "build", forge.CheckFailure, "")
	s := open(t, lab, forgetest.BotToken)
	for _, required := range []bool{false, true} {
		if required {
			repo.Require("pipeline")
		}
		checks, err := s.Checks(t.Context(), project, head)
		require.NoError(t, err)
		require.Equal(t, required, checks[0].Required)
	}
	pr, err := s.CreatePullRequest(t.Context(), project, forge.NewPullRequest{Head: "x", Base: "main", Title: "t"})
	require.NoError(t, err)
	_, err = s.Merge(t.Context(), project, pr.Number, forge.Merge{Method: forge.MergeCommit, HeadCommit: head})
	require.True(t, fault.Is(err, contract.CodeMergeConflict), "%v", err)
}

func TestTeamsAreRefused(t *testing.T) {
	t.Parallel()
	lab := forgetest.NewGitLab(t)
	lab.Repository(project)
	err := open(t, lab, forgetest.BotToken).RequestReviews(t.Context(), project, 1, forge.Reviewers{Teams: []string{"group/team"}})
	require.True(t, fault.Is(err, contract.CodeBadRequest))
}
