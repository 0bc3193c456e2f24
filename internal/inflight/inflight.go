// Package inflight shares one call among all concurrent callers with the same key.
//
// An overloaded worker that missed its heartbeat gets a second attempt of a call whose first
// attempt is still running: the second joins the first instead of paying again.
package inflight

import (
	"context"
	"errors"
	"sync"
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/worker"
)

// call is a running call that one or more attempts wait for.
type call[V any] struct {
	done   chan struct{} // closed when result and err are set
	result V
	err    error

	// Guarded by Group.mu:
	cancel    context.CancelFunc
	waiting   int  // attempts that wait for the result
	paid      bool // the request was sent to the provider, which charges for it
	cancelled bool
}

// Group contains the running calls, by key. The zero value is empty.
type Group[K comparable, V any] struct {
	mu    sync.Mutex
	calls map[K]*call[V]
}

// cancelTimeout is the time that a cancelled call has to return its budget before its activity ends
// anyway.
const cancelTimeout = 5 * time.Second

// Do makes a call, or waits for the running call with the same key. The call does not end with the
// attempt that started it: it continues until its result is stored, unless it is no longer wanted.
// Fn receives a context for the call, and a function that records that the request is being sent to
// the provider.
func (g *Group[K, V]) Do(ctx context.Context, key K, fn func(ctx context.Context, paid func()) (V, error)) (V, error) {
	var none V
	c := g.join(ctx, key, fn)
	for c == nil { // a cancelled call has not ended yet
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

// Waiting returns the number of attempts that wait for the call with a key.
func (g *Group[K, V]) Waiting(key K) int {
	g.mu.Lock()
	defer g.mu.Unlock()
	if c := g.calls[key]; c != nil {
		return c.waiting
	}
	return 0
}

// join joins or starts the call with a key; nil if the running call was cancelled.
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

// done returns a channel that is closed when the call with a key has ended.
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

// leave removes an attempt from a call, and reports whether that ended the call. A paid call
// continues if its last attempt was only lost, because of a late heartbeat or an unavailable
// Temporal: the next attempt joins it.
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

// unwanted reports whether an activity's context ended because its run or its worker was stopped,
// rather than because Temporal lost track of it.
func unwanted(ctx context.Context) bool {
	cause := context.Cause(ctx)
	return temporal.IsCanceledError(cause) || errors.Is(cause, worker.ErrWorkerShutdown)
}
