// Package feed follows the events of runs as they are committed. A follower gets each event exactly
// once and in order, across lost connections: notifications (LISTEN/NOTIFY) only wake it, a cursor
// records how far it has read. Followers of the same events share one reader. It also passes on what
// models write while they write it, which is stored nowhere.
package feed

import (
	"context"
	"errors"
	"math"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/fault"
	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/internal/store/db"
	"github.com/rocketgpt/orchestrator/internal/store/internal/dberr"
	"github.com/rocketgpt/orchestrator/internal/store/internal/rowconv"
)

// ErrStop ends Follow and FollowAll without an error.
var ErrStop = errors.New("stop following")

// Options configure how a process follows events. The zero value is usable.
type Options struct {
	PollEvery time.Duration // how often one query finds events whose notification was lost; default 3 s
	// ReadAllEvery is the shortest time between two reads of the events of all runs; default 200 ms. An event
	// after a quiet time is read at once. Without it, each transaction of each run would cost a read, and the
	// work of everyone who follows all runs.
	ReadAllEvery time.Duration
}

// Feed follows events. It is safe for concurrent use. A process needs one.
type Feed struct {
	store    *store.Store
	q        *db.Queries
	notifier *notifier
	texts    *texts
}

// New returns the feed of a store. It opens no connection until something follows.
func New(st *store.Store, options Options) *Feed {
	if options.PollEvery <= 0 {
		options.PollEvery = 3 * time.Second
	}
	if options.ReadAllEvery <= 0 {
		options.ReadAllEvery = 200 * time.Millisecond
	}
	return &Feed{store: st, q: st.Queries(), notifier: newNotifier(st.ConnConfig(), st.Queries(), options), texts: newTexts(st.ConnConfig())}
}

// Close ends all followers.
func (f *Feed) Close() {
	f.notifier.close()
	f.texts.close()
}

// allRuns is the run id that followers of all events use.
const allRuns = 0

// Follow calls fn with each event of a run after a number, in order and each exactly once, and
// waits for more. It returns nil if fn returns ErrStop, fn's error if it returns another one, and
// the context's error when that ends. Each follower has its own pace. Followers of the same run
// that are at its end share one reader; while they wait they send no queries.
func (f *Feed) Follow(ctx context.Context, runID, afterSeq int64, fn func(contract.Event) error) error {
	if _, err := f.q.EventSeq(ctx, runID); errors.Is(err, pgx.ErrNoRows) {
		return dberr.NoRun(runID)
	}
	return f.follow(ctx, runID, Cursor{ID: afterSeq}, func(e Event) error { return fn(e.Event) })
}

// FollowAll is Follow for the events of all runs, in the order of Page. It reads rapid events in batches; see
// Options.ReadAllEvery.
func (f *Feed) FollowAll(ctx context.Context, after Cursor, fn func(Event) error) error {
	return f.follow(ctx, allRuns, after, fn)
}

// source reads the events of one run, whose cursors are their numbers, or of all runs.
type source struct {
	read func(ctx context.Context, after Cursor, most int) ([]Event, error)
	end  func(ctx context.Context) (Cursor, error) // of the last event
}

func (f *Feed) sourceOf(id int64) source {
	if id == allRuns {
		return source{read: f.Page, end: f.End}
	}
	return source{
		read: func(ctx context.Context, after Cursor, most int) ([]Event, error) {
			events, err := f.store.Events(ctx, id, after.ID, most)
			return rowconv.Convert(events, func(e contract.Event) Event { return Event{Event: e, Cursor: Cursor{ID: e.Seq}} }), err
		},
		end: func(ctx context.Context) (Cursor, error) {
			seq, err := f.LastEvent(ctx, id)
			return Cursor{ID: seq}, err
		},
	}
}

// follow delivers what the shared reader has, and reads earlier events itself.
func (f *Feed) follow(ctx context.Context, id int64, after Cursor, fn func(Event) error) error {
	from := f.sourceOf(id)
	shared, leave, err := f.notifier.subscribe(id, from)
	if err != nil {
		return err
	}
	defer leave()
	behind := pager{source: from}
	for {
		now := shared.since(after)
		events, err := now.events, now.err
		if err == nil && now.behind {
			events, err = behind.next(ctx, after)
		}
		if err != nil {
			if err := f.backOff(ctx, err); err != nil {
				return err
			}
			continue
		}
		if after, err = deliver(after, events, fn); err != nil {
			return unlessStop(err)
		}
		more := now.behind && behind.full
		if now.behind && !more && after.before(now.head) {
			after = now.head // everything up to it has been delivered
		}
		if more || len(events) > 0 {
			continue
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-f.notifier.done:
			return dberr.Closed()
		case <-now.changed:
		}
	}
}

// deliver calls fn with events and returns the cursor of the last one delivered.
func deliver(after Cursor, events []Event, fn func(Event) error) (Cursor, error) {
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

// backOff waits a moment if the database is down. It returns an error if retrying is pointless or
// the follower's context has ended.
func (f *Feed) backOff(ctx context.Context, err error) error {
	if ctx.Err() == nil && fault.Of(err).Class != contract.ClassInfra {
		return err
	}
	timer := time.NewTimer(retryRead)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-f.notifier.done:
		return dberr.Closed()
	case <-timer.C:
		return nil
	}
}

// Watch calls do, and repeats it at once while it reports that there is more. After that, it calls do when a
// run has new events, but at least every Options.PollEvery. It returns only with an error.
func (f *Feed) Watch(ctx context.Context, do func() (more bool, err error)) error {
	shared, leave, err := f.notifier.subscribe(allRuns, f.sourceOf(allRuns))
	if err != nil {
		return err
	}
	defer leave()
	timer := time.NewTimer(f.notifier.options.PollEvery)
	defer timer.Stop()
	for {
		now := shared.since(latest)
		more, err := do()
		if err := errors.Join(now.err, err); err != nil {
			if err := f.backOff(ctx, err); err != nil {
				return err
			}
			continue
		}
		if more {
			continue
		}
		timer.Reset(f.notifier.options.PollEvery)
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-f.notifier.done:
			return dberr.Closed()
		case <-now.changed:
		case <-timer.C:
		}
	}
}

// latest is a cursor after all events.
var latest = Cursor{Tx: math.MaxInt64, ID: math.MaxInt64}

// retryRead is the wait after a failed read.
const retryRead = 100 * time.Millisecond
