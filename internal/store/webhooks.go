package store

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/fault"
	"github.com/rocketgpt/orchestrator/internal/store/db"
	"github.com/rocketgpt/orchestrator/internal/store/internal/dberr"
	"github.com/rocketgpt/orchestrator/internal/store/internal/rowconv"
)

// Secret is a text that is hidden in logs and documents. Reveal returns it for code that needs it.
type Secret string

const hidden = "[secret]"

// Reveal returns the text.
func (s Secret) Reveal() string { return string(s) }

// String hides the text.
func (s Secret) String() string { return hidden }

// GoString hides the text.
func (s Secret) GoString() string { return hidden }

// LogValue hides the text.
func (s Secret) LogValue() slog.Value { return slog.StringValue(hidden) }

// MarshalText hides the text.
func (s Secret) MarshalText() ([]byte, error) { return []byte(hidden), nil }

// Webhook is a destination of events, without its secret.
type Webhook struct {
	ID             int64      `json:"id"`
	Name           string     `json:"name,omitempty" doc:"by which reminders name it as a receiver"`
	URL            string     `json:"url"`
	Events         []string   `json:"events" doc:"event type patterns; empty means all"`
	Project        string     `json:"project,omitempty" doc:"only events from this project's runs"`
	Description    string     `json:"description,omitempty"`
	Enabled        bool       `json:"enabled"`
	DisabledReason string     `json:"disabled_reason,omitempty" doc:"why the webhook was disabled automatically"`
	FailingSince   *time.Time `json:"failing_since,omitempty" doc:"time of the first failure since the last success"`
	Pending        int64      `json:"pending" doc:"number of pending deliveries"`
	CreatedAt      time.Time  `json:"created_at"`
	UpdatedAt      time.Time  `json:"updated_at"`
}

// NewWebhook is a webhook to be created.
type NewWebhook struct {
	URL, Project, Description string
	Name                      string // unique; empty: none
	Events                    []string
	Secret                    Secret
	Enabled                   bool
	Most                      int    // maximum number of webhooks
	Key                       string // idempotency key; empty: always a new one
	Digest                    string // of the request that the key belongs to
	By                        string // who creates it: a person, or a client such as contract.ByAPI
}

// WebhookChange is a change to a webhook; nil fields stay unchanged.
type WebhookChange struct {
	URL, Project, Description *string
	Name                      *string
	Events                    []string // nil: unchanged; empty: all
	Secret                    *Secret
	Enabled                   *bool
	By                        string // who changes it: a person, or a client such as contract.ByAPI
}

// CreateWebhook creates a webhook, which receives events from now on. If the key was already used
// for the same request, it returns the existing webhook and false.
func (s *Store) CreateWebhook(ctx context.Context, n NewWebhook) (w Webhook, secret Secret, fresh bool, err error) {
	var id int64
	err = s.actingAs(ctx, n.By, func(q *db.Queries) (err error) {
		id, err = q.CreateWebhook(ctx, db.CreateWebhookParams{
			Url: n.URL, Events: NotNil(n.Events), Project: n.Project, Description: rowconv.Text(n.Description), Secret: n.Secret.Reveal(), Name: n.Name,
			Enabled: n.Enabled, IdempotencyKey: rowconv.Optional(n.Key), RequestDigest: n.Digest, Most: int32(n.Most),
		})
		return err
	})
	if err == nil {
		w, err = s.Webhook(ctx, id)
		return w, n.Secret, true, err
	}
	if !errors.Is(err, pgx.ErrNoRows) {
		return w, "", false, named(err, n.Name, "create the webhook")
	}
	known, err := s.q.WebhookByKey(ctx, n.Key)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return w, "", false, fault.New(contract.ClassHuman, contract.CodeForbidden,
			"the limit of %d webhooks has been reached (server.webhooks.max_webhooks); remove one first", n.Most)
	case err != nil:
		return w, "", false, dberr.Explain(err, "create the webhook")
	case known.RequestDigest != n.Digest:
		return w, "", false, keyConflict()
	}
	w, err = s.Webhook(ctx, known.ID)
	return w, Secret(known.Secret), false, err
}

// named explains an error; the name of a webhook may already be taken.
func named(err error, name, format string, args ...any) error {
	var refused *pgconn.PgError
	if errors.As(err, &refused) && refused.ConstraintName == "orchestrator_webhooks_name" {
		return fault.New(contract.ClassHuman, contract.CodeRejected, "another webhook has the name %q; choose a different one", name)
	}
	return dberr.Explain(err, format, args...)
}

// Webhooks returns all webhooks, oldest first.
func (s *Store) Webhooks(ctx context.Context) ([]Webhook, error) {
	rows, err := s.q.Webhooks(ctx, nil)
	return rowconv.Convert(rows, webhookOf), dberr.Explain(err, "list the webhooks")
}

func webhookOf(r db.WebhooksRow) Webhook {
	return Webhook{
		ID: r.ID, Name: r.Name, URL: r.Url, Events: NotNil(r.Events), Project: r.Project, Description: r.Description, Enabled: r.Enabled,
		DisabledReason: r.DisabledReason, FailingSince: r.FailingSince, Pending: r.Pending, CreatedAt: r.CreatedAt, UpdatedAt: r.UpdatedAt,
	}
}

// Webhook returns a webhook, or ErrNotFound.
func (s *Store) Webhook(ctx context.Context, id int64) (Webhook, error) {
	rows, err := s.q.Webhooks(ctx, &id)
	if err != nil {
		return Webhook{}, dberr.Explain(err, "read webhook %d", id)
	}
	if len(rows) == 0 {
		return Webhook{}, noWebhook(id)
	}
	return webhookOf(rows[0]), nil
}

func noWebhook(id int64) error {
	return dberr.NotFound("webhook %d not found; see rgpt webhook list", id)
}

// ChangeWebhook changes a webhook and returns its new state, or ErrNotFound.
func (s *Store) ChangeWebhook(ctx context.Context, id int64, c WebhookChange) (Webhook, error) {
	p := db.ChangeWebhookParams{ID: id, Url: c.URL, Events: c.Events, Project: c.Project, Name: c.Name, Enabled: c.Enabled}
	if c.Description != nil {
		d := rowconv.Text(*c.Description)
		p.Description = &d
	}
	if c.Secret != nil {
		secret := c.Secret.Reveal()
		p.Secret = &secret
	}
	var n int64
	err := s.actingAs(ctx, c.By, func(q *db.Queries) (err error) {
		n, err = q.ChangeWebhook(ctx, p)
		return err
	})
	if err != nil {
		return Webhook{}, named(err, deref(c.Name), "change webhook %d", id)
	}
	if n == 0 {
		return Webhook{}, noWebhook(id)
	}
	return s.Webhook(ctx, id)
}

func deref(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

// DeleteWebhook removes a webhook with its log, or returns ErrNotFound. by is who removes it.
func (s *Store) DeleteWebhook(ctx context.Context, id int64, by string) error {
	var n int64
	err := s.actingAs(ctx, by, func(q *db.Queries) (err error) {
		n, err = q.DeleteWebhook(ctx, id)
		return err
	})
	if err == nil && n == 0 {
		return noWebhook(id)
	}
	return dberr.Explain(err, "remove webhook %d", id)
}

// feedPage is the number of events turned into deliveries at a time.
const feedPage = 500

// QueueDeliveries turns the next events into deliveries. It returns the number of deliveries, and
// whether there may be more events. Several processes may call it concurrently; each event is queued
// once for each webhook.
func (s *Store) QueueDeliveries(ctx context.Context) (queued int, more bool, err error) {
	n, err := s.q.FeedWebhooks(ctx, feedPage)
	return int(n.Deliveries), n.Events == feedPage, dberr.Explain(err, "create deliveries from events")
}

// Claim limits which deliveries may be claimed.
type Claim struct {
	Busy        map[int64]int // deliveries in progress, by webhook
	MostEach    int           // maximum in progress for one webhook
	MostFailing int           // maximum number to add for failing webhooks
	Most        int           // maximum number to add in total
	Lease       time.Duration // how long they are claimed
}

// DueDelivery is a delivery that must be made now, with all the data needed for it.
type DueDelivery struct {
	ID, WebhookID int64
	Test          bool
	RunID, Seq    int64
	EventType     string
	Attempt       int // this one, from 1
	Used          int // number of allowed attempts already used
	URL           string
	Secret        Secret
	Failing       bool            // its webhook fails
	Event         *contract.Event // nil: a test, an event without a run, or the event was deleted
	Notice        *Notice         // nil: a test, or an event of a run
	CreatedAt     time.Time
}

// Notice is an event that belongs to no run.
type Notice struct {
	ID      string // the same for all webhooks
	Subject string // what it is about
	Payload json.RawMessage
}

// Message returns the ID of what is sent: it is the same in every attempt.
func (d DueDelivery) Message() string {
	if d.Notice != nil {
		return d.Notice.ID
	}
	return MessageID(d.WebhookID, d.ID, d.RunID, d.Seq)
}

// ClaimDeliveries claims due deliveries. No other process gets them until the lease expires; then
// the owner counts as dead.
func (s *Store) ClaimDeliveries(ctx context.Context, c Claim) ([]DueDelivery, error) {
	p := db.ClaimDeliveriesParams{
		BusyWebhooks: []int64{}, BusyCounts: []int32{}, MostEach: int32(c.MostEach), MostFailing: int32(c.MostFailing), Most: int32(c.Most),
		LeaseSeconds: c.Lease.Seconds(),
	}
	for id, n := range c.Busy {
		p.BusyWebhooks, p.BusyCounts = append(p.BusyWebhooks, id), append(p.BusyCounts, int32(n))
	}
	rows, err := s.q.ClaimDeliveries(ctx, p)
	return rowconv.Convert(rows, func(r db.ClaimDeliveriesRow) DueDelivery {
		d := DueDelivery{
			ID: r.ID, WebhookID: r.WebhookID, Test: r.Test, RunID: r.RunID, Seq: r.Seq, EventType: r.EventType, Attempt: int(r.Attempts), Used: int(r.Used),
			URL: r.Url, Secret: Secret(r.Secret), Failing: r.Failing, CreatedAt: r.CreatedAt,
		}
		if r.HappenedAt != nil {
			d.Event = &contract.Event{RunID: r.RunID, Seq: r.Seq, Type: contract.EventType(r.EventType), Payload: r.Payload, CreatedAt: *r.HappenedAt}
		}
		if r.Own != nil {
			d.Notice = &Notice{ID: r.Message, Subject: r.Subject, Payload: r.Own}
		}
		return d
	}), dberr.Explain(err, "find due deliveries")
}

// TestWebhook creates a test delivery, which the caller claims for a lease. If the key was already
// used, it returns the existing delivery, which is being or has been sent, and false.
func (s *Store) TestWebhook(ctx context.Context, id int64, eventType, key string, lease time.Duration) (DueDelivery, bool, error) {
	r, err := s.q.TestWebhook(ctx, db.TestWebhookParams{WebhookID: id, EventType: eventType, Request: rowconv.Optional(key), LeaseSeconds: lease.Seconds()})
	if errors.Is(err, pgx.ErrNoRows) {
		return DueDelivery{}, false, noWebhook(id)
	}
	return DueDelivery{
		ID: r.ID, WebhookID: id, Test: true, EventType: eventType, Attempt: 1, Used: 1, URL: r.Url, Secret: Secret(r.Secret), CreatedAt: r.CreatedAt,
	}, r.Fresh, dberr.Explain(err, "create a test delivery for webhook %d", id)
}

// DeliveryStatus is the state of a delivery.
type DeliveryStatus string

// The statuses of deliveries. Delivered and failed are final until a user requests
// the delivery again.
const (
	DeliveryPending   DeliveryStatus = "pending"
	DeliverySending   DeliveryStatus = "sending"
	DeliveryDelivered DeliveryStatus = "delivered"
	DeliveryFailed    DeliveryStatus = "failed"
)

// DeliveryStatuses returns all statuses of deliveries.
func DeliveryStatuses() []DeliveryStatus {
	return []DeliveryStatus{DeliveryPending, DeliverySending, DeliveryDelivered, DeliveryFailed}
}

// DeliveryOutcome is the result of an attempt.
type DeliveryOutcome struct {
	ID             int64
	Attempt        int
	Status         DeliveryStatus // pending: it will be retried
	Wait           time.Duration  // until then
	ResponseCode   int            // 0: there was no response
	Took           time.Duration
	Error          string        // error message; empty: delivered
	DisableAfter   time.Duration // how long all of a webhook's deliveries may fail before it is disabled
	Gone           bool          // the receiver refuses further events: disable it immediately
	DisabledReason string        // shown if it is disabled
}

// EndDelivery records the result of an attempt, and reports whether that disabled the webhook. An
// attempt that another server has taken over changes only its own entry, unless it was delivered.
func (s *Store) EndDelivery(ctx context.Context, o DeliveryOutcome) (disabled bool, err error) {
	r, err := s.q.EndDelivery(ctx, db.EndDeliveryParams{
		ID: o.ID, Attempt: int32(o.Attempt), Status: string(o.Status), WaitSeconds: o.Wait.Seconds(), ResponseCode: int32(o.ResponseCode),
		DurationMs: o.Took.Milliseconds(), Error: rowconv.Text(o.Error), DisableAfterSeconds: o.DisableAfter.Seconds(), Gone: o.Gone, DisabledReason: rowconv.Text(o.DisabledReason),
	})
	return r.Disabled, dberr.Explain(err, "record attempt %d of delivery %d", o.Attempt, o.ID)
}

// Delivery is one event for one webhook, and its result.
type Delivery struct {
	ID           int64             `json:"id"`
	WebhookID    int64             `json:"webhook_id"`
	Message      string            `json:"message" doc:"message ID, the same for every attempt; sent as the webhook-id header and the CloudEvent's id"`
	Test         bool              `json:"test,omitempty"`
	RunID        int64             `json:"runId,omitempty"`
	Seq          int64             `json:"seq,omitempty"`
	EventType    string            `json:"event_type"`
	Status       DeliveryStatus    `json:"status" enum:"pending,sending,delivered,failed"`
	Attempts     int               `json:"attempts" doc:"number of attempts started"`
	NextTry      *time.Time        `json:"next_try,omitempty" doc:"time of the next attempt; while an attempt is in progress, the time after which another server may take over"`
	ResponseCode int               `json:"response_code,omitempty" doc:"HTTP status of the last attempt; absent if there was no response"`
	DurationMS   int64             `json:"duration_ms"`
	Error        string            `json:"error,omitempty" doc:"error of the last attempt"`
	CreatedAt    time.Time         `json:"created_at"`
	FinishedAt   *time.Time        `json:"finished_at,omitempty"`
	Log          []DeliveryAttempt `json:"log" doc:"all attempts"`

	request string // that last requested it
}

// DeliveryAttempt is one attempt of a delivery.
type DeliveryAttempt struct {
	Attempt      int        `json:"attempt"`
	StartedAt    time.Time  `json:"started_at"`
	FinishedAt   *time.Time `json:"finished_at" doc:"null while the attempt is in progress"`
	ResponseCode int        `json:"response_code,omitempty"`
	DurationMS   int64      `json:"duration_ms"`
	Error        string     `json:"error,omitempty"`
}

// DeliveryFilter selects deliveries of a webhook.
type DeliveryFilter struct {
	Status DeliveryStatus // empty: all
	Before int64          // deliveries older than this one; 0: from the newest on
	Limit  int            // default 50, at most 1000
}

// Deliveries returns deliveries of a webhook, newest first, or ErrNotFound if the webhook does not
// exist.
func (s *Store) Deliveries(ctx context.Context, webhook int64, f DeliveryFilter) ([]Delivery, error) {
	if _, err := s.Webhook(ctx, webhook); err != nil {
		return nil, err
	}
	return s.deliveries(ctx, db.DeliveriesParams{WebhookID: webhook, Before: f.Before, Status: string(f.Status), Most: rowconv.Limit(f.Limit, 50)})
}

// Delivery returns a delivery of a webhook, or ErrNotFound.
func (s *Store) Delivery(ctx context.Context, webhook, id int64) (Delivery, error) {
	all, err := s.deliveries(ctx, db.DeliveriesParams{WebhookID: webhook, ID: id, Most: 1})
	if err == nil && (len(all) == 0 || id <= 0) {
		return Delivery{}, dberr.NotFound("webhook %d has no delivery %d", webhook, id)
	}
	if err != nil {
		return Delivery{}, err
	}
	return all[0], nil
}

func (s *Store) deliveries(ctx context.Context, p db.DeliveriesParams) ([]Delivery, error) {
	rows, err := s.lists.Deliveries(ctx, p)
	if err != nil {
		return nil, dberr.Explain(err, "read the deliveries of webhook %d", p.WebhookID)
	}
	out := make([]Delivery, len(rows))
	for i, r := range rows {
		out[i] = Delivery{
			ID: r.ID, WebhookID: r.WebhookID, Test: r.Test, RunID: r.RunID, Seq: r.Seq, EventType: r.EventType, Status: DeliveryStatus(r.Status),
			Attempts: int(r.Attempts), NextTry: r.NextTry, ResponseCode: int(r.ResponseCode), DurationMS: r.DurationMs, Error: r.Error,
			CreatedAt: r.CreatedAt, FinishedAt: r.FinishedAt,
		}
		if r.Request != nil {
			out[i].request = *r.Request
		}
		out[i].Message = cmp.Or(r.Message, MessageID(r.WebhookID, r.ID, r.RunID, r.Seq))
		if err := json.Unmarshal(r.Log, &out[i].Log); err != nil {
			return nil, fault.Wrap(err, contract.ClassRuntime, contract.CodeUnknown, "cannot read the attempts of delivery %d", r.ID)
		}
	}
	return out, nil
}

// MessageID identifies the content of a delivery: an event has the same ID, however often and by
// whichever webhook it is sent; a test has its own ID.
func MessageID(webhook, delivery, run, seq int64) string {
	if run == 0 {
		return contract.WebhookTestID(webhook, delivery)
	}
	return contract.EventID(run, seq)
}

// Redeliver makes a delivery due again, with all allowed attempts, and returns it. Repeated
// requests with the same key count once. A request for a delivery that is being sent is refused.
func (s *Store) Redeliver(ctx context.Context, webhook, id int64, key string) (Delivery, error) {
	if _, err := s.Webhook(ctx, webhook); err != nil {
		return Delivery{}, err
	}
	n, err := s.q.Redeliver(ctx, db.RedeliverParams{WebhookID: webhook, ID: id, Request: rowconv.Optional(key)})
	if err != nil {
		return Delivery{}, dberr.Explain(err, "repeat delivery %d", id)
	}
	d, err := s.Delivery(ctx, webhook, id)
	if err == nil && n == 0 && (key == "" || d.request != key) {
		err = fault.New(contract.ClassHuman, contract.CodeRejected, "delivery %d is being sent; wait for its result first", id)
	}
	return d, err
}

// sweepPage is the number of rows removed at a time.
const sweepPage = 5000

// SweepDeliveries removes log entries older than the given age, and returns their number.
func (s *Store) SweepDeliveries(ctx context.Context, olderThan time.Duration) (int64, error) {
	return sweep(func() (int64, error) {
		n, err := s.q.SweepDeliveries(ctx, db.SweepDeliveriesParams{OlderThanSeconds: olderThan.Seconds(), Most: sweepPage})
		return n, dberr.Explain(err, "remove old deliveries")
	})
}

// sweep removes page after page until nothing is left.
func sweep(page func() (int64, error)) (all int64, err error) {
	for {
		n, err := page()
		all += n
		if err != nil || n < sweepPage {
			return all, err
		}
	}
}
