package contract

import (
	"slices"
	"time"
)

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

// QuarantinedTest is a test of a project whose failures do not count until ExpiresAt.
type QuarantinedTest struct {
	ID        int64     `json:"id"`
	Check     string    `json:"check,omitempty"` // Check.Kind; empty: any check
	Test      string    `json:"test"`            // the exact name of the test case, with its parameters
	Reason    string    `json:"reason"`
	ExpiresAt time.Time `json:"expires_at"`
	// Ignored is the reason why the entry has no effect on this verification. Empty: it has one.
	Ignored string `json:"ignored,omitempty"`
}

// Covers reports whether the entry is about a test of a check.
func (q QuarantinedTest) Covers(check Check, test string) bool {
	return q.Test == test && (q.Check == "" || q.Check == check.Kind() || q.Check == check.Original().ID)
}
