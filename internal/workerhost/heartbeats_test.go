package workerhost

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"github.com/rocketgpt/orchestrator/internal/config"
	rgpttemporal "github.com/rocketgpt/orchestrator/internal/temporal"
	"github.com/rocketgpt/orchestrator/internal/temporal/temporaltest"
)

// busy returns heartbeats with so many activities in progress.
func busy(perSecond int, longest time.Duration, activities int) *heartbeats {
	h := newHeartbeats(perSecond, longest)
	for range activities {
		h.begin("another")
	}
	return h
}

func TestHeartbeatTimeoutsGrowWithTheActivitiesInProgress(t *testing.T) {
	t.Parallel()
	const wanted = 2 * time.Second
	for _, c := range []struct {
		inProgress int
		want       time.Duration
	}{{0, wanted}, {39, wanted}, {99, 5 * time.Second}, {1000, 10 * time.Second}} {
		require.Equal(t, c.want, busy(60, 10*time.Second, c.inProgress).timeout(wanted), c.inProgress)
	}
	require.Equal(t, time.Minute, busy(60, 10*time.Second, 1000).timeout(time.Minute), "it never becomes shorter")
	require.Zero(t, busy(60, 10*time.Second, 1000).timeout(0), "this activity sends none")
	var none *heartbeats
	require.Equal(t, wanted, none.timeout(wanted))

	h := newHeartbeats(1, time.Minute)
	_, end := h.begin("run-1")
	require.Equal(t, 6*time.Second, h.timeout(wanted))
	end()
	require.Equal(t, 3*time.Second, h.timeout(wanted))
	require.Empty(t, h.progress)
}

// cancelOnSignal starts an activity that ends only when it is cancelled, and cancels it after a signal.
func cancelOnSignal(ctx workflow.Context) (string, error) {
	ctx, cancel := workflow.WithCancel(workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		StartToCloseTimeout: time.Hour, HeartbeatTimeout: 2 * time.Second, WaitForCancellation: true,
	}))
	hangs := workflow.ExecuteActivity(ctx, "hang")
	workflow.GetSignalChannel(ctx, "cancel").Receive(ctx, nil)
	cancel()
	if err := hangs.Get(ctx, nil); !temporal.IsCanceledError(err) {
		return "", err
	}
	return "cancelled", nil
}

func TestACancelledActivityEndsLongBeforeItsNextHeartbeat(t *testing.T) {
	t.Parallel()
	cfg := config.Default()
	o := Options{Config: cfg, Log: slog.New(slog.DiscardHandler), tasks: &tasks{}, beats: busy(1, time.Hour, 1000)}
	c, err := rgpttemporal.Connect(t.Context(), config.Temporal{Address: temporaltest.Serve(t), Namespace: temporaltest.Namespace}, o.Log, o.beats.intercept)
	require.NoError(t, err)
	t.Cleanup(c.Close)
	w := worker.New(c, "queue", workerOptions(o))
	w.RegisterWorkflow(cancelOnSignal)
	started := make(chan struct{})
	w.RegisterActivityWithOptions(func(ctx context.Context) error {
		close(started)
		<-ctx.Done()
		return ctx.Err()
	}, activity.RegisterOptions{Name: "hang"})
	require.NoError(t, w.Start())
	t.Cleanup(w.Stop)

	run, err := c.ExecuteWorkflow(t.Context(), client.StartWorkflowOptions{TaskQueue: "queue"}, cancelOnSignal)
	require.NoError(t, err)
	<-started
	require.NoError(t, c.SignalWorkflow(t.Context(), run.GetID(), run.GetRunID(), "cancel", nil))
	soon, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var result string
	require.NoError(t, run.Get(soon, &result))
	require.Equal(t, "cancelled", result)

	events := c.GetWorkflowHistory(t.Context(), run.GetID(), run.GetRunID(), false, enumspb.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
	for events.HasNext() {
		e, err := events.Next()
		require.NoError(t, err)
		if a := e.GetActivityTaskScheduledEventAttributes(); a != nil {
			require.Greater(t, a.GetHeartbeatTimeout().AsDuration(), 45*time.Minute, "without more, it would learn of its end only after a third of this time")
			return
		}
	}
	t.Fatal("no activity was scheduled")
}
