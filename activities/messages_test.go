package activities_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/internal/store/messages"
)

// tell writes a message to the agents of the fixture's run, like a workflow with a record.
func (h *fixture) tell(text, step string) {
	h.t.Helper()
	h.seq++
	_, err := h.Store.Record(h.t.Context(), store.Source{WorkflowID: "w", WorkflowRunID: "r"}, contract.Record{
		RunID: h.run.ID, Seq: h.seq,
		Events: []contract.EventDraft{{Type: contract.EventMessageAdded, Payload: contract.RunMessage{Text: text, By: "ann", Step: step}}},
	})
	require.NoError(h.t, err)
}

// delivered returns before which turn of which execution each message was delivered.
func (h *fixture) delivered() map[string][][2]int64 {
	h.t.Helper()
	all, err := messages.Of(h.t.Context(), h.Store, h.run.ID)
	require.NoError(h.t, err)
	out := map[string][][2]int64{}
	for _, m := range all {
		require.Equal(h.t, "ann", m.By)
		out[m.Text] = nil
		for _, d := range m.Deliveries {
			require.Equal(h.t, contract.AgentBuilder, d.Agent)
			out[m.Text] = append(out[m.Text], [2]int64{d.ExecutionID, int64(d.Turn)})
		}
	}
	return out
}

const listens = `
  - when: {agent: builder, turn: 1, contains: "use tabs"}
    reply: {tool_calls: [{name: finish, arguments: {summary: with tabs}}]}
  - when: {agent: builder, turn: 2, contains: "and a test"}
    reply: {tool_calls: [{name: finish, arguments: {summary: with a test}}]}
`

func TestAnAgentGetsAMessageOnceWithItsNextTurn(t *testing.T) {
	t.Parallel()
	h := newFixture(t, listens)
	e, _ := h.openStep()
	h.tell("use tabs", "")
	h.tell("for another step", "step-999")
	require.Equal(t, map[string][][2]int64{"use tabs": nil, "for another step": nil}, h.delivered())

	first, failure := do[contract.ThinkResult](h, h.Think, contract.ThinkInput{Execution: e, Turn: 1, Model: choice})
	require.Nil(t, failure)
	require.True(t, first.Finish)
	require.Equal(t, map[string][][2]int64{"use tabs": {{e.ID, 1}}, "for another step": nil}, h.delivered())
	transcript := h.transcript(e.ID)
	require.Contains(t, transcript, "ann: use tabs")
	require.NotContains(t, transcript, "another step")

	again, failure := do[contract.ThinkResult](h, h.Think, contract.ThinkInput{Execution: e, Turn: 1, Model: choice})
	require.Nil(t, failure)
	require.Equal(t, first, again, "a repeat delivers nothing twice")
	require.Equal(t, 1, h.served())
}

func TestAnAgentReadsItsMessagesBeforeItFinishes(t *testing.T) {
	t.Parallel()
	h := newFixture(t, listens)
	e, ws := h.openStep()
	h.tell("use tabs", "")
	h.onServed = func() { h.tell("and a test", e.Step) } // while the model writes its first response
	first, failure := do[contract.ThinkResult](h, h.Think, contract.ThinkInput{Execution: e, Turn: 1, Model: choice})
	require.Nil(t, failure)
	require.True(t, first.Unread, "it has not read everything")
	_, failure = do[contract.ToolOutcome](h, h.CallTool, contract.ToolInput{Execution: e, Turn: 1, Index: 0, Workspace: ws})
	require.Nil(t, failure)

	h.onServed = nil
	second, failure := do[contract.ThinkResult](h, h.Think, contract.ThinkInput{Execution: e, Turn: 2, Model: choice})
	require.Nil(t, failure)
	require.True(t, second.Finish)
	require.False(t, second.Unread)
	require.Equal(t, map[string][][2]int64{"use tabs": {{e.ID, 1}}, "and a test": {{e.ID, 2}}}, h.delivered())
}

func TestAMessageThatArrivesAfterACrashedAttemptWaitsForTheNextTurn(t *testing.T) {
	t.Parallel()
	h := newFixture(t, `
  - when: {agent: builder, turn: 1, contains: "use tabs"}
    times: 1
    fault: {status: 500}
`+listens)
	e, _ := h.openStep()
	h.tell("use tabs", "")
	_, failure := do[contract.ThinkResult](h, h.Think, contract.ThinkInput{Execution: e, Turn: 1, Model: choice})
	require.NotNil(t, failure)
	h.tell("and a test", "")
	again, failure := do[contract.ThinkResult](h, h.Think, contract.ThinkInput{Execution: e, Turn: 1, Model: choice})
	require.Nil(t, failure)
	require.True(t, again.Unread)
	require.Equal(t, map[string][][2]int64{"use tabs": {{e.ID, 1}}, "and a test": nil}, h.delivered(),
		"the conversation before the turn stays what the first attempt sent")
}

func TestAMessageIsNoErrorOfAnEarlierAttemptAndHidesNothingOfIt(t *testing.T) {
	t.Parallel()
	h := newFixture(t, "\n"+calls(1, `{name: read_file, arguments: {path: hello.txt}}`)+calls(2, `{name: list_files, arguments: {}}`))
	from := h.openStepAfter(nil)
	one := &agent{h: h, e: from.Execution, ws: from.Workspace}
	one.turn()
	h.tell("use tabs", "")
	one.turn()
	second := h.openStepAfter(&contract.ResumePoint{Execution: from.Execution.ID, From: from.Workspace, At: from.Workspace})
	require.NotContains(t, h.transcript(second.Execution.ID), "Most recent errors")
	two := &agent{h: h, e: second.Execution, ws: second.Workspace}
	two.turn()
	third := h.openStepAfter(&contract.ResumePoint{Execution: second.Execution.ID, From: from.Workspace, At: from.Workspace})
	text := h.transcript(third.Execution.ID)
	require.Contains(t, text, "Before that", "what the first attempt did")
	require.Contains(t, text, "list_files")
}

// openStepAfter opens the step again with a halved context, after an earlier attempt if there is one.
func (h *fixture) openStepAfter(from *contract.ResumePoint) contract.OpenStepResult {
	h.t.Helper()
	in := h.opening()
	if from != nil {
		in.Resume, in.Lessons.Compact = from, 1
	}
	opened, failure := do[contract.OpenStepResult](h, h.OpenStep, in)
	require.Nil(h.t, failure)
	return opened
}
