package workflows

import (
	"testing"
	"time"

	"github.com/stretchr/testify/mock"
	"github.com/stretchr/testify/require"

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
			w := newWorld(t)
			w.answers["step-001"] = endless
			result := w.orchestrate(t, func(s *contract.Settings) { change(&s.StepBudget) })
			require.Equal(t, contract.CodeStepBudget, result.Failure.Code)
			require.Equal(t, 3, w.thinks["step-001"])
		})
	}
	t.Run("time", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		w.env.OnActivity(contract.ActivityThink, anything, anything).After(time.Minute).Return(endless[0], nil)
		result := w.orchestrate(t, func(s *contract.Settings) { s.StepBudget.Time = 90 * time.Second; s.ModelTimeout = time.Hour })
		require.Equal(t, contract.CodeStepBudget, result.Failure.Code)
	})
}

func TestTheSameCallWithTheSameResultForEverIsBroken(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.answers["step-001"] = endless
	w.fail["repeat"] = fault.New(contract.ClassRuntime, "", "")
	result := w.orchestrate(t)
	require.Equal(t, contract.ClassLLM, result.Failure.Class)
	require.Equal(t, contract.CodeLoop, result.Failure.Code)
	require.Equal(t, 5, w.thinks["step-001"])
}

func TestUnusableAnswersInARowEndTheStep(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.answers["step-001"] = []contract.ThinkResult{{Bad: "no tool call"}}
	result := w.orchestrate(t)
	require.Equal(t, contract.CodeInvalidOutput, result.Failure.Code)
	require.Equal(t, 3, w.thinks["step-001"])
}

func TestASecondPathEscapeIsASafetyError(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.answers["step-001"] = endless
	w.fail["escape"] = fault.New(contract.ClassRuntime, "", "")
	result := w.orchestrate(t)
	require.Equal(t, contract.ClassSafety, result.Failure.Class)
	require.Equal(t, contract.CodePathEscape, result.Failure.Code)
	require.Equal(t, 2, w.tools)
}

func TestAHostWithoutTheRepositoryFetchesItInAnOrdinaryActivity(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.fail["cold"] = fault.New(contract.ClassRuntime, "", "")
	require.Equal(t, contract.StatusDone, w.orchestrate(t).Status)
	require.False(t, w.opened["step-001"].Quick, "asked again without Quick")
}

func TestAConflictNamesTheStep(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.env.OnActivity(contract.ActivityOpenStep, anything, anything).Return(contract.OpenStepResult{
		Conflict: &contract.Conflict{Step: "step-000", Paths: []string{"a.go"}},
	}, nil)
	result := w.orchestrate(t)
	require.Equal(t, contract.ClassLogic, result.Failure.Class)
	require.Equal(t, contract.CodeMergeConflict, result.Failure.Code)
	require.Contains(t, result.Failure.Message, "a.go")
}
