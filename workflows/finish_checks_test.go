package workflows

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/contract"
)

// finishing is an agent that changes a file in some turns, and wants to finish in each.
func finishing(edits ...bool) []contract.ThinkResult {
	var all []contract.ThinkResult
	for _, edit := range edits {
		r := contract.ThinkResult{Finish: true}
		if edit {
			r.Calls = append(r.Calls, contract.ToolCallRef{Tool: "edit_file"})
		}
		r.Calls = append(r.Calls, contract.ToolCallRef{Index: len(r.Calls), Tool: "finish", ReadOnly: true})
		all = append(all, r)
	}
	return all
}

// checkedBy lets the agents of a run be checked, and its tests fail for some of the files.
func (w *runFixture) checkedBy(passes func(tree string) bool) func(*contract.Settings) {
	w.onVerify = func(in contract.VerifyInput) contract.CheckResult {
		ok := passes(in.Workspace.Tree) || in.Check.Category != contract.CategoryTest
		return contract.CheckResult{Check: in.Check, OK: ok}
	}
	return func(s *contract.Settings) { s.FinishRefusals = 2 }
}

func TestAFailedCheckGoesBackToAnAgentThatWantsToFinish(t *testing.T) {
	t.Parallel()
	w := newRunFixture(t)
	w.answers["step-001"] = finishing(true, true)
	first := ""
	on := w.checkedBy(func(tree string) bool {
		if first == "" {
			first = tree
		}
		return tree != first
	})
	result := w.orchestrate(t, on)
	require.Equal(t, contract.StatusDone, result.Status, "%v", result.Failure)
	require.Equal(t, 2, w.thinks["step-001"])
	require.Equal(t, [][]string{{"test-go-1", "test-go-2"}, nil}, w.finished)
}

func TestAnAgentThatChangesNothingAfterARefusalMayFinish(t *testing.T) {
	t.Parallel()
	w := newRunFixture(t)
	w.answers["step-001"] = finishing(true, false)
	result := w.orchestrate(t, w.checkedBy(func(string) bool { return false }), func(s *contract.Settings) { s.MaxRetries = 0 })
	require.Equal(t, contract.ClassAssertion, result.Failure.Class, "the tester decides")
	require.Equal(t, 2, w.thinks["step-001"])
	require.Equal(t, [][]string{{"test-go-1", "test-go-2"}, nil}, w.finished)
}

func TestChecksGoBackToAnAgentOnlyAFewTimes(t *testing.T) {
	t.Parallel()
	w := newRunFixture(t)
	w.answers["step-001"] = finishing(true, true, true)
	result := w.orchestrate(t, w.checkedBy(func(string) bool { return false }), func(s *contract.Settings) { s.MaxRetries = 0 })
	require.NotNil(t, result.Failure)
	require.Equal(t, 3, w.thinks["step-001"])
	require.Len(t, w.finished, 3)
	require.Nil(t, w.finished[2])
}

func TestOnlyTheStepWhoseResultIsTestedIsChecked(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		plan    contract.Plan
		checked []string
	}{
		"in a row":         {planOf("step-001", "step-002<step-001"), []string{"step-002"}},
		"in parallel":      {planOf("step-001", "step-002"), nil},
		"joined":           {planOf("step-001", "step-002", "step-003<step-001,step-002"), []string{"step-003"}},
		"an open end left": {planOf("step-001", "step-002<step-001", "step-003<step-001"), nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newRunFixture(t)
			w.plan = c.plan
			for _, s := range c.plan.Steps {
				w.answers[s.ID] = finishing(true)
			}
			on := w.checkedBy(func(string) bool { return true })
			var checked []string
			verify := w.onVerify
			w.onVerify = func(in contract.VerifyInput) contract.CheckResult {
				if in.Execution.Step != "" && in.Check.Category == contract.CategoryBuild {
					checked = append(checked, in.Execution.Step)
				}
				return verify(in)
			}
			result := w.orchestrate(t, on)
			require.Equal(t, contract.StatusDone, result.Status, "%v", result.Failure)
			require.Equal(t, c.checked, checked)
		})
	}
}

func TestALoopThatBeganWithoutFinishChecksHasNone(t *testing.T) {
	t.Parallel()
	w := newRunFixture(t)
	w.answers["step-001"] = finishing(true)
	verified := 0
	w.onVerify = func(in contract.VerifyInput) contract.CheckResult {
		if in.Execution.Step != "" {
			verified++
		}
		return contract.CheckResult{Check: in.Check, OK: true}
	}
	require.Equal(t, contract.StatusDone, w.orchestrate(t).Status)
	require.Zero(t, verified)
}

// planOf is a plan of steps with what they need: "step-002<step-001".
func planOf(steps ...string) contract.Plan {
	var p contract.Plan
	for _, s := range steps {
		id, needs, _ := strings.Cut(s, "<")
		step := contract.Step{ID: id, Name: id}
		if needs != "" {
			step.Dependencies = strings.Split(needs, ",")
		}
		p.Steps = append(p.Steps, step)
	}
	return p
}

func TestAnUnreadMessageHoldsAnAgentBackOnlyIfItHasAFurtherTurn(t *testing.T) {
	t.Parallel()
	for turns, thinks := range map[int]int{1: 1, 20: 2} {
		w := newRunFixture(t)
		all := finishing(true, false)
		all[0].Unread = true
		w.answers["step-001"] = all
		result := w.orchestrate(t, func(s *contract.Settings) { s.StepBudget.Turns = turns })
		require.Equal(t, contract.StatusDone, result.Status, "%d turns: %v", turns, result.Failure)
		require.Equal(t, thinks, w.thinks["step-001"], "%d turns", turns)
	}
}

func TestAnAgentThatFinishesBesideAFailedCallSeesItsResultFirst(t *testing.T) {
	t.Parallel()
	finish := contract.ToolCallRef{Index: 1, Tool: "finish", ReadOnly: true}
	for name, c := range map[string]struct {
		beside       contract.ToolCallRef
		plan         contract.Plan
		on           bool
		thinks, held int
	}{
		"a change":              {contract.ToolCallRef{Tool: failingTool}, planOf("step-001"), true, 2, 1},
		"in a parallel step":    {contract.ToolCallRef{Tool: failingTool}, planOf("step-001", "step-002"), true, 2, 1},
		"something was read":    {contract.ToolCallRef{Tool: failingTool, ReadOnly: true}, planOf("step-001"), true, 1, 0},
		"an earlier run's loop": {contract.ToolCallRef{Tool: failingTool}, planOf("step-001"), false, 1, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newRunFixture(t)
			w.plan = c.plan
			turn := contract.ThinkResult{Finish: true, Calls: []contract.ToolCallRef{c.beside, finish}}
			w.answers["step-001"] = []contract.ThinkResult{turn, turn, turn} // it insists
			on := w.checkedBy(func(string) bool { return true })
			result := w.orchestrate(t, func(s *contract.Settings) {
				if on(s); !c.on {
					s.FinishRefusals = 0
				}
			})
			require.Equal(t, contract.StatusDone, result.Status, "%v", result.Failure)
			require.Equal(t, c.thinks, w.thinks["step-001"])
			require.Equal(t, c.held, w.held)
		})
	}
}

func TestAnAgentContinuesFromEditsOfThePlanThatFailedEvenIfNothingIsChecked(t *testing.T) {
	t.Parallel()
	w := newRunFixture(t)
	w.edits, w.plan = true, planOf("step-001")
	finish := contract.ToolCallRef{Index: 1, Tool: "finish", ReadOnly: true}
	turn := contract.ThinkResult{Finish: true, Calls: []contract.ToolCallRef{{Tool: failingTool}, finish}}
	w.answers["step-001"] = []contract.ThinkResult{turn, turn}
	result := w.orchestrate(t)
	require.Equal(t, contract.StatusDone, result.Status, "%v", result.Failure)
	require.Equal(t, 2, w.thinks["step-001"], "the turn of the plan, and one of the agent, which insists")
	require.Equal(t, []bool{true, false}, w.byPlan)
}

// An activity carries out a call that finishes if nothing is left to check: then the workflow only ends the step.
func TestACallThatFinishedWithItsTurnIsNotMadeAgain(t *testing.T) {
	t.Parallel()
	for refusals, here := range map[int]bool{0: true, 2: false} {
		w := newRunFixture(t)
		w.plan = planOf("step-001")
		turns := finishing(true)
		var at []bool
		w.onThink = func(in contract.ThinkInput) {
			at = append(at, in.Tools.FinishHere)
			if turns[0].Done = nil; in.Tools.FinishHere {
				for _, c := range turns[0].Calls {
					turns[0].Done = append(turns[0].Done, contract.DoneCall{Index: c.Index, Outcome: contract.ToolOutcome{Workspace: in.Tools.Workspace, OK: true, Fingerprint: c.Tool}})
				}
			}
		}
		w.answers["step-001"] = turns
		on := w.checkedBy(func(string) bool { return true })
		result := w.orchestrate(t, func(s *contract.Settings) {
			on(s)
			s.FinishRefusals = refusals
		})
		require.Equal(t, contract.StatusDone, result.Status, "%v", result.Failure)
		require.Equal(t, []bool{here}, at)
		require.Equal(t, !here, len(w.finished) == 1, "it is left to the workflow only if checks come before")
	}
}
