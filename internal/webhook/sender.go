package webhook

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/rocketgpt/orchestrator/internal/outbound"
	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/internal/telemetry"
)

const (
	// leaseMargin is the time by which a lease exceeds the timeout of an attempt, to record the
	// result. When a lease expires, its owner counts as dead.
	leaseMargin = 10 * time.Second
	// poll is the interval for checking for due deliveries without a notification: retries, and
	// deliveries of other servers.
	poll = 500 * time.Millisecond
	// again is the pause after the database did not respond.
	again = time.Second
	// sweepEvery is the interval at which old entries are removed.
	sweepEvery = time.Hour
)

// lease returns the duration of the lease on a delivery.
func (h *Hooks) lease() time.Duration { return h.settings.Timeout + leaseMargin }

// Run queues deliveries for events and sends them until the context ends, then waits for those in
// progress. Any number of servers may do this at the same time; if one dies, the others take over
// its deliveries.
func (h *Hooks) Run(ctx context.Context) {
	defer h.client.CloseIdleConnections()
	fed := make(chan struct{}, 1)
	var all errgroup.Group
	all.Go(func() error { h.queue(ctx, func() { ring(fed) }); return nil })
	all.Go(func() error { h.deliver(ctx, fed); return nil })
	all.Go(func() error { h.sweep(ctx); return nil })
	_ = all.Wait() // they only log
}

func ring(ch chan struct{}) {
	select {
	case ch <- struct{}{}:
	default:
	}
}

// pause waits for the given time, or returns false if the context ends first.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

func (h *Hooks) queue(ctx context.Context, fed func()) {
	for ctx.Err() == nil {
		err := h.feed.Watch(ctx, func() (bool, error) {
			queued, more, err := h.store.QueueDeliveries(ctx)
			if queued > 0 {
				fed()
			}
			return more, err
		})
		if err != nil && ctx.Err() == nil {
			h.log.ErrorContext(ctx, "Events could not be queued for webhook delivery; trying again", "error", err)
		}
		if !pause(ctx, again) {
			return
		}
	}
}

// underway counts the deliveries in progress on this server.
type underway struct {
	byWebhook    map[int64]int
	all, failing int
}

func (u *underway) add(d store.DueDelivery, n int) {
	if u.byWebhook[d.WebhookID] += n; u.byWebhook[d.WebhookID] == 0 {
		delete(u.byWebhook, d.WebhookID)
	}
	u.all += n
	if d.Failing {
		u.failing += n
	}
}

// deliver sends deliveries when they are due, several at a time.
func (h *Hooks) deliver(ctx context.Context, fed <-chan struct{}) {
	busy := underway{byWebhook: map[int64]int{}}
	done := make(chan store.DueDelivery)
	tick := time.NewTicker(poll)
	defer tick.Stop()
	for {
		due := h.claim(ctx, &busy)
		for _, d := range due {
			busy.add(d, 1)
			go func() {
				h.attempt(context.WithoutCancel(ctx), d) // it has a timeout; a started attempt is completed
				done <- d
			}()
		}
		var stop <-chan struct{}
		if busy.all == 0 || ctx.Err() == nil {
			stop = ctx.Done()
		}
		select {
		case <-stop:
			if busy.all == 0 {
				return
			}
		case d := <-done:
			busy.add(d, -1)
		case <-fed:
		case <-tick.C:
		}
	}
}

// claim claims the deliveries that are due.
func (h *Hooks) claim(ctx context.Context, busy *underway) []store.DueDelivery {
	free := h.settings.MaxConcurrent - busy.all
	if free <= 0 || ctx.Err() != nil {
		return nil
	}
	due, err := h.store.ClaimDeliveries(ctx, store.Claim{
		Busy: busy.byWebhook, MostEach: h.settings.MaxEach, MostFailing: max(0, h.settings.MaxConcurrent/2-busy.failing), Most: free, Lease: h.lease(),
	})
	if err != nil && ctx.Err() == nil {
		h.log.ErrorContext(ctx, "Webhook deliveries could not be claimed; trying again", "error", err)
		pause(ctx, again)
	}
	return due
}

// attempt makes one attempt of a delivery and records the result.
func (h *Hooks) attempt(ctx context.Context, d store.DueDelivery) {
	held, cancel := context.WithTimeout(ctx, h.lease())
	defer cancel()
	began := time.Now()
	var r response
	if !sendable(d) {
		r.wrong = "the event is no longer stored"
	} else {
		r = h.post(held, d)
	}
	out := h.outcome(d, r)
	out.Took = time.Since(began)
	telemetry.CountWebhook(string(out.Status))
	for {
		disabled, err := h.store.EndDelivery(held, out)
		if err == nil {
			if disabled {
				h.log.WarnContext(ctx, "A webhook was disabled", "webhook", d.WebhookID, "reason", out.DisabledReason)
			}
			return
		}
		if !pause(held, again) { // another server then takes over the delivery and may send it twice
			h.log.ErrorContext(ctx, "The result of a webhook delivery could not be stored", "webhook", d.WebhookID, "delivery", d.ID, "error", err)
			return
		}
	}
}

// sendable reports whether there is something to send: the event of a delivery may have been deleted.
func sendable(d store.DueDelivery) bool { return d.Event != nil || d.Notice != nil || d.Test }

// outcome derives the next state of a delivery from the response.
func (h *Hooks) outcome(d store.DueDelivery, r response) store.DeliveryOutcome {
	out := store.DeliveryOutcome{
		ID: d.ID, Attempt: d.Attempt, Status: store.DeliveryDelivered, ResponseCode: r.code, Error: r.wrong,
		DisableAfter: h.settings.DisableAfter, Gone: r.code == http.StatusGone,
	}
	if r.wrong == "" {
		return out
	}
	out.DisabledReason = fmt.Sprintf("all deliveries have failed for %s; last error: %s; fix the cause and re-enable the webhook", h.settings.DisableAfter, r.wrong)
	if out.Gone {
		out.DisabledReason = "it responded with 410 Gone: the receiver accepts no more events"
	}
	allowed := h.settings.Attempts
	if d.Test { // a person is watching and can repeat it
		allowed = 1
	}
	out.Status = store.DeliveryFailed
	if d.Used < allowed && sendable(d) {
		out.Status, out.Wait = store.DeliveryPending, outbound.Wait(h.settings.FirstWait, h.settings.LongestWait, d.Used, r.retryAfter)
	}
	return out
}

// Test sends a test event to a webhook, even a disabled one, and returns the result. Repeated calls
// with the same key send only one test.
func (h *Hooks) Test(ctx context.Context, webhook int64, key string) (store.Delivery, error) {
	d, fresh, err := h.store.TestWebhook(ctx, webhook, TestEvent, key, h.lease())
	if err != nil {
		return store.Delivery{}, err
	}
	if fresh {
		h.attempt(context.WithoutCancel(ctx), d)
		h.client.CloseIdleConnections() // most callers run no delivery loop that would reuse them
	}
	return h.store.Delivery(ctx, webhook, d.ID)
}

// sweep removes old entries of the delivery log, and expired responses of idempotency keys.
func (h *Hooks) sweep(ctx context.Context) {
	for {
		deliveries, err := h.store.SweepDeliveries(ctx, h.settings.Retention)
		requests, err2 := h.store.SweepRequests(ctx)
		if err = cmp.Or(err, err2); err != nil && ctx.Err() == nil {
			h.log.WarnContext(ctx, "Old webhook deliveries and responses could not be removed; trying again later", "error", err)
		} else if deliveries+requests > 0 {
			h.log.InfoContext(ctx, "Removed old webhook deliveries and responses", "deliveries", deliveries, "answers", requests)
		}
		if !pause(ctx, sweepEvery) {
			return
		}
	}
}
