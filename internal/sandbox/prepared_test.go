package sandbox

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/rocketgpt/orchestrator/internal/sandbox/sandboxtest"
)

// copyOfEtc returns the directory that a command sees as /etc.
func copyOfEtc(t *testing.T, p *prepared, mounts ...Mount) string {
	t.Helper()
	system, _, err := p.systemMounts(Toolchains{}, Command{Mounts: mounts})
	require.NoError(t, err)
	at := slices.IndexFunc(system, func(m mount) bool { return m.Target == "/etc" })
	require.Equal(t, mountPrepared, system[at].Kind)
	return system[at].Source
}

func newPrepared(t *testing.T, host string) *prepared {
	return &prepared{base: filepath.Join(t.TempDir(), "system"), host: host}
}

func content(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	return string(data)
}

func TestCommandsSeeChangesOfTheHostsPublicFiles(t *testing.T) {
	host := sandboxtest.RealDir(t)
	sandboxtest.WriteFiles(t, host, map[string]string{
		"os-release": "first", "shadow": "secret", "ssl/certs/a.pem": "a", "ssl/certs/key.pem": "secret", "passwd": "root:secret",
		"ssl/certs/internal/b.pem": "secret",
	})
	require.NoError(t, os.Chmod(filepath.Join(host, "ssl/certs/internal"), 0o700))
	require.NoError(t, os.Chmod(filepath.Join(host, "ssl/certs/key.pem"), 0o600))
	require.NoError(t, os.Symlink("a.pem", filepath.Join(host, "ssl/certs/link.pem")))
	p := newPrepared(t, host)
	dir := copyOfEtc(t, p)
	require.Equal(t, "first", content(t, filepath.Join(dir, "os-release")))
	require.Equal(t, "a", content(t, filepath.Join(dir, "ssl/certs/link.pem")))
	require.Contains(t, content(t, filepath.Join(dir, "passwd")), "sandbox:x:1000")
	require.NoFileExists(t, filepath.Join(dir, "shadow"), "it is not in the list")
	require.NoFileExists(t, filepath.Join(dir, "ssl/certs/key.pem"), "not everybody may read it")
	require.NoDirExists(t, filepath.Join(dir, "ssl/certs/internal"), "not everybody may enter it")

	sandboxtest.WriteFiles(t, host, map[string]string{"os-release": "second", "ssl/certs/b.pem": "b"})
	same := copyOfEtc(t, p)
	require.Equal(t, dir, same, "it is compared only every %s", etcCheck)
	p.checked = p.checked.Add(-2 * etcCheck)
	next := copyOfEtc(t, p)
	require.Equal(t, "second", content(t, filepath.Join(next, "os-release")))
	require.FileExists(t, filepath.Join(next, "ssl/certs/b.pem"))
	require.Equal(t, "first", content(t, filepath.Join(dir, "os-release")), "commands that run keep what they have")
}

func TestALargeDirectoryIsMountedAndNotCopied(t *testing.T) {
	megabyte := string(bytes.Repeat([]byte("x"), etcFileBytes))
	for name, files := range map[string]map[string]string{
		"many files":   {},
		"a large file": {"fonts/bundle": megabyte + "x"},
	} {
		t.Run(name, func(t *testing.T) {
			host := sandboxtest.RealDir(t)
			for i := 0; name == "many files" && i <= etcDirBytes/etcFileBytes; i++ {
				files[fmt.Sprint("fonts/", i)] = megabyte
			}
			sandboxtest.WriteFiles(t, host, files)
			p := newPrepared(t, host)
			require.DirExists(t, filepath.Join(copyOfEtc(t, p), "fonts"), "the mount point")
			require.Equal(t, []mount{{Kind: mountReadOnly, Source: filepath.Join(host, "fonts"), Target: "/etc/fonts"}}, p.large)
		})
	}
}

func TestPreparedDirectoriesAreForAllUsersWhateverTheUmask(t *testing.T) {
	before := unix.Umask(0o077)
	defer unix.Umask(before)
	host := sandboxtest.RealDir(t)
	require.NoError(t, os.Chmod(host, 0o755))
	sandboxtest.WriteFiles(t, host, map[string]string{"fonts/conf.d/a": "a"})
	require.NoError(t, exec.Command("chmod", "-R", "a+rX", host).Run())
	dir := copyOfEtc(t, newPrepared(t, host))
	for path, want := range map[string]os.FileMode{"": 0o755, "fonts": 0o755, "fonts/conf.d": 0o755, "fonts/conf.d/a": 0o444} {
		info, err := os.Stat(filepath.Join(dir, path))
		require.NoError(t, err)
		require.Equal(t, want, info.Mode().Perm(), path)
	}
}

func TestCommandsCanHaveMountsInEtc(t *testing.T) {
	p := isolated(t)
	host := sandboxtest.RealDir(t)
	sandboxtest.WriteFiles(t, host, map[string]string{"file": "a file", "dir/b": "a directory", "release": "a release"})
	res := runCommand(t, p, Command{Shell: "cat /etc/pip.conf /etc/new/dir/b /etc/os-release; ls /etc/new", Mounts: []Mount{
		{Host: filepath.Join(host, "file"), Inside: "/etc/pip.conf"},
		{Host: filepath.Join(host, "dir"), Inside: "/etc/new/dir"},
		{Host: filepath.Join(host, "release"), Inside: "/etc/os-release"},
	}})
	require.Equal(t, "a filea directorya releasedir\n", string(res.Stdout), "%s", res.Stderr)
}

func TestARelativeDataFolderWorks(t *testing.T) {
	t.Chdir(sandboxtest.RealDir(t))
	require.NoError(t, os.Mkdir("data", 0o755))
	p, err := NewProcess(Options{DataDir: "data"})
	require.NoError(t, err)
	require.Equal(t, "sandbox\n", shellOutput(t, p, "id -un"))
	require.DirExists(t, "data/cache/system")
	require.True(t, feature(t, p, "overlay").Available)
	above, err := os.Getwd()
	require.NoError(t, err)
	_, err = p.Run(t.Context(), Command{Root: t.TempDir(), Shell: "true", Mounts: []Mount{{Host: above, Inside: "/srv/above"}}})
	require.ErrorContains(t, err, "it contains the data folder")
}

func TestAPreparedDirectoryThatIsIncompleteIsMadeAgain(t *testing.T) {
	host := sandboxtest.RealDir(t)
	sandboxtest.WriteFiles(t, host, map[string]string{"os-release": "first"})
	p := newPrepared(t, host)
	dir := copyOfEtc(t, p)
	require.NoError(t, os.Chmod(filepath.Join(dir, "os-release"), 0o600))
	require.NoError(t, os.Truncate(filepath.Join(dir, "os-release"), 0)) // as after a loss of power
	require.Equal(t, dir, copyOfEtc(t, &prepared{base: p.base, host: host}))
	require.Equal(t, "first", content(t, filepath.Join(dir, "os-release")))
}

func TestMountPointsAreNotMadeThroughLinks(t *testing.T) {
	host, outside := sandboxtest.RealDir(t), sandboxtest.RealDir(t)
	require.NoError(t, os.MkdirAll(filepath.Join(host, "alternatives"), 0o755))
	require.NoError(t, os.Symlink(outside, filepath.Join(host, "alternatives", "java")))
	_, _, err := newPrepared(t, host).systemMounts(Toolchains{}, Command{Mounts: []Mount{{Host: host, Inside: "/etc/alternatives/java/conf"}}})
	require.ErrorContains(t, err, "prepare a directory for commands")
	require.NoDirExists(t, filepath.Join(outside, "conf"))
}

func TestPreparedDirectoriesAreOnlyInDirectoriesOfThisUser(t *testing.T) {
	own := t.TempDir()
	require.NoError(t, ownDirectory(own))
	link := filepath.Join(own, "link")
	require.NoError(t, os.Symlink(own, link))
	require.Error(t, ownDirectory(link))
	if os.Geteuid() != 0 {
		t.Skip("only root can make directories of other users")
	}
	data := sandboxtest.Mkdir(t, own, "data")
	require.NoError(t, os.Chown(data, 65534, 65534))
	require.Error(t, ownDirectory(data))
	require.NotContains(t, strings.Join((&prepared{dataDir: data}).candidates(), " "), data)
	require.NoError(t, os.Chown(data, 0, 0))
	require.Equal(t, filepath.Join(data, "cache", "system"), (&prepared{dataDir: data}).candidates()[0])
}

func TestPreparedDirectoriesThatWereDeletedAreMadeAgain(t *testing.T) {
	data := sandboxtest.RealDir(t)
	p, err := NewProcess(Options{DataDir: data, Toolchains: detectOnce()})
	require.NoError(t, err)
	if !p.Isolated() {
		t.Skip("this machine has no namespaces")
	}
	show := func() {
		t.Helper()
		require.Contains(t, shellOutput(t, p, "cat /etc/passwd"), "sandbox:x:1000")
	}
	show()
	require.DirExists(t, filepath.Join(data, "cache", "system"))
	require.NoError(t, os.RemoveAll(filepath.Join(data, "cache")))
	show()
}

func TestPreparedDirectoriesAreRemovedWhenNobodyUsesThem(t *testing.T) {
	host := sandboxtest.RealDir(t)
	sandboxtest.WriteFiles(t, host, map[string]string{"os-release": "first"})
	p := newPrepared(t, host)
	first := copyOfEtc(t, p)
	age := func() {
		t.Helper()
		require.NoError(t, os.Chtimes(first, time.Time{}, time.Now().Add(-PreparedAge-time.Hour)))
	}
	age()
	p.checked = time.Time{}
	require.Equal(t, first, copyOfEtc(t, p))
	info, err := os.Stat(first)
	require.NoError(t, err)
	require.WithinDuration(t, time.Now(), info.ModTime(), time.Minute, "it is in use")

	age()
	sandboxtest.WriteFiles(t, host, map[string]string{"os-release": "second"})
	other := &prepared{base: p.base, host: host}
	require.DirExists(t, copyOfEtc(t, other))
	require.NoDirExists(t, first)
}
