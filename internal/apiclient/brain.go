package apiclient

import (
	"context"

	"github.com/rocketgpt/orchestrator/internal/apitypes"
	"github.com/rocketgpt/orchestrator/internal/brain"
	"github.com/rocketgpt/orchestrator/internal/control"
)

// IndexRepository indexes a commit of a repository on the server's host. It reports no progress.
func (c *Client) IndexRepository(ctx context.Context, repo, rev string, _ func(brain.Progress)) (control.Indexed, error) {
	r := command(apitypes.IndexRequest{Repo: repo, Rev: rev}, "api", "brain", "index")
	r.time = createTime // its repository may have to be fetched first
	return ask[control.Indexed](ctx, c, r)
}

// BrainStats returns what is indexed on the server's host and in the database.
func (c *Client) BrainStats(ctx context.Context) (brain.Stats, error) {
	return ask[brain.Stats](ctx, c, read("api", "brain", "stats"))
}
