// Package stay tests that runs are informed of what happens to their pull requests on a real forge.
package stay

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/await"
	"github.com/rocketgpt/orchestrator/internal/config"
	"github.com/rocketgpt/orchestrator/internal/forge"
	"github.com/rocketgpt/orchestrator/internal/forge/connect"
	"github.com/rocketgpt/orchestrator/internal/runs/pullrequest"
	"github.com/rocketgpt/orchestrator/internal/stay"
	"github.com/rocketgpt/orchestrator/internal/store/forgeevents"
	"github.com/rocketgpt/orchestrator/internal/store/pullrequests"
	"github.com/rocketgpt/orchestrator/internal/storetest"
	"github.com/rocketgpt/orchestrator/test/gitea"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(storetest.Main(m)) }

// runs notes what a run is sent.
type runs struct {
	mu      sync.Mutex
	sent    map[string]contract.CheckMessage // by name
	stopped string
}

func (r *runs) Check(_ context.Context, _ int64, m contract.CheckMessage) (contract.Ack, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.sent[m.Name] = m
	return contract.Ack{Applied: true, Message: m.Name + " is being handled"}, nil
}

func (r *runs) Steer(_ context.Context, _ int64, _ string, c contract.Command) (contract.Ack, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.stopped = c.Reason
	return contract.Ack{Applied: true}, nil
}

// message returns what the run was sent under a name.
func (r *runs) message(name string) contract.CheckMessage {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.sent[name]
}

func (r *runs) has(name string) bool { return r.message(name).ID != "" }

// stays is a pull request on a real forge, and the service that informs its run.
type stays struct {
	*storetest.Fixture
	runs
	tea    *gitea.Server
	repo   string
	number int64
	commit string
	set    *connect.Set
}

// begin opens a pull request and starts the service. Without polling, only webhooks say that something
// happened.
func begin(t *testing.T, tea *gitea.Server, address string, poll time.Duration) *stays {
	t.Helper()
	w := &stays{Fixture: storetest.Setup(t), tea: tea, runs: runs{sent: map[string]contract.CheckMessage{}}}
	w.repo = tea.Repository(t, map[string]string{"a.txt": "one\n"})
	tea.Collaborator(t, w.repo, tea.Reviewer, "write")
	tea.Branch(t, w.repo, "rgpt/run-1", "main")
	w.commit = tea.Commit(t, w.repo, "rgpt/run-1", "Change a file", map[string]string{"a.txt": "two\n"})
	w.number = tea.PullRequest(t, tea.Bot, w.repo, "rgpt/run-1", "main", "A change")
	storetest.Query(t, w.URL, func(ctx context.Context, conn *pgx.Conn) {
		_, err := conn.Exec(ctx, "UPDATE orchestrator_runs SET status = 'done', staying_until = now() + interval '1 hour'")
		require.NoError(t, err)
	})
	require.NoError(t, pullrequests.Save(t.Context(), w.Store, contract.PullRequest{
		RunID: w.First.ID, Forge: "work", Repo: w.repo, Number: w.number, URL: "https://git.example.com/1", Title: "A change", Head: "rgpt/run-1",
		Base: "main", Commit: w.commit, State: contract.PullRequestOpen,
	}, true))
	settings := map[string]config.Forge{"work": {
		Kind: "gitea", URL: address, TokenEnv: "TOKEN", WebhookSecretEnv: "HOOK", Timeout: time.Minute, Poll: poll, PollLimit: 10_000,
	}}
	getenv := func(name string) string { return map[string]string{"TOKEN": tea.Bot.Token, "HOOK": "a-secret"}[name] }
	var err error
	w.set, err = connect.New(settings, getenv)
	require.NoError(t, err)
	s := stay.New(stay.Options{
		Store: w.Store, Runs: &w.runs, Forges: w.set, Settings: settings, Mention: "@rgpt", Commenters: forge.PermissionWrite, Getenv: getenv,
		Log: slog.New(slog.DiscardHandler), Tick: 50 * time.Millisecond, FirstWait: 100 * time.Millisecond, LongestWait: time.Second,
	})
	mux := http.NewServeMux()
	mux.HandleFunc("POST /hooks/{forge}", s.Receive)
	server := httptest.NewServer(mux)
	tea.Webhook(t, w.repo, server.URL+"/hooks/work", "a-secret", "push", "pull_request", "pull_request_review", "issue_comment", "pull_request_comment", "status")
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); s.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		<-done
		server.Close()
		w.set.Close()
		http.DefaultTransport.(*http.Transport).CloseIdleConnections()
	})
	return w
}

func (w *stays) events(t *testing.T) map[string]forgeevents.Event {
	t.Helper()
	all, err := forgeevents.Of(context.WithoutCancel(t.Context()), w.Store, "work", w.repo, w.number, 100)
	require.NoError(t, err)
	out := map[string]forgeevents.Event{}
	for _, e := range all {
		out[e.Name+string(e.Kind)+e.Payload.Author] = e
	}
	return out
}

// review writes a review with a comment on a line.
func (w *stays) review(t *testing.T, body, comment string) {
	t.Helper()
	w.tea.Do(t, w.tea.Reviewer, http.MethodPost, fmt.Sprintf("/repos/%s/pulls/%d/reviews", w.repo, w.number), map[string]any{
		"event": "COMMENT", "body": body, "comments": []map[string]any{{"path": "a.txt", "body": comment, "new_position": 1}},
	}, nil)
}

func TestWhatHappensOnARealForgeReachesTheRun(t *testing.T) {
	t.Parallel()
	tea := gitea.Start(t)
	for name, poll := range map[string]time.Duration{"by webhooks": 0, "by polling": 300 * time.Millisecond} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := begin(t, tea, tea.URL, poll)
			tea.Status(t, w.repo, w.commit, "ci/unit", "failure", "2 tests failed")
			await.Until(t, "the failed check", func() bool { return w.has("ci/unit") })
			require.Equal(t, contract.ConclusionFailure, w.message("ci/unit").Conclusion)
			require.Equal(t, w.commit, w.message("ci/unit").Commit)

			tea.Comment(t, tea.Owner, w.repo, w.number, "nice work")
			tea.Comment(t, tea.Bot, w.repo, w.number, "@rgpt do it again")
			tea.Comment(t, tea.Reviewer, w.repo, w.number, "@rgpt rename it")
			await.Until(t, "the comment that mentions the run", func() bool { return w.has("a comment") })
			require.Equal(t, "@rgpt rename it", w.message("a comment").Details)
			require.Equal(t, tea.Reviewer.Login, w.message("a comment").By)
			await.Until(t, "the other comment", func() bool { return w.events(t)["a commentcomment"+tea.Owner.Login].State == forgeevents.Ignored })
			require.Empty(t, w.events(t)["a commentcomment"+tea.Bot.Login].State, "the run's own comment is no event")

			w.review(t, "Please add a test.", "too short a word")
			await.Until(t, "the comment on a line", func() bool { return w.has("a.txt:1") && w.has("a review") })
			require.Equal(t, "too short a word", w.message("a.txt:1").Details)
			require.Equal(t, "Please add a test.", w.message("a review").Details)

			tea.Status(t, w.repo, w.commit, "ci/unit", "success", "")
			await.Until(t, "the check that passes again", func() bool { return w.message("ci/unit").Conclusion == contract.ConclusionSuccess })
			await.Until(t, "Gitea has found out that it can merge", func() bool {
				return tea.Call(t.Context(), tea.Owner, http.MethodPost, fmt.Sprintf("/repos/%s/pulls/%d/merge", w.repo, w.number), map[string]any{"Do": "merge"}, nil) == nil
			})
			await.Until(t, "the merge", func() bool { w.mu.Lock(); defer w.mu.Unlock(); return strings.Contains(w.stopped, "was merged") })
			all, err := pullrequests.Of(t.Context(), w.Store, w.First.ID)
			require.NoError(t, err)
			require.Equal(t, contract.PullRequestMerged, all[0].State)
		})
	}
}

func TestACommentOnARealForgeIsAnsweredOnceAlthoughTheReplyIsLost(t *testing.T) {
	t.Parallel()
	tea := gitea.Start(t)
	lossy := tea.Proxy(t)
	w := begin(t, tea, lossy.URL, 300*time.Millisecond)
	w.review(t, "", "too short a word")
	tea.Comment(t, tea.Reviewer, w.repo, w.number, "@rgpt rename it")
	await.Until(t, "the comments", func() bool { return w.has("a.txt:1") && w.has("a comment") })
	service, err := w.set.Named("work")
	require.NoError(t, err)
	for _, name := range []string{"a.txt:1", "a comment"} {
		m := w.message(name)
		answer := func() (forge.Comment, error) {
			return pullrequest.Answer(t.Context(), service, pullrequest.Reply{
				Repo: w.repo, Number: w.number, ID: m.ID, Since: m.Answer.At, Text: "Carried out.",
				To: forge.Comment{ID: m.Answer.Comment, Thread: m.Answer.Thread, Path: m.Answer.Path, Line: m.Answer.Line, Commit: m.Answer.Commit, URL: m.Answer.URL},
			})
		}
		lost := lossy.Lost()
		lossy.Lose(func(r *http.Request) bool { return r.Method == http.MethodPost })
		_, err = answer()
		require.Error(t, err, name)
		require.Greater(t, lossy.Lost(), lost)
		for range 2 {
			_, err := answer()
			require.NoError(t, err)
		}
		comments, err := service.Comments(t.Context(), w.repo, forge.OnPullRequest(w.number), time.Time{})
		require.NoError(t, err)
		found := 0
		for _, c := range comments {
			if c.Author == tea.Bot.Login && strings.Contains(c.Body, m.ID) {
				found++
				require.Equal(t, m.Answer.Thread, c.Thread)
			}
		}
		require.Equal(t, 1, found, name)
	}
}
