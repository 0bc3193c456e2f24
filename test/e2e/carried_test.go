package e2e

import (
	"compress/gzip"
	"encoding/json"
	"flag"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/api/temporalproto"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/apitypes"
	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/internal/store/forgeevents"
	"github.com/rocketgpt/orchestrator/internal/store/triggers"
	"github.com/rocketgpt/orchestrator/internal/store/views"
	"github.com/rocketgpt/orchestrator/test/gitea"
	"github.com/rocketgpt/orchestrator/test/harness"
)

// recordTo is a directory for the histories of the test below, for the replay test.
var recordTo = flag.String("record-histories", "", "directory to which the histories of a run with a pull request are written")

// TestAnIssueBecomesAMergedPullRequest labels an issue on a real Gitea. The run that this triggers stays
// with its pull request: a reviewer's comment is carried out and answered, a person's push is built on, a
// red check is fixed on top of it, a conflict with the base is resolved by a person's push while the run asks for
// help and another one by the run, and once it is approved, the merge queue merges it, which closes the issue and
// ends the watch.
func TestAnIssueBecomesAMergedPullRequest(t *testing.T) {
	t.Parallel()
	c := newCarried(t, gitea.Start(t), "20ms", "", "")
	steps := c.steps()
	conflict := slices.IndexFunc(steps, func(s carriedStep) bool { return s.name == baseConflicts })
	for _, s := range slices.Insert(steps, conflict, carriedStep{"a person resolves a conflict", c.conflictsForAPerson, c.isResolvedByHand}) {
		s.do(t)
		s.follows(t)
	}
	if *recordTo != "" {
		c.record(t, c.id)
	}
	c.over(t)
}

// carried is an issue on its way to a merged pull request.
type carried struct {
	*forgeTests
	path, dir  string // of the repository on the forge, and of its clone
	issue      int64
	id, number int64            // of the run and its pull request
	run        views.RunDetails // after the last step
	instructed string           // the commit that carries out the comment
	theirs     string           // the commit that a person pushed
	base       string           // the commit of the base that conflicts
	resolved   string           // the commit by which a person resolved an earlier conflict, if there was one
	candidate  string           // the commit that the merge queue tests
}

// carriedStep is a step on this way: what people do, and what follows from it.
type carriedStep struct {
	name        string
	do, follows func(t *testing.T)
}

// newCarried starts a stack with a trigger for an issue on a forge. Each model call takes latency; settings
// are more settings of the forge, and more are sections of the configuration.
func newCarried(t *testing.T, server *gitea.Server, latency, settings, more string, env ...string) *carried {
	t.Helper()
	rules := first(quickRules(latency),
		rule(on("agent", "repair", "contains", "nobody can resolve"), calls(harness.Finish("Nobody can resolve it.")), 300),
		rule(on("agent", "repair", "contains", "person.txt is rude"),
			calls(call("edit_file", "path", "person.txt", "old_text", "rude", "new_text", "kind"), harness.Finish("Said it kindly.")), 300),
		rule(on("agent", "repair", "contains", "the branch conflicts with commit"),
			calls(call("delete_file", "path", "step-001.txt"), call("create_file", "path", "step-001.txt", "content", "both\n"), harness.Finish("Kept both.")), 300),
		rule(on("agent", "repair"),
			calls(call("edit_file", "path", "step-001.txt", "old_text", "made", "new_text", "written"), harness.Finish("Wrote instead of made. Nothing else says it.")), 300),
	).Named("carried")
	c := &carried{path: newRepository(t, server), dir: filepath.Join(t.TempDir(), "carried")}
	c.forgeTests = startForge(t, server, rules, "poll: 1s, poll_limit: 10000"+settings,
		"update_interval: 1s, merge: {when: approved, approvals: 1, checks: [ci/tone], check_poll: 200ms}",
		fmt.Sprintf("triggers: {label: {on: issue, forge: work, repository: %q, repo: %q, label: ready, release: pull_request, "+
			"settings: {git.stay: 1h, git.max_repairs: '4', gate.approver: not_author}}}\n%s", c.path, c.dir, more), env...)
	c.fill(t, c.path, c.dir)
	c.issue = server.Issue(t, server.Owner, c.path, harness.Goal("carried"), "Please.")
	return c
}

// baseConflicts is the step in which the run resolves a conflict with the base.
const baseConflicts = "the base conflicts"

// steps are the steps, in order.
func (c *carried) steps() []carriedStep {
	return []carriedStep{
		{"an issue is labelled", func(t *testing.T) {
			c.forge.SetLabel(t, c.forge.Owner, c.path, c.issue, c.forge.Label(t, c.path, "ready"))
		}, c.opens},
		{"a reviewer comments on a line", func(t *testing.T) {
			c.forge.Do(t, c.forge.Reviewer, http.MethodPost, fmt.Sprintf("/repos/%s/pulls/%d/reviews", c.path, c.number), map[string]any{
				"event": "COMMENT", "body": "", "comments": []map[string]any{{"path": "step-001.txt", "body": "Say written.", "new_position": 1}},
			}, nil)
		}, c.answersTheComment},
		{"a person pushes", func(t *testing.T) { c.theirs = c.pushes(t, c.path, c.run.ReleaseBranch, "person.txt", "rude\n") }, c.continues},
		{"a check fails", func(t *testing.T) { c.forge.Status(t, c.path, c.theirs, "ci/tone", "failure", "person.txt is rude") }, c.fixesTheCheck},
		{baseConflicts, func(t *testing.T) { c.base = c.pushes(t, c.path, "main", "step-001.txt", "from the base\n") }, c.resolvesTheConflict},
		{"the pull request is approved", func(t *testing.T) {
			c.forge.Do(t, c.forge.Reviewer, http.MethodPost, fmt.Sprintf("/repos/%s/pulls/%d/reviews", c.path, c.number),
				map[string]any{"event": "APPROVED", "body": "Good.", "commit_id": c.run.ReleaseCommit}, nil)
			c.forge.Status(t, c.path, c.run.ReleaseCommit, "ci/tone", "success", "kind")
		}, func(t *testing.T) { c.candidate = c.queued(t, c.path) }},
		{"the candidate of the merge queue passes", func(t *testing.T) {
			c.forge.Status(t, c.path, c.candidate, "ci/tone", "success", "together")
		}, c.ends},
	}
}

// opens waits until the run has opened its pull request.
func (c *carried) opens(t *testing.T) {
	t.Helper()
	c.id = c.note(c.fired(t, "label", fmt.Sprintf("issue:%d", c.issue)))
	c.AwaitRun(t, c.Store(t), c.id, "with its branch", longest, func(r store.Run) bool { return r.StayingUntil != nil })
	c.run = c.Inspect(t, c.id)
	require.Equal(t, c.issue, c.run.Settings.Issue.Number)
	require.Equal(t, 1, countEvents(c.run, contract.EventTriggerFired))
	c.number = c.run.PullRequests[0].Number
}

// answersTheComment waits until the run has carried out and answered the comment.
func (c *carried) answersTheComment(t *testing.T) {
	t.Helper()
	c.run = c.movedOn(t, c.path, c.run)
	c.instructed = c.run.ReleaseCommit
	require.Equal(t, "Wrote instead of made", harness.Git(t, c.dir, "log", "-1", "--format=%s", c.instructed))
	harness.Await(t, "the answer", longest, func() (bool, string) {
		text := c.answers(t, c.path, c.number)
		return strings.Contains(text, "Carried out in `"+c.run.ReleaseCommit[:12]) && strings.Contains(text, "Wrote instead of made."), text
	})
}

// continues waits until the run continues from what the person pushed.
func (c *carried) continues(t *testing.T) {
	t.Helper()
	harness.Await(t, "the run to continue from the push", longest, func() (bool, string) {
		c.run = c.Inspect(t, c.id)
		return countEvents(c.run, contract.EventStayPushed) == 1, fmt.Sprint(eventTypes(c.run.Events))
	})
	require.Equal(t, c.theirs, harness.Git(t, c.dir, "rev-parse", c.run.ReleaseBranch), "the repository has it too")
	require.Equal(t, c.theirs, c.run.PullRequests[0].Commit)
}

// fixesTheCheck waits until the run has fixed the check on top of the person's commit.
func (c *carried) fixesTheCheck(t *testing.T) {
	t.Helper()
	c.run = c.movedOn(t, c.path, c.run)
	require.Equal(t, c.theirs, harness.Git(t, c.dir, "rev-parse", c.run.ReleaseCommit+"^"), "the person's commit is as it was")
	require.Equal(t, "kind\n", harness.Git(t, c.dir, "show", c.run.ReleaseCommit+":person.txt")+"\n")
	verdict := c.run.Gate[len(c.run.Gate)-1]
	require.Equal(t, contract.GateRelease, verdict.Stage)
	require.Equal(t, 1, verdict.FilesTotal, "what the person pushed is not judged")
}

// conflictsForAPerson makes the base conflict in a way that the agent does not resolve, waits until the run asks a
// person, and resolves the conflict by a push.
func (c *carried) conflictsForAPerson(t *testing.T) {
	t.Helper()
	c.pushes(t, c.path, "main", "person.txt", "nobody can resolve this\n")
	c.AwaitRun(t, c.Store(t), c.id, "asking a person", longest, func(r store.Run) bool { return r.Status == contract.StatusWaitingForApproval })
	clone := filepath.Join(t.TempDir(), "resolved")
	harness.Git(t, c.Dir, "clone", "--quiet", "--branch", c.run.ReleaseBranch, c.forge.CloneURL(c.forge.Reviewer, c.path), clone)
	harness.Git(t, clone, "merge", "--quiet", "--strategy", "ours", "--message", "Keep it kind", "origin/main")
	harness.Git(t, clone, "push", "--quiet", "origin", c.run.ReleaseBranch)
	c.resolved = harness.Git(t, clone, "rev-parse", "HEAD")
}

// isResolvedByHand waits until the run has dropped its own work on the conflict, and watches its branch again.
func (c *carried) isResolvedByHand(t *testing.T) {
	t.Helper()
	before := c.run.ReleaseCommit
	c.AwaitRun(t, c.Store(t), c.id, "done again", longest, func(r store.Run) bool { return r.Status == contract.StatusDone })
	c.run = c.Inspect(t, c.id)
	require.Equal(t, before, c.run.ReleaseCommit, "the run released nothing")
	require.Equal(t, c.resolved, c.run.PullRequests[0].Commit)
	require.Equal(t, c.resolved, c.forge.Head(t, c.path, c.run.ReleaseBranch), "the push is as it was")
	require.Equal(t, 2, countEvents(c.run, contract.EventStayPushed))
	require.Equal(t, 1, countEvents(c.run, contract.EventInterventionResolved), "the question is answered")
	require.Zero(t, countEvents(c.run, contract.EventStayUpdated))
}

// resolvesTheConflict waits until the run has merged the base into its branch.
func (c *carried) resolvesTheConflict(t *testing.T) {
	t.Helper()
	before, updates := c.run.ReleaseCommit, 1
	if c.resolved != "" {
		before, updates = c.resolved, 2
	}
	c.run = c.movedOn(t, c.path, c.run)
	require.Equal(t, before+" "+c.base, harness.Git(t, c.dir, "log", "-1", "--format=%P", c.run.ReleaseCommit), "the base is merged")
	require.Equal(t, "both", harness.Git(t, c.dir, "show", c.run.ReleaseCommit+":step-001.txt"))
	require.Equal(t, updates, countEvents(c.run, contract.EventStayUpdating))
	require.Equal(t, 1, countEvents(c.run, contract.EventStayUpdated))
	verdict := c.run.Gate[len(c.run.Gate)-1]
	require.Equal(t, contract.GateRelease, verdict.Stage)
	require.Equal(t, 1, verdict.FilesTotal, "only the resolution is judged")
}

// ends waits until the pull request is merged and the run does not watch its branch any longer.
func (c *carried) ends(t *testing.T) {
	t.Helper()
	ended := c.AwaitRun(t, c.Store(t), c.id, "alone", longest, func(r store.Run) bool { return r.StayingUntil == nil })
	require.Equal(t, contract.StatusDone, ended.Status)
	require.NoError(t, c.Temporal(t).GetWorkflow(t.Context(), contract.RunWorkflowID(c.id), "").Get(t.Context(), nil))
	c.run = c.Inspect(t, c.id)
}

// over checks, from outside, that everything happened once, and the invariants of the run.
func (c *carried) over(t *testing.T) {
	t.Helper()
	queue := contract.MergeQueueWorkflowID(contract.QueueRef{Forge: "work", Repo: c.path, Base: "main"})
	require.NoError(t, c.Temporal(t).GetWorkflow(t.Context(), queue, "").Get(t.Context(), nil), "the merge queue ends when it is empty")
	require.Len(t, c.pulls(t, c.path), 1)
	require.Len(t, c.run.PullRequests, 1)
	require.Equal(t, c.number, c.run.PullRequests[0].Number)
	require.Equal(t, contract.PullRequestMerged, c.run.PullRequests[0].State)
	require.Equal(t, 1, countEvents(c.run, contract.EventPullRequestOpened))
	require.Equal(t, 1, countEvents(c.run, contract.EventPullRequestMerged))
	require.Equal(t, 1, strings.Count(c.answers(t, c.path, c.number), "rgpt:answer"), "one answer to the one comment")
	c.mergedOnce(t)
	c.issueClosedOnce(t)
	c.receivedOnce(t)
	for name, state := range c.statuses(t, c.run.ReleaseCommit) {
		require.Equal(t, "success", state, "status %s of the released commit", name)
	}
	var left []string
	for _, b := range c.branches(t, c.path) {
		left = append(left, b.Name)
	}
	require.Equal(t, []string{"main"}, left, "the branches of the run and of the queue are removed")
	harness.CheckInvariants(t, c.Stack, c.runs...)
	for _, h := range c.HistoriesOf(t, queue) {
		h.Replay(t)
	}
}

// mergedOnce checks that the base has one merge, of what the run released on top of the person's commit.
func (c *carried) mergedOnce(t *testing.T) {
	t.Helper()
	var list apitypes.MergeQueues
	c.OK(t, "queue", "list", "--repository", c.path, "--json").JSON(t, &list)
	require.Len(t, list.MergeQueues, 1)
	require.Empty(t, list.MergeQueues[0].Entries)
	require.Len(t, list.MergeQueues[0].Ended, 1, "it was added once")
	require.Equal(t, contract.QueueMerged, list.MergeQueues[0].Ended[0].State)
	clone := filepath.Join(t.TempDir(), "merged")
	harness.Git(t, c.Dir, "clone", "--quiet", c.forge.CloneURL(c.forge.Owner, c.path), clone)
	require.Equal(t, "1", harness.Git(t, clone, "rev-list", "--count", c.base+"..main", "--first-parent"), "one merge")
	require.Equal(t, c.run.ReleaseCommit, harness.Git(t, clone, "rev-parse", "main^2"))
	harness.Git(t, clone, "merge-base", "--is-ancestor", c.theirs, "main")
	require.Equal(t, "By hand", harness.Git(t, clone, "log", "-1", "--format=%s", c.theirs))
	harness.Git(t, clone, "merge-base", "--is-ancestor", c.instructed, "main")
	require.Equal(t, "written by step-001", harness.Git(t, clone, "show", c.instructed+":step-001.txt"), "the comment is carried out")
	require.Equal(t, "both", harness.Git(t, clone, "show", "main:step-001.txt"), "the conflict is resolved")
	require.Equal(t, "kind", harness.Git(t, clone, "show", "main:person.txt"), "the check is fixed")
}

// issueClosedOnce checks that the issue was closed once, with one comment.
func (c *carried) issueClosedOnce(t *testing.T) {
	t.Helper()
	var issue struct{ State string }
	c.forge.Do(t, c.forge.Owner, http.MethodGet, fmt.Sprintf("/repos/%s/issues/%d", c.path, c.issue), nil, &issue)
	require.Equal(t, "closed", issue.State)
	var timeline []struct{ Type string }
	c.forge.Do(t, c.forge.Owner, http.MethodGet, fmt.Sprintf("/repos/%s/issues/%d/timeline", c.path, c.issue), nil, &timeline)
	seen := map[string]int{}
	for _, e := range timeline {
		seen[e.Type]++
	}
	require.Equal(t, 1, seen["close"], "%v", seen)
	require.Equal(t, 1, seen["comment"], "%v", seen)
}

// receivedOnce checks that each delivery and each event of the forge had its effect once.
func (c *carried) receivedOnce(t *testing.T) {
	t.Helper()
	fired, err := triggers.List(t.Context(), c.Store(t), triggers.Filter{})
	require.NoError(t, err)
	require.Len(t, fired, 1)
	require.Equal(t, triggers.Fired, fired[0].State)
	all, err := c.Store(t).ListRuns(t.Context(), store.Filter{})
	require.NoError(t, err)
	require.Len(t, all, 1, "one run")
	var events []forgeevents.Event
	harness.Await(t, "the end of the work on all events", longest, func() (bool, string) {
		events, err = forgeevents.Of(t.Context(), c.Store(t), "work", c.path, c.number, 1000)
		return err == nil && !slices.ContainsFunc(events, func(e forgeevents.Event) bool { return e.State == forgeevents.Pending }), fmt.Sprintf("%+v %v", events, err)
	})
	sent := map[forgeevents.Kind]int{}
	for _, e := range events {
		require.NotEqual(t, forgeevents.Failed, e.State, "%+v", e)
		if e.State == forgeevents.Sent {
			sent[e.Kind]++
		}
	}
	require.Equal(t, 1, sent[forgeevents.Comment], "%+v", events)
	require.LessOrEqual(t, sent[forgeevents.Merged], 1, "%+v", events) // a server may have died after it had sent it
	received := map[string]int{}
	for _, e := range c.run.Events {
		if e.Type == contract.EventCheckReceived {
			var of struct {
				ID string `json:"id"`
			}
			require.NoError(t, json.Unmarshal(e.Payload, &of))
			received[of.ID]++
		}
	}
	require.Len(t, received, 2, "the comment and the failed check")
	for id, n := range received {
		require.Equal(t, 1, n, "message %s was taken once", id)
	}
}

// statuses returns the last state of each status of a commit.
func (c *carried) statuses(t *testing.T, commit string) map[string]string {
	t.Helper()
	var of struct {
		Statuses []struct {
			Context, Status string
		}
	}
	c.forge.Do(t, c.forge.Owner, http.MethodGet, "/repos/"+c.path+"/commits/"+commit+"/status", nil, &of)
	states := map[string]string{}
	for _, s := range of.Statuses {
		states[s.Context] = s.Status
	}
	require.Contains(t, states, "ci/tone")
	require.Contains(t, states, "rgpt/policy gate")
	return states
}

// fired waits until a delivery of a trigger has created its run, and returns the run.
func (w *forgeTests) fired(t *testing.T, trigger, delivery string) (run int64) {
	t.Helper()
	harness.Await(t, "the run of "+delivery, longest, func() (bool, string) {
		var list struct {
			Deliveries []triggers.Firing `json:"deliveries"`
		}
		text := w.OK(t, "trigger", "deliveries", trigger, "--json").Stdout
		require.NoError(t, json.Unmarshal([]byte(text), &list))
		for _, f := range list.Deliveries {
			if f.Delivery == delivery {
				run = f.RunID
			}
		}
		return run != 0, text
	})
	return run
}

// giteaBranch is a branch as Gitea's API describes it.
type giteaBranch struct {
	Name   string
	Commit struct{ ID string }
}

func (w *forgeTests) branches(t *testing.T, path string) (all []giteaBranch) {
	t.Helper()
	w.forge.Do(t, w.forge.Owner, http.MethodGet, "/repos/"+path+"/branches", nil, &all)
	return all
}

// queued waits until a merge queue has pushed a commit to be tested, and returns it.
func (w *forgeTests) queued(t *testing.T, path string) (commit string) {
	t.Helper()
	harness.Await(t, "the commit of the merge queue", longest, func() (bool, string) {
		all := w.branches(t, path)
		for _, b := range all {
			if strings.HasPrefix(b.Name, "rgpt/queue/") {
				commit = b.Commit.ID
				return true, ""
			}
		}
		return false, fmt.Sprintf("%+v\n%s", all, w.OK(t, "queue", "list", "--repository", path).Stdout)
	})
	return commit
}

// movedOn waits until a run has released another commit to its pull request.
func (w *forgeTests) movedOn(t *testing.T, path string, before views.RunDetails) views.RunDetails {
	t.Helper()
	w.AwaitRun(t, w.Store(t), before.ID, "released again", longest, func(r store.Run) bool {
		return r.Status == contract.StatusDone && r.ReleaseCommit != before.ReleaseCommit
	})
	now := w.Inspect(t, before.ID)
	require.Equal(t, now.ReleaseCommit, w.forge.Head(t, path, now.ReleaseBranch))
	return now
}

// pushes adds a commit of the reviewer to a branch on the forge.
func (w *forgeTests) pushes(t *testing.T, path, branch, file, text string) string {
	t.Helper()
	clone := filepath.Join(t.TempDir(), "person")
	harness.Git(t, w.Dir, "clone", "--quiet", "--branch", branch, w.forge.CloneURL(w.forge.Reviewer, path), clone)
	harness.WriteFiles(t, clone, map[string]string{file: text})
	harness.Git(t, clone, "add", "--all")
	harness.Git(t, clone, "commit", "--quiet", "--message", "By hand", "--author", w.forge.Reviewer.Login+" <reviewer@example.com>")
	harness.Git(t, clone, "push", "--quiet", "origin", branch)
	return harness.Git(t, clone, "rev-parse", "HEAD")
}

// answers returns what the account of the run wrote on a pull request.
func (w *forgeTests) answers(t *testing.T, path string, number int64) string {
	t.Helper()
	type note struct {
		Body string `json:"body"`
		User struct {
			Login string `json:"login"`
		} `json:"user"`
	}
	var all []note
	w.forge.Do(t, w.forge.Owner, http.MethodGet, fmt.Sprintf("/repos/%s/issues/%d/comments", path, number), nil, &all)
	var reviews []struct {
		ID int64 `json:"id"`
	}
	w.forge.Do(t, w.forge.Owner, http.MethodGet, fmt.Sprintf("/repos/%s/pulls/%d/reviews", path, number), nil, &reviews)
	for _, r := range reviews {
		var lines []note
		w.forge.Do(t, w.forge.Owner, http.MethodGet, fmt.Sprintf("/repos/%s/pulls/%d/reviews/%d/comments", path, number, r.ID), nil, &lines)
		all = append(all, lines...)
	}
	var b strings.Builder
	for _, n := range all {
		if n.User.Login == w.forge.Bot.Login {
			b.WriteString(n.Body + "\n")
		}
	}
	return b.String()
}

// record writes the histories of a run to the directory of the flag. Existing ones are evidence of what a
// version did, and stay.
func (w *forgeTests) record(t *testing.T, id int64) {
	t.Helper()
	for _, h := range w.Histories(t, id) {
		if len(h.Events) == 0 {
			continue
		}
		name := "pull-request-run"
		if rest := strings.TrimPrefix(h.WorkflowID, contract.RunWorkflowID(id)); rest != "" {
			name = "pull-request" + strings.NewReplacer("/step/", "-", "/", "-").Replace(rest)
		}
		writeHistory(t, name, h)
	}
}

// writeHistory writes a history to the directory of the flag.
func writeHistory(t *testing.T, name string, h harness.History) {
	t.Helper()
	raw, err := temporalproto.CustomJSONMarshalOptions{}.Marshal(h.History)
	require.NoError(t, err)
	f, err := os.OpenFile(filepath.Join(*recordTo, name+".json.gz"), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	require.NoError(t, err)
	packed := gzip.NewWriter(f)
	packed.ModTime = time.Time{}
	_, err = packed.Write(raw)
	require.NoError(t, err)
	require.NoError(t, packed.Close())
	require.NoError(t, f.Close())
}
