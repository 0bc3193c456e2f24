package report_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/runs/report"
)

func TestTheReportSaysWhatReviewersFoundAndWhatBecameOfIt(t *testing.T) {
	t.Parallel()
	d := details(t, func(s string) string { return s })
	require.NotContains(t, report.Markdown(d, ""), "## Reviews")
	d.Reviews = []contract.ReviewRecord{
		{Round: 1, Model: "p/m", SameModel: true, Summary: "It is | half.", Unshown: []string{"big.txt"}, Omitted: 2, Findings: []contract.ReviewFinding{
			{ID: "R1", Item: contract.ReviewGoal, Severity: contract.SeverityMajor, Path: "a.go", Line: 3, What: "wrong | right", Answer: "not fixed: no", State: contract.ReviewRemains},
		}},
		{Round: 2, Model: "p/n", Failed: "the model is away"},
	}
	text := report.Markdown(d, "")
	for _, says := range []string{
		"## Reviews", "Review 1 by p/m (which also made the change", "1 major and 0 minor findings count.", "only in part or not at all: big.txt",
		"| R1 | major | goal | a.go:3: wrong \\| right | not fixed: no | remains |", "2 further findings were left out.", "Review 2 by p/n: the change was not reviewed: the model is away",
	} {
		require.Contains(t, text, says)
	}
}
