package pin_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/pin"
)

// gone represents a file that does not exist.
const gone = "\x00"

// change is one file before and after.
type change struct{ path, before, after string }

func (c change) file() pin.File {
	f := pin.File{Path: c.path, Before: []byte(c.before), After: []byte(c.after), Existed: c.before != gone, Exists: c.after != gone}
	if from, to, renamed := strings.Cut(c.path, " → "); renamed {
		f.RenamedFrom, f.Path = from, to
	}
	return f
}

// example is a change and what it does to tests: kinds with the tests' names.
type example struct {
	name    string
	changes []change
	want    []string
}

func one(name, path, before, after string, want ...string) example {
	return example{name, []change{{path, before, after}}, want}
}

func try(t *testing.T, examples []example) {
	t.Helper()
	for _, e := range examples {
		t.Run(e.name, func(t *testing.T) {
			t.Parallel()
			files := make([]pin.File, 0, len(e.changes))
			for _, c := range e.changes {
				files = append(files, c.file())
			}
			problems := checked(files)
			got := []string{}
			for _, p := range problems {
				got = append(got, strings.TrimSpace(string(p.Kind)+" "+p.Test))
				if p.Kind == pin.Deleted || p.Kind == pin.RenamedAway {
					require.NotEmpty(t, pin.NameIn(p.Message), p.Message)
				}
			}
			if len(e.want) == 0 {
				require.Empty(t, problems)
				return
			}
			require.Equal(t, e.want, got, "%v", problems)
		})
	}
}

func TestAProblemBecomesAFindingThatPointsAtTheTest(t *testing.T) {
	t.Parallel()
	problems := checked([]pin.File{change{"auth/login_test.go", goFile(`
func TestLogin(t *testing.T) {
	require.NoError(t, Login("ada"))
}`), goFile(`
func TestLogin(t *testing.T) {
	t.Skip("flaky")
	require.NoError(t, Login("ada"))
}`)}.file()})
	require.Equal(t, []contract.Finding{{
		Severity: contract.SeverityMajor, Category: contract.CategoryTest,
		Message:  "TestLogin is now skipped: it calls Skip; a skipped test never counts as passed",
		Location: "auth/login_test.go:9", Rule: "pinned-tests/skipped",
	}}, pin.Findings(problems))
}

func TestAnExcludedFileIsNamedByItsProblem(t *testing.T) {
	t.Parallel()
	const test = "func TestLogin(t *testing.T) { require.NoError(t, Login()) }"
	problems := checked([]pin.File{change{"login_test.go", goFile(test), "//go:build ignore\n\n" + goFile(test)}.file()})
	require.Len(t, problems, 1)
	require.Equal(t, pin.Excluded, problems[0].Kind)
	require.Equal(t, "login_test.go", pin.NameIn(problems[0].Message), problems[0].Message)
}

func TestOnlyAnEditIsNotForbidden(t *testing.T) {
	t.Parallel()
	for _, k := range []pin.Kind{pin.Deleted, pin.Skipped, pin.Emptied, pin.Weakened, pin.RenamedAway, pin.Excluded} {
		require.True(t, k.Forbidden(), k)
	}
	require.False(t, pin.Edited.Forbidden())
	mixed := []pin.Problem{{Kind: pin.Edited}, {Kind: pin.Deleted}}
	require.Equal(t, []pin.Problem{{Kind: pin.Deleted}}, pin.Forbidden(mixed))
	require.Len(t, mixed, 2)
}

func TestAnEditThatOnlyAddsChecksIsMinorAndAnyOtherIsMedium(t *testing.T) {
	t.Parallel()
	before := goFile(`
func TestSum(t *testing.T) {
	require.Equal(t, 3, Sum(1, 2))
}`)
	severity := func(after string) contract.Severity {
		problems := checked([]pin.File{change{"sum_test.go", before, goFile(after)}.file()})
		require.Len(t, problems, 1)
		require.Equal(t, pin.Edited, problems[0].Kind)
		return problems[0].Severity
	}
	require.Equal(t, contract.SeverityMinor, severity(`
func TestSum(t *testing.T) {
	require.Equal(t, 3, Sum(1, 2))
	require.Equal(t, 7, Sum(3, 4))
}`))
	require.Equal(t, contract.SeverityMedium, severity(`
func TestSum(t *testing.T) {
	require.Equal(t, 4, Sum(1, 2))
}`))
}

func TestFilesThatMatterToTestsAreWatched(t *testing.T) {
	t.Parallel()
	for _, p := range []string{
		"a_test.go", "pkg/x/a_test.go", "pkg/testdata/want.json", "src/app.test.tsx", "src/__tests__/app.js", "tests/login.spec.ts",
		"cypress/e2e/a.cy.js", "src/__snapshots__/a.snap", "tests/test_login.py", "conftest.py", "tests/helpers.py", "src/lib.rs",
		"src/test/java/org/ATest.java", "package.json", "web/package.json", "pytest.ini", "pyproject.toml", "setup.cfg", "tox.ini",
		"jest.config.js", "vitest.config.mts", "playwright.config.ts", ".mocharc.json", "Makefile", "rgpt.yaml", ".github/workflows/ci.yml",
		"Cargo.toml", "pom.xml", "build.gradle.kts", "./a_test.go",
	} {
		require.True(t, pin.Watches(p), p)
	}
	for _, p := range []string{"", "main.go", "README.md", "src/app.ts", "app/models.py", "Dockerfile", "docs/testing.md", "contest.go", "attest.py"} {
		require.False(t, pin.Watches(p), p)
	}
}

func TestFilesTooLargeToParseAreNotTreatedAsUnchanged(t *testing.T) {
	t.Parallel()
	small := goFile("func TestA(t *testing.T) { t.Error(1) }")
	large := small + "//" + strings.Repeat("x", pin.MaxFileBytes)
	try(t, []example{
		one("grown over the limit", "a_test.go", small, large, "weakened"),
		one("large and changed", "a_test.go", large, large+"y", "edited"),
		one("large and gone", "a_test.go", large, gone, "deleted"),
		one("large and the same", "a_test.go", large, large),
		one("large and new", "a_test.go", gone, large),
		one("large and no matter of tests", "main.go", small, large),
	})
}

func TestAFloodOfEditsHidesNothingThatIsForbidden(t *testing.T) {
	t.Parallel()
	var before, after strings.Builder
	for i := range 2 * pin.MaxProblems {
		fmt.Fprintf(&before, "func Test%d(t *testing.T) { f(1); t.Error(%d) }\n", i, i)
		fmt.Fprintf(&after, "func Test%d(t *testing.T) { f(2); t.Error(%d) }\n", i, i)
	}
	problems := checked([]pin.File{
		change{"a_test.go", goFile(before.String()), goFile(after.String())}.file(),
		change{"z_test.go", goFile("func TestZ(t *testing.T) { t.Error(1) }"), gone}.file(),
	})
	require.Len(t, problems, pin.MaxProblems+1)
	require.Equal(t, pin.Deleted, problems[0].Kind)
	require.Contains(t, problems[pin.MaxProblems].Message, "more problems")
}

func TestNamesFromARepositoryAreFitForAMessage(t *testing.T) {
	t.Parallel()
	problems := checked([]pin.File{change{"a.test.js", "test('red \x1b[31m\\u0007 \n" + strings.Repeat("x", 900) + "', () => { expect(a()).toBe(1) })\ntest(`b\x1b[2J\n" + strings.Repeat("y", 900) + "`, () => { expect(a()).toBe(1) })", gone}.file()})
	require.NotEmpty(t, problems)
	for _, p := range problems {
		require.NotContains(t, p.Message+p.Test, "\x1b")
		require.NotContains(t, p.Message+p.Test, "\n")
		require.Less(t, len(p.Message), 400)
	}
}

func TestWhatTestsCompareWithIsPinned(t *testing.T) {
	t.Parallel()
	try(t, []example{
		one("a golden file is deleted", "render/testdata/page.golden", "<p>hi</p>", gone, "deleted"),
		one("a golden file is changed", "render/testdata/page.golden", "<p>hi</p>", "<p>ho</p>", "edited"),
		one("a golden file is emptied", "render/testdata/page.golden", "<p>hi</p>", "\n", "emptied"),
		one("a golden file is new", "render/testdata/page.golden", gone, "<p>hi</p>"),
		one("a snapshot is changed", "src/__snapshots__/a.test.js.snap", "exports[`a 1`] = `1`;", "exports[`a 1`] = `2`;", "edited"),
		one("a fixture is moved among fixtures", "testdata/a.json → testdata/b/a.json", "{}", "{}"),
		one("a fixture is moved away", "testdata/a.json → attic/a.json", "{}", "{}", "renamed_away"),
		{"a fixture is moved, told as two files", []change{{"testdata/a.json", "{1}", gone}, {"testdata/b.json", gone, "{1}"}}, nil},
	})
}

// checked is Check of files, without a time limit.
func checked(files []pin.File) []pin.Problem {
	problems, _ := pin.Check(context.Background(), files)
	return problems
}

// added is NewTests of files.
func added(files []pin.File) []pin.Added {
	tests, _ := pin.NewTests(context.Background(), files)
	return tests
}

// TestFilesThatAreMadeToTakeLongDoNot has files of a megabyte, each part of which once
// made the check read everything that follows, and settings that took gigabytes as
// values.
func TestFilesThatAreMadeToTakeLongDoNot(t *testing.T) {
	t.Parallel()
	for name, f := range map[string]pin.File{
		"decorators of Python": {Path: "test_a.py", After: []byte(strings.Repeat("@pytest.mark.skip\ndef test_a(): pass\n", 25_000)), Exists: true},
		"tests that may have become cases": {Path: "test_a.py", Existed: true, Exists: true,
			Before: numbered(15_000, "def test_a%d():\n    assert add(1, 2, 3, 4, 5) == %d\n"),
			After:  []byte("@pytest.mark.parametrize('n', [\n" + string(numbered(20_000, "add(1, 2, 3, %d, %d),\n")) + "])\ndef test_b(n):\n    assert add(1, 2, 3, 4, n) == 7\n")},
		"keys of YAML":    {Path: "rgpt.yaml", Before: []byte("verification: {}\n"), After: []byte(strings.Repeat("a: 1\n", 100_000)), Existed: true, Exists: true},
		"aliases of YAML": {Path: "rgpt.yaml", Before: []byte("verification: {}\n"), After: []byte(aliases()), Existed: true, Exists: true},
	} {
		began := time.Now()
		checked([]pin.File{f})
		require.Less(t, time.Since(began), 20*time.Second, "%s: minutes, once", name)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := pin.Check(ctx, []pin.File{{Path: "test_a.py", After: []byte("x"), Exists: true}})
	require.ErrorIs(t, err, context.Canceled)
}

// numbered repeats a text with two places for its number.
func numbered(times int, text string) []byte {
	var out []byte
	for i := range times {
		out = fmt.Appendf(out, text, i, i)
	}
	return out
}

// aliases is a document that is small, and large once its aliases are followed.
func aliases() string {
	var b strings.Builder
	b.WriteString("a0: &a0 {x: 1}\n")
	for i := 1; i < 12; i++ {
		fmt.Fprintf(&b, "a%d: &a%d [%s]\n", i, i, strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*a%d,", i-1), 9), ","))
	}
	return b.String() + "verification: {x: *a11}\n"
}

func TestSettingsBehindAliasesAreSeenToChange(t *testing.T) {
	t.Parallel()
	before := "x: &x {pinned_tests: enforce}\nverification: *x\n"
	after := strings.Replace(before, "enforce", "off", 1)
	require.NotEmpty(t, checked([]pin.File{{Path: "rgpt.yaml", Before: []byte(before), After: []byte(after), Existed: true, Exists: true}}))
}
