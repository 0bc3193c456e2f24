package main

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/control"
	"github.com/rocketgpt/orchestrator/internal/pin"
	"github.com/rocketgpt/orchestrator/internal/runs/verdict"
	"github.com/rocketgpt/orchestrator/internal/setup"
	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/internal/verify/checks"
)

// tested makes a run whose planner answered as given and whose tester passed with a
// test removed, which it only reported.
func (p *testEnv) tested(t *testing.T, answer string) int64 {
	t.Helper()
	ctx := t.Context()
	run, _, err := p.CreateRun(ctx, store.NewRun{
		Project: "p", GoalTitle: "g", Spec: setup.RunSpec{Verification: checks.Settings{PinnedTests: verdict.PinnedReport, NewTests: verdict.NewWarn}},
		Settings: contract.Settings{Repo: contract.Repo{URL: "/r", Base: "b", Tree: "t"}, Thresholds: contract.Thresholds{MaxMajor: 1, MaxMedium: 5}},
	})
	require.NoError(t, err)
	var seq int64
	record := func(r contract.Record) contract.ExecutionRef {
		seq++
		r.RunID, r.Seq = run.ID, seq
		done, err := p.Record(ctx, store.Source{WorkflowID: contract.RunWorkflowID(run.ID), WorkflowRunID: "first"}, r)
		require.NoError(t, err)
		return done.Execution
	}
	planner := record(contract.Record{Begin: &contract.ExecutionBegin{Phase: contract.PhasePlanner, Agent: contract.AgentPlanner}})
	p.answer(t, planner, answer)
	planID, err := p.SavePlan(ctx, run.ID, planner.ID, "planner", plan("Say it"))
	require.NoError(t, err)
	record(contract.Record{
		End: &contract.ExecutionEnd{ExecutionID: planner.ID, Status: contract.ExecutionCompleted},
		Run: &contract.RunChange{Phase: contract.PhasePlanner, Status: contract.PhasePlanner.Completed(), PlanID: planID},
	})
	tester := record(contract.Record{Begin: &contract.ExecutionBegin{Phase: contract.PhaseTester, Agent: contract.AgentTester}})
	pins, findings := verdict.Pinned([]contract.Finding{{
		Severity: contract.SeverityMajor, Category: contract.CategoryTest, Message: "TestA is deleted", Rule: "pinned-tests/deleted",
	}}, verdict.PinnedReport)
	require.NoError(t, p.SaveCheck(ctx, tester, pins.Check.ID, pins, nil, findings, ""))
	news, findings := verdict.Proved([]contract.Finding{pin.Added{Path: "a_test.go", Line: 1, Name: "TestB"}.Finding("also passes without the change")}, verdict.NewWarn)
	require.NoError(t, p.SaveCheck(ctx, tester, news.Check.ID, news, nil, findings, ""))
	lint := contract.CheckResult{Check: contract.Check{ID: "lint-go", Category: contract.CategoryLint}, Major: 1, Message: "a.go:1: unused", Summary: contract.TestSummary{}}
	require.NoError(t, p.SaveCheck(ctx, tester, "lint-go", lint, nil,
		[]contract.Finding{{Severity: contract.SeverityMajor, Category: contract.CategoryLint, Message: "unused", Location: "a.go:1"}}, ""))
	record(contract.Record{
		End: &contract.ExecutionEnd{ExecutionID: tester.ID, Status: contract.ExecutionCompleted},
		Run: &contract.RunChange{Phase: contract.PhaseTester, Status: contract.PhaseTester.Completed()},
	})
	// A later attempt that could not be carried out has no verdict.
	later := record(contract.Record{Begin: &contract.ExecutionBegin{Phase: contract.PhaseTester, Agent: contract.AgentTester}})
	record(contract.Record{End: &contract.ExecutionEnd{
		ExecutionID: later.ID, Status: contract.ExecutionFailed, Failure: &contract.Failure{Class: contract.ClassInfra, Code: contract.CodeDatabaseDown, Message: "down"},
	}})
	return run.ID
}

// answer stores what the planner's model answered.
func (p *testEnv) answer(t *testing.T, e contract.ExecutionRef, text string) {
	t.Helper()
	raw, err := json.Marshal(map[string]string{"text": text})
	require.NoError(t, err)
	require.NoError(t, p.OpenConversation(t.Context(), e.ID, []store.Message{{Role: "user", Content: json.RawMessage(`{"role":"user","text":"plan"}`)}}))
	call, err := p.ReserveCall(t.Context(), store.Reservation{Execution: e, Turn: 1, Provider: "scripted", Model: "m", PromptVersion: "planner@1", Prompt: 1})
	require.NoError(t, err)
	require.NoError(t, p.CompleteCall(t.Context(), call.ID, contract.Usage{Calls: 1}, 0, raw, nil))
}

const goodPlan = `{"summary":"s","complexity_score":0.1,"steps":[{"id":"step-001","name":"a","description":"a","dependencies":[],"estimated_complexity":"low","risk_level":"low","verification_criteria":[],"files":[]}]}`

func (r result) retrials(t *testing.T) (out control.Retrials) {
	t.Helper()
	require.NoError(t, json.Unmarshal([]byte(r.out), &out), r.out)
	return out
}

func TestARunJudgedByItsOwnRulesIsAsItWas(t *testing.T) {
	t.Parallel()
	p := withStore(t)
	id := contract.RunWorkflowID(p.tested(t, goodPlan))
	r := p.ok(t, "run", "rejudge", id)
	require.Contains(t, r.out, "limits of 1 major and 5 medium findings; pinned tests: report; new tests: warn")
	require.Contains(t, r.out, "planner, attempt 1: same\n  before: good\n  now:    good\n")
	require.Contains(t, r.out, "plan: same\n")
	require.Contains(t, r.out, "tester, attempt 1: same\n  before: good\n  now:    good\n  findings: 1 major, 2 medium, 0 minor\n")
}

func TestStricterRulesAreWorseAndSayWhyAndChangeNothing(t *testing.T) {
	t.Parallel()
	p := withStore(t)
	run := p.tested(t, goodPlan)
	id := contract.RunWorkflowID(run)
	before, err := p.RunDetails(t.Context(), run)
	require.NoError(t, err)
	for _, rules := range [][]string{{"--max-major", "0"}, {"--pinned-tests", "enforce"}, {"--prove-new-tests", "enforce"}} {
		r := p.run(t, append([]string{"run", "rejudge", id, "--json"}, rules...)...)
		require.Equal(t, exitFailed, r.code, "%s%s", r.out, r.errs)
		out := r.retrials(t)
		require.True(t, out.Worse)
		last := out.Retrials[len(out.Retrials)-1]
		require.Equal(t, "worse", last.Change)
		require.True(t, last.Before.OK)
		require.Equal(t, contract.CodeFindings, last.Now.Failure.Code)
	}
	r := p.run(t, "run", "rejudge", id, "--pinned-tests", "enforce")
	require.Contains(t, r.out, "2 major findings, more than the 1 allowed")
	require.Contains(t, r.out, "TestA is deleted")
	p.ok(t, "run", "rejudge", id, "--pinned-tests", "enforce", "--max-major", "2")
	r = p.run(t, "run", "rejudge", id, "--prove-new-tests", "enforce", "--pinned-tests", "off")
	require.Contains(t, r.out, "TestB also passes without the change")
	after, err := p.RunDetails(t.Context(), run)
	require.NoError(t, err)
	require.Equal(t, before, after)
}

func TestAPlanThatTodaysRulesRefuseIsWorse(t *testing.T) {
	t.Parallel()
	p := withStore(t)
	r := p.run(t, "run", "rejudge", contract.RunWorkflowID(p.tested(t, `{"summary":"no steps"}`)), "--json")
	require.Equal(t, exitFailed, r.code)
	first := r.retrials(t).Retrials[0]
	require.Equal(t, []string{"planner", "worse"}, []string{first.What, first.Change})
	require.Equal(t, contract.ClassLLM, first.Now.Failure.Class)
}

func TestARedTestFailsHoweverManyFindingsAreAllowed(t *testing.T) {
	t.Parallel()
	p := withStore(t)
	out := p.ok(t, "run", "rejudge", contract.RunWorkflowID(p.fill(t, "Greet")), "--max-major", "1000", "--pinned-tests", "enforce", "--json").retrials(t)
	last := out.Retrials[len(out.Retrials)-1]
	require.Equal(t, "same", last.Change)
	require.False(t, last.Now.OK)
	require.Contains(t, out.Notes[0], "the tests were not compared")
	out = p.ok(t, "run", "rejudge", contract.RunWorkflowID(out.RunID), "--prove-new-tests", "enforce", "--json").retrials(t)
	require.Contains(t, out.Notes[0], "new tests were not run without the change")
}

func TestWhatCannotBeJudgedAgainIsRefused(t *testing.T) {
	t.Parallel()
	p := withStore(t)
	run, _, err := p.CreateRun(t.Context(), store.NewRun{Project: "p", GoalTitle: "g"})
	require.NoError(t, err)
	id := contract.RunWorkflowID(run.ID)
	require.Contains(t, p.run(t, "run", "rejudge", id).errs, "cannot be judged again")
	require.Equal(t, exitInput, p.run(t, "run", "rejudge", id, "--pinned-tests", "never").code)
	require.Equal(t, exitInput, p.run(t, "run", "rejudge", id, "--max-major", "-1").code)
}
