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

// notReadyPoll is the interval between attempts to send an update whose workflow task did not
// complete.
const notReadyPoll = 200 * time.Millisecond

// update sends an update to a workflow and reads the response. If the workflow task for it did not
// complete, for example because another event arrived while the workflow was about to end, Temporal
// returns the update. It is then sent again until the workflow accepts it or has ended. If Temporal
// accepts no more updates for a workflow, the command is sent as a signal and the error is
// errSentWithoutAnswer.
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

// errSentWithoutAnswer is the error for a command that was sent without waiting for a response.
var errSentWithoutAnswer = errors.New("sent without waiting for a response")

// sentWithoutAnswer returns the message for people about such a command.
func sentWithoutAnswer(name string) string {
	return "has reached Temporal's limit on updates per workflow, so " + name + " was sent without waiting for a response; the result will appear in the events"
}

// tooManyUpdates reports whether Temporal rejected an update because a workflow has received too
// many.
func tooManyUpdates(err error) bool {
	var refused *serviceerror.FailedPrecondition
	return errors.As(err, &refused) && strings.Contains(refused.Message, "total number of distinct updates")
}

// signal sends a command as the signal of the same name. If the workflow accepts no more signals, a
// stop is sent as a cancellation, which has the same effect.
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
