package activities_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/config"
	"github.com/rocketgpt/orchestrator/internal/gate"
	"github.com/rocketgpt/orchestrator/internal/gate/releases"
	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/internal/store/verdicts"
)

// gated replaces the fixture's run by one with a policy gate and labels.
func (h *fixture) gated(labels ...string) {
	h.t.Helper()
	settings := h.run.Settings
	settings.Gate = gate.Settings(h.Config)
	run, _, err := h.Store.CreateRun(h.t.Context(), store.NewRun{
		Project: "p", GoalTitle: "Say more", Labels: labels, Settings: settings, Spec: h.run.Spec, MaxRetries: 3,
		GivenPlan: &contract.Plan{Summary: "s", Steps: []contract.Step{{ID: "step-001", Name: "Say it", Description: "d"}}},
	})
	require.NoError(h.t, err)
	h.run = run
}

// changed returns the workspace in which a file has another text.
func (h *fixture) changed(from contract.Workspace, name, text string) contract.Workspace {
	h.t.Helper()
	dir, err := h.Workspaces.Open(h.t.Context(), from, "change "+name)
	require.NoError(h.t, err)
	defer dir.Close()
	file := filepath.Join(dir.Path(), name)
	require.NoError(h.t, os.MkdirAll(filepath.Dir(file), 0o755))
	require.NoError(h.t, os.WriteFile(file, []byte(text), 0o644))
	to, err := dir.Save(h.t.Context())
	require.NoError(h.t, err)
	return to
}

// releaseOf returns the release of a workspace, and what the gate judges before it.
func (h *fixture) releaseOf(to contract.Workspace) (contract.ReleaseInput, contract.GateInput) {
	h.t.Helper()
	execution := h.begin(contract.PhaseReleaser, "")
	credits, stages := []contract.Credit{{Step: "step-001"}}, []contract.Workspace{to.Slim()}
	release := contract.ReleaseInput{
		Execution: execution, Repo: h.repo, Workspace: to, Release: h.run.Settings.Release, PlanID: h.run.PlanID, Credits: credits, Stages: stages,
	}
	return release, contract.GateInput{
		Execution: execution, Stage: contract.GateRelease, From: h.repo.Workspace(), To: to, Stages: stages, Credits: credits, PlanID: h.run.PlanID,
	}
}

func TestAReleaseThatTheGateHasNotJudgedIsRefused(t *testing.T) {
	t.Parallel()
	h := newFixture(t, "  []")
	h.gated()
	to := h.changed(h.repo.Workspace(), "hello.txt", "hello again\n")
	release, judged := h.releaseOf(to)
	_, failure := do[contract.ReleaseResult](h, h.Release, release)
	require.NotNil(t, failure)
	require.Contains(t, failure.Message, "has not judged what run")
	require.Contains(t, failure.Message, contract.CodeStaleVerdict, "so the workflow has it judged")

	verdict, failure := do[contract.GateVerdict](h, h.JudgeChange, judged)
	require.Nil(t, failure)
	require.Equal(t, contract.GateAllow, verdict.Decision)
	again, failure := do[contract.GateVerdict](h, h.JudgeChange, judged)
	require.Nil(t, failure)
	require.Equal(t, verdict, again, "one verdict per change")

	_, failure = do[contract.ReleaseResult](h, h.Release, release)
	require.NotNil(t, failure, "a release must name the verdict about it")
	other, _ := h.releaseOf(h.changed(to, "hello.txt", "hello otherwise\n"))
	other.Execution, other.Gate = release.Execution, verdict.Subject
	_, failure = do[contract.ReleaseResult](h, h.Release, other)
	require.NotNil(t, failure, "the verdict is about something else")

	release.Gate = verdict.Subject
	released, failure := do[contract.ReleaseResult](h, h.Release, release)
	require.Nil(t, failure)
	require.NotEmpty(t, released.Commit)
	all, err := verdicts.Of(t.Context(), h.Store, h.run.ID)
	require.NoError(t, err)
	require.Len(t, all, 1, "the refused releases were not judged")
	require.Equal(t, to.Tree, all[0].Tree)
	require.Contains(t, all[0].Policies, "default")
}

func TestAReleaseThatNeedsApprovalIsMadeOnlyIfAPersonApprovedExactlyThis(t *testing.T) {
	t.Parallel()
	h := newFixture(t, "  []")
	h.gated("needs-review")
	release, judged := h.releaseOf(h.changed(h.repo.Workspace(), "hello.txt", "hello again\n"))
	verdict, failure := do[contract.GateVerdict](h, h.JudgeChange, judged)
	require.Nil(t, failure)
	require.Equal(t, contract.GateNeedsApproval, verdict.Decision)
	release.Gate, release.ApprovedBy = verdict.Subject, "mallory" // who is only named by the workflow
	_, failure = do[contract.ReleaseResult](h, h.Release, release)
	require.NotNil(t, failure)
	require.Contains(t, failure.Message, "needs the approval of a named person")

	shown := verdict.ID + 1
	approve := func(by, subject string) {
		for _, status := range []string{"pending", "granted"} {
			h.seq++
			_, err := h.Store.Record(t.Context(), store.Source{WorkflowID: "w", WorkflowRunID: "r"}, contract.Record{
				RunID: h.run.ID, Seq: h.seq, Notes: map[string]string{"id": "release", "kind": contract.ApprovalRelease, "status": status, "by": by, "subject": subject, "verdict": strconv.FormatInt(shown, 10)},
			})
			require.NoError(t, err)
		}
	}
	for _, c := range [][2]string{{"ann", "something else"}, {contract.ByAPI, verdict.Subject}} {
		approve(c[0], c[1])
		_, failure = do[contract.ReleaseResult](h, h.Release, release)
		require.NotNil(t, failure, c)
	}
	approve("ann", verdict.Subject)
	_, failure = do[contract.ReleaseResult](h, h.Release, release)
	require.Nil(t, failure)
	again, failure := do[contract.GateVerdict](h, h.JudgeChange, judged)
	require.Nil(t, failure)
	require.Empty(t, again.ApprovedBy, "a person who saw another verdict did not consent to what this one says")
	shown = verdict.ID
	approve("ann", verdict.Subject)
	again, failure = do[contract.GateVerdict](h, h.JudgeChange, judged)
	require.Nil(t, failure)
	require.Equal(t, "ann", again.ApprovedBy, "a repeat of the run need not ask again")
}

func TestAnAuthorsApprovalDoesNotReleaseIfThePolicyWantsAnother(t *testing.T) {
	t.Parallel()
	h := newFixture(t, "  []")
	h.Config.Gate.Approver = config.ApproverNotAuthor
	h.gated("needs-review")
	release, judged := h.releaseOf(h.changed(h.repo.Workspace(), "hello.txt", "hello again\n"))
	verdict, failure := do[contract.GateVerdict](h, h.JudgeChange, judged)
	require.Nil(t, failure)
	require.Equal(t, contract.ApproverNotAuthor, verdict.Approver)
	require.Empty(t, verdict.Authors)
	h.seq++
	_, err := h.Store.Record(t.Context(), store.Source{WorkflowID: "w", WorkflowRunID: "r"}, contract.Record{RunID: h.run.ID, Seq: h.seq, Events: []contract.EventDraft{
		{Type: contract.EventCheckReceived, Payload: map[string]any{"by": "cid", "check_kind": contract.CheckComment}},
	}})
	require.NoError(t, err)
	verdict, failure = do[contract.GateVerdict](h, h.JudgeChange, judged)
	require.Nil(t, failure)
	require.Equal(t, []string{"cid"}, verdict.Authors, "the people that the releaser would refuse, whatever the workflow knows")
	release.Gate, release.ApprovedBy, release.Authors = verdict.Subject, "ann", []string{"Ann"}
	for _, status := range []string{"pending", "granted"} {
		h.seq++
		_, err := h.Store.Record(t.Context(), store.Source{WorkflowID: "w", WorkflowRunID: "r"}, contract.Record{
			RunID: h.run.ID, Seq: h.seq, Notes: map[string]string{"id": "release", "kind": contract.ApprovalRelease, "status": status, "by": "ann", "subject": verdict.Subject},
		})
		require.NoError(t, err)
	}
	_, failure = do[contract.ReleaseResult](h, h.Release, release)
	require.NotNil(t, failure)
	require.Contains(t, failure.Message, "a person who is not an author of its change, and ann is one")
	all, err := verdicts.Of(t.Context(), h.Store, h.run.ID)
	require.NoError(t, err)
	require.Equal(t, []contract.GateFile{{Path: "hello.txt", Status: "changed", Added: 1, Removed: 1}}, all[0].Files)
	require.Equal(t, 1, all[0].FilesTotal)
	release.Authors = []string{"bob"}
	_, failure = do[contract.ReleaseResult](h, h.Release, release)
	require.Nil(t, failure)
}

func TestADeniedReleaseIsNotMadeWhoeverApprovesIt(t *testing.T) {
	t.Parallel()
	h := newFixture(t, "  []")
	h.gated("blocked")
	release, judged := h.releaseOf(h.changed(h.repo.Workspace(), "hello.txt", "hello again\n"))
	verdict, failure := do[contract.GateVerdict](h, h.JudgeChange, judged)
	require.Nil(t, failure)
	require.Equal(t, contract.GateDeny, verdict.Decision)
	release.Gate, release.ApprovedBy = verdict.Subject, "ann"
	_, failure = do[contract.ReleaseResult](h, h.Release, release)
	require.NotNil(t, failure)
	require.Contains(t, failure.Message, "the policy gate denied the release")
}

func TestARepositorysPoliciesAreThoseOfTheBaseCommit(t *testing.T) {
	t.Parallel()
	h := newFixture(t, "  []")
	const deny = "package repository\n\ndeny contains \"nobody may say more\"\n"
	h.gated()
	own := h.changed(h.repo.Workspace(), ".rgpt/policies/own.rego", deny)
	_, judged := h.releaseOf(own)
	verdict, failure := do[contract.GateVerdict](h, h.JudgeChange, judged)
	require.Nil(t, failure)
	require.NotEqual(t, contract.GateDeny, verdict.Decision, "a change does not choose its policies: %s", verdict.Summary())

	require.NoError(t, os.MkdirAll(filepath.Join(h.dataDir, "source", ".rgpt", "policies"), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(h.dataDir, "source", ".rgpt", "policies", "own.rego"), []byte(deny), 0o644))
	h.git("add", "-A")
	h.git("-c", "user.name=t", "-c", "user.email=t@t", "commit", "-qm", "Add policies")
	repo, _, err := h.Workspaces.Resolve(t.Context(), filepath.Join(h.dataDir, "source"), "")
	require.NoError(t, err)
	start, err := h.Workspaces.Start(t.Context(), repo)
	require.NoError(t, err)
	repo.Tree = start.Tree
	h.repo, h.run.Settings.Repo = repo, repo
	h.gated()
	step := contract.GateInput{
		Execution: h.begin(contract.PhaseBuilder, "step-001"), Stage: contract.GateStep, Step: "step-001", From: start, To: h.changed(start, "hello.txt", "hello again\n"),
	}
	verdict, failure = do[contract.GateVerdict](h, h.JudgeChange, step)
	require.Nil(t, failure)
	require.Equal(t, contract.GateDeny, verdict.Decision)
	require.Contains(t, verdict.Summary(), "nobody may say more")
}

func TestARepositoryThatIsNotOnThisHostIsJudgedElsewhere(t *testing.T) {
	t.Parallel()
	h := newFixture(t, "  []")
	h.gated()
	_, judged := h.releaseOf(h.changed(h.repo.Workspace(), "hello.txt", "hello again\n"))
	judged.LocalOnly, judged.To.Base = true, "0123456789012345678901234567890123456789"
	verdict, failure := do[contract.GateVerdict](h, h.JudgeChange, judged)
	require.Nil(t, failure)
	require.True(t, verdict.Cold)
}

func TestADependencyIsLookedUpOnceBeforeItIsJudged(t *testing.T) {
	t.Parallel()
	h := newFixture(t, "  []")
	var asked atomic.Int32
	published := time.Now().Add(-time.Hour)
	registry := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked.Add(1)
		fmt.Fprintf(w, `{"time":{"1.0.0":"2020-01-01T00:00:00Z","1.0.1":%q}}`, published.Format(time.RFC3339))
	}))
	t.Cleanup(registry.Close)
	d := &h.Config.Gate.Dependencies
	d.Lookup, d.Registries.NPM = true, registry.URL
	h.Config.Gate.Policy = "strict"
	var err error
	h.Registries, err = releases.New(*d, "")
	require.NoError(t, err)
	t.Cleanup(h.Registries.Close)
	h.gated()
	release, judged := h.releaseOf(h.changed(h.repo.Workspace(), "package.json", `{"dependencies":{"thing":"1.0.1"}}`))

	judged.LocalOnly = true
	verdict, failure := do[contract.GateVerdict](h, h.JudgeChange, judged)
	require.Nil(t, failure)
	require.True(t, verdict.Cold, "a local activity does not wait for registries")
	require.Zero(t, asked.Load())
	judged.LocalOnly = false
	verdict, failure = do[contract.GateVerdict](h, h.JudgeChange, judged)
	require.Nil(t, failure)
	require.Equal(t, contract.GateNeedsApproval, verdict.Decision)
	require.Contains(t, verdict.Summary(), "thing 1.0.1 of npm was published on "+published.UTC().Format("2006-01-02 15:04 UTC"))
	require.EqualValues(t, 1, asked.Load())

	step := contract.GateInput{Execution: release.Execution, Stage: contract.GateStep, Step: "step-001", From: judged.From, To: judged.To, LocalOnly: true}
	of, failure := do[contract.GateVerdict](h, h.JudgeChange, step)
	require.Nil(t, failure)
	require.False(t, of.Cold, "all answers are in memory")
	require.EqualValues(t, 1, asked.Load())

	registry.Close()
	again, failure := do[contract.GateVerdict](h, h.JudgeChange, judged)
	require.Nil(t, failure)
	require.Equal(t, verdict, again)
}

func TestARunWhoseRegistriesTheWorkerMayNotAskHasUnknownAges(t *testing.T) {
	t.Parallel()
	h := newFixture(t, "  []")
	h.Config.Gate.Dependencies.Lookup = true
	h.Config.Gate.Policy = "strict"
	h.gated()
	_, judged := h.releaseOf(h.changed(h.repo.Workspace(), "package.json", `{"dependencies":{"thing":"1.0.1"}}`))
	verdict, failure := do[contract.GateVerdict](h, h.JudgeChange, judged)
	require.Nil(t, failure)
	require.Equal(t, contract.GateNeedsApproval, verdict.Decision)
	require.Contains(t, verdict.Summary(), "the worker is not allowed to ask registries")
}

func TestAPullRequestIntoAnotherBranchNeedsApprovalOfTheCommitsOfOthers(t *testing.T) {
	t.Parallel()
	h := newFixture(t, "  []")
	remote := filepath.Join(t.TempDir(), "remote.git")
	h.git("clone", "-q", "--bare", ".", remote)
	h.git("remote", "add", "origin", remote)
	h.git("push", "-q", "origin", "main:stable")
	h.git("-c", "user.name=t", "-c", "user.email=t@t", "commit", "-q", "--allow-empty", "-m", "Nobody judged this")
	var err error
	tree := h.repo.Tree
	h.repo, _, err = h.Workspaces.Resolve(t.Context(), h.repo.URL, "")
	require.NoError(t, err)
	h.repo.Tree = tree
	h.run.Settings.Repo = h.repo
	h.run.Settings.Release.Push, h.run.Settings.Release.Remote = true, "origin"
	h.run.Settings.Release.PullRequest = &contract.PullRequestSettings{Base: "stable"}
	h.gated()
	_, judged := h.releaseOf(h.changed(h.repo.Workspace(), "hello.txt", "hello again\n"))
	local := judged
	local.LocalOnly = true
	verdict, failure := do[contract.GateVerdict](h, h.JudgeChange, local)
	require.Nil(t, failure)
	require.True(t, verdict.Cold, "the remote is asked, which takes too long for a local activity")
	verdict, failure = do[contract.GateVerdict](h, h.JudgeChange, judged)
	require.Nil(t, failure)
	require.Equal(t, contract.GateNeedsApproval, verdict.Decision)
	require.Contains(t, verdict.Summary(), "would also merge 1 commits that stable does not have")
	require.Contains(t, verdict.Summary(), "Nobody judged this")

	h.git("push", "-q", "origin", "main:stable")
	again, failure := do[contract.GateVerdict](h, h.JudgeChange, judged)
	require.Nil(t, failure)
	require.Equal(t, contract.GateAllow, again.Decision, "nothing of others is left")
	require.NotEqual(t, verdict.Subject, again.Subject)
}
