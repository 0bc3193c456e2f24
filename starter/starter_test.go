package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/artifact"
	"github.com/rocketgpt/orchestrator/internal/config"
	"github.com/rocketgpt/orchestrator/internal/control"
	"github.com/rocketgpt/orchestrator/internal/fault"
	"github.com/rocketgpt/orchestrator/internal/gate/policy"
	"github.com/rocketgpt/orchestrator/internal/sandbox"
	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/internal/store/views"
	"github.com/rocketgpt/orchestrator/internal/storetest"
	"github.com/rocketgpt/orchestrator/internal/terminal"
	"github.com/rocketgpt/orchestrator/internal/version"
)

func TestMain(m *testing.M) {
	sandbox.MaybeRunHelper()
	policy.MaybeRunHelper()
	goleak.VerifyTestMain(storetest.Main(m))
}

var update = flag.Bool("update", false, "write the golden files anew")

// testEnv is where a test's commands run: its own data folder and environment, without a
// stack.
type testEnv struct {
	dir string
	env []string
	url string
	*store.Store
	*views.Views
}

func empty(tb testing.TB) *testEnv {
	tb.Helper()
	return &testEnv{dir: tb.TempDir(), env: []string{"TEMPORAL_ADDRESS=127.0.0.1:1", "PATH=" + os.Getenv("PATH")}}
}

// withStore is a place with a database.
func withStore(tb testing.TB) *testEnv {
	tb.Helper()
	p := empty(tb)
	p.url = storetest.URL(tb)
	var err error
	p.Store, err = store.Open(tb.Context(), p.url, store.Options{MaxConns: 4})
	require.NoError(tb, err)
	tb.Cleanup(p.Close)
	p.Views = views.New(p.Store)
	p.env = append(p.env, "DATABASE_URL="+p.url)
	return p
}

// result is the outcome of a command.
type result struct {
	code      int
	out, errs string
}

func (p *testEnv) run(tb testing.TB, args ...string) result {
	tb.Helper()
	var out, errs bytes.Buffer
	a := newApp(strings.NewReader("goal from standard input"), &out, &errs)
	a.env = p.env
	ctx, cancel := context.WithTimeout(tb.Context(), time.Minute)
	defer cancel()
	code := execute(ctx, a, append([]string{"--data-dir", p.dir}, args...))
	return result{code, out.String(), errs.String()}
}

// ok runs a command that must succeed.
func (p *testEnv) ok(tb testing.TB, args ...string) result {
	tb.Helper()
	r := p.run(tb, args...)
	require.Zero(tb, r.code, "rgpt %v\n%s\n%s", args, r.out, r.errs)
	return r
}

// plan is a plan of one step, with the given text everywhere.
func plan(text string) contract.Plan {
	return contract.Plan{Summary: text, Steps: []contract.Step{{ID: "step-001", Name: text, Description: text}}}
}

// fill makes a run that failed, with the given text everywhere.
func (p *testEnv) fill(tb testing.TB, text string) int64 {
	tb.Helper()
	ctx := tb.Context()
	run, _, err := p.CreateRun(ctx, store.NewRun{
		Project: text, GoalTitle: text, GoalDescription: text,
		Settings: contract.Settings{Repo: contract.Repo{URL: "/repos/" + strings.ReplaceAll(strings.ToValidUTF8(text, ""), "\x00", ""), Base: "c0ffeec0ffeec0ffee", Tree: "beef", Branch: "main"}},
	})
	require.NoError(tb, err)
	var seq int64
	record := func(r contract.Record) contract.ExecutionRef {
		seq++
		r.RunID, r.Seq = run.ID, seq
		done, err := p.Record(ctx, store.Source{WorkflowID: contract.RunWorkflowID(run.ID), WorkflowRunID: "first"}, r)
		require.NoError(tb, err)
		return done.Execution
	}
	begin := func(phase contract.Phase, step string) contract.ExecutionRef {
		return record(contract.Record{
			Begin:  &contract.ExecutionBegin{Phase: phase, Step: step, Agent: contract.AgentOf(phase), Model: contract.ModelChoice{Provider: "scripted", Model: "m"}},
			Events: []contract.EventDraft{{Type: phase.Started(), Payload: map[string]string{"step": step, "message": text}}},
		})
	}
	end := func(ref contract.ExecutionRef, status contract.ExecutionStatus, f *contract.Failure, change *contract.RunChange, events ...contract.EventDraft) {
		record(contract.Record{End: &contract.ExecutionEnd{ExecutionID: ref.ID, Status: status, Failure: f}, Run: change, Events: events})
	}
	planner := begin(contract.PhasePlanner, "")
	planID, err := p.SavePlan(ctx, run.ID, planner.ID, "planner", plan(text))
	require.NoError(tb, err)
	end(planner, contract.ExecutionCompleted, nil, &contract.RunChange{Phase: contract.PhasePlanner, Status: contract.PhasePlanner.Completed(), PlanID: planID})
	step := begin(contract.PhaseBuilder, text)
	said, err := json.Marshal(map[string]string{"role": "user", "text": text})
	require.NoError(tb, err)
	require.NoError(tb, p.OpenConversation(ctx, step.ID, []store.Message{{Role: "user", Content: said}}))
	end(step, contract.ExecutionCompleted, nil, nil)
	tester := begin(contract.PhaseTester, "")
	require.NoError(tb, p.SaveCheck(ctx, tester, "test-go", contract.CheckResult{
		Check: contract.Check{ID: "test-go", Category: contract.CategoryTest, Name: text}, Summary: contract.TestSummary{Passed: 1, Failed: 1}, DurationMS: 2000,
	}, []contract.TestCase{{Name: text, Status: contract.TestFailed, Message: text}, {Name: "TestAdd", Status: contract.TestPassed}},
		[]contract.Finding{{Severity: contract.SeverityMajor, Category: contract.CategoryTest, Message: text, Location: text}}, ""))
	p.artifact(tb, run.ID, "tester/1/"+text+".log", text+"\nsecond line\n")
	failure := &contract.Failure{Class: contract.ClassAssertion, Code: contract.CodeTestsFailed, Message: text, Cause: text + "!"}
	end(tester, contract.ExecutionFailed, failure, &contract.RunChange{Phase: contract.PhaseTester, Status: contract.StatusFailed, Failure: failure, Branch: text, Finished: true},
		contract.EventDraft{Type: contract.EventRunFailed, Payload: map[string]any{"status": contract.StatusFailed, "failure": failure, "step": text, "reason": text}})
	p.freezeTimes(tb)
	return run.ID
}

// artifact gives a run a file.
func (p *testEnv) artifact(tb testing.TB, run int64, name, content string) {
	tb.Helper()
	blobs, err := artifact.Open(tb.Context(), "", filepath.Join(p.dir, "artifacts"))
	require.NoError(tb, err)
	defer blobs.Close()
	digest, err := blobs.Put(tb.Context(), []byte(content))
	require.NoError(tb, err)
	require.NoError(tb, p.AddArtifacts(tb.Context(), run, []contract.Artifact{{Name: name, Type: contract.ArtifactLog, Size: int64(len(content)), Digest: digest}}))
}

// freezeTimes gives every run the same duration, long ago.
func (p *testEnv) freezeTimes(tb testing.TB) {
	tb.Helper()
	conn, err := pgx.Connect(tb.Context(), p.url)
	require.NoError(tb, err)
	for _, sql := range []string{
		"UPDATE orchestrator_runs SET created_at = '2026-01-02T03:04:05Z', updated_at = '2026-01-02T03:04:15Z', finished_at = '2026-01-02T03:04:15Z'",
		"UPDATE orchestrator_executions SET started_at = '2026-01-02T03:04:06Z', finished_at = '2026-01-02T03:04:08.5Z'",
		"UPDATE orchestrator_checks SET started_at = '2026-01-02T03:04:06Z', finished_at = '2026-01-02T03:04:08Z'",
		"UPDATE orchestrator_events SET created_at = '2026-01-02T03:04:05Z'",
	} {
		_, err = conn.Exec(tb.Context(), sql)
		require.NoError(tb, err)
	}
	require.NoError(tb, conn.Close(tb.Context()))
}

// varying matches what differs from run to run.
var varying = regexp.MustCompile(`\b\d+d\b`)

func golden(tb testing.TB, name, got string) {
	tb.Helper()
	got = varying.ReplaceAllString(got, "###d")
	file := filepath.Join("testdata", name)
	if *update {
		require.NoError(tb, os.MkdirAll("testdata", 0o755))
		require.NoError(tb, os.WriteFile(file, []byte(got), 0o600))
	}
	want, err := os.ReadFile(file)
	require.NoError(tb, err, "make it with -update")
	require.Equal(tb, string(want), got)
}

func TestCommandsThatReadPrintWhatTheyPrinted(t *testing.T) {
	t.Parallel()
	p := withStore(t)
	id := fmt.Sprint(p.fill(t, "divide"))
	golden(t, "list.txt", p.ok(t, "run", "list").out)
	golden(t, "inspect.txt", p.ok(t, "run", "inspect", id).out)
	golden(t, "export.md", p.ok(t, "run", "export", id).out)
	golden(t, "logs.txt", p.ok(t, "run", "logs", id).out)
	golden(t, "artifacts.txt", p.ok(t, "run", "artifacts", id).out)
	watched := p.run(t, "run", "watch", id)
	require.Equal(t, exitFailed, watched.code, "it failed")
	require.Contains(t, watched.out, "run.failed")
	require.Contains(t, watched.out, "Run 1 is failed after 10s.")
	timed := p.ok(t, "run", "timing", id)
	golden(t, "timing.txt", timed.out)
	require.Contains(t, timed.errs, "Temporal at 127.0.0.1:1 is not responding", "and the rest is told all the same")
	require.Contains(t, p.ok(t, "run", "list", "--status", "done").out, "No runs.")
}

func TestAnInspectedRunSaysWhyItsModelsWereChosen(t *testing.T) {
	t.Parallel()
	p := withStore(t)
	id := p.fill(t, "divide")
	require.NotContains(t, p.ok(t, "run", "inspect", fmt.Sprint(id)).out, "WHY THIS MODEL", "it has no calls")
	executions, err := p.Executions(t.Context(), id)
	require.NoError(t, err)
	call := func(e store.Execution, turn int, model string, why *contract.RouteDecision) {
		t.Helper()
		held, err := p.ReserveCall(t.Context(), store.Reservation{
			Execution: contract.ExecutionRef{ID: e.ID, RunID: id, Phase: e.Phase, Step: e.Step, Agent: e.Agent, Attempt: e.Attempt},
			Turn:      turn, Provider: "house", Model: model, Route: why, Scopes: []store.Scope{store.RunScope(id, contract.RunBudget{})},
		})
		require.NoError(t, err)
		require.NoError(t, p.CompleteCall(t.Context(), held.ID, contract.Usage{PromptTokens: 1000, CompletionTokens: 100, MicroUSD: 8_100}, time.Second, []byte(`{}`), nil))
	}
	cheapest := &contract.RouteDecision{
		Strategy: contract.RouteCheapest, ExpectedMicroUSD: 9_000, Reasons: []string{"house/small is the cheapest of 2 models: about $0.009; next: house/large, about $0.15"},
		Considered: []contract.RouteCandidate{
			{Provider: "house", Model: "small", ExpectedMicroUSD: 9_000, Quality: 0.55, Basis: "LiveBench: small, 2026-11-01"},
			{Provider: "house", Model: "large", ExpectedMicroUSD: 150_000, Assumed: true, Quality: 0.55, Basis: "no score is known"},
		},
		PassedOver: []contract.PassedOver{{Provider: "house", Model: "local", Why: "it cannot call tools\x1b[31m"}},
	}
	call(executions[0], 1, "large", nil)
	call(executions[1], 1, "small", cheapest)
	call(executions[1], 2, "small", &contract.RouteDecision{Strategy: contract.RouteCheapest, ExpectedMicroUSD: 2_000, Reasons: []string{"the conversation stays with house/small, which has its prompt in the cache"}})
	golden(t, "inspect_calls.txt", p.ok(t, "run", "inspect", fmt.Sprint(id)).out)
	golden(t, "inspect_verbose.txt", p.ok(t, "run", "inspect", fmt.Sprint(id), "--verbose").out)
	var whole struct {
		ID    int64             `json:"runId"`
		Calls []views.ModelCall `json:"model_calls"`
	}
	require.NoError(t, json.Unmarshal([]byte(p.ok(t, "run", "inspect", fmt.Sprint(id), "--json").out), &whole))
	require.Equal(t, id, whole.ID)
	require.Len(t, whole.Calls, 3)
	require.Equal(t, cheapest, whole.Calls[1].Route)
}

func TestCommandsThatNeedNoTemporalDoNotAskForIt(t *testing.T) {
	t.Parallel()
	p := withStore(t)
	id := fmt.Sprint(p.fill(t, "x"))
	p.env = append(p.env, "TEMPORAL_ADDRESS=192.0.2.1:7233") // an address that never answers, slowly
	began := time.Now()
	for _, args := range [][]string{{"run", "list"}, {"run", "inspect", id}, {"run", "export", id}, {"run", "logs", id}, {"run", "artifacts", id}, {"models"}, {"migrate"}} {
		p.ok(t, args...)
	}
	require.Less(t, time.Since(began), 10*time.Second)
}

func TestWrongCommandLinesExitWith4(t *testing.T) {
	t.Parallel()
	p := withStore(t)
	p.fill(t, "x")
	for _, line := range []string{
		"nonsense", "run nonsense", "dev nonsense", "--nonsense", "run list --nonsense", "run list extra", "run list --limit x", "run list --limit 0", "run list --status nonsense",
		"run list --phase nonsense", "run list --error nonsense", "run inspect", "run inspect 1 2", "run inspect abc", "run inspect -- -1", "run inspect 0", "run inspect 99999999999999999999",
		"run inspect 999", "run export 1 --format pdf", "run export 1 --output /nonexistent/x", "run watch x", "run logs x", "run logs 1 --phase nonsense", "run timing x", "run artifacts x", "run artifacts 1 --get nothing", "run approve x", "run switch-model 1 --model x",
		"run create --goal x --set nonsense", "run create", "run create --goal x --goal-file y", "run create --goal-file /nonexistent",
		"dev --port x", "dev --port 70000", "dev --port -1", "dev status", "dev stop", "completion nonsense", "models extra", "doctor extra", "migrate extra", "run list --config /nonexistent.yaml",
	} {
		r := p.run(t, strings.Fields(line)...)
		require.Equal(t, exitInput, r.code, "rgpt %s\n%s\n%s", line, r.out, r.errs)
		require.Empty(t, r.out, line)
		require.True(t, strings.HasPrefix(r.errs, "rgpt: "), "%s: %s", line, r.errs)
		require.NotContains(t, r.errs, "panic")
	}
	require.Contains(t, p.run(t, "run", "lst").errs, "did you mean list?")
	require.Contains(t, empty(t).run(t, "run", "list").errs, "rgpt dev", "it says how to start")
}

// documents reads a stream of JSON documents.
func documents(tb testing.TB, text string) []any {
	tb.Helper()
	var all []any
	d := json.NewDecoder(strings.NewReader(text))
	for {
		var v any
		err := d.Decode(&v)
		if errors.Is(err, io.EOF) {
			return all
		}
		require.NoError(tb, err, text)
		all = append(all, v)
	}
}

func TestEveryCommandPrintsJSONWhenAsked(t *testing.T) {
	t.Parallel()
	p := withStore(t)
	p.fill(t, "x")
	out := t.TempDir()
	for line, code := range map[string]int{
		"run list": 0, "run inspect 1": 0, "run export 1": 0, "run logs 1": 0, "run artifacts 1": 0, "run artifacts 1 --folder " + out: 0, "run timing 1": 0, "run watch 1": exitFailed,
		"models": 0, "migrate": 0, "run list --status failed": 0, "doctor": exitError,
		// mistakes
		"nonsense": exitInput, "run list --nonsense": exitInput, "run inspect abc": exitInput, "run inspect 999": exitInput, "run create": exitInput, "dev status": exitInput, "dev stop": exitInput,
		"run pause 1": exitError, "run create --goal x --repo /nonexistent": exitError,
	} {
		for _, args := range [][]string{append([]string{"--json"}, strings.Fields(line)...), append(strings.Fields(line), "--json")} {
			r := p.run(t, args...)
			require.Equal(t, code, r.code, "rgpt %v\n%s\n%s", args, r.out, r.errs)
			docs := documents(t, r.out)
			require.NotEmpty(t, docs, line)
			if code == exitInput {
				require.Len(t, docs, 1)
				f := docs[0].(map[string]any)["error"].(map[string]any)
				require.NotEqual(t, "RUNTIME_ERROR", f["error_type"], "rgpt %v: it is a mistake of who typed it", args)
				require.NotEmpty(t, f["error_message"])
				require.NotEqual(t, "unknown", f["code"])
			}
		}
	}
}

// escapes are texts that affect a terminal, or deceive a reader.
var escapes = []string{
	"\x1b[31mred", "\x1b]0;title\x07", "\x1b]8;;https://evil.example\x1b\\x", "\x1b]52;c;ZXZpbA==\x07", "\x1bP1$r\x1b\\", "\x9b31m", "a\rb", "a\x08b", "\x07", "\x00", "a\x7fb", "\x1b[2J\x1b[H", "\u009b31m",
	"\u202egnp.exe", "\u2066x\u2069", "a\u200bb", "\ufeffx", "\U000E0041x", "a\u2028b", "a\nb", "a\x0bb\x0cc", "\x1b[6n", "\xff\xfe",
}

// hostile matches what must not reach a terminal, except for line ends.
var hostile = regexp.MustCompile(`[\x00-\x09\x0b-\x1f\x7f\x{80}-\x{9f}\x{200b}\x{202a}-\x{202e}\x{2028}\x{2066}-\x{2069}\x{feff}\x{e0041}]`)

func TestNoTextOfOthersActsOnATerminal(t *testing.T) {
	t.Parallel()
	p := withStore(t)
	for _, text := range escapes {
		id := fmt.Sprint(p.fill(t, text))
		for _, args := range [][]string{
			{"run", "list"}, {"run", "inspect", id}, {"run", "export", id}, {"run", "logs", id}, {"run", "artifacts", id}, {"run", "watch", id}, {"run", "artifacts", id, "--folder", t.TempDir()},
			{"run", "artifacts", id, "--get", text}, {"__complete", "run", "inspect", ""}, {"run", "inspect", text}, {text}, {"run", "list", "--" + text}, {"run", "list", "--status", text},
		} {
			r := p.run(t, args...)
			require.NotRegexp(t, hostile, strings.ReplaceAll(r.out, "\t", ""), "rgpt %q of %q", args, text)
			require.NotRegexp(t, hostile, r.errs, "rgpt %q of %q", args, text)
		}
	}
}

func TestCleanKeepsWhatIsHarmless(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"plain": "plain", "a\nb\tc": "a b c", "grüße 世界": "grüße 世界", "👩\u200d👩\u200d👧": "👩\u200d👩\u200d👧", "\x1b[1mx": "[1mx", "\x9bx": "\uFFFDx", "a\u2028b": "a b", "": "",
		strings.Repeat("x", 500): strings.Repeat("x", 400) + "…",
	} {
		require.Equal(t, want, terminal.Clean(in))
	}
	long := strings.Repeat("ä", 1000)
	require.Equal(t, long+"\n"+long, terminal.CleanLines(long+"\n"+long), "lines of a message stay whole")
}

func TestExitCodesDistinguishInputErrorsFromFailures(t *testing.T) {
	t.Parallel()
	for class, want := range map[contract.Class]int{
		contract.ClassHuman: exitInput, contract.ClassConfig: exitInput, contract.ClassLogic: exitInput,
		contract.ClassInfra: exitError, contract.ClassLLM: exitError, contract.ClassRuntime: exitError, contract.ClassAssertion: exitError, contract.ClassSafety: exitError,
	} {
		code, silent := codeOf(fmt.Errorf("wrapped: %w", fault.New(class, contract.CodeUnknown, "x")))
		require.Equal(t, want, code, class)
		require.False(t, silent)
	}
	for _, class := range contract.Classes() {
		code, _ := codeOf(usageError{fault.New(class, contract.CodeUnknown, "x")})
		require.Equal(t, exitInput, code, "a mistake in the command line is one whatever it causes")
	}
	code, silent := codeOf(ended{exitStopped})
	require.Equal(t, exitStopped, code)
	require.True(t, silent)
	code, _ = codeOf(errors.New("strange"))
	require.Equal(t, exitError, code)
	for _, c := range []struct {
		status contract.Status
		code   contract.Code
		want   int
	}{
		{contract.StatusDone, "", exitDone},
		{contract.StatusFailed, contract.CodeTestsFailed, exitFailed},
		{contract.StatusFailed, contract.CodeRunTimeout, exitStopped},
		{contract.StatusFailed, contract.CodeTimeout, exitFailed},
		{contract.StatusCancelled, "", exitStopped},
		{contract.StatusCancelled, contract.CodeTimeout, exitStopped},
	} {
		require.Equal(t, c.want, exitOf(c.status, c.code), "%s %s", c.status, c.code)
	}
}

func TestARunIsNamedInTheWaysInWhichPeopleMeetIt(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]int64{"42": 42, "#42": 42, "run-42": 42, "9223372036854775807": 1<<63 - 1} {
		id, err := runID(text)
		require.NoError(t, err)
		require.Equal(t, want, id)
	}
	for _, text := range []string{"", "#", "run-", "0", "-1", "4.2", "forty", "0x2a", "42 ", " 42", "run-42/step/step-001", "9223372036854775808"} {
		_, err := runID(text)
		require.ErrorAs(t, err, &usageError{}, "%q", text)
	}
}

func TestAGoalIsReadFromOnePlace(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "goal.md")
	require.NoError(t, os.WriteFile(file, []byte("From a file\n"), 0o600))
	large := filepath.Join(dir, "large")
	require.NoError(t, os.WriteFile(large, nil, 0o600))
	require.NoError(t, os.Truncate(large, maxInput+1))
	latin := filepath.Join(dir, "latin")
	require.NoError(t, os.WriteFile(latin, []byte("Gr\xfc\xdfe"), 0o600))
	for name, c := range map[string]struct{ goal, file, want, wrong string }{
		"given":              {goal: "Add dark mode", want: "Add dark mode"},
		"a file":             {file: file, want: "From a file\n"},
		"standard input":     {file: "-", want: "goal from standard input"},
		"two sources":        {goal: "x", file: file, wrong: "cannot be combined"},
		"no such file":       {file: filepath.Join(dir, "nothing"), wrong: "cannot read"},
		"a folder":           {file: dir, wrong: "cannot read"},
		"a file without end": {file: "/dev/zero", wrong: "larger than 16 MiB"},
		"a file too large":   {file: large, wrong: "larger than 16 MiB"},
		"a file of bytes":    {file: latin, wrong: "not valid UTF-8"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			in := creation{Creation: control.Creation{Repo: ".", Goal: c.goal}, goalFile: c.file}
			err := newApp(strings.NewReader("goal from standard input"), io.Discard, io.Discard).readInputs(&in)
			if c.wrong != "" {
				require.ErrorContains(t, err, c.wrong)
				require.ErrorAs(t, err, &usageError{})
				return
			}
			require.NoError(t, err)
			require.Equal(t, c.want, in.Goal)
		})
	}
}

func TestArtifactsNeverLeaveTheirFolder(t *testing.T) {
	t.Parallel()
	p := withStore(t)
	id := p.fill(t, "good")
	base := t.TempDir()
	folder := filepath.Join(base, "out")
	require.NoError(t, os.MkdirAll(filepath.Join(folder, "real"), 0o755))
	require.NoError(t, os.Symlink(base, filepath.Join(folder, "link")))
	require.NoError(t, os.Symlink(filepath.Join(base, "target"), filepath.Join(folder, "file")))
	bad := []string{
		"../evil", "a/../../evil", "/" + strings.TrimPrefix(base, "/") + "/evil", "link/evil", "file", "", ".", "..", "a/..", ".git/config", "sub/.GIT/hooks/post-checkout", "real", "tester", "x/../../../evil", strings.Repeat("n", 300), "nul\x00",
	}
	for _, name := range bad {
		p.artifact(t, id, name, "evil")
	}
	p.artifact(t, id, "last.txt", "last")
	r := p.run(t, "run", "artifacts", fmt.Sprint(id), "--folder", folder)
	require.Equal(t, exitError, r.code, "it says that something is missing")
	require.Contains(t, r.errs, "leads outside the directory")
	require.Contains(t, r.errs, "git directory")
	content, err := os.ReadFile(filepath.Join(folder, "last.txt"))
	require.NoError(t, err)
	require.Equal(t, "last", string(content), "one bad name keeps none of the others back")
	entries, err := os.ReadDir(base)
	require.NoError(t, err)
	require.Len(t, entries, 1, "nothing but the folder")
	require.NoDirExists(t, filepath.Join(folder, ".git"))

	var listed struct {
		Files []written `json:"files"`
	}
	r = p.run(t, "run", "artifacts", fmt.Sprint(id), "--folder", folder, "--json")
	require.NoError(t, json.Unmarshal([]byte(r.out), &listed))
	for _, f := range listed.Files {
		require.Equal(t, f.File == "", f.Error != "", f.Name)
	}
	require.Equal(t, "last", p.ok(t, "run", "artifacts", fmt.Sprint(id), "--get", "last.txt").out)
}

// commands returns all commands that users see.
func commands(root *cobra.Command) []*cobra.Command {
	all := []*cobra.Command{root}
	for _, c := range root.Commands() {
		if !c.Hidden && c.Name() != "help" {
			all = append(all, commands(c)...)
		}
	}
	return all
}

var mentioned = regexp.MustCompile(`--([a-z][a-z-]*)`)

func TestHelpIsCompleteAndNamesOnlyFlagsThatExist(t *testing.T) {
	t.Parallel()
	p := empty(t)
	root := newRoot(newApp(nil, io.Discard, io.Discard))
	known := map[string]bool{"help": true, "version": true}
	for _, c := range commands(root) {
		require.NotEmpty(t, c.Short, c.CommandPath())
		require.False(t, strings.HasSuffix(c.Short, "."), "%s: Short is no sentence", c.CommandPath())
		words := strings.Fields(c.CommandPath())[1:]
		help := p.ok(t, append(words, "--help")...).out
		require.Contains(t, help, "Usage:", c.CommandPath())
		if words := c.CommandPath(); strings.HasPrefix(words, "rgpt completion") {
			continue // cobra's own
		}
		for _, m := range mentioned.FindAllStringSubmatch(c.Long+"\n"+c.Example+"\n"+c.Use, -1) {
			require.True(t, known[m[1]] || exists(root, m[1]), "%s mentions --%s, which no command has", c.CommandPath(), m[1])
		}
		for _, line := range strings.Split(c.Example, "\n") {
			requireParses(t, root, line)
		}
	}
	for _, path := range []string{"run create", "run list", "run inspect", "run logs", "run watch", "run export", "run artifacts", "dev", "doctor", "run switch-model", "run approve"} {
		c, _, err := root.Find(strings.Fields(path))
		require.NoError(t, err)
		require.NotEmpty(t, c.Example, path)
	}
	require.Equal(t, "rgpt "+version.Release+" (dev)\n", p.ok(t, "--version").out)
}

func exists(root *cobra.Command, flag string) bool {
	for _, c := range commands(root) {
		if c.Flags().Lookup(flag) != nil || c.PersistentFlags().Lookup(flag) != nil {
			return true
		}
	}
	return false
}

// requireParses checks that an example names an existing command and flags that it has.
func requireParses(tb testing.TB, root *cobra.Command, line string) {
	tb.Helper()
	words := strings.Fields(line)
	if len(words) == 0 {
		return
	}
	require.Equal(tb, "rgpt", words[0], line)
	c, _, err := root.Find(words[1:])
	require.NoError(tb, err, line)
	require.True(tb, c.Runnable(), line)
	for _, m := range mentioned.FindAllStringSubmatch(line, -1) {
		require.True(tb, c.Flags().Lookup(m[1]) != nil || c.InheritedFlags().Lookup(m[1]) != nil, "%s: no flag --%s", line, m[1])
	}
}

func TestAShellCompletesTheNewestRuns(t *testing.T) {
	t.Parallel()
	p := withStore(t)
	for range 25 {
		_, _, err := p.CreateRun(t.Context(), store.NewRun{Project: "p", GoalTitle: "goal\twith\x1b[31m\nlines"})
		require.NoError(t, err)
	}
	lines := strings.Split(strings.TrimSpace(p.ok(t, "__complete", "run", "inspect", "").out), "\n")
	require.Len(t, lines, 21, "20 runs and what the shell is to do")
	require.Equal(t, "25\tpending: goal with[31m lines", lines[0])
	for range 21 {
		p.spawn(t, "objective\twith\x1b[31m\nlines")
	}
	lines = strings.Split(strings.TrimSpace(p.ok(t, "__complete", "pipeline", "watch", "").out), "\n")
	require.Len(t, lines, 21, "20 pipelines and what the shell is to do")
	require.Equal(t, "21\tSPAWNED: objective with[31m lines", lines[0])
	for _, command := range []string{"continue", "status", "logs", "stop", "revoke"} {
		require.Contains(t, p.ok(t, "__complete", "pipeline", command, "").out, lines[0], command)
	}
	require.Equal(t, "ALPHA\nBETA\nGAMMA\n:4\n", p.ok(t, "__complete", "pipeline", "revoke", "21", "").out)
	for _, enough := range [][]string{{"stop", "21", ""}, {"revoke", "21", "BETA", ""}, {"list", ""}} {
		require.NotContains(t, p.ok(t, append([]string{"__complete", "pipeline"}, enough...)...).out, "SPAWNED", enough)
	}
	require.Contains(t, p.ok(t, "__complete", "run", "list", "--status", "wai").out, "waiting_for_approval")
	require.Equal(t, ":4\n", p.ok(t, "__complete", "run", "inspect", "1", "").out, "one run is enough")
	require.Equal(t, ":4\n", empty(t).ok(t, "__complete", "run", "inspect", "").out, "without a stack there is nothing to offer, and no complaint")
	for _, shell := range []string{"bash", "zsh", "fish", "powershell"} {
		require.Contains(t, p.ok(t, "completion", shell).out, "rgpt", shell)
	}
}

func TestTheDoctorNamesProblemsAndTheirRemedies(t *testing.T) {
	t.Parallel()
	p := withStore(t)
	type diagnosis struct {
		OK     bool `json:"ok"`
		Checks []struct{ Check, Status, Message, Mend string }
	}
	diagnose := func(p *testEnv, args ...string) (diagnosis, map[string]string, int) {
		var d diagnosis
		r := p.run(t, append([]string{"doctor", "--json"}, args...)...)
		require.NoError(t, json.Unmarshal([]byte(r.out), &d), r.out+r.errs)
		states := map[string]string{}
		for _, c := range d.Checks {
			states[c.Check] = c.Status
			require.NotEmpty(t, c.Message, c.Check)
			if c.Status != "ok" {
				require.NotEmpty(t, c.Mend, "%s: %s", c.Check, c.Message)
			}
		}
		return d, states, r.code
	}
	d, states, code := diagnose(p)
	require.Equal(t, exitError, code)
	require.False(t, d.OK)
	for check, want := range map[string]string{"git": "ok", "data folder": "ok", "configuration": "ok", "database": "ok", "clock": "ok", "temporal": "fail", "workers": "warn", "models": "fail", "stack": "warn"} {
		require.Equal(t, want, states[check], check)
	}
	table := p.run(t, "doctor")
	require.Contains(t, table.out, "→ ")
	require.Regexp(t, `\d+ ok, \d+ warnings, \d+ failed`, table.out)

	file := filepath.Join(t.TempDir(), "rgpt.yaml")
	require.NoError(t, os.WriteFile(file, []byte("execution:\n  max_retries: many\nnonsense: 1\n"), 0o600))
	d, _, code = diagnose(p, "--config", file)
	require.Equal(t, exitError, code)
	var mistakes []string
	for _, c := range d.Checks {
		if c.Check == "configuration" {
			mistakes = append(mistakes, c.Message)
		}
	}
	require.Len(t, mistakes, 2, "each has a line of its own")
	require.Contains(t, mistakes[0], "rgpt.yaml:2")

	fresh := empty(t)
	fresh.env = []string{"PATH=" + os.Getenv("PATH")}
	_, states, _ = diagnose(fresh)
	require.Equal(t, "warn", states["temporal"], "nothing was started yet: no failure")
	require.NotContains(t, states, "database")

	bare := empty(t)
	bare.env = append(bare.env, "DATABASE_URL="+storetest.EmptyURL(t))
	d, states, _ = diagnose(bare)
	require.Equal(t, "fail", states["database"])
	for _, c := range d.Checks {
		if c.Check == "database" {
			require.Equal(t, "rgpt migrate", c.Mend)
		}
	}
	secret := empty(t)
	secret.env = append(secret.env, "DATABASE_URL=postgres://u:hunter2secret@127.0.0.1:1/x")
	r := secret.run(t, "doctor")
	require.NotContains(t, r.out+r.errs, "hunter2secret")
}

func TestOneThingIsNotCountedAsSeveral(t *testing.T) {
	t.Parallel()
	require.Equal(t, "1 step  2 turns", describe(contract.Event{Payload: json.RawMessage(`{"steps": 1, "turns": 2}`)}))
	require.Equal(t, "0 steps  1 turn", describe(contract.Event{Payload: json.RawMessage(`{"steps": 0, "turns": 1}`)}))
}

func TestARunPlannedByADeliberationShowsItsMessages(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		kind          contract.EventType
		payload, want string
	}{
		{contract.EventAgentMessage, `{"pipeline_id": 7, "id": "BETA-1-1", "from": "BETA", "to": "ALPHA", "text": "why\nthat?"}`, "BETA → ALPHA: why that?"},
		{contract.EventBlackboardWritten, `{"pipeline_id": 7, "section": "solutions", "key": "p1", "version": 2, "author": "ALPHA", "text": "a\u001b"}`, "ALPHA solutions/p1, version 2: a"},
		{contract.EventVoteCast, `{"pipeline_id": 7, "voter": "BETA", "key": "s1", "version": 1, "accept": true, "text": "yes"}`, "BETA accepts s1, version 1: yes"},
		{contract.EventVoteCast, `{"pipeline_id": 7, "voter": "BETA", "key": "s1", "version": 1, "accept": false}`, "BETA rejects s1, version 1"},
		{contract.EventPipelineUpdated, `{"pipeline_id": 7, "status": "REPORT", "waiting_for": "continue"}`, "REPORT waits for continue"},
		{contract.EventAgentEnded, `{"pipeline_id": 7, "member": "ALPHA", "status": "done"}`, "ALPHA done"},
	} {
		e := contract.Event{Type: c.kind, Payload: json.RawMessage(c.payload)}
		require.Equal(t, c.want, describe(e))
		require.False(t, isFinal(e), "an agent's end is not the run's")
	}
	planned := contract.Event{Type: contract.PhasePlanner.CompletedEvent(), Payload: json.RawMessage(`{"pipeline_id": 7, "steps": 2}`)}
	require.Equal(t, "2 steps", describe(planned), "what the run itself tells is told as ever")
}

func TestAnUnusableDatabaseIsReportedBeforeAnythingIsStarted(t *testing.T) {
	t.Parallel()
	for url, want := range map[string]int{
		"not a url": exitInput, "mysql://u:hunter2@127.0.0.1/d": exitInput, "postgres://u:hunter2@127.0.0.1:99999/d": exitInput,
		"postgres://u:hunter2@127.0.0.1:1/d": exitError,
	} {
		p := empty(t)
		p.env = append(p.env, "DATABASE_URL="+url)
		r := p.run(t, "run", "list")
		require.Equal(t, want, r.code, "%s: %s", url, r.errs)
		require.NotContains(t, r.errs, "hunter2")
		require.Contains(t, r.errs, "DATABASE_URL")
		require.Equal(t, want, code(answers(t.Context(), url)), url)
	}
	require.NoError(t, answers(t.Context(), ""))
}

// code is the exit code of an error.
func code(err error) int {
	c, _ := codeOf(err)
	return c
}

func TestTheServerIsAskedForByWhereItListensAndWhatIsAllowed(t *testing.T) {
	t.Parallel()
	for address, want := range map[string][]string{
		"127.0.0.1:8080": {"a", "127.0.0.1"}, "rgpt.example.com:80": {"a", "rgpt.example.com"}, "0.0.0.0:80": {"a"}, "[::]:80": {"a"}, ":80": {"a"}, "[2001:db8::1]:1": {"a", "2001:db8::1"},
	} {
		require.Equal(t, want, allowedHosts(config.Server{Address: address, AllowedHosts: []string{"a"}}), address)
	}
}

func TestAStayFlagOfZeroOverridesTheConfiguration(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		creation
		want map[string]string
	}{
		{creation{}, map[string]string{}},
		{creation{watch: true}, map[string]string{"git.stay": "0s"}},
		{creation{watch: true, watchTime: time.Hour}, map[string]string{"git.stay": "1h0m0s"}},
	} {
		a := &app{set: map[string]string{}}
		require.NoError(t, a.takeSettings(c.creation))
		require.Equal(t, c.want, a.set)
	}
}

func TestCostsWithoutAKnownPriceArePrintedAsEstimated(t *testing.T) {
	t.Parallel()
	p := withStore(t)
	limited := contract.RunBudget{MicroUSD: 1_000_000}
	run, _, err := p.CreateRun(t.Context(), store.NewRun{Project: "x", GoalTitle: "x", Settings: contract.Settings{RunBudget: limited}})
	require.NoError(t, err)
	p.fill(t, "other")
	begun, err := p.Record(t.Context(), store.Source{WorkflowID: contract.RunWorkflowID(run.ID), WorkflowRunID: "r"}, contract.Record{
		RunID: run.ID, Seq: 1, Begin: &contract.ExecutionBegin{Phase: contract.PhasePlanner, Agent: contract.AgentPlanner},
	})
	require.NoError(t, err)
	held, err := p.ReserveCall(t.Context(), store.Reservation{
		Execution: begun.Execution, Turn: 1, Provider: "house", Model: "new", Scopes: []store.Scope{store.RunScope(run.ID, limited)},
		Route: &contract.RouteDecision{Strategy: contract.RouteBest, Reasons: []string{"why"}, ExpectedMicroUSD: 300_000, Assumed: true},
	})
	require.NoError(t, err)
	require.NoError(t, p.CompleteCall(t.Context(), held.ID, contract.Usage{Calls: 1, PromptTokens: 10, MicroUSD: 420_000, EstimatedPrice: true}, time.Second, []byte(`{}`), nil))
	id := fmt.Sprint(run.ID)
	inspected := p.ok(t, "run", "inspect", id, "--verbose").out
	for _, said := range []string{
		"10 tokens, $0.4200 (estimated);", "$0.4200 (estimated) of $1.0000", "cost $0.4200 (estimated), expected $0.3000 (estimated)",
	} {
		require.Contains(t, inspected, said)
	}
	compared := strings.Join(strings.Fields(p.ok(t, "run", "diff", "2", id).out), " ")
	require.Contains(t, compared, "US dollars 0.0000 0.4200 (estimated) +0.4200 (estimated)")
	require.Contains(t, compared, "model calls cost $0.4200 (estimated), up from $0.0000")
	require.Contains(t, p.ok(t, "run", "export", id).out, "0.4200 (estimated)")
}
