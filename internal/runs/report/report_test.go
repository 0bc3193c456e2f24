package report_test

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/runs/report"
	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/internal/store/views"
)

var update = flag.Bool("update", false, "write the golden files anew")

func golden(tb testing.TB, name, got string) {
	tb.Helper()
	file := filepath.Join("testdata", name)
	if *update {
		require.NoError(tb, os.MkdirAll("testdata", 0o755))
		require.NoError(tb, os.WriteFile(file, []byte(got), 0o600))
	}
	want, err := os.ReadFile(file)
	require.NoError(tb, err, "make it with -update")
	require.Equal(tb, string(want), got)
}

func encode(tb testing.TB, v any) json.RawMessage {
	tb.Helper()
	raw, err := json.Marshal(v)
	require.NoError(tb, err)
	return raw
}

// details returns a run in which a function makes every text.
func details(tb testing.TB, text func(string) string) views.RunDetails {
	tb.Helper()
	d := views.RunDetails{Run: store.Run{
		ID: 42, GoalTitle: text("Add division"), GoalDescription: text("Division by zero is an error.\n\n- say so\n1. and test it"),
		Repo: text("/repos/calculator"), BaseBranch: "main", BaseCommit: "c0ffeec0ffeec0ffeec0", ReleaseBranch: "rgpt/run-42", ReleaseCommit: "beefbeefbeefbeef",
		Status: contract.StatusDone, CreatedAt: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC),
		Failure: &contract.Failure{Class: contract.ClassAssertion, Code: contract.CodeTestsFailed, Message: text("1 test failed")},
	}}
	d.PlannerOutput = encode(tb, map[string]any{"plan": contract.Plan{Summary: text("Write it, then test it."), Steps: []contract.Step{
		{ID: "step-001", Name: text("divide")}, {ID: "step-002", Name: text("test"), Dependencies: []string{"step-001"}},
	}}})
	d.Executions = []store.Execution{{ExecutionRef: contract.ExecutionRef{Step: "step-001"}, Status: contract.ExecutionCompleted, Turns: 3}}
	d.TesterOutput = encode(tb, contract.TestResult{
		Summary: contract.TestSummary{Passed: 2, Failed: 1, DurationMS: 1234},
		Results: []contract.TestCase{
			{Name: text("TestDivide"), Status: contract.TestFailed, Message: text("got 2, want 3") + "\nsecond line"},
			{Name: "TestAdd", Status: contract.TestPassed},
		},
		Coverage: &contract.Coverage{
			LineCount: contract.LineCount{Lines: 100, Covered: 81}, Base: &contract.LineCount{Lines: 90, Covered: 72},
			Changed: &contract.ChangedLines{LineCount: contract.LineCount{Lines: 47, Covered: 41}, Files: []contract.FileCoverage{
				{Path: text("calc/divide.go"), LineCount: contract.LineCount{Lines: 46, Covered: 40}, Missed: []contract.LineRange{{First: 3, Last: 3}, {First: 7, Last: 11}}},
				{Path: "calc/add.go", LineCount: contract.LineCount{Lines: 1, Covered: 1}},
			}},
			Note: text("one report was not read"),
		},
	})
	d.Findings = []store.Finding{
		{Finding: contract.Finding{Severity: contract.SeverityMajor, Category: contract.CategoryTest, Location: text("calc.go:7"), Message: text("got 2, want 3")}},
		{Finding: contract.Finding{Severity: contract.SeverityMinor, Category: contract.CategoryLint, Location: "calc.go:9", Message: text("unused"), Resolved: true}},
	}
	d.ModelUsage = []views.ModelUsage{{Agent: contract.AgentBuilder, Provider: "scripted", Model: text("m"), Usage: contract.Usage{Calls: 3, PromptTokens: 1000, CompletionTokens: 50, MicroUSD: 12345}}}
	d.Artifacts = []contract.Artifact{
		{Name: "tester/1/test/output.log", Size: 7, Digest: "sha256:1"},
		{Name: text("tester/1/test/trace.zip"), Size: 1 << 30, LeftOut: text("it exceeds artifacts.max_file (512MiB)")},
	}
	d.Usage = d.ModelUsage[0].Usage
	return d
}

func plain(s string) string { return s }

func TestAReportCoversTheWholeRun(t *testing.T) {
	t.Parallel()
	golden(t, "whole.md", report.Markdown(details(t, plain), "diff --git a/x b/x\n+```\n+x\n"))
}

func TestAReportOfARunThatHasJustStartedIsShort(t *testing.T) {
	t.Parallel()
	golden(t, "begun.md", report.Markdown(views.RunDetails{Run: store.Run{
		ID: 1, GoalTitle: "Add division", Repo: "/r", Status: contract.StatusPending, CreatedAt: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC),
	}}, ""))
}

// hostile are texts that try to be markup.
var hostile = []string{
	"[click](https://evil.example)", "![img](https://evil.example/x.png)", "<https://evil.example>", "https://evil.example/a_b", "HTTP://EVIL.EXAMPLE",
	"(https://evil.example)", "www.evil.example", "*www.evil.example*", "mail@evil.example", "mailto:x", "javascript:alert(1)", "@everyone", "@org/team", "#123", "org/repo#123",
	"<script>alert(1)</script>", "<img src=x onerror=alert(1)>", "&lt;b&gt;", "https&#58;//evil.example", "| a | b |", "`x` <b>", "``` \n<b>\n```", "x\n\n# heading", "x\r\n<b>",
	"\u2028<b>", "\x1b]8;;https://evil.example\x07click\x1b]8;;\x07", "\x1b[31mred", "\u202egnp.exe", "[ref]: https://evil.example", "[x][ref]", "~~~\n<b>", "---", "===", "$$x$$", "\\", "\\`", "`",
	"\\[click](https://evil.example)", "`https://evil.example", "a` https://evil.example `b", "ftp://evil.example", "\x85<b>", "\xff<b>",
}

// outside returns a line without its inline code, which is shown unchanged, and without
// escaped characters. A backtick that opens nothing stays.
func outside(line string) string {
	var b strings.Builder
	for i := 0; i < len(line); i++ {
		switch line[i] {
		case '\\':
			i++
			continue
		case '`':
			if n := strings.IndexByte(line[i+1:], '`'); n >= 0 {
				i += n + 1
				continue
			}
		}
		b.WriteByte(line[i])
	}
	return b.String()
}

func TestHostileTextsBecomeNoLinkAndNoHTML(t *testing.T) {
	t.Parallel()
	whole := strings.Count(report.Markdown(details(t, plain), ""), "\n# ")
	for _, h := range hostile {
		for _, text := range []func(string) string{
			func(string) string { return h }, func(s string) string { return s + " " + h + " " + s }, func(s string) string { return s + h },
		} {
			md := report.Markdown(details(t, text), "")
			require.NotContains(t, md, "\x1b", "%q", h)
			require.Equal(t, whole, strings.Count(md, "\n# "), "%q makes a heading", h)
			for _, line := range strings.Split(md, "\n") {
				rest := strings.TrimPrefix(line, ">")
				rest = strings.TrimLeft(rest, "#") // our own headings
				rest = outside(rest)
				require.NotRegexp(t, `[<>]`, rest, "%q", h)
				require.NotRegexp(t, "`", rest, "%q leaves a code span open", h)
				require.NotRegexp(t, `(?i)://|www\.|@|#\d|[\[\]]`, rest, "%q in %q", h, line)
				require.NotRegexp(t, `&(?:#|[a-z]+;)`, strings.NewReplacer("&lt;", "", "&gt;", "", "&amp;", "").Replace(rest), "%q", h)
			}
		}
	}
}

func TestATableRowKeepsItsCells(t *testing.T) {
	t.Parallel()
	for _, h := range hostile {
		md := report.Markdown(details(t, func(string) string { return h }), "")
		_, rows, _ := strings.Cut(md, "## Findings\n\n")
		rows, _, _ = strings.Cut(rows, "\n\n")
		for _, row := range strings.Split(rows, "\n") {
			require.Equal(t, 5, strings.Count(strings.ReplaceAll(row, `\|`, ""), "|"), "%q: %s", h, row)
		}
	}
}

func TestChangesCannotEndTheirBlock(t *testing.T) {
	t.Parallel()
	md := report.Markdown(details(t, plain), "+````\n+<b>\n```\n\x1b[31m")
	require.Contains(t, md, "\n`````\n+````\n+<b>\n```\n[31m\n`````\n")
}

func TestMoreRedTestsThanAReportListsAreCounted(t *testing.T) {
	t.Parallel()
	var r contract.TestResult
	for range 60 {
		r.Results = append(r.Results, contract.TestCase{Name: "T", Status: contract.TestFailed})
	}
	d := details(t, plain)
	d.TesterOutput = encode(t, r)
	md := report.Markdown(d, "")
	require.Equal(t, 50, strings.Count(md, "- failed: "))
	require.Contains(t, md, "- and 10 more")
}

func TestTheReportAsJSONIsTheRun(t *testing.T) {
	t.Parallel()
	raw, err := report.JSON(details(t, plain))
	require.NoError(t, err)
	var back map[string]any
	require.NoError(t, json.Unmarshal(raw, &back))
	require.EqualValues(t, 42, back["runId"])
	require.Equal(t, "\n", string(raw[len(raw)-1:]))
}

func TestAReportSaysWhichCostsAreEstimated(t *testing.T) {
	t.Parallel()
	d := details(t, plain)
	require.NotContains(t, report.Markdown(d, ""), "estimated")
	d.ModelUsage[0].EstimatedPrice, d.Usage.EstimatedPrice = true, true
	text := report.Markdown(d, "")
	require.Equal(t, 2, strings.Count(text, "0.0123 (estimated) |"))
	require.Contains(t, text, "The price of a model is unknown")
}

func TestDollarsAreWrittenFromMillionths(t *testing.T) {
	t.Parallel()
	for micros, want := range map[int64]string{0: "0.0000", 1: "0.0000", 12345: "0.0123", 1_000_000: "1.0000", 123_456_789: "123.4568"} {
		require.Equal(t, want, report.Dollars(micros))
	}
}

func TestAReportCountsQuarantinedFailuresApartAndContainsTheWarning(t *testing.T) {
	t.Parallel()
	d := details(t, func(s string) string { return s })
	d.TesterOutput = encode(t, map[string]any{
		"summary": contract.TestSummary{Passed: 2, Quarantined: 2}, "warning": "test-go-1: a quarantined test <b>failed</b>",
		"results": []contract.TestCase{{Name: "Test`<b>`", Status: contract.TestQuarantined, Message: "too late"}},
	})
	text := report.Markdown(d, "")
	require.Contains(t, text, "2 passed, 0 failed, 0 skipped, 0 flaky, 2 quarantined failures, in 0s.")
	require.Contains(t, text, "Warning: test-go-1: a quarantined test &lt;b&gt;failed&lt;/b&gt;\n")
	require.Contains(t, text, "- quarantined: `Test'<b>'` too late\n")
}

func TestNoEscapeOrCharacterOfAReportDividesASecret(t *testing.T) {
	t.Parallel()
	const secret = "ghp_0123456789abcdefghijABCDEFGHIJ012345"
	for _, split := range []string{"", "\u200b", "\u0600", "\x01"} {
		d := views.RunDetails{}
		d.GoalDescription = "Use " + secret[:12] + split + secret[12:]
		require.NotContains(t, report.Markdown(d, ""), secret[12:], "%q", split)
	}
}
