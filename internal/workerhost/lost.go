package workerhost

import (
	"context"

	"go.temporal.io/sdk/activity"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/fault"
)

// answers is the content of an activity's heartbeats. Temporal passes it from one attempt to the
// next, on any worker.
type answers struct {
	// Failures is the number of attempts that ended with a failure reported by their worker. All
	// others ended without a report: the worker died, or the time limit was reached.
	Failures int32 `json:"failures"`
}

// answersOf returns the heartbeat content of the previous attempts.
func answersOf(ctx context.Context, info activity.Info) answers {
	var a answers
	if info.IsLocalActivity || info.Attempt <= 1 || !activity.HasHeartbeatDetails(ctx) {
		return a
	}
	if activity.GetHeartbeatDetails(ctx, &a) != nil {
		return answers{}
	}
	return a
}

// quarantined returns the failure for work that is not retried because most of its attempts ended
// without a report. Work on the rows and files of a run is never quarantined: it runs no foreign
// code, and a run must not fail because its database was down.
func quarantined(info activity.Info, before answers, most int) error {
	lost := int(info.Attempt - 1 - before.Failures)
	if info.IsLocalActivity || info.TaskQueue == contract.QueueRun || lost < max(most, 1) {
		return nil
	}
	return fault.New(contract.ClassInfra, contract.CodeQuarantined,
		"%s started %d times and never finished: it killed the worker or exceeded its time limit; it will not be retried (worker.lost_attempts)",
		info.ActivityType.Name, lost)
}
