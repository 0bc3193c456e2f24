package workflows

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/fault"
)

// readsFor makes the planner read for some turns before it has a plan.
func readsFor(turns int) func(contract.PlanInput) contract.PlanResult {
	return func(in contract.PlanInput) contract.PlanResult {
		next := in.State
		next.Turn++
		return contract.PlanResult{More: next.Turn <= turns, State: next, Usage: contract.Usage{Calls: 1, PromptTokens: 10}}
	}
}

// withTools gives a run's planner tools.
func withTools(s *contract.Settings) { s.Planner = &contract.PlannerSettings{Turns: 12} }

func TestAPlannerIsAskedUntilItHasAPlan(t *testing.T) {
	t.Parallel()
	w := newRunFixture(t)
	w.onPlan = readsFor(2)
	require.Equal(t, contract.StatusDone, w.orchestrate(t, withTools).Status)
	require.Len(t, w.planned, 3)
	for i, in := range w.planned {
		require.Equal(t, i, in.State.Turn)
		require.Equal(t, 12, in.Planner.Turns)
		require.Equal(t, w.planned[0].Execution, in.Execution)
	}
	require.Equal(t, int64(30), plannerUsage(t, w).PromptTokens, "of all turns")
}

// plannerUsage returns the usage of planning that the run shows.
func plannerUsage(t *testing.T, w *runFixture) contract.Usage {
	t.Helper()
	for _, rec := range w.records {
		if rec.End == nil || len(rec.End.Output) == 0 {
			continue
		}
		var out struct {
			Usage contract.Usage `json:"usage"`
		}
		require.NoError(t, json.Unmarshal(rec.End.Output, &out))
		return out.Usage
	}
	require.Fail(t, "the planner has not completed")
	return contract.Usage{}
}

func TestBetweenTwoTurnsAPlannerIsPausedSwitchedAndStopped(t *testing.T) {
	t.Parallel()
	t.Run("paused", func(t *testing.T) {
		t.Parallel()
		w := newRunFixture(t)
		reads := readsFor(2)
		w.onPlan = func(in contract.PlanInput) contract.PlanResult {
			if in.State.Turn == 0 {
				w.env.SignalWorkflow(contract.UpdatePause, contract.Command{ID: "p", By: "ann"})
			}
			return reads(in)
		}
		turns := 0
		w.after(time.Hour, func() {
			w.mu.Lock()
			turns = len(w.planned)
			w.mu.Unlock()
			w.update(contract.UpdateResume, contract.Command{ID: "r", By: "ann"})
		})
		require.Equal(t, contract.StatusDone, w.orchestrate(t, withTools).Status)
		require.Equal(t, 1, turns, "a paused run calls no model")
		require.Len(t, w.planned, 3)
	})
	t.Run("switched", func(t *testing.T) {
		t.Parallel()
		w := newRunFixture(t)
		reads := readsFor(1)
		w.onPlan = func(in contract.PlanInput) contract.PlanResult {
			if in.State.Turn == 0 {
				w.env.SignalWorkflow(contract.UpdatePause, contract.Command{ID: "p", By: "ann"})
			}
			return reads(in)
		}
		better := contract.ModelChoice{Provider: "scripted", Model: "better"}
		w.after(time.Minute, func() {
			w.update(contract.UpdateSwitchModel, contract.Command{ID: "s", By: "ann", Agent: contract.AgentPlanner, Model: &better})
			w.update(contract.UpdateResume, contract.Command{ID: "r", By: "ann"})
		})
		require.Equal(t, contract.StatusDone, w.orchestrate(t, withTools).Status)
		require.NotEqual(t, better, w.planned[0].Model)
		require.Equal(t, better, w.planned[1].Model)
	})
	t.Run("stopped", func(t *testing.T) {
		t.Parallel()
		w := newRunFixture(t)
		w.onPlan = func(in contract.PlanInput) contract.PlanResult {
			w.env.SignalWorkflow(contract.UpdateStop, contract.Command{ID: "s", By: "ann"})
			return readsFor(99)(in)
		}
		require.Equal(t, contract.StatusCancelled, w.orchestrate(t, withTools).Status)
		require.Len(t, w.planned, 1)
	})
}

func TestAPlannerThatFailsInALaterTurnIsHealedFromItsBeginning(t *testing.T) {
	t.Parallel()
	w := newRunFixture(t)
	w.onPlan = readsFor(1)
	w.failTimes(contract.ActivityPlan, 1, fault.New(contract.ClassLLM, contract.CodeInvalidOutput, "no plan"))
	require.Equal(t, contract.StatusDone, w.orchestrate(t, withTools, func(s *contract.Settings) { s.MaxRetries = 2 }).Status)
	require.Len(t, w.planned, 4, "two turns of each attempt")
	require.Zero(t, w.planned[2].State.Turn)
	require.NotEmpty(t, w.planned[2].Lessons.Heals)
	require.NotEqual(t, w.planned[0].Execution.ID, w.planned[2].Execution.ID)
}

func TestAPlannerThatDeliberatesGoesOnInItsOwnConversation(t *testing.T) {
	t.Parallel()
	p := newPlannerFixture(t)
	p.plan.ComplexityScore = 0.9
	p.onPlan = func(in contract.PlanInput) contract.PlanResult {
		if in.Consensus == nil {
			return readsFor(1)(in)
		}
		return readsFor(3)(in)
	}
	require.Equal(t, contract.StatusDone, p.orchestrate(t, ifComplex, withTools).Status)
	require.Len(t, p.planned, 4)
	require.Nil(t, p.planned[1].Consensus)
	require.NotNil(t, p.planned[2].Consensus)
	require.Equal(t, 2, p.planned[2].State.Turn, "the turns of the first plan count")
}

// anInput is a planner's question.
var anInput = contract.PlannerQuestion{Question: "Which greeting?", Options: []string{"Hello", "Howdy"}, Default: "Hello", Why: "Both are used."}

// asks makes the planner ask a person in its second turn, and plan in its third.
func asks(in contract.PlanInput) contract.PlanResult {
	result := readsFor(2)(in)
	if result.State.Turn == 2 {
		result.Ask = &anInput
	}
	return result
}

// withQuestion lets a run's planner ask.
func withQuestion(s *contract.Settings) {
	s.Planner = &contract.PlannerSettings{Turns: 12, QuestionWait: time.Hour}
}

func TestAPlannersQuestionIsAnsweredOnceByAPerson(t *testing.T) {
	t.Parallel()
	w := newRunFixture(t)
	w.onPlan = asks
	var seen contract.RunView
	var approved, wrong, right, second *answer
	w.after(time.Minute, func() {
		seen = w.view(t)
		approved = w.update(contract.UpdateApprove, contract.Command{ID: "1", By: "ann"})
		wrong = w.update(contract.UpdateAnswer, contract.Command{ID: "2", By: "ann", Answer: "3"})
		right = w.update(contract.UpdateAnswer, contract.Command{ID: "3", By: "ann", Answer: "2", Reason: "we are in Texas"})
		second = w.update(contract.UpdateAnswer, contract.Command{ID: "4", By: "bob", Answer: "1"})
	})
	require.Equal(t, contract.StatusDone, w.orchestrate(t, withQuestion).Status)
	require.Equal(t, contract.StatusWaitingForInput, seen.Status)
	require.Equal(t, contract.AskInput, seen.WaitingFor)
	require.Equal(t, contract.InputID(seen.RunID), seen.ApprovalID)
	require.ErrorContains(t, approved.err, "rgpt run answer")
	require.ErrorContains(t, wrong.err, "not one of the options")
	require.NoError(t, right.err)
	require.Error(t, second.err)
	require.Len(t, w.planned, 3)
	require.Nil(t, w.planned[1].Input)
	require.Equal(t, &contract.PlannerInput{Question: anInput.Question, Option: "Howdy", By: "ann", Words: "we are in Texas"}, w.planned[2].Input)
	require.Contains(t, w.statuses(), contract.StatusWaitingForInput)
	require.Equal(t, []string{"Hello", "Howdy"}, w.payloads(contract.EventInputRequested)[0]["options"])
	require.Len(t, w.payloads(contract.EventInputAnswered), 1)
}

func TestWithoutAnAnswerTheDefaultOfAPlannersQuestionApplies(t *testing.T) {
	t.Parallel()
	w := newRunFixture(t)
	w.onPlan = asks
	require.Equal(t, contract.StatusDone, w.orchestrate(t, withQuestion).Status)
	require.Equal(t, &contract.PlannerInput{Question: anInput.Question, Option: "Hello"}, w.planned[2].Input)
	require.Equal(t, true, w.payloads(contract.EventInputAnswered)[0]["default"])
}

func TestAPlannersQuestionCanBeStoppedPausedAndOutlivesAFailedAttempt(t *testing.T) {
	t.Parallel()
	t.Run("stopped", func(t *testing.T) {
		t.Parallel()
		w := newRunFixture(t)
		w.onPlan = asks
		w.after(time.Minute, func() { w.update(contract.UpdateStop, contract.Command{ID: "1", By: "ann"}) })
		require.Equal(t, contract.StatusCancelled, w.orchestrate(t, withQuestion).Status)
		require.Len(t, w.planned, 2)
	})
	t.Run("paused", func(t *testing.T) {
		t.Parallel()
		w := newRunFixture(t)
		w.onPlan = asks
		var paused, resumed contract.RunView
		w.after(time.Minute, func() { w.update(contract.UpdatePause, contract.Command{ID: "1", By: "ann"}) })
		w.after(2*time.Minute, func() {
			paused = w.view(t)
			w.update(contract.UpdateResume, contract.Command{ID: "2", By: "ann"})
		})
		w.after(3*time.Minute, func() {
			resumed = w.view(t)
			w.update(contract.UpdateAnswer, contract.Command{ID: "3", By: "ann", Answer: "howdy"})
		})
		require.Equal(t, contract.StatusDone, w.orchestrate(t, withQuestion).Status)
		require.Equal(t, contract.StatusPaused, paused.Status)
		require.Equal(t, contract.StatusWaitingForInput, resumed.Status)
		require.Equal(t, "Howdy", w.planned[2].Input.Option)
	})
	t.Run("healed", func(t *testing.T) {
		t.Parallel()
		w := newRunFixture(t)
		w.onPlan = func(in contract.PlanInput) contract.PlanResult {
			if in.Input != nil {
				return readsFor(2)(in)
			}
			return asks(in)
		}
		w.failTimes(contract.ActivityPlan, 1, fault.New(contract.ClassLLM, contract.CodeInvalidOutput, "no plan"))
		w.after(time.Minute, func() { w.update(contract.UpdateAnswer, contract.Command{ID: "3", By: "ann", Answer: "2"}) })
		require.Equal(t, contract.StatusDone, w.orchestrate(t, withQuestion, func(s *contract.Settings) { s.MaxRetries = 2 }).Status)
		require.Zero(t, w.planned[3].State.Turn)
		require.Equal(t, "Howdy", w.planned[3].Input.Option, "the next attempt knows the answer")
		require.Len(t, w.payloads(contract.EventInputRequested), 1)
	})
}
