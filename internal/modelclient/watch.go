package modelclient

import (
	"context"
	"errors"
	"sync/atomic"
	"time"
)

// lookInterval is the maximum time between two checks of a call for silence.
const lookInterval = 500 * time.Millisecond

// Reasons for ending a call on this side.
var (
	errDeadline = errors.New("the call exceeded its time limit")
	errIdle     = errors.New("the provider stopped sending data")
)

// watch monitors one call and ends it if the provider sends nothing for too long. The heartbeat of
// the surrounding activity shows only that the worker is alive.
type watch struct {
	cancel context.CancelCauseFunc
	idle   time.Duration
	last   atomic.Int64 // time of the last bytes, in nanoseconds since began; 0 means not watched
	began  time.Time
	quit   chan struct{}
	done   chan struct{}
}

// startWatch returns a context that ends with the call.
func startWatch(ctx context.Context, idle time.Duration) (context.Context, *watch) {
	ctx, cancel := context.WithCancelCause(ctx)
	w := &watch{cancel: cancel, idle: idle, began: time.Now(), quit: make(chan struct{}), done: make(chan struct{})}
	go w.run()
	return ctx, w
}

func (w *watch) run() {
	defer close(w.done)
	ticker := time.NewTicker(min(lookInterval, max(w.idle/4, time.Millisecond)))
	defer ticker.Stop()
	for {
		select {
		case <-w.quit:
			return
		case <-ticker.C:
		}
		if last := w.last.Load(); last != 0 && time.Since(w.began)-time.Duration(last) > w.idle {
			w.cancel(errIdle)
		}
	}
}

// touch records that the provider sent something.
func (w *watch) touch() { w.last.Store(max(1, int64(time.Since(w.began)))) }

// ignoreSilence stops watching for silence: a response in one piece sends no bytes until it is
// complete.
func (w *watch) ignoreSilence() { w.last.Store(0) }

// stop ends the watch.
func (w *watch) stop() {
	close(w.quit)
	<-w.done
	w.cancel(context.Canceled)
}
