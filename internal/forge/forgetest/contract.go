// Package forgetest has what tests of forges need: a GitHub and a GitLab in memory, which answer as
// the documents of their APIs say and serve their repositories to git, faults of requests, and the
// contract that the client of each forge keeps.
package forgetest

import (
	"crypto/rand"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/fault"
	"github.com/rocketgpt/orchestrator/internal/forge"
)

// World is a forge with a repository of its own, and what people, git and CI do there. Functions that
// are nil, and names that are empty, are things that the forge does not have; what needs them is not
// tested.
type World struct {
	Service forge.Service
	Repo    string // private; its default branch has the file README.md, and no other branch exists
	Missing string // the path of a repository that does not exist

	Login    string // of the service's credentials, which may write
	Member   string // another account that may write
	Stranger string // an account without rights

	// Push commits files to a branch, which begins at the default branch if it does not exist, and
	// returns the commit.
	Push func(branch string, files map[string]string) string
	// Head returns the commit of a branch, "" if it does not exist.
	Head func(branch string) string
	// OpenIssue opens an issue as the member.
	OpenIssue func(title, body string, labels ...string) int64
	// Say adds a comment of the member.
	Say func(on forge.Subject, text string)
	// Approve approves the head of a pull request as the member.
	Approve func(number int64)
	// SayOnLine adds a comment of the member on a line that a pull request changes.
	SayOnLine func(number int64, path string, line int, text string)
	// Job reports the last result of a job of the forge's CI, with its log.
	Job func(commit, name string, state forge.CheckState, log string)
	// Require makes the protection of the default branch require a check.
	Require func(check string)
	// As returns a service of the same forge with another token.
	As func(token string) forge.Service
	// Faults break requests of the service.
	Faults *Faults
}

// Contract tests that a client of a forge does what forge.Service promises. world returns a new
// repository for each test.
func Contract(t *testing.T, world func(t *testing.T) World) {
	t.Helper()
	for _, one := range []struct {
		name string
		run  func(*testing.T, World)
	}{
		{"TheAccessIsThatOfTheCredentials", testAccess},
		{"APermissionIsThatOfThePerson", testPermission},
		{"APullRequestIsOpenedFoundChangedAndClosed", testLifeOfAPullRequest},
		{"APullRequestThatIsOpenAlreadyIsReturned", testOpenAlready},
		{"LabelsAreAddedAndRemoved", testLabels},
		{"ReviewsAreRequested", testRequestReviews},
		{"AReviewHasItsCommentsOnTheirLines", testReview},
		{"AnApprovalIsOfTheHead", testApprovals},
		{"AMergeNeedsTheHeadThatWasJudged", testMergeHead},
		{"EachWayToMergeWorks", testMergeMethods},
		{"AConflictIsNotMerged", testMergeConflict},
		{"ABranchHasItsNewestCommit", testBranch},
		{"ABranchIsDeletedOnce", testDeleteBranch},
		{"TheLastStatusCounts", testStatuses},
		{"AJobHasALog", testJobs},
		{"IssuesAreListedByLabelAndChange", testIssues},
		{"CommentsComeInOrder", testComments},
		{"AnAnswerIsInItsThread", testReply},
		{"WhatDoesNotExistIsNotFound", testMissing},
		{"WrongCredentialsAreUnauthorized", testCredentials},
		{"HostileNamesAreRefused", testHostileNames},
		{"HostileTextsStayAsTheyAre", testHostileTexts},
		{"LongListsAreReadToTheirEnd", testLongLists},
		{"AnIssueThatMovesWhileTheListIsReadIsNotMissed", testMovingIssues},
	} {
		t.Run(one.name, func(t *testing.T) {
			t.Parallel()
			one.run(t, world(t))
		})
	}
	t.Run("Faults", func(t *testing.T) { testFaults(t, world) })
}

// pull opens a pull request that adds a file of three lines.
func (w World) pull(t *testing.T, branch string) (forge.PullRequest, string) {
	t.Helper()
	head := w.Push(branch, map[string]string{branch + ".txt": "one\ntwo\nthree\n"})
	pr, err := w.Service.CreatePullRequest(t.Context(), w.Repo, forge.NewPullRequest{Head: branch, Base: "main", Title: "Add " + branch, Body: "Why."})
	require.NoError(t, err)
	return pr, head
}

// requireFailure requires a failure with a class and code, whose message names the repository.
func requireFailure(t *testing.T, err error, class contract.Class, code contract.Code) {
	t.Helper()
	require.Error(t, err)
	f := fault.Of(err)
	require.Equal(t, []any{class, code}, []any{f.Class, f.Code}, f.Message)
	var own *fault.Error
	require.ErrorAs(t, err, &own)
	require.NotContains(t, err.Error(), BotToken)
}

func testAccess(t *testing.T, w World) {
	access, err := w.Service.Access(t.Context(), w.Repo)
	require.NoError(t, err)
	require.Equal(t, w.Login, access.Login)
	require.GreaterOrEqual(t, access.Permission, forge.PermissionWrite)
	require.Equal(t, "main", access.DefaultBranch)
	require.Empty(t, access.Missing)
	access, err = w.Service.Access(t.Context(), "")
	require.NoError(t, err)
	require.Equal(t, forge.Access{Login: w.Login}, access)
	_, err = w.Service.Access(t.Context(), w.Missing)
	requireFailure(t, err, contract.ClassConfig, contract.CodeRepository)
}

func testPermission(t *testing.T, w World) {
	for login, want := range map[string]forge.Permission{
		w.Member: forge.PermissionWrite, w.Stranger: forge.PermissionNone, "nobody-has-this-name": forge.PermissionNone,
		"": forge.PermissionNone, "../" + w.Member: forge.PermissionNone, w.Member + "/../" + w.Member: forge.PermissionNone, "a\x00b": forge.PermissionNone,
	} {
		got, err := w.Service.Permission(t.Context(), w.Repo, login)
		require.NoError(t, err, "%q", login)
		require.Equal(t, want, got, "%q", login)
	}
	_, err := w.Service.Permission(t.Context(), w.Missing, "nobody-has-this-name")
	requireFailure(t, err, contract.ClassConfig, contract.CodeRepository)
}

func testLifeOfAPullRequest(t *testing.T, w World) {
	ctx, s := t.Context(), w.Service
	found, err := s.FindPullRequest(ctx, w.Repo, "feature/x", "main")
	require.NoError(t, err)
	require.Nil(t, found)

	head := w.Push("feature/x", map[string]string{"a.txt": "a\n"})
	pr, err := s.CreatePullRequest(ctx, w.Repo, forge.NewPullRequest{Head: "feature/x", Base: "main", Title: "Add a", Body: "Because.\n", Draft: true})
	require.NoError(t, err)
	require.Positive(t, pr.Number)
	require.Equal(t, []any{"Add a", "feature/x", "main", head, forge.Open, true, false, w.Login},
		[]any{pr.Title, pr.Head, pr.Base, pr.HeadCommit, pr.State, pr.Draft, pr.FromFork, pr.Author})
	require.Equal(t, "Because.", strings.TrimSpace(pr.Body))
	require.Contains(t, pr.URL, "http")
	require.Empty(t, pr.MergeCommit)
	require.WithinDuration(t, time.Now(), pr.UpdatedAt, 10*365*24*time.Hour)

	found, err = s.FindPullRequest(ctx, w.Repo, "feature/x", "main")
	require.NoError(t, err)
	require.NotNil(t, found)
	require.Equal(t, pr.Number, found.Number)
	found, err = s.FindPullRequest(ctx, w.Repo, "feature", "main")
	require.NoError(t, err)
	require.Nil(t, found)

	title, body, ready, draft := "Add the letter a", "", false, true
	pr, err = s.UpdatePullRequest(ctx, w.Repo, pr.Number, forge.PullRequestChange{Title: &title, Body: &body})
	require.NoError(t, err)
	require.Equal(t, []any{title, body, true, forge.Open}, []any{pr.Title, pr.Body, pr.Draft, pr.State})
	for _, want := range []bool{false, false, true, false} { // also if it is so already
		change := forge.PullRequestChange{Draft: &ready}
		if want {
			change.Draft = &draft
		}
		pr, err = s.UpdatePullRequest(ctx, w.Repo, pr.Number, change)
		require.NoError(t, err)
		require.Equal(t, []any{want, title}, []any{pr.Draft, pr.Title})
	}
	again, err := s.UpdatePullRequest(ctx, w.Repo, pr.Number, forge.PullRequestChange{})
	require.NoError(t, err)
	require.Equal(t, title, again.Title)

	closed, open := forge.Closed, forge.Open
	pr, err = s.UpdatePullRequest(ctx, w.Repo, pr.Number, forge.PullRequestChange{State: &closed})
	require.NoError(t, err)
	require.Equal(t, forge.Closed, pr.State)
	found, err = s.FindPullRequest(ctx, w.Repo, "feature/x", "main")
	require.NoError(t, err)
	require.Nil(t, found, "a closed one does not count")
	pr, err = s.UpdatePullRequest(ctx, w.Repo, pr.Number, forge.PullRequestChange{State: &open})
	require.NoError(t, err)
	require.Equal(t, forge.Open, pr.State)

	next := w.Push("feature/x", map[string]string{"a.txt": "b\n"})
	pr, err = s.PullRequest(ctx, w.Repo, pr.Number)
	require.NoError(t, err)
	require.Equal(t, next, pr.HeadCommit)
}

func testOpenAlready(t *testing.T, w World) {
	pr, _ := w.pull(t, "x")
	again, err := w.Service.CreatePullRequest(t.Context(), w.Repo, forge.NewPullRequest{Head: "x", Base: "main", Title: "Another title"})
	require.NoError(t, err)
	require.Equal(t, []any{pr.Number, pr.Title}, []any{again.Number, again.Title})

	_, err = w.Service.CreatePullRequest(t.Context(), w.Repo, forge.NewPullRequest{Head: "no-such-branch", Base: "main", Title: "t"})
	require.Equal(t, contract.ClassConfig, fault.Of(err).Class, "%v", err)
}

func testLabels(t *testing.T, w World) {
	ctx, s := t.Context(), w.Service
	pr, _ := w.pull(t, "x")
	issue := w.OpenIssue("An issue", "")
	on := forge.OnPullRequest(pr.Number)
	require.NoError(t, s.AddLabels(ctx, w.Repo, on, []string{"rgpt", "needs review"}))
	require.NoError(t, s.AddLabels(ctx, w.Repo, on, []string{"rgpt", "später/now?"}))
	require.NoError(t, s.AddLabels(ctx, w.Repo, on, nil))
	require.NoError(t, s.AddLabels(ctx, w.Repo, forge.OnIssue(issue), []string{"only the issue"}))
	pr, err := s.PullRequest(ctx, w.Repo, pr.Number)
	require.NoError(t, err)
	require.ElementsMatch(t, []string{"rgpt", "needs review", "später/now?"}, pr.Labels)

	for _, label := range []string{"später/now?", "needs review", "needs review", "never set", "..", ""} {
		require.NoError(t, s.RemoveLabel(ctx, w.Repo, on, label), label)
	}
	pr, err = s.PullRequest(ctx, w.Repo, pr.Number)
	require.NoError(t, err)
	require.Equal(t, []string{"rgpt"}, pr.Labels)
	got, err := s.Issue(ctx, w.Repo, issue)
	require.NoError(t, err)
	require.Equal(t, []string{"only the issue"}, got.Labels)
	requireFailure(t, s.RemoveLabel(ctx, w.Repo, forge.OnPullRequest(9999), "x"), contract.ClassConfig, contract.CodeRepository)
}

func testRequestReviews(t *testing.T, w World) {
	pr, _ := w.pull(t, "x")
	for range 2 {
		require.NoError(t, w.Service.RequestReviews(t.Context(), w.Repo, pr.Number, forge.Reviewers{People: []string{w.Member}}))
	}
	require.NoError(t, w.Service.RequestReviews(t.Context(), w.Repo, pr.Number, forge.Reviewers{}))
	err := w.Service.RequestReviews(t.Context(), w.Repo, pr.Number, forge.Reviewers{People: []string{"nobody-has-this-name"}})
	require.Equal(t, contract.ClassConfig, fault.Of(err).Class, "%v", err)
}

func testReview(t *testing.T, w World) {
	ctx, s := t.Context(), w.Service
	pr, head := w.pull(t, "x")
	require.NoError(t, s.Review(ctx, w.Repo, pr.Number, forge.NewReview{Commit: head, Body: "Overall good.", Comments: []forge.LineComment{
		{Path: "x.txt", Line: 2, Body: "This line."},
		{Path: "x.txt", Line: 200, Body: "No such line."},
		{Path: "README.md", Line: 1, Body: "Not part of the change."},
	}}))
	comments, err := s.Comments(ctx, w.Repo, forge.OnPullRequest(pr.Number), time.Time{})
	require.NoError(t, err)
	var onLine []forge.Comment
	var text strings.Builder
	for _, c := range comments {
		require.Equal(t, w.Login, c.Author)
		if c.Path != "" {
			onLine = append(onLine, c)
		} else {
			text.WriteString(c.Body)
		}
	}
	require.Len(t, onLine, 1)
	require.Equal(t, []any{"x.txt", 2, "This line.", head}, []any{onLine[0].Path, onLine[0].Line, onLine[0].Body, onLine[0].Commit})
	for _, want := range []string{"Overall good.", "No such line.", "Not part of the change.", "README.md", "200"} {
		require.Contains(t, text.String(), want)
	}
	require.NotContains(t, text.String(), "This line.")
	requireFailure(t, s.Review(ctx, w.Repo, pr.Number, forge.NewReview{Commit: head}), contract.ClassConfig, contract.CodeBadRequest)
	// Only a text, and only comments that cannot be placed.
	require.NoError(t, s.Review(ctx, w.Repo, pr.Number, forge.NewReview{Commit: head, Body: "More."}))
	require.NoError(t, s.Review(ctx, w.Repo, pr.Number, forge.NewReview{Commit: head, Comments: []forge.LineComment{{Path: "gone", Line: 1, Body: "Where?"}}}))
	comments, err = s.Comments(ctx, w.Repo, forge.OnPullRequest(pr.Number), time.Time{})
	require.NoError(t, err)
	require.Contains(t, comments[len(comments)-1].Body, "Where?")
}

func testApprovals(t *testing.T, w World) {
	ctx, s := t.Context(), w.Service
	pr, head := w.pull(t, "x")
	approvals := func() []string {
		t.Helper()
		got, err := s.Approvals(ctx, w.Repo, pr.Number)
		require.NoError(t, err)
		return got
	}
	require.Empty(t, approvals())
	require.NoError(t, s.Review(ctx, w.Repo, pr.Number, forge.NewReview{Commit: head, Body: "I approve."}))
	require.Empty(t, approvals(), "a text is not an approval")
	w.Approve(pr.Number)
	require.Equal(t, []string{w.Member}, approvals())
	w.Push("x", map[string]string{"x.txt": "changed after the approval\n"})
	require.Empty(t, approvals(), "another head was approved")
	w.Approve(pr.Number)
	require.Equal(t, []string{w.Member}, approvals(), "each person once")
}

func testMergeHead(t *testing.T, w World) {
	ctx, s := t.Context(), w.Service
	pr, old := w.pull(t, "x")
	head := w.Push("x", map[string]string{"x.txt": "changed\n"})
	_, err := s.Merge(ctx, w.Repo, pr.Number, forge.Merge{Method: forge.MergeCommit, HeadCommit: old})
	requireFailure(t, err, contract.ClassLogic, contract.CodeMergeConflict)
	_, err = s.Merge(ctx, w.Repo, pr.Number, forge.Merge{Method: forge.MergeCommit})
	requireFailure(t, err, contract.ClassConfig, contract.CodeBadRequest)

	commit, err := w.merge(t, pr.Number, forge.Merge{Method: forge.MergeCommit, HeadCommit: head, Title: "Merge it", Message: "Because."})
	require.NoError(t, err)
	require.Equal(t, w.Head("main"), commit)
	merged, err := s.PullRequest(ctx, w.Repo, pr.Number)
	require.NoError(t, err)
	require.Equal(t, []any{forge.Merged, commit, head}, []any{merged.State, merged.MergeCommit, merged.HeadCommit})

	again, err := s.Merge(ctx, w.Repo, pr.Number, forge.Merge{Method: forge.MergeCommit, HeadCommit: head})
	require.NoError(t, err, "the answer to the first request may have been lost")
	require.Equal(t, commit, again)
	_, err = s.Merge(ctx, w.Repo, pr.Number, forge.Merge{Method: forge.MergeCommit, HeadCommit: old})
	requireFailure(t, err, contract.ClassLogic, contract.CodeMergeConflict)
	found, err := s.FindPullRequest(ctx, w.Repo, "x", "main")
	require.NoError(t, err)
	require.Nil(t, found)
}

// mergeTime limits how long merge asks again. A forge may look for conflicts of other pull requests first.
const mergeTime = time.Minute

// merge merges a pull request without conflicts, and asks again while the forge is still looking for them: some say so,
// and of others the client must assume a conflict after a while.
func (w World) merge(t *testing.T, number int64, how forge.Merge) (commit string, err error) {
	t.Helper()
	for until := time.Now().Add(mergeTime); ; {
		commit, err = w.Service.Merge(t.Context(), w.Repo, number, how)
		if err == nil || time.Now().After(until) {
			return commit, err
		}
		if code := fault.Of(err).Code; code != contract.CodeUnavailable && code != contract.CodeMergeConflict {
			return commit, err
		}
	}
}

func testMergeMethods(t *testing.T, w World) {
	for _, method := range []forge.MergeMethod{forge.MergeCommit, forge.MergeSquash, forge.MergeRebase} {
		pr, head := w.pull(t, string(method)+"-it")
		before := w.Head("main")
		commit, err := w.merge(t, pr.Number, forge.Merge{Method: method, HeadCommit: head})
		require.NoError(t, err, method)
		require.NotEqual(t, before, commit)
		require.Equal(t, w.Head("main"), commit, method)
		got, err := w.Service.PullRequest(t.Context(), w.Repo, pr.Number)
		require.NoError(t, err)
		require.Equal(t, []any{forge.Merged, commit}, []any{got.State, got.MergeCommit}, method)
	}
}

func testMergeConflict(t *testing.T, w World) {
	one := w.Push("one", map[string]string{"README.md": "one\n"})
	two := w.Push("two", map[string]string{"README.md": "two\n"})
	var numbers []int64
	for _, branch := range []string{"one", "two"} {
		pr, err := w.Service.CreatePullRequest(t.Context(), w.Repo, forge.NewPullRequest{Head: branch, Base: "main", Title: branch})
		require.NoError(t, err)
		numbers = append(numbers, pr.Number)
	}
	_, err := w.merge(t, numbers[0], forge.Merge{Method: forge.MergeCommit, HeadCommit: one})
	require.NoError(t, err)
	for _, method := range []forge.MergeMethod{forge.MergeCommit, forge.MergeSquash, forge.MergeRebase} {
		_, err = w.Service.Merge(t.Context(), w.Repo, numbers[1], forge.Merge{Method: method, HeadCommit: two})
		requireFailure(t, err, contract.ClassLogic, contract.CodeMergeConflict)
	}
	closed := forge.Closed
	_, err = w.Service.UpdatePullRequest(t.Context(), w.Repo, numbers[1], forge.PullRequestChange{State: &closed})
	require.NoError(t, err)
	_, err = w.Service.Merge(t.Context(), w.Repo, numbers[1], forge.Merge{Method: forge.MergeCommit, HeadCommit: two})
	requireFailure(t, err, contract.ClassLogic, contract.CodeMergeConflict)
}

func testBranch(t *testing.T, w World) {
	for range 2 {
		commit := w.Push("feature/x", map[string]string{"a": rand.Text()})
		got, err := w.Service.Branch(t.Context(), w.Repo, "feature/x")
		require.NoError(t, err)
		require.Equal(t, commit, got)
	}
	got, err := w.Service.Branch(t.Context(), w.Repo, "")
	require.NoError(t, err)
	require.Equal(t, w.Head("main"), got, "the default branch")
	_, err = w.Service.Branch(t.Context(), w.Repo, "feature")
	requireFailure(t, err, contract.ClassConfig, contract.CodeRepository)
}

func testDeleteBranch(t *testing.T, w World) {
	w.Push("feature/x", map[string]string{"a": "a\n"})
	require.NotEmpty(t, w.Head("feature/x"))
	for range 2 {
		require.NoError(t, w.Service.DeleteBranch(t.Context(), w.Repo, "feature/x"))
		require.Empty(t, w.Head("feature/x"))
	}
	requireFailure(t, w.Service.DeleteBranch(t.Context(), w.Missing, "feature/x"), contract.ClassConfig, contract.CodeRepository)
}
