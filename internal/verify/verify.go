// Package verify finds out whether a checkout is good: it builds, tests, lints and
// scans it, and turns the output of the tools into findings and test cases.
//
// Package checks plans what to run, package output reads what tools print and write.
// [Run] carries out one check in the sandbox. [Merge] sums up outcomes. [Prove] runs new
// tests without the change that they came with.
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
// A failed check is a result. An error means that the work could not be done.
package verify

import (
	"net"
	"time"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/sandbox"
	"github.com/rocketgpt/orchestrator/internal/verify/checks"
)

// Outcome is the result of one check.
type Outcome struct {
	// OK: every command ended with exit code 0 (failed tests may have passed in a
	// re-run), no test case failed and no finding is major.
	OK bool `json:"ok"`
	// Started: every command could begin its work. A command whose program, package or
	// dependencies are not installed could not; a lint is OK even then, with a minor
	// finding, because it does not describe the code.
	Started bool `json:"started"`
	// Code says why not, for programs: tests_failed, check_failed, timeout,
	// command_crashed, missing_dependency or no_tests. Empty if OK.
	Code contract.Code `json:"code,omitempty"`
	// Message is the most informative line about a failed check.
	Message string `json:"message,omitempty"`
	// Cause names what is missing if a command could not start.
	Cause   string               `json:"cause,omitempty"`
	Summary contract.TestSummary `json:"summary"`
	Cases   []contract.TestCase  `json:"cases,omitempty"`
	// Unnamed: some cases are commands that do not report single tests.
	Unnamed  bool               `json:"unnamed,omitempty"`
	Findings []contract.Finding `json:"findings,omitempty"`
	// Artifacts are files that the check left in the checkout.
	Artifacts []ArtifactFile `json:"artifacts,omitempty"`
	// Log is the output of the commands: head and tail if it was long.
	Log []byte `json:"log,omitempty"`
	// Duration is wall time, including re-runs.
	Duration time.Duration `json:"duration"`
}

// ArtifactFile is a file that a check left behind. Path is relative to the checkout and
// was a regular file when it was listed; open it through os.Root.
type ArtifactFile struct {
	Name string                `json:"name"` // unique within the outcome: login-fails/trace.zip
	Path string                `json:"path"`
	Type contract.ArtifactType `json:"type"`
	Size int64                 `json:"size"`
}

// Result is the outcome without its texts.
func (o Outcome) Result(check contract.Check) contract.CheckResult {
	r := contract.CheckResult{
		Check: check, OK: o.OK, Summary: o.Summary, Message: o.Message,
		DurationMS: o.Duration.Milliseconds(), Unnamed: o.Unnamed,
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

// Env is what a check runs with.
type Env struct {
	// Runner isolates the commands.
	Runner sandbox.Runner
	// Settings must be those the check was planned with.
	Settings checks.Settings
	// Limits restrict each command. Limits.Timeout limits the whole check with its
	// re-runs.
	Limits sandbox.Limits
	// Vars are added to the environment of every command: where the
	// toolchains are, PLAYWRIGHT_CHROMIUM_EXECUTABLE_PATH, RGPT_CHROMIUM.
	Vars map[string]string
	// Mounts are the parts of the host that commands see, such as caches.
	Mounts []sandbox.Mount
	// GoCache holds what the go tool compiled. The zero value is a cache that ends with
	// each command.
	GoCache sandbox.GoCache
	// Outfit gives each command what the environment of the checkout provides: its
	// home, installed packages, PATH. May be nil.
	Outfit func(c *sandbox.Command)
	// NodeModules is a directory with installed Node packages, outside the checkout,
	// which commands may read at NodeModulesInside. Empty means those of the checkout,
	// if any.
	NodeModules string
	// Proxy gives commands that may reach hosts their way out; see
	// sandbox.Command.Proxy. Nil means that there is none, whatever the settings say.
	Proxy func(hosts []string) func(net.Listener) []string
	// CACertificates are trusted by commands with a way out.
	CACertificates []byte
	// OnOutput receives the output of commands as it comes, ready for display.
	OnOutput func(stream sandbox.Stream, chunk []byte)
}

func (e Env) outfit(c *sandbox.Command) {
	if e.Outfit != nil {
		e.Outfit(c)
	}
}

// NodeModulesInside is where commands find Env.NodeModules.
const NodeModulesInside = "/opt/node_modules"
