package attempts_test

import (
	"fmt"

	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"golang.org/x/sync/errgroup"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/config"
	"github.com/rocketgpt/orchestrator/internal/fault"
	"github.com/rocketgpt/orchestrator/internal/setup"
	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/internal/store/attempts"
	"github.com/rocketgpt/orchestrator/internal/storetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(storetest.Main(m)) }

// newGroup is a group of n attempts to be created.
func newGroup(n int, key string) attempts.New {
	g := attempts.New{Tenant: store.DefaultTenant, Project: "calculator", Settings: contract.AttemptsSettings{SizeMargin: 0.25, Budget: contract.RunBudget{Tokens: 1000}}}
	for i := range n {
		run := storetest.Filled(store.NewRun{RequestDigest: "d"})
		run.Settings.RunBudget = contract.RunBudget{Tokens: 1000}
		run.Settings.Cache = &contract.ResponseCache{}
		run.Settings.Models = map[contract.Agent]contract.ModelChoice{contract.AgentBuilder: {Provider: "scripted", Model: fmt.Sprint("m", i)}}
		if i == 0 {
			run.IdempotencyKey = key
		}
		g.Runs = append(g.Runs, run)
	}
	return g
}

func create(t *testing.T, f *storetest.Fixture, n int) attempts.Group {
	t.Helper()
	g, fresh, err := attempts.Create(t.Context(), f.Store, newGroup(n, ""))
	require.NoError(t, err)
	require.True(t, fresh)
	return g
}

// records sets the row of a run.
func records(t *testing.T, f *storetest.Fixture, run, seq int64, c contract.RunChange) {
	t.Helper()
	c.Phase, c.Finished = contract.PhaseTester, c.Status.Terminal()
	_, err := f.Record(t.Context(), store.Source{WorkflowID: contract.RunWorkflowID(run), WorkflowRunID: "first"}, contract.Record{RunID: run, Seq: seq, Run: &c})
	require.NoError(t, err)
}

// holds lets an attempt wait for the choice.
func holds(t *testing.T, f *storetest.Fixture, run int64, lines int) {
	t.Helper()
	require.NoError(t, attempts.Hold(t.Context(), f.Store, attempts.Held{RunID: run, Workspace: contract.Workspace{Tree: fmt.Sprint("tree", run)}, Lines: lines}))
	records(t, f, run, 1, contract.RunChange{Status: contract.PhaseTester.Completed(), WaitingFor: contract.WaitsForChoice})
}

func TestAGroupIsCreatedOnceUnderRaces(t *testing.T) {
	t.Parallel()
	f := storetest.Setup(t)
	var made atomic.Int32
	groups := make([]int64, 10)
	var g errgroup.Group
	for i := range groups {
		g.Go(func() error {
			one, fresh, err := attempts.Create(t.Context(), f.Store, newGroup(3, "key"))
			groups[i] = one.ID
			if fresh {
				made.Add(1)
			}
			return err
		})
	}
	require.NoError(t, g.Wait())
	require.EqualValues(t, 1, made.Load())
	for _, id := range groups {
		require.Equal(t, groups[0], id)
	}
	group, err := attempts.Read(t.Context(), f.Store, groups[0])
	require.NoError(t, err)
	require.Len(t, group.Attempts, 3)
	for i, a := range group.Attempts {
		run, err := f.Run(t.Context(), a.RunID)
		require.NoError(t, err)
		require.Equal(t, &contract.Attempt{Group: group.ID, Number: i + 1, Of: 3}, run.Settings.Attempt)
		require.Equal(t, group.ID, run.Settings.RunBudget.Attempts)
		require.Nil(t, run.Settings.Cache, "attempts do not get each other's responses")
		require.Equal(t, fmt.Sprint("m", i), a.Model.Model)
	}
	other := newGroup(3, "key")
	other.Runs[0].RequestDigest = "another"
	_, _, err = attempts.Create(t.Context(), f.Store, other)
	require.True(t, fault.Is(err, store.CodeConflict), "%v", err)
}

func TestAGroupIsReadyOnceEachAttemptHasEndedOrWaits(t *testing.T) {
	t.Parallel()
	f := storetest.Setup(t)
	g := create(t, f, 3)
	state := func() contract.AttemptsState {
		now, err := attempts.Read(t.Context(), f.Store, g.ID)
		require.NoError(t, err)
		return now.State()
	}
	require.False(t, state().Ready)
	holds(t, f, g.Attempts[0].RunID, 10)
	records(t, f, g.Attempts[1].RunID, 1, contract.RunChange{Status: contract.StatusFailed, Failure: &contract.Failure{Class: contract.ClassAssertion}})
	require.False(t, state().Ready)
	holds(t, f, g.Attempts[2].RunID, 20)
	require.True(t, state().Ready)
	records(t, f, g.Attempts[2].RunID, 2, contract.RunChange{Status: contract.StatusPaused, WaitingFor: "paused by mara"})
	require.False(t, state().Ready, "nothing is decided while an attempt is paused")
}

func TestAGroupThatStopsAtTheFirstIsReadyOnceOneIsClean(t *testing.T) {
	t.Parallel()
	f := storetest.Setup(t)
	n := newGroup(2, "")
	n.Settings.StopAtFirst = true
	g, _, err := attempts.Create(t.Context(), f.Store, n)
	require.NoError(t, err)
	holds(t, f, g.Attempts[1].RunID, 10)
	g, err = attempts.Read(t.Context(), f.Store, g.ID)
	require.NoError(t, err)
	require.True(t, g.State().Ready)
}

func TestAChoiceIsMadeOnceAndOthersAreTold(t *testing.T) {
	t.Parallel()
	f := storetest.Setup(t)
	g := create(t, f, 3)
	first, second, third := g.Attempts[0].RunID, g.Attempts[1].RunID, g.Attempts[2].RunID
	holds(t, f, first, 10)
	holds(t, f, second, 20)
	records(t, f, third, 1, contract.RunChange{Status: contract.StatusFailed})
	choiceFor := func(run int64, workflowRun string) contract.Choice {
		c, err := attempts.ChoiceFor(t.Context(), f.Store, g.ID, run, workflowRun)
		require.NoError(t, err)
		return c
	}
	require.Zero(t, choiceFor(second, "a"), "it was not made yet")
	for _, winner := range []int64{first, second} {
		d, err := attempts.Decide(t.Context(), f.Store, contract.AttemptsDecision{Group: g.ID, Winner: winner, Rule: contract.RuleSize, Reason: "small"})
		require.NoError(t, err)
		require.Equal(t, first, d.Winner, "a second choice changes nothing")
	}
	require.True(t, choiceFor(first, "a").Chosen)
	for range 2 { // a repeat of the activity
		c := choiceFor(second, "a")
		require.True(t, c.Made)
		require.False(t, c.Chosen)
	}
	require.True(t, choiceFor(second, "reset").Chosen, "a person resumed it")
	require.True(t, choiceFor(third, "reset").Chosen, "a person resumed it, and it passed")
}

func TestAStoppedGroupHasNoWinner(t *testing.T) {
	t.Parallel()
	f := storetest.Setup(t)
	g := create(t, f, 2)
	stopped, err := attempts.Stop(t.Context(), f.Store, g.ID, "mara")
	require.NoError(t, err)
	require.True(t, stopped)
	d, err := attempts.Decide(t.Context(), f.Store, contract.AttemptsDecision{Group: g.ID, Winner: g.Attempts[0].RunID, Rule: contract.RuleOnly})
	require.NoError(t, err)
	require.Zero(t, d.Winner)
	require.Equal(t, contract.RuleStopped, d.Rule)
	stopped, err = attempts.Stop(t.Context(), f.Store, g.ID, "mara")
	require.NoError(t, err)
	require.False(t, stopped, "it was decided before")
}

func TestAnAttemptThatWaitsForTheChoiceLetsTheNextOneStart(t *testing.T) {
	t.Parallel()
	f := storetest.Setup(t)
	records(t, f, f.First.ID, 1, contract.RunChange{Status: contract.StatusDone})
	g := create(t, f, 2)
	first, second := g.Attempts[0].RunID, g.Attempts[1].RunID
	queued, err := f.Enqueue(t.Context(), second, 1)
	require.NoError(t, err)
	require.True(t, queued, "one run may be in progress, and the first attempt is")
	ids, err := f.Dequeue(t.Context(), 1)
	require.NoError(t, err)
	require.Empty(t, ids)
	holds(t, f, first, 10)
	ids, err = f.Dequeue(t.Context(), 1)
	require.NoError(t, err)
	require.Equal(t, []int64{second}, ids)
}

func TestAllAttemptsShareTheBudgetOfOneRun(t *testing.T) {
	t.Parallel()
	f := storetest.Setup(t)
	g := create(t, f, 2)
	reserve := func(a attempts.Attempt, prompt int64) error {
		run, err := f.Run(t.Context(), a.RunID)
		require.NoError(t, err)
		begun, err := f.Record(t.Context(), store.Source{WorkflowID: contract.RunWorkflowID(a.RunID), WorkflowRunID: "first"}, contract.Record{
			RunID: a.RunID, Seq: prompt, Begin: &contract.ExecutionBegin{Phase: contract.PhasePlanner, Agent: contract.AgentPlanner},
		})
		require.NoError(t, err)
		_, err = f.ReserveCall(t.Context(), store.Reservation{
			Execution: begun.Execution, Turn: 1, Provider: "p", Model: "m", Prompt: prompt, Output: 1, MinOutput: 1,
			Scopes: setup.Scopes(config.Default(), a.RunID, contract.AgentPlanner, run.Settings.RunBudget, "local", "calculator", run.CreatedAt),
		})
		return err
	}
	require.NoError(t, reserve(g.Attempts[0], 600))
	err := reserve(g.Attempts[1], 600)
	require.ErrorContains(t, err, fmt.Sprintf("the budget for all attempts of group %d", g.ID))
	require.NoError(t, reserve(g.Attempts[1], 300))
	budget, err := f.Budget(t.Context(), store.ScopeAttempts, fmt.Sprint(g.ID))
	require.NoError(t, err)
	require.LessOrEqual(t, budget.SpentTokens+budget.ReservedTokens, int64(1000))
}

func TestAnUnknownGroupIsNotFound(t *testing.T) {
	t.Parallel()
	f := storetest.Setup(t)
	_, err := attempts.Read(t.Context(), f.Store, 999)
	require.ErrorIs(t, err, store.ErrNotFound)
	require.ErrorIs(t, attempts.Hold(t.Context(), f.Store, attempts.Held{RunID: f.First.ID}), store.ErrNotFound)
}

func TestEarlierRunsOfTheProjectAreTheBasisOfAnEstimate(t *testing.T) {
	t.Parallel()
	f := storetest.Setup(t)
	same, every, err := attempts.Earlier(t.Context(), f.Store, "local", "calculator", contract.ModelChoice{Provider: "scripted", Model: "m0"})
	require.NoError(t, err)
	require.Zero(t, same.Runs+every.Runs, "nothing was released yet")
	records(t, f, f.First.ID, 1, contract.RunChange{Status: contract.StatusDone, Commit: "c0ffee"})
	same, every, err = attempts.Earlier(t.Context(), f.Store, "local", "calculator", contract.ModelChoice{Provider: "scripted", Model: "m0"})
	require.NoError(t, err)
	require.Equal(t, 0, same.Runs)
	require.Equal(t, 1, every.Runs)
}

func TestAttemptsThatPassedReplaceAFailedWinnerOnlyByHand(t *testing.T) {
	t.Parallel()
	f := storetest.Setup(t)
	g := create(t, f, 4)
	run := func(number int) int64 { return g.Attempts[number-1].RunID }
	instead := func() []int64 {
		now, err := attempts.Read(t.Context(), f.Store, g.ID)
		require.NoError(t, err)
		return now.Instead
	}
	for number, lines := range map[int]int{1: 10, 2: 30, 3: 20} {
		holds(t, f, run(number), lines)
	}
	records(t, f, run(4), 1, contract.RunChange{Status: contract.StatusFailed, Failure: &contract.Failure{Class: contract.ClassAssertion, Code: contract.CodeTestsFailed}})
	require.Empty(t, instead(), "none is chosen yet")
	_, err := attempts.Decide(t.Context(), f.Store, contract.AttemptsDecision{Group: g.ID, Winner: run(1), Rule: contract.RuleSize})
	require.NoError(t, err)
	notChosen := &contract.Failure{Class: contract.ClassHuman, Code: contract.CodeNotChosen}
	for _, number := range []int{2, 3} {
		records(t, f, run(number), 2, contract.RunChange{Status: contract.StatusCancelled, Failure: notChosen})
	}
	records(t, f, run(1), 2, contract.RunChange{Status: contract.PhaseReleaser.Running()})
	require.Empty(t, instead(), "the winner is being released")
	records(t, f, run(1), 3, contract.RunChange{Status: contract.StatusFailed, Failure: &contract.Failure{Class: contract.ClassLogic, Code: contract.CodeBranchConflict}})
	require.Equal(t, []int64{run(3), run(2)}, instead(), "the smaller change first")

	g = create(t, f, 3)
	for _, number := range []int{1, 2, 3} {
		holds(t, f, run(number), 10)
	}
	_, err = attempts.Decide(t.Context(), f.Store, contract.AttemptsDecision{Group: g.ID, Winner: run(1), Rule: contract.RuleSize})
	require.NoError(t, err)
	records(t, f, run(1), 2, contract.RunChange{Status: contract.StatusFailed})
	records(t, f, run(2), 2, contract.RunChange{Status: contract.StatusCancelled, Failure: notChosen})
	records(t, f, run(3), 2, contract.RunChange{Status: contract.StatusDone, Commit: "c0ffee"})
	require.Empty(t, instead(), "another one was released already")
}
