package oracle_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/eval/commits"
	"github.com/rocketgpt/orchestrator/internal/eval/oracle"
	"github.com/rocketgpt/orchestrator/internal/scripted"
	"github.com/rocketgpt/orchestrator/internal/tool"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func call(name, text string) commits.Call {
	return commits.Call{Name: name, Arguments: map[string]string{"path": "a.py", "new_text": text}}
}

// model is the scripted model's server with one solution.
type model struct {
	t    *testing.T
	url  string
	name string
}

func newModel(t *testing.T, s oracle.Solution) model {
	t.Helper()
	dir := t.TempDir()
	name, err := oracle.Store(dir, s)
	require.NoError(t, err)
	scenario, err := scripted.Parse("none", []byte("rules: []\n"))
	require.NoError(t, err)
	server, err := scripted.New(scenario, scripted.Options{Player: &oracle.Player{Dir: dir}})
	require.NoError(t, err)
	web := httptest.NewServer(server)
	t.Cleanup(func() { web.Close(); require.NoError(t, server.Close()) })
	return model{t, web.URL, name}
}

// ask returns the calls of the model after the given turns, each the names of its calls, or its text.
func (m model) ask(agent string, tools string, turns ...string) (calls []string, text string) {
	m.t.Helper()
	return m.askAgain("1", agent, tools, turns...)
}

// askAgain is ask in a later attempt.
func (m model) askAgain(attempt, agent, tools string, turns ...string) (calls []string, text string) {
	m.t.Helper()
	messages := []any{map[string]any{"role": "user", "content": "goal"}}
	for _, turn := range turns {
		messages = append(messages, map[string]any{"role": "assistant", "content": nil, "tool_calls": []any{map[string]any{
			"id": "1", "type": "function", "function": map[string]any{"name": turn, "arguments": "{}"},
		}}}, map[string]any{"role": "tool", "tool_call_id": "1", "content": "result"})
	}
	body := map[string]any{"model": m.name, "messages": messages}
	if tools != "" {
		body["tools"] = []any{map[string]any{"type": "function", "function": map[string]any{"name": tools}}}
	}
	raw, err := json.Marshal(body)
	require.NoError(m.t, err)
	r, err := http.NewRequestWithContext(m.t.Context(), http.MethodPost, m.url+"/v1/chat/completions", strings.NewReader(string(raw)))
	require.NoError(m.t, err)
	r.Header.Set("X-RGPT-Agent", agent)
	r.Header.Set("X-RGPT-Attempt", attempt)
	answer, err := http.DefaultClient.Do(r)
	require.NoError(m.t, err)
	defer answer.Body.Close()
	require.Equal(m.t, http.StatusOK, answer.StatusCode)
	var doc struct {
		Choices []struct {
			Message struct {
				Content string `json:"content"`
				Calls   []struct {
					Function struct{ Name, Arguments string } `json:"function"`
				} `json:"tool_calls"`
			} `json:"message"`
		} `json:"choices"`
	}
	require.NoError(m.t, json.NewDecoder(answer.Body).Decode(&doc))
	for _, c := range doc.Choices[0].Message.Calls {
		var args map[string]string
		_ = json.Unmarshal([]byte(c.Function.Arguments), &args)
		calls = append(calls, strings.TrimSpace(c.Function.Name+" "+args["new_text"]))
	}
	return calls, doc.Choices[0].Message.Content
}

func TestTheOracleReadsThenEditsThenFinishes(t *testing.T) {
	t.Parallel()
	m := newModel(t, oracle.Solution{Title: "Fix it", Files: []string{"a.py"}, Calls: []commits.Call{call(tool.EditFile, "right")}})
	_, text := m.ask("planner", "")
	var plan contract.Plan
	require.NoError(t, json.Unmarshal([]byte(text), &plan))
	require.Empty(t, plan.Problems())
	calls, _ := m.ask("planner", "submit_plan")
	require.Equal(t, []string{"submit_plan"}, calls)
	for i, want := range []string{"read_file", "edit_file right", "finish"} {
		turns := []string{"read_file", "edit_file"}[:i]
		calls, _ = m.ask("builder", tool.EditFile, turns...)
		require.Equal(t, []string{want}, calls)
	}
	calls, _ = m.ask("repair", tool.EditFile)
	require.Equal(t, []string{"finish"}, calls, "what is right is not changed again")
}

func TestANoisyOracleFixesItsMistakeOnceItIsSeen(t *testing.T) {
	t.Parallel()
	m := newModel(t, oracle.Solution{
		Title: "Fix it", Files: []string{"a.py"}, Calls: []commits.Call{call(tool.EditFile, "right")}, Wrong: []commits.Call{call(tool.EditFile, "wrong")},
		Fix: []commits.Call{call(tool.EditFile, "fixed")}, Again: []commits.Call{call(tool.DeleteFile, ""), call(tool.CreateFile, "whole")},
	})
	calls, _ := m.ask("builder", tool.EditFile, "read_file")
	require.Equal(t, []string{"edit_file wrong"}, calls)
	// Its work was not accepted.
	calls, _ = m.ask("builder", tool.EditFile, "read_file", "edit_file", "finish", "read_file")
	require.Equal(t, []string{"edit_file fixed"}, calls)
	calls, _ = m.ask("repair", tool.EditFile, "read_file")
	require.Equal(t, []string{"edit_file fixed"}, calls)
	calls, _ = m.ask("repair", tool.EditFile, "read_file", "edit_file")
	require.Equal(t, []string{"finish"}, calls)
}

func TestASecondAttemptMakesNoChangeTwice(t *testing.T) {
	t.Parallel()
	s := oracle.Solution{
		Title: "Fix it", Files: []string{"a.py"}, Calls: []commits.Call{call(tool.EditFile, "right")},
		Again: []commits.Call{call(tool.DeleteFile, ""), call(tool.CreateFile, "whole")},
	}
	want := []string{"delete_file", "create_file whole"}
	calls, _ := newModel(t, s).askAgain("2", "builder", tool.EditFile)
	require.Equal(t, want, calls)
	s.Wrong, s.Fix = []commits.Call{call(tool.EditFile, "wrong")}, []commits.Call{call(tool.EditFile, "fixed")}
	calls, _ = newModel(t, s).askAgain("2", "builder", tool.EditFile)
	require.Equal(t, want, calls)
}
