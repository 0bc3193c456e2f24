package workflows

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/mock"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/workflow"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/fault"
)

const anything = mock.Anything

// endless is an agent that always wants one more call.
var endless = []contract.ThinkResult{{Calls: []contract.ToolCallRef{{Tool: "read_file", ReadOnly: true}}}}

func TestAnAgentLoopEndsAtItsBudget(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*contract.StepBudget){
		"turns":  func(b *contract.StepBudget) { b.Turns = 3 },
		"tokens": func(b *contract.StepBudget) { b.Tokens = 330 },
		"money":  func(b *contract.StepBudget) { b.MicroUSD = 15 },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newRunFixture(t)
			w.answers["step-001"] = endless
			result := w.orchestrate(t, func(s *contract.Settings) { change(&s.StepBudget) })
			require.Equal(t, contract.CodeStepBudget, result.Failure.Code)
			require.Equal(t, 3, w.thinks["step-001"])
		})
	}
	t.Run("time", func(t *testing.T) {
		t.Parallel()
		w := newRunFixture(t)
		w.env.OnActivity(contract.ActivityThink, anything, anything).After(time.Minute).Return(endless[0], nil)
		result := w.orchestrate(t, func(s *contract.Settings) { s.StepBudget.Time = 90 * time.Second; s.ModelTimeout = time.Hour })
		require.Equal(t, contract.CodeStepBudget, result.Failure.Code)
	})
}

func TestTheSameCallWithTheSameResultForEverIsBroken(t *testing.T) {
	t.Parallel()
	w := newRunFixture(t)
	w.answers["step-001"] = endless
	w.fail["repeat"] = fault.New(contract.ClassRuntime, "", "")
	result := w.orchestrate(t)
	require.Equal(t, contract.ClassLLM, result.Failure.Class)
	require.Equal(t, contract.CodeLoop, result.Failure.Code)
	require.Equal(t, 5, w.thinks["step-001"])
}

func TestUnusableAnswersInARowEndTheStep(t *testing.T) {
	t.Parallel()
	w := newRunFixture(t)
	w.answers["step-001"] = []contract.ThinkResult{{Bad: "no tool call"}}
	result := w.orchestrate(t)
	require.Equal(t, contract.CodeInvalidOutput, result.Failure.Code)
	require.Equal(t, 3, w.thinks["step-001"])
}

func TestASecondPathEscapeIsASafetyError(t *testing.T) {
	t.Parallel()
	w := newRunFixture(t)
	w.answers["step-001"] = endless
	w.fail["escape"] = fault.New(contract.ClassRuntime, "", "")
	result := w.orchestrate(t)
	require.Equal(t, contract.ClassSafety, result.Failure.Class)
	require.Equal(t, contract.CodePathEscape, result.Failure.Code)
	require.Equal(t, 2, w.tools)
}

func TestAHostWithoutTheRepositoryFetchesItInAnOrdinaryActivity(t *testing.T) {
	t.Parallel()
	w := newRunFixture(t)
	w.fail["cold"] = fault.New(contract.ClassRuntime, "", "")
	require.Equal(t, contract.StatusDone, w.orchestrate(t).Status)
	require.False(t, w.opened["step-001"].LocalOnly, "asked again without Quick")
	require.Equal(t, 1, w.begun["builder/step-001"], "the repeat found the execution that had begun")
}

func TestAConflictNamesTheStep(t *testing.T) {
	t.Parallel()
	w := newRunFixture(t)
	w.env.OnActivity(contract.ActivityOpenStep, anything, anything).Return(contract.OpenStepResult{
		Conflict: &contract.Conflict{Step: "step-000", Paths: []string{"a.go"}},
	}, nil)
	result := w.orchestrate(t)
	require.Equal(t, contract.ClassLogic, result.Failure.Class)
	require.Equal(t, contract.CodeMergeConflict, result.Failure.Code)
	require.Contains(t, result.Failure.Message, "a.go")
}

// loop is a step alone, with what its first history left.
func loop(t *testing.T, w *runFixture, state *contract.LoopState) {
	t.Helper()
	w.env.ExecuteWorkflow(contract.WorkflowStep, contract.StepInput{
		RunID: 7, Step: "step-001", PlanID: madePlan, Agent: contract.AgentBuilder, Phase: contract.PhaseBuilder,
		Workspace: contract.Workspace{Repo: "/repo", Base: "b45e", Tree: "7ree"}, Model: contract.ModelChoice{Provider: "scripted", Model: "scripted"},
		Settings: contract.LoopSettings{Agents: contract.AgentLimits{Errors: 8, Repeats: 2, Violations: 1}, Budget: contract.StepBudget{Turns: 20}, ModelTimeout: time.Minute, CommandTimeout: time.Minute}, State: state,
	})
	require.True(t, w.env.IsWorkflowCompleted())
}

// next returns what a step continued as new with.
func next(t *testing.T, w *runFixture) contract.StepInput {
	t.Helper()
	var again *workflow.ContinueAsNewError
	require.ErrorAs(t, w.env.GetWorkflowError(), &again)
	var in contract.StepInput
	require.NoError(t, converter.GetDefaultDataConverter().FromPayloads(again.Input, &in))
	return in
}

func TestDirectivesThatArriveJustBeforeAStepContinuesAsNewAreCarriedOver(t *testing.T) {
	t.Parallel()
	w := newRunFixture(t)
	w.answers["step-001"] = endless
	w.env.SetContinueAsNewSuggested(true)
	// With the result of the last call and in the same workflow task.
	w.env.OnActivity(contract.ActivityTool, anything, anything).Return(func(context.Context, contract.ToolInput) (contract.ToolOutcome, error) {
		w.env.SignalWorkflow(contract.SignalDirectives, contract.Directives{Seq: 2, Paused: true, Model: contract.ModelChoice{Provider: "scripted", Model: "better"}})
		w.env.SignalWorkflow(contract.SignalDirectives, contract.Directives{Seq: 1, Model: contract.ModelChoice{Provider: "scripted", Model: "older"}})
		return contract.ToolOutcome{OK: true}, nil
	})
	loop(t, w, nil)
	state := next(t, w).State
	require.True(t, state.Paused)
	require.Equal(t, "better", state.Model.Model, "newer directives that were overtaken count")
	require.EqualValues(t, 2, state.DirectivesSeq)
}

func TestAStepThatContinuesAsNewWhilePausedIsStillPaused(t *testing.T) {
	t.Parallel()
	w := newRunFixture(t)
	early := 0
	w.after(time.Hour, func() {
		early = w.thinks["step-001"]
		w.env.SignalWorkflow(contract.SignalDirectives, contract.Directives{Seq: 3, Model: contract.ModelChoice{Provider: "scripted", Model: "scripted"}})
	})
	loop(t, w, &contract.LoopState{
		Execution: contract.ExecutionRef{ID: 5, RunID: 7, Step: "step-001", Attempt: 1}, Turn: 1, Started: w.env.Now(), Records: 1, DirectivesSeq: 2, Paused: true,
	})
	require.NoError(t, w.env.GetWorkflowError())
	require.Zero(t, early)
	require.Equal(t, 1, w.thinks["step-001"])
}

func TestAStepWhoseOpeningFailsEndsItsExecution(t *testing.T) {
	t.Parallel()
	w := newRunFixture(t)
	w.fail[contract.ActivityOpenStep+"/step-001"] = fault.New(contract.ClassConfig, contract.CodeRepository, "it is gone")
	result := w.orchestrate(t)
	require.Equal(t, contract.CodeRepository, result.Failure.Code)
	begun, ended := int64(0), int64(0)
	for i, rec := range w.recorded() {
		if rec.Begin != nil && rec.Begin.Step == "step-001" {
			begun = int64(i + 1)
		}
		if rec.End != nil && len(rec.Events) > 0 && rec.Events[0].Type == contract.EventStepError {
			ended = rec.End.ExecutionID
		}
	}
	require.NotZero(t, begun)
	require.Equal(t, begun, ended, "no execution is left running")
	require.Equal(t, 1, w.begun["builder/step-001"], "and it began once")
}

func TestTurnsThatAnActivityMadeTogetherCountAsIfTheyWereMadeOneByOne(t *testing.T) {
	t.Parallel()
	turn := func(tree string) contract.ThinkResult {
		return contract.ThinkResult{
			Calls: []contract.ToolCallRef{{Tool: "edit_file"}}, Usage: contract.Usage{Calls: 1, PromptTokens: 100, CompletionTokens: 10, MicroUSD: 5},
			Done: []contract.DoneCall{{Outcome: contract.ToolOutcome{OK: true, Workspace: contract.Workspace{Tree: tree}, Fingerprint: tree}}},
		}
	}
	t.Run("all succeed", func(t *testing.T) {
		t.Parallel()
		w := newRunFixture(t)
		together, last := turn("a"), turn("c")
		last.Finish = true
		together.Further = []contract.ThinkResult{turn("b"), last}
		w.env.OnActivity(contract.ActivityThink, anything, anything).Once().Return(together, nil)
		result := w.orchestrate(t)
		require.Equal(t, contract.StatusDone, result.Status)
		require.Equal(t, int64(10+3*110), w.view(t).Usage.Tokens())
		require.Equal(t, []string{"c"}, w.commits)
	})
	t.Run("the next one must be made again", func(t *testing.T) {
		t.Parallel()
		w := newRunFixture(t)
		together, last := turn("a"), turn("c")
		last.Finish = true
		together.Further, together.Wait = []contract.ThinkResult{turn("b")}, 7*time.Second
		var began, again time.Time
		w.env.OnActivity(contract.ActivityThink, anything, mock.MatchedBy(func(in contract.ThinkInput) bool { return in.Turn == 1 })).
			Run(func(mock.Arguments) { began = w.env.Now() }).Return(together, nil)
		w.env.OnActivity(contract.ActivityThink, anything, mock.MatchedBy(func(in contract.ThinkInput) bool { return in.Turn == 3 })).
			Run(func(mock.Arguments) { again = w.env.Now() }).Return(last, nil)
		require.Equal(t, contract.StatusDone, w.orchestrate(t).Status)
		require.GreaterOrEqual(t, again.Sub(began), 7*time.Second)
	})
	t.Run("the last one fails", func(t *testing.T) {
		t.Parallel()
		w := newRunFixture(t)
		together := turn("a")
		together.Further = []contract.ThinkResult{turn("b"), {Failure: &contract.Failure{Class: contract.ClassConfig, Code: contract.CodeUnauthorized, Message: "the key is wrong"}}}
		w.env.OnActivity(contract.ActivityThink, anything, anything).Once().Return(together, nil)
		result := w.orchestrate(t)
		require.Equal(t, "the key is wrong", result.Failure.Message)
		require.Equal(t, 3, w.view(t).Steps[0].Turns)
	})
}

func TestTurnsAreMadeTogetherWithinTheLimitsOfTheStep(t *testing.T) {
	t.Parallel()
	w := newRunFixture(t)
	w.answers["step-001"] = endless
	var asked []*contract.FurtherTurns
	w.onThink = func(in contract.ThinkInput) { asked = append(asked, in.Further) }
	result := w.orchestrate(t, func(s *contract.Settings) {
		s.StepBudget = contract.StepBudget{Turns: 3, Time: time.Hour, LoopLimit: 5}
	})
	require.Equal(t, contract.CodeStepBudget, result.Failure.Code)
	require.Equal(t, []int{2, 1}, []int{asked[0].Turns, asked[1].Turns})
	require.Nil(t, asked[2], "the last turn")
	require.LessOrEqual(t, asked[0].Time, time.Hour)
	require.Positive(t, asked[1].Time)
}

func TestNoTurnsAreMadeTogetherOnceOneMoreRepetitionWouldEndTheStep(t *testing.T) {
	t.Parallel()
	w := newRunFixture(t)
	w.answers["step-001"] = endless
	w.fail["repeat"] = fault.New(contract.ClassRuntime, "", "")
	var together []bool
	w.onThink = func(in contract.ThinkInput) {
		together = append(together, in.Further != nil)
		require.Equal(t, in.Further != nil, in.Tools.Long > 0, "its long calls are counted before the next one, too")
	}
	require.Equal(t, contract.CodeLoop, w.orchestrate(t).Failure.Code)
	require.Equal(t, []bool{true, true, true, true, false}, together)
}
