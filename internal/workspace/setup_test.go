package workspace

import (
	"os"
	"path/filepath"
	"testing"
	"time"

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

func TestTheVersionOfABaseIsThatOfTheLastReleaseBeforeIt(t *testing.T) {
	t.Parallel()
	m := newManager(t)
	repo := newRepo(t, map[string]string{"a.txt": "a"})
	r, ws := start(t, m, repo)
	version := func(base string) string {
		v, err := m.Version(t.Context(), repo, base)
		require.NoError(t, err)
		return v
	}
	require.Empty(t, version(r.Base))
	userGit(t, repo, "tag", "release-1.10.2")
	write(t, repo, "a.txt", "b")
	userGit(t, repo, "commit", "-qam", "More")
	userGit(t, repo, "tag", "nightly")
	head := userGit(t, repo, "rev-parse", "HEAD")
	userGit(t, repo, "commit", "-q", "--allow-empty", "-m", "Later")
	userGit(t, repo, "tag", "v2.0.0rc1")
	require.Equal(t, "1.10.2", version(r.Base))
	require.Contains(t, []string{"", "1.10.2"}, version(head), "a tag that names no version may hide one that does")

	url := "file://" + repo
	v, err := m.Version(t.Context(), url, ws.Base)
	require.NoError(t, err)
	require.Equal(t, "2.0.0rc1", v, "of another host the highest is known")
	made, err := m.CommitTime(t.Context(), repo, r.Base)
	require.NoError(t, err)
	require.WithinDuration(t, time.Now(), made, 30*365*24*time.Hour)
	require.Positive(t, compareVersions("1.10", "1.9"))
	require.Negative(t, compareVersions("2.0.0rc1", "2.0.1"))
}
