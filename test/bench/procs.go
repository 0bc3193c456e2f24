package main

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/rocketgpt/orchestrator/internal/devstack"
)

// ticks is the kernel's USER_HZ, in which /proc counts processor time; it is
// 100 on every system that Go supports.
const ticks = 100

// usage is what a process and its children have used.
type usage struct {
	Role     string  `json:"role"`
	CPU      float64 `json:"cpu_seconds"`          // its own
	Children float64 `json:"children_cpu_seconds"` // of those that ended
	PeakMB   int64   `json:"peak_mb"`
}

// meter reads what the processes of a stack use over a phase.
type meter struct {
	roles  []devstack.Role
	pids   map[devstack.Role]int
	before map[devstack.Role]usage
	busy   float64 // of the whole machine
	own    float64 // of this program
	start  time.Time
}

// startMeter takes the first readings. Peaks of memory start anew.
func startMeter(s *devstack.Stack) *meter {
	m := &meter{pids: map[devstack.Role]int{}, before: map[devstack.Role]usage{}, start: time.Now()}
	for _, role := range devstack.Roles() {
		p, ok := s.Process(role)
		if !ok || p.External {
			continue
		}
		m.roles, m.pids[role] = append(m.roles, role), p.PID
		resetPeak(p.PID)
		m.before[role] = read(p.PID, role)
	}
	m.busy, m.own = busySeconds(), ownSeconds()
	return m
}

// cpuLoad is what a phase cost the machine.
type cpuLoad struct {
	Processes []usage `json:"processes"`
	Total     float64 `json:"cpu_seconds"`       // of the stack, children included
	Bench     float64 `json:"bench_cpu_seconds"` // of this program
	Strangers float64 `json:"other_cpu_seconds"` // of whatever else ran: the larger, the less the numbers say
	Seconds   float64 `json:"seconds"`
}

// stop takes the last readings.
func (m *meter) stop() cpuLoad {
	l := cpuLoad{Seconds: time.Since(m.start).Seconds(), Bench: ownSeconds() - m.own}
	for _, role := range m.roles {
		after, before := read(m.pids[role], role), m.before[role]
		after.CPU -= before.CPU
		after.Children -= before.Children
		l.Processes = append(l.Processes, after)
		l.Total += after.CPU + after.Children
	}
	l.Strangers = max(0, busySeconds()-m.busy-l.Total-l.Bench)
	return l
}

// read reads one process. PostgreSQL has a process for each connection; they
// count as one: to the peak of the first, which maps the shared memory, comes
// what each of the others has for itself at the moment.
func read(pid int, role devstack.Role) usage {
	u := usage{Role: string(role)}
	own, ended := cpu(pid)
	u.CPU, u.Children, u.PeakMB = own, ended, memory(pid, "VmHWM")
	if role != devstack.RolePostgres {
		return u
	}
	for _, child := range childrenOf(pid) {
		own, ended := cpu(child)
		u.CPU += own + ended
		u.PeakMB += memory(child, "RssAnon")
	}
	u.CPU, u.Children = u.CPU+u.Children, 0
	return u
}

// cpu returns the processor seconds of a process and of its ended children.
func cpu(pid int) (own, children float64) {
	fields := statFields(pid)
	if len(fields) < 15 {
		return 0, 0
	}
	at := func(i int) float64 {
		n, _ := strconv.ParseFloat(fields[i], 64)
		return n / ticks
	}
	return at(11) + at(12), at(13) + at(14)
}

// statFields returns the fields of /proc/PID/stat after the name.
func statFields(pid int) []string {
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return nil
	}
	text := string(raw)
	return strings.Fields(text[strings.LastIndexByte(text, ')')+1:])
}

func childrenOf(pid int) []int {
	files, _ := filepath.Glob("/proc/[0-9]*/stat")
	var out []int
	for _, f := range files {
		child, err := strconv.Atoi(filepath.Base(filepath.Dir(f)))
		if err != nil {
			continue
		}
		if fields := statFields(child); len(fields) > 1 && fields[1] == strconv.Itoa(pid) {
			out = append(out, child)
		}
	}
	return out
}

// memory returns a line of /proc/PID/status in megabytes, such as VmHWM, the
// largest resident memory that the process had.
func memory(pid int, name string) int64 {
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0
	}
	for line := range strings.SplitSeq(string(raw), "\n") {
		fields := strings.Fields(line)
		if len(fields) > 1 && fields[0] == name+":" {
			kilobytes, _ := strconv.ParseInt(fields[1], 10, 64)
			return kilobytes >> 10
		}
	}
	return 0
}

// resetPeak makes the kernel count the peak from now on, where it lets us.
func resetPeak(pid int) {
	_ = os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", pid), []byte("5"), 0)
}

func ownSeconds() float64 {
	own, children := cpu(os.Getpid())
	return own + children
}

// busySeconds is the processor time of the whole machine that was not idle.
func busySeconds() float64 {
	raw, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0
	}
	line, _, _ := strings.Cut(string(raw), "\n")
	var busy float64
	for i, f := range strings.Fields(line)[1:] {
		n, _ := strconv.ParseFloat(f, 64)
		if i < 8 && i != 3 && i != 4 { // all but idle and waiting for disks; guests count as users already
			busy += n / ticks
		}
	}
	return busy
}

// host says where it was measured.
type host struct {
	CPU      string `json:"cpu"`
	Cores    int    `json:"cores"`
	Go       string `json:"go"`
	Temporal string `json:"temporal_state"`
	Load     string `json:"load_before"`
}

func thisHost(o options) host {
	h := host{Cores: runtime.NumCPU(), Go: runtime.Version(), Temporal: o.temporal}
	if raw, err := os.ReadFile("/proc/loadavg"); err == nil {
		h.Load, _, _ = strings.Cut(string(raw), " ")
	}
	raw, _ := os.ReadFile("/proc/cpuinfo")
	for line := range strings.SplitSeq(string(raw), "\n") {
		if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
			h.CPU = strings.TrimSpace(value)
			break
		}
	}
	return h
}
