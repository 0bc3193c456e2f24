package activities_test

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/contract"
)

// shortTurn lets a builder look at two files and create one, then run a command and list files.
const shortTurn = "\n  - when: {agent: builder}\n    reply: {tool_calls: [" +
	"{name: read_file, arguments: {path: hello.txt}}, {name: list_files, arguments: {}}, {name: create_file, arguments: {path: new.txt, content: \"new\\n\"}}, " +
	"{name: run_command, arguments: {command: \"true\"}}, {name: list_files, arguments: {}}]}\n"

// firstTurn makes a builder's first turn twice, and returns its result; long: the activity has the time for calls
// that may take long.
func (h *fixture) firstTurn(long bool) contract.ThinkResult {
	h.t.Helper()
	e, ws := h.openStep()
	in := contract.ThinkInput{Execution: e, Turn: 1, Model: choice, Tools: &contract.TurnTools{
		Workspace: ws, From: ws, Timeout: h.Config.Execution.CommandTimeout, Long: long,
	}}
	out := h.think(in)
	for _, d := range out.Done {
		stored, _, err := h.Store.ToolResult(h.t.Context(), e.ID, 1, d.Index)
		require.NoError(h.t, err, "each result is stored")
		require.Equal(h.t, stored.Outcome, d.Outcome)
	}
	require.Equal(h.t, out.Done, h.think(in).Done, "a repeated activity finds the results of the first")
	return out
}

func TestATurnCarriesOutItsCallsUpToTheFirstLongOne(t *testing.T) {
	t.Parallel()
	h := newFixture(t, shortTurn)
	out := h.firstTurn(false)
	require.Len(t, out.Calls, 5)
	require.Len(t, out.Done, 3)
	require.NotEqual(t, out.Done[1].Outcome.Workspace.Tree, out.Done[2].Outcome.Workspace.Tree, "the file was created")
}

func TestATurnCarriesOutNoCallWhileItsRunIsPaused(t *testing.T) {
	t.Parallel()
	h := newFixture(t, shortTurn)
	db, err := pgx.Connect(t.Context(), h.url)
	require.NoError(t, err)
	defer func() { require.NoError(t, db.Close(context.WithoutCancel(t.Context()))) }()
	_, err = db.Exec(t.Context(), "UPDATE orchestrator_runs SET status = 'paused' WHERE id = $1", h.run.ID)
	require.NoError(t, err)
	require.Empty(t, h.firstTurn(false).Done)
}

func TestATurnWithTheTimeForLongCallsCarriesOutAll(t *testing.T) {
	t.Parallel()
	h := newFixture(t, shortTurn)
	out := h.firstTurn(true)
	require.Len(t, out.Done, 5)
	require.Equal(t, out.Done[2].Outcome.Workspace, out.Done[4].Outcome.Workspace, "the command changed nothing")
}

func TestALongCallIsLeftToTheWorkflowIfTheCallsBeforeItMayEndTheStep(t *testing.T) {
	t.Parallel()
	for name, before := range map[string]string{
		"a path outside of the workspace": "{name: read_file, arguments: {path: ../secret}}",
		"a call that repeats itself":      "{name: list_files, arguments: {}}, {name: list_files, arguments: {}}",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newFixture(t, "\n  - when: {agent: builder}\n    reply: {tool_calls: ["+before+", {name: run_command, arguments: {command: \"true\"}}]}\n")
			out := h.firstTurn(true)
			require.Len(t, out.Done, len(out.Calls)-1)
		})
	}
}

func TestAStoppingWorkerLeavesTheCallsOfATurnToOthers(t *testing.T) {
	t.Parallel()
	h := newFixture(t, shortTurn)
	stops := make(chan struct{})
	h.env.SetWorkerStopChannel(stops)
	h.onServed = func() { close(stops) }
	require.Empty(t, h.firstTurn(true).Done)
}
