package rmtree_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/rocketgpt/orchestrator/internal/rmtree"
)

// deep makes a folder of so many levels below dir, which no path reaches.
func deep(t *testing.T, dir string, levels int) {
	t.Helper()
	at, err := unix.Open(dir, unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	require.NoError(t, err)
	for range levels {
		require.NoError(t, unix.Mkdirat(at, "d", 0o755))
		next, err := unix.Openat(at, "d", unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		require.NoError(t, err)
		require.NoError(t, unix.Close(at))
		at = next
	}
	require.NoError(t, unix.Close(at))
}

func TestDirectoriesAreRemovedWhateverTheyContain(t *testing.T) {
	t.Parallel()
	outside := filepath.Join(t.TempDir(), "kept")
	require.NoError(t, os.WriteFile(outside, nil, 0o600))
	for name, fill := range map[string]func(dir string){
		"nothing": func(dir string) { require.NoError(t, os.Remove(dir)) },
		"files":   func(dir string) { require.NoError(t, os.WriteFile(filepath.Join(dir, "a"), nil, 0o000)) },
		"a link": func(dir string) {
			require.NoError(t, os.Symlink(outside, filepath.Join(dir, "file")))
			require.NoError(t, os.Symlink(filepath.Dir(outside), filepath.Join(dir, "folder")))
		},
		"a folder that is closed": func(dir string) {
			require.NoError(t, os.MkdirAll(filepath.Join(dir, "a/b"), 0o755))
			require.NoError(t, os.WriteFile(filepath.Join(dir, "a/b/c"), nil, 0o600))
			require.NoError(t, os.Chmod(filepath.Join(dir, "a/b"), 0))
			require.NoError(t, os.Chmod(filepath.Join(dir, "a"), 0))
		},
		"a tree deeper than paths are long": func(dir string) { deep(t, dir, 3000) },
		"names that are taken": func(dir string) {
			deep(t, dir, 200)
			require.NoError(t, os.MkdirAll(filepath.Join(dir, ".rmtree-1/x"), 0o755))
			require.NoError(t, os.WriteFile(filepath.Join(dir, ".rmtree-2"), nil, 0o600))
		},
		"many folders": func(dir string) {
			for i := range 300 {
				require.NoError(t, os.MkdirAll(filepath.Join(dir, string(rune('a'+i%26)), string(rune('A'+i)), "c/d"), 0o755))
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := filepath.Join(t.TempDir(), "x")
			require.NoError(t, os.Mkdir(dir, 0o755))
			fill(dir)
			require.NoError(t, rmtree.Remove(dir))
			require.NoDirExists(t, dir)
		})
	}
	require.FileExists(t, outside)
	link := filepath.Join(t.TempDir(), "link")
	require.NoError(t, os.Symlink(filepath.Dir(outside), link))
	require.NoError(t, rmtree.Remove(link))
	require.FileExists(t, outside, "a link goes, and not what it leads to")
	require.NoError(t, rmtree.Remove(filepath.Join(link, "not", "there")))
}

func TestWhatCannotBeRemovedKeepsNothingElse(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "x")
	stuck := filepath.Join(dir, "stuck")
	require.NoError(t, os.MkdirAll(stuck, 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(stuck, "file"), nil, 0o600))
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "free/folder"), 0o755))
	if out, err := exec.CommandContext(t.Context(), "chattr", "+i", stuck).CombinedOutput(); err != nil {
		t.Skipf("nothing can be made immutable here: %s", out)
	}
	defer func() { require.NoError(t, exec.Command("chattr", "-i", stuck).Run()) }()
	require.Error(t, rmtree.Remove(dir))
	require.NoDirExists(t, filepath.Join(dir, "free"))
	require.FileExists(t, filepath.Join(stuck, "file"))
}
