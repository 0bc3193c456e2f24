package store

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/fault"
)

// allRuns is the topic of those who follow every run.
const allRuns = 0

// Follow calls fn with each event of a run after a number, in order and each
// exactly once, and waits for more. It ends with nil when fn returns ErrStop,
// with fn's error when it returns another one, and with the context's error
// when that ends. A lost connection is made again without a gap or a double:
// notifications only wake, the events are read from their rows. Each follower
// goes at its own pace; many share one listening connection.
func (s *Store) Follow(ctx context.Context, runID, afterSeq int64, fn func(contract.Event) error) error {
	if _, err := s.Run(ctx, runID); err != nil && errors.Is(err, ErrNotFound) {
		return err
	}
	return s.follow(ctx, runID, func() (bool, error) {
		events, err := s.Events(ctx, runID, afterSeq, 500)
		if err != nil {
			return false, err
		}
		for _, e := range events {
			if err := fn(e); err != nil {
				return false, stopped{err}
			}
			afterSeq = e.Seq
		}
		return len(events) > 0, nil
	})
}

// FollowAll is Follow for the events of all runs, in the order of Feed.
func (s *Store) FollowAll(ctx context.Context, after FeedCursor, fn func(FeedEvent) error) error {
	return s.follow(ctx, allRuns, func() (bool, error) {
		events, err := s.Feed(ctx, after, 500)
		if err != nil {
			return false, err
		}
		for _, e := range events {
			if err := fn(e); err != nil {
				return false, stopped{err}
			}
			after = e.Cursor
		}
		return len(events) > 0, nil
	})
}

// stopped carries what a follower's function returned.
type stopped struct{ error }

// follow reads until there is nothing, then waits to be woken, over and over.
func (s *Store) follow(ctx context.Context, topic int64, read func() (more bool, err error)) error {
	wake, leave, err := s.hub.join(topic)
	if err != nil {
		return err
	}
	defer leave()
	timer := time.NewTimer(s.options.PollEvery)
	defer timer.Stop()
	wait := s.options.PollEvery
	for {
		more, err := read()
		var end stopped
		switch {
		case errors.As(err, &end):
			if errors.Is(end.error, ErrStop) {
				return nil
			}
			return end.error
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil:
			if fault.Of(err).Class != contract.ClassInfra {
				return err
			}
			wait = 100 * time.Millisecond // the database comes back
		case more:
			wait = s.options.PollEvery
			continue
		}
		timer.Reset(wait)
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-s.hub.done:
			return errClosed()
		case <-wake:
			// What was announced may still lie behind another transaction that
			// is about to end (Feed), so soon look again.
			wait = 10 * time.Millisecond
		case <-timer.C:
			wait = min(2*wait, s.options.PollEvery)
		}
	}
}

func errClosed() error {
	return fault.New(contract.ClassInfra, contract.CodeCancelled, "the store was closed")
}

// hub wakes followers: one connection of its own listens for all of them, from
// the first one on until the store is closed.
type hub struct {
	cfg    *pgx.ConnConfig
	cancel context.CancelFunc
	ctx    context.Context
	done   <-chan struct{} // closed with the hub

	mu      sync.Mutex
	running sync.WaitGroup
	started bool
	closed  bool
	topics  map[int64]map[chan struct{}]struct{}
}

func newHub(cfg *pgx.ConnConfig) *hub {
	ctx, cancel := context.WithCancel(context.Background()) // ends with close, not with whoever came first
	return &hub{cfg: cfg.Copy(), ctx: ctx, cancel: cancel, done: ctx.Done(), topics: map[int64]map[chan struct{}]struct{}{}}
}

// join returns a channel that is ready after something may have happened to the
// topic, and a function that ends this.
func (h *hub) join(topic int64) (<-chan struct{}, func(), error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return nil, nil, errClosed()
	}
	if !h.started {
		h.started = true
		h.running.Go(h.listen)
	}
	wake := make(chan struct{}, 1)
	if h.topics[topic] == nil {
		h.topics[topic] = map[chan struct{}]struct{}{}
	}
	h.topics[topic][wake] = struct{}{}
	return wake, func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		delete(h.topics[topic], wake)
		if len(h.topics[topic]) == 0 {
			delete(h.topics, topic)
		}
	}, nil
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
		h.wake(n.Payload)
	}
}

// wake wakes those who follow the run of a payload, run:seq, or all runs.
func (h *hub) wake(payload string) {
	run, _, _ := strings.Cut(payload, ":")
	id, err := strconv.ParseInt(run, 10, 64)
	if err != nil {
		return // somebody else's
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, topic := range []int64{id, allRuns} {
		for ch := range h.topics[topic] {
			ring(ch)
		}
	}
}

func (h *hub) wakeAll() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, topic := range h.topics {
		for ch := range topic {
			ring(ch)
		}
	}
}

// ring leaves a mark that is not lost and does not pile up.
func ring(ch chan struct{}) {
	select {
	case ch <- struct{}{}:
	default:
	}
}
