package e2e

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/test/harness"
)

const (
	parallelSteps = 20
	callTokens    = 2500
	runTokens     = 60_000
	stepTurns     = runTokens / callTokens // so no step ends before the budget does, however far ahead it gets
)

// parallelBudgetRules are those of 20 steps that depend on nothing.
func parallelBudgetRules() harness.Rules {
	var steps []harness.Step
	for i := range parallelSteps {
		id := fmt.Sprintf("step-%03d", i+1)
		s := harness.Step{ID: id}
		for turn := range stepTurns {
			s.Turns = append(s.Turns, []harness.Call{call("create_file", "path", fmt.Sprintf("%s-%d.txt", id, turn), "content", "x\n")})
		}
		steps = append(steps, s)
	}
	rules := harness.PlanRules("100ms", steps...)
	for _, r := range rules[1:] {
		r["usage"] = map[string]any{"prompt_tokens": callTokens - 100, "completion_tokens": 100}
	}
	return rules
}

func (w *stackTests) parallelBudget(t *testing.T) {
	id := w.start(t, "parallel-budget", "--set", fmt.Sprintf("execution.run.tokens=%d", runTokens), "--set", fmt.Sprintf("execution.parallel_steps=%d", parallelSteps))
	run := w.failed(t, id, contract.ClassConfig, contract.CodeBudgetExceeded)
	require.Contains(t, run.Failure.Message, "execution.run.tokens")
	require.Greater(t, run.Usage.Tokens(), int64(runTokens/2), "it was the budget that ended it")
	require.LessOrEqual(t, run.Usage.Tokens(), int64(runTokens+parallelSteps*callTokens), "overspent by no more than the calls in flight")
	t.Logf("a budget of %d tokens, %d spent, %d steps at once", runTokens, run.Usage.Tokens(), parallelSteps)
}

// smallHistoryRules are those of 6 steps of 10 turns.
func smallHistoryRules() harness.Rules {
	var steps []harness.Step
	for i := range 6 {
		id := fmt.Sprintf("step-%03d", i+1)
		s := harness.Step{ID: id}
		for turn := range 9 {
			s.Turns = append(s.Turns, []harness.Call{
				call("read_file", "path", "notes.txt", "start_line", 1+turn%3),
				call("create_file", "path", fmt.Sprintf("%s/%d.txt", id, turn), "content", strings.Repeat("text\n", 100)),
			})
		}
		s.Turns = append(s.Turns, []harness.Call{harness.Finish("done")})
		steps = append(steps, s)
	}
	return harness.PlanRules("10ms", steps...)
}

func (w *stackTests) smallHistory(t *testing.T) {
	id := w.start(t, "small-history")
	w.end(t, id, contract.StatusDone)
	require.Len(t, w.Requests(t, id), 61)
	events, bytes := 0, 0
	for _, h := range w.Histories(t, id) {
		events, bytes = events+len(h.Events), bytes+h.Bytes()
		largest, kind := h.LargestEvent()
		require.Less(t, largest, 64<<10, "%s of %s", kind, h.WorkflowID)
	}
	t.Logf("6 steps of 10 turns: %d events, %d KiB", events, bytes>>10)
	require.Less(t, events, 3000)
}

const (
	longTurns = 25
	longCalls = 4 // in each turn
	longLine  = 79
	longLines = 100 // read by each call
)

// longConversationRules are those of a step that reads 100 different pieces of a
// long file, 2000 tokens each.
func longConversationRules() harness.Rules {
	s := harness.Step{ID: "step-001"}
	for turn := range longTurns {
		var calls []harness.Call
		for c := range longCalls {
			from := 1 + (turn*longCalls+c)*longLines
			calls = append(calls, call("read_file", "path", "long.md", "start_line", from, "end_line", from+longLines-1))
		}
		s.Turns = append(s.Turns, calls)
	}
	s.Turns = append(s.Turns, []harness.Call{call("create_file", "path", "read.txt", "content", "all of it\n"), harness.Finish("read it")})
	return harness.PlanRules("10ms", s)
}

func (w *stackTests) longConversation(t *testing.T) {
	text := strings.Repeat(strings.Repeat("a", longLine)+"\n", longTurns*longCalls*longLines)
	repo := harness.Repo(t, filepath.Join(w.Dir, "long"), map[string]string{
		"long.md": text, "test.sh": "#!/bin/sh\ntrue\n", "rgpt.yaml": "verification:\n  auto_detect: false\n  test: {command: ./test.sh, format: exit-code}\n",
	})
	id := w.startIn(t, repo, "long-conversation")
	w.end(t, id, contract.StatusDone)
	db := w.Store(t)
	said := 0
	for _, e := range w.Inspect(t, id).Executions {
		transcript, err := db.Transcript(t.Context(), e.ID)
		require.NoError(t, err)
		for _, m := range transcript {
			said += len(m.Content)
		}
	}
	require.Greater(t, said, 4*200_000, "the conversation has 200,000 tokens of 4 bytes")
	bytes := 0
	for _, h := range w.Histories(t, id) {
		bytes += h.Bytes()
	}
	t.Logf("a conversation of %d KiB leaves %d KiB of history", said>>10, bytes>>10)
	require.Less(t, bytes, 1<<20)
}
