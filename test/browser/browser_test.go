// Package browser looks at the dashboard with a real browser: its pages full of
// work, full of hostile texts, and live on a real stack. Playwright drives
// Chromium; the specs lie beside this file.
package browser

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/rocketgpt/orchestrator/internal/artifact"
	"github.com/rocketgpt/orchestrator/internal/storetest"
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

// TestPagesAreDrawnAnewWithoutLoss lets refreshes fail, and questions change
// while somebody answers.
func TestPagesAreDrawnAnewWithoutLoss(t *testing.T) {
	p := find(t)
	p.passes(t, "refresh", "RGPT_BROWSER_URL="+dashboard(t, showcase.Showcase))
}

// TestHostileTextsStayTexts opens pages whose every text tries to become more.
func TestHostileTextsStayTexts(t *testing.T) {
	p := find(t)
	p.passes(t, "hostile", "RGPT_BROWSER_URL="+dashboard(t, showcase.Hostile), fmt.Sprintf("RGPT_HOSTILE_RUNS=%d", len(showcase.HostileTexts())+1))
}

// TestPagesFollowRunsLive steers real runs from their pages.
func TestPagesFollowRunsLive(t *testing.T) {
	p := find(t)
	s := harness.Start(t, harness.Options{Scenario: append(healing().Named("heals"), slow().Named("slow")...)})
	live, err := json.Marshal(map[string]any{
		"repo": harness.ShellRepo(t, filepath.Join(s.Dir, "shell")), "goals": map[string]string{"heals": harness.Goal("heals"), "slow": harness.Goal("slow")},
	})
	require.NoError(t, err)
	p.passes(t, "live", "RGPT_BROWSER_URL="+s.State(t).Server, "RGPT_LIVE="+string(live))
}

// healing is a run whose tests are red until the Repair agent has mended a file.
func healing() harness.Rules {
	return append(harness.PlanRules("700ms", harness.Step{ID: "step-001", Turns: [][]harness.Call{
		{{Name: "create_file", Arguments: map[string]any{"path": "made.txt", "content": ""}}}, {harness.Finish("made it")},
	}}), map[string]any{
		"when": map[string]any{"agent": "repair"}, "latency": "900ms",
		"reply": map[string]any{"tool_calls": []any{
			map[string]any{"name": "delete_file", "arguments": map[string]any{"path": "made.txt"}},
			map[string]any{"name": "create_file", "arguments": map[string]any{"path": "made.txt", "content": "made\n"}},
			map[string]any{"name": "finish", "arguments": map[string]any{"summary": "wrote the line that was missing"}},
		}},
		"usage": map[string]any{"prompt_tokens": 300, "completion_tokens": 20},
	})
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
	database := storetest.URL(t)
	blobs, err := artifact.Open(t.Context(), "", t.TempDir())
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, blobs.Close()) })
	require.NoError(t, showcase.Fill(t.Context(), showcase.Options{Kind: kind, Database: database, Artifacts: blobs}))
	handler, done, err := showcase.Handler(t.Context(), database, blobs, slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	t.Cleanup(done)
	server := httptest.NewServer(handler)
	t.Cleanup(func() {
		server.CloseClientConnections() // streams would not end by themselves
		server.Close()
	})
	return server.URL
}

// passes runs a spec and requires that its tests pass, and that there were some.
// What is not run yet is said in the log.
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
	cmd := exec.CommandContext(t.Context(), p.node, filepath.Join(p.modules, "@playwright", "test", "cli.js"), "test", "--config", "playwright.config.js", spec+".spec.js")
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
	if spec != "live" {
		require.Zero(t, result.Stats.Skipped, "tests were skipped")
	}
	require.NoError(t, os.RemoveAll(work))
}
