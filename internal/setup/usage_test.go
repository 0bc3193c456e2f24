package setup_test

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/internal/config"
	"github.com/rocketgpt/orchestrator/internal/setup"
)

func TestTheUsageOfAHostNamesWhatTakesSpaceAndWhoRemovesIt(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	put := func(name string, kib int) string {
		path := filepath.Join(dir, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
		require.NoError(t, os.WriteFile(path, bytes.Repeat([]byte("x"), kib<<10), 0o600))
		return path
	}
	put("cache/dirs/42+step/file", 100)
	put("cache/spares/aa/bb/file", 200)
	linked := put("cache/environments/aa/file", 300)
	require.NoError(t, os.Link(linked, filepath.Join(dir, "cache/environments/aa/again")))
	put("cache/locks/42.lock", 0)
	put("artifacts/ab/cd", 500)
	put("postgres/base", 700)
	require.NoError(t, os.Symlink("/usr", filepath.Join(dir, "cache/dirs/elsewhere")))

	cfg := config.Default()
	list, err := setup.UsageOfHost(t.Context(), cfg, dir)
	require.NoError(t, err)
	sizes := map[string]int64{}
	for _, u := range list {
		sizes[u.Kind] = u.Bytes >> 10
		require.NotEmpty(t, u.Removed)
	}
	for kind, kib := range map[string]int64{"working directories": 100, "working directories for readers and for later runs": 200, "unpacked environments": 300, "contents of files": 500, "everything else": 700} {
		require.InDelta(t, kib, sizes[kind], 60, "%s: directories take a little space, linked files and targets of links do not count", kind)
	}
	require.NotContains(t, sizes, "build caches", "there are none")
	require.Equal(t, cfg.Environment.Disk.Int64(), list[2].Limit)
	require.Contains(t, list[2].Removed, "after 30 days without use")

	cfg.Artifacts.URL = "s3://elsewhere"
	list, err = setup.UsageOfHost(t.Context(), cfg, dir)
	require.NoError(t, err)
	require.Equal(t, "everything else", list[3].Kind, "the contents that are in the bucket are not here")
}
