package workerhost

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/testsuite"
	"golang.org/x/sync/errgroup"

	"github.com/rocketgpt/orchestrator/activities"
	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/config"
	"github.com/rocketgpt/orchestrator/internal/fault"
	"github.com/rocketgpt/orchestrator/internal/setup"
	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/internal/store/views"
	"github.com/rocketgpt/orchestrator/internal/storetest"
	"github.com/rocketgpt/orchestrator/workflows"
)

func planOf(id string) contract.Plan {
	return contract.Plan{Summary: id, Steps: []contract.Step{{ID: id, Name: id, Description: id}}}
}

// TestTheStoredPlanIsTheOneWhoseApprovalWasAccepted answers one approval from two
// sides, with the run's workflow, its records and its plans in a real database.
func TestTheStoredPlanIsTheOneWhoseApprovalWasAccepted(t *testing.T) {
	t.Parallel()
	db := storetest.New(t)
	settings := contract.Settings{ApprovePlan: true, PlanGiven: true, ApprovalWait: time.Hour, Repo: contract.Repo{URL: "/r", Base: "b", Tree: "t"}}
	given := planOf("given")
	run, _, err := db.CreateRun(t.Context(), store.NewRun{Project: "p", GoalTitle: "g", Settings: settings, GivenPlan: &given})
	require.NoError(t, err)

	models, err := setup.Model(config.Default())
	require.NoError(t, err)
	t.Cleanup(models.Close)
	parts := &activities.Activities{Store: db, Model: models, Log: slog.New(slog.DiscardHandler)}
	var suite testsuite.WorkflowTestSuite
	env := suite.NewTestWorkflowEnvironment()
	env.SetTestTimeout(time.Minute)
	workflows.RegisterRun(env)
	workflows.RegisterStep(env)
	env.RegisterActivityWithOptions(parts.Record, activity.RegisterOptions{Name: contract.ActivityRecord})
	env.RegisterActivityWithOptions(parts.AdoptPlan, activity.RegisterOptions{Name: contract.ActivityAdoptPlan})
	var opened contract.OpenStepInput
	env.RegisterActivityWithOptions(func(_ context.Context, in contract.OpenStepInput) (contract.OpenStepResult, error) {
		opened = in
		return contract.OpenStepResult{}, fault.ToTemporal(fault.New(contract.ClassLogic, contract.CodeUnknown, "far enough"), 1)
	}, activity.RegisterOptions{Name: contract.ActivityOpenStep})
	env.RegisterActivityWithOptions(func(context.Context, int64) error { return nil }, activity.RegisterOptions{Name: contract.ActivityCleanUp})

	ids, refused := map[string]int64{}, map[string]error{}
	env.RegisterDelayedCallback(func() {
		saved := make([]int64, 2)
		var both errgroup.Group
		for i, who := range []string{"ann", "bob"} {
			both.Go(func() (err error) {
				saved[i], err = db.SavePlan(context.WithoutCancel(t.Context()), run.ID, 0, who, planOf(who))
				return err
			})
		}
		require.NoError(t, both.Wait())
		for i, who := range []string{"ann", "bob"} {
			ids[who] = saved[i]
			env.UpdateWorkflow(contract.UpdateApprove, who, &testsuite.TestUpdateCallback{
				OnAccept: func() {}, OnReject: func(err error) { refused[who] = err },
				OnComplete: func(_ any, err error) { refused[who] = err },
			}, contract.Command{ID: who, By: who, PlanID: saved[i]})
		}
	}, time.Minute)
	env.ExecuteWorkflow(contract.WorkflowRun, contract.RunInput{RunID: run.ID, PlanID: run.PlanID, Settings: settings})
	require.NoError(t, env.GetWorkflowError())

	winner, loser := "ann", "bob"
	if refused["ann"] != nil {
		winner, loser = loser, winner
	}
	require.NoError(t, refused[winner])
	require.Error(t, refused[loser])
	after, err := db.Run(t.Context(), run.ID)
	require.NoError(t, err)
	require.Equal(t, ids[winner], after.PlanID)
	counts, err := db.Plan(t.Context(), run.ID)
	require.NoError(t, err)
	require.Equal(t, winner, counts.Summary, "as inspect and export show it")
	require.Equal(t, ids[winner], opened.PlanID, "as the builder reads it")
	require.Equal(t, winner, opened.Record.Begin.Step)
	details, err := views.New(db).RunDetails(t.Context(), run.ID)
	require.NoError(t, err)
	require.Contains(t, string(details.PlannerOutput), winner)
	require.NotContains(t, string(details.PlannerOutput), loser)
	require.Equal(t, winner, details.Approvals[0].By)
}
