package activities

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"

	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/fault"
)

// Deliver sends a turn to a member, or moves to a deliberation, as an update. A repeat is the same
// update, which is applied once. Its id cannot be guessed: Temporal would treat ours as a repeat of
// a forged update with the same id.
func (a *Activities) Deliver(ctx context.Context, in contract.DeliverInput) error {
	o := client.UpdateWorkflowOptions{WorkflowID: in.WorkflowID, WaitForStage: client.WorkflowUpdateStageCompleted}
	switch {
	case in.Turn != nil:
		o.UpdateName, o.UpdateID, o.Args = contract.SignalTurn, updateID(in.Turn.Token, in.Turn.Number), []any{in.Turn}
	case in.Moves != nil:
		o.UpdateName, o.UpdateID, o.Args = contract.SignalMoves, updateID(in.Moves.Token, in.Moves.Turn), []any{in.Moves}
	default:
		return fault.New(contract.ClassRuntime, contract.CodeUnknown, "no message to deliver to %s", in.WorkflowID)
	}
	handle, err := a.Temporal.UpdateWorkflow(ctx, o)
	if err == nil {
		err = handle.Get(ctx, nil)
	}
	var refusal *temporal.ApplicationError
	var gone *serviceerror.NotFound
	switch {
	case err == nil, errors.As(err, &refusal):
		return err
	case errors.As(err, &gone):
		return fault.Wrap(err, contract.ClassRuntime, contract.CodeCancelled, "%s has ended; the message arrived too late", in.WorkflowID)
	}
	return fault.Wrap(err, contract.ClassInfra, contract.CodeUnavailable, "could not deliver a message to %s", in.WorkflowID)
}

// updateID identifies a turn with a token that only a deliberation and its member know.
func updateID(token string, turn int) string {
	return fmt.Sprintf("%x", sha256.Sum256(fmt.Appendf(nil, "%s %d", token, turn)))
}
