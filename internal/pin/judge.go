package pin

import (
	"bytes"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/pin/buildfiles"
	"github.com/rocketgpt/orchestrator/internal/pin/lexer"
	"github.com/rocketgpt/orchestrator/internal/pin/testfile"
)

// judge collects both sides of a change before judging it, because a test may have moved to another
// file.
type judge struct {
	pairs    []pair
	before   *testfile.Index
	after    *testfile.Index
	problems []Problem
	// someRunners is true if the repository has tests in files in which only some runners look for them.
	someRunners bool
	helpers     map[*testfile.Unit]*testfile.Unit // helpers with a changed body, and what they became
	leaning     map[*testfile.Unit][]loss         // unchanged tests that check less, by the changed helper
}

// pair is the two versions of a file. A version that is missing, in an unknown language, or not a
// test file has no units.
type pair struct {
	file          File
	before, after *testfile.File
}

func newJudge() *judge { return &judge{before: testfile.NewIndex(), after: testfile.NewIndex()} }

// reportTest reports a problem with a test that exists before and after the change.
func (j *judge) reportTest(kind Kind, b, a *testfile.Unit, format string, args ...any) {
	j.report(kind, a.Name, a.File.Path, a.Line, format, args...)
	if b.Name != a.Name {
		p := &j.problems[len(j.problems)-1]
		p.Was = testfile.Clean(b.Name)
		p.Message += "; it was named " + p.Was
	}
}

func (j *judge) report(kind Kind, test, file string, line int, format string, args ...any) {
	severity := contract.SeverityMajor
	if kind == Edited {
		severity = contract.SeverityMedium
	}
	j.problems = append(j.problems, Problem{
		Kind: kind, Test: testfile.Clean(test), Path: file, Line: line, Severity: severity, Message: fmt.Sprintf(format, args...),
	})
}

// nameEnd matches the text after the name in messages about tests that no longer run.
var nameEnd = regexp.MustCompile(` (?:is|was) deleted|, which (?:contains expected test results|tests compare against), (?:is|was) (?:deleted|moved)| is now | was in | is excluded from `)

// NameIn returns the test or file at the beginning of the message of a Deleted, RenamedAway or
// Excluded problem, or "".
func NameIn(message string) string {
	if at := nameEnd.FindStringIndex(message); at != nil {
		return message[:at[0]]
	}
	return ""
}

// add adds a file and judges it as far as possible without other files.
func (j *judge) add(f File) {
	if f.Path == "" || !f.Existed && !f.Exists {
		return
	}
	if len(f.Before) > MaxFileBytes || len(f.After) > MaxFileBytes {
		j.judgeOversize(f)
		return
	}
	if !f.same() {
		j.judgeSettings(f)
	}
	if isRecorded(f.RenamedFrom) {
		j.addRecorded(f)
		return
	}
	p := pair{file: f, before: &testfile.File{Path: f.RenamedFrom}, after: &testfile.File{Path: f.Path}}
	if f.Existed && (j.runs(f.RenamedFrom) || supports(f.RenamedFrom)) {
		p.before = j.parse(f.RenamedFrom, f.Before)
	}
	if f.Exists && !isRecorded(f.Path) {
		p.after = j.parse(f.Path, f.After)
	}
	j.before.Add(p.before)
	j.after.Add(p.after)
	j.pairs = append(j.pairs, p)
}

// runs reports whether the test runner of the repository looks for tests in a file of this path.
func (j *judge) runs(p string) bool { return runs(p) || j.someRunners && mayRun(p) }

// parse reads a file by its language.
func (j *judge) parse(p string, data []byte) *testfile.File {
	l := languageOf(p)
	s := &testfile.File{Path: p, Language: l.Name, Scope: l.Name + ":"}
	if l.FolderScope {
		s.Scope += path.Dir(p) + ":"
	}
	if l.Parse != nil {
		l.Parse(s, bytes.TrimPrefix(data, []byte("\xef\xbb\xbf")))
	}
	if !j.runs(p) {
		for _, u := range s.Units {
			u.Test = false
		}
	}
	s.NumberDuplicates()
	return s
}

// judgeOversize judges a file that is too large to be read.
func (j *judge) judgeOversize(f File) {
	switch {
	case f.same() || !f.Existed || !Watches(f.RenamedFrom):
	case !f.Exists:
		j.report(Deleted, "", f.Path, 0, "%s was deleted; it was too large to examine (more than %d bytes)", testfile.Clean(f.Path), MaxFileBytes)
	case len(f.Before) <= MaxFileBytes:
		j.report(Weakened, "", f.Path, 0, "%s has grown to more than %d bytes and is too large to examine; split it", testfile.Clean(f.Path), MaxFileBytes)
	default:
		j.report(Edited, "", f.Path, 0, "%s was changed; it is too large to compare (more than %d bytes)", testfile.Clean(f.Path), MaxFileBytes)
	}
}

// addRecorded adds a file that tests compare with. Only at the end is it known whether its content
// has moved.
func (j *judge) addRecorded(f File) {
	j.pairs = append(j.pairs, pair{file: f, before: &testfile.File{}, after: &testfile.File{}})
}

// judge judges the change, and returns how the tests of both versions belong together.
func (j *judge) judge() *matcher {
	m := newMatcher(j.pairs)
	for _, p := range j.pairs {
		j.judgeFile(p, m)
	}
	m.match()
	j.recordHelpers()
	for _, p := range j.pairs {
		for _, b := range p.before.Units {
			if b.Test && !m.reported[b] {
				j.judgeTest(p, b, m)
			}
		}
	}
	for _, p := range j.pairs { // after all tests, because they may lean on helpers in other files
		j.judgeHelpers(p, m)
	}
	return m
}

// judgeFile judges changes to a file as a whole.
func (j *judge) judgeFile(p pair, m *matcher) {
	f := p.file
	if f.same() {
		return
	}
	if isRecorded(f.RenamedFrom) {
		j.judgeRecorded(f, m)
		return
	}
	j.judgeOnly(p)
	j.judgeSuites(p)
	if p.after.Suppresses != "" && p.before.Suppresses == "" {
		j.report(Excluded, "", f.Path, 0, "%s prevents tests from running or failing: %s", testfile.Clean(f.Path), p.after.Suppresses)
	}
	if p.after.Excluded != "" && p.before.Excluded != p.after.Excluded && len(p.before.Tests()) > 0 {
		j.report(Excluded, "", f.Path, 0, "%s is excluded from the test run: %s", testfile.Clean(f.Path), testfile.Clean(p.after.Excluded))
		m.markReported(p.before)
	}
	if lost := lostSystems(p.before, p.after); lost != "" && len(p.before.Tests()) > 0 {
		j.report(Excluded, "", f.Path, 0, "%s is excluded from test runs on %s", testfile.Clean(f.Path), lost)
	}
	if p.before.Broken != "" && f.Existed {
		kind, what := Edited, "changed"
		if !f.Exists {
			kind, what = Deleted, "deleted"
		}
		j.report(kind, "", f.Path, 0, "%s was %s; its tests are unknown because it was not valid code: %s", testfile.Clean(f.Path), what, testfile.Clean(p.before.Broken))
		return
	}
	if p.after.Broken != "" && len(p.before.Tests()) > 0 {
		j.report(Weakened, "", f.Path, 0, "%s is no longer valid code, so none of its %d tests can run: %s",
			testfile.Clean(f.Path), len(p.before.Tests()), testfile.Clean(p.after.Broken))
		m.markReported(p.before)
	}
}

// lostSystems returns the operating systems on which the tests of a file no longer run, as words. It
// returns "" for a file that no longer runs at all.
func lostSystems(b, a *testfile.File) string {
	if b.Excluded != "" || a.Excluded != "" || a.Systems == nil {
		return ""
	}
	return strings.Join(slices.DeleteFunc(slices.Clone(b.Systems), func(s string) bool { return slices.Contains(a.Systems, s) }), ", ")
}

func (j *judge) judgeRecorded(f File, m *matcher) {
	name := testfile.Clean(f.RenamedFrom)
	switch {
	case !f.Existed:
	case bytes.Equal(f.Before, f.After) && f.Exists:
		if !isRecorded(f.Path) {
			j.report(RenamedAway, "", f.Path, 0, "%s, which contains expected test results, was moved to a location that tests do not read", name)
		}
	case !f.Exists && m.newContents[string(f.Before)]:
	case !f.Exists:
		j.report(Deleted, "", f.Path, 0, "%s, which contains expected test results, was deleted", name)
	case len(bytes.TrimSpace(f.After)) == 0 && len(bytes.TrimSpace(f.Before)) > 0:
		j.report(Emptied, "", f.Path, 0, "%s, which contains expected test results, is empty", name)
	default:
		j.report(Edited, "", f.Path, 0, "%s, which determines what tests expect, was changed", name)
	}
}

// judgeOnly judges tests that prevent all others from running.
func (j *judge) judgeOnly(p pair) {
	if len(p.after.Only) <= len(p.before.Only) {
		return
	}
	u := p.after.Only[len(p.before.Only)]
	j.report(Skipped, u.Name, p.file.Path, u.Line, "%s is marked to run alone, so all other tests are skipped", testfile.Clean(u.Name))
}

// judgeSuites judges suites with new reasons to skip their tests. If an earlier reason to skip is
// gone, the reasons were probably rewritten, which is reported as an edit.
func (j *judge) judgeSuites(p pair) {
	before := map[string][]lexer.Digest{}
	for _, s := range p.before.Suites {
		before[s.Name] = s.Skips
	}
	for _, s := range p.after.Suites {
		if skips, existed := before[s.Name]; existed && len(s.Skips) > len(skips) && missing(skips, s.Skips) == 0 {
			j.report(Skipped, s.Name, p.file.Path, s.Line, "%s is now skipped in part: it has %d more reasons to skip its tests", testfile.Clean(s.Name), len(s.Skips)-len(skips))
		}
	}
}

// judgeTest judges the change to one test.
func (j *judge) judgeTest(p pair, b *testfile.Unit, m *matcher) {
	a := m.found[b]
	if a != nil {
		j.compare(b, a, m)
		return
	}
	if b.Parent != nil && b.Parent.Test && m.found[b.Parent] == nil {
		return // reported with the enclosing test
	}
	name := testfile.Clean(b.Name)
	if away := m.elsewhere(b); away != nil {
		j.report(RenamedAway, b.Name, away.File.Path, away.Line, "%s is now %s in %s, where no test run picks it up",
			name, testfile.Clean(away.Name), testfile.Clean(away.File.Path))
		return
	}
	if p.file.Exists && p.file.RenamedFrom != p.file.Path && !j.runs(p.file.Path) {
		j.report(RenamedAway, b.Name, p.file.Path, 0, "%s was in %s, which was renamed to %s, so test runs ignore it",
			name, testfile.Clean(p.file.RenamedFrom), testfile.Clean(p.file.Path))
		return
	}
	if m.merged(b) || m.otherBuild(b) || j.becamePart(b, m) {
		return
	}
	j.report(Deleted, b.Name, p.before.Path, b.Line, "%s was deleted", name)
}

// settingsOf returns the rule for the settings in the file at a path, nil for a file
// without such settings. No file matches two rules of different languages.
func settingsOf(p string) func(*buildfiles.Change) {
	rules := slices.Clone(buildfiles.Rules)
	for _, l := range languages {
		rules = append(rules, l.Settings...)
	}
	for _, r := range rules {
		if r.Path.MatchString(p) {
			return r.Judge
		}
	}
	return nil
}

// maxNotices is the maximum number of settings listed for one file.
const maxNotices = 50

// judgeSettings judges a file that determines which tests run.
func (j *judge) judgeSettings(f File) {
	judge := settingsOf(f.Path)
	if judge == nil {
		judge = settingsOf(f.RenamedFrom)
	} else if f.RenamedFrom != f.Path && settingsOf(f.RenamedFrom) == nil {
		f.Before, f.Existed = nil, false
	}
	if judge == nil {
		return
	}
	c := &buildfiles.Change{Before: f.Before, After: f.After, Existed: f.Existed, Exists: f.Exists}
	if f.RenamedFrom != f.Path && settingsOf(f.Path) == nil {
		c.After, c.Exists = nil, false
	}
	judge(c)
	for i, n := range slices.Concat(c.Excluded, c.Edited) {
		kind := Edited
		if i < len(c.Excluded) {
			kind = Excluded
		}
		if i == maxNotices {
			j.report(kind, "", f.Path, 0, "%s: %d more settings are not listed", testfile.Clean(path.Base(f.Path)), len(c.Excluded)+len(c.Edited)-i)
			break
		}
		j.report(kind, "", f.Path, lineOf(f.After, n.Text), "%s: %s", testfile.Clean(path.Base(f.Path)), testfile.Clean(n.Reason))
	}
}

func lineOf(data []byte, at string) int {
	if at == "" {
		return 0
	}
	i := bytes.Index(data, []byte(at))
	if i < 0 {
		return 0
	}
	return bytes.Count(data[:i], []byte("\n")) + 1
}
