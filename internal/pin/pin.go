// Package pin judges how a change affects the tests of a repository.
//
// Tests are pinned: a change that deletes, skips, empties, weakens or edits a test, or removes it
// from the test run, is reported as a problem. For some kinds of problems, the caller must refuse
// the change.
//
// [Check] compares files before and after a change. It reads no files and runs nothing: the caller
// provides each changed file for whose old or new path [Watches] is true. Each language has a
// package below this one:
//
//   - Go by its own parser: functions, suites, subtests, tables, skips, build
//     constraints, assertions, and helpers that hold assertions;
//   - JavaScript, TypeScript, Python, Rust, Java and Kotlin by their tokens:
//     strings, comments and nesting are recognized, types and scopes are not;
//   - recorded expectations (testdata, snapshots, fixtures) by their bytes;
//   - configuration (package.json, pytest.ini, Makefile, workflows, …) by the
//     lines that determine which tests run and whether their result counts.
//
// [NewTests] lists the tests that a change adds, with the same analysis.
//
// Moves and renames with the same body are not problems, nor are changes to comments and
// formatting. Assertions in known helpers count: the caller can also pass unchanged files, in which
// moved assertions are then found.
//
// The author of a change may try to make failing tests pass. Therefore sizes, results and texts are
// limited, processing time grows with the size of the input, and nothing panics.
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
	// MaxFileBytes is the largest file that is parsed. A larger file is compared by its bytes; a
	// file that has grown over the limit counts as weakened, because its tests are unknown.
	MaxFileBytes = 1 << 20
	// MaxProblems is the maximum number of problems that a check lists. An additional one counts
	// the rest.
	MaxProblems = 500
)

// File is one file before and after a change.
type File struct {
	// Path is the path of the file after the change, or before it if the file is deleted: relative
	// to the repository, with slashes.
	Path string
	// RenamedFrom is the previous path of the file, if known. A rename can also be passed as two
	// files.
	RenamedFrom string
	// Before and After are the file's contents; Existed and Exists distinguish an empty
	// file from a missing one.
	Before, After   []byte
	Existed, Exists bool
}

// Kind classifies the effect of a change on a test.
type Kind string

// The kinds of problem.
const (
	// Deleted: a test, one of its cases, or its expected results were deleted.
	Deleted Kind = "deleted"
	// Skipped: a test that used to run is now skipped, always or under a new condition, or is
	// expected to fail.
	Skipped Kind = "skipped"
	// Emptied: a test that checked something no longer checks anything.
	Emptied Kind = "emptied"
	// Weakened: a test checks less, or cannot fail, or does not compile.
	Weakened Kind = "weakened"
	// RenamedAway: a test still exists under a name that does not run.
	RenamedAway Kind = "renamed_away"
	// Excluded: tests are excluded from the test run, or its result does not count.
	Excluded Kind = "excluded"
	// Edited: a test changed but does not visibly check less.
	Edited Kind = "edited"
)

// Forbidden reports whether this is forbidden to an agent whose task is to make tests pass. An edit
// is only reported.
func (k Kind) Forbidden() bool { return k != Edited }

// Problem is one effect of a change on one test.
type Problem struct {
	Kind Kind
	// Test is its name: TestLogin/expired, "login > rejects", TestLogin::test_expired. It is empty
	// for a problem with a whole file.
	Test string
	// Was is its name before the change, if the test was renamed.
	Was string
	// Path and Line are the location in the current file, or in the previous version if the test or
	// the file was deleted. Line 0 means the whole file.
	Path string
	Line int
	// Leaning are the names of the unchanged tests that check less because of a problem with a helper,
	// which stands for all of them.
	Leaning []string
	// Message describes the change to the test and the evidence.
	Message string
	// Severity is major for a forbidden change, medium for an edit, and minor for an edit that only
	// adds checks.
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

// Forbidden returns the problems for which a heal's change must be refused.
func Forbidden(problems []Problem) []Problem {
	return slices.DeleteFunc(slices.Clone(problems), func(p Problem) bool { return !p.Kind.Forbidden() })
}

// Check compares the tests before and after a change and lists the problems by path and line. Files
// for which [Watches] is false are only searched for tests that were moved there and no longer run.
func Check(ctx context.Context, files []File) ([]Problem, error) {
	j, err := readFiles(ctx, files)
	if err != nil {
		return nil, err
	}
	j.judge()
	return limited(j.problems), nil
}

// readFiles parses both versions of the files. It stops between two files if its context ends.
func readFiles(ctx context.Context, files []File) (*judge, error) {
	j := newJudge()
	for _, f := range files {
		j.someRunners = j.someRunners || f.Existed && mayRun(cmp.Or(f.RenamedFrom, f.Path))
	}
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

// limited sorts problems, removes duplicates and reports the number over the limit.
func limited(problems []Problem) []Problem {
	slices.SortStableFunc(problems, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(a.Path, b.Path), cmp.Compare(a.Line, b.Line),
			cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Test, b.Test), cmp.Compare(a.Message, b.Message))
	})
	problems = slices.CompactFunc(problems, func(a, b Problem) bool {
		return a.Path == b.Path && a.Line == b.Line && a.Kind == b.Kind && a.Test == b.Test && a.Message == b.Message
	})
	if len(problems) <= MaxProblems {
		return problems
	}
	// Forbidden problems have priority, so that many harmless edits cannot hide them.
	slices.SortStableFunc(problems, func(a, b Problem) int {
		return cmp.Compare(slices.Index(contract.Severities(), a.Severity), slices.Index(contract.Severities(), b.Severity))
	})
	rest := problems[MaxProblems]
	return append(problems[:MaxProblems:MaxProblems], Problem{
		Kind: rest.Kind, Path: rest.Path, Severity: rest.Severity,
		Message: fmt.Sprintf("%d more problems with tests are not listed", len(problems)-MaxProblems),
	})
}
