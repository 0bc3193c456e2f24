package e2e

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/devstack"
	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/internal/store/views"
	"github.com/rocketgpt/orchestrator/test/harness"
)

// TestARunIsForked drives forks on a stack of its own.
func TestARunIsForked(t *testing.T) {
	t.Parallel()
	var rules harness.Rules
	for name, r := range map[string]harness.Rules{"diamond": forkRules("20ms"), "slow": forkRules("500ms")} {
		rules = append(rules, r.Named(name)...)
	}
	w := &stackTests{Stack: harness.Start(t, harness.Options{Scenario: rules})}
	w.shell = harness.ShellRepo(t, filepath.Join(w.Dir, "shell"))
	t.Run("side by side", func(t *testing.T) {
		t.Run("from a step on with another model", parallel(w.forkStep))
		t.Run("from the planner with another plan", parallel(w.forkPlan))
		t.Run("after a turn of a conversation", parallel(w.forkTurn))
		t.Run("a fork is forked and replayed", parallel(w.forkFork))
		t.Run("what cannot be forked is refused with a reason", parallel(w.forkRefused))
	})
	t.Run("a fork goes on after its worker was killed", w.forkKilled)
	harness.CheckInvariants(t, w.Stack, w.runs...)
	w.CheckSandboxes(t)
}

// forkRules are a diamond of steps of which another model makes something else.
func forkRules(latency string) harness.Rules {
	otherwise := map[string]any{
		"when": map[string]any{"agent": "builder", "step": "step-002", "model": "other"}, "latency": latency,
		"reply": map[string]any{"tool_calls": []any{
			map[string]any{"name": "create_file", "arguments": map[string]any{"path": "step-002.txt", "content": "made otherwise\n"}},
			map[string]any{"name": "finish", "arguments": map[string]any{"summary": "made it otherwise"}},
		}},
		"usage": map[string]any{"prompt_tokens": 10, "completion_tokens": 10},
	}
	return append(harness.Rules{otherwise}, diamondRules(latency)...)
}

// fork forks a run and returns the id of the new one.
func (w *stackTests) fork(t *testing.T, id int64, args ...string) int64 {
	t.Helper()
	var made struct {
		RunID int64 `json:"runId"`
	}
	w.OK(t, append([]string{"run", "fork", arg(id), "--json"}, args...)...).JSON(t, &made)
	require.NotEqual(t, id, made.RunID)
	require.Positive(t, made.RunID)
	return w.note(made.RunID)
}

// forked forks a run, waits for the good end of the new one, and sees that the
// old one is as it was.
func (w *stackTests) forked(t *testing.T, old views.RunDetails, args ...string) views.RunDetails {
	t.Helper()
	id := w.fork(t, old.ID, args...)
	w.end(t, id, contract.StatusDone)
	w.untouched(t, old)
	require.Contains(t, forksOf(w.Inspect(t, old.ID)), id, "the old run lists it")
	run := w.Inspect(t, id)
	require.Equal(t, contract.Branch(id), run.ReleaseBranch, "it has a branch of its own")
	require.Equal(t, old.BaseCommit, run.BaseCommit)
	return run
}

func forksOf(run views.RunDetails) []int64 {
	var ids []int64
	for _, f := range run.Lineage.Forks {
		ids = append(ids, f.RunID)
	}
	return ids
}

func (w *stackTests) untouched(t *testing.T, old views.RunDetails) {
	t.Helper()
	now := w.Inspect(t, old.ID)
	now.Lineage = old.Lineage // it lists its forks
	require.Equal(t, old, now, "apart from that, the old run is as it was")
	require.Equal(t, old.ReleaseCommit, harness.Git(t, old.Repo, "rev-parse", old.ReleaseBranch))
}

func (w *stackTests) forkStep(t *testing.T) {
	old := w.done(t, "diamond")
	paid := len(w.Requests(t, old.ID))
	run := w.forked(t, old, "--step", "step-002", "--model", "scripted/other", "--reason", "try another")
	require.Len(t, w.Requests(t, old.ID), paid, "nothing is paid for the old run")
	require.Equal(t, []string{"builder step-002", "builder step-003", "builder step-004"}, askedFor(w.Requests(t, run.ID)), "what was kept is not asked for again")
	require.Zero(t, executed(run, contract.PhaseBuilder, "step-001"))
	require.Equal(t, "made otherwise", w.shows(t, run.Run, "step-002.txt"))
	require.Equal(t, "made by step-001", w.shows(t, run.Run, "step-001.txt"))
	require.Equal(t, "made by step-002", w.shows(t, old.Run, "step-002.txt"))
	require.Equal(t, []string{"step-004", "step-003", "step-002", "step-001"}, commitsOf(t, run))
	for _, r := range w.Requests(t, run.ID) {
		require.Equal(t, "other", r.Model)
	}
}

func (w *stackTests) forkPlan(t *testing.T) {
	old := w.done(t, "diamond")
	file := filepath.Join(w.Dir, "another-plan.yaml")
	harness.WriteFiles(t, w.Dir, map[string]string{"another-plan.yaml": planOf("step-003")})
	run := w.forked(t, old, "--plan", file)
	require.Equal(t, []string{"builder step-003"}, askedFor(w.Requests(t, run.ID)), "the plan is given and not asked for")
	require.Equal(t, []string{"step-003"}, commitsOf(t, run))
	plan, err := w.Store(t).Plan(t.Context(), old.ID)
	require.NoError(t, err)
	require.Len(t, plan.Steps, 4, "the old run keeps its plan")
}

func (w *stackTests) forkTurn(t *testing.T) {
	old := w.done(t, "diamond")
	run := w.forked(t, old, "--step", "step-004", "--turn", "1", "--instructions", "Be brief.")
	require.Equal(t, []string{"builder step-004"}, askedFor(w.Requests(t, run.ID)))
	before, after := w.conversation(t, old, "step-004"), w.conversation(t, run, "step-004")
	const opening, turn = 2, 2 // system and goal; the calls and their results
	require.GreaterOrEqual(t, len(after), opening+turn)
	require.Equal(t, before[opening:opening+turn], after[opening:opening+turn], "the first turn is taken over")
	require.Contains(t, strings.Join(after, "\n"), "Be brief.")
	require.NotContains(t, strings.Join(before, "\n"), "Be brief.")
	require.Equal(t, treeOf(t, old), treeOf(t, run))
}

// conversation returns the messages of a step's last execution.
func (w *stackTests) conversation(t *testing.T, run views.RunDetails, step string) []string {
	t.Helper()
	var last int64
	for _, e := range run.Executions {
		if e.Step == step {
			last = e.ID
		}
	}
	messages, err := w.Store(t).Conversation(t.Context(), last)
	require.NoError(t, err)
	var out []string
	for _, m := range messages {
		out = append(out, string(m.Content))
	}
	return out
}

func (w *stackTests) forkFork(t *testing.T) {
	old := w.done(t, "diamond")
	run := w.forked(t, old, "--step", "step-002", "--model", "scripted/other")
	next := w.forked(t, run, "--step", "step-004")
	require.Equal(t, []string{"builder step-004"}, askedFor(w.Requests(t, next.ID)), "what the first fork took over is taken over again")
	require.Equal(t, treeOf(t, run), treeOf(t, next))
	paid := len(w.Requests(t, next.ID))
	again := w.again(t, next.ID, "replay", "--step", "step-004")
	require.Equal(t, []string{"builder step-004"}, askedFor(w.Requests(t, next.ID)[paid:]))
	require.Equal(t, next.ReleaseCommit, again.ReleaseCommit)
	w.untouched(t, run)
}

func (w *stackTests) forkRefused(t *testing.T) {
	refused := func(reason string, args ...string) {
		t.Helper()
		r := w.RGPT(t, append([]string{"run", "fork"}, args...)...)
		require.Equal(t, exitInput, r.Code, "%v: %s", args, r)
		require.Contains(t, r.Stderr, reason)
	}
	old := w.done(t, "diamond")
	refused("the plan does not contain step step-999", arg(old.ID), "--step", "step-999")
	refused("has only 2 turns, not 9", arg(old.ID), "--step", "step-002", "--turn", "9")
	refused("--turn -2 is too small", arg(old.ID), "--step", "step-002", "--turn", "-2")
	refused(`model provider "nobody" not found`, arg(old.ID), "--step", "step-002", "--model", "nobody/x")
	refused("no such file", arg(old.ID), "--plan", filepath.Join(w.Dir, "missing.yaml"))
	refused("run 999999", "999999", "--step", "step-001")
	planned := w.done(t, "diamond", "--plan-only")
	refused("was never completed", arg(planned.ID), "--step", "step-002")
	refused("has no conversation", arg(planned.ID), "--step", "step-001", "--turn", "1")
	all, err := w.Store(t).ListRuns(t.Context(), store.Filter{Limit: 1000})
	require.NoError(t, err)
	for _, r := range all {
		if f := r.Settings.Fork; f != nil {
			require.NotContains(t, []int64{old.ID, planned.ID}, f.RunID, "a refusal makes nothing")
		}
	}
	w.untouched(t, old)
	run := w.fork(t, planned.ID) // a plan that was only made is carried out
	w.end(t, run, contract.StatusDone)
}

func (w *stackTests) forkKilled(t *testing.T) {
	old := w.done(t, "slow")
	id := w.fork(t, old.ID, "--step", "step-002", "--turn", "1")
	harness.Await(t, "the fork's step to wait for the model", longest, func() (bool, string) {
		all, err := w.Store(t).ModelCalls(t.Context(), id)
		for _, c := range all {
			if c.Step == "step-002" && c.Status == "reserved" {
				return true, ""
			}
		}
		return false, fmt.Sprint(len(all), " calls ", err)
	})
	w.Kill(t, devstack.RoleWorker)
	w.Up(t)
	w.end(t, id, contract.StatusDone)
	run := w.Inspect(t, id)
	w.untouched(t, old)
	require.Equal(t, treeOf(t, old), treeOf(t, run))
	require.Equal(t, commitsOf(t, old), commitsOf(t, run))
	require.Zero(t, executed(run, contract.PhaseBuilder, "step-001"))
	require.Equal(t, 1, executed(run, contract.PhaseBuilder, "step-002"))
}
