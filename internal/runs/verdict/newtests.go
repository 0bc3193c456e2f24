package verdict

import (
	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/pin"
)

// NewTests defines how to treat a new test that does not fail without the change
// (verification.prove_new_tests).
type NewTests string

// The values of NewTests. Empty means off: the run was created before the setting existed.
const (
	NewEnforce NewTests = "enforce" // the finding is major
	NewWarn    NewTests = "warn"    // the finding is medium: it is reported, and the run continues
	NewOff     NewTests = "off"     // not checked
)

// NewModes returns all values of NewTests.
func NewModes() []NewTests { return []NewTests{NewEnforce, NewWarn, NewOff} }

// On reports whether new tests are run without the change.
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

// Proved builds the outcome of the check of new tests from its findings, and returns both as graded
// in the given mode, which must be on.
func Proved(findings []contract.Finding, mode NewTests) (contract.CheckResult, []contract.Finding) {
	return judged(ProofCheck(), findings, mode.grade,
		"new tests must fail without the change; if they are meant to pass with and without it, as in a refactoring, start again with --set verification.prove_new_tests=warn")
}
