package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/devstack"
	"github.com/rocketgpt/orchestrator/internal/scripted"
	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/test/harness"
)

// switchTests is a stack whose model can be held up.
type switchTests struct {
	*pipelineTests
	model *harness.Provider
}

// switchWay is one way to switch the model of a run's builder, or of a pipeline's members.
type switchWay struct {
	name     string
	pipeline bool
	id       int64 // of the run or the pipeline
	by       string
	do       func(t *testing.T, id int64)
}

// TestASwitchedModelMakesTheNextCallThoughTheWorkerDiesInBetween switches the models of runs whose
// tools are at work, and of pipelines whose members are thinking, in each way that there is. Then the
// only worker is killed before any of them makes its next call.
func TestASwitchedModelMakesTheNextCallThoughTheWorkerDiesInBetween(t *testing.T) {
	t.Parallel()
	w := newSwitchTests(t)
	ways := w.ways()
	// All runs wait for an approval, so that they are at the same point afterwards.
	repo := harness.ShellRepo(t, filepath.Join(w.Dir, "repo"))
	for i := range ways {
		if ways[i].pipeline {
			continue
		}
		ways[i].id = w.Create(t, "--repo", repo, "--goal", harness.Goal("switched-run"), "--approve-plan")
		w.runs = append(w.runs, ways[i].id)
	}
	for _, id := range w.runs {
		w.AwaitRun(t, w.Store(t), id, "waiting for approval", longest, func(r store.Run) bool { return r.WaitingFor == contract.ApprovalPlan })
	}
	release := w.model.Hold(func(a harness.Arrival) bool { return a.Agent != string(contract.AgentBuilder) })
	for i := range ways {
		if ways[i].pipeline {
			ways[i].id = w.note(w.Spawn(t, "--objective", harness.Goal("switched-pipeline"), "--auto-continue"))
		}
	}
	for _, id := range w.runs {
		w.post(t, fmt.Sprintf("/api/runs/%d/approve", id), map[string]any{"by": "ann"})
	}
	w.awaitTools(t)
	w.awaitThoughts(t, 2*len(w.pipelines))

	for _, way := range ways {
		way.do(t, way.id)
	}
	w.Kill(t, devstack.RoleWorker)
	// Those that outlive it would be taken for the ones that begin again.
	harness.Await(t, "the commands of the dead worker to be gone", longest, func() (bool, string) {
		left := harness.KillRunning("sleep", endlessly())
		return left == 0, fmt.Sprint(left)
	})
	for _, e := range w.Requests(t) {
		require.Equal(t, "first", e.Model, "the worker died before the next call: %v", e)
	}
	release()
	w.Up(t)
	w.endCommands(t)
	for _, way := range ways {
		if way.pipeline {
			w.AwaitPipeline(t, way.id, "over", deliberate, func(p store.Pipeline) bool { return p.Status.Terminal() })
		} else {
			require.Equal(t, contract.StatusDone, w.AwaitEnd(t, w.Store(t), way.id, longest).Status)
		}
		t.Run(way.name, func(t *testing.T) { w.requireSwitched(t, way) })
	}
	harness.CheckPipelines(t, w.Stack, w.pipelines...)
	harness.CheckInvariants(t, w.Stack, w.runs...)
}

func newSwitchTests(t *testing.T) *switchTests {
	t.Helper()
	w := &switchTests{model: harness.NewProvider(t)}
	rules := append(agreeing("switched-pipeline").Named("switched-pipeline"), harness.PlanRules("20ms", harness.Step{ID: "step-001", Turns: [][]harness.Call{
		{call("run_command", "command", "sleep "+endlessly())},
		{call("create_file", "path", "made.txt", "content", "made\n")},
		{harness.Finish("made it")},
	}}).Named("switched-run")...)
	w.pipelineTests = &pipelineTests{Stack: harness.Start(t, harness.Options{Scenario: rules, Config: fmt.Sprintf(`models:
  default: {provider: gate, model: first}
  providers:
    gate: {kind: compatible, base_url: %q}
deliberation: {gamma_stuck_after: 10m, abort_after: 20m, timeout: 30m, opening_timeout: 10m}
verification: {baseline: "off"}
`, w.model.For("w1"))})}
	w.model.Forward(t, w.Stack)
	return w
}

// endlessly is how long the commands of the runs sleep unless the test ends them: so long that all
// switches come before their ends. No other process sleeps exactly as long.
func endlessly() string { return fmt.Sprintf("300.%d", os.Getpid()) }

// endCommands ends the commands that were begun again after the worker's death, until all runs have ended.
func (w *switchTests) endCommands(t *testing.T) {
	t.Helper()
	db := w.Store(t)
	harness.Await(t, "the commands to be ended, and with them the runs", longest, func() (bool, string) {
		harness.KillRunning("sleep", endlessly())
		for _, id := range w.runs {
			if run, err := db.Run(t.Context(), id); err != nil || !run.Status.Terminal() {
				return false, fmt.Sprintf("run %d is %s", id, run.Status)
			}
		}
		return true, ""
	})
}

// ways are all ways to switch a model.
func (w *switchTests) ways() []switchWay {
	second := contract.ModelChoice{Provider: "gate", Model: "second"}
	byMember := map[contract.Agent]contract.ModelChoice{}
	for _, m := range contract.Members() {
		byMember[m.Agent()] = second
	}
	signal := func(t *testing.T, workflow string, args any) {
		t.Helper()
		require.NoError(t, w.Temporal(t).SignalWorkflow(t.Context(), workflow, "", contract.UpdateSwitchModel, args))
	}
	return []switchWay{
		{name: "a run by its page", by: "dashboard", do: w.switchByPage},
		{name: "a run by the command line", do: func(t *testing.T, id int64) {
			w.OK(t, "run", "switch-model", fmt.Sprint(id), "--model", "gate/second", "--agent", "builder")
		}},
		{name: "a run by the API", by: "ann", do: func(t *testing.T, id int64) {
			w.post(t, fmt.Sprintf("/api/runs/%d/models", id), map[string]any{"model": "gate/second", "agent": "builder", "by": "ann"})
		}},
		{name: "a run by a signal", by: "bob", do: func(t *testing.T, id int64) {
			signal(t, contract.RunWorkflowID(id), contract.Command{ID: "switch", By: "bob", Agent: contract.AgentBuilder, Model: &second})
		}},
		{name: "a pipeline by the command line", pipeline: true, do: func(t *testing.T, id int64) {
			w.OK(t, "pipeline", "switch-model", fmt.Sprint(id), "--model", "gate/second")
		}},
		{name: "a pipeline by the API", pipeline: true, by: "ann", do: func(t *testing.T, id int64) {
			w.post(t, "/api/pipeline/models", map[string]any{"pipeline_id": id, "model": "gate/second", "by": "ann"})
		}},
		{name: "a pipeline by a signal", pipeline: true, by: "bob", do: func(t *testing.T, id int64) {
			signal(t, contract.PipelineWorkflowID(id), contract.PipelineCommand{ID: "switch", By: "bob", Models: byMember})
		}},
	}
}

// post sends a command to the API.
func (w *switchTests) post(t *testing.T, path string, body map[string]any) {
	t.Helper()
	raw, err := json.Marshal(body)
	require.NoError(t, err)
	w.http(t, http.MethodPost, path, raw)
}

func (w *switchTests) http(t *testing.T, method, path string, body []byte) string {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, w.State(t).Server+path, bytes.NewReader(body))
	require.NoError(t, err)
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, resp.StatusCode, "%s %s: %s", method, path, text)
	return string(text)
}

// switchForm finds the form for the builder's model, and where its button sends it.
var switchForm = regexp.MustCompile(`(?s)<form[^>]* id="switch-builder">(.*?data-href="([^"]+)".*?)</form>`)

// switchByPage sends what the page sends when somebody fills in the form for the builder's model.
// That the page does so is tested with a browser.
func (w *switchTests) switchByPage(t *testing.T, id int64) {
	t.Helper()
	form := switchForm.FindStringSubmatch(w.http(t, http.MethodGet, fmt.Sprintf("/runs/%d/models", id), nil))
	require.NotNil(t, form, "the page has the form")
	require.Contains(t, form[1], `name="agent" value="builder"`)
	require.Contains(t, form[1], `name="model"`)
	w.post(t, form[2], map[string]any{"by": "dashboard", "agent": "builder", "model": "gate/second"})
}

// awaitTools waits until the command of each run is at work.
func (w *switchTests) awaitTools(t *testing.T) {
	t.Helper()
	harness.Await(t, "the commands of the runs to run", longest, func() (bool, string) {
		n := harness.CountRunning("sleep", endlessly())
		return n == len(w.runs), fmt.Sprint(n)
	})
}

// awaitThoughts waits until a number of calls of members are held up.
func (w *switchTests) awaitThoughts(t *testing.T, n int) {
	t.Helper()
	harness.Await(t, "the members of the pipelines to think", longest, func() (bool, string) {
		held := 0
		for _, a := range w.model.Arrivals(time.Time{}) {
			if a.End.IsZero() && a.Agent != string(contract.AgentBuilder) {
				held++
			}
		}
		return held == n, fmt.Sprint(held)
	})
}

// requireSwitched requires that a switch took effect at the next call, and is one event.
func (w *switchTests) requireSwitched(t *testing.T, way switchWay) {
	t.Helper()
	run, kind := way.id, contract.EventModelSwitched
	if way.pipeline {
		run, kind = w.pipeline(t, way.id).RunID, contract.EventModelsSwitched
	}
	models := map[string][]string{} // by turn of the builder, or of the members
	for _, e := range w.Requests(t, run) {
		if e.Agent == string(contract.AgentPlanner) || e.Status != http.StatusOK {
			continue
		}
		turn := "first turn"
		if e.Turn > 1 {
			turn = "later turns"
		}
		if !slices.Contains(models[turn], e.Model) {
			models[turn] = append(models[turn], e.Model)
		}
	}
	require.Equal(t, map[string][]string{"first turn": {"first"}, "later turns": {"second"}}, models)
	require.Zero(t, countOf(w.Requests(t, run), func(e scripted.LogEntry) bool { return e.Status == http.StatusBadRequest }))

	events, err := w.Store(t).Events(t.Context(), run, 0, 1000)
	require.NoError(t, err)
	events = slices.DeleteFunc(events, func(e contract.Event) bool { return e.Type != kind })
	require.Len(t, events, 1, "the switch is one event")
	said := string(events[0].Payload)
	require.Contains(t, said, "second")
	require.Contains(t, said, `"by": "`+way.by)
	command := []string{"run", "watch"}
	if way.pipeline {
		command = []string{"pipeline", "watch"}
	}
	shown := w.RGPT(t, append(command, fmt.Sprint(way.id))...).Stdout
	require.True(t, slices.ContainsFunc(strings.Split(shown, "\n"), func(line string) bool {
		return strings.Contains(line, string(kind)) && strings.Contains(line, "second")
	}), "it is shown: %s", shown)
}

func countOf[T any](all []T, is func(T) bool) (n int) {
	for _, v := range all {
		if is(v) {
			n++
		}
	}
	return n
}
