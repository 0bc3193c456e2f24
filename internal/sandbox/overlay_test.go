package sandbox

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// layered is a command with its own bases and directories.
type layered struct {
	base, homeBase, root, home, tmp string
}

func newLayers(t *testing.T) layered {
	t.Helper()
	dir := realDir(t)
	l := layered{mkdir(t, dir, "base"), mkdir(t, dir, "homebase"), mkdir(t, dir, "work"), mkdir(t, dir, "home"), mkdir(t, dir, "tmp")}
	writeFiles(t, l.base, map[string]string{
		"node_modules/one/index.js": "one", "node_modules/two/index.js": "two", "packages/a/node_modules/three/x": "three",
	})
	require.NoError(t, os.Chmod(filepath.Join(l.base, "node_modules", "two", "index.js"), 0o444))
	require.NoError(t, os.Symlink("one", filepath.Join(l.base, "node_modules", "link")))
	writeFiles(t, l.homeBase, map[string]string{".local/bin/tool": "#!/bin/sh\necho tool\n"})
	require.NoError(t, os.Chmod(filepath.Join(l.homeBase, ".local", "bin", "tool"), 0o755))
	writeFiles(t, l.root, map[string]string{"own.txt": "own", "packages/a/main.js": "main"})
	return l
}

func (l layered) command(shell string) Command {
	return Command{Root: l.root, WorkspaceBase: l.base, Home: l.home, HomeBase: l.homeBase, Tmp: l.tmp, Shell: shell}
}

// onlyOverlays fails a test that a copy would pass.
func onlyOverlays(t *testing.T, p *Process) {
	t.Helper()
	if f := feature(t, p, "overlay"); !f.Available {
		t.Skip(f.Detail)
	}
}

func TestBasesShowBelowWorkspaceAndHome(t *testing.T) {
	p := isolated(t)
	onlyOverlays(t, p)
	l := newLayers(t)
	res := runCommand(t, p, l.command(`cat node_modules/one/index.js node_modules/link/index.js packages/a/node_modules/three/x packages/a/main.js own.txt
~/.local/bin/tool && stat -c '%U %n' node_modules/one/index.js ~/.local/bin/tool node_modules . ~ /tmp
echo new >node_modules/one/index.js && echo new >node_modules/new && rm -r packages/a/node_modules && echo kept >~/kept && echo kept >/tmp/kept`))
	require.True(t, res.OK(), "%s\n%s", res.Stdout, res.Stderr)
	require.False(t, res.BaseCopied)
	require.Equal(t, "oneonethreemainowntool\nsandbox node_modules/one/index.js\nsandbox /home/sandbox/.local/bin/tool\nsandbox node_modules\nsandbox .\nsandbox /home/sandbox\nsandbox /tmp\n", string(res.Stdout))
	for path, content := range map[string]string{
		l.base + "/node_modules/one/index.js": "one", l.root + "/node_modules/one/index.js": "new\n", l.root + "/node_modules/new": "new\n",
		l.base + "/packages/a/node_modules/three/x": "three", l.home + "/kept": "kept\n", l.tmp + "/kept": "kept\n",
	} {
		data, err := os.ReadFile(path)
		require.NoError(t, err)
		require.Equal(t, content, string(data), path)
	}
	require.NoFileExists(t, l.root+"/node_modules/two/index.js", "what is only read stays below")
	var stat unix.Stat_t
	require.NoError(t, unix.Stat(l.root+"/node_modules/new", &stat))
	require.EqualValues(t, os.Geteuid(), stat.Uid, "on the host, files belong to the owner of the workspace")

	res = runCommand(t, p, l.command("cat node_modules/one/index.js; ls packages/a/node_modules; cat ~/kept /tmp/kept"))
	require.Equal(t, "new\nkept\nkept\n", string(res.Stdout), "%s", res.Stderr)
	requireNothingLeft(t, l)
}

// requireNothingLeft: neither directories of the overlay nor mounts.
func requireNothingLeft(t *testing.T, l layered) {
	t.Helper()
	entries, err := os.ReadDir(filepath.Dir(l.root))
	require.NoError(t, err)
	var names []string
	for _, entry := range entries {
		names = append(names, entry.Name())
	}
	require.Equal(t, []string{"base", "home", "homebase", "tmp", "work"}, names)
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	require.NoError(t, err)
	require.NotContains(t, string(mounts), filepath.Dir(l.root))
}

// hostile are attempts to change a base. Each must leave it as it is, whether it fails
// or succeeds in the command's own layer.
var hostile = map[string]string{
	"write":                 "echo x >node_modules/one/index.js; echo x >>node_modules/two/index.js",
	"chmod":                 "chmod 777 node_modules node_modules/two/index.js ~/.local/bin",
	"remove":                "rm -rf node_modules ~/.local packages",
	"rename":                "mv node_modules/one node_modules/three; mv node_modules elsewhere; mv ~/.local/bin/tool ~/tool && echo x >~/tool",
	"replace a directory":   "rm -rf node_modules && mkdir node_modules && echo x >node_modules/one",
	"hard link":             "ln node_modules/one/index.js mine && echo x >mine; ln ~/.local/bin/tool ~/mine && echo x >~/mine",
	"link to another place": "ln -s /workspace/node_modules /tmp/l; echo x >/tmp/l/one/index.js",
	"touch":                 "touch -d 2001-01-01 node_modules/one/index.js node_modules; touch -h -d 2001-01-01 node_modules/link",
	"map": `python3 -c '
import mmap
with open("node_modules/one/index.js", "r+b") as f:
    m = mmap.mmap(f.fileno(), 0); m[0:1] = b"X"; m.flush()'`,
	"read-only map": `python3 -c '
import mmap, ctypes
f = open("node_modules/two/index.js", "rb")
m = mmap.mmap(f.fileno(), 0, prot=mmap.PROT_READ, flags=mmap.MAP_SHARED)
libc = ctypes.CDLL(None); libc.mmap.restype = ctypes.c_void_p
a = libc.mmap(None, 4096, 1, 1, f.fileno(), 0)
assert libc.mprotect(ctypes.c_void_p(a), 4096, 3) != 0'`,
	"file without a name": `python3 -c '
import os
fd = os.open("node_modules/one", os.O_TMPFILE | os.O_RDWR)
os.write(fd, b"x")
os.link(f"/proc/self/fd/{fd}", "node_modules/one/linked", src_dir_fd=None, follow_symlinks=True)'`,
	"link by descriptor": `python3 -c '
import os
fd = os.open("node_modules/one/index.js", os.O_RDONLY)
os.link(f"/proc/self/fd/{fd}", "mine", follow_symlinks=True)
open("mine", "w").write("x")'`,
	"reopen a descriptor": `exec 3<node_modules/one/index.js; echo x >/proc/self/fd/3; exec 4<node_modules/two; echo x >/proc/self/fd/4/index.js`,
	"attributes": `python3 -c '
import os
for name, value in (("user.overlay.opaque", b"y"), ("user.overlay.redirect", b"/etc"), ("user.overlay.metacopy", b""), ("user.x", b"y"), ("trusted.overlay.opaque", b"y")):
    for path in ("node_modules", "node_modules/one/index.js", "."):
        try: os.setxattr(path, name, value)
        except OSError as e: pass'`,
	"paths of mounts": `for f in $(tr ' ,=:' '\n\n\n\n' </proc/self/mountinfo | grep / | sort -u); do
case $f in /dev*|/proc*) ;; *) echo x >$f/node_modules/one/index.js; echo x >$f/one/index.js; echo x >$f/new; esac; done`,
	"other roots": "for f in /proc/*/root /proc/*/cwd; do echo x >$f/../base/node_modules/one/index.js; echo x >$f/../.rgpt-overlay-work/x; done",
	"device":      "mknod node_modules/one/null c 0 0; mknod node_modules/disk b 8 0; mkfifo node_modules/fifo",
	"own mounts":  "unshare -rm sh -c 'mount --bind /workspace /mnt; umount /workspace; echo x >/workspace/x'; umount /workspace; mount -o remount,rw /workspace",
	"fallocate":   `python3 -c 'import os; os.truncate("node_modules/one/index.js", 0); fd = os.open("node_modules/two/index.js", os.O_RDONLY); os.posix_fallocate(fd, 0, 100)'`,
}

func TestNoCommandChangesABase(t *testing.T) {
	p := isolated(t)
	onlyOverlays(t, p)
	l := newLayers(t)
	before, homeBefore := hashTree(t, l.base), hashTree(t, l.homeBase)
	for claim, script := range hostile {
		l.root, l.home = mkdir(t, realDir(t), "work"), mkdir(t, realDir(t), "home")
		res := runCommand(t, p, l.command("ls node_modules/one/index.js ~/.local/bin/tool && { "+script+"\n} 2>/tmp/err; true"))
		require.Equal(t, "/home/sandbox/.local/bin/tool\nnode_modules/one/index.js\n", string(res.Stdout), "%s: %s", claim, res.Stderr)
		require.Equal(t, before, hashTree(t, l.base), claim)
		require.Equal(t, homeBefore, hashTree(t, l.homeBase), claim)
		require.NoFileExists(t, filepath.Join(l.base, "new"), claim)
	}
}

func TestCommandsShareABaseAtTheSameTime(t *testing.T) {
	p := isolated(t)
	onlyOverlays(t, p)
	l := newLayers(t)
	before := hashTree(t, l.base)
	results := make(chan string, 4)
	for n := range cap(results) {
		c := l.command(fmt.Sprintf("echo %d >node_modules/one/index.js; sync . ; cat node_modules/one/index.js node_modules/two/index.js", n))
		c.Root, c.Home, c.HomeBase, c.Tmp = realDir(t), "", "", ""
		go func() {
			res, err := p.Run(t.Context(), c)
			results <- fmt.Sprintf("%s%v%v", res.Stdout, err, res.BaseCopied)
		}()
	}
	var got []string
	for range cap(results) {
		got = append(got, <-results)
	}
	slices.Sort(got)
	require.Equal(t, []string{"0\ntwo<nil>false", "1\ntwo<nil>false", "2\ntwo<nil>false", "3\ntwo<nil>false"}, got)
	require.Equal(t, before, hashTree(t, l.base))
}

func TestDirectoriesOfTheCallerCountForTheDiskLimit(t *testing.T) {
	p := isolated(t)
	onlyOverlays(t, p)
	for claim, place := range map[string]string{"home": "~", "tmp": "/tmp", "workspace above a base": "node_modules"} {
		l := newLayers(t)
		c := l.command("head -c 60M /dev/zero >" + place + "/big; sleep 60")
		c.Limits.DiskBytes = 20 << 20
		res := runCommand(t, p, c)
		require.Equal(t, LimitDisk, res.LimitExceeded, claim)
		requireNothingLeft(t, l)
	}
}

func TestLongCommandsLeaveNeitherProcessNorMount(t *testing.T) {
	p := isolated(t)
	onlyOverlays(t, p)
	l := newLayers(t)
	marker := "marker-overlay-" + strings.ReplaceAll(t.Name(), "/", "-")
	c := l.command(": " + marker + "; (setsid bash -c 'cd node_modules; exec 3<one/index.js; sleep 300; : " + marker + "' &); sleep 300")
	c.Limits.Timeout = 500 * time.Millisecond
	res := runCommand(t, p, c)
	require.True(t, res.TimedOut)
	require.Empty(t, processesWith(t, marker))
	requireNothingLeft(t, l)
}

// TestAWorkDirectoryOfAKilledWorkerIsNoHindrance: it contains what only its owner, or
// root, may open.
func TestAWorkDirectoryOfAKilledWorkerIsNoHindrance(t *testing.T) {
	p := isolated(t)
	onlyOverlays(t, p)
	l := newLayers(t)
	left := filepath.Join(workDirectory(l.root), "work", "incompat", "volatile")
	require.NoError(t, os.MkdirAll(left, 0o755))
	require.NoError(t, os.Chmod(filepath.Dir(filepath.Dir(left)), 0))
	res := runCommand(t, p, l.command("cat node_modules/one/index.js"))
	require.Equal(t, "one", string(res.Stdout), "%s", res.Stderr)
	requireNothingLeft(t, l)
}

func TestPathsOfLayersMayHoldAnyCharacter(t *testing.T) {
	p := isolated(t)
	onlyOverlays(t, p)
	l := newLayers(t)
	odd := mkdir(t, filepath.Dir(l.root), `a,b:c\d"e'f=g h`)
	l.root, l.base = mkdir(t, odd, `w,x:y\z`), mkdir(t, odd, `b,a:s\e`)
	writeFiles(t, l.base, map[string]string{"node_modules/one": "one"})
	res := runCommand(t, p, l.command("cat node_modules/one; cat /proc/self/mountinfo | grep 'overlay overlay'"))
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
		"^Test(BasesShow|NoCommandChanges|CommandsShare|DirectoriesOfTheCaller|LongCommandsLeave|AWorkDirectory|PathsOfLayers|RefusedOverlays)")
	cmd.Dir = dir
	cmd.Env = []string{"PATH=/usr/local/bin:/usr/bin:/bin", "HOME=" + dir, "TMPDIR=" + dir}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.Contains(t, string(out), "--- PASS: TestNoCommandChangesABase")
	require.Contains(t, string(out), "--- PASS: TestBasesShowBelowWorkspaceAndHome")
	require.NotContains(t, string(out), "--- SKIP")
}

// refusing is a directory where overlays cannot be made: one that is itself a mount has
// no neighbour on its mount.
func refusing(t *testing.T, l layered) layered {
	t.Helper()
	mountMemory(t, l.root)
	return l
}

func TestRefusedOverlaysBecomePrivateCopies(t *testing.T) {
	if os.Geteuid() != 0 {
		return
	}
	p := isolated(t)
	l := refusing(t, newLayers(t))
	writeFiles(t, l.root, map[string]string{"node_modules/one/index.js": "mine"})
	before := hashTree(t, l.base)
	c := l.command("cat node_modules/one/index.js node_modules/two/index.js; chmod u+w node_modules/two/index.js; echo changed >node_modules/two/index.js; ~/.local/bin/tool")
	c.Limits.DiskBytes = 4096
	res := runCommand(t, p, c)
	require.True(t, res.BaseCopied)
	require.Equal(t, "minetwotool\n", string(res.Stdout), "%s", res.Stderr)
	require.Equal(t, before, hashTree(t, l.base), "a private copy, not a link")

	res = runCommand(t, p, l.command("cat node_modules/two/index.js; rm -r node_modules"))
	require.Equal(t, "changed\n", string(res.Stdout), "it is copied once")
	res = runCommand(t, p, l.command("cat node_modules/two/index.js"))
	require.Equal(t, "two", string(res.Stdout), "an emptied directory is filled again")

	// An interrupted copy is not taken for a complete one.
	require.NoError(t, os.RemoveAll(filepath.Join(l.root, "node_modules")))
	require.NoError(t, os.MkdirAll(filepath.Join(l.root, unfinished, "one"), 0o700))
	res = runCommand(t, p, l.command("cat node_modules/two/index.js; ls -A"))
	require.Contains(t, string(res.Stdout), "two")
	require.NotContains(t, string(res.Stdout), unfinished)

	writeFiles(t, l.base, map[string]string{"big": strings.Repeat("x", 1<<20)})
	c = l.command("true")
	c.Root, c.Limits.DiskBytes = refusing(t, newLayers(t)).root, 1<<19
	res = runCommand(t, p, c)
	require.Equal(t, LimitDisk, res.LimitExceeded)
}

func TestCommandsWithoutNamespacesHaveNoBases(t *testing.T) {
	p := unisolated(t)
	l := newLayers(t)
	_, err := p.Run(t.Context(), l.command("true"))
	var missing *IsolationError
	require.ErrorAs(t, err, &missing)
	require.ErrorContains(t, err, "overlay")
	require.False(t, feature(t, p, "overlay").Available)

	c := l.command("echo x >~/x; echo y >/tmp/never; echo $TMPDIR; cat $SHOWN/file")
	shown := mkdir(t, l.base, "shown")
	writeFiles(t, shown, map[string]string{"file": "seen"})
	c.WorkspaceBase, c.HomeBase = "", ""
	c.Mounts, c.Env = []Mount{{Host: shown, Inside: "/srv/shown"}}, map[string]string{"SHOWN": "/srv/shown"}
	res := runCommand(t, p, c)
	require.Equal(t, l.tmp+"\nseen", string(res.Stdout), "%s", res.Stderr)
	require.FileExists(t, filepath.Join(l.home, "x"))
}
