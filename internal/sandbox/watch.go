package sandbox

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// quickTick is the interval at which processes are counted: a fork bomb is fast, and the kernel
// itself does not limit the number for the host's root.
const quickTick = 10 * time.Millisecond

// fullEvery is the number of quick ticks between two checks of memory, CPU and output, which are
// more expensive.
const fullEvery = 5

// clockTick is the unit of CPU times in /proc, the same on all Linux
// architectures that Go supports.
const clockTick = time.Second / 100

// watchdog measures the processes of one sandbox and reports which limit they exceed.
// It runs on the host, where the command cannot reach it.
type watchdog struct {
	run    *run
	limits Limits
	procs  *processes
	disk   *diskWatch
	ticks  int
	before hostMemory    // when the command began
	hidden int           // consecutive checks that found unexplained missing host memory
	cpu    time.Duration // of all processes so far
}

// newWatchdog returns nil while the sandbox's own /proc is not visible.
func newWatchdog(r *run, pid int) *watchdog {
	procs, err := openProcesses(pid, r.session.config.Isolated)
	if err != nil {
		return nil
	}
	procs.openMemory(r.session.memoryDirs())
	w := &watchdog{run: r, limits: r.session.command.Limits, procs: procs, before: readHostMemory()}
	if w.limits.DiskBytes > 0 {
		w.disk = startDiskWatch(r.session, w.limits.DiskBytes, procs)
	}
	return w
}

func (w *watchdog) close() {
	if w.disk != nil {
		w.disk.close()
	}
	w.procs.close()
}

// check returns the limit that is exceeded, or "".
func (w *watchdog) check() string {
	w.ticks++
	pids := w.procs.list()
	if w.limits.Processes > 0 && len(pids) >= w.limits.Processes {
		return LimitProcesses
	}
	if w.disk != nil && w.disk.exceeded.Load() {
		return LimitDisk
	}
	if w.ticks%fullEvery != 0 {
		return ""
	}
	return w.checkUsage(pids)
}

func (w *watchdog) checkUsage(pids []int) string {
	use := w.procs.usage(pids)
	host := readHostMemory()
	if w.limits.MemoryBytes > 0 && host.shared-w.before.shared > w.limits.MemoryBytes/sharedSuspect {
		use.files = w.procs.sharedFiles(pids)
	}
	if limit := w.run.instance.Exceeded(); limit != "" {
		return limit
	}
	w.cpu = max(w.cpu, use.cpu)
	output := max(w.run.stdout.written(), w.run.stderr.written())
	switch {
	case w.limits.Processes > 0 && use.threads >= w.limits.Processes:
		return LimitProcesses
	case w.limits.CPUTime > 0 && use.cpu >= w.limits.CPUTime:
		return LimitCPU
	case w.limits.OutputBytes > 0 && output > w.limits.OutputBytes*outputKillFactor:
		return LimitOutput
	case w.limits.MemoryBytes > 0 && use.memory() > w.limits.MemoryBytes && w.procs.exactMemory(pids, use.files) > w.limits.MemoryBytes:
		return LimitMemory
	case w.limits.MemoryBytes > 0 && w.run.cgroup == nil && !w.run.countsMemory && w.hides(pids, host, use):
		return LimitMemory
	}
	return ""
}

// hides reports whether the sandbox is assumed to use memory that is not attributed to any of its
// processes.
func (w *watchdog) hides(pids []int, host hostMemory, use usage) bool {
	if w.ticks%(fullEvery*hiddenEvery) != 0 {
		return false
	}
	limit := w.limits.MemoryBytes
	gone := w.before.available - host.available - use.memory()
	if gone <= limit {
		w.hidden = 0
		return false
	}
	// In-memory files in transit through sockets are part of the host's shared memory.
	shared := host.shared - w.before.shared - use.shared - use.scratch - use.files
	h := w.procs.holders(pids)
	if int64(h.sockets)*socketBuffer <= limit && (h.inFlight == 0 || shared <= limit) {
		w.hidden = 0
		return false
	}
	w.hidden++
	return w.hidden >= hiddenLooks
}

// sharedSuspect is the fraction of a memory limit by which the host's shared memory must have grown
// before a sandbox's shared memory is counted file by file.
const sharedSuspect = 4

// processes lists the processes of a sandbox through its own /proc, which shows no others.
type processes struct {
	dir  *os.File // the sandbox's /proc
	root *os.File // the sandbox's /
	path string   // dir as a path
	// memory are the sandbox's in-memory directories. They are open: when the sandbox ends, their
	// paths lead to the disk below.
	memory []*os.File
	tree   int // without namespaces: the process whose descendants count

	entries []byte // for list
}

func openProcesses(pid int, isolated bool) (*processes, error) {
	if !isolated {
		dir, err := os.Open("/proc")
		if err != nil {
			return nil, err
		}
		return &processes{dir: dir, path: "/proc", tree: pid}, nil
	}
	root, err := os.Open(fmt.Sprintf("/proc/%d/root", pid))
	if err != nil {
		return nil, err
	}
	dir, err := os.Open(fmt.Sprintf("/proc/self/fd/%d/proc", root.Fd()))
	if err != nil {
		_ = root.Close()
		return nil, err
	}
	p := &processes{dir: dir, root: root, path: fmt.Sprintf("/proc/self/fd/%d", dir.Fd())}
	if sameDevice(dir, "/proc") {
		// This is the host's /proc: do not check the host's processes.
		p.close()
		return nil, os.ErrNotExist
	}
	return p, nil
}

func sameDevice(f *os.File, path string) bool {
	var a, b unix.Stat_t
	return unix.Fstat(int(f.Fd()), &a) != nil || unix.Stat(path, &b) != nil || a.Dev == b.Dev
}

// openMemory opens the in-memory directories.
func (p *processes) openMemory(dirs []string) {
	if p.root == nil {
		return
	}
	for _, dir := range dirs {
		path := fmt.Sprintf("/proc/self/fd/%d%s", p.root.Fd(), dir)
		var stat unix.Statfs_t
		f, err := os.OpenFile(path, unix.O_PATH|unix.O_DIRECTORY, 0)
		if err != nil {
			continue
		}
		if unix.Fstatfs(int(f.Fd()), &stat) != nil || stat.Type != unix.TMPFS_MAGIC {
			_ = f.Close()
			continue
		}
		p.memory = append(p.memory, f)
	}
}

func (p *processes) close() {
	_ = p.dir.Close()
	for _, f := range p.memory {
		_ = f.Close()
	}
	if p.root != nil {
		_ = p.root.Close()
	}
}

// list returns the process ids in the sandbox, without the helper's. It is called a hundred times per second, so it
// reads the numbers from the entries themselves: a /proc has sixty others, of which os.File would make strings.
func (p *processes) list() []int {
	fd := int(p.dir.Fd())
	if _, err := unix.Seek(fd, 0, 0); err != nil {
		return nil
	}
	if p.entries == nil {
		p.entries = make([]byte, 8<<10)
	}
	var pids []int
	for {
		n, err := unix.ReadDirent(fd, p.entries)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return nil
		}
		if n <= 0 {
			break
		}
		pids = appendPIDs(pids, p.entries[:n])
	}
	if p.tree != 0 {
		return p.descendants(pids)
	}
	return pids
}

// Offsets in the kernel's struct linux_dirent64.
const (
	direntLength = 16 // of the whole entry, two bytes
	direntName   = 19 // ends with a zero byte
)

// appendPIDs appends the names of directory entries that are process ids, except that of the helper.
func appendPIDs(pids []int, entries []byte) []int {
	for len(entries) > direntName {
		length := int(binary.NativeEndian.Uint16(entries[direntLength:]))
		if length <= direntName || length > len(entries) {
			break
		}
		name, _, _ := bytes.Cut(entries[direntName:length], []byte{0})
		entries = entries[length:]
		if len(name) == 0 || name[0] < '0' || name[0] > '9' {
			continue
		}
		if pid, err := strconv.Atoi(string(name)); err == nil && pid != 1 {
			pids = append(pids, pid)
		}
	}
	return pids
}

// descendants keeps only the descendants of p.tree.
func (p *processes) descendants(pids []int) []int {
	parents := make(map[int]int, len(pids))
	for _, pid := range pids {
		if stat, ok := p.stat(pid); ok {
			parents[pid] = stat.parent
		}
	}
	var below []int
	for pid := range parents {
		for up, steps := parents[pid], 0; up > 1 && steps < len(pids); up, steps = parents[up], steps+1 {
			if up == p.tree {
				below = append(below, pid)
				break
			}
		}
	}
	return below
}

// usage is the total usage of a sandbox's processes.
type usage struct {
	cpu     time.Duration
	threads int
	anon    int64 // private memory; shared pages of forks count more than once
	shared  int64 // mapped shared memory
	scratch int64 // used in the private in-memory directories
	files   int64 // shared memory by its files; see sharedFiles
}

// memory returns an upper bound that is cheap to compute.
func (u usage) memory() int64 { return u.anon + max(u.shared, u.scratch+u.files) }

func (p *processes) usage(pids []int) usage {
	var use usage
	// Process 1 inherits the CPU times of exited orphans.
	helper := 1
	if p.tree != 0 {
		helper = p.tree
	}
	if stat, ok := p.stat(helper); ok {
		use.cpu += stat.childTime
	}
	for _, pid := range pids {
		stat, ok := p.stat(pid)
		if !ok {
			continue
		}
		use.cpu += stat.ownTime + stat.childTime
		use.threads += stat.threads
		anon, shared := p.resident(pid)
		use.anon += anon
		use.shared += shared
	}
	use.scratch = p.scratch()
	return use
}

type procStat struct {
	parent             int
	threads            int
	ownTime, childTime time.Duration
}

// stat reads /proc/PID/stat. The name of the program is in parentheses and may contain
// any character, so fields are counted from the last one.
func (p *processes) stat(pid int) (procStat, bool) {
	data, err := os.ReadFile(fmt.Sprintf("%s/%d/stat", p.path, pid))
	if err != nil {
		return procStat{}, false
	}
	fields := strings.Fields(string(data[bytes.LastIndexByte(data, ')')+1:]))
	if len(fields) < 18 {
		return procStat{}, false
	}
	number := func(i int) int64 {
		n, _ := strconv.ParseInt(fields[i], 10, 64)
		return n
	}
	return procStat{
		parent:    int(number(1)),
		ownTime:   time.Duration(number(11)+number(12)) * clockTick,
		childTime: time.Duration(number(13)+number(14)) * clockTick,
		threads:   int(number(17)),
	}, true
}

func (p *processes) resident(pid int) (anon, shared int64) {
	data, err := os.ReadFile(fmt.Sprintf("%s/%d/status", p.path, pid))
	if err != nil {
		return 0, 0
	}
	// Page tables also use memory: a process can have large page tables and little else.
	return kilobytes(data, "RssAnon:") + kilobytes(data, "VmPTE:"), kilobytes(data, "RssShmem:")
}

// pageTables returns the memory of a process's page tables.
func (p *processes) pageTables(pid int) int64 {
	data, err := os.ReadFile(fmt.Sprintf("%s/%d/status", p.path, pid))
	if err != nil {
		return 0
	}
	return kilobytes(data, "VmPTE:")
}

// kilobytes reads a line like "RssAnon: 1234 kB" and returns bytes.
func kilobytes(data []byte, label string) int64 {
	_, rest, found := bytes.Cut(data, []byte("\n"+label))
	if !found {
		return 0
	}
	line, _, _ := bytes.Cut(rest, []byte("\n"))
	n, _ := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(string(line)), " kB"), 10, 64)
	return n * 1024
}

// scratch returns the size of the private directories: memory that is not attributed to a process.
func (p *processes) scratch() int64 {
	var total int64
	for _, dir := range p.memory {
		var stat unix.Statfs_t
		if unix.Fstatfs(int(dir.Fd()), &stat) == nil {
			total += int64(stat.Blocks-stat.Bfree)*stat.Bsize + int64(stat.Files-stat.Ffree)*inodeMemory
		}
	}
	return total
}

// inodeMemory is the approximate memory of an entry in an in-memory file system, without its
// content.
const inodeMemory = 1 << 10

// exactMemory divides shared pages among the processes that share them. It walks page tables, so it
// is called only when the upper bound is over the limit. If the exact value cannot be read, the
// upper bound is used.
func (p *processes) exactMemory(pids []int, files int64) int64 {
	var anon, shared int64
	for _, pid := range pids {
		data, err := os.ReadFile(fmt.Sprintf("%s/%d/smaps_rollup", p.path, pid))
		if err != nil {
			a, s := p.resident(pid)
			anon, shared = anon+a, shared+s
			continue
		}
		anon += kilobytes(data, "Pss_Anon:") + p.pageTables(pid)
		shared += kilobytes(data, "Pss_Shmem:")
	}
	return anon + max(shared, p.scratch()+files)
}
