package pin_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/rocketgpt/orchestrator/internal/pin"
)

func goFile(body string) string {
	return "package x\n\nimport (\n\t\"os\"\n\t\"testing\"\n\n\t\"github.com/stretchr/testify/require\"\n)\n" + strings.TrimPrefix(body, "\n") + "\n"
}

const goTable = `
func TestParse(t *testing.T) {
	cases := []struct{ name, in string; want int }{
		{"empty", "", 0},
		{"one", "1", 1},
		{"two", "2", 2},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			require.Equal(t, c.want, Parse(c.in))
		})
	}
}`

const goPlain = `
func TestLogin(t *testing.T) {
	user, err := Login("ada")
	if err != nil {
		t.Fatalf("login: %v", err)
	}
	if user.Name != "ada" {
		t.Errorf("name: %s", user.Name)
	}
}`

const goSuite = `
func (s *LoginSuite) TestExpired() {
	got := s.login("ada")
	s.Equal(401, got.Code)
	s.Require().NoError(got.Err)
}`

func goCase(name, before, after string, want ...string) example {
	return one(name, "auth/login_test.go", goFile(before), goFile(after), want...)
}

func TestGoTestsArePinned(t *testing.T) {
	t.Parallel()
	try(t, slices.Concat(deletedGoTests(), skippedGoTests(), weakenedGoTests(), excludedGoTests(), changedGoExpectations()))
}

// deletedGoTests are tests that are gone.
func deletedGoTests() []example {
	return []example{
		goCase("deleted", goPlain+goTable, goTable, "deleted TestLogin"),
		one("deleted with its file", "auth/login_test.go", goFile(goPlain), gone, "deleted TestLogin"),
		goCase("a benchmark is deleted", goPlain+"\nfunc BenchmarkX(b *testing.B) { for b.Loop() { X() } }", goPlain, "deleted BenchmarkX"),
		goCase("a method of a suite is deleted", goPlain+goSuite, goPlain, "deleted LoginSuite/TestExpired"),
		goCase("a subtest is deleted", `
func TestA(t *testing.T) {
	t.Run("good case", func(t *testing.T) { require.NoError(t, A(1)) })
	t.Run("bad", func(t *testing.T) { require.Error(t, A(2)) })
}`, `
func TestA(t *testing.T) {
	t.Run("good case", func(t *testing.T) { require.NoError(t, A(1)) })
}`, "deleted TestA/bad"),
	}
}

// skippedGoTests are tests that never run, or only sometimes.
func skippedGoTests() []example {
	r := strings.NewReplacer
	return []example{
		goCase("skipped", goPlain, r(`user, err`, "t.Skip(\"flaky\")\n user, err").Replace(goPlain), "skipped TestLogin"),
		goCase("skipped at the end", goPlain, strings.TrimSuffix(goPlain, "}")+"t.SkipNow()\n}", "skipped TestLogin"),
		goCase("skipped in short runs", goPlain, r(`user, err`, "if testing.Short() { t.Skip() }\n user, err").Replace(goPlain), "skipped TestLogin"),
		goCase("skipped by a suite", goSuite, r(`got :=`, "s.T().Skip()\n got :=").Replace(goSuite), "skipped LoginSuite/TestExpired"),
		goCase("returns at the top", goPlain, r(`user, err`, "return\n user, err").Replace(goPlain), "skipped TestLogin"),
		goCase("returns at the top if true", goPlain, r(`user, err`, "if true { return }\n user, err").Replace(goPlain), "emptied TestLogin"),
		goCase("returns early in CI", goPlain, r(`user, err`, "if os.Getenv(\"CI\") != \"\" { return }\n user, err").Replace(goPlain), "skipped TestLogin"),
		goCase("a subtest is skipped", `
func TestA(t *testing.T) {
	t.Run("a", func(t *testing.T) { require.NoError(t, A(1)) })
}`, `
func TestA(t *testing.T) {
	t.Run("a", func(t *testing.T) { t.Skip(); require.NoError(t, A(1)) })
}`, "skipped TestA/a"),
		goCase("a subtest runs only sometimes", `
func TestA(t *testing.T) {
	t.Run("a", func(t *testing.T) { require.NoError(t, A(1)) })
}`, `
func TestA(t *testing.T) {
	if os.Getenv("ALL") != "" {
		t.Run("a", func(t *testing.T) { require.NoError(t, A(1)) })
	}
}`, "edited TestA", "skipped TestA/a"),
	}
}

// weakenedGoTests are tests that check less than before, or nothing.
func weakenedGoTests() []example {
	r := strings.NewReplacer
	return []example{
		goCase("emptied", goPlain, "func TestLogin(t *testing.T) {}", "emptied TestLogin"),
		goCase("logs instead of failing", goPlain, r("t.Fatalf", "t.Logf", "t.Errorf", "t.Logf").Replace(goPlain), "emptied TestLogin"),
		goCase("one check fewer", goPlain, r("t.Errorf", "t.Logf").Replace(goPlain), "weakened TestLogin"),
		goCase("a check that cannot fail", goPlain, r(`user.Name != "ada"`, `false && user.Name != "ada"`).Replace(goPlain), "weakened TestLogin"),
		goCase("compared with itself", goPlain, r(`user.Name != "ada"`, `user.Name != user.Name`).Replace(goPlain), "weakened TestLogin"),
		goCase("testify compares with itself", goTable, r("c.want, Parse(c.in)", "c.want, c.want").Replace(goTable), "emptied TestParse"),
		goCase("testify on a false t", goTable, r("require.Equal(t,", "require.Equal(new(testing.T),").Replace(goTable), "emptied TestParse"),
		goCase("an exact check becomes vague", goTable, r("require.Equal(t, c.want, Parse(c.in))", "require.NotNil(t, Parse(c.in))").Replace(goTable), "weakened TestParse"),
		goCase("a check under a condition", `
func TestA(t *testing.T) {
	got := A()
	require.Equal(t, 1, got)
}`, `
func TestA(t *testing.T) {
	got := A()
	if got == 1 {
		require.Equal(t, 1, got)
	}
}`, "weakened TestA"),
		goCase("a case of a table is gone", goTable, r("\t\t{\"two\", \"2\", 2},\n", "").Replace(goTable), "weakened TestParse"),
		goCase("all cases of a table are gone", goTable, r(`{"empty", "", 0},`, "", `{"one", "1", 1},`, "", `{"two", "2", 2},`, "").Replace(goTable), "emptied TestParse"),
		goCase("a helper checks nothing any more", `
func checkUser(t *testing.T, u User) { require.Equal(t, "ada", u.Name) }
func TestA(t *testing.T) { checkUser(t, A()) }`, `
func checkUser(t *testing.T, u User) {}
func TestA(t *testing.T) { checkUser(t, A()) }`, "emptied"),
		goCase("the call of a helper is gone", `
func TestA(t *testing.T) {
	a := A()
	checkUser(t, a)
	require.NoError(t, a.Err)
}`, `
func TestA(t *testing.T) {
	a := A()
	require.NoError(t, a.Err)
}`, "weakened TestA"),
		goCase("checks in a function that nobody calls", `
func TestA(t *testing.T) {
	require.NoError(t, A())
}`, `
func TestA(t *testing.T) {
	_ = func() { require.NoError(t, A()) }
}`, "emptied TestA"),
		{"a test lost its check to a new test that shares its last line", []change{{"a_test.go", goFile(`
func TestA(t *testing.T) { require.NoError(t, err); require.Equal(t, 1, A()) }`), goFile(`
func TestA(t *testing.T) { require.Equal(t, 1, A()) }
func TestB(t *testing.T) { require.NoError(t, err) }`)}}, []string{"weakened TestA"}},
	}
}

// excludedGoTests are tests that Go does not run any more, or whose failures it does not report.
func excludedGoTests() []example {
	r := strings.NewReplacer
	return []example{
		goCase("renamed so that it does not run", goPlain, r("TestLogin", "testLogin").Replace(goPlain), "renamed_away TestLogin"),
		goCase("renamed with a prefix", goPlain, r("TestLogin", "XTestLogin").Replace(goPlain), "renamed_away TestLogin"),
		one("its file is no test any more", "a_test.go → a_tests.go", goFile(goPlain), goFile(goPlain), "renamed_away TestLogin"),
		one("its file is a backup", "a_test.go → a_test.go.bak", goFile(goPlain), goFile(goPlain), "renamed_away TestLogin"),
		one("its file is in testdata", "a_test.go → testdata/a_test.go", goFile(goPlain), goFile(goPlain), "renamed_away TestLogin"),
		one("its file is for another system", "a_test.go → a_windows_test.go", goFile(goPlain), goFile(goPlain), "excluded"),
		one("a build constraint", "a_test.go", goFile(goPlain), "//go:build ignore\n\n"+goFile(goPlain), "excluded"),
		one("a constraint for another system", "a_test.go", goFile(goPlain), "//go:build darwin && !linux\n\n"+goFile(goPlain), "excluded"),
		one("a constraint with a tag", "a_test.go", goFile(goPlain), "//go:build slow\n\n"+goFile(goPlain), "excluded"),
		one("no valid code", "a_test.go", goFile(goPlain), goFile(goPlain)+"func {", "weakened"),
		goCase("TestMain tells of success", goPlain, goPlain+"\nfunc TestMain(m *testing.M) { m.Run(); os.Exit(0) }", "excluded"),
		goCase("TestMain runs nothing", goPlain, goPlain+"\nfunc TestMain(m *testing.M) { }", "excluded"),
		one("a new file ends the tests", "z_test.go", gone, goFile("func init() { os.Exit(0) }"), "excluded"),
	}
}

// changedGoExpectations are tests that no longer expect what they expected.
func changedGoExpectations() []example {
	r := strings.NewReplacer
	return []example{
		goCase("another case is expected", goTable, r(`{"two", "2", 2}`, `{"two", "2", 3}`).Replace(goTable), "edited TestParse"),
		goCase("an example loses its output", "func ExampleA() {\n\tA()\n\t// Output: 1\n}", "func ExampleA() {\n\tA()\n}", "skipped ExampleA"),
		goCase("an example expects something else", "func ExampleA() {\n\tA()\n\t// Output: 1\n}", "func ExampleA() {\n\tA()\n\t// Output: 2\n}", "edited ExampleA"),
		goCase("a seed of a fuzz test is gone", `
func FuzzA(f *testing.F) {
	f.Add("a"); f.Add("b")
	f.Fuzz(func(t *testing.T, s string) { require.NoError(t, A(s)) })
}`, `
func FuzzA(f *testing.F) {
	f.Add("a")
	f.Fuzz(func(t *testing.T, s string) { require.NoError(t, A(s)) })
}`, "weakened FuzzA"),
		goCase("an expected value outside of a test is changed", "const want = 1\nfunc TestA(t *testing.T) { require.Equal(t, want, A()) }",
			"const want = 2\nfunc TestA(t *testing.T) { require.Equal(t, want, A()) }", "edited"),
	}
}

func TestLegitimateChangesOfGoTestsAreNoFindings(t *testing.T) {
	t.Parallel()
	try(t, []example{
		goCase("a new test", goPlain, goPlain+goTable),
		goCase("comments and formatting", goPlain, strings.ReplaceAll(goPlain, "if err != nil {", "// see the manual\n\n\tif  err != nil  {")),
		goCase("a call on several lines", goTable, strings.ReplaceAll(goTable, "require.Equal(t, c.want, Parse(c.in))", "require.Equal(\n\tt,\n\tc.want,\n\tParse(c.in),\n)")),
		goCase("a new import", goPlain, strings.Replace(goPlain, "\nfunc", "\nimport _ \"embed\"\nfunc", 1)),
		goCase("renamed with the same body", goPlain, strings.ReplaceAll(goPlain, "TestLogin", "TestLoginWorks")),
		{"moved to another file", []change{{"a_test.go", goFile(goPlain + goTable), goFile(goTable)}, {"b_test.go", goFile(goSuite), goFile(goSuite + goPlain)}}, nil},
		{"moved with its file, told as two", []change{{"a_test.go", goFile(goPlain), gone}, {"b/a_test.go", gone, goFile(goPlain)}}, nil},
		one("its file is renamed", "a_test.go → login_test.go", goFile(goPlain), goFile(goPlain)),
		goCase("order changes", goPlain+goTable, goTable+goPlain),
		goCase("a subtest is new", `
func TestA(t *testing.T) {
	t.Run("a", func(t *testing.T) { require.NoError(t, A(1)) })
}`, `
func TestA(t *testing.T) {
	t.Run("a", func(t *testing.T) { require.NoError(t, A(1)) })
	t.Run("b", func(t *testing.T) { require.NoError(t, A(2)) })
}`),
		one("a file of another build is formatted", "a_test.go", "//go:build slow\n\n"+goFile(goPlain), "//go:build slow\n\n// Slow.\n"+goFile(goPlain)),
		goCase("a TestMain that runs the tests", goPlain, goPlain+"\nfunc TestMain(m *testing.M) { os.Exit(m.Run()) }"),
		goCase("a TestMain of goleak", goPlain, goPlain+"\nfunc TestMain(m *testing.M) { goleak.VerifyTestMain(m) }"),
		goCase("a TestMain that can be another program", goPlain, goPlain+"\nfunc TestMain(m *testing.M) { if os.Getenv(\"X\") != \"\" { main(); os.Exit(0) }; os.Exit(m.Run()) }"),
		one("product code", "main.go", "package x\nfunc A() {}", "package x\nfunc B() {}"),
	})
}

// What follows is an edit, and people see it, but nothing is lost.
func TestGoTestsMayBeMadeStrongerAndRefactored(t *testing.T) {
	t.Parallel()
	try(t, []example{
		goCase("a stronger check", goTable, strings.ReplaceAll(goTable, "require.Equal", "require.NotEmpty(t, c.name)\n require.Equal"), "edited TestParse"),
		goCase("a case more", goTable, strings.ReplaceAll(goTable, `{"two", "2", 2},`, `{"two", "2", 2}, {"three", "3", 3},`), "edited TestParse"),
		goCase("checks move into a helper", `
func TestA(t *testing.T) {
	a := A()
	require.Equal(t, "ada", a.Name)
	require.Equal(t, 36, a.Age)
}`, `
func checkAda(t *testing.T, u User) {
	t.Helper()
	require.Equal(t, "ada", u.Name)
	require.Equal(t, 36, u.Age)
}
func TestA(t *testing.T) {
	checkAda(t, A())
}`, "edited TestA"),
		goCase("checks become a table", `
func TestA(t *testing.T) {
	require.Equal(t, 1, A(1))
	require.Equal(t, 2, A(2))
}`, `
func TestA(t *testing.T) {
	for _, n := range []int{1, 2} {
		require.Equal(t, n, A(n))
	}
}`, "edited TestA"),
		goCase("checks become subtests", `
func TestA(t *testing.T) {
	require.Equal(t, 1, A(1))
	require.Equal(t, 2, A(2))
}`, `
func TestA(t *testing.T) {
	t.Run("one", func(t *testing.T) { require.Equal(t, 1, A(1)) })
	t.Run("two", func(t *testing.T) { require.Equal(t, 2, A(2)) })
}`, "edited TestA"),
		goCase("a test is split", `
func TestA(t *testing.T) {
	require.Equal(t, 1, A(1))
	require.Equal(t, 2, B(2))
	require.Equal(t, 3, B(3))
}`, `
func TestA(t *testing.T) {
	require.Equal(t, 1, A(1))
}
func TestB(t *testing.T) {
	require.Equal(t, 2, B(2))
	require.Equal(t, 3, B(3))
}`, "edited TestA"),
		goCase("checks move into a closure that is called", `
func TestA(t *testing.T) {
	require.Equal(t, 1, A(1))
	require.Equal(t, 2, A(2))
}`, `
func TestA(t *testing.T) {
	check := func(n int) { require.Equal(t, n, A(n)) }
	check(1)
	check(2)
}`, "edited TestA"),
	})
}

// source is a generated Go file: a test for each name.
func source(names []string) string {
	var b strings.Builder
	for i, n := range names {
		fmt.Fprintf(&b, "func Test%s(t *testing.T) {\n\trequire.Equal(t, %d, F(%d))\n}\n\n", n, i, i)
	}
	return goFile(b.String())
}

func TestDeletingAnyTestIsAlwaysFound(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		names := rapid.SliceOfNDistinct(rapid.StringMatching(`[A-Z][a-z]{0,6}`), 1, 12, rapid.ID[string]).Draw(t, "names")
		i := rapid.IntRange(0, len(names)-1).Draw(t, "which")
		before := source(names)
		body := fmt.Sprintf("func Test%s(t *testing.T) {\n\trequire.Equal(t, %d, F(%d))\n}\n\n", names[i], i, i)
		after := strings.Replace(before, body, "", 1)
		require.NotEqual(t, before, after)

		problems := checked([]pin.File{{Path: "a_test.go", Before: []byte(before), After: []byte(after), Existed: true, Exists: true}})
		require.Len(t, problems, 1)
		require.Equal(t, pin.Deleted, problems[0].Kind)
		require.Equal(t, "Test"+names[i], problems[0].Test)

		back := checked([]pin.File{{Path: "a_test.go", Before: []byte(after), After: []byte(before), Existed: true, Exists: true}})
		require.Empty(t, back, "a new test is no finding")
	})
}

func TestSuitesOfGocheckArePinned(t *testing.T) {
	t.Parallel()
	const head = "package login\n\nimport . \"gopkg.in/check.v1\"\n"
	before := head + `
func (s *S) TestGreets(c *C) {
	page := Login("ada")
	c.Assert(page.Title, Equals, "Hello")
	c.Check(page.User, Equals, "ada")
}
`
	try(t, []example{
		one("deleted", "auth/login_test.go", before, head+"\nfunc (s *S) SetUpTest(c *C) {}\n", "deleted S/TestGreets"),
		one("skipped", "auth/login_test.go", before, with(before, "page :=", "c.Skip(\"flaky\")\n\tpage :="), "skipped S/TestGreets"),
		one("one check fewer", "auth/login_test.go", before, with(before, "\tc.Check(page.User, Equals, \"ada\")\n", ""), "weakened S/TestGreets"),
		one("failed by hand", "auth/login_test.go", before, with(before, "\tc.Check(page.User, Equals, \"ada\")\n", "\tif page.User != \"ada\" {\n\t\tc.Fatal(page.User)\n\t}\n"), "edited S/TestGreets"),
		one("a method with another parameter is no test", "auth/login_test.go", with(before, "\"gopkg.in/check.v1\"", "\"example.com/c\""), head),
	})
}
