package artifact_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/artifact"
	"github.com/rocketgpt/orchestrator/internal/fault"
)

const helloDigest = "sha256:2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824"

func directoryStore(t testing.TB) (*artifact.Store, string) {
	t.Helper()
	dir := t.TempDir()
	s, err := artifact.Open(t.Context(), "", dir, artifact.WithSync(false))
	require.NoError(t, err)
	return s, dir
}

// everyStore runs a claim against each kind of store.
func everyStore(t *testing.T, claim func(t *testing.T, s *artifact.Store)) {
	t.Helper()
	kinds := map[string]func(t *testing.T) *artifact.Store{
		"directory": func(t *testing.T) *artifact.Store { s, _ := directoryStore(t); return s },
		"memory": func(t *testing.T) *artifact.Store {
			s, err := artifact.Open(t.Context(), "mem://", "")
			require.NoError(t, err)
			return s
		},
		"s3":         s3Store,
		"s3 gateway": realStore,
	}
	for name, open := range kinds {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := open(t)
			t.Cleanup(func() { require.NoError(t, s.Close()) })
			claim(t, s)
		})
	}
}

func TestWhatIsPutComesBackUnderItsDigest(t *testing.T) {
	t.Parallel()
	everyStore(t, func(t *testing.T, s *artifact.Store) {
		digest, err := s.Put(t.Context(), []byte("hello"))
		require.NoError(t, err)
		require.Equal(t, helloDigest, digest)
		require.Equal(t, digest, artifact.Digest([]byte("hello")))

		data, err := s.Get(t.Context(), digest)
		require.NoError(t, err)
		require.Equal(t, "hello", string(data))

		there, err := s.Exists(t.Context(), digest)
		require.NoError(t, err)
		require.True(t, there)
	})
}

func TestAStreamGetsTheSameDigestAsTheBytes(t *testing.T) {
	t.Parallel()
	everyStore(t, func(t *testing.T, s *artifact.Store) {
		for _, size := range []int{0, 1, 1 << 20, 1<<20 + 1, 3 << 20} {
			data := bytes.Repeat([]byte("0123456789abcdef"), size/16+1)[:size]
			digest, n, err := s.PutReader(t.Context(), iotest.HalfReader(bytes.NewReader(data)), 0)
			require.NoError(t, err)
			require.Equal(t, int64(size), n)
			require.Equal(t, artifact.Digest(data), digest)
			back, err := s.Get(t.Context(), digest)
			require.NoError(t, err)
			require.True(t, bytes.Equal(data, back))
		}
	})
}

func TestTheEmptyBlobIsABlob(t *testing.T) {
	t.Parallel()
	everyStore(t, func(t *testing.T, s *artifact.Store) {
		digest, err := s.Put(t.Context(), nil)
		require.NoError(t, err)
		data, err := s.Get(t.Context(), digest)
		require.NoError(t, err)
		require.Empty(t, data)
	})
}

func TestARemovedBlobIsGoneAndCanBePutAgain(t *testing.T) {
	t.Parallel()
	everyStore(t, func(t *testing.T, s *artifact.Store) {
		digest, err := s.Put(t.Context(), []byte("hello"))
		require.NoError(t, err)
		for range 2 { // a missing one is not an error
			require.NoError(t, s.Remove(t.Context(), digest))
			_, err = s.Get(t.Context(), digest)
			require.ErrorIs(t, err, artifact.ErrNotFound)
		}
		_, err = s.Put(t.Context(), []byte("hello"))
		require.NoError(t, err)
		data, err := s.Get(t.Context(), digest)
		require.NoError(t, err)
		require.Equal(t, "hello", string(data))
		require.ErrorIs(t, s.Remove(t.Context(), "../hello"), artifact.ErrDigest)
	})
}

func TestAMissingBlobIsNotFound(t *testing.T) {
	t.Parallel()
	everyStore(t, func(t *testing.T, s *artifact.Store) {
		_, err := s.Get(t.Context(), helloDigest)
		require.ErrorIs(t, err, artifact.ErrNotFound)
		there, err := s.Exists(t.Context(), helloDigest)
		require.NoError(t, err)
		require.False(t, there)
	})
}

func TestAStreamOverItsLimitLeavesNothingBehind(t *testing.T) {
	t.Parallel()
	everyStore(t, func(t *testing.T, s *artifact.Store) {
		_, _, err := s.PutReader(t.Context(), strings.NewReader("hello"), 4)
		require.ErrorIs(t, err, artifact.ErrTooLarge)
		there, err := s.Exists(t.Context(), helloDigest)
		require.NoError(t, err)
		require.False(t, there)

		_, size, err := s.PutReader(t.Context(), strings.NewReader("hello"), 5)
		require.NoError(t, err, "a stream of exactly the limit fits")
		require.Equal(t, int64(5), size)
	})
}

func TestAFailingStreamLeavesNothingBehind(t *testing.T) {
	t.Parallel()
	s, dir := directoryStore(t)
	broken := errors.New("the source broke")
	_, _, err := s.PutReader(t.Context(), io.MultiReader(strings.NewReader("he"), iotest.ErrReader(broken)), 0)
	require.ErrorIs(t, err, broken)
	require.Empty(t, files(t, dir))
}

func TestACancelledStreamStops(t *testing.T) {
	t.Parallel()
	everyStore(t, func(t *testing.T, s *artifact.Store) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_, _, err := s.PutReader(ctx, strings.NewReader("hello"), 0)
		require.ErrorIs(t, err, context.Canceled)
	})
}

func TestPuttingTwiceWritesOnce(t *testing.T) {
	t.Parallel()
	s, dir := directoryStore(t)
	digest, err := s.Put(t.Context(), []byte("hello"))
	require.NoError(t, err)
	first, err := os.Stat(filepath.Join(dir, keyOf(digest)))
	require.NoError(t, err)

	_, err = s.Put(t.Context(), []byte("hello"))
	require.NoError(t, err)
	_, _, err = s.PutReader(t.Context(), strings.NewReader("hello"), 0)
	require.NoError(t, err)

	again, err := os.Stat(filepath.Join(dir, keyOf(digest)))
	require.NoError(t, err)
	require.True(t, os.SameFile(first, again))
	require.Equal(t, []string{keyOf(digest)}, files(t, dir), "one file, nothing beside it")
}

func TestPuttingAtTheSameTimeIsHarmless(t *testing.T) {
	t.Parallel()
	everyStore(t, func(t *testing.T, s *artifact.Store) {
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				digest, err := s.Put(t.Context(), []byte("hello"))
				if err != nil || digest != helloDigest {
					t.Errorf("put: %s, %v", digest, err)
				}
			})
		}
		wg.Wait()
		data, err := s.Get(t.Context(), helloDigest)
		require.NoError(t, err)
		require.Equal(t, "hello", string(data))
	})
}

func TestADamagedBlobIsNoticedWhenItIsRead(t *testing.T) {
	t.Parallel()
	s, dir := directoryStore(t)
	digest, err := s.Put(t.Context(), []byte("hello"))
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, keyOf(digest)), []byte("jello"), 0o600))

	_, err = s.Get(t.Context(), digest)
	require.ErrorIs(t, err, artifact.ErrCorrupt)

	r, err := s.Reader(t.Context(), digest)
	require.NoError(t, err)
	defer func() { require.NoError(t, r.Close()) }()
	_, err = io.ReadAll(iotest.OneByteReader(r))
	require.ErrorIs(t, err, artifact.ErrCorrupt)
	_, err = r.Read(make([]byte, 1))
	require.ErrorIs(t, err, artifact.ErrCorrupt, "the answer stays")
}

func TestABlobThatLostItsEndIsWrittenAgain(t *testing.T) {
	t.Parallel()
	s, dir := directoryStore(t)
	digest, err := s.Put(t.Context(), []byte("hello"))
	require.NoError(t, err)
	require.NoError(t, os.Truncate(filepath.Join(dir, keyOf(digest)), 2))

	_, err = s.Put(t.Context(), []byte("hello"))
	require.NoError(t, err)
	data, err := s.Get(t.Context(), digest)
	require.NoError(t, err)
	require.Equal(t, "hello", string(data))
}

func TestOnlyDigestsLeadToFiles(t *testing.T) {
	t.Parallel()
	s, dir := directoryStore(t)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "secret"), []byte("x"), 0o600))
	for _, digest := range []string{
		"", "sha256:", "secret", "../secret", "sha256:../secret",
		"sha256:" + strings.Repeat("../", 21) + "a",
		strings.ToUpper(helloDigest), "sha256:" + strings.ToUpper(helloDigest[7:]),
		helloDigest + "0", helloDigest[:70], " " + helloDigest, helloDigest + "\n",
		"sha512:" + helloDigest[7:], "sha256:" + strings.Repeat("\x00", 64),
		strings.Repeat("a", 10_000),
	} {
		_, err := s.Get(t.Context(), digest)
		require.ErrorIs(t, err, artifact.ErrDigest, "%q", digest)
		_, err = s.Reader(t.Context(), digest)
		require.ErrorIs(t, err, artifact.ErrDigest, "%q", digest)
		_, err = s.Exists(t.Context(), digest)
		require.ErrorIs(t, err, artifact.ErrDigest, "%q", digest)
	}
}

func TestAFullDiskIsAnInfraErrorThatNamesThePlace(t *testing.T) {
	t.Parallel()
	if _, err := os.Stat("/dev/full"); err != nil {
		t.Skip("this system has no /dev/full")
	}
	s, dir := directoryStore(t)
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	require.NoError(t, err)
	defer func() { require.NoError(t, full.Close()) }()
	_, writeErr := full.WriteString("x")
	require.Error(t, writeErr)

	// The error of the real device reaches the store through the stream.
	_, _, err = s.PutReader(t.Context(), iotest.ErrReader(writeErr), 0)
	f := fault.Of(err)
	require.Equal(t, contract.ClassInfra, f.Class)
	require.Equal(t, contract.CodeDiskFull, f.Code)
	require.Contains(t, f.Message, dir)
	require.Contains(t, f.Message, "artifacts.url")
}

func TestADirectoryThatCannotBeUsedIsExplained(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	_, err := artifact.Open(t.Context(), "", filepath.Join(file, "store"))
	require.ErrorContains(t, err, file)
}

func TestURLsThatNameNoStoreAreConfigErrors(t *testing.T) {
	t.Parallel()
	for _, url := range []string{"ftp://x", "://", "gopher", "s3://bucket?nonsense=1", "%zz"} {
		_, err := artifact.Open(t.Context(), url, t.TempDir())
		require.Equal(t, contract.ClassConfig, fault.Of(err).Class, "%q: %v", url, err)
	}
	_, err := artifact.Open(t.Context(), "", "")
	require.Equal(t, contract.ClassConfig, fault.Of(err).Class)
}

func TestAFileURLIsADirectory(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s, err := artifact.Open(t.Context(), "file://"+dir, "")
	require.NoError(t, err)
	digest, err := s.Put(t.Context(), []byte("hello"))
	require.NoError(t, err)
	require.Equal(t, []string{keyOf(digest)}, files(t, dir))
}

func TestAnyBytesComeBack(t *testing.T) {
	t.Parallel()
	s, _ := directoryStore(t)
	rapid.Check(t, func(t *rapid.T) {
		data := rapid.SliceOf(rapid.Byte()).Draw(t, "data")
		digest, err := s.Put(context.Background(), data)
		require.NoError(t, err)
		require.NoError(t, artifact.Validate(digest))
		back, err := s.Get(context.Background(), digest)
		require.NoError(t, err)
		require.True(t, bytes.Equal(data, back))
	})
}

func keyOf(digest string) string { return filepath.Join(digest[7:9], digest[9:]) }

// files lists the files below a directory.
func files(t *testing.T, dir string) []string {
	t.Helper()
	var out []string
	require.NoError(t, filepath.WalkDir(dir, func(path string, e os.DirEntry, err error) error {
		if err == nil && !e.IsDir() {
			rel, _ := filepath.Rel(dir, path)
			out = append(out, rel)
		}
		return err
	}))
	return out
}
