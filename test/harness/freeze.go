package harness

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/procfs"
	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/internal/devstack"
	"github.com/rocketgpt/orchestrator/internal/proc"
)

// Freeze pauses the process of a role and its descendants, like a paused virtual machine, and
// returns a function that resumes them. They are also resumed at the end of the test.
func (s *Stack) Freeze(tb testing.TB, role devstack.Role) (thaw func()) {
	tb.Helper()
	p, ok := s.state(tb).Process(role)
	require.True(tb, ok && p.ID.Alive(), "the %s is running", role)
	var frozen []int
	thaw = func() {
		for _, pid := range frozen {
			if err := syscall.Kill(pid, syscall.SIGCONT); err != nil && !errors.Is(err, syscall.ESRCH) {
				tb.Errorf("resume process %d: %v", pid, err)
			}
		}
		frozen = nil
	}
	tb.Cleanup(thaw)
	// A stopped process cannot start others, so this terminates.
	for next := []int{p.PID}; len(next) > 0; next = next[1:] {
		frozen = append(frozen, next[0])
		if err := syscall.Kill(next[0], syscall.SIGSTOP); err != nil && !errors.Is(err, syscall.ESRCH) {
			require.NoError(tb, err, "stop process %d", next[0])
		}
		Await(tb, fmt.Sprintf("process %d to stop", next[0]), 10*time.Second, func() (bool, string) {
			state := stateOf(next[0])
			return slices.Contains([]string{"T", "t", "Z", "X", ""}, state), state
		})
		next = append(next, proc.Children(next[0])...)
	}
	return thaw
}

// stateOf returns the state of a process; empty if it no longer exists.
func stateOf(pid int) string {
	p, err := procfs.NewProc(pid)
	if err != nil {
		return ""
	}
	s, _ := p.Stat()
	return s.State
}

// Tree returns a process and all its descendants.
func Tree(pid int) []int {
	all := []int{pid}
	for i := 0; i < len(all); i++ {
		all = append(all, proc.Children(all[i])...)
	}
	return all
}

// StartWorker starts an additional worker, with another program or environment. It is stopped at
// the end of the test.
func (s *Stack) StartWorker(tb testing.TB, program string, env ...string) (worker proc.ID, log string) {
	tb.Helper()
	ctx := context.WithoutCancel(tb.Context())
	name := fmt.Sprintf("worker-%d", time.Now().UnixNano())
	ready := filepath.Join(s.DataDir, "run", name+".json")
	log = filepath.Join(s.DataDir, "logs", name+".log")
	all := append(append([]string{}, s.env...), s.state(tb).Environment()...)
	worker, err := proc.Start(proc.Spec{
		Path: program, Args: []string{"--ready-file", ready, "--config-dir", s.Work, "--check-trust"}, Env: append(all, env...), Dir: s.DataDir, Log: log,
	})
	require.NoError(tb, err)
	tb.Cleanup(func() { require.NoError(tb, worker.Stop(ctx, 20*time.Second, syscall.SIGTERM)) })
	Await(tb, "the worker to be ready", time.Minute, func() (bool, string) {
		return exists(ready) || !worker.Alive(), "not ready"
	})
	require.True(tb, worker.Alive(), "the worker exited: %s", proc.Tail(log, 10))
	return worker, log
}

// Program returns the path of one of the product's programs.
func (s *Stack) Program(name string) string { return filepath.Join(s.bin, name) }
