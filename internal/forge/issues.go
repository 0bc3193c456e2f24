package forge

import (
	"cmp"
	"slices"
	"time"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/fault"
)

// maxIssuePages is the maximum number of pages that ReadIssues reads.
const maxIssuePages = 500

// IssuePage is a part of a list of issues that is sorted by the time of the last change, the oldest first.
type IssuePage struct {
	Issues []Issue
	Last   time.Time // change of the last entry, which may be something else than an issue
	More   bool      // whether further entries follow
}

// IssueSet collects the issues of a list that is read in parts. Of an issue that is in several of them, the
// version with the newest change counts.
type IssueSet struct {
	byNumber map[int64]Issue
}

// Add adds issues.
func (s *IssueSet) Add(issues []Issue) {
	if s.byNumber == nil {
		s.byNumber = map[int64]Issue{}
	}
	for _, i := range issues {
		before, known := s.byNumber[i.Number]
		if !known || !i.UpdatedAt.Before(before.UpdatedAt) {
			s.byNumber[i.Number] = i
		}
	}
}

// Len returns the number of issues.
func (s *IssueSet) Len() int { return len(s.byNumber) }

// Sorted returns the issues by the time of their last change, the oldest first.
func (s *IssueSet) Sorted() []Issue {
	out := make([]Issue, 0, len(s.byNumber))
	for _, i := range s.byNumber {
		out = append(out, i)
	}
	slices.SortFunc(out, func(a, b Issue) int {
		return cmp.Or(a.UpdatedAt.Compare(b.UpdatedAt), cmp.Compare(a.Number, b.Number))
	})
	return out
}

// second returns a time as precisely as every forge compares it.
func second(t time.Time) time.Time { return t.Truncate(time.Second) }

// ReadIssues reads the issues that changed since a time from a forge whose lists are sorted by the last change,
// the oldest first, and divided into pages by number. While such a list is read, an issue leaves a page that
// was read, because it changes, is closed or loses its label, and all later ones move up: the first one of the
// next page would be missed. So what follows a page is asked for by the time of its last entry, as the first
// page of another list. Only if all entries of a page changed in the same second, the next page is asked for
// by its number, and then all of them are read again until they are as they were: what was read has not left
// its place meanwhile, so nothing after it has moved up.
func ReadIssues(since time.Time, read func(since time.Time, page int) (IssuePage, error)) ([]Issue, error) {
	r := issueReader{read: read}
	for {
		last, more, err := r.second(since)
		if err != nil {
			return nil, err
		}
		if !more || r.Len() >= MaxIssues {
			return r.Sorted(), nil
		}
		since = last
	}
}

// issueReader reads pages for ReadIssues.
type issueReader struct {
	IssueSet

	read  func(since time.Time, page int) (IssuePage, error)
	pages int
}

// second reads from a time until an entry that changed in a later second, or to the end of the list. It returns
// the time of the last entry, and whether others follow.
func (r *issueReader) second(since time.Time) (last time.Time, more bool, err error) {
	for before := []Issue(nil); ; {
		var now []Issue
		pages := 0
		for more = true; more && !second(last).After(second(since)); {
			if r.pages++; r.pages > maxIssuePages {
				return last, false, fault.New(contract.ClassInfra, contract.CodeTooLarge, "the list of issues has more than %d pages", maxIssuePages)
			}
			pages++
			got, err := r.read(since, pages)
			if err != nil {
				return last, false, err
			}
			r.Add(got.Issues)
			now = append(now, got.Issues...)
			last, more = got.Last, got.More
		}
		if pages == 1 || slices.EqualFunc(before, now, unchanged) {
			return last, more, nil
		}
		before, last = now, time.Time{}
	}
}

// unchanged reports whether two entries are of the same issue in the same state.
func unchanged(a, b Issue) bool { return a.Number == b.Number && a.UpdatedAt.Equal(b.UpdatedAt) }
