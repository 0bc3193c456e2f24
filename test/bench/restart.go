package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"syscall"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/api/serviceerror"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/devstack"
)

// restartLatency is that of the model while a worker is killed: long enough for
// all runs to be under way.
const restartLatency = 250 * time.Millisecond

// restartRuns is how many runs are under way then.
const restartRuns = 3

// restart is what a kill -9 of the worker costs runs under way.
type restart struct {
	Runs     int   `json:"runs"`
	ReadyMS  int64 `json:"worker_ready_ms"`     // from its start until it polls
	FirstMS  int64 `json:"first_activity_ms"`   // from its start until an activity starts
	SlowMS   int64 `json:"slowest_activity_ms"` // the same, of the run that waited longest
	WallMS   int64 `json:"wall_ms"`             // median of these runs
	UsualMS  int64 `json:"usual_wall_ms"`       // of the same runs undisturbed
	AgainMS  int64 `json:"delay_ms"`            // the difference
	Finished int   `json:"finished"`
}

// measureRestart kills the worker in mid-run and starts it again at once.
func measureRestart(ctx context.Context, h *house) (*restart, error) {
	usual, err := h.product(ctx, restartLatency, restartRuns, true)
	if err != nil {
		return nil, err
	}
	ids := make([]int64, restartRuns)
	for i := range ids {
		if ids[i], err = h.create(ctx, restartLatency); err != nil {
			return nil, err
		}
	}
	if err := h.awaitStep(ctx, ids[restartRuns-1]); err != nil {
		return nil, err
	}
	worker, _ := h.stack.Process(devstack.RoleWorker)
	if err := syscall.Kill(worker.PID, syscall.SIGKILL); err != nil {
		return nil, err
	}
	again := time.Now()
	options := h.options
	options.Port = -1
	if h.stack, err = devstack.Up(ctx, options); err != nil {
		return nil, err
	}
	r := &restart{Runs: restartRuns, ReadyMS: time.Since(again).Milliseconds(), UsualMS: usual.WallMS}
	var runs []one
	for _, id := range ids {
		if err := h.await(ctx, id); err != nil {
			return nil, err
		}
		r.Finished++
		run, err := h.readRun(ctx, id)
		if err != nil {
			return nil, err
		}
		runs = append(runs, run)
		next, err := h.firstStart(ctx, id, again)
		if err != nil {
			return nil, err
		}
		waited := next.Sub(again).Milliseconds()
		if r.FirstMS == 0 || waited < r.FirstMS {
			r.FirstMS = waited
		}
		r.SlowMS = max(r.SlowMS, waited)
	}
	r.WallMS = median(runs, func(o one) int64 { return o.wall.Milliseconds() })
	r.AgainMS = r.WallMS - r.UsualMS
	return r, nil
}

// awaitStep waits until the builder of a run is at work.
func (h *house) awaitStep(ctx context.Context, id int64) error {
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		calls, err := h.store.ModelCalls(ctx, id)
		if err != nil {
			return err
		}
		if len(calls) > 2 {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
}

// firstStart returns when the first activity of a run started after a moment.
func (h *house) firstStart(ctx context.Context, id int64, after time.Time) (time.Time, error) {
	ids := []string{contract.RunWorkflowID(id)}
	for _, step := range stepIDs() {
		ids = append(ids, contract.StepWorkflowID(id, step))
	}
	var first time.Time
	for _, workflowID := range ids {
		events := h.temporal.GetWorkflowHistory(ctx, workflowID, "", false, enumspb.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
		for events.HasNext() {
			e, err := events.Next()
			var gone *serviceerror.NotFound
			if errors.As(err, &gone) {
				break
			}
			if err != nil {
				return first, err
			}
			at := e.GetEventTime().AsTime()
			_, starts := e.GetAttributes().(*historypb.HistoryEvent_ActivityTaskStartedEventAttributes)
			if starts && at.After(after) && (first.IsZero() || at.Before(first)) {
				first = at
			}
		}
	}
	return first, nil
}

func (r *restart) print(out io.Writer) error {
	if r == nil {
		return nil
	}
	_, err := fmt.Fprintf(out, "\nWorker killed (kill -9) with %d runs under way and started again at once: it polls after %s, the first activity starts after %s,\n"+
		"the one that waited longest after %s; the runs took %s instead of %s\n",
		r.Runs, ms(r.ReadyMS), ms(r.FirstMS), ms(r.SlowMS), ms(r.WallMS), ms(r.UsualMS))
	return err
}
