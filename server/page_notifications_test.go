package server_test

import (
	"crypto/ecdh"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/await"
	"github.com/rocketgpt/orchestrator/internal/config"
	"github.com/rocketgpt/orchestrator/internal/notify"
	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/internal/store/notifications"
	"github.com/rocketgpt/orchestrator/server"
)

// withChannels is setup with a channel for browsers and one for e-mail.
func withChannels(tb testing.TB) *fixture {
	tb.Helper()
	key, err := ecdh.P256().GenerateKey(rand.Reader)
	require.NoError(tb, err)
	return setup(tb, func(o *server.Options) {
		o.Notifier = notify.New(notify.Options{
			Store: o.Store, Webhooks: config.Default().Server.Webhooks, Getenv: func(string) string { return base64.RawURLEncoding.EncodeToString(key.Bytes()) },
			Channels: map[string]config.Notification{
				"browsers": {Kind: config.ChannelPush, KeyEnv: "KEY", MaxBrowsers: 10, PerPerson: 2, Timeout: time.Second, On: []string{config.NotifyWaits, config.NotifyFailed}},
				"team":     {Kind: config.ChannelEmail, Host: "127.0.0.1", Port: 1, Timeout: time.Second, Creators: []string{"ada"}},
			},
		})
	})
}

// keptEndpoint is the endpoint of a browser.
const keptEndpoint = "https://fcm.googleapis.com/fcm/send/kept"

// browserOf returns the ID of the browser with an endpoint.
func browserOf(endpoint string) string {
	sum := sha256.Sum256([]byte(endpoint))
	return hex.EncodeToString(sum[:16])
}

// subscription is what a browser sends to the server.
func (b *fixture) subscription(t *testing.T, endpoint string) map[string]any {
	t.Helper()
	var list struct {
		Channel string `json:"channel"`
		Key     string `json:"server_key"`
	}
	require.NoError(t, json.Unmarshal(b.get(t, "/api/browsers").Body.Bytes(), &list))
	require.Equal(t, "browsers", list.Channel)
	key, err := ecdh.P256().GenerateKey(rand.Reader)
	require.NoError(t, err)
	return map[string]any{
		"endpoint": endpoint, "server_key": list.Key, "browser": "Firefox on Linux", "by": "ada",
		"keys": map[string]string{"p256dh": base64.RawURLEncoding.EncodeToString(key.PublicKey().Bytes()), "auth": base64.RawURLEncoding.EncodeToString(make([]byte, 16))},
	}
}

// subscribe subscribes a browser by the API, and returns the status.
func (b *fixture) subscribe(t *testing.T, body map[string]any) (browser notifications.Browser, status int, text string) {
	t.Helper()
	raw, err := json.Marshal(body)
	require.NoError(t, err)
	w := b.send(t, http.MethodPost, "/api/browsers", string(raw))
	if w.Code < 300 {
		require.NoError(t, json.Unmarshal(w.Body.Bytes(), &browser))
	}
	return browser, w.Code, w.Body.String()
}

// notified stores a notification of a failed run with an outcome, whose reason is a text.
func (b *fixture) notified(t *testing.T, channel string, state notifications.State, reason string) notifications.Notification {
	t.Helper()
	require.NoError(t, notifications.Add(t.Context(), b.Store, channel))
	run, _, err := b.CreateRun(t.Context(), store.NewRun{Project: "app", GoalTitle: "x", Settings: contract.Settings{Repo: contract.Repo{URL: "/r", Base: "c", Tree: "t"}}})
	require.NoError(t, err)
	_, err = b.Record(t.Context(), store.Source{WorkflowID: contract.RunWorkflowID(run.ID), WorkflowRunID: "first"}, contract.Record{
		RunID: run.ID, Seq: 1, Events: []contract.EventDraft{{Type: contract.EventRunFailed, Payload: map[string]string{}}},
	})
	require.NoError(t, err)
	var found []notifications.Notification
	await.Until(t, "a notification", func() bool { // transactions of other tests may still be open
		_, _, err := notifications.Queue(t.Context(), b.Store, notifications.Channel{Name: channel, Kinds: config.NotifyKinds()}, time.Now(), time.Time{})
		require.NoError(t, err)
		found, err = notifications.Find(t.Context(), b.Store, notifications.Filter{Channel: channel, State: notifications.Pending})
		require.NoError(t, err)
		return len(found) == 1
	})
	require.NoError(t, notifications.Compose(t.Context(), b.Store, []int64{found[0].ID}, time.Now()))
	m, err := notifications.Begin(t.Context(), b.Store, found[0].ID)
	require.NoError(t, err)
	require.NoError(t, notifications.End(t.Context(), b.Store, notifications.Outcome{Message: m.ID, Attempt: m.Attempt, State: state, Reason: reason, At: time.Now(), Next: time.Now().Add(time.Hour)}))
	return found[0]
}

func TestABrowserSubscribesChangesItsChoiceAndIsRemovedByTheAPI(t *testing.T) {
	t.Parallel()
	b := withChannels(t)
	endpoint := "https://fcm.googleapis.com/fcm/send/abc"
	body := b.subscription(t, endpoint)
	one, status, text := b.subscribe(t, body)
	require.Equal(t, http.StatusOK, status, text)
	require.Equal(t, browserOf(endpoint), one.ID, "pages compute it, too")
	require.NotContains(t, text, "send/abc")
	require.NotContains(t, b.get(t, "/api/browsers").Body.String(), "send/abc", "the endpoint is a secret")
	body["on"], body["mine"], body["quiet"] = []string{"waits"}, true, map[string]string{"from": "22:00", "to": "07:00", "zone": "Europe/Berlin"}
	same, _, _ := b.subscribe(t, body)
	require.Equal(t, one.ID, same.ID)
	require.Equal(t, []string{"waits"}, same.On)
	require.Equal(t, "Europe/Berlin", same.Quiet.Zone)
	for problem, change := range map[string]map[string]any{
		"not a push service": {"endpoint": "https://evil.example/x"}, "https URL": {"endpoint": "http://fcm.googleapis.com/x"}, "another key": {"server_key": "x"}, "expected": {"on": []string{"everything"}},
	} {
		wrong := b.subscription(t, endpoint)
		for k, v := range change {
			wrong[k] = v
		}
		_, status, text := b.subscribe(t, wrong)
		require.Contains(t, []int{http.StatusConflict, http.StatusUnprocessableEntity}, status, text)
		require.Contains(t, text, problem)
	}
	client, _ := clientOf(t, b.handler, quietly)
	list, err := client.Browsers(t.Context())
	require.NoError(t, err)
	require.Len(t, list, 1)
	require.Equal(t, "ada", list[0].By)
	require.NoError(t, client.RemoveBrowser(t.Context(), one.ID, "bob"))
	require.ErrorContains(t, client.RemoveBrowser(t.Context(), one.ID, "bob"), "not subscribed")
	require.Equal(t, http.StatusNotFound, b.get(t, "/api/browsers/"+one.ID).Code)

	none := setup(t)
	require.JSONEq(t, `{"browsers": []}`, none.get(t, "/api/browsers").Body.String())
	_, status, text = none.subscribe(t, body)
	require.Equal(t, http.StatusConflict, status, text)
}

func TestThePageOfNotificationsShowsTheirStatesAndSendsAgain(t *testing.T) {
	t.Parallel()
	b := withChannels(t)
	_, text := b.page(t, "/notifications")
	require.Contains(t, text, "Nobody has been notified yet")
	failed := b.notified(t, "team", notifications.Failed, "the mailbox is <b>full</b>")
	b.notified(t, "team", notifications.Sent, "")
	b.notified(t, "team", notifications.Pending, "no response within 30s")
	_, status, text := b.subscribe(t, b.subscription(t, "https://fcm.googleapis.com/fcm/send/abc"))
	require.Equal(t, http.StatusOK, status, text)
	page, text := b.page(t, "/notifications")
	for _, want := range []string{"the mailbox is <b>full</b>", "Failed", "Sent", "Pending", "no response within 30s", "Firefox on Linux", "only of runs of ada", "waits, failed", "Notify me in this browser"} {
		require.Contains(t, text, want)
	}
	require.NotContains(t, text, "send/abc")
	require.Equal(t, []string{"test", "test", "remove", "resend"}, attributes(page, "data-command"))
	_, text = b.page(t, "/notifications?state=failed&channel=team")
	require.Contains(t, text, "the mailbox is")
	require.NotContains(t, text, "no response within")
	_, text = b.page(t, "/notifications?channel=gone")
	require.Contains(t, text, "No matching notifications")
	for _, bad := range []string{"/notifications?state=lost", "/notifications?before=x"} {
		require.Equal(t, http.StatusBadRequest, b.get(t, bad).Code, bad)
	}

	resend := fmt.Sprintf("/api/notifications/%d/resend", failed.ID)
	w := b.send(t, http.MethodPost, resend, `{"by": "ann"}`)
	require.Equal(t, http.StatusAccepted, w.Code, w.Body)
	require.Contains(t, w.Body.String(), `"state":"pending"`)
	w = b.send(t, http.MethodPost, resend, `{}`)
	require.Equal(t, http.StatusConflict, w.Code, w.Body)
	require.Contains(t, w.Body.String(), "is pending")
	require.Equal(t, http.StatusNotFound, b.send(t, http.MethodPost, "/api/notifications/999/resend", `{}`).Code)
	client, _ := clientOf(t, b.handler, quietly)
	_, err := client.ResendNotification(t.Context(), failed.ID, "ann")
	require.ErrorContains(t, err, "only one that failed or was dropped")
}

func TestThePageWithoutChannelsSaysHowToAddOne(t *testing.T) {
	t.Parallel()
	b := setup(t)
	page, text := b.page(t, "/notifications")
	require.Contains(t, text, "url_env: SLACK_WEBHOOK")
	require.NotContains(t, text, "Notify me in this browser")
	require.Empty(t, attributes(page, "data-command"))
}

func TestTheServiceWorkerComesFromTheRootAndIsNeverCached(t *testing.T) {
	t.Parallel()
	b := setup(t)
	w := b.get(t, "/push-worker.js")
	require.Equal(t, http.StatusOK, w.Code)
	require.True(t, strings.HasPrefix(w.Header().Get("Content-Type"), "text/javascript"), w.Header())
	require.Equal(t, "no-store", w.Header().Get("Cache-Control"))
	require.Contains(t, w.Header().Get("Content-Security-Policy"), "script-src 'self'")
	require.Contains(t, w.Body.String(), "notificationclick")
	require.Equal(t, http.StatusMethodNotAllowed, b.ask(t, http.MethodPost, "/push-worker.js").Code)
}
