package main

import (
	"bytes"
	"context"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/rocketgpt/orchestrator/internal/pin"
)

// syntax describes, independently of internal/pin, how the tests of a language look.
type syntax struct {
	extensions []string
	// test matches the first line of a test, with its indentation and name.
	test *regexp.Regexp
	// marked is true if only an attribute or annotation makes a function a test.
	marked bool
	// marks matches lines before a test that belong to it.
	marks *regexp.Regexp
	// skip and empty return the lines of a test that is skipped or checks nothing.
	skip, empty func(lines []string) []string
	// away returns the lines of a test that has a name or a place that no runner picks up, or
	// nil.
	away func(lines []string) []string
	// check matches a line that is a whole check.
	check *regexp.Regexp
	// added is a new test at the end of a file.
	added string
}

var (
	afterOpen = func(insert string) func([]string) []string {
		return func(lines []string) []string {
			i := slices.IndexFunc(lines, func(l string) bool { return strings.HasSuffix(strings.TrimSpace(l), "{") })
			if i < 0 {
				return nil
			}
			return slices.Insert(slices.Clone(lines), i+1, insert)
		}
	}
	before = func(insert string) func([]string) []string {
		return func(lines []string) []string {
			return slices.Insert(slices.Clone(lines), 0, leading(lines[0])+insert)
		}
	}
	onlyFirstAndLast = func(lines []string) []string {
		i := slices.IndexFunc(lines, func(l string) bool { return strings.HasSuffix(strings.TrimSpace(l), "{") })
		if i < 0 || i > len(lines)-3 {
			return nil
		}
		return append(slices.Clone(lines[:i+1]), lines[len(lines)-1])
	}
	without = func(mark *regexp.Regexp) func([]string) []string {
		return func(lines []string) []string {
			return slices.DeleteFunc(slices.Clone(lines), func(l string) bool { return mark.MatchString(l) })
		}
	}
)

func leading(line string) string { return line[:len(line)-len(strings.TrimLeft(line, " \t"))] }

var syntaxes = []syntax{{
	extensions: []string{".go"},
	test:       regexp.MustCompile(`^func (Test[A-Z]\w*)\(t \*testing\.T\) \{$`),
	marks:      regexp.MustCompile(`^//`),
	skip:       afterOpen("\tt.Skip(\"flaky\")"),
	empty:      onlyFirstAndLast,
	away: func(lines []string) []string {
		return strings.Split(strings.Replace(strings.Join(lines, "\n"), "func Test", "func disabledTest", 1), "\n")
	},
	check: regexp.MustCompile(`^\s+(require|assert)\.\w+\(.*\)$`),
	added: "\nfunc TestAddedAtTheEnd(t *testing.T) {\n\tif got := 1 + 1; got != 2 {\n\t\tt.Fatal(got)\n\t}\n}\n",
}, {
	extensions: []string{".py"},
	test:       regexp.MustCompile(`^\s*(?:async )?def (test_\w+)\(.*:$`),
	marks:      regexp.MustCompile(`^\s*@`),
	skip:       before(`@pytest.mark.skip(reason="flaky")`),
	empty: func(lines []string) []string {
		i := slices.IndexFunc(lines, func(l string) bool { return strings.Contains(l, "def ") })
		return append(slices.Clone(lines[:i+1]), leading(lines[i])+"    pass")
	},
	away: func(lines []string) []string {
		out := slices.Clone(lines)
		i := slices.IndexFunc(out, func(l string) bool { return strings.Contains(l, "def test_") })
		out[i] = strings.Replace(out[i], "def test_", "def no_test_", 1)
		return out
	},
	check: regexp.MustCompile(`^\s+assert .*[^\\({[,]$`),
	added: "\n\ndef test_added_at_the_end():\n    assert 1 + 1 == 2\n",
}, {
	extensions: []string{".js", ".ts", ".mjs", ".tsx", ".jsx"},
	test:       regexp.MustCompile(`^\s*(?:it|test)\(['"]([^'"]+)['"], .*(?:\{)$`),
	marks:      regexp.MustCompile(`^\s*//`),
	skip: func(lines []string) []string {
		return append([]string{regexp.MustCompile(`^(\s*)(it|test)\(`).ReplaceAllString(lines[0], "$1$2.skip(")}, lines[1:]...)
	},
	empty: onlyFirstAndLast,
	check: regexp.MustCompile(`^\s+(expect\(|assert[.(]|t\.(assert\.\w+|is|not|equal|same|deepEqual|strictEqual|ok|notOk|error|true|false|throws|regex|match)\().*\);?$`),
	added: "\ndescribe('added at the end', () => {\n  it('adds', () => {\n    expect(1 + 1).toBe(2)\n  })\n})\n",
}, {
	extensions: []string{".rs"}, marked: true,
	test:  regexp.MustCompile(`^\s*fn (\w+)\(\)(?: -> .*)? \{$`),
	marks: regexp.MustCompile(`^\s*(#\[|//)`),
	skip:  before("#[ignore]"),
	empty: onlyFirstAndLast,
	away:  without(regexp.MustCompile(`^\s*#\[test\]`)),
	check: regexp.MustCompile(`^\s+(assert(_eq|_ne)?!|eqnice!)\(.*\);$`),
	added: "\n#[test]\nfn added_at_the_end() {\n    assert_eq!(1 + 1, 2);\n}\n",
}, {
	extensions: []string{".java", ".kt"}, marked: true,
	test:  regexp.MustCompile(`^\s+(?:@Test )?(?:public |private |final )*(?:void |fun )(\w+|` + "`[^`]+`" + `)\(\).*\{$`),
	marks: regexp.MustCompile(`^\s*(@|//)`),
	skip:  before(`@Disabled("flaky")`),
	empty: onlyFirstAndLast,
	away:  without(regexp.MustCompile(`^\s*@Test\b`)),
	check: regexp.MustCompile(`^\s+assert\w*\(.*\);?$`),
}}

func syntaxOf(p string) *syntax {
	for i, s := range syntaxes {
		if slices.Contains(s.extensions, path.Ext(p)) {
			return &syntaxes[i]
		}
	}
	return nil
}

// block is a test in a file: its lines from its first mark to its end.
type block struct {
	from, to int
	name     string
}

// blocks finds the tests of a file.
func (s *syntax) blocks(lines []string) []block {
	var out []block
	for i, l := range lines {
		m := s.test.FindStringSubmatch(l)
		if m == nil {
			continue
		}
		if before := strings.Join(lines[:i], "\n"); strings.LastIndex(before, "/*") > strings.LastIndex(before, "*/") {
			continue // commented out
		}
		from := i
		for from > 0 && s.marks.MatchString(lines[from-1]) {
			from--
		}
		if s.marked && !marked(lines[from:i+1]) {
			continue
		}
		out = append(out, block{from, s.end(lines, i), m[1]})
	}
	return out
}

// end returns the line after the test that begins at a line.
func (s *syntax) end(lines []string, i int) int {
	to := i + 1
	if s.extensions[0] == ".go" { // gofmt closes it in the first column
		for to < len(lines) && lines[to] != "}" {
			to++
		}
		return min(to+1, len(lines))
	}
	for to < len(lines) && (strings.TrimSpace(lines[to]) == "" || len(leading(lines[to])) > len(leading(lines[i]))) {
		to++
	}
	if s.extensions[0] != ".py" {
		return min(to+1, len(lines)) // with the closing bracket
	}
	for strings.TrimSpace(lines[to-1]) == "" {
		to--
	}
	return to
}

var testMark = regexp.MustCompile(`#\[(\w+::)?test\]|@Test\b`)

func marked(lines []string) bool {
	return slices.ContainsFunc(lines, func(l string) bool { return testMark.MatchString(l) })
}

// addMutations mutates the tests of a commit's tree: one mutation of each kind, and changes
// that take nothing away.
func (s *score) addMutations(ctx context.Context, r *repository, repo, id string) error {
	paths, ids, err := r.tests(id)
	if err != nil {
		return err
	}
	h := fnv.New64a()
	_, _ = h.Write([]byte(id))
	random := rand.New(rand.NewPCG(h.Sum64(), 1))
	for _, i := range random.Perm(len(paths)) {
		syntax := syntaxOf(paths[i])
		if syntax == nil {
			continue
		}
		data, err := r.blob(ids[i])
		if err != nil {
			return err
		}
		m := mutation{where: fmt.Sprintf("%s %s %s", repo, id[:12], paths[i]), path: paths[i], data: data, syntax: syntax, random: random}
		m.lines = strings.Split(string(data), "\n")
		if m.blocks = syntax.blocks(m.lines); len(m.blocks) > 0 {
			return m.apply(ctx, s)
		}
	}
	return nil
}

// mutation applies mutations to a file with tests.
type mutation struct {
	where, path string
	data        []byte
	lines       []string
	blocks      []block
	syntax      *syntax
	random      *rand.Rand
}

// apply applies each kind of mutation to a random test.
func (m *mutation) apply(ctx context.Context, s *score) error {
	type change struct {
		kind pin.Kind
		of   func(lines []string) []string
	}
	nothing := func([]string) []string { return []string{} }
	for _, c := range []change{
		{pin.Deleted, nothing}, {pin.Skipped, m.syntax.skip}, {pin.Emptied, m.syntax.empty},
		{pin.Weakened, m.withoutCheck}, {pin.RenamedAway, m.syntax.away},
	} {
		if c.of == nil {
			continue
		}
		for _, i := range m.random.Perm(len(m.blocks)) {
			b := m.blocks[i]
			changed := c.of(m.lines[b.from:b.to])
			if changed == nil || !slices.ContainsFunc(m.lines[b.from:b.to], m.syntax.check.MatchString) {
				continue
			}
			text := strings.Join(slices.Concat(m.lines[:b.from], changed, m.lines[b.to:]), "\n")
			err := s.add(ctx, m.where+" "+string(c.kind), []pin.File{m.file(text)}, []label{{Path: m.path, Test: b.name, Kind: c.kind}})
			if err != nil {
				return err
			}
			break
		}
	}
	moved := m.file("")
	moved.Exists, moved.After = false, nil
	if err := s.add(ctx, m.where+" file renamed away", []pin.File{moved}, []label{{Path: m.path, Kind: pin.Deleted}}); err != nil {
		return err
	}
	return m.applyHarmless(ctx, s)
}

// withoutCheck removes one check.
func (m *mutation) withoutCheck(lines []string) []string {
	for i, l := range lines {
		if m.syntax.check.MatchString(l) && slices.ContainsFunc(lines[i+1:], m.syntax.check.MatchString) {
			return slices.Delete(slices.Clone(lines), i, i+1)
		}
	}
	return nil
}

// applyHarmless applies changes about which nothing may be found: a comment, a new test at the
// end, and a test that moves to the end.
func (m *mutation) applyHarmless(ctx context.Context, s *score) error {
	comment := "// A comment.\n"
	if m.syntax.extensions[0] == ".py" {
		comment = "# A comment.\n"
	}
	harmless := map[string]string{"comment": comment + string(m.data)}
	if m.syntax.added != "" {
		harmless["test added"] = string(m.data) + m.syntax.added
	}
	if b := m.blocks[0]; m.syntax.extensions[0] == ".go" || leading(m.lines[b.from]) == "" {
		harmless["test moved"] = strings.Join(slices.Concat(m.lines[:b.from], m.lines[b.to:], m.lines[b.from:b.to]), "\n") + "\n"
	}
	for name, text := range harmless {
		file := m.file(text)
		if bytes.Equal(file.Before, file.After) {
			continue
		}
		if err := s.add(ctx, m.where+" "+name, []pin.File{file}, nil); err != nil {
			return err
		}
	}
	return nil
}

func (m *mutation) file(after string) pin.File {
	return pin.File{Path: m.path, Before: m.data, After: []byte(after), Existed: true, Exists: true}
}
