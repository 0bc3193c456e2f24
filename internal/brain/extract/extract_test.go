package extract_test

import (
	"fmt"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/internal/brain/extract"
)

// list returns the definitions as "kind parent.name first-last", with a + if they are exported.
func list(x extract.Extract) []string {
	var out []string
	for _, s := range x.Symbols {
		name := s.Name
		if s.Parent != "" {
			name = s.Parent + "." + name
		}
		if s.Exported {
			name += " +"
		}
		out = append(out, fmt.Sprintf("%s %s %d-%d", s.Kind, name, s.Line, s.EndLine))
	}
	return out
}

func TestDefinitionsOfEachLanguageAreFound(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		path, text string
		symbols    []string
		imports    []string
		pkg        string
	}{
		{
			path: "a.go", pkg: "a", imports: []string{"fmt", "example.com/x/y"},
			text: "package a\nimport (\n\t\"fmt\"\n\ty \"example.com/x/y\"\n)\nconst (\n\tOne = iota\n\ttwo\n)\ntype Set[T any] struct {\n\ta int\n}\n" +
				"type Doer interface {\n\tDo(x int) error\n}\nfunc (s *Set[T]) Add(x T) {\n\tif true {\n\t}\n}\nfunc main() { fmt.Println(`func no() {`) }\n",
			symbols: []string{
				"constant One + 7-7", "constant two 8-8", "struct Set + 10-12", "interface Doer + 13-15", "method Doer.Do + 14-14",
				"method Set.Add + 16-19", "function main 20-20",
			},
		},
		{
			path: "a.ts", imports: []string{"./b", "react", "./c"},
			text: "import { b } from './b'\nimport React from \"react\"\nexport * from './c'\nexport class A<T> extends B {\n  private x = 1\n  @dec() async run({ a, b }: P = {}): Promise<{ x: number }> {\n    return { a() {} }\n  }\n" +
				"  handler = (e: Event) => { return 1 }\n}\nexport const go = async (x: number) => {\n}\nfunction inner() { const f = function () {} }\nexport interface I { a(): void }\nexport type T = { a: 1 } | B\nenum E { A, B }\nexport default { methods: { load() {} } }\n",
			symbols: []string{
				"class A + 4-10", "method A.run + 6-8", "method run.a + 7-7", "method A.handler + 9-9", "function go + 11-12", "function inner 13-13",
				"function inner.f 13-13", "interface I + 14-14", "method I.a + 14-14", "type T + 15-15", "enum E 16-16", "method methods.load + 17-17",
			},
		},
		{
			path: "a.py", imports: []string{"os.path", "..pkg.name", ".x"},
			text: "import os.path as p\nfrom ..pkg import name\nfrom . import (\n    x,\n)\nLIMIT: int = 3\nclass A(B):\n    \"\"\"def no(): ...\"\"\"\n    def run(self,\n            x):\n        def inner():\n            pass\n        return 1\n\n    async def _hidden(self): pass\n\ndef f():\n    return {\n    }\nx = f()\n",
			symbols: []string{
				"constant LIMIT + 6-6", "class A + 7-15", "method A.run + 9-13", "function run.inner 11-12", "method A._hidden 15-15", "function f + 17-19", "variable x + 20-20",
			},
		},
		{
			path: "A.java", pkg: "com.x", imports: []string{"java.util.List", "com.y.*"},
			text: "package com.x;\nimport java.util.List;\nimport com.y.*;\n@A(b = {1})\npublic final class A<T> extends B implements C {\n  public static final int MAX = 1;\n  private int[] xs = {1, 2};\n  static { int y = 0; }\n  A(int x) { }\n" +
				"  @Override public List<T> get(String s) throws E {\n    return new X() { void no() {} };\n  }\n  interface In { void a(); }\n  enum K { X, Y; void m() {} }\n}\n",
			symbols: []string{
				"class A + 5-15", "constant A.MAX + 6-6", "method A.A 9-9", "method A.get + 10-12", "interface A.In 13-13", "method In.a + 13-13", "enum A.K 14-14", "method K.m 14-14",
			},
		},
		{
			path: "a.rs", imports: []string{"std::fmt", "crate::a::b", "crate::a::c", "mod inner"},
			text:    "use std::fmt;\nuse crate::a::{b, c as d};\nmod inner;\n#[derive(Debug)]\npub struct S<'a> { x: &'a str }\nimpl<'a> S<'a> {\n    pub fn new() -> Self { let c = '}'; S { x: \"}\" } }\n}\nimpl fmt::Display for S<'_> { fn fmt(&self) {} }\npub(crate) trait T { fn t(&self); }\nmacro_rules! m { () => {} }\npub const C: &[u8] = &[1];\nasync fn run() {}\n",
			symbols: []string{"module inner 3-3", "struct S + 5-5", "method S.new + 7-7", "method S.fmt + 9-9", "interface T + 10-10", "method T.t + 10-10", "macro m + 11-11", "constant C + 12-12", "function run 13-13"},
		},
		{
			path: "a.rb", imports: []string{"set", "./b"},
			text:    "require 'set'\nrequire_relative 'b'\nmodule M\n  class A < B\n    LIMIT = 3\n    attr_reader :x\n    def self.make(a) = new(a)\n    def ok?\n      x if y\n    end\n    private\n    def hid\n      <<~T\n        def no\n      T\n    end\n  end\nend\n",
			symbols: []string{"module M + 3-18", "class M.A + 4-17", "constant A.LIMIT + 5-5", "field A.x + 6-6", "method A.make + 7-7", "method A.ok? + 8-10", "method A.hid 12-16"},
		},
		{
			path: "a.cpp", imports: []string{"vector", "b/c.h"},
			text: "#include <vector>\n#include \"b/c.h\" // x\n#define MAX(a) \\\n  (a)\nnamespace n {\ntemplate <typename T>\nclass A : public B<T> {\n public:\n  A(int x) : x_{x}, y(2) { }\n  virtual int get() const override;\n  bool operator==(const A& o) const { return true; }\n};\nint A::get() const {\n#ifdef X\n  if (a) {\n#else\n  if (b) {\n#endif\n  }\n}\n}\n" +
				"typedef struct { int a; } point;\nstatic int helper(void) { return '{'; }\nint table[] = { 1, 2 };\nenum color { RED };\n",
			symbols: []string{
				"macro MAX + 3-4", "module n + 5-21", "class n.A + 7-12", "method A.A + 9-9", "method A.get + 10-10", "method A.operator== + 11-11", "method A.get + 13-20",
				"type point + 22-22", "function helper 23-23", "variable table + 24-24", "enum color + 25-25",
			},
		},
		{
			path: "a.cs", pkg: "N.M", imports: []string{"System.Text"},
			text:    "\xef\xbb\xbf#region X\nusing System.Text;\nnamespace N.M\n{\n  [Attr]\n  public class A<T> : B where T : C\n  {\n    public int X { get; set; }\n    const string S = @\"a\"\"{\";\n    public async Task<T> Run<U>(int a) => null;\n    private void Hid() { }\n  }\n}\n",
			symbols: []string{"module N.M + 3-13", "class A + 6-12", "field A.X + 8-8", "constant A.S 9-9", "method A.Run + 10-10", "method A.Hid 11-11"},
		},
		{
			path: "a.php", pkg: `A\B`, imports: []string{`C\D`},
			text:    "<?php\nnamespace A\\B;\nuse C\\D as E;\nabstract class K extends L {\n  use Tr;\n  const X = 1;\n  public function run(array $a = []): ?int { return <<<T\n  }\n  T; }\n  private static function hid() {}\n}\nfunction f() {}\n",
			symbols: []string{`module A\B + 2-2`, "class K + 4-11", "constant K.X + 6-6", "method K.run + 7-9", "method K.hid 10-10", "function f + 12-12"},
		},
		{
			path: "a.kt", pkg: "a.b", imports: []string{"c.d.*", "e.f"},
			text:    "package a.b\nimport c.d.*\nimport e.f as g\nconst val X = 1\ndata class A(val a: Int?) : B() {\n  val z: Int?\n  fun <T> List<T>.run(x: Int = 1): T? = x.let { it }\n  private fun hid() {\n  }\n  companion object {\n    fun of() = A(1)\n  }\n}\n",
			symbols: []string{"constant X + 4-4", "class A + 5-13", "field A.z + 6-6", "method A.run + 7-7", "method A.hid 8-9", "method A.of + 11-11"},
		},
		{
			path: "a.sh", imports: []string{"./lib.sh"},
			text:    "#!/bin/bash\nNAME=x\nsource ./lib.sh\nrun() {\n  cat <<EOF\nno() {\nEOF\n}\nfunction go { echo \"${x#y}\"; }\n",
			symbols: []string{"variable NAME + 2-2", "function run + 4-8", "function go + 9-9"},
		},
		{
			path: "a.md", text: "# One\ntext\n```\n# no\n```\n## Two\nx\n\nThree\n=====\n",
			symbols: []string{"heading One + 1-8", "heading One.Two + 6-8", "heading Three + 9-10"},
		},
		{path: "a.yaml", text: "a:\n  b: 1\n  c:\n    d: 2\ne: 3\n", symbols: []string{"key a + 1-1", "key a.b 2-2", "key a.c 3-3", "key e + 5-5"}},
		{path: "a.json", text: "{\n \"a\": {\n  \"b\": [1, {\"c\": 2}]\n },\n \"d\": \"x:\"\n}\n", symbols: []string{"key a + 2-2", "key a.b 3-3", "key d + 5-5"}},
		{path: "a.toml", text: "x = 1\n[t.u]\ny = 2\n", symbols: []string{"key x + 1-1", "key t.u + 2-2", "key t.u.y 3-3"}},
	} {
		t.Run(test.path, func(t *testing.T) {
			t.Parallel()
			x := extract.File(test.path, []byte(test.text))
			require.Equal(t, test.symbols, list(x))
			require.Equal(t, test.imports, x.Imports)
			require.Equal(t, test.pkg, x.Package)
			checkExtract(t, []byte(test.text), x)
		})
	}
}

func TestASignatureIsOneLineOfTheDefinition(t *testing.T) {
	t.Parallel()
	x := extract.File("a.go", []byte("package a\n\n// Add adds.\nfunc Add(\n\ta, b int,\n) (sum int) {\n\treturn a + b\n}\n"))
	require.Equal(t, "func Add( a, b int, ) (sum int)", x.Symbols[0].Signature)
}

func TestAChunkHasTheCommentAboveItsDefinition(t *testing.T) {
	t.Parallel()
	body := strings.Repeat("\tx++\n", 20)
	x := extract.File("a.go", []byte("package a\n\n// A is first.\n// It counts.\nfunc A() {\n"+body+"}\n\nfunc B() {\n"+body+"}\n"))
	require.Equal(t, []extract.Chunk{{Line: 1, EndLine: 2}, {Line: 3, EndLine: 27, Symbol: "A"}, {Line: 28, EndLine: 49, Symbol: "B"}}, x.Chunks)
}

func TestProseIsCommentsAndTexts(t *testing.T) {
	t.Parallel()
	text := "x = 1 // one\ny = \"two\" /* three */ + z"
	x := extract.File("a.go", []byte(text))
	var got []string
	for _, p := range x.Prose {
		got = append(got, text[p.Start:p.End])
	}
	require.Equal(t, []string{"// one", `"two"`, "/* three */"}, got)
}

func TestReferencesCountIdentifiersWithoutKeywords(t *testing.T) {
	t.Parallel()
	x := extract.File("a.py", []byte("def run(value):\n    return helper(value, value)\n"))
	require.Equal(t, []extract.Ref{{"helper", 1}, {"run", 1}, {"value", 3}}, x.Refs)
}

func TestScriptsAreRecognisedByTheirFirstLine(t *testing.T) {
	t.Parallel()
	require.Equal(t, "python", extract.File("bin/tool", []byte("#!/usr/bin/env python3\nx = 1\n")).Lang)
	require.Equal(t, "shell", extract.File("bin/tool", []byte("#!/bin/sh\n")).Lang)
	require.Equal(t, "text", extract.File("bin/tool", []byte("hello")).Lang)
}

// checkExtract checks what holds for every file.
func checkExtract(t *testing.T, content []byte, x extract.Extract) {
	t.Helper()
	require.NotEmpty(t, x.Lang)
	require.LessOrEqual(t, len(x.Symbols), extract.MaxSymbols)
	require.LessOrEqual(t, len(x.Imports), extract.MaxImports)
	require.LessOrEqual(t, len(x.Refs), extract.MaxRefs)
	next, last := 1, 0
	for _, c := range x.Chunks {
		require.Equal(t, next, c.Line)
		require.GreaterOrEqual(t, c.EndLine, c.Line)
		require.LessOrEqual(t, c.EndLine-c.Line, extract.MaxChunkLines)
		next = c.EndLine + 1
	}
	require.Equal(t, x.Lines, next-1)
	for _, s := range x.Symbols {
		require.NotEmpty(t, s.Name)
		require.True(t, utf8.ValidString(s.Name+s.Signature+s.Parent), "%q", s)
		require.LessOrEqual(t, len(s.Signature), extract.MaxSignature)
		require.GreaterOrEqual(t, s.Line, max(last, 1))
		require.LessOrEqual(t, s.EndLine, x.Lines)
		require.GreaterOrEqual(t, s.EndLine, s.Line)
		last = s.Line
	}
	end := 0
	for _, p := range x.Prose {
		require.GreaterOrEqual(t, p.Start, end)
		require.Greater(t, p.End, p.Start)
		end = p.End
	}
	require.LessOrEqual(t, end, len(content))
}

var paths = []string{"a.go", "a.ts", "a.py", "a.java", "a.rs", "a.rb", "a.c", "a.cs", "a.php", "a.kt", "a.sh", "a.md", "a.rst", "a.yaml", "a.json", "a.toml", "a.sql", "Makefile", "a.proto", "a.tf", "a.vue", "a.txt", "a"}

func FuzzAnyFileYieldsAValidExtract(f *testing.F) {
	for i, text := range []string{
		"package a\nfunc (x *T) F() {\n", "class A { a() { `${`${1}`}` } /[/", "def a(:\n  '''", "@A(class {", "r#\"", "def <<~A\n", "#if\n{\n#else\n}", "@\"", "<?php <<<A\n", "fun `a", "x() {\n'", "# a\n===", "a:\n b", "{\"a\":",
		"/*/*/*", "((((}}}", "((([[[{{{", "\xff\xfe\x00", "use a::{b::{c", "impl<", "typedef struct {", "operator", "\"\\", "'\\", "export default {a:{b:{",
	} {
		f.Add(uint8(i), []byte(text))
	}
	f.Fuzz(func(t *testing.T, which uint8, content []byte) {
		checkExtract(t, content, extract.File(paths[int(which)%len(paths)], content))
	})
}

// TestHostileFilesTakeLinearTime reads files that would keep a scanner with backtracking, which takes
// quadratic time, busy until the test's time is up.
func TestHostileFilesTakeLinearTime(t *testing.T) {
	t.Parallel()
	const size = 256 << 10
	for _, unit := range []string{
		"(", "{", "[", "<", "((}", "[)", "{)", "\"\n\\", "'\n\\", "`", "`${", "/", "=/[", "R\"x(", "r#\"", "@\"", "<<<A\n", "<<A\n", "/*", "/* */", "#if\n{\n", "#else\n", "\"\"\"", "'''\\", "a(", "a.b.", "a::", "A_B ", "@a(", "template<",
		"f({", "f=>{", "x={", "(){", "def a\n", " def a\n", "class A{", "impl A{", "use a::{", "a,", "const a=", "a\n", "if(", "# a\n", "a\n=\n", "a:\n", " a:\n", "{\"a\":", "[a]\n", "create table ", "func (", "type T[", "typedef ", "operator(", "struct a(", "~", "\\\n", "#define a \\\n", "<script>", "*", "//\n", "@",
	} {
		for _, path := range paths {
			require.NotEmpty(t, extract.File(path, []byte(strings.Repeat(unit, size/len(unit)))).Lang)
		}
	}
}

func BenchmarkExtract(b *testing.B) {
	// The package's own files stand for files of people.
	files, err := filepath.Glob("*.go")
	require.NoError(b, err)
	var contents [][]byte
	size := 0
	for _, f := range files {
		content, err := os.ReadFile(f)
		require.NoError(b, err)
		contents = append(contents, content)
		size += len(content)
	}
	b.SetBytes(int64(size))
	for b.Loop() {
		for i, f := range files {
			extract.File(f, contents[i])
		}
	}
}

// BenchmarkGoParser reads the same files with Go's own parser, for comparison.
func BenchmarkGoParser(b *testing.B) {
	files, err := filepath.Glob("*.go")
	require.NoError(b, err)
	var contents [][]byte
	size := 0
	for _, f := range files {
		content, err := os.ReadFile(f)
		require.NoError(b, err)
		contents = append(contents, content)
		size += len(content)
	}
	b.SetBytes(int64(size))
	for b.Loop() {
		for i, f := range files {
			_, err := parser.ParseFile(token.NewFileSet(), f, contents[i], parser.ParseComments|parser.SkipObjectResolution)
			require.NoError(b, err)
		}
	}
}
