package admission

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/fault"
	"github.com/rocketgpt/orchestrator/internal/model"
	"github.com/rocketgpt/orchestrator/internal/store/providers"
	"github.com/rocketgpt/orchestrator/internal/telemetry"
)

const (
	// DefaultPoll is the mean time between two looks at the queue of a provider in which calls of
	// this process wait.
	DefaultPoll = 100 * time.Millisecond
	// DefaultLease is how long the calls of a worker that has died count.
	DefaultLease = 15 * time.Second
	// DefaultAnnounce is how long a call waits before an event of its run says so.
	DefaultAnnounce = 5 * time.Second
	// announceEvery is the least time between two such events of a run about a provider.
	announceEvery = time.Minute
)

// queues are the queues of the providers, as far as calls of this process are in them. One goroutine
// for each provider with such calls admits calls of all workers in turn, looks where its own are, and
// renews their leases.
type queues struct {
	gate *Gate
	mu   sync.Mutex
	of   map[string]*queue
}

// queue is that of one provider.
type queue struct {
	gate     *Gate
	provider string
	limits   providers.Limits
	wake     chan struct{} // something has changed

	// Guarded by queues.mu:
	waiting map[int64]*ticket
	active  map[int64]bool
}

// ticket is a waiting call.
type ticket struct {
	call     providers.QueuedCall
	since    time.Time
	admitted chan struct{} // closed when it may be made, or when it was lost
	lost     bool
	position int

	announced time.Time // when an event was recorded; zero: never
}

// turn is an admitted call.
type turn struct {
	queue *queue // nil: the provider has no limits
	id    int64
}

// limited reports whether calls of a provider must queue.
func (g *Gate) limited(ctx context.Context, provider string) (providers.Limits, bool) {
	limits := g.o.Limits[provider]
	if !limits.None() {
		return limits, true
	}
	s := g.state(ctx)
	for _, p := range s.pauses {
		if p.Provider == provider && p.For > time.Since(s.at) {
			return limits, true
		}
	}
	return limits, false
}

// enter waits for the turn of a call at its provider.
func (g *Gate) enter(ctx context.Context, c providers.QueuedCall) (turn, error) {
	limits, limited := g.limited(ctx, c.Provider)
	if !limited {
		return turn{}, nil
	}
	began := time.Now()
	id, err := g.rows.Enqueue(ctx, c, g.o.Lease)
	if err != nil {
		return turn{}, err
	}
	q, t := g.queues.add(c, limits, id, began)
	select {
	case <-t.admitted:
	case <-ctx.Done():
		g.queues.leave(q, id)
		return turn{}, fault.Wrap(ctx.Err(), contract.ClassInfra, fault.Of(ctx.Err()).Code, "the call of model %s ended while it waited for provider %s", fault.Clip(c.Model, 80), c.Provider)
	}
	waited := time.Since(began)
	telemetry.ObserveProviderWait(c.Provider, waited)
	if t.lost {
		return turn{}, fault.New(contract.ClassInfra, contract.CodeUnavailable,
			"the call of model %s lost its place in the queue of provider %s, because this worker could not renew it; it will be retried", fault.Clip(c.Model, 80), c.Provider)
	}
	if t.position > 0 {
		g.o.Log.InfoContext(ctx, "A model call waited for its turn", "provider", c.Provider, "run", c.RunID, "waited", waited, "position", t.position)
	}
	return turn{queue: q, id: id}, nil
}

// done ends an admitted call: tokens replaces the estimate.
func (t turn) done(ctx context.Context, tokens int64) {
	t.end(ctx, func() error { return t.queue.gate.rows.Finish(ctx, t.id, tokens) })
}

// unused gives back the turn of a call that is not made.
func (t turn) unused(ctx context.Context) {
	t.end(ctx, func() error { return t.queue.gate.rows.Leave(ctx, t.id) })
}

func (t turn) end(ctx context.Context, write func() error) {
	if t.queue == nil {
		return
	}
	if err := write(); err != nil {
		t.queue.gate.o.Log.WarnContext(ctx, "Could not end a call in the queue of its provider; its lease will expire", "provider", t.queue.provider, "error", err)
	}
	t.queue.gate.queues.remove(t.queue, t.id)
}

// add adds a waiting call of this process, and starts the goroutine of its provider.
func (qs *queues) add(c providers.QueuedCall, limits providers.Limits, id int64, since time.Time) (*queue, *ticket) {
	qs.mu.Lock()
	defer qs.mu.Unlock()
	q, running := qs.of[c.Provider]
	if !running {
		q = &queue{gate: qs.gate, provider: c.Provider, limits: limits, wake: make(chan struct{}, 1), waiting: map[int64]*ticket{}, active: map[int64]bool{}}
		qs.of[c.Provider] = q
		go q.run()
	}
	t := &ticket{call: c, since: since, admitted: make(chan struct{})}
	q.waiting[id] = t
	q.notify()
	return q, t
}

// leave removes a call that no longer waits.
func (qs *queues) leave(q *queue, id int64) {
	ctx, cancel := context.WithTimeout(context.Background(), storeTimeout)
	defer cancel()
	turn{queue: q, id: id}.unused(ctx)
}

func (qs *queues) remove(q *queue, id int64) {
	qs.mu.Lock()
	defer qs.mu.Unlock()
	delete(q.waiting, id)
	delete(q.active, id)
	q.notify()
}

// notify makes the goroutine look at the queue now.
func (q *queue) notify() {
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

// ids returns the waiting and the active calls of this process. If there are none, it removes the
// queue, whose goroutine then ends.
func (q *queue) ids() (waiting, all []int64) {
	qs := &q.gate.queues
	qs.mu.Lock()
	defer qs.mu.Unlock()
	for id := range q.waiting {
		waiting = append(waiting, id)
	}
	all = waiting
	for id := range q.active {
		all = append(all, id)
	}
	if len(all) == 0 {
		delete(qs.of, q.provider)
	}
	return waiting, all
}

// run serves the calls of this process until there are none.
func (q *queue) run() {
	ctx := context.Background() // it outlives the call that started it
	renewed := time.Now()
	for {
		waiting, all := q.ids()
		if len(all) == 0 {
			return
		}
		pause := q.gate.o.Lease / renewals
		if due := time.Now(); due.Sub(renewed) >= pause {
			if q.try(ctx, "extend the leases", func(ctx context.Context) error { return q.gate.rows.Renew(ctx, q.provider, all, q.gate.o.Lease) }) {
				renewed = due
			} else {
				pause /= renewals // there is time for more attempts
			}
		}
		if len(waiting) > 0 {
			q.try(ctx, "admit calls", func(ctx context.Context) error { return q.look(ctx, waiting) })
			pause = min(pause, q.gate.o.Poll/2+rand.N(q.gate.o.Poll))
		}
		select {
		case <-q.wake:
		case <-time.After(pause):
		}
	}
}

// try limits an attempt to a part of the lease, so that it leaves time for others, and reports whether
// it succeeded.
func (q *queue) try(ctx context.Context, what string, do func(context.Context) error) bool {
	ctx, cancel := context.WithTimeout(ctx, min(storeTimeout, q.gate.o.Lease/renewals))
	defer cancel()
	err := do(ctx)
	if err != nil {
		q.gate.o.Log.WarnContext(ctx, "Could not "+what+" in the queue of a model provider; trying again", "provider", q.provider, "error", err)
	}
	return err == nil
}

// look admits calls, and notifies those of this process that were admitted.
func (q *queue) look(ctx context.Context, waiting []int64) error {
	if err := q.gate.rows.Admit(ctx, q.provider, q.limits); err != nil {
		return err
	}
	places, err := q.gate.rows.Places(ctx, waiting)
	if err != nil {
		return err
	}
	qs := &q.gate.queues
	qs.mu.Lock()
	defer qs.mu.Unlock()
	for _, id := range waiting {
		t, still := q.waiting[id]
		if !still {
			continue
		}
		place, known := places[id]
		if known && !place.Admitted {
			t.position = max(t.position, place.Position)
			q.announce(t, place.Position)
			continue
		}
		delete(q.waiting, id)
		if t.lost = !known; known {
			q.active[id] = true
		}
		close(t.admitted)
	}
	return nil
}

// announce records that a call waits for long, with an event of its run, in the background: the queue
// does not wait for the row of a run.
func (q *queue) announce(t *ticket, position int) {
	now := time.Now()
	if t.call.RunID == 0 || position == 0 || now.Sub(t.since) < q.gate.o.Announce || now.Sub(t.announced) < announceEvery {
		return
	}
	t.announced = now
	waiting := providers.Waiting{Provider: t.call.Provider, Model: t.call.Model, Agent: t.call.Agent, Step: t.call.Step, Position: position, Since: t.since.UTC()}
	go q.try(context.Background(), "record that a run waits", func(ctx context.Context) error {
		_, err := q.gate.rows.AnnounceWait(ctx, t.call.RunID, waiting, announceEvery)
		return err
	})
}

// tokensOf estimates the tokens of a call.
func tokensOf(r model.Request) int64 { return model.EstimateTokens(r.Messages, r.Tools) + r.MaxOutput }
