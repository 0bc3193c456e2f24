package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"time"

	"github.com/rocketgpt/orchestrator/internal/store"
)

// cliResult is the overhead of `rgpt run create --wait`.
type cliResult struct {
	Runs     int   `json:"runs"`
	WholeMS  int64 `json:"whole_ms"`  // from the start of the process to its end
	BeforeMS int64 `json:"before_ms"` // until the run exists
	AfterMS  int64 `json:"after_ms"`  // after the run is done
}

// measureCLI starts runs sequentially from the command line. It measures the time before and after
// each run, not the run itself.
func measureCLI(ctx context.Context, h *benchStack, n int) (*cliResult, error) {
	type each struct{ whole, before, after time.Duration }
	all := make([]each, n)
	for i := range all {
		started := time.Now()
		cmd := exec.CommandContext(ctx, h.options.Programs.Starter, "run", "create", "--data-dir", h.stack.DataDir,
			"--repo", h.repo, "--goal", goal(restartLatency), "--wait")
		cmd.Dir, cmd.Env = h.options.ConfigDir, append(os.Environ(), h.stack.Environment()...)
		if out, err := cmd.CombinedOutput(); err != nil {
			return nil, fmt.Errorf("rgpt run create: %w: %s", err, out)
		}
		ended := time.Now()
		runs, err := h.store.ListRuns(ctx, store.Filter{Limit: 1})
		if err != nil || len(runs) == 0 || runs[0].FinishedAt == nil {
			return nil, fmt.Errorf("find the run that the command line created: %w", err)
		}
		all[i] = each{ended.Sub(started), runs[0].CreatedAt.Sub(started), ended.Sub(*runs[0].FinishedAt)}
	}
	return &cliResult{
		Runs:     n,
		WholeMS:  median(all, func(e each) int64 { return e.whole.Milliseconds() }),
		BeforeMS: median(all, func(e each) int64 { return e.before.Milliseconds() }),
		AfterMS:  median(all, func(e each) int64 { return e.after.Milliseconds() }),
	}, nil
}

func (r *cliResult) print(out io.Writer) error {
	if r == nil {
		return nil
	}
	_, err := fmt.Fprintf(out, "\nrgpt run create --wait (median of %d): %s in total, of which %s before the run exists and %s after it is done\n",
		r.Runs, ms(r.WholeMS), ms(r.BeforeMS), ms(r.AfterMS))
	return err
}
