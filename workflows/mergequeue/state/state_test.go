package state_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/fault"
	"github.com/rocketgpt/orchestrator/workflows/mergequeue/state"
)

var (
	ref = contract.QueueRef{Forge: "work", Repo: "team/app", Base: "main"}
	now = time.Date(2026, 11, 27, 0, 0, 0, 0, time.UTC)
)

func add(number int64, batch int) contract.QueueCommand {
	return contract.QueueCommand{ID: fmt.Sprintf("add-%d", number), Action: contract.QueueAdd, Number: number, Head: fmt.Sprint(number), By: "ann", Policy: &contract.MergePolicy{Batch: batch, CheckTime: time.Hour}}
}

// queueOf returns a queue with pull requests 1 to n.
func queueOf(n int64, batch int) *state.Queue {
	q := state.New(ref, now)
	for i := range n {
		q.Apply(add(i+1, batch), now)
	}
	return q
}

func numbers(q *state.Queue) (out []int64) {
	for _, e := range q.Entries {
		out = append(out, e.Number)
	}
	return out
}

// world is a base onto which pull requests are merged: what each tree contains, and which ones fail.
type world struct {
	main    []int64
	bad     map[int64]bool
	clash   map[int64]int64 // conflicts with another one
	tested  map[string]bool
	runs    int
	results map[int64]contract.QueueEntry
}

func tree(parts []int64) string { return fmt.Sprint(parts) }

// build makes a candidate as git and the forge would.
func (w *world) build(group []int64, most int) contract.QueueCandidate {
	out := contract.QueueCandidate{Base: tree(w.main)}
	now := slices.Clone(w.main)
	n := 0
	for _, number := range group {
		if n == most {
			break
		}
		p := contract.QueuePart{Number: number, Verdict: contract.QueueIncluded, Head: fmt.Sprint(number)}
		switch other := w.clash[number]; {
		case other != 0 && slices.Contains(w.main, other):
			p.Verdict, p.Reason = contract.QueueRefused, "conflict"
		case other != 0 && slices.Contains(now, other):
			p.Verdict, p.Reason = contract.QueueDeferred, "conflict"
		default:
			n++
			now = append(now, number)
			p.Tree = tree(now)
		}
		out.Parts = append(out.Parts, p)
	}
	out.Tree, out.Commit, out.Branch = tree(now), "c", "b"
	return out
}

func (w *world) check(q *state.Queue, tree string, parts []contract.QueuePart) contract.QueueChecks {
	if known, ok := q.Result(tree); ok {
		return known
	}
	q.Ran()
	w.runs++
	out := contract.QueueChecks{Result: contract.QueueGreen}
	for _, p := range parts {
		if w.bad[p.Number] {
			out = contract.QueueChecks{Result: contract.QueueRed, Reason: "the check failed"}
		}
	}
	q.Learn(tree, out)
	return out
}

// round does one round as the workflow does.
func (w *world) round(t require.TestingT, q *state.Queue) {
	group, most := q.Next(nil)
	built := w.build(group, most)
	tested, _ := q.Built(built, now)
	if len(tested) == 0 {
		return
	}
	result := w.check(q, built.Tree, tested)
	if result.Result != contract.QueueGreen {
		q.Failed(tested, result.Reason)
		return
	}
	w.tested[built.Tree] = true
	for _, p := range tested {
		require.True(t, q.Complete(tested[slices.Index(tested, p):]))
		q.Merging(p.Number)
		w.main = append(w.main, p.Number)
		require.Equal(t, p.Tree, tree(w.main))
		q.Merged(p.Number, "m", "")
	}
	require.True(t, w.tested[tree(w.main)], "the base is what was tested")
}

// drain stores what has changed, and notes what has ended.
func (w *world) drain(q *state.Queue) {
	for {
		s, changed, more := q.Unsaved()
		if !changed {
			return
		}
		for _, e := range s.Entries {
			if e.State.Ended() {
				w.results[e.Number] = e
			}
		}
		if !more {
			return
		}
	}
}

func newWorld() *world {
	return &world{bad: map[int64]bool{}, clash: map[int64]int64{}, tested: map[string]bool{}, results: map[int64]contract.QueueEntry{}}
}

func TestEachPullRequestEndsMergedOrReturnedAndTheBaseIsAlwaysTested(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.Int64Range(1, 40).Draw(t, "n")
		w := newWorld()
		q := queueOf(n, rapid.IntRange(1, 10).Draw(t, "batch"))
		for i := int64(1); i <= n; i++ {
			switch rapid.IntRange(0, 6).Draw(t, "kind") {
			case 0:
				w.bad[i] = true
			case 1:
				w.clash[i] = rapid.Int64Range(1, n).Draw(t, "clash")
				if w.clash[i] == i {
					delete(w.clash, i)
				}
			}
		}
		commands := 0
		for rounds := 0; !q.Empty(); rounds++ {
			require.Less(t, rounds, 1000, "it comes to an end")
			if rapid.IntRange(0, 9).Draw(t, "carry") == 0 { // it continues as new
				w.drain(q)
				data, err := json.Marshal(q)
				require.NoError(t, err)
				q, err = state.Restore(data)
				require.NoError(t, err)
			}
			if commands < 5 && rapid.IntRange(0, 9).Draw(t, "skip") == 0 {
				commands++
				c := contract.QueueCommand{ID: fmt.Sprint("skip", commands), Action: contract.QueueSkip, Number: numbers(q)[0]}
				require.NoError(t, q.Check(c))
				q.Apply(c, now)
				require.Equal(t, len(q.Entries), q.Position(c.Number))
			}
			w.round(t, q)
			w.drain(q)
		}
		require.Len(t, w.results, int(n))
		for i := int64(1); i <= n; i++ {
			e := w.results[i]
			merged := slices.Contains(w.main, i)
			require.Equal(t, merged, e.State == contract.QueueMerged, "%d", i)
			require.False(t, merged && w.bad[i])
			if !merged {
				require.NotEmpty(t, e.Reason)
				require.True(t, w.bad[i] || w.clash[i] != 0, "%d had no reason to be returned", i)
			}
		}
	})
}

func TestPullRequestsThatPassAreMergedInTheOrderInWhichTheyCame(t *testing.T) {
	t.Parallel()
	w, q := newWorld(), queueOf(30, 8)
	w.bad[3], w.bad[17] = true, true
	for !q.Empty() {
		w.round(t, q)
	}
	require.True(t, slices.IsSorted(w.main))
	require.Len(t, w.main, 28)
	require.LessOrEqual(t, w.runs, 12, "testing one after the other takes 30")
}

func TestOnlyTheFailingOneOfABatchIsReturned(t *testing.T) {
	t.Parallel()
	for bad := int64(1); bad <= 8; bad++ {
		w, q := newWorld(), queueOf(8, 8)
		w.bad[bad] = true
		for !q.Empty() {
			w.round(t, q)
			w.drain(q)
		}
		require.Len(t, w.main, 7)
		require.Equal(t, contract.QueueReturned, w.results[bad].State)
		require.Equal(t, "the check failed", w.results[bad].Reason)
		require.LessOrEqual(t, w.runs, 5)
	}
}

func TestACommandIsAppliedOnce(t *testing.T) {
	t.Parallel()
	q := queueOf(3, 8)
	skip := contract.QueueCommand{ID: "s", Action: contract.QueueSkip, Number: 1, By: "bob"}
	require.True(t, q.Apply(skip, now).Applied)
	require.Equal(t, []int64{2, 3, 1}, numbers(q))
	skip.Number = 2
	require.False(t, q.Apply(skip, now).Applied)
	require.Equal(t, []int64{2, 3, 1}, numbers(q))
	again := q.Apply(contract.QueueCommand{ID: "again", Action: contract.QueueAdd, Number: 3, Head: "3", Policy: &contract.MergePolicy{}}, now)
	require.False(t, again.Applied)
	require.Equal(t, 2, again.Position)
	q.Apply(contract.QueueCommand{ID: "r", Action: contract.QueueRemove, Number: 2, By: "bob", Reason: "not now"}, now)
	q.Apply(add(2, 8), now) // the id of its first command
	require.Equal(t, []int64{3, 1}, numbers(q))
	q.Apply(contract.QueueCommand{ID: "back", Action: contract.QueueAdd, Number: 2, Head: "2", Policy: &contract.MergePolicy{Batch: 8}}, now)
	require.Equal(t, []int64{3, 1, 2}, numbers(q), "one that was returned and added again is the last")
}

func TestAPullRequestThatIsAddedForAnotherCommitTakesThePlaceOfTheEarlierEntry(t *testing.T) {
	t.Parallel()
	q := state.New(ref, now)
	auto := func(only string) contract.QueueCommand {
		c := add(1, 8)
		c.ID, c.Head = "auto/"+only, only
		return c
	}
	part := func(only string) contract.QueueCandidate {
		return contract.QueueCandidate{Branch: "b", Parts: []contract.QueuePart{{Number: 1, Wanted: only, Head: only, Verdict: contract.QueueRefused, Reason: "its head is another one"}}}
	}
	require.True(t, q.Apply(auto("c1"), now).Applied)
	ack := q.Apply(auto("c2"), now)
	require.True(t, ack.Applied)
	require.Equal(t, 1, ack.Position)
	e, ok := q.Entry(1)
	require.True(t, ok)
	require.Equal(t, []string{"auto/c2", "c2"}, []string{e.Key, e.Head})
	_, returned := q.Built(part("c1"), now)
	require.Empty(t, returned, "the candidate was built for the earlier one")
	saved, _, _ := q.Unsaved()
	require.Equal(t, []string{"auto/c1", "auto/c2"}, []string{saved.Entries[0].Key, saved.Entries[1].Key})
	require.Equal(t, "it was added again for another commit", saved.Entries[0].Reason)

	_, returned = q.Built(part("c2"), now)
	require.Len(t, returned, 1)
}

func TestAPausedQueueLetsEverythingWait(t *testing.T) {
	t.Parallel()
	w, q := newWorld(), queueOf(2, 8)
	built := w.build([]int64{1, 2}, 8)
	tested, _ := q.Built(built, now)
	require.True(t, q.Complete(tested))
	q.Apply(contract.QueueCommand{ID: "p", Action: contract.QueuePause, By: "ann", Reason: "a release"}, now)
	require.False(t, q.Complete(tested), "what is tested is not merged")
	for range 2 {
		require.False(t, q.Empty())
	}
	require.Equal(t, "ann", q.Paused.By)
	require.True(t, q.Apply(contract.QueueCommand{ID: "r", Action: contract.QueueResume, By: "ann"}, now).Applied)
	require.False(t, q.Apply(contract.QueueCommand{ID: "r2", Action: contract.QueueResume, By: "ann"}, now).Applied)
	require.Nil(t, q.Paused)
}

func TestWhatIsBeingMergedStaysInAQueueThatIsPaused(t *testing.T) {
	t.Parallel()
	w, q := newWorld(), queueOf(2, 8)
	tested, _ := q.Built(w.build([]int64{1, 2}, 8), now)
	q.Merging(1)
	q.Apply(contract.QueueCommand{ID: "p", Action: contract.QueuePause, By: "ann"}, now)
	for _, action := range []contract.QueueAction{contract.QueueRemove, contract.QueueSkip} {
		require.ErrorContains(t, q.Check(contract.QueueCommand{ID: "x", Action: action, Number: 1}), "is being merged")
		require.NoError(t, q.Check(contract.QueueCommand{ID: "x", Action: action, Number: 2}))
	}
	q.Merged(1, "m", "")
	require.False(t, q.Complete(tested[1:]), "the next one is not merged")
}

func TestTheTimeOfOwnChecksBeginsWhenTheyAreFirstSeenToRun(t *testing.T) {
	t.Parallel()
	q := queueOf(1, 8)
	see := func(v contract.QueueVerdict, at time.Time) *time.Time {
		q.Built(contract.QueueCandidate{Parts: []contract.QueuePart{{Number: 1, Verdict: v, Head: "1"}}}, at)
		e, _ := q.Entry(1)
		return e.Since
	}
	require.Nil(t, see(contract.QueueDeferred, now))
	later := now.Add(time.Hour)
	require.Equal(t, later, *see(contract.QueueNotYet, later))
	require.Equal(t, later, *see(contract.QueueNotYet, later.Add(time.Hour)))
	require.Nil(t, see(contract.QueueIncluded, later))
}

func TestAReasonThatIsCutKeepsItsMarkdownWhole(t *testing.T) {
	t.Parallel()
	for reason, want := range map[string]string{
		strings.Repeat("x", 290) + " `@ann and others`":                     strings.Repeat("x", 290) + " …",
		strings.Repeat("x", 270) + " `a` (<https://example.com/long/path>)": strings.Repeat("x", 270) + " `a` …",
		strings.Repeat("x", 300):                                            strings.Repeat("x", 300),
	} {
		require.Equal(t, want, queueOf(1, 8).Return(1, reason).Reason)
	}
}

func TestWhatCannotBeDoneIsRefused(t *testing.T) {
	t.Parallel()
	q := queueOf(1, 8)
	q.Merging(1)
	for name, c := range map[string]contract.QueueCommand{
		"without an id":     {Action: contract.QueuePause},
		"unknown":           {ID: "x", Action: "merge"},
		"not in the queue":  {ID: "x", Action: contract.QueueRemove, Number: 9},
		"is being merged":   {ID: "x", Action: contract.QueueSkip, Number: 1},
		"without a policy":  {ID: "x", Action: contract.QueueAdd, Number: 2, Head: "2"},
		"without a request": {ID: "x", Action: contract.QueueAdd, Head: "1", Policy: &contract.MergePolicy{}},
		"without a commit":  {ID: "x", Action: contract.QueueAdd, Number: 2, Policy: &contract.MergePolicy{}},
	} {
		require.Equal(t, contract.ClassHuman, fault.Of(q.Check(c)).Class, name)
	}
	q = queueOf(contract.MaxQueued, 8)
	require.ErrorContains(t, q.Check(add(1000, 8)), "is full")
	require.NoError(t, q.Check(contract.QueueCommand{ID: "x", Action: contract.QueueAdd, Number: 1, Head: "1", Policy: &contract.MergePolicy{}}), "it is there already")
}

func TestAFullQueueFitsIntoAPayload(t *testing.T) {
	t.Parallel()
	long := func(n int) string { return string(slices.Repeat([]byte("x"), n)) }
	q := state.New(ref, now)
	for i := range int64(contract.MaxQueued) {
		c := add(i+1_000_000, 8)
		c.Head = long(64)
		c.ID, c.By, c.Title, c.URL, c.Reason = long(60)+fmt.Sprint(i), long(500), long(500), "https://forge.example.com/"+long(60), long(500)
		require.NoError(t, q.Check(c))
		q.Apply(c, now)
		q.Built(contract.QueueCandidate{Branch: "rgpt/queue/main-0123456789ab", Parts: []contract.QueuePart{{Number: c.Number, Verdict: contract.QueueDeferred, Head: long(40), Reason: long(100)}}}, now)
	}
	fits := func(v any) {
		t.Helper()
		data, err := json.Marshal(v)
		require.NoError(t, err)
		require.Less(t, len(data), contract.PayloadLimit)
	}
	for more := true; more; {
		var s contract.QueueSave
		var changed bool
		s, changed, more = q.Unsaved()
		require.True(t, changed)
		fits(s)
	}
	_, changed, _ := q.Unsaved()
	require.False(t, changed)
	for i := range 20 {
		q.Learn(fmt.Sprint(i, long(40)), contract.QueueChecks{Result: contract.QueueRed, Reason: long(500)})
	}
	fits(q)
}
