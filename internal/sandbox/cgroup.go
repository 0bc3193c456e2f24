package sandbox

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// cgroupMount is where systemd and container runtimes mount cgroup v2.
const cgroupMount = "/sys/fs/cgroup"

// cgroup contains the processes of one run. The kernel enforces the memory and process limits at
// all times, for every kind of memory.
type cgroup struct {
	path string
	dir  *os.File
}

// findCgroup returns the directory in which to make cgroups: the configured one, or the
// worker's own if its children already have the controllers. It changes nothing:
// delegation is the administrator's decision.
func findCgroup(configured string) (string, error) {
	dir := configured
	if dir == "" {
		data, err := os.ReadFile("/proc/self/cgroup")
		if err != nil {
			return "", err
		}
		own, found := ownCgroup(data)
		if !found {
			return "", fmt.Errorf("this process is not in a v2 cgroup")
		}
		dir = filepath.Join(cgroupMount, own)
	}
	return dir, checkCgroup(dir)
}

// ownCgroup returns the path in the cgroup v2 line, "0::/path".
func ownCgroup(data []byte) (string, bool) {
	for line := range strings.Lines(string(data)) {
		if path, ok := strings.CutPrefix(line, "0::"); ok {
			return strings.TrimSpace(path), true
		}
	}
	return "", false
}

func checkCgroup(dir string) error {
	controllers, err := os.ReadFile(filepath.Join(dir, "cgroup.subtree_control"))
	if err != nil {
		return fmt.Errorf("no cgroup v2 at %s", dir)
	}
	for _, need := range []string{"memory", "pids"} {
		if !bytes.Contains(controllers, []byte(need)) {
			return fmt.Errorf("the %s controller is not enabled for children of %s", need, dir)
		}
	}
	return unix.Access(dir, unix.W_OK)
}

func newCgroup(parent string, limits Limits) (*cgroup, error) {
	path, err := os.MkdirTemp(parent, "run-")
	if err != nil {
		return nil, fmt.Errorf("sandbox: create the cgroup: %w", err)
	}
	g := &cgroup{path: path}
	for file, value := range cgroupLimits(limits) {
		if err := os.WriteFile(filepath.Join(path, file), []byte(value), 0o644); err != nil {
			g.close()
			return nil, fmt.Errorf("sandbox: create the cgroup: %w", err)
		}
	}
	if g.dir, err = os.Open(path); err != nil {
		g.close()
		return nil, fmt.Errorf("sandbox: create the cgroup: %w", err)
	}
	return g, nil
}

func cgroupLimits(limits Limits) map[string]string {
	files := map[string]string{}
	if limits.MemoryBytes > 0 {
		files["memory.max"] = strconv.FormatInt(limits.MemoryBytes+helperMemory, 10)
		files["memory.oom.group"] = "1"
	}
	if limits.Processes > 0 {
		files["pids.max"] = strconv.Itoa(limits.Processes + helperThreads)
	}
	return files
}

// helperMemory is memory for the helper and bwrap, which are also in the cgroup.
const helperMemory = 64 << 20

// attach makes the child start inside the cgroup, with no time outside it.
func (g *cgroup) attach(attr *syscall.SysProcAttr) {
	attr.UseCgroupFD = true
	attr.CgroupFD = int(g.dir.Fd())
}

func (g *cgroup) kill() {
	_ = os.WriteFile(filepath.Join(g.path, "cgroup.kill"), []byte("1"), 0o644)
}

// exceeded returns the limit that the kernel enforced by killing a process.
func (g *cgroup) exceeded() string {
	events, err := os.ReadFile(filepath.Join(g.path, "memory.events"))
	if err == nil && eventCount(events, "oom_kill") > 0 {
		return LimitMemory
	}
	return ""
}

// eventCount reads a line like "oom_kill 3".
func eventCount(data []byte, name string) int {
	for line := range strings.Lines(string(data)) {
		if value, ok := strings.CutPrefix(line, name+" "); ok {
			n, _ := strconv.Atoi(strings.TrimSpace(value))
			return n
		}
	}
	return 0
}

// close removes the cgroup. The kernel needs a moment after the last process was reaped.
func (g *cgroup) close() {
	if g.dir != nil {
		_ = g.dir.Close()
	}
	for deadline := time.Now().Add(time.Second); ; time.Sleep(time.Millisecond) { //nolint:forbidigo // the kernel does not announce when the last process has left
		if err := unix.Rmdir(g.path); err == nil || os.IsNotExist(err) || time.Now().After(deadline) {
			return
		}
	}
}
