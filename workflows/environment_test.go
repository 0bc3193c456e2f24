package workflows

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/activity"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/fault"
)

// site answers for the environment and the baseline of a run.
type site struct {
	envs      []contract.EnvironmentResult // one after the other; the last one repeats
	baselines []contract.BaselineResult    // likewise
	setups    int
	asked     []contract.BaselineInput
}

func withSite(w *world, s *site) {
	next := func(n int, of int) int { return min(n, of-1) }
	w.env.RegisterActivityWithOptions(func(context.Context, contract.EnvironmentInput) (contract.EnvironmentResult, error) {
		w.mu.Lock()
		s.setups++
		out := s.envs[next(s.setups-1, len(s.envs))]
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
	w := newWorld(t)
	s := &site{
		envs:      []contract.EnvironmentResult{{Digest: "e1", Bytes: 5}},
		baselines: []contract.BaselineResult{{Key: "k1", Stages: checkOfBase}, {Key: "k1", Summary: contract.TestSummary{Passed: 3}}},
	}
	withSite(w, s)
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
	w := newWorld(t)
	s := &site{envs: []contract.EnvironmentResult{{Digest: "e1", Kept: true}}, baselines: []contract.BaselineResult{{Key: "k1"}}}
	withSite(w, s)
	require.Equal(t, contract.StatusDone, w.orchestrate(t, prepared()).Status)
	require.Len(t, s.asked, 1)
	require.NotContains(t, w.events(), contract.EventBaselineStarted)
}

func TestABrokenBuildOfTheBaseCommitEndsItsChecksAndNotTheRun(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	stages := [][]contract.Check{{{ID: "build-go", Category: contract.CategoryBuild}}, checkOfBase[0]}
	withSite(w, &site{
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
	require.Equal(t, []string{"build-go"}, ran)
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
			w := newWorld(t)
			s := &site{envs: []contract.EnvironmentResult{failed, {Digest: "e1"}}, baselines: []contract.BaselineResult{{Key: "k1"}}}
			withSite(w, s)
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

func TestAReminderAndAnExpiryAreToldOfAQuestionAboutTheEnvironment(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	withSite(w, &site{envs: []contract.EnvironmentResult{{Failure: &contract.Failure{Class: contract.ClassConfig, Message: "no"}}}, baselines: []contract.BaselineResult{{}}})
	w.orchestrate(t, prepared())
	require.Contains(t, w.events(), contract.EventInterventionReminded)
	require.Contains(t, w.events(), contract.EventInterventionExpired)
}

func TestACheckThatCannotStartIsAQuestion(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	withSite(w, &site{
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
	red := &site{envs: []contract.EnvironmentResult{{Digest: "e1"}}, baselines: []contract.BaselineResult{{Key: "k1", Red: []string{"go test"}}}}
	w := newWorld(t)
	withSite(w, red)
	require.Equal(t, contract.StatusDone, w.orchestrate(t, prepared()).Status)
	require.NotContains(t, w.statuses(), contract.StatusWaitingForApproval)

	asked := newWorld(t)
	withSite(asked, &site{envs: red.envs, baselines: red.baselines})
	asked.after(time.Minute, func() { asked.update(contract.UpdateApprove, contract.Command{ID: "1", By: "ann"}) })
	require.Equal(t, contract.StatusDone, asked.orchestrate(t, prepared(func(s *contract.EnvironmentSettings) { s.AskIfRed = true })).Status)
	require.Contains(t, asked.statuses(), contract.StatusWaitingForApproval)
}

func TestAStopEndsARunThatIsBeingPrepared(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	withSite(w, &site{envs: []contract.EnvironmentResult{{}}, baselines: []contract.BaselineResult{{}}})
	w.env.OnActivity(contract.ActivityEnvironment, anything, anything).After(time.Hour).Return(contract.EnvironmentResult{}, nil).Maybe()
	w.after(time.Second, func() { w.update(contract.UpdateStop, contract.Command{ID: "1", By: "ann"}) })
	result := w.orchestrate(t, prepared())
	require.Equal(t, contract.StatusCancelled, result.Status)
	require.NotContains(t, w.events(), contract.EventEnvironmentError)
}

func TestAPauseHoldsARunThatIsBeingPrepared(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	withSite(w, &site{envs: []contract.EnvironmentResult{{}}, baselines: []contract.BaselineResult{{Key: "k", Stages: checkOfBase}, {Key: "k"}}})
	w.env.OnActivity(contract.ActivityEnvironment, anything, anything).After(time.Minute).Return(contract.EnvironmentResult{}, nil).Maybe()
	w.after(time.Second, func() { w.update(contract.UpdatePause, contract.Command{ID: "1", By: "ann"}) })
	w.after(time.Hour, func() {
		require.Empty(t, w.verified)
		w.update(contract.UpdateResume, contract.Command{ID: "2", By: "ann"})
	})
	w.onVerify = func(contract.VerifyInput) contract.CheckResult { return contract.CheckResult{OK: true} }
	require.Equal(t, contract.StatusDone, w.orchestrate(t, prepared(), func(s *contract.Settings) { s.RunBudget.Time = 0 }).Status)
}

func TestWorkThatCannotBePreparedIsAQuestionThatARunCanGoOnFrom(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	withSite(w, &site{envs: []contract.EnvironmentResult{{}}, baselines: []contract.BaselineResult{{}}})
	w.fail[contract.ActivityEnvironment] = fault.New(contract.ClassConfig, contract.CodeIsolation, "this machine cannot isolate commands")
	w.left[contract.ActivityEnvironment] = 1
	w.after(time.Minute, func() {
		require.Empty(t, w.planned)
		w.update(contract.UpdateApprove, contract.Command{ID: "1", By: "ann"})
	})
	require.Equal(t, contract.StatusDone, w.orchestrate(t, prepared()).Status)
	require.Contains(t, w.events(), contract.EventEnvironmentError)
}

func TestARunThatOnlyPreparesEndsBeforeItsFirstPhase(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	withSite(w, &site{
		envs:      []contract.EnvironmentResult{{Digest: "e1"}},
		baselines: []contract.BaselineResult{{Key: "k1", Red: []string{"go test"}}},
	})
	result := w.orchestrate(t, prepared(func(s *contract.EnvironmentSettings) { s.AskIfRed = true }), func(s *contract.Settings) {
		s.PrepareOnly, s.Models = true, nil
	})
	require.Equal(t, contract.StatusDone, result.Status)
	require.Empty(t, w.planned)
	require.Equal(t, []contract.EventType{"environment.started", "environment.ready", "baseline.ready", "run.updated"}, w.events())
	require.True(t, canBecome(contract.StatusPending, contract.StatusDone))
}

func TestARunThatOnlyPreparesFailsWithoutAskingAnybody(t *testing.T) {
	t.Parallel()
	for name, s := range map[string]*site{
		"set-up": {envs: []contract.EnvironmentResult{{Failure: &contract.Failure{Class: contract.ClassConfig, Code: contract.CodeMissing, Message: "no npm", Cause: "sh: npm"}}}},
		"check":  {envs: []contract.EnvironmentResult{{Digest: "e1"}}, baselines: []contract.BaselineResult{{Unavailable: []string{"no npm"}}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			withSite(w, s)
			result := w.orchestrate(t, prepared(), func(s *contract.Settings) { s.PrepareOnly = true })
			require.Equal(t, contract.StatusFailed, result.Status)
			require.Contains(t, result.Failure.Message, "no npm")
			require.NotContains(t, w.statuses(), contract.StatusWaitingForApproval)
		})
	}
}

func TestAPauseHoldsTheEndOfARunThatOnlyPrepares(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	withSite(w, &site{envs: []contract.EnvironmentResult{{}}, baselines: []contract.BaselineResult{{Key: "k"}}})
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
