package showcase

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/artifact"
	"github.com/rocketgpt/orchestrator/internal/pgcluster"
	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/internal/store/feed"
	"github.com/rocketgpt/orchestrator/server/ui"
)

// grow are the tables that grow with every run.
var grow = regexp.MustCompile(`Seq Scan on (orchestrator_(?:events|executions|phases|records|transcripts|tool_calls|model_calls|artifacts|findings|checks|self_heal_events|webhook_deliveries))\b`)

// TestNoPageReadsAWholeTableThatGrows lets the server of the database itself say
// how it carries out what pages and lists ask, with what they ask.
func TestNoPageReadsAWholeTableThatGrows(t *testing.T) {
	t.Parallel()
	const runs, one = 3000, 1500
	dir, err := os.MkdirTemp("", "rgpt-plans-") //nolint:usetesting // the server may run as another user, who passes through
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	require.NoError(t, os.Chmod(dir, 0o755)) //nolint:gosec // see above
	log := filepath.Join(dir, "log")
	cluster, err := pgcluster.Start(t.Context(), pgcluster.Options{Dir: filepath.Join(dir, "data"), Log: log, Volatile: true})
	require.NoError(t, err)
	stopped := false
	stop := func() {
		if !stopped {
			stopped = true
			require.NoError(t, cluster.Stop(context.WithoutCancel(t.Context())))
		}
	}
	t.Cleanup(stop)
	require.NoError(t, cluster.CreateDatabase(t.Context(), "plans"))
	url := cluster.URL("plans")
	require.NoError(t, store.Migrate(t.Context(), url))
	require.NoError(t, Fill(t.Context(), Options{Kind: Scale, Database: url, Runs: runs, Events: 20 * runs}))
	explainAll(t, url)

	blobs, err := artifact.Open(t.Context(), "", t.TempDir())
	require.NoError(t, err)
	defer func() { require.NoError(t, blobs.Close()) }()
	handler, done, err := Handler(t.Context(), url, blobs, slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	paths := []string{
		"/runs", "/runs?project=" + subjects[0].project, "/runs?phase=tester", "/runs?error=LLM_ERROR", "/runs?time=24h", "/runs?text=login", "/runs?text=nothing+is+called+so",
		"/agents", "/settings/models", "/api/runs", "/api/runs?status=failed&limit=1000", "/api/runs?text=login", "/api/agents", "/api/interventions", "/api/models",
		fmt.Sprintf("/api/runs/%d", one), fmt.Sprintf("/api/runs/%d/diff/%d", one, one+1),
	}
	for _, state := range []ui.State{ui.Queued, ui.Running, ui.Waiting, ui.Done, ui.Failed, ui.Stopped} {
		paths = append(paths, "/runs?state="+string(state))
	}
	for _, tab := range ui.Tabs {
		paths = append(paths, ui.RunHref(one, tab.Name), ui.RunHref(runs-3, tab.Name))
	}
	for _, list := range []string{"events", "logs", "findings", "artifacts", "interventions", "zip"} {
		paths = append(paths, fmt.Sprintf("/api/runs/%d/%s", one, list))
	}
	for _, path := range paths {
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "http://localhost"+path, http.NoBody))
		require.Contains(t, []int{http.StatusOK, http.StatusNotFound}, w.Code, "%s: %s", path, w.Body) // a tab may have no page
	}
	db, err := store.Open(t.Context(), url, store.Options{})
	require.NoError(t, err)
	events := feed.New(db, feed.Options{})
	require.NoError(t, events.FollowAll(t.Context(), feed.Cursor{}, func(feed.Event) error { return feed.ErrStop }))
	require.NoError(t, events.Follow(t.Context(), one, 3, func(contract.Event) error { return feed.ErrStop }))
	events.Close()
	db.Close()
	done()
	stop() // all that it has to say is in its log

	said, err := os.ReadFile(log)
	require.NoError(t, err)
	names := map[string]bool{}
	for _, plan := range strings.Split(string(said), "duration: ")[1:] {
		name := regexp.MustCompile(`-- name: (\w+)`).FindStringSubmatch(plan)
		if name == nil {
			continue // of the test, or the driver
		}
		names[name[1]] = true
		require.NotRegexp(t, grow, plan)
		require.NotContains(t, plan, "JIT:", "compiling it takes longer than carrying it out")
	}
	for _, name := range []string{"ListRuns", "RunCards", "GetRun", "Executions", "Findings", "Artifacts", "Events", "Feed", "Checks"} {
		require.Contains(t, names, name, "it was asked, and explained")
	}
	t.Logf("%d different queries of %d paths", len(names), len(paths))
}

// explainAll fills the tables that the fill leaves empty, and lets the server
// log how it carries out each statement of new connections.
func explainAll(t *testing.T, url string) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	require.NoError(t, err)
	defer func() { require.NoError(t, conn.Close(t.Context())) }()
	if _, err := conn.Exec(t.Context(), "LOAD 'auto_explain'"); err != nil {
		t.Skipf("this PostgreSQL has no auto_explain (package postgresql-contrib): %v", err)
	}
	for _, sql := range []string{
		`INSERT INTO orchestrator_checks (execution_id, check_id, category, ok, result, summary, started_at, finished_at)
			SELECT id, 'c', 'test', true, '{}', '{}', now(), now() FROM orchestrator_executions`,
		"INSERT INTO orchestrator_artifacts (run_id, execution_id, name, path, type, size, hash) SELECT run_id, id, id::text, 'p', 'log', 1, 'h' FROM orchestrator_executions",
		"INSERT INTO orchestrator_transcripts (execution_id, turn, position, role, content) SELECT id, 0, n, 'user', '{}' FROM orchestrator_executions, generate_series(0, 3) n",
		`INSERT INTO orchestrator_tool_calls (execution_id, turn, call_index, tool, ok, outcome, started_at, finished_at)
			SELECT id, 1, n, 'read_file', true, '{}', now(), now() FROM orchestrator_executions, generate_series(0, 3) n`,
		"ANALYZE",
		"ALTER DATABASE plans SET jit_above_cost = 0", // whoever lets statements be compiled shows it
		"ALTER DATABASE plans SET session_preload_libraries = 'auto_explain'",
		"ALTER DATABASE plans SET auto_explain.log_min_duration = 0",
		"ALTER DATABASE plans SET auto_explain.log_level = 'log'",
	} {
		_, err := conn.Exec(t.Context(), sql)
		require.NoError(t, err, sql)
	}
}
