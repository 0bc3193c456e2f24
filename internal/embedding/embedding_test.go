package embedding_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/await"
	"github.com/rocketgpt/orchestrator/internal/config"
	"github.com/rocketgpt/orchestrator/internal/embedding"
	"github.com/rocketgpt/orchestrator/internal/fault"
	"github.com/rocketgpt/orchestrator/internal/model"
	"github.com/rocketgpt/orchestrator/internal/scripted"
	"github.com/rocketgpt/orchestrator/internal/setup"
	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/internal/storetest"
)

// indexer is an agent whose model is the scripted one, over HTTP.
type indexer struct {
	*embedding.Embedder
	t       *testing.T
	fixture *storetest.Fixture
	work    embedding.Work
	instead atomic.Pointer[http.HandlerFunc] // responds in place of the scripted model
	asked   atomic.Int64
	vectors map[int][]float32

	requests string // file with the requests
}

func newIndexer(t *testing.T, texts int, flags map[string]string) *indexer {
	t.Helper()
	x := &indexer{t: t, fixture: storetest.Setup(t), vectors: map[int][]float32{}}
	scenario, err := scripted.Parse("test", []byte("rules: []"))
	require.NoError(t, err)
	x.requests = filepath.Join(t.TempDir(), "requests.jsonl")
	server, err := scripted.New(scenario, scripted.Options{LogPath: x.requests})
	require.NoError(t, err)
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		x.asked.Add(1)
		if h := x.instead.Load(); h != nil {
			(*h)(w, r)
			return
		}
		server.ServeHTTP(w, r)
	}))
	t.Cleanup(func() { require.NoError(t, server.Close()); web.Close() })
	cfg, err := setup.Load(config.Sources{Env: []string{}, Flags: flags}, web.URL+"/v1")
	require.NoError(t, err)
	models, err := setup.Model(cfg)
	require.NoError(t, err)
	t.Cleanup(models.Close)
	log := slog.New(slog.DiscardHandler)
	x.Embedder = &embedding.Embedder{Store: x.fixture.Store, Admission: setup.Admission(cfg, x.fixture.Store, models, log), Model: models, Config: cfg, Log: log}
	frozen, _ := setup.FreezeWithoutModels(cfg, contract.Repo{})
	x.work = embedding.Work{
		Execution: x.fixture.Apply(t, contract.Record{Begin: &contract.ExecutionBegin{Phase: contract.PhasePlanner, Agent: contract.AgentIndexer}}),
		Choice:    contract.ModelChoice{Provider: setup.Scripted, Model: setup.Scripted}, Budget: frozen.RunBudget,
	}
	for i := range texts {
		x.work.Texts = append(x.work.Texts, fmt.Sprint("text number ", i))
	}
	return x
}

// respond makes a handler respond in place of the scripted model.
func (x *indexer) respond(h http.HandlerFunc) { x.instead.Store(&h) }

// keep keeps vectors in memory.
func (x *indexer) keep(_ context.Context, first int, vectors [][]float32) error {
	for i, v := range vectors {
		x.vectors[first+i] = v
	}
	return nil
}

func (x *indexer) budget() store.Budget {
	x.t.Helper()
	b, err := x.fixture.Budget(x.t.Context(), store.ScopeRun, fmt.Sprint(x.work.Execution.RunID))
	require.NoError(x.t, err)
	return b
}

func TestManyTextsAreEmbeddedInFewCallsThatAreBookedLikeOthers(t *testing.T) {
	t.Parallel()
	x := newIndexer(t, 70, nil)
	used, err := x.Embed(t.Context(), x.work, x.keep)
	require.NoError(t, err)
	require.Len(t, x.vectors, 70)
	require.Equal(t, int64(3), x.asked.Load())
	calls, err := x.fixture.Store.ModelCalls(t.Context(), x.work.Execution.RunID)
	require.NoError(t, err)
	require.Len(t, calls, 3)
	var sum contract.Usage
	for i, c := range calls {
		require.Equal(t, []any{"done", i + 1, contract.AgentIndexer}, []any{c.Status, c.Turn, c.Agent})
		require.Positive(t, c.Usage.MicroUSD)
		sum = sum.Add(c.Usage)
	}
	require.Equal(t, []int64{sum.PromptTokens, sum.MicroUSD}, []int64{used.PromptTokens, used.MicroUSD})
	require.Equal(t, 3, used.Calls)

	basis, err := x.fixture.CallBasis(t.Context(), x.work.Execution, 1)
	require.NoError(t, err)
	scopes := setup.Scopes(x.Config, x.work.Execution.RunID, contract.AgentIndexer, x.work.Budget, basis.Tenant, basis.Project, basis.Now())
	kinds := map[store.ScopeKind]bool{}
	for _, s := range scopes {
		b, err := x.fixture.Budget(t.Context(), s.Kind, s.Key)
		require.NoError(t, err)
		require.Equal(t, []int64{used.Tokens(), used.MicroUSD, 0, 0}, []int64{b.SpentTokens, b.SpentMicros, b.ReservedTokens, b.ReservedMicros}, "%+v", s)
		kinds[s.Kind] = true
	}
	require.Equal(t, map[store.ScopeKind]bool{store.ScopeAgent: true, store.ScopeRun: true, store.ScopeProject: true, store.ScopeTenant: true, store.ScopeDay: true}, kinds)

	used, err = x.Embed(t.Context(), x.work, func(context.Context, int, [][]float32) error { return errors.New("again") })
	require.NoError(t, err)
	require.Zero(t, used, "a repeat makes no call that is done")
	require.Equal(t, int64(3), x.asked.Load())
}

func TestTheMostThatACallCanUseIsReservedWhileItIsMade(t *testing.T) {
	t.Parallel()
	x := newIndexer(t, 2, nil)
	var during store.Budget
	x.respond(func(w http.ResponseWriter, r *http.Request) {
		b, err := x.fixture.Budget(r.Context(), store.ScopeRun, fmt.Sprint(x.work.Execution.RunID))
		if err != nil {
			w.WriteHeader(http.StatusInternalServerError)
			return
		}
		during = b
		_, _ = w.Write([]byte(`{"data": [{"embedding": [1]}, {"embedding": [2]}], "usage": {"prompt_tokens": 20}}`))
	})
	used, err := x.Embed(t.Context(), x.work, x.keep)
	require.NoError(t, err)
	require.Greater(t, during.ReservedTokens, int64(len("text number 0text number 1")), "a token has at least one byte")
	require.Positive(t, during.ReservedMicros)
	require.Equal(t, contract.Usage{Calls: 1, PromptTokens: 20, MicroUSD: 20}, used)
	require.Equal(t, []int64{20, 0}, []int64{x.budget().SpentTokens, x.budget().ReservedTokens})
}

func TestAnAttemptThatFailsInBetweenIsContinuedWithTheCallsThatAreNotDone(t *testing.T) {
	t.Parallel()
	x := newIndexer(t, 70, nil)
	_, err := x.Embed(t.Context(), x.work, func(ctx context.Context, first int, vectors [][]float32) error {
		if first == 32 {
			return errors.New("the disk is full")
		}
		return x.keep(ctx, first, vectors)
	})
	require.ErrorContains(t, err, "the disk is full")
	require.Len(t, x.vectors, 32)
	require.Zero(t, x.budget().ReservedTokens)

	// In the meantime, the limit of the model changes.
	x.Model.SetCatalogue(model.Catalogue{{Provider: setup.Scripted, Model: "*", PriceIn: 1, MaxTexts: 40, Capabilities: []model.Capability{model.CapabilityEmbeddings}}})
	_, err = x.Embed(t.Context(), x.work, x.keep)
	require.NoError(t, err)
	require.Len(t, x.vectors, 70)
	require.Equal(t, int64(3), x.asked.Load(), "the first call is done; the other 38 texts fit into one")
	usage, err := x.fixture.Usage(t.Context(), x.work.Execution.RunID)
	require.NoError(t, err)
	require.Equal(t, usage.Tokens(), x.budget().SpentTokens, "what was paid twice is booked twice")
}

func TestNoCallIsMadeThatTheBudgetOfTheIndexerDoesNotCover(t *testing.T) {
	t.Parallel()
	x := newIndexer(t, 3, map[string]string{"execution.agents.indexer.tokens": "10"})
	_, err := x.Embed(t.Context(), x.work, x.keep)
	require.True(t, fault.Is(err, contract.CodeBudgetExceeded), "%v", err)
	require.ErrorContains(t, err, "execution.agents.indexer.tokens")
	require.Zero(t, x.asked.Load())
	require.Empty(t, x.vectors)
}

func TestNoCallIsMadeThatTheDayDoesNotCover(t *testing.T) {
	t.Parallel()
	x := newIndexer(t, 3, map[string]string{"models.budgets.day_tokens": "10"})
	_, err := x.Embed(t.Context(), x.work, x.keep)
	require.True(t, fault.Is(err, contract.CodeBudgetExceeded), "%v", err)
	require.ErrorContains(t, err, "models.budgets.day_tokens")
	require.Zero(t, x.asked.Load())
}

func TestAnUnusableResponseIsPaidForAndAskedForAgain(t *testing.T) {
	t.Parallel()
	x := newIndexer(t, 3, nil)
	x.respond(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte(`{"data": [{"embedding": [1]}], "usage": {"prompt_tokens": 20}}`))
	})
	used, err := x.Embed(t.Context(), x.work, x.keep)
	require.True(t, fault.Is(err, contract.CodeInvalidOutput), "%v", err)
	require.Equal(t, int64(20), used.PromptTokens)
	require.Equal(t, []int64{20, 0}, []int64{x.budget().SpentTokens, x.budget().ReservedTokens})
	require.Empty(t, x.vectors)
	x.instead.Store(nil)
	again, err := x.Embed(t.Context(), x.work, x.keep)
	require.NoError(t, err)
	require.Len(t, x.vectors, 3)
	require.Equal(t, 20+again.PromptTokens, x.budget().SpentTokens)
}

func TestAProviderThatIsOutIsNotAskedForEmbeddings(t *testing.T) {
	t.Parallel()
	x := newIndexer(t, 1, map[string]string{"models.breaker.failures": "2", "models.breaker.pause": time.Hour.String(), "models.breaker.longest_pause": time.Hour.String()})
	x.respond(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) })
	for range 4 {
		_, err := x.Embed(t.Context(), x.work, x.keep)
		require.True(t, fault.Is(err, contract.CodeUnavailable), "%v", err)
	}
	require.Equal(t, int64(2), x.asked.Load())
	require.Zero(t, x.budget().ReservedTokens+x.budget().SpentTokens)
}

func TestAModelThatComputesNoEmbeddingsIsNotAsked(t *testing.T) {
	t.Parallel()
	x := newIndexer(t, 1, nil)
	x.work.Choice.Model = "reasoning"
	_, err := x.Embed(t.Context(), x.work, x.keep)
	require.True(t, fault.Is(err, contract.CodeInvalidConfig), "%v", err)
	require.Zero(t, x.asked.Load())
}

func TestTheCallsOfAnotherAgentAreNotTakenForEmbeddings(t *testing.T) {
	t.Parallel()
	x := newIndexer(t, 1, nil)
	reserved, err := x.fixture.ReserveCall(t.Context(), store.Reservation{Execution: x.work.Execution, Turn: 1, Provider: "p", Model: "m"})
	require.NoError(t, err)
	require.NoError(t, x.fixture.CompleteCall(t.Context(), reserved.ID, contract.Usage{Calls: 1}, time.Second, []byte(`{"text": "hello"}`), nil))
	_, err = x.Embed(t.Context(), x.work, x.keep)
	require.ErrorContains(t, err, "computed no embeddings")
	require.Zero(t, x.asked.Load())
}

func TestOverlappingAttemptsOfOneProcessShareTheirCalls(t *testing.T) {
	t.Parallel()
	x := newIndexer(t, 2, nil)
	arrived, goOn := make(chan struct{}), make(chan struct{})
	x.respond(func(w http.ResponseWriter, _ *http.Request) {
		close(arrived) // a second request panics
		<-goOn
		_, _ = w.Write([]byte(`{"data": [{"embedding": [1]}, {"embedding": [2]}], "usage": {"prompt_tokens": 20}}`))
	})
	first, second := make(chan error, 1), make(chan error, 1)
	lost, leave := context.WithCancel(t.Context())
	go func() {
		_, err := x.Embed(lost, x.work, x.keep)
		first <- err
	}()
	<-arrived
	go func() {
		_, err := x.Embed(t.Context(), x.work, func(context.Context, int, [][]float32) error { return errors.New("kept twice") })
		second <- err
	}()
	await.Until(t, "the second attempt waits for the first one's call", func() bool { return x.Waiting(x.work.Execution.ID, 1) == 2 })
	leave() // a late heartbeat: the call is paid for and goes on
	require.ErrorIs(t, <-first, context.Canceled)
	close(goOn)
	require.NoError(t, <-second)
	require.Equal(t, int64(1), x.asked.Load())
	require.Len(t, x.vectors, 2)
	require.Equal(t, []int64{20, 0}, []int64{x.budget().SpentTokens, x.budget().ReservedTokens})
}

// outside returns work outside runs with the texts of the indexer's.
func (x *indexer) outside() embedding.Work {
	return embedding.Work{Tenant: "local", Project: "my app", Choice: x.work.Choice, Texts: x.work.Texts}
}

// shared returns the budget of the project's day.
func (x *indexer) shared() store.Budget {
	x.t.Helper()
	scope := store.PeriodScope(store.ScopeProject, "my app", time.Now(), store.Daily, 0, 0)
	b, err := x.fixture.Budget(x.t.Context(), scope.Kind, scope.Key)
	require.NoError(x.t, err)
	return b
}

func TestWithoutARunTheBudgetsOfItsProjectPay(t *testing.T) {
	t.Parallel()
	x := newIndexer(t, 70, nil)
	used, err := x.Embed(t.Context(), x.outside(), x.keep)
	require.NoError(t, err)
	require.Len(t, x.vectors, 70)
	require.Equal(t, int64(3), x.asked.Load())
	for _, s := range setup.SharedScopes(x.Config.Models.Budgets, "local", "my app", time.Now()) {
		b, err := x.fixture.Budget(t.Context(), s.Kind, s.Key)
		require.NoError(t, err)
		require.Equal(t, []int64{used.Tokens(), used.MicroUSD, 0, 0}, []int64{b.SpentTokens, b.SpentMicros, b.ReservedTokens, b.ReservedMicros}, "%+v", s)
	}
	calls, err := x.fixture.Store.ModelCalls(t.Context(), x.work.Execution.RunID)
	require.NoError(t, err)
	require.Empty(t, calls, "calls outside runs belong to none")

	_, err = x.Embed(t.Context(), embedding.Work{Choice: x.work.Choice, Texts: x.work.Texts}, x.keep)
	require.ErrorContains(t, err, "need a tenant and a project")
}

func TestACallOutsideRunsReservesTheMostThatItCanUse(t *testing.T) {
	t.Parallel()
	x := newIndexer(t, 2, nil)
	var during store.Budget
	x.respond(func(w http.ResponseWriter, _ *http.Request) {
		during = x.shared()
		_, _ = w.Write([]byte(`{"data": [{"embedding": [1]}, {"embedding": [2]}], "usage": {"prompt_tokens": 20}}`))
	})
	_, err := x.Embed(t.Context(), x.outside(), x.keep)
	require.NoError(t, err)
	require.Greater(t, during.ReservedTokens, int64(20))
	require.Equal(t, []int64{20, 0}, []int64{x.shared().SpentTokens, x.shared().ReservedTokens})

	x.respond(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) })
	_, err = x.Embed(t.Context(), x.outside(), x.keep)
	require.Error(t, err)
	require.Equal(t, []int64{20, 0}, []int64{x.shared().SpentTokens, x.shared().ReservedTokens}, "a failed call gives back what it reserved")
}

func TestNoCallOutsideRunsIsMadeThatItsBudgetsDoNotCover(t *testing.T) {
	t.Parallel()
	for _, key := range []string{"day_tokens", "project_day_tokens", "project_month_tokens", "tenant_day_tokens"} {
		x := newIndexer(t, 3, map[string]string{"models.budgets." + key: "10"})
		_, err := x.Embed(t.Context(), x.outside(), x.keep)
		require.True(t, fault.Is(err, contract.CodeBudgetExceeded), "%v", err)
		require.ErrorContains(t, err, "models.budgets."+key)
		require.ErrorContains(t, err, "and try again")
		require.Zero(t, x.asked.Load())
	}
}
