package workerhost

import (
	"context"
	"strings"
	"sync"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/workflow"
	"google.golang.org/grpc"
)

// beatsPerTimeout is the number of heartbeats that an activity sends per heartbeat timeout.
const beatsPerTimeout = 3

// heartbeats decides how often the activities of this worker's workflows send heartbeats, each of which costs
// Temporal a write. The more activities this worker has in progress, the longer are the timeouts of those that it
// schedules. Temporal tells an activity that it was cancelled in the response to a heartbeat, so when a workflow
// cancels activities, all of its activities on this worker send one at once.
//
// A nil *heartbeats changes nothing.
type heartbeats struct {
	perSecond int           // of all activities, unless that requires a timeout longer than longest
	longest   time.Duration // timeout

	mu       sync.Mutex
	total    int                            // activities in progress
	progress map[string]map[wakeup]struct{} // those activities, by workflow
}

// wakeup makes an activity send a heartbeat at once.
type wakeup chan struct{}

func newHeartbeats(perSecond int, longest time.Duration) *heartbeats {
	return &heartbeats{perSecond: perSecond, longest: longest, progress: map[string]map[wakeup]struct{}{}}
}

// timeout returns the heartbeat timeout of an activity that starts now and whose workflow wants the given one.
func (h *heartbeats) timeout(wanted time.Duration) time.Duration {
	if h == nil || wanted <= 0 {
		return wanted
	}
	h.mu.Lock()
	all := h.total + 1
	h.mu.Unlock()
	needed := time.Duration(all*beatsPerTimeout) * time.Second / time.Duration(h.perSecond)
	return max(wanted, min(needed.Round(time.Second), h.longest))
}

// begin counts an activity of a workflow until end is called.
func (h *heartbeats) begin(workflowID string) (now wakeup, end func()) {
	now = make(wakeup, 1)
	if h == nil {
		return now, func() {}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.total++
	if h.progress[workflowID] == nil {
		h.progress[workflowID] = map[wakeup]struct{}{}
	}
	h.progress[workflowID][now] = struct{}{}
	return now, func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.total--
		delete(h.progress[workflowID], now)
		if len(h.progress[workflowID]) == 0 {
			delete(h.progress, workflowID)
		}
	}
}

// beatNow makes the activities of a workflow send a heartbeat.
func (h *heartbeats) beatNow(workflowID string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for now := range h.progress[workflowID] {
		select {
		case now <- struct{}{}:
		default: // one is pending
		}
	}
}

// intercept is the interceptor for the connection of workers that execute workflows. It notices which of them have
// cancelled activities.
func (h *heartbeats) intercept(ctx context.Context, method string, req, reply any, conn *grpc.ClientConn, invoke grpc.UnaryInvoker, options ...grpc.CallOption) error {
	err := invoke(ctx, method, req, reply, conn, options...)
	if r, ok := req.(*workflowservice.RespondWorkflowTaskCompletedRequest); ok && err == nil {
		for _, c := range r.GetCommands() {
			if c.GetCommandType() == enumspb.COMMAND_TYPE_REQUEST_CANCEL_ACTIVITY_TASK {
				h.beatNow(strings.TrimPrefix(r.GetResourceId(), "workflow:"))
				break
			}
		}
	}
	return err
}

// send sends the heartbeats of an activity while it runs, several times per timeout; its start counts as the first
// one. The returned function stops them and waits until they have stopped: a heartbeat after the end would be an
// error in Temporal's log.
func (h *heartbeats) send(ctx context.Context, info activity.Info, details any) (stop func()) {
	if info.IsLocalActivity || info.HeartbeatTimeout <= 0 {
		return func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	now, end := h.begin(info.WorkflowExecution.ID)
	var done sync.WaitGroup
	done.Go(func() {
		tick := time.NewTicker(info.HeartbeatTimeout / beatsPerTimeout)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			case <-now:
			}
			activity.RecordHeartbeat(ctx, details)
		}
	})
	return sync.OnceFunc(func() { cancel(); done.Wait(); end() })
}

// timeoutInterceptor sets the heartbeat timeouts of activities. A replay does not compare timeouts, so they may
// depend on what else the worker does.
type timeoutInterceptor struct {
	interceptor.WorkerInterceptorBase
	beats *heartbeats
}

func (t *timeoutInterceptor) InterceptWorkflow(_ workflow.Context, next interceptor.WorkflowInboundInterceptor) interceptor.WorkflowInboundInterceptor {
	return &timeoutInbound{interceptor.WorkflowInboundInterceptorBase{Next: next}, t.beats}
}

type timeoutInbound struct {
	interceptor.WorkflowInboundInterceptorBase
	beats *heartbeats
}

func (t *timeoutInbound) Init(outbound interceptor.WorkflowOutboundInterceptor) error {
	return t.Next.Init(&timeoutOutbound{interceptor.WorkflowOutboundInterceptorBase{Next: outbound}, t.beats})
}

type timeoutOutbound struct {
	interceptor.WorkflowOutboundInterceptorBase
	beats *heartbeats
}

func (t *timeoutOutbound) ExecuteActivity(ctx workflow.Context, name string, args ...any) workflow.Future {
	if wanted := workflow.GetActivityOptions(ctx).HeartbeatTimeout; wanted > 0 {
		ctx = workflow.WithHeartbeatTimeout(ctx, t.beats.timeout(wanted))
	}
	return t.Next.ExecuteActivity(ctx, name, args...)
}
