package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/internal/config"
	"github.com/rocketgpt/orchestrator/internal/trust"
)

func TestTrustStoresTheCurrentFilesOfAFolder(t *testing.T) {
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
	data := filepath.Join(dir, ".rgpt")
	require.NoError(t, os.Mkdir(data, 0o700))
	require.Contains(t, p.ok(t, "trust", data).out, "Trusted: the data folder")
	owner, err := os.ReadFile(filepath.Join(data, "owner"))
	require.NoError(t, err)
	require.True(t, list.Trusts(filepath.Join(data, "owner"), owner))
	p.ok(t, "trust", "--remove", data)
	require.False(t, list.Trusts(filepath.Join(data, "owner"), owner))
	require.False(t, list.Trusts(file, []byte(mine)))
	require.False(t, list.Trusts(local, []byte("{}\n")))
}

// Not parallel: the current folder belongs to the process.
func TestADataFolderThatARepositoryBringsIsUsedByNoCommand(t *testing.T) {
	clone, victim := t.TempDir(), filepath.Join(t.TempDir(), "victim")
	require.NoError(t, os.MkdirAll(filepath.Join(clone, ".rgpt"), 0o755))
	require.NoError(t, os.Symlink(victim, filepath.Join(clone, ".rgpt", "lock")))
	for _, args := range [][]string{{"init", "-q"}, {"add", "-A"}} {
		out, err := exec.CommandContext(t.Context(), "git", append([]string{"-C", clone}, args...)...).CombinedOutput()
		require.NoError(t, err, "%s", out)
	}
	t.Chdir(clone)
	for _, args := range [][]string{{"run", "list"}, {"dev"}, {"dev", "status"}, {"dev", "stop"}, {"server"}} {
		var out, errs bytes.Buffer
		a := newApp(strings.NewReader(""), &out, &errs)
		a.env = []string{"TEMPORAL_ADDRESS=127.0.0.1:1", "DATABASE_URL=postgres://nobody@127.0.0.1:1/x", "PATH=" + os.Getenv("PATH")}
		require.Equal(t, exitInput, execute(t.Context(), a, args), "%v: %s", args, &errs)
		require.Contains(t, errs.String(), "git tracks files in", "%v", args)
	}
	require.NoFileExists(t, victim)
}
