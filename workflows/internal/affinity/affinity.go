// Package affinity chooses the worker for a phase or step.
package affinity

import (
	"errors"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/workflows/internal/options"
	"github.com/rocketgpt/orchestrator/workflows/internal/records"
)

// workerPatience is how long work waits for its chosen worker. After that, any worker of the role
// can do it, because the chosen one may have died.
const workerPatience = 15 * time.Second

// Affinity chooses the queue of an attempt: the queue of its role or, after a heal, the queue of
// one worker of the role.
type Affinity struct {
	Queue  string
	Worker string // empty: any worker of the role
	// Summary describes the work in Temporal's user interface; empty: the name of the activity is enough.
	Summary string
	// OnLost is called once, if the worker does not accept work in time.
	OnLost func(ctx workflow.Context, worker string)
}

// Execute runs an activity for at most the given time. If the chosen worker does not accept it in
// time, this and all later activities go to the queue of the role.
func (p *Affinity) Execute(ctx workflow.Context, most time.Duration, name string, args any) workflow.Future {
	if p.Worker == "" {
		return workflow.ExecuteActivity(p.on(ctx, p.Queue, most), name, args)
	}
	worker := p.Worker
	there := workflow.ExecuteActivity(workflow.WithScheduleToStartTimeout(p.on(ctx, contract.QueueOfWorker(worker), most), workerPatience), name, args)
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
		set.Chain(workflow.ExecuteActivity(p.on(ctx, p.Queue, most), name, args))
	})
	return result
}

// on returns a context for an activity on a queue, with the summary.
func (p *Affinity) on(ctx workflow.Context, queue string, most time.Duration) workflow.Context {
	return options.WithSummary(options.Remote(ctx, queue, most), p.Summary)
}

// workerAbsent reports whether work failed because no worker accepted it in time.
func workerAbsent(err error) bool {
	var timeout *temporal.TimeoutError
	return errors.As(err, &timeout) && timeout.TimeoutType() == enumspb.TIMEOUT_TYPE_SCHEDULE_TO_START
}

// WorkKey returns the key of a phase's next attempt: the phase, or one of its steps.
func WorkKey(p contract.Phase, step string) string {
	if step == "" {
		return string(p)
	}
	return string(p) + "/" + step
}

// LocalMerges is the maximum number of changes that local work may merge. More may take longer than
// a workflow task should wait.
const LocalMerges = 8

// LocalFirst does work on a repository as a local activity. If the activity reports that the work
// would take long on this host (cold), takes too long, or has many changes to merge, an ordinary
// activity does the work. Both return the same result. Work that is bound to one worker is never
// done as a local activity.
func LocalFirst[R any](ctx workflow.Context, at *Affinity, name string, merges int, args func(quick bool) any, cold func(R) bool) (R, error) {
	return LocalFirstFor(ctx, at, options.LongWork, name, merges, args, cold)
}

// LocalFirstFor is LocalFirst for work that may take up to most as an ordinary activity.
func LocalFirstFor[R any](ctx workflow.Context, at *Affinity, most time.Duration, name string, merges int, args func(quick bool) any, cold func(R) bool) (R, error) {
	var result R
	if merges <= LocalMerges && at.Worker == "" {
		err := workflow.ExecuteLocalActivity(options.LocalOnce(ctx), name, args(true)).Get(ctx, &result)
		if err != nil && !options.RunRemotely(err) || err == nil && !cold(result) {
			return result, err
		}
	}
	var ordinary R
	err := at.Execute(ctx, most, name, args(false)).Get(ctx, &ordinary)
	return ordinary, err
}

// WorkerLostRecord returns the record of work that its chosen worker did not accept.
func WorkerLostRecord(work, worker, queue string) contract.Record {
	return records.EventRecord(contract.EventRunUpdated, map[string]any{
		"work": work, "worker_lost": worker, "queue": queue, "waited": workerPatience.String(),
	})
}
