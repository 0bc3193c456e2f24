package workspace

import (
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/rocketgpt/orchestrator/contract"
)

// editFile changes one file with the tools for files, as an agent does.
func editFile(t testing.TB, m *Manager, ws contract.Workspace, key, path, content string) contract.Workspace {
	t.Helper()
	d, err := m.OpenFiles(t.Context(), ws, key)
	require.NoError(t, err)
	defer d.Close()
	write(t, d.Path(), path, content)
	after, err := d.SaveFile(t.Context(), path)
	require.NoError(t, err)
	return after
}

func inodeOf(t testing.TB, path string) uint64 {
	t.Helper()
	info, err := os.Stat(path)
	require.NoError(t, err)
	stat, ok := info.Sys().(*syscall.Stat_t)
	require.True(t, ok)
	return stat.Ino
}

// viewed returns the content of a workspace.
func viewed(t testing.TB, m *Manager, ws contract.Workspace, key string) map[string]string {
	t.Helper()
	d, err := m.View(t.Context(), ws, key)
	require.NoError(t, err)
	defer d.Close()
	return snapshot(t, d.Path())
}

func spareDirs(t testing.TB, m *Manager) []string {
	t.Helper()
	repos, err := namesIn(m.sparesRoot())
	require.NoError(t, err)
	var paths []string
	for _, repo := range repos {
		spares, err := m.spares(repo)
		require.NoError(t, err)
		for _, s := range spares {
			paths = append(paths, m.sparePath(s))
		}
	}
	return paths
}

func TestTheNextRunUsesTheDirectoryOfAnEndedOneWithoutGit(t *testing.T) {
	t.Parallel()
	repo := newRepo(t, map[string]string{"a.txt": "a\n", "dir/b.txt": "b\n", "dir/deep/c.txt": "c\n"})
	m := newManager(t)
	_, ws := start(t, m, repo)
	after := editFile(t, m, ws, "1/step", "dir/b.txt", "changed\n")
	after = editFile(t, m, after, "1/step", "new/d.txt", "d\n")
	inode := func(key string) uint64 {
		name, err := dirName(key)
		require.NoError(t, err)
		return inodeOf(t, filepath.Join(m.dirsRoot(), name, "work"))
	}
	before := inode("1/step")
	require.NoError(t, m.CleanUp(t.Context(), "1"))
	require.Len(t, spareDirs(t, m), 1)

	started := m.GitProcesses()
	require.Equal(t, map[string]string{"a.txt": "0 a\n", "dir/b.txt": "0 b\n", "dir/deep/c.txt": "0 c\n"}, viewed(t, m, ws, "2/step"))
	require.Equal(t, started, m.GitProcesses())
	require.Equal(t, before, inode("2/step"))
	require.NoDirExists(t, filepath.Join(m.dirsRoot(), "2+step", "work", "new"))
	require.Empty(t, spareDirs(t, m))

	// What is saved there is the same as anywhere.
	again := editFile(t, m, ws, "2/step", "dir/b.txt", "changed\n")
	again = editFile(t, m, again, "2/step", "new/d.txt", "d\n")
	require.Equal(t, after, again)
	whole, err := m.Open(t.Context(), again, "2/step")
	require.NoError(t, err)
	defer whole.Close()
	saved, err := whole.Save(t.Context())
	require.NoError(t, err)
	require.Equal(t, after, saved)
}

func TestADirectoryInWhichACommandMayHaveRunIsNoSpare(t *testing.T) {
	t.Parallel()
	repo := newRepo(t, map[string]string{"a.txt": "a\n", ".gitignore": "cache\n"})
	m := newManager(t)
	_, ws := start(t, m, repo)
	edit(t, m, ws, "1/saved", func(dir string) { write(t, dir, "cache/secret", "of run 1") })
	unchanged, err := m.Open(t.Context(), ws, "1/unchanged")
	require.NoError(t, err)
	write(t, unchanged.Path(), "cache/secret", "of run 1")
	require.NoError(t, unchanged.Unchanged())
	unchanged.Close()
	crashed, err := m.Open(t.Context(), ws, "1/crashed")
	require.NoError(t, err)
	crashed.Close()
	later := editFile(t, m, edit(t, m, ws, "1/later", func(string) {}), "1/later", "a.txt", "after a command\n")
	viewed(t, m, later, "1/later")

	require.NoError(t, m.CleanUp(t.Context(), "1"))
	require.Empty(t, spareDirs(t, m))
	names, err := m.dirNames(nil)
	require.NoError(t, err)
	require.Empty(t, names)
}

func TestSparesAreLimitedAndPruned(t *testing.T) {
	t.Parallel()
	repo := newRepo(t, map[string]string{"a.txt": "a\n"})
	m := newManager(t, func(o *Options) { o.MaxSpareDirs = 2 })
	_, ws := start(t, m, repo)
	for _, key := range []string{"1/a", "1/b", "1/c"} {
		viewed(t, m, ws, key)
	}
	require.NoError(t, m.CleanUp(t.Context(), "1"))
	require.Len(t, spareDirs(t, m), 2)
	require.NoError(t, m.Sweep(t.Context(), nil), "they belong to no run")
	require.Len(t, spareDirs(t, m), 2)
	require.NoError(t, m.Prune(t.Context(), time.Hour))
	require.Len(t, spareDirs(t, m), 2)
	require.NoError(t, m.Prune(t.Context(), -time.Hour))
	require.Empty(t, spareDirs(t, m))

	short := newManager(t, func(o *Options) { o.MinFreeForSpares = 1 << 62 })
	_, ws = start(t, short, repo)
	viewed(t, short, ws, "1/a")
	require.NoError(t, short.CleanUp(t.Context(), "1"))
	require.Empty(t, spareDirs(t, short), "the disk is nearly full")

	none := newManager(t, func(o *Options) { o.MaxSpareDirs = 0 })
	_, ws = start(t, none, repo)
	viewed(t, none, ws, "1/a")
	require.NoError(t, none.CleanUp(t.Context(), "1"))
	require.Empty(t, spareDirs(t, none))
}

func TestARecycledDirectoryServesOtherKeysWhileItsRunGoesOn(t *testing.T) {
	t.Parallel()
	repo := newRepo(t, map[string]string{"a.txt": "a\n"})
	m := newManager(t, func(o *Options) { o.MaxSpareDirs = 1 })
	_, ws := start(t, m, repo)
	after := editFile(t, m, ws, "1/s1/1", "a.txt", "changed\n")
	viewed(t, m, ws, "1/s1/1/plan")
	used, err := m.View(t.Context(), after, "1/s1/1")
	require.NoError(t, err)
	require.NoError(t, m.Recycle("1/s1/1"))
	require.Empty(t, spareDirs(t, m), "it is in use")
	used.Close()
	require.NoError(t, m.Recycle("1/s1/1"))
	require.Len(t, spareDirs(t, m), 1)
	require.NoError(t, m.Recycle("1/s1/1"), "it is gone")
	names, err := m.dirNames(nil)
	require.NoError(t, err)
	require.Equal(t, []string{"1+s1+1+plan"}, names, "those of keys below stay, and no lock is left")

	started := m.GitProcesses()
	require.Equal(t, map[string]string{"a.txt": "0 a\n"}, viewed(t, m, ws, "1/s2/1"))
	require.Equal(t, started, m.GitProcesses(), "it was made to match the other tree")
	require.Empty(t, spareDirs(t, m))
	require.Equal(t, map[string]string{"a.txt": "0 changed\n"}, viewed(t, m, after, "1/s1/1"), "its key can be used again")

	require.NoError(t, m.Recycle("1/s1/1"))
	require.NoError(t, m.Recycle("1/s2/1"))
	require.Len(t, spareDirs(t, m), 1, "there are enough")
	dirty, err := m.Open(t.Context(), ws, "1/s3/1")
	require.NoError(t, err)
	dirty.Close()
	require.NoError(t, m.Recycle("1/s3/1"))
	names, err = m.dirNames(nil)
	require.NoError(t, err)
	require.Equal(t, []string{"1+s1+1+plan", "1+s2+1", "1+s3+1"}, names, "what cannot be kept is removed with the run")
	require.NoError(t, m.CleanUp(t.Context(), "1"))
	names, err = m.dirNames(nil)
	require.NoError(t, err)
	require.Empty(t, names)
}

func TestSparesOfEarlierVersionsArePrunedAtOnce(t *testing.T) {
	t.Parallel()
	m := newManager(t)
	old := filepath.Join(m.dirsRoot(), "spare+repo+id")
	require.NoError(t, os.MkdirAll(filepath.Join(old, "work"), 0o755))
	require.NoError(t, m.Prune(t.Context(), time.Hour))
	require.NoDirExists(t, old)
}

func TestADirectoryThatCannotBeKeptIsRemoved(t *testing.T) {
	t.Parallel()
	repo := newRepo(t, map[string]string{"a.txt": "a\n"})
	m := newManager(t)
	_, ws := start(t, m, repo)
	viewed(t, m, ws, "1/a")
	require.NoError(t, os.WriteFile(m.sparesRoot(), nil, 0o600))
	require.Error(t, m.CleanUp(t.Context(), "1"))
	names, err := m.dirNames(nil)
	require.NoError(t, err)
	require.Empty(t, names)
}

func TestASpareServesOnlyItsOwnRepository(t *testing.T) {
	t.Parallel()
	m := newManager(t)
	_, first := start(t, m, newRepo(t, map[string]string{"a.txt": "first\n"}))
	_, second := start(t, m, newRepo(t, map[string]string{"a.txt": "second\n"}))
	viewed(t, m, first, "1/a")
	require.NoError(t, m.CleanUp(t.Context(), "1"))
	require.Equal(t, map[string]string{"a.txt": "0 second\n"}, viewed(t, m, second, "2/a"))
	require.Len(t, spareDirs(t, m), 1)
}

func TestRunsAtOnceNeverShareASpare(t *testing.T) {
	t.Parallel()
	repo := newRepo(t, map[string]string{"a.txt": "a\n", "b.txt": "b\n"})
	m := newManager(t)
	_, ws := start(t, m, repo)
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			key := string(rune('a' + i))
			for range 4 {
				mine := editFile(t, m, ws, key+"/step", "a.txt", key)
				if got := viewed(t, m, mine, key+"/step"); got["a.txt"] != "0 "+key || len(got) != 2 {
					t.Errorf("run %s sees %v", key, got)
				}
				if err := m.CleanUp(t.Context(), key); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	require.NotEmpty(t, spareDirs(t, m))
}

func TestASpareTurnsIntoAnyTree(t *testing.T) {
	t.Parallel()
	repo := newRepo(t, map[string]string{"a": "one\n", "d/a": "one\r\n", "d/e/f": "\x00", ".gitattributes": "* text=auto\n*.bat eol=crlf\n", "CRLF.bat": "x\r\n"})
	m := newManager(t)
	_, ws := start(t, m, repo)
	rapid.Check(t, func(rt *rapid.T) {
		now := ws
		for range rapid.IntRange(0, 3).Draw(rt, "changes") {
			now = edit(t, m, now, "make", func(dir string) { mutate(rt, t, dir) })
		}
		got := viewed(t, m, now, "run/step") // often a spare with another tree
		require.NoError(rt, m.CleanUp(t.Context(), "run"))
		fresh := viewed(t, anotherHost(t, m), now, "run/step")
		require.Equal(rt, fresh, got)
	})
}

func TestALargeDifferenceAndUnusualFilesAreLeftToGit(t *testing.T) {
	t.Parallel()
	repo := newRepo(t, map[string]string{"a.txt": "a\n", "sub/b.txt": "b\n"})
	m := newManager(t)
	_, ws := start(t, m, repo)
	many := edit(t, m, ws, "make", func(dir string) {
		for i := range maxDifference + 1 {
			write(t, dir, filepath.Join("many", strings.Repeat("x", i%50+1)+string(rune('a'+i/50))), "x")
		}
	})
	odd := edit(t, m, ws, "make", func(dir string) {
		require.NoError(t, os.Symlink("a.txt", filepath.Join(dir, "link")))
		require.NoError(t, os.RemoveAll(filepath.Join(dir, "sub")))
		write(t, dir, "sub", "a file now")
		write(t, dir, ".gitignore", "x\n")
	})
	big := edit(t, m, ws, "make", func(dir string) { write(t, dir, "big", strings.Repeat("0123456789", maxObjectBytes/10+1)) })
	for _, to := range []contract.Workspace{many, odd, big, ws} {
		got := viewed(t, m, to, "run/step")
		require.NoError(t, m.CleanUp(t.Context(), "run"))
		require.NotEmpty(t, spareDirs(t, m))
		require.Equal(t, viewed(t, anotherHost(t, m), to, "x"), got)
	}
}

func TestARemovedFileLeavesNoEmptyDirectoryToTheNextRun(t *testing.T) {
	t.Parallel()
	repo := newRepo(t, map[string]string{"a.txt": "a\n"})
	m := newManager(t)
	_, ws := start(t, m, repo)
	made := editFile(t, m, ws, "1/step", "node_modules/x/y", "x")
	d, err := m.OpenFiles(t.Context(), made, "1/step")
	require.NoError(t, err)
	require.NoError(t, os.Remove(filepath.Join(d.Path(), "node_modules/x/y")))
	back, err := d.SaveFile(t.Context(), "node_modules/x/y")
	require.NoError(t, err)
	d.Close()
	require.Equal(t, ws, back)
	require.NoError(t, m.CleanUp(t.Context(), "1"))
	viewed(t, m, ws, "2/step")
	require.NoDirExists(t, filepath.Join(m.dirsRoot(), "2+step", "work", "node_modules"))
}

func TestCommandsOfTheNextRunFindFilesThatAreNew(t *testing.T) {
	t.Parallel()
	repo := newRepo(t, map[string]string{"a.txt": "a\n", "dir/b.txt": "b\n"})
	require.NoError(t, os.Symlink("/etc/hostname", filepath.Join(repo, "link")))
	userGit(t, repo, "add", "-A")
	userGit(t, repo, "commit", "-qm", "second")
	m := newManager(t)
	_, ws := start(t, m, repo)
	viewed(t, m, ws, "1/step")
	old := time.Now().Add(-time.Hour)
	require.NoError(t, os.Chtimes(filepath.Join(m.dirsRoot(), "1+step", "work", "a.txt"), old, old))
	require.NoError(t, m.CleanUp(t.Context(), "1"))
	began := time.Now().Add(-time.Minute)
	mine := editFile(t, m, ws, "2/step", "dir/b.txt", "changed\n")
	d, err := m.Open(t.Context(), mine, "2/step")
	require.NoError(t, err)
	defer d.Close()
	for _, name := range []string{"a.txt", "dir/b.txt", "link"} {
		info, err := os.Lstat(filepath.Join(d.Path(), name))
		require.NoError(t, err)
		require.True(t, info.ModTime().After(began), name)
	}
	target, err := os.Stat("/etc/hostname")
	require.NoError(t, err)
	require.True(t, target.ModTime().Before(began), "links are not followed")
	// Git knows that nothing else changed.
	write(t, d.Path(), "c.txt", "c\n")
	after, err := d.Save(t.Context())
	require.NoError(t, err)
	require.Equal(t, map[string]string{"a.txt": "0 a\n", "dir/b.txt": "0 changed\n", "c.txt": "0 c\n", "link": "link /etc/hostname"}, viewed(t, anotherHost(t, m), after, "x"))
}

func TestDirectoriesForCommandsAreNeverSpares(t *testing.T) {
	t.Parallel()
	repo := newRepo(t, map[string]string{"a.txt": "a\n"})
	m := newManager(t)
	_, ws := start(t, m, repo)
	viewed(t, m, ws, "1/step")
	require.NoError(t, m.CleanUp(t.Context(), "1"))
	d, err := m.Open(t.Context(), ws, "2/test")
	require.NoError(t, err)
	d.Close()
	require.Len(t, spareDirs(t, m), 1)
}

func TestASpareOfAnEarlierStartOfTheHostIsPrunedAndNotUsed(t *testing.T) {
	t.Parallel()
	repo := newRepo(t, map[string]string{"a.txt": "a\n"})
	m := newManager(t)
	_, ws := start(t, m, repo)
	viewed(t, m, ws, "1/step")
	require.NoError(t, m.CleanUp(t.Context(), "1"))
	spare := spareDirs(t, m)[0]
	k, ok := readMark(filepath.Join(spare, markerName))
	require.True(t, ok)
	k.boot = "another"
	require.NoError(t, os.WriteFile(filepath.Join(spare, markerName), []byte(k.String()), 0o600))
	write(t, spare, "work/a.txt", "lost in a power failure")
	require.Equal(t, map[string]string{"a.txt": "0 a\n"}, viewed(t, m, ws, "2/step"))
	require.Len(t, spareDirs(t, m), 1)
	require.NoError(t, m.Prune(t.Context(), time.Hour))
	require.Empty(t, spareDirs(t, m))
}
