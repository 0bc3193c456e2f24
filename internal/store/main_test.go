package store_test

import (
	"context"
	"encoding/json"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/internal/storetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(storetest.Main(m)) }

// bundle is a store with a run in it.
type bundle struct {
	*store.Store
	url string
	run store.Run
	seq atomic.Int64
}

func setup(tb testing.TB) *bundle {
	tb.Helper()
	b := &bundle{url: storetest.URL(tb)}
	s, err := store.Open(tb.Context(), b.url, store.Options{MaxConns: 8, PollEvery: time.Minute}) // a missed wake shows
	require.NoError(tb, err)
	tb.Cleanup(s.Close)
	b.Store = s
	b.run = b.create(tb, store.NewRun{})
	return b
}

// create makes a run of what a test cares about.
func (b *bundle) create(tb testing.TB, n store.NewRun) store.Run {
	tb.Helper()
	n = filled(n)
	run, created, err := b.CreateRun(tb.Context(), n)
	require.NoError(tb, err)
	require.True(tb, created)
	return run
}

func filled(n store.NewRun) store.NewRun {
	if n.Project == "" {
		n.Project = "calculator"
	}
	if n.GoalTitle == "" {
		n.GoalTitle = "Add division"
	}
	n.MaxRetries = 3
	n.Settings.Repo = contract.Repo{URL: "/repos/calculator", Base: "c0ffee", Tree: "beef", Branch: "main"}
	return n
}

// source is the workflow of the bundle's run.
func (b *bundle) source() store.Source {
	return store.Source{WorkflowID: contract.RunWorkflowID(b.run.ID), WorkflowRunID: "first"}
}

// record applies a record as the run's workflow, numbered for it.
func (b *bundle) record(tb testing.TB, r contract.Record) contract.ExecutionRef {
	tb.Helper()
	r.RunID, r.Seq = b.run.ID, b.seq.Add(1)
	result, err := b.Record(tb.Context(), b.source(), r)
	require.NoError(tb, err)
	return result.Execution
}

// begin opens an execution of a phase or step.
func (b *bundle) begin(tb testing.TB, phase contract.Phase, step string) contract.ExecutionRef {
	tb.Helper()
	return b.record(tb, contract.Record{Begin: &contract.ExecutionBegin{Phase: phase, Step: step, Agent: contract.AgentOf(phase)}})
}

// all returns every event of the run.
func (b *bundle) all(tb testing.TB) []contract.Event {
	tb.Helper()
	events, err := b.Events(tb.Context(), b.run.ID, 0, 0)
	require.NoError(tb, err)
	return events
}

// requireGapless sees that events are numbered 1, 2, 3, …
func requireGapless(tb testing.TB, events []contract.Event) {
	tb.Helper()
	for i, e := range events {
		require.EqualValues(tb, i+1, e.Seq)
	}
}

func drafts(n int) []contract.EventDraft {
	out := make([]contract.EventDraft, n)
	for i := range out {
		out[i] = contract.EventDraft{Type: contract.EventRunUpdated, Payload: map[string]int{"n": i}}
	}
	return out
}

func raw(format string, args ...any) json.RawMessage {
	return json.RawMessage(fmt.Sprintf(format, args...))
}

// query runs statements on a connection of the test's own.
func query(tb testing.TB, url string, do func(ctx context.Context, conn *pgx.Conn)) {
	tb.Helper()
	ctx := context.WithoutCancel(tb.Context())
	conn, err := pgx.Connect(ctx, url)
	require.NoError(tb, err)
	defer func() { require.NoError(tb, conn.Close(ctx)) }()
	do(ctx, conn)
}
