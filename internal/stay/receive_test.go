package stay_test

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/internal/config"
	"github.com/rocketgpt/orchestrator/internal/forge"
	"github.com/rocketgpt/orchestrator/internal/forge/webhook"
	"github.com/rocketgpt/orchestrator/internal/stay"
	"github.com/rocketgpt/orchestrator/internal/store/forgeevents"
	"github.com/rocketgpt/orchestrator/internal/storetest"
)

const hookSecret = "a-secret-of-the-forge"

// hooked is a service with forges of all kinds, at an address.
func hooked(t *testing.T, w *world, poll time.Duration) (string, *stay.Service) {
	t.Helper()
	s := w.service(func(o *stay.Options) {
		o.Getenv = func(name string) string { return map[string]string{"HOOK": hookSecret}[name] }
		of := func(kind string) config.Forge {
			return config.Forge{Kind: kind, WebhookSecretEnv: "HOOK", Poll: poll, PollLimit: 100_000}
		}
		o.Settings = map[string]config.Forge{"work": of("github"), "tea": of("gitea"), "lab": of("gitlab"), "mute": {Kind: "github"}}
	})
	mux := http.NewServeMux()
	mux.HandleFunc("POST /hooks/{forge}", s.Receive)
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	return server.URL, s
}

// hook is a webhook to be sent.
type hook struct {
	to, event, delivery, body, secret string
}

// post sends a webhook as its forge does, and returns the status.
func (h hook) post(t testing.TB, address string) (int, string) {
	t.Helper()
	return h.within(t, address, time.Minute)
}

// within is post with a time limit.
func (h hook) within(t testing.TB, address string, most time.Duration) (int, string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), most)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, address+"/hooks/"+h.to, strings.NewReader(h.body))
	require.NoError(t, err)
	mac := hmac.New(sha256.New, []byte(h.secret))
	mac.Write([]byte(h.body))
	sum := hex.EncodeToString(mac.Sum(nil))
	r.Header.Set("Content-Type", "application/json")
	for name, value := range map[string]string{
		"X-GitHub-Event": h.event, "X-GitHub-Delivery": h.delivery, "X-Hub-Signature-256": "sha256=" + sum,
		"X-Gitea-Event": h.event, "X-Gitea-Delivery": h.delivery, "X-Gitea-Signature": sum,
		"X-Gitlab-Event": h.event, "Idempotency-Key": h.delivery, "X-Gitlab-Token": h.secret,
	} {
		r.Header.Set(name, value)
	}
	answer, err := http.DefaultClient.Do(r)
	require.NoError(t, err)
	defer answer.Body.Close()
	var text bytes.Buffer
	_, err = text.ReadFrom(answer.Body)
	require.NoError(t, err)
	return answer.StatusCode, text.String()
}

// commentHook is the webhook about a comment on a pull request.
func commentHook(id int, number int64, delivery string) hook {
	return hook{to: "work", event: "issue_comment", delivery: delivery, secret: hookSecret, body: fmt.Sprintf(
		`{"action":"created","repository":{"full_name":%q},"sender":{"login":"ann"},"issue":{"number":%d,"pull_request":{}},"comment":{"id":%d,"body":"FORGED TEXT","user":{"login":"ann"},"updated_at":"2026-11-27T00:00:00Z"}}`,
		repo, number, id)}
}

func (w *world) count(t *testing.T, table string) (n int) {
	t.Helper()
	storetest.Query(t, w.URL, func(ctx context.Context, conn *pgx.Conn) {
		require.NoError(t, conn.QueryRow(ctx, "SELECT count(*) FROM "+table).Scan(&n))
	})
	return n
}

func TestAForgedWebhookIsNotFoundAndChangesNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.opens(t, 7)
	address, _ := hooked(t, w, 0)
	good := commentHook(1, 7, "delivery-1")
	for name, change := range map[string]func(*hook){
		"another secret":       func(h *hook) { h.secret = "guessed" },
		"no secret":            func(h *hook) { h.secret = "" },
		"unknown forge":        func(h *hook) { h.to = "nowhere" },
		"forge without secret": func(h *hook) { h.to, h.secret = "mute", "" },
	} {
		bad := good
		change(&bad)
		status, text := bad.post(t, address)
		require.Equal(t, http.StatusNotFound, status, name)
		require.Empty(t, text, name)
	}
	huge := good
	huge.body = `{"pad":"` + strings.Repeat("x", stay.MaxHook) + `"}`
	status, _ := huge.post(t, address)
	require.Equal(t, http.StatusRequestEntityTooLarge, status)
	broken := good
	broken.body = "{"
	status, text := broken.post(t, address)
	require.Equal(t, http.StatusBadRequest, status)
	require.NotEmpty(t, text, "the forge is told why")
	require.Zero(t, w.count(t, "orchestrator_forge_deliveries"))
}

func TestWebhooksOfAllForgesAskForALook(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	address, _ := hooked(t, w, 0)
	for _, h := range []hook{
		commentHook(1, 7, "delivery-1"),
		{to: "work", event: "check_run", delivery: "delivery-2", body: `{"action":"completed","repository":{"full_name":"team/app"},"check_run":{"id":5,"name":"ci","head_sha":"` + strings.Repeat("a", 40) + `","status":"completed","conclusion":"failure"}}`},
		{to: "tea", event: "pull_request", delivery: "delivery-3", body: `{"action":"closed","repository":{"full_name":"team/app"},"pull_request":{"number":7,"merged":true}}`},
		{to: "lab", event: "Note Hook", delivery: "delivery-4", body: `{"object_kind":"note","project":{"path_with_namespace":"team/app"},"user":{"username":"ann"},"object_attributes":{"id":9,"note":"hi","noteable_type":"MergeRequest"},"merge_request":{"iid":7}}`}, //nolint:misspell // GitLab calls it so
	} {
		h.secret = hookSecret
		status, text := h.post(t, address)
		require.Equal(t, http.StatusAccepted, status, "%s: %s", h.event, text)
	}
	require.Equal(t, 4, w.count(t, "orchestrator_forge_deliveries"))
	status, _ := hook{to: "work", event: "star", delivery: "delivery-5", body: `{}`, secret: hookSecret}.post(t, address)
	require.Equal(t, http.StatusAccepted, status)
	require.Equal(t, 4, w.count(t, "orchestrator_forge_deliveries"), "a star is of no interest")
}

func TestStatusesOfGiteaOnTheSameCommitAreDifferentDeliveries(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	address, _ := hooked(t, w, 0)
	for i, context := range []string{"ci/unit", "ci/lint"} {
		status, text := hook{
			to: "tea", event: "status", delivery: fmt.Sprint("delivery-", i), secret: hookSecret,
			body: fmt.Sprintf(`{"id":%d,"sha":%q,"state":"failure","context":%q,"repository":{"full_name":"team/app"}}`, i, strings.Repeat("a", 40), context),
		}.post(t, address)
		require.Equal(t, http.StatusAccepted, status, text)
	}
	require.Equal(t, 2, w.count(t, "orchestrator_forge_deliveries"))
}

// p95 returns the time within which 95 % of the webhooks were answered.
func p95(times []time.Duration) time.Duration {
	slices.Sort(times)
	return times[len(times)*95/100]
}

func TestStrangersThatSendSlowlyDoNotKeepWebhooksOut(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.opens(t, 7)
	address, _ := hooked(t, w, 0)
	for i := range 400 {
		connection, err := net.Dial("tcp", strings.TrimPrefix(address, "http://"))
		require.NoError(t, err)
		t.Cleanup(func() { _ = connection.Close() })
		size := 100
		if i%2 == 0 {
			size = stay.MaxHook
		}
		sent := "{"
		if i%20 == 0 {
			sent += strings.Repeat(" ", 100<<10)
		}
		_, err = fmt.Fprintf(connection, "POST /hooks/work HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s", size, sent)
		require.NoError(t, err)
	}
	large := commentHook(2, 7, "delivery-2")
	large.body = strings.Replace(large.body, "FORGED TEXT", strings.Repeat("x", 100<<10), 1)
	for _, h := range []hook{commentHook(1, 7, "delivery-1"), large} {
		// A stranger's webhook may take ten seconds.
		status, text := h.within(t, address, 5*time.Second)
		require.Equal(t, http.StatusAccepted, status, text)
	}
	require.Equal(t, 2, w.count(t, "orchestrator_forge_deliveries"))
}

func TestAThousandWebhooksDuplicatedReorderedForgedAndHugeHaveTheEffectOfWhatHappened(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	address, s := hooked(t, w, 0) // nothing is polled
	const comments, copies, forged, huge, prs = 100, 8, 190, 10, 5
	for n := range int64(prs) {
		w.opens(t, n+1)
	}
	w.serves(t, s)
	for n := range int64(prs) { // the looks after the release
		eventually(t, func() bool { w.mu.Lock(); defer w.mu.Unlock(); return w.looks[n+1] > 0 }, "pull request %d was looked at", n+1)
	}
	var hooks []hook
	for i := range comments {
		number := int64(i%prs) + 1
		w.says(number, forge.Comment{ID: fmt.Sprint(i), Author: "ann", Body: "rename it", Path: "a.go", Line: i + 1})
		for c := range copies {
			delivery := fmt.Sprintf("delivery-%d-%d", i, c%2) // half of them are repeated deliveries
			hooks = append(hooks, commentHook(i, number, delivery))
		}
	}
	for i := range forged {
		h := commentHook(1000+i, 1, fmt.Sprintf("forged-%d", i))
		h.secret = "guessed"
		hooks = append(hooks, h)
	}
	for i := range huge {
		h := commentHook(2000+i, 1, fmt.Sprintf("huge-%d", i))
		h.body = strings.Replace(h.body, "FORGED TEXT", strings.Repeat("x", stay.MaxHook), 1)
		hooks = append(hooks, h)
	}
	require.Len(t, hooks, 1000)
	rand.Shuffle(len(hooks), func(i, j int) { hooks[i], hooks[j] = hooks[j], hooks[i] })
	var all sync.WaitGroup
	var mu sync.Mutex
	statuses := map[int]int{}
	var times []time.Duration
	for i := range 8 {
		all.Go(func() {
			for j := i; j < len(hooks); j += 8 {
				began := time.Now()
				status, _ := hooks[j].post(t, address)
				took := time.Since(began)
				mu.Lock()
				if statuses[status]++; status == http.StatusAccepted {
					times = append(times, took)
				}
				mu.Unlock()
			}
		})
	}
	all.Wait()
	require.Equal(t, map[int]int{http.StatusAccepted: 800, http.StatusNotFound: forged, http.StatusRequestEntityTooLarge: huge}, statuses)
	require.Equal(t, comments, w.count(t, "orchestrator_forge_deliveries"), "one for each thing that happened")
	for n := range int64(prs) {
		for _, e := range w.events(t, n+1, comments/prs) {
			require.Equal(t, forgeevents.Sent, e.State)
		}
	}
	sent := w.messages()
	require.Len(t, sent, comments)
	for _, m := range sent {
		require.Equal(t, "rename it", m.Details, "what the forge says, not what the webhook says")
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	looks := 0
	for _, n := range w.looks {
		looks += n
	}
	require.Less(t, looks, 10*prs+comments, "webhooks of one pull request share looks")
	t.Logf("%d webhooks, %d stored, %d messages, %d looks; 95%% were accepted within %s", len(hooks), comments, len(sent), looks, p95(times))
}

func TestAWebhookReachesTheTriggersWhateverItConcerns(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.opens(t, 7)
	address, s := hooked(t, w, 0)
	var asked []string
	var fails error
	s.Ask = func(_ context.Context, name string, e webhook.Event) (bool, error) {
		asked = append(asked, fmt.Sprintf("%s %s %s", name, e.Kind, e.Subject))
		return !e.Subject.PullRequest, fails
	}
	onIssue := commentHook(2, 8, "delivery-2")
	onIssue.body = strings.Replace(onIssue.body, `,"pull_request":{}`, "", 1)
	for _, h := range []hook{commentHook(1, 7, "delivery-1"), onIssue} {
		status, _ := h.post(t, address)
		require.Equal(t, http.StatusAccepted, status)
	}
	require.Equal(t, []string{"work comment pull request 7", "work comment issue 8"}, asked)
	require.Equal(t, 1, w.count(t, "orchestrator_forge_deliveries"), "that about the pull request")
	fails = errors.New("the database is away")
	status, text := onIssue.post(t, address)
	require.Equal(t, http.StatusServiceUnavailable, status, "the forge sends it again")
	require.Empty(t, text)
	forged := onIssue
	forged.secret = "guessed"
	_, _ = forged.post(t, address)
	require.Len(t, asked, 3, "a forged one reaches nobody")
}
