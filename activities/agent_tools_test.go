package activities_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/model"
	"github.com/rocketgpt/orchestrator/internal/telemetry"
	"github.com/rocketgpt/orchestrator/internal/verify/checks"
)

// agent is the work of an agent on a step, turn by turn.
type agent struct {
	h        *fixture
	e        contract.ExecutionRef
	from, ws contract.Workspace
	turns    int
	told     contract.ThinkResult // of the last turn
}

func (h *fixture) agent() *agent {
	h.t.Helper()
	e, ws := h.openStep()
	return &agent{h: h, e: e, from: ws, ws: ws}
}

// turn takes the next turn, and returns the results that the model sees.
func (a *agent) turn() (texts []string, outcomes []contract.ToolOutcome) {
	a.h.t.Helper()
	a.turns++
	told, failure := do[contract.ThinkResult](a.h, a.h.Think, contract.ThinkInput{Execution: a.e, Turn: a.turns, Model: choice})
	require.Nil(a.h.t, failure)
	a.told = told
	for _, c := range told.Calls {
		out, failure := do[contract.ToolOutcome](a.h, a.h.CallTool, contract.ToolInput{
			Execution: a.e, Turn: a.turns, Index: c.Index, Workspace: a.ws, From: a.from.Slim(), Timeout: 120e9,
		})
		require.Nil(a.h.t, failure)
		_, message, err := a.h.Store.ToolResult(a.h.t.Context(), a.e.ID, a.turns, c.Index)
		require.NoError(a.h.t, err)
		var m model.Message
		require.NoError(a.h.t, json.Unmarshal(message.Content, &m))
		a.ws = out.Workspace
		texts, outcomes = append(texts, m.Text), append(outcomes, out)
	}
	return texts, outcomes
}

// calls is the rule of a turn with tool calls, as YAML flow mappings.
func calls(turn int, all ...string) string {
	return fmt.Sprintf("  - when: {agent: builder, turn: %d}\n    reply: {tool_calls: [%s]}\n", turn, strings.Join(all, ", "))
}

func TestAnAgentReadsTheRestOfALongOutputByItsID(t *testing.T) {
	t.Parallel()
	h := newFixture(t, "\n"+
		calls(1, `{name: run_command, arguments: {command: "seq 100000; echo key `+canary+`"}}`, `{name: read_file, arguments: {path: hello.txt}}`)+
		calls(2, `{name: read_output, arguments: {id: output/step-001/1/1-0.log, start_line: 50000, end_line: 50001}}`, `{name: read_output, arguments: {id: "1.1"}}`, `{name: read_output, arguments: {id: "1"}}`,
			`{name: read_output, arguments: {id: output/step-001/1/1-0.log, start_line: 100000}}`)+
		calls(3, `{name: read_output, arguments: {id: "7.0"}}`, `{name: read_output, arguments: {id: "../../etc/passwd"}}`, `{name: read_output, arguments: {id: "plan/1.json"}}`))
	a := h.agent()
	texts, _ := a.turn()
	require.Regexp(t, `read_output \{"id": "output/step-001/1/1-0\.log", "start_line": \d+\}`, texts[0])
	require.Less(t, len(texts[0]), 20<<10)
	texts, _ = a.turn()
	require.Contains(t, texts[0], "50000\t49999\n")
	require.Equal(t, "1\t1\thello\n", texts[1])
	require.Contains(t, texts[2][:500], `read_file {"path":"hello.txt"}`, "a whole turn has its calls")
	require.Contains(t, texts[3], "key "+telemetry.Redacted, "what is stored has no secrets")
	_, outcomes := a.turn()
	for _, out := range outcomes {
		require.False(t, out.OK, "only existing results and logs can be read")
	}
}

func TestAnAgentComparesRevertsAndTracesFiles(t *testing.T) {
	t.Parallel()
	h := newFixture(t, "\n"+
		calls(1, `{name: edit_file, arguments: {path: hello.txt, edits: [{old_text: hello, new_text: hello there}, {old_text: there, new_text: you}]}}`, `{name: create_file, arguments: {path: new.txt, content: x}}`)+
		calls(2, `{name: diff, arguments: {}}`, `{name: diff, arguments: {path: new.txt}}`, `{name: history, arguments: {path: hello.txt, start_line: 1}}`, `{name: history, arguments: {path: new.txt}}`)+
		calls(3, `{name: revert_file, arguments: {path: hello.txt}}`, `{name: revert_file, arguments: {path: new.txt, to: base}}`, `{name: diff, arguments: {}}`))
	a := h.agent()
	texts, _ := a.turn()
	require.Equal(t, "Changed hello.txt at line 1.\n1\thello you\n", texts[0])
	texts, outcomes := a.turn()
	require.Contains(t, texts[0], "+hello you")
	require.Contains(t, texts[0], "new.txt")
	require.NotContains(t, texts[1], "hello.txt")
	require.Contains(t, texts[2], " t: Start\n")
	require.Regexp(t, `(?m)^1 [0-9a-f]{12} \d{4}-\d\d-\d\d t: Start$`, texts[2])
	require.False(t, outcomes[3].OK)
	require.NotContains(t, strings.Join(texts, "\n"), h.dataDir, "no path of the host")
	texts, _ = a.turn()
	require.Equal(t, "[no differences]\n", texts[2])
	require.Equal(t, h.repo.Tree, a.ws.Tree)
}

func TestAnAgentRunsTheProjectsChecksByName(t *testing.T) {
	t.Parallel()
	h := newFixture(t, "\n"+
		calls(1, `{name: check, arguments: {name: configured tests}}`, `{name: edit_file, arguments: {path: hello.txt, old_text: hello, new_text: bye}}`)+
		calls(2, `{name: check, arguments: {name: configured tests}}`, `{name: check, arguments: {name: Configured Tests, on: base}}`, `{name: check, arguments: {name: "true; reboot"}}`)+
		calls(3, `{name: read_output, arguments: {id: output/step-001/1/2-0-0.log}}`))
	h.testedBy(checks.Settings{Test: checks.StageSettings{Command: "make test || { echo broken; exit 1; }"}})
	a := h.agent()
	texts, outcomes := a.turn()
	require.True(t, outcomes[0].OK, texts[0])
	require.Contains(t, texts[0], "configured tests passed")
	texts, outcomes = a.turn()
	require.False(t, outcomes[0].OK)
	require.Contains(t, texts[0], "configured tests failed\n")
	require.Equal(t, 1, strings.Count(texts[0], "exited with code 1"), "the failure is described once: %s", texts[0])
	require.Contains(t, texts[0], `[the whole output: read_output {"id": "output/step-001/1/2-0-0.log"}]`)
	require.True(t, outcomes[1].OK, texts[1])
	require.False(t, outcomes[2].OK)
	require.Contains(t, texts[2], "The project's checks: configured tests.")
	texts, _ = a.turn()
	require.Contains(t, texts[0], "broken")
	stored, err := h.Store.Checks(t.Context(), a.e.ID)
	require.NoError(t, err)
	require.Empty(t, stored, "it is not part of the run's verification")
}

func TestACommandsPipelineFailsInTheRealShell(t *testing.T) {
	t.Parallel()
	h := newFixture(t, "\n"+calls(1, `{name: run_command, arguments: {command: "false | cat"}}`, `{name: run_command, arguments: {command: "yes | head -1"}}`, `{name: run_command, arguments: {command: "sh -c 'false | true'; env | grep PYTHONPYCACHEPREFIX; pwd"}}`))
	texts, outcomes := h.agent().turn()
	require.False(t, outcomes[0].OK)
	require.Contains(t, texts[0], "exit code: 1\n")
	require.True(t, outcomes[1].OK, texts[1])
	require.Contains(t, texts[2], "PYTHONPYCACHEPREFIX=/var/cache/build/python\n/workspace\n")
	require.NotContains(t, texts[2], h.dataDir)
}

func TestACheckThatExceedsTheTimeOfACallIsNotSaidToFail(t *testing.T) {
	t.Parallel()
	h := newFixture(t, "\n"+calls(1, `{name: check, arguments: {name: configured tests}}`))
	h.run.Settings.VerifyTimeout = 20 * time.Minute
	h.testedBy(checks.Settings{Test: checks.StageSettings{Command: "sleep 100"}})
	a := h.agent()
	_, failure := do[contract.ThinkResult](h, h.Think, contract.ThinkInput{Execution: a.e, Turn: 1, Model: choice})
	require.Nil(t, failure)
	out, failure := do[contract.ToolOutcome](h, h.CallTool, contract.ToolInput{Execution: a.e, Turn: 1, Workspace: a.ws, From: a.ws.Slim(), Timeout: time.Second})
	require.Nil(t, failure)
	require.False(t, out.OK)
	_, message, err := h.Store.ToolResult(t.Context(), a.e.ID, 1, 0)
	require.NoError(t, err)
	require.Contains(t, string(message.Content), "This does not mean that it fails: the final verification gives it 20m0s, a call of a tool only 1s")
}
