package server_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/internal/store/changesets"
	"github.com/rocketgpt/orchestrator/internal/store/pullrequests"
	"github.com/rocketgpt/orchestrator/internal/storetest"
)

// heldSet stores a change set that waits for a person, whose every text is the given one: of its runs, two are
// ready, and the third one failed.
func (b *fixture) heldSet(t *testing.T, text string) changesets.Set {
	t.Helper()
	n := changesets.New{
		Tenant: store.DefaultTenant, Title: text, CreatedBy: text,
		Settings: contract.ChangeSetSettings{Incomplete: contract.IncompleteHold, Wait: time.Hour, Follow: time.Hour, MicroUSD: 2_000_000},
	}
	for range 3 {
		run := storetest.Filled(store.NewRun{Project: text, GoalTitle: text})
		n.Runs = append(n.Runs, run)
	}
	return storetest.HeldSet(t, b.Store, n, &contract.Failure{Class: contract.ClassAssertion, Code: contract.CodeCheckFailed, Message: text})
}

func TestASetThatWaitsForAPersonIsShownWherePeopleLook(t *testing.T) {
	t.Parallel()
	b := setup(t)
	_, text := b.page(t, "/change-sets")
	require.Contains(t, text, "rgpt run create --repo")
	set := b.heldSet(t, "Rename the field")
	for _, path := range []string{"/runs", "/change-sets", "/change-sets/1", fmt.Sprintf("/runs/%d", set.Runs[0].RunID)} {
		_, text = b.page(t, path)
		require.Contains(t, text, "Change sets 1waiting", "the count beside Change sets on "+path)
	}
	page, text := b.page(t, "/runs")
	require.Contains(t, text, "Change sets waiting for you (1)")
	require.Contains(t, text, "2/3 ready")
	require.Contains(t, attributes(page, "href"), "/change-sets/1")
	_, text = b.page(t, "/runs?state=failed")
	require.NotContains(t, text, "Change sets waiting for you")
	_, text = b.page(t, "/change-sets")
	for _, want := range []string{"Waits for you", "Rename the field", "2/3"} {
		require.Contains(t, text, want)
	}
	for _, path := range []string{"/change-sets/1", fmt.Sprintf("/runs/%d", set.Runs[0].RunID)} {
		page, text = b.page(t, path)
		for _, want := range []string{"rgpt set release 1", "rgpt set stop 1", "Ready, waits", "Rename the field", "at most $2.00"} {
			require.Contains(t, text, want, path)
		}
		require.Subset(t, attributes(page, "data-command"), []string{"release-set", "stop-set"}, path)
	}
	require.Equal(t, http.StatusNotFound, b.get(t, "/change-sets/2", "text/html").Code)
	require.Equal(t, http.StatusBadRequest, b.get(t, "/change-sets?before=x", "text/html").Code)
}

func TestThePageOfASetSaysWhoDecidedWhat(t *testing.T) {
	t.Parallel()
	b := setup(t)
	set := b.heldSet(t, "Rename the field")
	require.NoError(t, pullrequests.Save(t.Context(), b.Store, contract.PullRequest{
		RunID: set.Runs[0].RunID, Forge: "work", Repo: "team/app", Number: 9, URL: "https://git.example.com/team/app/pulls/9", State: contract.PullRequestOpen, Draft: true,
	}, true))
	_, err := changesets.Release(t.Context(), b.Store, set.ID, "ann", "because")
	require.NoError(t, err)
	_, err = changesets.Decide(t.Context(), b.Store, set.ID)
	require.NoError(t, err)
	page, text := b.page(t, "/change-sets/1")
	for _, want := range []string{"Incomplete", "released by ann: because", "by ann", "#9 draft"} {
		require.Contains(t, strings.Join(strings.Fields(text), " "), want)
	}
	require.NotContains(t, attributes(page, "data-command"), "release-set")
	_, text = b.page(t, "/runs")
	require.NotContains(t, text, "Change sets waiting for you")
	_, err = changesets.Stop(t.Context(), b.Store, set.ID, "bob", "next week")
	require.NoError(t, err)
	_, text = b.page(t, "/change-sets/1")
	require.Contains(t, text, "by bob: next week")
}

func TestTheListOfChangeSetsHasParts(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for i := range 51 {
		_, _, err := changesets.Create(t.Context(), b.Store, changesets.New{Tenant: store.DefaultTenant, Title: fmt.Sprintf("goal %d.", i), Runs: []store.NewRun{storetest.Filled(store.NewRun{Project: "app"})}})
		require.NoError(t, err)
	}
	page, text := b.page(t, "/change-sets")
	require.Contains(t, text, "goal 50.")
	require.NotContains(t, text, "goal 0.")
	require.Contains(t, attributes(page, "href"), "/change-sets?before=2")
	_, text = b.page(t, "/change-sets?before=2")
	require.Contains(t, text, "goal 0.")
	require.NotContains(t, text, "goal 1.")
}

func TestNoTextOfAChangeSetBecomesPartOfAPage(t *testing.T) {
	t.Parallel()
	for _, path := range []string{"/change-sets", "/change-sets/1", "/runs"} {
		view := func(text string) (string, string) {
			b := setup(t)
			b.heldSet(t, text)
			page, said := b.page(t, path)
			return skeleton(t, page, text), said
		}
		want, _ := view("harmless")
		for _, text := range injections {
			got, said := view(text)
			requireSame(t, want, got, path+" with "+text)
			require.Contains(t, said, text, "it is shown, as text")
		}
	}
}
