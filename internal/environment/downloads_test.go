package environment

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/internal/config"
)

// downloading is a draft and what a set-up left in its home.
func downloading(t *testing.T, s Store, files map[string]string) *Draft {
	t.Helper()
	draft, err := s.New()
	require.NoError(t, err)
	t.Cleanup(draft.Discard)
	for name, text := range files {
		p := filepath.Join(draft.Home(), name)
		require.NoError(t, os.MkdirAll(filepath.Dir(p), 0o755))
		require.NoError(t, os.WriteFile(p, []byte(text), 0o600))
	}
	return draft
}

func TestDownloadsGoFromOneSetUpToTheNextAndIntoNoEnvironment(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	store, downloads := At(filepath.Join(dir, "environments")), DownloadsAt(filepath.Join(dir, "downloads"))
	folders := []string{".cache/pip", ".npm"}
	first := downloading(t, store, map[string]string{".cache/pip/wheel": "1", ".cache/other": "2", ".npm/a": "3"})
	require.NoError(t, downloads.Take("repository", folders, first), "there is nothing yet")
	require.NoError(t, downloads.Put(t.Context(), "repository", folders, first, 1<<20))
	require.NoFileExists(t, filepath.Join(first.Home(), ".cache/pip/wheel"), "it is not part of the environment")
	require.FileExists(t, filepath.Join(first.Home(), ".cache/other"))

	other := downloading(t, store, nil)
	require.NoError(t, downloads.Take("another repository", folders, other))
	require.NoDirExists(t, filepath.Join(other.Home(), ".npm"))

	second := downloading(t, store, nil)
	require.NoError(t, downloads.Take("repository", folders, second))
	content, err := os.ReadFile(filepath.Join(second.Home(), ".cache/pip/wheel"))
	require.NoError(t, err)
	require.Equal(t, "1", string(content))
	require.NoError(t, os.WriteFile(filepath.Join(second.Home(), ".npm/a"), []byte(strings.Repeat("x", 1<<20)), 0o600))
	require.NoError(t, downloads.Put(t.Context(), "repository", folders, second, 1<<19))

	third := downloading(t, store, nil)
	require.NoError(t, downloads.Take("repository", folders, third))
	require.FileExists(t, filepath.Join(third.Home(), ".cache/pip/wheel"))
	require.NoDirExists(t, filepath.Join(third.Home(), ".npm"), "it was too large to keep")
}

func TestALinkThatASetUpLeftForItsDownloadsIsNotKept(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	store, downloads := At(filepath.Join(dir, "environments")), DownloadsAt(filepath.Join(dir, "downloads"))
	outside := filepath.Join(dir, "outside")
	require.NoError(t, os.MkdirAll(filepath.Join(outside, "pip"), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(outside, "pip/key"), []byte("of the host"), 0o600))
	draft := downloading(t, store, nil)
	require.NoError(t, os.Symlink(outside, filepath.Join(draft.Home(), ".cache")))
	require.NoError(t, os.Symlink(filepath.Join(outside, "pip"), filepath.Join(draft.Home(), ".npm")))
	require.NoError(t, downloads.Put(t.Context(), "repository", []string{".cache/pip", ".npm"}, draft, 1<<20))
	require.FileExists(t, filepath.Join(outside, "pip/key"))
	next := downloading(t, store, nil)
	require.NoError(t, downloads.Take("repository", []string{".cache/pip", ".npm"}, next))
	entries, err := os.ReadDir(next.Home())
	require.NoError(t, err)
	require.Empty(t, entries)
}

func TestOldDownloadsAreRemoved(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	store, downloads := At(filepath.Join(dir, "environments")), DownloadsAt(filepath.Join(dir, "downloads"))
	for _, key := range []string{"old", "young"} {
		require.NoError(t, downloads.Put(t.Context(), key, []string{".npm"}, downloading(t, store, map[string]string{".npm/a": "1"}), 1<<20))
	}
	long := time.Now().Add(-time.Hour)
	require.NoError(t, os.Chtimes(filepath.Join(dir, "downloads/old"), long, long))
	require.NoError(t, downloads.Sweep(t.Context(), time.Minute, 1<<30))
	require.NoDirExists(t, filepath.Join(dir, "downloads/old"))
	require.DirExists(t, filepath.Join(dir, "downloads/young"))
}

func TestDownloadsOfAllRepositoriesHaveABoundAndTheLongestUnusedGoFirst(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	store, downloads := At(filepath.Join(dir, "environments")), DownloadsAt(filepath.Join(dir, "downloads"))
	const each = 1 << 20
	for i, key := range []string{"third", "second", "first"} {
		files := map[string]string{".npm/a": strings.Repeat("x", each)}
		require.NoError(t, downloads.Put(t.Context(), key, []string{".npm"}, downloading(t, store, files), 2*each))
		at := time.Now().Add(time.Duration(i-3) * time.Minute)
		require.NoError(t, os.Chtimes(filepath.Join(dir, "downloads", key), at, at))
	}
	require.NoError(t, downloads.Sweep(t.Context(), time.Hour, 2*each+each/2))
	require.NoDirExists(t, filepath.Join(dir, "downloads/third"))
	require.DirExists(t, filepath.Join(dir, "downloads/second"))
	require.DirExists(t, filepath.Join(dir, "downloads/first"))
}

func TestAKeyHasOneBoundAndOnlyTheFoldersThatItsLastSetUpNamed(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	store, downloads := At(filepath.Join(dir, "environments")), DownloadsAt(filepath.Join(dir, "downloads"))
	const each = 1 << 20
	for i := range 5 { // such as a repository whose rgpt.yaml names another folder each time
		folder := fmt.Sprint(".cache-", i)
		draft := downloading(t, store, map[string]string{folder + "/a": strings.Repeat("x", each)})
		require.NoError(t, downloads.Put(t.Context(), "repository", []string{folder}, draft, 2*each))
	}
	entries, err := os.ReadDir(filepath.Join(dir, "downloads/repository"))
	require.NoError(t, err)
	require.Len(t, entries, 1)

	draft := downloading(t, store, map[string]string{".a/x": strings.Repeat("x", each), ".b/x": strings.Repeat("x", each), ".c/x": "small"})
	require.NoError(t, downloads.Put(t.Context(), "repository", []string{".a", ".b", ".c"}, draft, each+each/2))
	entries, err = os.ReadDir(filepath.Join(dir, "downloads/repository"))
	require.NoError(t, err)
	require.Len(t, entries, 2, "together they fit")
	home, err := os.ReadDir(draft.Home())
	require.NoError(t, err)
	require.Empty(t, home, "what does not fit is no part of the environment either")

	stopped, cancel := context.WithCancel(t.Context())
	cancel()
	draft = downloading(t, store, map[string]string{".a/x": strings.Repeat("x", each)})
	require.Error(t, downloads.Put(stopped, "repository", []string{".a"}, draft, each/2))
	require.NoDirExists(t, filepath.Join(dir, "downloads/repository/.a"), "it was not measured")
}

func TestFoldersToKeepLieBelowTheHome(t *testing.T) {
	t.Parallel()
	for entry, want := range map[string]string{"~/.npm": ".npm", ".cache/pip/": ".cache/pip", "~": "", "~/": "", ".": "", "..": "", "~/../x": "", "/etc": "", "a/../../b": "", "a\nb": ""} {
		folder, ok := config.HomeFolder(entry)
		require.Equal(t, want != "", ok, entry)
		if ok {
			require.Equal(t, want, folder)
		}
	}
	r := findWith(t, "-- package.json --\n{}\n", Settings{Cache: []string{"~/.npm", "/etc"}})
	require.Equal(t, []string{".npm"}, r.Cache)
	require.Contains(t, string(r.YAML()), "cache:\n    - ~/.npm")
}
