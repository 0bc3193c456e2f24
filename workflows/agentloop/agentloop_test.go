package agentloop

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/workflow"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/workflows/internal/records"
)

func TestUnreadDirectivesAreReadBeforeAStepContinuesAsNew(t *testing.T) {
	t.Parallel()
	var suite testsuite.WorkflowTestSuite
	env := suite.NewTestWorkflowEnvironment()
	env.RegisterWorkflowWithOptions(func(ctx workflow.Context, in contract.StepInput) error {
		l := New(ctx, in, records.NewRecorder(ctx, in.RunID), contract.QueueBuilder) // which does not listen: it has not run yet
		if err := workflow.Sleep(ctx, time.Minute); err != nil {
			return err
		}
		return l.continueAsNew(ctx)
	}, workflow.RegisterOptions{Name: "deaf"})
	env.RegisterDelayedCallback(func() {
		env.SignalWorkflow(contract.SignalDirectives, contract.Directives{Seq: 1, Model: contract.ModelChoice{Provider: "scripted", Model: "better"}})
		env.SignalWorkflow(contract.SignalDirectives, contract.Directives{Seq: 2, Paused: true, Model: contract.ModelChoice{Provider: "scripted", Model: "better"}})
	}, time.Second)
	env.ExecuteWorkflow("deaf", contract.StepInput{RunID: 7, Step: "step-001"})
	var again *workflow.ContinueAsNewError
	require.ErrorAs(t, env.GetWorkflowError(), &again)
	var in contract.StepInput
	require.NoError(t, converter.GetDefaultDataConverter().FromPayloads(again.Input, &in))
	state := in.State
	require.True(t, state.Paused)
	require.Equal(t, "better", state.Model.Model)
}
