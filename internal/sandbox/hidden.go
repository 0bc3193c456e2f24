package sandbox

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Two things use memory or disk space that no process shows: descriptors in flight
// between processes (SCM_RIGHTS), whose file may be open nowhere else, and socket
// buffers. The kernel does not say how much they are, except to a control
// group. So where the host has lost more than a limit that nothing else of a sandbox
// explains, and the sandbox has what could hold so much, for a while, it is taken to be
// the one that does.
const (
	// socketBuffer is the most that one socket holds where nobody raised the system's
	// limits: twice net.core.wmem_max, which counts the kernel's own overhead.
	socketBuffer = 2 * 212992
	// hiddenLooks is how often in a row the suspicion must be found again, and
	// hiddenEvery how many looks at the memory lie between two of them: it costs a look at
	// each descriptor.
	hiddenLooks = 3
	hiddenEvery = 10
)

// holders are what a sandbox could hide memory or files in.
type holders struct {
	sockets  int
	inFlight int // descriptors that wait in sockets to be received
	mapped   int // mappings of deleted files, where only root can see how large those are
}

// holders counts the sockets of processes, and what waits in them.
func (p *processes) holders(pids []int) holders {
	var h holders
	seen := map[string]bool{}
	for _, pid := range pids {
		if os.Geteuid() != 0 {
			h.mapped += p.deletedMappings(pid)
		}
		dir, err := os.Open(fmt.Sprintf("%s/%d/fd", p.path, pid))
		if err != nil {
			continue
		}
		names, _ := dir.Readdirnames(-1)
		link := make([]byte, 64)
		for _, name := range names {
			n, err := unix.Readlinkat(int(dir.Fd()), name, link)
			if err != nil || !strings.HasPrefix(string(link[:n]), "socket:[") || seen[string(link[:n])] {
				continue
			}
			seen[string(link[:n])] = true
			h.sockets++
			h.inFlight += p.waiting(pid, name)
		}
		_ = dir.Close()
	}
	return h
}

// deletedMappings counts the mappings of files that have no name any more.
func (p *processes) deletedMappings(pid int) (n int) {
	data, err := os.ReadFile(fmt.Sprintf("%s/%d/maps", p.path, pid))
	if err != nil {
		return 0
	}
	for line := range bytes.SplitSeq(data, []byte("\n")) {
		inMemory := bytes.Contains(line, []byte(" /memfd:")) || bytes.Contains(line, []byte(" /dev/zero")) || bytes.Contains(line, []byte(" /SYSV"))
		if bytes.HasSuffix(line, []byte(" (deleted)")) && !inMemory {
			n++
		}
	}
	return n
}

// waiting is how many descriptors wait in a socket to be received. Kernels before 5.11
// do not say.
func (p *processes) waiting(pid int, fd string) int {
	data, err := os.ReadFile(fmt.Sprintf("%s/%d/fdinfo/%s", p.path, pid, fd))
	if err != nil {
		return 0
	}
	_, rest, found := bytes.Cut(data, []byte("scm_fds:"))
	if !found {
		return 0
	}
	line, _, _ := bytes.Cut(rest, []byte("\n"))
	n, _ := strconv.Atoi(strings.TrimSpace(string(line)))
	return n
}

// hostMemory is what the host has left, and what its shared memory takes up.
type hostMemory struct{ available, shared int64 }

func readHostMemory() hostMemory {
	data, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return hostMemory{}
	}
	return hostMemory{available: kilobytes(data, "MemAvailable:"), shared: kilobytes(data, "Shmem:")}
}
