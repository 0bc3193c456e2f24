package activities_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/model"
	"github.com/rocketgpt/orchestrator/internal/verify/checks"
)

func TestWhatFailsBeforeAnAgentFinishesIsTheResultOfFinish(t *testing.T) {
	t.Parallel()
	h := newFixture(t, "\n"+calls(1, `{name: edit_file, arguments: {path: hello.txt, old_text: hello, new_text: bye}}`, `{name: finish, arguments: {summary: done}}`)+
		`  - when: {agent: builder, turn: 2, contains: "configured tests failed"}
    reply: {tool_calls: [{name: finish, arguments: {summary: done}}]}
`)
	h.testedBy(checks.Settings{Test: checks.StageSettings{Command: "make test || { echo it says goodbye; exit 1; }"}})
	a := h.agent()
	told, failure := do[contract.ThinkResult](h, h.Think, contract.ThinkInput{Execution: a.e, Turn: 1, Model: choice})
	require.Nil(t, failure)
	require.True(t, told.Finish)
	edited, failure := do[contract.ToolOutcome](h, h.CallTool, contract.ToolInput{Execution: a.e, Turn: 1, Workspace: a.ws})
	require.Nil(t, failure)
	plan, failure := do[contract.TestPlanResult](h, h.PlanTests, contract.TestPlanInput{Execution: a.e, Workspace: edited.Workspace})
	require.Nil(t, failure)
	in := contract.VerifyInput{Execution: a.e, Workspace: edited.Workspace, Check: plan.Stages[0][0], Timeout: 120e9}
	result, failure := do[contract.CheckResult](h, h.Verify, in)
	require.Nil(t, failure)
	require.False(t, result.OK)
	again, failure := do[contract.CheckResult](h, h.Verify, in)
	require.Nil(t, failure)
	require.Equal(t, result.DurationMS, again.DurationMS, "the same files are not checked twice")
	refused, failure := do[contract.ToolOutcome](h, h.CallTool, contract.ToolInput{Execution: a.e, Turn: 1, Index: 1, Workspace: edited.Workspace, Failed: []string{in.Check.ID}})
	require.Nil(t, failure)
	require.False(t, refused.OK)
	require.Equal(t, contract.CodeCheckFailed, refused.Code)
	require.Equal(t, edited.Workspace.Tree, refused.Workspace.Tree)
	_, failure = do[contract.ThinkResult](h, h.Think, contract.ThinkInput{Execution: a.e, Turn: 2, Model: choice})
	require.Nil(t, failure, "the model sees what failed")
}

func TestTheTesterDoesNotRepeatTheChecksOfAnAgentForTheSameFiles(t *testing.T) {
	t.Parallel()
	h := newFixture(t, "\n"+calls(1, `{name: edit_file, arguments: {path: hello.txt, old_text: hello, new_text: hello you}}`))
	h.run.Settings.FinishRefusals = 2
	h.testedBy(checks.Settings{Build: checks.StageSettings{Command: "true"}, Test: checks.StageSettings{Command: "make test; echo tested"}})
	a := h.agent()
	a.turn()
	plan, failure := do[contract.TestPlanResult](h, h.PlanTests, contract.TestPlanInput{Execution: a.e, Workspace: a.ws})
	require.Nil(t, failure)
	require.Len(t, plan.Stages, 2)
	require.Empty(t, plan.Done)
	var agents []contract.CheckResult
	for _, stage := range plan.Stages {
		result, failure := do[contract.CheckResult](h, h.Verify, contract.VerifyInput{Execution: a.e, Workspace: a.ws, Check: stage[0], Timeout: 120e9})
		require.Nil(t, failure)
		agents = append(agents, result)
	}

	e := h.begin(contract.PhaseTester, "")
	tester, failure := do[contract.TestPlanResult](h, h.PlanTests, contract.TestPlanInput{Execution: e, Workspace: a.ws})
	require.Nil(t, failure)
	require.Empty(t, tester.Stages)
	require.Equal(t, agents, tester.Done)
	stored, err := h.Store.Checks(t.Context(), e.ID)
	require.NoError(t, err)
	require.Len(t, stored, 2)
	files, err := h.Store.Artifacts(t.Context(), h.run.ID)
	require.NoError(t, err)
	names := map[string]int64{}
	for _, f := range files {
		names[f.Name] = f.ExecutionID
	}
	require.Equal(t, e.ID, names["tester/1/test-configured-1/output.log"], "%v", names)

	other, failure := do[contract.TestPlanResult](h, h.PlanTests, contract.TestPlanInput{Execution: h.begin(contract.PhaseTester, ""), Workspace: h.repo.Workspace()})
	require.Nil(t, failure)
	require.Len(t, other.Stages, 2, "other files are checked")
	repeated, failure := do[contract.TestPlanResult](h, h.PlanTests, contract.TestPlanInput{Execution: h.begin(contract.PhaseTester, ""), Workspace: a.ws})
	require.Nil(t, failure)
	require.Len(t, repeated.Stages, 2, "a repeated tester checks again")
}

func TestTheReasonWhyAnAgentMayNotFinishIsBoundedAndSaysWhatToDo(t *testing.T) {
	t.Parallel()
	h := newFixture(t, "\n"+calls(1, `{name: finish, arguments: {summary: done}}`))
	a := h.agent()
	_, failure := do[contract.ThinkResult](h, h.Think, contract.ThinkInput{Execution: a.e, Turn: 1, Model: choice})
	require.Nil(t, failure)
	var ids []string
	var cases []contract.TestCase
	for i := range 100 {
		cases = append(cases, contract.TestCase{Name: fmt.Sprint("TestNumber", i), Status: contract.TestFailed, Message: strings.Repeat("expected this, got that\n", 40)})
	}
	for i := range 6 {
		check := contract.Check{ID: fmt.Sprint("test-", i), Category: contract.CategoryTest, Name: fmt.Sprint("tests ", i)}
		require.NoError(t, h.Store.SaveCheck(t.Context(), a.e, check.ID, contract.CheckResult{Check: check, Message: "100 tests failed"}, cases, nil, ""))
		ids = append(ids, check.ID)
	}
	_, failure = do[contract.ToolOutcome](h, h.CallTool, contract.ToolInput{Execution: a.e, Turn: 1, Workspace: a.ws, Failed: ids})
	require.Nil(t, failure)
	_, message, err := h.Store.ToolResult(t.Context(), a.e.ID, 1, 0)
	require.NoError(t, err)
	var m model.Message
	require.NoError(t, json.Unmarshal(message.Content, &m))
	require.Less(t, len(m.Text), 18<<10)
	for i := range ids {
		require.Contains(t, m.Text, fmt.Sprintf("tests %d failed: 100 tests failed", i))
	}
	require.Contains(t, m.Text, "Fix what your change broke, then call finish again.")
}
