package sandbox

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/internal/sandbox/sandboxtest"
)

// copyOfEtc returns the directory that commands see as /etc.
func copyOfEtc(t *testing.T, p *prepared) (dir string, others []mount) {
	t.Helper()
	_, _, err := p.systemMounts(Toolchains{})
	require.NoError(t, err)
	require.Equal(t, "/etc", p.etc[0].Target)
	return p.etc[0].Source, p.etc[1:]
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
	})
	require.NoError(t, os.Chmod(filepath.Join(host, "ssl/certs/key.pem"), 0o600))
	require.NoError(t, os.Symlink("a.pem", filepath.Join(host, "ssl/certs/link.pem")))
	p := &prepared{base: filepath.Join(t.TempDir(), "system"), host: host}
	dir, _ := copyOfEtc(t, p)
	require.Equal(t, "first", content(t, filepath.Join(dir, "os-release")))
	require.Equal(t, "a", content(t, filepath.Join(dir, "ssl/certs/link.pem")))
	require.Contains(t, content(t, filepath.Join(dir, "passwd")), "sandbox:x:1000")
	require.NoFileExists(t, filepath.Join(dir, "shadow"), "it is not in the list")
	require.NoFileExists(t, filepath.Join(dir, "ssl/certs/key.pem"), "not everybody may read it")

	sandboxtest.WriteFiles(t, host, map[string]string{"os-release": "second", "ssl/certs/b.pem": "b"})
	same, _ := copyOfEtc(t, p)
	require.Equal(t, dir, same, "it is compared only every %s", etcCheck)
	p.checked = p.checked.Add(-2 * etcCheck)
	next, _ := copyOfEtc(t, p)
	require.Equal(t, "second", content(t, filepath.Join(next, "os-release")))
	require.FileExists(t, filepath.Join(next, "ssl/certs/b.pem"))
	require.Equal(t, "first", content(t, filepath.Join(dir, "os-release")), "commands that run keep what they have")
}

func TestALargeDirectoryIsMountedAndNotCopied(t *testing.T) {
	host := sandboxtest.RealDir(t)
	for i := range etcDirBytes/etcFileBytes + 1 {
		sandboxtest.WriteFiles(t, host, map[string]string{fmt.Sprint("fonts/", i): string(bytes.Repeat([]byte("x"), etcFileBytes))})
	}
	p := &prepared{base: filepath.Join(t.TempDir(), "system"), host: host}
	dir, others := copyOfEtc(t, p)
	require.Equal(t, []mount{{Kind: mountReadOnly, Source: filepath.Join(host, "fonts"), Target: "/etc/fonts"}}, others)
	require.DirExists(t, filepath.Join(dir, "fonts"), "the mount point")
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
		require.Contains(t, shellOutput(t, p, "cat /etc/passwd; ls /opt/*/bin"), "sandbox:x:1000")
	}
	show()
	require.DirExists(t, filepath.Join(data, "cache", "system"))
	require.NoError(t, os.RemoveAll(filepath.Join(data, "cache")))
	show()
}

func TestPreparedDirectoriesAreRemovedWhenNobodyUsesThem(t *testing.T) {
	host := sandboxtest.RealDir(t)
	sandboxtest.WriteFiles(t, host, map[string]string{"os-release": "first"})
	p := &prepared{base: filepath.Join(t.TempDir(), "system"), host: host}
	age := func(dir string, age time.Duration) {
		t.Helper()
		require.NoError(t, os.Chtimes(dir, time.Time{}, time.Now().Add(-age)))
	}
	first, _ := copyOfEtc(t, p)
	age(first, preparedAge+time.Hour)
	p.checked = time.Time{}
	_, _ = copyOfEtc(t, p)
	info, err := os.Stat(first)
	require.NoError(t, err)
	require.WithinDuration(t, time.Now(), info.ModTime(), time.Minute, "it is in use")

	age(first, preparedAge+time.Hour)
	sandboxtest.WriteFiles(t, host, map[string]string{"os-release": "second"})
	p.checked = time.Time{}
	second, _ := copyOfEtc(t, p)
	require.DirExists(t, second)
	require.NoDirExists(t, first)
}
