package verify

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/contract"
)

func TestMergedShardsAddUpInAnyOrder(t *testing.T) {
	t.Parallel()
	a := Outcome{
		Summary:   contract.TestSummary{Passed: 1, Failed: 1, DurationMS: 5},
		Cases:     []contract.TestCase{{Name: "b", Status: contract.TestPassed}, {Name: "a", Status: contract.TestFailed}},
		Artifacts: []ArtifactFile{{Name: "z.png"}},
	}
	b := Outcome{
		Summary:   contract.TestSummary{Passed: 2, Skipped: 1, Flaky: 1, DurationMS: 7},
		Cases:     []contract.TestCase{{Name: "a", Status: contract.TestPassed}},
		Artifacts: []ArtifactFile{{Name: "a.png"}},
	}
	got := Merge(a, b)
	require.Equal(t, got, Merge(b, a))
	require.Equal(t, contract.TestSummary{Passed: 3, Failed: 1, Skipped: 1, Flaky: 1, DurationMS: 12}, got.Summary)
	require.Equal(t, []string{"a.png", "z.png"}, got.Artifacts)
	require.Equal(t, "a", got.Results[0].Name)
	empty, err := json.Marshal(Merge())
	require.NoError(t, err)
	require.JSONEq(t, `{"summary":{"passed":0,"failed":0,"skipped":0,"flaky":0,"duration":0},"results":[],"artifacts":[]}`, string(empty))
}
