package brain

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/workspace"
)

// ErrNotReady means that an index was not made in the time that a caller waits for it. It is still
// being made, unless that failed.
var ErrNotReady = errors.New("the index of the repository is not ready yet")

const (
	// preparedTogether is the number of indexes that are made at the same time before they are needed:
	// each of them uses several processors.
	preparedTogether = 1
	// maxPreparing is the number of indexes that are being made or wait for it. Further ones are not
	// made in the background.
	maxPreparing = 32
	// keptMaps is the number of maps that stay in memory: the steps of a run have the same one.
	keptMaps = 64
	// maxGoal is the number of bytes of a goal that a map is made for.
	maxGoal = 8000
)

// preparation is the work in the background.
type preparation struct {
	ctx    context.Context
	cancel context.CancelFunc
	slots  chan struct{}
	wait   sync.WaitGroup

	mu        sync.Mutex
	jobs      map[viewKey]*job
	embedding map[viewKey]bool
	embeds    chan struct{}
}

// job makes one index.
type job struct {
	urgent func()          // makes it start at once
	soon   context.Context // done when it is to start at once
	done   chan struct{}   // closed when view and err are set
	view   View
	err    error
}

func newPreparation() *preparation {
	p := &preparation{
		slots: make(chan struct{}, preparedTogether), embeds: make(chan struct{}, preparedTogether),
		jobs: map[viewKey]*job{}, embedding: map[viewKey]bool{},
	}
	p.ctx, p.cancel = context.WithCancel(context.Background())
	return p
}

// Prepare indexes a workspace in the background, unless its index is in memory or being made.
func (b *Brain) Prepare(ws contract.Workspace) {
	if _, ok := b.views.get(keyOf(ws)); !ok {
		b.prepare(ws)
	}
}

// Prepared returns the view of a workspace that is being prepared, or prepares it. It waits for it at
// most the given time, then it returns ErrNotReady. The work goes on.
func (b *Brain) Prepared(ctx context.Context, ws contract.Workspace, wait time.Duration) (View, error) {
	if v, ok := b.views.get(keyOf(ws)); ok {
		return v, nil
	}
	j := b.prepare(ws)
	if j == nil {
		return View{}, ErrNotReady
	}
	j.urgent()
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-j.done:
		return j.view, j.err
	case <-ctx.Done():
		return View{}, context.Cause(ctx)
	case <-timer.C:
		return View{}, ErrNotReady
	}
}

// prepare returns the job that indexes a workspace; nil if there are too many.
func (b *Brain) prepare(ws contract.Workspace) *job {
	p, key := b.preparing, keyOf(ws)
	p.mu.Lock()
	defer p.mu.Unlock()
	if j := p.jobs[key]; j != nil {
		return j
	}
	if len(p.jobs) >= maxPreparing || p.ctx.Err() != nil {
		return nil
	}
	j := &job{done: make(chan struct{})}
	j.soon, j.urgent = context.WithCancel(p.ctx)
	p.jobs[key] = j
	p.wait.Add(1)
	go func() {
		defer p.wait.Done()
		defer j.urgent()
		j.view, j.err = b.inBackground(j.soon, ws)
		p.mu.Lock()
		delete(p.jobs, key)
		p.mu.Unlock()
		close(j.done)
	}()
	return j
}

// inBackground indexes a workspace when it is its turn, or when soon is done.
func (b *Brain) inBackground(soon context.Context, ws contract.Workspace) (View, error) {
	p := b.preparing
	select {
	case p.slots <- struct{}{}:
		defer func() { <-p.slots }()
	case <-soon.Done():
	}
	ctx, cancel := context.WithTimeout(p.ctx, b.options.PrepareTime)
	defer cancel()
	v, err := b.ViewOf(ctx, ws)
	if err != nil && p.ctx.Err() == nil {
		b.options.Log.Warn("a repository could not be indexed in the background", "repo", workspace.Redact(ws.Repo), "commit", ws.Base, "error", err)
	}
	if err == nil && v.nearby != nil {
		b.embedLater(v.nearby)
	}
	return v, err
}

// embedLater computes the embeddings that a tree lacks in the background. Nothing waits for them:
// searches use those that there are.
func (b *Brain) embedLater(n *nearby) {
	p, key := b.preparing, keyOf(n.ws)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.embedding[key] || len(p.embedding) >= maxPreparing || p.ctx.Err() != nil || n.vectors().Documents() == len(n.keys) {
		return
	}
	p.embedding[key] = true
	p.wait.Go(func() {
		defer func() {
			p.mu.Lock()
			delete(p.embedding, key)
			p.mu.Unlock()
		}()
		select {
		case p.embeds <- struct{}{}:
			defer func() { <-p.embeds }()
			n.embed(p.ctx)
		case <-p.ctx.Done():
		}
	})
}

// close ends the work in the background and waits for it.
func (p *preparation) close() {
	p.mu.Lock()
	p.cancel()
	p.mu.Unlock()
	p.wait.Wait()
}

// mapKey is what a map depends on.
type mapKey struct {
	view   viewKey
	goal   string
	tokens int
}

// MapOf is Map for a workspace that is prepared, for which it waits at most the given time: see
// Prepared.
func (b *Brain) MapOf(ctx context.Context, ws contract.Workspace, goal string, tokens int, wait time.Duration) (string, error) {
	goal = goal[:min(len(goal), maxGoal)]
	key := mapKey{keyOf(ws), goal, tokens}
	if text, ok := b.maps.get(key); ok {
		return text, nil
	}
	v, err := b.Prepared(ctx, ws, wait)
	if err != nil {
		return "", err
	}
	text, err := v.Map(goal, tokens)
	if err == nil {
		b.maps.put(key, text)
	}
	return text, err
}
