package e2e

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/test/harness"
)

// TestAFailedCheckGoesBackToTheAgentAndNoHealIsSpent runs a whole stack with the checks before an
// agent finishes, which other stacks turn off.
func TestAFailedCheckGoesBackToTheAgentAndNoHealIsSpent(t *testing.T) {
	t.Parallel()
	rules := harness.PlanRules("20ms", harness.Step{ID: "step-001", Turns: [][]harness.Call{
		{call("create_file", "path", "made.txt", "content", wrong+"\n"), harness.Finish("made it")},
	}}).Named("checked")
	rules = append(rules, rule(on("agent", "builder", "turn", 2, "contains", "Not finished: these checks fail"),
		calls(call("edit_file", "path", "made.txt", "old_text", wrong, "new_text", "right"), harness.Finish("corrected it")), 50))
	w := &stackTests{Stack: harness.Start(t, harness.Options{Scenario: rules, Env: []string{"RGPT_EXECUTION_STEP_FINISH_CHECKS=true"}})}
	w.shell = harness.Repo(t, filepath.Join(w.Dir, "shell"), healableRepo())
	id := w.start(t, "checked")
	w.end(t, id, contract.StatusDone)
	run := w.Inspect(t, id)
	require.Empty(t, run.SelfHealEvents)
	require.Zero(t, run.RetryCount)

	db := w.Store(t)
	made, err := db.ModelCalls(t.Context(), id)
	require.NoError(t, err)
	require.Len(t, made, 3, "a plan, a mistake, a correction")
	asked, err := db.ToolCalls(t.Context(), id)
	require.NoError(t, err)
	var finishes []store.ToolCall
	for _, c := range asked {
		if c.Tool == "finish" {
			finishes = append(finishes, c)
		}
	}
	require.Len(t, finishes, 2)
	require.Equal(t, contract.CodeCheckFailed, finishes[0].Outcome.Code)
	require.True(t, finishes[1].Outcome.OK)

	names := map[string]bool{}
	for _, f := range run.Artifacts {
		names[f.Name] = true
	}
	require.True(t, names["tester/1/test-configured-1/output.log"], "%v", names)
	for _, e := range run.Executions {
		stored, err := db.Checks(t.Context(), e.ID)
		require.NoError(t, err)
		if e.Phase == contract.PhaseTester {
			require.NotEmpty(t, stored, "the tester has the agent's last results")
			require.True(t, stored[0].Result.OK)
		}
	}
	require.Equal(t, "right", harness.Git(t, w.shell, "show", run.ReleaseCommit+":made.txt"))
}
