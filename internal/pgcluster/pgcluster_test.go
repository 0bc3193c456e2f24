package pgcluster_test

import (
	"context"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
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

// folder returns a directory with a short path, which any user may traverse: the server may run as
// another one.
func folder(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "pg") //nolint:usetesting // the directory of a test has a long path
	require.NoError(t, err)
	require.NoError(t, os.Chmod(dir, 0o755)) //nolint:gosec // see above
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	return dir
}

func start(t *testing.T, o pgcluster.Options) *pgcluster.Cluster {
	t.Helper()
	c, err := pgcluster.Start(t.Context(), o)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Stop(context.Background())) })
	return c
}

// overTCP reports whether a client with this URL connects over TCP, according to the server.
func overTCP(t *testing.T, address string) (tcp bool) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), address)
	require.NoError(t, err)
	require.NoError(t, conn.QueryRow(t.Context(), "SELECT client_addr IS NOT NULL FROM pg_stat_activity WHERE pid = pg_backend_pid()").Scan(&tcp))
	require.NoError(t, conn.Close(t.Context()))
	return tcp
}

func TestTheSocketIsPrivateAndRequiresThePassword(t *testing.T) {
	t.Parallel()
	dir := folder(t)
	o := pgcluster.Options{Dir: filepath.Join(dir, `a "b" c & d?100%`), Log: filepath.Join(dir, "log"), Volatile: true}
	c := start(t, o)
	require.False(t, overTCP(t, c.SocketURL("postgres")))
	require.True(t, overTCP(t, c.URL("postgres")), "both work at the same time")

	u, err := url.Parse(c.SocketURL("postgres"))
	require.NoError(t, err)
	plain, err := url.Parse(c.URL("postgres"))
	require.NoError(t, err)
	require.Equal(t, plain.Host, u.Host, "of TCP, for clients that do not understand the parameter")
	info, err := os.Stat(u.Query().Get("host"))
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o700), info.Mode().Perm())

	for _, user := range []*url.Userinfo{url.UserPassword(u.User.Username(), "wrong"), url.User(u.User.Username())} {
		u.User = user
		_, err = pgx.Connect(t.Context(), u.String())
		var refused *pgconn.PgError
		require.ErrorAs(t, err, &refused, user)
		require.Equal(t, "28P01", refused.Code, "invalid password")
	}
}

func TestAKilledServersSocketIsUsedAgain(t *testing.T) {
	t.Parallel()
	dir := folder(t)
	o := pgcluster.Options{Dir: filepath.Join(dir, "data"), Log: filepath.Join(dir, "log"), Volatile: true}
	c, err := pgcluster.Start(t.Context(), o)
	require.NoError(t, err)
	require.NoError(t, syscall.Kill(c.Process.PID, syscall.SIGKILL), "its socket and the lock of it are left")
	o.Port = c.Port
	again := start(t, o)
	require.Equal(t, c.SocketURL("postgres"), again.SocketURL("postgres"))
	require.False(t, overTCP(t, again.SocketURL("postgres")))
}

func TestAClusterThatCannotHaveASocketUsesTCP(t *testing.T) {
	t.Parallel()
	for why, name := range map[string]string{
		"its path is too long":             strings.Repeat("long", 25),
		"its path is a list in parameters": "a,b",
	} {
		t.Run(why, func(t *testing.T) {
			t.Parallel()
			dir := folder(t)
			c := start(t, pgcluster.Options{Dir: filepath.Join(dir, name), Log: filepath.Join(dir, "log"), Volatile: true})
			require.Equal(t, c.URL("postgres"), c.SocketURL("postgres"))
			require.True(t, overTCP(t, c.SocketURL("postgres")))
		})
	}
}

func TestASettingOfTheSocketsTakesPrecedence(t *testing.T) {
	t.Parallel()
	dir := folder(t)
	c := start(t, pgcluster.Options{
		Dir: filepath.Join(dir, "data"), Log: filepath.Join(dir, "log"), Volatile: true,
		Settings: map[string]string{"unix_socket_directories": ""},
	})
	require.Equal(t, c.URL("postgres"), c.SocketURL("postgres"))
}
