package conformance

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/internal/sandbox"
	"github.com/rocketgpt/orchestrator/internal/sandbox/sandboxtest"
)

// limitCases are commands that use more than they may, each with the limit that ends it.
var limitCases = []struct {
	limit  string
	name   string
	limits sandbox.Limits
	shell  string
}{
	{sandbox.LimitMemory, "private memory", sandbox.Limits{MemoryBytes: 64 << 20},
		`python3 -c 'import time; x = b"x" * (160 << 20); time.sleep(60)'`},
	{sandbox.LimitMemory, "memory of many processes", sandbox.Limits{MemoryBytes: 96 << 20},
		`for i in 1 2 3 4; do python3 -c 'import time; x = b"x" * (40 << 20); time.sleep(60)' & done; wait`},
	{sandbox.LimitMemory, "files in memory", sandbox.Limits{MemoryBytes: 64 << 20},
		`dd if=/dev/zero of=/tmp/a bs=1M count=100 status=none; dd if=/dev/zero of=/dev/shm/a bs=1M count=100 status=none; sleep 60`},
	{sandbox.LimitMemory, "shared memory whose pages were given back", sandbox.Limits{MemoryBytes: 64 << 20}, `python3 -c 'import mmap, time
m, part = mmap.mmap(-1, 512 << 20), 16 << 20
for at in range(0, len(m), part):
    m[at:at + part] = b"x" * part
    m.madvise(mmap.MADV_DONTNEED, at, part)
time.sleep(60)'`},
	{sandbox.LimitMemory, "memory behind descriptors", sandbox.Limits{MemoryBytes: 64 << 20}, `python3 -c 'import os, time
held = [os.memfd_create("x") for _ in range(64)]
for fd in held: os.write(fd, b"x" * (8 << 20))
time.sleep(60)'`},
	{sandbox.LimitMemory, "descriptors that wait to be received", sandbox.Limits{MemoryBytes: 64 << 20}, `python3 -c 'import array, os, socket, time
a, b = socket.socketpair()
for _ in range(64):
    fd = os.memfd_create("x")
    os.write(fd, b"x" * (8 << 20))
    a.sendmsg([b"x"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [fd]))])
    os.close(fd)
time.sleep(60)'`},
	{sandbox.LimitMemory, "buffers of sockets", sandbox.Limits{MemoryBytes: 64 << 20}, `python3 -c 'import socket, time
held = []
for _ in range(1900):
    held.append(socket.socketpair())
    for s in held[-1]:
        s.setblocking(False)
        try:
            while True: s.send(b"x" * 65536)
        except BlockingIOError: pass
time.sleep(60)'`},
	{sandbox.LimitMemory, "page tables", sandbox.Limits{MemoryBytes: 64 << 20}, `python3 -c 'import mmap, time
m = mmap.mmap(-1, 100 << 30, flags=0x4022, prot=mmap.PROT_READ)
m.madvise(15)
for at in range(0, len(m), 2 << 20): m[at]
time.sleep(60)'`},
	{sandbox.LimitMemory, "empty files in memory", sandbox.Limits{MemoryBytes: 64 << 20}, `python3 -c 'import os, time
for n in range(100_000): os.mknod("/tmp/%d" % n)
time.sleep(60)'`},
	{sandbox.LimitProcesses, "fork bomb", sandbox.Limits{Processes: 40}, `bomb() { bomb | bomb & }; bomb; sleep 60`},
	{sandbox.LimitProcesses, "threads", sandbox.Limits{Processes: 40},
		`python3 -c 'import threading, time
for i in range(100): threading.Thread(target=time.sleep, args=(60,)).start()'; sleep 60`},
	{sandbox.LimitCPU, "one hog", sandbox.Limits{CPUTime: 200 * time.Millisecond}, `while :; do :; done`},
	{sandbox.LimitCPU, "hogs that end", sandbox.Limits{CPUTime: 300 * time.Millisecond},
		`while :; do python3 -c 'sum(range(300000))'; done`},
	{sandbox.LimitFile, "10 GB in one file", sandbox.Limits{FileBytes: 8 << 20}, `exec dd if=/dev/zero of=big bs=1M count=10240 status=none`},
	{sandbox.LimitDisk, "many files", sandbox.Limits{DiskBytes: 16 << 20},
		`for i in $(seq 100); do dd if=/dev/zero of=f$i bs=1M count=4 status=none; done; sleep 60`},
	{sandbox.LimitDisk, "a file without a name", sandbox.Limits{DiskBytes: 16 << 20},
		`exec 3>f; rm f; dd if=/dev/zero bs=1M count=64 status=none >&3; sleep 60`},
	{sandbox.LimitDisk, "mapped files without a name", sandbox.Limits{DiskBytes: 16 << 20}, `python3 -c 'import mmap, os, time
held = []
for _ in range(3):
    fd = os.open("f", os.O_RDWR | os.O_CREAT)
    os.posix_fallocate(fd, 0, 16 << 20)
    held.append(mmap.mmap(fd, 4096, prot=mmap.PROT_READ))
    os.unlink("f")
    os.close(fd)
time.sleep(60)'`},
	{sandbox.LimitDisk, "files that wait to be received", sandbox.Limits{DiskBytes: 16 << 20}, `python3 -c 'import array, os, socket, time
a, b = socket.socketpair()
for _ in range(3):
    fd = os.open("f", os.O_RDWR | os.O_CREAT)
    os.posix_fallocate(fd, 0, 16 << 20)
    a.sendmsg([b"x"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [fd]))])
    os.unlink("f")
    os.close(fd)
time.sleep(60)'`},
	{sandbox.LimitDisk, "empty files", sandbox.Limits{DiskBytes: 16 << 20}, `python3 -c 'import os, time
for n in range(10_000): os.mknod("f%d" % n)
time.sleep(60)'`},
	{sandbox.LimitDisk, "reserved space", sandbox.Limits{DiskBytes: 16 << 20}, `fallocate -l 64M f; sleep 60`},
	{sandbox.LimitOutput, "endless output", sandbox.Limits{OutputBytes: 4 << 10}, `yes`},
}

// TestLimitsEndCommands uses numbers so small that even a limit that did not work would
// not hurt the machine within the timeout.
func (s *suite) limitsEndCommands(t *testing.T) {
	p := s.parallel(t)
	for _, c := range limitCases {
		t.Run(c.limit+": "+c.name, func(t *testing.T) {
			if c.name == "fork bomb" && feature(p, "number of processes").By == "watchdog" {
				t.Skip("not without the kernel's help; see TestWatchdogBoundsProcesses")
			}
			marker := fmt.Sprintf("marker-%d", time.Now().UnixNano())
			c.limits.Timeout = 15 * time.Second
			command := sandbox.Command{Shell: ": " + marker + "\n" + c.shell, Limits: c.limits}
			if c.name == "mapped files without a name" || c.name == "files that wait to be received" {
				command.Root = sandboxtest.OwnDisk(t)
			}
			res := run(t, p, command)
			// What no process shows is found by what the host has lost. If others free
			// as much during the command, the host has lost nothing.
			for tries := 1; tries < 6 && c.limit == sandbox.LimitMemory && res.TimedOut; tries++ {
				res = run(t, p, command)
			}
			require.Equal(t, c.limit, res.LimitExceeded, "%+v\n%s", res, res.Stderr)
			require.False(t, res.OK())
			require.False(t, res.TimedOut)
			require.Empty(t, sandboxtest.ProcessesWith(t, marker))
		})
	}
}

func (s *suite) systemVSharedMemoryIsSmall(t *testing.T) {
	p := s.parallel(t)
	res := run(t, p, sandbox.Command{Shell: `python3 -c 'import ctypes, errno
libc = ctypes.CDLL(None, use_errno=True)
libc.shmget.argtypes = [ctypes.c_int, ctypes.c_size_t, ctypes.c_int]
for size in (56, 16 << 10, (16 << 10) + 1, 1 << 30, 1 << 32):
    print(size, libc.shmget(0, size, 0o1600) >= 0 or errno.errorcode[ctypes.get_errno()])'`})
	require.Equal(t, "56 True\n16384 True\n16385 EPERM\n1073741824 EPERM\n4294967296 EPERM\n", string(res.Stdout), "%s", res.Stderr)
}

func (s *suite) timeoutEndsASleeper(t *testing.T) {
	p := s.parallel(t)
	res := run(t, p, sandbox.Command{Shell: "trap '' TERM; echo begun; sleep 300", Limits: sandbox.Limits{Timeout: 2 * time.Second}})
	require.True(t, res.TimedOut)
	require.False(t, res.OK())
	require.Equal(t, "killed", res.Signal)
	require.Equal(t, "begun\n", string(res.Stdout))
	require.Less(t, res.Duration, 4*time.Second)
}

func (s *suite) scratchSpaceIsBounded(t *testing.T) {
	p := s.parallel(t)
	for _, dir := range []string{"/tmp", sandbox.Home, "/dev/shm"} {
		res := run(t, p, sandbox.Command{
			Shell:  "dd if=/dev/zero of=" + dir + "/big bs=1M count=40 status=none",
			Limits: sandbox.Limits{DiskBytes: 8 << 20},
		})
		require.NotZero(t, res.ExitCode, dir)
		require.Contains(t, string(res.Stderr), "No space left", dir)
	}
}

func (s *suite) usageIsMeasured(t *testing.T) {
	p := s.parallel(t)
	res := run(t, p, sandbox.Command{Shell: `python3 -c 'x = b"x" * (50 << 20); sum(range(3000000))'`})
	require.True(t, res.OK(), "%+v\n%s", res, res.Stderr)
	require.Greater(t, res.MaxRSS, int64(50<<20))
	require.Less(t, res.MaxRSS, int64(200<<20))
	require.Greater(t, res.CPU, 20*time.Millisecond)
	require.Less(t, res.CPU, 10*time.Second)
}
