package control

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"
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
