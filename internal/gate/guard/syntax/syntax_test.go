package syntax_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/internal/gate/change"
	"github.com/rocketgpt/orchestrator/internal/gate/gatetest"
	"github.com/rocketgpt/orchestrator/internal/gate/guard/syntax"
)

type tree = gatetest.Tree

// judge returns the findings as "rule severity path:line".
func judge(t *testing.T, c change.Change) (out []string) {
	t.Helper()
	found, err := syntax.Guard.Judge(t.Context(), c)
	require.NoError(t, err)
	for i, s := range gatetest.Rules(found) {
		require.NotEmpty(t, found[i].Message)
		rule, at, _ := strings.Cut(s, " ")
		out = append(out, strings.TrimSpace(rule+" "+string(found[i].Severity)+" "+at))
	}
	return out
}

func TestAFileThatAChangeBreaksIsFound(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		path, good, bad, want string
	}{
		{"a.go", "package a\n", "package a\n\nfunc (\n", "syntax/invalid major a.go:3"},
		{"a.json", `{"a": 1}`, "{\n\"a\": 1,\n\"b\"\n}", "syntax/invalid major a.json:4"},
		{"package.json", `{"a": 1}`, "{\n\"a\": 1,\n}", "syntax/invalid major package.json:3"},
		{"a.yaml", "a: 1\n", "a: 1\n  b: [\n", "syntax/invalid major a.yaml:2"},
		{"second.yaml", "a: 1\n---\nb: 2\n", "a: 1\n---\nb: \"\n", "syntax/invalid major second.yaml:3"},
		{"a.toml", "a = 1\n", "a = 1\nb = \n", "syntax/invalid major a.toml:2"},
		{"Cargo.lock", "a = 1\n", "a = 1\na = 2\n", "syntax/invalid major Cargo.lock:2"},
		{"a.xml", "<a><b/></a>", "<a>\n<b></a>", "syntax/invalid major a.xml:2"},
		{"a.sh", "if a; then b; fi\n", "a\nif a; then b\n", "syntax/invalid major a.sh:2"},
		{"A.java", "class A { }", "class A { void a() { }", "syntax/invalid major A.java"},
		{"A.cs", "class A { string a = @\"c:\\\"; char b = '{'; }", "class A { void A() { }", "syntax/invalid major A.cs"},
		{"B.cs", "#region it's {\nclass A { string a = $@\"{x} \"\"(\"; }", "class A { string a = @\"x; }", "syntax/invalid major B.cs"},
		{"a.rs", "fn a<'a>(x: &'a str) { '{'; }", "fn a() { ) }", "syntax/invalid major a.rs"},
	} {
		t.Run(tt.path, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, []string{tt.want}, judge(t, gatetest.Between(tree{tt.path: tt.good}, tree{tt.path: tt.bad})), "changed")
			require.Equal(t, []string{tt.want}, judge(t, gatetest.Between(tree{}, tree{tt.path: tt.bad})), "new")
			require.Empty(t, judge(t, gatetest.Between(tree{tt.path: tt.bad}, tree{tt.path: tt.good})), "fixed")
			require.Empty(t, judge(t, gatetest.Between(tree{tt.path: tt.bad}, tree{tt.path: tt.bad + "\n"})), "broken before")
			require.Empty(t, judge(t, gatetest.Between(tree{tt.path: tt.good}, tree{tt.path: tt.good + "\n"})), "good")
			fixture := "testdata/" + tt.path
			require.Equal(t, []string{strings.Replace(strings.Replace(tt.want, " major ", " minor ", 1), tt.path, fixture, 1)},
				judge(t, gatetest.Between(tree{}, tree{fixture: tt.bad})), "broken on purpose")
		})
	}
}

func TestWhatReadersAcceptIsNoError(t *testing.T) {
	t.Parallel()
	for path, content := range map[string]string{
		"tsconfig.json":         "{\n// a comment\n\"a\": \"//\", /* b */ \"c\": [1, 2,],\n}",
		".vscode/settings.json": "{\"a\": 1,}",
		"a.jsonc":               "// x\n{}",
		"bom.json":              "\xef\xbb\xbf{}",
		"aliases.yaml":          "a: &x {b: 1}\nc:\n  <<: *x\n  <<: *x\n",
		"tags.yaml":             "a: !Ref B\nb: !Sub \"${A}\"\n",
		"anchors.yaml":          "? [a, b]\n: c\n1: a\n\"1\": b\n",
		"empty.yaml":            "",
		"page.xml":              "<!DOCTYPE a SYSTEM \"b\"><a>&nbsp;</a>",
		"latin.xml":             "<?xml version=\"1.0\" encoding=\"ISO-8859-1\"?><a>\xe4</a>",
		"a.zsh.sh":              "#!/bin/zsh\nfor x (a b) { echo $x }\n",
		"A.java":                "class A { char c = '{'; String s = \"\"\"\n{ ( \"\"\"; /* ( */ }",
		"r.rs":                  "fn a<'a>(x: &'a str) -> char { let s = r#\"{\"#; /* /* ( */ */ '(' }",
	} {
		require.Empty(t, judge(t, gatetest.Between(tree{}, tree{path: content})), path)
	}
}

func TestWhatOnlySomeReadersAcceptIsMinor(t *testing.T) {
	t.Parallel()
	for path, content := range map[string]string{
		"a.json":                 "{\"a\": 1} // one",
		"lines.json":             "{\"a\": 1}\n{\"a\": 2}\n",
		"empty.json":             "",
		"charts/templates/a.yml": "a: {{ .Values.a }}\n{{ if .b }}\n",
		"a.yaml":                 "a: {{ cookiecutter.a }}: b\n",
	} {
		require.Equal(t, "syntax/invalid minor", judge(t, gatetest.Between(tree{}, tree{path: content}))[0][:20], path)
	}
}

func TestAConflictThatIsNotResolvedIsFound(t *testing.T) {
	t.Parallel()
	const conflict = "a\n<<<<<<< HEAD\nb\n=======\nc\n>>>>>>> other\n"
	for _, tt := range []struct {
		path, content, want string
	}{
		{"a.py", conflict, "syntax/conflict major a.py:2"},
		{"a.py", "a\n>>>>>>> other\n", "syntax/conflict medium a.py:2"},
		{"docs/a.md", conflict, "syntax/conflict minor docs/a.md:2"},
		{"tests/test_a.py", conflict, "syntax/conflict minor tests/test_a.py:2"},
	} {
		require.Equal(t, []string{tt.want}, judge(t, gatetest.Between(tree{}, tree{tt.path: tt.content})))
		require.Empty(t, judge(t, gatetest.Between(tree{tt.path: tt.content}, tree{tt.path: tt.content + "x\n"})))
	}
	require.Empty(t, judge(t, gatetest.Between(tree{}, tree{"a.py": "x = 1 <<<<<<< 2\n  >>>>>>> a\n<<<<<<<\n>>>>>>>>>> a\nTitle\n=======\n"})))
}

func TestAKeyThatOccursTwiceIsFound(t *testing.T) {
	t.Parallel()
	require.Equal(t, []string{"syntax/duplicate_key medium a.json:3"}, judge(t, gatetest.Between(tree{"a.json": "{}"}, tree{"a.json": "{\n\"a\": {\"b\": \"}\"},\n\"a\": 2}"})))
	require.Equal(t, []string{"syntax/duplicate_key medium a.yaml:4"}, judge(t, gatetest.Between(tree{}, tree{"a.yaml": "x: 1\ny:\n  a: 1\n  a: 2\n"})))
	require.Empty(t, judge(t, gatetest.Between(tree{"a.json": `{"a":1,"a":2}`}, tree{"a.json": `{"a":1,"a":3}`})), "it was there")
	require.Empty(t, judge(t, gatetest.Between(tree{}, tree{"a.json": `[{"a":1},{"a":"\",\"a\":1"},["a","a"]]`})))
}

func TestCodeWithZeroBytesIsFound(t *testing.T) {
	t.Parallel()
	require.Equal(t, []string{"syntax/not_text medium a.go"}, judge(t, gatetest.Between(tree{"a.go": "package a\n"}, tree{"a.go": "package a\n\x00"})))
	require.Empty(t, judge(t, gatetest.Between(tree{}, tree{"a.png": "\x00", "a.xml": "\xff\xfe<\x00a\x00"})))
}

func TestARenamedFileIsJudgedByItsNewName(t *testing.T) {
	t.Parallel()
	c := gatetest.Between(tree{"a.txt": "{"}, tree{"a.json": "{"})
	require.Equal(t, []string{"syntax/invalid major a.json:1"}, judge(t, c))
	require.Empty(t, judge(t, gatetest.Between(tree{"a.json": "{"}, tree{"b.json": "{"})))
}

// hostile are contents that would take a parser without limits much time, memory or stack.
func hostile() map[string]string {
	deep := func(s string) string { return strings.Repeat(s, (1<<20)/len(s)) }
	bomb := "a: &a [x,x,x,x,x,x,x,x,x]\n"
	for c := 'b'; c <= 'z'; c++ {
		bomb += fmt.Sprintf("%c: &%c [%s]\n", c, c, strings.TrimSuffix(strings.Repeat("*"+string(c-1)+",", 9), ","))
	}
	return map[string]string{
		"paren.go": "package a\nvar x = " + deep("("), "not.go": "package a\nvar x = " + deep("!"), "star.go": "package a\nvar x " + deep("*"),
		"else.go": "package a\nfunc f() { " + deep("if a {} else ") + "}", "list.json": deep("["), "object.json": deep(`{"a":`), "keys.json": "{" + deep(`"a":1,`) + `"b":2}`,
		"flow.yaml": deep("["), "dash.yaml": deep("- "), "question.yaml": deep("? "), "colon.yaml": deep("a: "), "bomb.yaml": bomb, "line.yaml": "a: " + deep("x"),
		"list.toml": "a = " + deep("["), "dots.toml": deep("a.") + "b = 1", "table.toml": deep("[["), "tag.xml": deep("<a>"), "entity.xml": "<!DOCTYPE a [<!ENTITY a \"" + deep("&b;") + "\">]><a>&a;</a>",
		"if.sh": deep("if a; then "), "paren.sh": deep("$("), "quote.sh": deep("\"$"), "tick.sh": deep("`"), "not.sh": deep("! "), "brace.java": deep("{"), "quote.rs": deep("'"), "utf8.json": deep("\xff\xfe"),
		"pipe.sh": deep("a|"), "and.sh": deep("a&&"), "arith.sh": "$((" + deep("-") + "1))", "test.sh": "[[ " + deep("! ") + "a ]]", "expand.sh": deep("${a:-"),
		"block.yaml": nested("a:\n", 1200), "anchor.yaml": deep("&a "), "tagged.yaml": deep("!a "), "attr.xml": "<a " + deep("a='' ") + "/>",
	}
}

func nested(s string, n int) string {
	var b strings.Builder
	for i := range n {
		b.WriteString(strings.Repeat(" ", i) + s)
	}
	return b.String()
}

func TestHostileFilesDoNotStopTheGuard(t *testing.T) {
	t.Parallel()
	for path, content := range hostile() {
		_ = judge(t, gatetest.Between(tree{}, tree{path: content}))
	}
}

func TestTheGuardStopsWithItsContext(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := syntax.Guard.Judge(ctx, gatetest.Between(tree{}, tree{"a.go": "package a"}))
	require.ErrorIs(t, err, context.Canceled)
}

func FuzzNoContentBreaksTheGuard(f *testing.F) {
	for _, p := range []string{"a.go", "a.json", "a.yaml", "a.toml", "a.xml", "a.sh", "a.java", "a.rs", "a.kt", "tsconfig.json"} {
		f.Add(p, "<<<<<<< a\n{\"a\": [1, // x\n], 'b': \"\\", "a: &a [*a]\n\x00\xff")
	}
	f.Fuzz(func(t *testing.T, path, before, after string) {
		if len(before)+len(after) > 1<<16 {
			t.Skip("the fuzzer looks for contents, not for sizes")
		}
		c := change.Change{Files: []change.File{{Path: path, Before: gatetest.File(before), After: gatetest.File(after)}}}
		first, err := syntax.Guard.Judge(t.Context(), c)
		require.NoError(t, err)
		again, err := syntax.Guard.Judge(t.Context(), c)
		require.NoError(t, err)
		require.Equal(t, first, again)
	})
}

func BenchmarkGuard(b *testing.B) {
	contents := []string{
		"package a\n\n" + strings.Repeat("func f(a, b int) (int, error) {\n\tif a > b {\n\t\treturn a, nil\n\t}\n\treturn b, nil\n}\n\n", 60),
		"{\"a\": [" + strings.Repeat("{\"b\": \"some text\", \"c\": [1, 2, 3]},\n", 150) + "{}]}",
		strings.Repeat("- name: a\n  value: [1, 2]\n  other:\n    deep: text\n", 100),
		"class A {\n" + strings.Repeat("  int f(int a) { return a + \"x\".length(); }\n", 120) + "}\n",
	}
	ends := []string{".go", ".json", ".yaml", ".java"}
	for _, n := range []int{20, 2000} {
		before, after := tree{}, tree{}
		for i := range n {
			p := fmt.Sprint("a", i, ends[i%4])
			before[p], after[p] = contents[i%4], contents[i%4]+" \n"
		}
		c := gatetest.Between(before, after)
		b.Run(fmt.Sprint(n, "Files"), func(b *testing.B) {
			for b.Loop() {
				if _, err := syntax.Guard.Judge(b.Context(), c); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	for path, content := range hostile() {
		c := gatetest.Between(tree{}, tree{path: content})
		b.Run(path, func(b *testing.B) {
			for b.Loop() {
				if _, err := syntax.Guard.Judge(b.Context(), c); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
