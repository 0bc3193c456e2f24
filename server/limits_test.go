package server_test

import (
	"bufio"
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/client"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/internal/webhook"
	"github.com/rocketgpt/orchestrator/server"
)

// listen serves a fixture as rgpt server does, with short times.
func (b *fixture) listen(tb testing.TB) string {
	tb.Helper()
	var lc net.ListenConfig
	l, err := lc.Listen(tb.Context(), "tcp", "127.0.0.1:0")
	require.NoError(tb, err)
	srv := &http.Server{Handler: b.handler, ReadHeaderTimeout: 500 * time.Millisecond, ReadTimeout: time.Second, IdleTimeout: time.Second}
	done := make(chan error, 1)
	go func() { done <- srv.Serve(l) }()
	tb.Cleanup(func() {
		require.NoError(tb, srv.Close())
		require.ErrorIs(tb, <-done, http.ErrServerClosed)
	})
	return l.Addr().String()
}

// answer is the part of an answer that the tests check.
type answer struct {
	StatusCode int
	Header     http.Header
}

// raw sends bytes and returns the answer.
func raw(tb testing.TB, address, text string) answer {
	tb.Helper()
	conn := dial(tb, address)
	_, err := io.WriteString(conn, text)
	require.NoError(tb, err)
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	require.NoError(tb, err)
	defer resp.Body.Close()
	return answer{resp.StatusCode, resp.Header}
}

func dial(tb testing.TB, address string) net.Conn {
	tb.Helper()
	conn, err := (&net.Dialer{}).DialContext(tb.Context(), "tcp", address)
	require.NoError(tb, err)
	tb.Cleanup(func() { conn.Close() })
	require.NoError(tb, conn.SetDeadline(time.Now().Add(2*time.Minute)))
	return conn
}

func TestAGigabyteIsRefusedAndNotKept(t *testing.T) {
	t.Parallel()
	b := setup(t)
	address := b.listen(t)
	head := "POST /api/runs HTTP/1.1\r\nHost: " + address + "\r\nContent-Type: application/json\r\n"
	refused := raw(t, address, head+"Content-Length: 1073741824\r\n\r\n{")
	require.Equal(t, http.StatusRequestEntityTooLarge, refused.StatusCode)
	require.Equal(t, "application/problem+json", refused.Header.Get("Content-Type"))

	// A body without a length is cut at the limit.
	conn := dial(t, address)
	_, err := io.WriteString(conn, head+"Transfer-Encoding: chunked\r\n\r\n")
	require.NoError(t, err)
	sent := 0
	chunk := fmt.Sprintf("10000\r\n%s\r\n", strings.Repeat(" ", 0x10000))
	for sent < 1<<30 {
		if _, err := io.WriteString(conn, chunk); err != nil {
			break // it hung up
		}
		sent += 0x10000
	}
	require.Less(t, sent, 256<<20, "the connection was closed, not read to its end")
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err == nil { // a reset may have discarded the answer
		defer resp.Body.Close()
		require.Equal(t, http.StatusRequestEntityTooLarge, resp.StatusCode)
	}
	w := b.send(t, http.MethodPost, "/api/runs", strings.Repeat(" ", 2<<20))
	require.Equal(t, http.StatusRequestEntityTooLarge, w.Code)
}

func TestASlowHeaderIsCut(t *testing.T) {
	t.Parallel()
	b := setup(t)
	conn := dial(t, b.listen(t))
	_, err := io.WriteString(conn, "GET /api/runs HTTP/1.1\r\nHost: localhost\r\nX-A: ")
	require.NoError(t, err)
	rest, err := io.ReadAll(conn) // ends when the server closes it
	require.NoError(t, err)
	require.NotContains(t, string(rest), "200 OK")
}

func TestASlowBodyIsCut(t *testing.T) {
	t.Parallel()
	b := setup(t)
	address := b.listen(t)
	resp := raw(t, address, "POST /api/runs HTTP/1.1\r\nHost: "+address+"\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{")
	require.Equal(t, http.StatusRequestTimeout, resp.StatusCode)
	require.Equal(t, "application/problem+json", resp.Header.Get("Content-Type"))
}

func TestTheTimeForReadingDoesNotEndTheWork(t *testing.T) {
	t.Parallel()
	b := setup(t)
	address := b.listen(t) // reads for a second
	release, owned, err := b.LeaseRequest(t.Context(), "/api/webhooks", "k", time.Second)
	require.NoError(t, err)
	require.True(t, owned)
	go func() {
		<-time.After(3 * time.Second)
		release()
	}()
	body := `{"url": "https://example.com"}`
	resp := raw(t, address, fmt.Sprintf("POST /api/webhooks HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\nIdempotency-Key: k\r\nContent-Length: %d\r\n\r\n%s", address, len(body), body))
	require.Equal(t, http.StatusCreated, resp.StatusCode)
}

func TestWhatIsNoTextIsRefusedWhereverItStands(t *testing.T) {
	t.Parallel()
	b := setup(t)
	address := b.listen(t)
	host := "Host: " + address + "\r\n"
	for name, c := range map[string]struct {
		text string
		want int
	}{
		"query":           {"GET /api/runs?text=%ff HTTP/1.1\r\n" + host + "\r\n", 400},
		"query, NUL":      {"GET /api/runs?text=%00 HTTP/1.1\r\n" + host + "\r\n", 400},
		"name in query":   {"GET /api/runs?%ff=1 HTTP/1.1\r\n" + host + "\r\n", 400},
		"page's query":    {"GET /runs?text=%ff HTTP/1.1\r\n" + host + "\r\n", 400},
		"path":            {"GET /api/runs/%ff HTTP/1.1\r\n" + host + "\r\n", 404},
		"path, NUL":       {"GET /api/runs/1%00 HTTP/1.1\r\n" + host + "\r\n", 404},
		"body":            {"POST /api/webhooks HTTP/1.1\r\n" + host + "Content-Type: application/json\r\nContent-Length: 27\r\n\r\n{\"url\": \"https://e.org/\xff\xff\"}", 400},
		"another method":  {"PUT /api/webhooks HTTP/1.1\r\n" + host + "Content-Length: 0\r\n\r\n", 405},
		"no method":       {"NONSENSE /api/runs HTTP/1.1\r\n" + host + "\r\n", 405},
		"an id of a run":  {"GET /api/webhooks/1 HTTP/1.1\r\n" + host + "\r\n", 404},
		"a text as id":    {"DELETE /api/webhooks/abc HTTP/1.1\r\n" + host + "\r\n", 404},
		"too large an id": {"GET /api/webhooks/99999999999999999999/deliveries HTTP/1.1\r\n" + host + "\r\n", 404},
	} {
		resp := raw(t, address, c.text)
		require.Equal(t, c.want, resp.StatusCode, name)
		require.Equal(t, "application/problem+json", resp.Header.Get("Content-Type"), name)
	}
	require.Contains(t, raw(t, address, "PUT /api/webhooks/1 HTTP/1.1\r\n"+host+"Content-Length: 0\r\n\r\n").Header.Get("Allow"), "PATCH")
}

func TestAKeyStandsForOneRequestAndItsAnswer(t *testing.T) {
	t.Parallel()
	b := setup(t)
	post := func(key, body string) *httptest.ResponseRecorder {
		return b.send(t, http.MethodPost, "/api/webhooks", body, "Idempotency-Key", key)
	}
	first := post("k", `{"url": "https://example.com/1"}`)
	require.Equal(t, http.StatusCreated, first.Code, first.Body)
	require.Empty(t, first.Header().Get("Idempotency-Replayed"))
	again := post("k", `{"url": "https://example.com/1"}`)
	require.Equal(t, http.StatusCreated, again.Code)
	require.Equal(t, first.Body.String(), again.Body.String())
	require.Equal(t, first.Header().Get("Content-Type"), again.Header().Get("Content-Type"))
	require.Equal(t, "true", again.Header().Get("Idempotency-Replayed"))
	other := post("k", `{"url": "https://example.com/2"}`)
	require.Equal(t, http.StatusConflict, other.Code)
	require.Contains(t, other.Body.String(), `"conflict"`)
	list, err := b.Webhooks(t.Context())
	require.NoError(t, err)
	require.Len(t, list, 1)

	// A refusal did nothing, so the key is free.
	require.Equal(t, http.StatusUnprocessableEntity, post("free", `{"url": "nonsense"}`).Code)
	require.Equal(t, http.StatusCreated, post("free", `{"url": "https://example.com/3"}`).Code)
	for _, bad := range []string{strings.Repeat("k", 201), "\xff"} {
		require.Equal(t, http.StatusBadRequest, post(bad, `{"url": "https://example.com/4"}`).Code)
	}
}

func TestTwoRequestsAtOnceUnderOneKeyDoTheThingOnce(t *testing.T) {
	t.Parallel()
	b := setup(t)
	var all sync.WaitGroup
	var answers sync.Map
	var made atomic.Int64
	for range 8 {
		all.Go(func() {
			w := b.send(t, http.MethodPost, "/api/webhooks", `{"url": "https://example.com"}`, "Idempotency-Key", "k")
			answers.Store(w.Body.String(), w.Code)
			if w.Code == http.StatusCreated {
				made.Add(1)
			}
		})
	}
	all.Wait()
	n := 0
	answers.Range(func(_, code any) bool { n++; return code == http.StatusCreated })
	require.Equal(t, 1, n, "one answer for all")
	require.EqualValues(t, 8, made.Load())
	list, err := b.Webhooks(t.Context())
	require.NoError(t, err)
	require.Len(t, list, 1)
}

// forgetAnswers leaves the database as it is when a server has carried out a request
// and died before it could answer.
func (b *fixture) forgetAnswers(tb testing.TB) {
	tb.Helper()
	conn, err := pgx.Connect(tb.Context(), b.address)
	require.NoError(tb, err)
	defer conn.Close(tb.Context())
	tag, err := conn.Exec(tb.Context(), "UPDATE orchestrator_requests SET status = 0, answer = NULL")
	require.NoError(tb, err)
	require.NotZero(tb, tag.RowsAffected())
}

// ExecuteWorkflow fails: the run exists, and a worker would start it later.
func (t *temporal) ExecuteWorkflow(context.Context, client.StartWorkflowOptions, any, ...any) (client.WorkflowRun, error) {
	return nil, errors.New("Temporal is away")
}

func TestARequestWhoseStoredAnswerIsLostHasOneEffect(t *testing.T) {
	t.Parallel()
	b := setup(t)
	body := `{"url": "https://example.com"}`
	first := b.send(t, http.MethodPost, "/api/webhooks", body, "Idempotency-Key", "k")
	require.Equal(t, http.StatusCreated, first.Code)
	b.forgetAnswers(t)
	again := b.send(t, http.MethodPost, "/api/webhooks", body, "Idempotency-Key", "k")
	require.Equal(t, http.StatusCreated, again.Code)
	require.Empty(t, again.Header().Get("Idempotency-Replayed"))
	require.JSONEq(t, first.Body.String(), again.Body.String())
	list, err := b.Webhooks(t.Context())
	require.NoError(t, err)
	require.Len(t, list, 1)

	// A fork, too: of a run with a plan and no step done.
	run := b.run(t, "x")
	plan, err := b.SavePlan(t.Context(), run, 0, "ann", contract.Plan{Summary: "s", Steps: []contract.Step{{ID: "step-001", Name: "n", Description: "d"}}})
	require.NoError(t, err)
	b.record(t, contract.Record{RunID: run, Run: &contract.RunChange{Status: contract.StatusFailed, Phase: contract.PhaseBuilder, PlanID: plan, Finished: true}})
	path := fmt.Sprintf("/api/runs/%d/fork", run)
	first = b.send(t, http.MethodPost, path, `{}`, "Idempotency-Key", "k")
	require.Equal(t, http.StatusCreated, first.Code, first.Body)
	b.forgetAnswers(t)
	again = b.send(t, http.MethodPost, path, `{}`, "Idempotency-Key", "k")
	require.Equal(t, http.StatusCreated, again.Code, again.Body)
	var ids [2]struct {
		RunID int64 `json:"runId"`
	}
	require.NoError(t, json.Unmarshal(first.Body.Bytes(), &ids[0]))
	require.NoError(t, json.Unmarshal(again.Body.Bytes(), &ids[1]))
	require.Equal(t, ids[0].RunID, ids[1].RunID)
	runs, err := b.ListRuns(t.Context(), store.Filter{})
	require.NoError(t, err)
	require.Len(t, runs, 2)
}

func TestARequestWhoseKeyIsInUseGetsRetryAfter(t *testing.T) {
	t.Parallel()
	b := setup(t)
	release, owned, err := b.LeaseRequest(t.Context(), "/api/webhooks", "k", time.Second)
	require.NoError(t, err)
	require.True(t, owned)
	defer release()
	w := b.send(t, http.MethodPost, "/api/webhooks", `{"url": "https://example.com"}`, "Idempotency-Key", "k")
	require.Equal(t, http.StatusConflict, w.Code)
	require.NotEmpty(t, w.Header().Get("Retry-After"))
	list, err := b.Webhooks(t.Context())
	require.NoError(t, err)
	require.Empty(t, list)
}

func TestABodyMayBeAsLargeAsTheConfigurationSays(t *testing.T) {
	t.Parallel()
	b := setup(t)
	const most = 4 << 20
	b.handler = server.New(server.Options{
		Store: b.Store, Views: b.Views, Feed: b.Feed, Artifacts: b.artifacts, Temporal: b.temporal, MaxBody: most, Log: slog.New(slog.DiscardHandler),
		Hooks: webhook.New(b.Store, b.Feed, hookSettings(), slog.New(slog.DiscardHandler)),
	})
	body := func(size int) string {
		const text = `{"url": "https://example.com"}`
		return text + strings.Repeat(" ", size-len(text))
	}
	for _, size := range []int{1 << 20, 2 << 20, most} {
		w := b.send(t, http.MethodPost, "/api/webhooks", body(size))
		require.Equal(t, http.StatusCreated, w.Code, "%d bytes: %s", size, w.Body)
	}
	require.Equal(t, http.StatusRequestEntityTooLarge, b.send(t, http.MethodPost, "/api/webhooks", body(most+1)).Code)
}

func TestAKeyForAPathTooLongToKeepIsRefusedAndNoFaultOfTheServer(t *testing.T) {
	t.Parallel()
	b := setup(t)
	random := make([]byte, 4000)
	_, _ = rand.Read(random)
	w := b.send(t, http.MethodPost, "/api/"+hex.EncodeToString(random), `{}`, "Idempotency-Key", "k")
	require.Equal(t, http.StatusNotFound, w.Code, w.Body)
}
