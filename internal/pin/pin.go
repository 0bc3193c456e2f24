// Package pin judges what a change does to the tests of a repository.
//
// Tests are pinned: a change that deletes, skips, empties or weakens one, edits
// it, or takes it out of the test run is reported as a problem, and for some kinds of
// problem a caller must refuse the change.
//
// [Check] compares files before and after a change. It reads and runs nothing:
// the caller fetches each changed file for whose path, old or new, [Watches] is
// true. Each language has a package below this one:
//
//   - Go by its own parser: functions, suites, subtests, tables, skips, build
//     constraints, assertions, and helpers that hold assertions;
//   - JavaScript, TypeScript, Python, Rust, Java and Kotlin by their tokens:
//     strings, comments and nesting are recognized, types and scopes are not;
//   - recorded expectations (testdata, snapshots, fixtures) by their bytes;
//   - configuration (package.json, pytest.ini, Makefile, workflows, …) by the
//     lines that determine which tests run and whether their result counts.
//
// [NewTests] says which tests a change adds, with the same knowledge.
//
// Moves and renames with the same body are not problems, nor are changes of comments
// and formatting. Helpers are counted where they are known: unchanged files may
// be passed along, so that assertions which moved into them are found.
//
// The author of a change may want tests to pass that should fail. Sizes, results and
// texts are limited, work grows with the size of the input, and nothing panics.
package pin

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/rocketgpt/orchestrator/contract"
)

// The limits of a check.
const (
	// MaxFileBytes is the largest file that is parsed. A larger one is compared by its
	// bytes; one that has grown over the limit counts as weakened, because it is
	// unknown what it still tests.
	MaxFileBytes = 1 << 20
	// MaxProblems is how many problems a check lists. One more counts
	// those that are not listed.
	MaxProblems = 500
)

// File is one file before and after a change.
type File struct {
	// Path is where the file is after the change, or was if it is deleted: relative to
	// the repository, with slashes.
	Path string
	// RenamedFrom is where the file was before, if known. A rename may be given as two
	// files too.
	RenamedFrom string
	// Before and After are the file's contents; Existed and Exists distinguish an empty
	// file from a missing one.
	Before, After   []byte
	Existed, Exists bool
}

// Kind is what a change does to a test.
type Kind string

// The kinds of problem.
const (
	// Deleted: a test, a case of it, or what it compares with is gone.
	Deleted Kind = "deleted"
	// Skipped: a test that ran is now skipped, always or under a new condition, or is
	// expected to fail.
	Skipped Kind = "skipped"
	// Emptied: a test that checked something no longer checks anything.
	Emptied Kind = "emptied"
	// Weakened: a test checks less, or cannot fail, or does not compile.
	Weakened Kind = "weakened"
	// RenamedAway: a test still exists under a name that is not run.
	RenamedAway Kind = "renamed_away"
	// Excluded: tests are kept out of the test run, or its result does not count.
	Excluded Kind = "excluded"
	// Edited: a test changed, and does not visibly check less.
	Edited Kind = "edited"
)

// Forbidden reports whether an agent that is to make tests pass must not do this. An
// edit is only reported.
func (k Kind) Forbidden() bool { return k != Edited }

// Problem is one thing that a change does to one test.
type Problem struct {
	Kind Kind
	// Test names it: TestLogin/expired, "login > rejects", TestLogin::test_expired.
	// Empty when it is about a whole file.
	Test string
	// Path and Line say where to look: in the file as it is now, or as it was if the
	// test or the file is gone. Line 0 means the whole file.
	Path string
	Line int
	// Message says what was done to the test and how that shows.
	Message string
	// Severity is major for whatever is forbidden, medium for an edit, minor for an
	// edit that only adds checks.
	Severity contract.Severity
}

// Finding returns the problem as it is stored and shown.
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

// Findings returns the problems as they are stored and shown.
func Findings(problems []Problem) []contract.Finding {
	out := make([]contract.Finding, 0, len(problems))
	for _, p := range problems {
		out = append(out, p.Finding())
	}
	return out
}

// Forbidden returns those problems for which the change of a heal must be refused.
func Forbidden(problems []Problem) []Problem {
	return slices.DeleteFunc(slices.Clone(problems), func(p Problem) bool { return !p.Kind.Forbidden() })
}

// Check compares the tests before and after a change and lists what was done to them,
// by path and line. Files for which [Watches] is false are only searched for tests that
// have moved to where nothing runs them.
func Check(ctx context.Context, files []File) ([]Problem, error) {
	j, err := readFiles(ctx, files)
	if err != nil {
		return nil, err
	}
	j.judge()
	return limited(j.problems), nil
}

// readFiles parses files, each before and after. It stops between two of them if its
// context ends.
func readFiles(ctx context.Context, files []File) (*judge, error) {
	j := newJudge()
	for _, f := range files {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		f.normalize()
		j.add(f)
	}
	return j, nil
}

// normalize makes the fields of a file consistent.
func (f *File) normalize() {
	f.Path = cleanPath(f.Path)
	f.RenamedFrom = cleanPath(f.RenamedFrom)
	f.RenamedFrom = cmp.Or(f.RenamedFrom, f.Path)
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

// limited sorts problems, removes duplicates and says how many are over the limit.
func limited(problems []Problem) []Problem {
	slices.SortStableFunc(problems, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(a.Path, b.Path), cmp.Compare(a.Line, b.Line),
			cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Test, b.Test), cmp.Compare(a.Message, b.Message))
	})
	problems = slices.Compact(problems)
	if len(problems) <= MaxProblems {
		return problems
	}
	// Forbidden ones are kept first, so that many harmless edits hide nothing.
	slices.SortStableFunc(problems, func(a, b Problem) int {
		return cmp.Compare(slices.Index(contract.Severities(), a.Severity), slices.Index(contract.Severities(), b.Severity))
	})
	rest := problems[MaxProblems]
	return append(problems[:MaxProblems:MaxProblems], Problem{
		Kind: rest.Kind, Path: rest.Path, Severity: rest.Severity,
		Message: fmt.Sprintf("%d more problems with tests are not listed", len(problems)-MaxProblems),
	})
}
