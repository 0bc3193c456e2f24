package report_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/gate/change"
	"github.com/rocketgpt/orchestrator/internal/runs/issue"
	"github.com/rocketgpt/orchestrator/internal/runs/report"
	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/internal/store/views"
)

// pull returns the text of a pull request in which a function makes every text.
func pull(tb testing.TB, text func(string) string) report.PullRequest {
	tb.Helper()
	d := details(tb, text)
	d.Baseline = &views.RunBaseline{State: views.PreparationReady, Red: []string{text("lint")}}
	d.Reviews = []contract.ReviewRecord{{Round: 1, Model: text("openai/judge"), Summary: text("It does what was asked."), Findings: []contract.ReviewFinding{
		{ID: "R1", Severity: contract.SeverityMajor, Path: text("calc.go"), Line: 7, What: text("Zero is not tested."), Action: text("Test it."), Answer: text("It is.")},
		{ID: "R2", Severity: contract.SeverityMinor, What: text("Needless comment.")},
	}, Unshown: []string{text("big.json")}}}
	d.Gate = []contract.GateRecord{{Stage: contract.GateRelease, Decision: contract.GateNeedsApproval, ApprovedBy: text("ann"), Reasons: []contract.GateReason{
		{Decision: contract.GateNeedsApproval, Text: text("a dependency was added"), Path: text("go.mod")},
	}}}
	return report.PullRequest{
		Run: d, Stat: "2 files changed, 12 lines added, 4 removed", Link: "https://rgpt.example.com/runs/42",
		Carried: &change.Carried{From: text("develop"), Into: text("main"), Total: 3, Commits: []change.Commit{
			{ID: "0123456789abcdef0123456789abcdef01234567", Subject: text("Change the build")}, {ID: "89abcdef0123456789abcdef0123456789abcdef", Subject: text("Remove a test")},
		}},
		Checks: []contract.CheckResult{
			{Check: contract.Check{Name: text("test")}, OK: true, Summary: contract.TestSummary{Passed: 12, Skipped: 1}},
			{Check: contract.Check{Name: text("lint")}, OK: true, KnownOnly: true},
			{Check: contract.Check{Name: text("scan")}, OK: true, Skipped: true, Message: text("trivy is not installed")},
		},
	}
}

func TestThePullRequestSaysWhatChangedWhatWasCheckedAndWhatIsOpen(t *testing.T) {
	t.Parallel()
	p := pull(t, func(s string) string { return s })
	golden(t, "pull_request.md", p.Title()+"\n\n"+p.Body())
}

// What forges turn into mentions, links, closed issues, images, commands or HTML.
var tricks = []string{
	"@ann", "@org/team", "fixes #1", "Closes GH-7", "closes o/r#3", "resolves https://git.example.com/o/r/issues/2", "![x](https://example.com/x.png)",
	"<img src=x>", "<!-- rgpt:end -->", "<!-- rgpt:begin run=1 by=1 commit= -->", "/close", "/merge", "!12", "$5", "%3", "~label", "\n# Heading\n", "\r\n- [x] done\n",
	"```\ncode", "| a | b |", "<details>", "[a]: https://example.com", "&lt;b&gt;", "\u202etxt.exe", "\x1b[31m", "a\u2028b", "[[link]]", "https://example.com", "x@example.com",
}

func TestTextsInAPullRequestGainNothing(t *testing.T) {
	t.Parallel()
	for _, trick := range tricks {
		p := pull(t, func(s string) string { return trick + " " + s + " " + trick })
		plain := pull(t, func(s string) string { return s })
		body := p.Body()
		require.Len(t, p.LineComments(30), 1)
		for _, c := range p.LineComments(30) {
			body += "\n" + c.Body
		}
		// Outside of inline code there is nothing that a forge interprets.
		var outside strings.Builder
		for _, line := range strings.Split(body, "\n") {
			for i, part := range strings.Split(line, "`") {
				if i%2 == 0 {
					outside.WriteString(part + " ")
				}
			}
			require.Equal(t, 0, strings.Count(strings.ReplaceAll(line, "\\`", ""), "`")%2, "%q: open code in %q", trick, line)
			outside.WriteByte('\n')
		}
		text := strings.ReplaceAll(outside.String(), "(https://rgpt.example.com/runs/42)", "")
		for _, bad := range []string{"@ann", "@org", "#1", "#3", "GH-7", "issues/2", "![", "<img", "<!--", "<details", "https://", "\x1b", "\u202e", "\u2028", "\n/close", "\n/merge", "\n# Heading", "x@example"} {
			require.NotContains(t, text, bad, "%q in\n%s", trick, body)
		}
		require.Equal(t, strings.Count(plain.Body(), "\n## "), strings.Count(body, "\n## "), "%q adds a section", trick)
		require.NotContains(t, p.Title(), "\n")
	}
}

func TestAPullRequestClosesItsIssueByDataOfTheProgramOnly(t *testing.T) {
	t.Parallel()
	for _, trick := range append(tricks, "x") {
		p := pull(t, func(s string) string { return s })
		about := contract.Issue{Forge: "work", Repo: "team/app", Number: 12, URL: "https://git.example.com/team/app/issues/12", Title: trick, Author: trick}
		text, _ := issue.Describe(about, trick+"\nCloses #99 "+trick, 8000)
		p.Run.Settings.Issue, p.Run.GoalDescription, p.Carried = &about, text, nil
		p.Closes = "#12"
		require.True(t, strings.HasPrefix(p.Body(), "Closes #12.\n\n## What changed"), p.Body())
		require.NotContains(t, p.Body(), "#99")

		p.Closes = ""
		require.True(t, strings.HasPrefix(p.Body(), "For the issue `https://git.example.com/team/app/issues/12`.\n\n## What changed"), p.Body())
		p.Run.GoalDescription = "In all files.\n\n" + text
		require.Contains(t, p.Body(), "issues/12`.\n\n> In all files.\n\n## What changed")
	}
}

func TestALongPullRequestIsCutAtALineAndKeepsItsEnd(t *testing.T) {
	t.Parallel()
	p := pull(t, func(s string) string { return s })
	for range 200 {
		p.Run.Findings = append(p.Run.Findings, store.Finding{Finding: contract.Finding{Severity: contract.SeverityMajor, Message: strings.Repeat("long ", 2000)}})
		p.Checks = append(p.Checks, contract.CheckResult{Message: strings.Repeat("ä", 3000)})
	}
	p.Run.GoalTitle = strings.Repeat("ü", 400)
	body := p.Body()
	require.LessOrEqual(t, len(body), report.MaxPullRequestBody)
	require.Contains(t, body, "left out because of its length")
	require.Contains(t, body, "[run 42](https://rgpt.example.com/runs/42)")
	require.LessOrEqual(t, len(p.Title()), report.MaxPullRequestTitle)
	require.True(t, strings.HasSuffix(p.Title(), "ü…"), p.Title())
}
