package control

import (
	"context"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/brain"
	"github.com/rocketgpt/orchestrator/internal/fault"
	"github.com/rocketgpt/orchestrator/internal/workspace"
)

// The states of an indexing.
const (
	IndexingRunning = "running"
	IndexingDone    = "done"
	IndexingFailed  = "failed"
)

const (
	// indexedTogether is the number of indexings that a process carries out at the same time for its
	// clients; further ones wait.
	indexedTogether = 1
	// maxIndexings is the number of indexings that run or wait. Further requests are rejected.
	maxIndexings = 20
	// keptIndexings is the number of indexings whose states a process remembers.
	keptIndexings = 50
	// indexingTime limits one of them.
	indexingTime = 2 * time.Hour
)

// Indexing is an indexing in the background.
type Indexing struct {
	ID       string         `json:"id"`
	Repo     string         `json:"repo" doc:"repository"`
	Commit   string         `json:"commit" doc:"commit that is indexed"`
	State    string         `json:"state" enum:"running,done,failed"`
	Progress brain.Progress `json:"progress" doc:"how far it is"`
	Started  time.Time      `json:"started" doc:"when it was requested"`
	Ended    *time.Time     `json:"ended,omitempty"`
	Error    string         `json:"error,omitempty" doc:"why it failed"`
	Indexed  *Indexed       `json:"indexed,omitempty" doc:"what it did, when it is done"`
}

// background carries out the indexings of a process, and remembers the last ones.
type background struct {
	ctx    context.Context
	cancel context.CancelFunc
	slots  chan struct{}
	wait   sync.WaitGroup

	mu   sync.Mutex
	last int
	all  []*Indexing // the newest first
}

func newBackground() *background {
	b := &background{slots: make(chan struct{}, indexedTogether)}
	b.ctx, b.cancel = context.WithCancel(context.Background())
	return b
}

func (b *background) close() {
	b.mu.Lock()
	b.cancel()
	b.mu.Unlock()
	b.wait.Wait()
}

// StartIndexing indexes a commit of a repository in the background; BrainStats shows how far it is. If
// that commit is being indexed already, it is not indexed twice.
func (r *Runs) StartIndexing(ctx context.Context, repo, rev string) (Indexing, error) {
	out, ws, err := r.toIndex(ctx, repo, rev)
	if err != nil {
		return Indexing{}, err
	}
	index, _, err := r.openBrain()
	if err != nil {
		return Indexing{}, err
	}
	x := r.own()
	x.mu.Lock()
	if x.background == nil {
		x.background = newBackground()
	}
	b := x.background
	x.mu.Unlock()
	return b.start(out, func(ctx context.Context, progress func(brain.Progress)) (brain.Indexed, error) {
		_, done, err := index.Index(ctx, ws, progress)
		return done, err
	})
}

// start begins an indexing, unless the same one is running.
func (b *background) start(of Indexed, do func(context.Context, func(brain.Progress)) (brain.Indexed, error)) (Indexing, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	running := 0
	for _, x := range b.all {
		if x.State != IndexingRunning {
			continue
		}
		if running++; x.Repo == workspace.Redact(of.Repo) && x.Commit == of.Commit {
			return *x, nil
		}
	}
	if running >= maxIndexings || b.ctx.Err() != nil {
		return Indexing{}, fault.New(contract.ClassHuman, contract.CodeRejected,
			"%d repositories are being indexed or wait for it; try again later, when GET /api/brain/stats shows fewer", running)
	}
	b.last++
	of.Repo = workspace.Redact(of.Repo)
	x := &Indexing{ID: strconv.Itoa(b.last), Repo: of.Repo, Commit: of.Commit, State: IndexingRunning, Started: time.Now().UTC()}
	b.all = slices.Insert(b.all, 0, x)
	b.all = b.all[:min(len(b.all), keptIndexings)]
	b.wait.Go(func() {
		done, err := b.carryOut(x, do)
		b.mu.Lock()
		defer b.mu.Unlock()
		now := time.Now().UTC()
		x.Ended, x.State = &now, IndexingDone
		if err != nil {
			x.State, x.Error = IndexingFailed, fault.Of(err).Message
			return
		}
		of.Indexed = done
		x.Indexed = &of
	})
	return *x, nil
}

// carryOut indexes when it is this indexing's turn.
func (b *background) carryOut(x *Indexing, do func(context.Context, func(brain.Progress)) (brain.Indexed, error)) (brain.Indexed, error) {
	select {
	case b.slots <- struct{}{}:
		defer func() { <-b.slots }()
	case <-b.ctx.Done():
		return brain.Indexed{}, context.Cause(b.ctx)
	}
	ctx, cancel := context.WithTimeout(b.ctx, indexingTime)
	defer cancel()
	return do(ctx, func(p brain.Progress) {
		b.mu.Lock()
		defer b.mu.Unlock()
		x.Progress = p
	})
}

// indexings returns the last indexings in the background, the newest first.
func (r *Runs) indexings() []Indexing {
	out := []Indexing{}
	x := r.own()
	x.mu.Lock()
	b := x.background
	x.mu.Unlock()
	if b == nil {
		return out
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, x := range b.all {
		out = append(out, *x)
	}
	return out
}
