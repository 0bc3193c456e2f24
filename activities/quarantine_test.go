package activities_test

import (
	"context"
	"maps"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/sandbox"
	"github.com/rocketgpt/orchestrator/internal/setup"
	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/internal/store/flaky"
)

// flakyGo is a Go project: TestFlaky fails the first time in each checkout, TestClock fails if the
// file late exists, and TestGreet is reliable.
var flakyGo = map[string]string{
	"go.mod":     "module example.com/greeter\n\ngo 1.21\n",
	"Makefile":   "",
	"greeter.go": "package greeter\n\n// Greet greets.\nfunc Greet() string { return \"Hello\" }\n",
	"flaky_test.go": `package greeter

import (
	"os"
	"testing"
)

func TestFlaky(t *testing.T) {
	if _, err := os.Stat("ran"); err != nil {
		_ = os.WriteFile("ran", nil, 0o644)
		t.Fatal("first time")
	}
}

func TestClock(t *testing.T) {
	if _, err := os.Stat("late"); err == nil {
		t.Fatal("too late")
	}
}

func TestGreet(t *testing.T) {
	if Greet() != "Hello" {
		t.Fatal("no greeting")
	}
}
`,
}

const (
	clockTest = "example.com/greeter.TestClock"
	flakyTest = "example.com/greeter.TestFlaky"
)

// project makes the run begin with a commit of some files.
func (h *fixture) project(files map[string]string) contract.Workspace {
	h.t.Helper()
	h.commit(files)
	h.Config.Environment.Enabled = false // nothing needs to be installed
	h.newRun()
	return h.repo.Workspace()
}

// newRun creates another run on the same commit.
func (h *fixture) newRun() {
	h.t.Helper()
	settings, spec, err := setup.Freeze(h.Config, h.repo)
	require.NoError(h.t, err)
	h.run, _, err = h.Store.CreateRun(h.t.Context(), store.NewRun{Project: "p", GoalTitle: "Greet", Settings: settings, Spec: spec})
	require.NoError(h.t, err)
}

// baselineOfTests carries out the test checks on the run's base commit.
func (h *fixture) baselineOfTests() {
	h.t.Helper()
	b, err := h.Baseline(h.t.Context(), contract.BaselineInput{RunID: h.run.ID, Workspace: h.repo.Workspace()})
	require.NoError(h.t, err)
	for _, c := range slices.Concat(b.Stages...) {
		if c.Category == contract.CategoryTest {
			_, err := h.Verify(h.t.Context(), contract.VerifyInput{
				Execution: contract.BaselineExecution(h.run.ID), Workspace: h.repo.Workspace(), Check: c, Baseline: b.Key, Timeout: 120e9,
			})
			require.NoError(h.t, err)
		}
	}
	h.run, err = h.Store.Run(h.t.Context(), h.run.ID)
	require.NoError(h.t, err)
}

// tested verifies a workspace as the tester does, with its test checks only. It returns the result of
// the last check that ran tests.
func (h *fixture) tested(ws contract.Workspace) (contract.TestPlanResult, contract.CheckResult, contract.TestReportResult, contract.ExecutionRef) {
	h.t.Helper()
	e := h.begin(contract.PhaseTester, "")
	plan, failure := do[contract.TestPlanResult](h, h.PlanTests, contract.TestPlanInput{Execution: e, Workspace: ws})
	require.Nil(h.t, failure)
	var last contract.CheckResult
	for _, c := range slices.Concat(plan.Stages...) {
		if c.Category != contract.CategoryTest || c.ID == contract.CheckNewTests {
			continue
		}
		last, failure = do[contract.CheckResult](h, h.Verify, contract.VerifyInput{Execution: e, Workspace: ws, Check: c, Timeout: 120e9})
		require.Nil(h.t, failure)
	}
	report, failure := do[contract.TestReportResult](h, h.TestReport, contract.TestReportInput{Execution: e, Thresholds: contract.Thresholds{MaxMedium: 10}})
	require.Nil(h.t, failure)
	return plan, last, report, e
}

func (h *fixture) quarantine(test string) flaky.Entry {
	h.t.Helper()
	e, err := flaky.New(h.Store).Add(h.t.Context(), flaky.Entry{Repo: h.run.Repo, Test: test, Reason: "slow", CreatedBy: "ann", ExpiresAt: time.Now().Add(time.Hour)}, 10)
	require.NoError(h.t, err)
	return e
}

func (h *fixture) knownFlaky() map[string]flaky.Test {
	h.t.Helper()
	list, err := flaky.New(h.Store).Flaky(h.t.Context(), h.run.Repo, h.Config.Verification.Flaky.Window, 50)
	require.NoError(h.t, err)
	out := map[string]flaky.Test{}
	for _, t := range list {
		out[t.Name] = t
	}
	return out
}

func TestATestThatPassesInARerunFailsNoRunAndIsRemembered(t *testing.T) {
	t.Parallel()
	h := newFixture(t, "  []")
	h.project(flakyGo)
	h.baselineOfTests()
	ws := h.with(h.repo.Workspace(), "hello.txt", "hello there\n")
	_, result, report, _ := h.tested(ws)
	require.True(t, result.OK, "%+v", result)
	require.Nil(t, report.Failure, "a heal needs a failure")
	require.Equal(t, []int{2, 0, 1, 0}, []int{report.Summary.Passed, report.Summary.Failed, report.Summary.Flaky, report.Major})
	known := h.knownFlaky()
	require.Len(t, known, 1)
	require.Equal(t, []int64{2, 2, 1}, []int64{int64(known[flakyTest].Flips), known[flakyTest].Reruns, known[flakyTest].BaseFailures}, "on the base and on the change")

	_, result, report, _ = h.tested(h.with(ws, "greeter.go", "package greeter\n\n// Greet greets.\nfunc Greet() string { return \"\" }\n"))
	require.False(t, result.OK)
	require.NotNil(t, report.Failure)
	require.NotContains(t, report.Failure.Message, "TestFlaky", "the reason is the broken test alone")
	require.Contains(t, report.Failure.Message, "TestGreet failed")
}

// coin is a sandbox whose commands see how a coin fell, which is no part of the state of the code.
type coin struct {
	sandbox.Runner
	side string
}

func (c *coin) Run(ctx context.Context, command sandbox.Command) (sandbox.Result, error) {
	command.Env = maps.Clone(command.Env)
	if command.Env == nil {
		command.Env = map[string]string{}
	}
	command.Env["COIN"] = c.side
	return c.Runner.Run(ctx, command)
}

func TestBothOutcomesOfATestOnTheSameTreeMakeItFlakyAndThePolicyMayQuarantineIt(t *testing.T) {
	t.Parallel()
	h := newFixture(t, "  []")
	c := &coin{Runner: h.Sandbox, side: "tails"}
	h.Sandbox = c
	h.project(map[string]string{"go.mod": flakyGo["go.mod"], "Makefile": "", "coin_test.go": `package greeter

import (
	"os"
	"testing"
)

func TestCoin(t *testing.T) {
	if os.Getenv("COIN") != "heads" {
		t.Fatal("tails")
	}
}
`})
	h.Config.Verification.Flaky.Quarantine, h.Config.Verification.Flaky.QuarantineAfter = "auto", 1
	ws := h.with(h.repo.Workspace(), "hello.txt", "hello there\n")
	_, result, _, _ := h.tested(ws)
	require.False(t, result.OK)
	require.Empty(t, h.knownFlaky(), "broken, as far as anybody knows")

	c.side = "heads"
	h.newRun()
	_, result, _, _ = h.tested(ws)
	require.True(t, result.OK)
	known := h.knownFlaky()["example.com/greeter.TestCoin"]
	require.Equal(t, []int64{1, 1, 1}, []int64{int64(known.Flips), known.Passes, known.Failures})
	require.NotZero(t, known.QuarantineID)
	list, err := flaky.New(h.Store).List(t.Context(), h.run.Repo, false, 50)
	require.NoError(t, err)
	require.Equal(t, []string{"policy", "passed and failed at 1 states of the code in 30 days"}, []string{list[0].Source, list[0].Reason})

	c.side = "tails"
	h.newRun()
	plan, result, report, _ := h.tested(ws)
	require.Equal(t, 1, plan.Quarantined)
	require.True(t, result.OK, "%+v", result)
	require.Nil(t, report.Failure)
	require.Equal(t, 1, report.Summary.Quarantined)
}

func TestAQuarantinedTestThatAChangeBreaksIsReportedAndFailsNoRun(t *testing.T) {
	t.Parallel()
	h := newFixture(t, "  []")
	h.project(flakyGo)
	h.baselineOfTests()
	h.quarantine(clockTest)
	late := h.with(h.repo.Workspace(), "late", "1")
	plan, result, report, e := h.tested(late)
	require.Equal(t, 1, plan.Quarantined)
	require.True(t, result.OK, "%+v", result)
	require.Nil(t, report.Failure)
	require.Equal(t, []int{1, 0, 1, 1}, []int{report.Summary.Passed, report.Summary.Failed, report.Summary.Flaky, report.Summary.Quarantined})
	require.Contains(t, report.Warning, "a quarantined test passed on the base commit, but failed in each attempt with this change: "+clockTest)
	checks, err := h.Store.Checks(t.Context(), e.ID)
	require.NoError(t, err)
	var statuses []contract.TestStatus
	for _, c := range checks {
		for _, test := range c.Cases {
			if test.Name == clockTest {
				statuses = append(statuses, test.Status)
				require.Contains(t, test.Message, "too late", "it is shown")
			}
		}
	}
	require.Equal(t, []contract.TestStatus{contract.TestQuarantined}, statuses)
	used, err := flaky.New(h.Store).Used(t.Context(), e.ID)
	require.NoError(t, err)
	require.Len(t, used, 1, "what applied is recorded")

	// All checks of an execution use what was quarantined when they were planned.
	_, failure := do[contract.CheckResult](h, h.Verify, contract.VerifyInput{Execution: e, Workspace: late, Check: result.Check, Timeout: 120e9})
	require.Nil(t, failure)
	_, _, err = flaky.New(h.Store).Remove(t.Context(), used[0].ID, "ann")
	require.NoError(t, err)
	again, failure := do[contract.CheckResult](h, h.Verify, contract.VerifyInput{Execution: e, Workspace: late, Check: result.Check, Timeout: 120e9})
	require.Nil(t, failure)
	require.True(t, again.OK)
	_, result, report, _ = h.tested(late)
	require.False(t, result.OK, "the next verification does not use it")
	require.NotNil(t, report.Failure)

	h.quarantine(clockTest)
	h.Config.Verification.Flaky.Quarantine = "off"
	_, result, _, _ = h.tested(late)
	require.False(t, result.OK, "the operator disabled it")
}

func TestAQuarantineDoesNotHideWhatAChangeDoesToTests(t *testing.T) {
	t.Parallel()
	h := newFixture(t, "  []")
	h.project(flakyGo)
	h.baselineOfTests()
	h.quarantine(clockTest)
	h.quarantine("example.com/greeter.TestNew")
	ws := h.with(h.repo.Workspace(), "late", "1")
	tests := flakyGo["flaky_test.go"]
	for name, c := range map[string]struct{ file, text, want string }{
		"an edited test":     {"flaky_test.go", strings.Replace(tests, `"too late"`, `"still too late"`, 1), clockTest + ": the change edits a test with this name"},
		"a new test":         {"new_test.go", "package greeter\n\nimport \"testing\"\n\nfunc TestNew(t *testing.T) { t.Fatal(\"new\") }\n", "TestNew: the change adds a test with this name"},
		"a compile error":    {"broken_test.go", "package greeter\n\nvar x int = true\n", ""},
		"a crash":            {"crash_test.go", "package greeter\n\nimport (\n\t\"os\"\n\t\"testing\"\n)\n\nfunc TestMain(*testing.M) { os.Exit(3) }\n", ""},
		"another failure":    {"greeter.go", "package greeter\n\n// Greet greets.\nfunc Greet() string { return \"\" }\n", ""},
		"a test that panics": {"flaky_test.go", strings.Replace(tests, `t.Fatal("too late")`, `panic("too late")`, 1), ""},
	} {
		_, result, report, _ := h.tested(h.with(ws, c.file, c.text))
		require.False(t, result.OK, name)
		require.NotNil(t, report.Failure, name)
		require.Contains(t, report.Warning, c.want, name)
	}
	deleted := tests[:strings.Index(tests, "func TestClock")] + tests[strings.Index(tests, "func TestGreet"):]
	plan, _, report, _ := h.tested(h.with(ws, "flaky_test.go", deleted))
	require.False(t, plan.Done[0].OK)
	require.NotNil(t, report.Failure)
	require.Contains(t, report.Failure.Message, "TestClock")
}

func TestTestsOfOtherRunnersAreQuarantinedByTheirExactNames(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		tool  string
		files map[string]string
		named string
	}{
		"python": {"python3", map[string]string{"Makefile": "", "test_port.py": `import os
import unittest


class Port(unittest.TestCase):
    def test_80(self):
        self.assertFalse(os.path.exists("late"))

    def test_443(self):
        self.assertFalse(os.path.exists("later"))
`}, "test_80"},
		"node": {"node", map[string]string{"Makefile": "", "package.json": `{"scripts": {"test": "node --test"}}`, "port.test.js": `const { existsSync } = require("node:fs");
const test = require("node:test");

test("port <b>80</b>", () => { if (existsSync("late")) throw new Error("late"); });
test("port <b>443</b>", () => { if (existsSync("later")) throw new Error("later"); });
`}, "port <b>80</b>"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if _, err := exec.LookPath(c.tool); err != nil {
				t.Skip(c.tool + " is not installed")
			}
			h := newFixture(t, "  []")
			h.project(c.files)
			h.baselineOfTests()
			late := h.with(h.repo.Workspace(), "late", "1")
			_, result, _, e := h.tested(late)
			require.False(t, result.OK, "%+v", result)
			checks, err := h.Store.Checks(t.Context(), e.ID)
			require.NoError(t, err)
			var failed []string
			for _, c := range checks {
				for _, test := range c.Cases {
					if test.Status == contract.TestFailed {
						failed = append(failed, test.Name)
					}
				}
			}
			require.Len(t, failed, 1)
			require.Contains(t, failed[0], c.named)
			h.quarantine(failed[0])
			_, result, report, _ := h.tested(late)
			require.True(t, result.OK, "%+v", result)
			require.Equal(t, []int{1, 1}, []int{report.Summary.Passed, report.Summary.Quarantined})
			_, result, report, _ = h.tested(h.with(late, "later", "1"))
			require.False(t, result.OK, "the other test is not quarantined")
			require.Equal(t, []int{1, 1}, []int{report.Summary.Failed, report.Summary.Quarantined})
		})
	}
}
