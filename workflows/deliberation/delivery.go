package deliberation

import (
	"errors"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/fault"
	"github.com/rocketgpt/orchestrator/workflows/internal/commands"
	"github.com/rocketgpt/orchestrator/workflows/internal/options"
)

// deliver waits until a signal between a deliberation and a member has arrived. If Temporal accepts
// no more signals for the receiver because it was flooded, deliver sends an update instead.
func deliver(ctx workflow.Context, signal workflow.Future, in contract.DeliverInput) error {
	err := signal.Get(ctx, nil)
	if err == nil || ctx.Err() != nil || hasEnded(err) {
		return err
	}
	return workflow.ExecuteActivity(options.Persistent(ctx), contract.ActivityDeliver, in).Get(ctx, nil)
}

// hasEnded reports whether a delivery failed because the receiving workflow has ended.
func hasEnded(err error) bool {
	var gone *temporal.UnknownExternalWorkflowExecutionError
	return errors.As(err, &gone) || fault.Of(err).Code == contract.CodeCancelled
}

// validateMoves rejects moves that are not from a member. It changes no state.
func (d *deliberation) validateMoves(_ workflow.Context, m contract.Moves) error {
	if s := d.ByToken(m.Token); s == nil || s.Member != m.Member {
		return commands.Rejected("these moves are not from a member of pipeline %d", d.Input.PipelineID)
	}
	return nil
}

// acceptMoveUpdates also accepts moves that are sent as updates.
func (d *deliberation) acceptMoveUpdates(ctx workflow.Context) error {
	return workflow.SetUpdateHandlerWithOptions(ctx, contract.SignalMoves, func(ctx workflow.Context, m contract.Moves) error {
		d.Receive(m, workflow.Now(ctx))
		d.dirty = true
		return nil
	}, workflow.UpdateHandlerOptions{Validator: d.validateMoves})
}

// turnBuffer is the number of turns that can wait to be read. A deliberation sends one at a time.
const turnBuffer = 4

// acceptTurnUpdates also accepts turns that are sent as updates.
func (m *member) acceptTurnUpdates(ctx workflow.Context) error {
	m.delivered = workflow.NewBufferedChannel(ctx, turnBuffer)
	return workflow.SetUpdateHandlerWithOptions(ctx, contract.SignalTurn, func(_ workflow.Context, t contract.Turn) error {
		if !m.delivered.SendAsync(t) {
			return commands.Rejected("%s already has %d turns waiting", m.in.Member, turnBuffer)
		}
		return nil
	}, workflow.UpdateHandlerOptions{Validator: func(_ workflow.Context, t contract.Turn) error {
		if !m.isOwn(t) {
			return commands.Rejected("this turn does not belong to the deliberation of %s", m.in.Member)
		}
		return nil
	}})
}

// isOwn reports whether a turn comes from the member's deliberation.
func (m *member) isOwn(t contract.Turn) bool { return t.Token == m.in.Token }
