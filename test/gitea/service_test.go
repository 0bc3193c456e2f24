package gitea_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/fault"
	"github.com/rocketgpt/orchestrator/internal/forge"
	"github.com/rocketgpt/orchestrator/internal/forge/forgehttp"
	service "github.com/rocketgpt/orchestrator/internal/forge/gitea"
	"github.com/rocketgpt/orchestrator/test/gitea"
	"github.com/rocketgpt/orchestrator/test/harness"
)

// connect returns the service of a forge at an address, with the user's token.
func connect(t *testing.T, address string, as gitea.User) *service.Service {
	t.Helper()
	u, err := url.Parse(address)
	require.NoError(t, err)
	svc, err := service.New(forgehttp.Options{Name: "test", Kind: forge.Gitea, URL: u, Token: forgehttp.Static(as.Token), Timeout: patience})
	require.NoError(t, err)
	t.Cleanup(svc.Close)
	return svc
}

// requireFault checks an error's class and code, and that its message names the repository and the
// forge, but not the token. It returns the message.
func requireFault(t *testing.T, err error, class contract.Class, code contract.Code, repo, token string) (message string) {
	t.Helper()
	var f *fault.Error
	require.ErrorAs(t, err, &f)
	require.Equal(t, class, f.Class, f.Message)
	require.Equal(t, code, f.Code, f.Message)
	require.Contains(t, f.Message, "cannot ")
	require.Contains(t, f.Message, "test (http://127.0.0.1:")
	require.Contains(t, f.Message, repo)
	if token != "" {
		require.NotContains(t, f.Message, token)
	}
	return f.Message
}

// branch creates a branch with changed files and returns its head.
func branch(t *testing.T, s *gitea.Server, repo, name string, files map[string]string) string {
	t.Helper()
	s.Branch(t, repo, name, "main")
	return s.Commit(t, repo, name, "Change "+name, files)
}

// mergeable waits until the forge has found out whether a pull request can be merged.
func mergeable(t *testing.T, svc forge.Service, repo string, number int64) forge.PullRequest {
	t.Helper()
	var p forge.PullRequest
	harness.Await(t, "the check for conflicts", patience, func() (bool, string) {
		var err error
		p, err = svc.PullRequest(t.Context(), repo, number)
		require.NoError(t, err)
		return p.Mergeable != nil, string(p.State)
	})
	return p
}

// merge merges a pull request as callers do: again while the forge is looking for conflicts.
func merge(t *testing.T, svc forge.Service, repo string, number int64, m forge.Merge) (commit string, err error) {
	t.Helper()
	harness.Await(t, "a response to a merge", patience, func() (bool, string) {
		commit, err = svc.Merge(t.Context(), repo, number, m)
		var f *fault.Error
		if !errors.As(err, &f) || f.RetryAfter == 0 {
			return true, ""
		}
		require.Equal(t, contract.CodeUnavailable, f.Code)
		return false, f.Message
	})
	return commit, err
}

func ptr[T any](v T) *T { return &v }

func TestAPullRequestIsOpenedOnceChangedAndFound(t *testing.T) {
	t.Parallel()
	s := gitea.Shared(t)
	svc := connect(t, s.URL, s.Bot)
	repo := s.Repository(t, map[string]string{"a.txt": "one\n"})
	head := branch(t, s, repo, "rgpt/run-1", map[string]string{"a.txt": "two\n"})
	s.Branch(t, repo, "release/1.0", "main")

	found, err := svc.FindPullRequest(t.Context(), repo, "rgpt/run-1", "main")
	require.NoError(t, err)
	require.Nil(t, found)
	want := forge.NewPullRequest{Head: "rgpt/run-1", Base: "main", Title: "Count to two", Body: "Because.\n\n\"Ünïcode\"", Draft: true}
	p, err := svc.CreatePullRequest(t.Context(), repo, want)
	require.NoError(t, err)
	require.True(t, p.Draft)
	require.Equal(t, "Count to two", p.Title, "without the forge's mark of drafts")
	require.Equal(t, want.Body, p.Body)
	require.Equal(t, head, p.HeadCommit)
	require.Equal(t, []string{"rgpt/run-1", "main", "bot"}, []string{p.Head, p.Base, p.Author})
	require.Equal(t, forge.Open, p.State)
	require.Contains(t, p.URL, s.URL+"/"+repo+"/pulls/")
	require.False(t, p.FromFork)

	again, err := svc.CreatePullRequest(t.Context(), repo, forge.NewPullRequest{Head: "rgpt/run-1", Base: "main", Title: "Another title"})
	require.NoError(t, err)
	require.Equal(t, p.Number, again.Number)
	require.Equal(t, "Count to two", again.Title, "unchanged")
	other, err := svc.CreatePullRequest(t.Context(), repo, forge.NewPullRequest{Head: "rgpt/run-1", Base: "release/1.0", Title: "WIP: to the release"})
	require.NoError(t, err)
	require.False(t, other.Draft, "a title does not make it a draft")
	for base, number := range map[string]int64{"main": p.Number, "release/1.0": other.Number} {
		found, err = svc.FindPullRequest(t.Context(), repo, "rgpt/run-1", base)
		require.NoError(t, err)
		require.NotNil(t, found, base)
		require.Equal(t, number, found.Number)
	}

	p, err = svc.UpdatePullRequest(t.Context(), repo, p.Number, forge.PullRequestChange{Title: ptr("New title")})
	require.NoError(t, err)
	require.Equal(t, "New title", p.Title)
	require.True(t, p.Draft, "unchanged")
	require.Equal(t, want.Body, p.Body, "unchanged")
	p, err = svc.UpdatePullRequest(t.Context(), repo, p.Number, forge.PullRequestChange{Draft: ptr(false), Body: ptr("")})
	require.NoError(t, err)
	require.Equal(t, "New title", p.Title)
	require.False(t, p.Draft)
	require.Empty(t, p.Body)
	p, err = svc.UpdatePullRequest(t.Context(), repo, p.Number, forge.PullRequestChange{State: ptr(forge.Closed)})
	require.NoError(t, err)
	require.Equal(t, forge.Closed, p.State)
	found, err = svc.FindPullRequest(t.Context(), repo, "rgpt/run-1", "main")
	require.NoError(t, err)
	require.Nil(t, found, "it is closed")
	second, err := svc.CreatePullRequest(t.Context(), repo, want)
	require.NoError(t, err)
	require.NotEqual(t, p.Number, second.Number)
	found, err = svc.FindPullRequest(t.Context(), repo, "rgpt/run-1", "main")
	require.NoError(t, err)
	require.Equal(t, second.Number, found.Number, "not the closed one of the same branches")

	_, err = svc.CreatePullRequest(t.Context(), repo, forge.NewPullRequest{Head: "missing", Base: "main", Title: "x"})
	requireFault(t, err, contract.ClassConfig, contract.CodeRepository, repo, s.Bot.Token)
	_, err = svc.CreatePullRequest(t.Context(), repo, forge.NewPullRequest{Head: "main", Base: "main", Title: "x"})
	requireFault(t, err, contract.ClassConfig, contract.CodeBadRequest, repo, s.Bot.Token)
	_, err = svc.PullRequest(t.Context(), repo, 4711)
	requireFault(t, err, contract.ClassConfig, contract.CodeRepository, repo, s.Bot.Token)
}

func TestOnlyTheJudgedHeadIsMergedAndOnlyOnce(t *testing.T) {
	t.Parallel()
	s := gitea.Shared(t)
	svc := connect(t, s.URL, s.Bot)
	repo := s.Repository(t, map[string]string{"a.txt": "one\n"})
	for _, method := range []forge.MergeMethod{forge.MergeCommit, forge.MergeSquash, forge.MergeRebase} {
		name := "by-" + string(method)
		old := branch(t, s, repo, name, map[string]string{name + ".txt": "one\n"})
		p, err := svc.CreatePullRequest(t.Context(), repo, forge.NewPullRequest{Head: name, Base: "main", Title: "Merge " + name})
		require.NoError(t, err)
		head := s.Commit(t, repo, name, "Second", map[string]string{name + ".txt": "two\n"})
		got := mergeable(t, svc, repo, p.Number)
		require.True(t, *got.Mergeable)

		_, err = merge(t, svc, repo, p.Number, forge.Merge{Method: method, HeadCommit: old})
		message := requireFault(t, err, contract.ClassLogic, contract.CodeMergeConflict, repo, s.Bot.Token)
		require.Contains(t, message, head, "it names the new head")
		require.NotEqual(t, forge.Merged, mergeable(t, svc, repo, p.Number).State)

		commit, err := merge(t, svc, repo, p.Number, forge.Merge{Method: method, HeadCommit: head, Title: "Merged " + name, Message: "All of it"})
		require.NoError(t, err)
		require.Equal(t, s.Head(t, repo, "main"), commit)
		again, err := svc.Merge(t.Context(), repo, p.Number, forge.Merge{Method: method, HeadCommit: head})
		require.NoError(t, err)
		require.Equal(t, commit, again)
		_, err = svc.Merge(t.Context(), repo, p.Number, forge.Merge{Method: method, HeadCommit: old})
		requireFault(t, err, contract.ClassLogic, contract.CodeMergeConflict, repo, s.Bot.Token)
		merged, err := svc.PullRequest(t.Context(), repo, p.Number)
		require.NoError(t, err)
		require.Equal(t, forge.Merged, merged.State)
		require.Equal(t, commit, merged.MergeCommit)
		if method != forge.MergeRebase { // that keeps the commits
			var got struct{ Commit struct{ Message string } }
			s.Do(t, s.Owner, http.MethodGet, "/repos/"+repo+"/git/commits/"+commit, nil, &got)
			require.Equal(t, "Merged "+name+"\n\nAll of it", strings.TrimSpace(got.Commit.Message))
		}
		for range 2 { // the second time it does not exist
			require.NoError(t, svc.DeleteBranch(t.Context(), repo, name))
		}
		merged, err = svc.PullRequest(t.Context(), repo, p.Number)
		require.NoError(t, err)
		require.Equal(t, []string{name, head}, []string{merged.Head, merged.HeadCommit}, "also without its branch")
	}
	requireFault(t, svc.DeleteBranch(t.Context(), repo, "main"), contract.ClassConfig, contract.CodeUnauthorized, repo, s.Bot.Token)
	requireFault(t, svc.DeleteBranch(t.Context(), s.Owner.Login+"/missing", "x"), contract.ClassConfig, contract.CodeRepository, "missing", s.Bot.Token)
	requireFault(t, svc.DeleteBranch(t.Context(), repo, "../../x"), contract.ClassConfig, contract.CodeBadRequest, repo, s.Bot.Token)
}

func TestAMergeThatIsNotPossibleSaysWhy(t *testing.T) {
	t.Parallel()
	s := gitea.Shared(t)
	svc := connect(t, s.URL, s.Bot)
	repo := s.Repository(t, map[string]string{"a.txt": "one\n"})
	pull := func(name string, files map[string]string) (int64, string) {
		head := branch(t, s, repo, name, files)
		p, err := svc.CreatePullRequest(t.Context(), repo, forge.NewPullRequest{Head: name, Base: "main", Title: name})
		require.NoError(t, err)
		return p.Number, head
	}
	refused := func(as gitea.User, number int64, head string, method forge.MergeMethod, class contract.Class, code contract.Code, why string) {
		t.Helper()
		_, err := merge(t, connect(t, s.URL, as), repo, number, forge.Merge{Method: method, HeadCommit: head})
		require.Contains(t, requireFault(t, err, class, code, repo, as.Token), why)
	}
	conflicting, conflictHead := pull("conflict", map[string]string{"a.txt": "mine\n"})
	s.Commit(t, repo, "main", "Theirs", map[string]string{"a.txt": "theirs\n"})
	harness.Await(t, "the forge to notice the conflict", patience, func() (bool, string) {
		return !*mergeable(t, svc, repo, conflicting).Mergeable, ""
	})
	refused(s.Bot, conflicting, conflictHead, forge.MergeCommit, contract.ClassLogic, contract.CodeMergeConflict, "conflicts with its base")

	number, head := pull("fine", map[string]string{"b.txt": "one\n"})
	require.True(t, *mergeable(t, svc, repo, number).Mergeable)
	_, err := svc.UpdatePullRequest(t.Context(), repo, number, forge.PullRequestChange{Draft: ptr(true)})
	require.NoError(t, err)
	refused(s.Bot, number, head, forge.MergeCommit, contract.ClassLogic, contract.CodeMergeConflict, "draft")
	_, err = svc.UpdatePullRequest(t.Context(), repo, number, forge.PullRequestChange{Draft: ptr(false), State: ptr(forge.Closed)})
	require.NoError(t, err)
	refused(s.Bot, number, head, forge.MergeCommit, contract.ClassLogic, contract.CodeMergeConflict, "closed")
	_, err = svc.UpdatePullRequest(t.Context(), repo, number, forge.PullRequestChange{State: ptr(forge.Open)})
	require.NoError(t, err)
	require.True(t, *mergeable(t, svc, repo, number).Mergeable)

	s.Collaborator(t, repo, s.Reviewer, "read")
	refused(s.Reviewer, number, head, forge.MergeCommit, contract.ClassConfig, contract.CodeUnauthorized, "may not merge")
	s.Do(t, s.Owner, http.MethodPatch, "/repos/"+repo, map[string]any{"allow_squash_merge": false}, nil)
	refused(s.Bot, number, head, forge.MergeSquash, contract.ClassConfig, contract.CodeBadRequest, `merge method "squash"`)
	s.Protect(t, repo, gitea.Protection{Branch: "main", Checks: []string{"ci/build"}})
	refused(s.Bot, number, head, forge.MergeCommit, contract.ClassLogic, contract.CodeMergeConflict, "status checks")
	require.NoError(t, svc.SetStatus(t.Context(), repo, head, forge.Status{Context: "ci/build", State: forge.CheckSuccess}))
	_, err = merge(t, svc, repo, number, forge.Merge{Method: forge.MergeCommit, HeadCommit: head})
	require.NoError(t, err)
}

func TestLabelsAreCreatedOnceAndRemovedWithoutFuss(t *testing.T) {
	t.Parallel()
	s := gitea.Shared(t)
	svc := connect(t, s.URL, s.Bot)
	repo := s.Repository(t, map[string]string{"a.txt": "one\n"})
	branch(t, s, repo, "change", map[string]string{"a.txt": "two\n"})
	pull := forge.OnPullRequest(s.PullRequest(t, s.Bot, repo, "change", "main", "A change"))
	issue := forge.OnIssue(s.Issue(t, s.Owner, repo, "An issue", ""))
	s.Label(t, repo, "known")
	done := make(chan error)
	for _, on := range []forge.Subject{pull, issue, pull, issue} {
		go func() { done <- svc.AddLabels(t.Context(), repo, on, []string{"known", "new: a, b"}) }()
	}
	for range 4 {
		require.NoError(t, <-done)
	}
	var all []struct{ Name string }
	s.Do(t, s.Owner, http.MethodGet, "/repos/"+repo+"/labels", nil, &all)
	require.Len(t, all, 2, "none was created twice")
	p, err := svc.PullRequest(t.Context(), repo, pull.Number)
	require.NoError(t, err)
	require.ElementsMatch(t, []string{"known", "new: a, b"}, p.Labels)
	for range 2 {
		require.NoError(t, svc.RemoveLabel(t.Context(), repo, pull, "known"))
	}
	require.NoError(t, svc.RemoveLabel(t.Context(), repo, pull, "never"))
	p, err = svc.PullRequest(t.Context(), repo, pull.Number)
	require.NoError(t, err)
	require.Equal(t, []string{"new: a, b"}, p.Labels)
	got, err := svc.Issue(t.Context(), repo, issue.Number)
	require.NoError(t, err)
	require.ElementsMatch(t, []string{"known", "new: a, b"}, got.Labels)
	requireFault(t, svc.AddLabels(t.Context(), repo, forge.OnIssue(4711), []string{"known"}), contract.ClassConfig, contract.CodeRepository, repo, s.Bot.Token)
}

func TestLabelsOfTheOrganisationAreUsed(t *testing.T) {
	t.Parallel()
	s := gitea.Shared(t)
	s.Do(t, s.Owner, http.MethodPost, "/orgs", map[string]any{"username": "acme"}, nil)
	s.Do(t, s.Owner, http.MethodPost, "/orgs/acme/labels", map[string]any{"name": "shared", "color": "#0e8a16"}, nil)
	s.Do(t, s.Owner, http.MethodPost, "/orgs/acme/repos", map[string]any{"name": "r", "auto_init": true, "default_branch": "main"}, nil)
	var team struct{ ID int64 }
	s.Do(t, s.Owner, http.MethodPost, "/orgs/acme/teams", map[string]any{
		"name": "core", "permission": "write", "includes_all_repositories": true, "units": []string{"repo.code", "repo.issues", "repo.pulls"},
	}, &team)
	s.Do(t, s.Owner, http.MethodPut, "/repos/acme/r/collaborators/bot", map[string]any{"permission": "write"}, nil)
	svc := connect(t, s.URL, s.Bot)
	issue := forge.OnIssue(s.Issue(t, s.Owner, "acme/r", "An issue", ""))
	require.NoError(t, svc.AddLabels(t.Context(), "acme/r", issue, []string{"shared"}))
	var own []struct{ Name string }
	s.Do(t, s.Owner, http.MethodGet, "/repos/acme/r/labels", nil, &own)
	require.Empty(t, own, "no copy was made")
	found, err := svc.Issues(t.Context(), "acme/r", "shared", time.Time{})
	require.NoError(t, err)
	require.Len(t, found, 1, "the forge's filter does not know the organisation's labels")

	branch(t, s, "acme/r", "change", map[string]string{"a.txt": "one\n"})
	number := s.PullRequest(t, s.Bot, "acme/r", "change", "main", "A change")
	require.NoError(t, svc.RequestReviews(t.Context(), "acme/r", number, forge.Reviewers{Teams: []string{"acme/core"}}))
	var got struct {
		Teams []struct{ Name string } `json:"requested_reviewers_teams"`
	}
	s.Do(t, s.Owner, http.MethodGet, "/repos/acme/r/pulls/2", nil, &got)
	require.Len(t, got.Teams, 1)
	requireFault(t, svc.RequestReviews(t.Context(), "acme/r", number, forge.Reviewers{Teams: []string{"acme/missing"}}), contract.ClassConfig, contract.CodeRepository, "acme/r", "")
	requireFault(t, svc.RequestReviews(t.Context(), "acme/r", number, forge.Reviewers{Teams: []string{"other/core"}}), contract.ClassConfig, contract.CodeBadRequest, "acme/r", "")
}

func TestChecksAreTheLastOnesAndSayWhichAreRequired(t *testing.T) {
	t.Parallel()
	s := gitea.Shared(t)
	svc := connect(t, s.URL, s.Bot)
	repo := s.Repository(t, map[string]string{"a.txt": "one\n"})
	s.Branch(t, repo, "stable", "main")
	head := branch(t, s, repo, "change", map[string]string{"a.txt": "two\n"})
	none, err := svc.Checks(t.Context(), repo, head)
	require.NoError(t, err)
	require.Empty(t, none)
	s.PullRequest(t, s.Bot, repo, "change", "stable", "A change")
	s.Protect(t, repo, gitea.Protection{Branch: "stable", Checks: []string{"ci/*"}})
	require.NoError(t, svc.SetStatus(t.Context(), repo, head, forge.Status{Context: "rgpt", State: forge.CheckPending, Description: strings.Repeat("ä", 1000), URL: "https://rgpt.example.com/runs/1"}))
	before, err := svc.Checks(t.Context(), repo, head)
	require.NoError(t, err)
	require.Len(t, before, 1)
	require.Equal(t, forge.CheckPending, before[0].State)
	require.Equal(t, "https://rgpt.example.com/runs/1", before[0].URL)
	require.NotEmpty(t, before[0].Description)
	require.LessOrEqual(t, len(before[0].Description), 255)
	for i := range 60 { // more than a page, and more than one in a second
		s.Status(t, repo, head, "ci/build", []string{"pending", "failure"}[i%2], "")
	}
	require.NoError(t, svc.SetStatus(t.Context(), repo, head, forge.Status{Context: "rgpt", State: forge.CheckSuccess}))
	s.Status(t, repo, head, "ci/lint", "error", "no runner")
	after, err := svc.Checks(t.Context(), repo, head)
	require.NoError(t, err)
	require.Len(t, after, 3)
	names := map[string]forge.Check{}
	for _, c := range after {
		names[c.Name] = c
	}
	require.Equal(t, forge.CheckFailure, names["ci/build"].State)
	require.Equal(t, forge.CheckError, names["ci/lint"].State)
	require.Equal(t, "no runner", names["ci/lint"].Description)
	require.Equal(t, forge.CheckSuccess, names["rgpt"].State)
	require.NotEqual(t, before[0].ID, names["rgpt"].ID, "another result has another ID")
	require.True(t, names["ci/build"].Required)
	require.True(t, names["ci/lint"].Required)
	require.False(t, names["rgpt"].Required)
	log, err := svc.CheckLog(t.Context(), repo, names["ci/build"], 1000)
	require.NoError(t, err)
	require.Empty(t, log)

	requireFault(t, svc.SetStatus(t.Context(), repo, strings.Repeat("0", 40), forge.Status{Context: "rgpt", State: forge.CheckSuccess}), contract.ClassConfig, contract.CodeRepository, repo, s.Bot.Token)
	requireFault(t, svc.SetStatus(t.Context(), repo, head, forge.Status{Context: "rgpt", State: forge.CheckSkipped}), contract.ClassConfig, contract.CodeBadRequest, repo, s.Bot.Token)
}

func TestAReviewIsPlacedOnItsLinesAndAnswered(t *testing.T) {
	t.Parallel()
	s := gitea.Shared(t)
	svc := connect(t, s.URL, s.Bot)
	before := "1\n2\n3\n4\n5\n6\n7\n8\n9\n10\n11\n12\n13\n14\n15\n16\n17\n18\n19\n20\n"
	repo := s.Repository(t, map[string]string{"a b.txt": before})
	head := branch(t, s, repo, "change", map[string]string{"a b.txt": strings.Replace(before, "10\n", "ten\n", 1), "new.txt": "n\n"})
	number := s.PullRequest(t, s.Owner, repo, "change", "main", "A change")
	on := forge.OnPullRequest(number)
	s.Comment(t, s.Owner, repo, number, "Please look")
	require.NoError(t, svc.Review(t.Context(), repo, number, forge.NewReview{Commit: head, Body: "Some findings", Comments: []forge.LineComment{
		{Path: "a b.txt", Line: 10, Body: "A word"}, {Path: "new.txt", Line: 1, Body: "New"}, {Path: "a b.txt", Line: 1, Body: "Far away"}, {Path: "../`x`", Line: 3, Body: "No file"},
	}}))
	all, err := svc.Comments(t.Context(), repo, on, time.Time{})
	require.NoError(t, err)
	byBody := map[string]forge.Comment{}
	for _, c := range all {
		byBody[c.Body] = c
		require.NotEmpty(t, c.ID)
		require.Contains(t, c.URL, s.URL)
		require.False(t, c.CreatedAt.IsZero())
	}
	require.Len(t, byBody, 4, "%v", byBody)
	require.Equal(t, "Please look", all[0].Body)
	require.Equal(t, "owner", all[0].Author)
	word := byBody["A word"]
	require.Equal(t, []any{"a b.txt", 10, head, "bot"}, []any{word.Path, word.Line, word.Commit, word.Author})
	require.Equal(t, 1, byBody["New"].Line)
	body := all[1].Body
	require.True(t, strings.HasPrefix(body, "Some findings\n\n`a b.txt`, line 1:\n\nFar away"), body)
	require.Contains(t, body, "`../'x'`, line 3:\n\nNo file")

	answer, err := connect(t, s.URL, s.Owner).Reply(t.Context(), repo, on, word, "Fixed")
	require.NoError(t, err)
	require.Equal(t, word.Thread, answer.Thread)
	require.Equal(t, []any{"a b.txt", 10, "owner", "Fixed"}, []any{answer.Path, answer.Line, answer.Author, answer.Body})
	plain, err := svc.Reply(t.Context(), repo, on, all[0], "I did")
	require.NoError(t, err)
	require.Equal(t, "I did", plain.Body)
	require.Empty(t, plain.Thread)
	all, err = svc.Comments(t.Context(), repo, on, time.Time{})
	require.NoError(t, err)
	require.Len(t, all, 6)
	since, err := svc.Comments(t.Context(), repo, on, plain.UpdatedAt.Add(time.Second))
	require.NoError(t, err)
	for _, c := range since { // reviews are returned whatever their time
		require.True(t, c.Review || c.Path != "", "%+v", c)
	}

	s.Commit(t, repo, "change", "Move", map[string]string{"new.txt": "0\nn\n"})
	require.NoError(t, svc.Review(t.Context(), repo, number, forge.NewReview{Commit: head, Comments: []forge.LineComment{{Path: "new.txt", Line: 1, Body: "Late"}}}))
	all, err = svc.Comments(t.Context(), repo, on, time.Time{})
	require.NoError(t, err)
	require.Equal(t, "`new.txt`, line 1:\n\nLate", all[len(all)-1].Body, "the lines of another head may be others")

	requireFault(t, svc.Review(t.Context(), repo, number, forge.NewReview{Commit: head}), contract.ClassConfig, contract.CodeBadRequest, repo, s.Bot.Token)
	s.Collaborator(t, repo, s.Reviewer, "read")
	for range 2 {
		require.NoError(t, svc.RequestReviews(t.Context(), repo, number, forge.Reviewers{People: []string{"reviewer"}}))
	}
	var got struct {
		Reviewers []struct{ Login string } `json:"requested_reviewers"`
	}
	s.Do(t, s.Owner, http.MethodGet, "/repos/"+repo+"/pulls/1", nil, &got)
	require.Len(t, got.Reviewers, 1)
	requireFault(t, svc.RequestReviews(t.Context(), repo, number, forge.Reviewers{People: []string{"owner"}}), contract.ClassConfig, contract.CodeBadRequest, repo, s.Bot.Token)
	requireFault(t, svc.RequestReviews(t.Context(), repo, number, forge.Reviewers{People: []string{"unknown"}}), contract.ClassConfig, contract.CodeRepository, repo, s.Bot.Token)
}

func TestIssuesAreFoundByLabelAndTime(t *testing.T) {
	t.Parallel()
	s := gitea.Shared(t)
	svc := connect(t, s.URL, s.Bot)
	repo := s.Repository(t, map[string]string{"a.txt": "one\n"})
	first := s.Issue(t, s.Owner, repo, "First", "Do it")
	second := s.Issue(t, s.Bot, repo, "Second", "")
	closed := s.Issue(t, s.Owner, repo, "Closed", "")
	branch(t, s, repo, "change", map[string]string{"a.txt": "two\n"})
	pull := s.PullRequest(t, s.Bot, repo, "change", "main", "A change")
	none, err := svc.Issues(t.Context(), repo, "rgpt", time.Time{})
	require.NoError(t, err)
	require.Empty(t, none, "although the forge ignores labels that it does not know")
	for _, on := range []forge.Subject{forge.OnIssue(second), forge.OnIssue(closed), forge.OnPullRequest(pull)} {
		require.NoError(t, svc.AddLabels(t.Context(), repo, on, []string{"rgpt"}))
	}
	s.Do(t, s.Owner, http.MethodPatch, "/repos/"+repo+"/issues/3", map[string]any{"state": "closed"}, nil)
	found, err := svc.Issues(t.Context(), repo, "rgpt", time.Time{})
	require.NoError(t, err)
	require.Len(t, found, 1)
	require.Equal(t, second, found[0].Number)
	all, err := svc.Issues(t.Context(), repo, "", time.Time{})
	require.NoError(t, err)
	require.Len(t, all, 2)
	later, err := svc.Issues(t.Context(), repo, "rgpt", time.Now().Add(time.Hour))
	require.NoError(t, err)
	require.Empty(t, later)

	i, err := svc.Issue(t.Context(), repo, first)
	require.NoError(t, err)
	require.Equal(t, []any{"First", "Do it", "owner", false}, []any{i.Title, i.Body, i.Author, i.Closed})
	i, err = svc.Issue(t.Context(), repo, closed)
	require.NoError(t, err)
	require.True(t, i.Closed)
	_, err = svc.Issue(t.Context(), repo, pull)
	requireFault(t, err, contract.ClassConfig, contract.CodeRepository, repo, s.Bot.Token)
	c, err := svc.AddComment(t.Context(), repo, forge.OnIssue(first), "Started")
	require.NoError(t, err)
	require.Equal(t, []string{"bot", "Started"}, []string{c.Author, c.Body})
	s.Comment(t, s.Owner, repo, first, "Thanks")
	comments, err := svc.Comments(t.Context(), repo, forge.OnIssue(first), time.Time{})
	require.NoError(t, err)
	require.Len(t, comments, 2)
	require.Equal(t, c.ID, comments[0].ID)
	_, err = svc.AddComment(t.Context(), repo, forge.OnIssue(4711), "x")
	requireFault(t, err, contract.ClassConfig, contract.CodeRepository, repo, s.Bot.Token)
	_, err = svc.Comments(t.Context(), repo, forge.OnIssue(4711), time.Time{})
	requireFault(t, err, contract.ClassConfig, contract.CodeRepository, repo, s.Bot.Token)
}

func TestAccessAndPermissionsAreThoseOfTheForge(t *testing.T) {
	t.Parallel()
	s := gitea.Shared(t)
	repo := s.Repository(t, map[string]string{"a.txt": "one\n"})
	branch(t, s, repo, "change", map[string]string{"a.txt": "two\n"})
	stranger := s.User(t, "stranger")
	reader := s.User(t, "reader")
	s.Collaborator(t, repo, reader, "read")
	svc := connect(t, s.URL, s.Bot)
	who, err := svc.Access(t.Context(), "")
	require.NoError(t, err)
	require.Equal(t, forge.Access{Login: "bot"}, who)
	got, err := svc.Access(t.Context(), repo)
	require.NoError(t, err)
	require.Equal(t, forge.Access{Login: "bot", Permission: forge.PermissionWrite, DefaultBranch: "main"}, got)
	got, err = connect(t, s.URL, s.Owner).Access(t.Context(), repo)
	require.NoError(t, err)
	require.Equal(t, forge.PermissionAdmin, got.Permission)

	readOnly := s.WithScopes(t, s.Bot, "read:repository")
	limited := connect(t, s.URL, readOnly)
	got, err = limited.Access(t.Context(), repo)
	require.NoError(t, err)
	require.Equal(t, []string{"read:user", "write:repository", "write:issue"}, got.Missing)
	_, err = limited.CreatePullRequest(t.Context(), repo, forge.NewPullRequest{Head: "change", Base: "main", Title: "x"})
	message := requireFault(t, err, contract.ClassConfig, contract.CodeUnauthorized, repo, readOnly.Token)
	require.Contains(t, message, "write:repository")

	for as, want := range map[*gitea.User]map[string]forge.Permission{
		&s.Owner: {"owner": forge.PermissionAdmin, "bot": forge.PermissionWrite, "reader": forge.PermissionRead, "stranger": forge.PermissionNone, "nobody": forge.PermissionNone},
		&s.Bot:   {"owner": forge.PermissionWrite, "BOT": forge.PermissionWrite, "reader": forge.PermissionRead, "stranger": forge.PermissionNone, "nobody": forge.PermissionNone, "../x": forge.PermissionNone},
	} {
		for login, permission := range want {
			got, err := connect(t, s.URL, *as).Permission(t.Context(), repo, login)
			require.NoError(t, err)
			require.Equal(t, permission, got, "%s asks for %s", as.Login, login)
		}
	}

	wrong := gitea.User{Token: strings.Repeat("f", 40)}
	_, err = connect(t, s.URL, wrong).PullRequest(t.Context(), repo, 1)
	requireFault(t, err, contract.ClassConfig, contract.CodeUnauthorized, repo, wrong.Token)
	_, err = connect(t, s.URL, wrong).Access(t.Context(), "")
	requireFault(t, err, contract.ClassConfig, contract.CodeUnauthorized, "", wrong.Token)
	_, err = connect(t, s.URL, stranger).Access(t.Context(), repo)
	requireFault(t, err, contract.ClassConfig, contract.CodeRepository, repo, stranger.Token)
	_, err = connect(t, s.URL, stranger).Permission(t.Context(), repo, "owner")
	requireFault(t, err, contract.ClassConfig, contract.CodeRepository, repo, stranger.Token)
	_, err = svc.FindPullRequest(t.Context(), "owner/missing", "a", "main")
	requireFault(t, err, contract.ClassConfig, contract.CodeRepository, "owner/missing", s.Bot.Token)
	_, err = svc.Issues(t.Context(), "no-path", "", time.Time{})
	requireFault(t, err, contract.ClassConfig, contract.CodeRepository, "no-path", s.Bot.Token)
}

func TestACallWhoseAnswerWasLostCanBeRepeated(t *testing.T) {
	t.Parallel()
	s := gitea.Shared(t)
	proxy := s.Proxy(t)
	svc := connect(t, proxy.URL, s.Bot)
	repo := s.Repository(t, map[string]string{"a.txt": "one\n"})
	head := branch(t, s, repo, "change", map[string]string{"a.txt": "two\n"})
	// twice makes a call whose answer is lost, and repeats it.
	twice := func(method string, call func() error) {
		lost := proxy.Lost()
		proxy.Lose(func(r *http.Request) bool { return r.Method == method })
		requireFault(t, call(), contract.ClassInfra, contract.CodeUnavailable, repo, s.Bot.Token)
		require.Greater(t, proxy.Lost(), lost)
		proxy.Lose(nil)
		require.NoError(t, call())
	}
	var p forge.PullRequest
	twice(http.MethodPost, func() (err error) {
		p, err = svc.CreatePullRequest(t.Context(), repo, forge.NewPullRequest{Head: "change", Base: "main", Title: "A change"})
		return err
	})
	on := forge.OnPullRequest(p.Number)
	twice(http.MethodPost, func() error { return svc.AddLabels(t.Context(), repo, on, []string{"rgpt"}) })
	twice(http.MethodDelete, func() error { return svc.RemoveLabel(t.Context(), repo, on, "rgpt") })
	twice(http.MethodPost, func() error {
		return svc.SetStatus(t.Context(), repo, head, forge.Status{Context: "rgpt", State: forge.CheckSuccess})
	})
	twice(http.MethodPatch, func() (err error) {
		_, err = svc.UpdatePullRequest(t.Context(), repo, p.Number, forge.PullRequestChange{Title: ptr("Other"), Body: ptr("text")})
		return err
	})
	mergeable(t, svc, repo, p.Number)
	var commit string
	twice(http.MethodPost, func() (err error) {
		commit, err = svc.Merge(t.Context(), repo, p.Number, forge.Merge{Method: forge.MergeSquash, HeadCommit: head})
		return err
	})
	require.Equal(t, s.Head(t, repo, "main"), commit)
	twice(http.MethodDelete, func() error { return svc.DeleteBranch(t.Context(), repo, "change") })
	var pulls []struct{ Number int64 }
	s.Do(t, s.Owner, http.MethodGet, "/repos/"+repo+"/pulls?state=all", nil, &pulls)
	require.Len(t, pulls, 1)
	var labels []struct{ Name string }
	s.Do(t, s.Owner, http.MethodGet, "/repos/"+repo+"/labels", nil, &labels)
	require.Len(t, labels, 1)
}

// Members of teams that only read count as people to whom Gitea lets issues be assigned.
func TestAMemberOfAReadingTeamMayNotWrite(t *testing.T) {
	t.Parallel()
	s := gitea.Shared(t)
	member := s.User(t, "member-of-readers")
	s.Do(t, s.Owner, http.MethodPost, "/orgs", map[string]any{"username": "readers-org"}, nil)
	s.Do(t, s.Owner, http.MethodPost, "/orgs/readers-org/repos", map[string]any{"name": "app", "auto_init": true, "default_branch": "main"}, nil)
	var team struct {
		ID int64 `json:"id"`
	}
	s.Do(t, s.Owner, http.MethodPost, "/orgs/readers-org/teams", map[string]any{
		"name": "readers", "permission": "read", "includes_all_repositories": true, "units": []string{"repo.code", "repo.pulls", "repo.issues"},
		"units_map": map[string]string{"repo.code": "read", "repo.pulls": "read", "repo.issues": "read"},
	}, &team)
	s.Do(t, s.Owner, http.MethodPut, fmt.Sprintf("/teams/%d/members/%s", team.ID, member.Login), nil, nil)
	s.Do(t, s.Owner, http.MethodPut, "/repos/readers-org/app/collaborators/"+s.Bot.Login, map[string]any{"permission": "write"}, nil)
	got, err := connect(t, s.URL, s.Bot).Permission(t.Context(), "readers-org/app", member.Login)
	require.NoError(t, err)
	require.Equal(t, forge.PermissionRead, got)
}
