package activities_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/activities"
	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/fault"
	"github.com/rocketgpt/orchestrator/internal/forge"
	"github.com/rocketgpt/orchestrator/internal/runs/report"
	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/internal/store/changesets"
	"github.com/rocketgpt/orchestrator/internal/store/pullrequests"
)

// pulls is a forge with pull requests by their numbers.
type pulls struct {
	conversation
	all     map[int64]forge.PullRequest
	updates int
	gone    map[int64]error
	edited  string // what a person adds to the first one once the second one was looked at; "": nothing
}

func (p *pulls) Named(string) (forge.Service, error) { return p, nil }

func (p *pulls) PullRequest(_ context.Context, _ string, number int64) (forge.PullRequest, error) {
	if number == 2 && p.edited != "" {
		pr := p.all[1]
		pr.Body += p.edited
		p.all[1], p.edited = pr, ""
	}
	return p.all[number], p.gone[number]
}

func (p *pulls) UpdatePullRequest(_ context.Context, _ string, number int64, change forge.PullRequestChange) (forge.PullRequest, error) {
	pr := p.all[number]
	pr.Body = *change.Body
	p.all[number] = pr
	p.updates++
	return pr, nil
}

// linkedSet creates a change set of three runs, of which the first two were released.
func linkedSet(t *testing.T, h *fixture) (changesets.Set, *pulls) {
	t.Helper()
	n := changesets.New{Tenant: store.DefaultTenant, Title: "Rename the field", Settings: contract.ChangeSetSettings{Follow: time.Hour}}
	for _, project := range []string{"api", "web", "docs"} {
		n.Runs = append(n.Runs, store.NewRun{Tenant: store.DefaultTenant, Project: project, GoalTitle: "Rename the field", Settings: h.run.Settings, Spec: h.run.Spec})
	}
	set, _, err := changesets.Create(t.Context(), h.Store, n)
	require.NoError(t, err)
	on := &pulls{all: map[int64]forge.PullRequest{}, gone: map[int64]error{}}
	for i, m := range set.Runs {
		ends := contract.RunChange{Phase: contract.PhaseReleaser, Status: contract.StatusDone, Finished: true}
		if i == 2 {
			ends.Status, ends.Failure = contract.StatusFailed, &contract.Failure{Class: contract.ClassAssertion, Code: contract.CodeCheckFailed, Message: "red"}
		}
		_, err := h.Store.Record(t.Context(), store.Source{WorkflowID: contract.RunWorkflowID(m.RunID), WorkflowRunID: "first"}, contract.Record{RunID: m.RunID, Seq: 1, Run: &ends})
		require.NoError(t, err)
		if i == 2 {
			break
		}
		number := int64(i + 1)
		require.NoError(t, pullrequests.Save(t.Context(), h.Store, contract.PullRequest{
			RunID: m.RunID, Forge: "work", Repo: "team/" + m.Project, Number: number, URL: "https://git.example.com/" + m.Project, State: contract.PullRequestOpen,
		}, true))
		on.all[number] = forge.PullRequest{Number: number, State: forge.Open, Body: "Mine.\n" + report.ChangeSet{Set: set, Run: m.RunID}.Section()}
	}
	h.Forges = on
	return set, on
}

func (h *fixture) links(t *testing.T, set int64) contract.ChangeSetLinked {
	t.Helper()
	out, err := h.LinkChangeSet(t.Context(), set)
	require.NoError(t, err)
	return out
}

func TestPullRequestsOfASetAreLinkedOnce(t *testing.T) {
	t.Parallel()
	h := newFixture(t, "  []\n")
	set, on := linkedSet(t, h)
	require.Equal(t, contract.ChangeSetLinked{Updated: 2}, h.links(t, set.ID))
	require.Equal(t, contract.ChangeSetLinked{}, h.links(t, set.ID))
	require.Equal(t, 2, on.updates)
	require.Contains(t, on.all[1].Body, "Mine.\n")
	require.Contains(t, on.all[1].Body, "[pull request 2](https://git.example.com/web) (open)")
	require.Contains(t, on.all[2].Body, "| `docs` | **missing**: it failed (run")
}

func TestAPullRequestOfASetThatWasMergedIsShownAndStored(t *testing.T) {
	t.Parallel()
	h := newFixture(t, "  []\n")
	set, on := linkedSet(t, h)
	pr := on.all[1]
	pr.State = forge.Merged
	on.all[1] = pr
	require.Equal(t, contract.ChangeSetLinked{Updated: 1}, h.links(t, set.ID), "one that is merged stays as it is")
	require.Contains(t, on.all[2].Body, "(merged)")
	stored, err := pullrequests.Of(t.Context(), h.Store, set.Runs[0].RunID)
	require.NoError(t, err)
	require.Equal(t, contract.PullRequestMerged, stored[0].State)
	pr = on.all[2]
	pr.State = forge.Closed
	on.all[2] = pr
	require.True(t, h.links(t, set.ID).Over)
}

func TestAPartAboutASetThatAPersonRemovedIsNotAddedAgain(t *testing.T) {
	t.Parallel()
	h := newFixture(t, "  []\n")
	set, on := linkedSet(t, h)
	pr := on.all[1]
	pr.Body = "Mine."
	on.all[1] = pr
	require.Equal(t, 1, h.links(t, set.ID).Updated)
	require.Equal(t, "Mine.", on.all[1].Body)
}

func TestWhatAPersonWritesWhileASetIsLookedAtStays(t *testing.T) {
	t.Parallel()
	h := newFixture(t, "  []\n")
	set, on := linkedSet(t, h)
	on.edited = "\nSee also the wiki."
	require.Equal(t, 2, h.links(t, set.ID).Updated)
	require.Contains(t, on.all[1].Body, "See also the wiki.")
}

func TestASetIsNotFollowedForLongerThanConfiguredAlthoughARunOfItIsPaused(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 1, 2, 0, 0, 0, 0, time.UTC)
	s := changesets.Set{DecidedAt: &at, Settings: contract.ChangeSetSettings{Follow: time.Hour}, Runs: []changesets.Member{{Status: contract.StatusPaused}}}
	require.False(t, activities.Over(s, at.Add(time.Minute)))
	require.True(t, activities.Over(s, at.Add(2*time.Hour)))
	s.Settings.Follow = 0
	require.False(t, activities.Over(s, at.Add(2*time.Hour)), "all pull requests must be open first")
}

func TestAPullRequestThatCannotBeSeenDoesNotKeepTheOthersFromBeingLinked(t *testing.T) {
	t.Parallel()
	h := newFixture(t, "  []\n")
	set, on := linkedSet(t, h)
	on.gone[1] = fault.New(contract.ClassConfig, contract.CodeRepository, "no such repository")
	require.Equal(t, contract.ChangeSetLinked{Updated: 1}, h.links(t, set.ID))
	on.gone[1] = fault.New(contract.ClassInfra, contract.CodeUnavailable, "bad gateway")
	_, err := h.LinkChangeSet(t.Context(), set.ID)
	require.Equal(t, contract.ClassInfra, fault.Of(err).Class, "it is tried again")
}
