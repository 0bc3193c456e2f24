// Package inflight makes one call for all callers that want its result at the same
// time.
//
// A worker so starved that it missed its heartbeat gets a second attempt of a call
// whose first one is still running: the second joins it instead of paying again.
package inflight

import (
	"context"
	"errors"
	"sync"
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/worker"
)

// call is one running call, for all attempts that wait for it.
type call[V any] struct {
	done   chan struct{} // closed when result and err are set
	result V
	err    error

	// Guarded by Group.mu:
	cancel    context.CancelFunc
	waiting   int  // attempts that wait for the result
	paid      bool // the provider was asked, and charges for it
	cancelled bool
}

// Group holds the running calls, by key. The zero value is empty.
type Group[K comparable, V any] struct {
	mu    sync.Mutex
	calls map[K]*call[V]
}

// cancelTimeout is how long a cancelled call may take to return its budget before its
// activity ends without it.
const cancelTimeout = 5 * time.Second

// Do makes a call, or waits for the running one of the same key. The call does not end
// with the attempt that began it: it continues until its result is stored, unless
// nobody wants it any more. Fn gets a context for the call and a function that records
// that the provider is being asked.
func (g *Group[K, V]) Do(ctx context.Context, key K, fn func(ctx context.Context, paid func()) (V, error)) (V, error) {
	var none V
	c := g.join(ctx, key, fn)
	for c == nil { // a cancelled one has not ended yet
		select {
		case <-ctx.Done():
			return none, ctx.Err()
		case <-g.done(key):
			c = g.join(ctx, key, fn)
		}
	}
	select {
	case <-c.done:
		g.leave(ctx, c)
		return c.result, c.err
	case <-ctx.Done():
	}
	if g.leave(ctx, c) {
		select {
		case <-c.done:
		case <-time.After(cancelTimeout):
		}
	}
	return none, ctx.Err()
}

// Waiting returns how many attempts wait for the call of a key.
func (g *Group[K, V]) Waiting(key K) int {
	g.mu.Lock()
	defer g.mu.Unlock()
	if c := g.calls[key]; c != nil {
		return c.waiting
	}
	return 0
}

// join joins the call of a key, or begins it; nil if that one was cancelled.
func (g *Group[K, V]) join(ctx context.Context, key K, fn func(context.Context, func()) (V, error)) *call[V] {
	g.mu.Lock()
	defer g.mu.Unlock()
	if c := g.calls[key]; c != nil {
		if c.cancelled {
			return nil
		}
		c.waiting++
		return c
	}
	own, cancel := context.WithCancel(context.WithoutCancel(ctx))
	c := &call[V]{done: make(chan struct{}), cancel: cancel, waiting: 1}
	if g.calls == nil {
		g.calls = map[K]*call[V]{}
	}
	g.calls[key] = c
	go func() {
		defer cancel()
		c.result, c.err = fn(own, func() { g.mu.Lock(); c.paid = true; g.mu.Unlock() })
		g.mu.Lock()
		delete(g.calls, key)
		g.mu.Unlock()
		close(c.done)
	}()
	return c
}

// done returns a channel that is closed when the call of a key has ended.
func (g *Group[K, V]) done(key K) <-chan struct{} {
	g.mu.Lock()
	defer g.mu.Unlock()
	if c := g.calls[key]; c != nil {
		return c.done
	}
	over := make(chan struct{})
	close(over)
	return over
}

// leave removes an attempt from a call, and reports whether that ended the call. A paid
// call continues if its last attempt was only lost, by a late heartbeat or because
// Temporal was away: the next attempt asks for it.
func (g *Group[K, V]) leave(ctx context.Context, c *call[V]) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	c.waiting--
	if c.waiting > 0 || (c.paid && !unwanted(ctx)) {
		return false
	}
	c.cancelled = true
	c.cancel()
	return true
}

// unwanted reports whether an activity's context ended because its run is stopped or
// its worker stops, and not because Temporal lost track of it.
func unwanted(ctx context.Context) bool {
	cause := context.Cause(ctx)
	return temporal.IsCanceledError(cause) || errors.Is(cause, worker.ErrWorkerShutdown)
}
