package store_test

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/internal/storetest"
)

func TestAModelCallHasOneOwnerAtATime(t *testing.T) {
	t.Parallel()
	b := setup(t)
	other := storetest.Open(t, b.URL)
	release, owned, err := b.LeaseCall(t.Context(), 1, 1, time.Minute)
	require.NoError(t, err)
	require.True(t, owned)
	_, owned, err = other.LeaseCall(t.Context(), 1, 1, 0)
	require.NoError(t, err)
	require.False(t, owned, "the first one has it")
	again, owned, err := other.LeaseCall(t.Context(), 1, 2, 0)
	require.NoError(t, err)
	require.True(t, owned, "another turn is another call")
	again()
	again, owned, err = other.LeaseCall(t.Context(), 1, 2, 0)
	require.NoError(t, err)
	require.True(t, owned, "the query that takes a lease also ends those released before it")
	_, owned, err = b.LeaseCall(t.Context(), 1, 2, 0)
	require.NoError(t, err)
	require.False(t, owned, "but not the one that it takes")
	again()

	type result struct {
		release func()
		owned   bool
		err     error
	}
	got := make(chan result, 1)
	go func() {
		release, owned, err := other.LeaseCall(t.Context(), 1, 1, time.Minute)
		got <- result{release, owned, err}
	}()
	select {
	case <-got:
		require.Fail(t, "it did not wait")
	default:
	}
	release()
	release() // harmless
	r := <-got
	require.NoError(t, r.err)
	require.True(t, r.owned)
	r.release()
}

func TestWhatAProcessLockedIsFreeWhenItDies(t *testing.T) {
	t.Parallel()
	b := setup(t)
	dies := storetest.Open(t, b.URL)
	_, owned, err := dies.LeaseCall(t.Context(), 7, 1, 0)
	require.NoError(t, err)
	require.True(t, owned)
	dies.Close() // its connection ends, like when a process dies
	release, owned, err := b.LeaseCall(t.Context(), 7, 1, time.Minute)
	require.NoError(t, err)
	require.True(t, owned)
	release()
	_, _, err = dies.LeaseCall(t.Context(), 7, 1, 0)
	require.Error(t, err, "a closed store owns nothing more")
}

func TestAnOwnerWhoseConnectionBreaksConnectsAgain(t *testing.T) {
	t.Parallel()
	b := setup(t)
	release, owned, err := b.LeaseCall(t.Context(), 3, 1, 0)
	require.NoError(t, err)
	require.True(t, owned)
	storetest.Query(t, b.URL, func(ctx context.Context, conn *pgx.Conn) {
		var ended int
		require.NoError(t, conn.QueryRow(ctx, `SELECT count(*) FROM (SELECT pg_terminate_backend(pid, 5000) FROM pg_locks
			WHERE locktype = 'advisory' AND database = (SELECT oid FROM pg_database WHERE datname = current_database())) x`).Scan(&ended))
		require.Equal(t, 1, ended)
	})
	release() // on a connection that is gone: nothing to give back
	release, owned, err = b.LeaseCall(t.Context(), 3, 1, 0)
	require.NoError(t, err)
	require.True(t, owned)
	release()
}

func TestWhoeverWaitsForAnotherProcessCanBeCancelled(t *testing.T) {
	t.Parallel()
	b := setup(t)
	release, owned, err := b.LeaseCall(t.Context(), 4, 1, 0)
	require.NoError(t, err)
	require.True(t, owned)
	defer release()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, owned, err = storetest.Open(t, b.URL).LeaseCall(ctx, 4, 1, time.Minute)
	require.ErrorIs(t, err, context.Canceled)
	require.False(t, owned)
}
