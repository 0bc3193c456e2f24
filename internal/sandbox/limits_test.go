package sandbox

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/internal/await"
	"github.com/rocketgpt/orchestrator/internal/sandbox/sandboxtest"
)

// TestWatchdogBoundsProcesses is for machines where the kernel does not: root on a file
// system that cannot be mapped. The bomb limits itself.
func TestWatchdogBoundsProcesses(t *testing.T) {
	p := isolated(t)
	unmapped := *p
	unmapped.mapUsers = false
	res := runCommand(t, &unmapped, Command{Limits: Limits{Processes: 40},
		Shell: `for i in $(seq 200); do sleep 60 & done; wait`})
	require.Equal(t, LimitProcesses, res.LimitExceeded)
}

func TestWhatIsWrittenToACacheCountsAsDiskSpace(t *testing.T) {
	p := isolated(t)
	dir := sandboxtest.RealDir(t)
	res := runCommand(t, p, Command{
		Shell:   "dd if=/dev/zero of=$GOCACHE/big bs=1M count=64 status=none; sleep 60",
		GoCache: GoCache{Dir: dir}, Limits: Limits{DiskBytes: 16 << 20},
	})
	require.Equal(t, LimitDisk, res.LimitExceeded, "%+v", res)
}

func TestZeroLimitsAreDefaultsAndNegativeOnesNone(t *testing.T) {
	t.Parallel()
	require.Equal(t, DefaultLimits, Limits{}.withDefaults())
	none := Limits{-1, -1, -1, -1, -1, -1, -1}.withDefaults()
	require.Equal(t, Limits{}, none)
	require.Len(t, none.rlimits(), 2, "core dumps and open files are always limited")
	require.EqualValues(t, scratchBytes, none.scratch())
}

func TestDiskWatchCountsWhatChangedAndNothingElse(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	write := func(name string, size int) {
		require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(root, name)), 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(root, name), make([]byte, size), 0o644))
	}
	write("old/big", 1<<20)
	var since time.Time
	await.Until(t, "the file system's clock to move on", func() bool {
		write("probe", 1)
		old, err := os.Stat(filepath.Join(root, "old", "big"))
		require.NoError(t, err)
		probe, err := os.Stat(filepath.Join(root, "probe"))
		require.NoError(t, err)
		since = probe.ModTime()
		return since.Sub(old.ModTime()) > 2*clockSlack
	})
	d := &diskWatch{roots: []string{root}, limit: 1 << 30, since: since, procs: &processes{path: "/nonexistent"}}
	write("new/deep/file", 64<<10)
	require.NoError(t, os.Link(filepath.Join(root, "new", "deep", "file"), filepath.Join(root, "second-name")))
	require.NoError(t, os.Symlink("/usr", filepath.Join(root, "link")))
	got := d.written()
	require.GreaterOrEqual(t, got, int64(64<<10))
	require.Less(t, got, int64(192<<10), "a second name or an old file was counted")
}
