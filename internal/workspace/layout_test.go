package workspace

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestARepositoryThatLeadsToAnotherOneIsRefused makes folders as an attacker may send
// them: each leads git to a repository of the operator's, whose content a run would
// pass on.
func TestARepositoryThatLeadsToAnotherOneIsRefused(t *testing.T) {
	t.Parallel()
	for name, lead := range map[string]func(t *testing.T, hostile, private string){
		"alternates": func(t *testing.T, hostile, private string) {
			write(t, hostile, ".git/objects/info/alternates", filepath.Join(private, ".git", "objects")+"\n")
		},
		"relative alternates": func(t *testing.T, hostile, private string) {
			rel, err := filepath.Rel(filepath.Join(hostile, ".git", "objects"), filepath.Join(private, ".git", "objects"))
			require.NoError(t, err)
			write(t, hostile, ".git/objects/info/alternates", "# mine\n\n"+rel+"\n")
		},
		"a quoted alternate": func(t *testing.T, hostile, private string) {
			write(t, hostile, ".git/objects/info/alternates", `"`+filepath.Join(private, ".git", "objects")+`"`+"\n")
		},
		"an alternate with a NUL": func(t *testing.T, hostile, private string) {
			write(t, hostile, ".git/objects/info/alternates", filepath.Join(private, ".git", "objects")+"\x00x\n")
		},
		"an alternate with a space": func(t *testing.T, hostile, private string) {
			require.NoError(t, os.Symlink(filepath.Join(private, ".git", "objects"), filepath.Join(hostile, "lnk ")))
			write(t, hostile, ".git/objects/info/alternates", "../../lnk \n")
		},
		"linked objects":     replaceBy(".git/objects", ".git/objects"),
		"linked pack folder": replaceBy(".git/objects/pack", ".git/objects/pack"),
		"linked branch":      replaceBy(".git/refs/heads/main", ".git/refs/heads/main"),
		"linked HEAD":        replaceBy(".git/HEAD", ".git/HEAD"),
		"linked config":      replaceBy(".git/config", ".git/config"),
		"linked .git":        replaceBy(".git", ".git"),
		"a .git file": func(t *testing.T, hostile, private string) {
			require.NoError(t, os.RemoveAll(filepath.Join(hostile, ".git")))
			write(t, hostile, ".git", "gitdir: "+filepath.Join(private, ".git")+"\n")
		},
		"a commondir": func(t *testing.T, hostile, private string) {
			write(t, hostile, ".git/commondir", filepath.Join(private, ".git")+"\n")
		},
		"a work tree elsewhere": func(t *testing.T, hostile, private string) {
			userGit(t, hostile, "config", "core.worktree", private)
		},
		"the work tree around it": func(t *testing.T, hostile, private string) {
			require.NoError(t, os.Rename(hostile, filepath.Join(private, "inner")))
			userGit(t, filepath.Join(private, "inner"), "config", "core.worktree", private)
			require.NoError(t, os.Symlink(filepath.Join(private, "inner"), hostile))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			private, hostile := newRepo(t, map[string]string{"plans.txt": "secret\n"}), newRepo(t, map[string]string{"a.txt": "a\n"})
			lead(t, hostile, private)
			m := newManager(t)
			_, _, err := m.Resolve(t.Context(), hostile, "")
			requireRepoFault(t, err)
		})
	}
}

// replaceBy replaces a part of a repository with a link to a part of another.
func replaceBy(part, by string) func(t *testing.T, hostile, private string) {
	return func(t *testing.T, hostile, private string) {
		require.NoError(t, os.RemoveAll(filepath.Join(hostile, part)))
		require.NoError(t, os.Symlink(filepath.Join(private, by), filepath.Join(hostile, part)))
	}
}

// TestWhatIsSentAfterARunBeganIsRefusedToo changes the repository between the creation
// of a run and its fetch.
func TestWhatIsSentAfterARunBeganIsRefusedToo(t *testing.T) {
	t.Parallel()
	private, hostile := newRepo(t, map[string]string{"plans.txt": "secret\n"}), newRepo(t, map[string]string{"a.txt": "a\n"})
	m := newManager(t)
	repo, _, err := m.Resolve(t.Context(), hostile, "")
	require.NoError(t, err)
	replaceBy(".git/objects", ".git/objects")(t, hostile, private)
	repo.Base = userGit(t, private, "rev-parse", "HEAD")
	_, err = m.Start(t.Context(), repo)
	requireRepoFault(t, err, "symbolic link")
}

func TestWorktreesSubmodulesAndLinkedHooksAreAccepted(t *testing.T) {
	t.Parallel()
	main := newRepo(t, map[string]string{"a.txt": "a\n"})
	for name, make := range map[string]func(t *testing.T, dir string){
		"a linked worktree": func(t *testing.T, dir string) { userGit(t, main, "worktree", "add", "-q", "-b", "other", dir) },
		"a submodule": func(t *testing.T, dir string) {
			outer := newRepo(t, map[string]string{"b.txt": "b\n"})
			userGit(t, outer, "-c", "protocol.file.allow=always", "submodule", "add", "-q", main, "sub")
			require.NoError(t, os.Symlink(filepath.Join(outer, "sub"), dir))
		},
		"a clone with linked hooks": func(t *testing.T, dir string) {
			userGit(t, main, "clone", "-q", main, dir)
			require.NoError(t, os.RemoveAll(filepath.Join(dir, ".git", "hooks")))
			require.NoError(t, os.Symlink(t.TempDir(), filepath.Join(dir, ".git", "hooks")))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := filepath.Join(t.TempDir(), "repo")
			make(t, dir)
			m := newManager(t)
			repo, _, err := m.Resolve(t.Context(), dir, "")
			require.NoError(t, err)
			_, err = m.Start(t.Context(), repo)
			require.NoError(t, err)
		})
	}
}

func TestDataElsewhereIsUsedWhereTheOperatorSaysSo(t *testing.T) {
	t.Parallel()
	store := newRepo(t, map[string]string{"a.txt": "a\n"})
	borrowing, divided := filepath.Join(t.TempDir(), "borrowing"), filepath.Join(t.TempDir(), "divided")
	userGit(t, store, "clone", "-q", "--shared", store, borrowing)
	userGit(t, store, "clone", "-q", "--separate-git-dir", filepath.Join(t.TempDir(), "data"), store, divided)
	for _, dir := range []string{borrowing, divided} {
		_, _, err := newManager(t).Resolve(t.Context(), dir, "")
		requireRepoFault(t, err, "git.linked_folders")
		m := newManager(t, func(o *Options) { o.LinkedFolders = []string{os.TempDir()} })
		repo, _, err := m.Resolve(t.Context(), dir, "")
		require.NoError(t, err)
		_, err = m.Start(t.Context(), repo)
		require.NoError(t, err)
	}
}

func TestALinkAmongObjectsThatWereCheckedBeforeIsNoticed(t *testing.T) {
	t.Parallel()
	private, repo := newRepo(t, map[string]string{"plans.txt": "secret\n"}), newRepo(t, map[string]string{"a.txt": "a\n"})
	m := newManager(t)
	secret := userGit(t, private, "rev-parse", "HEAD:plans.txt")
	shared := filepath.Join(repo, ".git", "objects", secret[:2])
	require.NoError(t, os.MkdirAll(shared, 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(shared, secret[2:]), nil, 0o600))
	known := func() bool {
		_, _, err := m.Resolve(t.Context(), repo, "")
		require.NoError(t, err)
		change, err := changeOf(shared)
		require.NoError(t, err)
		return m.regular.has(shared, change)
	}
	require.False(t, known(), "a directory that has just changed could change again at the same time")
	m.regular.now = func() time.Time { return time.Now().Add(2 * settled) }
	require.True(t, known())

	require.NoError(t, os.Remove(filepath.Join(shared, secret[2:])))
	require.NoError(t, os.Symlink(filepath.Join(private, ".git", "objects", secret[:2], secret[2:]), filepath.Join(shared, secret[2:])))
	_, _, err := m.Resolve(t.Context(), repo, "")
	requireRepoFault(t, err, "is a symbolic link")
}
