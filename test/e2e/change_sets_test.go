package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/devstack"
	"github.com/rocketgpt/orchestrator/internal/store/changesets"
	"github.com/rocketgpt/orchestrator/test/gitea"
	"github.com/rocketgpt/orchestrator/test/harness"
)

// TestSeveralRepositoriesAreReleasedTogether changes several repositories on a real Gitea.
func TestSeveralRepositoriesAreReleasedTogether(t *testing.T) {
	t.Parallel()
	rules := first(quickRules("20ms"),
		rule(on("agent", "builder", "contains", `only "clone-bad" is changed`), calls(call("create_file", "path", "bad.txt", "content", ""), harness.Finish("done")), 300),
	).Named("together")
	w := startForge(t, gitea.Start(t), rules, "", "", "execution: {max_retries: 0, step: {finish_checks: false}}\n")
	t.Run("all of them, linked", w.linked)
	t.Run("two of three, which name the third", w.incomplete)
	t.Run("after the worker was killed between the first and the second", w.linkedAfterKill)
	t.Run("none, because the set was stopped", w.setStopped)
	harness.CheckInvariants(t, w.Stack, w.runs...)
}

// changeSet creates a change set of clones, and returns it with their paths on the forge.
func (w *forgeTests) changeSet(t *testing.T, names []string, args ...string) (changesets.Set, []string) {
	t.Helper()
	all := []string{"run", "create", "--json", "--goal", harness.Goal("together"), "--pull-request"}
	var paths []string
	for _, name := range names {
		path, dir := w.clone(t, name)
		all, paths = append(all, "--repo", dir), append(paths, path)
	}
	var made struct {
		ChangeSet changesets.Set `json:"change_set"`
	}
	w.OK(t, append(all, args...)...).JSON(t, &made)
	require.Len(t, made.ChangeSet.Runs, len(names))
	for _, m := range made.ChangeSet.Runs {
		w.note(m.RunID)
	}
	return made.ChangeSet, paths
}

// ended waits until all runs of a set have ended, and returns the set.
func (w *forgeTests) ended(t *testing.T, set changesets.Set) changesets.Set {
	t.Helper()
	for _, m := range set.Runs {
		w.AwaitEnd(t, w.Store(t), m.RunID, longest)
	}
	var now changesets.Set
	require.NoError(t, json.Unmarshal([]byte(w.OK(t, "set", "inspect", arg(set.ID), "--json").Stdout), &now))
	require.NotNil(t, now.DecidedAt)
	return now
}

// links waits until the pull request of each repository links those of the others.
func (w *forgeTests) links(t *testing.T, set changesets.Set, paths []string, more ...string) {
	t.Helper()
	for i, path := range paths {
		if set.Runs[i].PullRequest == nil {
			continue
		}
		wants := more
		for j, m := range set.Runs {
			if j != i && m.PullRequest != nil {
				wants = append(wants, fmt.Sprintf("[pull request %d](%s)", m.PullRequest.Number, m.PullRequest.URL))
			}
		}
		harness.Await(t, "the links of "+path, longest, func() (bool, string) {
			pulls := w.pulls(t, path)
			require.Len(t, pulls, 1)
			for _, want := range wants {
				if !strings.Contains(pulls[0].Body, want) {
					return false, want + "\n" + pulls[0].Body
				}
			}
			return true, ""
		})
	}
}

func (w *forgeTests) linked(t *testing.T) {
	set, paths := w.changeSet(t, []string{"api", "web", "docs"})
	set = w.ended(t, set)
	require.Equal(t, contract.OutcomeComplete, set.Outcome, set.Reason)
	w.links(t, set, paths)
	for i, path := range paths {
		p := w.pulls(t, path)[0]
		require.False(t, p.Draft)
		require.NotContains(t, p.Body, "missing")
		require.NotContains(t, p.Body, "Other runs change", "what agents are told is not for people")
		w.forge.Do(t, w.forge.Owner, http.MethodPatch, fmt.Sprintf("/repos/%s/pulls/%d", path, p.Number), map[string]string{"state": "closed"}, nil)
		require.Equal(t, p.Number, set.Runs[i].PullRequest.Number)
	}
	if *recordTo != "" {
		writeHistory(t, "change-set", w.ChangeSetHistory(t, set.ID))
		writeHistory(t, "change-set-run", w.Histories(t, set.Runs[0].RunID)[0])
	}
}

func (w *forgeTests) incomplete(t *testing.T) {
	set, paths := w.changeSet(t, []string{"one", "bad", "two"})
	set = w.ended(t, set)
	require.Equal(t, contract.OutcomeIncomplete, set.Outcome, set.Reason)
	require.Equal(t, contract.StatusFailed, set.Runs[1].Status)
	require.Empty(t, w.pulls(t, paths[1]))
	w.links(t, set, paths, "It is incomplete: 1 of 3 changes are missing", "| `clone-bad` | **missing**: it failed")
	for _, i := range []int{0, 2} {
		require.True(t, w.pulls(t, paths[i])[0].Draft)
	}
}

func (w *forgeTests) linkedAfterKill(t *testing.T) {
	set, paths := w.changeSet(t, []string{"first", "second", "third"}, "--approve-release")
	for _, m := range set.Runs {
		w.AwaitStatus(t, w.Store(t), m.RunID, contract.StatusWaitingForApproval, longest)
		w.OK(t, "run", "approve", arg(m.RunID))
	}
	harness.Await(t, "the first pull request", longest, func() (bool, string) {
		for _, path := range paths {
			if len(w.pulls(t, path)) > 0 {
				return true, ""
			}
		}
		return false, ""
	})
	w.Kill(t, devstack.RoleWorker)
	w.Up(t)
	set = w.ended(t, set)
	require.Equal(t, contract.OutcomeComplete, set.Outcome, set.Reason)
	w.links(t, set, paths)
}

func (w *forgeTests) setStopped(t *testing.T) {
	set, paths := w.changeSet(t, []string{"held", "waits"}, "--approve-release")
	w.AwaitStatus(t, w.Store(t), set.Runs[1].RunID, contract.StatusWaitingForApproval, longest)
	w.OK(t, "set", "stop", arg(set.ID), "--reason", "another day")
	set = w.ended(t, set)
	require.Equal(t, contract.OutcomeStopped, set.Outcome)
	for i, path := range paths {
		require.Equal(t, contract.StatusCancelled, set.Runs[i].Status)
		require.Empty(t, w.pulls(t, path))
	}
}
