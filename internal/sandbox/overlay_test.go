package sandbox

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/internal/sandbox/sandboxtest"
)

func layeredCommand(l sandboxtest.Layers, shell string) Command {
	return Command{Root: l.Root, WorkspaceBase: l.Base, Home: l.Home, HomeBase: l.HomeBase, Tmp: l.Tmp, Shell: shell}
}

// onlyOverlays fails a test that a copy would pass.
func onlyOverlays(t *testing.T, p *Process) {
	t.Helper()
	if f := feature(t, p, "overlay"); !f.Available {
		t.Skip(f.Detail)
	}
}

// TestAWorkDirectoryOfAKilledWorkerIsNoHindrance: it contains what only its owner, or
// root, may open.
func TestAWorkDirectoryOfAKilledWorkerIsNoHindrance(t *testing.T) {
	p := isolated(t)
	onlyOverlays(t, p)
	l := sandboxtest.NewLayers(t)
	left := filepath.Join(workDirectory(l.Root), "work", "incompat", "volatile")
	require.NoError(t, os.MkdirAll(left, 0o755))
	require.NoError(t, os.Chmod(filepath.Dir(filepath.Dir(left)), 0))
	res := runCommand(t, p, layeredCommand(l, "cat node_modules/one/index.js"))
	require.Equal(t, "one", string(res.Stdout), "%s", res.Stderr)
	sandboxtest.RequireNothingLeft(t, l)
}

func TestPathsOfLayersMayHoldAnyCharacter(t *testing.T) {
	p := isolated(t)
	onlyOverlays(t, p)
	l := sandboxtest.NewLayers(t)
	odd := sandboxtest.Mkdir(t, filepath.Dir(l.Root), `a,b:c\d"e'f=g h`)
	l.Root, l.Base = sandboxtest.Mkdir(t, odd, `w,x:y\z`), sandboxtest.Mkdir(t, odd, `b,a:s\e`)
	sandboxtest.WriteFiles(t, l.Base, map[string]string{"node_modules/one": "one"})
	res := runCommand(t, p, layeredCommand(l, "cat node_modules/one; cat /proc/self/mountinfo | grep 'overlay overlay'"))
	require.True(t, strings.HasPrefix(string(res.Stdout), "one"), "%s", res.Stderr)
	require.NotContains(t, string(res.Stdout), "a,b", "a path of the host is told")
}

// TestUnprivilegedWorkersHaveOverlaysToo runs the tests of this file as nobody.
func TestUnprivilegedWorkersHaveOverlaysToo(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("these tests run without privileges already")
	}
	if testing.Short() {
		t.Skip("it repeats tests")
	}
	t.Parallel()
	dir, err := os.MkdirTemp("/var/tmp", "rgpt-sandbox-nobody-") //nolint:usetesting // t.TempDir lies below a directory that is root's alone
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	program := filepath.Join(dir, "sandbox.test")
	// Another process copies: a command that a parallel test starts while this process has the
	// program open for writing would keep it from being executed ("text file busy").
	require.NoError(t, exec.Command("cp", fmt.Sprintf("/proc/%d/exe", os.Getpid()), program).Run())
	require.NoError(t, os.Chown(dir, nobody, nobody))
	cmd := exec.CommandContext(t.Context(), program, "-test.v", "-test.run",
		"^Test(ProcessesOfThisHostConform|AWorkDirectory.*|PathsOfLayers.*|RefusedOverlays.*)$/^(BasesShow|NoCommandChanges|CommandsShare|DirectoriesOfTheCaller|LongCommandsLeave)")
	cmd.Dir = dir
	cmd.Env = []string{"PATH=/usr/local/bin:/usr/bin:/bin", "HOME=" + dir, "TMPDIR=" + dir}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.Contains(t, string(out), "--- PASS: TestProcessesOfThisHostConform/NoCommandChangesABase")
	require.Contains(t, string(out), "--- PASS: TestProcessesOfThisHostConform/BasesShowBelowWorkspaceAndHome")
	require.NotContains(t, string(out), "--- SKIP")
}

// refusing is a directory where overlays cannot be made: one that is itself a mount has
// no neighbour on its mount.
func refusing(t *testing.T, l sandboxtest.Layers) sandboxtest.Layers {
	t.Helper()
	sandboxtest.MountMemory(t, l.Root)
	return l
}

func TestRefusedOverlaysBecomePrivateCopies(t *testing.T) {
	if os.Geteuid() != 0 {
		return
	}
	p := isolated(t)
	l := refusing(t, sandboxtest.NewLayers(t))
	sandboxtest.WriteFiles(t, l.Root, map[string]string{"node_modules/one/index.js": "mine"})
	before := sandboxtest.HashTree(t, l.Base)
	c := layeredCommand(l, "cat node_modules/one/index.js node_modules/two/index.js; chmod u+w node_modules/two/index.js; echo changed >node_modules/two/index.js; ~/.local/bin/tool")
	c.Limits.DiskBytes = 4096
	res := runCommand(t, p, c)
	require.True(t, res.BaseCopied)
	require.Equal(t, "minetwotool\n", string(res.Stdout), "%s", res.Stderr)
	require.Equal(t, before, sandboxtest.HashTree(t, l.Base), "a private copy, not a link")

	res = runCommand(t, p, layeredCommand(l, "cat node_modules/two/index.js; rm -r node_modules"))
	require.Equal(t, "changed\n", string(res.Stdout), "it is copied once")
	res = runCommand(t, p, layeredCommand(l, "cat node_modules/two/index.js"))
	require.Equal(t, "two", string(res.Stdout), "an emptied directory is filled again")

	// An interrupted copy is not taken for a complete one.
	require.NoError(t, os.RemoveAll(filepath.Join(l.Root, "node_modules")))
	require.NoError(t, os.MkdirAll(filepath.Join(l.Root, unfinished, "one"), 0o700))
	res = runCommand(t, p, layeredCommand(l, "cat node_modules/two/index.js; ls -A"))
	require.Contains(t, string(res.Stdout), "two")
	require.NotContains(t, string(res.Stdout), unfinished)

	sandboxtest.WriteFiles(t, l.Base, map[string]string{"big": strings.Repeat("x", 1<<20)})
	c = layeredCommand(l, "true")
	c.Root, c.Limits.DiskBytes = refusing(t, sandboxtest.NewLayers(t)).Root, 1<<19
	res = runCommand(t, p, c)
	require.Equal(t, LimitDisk, res.LimitExceeded)
}

func TestCommandsWithoutNamespacesHaveNoBases(t *testing.T) {
	p := unisolated(t)
	l := sandboxtest.NewLayers(t)
	_, err := p.Run(t.Context(), layeredCommand(l, "true"))
	var missing *IsolationError
	require.ErrorAs(t, err, &missing)
	require.ErrorContains(t, err, "overlay")
	require.False(t, feature(t, p, "overlay").Available)

	c := layeredCommand(l, "echo x >~/x; echo y >/tmp/y; echo $TMPDIR; cat $SHOWN/file")
	shown := sandboxtest.Mkdir(t, l.Base, "shown")
	sandboxtest.WriteFiles(t, shown, map[string]string{"file": "seen"})
	c.WorkspaceBase, c.HomeBase = "", ""
	c.Mounts, c.Env = []Mount{{Host: shown, Inside: "/srv/shown"}}, map[string]string{"SHOWN": "/srv/shown"}
	res := runCommand(t, p, c)
	require.Equal(t, "/tmp\nseen", string(res.Stdout), "the host's path is not shown: %s", res.Stderr)
	require.FileExists(t, filepath.Join(l.Tmp, "y"), "the command's own /tmp")
	require.FileExists(t, filepath.Join(l.Home, "x"))
}
