package workspace

import (
	"encoding/binary"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/fault"
	"github.com/rocketgpt/orchestrator/internal/proc/proctest"
)

// loggedGit returns an option with which a manager logs the git commands that it runs, and a
// function that returns those since its last call.
func loggedGit(t *testing.T) (option func(*Options), commands func() []string) {
	t.Helper()
	program, log := filepath.Join(t.TempDir(), "git"), filepath.Join(t.TempDir(), "log")
	git, err := exec.LookPath("git")
	require.NoError(t, err)
	proctest.WriteProgram(t, program, "#!/bin/sh\necho \"$1\" >> "+log+"\nexec "+git+" \"$@\"\n")
	return func(o *Options) { o.Git = program }, func() []string {
		t.Helper()
		content, err := os.ReadFile(log)
		require.NoError(t, err)
		require.NoError(t, os.Remove(log))
		return strings.Fields(string(content))
	}
}

// commitOf returns a commit with the changes that f makes in a run's directory.
func commitOf(t *testing.T, m *Manager, r contract.Repo, ws contract.Workspace, key string, f func(dir string)) string {
	t.Helper()
	after := edit(t, m, ws, key, f)
	commit, err := m.Commits(t.Context(), r, []contract.Workspace{after}, []CommitMessage{{Subject: "Change"}})
	require.NoError(t, err)
	return commit
}

func hasObject(repo, id string) bool {
	cmd := exec.Command("git", "cat-file", "-e", id)
	cmd.Dir = repo
	return cmd.Run() == nil
}

func TestANewBranchOfARepositoryOnThisHostTakesNoPush(t *testing.T) {
	t.Parallel()
	files := map[string]string{"gone/a": "a", "becomes/dir": "d", "becomes-dir": "f", "same/below/x": "x", "run.sh": "#!/bin/sh\n", "back": "1"}
	logged, commands := loggedGit(t)
	m := newManager(t, logged)
	for name, place := range map[string]func(repo string) string{
		"a work tree":     func(repo string) string { return repo },
		"a URL of a file": func(repo string) string { return "file://" + repo },
		"a bare one": func(repo string) string {
			bare := filepath.Join(t.TempDir(), "bare one's.git")
			userGit(t, repo, "clone", "-q", "--bare", repo, bare)
			return "file://" + bare
		},
		"a linked worktree": func(repo string) string {
			linked := filepath.Join(t.TempDir(), "linked")
			userGit(t, repo, "worktree", "add", "-q", "--detach", linked)
			return linked
		},
		"a shallow clone": func(repo string) string {
			write(t, repo, "a.txt", "second")
			userGit(t, repo, "add", "-A")
			userGit(t, repo, "commit", "-qm", "second")
			shallow := filepath.Join(t.TempDir(), "shallow")
			userGit(t, repo, "clone", "-q", "--depth=1", "file://"+repo, shallow)
			return shallow
		},
		"one with packed references": func(repo string) string {
			userGit(t, repo, "branch", "rgpt/run-10")
			userGit(t, repo, "pack-refs", "--all")
			return repo
		},
	} {
		repo := place(newRepo(t, files))
		r, ws := start(t, m, repo)
		one := edit(t, m, ws, "1", func(dir string) {
			require.NoError(t, os.RemoveAll(filepath.Join(dir, "gone")))
			require.NoError(t, os.RemoveAll(filepath.Join(dir, "becomes")))
			require.NoError(t, os.Remove(filepath.Join(dir, "becomes-dir")))
			write(t, dir, "becomes", "a file")
			write(t, dir, "becomes-dir/x/y", "a directory")
			write(t, dir, "back", "2")
			require.NoError(t, os.Chmod(filepath.Join(dir, "run.sh"), 0o755))
			require.NoError(t, os.Symlink("run.sh", filepath.Join(dir, "link")))
			for _, size := range []int{0, 15, 16, 2047, 2048, 300_000} {
				write(t, dir, fmt.Sprint("sizes/", size), strings.Repeat("x", size))
			}
		})
		two := edit(t, m, one, "1", func(dir string) { write(t, dir, "back", "1") })
		stages := []contract.Workspace{one.Slim(), two.Slim()}
		commit, err := m.Commits(t.Context(), r, stages, []CommitMessage{{Subject: "One"}, {Subject: "Two", Body: "tree x\nparent y"}})
		require.NoError(t, err)
		commands()
		require.NoError(t, m.Publish(t.Context(), r, commit, "rgpt/run-1", PublishOptions{}))
		require.Equal(t, []string{"receive-pack"}, commands(), name)
		top := strings.TrimPrefix(repo, "file://")
		require.Equal(t, commit, userGit(t, top, "rev-parse", "rgpt/run-1"), name)
		require.Equal(t, two.Tree, userGit(t, top, "rev-parse", "rgpt/run-1^{tree}"), name)
		require.Equal(t, r.Base, userGit(t, top, "rev-parse", "rgpt/run-1~2"), name)
		userGit(t, top, "fsck", "--strict")
		userGit(t, top, "clone", "-q", "--branch", "rgpt/run-1", "file://"+top, filepath.Join(t.TempDir(), "clone"))
	}
}

func TestAPushCreatesBranchesWithWhatIsNotPlain(t *testing.T) {
	t.Parallel()
	logged, commands := loggedGit(t)
	m := newManager(t, logged)
	long := t.TempDir()
	userGit(t, long, "init", "-q", "-b", "main", "--object-format=sha256")
	userGit(t, long, "commit", "-q", "--allow-empty", "-m", "first")
	short := newRepo(t, map[string]string{"a.txt": "a\n"})
	for name, change := range map[string]struct {
		repo    string
		content string
	}{
		"long object ids": {long, "b"},
		"a large file":    {short, strings.Repeat("x", maxObjectBytes+1)},
	} {
		r, ws := start(t, m, change.repo)
		commit := commitOf(t, m, r, ws, name, func(dir string) { write(t, dir, "b.txt", change.content) })
		commands()
		require.NoError(t, m.Publish(t.Context(), r, commit, "rgpt/run-1", PublishOptions{}))
		require.Equal(t, "push", commands()[0], name)
		require.Equal(t, commit, userGit(t, change.repo, "rev-parse", "rgpt/run-1"), name)
		userGit(t, change.repo, "fsck", "--strict")
	}
}

func TestOnlyNewObjectsAreSent(t *testing.T) {
	t.Parallel()
	m := newManager(t)
	repo := newRepo(t, map[string]string{"a.txt": "a\n", "dir/b.txt": "b\n", "dir/below/c.txt": "c\n", "other/d.txt": "d\n"})
	r, ws := start(t, m, repo)
	commit := commitOf(t, m, r, ws, "1", func(dir string) { write(t, dir, "dir/b.txt", "changed\n") })
	mirror, err := m.mirrorOf(repo)
	require.NoError(t, err)
	pack, err := mirror.packSince(t.Context(), r.Base, commit)
	require.NoError(t, err)
	const commitTreesAndFile = 4
	require.EqualValues(t, commitTreesAndFile, binary.BigEndian.Uint32([]byte(pack[8:])))
}

func TestManyNewFilesReachARepositoryAsOnePack(t *testing.T) {
	t.Parallel()
	m := newManager(t)
	repo := newRepo(t, map[string]string{"a.txt": "a\n"})
	r, ws := start(t, m, repo)
	commit := commitOf(t, m, r, ws, "1", func(dir string) {
		for i := range 150 {
			write(t, dir, fmt.Sprintf("dir%d/file%d", i%7, i), fmt.Sprint(i))
		}
	})
	require.NoError(t, m.Publish(t.Context(), r, commit, "rgpt/run-1", PublishOptions{}))
	packs, err := filepath.Glob(filepath.Join(repo, ".git", "objects", "pack", "*.pack"))
	require.NoError(t, err)
	require.Len(t, packs, 1)
	userGit(t, repo, "fsck", "--strict")
}

func TestARefusedBranchLeavesNoObjects(t *testing.T) {
	t.Parallel()
	m := newManager(t)
	for name, prepare := range map[string]func(repo string){
		"it exists": func(repo string) { userGit(t, repo, "branch", "rgpt/run-1") },
		"it is packed": func(repo string) {
			userGit(t, repo, "branch", "rgpt/run-1")
			userGit(t, repo, "pack-refs", "--all")
		},
		"nobody can read it":                  func(repo string) { write(t, repo, ".git/refs/heads/rgpt/run-1", "junk\n") },
		"the repository limits what it takes": func(repo string) { userGit(t, repo, "config", "receive.maxInputSize", "10") },
		"the repository checks what it takes": func(repo string) {
			userGit(t, repo, "config", "transfer.fsckObjects", "true")
			userGit(t, repo, "config", "receive.fsck.gitmodulesParse", "error")
		},
	} {
		repo := newRepo(t, map[string]string{"a.txt": "a\n"})
		prepare(repo)
		r, ws := start(t, m, repo)
		commit := commitOf(t, m, r, ws, name, func(dir string) { write(t, dir, ".gitmodules", "[junk\n") })
		before := snapshot(t, filepath.Join(repo, ".git"))
		require.Error(t, m.Publish(t.Context(), r, commit, "rgpt/run-1", PublishOptions{}), name)
		require.Equal(t, before, snapshot(t, filepath.Join(repo, ".git")), name)
		require.False(t, hasObject(repo, commit), name)
	}
}

func TestAnEmptyBranchThatIsCheckedOutIsNotCreated(t *testing.T) {
	t.Parallel()
	m, repo, r, stages, messages := release(t)
	commit, err := m.Commits(t.Context(), r, stages, messages)
	require.NoError(t, err)
	userGit(t, repo, "symbolic-ref", "HEAD", "refs/heads/rgpt/run-1")
	require.ErrorContains(t, m.Publish(t.Context(), r, commit, "rgpt/run-1", PublishOptions{}), "checked out")
	userGit(t, repo, "symbolic-ref", "HEAD", "refs/heads/main")
	require.NoError(t, m.Publish(t.Context(), r, commit, "rgpt/run-1", PublishOptions{}))
}

func TestOneOfManyReleasesToTheSameBranchWins(t *testing.T) {
	t.Parallel()
	m := newManager(t)
	repo := newRepo(t, map[string]string{"a.txt": "a\n"})
	r, ws := start(t, m, repo)
	commits, errs := make([]string, 6), make([]error, 6)
	for i := range commits {
		commits[i] = commitOf(t, m, r, ws, fmt.Sprint(i), func(dir string) { write(t, dir, "b.txt", fmt.Sprint(i)) })
	}
	var all sync.WaitGroup
	for i, commit := range commits {
		all.Go(func() { errs[i] = m.Publish(t.Context(), r, commit, "rgpt/run-1", PublishOptions{}) })
	}
	all.Wait()
	winner := userGit(t, repo, "rev-parse", "rgpt/run-1")
	require.Contains(t, commits, winner)
	for i, err := range errs {
		if commits[i] == winner {
			require.NoError(t, err)
		} else {
			require.True(t, fault.Is(err, contract.CodeBranchConflict), "%v", err)
		}
	}
	userGit(t, repo, "fsck", "--strict")
}
