package pin_test

import (
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/pin"
)

// kinds has a path for each way of reading a file, and a text.
var kinds = []change{
	{path: "a_test.go", before: goFile(goPlain + goTable + goSuite)},
	{path: "a.test.tsx", before: jsPlain},
	{path: "b.spec.js", before: jsPlain},
	{path: "test_a.py", before: pyPlain},
	{path: "conftest.py", before: "collect_ignore = ['a']\n"},
	{path: "src/lib.rs", before: rustPlain},
	{path: "src/test/A.java", before: javaPlain},
	{path: "package.json", before: `{"scripts": {"test": "jest"}, "jest": {"testMatch": ["a"]}}`},
	{path: "pyproject.toml", before: "[tool.pytest.ini_options]\naddopts = [\n\"-q\"]\n"},
	{path: "jest.config.js", before: "module.exports = { exclude: [/x/] }"},
	{path: "Makefile", before: "test: a\n\t-go test ./... ; true\n"},
	{path: "rgpt.yaml", before: "verification:\n  custom:\n  - name: a\n    command: b\n"},
	{path: ".github/workflows/a.yml", before: "- run: npm test\n"},
	{path: "pom.xml", before: "<skip>true</skip>"},
	{path: "testdata/a.golden", before: "a"},
}

// fit: the result is limited, informative, and presentable.
func fit(t require.TestingT, problems []pin.Problem) {
	require.LessOrEqual(t, len(problems), pin.MaxProblems+1)
	for _, p := range problems {
		require.NotEmpty(t, p.Message)
		require.Less(t, len(p.Message), 1024)
		require.True(t, utf8.ValidString(p.Message+p.Test))
		require.NotContains(t, p.Message+p.Test, "\x1b")
		require.GreaterOrEqual(t, p.Line, 0)
		require.Equal(t, p.Kind.Forbidden(), p.Severity == contract.SeverityMajor)
	}
}

func FuzzCheck(f *testing.F) {
	for i, k := range kinds {
		f.Add(i, []byte(k.before), []byte(strings.ToUpper(k.before)))
		f.Add(i, []byte(k.before), []byte(k.before[:len(k.before)/2]))
	}
	f.Fuzz(func(t *testing.T, kind int, before, after []byte) {
		path := kinds[(kind%len(kinds)+len(kinds))%len(kinds)].path
		fit(t, checked([]pin.File{{Path: path, Before: before, After: after, Existed: true, Exists: true}}))
		fit(t, checked([]pin.File{{Path: path, Before: before, Existed: true}}))
		fit(t, checked([]pin.File{{Path: path, After: after, Exists: true}}))
		require.Empty(t, checked([]pin.File{{Path: path, Before: before, After: before, Existed: true, Exists: true}}))
	})
}

// pieces are what hostile and honest files are made of.
var pieces = []string{
	"{", "}", "(", ")", "[", "]", "'", "\"", "`", "/", "*", "\\", "\n", "\n    ", "\n\t", " ", "#", "//", "${", "=>", ",", ";", ":",
	"test(", "it.skip(", "describe.only('a',", "expect(", ").toBe(", "if (", "else", "return", "try", "catch", "for (const x of",
	"def test_a():", "class TestA:", "assert x == 1", "@pytest.mark.skip", "with pytest.raises(E):", "except:", "func TestA(t *testing.T) {",
	"t.Run(\"a\", func(t *testing.T) {", "t.Skip()", "require.Equal(t, 1, a)", "#[test]", "fn a()", "mod a", "@Test", "void a()", "r#\"", "\"\"\"", "é", "\x00",
}

func TestNothingThatAFileSaysBreaksTheCheck(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		path := rapid.SampledFrom(kinds).Draw(t, "kind").path
		draw := func(name string) []byte {
			return []byte(strings.Join(rapid.SliceOfN(rapid.SampledFrom(pieces), 0, 60).Draw(t, name), " "))
		}
		before, after := draw("before"), draw("after")
		fit(t, checked([]pin.File{{Path: path, Before: before, After: after, Existed: true, Exists: true}}))
		require.Empty(t, checked([]pin.File{{Path: path, Before: before, After: before, Existed: true, Exists: true}}))
	})
}

func TestAFileThatDidNotChangeHasNoProblem(t *testing.T) {
	t.Parallel()
	files := []pin.File{}
	for _, k := range kinds {
		files = append(files, pin.File{Path: k.path, Before: []byte(k.before), After: []byte(k.before), Existed: true, Exists: true})
	}
	require.Empty(t, checked(files))
	require.Empty(t, checked(nil))
}

func TestANewTestFileHasNoProblem(t *testing.T) {
	t.Parallel()
	for _, k := range kinds[:7] {
		if k.path == "conftest.py" {
			continue
		}
		require.Empty(t, checked([]pin.File{{Path: k.path, After: []byte(k.before), Exists: true}}), k.path)
	}
}

// Each of these would take minutes or end the process if work grew faster than
// the input, or recursion without a bound.
func TestHostileFilesOfTheLargestSizeAreJudged(t *testing.T) {
	t.Parallel()
	full := func(s string) []byte { return []byte(strings.Repeat(s, pin.MaxFileBytes/len(s)-1)) }
	after := func(head, s string) []byte {
		return []byte(head + strings.Repeat(s, (pin.MaxFileBytes-len(head))/len(s)-1))
	}
	head := goFile("func TestA(t *testing.T) {")
	for name, f := range map[string]pin.File{
		"nested blocks":       {Path: "a_test.go", After: after(head, "{")},
		"nested subtests":     {Path: "a_test.go", After: after(head, "t.Run(\"a\", func(t *testing.T) {\n")},
		"many loops":          {Path: "a_test.go", After: after(head+"var l = []int{"+strings.Repeat("1,", 200000)+"}\n", "for range l {}\n")},
		"helpers that double": {Path: "a_test.go", After: []byte(doubling())},
		"nested groups":       {Path: "a.test.js", After: full("describe('a', () => {")},
		"apostrophes":         {Path: "a.test.js", After: full(`\'`)},
		"slashes":             {Path: "a.test.js", After: full("=/")},
		"templates":           {Path: "a.test.js", After: full("`${")},
		"conditions":          {Path: "a.test.js", After: full("if(a)")},
		"arrows":              {Path: "a.test.js", After: full("const a = () => ")},
		"loops over a list":   {Path: "a.test.js", After: after("const l = ["+strings.Repeat("1,", 200000)+"]\n", "for (const x of l) {}\n")},
		"expectations":        {Path: "a.test.js", After: full("expect(a)")},
		"returns":             {Path: "a.test.js", After: full("return ")},
		"tries":               {Path: "a.test.js", After: full("try{")},
		"deep indentation":    {Path: "test_a.py", After: []byte(staircase())},
		"functions in Python": {Path: "test_a.py", After: full("def test_a():\n  pass\n")},
		"names given away":    {Path: "test_a.py", After: full("test_a = 1\n")},
		"modules":             {Path: "src/a.rs", After: full("mod a {")},
		"attributes":          {Path: "src/a.rs", After: full("#[test")},
		"branches":            {Path: "src/a.rs", After: after("#[test] fn a() {", "if a ")},
		"rules":               {Path: "Makefile", After: full("test:\n\tx\n")},
		"needs":               {Path: "Makefile", After: after("test:", " a")},
		"settings":            {Path: "pytest.ini", After: after("[pytest]\naddopts =\n", " a\n")},
		"settings of jest":    {Path: "jest.config.js", After: after("", "exclude: ['a'],")},
		"YAML":                {Path: "rgpt.yaml", After: full("[")},
		"JSON":                {Path: "package.json", After: full("[")},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f.Existed, f.Exists = true, true
			f.Before = f.After
			f.After = append([]byte("\n"), f.After...)
			require.LessOrEqual(t, len(f.After), pin.MaxFileBytes)
			fit(t, checked([]pin.File{f}))
		})
	}
}

// doubling is a chain of helpers that each call the next one twice.
func doubling() string {
	var b strings.Builder
	b.WriteString(goFile("func TestA(t *testing.T) { h0(t) }"))
	for i := range 20000 {
		b.WriteString("func h" + strconv.Itoa(i) + "(t *testing.T) { h" + strconv.Itoa(i+1) + "(t); h" + strconv.Itoa(i+1) + "(t); t.Error(1) }\n")
	}
	return b.String()[:strings.LastIndex(b.String()[:min(b.Len(), pin.MaxFileBytes-10)], "\n")]
}

func staircase() string {
	var b strings.Builder
	for i := 0; b.Len() < pin.MaxFileBytes-2000; i++ {
		b.WriteString(strings.Repeat(" ", min(i, 1400)) + "if a:\n")
	}
	return b.String()
}
