package forgetest_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/rocketgpt/orchestrator/internal/forge/forgetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func git(t *testing.T, dir string, args ...string) (string, error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "git", args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null", "GIT_TERMINAL_PROMPT=0",
		"GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@b", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@b")
	out, err := cmd.CombinedOutput()
	return strings.TrimSpace(string(out)), err
}

func TestGitClonesAndPushesOverHTTP(t *testing.T) {
	t.Parallel()
	hub := forgetest.NewGitHub(t)
	repo := hub.Repository("octo/app")
	with := func(token string) string {
		return strings.Replace(hub.Remote("octo/app"), "http://", "http://x-access-token:"+token+"@", 1)
	}
	dir := filepath.Join(t.TempDir(), "clone")
	out, err := git(t, t.TempDir(), "clone", "--quiet", with(forgetest.BotToken), dir)
	require.NoError(t, err, out)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "a.txt"), []byte("a\n"), 0o600))
	for _, args := range [][]string{{"checkout", "--quiet", "-b", "feature/x"}, {"add", "."}, {"commit", "--quiet", "-m", "Add a"}, {"push", "--quiet", "origin", "feature/x"}} {
		out, err = git(t, dir, args...)
		require.NoError(t, err, out)
	}
	head, err := git(t, dir, "rev-parse", "HEAD")
	require.NoError(t, err)
	require.Equal(t, head, repo.Head("feature/x"))
	_, err = git(t, dir, "ls-remote", with("tok-wrong"))
	require.Error(t, err)
	_, err = git(t, dir, "ls-remote", hub.Remote("octo/app"))
	require.Error(t, err, "the repository is private")
}
