package contract

import "slices"

// These functions define the order of a verification, stage by stage: a failed build ends it, and
// new tests run without their change only if no test has failed.

// IsNewTestProof reports whether a stage runs new tests without their change.
func IsNewTestProof(stage []Check) bool { return len(stage) == 1 && stage[0].ID == CheckNewTests }

// StopsRun reports whether a check stops a run regardless of the thresholds.
func (r CheckResult) StopsRun() bool {
	return !r.OK && (r.Check.Category == CategoryBuild || r.Check.Category == CategoryTest) && r.Check.ID != CheckPinnedTests
}

// BuildFailed reports whether a build check failed.
func BuildFailed(results []CheckResult) bool {
	return slices.ContainsFunc(results, func(r CheckResult) bool { return r.Check.Category == CategoryBuild && !r.OK })
}

// RetestChecks returns the test checks of a plan as one round of re-tests.
func RetestChecks(stages [][]Check, round, rounds int) []Check {
	var out []Check
	for _, stage := range stages {
		for _, c := range stage {
			if c.Category == CategoryTest && c.ID != CheckNewTests {
				out = append(out, c.AsRetest(round, rounds))
			}
		}
	}
	return out
}
