package workspace

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/fault"
	"github.com/rocketgpt/orchestrator/internal/proc/proctest"
)

// canaryProgram returns a program that leaves a trace, and a check that it never ran.
func canaryProgram(t *testing.T) (command string, neverRan func()) {
	t.Helper()
	canary := filepath.Join(t.TempDir(), "ran")
	script := filepath.Join(t.TempDir(), "trap")
	proctest.WriteProgram(t, script, "#!/bin/sh\necho \"$0 $*\" >> "+canary+"\ncat\n")
	return script, func() {
		t.Helper()
		content, _ := os.ReadFile(canary)
		require.Empty(t, string(content), "a program of the repository ran")
	}
}

// plantPrograms puts everything into a repository that can make git run a program.
func plantPrograms(t *testing.T, repo, command string) {
	t.Helper()
	config := ""
	for _, kv := range [][2]string{
		{"core.fsmonitor", command}, {"core.sshCommand", command}, {"core.alternateRefsCommand", command}, {"core.gitProxy", command},
		{"core.pager", command}, {"core.editor", command}, {"core.askPass", command}, {"uploadpack.packObjectsHook", command},
		{"filter.evil.clean", command}, {"filter.evil.smudge", command}, {"filter.evil.process", command}, {"filter.evil.required", "true"},
		{"filter.two.dots.clean", command}, {"diff.evil.command", command}, {"diff.evil.textconv", command}, {"merge.evil.driver", command},
		{"diff.external", command}, {"credential.helper", command}, {"gpg.program", command}, {"receive.autogc", "true"}, {"gc.auto", "1"},
		{"receive.denyCurrentBranch", "updateInstead"}, {"remote.evil.url", "ext::" + command}, {"remote.evil.pushurl", "ext::" + command},
		{"remote.origin.url", "ssh://nowhere.invalid/x"}, {"remote.origin.promisor", "true"}, {"remote.origin.uploadpack", command},
		{"uploadpack.allowFilter", "true"}, {"alias.rev-parse", "!" + command}, {"alias.upload-pack", "!" + command}, {"protocol.ext.allow", "always"},
		{"core.hooksPath", filepath.Join(repo, "hooks")}, {"push.gpgSign", "if-asked"},
	} {
		section, key := kv[0][:strings.IndexByte(kv[0], '.')], kv[0][strings.LastIndexByte(kv[0], '.')+1:]
		sub := strings.Trim(strings.TrimSuffix(strings.TrimPrefix(kv[0], section), key), ".")
		if sub != "" {
			sub = ` "` + sub + `"`
		}
		config += "[" + section + sub + "]\n\t" + key + " = \"" + kv[1] + "\"\n"
	}
	path := filepath.Join(repo, ".git", "config")
	there, err := os.ReadFile(path)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(path, append(there, config...), 0o644))
	for _, dir := range []string{"hooks", filepath.Join(".git", "hooks")} {
		for _, hook := range []string{
			"pre-receive", "update", "post-receive", "post-update", "reference-transaction", "push-to-checkout", "proc-receive",
			"post-index-change", "post-checkout", "pre-push", "fsmonitor-watchman", "pre-auto-gc",
		} {
			write(t, repo, filepath.Join(dir, hook), "#!/bin/sh\nexec "+command+"\n")
			require.NoError(t, os.Chmod(filepath.Join(repo, dir, hook), 0o755))
		}
	}
}

func TestNothingOfARepositoryRunsOnTheHost(t *testing.T) {
	t.Parallel()
	command, neverRan := canaryProgram(t)
	repo := newRepo(t, map[string]string{
		"a.txt": "a\n", "b.dots": "b\n", ".gitattributes": "*.txt filter=evil diff=evil merge=evil\n*.dots filter=two.dots\n",
		".gitconfig": "[core]\n\tfsmonitor = " + command + "\n",
	})
	plantPrograms(t, repo, command)
	write(t, repo, "a.txt", "not committed\n") // status has to compare it
	write(t, repo, "b.dots", "x\n")

	m := newManager(t)
	r, ws := start(t, m, repo)
	_, info, err := m.Resolve(t.Context(), repo, "")
	require.NoError(t, err)
	require.True(t, info.Dirty)
	x := edit(t, m, ws, "1/x", func(dir string) { write(t, dir, "a.txt", "x\n") })
	y := edit(t, m, ws, "1/y", func(dir string) {
		write(t, dir, "y.txt", "y\n")
		write(t, dir, ".gitattributes", "* filter=evil diff=evil merge=evil text eol=crlf working-tree-encoding=UTF-16\n")
	})
	merged, conflict, err := m.Merge(t.Context(), ws, x, y)
	require.NoError(t, err)
	require.Nil(t, conflict)
	_, err = m.Diff(t.Context(), merged, 0)
	require.NoError(t, err)
	commit, err := m.Commits(t.Context(), r, []contract.Workspace{merged}, []CommitMessage{{Subject: "s"}})
	require.NoError(t, err)
	require.NoError(t, m.Publish(t.Context(), r, commit, "rgpt/run-1", PublishOptions{}))
	_, _, err = m.Resolve(t.Context(), "file://"+repo, "")
	require.NoError(t, err)
	err = m.Publish(t.Context(), r, commit, "rgpt/run-1", PublishOptions{Remote: "evil"})
	requireRepoFault(t, err, "not allowed")
	neverRan()
	require.FileExists(t, filepath.Join(repo, ".git", "refs", "heads", "rgpt", "run-1"))
}

// The test above proves nothing if its traps do not work: a user's own git does run
// them.
func TestTheTrapsOfTheTestAboveWork(t *testing.T) {
	t.Parallel()
	command, _ := canaryProgram(t)
	repo := newRepo(t, map[string]string{"a.txt": "a\n", ".gitattributes": "*.txt filter=evil\n"})
	plantPrograms(t, repo, command)
	write(t, repo, "a.txt", "changed\n")
	cmd := exec.Command("git", "status")
	cmd.Dir = repo
	_ = cmd.Run() // the canary program does not speak git's protocol
	content, err := os.ReadFile(canaryOf(t, command))
	require.NoError(t, err)
	require.NotEmpty(t, content)
}

func canaryOf(t *testing.T, command string) string {
	t.Helper()
	script, err := os.ReadFile(command)
	require.NoError(t, err)
	_, rest, _ := strings.Cut(string(script), ">> ")
	return strings.TrimSpace(strings.SplitN(rest, "\n", 2)[0])
}

func TestAPartialCloneFetchesNothingWhenItIsRead(t *testing.T) {
	t.Parallel()
	command, neverRan := canaryProgram(t)
	full := newRepo(t, map[string]string{"a.txt": "a\n"})
	userGit(t, full, "config", "uploadpack.allowFilter", "true")
	part := filepath.Join(t.TempDir(), "part")
	userGit(t, full, "clone", "-q", "--no-checkout", "--filter=blob:none", "file://"+full, part)
	userGit(t, part, "config", "remote.origin.uploadpack", command)
	m := newManager(t)
	r, _, err := m.Resolve(t.Context(), part, "")
	require.NoError(t, err)
	_, err = m.Start(t.Context(), r)
	require.Error(t, err, "the file is not there")
	neverRan()
}

func TestGitDirectoriesInTheWorkTreeAreRemovedAndNeverFollowed(t *testing.T) {
	t.Parallel()
	command, neverRan := canaryProgram(t)
	repo := newRepo(t, map[string]string{"a.txt": "a\n", "dir/b.txt": "b\n"})
	m := newManager(t)
	_, ws := start(t, m, repo)
	after := edit(t, m, ws, "1", func(dir string) {
		nested := filepath.Join(dir, "nested")
		userGit(t, dir, "init", "-q", "nested")
		write(t, nested, "code.txt", "part of the tree\n")
		userGit(t, nested, "add", "code.txt")
		userGit(t, nested, "commit", "-q", "-m", "x")
		userGit(t, dir, "init", "-q")
		for _, d := range []string{nested, dir} {
			plantPrograms(t, d, command)
			require.NoError(t, os.RemoveAll(filepath.Join(d, "hooks")))
		}
		write(t, dir, "dir/.git", "gitdir: "+filepath.Join(repo, ".git")+"\n")
		for _, name := range []string{".GIT", ".Git ", ".git...", "git~1", "GIT~1", ".g\u200cit", ".git::$DATA", `.git\x`, "deep/.gIt"} {
			write(t, dir, filepath.Join("names", name, "config"), "x")
		}
		require.NoError(t, os.Symlink(filepath.Join(repo, ".git"), filepath.Join(dir, "names", ".giT")))
		require.NoError(t, os.Symlink("/etc/passwd", filepath.Join(dir, ".gitmodules")))
		require.NoError(t, syscall.Mkfifo(filepath.Join(dir, "a.txt.fifo"), 0o644))
		require.NoError(t, os.Remove(filepath.Join(dir, "dir/b.txt")))
		require.NoError(t, syscall.Mkfifo(filepath.Join(dir, "dir/b.txt"), 0o644))
	})
	files, err := m.Files(t.Context(), after)
	require.NoError(t, err)
	require.Equal(t, []string{"a.txt", "nested/code.txt"}, files)
	d, err := m.View(t.Context(), after, "1")
	require.NoError(t, err)
	defer d.Close()
	for path := range snapshot(t, d.Path()) {
		for part := range strings.SplitSeq(path, "/") {
			require.False(t, IsGitName(part), path)
		}
	}
	require.Equal(t, "main", userGit(t, repo, "branch", "--show-current"), "the repository that a link led to is whole")
	neverRan()
}

func TestNamesOfGitDirectoriesAreRecognised(t *testing.T) {
	t.Parallel()
	for _, name := range []string{".git", ".GIT", ".git ", ".git.", ".git. .", "git~1", "Git~1", "git~1.", ".git:x", ".g\u200eit", "\ufeff.git", `.git\hooks`} {
		require.True(t, IsGitName(name), "%q", name)
	}
	for _, name := range []string{"", "git", ".gitignore", ".github", ".gitattributes", "x.git", "git~2", "git~10", ".git-x", ".gıt", " .git", "..git", "."} {
		require.False(t, IsGitName(name), "%q", name)
	}
}

func TestSubmodulesOfTheBaseAreKeptAndNewOnesAreNotCreated(t *testing.T) {
	t.Parallel()
	other := newRepo(t, map[string]string{"s.txt": "s\n"})
	repo := newRepo(t, map[string]string{"a.txt": "a\n"})
	userGit(t, repo, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", other, "libs/sub")
	userGit(t, repo, "commit", "-q", "-m", "submodule")
	m := newManager(t)
	_, ws := start(t, m, repo)
	link := func(ws contract.Workspace) string {
		r, _, lock, err := m.use(t.Context(), ws.Repo, ws.Base)
		require.NoError(t, err)
		defer lock.release()
		out, err := r.run(t.Context(), call{args: []string{"ls-tree", "-r", ws.Tree, "libs/sub"}})
		require.NoError(t, err)
		return string(out)
	}
	want := link(ws)
	require.Contains(t, want, "160000")
	for name, f := range map[string]func(dir string){
		"untouched": func(dir string) { write(t, dir, "a.txt", "b\n") },
		"removed":   func(dir string) { require.NoError(t, os.RemoveAll(filepath.Join(dir, "libs"))) },
		"filled":    func(dir string) { write(t, dir, "libs/sub/new.txt", "x") },
		"became a file": func(dir string) {
			require.NoError(t, os.Remove(filepath.Join(dir, "libs/sub")))
			write(t, dir, "libs/sub", "x")
		},
		"became a file above": func(dir string) {
			require.NoError(t, os.RemoveAll(filepath.Join(dir, "libs")))
			write(t, dir, "libs", "x")
		},
		"became a link above": func(dir string) {
			require.NoError(t, os.RemoveAll(filepath.Join(dir, "libs")))
			outside := t.TempDir()
			write(t, outside, "sub", "must stay")
			t.Cleanup(func() { require.FileExists(t, filepath.Join(outside, "sub")) })
			require.NoError(t, os.Symlink(outside, filepath.Join(dir, "libs")))
		},
		"became a link": func(dir string) {
			require.NoError(t, os.Remove(filepath.Join(dir, "libs/sub")))
			require.NoError(t, os.Symlink(other, filepath.Join(dir, "libs/sub")))
		},
		"git init in it": func(dir string) { userGit(t, filepath.Join(dir, "libs/sub"), "init", "-q") },
		"committed in it": func(dir string) {
			sub := filepath.Join(dir, "libs/sub")
			userGit(t, sub, "init", "-q")
			userGit(t, sub, "commit", "-q", "--allow-empty", "-m", "x")
		},
	} {
		after := edit(t, m, ws, "1/"+name, f)
		require.Equal(t, want, link(after), name)
		there, err := anotherHost(t, m).Open(t.Context(), after, "1")
		require.NoError(t, err)
		there.Close()
	}
	require.FileExists(t, filepath.Join(other, "s.txt"))
}

func TestTheUsersRepositoryIsUnchangedButForTheNewBranch(t *testing.T) {
	t.Parallel()
	repo := newRepo(t, map[string]string{"a.txt": "a\n", "b.txt": "b\n"})
	write(t, repo, "a.txt", "staged\n")
	userGit(t, repo, "add", "a.txt")
	write(t, repo, "b.txt", "not staged\n")
	write(t, repo, "c.txt", "not tracked\n")
	before := snapshot(t, repo)

	m := newManager(t)
	r, ws := start(t, m, repo)
	after := edit(t, m, ws, "1", func(dir string) { write(t, dir, "d.txt", "d\n") })
	commit, err := m.Commits(t.Context(), r, []contract.Workspace{after}, []CommitMessage{{Subject: "d"}})
	require.NoError(t, err)
	require.Equal(t, before, snapshot(t, repo), "nothing changes before the release")
	require.NoError(t, m.Publish(t.Context(), r, commit, "rgpt/run-1", PublishOptions{}))

	now := snapshot(t, repo)
	for path := range now {
		if _, was := before[path]; !was && path != ".git/refs/heads/rgpt/run-1" {
			require.True(t, strings.HasPrefix(path, ".git/objects/"), "%s is new", path)
		}
	}
	for path, content := range before {
		require.Equal(t, content, now[path], path)
	}
	require.Equal(t, "d", userGit(t, repo, "show", "rgpt/run-1:d.txt"))
	userGit(t, repo, "fsck", "--strict")
}

func TestARepositoryOfAnotherUserCanBeUsed(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("only root can give a repository to another user")
	}
	repo := newRepo(t, map[string]string{"a.txt": "a\n"})
	require.NoError(t, filepath.WalkDir(repo, func(path string, _ os.DirEntry, err error) error {
		return errors.Join(err, os.Lchown(path, 65534, 65534))
	}))
	m := newManager(t)
	r, ws := start(t, m, repo)
	after := edit(t, m, ws, "1", func(dir string) { write(t, dir, "b.txt", "b") })
	commit, err := m.Commits(t.Context(), r, []contract.Workspace{after}, []CommitMessage{{Subject: "b"}})
	require.NoError(t, err)
	require.NoError(t, m.Publish(t.Context(), r, commit, "rgpt/run-1", PublishOptions{}))
}

// deepen makes nested folders below dir, so deep that no path reaches them.
func deepen(t *testing.T, dir string, levels int) {
	t.Helper()
	at, err := unix.Open(dir, unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	require.NoError(t, err)
	for range levels {
		require.NoError(t, unix.Mkdirat(at, "dddddddddd", 0o755))
		next, err := unix.Openat(at, "dddddddddd", unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		require.NoError(t, err)
		require.NoError(t, unix.Close(at))
		at = next
	}
	require.NoError(t, unix.Close(at))
}

// objectsOf counts the objects created since the host started.
func objectsOf(t *testing.T, m *Manager) int {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(m.options.CacheDir, "repos", "*", "boot-*", "objects", "??", "*"))
	require.NoError(t, err)
	return len(files)
}

func TestAChangeOverTheLimitsIsRefusedAndUndone(t *testing.T) {
	t.Parallel()
	repo := newRepo(t, map[string]string{"a.txt": "a\n", "large.bin": strings.Repeat("x", 5000), ".gitignore": "big.ignored\n"})
	m := newManager(t, func(o *Options) { o.MaxFileBytes, o.MaxChangedFiles, o.MaxPatchBytes = 1000, 3, 2000 })
	_, ws := start(t, m, repo)
	several := func(n int, content string) func(dir string) {
		return func(dir string) {
			for i := range n {
				write(t, dir, string(rune('a'+i)), content)
			}
		}
	}
	for name, c := range map[string]struct {
		f    func(dir string)
		says string
	}{
		"file":  {func(dir string) { write(t, dir, "new.bin", strings.Repeat("x", 1001)) }, "new.bin is larger"},
		"count": {several(4, ""), "more than 3 files"},
		"sum":   {several(3, strings.Repeat("x\n", 490)), "the changes total more than"},
		"depth": {func(dir string) { deepen(t, dir, 3000) }, "more than 200 levels deep"},
		"names": {func(dir string) {
			for range 20 {
				dir = filepath.Join(dir, strings.Repeat("n", 250))
				if os.Mkdir(dir, 0o755) != nil {
					break
				}
			}
			deepen(t, filepath.Dir(dir), 100)
		}, "is too long"},
	} {
		kept := objectsOf(t, m)
		d, err := m.Open(t.Context(), ws, "1/"+name)
		require.NoError(t, err)
		c.f(d.Path())
		_, err = d.Save(t.Context())
		d.Close()
		require.ErrorIs(t, err, ErrTooLarge)
		require.Equal(t, contract.ClassSafety, fault.Of(err).Class)
		require.Contains(t, err.Error(), c.says)
		if name != "sum" { // known only once git has compressed it
			require.Equal(t, kept, objectsOf(t, m), "git read and kept nothing of %s", name)
		}
		again, err := m.View(t.Context(), ws, "1/"+name)
		require.NoError(t, err)
		require.Len(t, snapshot(t, again.Path()), 3)
		again.Close()
	}
	edit(t, m, ws, "1/ok", func(dir string) {
		write(t, dir, "big.ignored", strings.Repeat("x", 100_000))
		require.NoError(t, os.Chmod(filepath.Join(dir, "a.txt"), 0o755))
	})
}

func TestFilesAndDirectoriesThatACommandClosedAreSavedAndCleaned(t *testing.T) {
	t.Parallel()
	repo := newRepo(t, map[string]string{"a.txt": "a\n", "dir/b.txt": "b\n"})
	m := newManager(t)
	_, ws := start(t, m, repo)
	after := edit(t, m, ws, "1", func(dir string) {
		write(t, dir, "closed/x.txt", "x\n")
		write(t, dir, "unreadable", "u\n")
		require.NoError(t, os.Chmod(filepath.Join(dir, "unreadable"), 0))
		require.NoError(t, os.Chmod(filepath.Join(dir, "closed"), 0))
	})
	files, err := m.Files(t.Context(), after)
	require.NoError(t, err)
	require.Equal(t, []string{"a.txt", "closed/x.txt", "dir/b.txt", "unreadable"}, files)
	d, err := m.Open(t.Context(), ws, "1")
	require.NoError(t, err)
	defer d.Close()
	require.Len(t, snapshot(t, d.Path()), 2)
}

func TestLocksHoldAmongProcesses(t *testing.T) {
	t.Parallel()
	lock := filepath.Join(t.TempDir(), "x.lock")
	held, err := newLocks().exclusive(t.Context(), lock)
	require.NoError(t, err)
	require.Error(t, exec.Command("flock", "-n", lock, "true").Run())
	other, err := newLocks().tryExclusive(lock)
	require.NoError(t, err)
	require.Nil(t, other)
	held.release()
	require.NoError(t, exec.Command("flock", "-n", lock, "true").Run())
}

func TestARepositoryThatStandsForMoreThanThisHostTakesIsRefused(t *testing.T) {
	t.Parallel()
	repo := newRepo(t, map[string]string{"a.txt": "a\n"})
	// Ten trees, each ten times the previous one: a few hundred bytes for ten billion
	// files.
	tree := userGit(t, repo, "rev-parse", "HEAD^{tree}")
	for range 10 {
		var list strings.Builder
		for i := range 10 {
			fmt.Fprintf(&list, "040000 tree %s\td%d\n", tree, i)
		}
		cmd := exec.CommandContext(t.Context(), "git", "-C", repo, "mktree")
		cmd.Stdin = strings.NewReader(list.String())
		out, err := cmd.Output()
		require.NoError(t, err)
		tree = strings.TrimSpace(string(out))
	}
	bomb := userGit(t, repo, "commit-tree", "-m", "bomb", tree)
	userGit(t, repo, "branch", "bomb", bomb)
	write(t, repo, "zeros", strings.Repeat("\x00", 4<<20))
	userGit(t, repo, "add", "-A")
	userGit(t, repo, "commit", "-qm", "zeros")
	m := newManager(t, func(o *Options) { o.MaxRepositoryBytes = 1 << 20 })
	for commit, says := range map[string]string{bomb: "git.max_files", userGit(t, repo, "rev-parse", "HEAD"): "git.max_size"} {
		_, err := m.Start(t.Context(), contract.Repo{URL: repo, Base: commit})
		require.ErrorContains(t, err, says)
		require.Equal(t, contract.CodeTooLarge, fault.Of(err).Code)
		require.False(t, m.Cached(repo, commit))
	}
	small := userGit(t, repo, "rev-parse", "HEAD~1")
	_, err := m.Start(t.Context(), contract.Repo{URL: repo, Base: small})
	require.NoError(t, err)
}
