package activities_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/config"
	"github.com/rocketgpt/orchestrator/internal/model"
	"github.com/rocketgpt/orchestrator/internal/setup"
	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/internal/tool"
)

// documented makes the run begin with examples of files, by name.
func (h *fixture) documented(examples map[string]string) contract.Workspace {
	h.t.Helper()
	for name, text := range examples {
		file := filepath.Join(h.dataDir, "source", name)
		require.NoError(h.t, os.MkdirAll(filepath.Dir(file), 0o755))
		require.NoError(h.t, os.WriteFile(file, []byte(text), 0o644))
	}
	require.NoError(h.t, os.Symlink("/etc/hostname", filepath.Join(h.dataDir, "source", "linked.yaml.example")))
	h.git("add", "-A", "-f")
	h.git("-c", "user.name=t", "-c", "user.email=t@t", "commit", "-qm", "Document")
	var err error
	h.repo, _, err = h.Workspaces.Resolve(h.t.Context(), filepath.Join(h.dataDir, "source"), "")
	require.NoError(h.t, err)
	start, err := h.Workspaces.Start(h.t.Context(), h.repo)
	require.NoError(h.t, err)
	h.repo.Tree = start.Tree
	return h.repo.Workspace()
}

func TestDefaultsAreCreatedFromSettingsOnlyAndNeverAsToolConfiguration(t *testing.T) {
	t.Parallel()
	h := newFixture(t, editHello)
	big := "a: " + strings.Repeat("x", 64<<10) + "\n"
	ws := h.documented(map[string]string{
		"settings.yaml.example": "a: 1\n", "conf/app.sample.json": "{}\n", ".env.example": "A=1\n",
		".github/workflows/ci.yml.example": "on: push\n", ".circleci/config.yml.example": "x: 1\n", ".gitlab-ci.yml.example": "x: 1\n",
		".vscode/tasks.json.example": "{}\n", "sub/.husky/hooks.yaml.example": "x: 1\n", ".git-hooks/hook.toml.example": "x = 1\n",
		"azure-pipelines.yml.example": "x: 1\n", "bitbucket-pipelines.yml.example": "x: 1\n", "rgpt.yaml.example": "findings: {max_major: 100}\n", "sub/rgpt.local.yml.example": "x: 1\n",
		"run.sh.example": "#!/bin/sh\n", "main.go.example": "package main\n", "big.yaml.example": big, "there.yaml.example": "new: 1\n", "there.yaml": "old: 1\n",
		"unnamed.yaml.example": "a: 1\n",
	})
	wanted := "not found: settings.yaml app.json .env ci.yml config.yml .gitlab-ci.yml tasks.json hooks.yaml hook.toml azure-pipelines.yml bitbucket-pipelines.yml " +
		"rgpt.yaml rgpt.local.yml run.sh main.go big.yaml there.yaml linked.yaml ../../etc/passwd"
	made, err := h.CreateDefaults(t.Context(), contract.DefaultsInput{Execution: h.begin(contract.PhaseTester, ""), Workspace: ws, Wanted: wanted})
	require.NoError(t, err)
	require.ElementsMatch(t, []string{"settings.yaml", "conf/app.json", ".env"}, made.Created)
	diff, err := h.Workspaces.DiffBetween(t.Context(), ws, made.Workspace, 1<<20)
	require.NoError(t, err)
	require.Equal(t, 3, strings.Count(diff, "diff --git"), "nothing else has changed: %s", diff)
}

func TestNoMoreThanTwentyDefaultsAreMade(t *testing.T) {
	t.Parallel()
	h := newFixture(t, editHello)
	examples, wanted := map[string]string{}, "not found:"
	for i := range 25 {
		name := fmt.Sprintf("many/%02d.yaml", i)
		examples[name+".example"], wanted = "a: 1\n", wanted+" "+name
	}
	ws := h.documented(examples)
	made, err := h.CreateDefaults(t.Context(), contract.DefaultsInput{Execution: h.begin(contract.PhaseTester, ""), Workspace: ws, Wanted: wanted})
	require.NoError(t, err)
	require.Len(t, made.Created, 20)
}

func TestAPatchOfWhatNoAgentMayChangeIsRefusedAsAViolation(t *testing.T) {
	t.Parallel()
	h := newFixture(t, editHello)
	ws := h.documented(map[string]string{".github/workflows/ci.yml": "on: push\n", ".circleci/config.yml": "x: 1\n", "rgpt.yaml": "findings: {max_major: 0}\n", "sub/a.txt": "a\n"})
	judge := func(to contract.Workspace) contract.Judgement {
		t.Helper()
		out, err := h.Judge(t.Context(), contract.JudgeInput{Execution: h.begin(contract.PhaseTester, contract.StepRepair), Number: 1, From: ws, To: to})
		require.NoError(t, err)
		return out
	}
	for _, name := range []string{".github/workflows/ci.yml", ".circleci/config.yml", "rgpt.yaml", "Jenkinsfile", ".gitlab-ci.yml", "sub/rgpt.yaml"} {
		out := judge(h.with(ws, name, "changed: yes\n"))
		require.Contains(t, out.Refused, name)
		require.Equal(t, contract.CodeForbidden, out.Code, name)
		require.Contains(t, out.Diff, "changed: yes", "people can see what was thrown away")
	}
	gone := judge(h.with(ws, ".github/workflows/ci.yml", ""))
	require.Contains(t, gone.Refused, "ci.yml", "to take it away is to change it")
	require.Empty(t, judge(h.with(ws, "sub/a.txt", "b\n")).Refused)
}

// TestARepairChangesNoDemandOfTheBase lets a repair edit what tests demand: tests of
// the base commit, and tests that the run wrote or edited itself.
func TestARepairChangesNoDemandOfTheBase(t *testing.T) {
	t.Parallel()
	h := newFixture(t, editHello)
	test := func(name, want string) string {
		return "package hello\n\nimport \"testing\"\n\nfunc " + name + "(t *testing.T) {\n\tif got := Hello(); got != " + want + " {\n\t\tt.Fatal(got)\n\t}\n}\n"
	}
	was := test("TestOld", "1")
	base := h.documented(map[string]string{"hello/old_test.go": was})
	edited := test("TestOld", "2")
	judge := func(from, to contract.Workspace) string {
		t.Helper()
		out, err := h.Judge(t.Context(), contract.JudgeInput{Execution: h.begin(contract.PhaseTester, contract.StepRepair), Number: 1, From: from, To: to})
		require.NoError(t, err)
		return out.Refused
	}
	require.Contains(t, judge(base, h.with(base, "hello/old_test.go", edited)), "what the base commit's tests expect")
	more := strings.Replace(was, "\tif got", "\tif Hello() == 7 {\n\t\tt.Fatal()\n\t}\n\tif got", 1)
	require.Empty(t, judge(base, h.with(base, "hello/old_test.go", more)), "it demands more")
	wrote := h.with(base, "hello/new_test.go", test("TestNew", "1"))
	require.Empty(t, judge(wrote, h.with(wrote, "hello/new_test.go", test("TestNew", "2"))), "the run wrote it")
	changed := h.with(base, "hello/old_test.go", edited)
	require.Empty(t, judge(changed, h.with(changed, "hello/old_test.go", test("TestOld", "3"))), "the run had edited it")
}

func TestTheRepairAgentAfterARevokedOneGetsItsHandoff(t *testing.T) {
	t.Parallel()
	h := newFixture(t, editHello)
	failed := h.begin(contract.PhaseTester, "")
	h.seq++
	_, err := h.Store.Record(t.Context(), store.Source{WorkflowID: "w", WorkflowRunID: "r"}, contract.Record{RunID: h.run.ID, Seq: h.seq, Begin: &contract.ExecutionBegin{
		Phase: contract.PhaseTester, Step: contract.StepRepair, Agent: contract.AgentRepair, Model: choice,
	}})
	require.NoError(t, err)
	left, err := h.Handoff(t.Context(), contract.HandoffInput{Execution: failed, Agent: contract.AgentRepair, Generation: 1, Reason: "it left its paths"})
	require.NoError(t, err)
	require.Equal(t, "handoff/repair-1.md", left.Artifact)
	for generation, told := range map[int]bool{1: false, 2: true} {
		in := h.opening()
		in.Record.Begin.Phase, in.Record.Begin.Step, in.Record.Begin.Agent = contract.PhaseTester, contract.StepRepair, contract.AgentRepair
		in.Heal = &contract.HealTask{Number: 2, Execution: failed, Failure: contract.Failure{Class: contract.ClassAssertion, Code: contract.CodeTestsFailed, Message: "red"}}
		in.Lessons.Generation = generation
		opened, failure := do[contract.OpenStepResult](h, h.OpenStep, in)
		require.Nil(t, failure)
		messages, err := h.Store.Conversation(t.Context(), opened.Execution.ID)
		require.NoError(t, err)
		var all string
		for _, m := range messages {
			all += string(m.Content)
		}
		require.Equal(t, told, strings.Contains(all, "it left its paths"))
	}
}

func TestAFailureOfThisMachineThatTheBaseHasTooHidesNoNewOne(t *testing.T) {
	t.Parallel()
	const unreachable = "httpcore.ConnectError: [Errno -3] Temporary failure in name resolution\n"
	const named = "ok 1 an invalid key is answered with 401 unauthorized\n"
	check := contract.Check{ID: "test-1", Name: "pytest", Category: contract.CategoryTest}
	diagnosed := func(passed bool, log, baseLog string) contract.Diagnosis {
		h := newFixture(t, "  []")
		kept := func(log string) string {
			digest, err := h.Artifacts.Put(t.Context(), []byte(log))
			require.NoError(t, err)
			return digest
		}
		base := contract.CheckResult{Check: check, Code: contract.CodeTestsFailed, Message: "1 of 3 tests failed"}
		if passed {
			base = contract.CheckResult{Check: check, OK: true}
		}
		_, err := h.Store.OpenBaseline(t.Context(), h.run.ID, store.Baseline{Key: "k", Repo: h.run.Repo, Stages: [][]contract.Check{{check}}})
		require.NoError(t, err)
		require.NoError(t, h.Store.SaveBaselineCheck(t.Context(), "k", store.BaselineCheck{Result: base, LogDigest: kept(baseLog)}))
		e := h.begin(contract.PhaseTester, "")
		now := contract.CheckResult{Check: check, Code: contract.CodeTestsFailed, Message: "test_add failed: AssertionError: assert 3 == 4", Major: 1}
		require.NoError(t, h.Store.SaveCheck(t.Context(), e, check.ID, now, nil, nil, kept("AssertionError: assert 3 == 4\n"+log)))
		out, err := h.Diagnose(t.Context(), contract.DiagnoseInput{
			Execution: e, Failure: contract.Failure{Class: contract.ClassAssertion, Code: contract.CodeTestsFailed, Message: "2 of 3 tests failed"},
		})
		require.NoError(t, err)
		return out
	}
	known := diagnosed(false, unreachable, unreachable)
	require.Equal(t, contract.ClassAssertion, known.Failure.Class, "the network fails on the base, too: what is new is the change's")
	require.Contains(t, known.RootCause, "assert 3 == 4")
	require.NotContains(t, known.RootCause, "name resolution")

	fresh := diagnosed(false, unreachable, "AssertionError: assert 1 == 2\n")
	require.Equal(t, contract.ClassInfra, fresh.Failure.Class)
	fresh = diagnosed(true, unreachable, "ok 1\n")
	require.Equal(t, contract.ClassInfra, fresh.Failure.Class)
	mentioned := diagnosed(true, named, named)
	require.Equal(t, contract.ClassAssertion, mentioned.Failure.Class, "the name of a test that passes explains nothing")
	require.Contains(t, mentioned.RootCause, "assert 3 == 4")
}

func TestAProposedSetupIsStoredOnceHoweverOftenThatIsDone(t *testing.T) {
	t.Parallel()
	h := newFixture(t, "  []")
	e := h.begin(contract.PhaseTester, contract.StepEnvironment)
	said, err := json.Marshal(model.Message{Role: model.RoleAssistant, ToolCalls: []model.ToolCall{{
		ID: "c", Name: tool.ProposeSetup, Arguments: `{"commands":["make deps"],"variables":{"CI":"1"},"reason":"the Makefile says so"}`,
	}}})
	require.NoError(t, err)
	require.NoError(t, h.Store.OpenConversation(t.Context(), e.ID, []store.Message{{Role: string(model.RoleAssistant), Content: said}}))
	propose := func() int64 {
		t.Helper()
		out, err := h.Proposal(t.Context(), contract.ProposalInput{Execution: e})
		require.NoError(t, err)
		return out.Setup
	}
	first := propose()
	require.NotZero(t, first)
	require.Equal(t, first, propose())
	all, err := h.Store.Setups(t.Context(), h.run.Repo, 10)
	require.NoError(t, err)
	require.Len(t, all, 1)

	_, err = h.JudgeSetup(t.Context(), contract.JudgeSetupInput{RunID: h.run.ID, Setup: first, Why: "red"})
	require.NoError(t, err)
	require.NotEqual(t, first, propose(), "one that was taken back does not count")
}

func TestASetupWhoseBaselinePassedNothingIsKeptForItsRunOnly(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		result contract.CheckResult
		proven bool
	}{
		{contract.CheckResult{Check: contract.Check{ID: "lint", Category: contract.CategoryLint}, OK: true}, false},
		{contract.CheckResult{Check: contract.Check{ID: "test", Category: contract.CategoryTest}, Code: contract.CodeTestsFailed}, false},
		{contract.CheckResult{Check: contract.Check{ID: "test", Category: contract.CategoryTest}, Code: contract.CodeTestsFailed, Summary: contract.TestSummary{Passed: 1, Failed: 9}}, true},
		{contract.CheckResult{Check: contract.Check{ID: "test", Category: contract.CategoryTest}, OK: true}, true},
	} {
		h := newFixture(t, "  []")
		proposed, err := h.Store.AddSetup(t.Context(), store.Setup{Repo: h.run.Repo, Source: "agent", Settings: json.RawMessage(`{"setup":["true"]}`), RunID: h.run.ID})
		require.NoError(t, err)
		_, err = h.Store.OpenBaseline(t.Context(), h.run.ID, store.Baseline{Key: "k", Repo: h.run.Repo, Stages: [][]contract.Check{{c.result.Check}}})
		require.NoError(t, err)
		require.NoError(t, h.Store.SaveBaselineCheck(t.Context(), "k", store.BaselineCheck{Result: c.result}))
		out, err := h.JudgeSetup(t.Context(), contract.JudgeSetupInput{RunID: h.run.ID, Setup: proposed.ID, Proven: true})
		require.NoError(t, err)
		require.Equal(t, c.proven, out.Unproven == "")
		kept, err := h.Store.SetupByID(t.Context(), proposed.ID)
		require.NoError(t, err)
		require.Equal(t, c.proven, kept.Proven, "%+v", c.result)
		require.Nil(t, kept.RevokedAt)
	}
}

func TestTheEnvironmentAgentsPromptHasTheChecksThoughTheSetUpFailed(t *testing.T) {
	t.Parallel()
	h := newFixture(t, "  []")
	h.Config.Environment.Variables = map[string]string{"SHARED": "yes"}
	h.setUpWith("exit 1")
	opened, failure := do[contract.OpenStepResult](h, h.OpenStep, contract.OpenStepInput{
		Record: contract.Record{RunID: h.run.ID, Seq: 1, Begin: &contract.ExecutionBegin{
			Phase: contract.PhaseTester, Step: contract.StepEnvironment, Agent: contract.AgentOf(contract.PhaseTester), Model: choice,
		}},
		Workspace: h.repo.Workspace(),
		Setup:     &contract.SetupTask{Problem: "the repository could not be set up", Output: "no matching distribution"},
	})
	require.Nil(t, failure)
	conversation, err := h.Store.Conversation(t.Context(), opened.Execution.ID)
	require.NoError(t, err)
	var all strings.Builder
	for _, m := range conversation {
		all.Write(m.Content)
	}
	require.Contains(t, all.String(), "make test", "the command of the repository's test check")
	require.Contains(t, all.String(), "SHARED=yes", "a variable that its commands and the checks have")
}

func TestADiagnosisSaysWhichSettingsOfTheModelCanChangeItsResponse(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		capabilities []string
		reasoning    int64 // of 100 tokens
		want         contract.Traits
	}{
		"neither":                 {[]string{"tools"}, 90, contract.Traits{}},
		"reasoned most":           {[]string{"tools", "effort", "fixed_temperature"}, 50, contract.Traits{Effort: true, FixedTemperature: true, ReasonedMost: true}},
		"wrote most":              {[]string{"tools", "effort"}, 49, contract.Traits{Effort: true}},
		"reasons without a limit": {[]string{"tools", "fixed_temperature"}, 100, contract.Traits{FixedTemperature: true}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newFixture(t, "  []")
			h.Config.Models.Catalogue = append(h.Config.Models.Catalogue, config.CatalogueEntry{Provider: choice.Provider, Model: choice.Model, Capabilities: c.capabilities})
			var err error
			h.Model, err = setup.Model(h.Config)
			require.NoError(t, err)
			t.Cleanup(h.Model.Close)
			e := h.begin(contract.PhasePlanner, "")
			for turn, usage := range []contract.Usage{{PromptTokens: 1, CompletionTokens: 100}, {PromptTokens: 1, CompletionTokens: 100, ReasoningTokens: c.reasoning}} {
				reserved, err := h.Store.ReserveCall(t.Context(), store.Reservation{Execution: e, Turn: turn + 1, Provider: choice.Provider, Model: choice.Model})
				require.NoError(t, err)
				require.NoError(t, h.Store.FailCall(t.Context(), reserved.ID, &contract.Failure{Class: contract.ClassLLM, Code: contract.CodeTruncated}, usage))
			}
			cut := contract.Failure{Class: contract.ClassLLM, Code: contract.CodeTruncated, Message: "cut off"}
			out, err := h.Diagnose(t.Context(), contract.DiagnoseInput{Execution: e, Failure: cut, Model: choice})
			require.NoError(t, err)
			require.Equal(t, c.want, out.Model)
		})
	}
}
