package workerhost

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/internal/storetest"
)

// deliberating is a pipeline that exchanges, with ALPHA at work.
func deliberating(t *testing.T) (*store.Store, store.Pipeline) {
	t.Helper()
	db := storetest.New(t)
	p, _, err := db.SpawnPipeline(t.Context(), store.NewPipelineRow{Objective: "o", Settings: contract.DeliberationSettings{Mode: contract.ModeLocal}})
	require.NoError(t, err)
	_, err = db.Record(t.Context(), store.Source{WorkflowID: contract.MemberWorkflowID(p.ID, contract.Alpha), WorkflowRunID: "m"}, contract.Record{
		RunID: p.RunID, Seq: 1, Begin: &contract.ExecutionBegin{Phase: contract.PhasePlanner, Step: "alpha", Agent: contract.AgentAlpha},
	})
	require.NoError(t, err)
	require.NoError(t, db.PipelineRecord(t.Context(), store.Source{WorkflowID: contract.PipelineWorkflowID(p.ID), WorkflowRunID: "first"}, contract.PipelineRecord{
		PipelineID: p.ID, RunID: p.RunID, Seq: 1, At: time.Now(), Change: &contract.PipelineChange{
			Status: contract.PipelineOrchestrating, Iteration: 3, Members: []contract.MemberView{{Member: contract.Alpha}},
		},
	}))
	return db, p
}

func TestAPipelineWhoseWorkflowWasTerminatedIsClosedOnceWithAllThatItBegan(t *testing.T) {
	t.Parallel()
	db, p := deliberating(t)
	for range 3 {
		require.NoError(t, closePipelineIfEnded(t.Context(), sees("first"), db, p.ID))
	}
	now, err := db.Pipeline(t.Context(), p.ID)
	require.NoError(t, err)
	require.Equal(t, contract.PipelineFailed, now.Status)
	require.Equal(t, contract.CodeWorkerLost, now.Failure.Code)
	require.Equal(t, []any{3, 1}, []any{now.Iteration, len(now.Members)}, "what it told is kept")
	require.NotNil(t, now.FinishedAt)
	executions, err := db.Executions(t.Context(), p.RunID)
	require.NoError(t, err)
	require.Equal(t, contract.ExecutionCancelled, executions[0].Status)
	events, err := db.PipelineEvents(t.Context(), p.ID, 0, 0)
	require.NoError(t, err)
	require.Len(t, events, 2)
	require.Equal(t, contract.EventPipelineUpdated, events[1].Type)
}

func TestAPipelineThatIsAtWorkOrSaidHowItEndedIsNotClosed(t *testing.T) {
	t.Parallel()
	db, p := deliberating(t)
	before, err := db.Pipeline(t.Context(), p.ID)
	require.NoError(t, err)
	require.NoError(t, closePipelineIfEnded(t.Context(), func(context.Context, string) (string, enumspb.WorkflowExecutionStatus, error) {
		return "first", enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING, nil
	}, db, p.ID))
	same, err := db.Pipeline(t.Context(), p.ID)
	require.NoError(t, err)
	require.Equal(t, before, same)
	require.NoError(t, db.PipelineRecord(t.Context(), store.Source{WorkflowID: contract.PipelineWorkflowID(p.ID), WorkflowRunID: "first"}, contract.PipelineRecord{
		PipelineID: p.ID, RunID: p.RunID, Seq: 2, At: time.Now(), Change: &contract.PipelineChange{Status: contract.PipelineCompleted, Finished: true},
	}))
	require.NoError(t, closePipelineIfEnded(t.Context(), sees("first"), db, p.ID))
	same, err = db.Pipeline(t.Context(), p.ID)
	require.NoError(t, err)
	require.Equal(t, contract.PipelineCompleted, same.Status)
	require.ElementsMatch(t, []contract.PipelineStatus{contract.PipelineSpawned, contract.PipelineRunning, contract.PipelineReport, contract.PipelineOrchestrating}, openPipelines())
}
