package e2e

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/api/common/v1"
	"go.temporal.io/api/workflowservice/v1"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/devstack"
	"github.com/rocketgpt/orchestrator/internal/scripted"
	"github.com/rocketgpt/orchestrator/internal/store/views"
	"github.com/rocketgpt/orchestrator/test/harness"
)

// diamondRules are those of a run of four steps: the second needs the first,
// the fourth needs the second and the third.
func diamondRules(latency string) harness.Rules {
	return harness.PlanRules(latency, writes("step-001"), writes("step-002", "step-001"), writes("step-003"), writes("step-004", "step-002", "step-003"))
}

// changedStepRules are those of a step that is done differently the second time.
func changedStepRules() harness.Rules {
	rules := quickRules("20ms")
	second := map[string]any{
		"when": map[string]any{"agent": "builder", "step": "step-002", "attempt": 2},
		"reply": map[string]any{"tool_calls": []any{
			map[string]any{"name": "create_file", "arguments": map[string]any{"path": "step-002.txt", "content": "made otherwise\n"}},
			map[string]any{"name": "finish", "arguments": map[string]any{"summary": "made it otherwise"}},
		}},
		"usage": map[string]any{"prompt_tokens": 10, "completion_tokens": 10},
	}
	return append(harness.Rules{second}, rules...)
}

// failingStepRules are those of a run whose second step fails the first time.
func failingStepRules() harness.Rules {
	stumble := map[string]any{
		"when": map[string]any{"agent": "builder", "step": "step-002", "attempt": 1}, "fault": map[string]any{"status": 400},
	}
	return append(harness.Rules{stumble}, quickRules("20ms")...)
}

// TestARunIsDoneAgain drives resume and replay on a stack of its own.
func TestARunIsDoneAgain(t *testing.T) {
	t.Parallel()
	var rules harness.Rules
	for name, r := range map[string]harness.Rules{
		"quick": quickRules("20ms"), "slow": quickRules("2s"), "stuck": quickRules("20s"), "diamond": diamondRules("20ms"), "otherwise": changedStepRules(), "stumble": failingStepRules(),
	} {
		rules = append(rules, r.Named(name)...)
	}
	w := &stackTests{Stack: harness.Start(t, harness.Options{Scenario: rules})}
	w.shell = harness.ShellRepo(t, filepath.Join(w.Dir, "shell"))
	t.Run("side by side", func(t *testing.T) {
		t.Run("a replay keeps what was finished and numbers what is done again", parallel(w.replayLate))
		t.Run("a replay from the planner does everything again on the same branch", parallel(w.replayAll))
		t.Run("a step is done again with those that depend on it and no others", parallel(w.replayStep))
		t.Run("another model is used and another result replaces the branch", parallel(w.replayOtherwise))
		t.Run("a branch that somebody moved is left alone", parallel(w.replayMovedBranch))
		t.Run("a failed run goes on where it failed", parallel(w.resumeFailed))
		t.Run("a stopped run goes on where it was stopped", parallel(w.resumeStopped))
		t.Run("a release is approved again only if it is another one", parallel(w.replayApproval))
		t.Run("the time of a run counts anew", parallel(w.replayLater))
		t.Run("what cannot be replayed is refused with a reason", parallel(w.replayRefused))
		t.Run("of two who replay at once one is refused", parallel(w.replayTwice))
	})
	t.Run("a replay goes on after its worker was killed", w.replayKilled)
	harness.CheckInvariants(t, w.Stack, w.runs...)
	w.CheckSandboxes(t)
}

// done makes a run of a scenario and waits for its good end.
func (w *stackTests) done(t *testing.T, scenario string, args ...string) views.RunDetails {
	t.Helper()
	id := w.start(t, scenario, args...)
	w.end(t, id, contract.StatusDone)
	return w.Inspect(t, id)
}

// again runs a command that does a run again and waits for its good end.
func (w *stackTests) again(t *testing.T, id int64, args ...string) views.RunDetails {
	t.Helper()
	w.OK(t, append([]string{"run", args[0], arg(id), "--wait"}, args[1:]...)...)
	d := w.Inspect(t, id)
	require.Equal(t, contract.StatusDone, d.Status)
	consistent(t, d)
	for _, history := range w.Histories(t, id) {
		history.Replay(t)
	}
	return d
}

// consistent checks what holds of every run however often it was done again.
func consistent(t *testing.T, d views.RunDetails) {
	t.Helper()
	for i, e := range d.Events {
		require.Equal(t, int64(i+1), e.Seq, "events are numbered without gaps")
	}
	attempts := map[string]int{}
	for _, e := range d.Executions {
		key := string(e.Phase) + "/" + e.Step
		attempts[key]++
		require.Equal(t, attempts[key], e.Attempt, "attempts of %s are counted", key)
		require.NotEqual(t, contract.ExecutionRunning, e.Status, "%s attempt %d runs for ever", key, e.Attempt)
	}
	for key, n := range attempts {
		phase, step, _ := strings.Cut(key, "/")
		started, ended := contract.Phase(phase).Started(), []contract.EventType{contract.Phase(phase).CompletedEvent(), contract.Phase(phase).ErrorEvent()}
		if step != "" {
			started, ended = contract.EventStepStarted, []contract.EventType{contract.EventStepCompleted, contract.EventStepError}
		}
		require.Equal(t, n, events(d, step, started), "%s began once for each attempt", key)
		require.LessOrEqual(t, events(d, step, ended...), n, "%s ended at most once for each attempt", key)
	}
	names := map[string]bool{}
	for _, a := range d.Artifacts {
		require.False(t, names[a.Name], "artifact %s is there twice", a.Name)
		names[a.Name] = true
	}
	require.Len(t, d.Artifacts, events(d, "", contract.EventArtifactAdded), "each artifact is announced once")
}

// events counts events of types, of a step where one is named.
func events(d views.RunDetails, step string, kinds ...contract.EventType) int {
	n := 0
	for _, e := range d.Events {
		if slices.Contains(kinds, e.Type) && (step == "" || strings.Contains(string(e.Payload), `"`+step+`"`)) {
			n++
		}
	}
	return n
}

// executed counts the executions of a phase or of a step.
func executed(d views.RunDetails, p contract.Phase, step string) int {
	n := 0
	for _, e := range d.Executions {
		if e.Phase == p && e.Step == step {
			n++
		}
	}
	return n
}

// asked lists whom the model was asked for since a number of requests.
func askedFor(entries []scripted.LogEntry) []string {
	seen := map[string]bool{}
	for _, e := range entries {
		seen[strings.TrimSuffix(e.Agent+" "+e.Step, " ")] = true
	}
	var out []string
	for name := range seen {
		out = append(out, name)
	}
	slices.Sort(out)
	return out
}

func (w *stackTests) replayLate(t *testing.T) {
	first := w.done(t, "quick")
	paid := len(w.Requests(t, first.ID))
	second := w.again(t, first.ID, "replay", "--phase", "tester", "--reason", "to be sure")
	require.Len(t, w.Requests(t, first.ID), paid, "no model was asked again")
	for phase, n := range map[contract.Phase]int{contract.PhasePlanner: 1, contract.PhaseBuilder: 1, contract.PhaseTester: 2, contract.PhaseReleaser: 2} {
		require.Equal(t, n, executed(second, phase, ""), phase)
		require.Equal(t, n, events(second, "", phase.CompletedEvent()), phase)
	}
	require.Equal(t, first.ReleaseCommit, second.ReleaseCommit, "the same content makes the same commits")
	require.Equal(t, first.ReleaseCommit, harness.Git(t, w.shell, "rev-parse", second.ReleaseBranch))
	require.Equal(t, first.Events, second.Events[:len(first.Events)], "what was told stays")
	require.Equal(t, first.Executions, second.Executions[:len(first.Executions)], "what was done stays")
	var names []string
	for _, a := range second.Artifacts {
		names = append(names, a.Name)
	}
	for _, name := range []string{"report.md", "attempt-2/report.md", "change.patch", "attempt-2/change.patch", fmt.Sprintf("run-%d.zip", first.ID), fmt.Sprintf("attempt-2/run-%d.zip", first.ID)} {
		require.Contains(t, names, name)
	}
	require.True(t, slices.ContainsFunc(second.Events, func(e contract.Event) bool {
		return e.Type == contract.EventRunUpdated && strings.Contains(string(e.Payload), `"to be sure"`)
	}), "the run says that it was replayed, and why")

	third := w.again(t, first.ID, "replay", "--phase", "releaser_running")
	require.Equal(t, 3, executed(third, contract.PhaseReleaser, ""))
	require.Equal(t, 2, executed(third, contract.PhaseTester, ""))
	fourth := w.again(t, first.ID, "replay", "--phase", "tester")
	require.Equal(t, 3, executed(fourth, contract.PhaseTester, ""))
	require.Equal(t, 4, executed(fourth, contract.PhaseReleaser, ""))
	require.Equal(t, first.ReleaseCommit, fourth.ReleaseCommit)
	require.Len(t, w.Requests(t, first.ID), paid)

	watched := w.OK(t, "run", "watch", arg(first.ID), "--after", fmt.Sprint(first.EventSeq), "--json").Stdout
	require.Equal(t, len(fourth.Events)-len(first.Events), strings.Count(watched, "\n{\"run_id\"")+1, "watching shows all that came later, to the very end")
}

func (w *stackTests) replayAll(t *testing.T) {
	first := w.done(t, "quick")
	paid := len(w.Requests(t, first.ID))
	second := w.again(t, first.ID, "replay", "--phase", "planner")
	require.Len(t, w.Requests(t, first.ID), 2*paid, "all was asked again")
	for _, phase := range contract.Phases() {
		require.Equal(t, 2, executed(second, phase, ""), phase)
	}
	require.Equal(t, 2, executed(second, contract.PhaseBuilder, "step-002"))
	require.Equal(t, first.ReleaseCommit, second.ReleaseCommit, "the same content makes the same commits")
}

func (w *stackTests) replayStep(t *testing.T) {
	first := w.done(t, "diamond")
	paid := len(w.Requests(t, first.ID))
	second := w.again(t, first.ID, "replay", "--step", "step-002")
	require.Equal(t, []string{"builder step-002", "builder step-004"}, askedFor(w.Requests(t, first.ID)[paid:]))
	for step, n := range map[string]int{"step-001": 1, "step-002": 2, "step-003": 1, "step-004": 2} {
		require.Equal(t, n, executed(second, contract.PhaseBuilder, step), step)
	}
	require.Equal(t, first.ReleaseCommit, second.ReleaseCommit, "commits of kept steps are the same, with their credits")
}

func (w *stackTests) replayOtherwise(t *testing.T) {
	first := w.done(t, "otherwise")
	second := w.again(t, first.ID, "replay", "--phase", "builder", "--step", "step-002", "--model", "scripted/other", "--temperature", "0.3")
	require.NotEqual(t, first.ReleaseCommit, second.ReleaseCommit)
	require.Equal(t, second.ReleaseCommit, harness.Git(t, w.shell, "rev-parse", second.ReleaseBranch), "its own branch is replaced")
	require.Equal(t, "made otherwise", harness.Git(t, w.shell, "show", second.ReleaseBranch+":step-002.txt"))
	require.Equal(t, "made by step-001", harness.Git(t, w.shell, "show", second.ReleaseBranch+":step-001.txt"))
	models := strings.Fields(harness.Git(t, w.shell, "log", "--format=%(trailers:key=RGPT-Model,valueonly)", second.BaseCommit+".."+second.ReleaseBranch))
	require.Equal(t, []string{"other", "scripted"}, models, "newest first")
	calls := w.Requests(t, first.ID)
	require.Equal(t, "other", calls[len(calls)-1].Model)
	require.Equal(t, 2, calls[len(calls)-1].Attempt)
}

func (w *stackTests) replayMovedBranch(t *testing.T) {
	first := w.done(t, "otherwise", unhealed...)
	harness.Git(t, w.shell, "update-ref", "refs/heads/"+first.ReleaseBranch, first.BaseCommit)
	replay := []string{"run", "replay", arg(first.ID), "--step", "step-002", "--wait"}
	require.Equal(t, exitFailed, w.RGPT(t, replay...).Code)
	details := w.Inspect(t, first.ID)
	require.Equal(t, contract.CodeBranchConflict, details.Failure.Code, "%s", details.Failure.Message)
	require.Equal(t, first.BaseCommit, harness.Git(t, w.shell, "rev-parse", first.ReleaseBranch), "the branch is left alone")
	harness.Git(t, w.shell, "branch", "--quiet", "--delete", "--force", first.ReleaseBranch)
	resumed := w.again(t, first.ID, "resume")
	require.Equal(t, 2, executed(resumed, contract.PhaseBuilder, "step-002"), "only the release was left")
	require.Equal(t, resumed.ReleaseCommit, harness.Git(t, w.shell, "rev-parse", first.ReleaseBranch))
}

func (w *stackTests) resumeFailed(t *testing.T) {
	id := w.start(t, "stumble", unhealed...)
	failed := w.end(t, id, contract.StatusFailed)
	require.Equal(t, contract.PhaseBuilder, failed.Phase)
	paid := len(w.Requests(t, id))
	done := w.again(t, id, "resume", "--reason", "try again")
	require.Nil(t, done.Failure, "what was overcome is no failure of the run")
	require.Equal(t, []string{"builder step-002"}, askedFor(w.Requests(t, id)[paid:]), "what was finished is not paid for again")
	require.Equal(t, 1, events(done, "", contract.PhasePlanner.CompletedEvent()))
	require.Equal(t, 1, events(done, "", contract.PhaseBuilder.ErrorEvent()))
	require.Equal(t, exitInput, w.RGPT(t, "run", "resume", arg(id)).Code, "a done run has nothing to resume")
}

func (w *stackTests) resumeStopped(t *testing.T) {
	id := w.start(t, "slow")
	w.asking(t, id, 4) // planner, twice for the first step, the second one
	w.OK(t, "run", "stop", arg(id))
	w.end(t, id, contract.StatusCancelled)
	paid := len(w.Requests(t, id))
	done := w.again(t, id, "resume")
	require.Equal(t, []string{"builder step-002"}, askedFor(w.Requests(t, id)[paid:]))
	require.Equal(t, 1, executed(done, contract.PhaseBuilder, "step-001"))
	require.Equal(t, "made by step-002", harness.Git(t, w.shell, "show", done.ReleaseBranch+":step-002.txt"))
}

func (w *stackTests) replayApproval(t *testing.T) {
	db := w.Store(t)
	id := w.start(t, "quick", "--approve-release")
	w.AwaitStatus(t, db, id, contract.StatusWaitingForApproval, longest)
	w.OK(t, "run", "approve", arg(id))
	w.end(t, id, contract.StatusDone)
	released := w.again(t, id, "replay", "--phase", "releaser")
	require.Equal(t, 2, executed(released, contract.PhaseReleaser, ""), "what was approved is released again without a question")
	require.Equal(t, 1, events(released, "", contract.EventApprovalRequested))
	released = w.again(t, id, "replay", "--phase", "tester")
	require.Equal(t, 1, events(released, "", contract.EventApprovalRequested), "nor if the same is verified again")
	w.OK(t, "run", "label", "add", arg(id), "docs")
	w.OK(t, "run", "replay", arg(id), "--phase", "tester")
	w.AwaitStatus(t, db, id, contract.StatusWaitingForApproval, longest)
	waiting := w.Inspect(t, id)
	require.Len(t, waiting.Approvals, 2)
	require.Equal(t, []string{"granted", "pending"}, []string{waiting.Approvals[0].Status, waiting.Approvals[1].Status}, "something else is a question of its own")
	w.OK(t, "run", "approve", arg(id))
	w.end(t, id, contract.StatusDone)
	require.Equal(t, 2, events(w.Inspect(t, id), "", contract.EventApprovalGranted))
}

func (w *stackTests) replayLater(t *testing.T) {
	const most = 6 * time.Second
	run := w.done(t, "quick", "--timeout", most.String())
	harness.Await(t, "the time of the first attempt to be over", longest, func() (bool, string) {
		return time.Since(run.CreatedAt) > most+time.Second, "not yet"
	})
	w.again(t, run.ID, "replay", "--phase", "tester")
	stuck := w.start(t, "stuck", "--timeout", "1s") // its time is over in the middle of a call, whatever the load
	timedOut := w.end(t, stuck, contract.StatusFailed)
	require.Equal(t, contract.CodeRunTimeout, timedOut.Failure.Code)
	require.Equal(t, exitStopped, w.RGPT(t, "run", "resume", arg(stuck), "--wait").Code, "its time counts anew, and is as short")
	require.Equal(t, contract.CodeRunTimeout, w.Inspect(t, stuck).Failure.Code)
}

func (w *stackTests) replayRefused(t *testing.T) {
	refused := func(reason string, args ...string) {
		t.Helper()
		r := w.RGPT(t, append([]string{"run", "replay"}, args...)...)
		require.Equal(t, exitInput, r.Code, "%v: %s", args, r)
		require.Contains(t, r.Stderr, reason)
	}
	busy := w.start(t, "slow")
	refused("in progress", arg(busy), "--phase", "planner")
	planned := w.done(t, "quick", "--plan-only")
	refused("never reached its tester", arg(planned.ID), "--phase", "tester")
	run := w.done(t, "quick")
	refused("no step step-999", arg(run.ID), "--step", "step-999")
	refused("must be one of", arg(run.ID), "--phase", "cook")
	refused(`model provider "nobody" not found`, arg(run.ID), "--phase", "planner", "--model", "nobody/x")
	refused("only the builder has steps", arg(run.ID), "--phase", "tester", "--step", "step-001")
	state := w.State(t)
	_, err := w.Temporal(t).WorkflowService().DeleteWorkflowExecution(t.Context(), &workflowservice.DeleteWorkflowExecutionRequest{
		Namespace: state.Namespace, WorkflowExecution: &common.WorkflowExecution{WorkflowId: contract.RunWorkflowID(run.ID)},
	})
	require.NoError(t, err)
	harness.Await(t, "Temporal to have forgotten the run", longest, func() (bool, string) {
		_, err := w.Temporal(t).DescribeWorkflowExecution(t.Context(), contract.RunWorkflowID(run.ID), "")
		return err != nil, "it remembers"
	})
	refused("no longer has the history", arg(run.ID), "--phase", "tester")
	w.mu.Lock() // there is no history to be looked through for secrets
	w.runs = slices.DeleteFunc(w.runs, func(id int64) bool { return id == run.ID })
	w.mu.Unlock()
	after := w.Inspect(t, run.ID)
	require.Equal(t, run.Events, after.Events, "a refusal changes nothing")
	w.end(t, busy, contract.StatusDone)
}

func (w *stackTests) replayTwice(t *testing.T) {
	run := w.done(t, "quick")
	const many = 4
	codes := make(chan int, many)
	for range many {
		go func() { codes <- w.RGPT(t, "run", "replay", arg(run.ID), "--phase", "tester").Code }()
	}
	good := 0
	for range many {
		if code := <-codes; code == exitDone {
			good++
		}
	}
	w.end(t, run.ID, contract.StatusDone)
	details := w.Inspect(t, run.ID)
	consistent(t, details)
	require.Positive(t, good)
	require.Equal(t, 1+good, executed(details, contract.PhaseTester, ""), "each that was accepted was done")
}

func (w *stackTests) replayKilled(t *testing.T) {
	run := w.done(t, "slow")
	var result struct {
		Kept  []string `json:"kept_steps"`
		Begun bool     `json:"begun"`
	}
	paid := len(w.Requests(t, run.ID))
	w.OK(t, "run", "replay", arg(run.ID), "--step", "step-002", "--json").JSON(t, &result)
	require.Equal(t, []string{"step-001"}, result.Kept)
	require.True(t, result.Begun)
	harness.Await(t, "the step to be asked again", longest, func() (bool, string) {
		n := len(w.Requests(t, run.ID))
		return n > paid, fmt.Sprint(n)
	})
	w.Kill(t, devstack.RoleWorker)
	w.Up(t)
	w.end(t, run.ID, contract.StatusDone)
	details := w.Inspect(t, run.ID)
	consistent(t, details)
	require.Equal(t, 2, executed(details, contract.PhaseBuilder, "step-002"))
	require.Equal(t, 1, executed(details, contract.PhaseBuilder, "step-001"))
	require.Equal(t, run.ReleaseCommit, details.ReleaseCommit)
	require.Equal(t, []string{"builder step-002"}, askedFor(w.Requests(t, run.ID)[paid:]))
}

// TestAReplayBeginsWithinASecond measures from the command to the phase's first
// event.
func TestAReplayBeginsWithinASecond(t *testing.T) {
	t.Parallel()
	s := harness.Start(t, harness.Options{Scenario: quickRules("20ms")})
	id := s.Create(t, "--repo", harness.ShellRepo(t, filepath.Join(s.Dir, "repo")), "--goal", "Quick")
	db := s.Store(t)
	before := s.AwaitEnd(t, db, id, longest)
	var took []time.Duration
	for _, phase := range []contract.Phase{contract.PhaseReleaser, contract.PhaseTester, contract.PhaseBuilder, contract.PhasePlanner} {
		began := time.Now()
		s.OK(t, "run", "replay", fmt.Sprint(id), "--phase", string(phase))
		all, err := db.Events(t.Context(), id, before.EventSeq, 100)
		require.NoError(t, err)
		i := slices.IndexFunc(all, func(e contract.Event) bool { return e.Type == phase.Started() })
		require.GreaterOrEqual(t, i, 0, "%v", all)
		took = append(took, all[i].CreatedAt.Sub(began))
		before = s.AwaitEnd(t, db, id, longest)
	}
	t.Logf("from the command to the first event: %v", took)
	// The other tests share the processors, so the fastest replay tells what it takes.
	require.Less(t, slices.Min(took), time.Second, "%v", took)
}
