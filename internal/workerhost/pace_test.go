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

// begins makes an activity wait for a place, and returns a channel that is closed when it has one.
func begins(ctx context.Context, a *paced) (begun chan struct{}) {
	begun = make(chan struct{})
	go func() { a.work(ctx); close(begun) }()
	return begun
}

func TestAnActivityWaitsUntilAnotherRestsOrHasWorkedLongEnough(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newPace(1, inProject)
		first, second, third := &paced{pace: p, workflowID: "run-1"}, &paced{pace: p, workflowID: "run-2"}, &paced{pace: p, workflowID: "run-3"}
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
		first.rest() // it has no place
		<-begins(t.Context(), third)
		require.Equal(t, paceTime, time.Since(began), "the second did not say whether it still works")
		second.rest() // its place was given to another
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		<-begins(ended, first) // it does not wait
		third.rest()
		require.Equal(t, 1, p.places.Room())

		<-begins(t.Context(), first)
		<-begins(t.Context(), first) // it has a place
		require.Zero(t, p.places.Room())
		<-time.After(paceTime) // by the clock of this test
		synctest.Wait()
		require.Equal(t, 1, p.places.Room())
		_, err := p.places.Acquire(t.Context(), cores.Claim{})
		require.NoError(t, err)
		began = time.Now()
		<-begins(t.Context(), second)
		require.Equal(t, paceWait, time.Since(began), "it works without a place, before its own time is up")
	})
}

func TestActivitiesWaitAsTheirProject(t *testing.T) {
	t.Parallel()
	lookups := 0
	var failure error
	p := newPace(1, func(_ context.Context, run int64) (string, error) {
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
	(&paced{workflowID: "run-42"}).work(t.Context()) // without a pace, nothing waits
}
