package control

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/internal/config"
	"github.com/rocketgpt/orchestrator/internal/setup"
	"github.com/rocketgpt/orchestrator/test/harness"
)

func TestARepositorysConfigurationIsThatOfTheCommitWhichARunStartsFrom(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	repo := harness.Repo(t, filepath.Join(dir, "repo"), map[string]string{"rgpt.yaml": "execution: {max_retries: 1}\n"})
	harness.Git(t, repo, "branch", "before")
	// Uncommitted: less strict, and refused if it were read.
	require.NoError(t, os.WriteFile(filepath.Join(repo, "rgpt.yaml"), []byte("findings: {max_major: 1000}\n"), 0o644))
	blobs, err := setup.Artifacts(t.Context(), config.Default(), dir)
	require.NoError(t, err)
	defer blobs.Close()
	workspaces, err := setup.Workspaces(config.Default(), dir, blobs)
	require.NoError(t, err)
	read := func(base string) (*config.Config, error) {
		at, info, err := workspaces.Resolve(t.Context(), repo, base)
		require.NoError(t, err)
		start, err := workspaces.Start(t.Context(), at)
		require.NoError(t, err)
		return repositoryConfig(t.Context(), workspaces, config.Default(), start, info)
	}
	cfg, err := read("")
	require.NoError(t, err)
	require.Equal(t, 1, cfg.Execution.MaxRetries)
	require.Zero(t, cfg.Findings.MaxMajor)

	harness.Git(t, repo, "commit", "-qam", "Allow more")
	_, err = read("")
	require.ErrorContains(t, err, filepath.Join(repo, "rgpt.yaml")+":1: findings.max_major: a repository may lower this but not raise it")
	cfg, err = read("before")
	require.NoError(t, err)
	require.Equal(t, 1, cfg.Execution.MaxRetries)
}
