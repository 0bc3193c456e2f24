package control

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/internal/store/changesets"
	"github.com/rocketgpt/orchestrator/internal/storetest"
	"github.com/rocketgpt/orchestrator/test/harness"
)

func TestImpossibleChangeSetsAreRefused(t *testing.T) {
	t.Parallel()
	runs, _ := chooser(t, t.TempDir())
	two := []RepositoryGoal{{Repo: "/a"}, {Repo: "/b"}}
	many := []RepositoryGoal{}
	for i := range 11 {
		many = append(many, RepositoryGoal{Repo: filepath.Join("/", string(rune('a'+i)))})
	}
	for name, c := range map[string]struct {
		creation Creation
		says     string
	}{
		"one more repository": {Creation{Repo: "/c", Repositories: two}, "cannot be combined"},
		"a base for all":      {Creation{Base: "main", Repositories: two}, "cannot be combined"},
		"only one":            {Creation{Repositories: two[:1]}, "only one repository"},
		"only a plan":         {Creation{PlanOnly: true, Repositories: two}, "--plan-only"},
		"a given plan":        {Creation{Plan: &contract.Plan{}, Repositories: two}, "--plan"},
		"attempts":            {Creation{Attempts: 2, Repositories: two}, "--attempts"},
		"no address":          {Creation{Repositories: []RepositoryGoal{{Repo: "/a"}, {}}}, "repository 2"},
		"the same twice":      {Creation{Repositories: []RepositoryGoal{{Repo: "/a"}, {Repo: "/x/../a"}}}, "named twice"},
		"more than allowed":   {Creation{Repositories: many}, "git.change_set.max"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c.creation.Goal = "x"
			_, err := runs.Create(t.Context(), c.creation)
			require.ErrorContains(t, err, c.says)
		})
	}
}

func TestAChangeSetHasOneRunForEachRepositoryAndIsCreatedOnce(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	runs, f := chooser(t, dir)
	runs.Config.Execution.ConcurrentRuns = 1 // the runs are queued, and the first one of the fixture is in progress
	creation := Creation{Goal: "Rename the field", Description: "user to login", Key: "k", By: "mara"}
	for _, name := range []string{"api", "web"} {
		creation.Repositories = append(creation.Repositories, RepositoryGoal{Repo: harness.Repo(t, filepath.Join(dir, name), map[string]string{"a": name})})
	}
	creation.Repositories[1].Goal = "also in the forms"
	made, err := runs.Create(t.Context(), creation)
	require.NoError(t, err)
	require.True(t, made.Fresh)
	require.Len(t, made.ChangeSet.Runs, 2)
	require.Equal(t, "mara", made.ChangeSet.CreatedBy)
	require.Equal(t, runs.Config.Execution.Run.CostUSD.Int64(), made.ChangeSet.Settings.MicroUSD)
	var descriptions []string
	for i, m := range made.ChangeSet.Runs {
		run, err := f.Run(t.Context(), m.RunID)
		require.NoError(t, err)
		require.Equal(t, creation.Repositories[i].Repo, run.Repo)
		require.Equal(t, "Rename the field", run.GoalTitle)
		descriptions = append(descriptions, run.GoalDescription)
	}
	require.Contains(t, descriptions[0], "- web: also in the forms")
	require.Contains(t, descriptions[1], "In this repository: also in the forms")
	again, err := runs.Create(t.Context(), creation)
	require.NoError(t, err)
	require.False(t, again.Fresh)
	require.Equal(t, made.ChangeSet.ID, again.ChangeSet.ID)
	other := creation
	other.Repositories = creation.Repositories[:1]
	_, err = runs.Create(t.Context(), other)
	require.Error(t, err)
	page, err := runs.ChangeSets(t.Context(), 0, 10)
	require.NoError(t, err)
	require.Len(t, page.Sets, 1)
}

func TestARunIsAddedToAMergeQueueByItselfOnlyIfNothingOfItsSetIsMissing(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	runs, f := chooser(t, dir)
	runs.Config.Execution.ConcurrentRuns = 1
	creation := Creation{Goal: "x"}
	for _, name := range []string{"api", "web"} {
		creation.Repositories = append(creation.Repositories, RepositoryGoal{Repo: harness.Repo(t, filepath.Join(dir, name), map[string]string{"a": name})})
	}
	made, err := runs.Create(t.Context(), creation)
	require.NoError(t, err)
	first := made.ChangeSet.Runs[0].RunID
	_, ready, err := runs.siblingsReady(t.Context(), nil, first, contract.MergePolicy{})
	require.NoError(t, err)
	require.False(t, ready, "the other one has no pull request")
	after, err := f.Run(t.Context(), first)
	require.NoError(t, err)
	followed := after.Settings
	followed.ChangeSet, followed.FollowUp = nil, &contract.FollowUp{RunID: first, Branch: "rgpt/1"}
	next, _, err := f.CreateRun(t.Context(), storetest.Filled(store.NewRun{Settings: followed}))
	require.NoError(t, err)
	_, ready, err = runs.siblingsReady(t.Context(), nil, next.ID, contract.MergePolicy{})
	require.NoError(t, err)
	require.False(t, ready, "a follow-up changes the pull request of the set")
	_, ready, err = runs.siblingsReady(t.Context(), nil, f.First.ID, contract.MergePolicy{})
	require.NoError(t, err)
	require.True(t, ready, "a run that belongs to no set")
}

func TestASetOfWhichNothingIsReadyIsNotReleased(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	runs, f := chooser(t, dir)
	set, _, err := changesets.Create(t.Context(), f.Store, changesets.New{Tenant: "local", Title: "x"})
	require.NoError(t, err)
	_, err = runs.ReleaseChangeSet(t.Context(), set.ID, contract.Command{By: "mara"})
	require.ErrorContains(t, err, "is ready for its release")
}

func TestAStopThatIsRefusedIsNotRecorded(t *testing.T) {
	t.Parallel()
	runs, f := chooser(t, t.TempDir())
	set, _, err := changesets.Create(t.Context(), f.Store, changesets.New{Tenant: "local", Title: "x"})
	require.NoError(t, err)
	_, err = runs.StopChangeSet(t.Context(), set.ID, contract.Command{By: "mara"})
	require.ErrorContains(t, err, "have ended")
	now, err := runs.ChangeSet(t.Context(), set.ID)
	require.NoError(t, err)
	require.Nil(t, now.StoppedAt)
}

func TestTheTextOfALongIssueLeavesRoomForWhatIsToBeDoneInOneRepository(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	runs, _ := chooser(t, dir)
	hub, app := onForge(t, runs)
	app.OpenIssue("Add dark mode", strings.Repeat("For all pages. ", 10000))
	creation := Creation{Issue: hub.URL() + "/octo/app/issues/1"}
	for _, name := range []string{"api", "web"} {
		creation.Repositories = append(creation.Repositories, RepositoryGoal{Repo: harness.Repo(t, filepath.Join(dir, name), map[string]string{"a": name})})
	}
	creation.Repositories[1].Goal = strings.Repeat("Also in the forms. ", 20)
	made, err := runs.Create(t.Context(), creation)
	require.NoError(t, err)
	require.Len(t, made.ChangeSet.Runs, 2)
}
