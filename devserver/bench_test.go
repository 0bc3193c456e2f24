package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/client"
)

// BenchmarkTwelveActivities measures a workflow of 12 activities one after the
// other, single and 20 at once, on each store.
func BenchmarkTwelveActivities(b *testing.B) {
	stores := []struct {
		name string
		args func(b *testing.B) []string
	}{
		{"memory", func(*testing.B) []string { return nil }},
		{"sqlite", func(b *testing.B) []string { return []string{"--db-filename", filepath.Join(b.TempDir(), "t.db")} }},
		{"postgres", func(b *testing.B) []string { return []string{"--postgres", startPostgres(b).url} }},
		{"postgres-fsync-off", func(b *testing.B) []string { return []string{"--postgres", startPostgres(b, "fsync=off").url} }},
		{"postgres-commit-off", func(b *testing.B) []string {
			return []string{"--postgres", startPostgres(b).url + "&synchronous_commit=off"}
		}},
	}
	for _, store := range stores {
		b.Run(store.name, func(b *testing.B) {
			p := startServer(b, append([]string{"--headless"}, store.args(b)...)...)
			c := p.dial(b, defaultNamespace)
			work(b, c)
			sequences(b, c, 3, "warm") // sticky queues, connections, caches

			var single []time.Duration
			for i := range 20 {
				begin := time.Now()
				sequences(b, c, 1, fmt.Sprint("single", i))
				single = append(single, time.Since(begin))
			}
			slices.Sort(single)
			var wall []time.Duration
			for i := range 3 {
				begin := time.Now()
				sequences(b, c, 20, fmt.Sprint("wall", i))
				wall = append(wall, time.Since(begin))
			}
			slices.Sort(wall)
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(residentMegabytes(p.PID), "MB-resident")
			b.ReportMetric(float64(single[len(single)/2].Microseconds())/1000, "ms/run")
			b.ReportMetric(float64(wall[len(wall)/2].Microseconds())/1000, "ms/20-at-once")
		})
	}
}

// residentMegabytes is 0 where the system has no /proc.
func residentMegabytes(pid int) float64 {
	status, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	var kilobytes float64
	if i := strings.Index(string(status), "VmRSS:"); i >= 0 {
		_, _ = fmt.Sscan(string(status[i+len("VmRSS:"):]), &kilobytes)
	}
	return kilobytes / 1024
}

func sequences(t testing.TB, c client.Client, n int, id string) {
	t.Helper()
	ctx := testContext(t)
	var runs []client.WorkflowRun
	for i := range n {
		run, err := c.ExecuteWorkflow(ctx, client.StartWorkflowOptions{TaskQueue: taskQueue, ID: fmt.Sprintf("%s-%d", id, i)}, sequence, 12)
		require.NoError(t, err)
		runs = append(runs, run)
	}
	for _, run := range runs {
		var last int
		require.NoError(t, run.Get(ctx, &last))
		require.Equal(t, 12, last)
	}
}
