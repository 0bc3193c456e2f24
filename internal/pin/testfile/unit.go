package testfile

import (
	"strconv"
	"strings"
	"unicode"

	"github.com/rocketgpt/orchestrator/internal/pin/lexer"
)

// Unit is a test, a group of tests, or a function that tests call.
type Unit struct {
	Name         string // of the test, with the enclosing ones
	Key          string // by which other code calls it
	Test         bool   // otherwise a group or a helper
	Local        bool   // a closure: no code outside its function calls it
	Method       bool   // of a suite, whose name is known only at run time
	Line         int
	Parent       *Unit
	File         *File
	Body         lexer.Digest // without its name and the units in it
	Empty        bool         // it has no statements
	Checks       []Check
	Calls        []Call
	Cases        []lexer.Digest // of a table
	Skips        []Skip
	EarlyReturns int // returns under a condition before anything was checked

	tallied Tally
	state   uint8 // of the tally: 0 unknown, 1 in progress, 2 known
}

// Check is an assertion.
type Check struct {
	Digest      lexer.Digest // of its text
	Weight      int          // how often it is made: once for each case of a table
	Vague       bool         // it holds for nearly anything: not nil, truthy
	Conditional bool         // it is made under a condition
}

// Call is the use of a function that may contain assertions.
type Call struct {
	Key         string // of the called unit
	Weight      int
	Conditional bool
	Assumed     int // how many assertions it counts as if the unit is unknown
}

// Skip is a reason why a test does not count.
type Skip struct {
	Always bool // otherwise under a condition
	Reason string
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

// Clean makes a text of a repository fit for a message.
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

// MaxDepth is how many levels of nested tests are read.
const MaxDepth = 64
