package workflows

import (
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/workflow"

	"github.com/rocketgpt/orchestrator/contract"
)

// children returns the inputs of the steps that are carried out as child workflows.
func (w *runFixture) children(t *testing.T) func() []contract.StepInput {
	t.Helper()
	var mu sync.Mutex
	var started []contract.StepInput
	w.env.SetOnChildWorkflowStartedListener(func(info *workflow.Info, _ workflow.Context, args converter.EncodedValues) {
		var in contract.StepInput
		if info.WorkflowType.Name == contract.WorkflowStep && args.Get(&in) == nil {
			mu.Lock()
			defer mu.Unlock()
			started = append(started, in)
		}
	})
	return func() []contract.StepInput {
		mu.Lock()
		defer mu.Unlock()
		return started
	}
}

// ofLogic returns the input of a run that was started by code of a logic.
func ofLogic(logic int, change ...func(*contract.Settings)) contract.RunInput {
	in := runInput(change...)
	in.Logic = logic
	return in
}

func TestARunCarriesOutItsStepsAsPartsOfItsWorkflow(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ logic, children int }{
		"now": {contract.LogicSteps, 0}, "if it was started by earlier code": {contract.LogicLean, 3},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newRunFixture(t)
			w.plan = onePlan("s1", "s2", "s3")
			children := w.children(t)
			require.Equal(t, contract.StatusDone, w.finishes(t, ofLogic(c.logic)).Status)
			require.Len(t, children(), c.children)
			for _, step := range []string{"s1", "s2", "s3"} {
				require.Equal(t, 1, w.begun["builder/"+step])
			}
		})
	}
}

func TestTheRecordsOfEachStepAreNumberedByThemselves(t *testing.T) {
	t.Parallel()
	w := newRunFixture(t)
	w.plan = onePlan("s1", "s2")
	require.Equal(t, contract.StatusDone, w.orchestrate(t).Status)
	numbers := map[string][]int64{}
	for _, rec := range w.recorded() {
		numbers[rec.Workflow] = append(numbers[rec.Workflow], rec.Seq)
	}
	require.Equal(t, []int64{1, 2}, numbers[contract.StepWorkflowID(7, "s1")])
	require.Equal(t, []int64{1, 2}, numbers[contract.StepWorkflowID(7, "s2")])
	for i, n := range numbers[""] {
		require.EqualValues(t, i+1, n)
	}
}

func TestAStepContinuesInAWorkflowOfItsOwnWhenTheHistoryBecomesLong(t *testing.T) {
	t.Parallel()
	w := newRunFixture(t)
	better := contract.ModelChoice{Provider: "scripted", Model: "better"}
	w.answers["step-001"] = []contract.ThinkResult{
		{Calls: []contract.ToolCallRef{{Tool: "edit_file"}}}, {Calls: []contract.ToolCallRef{{Tool: "edit_file"}}},
		{Calls: []contract.ToolCallRef{{Tool: "edit_file"}}}, {Finish: true},
	}
	children := w.children(t)
	var mu sync.Mutex
	var used []string
	w.onThink = func(in contract.ThinkInput) {
		mu.Lock()
		defer mu.Unlock()
		used = append(used, in.Model.Model)
		switch in.Turn {
		case 1:
			w.env.SignalWorkflow(contract.UpdateSwitchModel, contract.Command{ID: "m", By: "ann", Agent: contract.AgentBuilder, Model: &better})
		case 2:
			w.suggestContinueAsNew()
		}
	}
	w.after(time.Hour, func() { w.env.SetContinueAsNewSuggested(false) })
	w.env.ExecuteWorkflow(contract.WorkflowRun, runInput())
	require.True(t, w.env.IsWorkflowCompleted())
	moved := children()
	require.NotEmpty(t, moved)
	require.Equal(t, 2, moved[0].State.Turn, "both turns are kept")
	require.EqualValues(t, 1, moved[0].State.Records, "the workflow numbers its records on")
	require.Equal(t, better, moved[0].State.Model)
	require.Equal(t, 1, w.begun["builder/step-001"], "the same execution goes on")
	require.Equal(t, 4, w.thinks["step-001"], "no turn is made twice")
	require.Equal(t, []string{"better", "better", "better"}, used[1:])
}

func TestAPauseHoldsStepsUnderWayWhereverTheyAreCarriedOut(t *testing.T) {
	t.Parallel()
	for name, logic := range map[string]int{"in the run": contract.LogicSteps, "apart": contract.LogicLean} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newRunFixture(t)
			w.answers["step-001"] = []contract.ThinkResult{
				{Calls: []contract.ToolCallRef{{Tool: "edit_file"}}}, {Calls: []contract.ToolCallRef{{Tool: "edit_file"}}}, {Finish: true},
			}
			w.onThink = func(in contract.ThinkInput) {
				if in.Turn == 1 {
					w.env.SignalWorkflow(contract.UpdatePause, contract.Command{ID: "p", By: "ann"})
				}
			}
			held := 0
			w.after(time.Hour, func() {
				w.mu.Lock()
				held = w.thinks["step-001"]
				w.mu.Unlock()
				w.update(contract.UpdateResume, contract.Command{ID: "r", By: "ann"})
			})
			require.Equal(t, contract.StatusDone, w.finishes(t, ofLogic(logic)).Status)
			require.LessOrEqual(t, held, 2, "a call that was made when the pause came may end")
			require.Equal(t, 3, w.thinks["step-001"])
		})
	}
}

func TestTheTranscriptOfAStepUnderWayIsKnown(t *testing.T) {
	t.Parallel()
	w := newRunFixture(t)
	w.answers["step-001"] = []contract.ThinkResult{
		{Calls: []contract.ToolCallRef{{Tool: "edit_file"}}}, {Calls: []contract.ToolCallRef{{Tool: "edit_file"}}}, {Finish: true},
	}
	var keys []contract.TranscriptKey
	w.onThink = func(in contract.ThinkInput) {
		if in.Turn != 2 {
			return
		}
		w.after(0, func() {
			value, err := w.env.QueryWorkflow(contract.QueryTranscript)
			require.NoError(t, err)
			require.NoError(t, value.Get(&keys))
		})
	}
	require.Equal(t, contract.StatusDone, w.orchestrate(t).Status)
	require.Len(t, keys, 2)
	require.Equal(t, "step-001", keys[1].Step)
	require.NotZero(t, keys[1].ExecutionID)
	require.GreaterOrEqual(t, keys[1].Turns, 2)
	require.Equal(t, "run-7", keys[1].Workflow)
}

func TestAStepThatIsStoppedWhenTheHistoryBecomesLongEndsWithWhatItUsed(t *testing.T) {
	t.Parallel()
	w := newRunFixture(t)
	// All is done with the model call: nothing but the turn's end notices the stop.
	w.answers["step-001"] = []contract.ThinkResult{{
		Calls: []contract.ToolCallRef{{Tool: "edit_file"}}, Done: []contract.DoneCall{{Outcome: contract.ToolOutcome{OK: true, Fingerprint: "made"}}},
	}}
	children := w.children(t)
	w.onThink = func(in contract.ThinkInput) {
		if in.Turn != 2 {
			return
		}
		asked := make(chan struct{})
		w.after(0, func() {
			w.env.SetContinueAsNewSuggested(true)
			w.env.SignalWorkflow(contract.UpdateStop, contract.Command{ID: "s", By: "ann"})
			close(asked)
		})
		<-asked
	}
	result := w.orchestrate(t)
	require.Equal(t, contract.StatusCancelled, result.Status)
	require.Empty(t, children())
	ends := 0
	for _, rec := range w.recorded() {
		if rec.End == nil || rec.Workflow == "" {
			continue
		}
		ends++
		require.Equal(t, contract.ExecutionCancelled, rec.End.Status)
		require.Equal(t, contract.EventStepError, rec.Events[0].Type)
		require.EqualValues(t, 2, rec.Events[0].Payload.(map[string]any)["turns"])
	}
	require.Equal(t, 1, ends, "the execution has an end")
}
