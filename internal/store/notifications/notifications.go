// Package notifications stores of what people are notified on which channel, and with which outcome.
package notifications

import (
	"context"
	"encoding/json"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/internal/store/db"
	"github.com/rocketgpt/orchestrator/internal/store/internal/dberr"
	"github.com/rocketgpt/orchestrator/internal/store/internal/rowconv"
)

// State is the state of a notification.
type State string

// The states. All but Pending are final.
const (
	Pending State = "pending"
	Sent    State = "sent"
	Failed  State = "failed"
	Dropped State = "dropped" // it was too old, its event was deleted, or its question had been answered
)

// States returns all states.
func States() []State { return []State{Pending, Sent, Failed, Dropped} }

// Channel is what a channel is notified of.
type Channel struct {
	Name     string
	Kinds    []string // as in its configuration
	Projects []string // patterns; empty: all
	Creators []string // of the runs; empty: all
	Browsers bool     // it stands for the browsers that are subscribed to it
}

// feedPage is the number of events that one statement looks at.
const feedPage = 1000

// tooOld is the reason of notifications of events that happened too long ago.
const tooOld = "the event was too old when a server could notify of it"

// notAwaited is the reason of questions that needed no answer any more when their message was sent.
const notAwaited = "no answer was awaited any more: the question had ended, or its run"

// Queue turns the next events into notifications of a channel. Events before oldest are recorded as
// dropped. It reports whether there may be more events, and how many notifications were added.
func Queue(ctx context.Context, st *store.Store, c Channel, now, oldest time.Time) (more bool, added int, err error) {
	creators := make([]string, len(c.Creators))
	for i, name := range c.Creators {
		creators[i] = strings.ToLower(strings.TrimSpace(name))
	}
	r, err := st.Queries().FeedNotifications(ctx, db.FeedNotificationsParams{
		Channel: c.Name, Most: feedPage, Now: now, Oldest: oldest, TooOld: tooOld, Kinds: c.Kinds, Projects: patternsOf(c.Projects),
		Creators: creators, Browsers: c.Browsers,
	})
	return r.Events == feedPage, int(r.Notifications), dberr.Explain(err, "find what the channel %s is notified of", c.Name)
}

// Add makes a channel known: it is notified of what happens from now on. A known one stays as it is.
func Add(ctx context.Context, st *store.Store, channel string) error {
	return dberr.Explain(st.Queries().AddNotificationChannel(ctx, channel), "add the channel %s", channel)
}

// Due reports whether a channel has notifications that are to be put into a message, or a message that
// is to be sent.
func Due(ctx context.Context, st *store.Store, channel string, now time.Time) (bool, error) {
	due, err := st.Queries().NotificationsDue(ctx, db.NotificationsDueParams{Channel: channel, Now: now})
	return due, dberr.Explain(err, "find the notifications of the channel %s", channel)
}

// Claim gives the holder the right to send on a channel, unless another server has it or the channel's
// receiver asked to wait. It ends with Free, or after the lease: then the holder counts as dead.
func Claim(ctx context.Context, st *store.Store, channel, holder string, lease time.Duration) (bool, error) {
	n, err := st.Queries().ClaimNotificationChannel(ctx, db.ClaimNotificationChannelParams{Channel: channel, Holder: holder, LeaseSeconds: lease.Seconds()})
	return n > 0, dberr.Explain(err, "use the channel %s", channel)
}

// Free ends the right to send on a channel, on which nothing is sent for a time.
func Free(ctx context.Context, st *store.Store, channel, holder string, wait time.Duration) error {
	err := st.Queries().FreeNotificationChannel(ctx, db.FreeNotificationChannelParams{Channel: channel, Holder: holder, WaitSeconds: wait.Seconds()})
	return dberr.Explain(err, "free the channel %s", channel)
}

// Waiting is a notification that was not sent yet.
type Waiting struct {
	ID      int64
	Kind    string
	Message int64 // that contains it; 0: none yet
	Created time.Time
	Next    time.Time // of the next attempt to send the message
}

// PageSize is the largest number of notifications that List returns and a message contains.
const PageSize = 500

// List returns what was not sent yet on a channel: that of some kinds before the rest, each oldest first.
func List(ctx context.Context, st *store.Store, channel string, first []string) ([]Waiting, error) {
	rows, err := st.Queries().PendingNotifications(ctx, db.PendingNotificationsParams{Channel: channel, First: first, Most: PageSize})
	return rowconv.Convert(rows, func(r db.PendingNotificationsRow) Waiting {
		return Waiting{ID: r.ID, Kind: r.Kind, Message: rowconv.Deref(r.MessageID), Created: r.CreatedAt, Next: rowconv.Deref(r.NextAt)}
	}), dberr.Explain(err, "read the notifications of the channel %s", channel)
}

// SentSince returns the number of messages that were sent on a channel since a time.
func SentSince(ctx context.Context, st *store.Store, channel string, since time.Time) (int, error) {
	n, err := st.Queries().CountSentMessages(ctx, db.CountSentMessagesParams{Channel: channel, Since: since})
	return int(n), dberr.Explain(err, "count the messages of the channel %s", channel)
}

// Compose puts notifications into a message, which the first of them identifies.
func Compose(ctx context.Context, st *store.Store, ids []int64, now time.Time) error {
	_, err := st.Queries().ComposeNotifications(ctx, db.ComposeNotificationsParams{MessageID: ids[0], Ids: ids, Now: &now})
	return dberr.Explain(err, "put the notification %d into a message", ids[0])
}

// Entry is a notification in a message, with what its text needs. Its texts are data that models,
// repositories and strangers may have written.
type Entry struct {
	ID       int64
	RunID    int64
	Seq      int64
	Type     contract.EventType
	Kind     string
	Payload  json.RawMessage // nil: the event was deleted
	Happened time.Time
	Project  string
	Goal     string
	Branch   string // that the run released
}

// Message is an attempt to send a message.
type Message struct {
	ID       int64
	Attempt  int // from 1
	Composed time.Time
	Entries  []Entry
	Ended    int // number of questions that were dropped, because they need no answer any more
}

// Begin begins an attempt to send a message, and drops questions in it that need no answer any more. A
// message without entries needs no attempt: it was sent already, or it had no others.
func Begin(ctx context.Context, st *store.Store, id int64) (Message, error) {
	rows, err := st.Queries().BeginNotifications(ctx, db.BeginNotificationsParams{MessageID: id, Ended: notAwaited})
	if err != nil {
		return Message{}, dberr.Explain(err, "begin to send the message %d", id)
	}
	m := Message{ID: id}
	for _, r := range rows {
		if r.Ended {
			m.Ended++
			continue
		}
		m.Attempt, m.Composed = max(m.Attempt, int(r.Attempts)), rowconv.Deref(r.ComposedAt)
		m.Entries = append(m.Entries, Entry{
			ID: r.ID, RunID: r.RunID, Seq: r.Seq, Type: contract.EventType(r.EventType), Kind: r.Kind, Payload: r.Payload, Happened: rowconv.Deref(r.HappenedAt),
			Project: rowconv.Deref(r.Project), Goal: rowconv.Deref(r.GoalTitle), Branch: rowconv.Deref(r.ReleaseBranch),
		})
	}
	return m, nil
}

// Outcome is the result of an attempt to send a message.
type Outcome struct {
	Message int64
	Attempt int
	State   State
	Reason  string    // of a failure
	Next    time.Time // of the next attempt, for Pending
	At      time.Time // when it was sent, for Sent
}

// End stores the outcome of an attempt. An attempt after which another one began changes nothing, unless
// the message was sent.
func End(ctx context.Context, st *store.Store, o Outcome) error {
	p := db.EndNotificationsParams{MessageID: o.Message, Attempt: int32(o.Attempt), State: string(o.State), Reason: rowconv.Text(o.Reason)}
	switch o.State {
	case Pending:
		p.NextAt = &o.Next
	case Sent:
		p.SentAt = &o.At
	case Failed, Dropped:
	}
	_, err := st.Queries().EndNotifications(ctx, p)
	return dberr.Explain(err, "store the outcome of the message %d", o.Message)
}

// Notification is one event for one channel, and its outcome.
type Notification struct {
	ID        int64      `json:"id"`
	Channel   string     `json:"channel"`
	RunID     int64      `json:"runId"`
	Event     string     `json:"event" doc:"ID of the event"`
	EventType string     `json:"event_type"`
	Kind      string     `json:"kind" enum:"waits,failed,done,budget" doc:"what it is about, as in the channel's setting on"`
	State     State      `json:"state" enum:"pending,sent,failed,dropped"`
	Message   int64      `json:"message,omitempty" doc:"the message that contains it; notifications that were collected have the same one"`
	Attempts  int        `json:"attempts" doc:"number of attempts to send the message"`
	Reason    string     `json:"reason,omitempty" doc:"why it was dropped, or why the last attempt failed"`
	CreatedAt time.Time  `json:"created_at"`
	NextAt    *time.Time `json:"next_at,omitempty" doc:"earliest time of the next attempt"`
	SentAt    *time.Time `json:"sent_at,omitempty"`
	ResentAt  *time.Time `json:"resent_at,omitempty" doc:"when a person last asked to send it again"`
}

// Filter selects notifications.
type Filter struct {
	Channel string // empty: all
	State   State  // empty: all
	Before  int64  // notifications older than this one; 0: from the newest on
	Limit   int    // default 50, at most 1000
}

// Find returns the notifications that match a filter, newest first.
func Find(ctx context.Context, st *store.Store, f Filter) ([]Notification, error) {
	return find(ctx, st, db.NotificationsParams{Channel: rowconv.Text(f.Channel), State: string(f.State), Before: f.Before, Most: rowconv.Limit(f.Limit, 50)})
}

// Get returns a notification, or ErrNotFound.
func Get(ctx context.Context, st *store.Store, id int64) (Notification, error) {
	list, err := find(ctx, st, db.NotificationsParams{ID: id, Most: 1})
	if err == nil && (len(list) == 0 || id <= 0) {
		return Notification{}, dberr.NotFound("the notification %d was not found; see rgpt notification list", id)
	}
	if err != nil {
		return Notification{}, err
	}
	return list[0], nil
}

func find(ctx context.Context, st *store.Store, p db.NotificationsParams) ([]Notification, error) {
	rows, err := st.ListQueries().Notifications(ctx, p)
	return rowconv.Convert(rows, func(r db.NotificationsRow) Notification {
		n := Notification{
			ID: r.ID, Channel: r.Channel, RunID: r.RunID, Event: contract.EventID(r.RunID, r.Seq), EventType: r.EventType, Kind: r.Kind, State: State(r.State),
			Message: rowconv.Deref(r.MessageID), Attempts: int(r.Attempts), Reason: r.Reason, CreatedAt: r.CreatedAt, SentAt: r.SentAt, ResentAt: r.ResentAt,
		}
		if n.State == Pending {
			n.NextAt = r.NextAt
		}
		return n
	}), dberr.Explain(err, "list notifications")
}

// Resend lets a notification that failed or was dropped be sent again, in a new message. It reports false
// for others.
func Resend(ctx context.Context, st *store.Store, id int64, now time.Time, by string) (done bool, err error) {
	err = st.InTx(ctx, func(tx pgx.Tx) error {
		q := db.New(tx)
		if err := store.ActAs(ctx, q, by); err != nil {
			return err
		}
		n, err := q.ResendNotification(ctx, db.ResendNotificationParams{ID: id, Now: now})
		done = n > 0
		return err
	})
	return done, dberr.Explain(err, "send the notification %d again", id)
}

// sweepPage is the number of rows that one statement of Sweep changes.
const sweepPage = 1000

// Sweep deletes what ended and was added before a time, and returns how many. What still waits although
// it was added before abandoned counts as failed.
func Sweep(ctx context.Context, st *store.Store, before, abandoned time.Time) (deleted int64, err error) {
	q := st.Queries()
	const reason = "no server sent it in time: none that has the channel in its configuration was running"
	if _, err := pages(func() (int64, error) {
		return q.AbandonNotifications(ctx, db.AbandonNotificationsParams{Before: abandoned, Reason: reason, Most: sweepPage})
	}); err != nil {
		return 0, dberr.Explain(err, "end abandoned notifications")
	}
	if _, err := pages(func() (int64, error) {
		return q.DropForRemovedBrowsers(ctx, db.DropForRemovedBrowsersParams{Reason: unsubscribed, Most: sweepPage})
	}); err != nil {
		return 0, dberr.Explain(err, "end notifications of removed browsers")
	}
	deleted, err = pages(func() (int64, error) {
		return q.SweepNotifications(ctx, db.SweepNotificationsParams{Before: before, Most: sweepPage})
	})
	return deleted, dberr.Explain(err, "remove old notifications")
}

// pages repeats a statement until it finds less than a page.
func pages(page func() (int64, error)) (all int64, err error) {
	for {
		n, err := page()
		all += n
		if err != nil || n < sweepPage {
			return all, err
		}
	}
}

// like returns the pattern of LIKE that matches what a pattern with * matches.
func like(pattern string) string {
	var out []byte
	for _, c := range []byte(pattern) {
		switch c {
		case '*':
			out = append(out, '%')
		case '%', '_', '\\':
			out = append(out, '\\', c)
		default:
			out = append(out, c)
		}
	}
	return string(out)
}
