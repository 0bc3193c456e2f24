package run

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/fault"
	"github.com/rocketgpt/orchestrator/workflows/internal/affinity"
	"github.com/rocketgpt/orchestrator/workflows/run/state"
)

func TestWhoDeliberatesUsesTheModelThatThePlannerWasSwitchedTo(t *testing.T) {
	t.Parallel()
	first, own, now := contract.ModelChoice{Provider: "a", Model: "planner"}, contract.ModelChoice{Provider: "b", Model: "own"}, contract.ModelChoice{Provider: "c", Model: "other"}
	given := contract.DeliberationSettings{
		Iterations: 7, Models: map[contract.Agent]contract.ModelChoice{contract.AgentAlpha: first, contract.AgentBeta: own, contract.AgentGamma: first},
	}
	r := &run{
		in:    contract.RunInput{Settings: contract.Settings{Models: map[contract.Agent]contract.ModelChoice{contract.AgentPlanner: first}, Deliberation: &given}},
		State: state.State{Models: map[contract.Agent]contract.ModelChoice{contract.AgentPlanner: first}},
	}
	require.Equal(t, given, r.deliberationSettings())
	r.Models = map[contract.Agent]contract.ModelChoice{contract.AgentPlanner: now}
	s := r.deliberationSettings()
	require.Equal(t, map[contract.Agent]contract.ModelChoice{contract.AgentAlpha: now, contract.AgentBeta: own, contract.AgentGamma: now}, s.Models)
	require.Equal(t, 7, s.Iterations)
	require.Equal(t, first, given.Models[contract.AgentAlpha], "the run's own inputs stay")
}

func TestWhoDeliberatesLearnsWhatThePlannerKnows(t *testing.T) {
	t.Parallel()
	planner := affinity.WorkKey(contract.PhasePlanner, "")
	r := &run{in: contract.RunInput{Settings: contract.Settings{Deliberation: &contract.DeliberationSettings{}}}, State: state.State{
		Input: &contract.PlannerInput{Question: "Which one?", Option: "this"},
	}}
	r.Heals.Lessons, r.Heals.Compact = map[string][]int{planner: {2, 3}}, map[string]int{planner: 1}
	s := r.deliberationSettings()
	require.Equal(t, contract.Lessons{Heals: []int{2, 3}, Compact: 1}, s.Lessons)
	require.Equal(t, r.Input, s.Input)
}

// TestWhoWasSwitchedToThePlannersModelFollowsThePlanner switches all agents, and then
// only the planner, like a heal whose provider is down.
func TestWhoWasSwitchedToThePlannersModelFollowsThePlanner(t *testing.T) {
	t.Parallel()
	first, all, now := contract.ModelChoice{Provider: "a", Model: "planner"}, contract.ModelChoice{Provider: "b", Model: "all"}, contract.ModelChoice{Provider: "c", Model: "other"}
	own := contract.ModelChoice{Provider: "d", Model: "own"}
	r := &run{in: contract.RunInput{Settings: contract.Settings{Deliberation: &contract.DeliberationSettings{
		Models: map[contract.Agent]contract.ModelChoice{contract.AgentAlpha: first, contract.AgentBeta: first, contract.AgentGamma: first},
	}}}, State: state.State{Models: map[contract.Agent]contract.ModelChoice{contract.AgentPlanner: first}, SwitchedModels: map[contract.Agent]contract.ModelChoice{}}}
	r.applySwitchModel(nil, contract.Command{Model: &all})
	r.applySwitchModel(nil, contract.Command{Agent: contract.AgentGamma, Model: &own})
	require.Equal(t, all, r.memberModels()[contract.AgentAlpha])
	r.setModel(contract.AgentPlanner, now)
	require.Equal(t, map[contract.Agent]contract.ModelChoice{contract.AgentAlpha: now, contract.AgentBeta: now, contract.AgentGamma: own}, r.memberModels())
	r.applySwitchModel(nil, contract.Command{Agent: contract.AgentPlanner, Model: &first})
	require.Equal(t, map[contract.Agent]contract.ModelChoice{contract.AgentAlpha: first, contract.AgentBeta: first, contract.AgentGamma: own}, r.memberModels())
}

func TestADeliberationThatAPersonStoppedIsNoPlannersFault(t *testing.T) {
	t.Parallel()
	for status, failure := range map[contract.PipelineStatus]contract.Failure{
		contract.PipelineStopped: {Class: contract.ClassHuman, Code: contract.CodeCancelled, Message: "stopped by me"},
		contract.PipelineTimeout: {Class: contract.ClassHuman, Code: contract.CodeCancelled, Message: "its time was over; it could not be recovered: stopped by me"},
	} {
		require.Equal(t, contract.ClassHuman, fault.Of(noConsensus(contract.DeliberationResult{Status: status, Failure: &failure})).Class, status)
	}
	given := fault.Of(noConsensus(contract.DeliberationResult{
		Status: contract.PipelineTimeout, AbortReason: contract.AbortTimeout, Failure: &contract.Failure{Class: contract.ClassLogic, Code: contract.CodeNoConsensus},
	}))
	require.Equal(t, []any{contract.ClassLogic, contract.CodeNoConsensus}, []any{given.Class, given.Code}, "a heal tries again what came to nothing by itself")
}
