package sandbox

import (
	"fmt"
	"os"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

const (
	diskTick = 100 * time.Millisecond
	// diskWalkEvery limits how long files can grow unnoticed while other files free as much space.
	diskWalkEvery = 2 * time.Second
	// diskWalkShare limits walking to this fraction (1/n) of the time.
	diskWalkShare = 20
	// diskDepth limits the depth of the walk, which keeps one descriptor open for each level. A
	// deeper tree has no legitimate purpose and could hide files.
	diskDepth = 128
	// clockSlack is the maximum lag of the file system's clock, one timer tick.
	clockSlack = 20 * time.Millisecond
)

// diskWatch measures the disk space that a command uses in its workspace and its other writable
// directories. It recognizes created and changed files by their change time, which no program can
// set back, so nothing needs to be measured before the command starts.
type diskWatch struct {
	roots    []string // the workspace first
	limit    int64
	procs    *processes
	since    time.Time
	first    int64 // free space before the command
	exceeded atomic.Bool
	hidden   int // consecutive checks that found unexplained missing space
	stop     chan struct{}
	stopped  chan struct{}
}

func startDiskWatch(s *session, limit int64, procs *processes) *diskWatch {
	d := &diskWatch{
		roots: s.writes(), limit: limit, procs: procs, since: s.since.Add(-clockSlack), first: s.free,
		stop: make(chan struct{}), stopped: make(chan struct{}),
	}
	go d.loop()
	return d
}

func (d *diskWatch) close() {
	close(d.stop)
	<-d.stopped
}

// loop walks when free space has shrunk since the last walk or diskWalkEvery has passed.
func (d *diskWatch) loop() {
	defer close(d.stopped)
	ticker := time.NewTicker(diskTick)
	defer ticker.Stop()
	free := d.first
	next := time.Now().Add(diskWalkEvery)
	for {
		select {
		case <-d.stop:
			return
		case <-ticker.C:
		}
		now, left := time.Now(), freeSpace(d.roots[0])
		if now.Before(next) && free-left < d.limit/4 {
			continue
		}
		written := d.written()
		if written > d.limit || d.hides(d.first-left-written) {
			d.exceeded.Store(true)
			return
		}
		free = left
		cost := time.Since(now)
		next = now.Add(max(diskWalkEvery, diskWalkShare*cost))
		// Even if free space keeps shrinking, the next walk waits after a long one.
		ticker.Reset(max(diskTick, diskWalkShare*cost))
	}
}

// hides reports whether more space is missing than measured files explain, and the sandbox may be
// hiding it: in descriptors in transit between processes, or in mappings that cannot be measured.
func (d *diskWatch) hides(gone int64) bool {
	if gone <= d.limit {
		d.hidden = 0
		return false
	}
	if h := d.procs.holders(d.procs.pids()); h.inFlight == 0 && h.mapped == 0 {
		d.hidden = 0
		return false
	}
	d.hidden++
	return d.hidden >= hiddenLooks
}

func freeSpace(dir string) int64 {
	var stat unix.Statfs_t
	if unix.Statfs(dir, &stat) != nil {
		return 0
	}
	return int64(stat.Bfree) * stat.Bsize
}

// written adds up the blocks of changed files and of deleted files that are still open or mapped.
func (d *diskWatch) written() int64 {
	walk := diskWalk{since: d.since, limit: d.limit, seen: map[inode]bool{}}
	for _, root := range d.roots {
		if fd, err := unix.Open(root, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0); err == nil {
			walk.dir(os.NewFile(uintptr(fd), root), 0)
		}
	}
	for _, pid := range d.procs.pids() {
		walk.deleted(fmt.Sprintf("%s/%d/fd", d.procs.path, pid))
		walk.deleted(fmt.Sprintf("%s/%d/map_files", d.procs.path, pid))
	}
	return walk.total
}

// pids lists the processes through a separate handle: d.procs.dir belongs to the watchdog.
func (p *processes) pids() []int {
	dir, err := os.Open(p.path + "/.")
	if err != nil {
		return nil
	}
	defer func() { _ = dir.Close() }()
	other := processes{dir: dir, path: p.path, tree: p.tree}
	return other.list()
}

type inode struct{ dev, ino uint64 }

type diskWalk struct {
	since time.Time
	limit int64
	total int64
	seen  map[inode]bool // files with several names or descriptors
}

// dir walks without following links: the command may change the tree during the walk.
func (w *diskWalk) dir(dir *os.File, depth int) {
	defer func() { _ = dir.Close() }()
	if depth > diskDepth {
		w.total += w.limit + 1
		return
	}
	for w.total <= w.limit {
		names, err := dir.Readdirnames(1024)
		for _, name := range names {
			w.entry(dir, name, depth)
		}
		if err != nil {
			return
		}
	}
}

func (w *diskWalk) entry(dir *os.File, name string, depth int) {
	var stat unix.Stat_t
	if unix.Fstatat(int(dir.Fd()), name, &stat, unix.AT_SYMLINK_NOFOLLOW) != nil {
		return
	}
	w.add(stat)
	if stat.Mode&unix.S_IFMT != unix.S_IFDIR {
		return
	}
	fd, err := unix.Openat(int(dir.Fd()), name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err == nil {
		w.dir(os.NewFile(uintptr(fd), name), depth+1)
	}
}

func (w *diskWalk) add(stat unix.Stat_t) {
	if time.Unix(stat.Ctim.Unix()).Before(w.since) {
		return
	}
	if stat.Nlink != 1 {
		id := inode{stat.Dev, stat.Ino}
		if w.seen[id] {
			return
		}
		w.seen[id] = true
	}
	w.total += max(stat.Blocks*blockSize, entrySpace)
}

// entrySpace is the minimum size counted for a file: even an empty file uses an inode and a
// directory entry.
const entrySpace = 4 << 10

// deleted adds regular files that are open but deleted.
func (w *diskWalk) deleted(fdDir string) {
	entries, err := os.ReadDir(fdDir)
	if err != nil {
		return
	}
	for _, entry := range entries {
		var stat unix.Stat_t
		if unix.Stat(fdDir+"/"+entry.Name(), &stat) == nil && stat.Nlink == 0 && stat.Dev != sharedDevice() && stat.Mode&unix.S_IFMT == unix.S_IFREG {
			w.add(stat)
		}
	}
}
