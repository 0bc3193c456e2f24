package sandbox

import (
	"fmt"
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

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
