// Package e2e drives the product from the outside, as its users do: real
// processes, the command line, repositories on disk.
package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/internal/store/views"
	"github.com/rocketgpt/orchestrator/test/harness"
)

func TestMain(m *testing.M) {
	code := m.Run()
	harness.RemoveBinaries()
	os.Exit(code)
}

// Exit codes of the command line.
const (
	exitDone    = 0
	exitError   = 1
	exitFailed  = 2
	exitStopped = 3
	exitInput   = 4
)

// longest is the latest end of a run; what fails takes this long to say so.
const longest = 5 * time.Minute

// stackTests is what the tests of one stack share.
type stackTests struct {
	*harness.Stack
	hostile *hostileModel
	sample  string // the Go sample; its build cache is warm after the first run
	shell   string // a repository whose tests take no time

	mu   sync.Mutex
	runs []int64
}

// TestOneStackServesEveryKindOfRun shares one stack among all tests that do not
// harm it. Those that count rows come first, alone; the others work side by
// side; at the end the invariants are checked for all runs.
func TestOneStackServesEveryKindOfRun(t *testing.T) {
	w := newStackTests(t)
	t.Run("what cannot be used is refused and nothing is made", w.badInput)
	t.Run("side by side", func(t *testing.T) {
		t.Run("a goal becomes a tested branch", parallel(w.goodRun))
		t.Run("a model that misbehaves harms nothing", parallel(w.hostileBuilders))
		t.Run("an answer of 50 MB is refused", parallel(w.hugeAnswer))
		t.Run("twenty steps at once keep within the budget", parallel(w.parallelBudget))
		t.Run("histories stay small", parallel(w.smallHistory))
		t.Run("a long conversation stays out of the history", parallel(w.longConversation))
		t.Run("a paused run starts nothing until it is resumed", parallel(w.pause))
		t.Run("a stopped run ends within 10 s", parallel(w.stop))
		t.Run("a paused run can be advanced phase by phase", parallel(w.advance))
		t.Run("models can be switched under way", parallel(w.switchModel))
		t.Run("approvals are asked for and obeyed", parallel(w.approvals))
		t.Run("a plan can be asked for, given and edited", parallel(w.plans))
		t.Run("a command that asks for secrets finds none", parallel(w.secretSearch))
		t.Run("watching goes on after an event", parallel(w.watch))
		t.Run("the same key makes one run", parallel(w.idempotency))
		t.Run("a branch is pushed to a remote", parallel(w.push))
		t.Run("a branch with protected files is pushed once a person approves", parallel(w.pushProtected))
		t.Run("a token in a change is never applied", parallel(w.leakedToken))
		t.Run("a workflow is pushed once a person approves", parallel(w.workflowPushed))
		t.Run("what a reviewer finds is fixed before the release", parallel(w.reviewedAndFixed))
		t.Run("what a reviewer finds and nobody fixes asks a person", parallel(w.reviewedAndLeft))
		t.Run("uncommitted changes are no part of a run", parallel(w.dirty))
	})
	// After the good run, whose compiled packages those that compile share.
	t.Run("a fault ends a run as its class says or is overcome", w.faults)
	slices.Sort(w.runs)
	t.Logf("%d runs", len(w.runs))
	harness.CheckInvariants(t, w.Stack, w.runs...)
	w.CheckSandboxes(t)
	for _, file := range []string{"/tmp/rgpt-escaped.txt", "/etc/rgpt-escaped", filepath.Join(w.Dir, "outside.txt")} {
		require.NoFileExists(t, file, "something got out of its workspace")
	}
}

func parallel(f func(*testing.T)) func(*testing.T) {
	return func(t *testing.T) {
		t.Parallel()
		f(t)
	}
}

func newStackTests(t *testing.T) *stackTests {
	t.Helper()
	hostile := newHostileModel(t)
	rules := harness.ReadScenarios(t, filepath.Join(harness.Root(), "examples", "go", "*.yaml"), filepath.Join("testdata", "*.yaml"))
	w := &stackTests{hostile: hostile, Stack: harness.Start(t, harness.Options{
		Scenario: append(rules, programmed()...),
		Config:   fmt.Sprintf("models:\n  providers:\n    hostile: {kind: compatible, base_url: %q}\n", hostile.URL+"/v1"),
	})}
	w.sample = harness.SampleRepo(t, "go", filepath.Join(w.Dir, "sample"))
	w.shell = harness.ShellRepo(t, filepath.Join(w.Dir, "shell"))
	return w
}

// programmed are the scenarios that are easier made than written.
func programmed() harness.Rules {
	var all harness.Rules
	for name, rules := range map[string]harness.Rules{
		"parallel-budget":   parallelBudgetRules(),
		"small-history":     smallHistoryRules(),
		"long-conversation": longConversationRules(),
		"quick":             quickRules("50ms"),
		"slow":              quickRules("2s"),
		"endless":           endlessRules(),
		"endless-command":   endlessCommandRules(),
		"nosy":              secretSearchRules(),
		"one-file":          oneFileRules(),
		"leak":              leakRules(),
		"workflow":          workflowRules(),
		"review":            reviewRules(),
	} {
		all = append(all, rules.Named(name)...)
	}
	return append(all, escapeRules()...)
}

// quickRules are those of a run of two steps, one after the other.
func quickRules(latency string) harness.Rules {
	return harness.PlanRules(latency, writes("step-001"), writes("step-002", "step-001"))
}

// writes is a step that writes a file of its name.
func writes(id string, needs ...string) harness.Step {
	return harness.Step{ID: id, Needs: needs, Turns: [][]harness.Call{
		{call("list_files")},
		{call("create_file", "path", id+".txt", "content", "made by "+id+"\n"), harness.Finish("made " + id + ".txt")},
	}}
}

// call makes a tool call of pairs of names and values.
func call(name string, pairs ...any) harness.Call {
	args := map[string]any{}
	for i := 0; i < len(pairs); i += 2 {
		args[pairs[i].(string)] = pairs[i+1]
	}
	return harness.Call{Name: name, Arguments: args}
}

// note remembers a run for the check of the invariants at the end.
func (w *stackTests) note(id int64) int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.runs = append(w.runs, id)
	return id
}

// start makes a run of a scenario on the quick repository.
func (w *stackTests) start(t *testing.T, scenario string, args ...string) int64 {
	t.Helper()
	return w.startIn(t, w.shell, scenario, args...)
}

func (w *stackTests) startIn(t *testing.T, repo, scenario string, args ...string) int64 {
	t.Helper()
	return w.note(w.Create(t, append([]string{"--repo", repo, "--goal", harness.Goal(scenario)}, args...)...))
}

// end waits for the end of a run and requires a status.
func (w *stackTests) end(t *testing.T, id int64, status contract.Status) store.Run {
	t.Helper()
	run := w.AwaitEnd(t, w.Store(t), id, longest)
	require.Equal(t, status, run.Status, "run %d: %v", id, run.Failure)
	return run
}

// failed requires that a run failed for a reason, that nothing was released,
// and that all it did was kept.
func (w *stackTests) failed(t *testing.T, id int64, class contract.Class, code contract.Code) views.RunDetails {
	t.Helper()
	w.end(t, id, contract.StatusFailed)
	require.Equal(t, exitFailed, w.RGPT(t, "run", "watch", fmt.Sprint(id)).Code, "run %d", id)
	details := w.Inspect(t, id)
	require.Equal(t, string(class)+" "+string(code), string(details.Failure.Class)+" "+string(details.Failure.Code), "run %d: %s", id, details.Failure.Message)
	require.NotEmpty(t, details.Failure.Message)
	require.Empty(t, details.ReleaseCommit)
	require.Empty(t, harness.Git(t, details.Repo, "for-each-ref", "refs/heads/"+contract.Branch(id)), "nothing is released")
	require.NotEmpty(t, details.Executions, "what was done is kept")
	require.Positive(t, details.Usage.Calls, "what was paid is kept")
	return details
}

// shows returns the text of a file on a run's branch.
func (w *stackTests) shows(t *testing.T, run store.Run, file string) string {
	t.Helper()
	return harness.Git(t, run.Repo, "show", run.ReleaseBranch+":"+file)
}

// id is a run's id as an argument.
func arg(id int64) string { return fmt.Sprint(id) }
