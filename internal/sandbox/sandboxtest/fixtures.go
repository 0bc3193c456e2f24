package sandboxtest

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// CanarySecret is in the environment of test processes, as keys are in that of a worker.
const CanarySecret = "canary-4f1c-must-not-leak"

// ProcessesWith lists host processes whose command line holds a marker.
func ProcessesWith(t *testing.T, marker string) []string {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	require.NoError(t, err)
	var found []string
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err == nil && bytes.Contains(data, []byte(marker)) && !strings.HasPrefix(file, fmt.Sprintf("/proc/%d/", os.Getpid())) {
			found = append(found, file+": "+string(bytes.ReplaceAll(data, []byte{0}, []byte{' '})))
		}
	}
	return found
}

// HashTree changes when anything in a directory does.
func HashTree(t *testing.T, dir string) string {
	t.Helper()
	sum := sha256.New()
	require.NoError(t, filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		fmt.Fprintln(sum, path, info.Mode(), info.ModTime().UnixNano(), info.Size())
		if info.Mode().IsRegular() {
			data, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			sum.Write(data)
		}
		return nil
	}))
	return hex.EncodeToString(sum.Sum(nil))
}

// RealDir returns a new directory, by its path without symbolic links.
func RealDir(t *testing.T) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	return dir
}

// WriteFiles writes files below a directory.
func WriteFiles(t *testing.T, root string, files map[string]string) {
	t.Helper()
	for name, content := range files {
		path := filepath.Join(root, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, []byte(content), 0o644))
	}
}

// Mkdir makes a directory and returns its path.
func Mkdir(t *testing.T, elements ...string) string {
	t.Helper()
	path := filepath.Join(elements...)
	require.NoError(t, os.MkdirAll(path, 0o755))
	return path
}

// OwnDisk is a directory on a file system that nothing else uses: what others free there
// would make up for what a command hides.
func OwnDisk(t *testing.T) string {
	t.Helper()
	if os.Geteuid() == 0 {
		dir := t.TempDir()
		MountMemory(t, dir)
		return dir
	}
	dir, err := os.MkdirTemp("/dev/shm", "rgpt-sandbox-") //nolint:usetesting // the disk of t.TempDir is everybody's
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// MountMemory mounts an in-memory file system until the test ends.
func MountMemory(t *testing.T, dir string) {
	t.Helper()
	require.NoError(t, unix.Mount("tmpfs", dir, "tmpfs", 0, "size=64m"))
	t.Cleanup(func() { _ = unix.Unmount(dir, unix.MNT_DETACH) })
}
