package testfile

import (
	"github.com/rocketgpt/orchestrator/internal/pin/lexer"
)

// Position is the current position of a walk through a file.
type Position struct {
	Unit       *Unit
	Weight     int          // how often the position is reached: once for each case of a table
	Conditions int          // around it
	Guard      lexer.Digest // the innermost condition
	TopLevel   bool         // directly in the body of the unit
	Swallowed  bool         // failures are caught here
	Nesting    int          // number of enclosing blocks
}

// Add records a check.
func (p Position) Add(c Check) {
	if p.Swallowed {
		p.Unit.Hollow++
		return
	}
	c.Weight = p.Weight
	p.Unit.Checks = append(p.Unit.Checks, c)
}

// Truth is what is known about a condition without running the code.
type Truth uint8

// The possible states of knowledge about a condition.
const (
	Unknown Truth = iota
	True
	False
)

// TruthOf returns the truth of a known condition.
func TruthOf(b bool) Truth {
	if b {
		return True
	}
	return False
}

// Constant evaluates a condition that does not depend on anything.
func Constant(f *lexer.Source, s lexer.Span) Truth {
	negated := false
	for s.From < s.To && (f.At(s.From).Is("!") || f.At(s.From).Is("not")) {
		negated = !negated
		s.From++
	}
	known := Unknown
	switch {
	case s.To-s.From == 1:
		switch t := f.At(s.From); {
		case t.Is("true") || t.Is("True") || t.Kind == lexer.Number && t.Text != "0":
			known = True
		case t.Is("false") || t.Is("False") || t.Kind == lexer.Number:
			known = False
		}
	case s.To-s.From > 1 && !negated:
		known = constantOperators(f, s)
	}
	if negated && known != Unknown {
		return TruthOf(known == False)
	}
	return known
}

// constantOperators finds x && false, true || x, x === x.
func constantOperators(f *lexer.Source, s lexer.Span) Truth {
	for i := s.From; i < min(s.To, s.From+lexer.MaxStatement); i++ {
		t := f.At(i)
		switch {
		case f.Pairs[i] > i:
			i = f.Pairs[i]
		case t.Is("&&") || t.Is("and"):
			if f.At(i+1).Is("false") || f.At(i+1).Is("False") || f.At(i-1).Is("false") || f.At(i-1).Is("False") {
				return False
			}
			return Unknown
		case t.Is("||") || t.Is("or"):
			if f.At(i+1).Is("true") || f.At(i+1).Is("True") || f.At(i-1).Is("true") || f.At(i-1).Is("True") {
				return True
			}
			return Unknown
		case t.Is("===") || t.Is("=="):
			if f.Digest(s.From, i) == f.Digest(i+1, s.To) && !f.At(i-1).Is(")") {
				return True
			}
		case t.Is("!==") || t.Is("!="):
			if f.Digest(s.From, i) == f.Digest(i+1, s.To) && !f.At(i-1).Is(")") {
				return False
			}
		}
	}
	return Unknown
}

// ReportsFailure reports whether something in a handler reports a failure.
func ReportsFailure(f *lexer.Source, s lexer.Span) bool {
	for i := s.From; i < min(s.To, s.From+lexer.MaxStatement); i++ {
		switch f.At(i).Text {
		case "throw", "expect", "assert", "fail", "done", "reject", "should", "exit", "raise", "pytest", "assertThat", "t", "self":
			return true
		}
	}
	return false
}
