package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"syscall"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/devstack"
)

// restartLatency is the model's latency while a worker is killed: long enough for all runs to be in
// progress.
const restartLatency = 250 * time.Millisecond

// restartRuns is the number of runs in progress at that time.
const restartRuns = 3

// restart has the cost of a kill -9 of the worker to the runs in progress. All times are from the
// start of the next worker.
type restart struct {
	Runs    int    `json:"runs"`
	Ready   spread `json:"worker_ready"`  // until it polls
	Next    spread `json:"next_activity"` // until each run's next activity starts
	Beyond  spread `json:"beyond_heartbeat"`
	WallMS  int64  `json:"wall_ms"`       // median of these runs
	UsualMS int64  `json:"usual_wall_ms"` // of the same runs undisturbed
	AgainMS int64  `json:"delay_ms"`      // the difference
}

// heartbeatTime is the heartbeat timeout of activities as long as few are in progress, see package workflows.
const heartbeatTime = 2 * time.Second

// restartKills is the number of times that the worker is killed.
const restartKills = 5

// measureRestart repeatedly kills the worker in mid-run and immediately restarts it.
func measureRestart(ctx context.Context, h *benchStack) (*restart, error) {
	usual, err := h.product(ctx, restartLatency, restartRuns, true)
	if err != nil {
		return nil, err
	}
	r := &restart{UsualMS: usual.WallMS}
	var walls, ready, next, beyond []time.Duration
	for range restartKills {
		ids, again, polls, err := h.killWorker(ctx)
		if err != nil {
			return nil, err
		}
		ready = append(ready, polls)
		for _, id := range ids {
			if err := h.await(ctx, id); err != nil {
				return nil, err
			}
			run, err := h.readRun(ctx, id)
			if err != nil {
				return nil, err
			}
			first, lost, err := h.firstStart(ctx, id, again)
			if err != nil {
				return nil, err
			}
			walls, next = append(walls, run.wall), append(next, first.Sub(again))
			if lost {
				first = first.Add(-heartbeatTime)
			}
			beyond = append(beyond, max(0, first.Sub(again)))
		}
	}
	r.Runs, r.Ready, r.Next, r.Beyond = len(walls), spreadOf(ready), spreadOf(next), spreadOf(beyond)
	r.WallMS = median(walls, time.Duration.Milliseconds)
	r.AgainMS = r.WallMS - r.UsualMS
	return r, nil
}

// killWorker starts runs, kills the worker while all are in progress, and restarts it. It returns
// the runs, the time of the restart, and the time until the worker polled.
func (h *benchStack) killWorker(ctx context.Context) (ids []int64, again time.Time, polls time.Duration, err error) {
	ids = make([]int64, restartRuns)
	for i := range ids {
		if ids[i], err = h.create(ctx, restartLatency); err != nil {
			return nil, again, 0, err
		}
	}
	if err := h.awaitStep(ctx, ids[restartRuns-1]); err != nil {
		return nil, again, 0, err
	}
	worker, _ := h.stack.Process(devstack.RoleWorker)
	if err := syscall.Kill(worker.PID, syscall.SIGKILL); err != nil {
		return nil, again, 0, err
	}
	again = time.Now()
	options := h.options
	options.Port = -1
	h.stack, err = devstack.Up(ctx, options)
	return ids, again, time.Since(again), err
}

// awaitStep waits until the builder of a run is active.
func (h *benchStack) awaitStep(ctx context.Context, id int64) error {
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

// firstStart returns when the first activity of a run started after a given time, and whether that
// activity first had to be detected as lost. Local activities count too: their marker records when
// the workflow task was completed.
func (h *benchStack) firstStart(ctx context.Context, id int64, after time.Time) (first time.Time, lost bool, err error) {
	ids := []string{contract.RunWorkflowID(id)}
	for _, step := range stepIDs() {
		ids = append(ids, contract.StepWorkflowID(id, step))
	}
	for _, workflowID := range ids {
		events := h.temporal.GetWorkflowHistory(ctx, workflowID, "", false, enumspb.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
		for events.HasNext() {
			e, err := events.Next()
			var gone *serviceerror.NotFound
			if errors.As(err, &gone) {
				break
			}
			if err != nil {
				return first, lost, err
			}
			at, started := e.GetEventTime().AsTime(), e.GetActivityTaskStartedEventAttributes()
			if started == nil && e.GetMarkerRecordedEventAttributes() == nil {
				continue
			}
			if at.After(after) && (first.IsZero() || at.Before(first)) {
				first = at
				lost = started.GetLastFailure().GetTimeoutFailureInfo().GetTimeoutType() == enumspb.TIMEOUT_TYPE_HEARTBEAT
			}
		}
	}
	if first.IsZero() {
		return first, lost, fmt.Errorf("run %d made no progress after the worker was restarted", id)
	}
	return first, lost, nil
}

func (r *restart) print(out io.Writer) error {
	if r == nil {
		return nil
	}
	t := newTable(out, fmt.Sprintf("Worker killed (kill -9) %d times with %d runs in progress, and immediately restarted (times from its start; the runs took %s instead of %s)",
		r.Ready.N, restartRuns, ms(r.WallMS), ms(r.UsualMS)), "WHAT", "N", "P50", "MAX", "AIM")
	t.row("it polls", fmt.Sprint(r.Ready.N), ms(r.Ready.P50MS), ms(r.Ready.MaxMS), "")
	t.row("a run's next activity", fmt.Sprint(r.Next.N), ms(r.Next.P50MS), ms(r.Next.MaxMS), "")
	t.row(fmt.Sprintf("  beyond the heartbeat timeout of %s, if it was lost", heartbeatTime), fmt.Sprint(r.Beyond.N), ms(r.Beyond.P50MS), ms(r.Beyond.MaxMS), "< "+aimResume.String())
	return t.Flush()
}
