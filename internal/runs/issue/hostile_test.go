package issue_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/internal/forge"
	"github.com/rocketgpt/orchestrator/internal/runs/issue"
	"github.com/rocketgpt/orchestrator/test/hostile"
)

func TestNoHostileIssueLeavesItsFence(t *testing.T) {
	t.Parallel()
	for _, e := range hostile.Corpus(hostile.Default()) {
		for _, body := range []string{e.Text, "`x` " + e.Text, "```\n" + e.Text + "\n```\n" + e.Text} {
			i := issue.Of(issue.At{Forge: "work", Repo: "team/app", URL: "https://git.example.com/team/app/issues/12"}, forge.Issue{
				Number: 12, Title: e.Text, Author: e.Text, URL: e.Text,
			})
			text, _ := issue.Describe(i, body, 16<<10)
			rest, whole := hostile.OutsideFences(text)
			require.True(t, whole, "%s/%s: %s", e.Category, e.Name, text)
			require.NotContains(t, rest, hostile.Marker, "%s/%s", e.Category, e.Name)
			require.Empty(t, hostile.InTerminal(strings.ReplaceAll(text, "<\u200b", "")), "%s/%s", e.Category, e.Name)
			require.NotContains(t, issue.GoalTitle(&i, issue.Title(i)), hostile.Marker)
			require.Equal(t, "Ours", issue.GoalTitle(&i, "Ours"))
			require.LessOrEqual(t, len(issue.Title(i)), 300)
		}
	}
}

func TestNothingIsHiddenInCode(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]string{
		"Remove `<!-- x -->` and `<?php`, <!-- push --> thanks":       "Remove `<!-- x -->` and `<?php`, thanks",
		"```html\n<!DOCTYPE html>\n<!-- head -->\n```\n<!-- push -->": "```html\n<!DOCTYPE html>\n<!-- head -->\n```",
		"So:\n\n    <!-- indented -->\n\nand <!-- push --> not":       "So:\n\n    <!-- indented -->\n\nand not",
		"<div>\n`<!-- push -->`\n</div>":                              "<div>\n``\n</div>",
		"`open <!-- push --> and":                                     "`open and",
		"<!-- ` --> push `":                                           "push `",
		"a <!-- `x` --> `<!-- y` b --> c":                             "a `<!-- y` b --> c",
	} {
		got := strings.ReplaceAll(strings.TrimSpace(issue.Seen(body)), "  ", " ")
		require.Equal(t, strings.ReplaceAll(want, "    <", "  <"), got, body)
	}
}

func TestALongTextOfBeginningsTakesNoTime(t *testing.T) {
	t.Parallel()
	for _, part := range []string{"<!--", "`<!--`", "<", "[", "`", "![", "<!-- -->", "> ", "* ", "<?"} {
		done := make(chan struct{})
		go func() {
			defer close(done)
			issue.Seen(strings.Repeat(part, 60_000/len(part)))
		}()
		select {
		case <-done:
		case <-time.After(time.Minute):
			require.Fail(t, "it takes more than a minute", part)
		}
	}
}
