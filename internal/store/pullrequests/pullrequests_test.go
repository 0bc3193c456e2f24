package pullrequests_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/internal/store/pullrequests"
	"github.com/rocketgpt/orchestrator/internal/storetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(storetest.Main(m)) }

func newRun(t *testing.T, st *store.Store) int64 {
	t.Helper()
	run, _, err := st.CreateRun(t.Context(), storetest.Filled(store.NewRun{}))
	require.NoError(t, err)
	return run.ID
}

func seven(run int64) contract.PullRequest {
	return contract.PullRequest{
		RunID: run, Forge: "work", Repo: "team/app", Number: 7, URL: "https://git.example.com/team/app/pulls/7", Title: "Add dark mode",
		Head: "rgpt/run-1", Base: "main", Commit: "c0ffee", State: contract.PullRequestOpen,
	}
}

func eventsOf(t *testing.T, st *store.Store, run int64) (out []contract.EventType) {
	t.Helper()
	all, err := st.Events(t.Context(), run, 0, 100)
	require.NoError(t, err)
	for _, e := range all {
		if e.Type != contract.EventRunCreated {
			out = append(out, e.Type)
		}
	}
	return out
}

func TestEachChangeOfAPullRequestIsOneEventHoweverOftenItIsStored(t *testing.T) {
	t.Parallel()
	st := storetest.New(t)
	run := newRun(t, st)
	p := seven(run)
	save := func(opened bool) {
		for range 2 {
			require.NoError(t, pullrequests.Save(t.Context(), st, p, opened))
		}
	}
	save(true)
	p.Notes = []string{"ann could not be asked for a review"}
	save(true) // no event: only a note
	p.Commit = "decaf"
	save(true)
	p.State = contract.PullRequestMerged
	save(true)
	require.Equal(t, []contract.EventType{contract.EventPullRequestOpened, contract.EventPullRequestUpdated, contract.EventPullRequestMerged}, eventsOf(t, st, run))
	all, err := pullrequests.Of(t.Context(), st, run)
	require.NoError(t, err)
	require.Len(t, all, 1)
	require.Equal(t, contract.PullRequestMerged, all[0].State)
	require.Equal(t, p.Notes, all[0].Notes)
}

func TestARunThatContinuesABranchUpdatesItsPullRequest(t *testing.T) {
	t.Parallel()
	st := storetest.New(t)
	first, second := newRun(t, st), newRun(t, st)
	require.NoError(t, pullrequests.Save(t.Context(), st, seven(first), true))
	require.NoError(t, pullrequests.Save(t.Context(), st, seven(second), false))
	require.Equal(t, []contract.EventType{contract.EventPullRequestUpdated}, eventsOf(t, st, second))
	require.Error(t, pullrequests.Save(t.Context(), st, seven(second+1), true), "a run that does not exist")
}

func TestPullRequestsAreListedNewestFirstPageByPage(t *testing.T) {
	t.Parallel()
	st := storetest.New(t)
	run := newRun(t, st)
	for n := int64(1); n <= 5; n++ {
		p := seven(run)
		p.Number = n
		if n == 2 {
			p.State = contract.PullRequestClosed
		}
		require.NoError(t, pullrequests.Save(t.Context(), st, p, true))
	}
	var seen []int64
	for before := int64(0); ; {
		page, err := pullrequests.List(t.Context(), st, contract.PullRequestOpen, before, 2)
		require.NoError(t, err)
		for _, p := range page.PullRequests {
			seen = append(seen, p.Number)
		}
		if before = page.Next; before == 0 {
			break
		}
	}
	require.Equal(t, []int64{5, 4, 3, 1}, seen)
}
