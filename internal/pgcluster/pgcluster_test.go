package pgcluster_test

import (
	"context"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/internal/pgcluster"
)

func TestWhatWasCommittedSurvivesAKilledServer(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	o := pgcluster.Options{Dir: filepath.Join(dir, "cluster"), Log: filepath.Join(dir, "log")}
	c, err := pgcluster.Start(t.Context(), o)
	require.NoError(t, err)
	require.NoError(t, c.CreateDatabase(t.Context(), "app"))
	require.NoError(t, c.CreateDatabase(t.Context(), "app"), "a second time changes nothing")
	conn, err := pgx.Connect(t.Context(), c.URL("app"))
	require.NoError(t, err)
	_, err = conn.Exec(t.Context(), "CREATE TABLE t AS SELECT 42 AS answer")
	require.NoError(t, err)

	require.NoError(t, syscall.Kill(c.Process.PID, syscall.SIGKILL), "its children are left alive")
	o.Port = c.Port
	again, err := pgcluster.Start(t.Context(), o)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, again.Stop(context.Background())) })
	conn, err = pgx.Connect(t.Context(), again.URL("app"))
	require.NoError(t, err)
	var answer int
	require.NoError(t, conn.QueryRow(t.Context(), "SELECT answer FROM t").Scan(&answer))
	require.Equal(t, 42, answer)
	require.NoError(t, conn.Close(t.Context()))
}
