package workflows

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/fault"
	"github.com/rocketgpt/orchestrator/workflows/internal/affinity"
)

func TestARunPassesThroughTheLifecycle(t *testing.T) {
	t.Parallel()
	w := newRunFixture(t)
	result := w.orchestrate(t)
	require.Equal(t, contract.StatusDone, result.Status)
	require.Equal(t, "rgpt/run-7", result.Branch)
	require.Equal(t, []contract.Status{"planner_running", "builder_running", "tester_running", "releaser_running", "done"}, w.statuses())
	require.Equal(t, []contract.EventType{
		"planner.started", "planner.completed", "builder.started", "step.started", "step.completed", "builder.completed",
		"tester.started", "tester.completed", "releaser.started", "releaser.completed",
	}, w.events())
}

func TestAFailureOfEachClassInEachPhaseEndsThePhaseAndTheRun(t *testing.T) {
	t.Parallel()
	where := map[contract.Phase]string{
		contract.PhasePlanner:  contract.ActivityPlan,
		contract.PhaseBuilder:  contract.ActivityThink + "/step-001",
		contract.PhaseTester:   contract.ActivityVerify,
		contract.PhaseReleaser: contract.ActivityRelease,
	}
	for _, p := range contract.Phases() {
		for _, class := range contract.Classes() {
			t.Run(fmt.Sprint(p, "/", class), func(t *testing.T) {
				t.Parallel()
				w := newRunFixture(t)
				w.fail[where[p]] = fault.New(class, contract.CodeUnknown, "told to fail")
				result := w.orchestrate(t)
				require.Equal(t, contract.StatusFailed, result.Status)
				require.Equal(t, class, result.Failure.Class)
				require.Equal(t, "told to fail", result.Failure.Message)
				statuses := w.statuses()
				require.Equal(t, []contract.Status{p.Running(), p.Error(), contract.StatusFailed}, statuses[len(statuses)-3:])
				require.Contains(t, w.events(), p.ErrorEvent())
				require.Equal(t, contract.EventRunFailed, w.events()[len(w.events())-1])
			})
		}
	}
}

func TestARedTestIsAResultThatEndsTheTesterPhase(t *testing.T) {
	t.Parallel()
	w := newRunFixture(t)
	w.red = true
	result := w.orchestrate(t)
	require.Equal(t, contract.ClassAssertion, result.Failure.Class)
	require.Equal(t, contract.CodeTestsFailed, result.Failure.Code)
}

func TestStepsStartFromTheChangesTheyDependOnAndNothingElse(t *testing.T) {
	t.Parallel()
	w := newRunFixture(t)
	w.plan = onePlan("s1", "s2", "s3", "s4", "s5")
	w.plan.Steps[1].Dependencies = []string{"s1"}
	w.plan.Steps[2].Dependencies = []string{"s1"}
	w.plan.Steps[3].Dependencies = []string{"s2", "s3"}
	require.Equal(t, contract.StatusDone, w.orchestrate(t).Status)
	require.Equal(t, "7ree", w.opened["s1"].Workspace.Tree)
	require.Equal(t, "s1.2.0", w.opened["s2"].Workspace.Tree, "where s1 ended, without any merge")
	require.Equal(t, "s2.2.0", w.opened["s4"].Workspace.Tree, "what can be forwarded is")
	require.Len(t, w.opened["s4"].Needs, 1, "and the rest is merged by the step")
	require.Equal(t, "s3", w.opened["s4"].Needs[0].Step)
	require.Equal(t, "7ree", w.opened["s5"].Workspace.Tree)
	require.Empty(t, w.opened["s5"].Needs)
}

func TestNoMoreStepsRunAtOnceThanAllowed(t *testing.T) {
	t.Parallel()
	w := newRunFixture(t)
	w.plan = onePlan("a", "b", "c", "d", "e", "f")
	running, most := map[string]bool{}, 0
	w.onThink = func(in contract.ThinkInput) {
		w.mu.Lock()
		defer w.mu.Unlock()
		running[in.Execution.Step] = in.Turn == 1
		n := 0
		for _, r := range running {
			if r {
				n++
			}
		}
		most = max(most, n)
	}
	require.Equal(t, contract.StatusDone, w.orchestrate(t, func(s *contract.Settings) { s.Parallel = 2 }).Status)
	require.LessOrEqual(t, most, 2)
	require.Len(t, w.opened, 6)
}

func TestAFailedStepStopsTheOthers(t *testing.T) {
	t.Parallel()
	w := newRunFixture(t)
	w.plan = onePlan("bad", "good", "later")
	w.plan.Steps[2].Dependencies = []string{"bad"}
	w.fail[contract.ActivityThink+"/bad"] = fault.New(contract.ClassLLM, contract.CodeRefusal, "no")
	result := w.orchestrate(t)
	require.Equal(t, contract.CodeRefusal, result.Failure.Code)
	require.NotContains(t, w.opened, "later")
}

func TestStopEndsTheRunAsCancelledAtAnyMoment(t *testing.T) {
	t.Parallel()
	for _, name := range []string{contract.ActivityPlan, contract.ActivityThink, contract.ActivityVerify} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newRunFixture(t)
			var got *answer
			w.env.OnActivity(name, anything, anything).After(time.Hour).Return(nil, nil).Maybe()
			w.after(time.Second, func() { got = w.update(contract.UpdateStop, contract.Command{ID: "1", By: "ann", Reason: "enough"}) })
			result := w.orchestrate(t)
			require.Equal(t, contract.StatusCancelled, result.Status)
			require.Contains(t, result.Failure.Message, "stopped by ann (enough)")
			require.True(t, got.ack.Applied)
			require.Equal(t, contract.StatusCancelled, w.statuses()[len(w.statuses())-1])
		})
	}
}

func TestARunThatTakesTooLongFailsAsTimedOut(t *testing.T) {
	t.Parallel()
	w := newRunFixture(t)
	w.env.OnActivity(contract.ActivityPlan, anything, anything).After(2*time.Hour).Return(contract.PlanResult{}, nil).Maybe()
	result := w.orchestrate(t, func(s *contract.Settings) { s.RunBudget.Time = time.Hour; s.ModelTimeout = 24 * time.Hour })
	require.Equal(t, contract.StatusFailed, result.Status)
	require.Equal(t, contract.CodeRunTimeout, result.Failure.Code)
}

func TestAPausedRunStandsStillUntilItIsResumed(t *testing.T) {
	t.Parallel()
	w := newRunFixture(t)
	w.env.OnActivity(contract.ActivityVerify, anything, anything).After(time.Minute).Return(contract.CheckResult{OK: true}, nil)
	var seen contract.RunView
	var again *answer
	w.after(10*time.Second, func() { w.update(contract.UpdatePause, contract.Command{ID: "p", By: "ann"}) })
	w.after(20*time.Second, func() { again = w.update(contract.UpdatePause, contract.Command{ID: "q", By: "ann"}) })
	w.after(time.Hour, func() {
		value, err := w.env.QueryWorkflow(contract.QueryState)
		require.NoError(t, err)
		require.NoError(t, value.Get(&seen))
		w.update(contract.UpdateResume, contract.Command{ID: "r", By: "ann"})
	})
	result := w.orchestrate(t)
	require.Equal(t, contract.StatusDone, result.Status)
	require.Equal(t, contract.StatusPaused, seen.Status)
	require.Equal(t, contract.Status("tester_running"), seen.PausedFrom)
	require.ErrorContains(t, again.err, "already paused")
}

func TestAPausedRunStartsNoFurtherStep(t *testing.T) {
	t.Parallel()
	w := newRunFixture(t)
	w.plan = onePlan("s1", "s2")
	w.plan.Steps[1].Dependencies = []string{"s1"}
	w.onThink = func(in contract.ThinkInput) {
		if in.Execution.Step == "s1" && in.Turn == 2 {
			w.env.SignalWorkflow(contract.UpdatePause, contract.Command{ID: "p", By: "ann"})
		}
	}
	early := false
	w.after(time.Hour, func() {
		w.mu.Lock()
		_, early = w.opened["s2"]
		w.mu.Unlock()
		w.update(contract.UpdateResume, contract.Command{ID: "r", By: "ann"})
	})
	require.Equal(t, contract.StatusDone, w.orchestrate(t).Status)
	require.False(t, early)
	require.Contains(t, w.opened, "s2")
}

func TestACommandWithTheSameIDIsAppliedOnce(t *testing.T) {
	t.Parallel()
	w := newRunFixture(t)
	w.env.OnActivity(contract.ActivityPlan, anything, anything).After(time.Minute).Return(contract.PlanResult{ID: madePlan, Plan: w.plan}, nil)
	w.after(time.Second, func() { w.env.SignalWorkflow(contract.UpdatePause, contract.Command{ID: "x", By: "svc"}) })
	w.after(2*time.Second, func() { w.env.SignalWorkflow(contract.UpdateResume, contract.Command{ID: "y", By: "svc"}) })
	w.after(3*time.Second, func() { w.env.SignalWorkflow(contract.UpdatePause, contract.Command{ID: "x", By: "svc"}) })
	require.Equal(t, contract.StatusDone, w.orchestrate(t).Status, "the second pause is the first one again")
}

func TestAnApprovalIsAnsweredOnceAndSilenceIsANo(t *testing.T) {
	t.Parallel()
	approve := func(s *contract.Settings) { s.ApproveRelease = true }
	t.Run("granted", func(t *testing.T) {
		t.Parallel()
		w := newRunFixture(t)
		var second *answer
		w.after(time.Minute, func() {
			w.update(contract.UpdateApprove, contract.Command{ID: "1", By: "ann"})
			second = w.update(contract.UpdateReject, contract.Command{ID: "2", By: "bob"})
		})
		require.Equal(t, contract.StatusDone, w.orchestrate(t, approve).Status)
		require.Error(t, second.err)
		require.Contains(t, w.statuses(), contract.StatusWaitingForApproval)
	})
	t.Run("rejected", func(t *testing.T) {
		t.Parallel()
		w := newRunFixture(t)
		w.after(time.Minute, func() {
			w.update(contract.UpdateReject, contract.Command{ID: "1", By: "ann", Reason: "not today"})
		})
		result := w.orchestrate(t, approve)
		require.Equal(t, contract.StatusFailed, result.Status)
		require.Equal(t, contract.CodeRejected, result.Failure.Code)
		require.Contains(t, result.Failure.Message, "not today")
	})
	t.Run("unanswered", func(t *testing.T) {
		t.Parallel()
		w := newRunFixture(t)
		result := w.orchestrate(t, approve)
		require.Equal(t, contract.CodeApprovalExpired, result.Failure.Code)
		require.Contains(t, w.events(), contract.EventApprovalExpired)
		require.Equal(t, 1, count(w.events(), contract.EventApprovalReminded))
	})
}

func TestProtectedFilesArePushedOnlyOnceSomebodyHasApprovedThemByName(t *testing.T) {
	t.Parallel()
	push := func(s *contract.Settings) { s.Release.Push, s.Release.Protected = true, []string{".github/**"} }
	touched := contract.ProtectedFiles{Paths: []string{".github/workflows/x.yml"}, Total: 3}
	t.Run("approved", func(t *testing.T) {
		t.Parallel()
		w := newRunFixture(t)
		w.protected = touched
		var unnamed *answer
		w.after(time.Minute, func() {
			unnamed = w.update(contract.UpdateApprove, contract.Command{ID: "1", By: contract.ByAPI})
			w.env.SignalWorkflow(contract.UpdateApprove, contract.Command{ID: "2"})
		})
		w.after(2*time.Minute, func() { w.update(contract.UpdateApprove, contract.Command{ID: "3", By: "ann"}) })
		require.Equal(t, contract.StatusDone, w.orchestrate(t, push).Status)
		require.ErrorContains(t, unnamed.err, ".github/workflows/x.yml and 2 more")
		require.Equal(t, "ann", w.released.ApprovedBy)
	})
	t.Run("not approved", func(t *testing.T) {
		t.Parallel()
		w := newRunFixture(t)
		w.protected = touched
		require.Equal(t, contract.CodeApprovalExpired, w.orchestrate(t, push).Failure.Code)
		require.Empty(t, w.commits)
	})
	t.Run("not touched", func(t *testing.T) {
		t.Parallel()
		w := newRunFixture(t)
		require.Equal(t, contract.StatusDone, w.orchestrate(t, push).Status)
		require.Empty(t, w.released.ApprovedBy)
		require.NotContains(t, w.events(), contract.EventApprovalRequested)
	})
	t.Run("released to a URL", func(t *testing.T) {
		t.Parallel()
		w := newRunFixture(t)
		w.protected = touched
		require.Equal(t, contract.CodeApprovalExpired, w.orchestrate(t, func(s *contract.Settings) {
			push(s)
			s.Release.Push, s.Repo.URL = false, "https://example.com/r.git"
		}).Failure.Code)
		require.Empty(t, w.commits)
	})
	t.Run("not pushed", func(t *testing.T) {
		t.Parallel()
		w := newRunFixture(t)
		w.protected = touched
		require.Equal(t, contract.StatusDone, w.orchestrate(t, func(s *contract.Settings) { push(s); s.Release.Push = false }).Status)
		require.NotContains(t, w.events(), contract.EventApprovalRequested)
	})
	t.Run("the comparison fails", func(t *testing.T) {
		t.Parallel()
		w := newRunFixture(t)
		w.fail[contract.ActivityProtected] = fault.New(contract.ClassInfra, contract.CodeUnknown, "away")
		require.Equal(t, contract.StatusFailed, w.orchestrate(t, push).Status)
		require.Empty(t, w.commits, "what nobody could look at is not pushed")
	})
}

func TestASwitchOfModelReachesStepsUnderWay(t *testing.T) {
	t.Parallel()
	w := newRunFixture(t)
	var used []string
	w.onThink = func(in contract.ThinkInput) {
		used = append(used, in.Model.Model)
		if in.Turn == 1 {
			w.env.SignalWorkflow(contract.UpdateSwitchModel, contract.Command{ID: "m", By: "ann", Agent: contract.AgentBuilder, Model: &contract.ModelChoice{Provider: "scripted", Model: "better"}})
		}
	}
	w.answers["step-001"] = []contract.ThinkResult{
		{Calls: []contract.ToolCallRef{{Tool: "edit_file"}}}, {Calls: []contract.ToolCallRef{{Tool: "edit_file"}}}, {Finish: true},
	}
	require.Equal(t, contract.StatusDone, w.orchestrate(t).Status)
	require.Equal(t, "scripted", used[0])
	require.Equal(t, "better", used[len(used)-1])
	require.Contains(t, w.events(), contract.EventModelSwitched)
}

func TestAdvanceGoesAsFarAsTheNextPhase(t *testing.T) {
	t.Parallel()
	w := newRunFixture(t)
	w.env.OnActivity(contract.ActivityPlan, anything, anything).After(time.Minute).Return(contract.PlanResult{Plan: w.plan}, nil)
	var seen contract.RunView
	w.after(time.Second, func() { w.update(contract.UpdatePause, contract.Command{ID: "1"}) })
	w.after(2*time.Second, func() { w.update(contract.UpdateAdvance, contract.Command{ID: "2"}) })
	w.after(time.Hour, func() {
		value, err := w.env.QueryWorkflow(contract.QueryState)
		require.NoError(t, err)
		require.NoError(t, value.Get(&seen))
		w.update(contract.UpdateResume, contract.Command{ID: "3"})
	})
	require.Equal(t, contract.StatusDone, w.orchestrate(t).Status)
	require.Equal(t, contract.StatusPaused, seen.Status)
	require.Equal(t, contract.Status("planner_completed"), seen.PausedFrom)
}

func TestAPlanOnlyRunEndsWithItsPlan(t *testing.T) {
	t.Parallel()
	w := newRunFixture(t)
	result := w.orchestrate(t, func(s *contract.Settings) { s.PlanOnly = true })
	require.Equal(t, contract.StatusDone, result.Status)
	require.Empty(t, w.opened)
	require.Equal(t, []contract.Status{"planner_running", "done"}, w.statuses())
	require.Equal(t, []contract.EventType{"planner.started", "planner.completed", "run.updated"}, w.events())
	require.Equal(t, contract.ExecutionCompleted, w.recorded()[len(w.recorded())-1].End.Status)
}

func TestACompletedPhaseAndTheNextOneAreOneRecord(t *testing.T) {
	t.Parallel()
	w := newRunFixture(t)
	w.orchestrate(t)
	var together []string
	for _, rec := range w.recorded() {
		if rec.Run != nil && rec.End != nil && rec.Begin != nil {
			together = append(together, fmt.Sprint(rec.Events[0].Type, " ", rec.Events[1].Type))
		}
	}
	require.Equal(t, []string{"planner.completed builder.started", "builder.completed tester.started", "tester.completed releaser.started"}, together)
}

func TestWhatARunWaitsForComesAfterThePhaseThatCompleted(t *testing.T) {
	t.Parallel()
	t.Run("an approval", func(t *testing.T) {
		t.Parallel()
		w := newRunFixture(t)
		w.after(time.Minute, func() { w.update(contract.UpdateApprove, contract.Command{ID: "1", By: "ann"}) })
		require.Equal(t, contract.StatusDone, w.orchestrate(t, func(s *contract.Settings) { s.ApprovePlan = true }).Status)
		require.Equal(t, []contract.EventType{
			"planner.started", "planner.completed", "approval.requested", "approval.granted", "builder.started",
		}, w.events()[:5])
	})
	t.Run("a pause", func(t *testing.T) {
		t.Parallel()
		w := newRunFixture(t)
		w.env.OnActivity(contract.ActivityRelease, anything, anything).After(time.Minute).Return(contract.ReleaseResult{Branch: "b"}, nil)
		w.env.OnActivity(contract.ActivityPlan, anything, anything).After(time.Minute).Return(contract.PlanResult{ID: madePlan, Plan: w.plan}, nil)
		w.after(time.Second, func() { w.update(contract.UpdatePause, contract.Command{ID: "1", By: "ann"}) })
		var seen []contract.EventType
		w.after(time.Hour, func() {
			seen = w.events()
			w.update(contract.UpdateResume, contract.Command{ID: "2", By: "ann"})
		})
		require.Equal(t, contract.StatusDone, w.orchestrate(t).Status)
		require.NotContains(t, seen, contract.EventType("builder.started"))
	})
}

func TestShortWorkIsOneHopAndAnOrdinaryActivityWhereTheHostIsCold(t *testing.T) {
	t.Parallel()
	run := func(t *testing.T, cold bool, steps int) []string {
		w := newRunFixture(t)
		var ids []string
		for i := range steps {
			ids = append(ids, fmt.Sprintf("s%d", i))
		}
		w.plan = onePlan(ids...)
		if cold {
			w.fail["cold"] = fault.New(contract.ClassRuntime, "", "")
		}
		require.Equal(t, contract.StatusDone, w.orchestrate(t).Status)
		return slices.DeleteFunc(w.hops, func(h string) bool { return strings.HasPrefix(h, contract.ActivityOpenStep) })
	}
	quick := func(name string) string { return name + " quick=true" }
	ordinary := func(name string) string { return name + " quick=false" }
	t.Run("warm", func(t *testing.T) {
		t.Parallel()
		require.Equal(t, []string{quick(contract.ActivityIntegrate), quick(contract.ActivityTestPlan)}, run(t, false, 2))
	})
	t.Run("cold", func(t *testing.T) {
		t.Parallel()
		require.Equal(t, []string{
			quick(contract.ActivityIntegrate), ordinary(contract.ActivityIntegrate), quick(contract.ActivityTestPlan), ordinary(contract.ActivityTestPlan),
		}, run(t, true, 2))
	})
	t.Run("more merges than are short", func(t *testing.T) {
		t.Parallel()
		require.Equal(t, []string{ordinary(contract.ActivityIntegrate), quick(contract.ActivityTestPlan)}, run(t, false, affinity.LocalMerges+2))
	})
}

func TestOfTwoEditedPlansThatArriveTogetherOneCountsAndTheOtherChangesNothing(t *testing.T) {
	t.Parallel()
	w := newRunFixture(t)
	w.edited[11], w.edited[12] = onePlan("ann-1"), onePlan("bob-1", "bob-2")
	var ann, bob *answer
	reading := make(chan struct{})
	arrived := 0
	w.onAdopt = func(contract.AdoptPlanInput) {
		w.mu.Lock()
		if arrived++; arrived == 2 {
			close(reading)
		}
		w.mu.Unlock()
		<-reading // both are running before either is accepted
	}
	w.after(time.Minute, func() {
		ann = w.update(contract.UpdateApprove, contract.Command{ID: "1", By: "ann", PlanID: 11})
		bob = w.update(contract.UpdateApprove, contract.Command{ID: "2", By: "bob", PlanID: 12})
	})
	require.Equal(t, contract.StatusDone, w.orchestrate(t, func(s *contract.Settings) { s.ApprovePlan = true }).Status)
	require.True(t, ann.accepted && bob.accepted, "both made sense when they came")
	winner, steps, loser := int64(11), []string{"ann-1"}, bob
	if ann.err != nil {
		winner, steps, loser = 12, []string{"bob-1", "bob-2"}, ann
	}
	require.ErrorContains(t, loser.err, "another command was accepted first")
	var opened []string
	for id, in := range w.opened {
		opened = append(opened, id)
		require.Equal(t, winner, in.PlanID)
	}
	require.ElementsMatch(t, steps, opened)
	granted := 0
	for _, rec := range w.recorded() {
		for _, e := range rec.Events {
			if e.Type == contract.EventApprovalGranted {
				granted++
				require.Equal(t, winner, rec.Run.PlanID, "frozen with the acceptance")
				require.Equal(t, "granted", rec.Notes["status"])
			}
		}
	}
	require.Equal(t, 1, granted)
}

func TestAPlanThatCannotBeReadLeavesTheApprovalOpen(t *testing.T) {
	t.Parallel()
	w := newRunFixture(t)
	var wrong *answer
	var between contract.RunView
	w.after(time.Minute, func() {
		wrong = w.update(contract.UpdateApprove, contract.Command{ID: "1", By: "ann", PlanID: 4711})
	})
	w.after(2*time.Minute, func() {
		between = w.view(t)
		w.update(contract.UpdateApprove, contract.Command{ID: "2", By: "ann"})
	})
	var after contract.RunView
	w.onThink = func(contract.ThinkInput) { after = w.view(t) }
	require.Equal(t, contract.StatusDone, w.orchestrate(t, func(s *contract.Settings) { s.ApprovePlan = true }).Status)
	require.ErrorContains(t, wrong.err, "there is no plan 4711")
	require.Equal(t, contract.StatusWaitingForApproval, between.Status)
	require.Equal(t, "run-7/plan", between.ApprovalID)
	require.Empty(t, after.ApprovalID, "an answered approval is open no more")
	require.EqualValues(t, madePlan, w.opened["step-001"].PlanID)
}

func TestAPlanCannotBeEditedWithTheApprovalOfARelease(t *testing.T) {
	t.Parallel()
	w := newRunFixture(t)
	w.edited[11] = onePlan("late")
	var wrong *answer
	w.after(time.Minute, func() {
		wrong = w.update(contract.UpdateApprove, contract.Command{ID: "1", By: "ann", PlanID: 11})
		w.update(contract.UpdateApprove, contract.Command{ID: "2", By: "ann"})
	})
	require.Equal(t, contract.StatusDone, w.orchestrate(t, func(s *contract.Settings) { s.ApproveRelease = true }).Status)
	require.ErrorContains(t, wrong.err, "can no longer be edited")
}

func TestASwitchToAProviderThatTheRunDoesNotHaveIsRefusedHoweverItComes(t *testing.T) {
	t.Parallel()
	w := newRunFixture(t)
	unknown := contract.Command{ID: "1", By: "ann", Model: &contract.ModelChoice{Provider: "nobody", Model: "x"}}
	known := contract.Command{ID: "2", By: "ann", Model: &contract.ModelChoice{Provider: "spare", Model: "y"}}
	w.env.OnActivity(contract.ActivityPlan, anything, anything).After(time.Minute).Return(contract.PlanResult{ID: madePlan, Plan: w.plan}, nil)
	var update, fine *answer
	w.after(time.Second, func() {
		w.env.SignalWorkflow(contract.UpdateSwitchModel, unknown)
		update = w.update(contract.UpdateSwitchModel, unknown)
		fine = w.update(contract.UpdateSwitchModel, known)
	})
	var used []contract.ModelChoice
	w.onThink = func(in contract.ThinkInput) { used = append(used, in.Model) }
	require.Equal(t, contract.StatusDone, w.orchestrate(t, func(s *contract.Settings) { s.Providers = []string{"scripted", "spare"} }).Status)
	require.ErrorContains(t, update.err, `no model provider "nobody"`)
	require.NoError(t, fine.err)
	require.Equal(t, *known.Model, used[0])
	refused := 0
	for _, rec := range w.recorded() {
		for _, e := range rec.Events {
			if payload, ok := e.Payload.(map[string]any); ok && payload["refused"] == contract.UpdateSwitchModel {
				refused++
				require.Equal(t, contract.EventRunUpdated, e.Type)
				require.Equal(t, `run 7 has no model provider "nobody"; available: scripted, spare`, payload["reason"])
			}
		}
	}
	require.Equal(t, 1, refused, "the signal left an event; the update was answered")
}

func TestTheTranscriptQueryNamesWhereEachConversationIsStored(t *testing.T) {
	t.Parallel()
	w := newRunFixture(t)
	w.plan = onePlan("s1", "s2")
	w.plan.Steps[1].Dependencies = []string{"s1"}
	var keys []contract.TranscriptKey
	w.env.OnActivity(contract.ActivityRelease, anything, anything).After(time.Minute).Return(contract.ReleaseResult{Branch: "b"}, nil)
	w.after(10*time.Second, func() {
		value, err := w.env.QueryWorkflow(contract.QueryTranscript)
		require.NoError(t, err)
		require.NoError(t, value.Get(&keys))
	})
	require.Equal(t, contract.StatusDone, w.orchestrate(t).Status)
	require.Len(t, keys, 3)
	require.Equal(t, contract.PhasePlanner, keys[0].Phase)
	begun := map[string]int64{}
	for i, rec := range w.recorded() {
		if b := rec.Begin; b != nil {
			begun[fmt.Sprint(b.Phase, b.Step)] = int64(i + 1)
		}
	}
	for _, k := range keys {
		require.Equal(t, begun[fmt.Sprint(k.Phase, k.Step)], k.ExecutionID)
	}
	require.Equal(t, []int{1, 2, 2}, []int{keys[0].Turns, keys[1].Turns, keys[2].Turns})
	require.Equal(t, "run-7", keys[2].Workflow)
}

// TestACommandThatComesBeforeTheFirstTaskIsApplied sends commands to a run that has not
// begun.
func TestACommandThatComesBeforeTheFirstTaskIsApplied(t *testing.T) {
	t.Parallel()
	for _, first := range []string{contract.UpdatePause, contract.UpdateSwitchModel, contract.UpdateHeal, contract.UpdateApprove, contract.UpdateResume} {
		t.Run(first, func(t *testing.T) {
			t.Parallel()
			w := newRunFixture(t)
			var stop *answer
			w.after(0, func() {
				w.update(first, contract.Command{ID: "1", By: "ann"})
				stop = w.update(contract.UpdateStop, contract.Command{ID: "2", By: "ann"})
			})
			result := w.orchestrate(t)
			require.NoError(t, stop.err)
			require.Equal(t, contract.StatusCancelled, result.Status)
			require.Contains(t, result.Failure.Message, "stopped by ann")
		})
	}
}

func TestQuickWorkThatTakesTooLongIsDoneAsOrdinaryWork(t *testing.T) {
	t.Parallel()
	for name, slow := range map[string]*fault.Error{
		"it took too long":    fault.New(contract.ClassInfra, contract.CodeTimeout, "deadline exceeded"),
		"its worker stops":    fault.New(contract.ClassInfra, contract.CodeWorkerLost, "stopped"),
		"the database is out": fault.New(contract.ClassInfra, contract.CodeDatabaseDown, "no connection"),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newRunFixture(t)
			w.slow = slow
			require.Equal(t, contract.StatusDone, w.orchestrate(t).Status)
			for _, work := range []string{contract.ActivityOpenStep, contract.ActivityTool} {
				require.Contains(t, w.hops, work+" quick=true")
				require.Contains(t, w.hops, work+" quick=false")
			}
		})
	}
	t.Run("what cannot be mended by trying again is not", func(t *testing.T) {
		t.Parallel()
		w := newRunFixture(t)
		w.slow = fault.New(contract.ClassConfig, contract.CodeRepository, "it is gone")
		require.Equal(t, contract.StatusFailed, w.orchestrate(t).Status)
		require.NotContains(t, w.hops, contract.ActivityOpenStep+" quick=false")
	})
}

func TestAMessageToTheAgentsIsAnEventAndABadOneIsRefused(t *testing.T) {
	t.Parallel()
	w := newRunFixture(t)
	w.env.OnActivity(contract.ActivityPlan, anything, anything).After(time.Minute).Return(contract.PlanResult{ID: madePlan, Plan: w.plan}, nil)
	var early, empty, long *answer
	w.after(time.Second, func() {
		early = w.update(contract.UpdateTell, contract.Command{ID: "1", By: "ann", Text: "use tabs", Step: "not planned yet"})
		empty = w.update(contract.UpdateTell, contract.Command{ID: "2", By: "ann", Text: " \n"})
		long = w.update(contract.UpdateTell, contract.Command{ID: "3", By: "ann", Text: strings.Repeat("x", 5000)})
		w.env.SignalWorkflow(contract.UpdateTell, contract.Command{ID: "4", By: "bot", Text: "and a test"})
		w.env.SignalWorkflow(contract.UpdateTell, contract.Command{ID: "4", By: "bot", Text: "and a test"})
	})
	var known, unknown *answer
	w.onThink = func(in contract.ThinkInput) {
		if known == nil {
			known = w.update(contract.UpdateTell, contract.Command{ID: "5", By: "ann", Text: "hi", Step: in.Execution.Step})
			unknown = w.update(contract.UpdateTell, contract.Command{ID: "6", By: "ann", Text: "hi", Step: "step-999"})
		}
	}
	require.Equal(t, contract.StatusDone, w.orchestrate(t).Status)
	require.NoError(t, early.err)
	require.Equal(t, "the agents of not planned yet get it with their next turn", early.ack.Message)
	require.ErrorContains(t, empty.err, "tell needs a text")
	require.ErrorContains(t, long.err, "5000 bytes long, more than the 4096 allowed")
	require.NoError(t, known.err)
	require.ErrorContains(t, unknown.err, `run 7 has no step "step-999"; its steps: `)
	var texts []any
	for _, rec := range w.recorded() {
		for _, e := range rec.Events {
			if payload, ok := e.Payload.(map[string]any); ok && e.Type == contract.EventMessageAdded {
				texts = append(texts, payload["text"])
			}
		}
	}
	require.ElementsMatch(t, []any{"use tabs", "and a test", "hi"}, texts, "each once")
}
