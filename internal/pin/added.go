package pin

import (
	"context"
	"path"
	"regexp"

	"github.com/rocketgpt/orchestrator/contract"
)

// RuleUnproven is the rule of a finding about a new test that does not need the
// change that came with it.
const RuleUnproven = "new-tests/unproven"

// Added is a test that a change adds, or gives new cases.
type Added struct {
	// Path and Line are where it stands.
	Path string
	Line int
	// Name names it as [Problem.Test] does. It is a text of the repository's,
	// as long and as odd as that likes.
	Name string
	// Cases says that the test is an old one, whose table has new cases.
	Cases bool
	// Suite says that it is a method of a suite of Go, or stands in one: it runs
	// below a test whose name is not known.
	Suite bool
}

// Finding says that a test was seen not to fail without the change. why
// completes "TestLogin …".
func (a Added) Finding(why string) contract.Finding {
	what := clean(a.Name)
	if a.Cases {
		what = "a new case of " + what
	}
	return Problem{
		Path: a.Path, Line: a.Line, Severity: contract.SeverityMedium,
		Message: what + " " + why,
	}.finding(RuleUnproven)
}

// NewTests lists the tests that a change adds, and those whose tables it gives
// new cases: of Go, JavaScript, TypeScript and Python, in the order of the files.
// What was moved or renamed with the same body is not new, and what stands in a
// new test is told with that one.
func NewTests(ctx context.Context, files []File) ([]Added, error) {
	j, err := readFiles(ctx, files)
	if err != nil {
		return nil, err
	}
	m := newMatcher(j.pairs)
	m.match()
	before := make(map[*unit]*unit, len(m.found))
	for b, a := range m.found {
		before[a] = b
	}
	var out []Added
	for _, p := range j.pairs {
		runsAlone := languageOf(p.after.path).runsAlone
		if p.file.same() || p.after.broken != "" || p.after.off != "" || runsAlone == nil {
			continue
		}
		for _, a := range p.after.tests() {
			b := before[a]
			fresh := b == nil && !within(a, before)
			grown := b != nil && len(a.rows) > len(b.rows) && missing(a.rows, b.rows) > 0
			if (fresh || grown) && runsAlone(a) {
				out = append(out, Added{Path: p.file.Path, Line: a.line, Name: a.name, Cases: grown, Suite: inSuite(a)})
			}
		}
	}
	return out, nil
}

// within: the test stands in a test that is new as well.
func within(u *unit, before map[*unit]*unit) bool {
	for depth := 0; u.parent != nil && depth < maxDepth; depth++ {
		if u = u.parent; u.test && before[u] == nil {
			return true
		}
	}
	return false
}

// inSuite: the test is a method of a suite, or stands in one.
func inSuite(u *unit) bool {
	for depth := 0; !u.method && u.parent != nil && depth < maxDepth; depth++ {
		u = u.parent
	}
	return u.method
}

// OfTests says whether the file at this path belongs to the tests: it holds them,
// helps them, or is what they compare with. A file of a language whose tests stand
// beside the code does not.
func OfTests(p string) bool {
	p = cleanPath(p)
	return p != "" && !languageOf(p).besideCode && (runs(p) || supports(p) || isRecorded(p))
}

var (
	proseFile = regexp.MustCompile(`(?i)\.(md|mdx|markdown|rst|adoc)$`)
	proseName = regexp.MustCompile(`(?i)^(readme|changelog|changes|history|license|licence|notice|authors|contributing|codeowners)(\.txt)?$`)
)

// IsCode says whether a change of the file at this path can be what a new test is
// about: it is none of the tests, says nothing of how they run, and is more than
// prose.
func IsCode(p string) bool {
	p = cleanPath(p)
	return p != "" && !OfTests(p) && settingsOf(p) == nil && !proseFile.MatchString(p) && !proseName.MatchString(path.Base(p))
}
