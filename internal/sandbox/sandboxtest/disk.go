package sandboxtest

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/rocketgpt/orchestrator/internal/rmtree"
)

// DiskDir returns a directory on ext4 that is removed at the end of the test: temporary directories of tests may
// be on tmpfs. It skips the test if neither they nor the user's cache are on ext4.
func DiskDir(tb testing.TB) string {
	tb.Helper()
	dir := tb.TempDir()
	if isExt4(dir) {
		return dir
	}
	cache, err := os.UserCacheDir()
	require.NoError(tb, err)
	cache = filepath.Join(cache, "rgpt-disk-test")
	require.NoError(tb, os.MkdirAll(cache, 0o700))
	if !isExt4(cache) {
		tb.Skip("no directory for tests is on ext4")
	}
	dir, err = os.MkdirTemp(cache, "") //nolint:usetesting // not below TMPDIR
	require.NoError(tb, err)
	tb.Cleanup(func() { require.NoError(tb, rmtree.Remove(dir)) })
	return dir
}

func isExt4(dir string) bool {
	var stat unix.Statfs_t
	return unix.Statfs(dir, &stat) == nil && int64(stat.Type) == unix.EXT4_SUPER_MAGIC //nolint:unconvert // its size depends on the architecture
}
