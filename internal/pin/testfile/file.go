// Package testfile describes the content of a test file in any language: tests, groups and helpers,
// with their checks, calls and skips.
//
// Processing time grows with the size of the files: nesting, weights and names are limited.
package testfile

import (
	"strconv"

	"github.com/rocketgpt/orchestrator/internal/pin/lexer"
)

// File is the content of one version of a file.
type File struct {
	Path       string
	Language   string // name; empty if unknown
	Scope      string // files of the same scope can call each other's functions
	Units      []*Unit
	Statements []lexer.Digest // outside units, without imports
	Broken     string         // reason why it is not valid code, so nothing runs
	Excluded   string         // reason why it is excluded, so nothing runs
	Systems    []string       // operating systems on which it runs, of some that are known; nil for all
	Suppresses string         // how it prevents tests in other files from running or failing
	Only       []*Unit        // units that prevent all others from running (.only)
	Suites     []Suite

	lists     map[int][]lexer.Span  // elements of lists, by their bracket
	texts     map[lexer.Digest]text // of cases
	caseCount int                   // number of cases of its units
}

// Full reports whether no more cases are compared.
func (s *File) Full() bool { return s.caseCount > maxCases }

// AddCases adds cases to those of a unit: parts of a source.
func (s *File) AddCases(u *Unit, src *lexer.Source, rows []lexer.Span) {
	if s.caseCount += len(rows); s.caseCount > maxCases {
		return
	}
	if s.texts == nil {
		s.texts = map[lexer.Digest]text{}
	}
	for _, r := range rows {
		d := src.Digest(r.From, r.To)
		s.texts[d] = text{src, r}
		u.Cases = append(u.Cases, d)
	}
}

// Suite is tests that a call makes, of data or of other code, except for those that it skips.
type Suite struct {
	Name  string
	Line  int
	Skips []lexer.Digest // each skips some of the tests
}

// text is a part of a source.
type text struct {
	src  *lexer.Source
	span lexer.Span
}

// CaseWords returns the digests of the words and literals of a case, at most the first most of them. It
// returns none for a case whose text is unknown.
func (s *File) CaseWords(c lexer.Digest, most int) []lexer.Digest {
	t := s.texts[c]
	if t.src == nil {
		return nil
	}
	return t.src.Words(t.span, most)
}

// CaseName returns the digest of the first literal of a case, which often names it, or 0.
func (s *File) CaseName(c lexer.Digest) lexer.Digest {
	t := s.texts[c]
	if t.src == nil {
		return 0
	}
	for i := t.span.From; i < t.span.To; i++ {
		if k := t.src.At(i).Kind; k == lexer.Text || k == lexer.Number {
			return t.src.Digest(i, i+1)
		}
	}
	return 0
}

// ListCases adds the elements of the list that begins at a bracket to the cases of a unit, and
// returns their number.
func (s *File) ListCases(u *Unit, src *lexer.Source, open int) int {
	rows, known := s.lists[open]
	if !known {
		rows = src.Split(open)
		if s.lists == nil {
			s.lists = map[int][]lexer.Span{}
		}
		s.lists[open] = rows
	}
	s.AddCases(u, src, rows)
	return len(rows)
}

// Add adds a unit.
func (s *File) Add(u *Unit) *Unit {
	u.File = s
	s.Units = append(s.Units, u)
	return u
}

// Tests returns the units that are tests.
func (s *File) Tests() []*Unit {
	var out []*Unit
	for _, u := range s.Units {
		if u.Test {
			out = append(out, u)
		}
	}
	return out
}

// NumberDuplicates makes the names of tests unique.
func (s *File) NumberDuplicates() {
	seen := map[string]int{}
	for _, u := range s.Units {
		if !u.Test {
			continue
		}
		seen[u.Name]++
		if n := seen[u.Name]; n > 1 {
			u.Name += " #" + strconv.Itoa(n)
		}
	}
}

// maxCases is the maximum number of table cases compared in a file. Otherwise, many loops over one
// long list would take too long.
const maxCases = 1 << 16
