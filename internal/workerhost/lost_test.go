package workerhost

import (
	"testing"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/activity"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/fault"
)

func TestWorkIsQuarantinedOnceMostAttemptsLostTheirWorker(t *testing.T) {
	t.Parallel()
	at := func(attempt int32) activity.Info {
		return activity.Info{Attempt: attempt, TaskQueue: contract.QueueTester}
	}
	require.NoError(t, quarantined(at(1), answers{}, 3))
	require.NoError(t, quarantined(at(3), answers{}, 3))
	require.NoError(t, quarantined(at(40), answers{Failures: 37}, 3), "what its workers told of is counted elsewhere")
	err := quarantined(at(4), answers{}, 3)
	require.Equal(t, contract.CodeQuarantined, fault.Of(err).Code)
	require.ErrorContains(t, err, "started 3 times")
	require.True(t, isLast(err))
	records := at(40)
	records.TaskQueue = contract.QueueRun
	require.NoError(t, quarantined(records, answers{}, 3), "a run's rows are written however often a worker dies")
}

// isLast reports whether Temporal is told not to retry.
func isLast(err error) bool {
	_, again := fault.Restore(*fault.Of(err)).RetryDelay(1)
	return !again
}
