// Package health reports the current state of the installation: the workers' agents, the task
// queues, and unfinished work. The state is refreshed every few seconds, so that reading it is
// cheap.
package health

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	taskqueuepb "go.temporal.io/api/taskqueue/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"golang.org/x/sync/errgroup"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/internal/store/providers"
	"github.com/rocketgpt/orchestrator/internal/store/views"
)

const (
	// DefaultInterval is the default interval between a Monitor's refreshes.
	DefaultInterval = 5 * time.Second
	// refreshTimeout limits one refresh.
	refreshTimeout = 5 * time.Second
	// maxConcurrentQueries is the maximum number of concurrent queue queries to Temporal.
	maxConcurrentQueries = 4
	// historyLength is the number of backlog samples kept for each queue: ten minutes' worth by
	// default.
	historyLength = 120
	// polledWithin is the maximum time since a poller's last poll for it to count: a poll stays
	// open for a minute, then the next one follows.
	polledWithin = 75 * time.Second
	// maxBreakers is the maximum number of breakers in metrics.
	maxBreakers = 200
)

// Queue is a task queue as Temporal last described it.
type Queue struct {
	Name    string `json:"name"`
	Role    string `json:"role"`
	Backlog int64  `json:"backlog" doc:"approximate number of waiting tasks"`
	// BacklogAge is the waiting time of the oldest task.
	BacklogAge   float64 `json:"backlog_age_seconds"`
	AddRate      float64 `json:"add_rate" doc:"tasks added per second, over the last 30 s"`
	DispatchRate float64 `json:"dispatch_rate" doc:"tasks dispatched to workers per second, over the last 30 s"`
	Pollers      int     `json:"pollers" doc:"number of workers polling the queue"`
	// History is the backlog at the last refreshes, oldest first.
	History []int64 `json:"history" doc:"recent backlog values, oldest first"`
}

// Report is the state of the installation at one time.
type Report struct {
	Agents []views.Agent `json:"agents"`
	Queues []Queue       `json:"queues" doc:"as of queues_at; empty if Temporal has never responded"`
	// QueuesAt is when Temporal last described the queues.
	QueuesAt *time.Time `json:"queues_at,omitempty"`
	// QueuesProblem is the reason why QueuesAt is outdated.
	QueuesProblem string `json:"queues_problem,omitempty"`
	// Roles maps each role to ok if at least one healthy agent polls its queue, and otherwise to a
	// description of the problem.
	Roles map[string]string `json:"roles" doc:"for each role: ok, or the problem"`

	Unfinished views.Unfinished    `json:"-"`
	Breakers   []providers.Breaker `json:"-"` // that have failed since the process started
	Providers  []providers.Queue   `json:"-"` // with limits
}

// OK is the value in Report.Roles for a role that has a healthy agent.
const OK = "ok"

// Monitor observes the installation and keeps the result. It is safe for concurrent use.
type Monitor struct {
	// ModelProviders are the names of the configured model providers: their metrics are exported as 0
	// while nothing is known about them. Set it before the first collection.
	ModelProviders []string

	views    *views.Views
	temporal client.Client
	interval time.Duration
	log      *slog.Logger
	// namespace is Temporal's.
	namespace string

	refreshing  sync.Mutex // held during a refresh
	mu          sync.Mutex
	last        Report
	at          time.Time // of the last successful read of the database
	refreshedAt time.Time // when the last refresh began
	history     map[string][]int64
	known       map[string]contract.Health // of agents, to report changes
}

// New returns a monitor that refreshes when its result is older than an interval (0:
// DefaultInterval).
func New(v *views.Views, temporal client.Client, namespace string, interval time.Duration, log *slog.Logger) *Monitor {
	if interval <= 0 {
		interval = DefaultInterval
	}
	return &Monitor{views: v, temporal: temporal, namespace: namespace, interval: interval, log: log, history: map[string][]int64{}}
}

// Watch refreshes every interval until ctx ends. Without it, reading a report refreshes.
func (m *Monitor) Watch(ctx context.Context) {
	tick := time.NewTicker(m.interval)
	defer tick.Stop()
	for {
		m.refresh(ctx)
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// Report returns the current agents and the state of the queues at the last refresh. It fails only
// if the database does not respond.
func (m *Monitor) Report(ctx context.Context) (Report, error) {
	m.refreshIfStale(ctx)
	agents, err := m.views.Agents(ctx)
	m.mu.Lock()
	defer m.mu.Unlock()
	r := m.last
	r.Agents, r.Queues = store.NotNil(agents), store.NotNil(slices.Clone(r.Queues))
	r.Roles = Roles(agents)
	return r, err
}

// refreshIfStale refreshes unless another call did recently or is in progress.
func (m *Monitor) refreshIfStale(ctx context.Context) {
	m.mu.Lock()
	fresh := time.Since(m.refreshedAt) < 2*m.interval
	m.mu.Unlock()
	if !fresh {
		m.refresh(ctx)
	}
}

// refresh queries Temporal and the database, within refreshTimeout.
func (m *Monitor) refresh(ctx context.Context) {
	if !m.refreshing.TryLock() {
		return
	}
	defer m.refreshing.Unlock()
	ctx, cancel := context.WithTimeout(ctx, refreshTimeout)
	defer cancel()
	began := time.Now()
	var queues []Queue
	var unfinished views.Unfinished
	var agents []views.Agent
	var breakers []providers.Breaker
	var calls []providers.Queue
	var queuesErr, viewsErr error
	var both sync.WaitGroup
	both.Go(func() { queues, queuesErr = Queues(ctx, m.temporal, m.namespace) })
	both.Go(func() {
		if agents, viewsErr = m.views.Agents(ctx); viewsErr == nil {
			unfinished, viewsErr = m.views.Unfinished(ctx)
		}
		if viewsErr == nil {
			breakers, viewsErr = m.views.Breakers(ctx)
		}
		if viewsErr == nil {
			calls, viewsErr = m.views.ProviderQueues(ctx)
		}
	})
	both.Wait()
	m.mu.Lock()
	defer m.mu.Unlock()
	m.refreshedAt = began
	switch {
	case queuesErr == nil:
		m.recordQueues(queues, began)
	case m.last.QueuesProblem == "":
		m.log.WarnContext(ctx, "Could not query Temporal for the task queues", "error", queuesErr)
		m.last.QueuesProblem = "Temporal is not responding"
	}
	if viewsErr == nil {
		m.last.Agents, m.last.Unfinished, m.at = agents, unfinished, began
		m.last.Breakers, m.last.Providers = withClosed(breakers, m.last.Breakers), calls
		m.logChanges(ctx, agents)
	}
}

// withClosed returns breakers with those among earlier ones that have closed: a metric should return
// to 0 instead of disappearing.
func withClosed(now, earlier []providers.Breaker) []providers.Breaker {
	for _, b := range earlier {
		if len(now) < maxBreakers && !slices.ContainsFunc(now, func(n providers.Breaker) bool { return n.Provider == b.Provider && n.Model == b.Model }) {
			now = append(now, providers.Breaker{Provider: b.Provider, Model: b.Model, State: providers.Closed})
		}
	}
	return now
}

// recordQueues stores the state of the queues, with the backlogs of the last refreshes.
func (m *Monitor) recordQueues(queues []Queue, at time.Time) {
	for i := range queues {
		q := &queues[i]
		h := m.history[q.Name]
		// Create a new list each time: readers may be using the previous one.
		q.History = append(slices.Clone(h[max(0, len(h)-historyLength+1):]), q.Backlog)
		m.history[q.Name] = q.History
	}
	m.last.Queues, m.last.QueuesAt, m.last.QueuesProblem = queues, &at, ""
}

// logChanges logs agents whose state has changed.
func (m *Monitor) logChanges(ctx context.Context, agents []views.Agent) {
	now := map[string]contract.Health{}
	for _, a := range agents {
		now[a.Name] = a.HealthStatus
		was, seen := m.known[a.Name]
		if !seen || was == a.HealthStatus {
			continue
		}
		switch a.HealthStatus {
		case contract.HealthUnhealthy, contract.HealthDegraded:
			m.log.WarnContext(ctx, "An agent is unhealthy", "agent", a.Name, "health", a.HealthStatus, "was", was, "detail", a.Detail, "silent_seconds", a.Silent)
		case contract.HealthHealthy, contract.HealthUnknown, contract.HealthOffline:
			m.log.InfoContext(ctx, "An agent is "+string(a.HealthStatus), "agent", a.Name, "was", was)
		}
	}
	m.known = now
}

// Roles returns for each role OK if it has a healthy agent, and otherwise the problem. A healthy
// agent is one that Temporal lists as a poller of its queue.
func Roles(agents []views.Agent) map[string]string {
	out := map[string]string{}
	for _, role := range contract.WorkerRoles() {
		out[role.Name] = "no agent; start a worker with this role"
	}
	for _, a := range agents {
		was, known := out[a.Type]
		switch {
		case !known || was == OK || a.HealthStatus == contract.HealthOffline:
		case a.HealthStatus == contract.HealthHealthy:
			out[a.Type] = OK
		default:
			out[a.Type] = "no agent is healthy; see rgpt agents"
		}
	}
	return out
}

// Queues queries Temporal for the state of all roles' task queues: it returns all of them, or none.
// It omits the queues of individual workers, of which there are as many as workers.
func Queues(ctx context.Context, temporal client.Client, namespace string) ([]Queue, error) {
	all := contract.WorkerRoles()
	out := make([]Queue, len(all))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(maxConcurrentQueries)
	for i, role := range all {
		group.Go(func() (err error) {
			out[i], err = describe(ctx, temporal, namespace, role)
			return err
		})
	}
	return out, group.Wait()
}

func describe(ctx context.Context, temporal client.Client, namespace string, role contract.WorkerRole) (Queue, error) {
	q := Queue{Name: role.Queue, Role: role.Name, History: []int64{}}
	kinds := []enumspb.TaskQueueType{enumspb.TASK_QUEUE_TYPE_ACTIVITY}
	if role.Workflows {
		kinds = append(kinds, enumspb.TASK_QUEUE_TYPE_WORKFLOW)
	}
	pollers := map[string]bool{}
	for _, kind := range kinds {
		d, err := temporal.WorkflowService().DescribeTaskQueue(ctx, &workflowservice.DescribeTaskQueueRequest{
			Namespace: namespace, TaskQueue: &taskqueuepb.TaskQueue{Name: role.Queue, Kind: enumspb.TASK_QUEUE_KIND_NORMAL}, TaskQueueType: kind, ReportStats: true,
		})
		if err != nil {
			return q, fmt.Errorf("query Temporal for the queue %s: %w", role.Queue, err)
		}
		stats := d.GetStats()
		q.Backlog += stats.GetApproximateBacklogCount()
		q.BacklogAge = max(q.BacklogAge, stats.GetApproximateBacklogAge().AsDuration().Seconds())
		q.AddRate += float64(stats.GetTasksAddRate())
		q.DispatchRate += float64(stats.GetTasksDispatchRate())
		for _, p := range d.GetPollers() {
			if time.Since(p.GetLastAccessTime().AsTime()) < polledWithin {
				pollers[p.GetIdentity()] = true
			}
		}
	}
	q.Pollers = len(pollers)
	return q, nil
}
