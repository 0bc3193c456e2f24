package e2e

import (
	"fmt"
	"path/filepath"
	"slices"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/devstack"
	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/test/harness"
)

// startTries is how often something is begun for its worker to die at the right
// moment: a machine that is busy may let it come too far.
const startTries = 5

// TestAStopDuringAStartLeavesNoOpenExecution kills a worker between the row of
// an execution and the history of the workflow that began it, and stops it before
// another worker does its first task again: what no history knows of is closed, too.
func TestAStopDuringAStartLeavesNoOpenExecution(t *testing.T) {
	t.Parallel()
	rules := append(agreeing("begins").Named("begins"), oneStep(call("create_file", "path", "made.txt", "content", "made\n")).Named("begins-run")...)
	c := &pipelineTests{Stack: harness.Start(t, harness.Options{Scenario: rules})}
	t.Run("a member of a deliberation", func(t *testing.T) { c.untilReached(t, c.memberStart) })
	repo := harness.ShellRepo(t, filepath.Join(c.Dir, "begins-repo"))
	t.Run("a step of a run", func(t *testing.T) {
		c.stepStart(t, repo)
	})
	harness.CheckPipelines(t, c.Stack, c.pipelines...)
	harness.CheckInvariants(t, c.Stack, c.runs...)
}

// untilReached repeats a trial until the history that it returns is of a workflow that
// was cancelled before its first task was done.
func (c *pipelineTests) untilReached(t *testing.T, trial func(*testing.T) harness.History) {
	t.Helper()
	for range startTries {
		h := trial(t)
		at := func(kind enumspb.EventType) int64 {
			for _, e := range h.Events {
				if e.GetEventType() == kind {
					return e.GetEventId()
				}
			}
			return 0
		}
		if at(enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_CANCEL_REQUESTED) < at(enumspb.EVENT_TYPE_WORKFLOW_TASK_COMPLETED) {
			return
		}
		t.Logf("note: the worker of %s died too late", h.WorkflowID)
	}
	t.Fatalf("no worker died in time in %d trials", startTries)
}

// memberStart returns the history of ALPHA.
func (c *pipelineTests) memberStart(t *testing.T) harness.History {
	t.Helper()
	alpha := string(contract.Alpha.Agent())
	id := c.killDuringStart(t, alpha, func() (int64, int64) {
		id := c.note(c.Spawn(t, "--objective", harness.Goal("begins"), "--auto-continue"))
		return id, c.pipeline(t, id).RunID
	}, func(id int64) []string {
		return []string{contract.PipelineWorkflowID(id), contract.MemberWorkflowID(id, contract.Alpha)}
	})
	p := c.AwaitPipeline(t, id, "over", deliberate, func(p store.Pipeline) bool { return p.Status.Terminal() })
	require.Equal(t, contract.PipelineStopped, p.Status)
	c.requireOneCancelled(t, p.RunID, alpha)
	return c.historyOf(t, c.PipelineHistories(t, p), contract.MemberWorkflowID(id, contract.Alpha))
}

// stepStart kills the worker while it opens a step, which is a part of a run, and cancels the run: no history
// has the step.
func (c *pipelineTests) stepStart(t *testing.T, repo string) {
	t.Helper()
	id := c.Create(t, "--repo", repo, "--goal", harness.Goal("begins-run"), "--approve-plan")
	c.runs = append(c.runs, id)
	c.AwaitRun(t, c.Store(t), id, "asked to approve its plan", longest, func(r store.Run) bool { return r.WaitingFor != "" })
	c.killDuringStart(t, "step-001", func() (int64, int64) {
		c.OK(t, "run", "approve", fmt.Sprint(id))
		return id, id
	}, func(id int64) []string { return []string{contract.RunWorkflowID(id)} })
	require.Equal(t, contract.StatusCancelled, c.AwaitEnd(t, c.Store(t), id, longest).Status)
	c.requireOneCancelled(t, id, "step-001")
	for _, e := range c.historyOf(t, c.Histories(t, id), contract.RunWorkflowID(id)).Events {
		require.NotEqual(t, contract.ActivityThink, e.GetActivityTaskScheduledEventAttributes().GetActivityType().GetName(), "the step was not opened")
	}
}

func (c *pipelineTests) historyOf(t *testing.T, all []harness.History, workflow string) harness.History {
	t.Helper()
	i := slices.IndexFunc(all, func(h harness.History) bool { return h.WorkflowID == workflow })
	require.GreaterOrEqual(t, i, 0, workflow)
	return all[i]
}

// killDuringStart kills the worker when an execution has its row and cannot write
// its conversation, and cancels workflows before there is another one. Begin returns
// what it began, and the run whose execution it is.
func (c *pipelineTests) killDuringStart(t *testing.T, step string, begin func() (id, run int64), workflows func(id int64) []string) int64 {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), c.State(t).Database)
	require.NoError(t, err)
	defer conn.Close(t.Context())
	lock, err := conn.Begin(t.Context())
	require.NoError(t, err)
	_, err = lock.Exec(t.Context(), "LOCK TABLE orchestrator_transcripts IN EXCLUSIVE MODE") // reading goes on
	require.NoError(t, err)
	id, run := begin()
	harness.Await(t, step+" to begin", deliberate, func() (bool, string) {
		return len(c.executionsOf(t, run, step)) > 0, "no row"
	})
	c.Kill(t, devstack.RoleWorker)
	require.NoError(t, lock.Rollback(t.Context()))
	for _, w := range workflows(id) {
		require.NoError(t, c.Temporal(t).CancelWorkflow(t.Context(), w, ""))
	}
	c.Up(t)
	return id
}

// requireOneCancelled sees that the execution that began is the only one, and was cancelled.
func (c *pipelineTests) requireOneCancelled(t *testing.T, run int64, step string) {
	t.Helper()
	var status []contract.ExecutionStatus
	for _, e := range c.executionsOf(t, run, step) {
		status = append(status, e.Status)
	}
	require.Equal(t, []contract.ExecutionStatus{contract.ExecutionCancelled}, status, "executions of %s", step)
}

func (c *pipelineTests) executionsOf(t *testing.T, run int64, step string) []store.Execution {
	t.Helper()
	all, err := c.Store(t).Executions(t.Context(), run)
	require.NoError(t, err)
	return slices.DeleteFunc(all, func(e store.Execution) bool { return e.Step != step })
}
