package refactor_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/internal/gate/change"
	"github.com/rocketgpt/orchestrator/internal/gate/gatetest"
	"github.com/rocketgpt/orchestrator/internal/gate/guard/refactor"
)

type tree = gatetest.Tree

// manifests make the packages of the tests public ones.
var manifests = tree{
	"go.mod": "module a\n", "pyproject.toml": "[project]\n", "p/__init__.py": "", "package.json": `{"name": "a", "main": "src/index.js"}`,
	"Cargo.toml": "[package]\n", "src/lib.rs": "pub mod r;\n", "pom.xml": "<a/>", "a.csproj": "<a/>", "composer.json": "{}", "a.gemspec": "",
	"src/index.ts": "export * from './j';\nexport { kept } from './k';\n",
}

// between returns the change of one file of a public package.
func between(path, before, after string) change.Change {
	b, a := tree{}, tree{}
	for p, c := range manifests {
		b[p], a[p] = c, c
	}
	if before != "" {
		b[path] = before
	}
	if after != "" {
		a[path] = after
	}
	return gatetest.Between(b, a)
}

// judge returns the findings as "rule severity path:line".
func judge(t *testing.T, c change.Change) (out []string) {
	t.Helper()
	found, err := refactor.Guard.Judge(t.Context(), c)
	require.NoError(t, err)
	for i, s := range gatetest.Rules(found) {
		require.NotEmpty(t, found[i].Message)
		rule, at, _ := strings.Cut(s, " ")
		out = append(out, strings.TrimPrefix(rule, "refactor/")+" "+string(found[i].Severity)+" "+at)
	}
	return out
}

type comparison struct {
	name, before, after string
	want                []string
}

func compare(t *testing.T, path, head string, list []comparison) {
	t.Helper()
	for _, tt := range list {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			want := tt.want
			for i, w := range want {
				want[i] = w[:strings.LastIndex(w, " ")+1] + path + w[strings.LastIndex(w, " ")+1:]
			}
			require.Equal(t, want, judge(t, between(path, head+tt.before, head+tt.after)))
		})
	}
}

func TestGoCodeThatOthersUseStaysUsable(t *testing.T) {
	t.Parallel()
	compare(t, "lib/a.go", "package lib\n\nimport \"io\"\n\n", []comparison{
		{"a function is gone", "func F(a int) {}\n\nfunc G() {}", "func G() {}", []string{"removed major :5"}},
		{"a function has a new name", "func F(a int) error { return nil }", "func H(b int) error { return nil }", []string{"renamed major :5"}},
		{"a parameter is added", "func F(a int) {}", "func F(a, b int) {}", []string{"signature medium :5"}},
		{"a parameter is removed", "func F(a, b int) {}", "func F(a int) {}", []string{"signature medium :5"}},
		{"a parameter has another type", "func F(a int) {}", "func F(a string) {}", []string{"signature medium :5"}},
		{"options are added", "func F(a int) {}", "func F(a int, o ...string) {}", nil},
		{"a result is added", "func F() {}", "func F() error { return nil }", []string{"signature medium :5"}},
		{"a parameter has another name", "func F(a int, _ io.Reader) {}", "func F(b int, r io.Reader) {}", nil},
		{"any is an empty interface", "func F(a interface{}) {}", "func F(a any) {}", nil},
		{"type parameters have other names", "func F[T any](a T) T { return a }", "func F[E any](a E) E { return a }", nil},
		{"a field is gone", "type T struct {\n\tA int\n\tb int\n}", "type T struct {\n}", []string{"removed major :6"}},
		{"a field has another type", "type T struct{ A int }", "type T struct{ A string }", []string{"signature medium :5"}},
		{"a method is gone", "type T struct{}\n\nfunc (t *T) M() {}", "type T struct{}", []string{"removed major :7"}},
		{"a method may be promoted", "type T struct{ io.Reader }\n\nfunc (t *T) M() {}", "type T struct{ io.Reader }", nil},
		{"a type is gone with its methods", "type T struct{ A int }\n\nfunc (t *T) M() {}\n\nfunc F() {}", "func F() {}", []string{"removed major :5"}},
		{"a type is another name for one elsewhere", "type T struct{ A int }", "type T = io.PipeReader", nil},
		{"an interface requires more", "type I interface{ A() }", "type I interface {\n\tA()\n\tB()\n}", []string{"requires medium :7"}},
		{"an interface that others cannot implement requires more", "type I interface{ A(); x() }", "type I interface {\n\tA()\n\tB()\n\tx()\n}", nil},
		{"a variable is gone", "var V = 1\n\nfunc F() {}", "func F() {}", []string{"removed medium :5"}},
		{"names of its own", "func f() {}\n\ntype t struct{ A int }\n\nfunc (t) M() {}", "", nil},
		{"an unexported variable is added", "func F(r io.Reader) {}", "func F(r io.Reader) {}\n\nvar _ = 1", nil},
	})
}

func TestGoCodeThatNothingImportsIsNoAPI(t *testing.T) {
	t.Parallel()
	for path, head := range map[string]string{"internal/x/a.go": "package x\n", "cmd/a.go": "package main\n", "lib/a_test.go": "package lib\n", "examples/a.go": "package a\n", "lib/help.go": "package lib\n\nimport \"testing\"\n"} {
		require.Empty(t, judge(t, between(path, head+"func F() {}\n", head)), path)
	}
}

func TestASymbolThatMovesWithinItsPackageIsNotGone(t *testing.T) {
	t.Parallel()
	before := tree{"go.mod": "", "a/a.go": "package a\n\nfunc F() {}\n\nfunc G() {}\n", "a/linux.go": "package a\n\nfunc H() {}\n", "a/other.go": "//go:build !linux\n\npackage a\n\nfunc H() {}\n"}
	after := tree{"go.mod": "", "a/a.go": "package a\n\nfunc G() {}\n", "a/b.go": "package a\n\nfunc F() {}\n", "a/other.go": before["a/other.go"]}
	require.Empty(t, judge(t, gatetest.Between(before, after)))
}

func TestWhatThePlanMentionsIsAnnounced(t *testing.T) {
	t.Parallel()
	c := between("lib/a.go", "package lib\n\nfunc Fetch() {}\n\nfunc Get() {}\n", "package lib\n\nfunc Get() {}\n")
	require.Equal(t, []string{"removed major lib/a.go:3"}, judge(t, c))
	c.Plan.Text = "Remove Fetcher and prefetch."
	require.Equal(t, []string{"removed major lib/a.go:3"}, judge(t, c))
	c.Plan.Text = "Remove `Fetch`."
	require.Equal(t, []string{"announced minor lib/a.go:3"}, judge(t, c))
	c.Plan = change.Plan{Files: []string{"lib/a.go"}}
	require.Equal(t, []string{"announced minor lib/a.go:3"}, judge(t, c))
}

func TestAFileThatIsDeletedIsOneFinding(t *testing.T) {
	t.Parallel()
	require.Equal(t, []string{"file major lib/a.go"}, judge(t, between("lib/a.go", "package lib\n\nfunc F() {}\n\nfunc G() {}\n", "")), "a package")
	require.Equal(t, []string{"file major p/a.py"}, judge(t, between("p/a.py", "def f(): pass\n\n\ndef g(): pass\n", "")))
	c := gatetest.Between(tree{"setup.py": "", "p/__init__.py": "", "p/a.py": "def f(): pass\n"}, tree{"setup.py": "", "p/__init__.py": "", "p/b.py": "def f(): pass\n"})
	found, err := refactor.Guard.Judge(t.Context(), c)
	require.NoError(t, err)
	require.Len(t, found, 1)
	require.Contains(t, found[0].Message, "moved to p/b.py")
	require.Empty(t, judge(t, gatetest.Between(tree{"setup.py": "", "p/a.py": "def f(): pass\n"}, tree{"setup.py": "", "p/a/__init__.py": "def f(): pass\n"})), "the same module")
}

func TestPythonCodeThatOthersUseStaysUsable(t *testing.T) {
	t.Parallel()
	compare(t, "p/a.py", "import os\n", []comparison{
		{"a function is gone", "def f(): pass\n\ndef g(a): pass", "def g(a): pass", []string{"removed major :2"}},
		{"a function is imported", "def f(): pass\n\ndef g(): pass", "from .b import f\n\ndef g(): pass", nil},
		{"a private one is gone", "def _f(): pass\n\ndef g(): pass", "def g(): pass", nil},
		{"one that is not in the list is gone", "__all__ = ['g']\ndef f(): pass\n\ndef g(): pass", "__all__ = ['g']\ndef g(): pass", nil},
		{"a parameter is added", "def f(a): pass", "def f(a, b): pass", []string{"signature medium :2"}},
		{"a parameter with a default is added", "def f(a, *, c=1): pass", "def f(a, b=(1, 2), *, c=1): pass", nil},
		{"a parameter is gone", "def f(a, b): pass", "def f(a): pass", []string{"signature medium :2"}},
		{"a parameter has another name", "def f(a): pass", "def f(b): pass", []string{"signature minor :2"}},
		{"a default is gone", "def f(a=1): pass", "def f(a): pass", []string{"signature medium :2"}},
		{"a result is annotated", "def f(a): pass", "def f(a: Dict[str, int]) -> int: pass", nil},
		{"a method is gone", "class C:\n    def m(self): pass\n    def n(self, a): pass", "class C:\n    def n(self, a): pass", []string{"removed major :3"}},
		{"a method may be inherited", "class C(B):\n    def m(self): pass\n    def n(self, a): pass", "class C(B):\n    def n(self, a): pass", []string{"removed minor :3"}},
		{"a method of a private class is gone", "class _C:\n    def m(self): pass\n    def n(self): pass", "class _C:\n    def n(self): pass", nil},
	})
}

func TestJavaScriptCodeThatOthersUseStaysUsable(t *testing.T) {
	t.Parallel()
	compare(t, "src/j.ts", "import x from 'y';\n", []comparison{
		{"a function is gone", "export function f() {}\nexport function g(a: string) {}", "export function g(a: string) {}", []string{"removed major :2"}},
		{"a function is exported by a list", "export function f() {}\nexport function g() {}", "function f() {}\nexport { f };\nexport function g() {}", nil},
		{"a function is exported of another module", "export function f() {}\nexport function g() {}", "export { f } from './f';\nexport function g() {}", nil},
		{"all of another module is exported", "export function f() {}\nexport function g() {}", "export * from './f';\nexport function g() {}", nil},
		{"a parameter is added", "export function f(a: string) {}", "export function f(a: string, b: number) {}", []string{"signature medium :2"}},
		{"an optional parameter is added", "export function f(a: string) {}", "export function f(a: string, b?: Map<string, number>, c = 1) {}", nil},
		{"a parameter is removed", "export const f = (a: string, b: string) => a + b", "export const f = (a: string) => a", []string{"signature medium :2"}},
		{"a function that is not exported is gone", "function f() {}\nexport function g() {}", "export function g() {}", nil},
	})
	require.Equal(t, []string{"unreachable minor src/k.ts:2"}, judge(t, between("src/k.ts", "export function kept() {}\nexport function gone(a) {}\n", "export function kept() {}\n")), "no entry leads to it")
	require.Equal(t, []string{"removed major src/k.ts:1"}, judge(t, between("src/k.ts", "export function kept() {}\nexport function other(a) {}\n", "export function other(a) {}\n")), "an entry names it")
}

func TestCodeInLanguagesWithTypesStaysUsable(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		path, before, after string
		want                []string
	}{
		{"src/main/java/A.java", "package a;\npublic class A {\n  public int f(int a) { return a; }\n  private void g() {}\n}", "package a;\npublic class A {\n}", []string{"removed major src/main/java/A.java:3"}},
		{"src/main/java/A.java", "package a;\npublic class A {\n  public int f(int a) { return a; }\n}", "package a;\npublic class A {\n  public long f(int a) { return a; }\n}", []string{"signature medium src/main/java/A.java:3"}},
		{"src/main/java/A.java", "package a;\npublic class A {\n  public int f(int a) { return a; }\n}", "package a;\npublic class A {\n  public int f(final int b) { return b; }\n  public int f(int a, List<String> c) { return a; }\n}", nil},
		{"src/main/java/A.java", "package a;\nclass A {\n  public int f(int a) { return a; }\n}", "package a;\nclass A {\n}", nil},
		{"src/r.rs", "pub fn f(a: &str) -> u8 { 1 }\npub(crate) fn g() {}\n", "pub fn f(a: &str) -> u16 { 1 }\n", []string{"signature medium src/r.rs:1"}},
		{"src/r.rs", "pub fn f<'a>(a: &'a str) -> u8 { 1 }\npub fn h(x: u8) {}\n", "pub fn f(a: &str) -> u8 { 1 }\n", []string{"removed major src/r.rs:2"}},
		{"src/r.rs", "pub struct S;\nimpl S {\n    pub fn f(&self, a: u8) {}\n    fn g(&self) {}\n}\nimpl Clone for S {\n    fn clone(&self) -> S { S }\n}\n", "pub struct S;\nimpl S {\n    pub fn f(&self) {}\n}\n", []string{"signature medium src/r.rs:3"}},
		{"A.cs", "namespace A;\npublic class A {\n  public int F(int a) => a;\n  internal void G() { }\n}", "namespace A;\npublic class A {\n  public int F(int a, int b) => a;\n}", []string{"signature medium A.cs:3"}},
		{"A.kt", "package a\nfun f(a: Int): Int = a\nprivate fun g() = 1\n", "package a\nfun f(a: Int, b: Int = 1): Int = a\n", nil},
		{"A.php", "<?php\nnamespace A;\nclass A {\n  public function f($a) {}\n  private function g() {}\n}", "<?php\nnamespace A;\nclass A {\n  public function f($a, $b) {}\n}", []string{"signature medium A.php:4"}},
		{"lib/a.rb", "class A\n  def f(a)\n  end\n  def g\n  end\nend\n", "class A\n  def f(a, b = 1)\n  end\nend\n", []string{"removed major lib/a.rb:4"}},
	} {
		require.Equal(t, tt.want, judge(t, between(tt.path, tt.before, tt.after)), tt.before)
	}
}

func TestWhatNothingOutsideCanUseIsMinor(t *testing.T) {
	t.Parallel()
	const two, one = "export function f() {}\nexport function g(a) {}\n", "export function g(a) {}\n"
	for name, manifest := range map[string]string{"private": `{"private": true, "main": "a.js"}`, "none": ""} {
		b, a := tree{"a.js": two}, tree{"a.js": one}
		if manifest != "" {
			b["package.json"], a["package.json"] = manifest, manifest
		}
		require.Equal(t, []string{"unreachable minor a.js:1"}, judge(t, gatetest.Between(b, a)), name)
	}
	require.Equal(t, []string{"unreachable minor a.py:1"}, judge(t, gatetest.Between(tree{"a.py": "def f(): pass\ndef g(): pass\n"}, tree{"a.py": "def g(): pass\n"})))
}

func TestGoCodeWithoutAModuleCanBeImported(t *testing.T) {
	t.Parallel()
	c := gatetest.Between(tree{"a.go": "package a\n\nfunc A() {}\n"}, tree{"a.go": "package a\n\nfunc B() {}\n"})
	require.Equal(t, []string{"renamed major a.go:3"}, judge(t, c))
	c = gatetest.Between(tree{"b/go.mod": "module b\n", "a.go": "package a\n\nfunc A() {}\n"}, tree{"b/go.mod": "module b\n", "a.go": "package a\n\nfunc B() {}\n"})
	require.Equal(t, []string{"unreachable minor a.go:3"}, judge(t, c))
}

func TestThePackageOfJavaCodeMayHaveAnyName(t *testing.T) {
	t.Parallel()
	c := between("src/main/java/org/example/tools/A.java", "package org.example.tools;\npublic class A {\n    public int a() { return 1; }\n}\n", "package org.example.tools;\npublic class A {\n    public int b(int c) { return 1; }\n}\n")
	require.Equal(t, []string{"renamed major src/main/java/org/example/tools/A.java:3"}, judge(t, c))
	c = between("examples/src/main/java/org/A.java", "package org;\npublic class A {\n    public int a() { return 1; }\n}\n", "package org;\npublic class A {\n}\n")
	require.Empty(t, judge(t, c))
}

func TestOverloadsOfPythonFunctionsAreNotTheFunction(t *testing.T) {
	t.Parallel()
	compare(t, "p/a.py", "", []comparison{
		{"described", "def a(b, c=None):\n    return b\n", "@overload\ndef a(b: int, c: int) -> int: ...\n\n\n@typing.overload\ndef a(b: int) -> None: ...\n\n\ndef a(b, c=None):\n    return b\n", nil},
	})
}

func TestTheGuardStopsWithItsContext(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := refactor.Guard.Judge(ctx, between("lib/a.go", "package lib\n", "package lib\n\nvar A = 1\n"))
	require.ErrorIs(t, err, context.Canceled)
}

func FuzzNoContentBreaksTheGuard(f *testing.F) {
	for _, p := range []string{"a.go", "a.ts", "p/a.py", "A.java", "a.kt", "a.cs", "src/r.rs", "a.php", "lib/a.rb"} {
		f.Add(p, "export function f(a, b = {c: [1]}) {}\npub fn g<T>(a: &'a T) -> T\ndef h(self, *a, b: int = 1) -> int:\n", "package a\nfunc F[T any](a ...T) (\x00\xff")
	}
	f.Fuzz(func(t *testing.T, path, before, after string) {
		if len(before)+len(after) > 1<<15 {
			t.Skip("the fuzzer looks for contents, not for sizes")
		}
		c := change.Change{Files: []change.File{{Path: path, Before: gatetest.File(before), After: gatetest.File(after)}}, Base: tree{path: before}, Tree: tree{path: after}}
		first, err := refactor.Guard.Judge(t.Context(), c)
		require.NoError(t, err)
		again, err := refactor.Guard.Judge(t.Context(), c)
		require.NoError(t, err)
		require.Equal(t, first, again)
	})
}

func hostile() map[string]string {
	deep := func(s string) string { return strings.Repeat(s, (500<<10)/len(s)) }
	return map[string]string{
		"a/a.go": "package a\nvar X " + deep("*") + "int", "b/a.go": "package a\n" + deep("var A = 1\n"), "p/a.py": deep("def f(a, b): pass\n"), "p/b.py": "def f(" + deep("a, ") + "): pass",
		"src/j.ts": deep("export function f(a) {}\n"), "src/index.ts": deep("export * from './j'\n"), "src/r.rs": deep("pub fn f(a: u8) {}\n"), "A.java": "public class A {" + deep("public int f(int a) {}\n") + "}",
		"q/a.py": "def f(" + deep("("), "src/x.ts": "export function f(" + deep("<"), "src/y.ts": "export const f = " + deep("a => "), "lib/a.rb": deep("class A\ndef f(a)\nend\n"), "one.ts": "export {" + deep("a, "),
	}
}

func BenchmarkGuard(b *testing.B) {
	goText := "package a\n\n" + strings.Repeat("// F does.\nfunc F%d(a, b int) (int, error) {\n\tif a > b {\n\t\treturn a, nil\n\t}\n\treturn b, nil\n}\n\n", 1)
	tsText := "export function f%d(a: string, b = 1): string {\n  return a + b;\n}\n\n"
	for _, n := range []int{20, 2000} {
		before, after := tree{"go.mod": "", "package.json": `{"main": "src/index.ts"}`}, tree{"go.mod": "", "package.json": `{"main": "src/index.ts"}`}
		for i := range n {
			text, p := goText, fmt.Sprintf("d%d/a%d.go", i%50, i)
			if i%2 == 1 {
				text, p = tsText, fmt.Sprintf("src/a%d.ts", i)
			}
			var x strings.Builder
			fmt.Fprintf(&x, text, 0)
			for k := 1; k < 30; k++ {
				x.WriteString(strings.TrimPrefix(fmt.Sprintf(text, k), "package a\n\n"))
			}
			before[p], after[p] = x.String(), strings.Replace(x.String(), "b", "c", 40)
		}
		c := gatetest.Between(before, after)
		b.Run(fmt.Sprint(n, "Files"), func(b *testing.B) {
			for b.Loop() {
				if _, err := refactor.Guard.Judge(b.Context(), c); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	for path, content := range hostile() {
		c := between(path, content, content+"\n\n")
		b.Run(strings.ReplaceAll(path, "/", "_"), func(b *testing.B) {
			for b.Loop() {
				if _, err := refactor.Guard.Judge(b.Context(), c); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
