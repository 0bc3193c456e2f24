package pin

import (
	"cmp"
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
	// minTokensElsewhere is that share for tests of different files, if they have at least
	// minWordsElsewhere words and literals.
	minTokensElsewhere, minWordsElsewhere = 0.85, 12
	// minName is the number of letters in common by which two names are related, if the shorter one
	// has no other words.
	minName = 6
	// minNames is the share of words that the names of two tests in the same place must have in common.
	minNames = 0.6
	// minNamesInPlace is that share if there is only one new test in their place.
	minNamesInPlace = 0.45
	// minRenamed is the number of words and literals that make a text long enough to recognize
	// that only names in it have changed, and maxRenamed the number of such names.
	minRenamed, maxRenamed = 8, 2
	// minPlural is the length over which a word that ends with s is a plural.
	minPlural = 3
)

// candidate is a test without a counterpart.
type candidate struct {
	*testfile.Unit
	order  []lexer.Digest // of words and literals
	lines  []lexer.Digest // sorted
	words  []lexer.Digest // sorted
	name   []string
	of     int // index of its pair of files
	at     int // index among the tests of its file
	lo, hi int // indexes in the other file between which its neighbours leave place for it
	// outer is the innermost group around a test that existed before the change, if it is not the
	// test's own group, and inGroups is its name with those of the new groups.
	outer    *testfile.Unit
	inGroups []string
}

// matchSimilar matches tests that were renamed and edited, the most similar first. They are then
// compared as if only their bodies had been edited, so a renamed test that checks less is still
// found.
func (m *matcher) matchSimilar() {
	var before, after []candidate
	for i := range m.pairs {
		before, after = m.appendFree(i, before, after)
	}
	type match struct {
		b, a  *testfile.Unit
		share float64
	}
	var matches []match
	for _, b := range before {
		for _, a := range after {
			if a.File.Language != b.File.Language || a.isSubtest() != b.isSubtest() {
				continue
			}
			if share, enough := m.resemble(b, a); enough {
				matches = append(matches, match{b.Unit, a.Unit, share})
			}
		}
	}
	slices.SortStableFunc(matches, func(x, y match) int { return cmp.Compare(y.share, x.share) })
	for _, x := range matches {
		if m.found[x.b] == nil && !m.taken[x.a] {
			m.found[x.b], m.taken[x.a] = x.a, true
		}
	}
}

// matchInPlace matches tests that are gone with the only new test in their place, if it has some of their
// words.
func (m *matcher) matchInPlace() {
	for i := range m.pairs {
		before, after := m.appendFree(i, nil, nil)
		for _, b := range before {
			rivals := 0
			for _, o := range before {
				if o.lo == b.lo && o.hi == b.hi && m.sameGroup(o.Parent, b.Parent) {
					rivals++
				}
			}
			here := slices.DeleteFunc(slices.Clone(after), func(a candidate) bool {
				return a.at <= b.lo || b.hi <= a.at || !m.sameGroup(b.Parent, a.Parent)
			})
			if rivals == 1 && len(here) == 1 && b.replacedBy(here[0]) {
				m.take(b.Unit, []*testfile.Unit{here[0].Unit})
			}
		}
	}
}

// replacedBy reports whether a test may have replaced another one in its place.
func (c candidate) replacedBy(a candidate) bool {
	return similarity(c.words, a.words) >= minSimilarityNamed && sharedWords(c.name, a.name) >= minNamesInPlace && negates(c.name) == negates(a.name)
}

// places returns for each test of a file before the change the indexes of the tests in the file after
// it that its nearest neighbours with a counterpart there have.
func (m *matcher) places(p pair) [][2]int {
	at := map[*testfile.Unit]int{}
	for i, a := range p.after.Tests() {
		at[a] = i
	}
	tests := p.before.Tests()
	out := make([][2]int, len(tests))
	last := -1
	for i, b := range tests {
		out[i][0] = last
		if k, ok := at[m.found[b]]; ok {
			last = k
		}
	}
	last = len(at)
	for i, b := range slices.Backward(tests) {
		out[i][1] = last
		if k, ok := at[m.found[b]]; ok {
			last = k
		}
	}
	return out
}

// appendFree appends the tests of a pair of files that have no counterpart, up to the limit.
func (m *matcher) appendFree(of int, before, after []candidate) (b, a []candidate) {
	p := m.pairs[of]
	places, groups := m.places(p), groupsOf(p.before)
	b = appendCandidates(before, p.before.Tests(), func(at int, u *testfile.Unit) (candidate, bool) {
		return candidate{Unit: u, of: of, at: at, lo: places[at][0], hi: places[at][1]}, m.found[u] == nil && !m.reported[u] && !u.Empty
	})
	a = appendCandidates(after, p.after.Tests(), func(at int, u *testfile.Unit) (candidate, bool) {
		c := candidate{Unit: u, of: of, at: at}
		c.findOuter(groups)
		return c, !m.taken[u] && p.after.Broken == "" && p.after.Excluded == ""
	})
	return b, a
}

// appendCandidates appends the wanted tests, up to the limit.
func appendCandidates(list []candidate, tests []*testfile.Unit, wanted func(at int, u *testfile.Unit) (candidate, bool)) []candidate {
	for at, u := range tests {
		if len(list) == maxSimilar {
			break
		}
		if c, ok := wanted(at, u); ok {
			c.read()
			list = append(list, c)
		}
	}
	return list
}

func (c candidate) isSubtest() bool { return c.Parent != nil && c.Parent.Test }

// resemble returns how similar two tests are, and whether they are probably the same test.
func (m *matcher) resemble(b, a candidate) (share float64, enough bool) {
	lines, words := similarity(b.lines, a.lines), similarity(b.words, a.words)
	names := sharedWords(b.name, a.name)
	share = lines + words + names
	sameName := len(b.name) > 0 && slices.Equal(b.name, a.name)
	switch {
	case lines >= minSimilarity:
		return share, true
	case sameName && a.of == b.of && similarity(distinct(b.words), distinct(a.words)) >= minSimilarityNamed && related(b.name, a.name): // in another group
		return share, true
	case a.File.Path != b.File.Path && !sameName:
		return share, words >= minTokensElsewhere && min(len(b.words), len(a.words)) >= minWordsElsewhere
	case words >= minTokens, (lines >= minSimilarityNamed || words >= minTokensNamed) && related(b.name, a.name):
		return share, true
	}
	group := a.Parent
	if a.outer != nil {
		group, names = a.outer, max(names, sharedWords(b.name, a.inGroups))
	}
	place := a.of == b.of && b.lo < a.at && a.at < b.hi && (m.sameGroup(b.Parent, a.Parent) || m.sameGroup(b.Parent, group)) &&
		(len(b.Cases) == 0 || missing(b.Cases, a.Cases) < len(b.Cases))
	return share, place && (related(b.name, a.name) || names >= minNames && words >= minTokensNamed || words >= minSimilarityNamed && onlyRenames(b.order, a.order))
}

// groupsOf returns the names of the groups of a file.
func groupsOf(s *testfile.File) map[string]bool {
	out := map[string]bool{}
	for _, u := range s.Units {
		if !u.Test {
			out[u.Name] = true
		}
	}
	return out
}

// findOuter finds the group around the new groups around a test.
func (c *candidate) findOuter(groups map[string]bool) {
	g := c.Parent
	for depth := 0; g != nil && !g.Test && g.Name != "" && !groups[g.Name] && depth < testfile.MaxDepth; depth++ {
		c.outer = g.Parent
		g = g.Parent
	}
	if c.outer != nil {
		c.inGroups = nameWords(strings.TrimPrefix(c.Name, c.outer.Name))
	}
}

// distinct returns the digests of a sorted list without repetitions.
func distinct(sorted []lexer.Digest) []lexer.Digest { return slices.Compact(slices.Clone(sorted)) }

// sameGroup reports whether two groups, or tests with subtests, are the same before and after.
func (m *matcher) sameGroup(b, a *testfile.Unit) bool {
	if b == nil || a == nil {
		return (b == nil || b.Name == "") && (a == nil || a.Name == "")
	}
	return b.Name == a.Name || m.found[b] == a
}

// read reads the text and the name of a candidate.
func (c *candidate) read() {
	if c.Source != nil {
		c.lines = c.Source.Lines(c.Text, maxLines)
		c.order = c.Source.Words(c.Text, maxLines)
		c.words = slices.Clone(c.order)
		slices.Sort(c.lines)
		slices.Sort(c.words)
	}
	title := c.Name
	if c.Parent != nil && c.Parent.Name != "" {
		title = strings.TrimPrefix(title, c.Parent.Name)
	}
	c.name = nameWords(title)
}

// similarity returns the share of digests that two sorted lists have in common, between 0 and 1.
func similarity(a, b []lexer.Digest) float64 {
	if len(a)+len(b) == 0 {
		return 0
	}
	return 2 * float64(common(a, b)) / float64(len(a)+len(b))
}

// common returns the number of digests that two sorted lists have in common.
func common(a, b []lexer.Digest) (same int) {
	for i, j := 0, 0; i < len(a) && j < len(b); {
		switch {
		case a[i] == b[j]:
			same++
			i++
			j++
		case a[i] < b[j]:
			i++
		default:
			j++
		}
	}
	return same
}

// onlyRenames reports whether two texts differ only in words that are replaced by others throughout,
// such as after the type under test was renamed.
func onlyRenames(a, b []lexer.Digest) bool {
	if len(a) != len(b) || len(a) < minRenamed {
		return false
	}
	to, from := map[lexer.Digest]lexer.Digest{}, map[lexer.Digest]lexer.Digest{}
	renamed := 0
	for i := range a {
		x, known := to[a[i]]
		y, taken := from[b[i]]
		if known && x != b[i] || taken && y != a[i] {
			return false
		}
		to[a[i]], from[b[i]] = b[i], a[i]
		if !known && a[i] != b[i] {
			renamed++
		}
	}
	return renamed <= maxRenamed
}

// sharedWords returns the share of words that two names have in common, between 0 and 1.
func sharedWords(a, b []string) float64 {
	if len(a)+len(b) == 0 {
		return 0
	}
	same := 0
	rest := slices.Clone(b)
	for _, w := range a {
		if i := slices.Index(rest, w); i >= 0 {
			same++
			rest = slices.Delete(rest, i, i+1)
		}
	}
	return 2 * float64(same) / float64(len(a)+len(b))
}

// related reports whether one name has all the words of the other, in their order, and none that
// says the opposite.
func related(a, b []string) bool {
	if len(a) > len(b) {
		a, b = b, a
	}
	found, letters := 0, 0
	for _, word := range b {
		if found < len(a) && a[found] == word {
			found++
			letters += len(word)
		} else if negations[word] {
			return false
		}
	}
	return found == len(a) && letters >= minName
}

// negates reports whether a name says that something does not happen.
func negates(name []string) bool {
	return slices.ContainsFunc(name, func(w string) bool { return negations[w] })
}

// wordOfName matches a word of a name in any notation: testIntWrite, test_int_write, "writes ints".
var wordOfName = regexp.MustCompile(`\p{Lu}?[\p{Ll}\p{Nd}]+|\p{Lu}+`)

// negations are words that make the name of a test that of another one.
var negations = lexer.Set("not non no never without cannot doesn don isn")

// nameWords returns the words of a name in the singular, without test.
func nameWords(name string) (words []string) {
	for _, w := range wordOfName.FindAllString(name, -1) {
		if w = strings.ToLower(w); w != "test" {
			if len(w) > minPlural {
				w = strings.TrimSuffix(w, "s")
			}
			words = append(words, w)
		}
	}
	return words
}
