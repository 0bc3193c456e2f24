package e2e

import (
	"bytes"
	"image"
	"image/png"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/test/harness"
)

// TestAGoalWithPicturesReachesTheModels drives pictures on a stack of its own: every call of planner
// and builder has two pictures, or the scenario has no rule for it.
func TestAGoalWithPicturesReachesTheModels(t *testing.T) {
	t.Parallel()
	var rules harness.Rules
	pictured := func(name string, pictures int, all harness.Rules) {
		for _, rule := range all.Named(name) {
			when, _ := rule["when"].(map[string]any)
			when["pictures"] = pictures
			rules = append(rules, rule)
		}
	}
	// A follow-up's prompt also contains the goal before it, so its rules come first.
	pictured("later", 1, harness.PlanRules("20ms", writes("step-003")))
	pictured("mock", 2, quickRules("20ms"))
	pictured("blind", 0, quickRules("20ms"))
	w := &stackTests{Stack: harness.Start(t, harness.Options{Scenario: rules})}
	w.shell = harness.ShellRepo(t, filepath.Join(w.Dir, "shell"))
	mock := filepath.Join(w.Dir, "mock up.png")
	var picture bytes.Buffer
	require.NoError(t, png.Encode(&picture, image.NewGray(image.Rect(0, 0, 640, 480))))
	require.NoError(t, os.WriteFile(mock, picture.Bytes(), 0o600))

	run := w.done(t, "mock", "--model", "scripted/seeing", "--picture", mock, "--picture", mock)
	require.Len(t, run.Settings.Pictures, 2)
	require.Equal(t, "goal/1-mock-up.png", run.Artifacts[0].Name)
	require.Contains(t, w.task(t, run, contract.AgentPlanner), "mock-up.png")
	require.Contains(t, w.task(t, run, contract.AgentBuilder), run.Settings.Pictures[0].Digest)
	for _, e := range run.Executions {
		messages, err := w.Store(t).Conversation(t.Context(), e.ID)
		require.NoError(t, err)
		for _, m := range messages {
			require.NotContains(t, string(m.Content), `"data"`, "transcripts have references")
		}
	}
	for _, h := range w.Histories(t, run.ID) {
		size, kind := h.LargestEvent()
		require.Less(t, size, 64<<10, kind)
	}

	fork := w.Inspect(t, w.end(t, w.fork(t, run.ID), contract.StatusDone).ID)
	require.Equal(t, run.Settings.Pictures, fork.Settings.Pictures, "a fork has the same goal")
	later := w.Inspect(t, w.end(t, w.followUp(t, run.ID, "later", "--picture", mock), contract.StatusDone).ID)
	require.Len(t, later.Settings.Pictures, 1, "a follow-up has only its own")

	w.done(t, "blind", "--picture", mock) // a model that cannot see gets a note instead

	text := filepath.Join(w.Dir, "notes.png")
	require.NoError(t, os.WriteFile(text, []byte("<svg/>"), 0o600))
	r := w.RGPT(t, "run", "create", "--repo", w.shell, "--goal", harness.Goal("mock"), "--picture", text)
	require.Equal(t, exitInput, r.Code, "%s", r)
	require.Contains(t, r.Stderr, "neither a PNG")

	harness.CheckInvariants(t, w.Stack, w.runs...)
}
