package e2e

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/devstack"
	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/internal/store/views"
	"github.com/rocketgpt/orchestrator/test/harness"
)

// TestHealsChangeWhatIsSentToTheProvider sees at the provider and in the rows
// that heals which ask in another way really do.
func TestHealsChangeWhatIsSentToTheProvider(t *testing.T) {
	t.Parallel()
	words := says(halfAPlan)
	strict := first(makes("right"), rule(on("agent", "builder", "attempt", 1), words, 50), rule(on("agent", "builder", "attempt", 2), words, 50),
		rule(on("agent", "builder", "attempt", 3), words, 50))
	for n := 1; n <= 3; n++ {
		strict = first(strict, rule(on("agent", "planner", "attempt", n), words, 50))
	}
	overflow := first(makes("right"), rule(on("agent", "planner", "attempt", 1), status(413), 0), rule(on("agent", "planner", "attempt", 2), status(413), 0))
	long := first(makes("right"),
		rule(on("agent", "builder", "attempt", 1, "turn", 1), calls(call("read_file", "path", "big.txt")), 50),
		rule(on("agent", "builder", "attempt", 1, "turn", 2), calls(call("create_file", "path", "kept.txt", "content", "made before the overflow\n")), 50),
		rule(on("agent", "builder", "attempt", 1, "turn", 3), calls(call("read_file", "path", "missing.txt")), 50),
		rule(on("agent", "builder", "attempt", 1, "turn", 4), status(413), 0),
		rule(on("agent", "builder", "attempt", 2, "turn", 1), status(413), 0),
		rule(on("agent", "builder", "attempt", 3, "turn", 1), calls(harness.Finish("it is all there")), 50))
	w := &stackTests{Stack: harness.Start(t, harness.Options{
		Scenario: slices.Concat(strict.Named("stricter"), overflow.Named("overflow"), long.Named("long")),
	})}
	w.shell = harness.ShellRepo(t, filepath.Join(w.Dir, "shell"))
	t.Run("side by side", func(t *testing.T) {
		t.Run("a stricter schema", parallel(w.stricterSchema))
		t.Run("less context for the planner", parallel(w.compactPlanner))
		t.Run("a step goes on with its conversation in short", parallel(w.compactStep))
	})
	harness.CheckInvariants(t, w.Stack, w.runs...)
}

func (w *stackTests) stricterSchema(t *testing.T) {
	id := w.start(t, "stricter")
	w.end(t, id, contract.StatusDone)
	run := w.Inspect(t, id)
	row := []string{
		"LLM_ERROR invalid_output correct_json failed", "LLM_ERROR invalid_output regenerate failed", "LLM_ERROR invalid_output stricter_schema success",
	}
	require.Equal(t, append(slices.Clone(row), row...), healsOf(run), "of the planner, then of the builder")
	schemas := map[string]string{}
	for _, e := range w.Requests(t, id) {
		schemas[fmt.Sprint(e.Agent, e.Attempt)] = e.Schema
	}
	require.Equal(t, map[string]string{
		"planner1": "", "planner2": "", "planner3": "", "planner4": "strict_plan",
		"builder1": "", "builder2": "", "builder3": "", "builder4": "strict tools",
	}, schemas)
	for i, want := range map[int][2]string{2: {"plan", "strict_plan"}, 5: {"tools", "strict tools"}} {
		out := run.SelfHealEvents[i].Output()
		require.Equal(t, want, [2]string{out.Before["schema"].(string), out.After["schema"].(string)})
	}
}

func (w *stackTests) compactPlanner(t *testing.T) {
	files := healableRepo()
	for i := range 600 {
		files[fmt.Sprintf("docs/chapter-%03d/the-story-of-%03d.txt", i/20, i)] = "words\n"
	}
	files["README.md"] = strings.Repeat("This is what the project is about.\n", 200)
	id := w.startIn(t, harness.Repo(t, filepath.Join(w.Dir, "many"), files), "overflow")
	w.end(t, id, contract.StatusDone)
	run := w.Inspect(t, id)
	require.Equal(t, []string{"LLM_ERROR context_overflow compact_context failed", "LLM_ERROR context_overflow compact_context success"}, healsOf(run))
	for i, want := range [][2]string{{"100%", "50%"}, {"50%", "25%"}} {
		out := run.SelfHealEvents[i].Output()
		require.Equal(t, want, [2]string{out.Before["context"].(string), out.After["context"].(string)})
	}
	// What says something about the repository shrinks; the rest is the same, and what failed is added.
	texts := w.conversations(t, run, contract.AgentPlanner)
	require.Len(t, texts, 3)
	var sizes, shown []int
	for _, text := range texts {
		sizes, shown = append(sizes, len(text)), append(shown, 0)
		for _, m := range regexp.MustCompile(`(?s)<untrusted name="(?:files|map|README.md)">\n(.*?)\n</untrusted>`).FindAllStringSubmatch(text, -1) {
			shown[len(shown)-1] += len(m[1])
		}
	}
	require.Greater(t, shown[0], 3000, "%v", sizes)
	require.Less(t, sizes[1], sizes[0], "%v", sizes)
	require.Less(t, sizes[2], sizes[0], "%v", sizes)
	require.LessOrEqual(t, shown[1], shown[0]/2, "%v", shown)
	require.LessOrEqual(t, shown[2], shown[0]/4, "%v", shown)
}

func (w *stackTests) compactStep(t *testing.T) {
	files := healableRepo()
	files["big.txt"] = strings.Repeat("A line of a file that is long.\n", 2500)
	id := w.startIn(t, harness.Repo(t, filepath.Join(w.Dir, "long"), files), "long")
	w.end(t, id, contract.StatusDone)
	run := w.Inspect(t, id)
	require.Equal(t, []string{"LLM_ERROR context_overflow compact_context failed", "LLM_ERROR context_overflow compact_context success"}, healsOf(run))
	require.Equal(t, "made before the overflow", w.shows(t, run.Run, "kept.txt"), "what the first attempt did stays")
	last := w.conversations(t, run, contract.AgentBuilder)
	require.Len(t, last, 3)
	require.LessOrEqual(t, len(last[1]), len(last[0])/2, "the second attempt's request against the first one's last")
	require.Less(t, len(last[2]), len(last[1]), "and again")
	for _, text := range last[1:] {
		for _, told := range []string{"You have worked on this step before", "The repository is as you left it", "Files changed: kept.txt", "big.txt", "missing.txt"} {
			require.Contains(t, text, told)
		}
	}
	require.Contains(t, last[1], "more bytes)")
	var requests []int64
	for _, e := range w.Requests(t, id) {
		if e.Agent == "builder" && e.Turn == 1 && e.Status == 200 {
			requests = append(requests, int64(e.Attempt))
		}
	}
	require.Equal(t, []int64{1, 3}, requests, "the third attempt needed one call")
}

// conversations returns what an agent's attempts were told and said.
func (w *stackTests) conversations(t *testing.T, run views.RunDetails, agent contract.Agent) []string {
	t.Helper()
	var all []string
	for _, e := range run.Executions {
		if e.Agent != agent || agent == contract.AgentBuilder && e.Step == "" {
			continue
		}
		messages, err := w.Store(t).Conversation(t.Context(), e.ID)
		require.NoError(t, err)
		text := ""
		for _, m := range messages {
			var said struct{ Text string }
			require.NoError(t, json.Unmarshal(m.Content, &said))
			text += said.Text + "\n"
		}
		all = append(all, text)
	}
	return all
}

// extraWorker is a worker beside that of the stack, with programs of its own.
type extraWorker struct {
	cmd  *exec.Cmd
	dir  string
	ends chan struct{}
}

// startWorker starts another worker on a stack and waits until it is ready.
func startWorker(t *testing.T, s *harness.Stack, name, roles string) *extraWorker {
	t.Helper()
	w := &extraWorker{dir: filepath.Join(s.Dir, "worker-"+name), ends: make(chan struct{})}
	require.NoError(t, os.MkdirAll(w.dir, 0o755))
	for _, program := range []string{"rgpt-worker", "rgpt-sandbox"} {
		// Another process copies: a command that a parallel test starts while this process has the
		// program open for writing would keep it from being executed ("text file busy").
		require.NoError(t, exec.CommandContext(t.Context(), "cp", filepath.Join(harness.Binaries(t), program), w.dir).Run())
	}
	ready := filepath.Join(w.dir, "ready.json")
	log, err := os.Create(filepath.Join(w.dir, "worker.log"))
	require.NoError(t, err)
	t.Cleanup(func() { _ = log.Close() })
	w.cmd = exec.CommandContext(t.Context(), filepath.Join(w.dir, "rgpt-worker"), "--ready-file", ready, "--config-dir", s.Work)
	w.cmd.Env = append(append(os.Environ(), s.State(t).Environment()...), "RGPT_WORKER_ROLES="+roles)
	w.cmd.Stdout, w.cmd.Stderr = log, log
	w.cmd.Cancel = func() error { return w.cmd.Process.Signal(syscall.SIGTERM) }
	require.NoError(t, w.cmd.Start())
	go func() {
		_ = w.cmd.Wait() // how it ended is told by its log
		close(w.ends)
	}()
	t.Cleanup(func() { w.stop(t, syscall.SIGTERM) })
	harness.Await(t, "the worker "+name, longest, func() (bool, string) {
		_, err := os.Stat(ready)
		return !errors.Is(err, fs.ErrNotExist), "it is not ready"
	})
	return w
}

// breakSandbox makes of a worker's machine one that cannot isolate commands.
func (w *extraWorker) breakSandbox(t *testing.T) {
	t.Helper()
	require.NoError(t, os.Remove(filepath.Join(w.dir, "rgpt-sandbox")))
}

// stop ends the worker, if it still runs, and waits until it has.
func (w *extraWorker) stop(t *testing.T, how syscall.Signal) {
	t.Helper()
	_ = w.cmd.Process.Signal(how)
	select {
	case <-w.ends:
	case <-time.After(longest):
		t.Errorf("worker %d did not end", w.cmd.Process.Pid)
	}
}

// is reports whether a worker has an identity.
func (w *extraWorker) is(identity string) bool {
	parts := strings.Split(identity, ":") // host:pid:suffix
	return len(parts) == 3 && parts[1] == strconv.Itoa(w.cmd.Process.Pid)
}

// commands is a plan of one step that runs a command, which needs a sandbox.
func commands(command string) harness.Rules {
	return harness.PlanRules("20ms", harness.Step{ID: "step-001", Turns: [][]harness.Call{
		{call("create_file", "path", "made.txt", "content", "right\n")},
		{call("run_command", "command", command), harness.Finish("made it")},
	}})
}

func TestWorkThatAMachineFailsAtIsDoneOnAnotherWorker(t *testing.T) {
	t.Parallel()
	w := &stackTests{Stack: harness.Start(t, harness.Options{Scenario: commands("cat made.txt").Named("elsewhere")})}
	broken := startWorker(t, w.Stack, "broken", "")
	broken.breakSandbox(t)
	repo := harness.Repo(t, filepath.Join(w.Dir, "repo"), healableRepo())
	var moved []store.HealEvent
	for range 6 {
		w.startIn(t, repo, "elsewhere")
	}
	for _, id := range w.runs {
		w.end(t, id, contract.StatusDone)
		moved = append(moved, w.Inspect(t, id).SelfHealEvents...)
	}
	require.NotEmpty(t, moved, "of two workers that do the same one does not get all of the work of six runs")
	for _, h := range moved {
		out := h.Output()
		require.Equal(t, "CONFIG_ERROR isolation other_worker success", fmt.Sprintf("%s %s %s %s", h.ErrorType, h.ErrorCode, h.HealAction, h.Status))
		require.True(t, broken.is(out.Before["worker"].(string)), "%v", out.Before)
		require.False(t, broken.is(out.After["worker"].(string)), "%v", out.After)
	}
	t.Logf("%d heals in %d runs", len(moved), len(w.runs))
	harness.CheckInvariants(t, w.Stack, w.runs...)
}

func TestAChosenWorkerThatIsKilledDoesNotHoldARunUp(t *testing.T) {
	t.Parallel()
	w := &stackTests{Stack: harness.Start(t, harness.Options{
		Scenario: commands("sleep 5; cat made.txt").Named("killed"), Config: "worker:\n  roles: [run, planner, tester, repair, releaser]\n",
	})}
	broken := startWorker(t, w.Stack, "broken", "builder")
	broken.breakSandbox(t)
	good := []*extraWorker{}
	id := w.startIn(t, harness.Repo(t, filepath.Join(w.Dir, "repo"), healableRepo()), "killed", "--set", "execution.intervention.wait=10m")
	// Alone it fails, and since nobody could do it better a person is asked.
	w.AwaitRun(t, w.Store(t), id, "in want of help", longest, func(r store.Run) bool { return r.WaitingFor == "intervention" })
	require.Equal(t, []string{"CONFIG_ERROR isolation ask_person started"}, startedHeals(w.Inspect(t, id)))
	for _, name := range []string{"one", "two"} {
		good = append(good, startWorker(t, w.Stack, name, "builder"))
	}
	w.OK(t, "run", "heal", arg(id), "--action", "other_worker")
	var chosen string
	harness.Await(t, "the step on the chosen worker", longest, func() (bool, string) {
		run := w.Inspect(t, id)
		last := run.SelfHealEvents[len(run.SelfHealEvents)-1]
		chosen, _ = last.Output().After["worker"].(string)
		return chosen != "" && run.Status == contract.PhaseBuilder.Running(), string(run.Status)
	})
	i := slices.IndexFunc(good, func(g *extraWorker) bool { return g.is(chosen) })
	require.GreaterOrEqual(t, i, 0, chosen)
	w.NoteKill(devstack.RoleWorker, time.Now())
	good[i].stop(t, syscall.SIGKILL)
	w.end(t, id, contract.StatusDone)
	run := w.Inspect(t, id)
	t.Log(healsOf(run))
	require.True(t, slices.ContainsFunc(run.Events, func(e contract.Event) bool {
		return e.Type == contract.EventRunUpdated && strings.Contains(string(e.Payload), chosen) && strings.Contains(string(e.Payload), "worker_lost")
	}), "the run says that the chosen worker did not take its work")
	for _, h := range run.SelfHealEvents[2:] {
		require.True(t, good[1-i].is(h.Output().After["worker"].(string)), "a worker that was lost is not chosen again")
	}
	harness.CheckInvariants(t, w.Stack, w.runs...)
}

// startedHeals lists a run's heals in short, open ones as started.
func startedHeals(run views.RunDetails) []string {
	out := healsOf(run)
	for i := range out {
		out[i] = strings.Replace(out[i], " applied", " started", 1)
	}
	return out
}
