package chaos

import (
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/devstack"
	"github.com/rocketgpt/orchestrator/internal/freeport"
	"github.com/rocketgpt/orchestrator/test/harness"
)

// soakEnv says for how long runs are made, such as 2h.
const soakEnv = "RGPT_SOAK"

// bound is how much something may grow: with each run, and by chance in all.
type bound struct{ perRun, chance float64 }

const (
	kib = 1 << 10
	mib = 1 << 20
)

// bounds are by what is measured; that of the process's own name comes first.
var bounds = map[string]bound{
	"memory":          {64 * kib, 48 * mib},
	"memory temporal": {256 * kib, 128 * mib}, // which fills its caches of histories
	"memory postgres": {64 * kib, 96 * mib},   // whose shared buffers (128 MB) are touched one by one
	"descriptors":     {0.02, 30},
	// Each of its processes keeps files of tables and indexes open, up to all of them.
	"descriptors postgres": {0.02, 4000},
	"processes":            {0.01, 20},
	"goroutines":           {0.05, 60},
	"disk":                 {3 * mib, 64 * mib}, // what a run leaves on purpose: rows, history, artifacts, logs
}

// TestRunsWithoutEndLeakNothing makes runs for as long as RGPT_SOAK says, two at a
// time, and looks whether memory, descriptors, goroutines or the data folder grow by
// more than a run may leave. A stack without work adds no rows.
func TestRunsWithoutEndLeakNothing(t *testing.T) {
	text := os.Getenv(soakEnv)
	if text == "" {
		t.Skipf("set %s=2h, say, to let runs be made for that long", soakEnv)
	}
	soak, err := time.ParseDuration(text)
	require.NoError(t, err, soakEnv)
	port, err := freeport.Take(t.Context())
	require.NoError(t, err)
	metrics := fmt.Sprintf("127.0.0.1:%d", port)
	s := harness.Start(t, harness.Options{Scenario: work(), Config: fmt.Sprintf("worker:\n  metrics_address: %s\n", metrics)})
	d := &faultTrial{Stack: s, db: s.Store(t), repo: repository(t, filepath.Join(s.Dir, "repo"))}
	m := &measurer{faultTrial: d, metrics: map[string]string{"worker": "http://" + metrics, "server": s.State(t).Server}}

	warm := time.Now().Add(soak / 5)
	end := time.Now().Add(soak)
	var working []int64
	runs, at := 0, []float64{}
	series := map[string][]float64{}
	for next := time.Now(); time.Now().Before(end); {
		for len(working) < 2 {
			working = append(working, d.run(t, fmt.Sprintf("Soak, run %d", runs+len(working)+1)))
		}
		id := working[0]
		run := d.AwaitEnd(t, d.db, id, 5*time.Minute)
		require.Equal(t, contract.StatusDone, run.Status, "run %d: %v", id, run.Failure)
		working, runs = working[1:], runs+1
		if runs%10 == 1 { // all of them would be most of the work
			harness.CheckInvariants(t, s, id)
		}
		if time.Now().After(warm) && time.Now().After(next) {
			next = time.Now().Add(soak / 500)
			at = append(at, float64(runs))
			for name, value := range m.now(t) {
				series[name] = append(series[name], value)
			}
		}
	}
	for _, id := range working {
		d.AwaitEnd(t, d.db, id, 5*time.Minute)
	}
	require.GreaterOrEqual(t, len(at), 5, "%s is too short to see anything grow", soak)
	for _, name := range slices.Sorted(maps.Keys(series)) {
		require.Len(t, series[name], len(at), "%s was measured each time", name)
		what, _, _ := strings.Cut(name, " ")
		most, own := bounds[name]
		if !own {
			most = bounds[what]
		}
		over := at[len(at)-1] - at[0]
		grown := slope(at, series[name]) * over
		t.Logf("%-22s %12.0f at first, %12.0f at last, grew by %12.0f in %.0f runs", name, series[name][0], series[name][len(at)-1], grown, over)
		if grown > most.perRun*over+most.chance {
			t.Errorf("%s grew by %.0f in %.0f runs; at most %.0f are fine", name, grown, over, most.perRun*over+most.chance)
		}
	}
	before := m.rows(t)
	<-time.After(max(soak/20, 15*time.Second)) // without work
	require.Equal(t, before, m.rows(t), "a stack without work adds no rows and removes none")
}

// slope is that of the line that fits best.
func slope(x, y []float64) float64 {
	var sx, sy, sxx, sxy float64
	for i := range x {
		sx, sy, sxx, sxy = sx+x[i], sy+y[i], sxx+x[i]*x[i], sxy+x[i]*y[i]
	}
	n := float64(len(x))
	if n*sxx == sx*sx {
		return 0
	}
	return (n*sxy - sx*sy) / (n*sxx - sx*sx)
}

// measurer measures a stack from outside.
type measurer struct {
	*faultTrial
	metrics map[string]string // by process: where it serves them
}

// now returns what may leak, by name.
func (m *measurer) now(t *testing.T) map[string]float64 {
	t.Helper()
	out := map[string]float64{"disk": m.disk(t)}
	state := m.State(t)
	for _, role := range devstack.Roles() {
		p, _ := state.Process(role)
		memory, descriptors := 0.0, 0.0
		tree := harness.Tree(p.PID)
		for _, pid := range tree {
			memory += private(pid)
			open, _ := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid)) // it may be gone
			descriptors += float64(len(open))
		}
		out["memory "+string(role)], out["descriptors "+string(role)], out["processes "+string(role)] = memory, descriptors, float64(len(tree))
	}
	for name, address := range m.metrics {
		out["goroutines "+name] = goroutines(t, address+"/metrics")
	}
	return out
}

// private is the memory that a process has for itself, with its share of what is shared.
func private(pid int) float64 {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", pid))
	_, rest, _ := strings.Cut(string(text), "\nPss:")
	line, _, _ := strings.Cut(rest, "\n")
	n, _ := strconv.ParseFloat(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(line), "kB")), 64)
	return n * kib
}

func goroutines(t *testing.T, address string) float64 {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address, nil)
	require.NoError(t, err)
	response, err := http.DefaultClient.Do(request)
	require.NoError(t, err)
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	_, rest, found := strings.Cut(string(text), "\ngo_goroutines ")
	require.True(t, found, "%s tells of its goroutines", address)
	line, _, _ := strings.Cut(rest, "\n")
	n, err := strconv.ParseFloat(line, 64)
	require.NoError(t, err)
	return n
}

func (m *measurer) disk(t *testing.T) (bytes float64) {
	t.Helper()
	require.NoError(t, filepath.WalkDir(m.DataDir, func(_ string, e fs.DirEntry, err error) error {
		if err != nil {
			return nil // it was removed meanwhile
		}
		if info, err := e.Info(); err == nil && e.Type().IsRegular() {
			bytes += float64(info.Size())
		}
		return nil
	}))
	return bytes
}

// rows counts those of each table.
func (m *measurer) rows(t *testing.T) map[string]int64 {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), m.State(t).Database)
	require.NoError(t, err)
	defer conn.Close(t.Context())
	found, err := conn.Query(t.Context(), `SELECT table_name::text FROM information_schema.tables WHERE table_schema = 'public' AND table_name LIKE 'orchestrator\_%'`)
	require.NoError(t, err)
	tables, err := pgx.CollectRows(found, pgx.RowTo[string])
	require.NoError(t, err)
	out := map[string]int64{}
	for _, table := range tables {
		var n int64
		require.NoError(t, conn.QueryRow(t.Context(), "SELECT count(*) FROM "+pgx.Identifier{table}.Sanitize()).Scan(&n))
		out[table] = n
	}
	return out
}
