// Package judge decides by the hidden tests of a task whether it is solved. It runs them with the
// product's tester in the sandbox, in repositories that no agent sees.
package judge

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/config"
	"github.com/rocketgpt/orchestrator/internal/eval"
	"github.com/rocketgpt/orchestrator/internal/eval/commits"
	"github.com/rocketgpt/orchestrator/internal/eval/report"
	"github.com/rocketgpt/orchestrator/internal/fault"
	"github.com/rocketgpt/orchestrator/internal/store/evals"
	"github.com/rocketgpt/orchestrator/internal/tester/standalone"
)

// Reasons why a task is not solved.
const (
	ReasonHiddenTests = "hidden_tests" // a hidden test failed or did not run
	ReasonConflict    = "conflict"     // the hidden tests cannot be laid over the result
	ReasonEnvironment = report.ReasonEnvironment
	ReasonError       = report.ReasonError
)

// shownTests is the maximum number of failed tests that a verdict names.
const shownTests = 10

// Judge runs tests on this host.
type Judge struct {
	Config  *config.Config // the operator's
	DataDir string         // has the caches, which a worker may share
	Log     *slog.Logger
	// Compare says how a change is compared with its base.
	Compare Comparison
}

// Comparison says how a change is compared with its base.
type Comparison int

// Comparisons, each with those before it.
const (
	NoComparison Comparison = iota // as for hidden tests
	PinnedTests                    // tests that are deleted or weakened are findings, as in a run
	Baseline                       // the results are compared with those of the base, as in a run
)

// Verdict is the outcome of the hidden tests.
type Verdict struct {
	Solved         bool
	Reason, Detail string // why it is not solved
	Tests          *evals.Tests
}

// Judge lays the hidden tests of a task over a commit in a repository, and runs them.
func (j Judge) Judge(ctx context.Context, t eval.Task, repo, commit string) (Verdict, error) {
	laid, err := commits.Lay(ctx, repo, commit, t.Base, t.Tests.Patch)
	if err != nil {
		if ctx.Err() != nil {
			return Verdict{}, err
		}
		return Verdict{Reason: ReasonConflict, Detail: "the hidden tests could not be laid over the result: " + fault.FirstLine(err.Error())}, nil
	}
	r, err := j.Run(ctx, t, repo, laid)
	if err != nil {
		return Verdict{}, err
	}
	return Of(t, r), nil
}

// Run runs the tests of a task on a commit of a repository. The settings are those of its base,
// so a change cannot choose its own rules.
func (j Judge) Run(ctx context.Context, t eval.Task, repo, commit string) (standalone.Report, error) {
	cfg, err := j.config(t)
	if err != nil {
		return standalone.Report{}, err
	}
	section, err := EnvironmentYAML(t)
	if err != nil {
		return standalone.Report{}, err
	}
	base := t.Base
	if commit == base {
		base = ""
	}
	limited, cancel := context.WithTimeout(ctx, 3*t.TestTimeout.Or(eval.DefaultTestTimeout)+cfg.Environment.Timeout)
	defer cancel()
	r, err := standalone.Verify(limited, standalone.Options{
		Config: cfg, Repo: repo, Commit: commit, Base: base, Only: []string{string(contract.CategoryTest)}, Environment: section,
		DataDir: j.DataDir, Log: j.Log, Progress: silent{},
	})
	if err != nil && ctx.Err() == nil && limited.Err() != nil {
		err = fault.New(contract.ClassInfra, contract.CodeTimeout, "the tests of task %s did not finish in time", t.ID)
	}
	return r, err
}

// config returns the settings of the hidden tests: those of the task's runs, without the comparisons
// with the base.
func (j Judge) config(t eval.Task) (*config.Config, error) {
	cfg, err := config.LoadRequest(j.Config, t.Settings)
	if err != nil {
		return nil, err
	}
	own := *cfg
	v := &own.Verification
	v.Baseline, v.PinnedTests, v.ProveNewTests, v.Coverage = "off", "off", "off", "off"
	v.RequireTests, v.Timeout = false, t.TestTimeout.Or(eval.DefaultTestTimeout)
	v.Security.Enabled = config.Off
	if j.Compare >= PinnedTests {
		v.PinnedTests = "enforce"
	}
	if j.Compare >= Baseline {
		v.Baseline = "on"
	}
	own.Execution.StableRetests = 0
	if t.Tests.Command != "" {
		v.Test.Enabled, v.Test.Command, v.Test.Report = config.On, t.Tests.Command, t.Tests.Report
		if v.Test.Format = t.Tests.Format; v.Test.Format == "" {
			v.Test.Format = "auto"
		}
	}
	return &own, nil
}

// EnvironmentYAML returns the environment of a task as a YAML document, empty if it has none.
func EnvironmentYAML(t eval.Task) (string, error) {
	if len(t.Environment) == 0 {
		return "", nil
	}
	raw, err := yaml.Marshal(map[string]any{"environment": t.Environment})
	if err != nil {
		return "", fmt.Errorf("write the environment of task %s: %w", t.ID, err)
	}
	return string(raw), nil
}

// Of returns the verdict of a report on the hidden tests.
func Of(t eval.Task, r standalone.Report) Verdict {
	if r.Failure != nil && !r.Judged() {
		return Verdict{Reason: ReasonEnvironment, Detail: r.Failure.Message}
	}
	if len(r.Checks) == 0 {
		return Verdict{Reason: ReasonEnvironment, Detail: "no tests were found to run"}
	}
	if len(t.FailToPass) == 0 && len(t.PassToPass) == 0 {
		v := Verdict{Solved: r.OK, Tests: &evals.Tests{Passed: r.OK}}
		if !r.OK {
			v.Reason, v.Detail = ReasonHiddenTests, "the command of the hidden tests failed"
		}
		return v
	}
	found := newOutcomes(r.Results)
	var bad []string
	count := func(names []string) evals.Count {
		c := evals.Count{Total: len(names)}
		for _, name := range names {
			if found.passed(name) {
				c.Passed++
			} else {
				bad = append(bad, name)
			}
		}
		return c
	}
	tests := &evals.Tests{FailToPass: count(t.FailToPass), PassToPass: count(t.PassToPass)}
	if tests.Passed = len(bad) == 0; tests.Passed {
		return Verdict{Solved: true, Tests: tests}
	}
	more := ""
	if n := len(bad) - shownTests; n > 0 {
		bad, more = bad[:shownTests], fmt.Sprintf(" and %d more", n)
	}
	return Verdict{Reason: ReasonHiddenTests, Detail: "did not pass: " + strings.Join(bad, ", ") + more, Tests: tests}
}

// Passed returns the names of the tests that passed, sorted, each once: those of which no case failed
// or was skipped.
func Passed(cases []contract.TestCase) []string {
	o := newOutcomes(cases)
	var out []string
	for name, ok := range o.exact {
		if ok && name != "" {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out
}

// outcomes says by name which tests passed.
type outcomes struct {
	exact, plain map[string]bool
}

func newOutcomes(cases []contract.TestCase) outcomes {
	o := outcomes{map[string]bool{}, map[string]bool{}}
	for _, c := range cases {
		ok := c.Status == contract.TestPassed || c.Status == contract.TestFlaky
		note(o.exact, c.Name, ok)
		note(o.plain, plain(c.Name), ok)
	}
	return o
}

// note records an outcome; a test passes if all cases with its name do.
func note(all map[string]bool, name string, ok bool) {
	if before, known := all[name]; known {
		ok = ok && before
	}
	all[name] = ok
}

func (o outcomes) passed(name string) bool {
	if ok, known := o.exact[name]; known {
		return ok
	}
	return o.plain[plain(name)]
}

var unittestName = regexp.MustCompile(`^(\S+) \(([\w.]+)\)$`)

// plain returns the name of a test in a form that pytest's IDs, JUnit reports and unittest share:
// tests/test_a.py::TestB::test_c, tests.test_a.TestB.test_c and test_c (tests.test_a.TestB) are the
// same.
func plain(name string) string {
	if m := unittestName.FindStringSubmatch(name); m != nil {
		return m[2] + "." + strings.TrimPrefix(m[1], m[2]+".")
	}
	file, rest, ok := strings.Cut(name, "::")
	if !ok || !strings.HasSuffix(file, ".py") {
		return name
	}
	return strings.ReplaceAll(filepath.ToSlash(strings.TrimSuffix(file, ".py")), "/", ".") + "." + strings.ReplaceAll(rest, "::", ".")
}

// Why returns the verdict for an error that prevents one.
func Why(err error) Verdict {
	f := fault.Of(err)
	reason := ReasonError
	var unjudged *standalone.Unjudged
	if f.Class == contract.ClassConfig && !errors.As(err, &unjudged) {
		reason = ReasonEnvironment
	}
	return Verdict{Reason: reason, Detail: f.Message}
}

// silent ignores the progress of a verification: output of hidden tests is shown to nobody.
type silent struct{}

// Begin implements standalone.Progress.
func (silent) Begin(standalone.Report) {}

// Note implements standalone.Progress.
func (silent) Note(string) {}

// SettingUp implements standalone.Progress.
func (silent) SettingUp(bool, string) {}

// Ready implements standalone.Progress.
func (silent) Ready(bool, standalone.Environment) {}

// Started implements standalone.Progress.
func (silent) Started(bool, contract.Check) {}

// Finished implements standalone.Progress.
func (silent) Finished(bool, contract.CheckResult) {}

// Output implements standalone.Progress.
func (silent) Output([]byte) {}
