// Package webhook sends events to registered receivers as signed CloudEvents. Each is delivered at
// least once, even after outages of receivers or our servers. Both the server and the command line
// use it.
package webhook

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"net/url"
	"regexp"
	"strings"
	"unicode/utf8"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/config"
	"github.com/rocketgpt/orchestrator/internal/fault"
	"github.com/rocketgpt/orchestrator/internal/outbound"
	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/internal/store/feed"
)

// Hooks registers webhooks and sends events to them.
type Hooks struct {
	store    *store.Store
	feed     *feed.Feed
	settings config.Webhooks
	log      *slog.Logger
	client   *http.Client
}

// New returns the webhooks of an installation. Before Run they send only tests.
func New(st *store.Store, events *feed.Feed, settings config.Webhooks, log *slog.Logger) *Hooks {
	return &Hooks{store: st, feed: events, settings: settings, log: log, client: newClient(settings)}
}

// Limits of a registration.
const (
	maxURL         = 2000
	maxPatterns    = 50
	maxPattern     = 100
	maxDescription = 1000
	maxProject     = 200
	maxName        = 63
	minSecret      = 24 // bytes, as in Standard Webhooks
	maxSecret      = 64
	secretPrefix   = "whsec_"
)

// Registration is a webhook to be created.
type Registration struct {
	URL         string
	Events      []string // patterns; none: all
	Project     string   // empty: all
	Description string
	Name        string       // by which reminders name it as a receiver; empty: none
	Secret      store.Secret // empty: one is generated
	Disabled    bool
	Key         string // idempotency key: the same key creates one webhook
	By          string // who creates it: a person, or a client such as contract.ByAPI
}

// Created is a new webhook with its secret, which is shown only once.
type Created struct {
	Webhook store.Webhook
	Secret  store.Secret
	Fresh   bool // false: already created with the same key
}

// Register creates a webhook, which receives events from now on.
func (h *Hooks) Register(ctx context.Context, r Registration) (Created, error) {
	if r.Events == nil {
		r.Events = []string{}
	}
	change := store.WebhookChange{URL: &r.URL, Events: r.Events, Project: &r.Project, Description: &r.Description, Name: &r.Name}
	if r.Secret != "" {
		change.Secret = &r.Secret
	}
	if err := h.check(&change); err != nil {
		return Created{}, err
	}
	digest, err := digestOf(r)
	if err != nil {
		return Created{}, err
	}
	if r.Secret == "" {
		r.Secret = newSecret()
	}
	var out Created
	out.Webhook, out.Secret, out.Fresh, err = h.store.CreateWebhook(ctx, store.NewWebhook{
		URL: r.URL, Project: r.Project, Description: r.Description, Name: r.Name, Events: change.Events, Secret: r.Secret, Enabled: !r.Disabled,
		Most: h.settings.Max, Key: r.Key, Digest: digest, By: r.By,
	})
	return out, err
}

// Change changes a webhook. Once enabled again, a webhook receives its pending deliveries and all
// later events.
func (h *Hooks) Change(ctx context.Context, id int64, c store.WebhookChange) (store.Webhook, error) {
	if err := h.check(&c); err != nil {
		return store.Webhook{}, err
	}
	return h.store.ChangeWebhook(ctx, id, c)
}

// newSecret generates a random secret.
func newSecret() store.Secret {
	raw := make([]byte, 32)
	_, _ = rand.Read(raw) // never fails
	return store.Secret(secretPrefix + base64.StdEncoding.EncodeToString(raw))
}

// digestOf returns a digest of a registration, to detect a different registration with the same
// key.
func digestOf(r Registration) (string, error) {
	parts := []any{r.URL, r.Events, r.Project, r.Description, r.Secret.Reveal(), r.Disabled}
	if r.Name != "" { // registrations without a name keep the digest that they had before there were names
		parts = append(parts, r.Name)
	}
	raw, err := json.Marshal(parts)
	if err != nil {
		return "", fmt.Errorf("compute the registration digest: %w", err)
	}
	return fmt.Sprintf("%x", sha256.Sum256(raw)), nil
}

// wrong returns the error for invalid input.
func wrong(format string, args ...any) error {
	return fault.New(contract.ClassHuman, contract.CodeInvalidConfig, format, args...)
}

// check validates a change and normalizes its patterns.
func (h *Hooks) check(c *store.WebhookChange) error {
	for name, field := range map[string]struct {
		text *string
		most int
	}{"url": {c.URL, maxURL}, "project": {c.Project, maxProject}, "description": {c.Description, maxDescription}} {
		if field.text == nil {
			continue
		}
		if !utf8.ValidString(*field.text) || strings.ContainsRune(*field.text, 0) || len(*field.text) > field.most {
			return wrong("%s: must be text of at most %d bytes", name, field.most)
		}
	}
	if c.Name != nil && *c.Name != "" && !config.IsName(*c.Name) {
		return wrong("name: expected a name that begins with a letter and contains only lower-case letters, digits, - and _ (at most %d)", maxName)
	}
	if c.URL != nil {
		if err := h.checkURL(*c.URL); err != nil {
			return err
		}
	}
	if c.Events != nil {
		var err error
		if c.Events, err = patterns(c.Events); err != nil {
			return err
		}
	}
	if c.Secret != nil {
		if _, err := keyOf(*c.Secret); err != nil {
			return err
		}
	}
	return nil
}

func (h *Hooks) checkURL(text string) error {
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "":
		return wrong("url: must be an http or https URL with a host")
	case u.User != nil:
		return wrong("url: must not contain a user or password, because everyone with access to webhooks can see the URL; verify the signature instead")
	case u.Fragment != "":
		return wrong("url: must not contain a fragment (#…), because it is never sent")
	}
	if ip, err := netip.ParseAddr(u.Hostname()); err == nil && !h.settings.AllowPrivate && !outbound.Public(ip) {
		return wrong("url: %s is a private, loopback or otherwise reserved address; see server.webhooks.allow_private", ip)
	}
	return nil
}

var pattern = regexp.MustCompile(`^[a-z*][a-z_*]*(\.[a-z_*]+)*$`)

// patterns validates patterns of event types. If one of them matches everything, it returns none.
func patterns(in []string) ([]string, error) {
	out := []string{}
	if len(in) > maxPatterns {
		return nil, wrong("events: got %d patterns, more than the %d allowed", len(in), maxPatterns)
	}
	for _, p := range in {
		if p == "*" {
			return []string{}, nil
		}
		if len(p) > maxPattern || !pattern.MatchString(p) {
			return nil, wrong("events: %.100q is not an event type or a pattern such as run.* or *.failed", p)
		}
		out = append(out, p)
	}
	return out, nil
}

// keyOf decodes the signing key from a secret.
func keyOf(secret store.Secret) ([]byte, error) {
	text, ok := strings.CutPrefix(secret.Reveal(), secretPrefix)
	key, err := base64.StdEncoding.DecodeString(text)
	if !ok || err != nil || len(key) < minSecret || len(key) > maxSecret {
		return nil, wrong("secret: must be %s followed by %d to %d random bytes in base64; omit it to generate one", secretPrefix, minSecret, maxSecret)
	}
	return key, nil
}
