package checks

import (
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"path/filepath"
	"slices"
	"time"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/fault"
	"github.com/rocketgpt/orchestrator/internal/glob"
	"github.com/rocketgpt/orchestrator/internal/runs/verdict"
	"github.com/rocketgpt/orchestrator/internal/verify/output"
)

// Switch reports whether a stage runs.
type Switch string

// The values of a switch. Empty means auto.
const (
	SwitchAuto Switch = "auto"  // if something is configured or detected
	SwitchOn   Switch = "true"  // always; having nothing to run is a finding
	SwitchOff  Switch = "false" // never
)

// Settings is the section verification of the configuration.
type Settings struct {
	AutoDetect   bool          `json:"auto_detect"`
	Shards       int           `json:"shards"` // at most this many for each kind of tests; 0 and 1 mean no sharding
	Build        StageSettings `json:"build"`
	Test         StageSettings `json:"test"`
	Lint         StageSettings `json:"lint"`
	Security     StageSettings `json:"security"`
	Custom       []Custom      `json:"custom"`
	RerunFailed  int           `json:"rerun_failed"`  // how often failed tests run again
	RequireTests bool          `json:"require_tests"` // true makes having no tests a major finding; otherwise it is minor, or medium if all were skipped
	// Coverage specifies whether test commands also report which lines they execute. It does not
	// affect Plan.
	Coverage CoverageMode `json:"coverage,omitempty"`
	// Recordings specifies which runs of browser tests are recorded.
	Recordings Recordings `json:"recordings,omitempty"`
	// Databases are copies of vulnerability databases on the workers.
	Databases Databases `json:"databases,omitzero"`
	// Durations of test files in earlier runs balance the shards. They do not affect which tests run.
	Durations Durations `json:"durations,omitempty"`
	// PinnedTests specifies how a change to tests counts. It does not affect Plan.
	PinnedTests verdict.PinnedTests `json:"pinned_tests,omitempty"`
	// NewTests specifies how a new test that does not need its change counts. It does not affect
	// Plan.
	NewTests verdict.NewTests `json:"prove_new_tests,omitempty"`
}

func (s Settings) stage(c contract.Category) StageSettings {
	switch c {
	case contract.CategoryBuild:
		return s.Build
	case contract.CategoryTest:
		return s.Test
	case contract.CategoryLint:
		return s.Lint
	default:
		return s.Security
	}
}

// check rejects settings that would not do what the user intended.
func (s Settings) check() error {
	for _, c := range contract.Categories()[:4] {
		set := s.stage(c)
		key := "verification." + string(c)
		if !slices.Contains([]Switch{"", SwitchAuto, SwitchOn, SwitchOff}, set.Enabled) {
			return badSetting("%s.enabled is %q: use auto, true or false", key, set.Enabled)
		}
		if err := checkCommand(key, set.Format, set.Severity, set.Report); err != nil {
			return err
		}
	}
	seen := map[string]bool{}
	for n, c := range s.Custom {
		key := fmt.Sprintf("verification.custom[%d]", n)
		switch {
		case c.Command == "":
			return badSetting("%s.command is missing", key)
		case slug(c.Name) == "":
			return badSetting("%s.name is missing", key)
		case seen[slug(c.Name)]:
			return badSetting("%s.name %q is used twice", key, c.Name)
		}
		seen[slug(c.Name)] = true
		if err := checkCommand(key, c.Format, c.Severity, c.Report); err != nil {
			return err
		}
	}
	return nil
}

// StageSettings configures one stage. A command replaces the detected ones.
type StageSettings struct {
	Enabled  Switch            `json:"enabled"`
	Command  string            `json:"command"` // for the shell, in the root of the checkout
	Format   output.Format     `json:"format"`
	Report   string            `json:"report"`   // glob of the files that the command writes, relative to the root
	Severity contract.Severity `json:"severity"` // of errors; empty means the stage's default
	Network  Hosts             `json:"network"`  // hosts that its commands may reach
}

// Custom is a check defined by the user.
type Custom struct {
	Name     string            `json:"name"`
	Command  string            `json:"command"`
	Format   output.Format     `json:"format"`
	Report   string            `json:"report"`
	Severity contract.Severity `json:"severity"`
	Timeout  time.Duration     `json:"timeout"`
	Network  Hosts             `json:"network"` // hosts that its command may reach
}

// Hosts are patterns of hosts. An empty list means no network.
type Hosts []string

// UnmarshalJSON reads a list. A boolean, from runs created before lists existed, is read as an
// empty list: an unrestricted network is no longer available.
func (h *Hosts) UnmarshalJSON(data []byte) error {
	var old bool
	if json.Unmarshal(data, &old) == nil {
		*h = nil
		return nil
	}
	return json.Unmarshal(data, (*[]string)(h))
}

var formats = []output.Format{"", output.FormatAuto, output.FormatGoTest, output.FormatJUnit, output.FormatSARIF, output.FormatTAP, output.FormatPlaywright, output.FormatExitCode}

func checkCommand(key string, f output.Format, sev contract.Severity, report string) error {
	switch {
	case !slices.Contains(formats, f):
		return badSetting("%s.format is %q: use one of auto, go-test-json, junit, sarif, tap, playwright, exit-code", key, f)
	case !slices.Contains([]contract.Severity{"", contract.SeverityMajor, contract.SeverityMedium, contract.SeverityMinor}, sev):
		return badSetting("%s.severity is %q: use major, medium or minor", key, sev)
	case report != "" && checkGlob(report) != nil:
		return badSetting("%s.report: %.200q %v", key, report, checkGlob(report))
	}
	return nil
}

func badSetting(format string, args ...any) error {
	return fault.New(contract.ClassConfig, contract.CodeInvalidConfig, format, args...)
}

// checkGlob validates a report pattern: it must not point outside the checkout or be expensive to
// match.
func checkGlob(pattern string) error {
	if path.IsAbs(pattern) || !filepath.IsLocal(pattern) {
		return errors.New("points outside the repository; expected a pattern relative to its root")
	}
	return glob.Check(pattern)
}

// NetworkSetting names the setting that lists the hosts that checks of a category may reach.
func NetworkSetting(c contract.Category) string {
	if c == contract.CategoryCustom {
		return "the check's network setting under verification.custom"
	}
	return fmt.Sprintf("verification.%s.network", c)
}
