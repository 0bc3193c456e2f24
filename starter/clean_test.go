package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/internal/backend"
	"github.com/rocketgpt/orchestrator/internal/config"
	"github.com/rocketgpt/orchestrator/internal/control"
	"github.com/rocketgpt/orchestrator/internal/retention"
	"github.com/rocketgpt/orchestrator/internal/store/retain"
)

func TestADryRunOfEverythingListsWhatElseTakesSpaceOnThisHost(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	cache := filepath.Join(dir, "cache", "build", "repos")
	require.NoError(t, os.MkdirAll(cache, 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(cache, "x"), bytes.Repeat([]byte("x"), 1<<20), 0o600))
	local := &backend.Local{Runs: &control.Runs{Config: config.Default(), DataDir: dir}}
	shown := func(c control.Cleaning, json bool) string {
		var out, errs bytes.Buffer
		a := newApp(strings.NewReader(""), &out, &errs)
		a.json = json
		a.printCleaned(retention.CleanupReport{DryRun: c.DryRun, Over: 5 << 20}, a.hostUsage(t.Context(), local, c))
		require.Empty(t, errs.String())
		return out.String()
	}
	all := shown(control.Cleaning{DryRun: true}, false)
	require.Regexp(t, `build caches +1\.0 MiB +\d+\.0 GiB +by the worker, after \d+ days without use`, all)
	require.Contains(t, all, "The maximum size is exceeded by 5.0 MiB of files that may not be deleted")
	require.Contains(t, shown(control.Cleaning{DryRun: true}, true), `"kind": "build caches"`)
	require.NotContains(t, shown(control.Cleaning{}, false), "build caches", "a clean-up does not wait for that")
	require.NotContains(t, shown(control.Cleaning{DryRun: true, Only: []retain.Kind{retain.Logs}}, false), "build caches", "nobody asked")
}
