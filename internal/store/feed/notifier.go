package feed

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

// notifier wakes the readers of fan-outs. One dedicated connection listens for all of
// them, from the first follower until the feed is closed. If a notification is lost,
// one query for all readers finds its events within Options.PollEvery.
type notifier struct {
	cfg     *pgx.ConnConfig
	q       *db.Queries
	options Options
	cancel  context.CancelFunc
	ctx     context.Context
	done    <-chan struct{} // closed with the notifier

	mu      sync.Mutex
	running sync.WaitGroup
	started bool
	closed  bool
	fanouts map[int64]*fanout
}

func newNotifier(cfg *pgx.ConnConfig, q *db.Queries, o Options) *notifier {
	ctx, cancel := context.WithCancel(context.Background()) // outlives the first follower
	return &notifier{cfg: cfg.Copy(), q: q, options: o, ctx: ctx, cancel: cancel, done: ctx.Done(), fanouts: map[int64]*fanout{}}
}

// subscribe returns a fan-out, whose reader runs until its last follower leaves.
func (n *notifier) subscribe(id int64, from source) (*fanout, func(), error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.closed {
		return nil, nil, dberr.Closed()
	}
	if !n.started {
		n.started = true
		n.running.Go(n.listen)
		n.running.Go(n.poll)
	}
	f := n.fanouts[id]
	if f == nil {
		ctx, cancel := context.WithCancel(n.ctx)
		f = newFanout(id, cancel)
		n.fanouts[id] = f
		n.running.Go(func() {
			f.read(ctx, from, n.options)
			n.drop(f) // the next follower starts another reader
		})
	}
	f.followers++
	return f, func() {
		n.mu.Lock()
		f.followers--
		last := f.followers == 0
		n.mu.Unlock()
		if last {
			n.drop(f)
		}
	}, nil
}

// drop ends a fan-out without followers.
func (n *notifier) drop(f *fanout) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if f.followers > 0 && f.failure() == nil {
		return // a follower has subscribed in the meantime
	}
	f.leave()
	if n.fanouts[f.id] == f {
		delete(n.fanouts, f.id)
	}
}

func (n *notifier) close() {
	n.mu.Lock()
	n.closed = true
	n.mu.Unlock()
	n.cancel()
	n.running.Wait()
}

// listen keeps a listening connection until the notifier is closed.
func (n *notifier) listen() {
	wait := 50 * time.Millisecond
	for n.ctx.Err() == nil {
		conn, err := pgx.ConnectConfig(n.ctx, n.cfg)
		if err == nil {
			err = n.receive(conn)
			_ = conn.Close(context.WithoutCancel(n.ctx)) // lost or no longer needed
			if err == nil {
				wait = 50 * time.Millisecond
				continue
			}
		}
		select {
		case <-n.ctx.Done():
		case <-time.After(wait):
			wait = min(2*wait, time.Second)
		}
	}
}

// receive passes notifications on until the connection is lost. It returns an error only if it
// could not listen.
func (n *notifier) receive(conn *pgx.Conn) error {
	// sqlc knows no LISTEN.
	if _, err := conn.Exec(n.ctx, "LISTEN rgpt_events"); err != nil {
		return err
	}
	n.wakeAll() // for events committed while there was no connection
	for {
		note, err := conn.WaitForNotification(n.ctx)
		if err != nil {
			return nil //nolint:nilerr // the caller reconnects
		}
		run, seq, _ := strings.Cut(note.Payload, ":")
		id, err := strconv.ParseInt(run, 10, 64)
		last, wrong := strconv.ParseInt(seq, 10, 64)
		if err == nil && wrong == nil { // else another program's
			n.wake(id, last)
		}
	}
}

// poll regularly looks for new events, with one query for all fan-outs.
func (n *notifier) poll() {
	tick := time.NewTicker(n.options.PollEvery)
	defer tick.Stop()
	after := int64(-1) // the transaction to start from; not known yet
	for {
		if upto, err := n.pollSince(after); err == nil { // else the next time
			after = upto
		}
		select {
		case <-n.ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// pollSince wakes the readers of runs that have events since a transaction, and returns the
// transaction to start from next time. Without one, or with one that this cluster has not reached
// (it was restored), it wakes all readers.
func (n *notifier) pollSince(after int64) (int64, error) {
	if after < 0 {
		upto, err := n.q.FeedEnd(n.ctx)
		if err == nil {
			n.wakeAll()
		}
		return upto, err
	}
	rows, err := n.q.EventsSince(n.ctx, strconv.FormatInt(after, 10))
	if err != nil || len(rows) == 0 {
		return after, err
	}
	if rows[0].Upto < after {
		n.wakeAll()
	}
	for _, r := range rows {
		if r.RunID != 0 {
			n.wakeUnread(r.RunID, r.Seq)
		}
	}
	return rows[0].Upto, nil
}

// wakeUnread wakes the readers that have not read an event.
func (n *notifier) wakeUnread(run, seq int64) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if f := n.fanouts[run]; f != nil {
		f.announce(run, seq)
	}
	if f := n.fanouts[allRuns]; f != nil {
		signal(f.wake) // it does not track event numbers per run; one query finds either nothing or everything
	}
}

// wake wakes the readers of a run that has events up to a number, and of all runs.
func (n *notifier) wake(run, seq int64) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, id := range []int64{run, allRuns} {
		if f := n.fanouts[id]; f != nil {
			f.announce(run, seq)
		}
	}
}

func (n *notifier) wakeAll() {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, f := range n.fanouts {
		signal(f.wake)
	}
}
