// Package eager starts activities on the worker whose workflow scheduled them: they come with the response to the
// workflow task, so they need no queue and no poll. Temporal's SDK does this for activities on the workflow's own
// queue only, and each of our roles has a queue of its own; the server accepts it for any queue.
package eager

import (
	"context"
	"slices"
	"sync"
	"time"

	commandpb "go.temporal.io/api/command/v1"
	"go.temporal.io/api/workflowservice/v1"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
)

// Starter passes activities from the workers that execute workflows to workers that execute activities, in the same
// process. The former use a connection with the interceptor Schedule. The latter poll the same queues as others, but
// on a connection with the interceptor Poll, which never asks the server: they only get activities that start here.
//
// If a response is lost after the server has accepted it, its activities are started again when their heartbeats
// time out, like those of a worker that died. So only activities with a heartbeat timeout are started here.
type Starter struct {
	capacity func(queue string) int

	mu      sync.Mutex
	closed  bool
	waiting map[string][]*poll // by queue
	stopped map[string]bool    // workers, by the key that the SDK gives each
	open    sync.WaitGroup     // requests that hold polls
}

// poll is a worker's poll. A request that may bring an activity for it holds it until the response.
type poll struct {
	worker string
	result chan *workflowservice.PollActivityTaskQueueResponse // nil: no activity
	ended  bool                                                // it waits only for the response of the request that holds it
}

// New returns a Starter. capacity returns how many more activities of a queue this process can start now; the others
// go to the queue, where another worker may start them earlier. It is called often, and must not block.
func New(capacity func(queue string) int) *Starter {
	return &Starter{capacity: capacity, waiting: map[string][]*poll{}, stopped: map[string]bool{}}
}

// Close lets no further activities start here, and waits until those that the server may be starting have been
// passed on, for at most closeTime. Call it before the workers stop.
func (s *Starter) Close() {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	passed := make(chan struct{})
	go func() { s.open.Wait(); close(passed) }()
	patience := time.NewTimer(closeTime)
	defer patience.Stop()
	select {
	case <-passed:
	case <-patience.C:
	}
}

// closeTime is how long Close waits for responses. What comes later is started again if nobody executes it.
const closeTime = 2 * time.Second

// Poll is the interceptor for the connection of workers that execute what starts here. Like the server, it ends the
// polls of a worker that stops: the worker waits for them.
func (s *Starter) Poll(ctx context.Context, method string, req, reply any, conn *grpc.ClientConn, invoke grpc.UnaryInvoker, options ...grpc.CallOption) error {
	switch r := req.(type) {
	case *workflowservice.PollActivityTaskQueueRequest:
		response, ok := reply.(*workflowservice.PollActivityTaskQueueResponse)
		if !ok {
			break
		}
		if task := s.await(ctx, r.GetTaskQueue().GetName(), r.GetWorkerInstanceKey()); task != nil {
			proto.Merge(response, task)
		}
		return nil
	case *workflowservice.ShutdownWorkerRequest:
		s.stop(r.GetWorkerInstanceKey())
	}
	return invoke(ctx, method, req, reply, conn, options...)
}

// await returns the next activity of a queue that starts here, nil if ctx ends or the worker stops first.
func (s *Starter) await(ctx context.Context, queue, worker string) *workflowservice.PollActivityTaskQueueResponse {
	p := &poll{worker: worker, result: make(chan *workflowservice.PollActivityTaskQueueResponse, 1)}
	s.mu.Lock()
	if s.stopped[worker] {
		s.mu.Unlock()
		return nil
	}
	s.waiting[queue] = append(s.waiting[queue], p)
	s.mu.Unlock()
	select {
	case task := <-p.result:
		return task
	case <-ctx.Done():
	}
	s.mu.Lock()
	s.end(queue, p)
	s.mu.Unlock()
	return <-p.result
}

// end ends a poll. If a request holds it, it gets the response of that. The caller must hold s.mu.
func (s *Starter) end(queue string, p *poll) {
	p.ended = true
	if i := slices.Index(s.waiting[queue], p); i >= 0 {
		s.waiting[queue] = slices.Delete(s.waiting[queue], i, i+1)
		p.result <- nil
	}
}

// stop ends the polls of a worker, also those that have yet to begin.
func (s *Starter) stop(worker string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stopped[worker] = true
	for queue, polls := range s.waiting {
		for _, p := range slices.Clone(polls) {
			if p.worker == worker {
				s.end(queue, p)
			}
		}
	}
}

// Schedule is the interceptor for the connection of workers that execute workflows.
func (s *Starter) Schedule(ctx context.Context, method string, req, reply any, conn *grpc.ClientConn, invoke grpc.UnaryInvoker, options ...grpc.CallOption) error {
	request, isCompletion := req.(*workflowservice.RespondWorkflowTaskCompletedRequest)
	response, ok := reply.(*workflowservice.RespondWorkflowTaskCompletedResponse)
	// The activities of a request with several pages are in the response to the last one.
	if !isCompletion || !ok || request.GetIntermediatePage() {
		return invoke(ctx, method, req, reply, conn, options...)
	}
	held := s.hold(request.GetCommands())
	if len(held) == 0 {
		return invoke(ctx, method, req, reply, conn, options...)
	}
	defer func() { s.pass(held, response) }()
	return invoke(ctx, method, req, reply, conn, options...)
}

// hold is a poll that is to get an activity if the server starts it.
type hold struct {
	command *commandpb.ScheduleActivityTaskCommandAttributes
	queue   string
	poll    *poll
}

// hold asks the server to start activities for which there are a waiting poll and capacity.
func (s *Starter) hold(commands []*commandpb.Command) (held []hold) {
	s.mu.Lock()
	defer s.mu.Unlock()
	capacity := map[string]int{}
	for _, c := range commands {
		a := c.GetScheduleActivityTaskCommandAttributes()
		queue := a.GetTaskQueue().GetName()
		// What is requested already starts in the SDK's own way.
		if a == nil || s.closed || a.GetRequestEagerExecution() || a.GetHeartbeatTimeout().AsDuration() <= 0 || len(s.waiting[queue]) == 0 {
			continue
		}
		if _, known := capacity[queue]; !known {
			capacity[queue] = s.capacity(queue)
		}
		if capacity[queue] <= 0 {
			continue
		}
		capacity[queue]--
		last := len(s.waiting[queue]) - 1
		held = append(held, hold{command: a, queue: queue, poll: s.waiting[queue][last]})
		s.waiting[queue] = s.waiting[queue][:last]
		a.RequestEagerExecution = true
	}
	if len(held) > 0 {
		s.open.Add(1)
	}
	return held
}

// pass passes the activities of a response to the polls held for them, and takes them out of it: the SDK does not
// know about them. The other polls wait again. A response without activities may be one that failed; then the
// SDK repeats the request.
func (s *Starter) pass(held []hold, response *workflowservice.RespondWorkflowTaskCompletedResponse) {
	s.mu.Lock()
	defer s.mu.Unlock()
	defer s.open.Done()
	for _, h := range held {
		h.command.RequestEagerExecution = false
		i := slices.IndexFunc(response.GetActivityTasks(), func(t *workflowservice.PollActivityTaskQueueResponse) bool {
			return t.GetActivityId() == h.command.GetActivityId()
		})
		switch {
		case i >= 0:
			h.poll.result <- response.GetActivityTasks()[i]
			response.ActivityTasks = slices.Delete(response.GetActivityTasks(), i, i+1)
		case h.poll.ended || s.stopped[h.poll.worker]:
			h.poll.result <- nil
		default:
			s.waiting[h.queue] = append(s.waiting[h.queue], h.poll)
		}
	}
}
