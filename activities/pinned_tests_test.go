package activities_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/runs/verdict"
	"github.com/rocketgpt/orchestrator/internal/setup"
	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/internal/verify/checks"
	"github.com/rocketgpt/orchestrator/internal/verify/output"
)

const greeterTest = `package greeter

import "testing"

func TestGreet(t *testing.T) {
	if got := Greet(); got != "Hello" {
		t.Fatalf("got %q", got)
	}
}

func TestAgain(t *testing.T) {
	if Greet() == "" {
		t.Fatal("silent")
	}
}
`

// greeter makes the run begin with a Go project that has tests, with pinned
// tests in the given mode.
func (h *fixture) greeter(mode verdict.PinnedTests) contract.Workspace {
	h.t.Helper()
	for name, text := range map[string]string{
		"go.mod": "module example.com/greeter\n\ngo 1.21\n", "greeter_test.go": greeterTest,
		"greeter.go": "package greeter\n\n// Greet greets.\nfunc Greet() string { return \"Hello\" }\n",
	} {
		require.NoError(h.t, os.WriteFile(filepath.Join(h.dataDir, "source", name), []byte(text), 0o644))
	}
	h.git("rm", "-q", "Makefile")
	h.git("add", "-A")
	h.git("-c", "user.name=t", "-c", "user.email=t@t", "commit", "-qm", "Greet")
	var err error
	h.repo, _, err = h.Workspaces.Resolve(h.t.Context(), filepath.Join(h.dataDir, "source"), "")
	require.NoError(h.t, err)
	start, err := h.Workspaces.Start(h.t.Context(), h.repo)
	require.NoError(h.t, err)
	h.repo.Tree = start.Tree
	settings, spec, err := setup.Freeze(h.Config, h.repo)
	require.NoError(h.t, err)
	require.Equal(h.t, verdict.PinnedEnforce, spec.Verification.PinnedTests, "the default")
	spec.Verification.PinnedTests = mode
	h.run, _, err = h.Store.CreateRun(h.t.Context(), store.NewRun{Project: "p", GoalTitle: "Greet", Settings: settings, Spec: spec})
	require.NoError(h.t, err)
	h.seq = 0
	return h.repo.Workspace()
}

// with returns the workspace with one file changed, or removed if text is empty.
func (h *fixture) with(ws contract.Workspace, name, text string) contract.Workspace {
	h.t.Helper()
	dir, err := h.Workspaces.Open(h.t.Context(), ws, "edit")
	require.NoError(h.t, err)
	defer dir.Close()
	path := filepath.Join(dir.Path(), name)
	if text == "" {
		require.NoError(h.t, os.Remove(path))
	} else {
		require.NoError(h.t, os.WriteFile(path, []byte(text), 0o644))
	}
	changed, err := dir.Save(h.t.Context())
	require.NoError(h.t, err)
	return changed
}

// planned plans the verification of a workspace and returns what the planning alone
// found, with the report over it.
func (h *fixture) planned(ws contract.Workspace) (contract.TestPlanResult, []store.Finding, contract.TestReportResult) {
	h.t.Helper()
	e := h.begin(contract.PhaseTester, "")
	plan, failure := do[contract.TestPlanResult](h, h.PlanTests, contract.TestPlanInput{Execution: e, Workspace: ws, LocalOnly: true})
	require.Nil(h.t, failure)
	require.False(h.t, plan.Cold)
	all, err := h.Store.Findings(h.t.Context(), h.run.ID)
	require.NoError(h.t, err)
	var open []store.Finding
	for _, f := range all {
		if f.CheckID == contract.CheckPinnedTests && !f.Resolved {
			open = append(open, f)
		}
	}
	report, failure := do[contract.TestReportResult](h, h.TestReport, contract.TestReportInput{Execution: e})
	require.Nil(h.t, failure)
	return plan, open, report
}

var (
	withoutAgain = greeterTest[:strings.Index(greeterTest, "func TestAgain")]
	otherGreet   = strings.Replace(greeterTest, `"Hello"`, `"Goodbye"`, 1)
)

func TestATestThatTheChangeRemovedIsAFindingAndFailsTheTester(t *testing.T) {
	t.Parallel()
	h := newFixture(t, "  []")
	ws := h.greeter(verdict.PinnedEnforce)
	plan, findings, report := h.planned(h.with(ws, "greeter_test.go", withoutAgain))
	require.NotEmpty(t, plan.Stages)
	require.Len(t, plan.Done, 1)
	require.Len(t, findings, 1)
	require.Equal(t, contract.SeverityMajor, findings[0].Severity)
	require.Equal(t, contract.CategoryTest, findings[0].Category)
	require.Equal(t, "pinned-tests/deleted", findings[0].Rule)
	require.Equal(t, contract.CodeFindings, report.Failure.Code)
	require.Contains(t, report.Failure.Message, "TestAgain was deleted")

	_, findings, report = h.planned(ws)
	require.Empty(t, findings, "what was put back is resolved")
	require.Nil(t, report.Failure)
}

func TestAGoalAboutTestsMayTakeThemAwayAndPeopleSeeIt(t *testing.T) {
	t.Parallel()
	h := newFixture(t, "  []")
	ws := h.greeter(verdict.PinnedReport)
	_, findings, report := h.planned(h.with(ws, "greeter_test.go", withoutAgain))
	require.Len(t, findings, 1)
	require.Equal(t, contract.SeverityMedium, findings[0].Severity)
	require.Nil(t, report.Failure)
	require.Equal(t, 1, report.Medium)
}

func TestAnotherExpectationIsAFindingThatFailsNothingByItself(t *testing.T) {
	t.Parallel()
	h := newFixture(t, "  []")
	ws := h.greeter(verdict.PinnedEnforce)
	_, findings, report := h.planned(h.with(ws, "greeter_test.go", otherGreet))
	require.Len(t, findings, 1)
	require.Equal(t, "pinned-tests/edited", findings[0].Rule)
	require.Equal(t, contract.SeverityMedium, findings[0].Severity)
	require.Nil(t, report.Failure)
}

func TestAChangeThatLeavesTestsAloneIsNoProblemAndSaysThatItWasLookedAt(t *testing.T) {
	t.Parallel()
	h := newFixture(t, "  []")
	ws := h.greeter(verdict.PinnedEnforce)
	more := greeterTest + "\nfunc TestMore(t *testing.T) {\n\tif Greet() == \"x\" {\n\t\tt.Fatal(\"x\")\n\t}\n}\n"
	for _, changed := range []contract.Workspace{ws, h.with(ws, "hello.txt", "bye"), h.with(ws, "greeter_test.go", more)} {
		plan, findings, report := h.planned(changed)
		require.Empty(t, findings)
		require.Nil(t, report.Failure)
		require.True(t, plan.Done[0].OK)
	}
}

func TestPinnedTestsThatAreOffReportNothing(t *testing.T) {
	t.Parallel()
	for _, mode := range []verdict.PinnedTests{verdict.PinnedOff, ""} {
		h := newFixture(t, "  []")
		ws := h.greeter(mode)
		plan, findings, _ := h.planned(h.with(ws, "greeter_test.go", ""))
		require.Empty(t, plan.Done)
		require.Empty(t, findings)
	}
}

func TestAReTestRunsTheSameCommandAsTheCheckThatItRepeatsWithoutASecondTry(t *testing.T) {
	t.Parallel()
	h := newFixture(t, "  []")
	spec := setup.RunSpec{Verification: checks.Settings{RerunFailed: 1, Test: checks.StageSettings{
		// Fails the first time in each checkout, and passes when it is run again.
		Command: `if test -e tried; then printf '1..1\nok 1 - second\n'; else touch tried; printf '1..1\nnot ok 1 - second\n'; exit 1; fi`,
		Format:  output.FormatTAP,
	}}}
	var err error
	h.run, _, err = h.Store.CreateRun(t.Context(), store.NewRun{Project: "p", GoalTitle: "g", Settings: h.run.Settings, Spec: spec})
	require.NoError(t, err)
	h.seq = 0
	ws := h.repo.Workspace()
	e := h.begin(contract.PhaseTester, "")
	plan, failure := do[contract.TestPlanResult](h, h.PlanTests, contract.TestPlanInput{Execution: e, Workspace: ws})
	require.Nil(t, failure)
	var check contract.Check
	for _, stage := range plan.Stages {
		for _, c := range stage {
			if c.Category == contract.CategoryTest {
				check = c
			}
		}
	}
	carryOut := func(c contract.Check) contract.CheckResult {
		out, failure := do[contract.CheckResult](h, h.Verify, contract.VerifyInput{Execution: e, Workspace: ws, Check: c, Timeout: 120e9})
		require.Nil(t, failure)
		return out
	}
	first := carryOut(check)
	require.True(t, first.OK, first.Message)
	require.Equal(t, 1, first.Summary.Flaky)
	second := carryOut(check.AsRetest(1, 2))
	require.Equal(t, check.ID+"~2", second.Check.ID)
	require.False(t, second.OK)
	report, failure := do[contract.TestReportResult](h, h.TestReport, contract.TestReportInput{Execution: e})
	require.Nil(t, failure)
	require.Contains(t, report.Failure.Message, "not stable: in retest 1 of 2")
}
