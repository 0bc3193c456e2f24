package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/devstack"
	"github.com/rocketgpt/orchestrator/internal/temporal"
)

const (
	waitingAtOnce = 8                // runs that are being planned at the same time
	waitingSettle = 15 * time.Second // before the measurement begins, for what still follows from the last run
	waitingTime   = time.Minute      // of the measurement: what is done once a minute counts
)

// The aims of runs that wait.
const (
	aimWaiting      = 0.02 // of a core
	aimWaitingReady = 5 * time.Second
)

// waitingResult has the cost of runs that wait for a person.
type waitingResult struct {
	Runs    int                `json:"runs"`
	Cores   float64            `json:"cores"`      // that all processes use while the runs wait
	Before  float64            `json:"cores_idle"` // the same without runs
	ByRole  map[string]float64 `json:"cores_by_role"`
	PeakMB  int64              `json:"peak_mb"`
	ReadyMS int64              `json:"ready_ms"` // from the start of the next worker until it polls
	FirstMS int64              `json:"first_ms"` // until a run that was waiting accepts a command
}

// measureWaiting lets runs wait for the approval of their plans, measures what that costs, and kills the
// worker.
func measureWaiting(ctx context.Context, h *benchStack, runs int, say func(string, ...any)) (*waitingResult, error) {
	r := &waitingResult{Runs: runs, ByRole: map[string]float64{}}
	say("No runs")
	idle, err := h.rest(ctx)
	if err != nil {
		return nil, err
	}
	r.Before = idle.Total / idle.Seconds
	say("%d runs wait for approval", runs)
	ids := make([]int64, runs)
	group, groupCtx := errgroup.WithContext(ctx)
	group.SetLimit(waitingAtOnce)
	for i := range ids {
		group.Go(func() (err error) {
			ids[i], err = h.createWaiting(groupCtx)
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	say("Measuring %d runs that wait", runs)
	load, err := h.rest(ctx)
	if err != nil {
		return nil, err
	}
	r.Cores = load.Total / load.Seconds
	for _, p := range load.Processes {
		r.ByRole[p.Role] = (p.CPU + p.Children) / load.Seconds
		r.PeakMB += p.PeakMB
	}
	return r, h.restartWith(ctx, ids, r)
}

// rest measures the load of the stack while nothing is asked of it.
func (h *benchStack) rest(ctx context.Context) (cpuLoad, error) {
	if err := sleep(ctx, waitingSettle); err != nil {
		return cpuLoad{}, err
	}
	m := startMeter(h)
	err := sleep(ctx, waitingTime)
	return m.stop(), err
}

// createWaiting creates a run and returns once it waits for the approval of its plan.
func (h *benchStack) createWaiting(ctx context.Context) (int64, error) {
	n := h.newRun
	n.GoalTitle, n.Settings.ApprovePlan = goal(0), true
	run, _, err := h.store.CreateRun(ctx, n)
	if err != nil {
		return 0, err
	}
	if err := temporal.StartRun(ctx, h.temporal, h.store, run); err != nil {
		return 0, err
	}
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		status, err := h.store.RunStatus(ctx, run.ID)
		switch {
		case err != nil:
			return 0, err
		case status == contract.StatusWaitingForApproval:
			return run.ID, nil
		case status.Terminal():
			return 0, fmt.Errorf("run %d ended as %s instead of waiting for approval", run.ID, status)
		}
		select {
		case <-ctx.Done():
			return 0, ctx.Err()
		case <-tick.C:
		}
	}
}

// restartWith kills the worker while runs wait, starts the next one, and stops one of the runs.
func (h *benchStack) restartWith(ctx context.Context, ids []int64, r *waitingResult) (err error) {
	worker, _ := h.stack.Process(devstack.RoleWorker)
	if err := syscall.Kill(worker.PID, syscall.SIGKILL); err != nil {
		return err
	}
	again := time.Now()
	options := h.options
	options.Port = -1
	if h.stack, err = devstack.Up(ctx, options); err != nil {
		return err
	}
	r.ReadyMS = time.Since(again).Milliseconds()
	id := strconv.FormatInt(ids[len(ids)/2], 10)
	if err := h.ask(ctx, http.MethodPost, "/api/runs/"+id+"/stop", `{"by":"bench","reason":"measured"}`); err != nil {
		return err
	}
	r.FirstMS = time.Since(again).Milliseconds()
	return nil
}

// sleep waits, or returns the error of ctx if that ends first.
func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}

func (r *waitingResult) print(out io.Writer) error {
	if r == nil {
		return nil
	}
	t := newTable(out, fmt.Sprintf("%d runs wait for the approval of their plans", r.Runs), "WHAT", "MEASURED", "AIM")
	share := func(cores float64) string { return fmt.Sprintf("%.1f %% of a core", 100*cores) }
	t.row("CPU of all processes", share(r.Cores), "")
	t.row("  more than without runs", share(r.Cores-r.Before), fmt.Sprintf("< %.0f %% of a core", 100*aimWaiting))
	for _, role := range devstack.Roles() {
		if cores, ok := r.ByRole[string(role)]; ok {
			t.row("  "+string(role), share(cores), "")
		}
	}
	t.row("memory of all processes", fmt.Sprintf("%d MB", r.PeakMB), "")
	t.row("the next worker polls, after kill -9", ms(r.ReadyMS), "< "+aimWaitingReady.String())
	t.row("a waiting run has accepted a command", ms(r.FirstMS), "")
	return t.Flush()
}
