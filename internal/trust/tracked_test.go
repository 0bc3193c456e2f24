package trust_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/internal/trust"
)

func TestTrackedFilesAreListedWithoutRunningAnything(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	data, ran := filepath.Join(dir, ".rgpt"), filepath.Join(dir, "ran")
	git := func(args ...string) {
		out, err := exec.CommandContext(t.Context(), "git", append([]string{"-C", dir, "-c", "user.name=t", "-c", "user.email=t@t"}, args...)...).CombinedOutput()
		require.NoError(t, err, "%s", out)
	}
	require.NoError(t, os.MkdirAll(data, 0o755))
	require.False(t, tracked(t, data), "no repository")
	git("init", "-q")
	require.NoError(t, os.WriteFile(filepath.Join(data, "stack.json"), []byte("{}"), 0o600))
	require.False(t, tracked(t, data), "not added yet")
	git("add", "-A")
	git("config", "core.fsmonitor", "touch "+ran)
	require.True(t, tracked(t, data))
	require.NoFileExists(t, ran, "git ran what the repository's configuration names")

	// A folder that looks like a repository itself hides nothing: git refuses it.
	inner := filepath.Join(dir, "inner")
	for name, text := range map[string]string{"HEAD": "ref: refs/heads/main\n", "config": "[core]\n\tbare = true\n", "objects/x": "", "refs/x": "", ".rgpt/x": ""} {
		require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(inner, name)), 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(inner, name), []byte(text), 0o600))
	}
	git("config", "--unset", "core.fsmonitor")
	git("add", "-A")
	_, err := trust.Tracked(filepath.Join(inner, ".rgpt"))
	require.ErrorContains(t, err, "safe.bareRepository")
	// What git cannot tell is an error.
	require.NoError(t, os.WriteFile(filepath.Join(dir, ".git", "config"), []byte("[["), 0o600))
	_, err = trust.Tracked(data)
	require.Error(t, err)
}

func tracked(t *testing.T, path string) bool {
	t.Helper()
	yes, err := trust.Tracked(path)
	require.NoError(t, err)
	return yes
}
