package pin

import (
	"path"
	"slices"

	"github.com/rocketgpt/orchestrator/internal/pin/lexer"
	"github.com/rocketgpt/orchestrator/internal/pin/testfile"
)

// matcher matches each test of before with one of after: in the same file by name, anywhere by name
// and body, anywhere by body, elsewhere by name, anywhere by similarity. Each test of after matches at most one test of
// before.
type matcher struct {
	pairs       []pair
	found       map[*testfile.Unit]*testfile.Unit
	taken       map[*testfile.Unit]bool
	reported    map[*testfile.Unit]bool // with its file
	children    map[*testfile.Unit][]*testfile.Unit
	addedCases  map[lexer.Digest]int // how many more there are after the change, in all tests
	newCases    []part               // of these, the first ones
	compared    int                  // how many cases and tests were compared with them
	newContents map[string]bool      // contents of new files
	helpers     map[key]*testfile.Unit
	added       map[*testfile.File][]*testfile.Unit // new tests by file
	becomes     map[*testfile.File]*testfile.File   // the version of a file after the change
	// addedElsewhere are the new tests in new files.
	addedElsewhere []*testfile.Unit
	gained         []gain
}

func newMatcher(pairs []pair) *matcher {
	m := &matcher{
		pairs: pairs, found: map[*testfile.Unit]*testfile.Unit{}, taken: map[*testfile.Unit]bool{}, reported: map[*testfile.Unit]bool{},
		children: map[*testfile.Unit][]*testfile.Unit{}, addedCases: map[lexer.Digest]int{}, newContents: map[string]bool{},
		helpers: map[key]*testfile.Unit{}, added: map[*testfile.File][]*testfile.Unit{},
		becomes: map[*testfile.File]*testfile.File{},
	}
	for _, p := range pairs {
		m.becomes[p.before] = p.after
		if p.file.Exists && !p.file.Existed && isRecorded(p.file.Path) {
			m.newContents[string(p.file.After)] = true
		}
		for _, u := range p.after.Units {
			if u.Parent != nil {
				m.children[u.Parent] = append(m.children[u.Parent], u)
			}
		}
	}
	return m
}

// markReported marks the tests of a file as reported.
func (m *matcher) markReported(s *testfile.File) {
	for _, u := range s.Units {
		m.reported[u] = true
	}
}

func (m *matcher) match() {
	for _, p := range m.pairs {
		names := map[string]*testfile.Unit{}
		for _, a := range p.after.Tests() {
			names[a.Name] = a
		}
		for _, b := range p.before.Tests() {
			m.take(b, []*testfile.Unit{names[b.Name]})
		}
	}
	m.matchBy(func(u *testfile.Unit) (key, bool) { return key{u.File.Language, u.Name, u.Body}, true })
	m.matchBy(func(u *testfile.Unit) (key, bool) { return key{u.File.Language, "", u.Body}, !u.Empty })
	m.matchBy(func(u *testfile.Unit) (key, bool) {
		return key{u.File.Language, u.Name, 0}, u.Parent == nil || !u.Parent.Test
	})
	m.matchSimilar()
	m.matchInPlace()
	m.recordAdded()
	m.recordCases()
	m.recordGains()
}

type key struct {
	lang string
	name string
	body lexer.Digest
}

// matchBy matches the remaining tests by a key of both sides.
func (m *matcher) matchBy(of func(*testfile.Unit) (key, bool)) {
	index := map[key][]*testfile.Unit{}
	for _, p := range m.pairs {
		for _, a := range p.after.Tests() {
			if k, ok := of(a); ok && !m.taken[a] && p.after.Broken == "" && p.after.Excluded == "" {
				index[k] = append(index[k], a)
			}
		}
	}
	for _, p := range m.pairs {
		for _, b := range p.before.Tests() {
			k, ok := of(b)
			if !ok || m.found[b] != nil || m.reported[b] {
				continue
			}
			if m.take(b, index[k]) {
				index[k] = index[k][1:]
			}
		}
	}
}

// take takes the first candidate for a test.
func (m *matcher) take(b *testfile.Unit, candidates []*testfile.Unit) bool {
	if len(candidates) == 0 || candidates[0] == nil || m.taken[candidates[0]] {
		return false
	}
	m.found[b], m.taken[candidates[0]] = candidates[0], true
	return true
}

// recordAdded records the additions in after: cases, tests, and functions that are not tests.
func (m *matcher) recordAdded() {
	for _, p := range m.pairs {
		for _, b := range p.before.Units {
			for _, r := range b.Cases {
				m.addedCases[r]--
			}
		}
		for _, a := range p.after.Units {
			for _, r := range a.Cases {
				m.addedCases[r]++
			}
			switch {
			case a.Test && !m.taken[a]:
				m.added[p.after] = append(m.added[p.after], a)
				if !p.file.Existed {
					m.addedElsewhere = append(m.addedElsewhere, a)
				}
			case !a.Test && !a.Empty:
				m.helpers[key{a.File.Language, "", a.Bare()}] = a
			}
		}
	}
}

// otherBuild reports whether the package of a test has a test of the same name and body, in a file of
// which only one was compiled with the test.
func (m *matcher) otherBuild(b *testfile.Unit) bool {
	for _, p := range m.pairs {
		if !languageOf(p.after.Path).FolderScope || p.after.Excluded != "" || p.after.Broken != "" || path.Dir(p.after.Path) != path.Dir(b.File.Path) {
			continue
		}
		for _, a := range p.after.Tests() {
			if a.Name == b.Name && a.Body == b.Body {
				return true
			}
		}
	}
	return false
}

// elsewhere finds the body of a test in a function that is not a test.
func (m *matcher) elsewhere(b *testfile.Unit) *testfile.Unit {
	if b.Empty {
		return nil
	}
	return m.helpers[key{b.File.Language, "", b.Bare()}]
}

// The limits of the search for the other half of a test that was split: new tests of
// the file, and checks in one.
const (
	maxSplit       = 50
	maxSplitChecks = 200
)

// split reports whether all checks that a test lost, at least two, are in one new test of its file
// or of a new file.
// A single check proves nothing: many tests end with the same check.
func (m *matcher) split(b, a *testfile.Unit) bool {
	lost := missing(texts(b), texts(a))
	if lost < 2 {
		return false
	}
	for i, u := range slices.Concat(m.added[a.File], m.addedElsewhere) {
		if i >= maxSplit {
			break
		}
		if u.File.Language != a.File.Language || len(u.Checks) > maxSplitChecks {
			continue
		}
		if missing(texts(b), append(texts(a), texts(u)...)) == 0 && len(u.Checks) >= lost && len(allSkips(u)) == 0 {
			return true
		}
	}
	return false
}

// scattered reports whether new tests of a file contain all strings that a test lost, at least minTexts of
// them, and as many checks.
func (m *matcher) scattered(b, a *testfile.Unit, lost int) bool {
	if b.Source == nil || a.Source == nil {
		return false
	}
	gone := more(b.Source.Texts(b.Text, maxLines), a.Source.Texts(a.Text, maxLines))
	if len(count(gone)) < minTexts {
		return false
	}
	var have []lexer.Digest
	for i, u := range m.added[a.File] {
		if i >= maxSplit {
			break
		}
		if len(u.Checks) > 0 && u.Source != nil && len(allSkips(u)) == 0 {
			have = append(have, u.Source.Texts(u.Text, maxLines)...)
			lost -= len(u.Checks)
		}
	}
	return lost <= 0 && missing(gone, have) == 0
}

// distributed reports whether new tests of its file have all checks of a test that is gone, at least
// minDistributed different ones.
func (m *matcher) distributed(b *testfile.Unit) bool {
	checks := texts(b)
	if len(b.Cases) > 0 || len(checks) > maxSplitChecks || len(count(checks)) < minDistributed {
		return false
	}
	var have []lexer.Digest
	for i, u := range m.added[m.becomes[b.File]] {
		if i >= maxSplit {
			break
		}
		if len(allSkips(u)) == 0 && len(u.Checks) <= maxSplitChecks {
			have = append(have, texts(u)...)
		}
	}
	return missing(checks, have) == 0
}

// minDistributed is the number of different checks by which a test is recognized that became several.
const minDistributed = 3

// merged reports whether one test now does what a test did that is gone: it has gained all of its
// checks, at least two, or all cases of its table, or has a new case for it.
func (m *matcher) merged(b *testfile.Unit) bool {
	if m.becameCase(b) || m.distributed(b) {
		return true
	}
	for i, g := range m.gained {
		switch {
		case i >= maxSplit:
			return false
		case g.test.File.Language != b.File.Language:
		case len(b.Cases) > 0 && missing(b.Cases, g.cases) == 0 && missing(texts(b), texts(g.test)) == 0,
			len(b.Cases) == 0 && len(b.Checks) > 1 && missing(texts(b), g.checks) == 0:
			return true
		}
	}
	return false
}

// gain is the checks and cases that a test has gained.
type gain struct {
	test          *testfile.Unit
	checks, cases []lexer.Digest
}

// recordGains records what tests gained that are not skipped.
func (m *matcher) recordGains() {
	for _, p := range m.pairs {
		for _, b := range p.before.Tests() {
			a := m.found[b]
			if a == nil || len(a.Checks) > maxSplitChecks || len(a.Checks)+len(a.Cases) <= len(b.Checks)+len(b.Cases) || len(allSkips(a)) > 0 {
				continue
			}
			m.gained = append(m.gained, gain{a, more(texts(a), texts(b)), more(a.Cases, b.Cases)})
		}
	}
}

// gainedIn returns the number of checks that tests of a file have gained. Checks of a helper may have
// moved there; tests that call it are judged with its checks anyway.
func (m *matcher) gainedIn(s *testfile.File) (n int) {
	for _, g := range m.gained {
		if g.test.File == s {
			n += len(g.checks)
		}
	}
	return n
}

// awaitsGainedIn returns the number of calls that the tests of a file now await.
func (m *matcher) awaitsGainedIn(s *testfile.File) (n int) {
	for _, b := range s.Tests() {
		if a := m.found[b]; a != nil {
			n += max(0, a.Awaits-b.Awaits)
		}
	}
	return n
}

// more returns the digests that are not among the others.
func more(of, among []lexer.Digest) (out []lexer.Digest) {
	have := count(among)
	for _, d := range of {
		if have[d] > 0 {
			have[d]--
		} else {
			out = append(out, d)
		}
	}
	return out
}
