package feed_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/internal/store/feed"
	"github.com/rocketgpt/orchestrator/internal/storetest"
)

func TestFollowSeesEachEventOnceInOrderThoughItsConnectionsAreKilled(t *testing.T) {
	t.Parallel()
	b := storetest.Setup(t)
	follower, err := store.Open(t.Context(), b.URL, store.Options{MaxConns: 2, ApplicationName: "follower"})
	require.NoError(t, err)
	t.Cleanup(follower.Close)
	events := storetest.Feed(t, follower, feed.Options{PollEvery: time.Minute})

	const total = 5000
	var g errgroup.Group
	g.Go(func() error {
		for n, left := int64(1), total-1; left > 0; n++ {
			size := min(left, 13)
			left -= size
			if _, err := b.Record(t.Context(), b.Source(), contract.Record{RunID: b.First.ID, Seq: n, Events: storetest.Drafts(size)}); err != nil {
				return err
			}
		}
		return nil
	})
	killer, stopKilling := context.WithCancel(t.Context())
	kills := 0
	var killing sync.WaitGroup
	killing.Go(func() {
		conn, err := pgx.Connect(t.Context(), b.URL)
		if err != nil {
			return
		}
		defer func() { _ = conn.Close(t.Context()) }()
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-killer.Done():
				return
			case <-tick.C:
				var n int
				if conn.QueryRow(t.Context(), "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE application_name = 'follower' AND datname = current_database()").Scan(&n) == nil {
					kills += n
				}
			}
		}
	})
	var last int64
	err = events.Follow(t.Context(), b.First.ID, 0, func(e contract.Event) error {
		require.Equal(t, last+1, e.Seq)
		last = e.Seq
		if last > total-100 {
			stopKilling() // let it end
		}
		if last == total {
			return feed.ErrStop
		}
		return nil
	})
	stopKilling()
	killing.Wait()
	require.NoError(t, g.Wait())
	require.NoError(t, err)
	require.EqualValues(t, total, last)
	require.Positive(t, kills)
	t.Logf("%d connections were killed", kills)
}

func TestFollowIsWokenByNotificationsNotByPolling(t *testing.T) {
	t.Parallel()
	b := storetest.Setup(t) // polls once a minute
	seen := make(chan contract.Event)
	var g errgroup.Group
	g.Go(func() error {
		return b.Follow(t.Context(), b.First.ID, 1, func(e contract.Event) error {
			seen <- e
			if e.Seq == 6 {
				return feed.ErrStop
			}
			return nil
		})
	})
	for want := int64(2); want <= 6; want++ {
		b.Apply(t, contract.Record{Events: storetest.Drafts(1)})
		require.Equal(t, want, (<-seen).Seq)
	}
	require.NoError(t, g.Wait())
}

func TestFollowEndsWhenItsCallerStopsIt(t *testing.T) {
	t.Parallel()
	b := storetest.Setup(t)
	mine := errors.New("mine")
	require.ErrorIs(t, b.Follow(t.Context(), b.First.ID, 0, func(contract.Event) error { return mine }), mine)
	require.ErrorIs(t, b.Follow(t.Context(), 4711, 0, func(contract.Event) error { return nil }), store.ErrNotFound)
	ctx, cancel := context.WithCancel(t.Context())
	require.ErrorIs(t, b.Follow(ctx, b.First.ID, 0, func(contract.Event) error { cancel(); return nil }), context.Canceled)

	waiting := make(chan struct{})
	ended := make(chan error)
	f := feed.New(b.Store, feed.Options{})
	go func() {
		ended <- f.Follow(t.Context(), b.First.ID, 0, func(contract.Event) error { close(waiting); return nil })
	}()
	<-waiting
	f.Close()
	require.Error(t, <-ended, "a feed that is closed has no followers")
	require.Error(t, f.Follow(t.Context(), b.First.ID, 0, nil))
}

func TestFollowAllSkipsNoLateCommit(t *testing.T) {
	t.Parallel()
	b := storetest.Setup(t)
	other := b.Create(t, store.NewRun{})
	start, err := b.End(t.Context())
	require.NoError(t, err)
	storetest.Query(t, b.URL, func(ctx context.Context, conn *pgx.Conn) {
		late, err := conn.Begin(ctx)
		require.NoError(t, err)
		_, err = late.Exec(ctx, "INSERT INTO orchestrator_events (run_id, seq, event_type) VALUES ($1, 2, 'late')", other.ID)
		require.NoError(t, err)
		b.Apply(t, contract.Record{Events: []contract.EventDraft{{Type: "early"}}})
		events, err := b.Page(t.Context(), start, 0)
		require.NoError(t, err)
		for _, e := range events {
			require.Equal(t, contract.EventRunCreated, e.Type, "an older transaction may still add something before it")
		}

		var g errgroup.Group
		var types []contract.EventType
		g.Go(func() error {
			return b.FollowAll(t.Context(), start, func(e feed.Event) error {
				if e.Type != contract.EventRunCreated { // what a moment before the end is may come too
					types = append(types, e.Type)
				}
				if len(types) == 2 {
					return feed.ErrStop
				}
				return nil
			})
		})
		_, err = late.Exec(ctx, "SELECT pg_notify('rgpt_events', '1:2')")
		require.NoError(t, err)
		require.NoError(t, late.Commit(ctx))
		require.NoError(t, g.Wait())
		require.Equal(t, []contract.EventType{"late", "early"}, types)
	})
}

func TestFollowAllSeesWhatManyWritersAdd(t *testing.T) {
	t.Parallel()
	b := storetest.Setup(t)
	runs := []store.Run{b.First, b.Create(t, store.NewRun{}), b.Create(t, store.NewRun{})}
	const each = 100
	var g errgroup.Group
	for _, run := range runs {
		g.Go(func() error {
			for n := range each {
				from := store.Source{WorkflowID: contract.RunWorkflowID(run.ID), WorkflowRunID: "x"}
				if _, err := b.Record(t.Context(), from, contract.Record{RunID: run.ID, Seq: int64(n + 1), Events: storetest.Drafts(1)}); err != nil {
					return err
				}
			}
			return nil
		})
	}
	last := map[int64]int64{}
	total := 0
	require.NoError(t, b.FollowAll(t.Context(), feed.Cursor{}, func(e feed.Event) error {
		require.Equal(t, last[e.RunID]+1, e.Seq)
		last[e.RunID] = e.Seq
		if total++; total == len(runs)*(each+1) {
			return feed.ErrStop
		}
		return nil
	}))
	require.NoError(t, g.Wait())
}

func TestEventsThatFollowEachOtherQuicklyAreReadTogether(t *testing.T) {
	t.Parallel()
	b := storetest.Setup(t)
	const every = 300 * time.Millisecond
	events := storetest.Feed(t, b.Store, feed.Options{PollEvery: time.Minute, ReadAllEvery: every})
	ctx, stop := context.WithCancel(t.Context())
	t.Cleanup(stop)
	looks := make(chan int, 1000)
	var watching errgroup.Group
	watching.Go(func() error {
		return events.Watch(ctx, func() (bool, error) {
			last, err := events.LastEvent(ctx, b.First.ID)
			looks <- int(last)
			return false, err
		})
	})
	<-looks
	began := time.Now()
	for n := int64(1); n <= 60; n++ {
		_, err := b.Record(ctx, b.Source(), contract.Record{RunID: b.First.ID, Seq: n, Events: storetest.Drafts(1)})
		require.NoError(t, err)
	}
	last, err := events.LastEvent(ctx, b.First.ID)
	require.NoError(t, err)
	count := 1
	for int64(<-looks) < last {
		count++
	}
	// The connection that listens may wake the reader once more.
	require.LessOrEqual(t, count, int(time.Since(began)/every)+3)
	stop()
	require.ErrorIs(t, watching.Wait(), context.Canceled)
}
