package workerhost

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	taskqueuepb "go.temporal.io/api/taskqueue/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/workflow"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/rocketgpt/orchestrator/activities"
	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/config"
	"github.com/rocketgpt/orchestrator/internal/notice"
	"github.com/rocketgpt/orchestrator/internal/sandbox"
	"github.com/rocketgpt/orchestrator/internal/setup"
	"github.com/rocketgpt/orchestrator/internal/store/views"
	"github.com/rocketgpt/orchestrator/internal/storetest"
	"github.com/rocketgpt/orchestrator/internal/temporal"
)

// fakePollers is a Temporal that sees this worker poll, or does not answer.
type fakePollers struct {
	unavailable atomic.Bool
	noPollers   atomic.Bool // it sees only others
}

func (w *fakePollers) DescribeTaskQueue(context.Context, string, enumspb.TaskQueueType) (*workflowservice.DescribeTaskQueueResponse, error) {
	if w.unavailable.Load() {
		return nil, errors.New("dial tcp 10.0.0.1:7233: secret detail")
	}
	who := temporal.Identity()
	if w.noPollers.Load() {
		who = "another:1:aa"
	}
	return &workflowservice.DescribeTaskQueueResponse{Pollers: []*taskqueuepb.PollerInfo{{Identity: who, LastAccessTime: timestamppb.Now()}}}, nil
}

// testWorker is the agents of a worker with a separate database, and a real sandbox whose
// helper program can be removed.
type testWorker struct {
	*agents
	temporal *fakePollers
	helper   string
	stop     func()
}

func startWorker(t *testing.T, roles ...string) *testWorker {
	t.Helper()
	c := &testWorker{temporal: &fakePollers{}, helper: filepath.Join(t.TempDir(), "helper")}
	self, err := os.Executable()
	require.NoError(t, err)
	// Another process copies: a command that a parallel test starts while this process has the
	// program open for writing would keep it from being executed ("text file busy").
	require.NoError(t, exec.CommandContext(t.Context(), "cp", self, c.helper).Run())
	runner, err := sandbox.NewProcess(sandbox.Options{Executable: c.helper, Toolchains: sandbox.DetectToolchains()})
	var missing *sandbox.IsolationError
	if errors.As(err, &missing) {
		t.Skip(err)
	}
	require.NoError(t, err)

	cfg := config.Default()
	cfg.Worker.Roles = roles
	cfg.Worker.Heartbeat, cfg.Worker.ProbeInterval = 100*time.Millisecond, 100*time.Millisecond
	cfg.Models.Default = config.Choice{Provider: "local", Model: "any"}
	cfg.Models.Providers["local"] = config.Provider{Kind: "scripted", BaseURL: "http://127.0.0.1:1", MaxConcurrent: 1}
	models, err := setup.Model(cfg)
	require.NoError(t, err)
	t.Cleanup(models.Close)
	o := Options{Config: cfg, DataDir: t.TempDir(), Log: slog.New(slog.NewTextHandler(io.Discard, nil)), tasks: &tasks{}}
	c.agents = newAgents(&activities.Activities{Store: storetest.New(t), Sandbox: runner, Model: models, Log: o.Log}, o)
	c.probes.temporal = c.temporal
	ctx, cancel := context.WithCancel(t.Context())
	var done sync.WaitGroup
	done.Go(func() { _ = c.run(ctx) })
	c.stop = func() { cancel(); done.Wait() }
	t.Cleanup(c.stop)
	return c
}

// await waits until an agent is in the expected state.
func (c *testWorker) await(t *testing.T, role string, ok func(views.Agent) bool) views.Agent {
	t.Helper()
	var last views.Agent
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); {
		all, err := views.New(c.store).Agents(t.Context())
		require.NoError(t, err)
		for _, a := range all {
			if a.Type == role {
				last = a
			}
		}
		if ok(last) {
			return last
		}
		<-time.After(20 * time.Millisecond)
	}
	require.Fail(t, "the agent did not become what it should", "%+v", last)
	return last
}

func is(h contract.Health) func(views.Agent) bool {
	return func(a views.Agent) bool { return a.HealthStatus == h }
}

func TestTheRolesOfTheContractAreThoseThatWorkersHave(t *testing.T) {
	t.Parallel()
	have := map[string]string{}
	for _, r := range activities.Roles() {
		have[r.Name] = r.Queue
	}
	told := map[string]string{}
	for _, r := range contract.WorkerRoles() {
		told[r.Name] = r.Queue
	}
	require.Equal(t, have, told)
}

func TestAWorkerThatStopsSaysSoAtOnce(t *testing.T) {
	t.Parallel()
	c := startWorker(t, "run", "builder")
	a := c.await(t, "builder", is(contract.HealthHealthy))
	require.Equal(t, "builder@"+temporal.Identity(), a.Name)
	require.Equal(t, temporal.Identity(), a.Worker)
	require.Positive(t, a.MemoryUsage)
	require.Empty(t, a.Detail)
	c.await(t, "run", is(contract.HealthHealthy))
	c.stop()
	all, err := views.New(c.store).Agents(t.Context())
	require.NoError(t, err)
	require.Len(t, all, 2)
	for _, a := range all {
		require.Equal(t, contract.HealthOffline, a.HealthStatus, "nobody has to wait for its silence")
		require.Equal(t, "it was stopped", a.Detail)
	}
}

func TestAnAgentWithoutItsSandboxIsDegradedAndSaysWhy(t *testing.T) {
	t.Parallel()
	c := startWorker(t, "planner", "tester", "builder")
	for _, role := range []string{"planner", "tester", "builder"} {
		c.await(t, role, is(contract.HealthHealthy))
	}
	require.NoError(t, os.Rename(c.helper, c.helper+".gone"))
	for _, role := range []string{"tester", "builder"} {
		a := c.await(t, role, is(contract.HealthDegraded))
		require.Contains(t, a.Detail, "sandbox: commands cannot be isolated")
	}
	require.NoError(t, os.Rename(c.helper+".gone", c.helper))
	c.await(t, "tester", is(contract.HealthHealthy))
	planner := c.await(t, "planner", func(views.Agent) bool { return true })
	require.NotEqual(t, contract.HealthDegraded, planner.HealthStatus, "it runs no commands; it may be late on a slow machine")
}

func TestAnAgentThatTemporalDoesNotKnowOrThatHasNoModelIsDegraded(t *testing.T) {
	t.Parallel()
	c := startWorker(t, "planner", "releaser")
	c.await(t, "planner", is(contract.HealthHealthy))
	c.temporal.unavailable.Store(true)
	a := c.await(t, "releaser", is(contract.HealthDegraded))
	require.Contains(t, a.Detail, "temporal: it is not responding")
	require.NotContains(t, a.Detail, "10.0.0.1", "the log has that")
	c.temporal.unavailable.Store(false)
	c.temporal.noPollers.Store(true)
	c.await(t, "releaser", func(a views.Agent) bool {
		return strings.Contains(a.Detail, "this worker does not poll rgpt-releaser")
	})
	c.temporal.noPollers.Store(false)
	c.await(t, "releaser", is(contract.HealthHealthy))

	bare := config.Default()
	bare.Models.Default = config.Choice{Provider: "openai", Model: "any"}
	bare.Models.Providers["openai"] = config.Provider{Kind: "openai", APIKeyEnv: "RGPT_TEST_NO_SUCH_KEY", MaxConcurrent: 1}
	models, err := setup.Model(bare)
	require.NoError(t, err)
	defer models.Close()
	p := *c.probes
	p.config, p.models = bare, models
	lacking := p.lacking(t.Context(), []string{"planner", "releaser"})
	require.Contains(t, lacking["planner"], "RGPT_TEST_NO_SUCH_KEY is empty")
	require.Empty(t, lacking["releaser"], "it asks no model")
	p.config = config.Default()
	require.Contains(t, p.lacking(t.Context(), []string{"planner"})["planner"], "no model is configured for the planner")
}

func TestHeartbeatsReportWhatAgentsWorkOn(t *testing.T) {
	t.Parallel()
	c := startWorker(t, "run", "builder", "repair")
	var notices notice.Receiver
	begin := func(id, queue, name string, in any) (end func(error)) {
		end, notices = c.tasks.begin(activity.Info{
			WorkflowExecution: workflow.Execution{ID: id}, TaskQueue: queue, ActivityType: activity.Type{Name: name},
		}, []any{in})
		return end
	}
	think := contract.ThinkInput{Execution: contract.ExecutionRef{ID: 7, RunID: 42, Phase: contract.PhaseBuilder, Step: "step-001", Agent: contract.AgentBuilder}}
	ended := begin("run-42", contract.QueueBuilder, contract.ActivityThink, think)
	notices.Does(contract.ActivityTool)
	notices.Waits(true)
	notices.Waits(true)
	notices.Waits(false) // the other one still does
	c.await(t, "builder", func(a views.Agent) bool {
		return len(a.Work) == 1 && a.Work[0].Activity == contract.ActivityTool && a.Work[0].Waits
	})
	notices.Waits(false)
	notices.Does(contract.ActivityThink)
	think.Execution.Step, think.Execution.Agent = "repair", contract.AgentRepair
	begin("run-42/heal/1/step/repair", contract.QueueOfWorker(temporal.Identity()), contract.ActivityThink, think)(errors.New("failed"))
	begin("run-42", contract.QueueRun, contract.ActivityRecord, contract.Record{})(nil)
	begun := contract.OpenStepInput{Record: contract.Record{RunID: 42, Begin: &contract.ExecutionBegin{Phase: contract.PhaseBuilder, Step: "step-002", Agent: contract.AgentBuilder}}}
	opened := begin("run-42", contract.QueueRun, contract.ActivityOpenStep, begun) // in the workflow of the run
	c.await(t, "builder", func(a views.Agent) bool {
		return slices.ContainsFunc(a.Work, func(w contract.Work) bool { return w.Step == "step-002" && w.Activity == contract.ActivityOpenStep })
	})
	opened(nil)
	begin("run-43", contract.QueueBuilder, contract.ActivityCleanUp, int64(43))(context.Canceled)

	a := c.await(t, "builder", func(a views.Agent) bool { return len(a.Work) == 1 && !a.Work[0].Waits })
	require.WithinDuration(t, time.Now(), a.Work[0].Since, time.Minute)
	a.Work[0].Since = time.Time{}
	require.Equal(t, []contract.Work{{RunID: 42, Phase: contract.PhaseBuilder, Step: "step-001", Activity: contract.ActivityThink}}, a.Work)
	require.Zero(t, a.TasksFailed, "what a person stops has not failed")
	c.await(t, "repair", func(a views.Agent) bool { return a.TasksFailed == 1 && len(a.Work) == 0 })
	ended(nil)
	notices.Waits(false) // of an activity that has ended
	c.await(t, "builder", func(a views.Agent) bool { return a.TasksDone == 2 && len(a.Work) == 0 })
	require.Zero(t, c.await(t, "run", is(contract.HealthHealthy)).TasksDone)
}
