package temporal

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/interceptor"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/fault"
)

// sized is a value that takes about n bytes in a history.
func sized(n int) string { return strings.Repeat("x", n) }

// tooLong is more than a history accepts; full is the maximum.
const (
	tooLong = contract.PayloadLimit + 1
	full    = contract.PayloadLimit - 64
)

// discardClient is a client that accepts everything.
type discardClient struct {
	interceptor.ClientOutboundInterceptorBase
	taken int
}

func (d *discardClient) ExecuteWorkflow(context.Context, *interceptor.ClientExecuteWorkflowInput) (client.WorkflowRun, error) {
	d.taken++
	return nil, nil
}

func (d *discardClient) SignalWorkflow(context.Context, *interceptor.ClientSignalWorkflowInput) error {
	d.taken++
	return nil
}

func (d *discardClient) UpdateWorkflow(context.Context, *interceptor.ClientUpdateWorkflowInput) (client.WorkflowUpdateHandle, error) {
	d.taken++
	return nil, nil
}

func TestWhatIsTooLargeNeverLeavesAClient(t *testing.T) {
	t.Parallel()
	inner := &discardClient{}
	c := (&clientInterceptor{}).InterceptClient(inner)
	send := func(n int) []error {
		_, started := c.ExecuteWorkflow(t.Context(), &interceptor.ClientExecuteWorkflowInput{Options: &client.StartWorkflowOptions{ID: "run-1"}, Args: []any{sized(n)}})
		_, updated := c.UpdateWorkflow(t.Context(), &interceptor.ClientUpdateWorkflowInput{UpdateName: "stop", Args: []any{sized(n)}})
		return []error{started, updated, c.SignalWorkflow(t.Context(), &interceptor.ClientSignalWorkflowInput{SignalName: "stop", Arg: sized(n)})}
	}
	for _, err := range send(tooLong) {
		require.True(t, fault.Is(err, contract.CodeTooLarge), "%v", err)
	}
	require.Zero(t, inner.taken)
	for _, err := range send(full) {
		require.NoError(t, err)
	}
	require.Equal(t, 3, inner.taken)
}
