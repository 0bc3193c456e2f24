package workerhost

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/internal/storetest"
)

// deliberating is a pipeline in its exchange, with ALPHA active.
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

// temporalHas answers looks at workflows: the named ones are in a state, others do not
// exist.
func temporalHas(states map[string]enumspb.WorkflowExecutionStatus) latest {
	return func(_ context.Context, id string) (string, enumspb.WorkflowExecutionStatus, error) {
		state, known := states[id]
		if !known {
			return "", 0, fmt.Errorf("describe workflow %s: %w", id, serviceerror.NewNotFound("no such workflow"))
		}
		return "first", state, nil
	}
}

func TestAPipelineThatItsMakerNeverStartedEndsAsItsMakerDid(t *testing.T) {
	t.Parallel()
	stopped := []any{contract.PipelineStopped, contract.ClassHuman, contract.CodeCancelled}
	lost := []any{contract.PipelineFailed, contract.ClassInfra, contract.CodeWorkerLost}
	for state, want := range map[enumspb.WorkflowExecutionStatus][]any{
		enumspb.WORKFLOW_EXECUTION_STATUS_COMPLETED: stopped, enumspb.WORKFLOW_EXECUTION_STATUS_CANCELED: stopped,
		enumspb.WORKFLOW_EXECUTION_STATUS_TERMINATED: lost, enumspb.WORKFLOW_EXECUTION_STATUS_FAILED: lost,
		enumspb.WORKFLOW_EXECUTION_STATUS_TIMED_OUT: lost, enumspb.WORKFLOW_EXECUTION_STATUS_UNSPECIFIED: lost,
	} {
		t.Run(state.String(), func(t *testing.T) {
			t.Parallel()
			db, prior := deliberating(t)
			made, err := db.CreatePipeline(t.Context(), contract.NewPipeline{RunID: prior.RunID, Prior: prior.ID, Attempt: 2, Settings: prior.Settings})
			require.NoError(t, err)
			states := map[string]enumspb.WorkflowExecutionStatus{contract.PipelineWorkflowID(prior.ID): state}
			if state == enumspb.WORKFLOW_EXECUTION_STATUS_UNSPECIFIED {
				states = nil // Temporal keeps ended workflows only for a while
			}
			require.NoError(t, closePipelineIfEnded(t.Context(), temporalHas(states), db, made.ID))
			now, err := db.Pipeline(t.Context(), made.ID)
			require.NoError(t, err)
			require.Equal(t, want, []any{now.Status, now.Failure.Class, now.Failure.Code})
			require.Equal(t, []string{contract.PipelineWorkflowID(made.ID), store.NeverStarted}, []string{now.WorkflowID, now.WorkflowRunID})
		})
	}
}

// TestAPipelineThatIsStartedWhileItsMakerIsLookedAtIsNotClosed makes the creator start
// it, and end, right after the first look.
func TestAPipelineThatIsStartedWhileItsMakerIsLookedAtIsNotClosed(t *testing.T) {
	t.Parallel()
	db, prior := deliberating(t)
	made, err := db.CreatePipeline(t.Context(), contract.NewPipeline{RunID: prior.RunID, Prior: prior.ID, Attempt: 2, Settings: prior.Settings})
	require.NoError(t, err)
	states := map[string]enumspb.WorkflowExecutionStatus{contract.PipelineWorkflowID(prior.ID): terminated}
	look := func(ctx context.Context, id string) (string, enumspb.WorkflowExecutionStatus, error) {
		run, state, err := temporalHas(states)(ctx, id)
		states[contract.PipelineWorkflowID(made.ID)] = enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING
		return run, state, err
	}
	require.NoError(t, closePipelineIfEnded(t.Context(), look, db, made.ID))
	now, err := db.Pipeline(t.Context(), made.ID)
	require.NoError(t, err)
	require.Equal(t, contract.PipelineSpawned, now.Status)
}

func TestAPipelineThatItsMakerNeverStartedIsClosedOnce(t *testing.T) {
	t.Parallel()
	const running = enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING
	db, prior := deliberating(t)
	recovery, err := db.CreatePipeline(t.Context(), contract.NewPipeline{RunID: prior.RunID, Prior: prior.ID, Attempt: 2, Settings: prior.Settings})
	require.NoError(t, err)
	run, _, err := db.CreateRun(t.Context(), store.NewRun{Project: "p", GoalTitle: "g", Settings: contract.Settings{Repo: contract.Repo{URL: "/r", Base: "b", Tree: "t"}}})
	require.NoError(t, err)
	begun, err := db.Record(t.Context(), store.Source{WorkflowID: contract.RunWorkflowID(run.ID), WorkflowRunID: "first"}, contract.Record{
		RunID: run.ID, Seq: 1, Begin: &contract.ExecutionBegin{Phase: contract.PhasePlanner, Agent: contract.AgentPlanner},
	})
	require.NoError(t, err)
	planner, err := db.CreatePipeline(t.Context(), contract.NewPipeline{RunID: run.ID, ForRun: true, Execution: begun.Execution.ID, Attempt: 1, Settings: prior.Settings})
	require.NoError(t, err)
	maker := map[int64]string{recovery.ID: contract.PipelineWorkflowID(prior.ID), planner.ID: contract.RunWorkflowID(run.ID)}
	for id, of := range maker {
		for name, look := range map[string]latest{
			"its maker is at work": temporalHas(map[string]enumspb.WorkflowExecutionStatus{of: running}),
			"it has begun":         temporalHas(map[string]enumspb.WorkflowExecutionStatus{of: terminated, contract.PipelineWorkflowID(id): running}),
		} {
			require.NoError(t, closePipelineIfEnded(t.Context(), look, db, id), name)
			now, err := db.Pipeline(t.Context(), id)
			require.NoError(t, err)
			require.Equal(t, contract.PipelineSpawned, now.Status, name)
		}
		for _, states := range []map[string]enumspb.WorkflowExecutionStatus{{of: terminated}, nil, {of: terminated}} {
			require.NoError(t, closePipelineIfEnded(t.Context(), temporalHas(states), db, id))
		}
		now, err := db.Pipeline(t.Context(), id)
		require.NoError(t, err)
		require.Equal(t, contract.PipelineFailed, now.Status)
		require.Contains(t, now.Failure.Message, of)
		require.NotNil(t, now.FinishedAt)
		events, err := db.PipelineEvents(t.Context(), id, 0, 0)
		require.NoError(t, err)
		require.Len(t, events, 2, "that it was made, and that it ended, once")
	}
	spawned, _, err := db.SpawnPipeline(t.Context(), store.NewPipelineRow{Objective: "o", Settings: prior.Settings})
	require.NoError(t, err)
	require.NoError(t, closePipelineIfEnded(t.Context(), temporalHas(nil), db, spawned.ID))
	now, err := db.Pipeline(t.Context(), spawned.ID)
	require.NoError(t, err)
	require.Equal(t, contract.PipelineSpawned, now.Status, "the reconciler starts it")
}
