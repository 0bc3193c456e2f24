package server_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"mime"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/api/enums/v1"
	"go.temporal.io/api/history/v1"
	taskqueuepb "go.temporal.io/api/taskqueue/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"go.uber.org/goleak"
	"golang.org/x/net/html"
	"google.golang.org/grpc"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/artifact"
	"github.com/rocketgpt/orchestrator/internal/await"
	"github.com/rocketgpt/orchestrator/internal/config"
	"github.com/rocketgpt/orchestrator/internal/control"
	"github.com/rocketgpt/orchestrator/internal/gate/policy"
	"github.com/rocketgpt/orchestrator/internal/health"
	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/internal/store/feed"
	"github.com/rocketgpt/orchestrator/internal/store/views"
	"github.com/rocketgpt/orchestrator/internal/storetest"
	"github.com/rocketgpt/orchestrator/internal/webhook"
	"github.com/rocketgpt/orchestrator/server"
	"github.com/rocketgpt/orchestrator/server/middleware"
	"github.com/rocketgpt/orchestrator/server/ui"
)

func TestMain(m *testing.M) {
	policy.MaybeRunHelper()
	await.RunsManyAtOnce()
	goleak.VerifyTestMain(storetest.Main(m))
}

// temporal is a Temporal that answers or does not.
type temporal struct {
	client.Client
	err error
}

func (t *temporal) CheckHealth(context.Context, *client.CheckHealthRequest) (*client.CheckHealthResponse, error) {
	return &client.CheckHealthResponse{}, t.err
}

// UpdateWorkflow is for a run that has no worker, unless another Temporal is behind
// this one.
func (t *temporal) UpdateWorkflow(ctx context.Context, o client.UpdateWorkflowOptions) (client.WorkflowUpdateHandle, error) {
	if t.Client != nil {
		return t.Client.UpdateWorkflow(ctx, o)
	}
	return nil, context.DeadlineExceeded
}

// WorkflowService describes queues in which one task waits and which nobody polls.
func (t *temporal) WorkflowService() workflowservice.WorkflowServiceClient { return &queues{t: t} }

type queues struct {
	workflowservice.WorkflowServiceClient
	t *temporal
}

func (q *queues) DescribeTaskQueue(context.Context, *workflowservice.DescribeTaskQueueRequest, ...grpc.CallOption) (*workflowservice.DescribeTaskQueueResponse, error) {
	return &workflowservice.DescribeTaskQueueResponse{Stats: &taskqueuepb.TaskQueueStats{ApproximateBacklogCount: 1}}, q.t.err
}

// GetWorkflowHistory returns a history that cannot be read.
func (t *temporal) GetWorkflowHistory(context.Context, string, string, bool, enums.HistoryEventFilterType) client.HistoryEventIterator {
	return noHistory{}
}

type noHistory struct{ client.HistoryEventIterator }

func (noHistory) HasNext() bool { return true }

func (noHistory) Next() (*history.HistoryEvent, error) {
	return nil, errors.New("secret text of the inside")
}

// fixture is a server over its own database.
type fixture struct {
	*store.Store
	*views.Views
	*feed.Feed
	address   string // of the database
	artifacts *artifact.Store
	temporal  *temporal
	config    *config.Config
	handler   http.Handler
	log       bytes.Buffer
	seq       int64
}

func setup(tb testing.TB, change ...func(*server.Options)) *fixture {
	tb.Helper()
	b := &fixture{address: storetest.URL(tb), temporal: &temporal{}, config: config.Default()}
	var err error
	b.Store, err = store.Open(tb.Context(), b.address, store.Options{MaxConns: 8})
	require.NoError(tb, err)
	tb.Cleanup(b.Store.Close)
	b.Views, b.Feed = views.New(b.Store), storetest.Feed(tb, b.Store, feed.Options{})
	b.artifacts, err = artifact.Open(tb.Context(), "", tb.TempDir())
	require.NoError(tb, err)
	tb.Cleanup(func() { require.NoError(tb, b.artifacts.Close()) })
	o := server.Options{
		Runs:  &control.Runs{Store: b.Store, Views: b.Views, Feed: b.Feed, Artifacts: b.artifacts, Temporal: b.temporal, Config: b.config, DataDir: tb.TempDir()},
		Store: b.Store, Views: b.Views, Feed: b.Feed, Artifacts: b.artifacts, Temporal: b.temporal, TemporalUI: "http://127.0.0.1:8233", Namespace: "default",
		Log: slog.New(slog.NewTextHandler(&b.log, nil)), Hooks: webhook.New(b.Store, b.Feed, hookSettings(), slog.New(slog.DiscardHandler)),
	}
	for _, c := range change {
		c(&o)
	}
	b.handler = server.New(o)
	return b
}

// hookSettings let webhooks reach receivers on this host.
func hookSettings() config.Webhooks {
	s := config.Default().Server.Webhooks
	s.AllowPrivate = true
	return s
}

// ask makes a request. What it sends as Accept is what a browser or a program sends.
func (b *fixture) ask(tb testing.TB, method, path string, accept ...string) *httptest.ResponseRecorder {
	tb.Helper()
	req := httptest.NewRequestWithContext(tb.Context(), method, "/", http.NoBody)
	req.Host = "localhost:8080"
	var err error
	req.URL, err = url.Parse(path)
	require.NoError(tb, err)
	if len(accept) > 0 {
		req.Header.Set("Accept", accept[0])
	}
	w := httptest.NewRecorder()
	b.handler.ServeHTTP(w, req)
	return w
}

func (b *fixture) get(tb testing.TB, path string, accept ...string) *httptest.ResponseRecorder {
	tb.Helper()
	return b.ask(tb, http.MethodGet, path, accept...)
}

// page gets a page that must exist, and its text.
func (b *fixture) page(tb testing.TB, path string) (*html.Node, string) {
	tb.Helper()
	w := b.get(tb, path)
	require.Equal(tb, http.StatusOK, w.Code, w.Body)
	require.Equal(tb, "text/html; charset=utf-8", w.Header().Get("Content-Type"))
	doc, err := html.Parse(w.Body)
	require.NoError(tb, err)
	return doc, textOf(doc)
}

func textOf(n *html.Node) string {
	var b strings.Builder
	for c := range n.Descendants() {
		if c.Type == html.TextNode {
			b.WriteString(c.Data)
		}
	}
	return b.String()
}

// run makes a run in which every text is the given one.
// said returns what the server's log has beside the requests that were answered.
func (b *fixture) logged() []string {
	return slices.DeleteFunc(slices.Collect(strings.Lines(b.log.String())), func(line string) bool {
		return strings.Contains(line, `level=INFO msg="Handled a request"`)
	})
}

func (b *fixture) run(tb testing.TB, text string) int64 {
	tb.Helper()
	run, _, err := b.CreateRun(tb.Context(), store.NewRun{
		Project: text, GoalTitle: text, GoalDescription: text,
		Settings: contract.Settings{Repo: contract.Repo{URL: "/repos/calculator", Base: "c0ffee", Tree: "beef", Branch: text}},
	})
	require.NoError(tb, err)
	return run.ID
}

func (b *fixture) record(tb testing.TB, r contract.Record) contract.ExecutionRef {
	tb.Helper()
	b.seq++
	r.Seq = b.seq
	result, err := b.Record(tb.Context(), store.Source{WorkflowID: contract.RunWorkflowID(r.RunID), WorkflowRunID: "first"}, r)
	require.NoError(tb, err)
	return result.Execution
}

// fill gives a run a plan, tests, findings, artifacts and events with the text.
func (b *fixture) fill(tb testing.TB, run int64, text string) {
	tb.Helper()
	ctx := tb.Context()
	require.NoError(tb, b.MarkStarted(ctx, run, contract.RunWorkflowID(run), "0199"))
	planner := b.record(tb, contract.Record{RunID: run, Begin: &contract.ExecutionBegin{Phase: contract.PhasePlanner, Agent: contract.AgentPlanner, Model: contract.ModelChoice{Provider: text, Model: text}}})
	plan, err := b.SavePlan(ctx, run, planner.ID, "planner", contract.Plan{Summary: text, Steps: []contract.Step{{
		ID: "step-001", Name: text, Description: text, Dependencies: []string{text}, RiskLevel: contract.Level(text),
	}}})
	require.NoError(tb, err)
	b.record(tb, contract.Record{RunID: run, Begin: &contract.ExecutionBegin{Phase: contract.PhaseBuilder, Step: text, Agent: contract.AgentBuilder}})
	tester := b.record(tb, contract.Record{RunID: run, Begin: &contract.ExecutionBegin{Phase: contract.PhaseTester, Agent: contract.AgentTester}})
	require.NoError(tb, b.SaveCheck(ctx, tester, "test-go", contract.CheckResult{Check: contract.Check{ID: "test-go", Category: contract.CategoryTest, Name: text}, Message: text, Summary: contract.TestSummary{Failed: 1}},
		[]contract.TestCase{{Name: text, Status: contract.TestFailed, Message: text, Location: text}},
		[]contract.Finding{{Severity: contract.SeverityMajor, Category: contract.CategoryTest, Message: text, Location: text, Rule: text}}, ""))
	digest, err := b.artifacts.Put(ctx, []byte("content"))
	require.NoError(tb, err)
	require.NoError(tb, b.AddArtifacts(ctx, run, []contract.Artifact{{RunID: run, Name: "tester/" + text, Type: contract.ArtifactLog, Size: 7, Digest: digest}}))
	failure := &contract.Failure{Class: contract.ClassAssertion, Code: contract.CodeTestsFailed, Message: text, Cause: text}
	b.record(tb, contract.Record{
		RunID: run, End: &contract.ExecutionEnd{ExecutionID: tester.ID, Status: contract.ExecutionFailed, Failure: failure},
		Run:    &contract.RunChange{Status: contract.StatusFailed, Phase: contract.PhaseTester, Failure: failure, WaitingFor: text, Branch: text, Commit: "beef", PlanID: plan},
		Events: []contract.EventDraft{{Type: contract.EventRunUpdated, Payload: map[string]string{"message": text, text: text}}},
	})
}

func TestEveryAnswerForbidsScriptsFramesAndGuesses(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for _, path := range []string{"/runs", "/runs/1", "/api/runs", "/api/runs/1", "/healthz", "/readyz", "/metrics", ui.Asset("app.css"), "/nothing", "/"} {
		h := b.get(t, path).Header()
		policy := h.Get("Content-Security-Policy")
		require.Contains(t, policy, "default-src 'none'", path)
		require.Contains(t, policy, "frame-ancestors 'none'", path)
		require.Contains(t, policy, "base-uri 'none'", path)
		require.NotContains(t, policy, "unsafe", path)
		require.Contains(t, policy, "script-src 'self';", path)
		require.Equal(t, "nosniff", h.Get("X-Content-Type-Options"), path)
		require.Equal(t, "no-referrer", h.Get("Referrer-Policy"), path)
		require.Equal(t, "same-origin", h.Get("Cross-Origin-Resource-Policy"), path)
		require.NotEmpty(t, h.Get("Cache-Control"), path)
		require.Empty(t, h.Get("Access-Control-Allow-Origin"), path)
		require.Empty(t, h.Get("Set-Cookie"), path)
	}
}

func TestWhatDoesNotExistIsNotFound(t *testing.T) {
	t.Parallel()
	b := setup(t)
	id := b.run(t, "x")
	for _, n := range []string{"0", "-1", "abc", "1.5", "0x1", "999999", "9223372036854775807", "9223372036854775808", strings.Repeat("9", 400), "%00", "1%00", "%FF", "1%20", "..%2f1", "%3Cscript%3E"} {
		for _, path := range []string{"/runs/", "/api/runs/", fmt.Sprintf("/api/runs/%d/artifacts/", id)} {
			w := b.get(t, path+n)
			require.Equal(t, http.StatusNotFound, w.Code, path+n)
			requireProblem(t, w)
		}
		w := b.get(t, "/api/runs/"+n+"/artifacts/1")
		require.Equal(t, http.StatusNotFound, w.Code, n)
	}
	for _, path := range []string{"/nothing", "/api", "/api/", "/api/nothing", "/runs/1/x", "/ui/run.templ", "/static/", "/static/x", "/static/x/"} {
		w := b.get(t, path)
		require.Equal(t, http.StatusNotFound, w.Code, path)
		requireProblem(t, w)
	}
	require.Empty(t, b.logged(), "none of it is our mistake")
}

// requireProblem checks that an answer is problem+json without internals.
func requireProblem(tb testing.TB, w *httptest.ResponseRecorder) {
	tb.Helper()
	require.Equal(tb, "application/problem+json", w.Header().Get("Content-Type"))
	var p map[string]any
	require.NoError(tb, json.Unmarshal(w.Body.Bytes(), &p), w.Body)
	require.EqualValues(tb, w.Code, p["status"])
	require.NotEmpty(tb, p["title"])
	require.NotEmpty(tb, p["instance"], w.Body)
	require.Equal(tb, w.Header().Get(middleware.RequestIDHeader), p["instance"])
	switch w.Code {
	case http.StatusBadRequest, http.StatusNotFound, http.StatusUnprocessableEntity:
		require.NotEmpty(tb, p["error_type"], w.Body)
		require.NotEmpty(tb, p["code"], w.Body)
	}
	for _, inside := range []string{"pgx", "SQL", "orchestrator_", "goroutine", ".go:", "127.0.0.1", "password", "connect"} {
		require.NotContains(tb, w.Body.String(), inside)
	}
}

func TestOtherMethodsAreRefused(t *testing.T) {
	t.Parallel()
	b := setup(t)
	id := b.run(t, "x")
	for _, path := range []string{"/runs", fmt.Sprintf("/runs/%d", id), "/api/agents", fmt.Sprintf("/api/runs/%d", id), fmt.Sprintf("/api/runs/%d/artifacts/1", id), "/healthz", "/readyz", "/metrics", ui.Asset("app.js"), "/"} {
		for _, method := range []string{http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodOptions, http.MethodTrace, "BREW"} {
			w := b.ask(t, method, path)
			require.Equal(t, http.StatusMethodNotAllowed, w.Code, method+" "+path)
			require.Equal(t, "GET, HEAD", w.Header().Get("Allow"))
			requireProblem(t, w)
		}
		require.Equal(t, b.get(t, path).Code, b.ask(t, http.MethodHead, path).Code, path)
	}
}

func TestFiltersThatNoRunCanMatchAreRefused(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for _, q := range []string{"phase=nonsense", "error=nonsense", "project=%00", "text=%FF", "other=%00"} {
		for _, path := range []string{"/runs?", "/api/runs?"} {
			w := b.get(t, path+q)
			require.Equal(t, http.StatusBadRequest, w.Code, path+q)
			requireProblem(t, w)
		}
	}
	for _, q := range []string{"state=nonsense", "state=done%00", "time=yesterday", "time=5h"} {
		require.Equal(t, http.StatusBadRequest, b.get(t, "/runs?"+q).Code, q)
	}
	// {"created_at":"2026-01-01T00:00:00Z","id":-1} and {"id":1} are not valid
	// positions.
	const wrongID, noTime = "cursor=eyJjcmVhdGVkX2F0IjoiMjAyNi0wMS0wMVQwMDowMDowMFoiLCJpZCI6LTF9", "cursor=eyJpZCI6MX0"
	for _, q := range []string{"cursor=x", wrongID, noTime} {
		require.Equal(t, http.StatusBadRequest, b.get(t, "/runs?"+q).Code, q)
	}
	for _, q := range []string{"cursor=x", wrongID, noTime, "status=nonsense", "since=yesterday", "until=1", "waiting=true&status=done"} {
		require.Equal(t, http.StatusBadRequest, b.get(t, "/api/runs?"+q).Code, q)
	}
	require.Equal(t, http.StatusOK, b.get(t, "/api/runs?status=done&phase=tester&error=LLM_ERROR&project=x&text=100%25_").Code)
}

func TestTheAPIAnswersWithTheWholeRun(t *testing.T) {
	t.Parallel()
	b := setup(t)
	id := b.run(t, "goal")
	b.fill(t, id, "goal")
	w := b.get(t, fmt.Sprintf("/api/runs/%d", id))
	require.Equal(t, http.StatusOK, w.Code)
	require.Equal(t, "application/json", w.Header().Get("Content-Type"))
	var d views.RunDetails
	require.NoError(t, json.Unmarshal(w.Body.Bytes(), &d))
	whole, err := b.RunDetails(t.Context(), id)
	require.NoError(t, err)
	require.Len(t, d.Events, len(whole.Events))
	var list struct {
		Runs []store.Run `json:"runs"`
	}
	require.NoError(t, json.Unmarshal(b.get(t, "/api/runs?status=failed").Body.Bytes(), &list))
	require.Len(t, list.Runs, 1)
	require.Contains(t, b.get(t, "/api/runs?status=done").Body.String(), `"runs":[]`)
}

func TestAnArtifactIsADownloadAndNothingElse(t *testing.T) {
	t.Parallel()
	b := setup(t)
	id, other := b.run(t, "x"), b.run(t, "y")
	digest, err := b.artifacts.Put(t.Context(), []byte("<script>alert(1)</script>"))
	require.NoError(t, err)
	names := map[string]string{
		"tester/1/login/trace.zip": "trace.zip", "report.html": "report.html", "../../etc/passwd": "passwd", `..\..\evil.exe`: "evil.exe", "a\r\nX-Evil: 1": "a__X-Evil: 1",
		`quo"te;x=y.txt`: `quo"te;x=y.txt`, "schön\u202egnp.svg": "schön\u202egnp.svg", "..": "artifact", "": "artifact",
	}
	for name, want := range names {
		require.NoError(t, b.AddArtifacts(t.Context(), id, []contract.Artifact{{Name: name, Type: contract.ArtifactFile, Size: 25, Digest: digest}}))
		all, err := b.Artifacts(t.Context(), id)
		require.NoError(t, err)
		path := fmt.Sprintf("/api/runs/%d/artifacts/%d", id, all[len(all)-1].ID)
		w := b.get(t, path)
		require.Equal(t, http.StatusOK, w.Code)
		require.Equal(t, "<script>alert(1)</script>", w.Body.String())
		require.Equal(t, "application/octet-stream", w.Header().Get("Content-Type"))
		require.Equal(t, "nosniff", w.Header().Get("X-Content-Type-Options"))
		require.Equal(t, "25", w.Header().Get("Content-Length"))
		require.Empty(t, w.Header().Get("X-Evil"))
		kind, params, err := mime.ParseMediaType(w.Header().Get("Content-Disposition"))
		require.NoError(t, err)
		require.Equal(t, "attachment", kind)
		require.Equal(t, want, params["filename"], "%q", name)
		require.Equal(t, http.StatusNotFound, b.get(t, strings.Replace(path, fmt.Sprint(id), fmt.Sprint(other), 1)).Code, "it belongs to another run")
		head := b.ask(t, http.MethodHead, path)
		require.Equal(t, "25", head.Header().Get("Content-Length"))
		require.Empty(t, head.Body.String())
	}
	require.NoError(t, b.AddArtifacts(t.Context(), other, []contract.Artifact{{Name: "gone", Type: contract.ArtifactFile, Size: 1, Digest: "sha256:" + strings.Repeat("0", 64)}}))
	all, err := b.Artifacts(t.Context(), other)
	require.NoError(t, err)
	w := b.get(t, fmt.Sprintf("/api/runs/%d/artifacts/%d", other, all[0].ID))
	require.Equal(t, http.StatusGone, w.Code)
	requireProblem(t, w)
}

func TestHealthAndReadinessAreTwoThings(t *testing.T) {
	t.Parallel()
	b := setup(t)
	require.JSONEq(t, `{"status":"ok"}`, b.get(t, "/healthz").Body.String())
	ready := func(status int, is, database, temporal string) map[string]string {
		t.Helper()
		w := b.get(t, "/readyz")
		require.Equal(t, status, w.Code)
		require.NotContains(t, w.Body.String(), "10.0.0.1")
		var said struct {
			Status, Database, Temporal string
			Roles                      map[string]string
		}
		require.NoError(t, json.Unmarshal(w.Body.Bytes(), &said))
		require.Equal(t, []string{is, database, temporal}, []string{said.Status, said.Database, said.Temporal})
		return said.Roles
	}
	roles := ready(http.StatusOK, "degraded", "ok", "ok")
	require.Contains(t, roles["builder"], "no agent; start a worker", "the server does its work all the same")
	beat := store.Beat{Worker: "h:1:aa", StartedAt: time.Now(), Every: time.Minute, OfflineAfter: time.Hour}
	for _, r := range contract.WorkerRoles() {
		beat.Agents = append(beat.Agents, store.AgentBeat{Name: r.Name + "@h:1:aa", Type: r.Name, HealthStatus: contract.HealthHealthy})
	}
	require.NoError(t, b.Heartbeat(t.Context(), beat))
	require.Equal(t, "ok", ready(http.StatusOK, "ready", "ok", "ok")["builder"])
	beat.Agents[2].HealthStatus = contract.HealthDegraded
	require.NoError(t, b.Heartbeat(t.Context(), beat))
	require.Contains(t, ready(http.StatusOK, "degraded", "ok", "ok")["builder"], "no agent is healthy")
	b.temporal.err = errors.New("connection to 10.0.0.1 refused")
	ready(http.StatusServiceUnavailable, "unavailable", "ok", "is not responding")
	b.temporal.err = nil
	b.Store.Close()
	require.Nil(t, ready(http.StatusServiceUnavailable, "unavailable", "is not responding", "ok"))
	require.Equal(t, http.StatusOK, b.get(t, "/healthz").Code, "the process itself is well")
	w := b.get(t, "/api/runs")
	require.GreaterOrEqual(t, w.Code, 500)
	requireProblem(t, w)
	require.Contains(t, b.log.String(), "A request failed")
}

func TestMetricsAreServed(t *testing.T) {
	t.Parallel()
	b := setup(t)
	w := b.get(t, "/metrics")
	require.Equal(t, http.StatusOK, w.Code)
	require.Contains(t, w.Body.String(), "go_goroutines")
	require.NotContains(t, w.Body.String(), "rgpt_queue_backlog", "nobody looked yet")

	for _, path := range []string{"/no/such/place/rm -rf", "/api/runs/77777777/events", "/api/runs/hostile%22%0a"} {
		b.get(t, path)
	}
	require.Equal(t, http.StatusOK, b.get(t, "/api/agents").Code)
	said := b.get(t, "/metrics").Body.String()
	for _, line := range []string{
		`rgpt_queue_backlog{queue="rgpt-tester"} 1`, `rgpt_queue_backlog{queue="rgpt-builder"} 2`, `rgpt_queue_pollers{queue="rgpt-tester"} 0`,
		`rgpt_agents{health="healthy",role="builder"} 0`, `rgpt_runs_unfinished{status="pending"} 0`, `rgpt_interventions_open 0`,
		`rgpt_pipelines_unfinished{status="REPORT"} 0`, `rgpt_pipelines_waiting 0`,
		`rgpt_streams_open{kind="sse"}`, `rgpt_streams_dropped_total{kind="websocket",reason="slow"}`,
		`rgpt_http_request_duration_seconds_count{route="/api/runs/{id}/events",status="4xx"}`,
	} {
		require.Contains(t, said, line)
	}
	for _, hostile := range []string{"77777777", "hostile", "no/such"} {
		require.NotContains(t, said, hostile, "labels are routes, not paths")
	}
}

func TestAgentsAreListedWithTheirQueuesAndWhatTheyLack(t *testing.T) {
	t.Parallel()
	b := setup(t)
	require.NoError(t, b.Heartbeat(t.Context(), store.Beat{
		Worker: "h:1:aa", StartedAt: time.Now(), Every: time.Minute, OfflineAfter: time.Hour,
		Agents: []store.AgentBeat{{
			Name: "tester@h:1:aa", Type: "tester", HealthStatus: contract.HealthDegraded, Detail: "git: it is not there",
			Work: []contract.Work{{RunID: 42, Activity: "rgpt.tester.Verify"}},
		}},
	}))
	report := func() (r health.Report) {
		t.Helper()
		w := b.get(t, "/api/agents")
		require.Equal(t, http.StatusOK, w.Code, w.Body)
		require.NoError(t, json.Unmarshal(w.Body.Bytes(), &r))
		return r
	}
	r := report()
	require.Len(t, r.Agents, 1)
	require.Equal(t, contract.HealthDegraded, r.Agents[0].HealthStatus)
	require.Equal(t, "git: it is not there", r.Agents[0].Detail)
	require.EqualValues(t, 42, r.Agents[0].Work[0].RunID)
	require.Len(t, r.Queues, len(contract.WorkerRoles()))
	require.Equal(t, "rgpt-tester", r.Queues[3].Name)
	require.EqualValues(t, 1, r.Queues[3].Backlog)
	require.Equal(t, []int64{1}, r.Queues[3].History)
	require.Contains(t, r.Roles["tester"], "no agent is healthy")

	b.temporal.err = errors.New("connection to 10.0.0.1 refused")
	require.Empty(t, report().QueuesProblem, "a second look so soon would cost for nothing")
	b.handler = server.New(server.Options{Store: b.Store, Views: b.Views, Feed: b.Feed, Temporal: b.temporal, Log: slog.New(slog.NewTextHandler(&b.log, nil))})
	r = report()
	require.Equal(t, "Temporal is not responding", r.QueuesProblem)
	require.Empty(t, r.Queues)
	require.Len(t, r.Agents, 1, "agents are told all the same")
}

func TestAClientThatDisconnectsIsNoError(t *testing.T) {
	t.Parallel()
	b := setup(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	w := httptest.NewRecorder()
	b.handler.ServeHTTP(w, httptest.NewRequestWithContext(ctx, http.MethodGet, "/api/runs", http.NoBody))
	require.NotContains(t, b.log.String(), "level=ERROR")
	_, err := io.Copy(io.Discard, w.Body)
	require.NoError(t, err)
}

func TestAHostOfSomebodyElseIsRefused(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.handler = server.New(server.Options{Store: b.Store, Views: b.Views, Feed: b.Feed, Log: slog.New(slog.NewTextHandler(&b.log, nil)), Hosts: []string{"192.0.2.7", "rgpt.example.com", "2001:db8::1"}})
	ask := func(host string, accept ...string) *httptest.ResponseRecorder {
		req := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/healthz", http.NoBody)
		req.Host = host
		if len(accept) > 0 {
			req.Header.Set("Accept", accept[0])
		}
		w := httptest.NewRecorder()
		b.handler.ServeHTTP(w, req)
		return w
	}
	for _, host := range []string{
		"localhost", "LOCALHOST:8080", "localhost.", "127.0.0.1:8080", "127.0.0.1", "[::1]:8080", "[::1]",
		"192.0.2.7:80", "rgpt.example.com", "RGPT.example.com:8080", "[2001:db8::1]:8080",
	} {
		require.Equal(t, http.StatusOK, ask(host).Code, host)
	}
	for _, host := range []string{
		"", "evil.example.com", "evil.example.com:8080", "localhost.evil.example.com", "127.0.0.1.evil.example.com:8080", "192.0.2.8",
		"notrgpt.example.com", "0.0.0.0:8080", "[::]:8080", "localhost@evil.example.com", "2130706433",
	} {
		w := ask(host)
		require.Equal(t, http.StatusMisdirectedRequest, w.Code, host)
		require.Equal(t, "application/problem+json", w.Header().Get("Content-Type"))
		require.Contains(t, w.Body.String(), "server.allowed_hosts")
	}
	require.Contains(t, ask("evil.example.com", "text/html").Header().Get("Content-Type"), "text/html")
}

func TestABodyOverTheLimitIsRefused(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.handler = server.New(server.Options{Store: b.Store, Views: b.Views, Feed: b.Feed, Log: slog.New(slog.NewTextHandler(&b.log, nil)), MaxBody: 10})
	for body, want := range map[string]int{"0123456789": http.StatusBadRequest, "0123456789a": http.StatusRequestEntityTooLarge} {
		req := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "http://localhost/api/runs", strings.NewReader(body))
		w := httptest.NewRecorder()
		b.handler.ServeHTTP(w, req)
		require.Equal(t, want, w.Code, body)
	}
}

func TestTheAccessLogHasEachRequest(t *testing.T) {
	t.Parallel()
	b := setup(t)
	id := b.run(t, "goal")
	var log bytes.Buffer
	b.handler = server.New(server.Options{Store: b.Store, Views: b.Views, Feed: b.Feed, Temporal: b.temporal, Log: slog.New(slog.NewTextHandler(&log, nil))})
	for _, path := range []string{"/healthz", "/readyz", "/metrics", ui.Asset("app.css")} {
		b.get(t, path)
	}
	require.Empty(t, log.String(), "what asks by itself is left out")
	answer := b.get(t, fmt.Sprintf("/runs/%d?x=hunter2", id))
	b.get(t, "/api/runs/999")
	lines := strings.Split(strings.TrimSpace(log.String()), "\n")
	require.Len(t, lines, 2)
	require.Contains(t, lines[0], fmt.Sprintf("level=INFO msg=\"Handled a request\" request=%s method=GET path=/runs/%d status=200 bytes=%d", answer.Header().Get(middleware.RequestIDHeader), id, answer.Body.Len()))
	require.Contains(t, lines[1], "path=/api/runs/999 status=404")
	require.NotContains(t, log.String(), "hunter2")
}
