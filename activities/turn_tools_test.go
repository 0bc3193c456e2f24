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

func (h *fixture) shortTurn() contract.ThinkResult {
	h.t.Helper()
	e, ws := h.openStep()
	out, failure := do[contract.ThinkResult](h, h.Think, contract.ThinkInput{Execution: e, Turn: 1, Model: choice, Tools: &contract.TurnTools{Workspace: ws, From: ws, Timeout: h.Config.Execution.CommandTimeout}})
	require.Nil(h.t, failure)
	require.Len(h.t, out.Calls, 5)
	for _, d := range out.Done {
		stored, _, err := h.Store.ToolResult(h.t.Context(), e.ID, 1, d.Index)
		require.NoError(h.t, err, "each result is stored")
		require.Equal(h.t, stored.Outcome, d.Outcome)
	}
	again, failure := do[contract.ThinkResult](h, h.Think, contract.ThinkInput{Execution: e, Turn: 1, Model: choice, Tools: &contract.TurnTools{Workspace: ws, From: ws, Timeout: h.Config.Execution.CommandTimeout}})
	require.Nil(h.t, failure)
	require.Equal(h.t, out.Done, again.Done, "a repeated activity finds the results of the first")
	return out
}

func TestATurnCarriesOutItsCallsUpToTheFirstLongOne(t *testing.T) {
	t.Parallel()
	h := newFixture(t, shortTurn)
	out := h.shortTurn()
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
	require.Empty(t, h.shortTurn().Done)
}
