package activities_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/cores"
	"github.com/rocketgpt/orchestrator/internal/notice"
)

func TestChecksAndCommandsWaitForAFreeCoreAndOtherWorkDoesNot(t *testing.T) {
	t.Parallel()
	h := newFixture(t, "\n  - when: {agent: builder}\n    reply: {tool_calls: [{name: run_command, arguments: {command: \"true\"}}, {name: list_files, arguments: {}}]}\n")
	e, ws := h.openStep()
	_, failure := do[contract.ThinkResult](h, h.Think, contract.ThinkInput{Execution: e, Turn: 1, Model: choice})
	require.Nil(t, failure)
	plan, failure := do[contract.TestPlanResult](h, h.PlanTests, contract.TestPlanInput{Execution: e, Workspace: ws})
	require.Nil(t, failure)

	h.Cores = cores.NewQueue(1, nil)
	release, err := h.Cores.Acquire(t.Context(), cores.Claim{Owner: "another project"})
	require.NoError(t, err)
	call := contract.ToolInput{Execution: e, Turn: 1, Workspace: ws, Timeout: h.Config.Execution.CommandTimeout}
	check := contract.VerifyInput{Execution: h.begin(contract.PhaseTester, ""), Workspace: ws, Check: plan.Stages[0][0], Timeout: h.Config.Execution.CommandTimeout}
	results := make(chan error, 2)
	waits := make(chan struct{}, 2)
	ctx := notice.With(t.Context(), notice.Receiver{Waits: func(begins bool) {
		if begins {
			waits <- struct{}{}
		}
	}})
	go func() {
		_, err := h.CallTool(ctx, call)
		results <- err
	}()
	go func() {
		_, err := h.Verify(ctx, check)
		results <- err
	}()
	<-waits
	<-waits
	reading := call
	reading.Index = 1
	out, failure := do[contract.ToolOutcome](h, h.CallTool, reading)
	require.Nil(t, failure)
	require.True(t, out.OK, "a call that runs no command does not wait")
	require.Empty(t, results)

	release()
	require.NoError(t, <-results)
	require.NoError(t, <-results)
}

func TestATurnRestsOnlyWhileItsModelResponds(t *testing.T) {
	t.Parallel()
	h := newFixture(t, "\n  - when: {agent: builder}\n    reply: {tool_calls: [{name: list_files, arguments: {}}]}\n")
	e, _ := h.openStep()
	var said []bool
	ctx := notice.With(t.Context(), notice.Receiver{Idle: func(now bool) { said = append(said, now) }})
	_, err := h.Think(ctx, contract.ThinkInput{Execution: e, Turn: 1, Model: choice})
	require.NoError(t, err)
	require.Equal(t, []bool{true, false}, said)
	said = nil
	_, err = h.Think(ctx, contract.ThinkInput{Execution: e, Turn: 1, Model: choice})
	require.NoError(t, err)
	require.NotContains(t, said, true, "the response is stored")
}
