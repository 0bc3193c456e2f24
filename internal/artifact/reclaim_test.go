package artifact_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/internal/artifact"
)

func blobsOf(t *testing.T, s *artifact.Store) map[string]artifact.Blob {
	t.Helper()
	out := map[string]artifact.Blob{}
	require.NoError(t, s.Blobs(t.Context(), func(b artifact.Blob) error {
		out[b.Digest] = b
		return nil
	}))
	return out
}

func TestOnlyBlobsThatWereNotStoredSinceAreRemoved(t *testing.T) {
	t.Parallel()
	everyStore(t, func(t *testing.T, s *artifact.Store) {
		before := time.Now()
		one, two := put(t, s, "one"), put(t, s, "three")
		all := blobsOf(t, s)
		require.Len(t, all, 2)
		require.EqualValues(t, 5, all[two].Size)
		require.WithinDuration(t, time.Now(), all[one].Stored, time.Minute)

		blobs := []artifact.Blob{all[one], all[two]}
		count, _, err := s.RemoveOlder(t.Context(), blobs, before.Add(-time.Minute))
		require.NoError(t, err)
		require.Zero(t, count, "they were stored since")
		require.Len(t, blobsOf(t, s), 2)
		count, bytes, err := s.RemoveOlder(t.Context(), blobs, time.Now().Add(time.Minute))
		require.NoError(t, err)
		require.EqualValues(t, 2, count)
		require.EqualValues(t, 8, bytes)
		require.Empty(t, blobsOf(t, s))
		count, _, err = s.RemoveOlder(t.Context(), blobs, time.Now().Add(time.Minute))
		require.NoError(t, err)
		require.Zero(t, count, "another process removed them")
		_, _, err = s.RemoveOlder(t.Context(), []artifact.Blob{{Digest: "../x"}}, time.Now())
		require.ErrorIs(t, err, artifact.ErrDigest)
	})
}

func TestARemovalFromABucketExcludesOthers(t *testing.T) {
	t.Parallel()
	s := s3Store(t)
	var lock sync.Mutex
	locked := 0
	s.Excluding(func(context.Context) (func(), error) {
		lock.Lock()
		locked++
		return lock.Unlock, nil
	})
	digest := put(t, s, "hello")
	put(t, s, "hello")
	require.Zero(t, locked, "young blobs need no lock")
	_, _, err := s.RemoveOlder(t.Context(), []artifact.Blob{{Digest: digest}}, time.Now().Add(time.Minute))
	require.NoError(t, err)
	require.Equal(t, 1, locked)
}
