package pin

// matcher finds each test of before among those of after: in its file by its
// name, anywhere by name and body, anywhere by body, elsewhere by name. Each
// test of after answers for one of before.
type matcher struct {
	pairs     []pair
	found     map[*unit]*unit
	taken     map[*unit]bool
	covered   map[*unit]bool // told of already, with its file
	children  map[*unit][]*unit
	addedRows map[digest]int
	content   map[string]bool // contents of files that are new
	helpers   map[key]*unit
	fresh     map[*suite][]*unit // tests that are new, by file
}

func newMatcher(pairs []pair) *matcher {
	m := &matcher{
		pairs: pairs, found: map[*unit]*unit{}, taken: map[*unit]bool{}, covered: map[*unit]bool{},
		children: map[*unit][]*unit{}, addedRows: map[digest]int{}, content: map[string]bool{},
		helpers: map[key]*unit{}, fresh: map[*suite][]*unit{},
	}
	for _, p := range pairs {
		if p.file.Exists && !p.file.Existed && isRecorded(p.file.Path) {
			m.content[string(p.file.After)] = true
		}
		for _, u := range p.after.units {
			if u.parent != nil {
				m.children[u.parent] = append(m.children[u.parent], u)
			}
		}
	}
	return m
}

// cover marks the tests of a file as told of.
func (m *matcher) cover(s *suite) {
	for _, u := range s.units {
		m.covered[u] = true
	}
}

func (m *matcher) match() {
	for _, p := range m.pairs {
		names := map[string]*unit{}
		for _, a := range p.after.tests() {
			names[a.name] = a
		}
		for _, b := range p.before.tests() {
			m.pick(b, []*unit{names[b.name]})
		}
	}
	m.by(func(u *unit) (key, bool) { return key{u.suite.lang, u.name, u.body}, true })
	m.by(func(u *unit) (key, bool) { return key{u.suite.lang, "", u.body}, !u.blank })
	m.by(func(u *unit) (key, bool) { return key{u.suite.lang, u.name, 0}, u.parent == nil || !u.parent.test })
	m.differences()
}

type key struct {
	lang string
	name string
	body digest
}

// by matches what is left by a key of both sides.
func (m *matcher) by(of func(*unit) (key, bool)) {
	index := map[key][]*unit{}
	for _, p := range m.pairs {
		for _, a := range p.after.tests() {
			if k, ok := of(a); ok && !m.taken[a] && p.after.broken == "" && p.after.off == "" {
				index[k] = append(index[k], a)
			}
		}
	}
	for _, p := range m.pairs {
		for _, b := range p.before.tests() {
			k, ok := of(b)
			if !ok || m.found[b] != nil || m.covered[b] {
				continue
			}
			if m.pick(b, index[k]) {
				index[k] = index[k][1:]
			}
		}
	}
}

// pick takes the first candidate for a test.
func (m *matcher) pick(b *unit, candidates []*unit) bool {
	if len(candidates) == 0 || candidates[0] == nil || m.taken[candidates[0]] {
		return false
	}
	m.found[b], m.taken[candidates[0]] = candidates[0], true
	return true
}

// differences notes what is new in after: cases, tests, and functions that no
// test run picks up.
func (m *matcher) differences() {
	for _, p := range m.pairs {
		for _, b := range p.before.units {
			for _, r := range b.rows {
				m.addedRows[r]--
			}
		}
		for _, a := range p.after.units {
			for _, r := range a.rows {
				m.addedRows[r]++
			}
			switch {
			case a.test && !m.taken[a]:
				m.fresh[p.after] = append(m.fresh[p.after], a)
			case !a.test && !a.blank:
				m.helpers[key{a.suite.lang, "", a.body}] = a
			}
		}
	}
}

// elsewhere finds the body of a test in a function that is no test.
func (m *matcher) elsewhere(b *unit) *unit {
	if b.blank {
		return nil
	}
	return m.helpers[key{b.suite.lang, "", b.body}]
}

// The bounds of the search for the other half of a test that was split: new
// tests of the file, and checks in one.
const (
	maxSplit       = 50
	maxSplitChecks = 200
)

// split: all checks that a test lost, two or more, stand in one new test of
// its file. A single check proves nothing: many tests end with the same one.
func (m *matcher) split(b, a *unit) bool {
	lost := missing(texts(b), texts(a))
	if lost < 2 {
		return false
	}
	for i, u := range m.fresh[a.suite] {
		if i >= maxSplit {
			break
		}
		if len(u.checks) > maxSplitChecks {
			continue
		}
		if missing(texts(b), append(texts(a), texts(u)...)) == 0 && len(u.checks) >= lost && len(allSkips(u)) == 0 {
			return true
		}
	}
	return false
}
