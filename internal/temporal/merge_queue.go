package temporal

import (
	"context"
	"errors"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"

	"github.com/rocketgpt/orchestrator/contract"
)

const (
	// queueAttempts is how often a command is sent to a merge queue that ends just then.
	queueAttempts = 5
	queueRetry    = 200 * time.Millisecond
)

// CommandQueue sends a command to a merge queue, whose workflow is started if it does not run. The id of
// the command makes it idempotent.
func CommandQueue(ctx context.Context, c client.Client, q contract.QueueRef, cmd contract.QueueCommand) (ack contract.QueueAck, err error) {
	for range queueAttempts {
		start := c.NewWithStartWorkflowOperation(client.StartWorkflowOptions{
			ID:                       contract.MergeQueueWorkflowID(q),
			TaskQueue:                contract.QueueRun,
			WorkflowTaskTimeout:      contract.TaskTimeout,
			WorkflowIDConflictPolicy: enumspb.WORKFLOW_ID_CONFLICT_POLICY_USE_EXISTING,
			WorkflowIDReusePolicy:    enumspb.WORKFLOW_ID_REUSE_POLICY_ALLOW_DUPLICATE,
		}, contract.WorkflowMergeQueue, contract.MergeQueueInput{Queue: q})
		var sent client.WorkflowUpdateHandle
		sent, err = c.UpdateWithStartWorkflow(ctx, client.UpdateWithStartWorkflowOptions{
			StartWorkflowOperation: start,
			UpdateOptions: client.UpdateWorkflowOptions{
				UpdateName: contract.UpdateQueue, UpdateID: cmd.ID, WaitForStage: client.WorkflowUpdateStageCompleted, Args: []any{cmd},
			},
		})
		if err == nil {
			err = sent.Get(ctx, &ack)
		}
		if !endedMeanwhile(err) {
			return ack, err
		}
		select {
		case <-ctx.Done():
			return ack, ctx.Err()
		case <-time.After(queueRetry):
		}
	}
	return ack, err
}

// endedMeanwhile reports whether a command was not accepted because the workflow ended: another one can be
// started.
func endedMeanwhile(err error) bool {
	var over *serviceerror.NotFound
	var app *temporal.ApplicationError
	return errors.As(err, &over) || errors.As(err, &app) && app.Type() == "AcceptedUpdateCompletedWorkflow"
}
