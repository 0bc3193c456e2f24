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
	rules = append(rules, plansEdits("edited", wrong)...)
	rules = append(rules, rule(on("agent", "builder", "turn", 2, "step", "step-edited", "contains", "Not finished: these checks fail"),
		calls(call("edit_file", "path", "made.txt", "old_text", wrong, "new_text", "right"), harness.Finish("corrected it")), 50))
	rules = append(rules, plansEdits("well", "right")...)
	rules = append(rules, rule(on("agent", "builder", "turn", 1, "step", "step-well"),
		calls(call("create_file", "path", "made.txt", "content", "replayed\n"), harness.Finish("made it again")), 50))
	w := &stackTests{Stack: harness.Start(t, harness.Options{Scenario: rules, Env: []string{"RGPT_EXECUTION_STEP_FINISH_CHECKS=true"}})}
	w.shell = harness.Repo(t, filepath.Join(w.Dir, "shell"), healableRepo())
	t.Run("of an agent", func(t *testing.T) { t.Parallel(); failedAtFinish(t, w) })
	t.Run("of a planner's edits", func(t *testing.T) { t.Parallel(); editedByPlanner(t, w) })
	t.Run("if a planner makes none", func(t *testing.T) { t.Parallel(); editedWell(t, w) })
}

func failedAtFinish(t *testing.T, w *stackTests) {
	t.Helper()
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

// plansEdits are the rules of a planner that reads, and then submits a plan that creates made.txt.
func plansEdits(name, content string) harness.Rules {
	plan := call("submit_plan", "summary", "A plan.", "complexity_score", 0.2,
		"steps", []any{map[string]any{
			"id": "step-" + name, "name": "Make it", "description": "Make made.txt.", "dependencies": []string{},
			"estimated_complexity": "low", "risk_level": "low", "verification_criteria": []string{}, "files": []string{},
		}},
		"edits", []any{map[string]any{"path": "made.txt", "new_text": content + "\n"}})
	return harness.Rules{
		rule(on("agent", "planner", "turn", 1), calls(call("list_files")), 50),
		rule(on("agent", "planner", "turn", 2), calls(plan), 50),
	}.Named(name)
}

// editedByPlanner is a run whose planner makes the change with a mistake: its agent begins with the
// edits and the checks that fail.
func editedByPlanner(t *testing.T, w *stackTests) {
	t.Helper()
	id := w.start(t, "edited")
	w.end(t, id, contract.StatusDone)
	run := w.Inspect(t, id)
	require.Empty(t, run.SelfHealEvents)
	require.Equal(t, "right", harness.Git(t, w.shell, "show", run.ReleaseCommit+":made.txt"))
	made, err := w.Store(t).ModelCalls(t.Context(), id)
	require.NoError(t, err)
	require.Len(t, made, 3, "a look, a plan with a mistake, a correction")
	require.Equal(t, 2, made[2].Turn, "the plan contains the first turn of the step")
}

// editedWell is a run whose planner makes the change well: no model is asked to carry it out, unless a
// person wants it to be carried out again.
func editedWell(t *testing.T, w *stackTests) {
	t.Helper()
	id := w.start(t, "well")
	w.end(t, id, contract.StatusDone)
	run := w.Inspect(t, id)
	require.Equal(t, "right", harness.Git(t, w.shell, "show", run.ReleaseCommit+":made.txt"))
	require.Contains(t, harness.Git(t, w.shell, "show", "-s", run.ReleaseCommit), "RGPT-Prompt: planner@", "the planner made the change")
	made, err := w.Store(t).ModelCalls(t.Context(), id)
	require.NoError(t, err)
	require.Len(t, made, 2, "a look and a plan")
	require.Contains(t, w.RGPT(t, "run", "inspect", arg(id)).Stdout, "    +right\n")

	again := w.again(t, id, "replay", "--phase", "builder")
	require.Equal(t, "replayed", harness.Git(t, w.shell, "show", again.ReleaseCommit+":made.txt"), "an agent carries it out")
}
