package stay

import (
	"context"
	"sync"
	"time"

	"github.com/rocketgpt/orchestrator/internal/store/forgeevents"
)

// looks bounds the looks at the pull requests of one forge that are under way. A look that takes long is
// set aside, so that the others do not wait for it.
type looks struct {
	slots   chan struct{} // of those that have just begun
	aside   chan struct{} // of those that take long
	patient time.Duration // until a look takes long

	mu      sync.Mutex
	running map[place]bool
	all     sync.WaitGroup
}

// place is a pull request of a forge.
type place struct {
	repo   string
	number int64
}

func newLooks(patient time.Duration) *looks {
	return &looks{
		slots: make(chan struct{}, maxLooks), aside: make(chan struct{}, maxSlowLooks), patient: patient, running: map[place]bool{},
	}
}

// begin waits for a slot, and then carries out a look, unless one at the same pull request is still under
// way. It returns false if the context ends first.
func (l *looks) begin(ctx context.Context, w forgeevents.Watch, look func()) bool {
	at := place{w.Repo, w.Number}
	l.mu.Lock()
	running := l.running[at]
	l.mu.Unlock()
	if running {
		return ctx.Err() == nil
	}
	select {
	case l.slots <- struct{}{}:
	case <-ctx.Done():
		return false
	}
	l.mu.Lock()
	l.running[at] = true
	l.mu.Unlock()
	l.all.Go(func() {
		end := l.hold()
		look()
		l.mu.Lock()
		delete(l.running, at)
		l.mu.Unlock()
		end()
	})
	return true
}

// hold returns the function that frees the slot of a look. If the look takes long, and not too many others
// do, its slot is freed before its end.
func (l *looks) hold() (end func()) {
	var mu sync.Mutex
	from := l.slots
	timer := time.AfterFunc(l.patient, func() {
		mu.Lock()
		defer mu.Unlock()
		if from != l.slots {
			return // it has ended
		}
		select {
		case l.aside <- struct{}{}:
			<-l.slots
			from = l.aside
		default: // too many take long
		}
	})
	return func() {
		timer.Stop()
		mu.Lock()
		defer mu.Unlock()
		<-from
		from = nil
	}
}
