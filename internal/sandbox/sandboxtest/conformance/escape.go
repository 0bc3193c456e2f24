package conformance

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/internal/sandbox"
	"github.com/rocketgpt/orchestrator/internal/sandbox/sandboxtest"
)

// systemCalls asks the kernel for what build tools never need. The answer is an errno:
// EPERM (1), or ENOSYS (38) if a library may fall back.
const systemCalls = `
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
def call(name, *args):
    number = NUMBERS[name]
    ctypes.set_errno(0)
    libc.syscall.restype = ctypes.c_long
    result = libc.syscall(ctypes.c_long(number), *[ctypes.c_long(a) for a in args])
    print(name, *[hex(a) for a in args], ctypes.get_errno() if result == -1 else "allowed")
NUMBERS = dict(ptrace=101, mount=165, umount2=166, unshare=272, setns=308, clone=56, clone3=435, kexec_load=246,
    bpf=321, keyctl=250, add_key=248, perf_event_open=298, userfaultfd=323, init_module=175, finit_module=313,
    delete_module=176, reboot=169, swapon=167, pivot_root=155, chroot=161, io_uring_setup=425, io_uring_enter=426,
    process_vm_readv=310, process_vm_writev=311, open_by_handle_at=304, fsopen=430, open_tree=428, move_mount=429,
    mount_setattr=442, syslog=103, socket=41, ioctl=16, pidfd_getfd=438, memfd_secret=447, future=900, x32=0x40000000 + 39)
for name in ("mount", "umount2", "unshare", "setns", "kexec_load", "bpf", "keyctl", "add_key", "perf_event_open",
    "userfaultfd", "init_module", "finit_module", "delete_module", "reboot", "swapon", "pivot_root", "chroot",
    "io_uring_setup", "io_uring_enter", "process_vm_readv", "process_vm_writev", "open_by_handle_at", "fsopen",
    "open_tree", "move_mount", "mount_setattr", "syslog", "pidfd_getfd", "memfd_secret", "clone3", "future", "x32"):
    call(name, 0, 0, 0, 0, 0)
call("ptrace", 0, 0, 0, 0)            # PTRACE_TRACEME
call("ptrace", 16, 1, 0, 0)           # PTRACE_ATTACH
call("clone", 0x10000000 | 17, 0, 0)  # CLONE_NEWUSER
call("clone", 0x00020000 | 17, 0, 0)  # CLONE_NEWNS
for family, kind, protocol in ((17, 3, 0), (40, 1, 0), (38, 5, 0), (31, 3, 1), (2, 3, 1), (10, 3, 58), (16, 3, 12),
    (2, 3 | 0x80000, 255), ((1 << 32) | 40, 1, 0), (2, (1 << 32) | 3, 1)):
    call("socket", family, kind, protocol)
call("ioctl", 0, 0x5412, 0)              # TIOCSTI
call("ioctl", 0, (1 << 32) | 0x5412, 0)  # the kernel looks at 32 bits
call("ioctl", 0, 0x541C, 0)              # TIOCLINUX
call("ioctl", 0, 0xC028660F, 0)          # EXT4_IOC_MOVE_EXT
call("ioctl", 0, 0xC0C0586D, 0)          # XFS_IOC_SWAPEXT
call("ioctl", 0, 0x40806685, 0)          # FS_IOC_ENABLE_VERITY
`

func (s *suite) networkIsOutOfReach(t *testing.T) {
	p := s.parallel(t)
	services := sandboxtest.StartHostServices(t)
	host, port, err := net.SplitHostPort(services.TCP)
	require.NoError(t, err)
	_, udpPort, err := net.SplitHostPort(services.UDP)
	require.NoError(t, err)
	python := func(body string) string {
		return "python3 - <<'END'\nimport socket\nsocket.setdefaulttimeout(2)\n" + body + "\nEND"
	}
	for claim, script := range map[string]string{
		"bash cannot reach the host's loopback": "exec 3<>/dev/tcp/" + host + "/" + port,
		"curl cannot reach the host's loopback": "curl -sS --max-time 2 http://" + services.TCP,
		"python cannot reach the loopback":      python("socket.create_connection(('127.0.0.1'," + port + "))"),
		"names do not resolve":                  "timeout 5 getent hosts example.com",
		"the internet is not there":             python("socket.create_connection(('192.0.2.1', 80))"),
		"cloud metadata is not there":           python("socket.create_connection(('169.254.169.254', 80))"),
		"abstract unix sockets are not there":   python("socket.socket(socket.AF_UNIX).connect('\\0" + services.Abstract + "')"),
		"unix sockets outside are not there":    python("socket.socket(socket.AF_UNIX).connect('" + services.Path + "')"),
	} {
		res := run(t, p, sandbox.Command{Shell: script})
		require.NotZero(t, res.ExitCode, claim)
		require.False(t, res.TimedOut, claim)
	}
	run(t, p, sandbox.Command{Shell: python("s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\ns.sendto(b'x', ('127.0.0.1', " + udpPort + "))")})
	require.Zero(t, services.Touched.Load(), "a service of the host was reached")
}

func (s *suite) serversUnderTestHaveALoopbackOfTheirOwn(t *testing.T) {
	p := s.parallel(t)
	out := output(t, p, `python3 - <<'END'
import socket
server = socket.create_server(('127.0.0.1', 5432))
client = socket.create_connection(('127.0.0.1', 5432))
server.accept()[0].sendall(b'hello')
print(client.recv(5).decode())
END`)
	require.Equal(t, "hello\n", out)
}

func (s *suite) hostFilesAreOutOfReach(t *testing.T) {
	cwd, err := os.Getwd()
	require.NoError(t, err)
	p := s.parallel(t)
	outside := t.TempDir()
	key := filepath.Join(outside, ".ssh", "id_rsa")
	require.NoError(t, os.Mkdir(filepath.Dir(key), 0o700))
	require.NoError(t, os.WriteFile(key, []byte(sandboxtest.CanarySecret), 0o600))
	root := t.TempDir()
	require.NoError(t, os.Symlink(outside, filepath.Join(root, "link")))
	before := sandboxtest.HashTree(t, outside)

	for claim, script := range map[string]string{
		"read a key of the host":               "cat " + key,
		"read it through a link":               "cat link/.ssh/id_rsa",
		"read the worker's directory":          "cat " + filepath.Join(cwd, "sandbox.go"),
		"list home directories":                "ls -A /root /home/*/.ssh | grep .",
		"read password hashes":                 "cat /etc/shadow",
		"read the host's users":                "grep -v -e ^root -e ^sandbox -e ^nobody /etc/passwd",
		"read host keys of ssh":                "ls /etc/ssh",
		"read private keys of TLS":             "ls /etc/ssl/private",
		"read tokens of package managers":      "cat /etc/npmrc",
		"see /var and /run of the host":        "ls /var/lib /var/log /run/docker.sock /run/systemd",
		"write /sys":                           "echo 1 >/sys/kernel/mm/ksm/run",
		"write outside":                        "echo x >" + filepath.Join(outside, "new"),
		"write through a link":                 "echo x >link/new",
		"remove through a link":                "rm link/.ssh/id_rsa",
		"write system directories":             "echo x >/usr/bin/new",
		"write the root directory":             "echo x >/new",
		"write /etc":                           "echo x >>/etc/hosts",
		"write kernel settings":                "echo x >/proc/sys/kernel/core_pattern",
		"write devices' directory":             "echo x >/dev/new",
		"replace the helper":                   "cp /bin/true /run/sandbox/helper",
		"hard-link system files to be written": "ln /usr/bin/env env && echo x >>env",
		"make a device node":                   "mknod disk b 8 0",
		"make a character device":              "mknod mem c 1 1",
		"open a disk":                          "ls /dev/sd* /dev/vd* /dev/nvme* /dev/mem /dev/kvm /dev/fuse | grep .",
		"remount writable":                     "mount -o remount,rw /usr",
		"mount a file system":                  "mkdir m && mount -t tmpfs none m",
		"mount over the workspace":             "mount --bind / /workspace",
		"leave by chroot":                      `python3 -c 'import os; os.mkdir("jail"); os.chroot("jail")'`,
		"make a user namespace":                "unshare -U true",
		"make a mount namespace":               "unshare -rm true",
		"enter a namespace":                    "nsenter -t 1 -m true",
	} {
		res := run(t, p, sandbox.Command{Root: root, Shell: script})
		require.NotZero(t, res.ExitCode, "%s\n%s", claim, res.Stdout)
		require.NotContains(t, string(res.Stdout), sandboxtest.CanarySecret, claim)
	}
	require.Equal(t, before, sandboxtest.HashTree(t, outside), "the host has changed")
}

func (s *suite) helperIsOutOfReach(t *testing.T) {
	p := s.parallel(t)
	for claim, script := range map[string]string{
		"write the helper's memory":    "python3 -c 'open(\"/proc/1/mem\", \"r+b\")'",
		"read the helper's memory":     "cat /proc/1/mem",
		"use the helper's descriptors": "readlink /proc/1/fd/3 || head -c1 </proc/1/fd/3",
		"leave through its root":       "ls /proc/1/root/",
		"leave through its directory":  "ls /proc/1/cwd/",
	} {
		require.NotZero(t, run(t, p, sandbox.Command{Shell: script}).ExitCode, claim)
	}
	// From inside, process 1 of a namespace gets only signals that it handles, and
	// those that end it end the command.
	require.Equal(t, "alive\n", output(t, p, "kill -9 1; kill -STOP 1; echo alive"))
}

func (s *suite) hostProcessesAreOutOfReach(t *testing.T) {
	p := s.parallel(t)
	victim := exec.Command("sleep", "60")
	require.NoError(t, victim.Start())
	ended := make(chan struct{})
	go func() {
		_ = victim.Wait()
		close(ended)
	}()
	t.Cleanup(func() { _ = victim.Process.Kill(); <-ended })
	run(t, p, sandbox.Command{Shell: fmt.Sprintf("kill -9 %d %d; kill -9 -1", victim.Process.Pid, os.Getpid())})
	select {
	case <-ended:
		require.Fail(t, "a command killed a process of the host")
	default:
	}
	out := output(t, p, "ls /proc | grep -c '^[0-9]'")
	require.Less(t, len(strings.TrimSpace(out)), 2, "it sees %s processes", out)
}

func (s *suite) dangerousSystemCallsAreDenied(t *testing.T) {
	if runtime.GOARCH != "amd64" {
		t.Skip("the numbers above are those of amd64")
	}
	p := s.parallel(t)
	res := run(t, p, sandbox.Command{Args: []string{"python3", "-c", systemCalls}})
	require.Zero(t, res.ExitCode, "%s", res.Stderr)
	lines := strings.Split(strings.TrimSpace(string(res.Stdout)), "\n")
	require.Len(t, lines, 52)
	for _, line := range lines {
		require.Regexp(t, ` (1|38)$`, line)
	}
}

func (s *suite) ordinaryProgramsSeeNoFilter(t *testing.T) {
	p := s.parallel(t)
	out := output(t, p, `python3 -c '
import os, pty, socket, subprocess, tempfile, threading, multiprocessing
socket.socket(socket.AF_INET6)
socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0)
socket.socketpair()
threading.Thread(target=print, args=("thread",)).start()
os.openpty()
os.rename(tempfile.mkstemp(dir=".")[1], "renamed")
os.makedirs("a/b"); os.rename("renamed", "a/b/renamed"); os.link("a/b/renamed", "hard"); os.mkfifo("fifo")
multiprocessing.get_context("fork").Lock()
open("/dev/shm/x", "w").write("x"); open("/dev/null", "w").write("x"); open("/tmp/x", "w"); open(os.path.expanduser("~/x"), "w")
print(subprocess.run(["sh", "-c", "echo child >/dev/stderr; exit 3"]).returncode)
print(os.getuid() != 0, os.path.expanduser("~sandbox"))'`)
	require.Equal(t, "thread\n3\nTrue /home/sandbox\n", out)
}

func (s *suite) setUIDProgramsGiveNothing(t *testing.T) {
	p := s.parallel(t)
	root := t.TempDir()
	path := filepath.Join(root, "id")
	require.NoError(t, exec.Command("cp", "/usr/bin/id", path).Run()) // by another process, against "text file busy"
	require.NoError(t, os.Chmod(path, 0o4755|os.ModeSetuid))
	res := run(t, p, sandbox.Command{Root: root, Shell: "[ $(./id -u) = $(id -u) ] && grep -E 'Cap(Inh|Prm|Eff|Amb)|NoNewPrivs' /proc/self/status | cut -f2 | sort -u | tr '\\n' ' '"})
	require.Equal(t, "0000000000000000 1 ", string(res.Stdout))
}

func (s *suite) thereIsNoTerminal(t *testing.T) {
	p := s.parallel(t)
	require.NotZero(t, run(t, p, sandbox.Command{Shell: "exec 3<>/dev/tty"}).ExitCode)
	require.NotZero(t, run(t, p, sandbox.Command{Shell: "test -t 0 || test -t 1 || test -t 2"}).ExitCode)
}
