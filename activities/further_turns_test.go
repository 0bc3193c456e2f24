package activities_test

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/telemetry"
)

// turnsOf are the rules of a builder that makes each of the replies in a turn of its own.
func turnsOf(replies ...string) string {
	rules := "\n"
	for _, r := range replies {
		rules += "  - when: {agent: builder}\n    times: 1\n    " + r + "\n    usage: {prompt_tokens: 100, completion_tokens: 10}\n"
	}
	return rules
}

const (
	readHello  = "reply: {tool_calls: [{name: read_file, arguments: {path: hello.txt}}]}"
	makeNew    = "reply: {tool_calls: [{name: create_file, arguments: {path: new.txt, content: \"new\\n\"}}]}"
	listFiles  = "reply: {tool_calls: [{name: list_files, arguments: {}}]}"
	finishWork = "reply: {tool_calls: [{name: finish, arguments: {summary: done}}]}"
)

// furtherTurns is an input that lets an activity make up to five turns.
func (h *fixture) furtherTurns() contract.ThinkInput {
	h.t.Helper()
	e, ws := h.openStep()
	return contract.ThinkInput{
		Execution: e, Turn: 1, Model: choice, Further: &contract.FurtherTurns{Turns: 4},
		Tools: &contract.TurnTools{Workspace: ws, From: ws, Timeout: h.Config.Execution.CommandTimeout, FinishApart: true},
	}
}

func (h *fixture) think(in contract.ThinkInput) contract.ThinkResult {
	h.t.Helper()
	out, failure := do[contract.ThinkResult](h, h.Think, in)
	require.Nil(h.t, failure)
	return out
}

// outcome returns the outcome of a turn's only call.
func outcome(t *testing.T, r contract.ThinkResult) contract.ToolOutcome {
	t.Helper()
	require.Len(t, r.Done, 1)
	return r.Done[0].Outcome
}

func TestTurnsThatOnlyFollowEachOtherAreOneActivityAndARepeatFindsThem(t *testing.T) {
	t.Parallel()
	h := newFixture(t, turnsOf(readHello, makeNew, listFiles, finishWork))
	in := h.furtherTurns()
	first := h.think(in)
	require.Len(t, first.Further, 3)
	require.True(t, first.Further[2].Finish)
	require.Equal(t, int64(110), first.Further[2].Usage.Tokens())
	made := outcome(t, first.Further[0])
	require.NotEqual(t, in.Tools.Workspace.Tree, made.Workspace.Tree)
	require.Equal(t, made.Workspace, outcome(t, first.Further[1]).Workspace, "each turn begins where the last one ended")
	require.Equal(t, first, h.think(in))
	require.Equal(t, 4, h.served(), "a repeated activity finds the responses of the first")

	in.Turn, in.Tools.Workspace, in.Further = 3, made.Workspace, nil
	alone := h.think(in)
	require.Equal(t, first.Further[1], alone, "the result is the same as that of an activity of its own")
}

// TestEachTurnOfAnActivityReadsItsConversationOnce is not parallel: the round trips to the database that it counts are
// those of the process. A turn that takes too long to begin reads its conversation twice, but not all turns do.
func TestEachTurnOfAnActivityReadsItsConversationOnce(t *testing.T) {
	h := newFixture(t, turnsOf(readHello, makeNew, listFiles, finishWork))
	in := h.furtherTurns()
	before := roundTrips(t)
	require.Len(t, h.think(in).Further, 3)
	after := roundTrips(t)
	require.Less(t, after["Transcript"]-before["Transcript"], uint64(4+3))
	for _, operation := range []string{"CallBasis", "PendingInputSince"} {
		require.Equal(t, before[operation], after[operation], "%s shares a round trip", operation)
	}
	require.Len(t, h.bodies, 4)
	for i, body := range h.bodies {
		var request struct {
			Messages []struct{ Role, Content string }
		}
		require.NoError(t, json.Unmarshal(body, &request))
		require.Len(t, request.Messages, 2+2*i, "each turn adds its response and a result")
	}
}

// roundTrips returns how many round trips to the database the process has made, by the names of their last queries.
func roundTrips(t *testing.T) map[string]uint64 {
	t.Helper()
	all, err := telemetry.Registry.Gather()
	require.NoError(t, err)
	out := map[string]uint64{}
	for _, family := range all {
		if family.GetName() != "rgpt_database_duration_seconds" {
			continue
		}
		for _, m := range family.GetMetric() {
			for _, label := range m.GetLabel() {
				if label.GetName() == "operation" {
					out[label.GetValue()] += m.GetHistogram().GetSampleCount()
				}
			}
		}
	}
	return out
}

func TestTurnsEndBeforeACallThatMayTakeLong(t *testing.T) {
	t.Parallel()
	h := newFixture(t, turnsOf(readHello, "reply: {tool_calls: [{name: run_command, arguments: {command: \"true\"}}]}", listFiles))
	out := h.think(h.furtherTurns())
	require.Len(t, out.Further, 1)
	require.Empty(t, out.Further[0].Done)
	require.Equal(t, 2, h.served())
}

func TestTurnsFollowACallThatMayTakeLongIfItWasCarriedOut(t *testing.T) {
	t.Parallel()
	h := newFixture(t, turnsOf(readHello, "reply: {tool_calls: [{name: run_command, arguments: {command: \"true\"}}]}", listFiles, finishWork))
	in := h.furtherTurns()
	in.Tools.Long = time.Second
	out := h.think(in)
	require.Len(t, out.Further, 3)
	require.True(t, outcome(t, out.Further[0]).OK)
}

func TestALongCallIsLeftToTheWorkflowIfACallBeforeItRepeatsOneOfAnEarlierTurn(t *testing.T) {
	t.Parallel()
	h := newFixture(t, turnsOf(listFiles, "reply: {tool_calls: [{name: list_files, arguments: {}}, {name: run_command, arguments: {command: \"true\"}}]}", finishWork))
	in := h.furtherTurns()
	in.Tools.Long = time.Second
	out := h.think(in)
	require.Len(t, out.Further, 1)
	require.Len(t, out.Further[0].Done, 1)
}

func TestNoTurnFollowsOnceAPersonSteersTheRun(t *testing.T) {
	t.Parallel()
	for name, steer := range map[string]string{
		"paused":                 "UPDATE orchestrator_runs SET status = 'paused' WHERE id = $1",
		"another model":          "INSERT INTO orchestrator_events (run_id, seq, event_type) VALUES ($1, 1000, 'model.switched')",
		"paused, then continued": "INSERT INTO orchestrator_events (run_id, seq, event_type) VALUES ($1, 1000, 'run.updated')",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newFixture(t, turnsOf(readHello, listFiles))
			db, err := pgx.Connect(t.Context(), h.url)
			require.NoError(t, err)
			defer func() { require.NoError(t, db.Close(context.WithoutCancel(t.Context()))) }()
			in := h.furtherTurns()
			h.onServed = func() {
				_, err := db.Exec(context.WithoutCancel(t.Context()), steer, h.run.ID)
				require.NoError(t, err)
			}
			require.Empty(t, h.think(in).Further)
			require.Equal(t, 1, h.served())
		})
	}
}

func TestAFurtherTurnThatIsToBeRetriedEndsTheActivityWithWhatWasDone(t *testing.T) {
	t.Parallel()
	h := newFixture(t, turnsOf(readHello, makeNew, "fault: {status: 429, retry_after: 7s}", listFiles, finishWork))
	in := h.furtherTurns()
	out := h.think(in)
	require.Len(t, out.Further, 1)
	require.GreaterOrEqual(t, out.Wait, 7*time.Second, "the provider asked for it")
	require.Equal(t, 2, h.served())

	in.Turn, in.Tools.Workspace = 3, outcome(t, out.Further[0]).Workspace
	out = h.think(in)
	require.Len(t, out.Further, 1)
	require.True(t, out.Further[0].Finish)
	require.Zero(t, out.Wait)
	require.Equal(t, 4, h.served())
}

func TestAFurtherTurnThatFailsForGoodEndsTheActivityWithWhatWasDone(t *testing.T) {
	t.Parallel()
	h := newFixture(t, turnsOf(readHello, "fault: {status: 401}", listFiles))
	out := h.think(h.furtherTurns())
	require.Len(t, out.Done, 1)
	require.Len(t, out.Further, 1)
	require.Equal(t, contract.ClassConfig, out.Further[0].Failure.Class)
	require.NotEmpty(t, out.Further[0].Failure.Worker)
}

func TestAMessageThatArrivesBetweenTheTurnsOfAnActivityIsReadByTheNextOne(t *testing.T) {
	t.Parallel()
	h := newFixture(t, turnsOf(readHello, makeNew, finishWork))
	in := h.furtherTurns()
	turn := 0
	h.onServed = func() {
		if turn++; turn == 2 {
			h.tell("use tabs", "")
		}
	}
	out := h.think(in)
	require.Len(t, out.Further, 2)
	require.Equal(t, map[string][][2]int64{"use tabs": {{in.Execution.ID, 3}}}, h.delivered())
	require.False(t, out.Further[1].Unread)
}
