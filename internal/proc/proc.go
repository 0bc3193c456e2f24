// Package proc starts processes that outlive their starter, and later finds and stops them without
// affecting an unrelated process: a process is identified by its id and its start time.
package proc

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/prometheus/procfs"
)

// ID identifies a process until the machine reboots: if the process id is reused, the start time
// differs.
type ID struct {
	PID   int    `json:"pid"`
	Start uint64 `json:"start"` // clock ticks after boot, field 22 of /proc/PID/stat
}

// Of returns the ID of a running process.
func Of(pid int) (ID, error) {
	s, err := stat(pid)
	return ID{PID: pid, Start: s.Starttime}, err
}

// Alive reports whether the process still runs; a zombie does not.
func (id ID) Alive() bool {
	if id.PID <= 0 {
		return false
	}
	s, err := stat(id.PID)
	return err == nil && s.Starttime == id.Start && s.State != "Z" && s.State != "X"
}

// Stop ends the process: first with the polite signal, and after grace by killing its group. A
// process that has already exited is not an error.
func (id ID) Stop(ctx context.Context, grace time.Duration, polite syscall.Signal) error {
	if !id.Alive() {
		return nil
	}
	if err := syscall.Kill(id.PID, polite); err != nil && !errors.Is(err, syscall.ESRCH) {
		return fmt.Errorf("stop process %d: %w", id.PID, err)
	}
	if id.await(ctx, grace) {
		return nil
	}
	// Kill the whole group: nothing else would stop processes that were left behind.
	if err := syscall.Kill(-id.PID, syscall.SIGKILL); err != nil {
		_ = syscall.Kill(id.PID, syscall.SIGKILL)
	}
	if !id.await(ctx, 5*time.Second) {
		return fmt.Errorf("process %d did not exit, even after SIGKILL", id.PID)
	}
	return nil
}

// await reports whether the process exited in time.
func (id ID) await(ctx context.Context, most time.Duration) bool {
	deadline := time.NewTimer(most)
	defer deadline.Stop()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for id.Alive() {
		select {
		case <-ctx.Done():
			return !id.Alive()
		case <-deadline.C:
			return !id.Alive()
		case <-tick.C:
		}
	}
	return true
}

// Spec is a process to start.
type Spec struct {
	Path string
	Args []string
	Env  []string // whole environment
	Dir  string
	Log  string // file to which output is appended
	Attr func(*syscall.SysProcAttr)
}

// Start starts a process in its own session, so that it outlives its starter and the starter's
// terminal.
func Start(s Spec) (ID, error) {
	if err := os.MkdirAll(filepath.Dir(s.Log), 0o750); err != nil {
		return ID{}, fmt.Errorf("create the directory for the log %s: %w", s.Log, err)
	}
	log, err := os.OpenFile(s.Log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return ID{}, fmt.Errorf("open the log %s: %w", s.Log, err)
	}
	defer log.Close()
	// Not started with a context: the process must outlive this one.
	cmd := exec.CommandContext(context.WithoutCancel(context.Background()), s.Path, s.Args...)
	cmd.Env, cmd.Dir, cmd.Stdout, cmd.Stderr = s.Env, s.Dir, log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if s.Attr != nil {
		s.Attr(cmd.SysProcAttr)
	}
	if err := cmd.Start(); err != nil {
		return ID{}, fmt.Errorf("start %s: %w", s.Path, err)
	}
	id, err := Of(cmd.Process.Pid)
	// Reap it if it exits before this process does; otherwise init reaps it.
	go func() { _ = cmd.Wait() }()
	if err != nil {
		return ID{}, fmt.Errorf("%s exited immediately; see %s", s.Path, s.Log)
	}
	return id, nil
}

// Tail returns the last lines of a log, for an error message.
func Tail(file string, lines int) string {
	text, err := os.ReadFile(file)
	if err != nil {
		return ""
	}
	all := strings.Split(strings.TrimRight(string(text), "\n"), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}

// Children returns the running child processes of a process.
func Children(pid int) (children []int) {
	all, _ := procfs.AllProcs()
	for _, p := range all {
		if s, err := p.Stat(); err == nil && s.PPID == pid {
			children = append(children, p.PID)
		}
	}
	return children
}

// stat reads the kernel's status of a process.
func stat(pid int) (procfs.ProcStat, error) {
	p, err := procfs.NewProc(pid)
	if err != nil {
		return procfs.ProcStat{}, fmt.Errorf("inspect process %d: %w", pid, err)
	}
	s, err := p.Stat()
	if err != nil {
		return s, fmt.Errorf("inspect process %d: %w", pid, err)
	}
	return s, nil
}
