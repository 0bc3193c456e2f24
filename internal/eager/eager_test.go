package eager_test

import (
	"context"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	commandpb "go.temporal.io/api/command/v1"
	taskqueuepb "go.temporal.io/api/taskqueue/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/rocketgpt/orchestrator/internal/await"
	"github.com/rocketgpt/orchestrator/internal/config"
	"github.com/rocketgpt/orchestrator/internal/eager"
	"github.com/rocketgpt/orchestrator/internal/temporal"
	"github.com/rocketgpt/orchestrator/internal/temporal/temporaltest"
)

const (
	flows = "flows" // queue of the workflow
	tasks = "tasks" // queue of its activities
)

// flow executes n activities at the same time, and returns where each was executed.
func flow(ctx workflow.Context, n int) ([]string, error) {
	ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{TaskQueue: tasks, StartToCloseTimeout: time.Minute, HeartbeatTimeout: time.Second})
	futures := make([]workflow.Future, n)
	for i := range futures {
		futures[i] = workflow.ExecuteActivity(ctx, "where")
	}
	places := make([]string, n)
	for i, f := range futures {
		if err := f.Get(ctx, &places[i]); err != nil {
			return nil, err
		}
	}
	return places, nil
}

// process is a process with a worker for workflows, and one for the activities that start there.
type process struct {
	client client.Client
	here   worker.Worker // executes them
}

// newProcess starts a process. inner are interceptors between it and Temporal.
func newProcess(t *testing.T, address string, s *eager.Starter, inner ...grpc.UnaryClientInterceptor) process {
	t.Helper()
	p := process{client: connect(t, address, append([]grpc.UnaryClientInterceptor{s.Schedule}, inner...)...)}
	workflows := worker.New(p.client, flows, worker.Options{})
	workflows.RegisterWorkflow(flow)
	start(t, workflows)
	p.here = startActivities(t, connect(t, address, s.Poll), "here")
	await.Until(t, "the worker to poll", func() bool { return s.Waits(tasks) })
	return p
}

func connect(t *testing.T, address string, interceptors ...grpc.UnaryClientInterceptor) client.Client {
	t.Helper()
	c, err := temporal.Connect(t.Context(), config.Temporal{Address: address, Namespace: temporaltest.Namespace}, slog.New(slog.DiscardHandler), interceptors...)
	require.NoError(t, err)
	t.Cleanup(c.Close)
	return c
}

func start(t *testing.T, w worker.Worker) {
	t.Helper()
	require.NoError(t, w.Start())
	t.Cleanup(w.Stop)
}

// startActivities starts a worker for activities, which return its place.
func startActivities(t *testing.T, c client.Client, place string) worker.Worker {
	t.Helper()
	w := worker.New(c, tasks, worker.Options{DisableWorkflowWorker: true, WorkerStopTimeout: time.Hour, MaxConcurrentActivityTaskPollers: 1})
	w.RegisterActivityWithOptions(func(context.Context) (string, error) { return place, nil }, activity.RegisterOptions{Name: "where"})
	start(t, w)
	return w
}

// places executes n activities at the same time, and returns how many were executed at each place.
func (p process) places(t *testing.T, n int) map[string]int {
	t.Helper()
	run, err := p.client.ExecuteWorkflow(t.Context(), client.StartWorkflowOptions{TaskQueue: flows}, flow, n)
	require.NoError(t, err)
	var places []string
	require.NoError(t, run.Get(t.Context(), &places))
	count := map[string]int{}
	for _, place := range places {
		count[place]++
	}
	return count
}

func TestActivitiesStartOnTheWorkerThatScheduledThem(t *testing.T) {
	t.Parallel()
	var capacity atomic.Int64
	capacity.Store(1)
	s := eager.New(func(queue string) int {
		if queue != tasks {
			return 0
		}
		return int(capacity.Load())
	})
	p := newProcess(t, temporaltest.Serve(t), s)
	// No worker asks the server for activities of this queue.
	require.Equal(t, map[string]int{"here": 1}, p.places(t, 1))

	startActivities(t, p.client, "queue")
	await.Until(t, "the worker to poll again", func() bool { return s.Waits(tasks) })
	require.Equal(t, map[string]int{"here": 1, "queue": 2}, p.places(t, 3), "the worker has capacity for one")
	capacity.Store(0)
	require.Equal(t, map[string]int{"queue": 2}, p.places(t, 2), "the worker has no capacity")
}

func TestAnActivityWhoseStartWasLostIsStartedAgain(t *testing.T) {
	t.Parallel()
	var lost atomic.Bool
	lose := func(ctx context.Context, method string, req, reply any, conn *grpc.ClientConn, invoke grpc.UnaryInvoker, options ...grpc.CallOption) error {
		err := invoke(ctx, method, req, reply, conn, options...)
		if r, ok := reply.(*workflowservice.RespondWorkflowTaskCompletedResponse); ok && len(r.GetActivityTasks()) > 0 && lost.CompareAndSwap(false, true) {
			r.Reset()
			return status.Error(codes.Unavailable, "the connection was lost")
		}
		return err
	}
	p := newProcess(t, temporaltest.Serve(t), eager.New(func(string) int { return 1 }), lose)
	startActivities(t, p.client, "queue")
	require.Equal(t, map[string]int{"queue": 1}, p.places(t, 1), "the server tries again, with a worker that asks it")
	require.True(t, lost.Load())
	require.Equal(t, map[string]int{"here": 1}, p.places(t, 1), "the poll of the lost activity waits again")
}

func TestNothingStartsAfterClose(t *testing.T) {
	t.Parallel()
	s := eager.New(func(string) int { return 1 })
	p := newProcess(t, temporaltest.Serve(t), s)
	startActivities(t, p.client, "queue")
	s.Close()
	require.Equal(t, map[string]int{"queue": 1}, p.places(t, 1))
}

func TestAWorkerThatStopsDoesNotWaitForItsPolls(t *testing.T) {
	t.Parallel()
	s := eager.New(func(string) int { return 1 })
	p := newProcess(t, temporaltest.Serve(t), s)
	require.Equal(t, map[string]int{"here": 1}, p.places(t, 1))
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		p.here.Stop()
	}()
	select {
	case <-stopped:
	case <-time.After(time.Minute):
		t.Fatal("the polls of the worker did not end")
	}
	startActivities(t, p.client, "queue")
	require.Equal(t, map[string]int{"queue": 1}, p.places(t, 1))
}

// completion is the response to a workflow task that schedules one activity.
type completion struct {
	request *workflowservice.RespondWorkflowTaskCompletedRequest
	sent    chan bool // receives whether the server was asked to start the activity
	answer  chan bool // whether the server starts it
	done    chan *workflowservice.RespondWorkflowTaskCompletedResponse
}

func complete(t *testing.T, s *eager.Starter, heartbeat time.Duration) *completion {
	t.Helper()
	attributes := &commandpb.ScheduleActivityTaskCommandAttributes{
		ActivityId: "1", TaskQueue: &taskqueuepb.TaskQueue{Name: tasks}, HeartbeatTimeout: durationpb.New(heartbeat),
	}
	c := &completion{
		request: &workflowservice.RespondWorkflowTaskCompletedRequest{Commands: []*commandpb.Command{
			{Attributes: &commandpb.Command_ScheduleActivityTaskCommandAttributes{ScheduleActivityTaskCommandAttributes: attributes}},
		}},
		sent: make(chan bool, 1), answer: make(chan bool, 1), done: make(chan *workflowservice.RespondWorkflowTaskCompletedResponse, 1),
	}
	go func() {
		response := &workflowservice.RespondWorkflowTaskCompletedResponse{}
		_ = s.Schedule(t.Context(), "", c.request, response, nil, func(context.Context, string, any, any, *grpc.ClientConn, ...grpc.CallOption) error {
			c.sent <- attributes.GetRequestEagerExecution()
			if <-c.answer {
				response.ActivityTasks = []*workflowservice.PollActivityTaskQueueResponse{{ActivityId: "1", TaskToken: []byte("token")}}
			}
			return nil
		})
		c.done <- response
	}()
	return c
}

// poll polls for an activity, and returns the channel of the token that it gets; empty: none.
func poll(ctx context.Context, s *eager.Starter) chan string {
	got := make(chan string, 1)
	go func() {
		request, response := &workflowservice.PollActivityTaskQueueRequest{TaskQueue: &taskqueuepb.TaskQueue{Name: tasks}}, &workflowservice.PollActivityTaskQueueResponse{}
		_ = s.Poll(ctx, "", request, response, nil, nil)
		got <- string(response.GetTaskToken())
	}()
	return got
}

func TestAPollThatEndsWhileAnActivityMayComeForItWaitsForTheResponse(t *testing.T) {
	t.Parallel()
	for _, starts := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			s := eager.New(func(string) int { return 1 })
			ctx, cancel := context.WithCancel(t.Context())
			got := poll(ctx, s)
			synctest.Wait()
			c := complete(t, s, time.Second)
			require.True(t, <-c.sent)
			closed := make(chan struct{})
			go func() { s.Close(); close(closed) }()
			cancel()
			synctest.Wait()
			select {
			case <-got:
				t.Fatal("the poll ended before the response")
			case <-closed:
				t.Fatal("Close did not wait for the response")
			default:
			}
			c.answer <- starts
			require.Equal(t, map[bool]string{true: "token", false: ""}[starts], <-got)
			require.Empty(t, (<-c.done).GetActivityTasks(), "the SDK does not know about them")
			<-closed
		})
	}
}

func TestActivitiesWhoseLossNothingWouldNoticeAreNotStartedHere(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := eager.New(func(string) int { return 1 })
		ctx, cancel := context.WithCancel(t.Context())
		got := poll(ctx, s)
		synctest.Wait()
		for _, heartbeat := range []time.Duration{0, time.Second} {
			c := complete(t, s, heartbeat)
			require.Equal(t, heartbeat > 0, <-c.sent)
			c.answer <- false
			<-c.done
		}
		cancel()
		require.Empty(t, <-got)
	})
}
