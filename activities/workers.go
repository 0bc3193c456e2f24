package activities

import (
	"context"
	"slices"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	taskqueuepb "go.temporal.io/api/taskqueue/v1"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/fault"
)

// seenWithin is how recently a worker must have polled a queue to count as running: a
// poll stays open for a minute, then the next one follows.
const seenWithin = 75 * time.Second

// Workers returns the workers that serve a queue and have their own queue, latest poll first. A
// worker that died within seenWithin may be among them: the caller must not wait for it forever.
func (a *Activities) Workers(ctx context.Context, in contract.WorkersInput) (contract.WorkersResult, error) {
	var out contract.WorkersResult
	pollers, err := a.pollers(ctx, in.Queue)
	if err != nil {
		return out, err
	}
	slices.SortStableFunc(pollers, func(x, y *taskqueuepb.PollerInfo) int {
		return y.GetLastAccessTime().AsTime().Compare(x.GetLastAccessTime().AsTime())
	})
	for _, p := range pollers {
		own, err := a.pollers(ctx, contract.QueueOfWorker(p.GetIdentity()))
		if err != nil {
			return out, err
		}
		if len(own) > 0 && !slices.Contains(out.Workers, p.GetIdentity()) {
			out.Workers = append(out.Workers, p.GetIdentity())
		}
	}
	return out, nil
}

// pollers returns the workers that have recently polled a queue for activities.
func (a *Activities) pollers(ctx context.Context, queue string) ([]*taskqueuepb.PollerInfo, error) {
	answer, err := a.Temporal.DescribeTaskQueue(ctx, queue, enumspb.TASK_QUEUE_TYPE_ACTIVITY)
	if err != nil {
		return nil, fault.Wrap(err, contract.ClassInfra, contract.CodeUnavailable, "Temporal did not report which workers serve queue %s", queue)
	}
	return slices.DeleteFunc(answer.GetPollers(), func(p *taskqueuepb.PollerInfo) bool {
		return time.Since(p.GetLastAccessTime().AsTime()) > seenWithin
	}), nil
}
