package buildcache_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/internal/buildcache"
	"github.com/rocketgpt/orchestrator/internal/sandbox"
)

func open(t *testing.T, s buildcache.Store, repo string, run int64, use string) (*buildcache.Cache, sandbox.Command) {
	t.Helper()
	c, err := s.Open(repo, run, use)
	require.NoError(t, err)
	t.Cleanup(c.Close)
	var command sandbox.Command
	c.Give(&command)
	return c, command
}

func write(t *testing.T, path string, size int) {
	t.Helper()
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
	require.NoError(t, os.WriteFile(path, make([]byte, size), 0o600))
}

// writable are all places of a command that it may write to besides its workspace.
func writable(c sandbox.Command) []string {
	dirs := []string{c.GoCache.Dir}
	for _, m := range c.Mounts {
		if m.Writable {
			dirs = append(dirs, m.Host)
		}
	}
	return dirs
}

func TestNoTwoUsesWriteTheSamePlace(t *testing.T) {
	t.Parallel()
	s := buildcache.At(filepath.Join(t.TempDir(), "build"))
	seen := map[string]bool{}
	for _, use := range []struct {
		run  int64
		name string
	}{{1, "builder"}, {1, "7/build-go"}, {1, "7/test-go-1"}, {1, "8/build-go"}, {2, "builder"}, {2, "7/build-go"}} {
		_, command := open(t, s, "repo", use.run, use.name)
		for _, dir := range writable(command) {
			require.False(t, seen[dir], dir)
			seen[dir] = true
			require.DirExists(t, dir)
		}
		for _, dir := range command.Env {
			require.Contains(t, dir, buildcache.Inside+"/", "no path of the host is told")
		}
	}
	for dir := range seen {
		for other := range seen {
			require.False(t, dir != other && filepath.Dir(other) == dir, "%s is inside %s", other, dir)
		}
	}
}

func TestTheBaseBelongsToOneRepositoryAndIsWritableByNone(t *testing.T) {
	t.Parallel()
	s := buildcache.At(t.TempDir())
	_, first := open(t, s, "one", 1, "builder")
	_, second := open(t, s, "one", 2, "builder")
	_, other := open(t, s, "other", 3, "builder")
	require.Equal(t, first.GoCache.Base, second.GoCache.Base)
	require.NotEqual(t, first.GoCache.Base, other.GoCache.Base)
	for _, dir := range writable(first) {
		rel, err := filepath.Rel(dir, first.GoCache.Base)
		require.NoError(t, err)
		require.False(t, filepath.IsLocal(rel), "%s holds the base", dir)
	}
}

func TestANameThatLeadsOutOfTheStoreIsRefused(t *testing.T) {
	t.Parallel()
	_, err := buildcache.At(t.TempDir()).Open("repo", 1, "../2/builder")
	require.ErrorContains(t, err, "invalid layer name")
}

func TestALayerIsFoundAgainUntilItIsDiscarded(t *testing.T) {
	t.Parallel()
	s := buildcache.At(t.TempDir())
	c, command := open(t, s, "repo", 1, "builder")
	file := filepath.Join(command.GoCache.Dir, "ab", "x")
	write(t, file, 1)
	c.Close()
	c, _ = open(t, s, "repo", 1, "builder")
	require.FileExists(t, file)
	require.NoError(t, os.Chmod(filepath.Dir(file), 0))
	require.NoError(t, c.Discard())
	require.NoFileExists(t, file)
	require.DirExists(t, command.GoCache.Base)
}

func TestAKeyIsFilledOnceHoweverManyAsk(t *testing.T) {
	t.Parallel()
	s := buildcache.At(t.TempDir())
	var calls, inside atomic.Int32
	var all sync.WaitGroup
	for n := range int64(8) {
		c, command := open(t, s, "repo", n, "builder")
		all.Go(func() {
			err := c.Fill(t.Context(), "c0ffee", func(_ context.Context, dir string) error {
				calls.Add(1)
				if inside.Add(1) != 1 {
					return errors.New("two at a time")
				}
				defer inside.Add(-1)
				if dir != command.GoCache.Base {
					return errors.New("not the base: " + dir)
				}
				return os.WriteFile(filepath.Join(dir, "x"), nil, 0o600)
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	require.EqualValues(t, 1, calls.Load())
}

func TestAnInterruptedFillIsDoneAgainAndAFailedOneIsNot(t *testing.T) {
	t.Parallel()
	s := buildcache.At(t.TempDir())
	c, _ := open(t, s, "repo", 1, "builder")
	ctx, cancel := context.WithCancelCause(t.Context())
	stop := errors.New("stopped")
	require.ErrorIs(t, c.Fill(ctx, "one", func(context.Context, string) error { cancel(stop); return nil }), stop)
	broken := errors.New("broken")
	require.ErrorIs(t, c.Fill(t.Context(), "one", func(context.Context, string) error { return broken }), broken)
	require.NoError(t, c.Fill(t.Context(), "one", func(context.Context, string) error { return broken }))
	require.ErrorIs(t, c.Fill(t.Context(), "two", func(context.Context, string) error { return broken }), broken)
}

func TestWaitingForAFillEndsWithTheContext(t *testing.T) {
	t.Parallel()
	s := buildcache.At(t.TempDir())
	c, _ := open(t, s, "repo", 1, "builder")
	require.NoError(t, c.Fill(t.Context(), "one", func(ctx context.Context, _ string) error {
		other, _ := open(t, s, "repo", 2, "builder")
		short, cancel := context.WithTimeout(ctx, time.Millisecond)
		defer cancel()
		err := other.Fill(short, "one", func(context.Context, string) error { return errors.New("filled") })
		require.ErrorIs(t, err, context.DeadlineExceeded)
		return nil
	}))
}

// aged makes an entry with some content that was used a while ago.
func aged(t *testing.T, s buildcache.Store, run int64, age time.Duration, size int) string {
	t.Helper()
	c, command := open(t, s, "repo", run, "builder")
	write(t, filepath.Join(command.GoCache.Dir, "x"), size)
	c.Close()
	dir := filepath.Dir(filepath.Dir(command.GoCache.Dir))
	at := time.Now().Add(-age)
	require.NoError(t, os.Chtimes(dir, at, at))
	return dir
}

func TestTheSweepRemovesWhatIsOldButNotWhatIsInUse(t *testing.T) {
	t.Parallel()
	s := buildcache.At(t.TempDir())
	old, young := aged(t, s, 1, 48*time.Hour, 1), aged(t, s, 2, time.Hour, 1)
	busy := aged(t, s, 3, 48*time.Hour, 1)
	user, _ := open(t, s, "repo", 3, "builder")
	at := time.Now().Add(-48 * time.Hour)
	require.NoError(t, os.Chtimes(busy, at, at))
	require.NoError(t, s.Sweep(t.Context(), 24*time.Hour, 0))
	require.NoDirExists(t, old)
	require.DirExists(t, young)
	require.DirExists(t, busy)
	user.Close()
	require.NoError(t, s.Sweep(t.Context(), 24*time.Hour, 0))
	require.NoDirExists(t, busy)
	require.DirExists(t, young)
}

func TestTheSweepRemovesTheLeastRecentlyUsedUntilTheRestFits(t *testing.T) {
	t.Parallel()
	s := buildcache.At(t.TempDir())
	const size = 1 << 20
	var dirs []string
	for n := range int64(4) {
		dirs = append(dirs, aged(t, s, n+1, time.Duration(4-n)*time.Hour, size))
	}
	require.NoError(t, s.Sweep(t.Context(), 0, 0))
	for _, dir := range dirs {
		require.DirExists(t, dir, "0 is no bound")
	}
	require.NoError(t, s.Sweep(t.Context(), 0, 2*size+size/2))
	require.NoDirExists(t, dirs[0])
	require.NoDirExists(t, dirs[1])
	require.DirExists(t, dirs[2])
	require.DirExists(t, dirs[3])
}

func TestARunLeavesNothingWhenItIsRemoved(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	s := buildcache.At(root)
	dir, other := aged(t, s, 1, 0, 1), aged(t, s, 11, 0, 1)
	removed, err := s.RemoveRun(1)
	require.NoError(t, err)
	require.True(t, removed)
	require.NoDirExists(t, dir)
	require.DirExists(t, other)
	removed, err = s.RemoveRun(99)
	require.NoError(t, err)
	require.False(t, removed)
	left, err := os.ReadDir(filepath.Join(root, "runs"))
	require.NoError(t, err)
	require.Len(t, left, 1)
}

func TestTheSweepFinishesWhatAnEarlierOneBegan(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	left := filepath.Join(root, "runs", "7.123.removed")
	write(t, filepath.Join(left, "x"), 1)
	require.NoError(t, buildcache.At(root).Sweep(t.Context(), 0, 0))
	require.NoDirExists(t, left)
}

func TestOpeningAndRemovingAtTheSameTimeNeverGivesARemovedDirectory(t *testing.T) {
	t.Parallel()
	s := buildcache.At(t.TempDir())
	done := make(chan struct{})
	var remover sync.WaitGroup
	remover.Go(func() {
		for {
			select {
			case <-done:
				return
			default:
				if _, err := s.RemoveRun(1); err != nil {
					t.Error(err)
				}
			}
		}
	})
	for range 300 {
		c, command := open(t, s, "repo", 1, "builder")
		require.NoError(t, os.WriteFile(filepath.Join(command.GoCache.Dir, "x"), nil, 0o600))
		require.FileExists(t, filepath.Join(command.GoCache.Dir, "x"))
		c.Close()
	}
	close(done)
	remover.Wait()
}
