package storetest

import (
	"cmp"
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/ledger"
	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/internal/store/feed"
	"github.com/rocketgpt/orchestrator/internal/store/views"
)

// Fixture is a store with a run, the views of the store, and a feed that polls so rarely that a
// missed notification is noticed.
type Fixture struct {
	*store.Store
	*views.Views
	*feed.Feed
	URL   string    // of its database
	First store.Run // the run
	seq   atomic.Int64
}

// Setup returns a fixture with its own database.
func Setup(tb testing.TB) *Fixture {
	tb.Helper()
	f := &Fixture{URL: URL(tb)}
	f.Store = Open(tb, f.URL)
	f.Views, f.Feed = views.New(f.Store), Feed(tb, f.Store, feed.Options{PollEvery: time.Minute})
	f.First = f.Create(tb, store.NewRun{})
	return f
}

// Create creates a run, with defaults for the fields that a test does not set.
func (f *Fixture) Create(tb testing.TB, n store.NewRun) store.Run {
	tb.Helper()
	run, created, err := f.CreateRun(tb.Context(), Filled(n))
	if err != nil || !created {
		tb.Fatalf("create a run: created %t, %v", created, err)
	}
	return run
}

// Filled sets defaults for the other fields of a run to be created.
func Filled(n store.NewRun) store.NewRun {
	n.Project = cmp.Or(n.Project, "calculator")
	n.GoalTitle = cmp.Or(n.GoalTitle, "Add division")
	n.MaxRetries = 3
	n.Settings.Repo = contract.Repo{URL: "/repos/calculator", Base: "c0ffee", Tree: "beef", Branch: "main"}
	return n
}

// Source is the workflow of the fixture's run.
func (f *Fixture) Source() store.Source {
	return store.Source{WorkflowID: contract.RunWorkflowID(f.First.ID), WorkflowRunID: "first"}
}

// NextSeq returns the number of the next record of the fixture's run.
func (f *Fixture) NextSeq() int64 { return f.seq.Add(1) }

// Apply numbers a record and applies it as the run's workflow.
func (f *Fixture) Apply(tb testing.TB, r contract.Record) contract.ExecutionRef {
	tb.Helper()
	r.RunID, r.Seq = f.First.ID, f.NextSeq()
	result, err := f.Record(tb.Context(), f.Source(), r)
	if err != nil {
		tb.Fatalf("apply a record: %v", err)
	}
	return result.Execution
}

// Drafts returns n events.
func Drafts(n int) []contract.EventDraft {
	out := make([]contract.EventDraft, n)
	for i := range out {
		out[i] = contract.EventDraft{Type: contract.EventRunUpdated, Payload: map[string]int{"n": i}}
	}
	return out
}

// AppendLedger appends an entry to the audit ledger, as triggers do.
func AppendLedger(tb testing.TB, st *store.Store, e ledger.Entry, details string) {
	tb.Helper()
	if err := st.InTx(tb.Context(), func(tx pgx.Tx) error {
		_, err := tx.Exec(tb.Context(), `SELECT rgpt_ledger_append($1, $2, $3, $4, $5, $6)`, string(e.Actor), e.Name, e.Action, e.Object, e.RunID, details)
		return err
	}); err != nil {
		tb.Fatalf("append to the ledger: %v", err)
	}
}

// Query runs statements on a separate connection.
func Query(tb testing.TB, url string, do func(ctx context.Context, conn *pgx.Conn)) {
	tb.Helper()
	ctx := context.WithoutCancel(tb.Context())
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		tb.Fatalf("connect to the test database: %v", err)
	}
	defer func() {
		if err := conn.Close(ctx); err != nil {
			tb.Errorf("close the test connection: %v", err)
		}
	}()
	do(ctx, conn)
}
