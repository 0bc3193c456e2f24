package ext4_test

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/rocketgpt/orchestrator/internal/ext4"
)

// apart returns how many subdirectories, of twenty new ones, have inode numbers far from those before them.
func apart(t *testing.T, dir string) int {
	t.Helper()
	const far = 1000
	var last int64
	n := 0
	for i := range 20 {
		sub := filepath.Join(dir, fmt.Sprint("sub-", i))
		require.NoError(t, os.Mkdir(sub, 0o755))
		info, err := os.Stat(sub)
		require.NoError(t, err)
		stat, ok := info.Sys().(*syscall.Stat_t)
		require.True(t, ok)
		if number := int64(stat.Ino); last-number > far || number-last > far { //nolint:gosec // below 2^32 on ext4
			n++
			last = number
		}
	}
	return n
}

func TestSubdirectoriesArePlacedFarApartOnlyOnExt4WithoutAJournal(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	spread, plain := filepath.Join(dir, "spread"), filepath.Join(dir, "plain")
	require.NoError(t, os.Mkdir(spread, 0o755))
	require.NoError(t, os.Mkdir(plain, 0o755))
	ext4.SpreadSubdirectories(spread)
	ext4.SpreadSubdirectories(spread) // changes nothing
	file, err := os.Open(spread)
	require.NoError(t, err)
	defer file.Close()
	if fd := int(file.Fd()); !ext4.WithoutJournal(fd) {
		flags, err := unix.IoctlGetUint32(fd, unix.FS_IOC_GETFLAGS) // an error: the file system has none
		require.True(t, err != nil || flags&ext4.TopDirectory == 0, "other file systems are left alone")
		return
	}
	require.Greater(t, apart(t, spread), 2*apart(t, plain))
}

func TestOtherFileSystemsAndMissingDirectoriesAreLeftAlone(t *testing.T) {
	t.Parallel()
	ext4.SpreadSubdirectories(filepath.Join(t.TempDir(), "missing"))
	ext4.SpreadSubdirectories("/proc")
}
