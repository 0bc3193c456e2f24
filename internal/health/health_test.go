package health_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	taskqueuepb "go.temporal.io/api/taskqueue/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"go.uber.org/goleak"
	"google.golang.org/grpc"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/health"
	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/internal/store/views"
	"github.com/rocketgpt/orchestrator/internal/storetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(storetest.Main(m)) }

// temporal counts the requests it gets, and has one more task waiting each time.
type temporal struct {
	client.Client
	asked atomic.Int64
	away  atomic.Bool
}

func (t *temporal) WorkflowService() workflowservice.WorkflowServiceClient {
	return &service{temporal: t}
}

type service struct {
	workflowservice.WorkflowServiceClient
	temporal *temporal
}

func (s *service) DescribeTaskQueue(context.Context, *workflowservice.DescribeTaskQueueRequest, ...grpc.CallOption) (*workflowservice.DescribeTaskQueueResponse, error) {
	n := s.temporal.asked.Add(1)
	if s.temporal.away.Load() {
		return nil, errors.New("away")
	}
	return &workflowservice.DescribeTaskQueueResponse{Stats: &taskqueuepb.TaskQueueStats{ApproximateBacklogCount: n}}, nil
}

func TestWhoeverAsksCostsTemporalNothing(t *testing.T) {
	t.Parallel()
	away := &temporal{}
	b := health.New(views.New(storetest.New(t)), away, "default", time.Hour, slog.New(slog.DiscardHandler))
	for range 50 {
		_, err := b.Report(t.Context())
		require.NoError(t, err)
	}
	require.EqualValues(t, 9, away.asked.Load(), "one look: six queues, three of them with workflows")
}

func TestTheHistoryOfABacklogEndsSomewhereAndAnOutageKeepsWhatWasKnown(t *testing.T) {
	t.Parallel()
	one := &temporal{}
	db := storetest.New(t)
	var log bytes.Buffer
	b := health.New(views.New(db), one, "default", time.Millisecond, slog.New(slog.NewTextHandler(&log, nil)))
	require.NoError(t, db.Heartbeat(t.Context(), store.Beat{
		Worker: "w", Every: time.Minute, OfflineAfter: time.Hour, StartedAt: time.Now(),
		Agents: []store.AgentBeat{{Name: "run@w", Type: "run", HealthStatus: contract.HealthHealthy}},
	}))
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); b.Watch(ctx) }()
	await := func(ok func(health.Report) bool) health.Report {
		t.Helper()
		for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); {
			r, err := b.Report(t.Context())
			require.NoError(t, err)
			if ok(r) {
				return r
			}
			<-time.After(time.Millisecond)
		}
		require.Fail(t, "it did not come about")
		return health.Report{}
	}
	r := await(func(r health.Report) bool { return one.asked.Load() > 9*200 })
	require.Len(t, r.Queues[0].History, 120)
	require.IsIncreasing(t, r.Queues[0].History)
	require.Equal(t, health.OK, r.Roles["run"])
	one.away.Store(true)
	r = await(func(r health.Report) bool { return r.QueuesProblem != "" })
	require.Len(t, r.Queues, 6, "what was known, with its time")
	require.NotNil(t, r.QueuesAt)
	require.NoError(t, db.Heartbeat(t.Context(), store.Beat{
		Worker: "w", Every: time.Minute, OfflineAfter: time.Hour, StartedAt: time.Now(),
		Agents: []store.AgentBeat{{Name: "run@w", Type: "run", HealthStatus: contract.HealthDegraded, Detail: "git: gone"}},
	}))
	before := one.asked.Load()
	await(func(r health.Report) bool { return one.asked.Load() > before+50 })
	stop()
	<-done
	require.Contains(t, log.String(), `agent=run@w health=degraded was=healthy detail="git: gone"`)
}
