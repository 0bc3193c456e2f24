package excerpt_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/internal/brain/excerpt"
	"github.com/rocketgpt/orchestrator/internal/brain/extract"
	"github.com/rocketgpt/orchestrator/internal/brain/rank"
	"github.com/rocketgpt/orchestrator/internal/brain/repomap"
)

func file(path, content string) excerpt.File {
	return excerpt.File{
		Result:  rank.Result{Path: path, Reasons: []rank.Reason{{Signal: rank.SignalKeywords, Rank: 1, Detail: "args"}}},
		Extract: extract.File(path, []byte(content)), Content: []byte(content),
	}
}

// long is a file with n functions, of which the last is about arguments.
func long(n int) string {
	var b strings.Builder
	b.WriteString("package p\n")
	for i := range n {
		fmt.Fprintf(&b, "\n// F%d adds.\nfunc F%d(a int) int {\n\ta++\n\ta++\n\treturn a + %d\n}\n", i, i, i)
	}
	b.WriteString("\n// ParseArgs splits arguments.\nfunc ParseArgs(text string) []string {\n\treturn nil\n}\n")
	return b.String()
}

func TestTheMatchingPartIsShownWithItsLines(t *testing.T) {
	t.Parallel()
	text := excerpt.Text([]excerpt.File{file("a/b.go", long(50))}, "parse args", 1000, false)
	require.Contains(t, text, "func ParseArgs(text string) []string {")
	require.Regexp(t, `(?m)^a/b\.go:\d+-\d+`, text)
	require.Regexp(t, `(?m)^354\tfunc ParseArgs`, text)
	require.NotContains(t, text, "matched:")
	require.Less(t, strings.Index(text, "ParseArgs"), 1500)
}

func TestAnExplanationNamesTheSignals(t *testing.T) {
	t.Parallel()
	text := excerpt.Text([]excerpt.File{file("a/b.go", long(5))}, "parse args", 1000, true)
	require.Equal(t, 1, strings.Count(text, "matched: keywords #1 (args)"))
}

func TestExcerptsStayWithinTheirTokens(t *testing.T) {
	t.Parallel()
	var files []excerpt.File
	for i := range 20 {
		files = append(files, file(fmt.Sprintf("a/b%d.go", i), long(60)))
	}
	for _, tokens := range []int{50, 300, 1000, 4000} {
		text := excerpt.Text(files, "parse args", tokens, true)
		require.LessOrEqual(t, repomap.Tokens(text), tokens)
		require.Contains(t, text, "a/b0.go")
	}
	require.Contains(t, excerpt.Text(files, "parse args", 4000, false), "a/b3.go:")
	require.Contains(t, excerpt.Text(files, "parse args", 600, false), "Also found:\n")
}

func TestHostileContentStaysOnItsLines(t *testing.T) {
	t.Parallel()
	text := excerpt.Text([]excerpt.File{file("x\ny.txt", "args \x1b[31m\u202e here\r and there\n"+strings.Repeat("args", 5000)+"\n")}, "args", 2000, true)
	require.NotContains(t, text, "\x1b")
	require.NotContains(t, text, "\u202e")
	require.Contains(t, text, `"x\ny.txt":1-2`)
	require.Less(t, len(text), 1000)
}

func TestAnEmptyFileIsOnlyNamed(t *testing.T) {
	t.Parallel()
	require.Contains(t, excerpt.Text([]excerpt.File{file("empty.txt", "")}, "args", 500, false), "empty.txt")
}

func TestAnExplanationSaysWhereAFileWasBeforeAModelMovedIt(t *testing.T) {
	t.Parallel()
	f := file("a/b.go", long(5))
	f.Before = 7
	require.Contains(t, excerpt.Text([]excerpt.File{f}, "parse args", 1000, true), "#7 before the model ordered the files, matched: keywords #1 (args)")
}

func TestABriefHasTheBestPartsWithinItsSizeAndNoSecretThatWasCut(t *testing.T) {
	t.Parallel()
	hide := func(text string) string { return strings.ReplaceAll(text, "sk-secret-key", "[hidden]") }
	for _, size := range []int{100, 120, 600} {
		briefs := excerpt.Briefs([]excerpt.File{file("a/b.go", long(50)), file("empty.txt", "")}, "parse args", size, hide)
		require.Contains(t, briefs[0], "func ParseArgs(text string) []string {")
		require.LessOrEqual(t, len(briefs[0]), size)
		require.Empty(t, briefs[1])
	}
	for _, before := range []int{0, 40, 80, 86, 90, 99, 105} {
		content := "// args" + strings.Repeat("x", before) + " sk-secret-key\n\x1b[31m\u202e\n" + strings.Repeat("args ", 20_000) + "\n"
		text := excerpt.Briefs([]excerpt.File{file("a.txt", content)}, "args", 100, hide)[0]
		require.NotContains(t, text, "sk-", before)
		require.NotContains(t, text, "\x1b")
		require.LessOrEqual(t, len(text), 100)
	}
}
