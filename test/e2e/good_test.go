package e2e

import (
	"archive/zip"
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/internal/store/views"
	"github.com/rocketgpt/orchestrator/test/harness"
)

// wholeRun are the keys that the whole run has as JSON.
var wholeRun = []string{
	"runId", "phase", "status", "planner_output", "builder_output", "tester_output", "releaser_output",
	"events", "self_heal_events", "findings", "created_at", "updated_at",
}

func (w *stackTests) goodRun(t *testing.T) {
	head := harness.Git(t, w.sample, "rev-parse", "HEAD")
	out := w.OK(t, "run", "create", "--repo", w.sample, "--goal", harness.Goal("good"), "--wait")
	var list struct{ Runs []store.Run }
	w.OK(t, "run", "list", "--text", "<scenario good>", "--json").JSON(t, &list)
	require.Len(t, list.Runs, 1)
	id := w.note(list.Runs[0].ID)
	require.Contains(t, out.Stdout, "Run "+arg(id)+" is done")
	require.Contains(t, out.Stdout, contract.Branch(id))

	run := w.Inspect(t, id)
	require.Equal(t, contract.StatusDone, run.Status)
	w.goodBranch(t, run)
	require.Equal(t, head, harness.Git(t, w.sample, "rev-parse", "HEAD"), "what was checked out stays so")
	require.Empty(t, harness.Git(t, w.sample, "status", "--porcelain"), "nobody touches the user's files")
	w.goodTests(t, run)
	w.goodArtifacts(t, run)
	w.wholeRunAsJSON(t, id)
	report := w.OK(t, "run", "export", arg(id)).Stdout
	require.Contains(t, report, contract.Branch(id))
	require.Contains(t, w.OK(t, "run", "logs", arg(id), "--step", "step-001").Stdout, "languages.go")
	require.Contains(t, w.OK(t, "run", "timing", arg(id)).Stdout, "critical path")
}

func (w *stackTests) goodBranch(t *testing.T, run views.RunDetails) {
	t.Helper()
	require.Contains(t, w.shows(t, run.Run, "languages.go"), `"fr": "Bonjour"`)
	require.Contains(t, w.shows(t, run.Run, "greeter.go"), "GreetIn")
	require.Contains(t, w.shows(t, run.Run, "README.md"), "Spanish")
	subjects := harness.Git(t, w.sample, "log", "--reverse", "--format=%s", run.BaseCommit+".."+run.ReleaseBranch)
	require.Equal(t, "Add a table of greetings\nGreet in a language\nDocument the languages", subjects)
	message := harness.Git(t, w.sample, "log", "-1", "--format=%B", run.ReleaseBranch)
	for _, trailer := range []string{"RGPT-Run: " + arg(run.ID), "RGPT-Step: step-003", "RGPT-Model: scripted", "RGPT-Prompt: builder@"} {
		require.Contains(t, message, trailer)
	}
}

func (w *stackTests) goodTests(t *testing.T, run views.RunDetails) {
	t.Helper()
	var tests contract.TestResult
	require.NoError(t, json.Unmarshal(run.TesterOutput, &tests))
	require.Equal(t, 2, tests.Summary.Passed)
	require.Zero(t, tests.Summary.Failed)
	require.Len(t, tests.Results, 2)
	require.NotEmpty(t, tests.Artifacts)
}

func (w *stackTests) goodArtifacts(t *testing.T, run views.RunDetails) {
	t.Helper()
	var names []string
	for _, a := range run.Artifacts {
		names = append(names, a.Name)
	}
	require.Subset(t, names, []string{"report.md", "change.patch", "run.json", "run-" + arg(run.ID) + ".zip", "tester/1/test-go-1/output.log"})
	folder := filepath.Join(w.Dir, "fetched")
	w.OK(t, "run", "artifacts", arg(run.ID), "--folder", folder)
	packed, err := os.ReadFile(filepath.Join(folder, "run-"+arg(run.ID)+".zip"))
	require.NoError(t, err)
	archive, err := zip.NewReader(bytes.NewReader(packed), int64(len(packed)))
	require.NoError(t, err)
	var inside []string
	for _, f := range archive.File {
		inside = append(inside, f.Name)
	}
	require.Len(t, inside, len(names)-1, "all but the zip itself: %v", inside)
	patch := w.OK(t, "run", "artifacts", arg(run.ID), "--get", "change.patch").Stdout
	require.Contains(t, patch, "+++ b/languages.go")
	report := w.OK(t, "run", "artifacts", arg(run.ID), "--get", "report.md").Stdout
	require.Contains(t, report, "| status | done |")
	require.Contains(t, report, "Greet in a language")
}

// wholeRunAsJSON checks the run as the command line, the server and the
// artifact have it.
func (w *stackTests) wholeRunAsJSON(t *testing.T, id int64) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, w.State(t).Server+"/api/runs/"+arg(id), http.NoBody)
	require.NoError(t, err)
	response, err := http.DefaultClient.Do(request)
	require.NoError(t, err)
	defer response.Body.Close()
	require.Equal(t, http.StatusOK, response.StatusCode)
	var fromServer map[string]any
	require.NoError(t, json.NewDecoder(response.Body).Decode(&fromServer))
	for name, r := range map[string]harness.Result{
		"inspect": w.OK(t, "run", "inspect", arg(id), "--json"),
		"export":  w.OK(t, "run", "export", arg(id), "--json"),
	} {
		var whole map[string]any
		r.JSON(t, &whole)
		for _, key := range wholeRun {
			require.Contains(t, whole, key, name)
			require.Contains(t, fromServer, key)
		}
		require.InDelta(t, id, whole["runId"], 0)
		require.Equal(t, "done", whole["status"])
	}
}

func (w *stackTests) watch(t *testing.T) {
	id := w.start(t, "quick")
	all := w.OK(t, "run", "watch", arg(id), "--json")
	require.Contains(t, all.Stdout, `"event_type":"run.created"`)
	events := w.Inspect(t, id).Events
	after := events[len(events)-3].Seq
	rest := w.OK(t, "run", "watch", arg(id), "--json", "--after", arg(after))
	var seen []int64
	for line := range strings.Lines(rest.Stdout) {
		var e contract.Event
		if json.Unmarshal([]byte(line), &e) == nil && e.Seq > 0 {
			seen = append(seen, e.Seq)
		}
	}
	require.Equal(t, []int64{after + 1, after + 2}, seen)
}

func (w *stackTests) idempotency(t *testing.T) {
	create := func(goal string) harness.Result {
		return w.RGPT(t, "run", "create", "--json", "--repo", w.shell, "--goal", goal, "--idempotency-key", "the same")
	}
	var first, second struct {
		RunID   int64 `json:"runId"`
		Created bool  `json:"created"`
	}
	create(harness.Goal("quick")).JSON(t, &first)
	create(harness.Goal("quick")).JSON(t, &second)
	require.True(t, first.Created)
	require.False(t, second.Created)
	require.Equal(t, first.RunID, second.RunID)
	other := create(harness.Goal("quick") + ", but otherwise")
	require.Equal(t, exitInput, other.Code, "another request under the same key: %s", other)
	w.end(t, w.note(first.RunID), contract.StatusDone)
}

func (w *stackTests) push(t *testing.T) {
	remote := filepath.Join(w.Dir, "remote.git")
	harness.Git(t, w.Dir, "init", "--quiet", "--bare", remote)
	run := w.end(t, w.start(t, "quick", "--push", "--remote", remote), contract.StatusDone)
	require.Equal(t, run.ReleaseCommit, harness.Git(t, remote, "rev-parse", "refs/heads/"+run.ReleaseBranch))
}

func (w *stackTests) pushProtected(t *testing.T) {
	remote := filepath.Join(w.Dir, "protected.git")
	harness.Git(t, w.Dir, "init", "--quiet", "--bare", remote)
	id := w.start(t, "quick", "--push", "--remote", remote, "--set", "git.protected=['**/*']")
	w.AwaitRun(t, w.Store(t), id, "asked about its protected file", longest, func(r store.Run) bool { return r.WaitingFor != "" })
	require.Empty(t, harness.Git(t, remote, "branch", "--list"))
	questions, err := views.New(w.Store(t)).Questions(t.Context(), id, 1)
	require.NoError(t, err)
	require.Contains(t, questions[0].Reason, "protected files would be pushed: ")
	w.OK(t, "run", "approve", fmt.Sprint(id))
	run := w.end(t, id, contract.StatusDone)
	require.Equal(t, run.ReleaseCommit, harness.Git(t, remote, "rev-parse", "refs/heads/"+run.ReleaseBranch))
}

func (w *stackTests) dirty(t *testing.T) {
	repo := harness.ShellRepo(t, filepath.Join(w.Dir, "dirty"))
	harness.WriteFiles(t, repo, map[string]string{"notes.txt": "changed, not committed\n", "new.txt": "new\n"})
	out := w.RGPT(t, "run", "create", "--repo", repo, "--goal", harness.Goal("quick"), "--wait")
	require.Zero(t, out.Code, "%s", out)
	require.Contains(t, out.Stderr, "The run does not include them")
	run := w.lastOf(t, repo)
	require.Equal(t, "one\ntwo\nthree", w.shows(t, run, "notes.txt"))
	require.Equal(t, "M notes.txt\n?? new.txt", harness.Git(t, repo, "status", "--porcelain"), "the changes stay")
}

// lastOf returns the only run of a repository.
func (w *stackTests) lastOf(t *testing.T, repo string) store.Run {
	t.Helper()
	var list struct{ Runs []store.Run }
	w.OK(t, "run", "list", "--project", filepath.Base(repo), "--json").JSON(t, &list)
	require.Len(t, list.Runs, 1)
	w.note(list.Runs[0].ID)
	return list.Runs[0]
}
