package notify_test

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/ecdh"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/await"
	"github.com/rocketgpt/orchestrator/internal/config"
	"github.com/rocketgpt/orchestrator/internal/fault"
	"github.com/rocketgpt/orchestrator/internal/notify"
	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/internal/store/notifications"
)

// pushKey is the environment variable with the server's key.
const pushKey = "VAPID"

// pushService is a push service that reads what is sent to its browsers, as these would.
type pushService struct {
	*httptest.Server
	ca     string // file
	key    string // public key of the server that may send
	mu     sync.Mutex
	got    []pushed
	keys   map[string]*aBrowser
	answer func(n int, w http.ResponseWriter, r *http.Request)
}

type pushed struct {
	Title, Body, Path, Tag string

	browser string
	header  http.Header
	size    int
	at      time.Time
}

// aBrowser is a browser that subscribed.
type aBrowser struct {
	name string
	key  *ecdh.PrivateKey
	auth []byte
}

func newPushService(tb testing.TB, b *installation, answer func(n int, w http.ResponseWriter, r *http.Request)) *pushService {
	tb.Helper()
	key, err := ecdh.P256().GenerateKey(rand.Reader)
	require.NoError(tb, err)
	b.env[pushKey] = base64.RawURLEncoding.EncodeToString(key.Bytes())
	s := &pushService{key: base64.RawURLEncoding.EncodeToString(key.PublicKey().Bytes()), keys: map[string]*aBrowser{}, answer: answer, ca: filepath.Join(tb.TempDir(), "ca.pem")}
	s.Server = httptest.NewTLSServer(http.HandlerFunc(s.receive))
	require.NoError(tb, os.WriteFile(s.ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw}), 0o600))
	tb.Cleanup(func() { s.CloseClientConnections(); s.Close() })
	b.options.Channels = map[string]config.Notification{"browsers": s.channel()}
	return s
}

func (s *pushService) channel() config.Notification {
	return config.Notification{
		Kind: config.ChannelPush, KeyEnv: pushKey, CAFile: s.ca, Services: []string{"127.0.0.1:*"}, MaxBrowsers: 10, PerPerson: 2, Timeout: 2 * time.Second, PerHour: 1000,
	}
}

func (s *pushService) receive(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	s.mu.Lock()
	browser := s.keys[r.URL.Path]
	s.mu.Unlock()
	var p pushed
	if err == nil && browser != nil {
		err = s.read(r, browser, body, &p)
	}
	if err != nil || browser == nil {
		http.Error(w, fmt.Sprint("cannot read this: ", err), http.StatusUnauthorized)
		return
	}
	p.browser, p.header, p.size, p.at = browser.name, r.Header, len(body), time.Now()
	s.mu.Lock()
	s.got = append(s.got, p)
	n := len(s.got)
	s.mu.Unlock()
	if s.answer != nil {
		s.answer(n, w, r)
		return
	}
	w.WriteHeader(http.StatusCreated)
}

// read checks the sender (RFC 8292) and decrypts a message (RFC 8188 and 8291).
func (s *pushService) read(r *http.Request, b *aBrowser, body []byte, into *pushed) error {
	token, key, _ := strings.Cut(strings.TrimPrefix(r.Header.Get("Authorization"), "vapid t="), ", k=")
	if err := s.genuine(token, key, "https://"+r.Host); err != nil {
		return err
	}
	if r.Header.Get("Content-Encoding") != "aes128gcm" || r.Header.Get("TTL") == "" || len(body) < 86 || len(body) > 4096 || body[20] != 65 {
		return errors.New("not an encrypted message")
	}
	salt, size, sender, content := body[:16], binary.BigEndian.Uint32(body[16:20]), body[21:86], body[86:]
	if len(content) > int(size) {
		return errors.New("more than one record")
	}
	public, err := ecdh.P256().NewPublicKey(sender)
	if err != nil {
		return err
	}
	shared, err := b.key.ECDH(public)
	if err != nil {
		return err
	}
	derive := func(secret, salt []byte, info string, length int) []byte {
		out, failed := hkdf.Key(sha256.New, secret, salt, info, length)
		err = errors.Join(err, failed)
		return out
	}
	ikm := derive(shared, b.auth, "WebPush: info\x00"+string(b.key.PublicKey().Bytes())+string(sender), 32)
	cek, nonce := derive(ikm, salt, "Content-Encoding: aes128gcm\x00", 16), derive(ikm, salt, "Content-Encoding: nonce\x00", 12)
	block, failed := aes.NewCipher(cek)
	if err = errors.Join(err, failed); err != nil {
		return err
	}
	gcm, err := cipher.NewGCM(block)
	if err != nil {
		return err
	}
	plain, err := gcm.Open(nil, nonce, content, nil)
	if err != nil {
		return err
	}
	plain, last := bytes.CutSuffix(bytes.TrimRight(plain, "\x00"), []byte{2})
	if !last {
		return errors.New("the record is not the last one")
	}
	return json.Unmarshal(plain, into)
}

// genuine checks that a token was signed for this service by the server for which browsers subscribed.
func (s *pushService) genuine(token, key, audience string) error {
	parts := strings.Split(token, ".")
	raw, err := base64.RawURLEncoding.DecodeString(key)
	if err != nil || key != s.key || len(parts) != 3 {
		return errors.New("not the key of the subscription")
	}
	claims, err := base64.RawURLEncoding.DecodeString(parts[1])
	signature, err2 := base64.RawURLEncoding.DecodeString(parts[2])
	if err = errors.Join(err, err2); err != nil || len(signature) != 64 {
		return errors.New("not a token")
	}
	public, err := ecdsa.ParseUncompressedPublicKey(elliptic.P256(), raw)
	if err != nil {
		return err
	}
	digest := sha256.Sum256([]byte(parts[0] + "." + parts[1]))
	if !ecdsa.Verify(public, digest[:], new(big.Int).SetBytes(signature[:32]), new(big.Int).SetBytes(signature[32:])) {
		return errors.New("not signed with the key")
	}
	var c struct {
		Aud, Sub string
		Exp      int64
	}
	if err := json.Unmarshal(claims, &c); err != nil || c.Aud != audience || c.Exp <= time.Now().Unix() || c.Exp > time.Now().Add(24*time.Hour).Unix() || c.Sub != "https://rgpt.example.com" {
		return fmt.Errorf("not for this service: %+v", c)
	}
	return nil
}

// subscription returns what a new browser sends to the server.
func (s *pushService) subscription(tb testing.TB, name string, change ...func(*notify.Subscribing)) notify.Subscribing {
	tb.Helper()
	key, err := ecdh.P256().GenerateKey(rand.Reader)
	require.NoError(tb, err)
	b := &aBrowser{name: name, key: key, auth: make([]byte, 16)}
	_, _ = rand.Read(b.auth)
	s.mu.Lock()
	s.keys["/send/"+name] = b
	s.mu.Unlock()
	out := notify.Subscribing{Endpoint: s.URL + "/send/" + name, ServerKey: s.key, Browser: name}
	out.Keys.P256dh, out.Keys.Auth = base64.RawURLEncoding.EncodeToString(key.PublicKey().Bytes()), base64.RawURLEncoding.EncodeToString(b.auth)
	for _, c := range change {
		c(&out)
	}
	return out
}

// subscribe subscribes a new browser.
func (s *pushService) subscribe(tb testing.TB, b *installation, name string, change ...func(*notify.Subscribing)) notifications.Browser {
	tb.Helper()
	got, err := notify.New(b.options).Subscribe(tb.Context(), s.subscription(tb, name, change...))
	require.NoError(tb, err)
	return got
}

// all returns what arrived at browsers.
func (s *pushService) all() []pushed {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]pushed(nil), s.got...)
}

// titles returns the titles that a browser got.
func (s *pushService) titles(browser string) []string {
	out := []string{}
	for _, p := range s.all() {
		if p.browser == browser {
			out = append(out, p.Title)
		}
	}
	return out
}

func TestABrowserGetsAnEncryptedMessageThatOnlyItCanRead(t *testing.T) {
	t.Parallel()
	b := setup(t, nil)
	s := newPushService(t, b, nil)
	b.start(t)
	b.failed(t, "before it subscribed")
	mine := s.subscribe(t, b, "firefox", func(s *notify.Subscribing) { s.By = "ada" })
	require.Regexp(t, "^[0-9a-f]{32}$", mine.ID)
	require.Equal(t, "browsers."+mine.ID, mine.Channel)
	require.Equal(t, strings.TrimPrefix(s.URL, "https://"), mine.Service)
	b.event(t, b.run, contract.EventApprovalRequested, map[string]any{"kind": contract.ApprovalRelease, "reason": "3 files changed <b>\u202e" + strings.Repeat(`"é`, 2000)})
	sent := b.all(t, notifications.Sent, 1)[0]
	require.Equal(t, mine.Channel, sent.Channel)
	got := s.all()
	require.Len(t, got, 1)
	require.Equal(t, "Run 1 waits for approval of its release", got[0].Title)
	require.True(t, strings.HasPrefix(got[0].Body, "Project: app\nGoal: Fix the <!channel> parser\nReason: 3 files changed <b>"), got[0].Body)
	require.NotContains(t, got[0].Body, "\u202e")
	require.Equal(t, "/runs/1", got[0].Path)
	require.Equal(t, "high", got[0].header.Get("Urgency"))
	require.Len(t, got[0].header.Get("Topic"), 32)
	require.LessOrEqual(t, got[0].size, 4096)
}

func TestBrowsersAreNotifiedOfWhatTheirUsersChose(t *testing.T) {
	t.Parallel()
	b := setup(t, nil)
	s := newPushService(t, b, nil)
	b.start(t)
	everything := s.subscribe(t, b, "everything")
	s.subscribe(t, b, "waits", func(s *notify.Subscribing) { s.On = []string{config.NotifyWaits} })
	s.subscribe(t, b, "shop", func(s *notify.Subscribing) { s.Projects = []string{"shop-*"} })
	s.subscribe(t, b, "mine", func(s *notify.Subscribing) { s.By, s.Mine = " Ada ", true })
	shop := b.create(t, "shop-web", "Sell")
	adas, _, err := b.CreateRun(t.Context(), store.NewRun{Project: "app", GoalTitle: "Hers", Settings: contract.Settings{Repo: contract.Repo{URL: "/r", Base: "c", Tree: "t"}, CreatedBy: "ada"}})
	require.NoError(t, err)
	for _, run := range []int64{b.run, shop, adas.ID} {
		b.event(t, run, contract.EventRunFailed, contract.Failure{Class: contract.ClassInfra, Code: contract.CodeUnavailable, Message: "down"})
	}
	b.event(t, b.run, contract.EventApprovalRequested, map[string]any{"kind": contract.ApprovalPlan})
	b.all(t, notifications.Sent, 4+1+1+1)
	require.Len(t, s.titles("everything"), 4)
	require.Equal(t, []string{"Run 1 waits for approval of its plan"}, s.titles("waits"))
	require.Equal(t, []string{fmt.Sprintf("Run %d failed", shop)}, s.titles("shop"))
	require.Equal(t, []string{fmt.Sprintf("Run %d failed", adas.ID)}, s.titles("mine"))

	list, err := notifications.Browsers(t.Context(), b.Store)
	require.NoError(t, err)
	require.Len(t, list, 4)
	require.Equal(t, []string{"shop-*"}, list[2].Projects)
	require.Equal(t, "Ada", list[3].By)

	require.NoError(t, notifications.RemoveBrowser(t.Context(), b.Store, everything.Channel, "ada"))
	require.ErrorIs(t, notifications.RemoveBrowser(t.Context(), b.Store, everything.Channel, "ada"), store.ErrNotFound)
	b.failed(t, "again")
	b.event(t, shop, contract.EventRunFailed, contract.Failure{Class: contract.ClassInfra, Code: contract.CodeUnavailable, Message: "down"})
	b.all(t, notifications.Sent, 8)
	require.Len(t, s.titles("everything"), 4, "it was removed")
}

func TestTheChannelOfBrowsersLimitsWhatTheirUsersChoose(t *testing.T) {
	t.Parallel()
	b := setup(t, nil)
	s := newPushService(t, b, nil)
	limited := s.channel()
	limited.On, limited.Creators = []string{config.NotifyFailed}, []string{"ADA"}
	b.options.Channels = map[string]config.Notification{"browsers": limited}
	b.start(t)
	s.subscribe(t, b, "firefox", func(s *notify.Subscribing) { s.On = []string{config.NotifyWaits, config.NotifyFailed} })
	adas, _, err := b.CreateRun(t.Context(), store.NewRun{Project: "app", GoalTitle: "Hers", Settings: contract.Settings{Repo: contract.Repo{URL: "/r", Base: "c", Tree: "t"}, CreatedBy: "ada"}})
	require.NoError(t, err)
	b.failed(t, "not hers")
	b.event(t, adas.ID, contract.EventApprovalRequested, map[string]any{"kind": contract.ApprovalPlan})
	b.event(t, adas.ID, contract.EventRunFailed, contract.Failure{Class: contract.ClassInfra, Code: contract.CodeUnavailable, Message: "down"})
	b.all(t, notifications.Sent, 1)
	require.Equal(t, []string{fmt.Sprintf("Run %d failed", adas.ID)}, s.titles("firefox"))
}

func TestAPushServiceThatAsksToWaitAndForgetsABrowserIsObeyed(t *testing.T) {
	t.Parallel()
	b := setup(t, nil)
	var gone atomic.Bool
	s := newPushService(t, b, func(n int, w http.ResponseWriter, r *http.Request) {
		switch {
		case gone.Load() && strings.HasSuffix(r.URL.Path, "/old"):
			w.WriteHeader(http.StatusGone)
		case n == 1:
			w.Header().Set("Retry-After", "1")
			w.WriteHeader(http.StatusTooManyRequests)
		default:
			w.WriteHeader(http.StatusCreated)
		}
	})
	b.start(t)
	s.subscribe(t, b, "old")
	b.failed(t, "first")
	sent := b.all(t, notifications.Sent, 1)[0]
	require.Equal(t, 2, sent.Attempts)
	got := s.all()
	require.GreaterOrEqual(t, got[1].at.Sub(got[0].at), time.Second)
	require.Equal(t, got[0].Tag, got[1].Tag, "so that the browser shows a repeated message once")
	require.Equal(t, got[0].header.Get("Topic"), got[1].header.Get("Topic"))

	s.subscribe(t, b, "new")
	gone.Store(true)
	b.failed(t, "second")
	failed := b.all(t, notifications.Failed, 1)[0]
	require.Contains(t, failed.Reason, "the browser has ended its subscription: it responded with 410 Gone")
	b.all(t, notifications.Sent, 2)
	await.Until(t, "the browser is removed", func() bool {
		list, err := notifications.Browsers(t.Context(), b.Store)
		return err == nil && len(list) == 1 && list[0].Browser == "new"
	})
	b.failed(t, "third")
	b.all(t, notifications.Sent, 3)
	require.Len(t, s.titles("old"), 3)
	require.Equal(t, "system rgpt browser.removed", ledgerEnd(t, b))
}

// ledgerEnd returns the last entry of the audit ledger about browsers.
func ledgerEnd(tb testing.TB, b *installation) string {
	tb.Helper()
	var entry string
	require.NoError(tb, b.InTx(tb.Context(), func(tx pgx.Tx) error {
		return tx.QueryRow(tb.Context(), `SELECT actor || ' ' || name || ' ' || action FROM orchestrator_ledger WHERE action LIKE 'browser.%' ORDER BY seq DESC LIMIT 1`).Scan(&entry)
	}))
	return entry
}

func TestABrowserThatHangsDelaysNoOtherAndQuietHoursAreItsOwn(t *testing.T) {
	t.Parallel()
	b := setup(t, nil)
	hang := make(chan struct{})
	t.Cleanup(func() { close(hang) })
	s := newPushService(t, b, func(_ int, w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/hangs") {
			select {
			case <-hang:
			case <-r.Context().Done():
			}
		}
		w.WriteHeader(http.StatusCreated)
	})
	night := time.Date(2026, 11, 28, 23, 30, 0, 0, time.UTC)
	b.turn(night)
	b.start(t)
	s.subscribe(t, b, "hangs")
	s.subscribe(t, b, "awake")
	s.subscribe(t, b, "asleep", func(s *notify.Subscribing) {
		s.Quiet = &notifications.QuietHours{From: "22:00", To: "07:00", Zone: "UTC", Except: []string{config.NotifyWaits}}
	})
	b.failed(t, "at night")
	b.event(t, b.run, contract.EventApprovalRequested, map[string]any{"kind": contract.ApprovalPlan})
	await.Until(t, "both arrive where nobody sleeps", func() bool { return len(s.titles("awake")) == 2 })
	await.Until(t, "the question arrives where somebody sleeps", func() bool { return len(s.titles("asleep")) == 1 })
	require.Equal(t, []string{"Run 1 waits for approval of its plan"}, s.titles("asleep"))
	b.turn(night.Add(8 * time.Hour))
	await.Until(t, "the rest arrives in the morning", func() bool { return len(s.titles("asleep")) == 2 })
	require.Equal(t, "Run 1 failed", s.titles("asleep")[1])
}

func TestHostileSubscriptionsAreRefused(t *testing.T) {
	t.Parallel()
	b := setup(t, nil)
	s := newPushService(t, b, nil)
	n := notify.New(b.options)
	for name, change := range map[string]func(*notify.Subscribing){
		"https URL":          func(s *notify.Subscribing) { s.Endpoint = "http://127.0.0.1/send" },
		"without a user":     func(s *notify.Subscribing) { s.Endpoint = "https://a:b@127.0.0.1:1/send" },
		"and a fragment":     func(s *notify.Subscribing) { s.Endpoint = "https://127.0.0.1:1/#x" },
		"with a host":        func(s *notify.Subscribing) { s.Endpoint = "https:///send" },
		"at most":            func(s *notify.Subscribing) { s.Endpoint = "https://127.0.0.1:1/" + strings.Repeat("a", 2000) },
		"not a push service": func(s *notify.Subscribing) { s.Endpoint = "https://127.0.0.1.example.com:1/send" },
		"another key":        func(s *notify.Subscribing) { s.ServerKey = "BAAA" },
		"p256dh":             func(s *notify.Subscribing) { s.Keys.P256dh = base64.RawURLEncoding.EncodeToString(make([]byte, 65)) },
		"keys.auth":          func(s *notify.Subscribing) { s.Keys.Auth = "short" },
		"mine":               func(s *notify.Subscribing) { s.By, s.Mine = "dashboard", true },
		"time zone": func(s *notify.Subscribing) {
			s.Quiet = &notifications.QuietHours{From: "22:00", To: "07:00", Zone: "../etc"}
		},
		"time of day": func(s *notify.Subscribing) {
			s.Quiet = &notifications.QuietHours{From: "22:0", To: "07:00", Zone: "UTC"}
		},
		"from and to": func(s *notify.Subscribing) { s.Quiet = &notifications.QuietHours{Zone: "UTC"} },
		"projects":    func(s *notify.Subscribing) { s.Projects = []string{"a\x00b"} },
	} {
		_, err := n.Subscribe(t.Context(), s.subscription(t, "hostile", change))
		require.ErrorContains(t, err, name)
	}
	strict := b.options
	strict.Webhooks.AllowPrivate = false
	_, err := notify.New(strict).Subscribe(t.Context(), s.subscription(t, "private"))
	require.ErrorContains(t, err, "private, loopback")
	known := b.options
	known.Channels = map[string]config.Notification{"browsers": {Kind: config.ChannelPush, KeyEnv: pushKey, MaxBrowsers: 1, PerPerson: 1}}
	for _, endpoint := range []string{"https://evil.example/fcm.googleapis.com", "https://fcm.googleapis.com.evil.example/x", "https://fcm.googleapis.com:8443/x", "https://push.apple.com/x", "https://x。push.apple.com/x"} {
		_, err := notify.New(known).Subscribe(t.Context(), s.subscription(t, "x", func(s *notify.Subscribing) { s.Endpoint = endpoint }))
		require.ErrorContains(t, err, "not a push service", endpoint)
	}
	_, err = notify.New(known).Subscribe(t.Context(), s.subscription(t, "x", func(s *notify.Subscribing) { s.Endpoint = "https://web.push.apple.com/x" }))
	require.NoError(t, err)
	list, err := notifications.Browsers(t.Context(), b.Store)
	require.NoError(t, err)
	require.Len(t, list, 1)
}

func TestTheNumberOfBrowsersIsLimitedHoweverManySubscribeAtOnce(t *testing.T) {
	t.Parallel()
	b := setup(t, nil)
	s := newPushService(t, b, nil)
	n := notify.New(b.options)
	var all sync.WaitGroup
	var refused atomic.Int64
	for i := range 20 {
		one := s.subscription(t, fmt.Sprint("browser-", i), func(s *notify.Subscribing) {
			if i < 5 {
				s.By = []string{"ada", "Ada"}[i%2]
			}
		})
		all.Go(func() {
			if _, err := n.Subscribe(t.Context(), one); err != nil {
				refused.Add(1)
				if fault.Of(err).Code != contract.CodeForbidden {
					t.Errorf("unexpected error: %v", err)
				}
			}
		})
	}
	all.Wait()
	list, err := notifications.Browsers(t.Context(), b.Store)
	require.NoError(t, err)
	require.Len(t, list, 10)
	require.EqualValues(t, 10, refused.Load())
	adas := 0
	for _, one := range list {
		if one.By != "" {
			adas++
		}
	}
	require.LessOrEqual(t, adas, 2)
	again := s.subscription(t, list[0].Browser, func(s *notify.Subscribing) { s.On = []string{config.NotifyBudget} })
	changed, err := n.Subscribe(t.Context(), again)
	require.NoError(t, err, "a known browser only changes its choice")
	require.Equal(t, list[0].ID, changed.ID)
	require.Equal(t, []string{config.NotifyBudget}, changed.On)
}

func TestABrowserIsTestedAndNothingIsSentWithAnotherKey(t *testing.T) {
	t.Parallel()
	b := setup(t, nil)
	s := newPushService(t, b, nil)
	mine := s.subscribe(t, b, "firefox")
	n := notify.New(b.options)
	tested, err := n.Test(t.Context(), mine.Channel)
	require.NoError(t, err)
	require.True(t, tested.Sent, tested.Problem)
	require.Equal(t, []string{"Test of the notification channel " + mine.Channel}, s.titles("firefox"))
	_, err = n.Test(t.Context(), "browsers")
	require.ErrorContains(t, err, "stands for browsers")
	_, err = n.Test(t.Context(), "browsers.0000")
	require.ErrorIs(t, err, store.ErrNotFound)
	text, err := n.Probe(t.Context(), "browsers")
	require.NoError(t, err)
	require.Contains(t, text, "valid")
	insecure := b.options
	insecure.Dashboard = "http://rgpt.example.com"
	_, err = notify.New(insecure).Probe(t.Context(), "browsers")
	require.ErrorContains(t, err, "only on https pages")

	key, err := ecdh.P256().GenerateKey(rand.Reader)
	require.NoError(t, err)
	b.env[pushKey] = base64.RawURLEncoding.EncodeToString(key.Bytes())
	tested, err = n.Test(t.Context(), mine.Channel)
	require.NoError(t, err)
	require.Contains(t, tested.Problem, "another key of the server")
	b.env[pushKey] = "nonsense"
	_, _, err = n.PushKey()
	require.ErrorContains(t, err, "rgpt notification keys")
}

func TestANotificationThatWasNotSentIsSentAgainOnRequest(t *testing.T) {
	t.Parallel()
	b := setup(t, map[string]config.Notification{"team": slackChannel()})
	var fixed atomic.Bool
	c := newChat(t, func(_ int, w http.ResponseWriter, _ *http.Request) {
		if !fixed.Load() {
			w.WriteHeader(http.StatusBadRequest)
		}
	})
	b.env[slackURL] = c.URL
	b.start(t)
	b.failed(t, "down")
	failed := b.all(t, notifications.Failed, 1)[0]
	fixed.Store(true)
	done, err := notifications.Resend(t.Context(), b.Store, failed.ID, b.now(), "ada")
	require.NoError(t, err)
	require.True(t, done)
	sent := b.all(t, notifications.Sent, 1)[0]
	require.Equal(t, failed.ID, sent.ID)
	require.Equal(t, failed.CreatedAt, sent.CreatedAt)
	done, err = notifications.Resend(t.Context(), b.Store, failed.ID, b.now(), "ada")
	require.NoError(t, err)
	require.False(t, done, "it was sent")
	require.Len(t, c.all(), 2)
	var entries int
	require.NoError(t, b.InTx(t.Context(), func(tx pgx.Tx) error {
		return tx.QueryRow(t.Context(), `SELECT count(*) FROM orchestrator_ledger WHERE action = 'notification.resent' AND name = 'ada'`).Scan(&entries)
	}))
	require.Equal(t, 1, entries)
}
