package e2e

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/store/views"
	"github.com/rocketgpt/orchestrator/test/harness"
)

// hostileBuilders runs scenarios of models that do what they should not.
func (w *stackTests) hostileBuilders(t *testing.T) {
	expected := map[string]outcome{
		"invalid-json":       {class: contract.ClassLLM, code: contract.CodeInvalidOutput},
		"no-tool-call":       {class: contract.ClassLLM, code: contract.CodeInvalidOutput, says: "unusable"},
		"unknown-tool":       {check: w.wrote("step-001.txt", "right at last")},
		"hallucinated-path":  {check: w.wrote("real.txt", "it is there now")},
		"conflict":           {class: contract.ClassLogic, code: contract.CodeMergeConflict, says: "notes.txt"},
		"truncated":          {class: contract.ClassLLM, code: contract.CodeInvalidOutput, says: "cut off at the output limit"},
		"escape-once":        {check: w.wrote("inside.txt", "better")},
		"escape-by-symlink":  {class: contract.ClassSafety, code: contract.CodePathEscape},
		"red-command":        {check: w.wrote("after.txt", "it went on")},
		"needless-step":      {check: w.wrote("step-002.txt", "made by step-002")},
		"deletes-everything": {class: contract.ClassSafety, code: contract.CodeDenied, says: "deletes or empties"},
	}
	for name := range escapes() {
		expected["escape-"+name] = outcome{class: contract.ClassSafety, code: contract.CodePathEscape}
	}
	ids := map[string]int64{}
	for name := range expected {
		ids[name] = w.start(t, name, unhealed...)
	}
	for name, want := range expected {
		t.Run(name, func(t *testing.T) { w.ends(t, ids[name], want) })
	}
}

// wrote requires a text in a file on the branch.
func (w *stackTests) wrote(file, text string) func(*testing.T, views.RunDetails) {
	return func(t *testing.T, run views.RunDetails) {
		t.Helper()
		require.Contains(t, w.shows(t, run.Run, file), text)
	}
}

// escapes are paths that lead out of the workspace.
func escapes() map[string]string {
	return map[string]string{
		"parent":     "../outside.txt",
		"inside-out": "a/../../outside.txt",
		"git":        ".git/config",
		"git-hook":   ".GIT/hooks/post-checkout",
		"nested-git": "vendor/x/.git/config",
		"absolute":   "/tmp/rgpt-escaped.txt",
		"nul":        "a\x00b.txt",
	}
}

// escapeRules are those of a builder that tries again and again to write there.
func escapeRules() harness.Rules {
	var all harness.Rules
	for name, path := range escapes() {
		rules := harness.PlanRules("20ms", harness.Step{ID: "step-001"})
		rules = append(rules, map[string]any{
			"when":  map[string]any{"agent": "builder"},
			"reply": map[string]any{"tool_calls": []any{map[string]any{"name": "create_file", "arguments": map[string]any{"path": path, "content": "gotcha"}}}},
			"usage": map[string]any{"prompt_tokens": 100, "completion_tokens": 10},
		})
		all = append(all, rules.Named("escape-"+name)...)
	}
	return all
}

// oneFileRules are those of a plan as code with one step, step-a.
func oneFileRules() harness.Rules {
	return harness.PlanRules("20ms", writes("step-a"), writes("step-b"))
}

// secretSearchRules are those of a builder whose command looks for secrets.
func secretSearchRules() harness.Rules {
	look := "env; cat /proc/*/environ /proc/*/cmdline; cat ../../../stack.json ../../../postgres.password; " +
		"find / -name stack.json -o -name postgres.password -o -name .pgpass 2>/dev/null | xargs cat; ls -la / ..; echo looked everywhere; true"
	return harness.PlanRules("20ms", harness.Step{ID: "step-001", Turns: [][]harness.Call{
		{call("run_command", "command", look)},
		{call("create_file", "path", "looked.txt", "content", "it did\n"), harness.Finish("looked")},
	}})
}

func (w *stackTests) secretSearch(t *testing.T) {
	run := w.end(t, w.start(t, "nosy"), contract.StatusDone)
	logs := w.OK(t, "run", "logs", arg(run.ID), "--step", "step-001").Stdout
	require.Contains(t, logs, "looked everywhere", "it did run")
	w.CheckSecrets(t, run.ID)
}

// hostileModel is a provider of the tests' own.
type hostileModel struct {
	*httptest.Server
	asked atomic.Int64
}

// hugeText is more than any answer may have.
const hugeText = 50 << 20

// newHostileModel answers everything with 50 MB of text.
func newHostileModel(t *testing.T) *hostileModel {
	t.Helper()
	h := &hostileModel{}
	answer, err := json.Marshal(map[string]any{
		"id": "x", "object": "chat.completion", "model": "huge", "created": 1,
		"choices": []any{map[string]any{"index": 0, "finish_reason": "stop", "message": map[string]any{"role": "assistant", "content": strings.Repeat("blah ", hugeText/5)}}},
		"usage":   map[string]any{"prompt_tokens": 10, "completion_tokens": hugeText / 4, "total_tokens": hugeText/4 + 10},
	})
	require.NoError(t, err)
	h.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if strings.HasSuffix(r.URL.Path, "/models") {
			_, _ = w.Write([]byte(`{"object": "list", "data": []}`))
			return
		}
		h.asked.Add(1)
		_, _ = w.Write(answer)
	}))
	t.Cleanup(h.Close)
	return h
}

func (w *stackTests) hugeAnswer(t *testing.T) {
	id := w.Create(t, append([]string{"--repo", w.shell, "--goal", "Whatever", "--model", "hostile/huge"}, unhealed...)...) // not the scripted model's, so its money is not in that log
	run := w.end(t, id, contract.StatusFailed)
	require.Equal(t, contract.ClassLLM, run.Failure.Class, "%v", run.Failure)
	require.Less(t, len(run.Failure.Message), 4096)
	require.Equal(t, int64(1), w.hostile.asked.Load(), "what was answered badly is not asked again")
	for _, h := range w.Histories(t, id) {
		largest, kind := h.LargestEvent()
		require.Less(t, largest, 64<<10, "%s of %s", kind, h.WorkflowID)
	}
}
