package sandboxtest

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// Layers is a command with its own bases and directories.
type Layers struct {
	Base, HomeBase, Root, Home, Tmp string
}

// NewLayers creates layers with content.
func NewLayers(t *testing.T) Layers {
	t.Helper()
	dir := RealDir(t)
	l := Layers{Mkdir(t, dir, "base"), Mkdir(t, dir, "homebase"), Mkdir(t, dir, "work"), Mkdir(t, dir, "home"), Mkdir(t, dir, "tmp")}
	WriteFiles(t, l.Base, map[string]string{
		"node_modules/one/index.js": "one", "node_modules/two/index.js": "two", "packages/a/node_modules/three/x": "three",
	})
	require.NoError(t, os.Chmod(filepath.Join(l.Base, "node_modules", "two", "index.js"), 0o444))
	require.NoError(t, os.Symlink("one", filepath.Join(l.Base, "node_modules", "link")))
	WriteFiles(t, l.HomeBase, map[string]string{".local/bin/tool": "#!/bin/sh\necho tool\n"})
	require.NoError(t, os.Chmod(filepath.Join(l.HomeBase, ".local", "bin", "tool"), 0o755))
	WriteFiles(t, l.Root, map[string]string{"own.txt": "own", "packages/a/main.js": "main"})
	return l
}

// RequireNothingLeft fails the test if directories of the overlay or mounts are left.
func RequireNothingLeft(t *testing.T, l Layers) {
	t.Helper()
	entries, err := os.ReadDir(filepath.Dir(l.Root))
	require.NoError(t, err)
	var names []string
	for _, entry := range entries {
		names = append(names, entry.Name())
	}
	require.Equal(t, []string{"base", "home", "homebase", "tmp", "work"}, names)
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	require.NoError(t, err)
	require.NotContains(t, string(mounts), filepath.Dir(l.Root))
}

// HostileToBases are attempts to change a base. Each must leave it as it is, whether it fails
// or succeeds in the command's own layer.
var HostileToBases = map[string]string{
	"write":                 "echo x >node_modules/one/index.js; echo x >>node_modules/two/index.js",
	"chmod":                 "chmod 777 node_modules node_modules/two/index.js ~/.local/bin",
	"remove":                "rm -rf node_modules ~/.local packages",
	"rename":                "mv node_modules/one node_modules/three; mv node_modules elsewhere; mv ~/.local/bin/tool ~/tool && echo x >~/tool",
	"replace a directory":   "rm -rf node_modules && Mkdir node_modules && echo x >node_modules/one",
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
