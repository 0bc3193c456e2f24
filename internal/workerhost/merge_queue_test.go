package workerhost

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/url"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/worker"

	"github.com/rocketgpt/orchestrator/activities"
	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/artifact"
	"github.com/rocketgpt/orchestrator/internal/forge"
	"github.com/rocketgpt/orchestrator/internal/forge/forgehttp"
	"github.com/rocketgpt/orchestrator/internal/forge/forgetest"
	"github.com/rocketgpt/orchestrator/internal/forge/github"
	"github.com/rocketgpt/orchestrator/internal/store/mergequeues"
	"github.com/rocketgpt/orchestrator/internal/storetest"
	"github.com/rocketgpt/orchestrator/internal/workspace"
	"github.com/rocketgpt/orchestrator/workflows"
)

const queuedRepo = "octo/app"

// ci is a forge whose CI tests the commits of merge queues at once: those with a file in broken/ fail.
type ci struct {
	forge.Service
	repo *forgetest.Repository

	mu   sync.Mutex
	runs map[string]bool
}

func (c *ci) Named(string) (forge.Service, error)               { return c, nil }
func (c *ci) Remote(string, string) (string, error)             { return c.repo.Dir(), nil }
func (c *ci) For(string) (forge.Service, string, string, error) { return c, "hub", queuedRepo, nil }

// Checks runs the CI for a commit of a merge queue, and returns the checks.
func (c *ci) Checks(ctx context.Context, repo, commit string) ([]forge.Check, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	known, err := c.Service.Checks(ctx, repo, commit)
	if err != nil || len(known) > 0 {
		return known, err
	}
	c.runs[commit] = true
	state := forge.CheckSuccess
	if strings.Contains(gitIn(c.repo.Dir(), "ls-tree", "-r", "--name-only", commit), "broken/") {
		state = forge.CheckFailure
	}
	if err := c.SetStatus(ctx, repo, commit, forge.Status{Context: "ci", State: state, URL: "https://ci.example.com/" + commit[:7]}); err != nil {
		return nil, err
	}
	return c.Service.Checks(ctx, repo, commit)
}

// gitIn returns what git prints in a repository, "" if it fails.
func gitIn(dir string, args ...string) string {
	out, _ := exec.Command("git", append([]string{"-C", dir}, args...)...).Output()
	return strings.TrimSpace(string(out))
}

// gitLines returns the lines that git prints in a repository.
func gitLines(dir string, args ...string) []string { return strings.Fields(gitIn(dir, args...)) }

// queueWorld is a merge queue with everything real but Temporal and the forge.
type queueWorld struct {
	ci    *ci
	hub   *forgetest.GitHub
	parts *activities.Activities
	env   *testsuite.TestWorkflowEnvironment
	ref   contract.QueueRef
}

func newQueueWorld(t *testing.T) *queueWorld {
	t.Helper()
	hub := forgetest.NewGitHub(t)
	hub.PageSize(100)
	repo := hub.Repository(queuedRepo)
	u, err := url.Parse(hub.URL())
	require.NoError(t, err)
	service, err := github.New(forgehttp.Options{Name: "hub", URL: u, Token: forgehttp.Static(forgetest.BotToken), Timeout: 20 * time.Second})
	require.NoError(t, err)
	t.Cleanup(service.Close)
	blobs, err := artifact.Open(t.Context(), "mem://", "")
	require.NoError(t, err)
	t.Cleanup(func() { _ = blobs.Close() })
	workspaces, err := workspace.New(workspace.Options{CacheDir: t.TempDir(), Blobs: blobs})
	require.NoError(t, err)
	w := &queueWorld{
		ci: &ci{Service: service, repo: repo, runs: map[string]bool{}}, hub: hub, ref: contract.QueueRef{Forge: "hub", Repo: queuedRepo, Base: "main"},
	}
	repo.Require("ci")
	repo.Push("main", map[string]string{"shared.txt": "one\ntwo\nthree\n"})
	w.parts = &activities.Activities{Store: storetest.New(t), Forges: w.ci, Workspaces: workspaces, Log: slog.New(slog.DiscardHandler)}
	var suite testsuite.WorkflowTestSuite
	w.env = suite.NewTestWorkflowEnvironment()
	w.env.SetTestTimeout(8 * time.Minute)
	w.env.SetWorkerOptions(worker.Options{Interceptors: []interceptor.WorkerInterceptor{
		&activityInterceptor{log: w.parts.Log, worker: "test", tasks: &tasks{}, most: 5, stopTime: time.Minute}, // it sends heartbeats
	}})
	workflows.RegisterMergeQueue(w.env)
	register := func(name string, f any) { w.env.RegisterActivityWithOptions(f, activity.RegisterOptions{Name: name}) }
	register(contract.ActivityQueueSave, w.parts.SaveQueue)
	register(contract.ActivityQueueCandidate, w.parts.QueueCandidate)
	register(contract.ActivityQueueChecks, w.parts.QueueChecks)
	register(contract.ActivityQueueMerge, w.parts.QueueMerge)
	register(contract.ActivityQueueReturn, w.parts.QueueReturn)
	register(contract.ActivityQueueCleanUp, w.parts.QueueCleanUp)
	return w
}

// open opens a pull request whose own CI has the given result, and adds it to the queue.
func (w *queueWorld) open(t *testing.T, branch string, files map[string]string, own forge.CheckState) int64 {
	t.Helper()
	head := w.ci.repo.Push(branch, files)
	pr, err := w.ci.CreatePullRequest(t.Context(), queuedRepo, forge.NewPullRequest{Head: branch, Base: "main", Title: "Change " + branch})
	require.NoError(t, err)
	require.NoError(t, w.ci.SetStatus(t.Context(), queuedRepo, head, forge.Status{Context: "ci", State: own}))
	w.env.RegisterDelayedCallback(func() {
		w.env.UpdateWorkflow(contract.UpdateQueue, branch, &testsuite.TestUpdateCallback{
			OnAccept: func() {}, OnReject: func(err error) { require.NoError(t, err) }, OnComplete: func(_ any, err error) { require.NoError(t, err) },
		}, contract.QueueCommand{ID: "add/" + branch, Action: contract.QueueAdd, Number: pr.Number, By: "ann", Title: pr.Title, URL: pr.URL, Policy: w.policy()})
	}, 0)
	return pr.Number
}

func (w *queueWorld) policy() *contract.MergePolicy {
	return &contract.MergePolicy{Method: "merge", DeleteBranch: true, Batch: 8, CheckTime: time.Hour, CheckPoll: 10 * time.Millisecond, Prefix: "rgpt/queue/"}
}

// run lets the queue work until it is empty.
func (w *queueWorld) run(t *testing.T) mergequeues.MergeQueue {
	t.Helper()
	w.env.ExecuteWorkflow(contract.WorkflowMergeQueue, contract.MergeQueueInput{Queue: w.ref})
	require.True(t, w.env.IsWorkflowCompleted())
	require.NoError(t, w.env.GetWorkflowError())
	queues, err := mergequeues.List(t.Context(), w.parts.Store, mergequeues.Filter{Ended: 200})
	require.NoError(t, err)
	require.Len(t, queues, 1)
	require.Empty(t, queues[0].Entries)
	return queues[0]
}

// TestFiftyPullRequestsEndMergedOrReturnedAndMainIsNeverRed merges pull requests of which ten conflict with
// another one, two fail on their own, and three fail although their own checks passed.
func TestFiftyPullRequestsEndMergedOrReturnedAndMainIsNeverRed(t *testing.T) {
	t.Parallel()
	w := newQueueWorld(t)
	kinds := []string{"shared"}
	for kind, n := range map[string]int{"conflict": 10, "red": 2, "broken": 3, "good": 34} {
		for range n {
			kinds = append(kinds, kind)
		}
	}
	order := rand.New(rand.NewPCG(7, 7))
	tail := kinds[1:]
	order.Shuffle(len(tail), func(i, j int) { tail[i], tail[j] = tail[j], tail[i] })
	kindOf := map[int64]string{}
	for i, kind := range kinds {
		branch := fmt.Sprintf("%s-%d", kind, i)
		files, own := map[string]string{fmt.Sprintf("file-%d.txt", i): "text\n"}, forge.CheckSuccess
		switch kind {
		case "shared", "conflict":
			files = map[string]string{"shared.txt": fmt.Sprintf("one\n%s\nthree\n", branch)}
		case "broken":
			files = map[string]string{"broken/" + branch: "text\n"}
		case "red":
			own = forge.CheckFailure
		}
		kindOf[w.open(t, branch, files, own)] = kind
	}
	queue := w.run(t)

	want := map[string][2]string{
		"shared": {"merged", ""}, "good": {"merged", ""}, "conflict": {"returned", "it conflicts with `main` in `shared.txt`"},
		"red": {"returned", "its check `ci` failed"}, "broken": {"returned", "the check `ci` failed (<https://ci.example.com/"},
	}
	require.Len(t, queue.Ended, 50)
	for _, e := range queue.Ended {
		kind := kindOf[e.Number]
		require.Equal(t, want[kind][0], string(e.State), "%s: %s", kind, e.Reason)
		require.Contains(t, e.Reason, want[kind][1])
		pr, err := w.ci.PullRequest(t.Context(), queuedRepo, e.Number)
		require.NoError(t, err)
		require.Equal(t, e.State == contract.QueueMerged, pr.State == forge.Merged)
		comments, err := w.ci.Comments(t.Context(), queuedRepo, forge.OnPullRequest(e.Number), time.Time{})
		require.NoError(t, err)
		if e.State == contract.QueueMerged {
			require.Equal(t, pr.MergeCommit, e.Commit)
			require.Empty(t, w.ci.repo.Head(pr.Head), "its branch was deleted")
			require.Empty(t, comments)
		} else {
			require.Len(t, comments, 1)
			require.Contains(t, comments[0].Body, e.Reason)
		}
	}
	for _, commit := range gitLines(w.ci.repo.Dir(), "rev-list", "--first-parent", "main") {
		require.NotContains(t, gitIn(w.ci.repo.Dir(), "ls-tree", "-r", "--name-only", commit), "broken/", "main was red at %s", commit)
	}
	require.Empty(t, gitIn(w.ci.repo.Dir(), "for-each-ref", "refs/heads/rgpt/"), "the branches of candidates were removed")
	runs := len(w.ci.runs)
	require.EqualValues(t, runs, queue.CheckRuns)
	require.EqualValues(t, 38, queue.Decided, "35 were merged, and three failed")
	t.Logf("%d check runs decided about %d pull requests: %d%% saved", runs, queue.Decided, 100-100*int64(runs)/queue.Decided)
	require.LessOrEqual(t, 2*runs, int(queue.Decided), "at least half of the check runs are saved")
}
