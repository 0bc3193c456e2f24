package testfile

import (
	"slices"
	"strconv"
	"strings"

	"github.com/rocketgpt/orchestrator/internal/pin/lexer"
)

// Loop is a loop whose head contains constants.
type Loop struct {
	Head lexer.Digest // without the largest number
	Most int          // the largest number in its head

	checks bool // it contains checks
	calls  []Call
}

// Extent is how much of a unit was read: the numbers of its checks and calls.
type Extent struct{ checks, calls int }

// Extent returns how much of a unit was read so far.
func (u *Unit) Extent() Extent { return Extent{len(u.Checks), len(u.Calls)} }

// AddLoop records a loop with a head, such as for i in 0..10, and a body that was read since an extent.
func (u *Unit) AddLoop(src *lexer.Source, head lexer.Span, since Extent) {
	l, at := Loop{checks: len(u.Checks) > since.checks, calls: u.Calls[since.calls:len(u.Calls):len(u.Calls)]}, -1
	for i := head.From; i < min(head.To, head.From+lexer.MaxStatement); i++ {
		if t := src.At(i); t.Kind == lexer.Number {
			if n, err := strconv.Atoi(strings.ReplaceAll(t.Text, "_", "")); err == nil && (at < 0 || n > l.Most) {
				l.Most, at = n, i
			}
		}
	}
	if at >= 0 {
		l.Head = src.DigestWithout(head, []lexer.Span{{From: at, To: at + 1}})
		u.Loops = append(u.Loops, l)
	}
}

// Checks reports whether a loop of a unit contains checks, or calls functions with some.
func (d *Index) Checks(u *Unit, l Loop) bool {
	return l.checks || slices.ContainsFunc(l.calls, func(c Call) bool { return d.called(u, c).Total > 0 })
}
