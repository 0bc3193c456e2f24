package forgeevents_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/store/forgeevents"
	"github.com/rocketgpt/orchestrator/internal/store/pullrequests"
	"github.com/rocketgpt/orchestrator/internal/storetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(storetest.Main(m)) }

func comment(number int64, id string) forgeevents.Event {
	return forgeevents.Event{
		Forge: "work", Repo: "team/app", Number: number, Key: "comment:" + id, Kind: forgeevents.Comment, Name: "app.go:3",
		Payload: forgeevents.Payload{ID: id, Body: "rename it", Author: "ann"},
	}
}

// staying gives the fixture's run a pull request, and lets it watch its branch.
func staying(t *testing.T, f *storetest.Fixture, number int64, commit string) {
	t.Helper()
	until := time.Now().Add(time.Hour)
	f.Apply(t, contract.Record{Run: &contract.RunChange{Status: contract.StatusDone, StayingUntil: &until}})
	require.NoError(t, pullrequests.Save(t.Context(), f.Store, contract.PullRequest{
		RunID: f.First.ID, Forge: "work", Repo: "team/app", Number: number, URL: "https://git.example.com/7", Title: "t", Head: "rgpt/run-1", Base: "main",
		Commit: commit, State: contract.PullRequestOpen,
	}, true))
}

func TestAnEventThatIsSeenByServersAndWebhooksIsOneRow(t *testing.T) {
	t.Parallel()
	st := storetest.New(t)
	var all sync.WaitGroup
	added := make([]int, 8)
	for i := range added {
		all.Go(func() {
			n, err := forgeevents.Add(t.Context(), st, []forgeevents.Event{comment(7, "1"), comment(7, "2")})
			if err == nil {
				added[i] = n
			}
		})
	}
	all.Wait()
	sum := 0
	for _, n := range added {
		sum += n
	}
	require.Equal(t, 2, sum)
	events, err := forgeevents.Of(t.Context(), st, "work", "team/app", 7, 10)
	require.NoError(t, err)
	require.Len(t, events, 2)
	require.Equal(t, "rename it", events[0].Payload.Body)
	require.Equal(t, forgeevents.Pending, events[0].State)
}

func TestEventsOfAPullRequestAreClaimedInOrderAndNeverWaitForOthers(t *testing.T) {
	t.Parallel()
	st := storetest.New(t)
	ctx := t.Context()
	_, err := forgeevents.Add(ctx, st, []forgeevents.Event{comment(7, "1"), comment(7, "2"), comment(8, "3")})
	require.NoError(t, err)
	first, err := forgeevents.Claim(ctx, st, 10, time.Minute)
	require.NoError(t, err)
	require.Len(t, first, 2, "the first one of each pull request")
	none, err := forgeevents.Claim(ctx, st, 10, time.Minute)
	require.NoError(t, err)
	require.Empty(t, none, "they are leased")
	for _, e := range first {
		if e.Number == 8 {
			require.NoError(t, forgeevents.Retry(ctx, st, e, time.Hour, "the forge is down"))
			continue
		}
		ended, err := forgeevents.End(ctx, st, e, forgeevents.Outcome{State: forgeevents.Ignored, Reason: "no"})
		require.NoError(t, err)
		require.True(t, ended)
	}
	second, err := forgeevents.Claim(ctx, st, 10, time.Minute)
	require.NoError(t, err)
	require.Len(t, second, 1)
	require.Equal(t, "comment:2", second[0].Key)
}

func TestAnEventOfADeadServerIsTakenOverAndTheDeadOneCannotEndIt(t *testing.T) {
	t.Parallel()
	st := storetest.New(t)
	ctx := t.Context()
	_, err := forgeevents.Add(ctx, st, []forgeevents.Event{comment(7, "1")})
	require.NoError(t, err)
	dead, err := forgeevents.Claim(ctx, st, 10, 0)
	require.NoError(t, err)
	require.Len(t, dead, 1)
	alive, err := forgeevents.Claim(ctx, st, 10, time.Minute)
	require.NoError(t, err)
	require.Len(t, alive, 1)
	require.Equal(t, 2, alive[0].Attempt)
	ended, err := forgeevents.End(ctx, st, dead[0], forgeevents.Outcome{State: forgeevents.Failed})
	require.NoError(t, err)
	require.False(t, ended)
	ended, err = forgeevents.End(ctx, st, alive[0], forgeevents.Outcome{State: forgeevents.Sent})
	require.NoError(t, err)
	require.True(t, ended)
}

func TestServersThatClaimAtOnceShareTheEvents(t *testing.T) {
	t.Parallel()
	st := storetest.New(t)
	ctx := t.Context()
	var events []forgeevents.Event
	for n := range int64(60) {
		events = append(events, comment(n+1, fmt.Sprint(n)))
	}
	_, err := forgeevents.Add(ctx, st, events)
	require.NoError(t, err)
	var all sync.WaitGroup
	var mu sync.Mutex
	seen := map[int64]int{}
	for range 4 {
		all.Go(func() {
			for range 30 {
				claimed, err := forgeevents.Claim(ctx, st, 3, time.Minute)
				if err != nil {
					return
				}
				mu.Lock()
				for _, e := range claimed {
					seen[e.ID]++
				}
				mu.Unlock()
			}
		})
	}
	all.Wait()
	require.Len(t, seen, 60)
	for _, n := range seen {
		require.Equal(t, 1, n)
	}
}

func TestAPullRequestIsDueAtOnceThenAfterItsTimeOrANewReleaseOrAWebhook(t *testing.T) {
	t.Parallel()
	f := storetest.Setup(t)
	ctx := t.Context()
	due := func() []forgeevents.Watch {
		t.Helper()
		found, err := forgeevents.Due(ctx, f.Store, "work", 10)
		require.NoError(t, err)
		return found
	}
	require.Empty(t, due())
	staying(t, f, 7, "c0ffee")
	require.Len(t, due(), 1)
	w := due()[0]
	require.Equal(t, f.First.ID, w.RunID)
	require.Equal(t, "c0ffee", w.Commit)
	require.WithinDuration(t, w.Began, w.Since, time.Minute)

	require.NoError(t, forgeevents.EndLook(ctx, f.Store, w, -1, ""))
	require.Empty(t, due(), "polling is off")
	staying(t, f, 7, "decaf")
	require.Len(t, due(), 1, "it was released again")
	w = due()[0]
	require.NoError(t, forgeevents.EndLook(ctx, f.Store, w, time.Hour, ""))
	require.Empty(t, due())

	deliver := func(id string, d forgeevents.Delivery) bool {
		d.Forge, d.ID, d.Key = "work", id, id
		fresh, err := forgeevents.Receive(ctx, f.Store, d)
		require.NoError(t, err)
		return fresh
	}
	require.True(t, deliver("a", forgeevents.Delivery{Repo: "other/app", Number: 7}))
	require.True(t, deliver("b", forgeevents.Delivery{Repo: "team/app", Number: 8}))
	require.True(t, deliver("c", forgeevents.Delivery{Repo: "team/app", Commit: "beef"}))
	longAgo(t, f)
	require.Empty(t, due(), "webhooks about something else")
	for name, d := range map[string]forgeevents.Delivery{
		"number": {Repo: "Team/App", Number: 7}, "branch": {Repo: "team/app", Branch: "rgpt/run-1"}, "commit": {Repo: "team/app", Commit: "decaf"},
	} {
		longAgo(t, f)
		require.True(t, deliver(name, d))
		require.Len(t, due(), 1, name)
		require.False(t, deliver(name, d))
		require.NoError(t, forgeevents.EndLook(ctx, f.Store, due()[0], time.Hour, ""))
		require.Empty(t, due())
	}
}

// longAgo makes all looks so old that a webhook need not wait.
func longAgo(t *testing.T, f *storetest.Fixture) {
	t.Helper()
	storetest.Query(t, f.URL, func(ctx context.Context, conn *pgx.Conn) {
		_, err := conn.Exec(ctx, "UPDATE orchestrator_forge_watches SET looked_at = looked_at - interval '1 hour'")
		require.NoError(t, err)
	})
}

func TestAWebhookDuringALookAsksForAnotherOne(t *testing.T) {
	t.Parallel()
	f := storetest.Setup(t)
	ctx := t.Context()
	staying(t, f, 7, "c0ffee")
	found, err := forgeevents.Due(ctx, f.Store, "work", 10)
	require.NoError(t, err)
	require.NoError(t, forgeevents.EndLook(ctx, f.Store, found[0], 0, ""))
	found, err = forgeevents.Due(ctx, f.Store, "work", 10)
	require.NoError(t, err)
	fresh, err := forgeevents.Receive(ctx, f.Store, forgeevents.Delivery{Forge: "work", ID: "x", Key: "x", Repo: "team/app", Number: 7})
	require.NoError(t, err)
	require.True(t, fresh)
	require.NoError(t, forgeevents.EndLook(ctx, f.Store, found[0], time.Hour, ""))
	var next time.Time
	storetest.Query(t, f.URL, func(ctx context.Context, conn *pgx.Conn) {
		require.NoError(t, conn.QueryRow(ctx, "SELECT next_at FROM orchestrator_forge_watches").Scan(&next))
	})
	require.WithinDuration(t, found[0].Began, next, time.Minute)
}

func TestADeliveryCountsOnceByItsIDAndByWhatItSays(t *testing.T) {
	t.Parallel()
	st := storetest.New(t)
	receive := func(id, key string) bool {
		fresh, err := forgeevents.Receive(t.Context(), st, forgeevents.Delivery{Forge: "work", ID: id, Key: key, Repo: "team/app", Number: 1})
		require.NoError(t, err)
		return fresh
	}
	require.True(t, receive("1", "comment:5"))
	require.False(t, receive("1", "comment:6"), "a replayed delivery")
	require.False(t, receive("2", "comment:5"), "the same event in another delivery")
	require.True(t, receive("3", "comment:6"))
}

func TestOldEventsGoUnlessTheirRunStillWatches(t *testing.T) {
	t.Parallel()
	f := storetest.Setup(t)
	ctx := t.Context()
	staying(t, f, 7, "c0ffee")
	_, err := forgeevents.Add(ctx, f.Store, []forgeevents.Event{comment(7, "1"), comment(8, "2"), comment(9, "3")})
	require.NoError(t, err)
	claimed, err := forgeevents.Claim(ctx, f.Store, 10, time.Minute)
	require.NoError(t, err)
	for _, e := range claimed {
		if e.Number != 9 {
			_, err = forgeevents.End(ctx, f.Store, e, forgeevents.Outcome{State: forgeevents.Sent, RunID: f.First.ID})
			require.NoError(t, err)
		}
	}
	n, err := forgeevents.Sweep(ctx, f.Store, 0)
	require.NoError(t, err)
	require.Equal(t, int64(1), n, "not the one of the watching run, and not the pending one")
}
