package verify

import (
	"cmp"
	"slices"

	"github.com/rocketgpt/orchestrator/contract"
)

// Merge sums up outcomes, such as the shards of a test run, into the tester's
// result. Whatever order they come in, the result is the same. Durations are
// added: shards run side by side, so the sum is work, not time.
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
