package pin

import (
	"cmp"
	"slices"
	"strings"

	"github.com/rocketgpt/orchestrator/internal/pin/lexer"
	"github.com/rocketgpt/orchestrator/internal/pin/testfile"
)

// replaced reports whether new checks took the place of those that a test lost, but for at most one: two
// checks of parts of a value often become one of the whole. A check that was only edited replaces no
// other, and those that hold for nearly any value neither count as lost nor replace others.
func replaced(b, a *testfile.Unit) bool {
	lost, gained := onlyIn(b, a), onlyIn(a, b)
	if len(lost) > maxSplitChecks || len(gained) > maxSplitChecks {
		return false
	}
	rest := unpaired(lost, gained, editedCheck)
	added := len(gained) - (len(lost) - rest)
	return added > 0 && rest-added <= 1
}

// rewritten reports whether a test compares all strings that it compared before, at least minTexts of them, and
// has new checks for at least half of those that it lost: the values that it checks now have another form.
func rewritten(b, a *testfile.Unit) bool {
	lost, gained := onlyIn(b, a), onlyIn(a, b)
	if len(lost) > maxSplitChecks || len(gained) > maxSplitChecks || 2*len(gained) < len(lost) {
		return false
	}
	compared := func(u *testfile.Unit, checks []part) (out []lexer.Digest) {
		for _, c := range checks {
			out = append(out, u.Source.Texts(c.text, maxCaseWords)...)
		}
		return out
	}
	were := compared(b, lost)
	return len(count(were)) >= minTexts && missing(were, compared(a, gained)) == 0
}

// minTexts is the number of different strings by which parts of tests are recognized.
const minTexts = 2

// onlyIn returns the checks of a test that another one lacks, without those that hold for nearly any
// value.
func onlyIn(u, other *testfile.Unit) (out []part) {
	have := count(texts(other))
	for _, c := range u.Checks {
		switch {
		case have[c.Digest] > 0:
			have[c.Digest]--
		case !c.Vague:
			p := part{digest: c.Digest, text: c.Text}
			if u.Source != nil {
				p.words = u.Source.Words(c.Text, maxCaseWords)
				slices.Sort(p.words)
			}
			out = append(out, p)
		}
	}
	return out
}

// shorterLoop returns the bounds before and after of a loop with checks that now has fewer iterations; all
// other loops must have the same bounds, or smaller ones.
func (j *judge) shorterLoop(b, a *testfile.Unit) (was, is int) {
	if len(b.Loops) != len(a.Loops) {
		return 0, 0
	}
	for i, l := range b.Loops {
		n := a.Loops[i]
		if n.Head != l.Head || n.Most > l.Most {
			return 0, 0
		}
		if n.Most < l.Most && was == 0 && j.before.Checks(b, l) {
			was, is = l.Most, n.Most
		}
	}
	return was, is
}

// editedCheck reports whether two checks differ in at most one word or literal, such as the expected value.
func editedCheck(b, a part) (share float64, is bool) {
	share = similarity(b.words, a.words)
	same := int(share*float64(len(b.words)+len(a.words))/2 + 0.5)
	return share, same > 0 && max(len(b.words), len(a.words)) <= same+1
}

// part is a part of a test that is compared with others: a check, or a case of a table.
type part struct {
	digest lexer.Digest
	first  lexer.Digest   // its first literal of several words, which often names it
	words  []lexer.Digest // sorted
	text   lexer.Span     // of a check
	in     *testfile.Unit // of a new case
	body   []lexer.Digest // words of that test, sorted
}

// unpaired returns the number of parts that have become none of the others.
func unpaired(gone, added []part, edited func(b, a part) (share float64, is bool)) (lost int) {
	become, _ := pairParts(gone, added, edited)
	for _, known := range become {
		if !known {
			lost++
		}
	}
	return lost
}

// pairParts finds parts that were edited: it reports for each part whether it has become one of the
// others, and for each of these whether it was one before. Each of the others is the edited version of
// at most one part, the most similar one.
func pairParts(gone, added []part, edited func(b, a part) (share float64, is bool)) (become, were []bool) {
	type pair struct {
		gone, added int
		share       float64
	}
	var pairs []pair
	for i, g := range gone {
		for k, a := range added {
			if share, is := edited(g, a); is {
				pairs = append(pairs, pair{i, k, share})
			}
		}
	}
	slices.SortStableFunc(pairs, func(x, y pair) int { return cmp.Compare(y.share, x.share) })
	become, were = make([]bool, len(gone)), make([]bool, len(added))
	for _, p := range pairs {
		if !become[p.gone] && !were[p.added] {
			become[p.gone], were[p.added] = true, true
		}
	}
	return become, were
}

// becamePart reports whether a benchmark that is gone became part of a new one in its file: it only called a
// function, which is also gone, and the new one has the words of that function, runs them for several
// values, and has the beginning of its name. Benchmarks check nothing, so no check is lost.
func (j *judge) becamePart(b *testfile.Unit, m *matcher) bool {
	if len(b.Cases) > 0 || len(b.Calls) == 0 || j.before.Tally(b).Total > 0 {
		return false
	}
	callees := j.before.Callees(b, b.Calls[0].Key)
	if len(callees) != 1 || callees[0].File != b.File || callees[0].Test || callees[0].Source == nil || m.compared >= maxCompared {
		return false
	}
	m.compared++
	f, after := callees[0], m.becomes[b.File]
	if slices.ContainsFunc(after.Units, func(u *testfile.Unit) bool { return u.Key == f.Key }) {
		return false
	}
	words := sortedWords(f)
	return len(words) >= minBody && slices.ContainsFunc(m.added[after][:min(len(m.added[after]), maxSplit)], func(a *testfile.Unit) bool {
		several := len(a.Cases) > 1 || slices.ContainsFunc(a.Loops, func(l testfile.Loop) bool { return l.Most > 1 })
		return several && a.Source != nil && strings.HasPrefix(b.Name, a.Name) && len(allSkips(a)) == 0 &&
			float64(common(words, sortedWords(a))) >= minOwn*float64(len(words))
	})
}

// sortedWords returns the words and literals of a function.
func sortedWords(u *testfile.Unit) []lexer.Digest {
	words := u.Source.Words(u.Text, maxLines)
	slices.Sort(words)
	return words
}
