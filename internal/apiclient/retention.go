package apiclient

import (
	"context"
	"strconv"

	"github.com/rocketgpt/orchestrator/internal/apitypes"
	"github.com/rocketgpt/orchestrator/internal/control"
	"github.com/rocketgpt/orchestrator/internal/retention"
	"github.com/rocketgpt/orchestrator/internal/store/retain"
)

// Clean deletes what is no longer needed.
func (c *Client) Clean(ctx context.Context, q control.Cleaning) (retention.CleanupReport, error) {
	r := command(q, "api", "cleanups")
	r.time = createTime // it looks at everything that is stored
	return ask[retention.CleanupReport](ctx, c, r)
}

// Cleanups returns at most limit clean-ups, newest first.
func (c *Client) Cleanups(ctx context.Context, limit int) ([]retain.Cleanup, error) {
	r := read("api", "cleanups")
	r.query = parameters("limit", strconv.Itoa(min(limit, maxPage)))
	list, err := ask[apitypes.CleanupList](ctx, c, r)
	return list.Cleanups, err
}

// Hold keeps the files of a run.
func (c *Client) Hold(ctx context.Context, id int64, reason, by string) (retain.Hold, error) {
	return ask[retain.Hold](ctx, c, command(apitypes.HoldRequest{Reason: reason, By: by}, runPath(id, "hold")...))
}

// ReleaseHold releases the hold of a run.
func (c *Client) ReleaseHold(ctx context.Context, id int64, by string) (retain.Hold, error) {
	return ask[retain.Hold](ctx, c, command(apitypes.Attribution{By: by}, runPath(id, "release-hold")...))
}
