// Package flow has what all workflows share: the time-outs and retry policies of their
// activities and children, worker affinity, and the records that they write.
package flow

import (
	"errors"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/rocketgpt/orchestrator/contract"
)

// workerPatience is how long work waits for its chosen worker. After that any worker of
// the role does it, because the chosen one may have died.
const workerPatience = 15 * time.Second

// Affinity is where an attempt does its work: on the queue of its role or, after a
// heal, on the queue of one worker of the role.
type Affinity struct {
	Queue  string
	Worker string // empty: any worker of the role
	// OnLost is called once, when the worker did not take work in time.
	OnLost func(ctx workflow.Context, worker string)
}

// Execute carries out work that takes at most that long. If the chosen worker does not
// take it in time, this work and all work after it goes to the role.
func (p *Affinity) Execute(ctx workflow.Context, most time.Duration, name string, args any) workflow.Future {
	if p.Worker == "" {
		return workflow.ExecuteActivity(Remote(ctx, p.Queue, most), name, args)
	}
	worker := p.Worker
	there := workflow.ExecuteActivity(workflow.WithScheduleToStartTimeout(Remote(ctx, contract.QueueOfWorker(worker), most), workerPatience), name, args)
	result, set := workflow.NewFuture(ctx)
	workflow.Go(ctx, func(ctx workflow.Context) {
		if !workerAbsent(there.Get(ctx, nil)) {
			set.Chain(there)
			return
		}
		if p.Worker == worker {
			p.Worker = ""
			p.OnLost(ctx, worker)
		}
		set.Chain(workflow.ExecuteActivity(Remote(ctx, p.Queue, most), name, args))
	})
	return result
}

// workerAbsent reports whether work failed because no worker took it in time.
func workerAbsent(err error) bool {
	var timeout *temporal.TimeoutError
	return errors.As(err, &timeout) && timeout.TimeoutType() == enumspb.TIMEOUT_TYPE_SCHEDULE_TO_START
}

// WorkerLostRecord returns the record that the worker chosen for work did not take it.
func WorkerLostRecord(work, worker, queue string) contract.Record {
	return EventRecord(contract.EventRunUpdated, map[string]any{
		"work": work, "worker_lost": worker, "queue": queue, "waited": workerPatience.String(),
	})
}

// WorkKey names the work of a phase's next attempt: the phase, or one step of it.
func WorkKey(p contract.Phase, step string) string {
	if step == "" {
		return string(p)
	}
	return string(p) + "/" + step
}
