// Package browser looks at the dashboard with a real browser: its pages full of
// work, full of hostile texts, and live on a real stack. Playwright drives
// Chromium; the specs lie beside this file.
package browser

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/artifact"
	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/internal/storetest"
	"github.com/rocketgpt/orchestrator/server"
	"github.com/rocketgpt/orchestrator/test/harness"
	"github.com/rocketgpt/orchestrator/test/showcase"
)

// binaries ends what the harness built, after the tests.
type binaries struct{ run interface{ Run() int } }

func (b binaries) Run() int {
	defer harness.RemoveBinaries()
	return b.run.Run()
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(binaries{storetest.Main(m)}) }

// The tests run one after the other: a browser takes all that two cores have.

// longest bounds one run of Playwright. Its tests have bounds of their own.
const longest = 25 * time.Minute

// TestPagesFullOfWorkAreSound opens each page of pages.json.
func TestPagesFullOfWorkAreSound(t *testing.T) {
	p := find(t)
	p.passes(t, "pages", "RGPT_BROWSER_URL="+dashboard(t, showcase.Showcase))
}

// TestPagesKeepTheirStateAcrossRefreshes lets refreshes fail, and questions change
// while somebody answers.
func TestPagesKeepTheirStateAcrossRefreshes(t *testing.T) {
	p := find(t)
	p.passes(t, "refresh", "RGPT_BROWSER_URL="+dashboard(t, showcase.Showcase))
}

// TestARunShowsWhatItsFailedBrowserTestsLeft goes from the page of a run to the screenshot, the video
// and the trace.
func TestARunShowsWhatItsFailedBrowserTestsLeft(t *testing.T) {
	p := find(t)
	url, db := filled(t, showcase.Showcase)
	const run, test = 34, "login.spec.ts › logs in with a right password" // see pages.json
	executions, err := db.Executions(t.Context(), run)
	require.NoError(t, err)
	var last int64
	for _, e := range executions {
		if e.Phase == contract.PhaseTester && e.Step == "" {
			last = e.ID
		}
	}
	check := contract.Check{ID: "test-playwright", Category: contract.CategoryTest, Name: "playwright test"}
	failed := contract.TestCase{Name: test, Status: contract.TestFailed, DurationMS: 5031, Message: "Error: expect(locator).toHaveText(expected)", Location: "tests/login.spec.ts:31"}
	require.NoError(t, db.SaveCheck(t.Context(), contract.ExecutionRef{ID: last, RunID: run}, check.ID, contract.CheckResult{
		Check: check, Code: contract.CodeTestsFailed, Summary: contract.TestSummary{Failed: 1}, Message: test + " failed",
	}, []contract.TestCase{failed}, nil, ""))
	p.passes(t, "evidence", "RGPT_BROWSER_URL="+url, fmt.Sprintf("RGPT_EVIDENCE=%d", run))
}

// TestAPageShowsWhatModelsWrite shows texts of a run's models while its page is open.
func TestAPageShowsWhatModelsWrite(t *testing.T) {
	p := find(t)
	url, db := filled(t, showcase.Showcase)
	building, err := db.ListRuns(t.Context(), store.Filter{Status: []contract.Status{contract.PhaseBuilder.Running()}, Limit: 1})
	require.NoError(t, err)
	require.NotEmpty(t, building)
	deliberating, err := db.ListPipelines(t.Context(), store.PipelineFilter{Status: []contract.PipelineStatus{contract.PipelineOrchestrating}, Limit: 1})
	require.NoError(t, err)
	require.NotEmpty(t, deliberating)
	worker := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		text := store.LiveText{RunID: building[0].ID, ExecutionID: 1, Turn: 1, Try: 1, Agent: contract.AgentBuilder, Step: "step-001"}
		if err := json.NewDecoder(r.Body).Decode(&text); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		watched, err := db.ShowText(r.Context(), text)
		_ = json.NewEncoder(w).Encode(map[string]bool{"watched": watched && err == nil})
	}))
	t.Cleanup(worker.Close)
	writes, err := json.Marshal(map[string]any{"run": building[0].ID, "show": worker.URL, "pipeline": deliberating[0].ID, "account": deliberating[0].RunID})
	require.NoError(t, err)
	p.passes(t, "writing", "RGPT_BROWSER_URL="+url, "RGPT_WRITING="+string(writes))
}

// TestHostileTextsAreEscaped opens pages whose every text tries to become more.
func TestHostileTextsAreEscaped(t *testing.T) {
	p := find(t)
	p.passes(t, "hostile", "RGPT_BROWSER_URL="+dashboard(t, showcase.Hostile), fmt.Sprintf("RGPT_HOSTILE_RUNS=%d", len(showcase.HostileTexts())+1))
}

// TestPagesFollowRunsLive steers real runs from their pages.
func TestPagesFollowRunsLive(t *testing.T) {
	p := find(t)
	s := harness.Start(t, harness.Options{Scenario: slices.Concat(healing().Named("heals"), quick().Named("quick"), slow().Named("slow"))})
	live, err := json.Marshal(map[string]any{
		"repo": harness.ShellRepo(t, filepath.Join(s.Dir, "shell")), "goals": map[string]string{"heals": harness.Goal("heals"), "quick": harness.Goal("quick"), "slow": harness.Goal("slow")},
	})
	require.NoError(t, err)
	p.passes(t, "live", "RGPT_BROWSER_URL="+s.State(t).Server, "RGPT_LIVE="+string(live))
}

// TestPagesFollowPipelinesLive steers real deliberations from their pages.
func TestPagesFollowPipelinesLive(t *testing.T) {
	p := find(t)
	// Only what a scenario does brings GAMMA in or ends a pipeline.
	caching := harness.ReadRules(t, filepath.Join(harness.Root(), "examples", "pipeline", "caching.yaml"))
	for _, r := range caching {
		r["latency"] = "1200ms" // for a page to see each of its statuses, also on a busy machine
	}
	s := harness.Start(t, harness.Options{
		Scenario: append(harness.ReadScenarios(t, "testdata/*.yaml"), caching...),
		Config: `deliberation:
  gamma_stuck_after: 20m
  abort_after: 30m
  timeout: 40m
  opening_timeout: 10m
  iterations: 4
  recoveries: 1
`,
	})
	objectives, err := json.Marshal(map[string]string{"caching": "Design a caching strategy", "rounds": harness.Goal("rounds"), "sluggish": harness.Goal("sluggish")})
	require.NoError(t, err)
	p.passes(t, "deliberations", "RGPT_BROWSER_URL="+s.State(t).Server, "RGPT_DELIBERATIONS="+string(objectives))
}

// TestEventsReachPages measures how long an event takes from its row to the page
// that shows it. It is run with RGPT_BENCH=1 only, on a machine that does nothing else.
func TestEventsReachPages(t *testing.T) {
	if os.Getenv("RGPT_BENCH") != "1" {
		t.Skip("a measurement: RGPT_BENCH=1 makes it")
	}
	p := find(t)
	url, db := filled(t, showcase.Showcase)
	building, err := db.ListRuns(t.Context(), store.Filter{Status: []contract.Status{contract.PhaseBuilder.Running()}, Limit: 1})
	require.NoError(t, err)
	require.NotEmpty(t, building)
	events := httptest.NewServer(nextEvent(db, building[0].ID))
	t.Cleanup(events.Close)
	source, err := json.Marshal(map[string]any{"run": building[0].ID, "next": events.URL})
	require.NoError(t, err)
	p.passes(t, "bench", "RGPT_BROWSER_URL="+url, "RGPT_EVENTS="+string(source))
}

// nextEvent writes an event of a run each time it is asked, as the run's
// workflow would, and answers with its number.
func nextEvent(db *store.Store, run int64) http.Handler {
	var records atomic.Int64
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, err := db.Record(r.Context(), store.Source{WorkflowID: contract.RunWorkflowID(run), WorkflowRunID: "measured"}, contract.Record{
			RunID: run, Seq: records.Add(1), At: time.Now(), Run: &contract.RunChange{Phase: contract.PhaseBuilder, Status: contract.PhaseBuilder.Running()},
			Events: []contract.EventDraft{{Type: contract.EventRunUpdated, Payload: map[string]any{"status": contract.PhaseBuilder.Running()}}},
		})
		var row store.Run
		if err == nil {
			row, err = db.Run(r.Context(), run)
		}
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		_, _ = fmt.Fprintf(w, `{"seq": %d}`, row.EventSeq)
	})
}

// healing is a run whose tests are red until the Repair agent has mended a file.
func healing() harness.Rules {
	return append(harness.PlanRules("700ms", harness.Step{ID: "step-001", Turns: [][]harness.Call{
		{{Name: "create_file", Arguments: map[string]any{"path": "made.txt", "content": ""}}}, {harness.Finish("made it")},
	}}), map[string]any{
		"when": map[string]any{"agent": "repair"}, "latency": "4s",
		"reply": map[string]any{"tool_calls": []any{
			map[string]any{"name": "delete_file", "arguments": map[string]any{"path": "made.txt"}},
			map[string]any{"name": "create_file", "arguments": map[string]any{"path": "made.txt", "content": "made\n"}},
			map[string]any{"name": "finish", "arguments": map[string]any{"summary": "wrote the line that was missing"}},
		}},
		"usage": map[string]any{"prompt_tokens": 300, "completion_tokens": 20},
	})
}

// quick is a run of one step that nothing holds up.
func quick() harness.Rules {
	return harness.PlanRules("100ms", harness.Step{ID: "step-001", Turns: [][]harness.Call{
		{{Name: "create_file", Arguments: map[string]any{"path": "quick.txt", "content": "quick\n"}}}, {harness.Finish("made it")},
	}})
}

// slow is a run that takes a minute, so that it can be steered meanwhile, also on a
// machine that has much else to do.
func slow() harness.Rules {
	var turns [][]harness.Call
	for i := range 30 {
		turns = append(turns, []harness.Call{{Name: "create_file", Arguments: map[string]any{"path": fmt.Sprintf("slow-%d.txt", i), "content": "done\n"}}})
	}
	return harness.PlanRules("2s", harness.Step{ID: "step-001", Turns: append(turns, []harness.Call{harness.Finish("took its time")})})
}

// dashboard serves a filled database and returns its address.
func dashboard(t *testing.T, kind showcase.Kind) string {
	t.Helper()
	url, _ := filled(t, kind)
	return url
}

// filled is dashboard with the store that it shows.
func filled(t *testing.T, kind showcase.Kind, change ...func(*server.Options)) (string, *store.Store) {
	t.Helper()
	database := storetest.URL(t)
	blobs, err := artifact.Open(t.Context(), "", t.TempDir())
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, blobs.Close()) })
	require.NoError(t, showcase.Fill(t.Context(), showcase.Options{Kind: kind, Database: database, Artifacts: blobs}))
	handler, done, err := showcase.Handler(t.Context(), database, blobs, slog.New(slog.DiscardHandler), change...)
	require.NoError(t, err)
	t.Cleanup(done)
	server := httptest.NewServer(handler)
	t.Cleanup(func() {
		server.CloseClientConnections() // streams would not end by themselves
		server.Close()
	})
	db, err := store.Open(t.Context(), database, store.Options{ApplicationName: "rgpt-browser-test"})
	require.NoError(t, err)
	t.Cleanup(db.Close)
	return server.URL, db
}

// passes runs a spec and requires that its tests pass, and that there were some.
// RGPT_BROWSER_GREP, a regular expression, chooses some of them by their names.
func (p playwright) passes(t *testing.T, spec string, env ...string) {
	t.Helper()
	work := p.workspace(t)
	report := filepath.Join(t.TempDir(), "report.json")
	shots := os.Getenv("RGPT_SHOTS")
	if shots != "" {
		var err error
		shots, err = filepath.Abs(shots)
		require.NoError(t, err)
	}
	cmd := exec.CommandContext(t.Context(), p.node, filepath.Join(p.modules, "@playwright", "test", "cli.js"), "test", "--config", "playwright.config.js", "--grep", os.Getenv("RGPT_BROWSER_GREP"), spec+".spec.js")
	var out bytes.Buffer
	cmd.Dir, cmd.Stdout, cmd.Stderr, cmd.WaitDelay = work, &out, &out, 10*time.Second
	cmd.Env = append(slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "RGPT_") }), append(env,
		"RGPT_CHROMIUM="+p.chromium, "RGPT_BROWSER_REPORT="+report, "RGPT_BROWSER_OUT="+filepath.Join(work, "out"), "RGPT_SHOTS="+shots, "FORCE_COLOR=0", "CI=1")...)
	stop := time.AfterFunc(longest, func() { _ = cmd.Process.Kill() })
	err := cmd.Run()
	stop.Stop()
	t.Log(out.String())
	require.NoError(t, err, "tests in the browser are red; what they left is in %s", work)
	raw, err := os.ReadFile(report)
	require.NoError(t, err)
	var result struct {
		Stats struct{ Expected, Unexpected, Flaky, Skipped int }
	}
	require.NoError(t, json.Unmarshal(raw, &result))
	require.Positive(t, result.Stats.Expected, "no test ran")
	require.Zero(t, result.Stats.Unexpected+result.Stats.Flaky)
	require.Zero(t, result.Stats.Skipped, "tests were skipped")
	require.NoError(t, os.RemoveAll(work))
}
