package notify_test

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/mail"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/emersion/go-sasl"
	"github.com/emersion/go-smtp"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/await"
	"github.com/rocketgpt/orchestrator/internal/config"
	"github.com/rocketgpt/orchestrator/internal/notify"
	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/internal/store/feed"
	"github.com/rocketgpt/orchestrator/internal/store/notifications"
	"github.com/rocketgpt/orchestrator/internal/storetest"
)

// Variables that make this program a server that sends notifications instead of a test: the address of
// its database, and of the incoming webhook.
const (
	notifierOf = "RGPT_TEST_NOTIFIER_OF"
	slackURL   = "SLACK"
)

func TestMain(m *testing.M) {
	if address := os.Getenv(notifierOf); address != "" {
		st, err := store.Open(context.Background(), address, store.Options{})
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		o := options(st, feed.New(st, feed.Options{}), map[string]config.Notification{"team": slackChannel()})
		o.Getenv = os.Getenv
		notify.New(o).Run(context.Background()) // until it is killed
	}
	await.RunsManyAtOnce()
	goleak.VerifyTestMain(storetest.Main(m))
}

// options make retries fast, and let them reach receivers on this host.
func options(st *store.Store, events *feed.Feed, channels map[string]config.Notification) notify.Options {
	hooks := config.Default().Server.Webhooks
	hooks.AllowPrivate = true
	return notify.Options{
		Store: st, Feed: events, Channels: channels, Webhooks: hooks, Dashboard: "https://rgpt.example.com", Log: slog.New(slog.DiscardHandler),
		FirstWait: 20 * time.Millisecond, Poll: 20 * time.Millisecond, Margin: 500 * time.Millisecond,
	}
}

func slackChannel() config.Notification {
	return config.Notification{Kind: config.ChannelSlack, URLEnv: slackURL, Timeout: time.Second, PerHour: 1000}
}

// installation is a database with a run, and what notifies people of it.
type installation struct {
	*store.Store
	options notify.Options
	run     int64
	seq     atomic.Int64
	offset  atomic.Int64 // of its clock
	env     map[string]string
}

func setup(tb testing.TB, channels map[string]config.Notification, change ...func(*notify.Options)) *installation {
	tb.Helper()
	return over(tb, storetest.New(tb), channels, change...)
}

func over(tb testing.TB, st *store.Store, channels map[string]config.Notification, change ...func(*notify.Options)) *installation {
	tb.Helper()
	b := &installation{Store: st, options: options(st, storetest.Feed(tb, st, feed.Options{}), channels), env: map[string]string{}}
	b.options.Getenv = func(name string) string { return b.env[name] }
	b.options.Now = b.now
	for _, c := range change {
		c(&b.options)
	}
	b.run = b.create(tb, "app", "Fix the <!channel> parser")
	return b
}

func (b *installation) now() time.Time { return time.Now().Add(time.Duration(b.offset.Load())) }

// turn sets the clock.
func (b *installation) turn(to time.Time) { b.offset.Store(int64(time.Until(to))) }

func (b *installation) create(tb testing.TB, project, goal string) int64 {
	tb.Helper()
	run, _, err := b.CreateRun(tb.Context(), store.NewRun{Project: project, GoalTitle: goal, Settings: contract.Settings{Repo: contract.Repo{URL: "/r", Base: "c", Tree: "t"}}})
	require.NoError(tb, err)
	return run.ID
}

// start runs a server until the test ends, or the returned function is called. From then on, its channels
// are notified.
func (b *installation) start(tb testing.TB) func() {
	tb.Helper()
	ctx, cancel := context.WithCancel(tb.Context())
	done := make(chan struct{})
	n := notify.New(b.options)
	for _, name := range n.Names() {
		require.NoError(tb, notifications.Add(tb.Context(), b.Store, name))
	}
	go func() { defer close(done); n.Run(ctx) }()
	stop := sync.OnceFunc(func() { cancel(); <-done })
	tb.Cleanup(stop)
	return stop
}

// event adds an event of a run.
func (b *installation) event(tb testing.TB, run int64, kind contract.EventType, payload any) {
	tb.Helper()
	b.events(tb, run, contract.EventDraft{Type: kind, Payload: payload})
}

// events adds events of a run at once.
func (b *installation) events(tb testing.TB, run int64, events ...contract.EventDraft) {
	tb.Helper()
	_, err := b.Record(tb.Context(), store.Source{WorkflowID: contract.RunWorkflowID(run), WorkflowRunID: "first"}, contract.Record{
		RunID: run, Seq: b.seq.Add(1), Events: events,
	})
	require.NoError(tb, err)
}

// failed adds the event of a failed run.
func (b *installation) failed(tb testing.TB, problem string) {
	tb.Helper()
	b.event(tb, b.run, contract.EventRunFailed, contract.Failure{Class: contract.ClassInfra, Code: contract.CodeUnavailable, Message: problem})
}

func (b *installation) list(tb testing.TB, f notifications.Filter) []notifications.Notification {
	tb.Helper()
	list, err := notifications.Find(tb.Context(), b.Store, f)
	require.NoError(tb, err)
	return list
}

// all waits until a number of notifications have a state, and returns them, newest first.
func (b *installation) all(tb testing.TB, state notifications.State, n int) []notifications.Notification {
	tb.Helper()
	var list []notifications.Notification
	await.Until(tb, fmt.Sprintf("%d notifications that are %s", n, state), func() bool {
		list = b.list(tb, notifications.Filter{State: state, Limit: 1000})
		return len(list) >= n
	})
	require.Len(tb, list, n)
	return list
}

// chat is a service like Slack, which answers each message as configured.
type chat struct {
	*httptest.Server
	mu  sync.Mutex
	got []posted
}

type posted struct {
	Text   string `json:"text"`
	Blocks []struct {
		Type string `json:"type"`
		Text struct {
			Type string `json:"type"`
			Text string `json:"text"`
		} `json:"text"`
		Elements []struct {
			Type string `json:"type"`
			Text string `json:"text"`
		} `json:"elements"`
	} `json:"blocks"`
	at  time.Time
	raw string
}

func newChat(tb testing.TB, answer func(n int, w http.ResponseWriter, r *http.Request)) *chat {
	tb.Helper()
	c := &chat{}
	c.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		p := posted{at: time.Now(), raw: string(body)}
		if err != nil || json.Unmarshal(body, &p) != nil {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		c.mu.Lock()
		c.got = append(c.got, p)
		n := len(c.got)
		c.mu.Unlock()
		if answer != nil {
			answer(n, w, r)
		}
	}))
	tb.Cleanup(func() { c.CloseClientConnections(); c.Close() })
	return c
}

func (c *chat) all() []posted {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]posted(nil), c.got...)
}

// lose closes the connection without a response.
func lose(w http.ResponseWriter) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err == nil {
		_ = conn.Close()
	}
}

// postOffice is an SMTP server with STARTTLS that accepts one user.
type postOffice struct {
	host string
	port int
	ca   string // file
	mu   sync.Mutex
	got  []letter
	// answer decides about a message; it may close the connection.
	answer func(n int, c *smtp.Conn) error
	refuse string // a recipient that is refused
}

type letter struct {
	*mail.Message
	raw       string
	body      string
	from      string
	to        []string
	encrypted bool
	user      string
}

func newPostOffice(tb testing.TB) *postOffice {
	tb.Helper()
	web := httptest.NewTLSServer(http.NotFoundHandler()) // for its certificate
	tb.Cleanup(web.Close)
	p := &postOffice{ca: filepath.Join(tb.TempDir(), "ca.pem")}
	require.NoError(tb, os.WriteFile(p.ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: web.Certificate().Raw}), 0o600))
	server := smtp.NewServer(smtp.BackendFunc(func(c *smtp.Conn) (smtp.Session, error) { return &session{office: p, conn: c}, nil }))
	server.Domain, server.TLSConfig = "mail.example.com", &tls.Config{Certificates: web.TLS.Certificates, MinVersion: tls.VersionTLS12}
	server.ErrorLog = quietLog{}
	var lc net.ListenConfig
	l, err := lc.Listen(tb.Context(), "tcp", "127.0.0.1:0")
	require.NoError(tb, err)
	address, ok := l.Addr().(*net.TCPAddr)
	require.True(tb, ok)
	p.host, p.port = address.IP.String(), address.Port
	done := make(chan struct{})
	go func() { defer close(done); _ = server.Serve(l) }()
	tb.Cleanup(func() { _ = server.Close(); <-done })
	return p
}

type quietLog struct{}

func (quietLog) Printf(string, ...any) {}
func (quietLog) Println(...any)        {}

func (p *postOffice) channel() config.Notification {
	return config.Notification{
		Kind: config.ChannelEmail, Host: p.host, Port: p.port, StartTLS: "required", CAFile: p.ca, UserEnv: "USER", PasswordEnv: "PASSWORD",
		From: "rgpt@example.com", To: []string{"ada@example.com", "bob@example.com"}, Timeout: 2 * time.Second, PerHour: 1000,
	}
}

func (p *postOffice) all() []letter {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]letter(nil), p.got...)
}

type session struct {
	office *postOffice
	conn   *smtp.Conn
	letter
}

func (s *session) AuthMechanisms() []string { return []string{sasl.Plain} }

func (s *session) Auth(string) (sasl.Server, error) {
	return sasl.NewPlainServer(func(_, user, password string) error {
		if user != "rgpt" || password != "pass-word-1" {
			return errors.New("wrong password " + password)
		}
		s.user = user
		return nil
	}), nil
}

func (s *session) Mail(from string, _ *smtp.MailOptions) error { s.from = from; return nil }

func (s *session) Rcpt(to string, _ *smtp.RcptOptions) error {
	if to == s.office.refuse {
		return &smtp.SMTPError{Code: 550, EnhancedCode: smtp.EnhancedCode{5, 1, 1}, Message: "no such mailbox"}
	}
	s.to = append(s.to, to)
	return nil
}

func (s *session) Data(r io.Reader) error {
	raw, err := io.ReadAll(r)
	if err != nil {
		return err
	}
	got := s.letter
	got.raw = string(raw)
	if got.Message, err = mail.ReadMessage(strings.NewReader(got.raw)); err != nil {
		return err
	}
	_, got.encrypted = s.conn.TLSConnectionState()
	got.body = decoded(got.Message)
	s.office.mu.Lock()
	s.office.got = append(s.office.got, got)
	n := len(s.office.got)
	s.office.mu.Unlock()
	if s.office.answer != nil {
		return s.office.answer(n, s.conn)
	}
	return nil
}

func (s *session) Reset()        { s.from, s.to = "", nil }
func (s *session) Logout() error { return nil }
