package report_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/runs/issue"
	"github.com/rocketgpt/orchestrator/internal/runs/report"
	corpus "github.com/rocketgpt/orchestrator/test/hostile"
)

const dashboard = "https://rgpt.example.com/runs/"

func TestNoHostileTextInWhatRunsWriteOnForgesGainsAnything(t *testing.T) {
	t.Parallel()
	for _, e := range corpus.Corpus(corpus.Default()) {
		p := pull(t, func(s string) string { return e.Text + " " + s + " " + e.Text })
		texts := []string{p.Body()}
		for _, c := range p.LineComments(30) {
			texts = append(texts, c.Body)
		}
		about := contract.Issue{Forge: "work", Repo: "team/app", Number: 12, URL: "https://git.example.com/team/app/issues/12", Title: e.Text, Author: e.Text}
		p.Run.Settings.Issue = &about
		described, _ := issue.Describe(about, e.Text, 8000)
		p.Run.GoalDescription = e.Text + "\n\n" + described
		texts = append(texts, p.Body(), report.Markdown(p.Run, e.Text))
		for _, a := range []report.Answer{
			{RunID: 1, Commit: "c0ffee", Released: true, Done: e.Text, Link: dashboard + "1"}, {RunID: 1, NotDone: e.Text},
			{RunID: 1, Commit: "c0ffee", Checks: []contract.CheckResult{{Check: contract.Check{Name: e.Text}, Message: e.Text}}},
		} {
			texts = append(texts, a.String())
		}
		for i, text := range texts {
			require.Empty(t, corpus.InMarkdown(text, dashboard), "%s/%s in text %d:\n%s", e.Category, e.Name, i, text)
		}
		require.Empty(t, corpus.InTerminal(p.Title()), e.Name)
		require.NotContains(t, p.Title(), "\n")
		p.Closes = "#12"
		require.Equal(t, []string{"closing Closes #12"}, corpus.InMarkdown(p.Body(), dashboard), "%s/%s", e.Category, e.Name)
		require.True(t, strings.HasPrefix(p.Body(), "Closes #12.\n\n"))
	}
}
