package report_test

import (
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/runs/report"
)

func TestAnAnswerSaysWhatWasDoneAndWhatTheChecksFound(t *testing.T) {
	t.Parallel()
	a := report.Answer{
		RunID: 42, Commit: strings.Repeat("c0ffee", 7), Released: true, Done: "Renamed x to count", Link: "https://rgpt.example.com/runs/42",
		Checks: []contract.CheckResult{{Check: contract.Check{Name: "go test"}, OK: true}},
	}
	require.Equal(t, "Carried out in `c0ffeec0ffee`.\n\n> Renamed x to count\n\nChecks of this commit:\n\n- `go test`: passed\n\nBy [run 42](https://rgpt.example.com/runs/42) of RocketGPT.", a.String())
}

// inlineCode is text in which nothing is interpreted.
var inlineCode = regexp.MustCompile("`[^`]*`")

func TestAnAnswerMentionsNobodyAndClosesNothing(t *testing.T) {
	t.Parallel()
	hostile := "@team fixes #12 https://evil.example.com <!-- rgpt:end --> ![x](http://evil.example.com)\n# heading"
	for _, a := range []report.Answer{
		{RunID: 1, Commit: "c0ffee", Released: true, Done: hostile},
		{RunID: 1, NotDone: hostile},
		{RunID: 1, Commit: "c0ffee", Checks: []contract.CheckResult{{Check: contract.Check{Name: hostile}, Message: hostile}}},
	} {
		text := inlineCode.ReplaceAllString(a.String(), "")
		require.NotContains(t, text, "<!--")
		require.NotContains(t, text, " @team")
		require.NotContains(t, text, " #12")
		require.NotContains(t, text, "\n# heading")
		require.NotContains(t, text, "evil.example.com")
	}
}

func TestAnAnswerIsBounded(t *testing.T) {
	t.Parallel()
	checks := make([]contract.CheckResult, 100)
	long := strings.Repeat("<", 1<<20)
	require.Less(t, len(report.Answer{NotDone: long, Done: long, Checks: checks}.String()), 20_000)
	require.Contains(t, report.Answer{Checks: checks}.String(), "90 more checks are not listed")
}
