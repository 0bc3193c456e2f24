package workspace

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestUntrackedListsWhatASetupLeftAndWhatOfItIsNotIgnored(t *testing.T) {
	t.Parallel()
	m := newManager(t)
	repo := newRepo(t, map[string]string{".gitignore": "node_modules/\n*.log\n", "a.txt": "a", "pkg/b.txt": "b"})
	_, ws := start(t, m, repo)
	d, err := m.Open(t.Context(), ws, "1/environment")
	require.NoError(t, err)
	defer d.Close()
	write(t, d.Path(), "node_modules/x/index.js", "1")
	write(t, d.Path(), "pkg/node_modules/y.js", "1")
	write(t, d.Path(), "pkg/out.log", "1")
	write(t, d.Path(), "pkg/made.txt", "1")
	write(t, d.Path(), "new folder*/one", "1")
	write(t, d.Path(), "a.txt", "changed")
	require.NoError(t, os.MkdirAll(filepath.Join(d.Path(), ".git"), 0o755))
	write(t, d.Path(), ".git/config", "[core]")
	all, unignored, err := d.Untracked(t.Context())
	require.NoError(t, err)
	require.ElementsMatch(t, []string{"node_modules/", "pkg/node_modules/", "pkg/out.log", "pkg/made.txt", "new folder*/"}, all)
	require.ElementsMatch(t, []string{"pkg/made.txt", "new folder*/"}, unignored)
}

func TestIgnoredPathsAreNotSavedAndTrackedFilesStillAre(t *testing.T) {
	t.Parallel()
	m := newManager(t)
	repo := newRepo(t, map[string]string{"a.txt": "a", "made/kept.txt": "tracked"})
	_, ws := start(t, m, repo)
	d, err := m.Open(t.Context(), ws, "1/s/1")
	require.NoError(t, err)
	defer d.Close()
	require.NoError(t, d.Ignore([]string{IgnorePattern("new folder*/"), IgnorePattern("pkg.egg-info/"), IgnorePattern("made/"), IgnorePattern("line\n*\nbreak\r")}))
	write(t, d.Path(), "line\n*\nbreak\r", "1")
	write(t, d.Path(), "new folder*/one", "1")
	write(t, d.Path(), "pkg.egg-info/PKG-INFO", "1")
	write(t, d.Path(), "other/pkg.egg-info/x", "an agent's own")
	write(t, d.Path(), "made/kept.txt", "changed")
	after, err := d.Save(t.Context())
	require.NoError(t, err)
	files, err := m.Files(t.Context(), after)
	require.NoError(t, err)
	require.Equal(t, []string{"a.txt", "made/kept.txt", "other/pkg.egg-info/x"}, files)
	diff, err := m.Diff(t.Context(), after, 1<<20)
	require.NoError(t, err)
	require.Contains(t, diff, "+changed")
	require.NoError(t, d.Ignore(nil))
}
