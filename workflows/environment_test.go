package workflows

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/mock"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/temporal"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/fault"
)

// fakeEnvironment fakes the environment and the baseline of a run.
type fakeEnvironment struct {
	envs      []contract.EnvironmentResult // one after the other; the last one repeats
	baselines []contract.BaselineResult    // same
	cold      bool                         // nothing is on this host
	local     []bool                       // whether each activity is a local one
	setups    int
	asked     []contract.BaselineInput
}

func withFakeEnvironment(w *runFixture, s *fakeEnvironment) {
	next := func(n int, of int) int { return min(n, of-1) }
	w.env.RegisterActivityWithOptions(func(_ context.Context, in contract.EnvironmentInput) (contract.EnvironmentResult, error) {
		w.mu.Lock()
		s.local = append(s.local, in.LocalOnly)
		if s.cold && in.LocalOnly {
			w.mu.Unlock()
			return contract.EnvironmentResult{Cold: true}, nil
		}
		s.setups++
		out := s.envs[next(s.setups-1, len(s.envs))]
		if in.Baseline && out.Failure == nil && w.fail[contract.ActivityEnvironment] == nil {
			s.asked = append(s.asked, contract.BaselineInput{RunID: in.RunID, Workspace: in.Workspace})
			out.Baseline = &s.baselines[next(len(s.asked)-1, len(s.baselines))]
		}
		w.mu.Unlock()
		return out, w.failing(contract.ActivityEnvironment)
	}, activity.RegisterOptions{Name: contract.ActivityEnvironment})
	w.env.RegisterActivityWithOptions(func(_ context.Context, in contract.BaselineInput) (contract.BaselineResult, error) {
		w.mu.Lock()
		defer w.mu.Unlock()
		s.asked = append(s.asked, in)
		return s.baselines[next(len(s.asked)-1, len(s.baselines))], nil
	}, activity.RegisterOptions{Name: contract.ActivityBaseline})
}

// setupAgent fakes the environment agent.
type setupAgent struct {
	proposes int64 // 0: nothing
	judged   []contract.JudgeSetupInput
}

func withSetupAgent(w *runFixture, s *setupAgent) {
	w.env.RegisterActivityWithOptions(func(context.Context, contract.ProposalInput) (contract.ProposalResult, error) {
		return contract.ProposalResult{Setup: s.proposes}, nil
	}, activity.RegisterOptions{Name: contract.ActivityProposal})
	w.env.RegisterActivityWithOptions(func(_ context.Context, in contract.JudgeSetupInput) error {
		w.mu.Lock()
		defer w.mu.Unlock()
		s.judged = append(s.judged, in)
		return nil
	}, activity.RegisterOptions{Name: contract.ActivityJudgeSetup})
}

func prepared(more ...func(*contract.EnvironmentSettings)) func(*contract.Settings) {
	return func(s *contract.Settings) {
		s.InterventionWait = time.Hour
		s.Environment = &contract.EnvironmentSettings{Timeout: time.Minute, Baseline: true}
		for _, m := range more {
			m(s.Environment)
		}
	}
}

var checkOfBase = [][]contract.Check{{{ID: "test-go-1", Category: contract.CategoryTest, Name: "go test"}}}

func TestEnvironmentAndBaselineAreThereBeforeThePlannerIsAsked(t *testing.T) {
	t.Parallel()
	w := newRunFixture(t)
	s := &fakeEnvironment{
		envs:      []contract.EnvironmentResult{{Digest: "e1", Bytes: 5}},
		baselines: []contract.BaselineResult{{Key: "k1", Stages: checkOfBase}, {Key: "k1", Summary: contract.TestSummary{Passed: 3}}},
	}
	withFakeEnvironment(w, s)
	var baseline []contract.VerifyInput
	w.onVerify = func(in contract.VerifyInput) contract.CheckResult {
		if in.Baseline != "" {
			require.Empty(t, w.planned, "the planner was asked before the baseline was there")
			baseline = append(baseline, in)
		}
		return contract.CheckResult{OK: true}
	}
	require.Equal(t, contract.StatusDone, w.orchestrate(t, prepared()).Status)
	require.Equal(t, []contract.EventType{
		"environment.started", "environment.ready", "baseline.started", "baseline.ready", "planner.started",
	}, w.events()[:5])
	require.Len(t, baseline, 1)
	require.Equal(t, "k1", baseline[0].Baseline)
	require.Equal(t, "7ree", baseline[0].Workspace.Tree)
	require.Zero(t, baseline[0].Execution.ID)
	require.False(t, s.asked[0].Done)
	require.True(t, s.asked[1].Done)
}

func TestAKeptBaselineRunsNoCheck(t *testing.T) {
	t.Parallel()
	w := newRunFixture(t)
	s := &fakeEnvironment{envs: []contract.EnvironmentResult{{Digest: "e1", Kept: true}}, baselines: []contract.BaselineResult{{Key: "k1"}}}
	withFakeEnvironment(w, s)
	require.Equal(t, contract.StatusDone, w.orchestrate(t, prepared()).Status)
	require.Len(t, s.asked, 1)
	require.NotContains(t, w.events(), contract.EventBaselineStarted)
}

func TestOnlyAnEnvironmentThatIsNotOnTheHostNeedsAnOrdinaryActivity(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		cold  bool
		logic int
		local []bool
	}{
		"it is on the host":                 {false, contract.LogicLocalSetup, []bool{true}},
		"it is not":                         {true, contract.LogicLocalSetup, []bool{true, false}},
		"the run was started by older code": {false, contract.LogicSteps, []bool{false}},
	} {
		w := newRunFixture(t)
		s := &fakeEnvironment{cold: c.cold, envs: []contract.EnvironmentResult{{Digest: "e1"}}, baselines: []contract.BaselineResult{{Key: "k1"}}}
		withFakeEnvironment(w, s)
		require.Equal(t, contract.StatusDone, w.finishes(t, ofLogic(c.logic, prepared())).Status, name)
		require.Equal(t, c.local, s.local, name)
		require.Equal(t, 1, s.setups, name)
	}
}

func TestAPreparedRunShowsWhatIsThereWhenThePlannerBegins(t *testing.T) {
	t.Parallel()
	w := newRunFixture(t)
	s := &fakeEnvironment{envs: []contract.EnvironmentResult{{Digest: "e1", Kept: true}}, baselines: []contract.BaselineResult{{Key: "k1"}}}
	withFakeEnvironment(w, s)
	shown := map[string]int{}
	w.env.OnUpsertTypedSearchAttributes(mock.Anything).Run(func(args mock.Arguments) {
		of := args.Get(0).(temporal.SearchAttributes)
		for key, value := range of.GetUntypedValues() {
			shown[fmt.Sprint(key.GetName(), "=", value)]++
		}
	}).Return(nil)
	require.Equal(t, contract.StatusDone, w.orchestrate(t, prepared()).Status)
	var begin contract.Record
	for _, r := range w.records {
		if r.Begin != nil {
			begin = r
			break
		}
	}
	require.Equal(t, 2, begin.EndEvents, "they are not written again by a replay from the planner")
	require.Equal(t, contract.EventEnvironmentReady, begin.Events[0].Type)
	require.Equal(t, contract.EventBaselineReady, begin.Events[1].Type)
	require.Equal(t, contract.PhasePlanner.Started(), begin.Events[2].Type)
	require.NotContains(t, shown, contract.AttributeStatus+"=pending", "it was started with that")
	for value, n := range shown {
		require.Equal(t, 1, n, "%s is written when it changes", value)
	}
	require.Contains(t, shown, contract.AttributeStatus+"=done")
}

func TestABrokenBuildOfTheBaseCommitEndsNeitherItsChecksNorTheRun(t *testing.T) {
	t.Parallel()
	w := newRunFixture(t)
	stages := [][]contract.Check{{{ID: "build-go", Category: contract.CategoryBuild}}, checkOfBase[0]}
	withFakeEnvironment(w, &fakeEnvironment{
		envs:      []contract.EnvironmentResult{{Digest: "e1"}},
		baselines: []contract.BaselineResult{{Key: "k1", Stages: stages}, {Key: "k1", Red: []string{"go build"}}},
	})
	var ran []string
	w.onVerify = func(in contract.VerifyInput) contract.CheckResult {
		if in.Baseline != "" {
			ran = append(ran, in.Check.ID)
			return contract.CheckResult{}
		}
		return contract.CheckResult{OK: true}
	}
	w.orchestrate(t, prepared())
	require.Equal(t, []string{"build-go", checkOfBase[0][0].ID}, ran)
	require.Len(t, w.planned, 1)
}

func TestASetupThatFailsIsAskedOfAPersonBeforeAnythingIsPaid(t *testing.T) {
	t.Parallel()
	failed := contract.EnvironmentResult{
		Failure: &fault.New(contract.ClassConfig, contract.CodeMissing, "`npm ci` failed (exit code 1)").Failure, Advice: "say how",
	}
	for answer, ends := range map[string]struct {
		status contract.Status
		setups int
		paid   int
	}{
		contract.UpdateApprove: {contract.StatusDone, 2, 1},
		contract.UpdateReject:  {contract.StatusFailed, 1, 0},
		"":                     {contract.StatusFailed, 1, 0},
	} {
		t.Run("answer "+answer, func(t *testing.T) {
			t.Parallel()
			w := newRunFixture(t)
			s := &fakeEnvironment{envs: []contract.EnvironmentResult{failed, {Digest: "e1"}}, baselines: []contract.BaselineResult{{Key: "k1"}}}
			withFakeEnvironment(w, s)
			if answer != "" {
				w.after(time.Minute, func() {
					require.Empty(t, w.planned)
					w.update(answer, contract.Command{ID: "1", By: "ann", Reason: "so it is"})
				})
			}
			result := w.orchestrate(t, prepared())
			require.Equal(t, ends.status, result.Status)
			require.Equal(t, ends.setups, s.setups)
			require.Len(t, w.planned, ends.paid)
			require.Contains(t, w.events(), contract.EventEnvironmentError)
			require.Contains(t, w.statuses(), contract.StatusWaitingForApproval)
			if ends.status == contract.StatusFailed {
				require.Equal(t, contract.ClassConfig, result.Failure.Class)
				require.Contains(t, result.Failure.Message, "`npm ci` failed")
			}
		})
	}
}

func TestAQuestionAboutTheEnvironmentIsRemindedOfAndExpires(t *testing.T) {
	t.Parallel()
	w := newRunFixture(t)
	withFakeEnvironment(w, &fakeEnvironment{envs: []contract.EnvironmentResult{{Failure: &contract.Failure{Class: contract.ClassConfig, Message: "no"}}}, baselines: []contract.BaselineResult{{}}})
	w.orchestrate(t, prepared())
	require.Contains(t, w.events(), contract.EventInterventionReminded)
	require.Contains(t, w.events(), contract.EventInterventionExpired)
}

func TestACheckThatCannotStartIsAQuestion(t *testing.T) {
	t.Parallel()
	w := newRunFixture(t)
	withFakeEnvironment(w, &fakeEnvironment{
		envs:      []contract.EnvironmentResult{{Digest: "e1"}},
		baselines: []contract.BaselineResult{{Key: "k1", Unavailable: []string{"Node tests (`npm test`): jest: not found"}, Advice: "install it"}},
	})
	result := w.orchestrate(t, prepared())
	require.Equal(t, contract.StatusFailed, result.Status)
	require.Equal(t, contract.CodeMissing, result.Failure.Code)
	require.Contains(t, result.Failure.Message, "jest: not found")
	require.Empty(t, w.planned)
}

func TestARedBaseCommitIsGoneOnWithUnlessAPersonIsToBeAsked(t *testing.T) {
	t.Parallel()
	red := &fakeEnvironment{envs: []contract.EnvironmentResult{{Digest: "e1"}}, baselines: []contract.BaselineResult{{Key: "k1", Red: []string{"go test"}}}}
	w := newRunFixture(t)
	withFakeEnvironment(w, red)
	require.Equal(t, contract.StatusDone, w.orchestrate(t, prepared()).Status)
	require.NotContains(t, w.statuses(), contract.StatusWaitingForApproval)

	asked := newRunFixture(t)
	withFakeEnvironment(asked, &fakeEnvironment{envs: red.envs, baselines: red.baselines})
	asked.after(time.Minute, func() { asked.update(contract.UpdateApprove, contract.Command{ID: "1", By: "ann"}) })
	require.Equal(t, contract.StatusDone, asked.orchestrate(t, prepared(func(s *contract.EnvironmentSettings) { s.AskIfRed = true })).Status)
	require.Contains(t, asked.statuses(), contract.StatusWaitingForApproval)
}

func TestAStopEndsARunThatIsBeingPrepared(t *testing.T) {
	t.Parallel()
	w := newRunFixture(t)
	withFakeEnvironment(w, &fakeEnvironment{envs: []contract.EnvironmentResult{{}}, baselines: []contract.BaselineResult{{}}})
	w.env.OnActivity(contract.ActivityEnvironment, anything, anything).After(time.Hour).Return(contract.EnvironmentResult{}, nil).Maybe()
	w.after(time.Second, func() { w.update(contract.UpdateStop, contract.Command{ID: "1", By: "ann"}) })
	result := w.orchestrate(t, prepared())
	require.Equal(t, contract.StatusCancelled, result.Status)
	require.NotContains(t, w.events(), contract.EventEnvironmentError)
}

func TestAPauseHoldsARunThatIsBeingPrepared(t *testing.T) {
	t.Parallel()
	w := newRunFixture(t)
	withFakeEnvironment(w, &fakeEnvironment{envs: []contract.EnvironmentResult{{}}, baselines: []contract.BaselineResult{{Key: "k", Stages: checkOfBase}, {Key: "k"}}})
	w.env.OnActivity(contract.ActivityEnvironment, anything, anything).After(time.Minute).Return(contract.EnvironmentResult{}, nil).Maybe()
	w.after(time.Second, func() { w.update(contract.UpdatePause, contract.Command{ID: "1", By: "ann"}) })
	w.after(time.Hour, func() {
		require.Empty(t, w.verified)
		w.update(contract.UpdateResume, contract.Command{ID: "2", By: "ann"})
	})
	w.onVerify = func(contract.VerifyInput) contract.CheckResult { return contract.CheckResult{OK: true} }
	require.Equal(t, contract.StatusDone, w.orchestrate(t, prepared(), func(s *contract.Settings) { s.RunBudget.Time = 0 }).Status)
}

func TestAFailedPreparationAsksAPersonAndTheRunCanContinue(t *testing.T) {
	t.Parallel()
	w := newRunFixture(t)
	withFakeEnvironment(w, &fakeEnvironment{envs: []contract.EnvironmentResult{{}}, baselines: []contract.BaselineResult{{}}})
	w.fail[contract.ActivityEnvironment] = fault.New(contract.ClassConfig, contract.CodeIsolation, "this machine cannot isolate commands")
	w.left[contract.ActivityEnvironment] = 1
	w.after(time.Minute, func() {
		require.Empty(t, w.planned)
		w.update(contract.UpdateApprove, contract.Command{ID: "1", By: "ann"})
	})
	require.Equal(t, contract.StatusDone, w.orchestrate(t, prepared()).Status)
	require.Contains(t, w.events(), contract.EventEnvironmentError)
}

func TestTheEnvironmentAgentIsAskedBeforeAPersonAndItsSetupCountsOnceTheBaselineRan(t *testing.T) {
	t.Parallel()
	failed := contract.EnvironmentResult{Failure: &contract.Failure{Class: contract.ClassConfig, Message: "`make deps` failed", Cause: "no such file"}}
	missing := contract.BaselineResult{Key: "k0", Unavailable: []string{"npm test: jest: not found"}}
	for name, c := range map[string]struct {
		site    fakeEnvironment
		agent   setupAgent
		status  contract.Status
		judged  []bool
		planned int
	}{
		"a set-up that works": {
			fakeEnvironment{envs: []contract.EnvironmentResult{failed, {Digest: "e2"}}, baselines: []contract.BaselineResult{{Key: "k"}}},
			setupAgent{proposes: 5}, contract.StatusDone, []bool{true}, 1,
		},
		"checks that can start then": {
			fakeEnvironment{envs: []contract.EnvironmentResult{{Digest: "e1"}}, baselines: []contract.BaselineResult{missing, {Key: "k"}}},
			setupAgent{proposes: 5}, contract.StatusDone, []bool{true}, 1,
		},
		"one that does not work, twice": {
			fakeEnvironment{envs: []contract.EnvironmentResult{failed}, baselines: []contract.BaselineResult{{Key: "k"}}},
			setupAgent{proposes: 5}, contract.StatusFailed, []bool{false, false}, 0,
		},
		"no proposal": {
			fakeEnvironment{envs: []contract.EnvironmentResult{failed}, baselines: []contract.BaselineResult{{Key: "k"}}},
			setupAgent{}, contract.StatusFailed, nil, 0,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newRunFixture(t)
			withFakeEnvironment(w, &c.site)
			withSetupAgent(w, &c.agent)
			result := w.orchestrate(t, prepared(func(s *contract.EnvironmentSettings) { s.AgentTurns = 3 }))
			require.Equal(t, c.status, result.Status)
			var proven []bool
			for _, j := range c.agent.judged {
				proven = append(proven, j.Proven)
			}
			require.Equal(t, c.judged, proven)
			require.Len(t, w.planned, c.planned)
			require.Contains(t, w.opened, contract.StepEnvironment)
			require.NotEmpty(t, w.opened[contract.StepEnvironment].Setup.Problem)
			require.Equal(t, contract.AgentEnvironment, w.opened[contract.StepEnvironment].Record.Begin.Agent)
		})
	}
}

func TestThePersonIsShownWhyAnEnvironmentAgentIsBlocked(t *testing.T) {
	t.Parallel()
	w := newRunFixture(t)
	withFakeEnvironment(w, &fakeEnvironment{
		envs:      []contract.EnvironmentResult{{Failure: &contract.Failure{Class: contract.ClassConfig, Message: "`make deps` failed"}}},
		baselines: []contract.BaselineResult{{}},
	})
	withSetupAgent(w, &setupAgent{})
	w.answers[contract.StepEnvironment] = []contract.ThinkResult{{Finish: true, Blocked: "libfoo must be installed by root", Calls: []contract.ToolCallRef{{Tool: "finish"}}}}
	result := w.orchestrate(t, prepared(func(s *contract.EnvironmentSettings) { s.AgentTurns = 3 }))
	require.Equal(t, contract.StatusFailed, result.Status)
	require.Contains(t, result.Failure.Message, "libfoo must be installed by root")
	require.Empty(t, w.planned)
}

func TestAStepThatIsBlockedAsksAPersonAndNoRepairAgent(t *testing.T) {
	t.Parallel()
	w := newRunFixture(t)
	w.answers["step-001"] = []contract.ThinkResult{{Finish: true, Blocked: "the API key is not there", Calls: []contract.ToolCallRef{{Tool: "finish"}}}}
	result := w.orchestrate(t, func(s *contract.Settings) { s.MaxRetries, s.InterventionWait = 3, time.Hour })
	require.Equal(t, contract.StatusFailed, result.Status)
	require.Equal(t, contract.CodeBlocked, result.Failure.Code)
	require.Contains(t, result.Failure.Message, "the API key is not there")
	require.NotContains(t, w.opened, contract.StepRepair)
}

func TestARunThatOnlyPreparesEndsBeforeItsFirstPhase(t *testing.T) {
	t.Parallel()
	w := newRunFixture(t)
	withFakeEnvironment(w, &fakeEnvironment{
		envs:      []contract.EnvironmentResult{{Digest: "e1"}},
		baselines: []contract.BaselineResult{{Key: "k1", Red: []string{"go test"}}},
	})
	result := w.orchestrate(t, prepared(func(s *contract.EnvironmentSettings) { s.AskIfRed = true }), func(s *contract.Settings) {
		s.PrepareOnly, s.Models = true, nil
	})
	require.Equal(t, contract.StatusDone, result.Status)
	require.Empty(t, w.planned)
	require.Equal(t, []contract.EventType{"environment.started", "environment.ready", "baseline.ready", "run.updated"}, w.events())
}

func TestARunThatOnlyPreparesFailsWithoutAskingAnybody(t *testing.T) {
	t.Parallel()
	for name, s := range map[string]*fakeEnvironment{
		"set-up": {envs: []contract.EnvironmentResult{{Failure: &contract.Failure{Class: contract.ClassConfig, Code: contract.CodeMissing, Message: "no npm", Cause: "sh: npm"}}}},
		"check":  {envs: []contract.EnvironmentResult{{Digest: "e1"}}, baselines: []contract.BaselineResult{{Unavailable: []string{"no npm"}}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newRunFixture(t)
			withFakeEnvironment(w, s)
			result := w.orchestrate(t, prepared(), func(s *contract.Settings) { s.PrepareOnly = true })
			require.Equal(t, contract.StatusFailed, result.Status)
			require.Contains(t, result.Failure.Message, "no npm")
			require.NotContains(t, w.statuses(), contract.StatusWaitingForApproval)
		})
	}
}

func TestAPauseHoldsTheEndOfARunThatOnlyPrepares(t *testing.T) {
	t.Parallel()
	w := newRunFixture(t)
	withFakeEnvironment(w, &fakeEnvironment{envs: []contract.EnvironmentResult{{}}, baselines: []contract.BaselineResult{{Key: "k"}}})
	w.env.OnActivity(contract.ActivityEnvironment, anything, anything).After(time.Minute).Return(contract.EnvironmentResult{}, nil).Maybe()
	w.after(time.Second, func() { w.update(contract.UpdatePause, contract.Command{ID: "1", By: "ann"}) })
	var at time.Time
	w.after(time.Hour, func() {
		at = w.env.Now()
		w.update(contract.UpdateResume, contract.Command{ID: "2", By: "ann"})
	})
	require.Equal(t, contract.StatusDone, w.orchestrate(t, prepared(), func(s *contract.Settings) {
		s.PrepareOnly, s.RunBudget.Time = true, 0
	}).Status)
	require.False(t, at.IsZero(), "it did not wait")
}
