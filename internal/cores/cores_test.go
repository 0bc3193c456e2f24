package cores_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/rocketgpt/orchestrator/internal/cores"
	"github.com/rocketgpt/orchestrator/internal/notice"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// watcher keeps the numbers of a queue.
type watcher struct {
	mu               sync.Mutex
	working, waiting int
	waits            int
}

func (w *watcher) Queued(working, waiting int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.working, w.waiting = working, waiting
}

func (w *watcher) Waited(time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.waits++
}

func (w *watcher) numbers() (working, waiting, waits int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.working, w.waiting, w.waits
}

// caller is one that works until it is told to end.
type caller struct {
	owner   string
	waiting chan struct{}
	begun   chan string // gets the owner
	end     chan struct{}
	done    chan error
}

func start(ctx context.Context, q *cores.Queue, owner string, begun chan string) *caller {
	return startRun(ctx, q, cores.Claim{Owner: owner}, owner, begun)
}

// startRun starts a caller that sends its name to begun when it works.
func startRun(ctx context.Context, q *cores.Queue, claim cores.Claim, name string, begun chan string) *caller {
	w := &caller{owner: claim.Owner, waiting: make(chan struct{}), begun: begun, end: make(chan struct{}), done: make(chan error, 1)}
	go func() {
		release, err := q.Acquire(notice.With(ctx, notice.Receiver{Waits: func(now bool) {
			if now {
				close(w.waiting)
			}
		}}), claim)
		if err == nil {
			begun <- name
			<-w.end
			release()
		}
		w.done <- err
	}()
	return w
}

func TestAnOwnerThatAsksForMuchDoesNotKeepTheOthersOut(t *testing.T) {
	t.Parallel()
	numbers := &watcher{}
	q := cores.NewQueue(2, numbers)
	begun := make(chan string, 16)
	var all []*caller
	begin := func(owner string, waits bool) *caller {
		w := start(t.Context(), q, owner, begun)
		all = append(all, w)
		if waits {
			<-w.waiting
		} else {
			require.Equal(t, owner, <-begun)
		}
		return w
	}
	first, second := begin("large", false), begin("large", false)
	for range 3 {
		begin("large", true)
	}
	small, other := begin("small", true), begin("other", true)
	working, waiting, _ := numbers.numbers()
	require.Equal(t, []int{2, 5}, []int{working, waiting})

	close(first.end)
	require.Equal(t, "small", <-begun, "it has no work in progress and came before the other")
	close(small.end)
	require.Equal(t, "other", <-begun, "the large one has some")
	close(other.end)
	require.Equal(t, "large", <-begun)
	close(second.end)
	require.Equal(t, "large", <-begun)
	for _, w := range all[2:5] {
		close(w.end)
	}
	require.Equal(t, "large", <-begun)
	for _, w := range all {
		require.NoError(t, <-w.done)
	}
	working, waiting, waits := numbers.numbers()
	require.Equal(t, []int{0, 0, 7}, []int{working, waiting, waits})
}

func TestTheOldestRunOfAnOwnerIsFirst(t *testing.T) {
	t.Parallel()
	q := cores.NewQueue(1, nil)
	release, err := q.Acquire(t.Context(), cores.Claim{Owner: "a", Run: 1})
	require.NoError(t, err)
	begun := make(chan string, 4)
	var all []*caller
	for _, c := range []struct {
		claim cores.Claim
		name  string
	}{
		{cores.Claim{Owner: "a", Run: 3}, "a 3"}, {cores.Claim{Owner: "a", Run: 2}, "a 2"}, {cores.Claim{Owner: "a", Run: 2}, "a 2 again"}, {cores.Claim{Owner: "b", Run: 9}, "b 9"},
	} {
		w := startRun(t.Context(), q, c.claim, c.name, begun)
		<-w.waiting
		close(w.end)
		all = append(all, w)
	}
	release()
	var order []string
	for range all {
		order = append(order, <-begun)
	}
	// When the first one ends, no owner has work in progress, so only runs count; a place was never free meanwhile.
	require.Equal(t, []string{"a 2", "a 2 again", "a 3", "b 9"}, order)
	for _, w := range all {
		require.NoError(t, <-w.done)
	}
}

func TestACallerWhoseContextEndsLeavesTheQueue(t *testing.T) {
	t.Parallel()
	q := cores.NewQueue(1, nil)
	release, err := q.Acquire(t.Context(), cores.Claim{Owner: "a"})
	require.NoError(t, err)
	why := errors.New("the run was stopped")
	ctx, cancel := context.WithCancelCause(t.Context())
	w := start(ctx, q, "b", make(chan string, 1))
	<-w.waiting
	cancel(why)
	require.ErrorIs(t, <-w.done, why)
	release()
	release()
	again, err := q.Acquire(notice.With(t.Context(), notice.Receiver{Waits: func(bool) { t.Error("nobody else works") }}), cores.Claim{Owner: "c"})
	require.NoError(t, err)
	again()
}

func TestWithoutALimitTheCoresDecide(t *testing.T) {
	t.Parallel()
	require.Equal(t, 7, cores.Limit(7))
	require.Positive(t, cores.Limit(0))
	require.Zero(t, cores.Limit(0)%cores.PerCore)
	var none *cores.Queue
	release, err := none.Acquire(t.Context(), cores.Claim{Owner: "a"})
	require.NoError(t, err)
	release()
	require.Positive(t, none.Free())
}

func TestFreeIsTheLimitMinusThoseThatWork(t *testing.T) {
	t.Parallel()
	q := cores.NewQueue(2, nil)
	require.Equal(t, 2, q.Free())
	first, err := q.Acquire(t.Context(), cores.Claim{Owner: "a"})
	require.NoError(t, err)
	require.Equal(t, 1, q.Free())
	second, err := q.Acquire(t.Context(), cores.Claim{Owner: "b"})
	require.NoError(t, err)
	require.Zero(t, q.Free())
	first()
	second()
	require.Equal(t, 2, q.Free())
}

func TestManyCallersNeverExceedTheLimitAndAllGetTheirTurn(t *testing.T) {
	t.Parallel()
	const limit, callers = 3, 300
	q := cores.NewQueue(limit, nil)
	var mu sync.Mutex
	var now, most, done int
	var group sync.WaitGroup
	for i := range callers {
		group.Go(func() {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			if i%5 == 0 {
				go cancel() // at any moment
			}
			release, err := q.Acquire(ctx, cores.Claim{Owner: string(rune('a' + i%7)), Run: int64(i % 3)})
			mu.Lock()
			defer mu.Unlock()
			done++
			if err != nil {
				return
			}
			now++
			most = max(most, now)
			mu.Unlock()
			for range 100 {
				_ = time.Now()
			}
			mu.Lock()
			now--
			release()
		})
	}
	group.Wait()
	require.Equal(t, callers, done)
	require.LessOrEqual(t, most, limit)
	release, err := q.Acquire(notice.With(t.Context(), notice.Receiver{Waits: func(bool) { t.Error("a place was lost") }}), cores.Claim{Owner: "last"})
	require.NoError(t, err)
	release()
}
