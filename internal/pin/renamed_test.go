package pin_test

import "testing"

func TestTestsThatShareAFunctionAreToldApartByTheirArguments(t *testing.T) {
	t.Parallel()
	before := `const reads = async (t, fd) => {
	t.is(await read(fd), 'a')
	t.is(await read(fd), 'b')
}
const closes = async (t, fd, how) => { t.is(await close(fd, how), 0) }

test('reads stdout', reads, 1)
`
	try(t, []example{
		one("another one with another function is new", "test/io.js", before,
			with(before, "test('reads stdout', reads, 1)", "test('closes stderr', closes, 2, 'now')"), "deleted reads stdout"),
		one("renamed", "test/io.js", before, with(before, "'reads stdout'", "'reads from stdout'")),
		one("renamed with another argument", "test/io.js", with(before, "reads, 1", "reads, 1, 'utf8', false"),
			with(before, "'reads stdout', reads, 1", "'reads all of stdout', reads, 1, 'utf8', false, true"), "edited reads all of stdout"),
	})
}

func TestARewrittenTestInTheSamePlaceIsRecognizedByItsName(t *testing.T) {
	t.Parallel()
	test := func(name, body string) string { return "\ndef test_" + name + "():\n" + body + "\n" }
	reads := test("reads", "    assert read('a') == 1")
	writes := test("writes", "    assert write('a') == 1")
	parse := test("parse_tail", "    assert Pointer.compile(path(6000)) is not None")
	params := "\n@pytest.mark.parametrize('text', [\"a\", \"b\"])" + with(test("rejects", "    with raises(E):\n        parse(text)"), "test_rejects()", "test_rejects(text)")
	const longer = "    check(path(6000, False))\n    assert equal(1, True)"
	const order = "    matchers = [Matcher('a'), Matcher('b'), Matcher('c')]\n    shuffle(matchers)\n    assert sorted(matchers) == [Matcher('a'), Matcher('b'), Matcher('c')]"
	try(t, []example{
		pyCase("with a word more", reads+parse+writes, reads+test("parse_tail_simple", longer)+writes, "edited test_parse_tail_simple"),
		pyCase("with a word that says the opposite", reads+parse+writes, reads+test("not_parse_tail", longer)+writes, "deleted test_parse_tail"),
		pyCase("in another place", reads+parse+writes, reads+writes+test("parse_tail_simple", longer), "deleted test_parse_tail"),
		pyCase("in another group", "class TestA:"+with(reads+parse+writes, "\n", "\n    "), "class TestA:"+with(reads+writes, "\n", "\n    ")+"\nclass TestB:"+with(test("parse_tail_simple", longer), "\n", "\n    "), "deleted TestA::test_parse_tail"),
		{"in another file with a few words fewer", []change{{"tests/test_a.py", reads + test("into_buf", "    v = [0, 0, 0, 0]\n    s = v[:]\n    s.into_buf().put(42, 'le', v, s, 7)"), reads},
			{"tests/test_b.py", writes, writes + test("slice", "    v = [0, 0, 0, 0]\n    t = s = v[:]\n    s.put(42, 'le', v, s, 7)")}}, []string{"edited test_slice"}},
		pyCase("with another table", reads+params+writes, reads+with(params, `"a", "b"`, `"x y", "z"`, "rejects", "rejects_all", "with raises(E):", "for p in parsers(1, 2):", "parse(text)", "assert p.run(value) is None", "(text):", "(value, n):")+writes, "deleted test_rejects"),
		pyCase("in the singular", reads+test("label_signature", "    check(1)\n    assert a == b")+writes, reads+test("labels_signature", "    assert f(c, 'x', 3) == 4")+writes, "edited test_labels_signature"),
		pyCase("after what it tests was renamed", reads+test("matcher_order", order)+writes, reads+test("pattern_order", with(order, "Matcher", "Pattern"))+writes, "edited test_pattern_order"),
		pyCase("the most similar one is it", reads+test("parse_a", "    assert parse('a', 1) == 'x'\n    assert parse('b', 1) == 'z'\n    assert done()")+test("parse_b", "    assert parse('a', 2) == 'y'\n    assert parse('b', 2) == 'z'"),
			reads+test("new_a", "    assert parse('a', 2) == 'y'\n    assert parse('b', 2) == 'z'\n    assert last()"), "deleted test_parse_a", "edited test_new_a"),
	})
}
