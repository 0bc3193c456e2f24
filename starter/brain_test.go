package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/internal/brain"
	"github.com/rocketgpt/orchestrator/internal/control"
	"github.com/rocketgpt/orchestrator/test/harness"
)

func TestARepositoryIsIndexedSearchedAndMappedOnTheCommandLine(t *testing.T) {
	t.Parallel()
	p := withStore(t)
	repo := harness.Repo(t, filepath.Join(t.TempDir(), "app"), map[string]string{
		"shop/invoice.go": "package shop\n\n// Total adds up what a customer owes.\nfunc Total(lines []Line) Money { return 0 }\n",
		"shop/rows.go":    "package shop\n\nfunc Rows() {}\n", "web/page.ts": "export function page() {}\n", ".env": "KEY=1\n",
	})
	out := p.ok(t, "brain", "index", repo).out
	require.Regexp(t, `^Indexed 3 of 4 files of \S+app at [0-9a-f]{12} in \d+\.\ds: 3 read, 0 known from the database; \S+ \S+ on this host\.\nLanguages: go 2, typescript 1\nLeft out: may contain secrets 1\n$`, out)
	var indexed control.Indexed
	require.NoError(t, json.Unmarshal([]byte(p.ok(t, "brain", "index", repo, "--json").out), &indexed))
	require.Zero(t, indexed.Read)

	stats := p.ok(t, "brain", "stats").out
	require.Regexp(t, `^Indexes on this host: 1, \S+ \S+ of at most 10\S* GiB\.\nExtracts of files in the database: \S+ \S+\.\n  \S+app: \S+ \S+, used \d+s ago\n`, stats)
	require.Contains(t, stats, "\nEmbeddings: none; ")
	explained := p.ok(t, "brain", "search", "what", "a customer owes", "--repo", repo, "--explain")
	out = explained.out
	require.Contains(t, out, "brain.embeddings.model is not set")
	require.Empty(t, explained.errs, "notes are printed once")
	require.Contains(t, out, "shop/invoice.go")
	require.Contains(t, out, "4\tfunc Total(lines []Line) Money")
	require.Contains(t, out, "matched: keywords #1")
	var answer brain.Answer
	require.NoError(t, json.Unmarshal([]byte(p.ok(t, "brain", "search", "page", "--lang", "typescript", "--repo", repo, "--json").out), &answer))
	require.Len(t, answer.Files, 1)
	require.Equal(t, "Note: No indexed file has \"zzzz\".\nNothing was found. Use other words.\n", p.ok(t, "brain", "search", "zzzz", "--repo", repo).out)
	require.Contains(t, p.ok(t, "brain", "search", "invioce", "--repo", repo).out, "searched for \"invoice\" as well.\nshop/invoice.go:")
	out = p.ok(t, "brain", "map", "--repo", repo, "--goal", "round the total", "--tokens", "300").out
	require.Regexp(t, `(?s)^3 files\. .*shop/invoice\.go \(to line 4\)\n  4: func Total\(lines \[\]Line\) Money\n.*Directories`, out)

	require.NoError(t, os.WriteFile(filepath.Join(repo, "new.go"), []byte("package app\n"), 0o600))
	for _, args := range [][]string{{"search", "invoice"}, {"map"}} {
		out = p.ok(t, append([]string{"brain"}, append(args, "--repo", repo)...)...).out
		require.Regexp(t, `^Note: \S+app has uncommitted changes, which are not indexed\.\n`, out)
		require.NotContains(t, p.ok(t, append([]string{"brain"}, append(args, "--repo", repo, "--rev", "HEAD")...)...).out, "Note:")
	}
	for want, args := range map[string][]string{
		"the query is empty":           {"search", " ", "--repo", repo},
		"enter a number from 1 to 100": {"search", "x", "--limit", "1000", "--repo", repo},
		"the glob":                     {"search", "x", "--path", "[a", "--repo", repo},
		"enter a number from 100":      {"map", "--tokens", "5", "--repo", repo},
		"takes at most one repository": {"index", "a", "b"},
		"brain search needs a query":   {"search"},
		"not a git repository":         {"index", t.TempDir()},
	} {
		r := p.run(t, append([]string{"brain"}, args...)...)
		require.NotZero(t, r.code, args)
		require.Contains(t, r.errs, want, args)
	}
}

func TestACommandShowsWhoOrderedTheFilesAndWhatItCost(t *testing.T) {
	t.Parallel()
	p := withStore(t)
	repo := harness.Repo(t, filepath.Join(t.TempDir(), "app"), map[string]string{
		"shop/invoice.go": "package shop\n\n// Total adds up what a customer owes.\nfunc Total() {}\n", "shop/debt.go": "package shop\n\n// Debt of a customer.\nfunc Debt() {}\n",
	})
	url := serveScenario(t, "rules:\n  - when: {contains: refuse}\n    reply: {text: 'No.\\e[31m'}\n  - reply: {json: {order: [2, 1]}}\n")
	require.NoError(t, os.WriteFile(filepath.Join(repo, "rgpt.yaml"), nil, 0o600))
	settings := filepath.Join(t.TempDir(), "rgpt.yaml")
	require.NoError(t, os.WriteFile(settings, []byte("models:\n  providers:\n    house: {kind: scripted, base_url: '"+url+"'}\nbrain:\n  rerank: {provider: house, model: small, wait: 1m}\n"), 0o600))
	search := func(query string, more ...string) string {
		return p.ok(t, append([]string{"--config", settings, "brain", "search", query, "--repo", repo, "--rev", "HEAD"}, more...)...).out
	}
	const query = "what a customer owes"
	require.Regexp(t, `^shop/invoice\.go:`, search(query, "--rerank=false"))
	require.Regexp(t, `^Ordered by house/small: the first 2 files, for \$0\.\d{4}\.\n\nshop/debt\.go:`, search(query))
	require.Regexp(t, `^Note: The model of brain\.rerank did not order the files: its response is not a list .*\n(Note: .*\n)*The call of house/small cost \$0\.\d{4}\.\n\nshop/invoice\.go:`, search(query+" refuse", "--lang", "go"))
	require.Contains(t, p.ok(t, "--config", settings, "brain", "stats").out, "What searches find is ordered again by house/small.\n")
}
