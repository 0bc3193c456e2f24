package pin_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/internal/pin"
)

const pyApp = `import pytest


class Recorder:
    def close(self):
        assert self.calls == 1


def test_index(app, client):
    @app.route("/")
    def index():
        assert app.ready
        return "one"

    assert client.get("/").data == b"one"


def test_other(app, client):
    @app.route("/other")
    def index():
        return "two"

    client.close()
    assert client.get("/other").data == b"two"
`

func TestFunctionsOfTheSameNameAreToldApart(t *testing.T) {
	t.Parallel()
	const added = `

def test_added(app, client):
    @app.route("/added")
    def index():
        return "three"

    assert client.get("/added").data == b"three"
`
	const goTypes = "package a\n\nfunc (one) check(t *testing.T) { t.Fatal(1) }\n\nfunc (two) check(t *testing.T) { t.Fatal(2) }\n"
	js := "describe('a', () => {\n  function handle() { expect(a()).toBe(1) }\n  it('calls', () => { handle() })\n})\n"
	try(t, []example{
		one("python: a test is added at the end", "tests/test_app.py", pyApp, pyApp+added),
		one("python: a function in another test is edited", "tests/test_app.py", pyApp, with(pyApp, `return "two"`, `return  str(2)`), "edited"),
		one("python: a function in another test has the name of a helper", "tests/test_app.py", pyApp, with(pyApp, `        assert app.ready
`, ""), "weakened"),
		one("go: a method of another type is added", "a_test.go", goTypes, goTypes+"\nfunc (three) check(t *testing.T) { t.Fatal(3) }\n"),
		one("js: a function of the same name in another group", "a.test.js", js, js+with(js, "'a'", "'b'", "expect(a()).toBe(1)", "")),
	})
}

func TestMethodsOfTheCodeUnderTestAreNoHelpers(t *testing.T) {
	t.Parallel()
	const java = `class ParserTest {
    void parse() {
        assertEquals(1, 1 + zero());
    }

    @Test
    void parses() {
        var parser = format.parse(input());
        assertEquals("a", parser.next());
    }
}
`
	const rust = "pub fn add(a: u8) -> u8 {\n    assert!(a < 9);\n    a + 1\n}\n\n#[cfg(test)]\nmod tests {\n    #[test]\n    fn adds() {\n        assert_eq!(add(1), 2);\n    }\n}\n"
	try(t, []example{
		one("python", "tests/test_app.py", pyApp, with(pyApp, "    client.close()\n", ""), "edited test_other"),
		one("java", "src/test/java/ParserTest.java", java, with(java, "format.parse(input())", "Parser.of(format, input())"), "edited ParserTest.parses"),
		one("rust", "src/lib.rs", rust, with(rust, "    assert!(a < 9);\n", "")),
		one("rust: a constructor has the name of a test", "tests/a.rs",
			"#[test]\nfn from() {\n    assert_eq!(A::new(1).n, 1);\n}\n\n#[test]\nfn len() {\n    assert_eq!(A::from(b).len(), 1);\n}\n",
			"#[test]\nfn from() {\n    assert_eq!(A::new(1).n, 1);\n}\n\n#[test]\nfn len() {\n    assert_eq!(A::new(b).len(), 1);\n}\n", "edited len"),
	})
}

func TestARenamedAndEditedTestIsComparedWithItself(t *testing.T) {
	t.Parallel()
	before := goFile(`
func TestLogin(t *testing.T) {
	page, err := Login("ada")
	require.NoError(t, err)
	require.Equal(t, "Hello", page.Title)
	require.Equal(t, "ada", page.User)
}`)
	renamed := with(before, "TestLogin", "TestLoginOfKnownUsers", `"Hello"`, `"Welcome"`)
	weaker := with(renamed, "\trequire.Equal(t, \"ada\", page.User)\n", "")
	try(t, []example{
		one("renamed and edited", "login_test.go", before, renamed, "edited TestLoginOfKnownUsers"),
		one("and checks less", "login_test.go", before, weaker, "weakened TestLoginOfKnownUsers"),
		one("another test in its place", "login_test.go", before, goFile(`
func TestLogout(t *testing.T) {
	Logout()
	require.Empty(t, Sessions())
}`), "deleted TestLogin"),
	})
	problems := checked([]pin.File{change{"login_test.go", before, weaker}.file()})
	require.Len(t, problems, 1)
	require.Equal(t, "TestLogin", problems[0].Was)
	require.True(t, strings.HasSuffix(problems[0].Message, "it was named TestLogin"), problems[0].Message)
}

func TestCasesThatMoveToAnotherTableAreNotLost(t *testing.T) {
	t.Parallel()
	table := func(name, rows string) string {
		return "\nfunc " + name + "(t *testing.T) {\n\tfor _, c := range []struct{ a, b int }{" + rows + "} {\n\t\trequire.Equal(t, c.b, Add(c.a))\n\t}\n}\n"
	}
	before := goFile(table("TestSmall", "{1, 2}, {2, 3}, {9, 10}") + table("TestLarge", "{100, 101}"))
	try(t, []example{
		one("a case", "add_test.go", before, goFile(table("TestSmall", "{1, 2}, {2, 3}")+table("TestLarge", "{9, 10}, {100, 101}")), "edited TestSmall", "edited TestLarge"),
		one("all cases, and the test is gone", "add_test.go", before, goFile(table("TestLarge", "{1, 2}, {2, 3}, {9, 10}, {100, 101}")), "edited TestLarge"),
		one("a case is gone", "add_test.go", before, goFile(table("TestSmall", "{1, 2}, {2, 3}")+table("TestLarge", "{100, 101}")), "weakened TestSmall"),
		one("a test is gone", "add_test.go", before, goFile(table("TestLarge", "{1, 2}, {2, 3}, {100, 101}")), "deleted TestSmall", "edited TestLarge"),
	})
}

func TestTestsAreFoundWhereverRunnersFindThem(t *testing.T) {
	t.Parallel()
	const jsTest = "it('adds', () => {\n  assert.equal(add(1, 2), 3)\n  t.error(err)\n})\n"
	const loop = "methods.forEach(function (method) {\n  it('answers ' + method, () => {\n    expect(call(method)).toBe(200)\n  })\n})\n"
	const rustMacros = "rgtest!(finds, |dir: Dir, mut cmd: TestCommand| {\n    eqnice!(\"a\", cmd.stdout());\n});\n\nliteral!(star, \"*\", false);\n"
	const rustUnix = "#[test]\nfn opens() {\n    assert!(open().is_ok());\n}\n"
	const kotlin = `class FileTest {
  @JvmField @Rule val timeout = Timeout(5)
  private val name = this::class.simpleName

  @Test
  fun opens() {
    assertEquals(1, open())
  }
}
`
	const junit3 = "public class AddTest extends TestCase {\n    public void testAdds() {\n        assertEquals(3, add(1, 2));\n    }\n}\n"
	junit4 := "import org.junit.Test;\n\n" + with(junit3, "    public void", "    @Test\n    public void")
	try(t, []example{
		one("js: test.js", "src/add/test.js", jsTest, gone, "deleted adds"),
		one("js: tape's assertions", "test/add.js", jsTest, with(jsTest, "  t.error(err)\n", ""), "weakened adds"),
		one("js: an error and what is expected of it in one call", "test/add.js",
			"test('fails', async t => {\n\tconst err = await t.throws(get('/'))\n\tt.is(err.code, 'E')\n})\n",
			"test('fails', async t => {\n\tawait t.throws(get('/'), {code: 'E'})\n})\n", "edited fails"),
		one("js: node:test", "test/add.js", with(jsTest, "assert.equal", "t.assert.equal"), with(jsTest, "  assert.equal(add(1, 2), 3)\n", ""), "weakened adds"),
		one("js: an error that is awaited", "test/get.js",
			"test('gets', (t, done) => {\n  get('/', (err, body) => {\n    t.assert.ifError(err)\n    t.assert.equal(body, 'a')\n    done()\n  })\n})\n",
			"test('gets', async (t) => {\n  const body = await get('/')\n  t.assert.equal(body, 'a')\n})\n", "edited gets"),
		one("a command that only installs without scripts", ".github/workflows/ci.yml", "jobs:\n  a:\n    steps:\n    - run: npm test\n",
			"jobs:\n  a:\n    steps:\n    - run: npm test\n  b:\n    steps:\n    - run: npm install --ignore-scripts\n    - run: npm test\n"),
		one("js: some are no longer defined", "test/call.js", loop, with(loop, "(method) {\n", "(method) {\n  if (method === 'query' && old()) return\n"), "edited", "skipped answers"),
		one("rust: a macro", "tests/feature.rs", rustMacros, with(rustMacros, "literal!(star, \"*\", false);\n", ""), "deleted star"),
		one("rust: always compiled on Linux", "tests/open.rs", rustUnix, "#[cfg(all(unix, not(windows)))]\n"+rustUnix, "edited opens"),
		one("rust: compiled on Windows", "tests/open.rs", rustUnix, "#[cfg(windows)]\n"+rustUnix, "skipped opens"),
		one("kotlin: properties", "src/test/FileTest.kt", kotlin, with(kotlin, "@JvmField @Rule val timeout = Timeout(5)", "val limit = 5")),
		one("python: in a package of tests", "app/testsuite/views.py", "class ViewsTestCase(TestCase):\n    def test_a(self):\n        self.assertEqual(a(), 1)\n", "x = 1\n", "deleted ViewsTestCase::test_a"),
		one("python: its start is no test", "app/testsuite/__init__.py", "def test_suite():\n    return 1\n", "x = 1\n"),
		one("java: by name", "src/test/java/AddTest.java", junit3, with(junit3, "testAdds", "adds"), "renamed_away AddTest.testAdds"),
		one("java: by annotation", "src/test/java/AddTest.java", junit4, with(junit4, "    @Test\n", ""), "renamed_away AddTest.testAdds"),
	})
}

func TestAClassIsNotEditedWhenItsLastMethodGoes(t *testing.T) {
	t.Parallel()
	const class = "class TestA:\n    limit = 3\n\n    def test_a(self):\n        assert a() == 1\n\n    def test_b(self):\n        if b():\n            assert b() == 2\n"
	last := class[strings.Index(class, "\n    def test_b"):]
	try(t, []example{
		pyCase("at the end", class, with(class, last, ""), "deleted TestA::test_b"),
		pyCase("before another one", class+"\n\nclass TestC:\n    limit = 4\n", with(class, last, "")+"\n\nclass TestC:\n    limit = 4\n", "deleted TestA::test_b"),
		pyCase("and an attribute changes", class, with(class, last, "", "limit = 3", "limit = 4"), "edited", "deleted TestA::test_b"),
	})
}
