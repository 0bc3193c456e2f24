package docker

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/rocketgpt/orchestrator/internal/sandbox"
)

// memoryEvents is the file in which the kernel counts the processes of a container that it killed
// because of the memory limit. It is open, because the cgroup is removed with the container.
type memoryEvents struct{ file *os.File }

// memoryEventsOf finds the file of a process's cgroup, version 2 or 1. Without it, nothing is known.
func memoryEventsOf(pid int) memoryEvents {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", pid))
	if err != nil {
		return memoryEvents{}
	}
	for line := range strings.Lines(string(data)) {
		id, rest, _ := strings.Cut(strings.TrimSpace(line), ":")
		controllers, path, _ := strings.Cut(rest, ":")
		var name string
		switch {
		case id == "0" && controllers == "":
			name = filepath.Join("/sys/fs/cgroup", path, "memory.events")
		case controllers == "memory":
			name = filepath.Join("/sys/fs/cgroup/memory", path, "memory.oom_control")
		default:
			continue
		}
		if f, err := os.Open(name); err == nil {
			return memoryEvents{f}
		}
	}
	return memoryEvents{}
}

// exceeded returns the memory limit if the kernel has killed a process because of it. known is false
// if the cgroup is gone.
func (m memoryEvents) exceeded() (limit string, known bool) {
	if m.file == nil {
		return "", false
	}
	data := make([]byte, 4<<10)
	n, err := m.file.ReadAt(data, 0)
	if n == 0 && err != nil {
		return "", false
	}
	_, rest, found := bytes.Cut(data[:n], []byte("oom_kill "))
	if !found {
		return "", false
	}
	line, _, _ := bytes.Cut(rest, []byte("\n"))
	if kills, err := strconv.Atoi(strings.TrimSpace(string(line))); err == nil && kills > 0 {
		return sandbox.LimitMemory, true
	}
	return "", true
}

func (m memoryEvents) close() {
	if m.file != nil {
		_ = m.file.Close()
	}
}
