package ui

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/contract"
)

func TestThePageOfTestsShowsCoverageOfTheChangedLinesThatNoTestExecuted(t *testing.T) {
	t.Parallel()
	c := contract.Coverage{
		LineCount: contract.LineCount{Lines: 100, Covered: 81}, Base: &contract.LineCount{Lines: 90, Covered: 72}, Note: "<b>half</b> of it",
		Changed: &contract.ChangedLines{LineCount: contract.LineCount{Lines: 47, Covered: 41}, Files: []contract.FileCoverage{
			{Path: "<i>a.go", LineCount: contract.LineCount{Lines: 10, Covered: 4}, Missed: []contract.LineRange{{First: 3, Last: 3}, {First: 7, Last: 11}}},
			{Path: "b.go", LineCount: contract.LineCount{Lines: 37, Covered: 37}},
		}},
	}
	var page strings.Builder
	require.NoError(t, coverageBox(c).Render(t.Context(), &page))
	text := page.String()
	require.Contains(t, text, "of the changed lines: 87.2 % (41 of 47); was 80 % overall, is 81 %")
	require.Contains(t, text, "lines 3, 7-11")
	require.Contains(t, text, "&lt;i&gt;a.go")
	require.Contains(t, text, "&lt;b&gt;half&lt;/b&gt;")
	require.NotContains(t, text, "b.go", "all of its changed lines were executed")
}
