package workerhost

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/client"
	sdk "go.temporal.io/sdk/temporal"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/await"
	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/internal/store/views"
	"github.com/rocketgpt/orchestrator/internal/storetest"
	"github.com/rocketgpt/orchestrator/internal/temporal"
	"github.com/rocketgpt/orchestrator/internal/temporal/temporaltest"
)

const terminated = enumspb.WORKFLOW_EXECUTION_STATUS_TERMINATED

// healingRun is a run whose workflow "first" is inside a heal of its builder.
func healingRun(t *testing.T) (*store.Store, int64) {
	t.Helper()
	db := storetest.New(t)
	run, _, err := db.CreateRun(t.Context(), store.NewRun{Project: "p", GoalTitle: "g", Settings: contract.Settings{Repo: contract.Repo{URL: "/r", Base: "b", Tree: "t"}}})
	require.NoError(t, err)
	record(t, db, run.ID, "first", contract.Record{
		Seq: 1, Run: &contract.RunChange{Phase: contract.PhaseBuilder, Status: contract.StatusSelfHeal, RetryCount: 1},
		Begin:         &contract.ExecutionBegin{Phase: contract.PhaseBuilder, Agent: contract.AgentBuilder},
		Events:        []contract.EventDraft{{Type: contract.PhaseBuilder.Started()}, {Type: contract.EventHealStarted}},
		Heals:         []contract.HealNote{{Number: 1, Status: contract.HealStarted, Phase: contract.PhaseBuilder, ErrorType: contract.ClassLLM, Action: contract.HealRegenerate}},
		Interventions: []contract.InterventionNote{{Number: 1, Status: "open", Phase: contract.PhaseBuilder, Reason: "r", ActionRequired: "a"}},
	})
	return db, run.ID
}

func record(t *testing.T, db *store.Store, id int64, workflowRun string, r contract.Record) {
	t.Helper()
	r.RunID, r.At = id, time.Now()
	_, err := db.Record(t.Context(), store.Source{WorkflowID: contract.RunWorkflowID(id), WorkflowRunID: workflowRun}, r)
	require.NoError(t, err)
}

func details(t *testing.T, db *store.Store, id int64) views.RunDetails {
	t.Helper()
	d, err := views.New(db).RunDetails(t.Context(), id)
	require.NoError(t, err)
	return d
}

// sees answers looks at a workflow in turn, repeating the last one.
func sees(runs ...string) latest {
	n := 0
	return func(context.Context, string) (string, enumspb.WorkflowExecutionStatus, error) {
		run := runs[min(n, len(runs)-1)]
		n++
		return run, terminated, nil
	}
}

func TestARunWhoseWorkflowWasTerminatedIsClosedOnceWithAllThatItBegan(t *testing.T) {
	t.Parallel()
	db, id := healingRun(t)
	for range 3 {
		require.NoError(t, closeIfEnded(t.Context(), sees("first"), db, id))
	}
	d := details(t, db, id)
	require.Equal(t, contract.StatusFailed, d.Status)
	require.Equal(t, contract.CodeWorkerLost, d.Failure.Code)
	require.Equal(t, contract.ExecutionCancelled, d.Executions[0].Status)
	require.Equal(t, contract.HealFailed, d.SelfHealEvents[0].Status)
	require.Equal(t, "the run ended first", d.SelfHealEvents[0].Output().Result)
	require.Equal(t, "expired", d.Interventions[0].Status)
	var kinds []contract.EventType
	for _, e := range d.Events {
		kinds = append(kinds, e.Type)
	}
	require.Equal(t, []contract.EventType{
		contract.EventRunCreated, contract.PhaseBuilder.Started(), contract.EventHealStarted, contract.EventHealFailed, contract.EventRunFailed,
	}, kinds)
}

func TestARunIsClosedHoweverManyCameAfterIt(t *testing.T) {
	t.Parallel()
	db, id := healingRun(t)
	var ended []int64
	for range 3 {
		run, _, err := db.CreateRun(t.Context(), store.NewRun{Project: "p", GoalTitle: "g", Settings: contract.Settings{Repo: contract.Repo{URL: "/r", Base: "b", Tree: "t"}}})
		require.NoError(t, err)
		record(t, db, run.ID, "w", contract.Record{Seq: 1, Run: &contract.RunChange{Phase: contract.PhaseReleaser, Status: contract.StatusDone, Finished: true}})
		ended = append(ended, run.ID)
	}
	looked := map[string]int{}
	look := func(_ context.Context, workflow string) (string, enumspb.WorkflowExecutionStatus, error) {
		looked[workflow]++
		return "first", terminated, nil
	}
	closeQuiet(t.Context(), look, nil, db, 0, slog.New(slog.DiscardHandler))
	require.Equal(t, contract.StatusFailed, details(t, db, id).Status)
	require.Equal(t, map[string]int{contract.RunWorkflowID(id): 2}, looked, "Temporal is not asked of the runs that ended")
	first, err := db.QuietRuns(t.Context(), 0, id, 10)
	require.NoError(t, err)
	require.Empty(t, first)
	require.Len(t, ended, 3)
}

func TestManyRunsThatWaitAreLookedUpTogetherAndThoseThatEndedAreClosed(t *testing.T) {
	t.Parallel()
	c := temporaltest.Connect(t)
	require.NoError(t, temporal.RegisterSearchAttributes(t.Context(), c, temporaltest.Namespace))
	db, _ := healingRun(t)
	var ids []int64
	for range lookedUpTogether {
		run, _, err := db.CreateRun(t.Context(), store.NewRun{Project: "p", GoalTitle: "g", Settings: contract.Settings{Repo: contract.Repo{URL: "/r", Base: "b", Tree: "t"}}})
		require.NoError(t, err)
		ids = append(ids, run.ID)
		var started client.WorkflowRun
		await.Until(t, "Temporal to know the search attributes and to start a workflow", func() bool {
			started, err = c.ExecuteWorkflow(t.Context(), client.StartWorkflowOptions{
				ID: contract.RunWorkflowID(run.ID), TaskQueue: "nobody-serves-this",
				TypedSearchAttributes: sdk.NewSearchAttributes(sdk.NewSearchAttributeKeyInt64(contract.AttributeRun).ValueSet(run.ID)),
			}, contract.WorkflowRun)
			return err == nil
		})
		record(t, db, run.ID, started.GetRunID(), contract.Record{
			Seq: 1, Run: &contract.RunChange{Phase: contract.PhasePlanner, Status: contract.StatusWaitingForApproval},
		})
	}
	ended := ids[7]
	require.NoError(t, c.TerminateWorkflow(t.Context(), contract.RunWorkflowID(ended), "", "a test"))
	listed := runningOf(c)
	await.Until(t, "Temporal's index to contain what runs", func() bool {
		alive, err := listed(t.Context(), ids[0], ids[len(ids)-1])
		require.NoError(t, err)
		return len(alive) == len(ids)-1 && !alive[contract.RunWorkflowID(ended)]
	})
	looked := map[string]int{}
	look := func(ctx context.Context, workflow string) (string, enumspb.WorkflowExecutionStatus, error) {
		looked[workflow]++
		if workflow == contract.RunWorkflowID(ids[0]-1) { // the run of healingRun, without a workflow
			return "first", enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING, nil
		}
		return latestOf(c)(ctx, workflow)
	}
	closeQuiet(t.Context(), look, listed, db, 0, slog.New(slog.DiscardHandler))
	require.Equal(t, contract.StatusFailed, details(t, db, ended).Status)
	require.Equal(t, contract.StatusWaitingForApproval, details(t, db, ids[0]).Status)
	require.Len(t, looked, 2, "only those that are not in the list are looked at")

	clear(looked)
	fails := func(context.Context, int64, int64) (map[string]bool, error) {
		return nil, errors.New("the index is down")
	}
	closeQuiet(t.Context(), look, fails, db, 0, slog.New(slog.DiscardHandler))
	require.Len(t, looked, lookedUpTogether, "without a list, each is looked at")
}

func TestARunThatSaidHowItEndedOrIsDoneAgainIsNotClosed(t *testing.T) {
	t.Parallel()
	ended := contract.Record{
		Seq: 2, Run: &contract.RunChange{Phase: contract.PhaseReleaser, Status: contract.StatusDone, Finished: true},
		Events: []contract.EventDraft{{Type: contract.PhaseReleaser.CompletedEvent()}},
	}
	t.Run("it said so between the list and the look", func(t *testing.T) {
		t.Parallel()
		db, id := healingRun(t)
		record(t, db, id, "first", ended)
		before := details(t, db, id)
		require.NoError(t, closeIfEnded(t.Context(), sees("first"), db, id))
		require.Equal(t, before, details(t, db, id), "an ended run fails no more")
	})
	t.Run("it was replayed between the look and the row", func(t *testing.T) {
		t.Parallel()
		db, id := healingRun(t)
		record(t, db, id, "first", ended)
		record(t, db, id, "second", contract.Record{
			Seq: 2, Run: &contract.RunChange{Phase: contract.PhaseTester, Status: contract.PhaseTester.Running()},
			Begin: &contract.ExecutionBegin{Phase: contract.PhaseTester, Agent: contract.AgentTester},
		})
		before := details(t, db, id)
		require.NoError(t, closeIfEnded(t.Context(), sees("first", "second"), db, id))
		require.Equal(t, before, details(t, db, id), "the replay goes on")
	})
	t.Run("its workflow is at work", func(t *testing.T) {
		t.Parallel()
		db, id := healingRun(t)
		before := details(t, db, id)
		require.NoError(t, closeIfEnded(t.Context(), func(context.Context, string) (string, enumspb.WorkflowExecutionStatus, error) {
			return "first", enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING, nil
		}, db, id))
		require.Equal(t, before, details(t, db, id))
	})
}

func TestARunTerminatedDuringItsBranchWatchEndsTheWatch(t *testing.T) {
	t.Parallel()
	db, id := healingRun(t)
	until := time.Now().Add(time.Hour)
	record(t, db, id, "first", contract.Record{
		Seq: 2, Run: &contract.RunChange{
			Phase: contract.PhaseReleaser, Status: contract.StatusDone, Branch: "rgpt/run-1", Commit: "c0ffee", Finished: true,
			Staying: true, StayingUntil: &until, LastHealAction: "repair",
		},
		Events: []contract.EventDraft{{Type: contract.EventStayStarted}},
	})
	before := details(t, db, id)
	require.NotNil(t, before.StayingUntil)
	for range 3 {
		require.NoError(t, closeIfEnded(t.Context(), sees("first"), db, id))
	}
	d := details(t, db, id)
	require.Nil(t, d.StayingUntil, "it can be replayed")
	require.Equal(t, contract.StatusDone, d.Status)
	require.Equal(t, before.FinishedAt, d.FinishedAt)
	require.Equal(t, before.LastHealAction, d.LastHealAction)
	require.Equal(t, "c0ffee", d.ReleaseCommit)
	require.Len(t, d.Events, len(before.Events)+1)
	require.Equal(t, contract.EventStayEnded, d.Events[len(d.Events)-1].Type)
}
