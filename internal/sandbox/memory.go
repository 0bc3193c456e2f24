package sandbox

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// Descriptors in transit between processes (SCM_RIGHTS), whose file may be open nowhere else, and
// socket buffers use memory or disk space that is not attributed to any process. The kernel reports
// their size only for a control group. So if the host has lost more than a limit without another
// explanation, and the sandbox could have hidden that much for several checks, the sandbox is
// assumed to be the cause.
const (
	// socketBuffer is the maximum size of one socket's buffer with the default system limits: twice
	// net.core.wmem_max, to include the kernel's overhead.
	socketBuffer = 2 * 212992
	// hiddenLooks is the number of consecutive checks that must confirm the suspicion. hiddenEvery
	// is the number of memory checks between two of them, because each inspects every descriptor.
	hiddenLooks = 3
	hiddenEvery = 10
)

// holders counts the places where a sandbox could hide memory or files.
type holders struct {
	sockets  int
	inFlight int // descriptors in sockets that have not been received
	mapped   int // mappings of deleted files, if only root can see their size
}

// holders counts the sockets of processes and the descriptors in transit in them.
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

// deletedMappings counts the mappings of deleted files.
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

// waiting returns the number of descriptors in transit in a socket. Kernels before 5.11 do not
// report it.
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

// hostMemory is the host's available memory and the size of its shared memory.
type hostMemory struct{ available, shared int64 }

func readHostMemory() hostMemory {
	data, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return hostMemory{}
	}
	return hostMemory{available: kilobytes(data, "MemAvailable:"), shared: kilobytes(data, "Shmem:")}
}

// Shared memory is stored in files of a file system internal to the kernel: mappings without a
// file, memfd_create, System V. Its pages do not count towards the resident size of any process
// after they are released (MADV_DONTNEED) or while nothing maps them, but they use memory as long
// as the file has a mapping or a descriptor.

// sharedDevice is the device number of that file system, 0 if it cannot be determined.
var sharedDevice = sync.OnceValue(func() uint64 {
	fd, err := unix.MemfdCreate("probe", unix.MFD_CLOEXEC)
	if err != nil {
		return 0
	}
	defer func() { _ = unix.Close(fd) }()
	var stat unix.Stat_t
	if unix.Fstat(fd, &stat) != nil {
		return 0
	}
	return stat.Dev
})

// sharedFiles returns the memory of the shared files of processes, each counted once. It inspects
// every mapping and descriptor, so it is called only when the host's shared memory has grown. It
// returns 0 if the kernel shows these files only to the host's root and this process is not root.
func (p *processes) sharedFiles(pids []int) int64 {
	device := sharedDevice()
	if device == 0 {
		return 0
	}
	blocks := map[uint64]int64{}
	for _, pid := range pids {
		for _, dir := range []string{"map_files", "fd"} {
			path := fmt.Sprintf("%s/%d/%s", p.path, pid, dir)
			folder, err := os.Open(path)
			if err != nil {
				continue
			}
			names, _ := folder.Readdirnames(-1)
			for _, name := range names {
				var stat unix.Stat_t
				if unix.Fstatat(int(folder.Fd()), name, &stat, 0) == nil && stat.Dev == device {
					blocks[stat.Ino] = stat.Blocks
				}
			}
			_ = folder.Close()
		}
	}
	var total int64
	for _, n := range blocks {
		total += n * blockSize
	}
	return total
}

// blockSize is the unit of Stat_t.Blocks, whatever the file system.
const blockSize = 512
