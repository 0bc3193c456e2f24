package webhook

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/internal/telemetry"
)

const (
	// leaseMargin is how much longer a delivery is held than its attempt may take: the
	// time to record the result. An owner that holds one longer counts as dead.
	leaseMargin = 10 * time.Second
	// poll is how often to look for due deliveries without a notification: retries, and
	// those of other servers.
	poll = 500 * time.Millisecond
	// again is how long to wait after the database did not answer.
	again = time.Second
	// sweepEvery is how often old entries are removed.
	sweepEvery = time.Hour
	// growth is the factor between one wait and the next.
	growth = 3
	// jitter is the random part of a wait, so that what failed together does not come
	// again together.
	jitter = 0.2
)

// lease returns how long a delivery is taken.
func (h *Hooks) lease() time.Duration { return h.settings.Timeout + leaseMargin }

// Run turns events into deliveries and makes them until the context ends, then waits
// for those in progress. Any number of servers may do so at the same time; if one dies,
// the others continue its deliveries.
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

// pause waits, or returns false when the context ends.
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
			more, err := h.store.QueueDeliveries(ctx)
			if more {
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

// underway is the deliveries that a server is making.
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

// deliver makes deliveries as they fall due, several at a time.
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
				h.attempt(context.WithoutCancel(ctx), d) // it has a time-out; an attempt that began is finished
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

// claim takes the deliveries that may be made now.
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
	if d.Event == nil && !d.Test {
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
		if !pause(held, again) { // then another server takes it over, and may send it twice
			h.log.ErrorContext(ctx, "The result of a webhook delivery could not be stored", "webhook", d.WebhookID, "delivery", d.ID, "error", err)
			return
		}
	}
}

// outcome decides what happens to a delivery.
func (h *Hooks) outcome(d store.DueDelivery, r response) store.DeliveryOutcome {
	out := store.DeliveryOutcome{
		ID: d.ID, Attempt: d.Attempt, Status: store.DeliveryDelivered, ResponseCode: r.code, Error: r.wrong,
		DisableAfter: h.settings.DisableAfter, Gone: r.code == http.StatusGone,
	}
	if r.wrong == "" {
		return out
	}
	out.DisabledReason = fmt.Sprintf("every delivery failed for %s; last error: %s; fix the cause and enable it again", h.settings.DisableAfter, r.wrong)
	if out.Gone {
		out.DisabledReason = "it responded with 410 Gone: the receiver does not want any more events"
	}
	allowed := h.settings.Attempts
	if d.Test { // a person is watching, and can ask again
		allowed = 1
	}
	out.Status = store.DeliveryFailed
	if d.Used < allowed && (d.Event != nil || d.Test) {
		out.Status, out.Wait = store.DeliveryPending, h.wait(d.Used, r.retryAfter)
	}
	return out
}

// wait returns how long to wait after a number of attempts: longer each time, at least
// as long as the receiver asks for, and never longer than the limit.
func (h *Hooks) wait(attempts int, asked time.Duration) time.Duration {
	wait := h.settings.FirstWait
	for range attempts - 1 {
		wait = min(wait*growth, h.settings.LongestWait)
	}
	wait = time.Duration(float64(wait) * (1 - jitter + 2*jitter*rand.Float64())) //nolint:gosec // chance, no secret
	return min(max(wait, asked), h.settings.LongestWait)
}

// Test sends a test to a webhook, enabled or not, and returns the result. The same key
// sends one test, however often it is used.
func (h *Hooks) Test(ctx context.Context, webhook int64, key string) (store.Delivery, error) {
	d, fresh, err := h.store.TestWebhook(ctx, webhook, TestEvent, key, h.lease())
	if err != nil {
		return store.Delivery{}, err
	}
	if fresh {
		h.attempt(context.WithoutCancel(ctx), d)
		h.client.CloseIdleConnections() // most who test have no loop that reuses them
	}
	return h.store.Delivery(ctx, webhook, d.ID)
}

// sweep removes old entries of the log, and expired answers of idempotency keys.
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
