package workspace

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

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
