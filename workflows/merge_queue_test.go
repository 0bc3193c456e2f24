package workflows

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/mock"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/testsuite"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/fault"
)

// queueFixture is what the workflow of a merge queue uses. All pull requests merge cleanly.
type queueFixture struct {
	env *testsuite.TestWorkflowEnvironment

	mu       sync.Mutex
	entries  map[string]contract.QueueEntry
	paused   *contract.QueuePaused
	commands []contract.QueueCommand
	built    [][]int64
	merged   []int64
	returned []contract.QueueEntry
	cleaned  []string
	required []string
	wanted   map[int64]string // heads
	// What happens to activities; nil: they succeed.
	build  func(*contract.QueueCandidate) error
	checks func(contract.QueueChecksInput) (contract.QueueChecks, error)
	merge  func(contract.QueueMergeInput) (contract.QueueMergeResult, bool, error)
}

func newQueueFixture(t *testing.T) *queueFixture {
	t.Helper()
	var suite testsuite.WorkflowTestSuite
	q := &queueFixture{env: suite.NewTestWorkflowEnvironment(), entries: map[string]contract.QueueEntry{}, wanted: map[int64]string{}, required: []string{"ci"}}
	q.env.SetTestTimeout(time.Minute)
	RegisterMergeQueue(q.env)
	register := func(name string, f any) { q.env.RegisterActivityWithOptions(f, activity.RegisterOptions{Name: name}) }
	register(contract.ActivityQueueSave, q.save)
	register(contract.ActivityQueueCandidate, q.candidate)
	register(contract.ActivityQueueChecks, func(_ context.Context, in contract.QueueChecksInput) (contract.QueueChecks, error) {
		if q.checks == nil {
			return contract.QueueChecks{Result: contract.QueueGreen}, nil
		}
		return q.checks(in)
	})
	register(contract.ActivityQueueMerge, q.mergeOne)
	register(contract.ActivityQueueReturn, func(_ context.Context, in contract.QueueReturnInput) error {
		q.mu.Lock()
		defer q.mu.Unlock()
		q.returned = append(q.returned, in.Entry)
		return nil
	})
	register(contract.ActivityQueueCleanUp, func(_ context.Context, in contract.QueueCleanUpInput) error {
		q.mu.Lock()
		defer q.mu.Unlock()
		q.cleaned = append(q.cleaned, in.Branch)
		return nil
	})
	return q
}

func (q *queueFixture) save(_ context.Context, in contract.QueueSave) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, e := range in.Entries {
		q.entries[e.Key] = e
	}
	q.paused, q.commands = in.Paused, append(q.commands, in.Commands...)
	return nil
}

func (q *queueFixture) candidate(_ context.Context, in contract.QueueCandidateInput) (contract.QueueCandidate, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	c := contract.QueueCandidate{Base: fmt.Sprint(len(q.merged)), Required: q.required, Commit: "c", Branch: fmt.Sprintf("rgpt/queue/%d", len(q.built)), Tree: fmt.Sprint(q.merged)}
	var numbers []int64
	for _, w := range in.Wanted[:min(len(in.Wanted), in.Most)] {
		numbers = append(numbers, w.Number)
		c.Tree += fmt.Sprint(w.Number)
		q.wanted[w.Number] = w.Head
		c.Parts = append(c.Parts, contract.QueuePart{Number: w.Number, Verdict: contract.QueueIncluded, Head: fmt.Sprint(w.Number), Tree: c.Tree})
	}
	q.built = append(q.built, numbers)
	if q.build != nil {
		if err := q.build(&c); err != nil {
			return c, err
		}
	}
	return c, nil
}

func (q *queueFixture) mergeOne(_ context.Context, in contract.QueueMergeInput) (contract.QueueMergeResult, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.merge != nil {
		if out, given, err := q.merge(in); given || err != nil {
			return out, err
		}
	}
	q.merged = append(q.merged, in.Part.Number)
	return contract.QueueMergeResult{Merged: true, Commit: "m", Base: fmt.Sprint(len(q.merged))}, nil
}

// send sends a command after a time. It returns where the answer will be.
func (q *queueFixture) send(t *testing.T, after time.Duration, c contract.QueueCommand) *contract.QueueAck {
	t.Helper()
	ack := &contract.QueueAck{}
	q.env.RegisterDelayedCallback(func() {
		q.env.UpdateWorkflow(contract.UpdateQueue, c.ID, &testsuite.TestUpdateCallback{
			OnAccept: func() {}, OnReject: func(err error) { ack.Message = "rejected: " + fault.Of(err).Message },
			OnComplete: func(v any, err error) {
				require.NoError(t, err)
				*ack = v.(contract.QueueAck) //nolint:forcetypeassert // of the handler
			},
		}, c)
	}, after)
	return ack
}

func (q *queueFixture) add(t *testing.T, numbers ...int64) {
	t.Helper()
	for _, n := range numbers {
		q.send(t, 0, contract.QueueCommand{ID: fmt.Sprint("add", n), Action: contract.QueueAdd, Number: n, Head: fmt.Sprint(n), By: "ann", Policy: &contract.MergePolicy{Method: "merge", Batch: 4, CheckTime: time.Hour, CheckPoll: time.Second, Prefix: "rgpt/queue/"}})
	}
}

func (q *queueFixture) run(t *testing.T) {
	t.Helper()
	q.env.ExecuteWorkflow(contract.WorkflowMergeQueue, contract.MergeQueueInput{Queue: contract.QueueRef{Forge: "work", Repo: "team/app", Base: "main"}})
	require.True(t, q.env.IsWorkflowCompleted())
	require.NoError(t, q.env.GetWorkflowError())
	require.Len(t, q.cleaned, len(q.built), "the branch of each candidate is removed")
}

// failsWith lets the checks of a candidate with a pull request fail.
func (q *queueFixture) failsWith(bad int64) {
	q.checks = func(contract.QueueChecksInput) (contract.QueueChecks, error) {
		q.mu.Lock()
		defer q.mu.Unlock()
		for _, n := range q.built[len(q.built)-1] {
			if n == bad {
				return contract.QueueChecks{Result: contract.QueueRed, Reason: "the check `ci` failed"}, nil
			}
		}
		return contract.QueueChecks{Result: contract.QueueGreen}, nil
	}
}

func TestAQueueMergesWhatPassesAndReturnsWhatFails(t *testing.T) {
	t.Parallel()
	q := newQueueFixture(t)
	q.add(t, 1, 2, 3, 4, 5, 6)
	q.failsWith(3)
	q.run(t)
	require.Equal(t, []int64{1, 2, 4, 5, 6}, q.merged)
	require.Len(t, q.returned, 1)
	require.Equal(t, []any{int64(3), "the check `ci` failed"}, []any{q.returned[0].Number, q.returned[0].Reason})
	require.Equal(t, contract.QueueReturned, q.entries["add3"].State)
	require.Equal(t, contract.QueueMerged, q.entries["add6"].State)
	require.Len(t, q.commands, 6)
	require.Equal(t, "6", q.wanted[6], "the commit that was added is pinned")
}

func TestAQueueWithoutRequiredChecksSaysSo(t *testing.T) {
	t.Parallel()
	q := newQueueFixture(t)
	q.required = nil
	q.checks = func(contract.QueueChecksInput) (contract.QueueChecks, error) {
		return contract.QueueChecks{}, fault.ToTemporal(fault.New(contract.ClassConfig, contract.CodeUnauthorized, "not asked"), 1)
	}
	q.add(t, 1)
	q.run(t)
	require.Equal(t, "no check is required", q.entries["add1"].Reason)
}

func TestChecksThatDoNotEndCountAsFailed(t *testing.T) {
	t.Parallel()
	q := newQueueFixture(t)
	q.add(t, 1, 2)
	began := q.env.Now()
	q.env.OnActivity(contract.ActivityQueueChecks, mock.Anything, mock.Anything).After(10*time.Minute).
		Return(contract.QueueChecks{Result: contract.QueuePending, Reason: "the check `ci` has not ended in time"}, nil)
	q.run(t)
	require.Equal(t, [][]int64{{1, 2}, {1}, {2}}, q.built)
	require.Empty(t, q.merged)
	require.Len(t, q.returned, 2)
	require.Equal(t, "the check `ci` has not ended in time", q.entries["add1"].Reason)
	require.Equal(t, 3*time.Hour, q.env.Now().Sub(began).Round(time.Minute), "each test takes check_time")
}

func TestAQueuePausesWhenTheForgeRefusesAndContinues(t *testing.T) {
	t.Parallel()
	q := newQueueFixture(t)
	q.add(t, 1)
	refusals := 1
	q.build = func(*contract.QueueCandidate) error {
		if refusals == 0 {
			return nil
		}
		refusals--
		q.built = q.built[:0]
		return fault.ToTemporal(fault.New(contract.ClassConfig, contract.CodeUnauthorized, "the credentials may not push"), 1)
	}
	var seen *contract.QueuePaused
	q.env.RegisterDelayedCallback(func() { q.mu.Lock(); seen = q.paused; q.mu.Unlock() }, time.Hour)
	ack := q.send(t, 2*time.Hour, contract.QueueCommand{ID: "r", Action: contract.QueueResume, By: "ann"})
	q.run(t)
	require.NotNil(t, seen)
	require.Equal(t, []string{contract.BySystem, "the credentials may not push"}, []string{seen.By, seen.Reason})
	require.True(t, ack.Applied)
	require.Equal(t, []int64{1}, q.merged)
}

func TestAQueueWaitsForTheEndOfAnOutage(t *testing.T) {
	t.Parallel()
	q := newQueueFixture(t)
	q.add(t, 1)
	began := q.env.Now()
	q.build = func(*contract.QueueCandidate) error {
		if q.env.Now().Sub(began) > 3*time.Hour {
			return nil
		}
		q.built = q.built[:0]
		return fault.ToTemporal(fault.New(contract.ClassInfra, contract.CodeUnavailable, "the forge is down"), 12)
	}
	var during contract.QueueEntry
	q.env.RegisterDelayedCallback(func() { q.mu.Lock(); during = q.entries["add1"]; q.mu.Unlock() }, time.Hour)
	q.run(t)
	require.Equal(t, []int64{1}, q.merged)
	require.Equal(t, []any{contract.QueueWaiting, "something that the queue needs is not available; it tries again"}, []any{during.State, during.Reason})
	require.Less(t, q.env.Now().Sub(began), 3*time.Hour+15*time.Minute)
}

func TestAQueuePausesAfterADayOfOutage(t *testing.T) {
	t.Parallel()
	q := newQueueFixture(t)
	q.add(t, 1)
	began := q.env.Now()
	q.build = func(*contract.QueueCandidate) error {
		q.built = q.built[:0]
		return fault.ToTemporal(fault.New(contract.ClassInfra, contract.CodeUnavailable, "the forge is down"), 12)
	}
	var paused time.Duration
	q.env.RegisterDelayedCallback(func() {
		q.mu.Lock()
		defer q.mu.Unlock()
		if q.paused != nil {
			paused = q.paused.At.Sub(began)
		}
		q.build = nil
	}, 26*time.Hour)
	q.send(t, 27*time.Hour, contract.QueueCommand{ID: "r", Action: contract.QueueResume, By: "ann"})
	q.run(t)
	require.Equal(t, 24*time.Hour, paused.Truncate(time.Hour))
	require.Equal(t, []int64{1}, q.merged)
}

func TestACommandEndsATestThatIsOfNoUseAnyLonger(t *testing.T) {
	t.Parallel()
	q := newQueueFixture(t)
	q.add(t, 1, 2, 3)
	release := make(chan struct{})
	first := true
	q.checks = func(contract.QueueChecksInput) (contract.QueueChecks, error) {
		q.mu.Lock()
		was := first
		first = false
		q.mu.Unlock()
		if was {
			q.env.UpdateWorkflow(contract.UpdateQueue, "rm", &testsuite.TestUpdateCallback{
				OnAccept: func() {}, OnReject: func(err error) { require.NoError(t, err) }, OnComplete: func(any, error) { close(release) },
			}, contract.QueueCommand{ID: "rm", Action: contract.QueueRemove, Number: 2, By: "bob", Reason: "superseded"})
			<-release
		}
		return contract.QueueChecks{Result: contract.QueueGreen}, nil
	}
	q.run(t)
	require.Equal(t, [][]int64{{1, 2, 3}, {1, 3}}, q.built)
	require.Equal(t, []int64{1, 3}, q.merged)
	require.Equal(t, "bob removed it from the queue: superseded", q.entries["add2"].Reason)
	require.Empty(t, q.returned, "who removed it knows")
}

func TestWhatFollowsAMovedBaseIsTestedAgain(t *testing.T) {
	t.Parallel()
	q := newQueueFixture(t)
	q.add(t, 1, 2, 3)
	moved := map[int64]bool{}
	q.merge = func(in contract.QueueMergeInput) (contract.QueueMergeResult, bool, error) {
		switch n := in.Part.Number; {
		case n == 2 && !moved[2]:
			moved[2] = true
			return contract.QueueMergeResult{Moved: true}, true, nil
		case n == 3:
			return contract.QueueMergeResult{Refused: "the forge does not merge it"}, true, nil
		}
		return contract.QueueMergeResult{}, false, nil
	}
	q.run(t)
	require.Equal(t, [][]int64{{1, 2, 3}, {2, 3}}, q.built)
	require.Equal(t, []int64{1, 2}, q.merged)
	require.Equal(t, "the forge does not merge it", q.entries["add3"].Reason)
}

func TestAPullRequestWhoseOwnChecksRunLetsOthersGoFirst(t *testing.T) {
	t.Parallel()
	q := newQueueFixture(t)
	q.add(t, 1, 2)
	looks := 0
	q.build = func(c *contract.QueueCandidate) error {
		for i := range c.Parts {
			if c.Parts[i].Number == 1 && looks < 3 {
				looks++
				c.Parts[i].Verdict, c.Parts[i].Reason = contract.QueueNotYet, "its check `ci` has not ended"
			}
		}
		return nil
	}
	q.run(t)
	require.Equal(t, []int64{2, 1}, q.merged)
	require.Equal(t, 3, looks)
}
