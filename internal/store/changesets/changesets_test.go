package changesets_test

import (
	"context"
	"encoding/json"
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

func held() contract.ChangeSetSettings {
	return contract.ChangeSetSettings{Incomplete: contract.IncompleteHold, Wait: time.Hour, Follow: time.Hour}
}

// told returns the events of a run about its set, in order.
func told(t *testing.T, f *storetest.Fixture, run int64) (all []string, last json.RawMessage) {
	t.Helper()
	events, err := f.Events(t.Context(), run, 0, 1000)
	require.NoError(t, err)
	for _, e := range events {
		if e.Type == contract.EventChangeSetWaiting || e.Type == contract.EventChangeSetResolved {
			var of contract.ChangeSetWaiting
			require.NoError(t, json.Unmarshal(e.Payload, &of))
			all, last = append(all, string(e.Type)+" "+of.WaitingID), e.Payload
		}
	}
	return all, last
}

// waitID is the first wait of the first set of a database, and so on.
func waitID(n int) string { return fmt.Sprintf(" changeset-1/waiting/%d", n) }

var (
	waiting  = string(contract.EventChangeSetWaiting)
	resolved = string(contract.EventChangeSetResolved)
)

func TestAPersonIsAskedOnceAboutASetHoweverOftenItIsLookedAt(t *testing.T) {
	t.Parallel()
	f := storetest.Setup(t)
	set := create(t, f, held())
	ready(t, f, set.ID, set.Runs[0].RunID)
	ready(t, f, set.ID, set.Runs[1].RunID)
	all, _ := told(t, f, set.Runs[0].RunID)
	require.Empty(t, all, "the third one works")
	fails(t, f, set.Runs[2].RunID)
	var g errgroup.Group
	for range 5 {
		g.Go(func() error {
			_, err := changesets.Decide(t.Context(), f.Store, set.ID)
			return err
		})
		g.Go(func() error {
			_, _, err := changesets.Ready(t.Context(), f.Store, set.ID, set.Runs[0].RunID, "first")
			return err
		})
	}
	require.NoError(t, g.Wait())
	for _, m := range set.Runs[:2] {
		all, last := told(t, f, m.RunID)
		require.Equal(t, []string{waiting + waitID(1)}, all)
		var of contract.ChangeSetWaiting
		require.NoError(t, json.Unmarshal(last, &of))
		require.Equal(t, contract.ChangeSetWaiting{
			ChangeSet: set.ID, WaitingID: "changeset-1/waiting/1", Kind: contract.WaitsForChangeSet,
			Reason:         fmt.Sprintf("2 of 3 runs of change set %d are ready; missing: run %d (app3): it failed", set.ID, set.Runs[2].RunID),
			ActionRequired: "release those that are ready (rgpt set release 1), stop all (rgpt set stop 1), or resume what is missing",
			Ready:          []contract.ChangeSetRun{{RunID: set.Runs[0].RunID, Project: "app1"}, {RunID: set.Runs[1].RunID, Project: "app2"}},
			Missing: []contract.MissingChangeRun{{
				ChangeSetRun: contract.ChangeSetRun{RunID: set.Runs[2].RunID, Project: "app3"}, Status: contract.StatusFailed, Why: "it failed", Failure: "red",
			}},
			Commands: []string{"rgpt set release 1", "rgpt set stop 1"},
		}, of)
	}
	all, _ = told(t, f, set.Runs[2].RunID)
	require.Empty(t, all, "it does not wait")
	sets, err := changesets.Waiting(t.Context(), f.Store, store.DefaultTenant, 10)
	require.NoError(t, err)
	require.Len(t, sets, 1)
	require.NotNil(t, sets[0].WaitingSince)
	require.True(t, sets[0].Held)
	n, err := changesets.CountWaiting(t.Context(), f.Store, store.DefaultTenant)
	require.NoError(t, err)
	require.Equal(t, 1, n)
}

func TestASetThatNeedsNoPersonAnyMoreSaysSo(t *testing.T) {
	t.Parallel()
	for name, decide := range map[string]func(*storetest.Fixture, changesets.Set) (contract.ChangeSetDecision, error){
		"released": func(f *storetest.Fixture, s changesets.Set) (contract.ChangeSetDecision, error) {
			_, err := changesets.Release(t.Context(), f.Store, s.ID, "mara", "go")
			return contract.ChangeSetDecision{Outcome: contract.OutcomeIncomplete, Reason: "released by mara: go"}, err
		},
		"stopped": func(f *storetest.Fixture, s changesets.Set) (contract.ChangeSetDecision, error) {
			_, err := changesets.Stop(t.Context(), f.Store, s.ID, "mara", "")
			return contract.ChangeSetDecision{Outcome: contract.OutcomeStopped, Reason: "stopped by mara"}, err
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := storetest.Setup(t)
			set := create(t, f, held())
			ready(t, f, set.ID, set.Runs[0].RunID)
			fails(t, f, set.Runs[1].RunID)
			fails(t, f, set.Runs[2].RunID)
			decides(t, f, set.ID)
			want, err := decide(f, set)
			require.NoError(t, err)
			for range 2 {
				require.Equal(t, want, decides(t, f, set.ID))
			}
			all, last := told(t, f, set.Runs[0].RunID)
			require.Equal(t, []string{waiting + waitID(1), resolved + waitID(1)}, all)
			require.Contains(t, string(last), want.Reason)
			n, err := changesets.CountWaiting(t.Context(), f.Store, store.DefaultTenant)
			require.NoError(t, err)
			require.Zero(t, n)
		})
	}
}

func TestAPersonIsAskedAgainIfAResumedRunEndsInVain(t *testing.T) {
	t.Parallel()
	for name, looks := range map[string]bool{"and the set looked meanwhile": true, "and nothing looked meanwhile": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := storetest.Setup(t)
			set := create(t, f, held())
			run := set.Runs[2].RunID
			ready(t, f, set.ID, set.Runs[0].RunID)
			ready(t, f, set.ID, set.Runs[1].RunID)
			fails(t, f, run)
			decides(t, f, set.ID)
			_, err := f.AddReplay(t.Context(), run, "first", contract.PhaseTester, contract.ReplaySpec{By: "mara"}, "")
			require.NoError(t, err)
			decides(t, f, set.ID)
			all, _ := told(t, f, set.Runs[0].RunID)
			require.Len(t, all, 1, "it did not begin yet")
			again := store.Source{WorkflowID: contract.RunWorkflowID(run), WorkflowRunID: "second"}
			begun, err := f.Record(t.Context(), again, contract.Record{
				RunID: run, Seq: 2, Run: &contract.RunChange{Phase: contract.PhaseTester, Status: contract.PhaseTester.Running()},
				Begin: &contract.ExecutionBegin{Phase: contract.PhaseTester, Agent: contract.AgentTester},
			})
			require.NoError(t, err)
			_, err = f.TakeReplay(t.Context(), begun.Execution)
			require.NoError(t, err)
			if looks {
				require.Positive(t, decides(t, f, set.ID).Wait, "until a person must decide")
			}
			_, err = f.Record(t.Context(), again, contract.Record{RunID: run, Seq: 3, Run: &contract.RunChange{Phase: contract.PhaseTester, Status: contract.StatusFailed, Finished: true}})
			require.NoError(t, err)
			for range 3 {
				decides(t, f, set.ID)
			}
			all, _ = told(t, f, set.Runs[0].RunID)
			require.Equal(t, []string{waiting + waitID(1), resolved + waitID(1), waiting + waitID(2)}, all)
		})
	}
}

func TestARunThatBecomesReadyWhileAPersonIsAskedJoinsTheWait(t *testing.T) {
	t.Parallel()
	f := storetest.Setup(t)
	s := held()
	s.Wait = time.Nanosecond
	set := create(t, f, s)
	ready(t, f, set.ID, set.Runs[0].RunID)
	fails(t, f, set.Runs[2].RunID)
	ready(t, f, set.ID, set.Runs[1].RunID)
	for _, m := range set.Runs[:2] {
		all, _ := told(t, f, m.RunID)
		require.Equal(t, []string{waiting + waitID(1)}, all)
	}
}
