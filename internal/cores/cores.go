// Package cores limits how much work that keeps a core busy a process does at once, such as the tests of
// repositories and the commands of agents.
package cores

import (
	"cmp"
	"context"
	"math"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/rocketgpt/orchestrator/internal/notice"
)

// PerCore is how much work may run for each core if no limit is set: tests and commands also wait, for the
// disk and for each other.
const PerCore = 4

// Limit returns how much work may run at once on this machine; set is the configured limit, 0: none.
func Limit(set int) int {
	if set > 0 {
		return set
	}
	return PerCore * runtime.GOMAXPROCS(0)
}

// Observer is notified of what a queue does. Its methods must not block.
type Observer interface {
	// Queued is called when the number of those that work or wait changes.
	Queued(working, waiting int)
	// Waited is called when work begins, with the time that it waited.
	Waited(time.Duration)
}

// Claim identifies the owner and the run that a caller works for.
type Claim struct {
	Owner string // such as a project
	Run   int64  // those that began earlier have lower numbers; 0: no run
}

// Queue lets a limited number of callers work at once. Of those that wait, one of the owner with the least
// work in progress is next: no owner can keep the others out, however much it asks for. Of that owner's, those of
// its oldest run come first, so that not all runs that began together also end together, and of a run's, the
// longest waiting.
//
// It is safe for concurrent use.
type Queue struct {
	limit   int
	watcher Observer

	mu      sync.Mutex
	working map[string]int // by owner
	total   int
	waiting []*waiter // in order of arrival
}

type waiter struct {
	Claim
	ready chan struct{} // closed when it may work
}

// NewQueue returns a queue for at most limit callers at once; watcher may be nil.
func NewQueue(limit int, watcher Observer) *Queue {
	return &Queue{limit: max(limit, 1), watcher: watcher, working: map[string]int{}}
}

// Acquire waits until its caller may work, or until ctx ends: then it returns ctx's cause. The caller must
// call release when its work has ended; further calls have no effect. A wait is reported to package notice.
//
// A nil Queue lets all callers work at once.
func (q *Queue) Acquire(ctx context.Context, by Claim) (release func(), err error) {
	if q == nil {
		return func() {}, nil
	}
	began := time.Now()
	w := q.join(by)
	select {
	case <-w.ready:
	default:
		notice.Waits(ctx, true)
		defer notice.Waits(ctx, false)
		select {
		case <-w.ready:
		case <-ctx.Done():
			if !q.leave(w) {
				q.release(by.Owner) // it became ready at the same moment
			}
			return nil, context.Cause(ctx)
		}
	}
	if q.watcher != nil {
		q.watcher.Waited(time.Since(began))
	}
	return sync.OnceFunc(func() { q.release(by.Owner) }), nil
}

// Free returns how many more callers could work now without waiting. A nil Queue has no limit.
func (q *Queue) Free() int {
	if q == nil {
		return math.MaxInt
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.limit - q.total
}

// join adds a caller, which may work at once if there is room.
func (q *Queue) join(by Claim) *waiter {
	q.mu.Lock()
	defer q.mu.Unlock()
	w := &waiter{Claim: by, ready: make(chan struct{})}
	q.waiting = append(q.waiting, w)
	q.admit()
	return w
}

// leave removes a caller that no longer waits, and reports whether it still did.
func (q *Queue) leave(w *waiter) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	i := slices.Index(q.waiting, w)
	if i >= 0 {
		q.waiting = slices.Delete(q.waiting, i, i+1)
		q.tell()
	}
	return i >= 0
}

func (q *Queue) release(owner string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.total--
	if q.working[owner]--; q.working[owner] == 0 {
		delete(q.working, owner)
	}
	q.admit()
}

// admit starts waiting callers until the limit is reached. The caller must hold q.mu.
func (q *Queue) admit() {
	for q.total < q.limit && len(q.waiting) > 0 {
		next := 0
		for i, w := range q.waiting {
			if w.before(q.waiting[next], q.working) {
				next = i
			}
		}
		w := q.waiting[next]
		q.waiting = slices.Delete(q.waiting, next, next+1)
		q.working[w.Owner]++
		q.total++
		close(w.ready)
	}
	q.tell()
}

// before reports whether a waiting caller is to work before another one that has waited longer, with the work in
// progress by owner.
func (w *waiter) before(other *waiter, working map[string]int) bool {
	return cmp.Or(cmp.Compare(working[w.Owner], working[other.Owner]), cmp.Compare(w.Run, other.Run)) < 0
}

func (q *Queue) tell() {
	if q.watcher != nil {
		q.watcher.Queued(q.total, len(q.waiting))
	}
}
