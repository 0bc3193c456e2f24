package chaos

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/test/harness"
)

// faultTrial is a stack whose runs are met by faults.
type faultTrial struct {
	*harness.Stack
	db   *store.Store
	repo string
}

// newFaultTrial starts a stack. Its test waits for others most of the time, so it goes
// side by side with them.
func newFaultTrial(t *testing.T, o harness.Options) *faultTrial {
	t.Helper()
	t.Parallel()
	if o.Scenario == nil {
		o.Scenario = work()
	}
	s := harness.Start(t, o)
	return &faultTrial{Stack: s, db: s.Store(t), repo: repository(t, filepath.Join(s.Dir, "repo"))}
}

// run makes a run.
func (d *faultTrial) run(t *testing.T, goal string) int64 {
	t.Helper()
	return d.Create(t, "--repo", d.repo, "--goal", goal)
}

// midRun makes a run and waits until steps of it are at work.
func (d *faultTrial) midRun(t *testing.T, goal string) int64 {
	t.Helper()
	id := d.run(t, goal)
	harness.Await(t, "steps to be at work", time.Minute, func() (bool, string) {
		all, err := d.db.Executions(t.Context(), id)
		require.NoError(t, err)
		return slices.ContainsFunc(all, func(e store.Execution) bool { return e.Step == "step-002" }), fmt.Sprint(len(all), " executions")
	})
	return id
}

// underWay requires that a run has not ended: the fault met it.
func (d *faultTrial) underWay(t *testing.T, id int64) store.Run {
	t.Helper()
	run, err := d.db.Run(t.Context(), id)
	require.NoError(t, err)
	require.False(t, run.Status.Terminal(), "run %d is %s before the fault is over", id, run.Status)
	return run
}

// requireDone waits until runs are done, and checks all that must hold of them.
func (d *faultTrial) requireDone(t *testing.T, within time.Duration, ids ...int64) {
	t.Helper()
	var runs []store.Run
	for _, id := range ids {
		runs = append(runs, d.AwaitEnd(t, d.db, id, within))
	}
	for _, run := range runs {
		require.Equal(t, contract.StatusDone, run.Status, "%s", isFinished(runs))
		killer{TB: t, s: d.Stack, db: d.db, repo: d.repo}.complete(run)
	}
	harness.CheckInvariants(t, d.Stack, ids...)
}

// events counts the events of some types in the histories of a run and its children.
func (d *faultTrial) events(t *testing.T, id int64, kinds ...enumspb.EventType) int {
	t.Helper()
	n := 0
	for _, h := range d.Histories(t, id) {
		for _, e := range h.Events {
			if slices.Contains(kinds, e.GetEventType()) {
				n++
			}
		}
	}
	return n
}

// repeated names the activities of a run that took more than one attempt.
func (d *faultTrial) repeated(t *testing.T, id int64) []string {
	t.Helper()
	var names []string
	for _, h := range d.Histories(t, id) {
		scheduled := map[int64]string{}
		for _, e := range h.Events {
			if a := e.GetActivityTaskScheduledEventAttributes(); a != nil {
				scheduled[e.GetEventId()] = a.GetActivityType().GetName()
			}
			if a := e.GetActivityTaskStartedEventAttributes(); a.GetAttempt() > 1 {
				names = append(names, fmt.Sprintf("%s (attempt %d after %.60s)", scheduled[a.GetScheduledEventId()], a.GetAttempt(), strings.TrimSpace(a.GetLastFailure().GetMessage())))
			}
		}
	}
	return names
}

// long reports whether RGPT_CHAOS=long asks for more.
func long(tb testing.TB) bool {
	tb.Helper()
	return sizeOf(tb).kills > 2
}
