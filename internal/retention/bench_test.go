package retention_test

import (
	"context"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/internal/artifact"
	"github.com/rocketgpt/orchestrator/internal/retention"
	"github.com/rocketgpt/orchestrator/internal/storetest"
)

// fill creates runs that ended an hour apart, the newest last, with ten files each: one that all runs
// share, and nine of their own. Every tenth run is a fork, every hundredth is on hold, and every
// thousandth has not ended.
func fill(b *testing.B, url string, runs int) {
	b.Helper()
	storetest.Query(b, url, func(ctx context.Context, conn *pgx.Conn) {
		for _, sql := range []string{
			`INSERT INTO orchestrator_runs (project, goal_title, repo, settings, status, created_at, finished_at)
			 SELECT 'p', 't', 'r', CASE WHEN n % 10 = 0 AND n > 10 THEN jsonb_build_object('fork', jsonb_build_object('run_id', n - 5)) ELSE '{}' END,
			        CASE WHEN n % 1000 = 0 THEN 'paused' ELSE 'done' END,
			        now() - make_interval(hours => $1 - n + 1), CASE WHEN n % 1000 <> 0 THEN now() - make_interval(hours => $1 - n) END
			 FROM generate_series(1, $1) n`,
			`INSERT INTO orchestrator_holds (run_id, reason) SELECT n, 'bench' FROM generate_series(100, $1, 100) n`,
			`INSERT INTO orchestrator_artifacts (run_id, name, path, type, size, hash, created_at)
			 SELECT n, 'file ' || f, 'p', CASE WHEN f < 4 THEN 'log' ELSE 'file' END, 1000,
			        'sha256:' || encode(sha256(convert_to(CASE WHEN f = 0 THEN 'shared' ELSE n || '/' || f END, 'UTF8')), 'hex'),
			        now() - make_interval(hours => $1 - n)
			 FROM generate_series(1, $1) n, generate_series(0, 9) f`,
		} {
			_, err := conn.Exec(ctx, sql, runs)
			require.NoError(b, err)
		}
		_, err := conn.Exec(ctx, "ANALYZE")
		require.NoError(b, err)
	})
}

// BenchmarkCleanUpOfManyRuns measures the clean-up of half of 100,000 runs with 1,000,000 files, first
// as a dry run, then by age, then one that finds nothing more to delete. The store has the contents of
// the oldest runs.
func BenchmarkCleanUpOfManyRuns(b *testing.B) {
	const runs, contents = 100_000, 20_000
	for b.Loop() {
		url := storetest.URL(b)
		fill(b, url, runs)
		st := storetest.Open(b, url)
		blobs, err := artifact.Open(b.Context(), "mem://", "")
		require.NoError(b, err)
		for n := range contents {
			_, err := blobs.Put(b.Context(), fmt.Appendf(nil, "%d/%d", n/9+1, n%9+1))
			require.NoError(b, err)
		}
		cleaner := retention.New(st, blobs, slog.New(slog.DiscardHandler))
		policy := retention.Policy{MaxAge: runs / 2 * time.Hour, LogAge: runs / 4 * time.Hour, MaxSize: 1 << 40, Blobs: true}
		for _, step := range []struct {
			name string
			retention.Request
		}{
			{"dry-run-s", retention.Request{Policy: policy, DryRun: true}},
			{"clean-s", retention.Request{Policy: policy, Origin: retention.OriginPerson}},
			{"again-s", retention.Request{Policy: policy, Origin: retention.OriginPerson}},
		} {
			began := time.Now()
			report, err := cleaner.Clean(b.Context(), step.Request)
			require.NoError(b, err)
			b.ReportMetric(time.Since(began).Seconds(), step.name)
			b.Logf("%s: %d files, %d logs", step.name, report.Files.Count, report.Logs.Count)
		}
		require.NoError(b, blobs.Close())
	}
}
