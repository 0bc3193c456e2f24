package brain_test

import (
	"context"
	"sort"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/internal/brain"
	"github.com/rocketgpt/orchestrator/internal/brain/rank/ranktest"
)

var files = map[string]string{
	"http/retry.go":  "package http\n\n// RetryPolicy says when a failed request is repeated.\ntype RetryPolicy struct{ MaxAttempts int }\n",
	"http/client.go": "package http\n\n// Client sends requests.\ntype Client struct{}\n",
	"web/retry.ts":   "// Repeats a failed request.\nexport function retry(request: Request) {}\n",
	"docs/retry.md":  "# Retries\n\nA failed request is repeated.\n",
	"cmd/main.go":    "package main\n\nfunc main() {}\n",
}

// view is the view of the files.
func view() brain.View {
	var paths []string
	for p := range files {
		paths = append(paths, p)
	}
	sort.Strings(paths)
	return brain.View{
		Corpus: ranktest.New(files, map[string][]string{"cmd/main.go": {"http/client.go"}}),
		Contents: func(_ context.Context, docs []uint32) ([][]byte, error) {
			contents := make([][]byte, len(docs))
			for i, doc := range docs {
				contents[i] = []byte(files[paths[doc]])
			}
			return contents, nil
		},
	}
}

func TestASearchShowsTheBestPartsOfTheBestFiles(t *testing.T) {
	t.Parallel()
	answer, err := view().Search(t.Context(), brain.Query{Text: "RetryPolicy ignores the maximum", Explain: true})
	require.NoError(t, err)
	require.Equal(t, "http/retry.go", answer.Files[0].Path)
	require.Equal(t, "go", answer.Files[0].Lang)
	require.Equal(t, "keywords", answer.Files[0].Why[0].Signal)
	require.NotEmpty(t, answer.Files[0].Parts)
	require.Contains(t, answer.Text, "4\ttype RetryPolicy struct{ MaxAttempts int }\n")
	require.Contains(t, answer.Text, "matched: keywords #1")
}

func TestASearchCanBeLimitedToPathsAndLanguages(t *testing.T) {
	t.Parallel()
	for _, q := range []brain.Query{{Text: "retry a failed request", Paths: "web/**"}, {Text: "retry a failed request", Lang: "TypeScript"}} {
		answer, err := view().Search(t.Context(), q)
		require.NoError(t, err)
		require.Len(t, answer.Files, 1)
		require.Equal(t, "web/retry.ts", answer.Files[0].Path)
	}
}

func TestASearchWithoutAResultIsEmpty(t *testing.T) {
	t.Parallel()
	answer, err := view().Search(t.Context(), brain.Query{Text: "zzzz"})
	require.NoError(t, err)
	require.Empty(t, answer.Files)
	require.Empty(t, answer.Text)
}

func TestAQueryThatCannotBeAnsweredSaysWhatToChange(t *testing.T) {
	t.Parallel()
	for want, q := range map[string]brain.Query{
		"the query is empty":                {Text: " \n"},
		"enter a number from 1 to 100":      {Text: "x", Limit: 1000},
		"the glob":                          {Text: "x", Paths: "[a"},
		"enter a number from 100 to 100000": {Text: "x", Tokens: 5},
	} {
		_, err := view().Search(t.Context(), q)
		require.ErrorContains(t, err, want)
	}
	_, err := view().Map("", 5)
	require.ErrorContains(t, err, "enter a number from 100")
}

func TestAMapStartsWithWhatMattersForTheGoal(t *testing.T) {
	t.Parallel()
	text, err := view().Map("RetryPolicy ignores the maximum", 0)
	require.NoError(t, err)
	lines := strings.Split(text, "\n")
	require.Equal(t, "5 files. Definitions that the goal names:", lines[0])
	require.Equal(t, "http/retry.go:4: type RetryPolicy struct", lines[1])
	require.Equal(t, "http/retry.go (to line 4)", lines[4])
	require.Contains(t, text, "cmd/main.go", "files beyond the goal follow")

	text, err = view().Map("", 0)
	require.NoError(t, err)
	require.Equal(t, "http/client.go (to line 4)", strings.Split(text, "\n")[1], "what others import matters most")
}
