package apiclient

import (
	"context"
	"fmt"
	"net/url"

	"github.com/rocketgpt/orchestrator/internal/control"
)

// PullRequests returns the pull requests of runs, newest first, as last seen.
func (c *Client) PullRequests(ctx context.Context, f control.PullRequestFilter) (control.PullRequestPage, error) {
	r := read("api", "pull-requests")
	r.query = url.Values{"limit": {fmt.Sprint(f.Limit)}}
	if f.State != "" {
		r.query.Set("state", string(f.State))
	}
	if f.Before != 0 {
		r.query.Set("before", fmt.Sprint(f.Before))
	}
	return ask[control.PullRequestPage](ctx, c, r)
}
