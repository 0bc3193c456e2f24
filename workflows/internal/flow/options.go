package flow

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
	// localTimeout bounds local activities on rows.
	localTimeout = time.Minute
	// localOnceTimeout bounds local activities on repositories. What takes longer becomes an
	// ordinary activity: a workflow task is no place to wait in.
	localOnceTimeout = 20 * time.Second
	// SaveTime is what keeping a workspace may take after work on it, beside the
	// time of the work.
	SaveTime = 5 * time.Minute
	// withoutEnd is the time that work on rows has, all its tries together: what a run
	// knows is written whenever the database is back. Temporal wants some limit.
	withoutEnd = 10 * 365 * 24 * time.Hour
	// ModelWait is how long a model call may wait for its turn: for a provider's
	// free place, or for budget that calls in flight hold.
	ModelWait = 2 * time.Hour
	// LongWork bounds work on repositories: clones, merges, releases.
	LongWork = 30 * time.Minute
	// overhead is what an activity may take beyond the time-out that it
	// enforces itself, so that its own, better error comes first.
	overhead = 30 * time.Second
	// maxAttempts is how often other activities are tried whose failures allow another
	// try: with the waits between them (package fault), for most of a day. Attempts that
	// ended without a word, as of a worker that died, are bounded by the worker
	// (worker.lost_attempts).
	maxAttempts = 2500
	// MemberPatience is how long the end of a deliberation waits for its members.
	// They end within seconds; those of a worker that is away do when it is back.
	MemberPatience = time.Minute
	// StopPatience is how long a deliberation that was told to stop may take to end
	// before it is cancelled.
	StopPatience = 5 * time.Second
	// CleanUpTimeout bounds the last words of a stopped run.
	CleanUpTimeout = 2 * time.Minute
)

// retryPolicy leaves it to the failure itself whether and when it is tried again (see
// package fault), up to most tries; 0 stands for any number.
func retryPolicy(most int32) *temporal.RetryPolicy {
	return &temporal.RetryPolicy{
		InitialInterval:    100 * time.Millisecond,
		BackoffCoefficient: 1.5,
		MaximumInterval:    10 * time.Second,
		MaximumAttempts:    most,
	}
}

// Local makes a context for local activities on rows: idempotent work under two
// seconds, which waits for the database without end.
func Local(ctx workflow.Context) workflow.Context {
	return workflow.WithLocalActivityOptions(ctx, workflow.LocalActivityOptions{
		StartToCloseTimeout:    localTimeout,
		ScheduleToCloseTimeout: withoutEnd, // else the SDK takes localTimeout for all tries together
		RetryPolicy:            retryPolicy(0),
	})
}

// LocalOnce makes a context for one attempt at work on a repository beside the workflow.
func LocalOnce(ctx workflow.Context) workflow.Context {
	return workflow.WithLocalActivityOptions(ctx, workflow.LocalActivityOptions{
		StartToCloseTimeout: localOnceTimeout,
		RetryPolicy:         &temporal.RetryPolicy{MaximumAttempts: 1},
	})
}

// RunRemotely reports whether work that failed beside its workflow is to be done as
// an ordinary activity: it took too long, or its failure allows another try.
func RunRemotely(err error) bool {
	var timeout *temporal.TimeoutError
	var failed *temporal.ApplicationError
	return errors.As(err, &timeout) || errors.As(err, &failed) && !failed.NonRetryable()
}

// Remote makes a context for ordinary activities on a queue, each bounded by most.
func Remote(ctx workflow.Context, queue string, most time.Duration) workflow.Context {
	return workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		TaskQueue:           queue,
		StartToCloseTimeout: most + overhead,
		HeartbeatTimeout:    heartbeat,
		WaitForCancellation: true,
		RetryPolicy:         retryPolicy(maxAttempts),
	})
}

// Persistent makes a context for work of deliberations on their rows and files: an
// ordinary activity, so that it stands in the history before it is done. It is
// tried again while the database is away.
func Persistent(ctx workflow.Context) workflow.Context {
	return workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		TaskQueue:              contract.QueueRun,
		StartToCloseTimeout:    localTimeout,
		ScheduleToCloseTimeout: withoutEnd,
		HeartbeatTimeout:       heartbeat,
		RetryPolicy:            retryPolicy(0),
	})
}

// LocalMerges is how many changes short work may merge. More may take longer than
// a workflow task should wait.
const LocalMerges = 8

// LocalFirst carries out work on a repository beside the workflow and, where it says that
// it would take long on this host (cold), takes long, or has many changes to merge, as
// an ordinary activity. The worker of either has the same answer. Work that has its
// place on one worker is never done beside the workflow.
func LocalFirst[R any](ctx workflow.Context, at *Affinity, name string, merges int, args func(quick bool) any, cold func(R) bool) (R, error) {
	var result R
	if merges <= LocalMerges && at.Worker == "" {
		err := workflow.ExecuteLocalActivity(LocalOnce(ctx), name, args(true)).Get(ctx, &result)
		if err != nil && !RunRemotely(err) || err == nil && !cold(result) {
			return result, err
		}
	}
	var ordinary R
	err := at.Execute(ctx, LongWork, name, args(false)).Get(ctx, &ordinary)
	return ordinary, err
}

// Child makes a context for a child workflow on its agent's queue.
func Child(ctx workflow.Context, id, queue string) workflow.Context {
	return workflow.WithChildOptions(ctx, workflow.ChildWorkflowOptions{
		WorkflowID:            id,
		TaskQueue:             queue,
		WorkflowTaskTimeout:   contract.TaskTimeout,
		WaitForCancellation:   true,
		WorkflowIDReusePolicy: enumspb.WORKFLOW_ID_REUSE_POLICY_ALLOW_DUPLICATE,
		ParentClosePolicy:     enumspb.PARENT_CLOSE_POLICY_REQUEST_CANCEL,
	})
}

// NewTask lets what follows begin in a workflow task of its own. A replay of a run
// from a phase forgets all of the task in which the phase began: without this, also
// what was prepared or answered just before it. A timer is the one command that makes
// a new task and has no effect.
func NewTask(ctx workflow.Context) error { return workflow.Sleep(ctx, time.Millisecond) }
