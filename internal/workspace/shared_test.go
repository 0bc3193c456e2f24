package workspace

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/contract"
)

func openShared(t testing.TB, m *Manager, ws contract.Workspace) *Shared {
	t.Helper()
	d, err := m.OpenShared(t.Context(), ws)
	require.NoError(t, err)
	t.Cleanup(d.Close)
	return d
}

// withLink adds a link to a workspace, so that only git can write its files.
func withLink(t testing.TB, m *Manager, ws contract.Workspace) contract.Workspace {
	t.Helper()
	after := edit(t, m, ws, "link/step", func(dir string) { require.NoError(t, os.Symlink("a.txt", filepath.Join(dir, "link"))) })
	require.NoError(t, m.CleanUp(t.Context(), "link"))
	return after
}

func TestReadersOfATreeShareADirectoryWhichLaterReadersAndWritersUse(t *testing.T) {
	t.Parallel()
	repo := newRepo(t, map[string]string{"a.txt": "a\n", "dir/b.txt": "b\n"})
	m := newManager(t)
	second, err := New(m.options) // another process on the same cache
	require.NoError(t, err)
	_, ws := start(t, m, repo)
	base := map[string]string{"a.txt": "0 a\n", "dir/b.txt": "0 b\n"}

	one, two := openShared(t, m, ws), openShared(t, second, ws)
	require.Equal(t, one.Path(), two.Path())
	require.Equal(t, base, snapshot(t, one.Path()))
	one.Close()
	after := editFile(t, m, ws, "1/step", "a.txt", "changed\n")
	require.Equal(t, base, snapshot(t, two.Path()), "the writer left it to its reader")
	require.NoError(t, m.CleanUp(t.Context(), "1"))
	two.Close()
	two.Close()
	require.Len(t, spareDirs(t, m), 2)

	started := m.GitProcesses()
	first := openShared(t, m, after)
	require.Equal(t, map[string]string{"a.txt": "0 changed\n", "dir/b.txt": "0 b\n"}, snapshot(t, first.Path()))
	third := openShared(t, m, editFile(t, m, ws, "2/step", "a.txt", "another\n"))
	require.Equal(t, map[string]string{"a.txt": "0 another\n", "dir/b.txt": "0 b\n"}, snapshot(t, third.Path()))
	require.NotEqual(t, first.Path(), third.Path())
	first.Close()
	require.Equal(t, base, snapshot(t, openShared(t, m, ws).Path()), "the directory of another tree was changed")
	require.LessOrEqual(t, m.GitProcesses()-started, int64(1), "only the directory that was missing was filled")
}

func TestADirectoryBeyondTheLimitIsRemovedByItsLastReader(t *testing.T) {
	t.Parallel()
	repo := newRepo(t, map[string]string{"a.txt": "a\n"})
	none := newManager(t, func(o *Options) { o.MaxSpareDirs = 0 })
	_, ws := start(t, none, repo)
	one, two := openShared(t, none, ws), openShared(t, none, ws)
	one.Close()
	require.Equal(t, map[string]string{"a.txt": "0 a\n"}, snapshot(t, two.Path()))
	two.Close()
	require.Empty(t, spareDirs(t, none))
	names, err := none.dirNames(nil)
	require.NoError(t, err)
	require.Empty(t, names, "no lock is left")

	full := newManager(t, func(o *Options) { o.MinFreeForSpares = 1 << 62 })
	_, ws = start(t, full, repo)
	after := editFile(t, full, ws, "1/step", "a.txt", "b\n")
	one, two = openShared(t, full, ws), openShared(t, full, after)
	two.Close()
	one.Close()
	require.Equal(t, []string{filepath.Dir(two.Path())}, spareDirs(t, full), "the latest one is left to the next reader")
	require.NoError(t, full.Prune(t.Context(), time.Hour))
	require.Empty(t, spareDirs(t, full))
}

func TestManyReadersOfATreeFillOneDirectoryAndOfManyTreesLeaveThoseThatAreKept(t *testing.T) {
	t.Parallel()
	repo := newRepo(t, map[string]string{"a.txt": "a\n"})
	m := newManager(t, func(o *Options) { o.MaxSpareDirs = 3 })
	_, ws := start(t, m, repo)
	linked := withLink(t, m, ws)
	trees := []contract.Workspace{ws}
	for i := range 7 {
		trees = append(trees, editFile(t, m, ws, "1/step", "a.txt", fmt.Sprint(i)))
	}
	burst := func(all []contract.Workspace) {
		opened := make([]*Shared, len(all))
		var wg sync.WaitGroup
		for i := range all {
			wg.Go(func() { opened[i], _ = m.OpenShared(t.Context(), all[i]) })
		}
		wg.Wait()
		for i := range opened {
			require.NotNil(t, opened[i])
			wg.Go(opened[i].Close)
		}
		wg.Wait()
	}
	started := m.GitProcesses()
	burst(slices.Repeat([]contract.Workspace{linked}, 12))
	require.Equal(t, int64(1), m.GitProcesses()-started)
	require.Len(t, spareDirs(t, m), 1)
	burst(trees)
	require.Len(t, spareDirs(t, m), 3)
}

func TestADirectoryThatCannotBeFilledIsRemoved(t *testing.T) {
	t.Parallel()
	repo := newRepo(t, map[string]string{"a.txt": "a\n"})
	m := newManager(t)
	_, ws := start(t, m, repo)
	ws = withLink(t, m, ws)
	git := m.options.Git
	m.options.Git = "/bin/false"
	for range 3 {
		_, err := m.OpenShared(t.Context(), ws)
		require.ErrorContains(t, err, "could not check out")
	}
	require.Empty(t, spareDirs(t, m))
	names, err := m.dirNames(nil)
	require.NoError(t, err)
	require.Empty(t, names)
	m.options.Git = git
	openShared(t, m, ws)
}

func TestTreesThatDifferMuchDoNotTakeEachOthersDirectories(t *testing.T) {
	t.Parallel()
	m := newManager(t)
	_, ws := start(t, m, newRepo(t, map[string]string{"a.txt": "a\n"}))
	far := edit(t, m, ws, "1/step", func(dir string) {
		for i := range maxDifference + 1 {
			write(t, dir, fmt.Sprintf("f%d", i), "x")
		}
	})
	require.NoError(t, m.CleanUp(t.Context(), "1"))
	started := m.GitProcesses()
	for range 3 {
		openShared(t, m, ws).Close()
		openShared(t, m, far).Close()
	}
	require.Equal(t, int64(1), m.GitProcesses()-started, "a large tree was written once")
	require.Len(t, spareDirs(t, m), 2)
}

func TestASmallTreeIsWrittenWithoutGitAsGitWritesIt(t *testing.T) {
	t.Parallel()
	m := newManager(t, func(o *Options) { o.MaxSpareDirs = 0 })
	_, ws := start(t, m, newRepo(t, map[string]string{"a.txt": "a\n", ".gitignore": "ignored\n", ".gitattributes": "*.crlf eol=crlf\n", "b.crlf": "b\n"}))
	ws = edit(t, m, ws, "1/step", func(dir string) {
		write(t, dir, "dir/deep/run.sh", "#!/bin/sh\n")
		require.NoError(t, os.Chmod(filepath.Join(dir, "dir/deep/run.sh"), 0o755))
	})
	require.NoError(t, m.CleanUp(t.Context(), "1"))
	started := m.GitProcesses()
	small := openShared(t, m, ws)
	require.Equal(t, started, m.GitProcesses())
	byGit := openShared(t, m, withLink(t, m, ws))
	want := snapshot(t, byGit.Path())
	delete(want, "link")
	require.Equal(t, want, snapshot(t, small.Path()))

	d, err := m.Open(t.Context(), ws, "2/step")
	require.NoError(t, err)
	defer d.Close()
	same, err := d.Save(t.Context())
	require.NoError(t, err)
	require.Equal(t, ws, same)
}

func TestADirectoryThatReadersUseIsNotPruned(t *testing.T) {
	t.Parallel()
	m := newManager(t)
	_, ws := start(t, m, newRepo(t, map[string]string{"a.txt": "a\n"}))
	d := openShared(t, m, ws)
	d.Close()
	old := time.Now().Add(-48 * time.Hour)
	root := filepath.Dir(d.Path())
	for _, path := range []string{root, d.Path(), filepath.Join(root, markerName)} {
		require.NoError(t, os.Chtimes(path, old, old))
	}
	openShared(t, m, ws).Close()
	require.NoError(t, m.Prune(t.Context(), 24*time.Hour))
	require.DirExists(t, root)
}

func TestADirectoryThatWasBeingChangedWhenItsReaderWasKilledIsNotUsed(t *testing.T) {
	t.Parallel()
	repo := newRepo(t, map[string]string{"a.txt": "a\n"})
	m := newManager(t)
	_, ws := start(t, m, repo)
	d := openShared(t, m, ws)
	d.Close()
	require.NoError(t, os.Remove(filepath.Join(filepath.Dir(d.Path()), markerName)))
	write(t, d.Path(), "a.txt", "half")

	again := openShared(t, m, ws)
	require.NotEqual(t, d.Path(), again.Path())
	require.Equal(t, map[string]string{"a.txt": "0 a\n"}, snapshot(t, again.Path()))
	require.NoError(t, m.Prune(t.Context(), time.Hour))
	require.NoDirExists(t, d.Path())
	require.DirExists(t, again.Path())
}

func TestADirectoryThatAnotherProcessTookBeforeItsLockWasHeldIsNotUsed(t *testing.T) {
	t.Parallel()
	repo := newRepo(t, map[string]string{"a.txt": "a\n"})
	for name, meanwhile := range map[string]func(t *testing.T, m *Manager, s spareDir){
		"it was moved": func(t *testing.T, m *Manager, s spareDir) {
			require.NoError(t, os.Rename(m.sparePath(s), filepath.Join(t.TempDir(), "taken")))
		},
		"it has another tree": func(t *testing.T, m *Manager, s spareDir) {
			write(t, m.sparePath(s), markerName, mark{repo: s.repo, boot: m.boot, tree: "another"}.String())
		},
		"its lock is another file": func(t *testing.T, m *Manager, s spareDir) {
			require.NoError(t, os.Remove(m.spareLock(s)))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := newManager(t)
			_, ws := start(t, m, repo)
			d := openShared(t, m, ws)
			d.Close()
			lock, err := m.locks.tryShared(m.spareLock(d.spare))
			require.NoError(t, err)
			meanwhile(t, m, d.spare)
			require.False(t, d.holds(d.spare, lock))
			free, err := m.locks.tryExclusive(m.spareLock(d.spare))
			require.NoError(t, err)
			require.NotNil(t, free)
			free.release()
		})
	}
}

func TestReadersAndWritersOfManyTreesNeverSeeEachOthersFiles(t *testing.T) {
	t.Parallel()
	repo := newRepo(t, map[string]string{"a.txt": "0", "dir/b.txt": "0"})
	m := newManager(t, func(o *Options) { o.MaxSpareDirs = 2 })
	second, err := New(m.options)
	require.NoError(t, err)
	_, ws := start(t, m, repo)
	trees := []contract.Workspace{ws}
	for i := 1; i < 4; i++ {
		next := editFile(t, m, ws, "1/step", "a.txt", fmt.Sprint(i))
		trees = append(trees, editFile(t, m, next, "1/step", "dir/b.txt", fmt.Sprint(i)))
	}
	var wg sync.WaitGroup
	failures := make([]error, 12)
	for i := range failures {
		wg.Go(func() {
			host := []*Manager{m, second}[i%2]
			for round := range 15 {
				n := (i + round) % len(trees)
				if i%4 == 3 {
					failures[i] = readsOnly(fmt.Sprint(n), func() (reader, error) { return host.OpenFiles(t.Context(), trees[n], fmt.Sprint(i)) })
					_ = host.Recycle(fmt.Sprint(i))
				} else {
					failures[i] = readsOnly(fmt.Sprint(n), func() (reader, error) { return host.OpenShared(t.Context(), trees[n]) })
				}
				if failures[i] != nil {
					return
				}
			}
		})
	}
	wg.Wait()
	for _, err := range failures {
		require.NoError(t, err)
	}
}

type reader interface {
	Path() string
	Close()
}

// readsOnly opens a directory whose files all have the wanted content as long as it is open.
func readsOnly(want string, open func() (reader, error)) error {
	d, err := open()
	if err != nil {
		return err
	}
	defer d.Close()
	if writer, ok := d.(*Dir); ok {
		defer func() { _ = writer.Unchanged() }()
	}
	for range 3 {
		for _, name := range []string{"a.txt", "dir/b.txt"} {
			content, err := os.ReadFile(filepath.Join(d.Path(), name))
			if err != nil {
				return err
			}
			if string(content) != want {
				return fmt.Errorf("%s in %s is %q instead of %q", name, d.Path(), content, want)
			}
		}
	}
	return nil
}
