package tests_test

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/internal/gate/change"
	"github.com/rocketgpt/orchestrator/internal/gate/gatetest"
	"github.com/rocketgpt/orchestrator/internal/gate/guard/tests"
)

type tree = gatetest.Tree

const (
	goTest = "package a\n\nimport \"testing\"\n\nfunc TestA(t *testing.T) {\n\tif A(1) != 2 {\n\t\tt.Fatal(\"wrong\")\n\t}\n}\n"
	slugJS = "export function slug(text) {\n  const lower = text.toLowerCase();\n  const words = lower.split(' ');\n  const kept = words.filter(Boolean);\n  return kept.join('-');\n}\n"
	slugPy = "def slug(text):\n    lower = text.lower()\n    words = lower.split(' ')\n    kept = [w for w in words if w]\n    return '-'.join(kept)\n"
)

// judge returns the findings as "rule severity path:line".
func judge(t *testing.T, c change.Change) (out []string) {
	t.Helper()
	found, err := tests.Guard.Judge(t.Context(), c)
	require.NoError(t, err)
	for i, s := range gatetest.Rules(found) {
		require.NotEmpty(t, found[i].Message)
		rule, at, _ := strings.Cut(s, " ")
		out = append(out, strings.TrimSpace(rule+" "+string(found[i].Severity)+" "+at))
	}
	return out
}

func TestAChangeThatMakesTestsProveLessIsFound(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name          string
		before, after tree
		want          []string
	}{
		{"a deleted test file", tree{"a_test.go": goTest, "a.go": "package a"}, tree{"a.go": "package a"}, []string{"tests/deleted major a_test.go:5"}},
		{"a test file that is deleted with its subject", tree{"a_test.go": goTest, "a.go": "package a"}, tree{}, []string{"tests/deleted minor a_test.go:5"}},
		{"a moved test file", tree{"a_test.go": goTest}, tree{"b_test.go": goTest}, nil},
		{"a skipped test", tree{"a_test.go": goTest}, tree{"a_test.go": strings.Replace(goTest, "\tif", "\tt.Skip()\n\tif", 1)}, []string{"tests/skipped major a_test.go:5"}},
		{"an emptied test", tree{"a_test.go": goTest}, tree{"a_test.go": strings.Replace(goTest, "!= 2", "== 0 && false", 1)}, []string{"tests/emptied major a_test.go:5"}},
		{"a result that does not count", tree{"Makefile": "test:\n\tgo test ./...\n"}, tree{"Makefile": "test:\n\tgo test ./... || true\n"}, []string{"tests/excluded major Makefile:2"}},
		{"an edited test", tree{"a_test.go": goTest}, tree{"a_test.go": strings.Replace(goTest, "!= 2", "!= 3", 1)}, []string{"tests/edited minor a_test.go:5"}},
		{"a new test that always passes", tree{}, tree{"a.test.js": "test('a', () => { expect(1).toBe(1); });\n"}, []string{"tests/always_passes medium a.test.js:1"}},
		{"a new test without assertions", tree{}, tree{"test_a.py": "def test_a():\n    a(1)\n"}, []string{"tests/checks_nothing minor test_a.py:1"}},
		{"a new test that is skipped", tree{}, tree{"test_a.py": "import pytest\n\n@pytest.mark.skip\ndef test_a():\n    assert a(1) == 2\n"}, []string{"tests/never_runs minor test_a.py:4"}},
		{"a good new test", tree{}, tree{"test_a.py": "def test_a():\n    assert a(1) == 2\n"}, nil},
		{"a file that is no test", tree{"a.py": "def a(): pass\n"}, tree{"a.py": "def b(): pass\n"}, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, tt.want, judge(t, gatetest.Between(tt.before, tt.after)))
		})
	}
}

func TestATestThatLosesItsSubjectIsFound(t *testing.T) {
	t.Parallel()
	const testPy = "from slug import slug\n\n\ndef test_slug():\n    assert slug('A b') == 'a-b'\n"
	for _, tt := range []struct {
		name          string
		before, after tree
		want          []string
	}{
		{"a new test with a copy of what it tests", tree{"slug.js": slugJS}, tree{"slug.js": slugJS, "slug.test.js": strings.TrimPrefix(slugJS, "export ") + "test('a', () => { expect(slug('A b')).toBe('a-b'); });\n"},
			[]string{"tests/lost_subject medium slug.test.js:1"}},
		{"code that moved into its test", tree{"slug.py": slugPy, "test_slug.py": testPy}, tree{"test_slug.py": slugPy + testPy[len("from slug import slug\n"):]},
			[]string{"tests/lost_subject medium test_slug.py:1"}},
		{"a test of something else", tree{"slug.py": slugPy, "test_slug.py": testPy}, tree{"test_slug.py": "def test_slug():\n    assert 'A b'.lower() == 'a b'\n"},
			[]string{"tests/lost_subject medium test_slug.py", "tests/edited minor test_slug.py:1"}},
		{"code that moved to another file", tree{"slug.py": slugPy, "test_slug.py": testPy}, tree{"text.py": slugPy, "test_slug.py": strings.Replace(testPy, "from slug", "from text", 1)}, nil},
		{"a helper with a name of its own", tree{"slug.py": slugPy, "test_slug.py": testPy}, tree{"slug.py": slugPy, "test_slug.py": strings.Replace(slugPy, "def slug", "def want", 1) + testPy}, nil},
		{"a fake with the name of the real thing", tree{"slug.py": slugPy, "test_slug.py": testPy}, tree{"slug.py": slugPy, "test_slug.py": testPy + "\n\nclass Slug:\n    def __init__(self):\n        self.calls = 0\n        self.x = 1\n"}, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, tt.want, judge(t, gatetest.Between(tt.before, tt.after)))
		})
	}
}

func TestARepairThatEditsATestIsMoreSerious(t *testing.T) {
	t.Parallel()
	c := gatetest.Between(tree{"a_test.go": goTest}, tree{"a_test.go": strings.Replace(goTest, "!= 2", "!= 3", 1)})
	c.Author = change.RoleRepair
	require.Equal(t, []string{"tests/edited medium a_test.go:5"}, judge(t, c))
}

func TestATestFileThatCannotBeReadIsFound(t *testing.T) {
	t.Parallel()
	huge := change.Version{Mode: change.ModeFile, Size: 1 << 30, Unread: true}
	for _, tt := range []struct {
		name string
		file change.File
		want []string
	}{
		{"grown", change.File{Path: "a_test.go", Before: gatetest.File(goTest), After: huge}, []string{"tests/unreadable medium a_test.go"}},
		{"deleted", change.File{Path: "a_test.go", Before: huge}, []string{"tests/deleted major a_test.go"}},
		{"replaced by a link", change.File{Path: "a_test.go", Before: gatetest.File(goTest), After: gatetest.Entry(change.ModeLink, "/dev/null")}, []string{"tests/deleted major a_test.go:5"}},
		{"no test", change.File{Path: "a.bin", Before: huge}, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, tt.want, judge(t, change.Change{Files: []change.File{tt.file}, Base: tree{}, Tree: tree{}}))
		})
	}
}

func TestTheGuardStopsWithItsContext(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := tests.Guard.Judge(ctx, gatetest.Between(tree{}, tree{"a_test.go": goTest}))
	require.ErrorIs(t, err, context.Canceled)
}

func FuzzNoContentBreaksTheGuard(f *testing.F) {
	f.Add(slugPy, goTest, "test_slug.py")
	f.Add(slugJS, slugJS+"test('a', () => {})", "slug.test.js")
	f.Add("", "\x00\xff", "x_test.go")
	f.Fuzz(func(t *testing.T, before, after, path string) {
		c := change.Change{Files: []change.File{{Path: path, Before: gatetest.File(before), After: gatetest.File(after)}}, Base: tree{path: before}, Tree: tree{path: after}}
		first, err := tests.Guard.Judge(t.Context(), c)
		require.NoError(t, err)
		again, err := tests.Guard.Judge(t.Context(), c)
		require.NoError(t, err)
		require.Equal(t, first, again)
	})
}

func BenchmarkGuard(b *testing.B) {
	for _, n := range []int{20, 2000} {
		before, after := tree{}, tree{}
		for i := range n / 2 {
			code := fmt.Sprintf("package a\n\nfunc A%d(n int) int {\n\treturn n + 1\n}\n", i)
			test := strings.ReplaceAll(goTest, "TestA", fmt.Sprintf("TestA%d", i))
			test += strings.Repeat("\nfunc help(n int) int {\n\treturn n\n}\n", 20)
			before[fmt.Sprintf("a%d.go", i)], before[fmt.Sprintf("a%d_test.go", i)] = code, test
			after[fmt.Sprintf("a%d.go", i)], after[fmt.Sprintf("a%d_test.go", i)] = code+"\nvar X = 1\n", strings.Replace(test, "!= 2", "!= 3", 1)
		}
		c := gatetest.Between(before, after)
		b.Run(fmt.Sprint(n, "Files"), func(b *testing.B) {
			for b.Loop() {
				if _, err := tests.Guard.Judge(b.Context(), c); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	b.Run("Nesting", func(b *testing.B) {
		deep := string(bytes.Repeat([]byte("("), 1<<20))
		c := gatetest.Between(tree{"a_test.go": goTest, "a.test.js": "test('a', () => { expect(a()).toBe(1); })"}, tree{"a_test.go": goTest + deep, "a.test.js": deep})
		for b.Loop() {
			if _, err := tests.Guard.Judge(b.Context(), c); err != nil {
				b.Fatal(err)
			}
		}
	})
}
