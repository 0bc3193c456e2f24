package workspace

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/fault"
)

func requireRepoFault(t *testing.T, err error, says ...string) {
	t.Helper()
	require.Error(t, err)
	f := fault.Of(err)
	require.Equal(t, contract.ClassHuman, f.Class, err.Error())
	require.Equal(t, contract.CodeRepository, f.Code)
	for _, text := range says {
		require.Contains(t, f.Message, text)
	}
}

func TestResolveFindsHeadBranchAndTop(t *testing.T) {
	t.Parallel()
	repo := newRepo(t, map[string]string{"sub/deep/a.txt": "a"})
	head := userGit(t, repo, "rev-parse", "HEAD")
	m := newManager(t)

	got, info, err := m.Resolve(t.Context(), filepath.Join(repo, "sub", "deep"), "")
	require.NoError(t, err)
	require.Equal(t, contract.Repo{URL: repo, Base: head, Branch: "main"}, got)
	require.Equal(t, Info{Path: repo, Branch: "main"}, info)

	write(t, repo, "new.txt", "nobody committed this")
	_, info, err = m.Resolve(t.Context(), repo, "main")
	require.NoError(t, err)
	require.True(t, info.Dirty)

	userGit(t, repo, "checkout", "-q", "--detach")
	got, info, err = m.Resolve(t.Context(), repo, "")
	require.NoError(t, err)
	require.Equal(t, "HEAD", got.Branch)
	require.Empty(t, info.Branch)

	userGit(t, repo, "tag", "-a", "-m", "x", "v1")
	for _, rev := range []string{"v1", head[:8], "main~0", head, "refs/heads/main"} {
		got, _, err = m.Resolve(t.Context(), repo, rev)
		require.NoError(t, err, rev)
		require.Equal(t, contract.Repo{URL: repo, Base: head, Branch: rev}, got)
	}
}

func TestResolveTakesALinkedWorktreeForARepositoryOfItsOwn(t *testing.T) {
	t.Parallel()
	repo := newRepo(t, map[string]string{"a.txt": "a"})
	tree := filepath.Join(filepath.Dir(repo), "linked-"+filepath.Base(repo))
	userGit(t, repo, "worktree", "add", "-q", "-b", "side", tree)
	t.Cleanup(func() { _ = os.RemoveAll(tree) })
	m := newManager(t)
	got, ws := start(t, m, tree)
	require.Equal(t, tree, got.URL)
	require.Equal(t, "side", got.Branch)
	after := edit(t, m, ws, "1", func(dir string) { write(t, dir, "a.txt", "b") })
	commit, err := m.Commits(t.Context(), got, []contract.Workspace{after}, []CommitMessage{{Subject: "b"}})
	require.NoError(t, err)
	require.NoError(t, m.Publish(t.Context(), got, commit, "rgpt/run-1", PublishOptions{}))
	require.Equal(t, commit, userGit(t, repo, "rev-parse", "rgpt/run-1"))
}

func TestResolveSaysWhatIsWrongWithAPath(t *testing.T) {
	t.Parallel()
	m := newManager(t)
	base := t.TempDir()
	mk := func(name string, f func(dir string)) string {
		dir := filepath.Join(base, name)
		require.NoError(t, os.MkdirAll(dir, 0o755))
		f(dir)
		return dir
	}
	plain := mk("plain", func(string) {})
	bare := mk("bare.git", func(dir string) { userGit(t, dir, "init", "-q", "--bare") })
	empty := mk("empty", func(dir string) { userGit(t, dir, "init", "-q", "-b", "main") })
	full := newRepo(t, map[string]string{"a": "a"})
	write(t, base, "file", "")
	for _, c := range []struct{ repo, rev, says string }{
		{"", "", "no repository specified"},
		{filepath.Join(base, "gone"), "", "does not exist"},
		{filepath.Join(base, "file"), "", "is a file"},
		{plain, "", "not a git repository"},
		{bare, "", "bare repository"},
		{empty, "", "no commits"},
		{empty, "main", "no commits"},
		{filepath.Join(full, ".git"), "", "inside a git directory"},
		{filepath.Join(full, ".git", "refs"), "", "inside a git directory"},
		{".", "", "neither an absolute path"},
		{full, "--output=/tmp/x", "is not a valid base"},
		{full, "a\nb", "is not a valid base"},
	} {
		_, _, err := m.Resolve(t.Context(), c.repo, c.rev)
		requireRepoFault(t, err, c.says)
	}
}

func TestAnUnknownBaseNamesUpToFiveSimilarBranches(t *testing.T) {
	t.Parallel()
	repo := newRepo(t, map[string]string{"a": "a"})
	for _, branch := range []string{"feature/login", "feature/logout", "release-1", "release-2", "release-3", "zzz"} {
		userGit(t, repo, "branch", branch)
	}
	m := newManager(t)
	for _, address := range []string{repo, "file://" + repo} {
		_, _, err := m.Resolve(t.Context(), address, "featur/login")
		requireRepoFault(t, err, `"featur/login"`, "feature/login, feature/logout")
		_, listed, _ := strings.Cut(fault.Of(err).Message, "available: ")
		require.Len(t, strings.Split(listed, ", "), maxSuggestions)
		_, _, err = m.Resolve(t.Context(), address, strings.Repeat("a", 40))
		requireRepoFault(t, err, strings.Repeat("a", 40))
	}
	userGit(t, repo, "checkout", "-q", "--orphan", "fresh")
	_, _, err := m.Resolve(t.Context(), repo, "")
	requireRepoFault(t, err, "the branch fresh", "no commits", "specify a base")
}

func TestResolveReadsAURLWithoutAWorkTree(t *testing.T) {
	t.Parallel()
	repo := newRepo(t, map[string]string{"a": "a"})
	userGit(t, repo, "tag", "-a", "-m", "x", "v1")
	bare := filepath.Join(t.TempDir(), "bare.git")
	userGit(t, repo, "clone", "-q", "--bare", repo, bare)
	head := userGit(t, repo, "rev-parse", "HEAD")
	m := newManager(t)
	for rev, branch := range map[string]string{"": "main", "main": "main", "v1": "v1", head: head} {
		got, info, err := m.Resolve(t.Context(), "file://"+bare, rev)
		require.NoError(t, err)
		require.Equal(t, contract.Repo{URL: "file://" + bare, Base: head, Branch: branch}, got)
		require.Equal(t, Info{Branch: "main"}, info)
	}
	empty := t.TempDir()
	userGit(t, empty, "init", "-q", "--bare")
	_, _, err := m.Resolve(t.Context(), "file://"+empty, "")
	requireRepoFault(t, err, "empty")
	_, _, err = m.Resolve(t.Context(), "file://"+empty+"/gone", "")
	requireRepoFault(t, err, "cannot read the repository")
}

func TestAHostThatCannotBeReachedIsSaidOnce(t *testing.T) {
	t.Parallel()
	_, _, err := newManager(t).Resolve(t.Context(), "https://127.0.0.1:1/app.git", "")
	require.Equal(t, contract.ClassInfra, fault.Of(err).Class, err)
	require.Equal(t, contract.CodeUnavailable, fault.Of(err).Code)
	require.Equal(t, 1, strings.Count(err.Error(), "unable to access"), err)
}

// A host whose server was killed may still have a proxy that answers.
func TestAConnectionThatBreaksIsAnOutage(t *testing.T) {
	t.Parallel()
	for _, said := range []string{
		"fatal: unable to access 'https://h/o/r.git/': Empty reply from server",
		"fatal: unable to access 'https://h/o/r.git/': Recv failure: Connection reset by peer",
		"fatal: unable to access 'https://h/o/r.git/': OpenSSL SSL_connect: SSL_ERROR_SYSCALL in connection to h:443",
		"fatal: unable to access 'https://h/o/r.git/': OpenSSL SSL_read: error:0A000126:SSL routines::unexpected eof while reading, errno 0",
		"fatal: unable to access 'https://h/o/r.git/': GnuTLS recv error (-110): The TLS connection was non-properly terminated.",
		"fatal: unable to access 'https://h/o/r.git/': transfer closed with outstanding read data remaining",
		"send-pack: unexpected disconnect while reading sideband packet",
	} {
		f := fault.Of(remoteFault(&gitError{command: "push", code: 128, stderr: said}, "push"))
		require.Equal(t, []any{contract.ClassInfra, contract.CodeUnavailable}, []any{f.Class, f.Code}, said)
	}
}

func TestTransportsThatNameAProgramAndSecretsInURLsAreRefused(t *testing.T) {
	t.Parallel()
	m := newManager(t)
	canary := filepath.Join(t.TempDir(), "ran")
	for _, repo := range []string{
		"ext::sh -c 'touch " + canary + "'", "fd::3", "ext::x://y", "-oProxyCommand=touch", "--upload-pack=touch", "ftp://h/x", "http://h/x", "git://h/x",
		"ssh://-oProxyCommand=touch/x", "https:///x", "file://otherhost/x", "a\nb", "relative/path", "https://user:hunter2@h/x", "https://ghp_hunter2@h/x",
		"ssh://git:hunter2@h/x", "https://h\x00/x", "::", "https://%zz/",
	} {
		_, _, err := m.Resolve(t.Context(), repo, "")
		requireRepoFault(t, err)
		require.NotContains(t, err.Error(), "hunter2")
	}
	require.NoFileExists(t, canary)
	for repo, want := range map[string]string{
		"git@github.com:o/r.git": "ssh", "host:path": "ssh", "ssh://git@h:22/o/r": "ssh", "https://h/o/r.git": "https", "file:///srv/r.git": "file", "/srv/r": "file",
	} {
		src, err := parseSource(repo)
		require.NoError(t, err)
		require.Equal(t, want, src.allow)
	}
	require.Equal(t, "fatal: https://h/x and ssh://h/y", Redact("fatal: https://user:pw@h/x and ssh://git@h/y"))
}

func TestNearestPutsLikelyNamesFirst(t *testing.T) {
	t.Parallel()
	require.Equal(t, []string{"main", "domain"}, nearest("mian", []string{"domain", "main", "main"}))
	require.Equal(t, "origin/feature", nearest("feature", []string{"fixtures", "origin/feature", "x"})[0])
}
