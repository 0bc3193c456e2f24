package scripted

import (
	"sync"
	"time"
)

// drain tracks the requests in progress, so a closing server closes its files only after their last
// lines.
type drain struct {
	mu     sync.Mutex
	active int
	ending bool
	empty  chan struct{} // closed when ending and none is in progress
}

// drainTimeout limits the wait for clients that neither send nor receive bytes.
const drainTimeout = 5 * time.Second

// enter registers a request; it returns false if the server is closed.
func (d *drain) enter() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.ending {
		return false
	}
	d.active++
	return true
}

func (d *drain) leave() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.active--; d.ending && d.active == 0 {
		close(d.empty)
	}
}

// wait rejects new requests and waits for those in progress.
func (d *drain) wait() {
	d.mu.Lock()
	d.ending, d.empty = true, make(chan struct{})
	if d.active == 0 {
		close(d.empty)
	}
	d.mu.Unlock()
	timer := time.NewTimer(drainTimeout)
	defer timer.Stop()
	select {
	case <-d.empty:
	case <-timer.C:
	}
}
