package control

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/mocks"
)

func TestAWorkflowThatDoesNotAnswerInTimeIsSilentHoweverThatIsSaid(t *testing.T) {
	t.Parallel()
	late := func(err error) error { return client.NewWorkflowUpdateServiceTimeoutOrCanceledError(err) }
	for _, err := range []error{
		context.DeadlineExceeded,
		serviceerror.NewDeadlineExceeded("context deadline exceeded"),
		late(serviceerror.NewDeadlineExceeded("context deadline exceeded")),
		fmt.Errorf("wait: %w", late(context.DeadlineExceeded)),
	} {
		require.True(t, silent(err), "%T: %v", err, err)
	}
	for _, err := range []error{
		errors.New("broken"), serviceerror.NewUnavailable("away"), serviceerror.NewNotFound("gone"), late(serviceerror.NewCanceled("interrupted")), context.Canceled,
	} {
		require.False(t, silent(err), "%T: %v", err, err)
	}
}

// unready gives updates back so often before it takes one.
type unready struct {
	mocks.Client
	left int
}

func (u *unready) UpdateWorkflow(context.Context, client.UpdateWorkflowOptions) (client.WorkflowUpdateHandle, error) {
	u.left--
	if u.left >= 0 {
		return nil, serviceerror.NewWorkflowNotReady("Unable to perform workflow execution update due to unexpected workflow task failure.")
	}
	return nil, serviceerror.NewNotFound("workflow execution already completed")
}

func TestAnUpdateThatMeetsTheEndOfAWorkflowIsSentAgain(t *testing.T) {
	t.Parallel()
	u := &unready{left: 2}
	err := update(t.Context(), u, "pipeline-7", "stop", "id", nil, nil)
	var gone *serviceerror.NotFound
	require.ErrorAs(t, err, &gone, "it is told that the workflow has ended")
	require.Equal(t, -1, u.left)

	ctx, cancel := context.WithTimeout(t.Context(), 2*notReadyPoll)
	defer cancel()
	err = update(ctx, &unready{left: 1 << 20}, "pipeline-7", "stop", "id", nil, nil)
	require.True(t, silent(err), "and not without end: %v", err)
}
