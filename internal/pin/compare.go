package pin

import (
	"fmt"
	"slices"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/pin/lexer"
	"github.com/rocketgpt/orchestrator/internal/pin/testfile"
)

// compare judges a test that still exists by its worst change.
func (j *judge) compare(b, a *testfile.Unit, m *matcher) {
	name := testfile.Clean(a.Name)
	if why := newSkip(b, a); why != "" {
		if a.Parent == nil || !inherited(b, a) {
			j.reportTest(Skipped, b, a, "%s is now skipped: %s; a skipped test never counts as passed", name, why)
		}
		return
	}
	if lost := lostSystems(b.File, a.File); lost != "" && a.File.Path != b.File.Path {
		j.reportTest(Skipped, b, a, "%s is now skipped on %s: its file is not compiled there", name, lost)
		return
	}
	if b.Body == a.Body && j.before.Tally(b) == j.after.Tally(a) && slices.Equal(b.Cases, a.Cases) {
		return
	}
	bt, at := j.before.TallyWithSubtests(b), j.after.TallyWithSubtests(a)
	bo, ao := j.before.Tally(b), j.after.Tally(a)
	switch {
	case idle(b):
		j.edited(b, a)
	case bt.Total > 0 && at.Total == 0:
		if j.leansOnHelper(b, a, Emptied) {
			return
		}
		j.reportTest(Emptied, b, a, "%s no longer checks anything; it used to perform %d checks", name, bt.Total)
	case !b.Empty && a.Empty && len(m.children[a]) == 0:
		j.reportTest(Emptied, b, a, "%s has an empty body", name)
	default:
		if why := j.weakening(b, a, bo, ao, m); why != "" {
			if j.leansOnHelper(b, a, Weakened) {
				return
			}
			j.reportTest(Weakened, b, a, "%s checks less: %s", name, why)
			return
		}
		j.edited(b, a)
	}
}

// weakening describes how a test checks less than before, or returns "".
func (j *judge) weakening(b, a *testfile.Unit, bo, ao testfile.Tally, m *matcher) string {
	bt, at := j.before.TallyWithSubtests(b), j.after.TallyWithSubtests(a)
	if lost := m.lostCases(b, a); len(a.Cases) > 0 && lost > 0 {
		return fmt.Sprintf("%d of its %d cases were removed", lost, len(b.Cases))
	}
	if was, is := j.shorterLoop(b, a); was > is && at.Total <= bt.Total {
		return fmt.Sprintf("a loop with checks goes to %d instead of %d", is, was)
	}
	awaited := awaitedInstead(b, a, bo, ao)
	covered := awaited + namedInstead(bt, at)
	fewer := ao.Total+covered < bo.Total && at.Total+covered < bt.Total
	moved := len(a.Cases) < len(b.Cases) // to other tables
	switch {
	case fewer && (m.split(b, a) || m.scattered(b, a, bt.Total-at.Total) || rewritten(b, a) || moved && missing(texts(b), texts(a)) == 0 || bo.Total-ao.Total <= len(b.Checks)-len(a.Checks) && replaced(b, a)):
		return ""
	case fewer:
		return fmt.Sprintf("%d checks instead of %d", at.Total, bt.Total)
	case ao.Exact < bo.Exact && at.Exact < bt.Exact && at.Vague > bt.Vague:
		return "an exact comparison was replaced by one that accepts almost any value"
	case ao.Always+covered < bo.Always && at.Always+covered < bt.Always && at.Total <= bt.Total:
		return fmt.Sprintf("%d of %d checks run only conditionally", bt.Always-at.Always, bt.Always)
	default:
		return ""
	}
}

// awaitedInstead returns the number of checks that a callback received no error which a test no longer
// needs, because it awaits the calls: a failed one ends the test.
func awaitedInstead(b, a *testfile.Unit, bo, ao testfile.Tally) int {
	return max(0, min(bo.NoError-ao.NoError, a.Awaits-b.Awaits))
}

// namedInstead returns the number of checks of an error which a test no longer needs, because the
// check that something fails now names the error.
func namedInstead(bt, at testfile.Tally) int {
	return max(0, min(bt.Fails-at.Fails, at.FailsAs-bt.FailsAs))
}

// edited reports a test that changed without checking less.
func (j *judge) edited(b, a *testfile.Unit) {
	if b.Body == a.Body && slices.Equal(b.Cases, a.Cases) {
		return // it calls functions that check more
	}
	name := testfile.Clean(a.Name)
	if onlyGrows(b, a) {
		j.reportTest(Edited, b, a, "%s was edited; all of its earlier checks remain", name)
		j.problems[len(j.problems)-1].Severity = contract.SeverityMinor
		return
	}
	j.reportTest(Edited, b, a, "%s was edited: its behaviour or its expectations have changed", name)
}

// newSkip returns the reason why a test no longer runs, if that is new.
func newSkip(b, a *testfile.Unit) string {
	was := allSkips(b)
	is := withoutNewCases(allSkips(a), b, a)
	runs, expectsFailure := true, false
	for _, s := range was {
		runs, expectsFailure = runs && (!s.Always || s.Fails), expectsFailure || s.Always && s.Fails
	}
	if !runs {
		return ""
	}
	for _, s := range is {
		if s.Always && (!s.Fails || !expectsFailure) {
			return s.Reason
		}
	}
	if expectsFailure {
		return ""
	}
	if why := newCondition(was, is); why != "" {
		return why
	}
	if a.EarlyReturns > b.EarlyReturns {
		return "it can return before it checks anything"
	}
	return ""
}

// newCondition returns the reason why a test that was not always skipped runs under fewer conditions.
func newCondition(was, is []testfile.Skip) string {
	if len(is) > len(was) {
		why := is[len(is)-1].Reason
		for _, s := range is {
			if !slices.ContainsFunc(was, func(w testfile.Skip) bool { return w.Always == s.Always && w.Reason == s.Reason }) {
				why = s.Reason
				break
			}
		}
		return why + " (conditionally)"
	}
	for _, s := range is {
		if s.Unless && !slices.ContainsFunc(was, func(w testfile.Skip) bool { return w.Unless }) {
			return s.Reason + " unless something holds, not only if something holds"
		}
	}
	return ""
}

// withoutNewCases returns the skips of a test except for those that can skip only new cases of its table.
func withoutNewCases(skips []testfile.Skip, b, a *testfile.Unit) []testfile.Skip {
	limited := func(s testfile.Skip) bool { return s.Cases != nil && !s.Always }
	if !slices.ContainsFunc(skips, limited) {
		return skips
	}
	gone, added := more(b.Cases, a.Cases), more(a.Cases, b.Cases)
	if len(added) > maxChangedCases || len(gone) > maxChangedCases {
		return skips
	}
	_, were := pairParts(readCases(b.File, gone), readCases(a.File, added), editedCase)
	isNew := map[lexer.Digest]bool{}
	for i, c := range added {
		isNew[c] = !were[i]
	}
	return slices.DeleteFunc(skips, func(s testfile.Skip) bool {
		return limited(s) && !slices.ContainsFunc(s.Cases, func(c lexer.Digest) bool { return !isNew[c] })
	})
}

// idle reports whether a test does not run at all, so that nothing can be taken from it.
func idle(u *testfile.Unit) bool {
	return slices.ContainsFunc(allSkips(u), func(s testfile.Skip) bool { return s.Always && !s.Fails })
}

// allSkips returns the skips of a test and of its enclosing groups.
func allSkips(u *testfile.Unit) []testfile.Skip {
	var out []testfile.Skip
	for depth := 0; u != nil && depth < testfile.MaxDepth; u, depth = u.Parent, depth+1 {
		out = append(out, u.Skips...)
	}
	return out
}

// inherited reports whether an enclosing test is newly skipped, which is reported there.
func inherited(b, a *testfile.Unit) bool {
	return a.Parent.Test && b.Parent != nil && newSkip(b.Parent, a.Parent) != ""
}

func count(digests []lexer.Digest) map[lexer.Digest]int {
	out := make(map[lexer.Digest]int, len(digests))
	for _, d := range digests {
		out[d]++
	}
	return out
}

// missing returns the number of digests that are not among the others.
func missing(of, among []lexer.Digest) int {
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

func texts(u *testfile.Unit) []lexer.Digest {
	out := make([]lexer.Digest, 0, len(u.Checks))
	for _, c := range u.Checks {
		out = append(out, c.Digest)
	}
	return out
}

func onlyGrows(b, a *testfile.Unit) bool {
	return len(a.Checks)+len(a.Cases) > len(b.Checks)+len(b.Cases) && missing(texts(b), texts(a)) == 0 && missing(b.Cases, a.Cases) == 0
}
