package workerhost

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/interceptor"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/fault"
	"github.com/rocketgpt/orchestrator/internal/notice"
	"github.com/rocketgpt/orchestrator/internal/temporal"
)

// activityInterceptor is the layer between activities and Temporal: it sends their
// heartbeats, logs, turns their errors into application errors whose type is the class,
// and keeps oversized results out of histories.
type activityInterceptor struct {
	interceptor.WorkerInterceptorBase
	log     *slog.Logger
	worker  string // identity
	tasks   *tasks // what the agents do
	beats   *heartbeats
	limiter *limiter
	most    int // maximum number of lost attempts; see quarantined

	stopTime time.Duration // for activities when the worker is asked to stop
}

func (e *activityInterceptor) InterceptActivity(_ context.Context, next interceptor.ActivityInboundInterceptor) interceptor.ActivityInboundInterceptor {
	return &activityInbound{ActivityInboundInterceptorBase: interceptor.ActivityInboundInterceptorBase{Next: next}, log: e.log, worker: e.worker, tasks: e.tasks, beats: e.beats, limiter: e.limiter, most: e.most, stopTime: e.stopTime}
}

type activityInbound struct {
	interceptor.ActivityInboundInterceptorBase
	log     *slog.Logger
	worker  string
	tasks   *tasks
	beats   *heartbeats
	limiter *limiter
	most    int

	stopTime time.Duration
}

func (e *activityInbound) ExecuteActivity(ctx context.Context, in *interceptor.ExecuteActivityInput) (_ any, err error) {
	info := activity.GetInfo(ctx)
	ctx, release := endBeforeStop(ctx, e.stopTime)
	defer release()
	ended, notices := e.tasks.begin(info, in.Args)
	defer func() { ended(err) }()
	work := &limited{limiter: e.limiter, workflowID: info.WorkflowExecution.ID}
	defer work.rest()
	notices.Idle = func(now bool) {
		switch {
		case info.IsLocalActivity:
		case now:
			work.rest()
		default:
			work.begin(ctx)
		}
	}
	ctx = notice.With(ctx, notices)
	before := answersOf(ctx, info)
	stopBeat := e.beats.send(ctx, info, before)
	defer stopBeat()
	if !info.IsLocalActivity {
		work.begin(ctx)
	}
	var result any
	if err = quarantined(info, before, e.most); err == nil {
		result, err = e.Next.ExecuteActivity(ctx, in)
	}
	if err == nil {
		err = temporal.CheckSize("result of "+info.ActivityType.Name, result)
	}
	if err == nil {
		return result, nil
	}
	// A stopping worker cancels its activities; the run did not request that.
	if ctx.Err() != nil && stopping(ctx) {
		err = fault.Wrap(err, contract.ClassInfra, contract.CodeWorkerLost, "the worker stopped while executing %s", info.ActivityType.Name)
	} else if errors.Is(ctx.Err(), context.Canceled) && !info.IsLocalActivity {
		return nil, context.Canceled
	}
	typed := temporal.Reported(err, e.worker)
	runID, _ := contract.RunIDOfWorkflow(info.WorkflowExecution.ID)
	e.log.WarnContext(ctx, "An activity failed", "run", runID, "workflow", info.WorkflowExecution.ID, "step", executionOf(in.Args).Step, "activity", info.ActivityType.Name,
		"attempt", info.Attempt, "worker", e.worker, "class", typed.Class, "code", typed.Code, "error", err)
	stopBeat()
	if !info.IsLocalActivity && info.HeartbeatTimeout > 0 {
		// This is sent with the failure: the SDK first sends the last heartbeat of a failed
		// activity.
		activity.RecordHeartbeat(ctx, answers{Failures: before.Failures + 1})
	}
	return nil, fault.ToTemporal(typed, int(info.Attempt))
}

// endBeforeStop returns a context that ends shortly before a stopping worker abandons its
// activities. Work that ends with the context can still report; for abandoned work, Temporal only
// notices a missing heartbeat, as if the work had killed the worker.
func endBeforeStop(ctx context.Context, stopTime time.Duration) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	told := activity.GetWorkerStopChannel(ctx)
	go func() {
		select {
		case <-ctx.Done():
			return
		case <-told:
		}
		left := time.NewTimer(stopTime - min(stopTime/finalWrites, finalWriteTimeout))
		defer left.Stop()
		select {
		case <-ctx.Done():
		case <-left.C:
			cancel()
		}
	}()
	return ctx, cancel
}

// A stopping worker reserves 1/finalWrites of its stop time, at most finalWriteTimeout, for
// reporting unfinished work to Temporal.
const (
	finalWrites       = 3
	finalWriteTimeout = 3 * time.Second
)

// stopping reports whether the worker has been asked to stop.
func stopping(ctx context.Context) bool {
	select {
	case <-activity.GetWorkerStopChannel(ctx):
		return true
	default:
		return false
	}
}
