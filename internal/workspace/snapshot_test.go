package workspace

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/contract"
)

// contentOf returns the files of a workspace as a checkout has them.
func contentOf(t testing.TB, m *Manager, ws contract.Workspace, key string) map[string]string {
	t.Helper()
	d, err := m.Open(t.Context(), ws, key)
	require.NoError(t, err)
	defer d.Close()
	return snapshot(t, d.Path())
}

func TestASnapshotIsTheWorkTreeWithoutIgnoredFiles(t *testing.T) {
	t.Parallel()
	repo := newRepo(t, map[string]string{
		"kept": "kept", "edited": "a", "staged": "a", "removed": "a", "unstaged": "a", "dir/file": "a", "file": "a", "ünï\ncode": "a",
		".gitignore": "*.log\n/forced\n", "mode": "a", "half": "a",
	})
	write(t, repo, "edited", "b")
	write(t, repo, "ünï\ncode", "b")
	write(t, repo, "staged", "b")
	write(t, repo, "half", "b")
	write(t, repo, "forced", "added with -f")
	userGit(t, repo, "add", "staged", "half")
	userGit(t, repo, "add", "-f", "forced")
	write(t, repo, "half", "c") // after it was staged
	require.NoError(t, os.Remove(filepath.Join(repo, "removed")))
	userGit(t, repo, "rm", "-q", "--cached", "unstaged") // the file stays, as a new one
	require.NoError(t, os.Chmod(filepath.Join(repo, "mode"), 0o755))
	write(t, repo, "new/deep/file", "new")
	require.NoError(t, os.Symlink("../kept", filepath.Join(repo, "new", "link")))
	write(t, repo, "noise.log", "ignored")
	// A directory becomes a file, and a file a directory.
	require.NoError(t, os.RemoveAll(filepath.Join(repo, "dir")))
	write(t, repo, "dir", "now a file")
	require.NoError(t, os.Remove(filepath.Join(repo, "file")))
	write(t, repo, "file/below", "now a directory")
	before := snapshot(t, repo)

	m := newManager(t)
	_, first := start(t, m, repo)
	got, err := m.Snapshot(t.Context(), first)
	require.NoError(t, err)
	require.Equal(t, before, snapshot(t, repo), "the work tree or its git directory changed")
	require.Empty(t, got.Skipped)
	want := map[string]string{}
	for path, content := range before {
		if !strings.HasPrefix(path, ".git/") && path != "noise.log" {
			want[path] = content
		}
	}
	require.Equal(t, want, contentOf(t, m, got.Workspace, "1"))
	require.Equal(t, want, contentOf(t, anotherHost(t, m), got.Workspace, "1"), "the patch describes it")

	clean := newRepo(t, map[string]string{"a": "a"})
	_, first = start(t, m, clean)
	got, err = m.Snapshot(t.Context(), first)
	require.NoError(t, err)
	require.Equal(t, Snapshot{Workspace: first}, got)
}

func TestASnapshotOfAFileThatGitNoLongerTracksAndIgnoresLacksIt(t *testing.T) {
	t.Parallel()
	repo := newRepo(t, map[string]string{"secret.env": "a", "kept": "a"})
	userGit(t, repo, "rm", "-q", "--cached", "secret.env")
	write(t, repo, ".gitignore", "*.env\n")
	m := newManager(t)
	_, first := start(t, m, repo)
	got, err := m.Snapshot(t.Context(), first)
	require.NoError(t, err)
	require.NotContains(t, contentOf(t, m, got.Workspace, "1"), "secret.env")
}

func TestASnapshotSkipsOtherRepositoriesSpecialFilesAndExcludedDirectories(t *testing.T) {
	t.Parallel()
	repo := newRepo(t, map[string]string{"a": "a"})
	write(t, repo, ".rgpt/cache/file", "data")
	write(t, repo, "b", "b")
	nested := filepath.Join(repo, "nested")
	require.NoError(t, os.Mkdir(nested, 0o755))
	userGit(t, nested, "init", "-q", "-b", "main")
	write(t, nested, "c", "c")
	userGit(t, nested, "add", "-A")
	userGit(t, nested, "commit", "-qm", "c")
	require.NoError(t, syscall.Mkfifo(filepath.Join(repo, "pipe"), 0o600))
	// A tracked file that became a pipe: reading it would block.
	require.NoError(t, os.Remove(filepath.Join(repo, "a")))
	require.NoError(t, syscall.Mkfifo(filepath.Join(repo, "a"), 0o600))
	m := newManager(t)
	_, first := start(t, m, repo)
	got, err := m.Snapshot(t.Context(), first, filepath.Join(repo, ".rgpt"))
	require.NoError(t, err)
	require.Equal(t, []string{"a", "nested/"}, got.Skipped)
	require.Equal(t, map[string]string{"a": "0 a", "b": "0 b"}, contentOf(t, m, got.Workspace, "1"))
}

func TestASnapshotRunsNoProgramOfTheRepositoryAndFollowsNoLink(t *testing.T) {
	t.Parallel()
	repo := newRepo(t, map[string]string{"a.txt": "a", "dir/b.txt": "b"})
	ran := filepath.Join(t.TempDir(), "ran")
	program := filepath.Join(repo, ".git", "evil")
	require.NoError(t, os.WriteFile(program, []byte("#!/bin/sh\ntouch "+ran+"\ncat\n"), 0o755))
	for _, kv := range [][2]string{{"filter.x.clean", program}, {"filter.x.required", "true"}, {"core.fsmonitor", program}, {"core.hooksPath", filepath.Dir(program)}} {
		userGit(t, repo, "config", kv[0], kv[1])
	}
	write(t, repo, ".gitattributes", "*.txt filter=x\n")
	write(t, repo, "a.txt", "changed")
	outside := t.TempDir()
	write(t, outside, "b.txt", "secret")
	require.NoError(t, os.RemoveAll(filepath.Join(repo, "dir")))
	require.NoError(t, os.Symlink(outside, filepath.Join(repo, "dir")))
	m := newManager(t)
	_, first := start(t, m, repo)
	got, err := m.Snapshot(t.Context(), first)
	require.NoError(t, err)
	require.NoFileExists(t, ran)
	content := contentOf(t, m, got.Workspace, "1")
	require.Equal(t, "0 changed", content["a.txt"])
	require.Equal(t, "link "+outside, content["dir"])
	require.NotContains(t, content, "dir/b.txt")
}

func TestASnapshotOverTheLimitsIsRefused(t *testing.T) {
	t.Parallel()
	repo := newRepo(t, map[string]string{"a": "a"})
	write(t, repo, "large", strings.Repeat("x", 101))
	for _, c := range []struct {
		says   string
		change func(*Options)
	}{
		{"the file large is larger than", func(o *Options) { o.MaxFileBytes = 100 }},
		{"total more than", func(o *Options) { o.MaxPatchBytes = 100 }},
		{"more than 1 files", func(o *Options) { o.MaxChangedFiles = 1; write(t, repo, "more", "x") }},
	} {
		m := newManager(t, c.change)
		_, first := start(t, m, repo)
		_, err := m.Snapshot(t.Context(), first)
		requireRepoFault(t, err, c.says, ".gitignore")
	}
}

func TestASnapshotIsNotMixedWithAnotherCommit(t *testing.T) {
	t.Parallel()
	repo := newRepo(t, map[string]string{"a": "a"})
	m := newManager(t)
	_, first := start(t, m, repo)
	userGit(t, repo, "commit", "-q", "--allow-empty", "-m", "meanwhile")
	_, err := m.Snapshot(t.Context(), first)
	requireRepoFault(t, err, "changed from", "try again")
}

func TestTheUsersOwnListOfIgnoredFilesCounts(t *testing.T) {
	home := t.TempDir()
	t.Setenv("HOME", home)
	t.Setenv("XDG_CONFIG_HOME", "")
	t.Setenv("GIT_CONFIG_GLOBAL", "")
	repo := newRepo(t, map[string]string{"a": "a"})
	write(t, repo, "editor.swp", "x")
	m := newManager(t)
	_, first := start(t, m, repo)
	changed := func() int {
		got, err := m.Snapshot(t.Context(), first)
		require.NoError(t, err)
		return got.Changed
	}
	require.Equal(t, 1, changed())
	write(t, home, ".config/git/ignore", "*.swp\n")
	require.Zero(t, changed(), "the default list")
	write(t, home, "mine", "nothing\n")
	write(t, home, ".gitconfig", "[core]\n\texcludesFile = ~/mine\n")
	require.Equal(t, 1, changed(), "the list that the configuration names")
	write(t, home, "mine", "*.swp\n")
	require.Zero(t, changed())
}

func TestAWorkspaceCanBeAChangeOfAnotherCommit(t *testing.T) {
	t.Parallel()
	repo := newRepo(t, map[string]string{"a": "1", "gone": "x"})
	base := userGit(t, repo, "rev-parse", "HEAD")
	userGit(t, repo, "checkout", "-q", "-b", "side")
	userGit(t, repo, "rm", "-q", "gone")
	write(t, repo, "b", "2")
	userGit(t, repo, "add", "-A")
	userGit(t, repo, "commit", "-qm", "second")
	write(t, repo, "c", "3")
	m := newManager(t)
	_, first := start(t, m, repo)
	got, err := m.Snapshot(t.Context(), first)
	require.NoError(t, err)

	moved, err := m.Onto(t.Context(), got.Workspace, base)
	require.NoError(t, err)
	require.Equal(t, base, moved.Base)
	require.Equal(t, got.Workspace.Tree, moved.Tree)
	stat, err := anotherHost(t, m).DiffStat(t.Context(), moved)
	require.NoError(t, err)
	require.Len(t, stat.Files, 3)
	of, err := m.Start(t.Context(), contract.Repo{URL: repo, Base: base})
	require.NoError(t, err)
	changed, err := m.Changed(t.Context(), of, moved, func(string) bool { return true }, 10)
	require.NoError(t, err)
	require.Len(t, changed, 3)

	userGit(t, repo, "checkout", "-q", "main")
	userGit(t, repo, "commit", "-q", "--allow-empty", "-m", "main went on")
	merge, err := m.MergeBase(t.Context(), repo, "main", "side")
	require.NoError(t, err)
	require.Equal(t, base, merge)
	userGit(t, repo, "checkout", "-q", "--orphan", "other")
	userGit(t, repo, "commit", "-q", "--allow-empty", "-m", "unrelated")
	merge, err = m.MergeBase(t.Context(), repo, "main", "other")
	require.NoError(t, err)
	require.Empty(t, merge)
}
