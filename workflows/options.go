package workflows

import (
	"errors"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/rocketgpt/orchestrator/contract"
)

// The only place with retry policies and time-outs of workflow code. How often
// a failure of a class is tried again is a row of package fault, applied where
// the activity fails; the policies here cover what never gets that far, such as
// a lost worker.
const (
	// heartbeat lets a dead worker be noticed within two seconds.
	heartbeat = 2 * time.Second
	// shortWork bounds local activities on rows.
	shortWork = time.Minute
	// quickWork bounds local activities on repositories. What takes longer becomes an
	// ordinary activity: a workflow task is no place to wait in.
	quickWork = 20 * time.Second
	// saveTime is what keeping a workspace may take after work on it, beside the
	// time of the work.
	saveTime = 5 * time.Minute
	// outage is how long short work is tried again while the database is away.
	outage = 30 * 24 * time.Hour
	// modelWait is how long a model call may wait for its turn: for a provider's
	// free place, or for budget that calls in flight hold.
	modelWait = 2 * time.Hour
	// longWork bounds work on repositories: clones, merges, releases.
	longWork = 30 * time.Minute
	// overhead is what an activity may take beyond the time-out that it
	// enforces itself, so that its own, better error comes first.
	overhead = 30 * time.Second
	// lostWorkers is how often an activity is started again because its own failure
	// allowed another try, as while the database is away: with the waits between them,
	// for most of a day. Attempts that ended without a word are bounded by the worker
	// (worker.lost_attempts).
	lostWorkers = 2500
	// memberPatience is how long the end of a deliberation waits for its members.
	// They end within seconds; those of a worker that is away do when it is back.
	memberPatience = time.Minute
	// stopPatience is how long a deliberation that was told to stop may take to end
	// before it is cancelled.
	stopPatience = 5 * time.Second
	// cleanUpTime bounds the last words of a stopped run.
	cleanUpTime = 2 * time.Minute
)

// retryPolicy leaves the number of tries to the failure itself; see package fault.
func retryPolicy() *temporal.RetryPolicy {
	return &temporal.RetryPolicy{
		InitialInterval:    100 * time.Millisecond,
		BackoffCoefficient: 1.5,
		MaximumInterval:    10 * time.Second,
		MaximumAttempts:    lostWorkers,
	}
}

// short makes a context for local activities: idempotent work under two seconds.
func short(ctx workflow.Context) workflow.Context {
	return workflow.WithLocalActivityOptions(ctx, workflow.LocalActivityOptions{
		StartToCloseTimeout:    shortWork,
		ScheduleToCloseTimeout: outage, // else the SDK takes shortWork for all tries together
		RetryPolicy:            retryPolicy(),
	})
}

// quick makes a context for one attempt at work on a repository beside the workflow.
func quick(ctx workflow.Context) workflow.Context {
	return workflow.WithLocalActivityOptions(ctx, workflow.LocalActivityOptions{
		StartToCloseTimeout: quickWork,
		RetryPolicy:         &temporal.RetryPolicy{MaximumAttempts: 1},
	})
}

// tryOrdinary reports whether work that failed beside its workflow is to be done as
// an ordinary activity: it took too long, or its failure allows another try.
func tryOrdinary(err error) bool {
	var timeout *temporal.TimeoutError
	var failed *temporal.ApplicationError
	return errors.As(err, &timeout) || errors.As(err, &failed) && !failed.NonRetryable()
}

// long makes a context for ordinary activities on a queue, each bounded by most.
func long(ctx workflow.Context, queue string, most time.Duration) workflow.Context {
	return workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		TaskQueue:           queue,
		StartToCloseTimeout: most + overhead,
		HeartbeatTimeout:    heartbeat,
		WaitForCancellation: true,
		RetryPolicy:         retryPolicy(),
	})
}

// recording makes a context for work of deliberations on their rows and files: an
// ordinary activity, so that it stands in the history before it is done. It is
// tried again while the database is away.
func recording(ctx workflow.Context) workflow.Context {
	policy := retryPolicy()
	policy.MaximumAttempts = 0
	return workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		TaskQueue:              contract.QueueRun,
		StartToCloseTimeout:    shortWork,
		ScheduleToCloseTimeout: outage,
		HeartbeatTimeout:       heartbeat,
		RetryPolicy:            policy,
	})
}

// quickMerges is how many changes short work may merge. More may take longer than
// a workflow task should wait.
const quickMerges = 8

// quickly carries out work on a repository beside the workflow and, where it says that
// it would take long on this host (cold), takes long, or has many changes to merge, as
// an ordinary activity. The worker of either has the same answer. Work that has its
// place on one worker is never done beside the workflow.
func quickly[R any](ctx workflow.Context, at *place, name string, merges int, args func(quick bool) any, cold func(R) bool) (R, error) {
	var result R
	if merges <= quickMerges && at.worker == "" {
		err := workflow.ExecuteLocalActivity(quick(ctx), name, args(true)).Get(ctx, &result)
		if err != nil && !tryOrdinary(err) || err == nil && !cold(result) {
			return result, err
		}
	}
	var ordinary R
	err := at.activity(ctx, longWork, name, args(false)).Get(ctx, &ordinary)
	return ordinary, err
}

// childOptions makes a context for a child workflow on its agent's queue.
func childOptions(ctx workflow.Context, id, queue string) workflow.Context {
	return workflow.WithChildOptions(ctx, workflow.ChildWorkflowOptions{
		WorkflowID:            id,
		TaskQueue:             queue,
		WorkflowTaskTimeout:   contract.TaskTimeout,
		WaitForCancellation:   true,
		WorkflowIDReusePolicy: enumspb.WORKFLOW_ID_REUSE_POLICY_ALLOW_DUPLICATE,
		ParentClosePolicy:     enumspb.PARENT_CLOSE_POLICY_REQUEST_CANCEL,
	})
}
