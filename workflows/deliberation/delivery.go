package deliberation

import (
	"errors"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/fault"
	"github.com/rocketgpt/orchestrator/workflows/internal/flow"
)

// deliver waits until a signal between a deliberation and a member has arrived.
// Where Temporal takes no more signals for the other one, because somebody has
// flooded it, it goes on its way as an update.
func deliver(ctx workflow.Context, signal workflow.Future, in contract.DeliverInput) error {
	err := signal.Get(ctx, nil)
	if err == nil || ctx.Err() != nil || hasEnded(err) {
		return err
	}
	return workflow.ExecuteActivity(flow.Persistent(ctx), contract.ActivityDeliver, in).Get(ctx, nil)
}

// hasEnded reports whether something could not be delivered because the workflow that
// it was for has ended.
func hasEnded(err error) bool {
	var gone *temporal.UnknownExternalWorkflowExecutionError
	return errors.As(err, &gone) || fault.Of(err).Code == contract.CodeCancelled
}

// validateMoves says why moves cannot be a member's. It changes nothing.
func (d *deliberation) validateMoves(_ workflow.Context, m contract.Moves) error {
	if s := d.ByToken(m.Token); s == nil || s.Member != m.Member {
		return flow.Rejected("these moves are of no member of pipeline %d", d.Input.PipelineID)
	}
	return nil
}

// acceptMoveUpdates lets moves come as an update, too.
func (d *deliberation) acceptMoveUpdates(ctx workflow.Context) error {
	return workflow.SetUpdateHandlerWithOptions(ctx, contract.SignalMoves, func(ctx workflow.Context, m contract.Moves) error {
		d.Receive(m, workflow.Now(ctx))
		d.dirty = true
		return nil
	}, workflow.UpdateHandlerOptions{Validator: d.validateMoves})
}

// turnBuffer is how many turns wait to be read. A deliberation gives one at a time.
const turnBuffer = 4

// acceptTurnUpdates lets turns come as an update, too.
func (m *member) acceptTurnUpdates(ctx workflow.Context) error {
	m.delivered = workflow.NewBufferedChannel(ctx, turnBuffer)
	return workflow.SetUpdateHandlerWithOptions(ctx, contract.SignalTurn, func(_ workflow.Context, t contract.Turn) error {
		if !m.delivered.SendAsync(t) {
			return flow.Rejected("%s has %d turns before it", m.in.Member, turnBuffer)
		}
		return nil
	}, workflow.UpdateHandlerOptions{Validator: func(_ workflow.Context, t contract.Turn) error {
		if !m.isOwn(t) {
			return flow.Rejected("this turn is not of the deliberation of %s", m.in.Member)
		}
		return nil
	}})
}

// isOwn reports whether a turn is from the member's deliberation.
func (m *member) isOwn(t contract.Turn) bool { return t.Token == m.in.Token }
