package sandbox

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// hostServices are services beside a worker: TCP and UDP on the loopback (databases,
// Temporal), an abstract unix socket (X11, D-Bus) and one with a path (docker.sock).
type hostServices struct {
	tcp, udp, abstract, path string
	touched                  atomic.Int64
}

func startHostServices(t *testing.T) *hostServices {
	t.Helper()
	h := &hostServices{
		abstract: fmt.Sprintf("rgpt-sandbox-test-%d-%s", os.Getpid(), strings.ReplaceAll(t.Name(), "/", "-")),
		path:     filepath.Join(t.TempDir(), "service.sock"),
	}
	tcp := h.listen(t, "tcp", "127.0.0.1:0")
	h.tcp = tcp.Addr().String()
	h.listen(t, "unix", "@"+h.abstract)
	h.listen(t, "unix", h.path)
	udp, err := net.ListenPacket("udp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = udp.Close() })
	h.udp = udp.LocalAddr().String()
	go func() {
		if _, _, err := udp.ReadFrom(make([]byte, 64)); err == nil {
			h.touched.Add(1)
		}
	}()
	return h
}

func (h *hostServices) listen(t *testing.T, network, address string) net.Listener {
	t.Helper()
	l, err := net.Listen(network, address)
	require.NoError(t, err)
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			h.touched.Add(1)
			_ = conn.Close()
		}
	}()
	return l
}

func TestNetworkIsOutOfReach(t *testing.T) {
	p := isolated(t)
	services := startHostServices(t)
	host, port, err := net.SplitHostPort(services.tcp)
	require.NoError(t, err)
	_, udpPort, err := net.SplitHostPort(services.udp)
	require.NoError(t, err)
	python := func(body string) string {
		return "python3 - <<'END'\nimport socket\nsocket.setdefaulttimeout(2)\n" + body + "\nEND"
	}
	for claim, script := range map[string]string{
		"bash cannot reach the host's loopback": "exec 3<>/dev/tcp/" + host + "/" + port,
		"curl cannot reach the host's loopback": "curl -sS --max-time 2 http://" + services.tcp,
		"python cannot reach the loopback":      python("socket.create_connection(('127.0.0.1'," + port + "))"),
		"names do not resolve":                  "timeout 5 getent hosts example.com",
		"the internet is not there":             python("socket.create_connection(('192.0.2.1', 80))"),
		"cloud metadata is not there":           python("socket.create_connection(('169.254.169.254', 80))"),
		"abstract unix sockets are not there":   python("socket.socket(socket.AF_UNIX).connect('\\0" + services.abstract + "')"),
		"unix sockets outside are not there":    python("socket.socket(socket.AF_UNIX).connect('" + services.path + "')"),
	} {
		res := runCommand(t, p, Command{Shell: script})
		require.NotZero(t, res.ExitCode, claim)
		require.False(t, res.TimedOut, claim)
	}
	runCommand(t, p, Command{Shell: python("s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\ns.sendto(b'x', ('127.0.0.1', " + udpPort + "))")})
	require.Zero(t, services.touched.Load(), "a service of the host was reached")
}

func TestServersUnderTestHaveALoopbackOfTheirOwn(t *testing.T) {
	p := isolated(t)
	out := shellOutput(t, p, `python3 - <<'END'
import socket
server = socket.create_server(('127.0.0.1', 5432))
client = socket.create_connection(('127.0.0.1', 5432))
server.accept()[0].sendall(b'hello')
print(client.recv(5).decode())
END`)
	require.Equal(t, "hello\n", out)
}

func TestHostFilesAreOutOfReach(t *testing.T) {
	cwd, err := os.Getwd()
	require.NoError(t, err)
	p := isolated(t)
	outside := t.TempDir()
	key := filepath.Join(outside, ".ssh", "id_rsa")
	require.NoError(t, os.Mkdir(filepath.Dir(key), 0o700))
	require.NoError(t, os.WriteFile(key, []byte(canarySecret), 0o600))
	root := t.TempDir()
	require.NoError(t, os.Symlink(outside, filepath.Join(root, "link")))
	before := hashTree(t, outside)

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
		"see /sys":                             "ls /sys/kernel",
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
		res := runCommand(t, p, Command{Root: root, Shell: script})
		require.NotZero(t, res.ExitCode, "%s\n%s", claim, res.Stdout)
		require.NotContains(t, string(res.Stdout), canarySecret, claim)
	}
	require.Equal(t, before, hashTree(t, outside), "the host has changed")
}

func TestSecretsOfTheWorkerAreOutOfReach(t *testing.T) {
	p := isolated(t)
	out := shellOutput(t, p, `env; cat /proc/*/environ /proc/*/cmdline 2>/dev/null; strings -a /proc/1/mem 2>/dev/null | head -c 1000; true`)
	require.NotContains(t, out, canarySecret)
	env := shellOutput(t, p, "env | cut -d= -f1 | sort | tr '\\n' ' '")
	require.Equal(t, "CI HOME LANG PATH PWD SHLVL TERM TMPDIR USER _ npm_config_offline ", env)
}

func TestNoDescriptorIsInherited(t *testing.T) {
	// One that is not closed on exec, as a careless library might leave it.
	r, w, err := os.Pipe()
	require.NoError(t, err)
	t.Cleanup(func() { _, _ = r.Close(), w.Close() })
	leak, err := syscall.Dup(int(r.Fd()))
	require.NoError(t, err)
	t.Cleanup(func() { _ = syscall.Close(leak) })
	p := isolated(t)
	out := shellOutput(t, p, `python3 -c '
import os
print(*[fd for fd in range(256) if os.path.exists(f"/proc/self/fd/{fd}")])'`)
	require.Equal(t, "0 1 2\n", out)
}

func TestHelperIsOutOfReach(t *testing.T) {
	p := isolated(t)
	for claim, script := range map[string]string{
		"write the helper's memory":    "python3 -c 'open(\"/proc/1/mem\", \"r+b\")'",
		"read the helper's memory":     "cat /proc/1/mem",
		"use the helper's descriptors": "readlink /proc/1/fd/3 || head -c1 </proc/1/fd/3",
		"leave through its root":       "ls /proc/1/root/",
		"leave through its directory":  "ls /proc/1/cwd/",
	} {
		require.NotZero(t, runCommand(t, p, Command{Shell: script}).ExitCode, claim)
	}
	// From inside, process 1 of a namespace gets only signals that it handles, and
	// those that end it end the command.
	require.Equal(t, "alive\n", shellOutput(t, p, "kill -9 1; kill -STOP 1; echo alive"))
}

func TestHostProcessesAreOutOfReach(t *testing.T) {
	p := isolated(t)
	victim := exec.Command("sleep", "60")
	require.NoError(t, victim.Start())
	ended := make(chan struct{})
	go func() {
		_ = victim.Wait()
		close(ended)
	}()
	t.Cleanup(func() { _ = victim.Process.Kill(); <-ended })
	runCommand(t, p, Command{Shell: fmt.Sprintf("kill -9 %d %d; kill -9 -1", victim.Process.Pid, os.Getpid())})
	select {
	case <-ended:
		require.Fail(t, "a command killed a process of the host")
	default:
	}
	out := shellOutput(t, p, "ls /proc | grep -c '^[0-9]'")
	require.Less(t, len(strings.TrimSpace(out)), 2, "it sees %s processes", out)
}

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
`

func TestDangerousSystemCallsAreDenied(t *testing.T) {
	if runtime.GOARCH != "amd64" {
		t.Skip("the numbers above are those of amd64")
	}
	p := isolated(t)
	res := runCommand(t, p, Command{Args: []string{"python3", "-c", systemCalls}})
	require.Zero(t, res.ExitCode, "%s", res.Stderr)
	lines := strings.Split(strings.TrimSpace(string(res.Stdout)), "\n")
	require.Len(t, lines, 49)
	for _, line := range lines {
		require.Regexp(t, ` (1|38)$`, line)
	}
}

func TestOrdinaryProgramsSeeNoFilter(t *testing.T) {
	p := isolated(t)
	out := shellOutput(t, p, `python3 -c '
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
print(os.getuid(), os.path.expanduser("~sandbox"))'`)
	require.Equal(t, "thread\n3\n1000 /home/sandbox\n", out)
}

// foreignABI makes a system call as 32-bit programs do, which filters for one
// architecture miss.
const foreignABI = `
#include <stdio.h>
int main(void) {
	long result;
	__asm__ volatile("int $0x80" : "=a"(result) : "a"(20) : "memory"); /* getpid */
	printf("%ld\n", result);
	return 0;
}`

func TestCallsOfAnotherArchitectureAreDenied(t *testing.T) {
	if _, err := exec.LookPath("gcc"); err != nil {
		t.Skip("no C compiler")
	}
	p := isolated(t)
	res := runCommand(t, p, Command{Shell: "cat >abi.c && gcc -o abi abi.c && ./abi", Stdin: []byte(foreignABI)})
	if res.ExitCode == 128+int(syscall.SIGSEGV) {
		return // this kernel has no 32-bit calls at all
	}
	require.Equal(t, "-38\n", string(res.Stdout), "%s", res.Stderr)
}

func TestSetUIDProgramsGiveNothing(t *testing.T) {
	p := isolated(t)
	root := t.TempDir()
	path := filepath.Join(root, "id")
	require.NoError(t, exec.Command("cp", "/usr/bin/id", path).Run()) // by another process, against "text file busy"
	require.NoError(t, os.Chmod(path, 0o4755|os.ModeSetuid))
	res := runCommand(t, p, Command{Root: root, Shell: "./id -u; grep -E 'Cap(Inh|Prm|Eff|Amb)|NoNewPrivs' /proc/self/status | cut -f2 | sort -u | tr '\\n' ' '"})
	require.Equal(t, "1000\n0000000000000000 1 ", string(res.Stdout))
}

func TestThereIsNoTerminal(t *testing.T) {
	p := isolated(t)
	require.NotZero(t, runCommand(t, p, Command{Shell: "exec 3<>/dev/tty"}).ExitCode)
	require.NotZero(t, runCommand(t, p, Command{Shell: "test -t 0 || test -t 1 || test -t 2"}).ExitCode)
}
