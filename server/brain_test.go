package server_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/internal/await"
	"github.com/rocketgpt/orchestrator/internal/brain"
	"github.com/rocketgpt/orchestrator/internal/config"
	"github.com/rocketgpt/orchestrator/internal/control"
	"github.com/rocketgpt/orchestrator/internal/scripted"
	"github.com/rocketgpt/orchestrator/test/harness"
)

// code is a repository with something to find.
func code(t *testing.T) string {
	t.Helper()
	return harness.Repo(t, filepath.Join(t.TempDir(), "app"), map[string]string{
		"shop/invoice.go": "package shop\n\n// Total adds up what a customer owes.\nfunc Total(lines []Line) Money { return 0 }\n",
		"shop/store.go":   "package shop\n\nfunc Rows() {}\n", "web/page.ts": "export function page() {}\n", ".env": "KEY=1\n",
	})
}

// indexing returns the newest indexing of the server when it has ended.
func (b *fixture) indexing(t *testing.T) (x control.Indexing, stats control.BrainStats) {
	t.Helper()
	await.Until(t, "the indexing ends", func() bool {
		stats = control.BrainStats{}
		require.NoError(t, json.Unmarshal(b.send(t, http.MethodGet, "/api/brain/stats", "").Body.Bytes(), &stats))
		x = stats.Indexing[0]
		return x.State != control.IndexingRunning
	})
	return x, stats
}

func TestARepositoryIsIndexedInTheBackgroundAndSearched(t *testing.T) {
	t.Parallel()
	b := setup(t)
	repo := code(t)
	var started control.Indexing
	b.post(t, "/api/brain/index", `{"repo": "`+repo+`"}`, http.StatusAccepted, &started)
	require.Equal(t, repo, started.Repo)
	require.Equal(t, control.IndexingRunning, started.State)
	x, stats := b.indexing(t)
	require.Equal(t, control.IndexingDone, x.State, x.Error)
	require.Equal(t, started.ID, x.ID)
	require.Equal(t, started.Commit, x.Indexed.Commit)
	require.Equal(t, 3, x.Indexed.Documents)
	require.Equal(t, map[string]int{"may contain secrets": 1}, x.Indexed.Skipped)
	require.Equal(t, 3, x.Progress.Done)
	require.Equal(t, 1, stats.Repositories)
	require.Positive(t, stats.Bytes)
	require.Positive(t, stats.SharedBytes)
	require.Len(t, stats.Indexes, 1)
	require.Equal(t, repo, stats.Indexes[0].Repo)
	require.Equal(t, stats.Bytes, stats.Indexes[0].Bytes)

	var answer brain.Answer
	w := b.send(t, http.MethodGet, "/api/brain/search?"+url.Values{"repo": {repo}, "query": {"what a customer owes"}, "path": {"shop/**"}}.Encode(), "")
	require.Equal(t, http.StatusOK, w.Code, w.Body)
	require.NoError(t, json.Unmarshal(w.Body.Bytes(), &answer))
	require.Equal(t, "shop/invoice.go", answer.Files[0].Path)
	require.NotEmpty(t, answer.Files[0].Why)
	require.Equal(t, started.Commit, answer.Commit)
	require.Empty(t, answer.Notes)
	w = b.send(t, http.MethodGet, "/api/brain/map?"+url.Values{"repo": {repo}, "tokens": {"300"}}.Encode(), "")
	require.Contains(t, w.Body.String(), "func Total(lines []Line) Money")

	b.post(t, "/api/brain/index", `{"repo": "`+repo+`"}`, http.StatusAccepted, &started)
	x, _ = b.indexing(t)
	require.Equal(t, started.ID, x.ID)
	require.Zero(t, x.Indexed.Read, "nothing is read twice")
}

func TestAQueryThatIsWrongIsRejectedBeforeItsRepositoryIsIndexed(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for _, query := range []url.Values{{"query": {" "}}, {"query": {"x"}, "path": {"[a"}}} {
		query.Set("repo", code(t))
		w := b.send(t, http.MethodGet, "/api/brain/search?"+query.Encode(), "")
		require.Equal(t, http.StatusUnprocessableEntity, w.Code, w.Body)
	}
	var stats control.BrainStats
	require.NoError(t, json.Unmarshal(b.send(t, http.MethodGet, "/api/brain/stats", "").Body.Bytes(), &stats))
	require.Zero(t, stats.Repositories)
	require.Empty(t, stats.Indexes)
}

func TestWhatCannotBeIndexedIsSaidAtOnce(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.post(t, "/api/brain/index", `{"repo": "`+t.TempDir()+`"}`, http.StatusUnprocessableEntity, nil)
	b.post(t, "/api/brain/index", `{"repo": "`+code(t)+`", "rev": "none"}`, http.StatusUnprocessableEntity, nil)
	var stats control.BrainStats
	require.NoError(t, json.Unmarshal(b.send(t, http.MethodGet, "/api/brain/stats", "").Body.Bytes(), &stats))
	require.Empty(t, stats.Indexing)
}

// reranking makes a scripted model order what searches of the server find; its scenario has these rules.
func (b *fixture) reranking(t *testing.T, rules string) {
	t.Helper()
	scenario, err := scripted.Parse("test", []byte("rules:\n"+rules))
	require.NoError(t, err)
	model, err := scripted.New(scenario, scripted.Options{})
	require.NoError(t, err)
	web := httptest.NewServer(model)
	t.Cleanup(func() { require.NoError(t, model.Close()); web.Close() })
	b.config.Models.Providers["scripted"] = config.Provider{Kind: "scripted", BaseURL: web.URL + "/v1", MaxConcurrent: 1}
	b.config.Brain.Rerank.Provider, b.config.Brain.Rerank.Model, b.config.Brain.Rerank.Wait = "scripted", "scripted<b>", time.Minute
}

func TestAModelOrdersWhatASearchFindsUnlessTheRequestSaysOtherwise(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.reranking(t, "  - when: {contains: refuse}\n    reply: {text: 'I will <b>not</b>.'}\n  - reply: {json: {order: [2, 1]}}\n")
	repo := code(t)
	search := func(query string, more ...string) (a brain.Answer) {
		path := "/api/brain/search?" + url.Values{"repo": {repo}, "query": {query}, "lang": {"go"}}.Encode()
		for _, m := range more {
			path += "&" + m
		}
		w := b.send(t, http.MethodGet, path, "")
		require.Equal(t, http.StatusOK, w.Code, w.Body)
		require.NoError(t, json.Unmarshal(w.Body.Bytes(), &a))
		return a
	}
	const query = "total of an invoice, rows"
	kept := search(query, "rerank=false")
	require.Len(t, kept.Files, 2)
	require.Nil(t, kept.Rerank)
	moved := search(query)
	require.Equal(t, []string{kept.Files[1].Path, kept.Files[0].Path}, []string{moved.Files[0].Path, moved.Files[1].Path})
	require.True(t, moved.Rerank.Applied)
	require.Positive(t, moved.Rerank.CostUSD)
	refused := search(query + " refuse")
	require.False(t, refused.Rerank.Applied)
	require.Contains(t, refused.Notes[0], "did not order the files")

	show := func(query string) string {
		return b.ready(t, url.Values{"show": {"search"}, "repo": {repo}, "query": {query}, "lang": {"go"}})
	}
	require.Contains(t, show(query), "ordered by scripted/scripted&lt;b&gt; ($0.0000)", "the order is known")
	text := show(query + " refuse")
	require.Contains(t, text, "not ordered by scripted/scripted&lt;b&gt; ($0.")
	require.Contains(t, text, "The model of brain.rerank did not order the files: ")
	require.NotContains(t, text, "I will")
	c, _ := clientOf(t, b.handler, quietly)
	for keep, first := range map[bool]string{true: kept.Files[0].Path, false: moved.Files[0].Path} {
		answer, err := c.BrainSearch(t.Context(), control.BrainQuery{Repo: repo, Query: brain.Query{Text: query, Lang: "go", KeepOrder: keep}})
		require.NoError(t, err)
		require.Equal(t, first, answer.Files[0].Path)
	}
}

func TestAClientWaitsForAnIndexing(t *testing.T) {
	t.Parallel()
	b := setup(t)
	c, _ := clientOf(t, b.handler, quietly)
	repo := code(t)
	done, err := c.IndexRepository(t.Context(), repo, "", nil)
	require.NoError(t, err)
	require.Equal(t, 3, done.Documents)
	answer, err := c.BrainSearch(t.Context(), control.BrainQuery{Repo: repo, Query: brain.Query{Text: "invoice total", Explain: true}})
	require.NoError(t, err)
	require.Equal(t, "shop/invoice.go", answer.Files[0].Path)
	require.Contains(t, answer.Text, "matched: ")
}
