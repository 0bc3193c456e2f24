package forgetest

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/fault"
	"github.com/rocketgpt/orchestrator/internal/forge"
)

func testStatuses(t *testing.T, w World) {
	ctx, s := t.Context(), w.Service
	_, head := w.pull(t, "x")
	checks, err := s.Checks(ctx, w.Repo, head)
	require.NoError(t, err)
	require.Empty(t, checks)

	set := func(context string, state forge.CheckState, description string) {
		require.NoError(t, s.SetStatus(ctx, w.Repo, head, forge.Status{Context: context, State: state, Description: description, URL: "https://example.com/1"}))
	}
	set("rgpt/verify", forge.CheckPending, "Running")
	checks, err = s.Checks(ctx, w.Repo, head)
	require.NoError(t, err)
	require.Len(t, checks, 1)
	first := checks[0]
	require.Equal(t, []any{"rgpt/verify", forge.CheckPending, "Running", "https://example.com/1"}, []any{first.Name, first.State, first.Description, first.URL})

	set("rgpt/verify", forge.CheckSuccess, strings.Repeat("ä", 2000))
	set("rgpt/review", forge.CheckFailure, "Major findings")
	checks, err = s.Checks(ctx, w.Repo, head)
	require.NoError(t, err)
	slices.SortFunc(checks, func(a, b forge.Check) int { return strings.Compare(b.Name, a.Name) })
	require.Len(t, checks, 2)
	require.Equal(t, []any{"rgpt/verify", forge.CheckSuccess}, []any{checks[0].Name, checks[0].State})
	require.Contains(t, checks[0].Description, "ääää")
	require.NotEqual(t, first.ID, checks[0].ID, "another result has another ID")
	require.Equal(t, []any{"rgpt/review", forge.CheckFailure}, []any{checks[1].Name, checks[1].State})

	requireFailure(t, s.SetStatus(ctx, w.Repo, head, forge.Status{Context: "x", State: forge.CheckSkipped}), contract.ClassConfig, contract.CodeBadRequest)
	err = s.SetStatus(ctx, w.Repo, strings.Repeat("1", 40), forge.Status{Context: "x", State: forge.CheckSuccess})
	require.Equal(t, contract.ClassConfig, fault.Of(err).Class, "%v", err)
	log, err := s.CheckLog(ctx, w.Repo, checks[0], 100)
	require.NoError(t, err)
	require.Empty(t, log, "a status has no log")

	if w.Require != nil {
		required, err := s.RequiredChecks(ctx, w.Repo, "main")
		require.NoError(t, err)
		require.Empty(t, required)
		w.Require("rgpt/verify")
		required, err = s.RequiredChecks(ctx, w.Repo, "main")
		require.NoError(t, err)
		if s.Kind() != forge.GitLab { // it has no names of them
			require.Equal(t, []string{"rgpt/verify"}, required)
		}
		checks, err = s.Checks(ctx, w.Repo, head)
		require.NoError(t, err)
		for _, check := range checks {
			require.Equal(t, check.Name == "rgpt/verify", check.Required, check.Name)
		}
	}
}

func testJobs(t *testing.T, w World) {
	ctx, s := t.Context(), w.Service
	if w.Job == nil { // the API of the forge has no jobs
		log, err := s.CheckLog(ctx, w.Repo, forge.Check{ID: "1", Name: "ci", State: forge.CheckFailure}, 100)
		require.NoError(t, err)
		require.Empty(t, log)
		return
	}
	_, head := w.pull(t, "x")
	w.Job(head, "build", forge.CheckFailure, "old\n")
	w.Job(head, "build", forge.CheckFailure, strings.Repeat("a line of the log\n", 10_000)+"the cause\n")
	w.Job(head, "lint", forge.CheckSuccess, "fine\n")
	w.Job(head, "deploy", forge.CheckSkipped, "")
	w.Job(head, "slow", forge.CheckPending, "")
	w.Job(head, "lost", forge.CheckError, "")
	checks, err := s.Checks(ctx, w.Repo, head)
	require.NoError(t, err)
	got := map[string]forge.Check{}
	for _, check := range checks {
		got[check.Name] = check
	}
	require.Len(t, checks, 5)
	for name, want := range map[string]forge.CheckState{
		"build": forge.CheckFailure, "lint": forge.CheckSuccess, "deploy": forge.CheckSkipped, "slow": forge.CheckPending, "lost": forge.CheckError,
	} {
		require.Equal(t, want, got[name].State, name)
	}
	log, err := s.CheckLog(ctx, w.Repo, got["build"], 28)
	require.NoError(t, err)
	require.Equal(t, "a line of the log\nthe cause\n", log)
	log, err = s.CheckLog(ctx, w.Repo, got["build"], 1<<20)
	require.NoError(t, err)
	require.Len(t, log, 18*10_000+10)
	for _, name := range []string{"slow", "deploy"} {
		log, err = s.CheckLog(ctx, w.Repo, got[name], 100)
		require.NoError(t, err, name)
		require.Empty(t, log, name)
	}
}

func testIssues(t *testing.T, w World) {
	ctx, s := t.Context(), w.Service
	first := w.OpenIssue("First", "Do this.", "rgpt", "bug")
	other := w.OpenIssue("Other", "", "bug")
	second := w.OpenIssue("Second", "", "rgpt")
	pr, _ := w.pull(t, "x")
	require.NoError(t, s.AddLabels(ctx, w.Repo, forge.OnPullRequest(pr.Number), []string{"rgpt"}))

	issue, err := s.Issue(ctx, w.Repo, first)
	require.NoError(t, err)
	require.Equal(t, []any{first, "First", "Do this.", w.Member, false}, []any{issue.Number, issue.Title, issue.Body, issue.Author, issue.Closed})
	require.ElementsMatch(t, []string{"rgpt", "bug"}, issue.Labels)

	numbers := func(label string, since time.Time) (out []int64) {
		issues, err := s.Issues(ctx, w.Repo, label, since)
		require.NoError(t, err)
		for i, one := range issues {
			require.False(t, i > 0 && one.UpdatedAt.Before(issues[i-1].UpdatedAt), "the oldest change comes first")
			out = append(out, one.Number)
		}
		return out
	}
	require.ElementsMatch(t, []int64{first, second}, numbers("rgpt", time.Time{}), "without pull requests")
	require.ElementsMatch(t, []int64{first, other, second}, numbers("", time.Time{}))
	require.Empty(t, numbers("no such label", time.Time{}))
	require.Empty(t, numbers("rgpt", time.Now().Add(24*365*time.Hour)))
	last, err := s.Issue(ctx, w.Repo, second)
	require.NoError(t, err)
	require.Contains(t, numbers("rgpt", last.UpdatedAt), second)
}

func testComments(t *testing.T, w World) {
	ctx, s := t.Context(), w.Service
	pr, _ := w.pull(t, "x")
	issue := w.OpenIssue("An issue", "")
	for _, on := range []forge.Subject{forge.OnIssue(issue), forge.OnPullRequest(pr.Number)} {
		comments, err := s.Comments(ctx, w.Repo, on, time.Time{})
		require.NoError(t, err)
		require.Empty(t, comments)
		made, err := s.AddComment(ctx, w.Repo, on, "Of "+on.String())
		require.NoError(t, err)
		require.Equal(t, []any{"Of " + on.String(), w.Login}, []any{made.Body, made.Author})
		w.Say(on, "An answer")
		comments, err = s.Comments(ctx, w.Repo, on, time.Time{})
		require.NoError(t, err)
		require.Len(t, comments, 2, "those of the other subject are not here")
		require.Equal(t, made.ID, comments[0].ID)
		require.Equal(t, made.Body, comments[0].Body)
		require.Equal(t, []any{"An answer", w.Member}, []any{comments[1].Body, comments[1].Author})
		require.NotEqual(t, comments[0].ID, comments[1].ID)

		later, err := s.Comments(ctx, w.Repo, on, comments[1].UpdatedAt)
		require.NoError(t, err)
		require.Contains(t, bodies(later), "An answer")
		later, err = s.Comments(ctx, w.Repo, on, time.Now().Add(24*365*time.Hour))
		require.NoError(t, err)
		require.Empty(t, later)
	}
	if w.SayOnLine != nil {
		w.SayOnLine(pr.Number, "x.txt", 3, "On a line")
		comments, err := s.Comments(ctx, w.Repo, forge.OnPullRequest(pr.Number), time.Time{})
		require.NoError(t, err)
		require.Equal(t, []string{"Of pull request " + fmt.Sprint(pr.Number), "An answer", "On a line"}, bodies(comments))
		require.Equal(t, []any{"x.txt", 3, pr.HeadCommit}, []any{comments[2].Path, comments[2].Line, comments[2].Commit})
	}
	_, err := s.AddComment(ctx, w.Repo, forge.OnIssue(issue), "")
	require.Equal(t, contract.ClassConfig, fault.Of(err).Class, "%v", err)
}

func bodies(comments []forge.Comment) (out []string) {
	for _, c := range comments {
		out = append(out, c.Body)
	}
	return out
}

func testReply(t *testing.T, w World) {
	ctx, s := t.Context(), w.Service
	pr, _ := w.pull(t, "x")
	on := forge.OnPullRequest(pr.Number)
	w.Say(on, "A question")
	if w.SayOnLine != nil {
		w.SayOnLine(pr.Number, "x.txt", 2, "Another one")
	}
	comments, err := s.Comments(ctx, w.Repo, on, time.Time{})
	require.NoError(t, err)
	for _, c := range comments {
		made, err := s.Reply(ctx, w.Repo, on, c, "Answer to: "+c.Body)
		require.NoError(t, err)
		require.Equal(t, []any{"Answer to: " + c.Body, w.Login, c.Thread, c.Path}, []any{made.Body, made.Author, made.Thread, made.Path})
		// An answer to the answer is in the same thread.
		again, err := s.Reply(ctx, w.Repo, on, made, "And more")
		require.NoError(t, err)
		require.Equal(t, c.Thread, again.Thread)
	}
	all, err := s.Comments(ctx, w.Repo, on, time.Time{})
	require.NoError(t, err)
	require.Len(t, all, 3*len(comments))
	issue := forge.OnIssue(w.OpenIssue("An issue", ""))
	w.Say(issue, "Hello")
	comments, err = s.Comments(ctx, w.Repo, issue, time.Time{})
	require.NoError(t, err)
	_, err = s.Reply(ctx, w.Repo, issue, comments[0], "Hi")
	require.NoError(t, err)
	comments, err = s.Comments(ctx, w.Repo, issue, time.Time{})
	require.NoError(t, err)
	require.Equal(t, []string{"Hello", "Hi"}, bodies(comments))
}

// everyMethod calls each method with a repository and a number.
func everyMethod(t *testing.T, s forge.Service, repo string, number int64) map[string]error {
	t.Helper()
	ctx, commit, title := t.Context(), strings.Repeat("1", 40), "t"
	out := map[string]error{}
	_, out["PullRequest"] = s.PullRequest(ctx, repo, number)
	_, out["UpdatePullRequest"] = s.UpdatePullRequest(ctx, repo, number, forge.PullRequestChange{Title: &title})
	out["AddLabels"] = s.AddLabels(ctx, repo, forge.OnPullRequest(number), []string{"x"})
	out["RemoveLabel"] = s.RemoveLabel(ctx, repo, forge.OnIssue(number), "x")
	out["RequestReviews"] = s.RequestReviews(ctx, repo, number, forge.Reviewers{People: []string{Member}})
	out["Review"] = s.Review(ctx, repo, number, forge.NewReview{Commit: commit, Body: "x"})
	_, out["Merge"] = s.Merge(ctx, repo, number, forge.Merge{Method: forge.MergeCommit, HeadCommit: commit})
	_, out["Issue"] = s.Issue(ctx, repo, number)
	_, out["Comments"] = s.Comments(ctx, repo, forge.OnPullRequest(number), time.Time{})
	_, out["Approvals"] = s.Approvals(ctx, repo, number)
	_, out["AddComment"] = s.AddComment(ctx, repo, forge.OnIssue(number), "x")
	_, out["Reply"] = s.Reply(ctx, repo, forge.OnPullRequest(number), forge.Comment{ID: "1"}, "x")
	return out
}

// wholeRepository calls each method that needs only a repository.
func wholeRepository(t *testing.T, s forge.Service, repo string) map[string]error {
	t.Helper()
	ctx, commit := t.Context(), strings.Repeat("1", 40)
	out := map[string]error{}
	_, out["Access"] = s.Access(ctx, repo)
	_, out["Permission"] = s.Permission(ctx, repo, Member)
	_, out["FindPullRequest"] = s.FindPullRequest(ctx, repo, "x", "main")
	_, out["CreatePullRequest"] = s.CreatePullRequest(ctx, repo, forge.NewPullRequest{Head: "x", Base: "main", Title: "t"})
	_, out["Branch"] = s.Branch(ctx, repo, "")
	out["DeleteBranch"] = s.DeleteBranch(ctx, repo, "x")
	out["SetStatus"] = s.SetStatus(ctx, repo, commit, forge.Status{Context: "c", State: forge.CheckSuccess})
	_, out["Checks"] = s.Checks(ctx, repo, commit)
	_, out["RequiredChecks"] = s.RequiredChecks(ctx, repo, "main")
	_, out["Issues"] = s.Issues(ctx, repo, "x", time.Time{})
	return out
}

func testMissing(t *testing.T, w World) {
	for name, err := range everyMethod(t, w.Service, w.Repo, 9999) {
		require.Error(t, err, name)
		requireFailure(t, err, contract.ClassConfig, contract.CodeRepository)
		require.Contains(t, err.Error(), w.Repo, name)
	}
	for name, err := range everyMethod(t, w.Service, w.Missing, 1) {
		require.Error(t, err, name)
		requireFailure(t, err, contract.ClassConfig, contract.CodeRepository)
	}
	for name, err := range wholeRepository(t, w.Service, w.Missing) {
		require.Error(t, err, name)
		requireFailure(t, err, contract.ClassConfig, contract.CodeRepository)
	}
}

func testCredentials(t *testing.T, w World) {
	require.NotNil(t, w.As, "the world has only one token")
	wrong := w.As("tok-wrong-0123456789abcdef")
	for name, err := range everyMethod(t, wrong, w.Repo, 1) {
		require.Error(t, err, name)
		requireFailure(t, err, contract.ClassConfig, contract.CodeUnauthorized)
		require.NotContains(t, err.Error(), "tok-wrong")
	}
	for name, err := range wholeRepository(t, wrong, w.Repo) {
		require.Error(t, err, name)
		requireFailure(t, err, contract.ClassConfig, contract.CodeUnauthorized)
	}
	_, err := wrong.Access(t.Context(), "")
	requireFailure(t, err, contract.ClassConfig, contract.CodeUnauthorized)
}

func testHostileNames(t *testing.T, w World) {
	for _, repo := range []string{"x", "/x/y", "x/", "x/..", "../x", "x/y?z", "x/y#z", "x/y%2f..", "x/ y", "x/y\x00", "-x/y", "x/y/../../z", strings.Repeat("x", 2000) + "/y"} {
		for name, err := range wholeRepository(t, w.Service, repo) {
			require.Error(t, err, "%s %q", name, repo)
			requireFailure(t, err, contract.ClassConfig, contract.CodeRepository)
		}
	}
	for _, branch := range []string{"", "..", "a/../../b", "a b", "a\nb", "/a", "a/", "a:b", "-a", "a?b", strings.Repeat("a", 300)} {
		requireFailure(t, w.Service.DeleteBranch(t.Context(), w.Repo, branch), contract.ClassConfig, contract.CodeBadRequest)
		if branch != "" {
			_, err := w.Service.Branch(t.Context(), w.Repo, branch)
			requireFailure(t, err, contract.ClassConfig, contract.CodeBadRequest)
			_, err = w.Service.RequiredChecks(t.Context(), w.Repo, branch)
			requireFailure(t, err, contract.ClassConfig, contract.CodeBadRequest)
		}
		_, err := w.Service.CreatePullRequest(t.Context(), w.Repo, forge.NewPullRequest{Head: branch, Base: "main", Title: "t"})
		requireFailure(t, err, contract.ClassConfig, contract.CodeBadRequest)
		_, err = w.Service.FindPullRequest(t.Context(), w.Repo, "x", branch)
		requireFailure(t, err, contract.ClassConfig, contract.CodeBadRequest)
	}
	for _, commit := range []string{"", "main", "../x", "abc", strings.Repeat("1", 65)} {
		_, err := w.Service.Checks(t.Context(), w.Repo, commit)
		requireFailure(t, err, contract.ClassConfig, contract.CodeBadRequest)
		requireFailure(t, w.Service.SetStatus(t.Context(), w.Repo, commit, forge.Status{Context: "c", State: forge.CheckSuccess}), contract.ClassConfig, contract.CodeBadRequest)
	}
}

func testHostileTexts(t *testing.T, w World) {
	ctx := t.Context()
	w.Push("x", map[string]string{"a": "a\n"})
	const text = "<script>alert(1)</script> `$(rm -rf /)` {{.}} \u202e ![](http://evil.example/x.png)\n\n/close\n"
	pr, err := w.Service.CreatePullRequest(ctx, w.Repo, forge.NewPullRequest{Head: "x", Base: "main", Title: "A <b>\"title\"</b> & 'more'", Body: text})
	require.NoError(t, err)
	pr, err = w.Service.PullRequest(ctx, w.Repo, pr.Number)
	require.NoError(t, err)
	require.Equal(t, "A <b>\"title\"</b> & 'more'", pr.Title)
	require.Equal(t, strings.TrimSpace(text), shown(pr.Body))
	made, err := w.Service.AddComment(ctx, w.Repo, forge.OnPullRequest(pr.Number), text)
	require.NoError(t, err)
	require.Equal(t, strings.TrimSpace(text), shown(made.Body))
	pr, err = w.Service.PullRequest(ctx, w.Repo, pr.Number)
	require.NoError(t, err)
	require.Equal(t, forge.Open, pr.State, "a text is not run as a command")
}

// shown returns a text as people see it: on GitLab, a backslash keeps a line from being a command.
func shown(text string) string { return strings.TrimSpace(strings.ReplaceAll(text, `\/`, "/")) }

func testLongLists(t *testing.T, w World) {
	const many = 8 // more than the pages of the forges in memory have
	_, head := w.pull(t, "x")
	issue := forge.OnIssue(w.OpenIssue("An issue", "", "rgpt"))
	var want []string
	for i := range many {
		want = append(want, fmt.Sprint("comment ", i))
		_, err := w.Service.AddComment(t.Context(), w.Repo, issue, want[i])
		require.NoError(t, err)
		require.NoError(t, w.Service.SetStatus(t.Context(), w.Repo, head, forge.Status{Context: fmt.Sprint("context ", i), State: forge.CheckSuccess}))
		w.OpenIssue("Another", "", "rgpt")
	}
	comments, err := w.Service.Comments(t.Context(), w.Repo, issue, time.Time{})
	require.NoError(t, err)
	require.Equal(t, want, bodies(comments))
	checks, err := w.Service.Checks(t.Context(), w.Repo, head)
	require.NoError(t, err)
	require.Len(t, checks, many)
	issues, err := w.Service.Issues(t.Context(), w.Repo, "rgpt", time.Time{})
	require.NoError(t, err)
	require.Len(t, issues, many+1)
}

func testMovingIssues(t *testing.T, w World) {
	const many = 10 // more than a page of the forges in these tests has
	var all []int64
	for range many {
		all = append(all, w.OpenIssue("An issue", "", "rgpt"))
	}
	// Before the second page is read, the newest and the oldest issue leave the list: one of them was on the
	// first page, whatever the order.
	w.Faults.Add(Fault{Method: "GET", Path: "/issues", Skip: 1, Before: func() {
		for _, number := range []int64{all[0], all[many-1]} {
			if err := w.Service.RemoveLabel(t.Context(), w.Repo, forge.OnIssue(number), "rgpt"); err != nil {
				t.Errorf("remove a label: %v", err)
			}
		}
	}})
	issues, err := w.Service.Issues(t.Context(), w.Repo, "rgpt", time.Time{})
	require.NoError(t, err)
	require.Equal(t, 1, w.Faults.Met(), "the list has several pages")
	var got []int64
	for _, i := range issues {
		got = append(got, i.Number)
	}
	require.Subset(t, got, all[1:many-1])
}
