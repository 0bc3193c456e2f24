package store

import (
	"context"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/rocketgpt/orchestrator/internal/store/db"
	"github.com/rocketgpt/orchestrator/internal/store/internal/dberr"
)

// hub wakes the readers of topics: one connection of its own listens for all of
// them, from the first follower on until the store is closed. Should that lose
// something without a word, one query for all tells what it was, at most
// Options.PollEvery later.
type hub struct {
	cfg       *pgx.ConnConfig
	q         *db.Queries
	pollEvery time.Duration
	cancel    context.CancelFunc
	ctx       context.Context
	done      <-chan struct{} // closed with the hub

	mu      sync.Mutex
	running sync.WaitGroup
	started bool
	closed  bool
	topics  map[int64]*topic
}

func newHub(cfg *pgx.ConnConfig, q *db.Queries, pollEvery time.Duration) *hub {
	ctx, cancel := context.WithCancel(context.Background()) // ends with close, not with whoever came first
	return &hub{cfg: cfg.Copy(), q: q, pollEvery: pollEvery, ctx: ctx, cancel: cancel, done: ctx.Done(), topics: map[int64]*topic{}}
}

// join returns a topic, whose reader is at work until the last follower has left.
func (h *hub) join(id int64, from source) (*topic, func(), error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return nil, nil, dberr.Closed()
	}
	if !h.started {
		h.started = true
		h.running.Go(h.listen)
		h.running.Go(h.poll)
	}
	t := h.topics[id]
	if t == nil {
		ctx, cancel := context.WithCancel(h.ctx)
		t = newTopic(id, cancel)
		h.topics[id] = t
		h.running.Go(func() {
			t.read(ctx, from, h.pollEvery)
			h.drop(t) // who follows next finds out for itself why it ended
		})
	}
	t.followers++
	return t, func() {
		h.mu.Lock()
		t.followers--
		last := t.followers == 0
		h.mu.Unlock()
		if last {
			h.drop(t)
		}
	}, nil
}

// drop ends a topic that nobody is to join any more.
func (h *hub) drop(t *topic) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if t.followers > 0 && t.failure() == nil {
		return // somebody came in between
	}
	t.leave()
	if h.topics[t.id] == t {
		delete(h.topics, t.id)
	}
}

func (h *hub) close() {
	h.mu.Lock()
	h.closed = true
	h.mu.Unlock()
	h.cancel()
	h.running.Wait()
}

// listen keeps a listening connection until the hub is closed.
func (h *hub) listen() {
	wait := 50 * time.Millisecond
	for h.ctx.Err() == nil {
		conn, err := pgx.ConnectConfig(h.ctx, h.cfg)
		if err == nil {
			err = h.hear(conn)
			_ = conn.Close(context.WithoutCancel(h.ctx)) // lost or no longer needed
			if err == nil {
				wait = 50 * time.Millisecond
				continue
			}
		}
		select {
		case <-h.ctx.Done():
		case <-time.After(wait):
			wait = min(2*wait, time.Second)
		}
	}
}

// hear passes notifications on until the connection is lost, which is nil if it
// had listened.
func (h *hub) hear(conn *pgx.Conn) error {
	// sqlc knows no LISTEN.
	if _, err := conn.Exec(h.ctx, "LISTEN rgpt_events"); err != nil {
		return err
	}
	h.wakeAll() // for what came while nobody listened
	for {
		n, err := conn.WaitForNotification(h.ctx)
		if err != nil {
			return nil //nolint:nilerr // the connection is made again
		}
		run, seq, _ := strings.Cut(n.Payload, ":")
		id, err := strconv.ParseInt(run, 10, 64)
		last, wrong := strconv.ParseInt(seq, 10, 64)
		if err == nil && wrong == nil { // else somebody else's
			h.wake(id, last)
		}
	}
}

// poll asks now and then what has happened since, for all topics at once.
func (h *hub) poll() {
	tick := time.NewTicker(h.pollEvery)
	defer tick.Stop()
	after := int64(-1) // the transaction from which on to ask: unknown
	for {
		if upto, err := h.look(after); err == nil { // else the next time
			after = upto
		}
		select {
		case <-h.ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// look wakes who reads runs with events of transactions from one on, and returns
// from which on to look next. Without one, or with one that this cluster has not
// come to (it was restored), all are woken.
func (h *hub) look(after int64) (int64, error) {
	if after < 0 {
		upto, err := h.q.FeedEnd(h.ctx)
		if err == nil {
			h.wakeAll()
		}
		return upto, err
	}
	rows, err := h.q.EventsSince(h.ctx, strconv.FormatInt(after, 10))
	if err != nil || len(rows) == 0 {
		return after, err
	}
	if rows[0].Upto < after {
		h.wakeAll()
	}
	for _, r := range rows {
		if r.RunID != 0 {
			h.polled(r.RunID, r.Seq)
		}
	}
	return rows[0].Upto, nil
}

// polled wakes who has missed an event.
func (h *hub) polled(run, seq int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if t := h.topics[run]; t != nil {
		t.announce(run, seq)
	}
	if t := h.topics[allRuns]; t != nil {
		ring(t.wake) // it keeps no numbers of runs; one look finds nothing or all
	}
}

// wake wakes who reads a run with an event up to a number, and who reads all.
func (h *hub) wake(run, seq int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, id := range []int64{run, allRuns} {
		if t := h.topics[id]; t != nil {
			t.announce(run, seq)
		}
	}
}

func (h *hub) wakeAll() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, t := range h.topics {
		ring(t.wake)
	}
}
