package apiclient

import (
	"context"
	"fmt"
	"net/url"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/apitypes"
	"github.com/rocketgpt/orchestrator/internal/control"
	"github.com/rocketgpt/orchestrator/internal/store/mergequeues"
)

// MergeQueues returns merge queues as last stored, those that changed last first.
func (c *Client) MergeQueues(ctx context.Context, f mergequeues.Filter) ([]mergequeues.MergeQueue, error) {
	r := read("api", "merge-queues")
	r.query = url.Values{"forge": {f.Forge}, "repository": {f.Repo}, "base": {f.Base}, "ended": {fmt.Sprint(f.Ended)}}
	list, err := ask[apitypes.MergeQueues](ctx, c, r)
	return list.MergeQueues, err
}

// CommandQueue carries out a command to a merge queue.
func (c *Client) CommandQueue(ctx context.Context, q control.QueueRequest) (contract.QueueAck, error) {
	return ask[contract.QueueAck](ctx, c, command(apitypes.QueueRequest{
		Attribution: apitypes.Attribution{By: q.By, Reason: q.Reason}, PullRequest: q.PullRequest, Forge: q.Queue.Forge, Repository: q.Queue.Repo, Base: q.Queue.Base,
	}, "api", "merge-queues", string(q.Action)))
}
