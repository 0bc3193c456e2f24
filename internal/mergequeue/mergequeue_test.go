package mergequeue_test

import (
	"context"
	"fmt"
	"net/url"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/artifact"
	"github.com/rocketgpt/orchestrator/internal/forge"
	"github.com/rocketgpt/orchestrator/internal/forge/forgehttp"
	"github.com/rocketgpt/orchestrator/internal/forge/forgetest"
	"github.com/rocketgpt/orchestrator/internal/forge/github"
	"github.com/rocketgpt/orchestrator/internal/forge/gitlab"
	"github.com/rocketgpt/orchestrator/internal/mergequeue"
	"github.com/rocketgpt/orchestrator/internal/workspace"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const path = "octo/app"

var ref = contract.QueueRef{Forge: "hub", Repo: path, Base: "main"}

// world is a repository on a forge.
type world struct {
	mergequeue.Repository

	hub  *forgetest.GitHub
	repo *forgetest.Repository

	faults *forgetest.Faults
}

func newWorld(t *testing.T) world {
	t.Helper()
	hub := forgetest.NewGitHub(t)
	repo := hub.Repository(path)
	u, err := url.Parse(hub.URL())
	require.NoError(t, err)
	service, err := github.New(forgehttp.Options{Name: "hub", URL: u, Token: forgehttp.Static(forgetest.BotToken), Timeout: 10 * time.Second})
	require.NoError(t, err)
	t.Cleanup(service.Close)
	blobs, err := artifact.Open(t.Context(), "mem://", "")
	require.NoError(t, err)
	t.Cleanup(func() { _ = blobs.Close() })
	workspaces, err := workspace.New(workspace.Options{CacheDir: t.TempDir(), Blobs: blobs})
	require.NoError(t, err)
	return world{mergequeue.Repository{Service: service, Path: path, Remote: repo.Dir(), Workspaces: workspaces}, hub, repo, hub.Faults}
}

func (w world) open(t *testing.T, branch string, files map[string]string) forge.PullRequest {
	t.Helper()
	w.repo.Push(branch, files)
	pr, err := w.Service.CreatePullRequest(t.Context(), path, forge.NewPullRequest{Head: branch, Base: "main", Title: branch})
	require.NoError(t, err)
	return pr
}

// newLab returns a world whose forge is a GitLab.
func newLab(t *testing.T) world {
	t.Helper()
	w, lab := newWorld(t), forgetest.NewGitLab(t)
	u, err := url.Parse(lab.URL())
	require.NoError(t, err)
	service, err := gitlab.New(forgehttp.Options{Name: "lab", URL: u, Token: forgehttp.Static(forgetest.BotToken), Timeout: 10 * time.Second})
	require.NoError(t, err)
	t.Cleanup(service.Close)
	w.repo = lab.Repository(path)
	w.Service, w.Remote, w.faults = service, w.repo.Dir(), lab.Faults
	return w
}

// read returns a pull request as it is now.
func (w world) read(t *testing.T, pr forge.PullRequest) forge.PullRequest {
	t.Helper()
	pr, err := w.Service.PullRequest(t.Context(), path, pr.Number)
	require.NoError(t, err)
	return pr
}

func policy(change func(*contract.MergePolicy)) contract.MergePolicy {
	p := contract.MergePolicy{Method: "merge", Batch: 8, CheckTime: time.Hour, CheckPoll: time.Millisecond, Prefix: "rgpt/queue/"}
	if change != nil {
		change(&p)
	}
	return p
}

func (w world) build(t *testing.T, p contract.MergePolicy, prs ...forge.PullRequest) contract.QueueCandidate {
	t.Helper()
	in := contract.QueueCandidateInput{Queue: ref, Policy: p, Most: p.Batch, At: time.Unix(1_800_000_000, 0)}
	for _, pr := range prs {
		in.Wanted = append(in.Wanted, contract.QueueWanted{Number: pr.Number, Head: pr.HeadCommit, Since: in.At})
	}
	out, err := w.Build(t.Context(), in)
	require.NoError(t, err)
	again, err := w.Build(t.Context(), in)
	require.NoError(t, err)
	require.Equal(t, out, again, "a repeat makes the same commit, and finds it pushed")
	return out
}

func TestACandidateHasWhatIsReadyAndSaysWhyNotTheRest(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.repo.Push("main", map[string]string{"a.txt": "1\n2\n3\n"})
	one := w.open(t, "one", map[string]string{"a.txt": "one\n2\n3\n"})
	two := w.open(t, "two", map[string]string{"b.txt": "two\n"})
	clash := w.open(t, "clash", map[string]string{"a.txt": "another\n2\n3\n"})
	behind := w.open(t, "behind", map[string]string{"README.md": "x\n"})
	w.repo.Push("main", map[string]string{"README.md": "y\n"})
	red := w.open(t, "red", map[string]string{"c.txt": "c\n"})
	w.repo.Require("ci")
	for _, pr := range []forge.PullRequest{one, two, clash, behind} {
		w.repo.Job(pr.HeadCommit, "ci", forge.CheckSuccess, "")
	}
	w.repo.Job(red.HeadCommit, "ci", forge.CheckFailure, "")
	running := w.open(t, "running", map[string]string{"d.txt": "d\n"})
	w.repo.Job(running.HeadCommit, "ci", forge.CheckPending, "")
	closed := w.open(t, "closed", map[string]string{"e.txt": "e\n"})
	w.repo.Close(forge.OnPullRequest(closed.Number))

	c := w.build(t, policy(nil), one, two, clash, behind, red, running, closed, forge.PullRequest{Number: 999})
	want := []struct {
		verdict contract.QueueVerdict
		reason  string
	}{
		{contract.QueueIncluded, ""}, {contract.QueueIncluded, ""},
		{contract.QueueDeferred, "it conflicts with a pull request before it in `a.txt`"},
		{contract.QueueRefused, "it conflicts with `main` in `README.md`"},
		{contract.QueueRefused, "its check `ci` failed"}, {contract.QueueNotYet, "its check `ci` has not ended"},
		{contract.QueueRefused, "it was closed"}, {contract.QueueRefused, "it cannot be read"},
	}
	require.Len(t, c.Parts, len(want))
	for i, p := range c.Parts {
		require.Equal(t, want[i].verdict, p.Verdict, p.Reason)
		require.Contains(t, p.Reason, want[i].reason)
	}
	require.Equal(t, []string{"ci"}, c.Required)
	require.Equal(t, c.Commit, w.repo.Head(c.Branch))
	require.True(t, strings.HasPrefix(c.Branch, "rgpt/queue/main-"))
	require.Equal(t, c.Parts[1].Tree, c.Tree)
	require.NotEqual(t, c.Parts[0].Tree, c.Tree)
}

func TestThePolicyDecidesWhatIsReady(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	pr := w.open(t, "one", map[string]string{"a.txt": "a\n"})
	p := policy(func(p *contract.MergePolicy) {
		p.Approvals, p.Labels, p.BlockedLabels = 1, []string{"ready"}, []string{"stop"}
	})
	expect := func(verdict contract.QueueVerdict, reason string) {
		t.Helper()
		part := w.build(t, p, pr).Parts[0]
		require.Equal(t, verdict, part.Verdict, part.Reason)
		require.Contains(t, part.Reason, reason)
	}
	on := forge.OnPullRequest(pr.Number)
	expect(contract.QueueRefused, "it does not have the label `ready`")
	require.NoError(t, w.Service.AddLabels(t.Context(), path, on, []string{"ready", "stop"}))
	expect(contract.QueueRefused, "it has the label `stop`")
	require.NoError(t, w.Service.RemoveLabel(t.Context(), path, on, "stop"))
	expect(contract.QueueRefused, "it needs the approvals of 1 people for its newest commit and has 0")
	w.repo.ApproveAs(forgetest.Stranger, pr.Number, "")
	expect(contract.QueueRefused, "and has 0; only those of people with write access to the repository count")
	w.repo.Approve(pr.Number)
	expect(contract.QueueIncluded, "")
}

func TestOnlyBranchesOfRunsAreDeleted(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	pr := w.open(t, "develop", map[string]string{"a.txt": "a\n"})
	p := policy(func(p *contract.MergePolicy) { p.DeleteBranch = true })
	c := w.build(t, p, pr)
	out, err := w.Merge(t.Context(), contract.QueueMergeInput{Queue: ref, Policy: p, Part: c.Parts[0], Base: c.Base})
	require.NoError(t, err)
	require.True(t, out.Merged)
	require.Equal(t, pr.HeadCommit, w.repo.Head("develop"))
}

func TestACheckThatWasNotReportedYetIsWaitedFor(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.repo.Require("ci", "rgpt/verify")
	pr := w.open(t, "one", map[string]string{"a.txt": "a\n"})
	w.repo.Job(pr.HeadCommit, "ci", forge.CheckSuccess, "")
	part := w.build(t, policy(nil), pr).Parts[0]
	require.Equal(t, []any{contract.QueueNotYet, "its check `rgpt/verify` was not reported"}, []any{part.Verdict, part.Reason})
	late := time.Unix(1_900_000_000, 0)
	ready, err := w.Ready(t.Context(), pr, policy(nil), late, late.Add(time.Second))
	require.NoError(t, err)
	require.Equal(t, []any{contract.QueueRefused, "its check `rgpt/verify` was not reported in time"}, []any{ready.Verdict, ready.Reason})
	w.repo.Job(pr.HeadCommit, "rgpt/verify", forge.CheckSuccess, "")
	c := w.build(t, policy(nil), pr)
	require.Equal(t, contract.QueueIncluded, c.Parts[0].Verdict)
	require.Equal(t, []string{"ci"}, c.Required, "statuses of runs are about one pull request")
}

// asGitea is a forge that names checks as Gitea's Actions do.
type asGitea struct{ forge.Service }

func (asGitea) Kind() forge.Kind { return forge.Gitea }

func TestAnActionOfGiteaIsTheSameCheckForAnotherEvent(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.Service = asGitea{w.Service}
	w.repo.Require("ci / test (pull_request)")
	pr := w.open(t, "one", map[string]string{"a.txt": "a\n"})
	w.repo.Job(pr.HeadCommit, "ci / test (pull_request)", forge.CheckSuccess, "")
	c := w.build(t, policy(nil), pr)
	require.Equal(t, []string{"ci / test"}, c.Required)
	check := func() string {
		t.Helper()
		out, err := w.Checks(t.Context(), contract.QueueChecksInput{Queue: ref, Commit: c.Commit, Required: c.Required, Poll: time.Millisecond, Wait: time.Millisecond})
		require.NoError(t, err)
		return out.Result
	}
	require.Equal(t, contract.QueuePending, check())
	w.repo.Job(c.Commit, "ci / test (push)", forge.CheckFailure, "")
	require.Equal(t, contract.QueueRed, check())
	w.repo.Job(c.Commit, "ci / test (push)", forge.CheckSuccess, "")
	require.Equal(t, contract.QueueGreen, check())
}

// vanished is a forge that still shows the commit of a pull request that its repository does not have.
type vanished struct {
	forge.Service
	number int64
}

const absent = "1111111111111111111111111111111111111111"

func (v vanished) PullRequest(ctx context.Context, repo string, number int64) (forge.PullRequest, error) {
	pr, err := v.Service.PullRequest(ctx, repo, number)
	if number == v.number {
		pr.HeadCommit = absent
	}
	return pr, err
}

func TestAPullRequestWhoseCommitCannotBeFetchedStopsNoOther(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	one, two := w.open(t, "one", map[string]string{"a.txt": "a\n"}), w.open(t, "two", map[string]string{"b.txt": "b\n"})
	w.Service = vanished{w.Service, one.Number}
	one.HeadCommit = absent
	c := w.build(t, policy(nil), one, two)
	require.Equal(t, contract.QueueRefused, c.Parts[0].Verdict)
	require.Contains(t, c.Parts[0].Reason, "its commit cannot be fetched: `")
	require.Equal(t, contract.QueueIncluded, c.Parts[1].Verdict)
}

func TestOnlyTheCommitThatWasAddedIsTested(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	pr := w.open(t, "one", map[string]string{"a.txt": "a\n"})
	w.repo.Push("one", map[string]string{"a.txt": "pushed after it was added\n"})
	part := w.build(t, policy(nil), pr).Parts[0]
	require.Equal(t, contract.QueueRefused, part.Verdict)
	require.Equal(t, "it has newer commits than when it was added", part.Reason)
}

func TestWhatIsForbiddenDuringTheTestIsNotMerged(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	pr := w.open(t, "one", map[string]string{"a.txt": "a\n"})
	on := forge.OnPullRequest(pr.Number)
	c := w.build(t, policy(nil), pr)
	in := contract.QueueMergeInput{Queue: ref, Policy: policy(nil), Part: c.Parts[0], Base: c.Base}
	main := w.repo.Head("main")
	expect := func(in contract.QueueMergeInput, reason string) {
		t.Helper()
		out, err := w.Merge(t.Context(), in)
		require.NoError(t, err)
		require.Contains(t, out.Refused, reason)
		require.Equal(t, contract.QueueMergeResult{Refused: out.Refused}, out)
		require.Equal(t, main, w.repo.Head("main"))
	}
	in.Queue.Base = "release"
	expect(in, "its base is now `main`")
	in.Queue.Base = "main"
	in.Policy.Approvals = 1
	expect(in, "it needs the approvals of 1 people")
	in.Policy.Approvals, in.Policy.Labels = 0, []string{"ready"}
	expect(in, "it does not have the label `ready`")
	w.repo.Label(on, "ready", "stop")
	in.Policy.BlockedLabels = []string{"stop"}
	expect(in, "it has the label `stop`")
	require.NoError(t, w.Service.RemoveLabel(t.Context(), path, on, "stop"))
	draft := true
	_, err := w.Service.UpdatePullRequest(t.Context(), path, pr.Number, forge.PullRequestChange{Draft: &draft})
	require.NoError(t, err)
	expect(in, "it is a draft")
	draft = false
	_, err = w.Service.UpdatePullRequest(t.Context(), path, pr.Number, forge.PullRequestChange{Draft: &draft})
	require.NoError(t, err)
	out, err := w.Merge(t.Context(), in)
	require.NoError(t, err)
	require.True(t, out.Merged)
}

func TestAMergeWhoseAnswerWasLostIsNotRepeated(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	pr := w.open(t, "one", map[string]string{"a.txt": "a\n"})
	p := policy(func(p *contract.MergePolicy) { p.DeleteBranch = true })
	c := w.build(t, p, pr)
	in := contract.QueueMergeInput{Queue: ref, Policy: p, Part: c.Parts[0], Base: c.Base, OfRun: true}
	w.hub.Add(forgetest.Fault{Method: "PUT", Path: "/merge", AfterEffect: true})
	_, err := w.Merge(t.Context(), in)
	require.Error(t, err)
	main := w.repo.Head("main")
	out, err := w.Merge(t.Context(), in)
	require.NoError(t, err)
	require.Equal(t, contract.QueueMergeResult{Merged: true, Commit: main, Base: main}, out)
	require.Equal(t, main, w.repo.Head("main"))
	require.Empty(t, w.repo.Head("one"), "its branch was deleted")
	again, err := w.Merge(t.Context(), in)
	require.NoError(t, err)
	require.Equal(t, out, again)
}

func TestAHeadThatGitLabRebasedIsMergedIfItHasWhatWasTested(t *testing.T) {
	t.Parallel()
	w := newLab(t)
	pr := w.open(t, "one", map[string]string{"a.txt": "a\n"})
	w.repo.Push("main", map[string]string{"b.txt": "b\n"})
	w.repo.Approve(pr.Number)
	p := policy(func(p *contract.MergePolicy) { p.Method, p.Approvals = "rebase", 1 })
	c := w.build(t, p, pr)
	require.Equal(t, contract.QueueIncluded, c.Parts[0].Verdict, c.Parts[0].Reason)
	in := contract.QueueMergeInput{Queue: ref, Policy: p, Part: c.Parts[0], Base: c.Base}
	w.faults.Add(forgetest.Fault{Method: "PUT", Path: "/merge_requests/1/merge", Status: 503})
	_, err := w.Merge(t.Context(), in)
	require.Error(t, err)
	require.NotEqual(t, pr.HeadCommit, w.repo.Head("one"), "it was rebased")

	other := in
	other.Part.Tree = "another"
	out, err := w.Merge(t.Context(), other)
	require.NoError(t, err)
	require.Equal(t, contract.QueueMergeResult{Moved: true}, out, "it is tested again")

	out, err = w.Merge(t.Context(), in)
	require.NoError(t, err)
	require.True(t, out.Merged)
	require.False(t, out.Moved)
}

func TestTheRebaseOfTheQueueKeepsApprovalsAndAPushDoesNot(t *testing.T) {
	t.Parallel()
	w := newLab(t)
	pr := w.open(t, "one", map[string]string{"a.txt": "a\n"})
	w.repo.Push("one", map[string]string{"a.txt": "a\nb\n"})
	pr = w.read(t, pr)
	w.repo.Approve(pr.Number)
	w.repo.Push("main", map[string]string{"b.txt": "b\n"})
	p := policy(func(p *contract.MergePolicy) { p.Method, p.Approvals = "rebase", 1 })
	c := w.build(t, p, pr)
	refuse := func(c contract.QueueCandidate) {
		t.Helper()
		w.faults.Add(forgetest.Fault{Method: "PUT", Path: "/merge_requests/1/merge", Status: 405})
		out, err := w.Merge(t.Context(), contract.QueueMergeInput{Queue: ref, Policy: p, Part: c.Parts[0], Base: c.Base})
		require.NoError(t, err)
		require.Equal(t, contract.QueueMergeResult{Moved: true}, out, "the checks of the rebased head have not ended")
	}
	refuse(c)
	rebased := w.read(t, pr)
	require.NotEqual(t, pr.HeadCommit, rebased.HeadCommit)
	w.repo.Push("main", map[string]string{"c.txt": "c\n"})
	for _, added := range []forge.PullRequest{pr, rebased} { // also if it is added again
		c = w.build(t, p, added)
		require.Equal(t, contract.QueueIncluded, c.Parts[0].Verdict, c.Parts[0].Reason)
		require.Equal(t, rebased.HeadCommit, c.Parts[0].Head)
	}

	w.repo.Push("one", map[string]string{"a.txt": "a\nc\n"})
	part := w.build(t, p, pr).Parts[0]
	require.Equal(t, "it has newer commits than when it was added", part.Reason)
	pushed := w.read(t, pr)
	part = w.build(t, p, pushed).Parts[0]
	require.Equal(t, contract.QueueRefused, part.Verdict)
	require.Contains(t, part.Reason, "it needs the approvals of 1 people for its newest commit and has 0")
	out, err := w.Merge(t.Context(), contract.QueueMergeInput{Queue: ref, Policy: p, Part: c.Parts[0], Base: c.Base})
	require.NoError(t, err)
	require.Equal(t, "it has newer commits than when it was added", out.Refused)

	w.repo.Approve(pr.Number)
	c = w.build(t, p, pushed)
	refuse(c)
	c = w.build(t, p, pushed)
	out, err = w.Merge(t.Context(), contract.QueueMergeInput{Queue: ref, Policy: p, Part: c.Parts[0], Base: c.Base})
	require.NoError(t, err)
	require.Equal(t, []bool{true, false}, []bool{out.Merged, out.Moved})
}

func TestAnApprovalForAnotherTargetIsNotOneOfWhatWouldBeMergedNow(t *testing.T) {
	t.Parallel()
	for _, other := range []bool{false, true} {
		w := newLab(t)
		w.repo.Push("topic", map[string]string{"a.txt": "a\n"})
		if other {
			w.repo.Push("topic", map[string]string{"evil.txt": "x\n"})
		}
		cmd := exec.CommandContext(t.Context(), "git", "-C", w.repo.Dir(), "branch", "unjudged", "topic")
		require.NoError(t, cmd.Run())
		if !other {
			cmd = exec.CommandContext(t.Context(), "git", "-C", w.repo.Dir(), "branch", "-f", "unjudged", "main")
			require.NoError(t, cmd.Run())
		}
		w.repo.Push("topic", map[string]string{"b.txt": "b\n"})
		pr, err := w.Service.CreatePullRequest(t.Context(), path, forge.NewPullRequest{Head: "topic", Base: "unjudged", Title: "topic"})
		require.NoError(t, err)
		w.repo.Approve(pr.Number)
		w.repo.Retarget(pr.Number, "main")
		p := policy(func(p *contract.MergePolicy) { p.Method, p.Approvals = "rebase", 1 })
		part := w.build(t, p, w.read(t, pr)).Parts[0]
		if !other {
			require.Equal(t, contract.QueueIncluded, part.Verdict, "the other target had the same commits")
			continue
		}
		require.Equal(t, contract.QueueRefused, part.Verdict)
		require.Contains(t, part.Reason, "it needs the approvals of 1 people for its newest commit and has 0")
		w.repo.Approve(pr.Number)
		require.Equal(t, contract.QueueIncluded, w.build(t, p, w.read(t, pr)).Parts[0].Verdict)
	}
}

func TestARebasedHeadWithoutThePipelineThatGitLabRequiresIsWaitedFor(t *testing.T) {
	t.Parallel()
	w := newLab(t)
	w.repo.Require("build")
	pr := w.open(t, "one", map[string]string{"a.txt": "a\n"})
	part := w.build(t, policy(nil), pr).Parts[0]
	require.Equal(t, contract.QueueNotYet, part.Verdict)
	require.Equal(t, "its check `pipeline` was not reported", part.Reason)
	w.repo.Job(pr.HeadCommit, "build", forge.CheckSuccess, "")
	require.Equal(t, contract.QueueIncluded, w.build(t, policy(nil), pr).Parts[0].Verdict)
}

// commits returns the commits of a branch on a path of first parents, the newest first, each as the number of its
// parents and its subject.
func (w world) commits(t *testing.T, branch string) []string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "git", "-C", w.repo.Dir(), "log", "--first-parent", "--format=%p|%s", branch)
	out, err := cmd.Output()
	require.NoError(t, err)
	var all []string
	for line := range strings.Lines(string(out)) {
		parents, subject, _ := strings.Cut(strings.TrimSpace(line), "|")
		all = append(all, fmt.Sprint(len(strings.Fields(parents)), " ", subject))
	}
	return all
}

func TestEachMethodMergesExactlyWhatWasTested(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"hub", "lab"} {
		for _, method := range []string{"merge", "squash", "rebase"} {
			t.Run(kind+"/"+method, func(t *testing.T) {
				t.Parallel()
				w := newWorld(t)
				if kind == "lab" {
					w = newLab(t)
				}
				one := w.open(t, "one", map[string]string{"a.txt": "a\n"})
				w.repo.Push("one", map[string]string{"b.txt": "b\n"})
				one = w.read(t, one)
				two := w.open(t, "two", map[string]string{"c.txt": "c\n"})
				w.repo.Push("main", map[string]string{"d.txt": "d\n"})
				before := len(w.commits(t, "main"))
				p := policy(func(p *contract.MergePolicy) { p.Method, p.DeleteBranch = method, true })
				c := w.build(t, p, one, two)
				base := c.Base
				for i, part := range c.Parts {
					require.Equal(t, contract.QueueIncluded, part.Verdict, part.Reason)
					out, err := w.Merge(t.Context(), contract.QueueMergeInput{Queue: ref, Policy: p, Part: part, Base: base, OfRun: i == 0})
					require.NoError(t, err)
					require.Equal(t, []bool{true, false}, []bool{out.Merged, out.Moved}, "the files are those that were tested")
					require.Equal(t, w.repo.Head("main"), out.Base)
					again, err := w.Merge(t.Context(), contract.QueueMergeInput{Queue: ref, Policy: p, Part: part, Base: base, OfRun: i == 0})
					require.NoError(t, err)
					require.True(t, again.Merged, "a repeat merges nothing")
					require.Equal(t, out.Base, again.Base)
					base = out.Base
				}
				made, parents, commits := w.commits(t, "main"), "1 ", 2
				switch method {
				case "merge":
					parents = "2 "
				case "rebase":
					commits = 3
				}
				if kind == "lab" && method == "rebase" { // the forge merges what it has rebased, by a commit that joins it
					parents, commits = "2 ", 2
				}
				require.Len(t, made, before+commits, "%q", made)
				for _, commit := range made[:commits] {
					require.True(t, strings.HasPrefix(commit, parents), "%q", made)
				}
				require.Empty(t, w.repo.Head("one"), "the branch of a run is deleted")
				require.NotEmpty(t, w.repo.Head("two"))
			})
		}
	}
}

func TestNothingIsMergedOntoABaseThatHasMoved(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	pr := w.open(t, "one", map[string]string{"a.txt": "a\n"})
	c := w.build(t, policy(nil), pr)
	in := contract.QueueMergeInput{Queue: ref, Policy: policy(nil), Part: c.Parts[0], Base: c.Base}
	moved := w.repo.Push("main", map[string]string{"other.txt": "x\n"})
	out, err := w.Merge(t.Context(), in)
	require.NoError(t, err)
	require.Equal(t, contract.QueueMergeResult{Moved: true}, out)
	require.Equal(t, moved, w.repo.Head("main"))

	in.Base = moved // the tree is not the one that was tested
	out, err = w.Merge(t.Context(), in)
	require.NoError(t, err)
	require.True(t, out.Merged)
	require.True(t, out.Moved, "what follows must be tested again")

	next := w.open(t, "two", map[string]string{"b.txt": "b\n"})
	c = w.build(t, policy(nil), next)
	in.Part, in.Base = c.Parts[0], c.Base
	w.repo.Push("two", map[string]string{"b.txt": "pushed after the test\n"})
	out, err = w.Merge(t.Context(), in)
	require.NoError(t, err)
	require.Equal(t, contract.QueueMergeResult{Refused: "it has newer commits than when it was added"}, out)
	require.Equal(t, forge.Open, w.read(t, next).State)
	w.repo.Close(forge.OnPullRequest(next.Number))
	out, err = w.Merge(t.Context(), in)
	require.NoError(t, err)
	require.Equal(t, "it was closed", out.Refused)
}

func TestAReturnIsSaidOnceAndMentionsNobody(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.repo.Push("main", map[string]string{"@ann `x`.txt": "1\n"})
	one := w.open(t, "one", map[string]string{"@ann `x`.txt": "one\n"})
	w.repo.Push("main", map[string]string{"@ann `x`.txt": "2\n"})
	require.NoError(t, w.Service.AddLabels(t.Context(), path, forge.OnPullRequest(one.Number), []string{"ready", "rgpt"}))
	p := policy(func(p *contract.MergePolicy) { p.Labels, p.RemoveLabels = []string{"ready"}, true })
	c := w.build(t, p, one)
	in := contract.QueueReturnInput{Queue: ref, Policy: p, Entry: contract.QueueEntry{Key: "k", Number: one.Number, Reason: c.Parts[0].Reason}}
	w.hub.Add(forgetest.Fault{Method: "POST", Path: "/comments", AfterEffect: true})
	require.Error(t, w.Return(t.Context(), in))
	for range 2 {
		require.NoError(t, w.Return(t.Context(), in))
	}
	comments, err := w.Service.Comments(t.Context(), path, forge.OnPullRequest(one.Number), time.Time{})
	require.NoError(t, err)
	require.Len(t, comments, 1)
	require.True(t, strings.HasPrefix(comments[0].Body, "The merge queue of `main` returned this pull request: it conflicts with `main` in `@ann 'x'.txt`."), comments[0].Body)
	pr, err := w.Service.PullRequest(t.Context(), path, one.Number)
	require.NoError(t, err)
	require.Equal(t, []string{"rgpt"}, pr.Labels)
}

func TestChecksAreWaitedFor(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	pr := w.open(t, "one", map[string]string{"a.txt": "a\n"})
	commit := w.build(t, policy(nil), pr).Commit
	check := func(wait time.Duration) contract.QueueChecks {
		t.Helper()
		out, err := w.Checks(t.Context(), contract.QueueChecksInput{Queue: ref, Commit: commit, Required: []string{"ci", "lint"}, Poll: time.Millisecond, Wait: wait})
		require.NoError(t, err)
		return out
	}
	require.Equal(t, contract.QueueChecks{Result: contract.QueuePending, Reason: "the check `ci` was not reported in time"}, check(time.Millisecond))
	w.repo.Job(commit, "ci", forge.CheckPending, "")
	w.repo.Job(commit, "lint", forge.CheckSuccess, "")
	w.repo.Job(commit, "optional", forge.CheckFailure, "")
	require.Equal(t, contract.QueuePending, check(time.Millisecond).Result)
	done := make(chan contract.QueueChecks, 1)
	go func() { done <- check(time.Minute) }()
	w.repo.Job(commit, "ci", forge.CheckSuccess, "")
	require.Equal(t, contract.QueueChecks{Result: contract.QueueGreen}, <-done)
	w.repo.Job(commit, "lint", forge.CheckError, "")
	require.Equal(t, contract.QueueRed, check(time.Minute).Result)
}
