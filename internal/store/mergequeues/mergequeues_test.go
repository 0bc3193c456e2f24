package mergequeues_test

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/store/chain"
	"github.com/rocketgpt/orchestrator/internal/store/mergequeues"
	"github.com/rocketgpt/orchestrator/internal/storetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(storetest.Main(m)) }

var (
	ref = contract.QueueRef{Forge: "work", Repo: "team/app", Base: "main"}
	at  = time.Date(2026, 11, 27, 0, 0, 0, 0, time.UTC)
)

func entry(number int64, state contract.QueueState, version int64) contract.QueueEntry {
	return contract.QueueEntry{Key: "k" + string(rune('0'+number)), Number: number, Title: "t", URL: "u", AddedBy: "ann", AddedAt: at, Place: 10 - number, State: state, Version: version}
}

func list(t *testing.T, f *storetest.Fixture) mergequeues.MergeQueue {
	t.Helper()
	all, err := mergequeues.List(t.Context(), f.Store, mergequeues.Filter{QueueRef: contract.QueueRef{Repo: "team/app"}, Ended: 10})
	require.NoError(t, err)
	require.Len(t, all, 1)
	return all[0]
}

func TestAQueueIsStoredOnceAndNeverGoesBack(t *testing.T) {
	t.Parallel()
	f := storetest.Setup(t)
	first := contract.QueueSave{Queue: ref, Version: 5, First: true, Runs: 1, Decided: 2, Entries: []contract.QueueEntry{entry(1, contract.QueueWaiting, 3), entry(2, contract.QueueTesting, 4)}}
	first.Entries[0].RunID, first.Entries[1].RunID = f.First.ID, 999_999
	for range 2 {
		ended, err := mergequeues.Save(t.Context(), f.Store, first)
		require.NoError(t, err)
		require.Zero(t, ended[contract.QueueMerged]+ended[contract.QueueReturned])
	}
	q := list(t, f)
	require.Equal(t, []any{int64(1), int64(2)}, []any{q.CheckRuns, q.Decided})
	require.Equal(t, []int64{2, 1}, []int64{q.Entries[0].Number, q.Entries[1].Number}, "by their places")
	require.Equal(t, []int{1, 2}, []int{q.Entries[0].Position, q.Entries[1].Position})
	require.Equal(t, f.First.ID, q.Entries[1].RunID)
	require.Zero(t, q.Entries[0].RunID, "of a run that was deleted")

	merged := entry(2, contract.QueueMerged, 6)
	merged.Commit, merged.Title = "c", ""
	save := contract.QueueSave{Queue: ref, Version: 7, Paused: &contract.QueuePaused{By: "bob", Reason: "a release", At: at}, Entries: []contract.QueueEntry{merged}}
	for i := range 2 {
		ended, err := mergequeues.Save(t.Context(), f.Store, save)
		require.NoError(t, err)
		require.Equal(t, 1-i, ended[contract.QueueMerged], "it is counted once")
	}
	_, err := mergequeues.Save(t.Context(), f.Store, first)
	require.NoError(t, err)
	q = list(t, f)
	require.Equal(t, "bob", q.PausedBy)
	require.Len(t, q.Entries, 1)
	require.Len(t, q.Ended, 1)
	require.Equal(t, []any{contract.QueueMerged, "c", "t"}, []any{q.Ended[0].State, q.Ended[0].Commit, q.Ended[0].Title})
	last, queue, found, err := mergequeues.Last(t.Context(), f.Store, "work", "Team/App", 2)
	require.NoError(t, err)
	require.True(t, found)
	require.Equal(t, []any{ref, contract.QueueMerged}, []any{queue, last.State})
	_, _, found, err = mergequeues.Last(t.Context(), f.Store, "work", "team/app", 3)
	require.NoError(t, err)
	require.False(t, found)
}

func TestWhatATerminatedQueueLeftBehindIsReturned(t *testing.T) {
	t.Parallel()
	f := storetest.Setup(t)
	_, err := mergequeues.Save(t.Context(), f.Store, contract.QueueSave{Queue: ref, Version: 2, First: true, Entries: []contract.QueueEntry{entry(1, contract.QueueTesting, 2)}})
	require.NoError(t, err)
	ended, err := mergequeues.Save(t.Context(), f.Store, contract.QueueSave{Queue: ref, Version: 12, First: true, Entries: []contract.QueueEntry{entry(2, contract.QueueWaiting, 11)}})
	require.NoError(t, err)
	require.Equal(t, 1, ended[contract.QueueReturned])
	q := list(t, f)
	require.Len(t, q.Entries, 1)
	require.Contains(t, q.Ended[0].Reason, "add the pull request again")
}

func TestCommandsOfPeopleAreEntriesOfTheLedger(t *testing.T) {
	t.Parallel()
	f := storetest.Setup(t)
	before, _, err := chain.Head(t.Context(), f.Store)
	require.NoError(t, err)
	save := contract.QueueSave{Queue: ref, Version: 2, Commands: []contract.QueueCommand{
		{ID: "1", Action: contract.QueueAdd, Number: 7, By: "ann", Reason: "it is urgent"}, {ID: "2", Action: contract.QueuePause, By: "api"},
		{ID: "3", Action: contract.QueueAdd, Number: 8, By: contract.BySystem},
	}}
	for range 2 {
		_, err := mergequeues.Save(t.Context(), f.Store, save)
		require.NoError(t, err)
	}
	entries, err := chain.List(t.Context(), f.Store, chain.Filter{Limit: 1000})
	require.NoError(t, err)
	var got []string
	for _, e := range entries {
		if e.Seq > before {
			got = append(got, fmt.Sprintf("%s %s: %s %s", e.Actor, e.Name, e.Action, e.Object))
		}
	}
	require.ElementsMatch(t, []string{"person ann: queue.add pull request 7 of team/app", "client api: queue.pause merge queue of team/app"}, got)
	var details map[string]any
	for _, e := range entries {
		if e.Action == "queue.add" {
			require.NoError(t, json.Unmarshal(e.Details, &details))
		}
	}
	require.Equal(t, map[string]any{"forge": "work", "base": "main", "reason": "it is urgent"}, details)
}

func TestAllSpellingsOfARepositoryNameOneQueue(t *testing.T) {
	t.Parallel()
	f := storetest.Setup(t)
	named := func(repo string) (contract.QueueRef, bool) {
		t.Helper()
		got, found, err := mergequeues.Named(t.Context(), f.Store, contract.QueueRef{Forge: "work", Repo: repo, Base: "main"})
		require.NoError(t, err)
		return got, found
	}
	save := func(repo string, version int64, entries ...contract.QueueEntry) {
		t.Helper()
		_, err := mergequeues.Save(t.Context(), f.Store, contract.QueueSave{
			Queue: contract.QueueRef{Forge: "work", Repo: repo, Base: "main"}, Version: version, Entries: entries,
		})
		require.NoError(t, err)
	}
	got, found := named("Team/App")
	require.False(t, found)
	require.Equal(t, "Team/App", got.Repo)
	save("team/app", 2)
	save("team/other", 2)
	got, found = named("Team/App")
	require.True(t, found)
	require.Equal(t, ref, got)

	// An earlier version stored another one, which has pull requests.
	save("Team/App", 2, entry(1, contract.QueueWaiting, 2))
	got, _ = named("team/app")
	require.Equal(t, "Team/App", got.Repo, "where pull requests are")
	save("team/app", 3, entry(2, contract.QueueWaiting, 3))
	got, _ = named("team/app")
	require.Equal(t, "Team/App", got.Repo, "all callers choose the same one")
	save("Team/App", 4, entry(1, contract.QueueMerged, 4))
	got, _ = named("TEAM/APP")
	require.Equal(t, "team/app", got.Repo)

	_, err := mergequeues.Save(t.Context(), f.Store, contract.QueueSave{
		Queue: contract.QueueRef{Forge: "work", Repo: "Team/App", Base: "main"}, Version: 5, Paused: &contract.QueuePaused{By: "ann", At: time.Now()},
	})
	require.NoError(t, err)
	got, _ = named("Team/App")
	require.Equal(t, "team/app", got.Repo, "one with pull requests comes before one that is only paused")
	other, _, err := mergequeues.Named(t.Context(), f.Store, contract.QueueRef{Forge: "work", Repo: "team/app", Base: "Main"})
	require.NoError(t, err)
	require.Equal(t, "Main", other.Base, "the case of branches counts")
}
