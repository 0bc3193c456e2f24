package pin_test

import (
	"strings"
	"testing"
)

const jsPlain = `import { login } from './login'

describe('login', () => {
  beforeEach(async () => { await reset() })

  test('greets', async () => {
    const page = await login('ada')
    expect(page.title).toBe("Hello")
    expect(page.user.name).toEqual('ada')
  })

  it.each([['', 400], ['x', 401]])('rejects %s', async (name, status) => {
    expect((await login(name)).status).toBe(status)
  })
})
`

func jsCase(name, before, after string, want ...string) example {
	return one(name, "src/login.test.ts", before, after, want...)
}

func with(s string, pairs ...string) string { return strings.NewReplacer(pairs...).Replace(s) }

func TestJavaScriptTestsArePinned(t *testing.T) {
	t.Parallel()
	const greets, rejects = "login > greets", "login > rejects %s"
	first := jsPlain[strings.Index(jsPlain, "  test("):strings.Index(jsPlain, "  it.each")]
	try(t, []example{
		jsCase("deleted", jsPlain, with(jsPlain, first, ""), "deleted "+greets),
		jsCase("deleted with its file", jsPlain, gone, "deleted "+greets, "deleted "+rejects),
		jsCase("commented out", jsPlain, with(jsPlain, first, "/*"+first+"*/"), "deleted "+greets),
		jsCase("in a text", jsPlain, with(jsPlain, first, "const s = `"+first+"`\n"), "edited", "deleted "+greets),
		jsCase("test.skip", jsPlain, with(jsPlain, "test('greets'", "test.skip('greets'"), "skipped "+greets),
		jsCase("test.todo", jsPlain, with(jsPlain, first, "test.todo('greets')\n"), "skipped "+greets),
		jsCase("test.fixme", jsPlain, with(jsPlain, "test('greets'", "test.fixme('greets'"), "skipped "+greets),
		jsCase("test.fails", jsPlain, with(jsPlain, "test('greets'", "test.fails('greets'"), "skipped "+greets),
		jsCase("xit", jsPlain, with(jsPlain, "test('greets'", "xit('greets'"), "skipped "+greets),
		jsCase("describe.skip", jsPlain, with(jsPlain, "describe(", "describe.skip("), "skipped "+greets, "skipped "+rejects),
		jsCase("xdescribe", jsPlain, with(jsPlain, "describe(", "xdescribe("), "skipped "+greets, "skipped "+rejects),
		jsCase("skipIf", jsPlain, with(jsPlain, "test('greets'", "test.skipIf(process.env.CI)('greets'"), "skipped "+greets),
		jsCase("skipped from inside", jsPlain, with(jsPlain, "const page", "test.skip()\nconst page"), "skipped "+greets),
		jsCase("skipped from inside under a condition", jsPlain, with(jsPlain, "const page", "test.skip(browser === 'webkit', 'slow')\nconst page"), "skipped "+greets),
		jsCase("skipped by a variable", jsPlain, with(jsPlain, "test('greets', ", "test('greets', { skip }, "), "skipped "+greets),
		jsCase("skipped by an option", jsPlain, with(jsPlain, "test('greets', ", "test('greets', { skip: true }, "), "skipped "+greets),
		jsCase("mocha's this.skip", jsPlain, with(jsPlain, "const page", "this.skip();\nconst page"), "skipped "+greets),
		jsCase("only", jsPlain, with(jsPlain, "it.each", "it.only.each"), "skipped "+rejects),
		one("only in a new file", "tests/z.spec.ts", gone, "test.only('z', async () => { expect(z()).toBe(1) })", "skipped z"),
		jsCase("returns at the top", jsPlain, with(jsPlain, "const page", "return;\n    const page"), "skipped "+greets),
		jsCase("returns early in CI", jsPlain, with(jsPlain, "const page", "if (process.env.CI) return\n    const page"), "skipped "+greets),
		jsCase("emptied", jsPlain, with(jsPlain, first, "  test('greets', async () => {})\n"), "emptied "+greets),
		jsCase("without expect", jsPlain, with(jsPlain, `    expect(page.title).toBe("Hello")`, "", "    expect(page.user.name).toEqual('ada')", ""), "emptied "+greets),
		jsCase("expects nothing of it", jsPlain, with(jsPlain, `.toBe("Hello")`, "", ".toEqual('ada')", ""), "emptied "+greets),
		jsCase("one check fewer", jsPlain, with(jsPlain, `    expect(page.title).toBe("Hello")`, "    page.title"), "weakened "+greets),
		jsCase("compared with itself", jsPlain, with(jsPlain, "toEqual('ada')", "toEqual(page.user.name)"), "weakened "+greets),
		jsCase("true is true", jsPlain, with(jsPlain, `expect(page.title).toBe("Hello")`, "expect(true).toBe(true)"), "weakened "+greets),
		jsCase("vague", jsPlain, with(jsPlain, `toBe("Hello")`, "toBeDefined()"), "weakened "+greets),
		jsCase("caught", jsPlain, with(jsPlain, "const page", "try {\nconst page", "toEqual('ada')", "toEqual('ada')\n} catch (e) { console.log(e) }"), "emptied "+greets),
		jsCase("never", jsPlain, with(jsPlain, `expect(page.title)`, "if (false) expect(page.title)"), "weakened "+greets),
		jsCase("sometimes", jsPlain, with(jsPlain, `expect(page.title)`, "if (page.title) expect(page.title)"), "weakened "+greets),
		jsCase("a case fewer", jsPlain, with(jsPlain, ", ['x', 401]", ""), "weakened "+rejects),
		jsCase("another case", jsPlain, with(jsPlain, "['x', 401]", "['x', 200]"), "edited "+rejects),
		jsCase("other preparation", jsPlain, with(jsPlain, "await reset()", "await reset(1)"), "edited"),
		jsCase("no valid code", jsPlain, jsPlain+"\nfunction (", "weakened"),
		jsCase("another expectation", jsPlain, with(jsPlain, `"Hello"`, `"Bye"`), "edited "+greets),
		one("not a test file any more", "a.test.js → a.js", "test('a', () => { expect(a()).toBe(1) })", "test('a', () => { expect(a()).toBe(1) })", "renamed_away a"),
		jsCase("a helper that checks less", `function expectOk(r) { expect(r.status).toBe(200); expect(r.body).toEqual({}) }
test('a', () => { expectOk(a()) })`, `function expectOk(r) { expect(r.status).toBe(200) }
test('a', () => { expectOk(a()) })`, "weakened"),
		jsCase("a case of a loop is gone", "for (const n of [1, 2, 3]) { test(`n ${n}`, () => { expect(f(n)).toBe(n) }) }",
			"for (const n of [1, 2]) { test(`n ${n}`, () => { expect(f(n)).toBe(n) }) }", "edited", "weakened n ${n}"),
	})
}

func TestLegitimateChangesOfJavaScriptTestsAreNoFindings(t *testing.T) {
	t.Parallel()
	try(t, []example{
		jsCase("a new test", jsPlain, with(jsPlain, "  it.each", "  it('is new', () => { expect(1 + f()).toBe(2) })\n  it.each")),
		jsCase("semicolons and quotes", jsPlain, with(jsPlain, "login('ada')\n", "login(\"ada\");\n", "toEqual('ada')", "toEqual('ada');")),
		jsCase("comments", jsPlain, with(jsPlain, "    const page", "    // it's (not { balanced\n    const page")),
		jsCase("a trailing comma and lines", jsPlain, with(jsPlain, "[['', 400], ['x', 401]]", "[\n    ['', 400],\n    ['x', 401],\n  ]")),
		jsCase("renamed with the same body", jsPlain, with(jsPlain, "'greets'", "'says hello'")),
		jsCase("the group is renamed", jsPlain, with(jsPlain, "describe('login'", "describe('signing in'")),
		{"moved to another file", []change{{"a.test.js", "test('a', () => { expect(a()).toBe(1) })\ntest('b', () => { expect(b()).toBe(1) })", "test('b', () => { expect(b()).toBe(1) })"},
			{"c.test.js", gone, "test('a', () => { expect(a()).toBe(1) })"}}, nil},
		jsCase("regular expressions and templates", "test('a', () => { expect(a()).toMatch(/it's (\\/ [/)]/); expect(`${b({c: `}`})}`).toBe('x') })",
			"test('a', () => {\n expect(a()).toMatch(/it's (\\/ [/)]/)\n expect(`${b({c: `}`})}`).toBe('x')\n})"),
		one("markup with apostrophes", "src/app.test.tsx", "test('a', () => { render(<p>Don't (</p>); expect(a()).toBe(1) })\n", "test('a', () => { render(<p>Don't (</p>); expect(a()).toBe(1) })\n// more\n"),
		jsCase("a regular expression's test is no test", "const ok = /x/.test('x', () => 1)", "const ok = /y/.exec('x')", "edited"),
	})
}

const pyPlain = `"""Tests."""
import pytest
from login import login


class TestLogin:
    def test_greets(self):
        """It greets."""
        page = login("ada")
        assert page.title == "Hello"
        assert page.user.name == "ada"


@pytest.mark.parametrize("name, status", [("", 400), ("x", 401)])
def test_rejects(name, status):
    assert login(name).status == status


def test_raises():
    with pytest.raises(ValueError):
        login(None)
`

func pyCase(name, before, after string, want ...string) example {
	return one(name, "tests/test_login.py", before, after, want...)
}

func TestPythonTestsArePinned(t *testing.T) {
	t.Parallel()
	const greets = "TestLogin::test_greets"
	unit := `import unittest

class LoginTest(unittest.TestCase):
    def test_code(self):
        got = login("x")
        self.assertEqual(got.code, 401)
        self.assertIn("no", got.text)
`
	try(t, []example{
		pyCase("deleted", pyPlain, pyPlain[:strings.Index(pyPlain, "def test_raises")], "deleted test_raises"),
		pyCase("deleted with its file", pyPlain, gone, "deleted "+greets, "deleted test_rejects", "deleted test_raises"),
		pyCase("in a text", pyPlain, with(pyPlain, "def test_raises", "x = '''\ndef test_raises", "login(None)\n", "login(None)\n'''\n"), "deleted test_raises"),
		pyCase("mark.skip", pyPlain, with(pyPlain, "def test_raises", "@pytest.mark.skip(reason='x')\ndef test_raises"), "skipped test_raises"),
		pyCase("mark.skipif", pyPlain, with(pyPlain, "def test_raises", "@pytest.mark.skipif(sys.platform == 'x', reason='x')\ndef test_raises"), "skipped test_raises"),
		pyCase("mark.xfail", pyPlain, with(pyPlain, "def test_raises", "@pytest.mark.xfail\ndef test_raises"), "skipped test_raises"),
		pyCase("a skipped class", pyPlain, with(pyPlain, "class Test", "@pytest.mark.skip\nclass Test"), "skipped "+greets),
		pyCase("unittest.skip", unit, with(unit, "    def test", "    @unittest.skip('x')\n    def test"), "skipped LoginTest::test_code"),
		pyCase("pytestmark", pyPlain, with(pyPlain, "class Test", "pytestmark = pytest.mark.skip\n\nclass Test"), "skipped "+greets, "skipped test_rejects", "skipped test_raises"),
		pyCase("pytest.skip", pyPlain, with(pyPlain, "page = login", "pytest.skip('x')\n        page = login"), "skipped "+greets),
		pyCase("pytest.skip under a condition", pyPlain, with(pyPlain, "page = login", "if os.environ.get('CI'):\n            pytest.skip('x')\n        page = login"), "skipped "+greets),
		pyCase("pytest.skip of the module", pyPlain, with(pyPlain, "class Test", "pytest.skip('x', allow_module_level=True)\n\nclass Test"), "skipped "+greets, "skipped test_rejects", "skipped test_raises"),
		pyCase("self.skipTest", unit, with(unit, "got =", "self.skipTest('x')\n        got ="), "skipped LoginTest::test_code"),
		pyCase("self.skipTest before each test", unit, with(unit, "    def test", "    def setUp(self):\n        if os.environ.get('CI'):\n            self.skipTest('x')\n\n    def test"), "skipped LoginTest::test_code"),
		pyCase("self.skipTest in a method that nothing calls", unit, with(unit, "    def test", "    def prepare(self):\n        self.skipTest('x')\n\n    def test")),
		pyCase("raise SkipTest", unit, with(unit, "got =", "raise unittest.SkipTest('x')\n        got ="), "skipped LoginTest::test_code"),
		pyCase("__test__", pyPlain, with(pyPlain, "    def test_greets", "    __test__ = False\n\n    def test_greets"), "edited", "skipped "+greets),
		pyCase("given away", pyPlain, pyPlain+"\n\ntest_raises = None\n", "skipped test_raises"),
		pyCase("shadowed", pyPlain, pyPlain+"\n\ndef test_raises():\n    pass\n", "emptied test_raises"),
		pyCase("pass", unit, unit[:strings.Index(unit, "        got")]+"        pass\n", "emptied LoginTest::test_code"),
		pyCase("only a docstring", pyPlain, with(pyPlain, `        page = login("ada")
        assert page.title == "Hello"
        assert page.user.name == "ada"
`, ""), "emptied "+greets),
		pyCase("one check fewer", pyPlain, with(pyPlain, `        assert page.title == "Hello"`+"\n", ""), "weakened "+greets),
		pyCase("unittest: one check fewer", unit, with(unit, `        self.assertIn("no", got.text)`, ""), "weakened LoginTest::test_code"),
		pyCase("assert True", pyPlain, with(pyPlain, `page.title == "Hello"`, "True"), "weakened "+greets),
		pyCase("a tuple", pyPlain, with(pyPlain, `assert page.title == "Hello"`, `assert (page.title == "Hello", "title")`), "weakened "+greets),
		pyCase("compared with itself", pyPlain, with(pyPlain, `page.title == "Hello"`, `page.title == page.title`), "weakened "+greets),
		pyCase("or True", pyPlain, with(pyPlain, `page.title == "Hello"`, `page.title == "Hello" or True`), "weakened "+greets),
		pyCase("vague", pyPlain, with(pyPlain, `page.title == "Hello"`, `page.title is not None`), "weakened "+greets),
		pyCase("caught", pyPlain, with(pyPlain, `        assert page.title == "Hello"`, "        try:\n            assert page.title == \"Hello\"\n        except Exception:\n            pass"), "weakened "+greets),
		pyCase("under a condition", pyPlain, with(pyPlain, `        assert page.title == "Hello"`, "        if page.title:\n            assert page.title == \"Hello\""), "weakened "+greets),
		pyCase("never", pyPlain, with(pyPlain, `        assert page.title == "Hello"`, "        if False:\n            assert page.title == \"Hello\""), "weakened "+greets),
		pyCase("returns at the top", pyPlain, with(pyPlain, "page = login", "return\n        page = login"), "skipped "+greets),
		pyCase("a case fewer", pyPlain, with(pyPlain, `, ("x", 401)`, ""), "weakened test_rejects"),
		pyCase("renamed away", pyPlain, with(pyPlain, "test_raises", "no_test_raises"), "renamed_away test_raises"),
		pyCase("its class is no test class", pyPlain, with(pyPlain, "class TestLogin", "class Login"), "renamed_away "+greets),
		one("its file is no test file", "tests/test_login.py → tests/login_tests.py", pyPlain, pyPlain, "renamed_away "+greets, "renamed_away test_rejects", "renamed_away test_raises"),
		pyCase("no valid code", pyPlain, pyPlain+"\nx = (\n", "weakened"),
		pyCase("what is raised does not matter any more", pyPlain, with(pyPlain, "    with pytest.raises(ValueError):\n        login(None)", "    login(None)"), "emptied test_raises"),
		one("collect_ignore", "tests/conftest.py", gone, "collect_ignore = ['test_login.py']\n", "excluded"),
		one("a hook that skips", "conftest.py", "import pytest\n", "import pytest\n\ndef pytest_collection_modifyitems(items):\n    for i in items:\n        i.add_marker(pytest.mark.skip)\n", "excluded"),
		one("a hook that makes success", "conftest.py", gone, "def pytest_sessionfinish(session, exitstatus):\n    session.exitstatus = 0\n", "excluded"),
	})
}

func TestLegitimateChangesOfPythonTestsAreNoFindings(t *testing.T) {
	t.Parallel()
	try(t, []example{
		pyCase("a new test", pyPlain, pyPlain+"\n\ndef test_more():\n    assert login('b').ok == 1\n"),
		pyCase("quotes, comments, docstrings, indentation", pyPlain, with(pyPlain, `"ada"`, "'ada'", "It greets.", "It does.", "    with", "    # why (\n    with", "        login(None)", "            login(None)")),
		pyCase("renamed with the same body", pyPlain, with(pyPlain, "test_raises", "test_rejects_nothing")),
		pyCase("lines", pyPlain, with(pyPlain, `[("", 400), ("x", 401)]`, "[\n    (\"\", 400),\n    (\"x\", 401),\n]")),
		one("a fixture", "conftest.py", gone, "import pytest\n\n@pytest.fixture\ndef db():\n    return 1\n"),
		pyCase("order", "def test_a():\n    assert a() == 1\n\ndef test_b():\n    assert b() == 1\n", "def test_b():\n    assert b() == 1\n\ndef test_a():\n    assert a() == 1\n"),
	})
}

const rustPlain = `pub fn add(a: i32, b: i32) -> i32 { a + b }

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn adds() {
        let c: char = 'x';
        assert_eq!(add(1, 2), 3);
        assert!(add(1, 1) > 1, "{}", c);
    }
}
`

func TestKotlinTestsArePinned(t *testing.T) {
	t.Parallel()
	const plain = `class LoginTest {
  @Test
  fun greets() {
    val page = login("ada")
    assertEquals("Hello", page.title)
    assertEquals("ada", page.user)
  }
}
`
	kotlin := func(name, after string, want ...string) example {
		return one("kotlin: "+name, "src/test/kotlin/LoginTest.kt", plain, after, want...)
	}
	try(t, []example{
		kotlin("assumed before each test, unless a value is missing", with(plain, "  @Test", "  @Before\n  fun prepare() {\n    val ci = env(\"CI\") ?: return\n    assumeFalse(ci)\n  }\n\n  @Test"), "skipped LoginTest.greets"),
		kotlin("returns if a value is missing", with(plain, "login(\"ada\")", "login(\"ada\") ?: return"), "skipped LoginTest.greets"),
		kotlin("one check fewer after a conditional return", with(plain, "    assertEquals(\"ada\", page.user)\n", "    val x = page.user ?: return\n"), "weakened LoginTest.greets"),
	})
}

const javaPlain = `class LoginTest {
    @Test
    void greets() {
        var page = login("ada");
        assertEquals("Hello", page.title());
        assertThat(page.user()).isEqualTo("ada");
    }
}
`

func TestRustAndJavaTestsArePinned(t *testing.T) {
	t.Parallel()
	rust := func(name, after string, want ...string) example {
		return one("rust: "+name, "src/lib.rs", rustPlain, after, want...)
	}
	java := func(name, after string, want ...string) example {
		return one("java: "+name, "src/test/java/LoginTest.java", javaPlain, after, want...)
	}
	try(t, []example{
		rust("deleted", rustPlain[:strings.Index(rustPlain, "    #[test]")]+"}\n", "deleted tests.adds"),
		rust("ignored", with(rustPlain, "fn adds", "#[ignore]\n    fn adds"), "skipped tests.adds"),
		rust("expected to panic", with(rustPlain, "fn adds", "#[should_panic]\n    fn adds"), "skipped tests.adds"),
		rust("compiled only sometimes", with(rustPlain, "#[cfg(test)]", "#[cfg(all(test, feature = \"slow\"))]"), "skipped tests.adds"),
		rust("no attribute", with(rustPlain, "    #[test]\n", ""), "renamed_away tests.adds"),
		rust("one check fewer", with(rustPlain, "assert_eq!(add(1, 2), 3);", ""), "weakened tests.adds"),
		rust("compared with itself", with(rustPlain, "assert_eq!(add(1, 2), 3)", "assert_eq!(3, 3)"), "weakened tests.adds"),
		rust("emptied", rustPlain[:strings.Index(rustPlain, "        let c")]+"    }\n}\n", "emptied tests.adds"),
		rust("other code", with(rustPlain, "a + b", "b + a")),
		rust("comments", with(rustPlain, "let c", "/* a /* nested */ ' */ let c")),
		java("deleted", "class LoginTest {\n}\n", "deleted LoginTest.greets"),
		java("disabled", with(javaPlain, "@Test", "@Disabled(\"flaky\")\n    @Test"), "skipped LoginTest.greets"),
		java("its class is disabled", with(javaPlain, "class", "@Disabled class"), "skipped LoginTest.greets"),
		java("not enabled", with(javaPlain, "@Test", "@Test(enabled = false)"), "skipped LoginTest.greets"),
		java("assumed", with(javaPlain, "var page", "assumeTrue(isCI());\n        var page"), "skipped LoginTest.greets"),
		java("assumed before each test", with(javaPlain, "    @Test", "    @BeforeEach\n    void prepare() {\n        assumeTrue(isCI());\n    }\n\n    @Test"), "skipped LoginTest.greets"),
		java("assumed in a method that nothing calls", with(javaPlain, "    @Test", "    void prepare() {\n        assumeTrue(isCI());\n    }\n\n    @Test")),
		java("no test any more", with(javaPlain, "    @Test\n", ""), "renamed_away LoginTest.greets"),
		java("one check fewer", with(javaPlain, `        assertEquals("Hello", page.title());`, ""), "weakened LoginTest.greets"),
		java("caught", with(javaPlain, "var page", "try { var page", "(\"ada\");\n    }", "(\"ada\"); } catch (Throwable e) { }\n    }"), "emptied LoginTest.greets"),
		java("formatted", with(javaPlain, "        ", "\t\t// x\n\t\t")),
	})
}

func TestFilesOfTypeChecksArePinned(t *testing.T) {
	t.Parallel()
	const file = `import { expectType, expectError } from 'tsd'
import { login } from '.'

expectType<string>(login('ada').name)
expectType<number>(login('ada').age)
expectError(login(1))
`
	try(t, []example{
		one("deleted", "test/login.test-d.ts", file, gone, "deleted login.test-d.ts"),
		one("a check less", "source/login.test-d.ts", file, with(file, "expectType<number>(login('ada').age)\n", ""), "weakened login.test-d.ts"),
		one("a call less", "test/login.test-d.ts", file, with(file, "expectError(login(1))\n", ""), "weakened login.test-d.ts"),
		one("no check", "test/login.test-d.ts", file, "import { login } from '.'\n\nlogin('ada')\n", "emptied login.test-d.ts"),
		one("a check more", "test/login.test-d.ts", file, file+"expectError(login())\n", "edited login.test-d.ts"),
		one("renamed", "test/login.test-d.ts → test/types/login.test-d.ts", file, file),
	})
}

func TestPythonFilesNamedTestsAreTests(t *testing.T) {
	t.Parallel()
	try(t, []example{
		one("the convention of nose", "tests/parser_tests.py", pyPlain, gone, "deleted TestLogin::test_greets", "deleted test_rejects", "deleted test_raises"),
		one("renamed", "tests/parser_tests.py → tests/lexer_tests.py", pyPlain, pyPlain),
		{"renamed, passed as two files", []change{{"tests/parser_tests.py", pyPlain, gone}, {"tests/lexer_tests.py", gone, pyPlain}}, nil},
		one("only words", "parsers/contests.py", pyPlain, gone),
	})
}

func TestKotlinTestsWithNamesOfWordsOrWithoutABodyArePinned(t *testing.T) {
	t.Parallel()
	const file = `class ScopeTest {
    @Test
    fun ` + "`can't find a scope`" + `() {
        assertNull(koin.find("a"))
    }

    @Test
    fun ` + "`finds a scope`" + `() = runTest {
        val scope = koin.find("b")
        assertEquals("b", scope.id)
        assertTrue(scope.open)
    }

    @Test fun closes() = assertTrue(koin.close("b"))
}
`
	const never, finds, closes = "ScopeTest.can't find a scope", "ScopeTest.finds a scope", "ScopeTest.closes"
	first := file[strings.Index(file, "    @Test"):strings.Index(file, "    @Test\n    fun `finds")]
	kotlin := func(name, after string, want ...string) example {
		return one(name, "core/src/commonTest/kotlin/Scopes.kt", file, after, want...)
	}
	try(t, []example{
		kotlin("a test whose name has spaces is deleted", with(file, first, ""), "deleted "+never),
		kotlin("a test that is an expression is deleted", with(file, "    @Test fun closes() = assertTrue(koin.close(\"b\"))\n", ""), "deleted "+closes),
		kotlin("a test that is an expression checks less", with(file, "        assertTrue(scope.open)\n", ""), "weakened "+finds),
		kotlin("a test that is an expression is ignored", with(file, "    @Test fun", "    @Ignore @Test fun"), "skipped "+closes),
		kotlin("a test is added", with(file, first, first+with(first, "can't find", "can't close", "find(", "close("))),
		one("no folder of tests", "core/src/commonMain/kotlin/Scopes.kt", file, gone),
	})
}

func TestAPythonMarkMayHaveAName(t *testing.T) {
	t.Parallel()
	const py = "unix_only = pytest.mark.skipif(sys.platform == 'win32', reason='Unix')\nslow = pytest.mark.slow(1)\n\n\ndef test_stale():\n    assert stale()\n"
	try(t, []example{
		pyCase("it skips", py, with(py, "def test", "@unix_only\ndef test"), "skipped test_stale"),
		pyCase("it does not skip", py, with(py, "def test", "@slow\ndef test"), "edited test_stale"),
		pyCase("it no longer skips", with(py, "def test", "@unix_only\ndef test"), py, "edited test_stale"),
		pyCase("another one", py, with(py, "def test", "@fixture\ndef test"), "edited test_stale"),
	})
}
