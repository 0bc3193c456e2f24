package workflows

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"

	"github.com/rocketgpt/orchestrator/contract"
)

func TestATimeOfAScheduleIsDeliveredAgainAfterAFailure(t *testing.T) {
	t.Parallel()
	var suite testsuite.WorkflowTestSuite
	env := suite.NewTestWorkflowEnvironment()
	RegisterTrigger(env)
	at := time.Date(2026, 1, 31, 3, 0, 0, 0, time.UTC)
	key := temporal.NewSearchAttributeKeyTime("TemporalScheduledStartTime")
	require.NoError(t, env.SetTypedSearchAttributesOnStart(temporal.NewSearchAttributes(key.ValueSet(at))))
	var got []contract.TriggerTime
	env.RegisterActivityWithOptions(func(in contract.TriggerTime) error {
		if got = append(got, in); len(got) < 3 {
			return temporal.NewApplicationError("the database is down", string(contract.ClassInfra))
		}
		return nil
	}, activity.RegisterOptions{Name: contract.ActivityTrigger})
	env.ExecuteWorkflow(contract.WorkflowTrigger, contract.TriggerInput{Trigger: "nightly"})
	require.NoError(t, env.GetWorkflowError())
	want := contract.TriggerTime{Trigger: "nightly", At: at}
	require.Equal(t, []contract.TriggerTime{want, want, want}, got)
}
