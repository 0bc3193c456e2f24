package main

import (
	"fmt"
	"os"
	"runtime"
	"syscall"
	"time"

	"github.com/prometheus/procfs"

	"github.com/rocketgpt/orchestrator/internal/devstack"
	"github.com/rocketgpt/orchestrator/internal/proc"
)

// ticks is the kernel's USER_HZ, the unit of CPU time in /proc; it is 100 on every system that Go
// supports.
const ticks = 100

// usage is the resource usage of a process and its children.
type usage struct {
	Role     string  `json:"role"`
	CPU      float64 `json:"cpu_seconds"`          // its own
	Children float64 `json:"children_cpu_seconds"` // of those that ended
	PeakMB   int64   `json:"peak_mb"`
}

// meter measures the resource usage of a stack's processes during a phase.
type meter struct {
	roles  []devstack.Role
	pids   map[devstack.Role][]int
	before map[devstack.Role]usage
	busy   float64 // of the whole machine
	own    float64 // of this program
	start  time.Time
}

// startMeter takes the first readings and resets the memory peaks.
func startMeter(h *benchStack) *meter {
	m := &meter{pids: map[devstack.Role][]int{}, before: map[devstack.Role]usage{}, start: time.Now()}
	for _, role := range devstack.Roles() {
		p, ok := h.stack.Process(role)
		if !ok || p.External {
			continue
		}
		m.roles, m.pids[role] = append(m.roles, role), []int{p.PID}
		if role == devstack.RoleWorker {
			for _, w := range h.workers {
				m.pids[role] = append(m.pids[role], w.PID)
			}
		}
		for _, pid := range m.pids[role] {
			resetPeak(pid)
		}
		m.before[role] = readAll(m.pids[role], role)
	}
	m.busy, m.own = busySeconds(), ownSeconds()
	return m
}

// cpuLoad is the load on the machine during a phase.
type cpuLoad struct {
	Processes []usage `json:"processes"`
	Total     float64 `json:"cpu_seconds"`       // of the stack, including children
	Bench     float64 `json:"bench_cpu_seconds"` // of this program
	Strangers float64 `json:"other_cpu_seconds"` // of unrelated processes: the larger, the less reliable the numbers
	Seconds   float64 `json:"seconds"`
}

// stop takes the final readings.
func (m *meter) stop() cpuLoad {
	l := cpuLoad{Seconds: time.Since(m.start).Seconds(), Bench: ownSeconds() - m.own}
	for _, role := range m.roles {
		after, before := readAll(m.pids[role], role), m.before[role]
		after.CPU -= before.CPU
		after.Children -= before.Children
		l.Processes = append(l.Processes, after)
		l.Total += after.CPU + after.Children
	}
	l.Strangers = max(0, busySeconds()-m.busy-l.Total-l.Bench)
	return l
}

// readAll reads the processes of a role, as one.
func readAll(pids []int, role devstack.Role) usage {
	all := usage{Role: string(role)}
	for _, pid := range pids {
		u := read(pid, role)
		all.CPU, all.Children, all.PeakMB = all.CPU+u.CPU, all.Children+u.Children, all.PeakMB+u.PeakMB
	}
	return all
}

// read reads one process. PostgreSQL has a process for each connection; they count as one: the peak
// of the first, which maps the shared memory, plus the current private memory of each other
// process.
func read(pid int, role devstack.Role) usage {
	u := usage{Role: string(role)}
	own, ended := cpu(pid)
	u.CPU, u.Children, u.PeakMB = own, ended, int64(memory(pid).VmHWM>>20)
	if role != devstack.RolePostgres {
		return u
	}
	for _, child := range proc.Children(pid) {
		own, ended := cpu(child)
		u.CPU += own + ended
		u.PeakMB += int64(memory(child).RssAnon >> 20)
	}
	u.CPU, u.Children = u.CPU+u.Children, 0
	return u
}

// cpu returns the CPU seconds of a process and of its exited children.
func cpu(pid int) (own, children float64) {
	p, err := procfs.NewProc(pid)
	if err != nil {
		return 0, 0
	}
	s, _ := p.Stat()
	return float64(s.UTime+s.STime) / ticks, float64(s.CUTime+s.CSTime) / ticks
}

// memory returns the kernel's memory statistics of a process.
func memory(pid int) procfs.ProcStatus {
	p, err := procfs.NewProc(pid)
	if err != nil {
		return procfs.ProcStatus{}
	}
	s, _ := p.NewStatus()
	return s
}

// resetPeak resets the kernel's peak memory of a process, if permitted.
func resetPeak(pid int) {
	_ = os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", pid), []byte("5"), 0)
}

func ownSeconds() float64 {
	own, children := cpu(os.Getpid())
	return own + children
}

// processorTime returns the processor time that this process has used, without its children.
func processorTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// busySeconds returns the non-idle CPU time of the whole machine.
func busySeconds() float64 {
	fs, err := procfs.NewDefaultFS()
	if err != nil {
		return 0
	}
	s, _ := fs.Stat()
	c := s.CPUTotal // all except idle and I/O wait; guest time is already part of user time
	return c.User + c.Nice + c.System + c.IRQ + c.SoftIRQ + c.Steal
}

// host describes the machine that was measured.
type host struct {
	CPU      string `json:"cpu"`
	Cores    int    `json:"cores"`
	Go       string `json:"go"`
	Temporal string `json:"temporal_state"`
	Workers  int    `json:"workers"`
	Load     string `json:"load_before"`
}

func thisHost(o options) host {
	h := host{Cores: runtime.NumCPU(), Go: runtime.Version(), Temporal: o.temporal, Workers: o.workers}
	fs, err := procfs.NewDefaultFS()
	if err != nil {
		return h
	}
	if l, err := fs.LoadAvg(); err == nil {
		h.Load = fmt.Sprintf("%.2f", l.Load1)
	}
	if cpus, err := fs.CPUInfo(); err == nil && len(cpus) > 0 {
		h.CPU = cpus[0].ModelName
	}
	return h
}
