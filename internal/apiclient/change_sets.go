package apiclient

import (
	"context"
	"fmt"
	"net/url"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/apitypes"
	"github.com/rocketgpt/orchestrator/internal/store/changesets"
)

// ChangeSets returns the newest change sets, only those before an id of an earlier page unless before is 0.
func (c *Client) ChangeSets(ctx context.Context, before int64, most int) (changesets.Page, error) {
	r := read("api", "change-sets")
	r.query = url.Values{"before": {fmt.Sprint(before)}, "limit": {fmt.Sprint(most)}}
	list, err := ask[apitypes.ChangeSets](ctx, c, r)
	return changesets.Page{Sets: list.ChangeSets, Next: list.Next}, err
}

// ChangeSet returns a change set.
func (c *Client) ChangeSet(ctx context.Context, id int64) (changesets.Set, error) {
	return ask[changesets.Set](ctx, c, read("api", "change-sets", fmt.Sprint(id)))
}

// StopChangeSet stops all runs of a change set that have not ended.
func (c *Client) StopChangeSet(ctx context.Context, id int64, w contract.Command) (changesets.Set, error) {
	return ask[changesets.Set](ctx, c, command(attribution(w), "api", "change-sets", fmt.Sprint(id), "stop"))
}

// ReleaseChangeSet releases the runs of a change set that are ready, without waiting for the others.
func (c *Client) ReleaseChangeSet(ctx context.Context, id int64, w contract.Command) (changesets.Set, error) {
	return ask[changesets.Set](ctx, c, command(attribution(w), "api", "change-sets", fmt.Sprint(id), "release"))
}
