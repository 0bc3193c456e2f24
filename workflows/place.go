package workflows

import (
	"errors"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/rocketgpt/orchestrator/contract"
)

// workerPatience is how long work waits for the one worker that was chosen for
// it. Then it is done by any worker of the role: the chosen one may have died.
const workerPatience = 15 * time.Second

// place is where an attempt does its work: on the queue of its role, or, after
// a heal, on that of one worker of the role.
type place struct {
	queue  string
	worker string // empty: any of the role
	// lost is told when the worker did not take work in time, once.
	lost func(ctx workflow.Context, worker string)
}

// activity carries out work that takes at most that long. Where the chosen
// worker does not take it in time, it and all that follows goes to the role.
func (p *place) activity(ctx workflow.Context, most time.Duration, name string, args any) workflow.Future {
	if p.worker == "" {
		return workflow.ExecuteActivity(long(ctx, p.queue, most), name, args)
	}
	worker := p.worker
	there := workflow.ExecuteActivity(workflow.WithScheduleToStartTimeout(long(ctx, contract.QueueOfWorker(worker), most), workerPatience), name, args)
	result, set := workflow.NewFuture(ctx)
	workflow.Go(ctx, func(ctx workflow.Context) {
		if !notTaken(there.Get(ctx, nil)) {
			set.Chain(there)
			return
		}
		if p.worker == worker {
			p.worker = ""
			p.lost(ctx, worker)
		}
		set.Chain(workflow.ExecuteActivity(long(ctx, p.queue, most), name, args))
	})
	return result
}

// notTaken reports whether work failed because no worker took it in time.
func notTaken(err error) bool {
	var timeout *temporal.TimeoutError
	return errors.As(err, &timeout) && timeout.TimeoutType() == enumspb.TIMEOUT_TYPE_SCHEDULE_TO_START
}

// lostWorker says that the worker which was chosen for work did not take it.
func lostWorker(work, worker, queue string) contract.Record {
	return happened(contract.EventRunUpdated, map[string]any{
		"work": work, "worker_lost": worker, "queue": queue, "waited": workerPatience.String(),
	})
}

// work names what a phase's next attempt does: the phase, or one step of it.
func workOf(p contract.Phase, step string) string {
	if step == "" {
		return string(p)
	}
	return string(p) + "/" + step
}
