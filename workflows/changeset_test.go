package workflows

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/mock"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/workflows/changeset"
)

// setFixture is what the workflow of a change set uses.
type setFixture struct {
	env *testsuite.TestWorkflowEnvironment

	mu        sync.Mutex
	decisions []contract.ChangeSetDecision // one after the other; the last one stays
	links     []contract.ChangeSetLinked   // one after the other; the last one stays
	decided   int
	told      int
	linked    int
	linkFails int // how often links fail at first
}

func newSetFixture(t *testing.T) *setFixture {
	t.Helper()
	var suite testsuite.WorkflowTestSuite
	s := &setFixture{env: suite.NewTestWorkflowEnvironment(), links: []contract.ChangeSetLinked{{Over: true}}}
	s.env.SetTestTimeout(time.Minute)
	RegisterChangeSet(s.env)
	register := func(name string, f any) { s.env.RegisterActivityWithOptions(f, activity.RegisterOptions{Name: name}) }
	register(contract.ActivityChangeSetDecide, func(context.Context, int64) (contract.ChangeSetDecision, error) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.decided++
		d := s.decisions[0]
		if len(s.decisions) > 1 {
			s.decisions = s.decisions[1:]
		}
		return d, nil
	})
	register(contract.ActivityChangeSetNotify, func(context.Context, int64) error {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.told++
		return nil
	})
	register(contract.ActivityChangeSetLink, func(context.Context, int64) (contract.ChangeSetLinked, error) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.linked++
		if s.linked <= s.linkFails {
			return contract.ChangeSetLinked{}, temporal.NewNonRetryableApplicationError("no access", "CONFIG_ERROR", errors.New("no access"))
		}
		l := s.links[0]
		if len(s.links) > 1 {
			s.links = s.links[1:]
		}
		return l, nil
	})
	return s
}

func (s *setFixture) run(t *testing.T, in contract.ChangeSetInput) (contract.ChangeSetResult, time.Duration) {
	t.Helper()
	began := s.env.Now()
	s.env.ExecuteWorkflow(contract.WorkflowChangeSet, in)
	require.NoError(t, s.env.GetWorkflowError())
	var out contract.ChangeSetResult
	require.NoError(t, s.env.GetWorkflowResult(&out))
	return out, s.env.Now().Sub(began)
}

func (s *setFixture) signalAfter(d time.Duration) {
	s.env.RegisterDelayedCallback(func() { s.env.SignalWorkflow(contract.SignalChangeSet, 1) }, d)
}

func TestASetIsDecidedAtOnceWhenItIsToldOfAChange(t *testing.T) {
	t.Parallel()
	s := newSetFixture(t)
	s.decisions = []contract.ChangeSetDecision{{}, {Wait: time.Hour}, {Outcome: contract.OutcomeComplete}}
	s.signalAfter(10 * time.Second)
	s.signalAfter(20 * time.Second)
	out, took := s.run(t, contract.ChangeSetInput{Set: 7})
	require.Equal(t, contract.ChangeSetResult{Set: 7, Outcome: contract.OutcomeComplete}, out)
	require.Less(t, took, time.Minute)
	require.Equal(t, 1, s.told)
	require.Equal(t, 3, s.decided)
}

func TestASetFindsOutByItselfThatARunHasEnded(t *testing.T) {
	t.Parallel()
	s := newSetFixture(t)
	s.decisions = []contract.ChangeSetDecision{{}, {Wait: time.Minute}, {Outcome: contract.OutcomeIncomplete}}
	_, took := s.run(t, contract.ChangeSetInput{Set: 7})
	require.Equal(t, changeset.LookEvery+time.Minute, took.Round(time.Second), "the first look, then the time that decides")
}

func TestPullRequestsOfASetAreKeptUpToDateUntilNothingChanges(t *testing.T) {
	t.Parallel()
	s := newSetFixture(t)
	s.decisions = []contract.ChangeSetDecision{{Outcome: contract.OutcomeComplete}}
	s.links = []contract.ChangeSetLinked{{}, {Updated: 1}, {Over: true}}
	s.signalAfter(10 * time.Second)
	_, took := s.run(t, contract.ChangeSetInput{Set: 7})
	require.Equal(t, 3, s.linked)
	require.Equal(t, changeset.FollowEvery+10*time.Second, took.Round(time.Second))
}

func TestAForgeThatRefusesDoesNotEndASet(t *testing.T) {
	t.Parallel()
	s := newSetFixture(t)
	s.decisions, s.linkFails = []contract.ChangeSetDecision{{Outcome: contract.OutcomeComplete}}, 2
	_, took := s.run(t, contract.ChangeSetInput{Set: 7})
	require.Equal(t, 3, s.linked)
	require.Equal(t, 2*changeset.FollowEvery, took.Round(time.Second))
}

func TestASetThatContinuesAsNewDoesNotTellItsRunsAgain(t *testing.T) {
	t.Parallel()
	s := newSetFixture(t)
	s.decisions = []contract.ChangeSetDecision{{Outcome: contract.OutcomeComplete}}
	s.run(t, contract.ChangeSetInput{Set: 7, Following: true})
	require.Zero(t, s.told)
	require.Equal(t, 1, s.linked)
}

// memberFixture is a run that belongs to a change set.
type memberFixture struct {
	*runFixture
	answers []contract.ReadyAnswer // one after the other; the last one stays
	asked   int
	told    []string // workflows that were told of a change
}

func newMemberFixture(t *testing.T) *memberFixture {
	t.Helper()
	m := &memberFixture{runFixture: newRunFixture(t)}
	m.register(contract.ActivityChangeSetReady, func(context.Context, contract.ReadyInput) (contract.ReadyAnswer, error) {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.asked++
		a := m.answers[0]
		if len(m.answers) > 1 {
			m.answers = m.answers[1:]
		}
		return a, nil
	})
	m.env.OnSignalExternalWorkflow(mock.Anything, mock.Anything, mock.Anything, mock.Anything, mock.Anything).Return(
		func(_, id, _, name string, _ any) error {
			m.told = append(m.told, id+" "+name)
			return nil
		})
	return m
}

func member(s *contract.Settings) { s.ChangeSet = &contract.ChangeSetMember{Set: 7, Number: 2, Of: 3} }

func TestARunOfASetIsReleasedOnlyWithTheOthers(t *testing.T) {
	t.Parallel()
	m := newMemberFixture(t)
	m.answers = []contract.ReadyAnswer{{}, {Decided: true, Release: true, Outcome: contract.OutcomeComplete}}
	var waiting contract.RunView
	m.after(30*time.Second, func() {
		waiting = m.view(t)
		require.Empty(t, m.commits)
		m.env.SignalWorkflow(contract.SignalChangeSetDecided, nil)
	})
	require.Equal(t, contract.StatusDone, m.orchestrate(t, member).Status)
	require.Equal(t, contract.WaitsForChangeSet, waiting.WaitingFor)
	require.Equal(t, contract.PhaseTester.Completed(), waiting.Status)
	require.Len(t, m.commits, 1)
	require.Equal(t, []string{"changeset-7 change-set", "changeset-7 change-set"}, m.told, "when it is ready, and at its end")
	require.Empty(t, m.last().WaitingFor)
}

func TestARunOfASetIsReadyOnlyOnceItsReleaseIsApproved(t *testing.T) {
	t.Parallel()
	m := newMemberFixture(t)
	m.answers = []contract.ReadyAnswer{{Decided: true, Release: true}}
	m.after(time.Minute, func() {
		require.Zero(t, m.asked)
		m.update(contract.UpdateApprove, contract.Command{ID: "a", By: "mara"})
	})
	require.Equal(t, contract.StatusDone, m.orchestrate(t, member, func(s *contract.Settings) { s.ApproveRelease = true }).Status)
	require.Equal(t, 1, m.asked)
	require.Len(t, m.payloads(contract.EventApprovalRequested), 1, "nobody is asked twice")
}

func TestARunOfAStoppedSetEndsWithoutARelease(t *testing.T) {
	t.Parallel()
	m := newMemberFixture(t)
	m.answers = []contract.ReadyAnswer{{Decided: true, Outcome: contract.OutcomeStopped, Reason: "stopped by mara"}}
	result := m.orchestrate(t, member, func(s *contract.Settings) { s.MaxRetries = 3 })
	require.Equal(t, contract.StatusCancelled, result.Status)
	require.Equal(t, contract.CodeCancelled, result.Failure.Code)
	require.Contains(t, result.Failure.Message, "stopped by mara")
	require.Empty(t, m.commits)
}

func TestARunOfASetFindsTheDecisionWithoutBeingTold(t *testing.T) {
	t.Parallel()
	m := newMemberFixture(t)
	m.answers = []contract.ReadyAnswer{{}, {}, {Decided: true, Release: true}}
	began := m.env.Now()
	require.Equal(t, contract.StatusDone, m.orchestrate(t, member).Status)
	require.Equal(t, 15*time.Minute, m.env.Now().Sub(began).Round(time.Minute))
}

func TestWaitingForTheOthersDoesNotCountAsTimeOfTheRun(t *testing.T) {
	t.Parallel()
	m := newMemberFixture(t)
	m.answers = []contract.ReadyAnswer{{}}
	began := m.env.Now()
	m.env.OnActivity(contract.ActivityRunTimeFrom, mock.Anything, mock.Anything).Return(func(context.Context, int64) (time.Time, error) { return began, nil })
	m.after(5*time.Hour, func() {
		m.mu.Lock()
		m.answers = []contract.ReadyAnswer{{Decided: true, Release: true}}
		m.mu.Unlock()
		m.env.SignalWorkflow(contract.SignalChangeSetDecided, nil)
	})
	result := m.orchestrate(t, member, func(s *contract.Settings) { s.RunBudget.Time = time.Hour })
	require.Equal(t, contract.StatusDone, result.Status)
}

func TestARunThatWaitsForTheOthersCanBePausedAndStopped(t *testing.T) {
	t.Parallel()
	m := newMemberFixture(t)
	m.answers = []contract.ReadyAnswer{{}}
	var paused, resumed contract.RunView
	m.after(10*time.Second, func() { m.update(contract.UpdatePause, contract.Command{ID: "p", By: "mara"}) })
	m.after(20*time.Second, func() {
		paused = m.view(t)
		m.update(contract.UpdateResume, contract.Command{ID: "r", By: "mara"})
	})
	m.after(30*time.Second, func() {
		resumed = m.view(t)
		m.update(contract.UpdateStop, contract.Command{ID: "s", By: "mara"})
	})
	result := m.orchestrate(t, member)
	require.Equal(t, contract.StatusPaused, paused.Status)
	require.Equal(t, contract.WaitsForChangeSet, resumed.WaitingFor)
	require.Equal(t, contract.StatusCancelled, result.Status)
	require.Empty(t, m.commits)
}
