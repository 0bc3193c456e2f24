package verify

import (
	"cmp"
	"encoding/json"
	"slices"
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

// Merge combines outcomes, such as the shards of a test run, into the tester's result.
// The result does not depend on their order. Durations are added: shards run side by
// side, so the sum is work, not time.
func Merge(results ...Outcome) contract.TestResult {
	out := contract.TestResult{Results: []contract.TestCase{}, Artifacts: []string{}}
	for _, r := range results {
		out.Summary.Passed += r.Summary.Passed
		out.Summary.Failed += r.Summary.Failed
		out.Summary.Skipped += r.Summary.Skipped
		out.Summary.Flaky += r.Summary.Flaky
		out.Summary.DurationMS += r.Summary.DurationMS
		out.Results = append(out.Results, r.Cases...)
		for _, a := range r.Artifacts {
			out.Artifacts = append(out.Artifacts, a.Name)
		}
	}
	slices.SortStableFunc(out.Results, func(a, b contract.TestCase) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Status, b.Status),
			cmp.Compare(a.Location, b.Location), cmp.Compare(a.DurationMS, b.DurationMS), cmp.Compare(a.Message, b.Message))
	})
	slices.Sort(out.Artifacts)
	return out
}
