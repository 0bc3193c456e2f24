package main

import (
	"context"
	"time"

	"github.com/google/uuid"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"
)

// The bare workflow is the naive implementation of a run: every model call, tool call and check is
// an ordinary activity of one workflow, without rows, files, git or sandbox. Its duration is the
// cost of Temporal itself.
const (
	bareQueue    = "bench-bare"
	bareWorkflow = "bench.Bare"
	bareActivity = "bench.Pause"
)

func startBare(c client.Client) (worker.Worker, error) {
	w := worker.New(c, bareQueue, worker.Options{})
	w.RegisterWorkflowWithOptions(bareRun, workflow.RegisterOptions{Name: bareWorkflow})
	w.RegisterActivityWithOptions(pause, activity.RegisterOptions{Name: bareActivity})
	w.RegisterWorkflowWithOptions(bareHealed, workflow.RegisterOptions{Name: bareHealedWorkflow})
	w.RegisterWorkflowWithOptions(bareHeal, workflow.RegisterOptions{Name: bareHealWorkflow})
	w.RegisterActivityWithOptions(failing, activity.RegisterOptions{Name: bareFailing})
	w.RegisterWorkflowWithOptions(bareCaller, workflow.RegisterOptions{Name: bareCallerWorkflow})
	w.RegisterWorkflowWithOptions(bareAnswerer, workflow.RegisterOptions{Name: bareAnswererWorkflow})
	return w, w.Start()
}

// pause waits for the given duration.
func pause(ctx context.Context, long time.Duration) error {
	if long <= 0 {
		return nil
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(long):
		return nil
	}
}

// bareRun has the shape of a run (see sample.go).
func bareRun(ctx workflow.Context, latency time.Duration) error {
	ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{StartToCloseTimeout: time.Minute})
	do := func(ctx workflow.Context, long time.Duration) workflow.Future {
		return workflow.ExecuteActivity(ctx, bareActivity, long)
	}
	if err := do(ctx, latency).Get(ctx, nil); err != nil { // the plan
		return err
	}
	if err := bareSteps(ctx, latency, do); err != nil {
		return err
	}
	for range 2 { // integration, test plan
		if err := do(ctx, 0).Get(ctx, nil); err != nil {
			return err
		}
	}
	var checks []workflow.Future
	for range shards {
		checks = append(checks, do(ctx, testTime))
	}
	for _, c := range checks {
		if err := c.Get(ctx, nil); err != nil {
			return err
		}
	}
	return do(ctx, 0).Get(ctx, nil) // the release
}

// bareSteps carries out the step graph.
func bareSteps(ctx workflow.Context, latency time.Duration, do func(workflow.Context, time.Duration) workflow.Future) error {
	done := map[string]workflow.Future{}
	for _, id := range stepIDs() { // each after its dependencies
		future, set := workflow.NewFuture(ctx)
		done[id] = future
		workflow.Go(ctx, func(ctx workflow.Context) {
			set.SetError(bareStep(ctx, done, id, latency, do))
		})
	}
	for _, id := range stepIDs() {
		if err := done[id].Get(ctx, nil); err != nil {
			return err
		}
	}
	return nil
}

func bareStep(ctx workflow.Context, done map[string]workflow.Future, id string, latency time.Duration, do func(workflow.Context, time.Duration) workflow.Future) error {
	for _, need := range needs[id] {
		if err := done[need].Get(ctx, nil); err != nil {
			return err
		}
	}
	for range turns {
		for _, long := range []time.Duration{latency, 0} { // the model, then the tool
			if err := do(ctx, long).Get(ctx, nil); err != nil {
				return err
			}
		}
	}
	return nil
}

// bare measures bare workflows.
func (h *benchStack) bare(ctx context.Context, latency time.Duration, n int, atOnce bool) (phaseResult, error) {
	ids := make([]string, n)
	r, err := h.measure(ctx, n, atOnce, func(ctx context.Context, i int) error {
		ids[i] = "bare-" + uuid.NewString()
		run, err := h.temporal.ExecuteWorkflow(ctx, client.StartWorkflowOptions{ID: ids[i], TaskQueue: bareQueue}, bareWorkflow, latency)
		if err != nil {
			return err
		}
		return run.Get(ctx, nil)
	})
	if err != nil {
		return r, err
	}
	all := make([]one, n)
	for i, id := range ids {
		if all[i], err = h.readBare(ctx, id); err != nil {
			return r, err
		}
		all[i].critical = ideal(latency)
	}
	r.What, r.Latency = "bare", latency
	r.take(all)
	return r, nil
}

// readBare measures a bare workflow from the first to the last event of its history.
func (h *benchStack) readBare(ctx context.Context, id string) (one, error) {
	var o one
	var first, last time.Time
	events := h.temporal.GetWorkflowHistory(ctx, id, "", false, enumspb.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
	for events.HasNext() {
		e, err := events.Next()
		if err != nil {
			return o, err
		}
		at := e.GetEventTime().AsTime()
		if o.events == 0 {
			first = at
		}
		last = at
		o.events++
		o.bytes += e.Size()
		if e.GetEventType() == enumspb.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED {
			o.activities++
		}
	}
	o.wall = last.Sub(first)
	return o, nil
}
