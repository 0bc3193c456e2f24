package pin_test

import (
	"strings"
	"testing"
)

func TestATestThatIsExpectedToFailCanBeSkipped(t *testing.T) {
	t.Parallel()
	const java = `class ParserTest {
    @Test(expected = IOException.class)
    public void rejects() throws Exception {
        parser.parse("<");
    }
}
`
	const rust = `#[cfg(test)]
mod tests {
    #[test]
    #[should_panic]
    fn overflows() {
        add(u8::MAX, 1);
    }
}
`
	const py = "@pytest.mark.xfail(raises=ValueError)\ndef test_rejects():\n    assert parse('<')\n"
	try(t, []example{
		one("java: the test is ignored", "src/test/java/ParserTest.java", java, with(java, "    @Test", "    @Ignore\n    @Test"), "skipped ParserTest.rejects"),
		one("java: its class is ignored", "src/test/java/ParserTest.java", java, "@Disabled\n"+java, "skipped ParserTest.rejects"),
		one("java: it is expected to throw something else", "src/test/java/ParserTest.java", java, with(java, "IOException.class", "Exception.class"), "edited ParserTest.rejects"),
		one("rust: it is ignored", "src/lib.rs", rust, with(rust, "    #[test]", "    #[ignore]\n    #[test]"), "skipped tests.overflows"),
		pyCase("python: it is skipped", py, "@pytest.mark.skip\n"+py, "skipped test_rejects"),
		pyCase("python: it is skipped instead of run", "@pytest.mark.skip\n"+py, py, "edited test_rejects"),
	})
}

func TestASuiteThatIsToldToSkipMoreIsSkippedInPart(t *testing.T) {
	t.Parallel()
	const suite = `def skip(message, **kwargs):
    return lambda test: message if matches(test, kwargs) else None


TestDraft4 = DRAFT4.to_testcase(
    DRAFT4.tests(),
    Validator=Draft4Validator,
    skip=skip(message="vocabulary", subject="vocabulary"),
)
`
	const first, second = `skip(message="vocabulary", subject="vocabulary")`, `skip(message="bug", subject="ref")`
	skips := func(filter string) string { return with(suite, "skip="+first, filter) }
	many := skips("skip=[" + first + ", " + second + "]")
	try(t, []example{
		pyCase("one more", suite, skips("skip=lambda test: (\n        "+first+"(test)\n        or "+second+"(test)\n    )"), "edited", "skipped TestDraft4"),
		pyCase("one more in a list", many, with(many, "]", ", unicode]"), "edited", "skipped TestDraft4"),
		pyCase("the first one", skips(""), suite, "edited", "skipped TestDraft4"),
		pyCase("fewer", many, suite, "edited"),
		pyCase("another argument", suite, skips("skip="+first+",\n    format=date"), "edited"),
		pyCase("rewritten", suite, skips("skip=lambda test: without_vocabulary(test) or without_vocabularies(test)"), "edited"),
		pyCase("a new suite", suite, suite+with(suite[strings.Index(suite, "TestDraft4"):], "4", "6")),
		pyCase("no suite", with(suite, "TestDraft4", "draft"), with(many, "TestDraft4", "draft"), "edited"),
	})
}

func TestATestThatIsSkippedUnlessSomethingHoldsUsedToRun(t *testing.T) {
	t.Parallel()
	const py = "@pytest.mark.skipif(IS_WHEEL, reason='slow')\ndef test_fuzz():\n    assert quote('a')\n"
	const unit = "class FuzzTest(TestCase):\n    @skipIf(WHEEL, 'slow')\n    def test_fuzz(self):\n        self.assertEqual(quote('a'), 'a')\n"
	try(t, []example{
		pyCase("opt-out becomes opt-in", py, with(py, "IS_WHEEL", "not FUZZ"), "skipped test_fuzz"),
		pyCase("opt-out becomes opt-in in unittest", unit, with(unit, "skipIf(WHEEL", "skipUnless(FUZZ"), "skipped FuzzTest::test_fuzz"),
		pyCase("opt-in becomes opt-out", with(py, "IS_WHEEL", "not FUZZ"), py, "edited test_fuzz"),
		pyCase("the condition has another name", with(py, "IS_WHEEL", "not PY310"), with(py, "IS_WHEEL", "not PY_310_PLUS"), "edited test_fuzz"),
		pyCase("in other words", with(unit, "skipIf(WHEEL", "skipIf(not FUZZ"), with(unit, "skipIf(WHEEL", "skipUnless(FUZZ"), "edited FuzzTest::test_fuzz"),
	})
}
