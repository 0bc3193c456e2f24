package pin

import (
	"fmt"
	"slices"
	"strings"

	"github.com/rocketgpt/orchestrator/internal/pin/testfile"
)

// The limits of a finding about a helper on which tests lean.
const (
	// maxLeaning is the maximum number of tests that its message names. An additional number counts
	// the rest.
	maxLeaning = 10
	// maxFollowed is the maximum number of functions that are searched for the helper which makes a
	// test check less. The test is reported by itself if they are more.
	maxFollowed = 1000
)

// loss is an unchanged test that checks less.
type loss struct {
	test string
	kind Kind
}

// judgesHelpers reports whether changes to the code outside the tests of a file are judged.
func judgesHelpers(p pair) bool {
	return !p.file.same() && p.file.Existed && p.file.Exists && p.after.Broken == "" && p.after.Excluded == "" && !languageOf(p.before.Path).IgnoreHelpers
}

// recordHelpers finds the helpers that have changed.
func (j *judge) recordHelpers() {
	j.helpers, j.leaning = map[*testfile.Unit]*testfile.Unit{}, map[*testfile.Unit][]loss{}
	for _, p := range j.pairs {
		if judgesHelpers(p) {
			for _, h := range changedHelpers(p.before.Units, p.after.Units) {
				j.helpers[h[0]] = h[1]
			}
		}
	}
}

// leansOnHelper reports whether a test checks less only because of a changed helper, on which the loss
// is then recorded: one problem tells the cause of all.
func (j *judge) leansOnHelper(b, a *testfile.Unit, kind Kind) bool {
	if b.Body != a.Body || !slices.Equal(b.Cases, a.Cases) {
		return false
	}
	s := helperSearch{judge: j, seen: map[*testfile.Unit]bool{}}
	s.follow(b, 0)
	if s.found == nil {
		return false
	}
	j.leaning[s.found] = append(j.leaning[s.found], loss{testfile.Clean(a.Name), kind})
	return true
}

// helperSearch finds the innermost changed helper with fewer checks that a test calls.
type helperSearch struct {
	judge *judge
	seen  map[*testfile.Unit]bool
	found *testfile.Unit
}

func (s *helperSearch) follow(u *testfile.Unit, depth int) {
	s.seen[u] = true
	if depth > testfile.MaxDepth {
		return
	}
	visit := func(key string) {
		for _, callee := range s.judge.before.Callees(u, key) {
			if s.found == nil && !s.seen[callee] && len(s.seen) < maxFollowed {
				s.follow(callee, depth+1)
			}
		}
	}
	for _, c := range u.Calls {
		visit(c.Key)
	}
	for _, c := range u.Checks {
		if c.Given != nil {
			visit(c.Given.To)
		}
	}
	if a := s.judge.helpers[u]; s.found == nil && a != nil && (s.judge.checksLess(u, a) || lostCallback(u, a)) {
		s.found = u
	}
}

// checksLess reports whether a helper performs fewer checks, or fewer of a kind.
func (j *judge) checksLess(b, a *testfile.Unit) bool {
	bt, at := j.before.Tally(b), j.after.Tally(a)
	return at.Total < bt.Total || at.Exact < bt.Exact || at.Always < bt.Always
}

// lostCallback reports whether a helper no longer calls a function that it is given, or only under a new
// condition.
func lostCallback(b, a *testfile.Unit) bool {
	if len(a.Callbacks) < len(b.Callbacks) {
		return false // it is given others, and its callers have changed
	}
	return mostUsed(a) < mostUsed(b)
}

func mostUsed(u *testfile.Unit) (most testfile.Use) {
	for _, use := range u.Callbacks {
		most = max(most, use)
	}
	return most
}

// reportLeaning reports a helper for all tests that check less because of it.
func (j *judge) reportLeaning(b, a *testfile.Unit, losses []loss) {
	name, emptied, names := testfile.Clean(a.Name), 0, make([]string, 0, len(losses))
	for _, l := range losses {
		names = append(names, l.test)
		if l.kind == Emptied {
			emptied++
		}
	}
	kind, what := Weakened, "checks less"
	bt, at := j.before.Tally(b), j.after.Tally(a)
	switch {
	case lostCallback(b, a):
		what = "no longer always calls the function that it is given"
	case at.Total < bt.Total:
		what = fmt.Sprintf("now performs fewer checks: %d instead of %d", at.Total, bt.Total)
	}
	if emptied == len(losses) {
		kind = Emptied
	}
	shown := strings.Join(names[:min(len(names), maxLeaning)], ", ")
	if more := len(names) - maxLeaning; more > 0 {
		shown += fmt.Sprintf(" and %d more", more)
	}
	j.report(kind, "", a.File.Path, a.Line, "%s, which tests use, %s; %s", name, what, leaningOn(len(names), emptied, shown))
	j.problems[len(j.problems)-1].Leaning = names
}

// leaningOn completes the message about a helper with the tests that check less.
func leaningOn(tests, emptied int, shown string) string {
	switch {
	case tests == 1 && emptied == 1:
		return "therefore this test no longer checks anything: " + shown
	case tests == 1:
		return "therefore this test checks less: " + shown
	case emptied == tests:
		return fmt.Sprintf("therefore these %d tests no longer check anything: %s", tests, shown)
	case emptied > 0:
		return fmt.Sprintf("therefore these %d tests check less, and %d of them nothing: %s", tests, emptied, shown)
	default:
		return fmt.Sprintf("therefore these %d tests check less: %s", tests, shown)
	}
}

// judgeHelpers judges code outside tests in test files: helpers that lost assertions, and other
// code that tests need.
func (j *judge) judgeHelpers(p pair, m *matcher) {
	if !judgesHelpers(p) {
		return
	}
	for _, h := range changedHelpers(p.before.Units, p.after.Units) {
		b, a := h[0], h[1]
		if losses := j.leaning[b]; len(losses) > 0 {
			j.reportLeaning(b, a, losses)
			continue
		}
		if lostCallback(b, a) {
			j.report(Weakened, "", a.File.Path, a.Line, "%s, which tests use, no longer always calls the function that it is given", testfile.Clean(a.Name))
			continue
		}
		bt, at := j.before.Tally(b), j.after.Tally(a)
		fewer := bt.Total - at.Total - m.gainedIn(p.after)
		if fewer > 0 && fewer > min(bt.NoError-at.NoError, m.awaitsGainedIn(p.before)) {
			j.report(Weakened, "", a.File.Path, a.Line, "%s, which tests use, now performs fewer checks: %d instead of %d", testfile.Clean(a.Name), at.Total, bt.Total)
			continue
		}
		j.report(Edited, "", a.File.Path, a.Line, "%s, which tests use, was edited", testfile.Clean(a.Name))
	}
	if lost := missing(p.before.Statements, p.after.Statements); lost > 0 {
		j.report(Edited, "", p.file.Path, 0, "%d statements used by tests in %s have changed", lost, testfile.Clean(p.file.Path))
	}
}

// changedHelpers returns the functions outside tests whose body has changed, before and after. Many
// functions may have the same name: methods of several types, functions inside functions. Those
// with the same body are not changed, wherever in the file they are now; of the others, those with
// the same full name belong together, in their order.
func changedHelpers(before, after []*testfile.Unit) (changed [][2]*testfile.Unit) {
	helper := func(u *testfile.Unit) bool { return !u.Test && u.Key != "" && !u.Local }
	same := func(u *testfile.Unit) key { return key{name: u.Key, body: u.Body} }
	kept := map[key]int{}
	for _, a := range after {
		if helper(a) {
			kept[same(a)]++
		}
	}
	lost := map[string][]*testfile.Unit{}
	matched := map[key]int{}
	for _, b := range before {
		switch {
		case !helper(b):
		case kept[same(b)] > 0:
			kept[same(b)]--
			matched[same(b)]++
		default:
			lost[b.Name] = append(lost[b.Name], b)
		}
	}
	for _, a := range after {
		if !helper(a) {
			continue
		}
		if matched[same(a)] > 0 {
			matched[same(a)]--
		} else if of := lost[a.Name]; len(of) > 0 {
			changed = append(changed, [2]*testfile.Unit{of[0], a})
			lost[a.Name] = of[1:]
		}
	}
	return changed
}
