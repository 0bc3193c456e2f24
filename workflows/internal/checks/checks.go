// Package checks carries out the checks of a stage of the verification.
package checks

import (
	"slices"

	"go.temporal.io/sdk/workflow"

	"github.com/rocketgpt/orchestrator/contract"
)

// Stage carries out the checks of a stage in parallel, each with the input in, and returns their results in the order
// of the checks; start starts an activity. One activity carries out up to together checks, because an activity and the
// workflow task after it can cost more than a short check. Checks that it did not carry out get activities of their own.
// The error is that of the first activity that failed, after all have ended.
func Stage(ctx workflow.Context, checks []contract.Check, together int, in contract.VerifyInput, start func(contract.VerifyInput) workflow.Future) ([]contract.CheckResult, error) {
	results := map[string]contract.CheckResult{}
	err := carryOut(ctx, slices.Collect(slices.Chunk(checks, max(together, 1))), in, start, results)
	if err == nil {
		var left [][]contract.Check
		for _, c := range checks {
			if _, done := results[c.ID]; !done {
				left = append(left, []contract.Check{c})
			}
		}
		err = carryOut(ctx, left, in, start, results)
	}
	ordered := make([]contract.CheckResult, len(checks))
	for i, c := range checks {
		ordered[i] = results[c.ID]
	}
	return ordered, err
}

// carryOut starts an activity for each of the groups, waits for all, and adds the results by the checks' ids. It
// returns the first error.
func carryOut(ctx workflow.Context, groups [][]contract.Check, in contract.VerifyInput, start func(contract.VerifyInput) workflow.Future, results map[string]contract.CheckResult) error {
	running := make([]workflow.Future, len(groups))
	for i, group := range groups {
		in.Check, in.Others = group[0], group[1:]
		running[i] = start(in)
	}
	var first error
	for i, f := range running {
		var out contract.VerifyResult
		if err := f.Get(ctx, &out); err != nil {
			if first == nil {
				first = err
			}
			continue
		}
		if own := groups[i][0].ID; len(groups[i]) == 1 || out.Check.ID == own {
			results[own] = out.CheckResult
		}
		for _, r := range out.Others {
			results[r.Check.ID] = r
		}
	}
	return first
}
