package apiclient

import (
	"context"
	"strconv"

	"github.com/rocketgpt/orchestrator/internal/apitypes"
	"github.com/rocketgpt/orchestrator/internal/control"
	"github.com/rocketgpt/orchestrator/internal/store/triggers"
)

// Triggers returns the triggers of the server's configuration, by name.
func (c *Client) Triggers(ctx context.Context) ([]control.Trigger, error) {
	list, err := ask[apitypes.TriggerList](ctx, c, read("api", "triggers"))
	return list.Triggers, err
}

// Trigger returns a trigger.
func (c *Client) Trigger(ctx context.Context, name string) (control.Trigger, error) {
	return ask[control.Trigger](ctx, c, read("api", "triggers", name))
}

// FireTrigger fires a trigger.
func (c *Client) FireTrigger(ctx context.Context, name string, f control.TriggerFire) (triggers.Firing, error) {
	return ask[triggers.Firing](ctx, c, command(f, "api", "triggers", name, "fire"))
}

// PauseTrigger pauses a trigger.
func (c *Client) PauseTrigger(ctx context.Context, name string, p control.TriggerPause) (control.Trigger, error) {
	return ask[control.Trigger](ctx, c, command(p, "api", "triggers", name, "pause"))
}

// ResumeTrigger ends the pause of a trigger.
func (c *Client) ResumeTrigger(ctx context.Context, name, by string) (control.Trigger, error) {
	return ask[control.Trigger](ctx, c, command(map[string]string{"by": by}, "api", "triggers", name, "resume"))
}

// TriggerDeliveries returns deliveries of triggers, newest first.
func (c *Client) TriggerDeliveries(ctx context.Context, f triggers.Filter) (control.TriggerDeliveries, error) {
	r := read("api", "trigger-deliveries")
	r.query = parameters("trigger", f.Trigger, "state", string(f.State), "before", strconv.FormatInt(f.Before, 10), "limit", strconv.Itoa(f.Limit))
	return ask[control.TriggerDeliveries](ctx, c, r)
}

// RedeliverTrigger lets a delivery wait again.
func (c *Client) RedeliverTrigger(ctx context.Context, id int64, by string) (triggers.Firing, error) {
	return ask[triggers.Firing](ctx, c, command(map[string]string{"by": by}, "api", "trigger-deliveries", strconv.FormatInt(id, 10), "redeliver"))
}
