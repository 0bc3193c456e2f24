package pullrequest_test

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/fault"
	"github.com/rocketgpt/orchestrator/internal/forge"
	"github.com/rocketgpt/orchestrator/internal/forge/forgehttp"
	"github.com/rocketgpt/orchestrator/internal/forge/forgetest"
	"github.com/rocketgpt/orchestrator/internal/forge/github"
	"github.com/rocketgpt/orchestrator/internal/forge/gitlab"
	"github.com/rocketgpt/orchestrator/internal/runs/pullrequest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// world is a forge in memory with a released branch.
type world struct {
	service forge.Service
	faults  *forgetest.Faults
	request pullrequest.Request
}

const path = "octo/app"

func worlds() map[string]func(t *testing.T) *world {
	return map[string]func(t *testing.T) *world{
		"github": func(t *testing.T) *world {
			t.Helper()
			hub := forgetest.NewGitHub(t)
			repo := hub.Repository(path)
			s, err := github.New(options(t, hub.URL()))
			require.NoError(t, err)
			t.Cleanup(s.Close)
			return newWorld(s, hub.Faults, repo)
		},
		"gitlab": func(t *testing.T) *world {
			t.Helper()
			lab := forgetest.NewGitLab(t)
			repo := lab.Repository(path)
			s, err := gitlab.New(options(t, lab.URL()))
			require.NoError(t, err)
			t.Cleanup(s.Close)
			return newWorld(s, lab.Faults, repo)
		},
	}
}

func options(t *testing.T, address string) forgehttp.Options {
	t.Helper()
	u, err := url.Parse(address)
	require.NoError(t, err)
	return forgehttp.Options{Name: "work", URL: u, Token: forgehttp.Static(forgetest.BotToken), Timeout: 5 * time.Second}
}

func newWorld(s forge.Service, faults *forgetest.Faults, repo *forgetest.Repository) *world {
	commit := repo.Push("rgpt/run-42", map[string]string{"notes.md": "one\ntwo\n"})
	return &world{service: s, faults: faults, request: pullrequest.Request{
		RunID: 42, Repo: path, Head: "rgpt/run-42", Base: repo.DefaultBranch, Commit: commit, Title: "Add notes", Body: "What changed.",
		Labels: []string{"rgpt", "gate/allowed"}, OwnLabels: func(l string) bool { return strings.HasPrefix(l, "gate/") },
		Reviewers: forge.Reviewers{People: []string{forgetest.Member}},
		Statuses:  []forge.Status{{Context: "rgpt/test", State: forge.CheckSuccess, Description: "passed"}},
		Comments:  []forge.LineComment{{Path: "notes.md", Line: 2, Body: "Say three."}},
	}}
}

// each runs a test for each forge.
func each(t *testing.T, test func(t *testing.T, w *world)) {
	t.Helper()
	for name, start := range worlds() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, start(t))
		})
	}
}

// until repeats the request as an activity is repeated.
func (w *world) until(t *testing.T) pullrequest.Result {
	t.Helper()
	for range 30 {
		out, err := pullrequest.Open(t.Context(), w.service, w.request)
		if err == nil {
			return out
		}
		require.Equal(t, contract.ClassInfra, fault.Of(err).Class, "%v", err)
	}
	require.Fail(t, "it never worked")
	return pullrequest.Result{}
}

// complete requires that everything is there exactly once.
func (w *world) complete(t *testing.T, out pullrequest.Result) {
	t.Helper()
	require.True(t, out.Opened)
	require.Empty(t, out.Notes)
	require.Equal(t, int64(1), out.PullRequest.Number, "no second one was opened")
	pr, err := w.service.PullRequest(t.Context(), path, 1)
	require.NoError(t, err)
	require.ElementsMatch(t, w.request.Labels, pr.Labels)
	require.Equal(t, 1, strings.Count(pr.Body, "rgpt:begin"))
	comments, err := w.service.Comments(t.Context(), path, forge.OnPullRequest(1), time.Time{})
	require.NoError(t, err)
	n := 0
	for _, c := range comments {
		n += strings.Count(c.Body, "Say three.")
	}
	require.Equal(t, 1, n)
	checks, err := w.service.Checks(t.Context(), path, w.request.Commit)
	require.NoError(t, err)
	require.Len(t, checks, 1)
}

func TestAPullRequestIsOpenedOnceWhicheverAnswerIsLost(t *testing.T) {
	t.Parallel()
	methods := []string{http.MethodPost, http.MethodPatch, http.MethodPut}
	for lost := range 8 {
		t.Run(fmt.Sprint(lost), func(t *testing.T) {
			t.Parallel()
			each(t, func(t *testing.T, w *world) {
				for _, m := range methods {
					if lost > 0 { // the first ones get their answers
						w.faults.Add(forgetest.Fault{Method: m, AfterEffect: true, Times: lost})
						continue
					}
					w.faults.Add(forgetest.Fault{Method: m, Status: http.StatusBadGateway, Times: 2})
				}
				w.complete(t, w.until(t))
				require.Positive(t, w.faults.Met())
				w.complete(t, w.until(t))
			})
		})
	}
}

func TestAnOpenPullRequestOfTheBranchIsUsedAlthoughItsBaseWasChanged(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, w *world) {
		w.until(t)
		// The base of the branch is another one than that of the pull request.
		w.request.RunID, w.request.Base, w.request.OfBranch = 43, "rgpt/run-42-base", []int64{99, 1}
		out := w.until(t)
		require.Equal(t, int64(1), out.PullRequest.Number)
		require.False(t, out.Opened)
		closed := forge.Closed
		_, err := w.service.UpdatePullRequest(t.Context(), path, 1, forge.PullRequestChange{State: &closed})
		require.NoError(t, err)
		w.request.Base = "main"
		require.Equal(t, int64(2), w.until(t).PullRequest.Number, "a closed one of another run does not count")
	})
}

func TestWhatPeopleWroteStaysAndTheRunsPartIsReplaced(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, w *world) {
		out := w.until(t)
		title, body := "Our title", "Ours, before.\n\n"+out.PullRequest.Body+"\n\nOurs, after."
		_, err := w.service.UpdatePullRequest(t.Context(), path, 1, forge.PullRequestChange{Title: &title, Body: &body})
		require.NoError(t, err)
		require.NoError(t, w.service.AddLabels(t.Context(), path, forge.OnPullRequest(1), []string{"ours", "gate/approved"}))
		w.request.RunID, w.request.Body, w.request.Known = 43, "Something else.", 0
		out = w.until(t)
		require.False(t, out.Opened, "another run did")
		pr, err := w.service.PullRequest(t.Context(), path, 1)
		require.NoError(t, err)
		require.Equal(t, "Our title", pr.Title)
		require.Contains(t, pr.Body, "Ours, before.")
		require.Contains(t, pr.Body, "Ours, after.")
		require.Contains(t, pr.Body, "Something else.")
		require.NotContains(t, pr.Body, "What changed.")
		require.ElementsMatch(t, []string{"rgpt", "gate/allowed", "ours"}, pr.Labels)
	})
}

func TestAPullRequestThatAPersonOpenedKeepsItsText(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, w *world) {
		_, err := w.service.CreatePullRequest(t.Context(), path, forge.NewPullRequest{Head: w.request.Head, Base: w.request.Base, Title: "Mine", Body: "My words."})
		require.NoError(t, err)
		out := w.until(t)
		require.False(t, out.Opened)
		require.True(t, strings.HasPrefix(out.PullRequest.Body, "My words."), out.PullRequest.Body)
		require.Contains(t, out.PullRequest.Body, "What changed.")
	})
}

func TestAClosedPullRequestOfTheRunIsLeftAlone(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, w *world) {
		before := w.until(t)
		closed := forge.Closed
		_, err := w.service.UpdatePullRequest(t.Context(), path, 1, forge.PullRequestChange{State: &closed})
		require.NoError(t, err)
		w.request.Known, w.request.Body = before.PullRequest.Number, "Something else."
		out := w.until(t)
		require.Equal(t, forge.Closed, out.PullRequest.State)
		require.Len(t, out.Notes, 1)
		pr, err := w.service.PullRequest(t.Context(), path, 1)
		require.NoError(t, err)
		require.NotContains(t, pr.Body, "Something else.")
	})
}

func TestWhatTheForgeRefusesIsANoteAndTheRestIsDone(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, w *world) {
		w.request.Reviewers.People = []string{"nobody-of-this-name", forgetest.Member}
		out := w.until(t)
		require.Len(t, out.Notes, 1)
		require.Contains(t, out.Notes[0], "nobody-of-this-name")
		out.Notes = nil
		w.complete(t, out)
	})
}

func TestARequestThatIsStoppedReturns(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, w *world) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_, err := pullrequest.Open(ctx, w.service, w.request)
		require.Error(t, err)
	})
}

func TestOwnersOfTheChangedFilesAreAsked(t *testing.T) {
	t.Parallel()
	content := "* @ann\n/docs/ @octo/writers ann@example.com\n^[Backend][2] @skipped\n*.go @bob\n/secret/\n"
	read := func(_ context.Context, name string, _ int64) ([]byte, bool, error) {
		return []byte(content), name == "CODEOWNERS", nil
	}
	for kind, want := range map[forge.Kind]forge.Reviewers{
		forge.GitHub: {People: []string{"bob", "ann"}, Teams: []string{"octo/writers"}},
		forge.GitLab: {People: []string{"bob", "ann"}, Teams: []string{"octo/writers"}},
		forge.Gitea:  {},
	} {
		got, err := pullrequest.Owners(t.Context(), kind, []string{"main.go", "docs/x.md", "other.txt", "secret/x"}, read)
		require.NoError(t, err)
		require.Equal(t, want, got, kind)
	}
	content = "*.go not-an-owner\n"
	_, err := pullrequest.Owners(t.Context(), forge.GitHub, []string{"main.go"}, read)
	require.ErrorContains(t, err, "CODEOWNERS")
}
