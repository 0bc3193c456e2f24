package rank_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/internal/brain/history"
	"github.com/rocketgpt/orchestrator/internal/brain/rank"
	"github.com/rocketgpt/orchestrator/internal/brain/rank/ranktest"
)

var project = map[string]string{
	"cmd/main.go":            "package main\n\nfunc main() { run() }\n",
	"http/client.go":         "package http\n\n// Client sends requests.\ntype Client struct{}\n\nfunc (c *Client) Do(r Request) error { return nil }\n",
	"http/client_test.go":    "package http\n\nfunc TestDo(t *testing.T) {}\n",
	"http/retry.go":          "package http\n\n// RetryPolicy says when a failed request is repeated.\ntype RetryPolicy struct{ MaxAttempts int }\n",
	"http/server.go":         "package http\n\n// Serve answers requests until it is stopped.\nfunc Serve(addr string) error { return nil }\n",
	"config/load.go":         "package config\n\n// Load reads the settings from a file.\nfunc Load(path string) (Config, error) { return Config{}, nil }\n",
	"config/load_test.go":    "package config\n\nfunc TestMissing(t *testing.T) {}\n",
	"store/user_store.go":    "package store\n\ntype UserStore struct{}\n\nfunc (s *UserStore) FindByEmail(email string) {}\n",
	"store/order_store.go":   "package store\n\ntype OrderStore struct{}\n",
	"docs/retries.md":        "# Retries\n\nHow requests are repeated.\n",
	"web/src/UserList.tsx":   "export function UserList() { return null }\n",
	"web/src/user.test.tsx":  "test('x', () => {})\n",
	"web/src/user.tsx":       "export const user = 1\n",
	"scripts/release.sh":     "echo release\n",
	"internal/queue/fifo.go": "package queue\n\n// Queue hands out jobs in order.\ntype Queue struct{}\n",
}

func search(t *testing.T, past rank.Past, q rank.Question) []rank.Result {
	t.Helper()
	c := ranktest.New(project, map[string][]string{"cmd/main.go": {"config/load.go", "internal/queue/fifo.go"}})
	results, err := rank.New(c, past, rank.Tuned()).Search(q)
	require.NoError(t, err)
	return results
}

func first(t *testing.T, text string) rank.Result {
	t.Helper()
	results := search(t, nil, rank.Question{Text: text})
	require.NotEmpty(t, results, text)
	return results[0]
}

func TestAQuestionFindsTheFileThatItIsAbout(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"retry policy ignores the maximum of attempts": "http/retry.go",
		"maxAttempts":                     "http/retry.go",
		"`find_by_email` returns nothing": "store/user_store.go",
		"UserStore is slow":               "store/user_store.go",
		"settings are not loaded":         "config/load.go",
		"fix http/server.go":              "http/server.go",
		"panic: nil\n\t/home/ci/build/project/internal/queue/fifo.go:3": "internal/queue/fifo.go",
		"see server.go":              "http/server.go",
		"wrong in store.order_store": "store/order_store.go",
	} {
		require.Equal(t, want, first(t, text).Path, text)
	}
}

func TestAQuotedDefinitionWinsAgainstWordsOfPaths(t *testing.T) {
	t.Parallel()
	files := map[string]string{"core/run.go": "package core\n\nfunc Export() {}\n\nfunc exportAll() {}\n"}
	for _, dir := range []string{"export", "export/func", "func/export", "export/main", "type/export"} {
		files[dir+"/export.go"] = "package export\n\n// Exports by func, export of a type.\nfunc ExportRows() {}\n\nfunc ExportFunc() {}\n"
	}
	for _, text := range []string{"func Export", "where is `func Export` called", "func (r *Run) Export(w io.Writer) fails", "`type Export`"} {
		results, err := rank.New(ranktest.New(files, nil), nil, rank.Tuned()).Search(rank.Question{Text: text})
		require.NoError(t, err)
		require.Equal(t, "core/run.go", results[0].Path, text)
	}
	results, err := rank.New(ranktest.New(files, nil), nil, rank.Tuned()).Search(rank.Question{Text: "the type export of rows"})
	require.NoError(t, err)
	require.NotEqual(t, "core/run.go", results[0].Path, "prose quotes no definition")
}

func TestAResultSaysWhyItWasFound(t *testing.T) {
	t.Parallel()
	r := first(t, "UserStore is slow in store/user_store.go")
	require.Contains(t, r.String(), "matched: ")
	require.Contains(t, r.String(), "keywords #1 (")
	require.Contains(t, r.String(), "userstore")
	require.Contains(t, r.String(), "named #1")
	require.Contains(t, r.String(), "symbol #1")
}

func TestTheTestOfACandidateIsFoundToo(t *testing.T) {
	t.Parallel()
	for text, pair := range map[string]string{
		"settings are not loaded":       "config/load_test.go",
		"web user constant is wrong":    "web/src/user.test.tsx",
		"Client sends requests by TLS ": "http/client_test.go",
	} {
		found := false
		for _, r := range search(t, nil, rank.Question{Text: text}) {
			if r.Path == pair {
				found = true
				require.Contains(t, r.String(), rank.SignalPair.String())
			}
		}
		require.True(t, found, pair)
	}
}

func TestImportersAreNeighbours(t *testing.T) {
	t.Parallel()
	for _, r := range search(t, nil, rank.Question{Text: "queue hands out jobs"}) {
		if r.Path == "cmd/main.go" {
			require.Contains(t, r.String(), "imports #1 (internal/queue/fifo.go)")
			return
		}
	}
	t.Fatal("cmd/main.go was not found")
}

func past(commits ...history.Commit) *history.History {
	return history.New(commits, history.DefaultCommits, history.Tuned())
}

func commit(n int, message string, paths ...string) history.Commit {
	c := history.Commit{ID: fmt.Sprintf("%040d", n), Message: message, Time: time.Unix(1_700_000_000-int64(n)*86_400, 0)}
	for _, p := range paths {
		c.Changes = append(c.Changes, history.Change{Path: p})
	}
	return c
}

func TestPastCommitsVoteForTheirFiles(t *testing.T) {
	t.Parallel()
	h := past(commit(1, "Let invoices have discounts", "store/order_store.go"))
	results := search(t, h, rank.Question{Text: "discounts of invoices are wrong"})
	require.NotEmpty(t, results)
	require.Equal(t, "store/order_store.go", results[0].Path)
	require.Contains(t, results[0].String(), "similar commits #1 (commit 0000000000)")
}

func TestFilesThatChangeTogetherAreFoundTogether(t *testing.T) {
	t.Parallel()
	h := past(commit(1, "a b", "internal/queue/fifo.go", "scripts/release.sh"), commit(2, "c d", "internal/queue/fifo.go", "scripts/release.sh"))
	for _, r := range search(t, h, rank.Question{Text: "queue hands out jobs"}) {
		if r.Path == "scripts/release.sh" {
			require.Contains(t, r.String(), "changed together #1 (with internal/queue/fifo.go)")
			return
		}
	}
	t.Fatal("scripts/release.sh was not found")
}

func TestEmbeddingsAddFilesWithoutACommonWord(t *testing.T) {
	t.Parallel()
	q := rank.Question{Text: "zzz", Vectors: []rank.Scored{{Doc: 3, Score: 0.9}, {Doc: 1, Score: 0.8}, {Doc: 4_000_000_000, Score: 0.1}}}
	results := search(t, nil, q)
	require.GreaterOrEqual(t, len(results), 2)
	require.Contains(t, results[0].String(), "embedding #1")
}

func TestAFilterLimitsEveryResult(t *testing.T) {
	t.Parallel()
	c := ranktest.New(project, nil)
	h := past(commit(1, "retry requests", "http/retry.go", "docs/retries.md"))
	results, err := rank.New(c, h, rank.Tuned()).Search(rank.Question{
		Text:    "retry requests in http/retry.go",
		Accept:  func(doc uint32) bool { return strings.HasPrefix(c.Path(doc), "docs/") },
		Vectors: []rank.Scored{{Doc: 1, Score: 1}},
	})
	require.NoError(t, err)
	require.Len(t, results, 1)
	require.Equal(t, "docs/retries.md", results[0].Path)
}

func TestTheOrderDoesNotDependOnChance(t *testing.T) {
	t.Parallel()
	h := past(commit(1, "retry requests", "http/retry.go", "docs/retries.md"), commit(2, "user requests", "web/src/user.tsx", "http/client.go"))
	q := rank.Question{Text: "Requests of users are not repeated by the client\n\nSee http/client.go:4 and UserStore."}
	want := search(t, h, q)
	require.NotEmpty(t, want)
	for range 20 {
		require.Equal(t, want, search(t, h, q))
	}
}

func TestAnEmptyQuestionAndAnEmptyRepositoryFindNothing(t *testing.T) {
	t.Parallel()
	require.Empty(t, search(t, nil, rank.Question{}))
	results, err := rank.New(ranktest.New(nil, nil), past(), rank.Tuned()).Search(rank.Question{Text: "fix a/b.go `X`"})
	require.NoError(t, err)
	require.Empty(t, results)
}

func BenchmarkSearchIn100000Files(b *testing.B) {
	files := map[string]string{}
	for i := range 100_000 {
		files[fmt.Sprintf("pkg%d/sub%d/file_%d.go", i%100, i%1000, i)] = fmt.Sprintf("package p\n\n// Handler%d serves requests of kind %d.\nfunc Handler%d(request int) error { return nil }\n", i, i%500, i)
	}
	r := rank.New(ranktest.New(files, nil), nil, rank.Tuned())
	b.ResetTimer()
	for b.Loop() {
		if _, err := r.Search(rank.Question{Text: "Handler serves requests of kind 17 twice: `Handler17` in pkg17/sub17/file_17.go returns an error"}); err != nil {
			b.Fatal(err)
		}
	}
}
