package stay

import (
	"context"
	"slices"
	"sync"
	"time"
)

// readers bounds how many webhooks are read at the same time. Nobody knows who sends one until it was
// read, so strangers may send theirs slowly to keep others out. That does not help them: if all slots are
// taken, the webhook that has been read longest makes room. One of a forge is read within milliseconds.
type readers struct {
	most  int
	grace time.Duration // for which each may be read in any case

	mu    sync.Mutex
	read  []*reader     // the one that began first is first
	freed chan struct{} // closed when a slot is free; then replaced
}

// reader is a webhook that is being read.
type reader struct {
	since time.Time
	cut   func()
}

func newReaders(most int, grace time.Duration) *readers {
	return &readers{most: most, grace: grace, freed: make(chan struct{})}
}

// begin waits until a webhook may be read, calls start, and returns the function that ends that. cut ends
// the reading of the webhook early; after end was called, it is not called any longer. begin returns false
// if the context ends first.
func (r *readers) begin(ctx context.Context, cut, start func()) (end func(), ok bool) {
	mine := &reader{cut: cut}
	for {
		wait, freed := r.enter(mine, start)
		if wait == 0 {
			return func() { r.leave(mine) }, true
		}
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-freed:
		case <-ctx.Done():
			timer.Stop()
			return nil, false
		}
		timer.Stop()
	}
}

// enter takes a slot, perhaps that of the webhook that has been read longest. If none can be taken, it
// returns how long to wait before the next attempt, unless a slot is free before.
func (r *readers) enter(mine *reader, start func()) (wait time.Duration, freed <-chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.read) >= r.most {
		longest := r.read[0]
		if rest := r.grace - time.Since(longest.since); rest > 0 {
			return rest, r.freed
		}
		longest.cut()
		r.read = r.read[1:]
	}
	mine.since = time.Now()
	r.read = append(r.read, mine)
	start()
	return 0, nil
}

func (r *readers) leave(mine *reader) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if i := slices.Index(r.read, mine); i >= 0 {
		r.read = slices.Delete(r.read, i, i+1)
		close(r.freed)
		r.freed = make(chan struct{})
	}
}
