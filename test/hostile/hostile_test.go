package hostile_test

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/test/hostile"
)

func TestEveryTextIsNamedOnceAndHasTheMarker(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	all := hostile.Corpus(hostile.Default())
	require.Greater(t, len(all), 80)
	for _, e := range all {
		name := string(e.Category) + "/" + e.Name
		require.False(t, seen[name], name)
		seen[name] = true
		require.Contains(t, hostile.Visible(e.Text), hostile.Marker, name)
		require.NotContains(t, e.Text, "{user}", name)
	}
	n := 0
	for _, b := range hostile.Batches(all, 4) {
		n += len(b)
		require.NotEmpty(t, hostile.Title(b, 200))
		require.LessOrEqual(t, len(hostile.Title(b, 200)), 200)
	}
	require.Equal(t, len(all), n)
	require.Greater(t, len(hostile.Names(hostile.Default())), 30)
}

// What nothing defuses must be found, so that the tests that find nothing say something.
func TestTheTricksOfTheCorpusAreFoundWhereNothingStopsThem(t *testing.T) {
	t.Parallel()
	v := hostile.Default()
	found := map[hostile.Category]int{}
	for _, e := range hostile.Corpus(v) {
		if len(hostile.InMarkdown(e.Text)) > 0 || len(hostile.InPlain(e.Text)) > 0 {
			found[e.Category]++
		}
	}
	for category, least := range map[hostile.Category]int{
		hostile.Hidden: 7, hostile.Mention: 9, hostile.Closing: 13, hostile.Command: 4, hostile.Markup: 5, hostile.Terminal: 7, hostile.Line: 3, hostile.Annotation: 2,
	} {
		require.GreaterOrEqual(t, found[category], least, category)
	}
}

func TestForgesActOnWhatTheyDocument(t *testing.T) {
	t.Parallel()
	for markdown, want := range map[string][]string{
		"a @ann b":                           {"mention @ann"},
		"`@ann` closes `#1` <x@example.com>": {"link x@example.com"},
		"```\n@ann\n/merge\n```":             nil,
		"closes #1":                          {"closing closes #1"},
		"**closes** #1":                      {"closing closes #1"},
		"&#64;ann":                           {"mention @ann"},
		"\\@ann":                             {"mention @ann"},
		"a ![x](https://evil.example/p)":     {"image https://evil.example/p"},
		"www.evil.example":                   {"link http://www.evil.example"},
		"a <b>x</b>":                         {"html <b>", "html </b>"},
		"<!-- rgpt:end -->":                  nil,
		"<!-- else -->":                      {"html <!-- else -->"},
		"a\n/merge":                          {"command /merge"[:len("command ")+2]},
		"[run 1](https://rgpt.example.com)":  nil,
	} {
		require.Equal(t, want, hostile.InMarkdown(markdown, "https://rgpt.example.com"), markdown)
	}
	require.Equal(t, []string{"mention @ann", "skip [skip ci]", "trailer Co-authored-by:"}, hostile.InPlain("@ann [skip ci]\n\nCo-authored-by: x"))
	rest, whole := hostile.OutsideFences("a <untrusted name=\"x\">\nb\n</untrusted> c")
	require.Equal(t, "a  c", rest)
	require.True(t, whole)
	_, whole = hostile.OutsideFences("a <untrusted name=\"x\">\nb\n</untrusted> c </untrusted>")
	require.False(t, whole)
	require.NotEmpty(t, hostile.InHTML(`<p><img src=x onerror="window.zqx=1"></p>`))
	require.Empty(t, hostile.InHTML(`<p>&lt;img src=x onerror=&quot;window.zqx=1&quot;&gt; zqx()</p>`))
	require.Equal(t, []string{"link Www.evil.example"}, hostile.InMail("x Www.evil.example https://rgpt.example.com/runs/1"))
	require.Equal(t, 1, strings.Count(strings.Join(hostile.InTerminal("a\x1b[31m"), ""), "U+001B"))
}

func TestGitAcceptsTheNameOfAHostileBranch(t *testing.T) {
	t.Parallel()
	for _, entries := range append([][]hostile.Entry{hostile.Names(hostile.Default()), nil}, hostile.Batches(hostile.Corpus(hostile.Default()), 40)...) {
		name := hostile.Branch(entries, 180)
		require.LessOrEqual(t, len(name), 190)
		out, err := exec.CommandContext(t.Context(), "git", "check-ref-format", "refs/heads/"+name).CombinedOutput()
		require.NoError(t, err, "%q: %s", name, out)
	}
	require.NotEmpty(t, hostile.InPlain(hostile.Branch(hostile.Names(hostile.Default()), 180)), "it acts where nothing stops it")
}
