// Package verify tells whether a checkout is any good: it builds, tests, lints
// and scans it, and turns what the tools say into findings and test cases.
//
// [Plan] looks at the files of a checkout and the settings and lists the
// checks, stage by stage. [Run] carries out one of them in the sandbox. [Merge]
// sums them up. [Prove] runs new tests where the change that they came with is not.
//
// The checkout, its tools and all they print are hostile. What follows from
// that runs through the whole package:
//
//   - the exit code of the real command has the last word: a command that
//     failed is red, whatever a report says; a report can only make it redder;
//   - reports are read from regular files inside the checkout that the command
//     has written just now, never through a symbolic link, never unbounded;
//   - texts are cut, freed of terminal codes and made valid UTF-8;
//   - nothing of the repository is executed on the host, not even to plan.
//
// A red check is a result. An error means that the work could not be done.
package verify

import (
	"encoding/json"
	"net"
	"time"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/runs/verdict"
	"github.com/rocketgpt/orchestrator/internal/sandbox"
)

// Switch says whether a stage runs.
type Switch string

// The positions of a switch. Empty means auto.
const (
	SwitchAuto Switch = "auto"  // when something is configured or detected
	SwitchOn   Switch = "true"  // always; having nothing to run is a finding
	SwitchOff  Switch = "false" // never
)

// Format names what a command prints or writes.
type Format string

// The formats. Empty means auto: the report's or the output's first bytes
// decide.
const (
	FormatAuto       Format = "auto"
	FormatGoTest     Format = "go-test-json"
	FormatJUnit      Format = "junit"
	FormatSARIF      Format = "sarif"
	FormatTAP        Format = "tap"
	FormatPlaywright Format = "playwright"
	FormatExitCode   Format = "exit-code"
)

// Formats of tools that only detection uses.
const (
	formatUnittest Format = "unittest"
	formatCargo    Format = "cargo-test"
	formatJest     Format = "jest-json"
	formatAva      Format = "ava-tap"
	formatRunners  Format = "test-runner-text"
	formatFileList Format = "file-list"
)

// Settings is the section verification of the configuration.
type Settings struct {
	AutoDetect   bool          `json:"auto_detect"`
	Shards       int           `json:"shards"` // at most this many for each kind of tests; 0 and 1: no sharding
	Build        StageSettings `json:"build"`
	Test         StageSettings `json:"test"`
	Lint         StageSettings `json:"lint"`
	Security     StageSettings `json:"security"`
	Custom       []Custom      `json:"custom"`
	RerunFailed  int           `json:"rerun_failed"`  // how often failed tests run again
	RequireTests bool          `json:"require_tests"` // no tests is a major finding, else a minor one, or a medium one where all were skipped
	// PinnedTests says how a change of tests counts. No check of Plan depends on it.
	PinnedTests verdict.PinnedTests `json:"pinned_tests,omitempty"`
	// NewTests says how a new test counts that does not need its change. No check
	// of Plan depends on it.
	NewTests verdict.NewTests `json:"prove_new_tests,omitempty"`
}

// StageSettings configures one stage. A command replaces what detection finds.
type StageSettings struct {
	Enabled  Switch            `json:"enabled"`
	Command  string            `json:"command"` // for the shell, in the root of the checkout
	Format   Format            `json:"format"`
	Report   string            `json:"report"`   // glob of the files that the command writes, relative to the root
	Severity contract.Severity `json:"severity"` // of errors; empty: the stage's default
	Network  Hosts             `json:"network"`  // that its commands may reach
}

// Custom is a check of the user's own.
type Custom struct {
	Name     string            `json:"name"`
	Command  string            `json:"command"`
	Format   Format            `json:"format"`
	Report   string            `json:"report"`
	Severity contract.Severity `json:"severity"`
	Timeout  time.Duration     `json:"timeout"`
	Network  Hosts             `json:"network"` // that its command may reach
}

// Hosts are patterns of hosts; none is no network.
type Hosts []string

// UnmarshalJSON reads a list. The true or false of runs that were made before
// there were lists is read as none: a network without bounds is not to be had
// any more.
func (h *Hosts) UnmarshalJSON(data []byte) error {
	var old bool
	if json.Unmarshal(data, &old) == nil {
		*h = nil
		return nil
	}
	return json.Unmarshal(data, (*[]string)(h))
}

// NodeModulesInside is where commands find Env.NodeModules.
const NodeModulesInside = "/opt/node_modules"

// Env is what a check runs with.
type Env struct {
	// Runner isolates the commands.
	Runner sandbox.Runner
	// Settings must be those the check was planned with.
	Settings Settings
	// Limits bound each command. Limits.Timeout bounds the whole check with
	// its re-runs.
	Limits sandbox.Limits
	// Vars are added to the environment of every command: where the
	// toolchains are, PLAYWRIGHT_CHROMIUM_EXECUTABLE_PATH, RGPT_CHROMIUM.
	Vars map[string]string
	// Mounts are what commands see of the host, such as caches.
	Mounts []sandbox.Mount
	// GoCache holds what the go tool compiled. The zero value is a cache that
	// ends with each command.
	GoCache sandbox.GoCache
	// Outfit gives each command what the environment of the checkout brings: its
	// home, installed packages, PATH. May be nil.
	Outfit func(c *sandbox.Command)
	// NodeModules is a directory with installed Node packages, outside the
	// checkout, which commands may read at NodeModulesInside. Empty: those of
	// the checkout, if any.
	NodeModules string
	// Proxy gives commands that may reach hosts their way out; see
	// sandbox.Command.Proxy. Nil means that there is none, whatever the settings
	// say.
	Proxy func(hosts []string) func(net.Listener) []string
	// CACertificates are trusted by commands with a way out.
	CACertificates []byte
	// OnOutput receives what commands print, as it comes, fit for people.
	OnOutput func(stream sandbox.Stream, chunk []byte)
}

// Outcome says what one check found.
type Outcome struct {
	// OK: every command ended with exit code 0 (failed tests may have passed
	// when run again), no test case failed and no finding is major.
	OK bool `json:"ok"`
	// Started: every command could begin its work. One whose program, package or
	// dependencies are not installed could not; then a lint is OK all the same, with
	// a minor finding, for it says nothing about the code.
	Started bool `json:"started"`
	// Code says why not, for programs: tests_failed, check_failed, timeout,
	// command_crashed, missing_dependency or no_tests. Empty when OK.
	Code contract.Code `json:"code,omitempty"`
	// Message is the telling line of a red check.
	Message string `json:"message,omitempty"`
	// Cause names what is missing where a command could not start.
	Cause   string               `json:"cause,omitempty"`
	Summary contract.TestSummary `json:"summary"`
	Cases   []contract.TestCase  `json:"cases,omitempty"`
	// Unnamed: some cases are commands that say nothing of single tests.
	Unnamed  bool               `json:"unnamed,omitempty"`
	Findings []contract.Finding `json:"findings,omitempty"`
	// Artifacts are files that the check left in the checkout.
	Artifacts []ArtifactFile `json:"artifacts,omitempty"`
	// Log is what the commands printed: head and tail of it when it was long.
	Log []byte `json:"log,omitempty"`
	// Duration is wall time, re-runs included.
	Duration time.Duration `json:"duration"`
}

// ArtifactFile is a file that a check left behind. Path is relative to the
// checkout and was a regular file when it was listed; open it through os.Root.
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
