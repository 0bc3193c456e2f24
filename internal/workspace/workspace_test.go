package workspace

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/fault"
)

func TestAStateCanBeMadeAgainOnAnotherHostFromThePatchAlone(t *testing.T) {
	t.Parallel()
	repo := newRepo(t, map[string]string{
		"a.txt": "one\ntwo\n", "crlf.txt": "one\r\ntwo\r\n", "gone.txt": "x", "dir/b.txt": "b\n", "run.sh": "#!/bin/sh\n",
		".gitattributes": "* text=auto eol=crlf\n*.bin filter=evil\n", "bin.bin": "\x00\x01\x02", ".gitignore": "ignored\n",
	})
	m := newManager(t)
	_, ws := start(t, m, repo)
	after := edit(t, m, ws, "1/step-001/1", func(dir string) {
		write(t, dir, "a.txt", "one\nTWO\n")
		write(t, dir, "crlf.txt", "ONE\r\ntwo\r\nmixed\n")
		write(t, dir, "new \xff name\t\".txt", "no newline")
		write(t, dir, "bin.bin", "\x00\x01\x03")
		write(t, dir, "ignored", "not part")
		write(t, dir, "empty", "")
		require.NoError(t, os.Remove(filepath.Join(dir, "gone.txt")))
		require.NoError(t, os.RemoveAll(filepath.Join(dir, "dir")))
		write(t, dir, "dir", "now a file")
		require.NoError(t, os.Chmod(filepath.Join(dir, "run.sh"), 0o755))
		require.NoError(t, os.Symlink("/etc/passwd", filepath.Join(dir, "link")))
	})
	require.NotEqual(t, ws.Tree, after.Tree)
	require.NotEmpty(t, after.Patch)

	here, err := m.View(t.Context(), after, "1/step-001/1")
	require.NoError(t, err)
	defer here.Close()
	want := snapshot(t, here.Path())
	delete(want, "ignored")

	there, err := anotherHost(t, m).Open(t.Context(), after, "1/step-001/1")
	require.NoError(t, err)
	defer there.Close()
	require.Equal(t, want, snapshot(t, there.Path()))
}

// mutate changes a directory at random: files, links, modes, directories that become
// files and the other way round.
func mutate(rt *rapid.T, t testing.TB, dir string) {
	name := rapid.SampledFrom([]string{"a", "b", "d/a", "d/b", "d/e/f", "sp ace", "tab\there", "quo\"te", "\xff\xfe", "ü", "-x", ".gitignore", "CRLF.bat"})
	content := rapid.SampledFrom([]string{"", "one", "one\n", "one\ntwo\n", "one\r\ntwo\r\n", "\x00bin\x01", "diff --git a/a b/a\n", "*.log\n", strings.Repeat("long line ", 500)})
	for range rapid.IntRange(0, 6).Draw(rt, "edits") {
		path := filepath.Join(dir, name.Draw(rt, "name"))
		switch rapid.IntRange(0, 5).Draw(rt, "kind") {
		case 0, 1, 2:
			for up := filepath.Dir(path); up != dir; up = filepath.Dir(up) {
				if info, err := os.Lstat(up); err == nil && !info.IsDir() {
					require.NoError(t, os.Remove(up))
				}
			}
			require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
			require.NoError(t, os.RemoveAll(path))
			require.NoError(t, os.WriteFile(path, []byte(content.Draw(rt, "content")), 0o644))
		case 3:
			if _, err := os.Lstat(filepath.Dir(path)); err == nil {
				_ = os.RemoveAll(path)
				_ = os.Symlink(rapid.SampledFrom([]string{"a", "../..", "/etc", "nowhere"}).Draw(rt, "target"), path)
			}
		case 4:
			_ = os.RemoveAll(path)
		case 5:
			if info, err := os.Lstat(path); err == nil && info.Mode().IsRegular() {
				_ = os.Chmod(path, info.Mode().Perm()^0o111)
			}
		}
	}
}

func TestAnyStateRoundTripsThroughItsPatch(t *testing.T) {
	t.Parallel()
	repo := newRepo(t, map[string]string{"a": "one\n", "d/a": "one\r\n", "d/e/f": "\x00", ".gitattributes": "* text=auto\n*.bat eol=crlf\n", "CRLF.bat": "x\r\n"})
	here, there := newManager(t), (*Manager)(nil)
	_, ws := start(t, here, repo)
	rapid.Check(t, func(rt *rapid.T) {
		now := ws
		for range rapid.IntRange(1, 3).Draw(rt, "saves") {
			now = edit(t, here, now, "1", func(dir string) { mutate(rt, t, dir) })
		}
		if there == nil || rapid.Bool().Draw(rt, "new host") {
			there = anotherHost(t, here)
		}
		a, err := here.View(t.Context(), now, "1")
		require.NoError(rt, err)
		defer a.Close()
		b, err := there.Open(t.Context(), now, "elsewhere")
		require.NoError(rt, err)
		defer b.Close()
		same, err := b.Save(t.Context())
		require.NoError(rt, err)
		require.Equal(rt, now, same)
		files, err := here.Files(t.Context(), now)
		require.NoError(rt, err)
		require.Len(rt, snapshot(t, b.Path()), len(files))
		for path, content := range snapshot(t, b.Path()) {
			require.Equal(rt, content, snapshot(t, a.Path())[path], path)
		}
	})
}

func TestTheSameContentIsTheSameStateWhereverItIsMade(t *testing.T) {
	t.Parallel()
	repo := newRepo(t, map[string]string{"a.txt": "a\n"})
	m := newManager(t)
	other := anotherHost(t, m)
	_, ws := start(t, m, repo)
	change := func(dir string) { write(t, dir, "b.txt", "b\n") }
	x := edit(t, m, ws, "1/x", change)
	require.Equal(t, x, edit(t, other, ws, "2/y", change))
	back := edit(t, m, x, "1/x", func(dir string) { require.NoError(t, os.Remove(filepath.Join(dir, "b.txt"))) })
	require.Equal(t, ws, back, "back at the base there is no patch")
	require.Equal(t, ws, edit(t, m, ws, "1/x", func(string) {}))
}

func TestAPatchThatLeadsElsewhereIsRefused(t *testing.T) {
	t.Parallel()
	repo := newRepo(t, map[string]string{"a.txt": "a\n"})
	m := newManager(t)
	_, ws := start(t, m, repo)
	x := edit(t, m, ws, "1", func(dir string) { write(t, dir, "a.txt", "x\n") })
	y := edit(t, m, ws, "1", func(dir string) { write(t, dir, "a.txt", "y\n") })
	other := anotherHost(t, m)
	for _, bad := range []contract.Workspace{
		{Tree: x.Tree, Patch: y.Patch}, {Tree: x.Tree}, {Tree: "no tree", Patch: x.Patch},
	} {
		_, err := other.Open(t.Context(), bad.Of(ws), "1")
		require.Equal(t, contract.ClassRuntime, fault.Of(err).Class, "%v", err)
	}
	_, err := other.Open(t.Context(), contract.Workspace{Tree: x.Tree, Patch: "sha256:" + strings.Repeat("0", 64)}.Of(ws), "1")
	require.ErrorContains(t, err, "could not read the workspace's patch")
}

func TestWhatAWriterLeftWithoutSaveIsUndone(t *testing.T) {
	t.Parallel()
	repo := newRepo(t, map[string]string{"a.txt": "a\n", ".gitignore": "cache\n"})
	m := newManager(t)
	_, ws := start(t, m, repo)
	for name, crash := range map[string]func(d *Dir){
		"files": func(d *Dir) {
			write(t, d.Path(), "a.txt", "half")
			write(t, d.Path(), "cache", "x")
			write(t, d.Path(), "new", "x")
		},
		"git was killed":  func(d *Dir) { write(t, d.root, "index.lock", "half"); write(t, d.root, "index", "broken") },
		"a git directory": func(d *Dir) { userGit(t, d.Path(), "init", "-q"); write(t, d.Path(), ".git/HEAD", "broken") },
		"no work tree":    func(d *Dir) { require.NoError(t, os.RemoveAll(d.Path())) },
	} {
		d, err := m.Open(t.Context(), ws, name)
		require.NoError(t, err)
		crash(d)
		d.Close()
		again, err := m.Open(t.Context(), ws, name)
		require.NoError(t, err, name)
		require.Equal(t, map[string]string{"a.txt": "0 a\n", ".gitignore": "0 cache\n"}, snapshot(t, again.Path()), name)
		again.Close()
		require.Equal(t, ws, edit(t, m, ws, name, func(string) {}))
	}
}

func TestADirectoryFromBeforeARestartOfTheHostIsNotTrusted(t *testing.T) {
	t.Parallel()
	repo := newRepo(t, map[string]string{"a.txt": "a\n"})
	m := newManager(t)
	_, ws := start(t, m, repo)
	after := edit(t, m, ws, "1", func(dir string) { write(t, dir, "a.txt", "b\n") })
	// A power loss: names exist, content does not.
	objects, err := filepath.Glob(filepath.Join(m.options.CacheDir, "repos", "*", "boot-*", "objects", "??", "*"))
	require.NoError(t, err)
	require.NotEmpty(t, objects)
	for _, path := range append(objects, filepath.Join(m.options.CacheDir, "dirs", "1", "work", "a.txt")) {
		require.NoError(t, os.Chmod(path, 0o644))
		require.NoError(t, os.Truncate(path, 0))
	}
	restarted, err := New(m.options)
	require.NoError(t, err)
	restarted.boot = "next"
	d, err := restarted.View(t.Context(), after, "1")
	require.NoError(t, err)
	require.Equal(t, map[string]string{"a.txt": "0 b\n"}, snapshot(t, d.Path()))
	d.Close()
	require.NoError(t, restarted.Prune(t.Context(), time.Hour))
	boots, err := filepath.Glob(filepath.Join(m.options.CacheDir, "repos", "*", "boot-*"))
	require.NoError(t, err)
	require.Len(t, boots, 1)
}

func TestIgnoredFilesRemainWhileAWriterContinuesAndAreRemovedWhenTheContentChanges(t *testing.T) {
	t.Parallel()
	repo := newRepo(t, map[string]string{"a.txt": "a\n", ".gitignore": "cache/\n"})
	m := newManager(t)
	_, ws := start(t, m, repo)
	one := edit(t, m, ws, "1", func(dir string) { write(t, dir, "cache/x", "slow to make"); write(t, dir, "a.txt", "b\n") })
	two := edit(t, m, one, "1", func(dir string) {
		require.FileExists(t, filepath.Join(dir, "cache/x"))
		write(t, dir, "a.txt", "c\n")
	})
	edit(t, m, ws, "1", func(dir string) { require.NoFileExists(t, filepath.Join(dir, "cache/x")) })
	files, err := m.Files(t.Context(), two)
	require.NoError(t, err)
	require.Equal(t, []string{".gitignore", "a.txt"}, files)
}

func TestUnchangedKeepsTheDirectoryAndALaterSaveOfAViewIsRefused(t *testing.T) {
	t.Parallel()
	repo := newRepo(t, map[string]string{"a.txt": "a\n", ".gitignore": "cache\n"})
	m := newManager(t)
	_, ws := start(t, m, repo)
	d, err := m.Open(t.Context(), ws, "1")
	require.NoError(t, err)
	write(t, d.Path(), "cache", "x")
	require.NoError(t, d.Unchanged())
	d.Close()
	d.Close()
	_, err = d.Save(t.Context())
	require.Error(t, err)
	v, err := m.View(t.Context(), ws, "1")
	require.NoError(t, err)
	require.FileExists(t, filepath.Join(v.Path(), "cache"))
	_, err = v.Save(t.Context())
	require.Error(t, err)
	v.Close()
}

func TestStepsOfARunOpenTheirDirectoriesAtTheSameTime(t *testing.T) {
	t.Parallel()
	repo := newRepo(t, map[string]string{"a.txt": "a\n"})
	m := newManager(t)
	second, err := New(m.options) // another process on the same cache
	require.NoError(t, err)
	r, _, err := m.Resolve(t.Context(), repo, "")
	require.NoError(t, err)
	var wg sync.WaitGroup
	states := make([]contract.Workspace, 8)
	failures := make([]error, 8)
	for i := range 8 {
		wg.Go(func() {
			states[i], failures[i] = func() (contract.Workspace, error) {
				host := []*Manager{m, second}[i%2]
				ws, err := host.Start(t.Context(), r)
				if err != nil {
					return ws, err
				}
				d, err := host.Open(t.Context(), ws, fmt.Sprintf("42/step-%03d/1", i))
				if err != nil {
					return ws, err
				}
				defer d.Close()
				if err := os.WriteFile(filepath.Join(d.Path(), fmt.Sprintf("f%d", i)), []byte("x"), 0o644); err != nil {
					return ws, err
				}
				return d.Save(t.Context())
			}()
		})
	}
	wg.Wait()
	require.NoError(t, errors.Join(failures...))
	trees := map[string]bool{}
	for _, ws := range states {
		trees[ws.Tree] = true
	}
	require.Len(t, trees, 8)
}

func TestOneDirectoryHasManyReadersOrOneWriter(t *testing.T) {
	t.Parallel()
	repo := newRepo(t, map[string]string{"n": "0"})
	m := newManager(t)
	second, err := New(m.options)
	require.NoError(t, err)
	_, ws := start(t, m, repo)
	a, err := m.View(t.Context(), ws, "1")
	require.NoError(t, err)
	b, err := second.View(t.Context(), ws, "1")
	require.NoError(t, err, "readers do not wait for readers")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("enough"))
	for _, host := range []*Manager{m, second} {
		_, err = host.Open(ctx, ws, "1")
		require.ErrorContains(t, err, "enough", "a writer waits for readers")
	}
	a.Close()
	b.Close()

	var wg sync.WaitGroup
	failures := make([]error, 16)
	for i := range 16 {
		wg.Go(func() {
			host := []*Manager{m, second}[i%2]
			d, err := host.Open(t.Context(), ws, "1")
			if err != nil {
				failures[i] = err
				return
			}
			defer d.Close()
			path := filepath.Join(d.Path(), "n")
			content, err := os.ReadFile(path)
			if err == nil && string(content) != "0" {
				err = fmt.Errorf("another writer's content: %q", content)
			}
			if err == nil {
				err = os.WriteFile(path, []byte(fmt.Sprint(i+1)), 0o644)
			}
			if err == nil {
				_, err = d.Save(t.Context())
			}
			failures[i] = err
		})
	}
	wg.Wait()
	require.NoError(t, errors.Join(failures...))
	require.Empty(t, m.locks.paths, "no lock is left")
}

func TestTheCacheKeepsWhatTheSourceDeleted(t *testing.T) {
	t.Parallel()
	repo := newRepo(t, map[string]string{"a.txt": "a\n"})
	m := newManager(t)
	write(t, repo, "a.txt", "lost\n")
	userGit(t, repo, "commit", "-qam", "soon gone")
	_, ws := start(t, m, repo)
	userGit(t, repo, "reset", "-q", "--hard", "HEAD~1")
	userGit(t, repo, "reflog", "expire", "--expire=now", "--all")
	userGit(t, repo, "gc", "-q", "--prune=now")
	after := edit(t, m, ws, "1", func(dir string) { write(t, dir, "b.txt", "b\n") })
	require.NotEqual(t, ws.Tree, after.Tree)
	require.True(t, m.Cached(ws.Repo, ws.Base))
	other := anotherHost(t, m)
	require.False(t, other.Cached(ws.Repo, ws.Base))
	_, err := other.Open(t.Context(), after, "1")
	requireRepoFault(t, err, "has no commit")
	require.NoError(t, os.RemoveAll(repo))
	_, err = other.Open(t.Context(), after, "1")
	requireRepoFault(t, err, "does not exist")
}

func TestShallowRepositoriesAndThoseWithSHA256Work(t *testing.T) {
	t.Parallel()
	full := newRepo(t, map[string]string{"a.txt": "a\n"})
	write(t, full, "a.txt", "b\n")
	userGit(t, full, "commit", "-qam", "second")
	shallow := filepath.Join(t.TempDir(), "shallow")
	userGit(t, full, "clone", "-q", "--depth=1", "file://"+full, shallow)
	long := t.TempDir()
	userGit(t, long, "init", "-q", "-b", "main", "--object-format=sha256")
	write(t, long, "a.txt", "a\n")
	userGit(t, long, "add", "-A")
	userGit(t, long, "commit", "-qm", "first")
	for _, repo := range []string{shallow, long} {
		m := newManager(t)
		r, ws := start(t, m, repo)
		x := edit(t, m, ws, "1/x", func(dir string) { write(t, dir, "x", "x") })
		y := edit(t, m, ws, "1/y", func(dir string) { write(t, dir, "y", "y") })
		merged, conflict, err := m.Merge(t.Context(), ws, x, y)
		require.NoError(t, err)
		require.Nil(t, conflict)
		commit, err := m.Commits(t.Context(), r, []contract.Workspace{x, merged}, []CommitMessage{{Subject: "x"}, {Subject: "y"}})
		require.NoError(t, err)
		require.NoError(t, m.Publish(t.Context(), r, commit, "rgpt/run-1", PublishOptions{}))
		require.Equal(t, commit, userGit(t, repo, "rev-parse", "rgpt/run-1"))
		userGit(t, repo, "fsck", "--strict")
	}
}

func TestGitThatIsStoppedSaysWhy(t *testing.T) {
	t.Parallel()
	repo := newRepo(t, map[string]string{"a.txt": "a\n"})
	m := newManager(t)
	_, ws := start(t, m, repo)
	ctx, cancel := context.WithCancel(t.Context())
	d, err := m.Open(ctx, ws, "1")
	require.NoError(t, err)
	defer d.Close()
	cancel()
	write(t, d.Path(), "b", "b")
	_, err = d.Save(ctx)
	require.True(t, fault.Is(err, contract.CodeCancelled), "%v", err)
}

func TestCleanUpRemovesTheDirectoriesBelowAKeyAlone(t *testing.T) {
	t.Parallel()
	repo := newRepo(t, map[string]string{"a.txt": "a\n"})
	m := newManager(t)
	_, ws := start(t, m, repo)
	keys := []string{"42", "42/step-001/1", "42/x y/Ü_+.", "421/step-001/1", "4"}
	for _, key := range keys {
		edit(t, m, ws, key, func(dir string) {
			write(t, dir, "x/y", "")
			require.NoError(t, os.Chmod(filepath.Join(dir, "x"), 0o500))
		})
	}
	require.NoError(t, m.CleanUp(t.Context(), "42"))
	names, err := m.dirNames(nil)
	require.NoError(t, err)
	slices.Sort(names)
	require.Equal(t, []string{"4", "421+step-001+1"}, names)
	locks, err := os.ReadDir(filepath.Join(m.options.CacheDir, "locks"))
	require.NoError(t, err)
	require.Len(t, locks, 2)
	require.NoError(t, m.CleanUp(t.Context(), "4/"))
	for _, bad := range []string{"", "/x", "x/", strings.Repeat("ü", 80)} {
		_, err := m.Open(t.Context(), ws, bad)
		require.Error(t, err)
	}
}

func TestALockThatAKilledWorkerLeftIsRemoved(t *testing.T) {
	t.Parallel()
	remove := map[string]func(*Manager) error{
		"clean-up": func(m *Manager) error { return m.CleanUp(t.Context(), "42") },
		"sweep": func(m *Manager) error {
			return m.Sweep(t.Context(), func(context.Context, string) (bool, error) { return true, nil })
		},
		"pruning": func(m *Manager) error { return m.Prune(t.Context(), time.Hour) },
	}
	for name, remove := range remove {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := newManager(t)
			_, ws := start(t, m, newRepo(t, map[string]string{"a.txt": "a\n"}))
			edit(t, m, ws, "42/tester/2/plan", func(string) {})
			names, err := m.dirNames(nil)
			require.NoError(t, err)
			require.Len(t, names, 1)
			require.NoError(t, removeTree(filepath.Join(m.dirsRoot(), names[0])), "as one does that is killed then")
			require.FileExists(t, m.dirLock(names[0]))
			require.NoError(t, remove(m))
			require.NoFileExists(t, m.dirLock(names[0]))
		})
	}
}

func TestPruneRemovesWhatNobodyUses(t *testing.T) {
	t.Parallel()
	repo := newRepo(t, map[string]string{"a.txt": "a\n"})
	m := newManager(t)
	_, ws := start(t, m, repo)
	edit(t, m, ws, "1", func(string) {})
	held, err := m.View(t.Context(), ws, "2")
	require.NoError(t, err)
	require.NoError(t, m.Prune(t.Context(), time.Hour))
	names, err := m.dirNames(nil)
	require.NoError(t, err)
	require.Len(t, names, 2)
	require.NoError(t, m.Prune(t.Context(), -time.Hour))
	names, err = m.dirNames(nil)
	require.NoError(t, err)
	require.Equal(t, []string{"2"}, names)
	require.True(t, m.Cached(ws.Repo, ws.Base), "a mirror in use stays")
	held.Close()
	require.NoError(t, m.Prune(t.Context(), -time.Hour))
	require.False(t, m.Cached(ws.Repo, ws.Base))
	edit(t, m, ws, "1", func(string) {})
}

func TestSweepRemovesTheDirectoriesOfWhatEndedUnlessTheyAreInUse(t *testing.T) {
	t.Parallel()
	repo := newRepo(t, map[string]string{"a.txt": "a\n"})
	m := newManager(t)
	_, ws := start(t, m, repo)
	for _, key := range []string{"42/step-001/1", "42/tester_running/1/test", "421/step-001/1", "7/a", "8"} {
		edit(t, m, ws, key, func(string) {})
	}
	held, err := m.View(t.Context(), ws, "42/tester_running/1/test")
	require.NoError(t, err)
	asked := map[string]int{}
	ended := func(_ context.Context, first string) (bool, error) {
		asked[first]++
		if first == "7" {
			return true, errors.New("away")
		}
		return first == "42" || first == "8", nil
	}
	require.ErrorContains(t, m.Sweep(t.Context(), ended), "away")
	require.Equal(t, map[string]int{"42": 1, "421": 1, "7": 1, "8": 1}, asked)
	names, err := m.dirNames(nil)
	require.NoError(t, err)
	slices.Sort(names)
	require.Equal(t, []string{"42+tester_5frunning+1+test", "421+step-001+1", "7+a"}, names)
	held.Close()
	require.Error(t, m.Sweep(t.Context(), ended))
	names, err = m.dirNames(nil)
	require.NoError(t, err)
	slices.Sort(names)
	require.Equal(t, []string{"421+step-001+1", "7+a"}, names)
}

func TestKeysBecomeNamesThatDifferAndKeepPrefixes(t *testing.T) {
	t.Parallel()
	key := rapid.StringMatching(`[a-zA-Z0-9+_./ ü-]{1,12}`)
	rapid.Check(t, func(rt *rapid.T) {
		a, b := key.Draw(rt, "a"), key.Draw(rt, "b")
		require.Equal(rt, a == b, encodeKey(a) == encodeKey(b))
		require.True(rt, strings.HasPrefix(encodeKey(a+"/"+b), encodeKey(a)+"+"))
		require.Regexp(rt, `^[a-zA-Z0-9_+-][a-zA-Z0-9._+-]*$`, encodeKey(a))
	})
}

// A git process that outlives its worker must keep the directory's lock; one
// that merely shares the file while it starts must not.
func TestALockOutlivesTheWorkerInItsGitProcessAndEndsWithItsRelease(t *testing.T) {
	t.Parallel()
	for name, held := range map[string]bool{"killed": true, "released": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			lock := filepath.Join(t.TempDir(), "x.lock")
			mine, err := newLocks().exclusive(t.Context(), lock)
			require.NoError(t, err)
			child := exec.Command("cat")
			child.ExtraFiles = []*os.File{mine.file}
			stdin, err := child.StdinPipe()
			require.NoError(t, err)
			require.NoError(t, child.Start())
			if held {
				require.NoError(t, mine.file.Close(), "what a kill does")
			} else {
				mine.release()
			}
			other, err := newLocks().tryExclusive(lock)
			require.NoError(t, err)
			require.Equal(t, held, other == nil)
			require.NoError(t, stdin.Close())
			require.NoError(t, child.Wait())
			if held {
				other, err = newLocks().tryExclusive(lock)
				require.NoError(t, err)
				require.NotNil(t, other)
			}
			other.release()
		})
	}
}

func BenchmarkWorkspace(b *testing.B) {
	files := map[string]string{}
	for i := range 200 {
		files[filepath.Join("dir"+string(rune('a'+i%10)), "file"+string(rune('a'+i/10))+".txt")] = "line\n"
	}
	repo := newRepo(b, files)
	m := newManager(b)
	_, ws := start(b, m, repo)
	b.Run("open and save, nothing changed", func(b *testing.B) {
		for b.Loop() {
			edit(b, m, ws, "1/a/1", func(string) {})
		}
	})
	b.Run("view what is there", func(b *testing.B) {
		for b.Loop() {
			d, err := m.View(b.Context(), ws, "1/a/1")
			require.NoError(b, err)
			d.Close()
		}
	})
	b.Run("open, edit one file and save", func(b *testing.B) {
		now := ws
		for i := 0; b.Loop(); i++ {
			now = edit(b, m, now, "1/b/1", func(dir string) { write(b, dir, "dira/filea.txt", string(rune('a'+i%20))+"\n") })
		}
	})
	b.Run("start on a host that has nothing", func(b *testing.B) {
		for b.Loop() {
			_, err := newManager(b).Start(b.Context(), contract.Repo{URL: repo, Base: ws.Base})
			require.NoError(b, err)
		}
	})
	b.Run("open from the patch on a host that has the base", func(b *testing.B) {
		other := anotherHost(b, m)
		for i := 0; b.Loop(); i++ {
			b.StopTimer()
			state := edit(b, m, ws, "4/x", func(dir string) { write(b, dir, "x", fmt.Sprint(i)) })
			b.StartTimer()
			d, err := other.Open(b.Context(), state, "4/x")
			require.NoError(b, err)
			_, err = d.Save(b.Context())
			require.NoError(b, err)
			d.Close()
		}
	})
	b.Run("open in a new directory", func(b *testing.B) {
		for i := 0; b.Loop(); i++ {
			d, err := m.Open(b.Context(), ws, "2/"+string(rune('a'+i%20))+string(rune('a'+i/20%20))+string(rune('a'+i/400)))
			require.NoError(b, err)
			d.Close()
		}
	})
	b.Run("merge", func(b *testing.B) {
		for i := 0; b.Loop(); i++ {
			b.StopTimer()
			x := edit(b, m, ws, "3/x", func(dir string) { write(b, dir, "x", string(rune(i))) })
			y := edit(b, m, ws, "3/y", func(dir string) { write(b, dir, "y", string(rune(i))) })
			b.StartTimer()
			_, conflict, err := m.Merge(b.Context(), ws, x, y)
			require.NoError(b, err)
			require.Nil(b, conflict)
		}
	})
}

func TestAddedLinesAreFoundInFilesOfAnyKind(t *testing.T) {
	t.Parallel()
	repo := newRepo(t, map[string]string{
		"crlf.go": "one\r\ntwo\r\nthree\r\n", "größe.py": "x\n", "no newline.go": "one\ntwo", "cut.go": "1\n2\n3\n4\n", "mode.sh": "x\n", "hidden.go": "a\n",
		".gitattributes": "hidden.go -diff binary\n",
	})
	m := newManager(t)
	_, ws := start(t, m, repo)
	after := edit(t, m, ws, "1/step-001/1", func(dir string) {
		write(t, dir, "crlf.go", "one\r\nTWO\r\nthree\r\n")
		write(t, dir, "größe.py", "x\ny\n")
		write(t, dir, "日本/\"q\".py", "1")
		write(t, dir, "no newline.go", "one\ntwo\n")
		write(t, dir, "cut.go", "1\n4\n")
		write(t, dir, "hidden.go", "a\nb\n")
		write(t, dir, "empty.go", "")
		require.NoError(t, os.Chmod(filepath.Join(dir, "mode.sh"), 0o755))
	})
	added, err := m.AddedLines(t.Context(), after)
	require.NoError(t, err)
	line := func(n int) []contract.LineRange { return []contract.LineRange{{First: n, Last: n}} }
	require.Equal(t, map[string][]contract.LineRange{
		"crlf.go": line(2), "größe.py": line(2), "日本/\"q\".py": line(1), "no newline.go": line(2), "hidden.go": line(2),
	}, added)
}

func TestAddedLinesAreThoseThatTheBaseLacks(t *testing.T) {
	t.Parallel()
	repo := newRepo(t, map[string]string{
		"a.go": "one\ntwo\nthree\nfour\n", "gone.go": "x\n", "old.go": strings.Repeat("same line\n", 20), "bin": "\x00\x01", "same.go": "x\n",
	})
	m := newManager(t)
	_, ws := start(t, m, repo)
	none, err := m.AddedLines(t.Context(), ws)
	require.NoError(t, err)
	require.Empty(t, none)
	after := edit(t, m, ws, "1/step-001/1", func(dir string) {
		write(t, dir, "a.go", "one\nTWO\n++ b/x\n--- a/y\nfour\nfive")
		write(t, dir, "new name\t.go", "1\n2\n")
		write(t, dir, "bin", "\x00\x02")
		write(t, dir, "moved.go", strings.Repeat("same line\n", 20)+"and one more\n")
		require.NoError(t, os.Remove(filepath.Join(dir, "old.go")))
		require.NoError(t, os.Remove(filepath.Join(dir, "gone.go")))
	})
	added, err := m.AddedLines(t.Context(), after)
	require.NoError(t, err)
	require.Equal(t, map[string][]contract.LineRange{
		"a.go": {{First: 2, Last: 4}, {First: 6, Last: 6}}, "new name\t.go": {{First: 1, Last: 2}}, "moved.go": {{First: 21, Last: 21}},
	}, added)
}
