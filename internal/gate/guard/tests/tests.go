// Package tests finds changes that make tests prove less: SafeTestGen.
//
// Package pin judges which tests a change deletes, skips, empties or weakens, and which new tests
// prove nothing. Whether a new test fails without the change is proven elsewhere, by running it. Tests
// in Ruby, PHP, C#, C++ and Elixir, which that package does not read, are compared by their lines:
// only tests that are gone, skipped, or check less than half of what they did are found.
//
//	rule                 severity  meaning, and what to do
//	tests/deleted        major     a test, a case or an expected result is gone: restore it
//	                     minor     the file that it tests, by its name, is deleted by the same change
//	tests/skipped        major     a test that ran is skipped or expected to fail: let it run again
//	tests/emptied        major     a test no longer checks anything: restore its assertions
//	tests/weakened       major     a test checks less, or cannot fail: restore what it checked
//	tests/renamed_away   major     a test has a name or a place where no runner finds it: rename it
//	tests/excluded       major     tests do not run, or their result does not count (|| true): undo it
//	tests/edited         minor     a test changed, but does not visibly check less: review it
//	                     medium    the same in a repair, whose task is to make this test pass
//	tests/always_passes  medium    a new test cannot fail, whatever the code does: assert a result
//	tests/checks_nothing minor     a new test calls code without an assertion: assert a result
//	tests/never_runs     minor     a new test is skipped: let it run, or leave it out
//	tests/lost_subject   medium    a test contains a copy of the code that it tested, or of the code
//	                               beside it, or its subject is deleted and it tests something else:
//	                               test the real code, or delete the test with its subject
//	tests/unreadable     medium    a test file is too large to examine: split it
package tests

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/gate/change"
	"github.com/rocketgpt/orchestrator/internal/pin"
)

// name is the value of Finding.Guard.
const name = "tests"

// The rules that are not kinds of package pin.
const (
	RuleLostSubject = "lost_subject"
	RuleUnreadable  = "unreadable"
)

// Guard finds changes that make tests prove less.
var Guard change.Guard = guard{}

type guard struct{}

// Name returns "tests".
func (guard) Name() string { return name }

// Judge returns what it found, in order of path and line.
func (guard) Judge(ctx context.Context, c change.Change) ([]change.Finding, error) {
	files, found := pinned(c.Files)
	problems, unchecked, err := pin.CheckAll(ctx, files)
	if err != nil {
		return nil, err
	}
	subjects := subjectsOf(c)
	for _, p := range problems {
		f := finding(string(p.Kind), p.Severity, p.Path, p.Line, p.Message)
		switch {
		case p.Kind == pin.Edited && c.Author != change.RoleRepair:
			f.Severity = contract.SeverityMinor
		case p.Kind == pin.Deleted && subjects.deletedWith(p.Path):
			f.Severity = contract.SeverityMinor
			f.Message += ", and so is the file that it tests"
		}
		found = append(found, f)
	}
	for _, u := range unchecked {
		found = append(found, uncheckedFinding(u))
	}
	found = append(found, ofOthers(c.Files, subjects)...)
	lost, err := subjects.lost(ctx)
	if err != nil {
		return nil, err
	}
	found = append(found, lost...)
	slices.SortStableFunc(found, func(a, b change.Finding) int {
		return cmp.Or(cmp.Compare(a.Path, b.Path), cmp.Compare(a.Line, b.Line))
	})
	return found, nil
}

// pinned returns the files that package pin judges. A link is no test, so a file that became one is
// deleted.
func pinned(files []change.File) (out []pin.File, found []change.Finding) {
	for _, f := range files {
		if !pin.Watches(f.Path) && !pin.Watches(f.OldPath()) || !f.Before.Regular() && !f.After.Regular() {
			continue
		}
		switch clean := change.Clean(f.Path); {
		case f.Before.Unread && !f.After.Regular():
			found = append(found, finding(string(pin.Deleted), contract.SeverityMajor, f.Path, 0,
				clean+", which was too large to examine, is deleted; restore it"))
		case f.Before.Unread || f.After.Unread:
			found = append(found, finding(RuleUnreadable, contract.SeverityMedium, f.Path, 0,
				clean+" is too large to examine what it does to tests; split it"))
		default:
			out = append(out, pin.File{
				Path: f.Path, RenamedFrom: f.From, Before: f.Before.Content, After: f.After.Content,
				Existed: f.Before.Regular(), Exists: f.After.Regular(),
			})
		}
	}
	return out, found
}

func uncheckedFinding(u pin.Unchecked) change.Finding {
	switch u.Reason {
	case pin.AlwaysPasses:
		return finding(string(u.Reason), contract.SeverityMedium, u.Path, u.Line,
			fmt.Sprintf("the new test %s passes whatever the code under test does; assert what it returns", u.Name))
	case pin.NeverRuns:
		return finding(string(u.Reason), contract.SeverityMinor, u.Path, u.Line,
			fmt.Sprintf("the new test %s is skipped, so it proves nothing; let it run or leave it out", u.Name))
	default:
		return finding(string(u.Reason), contract.SeverityMinor, u.Path, u.Line,
			fmt.Sprintf("the new test %s calls code but asserts nothing; assert what it returns", u.Name))
	}
}

func finding(rule string, severity contract.Severity, path string, line int, message string) change.Finding {
	return change.Finding{Guard: name, Rule: rule, Path: path, Line: line, Severity: severity, Message: message}
}
