package pin_test

import "testing"

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
