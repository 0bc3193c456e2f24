package workerhost

import (
	"context"

	"go.temporal.io/sdk/activity"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/fault"
)

// answers is what the heartbeats of an activity carry from one attempt to the next, on
// whichever worker: Temporal keeps them.
type answers struct {
	// Failures is how many attempts ended with a failure that their worker reported. All
	// others ended without a report: the worker died, or the time was up.
	Failures int32 `json:"failures"`
}

// answersOf returns what the previous attempts left.
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

// quarantined returns the failure for work that is not retried because most of its
// attempts ended without a report. Work on the rows and files of a run is never
// quarantined: it runs no foreign code, and a run must not be lost because its database
// was.
func quarantined(info activity.Info, before answers, most int) error {
	lost := int(info.Attempt - 1 - before.Failures)
	if info.IsLocalActivity || info.TaskQueue == contract.QueueRun || lost < max(most, 1) {
		return nil
	}
	return fault.New(contract.ClassInfra, contract.CodeQuarantined,
		"%s started %d times and never finished: it killed the worker or exceeded its time limit; it is not retried (worker.lost_attempts)",
		info.ActivityType.Name, lost)
}
