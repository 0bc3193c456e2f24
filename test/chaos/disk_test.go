package chaos

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/devstack"
	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/test/harness"
)

// TestRunsWaitForRoomOnAFullDiskAndEndWellWhenThereIsSome fills, in mid-run, the disk of
// the worker's folders, then that of Temporal's database, then that of PostgreSQL's
// tables: small file systems of their own. Nothing is lost while there is no room.
func TestRunsWaitForRoomOnAFullDiskAndEndWellWhenThereIsSome(t *testing.T) {
	t.Parallel()
	s := harness.New(t, harness.Options{Scenario: work()})
	t.Cleanup(func() { s.End(t) })
	files, temporal, tables := filepath.Join(s.DataDir, "artifacts"), filepath.Join(s.Dir, "temporal"), filepath.Join(s.Dir, "tables")
	for _, dir := range []string{files, temporal, tables} {
		mount(t, dir)
	}
	require.NoError(t, os.Symlink(filepath.Join(temporal, "temporal.db"), filepath.Join(s.DataDir, "temporal.db")))
	s.Up(t)
	d := &faultTrial{Stack: s, db: s.Store(t), repo: repository(t, filepath.Join(s.Dir, "repo"))}

	t.Run("of the worker's artifacts", func(t *testing.T) {
		id := d.midRun(t, "Fill the worker's disk")
		free := fill(t, files)
		run := d.AwaitRun(t, d.db, id, "waiting for a person", time.Minute, func(r store.Run) bool { return r.WaitingFor != "" || r.Status.Terminal() })
		require.Equal(t, contract.StatusWaitingForApproval, run.Status)
		require.Equal(t, contract.CodeDiskFull, run.Failure.Code)
		harness.CheckInvariants(t, s, id)
		free()
		d.OK(t, "run", "approve", fmt.Sprint(id))
		d.requireDone(t, time.Minute, id)
	})
	t.Run("of Temporal's database", func(t *testing.T) {
		d.waitsForRoom(t, temporal, devstack.RoleTemporal, "is full")
	})
	t.Run("of PostgreSQL's tables", func(t *testing.T) {
		d.moveTables(t, tables)
		d.waitsForRoom(t, tables, devstack.RolePostgres, "No space left on device")
	})
}

// waitsForRoom fills the disk of a process until its log has said so a few times.
func (d *faultTrial) waitsForRoom(t *testing.T, dir string, role devstack.Role, says string) {
	t.Helper()
	id := d.midRun(t, "Fill the disk of "+string(role))
	free := fill(t, dir)
	process, _ := d.State(t).Process(role)
	harness.Await(t, "the "+string(role)+" to meet the full disk", time.Minute, func() (bool, string) {
		text, err := os.ReadFile(process.Log)
		require.NoError(t, err)
		n := strings.Count(string(text), says) // who asks it tries again and again
		return n >= 8, fmt.Sprintf("its log says so %d times", n)
	})
	d.underWay(t, id)
	free()
	d.requireDone(t, 2*time.Minute, id)
}

// moveTables moves the tables that runs write most to a folder. PostgreSQL ends itself
// where its log of changes has no room; tables it can do without for a while.
func (d *faultTrial) moveTables(t *testing.T, dir string) {
	t.Helper()
	owner, err := os.Stat(filepath.Join(d.DataDir, "postgres"))
	require.NoError(t, err)
	of := owner.Sys().(*syscall.Stat_t)
	require.NoError(t, os.Chown(dir, int(of.Uid), int(of.Gid)))
	conn, err := pgx.Connect(t.Context(), d.State(t).Database)
	require.NoError(t, err)
	defer conn.Close(t.Context())
	_, err = conn.Exec(t.Context(), fmt.Sprintf("CREATE TABLESPACE small LOCATION '%s'", dir))
	require.NoError(t, err)
	for _, table := range []string{"events", "records", "transcripts", "tool_calls", "model_calls", "executions"} {
		_, err = conn.Exec(t.Context(), fmt.Sprintf("ALTER TABLE orchestrator_%s SET TABLESPACE small", table))
		require.NoError(t, err)
	}
}

// mount mounts a small file system on a folder, for as long as the test.
func mount(t *testing.T, dir string) {
	t.Helper()
	require.NoError(t, os.MkdirAll(dir, 0o750))
	err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=48m,mode=0750")
	if errors.Is(err, fs.ErrPermission) {
		t.Skipf("NOT TESTED: what happens on a full disk. This user may not mount %s, root may: %v", dir, err)
	}
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, syscall.Unmount(dir, syscall.MNT_DETACH)) })
}

// fill takes all the room there is, and returns what gives it back.
func fill(t *testing.T, dir string) (free func()) {
	t.Helper()
	name := filepath.Join(dir, "filler")
	file, err := os.Create(name)
	require.NoError(t, err)
	defer file.Close()
	block := make([]byte, 4096)
	for err == nil {
		_, err = file.Write(block)
	}
	require.ErrorIs(t, err, syscall.ENOSPC)
	return func() { require.NoError(t, os.Remove(name)) }
}
