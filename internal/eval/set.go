// Package eval describes evaluations: sets of tasks with hidden tests, and the variants of the
// product, or other agents, that solve them.
//
// The packages below it do the work: commits reads real commits, draw makes tasks from them, oracle
// plays their changes, judge decides by the hidden tests, drivers runs other agents, runner runs an
// evaluation, and report compares its results.
package eval

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

// Limits of a set.
const (
	// MaxFile is the maximum size of a file with tasks, in bytes.
	MaxFile = 256 << 20
	// MaxTasks is the maximum number of tasks of a set.
	MaxTasks = 5000
	// MaxVariants is the maximum number of variants of an evaluation.
	MaxVariants = 20
	// MaxPatch is the maximum size of the hidden tests of one task, and of its solution, in bytes.
	MaxPatch = 8 << 20
	// MaxNames is the maximum number of tests that one task names in each of its lists.
	MaxNames = 50_000
	maxName  = 1000
)

// Defaults of a task.
const (
	// DefaultTimeout is the time limit of a run of a task.
	DefaultTimeout = time.Hour
	// DefaultTestTimeout is the time limit of its hidden tests.
	DefaultTestTimeout = 20 * time.Minute
)

// Set is a set of tasks, and optionally the variants that solve them.
type Set struct {
	Name     string    `yaml:"name" json:"name"`
	Tasks    []Task    `yaml:"tasks" json:"tasks"`
	Variants []Variant `yaml:"variants,omitempty" json:"variants,omitempty"`
}

// Task is a goal for a repository, with hidden tests that decide whether it was reached.
type Task struct {
	ID   string `yaml:"id" json:"id"`
	Repo string `yaml:"repo" json:"repo"` // a directory, a URL, or owner/name on GitHub
	Base string `yaml:"base" json:"base"` // full ID of the commit to start from
	Goal Goal   `yaml:"goal" json:"goal"`
	// Tests are hidden: no agent sees them.
	Tests Tests `yaml:"tests" json:"tests"`
	// FailToPass are the tests that a solution makes pass; PassToPass must keep passing. Names are
	// those that checks report. Both empty: the exit code of the command decides.
	FailToPass []string `yaml:"fail_to_pass,omitempty" json:"fail_to_pass,omitempty"`
	PassToPass []string `yaml:"pass_to_pass,omitempty" json:"pass_to_pass,omitempty"`
	// Environment is the section environment of rgpt.yaml for this task; empty: as detected.
	Environment map[string]any `yaml:"environment,omitempty" json:"environment,omitempty"`
	// Settings are settings of its runs, by dotted key.
	Settings map[string]string `yaml:"settings,omitempty" json:"settings,omitempty"`
	// Timeout and TestTimeout are durations such as 30m; empty: the defaults.
	Timeout     Duration `yaml:"timeout,omitempty" json:"timeout,omitzero"`
	TestTimeout Duration `yaml:"test_timeout,omitempty" json:"test_timeout,omitzero"`
	// Solution is the patch of the real commit without its tests. Only the oracle uses it.
	Solution string `yaml:"solution,omitempty" json:"solution,omitempty"`
}

// Goal is what the agents are asked for.
type Goal struct {
	Title       string `yaml:"title" json:"title"`
	Description string `yaml:"description,omitempty" json:"description,omitempty"`
}

// Tests are the hidden tests of a task.
type Tests struct {
	// Patch is a git patch from the base to the base with the hidden tests. The files that it
	// names are laid over the result of a run.
	Patch string `yaml:"patch" json:"patch"`
	// Command runs the tests; empty: the tests are detected, as in verification.test. Format and
	// Report are those of verification.test.
	Command string `yaml:"command,omitempty" json:"command,omitempty"`
	Format  string `yaml:"format,omitempty" json:"format,omitempty"`
	Report  string `yaml:"report,omitempty" json:"report,omitempty"`
}

// Duration is a time.Duration that is written as text, such as 30m.
type Duration time.Duration

// UnmarshalText reads a duration.
func (d *Duration) UnmarshalText(text []byte) error {
	v, err := time.ParseDuration(string(text))
	if err != nil || v <= 0 {
		return fmt.Errorf("%q is not a positive duration, such as 30m", text)
	}
	*d = Duration(v)
	return nil
}

// MarshalText writes a duration.
func (d Duration) MarshalText() ([]byte, error) { return []byte(time.Duration(d).String()), nil }

// Or returns the duration, or another one if it is not set.
func (d Duration) Or(other time.Duration) time.Duration {
	if d == 0 {
		return other
	}
	return time.Duration(d)
}

// Variant is one way to solve the tasks: settings of the product, or another agent. The zero value
// is the product as it is configured.
type Variant struct {
	Name string `yaml:"name" json:"name"`
	// Model is the model of all agents, as provider/model; empty: as configured.
	Model  string `yaml:"model,omitempty" json:"model,omitempty"`
	Effort string `yaml:"effort,omitempty" json:"effort,omitempty"`
	PlanBy string `yaml:"plan_by,omitempty" json:"plan_by,omitempty"`
	// Config overlays the configuration of its runs. Keys may be nested or dotted.
	Config map[string]any `yaml:"config,omitempty" json:"config,omitempty"`
	// Oracle replaces the model by one that knows the solution: exact or noisy.
	Oracle string `yaml:"oracle,omitempty" json:"oracle,omitempty"`
	// Driver is another agent that solves the tasks instead of the product.
	Driver *Driver `yaml:"driver,omitempty" json:"driver,omitempty"`
}

// The ways in which an oracle plays a solution.
const (
	OracleExact = "exact" // as it is
	OracleNoisy = "noisy" // with a mistake at first, which it fixes once it sees the failure
)

// Driver runs another agent: a command line on a checkout of the base, in the sandbox.
type Driver struct {
	// Preset is a built-in driver, such as mini-swe-agent. The fields that are set override it.
	Preset string `yaml:"preset,omitempty" json:"preset,omitempty"`
	// Install prepares the agent, once, with access to Hosts. It may write to RGPT_DRIVER_HOME only.
	Install string `yaml:"install,omitempty" json:"install,omitempty"`
	// Command runs the agent in the checkout. It finds the goal in the file RGPT_GOAL_FILE, and its
	// model at OPENAI_BASE_URL under the name RGPT_MODEL.
	Command string   `yaml:"command,omitempty" json:"command,omitempty"`
	Hosts   []string `yaml:"hosts,omitempty" json:"hosts,omitempty"`
	// Environment are additional environment variables.
	Environment map[string]string `yaml:"environment,omitempty" json:"environment,omitempty"`
}

var (
	namePattern   = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._+@:-]{0,199}$`)
	commitPattern = regexp.MustCompile(`^[0-9a-f]{40}([0-9a-f]{24})?$`)
)

// Check returns what is wrong with a set.
func (s Set) Check() error {
	var wrong []error
	note := func(format string, args ...any) { wrong = append(wrong, fmt.Errorf(format, args...)) }
	switch {
	case len(s.Tasks) == 0:
		note("it has no tasks")
	case len(s.Tasks) > MaxTasks:
		note("it has %d tasks, more than the %d allowed", len(s.Tasks), MaxTasks)
	}
	seen := map[string]bool{}
	for i, t := range s.Tasks {
		if err := t.check(); err != nil {
			note("tasks[%d] (%.60q): %w", i, t.ID, err)
		}
		if seen[t.ID] {
			note("tasks[%d]: the ID %.60q is used twice", i, t.ID)
		}
		seen[t.ID] = true
		if len(wrong) > 20 {
			note("and more")
			break
		}
	}
	if len(s.Variants) > 0 {
		if err := CheckVariants(s.Variants); err != nil {
			note("%w", err)
		}
	}
	return errors.Join(wrong...)
}

func (t Task) check() error {
	switch {
	case !namePattern.MatchString(t.ID):
		return errors.New("id must have 1 to 200 letters, digits and any of . _ + @ : -, and start with a letter or digit")
	case t.Repo == "":
		return errors.New("repo is missing")
	case !commitPattern.MatchString(t.Base):
		return fmt.Errorf("base %.60q must be the full ID of a commit", t.Base)
	case strings.TrimSpace(t.Goal.Title) == "":
		return errors.New("goal.title is missing")
	case !clean(t.Goal.Title) || !clean(t.Goal.Description):
		return errors.New("goal must be valid UTF-8 without NUL bytes")
	case t.Tests.Patch == "" && t.Tests.Command == "":
		return errors.New("tests has neither a patch nor a command, so nothing could decide")
	case len(t.Tests.Patch) > MaxPatch || len(t.Solution) > MaxPatch:
		return fmt.Errorf("a patch is larger than %d bytes", MaxPatch)
	case len(t.FailToPass) > MaxNames || len(t.PassToPass) > MaxNames:
		return fmt.Errorf("it names more than %d tests", MaxNames)
	}
	for _, name := range slices.Concat(t.FailToPass, t.PassToPass) {
		if name == "" || len(name) > maxName {
			return fmt.Errorf("the name of a test must have 1 to %d bytes", maxName)
		}
	}
	return nil
}

func clean(text string) bool { return utf8.ValidString(text) && !strings.ContainsRune(text, 0) }

// CheckVariants returns what is wrong with the variants of an evaluation.
func CheckVariants(all []Variant) error {
	if len(all) > MaxVariants {
		return fmt.Errorf("there are %d variants, more than the %d allowed", len(all), MaxVariants)
	}
	seen := map[string]bool{}
	for i, v := range all {
		switch {
		case !namePattern.MatchString(v.Name):
			return fmt.Errorf("variants[%d]: the name %.60q must have letters, digits and any of . _ + @ : -", i, v.Name)
		case seen[v.Name]:
			return fmt.Errorf("variants[%d]: the name %q is used twice", i, v.Name)
		case v.Oracle != "" && v.Oracle != OracleExact && v.Oracle != OracleNoisy:
			return fmt.Errorf("variant %s: oracle must be %s or %s", v.Name, OracleExact, OracleNoisy)
		case v.Oracle != "" && (v.Model != "" || v.Driver != nil):
			return fmt.Errorf("variant %s: an oracle excludes a model and a driver", v.Name)
		case v.Driver != nil && v.Model == "":
			return fmt.Errorf("variant %s: a driver requires a model, as provider/model", v.Name)
		case v.Driver != nil && v.Driver.Preset == "" && v.Driver.Command == "":
			return fmt.Errorf("variant %s: driver requires a preset or a command", v.Name)
		}
		if _, err := v.Settings(); err != nil {
			return fmt.Errorf("variant %s: %w", v.Name, err)
		}
		seen[v.Name] = true
	}
	return nil
}

// Settings returns the configuration overlay as settings by dotted key.
func (v Variant) Settings() (map[string]string, error) {
	out := map[string]string{}
	return out, flatten("", v.Config, out)
}

func flatten(prefix string, tree map[string]any, out map[string]string) error {
	for _, key := range slices.Sorted(maps.Keys(tree)) {
		name := strings.TrimPrefix(prefix+"."+key, ".")
		switch value := tree[key].(type) {
		case map[string]any:
			if err := flatten(name, value, out); err != nil {
				return err
			}
		case string:
			out[name] = value
		case nil:
			return fmt.Errorf("config: %s has no value", name)
		default: // JSON is a text form of all other values that settings accept
			text, err := json.Marshal(value)
			if err != nil {
				return fmt.Errorf("config: %s cannot be written as text: %w", name, err)
			}
			out[name] = string(text)
		}
	}
	return nil
}

// Digest identifies tasks and variants: an evaluation that was interrupted continues only with the
// same ones.
func Digest(tasks []Task, variants []Variant) (string, error) {
	raw, err := json.Marshal(Set{Tasks: tasks, Variants: variants})
	if err != nil {
		return "", fmt.Errorf("compute the digest of a set: %w", err)
	}
	sum := sha256.Sum256(raw)
	return hex.EncodeToString(sum[:]), nil
}
