package storetest

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/migrations"
)

// childEnv makes the test program one that is killed in the middle of a test.
const childEnv = "STORETEST_CHILD"

func TestMain(m *testing.M) {
	if os.Getenv(childEnv) != "" {
		os.Exit(m.Run())
	}
	goleak.VerifyTestMain(Main(m))
}

func TestEachTestHasADatabaseOfItsOwnWithTheSchema(t *testing.T) {
	t.Parallel()
	one, two := URL(t), URL(t)
	require.NotEqual(t, one, two)
	version, err := store.SchemaVersion(t.Context(), one)
	require.NoError(t, err)
	require.Equal(t, migrations.Latest(), version)
	require.NoError(t, New(t).Ping(t.Context()))
	version, err = store.SchemaVersion(t.Context(), EmptyURL(t))
	require.NoError(t, err)
	require.Zero(t, version)
}

func TestDatabaseGoesWithItsTest(t *testing.T) {
	t.Parallel()
	var address string
	t.Run("inner", func(t *testing.T) { address = URL(t) })
	_, err := pgx.Connect(t.Context(), address)
	require.ErrorContains(t, err, "does not exist")
}

// TestChildIsKilled is what TestClusterGoesWithAKilledProcess runs.
func TestChildIsKilled(t *testing.T) {
	if os.Getenv(childEnv) == "" {
		t.Skip("part of TestClusterGoesWithAKilledProcess")
	}
	address, _, err := cluster(t.Context())
	require.NoError(t, err)
	_, err = os.Stdout.WriteString("address " + address + "\n")
	require.NoError(t, err)
	self, err := os.FindProcess(os.Getpid())
	require.NoError(t, err)
	require.NoError(t, self.Kill())
}

func TestClusterGoesWithAKilledProcess(t *testing.T) {
	t.Parallel()
	tmp := t.TempDir()
	for dir := tmp; dir != os.TempDir() && dir != "/"; dir = filepath.Dir(dir) {
		require.NoError(t, os.Chmod(dir, 0o755)) // the server may run as another user
	}
	child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestChildIsKilled$", "-test.v")
	child.Env = append(os.Environ(), childEnv+"=1", "TMPDIR="+tmp)
	out, err := child.CombinedOutput()
	require.Error(t, err, "it was killed")
	require.Contains(t, string(out), "address ", string(out))
	_, rest, _ := strings.Cut(string(out), "address ")
	address, _, _ := strings.Cut(rest, "\n")

	ctx, cancel := context.WithTimeout(t.Context(), testTime)
	defer cancel()
	require.NoError(t, await(ctx, func() bool {
		left, err := filepath.Glob(filepath.Join(tmp, "*"))
		return err == nil && len(left) == 0
	}), "the folder is gone")
	_, err = pgx.Connect(ctx, address)
	require.Error(t, err, "and so is the server")
}

func TestContainerServesAStore(t *testing.T) {
	t.Parallel()
	if !engine(t.Context()) {
		t.Skip("no Docker engine answers (DOCKER_HOST, /var/run/docker.sock)")
	}
	address, stop, err := container(t.Context())
	require.NoError(t, err)
	defer func() { require.NoError(t, stop()) }()
	require.NoError(t, store.Migrate(t.Context(), address))
	s, err := store.Open(t.Context(), address, store.Options{})
	require.NoError(t, err)
	s.Close()
}

const testTime = 30 * time.Second

// await waits until a condition holds.
func await(ctx context.Context, holds func() bool) error {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !holds() {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
	return nil
}
