package pin_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/pin"
)

func TestNewTestsAreReported(t *testing.T) {
	t.Parallel()
	const (
		js     = "import test from 'node:test';\nimport assert from 'node:assert';\n"
		jsOld  = "test('adds', () => { assert.equal(add(1, 2), 3); });\n"
		jsNew  = "test('subtracts', () => { assert.equal(sub(2, 1), 1); });\n"
		python = "def test_add():\n    assert add(1, 2) == 3\n"
	)
	for _, tt := range []struct {
		name   string
		change change
		want   []string
	}{
		{"a test beside an old one", change{"a_test.go", goFile(goPlain), goFile(goPlain + goTable)}, []string{"TestParse"}},
		{"a file of tests", change{"a_test.go", gone, goFile(goPlain)}, []string{"TestLogin"}},
		{"a test with tests in it is one", change{"a_test.go", gone, goFile(`
func TestA(t *testing.T) {
	t.Run("a", func(t *testing.T) { require.NoError(t, A(1)) })
	t.Run("b", func(t *testing.T) { require.NoError(t, A(2)) })
}`)}, []string{"TestA"}},
		{"a new one in an old one", change{"a_test.go", goFile("\nfunc TestA(t *testing.T) {\n\tt.Run(\"a\", func(t *testing.T) { require.NoError(t, A(1)) })\n}"), goFile(`
func TestA(t *testing.T) {
	t.Run("a", func(t *testing.T) { require.NoError(t, A(1)) })
	t.Run("b c", func(t *testing.T) { require.NoError(t, A(2)) })
}`)}, []string{"TestA/b_c"}},
		{"a case of a table", change{"a_test.go", goFile(goTable), goFile(strings.Replace(goTable, `{"two", "2", 2},`, `{"two", "2", 2}, {"three", "3", 3},`, 1))}, []string{"TestParse (cases)"}},
		{"another case instead of one", change{"a_test.go", goFile(goTable), goFile(strings.Replace(goTable, `"2", 2`, `"3", 3`, 1))}, nil},
		{"renamed", change{"a_test.go", goFile(goPlain), goFile(strings.Replace(goPlain, "TestLogin", "TestSignIn", 1))}, nil},
		{"moved", change{"a_test.go → b_test.go", goFile(goPlain), goFile(goPlain)}, nil},
		{"a benchmark", change{"a_test.go", goFile(goPlain), goFile(goPlain + "\nfunc BenchmarkX(b *testing.B) { for b.Loop() { X() } }")}, nil},
		{"an example that is not run", change{"a_test.go", gone, goFile("\nfunc ExampleA() {\n\tA()\n}\n\nfunc ExampleB() {\n\tB()\n\t// Output: 1\n}")}, []string{"ExampleB"}},
		{"a method of a suite", change{"a_test.go", gone, goFile("\nfunc (s *TestSuite) TestA() {\n\ts.Equal(1, A())\n}")}, []string{"TestSuite/TestA (suite)"}},
		{"skipped", change{"a_test.go", gone, goFile("\nfunc TestA(t *testing.T) {\n\tt.Skip()\n}")}, []string{"TestA"}},
		{"no test", change{"a.go", gone, goFile(goPlain)}, nil},
		{"JavaScript", change{"add.test.js", js + jsOld, js + jsOld + jsNew}, []string{"subtracts"}},
		{"a group of JavaScript", change{"add.test.js", js + jsOld, js + jsOld + "describe('more', () => {\n" + jsNew + "});\n"}, []string{"more > subtracts"}},
		{"Python", change{"tests/test_add.py", python, python + "\nclass TestMore:\n    def test_sub(self):\n        assert sub(2, 1) == 1\n"}, []string{"TestMore::test_sub"}},
		{"Rust", change{"src/lib.rs", gone, "#[test]\nfn adds() { assert_eq!(add(1, 2), 3); }\n"}, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var got []string
			for _, a := range added([]pin.File{tt.change.file()}) {
				name := a.Name
				if a.Cases {
					name += " (cases)"
				}
				if a.Suite {
					name += " (suite)"
				}
				require.Positive(t, a.Line)
				got = append(got, name)
			}
			require.Equal(t, tt.want, got)
		})
	}
}

func TestATestThatMovedToAnotherFileIsNotNew(t *testing.T) {
	t.Parallel()
	require.Empty(t, added([]pin.File{
		change{"a_test.go", goFile(goPlain), gone}.file(), change{"b_test.go", gone, goFile(goPlain)}.file(),
	}))
}

func TestWhatANewTestCanBeAboutIsCodeAndNeitherTestsNorProseNorHowTheyRun(t *testing.T) {
	t.Parallel()
	for _, p := range []string{"a.go", "src/lib.rs", "web/index.html", "db/schema.sql", "go.mod", "requirements.txt", "data.txt"} {
		require.True(t, pin.IsCode(p), p)
		require.False(t, pin.OfTests(p), p)
	}
	for _, p := range []string{"README.md", "docs/a.rst", "LICENSE", "package.json", "Makefile", ".github/workflows/ci.yml", ""} {
		require.False(t, pin.IsCode(p), p)
		require.False(t, pin.OfTests(p), p)
	}
	for _, p := range []string{"a_test.go", "testdata/want.json", "tests/helpers.py", "conftest.py", "src/__snapshots__/a.snap", "tests/a.spec.ts"} {
		require.False(t, pin.IsCode(p), p)
		require.True(t, pin.OfTests(p), p)
	}
}

func TestAnUnprovenTestBecomesAFindingThatPointsAtIt(t *testing.T) {
	t.Parallel()
	require.Equal(t, contract.Finding{
		Severity: contract.SeverityMedium, Category: contract.CategoryTest, Message: "a new case of TestA? b passes anyway",
		Location: "a_test.go:7", Rule: pin.RuleUnproven,
	}, pin.Added{Path: "a_test.go", Line: 7, Name: "TestA\xff\x1b\nb", Cases: true}.Finding("passes anyway"))
}
