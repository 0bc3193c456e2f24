package pin

import (
	"context"
	"path"
	"regexp"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/pin/testfile"
)

// RuleUnproven is the rule of a finding about a new test that does not need the change that added
// it.
const RuleUnproven = "new-tests/unproven"

// Added is a test that a change adds or extends with new cases.
type Added struct {
	// Path and Line are its location.
	Path string
	Line int
	// Name is its name as in [Problem.Test]. It comes from the repository, so it may be long and
	// contain any characters.
	Name string
	// Cases is true for an existing test whose table has new cases.
	Cases bool
	// Suite is true for a method of a Go suite, or a test inside one: it runs below a test whose
	// name is unknown.
	Suite bool
}

// Finding returns the finding that a test did not fail without the change. why
// completes "TestLogin …".
func (a Added) Finding(why string) contract.Finding {
	what := testfile.Clean(a.Name)
	if a.Cases {
		what = "a new case of " + what
	}
	return Problem{
		Path: a.Path, Line: a.Line, Severity: contract.SeverityMedium,
		Message: what + " " + why,
	}.finding(RuleUnproven)
}

// NewTests lists the tests that a change adds, and the tests to whose tables it adds cases: in Go,
// JavaScript, TypeScript and Python, in file order. A test that was moved or renamed with the same
// body is not new, and a test inside a new test is not listed separately.
func NewTests(ctx context.Context, files []File) ([]Added, error) {
	j, err := readFiles(ctx, files)
	if err != nil {
		return nil, err
	}
	m := newMatcher(j.pairs)
	m.match()
	before := make(map[*testfile.Unit]*testfile.Unit, len(m.found))
	for b, a := range m.found {
		before[a] = b
	}
	var out []Added
	for _, p := range j.pairs {
		runsAlone := languageOf(p.after.Path).RunsAlone
		if p.file.same() || p.after.Broken != "" || p.after.Excluded != "" || runsAlone == nil {
			continue
		}
		for _, a := range p.after.Tests() {
			b := before[a]
			isNew := b == nil && !within(a, before)
			grown := b != nil && len(a.Cases) > len(b.Cases) && missing(a.Cases, b.Cases) > 0
			if (isNew || grown) && runsAlone(a) {
				out = append(out, Added{Path: p.file.Path, Line: a.Line, Name: a.Name, Cases: grown, Suite: inSuite(a)})
			}
		}
	}
	return out, nil
}

// within reports whether the test is inside a test that is also new.
func within(u *testfile.Unit, before map[*testfile.Unit]*testfile.Unit) bool {
	for depth := 0; u.Parent != nil && depth < testfile.MaxDepth; depth++ {
		if u = u.Parent; u.Test && before[u] == nil {
			return true
		}
	}
	return false
}

// inSuite reports whether the test is a method of a suite, or inside one.
func inSuite(u *testfile.Unit) bool {
	for depth := 0; !u.Method && u.Parent != nil && depth < testfile.MaxDepth; depth++ {
		u = u.Parent
	}
	return u.Method
}

// OfTests reports whether the file at this path belongs to the tests: it contains tests, test
// helpers or expected results. A file of a language whose tests are next to the code does not
// belong to them.
func OfTests(p string) bool {
	p = cleanPath(p)
	return p != "" && !languageOf(p).BesideCode && (runs(p) || mayRun(p) || supports(p) || isRecorded(p))
}

var (
	proseFile = regexp.MustCompile(`(?i)\.(md|mdx|markdown|rst|adoc)$`)
	proseName = regexp.MustCompile(`(?i)^(readme|changelog|changes|history|license|licence|notice|authors|contributing|codeowners)(\.txt)?$`)
)

// IsCode reports whether a new test can test a change to the file at this path: the file does not
// belong to the tests, does not configure them, and is not prose.
func IsCode(p string) bool {
	p = cleanPath(p)
	return p != "" && !OfTests(p) && settingsOf(p) == nil && !proseFile.MatchString(p) && !proseName.MatchString(path.Base(p))
}
