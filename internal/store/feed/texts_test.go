package feed_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/internal/await"
	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/internal/store/feed"
	"github.com/rocketgpt/orchestrator/internal/storetest"
)

// reader follows the texts of a run until its test ends.
func reader(t *testing.T, f *feed.Feed, run int64) <-chan store.LiveText {
	t.Helper()
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	got, ended := make(chan store.LiveText, 1000), make(chan error, 1)
	go func() { ended <- f.FollowTexts(ctx, run, func(x store.LiveText) error { got <- x; return nil }) }()
	t.Cleanup(func() {
		stop()
		require.ErrorIs(t, <-ended, context.Canceled)
	})
	return got
}

// untilReceived shows a text until a reader gets it.
func untilReceived(t *testing.T, b *storetest.Fixture, x store.LiveText, got <-chan store.LiveText) (last store.LiveText) {
	t.Helper()
	await.Until(t, "the reader", func() bool {
		_, err := b.ShowText(t.Context(), x)
		require.NoError(t, err)
		select {
		case last = <-got:
		default:
		}
		return last.Text == x.Text
	})
	return last
}

// untilShown shows a text until somebody watches.
func untilShown(t *testing.T, b *storetest.Fixture, x store.LiveText) {
	t.Helper()
	await.Until(t, "somebody who watches", func() bool {
		watched, err := b.ShowText(t.Context(), x)
		require.NoError(t, err)
		return watched
	})
}

// receive returns the first text that is not a repetition.
func receive(t *testing.T, got <-chan store.LiveText, want string) store.LiveText {
	t.Helper()
	late := time.After(time.Minute)
	for {
		select {
		case x := <-got:
			if x.Text == want {
				return x
			}
		case <-late:
			require.Failf(t, "too late", "no text %q", want)
		}
	}
}

func TestATextReachesAllWhoWatchItsRunAndIsSentOnlyWhileTheyDo(t *testing.T) {
	t.Parallel()
	b := storetest.Setup(t)
	other := b.Create(t, store.NewRun{})
	text := store.LiveText{RunID: b.First.ID, ExecutionID: 3, Turn: 1, Try: 1, Text: strings.Repeat("\"\n<", store.LiveTextBytes/3)}
	watched, err := b.ShowText(t.Context(), text)
	require.NoError(t, err)
	require.False(t, watched)

	one, two, others := reader(t, b.Feed, b.First.ID), reader(t, b.Feed, b.First.ID), reader(t, b.Feed, other.ID)
	require.Equal(t, text, untilReceived(t, b, text, one), "an escaped text of the greatest length fits")
	untilReceived(t, b, store.LiveText{RunID: other.ID, Text: "of the other run"}, others)
	untilReceived(t, b, text, two)
	for len(others) > 0 {
		require.Equal(t, "of the other run", (<-others).Text)
	}

	short, stop := context.WithCancel(t.Context())
	stop()
	require.ErrorIs(t, b.FollowTexts(short, b.First.ID, nil), context.Canceled)
	require.ErrorIs(t, b.FollowTexts(t.Context(), 999, nil), store.ErrNotFound)
}

func TestNothingIsSentAnyMoreWhenTheLastReaderHasLeft(t *testing.T) {
	t.Parallel()
	b := storetest.Setup(t)
	ended := make(chan error, 1)
	go func() {
		ended <- b.FollowTexts(context.WithoutCancel(t.Context()), b.First.ID, func(store.LiveText) error { return feed.ErrStop })
	}()
	untilShown(t, b, store.LiveText{RunID: b.First.ID, Text: "x"})
	require.NoError(t, <-ended)
	await.Until(t, "nobody watches", func() bool {
		watched, err := b.ShowText(t.Context(), store.LiveText{RunID: b.First.ID, Text: "x"})
		require.NoError(t, err)
		return !watched
	})
	got := reader(t, b.Feed, b.First.ID)
	untilShown(t, b, store.LiveText{RunID: b.First.ID, Text: "again"})
	receive(t, got, "again")
}

func TestReadersContinueWithLaterTextsAfterTheirConnectionIsLost(t *testing.T) {
	t.Parallel()
	b := storetest.Setup(t)
	follower, err := store.Open(t.Context(), b.URL, store.Options{MaxConns: 2, ApplicationName: "follower"})
	require.NoError(t, err)
	t.Cleanup(follower.Close)
	got := reader(t, storetest.Feed(t, follower, feed.Options{PollEvery: time.Minute}), b.First.ID)
	untilShown(t, b, store.LiveText{RunID: b.First.ID, Text: "before"})
	receive(t, got, "before")
	storetest.Query(t, b.URL, func(ctx context.Context, conn *pgx.Conn) {
		var n int
		require.NoError(t, conn.QueryRow(ctx, "SELECT count(pg_terminate_backend(pid, 60000)) FROM pg_stat_activity WHERE application_name = 'follower' AND datname = current_database()").Scan(&n))
		require.Positive(t, n)
	})
	untilShown(t, b, store.LiveText{RunID: b.First.ID, Text: "after"})
	receive(t, got, "after")
}

func TestASlowReaderGetsTheNewestTextOfEachCallAndNoneOfAnEarlierTry(t *testing.T) {
	t.Parallel()
	b := storetest.Setup(t)
	entered, leave := make(chan store.LiveText, 1000), make(chan struct{})
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan error, 1)
	go func() {
		ended <- b.FollowTexts(ctx, b.First.ID, func(x store.LiveText) error {
			entered <- x
			<-leave
			return nil
		})
	}()
	text := func(execution int64, try int, s string) store.LiveText {
		return store.LiveText{RunID: b.First.ID, ExecutionID: execution, Turn: 1, Try: try, Text: s}
	}
	untilShown(t, b, text(1, 1, "first"))
	require.Equal(t, "first", (<-entered).Text) // and the reader is busy
	marks := reader(t, b.Feed, b.First.ID)
	untilReceived(t, b, text(9, 1, "both are there"), marks)
	for _, x := range []store.LiveText{text(1, 2, "second try"), text(1, 1, "late"), text(2, 1, "a"), text(2, 1, "b"), text(3, 1, "mark")} {
		untilShown(t, b, x)
	}
	receive(t, marks, "mark") // delivered to both
	close(leave)
	for _, want := range []string{"both are there", "second try", "b", "mark"} {
		require.Equal(t, want, (<-entered).Text)
	}
	stop()
	require.ErrorIs(t, <-ended, context.Canceled)
}
