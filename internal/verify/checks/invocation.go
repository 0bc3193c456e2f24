package checks

import (
	"maps"
	"os"
	"time"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/pin"
	"github.com/rocketgpt/orchestrator/internal/sandbox"
	"github.com/rocketgpt/orchestrator/internal/verify/output"
)

// Job describes how a check runs.
type Job struct {
	Check       contract.Check
	Invocations []Invocation       // one after the other
	Known       []contract.Finding // findings from planning
	Severity    contract.Severity  // of errors; empty means the category's default
	Timeout     time.Duration      // 0 means Env.Limits
	// Required means that a scan that is not installed is a finding.
	Required bool
}

// Invocation is one command of a check.
type Invocation struct {
	Args    []string          // either args
	Shell   string            // or shell
	typed   []string          // what a person would type instead of Args
	files   map[string]string // files that it needs in ScratchDir, by their names
	Dir     string            // working directory, slash-separated, relative to the root
	Env     map[string]string
	Format  output.Format
	Reports []string // globs of the reports it writes, relative to the root
	Network []string // hosts that it may reach

	Setup    bool // prepares for the next commands; if it fails, they do not run
	Advisory bool // its exit code does not matter
	// Coverage are the ways in which it can measure coverage, the best first.
	Coverage []Coverage
	Most     time.Duration // limit of its duration, besides that of the check; 0: none
	// Runner is true if the command starts a test runner: a failure that names no test does not
	// count as a test.
	Runner bool
	// OrText is true if the output counts when no report was written.
	OrText bool
	// PrintedSummary reads the runner's own test count from its output, if its report counts
	// differently.
	PrintedSummary func(stdout, stderr []byte) *contract.TestSummary
	Probe          []string    // if it exits with 0, the invocation runs, otherwise Instead
	Instead        *Invocation // nil means nothing
	Scan           *Scan       // nil if it searches for no vulnerabilities or secrets

	// Source is a directory of Python packages that may need to be on the path.
	Source string
	GoDirs map[string]string // Go modules: path → directory
	// canary adds a test with a random name that runs last; see canary.go. It is nil if the runner
	// does not support this.
	canary func(root *os.Root, inv Invocation, secret string) (Invocation, error)
	// Ended checks that the tests ran to their end. May be nil.
	Ended func(f *Finished, s output.Paths)
	// HiddenTest is the name of a Go test that is not shown.
	HiddenTest string
	// Audit compares the results with the sources. May be nil.
	Audit func(root *os.Root, s output.Paths, p *output.Results)
	// RerunFailed narrows the command to failed cases; attempt counts from 1. If nil, the whole
	// command runs again.
	RerunFailed func(failed []output.Case, attempt int) Invocation
	// Recorded is true if it records its tests, unlike the first run. This slows tests down and can
	// make them fail.
	Recorded bool
	// Only narrows the command to some tests and returns the tests that this covers. If nil, the
	// whole command runs and covers all of them.
	Only func(tests []pin.Added) (Invocation, []pin.Added)
}

// String is the command as a person would type it.
func (i Invocation) String() string {
	text := i.Shell
	switch {
	case len(i.typed) > 0:
		text = sandbox.Quote(i.typed...)
	case text == "":
		text = sandbox.Quote(i.Args...)
	}
	if i.Dir != "" && i.Dir != "." {
		text = "(cd " + sandbox.Quote(i.Dir) + " && " + text + ")"
	}
	return text
}

// WithEnv returns an environment with more variables.
func WithEnv(base map[string]string, more map[string]string) map[string]string {
	out := maps.Clone(base)
	if out == nil {
		out = map[string]string{}
	}
	maps.Copy(out, more)
	return out
}

// addNetwork lets commands reach more hosts.
func addNetwork(runs []Invocation, hosts []string) {
	for n := range runs {
		for at := &runs[n]; at != nil; at = at.Instead {
			at.Network = union(at.Network, hosts)
		}
	}
}
