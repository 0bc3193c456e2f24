package brain_test

import (
	"context"
	"encoding/binary"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/internal/store/brain"
	"github.com/rocketgpt/orchestrator/internal/storetest"
)

func blob(n int) brain.Blob {
	b := brain.Blob{Data: binary.BigEndian.AppendUint32(nil, uint32(n))}
	binary.BigEndian.PutUint32(b.Key[:], uint32(n))
	return b
}

func get(t *testing.T, b *storetest.Fixture, keys ...int) map[[16]byte]brain.Blob {
	t.Helper()
	list := make([][16]byte, len(keys))
	for i, n := range keys {
		list[i] = blob(n).Key
	}
	found := map[[16]byte]brain.Blob{}
	require.NoError(t, brain.Get(t.Context(), b.Store, list, func(one brain.Blob) error {
		found[one.Key] = one
		return nil
	}))
	return found
}

func TestBlobsAreStoredOnceAndFoundByTheirKeys(t *testing.T) {
	t.Parallel()
	b := storetest.Setup(t)
	var all []brain.Blob
	var keys []int
	for n := range 2500 {
		all, keys = append(all, blob(n)), append(keys, n)
	}
	require.NoError(t, brain.Put(t.Context(), b.Store, all))
	again := blob(7)
	again.Data = []byte("other")
	require.NoError(t, brain.Put(t.Context(), b.Store, []brain.Blob{again, blob(9999)}))
	found := get(t, b, append(keys, 9999, 12345)...)
	require.Len(t, found, 2501)
	require.Equal(t, blob(7), found[blob(7).Key])
	size, err := brain.Stored(t.Context(), b.Store)
	require.NoError(t, err)
	require.Positive(t, size)
}

func TestBlobsThatWereNotUsedForLongAreRemoved(t *testing.T) {
	t.Parallel()
	b := storetest.Setup(t)
	require.NoError(t, brain.Put(t.Context(), b.Store, []brain.Blob{blob(1), blob(2), blob(3)}))
	storetest.Query(t, b.URL, func(ctx context.Context, conn *pgx.Conn) {
		_, err := conn.Exec(ctx, "UPDATE orchestrator_brain_blobs SET used_at = now() - interval '3 days' WHERE key <> $1", key(1))
		require.NoError(t, err)
	})
	require.Len(t, get(t, b, 2), 1) // it is used
	counted, err := brain.Expire(t.Context(), b.Store, 48*time.Hour, true)
	require.NoError(t, err)
	removed, err := brain.Expire(t.Context(), b.Store, 48*time.Hour, false)
	require.NoError(t, err)
	require.Equal(t, counted, removed)
	require.Equal(t, brain.Amount{Count: 1, Bytes: 4}, removed)
	require.Len(t, get(t, b, 1, 2, 3), 2)
}

func key(n int) []byte {
	k := blob(n).Key
	return k[:]
}
