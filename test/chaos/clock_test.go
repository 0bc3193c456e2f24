package chaos

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/test/harness"
)

// TestTimesInRowsThatAreAnHourOffEndNoRun moves every time in every row by an hour, in
// mid-run: back, as when the database's clock stepped forward, and then forth. What is
// compared with that clock are heartbeats of agents, reservations of model calls, places
// in the queue, leases of webhooks, names of requests and the ages of what is kept.
func TestTimesInRowsThatAreAnHourOffEndNoRun(t *testing.T) {
	d := newFaultTrial(t, harness.Options{Config: "execution: {concurrent_runs: 1}\n"})
	conn, err := pgx.Connect(t.Context(), d.State(t).Database)
	require.NoError(t, err)
	defer conn.Close(context.WithoutCancel(t.Context()))
	for _, by := range []string{"-1 hour", "1 hour"} {
		working, waiting := d.midRun(t, "Step by "+by), d.run(t, "Wait and step by "+by)
		require.Equal(t, contract.StatusPending, d.underWay(t, waiting).Status)
		before := d.underWay(t, working)
		rows := move(t, conn, by)
		after := d.underWay(t, working)
		require.InDelta(t, time.Hour, after.CreatedAt.Sub(before.CreatedAt).Abs(), 0, "its row was met")
		d.requireDone(t, 2*time.Minute, working, waiting)
		t.Logf("moved the times of %d rows by %s", rows, by)
	}
}

// move moves all times of all rows of the product, in one transaction.
func move(t *testing.T, conn *pgx.Conn, by string) (rows int64) {
	t.Helper()
	ctx := t.Context()
	found, err := conn.Query(ctx, `
		SELECT format('UPDATE %I SET %s', table_name, string_agg(format('%1$I = %1$I + interval ''`+by+`''', column_name), ', '))
		FROM information_schema.columns JOIN information_schema.tables USING (table_schema, table_name)
		WHERE table_schema = 'public' AND table_type = 'BASE TABLE' AND table_name LIKE 'orchestrator\_%' AND table_name <> 'orchestrator_ledger' -- append-only
			AND data_type = 'timestamp with time zone' AND is_generated = 'NEVER'
		GROUP BY table_name ORDER BY table_name <> 'orchestrator_runs', table_name`)
	require.NoError(t, err)
	updates, err := pgx.CollectRows(found, pgx.RowTo[string])
	require.NoError(t, err)
	require.Greater(t, len(updates), 20, fmt.Sprint(updates))
	// Who records a run locks its row first.
	require.NoError(t, pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		for _, update := range updates {
			done, err := tx.Exec(ctx, update)
			if err != nil {
				return fmt.Errorf("%s: %w", update, err)
			}
			rows += done.RowsAffected()
		}
		return nil
	}))
	return rows
}
