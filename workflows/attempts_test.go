package workflows

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/mock"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/testsuite"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/fault"
)

// groupFixture is what the workflow of a group of attempts uses.
type groupFixture struct {
	env      *testsuite.TestWorkflowEnvironment
	mu       sync.Mutex
	states   []contract.AttemptsState // one after the other; the last one stays
	looks    int
	ranking  contract.AttemptsRanking
	judged   []contract.AttemptsJudgeInput
	judge    func() (contract.AttemptsJudgement, error)
	decided  []contract.AttemptsDecision
	notified int
	records  []contract.Record
}

func newGroupFixture(t *testing.T) *groupFixture {
	t.Helper()
	var suite testsuite.WorkflowTestSuite
	g := &groupFixture{env: suite.NewTestWorkflowEnvironment(), ranking: contract.AttemptsRanking{Winner: 42, Rule: contract.RuleSize, Reason: "small"}}
	RegisterAttempts(g.env)
	g.env.SetTestTimeout(time.Minute)
	register := func(name string, f any) { g.env.RegisterActivityWithOptions(f, activity.RegisterOptions{Name: name}) }
	register(contract.ActivityAttemptsState, func(context.Context, int64) (contract.AttemptsState, error) {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.looks++
		s := g.states[0]
		if len(g.states) > 1 {
			g.states = g.states[1:]
		}
		return s, nil
	})
	register(contract.ActivityAttemptsRank, func(context.Context, int64) (contract.AttemptsRanking, error) { return g.ranking, nil })
	register(contract.ActivityAttemptsJudge, func(_ context.Context, in contract.AttemptsJudgeInput) (contract.AttemptsJudgement, error) {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.judged = append(g.judged, in)
		return g.judge()
	})
	register(contract.ActivityAttemptsDecide, func(_ context.Context, d contract.AttemptsDecision) (contract.AttemptsDecision, error) {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.decided = append(g.decided, d)
		return d, nil
	})
	register(contract.ActivityAttemptsNotify, func(context.Context, int64) error { g.notified++; return nil })
	register(contract.ActivityRecord, func(_ context.Context, rec contract.Record) (contract.RecordResult, error) {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.records = append(g.records, rec)
		return contract.RecordResult{Execution: contract.ExecutionRef{ID: 9, RunID: rec.RunID}}, nil
	})
	return g
}

// chooses runs the workflow to its end.
func (g *groupFixture) chooses(t *testing.T) contract.AttemptsResult {
	t.Helper()
	g.env.ExecuteWorkflow(contract.WorkflowAttempts, contract.AttemptsInput{Group: 7, Settings: contract.AttemptsSettings{
		Judge: &contract.ModelChoice{Provider: "scripted", Model: "judge"}, Timeout: time.Minute,
	}})
	require.True(t, g.env.IsWorkflowCompleted())
	require.NoError(t, g.env.GetWorkflowError())
	var result contract.AttemptsResult
	require.NoError(t, g.env.GetWorkflowResult(&result))
	require.Equal(t, 1, g.notified, "all attempts are told")
	return result
}

func TestAChoiceIsMadeOnceAllAttemptsAreReady(t *testing.T) {
	t.Parallel()
	g := newGroupFixture(t)
	g.states = []contract.AttemptsState{{}, {}, {Ready: true}}
	g.env.RegisterDelayedCallback(func() { g.env.SignalWorkflow(contract.SignalAttempt, 1) }, time.Second)
	began := g.env.Now()
	require.EqualValues(t, 42, g.chooses(t).Winner)
	require.Equal(t, 3, g.looks)
	require.Empty(t, g.judged, "nothing is left to judge")
	require.Equal(t, time.Second+time.Minute, g.env.Now().Sub(began).Round(time.Second), "it looks after a signal, and after a minute without one")
}

func TestAJudgeDecidesAmongAttemptsThatAreEqualOtherwise(t *testing.T) {
	t.Parallel()
	g := newGroupFixture(t)
	g.states, g.ranking.Equal = []contract.AttemptsState{{Ready: true}}, []int64{42, 44}
	g.judge = func() (contract.AttemptsJudgement, error) {
		return contract.AttemptsJudgement{Winner: 44, Reason: "it handles empty input"}, nil
	}
	result := g.chooses(t)
	require.EqualValues(t, 44, result.Winner)
	require.Equal(t, contract.RuleJudge, result.Rule)
	require.Equal(t, contract.AttemptsDecision{Group: 7, Winner: 44, Rule: contract.RuleJudge, Reason: "it handles empty input", JudgeRun: 42}, g.decided[0])
	require.Equal(t, []int64{42, 44}, g.judged[0].Runs)
	require.EqualValues(t, 9, g.judged[0].Execution.ID, "the call has an execution, so that it is paid for once")
	require.Len(t, g.records, 2)
	require.Equal(t, contract.AgentJudge, g.records[0].Begin.Agent)
	require.Equal(t, contract.ExecutionCompleted, g.records[1].End.Status)
}

func TestTheSmallestChangeWinsIfTheJudgeFails(t *testing.T) {
	t.Parallel()
	for name, judge := range map[string]func() (contract.AttemptsJudgement, error){
		"an unusable response": func() (contract.AttemptsJudgement, error) { return contract.AttemptsJudgement{Why: "no JSON"}, nil },
		"no budget": func() (contract.AttemptsJudgement, error) {
			return contract.AttemptsJudgement{}, fault.ToTemporal(fault.New(contract.ClassConfig, contract.CodeBudgetExceeded, "used up"), 1)
		},
		"a provider that stays out": func() (contract.AttemptsJudgement, error) {
			return contract.AttemptsJudgement{}, fault.ToTemporal(fault.New(contract.ClassInfra, contract.CodeUnavailable, "out"), 1)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := newGroupFixture(t)
			g.states, g.ranking.Equal, g.judge = []contract.AttemptsState{{Ready: true}}, []int64{42, 44}, judge
			require.EqualValues(t, 42, g.chooses(t).Winner)
			require.Contains(t, g.decided[0].Reason, "small; the judge could not decide")
		})
	}
}

func TestAStoppedGroupChoosesNone(t *testing.T) {
	t.Parallel()
	g := newGroupFixture(t)
	g.states = []contract.AttemptsState{{Ready: true, Stopped: true}}
	result := g.chooses(t)
	require.Zero(t, result.Winner)
	require.Equal(t, contract.RuleStopped, result.Rule)
}

func TestADecisionIsNotMadeTwice(t *testing.T) {
	t.Parallel()
	g := newGroupFixture(t)
	g.states = []contract.AttemptsState{{Decided: true, Winner: 43, Rule: contract.RuleOnly}}
	require.EqualValues(t, 43, g.chooses(t).Winner)
	require.Empty(t, g.decided)
}

// attemptFixture is a run that is one of three attempts.
type attemptFixture struct {
	*runFixture
	held    []contract.HeldInput
	choices []contract.Choice // one after the other; the last one stays
	asked   int
	told    []string // groups that were told of a change
}

func newAttemptFixture(t *testing.T) *attemptFixture {
	t.Helper()
	a := &attemptFixture{runFixture: newRunFixture(t)}
	a.register(contract.ActivityAttemptHeld, func(_ context.Context, in contract.HeldInput) error {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.held = append(a.held, in)
		return nil
	})
	a.register(contract.ActivityAttemptChoice, func(context.Context, contract.ChoiceInput) (contract.Choice, error) {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.asked++
		c := a.choices[0]
		if len(a.choices) > 1 {
			a.choices = a.choices[1:]
		}
		return c, nil
	})
	a.env.OnSignalExternalWorkflow(mock.Anything, mock.Anything, mock.Anything, mock.Anything, mock.Anything).Return(
		func(_, id, _, name string, _ any) error {
			a.told = append(a.told, id+" "+name)
			return nil
		})
	return a
}

func attempt(s *contract.Settings) { s.Attempt = &contract.Attempt{Group: 3, Number: 2, Of: 3} }

func TestAnAttemptIsReleasedOnlyOnceItIsChosen(t *testing.T) {
	t.Parallel()
	a := newAttemptFixture(t)
	a.choices = []contract.Choice{{}, {Made: true, Chosen: true, Winner: 7, Rule: contract.RuleOnly}}
	var waiting contract.RunView
	a.after(30*time.Second, func() {
		waiting = a.view(t)
		a.env.SignalWorkflow(contract.SignalChoice, nil)
	})
	require.Equal(t, contract.StatusDone, a.orchestrate(t, attempt).Status)
	require.Equal(t, contract.WaitsForChoice, waiting.WaitingFor)
	require.Equal(t, contract.PhaseTester.Completed(), waiting.Status)
	require.Len(t, a.held, 1)
	require.Equal(t, a.released.Workspace, a.held[0].Workspace)
	require.Equal(t, []string{"attempts-3 attempt", "attempts-3 attempt"}, a.told, "when it is ready, and at its end")
	require.Empty(t, a.last().WaitingFor)
}

func TestAnAttemptThatIsNotChosenEndsWithoutARelease(t *testing.T) {
	t.Parallel()
	a := newAttemptFixture(t)
	a.choices = []contract.Choice{{Made: true, Winner: 41, Rule: contract.RuleSize, Reason: "its change is the smallest"}}
	result := a.orchestrate(t, attempt, func(s *contract.Settings) { s.MaxRetries, s.ApproveRelease = 3, true })
	require.Equal(t, contract.StatusCancelled, result.Status)
	require.Equal(t, contract.CodeNotChosen, result.Failure.Code)
	require.Contains(t, result.Failure.Message, "run 41 was")
	require.Empty(t, a.commits)
	require.Empty(t, a.payloads(contract.EventApprovalRequested), "only the chosen attempt is approved")
}

func TestAnAttemptFindsTheChoiceWithoutBeingTold(t *testing.T) {
	t.Parallel()
	a := newAttemptFixture(t)
	a.choices = []contract.Choice{{}, {}, {Made: true, Chosen: true}}
	began := a.env.Now()
	require.Equal(t, contract.StatusDone, a.orchestrate(t, attempt).Status)
	require.Equal(t, 2*time.Minute, a.env.Now().Sub(began).Round(time.Minute))
}

func TestAnAttemptThatWaitsForTheChoiceCanBePausedAndResumed(t *testing.T) {
	t.Parallel()
	a := newAttemptFixture(t)
	a.choices = []contract.Choice{{}, {}, {Made: true, Chosen: true}}
	var paused, resumed contract.RunView
	a.after(10*time.Second, func() { a.update(contract.UpdatePause, contract.Command{ID: "p", By: "mara"}) })
	a.after(20*time.Second, func() {
		paused = a.view(t)
		a.update(contract.UpdateResume, contract.Command{ID: "r", By: "mara"})
	})
	a.after(30*time.Second, func() { resumed = a.view(t) })
	require.Equal(t, contract.StatusDone, a.orchestrate(t, attempt).Status)
	require.Equal(t, contract.StatusPaused, paused.Status)
	require.Equal(t, contract.WaitsForChoice, resumed.WaitingFor)
	require.Len(t, a.told, 3, "the group is told that the attempt is ready again")
}

func TestAnAttemptThatIsPausedIsNotReleasedEvenIfItIsChosen(t *testing.T) {
	t.Parallel()
	a := newAttemptFixture(t)
	a.choices = []contract.Choice{{}, {Made: true, Chosen: true}}
	a.after(10*time.Second, func() { a.update(contract.UpdatePause, contract.Command{ID: "p", By: "mara"}) })
	a.after(time.Hour, func() {
		require.Empty(t, a.commits)
		a.update(contract.UpdateResume, contract.Command{ID: "r", By: "mara"})
	})
	require.Equal(t, contract.StatusDone, a.orchestrate(t, attempt).Status)
	require.Len(t, a.commits, 1)
}

func TestAStoppedAttemptStopsWaitingForTheChoice(t *testing.T) {
	t.Parallel()
	a := newAttemptFixture(t)
	a.choices = []contract.Choice{{}}
	a.after(10*time.Second, func() {
		a.env.SignalWorkflow(contract.UpdateStop, contract.Command{ID: "attempts-3/stop", By: "attempts-3"})
	})
	result := a.orchestrate(t, attempt)
	require.Equal(t, contract.StatusCancelled, result.Status)
	require.Equal(t, contract.CodeCancelled, result.Failure.Code)
	require.Empty(t, a.commits)
}
