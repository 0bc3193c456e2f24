// Package notify notifies people of what happens to runs: on the channels of the section notifications,
// by chat, e-mail or in browsers. Each event reaches each of its channels at least once, even after outages of
// receivers or our servers, and its outcome is stored. Both the server and the command line use it.
package notify

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/tls"
	"log/slog"
	"maps"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/config"
	"github.com/rocketgpt/orchestrator/internal/fault"
	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/internal/store/feed"
	"github.com/rocketgpt/orchestrator/internal/store/notifications"
)

// Options are what a Notifier needs.
type Options struct {
	Store     *store.Store
	Feed      *feed.Feed
	Channels  map[string]config.Notification
	Webhooks  config.Webhooks // whether private addresses are allowed, and how long the log is kept
	Dashboard string          // its URL, for links; may be empty
	Getenv    func(string) string
	Log       *slog.Logger

	Now       func() time.Time // default: time.Now
	FirstWait time.Duration    // before the second attempt to send a message; default 15 s
	Poll      time.Duration    // how often a channel is looked at without a notification; default 2 s
	Margin    time.Duration    // by which the right to send on a channel outlasts an attempt, to store the result; default 10 s
}

// Notifier sends notifications.
type Notifier struct {
	Options
	channels map[string]*channel
	holder   string // identifies it among all servers
}

// channel is a configured channel.
type channel struct {
	name     string
	settings config.Notification
	transport
	wake chan struct{} // something may have to be sent
}

// transport sends messages of one kind.
type transport interface {
	// send makes one attempt.
	send(ctx context.Context, m message) result
	// probe connects without sending, and describes what was reached.
	probe(ctx context.Context) (string, error)
	close()
}

// result is the result of an attempt.
type result struct {
	problem    string        // in words, without secrets; empty: sent
	permanent  bool          // the same message would be refused again
	gone       bool          // the receiver does not exist any more
	retryAfter time.Duration // that the receiver requests
}

// problemError is a problem in words.
type problemError string

func (p problemError) Error() string { return string(p) }

const errAddress = problemError("the address of the incoming webhook cannot be used")

// The defaults of Options.
const (
	defaultFirstWait = 15 * time.Second
	defaultPoll      = 2 * time.Second
	defaultMargin    = 10 * time.Second
)

// New returns the notifier of an installation. Before Run it sends only tests.
func New(o Options) *Notifier {
	if o.Now == nil {
		o.Now = time.Now
	}
	o.FirstWait, o.Poll, o.Margin = cmp.Or(o.FirstWait, defaultFirstWait), cmp.Or(o.Poll, defaultPoll), cmp.Or(o.Margin, defaultMargin)
	n := &Notifier{Options: o, channels: map[string]*channel{}, holder: rand.Text()}
	for name, settings := range o.Channels {
		c := &channel{name: name, settings: settings, wake: make(chan struct{}, 1)}
		switch settings.Kind {
		case config.ChannelSlack:
			c.transport = newSlack(settings, o.Webhooks, o.Getenv)
		case config.ChannelPush:
			c.transport = newPushSender(o, settings)
		default: // there are only three kinds
			c.transport = &email{channel: name, settings: settings, getenv: o.Getenv}
		}
		n.channels[name] = c
	}
	return n
}

// Close closes the connections that are kept.
func (n *Notifier) Close() {
	for _, c := range n.channels {
		c.close()
	}
}

// Names returns the names of the channels.
func (n *Notifier) Names() []string { return slices.Sorted(maps.Keys(n.channels)) }

// Channel is a channel of the configuration, as everybody may see it.
type Channel struct {
	Name     string
	Kind     string
	On       []string // empty: everything
	Projects []string // empty: all
	Creators []string // of the runs; empty: all
}

// Channels returns the channels of the configuration, by name.
func (n *Notifier) Channels() []Channel {
	out := []Channel{}
	for _, name := range n.Names() {
		s := n.channels[name].settings
		out = append(out, Channel{name, s.Kind, s.On, s.Projects, s.Creators})
	}
	return out
}

// Tested is the result of a test of a channel.
type Tested struct {
	Channel string `json:"channel"`
	Sent    bool   `json:"sent"`
	Problem string `json:"problem,omitempty" doc:"why the message was not sent"`
	Took    int64  `json:"duration_ms"`
}

func (n *Notifier) named(ctx context.Context, name string) (*channel, error) {
	if of, p, ok := n.push(); ok && n.Store != nil && strings.HasPrefix(name, of.name+".") {
		b, err := notifications.FindBrowser(ctx, n.Store, name)
		return of.browser(p, b), err
	}
	c, known := n.channels[name]
	if !known {
		return nil, fault.Wrap(store.ErrNotFound, contract.ClassHuman, store.CodeNotFound, "the notification channel %.63q is not configured; the section notifications has %s", name, cmp.Or(strings.Join(n.Names(), ", "), "none"))
	}
	return c, nil
}

// Test sends a test message on a channel once, whatever its hours and limits, and returns the result.
func (n *Notifier) Test(ctx context.Context, name string) (Tested, error) {
	c, err := n.named(ctx, name)
	if err != nil {
		return Tested{}, err
	}
	if _, stands := c.transport.(*pushSender); stands {
		return Tested{}, fault.New(contract.ClassHuman, contract.CodeRejected, "the channel %s stands for browsers; test one of them by its own channel, which rgpt notification browsers shows", name)
	}
	ctx, cancel := context.WithTimeout(ctx, c.settings.Timeout)
	defer cancel()
	began := time.Now()
	r := c.send(ctx, message{key: "test." + rand.Text(), at: n.Now(), title: "Test of the notification channel " + name, dashboard: n.Dashboard})
	c.close()
	return Tested{Channel: name, Sent: r.problem == "", Problem: r.problem, Took: time.Since(began).Milliseconds()}, nil
}

// Probe connects to the receiver of a channel without sending anything, and describes it.
func (n *Notifier) Probe(ctx context.Context, name string) (string, error) {
	c, err := n.named(ctx, name)
	if err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(ctx, c.settings.Timeout)
	defer cancel()
	text, err := c.probe(ctx)
	if err == nil {
		return text, nil
	}
	return "", fault.New(contract.ClassConfig, contract.CodeInvalidConfig, "the channel cannot be used: %s", err.Error())
}

// dialEncrypted connects to an address, by TLS if encrypted.
func dialEncrypted(ctx context.Context, dialer *net.Dialer, encrypted bool, address string) (net.Conn, error) {
	if !encrypted {
		return dialer.DialContext(ctx, "tcp", address)
	}
	return (&tls.Dialer{NetDialer: dialer, Config: &tls.Config{MinVersion: tls.VersionTLS12}}).DialContext(ctx, "tcp", address)
}
