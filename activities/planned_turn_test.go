package activities_test

import (
	"context"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/contract"
)

// withEdits is onlyStep with edits.
func withEdits(edits string) string {
	return strings.TrimSuffix(onlyStep, "}") + ", edits: [" + edits + "]}"
}

// editor returns a planner that reads hello.txt, and then submits plans with these edits in turn.
func editor(t *testing.T, edits ...string) *planner {
	t.Helper()
	rules := "\n  - when: {agent: planner, turn: 1}\n    reply: {tool_calls: [{name: read_file, arguments: {path: hello.txt}}]}\n"
	turn := func(plan string, n int) string {
		return "  - when: {agent: planner, turn: " + string(rune('0'+n)) + "}\n    reply: {tool_calls: [{name: submit_plan, arguments: " + plan + "}]}\n"
	}
	for i, e := range edits {
		rules += turn(withEdits(e), i+2)
	}
	p := newPlanner(newFixture(t, rules+turn(onlyStep, len(edits)+2)), 12)
	p.in.Planner.EditBytes = 100
	require.True(t, p.turn().More)
	return p
}

func TestAPlanMayContainItsChangeIfItsEditsCanBeMade(t *testing.T) {
	t.Parallel()
	p := editor(t, `{path: hello.txt, old_text: hello, new_text: hello there}, {path: docs/new.txt, new_text: "new\n"}, {path: hello.txt, old_text: there, new_text: again}`)
	result := p.turn()
	require.False(t, result.More, "%v", p.results())
	require.Empty(t, result.Plan.Edits, "histories do not contain them")
	plan, err := p.Store.PlanByID(t.Context(), p.run.ID, result.ID)
	require.NoError(t, err)
	require.Len(t, plan.Edits, 3)
	require.Equal(t, []string{"hello.txt", "docs/new.txt"}, plan.Steps[0].Files)
}

func TestAPlanWhoseEditsCannotBeMadeIsNotAccepted(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ edits, says string }{
		"text that is not there":   {`{path: hello.txt, old_text: goodbye, new_text: x}`, "old_text was not found in hello.txt"},
		"a file that is not there": {`{path: other.txt, old_text: a, new_text: x}`, "other.txt does not exist"},
		"a file that is there":     {`{path: hello.txt, new_text: x}`, "hello.txt already exists"},
		"outside":                  {`{path: ../hello.txt, new_text: x}`, "not inside the repository"},
		"git's own files":          {`{path: .git/config, new_text: x}`, "not inside the repository"},
		"nothing changed":          {`{path: hello.txt, old_text: hello, new_text: hello}`, "are the same"},
		"too large":                {`{path: big.txt, new_text: "` + strings.Repeat("x", 101) + `"}`, "take up 101 bytes, more than the 100 allowed"},
		"what is hidden":           {`{path: new.txt, new_text: "key: [redacted]"}`, "text that you cannot see"},
		"created too late":         {`{path: hello.txt, old_text: hello, new_text: x}, {path: hello.txt, new_text: x}`, "has other edits before it"},
		"text not in the new file": {`{path: new.txt, new_text: a}, {path: new.txt, old_text: b, new_text: c}`, "was not found in new.txt"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := editor(t, c.edits)
			require.True(t, p.turn().More)
			results := p.results()
			require.Contains(t, results[len(results)-1], "The plan was not accepted: ")
			require.Contains(t, results[len(results)-1], c.says)
			require.False(t, p.turn().More, "it is corrected")
		})
	}
}

func TestAPlanWithSeveralStepsHasNoEdits(t *testing.T) {
	t.Parallel()
	plan := contract.Plan{Steps: []contract.Step{{ID: "a", Name: "A"}, {ID: "b", Name: "B"}}, Edits: []contract.Edit{{Path: "x", NewText: "y"}}}
	require.Equal(t, []contract.PlanProblem{{Problem: "only a plan with exactly one step can have edits, and this one has 2"}}, plan.Problems())
}

func TestAPlannerThatMayNotEditIsNotOfferedTo(t *testing.T) {
	t.Parallel()
	p := editor(t, `{path: new.txt, new_text: x}`)
	require.Contains(t, string(p.bodies[len(p.bodies)-1]), `"edits"`)
	p = newPlanner(newFixture(t, "\n  - when: {agent: planner, turn: 1}\n    reply: {tool_calls: [{name: submit_plan, arguments: "+withEdits(`{path: new.txt, new_text: x}`)+"}]}\n"), 12)
	require.True(t, p.turn().More, "and edits are not accepted")
	require.NotContains(t, string(p.bodies[len(p.bodies)-1]), `"edits"`)
}

// plannedStep stores a plan with edits, and opens its step.
func plannedStep(h *fixture, edits ...contract.Edit) contract.OpenStepResult {
	h.t.Helper()
	plan := contract.Plan{Summary: "Say more.", Steps: []contract.Step{{ID: "step-001", Name: "Say it", Files: []string{"hello.txt"}}}, Edits: edits}
	id, err := h.Store.SavePlan(h.t.Context(), h.run.ID, 0, "planner", plan)
	require.NoError(h.t, err)
	in := h.opening()
	in.PlanID, in.LocalOnly = id, false
	opened, failure := do[contract.OpenStepResult](h, h.OpenStep, in)
	require.Nil(h.t, failure)
	again, failure := do[contract.OpenStepResult](h, h.OpenStep, in)
	require.Nil(h.t, failure)
	require.Equal(h.t, opened, again, "a repeat does the same")
	return opened
}

func (h *fixture) plannedTurn(opened contract.OpenStepResult) contract.ThinkResult {
	h.t.Helper()
	out, failure := do[contract.ThinkResult](h, h.Think, contract.ThinkInput{
		Execution: opened.Execution, Turn: 1, Model: choice, Planned: opened.Planned,
		Tools: &contract.TurnTools{Workspace: opened.Workspace, From: opened.Workspace, Timeout: h.Config.Execution.CommandTimeout, FinishApart: true},
	})
	require.Nil(h.t, failure)
	return out
}

func TestAStepBeginsWithTheEditsOfItsPlanAndAsksNoModel(t *testing.T) {
	t.Parallel()
	h := newFixture(t, editHello)
	opened := plannedStep(h, contract.Edit{Path: "hello.txt", OldText: "hello", NewText: "goodbye"}, contract.Edit{Path: "new.txt", NewText: "new\n"})
	require.True(t, opened.Planned)
	out := h.plannedTurn(opened)
	require.True(t, out.Finish)
	require.Equal(t, "Say more.", out.Summary)
	require.Zero(t, out.Usage)
	require.Zero(t, h.served())
	require.Len(t, out.Done, 2)
	end := out.Done[1].Outcome.Workspace
	for name, want := range map[string]string{"hello.txt": "goodbye\n", "new.txt": "new\n"} {
		content, found, err := h.Workspaces.File(t.Context(), end, name, 100)
		require.NoError(t, err)
		require.True(t, found, name)
		require.Equal(t, want, string(content))
	}
	require.Equal(t, out, h.plannedTurn(opened), "a repeated activity does nothing twice")
}

func TestAnAgentContinuesFromEditsThatCouldNotBeMade(t *testing.T) {
	t.Parallel()
	h := newFixture(t, "\n  - when: {agent: builder, turn: 2, contains: was not found in hello.txt}\n    reply: {tool_calls: [{name: finish, arguments: {summary: gave up}}]}\n")
	opened := plannedStep(h, contract.Edit{Path: "hello.txt", OldText: "not there", NewText: "x"})
	out := h.plannedTurn(opened)
	require.False(t, out.Done[0].Outcome.OK)
	next, failure := do[contract.ThinkResult](h, h.Think, contract.ThinkInput{Execution: opened.Execution, Turn: 2, Model: choice})
	require.Nil(t, failure)
	require.True(t, next.Finish)
	require.Equal(t, 1, h.served())
}

func TestAStepThatIsCarriedOutAgainIsLeftToItsAgent(t *testing.T) {
	t.Parallel()
	h := newFixture(t, editHello)
	first := plannedStep(h, contract.Edit{Path: "new.txt", NewText: "new\n"})
	require.True(t, first.Planned)
	plans, err := pgx.Connect(t.Context(), h.url)
	require.NoError(t, err)
	defer func() { require.NoError(t, plans.Close(context.WithoutCancel(t.Context()))) }()
	var plan int64
	require.NoError(t, plans.QueryRow(t.Context(), "SELECT id FROM orchestrator_plans WHERE edits_taken_by = $1", first.Execution.ID).Scan(&plan))
	h.end(first.Execution, contract.ExecutionFailed)
	in := h.opening()
	in.PlanID, in.LocalOnly = plan, false
	second, failure := do[contract.OpenStepResult](h, h.OpenStep, in)
	require.Nil(t, failure)
	require.NotEqual(t, first.Execution.ID, second.Execution.ID)
	require.False(t, second.Planned)
	entries, err := h.Store.Transcript(t.Context(), second.Execution.ID)
	require.NoError(t, err)
	require.Len(t, entries, 2, "only the task")
}

func TestAPlanWithEditsNeedsNothingBesidesItsSummary(t *testing.T) {
	t.Parallel()
	h := newFixture(t, "\n  - when: {agent: planner, turn: 1}\n    reply: {tool_calls: [{name: submit_plan, arguments: {summary: Say more., complexity_score: 0.1, edits: [{path: new.txt, new_text: x}]}}]}\n")
	p := newPlanner(h, 12)
	p.in.Planner.EditBytes = 100
	result := p.turn()
	require.False(t, result.More, "%v", p.results())
	plan, err := p.Store.PlanByID(t.Context(), p.run.ID, result.ID)
	require.NoError(t, err)
	require.Equal(t, []string{"new.txt"}, plan.Steps[0].Files)
	require.Equal(t, "Say more.", plan.Steps[0].Description)
}

func TestAPlanNeedsStepsOrEdits(t *testing.T) {
	t.Parallel()
	h := newFixture(t, "\n  - when: {agent: planner, turn: 1}\n    reply: {tool_calls: [{name: submit_plan, arguments: {summary: Say more., complexity_score: 0.1}}]}\n")
	p := newPlanner(h, 12)
	p.in.Planner.EditBytes = 100
	require.True(t, p.turn().More)
	require.Contains(t, p.results()[0], "the plan has neither steps nor edits")
}

func TestEditsThatCannotBeMadeInTheLastTurnAreLeftOut(t *testing.T) {
	t.Parallel()
	plan := withEdits(`{path: hello.txt, old_text: goodbye, new_text: x}`)
	h := newFixture(t, "\n  - when: {agent: planner, turn: 1}\n    reply: {tool_calls: [{name: read_file, arguments: {path: hello.txt}}]}\n"+
		"  - when: {agent: planner, turn: 2}\n    reply: {tool_calls: [{name: submit_plan, arguments: "+plan+"}]}\n")
	p := newPlanner(h, 2)
	p.in.Planner.EditBytes = 100
	require.True(t, p.turn().More)
	result := p.turn()
	require.False(t, result.More)
	require.Equal(t, contract.PlanWithoutEdits, result.Review.Findings[0].Kind)
	stored, err := p.Store.PlanByID(t.Context(), p.run.ID, result.ID)
	require.NoError(t, err)
	require.Empty(t, stored.Edits)
}

func TestAReviewedPlanIsTheOneThatWasAccepted(t *testing.T) {
	t.Parallel()
	refused, accepted := withEdits(`{path: hello.txt, old_text: goodbye, new_text: x}`), withEdits(`{path: hello.txt, old_text: hello, new_text: hi}`)
	h := newFixture(t, "\n  - when: {agent: planner, turn: 1}\n    reply: {tool_calls: [{name: submit_plan, arguments: "+refused+"}, {name: submit_plan, arguments: "+accepted+"}]}\n"+
		"  - when: {agent: planner, turn: 2}\n    reply: {tool_calls: [{name: list_files, arguments: {}}]}\n")
	p := newPlanner(h, 12)
	p.in.Planner.EditBytes, p.in.Planner.Critique = 100, contract.CritiqueOn
	require.True(t, p.turn().More)
	result := p.turn() // the review is unusable
	require.False(t, result.More)
	stored, err := p.Store.PlanByID(t.Context(), p.run.ID, result.ID)
	require.NoError(t, err)
	require.Equal(t, "hi", stored.Edits[0].NewText)
}
