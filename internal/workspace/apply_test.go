package workspace

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/fault"
)

func TestAPatchIsAppliedWithoutAWorkTree(t *testing.T) {
	t.Parallel()
	repo := newRepo(t, map[string]string{"a": "one\n", "b": "two\n"})
	write(t, repo, "a", "1\n")
	require.NoError(t, os.Symlink("/etc/passwd", filepath.Join(repo, "link")))
	userGit(t, repo, "add", "-A")
	patch := userGit(t, repo, "diff", "--binary", "--cached") + "\n"
	userGit(t, repo, "reset", "-q", "--hard")
	before := snapshot(t, repo)

	m := newManager(t)
	_, base := start(t, m, repo)
	ws, err := m.Apply(t.Context(), base, []byte(patch))
	require.NoError(t, err)
	require.Equal(t, before, snapshot(t, repo), "the work tree or its git directory changed")
	entries, leftOut, err := m.ChangedEntries(t.Context(), base, ws, EntryLimits{Files: 10, File: 100, Bytes: 100})
	require.NoError(t, err)
	require.Zero(t, leftOut)
	require.Len(t, entries, 2)
	require.Equal(t, "1\n", string(entries[0].After.Content))
	require.Equal(t, "120000", entries[1].After.Mode)

	for _, bad := range []string{"nonsense", patch + patch, "diff --git a/../x b/../x\nnew file mode 100644\n--- /dev/null\n+++ b/../x\n@@ -0,0 +1 @@\n+x\n", "diff --git a/.git/config b/.git/config\nnew file mode 100644\n--- /dev/null\n+++ b/.git/config\n@@ -0,0 +1 @@\n+x\n"} {
		_, err = m.Apply(t.Context(), base, []byte(bad))
		require.ErrorContains(t, err, "does not apply", bad)
		require.Equal(t, contract.ClassHuman, fault.Of(err).Class)
	}
}
