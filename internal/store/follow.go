package store

import (
	"context"
	"errors"
	"math"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/fault"
	"github.com/rocketgpt/orchestrator/internal/store/internal/dberr"
	"github.com/rocketgpt/orchestrator/internal/store/internal/rowconv"
)

// allRuns is the topic of those who follow every run.
const allRuns = 0

// Follow calls fn with each event of a run after a number, in order and each
// exactly once, and waits for more. It ends with nil when fn returns ErrStop,
// with fn's error when it returns another one, and with the context's error
// when that ends. A lost connection is made again without a gap or a double:
// notifications only wake, the events are read from their rows. Each follower
// goes at its own pace. Those of the same run that are at its end share one
// reader; nobody who waits asks the database anything.
func (s *Store) Follow(ctx context.Context, runID, afterSeq int64, fn func(contract.Event) error) error {
	if _, err := s.q.EventSeq(ctx, runID); errors.Is(err, pgx.ErrNoRows) {
		return dberr.NoRun(runID)
	}
	return s.follow(ctx, runID, FeedCursor{ID: afterSeq}, func(e FeedEvent) error { return fn(e.Event) })
}

// FollowAll is Follow for the events of all runs, in the order of Feed.
func (s *Store) FollowAll(ctx context.Context, after FeedCursor, fn func(FeedEvent) error) error {
	return s.follow(ctx, allRuns, after, fn)
}

// source reads the events of a topic. Those of one run have their number as the
// place in it.
type source struct {
	read func(ctx context.Context, after FeedCursor, most int) ([]FeedEvent, error)
	end  func(ctx context.Context) (FeedCursor, error) // all events up to it are there
}

func (s *Store) sourceOf(topic int64) source {
	if topic == allRuns {
		return source{read: s.Feed, end: s.FeedEnd}
	}
	return source{
		read: func(ctx context.Context, after FeedCursor, most int) ([]FeedEvent, error) {
			events, err := s.Events(ctx, topic, after.ID, most)
			return rowconv.Convert(events, func(e contract.Event) FeedEvent { return FeedEvent{Event: e, Cursor: FeedCursor{ID: e.Seq}} }), err
		},
		end: func(ctx context.Context) (FeedCursor, error) {
			seq, err := s.q.EventSeq(ctx, topic)
			return FeedCursor{ID: seq}, dberr.OfRun(err, topic, "find the last event of run %d", topic)
		},
	}
}

// follow hands out what the topic's reader has, and reads by itself what lies
// before that.
func (s *Store) follow(ctx context.Context, id int64, after FeedCursor, fn func(FeedEvent) error) error {
	from := s.sourceOf(id)
	t, leave, err := s.hub.join(id, from)
	if err != nil {
		return err
	}
	defer leave()
	behind := pager{source: from}
	for {
		now := t.look(after)
		events, err := now.events, now.err
		if err == nil && now.behind {
			events, err = behind.next(ctx, after)
		}
		if err != nil {
			if err := s.bear(ctx, err); err != nil {
				return err
			}
			continue
		}
		if after, err = hand(after, events, fn); err != nil {
			return unlessStop(err)
		}
		more := now.behind && behind.full
		if now.behind && !more && after.before(now.head) {
			after = now.head // what was there up to it has been handed out
		}
		if more || len(events) > 0 {
			continue
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-s.hub.done:
			return dberr.Closed()
		case <-now.changed:
		}
	}
}

// hand calls fn with events and returns how far it came.
func hand(after FeedCursor, events []FeedEvent, fn func(FeedEvent) error) (FeedCursor, error) {
	for _, e := range events {
		if err := fn(e); err != nil {
			return after, err
		}
		after = e.Cursor
	}
	return after, nil
}

func unlessStop(err error) error {
	if errors.Is(err, ErrStop) {
		return nil
	}
	return err
}

// bear waits a moment where the database is away, and comes back with an error
// where there is no hope or nobody waits any more.
func (s *Store) bear(ctx context.Context, err error) error {
	if ctx.Err() == nil && fault.Of(err).Class != contract.ClassInfra {
		return err
	}
	timer := time.NewTimer(retryRead)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-s.hub.done:
		return dberr.Closed()
	case <-timer.C:
		return nil
	}
}

// whenever calls do until there is no more, and again when any run has new
// events, or when nobody has announced any for Options.PollEvery.
func (s *Store) whenever(ctx context.Context, do func() (more bool, err error)) error {
	t, leave, err := s.hub.join(allRuns, s.sourceOf(allRuns))
	if err != nil {
		return err
	}
	defer leave()
	timer := time.NewTimer(s.options.PollEvery)
	defer timer.Stop()
	for {
		now := t.look(latest)
		more, err := do()
		if err := errors.Join(now.err, err); err != nil {
			if err := s.bear(ctx, err); err != nil {
				return err
			}
			continue
		}
		if more {
			continue
		}
		timer.Reset(s.options.PollEvery)
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-s.hub.done:
			return dberr.Closed()
		case <-now.changed:
		case <-timer.C:
		}
	}
}

// latest is a place after all events.
var latest = FeedCursor{Tx: math.MaxInt64, ID: math.MaxInt64}

// retryRead is how long who could not read waits before trying again.
const retryRead = 100 * time.Millisecond

// before reports whether a place comes before another one.
func (c FeedCursor) before(d FeedCursor) bool {
	return c.Tx < d.Tx || c.Tx == d.Tx && c.ID < d.ID
}

// Pages are small at first, then of as many events as the last one says weigh
// enough. What weighs more all the same is read again later: whoever is slow
// holds one page in memory.
const (
	firstPage = 8
	mostPage  = 200
	pageBytes = 256 << 10
)

// pager reads events page by page.
type pager struct {
	source
	most int
	full bool // the last page was: there may be more
}

func (p *pager) next(ctx context.Context, after FeedCursor) ([]FeedEvent, error) {
	if p.most == 0 {
		p.most = firstPage
	}
	events, err := p.read(ctx, after, p.most)
	p.full = err == nil && len(events) == p.most
	if len(events) == 0 {
		return nil, err
	}
	p.most = max(1, min(mostPage, pageBytes*len(events)/weigh(events)))
	for n, bytes := 1, weigh(events[:1]); n < len(events); n++ {
		if bytes += weigh(events[n : n+1]); bytes > pageBytes {
			p.full = true
			return slices.Clone(events[:n]), err // the rest can go
		}
	}
	return events, err
}

// weigh returns about how much memory events take.
func weigh(events []FeedEvent) (bytes int) {
	const each = 256 // of the event beside its payload
	for _, e := range events {
		bytes += each + len(e.Payload)
	}
	return bytes
}
