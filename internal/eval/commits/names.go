package commits

import (
	"path"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/rocketgpt/orchestrator/contract"
)

// Test is a test that a commit added or changed, with its name in the source.
type Test struct {
	File string `json:"file"`
	Name string `json:"name"`
}

// declarations are patterns of test declarations, by file extension. Each matches one line, and its
// first group is the name. They suffice for most projects; tests that they miss are ignored.
var declarations = map[string]*regexp.Regexp{
	".go":   regexp.MustCompile(`^func (Test[A-Za-z0-9_]*|Fuzz[A-Z][A-Za-z0-9_]*|Example[A-Za-z0-9_]*)\(`),
	".py":   regexp.MustCompile(`^\s*(?:async )?def (test[A-Za-z0-9_]*)\(`),
	".rs":   regexp.MustCompile(`^\s*(?:pub )?(?:async )?fn ([a-z_][A-Za-z0-9_]*)\(\s*\)`),
	".java": regexp.MustCompile(`^\s*(?:public |final )*void ([A-Za-z_][A-Za-z0-9_]*)\(`),
	".js":   regexp.MustCompile("^\\s*(?:it|test)\\(\\s*(?:'([^'\\\\]+)'|\"([^\"\\\\]+)\"|`([^`$\\\\]+)`)"),
}

// annotated has the file extensions for which an annotation before a declaration marks a test, and
// the text of the annotation.
var annotated = map[string]string{".rs": "test]", ".java": "@Test"}

// annotationLines is the number of lines before a declaration that may contain its annotation.
const annotationLines = 4

// maxTestLine is the maximum length of a line that declares a test; minified files have longer
// lines.
const maxTestLine = 1000

// declarationOf returns the pattern of a file's test declarations, and the annotation.
func declarationOf(file string) (*regexp.Regexp, string) {
	ending := path.Ext(file)
	switch ending {
	case ".jsx", ".ts", ".tsx", ".mjs", ".cjs", ".mts", ".cts":
		ending = ".js"
	}
	return declarations[ending], annotated[ending]
}

// testsOf returns the tests of a file that a commit added or changed: tests with an added or
// removed line between their declaration and the next one.
func testsOf(v versions) []Test {
	declaration, mark := declarationOf(v.path)
	if declaration == nil || v.deleted() || !IsTest(v.path) && mark == "" {
		return nil
	}
	lines := linesOf(v.after)
	var tests []Test
	begins := []int{}
	for i, line := range lines {
		m := declaration.FindStringSubmatch(line[:min(len(line), maxTestLine)])
		if m == nil || mark != "" && !strings.Contains(strings.Join(lines[max(0, i-annotationLines):i], ""), mark) {
			continue
		}
		tests, begins = append(tests, Test{v.path, strings.TrimSpace(strings.Join(m[1:], ""))}), append(begins, i)
	}
	var touched []Test
	for i, t := range tests {
		end := len(lines)
		if i+1 < len(tests) {
			end = begins[i+1]
		}
		for end > begins[i]+1 && strings.TrimSpace(lines[end-1]) == "" {
			end-- // text between two tests belongs to neither
		}
		if v.added() || slices.ContainsFunc(v.hunks, func(h hunk) bool { return touches(h, begins[i], end) }) {
			touched = append(touched, t)
		}
	}
	return touched
}

// touches reports whether a hunk adds a line of new[from:to], or removes a line within it.
func touches(h hunk, from, to int) bool {
	if h.newFrom == h.newTo {
		return h.newFrom > from && h.newFrom < to
	}
	return h.newFrom < to && h.newTo > from
}

// OwnTests has the results of the tests that a commit added or changed.
type OwnTests struct {
	Passed  []Test `json:"passed,omitempty"`
	Failed  []Test `json:"failed,omitempty"`  // a case of it failed
	Skipped []Test `json:"skipped,omitempty"` // at least one case was skipped, and none passed
	Missing []Test `json:"missing,omitempty"` // no case has its name
	Unnamed bool   `json:"unnamed,omitempty"` // the checks do not report test names, so the results are unknown
}

// OwnTestsOf looks up the tests of a commit in the reported cases.
func OwnTestsOf(tests []Test, cases []contract.TestCase) OwnTests {
	if len(cases) == 0 {
		return OwnTests{Unnamed: true}
	}
	var own OwnTests
	for _, t := range tests {
		found := map[contract.TestStatus]bool{}
		for _, c := range cases {
			if names(c.Name, t.Name) {
				found[c.Status] = true
			}
		}
		switch {
		case found[contract.TestFailed]:
			own.Failed = append(own.Failed, t)
		case found[contract.TestPassed] || found[contract.TestFlaky]:
			own.Passed = append(own.Passed, t)
		case found[contract.TestSkipped]:
			own.Skipped = append(own.Skipped, t)
		default:
			own.Missing = append(own.Missing, t)
		}
	}
	return own
}

// names reports whether the name of a case contains the name of a test as a whole word. Examples of
// reported names: package/TestA/sub, file::test_a[1], module::tests::a, group > title.
func names(reported, test string) bool {
	for from := 0; ; {
		at := strings.Index(reported[from:], test)
		if at < 0 {
			return false
		}
		at += from
		before, _ := utf8.DecodeLastRuneInString(reported[:at])
		after, _ := utf8.DecodeRuneInString(reported[at+len(test):])
		if !inWord(before) && !inWord(after) {
			return true
		}
		from = at + 1
	}
}

func inWord(r rune) bool {
	return r != utf8.RuneError && (r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r))
}
