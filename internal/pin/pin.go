// Package pin judges what a change does to the tests of a repository.
//
// Tests are pinned: a change that deletes, skips, empties or weakens one, edits
// it, or takes it out of what the test command runs, is a problem that people
// get to see, and some kinds of problem a caller must refuse outright.
//
// [Check] compares files before and after a change. It reads and runs nothing:
// the caller fetches each changed file for whose path, old or new, [Watches] is
// true. Files are understood by their language:
//
//   - Go by its own parser: functions, suites, subtests, tables, skips, build
//     constraints, assertions, and helpers that hold assertions;
//   - JavaScript, TypeScript, Python, Rust, Java and Kotlin by their tokens:
//     strings, comments and nesting are honoured, types and scopes are not;
//   - recorded expectations (testdata, snapshots, fixtures) by their bytes;
//   - configuration (package.json, pytest.ini, Makefile, workflows, …) by the
//     lines that decide which tests run and whether their result counts.
//
// [NewTests] says which tests a change adds, with the same knowledge.
//
// What was moved or renamed with the same body is no problem, nor are comments
// and formatting. Helpers are counted where they are known: unchanged files may
// be passed along, so that assertions which moved into them are found.
//
// Everything that is read was written by somebody who may want tests to pass
// without passing. Sizes, results and texts are bounded, work grows with
// the size of the input, and nothing panics.
package pin

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"unicode"

	"github.com/rocketgpt/orchestrator/contract"
)

// The bounds of a check.
const (
	// MaxFileBytes is the largest file that is understood. A larger one is
	// compared by its bytes; one that has only become larger than this counts as
	// weakened, for nobody can tell any more what it tests.
	MaxFileBytes = 1 << 20
	// MaxProblems is how many problems a check lists. One more says how many
	// there are besides.
	MaxProblems = 500
	// maxText is the longest name of a test in a message, in bytes.
	maxText = 160
)

// File is one file before and after a change.
type File struct {
	// Path is where the file is after the change, or was when it is gone:
	// relative to the repository, with slashes.
	Path string
	// RenamedFrom is where the file was before, when that is known. A rename
	// may as well be told as two files.
	RenamedFrom string
	// Before and After are the file's contents; Existed and Exists tell an empty
	// file from none.
	Before, After   []byte
	Existed, Exists bool
}

// Kind is what a change does to a test.
type Kind string

// The kinds of problem.
const (
	// Deleted: a test, a case of it, or what it compares with is gone.
	Deleted Kind = "deleted"
	// Skipped: a test that ran is skipped now, always or under a new condition,
	// or is expected to fail.
	Skipped Kind = "skipped"
	// Emptied: a test that checked something checks nothing any more.
	Emptied Kind = "emptied"
	// Weakened: a test checks less, or cannot fail, or does not compile.
	Weakened Kind = "weakened"
	// RenamedAway: a test is still there under a name that is not run.
	RenamedAway Kind = "renamed_away"
	// Excluded: tests are kept out of the test run, or its result does not count.
	Excluded Kind = "excluded"
	// Edited: a test is another one than before, but not visibly a lesser one.
	Edited Kind = "edited"
)

// Forbidden says whether an agent that is to make tests pass must not do this.
// Only edits are fit for a report alone.
func (k Kind) Forbidden() bool { return k != Edited }

// Problem is one thing that a change does to one test.
type Problem struct {
	Kind Kind
	// Test names it: TestLogin/expired, "login > rejects", TestLogin::test_expired.
	// Empty when it is about a whole file.
	Test string
	// Path and Line are where to look: in the file as it is now, or as it was
	// when the test or the file is gone. Line 0 is the whole file.
	Path string
	Line int
	// Message says to a person what was done to the test and how that shows.
	Message string
	// Severity is major for whatever is forbidden, medium for an edit, minor for
	// an edit that only adds checks.
	Severity contract.Severity
}

// Finding is the problem as it is stored and shown.
func (p Problem) Finding() contract.Finding { return p.finding("pinned-tests/" + string(p.Kind)) }

func (p Problem) finding(rule string) contract.Finding {
	location := p.Path
	if p.Line > 0 {
		location = fmt.Sprintf("%s:%d", p.Path, p.Line)
	}
	return contract.Finding{
		Severity: p.Severity, Category: contract.CategoryTest, Message: p.Message,
		Location: location, Rule: rule,
	}
}

// Findings are the problems as they are stored and shown.
func Findings(problems []Problem) []contract.Finding {
	out := make([]contract.Finding, 0, len(problems))
	for _, p := range problems {
		out = append(out, p.Finding())
	}
	return out
}

// Forbidden are those of the problems for which a change that heals must be
// refused.
func Forbidden(problems []Problem) []Problem {
	return slices.DeleteFunc(slices.Clone(problems), func(p Problem) bool { return !p.Kind.Forbidden() })
}

// Check compares the tests before and after a change and lists what was done to
// them, by path and line. Files for which [Watches] is false are looked at
// only for tests that now live where nothing runs them.
func Check(ctx context.Context, files []File) ([]Problem, error) {
	j, err := readFiles(ctx, files)
	if err != nil {
		return nil, err
	}
	j.judge()
	return bounded(j.problems), nil
}

// readFiles parses files, each before and after. It ends with its context between two
// of them.
func readFiles(ctx context.Context, files []File) (*judge, error) {
	j := newJudge()
	for _, f := range files {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		f.normalise()
		j.add(f)
	}
	return j, nil
}

// normalise makes a file's account of itself consistent.
func (f *File) normalise() {
	f.Path = cleanPath(f.Path)
	f.RenamedFrom = cleanPath(f.RenamedFrom)
	if f.RenamedFrom == "" {
		f.RenamedFrom = f.Path
	}
	if !f.Existed {
		f.Before = nil
	}
	if !f.Exists {
		f.After = nil
	}
}

func (f *File) same() bool {
	return f.Existed == f.Exists && f.RenamedFrom == f.Path && bytes.Equal(f.Before, f.After)
}

// bounded sorts problems, removes repeats and says how many are too many.
func bounded(problems []Problem) []Problem {
	slices.SortStableFunc(problems, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(a.Path, b.Path), cmp.Compare(a.Line, b.Line),
			cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Test, b.Test), cmp.Compare(a.Message, b.Message))
	})
	problems = slices.Compact(problems)
	if len(problems) <= MaxProblems {
		return problems
	}
	// What is forbidden comes first into what is kept, so that a flood of
	// harmless edits hides nothing.
	slices.SortStableFunc(problems, func(a, b Problem) int {
		return cmp.Compare(slices.Index(contract.Severities(), a.Severity), slices.Index(contract.Severities(), b.Severity))
	})
	rest := problems[MaxProblems]
	return append(problems[:MaxProblems:MaxProblems], Problem{
		Kind: rest.Kind, Path: rest.Path, Severity: rest.Severity,
		Message: fmt.Sprintf("%d more problems with tests are not listed", len(problems)-MaxProblems),
	})
}

// clean makes a text of a repository fit for a message.
func clean(s string) string {
	s = strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(s[:min(len(s), 4*maxText)], "?"))
	s = strings.Join(strings.Fields(s), " ")
	if len(s) > maxText {
		s = strings.ToValidUTF8(s[:maxText], "") + "…"
	}
	return s
}
