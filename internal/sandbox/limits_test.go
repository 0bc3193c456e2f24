package sandbox

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/rocketgpt/orchestrator/internal/await"
)

// limitCases are commands that use more than they may, each with the limit that ends it.
var limitCases = []struct {
	limit  string
	name   string
	limits Limits
	shell  string
}{
	{LimitMemory, "private memory", Limits{MemoryBytes: 64 << 20},
		`python3 -c 'import time; x = b"x" * (160 << 20); time.sleep(60)'`},
	{LimitMemory, "memory of many processes", Limits{MemoryBytes: 96 << 20},
		`for i in 1 2 3 4; do python3 -c 'import time; x = b"x" * (40 << 20); time.sleep(60)' & done; wait`},
	{LimitMemory, "files in memory", Limits{MemoryBytes: 64 << 20},
		`dd if=/dev/zero of=/tmp/a bs=1M count=100 status=none; dd if=/dev/zero of=/dev/shm/a bs=1M count=100 status=none; sleep 60`},
	{LimitMemory, "shared memory whose pages were given back", Limits{MemoryBytes: 64 << 20}, `python3 -c 'import mmap, time
m, part = mmap.mmap(-1, 512 << 20), 16 << 20
for at in range(0, len(m), part):
    m[at:at + part] = b"x" * part
    m.madvise(mmap.MADV_DONTNEED, at, part)
time.sleep(60)'`},
	{LimitMemory, "memory behind descriptors", Limits{MemoryBytes: 64 << 20}, `python3 -c 'import os, time
held = [os.memfd_create("x") for _ in range(64)]
for fd in held: os.write(fd, b"x" * (8 << 20))
time.sleep(60)'`},
	{LimitMemory, "descriptors that wait to be received", Limits{MemoryBytes: 64 << 20}, `python3 -c 'import array, os, socket, time
a, b = socket.socketpair()
for _ in range(64):
    fd = os.memfd_create("x")
    os.write(fd, b"x" * (8 << 20))
    a.sendmsg([b"x"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [fd]))])
    os.close(fd)
time.sleep(60)'`},
	{LimitMemory, "buffers of sockets", Limits{MemoryBytes: 64 << 20}, `python3 -c 'import socket, time
held = []
for _ in range(1900):
    held.append(socket.socketpair())
    for s in held[-1]:
        s.setblocking(False)
        try:
            while True: s.send(b"x" * 65536)
        except BlockingIOError: pass
time.sleep(60)'`},
	{LimitMemory, "page tables", Limits{MemoryBytes: 64 << 20}, `python3 -c 'import mmap, time
m = mmap.mmap(-1, 100 << 30, flags=0x4022, prot=mmap.PROT_READ)
m.madvise(15)
for at in range(0, len(m), 2 << 20): m[at]
time.sleep(60)'`},
	{LimitMemory, "empty files in memory", Limits{MemoryBytes: 64 << 20}, `python3 -c 'import os, time
for n in range(100_000): os.mknod("/tmp/%d" % n)
time.sleep(60)'`},
	{LimitProcesses, "fork bomb", Limits{Processes: 40}, `bomb() { bomb | bomb & }; bomb; sleep 60`},
	{LimitProcesses, "threads", Limits{Processes: 40},
		`python3 -c 'import threading, time
for i in range(100): threading.Thread(target=time.sleep, args=(60,)).start()'; sleep 60`},
	{LimitCPU, "one hog", Limits{CPUTime: 200 * time.Millisecond}, `while :; do :; done`},
	{LimitCPU, "hogs that end", Limits{CPUTime: 300 * time.Millisecond},
		`while :; do python3 -c 'sum(range(300000))'; done`},
	{LimitFile, "10 GB in one file", Limits{FileBytes: 8 << 20}, `exec dd if=/dev/zero of=big bs=1M count=10240 status=none`},
	{LimitDisk, "many files", Limits{DiskBytes: 16 << 20},
		`for i in $(seq 100); do dd if=/dev/zero of=f$i bs=1M count=4 status=none; done; sleep 60`},
	{LimitDisk, "a file without a name", Limits{DiskBytes: 16 << 20},
		`exec 3>f; rm f; dd if=/dev/zero bs=1M count=64 status=none >&3; sleep 60`},
	{LimitDisk, "mapped files without a name", Limits{DiskBytes: 16 << 20}, `python3 -c 'import mmap, os, time
held = []
for _ in range(3):
    fd = os.open("f", os.O_RDWR | os.O_CREAT)
    os.posix_fallocate(fd, 0, 16 << 20)
    held.append(mmap.mmap(fd, 4096, prot=mmap.PROT_READ))
    os.unlink("f")
    os.close(fd)
time.sleep(60)'`},
	{LimitDisk, "files that wait to be received", Limits{DiskBytes: 16 << 20}, `python3 -c 'import array, os, socket, time
a, b = socket.socketpair()
for _ in range(3):
    fd = os.open("f", os.O_RDWR | os.O_CREAT)
    os.posix_fallocate(fd, 0, 16 << 20)
    a.sendmsg([b"x"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [fd]))])
    os.unlink("f")
    os.close(fd)
time.sleep(60)'`},
	{LimitDisk, "empty files", Limits{DiskBytes: 16 << 20}, `python3 -c 'import os, time
for n in range(10_000): os.mknod("f%d" % n)
time.sleep(60)'`},
	{LimitDisk, "reserved space", Limits{DiskBytes: 16 << 20}, `fallocate -l 64M f; sleep 60`},
	{LimitOutput, "endless output", Limits{OutputBytes: 4 << 10}, `yes`},
}

// TestLimitsEndCommands uses numbers so small that even a limit that did not work would
// not hurt the machine within the timeout.
func TestLimitsEndCommands(t *testing.T) {
	p := isolated(t)
	for _, c := range limitCases {
		t.Run(c.limit+": "+c.name, func(t *testing.T) {
			if c.name == "fork bomb" && feature(t, p, "number of processes").By == "watchdog" {
				t.Skip("not without the kernel's help; see TestWatchdogBoundsProcesses")
			}
			marker := fmt.Sprintf("marker-%d", time.Now().UnixNano())
			c.limits.Timeout = 15 * time.Second
			command := Command{Shell: ": " + marker + "\n" + c.shell, Limits: c.limits}
			if c.name == "mapped files without a name" || c.name == "files that wait to be received" {
				command.Root = ownDisk(t)
			}
			res := runCommand(t, p, command)
			// What no process shows is found by what the host has lost. If others free
			// as much during the command, the host has lost nothing.
			for tries := 1; tries < 6 && c.limit == LimitMemory && res.TimedOut; tries++ {
				res = runCommand(t, p, command)
			}
			require.Equal(t, c.limit, res.LimitExceeded, "%+v\n%s", res, res.Stderr)
			require.False(t, res.OK())
			require.False(t, res.TimedOut)
			require.Empty(t, processesWith(t, marker))
		})
	}
}

// ownDisk is a directory on a file system that nothing else uses: what others free there
// would make up for what a command hides.
func ownDisk(t *testing.T) string {
	t.Helper()
	if os.Geteuid() == 0 {
		dir := t.TempDir()
		mountMemory(t, dir)
		return dir
	}
	dir, err := os.MkdirTemp("/dev/shm", "rgpt-sandbox-") //nolint:usetesting // the disk of t.TempDir is everybody's
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

func mountMemory(t *testing.T, dir string) {
	t.Helper()
	require.NoError(t, unix.Mount("tmpfs", dir, "tmpfs", 0, "size=64m"))
	t.Cleanup(func() { _ = unix.Unmount(dir, unix.MNT_DETACH) })
}

func TestSystemVSharedMemoryIsSmall(t *testing.T) {
	p := isolated(t)
	res := runCommand(t, p, Command{Shell: `python3 -c 'import ctypes, errno
libc = ctypes.CDLL(None, use_errno=True)
libc.shmget.argtypes = [ctypes.c_int, ctypes.c_size_t, ctypes.c_int]
for size in (56, 16 << 10, (16 << 10) + 1, 1 << 30, 1 << 32):
    print(size, libc.shmget(0, size, 0o1600) >= 0 or errno.errorcode[ctypes.get_errno()])'`})
	require.Equal(t, "56 True\n16384 True\n16385 EPERM\n1073741824 EPERM\n4294967296 EPERM\n", string(res.Stdout), "%s", res.Stderr)
}

// TestWatchdogBoundsProcesses is for machines where the kernel does not: root on a file
// system that cannot be mapped. The bomb limits itself.
func TestWatchdogBoundsProcesses(t *testing.T) {
	p := isolated(t)
	unmapped := *p
	unmapped.mapUsers = false
	res := runCommand(t, &unmapped, Command{Limits: Limits{Processes: 40},
		Shell: `for i in $(seq 200); do sleep 60 & done; wait`})
	require.Equal(t, LimitProcesses, res.LimitExceeded)
}

func TestTimeoutEndsASleeper(t *testing.T) {
	p := isolated(t)
	res := runCommand(t, p, Command{Shell: "trap '' TERM; echo begun; sleep 300", Limits: Limits{Timeout: 2 * time.Second}})
	require.True(t, res.TimedOut)
	require.False(t, res.OK())
	require.Equal(t, "killed", res.Signal)
	require.Equal(t, "begun\n", string(res.Stdout))
	require.Less(t, res.Duration, 4*time.Second)
}

func TestScratchSpaceIsBounded(t *testing.T) {
	p := isolated(t)
	for _, dir := range []string{"/tmp", Home, "/dev/shm"} {
		res := runCommand(t, p, Command{
			Shell:  "dd if=/dev/zero of=" + dir + "/big bs=1M count=40 status=none",
			Limits: Limits{DiskBytes: 8 << 20},
		})
		require.NotZero(t, res.ExitCode, dir)
		require.Contains(t, string(res.Stderr), "No space left", dir)
	}
}

func TestWhatIsWrittenToACacheCountsAsDiskSpace(t *testing.T) {
	p := isolated(t)
	dir := realDir(t)
	res := runCommand(t, p, Command{
		Shell:   "dd if=/dev/zero of=$GOCACHE/big bs=1M count=64 status=none; sleep 60",
		GoCache: GoCache{Dir: dir}, Limits: Limits{DiskBytes: 16 << 20},
	})
	require.Equal(t, LimitDisk, res.LimitExceeded, "%+v", res)
}

func TestUsageIsMeasured(t *testing.T) {
	p := isolated(t)
	res := runCommand(t, p, Command{Shell: `python3 -c 'x = b"x" * (50 << 20); sum(range(3000000))'`})
	require.True(t, res.OK(), "%s", res.Stderr)
	require.Greater(t, res.MaxRSS, int64(50<<20))
	require.Less(t, res.MaxRSS, int64(200<<20))
	require.Greater(t, res.CPU, 20*time.Millisecond)
	require.Less(t, res.CPU, 10*time.Second)
}

func TestZeroLimitsAreDefaultsAndNegativeOnesNone(t *testing.T) {
	t.Parallel()
	require.Equal(t, DefaultLimits, Limits{}.withDefaults())
	none := Limits{-1, -1, -1, -1, -1, -1, -1}.withDefaults()
	require.Equal(t, Limits{}, none)
	require.Len(t, none.rlimits(), 2, "core dumps and open files are always limited")
	require.EqualValues(t, scratchBytes, none.scratch())
}

func TestDiskWatchCountsWhatChangedAndNothingElse(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	write := func(name string, size int) {
		require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(root, name)), 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(root, name), make([]byte, size), 0o644))
	}
	write("old/big", 1<<20)
	var since time.Time
	await.Until(t, "the file system's clock to move on", func() bool {
		write("probe", 1)
		old, err := os.Stat(filepath.Join(root, "old", "big"))
		require.NoError(t, err)
		probe, err := os.Stat(filepath.Join(root, "probe"))
		require.NoError(t, err)
		since = probe.ModTime()
		return since.Sub(old.ModTime()) > 2*clockSlack
	})
	d := &diskWatch{roots: []string{root}, limit: 1 << 30, since: since, procs: &processes{path: "/nonexistent"}}
	write("new/deep/file", 64<<10)
	require.NoError(t, os.Link(filepath.Join(root, "new", "deep", "file"), filepath.Join(root, "second-name")))
	require.NoError(t, os.Symlink("/usr", filepath.Join(root, "link")))
	got := d.written()
	require.GreaterOrEqual(t, got, int64(64<<10))
	require.Less(t, got, int64(192<<10), "a second name or an old file was counted")
}
