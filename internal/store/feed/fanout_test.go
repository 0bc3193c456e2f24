package feed_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/await"
	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/internal/store/feed"
	"github.com/rocketgpt/orchestrator/internal/storetest"
	"github.com/rocketgpt/orchestrator/internal/telemetry"
)

// queryCount returns how often this process has sent the database some queries.
func queryCount(tb testing.TB, operations ...string) (n uint64) {
	tb.Helper()
	families, err := telemetry.Registry.Gather()
	require.NoError(tb, err)
	for _, f := range families {
		if f.GetName() != "rgpt_database_duration_seconds" {
			continue
		}
		for _, m := range f.GetMetric() {
			for _, l := range m.GetLabel() {
				for _, o := range operations {
					if l.GetName() == "operation" && l.GetValue() == o {
						n += m.GetHistogram().GetSampleCount()
					}
				}
			}
		}
	}
	return n
}

// Not parallel: it counts for the whole process.
func TestFollowersWhoWaitAskNothingAndShareWhatComes(t *testing.T) {
	b := storetest.Setup(t)
	f := feed.New(b.Store, feed.Options{PollEvery: 50 * time.Millisecond})
	const each = 100
	runs := []store.Run{b.First, b.Create(t, store.NewRun{})}
	var seen atomic.Int64
	var following sync.WaitGroup
	ctx, stop := context.WithCancel(t.Context())
	for n := range each {
		following.Go(func() { _ = f.Follow(ctx, runs[n%2].ID, 0, func(contract.Event) error { seen.Add(1); return nil }) })
		following.Go(func() {
			_ = f.FollowAll(ctx, feed.Cursor{}, func(feed.Event) error { seen.Add(1); return nil })
		})
	}
	defer func() { stop(); following.Wait(); f.Close() }()
	await.Until(t, "all to have seen what there is", func() bool { return seen.Load() == each+2*each })
	polls := func() uint64 { return queryCount(t, "EventsSince") }
	at := polls()
	await.Until(t, "the last to come to rest", func() bool { return polls() > at+2 })

	at, reads := polls(), queryCount(t, "Events", "Feed")
	await.Until(t, "polls", func() bool { return polls() >= at+10 })
	require.Less(t, queryCount(t, "Events", "Feed")-reads, uint64(10), "%d who wait ask nothing", 2*each)

	reads = queryCount(t, "Events", "Feed")
	b.Apply(t, contract.Record{Events: storetest.Drafts(1)})
	await.Until(t, "all to see it", func() bool { return seen.Load() == 3*each+each/2+each })
	require.Less(t, queryCount(t, "Events", "Feed")-reads, uint64(20), "they share the reading")
}

func TestWhatNobodyAnnouncedIsFoundByPolling(t *testing.T) {
	t.Parallel()
	b := storetest.Setup(t)
	f := storetest.Feed(t, b.Store, feed.Options{PollEvery: 50 * time.Millisecond})
	ready := make(chan struct{}, 2)
	var g errgroup.Group
	see := func(e contract.Event) error {
		if e.Type == "quiet" {
			return feed.ErrStop
		}
		ready <- struct{}{}
		return nil
	}
	g.Go(func() error { return f.Follow(t.Context(), b.First.ID, 0, see) })
	g.Go(func() error {
		return f.FollowAll(t.Context(), feed.Cursor{}, func(e feed.Event) error { return see(e.Event) })
	})
	<-ready
	<-ready
	storetest.Query(t, b.URL, func(ctx context.Context, conn *pgx.Conn) {
		_, err := conn.Exec(ctx, "INSERT INTO orchestrator_events (run_id, seq, event_type) VALUES ($1, 2, 'quiet')", b.First.ID)
		require.NoError(t, err)
	})
	require.NoError(t, g.Wait())
}

func TestFollowersOfTheSameRunGoAtTheirOwnPace(t *testing.T) {
	t.Parallel()
	b := storetest.Setup(t)
	const total = 1500
	halt, fast := make(chan struct{}), make(chan struct{})
	follow := func(end chan struct{}, each func(seq int64)) func() error {
		last := int64(0)
		return func() error {
			return b.Follow(t.Context(), b.First.ID, 0, func(e contract.Event) error {
				require.Equal(t, last+1, e.Seq)
				last = e.Seq
				each(last)
				if last == total {
					if end != nil {
						close(end)
					}
					return feed.ErrStop
				}
				return nil
			})
		}
	}
	var g errgroup.Group
	g.Go(follow(fast, func(int64) {}))
	g.Go(follow(nil, func(seq int64) {
		if seq == 3 {
			<-halt // far more arrives meanwhile than is kept
		}
	}))
	for left := int64(total - 1); left > 0; left -= 100 {
		b.Apply(t, contract.Record{Events: heavy(int(min(left, 100)), 2000)})
	}
	<-fast
	close(halt)
	require.NoError(t, g.Wait())
}

// heavy returns events with a payload of that many bytes.
func heavy(n, bytes int) []contract.EventDraft {
	out := make([]contract.EventDraft, n)
	text := make([]byte, bytes)
	for i := range text {
		text[i] = 'x'
	}
	for i := range out {
		out[i] = contract.EventDraft{Type: contract.EventRunUpdated, Payload: map[string]string{"text": string(text)}}
	}
	return out
}
