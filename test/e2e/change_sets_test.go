package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/apitypes"
	"github.com/rocketgpt/orchestrator/internal/devstack"
	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/internal/store/changesets"
	"github.com/rocketgpt/orchestrator/internal/store/mergequeues"
	"github.com/rocketgpt/orchestrator/test/gitea"
	"github.com/rocketgpt/orchestrator/test/harness"
)

// TestSeveralRepositoriesAreReleasedTogether changes several repositories on a real Gitea.
func TestSeveralRepositoriesAreReleasedTogether(t *testing.T) {
	t.Parallel()
	rules := first(quickRules("20ms"),
		rule(on("agent", "builder", "contains", `Here, only "clone-bad`), calls(call("create_file", "path", "bad.txt", "content", ""), harness.Finish("done")), 300),
	).Named("together")
	w := startForge(t, gitea.Start(t), rules, "poll: 1s, poll_limit: 10000", "merge: {when: approved, approvals: 1, checks: [ci/tone], check_poll: 200ms}",
		"execution: {max_retries: 0, step: {finish_checks: false}}\n")
	t.Run("all of them, linked", w.linked)
	t.Run("two of three, which name the third", w.incomplete)
	t.Run("one of two, once a person who was asked says so", w.setHeld)
	t.Run("after the worker was killed between the first and the second", w.linkedAfterKill)
	t.Run("none, because the set was stopped, but for the one that is resumed", w.setStopped)
	t.Run("all of them, which the merge queues of their repositories merge once all are approved", w.setMerged)
	harness.CheckInvariants(t, w.Stack, w.runs...)
}

// changeSet creates a change set of clones, and returns it with their paths on the forge.
func (w *forgeTests) changeSet(t *testing.T, names []string, args ...string) (changesets.Set, []string) {
	t.Helper()
	return w.changeSetWith(t, nil, names, args...)
}

// changeSetWith is changeSet with more environment variables of rgpt.
func (w *forgeTests) changeSetWith(t *testing.T, env, names []string, args ...string) (changesets.Set, []string) {
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
	r := w.RunWith(t, w.Work, env, "", append(all, args...)...)
	require.Zero(t, r.Code, "%s", r)
	r.JSON(t, &made)
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

func (w *forgeTests) setHeld(t *testing.T) {
	set, paths := w.changeSetWith(t, []string{"RGPT_GIT__CHANGE_SET__INCOMPLETE=hold"}, []string{"asks", "bad-too"})
	asked := func() (n int) { return countEvents(w.Inspect(t, set.Runs[0].RunID), contract.EventChangeSetWaiting) }
	harness.Await(t, "the question to a person", longest, func() (bool, string) {
		return asked() > 0, w.OK(t, "set", "inspect", arg(set.ID)).Stdout
	})
	require.Contains(t, w.OK(t, "set", "inspect", arg(set.ID)).Stdout, "rgpt set release "+arg(set.ID))
	w.Kill(t, devstack.RoleWorker)
	w.Up(t)
	w.OK(t, "set", "release", arg(set.ID), "--reason", "the other one follows")
	set = w.ended(t, set)
	require.Equal(t, contract.OutcomeIncomplete, set.Outcome)
	require.Nil(t, set.WaitingSince)
	require.Equal(t, 1, asked())
	require.Equal(t, 1, countEvents(w.Inspect(t, set.Runs[0].RunID), contract.EventChangeSetResolved))
	pulls := w.pulls(t, paths[0])
	require.Len(t, pulls, 1)
	require.False(t, pulls[0].Draft)
	require.Contains(t, pulls[0].Body, "**missing**: it failed")
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
	for _, m := range set.Runs {
		w.AwaitStatus(t, w.Store(t), m.RunID, contract.StatusWaitingForApproval, longest)
	}
	w.OK(t, "run", "approve", arg(set.Runs[0].RunID))
	w.AwaitRun(t, w.Store(t), set.Runs[0].RunID, "ready", longest, func(r store.Run) bool { return r.WaitingFor == contract.WaitsForChangeSet })
	w.OK(t, "set", "stop", arg(set.ID), "--reason", "another day")
	set = w.ended(t, set)
	require.Equal(t, contract.OutcomeStopped, set.Outcome)
	for i, path := range paths {
		require.Equal(t, contract.StatusCancelled, set.Runs[i].Status)
		require.Empty(t, w.pulls(t, path))
	}
	w.OK(t, "run", "resume", arg(set.Runs[0].RunID), "--reason", "this one is wanted")
	w.AwaitStatus(t, w.Store(t), set.Runs[0].RunID, contract.StatusDone, longest)
	set = w.ended(t, set)
	require.Equal(t, contract.OutcomeStopped, set.Outcome, "the decision stays")
	require.Equal(t, contract.StatusCancelled, set.Runs[1].Status)
	require.Empty(t, w.pulls(t, paths[1]))
	pulls := w.pulls(t, paths[0])
	require.Len(t, pulls, 1)
	require.False(t, pulls[0].Draft)
	require.Contains(t, pulls[0].Body, "**missing**: it was stopped")
	require.Equal(t, 1, countEvents(w.Inspect(t, set.Runs[0].RunID), contract.EventApprovalRequested), "what was approved is not asked for again")
}

// setMerged lets people approve the pull requests of a set. The merge queue of neither repository takes its
// pull request before the other one is approved, too.
func (w *forgeTests) setMerged(t *testing.T) {
	set, paths := w.changeSet(t, []string{"left", "right"}, "--stay", "1h")
	approves := func(i int) {
		run := w.AwaitRun(t, w.Store(t), set.Runs[i].RunID, "with its branch", longest, func(r store.Run) bool { return r.StayingUntil != nil })
		w.forge.Status(t, paths[i], run.ReleaseCommit, "ci/tone", "success", "kind")
		w.forge.Do(t, w.forge.Reviewer, http.MethodPost, fmt.Sprintf("/repos/%s/pulls/%d/reviews", paths[i], w.pulls(t, paths[i])[0].Number),
			map[string]any{"event": "APPROVED", "body": "Good.", "commit_id": run.ReleaseCommit}, nil)
	}
	approves(0)
	for range 3 { // after the first look that sees the approval, there is another one
		w.looksForApprovals(t, paths[0])
	}
	require.Empty(t, w.queues(t, paths[0]))
	approves(1)
	for _, path := range paths {
		w.forge.Status(t, path, w.queued(t, path), "ci/tone", "success", "together")
	}
	for i, m := range set.Runs {
		w.AwaitRun(t, w.Store(t), m.RunID, "alone", longest, func(r store.Run) bool { return r.StayingUntil == nil })
		queue := contract.MergeQueueWorkflowID(contract.QueueRef{Forge: "work", Repo: paths[i], Base: "main"})
		require.NoError(t, w.Temporal(t).GetWorkflow(t.Context(), queue, "").Get(t.Context(), nil), "it ends when it is empty")
		queues := w.queues(t, paths[i])
		require.Len(t, queues, 1)
		require.Empty(t, queues[0].Entries)
		require.Len(t, queues[0].Ended, 1, "it was added once")
		require.Equal(t, contract.QueueMerged, queues[0].Ended[0].State)
	}
	set = w.ended(t, set)
	require.Equal(t, contract.OutcomeComplete, set.Outcome)
	for i, m := range set.Runs {
		require.Equal(t, contract.PullRequestMerged, m.PullRequest.State)
		require.Equal(t, "closed", w.pulls(t, paths[i])[0].State)
	}
	require.NoError(t, w.Temporal(t).GetWorkflow(t.Context(), contract.ChangeSetWorkflowID(set.ID), "").Get(t.Context(), nil), "nothing is left to follow")
}

// looksForApprovals waits until the server asks for the approvals of a pull request.
func (w *forgeTests) looksForApprovals(t *testing.T, path string) {
	t.Helper()
	looked := make(chan struct{})
	w.lossy.Meet(&gitea.Meeting{
		Match: func(r *http.Request) bool {
			return strings.Contains(r.URL.Path, "/"+path+"/pulls/") && strings.HasSuffix(r.URL.Path, "/reviews")
		},
		Before: func() { close(looked) },
	})
	select {
	case <-looked:
	case <-time.After(longest):
		require.FailNow(t, "nothing asks for the approvals of "+path)
	}
}

// queues returns the merge queues of a repository.
func (w *forgeTests) queues(t *testing.T, path string) []mergequeues.MergeQueue {
	t.Helper()
	var list apitypes.MergeQueues
	w.OK(t, "queue", "list", "--repository", path, "--json").JSON(t, &list)
	return list.MergeQueues
}
