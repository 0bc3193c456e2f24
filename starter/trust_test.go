package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/internal/config"
	"github.com/rocketgpt/orchestrator/internal/trust"
)

func TestTrustRemembersTheFilesOfAFolderAsTheyAre(t *testing.T) {
	t.Parallel()
	p := empty(t)
	home, dir := t.TempDir(), t.TempDir()
	p.env = append(p.env, "XDG_CONFIG_HOME="+home)
	list := trust.At(filepath.Join(home, "rgpt", "trusted"))
	file, local := filepath.Join(dir, config.FileName), filepath.Join(dir, config.LocalName)
	require.NotZero(t, p.run(t, "trust", dir).code, "there is nothing to trust")

	const mine = "execution: {max_retries: 5}\n"
	require.NoError(t, os.WriteFile(file, []byte("execution: {max_retries: many}\n"), 0o600))
	require.Contains(t, p.run(t, "trust", dir).errs, "execution.max_retries", "what has mistakes is not trusted")
	require.NoError(t, os.WriteFile(file, []byte(mine), 0o600))
	require.NoError(t, os.WriteFile(local, []byte("{}\n"), 0o600))
	require.Contains(t, p.ok(t, "trust", dir).out, file)
	require.True(t, list.Trusts(file, []byte(mine)))
	require.True(t, list.Trusts(local, []byte("{}\n")))
	p.ok(t, "trust", "--remove", dir)
	require.False(t, list.Trusts(file, []byte(mine)))
	require.False(t, list.Trusts(local, []byte("{}\n")))
}

func TestADataFolderThatARepositoryBringsIsNotUsed(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	data, ran := filepath.Join(dir, ".rgpt"), filepath.Join(dir, "ran")
	git := func(args ...string) {
		out, err := exec.CommandContext(t.Context(), "git", append([]string{"-C", dir, "-c", "user.name=t", "-c", "user.email=t@t"}, args...)...).CombinedOutput()
		require.NoError(t, err, "%s", out)
	}
	require.NoError(t, os.MkdirAll(data, 0o755))
	require.False(t, tracked(data), "no repository")
	git("init", "-q")
	require.NoError(t, os.WriteFile(filepath.Join(data, "stack.json"), []byte("{}"), 0o600))
	require.False(t, tracked(data), "not added yet")
	git("add", "-A")
	git("config", "core.fsmonitor", "touch "+ran)
	require.True(t, tracked(data))
	require.NoFileExists(t, ran, "git ran what the repository's configuration names")
}
