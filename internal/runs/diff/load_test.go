package diff_test

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/artifact"
	"github.com/rocketgpt/orchestrator/internal/fault"
	"github.com/rocketgpt/orchestrator/internal/runs/diff"
	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/internal/store/views"
	"github.com/rocketgpt/orchestrator/internal/storetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(storetest.Main(m)) }

// fixture is a store with artifacts and a repository.
type fixture struct {
	*store.Store
	blobs *artifact.Store
	repo  repo
	base  string // tree
}

func newFixture(tb testing.TB) fixture {
	tb.Helper()
	blobs, err := artifact.Open(tb.Context(), "", filepath.Join(tb.TempDir(), "artifacts"))
	require.NoError(tb, err)
	tb.Cleanup(func() { require.NoError(tb, blobs.Close()) })
	h := fixture{Store: storetest.New(tb), blobs: blobs, repo: newRepo(tb)}
	h.base = h.repo.tree(tb, files{"calc.go": "package calc\n"})
	return h
}

// runRecorder is a run built from its records.
type runRecorder struct {
	fixture
	tb  testing.TB
	id  int64
	seq int64
	now time.Time
}

func (h fixture) run(tb testing.TB) *runRecorder {
	tb.Helper()
	run, _, err := h.CreateRun(tb.Context(), store.NewRun{
		Project: "calculator", GoalTitle: "divide", MaxRetries: 3,
		Settings: contract.Settings{Repo: contract.Repo{URL: "/repos/calculator", Base: "c0ffee", Tree: h.base, Branch: "main"}},
	})
	require.NoError(tb, err)
	return &runRecorder{fixture: h, tb: tb, id: run.ID, now: start}
}

func (s *runRecorder) record(r contract.Record) contract.ExecutionRef {
	s.tb.Helper()
	s.seq++
	s.now = s.now.Add(time.Second)
	r.RunID, r.Seq, r.At = s.id, s.seq, s.now
	done, err := s.Record(s.tb.Context(), store.Source{WorkflowID: contract.RunWorkflowID(s.id), WorkflowRunID: "first"}, r)
	require.NoError(s.tb, err)
	return done.Execution
}

// begin begins an execution and lets it make one model call with that many tokens.
func (s *runRecorder) begin(phase contract.Phase, step string, tokens int64) contract.ExecutionRef {
	s.tb.Helper()
	ref := s.record(contract.Record{Begin: &contract.ExecutionBegin{Phase: phase, Step: step, Agent: contract.AgentOf(phase)}})
	if tokens > 0 {
		call, err := s.ReserveCall(s.tb.Context(), store.Reservation{Execution: ref, Turn: 1, Provider: "scripted", Model: "m", Prompt: tokens})
		require.NoError(s.tb, err)
		usage := contract.Usage{PromptTokens: tokens, MicroUSD: tokens * 1000}
		require.NoError(s.tb, s.CompleteCall(s.tb.Context(), call.ID, usage, time.Millisecond, json.RawMessage(`{}`), nil))
	}
	return ref
}

func (s *runRecorder) end(ref contract.ExecutionRef, status contract.ExecutionStatus, output any) {
	s.tb.Helper()
	raw, err := json.Marshal(output)
	require.NoError(s.tb, err)
	s.record(contract.Record{End: &contract.ExecutionEnd{ExecutionID: ref.ID, Status: status, Output: raw}})
}

// built is the output of a builder that made files.
func (s *runRecorder) built(content files) map[string]any {
	s.tb.Helper()
	code := s.repo.code(s.tb, s.base, s.repo.tree(s.tb, content))
	digest, err := s.blobs.Put(s.tb.Context(), code.Patch)
	require.NoError(s.tb, err)
	return map[string]any{"steps": 1, "tree": code.Tree, "patch": digest}
}

// build is one attempt of the builder with a step.
func (s *runRecorder) build(content files, tokens int64) {
	s.tb.Helper()
	builder := s.begin(contract.PhaseBuilder, "", 0)
	step := s.begin(contract.PhaseBuilder, "step-001", tokens)
	s.end(step, contract.ExecutionCompleted, nil)
	s.end(builder, contract.ExecutionCompleted, s.built(content))
}

// test is one attempt of the tester, with a finding for each failing test.
func (s *runRecorder) test(cases ...contract.TestCase) {
	s.tb.Helper()
	tester := s.begin(contract.PhaseTester, "", 0)
	c, status := check("test-go-1", cases...), contract.ExecutionCompleted
	var found []contract.Finding
	for _, t := range cases {
		if t.Status == contract.TestFailed {
			status = contract.ExecutionFailed
			found = append(found, contract.Finding{Severity: contract.SeverityMajor, Category: contract.CategoryTest, Rule: t.Name, Message: t.Name + " failed"})
		}
	}
	require.NoError(s.tb, s.SaveCheck(s.tb.Context(), tester, "test-go-1", c.Result, cases, found, ""))
	s.end(tester, status, nil)
}

func (s *runRecorder) status(status contract.Status) {
	s.tb.Helper()
	s.record(contract.Record{Run: &contract.RunChange{Status: status, Finished: status.Terminal()}})
}

func (s *runRecorder) side(attempt int, phase contract.Phase) diff.Side {
	s.tb.Helper()
	side, err := diff.Load(s.tb.Context(), s.Store, views.New(s.Store), s.blobs, diff.Ref{Run: s.id, Attempt: attempt, Phase: phase})
	require.NoError(s.tb, err)
	return side
}

// healed is a run whose first tester failed and whose second passed.
func healed(tb testing.TB, h fixture) *runRecorder {
	tb.Helper()
	s := h.run(tb)
	planner := s.begin(contract.PhasePlanner, "", 10)
	plan, err := s.SavePlan(tb.Context(), s.id, planner.ID, "planner", contract.Plan{Summary: "p", Steps: []contract.Step{{ID: "step-001", Name: "divide"}}})
	require.NoError(tb, err)
	s.end(planner, contract.ExecutionCompleted, nil)
	s.record(contract.Record{Run: &contract.RunChange{Status: contract.PhasePlanner.Completed(), PlanID: plan}})
	s.build(files{"calc.go": "package calc\n// wrong\n"}, 100)
	s.test(test("TestAdd", passed), test("TestDivide", failed))
	s.build(files{"calc.go": "package calc\n// right\n"}, 7)
	s.test(test("TestAdd", passed), test("TestDivide", passed))
	s.status(contract.StatusDone)
	return s
}

func TestAnAttemptIsWhatHappenedSinceTheOneBefore(t *testing.T) {
	t.Parallel()
	s := healed(t, newFixture(t))
	first, second := s.side(1, ""), s.side(2, "")
	require.Equal(t, "failed", first.Status)
	require.Equal(t, "completed", second.Status)
	require.EqualValues(t, 110, first.Usage.Tokens())
	require.EqualValues(t, 7, second.Usage.Tokens())
	d := diff.Compare(first, second)
	require.Empty(t, d.Regressions)
	require.Equal(t, []diff.Kind{diff.KindStatusBetter, diff.KindCheckOK, diff.KindFixed, diff.KindCheaper}, kinds(d.Improvements))
	require.Equal(t, []string{"TestDivide"}, names(d.Tests.Fixed))
	require.Len(t, d.Findings.Fixed, 1)
	require.Contains(t, d.Code.Patch, "-// wrong\n+// right\n")
	require.EqualValues(t, 3000, d.Timing[1].RightMS, "the builder's second attempt alone")
	require.Zero(t, d.Timing[0].RightMS, "no planner since then")

	d = diff.Compare(s.side(1, contract.PhaseBuilder), s.side(2, contract.PhaseBuilder))
	require.EqualValues(t, -103, d.Tokens.Delta, "an attempt of the builder is with its steps and the planner before it")
	require.False(t, d.Tests.LeftRecorded)
	require.Contains(t, d.Code.Patch, "-// wrong\n+// right\n")

	whole := s.side(0, "")
	require.Equal(t, "done", whole.Status)
	require.EqualValues(t, 117, whole.Usage.Tokens())
	require.Empty(t, whole.Findings, "those that are resolved do not count")
	require.Equal(t, 2, whole.Tester.Attempt)
	require.Equal(t, second.Code, whole.Code)
	require.Len(t, whole.Plan.Steps, 1)
}

func TestWhatDoesNotExistIsNotFound(t *testing.T) {
	t.Parallel()
	s := healed(t, newFixture(t))
	for _, ref := range []diff.Ref{{Run: 4711}, {Run: s.id, Attempt: 3}, {Run: s.id, Attempt: 1, Phase: contract.PhaseReleaser}} {
		_, err := diff.Load(t.Context(), s.Store, views.New(s.Store), s.blobs, ref)
		require.ErrorIs(t, err, store.ErrNotFound)
		require.Equal(t, contract.ClassHuman, fault.Of(err).Class)
	}
	_, err := diff.Load(t.Context(), s.Store, views.New(s.Store), s.blobs, diff.Ref{Run: s.id, Attempt: 3})
	require.ErrorContains(t, err, "has no attempt 3 of the tester (attempts recorded: 2)")
}

func TestOfABuilderThatDidNotFinishTheLastSavedChangeCounts(t *testing.T) {
	t.Parallel()
	s := newFixture(t).run(t)
	require.Equal(t, "no code is recorded: the builder did not run", s.side(0, "").Code.Why)
	builder := s.begin(contract.PhaseBuilder, "", 0)
	step := s.begin(contract.PhaseBuilder, "step-001", 0)
	require.Contains(t, s.side(0, "").Code.Why, "no step saved a change")
	for turn, text := range []string{"// one\n", "// two\n"} {
		out := s.built(files{"calc.go": "package calc\n" + text})
		call := store.ToolCall{Tool: "edit_file", Outcome: contract.ToolOutcome{OK: true, Workspace: contract.Workspace{Tree: out["tree"].(string), Patch: out["patch"].(string)}}, StartedAt: s.now, FinishedAt: s.now.Add(time.Duration(turn) * time.Second)}
		_, err := s.SaveToolResult(t.Context(), step.ID, turn+1, 0, call, store.Message{Role: "tool", Content: json.RawMessage(`{}`)})
		require.NoError(t, err)
	}
	s.end(step, contract.ExecutionFailed, nil)
	s.end(builder, contract.ExecutionFailed, nil)
	s.status(contract.StatusFailed)
	side := s.side(0, "")
	require.Contains(t, string(side.Code.Patch), "+// two")
	require.Empty(t, side.Code.Why)
	require.Len(t, side.Notes, 1)
	require.Contains(t, side.Notes[0], "the code is the last result of step step-001; the builder did not finish")
}

func TestCodeThatCannotBeReadIsSaid(t *testing.T) {
	t.Parallel()
	h := newFixture(t)
	s := h.run(t)
	builder := s.begin(contract.PhaseBuilder, "", 0)
	s.end(builder, contract.ExecutionCompleted, map[string]any{"tree": "beef", "patch": "sha256:" + fmt.Sprintf("%064d", 0)})
	side := s.side(0, "")
	require.Equal(t, "beef", side.Code.Tree)
	require.Contains(t, side.Code.Why, "cannot read the recorded patch")

	same := h.run(t)
	same.end(same.begin(contract.PhaseBuilder, "", 0), contract.ExecutionCompleted, map[string]any{"tree": h.base, "patch": ""})
	side = same.side(0, "")
	require.Equal(t, diff.Code{Tree: h.base}, side.Code, "nothing changed, which is known")
}

func TestTestsOfOlderCodeAreNamed(t *testing.T) {
	t.Parallel()
	s := newFixture(t).run(t)
	s.build(files{"calc.go": "1\n"}, 0)
	s.test(test("a", failed))
	s.build(files{"calc.go": "2\n"}, 0)
	s.begin(contract.PhaseBuilder, "", 0)
	side := s.side(0, "")
	require.Equal(t, []string{
		fmt.Sprintf("%d: the code is from attempt 2 of the builder; attempt 3 did not finish", s.id),
		fmt.Sprintf("%d: the tests are from attempt 1 of the tester, which ran before attempt 2 of the builder changed the code", s.id),
	}, side.Notes)
}

func TestWhatAnAcceptedRepairWroteCounts(t *testing.T) {
	t.Parallel()
	s := newFixture(t).run(t)
	s.build(files{"calc.go": "wrong\n"}, 0)
	s.test(test("a", failed))
	s.repair(1, contract.HealSuccess, files{"calc.go": "right\n"})
	s.test(test("a", passed))
	s.repair(2, contract.HealFailed, files{"calc.go": "worse\n"})
	require.Equal(t, s.repo.tree(t, files{"calc.go": "right\n"}), s.side(0, "").Code.Tree)
	require.Contains(t, string(s.side(0, "").Code.Patch), "+right")
	require.Equal(t, s.repo.tree(t, files{"calc.go": "wrong\n"}), s.side(1, contract.PhaseTester).Code.Tree, "what the first tests were about")
}

// repair is a heal by the Repair agent, with the given judgement.
func (s *runRecorder) repair(number int, status contract.HealStatus, content files) {
	s.tb.Helper()
	ref := s.record(contract.Record{Begin: &contract.ExecutionBegin{Phase: contract.PhaseTester, Step: contract.StepRepair, Agent: contract.AgentRepair}})
	built := s.built(content)
	s.end(ref, contract.ExecutionCompleted, map[string]any{"step": contract.StepRepair, "to": built})
	note := contract.HealNote{Number: number, Status: contract.HealStarted, Phase: contract.PhaseTester, ErrorType: contract.ClassAssertion, Action: contract.HealRepair}
	s.record(contract.Record{Heals: []contract.HealNote{note}})
	note.Status, note.Output.After = status, map[string]any{"tree": built["tree"]}
	s.record(contract.Record{Heals: []contract.HealNote{note}})
}

func TestAChangeThatIsTooLargeIsComparedByItsTree(t *testing.T) {
	t.Parallel()
	s := newFixture(t).run(t)
	digest, err := s.blobs.Put(context.WithoutCancel(t.Context()), make([]byte, diff.MaxPatchRead+1))
	require.NoError(t, err)
	s.end(s.begin(contract.PhaseBuilder, "", 0), contract.ExecutionCompleted, map[string]any{"tree": "beef", "patch": digest})
	side := s.side(0, "")
	require.Contains(t, side.Code.Why, "exceeds the comparison limit of 32 MB")
	require.Empty(t, side.Code.Patch)
}
