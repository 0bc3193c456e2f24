package e2e

import (
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/test/harness"
)

// TestRunsAreHealedWithoutAnyWorkflowInMemory lets a worker do each workflow's
// whole history again at each of its tasks, as every worker does after a crash:
// what it decides must follow from the history alone. The recorded histories
// cannot show that of commands that are not in them yet.
func TestRunsAreHealedWithoutAnyWorkflowInMemory(t *testing.T) {
	t.Parallel()
	examples := filepath.Join(harness.Root(), "examples", "go")
	w := &stackTests{Stack: harness.Start(t, harness.Options{
		Scenario: harness.ReadScenarios(t, filepath.Join(examples, "good.yaml"), filepath.Join(examples, "heal-*.yaml")),
		Config:   "worker:\n  cached_workflows: 0\n",
	})}
	w.sample = harness.SampleRepo(t, "go", filepath.Join(w.Dir, "sample"))
	paused := w.startIn(t, w.sample, "good", "--approve-release")
	healed, skips := w.startIn(t, w.sample, "heal-many"), w.startIn(t, w.sample, "heal-skips-test", "--set", "execution.intervention.wait=1h")
	w.OK(t, "run", "pause", arg(paused))
	w.AwaitStatus(t, w.Store(t), paused, contract.StatusPaused, longest)
	w.OK(t, "run", "resume", arg(paused))
	waitsFor := func(id int64, what string) {
		w.AwaitRun(t, w.Store(t), id, "in want of "+what, 2*longest, func(r store.Run) bool { return r.WaitingFor == what })
	}
	waitsFor(paused, "release")
	w.OK(t, "run", "approve", arg(paused))
	waitsFor(skips, "intervention")
	w.OK(t, "run", "reject", arg(skips))
	for id, status := range map[int64]contract.Status{paused: contract.StatusDone, healed: contract.StatusDone, skips: contract.StatusFailed} {
		require.Equal(t, status, w.AwaitEnd(t, w.Store(t), id, 2*longest).Status)
		w.uncached(t, id)
	}
	require.Len(t, w.Inspect(t, healed).SelfHealEvents, 5)
	w.OK(t, "run", "replay", arg(healed), "--phase", "tester")
	require.Equal(t, contract.StatusDone, w.AwaitEnd(t, w.Store(t), healed, 2*longest).Status)
	w.uncached(t, healed)
	slices.Sort(w.runs)
	harness.CheckInvariants(t, w.Stack, w.runs...)
}

// uncached requires that no task of a run's workflows went to a worker because
// that had the workflow in memory.
func (w *stackTests) uncached(t *testing.T, id int64) {
	t.Helper()
	tasks := 0
	for _, h := range w.Histories(t, id) {
		for _, e := range h.Events {
			if a := e.GetWorkflowTaskScheduledEventAttributes(); a != nil {
				tasks++
				require.Equal(t, enumspb.TASK_QUEUE_KIND_NORMAL, a.GetTaskQueue().GetKind(), "%s, event %d", h.WorkflowID, e.GetEventId())
			}
		}
	}
	require.Greater(t, tasks, 3, "run %d was worked at", id)
}
