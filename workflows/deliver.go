package workflows

import (
	"errors"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/fault"
)

// deliver waits until a signal between a deliberation and a member has arrived.
// Where Temporal takes no more signals for the other one, because somebody has
// flooded it, it goes on its way as an update.
func deliver(ctx workflow.Context, signal workflow.Future, in contract.DeliverInput) error {
	err := signal.Get(ctx, nil)
	if err == nil || ctx.Err() != nil || ended(err) {
		return err
	}
	return workflow.ExecuteActivity(recording(ctx), contract.ActivityDeliver, in).Get(ctx, nil)
}

// ended reports whether something could not be delivered because the workflow that
// it was for has ended.
func ended(err error) bool {
	var gone *temporal.UnknownExternalWorkflowExecutionError
	return errors.As(err, &gone) || fault.Of(err).Code == contract.CodeCancelled
}

// knows says why moves cannot be a member's. It changes nothing.
func (d *deliberation) knows(_ workflow.Context, m contract.Moves) error {
	if s := d.owner(m.Token); s == nil || s.member != m.Member {
		return rejected("these moves are of no member of pipeline %d", d.in.PipelineID)
	}
	return nil
}

// deliverable lets moves come as an update, too.
func (d *deliberation) deliverable(ctx workflow.Context) error {
	return workflow.SetUpdateHandlerWithOptions(ctx, contract.SignalMoves, func(ctx workflow.Context, m contract.Moves) error {
		d.hear(m, workflow.Now(ctx))
		d.stirred = true
		return nil
	}, workflow.UpdateHandlerOptions{Validator: d.knows})
}

// heldGrants is how many turns wait to be read. A deliberation gives one at a time.
const heldGrants = 4

// deliverable lets turns come as an update, too.
func (m *member) deliverable(ctx workflow.Context) error {
	m.delivered = workflow.NewBufferedChannel(ctx, heldGrants)
	return workflow.SetUpdateHandlerWithOptions(ctx, contract.SignalTurn, func(_ workflow.Context, t contract.Turn) error {
		if !m.delivered.SendAsync(t) {
			return rejected("%s has %d turns before it", m.in.Member, heldGrants)
		}
		return nil
	}, workflow.UpdateHandlerOptions{Validator: func(_ workflow.Context, t contract.Turn) error {
		if !m.given(t) {
			return rejected("this turn is not of the deliberation of %s", m.in.Member)
		}
		return nil
	}})
}

// given reports whether a turn is from the member's deliberation.
func (m *member) given(t contract.Turn) bool { return t.Token == m.in.Token }
