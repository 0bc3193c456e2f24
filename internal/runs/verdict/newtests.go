package verdict

import (
	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/pin"
)

// NewTests is how a new test counts that does not fail without its change
// (verification.prove_new_tests).
type NewTests string

// The ways in which such a test counts. Empty means off: the run was created before
// there was a choice.
const (
	NewEnforce NewTests = "enforce" // it is major
	NewWarn    NewTests = "warn"    // it is medium: people see it, the run continues
	NewOff     NewTests = "off"     // nobody checks
)

// NewModes returns the ways in which such a test may count.
func NewModes() []NewTests { return []NewTests{NewEnforce, NewWarn, NewOff} }

// On reports whether new tests are run without their change at all.
func (n NewTests) On() bool { return n == NewEnforce || n == NewWarn }

func (n NewTests) grade(f contract.Finding) contract.Finding {
	if f.Rule != pin.RuleUnproven {
		return f
	}
	f.Severity = contract.SeverityMajor
	if n == NewWarn {
		f.Severity = contract.SeverityMedium
	}
	return f
}

// ProofCheck is the check that runs new tests without the change.
func ProofCheck() contract.Check {
	return contract.Check{ID: contract.CheckNewTests, Category: contract.CategoryTest, Name: "New tests without the change"}
}

// Proved builds the outcome of the check of new tests from its findings, and returns
// both as they count in a mode. The mode must be on.
func Proved(findings []contract.Finding, mode NewTests) (contract.CheckResult, []contract.Finding) {
	return judged(ProofCheck(), findings, mode.grade,
		"each new test must fail without the change; if they are meant to pass with and without it, as in a refactoring, start the run with --set verification.prove_new_tests=warn")
}
