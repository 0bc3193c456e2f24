package e2e

import (
	"context"
	"fmt"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/devstack"
	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/internal/store/views"
	"github.com/rocketgpt/orchestrator/test/harness"
)

// TestARunWatchesItsBranch drives what comes after a release on a real stack.
func TestARunWatchesItsBranch(t *testing.T) {
	t.Parallel()
	var rules harness.Rules
	mended := first(makes("right"), repairs("right", "better", "attempt", 1), repairs("better", "best", "attempt", 2))
	for name, r := range map[string]harness.Rules{
		"stay-mended": mended, "stay-bounded": mended, "stay-flooded": mended,
		"stay-killed": first(makes("right"), delayed(repairs("right", "better", "attempt", 1), "1500ms")),
	} {
		rules = append(rules, r.Named(name)...)
	}
	w := &stackTests{Stack: harness.Start(t, harness.Options{Scenario: rules})}
	w.shell = harness.Repo(t, filepath.Join(w.Dir, "shell"), healableRepo())
	t.Run("side by side", func(t *testing.T) {
		t.Run("red checks move the branch by one commit each", parallel(w.watchAndFix))
		t.Run("repairs are bounded and the branch stays", parallel(w.watchIsBounded))
		t.Run("a run continues as new before its updates are refused", parallel(w.watchWithManyMessages))
	})
	t.Run("a repair goes on after its worker was killed", w.watchAfterKill)
	harness.CheckInvariants(t, w.Stack, w.runs...)
	w.CheckSandboxes(t)
}

// watchesBranch makes a run of a scenario that stays with its branch, and waits for its
// release.
func (w *stackTests) watchesBranch(t *testing.T, scenario string, args ...string) views.RunDetails {
	t.Helper()
	id := w.start(t, scenario, append([]string{"--stay", "1h"}, args...)...)
	w.AwaitRun(t, w.Store(t), id, "with its branch", longest, func(r store.Run) bool { return r.StayingUntil != nil })
	return w.Inspect(t, id)
}

// moved waits until a run has released again and requires that its branch moved
// by exactly one commit, which the heal of that number made.
func (w *stackTests) moved(t *testing.T, before views.RunDetails, heal string) views.RunDetails {
	t.Helper()
	w.AwaitRun(t, w.Store(t), before.ID, "released again", longest, func(r store.Run) bool {
		return r.Status == contract.StatusDone && r.ReleaseCommit != before.ReleaseCommit
	})
	now := w.Inspect(t, before.ID)
	require.Equal(t, now.ReleaseCommit, harness.Git(t, w.shell, "rev-parse", now.ReleaseBranch))
	require.Equal(t, before.ReleaseCommit, harness.Git(t, w.shell, "rev-parse", now.ReleaseCommit+"^"))
	require.Equal(t, heal, harness.Git(t, w.shell, "log", "-1", "--format=%(trailers:key=RGPT-Step,valueonly,separator=)", now.ReleaseCommit))
	require.NotNil(t, now.StayingUntil)
	return now
}

func (w *stackTests) watchAndFix(t *testing.T) {
	run := w.watchesBranch(t, "stay-mended")
	id := arg(run.ID)
	log := filepath.Join(w.Dir, "unit.log")
	harness.WriteFiles(t, w.Dir, map[string]string{"unit.log": "--- FAIL: TestMore: it says right, want better\nFAIL\nOPENAI_API_KEY=" + w.Secret + "\n"})
	check := []string{"run", "check", id, "--name", "ci/unit", "--failed", "--log", log, "--id", "job-1", "--commit", run.ReleaseCommit}
	w.OK(t, check...)
	run = w.moved(t, run, "heal-1")
	require.Contains(t, w.OK(t, check...).Stdout, "was already received")
	require.Contains(t, harness.Git(t, w.shell, "show", run.ReleaseBranch+":made.txt"), "better")
	(&healTests{stackTests: w}).requireReceived(contract.AgentRepair, "it says right, want better", "The check ci/unit failed")(t, run)

	// A service that only signals, with Temporal's own client.
	require.NoError(t, w.Temporal(t).SignalWorkflow(t.Context(), contract.RunWorkflowID(run.ID), "", contract.UpdateCheck, map[string]any{
		"id": "review-1", "kind": "comment", "name": "made.txt:1", "details": "say best", "by": "ann",
	}))
	run = w.moved(t, run, "heal-2")
	require.Equal(t, []string{"ASSERTION_ERROR tests_failed repair success", "ASSERTION_ERROR check_failed repair success"}, healsOf(run))
	require.Equal(t, 2, countEvents(run, contract.EventCheckReceived))

	require.Contains(t, w.RGPT(t, "run", "replay", id, "--phase", "tester").Stderr, "is watching its branch")
	require.Contains(t, w.RGPT(t, "run", "pause", id).Stderr, "only watching its branch")
	require.Contains(t, w.OK(t, "run", "watch", id).Stdout, "watches")
	w.OK(t, "run", "stop", id)
	ended := w.AwaitRun(t, w.Store(t), run.ID, "alone", longest, func(r store.Run) bool { return r.StayingUntil == nil })
	require.Equal(t, contract.StatusDone, ended.Status)
	// The row is written a moment before the workflow ends; until then it knows the message.
	require.NoError(t, w.Temporal(t).GetWorkflow(t.Context(), contract.RunWorkflowID(run.ID), "").Get(t.Context(), nil))
	require.NotZero(t, w.RGPT(t, check...).Code, "a run that has ended takes no checks")
}

func (w *stackTests) watchIsBounded(t *testing.T) {
	run := w.watchesBranch(t, "stay-bounded", "--set", "git.max_repairs=1", "--set", helpInTime)
	id := arg(run.ID)
	w.OK(t, "run", "check", id, "--name", "ci/lint", "--failed", "--summary", "line too long")
	run = w.moved(t, run, "heal-1")
	w.OK(t, "run", "check", id, "--name", "ci/lint", "--failed", "--summary", "line too long")
	failed := w.AwaitStatus(t, w.Store(t), run.ID, contract.StatusFailed, longest)
	require.Equal(t, run.ReleaseCommit, failed.ReleaseCommit)
	require.Contains(t, failed.Failure.Message, "git.max_repairs")
	require.Nil(t, failed.StayingUntil)
	require.Equal(t, run.ReleaseCommit, harness.Git(t, w.shell, "rev-parse", run.ReleaseBranch), "the branch stands")
}

// workflowRun returns the workflow run that a run has now.
func (w *stackTests) workflowRun(t *testing.T, id int64) string {
	t.Helper()
	described, err := w.Temporal(t).DescribeWorkflowExecution(t.Context(), contract.RunWorkflowID(id), "")
	require.NoError(t, err)
	return described.GetWorkflowExecutionInfo().GetExecution().GetRunId()
}

// watchWithManyMessages sends a run more messages than one history should take. The run goes
// on in another history, and is replayed from a phase of the first one.
func (w *stackTests) watchWithManyMessages(t *testing.T) {
	run := w.watchesBranch(t, "stay-flooded")
	before := w.workflowRun(t, run.ID)
	for n := range contract.MaxUpdates {
		require.NoError(t, w.Temporal(t).SignalWorkflow(t.Context(), contract.RunWorkflowID(run.ID), "", contract.UpdateCheck, map[string]any{
			"id": fmt.Sprint("green-", n), "name": "ci/unit", "conclusion": "success", "by": "ci",
		}))
	}
	harness.Await(t, "another history", longest, func() (bool, string) { now := w.workflowRun(t, run.ID); return now != before, now })
	w.OK(t, "run", "check", arg(run.ID), "--name", "ci/unit", "--failed", "--summary", "it says right")
	run = w.moved(t, run, "heal-1")
	w.OK(t, "run", "stop", arg(run.ID))
	w.AwaitRun(t, w.Store(t), run.ID, "alone", longest, func(r store.Run) bool { return r.StayingUntil == nil })

	w.OK(t, "run", "replay", arg(run.ID), "--phase", "tester")
	w.AwaitRun(t, w.Store(t), run.ID, "released again", longest, func(r store.Run) bool {
		return r.Status == contract.StatusDone && r.StayingUntil != nil && r.ReleaseCommit == run.ReleaseCommit
	})
	w.OK(t, "run", "stop", arg(run.ID))
	w.AwaitRun(t, w.Store(t), run.ID, "alone again", longest, func(r store.Run) bool { return r.StayingUntil == nil })
}

func (w *stackTests) watchAfterKill(t *testing.T) {
	run := w.watchesBranch(t, "stay-killed")
	w.OK(t, "run", "check", arg(run.ID), "--name", "ci/unit", "--failed", "--summary", "it says right")
	w.AwaitRun(t, w.Store(t), run.ID, "being repaired", longest, func(r store.Run) bool { return r.Status == contract.StatusSelfHeal })
	w.Kill(t, devstack.RoleWorker)
	w.Up(t)
	run = w.moved(t, run, "heal-1")
	require.Len(t, run.SelfHealEvents, 1)
	w.OK(t, "run", "stop", arg(run.ID))
	w.AwaitRun(t, w.Store(t), run.ID, "alone", longest, func(r store.Run) bool { return r.StayingUntil == nil })
	ctx, cancel := context.WithTimeout(t.Context(), longest)
	defer cancel()
	require.NoError(t, w.Temporal(t).GetWorkflow(ctx, contract.RunWorkflowID(run.ID), "").Get(ctx, nil))
}
