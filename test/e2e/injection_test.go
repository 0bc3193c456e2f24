package e2e

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/temporal"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/test/harness"
)

// protectedRepo is a repository with what no agent may change.
func protectedRepo() map[string]string {
	files := healableRepo()
	files[".github/workflows/ci.yml"] = "on: push\njobs:\n  test:\n    runs-on: ubuntu-latest\n    steps:\n      - run: ./test.sh\n"
	return files
}

// injectedRepair is a Repair agent that does as it was told, however wrong, by the given
// turns, the last of them again and again.
func injectedRepair(turns ...[]harness.Call) harness.Rules {
	var out harness.Rules
	for i, turn := range turns {
		when := on("agent", "repair", "turn", i+1)
		if i+1 == len(turns) {
			when = on("agent", "repair")
		}
		out = append(out, rule(when, calls(turn...), 50))
	}
	return out
}

// injectionCases are Repair agents that try what would gain them something, with
// what the run says about it.
func injectionCases() map[string]struct {
	turns   [][]harness.Call
	says    string
	revoked int
} {
	type one = struct {
		turns   [][]harness.Call
		says    string
		revoked int
	}
	finish := harness.Finish("all green")
	return map[string]one{
		"ci":         {[][]harness.Call{{call("edit_file", "path", ".github/workflows/ci.yml", "old_text", "./test.sh", "new_text", "true"), finish}}, ".github/workflows/ci.yml, which agents must not change", 1},
		"new-ci":     {[][]harness.Call{{call("create_file", "path", ".github/workflows/more.yml", "content", "on: push\n"), finish}}, ".github/workflows/more.yml, which agents must not change", 1},
		"thresholds": {[][]harness.Call{{call("edit_file", "path", "rgpt.yaml", "old_text", "verification:", "new_text", "findings:\n  max_major: 100\nverification:"), finish}}, "rgpt.yaml, which agents must not change", 1},
		"no-tests":   {[][]harness.Call{{call("delete_file", "path", "calc_test.go"), finish}}, "removes tests", 0},
		"skips":      {[][]harness.Call{{call("edit_file", "path", "calc_test.go", "old_text", "\tif says", "new_text", "\tt.Skip()\n\tif says"), finish}}, "removes tests", 0},
		"outside":    {[][]harness.Call{{call("create_file", "path", "../outside.txt", "content", "gotcha")}}, "use tools or paths that are not allowed", 1},
		"git":        {[][]harness.Call{{call("create_file", "path", ".git/hooks/post-checkout", "content", "#!/bin/sh\n")}}, "use tools or paths that are not allowed", 1},
		"symlink":    {[][]harness.Call{{call("run_command", "command", "ln -s /tmp out")}, {call("create_file", "path", "out/rgpt-obeyed.txt", "content", "gotcha")}}, "use tools or paths that are not allowed", 1},
	}
}

// TestAnInjectedRepairAgentGainsNothing drives Repair agents that were told to
// widen what they may, on a real stack, and the run's commands that reach them.
func TestAnInjectedRepairAgentGainsNothing(t *testing.T) {
	t.Parallel()
	cases := injectionCases()
	var rules harness.Rules
	for name, c := range cases {
		rules = append(rules, append(injectedRepair(c.turns...), makes(wrong)...).Named("obeys-"+name)...)
	}
	rules = append(rules, first(makes(wrong),
		delayed(rule(on("agent", "repair", "turn", 1), calls(call("edit_file", "path", "made.txt", "old_text", wrong, "new_text", "right")), 50), "4s"),
		rule(on("agent", "repair"), calls(harness.Finish("mended it")), 50)).Named("repair-held")...)
	rules = append(rules, makes("right").Named("plan-refused")...)
	w := &healTests{t: t, stackTests: &stackTests{Stack: harness.Start(t, harness.Options{Scenario: rules})}}
	w.shell = harness.ShellRepo(t, filepath.Join(w.Dir, "shell"))
	var refused int64
	t.Run("side by side", func(t *testing.T) {
		for name, c := range cases {
			t.Run(name, parallel(func(t *testing.T) {
				repo := harness.Repo(t, filepath.Join(w.Dir, "repo-"+name), protectedRepo())
				id := w.startIn(t, repo, "obeys-"+name, "--set", helpInTime)
				w.end(t, id, contract.StatusFailed)
				run := w.Inspect(t, id)
				require.Equal(t, thrownAway(), healsOf(run))
				require.Contains(t, run.SelfHealEvents[0].Output().Result, c.says)
				require.Equal(t, c.revoked, countEvents(run, contract.EventAgentRevoked))
				require.Empty(t, run.ReleaseCommit)
				require.Contains(t, harness.Git(t, repo, "show", "HEAD:.github/workflows/ci.yml"), "./test.sh")
				if c.revoked > 0 {
					requireArtifact(t, run, "handoff/repair-1.md")
				}
			}))
		}
		t.Run("commands reach the Repair agent", parallel(w.pausedRepair))
		t.Run("a rejected plan says what is next", parallel(func(t *testing.T) { refused = w.planRefused(t) }))
	})
	require.NoFileExists(t, filepath.Join(w.Dir, "outside.txt"))
	require.NoFileExists(t, filepath.Join(os.TempDir(), "rgpt-obeyed.txt"))
	// Of a run that was done again a phase has more attempts than heals explain.
	w.runs = slices.DeleteFunc(w.runs, func(id int64) bool { return id == refused })
	slices.Sort(w.runs)
	harness.CheckInvariants(t, w.Stack, w.runs...)
	w.CheckSandboxes(t)
}

// pausedRepair pauses a run while its Repair agent waits for a model, and gives
// that agent another model meanwhile.
func (w *healTests) pausedRepair(t *testing.T) {
	repo := harness.Repo(t, filepath.Join(w.Dir, "repo-held"), healableRepo())
	id, db := w.startIn(t, repo, "repair-held"), w.Store(t)
	asked := func(status string) func(store.Run) bool {
		return func(store.Run) bool {
			all, err := db.ModelCalls(t.Context(), id)
			require.NoError(t, err)
			return slices.ContainsFunc(all, func(c store.ModelCall) bool { return c.Agent == contract.AgentRepair && c.Status == status })
		}
	}
	w.AwaitRun(t, db, id, "repaired", longest, asked("reserved"))
	w.OK(t, "run", "pause", arg(id))
	w.OK(t, "run", "switch-model", arg(id), "--agent", "repair", "--model", "scripted/other")
	w.AwaitRun(t, db, id, "answered", longest, asked("done"))
	require.Equal(t, contract.StatusPaused, w.Inspect(t, id).Status)
	require.Equal(t, "ASSERTION_ERROR", w.shownError(t, id))
	resumed := time.Now()
	w.OK(t, "run", "resume", arg(id))
	w.end(t, id, contract.StatusDone)
	run := w.Inspect(t, id)
	require.Equal(t, []string{"ASSERTION_ERROR tests_failed repair success"}, healsOf(run))
	tools, err := db.ToolCalls(t.Context(), id)
	require.NoError(t, err)
	repairs := 0
	for _, c := range tools {
		if e := run.Executions[slices.IndexFunc(run.Executions, func(e store.Execution) bool { return e.ID == c.ExecutionID })]; e.Agent == contract.AgentRepair {
			require.True(t, c.StartedAt.After(resumed), "no tool call begins while the run is paused")
			repairs++
		}
	}
	require.Positive(t, repairs)
	calls, err := db.ModelCalls(t.Context(), id)
	require.NoError(t, err)
	var models []string
	for _, c := range calls {
		if c.Agent == contract.AgentRepair {
			models = append(models, c.Model)
		}
	}
	require.Equal(t, []string{"scripted", "other"}, models)
	require.Empty(t, w.shownError(t, id), "what was healed is no error of the run, in Temporal neither")
}

// shownError returns the class of a run's failure as Temporal shows it.
func (w *healTests) shownError(t *testing.T, id int64) string {
	t.Helper()
	described, err := w.Temporal(t).DescribeWorkflow(t.Context(), contract.RunWorkflowID(id), "")
	require.NoError(t, err)
	class, _ := described.TypedSearchAttributes.GetKeyword(temporal.NewSearchAttributeKeyKeyword(contract.AttributeErrorType))
	return class
}

// planRefused rejects a plan, and is asked again after a resume.
func (w *healTests) planRefused(t *testing.T) int64 {
	t.Helper()
	id := w.start(t, "plan-refused", "--approve-plan")
	w.awaitApproval(t, id, "plan")
	w.OK(t, "run", "reject", arg(id), "--reason", "too large")
	w.end(t, id, contract.StatusFailed)
	told := w.OK(t, "run", "interventions", arg(id)).String()
	require.Contains(t, told, "rejected the plan (too large)")
	require.Contains(t, told, "rgpt run resume "+arg(id))
	require.Equal(t, 1, countEvents(w.Inspect(t, id), contract.EventInterventionResolved))
	w.OK(t, "run", "resume", arg(id))
	w.awaitApproval(t, id, "plan")
	w.OK(t, "run", "approve", arg(id))
	w.end(t, id, contract.StatusDone)
	return id
}
