// Package verify checks whether a checkout is good: it builds, tests, lints and scans it, and
// converts the output of the tools into findings and test cases.
//
// Package checks plans the commands, and package output parses the output of tools. [Run] runs one
// check in the sandbox. [Merge] combines outcomes. [Prove] runs new tests without the change that
// added them.
//
// The checkout, its tools and their output are hostile. Rules that follow from this
// for the whole package:
//
//   - the exit code of the real command decides: a command that
//     failed has failed, whatever a report says; a report can only add failures;
//   - reports are read from regular files inside the checkout that the command
//     has written just now, never through a symbolic link, never unbounded;
//   - texts are cut, stripped of terminal codes and made valid UTF-8;
//   - nothing of the repository is executed on the host, not even to plan.
//
// A failed check is a result. An error means that the check could not be completed.
package verify

import (
	"net"
	"time"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/sandbox"
	"github.com/rocketgpt/orchestrator/internal/verify/checks"
	"github.com/rocketgpt/orchestrator/internal/verify/coverage"
)

// Outcome is the result of one check.
type Outcome struct {
	// OK is true if every command exited with code 0 (failed tests may have passed in a re-run), no
	// test case failed and no finding is major.
	OK bool `json:"ok"`
	// Skipped is true if no scan of the check could judge the checkout; Message contains the reason,
	// and OK is true. The check has neither passed nor failed.
	Skipped bool `json:"skipped,omitempty"`
	// OnlyTests is true if the check failed and its failed cases, all of which are listed by name,
	// are the only reason.
	OnlyTests bool `json:"only_tests,omitempty"`
	// Started is true if every command could start. A command without its program, package or
	// dependencies cannot; a lint is OK even then, with a minor finding, because a missing tool is
	// not a defect of the code.
	Started bool `json:"started"`
	// Code is the machine-readable reason for a failure: tests_failed, check_failed, timeout,
	// command_crashed, missing_dependency or no_tests. Empty if OK. Of a skipped check, it is
	// missing_dependency, forbidden (the settings do not allow access to the database) or unavailable.
	Code contract.Code `json:"code,omitempty"`
	// Message is the most informative line about a failed check.
	Message string `json:"message,omitempty"`
	// Cause names what is missing if a command could not start.
	Cause   string               `json:"cause,omitempty"`
	Summary contract.TestSummary `json:"summary"`
	Cases   []contract.TestCase  `json:"cases,omitempty"`
	// Unnamed is true if some cases are commands that do not report individual tests.
	Unnamed  bool               `json:"unnamed,omitempty"`
	Findings []contract.Finding `json:"findings,omitempty"`
	// Artifacts are files that the check created in the checkout; those that help most to understand
	// a failure come first.
	Artifacts []ArtifactFile `json:"artifacts,omitempty"`
	// Unlisted is the number of files that reports name in addition, beyond the maximum.
	Unlisted int `json:"unlisted,omitempty"`
	// Coverage is which lines the tests executed; nil if it was not measured. CoverageNote is the
	// reason why it is missing or incomplete, if there is one.
	Coverage     *coverage.Profile `json:"-"`
	CoverageNote string            `json:"-"`
	// Log is the output of the commands; of a long output, the head and the tail.
	Log []byte `json:"log,omitempty"`
	// Duration is wall time, including re-runs.
	Duration time.Duration `json:"duration"`
}

// ArtifactFile is a file that a check created. Path is relative to the checkout and was a regular
// file when listed; open it through os.Root.
type ArtifactFile struct {
	Name string                `json:"name"` // unique within the outcome: login-fails/trace.zip
	Path string                `json:"path"`
	Type contract.ArtifactType `json:"type"`
	Size int64                 `json:"size"`

	failed bool // of a failed test
}

// Result is the outcome without its texts.
func (o Outcome) Result(check contract.Check) contract.CheckResult {
	r := contract.CheckResult{
		Check: check, OK: o.OK, Summary: o.Summary, Message: o.Message,
		DurationMS: o.Duration.Milliseconds(), Unnamed: o.Unnamed, Skipped: o.Skipped, OnlyTests: o.OnlyTests,
	}
	for _, f := range o.Findings {
		switch f.Severity {
		case contract.SeverityMajor:
			r.Major++
		case contract.SeverityMedium:
			r.Medium++
		default:
			r.Minor++
		}
	}
	return r
}

// Env is the environment of a check.
type Env struct {
	// Runner isolates the commands.
	Runner sandbox.Runner
	// Settings must be those the check was planned with.
	Settings checks.Settings
	// Limits restrict each command. Limits.Timeout limits the whole check with its re-runs.
	Limits sandbox.Limits
	// Vars are added to the environment of every command: toolchain locations,
	// PLAYWRIGHT_CHROMIUM_EXECUTABLE_PATH, RGPT_CHROMIUM.
	Vars map[string]string
	// Mounts are the parts of the host that commands can access, such as caches.
	Mounts []sandbox.Mount
	// GoCache is the build cache of the go tool. The zero value is a cache that lasts for one
	// command.
	GoCache sandbox.GoCache
	// Outfit adds the environment of the checkout to each command: its home, installed packages and
	// PATH. It may be nil.
	Outfit func(c *sandbox.Command)
	// NodeModules is a directory with installed Node packages, outside the checkout, which commands
	// may read at NodeModulesInside. Empty means the checkout's own packages, if any.
	NodeModules string
	// Proxy provides network access to commands that may reach hosts; see sandbox.Command.Proxy.
	// Nil means no network access, whatever the settings.
	Proxy func(hosts []string) func(net.Listener) []string
	// CACertificates are trusted by commands with network access.
	CACertificates []byte
	// OnOutput receives the output of commands as it arrives, ready for display.
	OnOutput func(stream sandbox.Stream, chunk []byte)
}

func (e Env) outfit(c *sandbox.Command) {
	if e.Outfit != nil {
		e.Outfit(c)
	}
}

// NodeModulesInside is the path of Env.NodeModules inside the sandbox.
const NodeModulesInside = "/opt/node_modules"
