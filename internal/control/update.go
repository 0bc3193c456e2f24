package control

import (
	"context"
	"errors"
	"strings"
	"time"

	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"

	"github.com/rocketgpt/orchestrator/contract"
)

// notReadyPoll is how often an update is sent again whose workflow task did not
// complete.
const notReadyPoll = 200 * time.Millisecond

// update sends an update to a workflow and reads its answer. If the workflow task for
// it did not complete, for example because the workflow was about to end and something
// else arrived, Temporal returns the update: it is sent again, and finds a workflow
// that accepts it or has ended. If Temporal takes no more updates for a workflow the
// command is sent as a signal: errSentWithoutAnswer.
func update(ctx context.Context, temporal client.Client, workflow, name, updateID string, args, answer any) error {
	tick := time.NewTicker(notReadyPoll)
	defer tick.Stop()
	for {
		handle, err := temporal.UpdateWorkflow(ctx, client.UpdateWorkflowOptions{
			WorkflowID: workflow, UpdateID: updateID, UpdateName: name, Args: []any{args}, WaitForStage: client.WorkflowUpdateStageCompleted,
		})
		if err == nil {
			err = handle.Get(ctx, answer)
		}
		var unready *serviceerror.WorkflowNotReady
		switch {
		case err == nil:
			return nil
		case tooManyUpdates(err):
			return signal(ctx, temporal, workflow, name, args)
		case !errors.As(err, &unready):
			return err
		}
		select {
		case <-ctx.Done():
			return errors.Join(ctx.Err(), err)
		case <-tick.C:
		}
	}
}

// errSentWithoutAnswer is the answer to a command that was sent without a way to answer it.
var errSentWithoutAnswer = errors.New("sent without a response")

// sentWithoutAnswer returns that message for people.
func sentWithoutAnswer(name string) string {
	return "has reached Temporal's limit of commands for a workflow; " + name + " was sent without waiting for a response: see its events for the result"
}

// tooManyUpdates reports whether Temporal refused an update because a workflow has had too many.
func tooManyUpdates(err error) bool {
	var refused *serviceerror.FailedPrecondition
	return errors.As(err, &refused) && strings.Contains(refused.Message, "total number of distinct updates")
}

// signal sends a command as the signal of the same name. A stop also reaches a workflow
// that takes no more signals: as a cancellation, which means the same.
func signal(ctx context.Context, temporal client.Client, workflow, name string, args any) error {
	err := temporal.SignalWorkflow(ctx, workflow, "", name, args)
	var tooMany *serviceerror.InvalidArgument
	if name == contract.UpdateStop && errors.As(err, &tooMany) {
		err = temporal.CancelWorkflow(ctx, workflow, "")
	}
	if err != nil {
		return err
	}
	return errSentWithoutAnswer
}
