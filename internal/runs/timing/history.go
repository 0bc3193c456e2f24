package timing

import (
	"context"
	"errors"
	"fmt"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"

	"github.com/rocketgpt/orchestrator/contract"
)

// History contains the timing data of workflow histories: git activities, and how long activities
// waited for a worker.
type History struct {
	Git, Queue Group
	Events     int
	Bytes      int
	Activities int
}

// gitActivities are the activities that spend their time on repositories. For model calls, tools
// and checks, the database rows are more accurate.
var gitActivities = map[string]bool{
	contract.ActivityOpenStep: true, contract.ActivityIntegrate: true, contract.ActivityRelease: true, contract.ActivityTestPlan: true,
}

// ReadHistory reads the histories of a run and of its steps.
func ReadHistory(ctx context.Context, c client.Client, runID int64, plan contract.Plan) (History, error) {
	h := History{Git: Group{Name: Git}, Queue: Group{Name: Queue}}
	ids := []string{contract.RunWorkflowID(runID)}
	for _, s := range plan.Steps {
		ids = append(ids, contract.StepWorkflowID(runID, s.ID))
	}
	for _, id := range ids {
		if err := h.read(ctx, c, id); err != nil {
			return h, fmt.Errorf("read the history of %s: %w", id, err)
		}
	}
	return h, nil
}

func (h *History) read(ctx context.Context, c client.Client, workflowID string) error {
	type activity struct {
		name string
		at   time.Time
	}
	scheduled, started := map[int64]activity{}, map[int64]time.Time{}
	events := c.GetWorkflowHistory(ctx, workflowID, "", false, enumspb.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
	for events.HasNext() {
		e, err := events.Next()
		var gone *serviceerror.NotFound
		if errors.As(err, &gone) {
			return nil // a step that never started has no history
		}
		if err != nil {
			return err
		}
		h.Events++
		h.Bytes += e.Size()
		at := e.GetEventTime().AsTime()
		switch a := e.GetAttributes().(type) {
		case *historypb.HistoryEvent_ActivityTaskScheduledEventAttributes:
			h.Activities++
			scheduled[e.GetEventId()] = activity{a.ActivityTaskScheduledEventAttributes.GetActivityType().GetName(), at}
		case *historypb.HistoryEvent_ActivityTaskStartedEventAttributes:
			id := a.ActivityTaskStartedEventAttributes.GetScheduledEventId()
			started[id] = at
			h.Queue.Spans = append(h.Queue.Spans, Span{scheduled[id].at, at})
		case *historypb.HistoryEvent_ActivityTaskCompletedEventAttributes:
			id := a.ActivityTaskCompletedEventAttributes.GetScheduledEventId()
			if gitActivities[scheduled[id].name] {
				h.Git.Spans = append(h.Git.Spans, Span{started[id], at})
			}
		}
	}
	return nil
}
