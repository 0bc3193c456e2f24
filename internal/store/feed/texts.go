package feed

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/internal/store/internal/dberr"
)

// texts receives what models write while they write it, on a connection of its own, which is open
// while there are followers. It holds a shared lock for each run that is followed: without it,
// workers send nothing. The lock ends with the connection.
type texts struct {
	cfg    *pgx.ConnConfig
	ctx    context.Context
	cancel context.CancelFunc

	mu        sync.Mutex
	running   sync.WaitGroup
	listening bool
	closed    bool
	followers map[int64]map[*textFollower]bool // by run
	interrupt context.CancelFunc               // ends the wait for a notification
}

func newTexts(cfg *pgx.ConnConfig) *texts {
	ctx, cancel := context.WithCancel(context.Background()) // outlives the first follower
	return &texts{cfg: cfg.Copy(), ctx: ctx, cancel: cancel, followers: map[int64]map[*textFollower]bool{}, interrupt: func() {}}
}

// textFollower gets the texts of a run. Of each model call it gets the newest one: each contains what
// the ones before said.
type textFollower struct {
	wake chan struct{}

	mu     sync.Mutex
	order  []callKey
	newest map[callKey]store.LiveText
}

// callKey identifies a model call.
type callKey struct {
	execution int64
	turn      int
}

// FollowTexts calls fn with what models write in a run, while they write it, until fn returns an
// error (none is returned for ErrStop) or the context ends. It begins with the next text, and a slow
// follower gets only the newest text of each call. While the database is unavailable, there is none.
func (f *Feed) FollowTexts(ctx context.Context, runID int64, fn func(store.LiveText) error) error {
	if _, err := f.q.EventSeq(ctx, runID); errors.Is(err, pgx.ErrNoRows) {
		return dberr.NoRun(runID)
	}
	me := &textFollower{wake: make(chan struct{}, 1), newest: map[callKey]store.LiveText{}}
	leave, err := f.texts.follow(runID, me)
	if err != nil {
		return err
	}
	defer leave()
	for {
		for _, t := range me.take() {
			if err := fn(t); err != nil {
				return unlessStop(err)
			}
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-f.texts.ctx.Done():
			return dberr.Closed()
		case <-me.wake:
		}
	}
}

func (m *textFollower) put(t store.LiveText) {
	m.mu.Lock()
	defer m.mu.Unlock()
	key := callKey{t.ExecutionID, t.Turn}
	before, known := m.newest[key]
	if !known {
		m.order = append(m.order, key)
	} else if before.Try > t.Try {
		return
	}
	m.newest[key] = t
	signal(m.wake)
}

func (m *textFollower) take() []store.LiveText {
	m.mu.Lock()
	defer m.mu.Unlock()
	out := make([]store.LiveText, len(m.order))
	for i, key := range m.order {
		out[i] = m.newest[key]
	}
	m.order = nil
	clear(m.newest)
	return out
}

func (t *texts) follow(run int64, m *textFollower) (leave func(), err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return nil, dberr.Closed()
	}
	if t.followers[run] == nil {
		t.followers[run] = map[*textFollower]bool{}
	}
	t.followers[run][m] = true
	t.interrupt()
	if !t.listening {
		t.listening = true
		t.running.Go(t.listen)
	}
	return func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		delete(t.followers[run], m)
		if len(t.followers[run]) == 0 {
			delete(t.followers, run)
			t.interrupt()
		}
	}, nil
}

func (t *texts) close() {
	t.mu.Lock()
	t.closed = true
	t.mu.Unlock()
	t.cancel()
	t.running.Wait()
}

// listen keeps a connection until nobody follows any more.
func (t *texts) listen() {
	for wait := retryRead; ; wait = min(2*wait, time.Second) {
		if conn, err := pgx.ConnectConfig(t.ctx, t.cfg); err == nil {
			wait = retryRead
			t.receive(conn)
			_ = conn.Close(context.WithoutCancel(t.ctx)) // lost or no longer needed
		}
		if t.over() {
			return
		}
		select {
		case <-t.ctx.Done():
		case <-time.After(wait):
		}
	}
}

// over reports whether the connection is no longer needed; the next follower opens another one.
func (t *texts) over() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.followers) == 0 || t.ctx.Err() != nil {
		t.listening = false
	}
	return !t.listening
}

// receive passes texts on until the connection is lost or nobody follows.
func (t *texts) receive(conn *pgx.Conn) {
	joined := map[int64]bool{}
	for {
		ctx, runs := t.next()
		if len(runs) == 0 || t.join(conn, joined, runs) != nil {
			return
		}
		note, err := conn.WaitForNotification(ctx)
		if err != nil {
			if conn.IsClosed() || t.ctx.Err() != nil {
				return
			}
			continue // interrupted, because there are other followers
		}
		var text store.LiveText
		if json.Unmarshal([]byte(note.Payload), &text) == nil && note.Channel == store.TextChannel(text.RunID) {
			t.deliver(text)
		}
	}
}

// next returns the runs that are followed, and a context that ends when there are others.
func (t *texts) next() (context.Context, map[int64]bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.interrupt()
	ctx, cancel := context.WithCancel(t.ctx)
	t.interrupt = cancel
	runs := make(map[int64]bool, len(t.followers))
	for run := range t.followers {
		runs[run] = true
	}
	return ctx, runs
}

// join listens to the runs that are followed and to no others.
func (t *texts) join(conn *pgx.Conn, joined, runs map[int64]bool) error {
	// sqlc knows no LISTEN. The names of the channels consist of letters and digits.
	for run := range runs {
		if joined[run] {
			continue
		}
		if _, err := conn.Exec(t.ctx, "LISTEN "+store.TextChannel(run)); err != nil {
			return err
		}
		if _, err := conn.Exec(t.ctx, "SELECT pg_advisory_lock_shared(hashtextextended($1, 0))", store.TextLock(run)); err != nil {
			return err
		}
		joined[run] = true
	}
	for run := range joined {
		if runs[run] {
			continue
		}
		if _, err := conn.Exec(t.ctx, "UNLISTEN "+store.TextChannel(run)); err != nil {
			return err
		}
		if _, err := conn.Exec(t.ctx, "SELECT pg_advisory_unlock_shared(hashtextextended($1, 0))", store.TextLock(run)); err != nil {
			return err
		}
		delete(joined, run)
	}
	return nil
}

func (t *texts) deliver(text store.LiveText) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for m := range t.followers[text.RunID] {
		m.put(text)
	}
}
