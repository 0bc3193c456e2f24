package gitea_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/fault"
	"github.com/rocketgpt/orchestrator/internal/forge"
	"github.com/rocketgpt/orchestrator/internal/forge/webhook"
	"github.com/rocketgpt/orchestrator/test/gitea"
)

// recordEnv names the variable with the folder that deliveries are recorded in. The tests of
// internal/forge/webhook use those in internal/forge/gitea/testdata/webhooks.
const recordEnv = "RGPT_RECORD_WEBHOOKS"

const hookSecret = "a secret of the test"

// hooked is a repository whose webhooks arrive at a receiver.
type hooked struct {
	*gitea.Server
	*gitea.Receiver
	repo string
	seen map[string]bool // IDs of deliveries
}

// next returns the event of the next delivery of a type that is of a kind, and about the commit if one
// is given, and records the delivery.
func (h *hooked) next(t *testing.T, name, eventType string, kind webhook.Kind, commit ...string) webhook.Event {
	t.Helper()
	var e webhook.Event
	d := h.Await(t, name, patience, func(d gitea.Delivery) bool {
		if h.seen[d.Header.Get("X-Gitea-Delivery")] || d.Header.Get("X-Gitea-Event-Type") != eventType {
			return false
		}
		var err error
		e, err = webhook.Parse(forge.Gitea, d.Header, d.Body, hookSecret)
		require.NoError(t, err)
		return e.Kind == kind && (len(commit) == 0 || e.Commit == commit[0])
	})
	require.NotEmpty(t, e.Delivery)
	h.seen[e.Delivery] = true
	if kind != webhook.Ignored {
		require.Equal(t, h.repo, e.Repo)
	}
	if dir := os.Getenv(recordEnv); dir != "" {
		h.record(t, filepath.Join(dir, name+".json"), d)
	}
	return e
}

var volatile = regexp.MustCompile(`127\.0\.0\.1:\d+`)

// record writes a delivery without the names of this machine and without its signature.
func (h *hooked) record(t *testing.T, file string, d gitea.Delivery) {
	t.Helper()
	header := map[string]string{}
	for name := range d.Header {
		if strings.HasPrefix(name, "X-") && !strings.Contains(name, "Signature") || name == "Content-Type" {
			header[name] = d.Header.Get(name)
		}
	}
	raw, err := json.MarshalIndent(map[string]any{"header": header, "body": json.RawMessage(d.Body)}, "", "  ")
	require.NoError(t, err)
	text := volatile.ReplaceAllString(string(raw), "git.example.com")
	text = strings.ReplaceAll(text, strings.TrimPrefix(h.repo, "owner/"), "project")
	require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o750))
	require.NoError(t, os.WriteFile(file, []byte(text+"\n"), 0o600))
}

func TestTheForgesWebhooksAreUnderstood(t *testing.T) {
	t.Parallel()
	s := gitea.Shared(t)
	h := &hooked{Server: s, Receiver: gitea.Receive(t), repo: s.Repository(t, map[string]string{"a.txt": "one\n"}), seen: map[string]bool{}}
	s.Webhook(t, h.repo, h.Receiver.URL, hookSecret, "push", "pull_request", "pull_request_label", "pull_request_sync", "pull_request_comment",
		"pull_request_review_approved", "pull_request_review_rejected", "pull_request_review_comment", "issues", "issue_label", "issue_comment", "status", "create")
	svc := connect(t, s.URL, s.Bot)

	head := branch(t, s, h.repo, "rgpt/run-1", map[string]string{"a.txt": "two\n"})
	e := h.next(t, "push", "push", webhook.Pushed, head)
	require.Equal(t, []any{"rgpt/run-1", "owner"}, []any{e.Branch, e.Sender})
	h.next(t, "create", "create", webhook.Ignored)
	pull := forge.OnPullRequest(s.PullRequest(t, s.Bot, h.repo, "rgpt/run-1", "main", "A change"))
	e = h.next(t, "pull_request_opened", "pull_request", webhook.Opened)
	require.Equal(t, []any{pull, head, "bot"}, []any{e.Subject, e.Commit, e.Sender})
	label := s.Label(t, h.repo, "rgpt")
	s.SetLabel(t, s.Owner, h.repo, pull.Number, label)
	e = h.next(t, "pull_request_labelled", "pull_request_label", webhook.Labelled)
	require.Equal(t, []any{pull, []string{"rgpt"}, ""}, []any{e.Subject, e.Labels, e.Label})
	head = s.Commit(t, h.repo, "rgpt/run-1", "Again", map[string]string{"a.txt": "three\n"})
	e = h.next(t, "pull_request_synchronised", "pull_request_sync", webhook.Updated, head)
	require.Equal(t, []any{pull, head}, []any{e.Subject, e.Commit})
	require.NoError(t, svc.SetStatus(t.Context(), h.repo, head, forge.Status{Context: "ci/build", State: forge.CheckFailure, Description: "2 failed", URL: "https://ci.example.com/1"}))
	e = h.next(t, "status", "status", webhook.Check)
	checks, err := svc.Checks(t.Context(), h.repo, head)
	require.NoError(t, err)
	checks[0].ID = "" // the delivery has another number
	require.Equal(t, checks[0], e.Check)
	require.Equal(t, head, e.Commit)
	s.Comment(t, s.Owner, h.repo, pull.Number, "Why?")
	e = h.next(t, "pull_request_comment", "pull_request_comment", webhook.Comment)
	require.Equal(t, []any{pull, "Why?", "owner"}, []any{e.Subject, e.Comment.Body, e.Comment.Author})
	all, err := svc.Comments(t.Context(), h.repo, pull, e.Comment.CreatedAt)
	require.NoError(t, err)
	require.Equal(t, all[0], e.Comment, "it is the comment that the forge returns")
	require.NoError(t, connect(t, s.URL, s.Owner).Review(t.Context(), h.repo, pull.Number, forge.NewReview{
		Commit: head, Body: "Look here", Comments: []forge.LineComment{{Path: "a.txt", Line: 1, Body: "Three?"}},
	}))
	e = h.next(t, "pull_request_review_comment", "pull_request_review_comment", webhook.Reviewed)
	require.Equal(t, []any{pull, "owner", "Look here"}, []any{e.Subject, e.Comment.Author, e.Comment.Body})
	for event, eventType := range map[string]string{"APPROVED": "pull_request_review_approved", "REQUEST_CHANGES": "pull_request_review_rejected"} {
		s.Do(t, s.Owner, http.MethodPost, fmt.Sprintf("/repos/%s/pulls/%d/reviews", h.repo, pull.Number), map[string]any{"event": event, "body": event}, nil)
		e = h.next(t, eventType, eventType, webhook.Reviewed)
		require.Equal(t, event, e.Comment.Body)
	}

	issue := forge.OnIssue(s.Issue(t, s.Owner, h.repo, "An issue", "Please"))
	e = h.next(t, "issue_opened", "issues", webhook.Opened)
	require.Equal(t, issue, e.Subject)
	s.SetLabel(t, s.Owner, h.repo, issue.Number, label)
	e = h.next(t, "issue_labelled", "issue_label", webhook.Labelled)
	require.Equal(t, []any{issue, []string{"rgpt"}}, []any{e.Subject, e.Labels})
	s.Comment(t, s.Owner, h.repo, issue.Number, "@rgpt do it")
	e = h.next(t, "issue_comment", "issue_comment", webhook.Comment)
	require.Equal(t, []any{issue, "@rgpt do it"}, []any{e.Subject, e.Comment.Body})
	for _, state := range []string{"closed", "open"} {
		s.Do(t, s.Owner, http.MethodPatch, fmt.Sprintf("/repos/%s/issues/%d", h.repo, issue.Number), map[string]any{"state": state}, nil)
		kind := map[string]webhook.Kind{"closed": webhook.Closed, "open": webhook.Reopened}[state]
		e = h.next(t, "issue_"+string(kind), "issues", kind)
		require.Equal(t, issue, e.Subject)
	}

	_, err = svc.UpdatePullRequest(t.Context(), h.repo, pull.Number, forge.PullRequestChange{State: ptr(forge.Closed)})
	require.NoError(t, err)
	h.next(t, "pull_request_closed", "pull_request", webhook.Closed)
	_, err = svc.UpdatePullRequest(t.Context(), h.repo, pull.Number, forge.PullRequestChange{State: ptr(forge.Open)})
	require.NoError(t, err)
	h.next(t, "pull_request_reopened", "pull_request", webhook.Reopened)
	_, err = merge(t, svc, h.repo, pull.Number, forge.Merge{Method: forge.MergeCommit, HeadCommit: head})
	require.NoError(t, err)
	e = h.next(t, "pull_request_merged", "pull_request", webhook.Merged)
	require.Equal(t, pull, e.Subject)
	require.NoError(t, svc.DeleteBranch(t.Context(), h.repo, "rgpt/run-1"))

	last := h.Await(t, "any delivery", patience, func(gitea.Delivery) bool { return true })
	_, err = webhook.Parse(forge.Gitea, last.Header, last.Body, "another secret")
	require.True(t, fault.Is(err, contract.CodeUnauthorized), "%v", err)
}
