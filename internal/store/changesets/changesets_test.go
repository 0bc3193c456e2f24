package changesets_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"golang.org/x/sync/errgroup"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/fault"
	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/internal/store/chain"
	"github.com/rocketgpt/orchestrator/internal/store/changesets"
	"github.com/rocketgpt/orchestrator/internal/store/pullrequests"
	"github.com/rocketgpt/orchestrator/internal/storetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(storetest.Main(m)) }

// newSet is a set of three runs to be created.
func newSet(key string, settings contract.ChangeSetSettings) changesets.New {
	n := changesets.New{Tenant: store.DefaultTenant, Title: "Rename the field", Settings: settings, CreatedBy: "mara"}
	for i := range 3 {
		run := storetest.Filled(store.NewRun{RequestDigest: "d", Project: fmt.Sprint("app", i+1)})
		run.Settings.Deliberation = &contract.DeliberationSettings{}
		if i == 0 {
			run.IdempotencyKey = key
		}
		n.Runs = append(n.Runs, run)
	}
	return n
}

func draft() contract.ChangeSetSettings {
	return contract.ChangeSetSettings{Incomplete: contract.IncompleteDraft, Wait: time.Hour, Follow: time.Hour, Tokens: 1000}
}

func create(t *testing.T, f *storetest.Fixture, s contract.ChangeSetSettings) changesets.Set {
	t.Helper()
	set, fresh, err := changesets.Create(t.Context(), f.Store, newSet("", s))
	require.NoError(t, err)
	require.True(t, fresh)
	return set
}

// records sets the row of a run.
func records(t *testing.T, f *storetest.Fixture, run, seq int64, c contract.RunChange) {
	t.Helper()
	c.Phase, c.Finished = contract.PhaseTester, c.Status.Terminal()
	_, err := f.Record(t.Context(), store.Source{WorkflowID: contract.RunWorkflowID(run), WorkflowRunID: "first"}, contract.Record{RunID: run, Seq: seq, Run: &c})
	require.NoError(t, err)
}

// ready lets a run wait for the others, and returns what it learns.
func ready(t *testing.T, f *storetest.Fixture, set, run int64) contract.ReadyAnswer {
	t.Helper()
	records(t, f, run, 1, contract.RunChange{Status: contract.PhaseTester.Completed(), WaitingFor: contract.WaitsForChangeSet})
	return asks(t, f, set, run, "first")
}

func asks(t *testing.T, f *storetest.Fixture, set, run int64, workflowRun string) contract.ReadyAnswer {
	t.Helper()
	answer, _, err := changesets.Ready(t.Context(), f.Store, set, run, workflowRun)
	require.NoError(t, err)
	return answer
}

func fails(t *testing.T, f *storetest.Fixture, run int64) {
	t.Helper()
	records(t, f, run, 1, contract.RunChange{Status: contract.StatusFailed, Failure: &contract.Failure{Class: contract.ClassAssertion, Code: contract.CodeCheckFailed, Message: "red"}})
}

func decides(t *testing.T, f *storetest.Fixture, set int64) contract.ChangeSetDecision {
	t.Helper()
	d, err := changesets.Decide(t.Context(), f.Store, set)
	require.NoError(t, err)
	return d
}

func TestASetIsCreatedOnceUnderRaces(t *testing.T) {
	t.Parallel()
	f := storetest.Setup(t)
	var made atomic.Int32
	sets := make([]int64, 10)
	var g errgroup.Group
	for i := range sets {
		g.Go(func() error {
			one, fresh, err := changesets.Create(t.Context(), f.Store, newSet("key", draft()))
			sets[i] = one.ID
			if fresh {
				made.Add(1)
			}
			return err
		})
	}
	require.NoError(t, g.Wait())
	require.EqualValues(t, 1, made.Load())
	for _, id := range sets {
		require.Equal(t, sets[0], id)
	}
	other := newSet("key", draft())
	other.Runs[0].RequestDigest = "another"
	_, _, err := changesets.Create(t.Context(), f.Store, other)
	require.True(t, fault.Is(err, store.CodeConflict))
}

func TestEachRunOfASetKnowsItsPlaceAndTheBudgetOfAll(t *testing.T) {
	t.Parallel()
	f := storetest.Setup(t)
	set := create(t, f, draft())
	require.Len(t, set.Runs, 3)
	for i, m := range set.Runs {
		run, err := f.Run(t.Context(), m.RunID)
		require.NoError(t, err)
		require.Equal(t, &contract.ChangeSetMember{Set: set.ID, Number: i + 1, Of: 3}, run.Settings.ChangeSet)
		budget := &contract.ChangeSetBudget{Set: set.ID, Tokens: 1000}
		require.Equal(t, budget, run.Settings.RunBudget.ChangeSet)
		require.Equal(t, budget, run.Settings.Deliberation.Budget.ChangeSet)
		require.Equal(t, fmt.Sprint("app", i+1), m.Project)
	}
	page, err := changesets.List(t.Context(), f.Store, store.DefaultTenant, 0, 1)
	require.NoError(t, err)
	require.Equal(t, []changesets.Set{set}, page.Sets)
}

func TestASetIsDecidedOnceAllItsRunsAreReady(t *testing.T) {
	t.Parallel()
	f := storetest.Setup(t)
	set := create(t, f, draft())
	for i, m := range set.Runs {
		require.Empty(t, decides(t, f, set.ID).Outcome)
		require.Equal(t, i == 2, ready(t, f, set.ID, m.RunID).Decided, "the last one decides, also without the workflow of the set")
		require.Equal(t, i < 2, decides(t, f, set.ID).Wait > 0 || i == 0, "the others are waited for")
	}
	require.Equal(t, contract.OutcomeComplete, decides(t, f, set.ID).Outcome)
	for _, m := range set.Runs {
		require.True(t, asks(t, f, set.ID, m.RunID, "first").Release)
	}
	entries, err := chain.List(t.Context(), f.Store, chain.Filter{Action: "change_set.decided"})
	require.NoError(t, err)
	require.Len(t, entries, 1, "deciding again changes nothing")
}

func TestWhatIsMissingDecidesASetOnlyIfItCannotBecomeReady(t *testing.T) {
	t.Parallel()
	f := storetest.Setup(t)
	set := create(t, f, draft())
	ready(t, f, set.ID, set.Runs[0].RunID)
	fails(t, f, set.Runs[1].RunID)
	require.Empty(t, decides(t, f, set.ID).Outcome, "the third one works")
	fails(t, f, set.Runs[2].RunID)
	d := decides(t, f, set.ID)
	require.Equal(t, contract.OutcomeIncomplete, d.Outcome)
	require.Contains(t, d.Reason, "1 of 3")
	require.True(t, asks(t, f, set.ID, set.Runs[0].RunID, "first").Release)
	require.True(t, asks(t, f, set.ID, set.Runs[1].RunID, "second").Release, "one that a person resumes is released, too")
}

func TestRunsThatAreReadyDoNotWaitForeverForTheOthers(t *testing.T) {
	t.Parallel()
	f := storetest.Setup(t)
	s := draft()
	s.Wait = time.Nanosecond
	set := create(t, f, s)
	require.Empty(t, decides(t, f, set.ID).Outcome, "none is ready")
	ready(t, f, set.ID, set.Runs[0].RunID)
	d := decides(t, f, set.ID)
	require.Equal(t, contract.OutcomeIncomplete, d.Outcome)
	require.Contains(t, d.Reason, "git.change_set.wait")
}

func TestASetThatIsHeldWaitsForAPerson(t *testing.T) {
	t.Parallel()
	f := storetest.Setup(t)
	s := draft()
	s.Incomplete, s.Wait = contract.IncompleteHold, time.Nanosecond
	set := create(t, f, s)
	ready(t, f, set.ID, set.Runs[0].RunID)
	fails(t, f, set.Runs[1].RunID)
	fails(t, f, set.Runs[2].RunID)
	require.Equal(t, contract.ChangeSetDecision{}, decides(t, f, set.ID))
	now, err := changesets.Read(t.Context(), f.Store, set.ID)
	require.NoError(t, err)
	require.True(t, now.Held)
	for i := range 2 {
		fresh, err := changesets.Release(t.Context(), f.Store, set.ID, "mara", "go")
		require.NoError(t, err)
		require.Equal(t, i == 0, fresh)
	}
	d := decides(t, f, set.ID)
	require.Equal(t, contract.OutcomeIncomplete, d.Outcome)
	require.Equal(t, "released by mara: go", d.Reason)
	entries, err := chain.List(t.Context(), f.Store, chain.Filter{Action: "change_set.released"})
	require.NoError(t, err)
	require.Len(t, entries, 1)
}

func TestNoRunOfAStoppedSetIsReleasedUnlessAPersonResumesIt(t *testing.T) {
	t.Parallel()
	f := storetest.Setup(t)
	set := create(t, f, draft())
	for _, m := range set.Runs[:2] {
		ready(t, f, set.ID, m.RunID)
	}
	fresh, err := changesets.Stop(t.Context(), f.Store, set.ID, "mara", "")
	require.NoError(t, err)
	require.True(t, fresh)
	require.Equal(t, contract.OutcomeStopped, decides(t, f, set.ID).Outcome)
	run := set.Runs[1].RunID
	for range 2 {
		answer := asks(t, f, set.ID, run, "first")
		require.True(t, answer.Decided)
		require.False(t, answer.Release)
	}
	require.True(t, asks(t, f, set.ID, run, "second").Release)
	entries, err := chain.List(t.Context(), f.Store, chain.Filter{Action: "change_set.stopped"})
	require.NoError(t, err)
	require.Len(t, entries, 1)
}

func TestARunThatWorkedWhenItsSetWasStoppedIsReleasedOnceAPersonResumesIt(t *testing.T) {
	t.Parallel()
	f := storetest.Setup(t)
	set := create(t, f, draft())
	run := set.Runs[1].RunID
	_, err := changesets.Stop(t.Context(), f.Store, set.ID, "mara", "")
	require.NoError(t, err)
	require.Equal(t, contract.OutcomeStopped, decides(t, f, set.ID).Outcome)
	require.False(t, asks(t, f, set.ID, set.Runs[0].RunID, "first").Release)
	records(t, f, run, 1, contract.RunChange{Status: contract.StatusCancelled, Failure: &contract.Failure{Class: contract.ClassHuman, Code: contract.CodeCancelled, Message: "stopped"}})
	_, err = f.AddReplay(t.Context(), run, "first", contract.PhaseTester, contract.ReplaySpec{By: "mara"}, "")
	require.NoError(t, err)
	require.True(t, asks(t, f, set.ID, run, "second").Release)
}

func TestASetOfWhichNothingIsLeftIsDecided(t *testing.T) {
	t.Parallel()
	f := storetest.Setup(t)
	set := create(t, f, draft())
	for _, m := range set.Runs {
		fails(t, f, m.RunID)
	}
	require.Equal(t, contract.OutcomeNone, decides(t, f, set.ID).Outcome)
}

func TestTheFilesOfARunAreKeptWhileAnotherOneOfItsSetWorks(t *testing.T) {
	t.Parallel()
	f := storetest.Setup(t)
	set := create(t, f, draft())
	kept := func() (held bool) {
		storetest.Query(t, f.URL, func(ctx context.Context, conn *pgx.Conn) {
			require.NoError(t, conn.QueryRow(ctx, "SELECT held FROM orchestrator_run_ends WHERE id = $1", set.Runs[0].RunID).Scan(&held))
		})
		return held
	}
	fails(t, f, set.Runs[0].RunID)
	fails(t, f, set.Runs[1].RunID)
	require.True(t, kept())
	fails(t, f, set.Runs[2].RunID)
	require.False(t, kept())
}

func TestASetShowsTheLastPullRequestOfEachRun(t *testing.T) {
	t.Parallel()
	f := storetest.Setup(t)
	set := create(t, f, draft())
	for number := range int64(2) {
		require.NoError(t, pullrequests.Save(t.Context(), f.Store, contract.PullRequest{
			RunID: set.Runs[0].RunID, Forge: "work", Repo: "team/app", Number: number + 1, URL: "https://git.example.com", State: contract.PullRequestOpen, Draft: true,
		}, true))
	}
	now, err := changesets.Read(t.Context(), f.Store, set.ID)
	require.NoError(t, err)
	require.Equal(t, &changesets.PullRequest{Forge: "work", Repo: "team/app", Number: 2, URL: "https://git.example.com", State: contract.PullRequestOpen, Draft: true}, now.Runs[0].PullRequest)
	require.Nil(t, now.Runs[1].PullRequest)
	_, err = changesets.Read(t.Context(), f.Store, set.ID+1)
	require.ErrorIs(t, err, store.ErrNotFound)
}
