package activities_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/worker"

	"github.com/rocketgpt/orchestrator/activities"
	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/config"
	"github.com/rocketgpt/orchestrator/internal/fault"
	"github.com/rocketgpt/orchestrator/internal/scripted"
	"github.com/rocketgpt/orchestrator/internal/setup"
	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/internal/store/views"
	"github.com/rocketgpt/orchestrator/internal/storetest"
)

// latch is in front of the scripted model and holds each request until it is opened.
type latch struct {
	arrived chan string   // the idempotency key of each request
	left    chan struct{} // a client hung up while it waited
	open    chan struct{}
}

// gated is a house whose model is behind a latch.
func gated(t *testing.T) (*fixture, *latch) {
	t.Helper()
	h := newFixture(t, editHello)
	behind, err := url.Parse(strings.TrimSuffix(h.Config.Models.Providers[setup.Scripted].BaseURL, "/v1"))
	require.NoError(t, err)
	pass := httputil.NewSingleHostReverseProxy(behind)
	g := &latch{arrived: make(chan string, 10), left: make(chan struct{}, 10), open: make(chan struct{})}
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body) // otherwise nobody notices that the client hangs up
		if err != nil {
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		g.arrived <- r.Header.Get("Idempotency-Key")
		select {
		case <-g.open:
			pass.ServeHTTP(w, r)
		case <-r.Context().Done():
			g.left <- struct{}{}
		}
	}))
	t.Cleanup(web.Close)
	before := h.Config.Models.Providers[setup.Scripted]
	before.BaseURL = web.URL + "/v1"
	h.Config.Models.Providers[setup.Scripted] = before
	h.Model.Close()
	h.Model, err = setup.Model(h.Config)
	require.NoError(t, err)
	t.Cleanup(h.Model.Close)
	return h, g
}

// thought is the result of an attempt of Think.
type thought struct {
	contract.ThinkResult
	err error
}

// think begins an attempt of Think.
func think(ctx context.Context, a *activities.Activities, in contract.ThinkInput) <-chan thought {
	out := make(chan thought, 1)
	go func() {
		r, err := a.Think(ctx, in)
		out <- thought{r, err}
	}()
	return out
}

// awaitWaiting waits until that many attempts wait for turn 1 of an execution.
func (h *fixture) awaitWaiting(a *activities.Activities, e contract.ExecutionRef, want int) {
	h.t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	late := time.After(time.Minute)
	for a.Waiting(e.ID, 1) != want {
		select {
		case <-tick.C:
		case <-late:
			require.Failf(h.t, "too late", "%d tries wait for the call, not %d", a.Waiting(e.ID, 1), want)
		}
	}
}

func (h *fixture) requireOnePaidCall(want int64) {
	h.t.Helper()
	require.Equal(h.t, 1, h.served())
	usage, err := h.Store.Usage(h.t.Context(), h.run.ID)
	require.NoError(h.t, err)
	require.Equal(h.t, want, usage.Tokens())
}

func TestTheProvidersOwnTimeoutCountsBeforeThatOfTheRun(t *testing.T) {
	t.Parallel()
	h, g := gated(t) // never opened: the provider does not answer
	e, _ := h.openStep()
	own := choice
	own.Timeout = 50 * time.Millisecond
	_, err := h.Think(t.Context(), contract.ThinkInput{Execution: e, Turn: 1, Model: own, Timeout: time.Hour})
	require.Equal(t, contract.CodeTimeout, fault.Of(err).Code)
	require.ErrorContains(t, err, "within 50ms")
	require.Len(t, g.arrived, 1)
}

func TestASecondTryOfACallUnderWayJoinsItInsteadOfPayingAgain(t *testing.T) {
	t.Parallel()
	h, g := gated(t)
	e, _ := h.openStep()
	in := contract.ThinkInput{Execution: e, Turn: 1, Model: choice}
	first := think(t.Context(), h.Activities, in)
	require.NotEmpty(t, <-g.arrived)
	second := think(t.Context(), h.Activities, in)
	h.awaitWaiting(h.Activities, e, 2)
	close(g.open)
	one, two := <-first, <-second
	require.NoError(t, one.err)
	require.NoError(t, two.err)
	require.Equal(t, one, two)
	require.Empty(t, g.arrived)
	h.requireOnePaidCall(110)
}

func TestAModelCallContinuesForTheRetryAfterAHeartbeatTimeout(t *testing.T) {
	t.Parallel()
	h, g := gated(t)
	e, _ := h.openStep()
	in := contract.ThinkInput{Execution: e, Turn: 1, Model: choice}
	ctx, lose := context.WithCancelCause(t.Context())
	first := think(ctx, h.Activities, in)
	<-g.arrived
	lose(serviceerror.NewNotFound("the heartbeat came too late"))
	require.ErrorIs(t, (<-first).err, context.Canceled)
	second := think(t.Context(), h.Activities, in)
	close(g.open)
	two := <-second
	require.NoError(t, two.err)
	require.True(t, two.Finish)
	require.Empty(t, g.arrived)
	require.Empty(t, g.left, "nobody hung up")
	h.requireOnePaidCall(110)
}

func TestAStoppedRunsCallIsHungUpAndItsBudgetFree(t *testing.T) {
	t.Parallel()
	for name, cause := range map[string]error{"the run is stopped": temporal.NewCanceledError(), "the worker stops": worker.ErrWorkerShutdown} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h, g := gated(t)
			e, _ := h.openStep()
			in := contract.ThinkInput{Execution: e, Turn: 1, Model: choice}
			ctx, stop := context.WithCancelCause(t.Context())
			first := think(ctx, h.Activities, in)
			<-g.arrived
			stop(cause)
			require.ErrorIs(t, (<-first).err, context.Canceled)
			<-g.left
			budget, err := h.Store.Budget(t.Context(), store.ScopeRun, "1")
			require.NoError(t, err)
			require.Zero(t, budget.ReservedTokens, "given back before the activity ended")
			close(g.open)
			again := <-think(t.Context(), h.Activities, in) // after a stop of the worker another one comes
			require.NoError(t, again.err)
			h.requireOnePaidCall(110)
		})
	}
}

func TestAnotherWorkerWaitsForACallThatALivingOneMakes(t *testing.T) {
	t.Parallel()
	h, g := gated(t)
	other := h.otherWorker()
	e, _ := h.openStep()
	in := contract.ThinkInput{Execution: e, Turn: 1, Model: choice}
	first := think(t.Context(), h.Activities, in)
	key := <-g.arrived
	require.NotEmpty(t, key)
	ctx, cancel := context.WithCancel(t.Context())
	waits := think(ctx, other, in)
	cancel() // a waiting attempt can be cancelled
	require.ErrorIs(t, (<-waits).err, context.Canceled)
	h.awaitWaiting(other, e, 0)
	said := make(lines, 10)
	other.Log = slog.New(slog.NewTextHandler(said, nil))
	second := think(t.Context(), other, in)
	select {
	case line := <-said:
		require.Contains(t, line, "waiting for its response")
	case <-g.arrived:
		require.Fail(t, "it was asked, and paid, twice")
	}
	close(g.open)
	one, two := <-first, <-second
	require.NoError(t, one.err)
	require.NoError(t, two.err)
	require.Equal(t, one, two)
	require.Empty(t, g.arrived)
	h.requireOnePaidCall(110)
}

func TestAnotherWorkerAsksAgainWithTheSameKeyOnceTheFirstIsDead(t *testing.T) {
	t.Parallel()
	h, g := gated(t)
	dies := h.otherWorker()
	e, _ := h.openStep()
	in := contract.ThinkInput{Execution: e, Turn: 1, Model: choice}
	first := think(t.Context(), dies, in)
	key := <-g.arrived
	dies.Store.Close() // all that a process holds in the database ends with it
	second := think(t.Context(), h.Activities, in)
	require.Equal(t, key, <-g.arrived)
	close(g.open)
	two := <-second
	require.NoError(t, two.err)
	require.True(t, two.Finish)
	<-first
}

// lines is a log that passes on its lines.
type lines chan string

// Write passes a line on.
func (l lines) Write(p []byte) (int, error) {
	l <- string(p)
	return len(p), nil
}

// otherWorker returns another worker on the same database.
func (h *fixture) otherWorker() *activities.Activities {
	h.t.Helper()
	db, err := store.Open(h.t.Context(), h.url, store.Options{MaxConns: 4})
	require.NoError(h.t, err)
	h.t.Cleanup(db.Close)
	return &activities.Activities{
		Store: db, Views: views.New(db), Model: h.Model, Workspaces: h.Workspaces, Tools: h.Tools, Sandbox: h.Sandbox, Artifacts: h.Artifacts,
		Config: h.Config, DataDir: h.DataDir, Log: h.Log,
	}
}

func TestACallUsesTheModelThatTheRunsStrategyChooses(t *testing.T) {
	t.Parallel()
	h := newFixture(t, "  - reply: {tool_calls: [{name: finish, arguments: {summary: done}}]}\n")
	cheap := contract.ModelChoice{Provider: choice.Provider, Model: "cheap"}
	h.Config.Models.Catalogue = append(h.Config.Models.Catalogue,
		config.CatalogueEntry{Provider: choice.Provider, Model: "cheap", PriceIn: 10, PriceOut: 10, Capabilities: []string{"tools"}},
		config.CatalogueEntry{Provider: choice.Provider, Model: "blind", Capabilities: []string{"json_schema"}})
	h.Model.Close()
	var err error
	h.Model, err = setup.Model(h.Config)
	require.NoError(t, err)
	t.Cleanup(h.Model.Close)
	h.Router = setup.Router(h.Store, h.Model, h.Admission)
	storetest.Query(t, h.url, func(ctx context.Context, conn *pgx.Conn) {
		_, err := conn.Exec(ctx, `UPDATE orchestrator_runs SET settings = settings || $2 WHERE id = $1`, h.run.ID, map[string]any{"routing": contract.Routing{
			Strategies: map[contract.Agent]contract.RouteStrategy{contract.AgentBuilder: contract.RouteCheapest}, Candidates: []contract.ModelChoice{cheap, {Provider: choice.Provider, Model: "blind"}},
		}})
		require.NoError(t, err)
	})
	e, _ := h.openStep()
	_, err = h.Think(t.Context(), contract.ThinkInput{Execution: e, Turn: 1, Model: choice})
	require.NoError(t, err)
	lines, err := scripted.ReadLog(h.log)
	require.NoError(t, err)
	require.Equal(t, "cheap", lines[len(lines)-1].Model)
	calls, err := h.Store.ModelCalls(t.Context(), h.run.ID)
	require.NoError(t, err)
	require.Equal(t, "cheap", calls[0].Model, "the model that is paid")
	var why contract.RouteDecision
	require.NoError(t, json.Unmarshal(calls[0].Route, &why))
	require.Equal(t, contract.RouteCheapest, why.Strategy)
	require.Contains(t, why.Reasons[0], "cheap is the cheapest of 2 models")
	require.Equal(t, []contract.PassedOver{{Provider: choice.Provider, Model: "blind", Why: "it cannot call tools"}}, why.PassedOver)

	switched := contract.ModelChoice{Provider: choice.Provider, Model: "switched"}
	_, err = h.Think(t.Context(), contract.ThinkInput{Execution: e, Turn: 2, Model: switched})
	require.NoError(t, err)
	calls, err = h.Store.ModelCalls(t.Context(), h.run.ID)
	require.NoError(t, err)
	require.Equal(t, "switched", calls[1].Model, "a person's choice comes first")
}

// outChoice is a model whose provider does not respond.
var outChoice = contract.ModelChoice{Provider: "main", Model: "large"}

// withoutMain is a fixture with another provider, "main", that is out, and with entries in its
// catalogue.
func withoutMain(t *testing.T, entries ...config.CatalogueEntry) *fixture {
	t.Helper()
	h := newFixture(t, editHello)
	gone := httptest.NewServer(http.NotFoundHandler())
	gone.Close() // nothing listens at its address any more
	h.Config.Models.Providers["main"] = config.Provider{Kind: "scripted", BaseURL: gone.URL + "/v1"}
	h.Config.Models.Catalogue = append(h.Config.Models.Catalogue, entries...)
	h.Model.Close()
	var err error
	h.Model, err = setup.Model(h.Config)
	require.NoError(t, err)
	t.Cleanup(h.Model.Close)
	h.Admission = setup.Admission(h.Config, h.Store, h.Model, h.Log)
	return h
}

func TestAModelThatCannotMakeTheCallDoesNotTakeItOver(t *testing.T) {
	t.Parallel()
	entry := func(name string, window int, capabilities ...string) config.CatalogueEntry {
		return config.CatalogueEntry{Provider: choice.Provider, Model: name, ContextWindow: window, PriceIn: 1, PriceOut: 1, Capabilities: capabilities}
	}
	h := withoutMain(t, entry("chat-only", 100_000, "json_schema"), entry("small", 500, "tools", "json_schema"))
	e, _ := h.openStep()
	unfit := []contract.ModelChoice{{Provider: choice.Provider, Model: "chat-only"}, {Provider: choice.Provider, Model: "small"}}
	in := contract.ThinkInput{Execution: e, Turn: 1, Model: outChoice, Fallbacks: unfit}
	var err error
	for range 6 {
		_, err = h.Think(t.Context(), in)
		require.True(t, fault.Is(err, contract.CodeUnavailable), "%v", err)
	}
	require.ErrorContains(t, err, "chat-only: it cannot call tools; ")
	require.ErrorContains(t, err, "small: its context window of 500 tokens is too small for a prompt of about ")
	require.ErrorContains(t, err, "models.fallback")
	events, err := h.Store.Events(t.Context(), h.run.ID, 0, 0)
	require.NoError(t, err)
	require.False(t, slices.ContainsFunc(events, func(e contract.Event) bool { return e.Type == contract.EventModelFallback }))

	in.Fallbacks = append(unfit, choice)
	_, err = h.Think(t.Context(), in)
	require.NoError(t, err)
	calls, err := h.Store.ModelCalls(t.Context(), h.run.ID)
	require.NoError(t, err)
	require.Equal(t, choice.Model, calls[0].Model)
	var why contract.RouteDecision
	require.NoError(t, json.Unmarshal(calls[0].Route, &why))
	require.Equal(t, "main/large is out, so "+choice.Provider+"/"+choice.Model+" takes its place", why.Reasons[0])
	require.Len(t, why.PassedOver, 2)
	require.Equal(t, contract.PassedOver{Provider: choice.Provider, Model: "chat-only", Why: "it cannot call tools"}, why.PassedOver[0])
}

func TestWhileAProviderIsOutACallUsesTheRunsOtherModel(t *testing.T) {
	t.Parallel()
	h := withoutMain(t)
	e, _ := h.openStep()
	out := outChoice
	in := contract.ThinkInput{Execution: e, Turn: 1, Model: out, Fallbacks: []contract.ModelChoice{out, choice}}
	for range 4 {
		_, err := h.Think(t.Context(), in)
		require.Equal(t, contract.CodeUnavailable, fault.Of(err).Code)
	}
	result, err := h.Think(t.Context(), in)
	require.NoError(t, err, "the fifth failure opens the breaker, and the call continues with the other model")
	require.True(t, result.Finish)
	calls, err := h.Store.ModelCalls(t.Context(), h.run.ID)
	require.NoError(t, err)
	require.Len(t, calls, 1)
	require.Equal(t, choice.Provider+"/"+choice.Model, calls[0].Provider+"/"+calls[0].Model, "the model that is paid")
	events, err := h.Store.Events(t.Context(), h.run.ID, 0, 0)
	require.NoError(t, err)
	require.Len(t, slices.DeleteFunc(events, func(e contract.Event) bool { return e.Type != contract.EventModelFallback }), 1)
	budget, err := h.Store.Budget(t.Context(), store.ScopeRun, strconv.FormatInt(h.run.ID, 10))
	require.NoError(t, err)
	require.Zero(t, budget.ReservedTokens)

	again, err := h.Think(t.Context(), contract.ThinkInput{Execution: e, Turn: 1, Model: out})
	require.NoError(t, err, "a stored response needs no provider")
	require.Equal(t, result, again)
}
