package workspace

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/sandbox"
	"github.com/rocketgpt/orchestrator/internal/sandbox/sandboxtest"
)

// onDisk selects a cache directory whose checkouts are kept.
func onDisk(t testing.TB) func(*Options) {
	t.Helper()
	dir := sandboxtest.DiskDir(t)
	return func(o *Options) { o.CacheDir = filepath.Join(dir, "cache") }
}

func openCheckout(t testing.TB, m *Manager, ws contract.Workspace, key string) *Checkout {
	t.Helper()
	c, err := m.OpenCheckout(t.Context(), ws, key, true)
	require.NoError(t, err)
	t.Cleanup(c.Close)
	return c
}

// checkWith opens a checkout, lets f change it and gives it back.
func checkWith(t testing.TB, m *Manager, ws contract.Workspace, key string, f func(dir string)) error {
	t.Helper()
	c := openCheckout(t, m, ws, key)
	f(c.Path())
	return c.GiveBack(t.Context())
}

var checkoutFiles = map[string]string{
	"a.txt": "a\n", "dir/b.txt": "b\n", "dir/deep/c.txt": "c\n", "other/d.txt": "d\n", ".gitignore": "build/\n*.log\n",
}

// snapshotOf is what a fresh checkout of the files looks like.
func snapshotOf(files map[string]string) map[string]string {
	out := map[string]string{}
	for path, content := range files {
		out[path] = "0 " + content
	}
	return out
}

// folders returns the directories below a directory, with their modes.
func folders(t testing.TB, dir string) map[string]fs.FileMode {
	t.Helper()
	out := map[string]fs.FileMode{}
	require.NoError(t, filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.IsDir() {
			return err
		}
		info, err := entry.Info()
		out[path[len(dir):]] = info.Mode()
		return err
	}))
	return out
}

func TestTheDirectoryOfACheckServesTheNextOneWithoutGit(t *testing.T) {
	t.Parallel()
	m := newManager(t, onDisk(t))
	_, ws := start(t, m, newRepo(t, checkoutFiles))
	first := openCheckout(t, m, ws, "1/test")
	inode := inodeOf(t, first.Path())
	require.NoError(t, first.GiveBack(t.Context()))
	require.Len(t, spareDirs(t, m), 1)
	held, err := m.Holds("1")
	require.NoError(t, err)
	require.False(t, held, "there is nothing left to clean up")

	started := m.GitProcesses()
	second := openCheckout(t, m, ws, "2/test")
	require.Equal(t, inode, inodeOf(t, second.Path()))
	require.Equal(t, snapshotOf(checkoutFiles), snapshot(t, second.Path()))
	write(t, second.Path(), "a.txt", "changed by a command\n")
	require.NoError(t, second.GiveBack(t.Context()))
	third := openCheckout(t, m, ws, "3/test")
	require.Equal(t, inode, inodeOf(t, third.Path()))
	require.Equal(t, snapshotOf(checkoutFiles), snapshot(t, third.Path()))
	require.Equal(t, started, m.GitProcesses())
	require.Empty(t, spareDirs(t, m))
	require.ErrorIs(t, second.GiveBack(t.Context()), errNotKept, "only once")
}

func TestWhateverCommandsDoToACheckoutIsUndone(t *testing.T) {
	t.Parallel()
	outside := t.TempDir()
	write(t, outside, "deep/c.txt", "outside\n")
	path := filepath.Join
	for claim, command := range map[string]func(t *testing.T, dir string){
		"nothing": func(*testing.T, string) {},
		"an edited file whose times were restored": func(t *testing.T, dir string) {
			info, err := os.Stat(path(dir, "a.txt"))
			require.NoError(t, err)
			require.NoError(t, os.WriteFile(path(dir, "a.txt"), []byte("x\n"), 0o600))
			require.NoError(t, os.Chtimes(path(dir, "a.txt"), info.ModTime(), info.ModTime()))
		},
		"a file edited through a mapping": func(t *testing.T, dir string) {
			file, err := os.OpenFile(path(dir, "a.txt"), os.O_RDWR, 0)
			require.NoError(t, err)
			defer file.Close()
			data, err := unix.Mmap(int(file.Fd()), 0, 2, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
			require.NoError(t, err)
			require.EqualValues(t, 'a', data[0], "read first: the page is mapped before it is written to")
			data[0] = 'x'
			require.NoError(t, unix.Munmap(data))
		},
		"an executable file": func(t *testing.T, dir string) { require.NoError(t, os.Chmod(path(dir, "a.txt"), 0o777)) },
		"two files that changed places": func(t *testing.T, dir string) {
			require.NoError(t, os.Rename(path(dir, "a.txt"), path(dir, "x")))
			require.NoError(t, os.Rename(path(dir, "dir/b.txt"), path(dir, "a.txt")))
			require.NoError(t, os.Rename(path(dir, "x"), path(dir, "dir/b.txt")))
		},
		"another file in its place": func(t *testing.T, dir string) {
			write(t, dir, "new", "a\n")
			require.NoError(t, os.Rename(path(dir, "new"), path(dir, "a.txt")))
		},
		"a hard link outside": func(t *testing.T, dir string) {
			require.NoError(t, os.Link(path(dir, "a.txt"), path(sandboxtest.DiskDir(t), "link")))
		},
		"a hard link inside": func(t *testing.T, dir string) {
			require.NoError(t, os.Link(path(dir, "a.txt"), path(dir, "dir/link")))
		},
		"removed files": func(t *testing.T, dir string) {
			require.NoError(t, os.Remove(path(dir, "a.txt")))
			require.NoError(t, os.RemoveAll(path(dir, "dir")))
		},
		"added files": func(t *testing.T, dir string) {
			write(t, dir, "build/out.o", "ignored")
			write(t, dir, "dir/deep/more/x.log", "ignored")
			write(t, dir, ".git/config", "[core]\n")
			require.NoError(t, os.Mkdir(path(dir, "empty"), 0o700))
			require.NoError(t, unix.Mkfifo(path(dir, "fifo"), 0o600))
			require.NoError(t, os.Symlink("/etc/passwd", path(dir, "dir/link")))
			require.NoError(t, os.Symlink("/nowhere", path(dir, "broken\n\xff")))
		},
		"directories without permissions": func(t *testing.T, dir string) {
			write(t, dir, "locked/inner/x", "x")
			require.NoError(t, os.Chmod(path(dir, "locked/inner"), 0))
			require.NoError(t, os.Chmod(path(dir, "locked"), 0))
			require.NoError(t, os.Chmod(path(dir, "dir/deep"), 0))
			require.NoError(t, os.Chmod(path(dir, "dir"), 0))
			require.NoError(t, os.Chmod(path(dir, "other"), 0o2777|fs.ModeSetgid|fs.ModeSticky))
			require.NoError(t, os.Chmod(dir, 0))
		},
		"a directory replaced by a link to outside": func(t *testing.T, dir string) {
			require.NoError(t, os.RemoveAll(path(dir, "dir")))
			require.NoError(t, os.Symlink(outside, path(dir, "dir")))
		},
		"a directory replaced by a file": func(t *testing.T, dir string) {
			require.NoError(t, os.RemoveAll(path(dir, "dir")))
			write(t, dir, "dir", "a file")
		},
		"a file replaced by a directory": func(t *testing.T, dir string) {
			require.NoError(t, os.Remove(path(dir, "a.txt")))
			write(t, dir, "a.txt/deep/x", "x")
		},
		"directories that changed places": func(t *testing.T, dir string) {
			require.NoError(t, os.Rename(path(dir, "dir"), path(dir, "x")))
			require.NoError(t, os.Rename(path(dir, "other"), path(dir, "dir")))
			require.NoError(t, os.Rename(path(dir, "x"), path(dir, "other")))
		},
		"a moved directory": func(t *testing.T, dir string) {
			require.NoError(t, os.Rename(path(dir, "dir/deep"), path(dir, "deep")))
		},
		"attributes that overlays leave": func(t *testing.T, dir string) {
			for _, at := range []string{dir, path(dir, "dir")} {
				require.NoError(t, unix.Setxattr(at, "user.overlay.impure", []byte("y"), 0))
			}
		},
	} {
		t.Run(claim, func(t *testing.T) {
			t.Parallel()
			m := newManager(t, onDisk(t))
			_, ws := start(t, m, newRepo(t, checkoutFiles))
			for i := range 2 { // once in a fresh directory, once in one that was used before
				c := openCheckout(t, m, ws, fmt.Sprint(i, "/test"))
				modes := folders(t, c.Path())
				command(t, c.Path())
				require.NoError(t, c.GiveBack(t.Context()))
				require.Len(t, spareDirs(t, m), 1)
				spare := filepath.Join(spareDirs(t, m)[0], "work")
				_, err := os.Lstat(path(spare, "fifo"))
				require.ErrorIs(t, err, fs.ErrNotExist) // reading it would take for ever
				require.Equal(t, snapshotOf(checkoutFiles), snapshot(t, spare))
				require.Equal(t, modes, folders(t, spare))
				for at := range modes {
					size, err := unix.Listxattr(spare+at, nil)
					require.NoError(t, err)
					require.Zero(t, size)
				}
			}
			require.Equal(t, map[string]string{"deep/c.txt": "0 outside\n"}, snapshot(t, outside))
		})
	}
}

func TestWhatCannotBeUndoneForSureIsNotKept(t *testing.T) {
	t.Parallel()
	for claim, command := range map[string]func(t *testing.T, dir string){
		"a changed link": func(t *testing.T, dir string) {
			require.NoError(t, os.Remove(filepath.Join(dir, "link")))
			require.NoError(t, os.Symlink("other", filepath.Join(dir, "link")))
		},
		"a removed link": func(t *testing.T, dir string) { require.NoError(t, os.Remove(filepath.Join(dir, "link"))) },
		"an unusual name": func(t *testing.T, dir string) {
			write(t, dir, "ü.txt", "changed")
		},
		"a file of git":       func(t *testing.T, dir string) { write(t, dir, ".gitignore", "changed") },
		"a removed submodule": func(t *testing.T, dir string) { require.NoError(t, os.Remove(filepath.Join(dir, "sub"))) },
		"too many changes": func(t *testing.T, dir string) {
			for i := range maxDifference + 1 {
				require.NoError(t, os.Remove(filepath.Join(dir, "many", fmt.Sprint(i))))
			}
		},
		"a default ACL": func(t *testing.T, dir string) {
			acl := "\x02\x00\x00\x00\x01\x00\x07\x00\xff\xff\xff\xff\x04\x00\x05\x00\xff\xff\xff\xff\x20\x00\x05\x00\xff\xff\xff\xff"
			if err := unix.Setxattr(filepath.Join(dir, "many"), "system.posix_acl_default", []byte(acl), 0); err != nil {
				t.Skipf("no ACLs here: %v", err)
			}
		},
		"a flag of a directory":   func(t *testing.T, dir string) { setNoDump(t, filepath.Join(dir, "many")) },
		"a flag of the work tree": setNoDump,
		"another work tree": func(t *testing.T, dir string) {
			require.NoError(t, os.Rename(dir, dir+".old"))
			require.NoError(t, os.Mkdir(dir, 0o755))
		},
		"files of another user": func(t *testing.T, dir string) {
			if err := os.Chown(filepath.Join(dir, "many"), 65534, 65534); err != nil {
				t.Skip("only root can give files away")
			}
		},
		"something beside the work tree": func(t *testing.T, dir string) {
			require.NoError(t, os.Mkdir(filepath.Join(filepath.Dir(dir), sandbox.OverlayPrefix+"work"), 0o700))
		},
	} {
		t.Run(claim, func(t *testing.T) {
			t.Parallel()
			files := map[string]string{"a.txt": "a\n", "ü.txt": "u\n", ".gitignore": "x\n"}
			for i := range maxDifference + 1 {
				files[fmt.Sprintf("many/%d", i)] = "x\n"
			}
			repo := newRepo(t, files)
			require.NoError(t, os.Symlink("a.txt", filepath.Join(repo, "link")))
			userGit(t, repo, "update-index", "--add", "--cacheinfo", "160000,"+userGit(t, repo, "rev-parse", "HEAD")+",sub")
			userGit(t, repo, "add", "link")
			userGit(t, repo, "commit", "-qm", "second")
			m := newManager(t, onDisk(t))
			_, ws := start(t, m, repo)
			err := checkWith(t, m, ws, "1/test", func(dir string) { command(t, dir) })
			require.Empty(t, spareDirs(t, m))
			if claim != "something beside the work tree" { // which removes the directory at once
				require.ErrorIs(t, err, errNotKept)
			}
			require.NoError(t, m.CleanUp(t.Context(), "1"))
			names, err := m.dirNames(nil)
			require.NoError(t, err)
			require.Empty(t, names)
			require.NoError(t, checkWith(t, m, ws, "2/test", func(string) {}))
			require.Len(t, spareDirs(t, m), 1)
		})
	}
}

// setNoDump sets a flag of a directory, as chattr does.
func setNoDump(t *testing.T, dir string) {
	t.Helper()
	const flag = 0x40 // FS_NODUMP_FL
	file, err := os.Open(dir)
	require.NoError(t, err)
	defer file.Close()
	flags, err := unix.IoctlGetUint32(int(file.Fd()), unix.FS_IOC_GETFLAGS)
	if err == nil {
		err = unix.IoctlSetPointerInt(int(file.Fd()), unix.FS_IOC_SETFLAGS, int(flags|flag))
	}
	if err != nil {
		t.Skipf("no flags here: %v", err)
	}
}

func TestFilesOfACheckoutAreAsNewAsThoseOfAFreshOne(t *testing.T) {
	t.Parallel()
	repo := newRepo(t, checkoutFiles)
	require.NoError(t, os.Symlink("/etc/hostname", filepath.Join(repo, "link")))
	userGit(t, repo, "add", "-A")
	userGit(t, repo, "commit", "-qm", "second")
	m := newManager(t, onDisk(t))
	_, ws := start(t, m, repo)
	viewed(t, m, ws, "1/step")
	require.NoError(t, m.CleanUp(t.Context(), "1")) // a spare in which no command ran
	old := time.Now().Add(-time.Hour)
	for i := range 2 {
		spare := filepath.Join(spareDirs(t, m)[0], "work")
		require.NoError(t, filepath.WalkDir(spare, func(path string, entry fs.DirEntry, _ error) error {
			if entry.Type()&fs.ModeSymlink != 0 {
				return nil
			}
			return os.Chtimes(path, old, old)
		}))
		began := time.Now().Add(-time.Minute)
		c := openCheckout(t, m, ws, fmt.Sprint(i, "/test"))
		require.NoError(t, filepath.WalkDir(c.Path(), func(path string, _ fs.DirEntry, err error) error {
			require.NoError(t, err)
			info, err := os.Lstat(path)
			require.NoError(t, err)
			require.True(t, info.ModTime().After(began), path)
			return nil
		}))
		target, err := os.Stat("/etc/hostname")
		require.NoError(t, err)
		require.True(t, target.ModTime().Before(began), "links are not followed")
		require.NoError(t, c.GiveBack(t.Context()))
	}
}

func TestEveryChangeAfterOpeningHasALaterTime(t *testing.T) {
	t.Parallel()
	m := newManager(t, onDisk(t))
	_, ws := start(t, m, newRepo(t, checkoutFiles))
	for i := range 20 {
		c := openCheckout(t, m, ws, fmt.Sprint(i, "/test"))
		var now unix.Timespec
		require.NoError(t, unix.ClockGettime(unix.CLOCK_REALTIME_COARSE, &now))
		for path, was := range c.record.entries {
			require.True(t, time.Unix(now.Unix()).After(time.Unix(was.seconds, was.nano)), path)
		}
		require.NoError(t, c.GiveBack(t.Context()))
	}
}

func TestWhatIsSavedInADirectoryOfAnEarlierCheckIsExact(t *testing.T) {
	t.Parallel()
	m := newManager(t, onDisk(t))
	_, ws := start(t, m, newRepo(t, checkoutFiles))
	changed := edit(t, m, ws, "make", func(dir string) {
		write(t, dir, "dir/b.txt", "changed\n")
		write(t, dir, "new.log", "of an ignored name\n")
		require.NoError(t, os.RemoveAll(filepath.Join(dir, "other")))
	})
	mess := func(dir string) {
		write(t, dir, "a.txt", "x\n")
		write(t, dir, "junk", "x\n")
		require.NoError(t, os.RemoveAll(filepath.Join(dir, "dir")))
	}
	for name, save := range map[string]func(t *testing.T, m *Manager, ws contract.Workspace) contract.Workspace{
		"Open and Save": func(t *testing.T, m *Manager, ws contract.Workspace) contract.Workspace {
			viewed(t, m, ws, "2/step") // takes the spare
			return edit(t, m, ws, "2/step", func(dir string) { write(t, dir, "e.txt", "e\n") })
		},
		"OpenFiles and Save": func(t *testing.T, m *Manager, ws contract.Workspace) contract.Workspace {
			d, err := m.OpenFiles(t.Context(), ws, "2/step")
			require.NoError(t, err)
			defer d.Close()
			write(t, d.Path(), "e.txt", "e\n")
			after, err := d.Save(t.Context())
			require.NoError(t, err)
			return after
		},
		"SaveFile": func(t *testing.T, m *Manager, ws contract.Workspace) contract.Workspace {
			return editFile(t, m, ws, "2/step", "e.txt", "e\n")
		},
		"SaveFile that needs git": func(t *testing.T, m *Manager, ws contract.Workspace) contract.Workspace {
			made := editFile(t, m, ws, "2/step", "ü.txt", "u\n")
			d, err := m.OpenFiles(t.Context(), made, "2/step")
			require.NoError(t, err)
			require.NoError(t, os.Remove(filepath.Join(d.Path(), "ü.txt")))
			back, err := d.SaveFile(t.Context(), "ü.txt")
			d.Close()
			require.NoError(t, err)
			return editFile(t, m, back, "2/step", "e.txt", "e\n")
		},
	} {
		for _, from := range []contract.Workspace{ws, changed} {
			for _, to := range []contract.Workspace{ws, changed} {
				t.Run(name, func(t *testing.T) {
					t.Parallel()
					m := newManager(t, onDisk(t), func(o *Options) { o.Blobs = m.options.Blobs })
					require.NoError(t, checkWith(t, m, from, "1/test", mess))
					require.Len(t, spareDirs(t, m), 1)
					after := save(t, m, to)
					want := viewed(t, m, to, "3/want")
					want["e.txt"] = "0 e\n"
					require.Equal(t, want, viewed(t, anotherHost(t, m), after, "x"))
					fresh := anotherHost(t, m)
					require.Equal(t, save(t, fresh, to), after)
				})
			}
		}
	}
}

func TestChecksAtOnceNeverShareADirectory(t *testing.T) {
	t.Parallel()
	m := newManager(t, onDisk(t))
	_, ws := start(t, m, newRepo(t, checkoutFiles))
	var wg sync.WaitGroup
	for i := range 4 {
		wg.Go(func() {
			for j := range 5 {
				key := fmt.Sprintf("%d/test-%d", j, i)
				c, err := m.OpenCheckout(t.Context(), ws, key, true)
				if err != nil {
					t.Error(err)
					return
				}
				if err := os.WriteFile(filepath.Join(c.Path(), "mine"), []byte(key), 0o600); err != nil {
					t.Error(err)
				}
				entries, err := os.ReadDir(c.Path())
				if content, _ := os.ReadFile(filepath.Join(c.Path(), "mine")); string(content) != key || err != nil || len(entries) != 5 {
					t.Errorf("%s sees %q, %v", key, content, entries)
				}
				if err := c.GiveBack(t.Context()); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	require.NotEmpty(t, spareDirs(t, m))
	require.LessOrEqual(t, len(spareDirs(t, m)), 4, "no more than checks at once")
}

func TestCheckoutsAreNotKeptBeyondTheLimitsOrWithoutAnExactRecord(t *testing.T) {
	t.Parallel()
	repo := newRepo(t, checkoutFiles)
	for claim, m := range map[string]*Manager{
		"no spares":          newManager(t, onDisk(t), func(o *Options) { o.MaxSpareDirs = 0 }),
		"a nearly full disk": newManager(t, onDisk(t), func(o *Options) { o.MinFreeForSpares = 1 << 62 }),
	} {
		_, ws := start(t, m, repo)
		require.ErrorIs(t, checkWith(t, m, ws, "1/test", func(string) {}), errNotKept, claim)
		require.Empty(t, spareDirs(t, m), claim)
		require.NoError(t, m.CleanUp(t.Context(), "1"))
	}
	one := newManager(t, onDisk(t), func(o *Options) { o.MaxSpareDirs = 1 })
	_, ws := start(t, one, repo)
	a, b := openCheckout(t, one, ws, "1/a"), openCheckout(t, one, ws, "1/b")
	require.NoError(t, a.GiveBack(t.Context()))
	require.ErrorIs(t, b.GiveBack(t.Context()), errNotKept)
	require.Len(t, spareDirs(t, one), 1)

	// Commands that may go on, or change files unseen, neither leave a spare directory nor use one up.
	untraced, err := one.OpenCheckout(t.Context(), ws, "2/a", false)
	require.NoError(t, err)
	require.Equal(t, snapshotOf(checkoutFiles), snapshot(t, untraced.Path()))
	require.ErrorIs(t, untraced.GiveBack(t.Context()), errNotKept)
	require.Len(t, spareDirs(t, one), 1)

	// Nor does a directory in which files may be left that the tree does not describe.
	m := newManager(t)
	_, ws = start(t, m, repo)
	edit(t, m, ws, "3/a", func(dir string) { write(t, dir, "build/out", "ignored") })
	after := openCheckout(t, m, ws, "3/a")
	require.FileExists(t, filepath.Join(after.Path(), "build/out"))
	require.ErrorIs(t, after.GiveBack(t.Context()), errNotKept)
	require.Empty(t, spareDirs(t, m))
}

// What commands in the sandbox really do, with an environment over the work tree.
func TestACheckoutServesCommandsAboveABaseAgain(t *testing.T) {
	p, err := sandbox.NewProcess(sandbox.Options{})
	if err != nil {
		t.Skipf("this machine cannot isolate: %v", err)
	}
	require.True(t, p.Traceable())
	m := newManager(t, onDisk(t))
	_, ws := start(t, m, newRepo(t, checkoutFiles))
	base, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	write(t, base, "node_modules/one/index.js", "one")
	write(t, base, "dir/deep/generated", "g")
	for i := range 2 {
		c := openCheckout(t, m, ws, fmt.Sprint(i, "/test"))
		started := m.GitProcesses()
		res, err := p.Run(t.Context(), sandbox.Command{Root: c.Path(), WorkspaceBase: base, Shell: strings.Join([]string{
			"set -e", "test -e node_modules/one/index.js", "! test -e left", "test \"$(cat dir/b.txt)\" = b", "mkdir node_modules/.cache",
			"echo x >node_modules/.cache/x", "rm -r dir/deep/generated", "echo x >dir/b.txt", "touch -d yesterday dir/b.txt", "mkfifo left",
			"(sleep 1000 &)", "exec 3<>a.txt", "ln a.txt hard", "rm a.txt",
		}, "\n")})
		require.NoError(t, err)
		if res.BaseCopied {
			t.Skip("this file system has no overlays")
		}
		require.True(t, res.OK(), "%s", res.Stderr)
		require.NoError(t, c.GiveBack(t.Context()))
		require.Equal(t, snapshotOf(checkoutFiles), snapshot(t, filepath.Join(spareDirs(t, m)[0], "work")))
		require.Equal(t, started, m.GitProcesses())
	}
}

// A check must not wait until what its commands left is removed.
func TestADirectoryWithManyAddedFilesIsLeftToTheEndOfItsRun(t *testing.T) {
	t.Parallel()
	m := newManager(t, onDisk(t))
	_, ws := start(t, m, newRepo(t, checkoutFiles))
	require.NoError(t, checkWith(t, m, ws, "1/few", func(dir string) {
		for i := range 100 {
			write(t, dir, fmt.Sprintf("target/%d/file", i), "x")
		}
	}))
	err := checkWith(t, m, ws, "1/many", func(dir string) {
		require.NoError(t, os.MkdirAll(filepath.Join(dir, "target/deep"), 0o755))
		for i := range maxAdded {
			require.NoError(t, os.WriteFile(filepath.Join(dir, "target/deep", fmt.Sprint(i)), nil, 0o600))
		}
	})
	require.ErrorIs(t, err, errNotKept)
	held, err := m.Holds("1/many")
	require.NoError(t, err)
	require.True(t, held)
	require.NoError(t, m.CleanUp(t.Context(), "1"))
	held, err = m.Holds("1")
	require.NoError(t, err)
	require.False(t, held)

	ended, cancel := context.WithCancel(t.Context())
	cancel()
	late := openCheckout(t, m, ws, "2/late")
	require.ErrorIs(t, late.GiveBack(ended), errNotKept, "its activity has no time left")
}
