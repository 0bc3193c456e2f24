package activities

import (
	"context"
	"time"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/store/triggers"
)

// Trigger adds a time of its schedule to a trigger. A repeat has no effect.
func (a *Activities) Trigger(ctx context.Context, in contract.TriggerTime) error {
	_, err := triggers.Add(ctx, a.Store, triggers.Delivery{
		Trigger: in.Trigger, Key: "schedule:" + in.At.UTC().Format(time.RFC3339), OccurredAt: in.At,
	})
	return err
}
