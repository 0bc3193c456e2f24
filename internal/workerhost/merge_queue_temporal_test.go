package workerhost

import (
	"compress/gzip"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/history/v1"
	"go.temporal.io/api/temporalproto"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/worker"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/await"
	"github.com/rocketgpt/orchestrator/internal/config"
	"github.com/rocketgpt/orchestrator/internal/control"
	"github.com/rocketgpt/orchestrator/internal/forge"
	"github.com/rocketgpt/orchestrator/internal/forge/forgetest"
	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/internal/store/mergequeues"
	"github.com/rocketgpt/orchestrator/internal/store/verdicts"
	"github.com/rocketgpt/orchestrator/internal/store/views"
	"github.com/rocketgpt/orchestrator/internal/storetest"
	"github.com/rocketgpt/orchestrator/internal/temporal/temporaltest"
	"github.com/rocketgpt/orchestrator/workflows"
)

// recordEnv names a directory in which the history of this test's queue is recorded for the replay test.
const recordEnv = "RGPT_RECORD_QUEUE"

// startQueueWorkers starts the workers that a merge queue needs. The returned function stops them.
func (w *queueWorld) startQueueWorkers(t *testing.T, c client.Client) (halt func()) {
	t.Helper()
	cfg := config.Default()
	cfg.Worker.StopTimeout = 0 // what runs is lost
	options := workerOptions(Options{Config: cfg, Log: w.parts.Log, tasks: &tasks{}})
	run, releaser := worker.New(c, contract.QueueRun, options), worker.New(c, contract.QueueReleaser, options)
	workflows.RegisterMergeQueue(run)
	for name, f := range map[string]any{
		contract.ActivityQueueSave: w.parts.SaveQueue, contract.ActivityQueueCandidate: w.parts.QueueCandidate, contract.ActivityQueueChecks: w.parts.QueueChecks,
		contract.ActivityQueueMerge: w.parts.QueueMerge, contract.ActivityQueueReturn: w.parts.QueueReturn, contract.ActivityQueueCleanUp: w.parts.QueueCleanUp,
	} {
		for _, r := range []worker.Worker{run, releaser} {
			r.RegisterActivityWithOptions(f, activity.RegisterOptions{Name: name})
		}
	}
	workers := []worker.Worker{run, releaser}
	for _, r := range workers {
		require.NoError(t, r.Start())
	}
	return func() { stop(workers) }
}

// TestAQueueContinuesWhereItsWorkersStopped runs a queue on a real Temporal, stops its workers again and
// again, and replays its history.
func TestAQueueContinuesWhereItsWorkersStopped(t *testing.T) {
	t.Parallel()
	w := newQueueWorld(t)
	c := temporaltest.Connect(t)
	w.parts.Temporal = c
	halt := w.startQueueWorkers(t, c)
	runs := w.control(t, c)
	var bad int64
	for i := range 6 {
		file := fmt.Sprintf("file-%d.txt", i)
		if i == 3 {
			file = "broken/" + file
		}
		pr := w.green(t, fmt.Sprintf("change-%d", i), file)
		if i == 3 {
			bad = pr.Number
		}
		add := control.QueueRequest{Action: contract.QueueAdd, PullRequest: pr.URL, By: "ann", Key: fmt.Sprint("add/", i)}
		for range 2 { // the second one is a repeat, with another spelling of the repository
			ack, err := runs.CommandQueue(t.Context(), add)
			require.NoError(t, err)
			require.NotEmpty(t, ack.Message)
			add.PullRequest = strings.Replace(pr.URL, queuedRepo, strings.ToUpper(queuedRepo), 1)
		}
	}
	_, err := runs.CommandQueue(t.Context(), control.QueueRequest{Action: contract.QueueSkip, PullRequest: w.hub.URL() + "/" + queuedRepo + "/pull/999"})
	require.ErrorContains(t, err, "pull request 999 of octo/app is not in a merge queue")
	for ref, why := range map[contract.QueueRef]string{
		{Repo: queuedRepo, Base: "no-such-branch"}: "no-such-branch", {Repo: queuedRepo, Base: "change-1"}: "no pull request was added to it yet",
	} {
		_, err = runs.CommandQueue(t.Context(), control.QueueRequest{Action: contract.QueuePause, Queue: ref})
		require.ErrorContains(t, err, why)
	}
	for _, action := range []contract.QueueAction{contract.QueuePause, contract.QueueResume} {
		ack, err := runs.CommandQueue(t.Context(), control.QueueRequest{Action: action, Queue: contract.QueueRef{Repo: strings.ToUpper(queuedRepo)}})
		require.NoError(t, err)
		require.True(t, ack.Applied, "forges ignore the case of paths")
	}
	ended := func() (q mergequeues.MergeQueue) {
		all, err := mergequeues.List(t.Context(), w.parts.Store, mergequeues.Filter{Ended: 100})
		require.NoError(t, err)
		require.Len(t, all, 1)
		return all[0]
	}
	for n := 1; n <= 4; n++ {
		await.Until(t, "another pull request left the queue", func() bool { return len(ended().Ended) >= n })
		halt()
		halt = w.startQueueWorkers(t, c)
	}
	await.Until(t, "the queue is empty", func() bool { q := ended(); return len(q.Ended) == 6 && len(q.Entries) == 0 })
	id := contract.MergeQueueWorkflowID(w.ref)
	first := c.GetWorkflow(t.Context(), id, "")
	require.NoError(t, first.Get(t.Context(), nil))
	halt()
	for _, e := range ended().Ended {
		want := contract.QueueMerged
		if e.Number == bad {
			want = contract.QueueReturned
		}
		require.Equal(t, want, e.State, e.Reason)
	}
	comments, err := w.ci.Comments(t.Context(), queuedRepo, forge.OnPullRequest(bad), time.Time{})
	require.NoError(t, err)
	require.Len(t, comments, 1)
	require.Len(t, gitLines(w.ci.repo.Dir(), "rev-list", "--first-parent", "main"), 2+5, "each was merged once")

	w.addsWhatIsReady(t, c, runs)

	recorded := queueHistory(t, c, id, first.GetRunID())
	replayer := worker.NewWorkflowReplayer()
	workflows.RegisterMergeQueue(replayer)
	require.NoError(t, replayer.ReplayWorkflowHistory(nil, recorded))
	if dir := os.Getenv(recordEnv); dir != "" {
		recordQueue(t, filepath.Join(dir, "merge-queue.json.gz"), recorded)
	}
}

// control returns the operations on runs with the forge in their configuration.
func (w *queueWorld) control(t *testing.T, c client.Client) *control.Runs {
	t.Helper()
	token := filepath.Join(t.TempDir(), "token")
	require.NoError(t, os.WriteFile(token, []byte(forgetest.BotToken), 0o600))
	cfg := config.Default()
	cfg.Forges = map[string]config.Forge{"hub": {Kind: "github", URL: w.hub.URL(), TokenFile: token, Timeout: 20 * time.Second}}
	cfg.Git.PullRequest.Merge.CheckPoll = 10 * time.Millisecond
	return &control.Runs{Store: w.parts.Store, Views: views.New(w.parts.Store), Temporal: c, Config: cfg}
}

// green opens a pull request whose own check succeeded.
func (w *queueWorld) green(t *testing.T, branch, file string) forge.PullRequest {
	t.Helper()
	head := w.ci.repo.Push(branch, map[string]string{file: "text\n"})
	pr, err := w.ci.CreatePullRequest(t.Context(), queuedRepo, forge.NewPullRequest{Head: branch, Base: "main", Title: branch})
	require.NoError(t, err)
	require.NoError(t, w.ci.SetStatus(t.Context(), queuedRepo, head, forge.Status{Context: "ci", State: forge.CheckSuccess}))
	return pr
}

// addsWhatIsReady requires that the pull request of a run is added by policy, once, and only if the gate
// judged what would be merged.
func (w *queueWorld) addsWhatIsReady(t *testing.T, c client.Client, runs *control.Runs) {
	t.Helper()
	defer w.startQueueWorkers(t, c)()
	run, _, err := w.parts.Store.CreateRun(t.Context(), storetest.Filled(store.NewRun{}))
	require.NoError(t, err)
	pr := w.green(t, "of-a-run", "of-a-run.txt")
	offer := func(run int64, pr forge.PullRequest) bool {
		t.Helper()
		require.NoError(t, runs.QueueReady(t.Context(), func(string) (forge.Service, error) { return w.ci, nil }, "hub", queuedRepo, pr, run))
		has, err := mergequeues.Has(t.Context(), w.parts.Store, w.ref, fmt.Sprintf("auto/%d/%s", pr.Number, pr.HeadCommit))
		require.NoError(t, err)
		return has
	}
	w.releases(t, run.ID, pr.HeadCommit, 1)
	require.False(t, offer(run.ID, pr), "the settings do not say so")
	runs.Config.Git.PullRequest.Merge.When = config.MergeApproved
	require.False(t, offer(run.ID, pr), "the gate has not judged it")
	judged := contract.GateRecord{
		RunID: run.ID, Stage: contract.GateRelease, Author: string(contract.AgentBuilder), Subject: "one", From: run.Settings.Repo.Tree, Tree: "b", Decision: contract.GateAllow,
	}
	w.judges(t, judged)
	require.False(t, offer(run.ID, pr), "no person has approved it")
	judged.Subject, judged.Automerge = "two", true
	w.judges(t, judged)
	unjudged := pr
	unjudged.HeadCommit = w.ci.repo.Head("main")
	require.False(t, offer(run.ID, unjudged), "people have pushed")
	judged.Subject, judged.From = "three", "what people pushed"
	w.judges(t, judged)
	require.False(t, offer(run.ID, pr), "what people pushed before was not judged")
	w.takesTheApproved(t, runs, offer, run.ID, pr)
	w.leavesWhatContinuesABranch(t, offer, run.ID)

	judged.Subject, judged.From = "four", run.Settings.Repo.Tree
	w.judges(t, judged)
	require.True(t, offer(run.ID, pr))
	await.Until(t, "it is merged", func() bool {
		e, _, _, err := mergequeues.Last(t.Context(), w.parts.Store, "hub", queuedRepo, pr.Number)
		return err == nil && e.State == contract.QueueMerged && e.RunID == run.ID
	})
	require.True(t, offer(run.ID, pr))
	require.NoError(t, c.GetWorkflow(t.Context(), contract.MergeQueueWorkflowID(w.ref), "").Get(t.Context(), nil))
	w.returnsWhatIsPushedLater(t, runs, offer)
}

// releases notes that a run has released a commit.
func (w *queueWorld) releases(t *testing.T, run int64, commit string, seq int64) {
	t.Helper()
	until := time.Now().Add(time.Hour)
	record(t, w.parts.Store, run, "first", contract.Record{
		Seq: seq, Run: &contract.RunChange{
			Phase: contract.PhaseReleaser, Status: contract.StatusDone, Branch: "rgpt/run", Commit: commit, Finished: true, Staying: true, StayingUntil: &until,
		},
		Events: []contract.EventDraft{{Type: contract.EventRunUpdated}},
	})
}

// judges stores a verdict of the gate.
func (w *queueWorld) judges(t *testing.T, v contract.GateRecord) {
	t.Helper()
	_, err := verdicts.Save(t.Context(), w.parts.Store, "p", v, verdicts.Basis{Input: []byte("{}")})
	require.NoError(t, err)
}

// takesTheApproved requires that a pull request of which the gate judged only a part is added if a person
// has approved it on the forge.
func (w *queueWorld) takesTheApproved(t *testing.T, runs *control.Runs, offer func(int64, forge.PullRequest) bool, run int64, pr forge.PullRequest) {
	t.Helper()
	merge := &runs.Config.Git.PullRequest.Merge
	merge.Approvals = 1
	defer func() { merge.Approvals = 0 }()
	require.False(t, offer(run, pr))
	other := w.green(t, "approved", "approved.txt")
	w.ci.repo.Approve(other.Number)
	require.False(t, offer(run, other), "the run has not released it")
	w.releases(t, run, other.HeadCommit, 2)
	require.True(t, offer(run, other), "a person has approved all of it")
	w.releases(t, run, pr.HeadCommit, 3)
}

// leavesWhatContinuesABranch requires that a run which continues a branch is not merged because the gate
// allows what it added.
func (w *queueWorld) leavesWhatContinuesABranch(t *testing.T, offer func(int64, forge.PullRequest) bool, earlier int64) {
	t.Helper()
	n := storetest.Filled(store.NewRun{})
	n.Settings.FollowUp = &contract.FollowUp{RunID: earlier, Branch: "rgpt/earlier"}
	run, _, err := w.parts.Store.CreateRun(t.Context(), n)
	require.NoError(t, err)
	pr := w.green(t, "continued", "continued.txt")
	w.releases(t, run.ID, pr.HeadCommit, 1)
	w.judges(t, contract.GateRecord{
		RunID: run.ID, Stage: contract.GateRelease, Author: string(contract.AgentBuilder), Subject: "one", From: run.Settings.Repo.Tree, Tree: "b", Decision: contract.GateAllow, Automerge: true,
	})
	require.False(t, offer(run.ID, pr))
}

// returnsWhatIsPushedLater requires that a push after a pull request was added by policy is not merged.
func (w *queueWorld) returnsWhatIsPushedLater(t *testing.T, runs *control.Runs, offer func(int64, forge.PullRequest) bool) {
	t.Helper()
	command := func(action contract.QueueAction) {
		_, err := runs.CommandQueue(t.Context(), control.QueueRequest{Action: action, Queue: w.ref, By: "ann"})
		require.NoError(t, err)
	}
	run, _, err := w.parts.Store.CreateRun(t.Context(), storetest.Filled(store.NewRun{}))
	require.NoError(t, err)
	pr := w.green(t, "overtaken", "overtaken.txt")
	w.releases(t, run.ID, pr.HeadCommit, 1)
	w.judges(t, contract.GateRecord{
		RunID: run.ID, Stage: contract.GateRelease, Author: string(contract.AgentBuilder), Subject: "one", From: run.Settings.Repo.Tree, Tree: "b", Decision: contract.GateAllow, Automerge: true,
	})
	command(contract.QueuePause)
	require.True(t, offer(run.ID, pr))
	main := w.ci.repo.Head("main")
	w.ci.repo.Push("overtaken", map[string]string{"by-hand.txt": "text\n"})
	command(contract.QueueResume)
	await.Until(t, "it is returned", func() bool {
		e, _, _, err := mergequeues.Last(t.Context(), w.parts.Store, "hub", queuedRepo, pr.Number)
		return err == nil && e.State == contract.QueueReturned && e.Reason == "it has newer commits than when it was added"
	})
	require.Equal(t, main, w.ci.repo.Head("main"))
}

// queueHistory returns the history of a workflow.
func queueHistory(t *testing.T, c client.Client, id, execution string) *history.History {
	t.Helper()
	out := &history.History{}
	events := c.GetWorkflowHistory(context.WithoutCancel(t.Context()), id, execution, false, enumspb.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
	for events.HasNext() {
		e, err := events.Next()
		require.NoError(t, err)
		out.Events = append(out.Events, e)
	}
	return out
}

// recordQueue writes a history in the form of the recorded ones.
func recordQueue(t *testing.T, file string, h *history.History) {
	t.Helper()
	raw, err := temporalproto.CustomJSONMarshalOptions{}.Marshal(h)
	require.NoError(t, err)
	f, err := os.Create(file)
	require.NoError(t, err)
	z := gzip.NewWriter(f)
	_, err = z.Write(raw)
	require.NoError(t, err)
	require.NoError(t, z.Close())
	require.NoError(t, f.Close())
}
