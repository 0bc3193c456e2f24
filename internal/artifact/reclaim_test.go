package artifact_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
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

func TestABlobThatCannotBeRemovedKeepsNoOther(t *testing.T) {
	t.Parallel()
	backend, err := url.Parse(fakeS3(t))
	require.NoError(t, err)
	var kept atomic.Value // end of the path of the blob that cannot be removed
	kept.Store("none")
	proxy := httputil.NewSingleHostReverseProxy(backend)
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodDelete && strings.HasSuffix(r.URL.Path, kept.Load().(string)) {
			http.Error(w, "<Error><Code>AccessDenied</Code><Message>locked</Message></Error>", http.StatusForbidden)
			return
		}
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(front.Close)
	s := s3StoreAt(t, front.URL, "")
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	var blobs []artifact.Blob
	for _, text := range []string{"one", "locked", "three"} {
		blobs = append(blobs, artifact.Blob{Digest: put(t, s, text), Size: int64(len(text))})
	}
	kept.Store(blobs[1].Digest[9:])
	count, bytes, err := s.RemoveOlder(t.Context(), blobs, time.Now().Add(time.Minute))
	require.ErrorContains(t, err, "could not remove artifact "+blobs[1].Digest)
	require.EqualValues(t, 2, count)
	require.EqualValues(t, 8, bytes)
	left := blobsOf(t, s)
	require.Len(t, left, 1)
	require.Contains(t, left, blobs[1].Digest)
}
