package rerun

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
	commonpb "go.temporal.io/api/common/v1"
	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/sdk/converter"
	"go.uber.org/goleak"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/internal/storetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(storetest.Main(m)) }

func TestThePhaseThatBeganIsReadWithTheConverterOfTheClient(t *testing.T) {
	t.Parallel()
	own := converter.NewCodecDataConverter(converter.GetDefaultDataConverter(), converter.NewZlibCodec(converter.ZlibCodecOptions{AlwaysEncode: true}))
	result, err := own.ToPayloads(contract.RecordResult{Execution: contract.ExecutionRef{ID: 7, RunID: 1, Phase: contract.PhaseTester}})
	require.NoError(t, err)
	event := &historypb.HistoryEvent{Attributes: &historypb.HistoryEvent_MarkerRecordedEventAttributes{
		MarkerRecordedEventAttributes: &historypb.MarkerRecordedEventAttributes{Details: map[string]*commonpb.Payloads{"result": result}},
	}}
	require.Equal(t, contract.PhaseTester, began(event, own))
	require.Empty(t, began(event, converter.GetDefaultDataConverter()), "another converter reads nothing of it")
}

// rowWriter writes the rows of a run like its workflows do.
type rowWriter struct {
	*store.Store
	t   *testing.T
	run store.Run
	seq int64
}

func newRowWriter(t *testing.T, steps ...contract.Step) *rowWriter {
	t.Helper()
	b := &rowWriter{Store: storetest.New(t), t: t}
	run, _, err := b.CreateRun(t.Context(), store.NewRun{
		Project: "p", GoalTitle: "g", Settings: contract.Settings{Repo: contract.Repo{URL: "/r", Base: "b", Tree: "t0"}},
		GivenPlan: &contract.Plan{Summary: "s", Steps: steps},
	})
	require.NoError(t, err)
	b.run, err = b.Run(t.Context(), run.ID)
	require.NoError(t, err)
	return b
}

func (b *rowWriter) record(r contract.Record) contract.ExecutionRef {
	b.t.Helper()
	b.seq++
	r.RunID, r.Seq = b.run.ID, b.seq
	out, err := b.Record(b.t.Context(), store.Source{WorkflowID: contract.RunWorkflowID(b.run.ID), WorkflowRunID: "first"}, r)
	require.NoError(b.t, err)
	return out.Execution
}

// attempt is an execution of the builder, or of the planner, that ended with a tree or,
// without one, failed.
func (b *rowWriter) attempt(p contract.Phase, step, from, to string) contract.ExecutionRef {
	b.t.Helper()
	e := b.record(contract.Record{Begin: &contract.ExecutionBegin{Phase: p, Step: step, Agent: contract.AgentOf(p)}})
	end := &contract.ExecutionEnd{ExecutionID: e.ID, Status: contract.ExecutionCompleted, Output: json.RawMessage(`{}`)}
	switch {
	case to == "":
		end.Status, end.Output = contract.ExecutionFailed, nil
		end.Failure = &contract.Failure{Class: contract.ClassRuntime, Code: contract.CodeCommandCrashed, Message: "it crashed"}
	case step != "":
		var err error
		end.Output, err = json.Marshal(output(step, from, to))
		require.NoError(b.t, err)
	}
	b.record(contract.Record{End: end})
	return e
}

func output(step, from, to string) contract.StepOutput {
	return contract.StepOutput{
		Change: contract.Change{Step: step, From: contract.Workspace{Tree: from}, To: contract.Workspace{Tree: to}}, Credit: contract.Credit{Step: step, Model: "m"},
	}
}

// heal is a repair of what failed; without a tree it failed.
func (b *rowWriter) heal(number int, failed contract.ExecutionRef, step, from, to string) {
	b.t.Helper()
	note := contract.HealNote{Number: number, Status: contract.HealStarted, Phase: contract.PhaseBuilder, Step: step, ExecutionID: failed.ID, ErrorType: contract.ClassRuntime, Action: contract.HealRepair}
	b.record(contract.Record{Heals: []contract.HealNote{note}})
	note = contract.HealNote{Number: number, Status: contract.HealFailed, Output: contract.HealOutput{Result: "it changed nothing"}}
	if to != "" {
		change := output(step, from, to)
		note.Status, note.Output = contract.HealApplied, contract.HealOutput{Change: &change}
	}
	b.record(contract.Record{Heals: []contract.HealNote{note}})
}

// kept returns the resulting trees of the steps that are not repeated.
func (b *rowWriter) kept(o Request) map[string]string {
	b.t.Helper()
	o.RunID, o.Phase = b.run.ID, contract.PhaseBuilder
	all, err := keep(b.t.Context(), b.Store, b.run, o)
	require.NoError(b.t, err)
	trees := map[string]string{}
	for _, c := range all {
		trees[c.Step] = c.To.Tree
	}
	return trees
}

func TestAStepThatWasRepairedIsKept(t *testing.T) {
	t.Parallel()
	a, c := contract.Step{ID: "a", Name: "a"}, contract.Step{ID: "c", Name: "c"}
	t.Run("it had failed", func(t *testing.T) {
		t.Parallel()
		b := newRowWriter(t, a, c)
		failed := b.attempt(contract.PhaseBuilder, "a", "t0", "")
		b.heal(1, failed, "a", "t0", "mended")
		b.attempt(contract.PhaseBuilder, "repair", "t0", "mended")
		b.attempt(contract.PhaseBuilder, "c", "t0", "")
		require.Equal(t, map[string]string{"a": "mended"}, b.kept(Request{OnlyMissing: true}))
		require.Equal(t, map[string]string{"a": "mended"}, b.kept(Request{Step: "c"}))
		require.Empty(t, b.kept(Request{Step: "a"}), "it is done again when that is asked for")
	})
	t.Run("it had conflicted", func(t *testing.T) {
		t.Parallel()
		b := newRowWriter(t, a, c)
		b.attempt(contract.PhaseBuilder, "a", "t0", "done")
		done := b.attempt(contract.PhaseBuilder, "c", "t0", "conflicting")
		b.heal(1, done, "c", "done", "together")
		require.Equal(t, map[string]string{"a": "done", "c": "together"}, b.kept(Request{OnlyMissing: true}))
	})
	t.Run("the repair came to nothing", func(t *testing.T) {
		t.Parallel()
		b := newRowWriter(t, a)
		b.heal(1, b.attempt(contract.PhaseBuilder, "a", "t0", ""), "a", "", "")
		require.Empty(t, b.kept(Request{OnlyMissing: true}))
	})
	t.Run("a later attempt counts", func(t *testing.T) {
		t.Parallel()
		b := newRowWriter(t, a)
		b.heal(1, b.attempt(contract.PhaseBuilder, "a", "t0", ""), "a", "t0", "mended")
		b.attempt(contract.PhaseBuilder, "a", "t0", "")
		require.Empty(t, b.kept(Request{OnlyMissing: true}), "it was done again and failed")
	})
	t.Run("of another plan", func(t *testing.T) {
		t.Parallel()
		b := newRowWriter(t, a)
		b.heal(1, b.attempt(contract.PhaseBuilder, "a", "t0", ""), "a", "t0", "mended")
		b.attempt(contract.PhasePlanner, "", "", "planned")
		require.Empty(t, b.kept(Request{OnlyMissing: true}))
	})
}

func TestAStepThatAForkTookOverIsKeptUntilItIsDoneAgain(t *testing.T) {
	t.Parallel()
	b := newRowWriter(t, contract.Step{ID: "a", Name: "a"}, contract.Step{ID: "c", Name: "c"})
	b.run.Settings.Fork = &contract.Fork{RunID: 1, Step: "c", Kept: []contract.StepOutput{output("a", "t0", "taken")}}
	b.attempt(contract.PhasePlanner, "", "", "planned")
	b.attempt(contract.PhaseBuilder, "c", "taken", "done")
	require.Equal(t, map[string]string{"a": "taken", "c": "done"}, b.kept(Request{OnlyMissing: true}))
	b.attempt(contract.PhaseBuilder, "a", "t0", "")
	require.Equal(t, map[string]string{"c": "done"}, b.kept(Request{OnlyMissing: true}), "a was done again and failed")
}

func TestAForkContinuesTheLastConversationNotOneStoppedAtItsStart(t *testing.T) {
	t.Parallel()
	b := newRowWriter(t, contract.Step{ID: "a", Name: "a"})
	order := func(turn int) ForkRequest { return ForkRequest{RunID: b.run.ID, Step: "a", Turn: turn} }
	b.attempt(contract.PhaseBuilder, "a", "", "")
	of, err := conversationFork(t.Context(), b.Store, order(0))
	require.NoError(t, err)
	require.Nil(t, of, "it begins anew")
	_, err = conversationFork(t.Context(), b.Store, order(1))
	require.ErrorContains(t, err, "has no conversation, so it has no turn")
	spoke := b.attempt(contract.PhaseBuilder, "a", "t0", "t1")
	require.NoError(t, b.OpenConversation(t.Context(), spoke.ID, []store.Message{{Role: "system", Content: json.RawMessage(`"work"`)}}))
	b.attempt(contract.PhaseBuilder, "a", "", "")
	of, err = conversationFork(t.Context(), b.Store, order(0))
	require.NoError(t, err)
	require.Equal(t, spoke.ID, of.ExecutionID)
}

func TestAForkDoesNotBeginWithTheEditsOfItsRun(t *testing.T) {
	t.Parallel()
	b := newRowWriter(t)
	old := contract.Plan{Summary: "s", Steps: []contract.Step{{ID: "a", Name: "a"}}, Edits: []contract.Edit{{Path: "x", NewText: "1"}}}
	run, _, err := b.CreateRun(t.Context(), store.NewRun{Project: "p", GoalTitle: "g", GivenPlan: &old})
	require.NoError(t, err)
	b.run = run
	plan, err := forkedPlan(t.Context(), b.Store, ForkRequest{RunID: b.run.ID})
	require.NoError(t, err)
	require.Equal(t, "s", plan.Summary)
	require.Empty(t, plan.Edits)
	changed := old
	changed.Steps = []contract.Step{{ID: "a", Name: "b"}}
	plan, err = forkedPlan(t.Context(), b.Store, ForkRequest{RunID: b.run.ID, Plan: &changed})
	require.NoError(t, err)
	require.Empty(t, plan.Edits, "they belong to another step")
	changed.Edits = []contract.Edit{{Path: "x", NewText: "2"}}
	plan, err = forkedPlan(t.Context(), b.Store, ForkRequest{RunID: b.run.ID, Plan: &changed})
	require.NoError(t, err)
	require.Equal(t, changed.Edits, plan.Edits)
}

func TestForksAndReplaysKeepTheAuthorsOfARun(t *testing.T) {
	t.Parallel()
	b := newRowWriter(t, contract.Step{ID: "step-001"})
	b.attempt(contract.PhasePlanner, "", "", "")
	b.record(contract.Record{Events: []contract.EventDraft{{Type: contract.EventMessageAdded, Payload: map[string]any{"by": "bob", "text": "use tabs"}}}})
	fork, err := Fork(t.Context(), b.Store, ForkRequest{RunID: b.run.ID, Turn: -1, By: "cara"})
	require.NoError(t, err)
	require.Equal(t, []string{"bob"}, fork.Settings.Authors)
	require.Equal(t, []string{"bob", "cara"}, fork.Settings.AuthorsBefore())
	spec, err := specOf(t.Context(), b.Store, b.run, Request{RunID: b.run.ID, Phase: contract.PhaseBuilder, By: "dan"})
	require.NoError(t, err)
	require.Equal(t, []string{"bob"}, spec.Authors, "who only repeats a run is not an author")
}
