package temporal

import (
	"errors"

	"github.com/rocketgpt/orchestrator/internal/fault"
	"github.com/rocketgpt/orchestrator/internal/telemetry"
)

// Reported returns the error of an activity in the form in which a history may contain it: without secrets,
// because histories are kept for a long time, and with the worker on which it occurred. Its class, its code and
// the wait that the remote service requested are kept.
func Reported(err error, worker string) *fault.Error {
	failure := *fault.Of(err)
	failure.Worker = worker
	failure.Message, failure.Cause = telemetry.Redact(failure.Message), telemetry.Redact(failure.Cause)
	out := fault.Restore(failure)
	if known := (*fault.Error)(nil); errors.As(err, &known) {
		out.RetryAfter = known.RetryAfter
	}
	return out
}
