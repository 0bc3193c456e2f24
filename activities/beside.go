package activities

import (
	"context"
	"fmt"
	"runtime/debug"
)

// beside does a part of an activity's work in another goroutine. The caller must call the function that it returns, which
// waits for that part and returns its error.
func (a *Activities) beside(ctx context.Context, what string, work func() error) (wait func() error) {
	done := make(chan error, 1)
	go func() {
		var err error
		defer func() { done <- err }()
		defer a.recovered(ctx, what, &err)
		err = work()
	}()
	return func() error { return <-done }
}

// recovered turns a panic into an error, with the stack in the log, as Temporal's SDK does for activities. In
// another goroutine than that of the activity, it would otherwise end the worker.
func (a *Activities) recovered(ctx context.Context, what string, err *error) {
	if p := recover(); p != nil {
		*err = fmt.Errorf("%s panicked, which is a bug of the worker: %v", what, p)
		a.Log.ErrorContext(ctx, "A part of an activity panicked", "part", what, "panic", p, "stack", string(debug.Stack()))
	}
}
