package workflows

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/contract"
)

func TestAForkContinuesFromItsStepAndRepeatsNothingBeforeIt(t *testing.T) {
	t.Parallel()
	w := newRunFixture(t)
	plan := onePlan("a", "b", "c")
	plan.Steps[1].Dependencies, plan.Steps[2].Dependencies = []string{"a"}, []string{"b"}
	w.edited[9] = plan
	talk := &contract.ConversationFork{RunID: 3, ExecutionID: 30, Turn: 2}
	in := runInput(func(s *contract.Settings) {
		s.PlanGiven = true
		s.Fork = &contract.Fork{RunID: 3, Step: "b", Conversation: talk, Kept: []contract.StepOutput{
			{Change: contract.Change{Step: "a", From: contract.Workspace{Tree: "7ree"}, To: contract.Workspace{Tree: "a-done"}}, Credit: contract.Credit{Step: "a", Model: "old"}},
		}}
	})
	in.PlanID = 9
	w.env.ExecuteWorkflow(contract.WorkflowRun, in)
	require.NoError(t, w.env.GetWorkflowError())
	var result contract.RunResult
	require.NoError(t, w.env.GetWorkflowResult(&result))
	require.Equal(t, contract.StatusDone, result.Status)
	require.Zero(t, w.begun["builder/a"], "what the old run did is not done again")
	require.Equal(t, "a-done", w.opened["b"].Workspace.Tree)
	require.Equal(t, talk, w.opened["b"].Conversation)
	require.Nil(t, w.opened["c"].Conversation, "later steps begin anew")
	require.Len(t, w.released.Stages, 3)
	require.Equal(t, "old", w.released.Credits[0].Model, "who made it is credited")
}
