package sandbox

import (
	"fmt"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Limits restrict one command and all processes it starts. In each field 0 means the
// value of DefaultLimits and a negative number means no limit.
type Limits struct {
	// Timeout is wall time, counted from the call of Run.
	Timeout time.Duration
	// CPUTime is the total user and system time of all processes.
	CPUTime time.Duration
	// MemoryBytes is the memory of all processes together, without file pages that the
	// kernel can drop. Without cgroup v2 it is measured several times a second, so a
	// command can exceed it for a moment.
	MemoryBytes int64
	// FileBytes is the size of any one file the command writes.
	FileBytes int64
	// Processes is the number of processes and threads alive at once. A command that reaches it is
	// killed.
	Processes int
	// OutputBytes is the number of bytes kept of each output stream. More is dropped, and a command
	// that writes outputKillFactor times as much is killed.
	OutputBytes int64
	// DiskBytes is the disk space of files in the workspace that the command created or changed.
	// Each private in-memory directory may use the same amount, but at most scratchBytes.
	DiskBytes int64
}

// DefaultLimits are enough for a build or a test run of a typical repository.
var DefaultLimits = Limits{
	Timeout:     10 * time.Minute,
	CPUTime:     40 * time.Minute,
	MemoryBytes: 4 << 30,
	FileBytes:   1 << 30,
	Processes:   1024,
	OutputBytes: 1 << 20,
	DiskBytes:   4 << 30,
}

const (
	// scratchBytes limits each of /tmp, the home and /dev/shm: they use memory that nothing else
	// accounts for without cgroup v2.
	scratchBytes = 1 << 30
	// outputKillFactor: a verbose test suite should pass; one that writes endlessly
	// should not run until its timeout.
	outputKillFactor = 256
	openFiles        = 4096
	// helperThreads is the allowance for the helper's own threads, which the kernel counts together
	// with the command's threads.
	helperThreads = 32
)

// withDefaults fills zero fields and converts "no limit" to 0, the value that the rest of the
// package expects.
func (l Limits) withDefaults() Limits {
	d := DefaultLimits
	return Limits{
		Timeout:     orDefault(l.Timeout, d.Timeout),
		CPUTime:     orDefault(l.CPUTime, d.CPUTime),
		MemoryBytes: orDefault(l.MemoryBytes, d.MemoryBytes),
		FileBytes:   orDefault(l.FileBytes, d.FileBytes),
		Processes:   orDefault(l.Processes, d.Processes),
		OutputBytes: orDefault(l.OutputBytes, d.OutputBytes),
		DiskBytes:   orDefault(l.DiskBytes, d.DiskBytes),
	}
}

func orDefault[T ~int | ~int64](value, fallback T) T {
	switch {
	case value < 0:
		return 0
	case value == 0:
		return fallback
	}
	return value
}

// scratch returns the size of each private in-memory directory.
func (l Limits) scratch() int64 {
	if l.DiskBytes > 0 && l.DiskBytes < scratchBytes {
		return l.DiskBytes
	}
	return scratchBytes
}

// rlimit is one resource limit as passed to the helper.
type rlimit struct {
	Resource int
	Value    uint64
}

// rlimits are the limits that the kernel enforces for each process. RLIMIT_AS is not among them: Go
// and Node reserve far more addresses than they use. RLIMIT_DATA counts only writable private
// memory; twice the limit plus a GiB for thread stacks stops processes that are too fast for the
// watchdog.
func (l Limits) rlimits() []rlimit {
	limits := []rlimit{{unix.RLIMIT_CORE, 0}, {unix.RLIMIT_NOFILE, openFiles}}
	if l.FileBytes > 0 {
		limits = append(limits, rlimit{unix.RLIMIT_FSIZE, uint64(l.FileBytes)})
	}
	if l.CPUTime > 0 {
		// The watchdog normally acts first, on the sum; this limit stops a single process if the
		// worker itself is starved. The extra second gives the watchdog time.
		limits = append(limits, rlimit{unix.RLIMIT_CPU, uint64(l.CPUTime/time.Second) + 2})
	}
	if l.MemoryBytes > 0 {
		limits = append(limits, rlimit{unix.RLIMIT_DATA, 2*uint64(l.MemoryBytes) + 1<<30})
	}
	if l.Processes > 0 && processLimitIsPerSandbox() {
		limits = append(limits, rlimit{unix.RLIMIT_NPROC, uint64(l.Processes + helperThreads)})
	}
	return limits
}

// inContainer returns the limits without the number of processes: a container shares its user with
// others, so its cgroup counts them.
func (l Limits) inContainer() []rlimit {
	l.Processes = 0
	return l.rlimits()
}

// processLimitIsPerSandbox reports whether processes are counted for each user namespace, as since
// Linux 5.14. Before, RLIMIT_NPROC would also count the user's processes outside the sandbox. The
// kernel never applies it to the host's root, hence the watchdog in watch.go.
func processLimitIsPerSandbox() bool {
	var name unix.Utsname
	if unix.Uname(&name) != nil {
		return false
	}
	var major, minor int
	if _, err := fmt.Sscanf(unix.ByteSliceToString(name.Release[:]), "%d.%d", &major, &minor); err != nil {
		return false
	}
	return major > 5 || major == 5 && minor >= 14
}

// setRlimits lowers the soft and hard limits of this process; lower limits stay.
func setRlimits(limits []rlimit) error {
	for _, l := range limits {
		var now syscall.Rlimit
		if err := syscall.Getrlimit(l.Resource, &now); err != nil {
			return fmt.Errorf("read resource limit %d: %w", l.Resource, err)
		}
		value := min(l.Value, now.Max)
		// syscall rather than unix: the Go runtime must know that the limit on open files was set
		// on purpose; otherwise it restores the old limit on exec.
		if err := syscall.Setrlimit(l.Resource, &syscall.Rlimit{Cur: value, Max: value}); err != nil {
			return fmt.Errorf("set resource limit %d: %w", l.Resource, err)
		}
	}
	return nil
}
