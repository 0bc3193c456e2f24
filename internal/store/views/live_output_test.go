package views_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/store/views"
	"github.com/rocketgpt/orchestrator/internal/storetest"
)

// texts returns the contents of pieces of output, in order.
func texts(pieces []views.Output) []string {
	out := []string{}
	for _, p := range pieces {
		out = append(out, p.Text)
	}
	return out
}

// printed appends a piece that was stored that many seconds ago.
func printed(t *testing.T, b *storetest.Fixture, text string, secondsAgo int) {
	t.Helper()
	storetest.Query(t, b.URL, func(ctx context.Context, conn *pgx.Conn) {
		_, err := conn.Exec(ctx, "INSERT INTO orchestrator_outputs (run_id, source, text, created_at) VALUES ($1, 's', $2, now() - make_interval(secs => $3))", b.First.ID, text, secondsAgo)
		require.NoError(t, err)
	})
}

func TestTheEndOfLongOutputIsReadInOrder(t *testing.T) {
	t.Parallel()
	b := storetest.Setup(t)
	for n := range 7 {
		require.NoError(t, b.AppendOutput(t.Context(), b.First.ID, "s", fmt.Sprint(n)))
	}
	last, err := b.LastOutput(t.Context(), b.First.ID, 3)
	require.NoError(t, err)
	require.Equal(t, []string{"4", "5", "6"}, texts(last))
	all, err := b.LastOutput(t.Context(), b.First.ID, 100)
	require.NoError(t, err)
	require.Len(t, all, 7)
}

func TestOutputBeforeWhichMoreMayComeIsLeftOutUntilTheRunHasEnded(t *testing.T) {
	t.Parallel()
	b := storetest.Setup(t)
	live := func() []string {
		pieces, err := b.LiveOutput(t.Context(), b.First.ID, 0, 10)
		require.NoError(t, err)
		return texts(pieces)
	}
	printed(t, b, "old", 60)
	printed(t, b, "young", 0)
	printed(t, b, "begun before", 60)
	require.Equal(t, []string{"old"}, live(), "what is after a young piece waits for it")
	b.Apply(t, contract.Record{Run: &contract.RunChange{Status: contract.StatusDone, Finished: true}})
	require.Equal(t, []string{"old", "young", "begun before"}, live())
}

func TestAPieceThatCommitsLateIsNotMissed(t *testing.T) {
	t.Parallel()
	b := storetest.Setup(t)
	var seen []string
	after := int64(0)
	read := func() {
		pieces, err := b.LiveOutput(t.Context(), b.First.ID, after, 10)
		require.NoError(t, err)
		for _, p := range pieces {
			seen, after = append(seen, p.Text), p.ID
		}
	}
	storetest.Query(t, b.URL, func(ctx context.Context, conn *pgx.Conn) {
		late, err := conn.Begin(ctx)
		require.NoError(t, err)
		_, err = late.Exec(ctx, "INSERT INTO orchestrator_outputs (run_id, source, text) VALUES ($1, 's', 'late')", b.First.ID)
		require.NoError(t, err)
		require.NoError(t, b.AppendOutput(ctx, b.First.ID, "s", "early"))
		read()
		require.NoError(t, late.Commit(ctx))
	})
	b.Apply(t, contract.Record{Run: &contract.RunChange{Status: contract.StatusDone, Finished: true}})
	read()
	require.Equal(t, []string{"late", "early"}, seen)
}
