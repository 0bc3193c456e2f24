package server_test

import (
	"archive/zip"
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/retention"
	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/internal/store/changesets"
	"github.com/rocketgpt/orchestrator/internal/store/retain"
	"github.com/rocketgpt/orchestrator/internal/telemetry"
	"github.com/rocketgpt/orchestrator/internal/webhook"
)

// document is the part of the OpenAPI document that the tests read.
type document struct {
	OpenAPI string `json:"openapi"`
	Paths   map[string]map[string]struct {
		OperationID string         `json:"operationId"`
		Responses   map[string]any `json:"responses"`
		RequestBody *struct {
			Required bool `json:"required"`
		} `json:"requestBody"`
		Parameters []struct {
			Name string `json:"name"`
			In   string `json:"in"`
		} `json:"parameters"`
	} `json:"paths"`
}

func (b *fixture) document(tb testing.TB) document {
	tb.Helper()
	var d document
	w := b.get(tb, "/api/openapi.json")
	require.Equal(tb, http.StatusOK, w.Code, w.Body)
	require.NoError(tb, json.Unmarshal(w.Body.Bytes(), &d))
	require.True(tb, strings.HasPrefix(d.OpenAPI, "3.1"), d.OpenAPI)
	return d
}

// send sends a body as JSON.
func (b *fixture) send(tb testing.TB, method, path, body string, headers ...string) *httptest.ResponseRecorder {
	tb.Helper()
	req := httptest.NewRequestWithContext(tb.Context(), method, path, strings.NewReader(body))
	req.Host = "localhost:8080"
	req.Header.Set("Content-Type", "application/json")
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	b.handler.ServeHTTP(w, req)
	return w
}

// in inserts ids into the path of an operation.
func in(path, id string) string {
	return strings.NewReplacer("{digest}", keptDigest, "{id}", id, "{other}", id, "{delivery}", id, "{agent}", "builder", "{name}", "nightly", "{browser}", browserOf(keptEndpoint)).Replace(path)
}

func TestEveryOperationAnswersAsItsDocumentSays(t *testing.T) {
	t.Parallel()
	b := withTriggers(t)
	id := fmt.Sprint(b.run(t, "Add dark mode"))
	hook := httptest.NewServer(http.NotFoundHandler())
	defer hook.Close()
	made, err := webhook.New(b.Store, b.Feed, hookSettings(), slog.New(slog.DiscardHandler)).Register(t.Context(), webhook.Registration{URL: hook.URL})
	require.NoError(t, err)
	require.Equal(t, id, fmt.Sprint(made.Webhook.ID), "one id is known everywhere")
	b.saveEnvironment(t)
	_, status, text := b.subscribe(t, b.subscription(t, keptEndpoint))
	require.Equal(t, http.StatusOK, status, text)
	said, err := b.AddSetup(t.Context(), store.Setup{Repo: "/repos/app", Source: "person", Settings: json.RawMessage(`{}`)})
	require.NoError(t, err)
	require.Equal(t, id, fmt.Sprint(said.ID), "one id is known everywhere")
	pipeline := b.spawnRow(t, "Design a caching strategy")
	b.checkpoint(t, pipeline)
	require.Equal(t, id, fmt.Sprint(pipeline.ID), "one id is known everywhere")
	cleanup, err := retain.New(b.Store).Begin(t.Context(), retention.OriginPerson, "ann", retention.Policy{})
	require.NoError(t, err)
	require.Equal(t, id, fmt.Sprint(cleanup), "one id is known everywhere")
	require.Equal(t, id, fmt.Sprint(b.evaluate(t, "a set")), "one id is known everywhere")
	set, _, err := changesets.Create(t.Context(), b.Store, changesets.New{Tenant: store.DefaultTenant, Title: "a set"})
	require.NoError(t, err)
	require.Equal(t, id, fmt.Sprint(set.ID), "one id is known everywhere")
	for path, methods := range b.document(t).Paths {
		for method, op := range methods {
			method = strings.ToUpper(method)
			documented := func(w *httptest.ResponseRecorder, what string) {
				require.Contains(t, op.Responses, fmt.Sprint(w.Code), "%s %s with %s: %s", method, path, what, w.Body)
				if w.Code >= 400 {
					requireProblem(t, w)
				}
			}
			if strings.Contains(path, "{id}") {
				for _, unknown := range []string{"999999", "0", "-1", "abc", "1.5", "9223372036854775808"} {
					w := b.send(t, method, in(path, unknown), `{"phase": "tester", "goal": "x", "repo": "x", "model": "a/b", "name": "ci", "id": "1", "conclusion": "failure", "url": "https://example.com"}`)
					if w.Code != http.StatusUnprocessableEntity { // the body was checked first
						require.Equal(t, http.StatusNotFound, w.Code, "%s %s with %s: %s", method, path, unknown, w.Body)
					}
					documented(w, unknown)
				}
			}
			if path == "/api/brain/search" || path == "/api/brain/map" { // their repository is required
				documented(b.get(t, path), "no repository")
				documented(b.get(t, path+"?query=x&repo=/no/such/repository"), "an unknown repository")
				continue
			}
			if path == "/api/runs/{id}/attempts" { // the run is the only attempt at its goal
				documented(b.get(t, in(path, id)), "a run without other attempts")
				continue
			}
			if method == http.MethodGet {
				w := b.get(t, in(path, id))
				require.Equal(t, http.StatusOK, w.Code, "%s: %s", path, w.Body)
				require.True(t, json.Valid(w.Body.Bytes()))
				w = b.get(t, in(path, id)+"?nonsense=1")
				require.Equal(t, http.StatusBadRequest, w.Code, "%s with an unknown parameter: %s", path, w.Body)
				continue
			}
			if op.RequestBody == nil { // nothing in it could be wrong
				continue
			}
			for _, body := range []string{"{", `[]`, `"x"`, `{"nonsense": 1}`} {
				w := b.send(t, method, in(path, id), body)
				require.Contains(t, []int{http.StatusBadRequest, http.StatusUnprocessableEntity}, w.Code, "%s %s with %s: %s", method, path, body, w.Body)
				documented(w, body)
			}
		}
	}
}

func TestRunsAreListedInPagesWithoutGapOrDouble(t *testing.T) {
	t.Parallel()
	b := setup(t)
	var made []int64
	for i := range 7 {
		made = append(made, b.run(t, fmt.Sprint("run ", i)))
	}
	slices.Reverse(made)
	var seen []int64
	for cursor, pages := "", 0; ; pages++ {
		require.Less(t, pages, 10)
		var page struct {
			Runs []struct {
				ID int64 `json:"runId"`
			} `json:"runs"`
			Next string `json:"next"`
		}
		w := b.get(t, "/api/runs?limit=3&cursor="+cursor)
		require.Equal(t, http.StatusOK, w.Code, w.Body)
		require.NoError(t, json.Unmarshal(w.Body.Bytes(), &page))
		for _, r := range page.Runs {
			seen = append(seen, r.ID)
		}
		if cursor = page.Next; cursor == "" {
			break
		}
	}
	require.Equal(t, made, seen)
	requireProblem(t, b.get(t, "/api/runs?cursor=nonsense"))
}

func TestRunsAreFilteredByStatusTimeAndWhetherTheyWait(t *testing.T) {
	t.Parallel()
	b := setup(t)
	at := map[contract.Status]int64{}
	for _, status := range []contract.Status{contract.StatusDone, contract.StatusFailed, contract.StatusWaitingForApproval} {
		id := b.run(t, "x")
		b.record(t, contract.Record{RunID: id, Run: &contract.RunChange{Status: status, Finished: status.Terminal()}})
		at[status] = id
	}
	middle, err := b.Run(t.Context(), at[contract.StatusFailed])
	require.NoError(t, err)
	moment := url.QueryEscape(middle.CreatedAt.Format(time.RFC3339Nano))
	for query, want := range map[string][]int64{
		"status=done,failed":                   {at[contract.StatusFailed], at[contract.StatusDone]},
		"status=done&status=failed":            {at[contract.StatusFailed], at[contract.StatusDone]},
		"waiting=true":                         {at[contract.StatusWaitingForApproval]},
		"since=" + moment:                      {at[contract.StatusWaitingForApproval], at[contract.StatusFailed]},
		"until=" + moment:                      {at[contract.StatusDone]},
		"since=" + moment + "&until=" + moment: {},
	} {
		w := b.get(t, "/api/runs?"+query)
		require.Equal(t, http.StatusOK, w.Code, w.Body)
		var page struct {
			Runs []struct {
				ID int64 `json:"runId"`
			} `json:"runs"`
		}
		require.NoError(t, json.Unmarshal(w.Body.Bytes(), &page))
		got := []int64{}
		for _, r := range page.Runs {
			got = append(got, r.ID)
		}
		require.Equal(t, want, got, query)
	}
}

func TestAnotherSiteCannotSteerRuns(t *testing.T) {
	t.Parallel()
	b := setup(t)
	id := b.run(t, "x")
	path := fmt.Sprintf("/api/runs/%d/stop", id)
	for _, headers := range [][]string{{"Sec-Fetch-Site", "cross-site"}, {"Origin", "https://evil.example.com"}} {
		require.Equal(t, http.StatusForbidden, b.send(t, http.MethodPost, path, "{}", headers...).Code)
	}
	w := b.send(t, http.MethodPost, path, "{}", "Content-Type", "text/plain")
	require.GreaterOrEqual(t, w.Code, 400, "a form of another site can send text, but no JSON")
}

func TestAStreamContinuesAfterTheLastEventThatWasSeen(t *testing.T) {
	t.Parallel()
	b := setup(t)
	id := b.run(t, "x")
	for range 4 {
		b.record(t, contract.Record{RunID: id, Events: []contract.EventDraft{{Type: contract.EventRunUpdated, Payload: map[string]any{"text": "a\nb"}}}})
	}
	site := httptest.NewServer(b.handler)
	defer site.Close()
	read := func(path, last string, n int) (ids []string) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, site.URL+path, http.NoBody)
		require.NoError(t, err)
		if last != "" {
			req.Header.Set("Last-Event-ID", last)
		}
		resp, err := site.Client().Do(req)
		require.NoError(t, err)
		defer resp.Body.Close()
		require.Equal(t, http.StatusOK, resp.StatusCode)
		require.Equal(t, "text/event-stream", resp.Header.Get("Content-Type"))
		lines := bufio.NewScanner(resp.Body)
		for len(ids) < n && lines.Scan() {
			if at, ok := strings.CutPrefix(lines.Text(), "id: "); ok {
				ids = append(ids, at)
			}
		}
		return ids
	}
	path := fmt.Sprintf("/api/runs/%d/stream", id)
	require.Equal(t, []string{"1", "2", "3", "4", "5"}, read(path, "", 5))
	require.Equal(t, []string{"4", "5"}, read(path, "3", 2))
	require.Equal(t, []string{"3"}, read(path+"?after=2", "", 1))
	all := read("/api/stream?after=0-0", "", 5)
	require.Equal(t, all[2:], read("/api/stream", all[1], 3))
	for _, bad := range []string{path + "?after=x", path + "?after=-1", "/api/stream?after=x", "/api/runs/999999/stream"} {
		requireProblem(t, b.get(t, bad))
	}
}

func TestAllFilesOfARunComeAsOneArchive(t *testing.T) {
	t.Parallel()
	b := setup(t)
	id := b.run(t, "x")
	files := map[string]string{"report.md": "all green", "tester/1/output.log": "ok", "../../etc/passwd": "escapes", `..\windows`: "escapes too"}
	for name, text := range files {
		digest, err := b.artifacts.Put(t.Context(), []byte(text))
		require.NoError(t, err)
		require.NoError(t, b.AddArtifacts(t.Context(), id, []contract.Artifact{{Name: name, Type: contract.ArtifactFile, Size: int64(len(text)), Digest: digest}}))
	}
	w := b.get(t, fmt.Sprintf("/api/runs/%d/zip", id))
	require.Equal(t, http.StatusOK, w.Code)
	archive, err := zip.NewReader(bytes.NewReader(w.Body.Bytes()), int64(w.Body.Len()))
	require.NoError(t, err)
	got := map[string]string{}
	for _, f := range archive.File {
		r, err := f.Open()
		require.NoError(t, err)
		text, err := io.ReadAll(r)
		require.NoError(t, err)
		got[f.Name] = string(text)
	}
	require.Equal(t, map[string]string{"report.md": "all green", "tester/1/output.log": "ok", "etc/passwd": "escapes", "windows": "escapes too"}, got)
}

func TestAWebSocketSendsWhatAStreamSends(t *testing.T) {
	t.Parallel()
	b := setup(t)
	id := b.run(t, "x")
	b.record(t, contract.Record{RunID: id, Events: []contract.EventDraft{{Type: contract.EventRunUpdated}}})
	site := httptest.NewServer(b.handler)
	defer site.Close()
	read := func(query string, n int) (ids []string) {
		conn, _, err := websocket.Dial(t.Context(), site.URL+"/ws"+query, nil) //nolint:bodyclose // it has none
		require.NoError(t, err)
		defer func() { _ = conn.CloseNow() }()
		for range n {
			_, raw, err := conn.Read(t.Context())
			require.NoError(t, err)
			var m struct {
				ID    string         `json:"id"`
				Event contract.Event `json:"event"`
			}
			require.NoError(t, json.Unmarshal(raw, &m))
			require.Equal(t, id, m.Event.RunID)
			ids = append(ids, m.ID)
		}
		return ids
	}
	require.Equal(t, []string{"1", "2"}, read(fmt.Sprintf("?run=%d", id), 2))
	require.Equal(t, []string{"2"}, read(fmt.Sprintf("?run=%d&after=1", id), 1))
	all := read("?after=0-0", 2)
	require.Equal(t, all[1:], read("?after="+all[0], 1))
	_, resp, err := websocket.Dial(t.Context(), site.URL+"/ws?run=999999", nil) //nolint:bodyclose // Dial has read it
	require.Error(t, err)
	require.Equal(t, http.StatusNotFound, resp.StatusCode)
	_, resp, err = websocket.Dial(t.Context(), site.URL+"/ws", &websocket.DialOptions{HTTPHeader: http.Header{"Origin": {"https://evil.example.com"}}}) //nolint:bodyclose // Dial has read it
	require.Error(t, err)
	require.Equal(t, http.StatusForbidden, resp.StatusCode)
}

// Not parallel: it counts for the whole process.
func TestAClientThatTakesNothingIsDroppedAndCounted(t *testing.T) {
	skipSlowClients(t)
	b := setup(t)
	id := b.run(t, "slow")
	for range 4 { // more than the buffers of a connection hold
		events := make([]contract.EventDraft, 1000)
		for i := range events {
			events[i] = contract.EventDraft{Type: contract.EventRunUpdated, Payload: map[string]string{"message": strings.Repeat("x", 8000)}}
		}
		b.record(t, contract.Record{RunID: id, Events: events})
	}
	srv := httptest.NewServer(b.handler)
	defer srv.Close()
	count := func() (open, slow float64) {
		return testutil.ToFloat64(telemetry.StreamsOpen.WithLabelValues("sse")) + testutil.ToFloat64(telemetry.StreamsOpen.WithLabelValues("websocket")),
			testutil.ToFloat64(telemetry.StreamsDropped.WithLabelValues("sse", "slow")) + testutil.ToFloat64(telemetry.StreamsDropped.WithLabelValues("websocket", "slow"))
	}
	open, slow := count()
	for _, request := range []string{
		fmt.Sprintf("GET /api/runs/%d/stream HTTP/1.1\r\nHost: localhost\r\n\r\n", id),
		fmt.Sprintf("GET /ws?run=%d&after=0 HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n", id),
	} {
		conn, err := net.Dial("tcp", srv.Listener.Addr().String())
		require.NoError(t, err)
		defer conn.Close()
		_, err = conn.Write([]byte(request))
		require.NoError(t, err)
	}
	wait := func(what string, ok func(open, slow float64) bool) {
		t.Helper()
		for deadline := time.Now().Add(2 * time.Minute); !ok(count()); <-time.After(20 * time.Millisecond) {
			nowOpen, nowSlow := count()
			require.True(t, time.Now().Before(deadline), "%s: %v open, %v slow", what, nowOpen-open, nowSlow-slow)
		}
	}
	wait("both to be open", func(o, _ float64) bool { return o == open+2 })
	wait("both to be dropped", func(o, s float64) bool { return o == open && s == slow+2 })
}
