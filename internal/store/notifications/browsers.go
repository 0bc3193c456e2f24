package notifications

import (
	"context"
	"net/url"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/fault"
	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/internal/store/db"
	"github.com/rocketgpt/orchestrator/internal/store/internal/dberr"
	"github.com/rocketgpt/orchestrator/internal/store/internal/rowconv"
)

// QuietHours are hours in which a browser is not notified.
type QuietHours struct {
	From   string   `json:"from" maxLength:"5" doc:"time of day when they begin, such as 22:00"`
	To     string   `json:"to" maxLength:"5" doc:"time of day when they end, perhaps on the next day"`
	Zone   string   `json:"zone" maxLength:"64" doc:"time zone of both, such as Europe/Berlin"`
	Except []string `json:"except,omitempty" maxItems:"4" doc:"what it is notified of nevertheless, as in on"`
}

// Browser is a browser that is notified, as far as everybody may see it.
type Browser struct {
	ID        string      `json:"id" doc:"digest of its endpoint"`
	Channel   string      `json:"channel" doc:"its channel, by which its notifications can be listed and tested"`
	Service   string      `json:"service" doc:"host of its push service"`
	Browser   string      `json:"browser,omitempty" doc:"what it says of itself"`
	By        string      `json:"by,omitempty" doc:"who uses it, as far as they said so"`
	On        []string    `json:"on" doc:"what it is notified of; empty: all that the channel in the configuration is"`
	Projects  []string    `json:"projects" doc:"patterns of the projects whose runs it is notified of; empty: all"`
	Mine      bool        `json:"mine" doc:"only runs that by created"`
	Quiet     *QuietHours `json:"quiet,omitempty" doc:"its own quiet hours; absent: those of the channel in the configuration"`
	CreatedAt time.Time   `json:"created_at"`
	UpdatedAt time.Time   `json:"updated_at"`
}

// Endpoint is where and how a browser is reached. It is secret.
type Endpoint struct {
	URL       store.Secret
	P256dh    string // public key of the browser, in base64
	Auth      store.Secret
	ServerKey string // public key of the server for which the browser subscribed, in base64
}

// Reachable is a browser with its endpoint.
type Reachable struct {
	Browser
	Endpoint
}

func reachableOf(r db.Browser) (Reachable, error) {
	service := r.Endpoint
	if u, err := url.Parse(r.Endpoint); err == nil {
		service = u.Host
	}
	out := Reachable{
		Browser: Browser{
			ID: strings.TrimPrefix(r.Name, r.Channel+"."), Channel: r.Name, Service: service, Browser: r.Browser, By: r.Person,
			On: store.NotNil(r.Kinds), Projects: make([]string, len(r.Projects)), Mine: r.Mine, CreatedAt: r.CreatedAt, UpdatedAt: r.UpdatedAt,
		},
		Endpoint: Endpoint{store.Secret(r.Endpoint), r.P256dh, store.Secret(r.Auth), r.ServerKey},
	}
	for i, p := range r.Projects {
		out.Projects[i] = unlike(p)
	}
	if r.Quiet != nil {
		quiet, err := rowconv.Decode[QuietHours](r.Quiet)
		if err != nil {
			return out, err
		}
		out.Quiet = &quiet
	}
	return out, nil
}

// Limits are the largest numbers of browsers.
type Limits struct{ All, PerPerson int }

// PutBrowser stores a browser of a channel of the configuration, or what changed of it. It is notified of
// what happens from now on.
func PutBrowser(ctx context.Context, st *store.Store, channel string, b Reachable, most Limits) error {
	p := db.PutBrowserParams{
		Name: channel + "." + b.ID, Channel: channel, Endpoint: b.URL.Reveal(), P256dh: b.P256dh, Auth: b.Auth.Reveal(), ServerKey: b.ServerKey,
		Person: rowconv.Text(b.By), Browser: rowconv.Text(b.Browser.Browser), Kinds: store.NotNil(b.On), Projects: patternsOf(b.Projects), Mine: b.Mine,
	}
	if b.Quiet != nil {
		var err error
		if p.Quiet, err = rowconv.Encode(b.Quiet); err != nil {
			return err
		}
	}
	err := st.InTx(ctx, func(tx pgx.Tx) error {
		q := db.New(tx)
		if err := store.ActAs(ctx, q, b.By); err != nil {
			return err
		}
		if err := q.LockBrowsers(ctx); err != nil {
			return err
		}
		n, err := q.CountBrowsers(ctx, db.CountBrowsersParams{Name: p.Name, Person: p.Person})
		switch {
		case err != nil:
			return err
		case int(n.AllOfThem) >= most.All:
			return fault.New(contract.ClassHuman, contract.CodeForbidden, "%d browsers are subscribed, as many as notifications.%s.max_browsers allows; remove one first: rgpt notification browsers", n.AllOfThem, channel)
		case int(n.OfPerson) >= most.PerPerson:
			return fault.New(contract.ClassHuman, contract.CodeForbidden, "%d browsers of %.200q are subscribed, as many as notifications.%s.per_person allows; remove one first: rgpt notification browsers", n.OfPerson, b.By, channel)
		}
		if err := q.PutBrowser(ctx, p); err != nil {
			return err
		}
		return q.AddNotificationChannel(ctx, p.Name)
	})
	return dberr.Explain(err, "subscribe the browser %s", b.ID)
}

// Browsers returns all browsers that are notified, oldest first.
func Browsers(ctx context.Context, st *store.Store) ([]Browser, error) {
	rows, err := st.ListQueries().Browsers(ctx, "")
	if err != nil {
		return nil, dberr.Explain(err, "list the browsers")
	}
	return rowconv.ConvertAll(rows, func(r db.Browser) (Browser, error) {
		b, err := reachableOf(r)
		return b.Browser, err
	})
}

// FindBrowser returns the browser that has a channel, or ErrNotFound.
func FindBrowser(ctx context.Context, st *store.Store, channel string) (Reachable, error) {
	rows, err := st.Queries().Browsers(ctx, channel)
	switch {
	case err != nil:
		return Reachable{}, dberr.Explain(err, "read the browser %s", channel)
	case channel == "" || len(rows) == 0:
		return Reachable{}, dberr.NotFound("the browser %.100q is not subscribed; see rgpt notification browsers", channel)
	}
	return reachableOf(rows[0])
}

// BrowsersDue returns the browsers of a channel of the configuration that have something to be sent.
func BrowsersDue(ctx context.Context, st *store.Store, channel string, now time.Time) ([]Reachable, error) {
	rows, err := st.Queries().BrowsersDue(ctx, db.BrowsersDueParams{Channel: channel, Now: now})
	if err != nil {
		return nil, dberr.Explain(err, "find the browsers of the channel %s", channel)
	}
	return rowconv.ConvertAll(rows, reachableOf)
}

// unsubscribed is the reason of what was not sent to a browser before it was removed.
const unsubscribed = "the browser was removed before this was sent"

// RemoveBrowser removes a browser by its channel, and drops what was not sent to it yet. by is the person or
// client that asks for it; empty: its push service. It returns ErrNotFound if the browser is not known.
func RemoveBrowser(ctx context.Context, st *store.Store, channel, by string) error {
	var n int64
	err := st.InTx(ctx, func(tx pgx.Tx) (err error) {
		q := db.New(tx)
		if by != "" {
			if err := store.ActAs(ctx, q, by); err != nil {
				return err
			}
		}
		n, err = q.RemoveBrowser(ctx, db.RemoveBrowserParams{Name: channel, Reason: unsubscribed})
		return err
	})
	if err == nil && n == 0 {
		return dberr.NotFound("the browser %.100q is not subscribed; see rgpt notification browsers", channel)
	}
	return dberr.Explain(err, "remove the browser %s", channel)
}

// patternsOf returns the patterns for LIKE that match what patterns with * match.
func patternsOf(patterns []string) []string {
	out := make([]string, len(patterns))
	for i, p := range patterns {
		out[i] = like(p)
	}
	return out
}

// unlike is the opposite of like.
func unlike(pattern string) string {
	return strings.NewReplacer(`\\`, `\`, `\%`, `%`, `\_`, `_`, `%`, `*`).Replace(pattern)
}
