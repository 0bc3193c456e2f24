package store

import (
	"context"
	"slices"
	"sort"
	"sync"
	"time"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/fault"
)

// What the readers keep of the last events for those who follow, in bytes. Who
// is further behind reads alone.
const (
	keptOfRun = 64 << 10
	keptOfAll = 1 << 20
	soonAgain = 10 * time.Millisecond // to look whether an event that was announced has become readable
)

// topic is what some follow: the events of a run, or of all. One reader reads
// each of them once for all followers.
type topic struct {
	id    int64
	kept  int // bytes of events
	wake  chan struct{}
	leave context.CancelFunc

	mu        sync.Mutex
	followers int
	ready     bool
	start     FeedCursor // events are all that there are from here
	head      FeedCursor // to here
	events    []FeedEvent
	owed      map[int64]int64 // of all runs: the events that were announced and not read yet
	err       error           // that ended the reader
	changed   chan struct{}   // closed when any of these changes
}

func newTopic(id int64, leave context.CancelFunc) *topic {
	t := &topic{id: id, kept: keptOfRun, wake: make(chan struct{}, 1), leave: leave, changed: make(chan struct{})}
	if id == allRuns {
		t.kept, t.owed = keptOfAll, map[int64]int64{}
	}
	return t
}

// view is what a topic has for a follower.
type view struct {
	events  []FeedEvent
	behind  bool       // there may be earlier ones, which the topic does not have
	head    FeedCursor // all up to here can be read
	err     error
	changed <-chan struct{}
}

// look returns what a topic has after a place.
func (t *topic) look(after FeedCursor) view {
	t.mu.Lock()
	defer t.mu.Unlock()
	v := view{head: t.head, err: t.err, changed: t.changed, behind: !t.ready || after.before(t.start)}
	if !v.behind {
		i := sort.Search(len(t.events), func(i int) bool { return after.before(t.events[i].Cursor) })
		v.events = slices.Clone(t.events[i:])
	}
	return v
}

// announce notes that a run has events up to a number, and wakes the reader if
// it has not read that.
func (t *topic) announce(run, seq int64) {
	t.mu.Lock()
	known := t.id != allRuns && t.ready && t.head.ID >= seq
	if t.id == allRuns && t.owed[run] < seq {
		t.owed[run] = seq
	}
	t.mu.Unlock()
	if !known {
		ring(t.wake)
	}
}

// read keeps a topic at its end until the context ends or the database refuses.
func (t *topic) read(ctx context.Context, from source, pollEvery time.Duration) {
	pages := pager{source: from}
	timer := time.NewTimer(0)
	defer timer.Stop()
	wait := soonAgain
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.wake:
			wait = soonAgain
		case <-timer.C:
		}
		err := t.advance(ctx, &pages)
		switch {
		case ctx.Err() != nil:
			return
		case err == nil && t.settled(wait >= pollEvery):
			continue
		case err != nil && fault.Of(err).Class != contract.ClassInfra:
			t.change(func() { t.err = err })
			return
		case err != nil:
			wait = max(wait, retryRead)
		}
		timer.Reset(wait)
		wait = min(2*wait, pollEvery)
	}
}

// advance reads until there is no more.
func (t *topic) advance(ctx context.Context, pages *pager) error {
	if !t.ready { // the reader alone writes it
		end, err := pages.end(ctx)
		if err != nil {
			return err
		}
		t.change(func() { t.start, t.head, t.ready = end, end, true })
	}
	for {
		events, err := pages.next(ctx, t.head)
		if err != nil {
			return err
		}
		if len(events) > 0 {
			t.change(func() { t.keep(events) })
		}
		if !pages.full {
			return nil
		}
	}
}

// keep adds events and drops the oldest ones that are too many.
func (t *topic) keep(events []FeedEvent) {
	for _, e := range events {
		if t.owed[e.RunID] <= e.Seq {
			delete(t.owed, e.RunID)
		}
	}
	t.events = append(t.events, events...)
	t.head = events[len(events)-1].Cursor
	over := weigh(t.events) - t.kept
	drop := 0
	for ; over > 0 && drop < len(t.events); drop++ {
		over -= weigh(t.events[drop : drop+1])
	}
	if drop > 0 {
		t.start = t.events[drop-1].Cursor
		t.events = slices.Clone(t.events[drop:]) // what was dropped can go
	}
}

// settled reports whether all that was announced has been read. What lies behind
// a transaction under way (Feed) is looked for again, for a while: after that it
// is polling that finds it.
func (t *topic) settled(giveUp bool) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if giveUp {
		clear(t.owed)
	}
	return len(t.owed) == 0
}

// change changes what followers see, and tells them.
func (t *topic) change(do func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	do()
	close(t.changed)
	t.changed = make(chan struct{})
}

// ring leaves a mark that is not lost and does not pile up.
func ring(ch chan struct{}) {
	select {
	case ch <- struct{}{}:
	default:
	}
}

// failure returns what ended the reader.
func (t *topic) failure() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.err
}
