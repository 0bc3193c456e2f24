// Package notice lets the work of an activity tell its worker what it does at the moment.
package notice

import "context"

// Receiver receives what the work of an activity does; nil functions do not. The worker shows it.
type Receiver struct {
	Waits func(now bool)        // a part of it begins, or ends, to wait for a free core of the host
	Idle  func(now bool)        // it begins to wait for a model, or goes on; then it may have to wait for its turn
	Does  func(activity string) // the name of the activity that it does as a part of its own
}

type key struct{}

// With returns a context whose work tells r what it does.
func With(ctx context.Context, r Receiver) context.Context { return context.WithValue(ctx, key{}, r) }

// Waits tells that a part of the work begins to wait for a free core, or that its wait has ended.
func Waits(ctx context.Context, now bool) {
	if r, ok := ctx.Value(key{}).(Receiver); ok && r.Waits != nil {
		r.Waits(now)
	}
}

// Idle tells that the work begins to wait for a model, or that it goes on. It returns when it may.
func Idle(ctx context.Context, now bool) {
	if r, ok := ctx.Value(key{}).(Receiver); ok && r.Idle != nil {
		r.Idle(now)
	}
}

// Does tells that the work is now that of another activity, of which it has made a part of its own.
func Does(ctx context.Context, activity string) {
	if r, ok := ctx.Value(key{}).(Receiver); ok && r.Does != nil {
		r.Does(activity)
	}
}
