package pin_test

import (
	"strings"
	"testing"
)

func TestChecksThatReplaceOthersAreNoLoss(t *testing.T) {
	t.Parallel()
	before := goFile(`
func TestLogin(t *testing.T) {
	page := Login("ada")
	require.NotNil(t, page)
	require.Equal(t, "Hello", page.Title)
	require.Equal(t, "ada", page.User)
	require.Equal(t, 200, page.Status)
}`)
	const parts = "\trequire.NotNil(t, page)\n\trequire.Equal(t, \"Hello\", page.Title)\n\trequire.Equal(t, \"ada\", page.User)\n"
	try(t, []example{
		one("one of the whole takes the place of two of parts", "login_test.go", before,
			with(before, parts, "\trequire.Equal(t, Page{\"Hello\", \"ada\"}, page)\n"), "edited TestLogin"),
		one("one takes the place of three", "login_test.go", before,
			with(before, parts, "", "require.Equal(t, 200, page.Status)", "require.Less(t, page.Status, 400)"), "weakened TestLogin"),
		one("the expected value of one is edited, and another is gone", "login_test.go", before,
			with(before, "\"Hello\"", "\"Welcome\"", "\trequire.Equal(t, \"ada\", page.User)\n", ""), "weakened TestLogin"),
		one("one that nearly always holds takes the place of another", "login_test.go", before,
			with(before, parts, "\trequire.NotEmpty(t, page)\n"), "weakened TestLogin"),
		one("one takes the place of one in a loop", "login_test.go",
			goFile("func TestA(t *testing.T) {\n\tfor _, n := range []int{1, 2, 3} {\n\t\trequire.True(t, Positive(n))\n\t}\n}"),
			goFile("func TestA(t *testing.T) {\n\tfor _, n := range []int{1, 2, 3} {\n\t\tPositive(n)\n\t}\n\trequire.True(t, Positive(1))\n}"), "weakened TestA"),
	})
}

func TestACheckThatNamesTheErrorTakesThePlaceOfOneOfItsText(t *testing.T) {
	t.Parallel()
	before := goFile(`
func TestReads(t *testing.T) {
	_, err := Read("a")
	require.Error(t, err)
	require.Contains(t, err.Error(), "no such file")
	require.Equal(t, 1, Tries())
}`)
	const two = "\trequire.Error(t, err)\n\trequire.Contains(t, err.Error(), \"no such file\")\n"
	table := goFile(`
func TestReads(t *testing.T) {
	for _, c := range []struct{ name, err string }{{"a", ""}, {"b", "no such file"}, {"c", "no such file"}} {
		t.Run(c.name, func(t *testing.T) {
			_, err := Read(c.name)
			if c.err != "" {
				require.Error(t, err)
				require.Contains(t, err.Error(), c.err)
				return
			}
			require.NoError(t, err)
		})
	}
}`)
	const py = "def test_reads():\n    with pytest.raises(OSError) as e:\n        read('a')\n    assert 'no such' in str(e.value)\n    assert tries() == 1\n"
	const text = "    assert 'no such' in str(e.value)\n"
	try(t, []example{
		one("its text", "read_test.go", before, with(before, two, "\trequire.ErrorContains(t, err, \"no such file\")\n"), "edited TestReads"),
		one("its kind", "read_test.go", before, with(before, two, "\trequire.ErrorIs(t, err, os.ErrNotExist)\n"), "edited TestReads"),
		one("in a table", "read_test.go", table, with(table,
			"\t\t\t\trequire.Error(t, err)\n\t\t\t\trequire.Contains(t, err.Error(), c.err)\n", "\t\t\t\trequire.ErrorContains(t, err, c.err)\n"), "edited TestReads"),
		one("in a table, which loses another check", "read_test.go", table, with(table,
			"\t\t\t\trequire.Error(t, err)\n\t\t\t\trequire.Contains(t, err.Error(), c.err)\n", "\t\t\t\trequire.ErrorContains(t, err, c.err)\n",
			"\t\t\trequire.NoError(t, err)\n", ""), "weakened TestReads"),
		one("any text", "read_test.go", before, with(before, two, "\trequire.ErrorContains(t, err, \"\")\n"), "weakened TestReads"),
		one("its text, and another check is gone", "read_test.go", before,
			with(before, two, "\trequire.ErrorContains(t, err, \"no such file\")\n", "\trequire.Equal(t, 1, Tries())\n", ""), "weakened TestReads"),
		pyCase("python: its text", py, with(py, "raises(OSError) as e", "raises(OSError, match='no such')", text, ""), "edited test_reads"),
		pyCase("python: any text", py, with(py, "raises(OSError) as e", "raises(OSError, match='')", text, ""), "weakened test_reads"),
	})
}

func TestConflictMarkersAreNoCode(t *testing.T) {
	t.Parallel()
	const ours, theirs = "    assert_eq!(add(1, 2), 3);\n", "    assert_eq!(add(2, 1), 3);\n"
	const head, tail = "#[test]\nfn adds() {\n", "}\n"
	conflict := head + "<<<<<<< HEAD\n" + ours + "=======\n" + theirs + ">>>>>>> origin/main\n" + tail
	try(t, []example{
		one("resolved", "tests/add.rs", conflict, head+ours+tail, "edited"),
		one("left", "tests/add.rs", head+ours+tail, conflict, "weakened"),
		one("in a text", "tests/merge.rs", head+"    merge(r\"\n<<<<<<< HEAD\n\");\n"+ours+tail, head+"    merge(r\"\n<<<<<<< HEAD\n\");\n"+tail, "emptied adds"),
	})
}

func TestATestThatDoesNotRunHasNothingToLose(t *testing.T) {
	t.Parallel()
	before := with(javaPlain, "@Test", "@Disabled\n    @Test")
	weaker := with(before, `        assertEquals("Hello", page.title());`, "")
	const fails = "#[test]\n#[should_panic]\nfn divides() {\n    assert_eq!(div(1, 0), 0);\n    assert_eq!(div(2, 0), 0);\n}\n"
	try(t, []example{
		one("disabled", "src/test/java/LoginTest.java", before, weaker, "edited LoginTest.greets"),
		one("expected to panic", "tests/div.rs", fails, with(fails, "    assert_eq!(div(2, 0), 0);\n", ""), "weakened divides"),
	})
}

func TestChecksThatMoveFromAHelperToATestAreNoLoss(t *testing.T) {
	t.Parallel()
	before := goFile(`
func (s *S) TearDownTest() { s.Contains(s.names, "first") }

func TestRun(t *testing.T) { suite.Run(t, new(S)); require.True(t, ran()) }`)
	gone := with(before, `s.Contains(s.names, "first")`, `s.names = append(s.names, s.T().Name())`)
	try(t, []example{
		one("moved", "suite_test.go", before, with(gone, "require.True", "require.Equal(t, s.names, []string{\"first\"}); require.True"), "edited", "edited TestRun"),
		one("gone", "suite_test.go", before, gone, "weakened"),
	})
}

func TestALoopWithFewerIterationsChecksLess(t *testing.T) {
	t.Parallel()
	rust := func(body string) string { return "#[test]\nfn counts() {\n" + body + "}\n" }
	const rustLoop = "    for n in 0..=10 {\n        for k in 0..=10 {\n            assert_eq!(count(n, k), binomial(n, k));\n        }\n    }\n"
	const pyLoop = "def test_counts():\n    for n in range(1, 10):\n        assert count(n) == n\n"
	const javaLoop = "        for (int i = 0; i < 10; i++) { assertEquals(i, count(i)); }\n"
	java := func(loop string) string { return with(javaPlain, "        var page", loop+"        var page") }
	goLoop := goFile("func TestCount(t *testing.T) {\n\tfor i := 0; i < 10; i++ {\n\t\trequire.Equal(t, i, Count(i))\n\t}\n}")
	const jsLoop = "test('counts', () => { for (let i = 0; i < 10; i++) { expect(count(i)).toBe(i) } })\n"
	try(t, []example{
		one("rust", "tests/count.rs", rust(rustLoop), rust(with(rustLoop, "10", "4")), "weakened counts"),
		one("rust: more", "tests/count.rs", rust(rustLoop), rust(with(rustLoop, "10", "20")), "edited counts"),
		one("rust: one fewer, one more", "tests/count.rs", rust(rustLoop), rust(with(rustLoop, "n in 0..=10", "n in 0..=4", "k in 0..=10", "k in 0..=20")), "edited counts"),
		one("rust: with a function that checks", "tests/count.rs", rust("    for n in 0..10 { is_even(2 * n) }\n")+"fn is_even(n: u8) { assert_eq!(n % 2, 0); }\n", rust("    for n in 0..5 { is_even(2 * n) }\n")+"fn is_even(n: u8) { assert_eq!(n % 2, 0); }\n", "weakened counts"),
		one("rust: without checks", "tests/count.rs", rust("    for n in 0..10 { push(&mut v, n) }\n    assert_eq!(v.len(), 10);\n"), rust("    for n in 0..9 { push(&mut v, n) }\n    assert_eq!(v.len(), 9);\n"), "edited counts"),
		pyCase("python", pyLoop, with(pyLoop, "10", "3"), "weakened test_counts"),
		one("java", "src/test/java/LoginTest.java", java(javaLoop), java(with(javaLoop, "10", "3")), "weakened LoginTest.greets"),
		one("go", "count_test.go", goLoop, with(goLoop, "10", "3"), "weakened TestCount"),
		one("go: by range", "count_test.go", with(goLoop, "i := 0; i < 10; i++", "i := range 10"), with(goLoop, "i := 0; i < 10; i++", "i := range 5"), "weakened TestCount"),
		one("js", "test/count.js", jsLoop, with(jsLoop, "10", "3"), "weakened counts"),
	})
}

func TestAStringThatIsComparedInAnotherFormIsStillCompared(t *testing.T) {
	t.Parallel()
	const rust = `#[test]
fn drain() {
    let (name, values) = iter.next().unwrap();
    assert_eq!(name.as_str(), "hello");
    let values: Vec<_> = values.collect();
    assert_eq!(values.len(), 2);
    assert_eq!(values[0], "world");
    assert_eq!(values[1], "world2");
    let (name, values) = iter.next().unwrap();
    assert_eq!(name.as_str(), "zomg");
    let values: Vec<_> = values.collect();
    assert_eq!(values.len(), 1);
    assert_eq!(values[0], "bar");
}
`
	is := func(checks ...string) string {
		return "#[test]\nfn drain() {\n    let (name, value) = iter.next().unwrap();\n    assert_eq!(name.unwrap().as_str(), \"hello\");\n    assert_eq!(" + strings.Join(checks, ");\n    assert_eq!(") + ");\n}\n"
	}
	const world, world2, zomg, bar = `value, "world"`, `iter.next().unwrap().1, "world2"`, `iter.next().unwrap().0.unwrap().as_str(), "zomg"`, `value, "bar"`
	py := "def test_finds():\n    check(find('http://a/draft-03'), Draft3)\n    check(find('http://a/draft-03#'), Draft3)\n    check(find('http://a/draft-04'), Draft4)\n    assert find('x') is None\n\n\ndef check(a, b):\n    assert a is b\n"
	fewer := py[strings.Index(py, "\n\n\ndef check"):]
	split := func(tests string) string {
		return "def test_finds():\n    assert find('x') is None\n\n\n" + tests + fewer
	}
	const draft3, draft4 = "def test_draft_3():\n    assert find('http://a/draft-03') is Draft3\n    assert find('http://a/draft-03#') is Draft3\n", "\n\ndef test_draft_4():\n    assert find('http://a/draft-04') is Draft4\n"
	try(t, []example{
		one("without lengths", "tests/header_map.rs", rust, is(world, world2, zomg, bar), "edited drain"),
		one("without a string", "tests/header_map.rs", rust, is(world, zomg, bar), "weakened drain"),
		one("only the lengths are not checked", "tests/header_map.rs", rust, with(rust, "    assert_eq!(values.len(), 2);\n", "", "    assert_eq!(values.len(), 1);\n", ""), "weakened drain"),
		pyCase("in two new tests", py, split(draft3+draft4), "edited test_finds"),
		pyCase("in one new test and not in another", py, split(draft3), "weakened test_finds"),
		pyCase("in a new test that is skipped", py, split(draft3+with(draft4, "def", "@pytest.mark.skip\ndef")), "weakened test_finds"),
		pyCase("with fewer checks", py, split(with(draft3, "    assert find('http://a/draft-03#') is Draft3\n", "    find('http://a/draft-03#')\n")+draft4), "weakened test_finds"),
	})
}

func TestATestMayBecomeSeveral(t *testing.T) {
	t.Parallel()
	const js = `it('Trim', async () => {
  let res = await app.request('/a')
  let status = res.status
  expect(status).toBe(200)

  res = await app.request('/a/')
  status = res.status
  expect(status).toBe(301)
  expect(new URL(res.headers.get('location')).pathname).toBe('/a')
})
`
	const first = `  it('keeps a path', async () => {
    const { status } = await app.request('/a')
    expect(status).toBe(200)
  })
`
	const second = `  it('redirects', async () => {
    const res = await app.request('/a/')
    const status = res.status
    expect(status).toBe(301)
    expect(new URL(res.headers.get('location')).pathname).toBe('/a')
  })
`
	group := func(tests ...string) string {
		return "describe('trailing slashes', () => {\n" + strings.Join(tests, "\n") + "})\n"
	}
	try(t, []example{
		jsCase("with all checks", js, group(first, second)),
		jsCase("without one check", js, group(with(first, "    expect(status).toBe(200)\n", ""), second), "deleted Trim"),
		jsCase("one of them is skipped", js, group(with(first, "it(", "it.skip("), second), "deleted Trim"),
		jsCase("it keeps its name", js, with(js, "  expect(status).toBe(301)\n", "")+second, "weakened Trim"),
	})
}

func TestBenchmarksThatBecomeOneWithSubbenchmarksAreNoLoss(t *testing.T) {
	t.Parallel()
	const body = "\tx, y := generate(n, 0.05)\n\tb.SetBytes(int64(len(x) + len(y)))\n\tfor i := 0; i < b.N; i++ {\n\t\tCompare(x, y)\n\t}\n"
	before := "\nfunc benchmarkCompare(b *testing.B, n int) {\n" + body + "}\n" +
		"func BenchmarkCompare1K(b *testing.B) { benchmarkCompare(b, 1<<10) }\nfunc BenchmarkCompare4K(b *testing.B) { benchmarkCompare(b, 1<<12) }\n"
	all := "\nfunc BenchmarkCompare(b *testing.B) {\n\tfor n := 1 << 10; n <= 1<<12; n <<= 2 {\n\t\tb.Run(fmt.Sprint(n), func(b *testing.B) {\n" + body + "\t\t})\n\t}\n}\n"
	gone := []string{"deleted BenchmarkCompare1K", "deleted BenchmarkCompare4K"}
	try(t, []example{
		goCase("for all values", before, all),
		goCase("for one value", before, with(all, "for n := 1 << 10; n <= 1<<12; n <<= 2 {", "for n := range sizes {"), gone...),
		goCase("of something else", before, with(all, body, "\t\t\tSort(n)\n"), gone...),
		goCase("under another name", before, with(all, "BenchmarkCompare", "BenchmarkOthers"), gone...),
		goCase("with checks", with(before, "Compare(x, y)", "require.True(b, Compare(x, y))"), all, gone...),
	})
}
