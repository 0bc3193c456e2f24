package workspace

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/fault"
)

// released is a repository with a released branch.
func released(t *testing.T) (m *Manager, repo, commit string, c Continued) {
	t.Helper()
	m, repo, r, stages, messages := release(t)
	commit, err := m.Commits(t.Context(), r, stages, messages)
	require.NoError(t, err)
	require.NoError(t, m.Publish(t.Context(), r, commit, "rgpt/run-1", PublishOptions{}))
	return m, repo, commit, Continued{Branch: "rgpt/run-1", Released: commit, Into: "main"}
}

// commitOn adds a commit of a person to a branch.
func commitOn(t *testing.T, repo, branch, file string) string {
	t.Helper()
	userGit(t, repo, "checkout", "-q", branch)
	write(t, repo, file, "by hand\n")
	userGit(t, repo, "add", "-A")
	userGit(t, repo, "commit", "-qm", "By hand")
	userGit(t, repo, "checkout", "-q", "main")
	return userGit(t, repo, "rev-parse", branch)
}

func TestABranchIsContinuedFromWherePeopleLeftIt(t *testing.T) {
	t.Parallel()
	m, repo, commit, c := released(t)
	head, err := m.Head(t.Context(), repo, c)
	require.NoError(t, err)
	require.Equal(t, commit, head)
	mine := commitOn(t, repo, "rgpt/run-1", "person.txt")
	for _, of := range []string{repo, "file://" + repo} {
		head, err = m.Head(t.Context(), of, c)
		require.NoError(t, err, of)
		require.Equal(t, mine, head, of)
	}
	r, _ := start(t, m, repo)
	r.Base = mine
	ws, err := m.Start(t.Context(), r)
	require.NoError(t, err)
	next := edit(t, m, ws, "2", func(dir string) { write(t, dir, "three.txt", "3\n") })
	more, err := m.Commits(t.Context(), r, []contract.Workspace{next}, []CommitMessage{{Subject: "Add three"}})
	require.NoError(t, err)
	require.NoError(t, m.CheckContinued(t.Context(), r, "rgpt/run-1", ""))
	require.NoError(t, m.Publish(t.Context(), r, more, "rgpt/run-1", PublishOptions{Replaces: mine}))
	require.Equal(t, "Add three\nBy hand\nAdd two\nAdd one\nfirst", userGit(t, repo, "log", "--format=%s", "rgpt/run-1"))
	err = m.CheckContinued(t.Context(), r, "rgpt/run-1", "")
	require.True(t, fault.Is(err, contract.CodeBranchConflict), "%v", err)
}

func TestABranchThatCannotBeContinuedIsRefusedWithWhatToDo(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		change func(t *testing.T, repo string, c *Continued)
		says   string
	}{
		"deleted":     {func(t *testing.T, repo string, _ *Continued) { userGit(t, repo, "branch", "-D", "rgpt/run-1") }, "no longer exists"},
		"rewritten":   {func(t *testing.T, repo string, _ *Continued) { userGit(t, repo, "branch", "-f", "rgpt/run-1", "main") }, "does not contain the released commit"},
		"merged":      {func(t *testing.T, repo string, _ *Continued) { userGit(t, repo, "merge", "-q", "rgpt/run-1") }, "already merged into main"},
		"checked out": {func(t *testing.T, repo string, _ *Continued) { userGit(t, repo, "checkout", "-q", "rgpt/run-1") }, "is checked out in"},
		"ahead at the remote": {func(t *testing.T, repo string, c *Continued) {
			c.Remote = filepath.Join(t.TempDir(), "origin.git")
			userGit(t, repo, "clone", "-q", "--bare", repo, c.Remote)
			commitOn(t, repo, "rgpt/run-1", "more.txt")
			userGit(t, repo, "push", "-q", c.Remote, "rgpt/run-1")
			userGit(t, repo, "branch", "-f", "rgpt/run-1", c.Released)
		}, "make both equal"},
		"gone at the remote": {func(t *testing.T, repo string, c *Continued) {
			c.Remote = filepath.Join(t.TempDir(), "origin.git")
			userGit(t, repo, "clone", "-q", "--bare", repo, c.Remote)
			userGit(t, c.Remote, "branch", "-D", "rgpt/run-1")
		}, "no longer exists at"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m, repo, _, c := released(t)
			test.change(t, repo, &c)
			_, err := m.Head(t.Context(), repo, c)
			require.True(t, fault.Is(err, contract.CodeBranchConflict), "%v", err)
			require.ErrorContains(t, err, test.says)
		})
	}
}
