package e2e

import (
	"fmt"
	"maps"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/internal/store/views"
	"github.com/rocketgpt/orchestrator/test/harness"
)

// healCase is a scenario whose failures are healed, or are not.
type healCase struct {
	rules  harness.Rules
	repo   map[string]string // files; nil: those of the quick repository
	args   []string
	status contract.Status
	heals  []string // class, code, action and status of each, in their order
	check  func(t *testing.T, run views.RunDetails)
}

// wrong is what the verification of mendable repositories finds.
const wrong = "wrong"

// healableRepo is a repository whose verification can fail in several ways, and
// takes no time. Its test is a pinned one.
func healableRepo() map[string]string {
	return map[string]string{
		"notes.txt": "one\ntwo\nthree\n",
		"calc_test.go": "package calc\n\nimport \"testing\"\n\nfunc TestCalc(t *testing.T) {\n" +
			"\tif says(\"notes.txt\", \"wrong\") {\n\t\tt.Fatal(\"it says wrong\")\n\t}\n}\n",
		"test.sh": "#!/bin/sh\n" +
			"grep -q 'func TestCalc' calc_test.go && ! grep -q 't.Skip' calc_test.go && grep -q 't.Fatal' calc_test.go || { echo 'nothing is tested'; exit 0; }\n" +
			"if grep -q crash *.txt; then kill -SEGV $$; fi\n" +
			"if grep -n wrong *.txt; then echo \"--- FAIL: TestCalc: $(cat made.txt)\"; exit 1; fi\n" +
			"echo ok\n",
		"rgpt.yaml": "verification:\n  auto_detect: false\n  test:\n    command: ./test.sh\n    format: exit-code\n",
	}
}

// unconfigured is a repository whose test needs a file that is documented and
// not there.
func unconfigured() map[string]string {
	files := healableRepo()
	files["settings.yaml.example"] = "greeting: hello\n"
	files["test.sh"] = "#!/bin/sh\n[ -f settings.yaml ] || { echo 'Error: configuration file settings.yaml not found: open settings.yaml: no such file or directory'; exit 1; }\n" +
		"grep -q hello settings.yaml\n"
	return files
}

// rule is one of a scenario.
func rule(when map[string]any, answer map[string]any, usage int) map[string]any {
	r := map[string]any{"when": when, "latency": "20ms"}
	for k, v := range answer {
		if k != "when" { // of a whole rule, which answers here too
			r[k] = v
		}
	}
	if usage > 0 {
		r["usage"] = map[string]any{"prompt_tokens": usage, "completion_tokens": 10}
	}
	return r
}

// on makes the condition of a rule of pairs of names and values.
func on(pairs ...any) map[string]any {
	when := map[string]any{}
	for i := 0; i < len(pairs); i += 2 {
		when[pairs[i].(string)] = pairs[i+1]
	}
	return when
}

func says(text string) map[string]any {
	return map[string]any{"reply": map[string]any{"text": text}}
}

func calls(list ...harness.Call) map[string]any {
	var out []any
	for _, c := range list {
		out = append(out, map[string]any{"name": c.Name, "arguments": c.Arguments})
	}
	return map[string]any{"reply": map[string]any{"tool_calls": out}}
}

func delayed(answer map[string]any, latency string) map[string]any {
	answer["latency"] = latency
	return answer
}

func status(code int, more ...any) map[string]any {
	f := on(more...)
	f["status"] = code
	return map[string]any{"fault": f}
}

// first puts rules before others, which makes them count first.
func first(rules harness.Rules, more ...map[string]any) harness.Rules {
	return append(slices.Clone(harness.Rules(more)), rules...)
}

// makes is a plan of one step that writes a text.
func makes(text string) harness.Rules {
	return harness.PlanRules("20ms", harness.Step{ID: "step-001", Turns: [][]harness.Call{
		{call("create_file", "path", "made.txt", "content", text+"\n"), harness.Finish("made it")},
	}})
}

// repairs is a Repair agent that replaces a text of what the builder made.
func repairs(from, to string, when ...any) map[string]any {
	return rule(on(append([]any{"agent", "repair"}, when...)...),
		calls(call("edit_file", "path", "made.txt", "old_text", from, "new_text", to), harness.Finish("mended it")), 300)
}

// edits is a Repair agent that changes the test instead.
func edits(from, to string) map[string]any {
	return rule(on("agent", "repair"), calls(call("edit_file", "path", "calc_test.go", "old_text", from, "new_text", to), harness.Finish("all green")), 300)
}

const (
	declined   = "I'm sorry, but I can't help with that request."
	halfAPlan  = "Here is the plan: first"
	helpInTime = "execution.intervention.wait=2s"
	noFallback = "models.fallback=[]"
)

// aCircle is a plan whose steps wait for each other.
func aCircle() map[string]any {
	step := func(id, need string) map[string]any {
		return map[string]any{"id": id, "name": id, "description": id, "dependencies": []string{need}, "estimated_complexity": "low",
			"risk_level": "low", "verification_criteria": []string{}, "files": []string{}}
	}
	return map[string]any{"reply": map[string]any{"json": map[string]any{
		"summary": "A circle.", "complexity_score": 0.1, "steps": []any{step("step-001", "step-002"), step("step-002", "step-001")},
	}}}
}

// writesOutside is a call that leaves the repository.
func writesOutside() map[string]any {
	return calls(call("create_file", "path", "../out.txt", "content", "gotcha"))
}

// healCases are those that end by themselves.
func (w *healTests) healCases() map[string]healCase {
	cases := map[string]healCase{}
	for _, group := range []map[string]healCase{
		w.planCases(), w.builderCases(), providerCases(), w.conflictCases(), w.repairCases(), weakenedTestCases(), severalCases(),
	} {
		maps.Copy(cases, group)
	}
	return cases
}

// planCases are planners whose plans cannot be used.
func (w *healTests) planCases() map[string]healCase {
	return map[string]healCase{
		"plan-no-json": {
			rules:  first(makes("right"), rule(on("agent", "planner", "attempt", 1), says(halfAPlan), 300)),
			status: contract.StatusDone, heals: []string{"LLM_ERROR invalid_output correct_json success"},
			check: w.requireReceived("planner", "must be one JSON document", halfAPlan),
		},
		"plan-circle": {
			rules:  first(makes("right"), rule(on("agent", "planner", "attempt", 1), aCircle(), 300)),
			status: contract.StatusDone, heals: []string{"LOGIC_ERROR invalid_plan refine_plan success"},
			check: w.requireReceived("planner", "without cycles", "dependency cycle"),
		},
		"every-form-fails": {
			rules:  first(makes("right"), rule(on("agent", "planner", "model", "safer", "attempt", 6), makes("right")[0], 0), rule(on("agent", "planner"), says(halfAPlan), 300)),
			args:   []string{"--set", "execution.max_retries=5"},
			status: contract.StatusDone,
			heals: []string{
				"LLM_ERROR invalid_output correct_json failed", "LLM_ERROR invalid_output regenerate failed",
				"LLM_ERROR invalid_output stricter_schema failed", "LLM_ERROR invalid_output lower_temperature failed",
				"LLM_ERROR invalid_output safer_model success",
			},
			check: func(t *testing.T, run views.RunDetails) {
				t.Helper()
				require.Equal(t, 1, countEvents(run, contract.EventAgentRevoked), "after the third time the same error")
				requireArtifact(t, run, "handoff/planner-1.md")
			},
		},
	}
}

// builderCases are builders that refuse, loop or leave the repository.
func (w *healTests) builderCases() map[string]healCase {
	reading := calls(call("read_file", "path", "notes.txt"))
	return map[string]healCase{
		"builder-refuses": {
			rules:  first(makes("right"), rule(on("agent", "builder", "attempt", 1), says(declined), 300)),
			status: contract.StatusDone, heals: []string{"LLM_ERROR refusal regenerate success"},
		},
		"builder-loops": {
			rules:  first(makes("right"), rule(on("agent", "builder", "attempt", 1), reading, 50), rule(on("agent", "builder", "attempt", 2), reading, 50)),
			status: contract.StatusDone,
			heals:  []string{"LLM_ERROR loop regenerate failed", "LLM_ERROR loop lower_temperature success"},
		},
		"escapes-in-one-step": {
			rules: first(harness.PlanRules("20ms", writes("step-001"), writes("step-002")),
				rule(on("agent", "builder", "step", "step-001", "attempt", 1), delayed(writesOutside(), "700ms"), 50),
				rule(on("agent", "builder", "step", "step-002", "attempt", 2, "turn", 1), delayed(says(declined), "1500ms"), 50),
				rule(on("agent", "builder", "step", "step-002", "attempt", 1), delayed(says(declined), "20s"), 50),
				rule(on("agent", "builder", "step", "step-002", "attempt", 2), says(declined), 50)),
			status: contract.StatusDone,
			heals:  []string{"SAFETY_ERROR path_escape policy_correction success", "LLM_ERROR refusal regenerate success"},
		},
		"escapes": {
			rules:  first(makes("right"), rule(on("agent", "builder", "attempt", 1), writesOutside(), 50)),
			status: contract.StatusDone, heals: []string{"SAFETY_ERROR path_escape policy_correction success"},
			check: func(t *testing.T, run views.RunDetails) {
				t.Helper()
				require.Equal(t, 1, countEvents(run, contract.EventAgentRevoked))
				requireArtifact(t, run, "handoff/builder-1.md")
				w.requireReceived("builder", "The rules have not changed", "take over from an agent that was revoked")(t, run)
			},
		},
	}
}

// providerCases are providers that refuse to answer.
func providerCases() map[string]healCase {
	return map[string]healCase{
		"quota-elsewhere": {
			rules:  first(makes("right"), rule(on("agent", "builder", "attempt", 1), status(429, "code", "insufficient_quota"), 0)),
			status: contract.StatusDone, heals: []string{"INFRA_ERROR quota_exhausted other_provider success"},
			check: func(t *testing.T, run views.RunDetails) {
				t.Helper()
				require.True(t, slices.ContainsFunc(run.ModelUsage, func(u views.ModelUsage) bool { return u.Model == "safer" }), "%v", run.ModelUsage)
				require.Equal(t, "spare/safer", run.SelfHealEvents[0].Output().After["model"])
			},
		},
		"quota-says-when": {
			rules: first(makes("right"), rule(on("agent", "builder", "attempt", 1), status(429, "code", "insufficient_quota", "retry_after", "2s"), 0)),
			args:  []string{"--set", noFallback}, status: contract.StatusDone, heals: []string{"INFRA_ERROR quota_exhausted wait success"},
			check: func(t *testing.T, run views.RunDetails) {
				t.Helper()
				require.Equal(t, "2s", run.SelfHealEvents[0].Output().After["wait"], "not execution.quota_wait, which is an hour")
				require.Equal(t, "the clock", run.Interventions[0].ResolvedBy)
			},
		},
		"quota-waits": {
			rules:  first(makes("right"), rule(on("agent", "builder", "attempt", 1), status(402), 0)),
			args:   []string{"--set", noFallback, "--set", "execution.quota_wait=1s"},
			status: contract.StatusDone, heals: []string{"INFRA_ERROR quota_exhausted wait success"},
			check: func(t *testing.T, run views.RunDetails) {
				t.Helper()
				require.Len(t, run.Interventions, 1)
				require.Equal(t, "the clock", run.Interventions[0].ResolvedBy)
			},
		},
		"rate-limit": {
			rules:  first(makes("right"), withTimes(rule(on("agent", "builder"), status(429, "retry_after", "1s"), 0), 1)),
			status: contract.StatusDone,
		},
		"nobody-helps": {
			rules: first(makes("right"), rule(on("agent", "builder"), status(401), 0)),
			args:  []string{"--set", helpInTime}, status: contract.StatusFailed,
			heals: []string{"CONFIG_ERROR unauthorized ask_person failed"},
			check: func(t *testing.T, run views.RunDetails) {
				t.Helper()
				require.Equal(t, 1, countEvents(run, contract.EventInterventionRequested))
				require.Equal(t, 1, countEvents(run, contract.EventInterventionReminded))
				require.Equal(t, 1, countEvents(run, contract.EventInterventionExpired))
				require.Equal(t, "expired", run.Interventions[0].Status)
				require.Contains(t, run.Failure.Message, "no answer was received within 2s")
			},
		},
	}
}

// conflictCases are steps whose changes conflict.
func (w *healTests) conflictCases() map[string]healCase {
	conflict := harness.ReadRules(w.t, filepath.Join("testdata", "conflict.yaml"))
	return map[string]healCase{
		"conflict": {
			rules: first(conflict, rule(on("agent", "repair"), calls(
				call("edit_file", "path", "notes.txt", "old_text", "zwei", "new_text", "zwei deux"), harness.Finish("both")), 300)),
			status: contract.StatusDone, heals: []string{"LOGIC_ERROR merge_conflict repair success"},
			check: func(t *testing.T, run views.RunDetails) {
				t.Helper()
				require.Equal(t, "one\nzwei deux\nthree", harness.Git(t, run.Repo, "show", run.ReleaseBranch+":notes.txt"))
			},
		},
		"conflict-planned-anew": {
			rules: append(harness.Rules{
				rule(on("agent", "planner", "attempt", 2), makes("right")[0], 0),
				rule(on("agent", "repair"), calls(harness.Finish("it cannot be done")), 50),
				rule(on("agent", "builder", "step", "step-001", "attempt", 3), makes("right")[1], 0),
				rule(on("agent", "builder", "step", "step-001", "attempt", 2), makes("right")[1], 0),
			}, conflict...),
			status: contract.StatusDone,
			heals: []string{
				"LOGIC_ERROR merge_conflict repair failed", "LOGIC_ERROR merge_conflict refine_step failed", "LOGIC_ERROR merge_conflict refine_plan success",
			},
		},
	}
}

// repairCases are verifications that fail, and how they are mended, or are not.
func (w *healTests) repairCases() map[string]healCase {
	return map[string]healCase{
		"one-red-test": {
			rules: first(makes(wrong), repairs(wrong, "right", "phase", "tester_running")), repo: healableRepo(),
			status: contract.StatusDone, heals: []string{"ASSERTION_ERROR tests_failed repair success"},
			check: repairedBy("heal-1"),
		},
		"no-settings": {
			rules: makes("right"), repo: unconfigured(),
			status: contract.StatusDone, heals: []string{"CONFIG_ERROR invalid_config create_defaults success"},
			check: func(t *testing.T, run views.RunDetails) {
				t.Helper()
				require.Equal(t, "greeting: hello", harness.Git(t, run.Repo, "show", run.ReleaseBranch+":settings.yaml"))
			},
		},
		"crash": {
			rules: first(makes("crash"), repairs("crash", "right")), repo: healableRepo(),
			status: contract.StatusDone,
			heals:  []string{"RUNTIME_ERROR command_crashed rerun_strict failed", "RUNTIME_ERROR command_crashed repair success"},
		},
		"never-mended": {
			rules: first(makes(wrong),
				repairs(wrong, "very wrong", "attempt", 1), repairs("very wrong", "quite wrong", "attempt", 2), repairs("quite wrong", "so wrong", "attempt", 3), repairs(wrong, "still wrong")),
			repo: healableRepo(), args: []string{"--set", helpInTime}, status: contract.StatusFailed,
			check: func(t *testing.T, run views.RunDetails) {
				t.Helper()
				require.Equal(t, 3, run.RetryCount, "each repair changed what failed, up to execution.max_retries")
				require.Equal(t, contract.HealAskPerson, run.SelfHealEvents[len(run.SelfHealEvents)-1].HealAction)
				for _, h := range w.Histories(t, run.ID) {
					require.Less(t, len(h.Events), 3000, h.WorkflowID)
				}
			},
		},
		"mended-in-two-repairs": {
			rules: first(makes(wrong), repairs(wrong, "still wrong", "attempt", 1), repairs("still wrong", "right", "attempt", 2)), repo: healableRepo(),
			status: contract.StatusDone,
			heals:  []string{"ASSERTION_ERROR tests_failed repair failed", "ASSERTION_ERROR tests_failed repair success"},
			check: func(t *testing.T, run views.RunDetails) {
				t.Helper()
				require.Equal(t, "RGPT-Step: heal-2", harness.Git(t, run.Repo, "log", "-1", "--format=RGPT-Step: %(trailers:key=RGPT-Step,valueonly)", run.ReleaseBranch))
			},
		},
	}
}

// weakenedTestCases are Repair agents that delete or change the test instead of mending what it finds.
func weakenedTestCases() map[string]healCase {
	return map[string]healCase{
		"deletes-test": {
			rules: first(makes(wrong), rule(on("agent", "repair"), calls(call("delete_file", "path", "calc_test.go"), harness.Finish("all green")), 300)),
			repo:  healableRepo(), args: []string{"--set", helpInTime}, status: contract.StatusFailed, heals: thrownAway(), check: saysThrownAway,
		},
		"skips-one-test": {
			rules: first(makes(wrong), edits("\tif says", "\tt.Skip()\n\tif says")),
			repo:  healableRepo(), args: []string{"--set", helpInTime}, status: contract.StatusFailed, heals: thrownAway(), check: saysThrownAway,
		},
		"empties-test": {
			rules: first(makes(wrong), edits("\t\tt.Fatal(\"it says wrong\")\n", "")),
			repo:  healableRepo(), args: []string{"--set", helpInTime}, status: contract.StatusFailed, heals: thrownAway(), check: saysThrownAway,
		},
	}
}

// severalCases are runs that meet failures of several kinds.
func severalCases() map[string]healCase {
	return map[string]healCase{
		"several": {
			rules: first(makes(wrong),
				rule(on("agent", "planner", "attempt", 1), says(halfAPlan), 300),
				rule(on("agent", "planner", "attempt", 2), aCircle(), 300),
				rule(on("agent", "builder", "attempt", 1), writesOutside(), 50),
				rule(on("agent", "builder", "attempt", 2), says(declined), 50),
				rule(on("agent", "builder", "attempt", 3), status(402), 0),
				repairs(wrong, "crash", "attempt", 1), repairs("crash", "right", "attempt", 2)),
			repo: healableRepo(), status: contract.StatusDone,
			heals: []string{
				"LLM_ERROR invalid_output correct_json failed", "LOGIC_ERROR invalid_plan refine_plan success",
				"SAFETY_ERROR path_escape policy_correction failed", "LLM_ERROR refusal regenerate failed", "INFRA_ERROR quota_exhausted other_provider success",
				"ASSERTION_ERROR tests_failed repair failed", "RUNTIME_ERROR command_crashed rerun_strict failed", "RUNTIME_ERROR command_crashed repair success",
			},
		},
	}
}

func thrownAway() []string {
	return []string{"ASSERTION_ERROR tests_failed repair failed", "ASSERTION_ERROR tests_failed ask_person failed"}
}

func saysThrownAway(t *testing.T, run views.RunDetails) {
	t.Helper()
	require.Contains(t, run.SelfHealEvents[0].Output().Result, "removes tests")
	require.NotEmpty(t, run.SelfHealEvents[0].Output().Diff, "people can see what was thrown away")
	require.Empty(t, run.ReleaseCommit)
}

func withTimes(r map[string]any, n int) map[string]any {
	r["times"] = n
	return r
}

func countEvents(run views.RunDetails, kind contract.EventType) int {
	n := 0
	for _, e := range run.Events {
		if e.Type == kind {
			n++
		}
	}
	return n
}

func requireArtifact(t *testing.T, run views.RunDetails, name string) {
	t.Helper()
	require.True(t, slices.ContainsFunc(run.Artifacts, func(a contract.Artifact) bool { return a.Name == name }), "artifact %s; there are %v", name, run.Artifacts)
}

// repairedBy requires that a run's branch holds the repair as a commit that
// says where it comes from, and that the repair can be read.
func repairedBy(step string) func(*testing.T, views.RunDetails) {
	return func(t *testing.T, run views.RunDetails) {
		t.Helper()
		message := harness.Git(t, run.Repo, "log", "-1", "--format=%B", run.ReleaseBranch)
		require.Contains(t, message, "RGPT-Step: "+step)
		require.Contains(t, message, fmt.Sprintf("RGPT-Run: %d", run.ID))
		require.Contains(t, message, "RGPT-Model:")
		requireArtifact(t, run, "heal/1/change.patch")
		out := run.SelfHealEvents[0].Output()
		require.Contains(t, out.Diff, "+")
		require.NotNil(t, out.Usage)
		require.Positive(t, out.Usage.Calls, "what the Repair agent cost is told")
	}
}

// requireReceived requires that an agent's last attempt was requireReceived texts.
func (w *healTests) requireReceived(agent contract.Agent, texts ...string) func(*testing.T, views.RunDetails) {
	return func(t *testing.T, run views.RunDetails) {
		t.Helper()
		var last int64
		for _, e := range run.Executions {
			if e.Agent == agent {
				last = e.ID
			}
		}
		messages, err := w.Store(t).Conversation(t.Context(), last)
		require.NoError(t, err)
		var all string
		for _, m := range messages {
			all += string(m.Content)
		}
		for _, text := range texts {
			require.Contains(t, all, text)
		}
	}
}

// healTests is the stack of the heals.
type healTests struct {
	*stackTests
	t *testing.T
}

// spare is a second provider: the same scripted model at another address.
type spare struct {
	*httptest.Server
	to atomic.Pointer[url.URL]
}

func newSpare(t *testing.T) *spare {
	t.Helper()
	s := &spare{}
	s.Server = httptest.NewServer(&httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(s.to.Load()) }})
	t.Cleanup(s.Close)
	return s
}

// TestFailuresAreHealed meets each failure that self-heal knows on one real
// stack, and checks what is written of it.
func TestFailuresAreHealed(t *testing.T) {
	t.Parallel()
	w := &healTests{t: t}
	other := newSpare(t)
	cases := w.healCases()
	rules := append(harness.ReadScenarios(t, filepath.Join(harness.Root(), "examples", "go", "heal-*.yaml")), askingRules()...)
	rules = append(rules, everyClassRules()...)
	for name, c := range cases {
		rules = append(rules, c.rules.Named("heal-"+name)...)
	}
	w.stackTests = &stackTests{Stack: harness.Start(t, harness.Options{
		Scenario: rules,
		// Their base commits fail in what they heal, which a baseline would let pass.
		Config: fmt.Sprintf("models:\n  fallback: [{provider: spare, model: safer}]\n  providers:\n    spare: {kind: compatible, base_url: %q}\nverification: {baseline: \"off\"}\n",
			other.URL),
	})}
	to, err := url.Parse(w.State(t).Model)
	require.NoError(t, err)
	other.to.Store(to)
	w.sample = harness.SampleRepo(t, "go", filepath.Join(w.Dir, "sample"))
	w.shell = harness.ShellRepo(t, filepath.Join(w.Dir, "shell"))
	t.Run("side by side", func(t *testing.T) {
		for name, c := range cases {
			t.Run(name, parallel(func(t *testing.T) { w.heals(t, name, c) }))
		}
		t.Run("examples", parallel(w.examples))
		t.Run("one run meets every class", parallel(w.everyClass))
		t.Run("a person's help is waited for", parallel(w.helped))
		t.Run("a person may give up", parallel(w.givenUp))
		t.Run("a branch in the way is for a person", parallel(w.branchExists))
		t.Run("a repository that is gone is for a person", parallel(w.repositoryGone))
		t.Run("a plan is approved once", parallel(w.planApprovedOnce))
	})
	slices.Sort(w.runs)
	t.Logf("%d runs", len(w.runs))
	harness.CheckInvariants(t, w.Stack, w.runs...)
	w.CheckSandboxes(t)
}

func (w *healTests) heals(t *testing.T, name string, c healCase) {
	t.Helper()
	repo := w.shell
	if c.repo != nil {
		repo = harness.Repo(t, filepath.Join(w.Dir, "repo-"+name), c.repo)
	}
	id := w.startIn(t, repo, "heal-"+name, c.args...)
	w.end(t, id, c.status)
	run := w.Inspect(t, id)
	if c.heals != nil || c.check == nil {
		require.Equal(t, c.heals, healsOf(run))
	}
	w.explained(t, run)
	if c.check != nil {
		c.check(t, run)
	}
}

// healsOf lists a run's heals in short.
func healsOf(run views.RunDetails) []string {
	var out []string
	for _, h := range run.SelfHealEvents {
		out = append(out, fmt.Sprintf("%s %s %s %s", h.ErrorType, h.ErrorCode, h.HealAction, h.Status))
	}
	return out
}

// explained requires that each heal says what it was about, what was done and
// what became of it.
func (w *healTests) explained(t *testing.T, run views.RunDetails) {
	t.Helper()
	for _, h := range run.SelfHealEvents {
		out := h.Output()
		require.NotEmpty(t, h.RootCause, "heal %d", h.Number)
		require.NotEmpty(t, out.Before, "heal %d", h.Number)
		require.NotZero(t, h.ExecutionID, "heal %d", h.Number)
		require.NotEmpty(t, out.Message+out.Result, "heal %d", h.Number)
		require.NotNil(t, h.FinishedAt, "heal %d", h.Number)
	}
	if n := len(run.SelfHealEvents); n > 0 {
		require.Equal(t, string(run.SelfHealEvents[n-1].HealAction), *run.LastHealAction)
	}
}

// examples runs the scenarios of self-heal that the project ships.
func (w *healTests) examples(t *testing.T) {
	red, many := w.startIn(t, w.sample, "heal-red-test"), w.startIn(t, w.sample, "heal-many")
	skips := w.startIn(t, w.sample, "heal-skips-test", "--set", helpInTime)
	w.end(t, red, contract.StatusDone)
	run := w.Inspect(t, red)
	require.Equal(t, []string{"ASSERTION_ERROR tests_failed repair success"}, healsOf(run))
	repairedBy("heal-1")(t, run)
	w.end(t, many, contract.StatusDone)
	run = w.Inspect(t, many)
	require.Equal(t, []string{
		"LLM_ERROR invalid_output correct_json failed", "LOGIC_ERROR invalid_plan refine_plan success", "SAFETY_ERROR path_escape policy_correction success",
		"LLM_ERROR refusal regenerate success", "ASSERTION_ERROR tests_failed repair success",
	}, healsOf(run))
	w.end(t, skips, contract.StatusFailed)
	run = w.Inspect(t, skips)
	require.Equal(t, []string{"ASSERTION_ERROR tests_failed repair failed", "ASSERTION_ERROR tests_failed ask_person failed"}, healsOf(run))
	saysThrownAway(t, run)
}

// askingRules are those of runs that ask a person.
func askingRules() harness.Rules {
	var all harness.Rules
	for _, name := range []string{"heal-helped", "heal-given-up"} {
		all = append(all, first(makes("right"), withTimes(rule(on("agent", "builder"), status(401), 0), 1)).Named(name)...)
	}
	all = append(all, first(makes("right"), rule(on("agent", "builder", "attempt", 1), says(declined), 50)).Named("heal-approved")...)
	all = append(all, makes("right").Named("heal-branch")...)
	return append(all, makes("right").Named("heal-gone")...)
}

// awaitQuestion waits until a run asks a person for help.
func (w *healTests) awaitQuestion(t *testing.T, id int64) store.Run {
	t.Helper()
	return w.AwaitRun(t, w.Store(t), id, "in want of help", longest, func(r store.Run) bool { return r.WaitingFor == "intervention" })
}

func (w *healTests) helped(t *testing.T) {
	id := w.start(t, "heal-helped")
	w.awaitQuestion(t, id)
	w.OK(t, "run", "approve", arg(id), "--reason", "the key is there now")
	w.end(t, id, contract.StatusDone)
	run := w.Inspect(t, id)
	require.Equal(t, []string{"CONFIG_ERROR unauthorized ask_person success"}, healsOf(run))
	require.Equal(t, "retry", run.Interventions[0].Answer)
	require.Equal(t, "the key is there now", run.Interventions[0].Words)
	w.explained(t, run)
	w.requireReceived("builder", "the key is there now")(t, run)
}

func (w *healTests) givenUp(t *testing.T) {
	id := w.start(t, "heal-given-up")
	w.awaitQuestion(t, id)
	w.OK(t, "run", "reject", arg(id), "--reason", "no key")
	w.end(t, id, contract.StatusFailed)
	run := w.Inspect(t, id)
	require.Equal(t, []string{"CONFIG_ERROR unauthorized ask_person failed"}, healsOf(run))
	require.Equal(t, "give_up", run.Interventions[0].Answer)
	require.Contains(t, run.Failure.Message, "no key")
}

// branchExists meets at the release what only a person can decide. The plan
// that was approved before is not asked for again.
func (w *healTests) branchExists(t *testing.T) {
	repo := harness.Repo(t, filepath.Join(w.Dir, "repo-branch"), healableRepo())
	id := w.startIn(t, repo, "heal-branch", "--approve-release")
	w.awaitApproval(t, id, "release")
	harness.Git(t, repo, "branch", contract.Branch(id))
	w.OK(t, "run", "approve", arg(id))
	w.awaitQuestion(t, id)
	harness.Git(t, repo, "branch", "-D", contract.Branch(id))
	w.OK(t, "run", "approve", arg(id))
	w.end(t, id, contract.StatusDone)
	run := w.Inspect(t, id)
	require.Equal(t, []string{"LOGIC_ERROR branch_conflict ask_person success"}, healsOf(run))
	require.Equal(t, 1, countEvents(run, contract.EventApprovalRequested), "what was approved is not asked for again")
}

// repositoryGone meets a HUMAN_ERROR: the repository is not where it was.
func (w *healTests) repositoryGone(t *testing.T) {
	repo := harness.Repo(t, filepath.Join(w.Dir, "repo-gone"), healableRepo())
	id := w.startIn(t, repo, "heal-gone", "--approve-release")
	w.awaitApproval(t, id, "release")
	require.NoError(t, os.Rename(repo, repo+"-elsewhere"))
	w.OK(t, "run", "approve", arg(id))
	w.awaitQuestion(t, id)
	require.NoError(t, os.Rename(repo+"-elsewhere", repo))
	w.OK(t, "run", "approve", arg(id), "--reason", "it is back")
	w.end(t, id, contract.StatusDone)
	run := w.Inspect(t, id)
	require.Equal(t, []string{"HUMAN_ERROR repository ask_person success"}, healsOf(run))
}

// planApprovedOnce is a builder that is healed under an approved plan.
func (w *healTests) planApprovedOnce(t *testing.T) {
	id := w.start(t, "heal-approved", "--approve-plan")
	w.awaitApproval(t, id, "plan")
	w.OK(t, "run", "approve", arg(id))
	w.end(t, id, contract.StatusDone)
	run := w.Inspect(t, id)
	require.Equal(t, []string{"LLM_ERROR refusal regenerate success"}, healsOf(run))
	require.Equal(t, 1, countEvents(run, contract.EventApprovalRequested), "the same plan is approved once")
}

func (w *healTests) awaitApproval(t *testing.T, id int64, kind string) {
	t.Helper()
	w.AwaitRun(t, w.Store(t), id, "in want of approval", longest, func(r store.Run) bool { return r.WaitingFor == kind })
}
