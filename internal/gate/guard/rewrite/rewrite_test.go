package rewrite_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/gate/change"
	"github.com/rocketgpt/orchestrator/internal/gate/gatetest"
	"github.com/rocketgpt/orchestrator/internal/gate/guard/rewrite"
)

// judged returns the findings as "severity rule path:line".
func judged(tb testing.TB, c change.Change) (out []string) {
	tb.Helper()
	found, err := rewrite.Guard.Judge(tb.Context(), c)
	require.NoError(tb, err)
	for i, rule := range gatetest.Rules(found) {
		out = append(out, string(found[i].Severity)+" "+strings.TrimPrefix(rule, rewrite.Name+"/"))
		require.NotContains(tb, found[i].Message, "%!", "the message is complete")
	}
	return out
}

// entry is a change with one entry, in a tree of other files.
func entry(f change.File, others ...string) change.Change {
	base, tree := gatetest.Tree{}, gatetest.Tree{}
	for _, p := range others {
		base[p], tree[p] = "x", "x"
	}
	if f.Before.Regular() {
		base[f.OldPath()] = string(f.Before.Content)
	}
	if f.After.Regular() {
		tree[f.Path] = string(f.After.Content)
	}
	return change.Change{Base: base, Tree: tree, Files: []change.File{f}}
}

func file(content string) change.Version { return gatetest.File(content) }

func exec(content string) change.Version { return gatetest.Entry(change.ModeExecutable, content) }

func TestAnOrdinaryChangeHasNoFindings(t *testing.T) {
	t.Parallel()
	before := gatetest.Tree{"main.go": "package main\n", "LICENSE": "MIT\n", "old.go": "// Copyright 2020 A\npackage a\n", "run.sh": "#!/bin/sh\n", "docs/license.md": "a"}
	after := maps.Clone(before)
	after["main.go"], after["internal/new.go"], after["docs/license.md"] = "package main\n\nfunc main() {}\n", "package internal\n", "b"
	after["old.go"] = "// Copyright 2020-2026 A\npackage a\n\nvar x int\n"
	delete(after, "run.sh")
	require.Empty(t, judged(t, gatetest.Between(before, after)))
}

func TestProtectedPathsAreFoundInAllSpellings(t *testing.T) {
	t.Parallel()
	for _, path := range []string{
		".github/workflows/ci.yml", ".GitHub/Workflows/ci.yml", ".github/workflows./ci.yml", ".git\u200dhub/workflows/ci.yml", "Secret/x", "secre\u0301t/x",
	} {
		c := entry(change.File{Path: path, After: file("a")})
		c.Limits.Protected = []string{".github/**", "SECRET/*", "SECR\u00c9T/*", "secr\u00e9t/*"}
		require.Contains(t, judged(t, c), "major protected "+path)
	}
	renamed := entry(change.File{Path: "b/ci.yml", From: ".github/ci.yml", Before: file("a"), After: file("a")})
	renamed.Limits.Protected = []string{".github/**"}
	require.Equal(t, []string{"major protected .github/ci.yml"}, judged(t, renamed), "what leaves a protected path changes it")
	renamed.Files[0].Path, renamed.Files[0].From = ".github/ci.yml", "b/ci.yml"
	require.Equal(t, []string{"major protected .github/ci.yml"}, judged(t, renamed))
}

func TestOnlyAllowedPathsMayChange(t *testing.T) {
	t.Parallel()
	c := gatetest.Between(gatetest.Tree{"src/a.go": "a", "docs/a.md": "a"}, gatetest.Tree{"src/a.go": "b", "docs/a.md": "b", "SRC/b.go": "c"})
	c.Limits.Allowed = []string{"src/**", "{"}
	require.Equal(t, []string{"major pattern", "major ambiguous-path SRC/b.go", "major outside docs/a.md"}, judged(t, c))
	c.Limits.Protected = []string{"src/a.go"}
	require.Contains(t, judged(t, c), "major protected src/a.go", "a protected path is not allowed by another pattern")
}

func TestPathsThatMeanSomethingElseAreUnsafe(t *testing.T) {
	t.Parallel()
	for _, path := range []string{
		".GIT/config", "a/.git/hooks/x", "git~1/config", ".g\u200cit/config", ".git /x", ".git./x", ".git::$INDEX_ALLOCATION/x",
		"../x", "a/../../x", "/etc/passwd", "a//b", "./a", "", "a\\b", "C:x", "a\nb", "a\u202egpj.exe", "a\u200bb", "a\xffb", "a /b", "a./b", " a",
		strings.Repeat("n", 300), strings.Repeat("n/", 3000) + "x",
	} {
		require.Contains(t, judged(t, entry(change.File{Path: path, After: file("a")})), strings.TrimSuffix("major unsafe-path "+path, " "), "%q", path)
	}
	require.Empty(t, judged(t, entry(change.File{Path: "a\nb", Before: file("a")}, "other")), "its removal is safe")
	for _, path := range []string{"a/con.txt", "NUL", "cafe\u0301", "a?b", "ab:c"} {
		require.Equal(t, []string{"minor unportable-path " + path}, judged(t, entry(change.File{Path: path, After: file("a")})))
	}
}

func TestPathsThatDifferOnlyInSpellingAreAmbiguous(t *testing.T) {
	t.Parallel()
	for name, paths := range map[string][2]string{
		"case": {"README.md", "readme.md"}, "composition": {"caf\u00e9", "cafe\u0301"}, "a directory": {"docs/a", "Docs/b"}, "a file and a directory": {"docs", "DOCS/b"},
	} {
		found := judged(t, entry(change.File{Path: paths[1], After: file("a")}, paths[0]))
		require.Contains(t, found, "major ambiguous-path "+paths[1], name)
	}
	both := gatetest.Between(gatetest.Tree{}, gatetest.Tree{"A": "1", "a": "2"})
	require.Equal(t, []string{"major ambiguous-path A"}, judged(t, both), "two new files")
	link := entry(change.File{Path: "A", After: gatetest.Entry(change.ModeLink, "b")}, "a", "b")
	require.Contains(t, judged(t, link), "major ambiguous-path A", "a link")
	require.Empty(t, judged(t, entry(change.File{Path: "README.md", From: "Readme.md", Before: file("a"), After: file("a")})), "a rename of the only one")
}

func TestConfiguredLimitsAreEnforced(t *testing.T) {
	t.Parallel()
	before, after := gatetest.Tree{"keep1": "x", "keep2": "x", "keep3": "x"}, gatetest.Tree{"keep1": "x", "keep2": "x", "keep3": "x"}
	for i := range 3 {
		before[fmt.Sprint("gone", i)] = fmt.Sprint("gone", i)
		after[fmt.Sprint("new", i)] = strings.Repeat("line\n", 100+i)
	}
	c := gatetest.Between(before, after)
	require.Empty(t, judged(t, c), "without limits")
	for rule, l := range map[string]change.Limits{
		"files": {Files: 5}, "lines": {Lines: 100}, "deletions": {Deletions: 2}, "size": {Bytes: 1000},
	} {
		c.Limits = l
		require.Equal(t, []string{"major " + rule}, judged(t, c))
	}
	c.Limits = change.Limits{FileBytes: 509}
	require.Equal(t, []string{"major file-size new2"}, judged(t, c))
	c.Limits = change.Limits{Files: 6, Lines: 306, Deletions: 3, Bytes: 1515, FileBytes: 510}
	require.Empty(t, judged(t, c), "limits that are met")
	c.Unread = 7
	require.Equal(t, []string{"major files", "major unread"}, sorted(judged(t, c)))
}

func sorted(s []string) []string { slices.Sort(s); return s }

func TestTheLossOfAPartOfTheRepositoryIsFound(t *testing.T) {
	t.Parallel()
	tree := func(n int, from int) gatetest.Tree {
		out := gatetest.Tree{}
		for i := from; i < n; i++ {
			out[fmt.Sprintf("f%03d", i)] = strings.Repeat(fmt.Sprint("content ", i, "\n"), 150)
		}
		return out
	}
	require.Equal(t, []string{"major mass-deletion"}, judged(t, gatetest.Between(tree(100, 0), tree(100, 21))))
	require.Empty(t, judged(t, gatetest.Between(tree(100, 0), tree(100, 20))))
	require.Empty(t, judged(t, gatetest.Between(tree(200, 0), tree(200, 21))), "a small part")
	require.Equal(t, []string{"major mass-deletion"}, judged(t, gatetest.Between(tree(2, 0), gatetest.Tree{})), "all of it")
	emptied := tree(100, 0)
	for i := range 30 {
		emptied[fmt.Sprintf("f%03d", i)] = strings.Repeat("\n", i%2)
	}
	require.Equal(t, []string{"major mass-deletion"}, judged(t, gatetest.Between(tree(100, 0), emptied)), "the content of files")
}

func TestContentThatNobodyCanReadIsFound(t *testing.T) {
	t.Parallel()
	png := "\x89PNG\r\n\x1a\n\x00\x00"
	for path, f := range map[string]struct{ content, want string }{
		"run":          {"\x7fELF\x02\x00", "major program"},
		"run.txt":      {"MZ\x90\x00", "major program"},
		"lib/a.jar":    {"PK\x03\x04\x00", "major program"},
		"a.pyc":        {"\x00", "major program"},
		"a.zip":        {"PK\x03\x04\x00", "medium binary"},
		"main.go":      {"package main\x00", "medium binary"},
		"logo.png":     {png, "minor media"},
		"sneaky.png":   {"PK\x03\x04\x00", "medium binary"},
		"sneaky2.woff": {"\x7fELF\x00", "major program"},
	} {
		added := entry(change.File{Path: path, After: file(f.content)})
		require.Equal(t, []string{f.want + " " + path}, judged(t, added))
		changed := entry(change.File{Path: path, Before: file("x"), After: file(f.content)})
		require.Equal(t, []string{f.want + " " + path}, judged(t, changed))
		moved := entry(change.File{Path: "moved-" + strings.ReplaceAll(path, "/", "-"), From: path, Before: file(f.content), After: file(f.content)})
		require.Empty(t, judged(t, moved), "a move shows nothing new")
		require.Empty(t, judged(t, entry(change.File{Path: path, Before: file(f.content)}, "other")), "a deletion shows nothing new")
	}
	unread := change.Version{Mode: change.ModeFile, Digest: "d", Size: 100 << 20, Unread: true}
	require.Equal(t, []string{"medium unread-file a.txt"}, judged(t, entry(change.File{Path: "a.txt", After: unread})))
	require.Equal(t, []string{"minor media a.png"}, judged(t, entry(change.File{Path: "a.png", After: unread})))
}

func TestPermissionsAndKindsOfEntriesAreFound(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		before, after change.Version
		want          []string
	}{
		"a text becomes executable":   {file("a"), exec("a"), []string{"medium executable a"}},
		"a new executable text":       {change.Version{}, exec("a"), []string{"medium executable a"}},
		"a script becomes executable": {file("#!/bin/sh\n"), exec("#!/bin/sh\n"), nil},
		"a script loses it":           {exec("#!/bin/sh\n"), file("#!/bin/sh\n"), []string{"minor executable a"}},
		"an executable text changes":  {exec("a"), exec("b"), nil},
		"a link becomes a file":       {gatetest.Entry(change.ModeLink, "b"), file("b"), []string{"medium type a"}},
		"a file becomes a link":       {file("b"), gatetest.Entry(change.ModeLink, "b"), []string{"medium type a", "minor link a"}},
		"a new submodule":             {change.Version{}, gatetest.Entry(change.ModeSubmodule, "1"), []string{"major submodule a"}},
		"a submodule moves on":        {gatetest.Entry(change.ModeSubmodule, "1"), gatetest.Entry(change.ModeSubmodule, "2"), []string{"medium submodule a"}},
		"a submodule disappears":      {gatetest.Entry(change.ModeSubmodule, "1"), change.Version{}, []string{"major submodule a"}},
		"a submodule becomes a file":  {gatetest.Entry(change.ModeSubmodule, "1"), file("a"), []string{"major submodule a"}},
	} {
		require.Equal(t, c.want, judged(t, entry(change.File{Path: "a", Before: c.before, After: c.after}, "b", "c")), name)
	}
	require.Equal(t, []string{"major submodule sub/.GITMODULES"}, judged(t, entry(change.File{Path: "sub/.GITMODULES", After: file("[submodule \"a\"]\n")})))
}

func TestLinksMayOnlyLeadToFilesOfTheRepository(t *testing.T) {
	t.Parallel()
	for target, want := range map[string]string{
		"b.md": "minor link", "sub": "minor link", "../docs/b.md": "minor link", "./sub/../b.md": "minor link",
		"/etc/passwd": "major link-outside", "../../x": "major link-outside", "../../docs/b.md": "major link-outside", "../.git/config": "major link-outside",
		"../.GIT": "major link-outside", "../git~1/x": "major link-outside", `..\..\x`: "major link-outside", "C:/x": "major link-outside", "~/x": "major link-outside",
		"": "major link-outside", "b.md\x00": "major link-outside", "sub/../../../docs/b.md": "major link-outside",
		"../ci/deploy.yml": "major link-protected", "../CI/deploy.yml": "major link-protected", "../ci": "major link-protected",
		"..": "medium link-chain", ".": "medium link-chain", "link": "medium link-chain", "missing": "medium link-chain", "other": "medium link-chain", "other/x": "medium link-chain",
	} {
		c := entry(change.File{Path: "docs/link", After: gatetest.Entry(change.ModeLink, target)}, "docs/b.md", "docs/sub/c.md", "ci/deploy.yml")
		c.Files = append(c.Files, change.File{Path: "docs/other", After: gatetest.Entry(change.ModeLink, "sub")})
		c.Limits.Protected = []string{"ci/**"}
		require.Contains(t, judged(t, c), want+" docs/link", "%q", target)
	}
	old := change.File{Path: "a", Before: gatetest.Entry(change.ModeLink, "/etc"), After: gatetest.Entry(change.ModeLink, "/etc")}
	require.Empty(t, judged(t, entry(old)), "an unchanged link")
	old.From, old.Path = "x/a", "a"
	require.Equal(t, []string{"major link-outside a"}, judged(t, entry(old)), "a moved link leads elsewhere")
}

func TestAttributesThatRunCommandsAreFound(t *testing.T) {
	t.Parallel()
	c := entry(change.File{
		Path: ".gitattributes", Before: file("*.txt text\n*.old filter=old\n"),
		After: file("*.txt text\n*.old filter=old\n# filter=comment\n\n*.go diff=golang\n*.c filter=evil\n*.h diff=evil\n[attr]x merge=evil\n*.md merge=union\n"),
	})
	require.Equal(t, []string{
		"minor attributes .gitattributes:5", "major attribute-driver .gitattributes:6", "medium attribute-driver .gitattributes:7",
		"medium attribute-driver .gitattributes:8", "minor attributes .gitattributes:9",
	}, judged(t, c))
}

func TestGeneratedFilesChangeWithTheirSources(t *testing.T) {
	t.Parallel()
	const mark = "// Code generated by protoc-gen-go. DO NOT EDIT.\n// source: api/a.proto\n"
	before := gatetest.Tree{"a.pb.go": mark + "package a\n", "api/a.proto": "1", "gen.go": "// Code generated by x. DO NOT EDIT.\n", "Cargo.lock": "# @generated by cargo\n"}
	change := func(paths ...string) []string {
		after := maps.Clone(before)
		for _, p := range paths {
			after[p] += "changed\n"
		}
		return judged(t, gatetest.Between(before, after))
	}
	require.Equal(t, []string{"medium generated a.pb.go"}, change("a.pb.go"))
	require.Equal(t, []string{"medium generated gen.go"}, change("gen.go"))
	require.Empty(t, change("a.pb.go", "api/a.proto"))
	require.Empty(t, change("gen.go", "other.tmpl"))
	require.Empty(t, change("Cargo.lock"))
	after := maps.Clone(before)
	after["gen.go"] = "package a\n"
	require.Equal(t, []string{"minor generated gen.go"}, judged(t, gatetest.Between(before, after)))
}

func TestCodeOfOthersChangesWithItsManifest(t *testing.T) {
	t.Parallel()
	before := gatetest.Tree{"vendor/a/a.go": "1", "vendor/b/b.go": "1", "go.mod": "1", "src/third_party/c.c": "1"}
	after := maps.Clone(before)
	after["vendor/a/a.go"], after["vendor/b/b.go"], after["src/third_party/c.c"] = "2", "2", "2"
	require.Equal(t, []string{"medium vendored src/third_party/c.c", "medium vendored vendor/a/a.go"}, judged(t, gatetest.Between(before, after)))
	after["go.mod"] = "2"
	require.Equal(t, []string{"minor vendored src/third_party/c.c", "minor vendored vendor/a/a.go"}, judged(t, gatetest.Between(before, after)))
}

func TestLicencesAndTheirNoticesStay(t *testing.T) {
	t.Parallel()
	mit := "MIT License\n\nCopyright (c) 2020 A\n"
	for name, c := range map[string]struct {
		path          string
		before, after change.Version
		want          []string
	}{
		"a deleted licence":       {"LICENSE", file(mit), change.Version{}, []string{"major licence LICENSE"}},
		"a changed licence":       {"licence.TXT", file(mit), file("GPL\n"), []string{"major licence licence.TXT"}},
		"other years":             {"COPYING", file(mit), file(strings.Replace(mit, "2020", "2020-2026", 1)), []string{"minor licence COPYING"}},
		"a new licence":           {"LICENSES/MIT.txt", change.Version{}, file(mit), []string{"minor licence LICENSES/MIT.txt"}},
		"a licence that is code":  {"license.go", file("package a\n"), file("package b\n"), nil},
		"a page about it":         {"docs/license.rst", file("a"), file("b"), nil},
		"a lost SPDX line":        {"a.go", file("// SPDX-License-Identifier: MIT\npackage a\n"), file("package a\n"), []string{"medium licence-header a.go"}},
		"a lost copyright":        {"a.py", file("#!/usr/bin/python\n# Copyright (c) 2020, A\nx = 1\n"), file("#!/usr/bin/python\nx = 1\n"), []string{"medium licence-header a.py"}},
		"another holder":          {"a.c", file("/* Copyright 2020 A */\n"), file("/* Copyright 2020 B */\n"), []string{"medium licence-header a.c"}},
		"other years in a notice": {"a.c", file("/* Copyright 2020 A */\n"), file("// Copyright (2019-2026)  A\n"), nil},
		"a setting":               {"conf.py", file("copyright = \"2014 A\"\n"), file("copyright = \"2015 B\"\n"), nil},
		"a deleted file":          {"a.c", file("/* Copyright 2020 A */\n"), change.Version{}, nil},
	} {
		require.Equal(t, c.want, judged(t, entry(change.File{Path: c.path, Before: c.before, After: c.after}, "x", "y")), name)
	}
}

func TestFindingsAreSortedAndStopWithTheContext(t *testing.T) {
	t.Parallel()
	c := large(200)
	found, err := rewrite.Guard.Judge(t.Context(), c)
	require.NoError(t, err)
	require.NotEmpty(t, found)
	require.True(t, slices.IsSortedFunc(found, func(a, b change.Finding) int { return strings.Compare(a.Path, b.Path) }))
	for _, f := range found {
		require.Contains(t, contract.Severities(), f.Severity)
		require.LessOrEqual(t, len(f.Message), 1000)
	}
	ctx, cancel := contextOf(t)
	cancel()
	_, err = rewrite.Guard.Judge(ctx, c)
	require.ErrorIs(t, err, ctx.Err())
}

func TestHostileEntriesAreBounded(t *testing.T) {
	t.Parallel()
	deep := strings.Repeat("../", 300_000)
	long := strings.Repeat("A", 1<<20)
	files := []change.File{
		{Path: "deep", After: gatetest.Entry(change.ModeLink, deep)}, {Path: long, After: file(long)},
		{Path: ".gitattributes", After: file(strings.Repeat("* filter=", 100_000))},
		{Path: "LICENSE", Before: file(strings.Repeat("2020-2021,", 100_000)), After: file(strings.Repeat("2020 - ", 100_000))},
		{Path: "a", Before: file(strings.Repeat("// Copyright (c) 2020", 1<<15)), After: file(strings.Repeat("// source: ", 1<<15))},
	}
	c := change.Change{Base: gatetest.Tree{}, Tree: gatetest.Tree{}, Files: files}
	for _, f := range judgedFindings(t, c) {
		require.LessOrEqual(t, len(f.Message), 2000)
	}
}
