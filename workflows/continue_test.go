package workflows

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/workflow"

	"github.com/rocketgpt/orchestrator/contract"
)

// continues runs a run until it continues as new, and returns its new input.
func (w *runFixture) continues(t *testing.T, in contract.RunInput) contract.RunInput {
	t.Helper()
	w.env.ExecuteWorkflow(contract.WorkflowRun, in)
	require.True(t, w.env.IsWorkflowCompleted())
	var again *workflow.ContinueAsNewError
	require.ErrorAs(t, w.env.GetWorkflowError(), &again)
	require.Equal(t, contract.WorkflowRun, again.WorkflowType.Name)
	var next contract.RunInput
	require.NoError(t, converter.GetDefaultDataConverter().FromPayloads(again.Input, &next))
	require.NotEmpty(t, next.Continued)
	return next
}

// later is a fixture in which time has passed since another one. Its rows have what
// happened there.
func later(t *testing.T, before *runFixture) *runFixture {
	t.Helper()
	w := newRunFixture(t)
	w.begun, w.taken, w.spent = before.begun, before.taken, before.spent
	w.env.SetStartTime(before.env.Now())
	return w
}

// finishes runs what is left of a run that continued as new.
func (w *runFixture) finishes(t *testing.T, in contract.RunInput) contract.RunResult {
	t.Helper()
	w.env.ExecuteWorkflow(contract.WorkflowRun, in)
	require.True(t, w.env.IsWorkflowCompleted())
	require.NoError(t, w.env.GetWorkflowError())
	var result contract.RunResult
	require.NoError(t, w.env.GetWorkflowResult(&result))
	return result
}

func TestARunThatWatchesItsBranchContinuesAsNewAndKnowsWhatItKnew(t *testing.T) {
	t.Parallel()
	first := newRunFixture(t)
	began := first.env.Now()
	first.after(time.Hour, func() { first.check(red("a")) })
	first.after(2*time.Hour, func() {
		first.env.SetContinueAsNewSuggested(true)
		first.check(contract.CheckMessage{ID: "green", Name: "ci/green", Conclusion: contract.ConclusionSuccess, By: "ci"})
	})
	next := first.continues(t, runInput(watching))
	require.Equal(t, 1, occurrences(first.events(), contract.EventCheckReceived))

	second := later(t, first)
	var repeated *answer
	second.after(time.Minute, func() {
		v := second.view(t)
		require.Equal(t, contract.StatusDone, v.Status)
		require.Equal(t, 1, v.Staying.Repairs)
		require.WithinDuration(t, began.Add(10*time.Hour), v.Staying.Until, time.Minute)
		repeated = second.updateCheck(red("a"))
		second.check(red("b"))
	})
	result := second.finishes(t, next)
	require.Equal(t, contract.StatusDone, result.Status, "%+v", result.Failure)
	require.False(t, repeated.ack.Applied, "a message that came before the new history still counts as seen")
	require.Contains(t, repeated.ack.Message, "already received")
	require.Equal(t, []contract.EventType{contract.EventCheckReceived}, second.events()[:1], "nothing is prepared, planned or announced again")
	require.Empty(t, second.planned)
	require.Equal(t, 2, second.last().RetryCount, "heals count on")
	require.Equal(t, 1, occurrences(second.events(), contract.EventStayEnded))
	require.WithinDuration(t, began.Add(10*time.Hour), second.env.Now(), time.Minute)
}

// suggestContinueAsNew is safe for use by activities, which run in goroutines of their own.
func (w *runFixture) suggestContinueAsNew() {
	w.after(0, func() { w.env.SetContinueAsNewSuggested(true) })
}

func TestARunContinuesAsNewBetweenPhasesWhereTemporalSuggestsIt(t *testing.T) {
	t.Parallel()
	first := newRunFixture(t)
	first.plan = onePlan("step-001", "step-002")
	first.onThink = func(contract.ThinkInput) { first.suggestContinueAsNew() }
	next := first.continues(t, runInput(healing))
	require.Equal(t, contract.PhaseBuilder.Completed(), first.last().Status, "what was completed is written before")

	second := later(t, first)
	second.plan = first.plan
	result := second.finishes(t, next)
	require.Equal(t, contract.StatusDone, result.Status)
	require.Empty(t, second.planned)
	require.Empty(t, second.thinks)
	require.Equal(t, []contract.Status{"tester_running", "releaser_running", "done"}, second.statuses())
	require.Equal(t, first.records[len(first.records)-1].Seq+1, second.records[0].Seq, "records are numbered on")
}

func TestAPausedRunIsStillPausedAfterItContinuesAsNew(t *testing.T) {
	t.Parallel()
	first := newRunFixture(t)
	first.onThink = func(contract.ThinkInput) {
		first.suggestContinueAsNew()
		first.update(contract.UpdatePause, contract.Command{ID: "p", By: "ann"})
		first.after(time.Minute, func() { first.update(contract.UpdateAdvance, contract.Command{ID: "a", By: "ann"}) })
	}
	next := first.continues(t, runInput())
	second := later(t, first)
	var again *answer
	second.after(time.Hour, func() {
		require.Equal(t, contract.StatusPaused, second.view(t).Status)
		again = second.update(contract.UpdatePause, contract.Command{ID: "p", By: "ann"})
		second.update(contract.UpdateResume, contract.Command{ID: "r", By: "ann"})
	})
	require.Equal(t, contract.StatusDone, second.finishes(t, next).Status)
	require.Contains(t, again.ack.Message, "already applied")
}

func TestARunContinuesAsNewBeforeTemporalRefusesItsUpdates(t *testing.T) {
	t.Parallel()
	w := newRunFixture(t)
	const bursts = 15
	for burst := range bursts {
		w.after(time.Hour+time.Duration(burst)*time.Minute, func() {
			for i := range contract.MaxUpdates / bursts {
				m := red("a")
				m.ID, m.Conclusion = fmt.Sprint("m", burst, "-", i), contract.ConclusionSuccess
				w.updateCheck(m)
			}
		})
	}
	w.continues(t, runInput(watching))
}

func TestARunWhoseStateIsTooLargeToContinueAsNewRunsOn(t *testing.T) {
	t.Parallel()
	w := newRunFixture(t)
	w.env.SetContinueAsNewSuggested(true)
	result := w.orchestrate(t, func(s *contract.Settings) { s.Providers = []string{strings.Repeat("x", contract.PayloadLimit)} })
	require.Equal(t, contract.StatusDone, result.Status)
}

func TestTheTimeOfARunCountsOnWhenItContinuesAsNew(t *testing.T) {
	t.Parallel()
	first := newRunFixture(t)
	first.onThink = func(contract.ThinkInput) { first.suggestContinueAsNew() }
	next := first.continues(t, runInput(func(s *contract.Settings) {
		s.RunBudget.Time, s.ApproveRelease, s.ApprovalWait = 2*time.Hour, true, 48*time.Hour
	}))
	second := later(t, first)
	began := second.env.Now()
	result := second.finishes(t, next)
	require.Equal(t, contract.CodeRunTimeout, result.Failure.Code)
	require.LessOrEqual(t, second.env.Now().Sub(began), 2*time.Hour+5*time.Minute)
}
