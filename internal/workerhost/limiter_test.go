package workerhost

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/internal/cores"
)

// inProject is the project of all runs.
func inProject(context.Context, int64) (string, error) { return "tenant/project", nil }

// begins makes an activity wait for a slot, and returns a channel that is closed when it has one.
func begins(ctx context.Context, a *limited) (begun chan struct{}) {
	begun = make(chan struct{})
	go func() { a.begin(ctx); close(begun) }()
	return begun
}

func TestAnActivityWaitsUntilAnotherRestsOrHasWorkedLongEnough(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newLimiter(1, inProject)
		first, second, third := &limited{limiter: p, workflowID: "run-1"}, &limited{limiter: p, workflowID: "run-2"}, &limited{limiter: p, workflowID: "run-3"}
		<-begins(t.Context(), first)
		began := time.Now()
		next := begins(t.Context(), second)
		synctest.Wait()
		select {
		case <-next:
			t.Fatal("two activities work at the same time")
		default:
		}
		first.rest()
		<-next
		require.Zero(t, time.Since(began), "it begins as soon as the other rests")
		first.rest() // it has no slot
		<-begins(t.Context(), third)
		require.Equal(t, slotTime, time.Since(began), "the second did not say whether it still works")
		second.rest() // its slot was given to another
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		<-begins(ended, first) // it does not wait
		third.rest()
		require.Equal(t, 1, p.slots.Free())

		<-begins(t.Context(), first)
		<-begins(t.Context(), first) // it has a slot
		require.Zero(t, p.slots.Free())
		<-time.After(slotTime) // by the clock of this test
		synctest.Wait()
		require.Equal(t, 1, p.slots.Free())
		_, err := p.slots.Acquire(t.Context(), cores.Claim{})
		require.NoError(t, err)
		began = time.Now()
		<-begins(t.Context(), second)
		require.Equal(t, slotWait, time.Since(began), "it works without a slot, before its own time is up")
	})
}

func TestActivitiesWaitAsTheirProject(t *testing.T) {
	t.Parallel()
	lookups := 0
	var failure error
	p := newLimiter(1, func(_ context.Context, run int64) (string, error) {
		lookups++
		require.EqualValues(t, 42, run)
		return "tenant/project", failure
	})
	failure = errors.New("the database is down")
	require.Equal(t, cores.Claim{Run: 42}, p.claim(t.Context(), "run-42"))
	failure = nil
	for range 2 {
		require.Equal(t, cores.Claim{Owner: "tenant/project", Run: 42}, p.claim(t.Context(), "run-42/heal/1"))
	}
	require.Equal(t, 2, lookups, "what was found is remembered")
	require.Equal(t, cores.Claim{}, p.claim(t.Context(), "pipeline-7"))
	(&limited{workflowID: "run-42"}).begin(t.Context()) // without a limiter, nothing waits
}
