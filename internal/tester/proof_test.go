package tester

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTheTestsOfAChangeAreLaidOutWhereFilesBecameFoldersAndFoldersFiles(t *testing.T) {
	t.Parallel()
	from, to := t.TempDir(), t.TempDir()
	write := func(root, name string) {
		t.Helper()
		path := filepath.Join(root, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, []byte("in "+filepath.Base(root)), 0o644))
	}
	// A folder that becomes a file: the file comes first in the list.
	write(from, "testdata/want")
	write(to, "testdata/want/old")
	// A file, and links, that become folders.
	write(from, "tests/a.test.js")
	write(to, "tests")
	write(from, "e2e/deep/a.test.js")
	require.NoError(t, os.Symlink("/nowhere", filepath.Join(to, "e2e")))
	write(from, "spec/a.test.js")
	write(to, "fixtures/a.test.js")
	require.NoError(t, os.Symlink("fixtures", filepath.Join(to, "spec")))
	for _, f := range []struct {
		name   string
		exists bool
	}{
		{"e2e/deep/a.test.js", true}, {"spec/a.test.js", true}, {"testdata/want", true}, {"testdata/want/old", false}, {"tests/a.test.js", true},
	} {
		require.NoError(t, transfer(from, to, f.name, f.exists), f.name)
		if f.exists {
			text, err := os.ReadFile(filepath.Join(to, f.name))
			require.NoError(t, err)
			require.Equal(t, "in "+filepath.Base(from), string(text), f.name)
		}
	}
	text, err := os.ReadFile(filepath.Join(to, "fixtures/a.test.js"))
	require.NoError(t, err)
	require.Equal(t, "in "+filepath.Base(to), string(text), "what a link led to stays as it was")
}
