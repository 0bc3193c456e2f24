package webhook_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/await"
	"github.com/rocketgpt/orchestrator/internal/config"
	"github.com/rocketgpt/orchestrator/internal/fault"
	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/internal/store/feed"
	"github.com/rocketgpt/orchestrator/internal/storetest"
	"github.com/rocketgpt/orchestrator/internal/webhook"
)

// senderOf is the variable that makes this program a server's loop instead of a test:
// the address of its database.
const senderOf = "RGPT_TEST_SENDER_OF"

func TestMain(m *testing.M) {
	if address := os.Getenv(senderOf); address != "" {
		st, err := store.Open(context.Background(), address, store.Options{})
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		webhook.New(st, feed.New(st, feed.Options{}), settings(), slog.Default()).Run(context.Background()) // until it is killed
	}
	await.RunsManyAtOnce()
	goleak.VerifyTestMain(storetest.Main(m))
}

// settings make retries fast, and let them reach receivers on this host.
func settings() config.Webhooks {
	s := config.Default().Server.Webhooks
	s.AllowPrivate, s.Timeout, s.FirstWait, s.LongestWait = true, 2*time.Second, 20*time.Millisecond, time.Minute
	return s
}

// hookFixture is a database with a run, and what sends its events.
type hookFixture struct {
	*store.Store
	feed  *feed.Feed
	hooks *webhook.Hooks
	run   int64
	seq   int64
}

func setup(tb testing.TB, change ...func(*config.Webhooks)) *hookFixture {
	tb.Helper()
	return over(tb, storetest.New(tb), change...)
}

func over(tb testing.TB, st *store.Store, change ...func(*config.Webhooks)) *hookFixture {
	tb.Helper()
	s := settings()
	for _, c := range change {
		c(&s)
	}
	b := &hookFixture{Store: st, feed: storetest.Feed(tb, st, feed.Options{})}
	b.hooks = webhook.New(st, b.feed, s, slog.New(slog.DiscardHandler))
	run, _, err := st.CreateRun(tb.Context(), store.NewRun{Project: "app", GoalTitle: "x", Settings: contract.Settings{Repo: contract.Repo{URL: "/r", Base: "c", Tree: "t"}}})
	require.NoError(tb, err)
	b.run = run.ID
	return b
}

// start runs a loop until the test ends, or the returned function is called.
func (b *hookFixture) start(tb testing.TB) func() {
	tb.Helper()
	ctx, cancel := context.WithCancel(tb.Context())
	done := make(chan struct{})
	go func() { defer close(done); b.hooks.Run(ctx) }()
	stop := sync.OnceFunc(func() { cancel(); <-done })
	tb.Cleanup(stop)
	return stop
}

// events adds events of the run.
func (b *hookFixture) events(tb testing.TB, types ...contract.EventType) {
	tb.Helper()
	b.seq++
	r := contract.Record{RunID: b.run, Seq: b.seq}
	for _, t := range types {
		r.Events = append(r.Events, contract.EventDraft{Type: t, Payload: map[string]string{"text": "a & b"}})
	}
	_, err := b.Record(tb.Context(), store.Source{WorkflowID: contract.RunWorkflowID(b.run), WorkflowRunID: "first"}, r)
	require.NoError(tb, err)
}

func (b *hookFixture) register(tb testing.TB, r webhook.Registration) webhook.Created {
	tb.Helper()
	made, err := b.hooks.Register(tb.Context(), r)
	require.NoError(tb, err)
	return made
}

// all returns all deliveries of a webhook, oldest first.
func (b *hookFixture) all(tb testing.TB, id int64) []store.Delivery {
	tb.Helper()
	var out []store.Delivery
	var before int64
	for {
		page, err := b.Deliveries(tb.Context(), id, store.DeliveryFilter{Before: before, Limit: 500})
		require.NoError(tb, err)
		if len(page) == 0 {
			return out
		}
		for _, d := range page {
			out = append([]store.Delivery{d}, out...)
		}
		before = page[len(page)-1].ID
	}
}

// received is a request as a receiver got it.
type received struct {
	header http.Header
	body   []byte
	at     time.Time
}

func (r received) id() string { return r.header.Get("webhook-id") }

// receiver takes requests, and answers each as configured.
type receiver struct {
	*httptest.Server
	mu  sync.Mutex
	got []received
}

func newReceiver(tb testing.TB, answer func(n int, w http.ResponseWriter, r *http.Request)) *receiver {
	tb.Helper()
	rec := &receiver{}
	rec.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		rec.mu.Lock()
		rec.got = append(rec.got, received{r.Header.Clone(), body, time.Now()})
		n := len(rec.got)
		rec.mu.Unlock()
		if answer != nil {
			answer(n, w, r)
		}
	}))
	tb.Cleanup(func() { rec.CloseClientConnections(); rec.Close() })
	return rec
}

func (r *receiver) all() []received {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]received(nil), r.got...)
}

func (r *receiver) ids() map[string]int {
	out := map[string]int{}
	for _, got := range r.all() {
		out[got.id()]++
	}
	return out
}

func TestAnEventArrivesAsASignedCloudEvent(t *testing.T) {
	t.Parallel()
	b, rec := setup(t), newReceiver(t, nil)
	b.start(t)
	made := b.register(t, webhook.Registration{URL: rec.URL + "/hook?x=1", Events: []string{"run.*"}})
	b.events(t, contract.EventRunUpdated, contract.EventHealStarted)
	await.Until(t, "the event", func() bool { return len(rec.all()) == 1 })
	got := rec.all()[0]
	events, err := b.Events(t.Context(), b.run, 1, 1)
	require.NoError(t, err)
	var message struct {
		webhook.Envelope
		Data contract.Event `json:"data"`
	}
	require.NoError(t, json.Unmarshal(got.body, &message))
	require.Equal(t, "1.0", message.SpecVersion)
	require.Equal(t, fmt.Sprintf("run-%d/2", b.run), message.ID)
	require.Equal(t, "/rgpt", message.Source)
	require.Equal(t, "rgpt.run.updated", message.Type)
	require.Equal(t, fmt.Sprintf("run-%d", b.run), message.Subject)
	require.Equal(t, "application/json", message.DataContentType)
	require.True(t, message.Time.Equal(events[0].CreatedAt))
	want, err := json.Marshal(events[0])
	require.NoError(t, err)
	data, err := json.Marshal(message.Data)
	require.NoError(t, err)
	require.JSONEq(t, string(want), string(data), "as streams have it")
	require.Equal(t, "application/cloudevents+json", got.header.Get("Content-Type"))
	require.Equal(t, message.ID, got.id())

	// Checked with the library that receivers use.
	verifier, err := standardwebhooks.NewWebhook(made.Secret.Reveal())
	require.NoError(t, err)
	require.NoError(t, verifier.Verify(got.body, got.header))
	forged := append([]byte(nil), got.body...)
	forged[len(forged)/2] ^= 1
	require.Error(t, verifier.Verify(forged, got.header))
	other, err := standardwebhooks.NewWebhook("whsec_" + strings.Repeat("QUJD", 8))
	require.NoError(t, err)
	require.Error(t, other.Verify(got.body, got.header))
}

func TestAWebhookGetsWhatItAskedForAndNothingFromBefore(t *testing.T) {
	t.Parallel()
	b := setup(t)
	rec := newReceiver(t, nil)
	b.events(t, contract.EventRunUpdated) // before anybody registered
	ids := map[string]int64{}
	for name, r := range map[string]webhook.Registration{
		"all":     {},
		"star":    {Events: []string{"run.failed", "*"}},
		"exact":   {Events: []string{"heal.failed"}},
		"ends":    {Events: []string{"*.failed"}},
		"begins":  {Events: []string{"run.*", "heal.started"}},
		"project": {Project: "app"},
		"other":   {Project: "another"},
		"no_wild": {Events: []string{"run_created"}},
		"off":     {Disabled: true},
	} {
		r.URL = rec.URL
		ids[name] = b.register(t, r).Webhook.ID
	}
	b.events(t, contract.EventRunUpdated, contract.EventRunFailed, contract.EventHealFailed, contract.EventHealStarted, "runXfailed")
	b.start(t)
	all := []string{"run.updated", "run.failed", "heal.failed", "heal.started", "runXfailed"}
	for name, want := range map[string][]string{
		"all": all, "star": all, "project": all, "other": nil, "off": nil, "no_wild": nil,
		"exact": {"heal.failed"}, "ends": {"run.failed", "heal.failed"}, "begins": {"run.updated", "run.failed", "heal.started"},
	} {
		await.Until(t, name, func() bool { return len(b.all(t, ids[name])) == len(want) })
		var got []string
		for _, d := range b.all(t, ids[name]) {
			got = append(got, d.EventType)
		}
		require.Equal(t, want, got, name)
	}
}

func TestWhatIsRegisteredIsChecked(t *testing.T) {
	t.Parallel()
	b := setup(t, func(s *config.Webhooks) { s.AllowPrivate, s.Max = false, 1 })
	for name, r := range map[string]webhook.Registration{
		"no URL":         {},
		"no scheme":      {URL: "example.com"},
		"a file":         {URL: "file:///etc/passwd"},
		"no host":        {URL: "http:///x"},
		"a password":     {URL: "https://user:password@example.com"},
		"a fragment":     {URL: "https://example.com/#x"},
		"not UTF-8":      {URL: "https://example.com/\xff"},
		"NUL":            {URL: "https://example.com", Description: "a\x00b"},
		"too long":       {URL: "https://example.com", Description: strings.Repeat("x", 1001)},
		"loopback":       {URL: "http://127.0.0.1:80"},
		"loopback 6":     {URL: "http://[::1]/"},
		"mapped":         {URL: "http://[::ffff:10.0.0.1]/"},
		"private":        {URL: "http://192.168.1.1"},
		"link-local":     {URL: "http://169.254.169.254/latest/meta-data"},
		"nowhere":        {URL: "http://0.0.0.0"},
		"a bad pattern":  {URL: "https://example.com", Events: []string{"run.%"}},
		"an empty one":   {URL: "https://example.com", Events: []string{""}},
		"many patterns":  {URL: "https://example.com", Events: make([]string, 51)},
		"a weak secret":  {URL: "https://example.com", Secret: "whsec_QUJD"},
		"another secret": {URL: "https://example.com", Secret: "hunter2hunter2hunter2hunter2hunter2"},
	} {
		_, err := b.hooks.Register(t.Context(), r)
		require.Error(t, err, name)
		require.Equal(t, contract.ClassHuman, fault.Of(err).Class, "%s: %v", name, err)
		require.NotContains(t, err.Error(), "hunter2")
	}
	list, err := b.Webhooks(t.Context())
	require.NoError(t, err)
	require.Empty(t, list)
	b.register(t, webhook.Registration{URL: "https://example.com"})
	_, err = b.hooks.Register(t.Context(), webhook.Registration{URL: "https://example.com"})
	require.ErrorContains(t, err, "max_webhooks")
}

func TestTheSameKeyMakesOneWebhook(t *testing.T) {
	t.Parallel()
	b := setup(t)
	r := webhook.Registration{URL: "https://example.com", Key: "k"}
	first, again := b.register(t, r), b.register(t, r)
	require.True(t, first.Fresh)
	require.False(t, again.Fresh)
	require.Equal(t, first.Webhook, again.Webhook)
	require.Equal(t, first.Secret.Reveal(), again.Secret.Reveal(), "whoever did not get the answer gets it now")
	r.URL = "https://example.org"
	_, err := b.hooks.Register(t.Context(), r)
	require.Equal(t, store.CodeConflict, fault.Of(err).Code)
}

func TestASecretIsShownNowhereElse(t *testing.T) {
	t.Parallel()
	b, rec := setup(t), newReceiver(t, nil)
	made := b.register(t, webhook.Registration{URL: rec.URL})
	plain := made.Secret.Reveal()
	_, err := b.hooks.Test(t.Context(), made.Webhook.ID, "")
	require.NoError(t, err)
	require.Len(t, rec.all(), 1)
	raw, err := json.Marshal([]any{made, b.all(t, made.Webhook.ID)})
	require.NoError(t, err)
	for _, shown := range []string{string(raw), fmt.Sprintf("%v %+v %#v %s", made, made, made, made.Secret), string(rec.all()[0].body), fmt.Sprint(rec.all()[0].header)} {
		require.NotContains(t, shown, plain)
	}
	var log strings.Builder
	slog.New(slog.NewJSONHandler(&log, nil)).Info("x", "made", made, "secret", made.Secret)
	require.NotContains(t, log.String(), plain)
}

func TestAReceiverThatFailsIsTriedAgainUntilItTakesTheEvent(t *testing.T) {
	t.Parallel()
	b := setup(t)
	rec := newReceiver(t, func(n int, w http.ResponseWriter, _ *http.Request) {
		if n <= 3 {
			w.WriteHeader(http.StatusInternalServerError)
		}
	})
	id := b.register(t, webhook.Registration{URL: rec.URL}).Webhook.ID
	b.start(t)
	b.events(t, contract.EventRunUpdated)
	await.Until(t, "success", func() bool {
		all := b.all(t, id)
		return len(all) == 1 && all[0].Status == store.DeliveryDelivered
	})
	d := b.all(t, id)[0]
	require.Len(t, rec.all(), 4)
	require.Equal(t, map[string]int{d.Message: 4}, rec.ids(), "the same message each time")
	require.Equal(t, 4, d.Attempts)
	require.Len(t, d.Log, 4)
	for i, a := range d.Log {
		require.Equal(t, i+1, a.Attempt)
		require.NotNil(t, a.FinishedAt)
		if i < 3 {
			require.Equal(t, 500, a.ResponseCode)
			require.Equal(t, "it responded with 500 Internal Server Error", a.Error)
		}
	}
	require.Equal(t, 200, d.ResponseCode)
	require.Empty(t, d.Error)
	require.Nil(t, d.NextTry)
	w, err := b.Webhook(t.Context(), id)
	require.NoError(t, err)
	require.Nil(t, w.FailingSince, "it is well again")
}

func TestAReceiverThatIsDownGetsEverythingWhenItIsUp(t *testing.T) {
	t.Parallel()
	b := setup(t)
	rec := newReceiver(t, nil)
	address := rec.Listener.Addr().String()
	rec.Close()
	id := b.register(t, webhook.Registration{URL: "http://" + address}).Webhook.ID
	stop := b.start(t)
	b.events(t, contract.EventRunUpdated)
	await.Until(t, "two attempts", func() bool {
		all := b.all(t, id)
		return len(all) == 1 && all[0].Attempts >= 2
	})
	require.Contains(t, b.all(t, id)[0].Log[0].Error, "cannot reach it: ")
	w, err := b.Webhook(t.Context(), id)
	require.NoError(t, err)
	require.NotNil(t, w.FailingSince)
	stop()
	b.events(t, contract.EventRunUpdated, contract.EventRunUpdated) // while there is no server
	up := newReceiver(t, nil)
	_, err = b.hooks.Change(t.Context(), id, store.WebhookChange{URL: &up.URL})
	require.NoError(t, err)
	b.start(t)
	await.Until(t, "all three", func() bool { return len(up.ids()) == 3 })
}

func TestRetryAfterIsHonouredWithinBounds(t *testing.T) {
	t.Parallel()
	b := setup(t, func(s *config.Webhooks) { s.LongestWait = 3 * time.Second })
	rec := newReceiver(t, func(n int, w http.ResponseWriter, _ *http.Request) {
		switch n {
		case 1:
			w.Header().Set("Retry-After", "2")
		case 2:
			w.Header().Set("Retry-After", time.Now().Add(24*time.Hour).UTC().Format(http.TimeFormat))
		default:
			return
		}
		w.WriteHeader(http.StatusTooManyRequests)
	})
	b.register(t, webhook.Registration{URL: rec.URL})
	b.start(t)
	b.events(t, contract.EventRunUpdated)
	await.Until(t, "three attempts", func() bool { return len(rec.all()) == 3 })
	got := rec.all()
	require.GreaterOrEqual(t, got[1].at.Sub(got[0].at), 1900*time.Millisecond, "not before it may, though the first wait is 20 ms")
	require.GreaterOrEqual(t, got[2].at.Sub(got[1].at), 2900*time.Millisecond, "a day is cut to the bound, not ignored")
}

func TestARedirectIsNotFollowed(t *testing.T) {
	t.Parallel()
	b, target := setup(t), newReceiver(t, nil)
	rec := newReceiver(t, func(_ int, w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, target.URL, http.StatusTemporaryRedirect)
	})
	id := b.register(t, webhook.Registration{URL: rec.URL}).Webhook.ID
	d, err := b.hooks.Test(t.Context(), id, "")
	require.NoError(t, err)
	require.Equal(t, store.DeliveryFailed, d.Status)
	require.Equal(t, http.StatusTemporaryRedirect, d.ResponseCode)
	require.Contains(t, d.Error, "redirects are not followed")
	require.Empty(t, target.all())
}

func TestAPrivateAddressIsRefusedAlsoBehindAName(t *testing.T) {
	t.Parallel()
	b, rec := setup(t, func(s *config.Webhooks) { s.AllowPrivate = false }), newReceiver(t, nil)
	_, err := b.hooks.Register(t.Context(), webhook.Registration{URL: rec.URL})
	require.ErrorContains(t, err, "allow_private")
	id := b.register(t, webhook.Registration{URL: strings.Replace(rec.URL, "127.0.0.1", "localhost", 1)}).Webhook.ID
	d, err := b.hooks.Test(t.Context(), id, "")
	require.NoError(t, err)
	require.Equal(t, store.DeliveryFailed, d.Status)
	require.Contains(t, d.Error, "allow_private")
	require.Empty(t, rec.all())
}

func TestADeliveryThatNeverArrivesFailsAfterItsLastAttempt(t *testing.T) {
	t.Parallel()
	b := setup(t, func(s *config.Webhooks) { s.Attempts = 3 })
	rec := newReceiver(t, func(_ int, w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadGateway) })
	id := b.register(t, webhook.Registration{URL: rec.URL}).Webhook.ID
	b.start(t)
	b.events(t, contract.EventRunUpdated)
	failed := func() bool {
		all := b.all(t, id)
		return len(all) == 1 && all[0].Status == store.DeliveryFailed
	}
	await.Until(t, "the end", failed)
	d := b.all(t, id)[0]
	require.Equal(t, 3, d.Attempts)
	require.NotNil(t, d.FinishedAt)
	require.Nil(t, d.NextTry)
	// Somebody requests it again: with all attempts, once for a key.
	_, err := b.Redeliver(t.Context(), id, d.ID, "k")
	require.NoError(t, err)
	await.Until(t, "three more", func() bool { return failed() && b.all(t, id)[0].Attempts == 6 })
	again, err := b.Redeliver(t.Context(), id, d.ID, "k")
	require.NoError(t, err)
	require.Equal(t, store.DeliveryFailed, again.Status, "it was asked for by this key already")
	require.Len(t, rec.all(), 6)
}

func TestAWebhookThatFailsForLongIsDisabledAndSaysWhy(t *testing.T) {
	t.Parallel()
	b := setup(t, func(s *config.Webhooks) { s.DisableAfter = 500 * time.Millisecond })
	var well atomic.Bool
	rec := newReceiver(t, func(_ int, w http.ResponseWriter, _ *http.Request) {
		if !well.Load() {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	})
	id := b.register(t, webhook.Registration{URL: rec.URL}).Webhook.ID
	b.start(t)
	b.events(t, contract.EventRunUpdated)
	hook := func() store.Webhook {
		w, err := b.Webhook(t.Context(), id)
		require.NoError(t, err)
		return w
	}
	await.Until(t, "its end", func() bool { return !hook().Enabled })
	require.Contains(t, hook().DisabledReason, "all deliveries have failed for 500ms; last error: it responded with 503")
	require.EqualValues(t, 1, hook().Pending, "what was not delivered waits")
	well.Store(true)
	d, err := b.hooks.Test(t.Context(), id, "")
	require.NoError(t, err)
	require.Equal(t, store.DeliveryDelivered, d.Status, "a disabled one can be tested")
	require.False(t, hook().Enabled)
	on := true
	w, err := b.hooks.Change(t.Context(), id, store.WebhookChange{Enabled: &on})
	require.NoError(t, err)
	require.True(t, w.Enabled)
	require.Empty(t, w.DisabledReason)
	await.Until(t, "what waited", func() bool { return hook().Pending == 0 })
}

func TestAReceiverThatIsGoneIsDisabledAtOnce(t *testing.T) {
	t.Parallel()
	b := setup(t)
	rec := newReceiver(t, func(_ int, w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusGone) })
	id := b.register(t, webhook.Registration{URL: rec.URL}).Webhook.ID
	b.start(t)
	b.events(t, contract.EventRunUpdated)
	await.Until(t, "its end", func() bool {
		w, err := b.Webhook(t.Context(), id)
		require.NoError(t, err)
		return !w.Enabled && strings.Contains(w.DisabledReason, "410")
	})
	require.Len(t, rec.all(), 1)
}

func TestATestByTheSameKeyIsSentOnce(t *testing.T) {
	t.Parallel()
	b, rec := setup(t), newReceiver(t, nil)
	id := b.register(t, webhook.Registration{URL: rec.URL}).Webhook.ID
	first, err := b.hooks.Test(t.Context(), id, "k")
	require.NoError(t, err)
	second, err := b.hooks.Test(t.Context(), id, "k")
	require.NoError(t, err)
	require.Equal(t, first, second)
	require.True(t, first.Test)
	require.Len(t, rec.all(), 1)
	_, err = b.hooks.Test(t.Context(), id, "")
	require.NoError(t, err)
	require.Len(t, rec.all(), 2)
	_, err = b.hooks.Test(t.Context(), 999, "")
	require.ErrorIs(t, err, store.ErrNotFound)
}

func TestWhatAKilledServerLeftIsDeliveredByAnother(t *testing.T) {
	t.Parallel()
	address := storetest.URL(t)
	st, err := store.Open(t.Context(), address, store.Options{})
	require.NoError(t, err)
	defer st.Close()
	b := over(t, st)
	var hang atomic.Bool
	hang.Store(true)
	rec := newReceiver(t, func(_ int, _ http.ResponseWriter, r *http.Request) {
		if hang.Load() {
			<-r.Context().Done() // it has the message, but its sender never learns that
		}
	})
	id := b.register(t, webhook.Registration{URL: rec.URL}).Webhook.ID
	server := exec.CommandContext(t.Context(), os.Args[0])
	server.Env = append(os.Environ(), senderOf+"="+address)
	server.Stderr = os.Stderr
	require.NoError(t, server.Start())
	b.events(t, contract.EventRunUpdated, contract.EventRunUpdated, contract.EventRunUpdated)
	await.Until(t, "a delivery under way", func() bool { return len(rec.all()) > 0 })
	cut := rec.all()[0].id()
	require.NoError(t, server.Process.Kill())
	require.Error(t, server.Wait())
	hang.Store(false)
	b.events(t, contract.EventRunUpdated) // while nothing is running

	b.start(t)
	await.Until(t, "everything", func() bool {
		all := b.all(t, id)
		for _, d := range all {
			if d.Status != store.DeliveryDelivered {
				return false
			}
		}
		return len(all) == 4
	})
	got := rec.ids()
	require.Len(t, got, 4)
	for _, d := range b.all(t, id) {
		require.LessOrEqual(t, got[d.Message], d.Attempts, "nothing was sent that no row knows")
		require.Len(t, d.Log, d.Attempts)
		for _, lost := range d.Log[:d.Attempts-1] {
			require.Equal(t, "the server that sent it stopped; it is unknown whether the request arrived", lost.Error)
		}
		require.Empty(t, d.Log[d.Attempts-1].Error)
		if d.Message == cut {
			require.Equal(t, 2, d.Attempts)
			require.Equal(t, 2, got[cut])
		}
	}
}

func TestTwoServersNeverSendTheSameDeliveryAtTheSameTime(t *testing.T) {
	t.Parallel()
	b := setup(t)
	var mu sync.Mutex
	open, doubled := map[string]int{}, 0
	rec := newReceiver(t, func(n int, w http.ResponseWriter, r *http.Request) {
		id := r.Header.Get("webhook-id")
		mu.Lock()
		if open[id]++; open[id] > 1 {
			doubled++
		}
		mu.Unlock()
		if n%7 == 0 {
			w.WriteHeader(http.StatusInternalServerError)
		}
		mu.Lock()
		open[id]--
		mu.Unlock()
	})
	id := b.register(t, webhook.Registration{URL: rec.URL}).Webhook.ID
	other := &hookFixture{Store: b.Store, hooks: webhook.New(b.Store, b.feed, settings(), slog.New(slog.DiscardHandler))}
	b.start(t)
	other.start(t)
	for range 10 {
		types := make([]contract.EventType, 20)
		for i := range types {
			types[i] = contract.EventRunUpdated
		}
		b.events(t, types...)
	}
	var all []store.Delivery
	await.Until(t, "everything", func() bool {
		w, err := b.Webhook(t.Context(), id)
		require.NoError(t, err)
		return len(rec.ids()) == 200 && w.Pending == 0
	})
	all = b.all(t, id)
	require.Len(t, all, 200)
	require.Zero(t, doubled)
	got := rec.ids()
	for _, d := range all {
		require.Equal(t, store.DeliveryDelivered, d.Status)
		require.Equal(t, got[d.Message], d.Attempts, "each attempt was one request")
	}
}

func TestADeadReceiverDelaysNoOtherReceiver(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("delivers thousands of events")
	}
	b := setup(t)
	dead := newReceiver(t, func(_ int, _ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	well := []*receiver{newReceiver(t, nil), newReceiver(t, nil)}
	id := b.register(t, webhook.Registration{URL: dead.URL}).Webhook.ID // first in every order
	for _, r := range well {
		b.register(t, webhook.Registration{URL: r.URL})
	}
	b.start(t)
	types := make([]contract.EventType, 100)
	for i := range types {
		types[i] = contract.EventRunUpdated
	}
	for range 20 {
		b.events(t, types...)
	}
	await.Until(t, "all events at both that are well", func() bool { return len(well[0].ids()) == 2000 && len(well[1].ids()) == 2000 })
	w, err := b.Webhook(t.Context(), id)
	require.NoError(t, err)
	require.EqualValues(t, 2000, w.Pending, "the dead one still waits for all of its own")
	for _, r := range well {
		require.Len(t, r.all(), 2000, "and each came once")
	}
}

func TestTheLogIsKeptForAWhile(t *testing.T) {
	t.Parallel()
	b, rec := setup(t), newReceiver(t, nil)
	id := b.register(t, webhook.Registration{URL: rec.URL}).Webhook.ID
	_, err := b.hooks.Test(t.Context(), id, "")
	require.NoError(t, err)
	n, err := b.SweepDeliveries(t.Context(), time.Hour)
	require.NoError(t, err)
	require.Zero(t, n)
	n, err = b.SweepDeliveries(t.Context(), 0)
	require.NoError(t, err)
	require.EqualValues(t, 1, n)
	require.Empty(t, b.all(t, id))
}

func TestAReminderReachesTheWebhooksThatItNamesOnceWhateverTheySelect(t *testing.T) {
	t.Parallel()
	b := setup(t)
	named := b.register(t, webhook.Registration{URL: "https://example.com/a", Name: "managers", Events: []string{"run.failed"}}).Webhook
	other := b.register(t, webhook.Registration{URL: "https://example.com/b", Name: "team", Events: []string{"run.failed"}}).Webhook
	subscribed := b.register(t, webhook.Registration{URL: "https://example.com/c", Name: "all", Events: []string{"approval.*"}}).Webhook
	elsewhere := b.register(t, webhook.Registration{URL: "https://example.com/d", Events: []string{"run.failed"}}).Webhook
	to := map[string]any{"to": []string{"page", "webhook:managers", "webhook:all", "webhook:"}}
	for i, kind := range []contract.EventType{contract.EventApprovalEscalated, contract.EventMessageAdded} { // the text of a person is not a receiver
		_, err := b.Record(t.Context(), store.Source{WorkflowID: contract.RunWorkflowID(b.run), WorkflowRunID: "first"},
			contract.Record{RunID: b.run, Seq: int64(i + 1), Events: []contract.EventDraft{{Type: kind, Payload: to}}})
		require.NoError(t, err)
	}
	await.Until(t, "the event of the named webhook", func() bool {
		_, _, err := b.QueueDeliveries(t.Context())
		require.NoError(t, err)
		return len(b.all(t, named.ID)) > 0
	})
	_, _, err := b.QueueDeliveries(t.Context()) // the rest
	require.NoError(t, err)
	require.Len(t, b.all(t, named.ID), 1)
	require.Equal(t, string(contract.EventApprovalEscalated), b.all(t, named.ID)[0].EventType)
	require.Empty(t, b.all(t, other.ID))
	require.Len(t, b.all(t, subscribed.ID), 1)
	require.Empty(t, b.all(t, elsewhere.ID))
}

func TestTheNameOfAWebhookIsUnique(t *testing.T) {
	t.Parallel()
	b := setup(t)
	first := b.register(t, webhook.Registration{URL: "https://example.com/a", Name: "team"}).Webhook
	require.Equal(t, "team", first.Name)
	_, err := b.hooks.Register(t.Context(), webhook.Registration{URL: "https://example.com/b", Name: "team"})
	require.ErrorContains(t, err, `another webhook has the name "team"`)
	second := b.register(t, webhook.Registration{URL: "https://example.com/b"}).Webhook
	name := "team"
	_, err = b.hooks.Change(t.Context(), second.ID, store.WebhookChange{Name: &name})
	require.ErrorContains(t, err, `another webhook has the name "team"`)
	name = "a b"
	_, err = b.hooks.Change(t.Context(), second.ID, store.WebhookChange{Name: &name})
	require.ErrorContains(t, err, "name: expected a name")
}
