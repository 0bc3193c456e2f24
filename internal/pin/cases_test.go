package pin_test

import (
	"fmt"
	"strings"
	"testing"
)

func TestReplacedCasesOfATableAreLostAndEditedOnesAreNot(t *testing.T) {
	t.Parallel()
	table := func(rows ...string) string {
		return "VERSIONS = [\n    " + strings.Join(rows, ",\n    ") + ",\n]\n\n\n@pytest.mark.parametrize(\"version\", VERSIONS)\ndef test_parses(version):\n    assert parse(version)\n"
	}
	before := table(`"1.0"`, `"1.1"`, `"1.0a12"`, `"1.2+abc"`)
	pairs := table(`("1.0", "1")`, `("1.0.dev6", "1.dev6")`, `("1.1", "1.1")`, `("1.2", "1.2")`, `("1.3", "1.3")`)
	try(t, []example{
		pyCase("replaced", before, table(`"1.0"`, `"1.1"`, `"1.0a0"`, `"1.0b0"`, `"1.2+abc"`), "weakened test_parses"),
		pyCase("more of them", before, table(`"0.9"`, `"1.0"`, `"1.1"`, `"1.0a12"`, `"1.2+abc"`), "edited test_parses"),
		pyCase("with other results", pairs, with(pairs, `"1")`, `"1.0")`, `"1.dev6"`, `"1.0.dev6"`), "edited test_parses"),
		pyCase("with another input and result", pairs, with(pairs, `("1.1", "1.1")`, `("2.1", "2.1")`), "weakened test_parses"),
		pyCase("all rewritten", before, table(`("1.0", 1)`, `("1.1", 1)`, `("1.0a12", 1)`, `("1.2+abc", 1)`), "edited test_parses"),
	})
}

func TestCasesThatMoveToAnotherTableMayChangeALittle(t *testing.T) {
	t.Parallel()
	table := func(name string, rows ...string) string {
		return fmt.Sprintf("func Test%s(t *testing.T) {\n\tfor _, c := range []testCase{%s} {\n\t\tc.run(t)\n\t}\n}\n", name, "{\""+strings.Join(rows, "}, {\"")+"}")
	}
	const a, b = `file", func(w *W) { touch("a"); w.Add("a") }, "write /a"`, `dir", func(w *W) { mkdir("d"); w.Add("d") }, "create /d"`
	const link = `link", func(w *W) { if !links() { t.Skip("none") }; touch("f"); link("f", "l"); w.Add("l"); cat("f") }, "write /l"`
	shorter := strings.Replace(link, `if !links() { t.Skip("none") }; `, "", 1)
	before := goFile(table("Watch", a, b, link) + table("Links", b))
	after := func(watch, links []string) string {
		return goFile(table("Watch", watch...) + table("Links", links...))
	}
	skipped := func(test string) string {
		return strings.Replace(test, "TestLinks(t *testing.T) {\n", "TestLinks(t *testing.T) {\n\tt.Skip()\n", 1)
	}
	try(t, []example{
		one("moved to a test that is skipped", "watch_test.go", skipped(before), skipped(after([]string{a, b}, []string{b, shorter})), "weakened TestWatch", "edited TestLinks"),
		one("moved", "watch_test.go", before, after([]string{a, b}, []string{b, shorter}), "edited TestWatch", "edited TestLinks"),
		one("another one is new there", "watch_test.go", before, after([]string{a, b}, []string{b, `loop", func(w *W) { loop(3); w.Remove("z") }, "none"`}), "weakened TestWatch", "edited TestLinks"),
	})
}

func TestTestsThatBecomeCasesOfOneAreNotLost(t *testing.T) {
	t.Parallel()
	test := func(name, field string) string {
		return "\ndef test_empty_" + name + "():\n    field = fields." + field + "()\n    with pytest.raises(UnmarshallingError):\n        field.deserialize(None)\n"
	}
	merged := func(check string, fields ...string) string {
		return "\n@pytest.mark.parametrize('kind', [fields." + strings.Join(fields, "(), fields.") + "()])\ndef test_none_is_an_error(kind):\n    with pytest.raises(UnmarshallingError) as e:\n        kind.deserialize(None)\n" + check
	}
	before := test("date", "Date") + test("time", "Time")
	const check = "    assert 'not' in str(e)\n"
	try(t, []example{
		pyCase("all", before, merged(check, "Date", "Time")),
		pyCase("all but one", before, merged(check, "Date", "Number"), "deleted test_empty_time"),
		pyCase("the one for all is skipped", before, "\n@pytest.mark.skip"+merged(check, "Date", "Time"), "deleted test_empty_date", "deleted test_empty_time"),
		pyCase("the one for all does something else", before, with(merged(check, "Date", "Time"), "kind.deserialize(None)", "kind.serialize(1, 'a')", "UnmarshallingError", "ValueError"), "deleted test_empty_date", "deleted test_empty_time"),
	})
}

func TestSkippingANewCaseTakesNothingAway(t *testing.T) {
	t.Parallel()
	table := func(rows, skip string) string {
		return goFile("func TestAdd(t *testing.T) {\n\tfor _, c := range []testCase{\n" + rows + "} {\n\t\tt.Run(c.name, func(t *testing.T) {\n" + skip + "\t\t\trequire.Equal(t, c.want, Add(c.a, c.b))\n\t\t})\n\t}\n}\n")
	}
	const one1, two = "{name: \"small\", a: 1, b: 2, want: 3},\n", "{name: \"large\", a: 1 << 40, b: 2, want: 1<<40 + 2},\n"
	const skip = "\t\t\tif c.skip != \"\" {\n\t\t\t\tt.Skip(c.skip)\n\t\t\t}\n"
	later := with(two, "name:", "skip: \"overflows\", name:")
	const old, inNew = "{\"a\", func(t *testing.T) { require.True(t, A()) }},\n", "{\"b\", func(t *testing.T) {\nif darwin {\nt.Skip()\n}\nrequire.False(t, B())\n}},\n"
	inOld := with(old, "{ require", "{\nif darwin {\nt.Skip()\n}\nrequire")
	try(t, []example{
		one("a field of it says so", "add_test.go", table(one1, ""), table(one1+later, skip), "edited TestAdd"),
		one("a field of an old one says so", "add_test.go", table(one1+two, ""), table(one1+later, skip), "skipped TestAdd"),
		one("another condition", "add_test.go", table(one1, ""), table(one1+later, with(skip, "c.skip != \"\"", "slow")), "skipped TestAdd"),
		one("it skips itself", "add_test.go", table(old, ""), table(old+inNew, ""), "edited TestAdd"),
		one("an old one skips itself", "add_test.go", table(old, ""), table(inOld, ""), "skipped TestAdd"),
	})
}
