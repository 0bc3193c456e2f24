package activities

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/temporal"
)

func TestResultsOfSeveralChecksFitIntoAHistoryHoweverManyLinesTheirCoverageNames(t *testing.T) {
	t.Parallel()
	result := func(id string) contract.CheckResult {
		changed := &contract.ChangedLines{}
		for range contract.MaxCoverageFiles {
			f := contract.FileCoverage{Path: strings.Repeat("p", 100)}
			for range contract.MaxCoverageRanges / contract.MaxCoverageFiles {
				f.Executed = append(f.Executed, contract.LineRange{First: 1000, Last: 1001})
			}
			changed.Files = append(changed.Files, f)
		}
		return contract.CheckResult{Check: contract.Check{ID: id}, OK: true, Coverage: &contract.Coverage{Changed: changed}}
	}
	one := contract.VerifyResult{CheckResult: result("one")}
	require.NoError(t, temporal.CheckSize("one", one))
	require.Equal(t, one, fitting(one))

	all := one
	for _, id := range []string{"two", "three", "four", "five"} {
		all.Others = append(all.Others, result(id))
	}
	require.Error(t, temporal.CheckSize("all", all))
	all = fitting(all)
	require.NoError(t, temporal.CheckSize("all", all))
	require.Equal(t, "one", all.Check.ID)
	require.Len(t, all.Others, 4)
	require.True(t, all.Others[3].OK)
}
