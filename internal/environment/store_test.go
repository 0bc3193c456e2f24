package environment

import (
	"bytes"
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

var someDigest = strings.Repeat("ab", 32)

// filled is a draft with the kinds of files that set-ups leave.
func filled(t *testing.T, s Store) *Draft {
	t.Helper()
	d, err := s.New()
	require.NoError(t, err)
	put := func(path, content string, mode os.FileMode) {
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, []byte(content), mode))
		require.NoError(t, os.Chmod(path, mode))
	}
	put(filepath.Join(d.Home(), "bin", "tool"), "#!/bin/sh\n", 0o755)
	put(filepath.Join(d.Home(), "go", "pkg", "mod", "m@v1", "m.go"), "package m\n", 0o444)
	require.NoError(t, os.Chmod(filepath.Join(d.Home(), "go", "pkg", "mod", "m@v1"), 0o555))
	put(filepath.Join(d.Work(), "node_modules", "a", "index.js"), "1", 0o644)
	require.NoError(t, os.Link(filepath.Join(d.Work(), "node_modules", "a", "index.js"), filepath.Join(d.Work(), "node_modules", "b.js")))
	require.NoError(t, os.Symlink("/workspace/packages/c", filepath.Join(d.Work(), "node_modules", "c")))
	require.NoError(t, os.Symlink("../../../../etc/passwd", filepath.Join(d.Work(), "node_modules", "out")))
	put(filepath.Join(d.Tmp(), "scratch"), "x", 0o600)
	return d
}

func commit(t *testing.T, d *Draft, digest string) *Environment {
	t.Helper()
	_, err := d.Seal(t.Context(), Manifest{Digest: digest, MadeAt: time.Now(), Unignored: []string{"/x"}})
	require.NoError(t, err)
	e, err := d.Commit(digest)
	require.NoError(t, err)
	return e
}

// contents are the entries below a folder: kinds, modes and contents by name.
func contents(t *testing.T, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	require.NoError(t, filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		require.NoError(t, err)
		rel, _ := filepath.Rel(dir, p)
		info, err := d.Info()
		require.NoError(t, err)
		text := info.Mode().String()
		switch {
		case info.Mode().IsRegular():
			content, err := os.ReadFile(p)
			require.NoError(t, err)
			text += " " + string(content)
		case info.Mode()&fs.ModeSymlink != 0:
			to, _ := os.Readlink(p)
			text += " " + to
		}
		out[rel] = text
		return nil
	}))
	return out
}

func TestAnArchiveRestoresTheSameEnvironmentOnAnotherHost(t *testing.T) {
	t.Parallel()
	here, there := At(filepath.Join(t.TempDir(), "e")), At(filepath.Join(t.TempDir(), "e"))
	d := filled(t, here)
	m, err := d.Seal(t.Context(), Manifest{Digest: someDigest, Unignored: []string{"/x"}})
	require.NoError(t, err)
	require.Positive(t, m.Bytes)
	require.EqualValues(t, 5, m.Files)
	var archive bytes.Buffer
	require.NoError(t, d.Pack(t.Context(), &archive))
	made, err := d.Commit(someDigest)
	require.NoError(t, err)
	defer made.Close()

	restored, err := there.Restore(t.Context(), someDigest, bytes.NewReader(archive.Bytes()), 1<<20)
	require.NoError(t, err)
	defer restored.Close()
	require.Equal(t, contents(t, made.Home()), contents(t, restored.Home()))
	require.Equal(t, contents(t, made.Work()), contents(t, restored.Work()))
	require.Equal(t, []string{"/x"}, restored.Unignored)
	a, _ := os.Stat(filepath.Join(restored.Work(), "node_modules", "a", "index.js"))
	b, _ := os.Stat(filepath.Join(restored.Work(), "node_modules", "b.js"))
	require.True(t, os.SameFile(a, b), "a file with two names takes up its space once")
	require.NoDirExists(t, filepath.Join(filepath.Dir(restored.Home()), "tmp"))

	_, err = At(filepath.Join(t.TempDir(), "e")).Restore(t.Context(), strings.Repeat("cd", 32), bytes.NewReader(archive.Bytes()), 1<<20)
	require.ErrorContains(t, err, "contains the environment "+someDigest)
	small := At(filepath.Join(t.TempDir(), "e"))
	_, err = small.Restore(t.Context(), someDigest, bytes.NewReader(archive.Bytes()), 10)
	require.ErrorContains(t, err, "exceeds the environment size limit")
	_, err = small.Restore(t.Context(), someDigest, bytes.NewReader(archive.Bytes()[:archive.Len()/2]), 1<<20)
	require.Error(t, err)
	left, err := os.ReadDir(small.root)
	require.NoError(t, err)
	require.Empty(t, left, "what could not be restored leaves nothing")
}

func TestWhatWasNotCommittedIsNoEnvironment(t *testing.T) {
	t.Parallel()
	s := At(filepath.Join(t.TempDir(), "e"))
	d := filled(t, s)
	_, err := s.Open(someDigest)
	require.ErrorIs(t, err, ErrNotHere)
	all, err := s.List()
	require.NoError(t, err)
	require.Empty(t, all)
	require.NoError(t, s.Sweep(t.Context(), Retention{}, func(string) bool { return false }))
	require.DirExists(t, d.Home(), "a draft of a process that lives stays")

	d.lock.Release() // as the end of its process does
	d.lock = nil
	require.NoError(t, s.Sweep(t.Context(), Retention{}, func(string) bool { return false }))
	require.NoDirExists(t, d.dir)
}

func TestTheFirstOfTwoThatMakeTheSameEnvironmentCounts(t *testing.T) {
	t.Parallel()
	s := At(filepath.Join(t.TempDir(), "e"))
	first, second := filled(t, s), filled(t, s)
	require.NoError(t, os.WriteFile(filepath.Join(second.Home(), "second"), nil, 0o600))
	commit(t, first, someDigest).Close()
	e := commit(t, second, someDigest)
	defer e.Close()
	require.NoFileExists(t, filepath.Join(e.Home(), "second"))
	left, err := os.ReadDir(s.root)
	require.NoError(t, err)
	require.Len(t, left, 1)
}

func TestSweepRemovesTheLongestUnusedButNeverWhatIsOpenOrNeeded(t *testing.T) {
	t.Parallel()
	s := At(filepath.Join(t.TempDir(), "e"))
	digests := []string{strings.Repeat("1", 64), strings.Repeat("2", 64), strings.Repeat("3", 64), strings.Repeat("4", 64)}
	for n, digest := range digests {
		commit(t, filled(t, s), digest).Close()
		used := time.Now().Add(time.Duration(n-len(digests)) * time.Hour)
		require.NoError(t, os.Chtimes(filepath.Join(s.root, digest), used, used))
	}
	open, err := s.Open(digests[1])
	require.NoError(t, err)
	used := time.Now().Add(-3 * time.Hour)
	require.NoError(t, os.Chtimes(filepath.Join(s.root, digests[1]), used, used))
	names := func() (out []string) {
		all, err := s.List()
		require.NoError(t, err)
		for _, k := range all {
			out = append(out, k.Digest)
		}
		return out
	}
	require.Equal(t, digests, names())
	needed := func(digest string) bool { return digest == digests[2] }
	require.NoError(t, s.Sweep(t.Context(), Retention{Count: 3}, needed))
	require.Equal(t, digests[1:], names())
	require.NoError(t, s.Sweep(t.Context(), Retention{Count: 1}, needed))
	require.Equal(t, digests[1:3], names(), "one is open, one is needed")
	open.Close()
	require.NoError(t, s.Sweep(t.Context(), Retention{Age: time.Minute}, func(string) bool { return false }))
	require.Empty(t, names())
	left, err := os.ReadDir(s.root)
	require.NoError(t, err)
	require.Empty(t, left)
}

func TestOpeningAndRemovingAtTheSameTimeGivesAWholeEnvironmentOrNone(t *testing.T) {
	t.Parallel()
	s := At(filepath.Join(t.TempDir(), "e"))
	var done sync.WaitGroup
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	for range 3 {
		done.Go(func() {
			for ctx.Err() == nil {
				e, err := s.Open(someDigest)
				if err != nil {
					continue
				}
				_, err = os.ReadFile(filepath.Join(e.Home(), "bin", "tool"))
				if err != nil {
					t.Errorf("an open environment lost a file: %v", err)
				}
				e.Close()
			}
		})
	}
	for range 30 {
		commit(t, filled(t, s), someDigest).Close()
		_, err := s.Remove(someDigest)
		require.NoError(t, err)
	}
	cancel()
	done.Wait()
}

func TestOnlyDigestsNameEnvironments(t *testing.T) {
	t.Parallel()
	s := At(filepath.Join(t.TempDir(), "e"))
	for _, name := range []string{"", ".", "..", "../../etc", "new-1", strings.Repeat("AB", 32), someDigest + "/home"} {
		_, err := s.Open(name)
		require.ErrorContains(t, err, "is not the digest of an environment", name)
		removed, err := s.Remove(name)
		require.NoError(t, err)
		require.False(t, removed)
	}
}
