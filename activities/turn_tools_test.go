package activities_test

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/fault"
	"github.com/rocketgpt/orchestrator/internal/sandbox"
)

// shortTurn lets a builder look at two files and create one, then run a command and list files.
const shortTurn = "\n  - when: {agent: builder}\n    reply: {tool_calls: [" +
	"{name: read_file, arguments: {path: hello.txt}}, {name: list_files, arguments: {}}, {name: create_file, arguments: {path: new.txt, content: \"new\\n\"}}, " +
	"{name: run_command, arguments: {command: \"true\"}}, {name: list_files, arguments: {}}]}\n"

// firstTurn makes a builder's first turn twice, and returns its result; long is the time of calls that may take long.
func (h *fixture) firstTurn(long time.Duration) contract.ThinkResult {
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
	out := h.firstTurn(0)
	require.Len(t, out.Calls, 5)
	require.Len(t, out.Done, 3)
	require.NotEqual(t, out.Done[1].Outcome.Workspace.Tree, out.Done[2].Outcome.Workspace.Tree, "the file was created")
}

func TestATurnCarriesOutNoCallWhileItsRunIsPaused(t *testing.T) {
	t.Parallel()
	h := newFixture(t, shortTurn)
	h.pause()
	require.Empty(t, h.firstTurn(0).Done)
}

// pause shows the run as paused.
func (h *fixture) pause() {
	h.t.Helper()
	ctx := context.WithoutCancel(h.t.Context())
	db, err := pgx.Connect(ctx, h.url)
	require.NoError(h.t, err)
	defer func() { require.NoError(h.t, db.Close(ctx)) }()
	_, err = db.Exec(ctx, "UPDATE orchestrator_runs SET status = 'paused' WHERE id = $1", h.run.ID)
	require.NoError(h.t, err)
}

func TestATurnWithTheTimeForLongCallsCarriesOutAll(t *testing.T) {
	t.Parallel()
	h := newFixture(t, shortTurn)
	out := h.firstTurn(time.Second)
	require.Len(t, out.Done, 5)
	require.Equal(t, out.Done[2].Outcome.Workspace, out.Done[4].Outcome.Workspace, "the command changed nothing")
}

func TestALongCallIsLeftToTheWorkflowIfTheCallsBeforeItMayEndTheStep(t *testing.T) {
	t.Parallel()
	for name, before := range map[string]string{
		"a path outside of the workspace": "{name: read_file, arguments: {path: ../secret}}",
		"a call that repeats itself":      "{name: list_files, arguments: {}}, {name: list_files, arguments: {}}",
	} {
		for _, long := range []string{"{name: run_command, arguments: {command: \"true\"}}", "{name: check, arguments: {name: x}}"} {
			t.Run(name+", "+long, func(t *testing.T) {
				t.Parallel()
				h := newFixture(t, "\n  - when: {agent: builder}\n    reply: {tool_calls: ["+before+", "+long+"]}\n")
				out := h.firstTurn(time.Second)
				require.Len(t, out.Done, len(out.Calls)-1)
			})
		}
	}
}

func TestALongCallIsLeftToTheWorkflowIfItCouldTakeMoreTimeThanIsLeft(t *testing.T) {
	t.Parallel()
	require.Len(t, newFixture(t, shortTurn).firstTurn(1000*time.Hour).Done, 3)
}

func TestALongCallThatMustNotBeRepeatedFailsTheTurn(t *testing.T) {
	t.Parallel()
	h := newFixture(t, shortTurn)
	h.Sandbox = refusing{}
	e, ws := h.openStep()
	out := h.think(contract.ThinkInput{Execution: e, Turn: 1, Model: choice, Tools: &contract.TurnTools{
		Workspace: ws, From: ws, Timeout: h.Config.Execution.CommandTimeout, Long: time.Second,
	}})
	require.Len(t, out.Done, 4)
	require.Equal(t, contract.ClassConfig, out.Done[3].Failure.Class)
}

// refusing is a runner that cannot isolate any command.
type refusing struct{ sandbox.Runner }

func (refusing) Run(context.Context, sandbox.Command) (sandbox.Result, error) {
	return sandbox.Result{}, fault.New(contract.ClassConfig, contract.CodeIsolation, "bubblewrap cannot create namespaces on this host")
}

func TestAStoppingWorkerLeavesTheCallsOfATurnToOthers(t *testing.T) {
	t.Parallel()
	h := newFixture(t, shortTurn)
	stops := make(chan struct{})
	h.env.SetWorkerStopChannel(stops)
	h.onServed = func() { close(stops) }
	require.Empty(t, h.firstTurn(time.Second).Done)
}

// Whatever may make an agent continue is decided by its workflow.
func TestACallThatFinishesIsCarriedOutWithItsTurnUnlessItMayBeRefused(t *testing.T) {
	t.Parallel()
	create := "{name: create_file, arguments: {path: new.txt, content: \"new\\n\"}}"
	finish := "{name: finish, arguments: {summary: done}}"
	for name, c := range map[string]struct {
		calls   string
		change  func(*contract.ThinkInput)
		message string // of a person
		paused  bool   // while the model responds
		done    int
	}{
		"alone":                       {calls: finish, done: 1},
		"before a change":             {calls: finish + ", " + create, done: 2},
		"beside a call that fails":    {calls: "{name: edit_file, arguments: {path: none.txt, old_text: a, new_text: b}}, " + finish, done: 1},
		"checks are to run before":    {calls: create + ", " + finish, change: func(in *contract.ThinkInput) { in.Tools.FinishHere = false }, done: 1},
		"a finding is not answered":   {calls: finish, change: func(in *contract.ThinkInput) { in.Answer = []string{"R1"} }},
		"a person has written to it":  {calls: finish, message: "Also say goodbye."},
		"the run is paused":           {calls: finish, paused: true},
		"a long call before it waits": {calls: "{name: run_command, arguments: {command: \"true\"}}, " + finish},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newFixture(t, "\n  - when: {agent: builder}\n    reply: {tool_calls: ["+c.calls+"]}\n")
			e, ws := h.openStep()
			in := contract.ThinkInput{Execution: e, Turn: 1, Model: choice, Tools: &contract.TurnTools{
				Workspace: ws, From: ws, Timeout: h.Config.Execution.CommandTimeout, FinishApart: true, FinishHere: true,
			}}
			if c.change != nil {
				c.change(&in)
			}
			if c.message != "" {
				h.onServed = func() { h.tell(c.message, e.Step) }
			}
			if c.paused {
				h.onServed = func() { h.pause() }
			}
			out := h.think(in)
			require.True(t, out.Finish)
			require.Len(t, out.Done, c.done)
			require.Equal(t, out.Done, h.think(in).Done, "a repeated activity finds the results of the first")
			if c.done == len(out.Calls) {
				last := out.Done[len(out.Done)-1]
				require.Equal(t, "finish", out.Calls[last.Index].Tool, "it comes last")
				require.True(t, last.Outcome.OK)
			}
		})
	}
}
