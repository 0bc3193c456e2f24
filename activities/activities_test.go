package activities_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/testsuite"
	"go.uber.org/goleak"

	"github.com/rocketgpt/orchestrator/activities"
	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/artifact"
	"github.com/rocketgpt/orchestrator/internal/config"
	"github.com/rocketgpt/orchestrator/internal/fault"
	"github.com/rocketgpt/orchestrator/internal/gate/policy"
	"github.com/rocketgpt/orchestrator/internal/sandbox"
	"github.com/rocketgpt/orchestrator/internal/sandbox/sandboxtest"
	"github.com/rocketgpt/orchestrator/internal/scripted"
	"github.com/rocketgpt/orchestrator/internal/setup"
	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/internal/store/views"
	"github.com/rocketgpt/orchestrator/internal/storetest"
	"github.com/rocketgpt/orchestrator/internal/telemetry"
	"github.com/rocketgpt/orchestrator/internal/tool"
)

// toolchains are those of this machine, which are the same for all tests.
var toolchains = sync.OnceValue(sandbox.DetectToolchains)

func TestMain(m *testing.M) {
	sandbox.MaybeRunHelper()
	policy.MaybeRunHelper()
	sandboxtest.UseBuiltTools()
	goleak.VerifyTestMain(storetest.Main(m))
}

// fixture is everything that activities use, all real except the model, which answers
// from a scenario over HTTP.
type fixture struct {
	*activities.Activities
	t       *testing.T
	env     *testsuite.TestActivityEnvironment
	repo    contract.Repo
	run     store.Run
	log     string // of the scripted model
	url     string // of the database
	dataDir string
	seq     int64

	mu     sync.Mutex
	limits []int64  // output limits of the model's requests
	bodies [][]byte // of the model's requests

	onServed func() // called while the model answers a request
}

var choice = contract.ModelChoice{Provider: setup.Scripted, Model: setup.Scripted}

// newFixture creates a run on a repository with one file, with a scenario's rules.
func newFixture(t *testing.T, rules string) *fixture {
	t.Helper()
	dir := t.TempDir()
	h := &fixture{t: t, log: filepath.Join(dir, "requests.jsonl"), dataDir: dir}
	scenario, err := scripted.Parse("test", []byte("rules:\n"+rules))
	require.NoError(t, err)
	model, err := scripted.New(scenario, scripted.Options{LogPath: h.log})
	require.NoError(t, err)
	web := httptest.NewServer(h.recordLimits(model))
	t.Cleanup(func() { require.NoError(t, model.Close()); web.Close() })

	cfg, err := setup.Load(config.Sources{Env: []string{}}, web.URL+"/v1")
	require.NoError(t, err)
	h.url = storetest.URL(t)
	db, err := store.Open(t.Context(), h.url, store.Options{MaxConns: 4})
	require.NoError(t, err)
	t.Cleanup(db.Close)
	h.Activities = &activities.Activities{Store: db, Views: views.New(db), Config: cfg, DataDir: dir}
	log, _, err := telemetry.NewLogger(telemetry.LogOptions{Console: t.Output()})
	require.NoError(t, err)
	h.Log = log
	h.Artifacts, err = artifact.Open(t.Context(), "", filepath.Join(dir, "artifacts"), artifact.WithSync(false))
	require.NoError(t, err)
	h.Workspaces, err = setup.Workspaces(cfg, dir, h.Artifacts, setup.KeepSpares(cfg))
	require.NoError(t, err)
	h.Model, err = setup.Model(cfg)
	require.NoError(t, err)
	t.Cleanup(h.Model.Close)
	h.Tools, err = tool.Builtin().Set()
	require.NoError(t, err)
	h.Sandbox, err = sandbox.NewProcess(sandbox.Options{Toolchains: toolchains(), Executable: sandboxtest.Executable(t), DataDir: h.dataDir})
	require.NoError(t, err)
	h.makeRun(cfg)

	var suite testsuite.WorkflowTestSuite
	h.env = suite.NewTestActivityEnvironment()
	for _, f := range []any{h.Record, h.Plan, h.AdoptPlan, h.Think, h.CallTool, h.OpenStep, h.Integrate, h.Environment, h.PlanTests, h.Verify, h.TestReport, h.Diagnose, h.Release, h.Protected, h.JudgeChange, h.Judge, h.CleanUp,
		h.PipelineRecord, h.CreatePipeline, h.ClosePipeline, h.OpenMember, h.WriteHandoff, h.SaveTranscript, h.TakeBranch,
		h.UpdateBranch, h.ConflictMarkers} {
		h.env.RegisterActivity(f)
	}
	return h
}

func (h *fixture) makeRun(cfg *config.Config) {
	h.t.Helper()
	source := filepath.Join(h.dataDir, "source")
	require.NoError(h.t, os.MkdirAll(source, 0o755))
	require.NoError(h.t, os.WriteFile(filepath.Join(source, "hello.txt"), []byte("hello\n"), 0o644))
	require.NoError(h.t, os.WriteFile(filepath.Join(source, "Makefile"), []byte("test:\n\t@grep -q hello hello.txt\n"), 0o644))
	h.git("init", "-q", "-b", "main")
	h.git("add", "-A")
	h.git("-c", "user.name=t", "-c", "user.email=t@t", "commit", "-qm", "Start")
	var err error
	h.repo, _, err = h.Workspaces.Resolve(h.t.Context(), source, "")
	require.NoError(h.t, err)
	start, err := h.Workspaces.Start(h.t.Context(), h.repo)
	require.NoError(h.t, err)
	h.repo.Tree = start.Tree
	settings, spec, err := setup.Freeze(cfg, h.repo)
	require.NoError(h.t, err)
	settings.Release.Branch = "rgpt/run-test"
	h.run, _, err = h.Store.CreateRun(h.t.Context(), store.NewRun{
		Project: "p", GoalTitle: "Say more", Settings: settings, Spec: spec, MaxRetries: 3,
		GivenPlan: &contract.Plan{Summary: "s", Steps: []contract.Step{{ID: "step-001", Name: "Say it", Description: "d"}}},
	})
	require.NoError(h.t, err)
}

func (h *fixture) git(args ...string) string {
	h.t.Helper()
	cmd := exec.CommandContext(h.t.Context(), "git", append([]string{"-C", filepath.Join(h.dataDir, "source")}, args...)...)
	out, err := cmd.CombinedOutput()
	require.NoError(h.t, err, "%s", out)
	return strings.TrimSpace(string(out))
}

// begin opens an execution, like a workflow with a record.
func (h *fixture) begin(p contract.Phase, step string) contract.ExecutionRef {
	h.t.Helper()
	h.seq++
	result, err := h.Store.Record(h.t.Context(), store.Source{WorkflowID: "w", WorkflowRunID: "r"}, contract.Record{
		RunID: h.run.ID, Seq: h.seq, Begin: &contract.ExecutionBegin{Phase: p, Step: step, Agent: contract.AgentOf(p), Model: choice},
	})
	require.NoError(h.t, err)
	return result.Execution
}

// do carries out an activity and returns its result and failure.
func do[T any](h *fixture, f, in any) (T, *contract.Failure) {
	h.t.Helper()
	var out T
	value, err := h.env.ExecuteActivity(f, in)
	if err != nil {
		return out, fault.Of(err)
	}
	require.NoError(h.t, value.Get(&out))
	return out, nil
}

// served returns how often the model answered.
func (h *fixture) served() int {
	h.t.Helper()
	entries, err := scripted.ReadLog(h.log)
	require.NoError(h.t, err)
	n := 0
	for _, e := range entries {
		if e.Status == 200 {
			n++
		}
	}
	return n
}

// openStep opens a step's conversation on the base.
func (h *fixture) openStep() (contract.ExecutionRef, contract.Workspace) {
	h.t.Helper()
	opened, failure := do[contract.OpenStepResult](h, h.OpenStep, h.opening())
	require.Nil(h.t, failure)
	if opened.Cold { // an index is being made
		in := h.opening()
		in.LocalOnly = false
		opened, failure = do[contract.OpenStepResult](h, h.OpenStep, in)
		require.Nil(h.t, failure)
	}
	return opened.Execution, opened.Workspace
}

// opening is a step's workflow's first input.
func (h *fixture) opening() contract.OpenStepInput {
	h.seq++
	return contract.OpenStepInput{
		Record: contract.Record{RunID: h.run.ID, Seq: h.seq, Begin: &contract.ExecutionBegin{
			Phase: contract.PhaseBuilder, Step: "step-001", Agent: contract.AgentBuilder, Model: choice,
		}},
		PlanID: h.run.PlanID, Workspace: h.repo.Workspace(), LocalOnly: true,
	}
}

const editHello = `
  - when: {agent: builder, turn: 1}
    reply: {tool_calls: [{name: edit_file, arguments: {path: hello.txt, old_text: hello, new_text: hello there}}, {name: finish, arguments: {summary: said more}}]}
    usage: {prompt_tokens: 100, completion_tokens: 10}
`

func TestAModelCallWhoseAnswerIsStoredPaysNothing(t *testing.T) {
	t.Parallel()
	h := newFixture(t, editHello)
	e, _ := h.openStep()
	in := contract.ThinkInput{Execution: e, Turn: 1, Model: choice}
	first, failure := do[contract.ThinkResult](h, h.Think, in)
	require.Nil(t, failure)
	again, failure := do[contract.ThinkResult](h, h.Think, in)
	require.Nil(t, failure)
	require.Equal(t, first, again)
	require.Equal(t, 1, h.served())
	require.True(t, first.Finish)
	require.Equal(t, []contract.ToolCallRef{{Index: 0, Tool: "edit_file"}, {Index: 1, Tool: "finish", ReadOnly: true}}, first.Calls)
	usage, err := h.Store.Usage(t.Context(), h.run.ID)
	require.NoError(t, err)
	require.Equal(t, int64(110), usage.Tokens())
}

func TestAnUnusableAnswerIsPaidOnceAndKept(t *testing.T) {
	t.Parallel()
	h := newFixture(t, `
  - when: {agent: planner}
    fault: {truncate: true}
    reply: {json: {summary: "a long plan that is cut", complexity_score: 0.1, steps: []}}
    usage: {prompt_tokens: 100, completion_tokens: 10}
`)
	in := contract.PlanInput{Execution: h.begin(contract.PhasePlanner, ""), Repo: h.repo, Model: choice}
	for range 2 {
		_, failure := do[contract.PlanResult](h, h.Plan, in)
		require.NotNil(t, failure)
		require.Contains(t, failure.Message, "LLM_ERROR")
	}
	require.Equal(t, 1, h.served(), "the retry found the stored answer")
}

func TestAPlanThatBreaksItsSchemaIsAnLLMErrorAndACircleALogicError(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ reply, class string }{
		"no JSON":       {`{text: "Roses are red"}`, "LLM_ERROR"},
		"a wrong field": {`{json: {summary: s, complexity_score: 0.1, steps: [{id: a}]}}`, "LLM_ERROR"},
		"a circle": {`{json: {summary: s, complexity_score: 0.1, steps: [
			{id: a, name: a, description: a, dependencies: [b], estimated_complexity: low, risk_level: low, verification_criteria: [], files: []},
			{id: b, name: b, description: b, dependencies: [a], estimated_complexity: low, risk_level: low, verification_criteria: [], files: []}]}}`, "LOGIC_ERROR"},
		"a file outside": {`{json: {summary: s, complexity_score: 0.1, steps: [
			{id: a, name: a, description: a, dependencies: [], estimated_complexity: low, risk_level: low, verification_criteria: [], files: ["../x"]}]}}`, "LOGIC_ERROR"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newFixture(t, "\n  - when: {agent: planner}\n    reply: "+c.reply+"\n")
			_, failure := do[contract.PlanResult](h, h.Plan, contract.PlanInput{Execution: h.begin(contract.PhasePlanner, ""), Repo: h.repo, Model: choice})
			require.NotNil(t, failure)
			require.Contains(t, failure.Message, c.class)
		})
	}
}

func TestAToolCallLeadsFromOneWorkspaceToTheNextAndARepeatIsHarmless(t *testing.T) {
	t.Parallel()
	h := newFixture(t, editHello)
	e, ws := h.openStep()
	_, failure := do[contract.ThinkResult](h, h.Think, contract.ThinkInput{Execution: e, Turn: 1, Model: choice})
	require.Nil(t, failure)
	in := contract.ToolInput{Execution: e, Turn: 1, Index: 0, Workspace: ws, LocalOnly: true}
	first, failure := do[contract.ToolOutcome](h, h.CallTool, in)
	require.Nil(t, failure)
	require.True(t, first.OK)
	require.NotEqual(t, ws.Tree, first.Workspace.Tree)
	require.NotEmpty(t, first.Workspace.Patch)
	again, failure := do[contract.ToolOutcome](h, h.CallTool, in)
	require.Nil(t, failure)
	require.Equal(t, first, again)
	transcript, err := h.Store.Transcript(t.Context(), e.ID)
	require.NoError(t, err)
	require.Len(t, transcript, 4, "system, task, answer, one result")
}

func TestACallThatLeavesTheRepositoryIsRefused(t *testing.T) {
	t.Parallel()
	for _, path := range []string{"../outside.txt", "/etc/passwd", ".git/config", ".GIT/hooks/x", "a/../../b", `a\u0000b`} {
		t.Run(path, func(t *testing.T) {
			t.Parallel()
			args := `{"path": "` + path + `", "content": "gotcha"}`
			var check map[string]string
			require.NoError(t, json.Unmarshal([]byte(args), &check))
			h := newFixture(t, "\n  - when: {agent: builder}\n    reply: {tool_calls: [{name: create_file, arguments: "+args+"}]}\n")
			e, ws := h.openStep()
			_, failure := do[contract.ThinkResult](h, h.Think, contract.ThinkInput{Execution: e, Turn: 1, Model: choice})
			require.Nil(t, failure)
			out, failure := do[contract.ToolOutcome](h, h.CallTool, contract.ToolInput{Execution: e, Turn: 1, Workspace: ws})
			require.Nil(t, failure)
			require.False(t, out.OK)
			require.Equal(t, contract.CodePathEscape, out.Code)
			require.Equal(t, ws.Tree, out.Workspace.Tree)
		})
	}
}

func TestFinishBesideACallThatFailedIsAnsweredInTheNextTurn(t *testing.T) {
	t.Parallel()
	h := newFixture(t, `
  - when: {agent: builder, turn: 1}
    reply: {tool_calls: [{name: edit_file, arguments: {path: missing.txt, old_text: a, new_text: b}}, {name: finish, arguments: {summary: done}}]}
  - when: {agent: builder, turn: 2, contains: "Not finished"}
    reply: {tool_calls: [{name: finish, arguments: {summary: done now}}]}
`)
	e, ws := h.openStep()
	for turn := 1; turn <= 2; turn++ {
		out, failure := do[contract.ThinkResult](h, h.Think, contract.ThinkInput{Execution: e, Turn: turn, Model: choice})
		require.Nil(t, failure, turn)
		require.True(t, out.Finish)
		if turn == 1 {
			tool, failure := do[contract.ToolOutcome](h, h.CallTool, contract.ToolInput{Execution: e, Turn: 1, Workspace: ws})
			require.Nil(t, failure)
			require.False(t, tool.OK)
		}
	}
}

func TestVerificationRunsOnACleanCheckoutAndARedTestIsAResult(t *testing.T) {
	t.Parallel()
	h := newFixture(t, "  []")
	verify := func(ws contract.Workspace) contract.TestReportResult {
		e := h.begin(contract.PhaseTester, "")
		plan, failure := do[contract.TestPlanResult](h, h.PlanTests, contract.TestPlanInput{Execution: e, Workspace: ws})
		require.Nil(t, failure)
		for _, stage := range plan.Stages {
			for _, check := range stage {
				_, failure := do[contract.CheckResult](h, h.Verify, contract.VerifyInput{Execution: e, Workspace: ws, Check: check, Timeout: 60e9})
				require.Nil(t, failure)
			}
		}
		report, failure := do[contract.TestReportResult](h, h.TestReport, contract.TestReportInput{Execution: e})
		require.Nil(t, failure)
		return report
	}
	require.Nil(t, verify(h.repo.Workspace()).Failure)

	dir, err := h.Workspaces.Open(t.Context(), h.repo.Workspace(), "broken")
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir.Path(), "hello.txt"), []byte("bye\n"), 0o644))
	broken, err := dir.Save(t.Context())
	require.NoError(t, err)
	dir.Close()
	report := verify(broken)
	require.NotNil(t, report.Failure)
	require.Equal(t, contract.ClassAssertion, report.Failure.Class)
	details, err := h.Views.RunDetails(t.Context(), h.run.ID)
	require.NoError(t, err)
	require.Contains(t, string(details.TesterOutput), `"results"`)
}

func TestAReleaseMadeTwiceIsOneBranchWithOneSetOfArtifacts(t *testing.T) {
	t.Parallel()
	h := newFixture(t, editHello)
	e, ws := h.openStep()
	_, failure := do[contract.ThinkResult](h, h.Think, contract.ThinkInput{Execution: e, Turn: 1, Model: choice})
	require.Nil(t, failure)
	out, failure := do[contract.ToolOutcome](h, h.CallTool, contract.ToolInput{Execution: e, Turn: 1, Workspace: ws})
	require.Nil(t, failure)
	release := contract.ReleaseInput{
		Execution: h.begin(contract.PhaseReleaser, ""), Repo: h.repo, Workspace: out.Workspace, Release: h.run.Settings.Release,
		PlanID:  h.run.PlanID,
		Credits: []contract.Credit{{Step: "step-001", Model: "scripted", Prompt: "builder@1"}},
		Stages:  []contract.Workspace{out.Workspace.Slim()},
	}
	release.Release.Branch = "rgpt/run-test"
	release.Release.AuthorName, release.Release.AuthorEmail = "RocketGPT", "rgpt@localhost"
	first, failure := do[contract.ReleaseResult](h, h.Release, release)
	require.Nil(t, failure)
	again, failure := do[contract.ReleaseResult](h, h.Release, release)
	require.Nil(t, failure)
	require.Equal(t, first, again)
	require.Equal(t, first.Commit, h.git("rev-parse", "rgpt/run-test"))
	body := h.git("log", "-1", "--format=%B", "rgpt/run-test")
	for _, part := range []string{"Say it", fmt.Sprintf("RGPT-Run: %d", h.run.ID), "RGPT-Step: step-001", "RGPT-Model: scripted", "RGPT-Prompt: builder@1"} {
		require.Contains(t, body, part)
	}
	artifacts, err := h.Store.Artifacts(t.Context(), h.run.ID)
	require.NoError(t, err)
	require.Len(t, artifacts, 4, "report, patch, JSON, zip")

	release.Workspace.Tree = ws.Tree
	_, failure = do[contract.ReleaseResult](h, h.Release, release)
	require.NotNil(t, failure, "what verification has not seen is not released")
}

func TestAPushOfProtectedFilesThatNobodyApprovedIsRefused(t *testing.T) {
	t.Parallel()
	h := newFixture(t, "  []")
	dir, err := h.Workspaces.Open(t.Context(), h.repo.Workspace(), "protected")
	require.NoError(t, err)
	for name, text := range map[string]string{".GitHub/workflows/x.yml": "on: push\n", "deploy/Jenkinsfile": "x\n", "docs/ci.md": "x\n"} {
		require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(dir.Path(), name)), 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(dir.Path(), name), []byte(text), 0o644))
	}
	after, err := dir.Save(t.Context())
	require.NoError(t, err)
	dir.Close()
	found, failure := do[contract.ProtectedFiles](h, h.Protected, contract.ProtectedInput{Workspace: after, Patterns: config.ProtectedFiles()})
	require.Nil(t, failure)
	require.Equal(t, contract.ProtectedFiles{Paths: []string{".GitHub/workflows/x.yml", "deploy/Jenkinsfile"}, Total: 2}, found)

	remote := filepath.Join(h.dataDir, "remote.git")
	h.git("init", "-q", "--bare", remote)
	release := contract.ReleaseInput{
		Execution: h.begin(contract.PhaseReleaser, ""), Repo: h.repo, Workspace: after, Release: h.run.Settings.Release, PlanID: h.run.PlanID,
		Credits: []contract.Credit{{Step: "step-001"}}, Stages: []contract.Workspace{after.Slim()},
	}
	release.Release.Push, release.Release.Remote, release.Release.Protected = true, remote, config.ProtectedFiles()
	_, failure = do[contract.ReleaseResult](h, h.Release, release)
	require.NotNil(t, failure)
	require.Contains(t, failure.Message, "deploy/Jenkinsfile")
	require.Empty(t, h.git("-C", remote, "branch", "--list"))

	release.ApprovedBy = "ann"
	released, failure := do[contract.ReleaseResult](h, h.Release, release)
	require.Nil(t, failure)
	require.True(t, released.Pushed)
	require.NotEmpty(t, h.git("-C", remote, "branch", "--list"))
}

// TestProtectedFilesThatALaterCommitTakesBackNeedAnApprovalToo pushes two commits, of
// which the second deletes what the first added: it would be on the remote all the
// same.
func TestProtectedFilesThatALaterCommitTakesBackNeedAnApprovalToo(t *testing.T) {
	t.Parallel()
	h := newFixture(t, "  []")
	dir, err := h.Workspaces.Open(t.Context(), h.repo.Workspace(), "taken back")
	require.NoError(t, err)
	defer dir.Close()
	hook := filepath.Join(dir.Path(), ".github", "workflows", "x.yml")
	require.NoError(t, os.MkdirAll(filepath.Dir(hook), 0o755))
	require.NoError(t, os.WriteFile(hook, []byte("on: push\n"), 0o644))
	first, err := dir.Save(t.Context())
	require.NoError(t, err)
	require.NoError(t, os.Remove(hook))
	require.NoError(t, os.WriteFile(filepath.Join(dir.Path(), "notes.md"), []byte("x\n"), 0o644))
	last, err := dir.Save(t.Context())
	require.NoError(t, err)

	remote := filepath.Join(h.dataDir, "remote.git")
	h.git("init", "-q", "--bare", remote)
	release := contract.ReleaseInput{
		Execution: h.begin(contract.PhaseReleaser, ""), Repo: h.repo, Workspace: last, Release: h.run.Settings.Release, PlanID: h.run.PlanID,
		Credits: []contract.Credit{{Step: "step-001"}, {Step: "step-002"}}, Stages: []contract.Workspace{first.Slim(), last.Slim()},
	}
	release.Release.Push, release.Release.Remote, release.Release.Protected = true, remote, config.ProtectedFiles()
	_, failure := do[contract.ReleaseResult](h, h.Release, release)
	require.NotNil(t, failure)
	require.Contains(t, failure.Message, ".github/workflows/x.yml")
	require.Empty(t, h.git("-C", remote, "branch", "--list"))
}

// recordLimits keeps the output limit of each request that a model gets.
func (h *fixture) recordLimits(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		raw, err := io.ReadAll(r.Body)
		if err != nil {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		var body struct {
			MaxTokens           int64 `json:"max_tokens"`
			MaxCompletionTokens int64 `json:"max_completion_tokens"`
		}
		if json.Unmarshal(raw, &body) == nil {
			h.mu.Lock()
			h.limits = append(h.limits, body.MaxTokens+body.MaxCompletionTokens)
			h.bodies = append(h.bodies, raw)
			h.mu.Unlock()
		}
		r.Body = io.NopCloser(bytes.NewReader(raw))
		if h.onServed != nil {
			h.onServed()
		}
		next.ServeHTTP(w, r)
	})
}

// lists is a model that calls a tool in every turn.
const lists = `
  - when: {agent: builder}
    reply: {tool_calls: [{name: list_files, arguments: {}}]}
    usage: {prompt_tokens: 9000, completion_tokens: 1000}
`

func TestCallsAskForWhatABudgetHasLeftAndEndBeforeItsLimit(t *testing.T) {
	t.Parallel()
	const limit = 100_000
	for name, budget := range map[string]contract.RunBudget{
		"run":   {Tokens: limit},
		"agent": {Agents: map[contract.Agent]contract.AgentBudget{contract.AgentBuilder: {Tokens: limit}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newFixture(t, lists)
			e, _ := h.openStep()
			in := contract.ThinkInput{Execution: e, Model: choice, Budget: budget}
			var failure *contract.Failure
			for in.Turn = 1; in.Turn <= 20 && failure == nil; in.Turn++ {
				_, failure = do[contract.ThinkResult](h, h.Think, in)
			}
			require.NotNil(t, failure)
			require.Contains(t, failure.Message, string(contract.CodeBudgetExceeded))
			require.Contains(t, failure.Message, "does not cover the next model call")
			most := int64(h.Config.Models.MaxOutputTokens)
			require.Equal(t, most, h.limits[0], "there is enough for the first call")
			last := h.limits[len(h.limits)-1]
			require.Less(t, last, most)
			require.GreaterOrEqual(t, last, int64(h.Config.Models.Budgets.MinOutputTokens))
			require.Len(t, h.limits, h.served())
			spent, err := h.Store.Usage(t.Context(), 1)
			require.NoError(t, err)
			require.LessOrEqual(t, spent.Tokens(), int64(limit))
			require.Greater(t, spent.Tokens(), int64(limit)/2)
			events, err := h.Store.Events(t.Context(), 1, 0, 1000)
			require.NoError(t, err)
			warnings := slices.DeleteFunc(events, func(e contract.Event) bool { return e.Type != contract.EventBudgetWarning })
			require.LessOrEqual(t, len(warnings), 1)
		})
	}
}

func TestTheBudgetsOfTheProjectTheTenantAndTheDayLimitCalls(t *testing.T) {
	t.Parallel()
	for setting, limit := range map[string]func(*config.Budgets) *int64{
		"day_tokens":           func(b *config.Budgets) *int64 { return &b.DayTokens },
		"project_day_tokens":   func(b *config.Budgets) *int64 { return &b.ProjectDayTokens },
		"project_month_tokens": func(b *config.Budgets) *int64 { return &b.ProjectMonthTokens },
		"tenant_day_tokens":    func(b *config.Budgets) *int64 { return &b.TenantDayTokens },
		"tenant_month_tokens":  func(b *config.Budgets) *int64 { return &b.TenantMonthTokens },
	} {
		t.Run(setting, func(t *testing.T) {
			t.Parallel()
			h := newFixture(t, lists)
			*limit(&h.Config.Models.Budgets) = 1000
			e, _ := h.openStep()
			in := contract.ThinkInput{Execution: e, Turn: 1, Model: choice}
			_, failure := do[contract.ThinkResult](h, h.Think, in)
			require.NotNil(t, failure)
			require.Contains(t, failure.Message, "raise models.budgets."+setting)
			require.Zero(t, h.served())
			*limit(&h.Config.Models.Budgets) = 1 << 30
			_, failure = do[contract.ThinkResult](h, h.Think, in)
			require.Nil(t, failure, "a raised limit counts at once")
		})
	}
}

func TestACallAsksForWhatItsStepHasLeft(t *testing.T) {
	t.Parallel()
	h := newFixture(t, lists)
	e, _ := h.openStep()
	in := contract.ThinkInput{Execution: e, Turn: 1, Model: choice}
	_, failure := do[contract.ThinkResult](h, h.Think, in)
	require.Nil(t, failure)
	in.Turn, in.Left = 2, &contract.StepLeft{Tokens: 15_000}
	_, failure = do[contract.ThinkResult](h, h.Think, in)
	require.Nil(t, failure)
	require.Len(t, h.limits, 2)
	require.Less(t, h.limits[1], int64(15_000-9000), "the provider counted 9,000 tokens before")
	require.Greater(t, h.limits[1], int64(1024))
}

func TestATruncatedResponseNamesTheBudgetThatLimitedIt(t *testing.T) {
	t.Parallel()
	h := newFixture(t, `
  - when: {agent: builder}
    reply: {text: "Half an ans"}
    fault: {truncate: true}
    usage: {prompt_tokens: 900, completion_tokens: 100}
`)
	e, _ := h.openStep()
	result, failure := do[contract.ThinkResult](h, h.Think, contract.ThinkInput{Execution: e, Turn: 1, Model: choice, Budget: contract.RunBudget{Tokens: 30_000}})
	require.Nil(t, failure)
	require.Contains(t, result.Bad, "the response was cut off at the output limit, which the budget for run 1")
	require.Contains(t, result.Bad, "execution.run.tokens) lowered to")
}

func TestACallWhoseRequestIsMoreThanItsStepHasLeftIsNotMade(t *testing.T) {
	t.Parallel()
	h := newFixture(t, editHello)
	e, _ := h.openStep()
	in := contract.ThinkInput{Execution: e, Turn: 1, Model: choice, Left: &contract.StepLeft{Tokens: 100}}
	_, failure := do[contract.ThinkResult](h, h.Think, in)
	require.NotNil(t, failure)
	require.Contains(t, failure.Message, string(contract.CodeStepBudget))
	require.Contains(t, failure.Message, "execution.step.tokens")
	require.Zero(t, h.served())

	in.Left.Tokens = 1 << 20
	first, failure := do[contract.ThinkResult](h, h.Think, in)
	require.Nil(t, failure)
	in.Left.Tokens = 1
	again, failure := do[contract.ThinkResult](h, h.Think, in)
	require.Nil(t, failure, "what was paid for is not refused")
	require.Equal(t, first, again)
	require.Equal(t, 1, h.served())
}

func TestAStepIsOpenedOnceHoweverOftenItIsAskedFor(t *testing.T) {
	t.Parallel()
	h := newFixture(t, "  []")
	in := h.opening()
	first, failure := do[contract.OpenStepResult](h, h.OpenStep, in)
	require.Nil(t, failure)
	in.LocalOnly = false
	again, failure := do[contract.OpenStepResult](h, h.OpenStep, in)
	require.Nil(t, failure)
	require.Equal(t, first, again)
	executions, err := h.Store.Executions(t.Context(), h.run.ID)
	require.NoError(t, err)
	require.Len(t, executions, 1)
}

func TestAHostWithoutTheRepositoryAnswersColdAndRecordsTheStepsStart(t *testing.T) {
	t.Parallel()
	h := newFixture(t, "  []")
	in := h.opening()
	in.Workspace.Base = strings.Repeat("0", 40)
	cold, failure := do[contract.OpenStepResult](h, h.OpenStep, in)
	require.Nil(t, failure)
	require.True(t, cold.Cold)
	require.Equal(t, 1, cold.Execution.Attempt)
	integrated, failure := do[contract.IntegrateResult](h, h.Integrate, contract.IntegrateInput{Workspace: in.Workspace, LocalOnly: true})
	require.Nil(t, failure)
	require.True(t, integrated.Cold)
	planned, failure := do[contract.TestPlanResult](h, h.PlanTests, contract.TestPlanInput{Workspace: in.Workspace, LocalOnly: true})
	require.Nil(t, failure)
	require.True(t, planned.Cold)
}

func TestAStepsPromptHasThePlanThatItsRunFroze(t *testing.T) {
	t.Parallel()
	h := newFixture(t, "  []")
	edited, err := h.Store.SavePlan(t.Context(), h.run.ID, 0, "ann", contract.Plan{Summary: "never accepted", Steps: []contract.Step{{ID: "step-001", Name: "Another", Description: "another thing"}}})
	require.NoError(t, err)
	told := func(planID int64) string {
		in := h.opening()
		in.PlanID = planID
		opened, failure := do[contract.OpenStepResult](h, h.OpenStep, in)
		require.Nil(t, failure)
		messages, err := h.Store.Conversation(t.Context(), opened.Execution.ID)
		require.NoError(t, err)
		return string(messages[1].Content)
	}
	require.NotContains(t, told(h.run.PlanID), "another thing")
	require.Contains(t, told(edited), "another thing")
	details, err := h.Views.RunDetails(t.Context(), h.run.ID)
	require.NoError(t, err)
	require.NotContains(t, string(details.PlannerOutput), "never accepted")
}

func TestAPlanIsStoredOnceAndKeepsItsID(t *testing.T) {
	t.Parallel()
	h := newFixture(t, `
  - when: {agent: planner}
    reply: {json: {summary: s, complexity_score: 0.1, steps: [{id: step-009, name: a, description: a, dependencies: [], estimated_complexity: low, risk_level: low, verification_criteria: [], files: []}]}}
`)
	in := contract.PlanInput{Execution: h.begin(contract.PhasePlanner, ""), Repo: h.repo, Model: choice}
	first, failure := do[contract.PlanResult](h, h.Plan, in)
	require.Nil(t, failure)
	again, failure := do[contract.PlanResult](h, h.Plan, in)
	require.Nil(t, failure)
	require.Equal(t, first, again)
	adopted, failure := do[contract.PlanResult](h, h.AdoptPlan, contract.AdoptPlanInput{RunID: h.run.ID, PlanID: first.ID})
	require.Nil(t, failure)
	require.Equal(t, first.ID, adopted.ID)
	_, failure = do[contract.PlanResult](h, h.AdoptPlan, contract.AdoptPlanInput{RunID: h.run.ID + 1, PlanID: first.ID})
	require.NotNil(t, failure, "a plan of another run is none of this one's")
}

func TestMoreMediumFindingsThanTheThresholdWarnAndFailNothing(t *testing.T) {
	t.Parallel()
	h := newFixture(t, "  []")
	e := h.begin(contract.PhaseTester, "")
	check := contract.CheckResult{Check: contract.Check{ID: "lint", Category: contract.CategoryLint}, OK: true, Medium: 3}
	require.NoError(t, h.Store.SaveCheck(t.Context(), e, "lint", check, nil, nil, ""))
	for most, warns := range map[int]bool{2: true, 3: false} {
		report, failure := do[contract.TestReportResult](h, h.TestReport, contract.TestReportInput{Execution: e, Thresholds: contract.Thresholds{MaxMedium: most}})
		require.Nil(t, failure)
		require.Nil(t, report.Failure)
		require.Equal(t, warns, strings.Contains(report.Warning, "findings.max_medium"), report.Warning)
	}
}

func TestThePlannerIsShownWhatTheRepositorySaysAboutItself(t *testing.T) {
	t.Parallel()
	h := newFixture(t, `
  - when: {agent: planner, contains: "@grep -q hello hello.txt"}
    reply: {text: "it saw the Makefile"}
`)
	_, failure := do[contract.PlanResult](h, h.Plan, contract.PlanInput{Execution: h.begin(contract.PhasePlanner, ""), Repo: h.repo, Model: choice})
	require.NotNil(t, failure, "the answer is no plan")
	require.Equal(t, 1, h.served(), "the rule asks for the Makefile's text")
}
