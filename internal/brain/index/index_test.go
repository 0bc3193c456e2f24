package index_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/internal/brain/extract"
	"github.com/rocketgpt/orchestrator/internal/brain/index"
	"github.com/rocketgpt/orchestrator/internal/brain/rank"
)

// tree is a set of files by path.
type tree map[string]string

// update indexes a tree and returns its snapshot and the paths whose contents were read.
func update(t testing.TB, d *index.Dir, name string, files tree) (*index.Snapshot, []string) {
	t.Helper()
	s, read, err := tryUpdate(t.Context(), d, name, files, nil)
	require.NoError(t, err)
	return s, read
}

func tryUpdate(ctx context.Context, d *index.Dir, name string, files tree, before func(path string) error) (*index.Snapshot, []string, error) {
	paths := slices.Sorted(maps.Keys(files))
	list := make([]index.File, len(paths))
	for i, p := range paths {
		list[i] = index.File{Path: p, Key: index.KeyOf(fmt.Sprintf("%x", files[p]), p, extract.DefaultMaxFileSize)}
	}
	var read []string
	s, err := d.Update(ctx, name, list, func(missing []int, add func(int, *index.Record) error) error {
		for _, i := range missing {
			if before != nil {
				if err := before(paths[i]); err != nil {
					return err
				}
			}
			r := index.NewRecord(paths[i], []byte(files[paths[i]]))
			// As it comes from the database.
			stored, err := index.DecodeRecord(r.Encode())
			if err == nil {
				err = add(i, &stored)
			}
			if err != nil {
				return err
			}
			read = append(read, paths[i])
		}
		return nil
	})
	return s, read, err
}

func open(t testing.TB, root string) *index.Dir {
	t.Helper()
	d, err := index.Open(root, "repo")
	require.NoError(t, err)
	t.Cleanup(d.Close)
	return d
}

// found returns the paths with a term, with the counts of all fields.
func found(t testing.TB, s *index.Snapshot, term string) []string {
	t.Helper()
	list, err := s.Postings(term)
	require.NoError(t, err)
	require.True(t, slices.IsSortedFunc(list, func(a, b rank.Posting) int { return cmp.Compare(a.Doc, b.Doc) }))
	var out []string
	for _, p := range list {
		out = append(out, fmt.Sprint(s.Path(p.Doc), p.Count))
	}
	return out
}

// check compares all postings of a snapshot with the counts of its files.
func check(t testing.TB, s *index.Snapshot, files tree) {
	t.Helper()
	want := map[string][]string{}
	docs := 0
	for _, p := range slices.Sorted(maps.Keys(files)) {
		if r := index.NewRecord(p, []byte(files[p])); r.Reason != extract.ReasonNone {
			continue
		}
		require.Equal(t, p, s.Path(uint32(docs)))
		x, counts := index.Count(p, []byte(files[p]))
		got, err := s.Extract(uint32(docs))
		require.NoError(t, err)
		x.Prose = nil
		require.Equal(t, x, got)
		require.Equal(t, x.Lang, s.Lang(uint32(docs)))
		require.Equal(t, counts.Length, s.Length(uint32(docs)))
		for _, c := range counts.Terms {
			want[c.Term] = append(want[c.Term], fmt.Sprint(p, c.Count))
		}
		docs++
	}
	require.Equal(t, docs, s.Docs())
	for term, list := range want {
		require.Equal(t, list, found(t, s, term), term)
	}
	require.Empty(t, found(t, s, "unknownterm"))
}

func sample(n int) tree {
	files := tree{"go.mod": "module example.com/m\n", "image.txt": "a\x00b"}
	for i := range n {
		files[fmt.Sprintf("pkg%d/file%d.go", i%7, i)] = fmt.Sprintf("package pkg%d\n\nimport \"example.com/m/pkg%d\"\n\n// Thing%d is shared.\nfunc Thing%d(value int) { other%d(value) }\n", i%7, (i+1)%7, i, i, i%5)
	}
	return files
}

func TestASnapshotHasWhatItsFilesHave(t *testing.T) {
	t.Parallel()
	d := open(t, t.TempDir())
	files := sample(50)
	files["copy/same.go"] = files["pkg0/file0.go"]
	s, read := update(t, d, "one", files)
	require.Len(t, read, len(files)-1) // the copy is the same blob
	check(t, s, files)
}

func TestOnlyChangedFilesAreReadAgain(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	d := open(t, root)
	files := sample(50)
	first, _ := update(t, d, "one", files)
	changed := maps.Clone(files)
	changed["pkg1/file1.go"] = "package pkg1\n\nfunc Fresh() {}\n"
	changed["moved/file2.go"] = files["pkg2/file2.go"]
	delete(changed, "pkg2/file2.go")
	second, read := update(t, d, "two", changed)
	require.Equal(t, []string{"pkg1/file1.go"}, read)
	check(t, second, changed)
	check(t, first, files)
	_, read = update(t, d, "one", files)
	require.Empty(t, read)
	other := open(t, root)
	third, read := update(t, other, "two", changed)
	require.Empty(t, read)
	check(t, third, changed)
	require.Equal(t, imports(second), imports(third))
}

func imports(s *index.Snapshot) map[string][]string {
	out := map[string][]string{}
	for doc := range s.Docs() {
		for _, to := range s.Imports(uint32(doc)) {
			out[s.Path(uint32(doc))] = append(out[s.Path(uint32(doc))], s.Path(to))
		}
	}
	return out
}

func TestManySmallChangesAreMerged(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	d := open(t, root)
	files := sample(40)
	for i := range 40 {
		files = maps.Clone(files)
		files[fmt.Sprintf("pkg%d/file%d.go", i%7, i)] = fmt.Sprintf("package pkg%d\n\nfunc Edited%d() {}\n", i%7, i)
		s, read := update(t, d, fmt.Sprint("tree", i), files)
		if i > 0 {
			require.Len(t, read, 1)
		}
		check(t, s, files)
	}
	segments, err := filepath.Glob(filepath.Join(root, index.Name("repo"), "*.segment"))
	require.NoError(t, err)
	require.LessOrEqual(t, len(segments), 8)
	trees, err := os.ReadDir(filepath.Join(root, index.Name("repo"), "trees"))
	require.NoError(t, err)
	require.LessOrEqual(t, len(trees), 16)
}

func TestACorruptPartIsComputedAgain(t *testing.T) {
	t.Parallel()
	for _, damage := range []func(b []byte) []byte{
		func(b []byte) []byte { b[len(b)/2] ^= 1; return b },
		func(b []byte) []byte { return b[:len(b)/2] },
		func([]byte) []byte { return nil },
	} {
		root := t.TempDir()
		files := sample(20)
		first, _ := update(t, open(t, root), "one", files)
		for _, pattern := range []string{"*.segment", "trees/*", "manifest.json"} {
			names, err := filepath.Glob(filepath.Join(root, index.Name("repo"), pattern))
			require.NoError(t, err)
			require.NotEmpty(t, names)
			for _, name := range names {
				b, err := os.ReadFile(name)
				require.NoError(t, err)
				require.NoError(t, os.WriteFile(name, damage(b), 0o600))
			}
			s, _ := update(t, open(t, root), "one", files)
			check(t, s, files)
			require.Equal(t, imports(first), imports(s))
		}
	}
}

func TestWhatWasReadBeforeAnErrorIsKept(t *testing.T) {
	t.Parallel()
	d := open(t, t.TempDir())
	files := sample(20)
	failed := errors.New("no more")
	n := 0
	_, read, err := tryUpdate(t.Context(), d, "one", files, func(string) error {
		if n++; n > 10 {
			return failed
		}
		return nil
	})
	require.ErrorIs(t, err, failed)
	require.Len(t, read, 10)
	s, read := update(t, d, "one", files)
	require.Len(t, read, len(files)-10)
	check(t, s, files)
}

func TestProcessesShareAnIndex(t *testing.T) {
	if root := os.Getenv("INDEX_TEST_ROOT"); root != "" {
		d := open(t, root)
		name := os.Getenv("INDEX_TEST_TREE")
		files := sample(30)
		files["own/"+name+".go"] = "package own\n\nfunc Own" + name + "() {}\n"
		for i := range 5 {
			files = maps.Clone(files)
			files["own/more.go"] = fmt.Sprintf("package own\n\nfunc More%s%d() {}\n", name, i)
			s, _ := update(t, d, fmt.Sprint(name, i), files)
			check(t, s, files)
		}
		return
	}
	t.Parallel()
	root := t.TempDir()
	var all []*exec.Cmd
	for _, name := range []string{"A", "B", "C"} {
		cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestProcessesShareAnIndex$")
		cmd.Env = append(os.Environ(), "INDEX_TEST_ROOT="+root, "INDEX_TEST_TREE="+name)
		require.NoError(t, cmd.Start())
		all = append(all, cmd)
	}
	for _, cmd := range all {
		require.NoError(t, cmd.Wait())
	}
}

func TestAKilledProcessLeavesAUsableIndex(t *testing.T) {
	if root := os.Getenv("INDEX_TEST_KILLED"); root != "" {
		n := 0
		_, _, err := tryUpdate(t.Context(), open(t, root), "one", sample(30), func(string) error {
			if n++; n == 20 {
				self, err := os.FindProcess(os.Getpid())
				require.NoError(t, err)
				require.NoError(t, self.Kill())
				select {}
			}
			return nil
		})
		require.NoError(t, err)
		return
	}
	t.Parallel()
	root := t.TempDir()
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestAKilledProcessLeavesAUsableIndex$")
	cmd.Env = append(os.Environ(), "INDEX_TEST_KILLED="+root)
	require.Error(t, cmd.Run())
	require.NoError(t, os.WriteFile(filepath.Join(root, index.Name("repo"), ".segment-x"), []byte("half"), 0o600))
	s, _ := update(t, open(t, root), "one", sample(30))
	check(t, s, sample(30))
	left, err := filepath.Glob(filepath.Join(root, index.Name("repo"), ".segment-*"))
	require.NoError(t, err)
	require.Empty(t, left)
}

func TestIndexesThatWereNotUsedForLongAreRemoved(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	used, err := index.Open(root, "used")
	require.NoError(t, err)
	t.Cleanup(used.Close)
	update(t, used, "one", sample(10))
	idle, err := index.Open(root, "idle")
	require.NoError(t, err)
	update(t, idle, "one", sample(10))
	idle.Close()
	removed, err := index.Prune(root, 1<<30)
	require.NoError(t, err)
	require.Zero(t, removed)
	removed, err = index.Prune(root, 1)
	require.NoError(t, err)
	require.Positive(t, removed)
	require.NoDirExists(t, filepath.Join(root, index.Name("idle")))
	require.DirExists(t, filepath.Join(root, index.Name("used")))
}

func TestImportsAreResolvedToFiles(t *testing.T) {
	t.Parallel()
	files := tree{
		"go.mod": "module example.com/m\n", "a/a.go": "package a\n", "a/a_test.go": "package a\n", "main.go": "package main\nimport \"example.com/m/a\"\n",
		"web/x.ts": "import { y } from './y'\nimport z from '@scope/lib'\nimport c from './c.js'\n", "web/y/index.tsx": "export const y = 1\n", "web/c.ts": "export default 1\n",
		"packages/lib/package.json": "{\n \"name\": \"@scope/lib\"\n}\n", "packages/lib/src/index.ts": "export default 1\n",
		"py/pkg/__init__.py": "x = 1\n", "py/pkg/mod.py": "from . import other\nfrom pkg.sub.deep import name\n", "py/pkg/other.py": "y = 1\n", "py/pkg/sub/__init__.py": "z = 1\n", "py/pkg/sub/deep.py": "import pkg.mod\n",
		"j/A.java": "package com.x;\nimport com.y.B;\nimport static com.y.B.f;\n", "j/B.java": "package com.y;\nclass B {}\n",
		"rs/Cargo.toml": "[package]\nname = \"my-lib\"\n", "rs/src/lib.rs": "mod a;\npub mod b;\n", "rs/src/a.rs": "use crate::b::c::Thing;\nuse super::b;\n", "rs/src/b/mod.rs": "pub mod c;\n", "rs/src/b/c.rs": "pub struct Thing;\n",
		"bin/main.rs": "use my_lib::b::c;\n", "c/x.c": "#include \"x.h\"\n#include <inc/y.h>\n", "c/x.h": "int x;\n", "include/inc/y.h": "int y;\n",
		"rb/lib/a.rb": "require 'deep/b'\nrequire_relative 'c'\n", "rb/lib/deep/b.rb": "class B; end\n", "rb/lib/c.rb": "class C; end\n",
		"php/A.php": "<?php\nnamespace App;\nuse App\\Sub\\B;\n", "php/Sub/B.php": "<?php\nnamespace App\\Sub;\nclass B {}\n",
	}
	s, _ := update(t, open(t, t.TempDir()), "one", files)
	require.Equal(t, map[string][]string{
		"main.go": {"a/a.go"}, "web/x.ts": {"packages/lib/src/index.ts", "web/c.ts", "web/y/index.tsx"},
		"py/pkg/mod.py": {"py/pkg/other.py", "py/pkg/sub/deep.py"}, "py/pkg/sub/deep.py": {"py/pkg/mod.py"},
		"j/A.java": {"j/B.java"}, "rs/src/lib.rs": {"rs/src/a.rs", "rs/src/b/mod.rs"}, "rs/src/a.rs": {"rs/src/b/c.rs", "rs/src/b/mod.rs"}, "rs/src/b/mod.rs": {"rs/src/b/c.rs"},
		"bin/main.rs": {"rs/src/b/c.rs"}, "c/x.c": {"c/x.h", "include/inc/y.h"}, "rb/lib/a.rb": {"rb/lib/c.rb", "rb/lib/deep/b.rb"}, "php/A.php": {"php/Sub/B.php"},
	}, imports(s))
	for doc := range s.Docs() {
		for _, to := range s.Imports(uint32(doc)) {
			require.Contains(t, s.ImportedBy(to), uint32(doc))
		}
	}
}

func FuzzADamagedRecordIsAnError(f *testing.F) {
	r := index.NewRecord("a.go", []byte(strings.Repeat("package a\n\nfunc A() {}\n", 3)))
	f.Add(r.Encode())
	f.Fuzz(func(_ *testing.T, b []byte) {
		if r, err := index.DecodeRecord(b); err == nil {
			r.Encode()
		}
	})
}

func TestIndexesAreListedWithTheirRepositories(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	list, err := index.List(filepath.Join(root, "none"))
	require.NoError(t, err)
	require.Empty(t, list)
	for _, repo := range []string{"/src/one", "https://example.com/two.git"} {
		d, err := index.Open(root, repo)
		require.NoError(t, err)
		update(t, d, "tree", map[string]string{"a.go": "package a\n"})
		d.Close()
	}
	old := time.Now().Add(-time.Hour)
	require.NoError(t, os.Chtimes(filepath.Join(root, index.Name("/src/one")), old, old))
	list, err = index.List(root)
	require.NoError(t, err)
	require.Len(t, list, 2)
	require.Equal(t, "https://example.com/two.git", list[0].Repo, "the one that was used last comes first")
	require.Equal(t, "/src/one", list[1].Repo)
	require.Positive(t, list[1].Bytes)

	require.NoError(t, os.WriteFile(filepath.Join(root, index.Name("/src/one"), "repository"), []byte("/src/other"), 0o600))
	list, err = index.List(root)
	require.NoError(t, err)
	require.Empty(t, list[1].Repo, "a name that is not that of the index does not count")
}
