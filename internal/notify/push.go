package notify

import (
	"bytes"
	"cmp"
	"context"
	"crypto/ecdh"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/SherClockHolmes/webpush-go"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/config"
	"github.com/rocketgpt/orchestrator/internal/fault"
	"github.com/rocketgpt/orchestrator/internal/outbound"
	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/internal/store/notifications"
	"github.com/rocketgpt/orchestrator/internal/version"
)

const (
	// pushLife is for how long a push service keeps a message for a browser that is not running.
	pushLife = 24 * time.Hour
	// maxPushBody is the number of bytes of a message's text. With the rest and with escapes, a message is
	// shorter than what push services accept (4,096 bytes, encrypted).
	maxPushBody = 1500
	// maxTopic is the number of characters of the header Topic.
	maxTopic = 32
	// maxEndpoint is the number of bytes of an endpoint, and maxBrowser that of what a browser says of
	// itself.
	maxEndpoint, maxBrowser = 2000, 100
	// authSize is the number of bytes of a browser's secret.
	authSize = 16
	// pushIdle is the number of connections to a push service that are kept.
	pushIdle = 4
)

// pushSender sends to the browsers of a channel.
type pushSender struct {
	settings  config.Notification
	private   bool // private addresses are allowed
	dashboard string
	getenv    func(string) string
	client    *http.Client
	trusted   error // why the certificates of ca_file cannot be used
}

func newPushSender(o Options, settings config.Notification) *pushSender {
	p := &pushSender{settings: settings, private: o.Webhooks.AllowPrivate, dashboard: o.Dashboard, getenv: o.Getenv}
	options := outbound.Options{Timeout: settings.Timeout, AllowPrivate: p.private, Idle: pushIdle}
	if settings.CAFile != "" {
		options.RootCAs, p.trusted = readCertificates(settings.CAFile)
	}
	p.client = outbound.NewClient(options)
	return p
}

// readCertificates reads certificates of authorities from a file.
func readCertificates(file string) (*x509.CertPool, error) {
	pem, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("the CA certificates cannot be read: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("the file %s contains no certificate in PEM format", file)
	}
	return pool, nil
}

// send is not used: a message is for one browser.
func (p *pushSender) send(context.Context, message) result {
	return result{problem: "the channel stands for browsers, each of which has a channel of its own", permanent: true}
}

// probe checks the key and the address of the dashboard. Push services have no address of their own that
// could be tried without a browser.
func (p *pushSender) probe(context.Context) (string, error) {
	if _, err := p.settings.Key(p.getenv); err != nil {
		return "", err
	}
	if p.trusted != nil {
		return "", p.trusted
	}
	const text = "the private key is valid; browsers subscribe on the page /notifications of the dashboard"
	if p.dashboard == "" {
		return text, nil
	}
	u, err := url.Parse(p.dashboard)
	if err == nil && (u.Scheme == "https" || onThisMachine(u.Hostname())) {
		return text, nil
	}
	return "", problemError("browsers allow notifications only on https pages, and server.url is not one; use a proxy with a certificate, or open the dashboard on the server's own machine")
}

func onThisMachine(host string) bool {
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.IsLoopback()
}

func (p *pushSender) close() { p.client.CloseIdleConnections() }

// browser sends to one browser.
type browser struct {
	*pushSender
	notifications.Reachable
}

// pushMessage is what the service worker of the dashboard shows. Its texts are plain texts there.
type pushMessage struct {
	Title string `json:"title"`
	Body  string `json:"body"`
	Path  string `json:"path"` // of the page to open
	Tag   string `json:"tag"`  // a repeated message replaces the first one
}

// pushPayload returns the body of a message.
func pushPayload(m message) ([]byte, error) {
	out := pushMessage{Title: m.title, Path: "/notifications", Tag: m.key}
	var lines []string
	for _, i := range m.items {
		if len(m.items) > 1 {
			lines = append(lines, i.headline)
			continue
		}
		out.Path = i.path
		for _, f := range i.facts {
			lines = append(lines, f.name+": "+f.text)
		}
	}
	if m.more > 0 {
		lines = append(lines, fmt.Sprintf("and %d more", m.more))
	}
	out.Body = strings.Join(lines, "\n")
	if len(out.Body) > maxPushBody {
		cut := maxPushBody - len("…")
		for !utf8.RuneStart(out.Body[cut]) {
			cut--
		}
		out.Body = out.Body[:cut] + "…"
	}
	var body bytes.Buffer
	enc := json.NewEncoder(&body)
	enc.SetEscapeHTML(false)
	err := enc.Encode(out)
	return body.Bytes(), err
}

// contact returns how push services reach the operator, as the library expects it.
func (p *pushSender) contact() string {
	if p.settings.Contact == "" && strings.HasPrefix(p.dashboard, "https://") {
		return p.dashboard
	}
	return cmp.Or(p.settings.Contact, "operator@localhost.invalid")
}

// send makes one attempt to send a message to the browser.
func (b *browser) send(ctx context.Context, m message) result {
	key, err := b.settings.Key(b.getenv)
	if err = cmp.Or(err, b.trusted); err != nil {
		return result{problem: err.Error()}
	}
	public := publicKey(key)
	if b.ServerKey != public {
		return result{problem: "the browser subscribed for another key of the server (key_file or key_env was changed); it must subscribe again", permanent: true}
	}
	if err := checkEndpoint(b.settings, b.private, b.URL.Reveal()); err != nil {
		return result{problem: err.Error(), permanent: true}
	}
	body, err := pushPayload(m)
	if err != nil {
		return result{problem: "cannot write the message: " + err.Error(), permanent: true}
	}
	urgency := webpush.UrgencyNormal
	if m.waits {
		urgency = webpush.UrgencyHigh
	}
	topic := sha256.Sum256([]byte(m.key))
	resp, err := webpush.SendNotificationWithContext(ctx, body, &webpush.Subscription{
		Endpoint: b.URL.Reveal(), Keys: webpush.Keys{P256dh: b.P256dh, Auth: b.Auth.Reveal()},
	}, &webpush.Options{
		HTTPClient: named{b.client}, Subscriber: b.contact(), Topic: base64.RawURLEncoding.EncodeToString(topic[:])[:maxTopic], TTL: int(pushLife.Seconds()), Urgency: urgency,
		VAPIDPublicKey: public, VAPIDPrivateKey: base64.RawURLEncoding.EncodeToString(key.Bytes()),
	})
	if err != nil {
		return result{problem: outbound.Unanswered(err, b.settings.Timeout)}
	}
	defer resp.Body.Close()
	_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, outbound.MaxResponse)) // a service's text is not shown
	out := result{problem: outbound.Problem(resp.StatusCode)}
	if out.problem == "" {
		return out
	}
	switch resp.StatusCode {
	case http.StatusBadRequest, http.StatusRequestEntityTooLarge, http.StatusUnprocessableEntity:
		out.permanent = true // it would refuse the same message again
	case http.StatusNotFound, http.StatusGone:
		out.permanent, out.gone = true, true
		out.problem = "the browser has ended its subscription: " + out.problem
	}
	out.retryAfter = outbound.RetryAfter(resp.Header.Get("Retry-After"), time.Now())
	return out
}

// named is a client that says which program it is.
type named struct{ *http.Client }

// Do sends a request.
func (n named) Do(r *http.Request) (*http.Response, error) {
	r.Header.Set("User-Agent", "rgpt/"+version.Version)
	return n.Client.Do(r)
}

// publicKey returns the public key for a private one, as browsers expect it.
func publicKey(key *ecdh.PrivateKey) string {
	return base64.RawURLEncoding.EncodeToString(key.PublicKey().Bytes())
}

// checkEndpoint checks where a browser says that it can be reached: this may come from anyone, and the
// server sends requests to it.
func checkEndpoint(settings config.Notification, private bool, text string) error {
	u, err := url.Parse(text)
	switch {
	case len(text) > maxEndpoint:
		return fmt.Errorf("endpoint: must have at most %d bytes", maxEndpoint)
	case err != nil || u.Scheme != "https" || u.Hostname() == "" || u.User != nil || u.Fragment != "" || u.Opaque != "":
		return errors.New("endpoint: must be an https URL with a host, and without a user and a fragment")
	}
	host := strings.ToLower(u.Hostname())
	if ip, err := netip.ParseAddr(host); err == nil && !private && !outbound.Public(ip) {
		return errors.New("endpoint: it is a private, loopback or otherwise reserved address, which is not allowed (server.webhooks.allow_private)")
	}
	if port := u.Port(); port != "" && port != "443" {
		host = net.JoinHostPort(host, port)
	}
	if !settings.Serves(host) {
		return fmt.Errorf("endpoint: %.253q is not a push service that the setting services of the channel allows", host)
	}
	return nil
}

// Subscribing is a browser that is to be notified.
type Subscribing struct {
	Endpoint string `json:"endpoint" maxLength:"2000" doc:"as in the browser's PushSubscription"`
	Keys     struct {
		P256dh string `json:"p256dh" maxLength:"100"`
		Auth   string `json:"auth" maxLength:"50"`
	} `json:"keys" doc:"as in the browser's PushSubscription"`
	ServerKey string                    `json:"server_key" maxLength:"100" doc:"the server's public key for which the browser subscribed"`
	By        string                    `json:"by,omitempty" maxLength:"200" doc:"name of the person who uses the browser, as they give it when they create runs"`
	Browser   string                    `json:"browser,omitempty" maxLength:"100" doc:"description of the browser"`
	On        []string                  `json:"on,omitempty" maxItems:"4" enum:"waits,failed,done,budget" doc:"what it is notified of; empty: all that the channel in the configuration is"`
	Projects  []string                  `json:"projects,omitempty" maxItems:"100" doc:"patterns of the projects whose runs it is notified of; empty: all"`
	Mine      bool                      `json:"mine,omitempty" doc:"only runs that by created"`
	Quiet     *notifications.QuietHours `json:"quiet,omitempty" doc:"its own quiet hours; absent: those of the channel in the configuration"`
}

// wrongInput returns the error for invalid input.
func wrongInput(format string, args ...any) error {
	return fault.New(contract.ClassHuman, contract.CodeInvalidConfig, format, args...)
}

// maxProject is the number of bytes of a pattern of projects.
const maxProject = 200

// check validates the choice of a browser's user.
func (s Subscribing) check() error {
	key, err := base64.RawURLEncoding.DecodeString(strings.TrimRight(s.Keys.P256dh, "="))
	if err == nil {
		_, err = ecdh.P256().NewPublicKey(key)
	}
	if err != nil {
		return wrongInput("keys.p256dh: must be a public key of the curve P-256 in base64 (URL alphabet)")
	}
	if auth, err := base64.RawURLEncoding.DecodeString(strings.TrimRight(s.Keys.Auth, "=")); err != nil || len(auth) != authSize {
		return wrongInput("keys.auth: must be %d bytes in base64 (URL alphabet)", authSize)
	}
	if s.Mine && contract.Nameless(s.By) {
		return wrongInput("mine: a browser is notified only of its user's runs if by has a person's name")
	}
	if len(s.Browser) > maxBrowser {
		return wrongInput("browser: must have at most %d bytes", maxBrowser)
	}
	for _, p := range s.Projects {
		if p == "" || len(p) > maxProject || !utf8.ValidString(p) || strings.ContainsRune(p, 0) {
			return wrongInput("projects: a pattern must be a text of 1 to %d bytes", maxProject)
		}
	}
	if s.Quiet == nil {
		return nil
	}
	quiet := config.Quiet{From: s.Quiet.From, To: s.Quiet.To, Zone: s.Quiet.Zone, Except: s.Quiet.Except}
	if err := quiet.Valid(); err != nil {
		return wrongInput("quiet: %s", err.Error())
	}
	if _, _, ok := quiet.Minutes(); !ok {
		return wrongInput("quiet: needs from and to")
	}
	return nil
}

// push returns the channel of browsers, or false if the configuration has none.
func (n *Notifier) push() (*channel, *pushSender, bool) {
	for _, c := range n.channels {
		if p, ok := c.transport.(*pushSender); ok {
			return c, p, true
		}
	}
	return nil, nil, false
}

// PushKey returns the channel of the configuration for browsers, and the public key of the server that
// browsers need to subscribe. Without such a channel, both are empty.
func (n *Notifier) PushKey() (channel, key string, err error) {
	c, p, ok := n.push()
	if !ok {
		return "", "", nil
	}
	private, err := p.settings.Key(p.getenv)
	if err != nil {
		return c.name, "", fault.Wrap(err, contract.ClassConfig, contract.CodeInvalidConfig, "browsers cannot subscribe to the channel %s", c.name)
	}
	return c.name, publicKey(private), nil
}

// errNoPush returns the error for browsers without a channel.
func errNoPush() error {
	return fault.New(contract.ClassHuman, contract.CodeRejected, "the configuration has no notification channel of the kind push, so browsers cannot subscribe; see docs/NOTIFICATIONS.md")
}

// Subscribe lets a browser be notified of what happens from now on, or changes what it is notified of.
func (n *Notifier) Subscribe(ctx context.Context, s Subscribing) (notifications.Browser, error) {
	c, p, ok := n.push()
	if !ok {
		return notifications.Browser{}, errNoPush()
	}
	_, key, err := n.PushKey()
	if err != nil {
		return notifications.Browser{}, err
	}
	s.By = strings.TrimSpace(s.By)
	if err := s.check(); err != nil {
		return notifications.Browser{}, err
	}
	if err := checkEndpoint(p.settings, p.private, s.Endpoint); err != nil {
		return notifications.Browser{}, wrongInput("%s", err.Error())
	}
	if strings.TrimRight(s.ServerKey, "=") != key {
		return notifications.Browser{}, fault.New(contract.ClassHuman, contract.CodeRejected, "the browser subscribed for another key of the server; load the page again and try once more")
	}
	sum := sha256.Sum256([]byte(s.Endpoint))
	b := notifications.Reachable{
		Browser:  notifications.Browser{ID: browserID(sum), By: s.By, Browser: s.Browser, On: s.On, Projects: s.Projects, Mine: s.Mine, Quiet: s.Quiet},
		Endpoint: notifications.Endpoint{URL: store.Secret(s.Endpoint), P256dh: strings.TrimRight(s.Keys.P256dh, "="), Auth: store.Secret(strings.TrimRight(s.Keys.Auth, "=")), ServerKey: key},
	}
	if err := notifications.PutBrowser(ctx, n.Store, c.name, b, notifications.Limits{All: p.settings.MaxBrowsers, PerPerson: p.settings.PerPerson}); err != nil {
		return notifications.Browser{}, err
	}
	found, err := notifications.FindBrowser(ctx, n.Store, c.name+"."+b.ID)
	return found.Browser, err
}

// idSize is the number of bytes of a browser's ID.
const idSize = 16

func browserID(sum [sha256.Size]byte) string { return hex.EncodeToString(sum[:idSize]) }
