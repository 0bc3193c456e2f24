package brain_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/internal/brain"
)

func notes(t *testing.T, q brain.Query) (string, brain.Answer) {
	t.Helper()
	answer, err := view().Search(t.Context(), q)
	require.NoError(t, err)
	return strings.Join(answer.Notes, "\n"), answer
}

func TestASearchThatNoFileCanMeetSaysWhy(t *testing.T) {
	t.Parallel()
	text, answer := notes(t, brain.Query{Text: "retry", Lang: "pyhton"})
	require.Equal(t, `No indexed file is in the language "pyhton". Languages of this repository: go, markdown, typescript.`, text)
	require.Empty(t, answer.Files)
	text, _ = notes(t, brain.Query{Text: "retry", Paths: "scr/**"})
	require.Equal(t, `No indexed file matches the paths "scr/**". At the top of this repository: http/, cmd/, docs/, web/.`, text)
	text, _ = notes(t, brain.Query{Text: "retry", Paths: "docs/**", Lang: "go"})
	require.Equal(t, `No indexed file in the language "go" matches the paths "docs/**".`, text)
	text, _ = notes(t, brain.Query{Text: "x the"})
	require.Contains(t, text, "The query has no word to search for")
}

func TestADirectoryAnExtensionAndANameInAnyDirectoryLimitASearch(t *testing.T) {
	t.Parallel()
	for want, q := range map[string]brain.Query{
		"web/retry.ts":  {Text: "retry", Paths: "web"},
		"docs/retry.md": {Text: "retry", Paths: "./docs/"},
		"http/retry.go": {Text: "retry", Paths: "retry.go"},
	} {
		text, answer := notes(t, q)
		require.Empty(t, text)
		require.Len(t, answer.Files, 1, q)
		require.Equal(t, want, answer.Files[0].Path)
	}
	_, answer := notes(t, brain.Query{Text: "retry", Lang: "ts"})
	require.Len(t, answer.Files, 1)
	require.Equal(t, "web/retry.ts", answer.Files[0].Path)
}

func TestAMistypedWordFindsTheOneThatWasMeant(t *testing.T) {
	t.Parallel()
	for typo, want := range map[string]string{
		"RetyrPolicy": "RetryPolicy", "retry_polcy": "RetryPolicy", "RetryPolicyy": "RetryPolicy", "requst": "request",
	} {
		text, answer := notes(t, brain.Query{Text: typo})
		require.Contains(t, text, `No indexed file has "`+typo+`"; searched for "`+want+`" as well.`)
		require.NotEmpty(t, answer.Files, typo)
	}
	text, answer := notes(t, brain.Query{Text: "zzqqxx"})
	require.Equal(t, `No indexed file has "zzqqxx".`, text)
	require.Empty(t, answer.Files)
	text, _ = notes(t, brain.Query{Text: "an issue in many words, of which several occur nowhere in this repository, need not be corrected: requst, retyr, polcy"})
	require.Empty(t, text, "long texts have words that the code lacks")
}

func TestAMapShowsWhatItsGoalNamesWhereverItIs(t *testing.T) {
	t.Parallel()
	text, err := view().Map("Document how retries of requests and failures fit together: `retry` repeats a request.", 0)
	require.NoError(t, err)
	require.Contains(t, text, "Definitions that the goal names:\nweb/retry.ts:2: export function retry(request: Request)\n")
	require.Equal(t, 1, strings.Count(text, "export function retry"), "it is not repeated below its file")
}
