package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/rocketgpt/orchestrator/internal/proc"
)

// workerTime is how long an additional worker may take to become ready, or to stop.
const workerTime = time.Minute

// addWorkers starts additional workers, each as a process that shares the stack's data folder with the first one.
func (h *benchStack) addWorkers(ctx context.Context, n int) error {
	for i := range n {
		name := fmt.Sprintf("worker-%d", i+2)
		ready := filepath.Join(h.options.DataDir, "run", name+".json")
		log := filepath.Join(h.options.DataDir, "logs", name+".log")
		worker, err := proc.Start(proc.Spec{
			Path: h.options.Programs.Worker, Args: []string{"--ready-file", ready, "--config-dir", h.options.ConfigDir},
			Env: append(os.Environ(), h.stack.Environment()...), Dir: h.options.DataDir, Log: log,
		})
		if err != nil {
			return fmt.Errorf("start %s: %w", name, err)
		}
		h.workers = append(h.workers, worker)
		if err := awaitReady(ctx, worker, ready); err != nil {
			return fmt.Errorf("%s is not ready: %w; the end of its log: %s", name, err, proc.Tail(log, 10))
		}
	}
	return nil
}

// awaitReady waits until a worker has written its ready file.
func awaitReady(ctx context.Context, worker proc.ID, file string) error {
	ctx, cancel := context.WithTimeout(ctx, workerTime)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		if _, err := os.Stat(file); err == nil {
			return nil
		}
		if !worker.Alive() {
			return errors.New("it exited")
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
}

// stopWorkers stops the additional workers.
func (h *benchStack) stopWorkers(ctx context.Context) error {
	var all error
	for _, w := range h.workers {
		all = errors.Join(all, w.Stop(ctx, workerTime, syscall.SIGTERM))
	}
	return all
}
