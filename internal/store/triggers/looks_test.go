package triggers_test

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/internal/store/triggers"
	"github.com/rocketgpt/orchestrator/internal/storetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(storetest.Main(m)) }

// claim claims at most 10 looks.
func claim(t *testing.T, st *store.Store, lease time.Duration, names ...string) []triggers.Look {
	t.Helper()
	found, err := triggers.ClaimLooks(t.Context(), st, names, 10, lease)
	require.NoError(t, err)
	return found
}

func TestOneServerAtATimeLooksForATrigger(t *testing.T) {
	t.Parallel()
	f := storetest.Setup(t)
	st, ctx := f.Store, t.Context()
	require.NoError(t, triggers.AddTriggers(ctx, st, []string{"a", "b"}))
	require.NoError(t, triggers.AddTriggers(ctx, st, []string{"a", "b"}))
	require.Empty(t, claim(t, st, time.Hour, "c"))
	first := claim(t, st, 0, "a") // its server dies
	require.Len(t, first, 1)
	require.True(t, first[0].Since.IsZero())
	second := claim(t, st, time.Hour, "a", "b")
	require.Len(t, second, 2)
	require.Empty(t, claim(t, st, time.Hour, "a", "b"))

	first[0].Since, first[0].For = time.Now(), "late"
	require.NoError(t, triggers.EndLook(ctx, st, first[0], 0, ""))
	require.Empty(t, claim(t, st, time.Hour, "a", "b"), "the lease of another server counts")
	for i := range second {
		second[i].Since, second[i].For = second[i].Began.Add(-time.Minute), "label"
		require.NoError(t, triggers.EndLook(ctx, st, second[i], 0, ""))
	}
	again := claim(t, st, time.Hour, "a", "b")
	require.Len(t, again, 2)
	require.Equal(t, "label", again[0].For)
	require.WithinDuration(t, second[0].Since, again[0].Since, time.Millisecond)
}

func TestAWebhookAsksForALookUnlessTheLastOneFailed(t *testing.T) {
	t.Parallel()
	f := storetest.Setup(t)
	st, ctx := f.Store, t.Context()
	require.NoError(t, triggers.AddTriggers(ctx, st, []string{"a"}))
	longAgo := func() {
		storetest.Query(t, f.URL, func(ctx context.Context, conn *pgx.Conn) {
			_, err := conn.Exec(ctx, "UPDATE orchestrator_triggers SET looked_at = now() - interval '1 hour'")
			require.NoError(t, err)
		})
	}
	l := claim(t, st, time.Hour, "a")[0]
	require.NoError(t, triggers.EndLook(ctx, st, l, -1, ""))
	require.Empty(t, claim(t, st, time.Hour, "a"), "polling is off")
	require.NoError(t, triggers.AskLooks(ctx, st, []string{"a", "unknown"}))
	require.Empty(t, claim(t, st, time.Hour, "a"), "the last look was just now")
	longAgo()
	require.NoError(t, triggers.AskLooks(ctx, st, []string{"a"}))
	l = claim(t, st, time.Hour, "a")[0]
	require.NoError(t, triggers.AskLooks(ctx, st, []string{"a"}))
	require.Empty(t, claim(t, st, time.Hour, "a"), "a look is in progress")
	require.NoError(t, triggers.EndLook(ctx, st, l, time.Hour, ""))
	var next time.Time
	storetest.Query(t, f.URL, func(ctx context.Context, conn *pgx.Conn) {
		require.NoError(t, conn.QueryRow(ctx, "SELECT next_at FROM orchestrator_triggers").Scan(&next))
	})
	require.WithinDuration(t, l.Began, next, time.Minute, "a webhook during a look asks for another one")

	longAgo()
	require.NoError(t, triggers.AskLooks(ctx, st, []string{"a"}))
	l = claim(t, st, time.Hour, "a")[0]
	l.Failures = 1
	require.NoError(t, triggers.EndLook(ctx, st, l, time.Hour, "the forge asked to wait"))
	longAgo()
	require.NoError(t, triggers.AskLooks(ctx, st, []string{"a"}))
	require.Empty(t, claim(t, st, time.Hour, "a"), "the forge is left alone")

	storetest.Query(t, f.URL, func(ctx context.Context, conn *pgx.Conn) {
		_, err := conn.Exec(ctx, "UPDATE orchestrator_triggers SET next_at = now(), failures = 0, paused_at = now()")
		require.NoError(t, err)
	})
	require.Empty(t, claim(t, st, time.Hour, "a"), "it is paused")
}
