package pin

import (
	"context"
	"regexp"
	"slices"
	"strings"

	"github.com/rocketgpt/orchestrator/internal/pin/lexer"
	"github.com/rocketgpt/orchestrator/internal/pin/testfile"
)

// Reason says why a new test proves nothing.
type Reason string

// The reasons why a new test proves nothing.
const (
	// AlwaysPasses: its assertions hold whatever the code under test does, or it calls nothing but
	// prints and logs.
	AlwaysPasses Reason = "always_passes"
	// ChecksNothing: it calls code, but contains no assertion. It fails only if that code throws or
	// panics.
	ChecksNothing Reason = "checks_nothing"
	// NeverRuns: it is skipped.
	NeverRuns Reason = "never_runs"
)

// Unchecked is a new test that proves nothing.
type Unchecked struct {
	Reason Reason
	// Path and Line are its location.
	Path string
	Line int
	// Name is its name as in [Problem.Test], safe for a message.
	Name string
}

// CheckAll returns the problems that [Check] finds and, in the same order of files, the tests that the
// change adds and that prove nothing: in all languages. A test that calls a function which is not in the
// files, and whose name says that it checks something, proves something.
func CheckAll(ctx context.Context, files []File) ([]Problem, []Unchecked, error) {
	j, err := readFiles(ctx, files)
	if err != nil {
		return nil, nil, err
	}
	m := j.judge()
	return limited(j.problems), j.unchecked(m), nil
}

func (j *judge) unchecked(m *matcher) []Unchecked {
	known := make(map[*testfile.Unit]bool, len(m.found))
	for _, a := range m.found {
		known[a] = true
	}
	var out []Unchecked
	for _, p := range j.pairs {
		if p.file.same() || p.after.Broken != "" || p.after.Excluded != "" {
			continue
		}
		runsAlone := languageOf(p.after.Path).RunsAlone // not benchmarks
		tests := p.after.Tests()
		parents := map[*testfile.Unit]bool{}
		for _, a := range tests {
			parents[a.Parent] = true
		}
		for _, a := range tests {
			if known[a] || parents[a] || runsAlone != nil && !runsAlone(a) {
				continue
			}
			if r := j.proves(a); r != "" {
				out = append(out, Unchecked{Reason: r, Path: p.file.Path, Line: a.Line, Name: testfile.Clean(a.Name)})
			}
		}
	}
	return out
}

// proves returns the reason why a test of the new version proves nothing, or "".
func (j *judge) proves(a *testfile.Unit) Reason {
	skips := allSkips(a)
	if slices.ContainsFunc(skips, func(s testfile.Skip) bool { return s.Always && s.Fails }) {
		return "" // it is expected to fail
	}
	if idle(a) {
		return NeverRuns
	}
	for u, depth := a, 0; u != nil && depth < testfile.MaxDepth; u, depth = u.Parent, depth+1 {
		if u.Test && j.after.Tally(u).Total > 0 {
			return ""
		}
	}
	if a.Source == nil || a.Text.To-a.Text.From <= 3 && len(a.Calls) > 0 {
		return "" // it is another function, as in test("title", run)
	}
	if strings.HasPrefix(a.Name, "Fuzz") {
		return "" // it looks for panics
	}
	if counts(a.Source, a.Text) {
		return ""
	}
	switch calls, mayCheck := callsIn(a.Source, a.Text); {
	case a.Hollow > 0, !calls:
		return AlwaysPasses
	case mayCheck:
		return ""
	default:
		return ChecksNothing
	}
}

var (
	// mayCheckName matches the names of functions that are likely to check something.
	mayCheckName = regexp.MustCompile(`(?i)assert|expect|verif|should|check|must|ensure|valid|match|fail|throw|raise|error|panic|fatal|wait|compare|same|equal|diff|snapshot|then|test|run|exec|unwrap|golden|await|until|bench|require|compile|lint|roundtrip|subscribe`)
	// silent are the names of functions that change nothing about the result of a test.
	silent = lexer.Set(`print println printf Print Println Printf log Log Logf info debug warn trace eprintln eprint dbg Parallel Helper
		func function fn def if for while switch catch return format Sprintf pass`)
)

// countWords name what makes a test fail if too few of its assertions are reached: t.plan(1), done().
var countWords = lexer.Set("plan assertions hasAssertions done resolve reject countDown unreachable")

// counts reports whether a test fails if code does not call back: then even assert(true) checks
// something.
func counts(src *lexer.Source, s lexer.Span) bool {
	for i := s.From; i < min(s.To, len(src.Tokens)); i++ {
		if t := src.At(i); t.Kind == lexer.Word && countWords[t.Text] {
			return true
		}
	}
	return false
}

// callsIn reports whether a part of a source calls something whose effect may matter, and whether that
// may check something.
func callsIn(src *lexer.Source, s lexer.Span) (calls, mayCheck bool) {
	for i := s.From; i < min(s.To, len(src.Tokens)); i++ {
		t := src.At(i)
		if t.Is("?") || t.Is("await") || t.Is("throw") || t.Is("raise") || t.Is("yield") {
			mayCheck = true // what fails ends the test
		}
		if t.Kind != lexer.Word {
			continue
		}
		next := src.At(i + 1)
		if next.Is("!") {
			next = src.At(i + 2)
		}
		if !next.Is("(") && !next.Is("[") && !next.Is("{") && !next.Is("<") {
			continue
		}
		mayCheck = mayCheck || mayCheckName.MatchString(t.Text)
		calls = calls || !silent[t.Text] && (next.Is("(") || src.At(i+1).Is("!"))
	}
	return calls, mayCheck
}
