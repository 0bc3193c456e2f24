package activities

import (
	"context"
	"strconv"
	"sync"
	"time"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/cores"
	"github.com/rocketgpt/orchestrator/internal/fault"
)

// coreWait is how long a check or a command may wait for a free core. Then its activity is retried: the
// activity's own limit, which allows for this wait (package options), must not be reached.
const coreWait = 110 * time.Minute

type coreKey struct{}

// core is room on this host for work that keeps a core busy.
type core struct {
	claim cores.Claim

	mu      sync.Mutex
	release func()        // nil while it is given back
	waited  time.Duration // for it
}

// waitedForCore returns how long work has waited for its core.
func waitedForCore(ctx context.Context) time.Duration {
	c, ok := ctx.Value(coreKey{}).(*core)
	if !ok {
		return 0
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.waited
}

// takeCore waits until the host has room for work that keeps a core busy: the checks and the commands of
// repositories. Projects share the room fairly, and a project's oldest run is first. The returned context has the
// room, so that work within this work does not wait for more; release gives it back.
func (a *Activities) takeCore(ctx context.Context, run int64) (_ context.Context, release func(), err error) {
	if a.Cores == nil || ctx.Value(coreKey{}) != nil {
		return ctx, func() {}, nil
	}
	c := &core{claim: cores.Claim{Owner: strconv.FormatInt(run, 10), Run: run}}
	if run != 0 {
		if c.claim.Owner, err = a.Store.ProjectOf(ctx, run); err != nil {
			return ctx, nil, err
		}
	}
	if err = a.acquireCore(ctx, c); err != nil {
		return ctx, nil, err
	}
	return context.WithValue(ctx, coreKey{}, c), func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.release != nil {
			c.release()
		}
	}, nil
}

// acquireCore waits for a core that is not taken.
func (a *Activities) acquireCore(ctx context.Context, c *core) (err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, coreWait, fault.New(contract.ClassInfra, contract.CodeUnavailable,
		"no core of this host was free for %s; add workers, or raise worker.max_concurrent_commands", coreWait))
	defer cancel()
	began := time.Now()
	c.release, err = a.Cores.Acquire(ctx, c.claim)
	c.waited += time.Since(began)
	return err
}

// lease is Store.Lease for work that may have a core: it gives the core back while it waits, since the owner of
// the lease may need one, and others can use it.
func (a *Activities) lease(ctx context.Context, key string) (release func(), err error) {
	c, ok := ctx.Value(coreKey{}).(*core)
	if !ok {
		return a.Store.Lease(ctx, key)
	}
	release, owned, err := a.Store.TryLease(ctx, key)
	if err != nil || owned {
		return release, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.release()
	c.release = nil
	if release, err = a.Store.Lease(ctx, key); err != nil {
		return nil, err
	}
	if err = a.acquireCore(ctx, c); err != nil {
		release()
		return nil, err
	}
	return release, nil
}
