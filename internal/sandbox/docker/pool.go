package docker

import (
	"context"
	"sync"
	"time"

	"github.com/rocketgpt/orchestrator/internal/sandbox"
)

const (
	// warmKinds is the maximum number of kinds of containers that are created in advance; the kind
	// that was not used for the longest time is given up first.
	warmKinds = 8
	// warmTime is how long containers of a kind that nobody uses are kept.
	warmTime = 5 * time.Minute
)

// pool creates containers in advance, for each kind that commands have used. A container runs one
// command and is then removed: nothing that a command leaves behind reaches the next one.
type pool struct {
	runner *Runner
	warm   int

	mu     sync.Mutex
	closed bool
	kinds  map[string]*shelf
	making sync.WaitGroup
}

// shelf holds the containers of a kind.
type shelf struct {
	kind         kind
	certificates []byte
	ready        []*slot
	coming       int
	used         time.Time
}

func newPool(r *Runner, warm int) *pool {
	return &pool{runner: r, warm: warm, kinds: map[string]*shelf{}}
}

// take returns a container for a command, and has another one of its kind created.
func (p *pool) take(ctx context.Context, c sandbox.Command) (*slot, error) {
	s, err := p.reserve(c)
	if s != nil || err != nil {
		return s, err
	}
	return p.make(ctx, c)
}

// make creates a container for a command.
func (p *pool) make(ctx context.Context, c sandbox.Command) (*slot, error) {
	certificates, err := certificatesOf(c)
	if err != nil {
		return nil, err
	}
	return p.runner.create(ctx, p.runner.kindOf(c), certificates)
}

func certificatesOf(c sandbox.Command) ([]byte, error) {
	if len(c.CACertificates) == 0 {
		return nil, nil
	}
	return sandbox.TrustBundle(c.CACertificates)
}

// reserve returns a container that was created in advance, or nil.
func (p *pool) reserve(c sandbox.Command) (*slot, error) {
	if p.warm == 0 {
		return nil, nil //nolint:nilnil // nil: none is ready
	}
	certificates, err := certificatesOf(c)
	if err != nil {
		return nil, err
	}
	k := p.runner.kindOf(c)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil, nil //nolint:nilnil // see above
	}
	sh := p.kinds[k.key()]
	if sh == nil {
		p.makeRoom()
		sh = &shelf{kind: k, certificates: certificates}
		p.kinds[k.key()] = sh
	}
	sh.used = time.Now()
	var s *slot
	if n := len(sh.ready); n > 0 {
		s, sh.ready = sh.ready[n-1], sh.ready[:n-1]
	}
	p.refill(sh)
	return s, nil
}

// refill creates the missing containers of a kind, in the background.
func (p *pool) refill(sh *shelf) {
	for ; len(sh.ready)+sh.coming < p.warm; sh.coming++ {
		p.making.Go(func() {
			ctx, cancel := context.WithTimeout(context.Background(), startTime)
			defer cancel()
			s, err := p.runner.create(ctx, sh.kind, sh.certificates)
			p.mu.Lock()
			sh.coming--
			keep := err == nil && !p.closed && p.kinds[sh.kind.key()] == sh
			if keep {
				sh.ready = append(sh.ready, s)
			}
			p.mu.Unlock()
			switch {
			case err != nil:
				p.runner.options.Log.Warn("A container could not be created in advance; commands create their own.", "error", err)
			case !keep:
				p.runner.discard(s)
			}
		})
	}
}

// makeRoom gives up the kind that was not used for the longest time, if there are too many.
func (p *pool) makeRoom() {
	if len(p.kinds) < warmKinds {
		return
	}
	oldest := ""
	for key, sh := range p.kinds {
		if oldest == "" || sh.used.Before(p.kinds[oldest].used) {
			oldest = key
		}
	}
	p.giveUp(oldest)
}

// giveUp removes the containers of a kind, in the background.
func (p *pool) giveUp(key string) {
	slots := p.kinds[key].ready
	delete(p.kinds, key)
	for _, s := range slots {
		p.making.Go(func() { p.runner.discard(s) })
	}
}

// expire gives up kinds that nobody uses.
func (p *pool) expire(now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for key, sh := range p.kinds {
		if now.Sub(sh.used) > warmTime {
			p.giveUp(key)
		}
	}
}

// check removes containers that are gone, such as after a restart of Docker. alive are the existing
// containers of this runner.
func (p *pool) check(alive map[string]bool, before time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, sh := range p.kinds {
		kept := sh.ready[:0]
		for _, s := range sh.ready {
			if alive[s.id] || s.made.After(before) {
				kept = append(kept, s)
			} else {
				p.making.Go(func() { p.runner.discard(s) })
			}
		}
		sh.ready = kept
		if now := time.Now(); now.Sub(sh.used) <= warmTime && !p.closed {
			p.refill(sh)
		}
	}
}

// close removes all containers and waits for that.
func (p *pool) close() {
	p.mu.Lock()
	p.closed = true
	for key := range p.kinds {
		p.giveUp(key)
	}
	p.mu.Unlock()
	p.making.Wait()
}
