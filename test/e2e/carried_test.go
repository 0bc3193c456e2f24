package e2e

import (
	"compress/gzip"
	"encoding/json"
	"flag"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/api/temporalproto"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/internal/store/triggers"
	"github.com/rocketgpt/orchestrator/internal/store/views"
	"github.com/rocketgpt/orchestrator/test/gitea"
	"github.com/rocketgpt/orchestrator/test/harness"
)

// recordTo is a directory for the histories of the test below, for the replay test.
var recordTo = flag.String("record-histories", "", "directory to which the histories of a run with a pull request are written")

// TestAnIssueBecomesAMergedPullRequest labels an issue on a real Gitea. The run that this triggers stays
// with its pull request: a reviewer's comment is carried out and answered, a person's push is built on, a
// red check is fixed on top of it, a conflict with the base is resolved, and once it is approved, the merge
// queue merges it, which closes the issue and ends the watch.
func TestAnIssueBecomesAMergedPullRequest(t *testing.T) {
	t.Parallel()
	rules := first(quickRules("20ms"),
		rule(on("agent", "repair", "contains", "person.txt is rude"),
			calls(call("edit_file", "path", "person.txt", "old_text", "rude", "new_text", "kind"), harness.Finish("Said it kindly.")), 300),
		rule(on("agent", "repair", "contains", "the branch conflicts with commit"),
			calls(call("delete_file", "path", "step-001.txt"), call("create_file", "path", "step-001.txt", "content", "both\n"), harness.Finish("Kept both.")), 300),
		rule(on("agent", "repair"),
			calls(call("edit_file", "path", "step-001.txt", "old_text", "made", "new_text", "written"), harness.Finish("Wrote instead of made. Nothing else says it.")), 300),
	).Named("carried")
	server := gitea.Start(t)
	path, dir := newRepository(t, server), filepath.Join(t.TempDir(), "carried")
	w := startForge(t, server, rules, "poll: 1s, poll_limit: 10000",
		"merge: {when: approved, approvals: 1, checks: [ci/tone], check_poll: 200ms}",
		fmt.Sprintf("triggers: {label: {on: issue, forge: work, repository: %q, repo: %q, label: ready, release: pull_request, "+
			"settings: {git.stay: 1h, gate.approver: not_author}}}\n", path, dir))
	w.fill(t, path, dir)
	issue := w.forge.Issue(t, w.forge.Owner, path, harness.Goal("carried"), "Please.")
	w.forge.SetLabel(t, w.forge.Owner, path, issue, w.forge.Label(t, path, "ready"))
	id := w.note(w.fired(t, "label", fmt.Sprintf("issue:%d", issue)))
	w.AwaitRun(t, w.Store(t), id, "with its branch", longest, func(r store.Run) bool { return r.StayingUntil != nil })
	run := w.Inspect(t, id)
	require.Equal(t, issue, run.Settings.Issue.Number)
	require.Equal(t, 1, countEvents(run, contract.EventTriggerFired))
	number := run.PullRequests[0].Number

	w.forge.Do(t, w.forge.Reviewer, http.MethodPost, fmt.Sprintf("/repos/%s/pulls/%d/reviews", path, number), map[string]any{
		"event": "COMMENT", "body": "", "comments": []map[string]any{{"path": "step-001.txt", "body": "Say written.", "new_position": 1}},
	}, nil)
	run = w.movedOn(t, path, run)
	require.Equal(t, "Wrote instead of made", harness.Git(t, dir, "log", "-1", "--format=%s", run.ReleaseCommit))
	harness.Await(t, "the answer", longest, func() (bool, string) {
		text := w.answers(t, path, number)
		return strings.Contains(text, "Carried out in `"+run.ReleaseCommit[:12]) && strings.Contains(text, "Wrote instead of made."), text
	})

	theirs := w.pushes(t, path, run.ReleaseBranch, "person.txt", "rude\n")
	harness.Await(t, "the run to continue from the push", longest, func() (bool, string) {
		run = w.Inspect(t, id)
		return countEvents(run, contract.EventStayPushed) == 1, fmt.Sprint(eventTypes(run.Events))
	})
	require.Equal(t, theirs, harness.Git(t, dir, "rev-parse", run.ReleaseBranch), "the repository has it too")
	require.Equal(t, theirs, run.PullRequests[0].Commit)
	w.forge.Status(t, path, theirs, "ci/tone", "failure", "person.txt is rude")
	run = w.movedOn(t, path, run)
	require.Equal(t, theirs, harness.Git(t, dir, "rev-parse", run.ReleaseCommit+"^"), "the person's commit is as it was")
	require.Equal(t, "kind\n", harness.Git(t, dir, "show", run.ReleaseCommit+":person.txt")+"\n")
	verdict := run.Gate[len(run.Gate)-1]
	require.Equal(t, contract.GateRelease, verdict.Stage)
	require.Equal(t, 1, verdict.FilesTotal, "what the person pushed is not judged")

	base, before := w.pushes(t, path, "main", "step-001.txt", "from the base\n"), run.ReleaseCommit
	run = w.movedOn(t, path, run)
	require.Equal(t, before+" "+base, harness.Git(t, dir, "log", "-1", "--format=%P", run.ReleaseCommit), "the base is merged")
	require.Equal(t, "both", harness.Git(t, dir, "show", run.ReleaseCommit+":step-001.txt"))
	require.Equal(t, 1, countEvents(run, contract.EventStayUpdating))
	require.Equal(t, 1, countEvents(run, contract.EventStayUpdated))
	verdict = run.Gate[len(run.Gate)-1]
	require.Equal(t, contract.GateRelease, verdict.Stage)
	require.Equal(t, 1, verdict.FilesTotal, "only the resolution is judged")

	w.forge.Do(t, w.forge.Reviewer, http.MethodPost, fmt.Sprintf("/repos/%s/pulls/%d/reviews", path, number),
		map[string]any{"event": "APPROVED", "body": "Good.", "commit_id": run.ReleaseCommit}, nil)
	w.forge.Status(t, path, run.ReleaseCommit, "ci/tone", "success", "kind")
	w.testsQueue(t, path, "ci/tone")
	ended := w.AwaitRun(t, w.Store(t), id, "alone", longest, func(r store.Run) bool { return r.StayingUntil == nil })
	require.Equal(t, contract.StatusDone, ended.Status)
	require.NoError(t, w.Temporal(t).GetWorkflow(t.Context(), contract.RunWorkflowID(id), "").Get(t.Context(), nil))
	run = w.Inspect(t, id)
	require.Equal(t, contract.PullRequestMerged, run.PullRequests[0].State)
	var closed struct{ State string }
	w.forge.Do(t, w.forge.Owner, http.MethodGet, fmt.Sprintf("/repos/%s/issues/%d", path, issue), nil, &closed)
	require.Equal(t, "closed", closed.State)
	require.Contains(t, w.OK(t, "queue", "list", "--repository", path, "--json").Stdout, `"merged"`)
	require.Len(t, w.pulls(t, path), 1)
	require.Equal(t, 1, strings.Count(w.answers(t, path, number), "rgpt:answer"), "one answer")
	if *recordTo != "" {
		w.record(t, id)
	}
	harness.CheckInvariants(t, w.Stack, w.runs...)
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

// testsQueue waits until a merge queue has pushed a commit to be tested, and lets its check succeed.
func (w *forgeTests) testsQueue(t *testing.T, path, check string) {
	t.Helper()
	var all []struct {
		Name   string
		Commit struct{ ID string }
	}
	harness.Await(t, "the commit of the merge queue", longest, func() (bool, string) {
		all = nil
		w.forge.Do(t, w.forge.Owner, http.MethodGet, "/repos/"+path+"/branches", nil, &all)
		for _, b := range all {
			if strings.HasPrefix(b.Name, "rgpt/queue/") {
				w.forge.Status(t, path, b.Commit.ID, check, "success", "together")
				return true, ""
			}
		}
		return false, fmt.Sprintf("%+v\n%s", all, w.OK(t, "queue", "list", "--repository", path).Stdout)
	})
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
}
