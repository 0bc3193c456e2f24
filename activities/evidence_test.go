package activities_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/runs/verdict"
	"github.com/rocketgpt/orchestrator/internal/setup"
	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/internal/telemetry"
	"github.com/rocketgpt/orchestrator/internal/verify/checks"
	"github.com/rocketgpt/orchestrator/internal/verify/output"
)

const canary = "sk-canary4711q7Zt4Lw9Xn2Vb6Rm"

// testedBy makes a command the run's test, or build.
func (h *fixture) testedBy(v checks.Settings) {
	h.t.Helper()
	var err error
	h.run, _, err = h.Store.CreateRun(h.t.Context(), store.NewRun{Project: "p", GoalTitle: "g", Settings: h.run.Settings, Spec: setup.RunSpec{Verification: v}})
	require.NoError(h.t, err)
	h.seq = 0
	h.run.PlanID, err = h.Store.SavePlan(h.t.Context(), h.run.ID, 0, "planner", contract.Plan{Summary: "s", Steps: []contract.Step{{ID: "step-001", Name: "a", Description: "a"}}})
	require.NoError(h.t, err)
}

// repairPrompt returns the text of all messages to an agent that heals.
func (h *fixture) repairPrompt(failed contract.ExecutionRef, failure contract.Failure) string {
	h.t.Helper()
	in := h.opening()
	in.Record.Begin.Phase, in.Record.Begin.Step, in.Record.Begin.Agent = contract.PhaseTester, "repair", contract.AgentRepair
	in.Heal = &contract.HealTask{Number: 1, Execution: failed, Failure: failure, RootCause: failure.Message}
	opened, f := do[contract.OpenStepResult](h, h.OpenStep, in)
	require.Nil(h.t, f)
	messages, err := h.Store.Conversation(h.t.Context(), opened.Execution.ID)
	require.NoError(h.t, err)
	var all string
	for _, m := range messages {
		all += string(m.Content)
	}
	return all
}

func TestSecretsInTheOutputOfTestsAreNeitherStoredNorShownToAnAgent(t *testing.T) {
	t.Parallel()
	h := newFixture(t, "  []")
	h.testedBy(checks.Settings{Test: checks.StageSettings{
		Command: `printf '1..1\nnot ok 1 - logs in\n  ---\n  error: "refused the key ` + canary + `"\n  ...\n'; exit 1`, Format: output.FormatTAP,
	}})
	e := h.begin(contract.PhaseTester, "")
	result, failure := do[contract.CheckResult](h, h.Verify, contract.VerifyInput{
		Execution: e, Workspace: h.repo.Workspace(), Check: contract.Check{ID: "test-configured-1", Category: contract.CategoryTest}, Timeout: 120e9,
	})
	require.Nil(t, failure)
	require.Contains(t, result.Message, "refused the key "+telemetry.Redacted)
	checks, err := h.Store.Checks(t.Context(), e.ID)
	require.NoError(t, err)
	require.Contains(t, checks[0].Cases[0].Message, telemetry.Redacted)
	findings, err := h.Store.Findings(t.Context(), h.run.ID)
	require.NoError(t, err)
	require.NotContains(t, findings[0].Message, canary)
	report, failure := do[contract.TestReportResult](h, h.TestReport, contract.TestReportInput{Execution: e})
	require.Nil(t, failure)
	require.NotContains(t, report.Failure.Message, canary)

	// What was stored earlier, or by others, is not shown either.
	checks[0].Cases[0].Message, result.Message = "the key is "+canary, "failed with "+canary
	require.NoError(t, h.Store.SaveCheck(t.Context(), e, "test-configured-1", result, checks[0].Cases, nil, ""))
	told := h.repairPrompt(e, *report.Failure)
	require.Contains(t, told, "the key is "+telemetry.Redacted)
	require.NotContains(t, told, canary)
}

func TestWhatARunMakesOfItsOwnConfigurationDoesNotCountInIt(t *testing.T) {
	t.Parallel()
	h := newFixture(t, "  []")
	ws := h.greeter(verdict.PinnedEnforce)
	before, _, _ := h.planned(ws)
	ws = h.with(ws, "rgpt.yaml", "findings: {max_major: 1000, max_medium: 1000}\nverification:\n  auto_detect: false\n  pinned_tests: off\n  prove_new_tests: off\n  test: {command: 'true'}\n")
	ws = h.with(ws, "greeter_test.go", withoutAgain)
	plan, findings, report := h.planned(ws)
	require.Equal(t, before.Stages, plan.Stages, "the checks are those that the run froze")
	require.Equal(t, "pinned-tests/deleted", findings[0].Rule)
	require.Equal(t, contract.CodeFindings, report.Failure.Code)
}

func TestTheChecksOfAStepThatIsCarriedOutStrictlyAreDiagnosedLikeThoseOfTheTester(t *testing.T) {
	t.Parallel()
	h := newFixture(t, "  []")
	h.testedBy(checks.Settings{Build: checks.StageSettings{Command: "echo 'write out.o: no space left on device' >&2; exit 1", Format: output.FormatExitCode}})
	e, ws := h.openStep()
	result, failure := do[contract.CheckResult](h, h.Verify, contract.VerifyInput{
		Execution: e, Workspace: ws, Check: contract.Check{ID: "build-configured", Category: contract.CategoryBuild}, Timeout: 120e9,
	})
	require.Nil(t, failure)
	require.False(t, result.OK)
	in := contract.DiagnoseInput{Execution: e, Failure: contract.Failure{Class: contract.ClassAssertion, Code: contract.CodeCheckFailed, Message: "it does not pass build"}}
	diagnosis, failure := do[contract.Diagnosis](h, h.Diagnose, in)
	require.Nil(t, failure)
	require.Equal(t, contract.ClassInfra, diagnosis.Failure.Class)
	require.Equal(t, contract.CodeDiskFull, diagnosis.Failure.Code)
	require.Contains(t, diagnosis.RootCause, "no space left")

	in.Failure.Code, in.Failure.Class = contract.CodeLoop, contract.ClassLLM
	diagnosis, failure = do[contract.Diagnosis](h, h.Diagnose, in)
	require.Nil(t, failure)
	require.Equal(t, in.Failure, diagnosis.Failure, "what no check said is not explained by one")
}

// proved verifies a change in all stages of its plan, and returns the findings
// about new tests, and whether they ran without the change.
func (h *fixture) proved(ws contract.Workspace) (found []store.Finding, ran bool) {
	h.t.Helper()
	e := h.begin(contract.PhaseTester, "")
	plan, failure := do[contract.TestPlanResult](h, h.PlanTests, contract.TestPlanInput{Execution: e, Workspace: ws})
	require.Nil(h.t, failure)
	last := plan.Stages[len(plan.Stages)-1]
	if last[0].ID != contract.CheckNewTests {
		return nil, false
	}
	result, failure := do[contract.CheckResult](h, h.Verify, contract.VerifyInput{Execution: e, Workspace: ws, Check: last[0], Timeout: 300e9})
	require.Nil(h.t, failure)
	require.Zero(h.t, result.Summary, "they are no results of the change's tests")
	all, err := h.Store.Findings(h.t.Context(), h.run.ID)
	require.NoError(h.t, err)
	for _, f := range all {
		if f.CheckID == contract.CheckNewTests && !f.Resolved {
			found = append(found, f)
		}
	}
	require.Len(h.t, found, result.Major+result.Medium)
	return found, true
}

func TestNewTestsAreRunOnTheOldCodeWithTheFilesOfTestsAsTheChangeLeavesThem(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("compiles Go's standard library")
	}
	h := newFixture(t, "  []")
	ws := h.greeter(verdict.PinnedEnforce)
	const louder = "package greeter\n\n// Greet greets.\nfunc Greet() string { return \"Hello!\" }\n"
	const vacuous = "package greeter\n\nimport \"testing\"\n\nfunc TestNotSilent(t *testing.T) {\n\tif Greet() == \"\" || testing.Short() {\n\t\tt.Fatal(\"silent\")\n\t}\n}\n"
	_, ran := h.proved(h.with(ws, "more_test.go", vacuous))
	require.False(t, ran, "a change of tests alone has nothing to prove")
	_, ran = h.proved(h.with(ws, "greeter.go", louder))
	require.False(t, ran, "nor has one without new tests")

	// The old test moves into a file of another name: were the old file still
	// there, nothing would compile, and everything would seem proven.
	moved := h.with(h.with(h.with(ws, "greeter_test.go", ""), "moved_test.go", otherGreet), "greeter.go", louder)
	found, ran := h.proved(h.with(moved, "more_test.go", vacuous))
	require.True(t, ran)
	require.Len(t, found, 1)
	require.Equal(t, contract.SeverityMedium, found[0].Severity, "the default warns")
	require.Equal(t, "more_test.go:5", found[0].Location)
	require.Contains(t, found[0].Message, "TestNotSilent also passes without the change")
}
