package pin

import (
	"regexp"
	"slices"
	"strings"

	"github.com/rocketgpt/orchestrator/internal/pin/lexer"
	"github.com/rocketgpt/orchestrator/internal/pin/testfile"
)

// The limits of the search for tests that were renamed and edited.
const (
	// maxSimilar is the maximum number of tests without a counterpart that are compared, on each
	// side.
	maxSimilar = 200
	// maxLines is the maximum number of compared lines of a test.
	maxLines = 400
	// minSimilarity is the share of lines that two tests must have in common. With related names,
	// minSimilarityNamed is enough.
	minSimilarity, minSimilarityNamed = 0.6, 0.3
	// minTokens is the share of words and literals that two tests of a file must have in common if
	// most of their lines differ, such as after a function that they call was renamed.
	minTokens, minTokensNamed = 0.8, 0.5
	// minName is the number of letters in common by which two names are related, if the shorter one
	// has no other words.
	minName = 6
)

// candidate is a test without a counterpart.
type candidate struct {
	*testfile.Unit
	lines []lexer.Digest
	words []lexer.Digest
	name  []string
}

// matchSimilar matches tests that were renamed and edited. They are then compared as if
// only their bodies had been edited, so a renamed test that checks less is still found.
func (m *matcher) matchSimilar() {
	var before, after []candidate
	for _, p := range m.pairs {
		before = appendCandidates(before, p.before.Tests(), func(b *testfile.Unit) bool {
			return m.found[b] == nil && !m.reported[b] && !b.Empty
		})
		after = appendCandidates(after, p.after.Tests(), func(a *testfile.Unit) bool {
			return !m.taken[a] && p.after.Broken == "" && p.after.Excluded == ""
		})
	}
	for _, b := range before {
		var best *testfile.Unit
		most := 0.0
		for _, a := range after {
			if m.taken[a.Unit] || a.File.Language != b.File.Language || a.isSubtest() != b.isSubtest() {
				continue
			}
			if share, enough := b.resembles(a); enough && share >= most {
				best, most = a.Unit, share
			}
		}
		if best != nil {
			m.found[b.Unit], m.taken[best] = best, true
		}
	}
}

// appendCandidates appends the wanted tests, up to the limit.
func appendCandidates(list []candidate, tests []*testfile.Unit, wanted func(*testfile.Unit) bool) []candidate {
	for _, u := range tests {
		if len(list) < maxSimilar && wanted(u) {
			list = append(list, candidateOf(u))
		}
	}
	return list
}

func (c candidate) isSubtest() bool { return c.Parent != nil && c.Parent.Test }

// resembles returns the share of lines that two tests have in common, and whether they are
// probably the same test.
func (c candidate) resembles(o candidate) (share float64, enough bool) {
	share = similarity(c.lines, o.lines)
	sameName := len(c.name) > 0 && slices.Equal(c.name, o.name)
	if share >= minSimilarity || c.File.Path != o.File.Path && !sameName {
		return share, share >= minSimilarity
	}
	words := similarity(c.words, o.words)
	return share, words >= minTokens || (share >= minSimilarityNamed || words >= minTokensNamed) && related(c.name, o.name)
}

func candidateOf(u *testfile.Unit) candidate {
	c := candidate{Unit: u}
	if u.Source != nil {
		c.lines = u.Source.Lines(u.Text, maxLines)
		c.words = u.Source.Words(u.Text, maxLines)
	}
	title := u.Name
	if u.Parent != nil && u.Parent.Name != "" {
		title = strings.TrimPrefix(title, u.Parent.Name)
	}
	c.name = nameWords(title)
	return c
}

// similarity returns the share of digests that two lists have in common, between 0 and 1.
func similarity(a, b []lexer.Digest) float64 {
	if len(a)+len(b) == 0 {
		return 0
	}
	return 2 * float64(len(a)-missing(a, b)) / float64(len(a)+len(b))
}

// related reports whether one name has all the words of the other, in their order.
func related(a, b []string) bool {
	if len(a) > len(b) {
		a, b = b, a
	}
	found, letters := 0, 0
	for _, word := range b {
		if found < len(a) && a[found] == word {
			found++
			letters += len(word)
		}
	}
	return found == len(a) && letters >= minName
}

// wordOfName matches a word of a name in any notation: testIntWrite, test_int_write, "writes ints".
var wordOfName = regexp.MustCompile(`\p{Lu}?[\p{Ll}\p{Nd}]+|\p{Lu}+`)

// nameWords returns the words of a name, without test.
func nameWords(name string) (words []string) {
	for _, w := range wordOfName.FindAllString(name, -1) {
		if w = strings.ToLower(w); w != "test" {
			words = append(words, w)
		}
	}
	return words
}
