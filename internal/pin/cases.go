package pin

import (
	"slices"

	"github.com/rocketgpt/orchestrator/internal/pin/lexer"
	"github.com/rocketgpt/orchestrator/internal/pin/testfile"
)

// The limits of the comparison of table cases.
const (
	// maxChangedCases is the maximum number of cases of a table that are gone, or new, and still
	// compared. In a table with more, only the number of cases counts.
	maxChangedCases = 300
	// maxCaseWords is the maximum number of compared words and literals of a case.
	maxCaseWords = 200
	// minSimilarCase is the share of words and literals that an edited case keeps.
	minSimilarCase = 0.5
	// minMovedCase is the share of words and literals that a case keeps which moved to another table, and
	// minMovedWords their least number.
	minMovedCase, minMovedWords = 0.7, 4
	// minOwn is the share of the words of a case that a test has from which it was made, and of the
	// other words of that test, at least minBody, that the test with the table has.
	minOwn, minBody = 0.65, 5
	// maxCompared is the maximum number of cases and tests that are gone and compared with new cases.
	maxCompared = 1000
)

// lostCases returns the number of removed table cases that are neither in another test nor were
// edited. If most cases have changed, the table was rewritten, and only their number counts.
func (m *matcher) lostCases(b, a *testfile.Unit) int {
	changed, added := more(b.Cases, a.Cases), more(a.Cases, b.Cases)
	var gone []lexer.Digest
	for _, c := range changed {
		if m.addedCases[c] < 0 {
			gone = append(gone, c)
		}
	}
	many := len(gone) > maxChangedCases || len(added) > maxChangedCases
	if fewer := len(b.Cases) - len(a.Cases) - (len(changed) - len(gone)); fewer > 0 {
		if !many {
			fewer -= m.movedCases(b.File, gone, added)
		}
		return max(0, fewer)
	}
	if many || 2*len(changed) > len(b.Cases) {
		return 0
	}
	return unpaired(readCases(b.File, gone), readCases(a.File, added), editedCase)
}

// editedCase reports whether two cases begin with the same literal, such as a name, or are similar.
func editedCase(b, a part) (share float64, is bool) {
	share = similarity(b.words, a.words)
	if b.first != 0 && b.first == a.first {
		share++
	}
	return share, share >= minSimilarCase
}

// movedCases returns the number of cases that other tests have gained with few changes.
func (m *matcher) movedCases(of *testfile.File, gone, here []lexer.Digest) (moved int) {
	for _, g := range readCases(of, gone) {
		if m.compared++; m.compared > maxCompared {
			break
		}
		i := slices.IndexFunc(m.newCases, func(n part) bool {
			return len(g.words) >= minMovedWords && !idle(n.in) && similarity(g.words, n.words) >= minMovedCase && !slices.Contains(here, n.digest)
		})
		if i >= 0 {
			moved++
			m.newCases = slices.Delete(m.newCases, i, i+1)
		}
	}
	return moved
}

// recordCases records the cases that tests have gained.
func (m *matcher) recordCases() {
	for _, p := range m.pairs {
		for _, a := range p.after.Tests() {
			var body []lexer.Digest
			for _, c := range a.Cases {
				if m.addedCases[c] > 0 && len(m.newCases) < maxChangedCases {
					added := readCases(p.after, []lexer.Digest{c})[0]
					if body == nil && a.Source != nil {
						body = a.Source.Words(a.Text, maxLines)
						slices.Sort(body)
					}
					added.in, added.body = a, body
					m.newCases = append(m.newCases, added)
				}
			}
		}
	}
}

// becameCase reports whether a test that is gone became a new case of a test in its file: it has the words of
// the case, and the other test has its other words and at least as many checks. Each case stands for
// one test.
func (m *matcher) becameCase(b *testfile.Unit) bool {
	if len(b.Cases) > 0 || b.Source == nil {
		return false
	}
	if m.compared++; m.compared > maxCompared {
		return false
	}
	words := b.Source.Words(b.Text, maxLines)
	slices.Sort(words)
	for i, c := range m.newCases {
		own := common(words, c.words)
		if own == 0 || float64(own) < minOwn*float64(len(c.words)) || c.in.File.Path != b.File.Path || len(c.in.Checks) < len(b.Checks) || len(allSkips(c.in)) > 0 {
			continue
		}
		rest := more(words, c.words)
		slices.Sort(rest)
		if len(rest) >= minBody && float64(common(rest, c.body)) >= minOwn*float64(len(rest)) {
			m.newCases = slices.Delete(m.newCases, i, i+1)
			return true
		}
	}
	return false
}

// readCases returns cases with their words.
func readCases(s *testfile.File, cases []lexer.Digest) []part {
	out := make([]part, 0, len(cases))
	for _, d := range cases {
		c := part{digest: d, words: s.CaseWords(d, maxCaseWords)}
		if len(c.words) > 1 {
			c.first = s.CaseName(d)
		}
		slices.Sort(c.words)
		out = append(out, c)
	}
	return out
}
