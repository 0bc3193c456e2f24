package testfile

import (
	"cmp"
	"strconv"
	"strings"
	"unicode"

	"github.com/rocketgpt/orchestrator/internal/pin/lexer"
)

// Unit is a test, a group of tests, or a function that tests call.
type Unit struct {
	Name         string // name of the test, with the enclosing groups
	Key          string // name by which other code calls it
	Test         bool   // otherwise a group or a helper
	Local        bool   // a closure: no code outside its function calls it
	Method       bool   // method of a suite, whose name is known only at run time
	Inside       *Unit  // the function around it, outside which nothing calls it; nil for none
	Line         int
	Parent       *Unit
	File         *File
	Body         lexer.Digest // digest without its name and the units in it
	Code         lexer.Digest // Body without the annotations before it, or 0 if that is the same
	Source       *lexer.Source
	Text         lexer.Span // of a test, in Source
	Empty        bool       // it has no statements
	Checks       []Check
	Calls        []Call
	Cases        []lexer.Digest // of a table
	Skips        []Skip
	Loops        []Loop
	EarlyReturns int         // conditional returns before the first check
	Awaits       int         // calls whose failure ends the test
	Callbacks    map[int]Use // functions that it is given, by the position of the parameter
	Hollow       int         // assertions that cannot fail: of constants, or whose failure is caught

	tallied Tally
	state   uint8 // of the tally: 0 unknown, 1 in progress, 2 known
}

// Bare returns the digest of the body without the annotations that make it a test.
func (u *Unit) Bare() lexer.Digest { return cmp.Or(u.Code, u.Body) }

// Check is an assertion.
type Check struct {
	Digest      lexer.Digest // of its text
	Text        lexer.Span   // in the source of the unit; empty if it is part of a statement
	Weight      int          // how often it runs: once for each case of a table
	Vague       bool         // it holds for nearly any value: not nil, truthy
	Conditional bool         // it runs under a condition
	NoError     bool         // it holds if a call, which does not end the test if it fails, did not fail
	Fails       bool         // it holds if something fails, whatever the error
	FailsAs     bool         // it holds if something fails with a certain error
	Given       *Given       // the innermost function around it that another one is given, or nil
}

// Use is how a function uses one that it is given.
type Use uint8

// The uses of a function that another one is given.
const (
	Unused    Use = iota // it is neither called nor passed on
	Sometimes            // under a condition
	Always
)

// Given is a function that another one is given as an argument: what it contains counts only if that one
// calls it.
type Given struct {
	To       string // key of the other function
	Position int    // of the argument
	Outer    *Given // the function around it, if that is also given to one
}

// Call is the use of a function that may contain assertions.
type Call struct {
	Key         string // of the called unit
	Weight      int
	Conditional bool
	Assumed     int // number of assertions to count if the unit is unknown
	Given       *Given
}

// Skip is a reason why a test is skipped.
type Skip struct {
	Always bool // otherwise under a condition
	Fails  bool // it runs, but is expected to fail
	Reason string
	Unless bool           // it is skipped unless something holds
	Cases  []lexer.Digest // the cases of a table that it can skip; nil for all
}

// RunsBeforeTests records that all tests of the group around a unit, if any, begin with it: what
// skips the unit skips them.
func (u *Unit) RunsBeforeTests() {
	if u.Parent != nil {
		u.Parent.Skips = append(u.Parent.Skips, u.Skips...)
	}
}

// ShortName limits a name. Nesting would make names grow quadratically.
func ShortName(name string) string {
	if len(name) > 8*maxText {
		name = name[:4*maxText] + strconv.Itoa(int(lexer.TextDigest(name)>>1))
	}
	return name
}

// maxText is the longest name of a test in a message, in bytes.
const maxText = 160

// Clean makes a text from a repository safe for a message.
func Clean(s string) string {
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

// MaxDepth is the maximum number of nested test levels that are read.
const MaxDepth = 64
