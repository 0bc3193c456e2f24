package workflows

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/fault"
)

func TestARunPassesThroughTheLifecycle(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	result := w.orchestrate(t)
	require.Equal(t, contract.StatusDone, result.Status)
	require.Equal(t, "rgpt/run-7", result.Branch)
	require.Equal(t, []contract.Status{
		"planner_running", "planner_completed", "builder_running", "builder_completed",
		"tester_running", "tester_completed", "releaser_running", "done",
	}, w.statuses())
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
				w := newWorld(t)
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
	w := newWorld(t)
	w.red = true
	result := w.orchestrate(t)
	require.Equal(t, contract.ClassAssertion, result.Failure.Class)
	require.Equal(t, contract.CodeTestsFailed, result.Failure.Code)
}

func TestStepsStartFromTheChangesTheyDependOnAndNothingElse(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
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
	w := newWorld(t)
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
	w := newWorld(t)
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
			w := newWorld(t)
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
	w := newWorld(t)
	w.env.OnActivity(contract.ActivityPlan, anything, anything).After(2*time.Hour).Return(contract.PlanResult{}, nil).Maybe()
	result := w.orchestrate(t, func(s *contract.Settings) { s.RunBudget.Time = time.Hour; s.ModelTimeout = 24 * time.Hour })
	require.Equal(t, contract.StatusFailed, result.Status)
	require.Equal(t, contract.CodeRunTimeout, result.Failure.Code)
}

func TestAPausedRunStandsStillUntilItIsResumed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
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
	require.ErrorContains(t, again.err, "paused already")
}

func TestAPausedRunStartsNoFurtherStep(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
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
	w := newWorld(t)
	w.env.OnActivity(contract.ActivityPlan, anything, anything).After(time.Minute).Return(contract.PlanResult{Plan: w.plan}, nil)
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
		w := newWorld(t)
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
		w := newWorld(t)
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
		w := newWorld(t)
		result := w.orchestrate(t, approve)
		require.Equal(t, contract.CodeApprovalExpired, result.Failure.Code)
		require.Contains(t, w.events(), contract.EventApprovalExpired)
	})
}

func TestASwitchOfModelReachesStepsUnderWay(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var used []string
	w.onThink = func(in contract.ThinkInput) {
		used = append(used, in.Model.Model)
		if in.Turn == 1 {
			w.env.SignalWorkflow(contract.UpdateSwitchModel, contract.Command{ID: "m", By: "ann", Agent: contract.AgentBuilder, Model: &contract.ModelChoice{Provider: "p", Model: "better"}})
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
	w := newWorld(t)
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
	w := newWorld(t)
	result := w.orchestrate(t, func(s *contract.Settings) { s.PlanOnly = true })
	require.Equal(t, contract.StatusDone, result.Status)
	require.Empty(t, w.opened)
	require.Equal(t, []contract.Status{"planner_running", "planner_completed", "done"}, w.statuses())
}
