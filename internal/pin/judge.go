package pin

import (
	"bytes"
	"fmt"
	"path"
	"slices"

	"github.com/rocketgpt/orchestrator/contract"
)

// judge holds both sides of a change until all of it is known: a test may have
// moved to another file.
type judge struct {
	pairs    []pair
	before   *side
	after    *side
	problems []Problem
}

// pair is a file in its two versions. A version that is absent, of no known
// language, or no place for tests has no units.
type pair struct {
	file          File
	before, after *suite
}

func newJudge() *judge { return &judge{before: newSide(), after: newSide()} }

func (j *judge) report(kind Kind, test, file string, line int, format string, args ...any) {
	severity := contract.SeverityMajor
	if kind == Edited {
		severity = contract.SeverityMedium
	}
	j.problems = append(j.problems, Problem{
		Kind: kind, Test: clean(test), Path: file, Line: line, Severity: severity, Message: fmt.Sprintf(format, args...),
	})
}

// add takes in a file and judges what concerns it alone.
func (j *judge) add(f File) {
	if f.Path == "" || !f.Existed && !f.Exists {
		return
	}
	if len(f.Before) > MaxFileBytes || len(f.After) > MaxFileBytes {
		j.oversize(f)
		return
	}
	if !f.same() {
		j.config(f)
	}
	if isRecorded(f.RenamedFrom) {
		j.recorded(f)
		return
	}
	p := pair{file: f, before: &suite{path: f.RenamedFrom}, after: &suite{path: f.Path}}
	if f.Existed && (runs(f.RenamedFrom) || supports(f.RenamedFrom)) {
		p.before = parse(f.RenamedFrom, f.Before)
	}
	if f.Exists && !isRecorded(f.Path) {
		p.after = parse(f.Path, f.After)
	}
	j.before.learn(p.before)
	j.after.learn(p.after)
	j.pairs = append(j.pairs, p)
}

// parse understands a file by its language.
func parse(p string, data []byte) *suite {
	l := languageOf(p)
	s := &suite{path: p, lang: l.name, scope: l.name + ":"}
	if l.folderScope {
		s.scope += path.Dir(p) + ":"
	}
	if l.parse != nil {
		l.parse(s, bytes.TrimPrefix(data, []byte("\xef\xbb\xbf")))
	}
	if !runs(p) {
		for _, u := range s.units {
			u.test = false
		}
	}
	s.distinct()
	return s
}

// oversize judges what is too large to be understood.
func (j *judge) oversize(f File) {
	switch {
	case f.same() || !f.Existed || !Watches(f.RenamedFrom):
	case !f.Exists:
		j.report(Deleted, "", f.Path, 0, "%s is deleted; with more than %d bytes it was too large to see what it tested", clean(f.Path), MaxFileBytes)
	case len(f.Before) <= MaxFileBytes:
		j.report(Weakened, "", f.Path, 0, "%s has grown to more than %d bytes, too large to see what it still tests; split it", clean(f.Path), MaxFileBytes)
	default:
		j.report(Edited, "", f.Path, 0, "%s is changed; with more than %d bytes it is too large to say how", clean(f.Path), MaxFileBytes)
	}
}

// recorded judges a file that tests compare with. Whether its content lives on
// elsewhere is known only at the end.
func (j *judge) recorded(f File) {
	j.pairs = append(j.pairs, pair{file: f, before: &suite{}, after: &suite{}})
}

func (j *judge) judge() {
	m := newMatcher(j.pairs)
	for _, p := range j.pairs {
		j.whole(p, m)
	}
	m.match()
	for _, p := range j.pairs {
		for _, b := range p.before.units {
			if b.test && !m.covered[b] {
				j.unit(p, b, m)
			}
		}
		j.support(p)
	}
}

// whole judges what happens to a file as a whole.
func (j *judge) whole(p pair, m *matcher) {
	f := p.file
	if f.same() {
		return
	}
	if isRecorded(f.RenamedFrom) {
		j.record(f, m)
		return
	}
	j.solo(p)
	if p.after.stops != "" && p.before.stops == "" {
		j.report(Excluded, "", f.Path, 0, "%s keeps tests from running or failing: %s", clean(f.Path), p.after.stops)
	}
	if p.after.off != "" && p.before.off != p.after.off && len(p.before.tests()) > 0 {
		j.report(Excluded, "", f.Path, 0, "%s is kept out of the test run: %s", clean(f.Path), clean(p.after.off))
		m.cover(p.before)
	}
	if p.before.broken != "" && f.Existed {
		kind, what := Edited, "changed"
		if !f.Exists {
			kind, what = Deleted, "deleted"
		}
		j.report(kind, "", f.Path, 0, "%s is %s; it was no valid code, so nobody can say what it tested: %s", clean(f.Path), what, clean(p.before.broken))
		return
	}
	if p.after.broken != "" && len(p.before.tests()) > 0 {
		j.report(Weakened, "", f.Path, 0, "%s is no valid code any more, so none of its %d tests runs: %s",
			clean(f.Path), len(p.before.tests()), clean(p.after.broken))
		m.cover(p.before)
	}
}

func (j *judge) record(f File, m *matcher) {
	name := clean(f.RenamedFrom)
	switch {
	case !f.Existed:
	case bytes.Equal(f.Before, f.After) && f.Exists:
		if !isRecorded(f.Path) {
			j.report(RenamedAway, "", f.Path, 0, "%s, which tests compare with, is moved to where they do not look for it", name)
		}
	case !f.Exists && m.content[string(f.Before)]:
	case !f.Exists:
		j.report(Deleted, "", f.Path, 0, "%s is deleted, with which tests compare", name)
	case len(bytes.TrimSpace(f.After)) == 0 && len(bytes.TrimSpace(f.Before)) > 0:
		j.report(Emptied, "", f.Path, 0, "%s is empty, with which tests compare", name)
	default:
		j.report(Edited, "", f.Path, 0, "%s is changed: what tests expect is not what it was", name)
	}
}

// solo judges tests that keep all others from running.
func (j *judge) solo(p pair) {
	if len(p.after.solo) <= len(p.before.solo) {
		return
	}
	u := p.after.solo[len(p.before.solo)]
	j.report(Skipped, u.name, p.file.Path, u.line, "%s runs alone (only): all other tests are skipped", clean(u.name))
}

// unit judges what became of one test.
func (j *judge) unit(p pair, b *unit, m *matcher) {
	a := m.found[b]
	if a != nil {
		j.compare(b, a, m)
		return
	}
	if b.parent != nil && b.parent.test && m.found[b.parent] == nil {
		return // told with the test around it
	}
	name := clean(b.name)
	if away := m.elsewhere(b); away != nil {
		j.report(RenamedAway, b.name, away.suite.path, away.line, "%s is now %s in %s, which no test run picks up",
			name, clean(away.name), clean(away.suite.path))
		return
	}
	if p.file.Exists && p.file.RenamedFrom != p.file.Path && !runs(p.file.Path) {
		j.report(RenamedAway, b.name, p.file.Path, 0, "%s was in %s, which is now %s, where no test run looks",
			name, clean(p.file.RenamedFrom), clean(p.file.Path))
		return
	}
	j.report(Deleted, b.name, p.before.path, b.line, "%s is deleted", name)
}

// compare judges a test that is still there, by the worst that was done to it.
func (j *judge) compare(b, a *unit, m *matcher) {
	name, file := clean(a.name), a.suite.path
	if why := newSkip(b, a); why != "" {
		if a.parent == nil || !inherited(b, a) {
			j.report(Skipped, a.name, file, a.line, "%s is skipped now: %s; a skipped test never counts as passed", name, why)
		}
		return
	}
	if b.body == a.body && j.before.tally(b) == j.after.tally(a) && slices.Equal(b.rows, a.rows) {
		return
	}
	bt, at := j.before.inclusive(b), j.after.inclusive(a)
	bo, ao := j.before.tally(b), j.after.tally(a)
	switch {
	case bt.total > 0 && at.total == 0:
		j.report(Emptied, a.name, file, a.line, "%s checks nothing any more; it made %d checks", name, bt.total)
	case !b.blank && a.blank && len(m.children[a]) == 0:
		j.report(Emptied, a.name, file, a.line, "%s has an empty body", name)
	default:
		if why := j.weaker(b, a, bo, ao, m); why != "" {
			j.report(Weakened, a.name, file, a.line, "%s checks less: %s", name, why)
			return
		}
		j.edited(b, a)
	}
}

// weaker says how a test checks less than before, if it does.
func (j *judge) weaker(b, a *unit, bo, ao tally, m *matcher) string {
	bt, at := j.before.inclusive(b), j.after.inclusive(a)
	if lost := lostRows(b, a, m.addedRows); len(a.rows) > 0 && lost > 0 {
		return fmt.Sprintf("%d of its %d cases are gone", lost, len(b.rows))
	}
	fewer := ao.total < bo.total && at.total < bt.total
	switch {
	case fewer && m.split(b, a):
		return ""
	case fewer:
		return fmt.Sprintf("%d checks instead of %d", at.total, bt.total)
	case ao.exact < bo.exact && at.exact < bt.exact && at.vague > bt.vague:
		return "an exact comparison became one that nearly anything satisfies"
	case ao.always < bo.always && at.always < bt.always && at.total <= bt.total:
		return fmt.Sprintf("%d of %d checks are made under a condition only", bt.always-at.always, bt.always)
	default:
		return ""
	}
}

// edited reports a test that is another one, but not a lesser one.
func (j *judge) edited(b, a *unit) {
	if b.body == a.body && slices.Equal(b.rows, a.rows) {
		return // what it leans on has grown
	}
	name := clean(a.name)
	if onlyGrows(b, a) {
		j.report(Edited, a.name, a.suite.path, a.line, "%s is edited; all that it checked is still checked", name)
		j.problems[len(j.problems)-1].Severity = contract.SeverityMinor
		return
	}
	j.report(Edited, a.name, a.suite.path, a.line, "%s is edited: what it does or expects is not what it was", name)
}

// support judges code of test files outside of tests: helpers that lost
// assertions, and what tests lean on.
func (j *judge) support(p pair) {
	if p.file.same() || !p.file.Existed || !p.file.Exists || p.after.broken != "" || p.after.off != "" || languageOf(p.before.path).ignoreHelpers {
		return
	}
	helpers := map[string]*unit{}
	for _, u := range p.after.units {
		if !u.test {
			helpers[u.key] = u
		}
	}
	for _, b := range p.before.units {
		a := helpers[b.key]
		if b.test || b.key == "" || a == nil || a.body == b.body || b.local {
			continue
		}
		bt, at := j.before.tally(b), j.after.tally(a)
		if at.total < bt.total {
			j.report(Weakened, "", a.suite.path, a.line, "%s, which tests lean on, checks less: %d checks instead of %d", clean(a.name), at.total, bt.total)
			continue
		}
		j.report(Edited, "", a.suite.path, a.line, "%s, which tests lean on, is edited", clean(a.name))
	}
	if lost := missing(p.before.rest, p.after.rest); lost > 0 {
		j.report(Edited, "", p.file.Path, 0, "%d statements that tests in %s lean on are not what they were", lost, clean(p.file.Path))
	}
}

// newSkip says why a test does not run any more, if that is new.
func newSkip(b, a *unit) string {
	was, is := allSkips(b), allSkips(a)
	if slices.ContainsFunc(was, func(s skip) bool { return s.always }) {
		return ""
	}
	for _, s := range is {
		if s.always {
			return s.why
		}
	}
	if len(is) > len(was) {
		why := is[len(is)-1].why
		for _, s := range is {
			if !slices.Contains(was, s) {
				why = s.why
				break
			}
		}
		return why + " (under a condition)"
	}
	if a.early > b.early {
		return "it returns under a condition before it checks anything"
	}
	return ""
}

// allSkips are the skips of a test and of all that it is in.
func allSkips(u *unit) []skip {
	var out []skip
	for depth := 0; u != nil && depth < maxDepth; u, depth = u.parent, depth+1 {
		out = append(out, u.skips...)
	}
	return out
}

// maxDepth is how many levels of nested tests pass on what is said of them.
const maxDepth = 64

// inherited: it is the test around this one that is newly skipped, and will be
// told of.
func inherited(b, a *unit) bool {
	return a.parent.test && b.parent != nil && newSkip(b.parent, a.parent) != ""
}

// lostRows is how many cases of a table are gone and not found in another test.
func lostRows(b, a *unit, added map[digest]int) int {
	if len(a.rows) >= len(b.rows) {
		return 0
	}
	have := count(a.rows)
	lost := len(b.rows) - len(a.rows)
	for _, r := range b.rows {
		if have[r] > 0 {
			have[r]--
		} else if added[r] > 0 {
			lost--
		}
	}
	return max(0, lost)
}

func count(digests []digest) map[digest]int {
	out := make(map[digest]int, len(digests))
	for _, d := range digests {
		out[d]++
	}
	return out
}

// missing is how many of the digests are not among the others.
func missing(of, among []digest) int {
	have := count(among)
	n := 0
	for _, d := range of {
		if have[d] == 0 {
			n++
		} else {
			have[d]--
		}
	}
	return n
}

func texts(u *unit) []digest {
	out := make([]digest, 0, len(u.checks))
	for _, c := range u.checks {
		out = append(out, c.text)
	}
	return out
}

func onlyGrows(b, a *unit) bool {
	return len(a.checks)+len(a.rows) > len(b.checks)+len(b.rows) && missing(texts(b), texts(a)) == 0 && missing(b.rows, a.rows) == 0
}

// tally is what a test checks with all that it calls.
type tally struct{ total, exact, vague, always int }

func (t tally) plus(o tally, weight int, conditional bool) tally {
	t.total = saturated(t.total + saturated(o.total)*weight)
	t.exact = saturated(t.exact + saturated(o.exact)*weight)
	t.vague = saturated(t.vague + saturated(o.vague)*weight)
	if !conditional {
		t.always = saturated(t.always + saturated(o.always)*weight)
	}
	return t
}

func (c check) tally() tally {
	t := tally{total: 1, exact: 1, always: 1}
	if c.vague {
		t.exact, t.vague = 0, 1
	}
	return t
}

// side is all code of one side of a change.
type side struct {
	helpers map[string][]*unit
	local   map[*suite]map[string]*unit
	sums    map[*unit]tally
}

// maxHomonyms is how many functions of one name are told apart.
const maxHomonyms = 8

func newSide() *side {
	return &side{helpers: map[string][]*unit{}, local: map[*suite]map[string]*unit{}}
}

func (d *side) learn(s *suite) {
	own := map[string]*unit{}
	for _, u := range s.units {
		if u.key == "" {
			continue
		}
		own[u.key] = u
		if k := s.scope + u.key; len(d.helpers[k]) < maxHomonyms {
			d.helpers[k] = append(d.helpers[k], u)
		}
	}
	d.local[s] = own
}

// tally counts the checks of a unit and of what it calls, without those of the
// tests in it.
func (d *side) tally(u *unit) tally {
	switch u.state {
	case 1:
		return tally{} // it calls itself
	case 2:
		return u.tallied
	}
	u.state = 1
	var t tally
	for _, c := range u.checks {
		t = t.plus(c.tally(), c.weight, c.conditional)
	}
	for _, c := range u.calls {
		t = t.plus(d.called(u.suite, c), c.weight, c.conditional)
	}
	u.tallied, u.state = t, 2
	return t
}

// called is what a call checks. Of several functions of a name the weakest
// counts.
func (d *side) called(s *suite, c call) tally {
	if u := d.local[s][c.key]; u != nil {
		return d.tally(u)
	}
	candidates := d.helpers[s.scope+c.key]
	if len(candidates) == 0 {
		return tally{total: c.fallback, exact: c.fallback, always: c.fallback}
	}
	least := d.tally(candidates[0])
	for _, u := range candidates[1:] {
		if t := d.tally(u); t.total < least.total {
			least = t
		}
	}
	return least
}

// inclusive counts the checks of a test with those of the tests in it.
func (d *side) inclusive(u *unit) tally {
	if d.sums == nil {
		d.sums = map[*unit]tally{}
		for s := range d.local {
			for _, u := range slices.Backward(s.units) {
				t := d.tally(u).plus(d.sums[u], 1, false)
				d.sums[u] = t
				if u.parent != nil {
					d.sums[u.parent] = d.sums[u.parent].plus(t, 1, false)
				}
			}
		}
	}
	return d.sums[u]
}
