package sandbox

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

func TestCommandsOfRootRunAsNobody(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can become someone else")
	}
	p := isolated(t)
	if !p.mapUsers {
		t.Skip("this file system cannot be mapped")
	}
	root := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(root, "private"), []byte("x"), 0o600))
	readOnly := filepath.Join(t.TempDir(), "secret.txt")
	require.NoError(t, os.WriteFile(readOnly, []byte("shown"), 0o600))
	res := runCommand(t, p, Command{Root: root, Mounts: []Mount{{Host: readOnly, Inside: "/srv/secret"}},
		Shell: "cat /proc/self/uid_map; id -u; echo >>private; echo new >new; stat -c %U . private new ~; cat /srv/secret"})
	require.True(t, res.OK(), "%s", res.Stderr)
	require.Equal(t, "0 0 1 1000 65534 1 1000 sandbox sandbox sandbox sandbox shown", strings.Join(strings.Fields(string(res.Stdout)), " "))

	var stat unix.Stat_t
	require.NoError(t, unix.Stat(filepath.Join(root, "new"), &stat))
	require.Zero(t, stat.Uid, "on the host, files belong to the owner of the workspace")
	require.Equal(t, "rlimit", feature(t, p, "number of processes").By)
}

func TestSandboxesLeaveTheMountsOfTheHostAlone(t *testing.T) {
	p := isolated(t)
	if !p.mapUsers {
		t.Skip("only root hides mounts from bubblewrap")
	}
	system := func() []string {
		data, err := os.ReadFile("/proc/self/mountinfo")
		require.NoError(t, err)
		return slices.DeleteFunc(strings.Split(string(data), "\n"), func(line string) bool {
			return !strings.Contains(line, " /sys")
		})
	}
	before := system()
	require.NotEmpty(t, before)
	type mounts struct {
		list []byte
		err  error
	}
	there := make(chan mounts, 1)
	go func() {
		runtime.LockOSThread() // for good: the thread ends with its namespace
		err := separateMounts()
		list, read := os.ReadFile("/proc/thread-self/mountinfo")
		there <- mounts{list, errors.Join(err, read)}
	}()
	seen := <-there
	require.NoError(t, seen.err)
	require.NotContains(t, string(seen.list), " /sys", "bubblewrap would read them again for each mount that it makes")
	for _, base := range []string{"", t.TempDir()} {
		res := runCommand(t, p, Command{WorkspaceBase: base, Shell: "! grep ' /sys' /proc/self/mountinfo"})
		require.True(t, res.OK(), "%s", res.Stdout)
	}
	require.Equal(t, before, system())
}

func TestASandboxWhoseUsersCannotBeMappedFailsWithTheReason(t *testing.T) {
	p := isolated(t)
	if !p.mapUsers {
		t.Skip("only root maps users")
	}
	root := t.TempDir()
	c, err := p.complete(Command{Root: root, Shell: "echo ran >ran"})
	require.NoError(t, err)
	s, err := newSession(c, p.executable, initialConfig(c, p.seccomp, p.landlock))
	require.NoError(t, err)
	defer s.close()
	s.writeMappings = func(int) error { return errors.New("the mappings were refused") }
	s.system, s.toolchains, err = p.prepared.systemMounts(p.options.Toolchains, c)
	require.NoError(t, err)
	r, err := p.start(t.Context(), s, time.Now())
	require.NoError(t, err)
	_, err = r.complete(t.Context())
	require.ErrorContains(t, err, "could not isolate the command: the mappings were refused")
	require.NoFileExists(t, filepath.Join(root, "ran"))
}

func TestKernelItselfBoundsProcesses(t *testing.T) {
	p := isolated(t)
	if feature(t, p, "number of processes").By == "watchdog" {
		t.Skip("the watchdog does it here")
	}
	// Faster than any watchdog, and still refused: the limit and the helper's share
	// is all there can be.
	res := runCommand(t, p, Command{Limits: Limits{Processes: 30}, Args: []string{"python3", "-c", fmt.Sprintf(`
import os, signal
made = 0
try:
    while made < %d:
        if os.fork() == 0:
            signal.pause()
        made += 1
except BlockingIOError:
    os.write(1, b"%%d" %% made)
`, 30+2*helperThreads)}})
	require.Less(t, len(strings.TrimSpace(string(res.Stdout))), 3, "%s", res.Stdout)
	require.True(t, len(res.Stdout) > 0 || res.LimitExceeded == LimitProcesses, "%+v", res)
}
