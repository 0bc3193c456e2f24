package feed

import (
	"context"
	"slices"
	"sort"
	"sync"
	"time"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/fault"
)

// Bytes of recent events that a fan-out keeps for its followers. A follower that is further behind
// reads from the database itself.
const (
	bufferOfRun = 64 << 10
	bufferOfAll = 1 << 20
	firstWait   = 10 * time.Millisecond // delay before another query for an announced event
)

// fanout shares the events of a run, or of all runs, among followers: one reader reads each event
// once for all of them.
type fanout struct {
	id    int64
	limit int // bytes of events that are kept
	wake  chan struct{}
	leave context.CancelFunc

	mu        sync.Mutex
	followers int
	ready     bool
	start     Cursor // events are complete from here
	head      Cursor // to here
	events    []Event
	announced map[int64]int64 // if it follows all runs: the last event of each run that was announced but not yet read
	err       error           // that ended the reader
	changed   chan struct{}   // closed and replaced when any of these changes
}

func newFanout(id int64, leave context.CancelFunc) *fanout {
	f := &fanout{id: id, limit: bufferOfRun, wake: make(chan struct{}, 1), leave: leave, changed: make(chan struct{})}
	if id == allRuns {
		f.limit, f.announced = bufferOfAll, map[int64]int64{}
	}
	return f
}

// progress is what a fan-out can deliver to one follower.
type progress struct {
	events  []Event
	behind  bool   // there may be earlier events, which the fan-out has dropped
	head    Cursor // everything up to here can be read
	err     error
	changed <-chan struct{}
}

// since returns what a fan-out has after a cursor.
func (f *fanout) since(after Cursor) progress {
	f.mu.Lock()
	defer f.mu.Unlock()
	v := progress{head: f.head, err: f.err, changed: f.changed, behind: !f.ready || after.before(f.start)}
	if !v.behind {
		i := sort.Search(len(f.events), func(i int) bool { return after.before(f.events[i].Cursor) })
		v.events = slices.Clone(f.events[i:])
	}
	return v
}

// announce records that a run has events up to a number, and wakes the reader unless it
// has read them.
func (f *fanout) announce(run, seq int64) {
	f.mu.Lock()
	known := f.id != allRuns && f.ready && f.head.ID >= seq
	if f.id == allRuns && f.announced[run] < seq {
		f.announced[run] = seq
	}
	f.mu.Unlock()
	if !known {
		signal(f.wake)
	}
}

// read follows the end of the events until the context ends or a read fails with an error other
// than an INFRA_ERROR.
func (f *fanout) read(ctx context.Context, from source, o Options) {
	pages := pager{source: from}
	timer := time.NewTimer(0)
	defer timer.Stop()
	wait := firstWait
	var last time.Time
	for {
		select {
		case <-ctx.Done():
			return
		case <-f.wake:
			wait = firstWait
		case <-timer.C:
		}
		if f.id == allRuns {
			if announced := f.gather(ctx, time.Until(last.Add(o.ReadAllEvery))); announced {
				wait = firstWait
			}
		}
		last = time.Now()
		err := f.advance(ctx, &pages)
		switch {
		case ctx.Err() != nil:
			return
		case err == nil && f.caughtUp(wait >= o.PollEvery):
			continue
		case err != nil && fault.Of(err).Class != contract.ClassInfra:
			f.update(func() { f.err = err })
			return
		case err != nil:
			wait = max(wait, retryRead)
		}
		timer.Reset(wait)
		wait = min(2*wait, o.PollEvery)
	}
}

// gather waits before the next read, which also reads what is announced meanwhile. It reports whether
// anything was.
func (f *fanout) gather(ctx context.Context, wait time.Duration) bool {
	if wait <= 0 {
		return false
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
	select {
	case <-f.wake:
		return true
	default:
		return false
	}
}

// advance reads all available events.
func (f *fanout) advance(ctx context.Context, pages *pager) error {
	if !f.ready { // only the reader writes it
		end, err := pages.end(ctx)
		if err != nil {
			return err
		}
		f.update(func() { f.start, f.head, f.ready = end, end, true })
	}
	for {
		events, err := pages.next(ctx, f.head)
		if err != nil {
			return err
		}
		if len(events) > 0 {
			f.update(func() { f.add(events) })
		}
		if !pages.full {
			return nil
		}
	}
}

// add adds events and drops the oldest ones beyond the limit.
func (f *fanout) add(events []Event) {
	for _, e := range events {
		if f.announced[e.RunID] <= e.Seq {
			delete(f.announced, e.RunID)
		}
	}
	f.events = append(f.events, events...)
	f.head = events[len(events)-1].Cursor
	over := sizeOf(f.events) - f.limit
	drop := 0
	for ; over > 0 && drop < len(f.events); drop++ {
		over -= sizeOf(f.events[drop : drop+1])
	}
	if drop > 0 {
		f.start = f.events[drop-1].Cursor
		f.events = slices.Clone(f.events[drop:]) // frees the memory of the dropped events
	}
}

// caughtUp reports whether everything announced has been read. Events hidden by an open transaction
// (see Feed.Page) are looked for again for a while; after that, polling finds them.
func (f *fanout) caughtUp(giveUp bool) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if giveUp {
		clear(f.announced)
	}
	return len(f.announced) == 0
}

// update changes what followers see, and wakes them.
func (f *fanout) update(do func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	do()
	close(f.changed)
	f.changed = make(chan struct{})
}

// signal wakes the receiver of a channel with room for one.
func signal(ch chan struct{}) {
	select {
	case ch <- struct{}{}:
	default:
	}
}

// failure returns the error that ended the reader.
func (f *fanout) failure() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.err
}
