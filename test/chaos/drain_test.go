package chaos

import (
	"fmt"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	workflowpb "go.temporal.io/api/workflow/v1"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/devstack"
	"github.com/rocketgpt/orchestrator/test/harness"
)

// stopTime is what the worker of this test has to end its work, and to say what it did not.
const stopTime = 6 * time.Second

// TestAStoppingWorkerFinishesWhatItCanAndLeavesTheRestToTheNext tells the worker to
// stop while a model thinks, for less than it may take, and while a check runs, which
// takes longer.
func TestAStoppingWorkerFinishesWhatItCanAndLeavesTheRestToTheNext(t *testing.T) {
	think := harness.Rules{{"when": map[string]any{"agent": "builder", "step": "step-001", "turn": 2}, "latency": "2s",
		"usage": map[string]any{"prompt_tokens": 70, "completion_tokens": 7},
		"reply": map[string]any{"tool_calls": []any{map[string]any{"name": "create_file", "arguments": map[string]any{"path": "step-001.txt", "content": "made by step-001\n"}}}}}}
	d := newFaultTrial(t, harness.Options{Scenario: append(think, work()...), Config: fmt.Sprintf("worker:\n  stop_timeout: %s\n", stopTime)})
	// The check of the whole takes longer than the worker has, each time.
	d.repo = harness.Repo(t, filepath.Join(d.Dir, "slow"), map[string]string{
		"notes.txt": "one\ntwo\nthree\n",
		"test.sh":   "#!/bin/sh\nif grep -n wrong *.txt; then echo '--- FAIL: wrong'; exit 1; fi\nif [ -f step-006.txt ]; then sleep 9; fi\necho ok\n",
		"rgpt.yaml": "verification:\n  auto_detect: false\n  test:\n    command: ./test.sh\n    format: exit-code\n",
	})
	id := d.run(t, "Stop the worker")

	d.awaitWork(t, id, contract.RunWorkflowID(id), contract.ActivityThink, func() bool { return d.awaitModelCall(t, id, "step-001", 2) })
	d.signalStop(t)
	require.Len(t, d.answerOf(t, id, "step-001", 2), 1, "the model was heard to the end")
	calls, err := d.db.ModelCalls(t.Context(), id)
	require.NoError(t, err)
	for _, c := range calls {
		require.Equal(t, "done", c.Status, "turn %d of %s: what was under way is in its row when the worker is gone", c.Turn, c.Step)
	}
	d.Up(t)

	d.awaitWork(t, id, contract.RunWorkflowID(id), contract.ActivityVerify, func() bool {
		heals, err := d.db.Heals(t.Context(), id)
		require.NoError(t, err)
		return len(heals) == 2 // after the second there is nothing left to fix
	})
	d.signalStop(t)
	d.underWay(t, id)
	d.Up(t)
	d.requireDone(t, 2*time.Minute, id)
	again := d.repeated(t, id)
	require.Len(t, again, 1, "only the check was done again")
	require.Contains(t, again[0], contract.ActivityVerify)
	require.Contains(t, again[0], "the worker stopped", "it says so, and is not taken for one that died of its work")
}

// awaitWork waits until an activity of a workflow is at work and more is the case.
func (d *faultTrial) awaitWork(t *testing.T, id int64, workflow, activity string, more func() bool) {
	t.Helper()
	harness.Await(t, activity+" to be at work", time.Minute, func() (bool, string) {
		for _, a := range d.pending(t, workflow) {
			if a.GetActivityType().GetName() == activity && a.GetState() == enumspb.PENDING_ACTIVITY_STATE_STARTED {
				return more(), "it is at work"
			}
		}
		run, err := d.db.Run(t.Context(), id)
		require.NoError(t, err)
		return false, string(run.Status)
	})
}

// pending are the activities that a workflow waits for; none: or that it has not begun.
func (d *faultTrial) pending(t *testing.T, workflow string) []*workflowpb.PendingActivityInfo {
	t.Helper()
	answer, err := d.Temporal(t).DescribeWorkflowExecution(t.Context(), workflow, "")
	if err != nil {
		return nil
	}
	return answer.GetPendingActivities()
}

// awaitModelCall reports whether a turn has its reservation: its model was asked, or is about to be.
func (d *faultTrial) awaitModelCall(t *testing.T, id int64, step string, turn int) bool {
	t.Helper()
	calls, err := d.db.ModelCalls(t.Context(), id)
	require.NoError(t, err)
	for _, c := range calls {
		if c.Step == step && c.Turn == turn {
			return true
		}
	}
	return false
}

// answerOf is what the model answered for a turn.
func (d *faultTrial) answerOf(t *testing.T, id int64, step string, turn int) (times []time.Time) {
	t.Helper()
	for _, e := range d.Requests(t, id) {
		if e.Step == step && e.Turn == turn {
			times = append(times, e.Time)
		}
	}
	return times
}

// signalStop tells the stack's worker to stop, and waits until it is gone.
func (d *faultTrial) signalStop(t *testing.T) {
	t.Helper()
	p, _ := d.State(t).Process(devstack.RoleWorker)
	require.NoError(t, syscall.Kill(p.PID, syscall.SIGTERM))
	harness.Await(t, "the worker to be gone", stopTime+10*time.Second, func() (bool, string) { return !p.ID.Alive(), "it runs" })
}

// awaitNoSessions waits until Postgres has ended all sessions of an application: it
// carries out what a killed client had already sent, a COMMIT among it.
func (d *faultTrial) awaitNoSessions(t *testing.T, application string) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), d.State(t).Database)
	require.NoError(t, err)
	defer conn.Close(t.Context())
	harness.Await(t, "Postgres to end the sessions of "+application, 30*time.Second, func() (bool, string) {
		var n int
		err := conn.QueryRow(t.Context(), "SELECT count(*) FROM pg_stat_activity WHERE application_name = $1", application).Scan(&n)
		require.NoError(t, err)
		return n == 0, fmt.Sprint(n, " sessions")
	})
}

// TestRunsOutliveAMinuteWithoutAnyWorker takes the only worker away in mid-run. Runs can
// be made meanwhile; all goes on with the next worker.
func TestRunsOutliveAMinuteWithoutAnyWorker(t *testing.T) {
	d := newFaultTrial(t, harness.Options{})
	id := d.midRun(t, "Nobody works")
	d.Kill(t, devstack.RoleWorker)
	gone := time.After(time.Minute) // the fault itself
	d.awaitNoSessions(t, "rgpt-worker")
	before := d.underWay(t, id)
	later := d.run(t, "Made while nobody works")
	unwanted := d.run(t, "Stopped while nobody works")
	refused := d.RGPT(t, "run", "stop", fmt.Sprint(unwanted))
	require.NotZero(t, refused.Code, "who stops it hears that nobody has")
	require.Contains(t, refused.Stderr, "check that a worker is running")
	<-gone
	require.Equal(t, before.EventSeq, d.underWay(t, id).EventSeq, "nothing happened")
	require.Equal(t, contract.StatusPending, d.underWay(t, later).Status)
	d.Up(t)
	d.RGPT(t, "run", "stop", fmt.Sprint(unwanted)) // the stop from before may have come through
	stopped := d.AwaitEnd(t, d.db, unwanted, time.Minute)
	require.Equal(t, contract.StatusCancelled, stopped.Status)
	d.requireDone(t, 2*time.Minute, id, later)
	harness.CheckInvariants(t, d.Stack, unwanted)
}
