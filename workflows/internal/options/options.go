// Package options has the timeouts and retry policies of all activities and child workflows, and
// the search attributes that workflows set.
package options

import (
	"errors"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/rocketgpt/orchestrator/contract"
)

// All retry policies and timeouts of workflow code are here. Package fault defines how often each
// class of failure is retried, which applies where the activity fails; the policies here cover
// failures that never get that far, such as a lost worker.
const (
	// heartbeat is short enough that a dead worker is noticed within two seconds. Workers make it longer while they
	// have many activities in progress.
	heartbeat = 2 * time.Second
	// localTimeout bounds local activities on rows.
	localTimeout = time.Minute
	// localOnceTimeout bounds local activities on repositories. Longer work becomes an ordinary
	// activity: a workflow task must not wait.
	localOnceTimeout = 20 * time.Second
	// SaveTime is the additional time for saving a workspace after work on it.
	SaveTime = 5 * time.Minute
	// withoutEnd is the total time for work on rows, over all attempts: rows are written once the
	// database is available again. Temporal requires a limit.
	withoutEnd = 10 * 365 * 24 * time.Hour
	// ModelWait is how long a model call may wait for its turn: for a free slot at the
	// provider, or for budget that calls in progress have reserved.
	ModelWait = 2 * time.Hour
	// CoreWait is how long a check or a command may wait for a free core of its worker.
	CoreWait = 2 * time.Hour
	// LongWork bounds work on repositories: clones, merges, releases.
	LongWork = 30 * time.Minute
	// overhead is the time that an activity may take beyond its own timeout, so that its own,
	// better error comes first.
	overhead = 30 * time.Second
	// maxAttempts is how often other activities are attempted if their failures allow a retry: with
	// the waits in between (package fault), for most of a day. The worker limits attempts that end
	// without a result, for example because a worker died (worker.lost_attempts).
	maxAttempts = 2500
	// MemberPatience is how long the end of a deliberation waits for its members. They end
	// within seconds; those of a worker that is down end when it is back.
	MemberPatience = time.Minute
	// StopPatience is how long a deliberation that was asked to stop may take to end
	// before it is cancelled.
	StopPatience = 5 * time.Second
	// JudgePatience is how long a judge of attempts may take, with retries and waiting for the
	// provider. After that, the attempts are decided without it.
	JudgePatience = 15 * time.Minute
	// AnswerTime bounds one attempt to answer a comment, and AnswerPatience all of them: meanwhile, the
	// next message about the branch waits.
	AnswerTime     = 2 * time.Minute
	AnswerPatience = 15 * time.Minute
	// LinkTime bounds one attempt to bring the pull requests of a change set up to date, and LinkPatience
	// all of them; then the next look tries again.
	LinkTime     = 5 * time.Minute
	LinkPatience = 30 * time.Minute
	// CleanUpTimeout bounds the last writes of a stopped run.
	CleanUpTimeout = 2 * time.Minute
)

// retryPolicy lets the failure itself decide whether and when it is retried (see
// package fault), up to most attempts; 0 means any number.
func retryPolicy(most int32) *temporal.RetryPolicy {
	return &temporal.RetryPolicy{
		InitialInterval:    100 * time.Millisecond,
		BackoffCoefficient: 1.5,
		MaximumInterval:    10 * time.Second,
		MaximumAttempts:    most,
	}
}

// Local returns a context for local activities on rows: idempotent work under two
// seconds, which waits for the database without limit.
func Local(ctx workflow.Context) workflow.Context {
	return workflow.WithLocalActivityOptions(ctx, workflow.LocalActivityOptions{
		StartToCloseTimeout:    localTimeout,
		ScheduleToCloseTimeout: withoutEnd, // else the SDK uses localTimeout for all attempts together
		RetryPolicy:            retryPolicy(0),
	})
}

// LocalOnce returns a context for one attempt at local work on a repository.
func LocalOnce(ctx workflow.Context) workflow.Context {
	return workflow.WithLocalActivityOptions(ctx, workflow.LocalActivityOptions{
		StartToCloseTimeout: localOnceTimeout,
		RetryPolicy:         &temporal.RetryPolicy{MaximumAttempts: 1},
	})
}

// RunRemotely reports whether work that failed as a local activity must be done as an
// ordinary one: it took too long, or its failure allows a retry.
func RunRemotely(err error) bool {
	var timeout *temporal.TimeoutError
	var failed *temporal.ApplicationError
	return errors.As(err, &timeout) || errors.As(err, &failed) && !failed.NonRetryable()
}

// Remote returns a context for ordinary activities on a queue, each bounded by most.
func Remote(ctx workflow.Context, queue string, most time.Duration) workflow.Context {
	return workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		TaskQueue:           queue,
		StartToCloseTimeout: most + overhead,
		HeartbeatTimeout:    heartbeat,
		WaitForCancellation: true,
		RetryPolicy:         retryPolicy(maxAttempts),
	})
}

// WithSummary returns a context for activities that Temporal's user interface shows with a summary; empty: none.
func WithSummary(ctx workflow.Context, summary string) workflow.Context {
	if summary == "" {
		return ctx
	}
	with := workflow.GetActivityOptions(ctx)
	with.Summary = summary
	return workflow.WithActivityOptions(ctx, with)
}

// Judge returns a context for the call of a judge of attempts.
func Judge(ctx workflow.Context, most time.Duration) workflow.Context {
	return workflow.WithScheduleToCloseTimeout(Remote(ctx, contract.QueuePlanner, min(most, JudgePatience)), JudgePatience)
}

// Review returns a context for a review by a model, whose calls take at most most together.
func Review(ctx workflow.Context, most time.Duration) workflow.Context {
	return Remote(ctx, contract.QueuePlanner, most+ModelWait)
}

// Answer returns a context for a comment on a forge and similar work, which is given up after some time:
// other work waits for it.
func Answer(ctx workflow.Context) workflow.Context {
	return workflow.WithScheduleToCloseTimeout(Remote(ctx, contract.QueueReleaser, AnswerTime), AnswerPatience)
}

// Link returns a context for bringing the pull requests of a change set up to date.
func Link(ctx workflow.Context) workflow.Context {
	return workflow.WithScheduleToCloseTimeout(Remote(ctx, contract.QueueReleaser, LinkTime), LinkPatience)
}

// Persistent returns a context for a deliberation's activities on its rows and files: ordinary
// activities, so that they are in the history before they complete. They are retried while the
// database is down.
func Persistent(ctx workflow.Context) workflow.Context {
	return workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		TaskQueue:              contract.QueueRun,
		StartToCloseTimeout:    localTimeout,
		ScheduleToCloseTimeout: withoutEnd,
		HeartbeatTimeout:       heartbeat,
		RetryPolicy:            retryPolicy(0),
	})
}

// Child returns a context for a child workflow on its agent's queue.
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

// NewTask starts a new workflow task. A replay of a run from a phase discards the whole task in
// which the phase began: without this, it would also discard preparations and answers just before
// it. A timer is the only command that starts a new task without any other effect.
func NewTask(ctx workflow.Context) error { return workflow.Sleep(ctx, time.Millisecond) }
