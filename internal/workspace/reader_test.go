package workspace

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/await"
)

func TestATreeIsListedWithItsBlobs(t *testing.T) {
	t.Parallel()
	m := newManager(t)
	dir := newRepo(t, map[string]string{"a.go": "a", "b\nc\td.go": "b", "x/y/z": "z", "é": "e"})
	require.NoError(t, os.Symlink("/etc/passwd", filepath.Join(dir, "link")))
	userGit(t, dir, "add", "-A")
	userGit(t, dir, "commit", "-qm", "link")
	_, ws := start(t, m, dir)
	ws = edit(t, m, ws, "k", func(d string) { write(t, d, "new.go", "new") })
	files, err := m.ListTree(t.Context(), ws)
	require.NoError(t, err)
	contents := map[string]string{}
	ids := make([]string, len(files))
	for i, f := range files {
		ids[i] = f.Blob
	}
	require.NoError(t, m.ReadBlobs(t.Context(), ws, ids, 100, func(i int, content []byte) error {
		contents[files[i].Path] = string(content)
		return nil
	}))
	require.Equal(t, map[string]string{"a.go": "a", "b\nc\td.go": "b", "x/y/z": "z", "é": "e", "new.go": "new"}, contents)
}

func TestBlobsAreReadByOneGitProcess(t *testing.T) {
	t.Parallel()
	m := newManager(t)
	files := map[string]string{"large": strings.Repeat("x", 1000)}
	for i := range 600 {
		files[fmt.Sprintf("f%03d", i)] = fmt.Sprintf("content %d\nblob 3\n", i)
	}
	_, ws := start(t, m, newRepo(t, files))
	list, err := m.ListTree(t.Context(), ws)
	require.NoError(t, err)
	ids := []string{strings.Repeat("0", 40), ws.Tree}
	for _, f := range list {
		ids = append(ids, f.Blob)
	}
	before, next := m.GitProcesses(), 0
	require.NoError(t, m.ReadBlobs(t.Context(), ws, ids, 999, func(i int, content []byte) error {
		require.Equal(t, next, i)
		next++
		if i < 2 || list[i-2].Path == "large" {
			require.Nil(t, content)
		} else {
			require.Equal(t, files[list[i-2].Path], string(content))
		}
		return nil
	}))
	require.Equal(t, len(ids), next)
	require.Equal(t, int64(1), m.GitProcesses()-before)

	failed := errors.New("enough")
	err = m.ReadBlobs(t.Context(), ws, ids, 999, func(int, []byte) error { return failed })
	require.ErrorIs(t, err, failed)
	require.Error(t, m.ReadBlobs(t.Context(), ws, []string{"HEAD"}, 999, nil))
}

func TestTheLogHasMessagesAndChangedFiles(t *testing.T) {
	t.Parallel()
	m := newManager(t)
	dir := newRepo(t, map[string]string{"a": strings.Repeat("line\n", 20), "b": "b"})
	userGit(t, dir, "mv", "a", "c d")
	userGit(t, dir, "commit", "-qm", "rename\n\n:100644 not an entry")
	userGit(t, dir, "commit", "-q", "--allow-empty", "-m", "nothing")
	write(t, dir, ":odd\nname", "x")
	require.NoError(t, os.Remove(filepath.Join(dir, "b")))
	userGit(t, dir, "add", "-A")
	userGit(t, dir, "commit", "-qm", "last")
	repo, _ := start(t, m, dir)

	read := func(since string, most int) (commits []LogCommit) {
		require.NoError(t, m.Log(t.Context(), repo, since, most, func(c LogCommit) error {
			commits = append(commits, c)
			return nil
		}))
		return commits
	}
	all := read("", 100)
	require.Len(t, all, 4)
	require.Equal(t, repo.Base, all[0].ID)
	require.Equal(t, int64(1700000000), all[0].Time)
	require.Equal(t, []LogChange{{Status: 'A', Path: ":odd\nname"}, {Status: 'D', Path: "b"}}, all[0].Changes)
	require.Equal(t, "nothing\n", all[1].Message)
	require.Empty(t, all[1].Changes)
	require.Equal(t, "rename\n\n:100644 not an entry\n", all[2].Message)
	require.Equal(t, []LogChange{{Status: 'R', Path: "c d", From: "a"}}, all[2].Changes)
	require.Len(t, all[3].Changes, 2)
	require.Equal(t, all[:2], read(all[2].ID, 100))
	require.Equal(t, all[:1], read("", 1))
	require.Error(t, m.Log(t.Context(), repo, "--all", 1, nil))
}

func TestAShallowHistoryDoesNotSeemToAddAllFiles(t *testing.T) {
	t.Parallel()
	m := newManager(t)
	dir := newRepo(t, map[string]string{"a": "a", "b": "b"})
	for i := range 5 {
		write(t, dir, "a", fmt.Sprint(i))
		userGit(t, dir, "commit", "-qam", fmt.Sprint(i))
	}
	repo, _, err := m.Resolve(t.Context(), "file://"+dir, "main")
	require.NoError(t, err)
	_, err = m.Start(t.Context(), contract.Repo{URL: repo.URL, Base: repo.Base})
	require.NoError(t, err)
	n := 0
	require.NoError(t, m.Log(t.Context(), repo, "", 3, func(c LogCommit) error {
		n++
		require.Equal(t, []LogChange{{Status: 'M', Path: "a"}}, c.Changes)
		return nil
	}))
	require.Equal(t, 3, n)
}

func TestReadingEndsWhenGitDoes(t *testing.T) {
	t.Parallel()
	git, err := exec.LookPath("git")
	require.NoError(t, err)
	for name, reads := range map[string]string{"by itself": "read line; exit 3", "because it is stopped": "echo > $0.asked; exec sleep 1000"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			program := filepath.Join(t.TempDir(), "git")
			script := "#!/bin/sh\nfor a; do if [ \"$a\" = --batch-command ]; then " + reads + "; fi; done\nexec " + git + " \"$@\"\n"
			require.NoError(t, os.WriteFile(program, []byte(script), 0o755)) //nolint:gosec // it is executed
			m := newManager(t, func(o *Options) { o.Git = program })
			_, ws := start(t, m, newRepo(t, map[string]string{"a": "a"}))
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			read := make(chan error, 1)
			go func() {
				read <- m.ReadBlobs(ctx, ws, []string{strings.Repeat("0", 40)}, 999, func(int, []byte) error { return nil })
			}()
			if strings.Contains(reads, "asked") {
				await.Until(t, "git is asked", func() bool { _, err := os.Stat(program + ".asked"); return err == nil })
				cancel()
			}
			var failed error
			await.Until(t, "reading ends", func() bool {
				select {
				case failed = <-read:
					return true
				default:
					return false
				}
			})
			require.Error(t, failed)
		})
	}
}
