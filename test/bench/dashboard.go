package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/rocketgpt/orchestrator/internal/artifact"
	"github.com/rocketgpt/orchestrator/internal/pgcluster"
	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/server/middleware"
	"github.com/rocketgpt/orchestrator/server/ui"
	"github.com/rocketgpt/orchestrator/test/showcase"
)

const (
	pageAsks    = 60 // of each page
	pageWarm    = 5
	openStreams = 500
	liveEvents  = 100                    // number of events whose latency is measured
	busyEvery   = 10 * time.Millisecond  // between events of other runs: 100 per second
	idleTime    = 12 * time.Second       // period over which the cost of open streams is measured
	aimPage     = 50 * time.Millisecond  // p95 of the list and of a run
	aimLive     = 250 * time.Millisecond // p95, to the browser
	aimStreams  = 100                    // MB more for all of them
)

// dashboard has the cost of pages, lists and streams on a database with a year of runs.
type dashboard struct {
	Runs    int          `json:"runs"`
	Events  int          `json:"events"`
	Pages   []pageTimes  `json:"pages"`
	Live    []liveTimes  `json:"live"`
	Streams *streamCosts `json:"streams"`
}

type pageTimes struct {
	Path  string  `json:"path"`
	Bytes int64   `json:"bytes"`
	P50   float64 `json:"p50_ms"`
	P95   float64 `json:"p95_ms"`
	Ratio float64 `json:"ratio"` // of the median to that of /healthz
}

type liveTimes struct {
	What string  `json:"what"`
	P50  float64 `json:"p50_ms"`
	P95  float64 `json:"p95_ms"`
}

type streamCosts struct {
	Streams int     `json:"streams"`
	MB      int64   `json:"mb"`           // increase in resident memory
	CPU     float64 `json:"idle_cpu_pct"` // of one core while nothing happens
	Queries float64 `json:"idle_queries_per_second"`
	All     float64 `json:"all_have_an_event_ms"`
}

// servedDashboard is a server on a filled database, in a separate process.
type servedDashboard struct {
	url string
	pid int
}

// measureDashboard fills a database and measures a server on it.
func measureDashboard(ctx context.Context, say func(string, ...any)) (d *dashboard, err error) {
	dir, err := os.MkdirTemp("", "rgpt-bench-dashboard-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	if err := os.Chmod(dir, 0o755); err != nil { //nolint:gosec // PostgreSQL may run as another user, who must be able to traverse it
		return nil, err
	}
	cluster, err := pgcluster.Start(ctx, pgcluster.Options{Dir: filepath.Join(dir, "postgres"), Log: filepath.Join(dir, "log"), Volatile: true, Settings: map[string]string{"max_wal_size": "4GB"}})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, cluster.Stop(context.WithoutCancel(ctx))) }()
	say("Filling a database with %d runs and %d events", showcase.ScaleRuns, showcase.ScaleEvents)
	if err := cluster.CreateDatabase(ctx, "scale"); err != nil {
		return nil, err
	}
	url := cluster.URL("scale")
	if err := store.Migrate(ctx, url); err != nil {
		return nil, err
	}
	if err := showcase.Fill(ctx, showcase.Options{Kind: showcase.Scale, Database: url}); err != nil {
		return nil, err
	}
	s, stop, err := startServed(ctx, url)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, stop()) }()
	d = &dashboard{Runs: showcase.ScaleRuns, Events: showcase.ScaleEvents}
	say("Pages and lists")
	if d.Pages, err = s.pages(ctx); err != nil {
		return nil, err
	}
	say("Streams")
	return d, s.live(ctx, url, d)
}

// startServed starts this program as a server of the dashboard (serveDashboard).
func startServed(ctx context.Context, database string) (*servedDashboard, func() error, error) {
	address, pid, stop, err := startSelf(ctx, "-serve-dashboard", database)
	if err != nil {
		return nil, nil, err
	}
	return &servedDashboard{url: "http://" + address, pid: pid}, stop, nil
}

// startSelf starts this program as a server, which prints its address and exits at the end of its
// input.
func startSelf(ctx context.Context, args ...string) (address string, pid int, stop func() error, err error) {
	self, err := os.Executable()
	if err != nil {
		return "", 0, nil, err
	}
	cmd := exec.CommandContext(ctx, self, args...)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return "", 0, nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return "", 0, nil, err
	}
	if err := cmd.Start(); err != nil {
		return "", 0, nil, err
	}
	stop = func() error { return errors.Join(in.Close(), cmd.Wait()) }
	address, err = bufio.NewReader(out).ReadString('\n')
	if err != nil {
		return "", 0, nil, errors.Join(fmt.Errorf("read the address of the server started by %s: %w", args[0], err), stop())
	}
	return strings.TrimSpace(address), cmd.Process.Pid, stop, nil
}

// serveDashboard serves a filled database until its input ends.
func serveDashboard(ctx context.Context, database string) error {
	dir, err := os.MkdirTemp("", "rgpt-bench-artifacts-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	blobs, err := artifact.Open(ctx, "", dir)
	if err != nil {
		return err
	}
	defer blobs.Close()
	handler, done, err := showcase.Handler(ctx, database, blobs, slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError})))
	if err != nil {
		return err
	}
	defer done()
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	srv := &http.Server{Handler: handler, ReadHeaderTimeout: time.Minute, ConnContext: middleware.Connection}
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		handler.Stop(ctx)
		_ = srv.Close()
	}()
	fmt.Println(l.Addr())
	if err := srv.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// pagePaths returns the paths to request; a bare round trip precedes each.
func pagePaths() []string {
	const run = showcase.ScaleRuns - 500 // one that is done
	paths := []string{"/runs", "/runs?state=failed", "/runs?state=running", "/runs?text=login", "/runs?text=nothing+is+called+so"}
	for _, tab := range ui.Tabs {
		paths = append(paths, ui.RunHref(run, tab.Name))
	}
	return append(paths, "/agents", "/settings/models", "/api/runs", fmt.Sprintf("/api/runs/%d", run), fmt.Sprintf("/api/runs/%d/events", run))
}

func (s *servedDashboard) pages(ctx context.Context) ([]pageTimes, error) {
	const bare = "/healthz"
	var rows []pageTimes
	var trips []time.Duration
	var small int64
	for _, path := range pagePaths() {
		row := pageTimes{Path: path}
		var times []time.Duration
		for n := range pageWarm + pageAsks {
			trip, _, size, err := s.ask(ctx, bare)
			if err != nil {
				return nil, err
			}
			small = size
			took, status, bytes, err := s.ask(ctx, path)
			if err != nil {
				return nil, err
			}
			if status == http.StatusNotFound {
				break // a tab without a page
			}
			if status != http.StatusOK {
				return nil, fmt.Errorf("%s responds with status %d", path, status)
			}
			if row.Bytes = bytes; n >= pageWarm {
				times, trips = append(times, took), append(trips, trip)
			}
		}
		if len(times) == 0 {
			continue
		}
		row.P50, row.P95 = quantile(times, 0.5, milli), quantile(times, 0.95, milli)
		rows = append(rows, row)
	}
	health := pageTimes{Path: bare, Bytes: small, P50: quantile(trips, 0.5, milli), P95: quantile(trips, 0.95, milli)}
	rows = append([]pageTimes{health}, rows...)
	for i := range rows {
		rows[i].Ratio = rows[i].P50 / health.P50
	}
	return rows, nil
}

// ask requests a page and reads all of it.
func (s *servedDashboard) ask(ctx context.Context, path string) (took time.Duration, status int, bytes int64, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.url+path, http.NoBody)
	if err != nil {
		return 0, 0, 0, err
	}
	begun := time.Now()
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, 0, 0, err
	}
	defer resp.Body.Close()
	bytes, err = io.Copy(io.Discard, resp.Body)
	return time.Since(begun), resp.StatusCode, bytes, err
}

func milli(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// live measures streams: the latency of an event, on its own and among others, and the cost of many
// streams.
func (s *servedDashboard) live(ctx context.Context, database string, d *dashboard) error {
	before := int64(memory(s.pid).VmRSS >> 20)
	watched := int64(showcase.ScaleRuns - 600)
	for _, many := range []bool{false, true} {
		name := "alone"
		var seen *atomic.Int64
		if many {
			name = fmt.Sprintf("%d streams open", openStreams)
			streams, cancel := context.WithCancel(ctx)
			defer cancel()
			var err error
			if seen, err = s.openMany(streams); err != nil {
				return err
			}
			if d.Streams, err = s.costs(ctx, database, before, seen); err != nil {
				return err
			}
		}
		for _, busy := range []bool{false, true} {
			what := name
			if busy {
				what += ", 100 events a second"
			}
			times, err := s.latencies(ctx, database, watched, busy)
			if err != nil {
				return err
			}
			d.Live = append(d.Live, liveTimes{what, quantile(times, 0.5, milli), quantile(times, 0.95, milli)})
		}
	}
	return nil
}

// latencies returns the times from the commit of an event to its arrival at a client that follows
// all runs.
func (s *servedDashboard) latencies(ctx context.Context, database string, run int64, busy bool) ([]time.Duration, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	arrived := make(chan time.Time, 1)
	ready := make(chan error, 1)
	go s.stream(ctx, "/api/stream", ready, func(line string) {
		if strings.Contains(line, fmt.Sprintf(`"run_id":%d,`, run)) || strings.Contains(line, fmt.Sprintf(`"runId":%d,`, run)) {
			select {
			case arrived <- time.Now():
			default:
			}
		}
	})
	if err := <-ready; err != nil {
		return nil, err
	}
	conn, err := pgx.Connect(ctx, database)
	if err != nil {
		return nil, err
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	var others sync.WaitGroup
	defer others.Wait()
	defer cancel()
	if busy {
		if err := s.generateEvents(ctx, database, &others); err != nil {
			return nil, err
		}
	}
	var times []time.Duration
	for range liveEvents {
		at, err := writeEvent(ctx, conn, run)
		if err != nil {
			return nil, err
		}
		select {
		case then := <-arrived:
			times = append(times, then.Sub(at))
		case <-time.After(30 * time.Second):
			return nil, fmt.Errorf("an event of run %d did not reach the stream within 30 s", run)
		}
	}
	return times, nil
}

// generateEvents writes events of other runs.
func (s *servedDashboard) generateEvents(ctx context.Context, database string, others *sync.WaitGroup) error {
	conn, err := pgx.Connect(ctx, database)
	if err != nil {
		return err
	}
	others.Go(func() {
		defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
		tick := time.NewTicker(busyEvery)
		defer tick.Stop()
		for run := int64(1); ; run = run%100 + 1 {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			if _, err := writeEvent(ctx, conn, run); err != nil {
				return
			}
		}
	})
	return nil
}

// writeEvent adds an event to a run, and returns the time of the commit request.
func writeEvent(ctx context.Context, conn *pgx.Conn, run int64) (at time.Time, err error) {
	err = pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		var seq int64
		if err := tx.QueryRow(ctx, "UPDATE orchestrator_runs SET event_seq = event_seq + 1 WHERE id = $1 RETURNING event_seq", run).Scan(&seq); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, `INSERT INTO orchestrator_events (run_id, seq, event_type, payload) VALUES ($1, $2, 'run.updated', '{"message":"bench"}')`, run, seq); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, "SELECT pg_notify('rgpt_events', $1)", fmt.Sprintf("%d:%d", run, seq))
		at = time.Now()
		return err
	})
	return at, err
}

// stream follows a stream until the context is done, and sends nil to ready once the stream is
// open.
func (s *servedDashboard) stream(ctx context.Context, path string, ready chan<- error, data func(string)) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.url+path, http.NoBody)
	if err != nil {
		ready <- err
		return
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		ready <- err
		return
	}
	defer resp.Body.Close()
	lines := bufio.NewReader(resp.Body)
	_, err = lines.ReadString('\n') // the first line, which is not an event
	if resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s responds with status %d", path, resp.StatusCode)
	}
	ready <- err
	for err == nil {
		var line string
		if line, err = lines.ReadString('\n'); err == nil && strings.HasPrefix(line, "data: ") {
			data(line)
		}
	}
}

// openMany opens streams, half of them for all runs and half for a single run from its last event
// on, and counts the events received.
func (s *servedDashboard) openMany(ctx context.Context) (*atomic.Int64, error) {
	seen := &atomic.Int64{}
	ready := make(chan error, openStreams)
	for n := range openStreams {
		path := "/api/stream"
		if n%2 == 1 {
			path = fmt.Sprintf("/api/runs/%d/stream?after=%d", n+1000, showcase.ScaleEvents/showcase.ScaleRuns)
		}
		go s.stream(ctx, path, ready, func(string) { seen.Add(1) })
	}
	for range openStreams {
		if err := <-ready; err != nil {
			return nil, err
		}
	}
	return seen, nil
}

// costs measures the idle cost of open streams, and the time until each stream has received an
// event.
func (s *servedDashboard) costs(ctx context.Context, database string, before int64, seen *atomic.Int64) (*streamCosts, error) {
	c := &streamCosts{Streams: openStreams}
	queries, err := s.awaitIdle(ctx)
	if err != nil {
		return nil, err
	}
	used, _ := cpu(s.pid)
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-time.After(idleTime):
	}
	after, _ := cpu(s.pid)
	c.CPU = 100 * (after - used) / idleTime.Seconds()
	now, err := s.queries(ctx)
	if err != nil {
		return nil, err
	}
	c.Queries = (now - queries) / idleTime.Seconds()

	conn, err := pgx.Connect(ctx, database)
	if err != nil {
		return nil, err
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	begun, from := time.Now(), seen.Load()
	for n := 1; n < openStreams; n += 2 {
		if _, err := writeEvent(ctx, conn, int64(n+1000)); err != nil {
			return nil, err
		}
	}
	const half = openStreams / 2
	want := from + half + half*half // a run's stream receives one event, a stream of all runs receives all
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for ; seen.Load() < want; <-tick.C {
		if time.Since(begun) > time.Minute {
			return nil, fmt.Errorf("only %d of %d events reached the streams within a minute", seen.Load()-from, want-from)
		}
	}
	c.All = milli(time.Since(begun))
	c.MB = int64(memory(s.pid).VmRSS>>20) - before
	return c, nil
}

// awaitIdle waits until the server has no more queries to run for new streams, and returns the
// number of its queries.
func (s *servedDashboard) awaitIdle(ctx context.Context) (float64, error) {
	const settleTime, moment = 30 * time.Second, time.Second
	last, err := s.queries(ctx)
	for begun := time.Now(); err == nil && time.Since(begun) < settleTime; {
		select {
		case <-ctx.Done():
			return last, ctx.Err()
		case <-time.After(moment):
		}
		before := last
		if last, err = s.queries(ctx); last-before < 5 {
			break
		}
	}
	return last, err
}

// queries returns the number of queries that the server has made, according to its metrics.
func (s *servedDashboard) queries(ctx context.Context) (total float64, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.url+"/metrics", http.NoBody)
	if err != nil {
		return 0, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	lines := bufio.NewScanner(resp.Body)
	for lines.Scan() {
		if strings.HasPrefix(lines.Text(), "rgpt_database_duration_seconds_count") {
			var n float64
			if _, err := fmt.Sscan(lines.Text()[strings.LastIndexByte(lines.Text(), ' ')+1:], &n); err != nil {
				return 0, err
			}
			total += n
		}
	}
	return total, lines.Err()
}

func (d *dashboard) print(out io.Writer) error {
	if d == nil {
		return nil
	}
	t := newTable(out, fmt.Sprintf("Pages and lists with %d runs and %d events, one at a time", d.Runs, d.Events), "PATH", "BYTES", "P50", "P95", "RATIO", "AIM")
	for _, p := range d.Pages {
		aim := ""
		if p.Path == "/runs" || p.Path == ui.RunHref(showcase.ScaleRuns-500, "") {
			aim = "p95 < " + aimPage.String()
		}
		t.row(p.Path, fmt.Sprint(p.Bytes), fine(p.P50), fine(p.P95), fmt.Sprintf("%.1f", p.Ratio), aim)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	t = newTable(out, "Live event, from its commit to a client of /api/stream", "WHEN", "P50", "P95", "AIM")
	for _, l := range d.Live {
		t.row(l.What, fine(l.P50), fine(l.P95), "p95 < "+aimLive.String())
	}
	if err := t.Flush(); err != nil {
		return err
	}
	t = newTable(out, "Many streams, half for all runs, half for a single run", "STREAMS", "MEMORY", "AIM", "IDLE CPU", "IDLE QUERIES/S", "250 EVENTS AT ALL AFTER")
	t.row(fmt.Sprint(d.Streams.Streams), fmt.Sprintf("%d MB", d.Streams.MB), fmt.Sprintf("< %d MB", aimStreams), fmt.Sprintf("%.2f %%", d.Streams.CPU),
		fmt.Sprintf("%.1f", d.Streams.Queries), fine(d.Streams.All))
	return t.Flush()
}

func fine(ms float64) string { return fmt.Sprintf("%.1f ms", ms) }
