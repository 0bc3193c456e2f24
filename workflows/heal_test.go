package workflows

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/mock"
	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/fault"
)

// healing makes runs heal themselves, which is the default.
func healing(s *contract.Settings) {
	s.MaxRetries, s.InterventionWait, s.QuotaWait = 3, time.Hour, time.Minute
	s.Models[contract.AgentRepair] = contract.ModelChoice{Provider: "scripted", Model: "scripted"}
}

// healNotes returns the records about a run's heals, the last of each.
func (w *runFixture) healNotes() map[int]contract.HealNote {
	out := map[int]contract.HealNote{}
	for _, rec := range w.recorded() {
		for _, n := range rec.Heals {
			if was := out[n.Number]; n.Action == "" {
				n.Action, n.ErrorType = was.Action, was.ErrorType
			}
			out[n.Number] = n
		}
	}
	return out
}

// repaired returns the changes in heals' rows that replace the work of steps.
func (w *runFixture) repaired() []contract.StepOutput {
	var out []contract.StepOutput
	for _, rec := range w.recorded() {
		for _, n := range rec.Heals {
			if n.Output.Change != nil {
				out = append(out, *n.Output.Change)
			}
		}
	}
	return out
}

// actions returns the actions of a run's heals in order.
func (w *runFixture) actions() []contract.HealAction {
	notes := w.healNotes()
	var out []contract.HealAction
	for i := 1; i <= len(notes); i++ {
		out = append(out, notes[i].Action)
	}
	return out
}

// last returns the last written version of the run's row.
func (w *runFixture) last() contract.RunChange {
	for _, rec := range slices.Backward(w.recorded()) {
		if rec.Run != nil {
			return *rec.Run
		}
	}
	return contract.RunChange{}
}

// failTimes makes an activity fail a number of times, then succeed.
func (w *runFixture) failTimes(name string, n int, e *fault.Error) { w.fail[name], w.left[name] = e, n }

func occurrences(events []contract.EventType, kind contract.EventType) int {
	n := 0
	for _, e := range events {
		if e == kind {
			n++
		}
	}
	return n
}

func TestARunThatFailsOnceInAnyPhaseHealsItselfAndIsDone(t *testing.T) {
	t.Parallel()
	for p, name := range map[contract.Phase]string{
		contract.PhasePlanner: contract.ActivityPlan, contract.PhaseBuilder: contract.ActivityThink + "/step-001",
		contract.PhaseTester: contract.ActivityVerify, contract.PhaseReleaser: contract.ActivityRelease,
	} {
		t.Run(string(p), func(t *testing.T) {
			t.Parallel()
			w := newRunFixture(t)
			failure, action := fault.New(contract.ClassLLM, contract.CodeInvalidOutput, "no JSON"), contract.HealCorrectJSON
			if !p.UsesModel() {
				failure, action = fault.New(contract.ClassRuntime, contract.CodeCommandCrashed, "it crashed"), contract.HealRerunStrict
			}
			w.failTimes(name, 1, failure)
			require.Equal(t, contract.StatusDone, w.orchestrate(t, healing).Status)
			notes := w.healNotes()
			require.Len(t, notes, 1)
			require.Equal(t, contract.HealSuccess, notes[1].Status)
			require.Equal(t, action, notes[1].Action)
			statuses := w.statuses()
			at := slices.Index(statuses, contract.StatusSelfHeal)
			require.Equal(t, []contract.Status{p.Error(), contract.StatusSelfHeal, p.Running()}, statuses[at-1:at+2])
			require.Subset(t, w.events(), []contract.EventType{contract.EventHealStarted, contract.EventHealSuccess})
			require.Equal(t, 1, w.last().RetryCount)
			require.Equal(t, string(action), w.last().LastHealAction)
			require.Nil(t, w.last().Failure, "what was healed is no failure of the run")
		})
	}
}

func TestARedTestIsRepairedVerifiedAndReleased(t *testing.T) {
	t.Parallel()
	w := newRunFixture(t)
	w.redUntil = "repair.2.0"
	require.Equal(t, contract.StatusDone, w.orchestrate(t, healing).Status)
	require.Equal(t, []contract.HealAction{contract.HealRepair}, w.actions())
	require.Equal(t, "repair.2.0", w.released.Workspace.Tree, "what was repaired is what is released")
	require.Equal(t, "heal-1", w.released.Credits[len(w.released.Credits)-1].Step)
	require.Len(t, w.released.Stages, 2)
	require.Equal(t, 2, w.begun["tester/"])
	require.Equal(t, 1, w.begun["builder/step-001"], "what was built is not built again")
	require.Equal(t, 1, w.begun["tester/repair"])
}

func TestARepairThatRemovesTestsIsDiscarded(t *testing.T) {
	t.Parallel()
	w := newRunFixture(t)
	w.redUntil, w.refused = "repair.2.0", "it deletes TestAdd"
	require.Equal(t, contract.StatusFailed, w.orchestrate(t, healing).Status)
	for _, n := range w.healNotes() {
		require.Equal(t, contract.HealFailed, n.Status)
	}
	require.Contains(t, w.events(), contract.EventHealFailed)
	require.Equal(t, 1, w.begun["tester/"], "nothing was tested that was thrown away")
}

func TestAFailureThatCannotBeHealedAsksAPersonAndFailsWithoutAnAnswer(t *testing.T) {
	t.Parallel()
	w := newRunFixture(t)
	w.red = true
	result := w.orchestrate(t, healing)
	require.Equal(t, contract.StatusFailed, result.Status)
	require.Contains(t, result.Failure.Message, "no answer was received")
	require.Equal(t, contract.HealAskPerson, w.actions()[len(w.actions())-1])
	for _, kind := range []contract.EventType{
		contract.EventInterventionRequested, contract.EventInterventionReminded, contract.EventInterventionExpired,
	} {
		require.Equal(t, 1, occurrences(w.events(), kind), kind)
	}
	require.LessOrEqual(t, w.last().RetryCount, 3)
}

func TestAPersonCanLetARunTryAgainOrGiveUp(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]contract.Status{
		contract.UpdateApprove: contract.StatusDone, contract.UpdateHeal: contract.StatusDone, contract.UpdateReject: contract.StatusFailed,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newRunFixture(t)
			w.failTimes(contract.ActivityPlan, 1, fault.New(contract.ClassHuman, contract.CodeRepository, "the wrong repository"))
			c := contract.Command{ID: "c1", By: "ann", Reason: "the branch was missing"}
			if name == contract.UpdateHeal {
				c.Action = contract.HealRegenerate
			}
			w.after(time.Minute, func() {
				require.Equal(t, contract.StatusWaitingForApproval, w.view(t).Status)
				w.update(name, c)
			})
			require.Equal(t, want, w.orchestrate(t, healing).Status)
			require.Contains(t, w.events(), contract.EventInterventionResolved)
		})
	}
}

func TestAnInvalidPlanIsRegenerated(t *testing.T) {
	t.Parallel()
	w := newRunFixture(t)
	w.failTimes(contract.ActivityThink+"/step-001", 1, fault.New(contract.ClassLogic, contract.CodeInvalidPlan, "the step cannot be done"))
	require.Equal(t, contract.StatusDone, w.orchestrate(t, healing).Status)
	require.Equal(t, []contract.HealAction{contract.HealRefinePlan}, w.actions())
	require.Equal(t, 2, w.begun["planner/"])
}

func TestStepsThatWereDoneAreNotDoneAgainAfterAHeal(t *testing.T) {
	t.Parallel()
	w := newRunFixture(t)
	w.plan = onePlan("good", "bad")
	w.plan.Steps[1].Dependencies = []string{"good"}
	w.failTimes(contract.ActivityThink+"/bad", 1, fault.New(contract.ClassLLM, contract.CodeRefusal, "no"))
	require.Equal(t, contract.StatusDone, w.orchestrate(t, healing).Status)
	require.Equal(t, 1, w.begun["builder/good"])
	require.Equal(t, 2, w.begun["builder/bad"])
	require.Equal(t, []int{1}, w.opened["bad"].Lessons.Heals, "the second attempt is told of the first")
	require.Empty(t, w.opened["good"].Lessons.Heals)
}

func TestWithoutRetriesARunFailsAtOnce(t *testing.T) {
	t.Parallel()
	w := newRunFixture(t)
	w.red = true
	result := w.orchestrate(t, healing, func(s *contract.Settings) { s.MaxRetries = 0 })
	require.Equal(t, contract.CodeTestsFailed, result.Failure.Code)
	require.Empty(t, w.healNotes())
}

func TestWhatABudgetHasEndedIsNotHealed(t *testing.T) {
	t.Parallel()
	w := newRunFixture(t)
	w.fail[contract.ActivityPlan] = fault.New(contract.ClassInfra, contract.CodeBudgetExceeded, "spent")
	require.Equal(t, contract.CodeBudgetExceeded, w.orchestrate(t, healing).Failure.Code)
	require.Empty(t, w.healNotes())
}

func TestAnExhaustedQuotaIsWaitedOutUnlessAPersonRefuses(t *testing.T) {
	t.Parallel()
	for name, refuse := range map[string]bool{"waited out": false, "refused": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newRunFixture(t)
			w.failTimes(contract.ActivityPlan, 1, fault.New(contract.ClassInfra, contract.CodeQuotaExhausted, "spent"))
			if refuse {
				w.after(10*time.Second, func() { w.update(contract.UpdateReject, contract.Command{ID: "no", By: "ann"}) })
			}
			result := w.orchestrate(t, healing)
			require.Equal(t, []contract.HealAction{contract.HealWait}, w.actions())
			if refuse {
				require.Equal(t, contract.CodeQuotaExhausted, result.Failure.Code)
				return
			}
			require.Equal(t, contract.StatusDone, result.Status)
		})
	}
}

func TestAnExhaustedQuotaIsWaitedOutForAsLongAsTheProviderSays(t *testing.T) {
	t.Parallel()
	for said, want := range map[time.Duration]string{0: time.Minute.String(), 5 * time.Hour: (5 * time.Hour).String(), time.Second: time.Second.String()} {
		w := newRunFixture(t)
		spent := fault.New(contract.ClassInfra, contract.CodeQuotaExhausted, "spent")
		spent.Wait = said
		w.failTimes(contract.ActivityPlan, 1, spent)
		require.Equal(t, contract.StatusDone, w.orchestrate(t, healing).Status)
		require.Equal(t, []contract.HealAction{contract.HealWait}, w.actions())
		var waits []any
		for _, rec := range w.recorded() {
			for _, n := range rec.Heals {
				waits = append(waits, n.Output.After["wait"])
			}
		}
		require.Contains(t, waits, want)
	}
}

func TestAnExhaustedQuotaFailsOverToAnotherProvider(t *testing.T) {
	t.Parallel()
	w := newRunFixture(t)
	w.failTimes(contract.ActivityPlan, 1, fault.New(contract.ClassInfra, contract.CodeQuotaExhausted, "spent"))
	require.Equal(t, contract.StatusDone, w.orchestrate(t, healing, func(s *contract.Settings) {
		s.Fallbacks = []contract.ModelChoice{{Provider: "other", Model: "m"}}
	}).Status)
	require.Equal(t, []contract.HealAction{contract.HealOtherProvider}, w.actions())
	require.Equal(t, "other", w.view(t).Models[contract.AgentPlanner].Provider)
}

func TestAnAgentThatRepeatsItsErrorIsRevokedAndAFreshOneTakesOver(t *testing.T) {
	t.Parallel()
	w := newRunFixture(t)
	w.failTimes(contract.ActivityThink+"/step-001", 3, fault.New(contract.ClassLLM, contract.CodeInvalidOutput, "no JSON at line 12"))
	result := w.orchestrate(t, healing)
	require.Equal(t, contract.StatusDone, result.Status, "%v %v", result.Failure, w.actions())
	require.Equal(t, 1, occurrences(w.events(), contract.EventAgentRevoked))
	require.Equal(t, 2, w.opened["step-001"].Lessons.Generation)
}

func TestAConflictIsResolvedByTheRepairAgent(t *testing.T) {
	t.Parallel()
	w := newRunFixture(t)
	w.plan = onePlan("a", "b")
	w.conflict = "b"
	require.Equal(t, contract.StatusDone, w.orchestrate(t, healing).Status)
	require.Equal(t, 1, w.begun["builder/b"], "the step's work is not done again")
	require.Equal(t, "repair.2.0", w.released.Workspace.Tree)
	require.Equal(t, []contract.HealAction{contract.HealRepair}, w.actions())
	kept := w.healNotes()
	require.Equal(t, contract.HealSuccess, kept[1].Status)
	repaired := w.repaired()
	require.Len(t, repaired, 1, "the heal's row says what stands for the step")
	require.Equal(t, "b", repaired[0].Step)
	require.Equal(t, "repair.2.0", repaired[0].To.Tree)
	require.Equal(t, "b", repaired[0].Credit.Step)
}

// slowly makes each model call take a minute.
func (w *runFixture) slowly() {
	w.env.OnActivity(contract.ActivityThink, anything, anything).After(time.Minute).Return(w.think)
}

// repairing is when the Repair agent's first call is running: after two turns of the
// builder, each of a minute.
const repairing = 2*time.Minute + 30*time.Second

func TestAPauseAndASwitchOfModelReachTheRepairAgentAtWork(t *testing.T) {
	t.Parallel()
	w := newRunFixture(t)
	w.redUntil = "repair.2.0"
	w.slowly()
	used := map[int]string{}
	w.onThink = func(in contract.ThinkInput) {
		if in.Execution.Step == contract.StepRepair {
			used[in.Turn] = in.Model.Model
		}
	}
	var thinks, tools int
	var seen contract.RunView
	w.after(repairing, func() {
		w.update(contract.UpdatePause, contract.Command{ID: "p", By: "ann"})
		w.update(contract.UpdateSwitchModel, contract.Command{
			ID: "m", By: "ann", Agent: contract.AgentRepair, Model: &contract.ModelChoice{Provider: "scripted", Model: "better"},
		})
	})
	w.after(5*time.Hour, func() {
		thinks, tools, seen = w.thinks[contract.StepRepair], w.tools, w.view(t)
		w.update(contract.UpdateResume, contract.Command{ID: "r", By: "ann"})
	})
	require.Equal(t, contract.StatusDone, w.orchestrate(t, healing).Status)
	require.Equal(t, contract.StatusPaused, seen.Status)
	require.Equal(t, contract.StatusSelfHeal, seen.PausedFrom)
	require.Equal(t, 1, thinks, "no model call begins while the run is paused")
	require.Equal(t, 2, tools, "no tool call does: these are the builder's")
	require.Equal(t, map[int]string{1: "scripted", 2: "better"}, used)
}

func TestARepairAgentThatStartsInAPausedRunWaits(t *testing.T) {
	t.Parallel()
	w := newRunFixture(t)
	w.redUntil = "repair.2.0"
	w.env.OnActivity(contract.ActivityDiagnose, anything, anything).After(time.Minute).Return(func(_ context.Context, in contract.DiagnoseInput) (contract.Diagnosis, error) {
		return contract.Diagnosis{Failure: in.Failure, RootCause: "root"}, nil
	})
	began := 0
	w.after(30*time.Second, func() { w.update(contract.UpdatePause, contract.Command{ID: "p", By: "ann"}) })
	w.after(time.Hour, func() {
		began = w.begun["tester/repair"]
		w.update(contract.UpdateResume, contract.Command{ID: "r", By: "ann"})
	})
	require.Equal(t, contract.StatusDone, w.orchestrate(t, healing).Status)
	require.Zero(t, began)
	require.Equal(t, 1, w.begun["tester/repair"])
}

func TestAStopEndsTheRepairAgentAtWork(t *testing.T) {
	t.Parallel()
	w := newRunFixture(t)
	w.redUntil = "repair.2.0"
	w.slowly()
	w.after(repairing, func() { w.update(contract.UpdateStop, contract.Command{ID: "s", By: "ann"}) })
	require.Equal(t, contract.StatusCancelled, w.orchestrate(t, healing).Status)
	require.LessOrEqual(t, w.thinks[contract.StepRepair], 1)
	var ends []contract.ExecutionStatus
	for _, rec := range w.recorded() {
		if rec.End != nil && len(rec.Events) > 0 && rec.Events[0].Type == contract.EventStepError {
			ends = append(ends, rec.End.Status)
		}
	}
	require.Equal(t, []contract.ExecutionStatus{contract.ExecutionCancelled}, ends, "its execution is closed")
}

func TestARepairAgentThatLeavesItsPathsIsRevokedAndAFreshOneFindsItsHandoff(t *testing.T) {
	t.Parallel()
	w := newRunFixture(t)
	w.redUntil = "repair2.2.0"
	w.escapes = map[string]int{contract.StepRepair: 2}
	w.after(time.Minute, func() {
		require.Equal(t, contract.StatusWaitingForApproval, w.view(t).Status)
		w.update(contract.UpdateHeal, contract.Command{ID: "h", By: "ann", Action: contract.HealRepair})
	})
	require.Equal(t, contract.StatusDone, w.orchestrate(t, healing).Status)
	require.Equal(t, []map[string]any{{
		"agent": contract.AgentRepair, "generation": 1, "reason": "it tried to use tools or paths that are not allowed", "handoff": "handoff/repair-1.md",
	}}, w.revoked())
	require.Equal(t, 2, w.opened[contract.StepRepair].Lessons.Generation)
}

func TestARepairThatTouchesWhatNoAgentMayChangeIsAViolation(t *testing.T) {
	t.Parallel()
	for code, revoked := range map[contract.Code]int{contract.CodeForbidden: 1, contract.CodeFindings: 0} {
		t.Run(string(code), func(t *testing.T) {
			t.Parallel()
			w := newRunFixture(t)
			w.redUntil, w.refused, w.refusedCode = "repair.2.0", "it touches .github/workflows/ci.yml", code
			require.Equal(t, contract.StatusFailed, w.orchestrate(t, healing).Status)
			require.Len(t, w.revoked(), revoked)
		})
	}
}

func TestARepairAgentThatRepeatsItsErrorIsRevoked(t *testing.T) {
	t.Parallel()
	w := newRunFixture(t)
	w.redUntil, w.refused, w.refusedCode = "repair.2.0", "it deletes TestAdd", contract.CodeFindings
	for i := range 2 {
		w.after(time.Duration(i+1)*time.Minute, func() {
			w.update(contract.UpdateHeal, contract.Command{ID: fmt.Sprint("h", i), By: "ann", Action: contract.HealRepair})
		})
	}
	require.Equal(t, contract.StatusFailed, w.orchestrate(t, healing).Status)
	require.Len(t, w.revoked(), 1)
	require.Equal(t, "it repeated the same error 2 times", w.revoked()[0]["reason"])
}

// revoked returns the events about revoked agents.
func (w *runFixture) revoked() []map[string]any {
	var out []map[string]any
	for _, rec := range w.recorded() {
		for _, e := range rec.Events {
			if e.Type == contract.EventAgentRevoked {
				out = append(out, e.Payload.(map[string]any))
			}
		}
	}
	return out
}

func TestParallelStepsOfAFailedOneContinueAndAreNotPaidTwice(t *testing.T) {
	t.Parallel()
	w := newRunFixture(t)
	w.plan = onePlan("bad", "slow")
	w.env.OnActivity(contract.ActivityThink, anything, mock.MatchedBy(func(in contract.ThinkInput) bool { return in.Execution.Step == "slow" })).
		After(time.Minute).Return(w.think)
	w.env.OnActivity(contract.ActivityThink, anything, anything).Return(w.think)
	w.failTimes(contract.ActivityThink+"/bad", 1, fault.New(contract.ClassLLM, contract.CodeRefusal, "no"))
	require.Equal(t, contract.StatusDone, w.orchestrate(t, healing).Status)
	require.Equal(t, 2, w.begun["builder/bad"])
	require.Equal(t, 1, w.begun["builder/slow"])
	require.Equal(t, 2, w.thinks["slow"], "each of its turns was paid once")
	require.Equal(t, 1, occurrences(w.events(), contract.EventStepError), "only the one that failed has an error")
}

func TestWhatChangesNoModelIsNotTriedWhereThereIsNone(t *testing.T) {
	t.Parallel()
	other := func(s *contract.Settings) { s.Fallbacks = []contract.ModelChoice{{Provider: "other", Model: "m"}} }
	for name, c := range map[string]struct {
		activity string
		failure  *fault.Error
		want     []contract.HealAction
	}{
		"tester":   {contract.ActivityVerify, fault.New(contract.ClassInfra, contract.CodeUnavailable, "gone"), []contract.HealAction{contract.HealAskPerson}},
		"releaser": {contract.ActivityRelease, fault.New(contract.ClassLLM, contract.CodeInvalidOutput, "no JSON"), []contract.HealAction{contract.HealAskPerson}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newRunFixture(t)
			w.fail[c.activity] = c.failure
			require.Equal(t, contract.StatusFailed, w.orchestrate(t, healing, other).Status)
			require.Equal(t, c.want, w.actions())
		})
	}
}

func TestAMissingApprovalSaysWhyAndWhatToDoNext(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		plan, rejected bool
		note           contract.InterventionNote
		event          contract.EventType
	}{
		"a rejected plan": {true, true, contract.InterventionNote{
			Number: 1, Status: "resolved", Phase: contract.PhasePlanner, Reason: "ann rejected the plan (too large)", By: "ann", Answer: "give_up", Words: "too large",
		}, contract.EventInterventionResolved},
		"a rejected release": {false, true, contract.InterventionNote{
			Number: 1, Status: "resolved", Phase: contract.PhaseTester, Reason: "ann rejected the release (too large)", By: "ann", Answer: "give_up", Words: "too large",
		}, contract.EventInterventionResolved},
		"an unanswered release": {false, false, contract.InterventionNote{
			Number: 1, Status: "expired", Phase: contract.PhaseTester, Answer: "give_up",
			Reason: "the release was not approved within 1h0m0s (execution.approval.wait), which counts as a rejection",
		}, contract.EventInterventionExpired},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newRunFixture(t)
			if c.rejected {
				w.after(time.Minute, func() { w.update(contract.UpdateReject, contract.Command{ID: "1", By: "ann", Reason: "too large"}) })
			}
			result := w.orchestrate(t, healing, func(s *contract.Settings) { s.ApprovePlan, s.ApproveRelease = c.plan, !c.plan })
			require.Equal(t, contract.StatusFailed, result.Status, "it ends the run at once")
			require.Empty(t, w.healNotes())
			var notes []contract.InterventionNote
			for _, rec := range w.recorded() {
				notes = append(notes, rec.Interventions...)
			}
			require.Len(t, notes, 1)
			require.Contains(t, notes[0].ActionRequired, "rgpt run resume 7")
			notes[0].ActionRequired = ""
			require.Equal(t, c.note, notes[0])
			require.Equal(t, 1, occurrences(w.events(), c.event))
		})
	}
}

// requireEndedOnce requires that each heal of a run ended, and that its end was recorded
// once.
func (w *runFixture) requireEndedOnce(t *testing.T) {
	t.Helper()
	notes := w.healNotes()
	for number, n := range notes {
		require.Contains(t, []contract.HealStatus{contract.HealSuccess, contract.HealFailed}, n.Status, "heal %d", number)
	}
	require.Equal(t, len(notes), occurrences(w.events(), contract.EventHealStarted), "%v", w.events())
	require.Equal(t, len(notes), occurrences(w.events(), contract.EventHealSuccess)+occurrences(w.events(), contract.EventHealFailed), "%v", w.events())
}

func TestAHealGetsAResultHoweverItsRunEnds(t *testing.T) {
	t.Parallel()
	asks := fault.New(contract.ClassHuman, contract.CodeRepository, "the wrong repository")
	quota := fault.New(contract.ClassInfra, contract.CodeQuotaExhausted, "no money left")
	for name, c := range map[string]struct {
		fails  *fault.Error
		do     func(w *runFixture)
		status contract.Status
		heals  []contract.HealStatus
	}{
		"stopped while it waits for a person": {asks, func(w *runFixture) { w.update(contract.UpdateStop, contract.Command{ID: "c", By: "ann"}) },
			contract.StatusCancelled, []contract.HealStatus{contract.HealFailed}},
		"cancelled in Temporal while it waits for a person": {asks, func(w *runFixture) { w.env.CancelWorkflow() },
			contract.StatusCancelled, []contract.HealStatus{contract.HealFailed}},
		"cancelled in Temporal while it waits for a quota": {quota, func(w *runFixture) { w.env.CancelWorkflow() },
			contract.StatusCancelled, []contract.HealStatus{contract.HealFailed}},
		"told not to wait for a quota": {quota, func(w *runFixture) { w.update(contract.UpdateReject, contract.Command{ID: "c", By: "ann"}) },
			contract.StatusFailed, []contract.HealStatus{contract.HealFailed}},
		"told to do something else": {asks, func(w *runFixture) {
			w.update(contract.UpdateHeal, contract.Command{ID: "c", By: "ann", Action: contract.HealRegenerate})
		}, contract.StatusDone, []contract.HealStatus{contract.HealSuccess, contract.HealSuccess}},
		"out of time while it waits for a person": {asks, func(*runFixture) {}, contract.StatusFailed, []contract.HealStatus{contract.HealFailed}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newRunFixture(t)
			w.failTimes(contract.ActivityPlan, 1, c.fails)
			w.after(20*time.Second, func() {
				require.Equal(t, contract.StatusWaitingForApproval, w.view(t).Status)
				c.do(w)
			})
			result := w.orchestrate(t, healing, func(s *contract.Settings) { s.RunBudget.Time = 30 * time.Minute })
			require.Equal(t, c.status, result.Status)
			w.requireEndedOnce(t)
			var got []contract.HealStatus
			for i := range len(w.healNotes()) {
				got = append(got, w.healNotes()[i+1].Status)
			}
			require.Equal(t, c.heals, got)
		})
	}
}

func TestAChangeMadeForTheReleaserIsTestedBeforeItIsReleased(t *testing.T) {
	t.Parallel()
	w := newRunFixture(t)
	w.failTimes(contract.ActivityRelease, 1, fault.New(contract.ClassAssertion, contract.CodeTestsFailed, "red after the rebase"))
	change := contract.Change{Step: "heal-1", From: contract.Workspace{Tree: "step-001.2.0"}, To: contract.Workspace{Tree: "mended"}}
	w.env.OnWorkflow(contract.WorkflowSelfHeal, mock.Anything, mock.Anything).Return(contract.Directive{
		Number: 1, Action: contract.HealRepair, Class: contract.ClassAssertion, Back: contract.PhaseReleaser, Change: &change, Credit: &contract.Credit{Step: "heal-1"},
	}, nil).Once()
	require.Equal(t, contract.StatusDone, w.orchestrate(t, healing).Status)
	statuses := w.statuses()
	at := slices.Index(statuses, contract.StatusSelfHeal)
	require.Equal(t, []contract.Status{
		contract.PhaseReleaser.Error(), contract.StatusSelfHeal, contract.PhaseTester.Running(), contract.PhaseReleaser.Running(),
	}, statuses[at-1:at+3])
	require.Equal(t, 2, w.begun["tester/"])
	require.Equal(t, "mended", w.released.Workspace.Tree)
}

func TestARunIsOverInItsRowWhenAllIsSaidOfItsEnd(t *testing.T) {
	t.Parallel()
	w := newRunFixture(t)
	w.failTimes(contract.ActivityPlan, 1, fault.New(contract.ClassHuman, contract.CodeRepository, "the wrong repository"))
	w.after(time.Minute, func() { // the second is written when the run is already ending
		w.update(contract.UpdatePause, contract.Command{ID: "p", By: "ann"})
		w.update(contract.UpdateStop, contract.Command{ID: "s", By: "ann"})
	})
	require.Equal(t, contract.StatusCancelled, w.orchestrate(t, healing).Status)
	at := slices.IndexFunc(w.recorded(), func(r contract.Record) bool { return r.Run != nil && r.Run.Status.Terminal() })
	require.GreaterOrEqual(t, at, 0)
	require.Len(t, w.recorded()[at].Heals, 1, "%+v", w.recorded()[at])
	require.True(t, slices.ContainsFunc(w.recorded()[at].Events, func(e contract.EventDraft) bool { return e.Type == contract.EventRunFailed }))
}

func TestAHealThatIsCancelledBeforeItBeginsEndsAsOneThatWasWritten(t *testing.T) {
	t.Parallel()
	w := newRunFixture(t)
	w.after(0, w.env.CancelWorkflow)
	w.env.ExecuteWorkflow(contract.WorkflowSelfHeal, contract.HealInput{
		RunID: 7, Number: 1, Phase: contract.PhasePlanner, Failure: fault.New(contract.ClassLLM, contract.CodeRefusal, "no").Failure,
	})
	require.NoError(t, w.env.GetWorkflowError())
	var d contract.Directive
	require.NoError(t, w.env.GetWorkflowResult(&d))
	require.Equal(t, contract.HealRegenerate, d.Action)
	require.Equal(t, contract.HealApplied, w.healNotes()[1].Status, "a run whose heal was written knows of it")
}

func TestAPersonIsAskedOnceThoughNoHealCanLookAtTheFailure(t *testing.T) {
	t.Parallel()
	w := newRunFixture(t)
	w.red = true
	n := 0
	w.env.OnActivity(contract.ActivityDiagnose, mock.Anything, mock.Anything).Return(func(_ context.Context, in contract.DiagnoseInput) (contract.Diagnosis, error) {
		n++
		if n > 60 {
			w.env.CancelWorkflow()
		}
		return contract.Diagnosis{}, fault.ToTemporal(fault.New(contract.ClassConfig, contract.CodeUnknown, "cannot decode"), 1)
	})
	out := w.orchestrate(t, healing)
	require.Equal(t, contract.StatusFailed, out.Status)
	require.Contains(t, out.Failure.Message, "no answer was received")
	require.Equal(t, 3+1, n, "each heal of the budget, and the one that should have asked")
	require.Equal(t, 1, occurrences(w.events(), contract.EventInterventionRequested))
}

func slowClock(w *runFixture) {
	w.env.OnActivity(contract.ActivityRunTimeFrom, mock.Anything, mock.Anything).Return(func(ctx context.Context, _ int64) (time.Time, error) {
		select {
		case <-ctx.Done():
			return time.Time{}, ctx.Err()
		case <-time.After(700 * time.Millisecond):
		}
		return w.env.Now(), nil // replayed just now: there is time left
	})
}

func TestAStopWhileTheTimeIsLookedUpIsAStop(t *testing.T) {
	t.Parallel()
	w := newRunFixture(t)
	slowClock(w)
	w.releases = func(int) {
		<-time.After(400 * time.Millisecond)
		w.env.SignalWorkflow(contract.UpdateStop, contract.Command{ID: "s", By: "ada"})
		<-time.After(100 * time.Millisecond)
	}
	w.fail[contract.ActivityRelease] = fault.New(contract.ClassHuman, contract.CodeUnknown, "no")
	out := w.orchestrate(t, healing, func(s *contract.Settings) { s.RunBudget.Time = 200 * time.Millisecond })
	require.Equal(t, contract.StatusCancelled, out.Status)
}

func TestAHealThatIsCancelledChoosesTheWorkerThatItsRowNames(t *testing.T) {
	t.Parallel()
	w := newRunFixture(t)
	w.workers = []string{"host:2"}
	w.after(0, w.env.CancelWorkflow)
	f := fault.New(contract.ClassInfra, contract.CodeUnavailable, "no").Failure
	f.Worker = "host:1"
	w.env.ExecuteWorkflow(contract.WorkflowSelfHeal, contract.HealInput{RunID: 7, Number: 1, Phase: contract.PhaseTester, Failure: f})
	require.NoError(t, w.env.GetWorkflowError())
	var d contract.Directive
	require.NoError(t, w.env.GetWorkflowResult(&d))
	require.Equal(t, contract.HealOtherWorker, d.Action)
	require.Equal(t, "host:2", d.Worker)
}
