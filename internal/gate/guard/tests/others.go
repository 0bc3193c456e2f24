package tests

import (
	"cmp"
	"fmt"
	"path"
	"regexp"
	"strings"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/gate/change"
	"github.com/rocketgpt/orchestrator/internal/pin"
)

// other is a language that package pin does not read. Its tests are recognized by their lines, so that
// only what is plain in them is found: tests that are gone, skipped, or check much less.
type other struct {
	file   *regexp.Regexp // paths of files with tests
	begins *regexp.Regexp // the line with which a test begins; the last group that matches is its name
	skips  *regexp.Regexp // a line that skips a test
	checks *regexp.Regexp // a line that checks something
}

// maxOther is the number of bytes of a file that are read.
const maxOther = 512 << 10

// others are the languages by the endings of files.
var others = map[string]other{
	".rb": {
		file:   regexp.MustCompile(`_(?:spec|test)\.rb$|(?:^|/)test_\w+\.rb$`),
		begins: regexp.MustCompile(`(?m)^[ \t]*x?(?:it|specify|example|scenario|test)\b[ \t(]*(?:"([^"\n]*)"|'([^'\n]*)'|(\{|do\b))|^[ \t]*def[ \t]+(test_\w+)`),
		skips:  regexp.MustCompile(`(?m)^[ \t]*(?:xit|xspecify|xexample|xscenario|xdescribe|xcontext)\b|^[ \t]*(?:skip|pending)\b(?:[ \t(]*["'][^\n"']*["']\)?)?[ \t]*$`),
		checks: regexp.MustCompile(`\b(?:expect|assert\w*|refute\w*|(?:must|wont)_\w+|should(?:_not)?|is_expected)\b`),
	},
	".php": {
		file:   regexp.MustCompile(`Test\.php$`),
		begins: regexp.MustCompile(`(?m)^[ \t]*(?:public[ \t]+)?function[ \t]+(test\w+)[ \t]*\(|^[ \t]*(?:it|test)\([ \t]*(?:"([^"\n]*)"|'([^'\n]*)')`),
		skips:  regexp.MustCompile(`(?m)^[ \t]*\$this->markTest(?:Skipped|Incomplete)\([^\n]*\);[ \t]*$`),
		checks: regexp.MustCompile(`(?:->|::)assert\w+\(|\bexpect\(|->(?:expect\w+|should\w+)\(`),
	},
	".cs": {
		file:   regexp.MustCompile(`Tests?\.cs$|Specs?\.cs$|[./]Tests?/[^\n]*\.cs$`),
		begins: regexp.MustCompile(`(?m)^[ \t]*\[(?:Fact|Theory|Test|TestMethod|TestCase)\b[^\n]*\](?:[ \t\r]*\n[ \t]*\[[^\n]*\])*[ \t\r]*\n?[ \t]*public[^\n(]*?(\w+)[ \t]*(?:<[^\n>]*>)?\(`),
		skips:  regexp.MustCompile(`(?m)^[ \t]*\[(?:Fact|Theory)\([^\n]*\bSkip[ \t]*=|^[ \t]*\[(?:Ignore|Explicit)\b`),
		checks: regexp.MustCompile(`\bAssert\.|\.Should\w*\(|\.Verify\w*\(|\bExpect\(|\bThrows\w*\(`),
	},
	".exs": {
		file:   regexp.MustCompile(`_test\.exs$`),
		begins: regexp.MustCompile(`(?m)^[ \t]*test[ \t]+"([^"\n]*)"`),
		skips:  regexp.MustCompile(`(?m)^[ \t]*@(?:module)?tag[ \t]+(?::skip|skip:)`),
		checks: regexp.MustCompile(`\b(?:assert|refute)\w*\b`),
	},
	".cpp": cxx, ".cc": cxx, ".cxx": cxx,
}

var cxx = other{
	file:   regexp.MustCompile(`(?i)(?:^|/)tests?/|tests?\.(?:cpp|cc|cxx)$`),
	begins: regexp.MustCompile(`(?m)^[ \t]*(?:TEST(?:_F|_P|_CASE|_CASE_METHOD)?|SCENARIO|BOOST_AUTO_TEST_CASE)[ \t]*\(([^\n{;]*)\)`),
	skips:  regexp.MustCompile(`(?m)^[ \t]*GTEST_SKIP\(\)[^\n]*;|^[ \t]*TEST\w*[ \t]*\([^\n]*\bDISABLED_`),
	checks: regexp.MustCompile(`\b(?:EXPECT|ASSERT|REQUIRE|CHECK)\w*[ \t]*\(`),
}

// sides are the lines of tests of one version of a file.
type sides struct {
	names         []string
	skips, checks int
}

func (o other) read(v change.Version) (s sides) {
	if !v.Regular() || v.Binary() {
		return s
	}
	content := v.Content[:min(len(v.Content), maxOther)]
	for _, m := range o.begins.FindAllSubmatch(content, -1) {
		name := ""
		for _, group := range m[1:] {
			name = cmp.Or(string(group), name)
		}
		s.names = append(s.names, name)
	}
	s.skips, s.checks = len(o.skips.FindAllIndex(content, -1)), len(o.checks.FindAllIndex(content, -1))
	return s
}

// ofOthers finds what happens to the tests in languages that package pin does not read.
func ofOthers(files []change.File, subjects *subjects) (found []change.Finding) {
	added := map[string]int{} // tests that the change adds, by name: they may have moved
	for _, f := range files {
		if o, ok := others[path.Ext(f.Path)]; ok && o.file.MatchString(f.Path) {
			for _, n := range o.read(f.After).names {
				added[n]++
			}
		}
		if o, ok := others[path.Ext(f.OldPath())]; ok && o.file.MatchString(f.OldPath()) {
			for _, n := range o.read(f.Before).names {
				added[n]--
			}
		}
	}
	for _, f := range files {
		o, ok := others[path.Ext(f.OldPath())]
		if !ok || !o.file.MatchString(f.OldPath()) || !f.Before.Regular() || f.Before.Digest == f.After.Digest && o.file.MatchString(f.Path) {
			continue
		}
		before, after := o.read(f.Before), sides{}
		if o.file.MatchString(f.Path) {
			after = o.read(f.After)
		}
		found = append(found, o.compare(f, before, after, added, subjects)...)
	}
	return found
}

// compare compares the tests of a file before and after the change.
func (o other) compare(f change.File, before, after sides, added map[string]int, subjects *subjects) (found []change.Finding) {
	kept := map[string]int{}
	for _, n := range after.names {
		kept[n]++
	}
	var gone []string
	for _, n := range before.names {
		if kept[n]--; kept[n] < 0 && added[n] < 0 {
			gone = append(gone, n)
		}
	}
	name, fewer := change.Clean(f.Path), len(before.names)-len(after.names)
	switch {
	case len(gone) > 0 && fewer > 0:
		severity := contract.SeverityMajor
		if f.Deleted() && subjects.deletedWith(f.Path) {
			severity = contract.SeverityMinor
		}
		found = append(found, finding(string(pin.Deleted), severity, f.Path, 0,
			fmt.Sprintf("%d tests of %s are gone, such as %s; restore them", min(len(gone), fewer), name, change.Clean(strings.TrimSpace(gone[0])))))
	case fewer > 0: // they moved
	case after.skips > before.skips && len(before.names) > 0 && len(after.names) == len(before.names):
		found = append(found, finding(string(pin.Skipped), contract.SeverityMajor, f.Path, o.line(f, o.skips), "a test of "+name+" is skipped; let it run again"))
	case before.checks > 1 && after.checks*2 < before.checks || before.checks == 1 && after.checks == 0:
		found = append(found, finding(string(pin.Weakened), contract.SeverityMajor, f.Path, 0,
			fmt.Sprintf("%s checks less: %d lines check something instead of %d; restore what it checked", name, after.checks, before.checks)))
	}
	return found
}

// line returns the number of the first added line that matches, or 0.
func (o other) line(f change.File, pattern *regexp.Regexp) int {
	for _, l := range f.AddedLines() {
		if pattern.MatchString(l.Text) {
			return l.Number
		}
	}
	return 0
}
