package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/test/harness"
)

// endlessRules are those of a model that never answers the builder.
func endlessRules() harness.Rules {
	return append(harness.PlanRules("20ms", harness.Step{ID: "step-001"}), map[string]any{
		"when": map[string]any{"agent": "builder"}, "fault": map[string]any{"timeout": true},
	})
}

// endlessCommandRules are those of a builder whose command never ends.
func endlessCommandRules() harness.Rules {
	return harness.PlanRules("20ms", harness.Step{ID: "step-001", Turns: [][]harness.Call{
		{call("create_file", "path", "begun.txt", "content", "begun\n"), call("run_command", "command", "sleep 1000 & sleep 1000")},
	}})
}

// asking waits until a step's agent has made a number of calls.
func (w *stackTests) asking(t *testing.T, id int64, calls int) {
	t.Helper()
	db := w.Store(t)
	harness.Await(t, fmt.Sprintf("run %d to have made %d model calls", id, calls), longest, func() (bool, string) {
		made, err := db.ModelCalls(t.Context(), id)
		return err == nil && len(made) >= calls, fmt.Sprint(len(made), err)
	})
}

func (w *stackTests) pause(t *testing.T) {
	id := w.start(t, "slow")
	w.asking(t, id, 2)
	require.Contains(t, w.OK(t, "run", "pause", arg(id), "--reason", "lunch").Stdout, "paused")
	run := w.AwaitStatus(t, w.Store(t), id, contract.StatusPaused, longest)
	require.NotEmpty(t, run.WaitingFor)
	again := w.RGPT(t, "run", "pause", arg(id))
	require.Equal(t, exitInput, again.Code)
	require.Contains(t, again.Stderr, "already paused")
	w.requireStopped(t, id)
	w.OK(t, "run", "resume", arg(id))
	w.end(t, id, contract.StatusDone)
	require.Equal(t, exitInput, w.RGPT(t, "run", "resume", arg(id)).Code, "what has ended cannot be resumed")
}

// requireStopped requires that a paused run finishes what is under way and asks its
// model nothing more for a while.
func (w *stackTests) requireStopped(t *testing.T, id int64) {
	t.Helper()
	db := w.Store(t)
	harness.Await(t, "the call under way to finish", longest, func() (bool, string) {
		calls, err := db.ModelCalls(t.Context(), id)
		open := 0
		for _, c := range calls {
			if c.Status == "reserved" {
				open++
			}
		}
		return err == nil && open == 0, fmt.Sprint(open, " open ", err)
	})
	before, err := db.ModelCalls(t.Context(), id)
	require.NoError(t, err)
	since := time.Now()
	harness.Await(t, "two seconds to pass in which nothing happens", longest, func() (bool, string) {
		calls, err := db.ModelCalls(t.Context(), id)
		require.NoError(t, err)
		require.Len(t, calls, len(before), "a paused run asked its model")
		return time.Since(since) > 2*time.Second, ""
	})
}

func (w *stackTests) stop(t *testing.T) {
	for _, scenario := range []string{"endless", "endless-command"} {
		id := w.start(t, scenario)
		w.asking(t, id, 2)
		if scenario == "endless-command" {
			w.commandRuns(t)
		}
		began := time.Now()
		w.OK(t, "run", "stop", arg(id), "--reason", "enough")
		run := w.end(t, id, contract.StatusCancelled)
		require.Less(t, time.Since(began), 10*time.Second)
		require.Equal(t, contract.CodeCancelled, run.Failure.Code)
		require.Contains(t, run.Failure.Message, "enough")
		require.Equal(t, exitStopped, w.RGPT(t, "run", "watch", arg(id)).Code)
		require.Equal(t, exitInput, w.RGPT(t, "run", "stop", arg(id)).Code, "it has ended")
		details := w.Inspect(t, id)
		require.NotEmpty(t, details.Executions, "partial results are kept")
		for _, e := range details.Executions {
			require.NotEqual(t, contract.ExecutionRunning, e.Status, "%s %s", e.Phase, e.Step)
		}
	}
	timedOut := w.start(t, "endless", "--timeout", "1s")
	run := w.end(t, timedOut, contract.StatusFailed)
	require.Equal(t, contract.CodeRunTimeout, run.Failure.Code)
	require.Equal(t, exitStopped, w.RGPT(t, "run", "watch", arg(timedOut)).Code)
}

// commandRuns waits for the command that never ends.
func (w *stackTests) commandRuns(t *testing.T) {
	t.Helper()
	harness.Await(t, "the command to run", longest, func() (bool, string) {
		return harness.Running("sleep", "1000"), "it does not"
	})
}

func (w *stackTests) advance(t *testing.T) {
	id := w.start(t, "slow")
	require.Equal(t, exitInput, w.RGPT(t, "run", "advance", arg(id)).Code, "a run that is not paused goes on by itself")
	w.asking(t, id, 1)
	w.OK(t, "run", "pause", arg(id))
	w.OK(t, "run", "advance", arg(id))
	var seen []contract.Phase
	for _, phase := range []contract.Phase{contract.PhaseBuilder, contract.PhaseTester, contract.PhaseReleaser} {
		run := w.AwaitRun(t, w.Store(t), id, "paused before the "+string(phase), longest, func(r store.Run) bool {
			return r.Status.Terminal() || r.Status == contract.StatusPaused && r.WaitingFor == "advanced to the "+string(phase)
		})
		require.Equal(t, contract.StatusPaused, run.Status)
		seen = append(seen, phase)
		w.OK(t, "run", "advance", arg(id))
	}
	require.Len(t, seen, 3)
	w.end(t, id, contract.StatusDone)
}

func (w *stackTests) switchModel(t *testing.T) {
	id := w.start(t, "slow")
	w.asking(t, id, 2)
	require.Equal(t, exitInput, w.RGPT(t, "run", "switch-model", arg(id), "--model", "nobody/x").Code)
	require.Equal(t, exitInput, w.RGPT(t, "run", "switch-model", arg(id), "--model", "scripted/x", "--agent", "nobody").Code)
	w.OK(t, "run", "switch-model", arg(id), "--model", "scripted/other", "--agent", "builder")
	w.end(t, id, contract.StatusDone)
	models := map[string]int{}
	for _, e := range w.Requests(t, id) {
		models[e.Agent+" "+e.Model]++
	}
	require.Equal(t, 1, models["planner scripted"])
	require.Positive(t, models["builder scripted"], "the calls before: %v", models)
	require.Positive(t, models["builder other"], "the calls after: %v", models)
	kinds := map[contract.EventType]int{}
	for _, e := range w.Inspect(t, id).Events {
		kinds[e.Type]++
	}
	require.Equal(t, 1, kinds[contract.EventModelSwitched])
}

func (w *stackTests) approvals(t *testing.T) {
	db := w.Store(t)
	plan := w.start(t, "quick", "--approve-plan", "--approve-release")
	no := w.start(t, "quick", "--approve-plan")
	late := w.start(t, "quick", "--approve-plan", "--set", "execution.approval.wait=1s")
	w.AwaitStatus(t, db, plan, contract.StatusWaitingForApproval, longest)
	require.Equal(t, exitInput, w.RGPT(t, "run", "approve", arg(plan), "--approval", "another").Code)
	w.OK(t, "run", "approve", arg(plan), "--reason", "fine")
	w.AwaitRun(t, db, plan, "waiting for the release's approval", longest, func(r store.Run) bool {
		return r.Status == contract.StatusWaitingForApproval && r.WaitingFor == "release"
	})
	w.OK(t, "run", "approve", arg(plan))
	w.end(t, plan, contract.StatusDone)
	require.Equal(t, exitInput, w.RGPT(t, "run", "approve", arg(plan)).Code, "it can be answered once")

	w.AwaitStatus(t, db, no, contract.StatusWaitingForApproval, longest)
	w.OK(t, "run", "reject", arg(no), "--reason", "too risky")
	details := w.failed(t, no, contract.ClassHuman, contract.CodeRejected)
	require.Contains(t, details.Failure.Message, "too risky")
	require.Equal(t, "rejected", details.Approvals[0].Status)
	w.failed(t, late, contract.ClassHuman, contract.CodeApprovalExpired)
}

// planOf is a plan as code with steps that depend on nothing.
func planOf(steps ...string) string {
	text := "summary: A plan as code.\ncomplexity_score: 0.1\nsteps:\n"
	for _, s := range steps {
		text += "- {id: " + s + ", name: Do " + s + ", description: x, dependencies: [], estimated_complexity: low, risk_level: low, verification_criteria: [], files: []}\n"
	}
	return text
}

func (w *stackTests) plans(t *testing.T) {
	t.Run("only a plan", func(t *testing.T) {
		run := w.end(t, w.start(t, "quick", "--plan-only"), contract.StatusDone)
		require.Empty(t, run.ReleaseCommit)
		require.Equal(t, contract.PhasePlanner, run.Phase)
		require.Contains(t, string(w.Inspect(t, run.ID).PlannerOutput), "step-002")
	})
	file := filepath.Join(w.Dir, "plan.yaml")
	require.NoError(t, os.WriteFile(file, []byte(planOf("step-a")), 0o600))
	t.Run("a plan as code", func(t *testing.T) {
		run := w.end(t, w.start(t, "one-file", "--plan", file), contract.StatusDone)
		require.Equal(t, "made by step-a", w.shows(t, run, "step-a.txt"))
		for _, e := range w.Requests(t, run.ID) {
			require.NotEqual(t, "planner", e.Agent, "nobody was asked for a plan")
		}
	})
	t.Run("an edited plan", func(t *testing.T) {
		id := w.start(t, "one-file", "--approve-plan")
		w.AwaitStatus(t, w.Store(t), id, contract.StatusWaitingForApproval, longest)
		bad := filepath.Join(w.Dir, "bad-plan.yaml")
		require.NoError(t, os.WriteFile(bad, []byte(planOf("step-a", "step-a")), 0o600))
		require.Equal(t, exitInput, w.RGPT(t, "run", "approve", arg(id), "--plan", bad).Code)
		w.OK(t, "run", "approve", arg(id), "--plan", file) // without step-b
		run := w.end(t, id, contract.StatusDone)
		files := harness.Git(t, w.shell, "ls-tree", "--name-only", run.ReleaseBranch)
		require.Contains(t, files, "step-a.txt")
		require.NotContains(t, files, "step-b.txt")
	})
}
