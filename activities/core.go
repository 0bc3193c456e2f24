package activities

import (
	"context"
	"strconv"
)

type coreKey struct{}

// takeCore waits until the host has room for work that keeps a core busy: the checks and the commands of
// repositories. Projects share the room fairly. The returned context says that the room is taken, so that work
// within this work does not wait for more; release gives it back.
//
// It must be called before a lease is waited for: otherwise, its owner could wait for room that others have
// who wait for the lease.
func (a *Activities) takeCore(ctx context.Context, run int64) (_ context.Context, release func(), err error) {
	if a.Cores == nil || ctx.Value(coreKey{}) != nil {
		return ctx, func() {}, nil
	}
	owner := strconv.FormatInt(run, 10)
	if run != 0 {
		if owner, err = a.Store.ProjectOf(ctx, run); err != nil {
			return ctx, nil, err
		}
	}
	if release, err = a.Cores.Acquire(ctx, owner); err != nil {
		return ctx, nil, err
	}
	return context.WithValue(ctx, coreKey{}, true), release, nil
}
