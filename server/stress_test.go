package server_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/jackc/pgx/v5"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/await"
	"github.com/rocketgpt/orchestrator/internal/pgcluster"
	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/internal/store/feed"
	"github.com/rocketgpt/orchestrator/internal/store/views"
	"github.com/rocketgpt/orchestrator/internal/storetest"
	"github.com/rocketgpt/orchestrator/internal/telemetry"
	"github.com/rocketgpt/orchestrator/server"
	"github.com/rocketgpt/orchestrator/server/middleware"
)

// streamLoad is how much happens to the readers of streams.
type streamLoad struct{ runs, events, breaks int }

// streamLoadOf is a small one, or with RGPT_STRESS=full the full one.
func streamLoadOf() streamLoad {
	if os.Getenv("RGPT_STRESS") == "full" {
		return streamLoad{runs: 50, events: 20_000, breaks: 200}
	}
	return streamLoad{runs: 10, events: 2000, breaks: 60}
}

// cluster is the test's own database server, which it can restart.
type cluster struct {
	options pgcluster.Options
	*pgcluster.Cluster
}

func startCluster(tb testing.TB) *cluster {
	tb.Helper()
	dir, err := os.MkdirTemp("", "rgpt-streams-") //nolint:usetesting // the server may run as another user, who passes through
	require.NoError(tb, err)
	require.NoError(tb, os.Chmod(dir, 0o755))
	c := &cluster{options: pgcluster.Options{Dir: filepath.Join(dir, "data"), Log: filepath.Join(dir, "log"), Volatile: true}}
	tb.Cleanup(func() { require.NoError(tb, os.RemoveAll(dir)) })
	c.Cluster, err = pgcluster.Start(tb.Context(), c.options)
	require.NoError(tb, err)
	tb.Cleanup(func() { require.NoError(tb, c.Stop(context.WithoutCancel(tb.Context()))) })
	c.options.Port = c.Port
	require.NoError(tb, c.CreateDatabase(tb.Context(), "streams"))
	require.NoError(tb, store.Migrate(tb.Context(), c.URL("streams")))
	return c
}

func (c *cluster) restart(ctx context.Context) error {
	if err := c.Stop(ctx); err != nil {
		return err
	}
	again, err := pgcluster.Start(ctx, c.options)
	if err == nil {
		c.Cluster = again
	}
	return err
}

// emit adds events to a run until it has so many, a few in each transaction, which ends
// at an odd moment; it continues after any failure.
func emit(ctx context.Context, url string, run, total int64, odd *rand.Rand, done *atomic.Int64) error {
	var conn *pgx.Conn
	defer func() {
		if conn != nil {
			_ = conn.Close(context.WithoutCancel(ctx))
		}
	}()
	for last := int64(0); last < total; {
		if conn == nil || conn.IsClosed() {
			var err error
			if conn, err = pgx.Connect(ctx, url); err != nil {
				conn = nil
				if err := pause(ctx, 20*time.Millisecond); err != nil {
					return err
				}
				continue
			}
		}
		now, err := burst(ctx, conn, run, total, odd)
		if err != nil { // it may have been committed anyway: the row shows it
			_ = conn.Close(ctx)
			if ctx.Err() != nil {
				return ctx.Err()
			}
			continue
		}
		done.Add(now - last)
		last = now
	}
	return nil
}

func burst(ctx context.Context, conn *pgx.Conn, run, total int64, odd *rand.Rand) (last int64, err error) {
	err = pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		if err := tx.QueryRow(ctx, "SELECT event_seq FROM orchestrator_runs WHERE id = $1 FOR UPDATE", run).Scan(&last); err != nil {
			return err
		}
		for range min(1+odd.Int64N(8), total-last) {
			last++
			if _, err := tx.Exec(ctx, "INSERT INTO orchestrator_events (run_id, seq, event_type, payload) VALUES ($1, $2, 'run.updated', jsonb_build_object('text', repeat('ä ', $3)))",
				run, last, odd.IntN(300)); err != nil {
				return err
			}
		}
		_, err := tx.Exec(ctx, "UPDATE orchestrator_runs SET event_seq = $2 WHERE id = $1", run, last)
		if err == nil {
			_, err = tx.Exec(ctx, "SELECT pg_notify('rgpt_events', $1 || ':' || $2), pg_sleep($3)", strconv.FormatInt(run, 10), strconv.FormatInt(last, 10), odd.Float64()/100)
		}
		return err
	})
	return last, err
}

func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}

// cut is a connection that breaks after so many bytes were read.
type cut struct {
	net.Conn
	left int
}

var errCut = errors.New("the connection was cut")

func (c *cut) Read(b []byte) (int, error) {
	if c.left <= 0 {
		_ = c.Close()
		return 0, errCut
	}
	n, err := c.Conn.Read(b[:min(len(b), c.left)])
	c.left -= n
	return n, err
}

// reader follows a stream over connections that break, and checks that nothing is lost
// or repeated.
type reader struct {
	path   string // of server-sent events, or /ws
	want   map[int64]int64
	seen   map[int64]int64
	last   string
	odd    *rand.Rand
	breaks int
	most   int // bytes before a break
	made   int // breaks
}

// follow reads until everything has arrived.
func (r *reader) follow(ctx context.Context, url string) error {
	for !r.complete() {
		left := 1 << 40
		if r.made < r.breaks {
			left = r.odd.IntN(r.most)
		}
		client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			conn, err := (&net.Dialer{}).DialContext(ctx, network, address)
			return &cut{conn, left}, err
		}}}
		err := r.connect(ctx, client, url)
		if ctx.Err() != nil {
			return fmt.Errorf("%s: %d of %d runs complete, last id %s: %w", r.path, r.whole(), len(r.want), r.last, ctx.Err())
		}
		var wrong violation
		if errors.As(err, &wrong) {
			return err
		}
		if errors.Is(err, errCut) {
			r.made++
		} else if err := pause(ctx, 10*time.Millisecond); err != nil { // as a browser does, if sooner
			return err
		}
	}
	return nil
}

func (r *reader) whole() (n int) {
	for run, want := range r.want {
		if r.seen[run] == want {
			n++
		}
	}
	return n
}

func (r *reader) complete() bool { return r.whole() == len(r.want) }

// violation is a promise that was broken.
type violation string

func (v violation) Error() string { return string(v) }

func (r *reader) see(id string, e contract.Event) error {
	if e.Seq != r.seen[e.RunID]+1 {
		return violation(fmt.Sprintf("%s: event %d of run %d came after %d; last id %s, this one %s", r.path, e.Seq, e.RunID, r.seen[e.RunID], r.last, id))
	}
	r.seen[e.RunID], r.last = e.Seq, id
	return nil
}

func (r *reader) connect(ctx context.Context, client *http.Client, url string) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if strings.HasPrefix(r.path, "/ws") {
		return r.socket(ctx, client, url)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url+r.path, http.NoBody)
	if err != nil {
		return err
	}
	req.Header.Set("Last-Event-ID", r.last)
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("status %d", resp.StatusCode)
	}
	lines := bufio.NewReader(resp.Body)
	var id, data string
	for !r.complete() {
		line, err := lines.ReadString('\n')
		if err != nil {
			return err // an incomplete event does not count
		}
		line = strings.TrimSuffix(line, "\n")
		if text, ok := strings.CutPrefix(line, "id: "); ok {
			id = text
		} else if text, ok := strings.CutPrefix(line, "data: "); ok {
			data = text
		} else if line == "" && data != "" {
			var e contract.Event
			if err := json.Unmarshal([]byte(data), &e); err != nil {
				return violation("this is no event: " + data)
			}
			if err := r.see(id, e); err != nil {
				return err
			}
			data = ""
		}
	}
	return nil
}

func (r *reader) socket(ctx context.Context, client *http.Client, url string) error {
	conn, _, err := websocket.Dial(ctx, url+r.path+"after="+r.last, &websocket.DialOptions{HTTPClient: client}) //nolint:bodyclose // it has none
	if err != nil {
		return err
	}
	defer func() { _ = conn.CloseNow() }()
	conn.SetReadLimit(1 << 20)
	for !r.complete() {
		_, raw, err := conn.Read(ctx)
		if err != nil {
			return err
		}
		var m struct {
			ID    string
			Event contract.Event
		}
		if err := json.Unmarshal(raw, &m); err != nil {
			return violation("this is no event: " + string(raw))
		}
		if err := r.see(m.ID, m.Event); err != nil {
			return err
		}
	}
	return nil
}

// serve serves as rgpt server does.
func serve(tb testing.TB, h *server.Handler) *httptest.Server {
	tb.Helper()
	site := httptest.NewUnstartedServer(h)
	site.Config.ConnContext = middleware.Connection
	site.Start()
	tb.Cleanup(site.Close)
	return site
}

func TestReadersWhoseConnectionsBreakSeeEachEventOnceAndInOrderThoughTheDatabaseRestarts(t *testing.T) {
	t.Parallel()
	const seed = 20
	much := streamLoadOf()
	c := startCluster(t)
	db, err := store.Open(t.Context(), c.URL("streams"), store.Options{MaxConns: 8})
	require.NoError(t, err)
	t.Cleanup(db.Close)
	site := serve(t, server.New(server.Options{Store: db, Views: views.New(db), Feed: storetest.Feed(t, db, feed.Options{}), Log: slog.New(slog.DiscardHandler)}))

	want := map[int64]int64{}
	var runs []int64
	for range much.runs {
		run, _, err := db.CreateRun(t.Context(), store.NewRun{Project: "p", GoalTitle: "g"})
		require.NoError(t, err)
		runs = append(runs, run.ID)
		want[run.ID] = int64(1 + much.events/much.runs)
	}
	one := map[int64]int64{runs[0]: want[runs[0]]}
	ctx, cancel := context.WithTimeout(t.Context(), 8*time.Minute)
	defer cancel()
	g, ctx := errgroup.WithContext(ctx)
	var readers []*reader
	for i, r := range []*reader{
		{path: "/api/stream", want: want, last: "0-0", most: 2 * 600 * much.events / much.breaks},
		{path: "/ws?", want: want, last: "0-0", most: 2 * 600 * much.events / much.breaks},
		{path: fmt.Sprintf("/api/runs/%d/stream", runs[0]), want: one, last: "0", most: 1000 + 600*much.events/much.runs/much.breaks},
		{path: fmt.Sprintf("/ws?run=%d&", runs[0]), want: one, last: "0", most: 1000 + 600*much.events/much.runs/much.breaks},
	} {
		r.seen, r.odd, r.breaks = map[int64]int64{}, rand.New(rand.NewPCG(seed, uint64(i))), much.breaks
		readers = append(readers, r)
		g.Go(func() error { return r.follow(ctx, site.URL) })
	}
	var done atomic.Int64
	for i, run := range runs {
		g.Go(func() error {
			return emit(ctx, c.URL("streams"), run, want[run], rand.New(rand.NewPCG(seed, uint64(100+i))), &done)
		})
	}
	g.Go(func() error {
		for done.Load() < int64(much.events/2) {
			if err := pause(ctx, 5*time.Millisecond); err != nil {
				return err
			}
		}
		return c.restart(ctx)
	})
	require.NoError(t, g.Wait())
	for _, r := range readers {
		require.Equal(t, r.want, r.seen, r.path)
		require.Positive(t, r.made, r.path)
		t.Logf("%s: %d connections were cut", r.path, r.made)
	}
}

// ask opens a stream and reads nothing from it except what the system reads by itself.
func ask(tb testing.TB, site *httptest.Server, path string, small bool) net.Conn {
	tb.Helper()
	conn, err := net.Dial("tcp", site.Listener.Addr().String())
	require.NoError(tb, err)
	tb.Cleanup(func() { _ = conn.Close() })
	if small {
		require.NoError(tb, conn.(*net.TCPConn).SetReadBuffer(16<<10))
	}
	_, err = fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: localhost\r\n\r\n", path)
	require.NoError(tb, err)
	return conn
}

// large gives a run events of 100 kB.
func (b *fixture) large(tb testing.TB, run int64, events int) {
	tb.Helper()
	for range events {
		b.record(tb, contract.Record{RunID: run, Events: []contract.EventDraft{{Type: contract.EventRunUpdated, Payload: map[string]string{"text": strings.Repeat("x", 100_000)}}}})
	}
}

// Not parallel: it measures the whole process.
func TestClientsThatTakeNothingCostLittleAndHoldUpNobody(t *testing.T) {
	skipSlowClients(t)
	b := setup(t)
	id := b.run(t, "slow")
	const small, events, stuck = 300, 500, 40
	drafts := make([]contract.EventDraft, small) // like those that make large pages
	for i := range drafts {
		drafts[i] = contract.EventDraft{Type: contract.EventRunUpdated}
	}
	b.record(t, contract.Record{RunID: id, Events: drafts})
	b.large(t, id, events)
	site := serve(t, b.handler.(*server.Handler))
	heap := func() uint64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	open := func() float64 { return testutil.ToFloat64(telemetry.StreamsOpen.WithLabelValues("sse")) }
	before, dropped, others := heap(), slowStreams(), open()
	path := fmt.Sprintf("/api/runs/%d/stream", id)
	for range stuck {
		ask(t, site, path, false)
	}
	await.Until(t, "all to be open", func() bool { return open() == others+stuck })

	resp, err := http.Get(site.URL + path)
	require.NoError(t, err)
	defer resp.Body.Close()
	lines := bufio.NewReaderSize(resp.Body, 1<<20)
	for n := 0; n < 1+small+events; {
		line, err := lines.ReadSlice('\n')
		require.NoError(t, err)
		if strings.HasPrefix(string(line[:min(len(line), 6)]), "data: ") {
			n++
		}
	}
	held := int64(heap()) - int64(before)
	t.Logf("One that reads had it all while %.0f of %d that take nothing were dropped; these hold %.1f MB of %d", slowStreams()-dropped, stuck, float64(held)/(1<<20), events/10)
	require.Less(t, held, int64(stuck<<20), "500 events of 100 kB each do not pile up")

	await.Until(t, "those who take nothing to be dropped", func() bool { return slowStreams() == dropped+stuck })
	site.CloseClientConnections()
	site.Close() // nobody writes to the log any more
	require.Equal(t, stuck, strings.Count(b.log.String(), "A stream reader was dropped"), "with the reason in the log")
	require.Contains(t, b.log.String(), "i/o timeout")
}

func TestAClientThatReadsSlowlyAndSteadilyIsKept(t *testing.T) {
	t.Parallel()
	skipSlowClients(t)
	b := setup(t)
	id := b.run(t, "slow")
	b.large(t, id, 60)
	site := serve(t, b.handler.(*server.Handler))
	dropped := slowStreams() // the other tests that count here are not parallel
	conn := ask(t, site, fmt.Sprintf("/api/runs/%d/stream", id), true)
	// 32 kB a second: less in 10 s than the buffers that systems allow can hold.
	tick := time.NewTicker(250 * time.Millisecond)
	defer tick.Stop()
	chunk := make([]byte, 8<<10)
	for begun := time.Now(); time.Since(begun) < 25*time.Second; <-tick.C {
		require.NoError(t, conn.SetReadDeadline(time.Now().Add(time.Minute)))
		_, err := io.ReadFull(conn, chunk)
		require.NoError(t, err, "after %s", time.Since(begun))
		require.LessOrEqual(t, slowStreams(), dropped, "after %s", time.Since(begun)) // what the system holds also comes from a dropped one
	}
}

// skipSlowClients skips a test that waits for the time limits of slow clients, which
// takes too long for `go test -short`.
func skipSlowClients(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("waits for the time limits of slow clients")
	}
}

// slowStreams is how many streams were dropped as slow.
func slowStreams() float64 {
	return testutil.ToFloat64(telemetry.StreamsDropped.WithLabelValues("sse", "slow"))
}

func TestAStoppingServerClosesItsStreamsAndNotifiesTheirClients(t *testing.T) {
	t.Parallel()
	b := setup(t)
	id := b.run(t, "goes on")
	handler := b.handler.(*server.Handler)
	site := serve(t, handler)
	path := fmt.Sprintf("/api/runs/%d/stream", id)
	resp, err := http.Get(site.URL + path)
	require.NoError(t, err)
	defer resp.Body.Close()
	lines := bufio.NewReader(resp.Body)
	for line := ""; !strings.HasPrefix(line, "data: "); {
		line, err = lines.ReadString('\n')
		require.NoError(t, err)
	}
	socket, _, err := websocket.Dial(t.Context(), site.URL+"/ws?run="+strconv.FormatInt(id, 10), nil) //nolint:bodyclose // it has none
	require.NoError(t, err)
	defer func() { _ = socket.CloseNow() }()
	_, _, err = socket.Read(t.Context())
	require.NoError(t, err)

	const grace = time.Minute // ends in a moment; otherwise it would last for ever
	ctx, cancel := context.WithTimeout(t.Context(), grace)
	defer cancel()
	var reading sync.WaitGroup
	var said error
	reading.Go(func() { _, _, said = socket.Read(t.Context()) })
	stopped := make(chan struct{})
	site.Config.RegisterOnShutdown(func() { handler.Stop(ctx); close(stopped) })
	require.NoError(t, site.Config.Shutdown(ctx))
	<-stopped
	reading.Wait()
	require.NoError(t, ctx.Err(), "within the time that it has")
	require.Equal(t, websocket.StatusGoingAway, websocket.CloseStatus(said), said)
	rest, err := io.ReadAll(lines)
	require.NoError(t, err, "the stream ends, and is not cut")
	require.NotContains(t, string(rest), "data: ")

	again := serve(t, server.New(server.Options{Store: b.Store, Views: b.Views, Feed: b.Feed, Log: slog.New(slog.DiscardHandler)}))
	b.record(t, contract.Record{RunID: id, Events: []contract.EventDraft{{Type: contract.EventRunUpdated}}})
	r := &reader{path: path, want: map[int64]int64{id: 2}, seen: map[int64]int64{id: 1}, last: "1", odd: rand.New(rand.NewPCG(1, 1))}
	require.NoError(t, r.follow(ctx, again.URL), "and goes on elsewhere")
}
