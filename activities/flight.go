package activities

import (
	"context"
	"errors"
	"sync"
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/worker"

	"github.com/rocketgpt/orchestrator/internal/model"
)

// flight is a model call that this process makes, for all tries that wait for
// it. A worker that was starved past its heartbeat gets a second try of a call
// whose first one is still under way: the second joins it instead of paying
// again.
type flight struct {
	landed chan struct{} // closed when answer and err are there
	answer model.Response
	err    error

	// Guarded by flights.mu:
	cancel    context.CancelFunc
	waiting   int  // tries that wait for the answer
	paid      bool // the provider has been asked, and wants to be paid
	cancelled bool
}

// flights are the model calls under way. The zero value has none.
type flights struct {
	mu     sync.Mutex
	byCall map[callKey]*flight
}

// landTime is how long a cancelled call may take to give back its budget before
// its activity ends without it.
const landTime = 5 * time.Second

// join makes a call, or waits for the one of the same key that is under way. The
// call does not end with the try that began it: it goes on until its answer is
// stored, unless nobody wants it any more. Call gets a context for the call and a
// function to say that the provider is asked now.
func (s *flights) join(ctx context.Context, key callKey, call func(ctx context.Context, paid func()) (model.Response, error)) (model.Response, error) {
	f := s.board(ctx, key, call)
	for f == nil { // one that was cancelled still ends
		select {
		case <-ctx.Done():
			return model.Response{}, ctx.Err()
		case <-s.ending(key):
			f = s.board(ctx, key, call)
		}
	}
	select {
	case <-f.landed:
		s.leave(ctx, f)
		return f.answer, f.err
	case <-ctx.Done():
	}
	if s.leave(ctx, f) {
		select {
		case <-f.landed:
		case <-time.After(landTime):
		}
	}
	return model.Response{}, ctx.Err()
}

// board joins the flight of a key, or begins it; nil where that one was cancelled.
func (s *flights) board(ctx context.Context, key callKey, call func(context.Context, func()) (model.Response, error)) *flight {
	s.mu.Lock()
	defer s.mu.Unlock()
	if f := s.byCall[key]; f != nil {
		if f.cancelled {
			return nil
		}
		f.waiting++
		return f
	}
	own, cancel := context.WithCancel(context.WithoutCancel(ctx))
	f := &flight{landed: make(chan struct{}), cancel: cancel, waiting: 1}
	if s.byCall == nil {
		s.byCall = map[callKey]*flight{}
	}
	s.byCall[key] = f
	go func() {
		defer cancel()
		f.answer, f.err = call(own, func() { s.mu.Lock(); f.paid = true; s.mu.Unlock() })
		s.mu.Lock()
		delete(s.byCall, key)
		s.mu.Unlock()
		close(f.landed)
	}()
	return f
}

// ending returns what is closed when the flight of a key has ended.
func (s *flights) ending(key callKey) <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if f := s.byCall[key]; f != nil {
		return f.landed
	}
	over := make(chan struct{})
	close(over)
	return over
}

// leave says that a try waits no longer, and reports whether that ended the
// call. A call that is paid for goes on where its last try was only lost, by a
// heartbeat that came too late or Temporal being away: the next one asks for it.
func (s *flights) leave(ctx context.Context, f *flight) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	f.waiting--
	if f.waiting > 0 || (f.paid && !unwanted(ctx)) {
		return false
	}
	f.cancelled = true
	f.cancel()
	return true
}

// unwanted reports whether an activity's context ended because its run is
// stopped or its worker stops, and not because Temporal lost sight of it.
func unwanted(ctx context.Context) bool {
	cause := context.Cause(ctx)
	return temporal.IsCanceledError(cause) || errors.Is(cause, worker.ErrWorkerShutdown)
}
