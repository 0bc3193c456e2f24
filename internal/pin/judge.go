package pin

import (
	"bytes"
	"fmt"
	"path"
	"regexp"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/pin/testfile"
)

// judge holds both sides of a change until all of it is known: a test may have moved to
// another file.
type judge struct {
	pairs    []pair
	before   *testfile.Index
	after    *testfile.Index
	problems []Problem
}

// pair is a file in its two versions. A version that is missing, in an unknown
// language, or not a test file has no units.
type pair struct {
	file          File
	before, after *testfile.File
}

func newJudge() *judge { return &judge{before: testfile.NewIndex(), after: testfile.NewIndex()} }

func (j *judge) report(kind Kind, test, file string, line int, format string, args ...any) {
	severity := contract.SeverityMajor
	if kind == Edited {
		severity = contract.SeverityMedium
	}
	j.problems = append(j.problems, Problem{
		Kind: kind, Test: testfile.Clean(test), Path: file, Line: line, Severity: severity, Message: fmt.Sprintf(format, args...),
	})
}

// nameEnd follows the name in the messages of what no longer runs.
var nameEnd = regexp.MustCompile(` (?:is|was) deleted|, which tests compare against, (?:is|was) (?:deleted|moved)| is now | was in | is excluded from `)

// NameIn returns the test or file that the message of a Deleted, RenamedAway or
// Excluded problem begins with, "" if it begins with none.
func NameIn(message string) string {
	if at := nameEnd.FindStringIndex(message); at != nil {
		return message[:at[0]]
	}
	return ""
}

// add adds a file and judges what concerns it alone.
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
	if f.Existed && (runs(f.RenamedFrom) || supports(f.RenamedFrom)) {
		p.before = parse(f.RenamedFrom, f.Before)
	}
	if f.Exists && !isRecorded(f.Path) {
		p.after = parse(f.Path, f.After)
	}
	j.before.Add(p.before)
	j.after.Add(p.after)
	j.pairs = append(j.pairs, p)
}

// parse reads a file by its language.
func parse(p string, data []byte) *testfile.File {
	l := languageOf(p)
	s := &testfile.File{Path: p, Language: l.Name, Scope: l.Name + ":"}
	if l.FolderScope {
		s.Scope += path.Dir(p) + ":"
	}
	if l.Parse != nil {
		l.Parse(s, bytes.TrimPrefix(data, []byte("\xef\xbb\xbf")))
	}
	if !runs(p) {
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
		j.report(Weakened, "", f.Path, 0, "%s has grown to more than %d bytes, too large to determine what it still tests; split it", testfile.Clean(f.Path), MaxFileBytes)
	default:
		j.report(Edited, "", f.Path, 0, "%s was changed; it is too large to compare (more than %d bytes)", testfile.Clean(f.Path), MaxFileBytes)
	}
}

// addRecorded adds a file that tests compare with. Whether its content is now elsewhere
// is known only at the end.
func (j *judge) addRecorded(f File) {
	j.pairs = append(j.pairs, pair{file: f, before: &testfile.File{}, after: &testfile.File{}})
}

func (j *judge) judge() {
	m := newMatcher(j.pairs)
	for _, p := range j.pairs {
		j.judgeFile(p, m)
	}
	m.match()
	for _, p := range j.pairs {
		for _, b := range p.before.Units {
			if b.Test && !m.reported[b] {
				j.judgeTest(p, b, m)
			}
		}
		j.judgeHelpers(p)
	}
}

// judgeFile judges what happens to a file as a whole.
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
	if p.after.Suppresses != "" && p.before.Suppresses == "" {
		j.report(Excluded, "", f.Path, 0, "%s prevents tests from running or failing: %s", testfile.Clean(f.Path), p.after.Suppresses)
	}
	if p.after.Excluded != "" && p.before.Excluded != p.after.Excluded && len(p.before.Tests()) > 0 {
		j.report(Excluded, "", f.Path, 0, "%s is excluded from the test run: %s", testfile.Clean(f.Path), testfile.Clean(p.after.Excluded))
		m.markReported(p.before)
	}
	if p.before.Broken != "" && f.Existed {
		kind, what := Edited, "changed"
		if !f.Exists {
			kind, what = Deleted, "deleted"
		}
		j.report(kind, "", f.Path, 0, "%s is %s; it was not valid code, so what it tested is unknown: %s", testfile.Clean(f.Path), what, testfile.Clean(p.before.Broken))
		return
	}
	if p.after.Broken != "" && len(p.before.Tests()) > 0 {
		j.report(Weakened, "", f.Path, 0, "%s is no longer valid code, so none of its %d tests runs: %s",
			testfile.Clean(f.Path), len(p.before.Tests()), testfile.Clean(p.after.Broken))
		m.markReported(p.before)
	}
}

func (j *judge) judgeRecorded(f File, m *matcher) {
	name := testfile.Clean(f.RenamedFrom)
	switch {
	case !f.Existed:
	case bytes.Equal(f.Before, f.After) && f.Exists:
		if !isRecorded(f.Path) {
			j.report(RenamedAway, "", f.Path, 0, "%s, which tests compare against, was moved to a location where they do not look for it", name)
		}
	case !f.Exists && m.newContents[string(f.Before)]:
	case !f.Exists:
		j.report(Deleted, "", f.Path, 0, "%s, which tests compare against, was deleted", name)
	case len(bytes.TrimSpace(f.After)) == 0 && len(bytes.TrimSpace(f.Before)) > 0:
		j.report(Emptied, "", f.Path, 0, "%s, which tests compare against, is empty", name)
	default:
		j.report(Edited, "", f.Path, 0, "%s was changed: it determines what tests expect", name)
	}
}

// judgeOnly judges tests that keep all others from running.
func (j *judge) judgeOnly(p pair) {
	if len(p.after.Only) <= len(p.before.Only) {
		return
	}
	u := p.after.Only[len(p.before.Only)]
	j.report(Skipped, u.Name, p.file.Path, u.Line, "%s runs alone (only): all other tests are skipped", testfile.Clean(u.Name))
}

// judgeTest judges what happened to one test.
func (j *judge) judgeTest(p pair, b *testfile.Unit, m *matcher) {
	a := m.found[b]
	if a != nil {
		j.compare(b, a, m)
		return
	}
	if b.Parent != nil && b.Parent.Test && m.found[b.Parent] == nil {
		return // reported with the test around it
	}
	name := testfile.Clean(b.Name)
	if away := m.elsewhere(b); away != nil {
		j.report(RenamedAway, b.Name, away.File.Path, away.Line, "%s is now %s in %s, which no test run picks up",
			name, testfile.Clean(away.Name), testfile.Clean(away.File.Path))
		return
	}
	if p.file.Exists && p.file.RenamedFrom != p.file.Path && !runs(p.file.Path) {
		j.report(RenamedAway, b.Name, p.file.Path, 0, "%s was in %s, which is now %s, where no test run looks",
			name, testfile.Clean(p.file.RenamedFrom), testfile.Clean(p.file.Path))
		return
	}
	j.report(Deleted, b.Name, p.before.Path, b.Line, "%s was deleted", name)
}
