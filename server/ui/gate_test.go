package ui_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/server/ui"
)

func TestTheGateTabShowsReviewsWithAnswersAsText(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	page := ui.GatePage{Reviews: []contract.ReviewRecord{
		{ID: 2, Round: 2, Model: "p/m", Failed: "the model is away"},
		{ID: 1, Round: 1, Model: "p/m", SameModel: true, Summary: "It is half.", Unshown: []string{"big.txt"}, Findings: []contract.ReviewFinding{{
			ID: "R1", Item: contract.ReviewSecurity, Severity: contract.SeverityMajor, Path: "a.go", Line: 3, What: "<script>alert(1)</script>", Action: "Escape it.",
			Answer: "not fixed: no", State: contract.ReviewRemains,
		}}},
	}}
	require.NoError(t, ui.GateTab(page).Render(t.Context(), &b))
	html := b.String()
	for _, says := range []string{"Review 2 of the change", "was not reviewed: the model is away", "the author's model", "1 file was shown", "a.go:3", "review/security", "Answer: not fixed: no", "remains"} {
		require.Contains(t, html, says)
	}
	require.NotContains(t, html, "<script>alert")
}
