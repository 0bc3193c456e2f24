package pin_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/internal/pin"
)

func TestANewTestThatProvesNothingIsListedWithItsReason(t *testing.T) {
	t.Parallel()
	const js = "import { test, expect } from 'vitest';\n"
	for _, tt := range []struct {
		name   string
		change change
		want   []string
	}{
		{"a real test in Go", change{"a_test.go", gone, goFile(goPlain)}, nil},
		{"Go compares a value with itself", change{"a_test.go", gone, goFile("\nfunc TestA(t *testing.T) {\n\tx := A()\n\trequire.Equal(t, x, x)\n}")}, []string{"always_passes TestA"}},
		{"Go only logs", change{"a_test.go", gone, goFile("\nfunc TestA(t *testing.T) {\n\tt.Log(\"ok\")\n}")}, []string{"always_passes TestA"}},
		{"an empty test in Go", change{"a_test.go", gone, goFile("\nfunc TestA(t *testing.T) {}")}, []string{"always_passes TestA"}},
		{"Go under a condition that never holds", change{"a_test.go", gone, goFile("\nfunc TestA(t *testing.T) {\n\tA()\n\tif 1 != 1 {\n\t\tt.Fatal()\n\t}\n}")}, []string{"always_passes TestA"}},
		{"Go only calls", change{"a_test.go", gone, goFile("\nfunc TestA(t *testing.T) {\n\t_ = A(1)\n}")}, []string{"checks_nothing TestA"}},
		{"Go with a subtest", change{"a_test.go", gone, goFile("\nfunc TestA(t *testing.T) {\n\tt.Run(\"a\", func(t *testing.T) { A() })\n\tt.Run(\"b\", func(t *testing.T) { require.Equal(t, 1, A()) })\n}")}, []string{"checks_nothing TestA/a"}},
		{"Go with a helper elsewhere", change{"a_test.go", gone, goFile("\nfunc TestA(t *testing.T) {\n\tcheckIt(t, A())\n}")}, nil},
		{"Go skipped", change{"a_test.go", gone, goFile("\nfunc TestA(t *testing.T) {\n\tt.Skip()\n}")}, []string{"never_runs TestA"}},
		{"a benchmark, an example, a fuzz test", change{"a_test.go", gone, goFile("\nfunc BenchmarkA(b *testing.B) { A() }\n\nfunc ExampleA() { A() }\n\nfunc FuzzA(f *testing.F) { f.Fuzz(func(t *testing.T, s string) { A(s) }) }")}, nil},
		{"a test that was there", change{"a_test.go", goFile("\nfunc TestA(t *testing.T) {\n\tA(1)\n}"), goFile("\nfunc TestA(t *testing.T) {\n\tA(1)\n}\n\nvar x = 1")}, nil},
		{"JavaScript", change{"a.test.ts", js, js + "test('a', () => { expect(true).toBe(true); });\ntest('b', () => { expect(b()).toBe(1); });\n"}, []string{"always_passes a"}},
		{"JavaScript without a matcher", change{"a.test.ts", js, js + "test('a', () => { expect(a()); });\n"}, []string{"always_passes a"}},
		{"JavaScript that catches its failure", change{"a.test.ts", js, js + "test('a', () => { try { expect(a()).toBe(1); } catch (e) {} });\n"}, []string{"always_passes a"}},
		{"JavaScript that counts its assertions", change{"a.test.js", gone, "test('a', t => { t.plan(1); a({ f: () => { t.ok(true); } }); });\n"}, nil},
		{"Python asserts a constant", change{"tests/test_a.py", gone, "def test_a():\n    a()\n    assert True\n"}, []string{"always_passes test_a"}},
		{"Python passes", change{"tests/test_a.py", gone, "def test_a():\n    pass\n"}, []string{"always_passes test_a"}},
		{"Python swallows", change{"tests/test_a.py", gone, "def test_a():\n    try:\n        assert a() == 1\n    except Exception:\n        pass\n"}, []string{"always_passes test_a"}},
		{"Python prints", change{"tests/test_a.py", gone, "def test_a():\n    print('x')\n"}, []string{"always_passes test_a"}},
		{"Python raises", change{"tests/test_a.py", gone, "def test_a():\n    with pytest.raises(ValueError):\n        a()\n"}, nil},
		{"unittest", change{"tests/test_a.py", gone, "class TestA(TestCase):\n    def test_a(self):\n        self.assertTrue(True)\n"}, []string{"always_passes TestA::test_a"}},
		{"Rust", change{"src/lib.rs", gone, "#[test]\nfn a() { assert!(true); }\n#[test]\nfn b() { b().unwrap(); }\n#[test]\n#[should_panic]\nfn c() { c(); }\n"}, []string{"always_passes a"}},
		{"Java", change{"src/test/java/ATest.java", gone, "class ATest {\n  @Test void a() { assertTrue(true); }\n  @Test void b() { assertEquals(1, b()); }\n  @Test void c() { System.out.println(c()); }\n}\n"}, []string{"always_passes ATest.a", "checks_nothing ATest.c"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			_, found, err := pin.CheckAll(t.Context(), []pin.File{tt.change.file()})
			require.NoError(t, err)
			var got []string
			for _, u := range found {
				require.Positive(t, u.Line)
				got = append(got, string(u.Reason)+" "+u.Name)
			}
			require.Equal(t, tt.want, got)
		})
	}
}

func TestDataOfJavaTestsIsNoTest(t *testing.T) {
	t.Parallel()
	const empty = "import org.junit.jupiter.api.Test;\n\nclass InputTest {\n    @Test\n    void a() {\n    }\n}\n"
	for path, tests := range map[string]int{"src/test/java/a/InputTest.java": 1, "src/test/resources/a/InputTest.java": 0} {
		_, unchecked, err := pin.CheckAll(t.Context(), []pin.File{{Path: path, After: []byte(empty), Exists: true}})
		require.NoError(t, err)
		require.Len(t, unchecked, tests, path)
	}
}
