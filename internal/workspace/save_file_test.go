package workspace

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/rocketgpt/orchestrator/contract"
)

// saveFile opens a workspace, lets f change the file and saves only that file.
func saveFile(t testing.TB, m *Manager, ws contract.Workspace, key, path string, f func(dir string)) contract.Workspace {
	t.Helper()
	d, err := m.Open(t.Context(), ws, key)
	require.NoError(t, err)
	defer d.Close()
	f(d.Path())
	after, err := d.SaveFile(t.Context(), path)
	require.NoError(t, err)
	return after
}

// touch does what a tool does to one file: it creates, changes or removes it, and does
// nothing if a directory or a link is in the way.
func touch(rt *rapid.T, t testing.TB) (path string, f func(dir string)) {
	path = rapid.SampledFrom([]string{
		"a", "b.txt", "d/a", "d/b.log", "d/e/f", "d", "sp ace/x y", "-x", "new/deep/er/file.go", "build/out", "build", "vendor/x", "keep.log", "x.pyc",
		".gitignore", "d/.gitignore", ".gitattributes", "ü/a", "q\"uote", "tab\there", "link", "CRLF.bat", "exec.sh", "e!", "a.b", "a-b", "a/b",
	}).Draw(rt, "path")
	content := rapid.SampledFrom([]string{
		"", "one", "one\n", "one\ntwo\n", "one\r\ntwo\r\n", "1\n2\n3\n4\n5\n6\n7\n8\n9\n", "1\n2\n3\n4\nfive\n6\n7\n8\n9\n", "1\n2\n3\n4\n5\n6\n7\n8\n9", "\x00bin\x01",
		"*.log\n!keep.log\n/build/\n", "*.py[co]\nvendor\n", "one\n\\ No newline at end of file\n", strings.Repeat("long line\n", 500), "\xff\xfe\n", "-- a\n++ b\n",
	}).Draw(rt, "content")
	remove, flip := rapid.IntRange(0, 3).Draw(rt, "remove") == 0, rapid.IntRange(0, 4).Draw(rt, "mode") == 0
	return path, func(dir string) {
		full := filepath.Join(dir, path)
		if info, err := os.Lstat(full); err == nil && !info.Mode().IsRegular() {
			return
		}
		if remove {
			_ = os.Remove(full)
			return
		}
		if os.MkdirAll(filepath.Dir(full), 0o755) != nil {
			return
		}
		require.NoError(t, os.WriteFile(full, []byte(content), 0o644))
		if flip {
			require.NoError(t, os.Chmod(full, 0o755))
		}
	}
}

// What SaveFile does in this process must be what git does, whatever came before; and
// another host must be able to rebuild the state from the patch.
func TestSavingOneFileIsSavingTheWorkTree(t *testing.T) {
	t.Parallel()
	repo := newRepo(t, map[string]string{
		"a": "one\n", "d/a": "one\r\n", "d/e/f": "\x00", "exec.sh": "x\n", "a.b": "1\n", "build/tracked": "t\n", "CRLF.bat": "x\r\n",
		".gitignore": "*.log\n/build/\n", ".gitattributes": "* text=auto\n*.bat eol=crlf\n",
	})
	fast, slow := newManager(t), newManager(t)
	_, ws := start(t, fast, repo)
	_, _ = start(t, slow, repo)
	saved, processes := 0, int64(0)
	rapid.Check(t, func(rt *rapid.T) {
		now := ws
		for range rapid.IntRange(1, 12).Draw(rt, "steps") {
			var want contract.Workspace
			if rapid.IntRange(0, 5).Draw(rt, "command") == 0 {
				seed := rapid.Custom(func(rt *rapid.T) []func(string) {
					var all []func(string)
					for range rapid.IntRange(1, 4).Draw(rt, "files") {
						_, f := touch(rt, t)
						all = append(all, f)
					}
					return all
				}).Draw(rt, "changes")
				all := func(dir string) {
					for _, f := range seed {
						f(dir)
					}
				}
				want = edit(t, slow, now, "1", all)
				require.Equal(rt, want, edit(t, fast, now, "1", all))
			} else {
				path, f := touch(rt, t)
				want = edit(t, slow, now, "1", f)
				before := fast.GitProcesses()
				require.Equal(rt, want, saveFile(t, fast, now, "1", path, f), "%q", path)
				saved++
				processes += fast.GitProcesses() - before
			}
			now = want
		}
		there, err := anotherHost(t, slow).Open(t.Context(), now, "elsewhere")
		require.NoError(rt, err)
		there.Close()
		files, err := fast.Files(t.Context(), now)
		require.NoError(rt, err)
		listed, err := slow.listedByGit(t, now)
		require.NoError(rt, err)
		require.Equal(rt, listed, files)
	})
	require.Positive(t, saved)
	require.Less(t, processes, int64(3*saved), "some were saved without git")
}

// listedByGit lists a workspace's files with the git program.
func (m *Manager) listedByGit(t testing.TB, ws contract.Workspace) (files []string, err error) {
	err = m.with(t.Context(), ws, func(r *mirror, _ string) (err error) {
		files, err = r.listTree(t.Context(), ws.Tree)
		return err
	})
	return files, err
}

func TestSavingAPlainFileNeedsNoGitProcess(t *testing.T) {
	t.Parallel()
	repo := newRepo(t, map[string]string{"a.txt": "a\n", "dir/b.txt": "b\n", ".gitignore": "*.log\nnode_modules/\n# x\n!keep\n"})
	m := newManager(t)
	_, ws := start(t, m, repo)
	now := edit(t, m, ws, "1", func(string) {})
	before := m.GitProcesses()
	for _, path := range []string{"a.txt", "dir/new/deep.go", "dir/b.txt", "other file.md"} {
		next := saveFile(t, m, now, "1", path, func(dir string) { write(t, dir, path, "changed\n") })
		require.NotEqual(t, now.Tree, next.Tree)
		now = saveFile(t, m, next, "1", path, func(dir string) { require.NoError(t, os.Remove(filepath.Join(dir, path))) })
		files, err := m.Files(t.Context(), now)
		require.NoError(t, err)
		require.NotContains(t, files, path)
	}
	require.LessOrEqual(t, m.GitProcesses()-before, int64(1), "the base is listed once")
	require.NotEmpty(t, now.Patch)
	again, err := anotherHost(t, m).View(t.Context(), now, "1")
	require.NoError(t, err)
	defer again.Close()
	require.Equal(t, map[string]string{".gitignore": "0 *.log\nnode_modules/\n# x\n!keep\n"}, snapshot(t, again.Path()))
}

func TestASavedFileIsKeptWhenItIsIgnoredLater(t *testing.T) {
	t.Parallel()
	repo := newRepo(t, map[string]string{"a.txt": "a\n"})
	m := newManager(t)
	_, ws := start(t, m, repo)
	one := saveFile(t, m, ws, "1", "x.log", func(dir string) { write(t, dir, "x.log", "kept\n") })
	two := edit(t, m, one, "1", func(dir string) { write(t, dir, ".gitignore", "*.log\n") })
	three := saveFile(t, m, two, "1", "y.log", func(dir string) { write(t, dir, "y.log", "ignored\n") })
	require.Equal(t, two, three)
	files, err := m.Files(t.Context(), three)
	require.NoError(t, err)
	require.Equal(t, []string{".gitignore", "a.txt", "x.log"}, files)
}

func TestAFileWithSeveralNamesIsSavedUnderAllOfThem(t *testing.T) {
	t.Parallel()
	repo := newRepo(t, map[string]string{"a.txt": "a\n"})
	m := newManager(t)
	_, ws := start(t, m, repo)
	one := edit(t, m, ws, "1", func(dir string) {
		require.NoError(t, os.Link(filepath.Join(dir, "a.txt"), filepath.Join(dir, "b.txt")))
		require.NoError(t, os.Symlink("a.txt", filepath.Join(dir, "c.txt")))
	})
	for i, path := range []string{"a.txt", "c.txt"} {
		text := fmt.Sprintf("%d\n", i)
		one = saveFile(t, m, one, "1", path, func(dir string) { write(t, dir, path, text) })
		d, err := m.View(t.Context(), one, "fresh")
		require.NoError(t, err)
		require.Equal(t, map[string]string{"a.txt": "0 " + text, "b.txt": "0 " + text, "c.txt": "link a.txt"}, snapshot(t, d.Path()))
		d.Close()
	}
}

func TestAFileOverTheLimitsIsRefusedAloneToo(t *testing.T) {
	t.Parallel()
	repo := newRepo(t, map[string]string{"a.txt": "a\n"})
	m := newManager(t, func(o *Options) { o.MaxFileBytes = 1000 })
	_, ws := start(t, m, repo)
	d, err := m.Open(t.Context(), ws, "1")
	require.NoError(t, err)
	write(t, d.Path(), "b.txt", strings.Repeat("x", 1001))
	_, err = d.SaveFile(t.Context(), "b.txt")
	d.Close()
	require.ErrorIs(t, err, ErrTooLarge)
	_, err = d.SaveFile(t.Context(), "b.txt")
	require.ErrorContains(t, err, "not open for writing")
	require.Equal(t, ws, edit(t, m, ws, "1", func(dir string) { require.NoFileExists(t, filepath.Join(dir, "b.txt")) }))
}

func TestWhatMayBeIgnoredIsLeftToGit(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		line, path string
		may        bool
	}{
		{"*.log", "a/b.log", true},
		{"*.log", "a.log/b", true},
		{"*.log", "a/b.txt", false},
		{"build/", "build/x", true},
		{"/a/b/*.o", "c/d.o", true},
		{"*.py[co]", "x.pyc", true},
		{"*.py[co]", "x.py", false},
		{"[!a]*", "b", true},
		{`\*.log`, "x", true},
		{"!x", "x", false},
		{"#x", "#x", false},
		{"", "x", false},
		{"x  ", "x", true},
		{"x\r", "x", true},
		{"x\t", "y", true},
		{"**", "y", true},
		{"a/**", "y", true},
		{"/", "y", true},
		{"\ufeffx", "y", true},
		{"?", "y", true},
		{"[ab", "y", true},
	} {
		require.Equal(t, c.may, patternMayMatch(c.line, strings.Split(c.path, "/")), "%q on %q", c.line, c.path)
	}
}

func TestChangesApartAreMergedAsGitMergesThem(t *testing.T) {
	t.Parallel()
	repo := newRepo(t, map[string]string{
		"a": "one\n", "b": "b\n", "d/a": "1\n", "d/b": "2\n", "d/e/f": "3\n", "d/e/g": "4\n", "x/only": "5\n", "moved": "some\nlines\nthat\nare\nmoved\n",
	})
	m := newManager(t)
	_, ws := start(t, m, repo)
	names := []string{"a", "b", "d/a", "d/b", "d/c", "d/e/f", "d/e/g", "d/e/h", "x/only", "x", "moved", "new/a", "new/b", "new", "d"}
	side := func(rt *rapid.T, key string) contract.Workspace {
		changes := map[string]string{}
		for range rapid.IntRange(1, 3).Draw(rt, "changes") {
			changes[rapid.SampledFrom(names).Draw(rt, "name")] = rapid.SampledFrom([]string{"", "new\n", "some\nlines\nthat\nare\nmoved\n", "-"}).Draw(rt, "content")
		}
		return edit(t, m, ws, key, func(dir string) {
			for _, name := range names {
				content, ok := changes[name]
				full := filepath.Join(dir, name)
				switch {
				case !ok:
				case content == "-":
					_ = os.RemoveAll(full)
				case os.MkdirAll(filepath.Dir(full), 0o755) == nil:
					_ = os.RemoveAll(full)
					require.NoError(t, os.WriteFile(full, []byte(content), 0o644))
				}
			}
		})
	}
	plain := 0
	rapid.Check(t, func(rt *rapid.T) {
		ours, theirs := side(rt, "ours"), side(rt, "theirs")
		r, _, lock, err := m.use(t.Context(), ws.Repo, ws.Base)
		require.NoError(rt, err)
		defer lock.release()
		tree, err := r.mergeApart(ws.Tree, ours.Tree, theirs.Tree)
		if err != nil {
			require.ErrorIs(rt, err, errNeedsGit)
			return
		}
		plain++
		want, conflicts, err := r.mergeTrees(t.Context(), ws.Tree, ours.Tree, theirs.Tree)
		require.NoError(rt, err)
		require.Empty(rt, conflicts)
		require.Equal(rt, want, tree)
	})
	require.Positive(t, plain)
}

func TestObjectsOfPacksAreReadAsGitReadsThem(t *testing.T) {
	t.Parallel()
	files := map[string]string{"big.bin": strings.Repeat("0123456789abcdef", maxObjectBytes/16+1)}
	for i := range 40 { // similar, so that packs contain deltas
		files[fmt.Sprintf("dir%d/file%d.txt", i%4, i)] = strings.Repeat(fmt.Sprintf("line %d\n", i%7), 300) + fmt.Sprint(i)
	}
	repo := newRepo(t, files)
	m := newManager(t)
	read := func(ws contract.Workspace) {
		r, tree, lock, err := m.use(t.Context(), ws.Repo, ws.Base)
		require.NoError(t, err)
		defer lock.release()
		plain, err := r.commitTree(ws.Base)
		require.NoError(t, err)
		require.Equal(t, tree, plain)
		require.NoError(t, r.changedFiles("", tree, "", func(c fileChange) error {
			content, err := r.object(kindBlob, c.new.id)
			if c.path == "big.bin" {
				require.ErrorIs(t, err, errNeedsGit)
				return nil
			}
			require.NoError(t, err)
			want, err := os.ReadFile(filepath.Join(repo, c.path))
			require.NoError(t, err)
			require.Equal(t, string(want), string(content))
			return nil
		}))
	}
	_, ws := start(t, m, repo)
	read(ws)
	// A second base comes in its own pack, after the first was opened.
	write(t, repo, "dir1/file1.txt", "new\n")
	userGit(t, repo, "commit", "-qam", "second")
	_, next := start(t, m, repo)
	require.NotEqual(t, ws.Base, next.Base)
	read(next)
	loose, err := filepath.Glob(filepath.Join(m.options.CacheDir, "repos", "*", "git", "objects", "??", "*"))
	require.NoError(t, err)
	require.Empty(t, loose, "they are in packs")
	// What was pruned comes again in a pack other than the open one.
	require.NoError(t, m.Prune(t.Context(), -time.Hour))
	_, err = m.Start(t.Context(), contract.Repo{URL: next.Repo, Base: next.Base})
	require.NoError(t, err)
	read(next)
}

func TestADamagedObjectIsNeverReadAsContent(t *testing.T) {
	t.Parallel()
	repo := newRepo(t, map[string]string{"a.txt": "a\n"})
	m := newManager(t)
	_, ws := start(t, m, repo)
	r, _, lock, err := m.use(t.Context(), ws.Repo, ws.Base)
	require.NoError(t, err)
	defer lock.release()
	id, err := r.writeObject(kindBlob, sha1Length, []byte("good"))
	require.NoError(t, err)
	other, err := r.writeObject(kindBlob, sha1Length, []byte("evil"))
	require.NoError(t, err)
	path := func(id string) string { return filepath.Join(r.objects(), id[:2], id[2:]) }
	require.NoError(t, os.Rename(path(other), path(id)))
	_, err = r.object(kindBlob, id)
	require.ErrorIs(t, err, errNeedsGit)
	require.NoError(t, os.WriteFile(path(id), nil, 0o600))
	_, err = r.object(kindBlob, id)
	require.ErrorIs(t, err, errNeedsGit)
}

// Git applies a patch only if the lines around a change are those that it names.
func TestPatchesOfChangesAnywhereInAFileApply(t *testing.T) {
	t.Parallel()
	lines := func(n int, change func(i int) string) string {
		var text strings.Builder
		for i := range n {
			text.WriteString(change(i))
		}
		return text.String()
	}
	same := func(i int) string { return fmt.Sprintf("line %d\n", i%3) } // the same lines again and again
	at := func(places ...int) func(i int) string {
		return func(i int) string {
			for _, p := range places {
				if p == i {
					return "changed\n"
				}
			}
			return same(i)
		}
	}
	base := lines(40, same)
	files := map[string]string{}
	after := map[string]string{
		"top": lines(40, at(0)), "middle": lines(40, at(20)), "near the top": lines(40, at(1)), "bottom": lines(40, at(39)), "far apart": lines(40, at(2, 37)),
		"shorter": lines(37, same), "longer": lines(43, same), "cut in the middle": lines(20, same) + lines(17, same), "empty": "", "no end": strings.TrimSuffix(base, "\n"),
		"crlf": strings.ReplaceAll(base, "\n", "\r\n"), "put in": lines(20, same) + "new\n" + lines(20, func(i int) string { return same(i + 20) }),
	}
	for name := range after {
		files[name] = base
	}
	m := newManager(t)
	_, ws := start(t, m, newRepo(t, files))
	for name, content := range after {
		before := m.GitProcesses()
		now := saveFile(t, m, ws, "1/"+name, name, func(dir string) { write(t, dir, name, content) })
		require.LessOrEqual(t, m.GitProcesses()-before, int64(1), "the checkout")
		there, err := anotherHost(t, m).View(t.Context(), now, "1")
		require.NoError(t, err, name)
		require.Equal(t, "0 "+content, snapshot(t, there.Path())[name], name)
		there.Close()
	}
}
