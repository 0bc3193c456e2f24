package harness

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/workflows"
)

// History is Temporal's history of one workflow.
type History struct {
	WorkflowID string
	*historypb.History
}

// Histories reads the histories of a run, its steps and its heals.
func (s *Stack) Histories(tb testing.TB, run int64) []History {
	tb.Helper()
	ids := []string{contract.RunWorkflowID(run)}
	if plan, err := s.Store(tb).Plan(tb.Context(), run); err == nil {
		for _, step := range plan.Steps {
			ids = append(ids, contract.StepWorkflowID(run, step.ID))
		}
	}
	heals, err := s.Store(tb).Heals(tb.Context(), run)
	require.NoError(tb, err)
	for _, h := range heals {
		ids = append(ids, contract.HealWorkflowID(run, h.Number), contract.RepairWorkflowID(run, h.Number))
	}
	return s.HistoriesOf(tb, ids...)
}

// HistoriesOf reads the histories of workflows, of which the first must exist.
func (s *Stack) HistoriesOf(tb testing.TB, ids ...string) []History {
	tb.Helper()
	c := s.Temporal(tb)
	var all []History
	for _, id := range ids {
		events := c.GetWorkflowHistory(tb.Context(), id, "", false, enumspb.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
		h := History{WorkflowID: id, History: &historypb.History{}}
		for events.HasNext() {
			e, err := events.Next()
			var gone *serviceerror.NotFound
			if errors.As(err, &gone) && id != ids[0] {
				break // a step that never started has none
			}
			require.NoError(tb, err, id)
			h.Events = append(h.Events, e)
		}
		if len(h.Events) > 0 {
			all = append(all, h)
		}
	}
	return all
}

// Follow calls tell once for each event of a workflow's history, in order and as it is recorded,
// until the workflow is closed or tell asks to stop.
func Follow(ctx context.Context, c client.Client, id string, tell func(*historypb.HistoryEvent) (enough bool, err error)) error {
	told := int64(0)
	for {
		err := followFrom(ctx, c, id, &told, tell)
		var moved *serviceerror.InvalidArgument
		// Paging fails when Temporal switches the workflow to another history branch; the next
		// attempt starts from the beginning.
		if !errors.As(err, &moved) || !strings.Contains(moved.Message, "branch tokens") {
			return err
		}
	}
}

func followFrom(ctx context.Context, c client.Client, id string, told *int64, tell func(*historypb.HistoryEvent) (bool, error)) error {
	events := c.GetWorkflowHistory(ctx, id, "", true, enumspb.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
	for events.HasNext() {
		e, err := events.Next()
		if err != nil {
			return fmt.Errorf("follow %s: %w", id, err)
		}
		if e.GetEventId() <= *told {
			continue
		}
		*told = e.GetEventId()
		if enough, err := tell(e); enough || err != nil {
			return err
		}
	}
	return nil
}

// Replay checks that the current code makes the same decisions.
func (h History) Replay(tb testing.TB) {
	tb.Helper()
	replayer, err := worker.NewWorkflowReplayerWithOptions(worker.WorkflowReplayerOptions{})
	require.NoError(tb, err)
	workflows.RegisterRun(replayer)
	workflows.RegisterStep(replayer)
	workflows.RegisterSelfHeal(replayer)
	workflows.RegisterDeliberation(replayer)
	workflows.RegisterAttempts(replayer)
	workflows.RegisterMember(replayer)
	workflows.RegisterMergeQueue(replayer)
	err = replayer.ReplayWorkflowHistoryWithOptions(noAnswer, h.History, worker.ReplayWorkflowHistoryOptions{
		OriginalExecution: workflow.Execution{ID: h.WorkflowID, RunID: h.Events[0].GetWorkflowExecutionStartedEventAttributes().GetOriginalExecutionRunId()},
	})
	require.NoError(tb, err, "the history of %s does not replay", h.WorkflowID)
}

// JSON returns the history as JSON.
func (h History) JSON(tb testing.TB) []byte {
	tb.Helper()
	text, err := protojson.Marshal(h.History)
	require.NoError(tb, err)
	return text
}

// Bytes returns the size of the history.
func (h History) Bytes() int { return proto.Size(h.History) }

// LargestEvent returns the size and kind of the largest event; no payload is larger.
func (h History) LargestEvent() (bytes int, kind string) {
	for _, e := range h.Events {
		if n := proto.Size(e); n > bytes {
			bytes, kind = n, e.GetEventType().String()
		}
	}
	return bytes, kind
}

// FirstStartAfter returns when the first activity after a given time was started, by Temporal's
// clock; zero if there is none.
func (h History) FirstStartAfter(at time.Time) time.Time {
	var first time.Time
	for _, e := range h.Events {
		started := e.GetEventType() == enumspb.EVENT_TYPE_ACTIVITY_TASK_STARTED || e.GetEventType() == enumspb.EVENT_TYPE_MARKER_RECORDED
		if t := e.GetEventTime().AsTime(); started && t.After(at) && (first.IsZero() || t.Before(first)) {
			first = t
		}
	}
	return first
}
