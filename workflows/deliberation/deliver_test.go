package deliberation

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/temporal"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/fault"
)

func TestOnlyWhatWasForOneThatHasEndedIsNotSentInAnotherWay(t *testing.T) {
	t.Parallel()
	var gone *temporal.UnknownExternalWorkflowExecutionError
	require.ErrorAs(t, error(&temporal.UnknownExternalWorkflowExecutionError{}), &gone)
	require.True(t, hasEnded(gone))
	require.True(t, hasEnded(fault.New(contract.ClassRuntime, contract.CodeCancelled, "it has ended")))
	require.False(t, hasEnded(errors.New("SignalCountLimitExceeded")))
	require.False(t, hasEnded(fault.New(contract.ClassInfra, contract.CodeUnavailable, "Temporal is away")))
}
