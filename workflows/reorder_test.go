package workflows

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// reorderings are changes of workflow code that swap two adjacent commands, local and
// ordinary activities: each would break running workflows.
var reorderings = []struct{ file, first, second, broken string }{
	{
		file: "selfheal/selfheal.go", // a heal is announced before it was diagnosed
		first: "	if err := h.diagnose(ctx); err != nil {\n		return contract.Directive{}, err\n	}\n" +
			"	// A paused run begins no action.\n" +
			"	if err := workflow.Await(ctx, func() bool { return !h.instructions.Paused }); err != nil {\n		return contract.Directive{}, err\n	}\n" +
			"	h.lookForWorker(ctx)\n",
		second: "	action := h.choose()\n" +
			"	if err := h.recordStart(ctx, action); err != nil {\n		return contract.Directive{}, err\n	}\n",
		broken: "v0.1.0/healed-heal-1",
	},
	{
		file: "run/run.go", // a run cleans up before it says that it has failed
		first: "	if len(events) > 0 || len(notes) > 0 || r.completed != nil {\n" +
			"		if _, err := r.transition(last, contract.Record{Events: events, Heals: notes}); err != nil {\n" +
			"			return contract.RunResult{}, err\n		}\n	}\n",
		second: "	r.cleanUp(last)\n",
		broken: "v0.1.0/stopped-run",
	},
	{
		file:   "deliberation/workflow.go", // members are revoked before the handoff is written
		first:  "	d.writeHandoff(ctx, reason)\n",
		second: "	d.dismiss(ctx)\n",
		broken: "v0.1.0/deliberated-pipeline-1",
	},
}

// TestSwappingTwoActivitiesTurnsTheReplayRed swaps activities in a copy of the code and
// requires that the replay of the recorded histories notices: the replay protects
// running workflows from such a change.
func TestSwappingTwoActivitiesTurnsTheReplayRed(t *testing.T) {
	t.Parallel()
	dir, instead := t.TempDir(), map[string]string{}
	for _, r := range reorderings {
		source, err := os.ReadFile(r.file)
		require.NoError(t, err)
		require.Equal(t, 1, strings.Count(string(source), r.first+r.second), "%s has the lines to be swapped; if they moved, swap others here", r.file)
		path, err := filepath.Abs(r.file)
		require.NoError(t, err)
		instead[path] = filepath.Join(dir, filepath.Base(r.file))
		require.NoError(t, os.WriteFile(instead[path], []byte(strings.Replace(string(source), r.first+r.second, r.second+r.first, 1)), 0o600))
	}
	out := replayWith(t, dir, instead)
	for _, r := range reorderings {
		require.Contains(t, out, "--- FAIL: TestRecordedHistoriesReplay/"+r.broken)
	}
	require.Contains(t, out, "[TMPRL1100]", "which is Temporal's name for code that does not do what its history says")
	require.Contains(t, out, "--- PASS: TestRecordedHistoriesReplay/v0.1.0/good-step-001", "what was not changed replays")
}

// replayWith runs the replay test with other files in place of the package's. The
// package does not change: the compiler sees an overlay.
func replayWith(t *testing.T, dir string, instead map[string]string) (output string) {
	t.Helper()
	raw, err := json.Marshal(map[string]any{"Replace": instead})
	require.NoError(t, err)
	overlay := filepath.Join(dir, "overlay.json")
	require.NoError(t, os.WriteFile(overlay, raw, 0o600))
	cmd := exec.CommandContext(t.Context(), "go", "test", "-overlay", overlay, "-vet=off", "-count=1", "-v", "-run", "^TestRecordedHistoriesReplay$", ".")
	text, err := cmd.CombinedOutput()
	require.Error(t, err, "the replay is green: %s", text)
	return string(text)
}
