package embedding_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/artifact"
	"github.com/rocketgpt/orchestrator/internal/await"
	"github.com/rocketgpt/orchestrator/internal/brain"
	"github.com/rocketgpt/orchestrator/internal/embedding"
	"github.com/rocketgpt/orchestrator/internal/setup"
	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/internal/storetest"
	"github.com/rocketgpt/orchestrator/internal/workspace"
)

// indexing is a host that indexes a repository with embeddings, which the scripted model computes over
// HTTP.
type indexing struct {
	*indexer
	*brain.Brain
	workspaces *workspace.Manager
	root, repo string
}

// withModel are settings that choose the scripted model, which computes embeddings of 256 dimensions.
func withModel(more ...string) map[string]string {
	flags := map[string]string{"brain.embeddings.provider": setup.Scripted, "brain.embeddings.model": setup.Scripted, "brain.embeddings.wait": "30s"}
	for i := 0; i < len(more); i += 2 {
		flags[more[i]] = more[i+1]
	}
	return flags
}

func newIndexing(t *testing.T, flags map[string]string) *indexing {
	t.Helper()
	x := &indexing{indexer: newIndexer(t, 0, flags), repo: t.TempDir()}
	x.git("init", "-q", "-b", "main")
	x.write("pay/invoice.go", "package pay\n\n// Total adds up what a customer owes.\nfunc Total() int { return 0 }\n")
	x.write("web/page.ts", "// Draws the front page.\nexport function page() {}\n")
	x.write(".env", "KEY=sk-secret\n")
	x.commit()
	x.host()
	return x
}

// host starts another host, whose disk is empty.
func (x *indexing) host() {
	x.t.Helper()
	blobs, err := artifact.Open(x.t.Context(), "mem://", "")
	require.NoError(x.t, err)
	x.t.Cleanup(func() { blobs.Close() })
	x.workspaces, err = workspace.New(workspace.Options{CacheDir: x.t.TempDir(), Blobs: blobs})
	require.NoError(x.t, err)
	x.root = x.t.TempDir()
	x.open()
}

// open starts a process of the host.
func (x *indexing) open() {
	x.t.Helper()
	log := slog.New(slog.DiscardHandler)
	e, err := embedding.ForBrain(x.Config, x.fixture.Store, x.Model, setup.Admission(x.Config, x.fixture.Store, x.Model, log), log)
	require.NoError(x.t, err)
	x.Brain = brain.New(brain.Options{Root: x.root, Workspaces: x.workspaces, Store: x.fixture.Store, Embeddings: e, Log: log})
	x.t.Cleanup(x.Close)
}

func (x *indexing) git(args ...string) {
	x.t.Helper()
	cmd := exec.CommandContext(x.t.Context(), "git", append([]string{"-C", x.repo, "-c", "user.name=u", "-c", "user.email=u@example.com"}, args...)...)
	out, err := cmd.CombinedOutput()
	require.NoError(x.t, err, "%s", out)
}

func (x *indexing) write(name, content string) {
	x.t.Helper()
	require.NoError(x.t, os.MkdirAll(filepath.Dir(filepath.Join(x.repo, name)), 0o755))
	require.NoError(x.t, os.WriteFile(filepath.Join(x.repo, name), []byte(content), 0o600))
}

func (x *indexing) commit() {
	x.t.Helper()
	x.git("add", "-Af")
	x.git("commit", "-qm", "x")
}

func (x *indexing) workspace() contract.Workspace {
	x.t.Helper()
	at, _, err := x.workspaces.Resolve(x.t.Context(), x.repo, "")
	require.NoError(x.t, err)
	ws, err := x.workspaces.Start(x.t.Context(), at)
	require.NoError(x.t, err)
	return ws
}

func (x *indexing) index() brain.Embedded {
	x.t.Helper()
	_, stats, err := x.Index(x.t.Context(), x.workspace(), nil)
	require.NoError(x.t, err)
	require.NotNil(x.t, stats.Embeddings)
	return *stats.Embeddings
}

func (x *indexing) search(question string) brain.Answer {
	x.t.Helper()
	view, err := x.ViewOf(x.t.Context(), x.workspace())
	require.NoError(x.t, err)
	answer, err := view.Search(x.t.Context(), brain.Query{Text: question})
	require.NoError(x.t, err)
	return answer
}

// signals are the names of what found the first file.
func signals(a brain.Answer) (names []string) {
	for _, why := range a.Files[0].Why {
		names = append(names, why.Signal)
	}
	return names
}

// project returns the budget of the repository's project and day.
func (x *indexing) project() store.Budget {
	x.t.Helper()
	scope := store.PeriodScope(store.ScopeProject, setup.ProjectOf(x.repo), time.Now(), store.Daily, 0, 0)
	b, err := x.fixture.Budget(x.t.Context(), scope.Kind, scope.Key)
	require.NoError(x.t, err)
	return b
}

func (x *indexing) sent() string {
	x.t.Helper()
	content, err := os.ReadFile(x.requests)
	require.NoError(x.t, err)
	return string(content)
}

func TestOnlyFilesThatHaveNoEmbeddingYetAreEmbedded(t *testing.T) {
	t.Parallel()
	x := newIndexing(t, withModel())
	first := x.index()
	require.Equal(t, []any{2, 0, 2, 0, ""}, []any{first.Files, first.Missing, first.Computed, first.Shared, first.Problem})
	require.Positive(t, first.Texts)
	require.Positive(t, first.CostUSD)
	require.Equal(t, "scripted/scripted", first.Model)
	again := x.index()
	require.Equal(t, []any{2, 0, 0, 0, 0.0}, []any{again.Files, again.Missing, again.Computed, again.Texts, again.CostUSD})

	x.write("web/page.ts", "// Draws the last page.\nexport function page() {}\n")
	x.commit()
	changed := x.index()
	require.Equal(t, []int{2, 0, 1}, []int{changed.Files, changed.Missing, changed.Computed})

	x.host()
	other := x.index()
	require.Equal(t, []int{2, 0, 0, 2}, []int{other.Files, other.Missing, other.Computed, other.Shared})
	require.NotContains(t, x.sent(), "sk-secret", "what is not indexed is not embedded")
	day := x.project()
	require.Positive(t, day.SpentMicros, "the project of the repository pays")
	require.Zero(t, day.ReservedMicros)
}

func TestASearchUsesTheEmbeddingsOfFilesAndQuestion(t *testing.T) {
	t.Parallel()
	x := newIndexing(t, withModel())
	before := x.search("what a customer owes")
	require.NotContains(t, signals(before), "embedding")
	require.Contains(t, before.Notes[0], "No file has an embedding yet")
	x.index()
	after := x.search("what a customer owes")
	require.Empty(t, after.Notes)
	require.Equal(t, "pay/invoice.go", after.Files[0].Path)
	require.Contains(t, signals(after), "embedding")
	asked := x.asked.Load()
	x.search("what a customer owes")
	require.Equal(t, asked, x.asked.Load(), "a question is embedded once")
	x.open()
	require.Contains(t, signals(x.search("what a customer owes")), "embedding", "another process of the host uses what is on its disk")
}

func TestWhenTheModelIsOutIndexingAndSearchesGoOnWithoutAndSaySo(t *testing.T) {
	t.Parallel()
	x := newIndexing(t, withModel("models.breaker.failures", "0"))
	x.respond(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) })
	out := x.index()
	require.Equal(t, []int{0, 2}, []int{out.Files, out.Missing})
	require.Contains(t, out.Problem, "503")
	stats, err := x.Stats(t.Context())
	require.NoError(t, err)
	require.Equal(t, []any{"scripted/scripted", 0, 2}, []any{stats.Embeddings.Model, stats.Embeddings.Files, stats.Embeddings.Missing})
	require.Contains(t, stats.Embeddings.Problems[0].Text, "503")

	x.instead.Store(nil)
	require.Empty(t, x.index().Problem)
	x.respond(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) })
	answer := x.search("what a customer owes")
	require.Equal(t, "pay/invoice.go", answer.Files[0].Path)
	require.NotContains(t, signals(answer), "embedding")
	require.Contains(t, answer.Notes[0], "The search did without embeddings: ")
}

func TestASearchDoesNotWaitLongForTheModel(t *testing.T) {
	t.Parallel()
	x := newIndexing(t, withModel("brain.embeddings.wait", "50ms"))
	x.index()
	x.respond(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // so that the server notices that the client is gone
		<-r.Context().Done()
	})
	answer := x.search("what a customer owes")
	require.Equal(t, "pay/invoice.go", answer.Files[0].Path)
	require.Contains(t, answer.Notes[0], "brain.embeddings.wait")
}

func TestEmbeddingsOfAnotherLengthAreRefused(t *testing.T) {
	t.Parallel()
	x := newIndexing(t, withModel())
	x.index()
	x.write("new.go", "package main\n")
	x.commit()
	x.respond(func(w http.ResponseWriter, r *http.Request) {
		var request struct{ Input []string }
		_ = json.NewDecoder(r.Body).Decode(&request)
		_, _ = w.Write([]byte(`{"data": [` + strings.TrimSuffix(strings.Repeat(`{"embedding": [1, 2]},`, len(request.Input)), ",") + `], "usage": {"prompt_tokens": 20}}`))
	})
	out := x.index()
	require.Equal(t, []int{2, 1}, []int{out.Files, out.Missing})
	require.Contains(t, out.Problem, "have another length than before: 2, not 256")
	require.Contains(t, x.search("owes a new customer").Notes[0], "The search did without embeddings: ")
}

func TestAnotherModelComputesAllEmbeddingsAgainAndOldOnesExpire(t *testing.T) {
	t.Parallel()
	x := newIndexing(t, withModel())
	x.index()
	x.Config.Brain.Embeddings.Dimensions = 64
	x.open()
	out := x.index()
	require.Equal(t, []int{2, 2}, []int{out.Files, out.Computed})
	require.Contains(t, signals(x.search("what a customer owes")), "embedding")
	storetest.Query(t, x.fixture.URL, func(ctx context.Context, conn *pgx.Conn) {
		var n int
		require.NoError(t, conn.QueryRow(ctx, "SELECT count(*) FROM orchestrator_brain_blobs").Scan(&n))
		require.Equal(t, 6, n, "two extracts, and two embeddings of each model, all of which brain.age removes")
	})
}

func TestAnIndexingKeepsToItsLimitsAndTheNextOneContinues(t *testing.T) {
	t.Parallel()
	for key, value := range map[string]string{"max_texts": "2", "max_size": "150"} {
		x := newIndexing(t, withModel("brain.embeddings."+key, value))
		out := x.index()
		require.Equal(t, []int{1, 1, 1}, []int{out.Files, out.Missing, out.Computed}, key)
		require.Contains(t, out.Problem, "brain.embeddings."+key)
		require.Contains(t, x.search("what a customer owes").Notes[0], "1 of 2 files have no embedding yet")
		require.Equal(t, 2, x.index().Files, key)
	}
}

func TestAnIndexingStopsAtItsLimitOfCostAndTheNextOneContinues(t *testing.T) {
	t.Parallel()
	x := newIndexing(t, withModel("brain.embeddings.max_cost_usd", "0.000001"))
	const files = 120 // the cost is checked after each 100
	for i := range files {
		x.write(fmt.Sprintf("more/file%03d.go", i), fmt.Sprintf("package more\n\n// Number%d counts.\nfunc Number%d() {}\n", i, i))
	}
	x.commit()
	out := x.index()
	require.Equal(t, []int{100, files + 2 - 100, 100}, []int{out.Files, out.Missing, out.Computed})
	require.Contains(t, out.Problem, "brain.embeddings.max_cost_usd")
	require.Positive(t, out.CostUSD)
	require.InDelta(t, out.CostUSD*1e6, x.project().SpentMicros, 0.5, "what was computed was paid for")
	again := x.index()
	require.Equal(t, []any{files + 2, 0, files + 2 - 100, ""}, []any{again.Files, again.Missing, again.Computed, again.Problem})
}

func TestAnIndexingStopsWhenItsTimeIsOverAndTheNextOneContinues(t *testing.T) {
	t.Parallel()
	x := newIndexing(t, withModel("brain.embeddings.max_time", "50ms"))
	x.respond(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // so that the server notices that the client is gone
		<-r.Context().Done()
	})
	out := x.index()
	require.Equal(t, []int{0, 2}, []int{out.Files, out.Missing})
	require.Contains(t, out.Problem, "brain.embeddings.max_time")
	require.Equal(t, "pay/invoice.go", x.search("what a customer owes").Files[0].Path, "the index is there")
	require.Zero(t, x.project().ReservedMicros)

	x.instead.Store(nil)
	x.Config.Brain.Embeddings.MaxTime = 0
	x.open()
	again := x.index()
	require.Equal(t, []any{2, 0, 2, ""}, []any{again.Files, again.Missing, again.Computed, again.Problem})
}

func TestABudgetThatIsUsedUpStopsEmbeddingsButNotTheIndex(t *testing.T) {
	t.Parallel()
	x := newIndexing(t, withModel("models.budgets.project_day_tokens", "10"))
	out := x.index()
	require.Equal(t, []int{0, 2}, []int{out.Files, out.Missing})
	require.Contains(t, out.Problem, "models.budgets.project_day_tokens")
	require.Zero(t, x.asked.Load())
	require.Equal(t, "pay/invoice.go", x.search("what a customer owes").Files[0].Path)
}

func TestWhatIsPreparedForARunIsEmbeddedInTheBackground(t *testing.T) {
	t.Parallel()
	x := newIndexing(t, withModel())
	ws := x.workspace()
	x.Prepare(ws)
	view, err := x.Prepared(t.Context(), ws, time.Minute)
	require.NoError(t, err)
	await.Until(t, "the files are embedded", func() bool {
		stats, err := x.Stats(t.Context())
		require.NoError(t, err)
		return stats.Embeddings.Files == 2
	})
	answer, err := view.Search(t.Context(), brain.Query{Text: "what a customer owes"})
	require.NoError(t, err)
	require.Contains(t, signals(answer), "embedding", "a view that is in use gets them")
}

func TestWithoutAModelNothingIsEmbeddedAndAnExplanationSaysSo(t *testing.T) {
	t.Parallel()
	x := newIndexing(t, nil)
	_, stats, err := x.Index(t.Context(), x.workspace(), nil)
	require.NoError(t, err)
	require.Nil(t, stats.Embeddings)
	require.Empty(t, x.search("what a customer owes").Notes)
	view, err := x.ViewOf(t.Context(), x.workspace())
	require.NoError(t, err)
	answer, err := view.Search(t.Context(), brain.Query{Text: "what a customer owes", Explain: true})
	require.NoError(t, err)
	require.Contains(t, answer.Notes[0], "brain.embeddings.model is not set")
	require.Zero(t, x.asked.Load())
}
