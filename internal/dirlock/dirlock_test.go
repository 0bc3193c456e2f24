package dirlock

import (
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

func TestADirectoryInUseCannotBeClaimed(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	one, err := Use(dir)
	require.NoError(t, err)
	two, err := Use(dir)
	require.NoError(t, err)
	one.Release()
	_, err = Claim(dir)
	require.ErrorIs(t, err, ErrInUse)
	two.Release()
	claim, err := Claim(dir)
	require.NoError(t, err)
	claim.Release()
}

// A child between its fork and its exec has a copy of every open file.
func TestAReleasedDirectoryIsFreeThoughAChildProcessStillSharesItsFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	l, err := Use(dir)
	require.NoError(t, err)
	shared, err := unix.Dup(int(l.file.Fd()))
	require.NoError(t, err)
	t.Cleanup(func() { _ = unix.Close(shared) })
	l.Release()
	claim, err := Claim(dir)
	require.NoError(t, err)
	claim.Release()
}

func TestADirectoryThatIsMissingOrWasReplacedIsNotLocked(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "one")
	_, err := Use(dir)
	require.ErrorIs(t, err, fs.ErrNotExist)
	require.NoError(t, os.Mkdir(dir, 0o700))
	file, err := os.Open(dir)
	require.NoError(t, err)
	defer file.Close()
	require.True(t, isAt(file, dir))
	require.NoError(t, os.Rename(dir, dir+"-gone"))
	require.False(t, isAt(file, dir))
	require.NoError(t, os.Mkdir(dir, 0o700))
	require.False(t, isAt(file, dir))
}
