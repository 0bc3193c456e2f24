package workspace

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/fault"
)

func TestOnlyTheSameCommitsOnANewerBaseAreARebase(t *testing.T) {
	t.Parallel()
	m := newManager(t)
	repo := newRepo(t, map[string]string{"README.md": "x\n"})
	git := func(args ...string) string { return userGit(t, repo, args...) }
	commit := func(file, text, message string) string {
		write(t, repo, file, text)
		git("add", "-A")
		git("commit", "-qm", message)
		return git("rev-parse", "HEAD")
	}
	begin := git("rev-parse", "main")
	git("checkout", "-qb", "topic")
	commit("a.txt", "a\n", "Add a")
	approved := commit("a.txt", "a\nb\n", "Add b")
	git("checkout", "-q", "main")
	tip := commit("other.txt", "x\n", "Meanwhile")
	same := func(to string) bool {
		t.Helper()
		got, err := m.Rebased(t.Context(), repo, tip, approved, to)
		require.NoError(t, err)
		return got
	}
	on := func(name string, change func()) string {
		t.Helper()
		git("checkout", "-q", "-B", name, "topic")
		git("rebase", "-q", "main")
		change()
		return git("rev-parse", "HEAD")
	}
	require.True(t, same(on("rebased", func() {})))
	require.True(t, same(approved), "nothing has changed")
	require.False(t, same(on("added", func() { commit("more.txt", "x\n", "More") })), "another commit")
	require.False(t, same(on("amended", func() { write(t, repo, "a.txt", "a\nc\n"); git("commit", "-qa", "--amend", "--no-edit") })), "other files")
	require.False(t, same(on("spaces", func() { write(t, repo, "a.txt", "a\n b\n"); git("commit", "-qa", "--amend", "--no-edit") })), "other white space")
	require.False(t, same(on("message", func() { git("commit", "-q", "--amend", "-m", "Another") })), "another message")
	require.False(t, same(on("author", func() { git("commit", "-q", "--amend", "--no-edit", "--author", "Mallory <m@example.com>") })), "another author")
	require.False(t, same(on("squashed", func() { git("reset", "-q", "--soft", "HEAD~2"); git("commit", "-qm", "Add b") })), "other commits")
	require.False(t, same(on("between", func() {
		git("reset", "-q", "--hard", "main")
		commit("a.txt", "secret\n", "Add a")
		commit("a.txt", "a\nb\n", "Add b")
	})), "the files of a commit before the last one count too")
	require.False(t, same(begin), "it has no change")
	_, err := m.Rebased(t.Context(), repo, tip, "1111111111111111111111111111111111111111", approved)
	require.True(t, fault.Is(err, contract.CodeRepository), "%v", err)
}

func TestARebaseOntoAnOlderBaseWouldBringBackWhatWasReverted(t *testing.T) {
	t.Parallel()
	m := newManager(t)
	repo := newRepo(t, map[string]string{"f.txt": "x\n"})
	git := func(args ...string) string { return userGit(t, repo, args...) }
	older := git("rev-parse", "main")
	git("rm", "-q", "f.txt")
	git("commit", "-qm", "Remove f")
	git("checkout", "-qb", "topic")
	write(t, repo, "a.txt", "a\n")
	git("add", "-A")
	git("commit", "-qm", "Add a")
	approved := git("rev-parse", "HEAD")
	git("checkout", "-q", "main")
	git("revert", "--no-edit", "HEAD")
	tip := git("rev-parse", "main")
	git("checkout", "-q", "-B", "moved", "topic")
	git("reset", "-q", "--soft", older)
	git("commit", "-q", "-C", approved)
	same, err := m.Rebased(t.Context(), repo, tip, approved, git("rev-parse", "HEAD"))
	require.NoError(t, err)
	require.False(t, same, "merged into main, it removes f again")
}

func TestTheCommitsThatABranchDoesNotHaveAreNamed(t *testing.T) {
	t.Parallel()
	m := newManager(t)
	repo := newRepo(t, map[string]string{"README.md": "x\n"})
	remote := filepath.Join(t.TempDir(), "remote.git")
	userGit(t, repo, "clone", "-q", "--bare", repo, remote)
	userGit(t, repo, "remote", "add", "origin", remote)
	userGit(t, remote, "branch", "stable", "main")
	userGit(t, repo, "branch", "stable", "main")
	for _, message := range []string{"One", "Two", "Three\n\nBody"} {
		userGit(t, repo, "commit", "-q", "--allow-empty", "-m", message)
	}
	run, _ := start(t, m, repo)
	for _, of := range []contract.Repo{run, {URL: "file://" + repo, Base: run.Base}} {
		ahead, err := m.Ahead(t.Context(), of, repo, "stable", 2)
		require.NoError(t, err)
		require.Equal(t, 3, ahead.Total)
		require.Equal(t, []MergeHead{{Commit: run.Base, Message: "Three"}, {Commit: userGit(t, repo, "rev-parse", "main~1"), Message: "Two"}}, ahead.Commits)
	}
	ahead, err := m.Ahead(t.Context(), run, "origin", "stable", 2)
	require.NoError(t, err)
	require.Equal(t, 3, ahead.Total, "the remote decides")
	userGit(t, repo, "push", "-q", "origin", "main:stable")
	ahead, err = m.Ahead(t.Context(), run, "origin", "stable", 2)
	require.NoError(t, err)
	require.Equal(t, Ahead{}, ahead)
	_, err = m.Ahead(t.Context(), run, "origin", "gone", 2)
	require.True(t, fault.Is(err, contract.CodeRepository), "%v", err)
}
