package github_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/fault"
	"github.com/rocketgpt/orchestrator/internal/forge"
	"github.com/rocketgpt/orchestrator/internal/forge/forgetest"
)

func TestAnUnchangedAnswerIsConfirmed(t *testing.T) {
	t.Parallel()
	hub := forgetest.NewGitHub(t)
	number := hub.Repository("octo/app").OpenIssue("An issue", "text")
	s := open(t, hub, forgetest.BotToken)
	for range 3 {
		issue, err := s.Issue(t.Context(), "octo/app", number)
		require.NoError(t, err)
		require.Equal(t, "text", issue.Body)
	}
	require.Equal(t, 2, hub.Confirmed())
}

func TestAPullRequestIsNoIssue(t *testing.T) {
	t.Parallel()
	hub := forgetest.NewGitHub(t)
	repo := hub.Repository("octo/app")
	repo.Push("x", map[string]string{"a": "a\n"})
	s := open(t, hub, forgetest.BotToken)
	pr, err := s.CreatePullRequest(t.Context(), "octo/app", forge.NewPullRequest{Head: "x", Base: "main", Title: "t"})
	require.NoError(t, err)
	_, err = s.Issue(t.Context(), "octo/app", pr.Number)
	require.True(t, fault.Is(err, contract.CodeRepository), "%v", err)
}

func TestTheTextOfAReviewThatApprovesIsPartOfTheConversation(t *testing.T) {
	t.Parallel()
	hub := forgetest.NewGitHub(t)
	repo := hub.Repository("octo/app")
	head := repo.Push("x", map[string]string{"a": "a\n"})
	s := open(t, hub, forgetest.BotToken)
	pr, err := s.CreatePullRequest(t.Context(), "octo/app", forge.NewPullRequest{Head: "x", Base: "main", Title: "t"})
	require.NoError(t, err)
	require.NoError(t, s.Review(t.Context(), "octo/app", pr.Number, forge.NewReview{Commit: head, Body: "Rename it."}))
	repo.ApproveAs(forgetest.Member, pr.Number, "Good.")
	comments, err := s.Comments(t.Context(), "octo/app", forge.OnPullRequest(pr.Number), time.Time{})
	require.NoError(t, err)
	got := map[string]bool{}
	for _, c := range comments {
		got[c.Body] = c.Review
	}
	require.Equal(t, map[string]bool{"Rename it.": true, "Good.": false}, got)
}

func TestADraftAndMissingChecksAreNotMerged(t *testing.T) {
	t.Parallel()
	hub := forgetest.NewGitHub(t)
	repo := hub.Repository("octo/app")
	head := repo.Push("x", map[string]string{"a": "a\n"})
	repo.Require("build")
	s := open(t, hub, forgetest.BotToken)
	pr, err := s.CreatePullRequest(t.Context(), "octo/app", forge.NewPullRequest{Head: "x", Base: "main", Title: "t", Draft: true})
	require.NoError(t, err)
	merge := forge.Merge{Method: forge.MergeSquash, HeadCommit: head}
	_, err = s.Merge(t.Context(), "octo/app", pr.Number, merge)
	require.True(t, fault.Is(err, contract.CodeMergeConflict))
	require.ErrorContains(t, err, "still a draft")
	ready := false
	_, err = s.UpdatePullRequest(t.Context(), "octo/app", pr.Number, forge.PullRequestChange{Draft: &ready})
	require.NoError(t, err)
	_, err = s.Merge(t.Context(), "octo/app", pr.Number, merge)
	require.True(t, fault.Is(err, contract.CodeMergeConflict))
	require.ErrorContains(t, err, `Required status check "build" is expected`)
	repo.Job(head, "build", forge.CheckSuccess, "")
	_, err = s.Merge(t.Context(), "octo/app", pr.Number, merge)
	require.NoError(t, err)
}

func TestAMergeWhoseBaseHasJustChangedCanBeRepeated(t *testing.T) {
	t.Parallel()
	hub := forgetest.NewGitHub(t)
	repo := hub.Repository("octo/app")
	head := repo.Push("x", map[string]string{"a": "a\n"})
	s := open(t, hub, forgetest.BotToken)
	pr, err := s.CreatePullRequest(t.Context(), "octo/app", forge.NewPullRequest{Head: "x", Base: "main", Title: "t"})
	require.NoError(t, err)
	hub.Add(forgetest.Fault{Method: "PUT", Path: "/merge", Status: 405, Body: `{"message":"Base branch was modified. Review and try the merge again."}`})
	merge := forge.Merge{Method: forge.MergeSquash, HeadCommit: head}
	_, err = s.Merge(t.Context(), "octo/app", pr.Number, merge)
	require.True(t, fault.Is(err, contract.CodeUnavailable), "%v", err)
	require.Equal(t, contract.ClassInfra, fault.Of(err).Class)
	_, err = s.Merge(t.Context(), "octo/app", pr.Number, merge)
	require.NoError(t, err)
}

func TestErrorsOfMutationsHaveAClass(t *testing.T) {
	t.Parallel()
	hub := forgetest.NewGitHub(t)
	repo := hub.Repository("octo/app")
	repo.Push("x", map[string]string{"a": "a\n"})
	s := open(t, hub, forgetest.BotToken)
	pr, err := s.CreatePullRequest(t.Context(), "octo/app", forge.NewPullRequest{Head: "x", Base: "main", Title: "t"})
	require.NoError(t, err)
	draft := true
	for _, c := range []struct {
		body string
		code contract.Code
	}{
		{`{"errors":[{"type":"RATE_LIMITED","message":"API rate limit exceeded"}]}`, contract.CodeRateLimited},
		{`{"errors":[{"type":"FORBIDDEN","message":"Resource not accessible by integration"}]}`, contract.CodeUnauthorized},
		{`{"errors":[{"type":"NOT_FOUND","message":"Could not resolve"}]}`, contract.CodeRepository},
		{`{"errors":[{"message":"Something went wrong"}]}`, contract.CodeBadRequest},
		{`{"errors":`, contract.CodeUnavailable},
	} {
		hub.Add(forgetest.Fault{Path: "graphql", Status: 200, Body: c.body})
		_, err = s.UpdatePullRequest(t.Context(), "octo/app", pr.Number, forge.PullRequestChange{Draft: &draft})
		require.Equal(t, c.code, fault.Of(err).Code, "%s: %v", c.body, err)
	}
	// The answer to the mutation was lost, and it is repeated.
	hub.Add(forgetest.Fault{Path: "graphql", AfterEffect: true})
	_, err = s.UpdatePullRequest(t.Context(), "octo/app", pr.Number, forge.PullRequestChange{Draft: &draft})
	require.True(t, fault.Is(err, contract.CodeUnavailable), "%v", err)
	pr, err = s.UpdatePullRequest(t.Context(), "octo/app", pr.Number, forge.PullRequestChange{Draft: &draft})
	require.NoError(t, err)
	require.True(t, pr.Draft)
}

func TestARepositoryWithoutTheRightToWriteSaysSo(t *testing.T) {
	t.Parallel()
	hub := forgetest.NewGitHub(t)
	repo := hub.Repository("octo/app")
	head := repo.Push("x", map[string]string{"a": "a\n"})
	repo.SetMember(forgetest.Bot, forge.PermissionRead)
	s := open(t, hub, forgetest.BotToken)
	access, err := s.Access(t.Context(), "octo/app")
	require.NoError(t, err)
	require.Equal(t, []any{forge.PermissionRead, []string{"write access to the repository"}}, []any{access.Permission, access.Missing})
	err = s.SetStatus(t.Context(), "octo/app", head, forge.Status{Context: "c", State: forge.CheckSuccess})
	require.True(t, fault.Is(err, contract.CodeUnauthorized))
	require.ErrorContains(t, err, "the credentials need one of these permissions: contents=write or pull_requests=write")
}

func TestRequiredChecksThatCannotBeReadAreNotAnError(t *testing.T) {
	t.Parallel()
	hub := forgetest.NewGitHub(t)
	repo := hub.Repository("octo/app")
	head := repo.Push("x", map[string]string{"a": "a\n"})
	repo.Require("build")
	repo.Job(head, "build", forge.CheckSuccess, "")
	s := open(t, hub, forgetest.BotToken)
	hub.Add(forgetest.Fault{Path: "/rules/", Status: 403, Body: `{"message":"Upgrade to GitHub Pro"}`}, forgetest.Fault{Path: "/branches/main", Status: 404})
	checks, err := s.Checks(t.Context(), "octo/app", head)
	require.NoError(t, err)
	require.False(t, checks[0].Required)
	hub.Add(forgetest.Fault{Path: "/rules/", Status: 429})
	_, err = s.Checks(t.Context(), "octo/app", head)
	require.True(t, fault.Is(err, contract.CodeRateLimited), "%v", err)
	checks, err = s.Checks(t.Context(), "octo/app", head)
	require.NoError(t, err)
	require.True(t, checks[0].Required)
}

func TestOnlyTheOldestChangesOfIssuesAreReturnedIfThereAreTooMany(t *testing.T) {
	t.Parallel()
	hub := forgetest.NewGitHub(t)
	repo := hub.Repository("octo/app")
	hub.PageSize(100)
	const many = forge.MaxIssues + 200
	for range many {
		repo.OpenIssue("An issue", "")
	}
	s := open(t, hub, forgetest.BotToken)
	issues, err := s.Issues(t.Context(), "octo/app", "", time.Time{})
	require.NoError(t, err)
	require.GreaterOrEqual(t, len(issues), forge.MaxIssues)
	require.Less(t, len(issues), many)
	rest, err := s.Issues(t.Context(), "octo/app", "", issues[len(issues)-1].UpdatedAt)
	require.NoError(t, err)
	require.Equal(t, issues[len(issues)-1].Number, rest[0].Number)
	require.Len(t, rest, many-len(issues)+1, "the last one and the rest")
}

func TestALogThatIsGoneIsEmpty(t *testing.T) {
	t.Parallel()
	hub := forgetest.NewGitHub(t)
	repo := hub.Repository("octo/app")
	head := repo.Push("x", map[string]string{"a": "a\n"})
	repo.Job(head, "build", forge.CheckFailure, "a log\n")
	s := open(t, hub, forgetest.BotToken)
	checks, err := s.Checks(t.Context(), "octo/app", head)
	require.NoError(t, err)
	hub.Add(forgetest.Fault{Path: "/logs", Status: 410, Body: `{"message":"Logs have expired"}`})
	log, err := s.CheckLog(t.Context(), "octo/app", checks[0], 100)
	require.NoError(t, err)
	require.Empty(t, log)
	hub.Add(forgetest.Fault{Path: "/logs", Status: 403, Body: `{"message":"Must have admin rights"}`})
	_, err = s.CheckLog(t.Context(), "octo/app", checks[0], 100)
	require.True(t, fault.Is(err, contract.CodeUnauthorized), "a refusal is not an empty log: %v", err)
	hub.Add(forgetest.Fault{Path: "/logs", Status: 302, Header: map[string]string{"Location": "file:///etc/passwd"}})
	_, err = s.CheckLog(t.Context(), "octo/app", checks[0], 100)
	require.Error(t, err)
	require.NotContains(t, err.Error(), "root:")
	require.Contains(t, err.Error(), strings.TrimPrefix(hub.URL(), "http://"))
}
