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

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/internal/storetest"
)

func TestEveryFormOfATimeoutOfAWorkflowIsRecognised(t *testing.T) {
	t.Parallel()
	late := func(err error) error { return client.NewWorkflowUpdateServiceTimeoutOrCanceledError(err) }
	for _, err := range []error{
		context.DeadlineExceeded,
		serviceerror.NewDeadlineExceeded("context deadline exceeded"),
		late(serviceerror.NewDeadlineExceeded("context deadline exceeded")),
		fmt.Errorf("wait: %w", late(context.DeadlineExceeded)),
	} {
		require.True(t, isTimeout(err), "%T: %v", err, err)
	}
	for _, err := range []error{
		errors.New("broken"), serviceerror.NewUnavailable("away"), serviceerror.NewNotFound("gone"), late(serviceerror.NewCanceled("interrupted")), context.Canceled,
	} {
		require.False(t, isTimeout(err), "%T: %v", err, err)
	}
}

// unready returns updates that many times before it accepts one.
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
	require.True(t, isTimeout(err), "and not without end: %v", err)
}

// flooded accepts no more updates, and signals only if it says so.
type flooded struct {
	mocks.Client
	signals error
	got     []string
	args    any // of the last signal
}

func (f *flooded) UpdateWorkflow(context.Context, client.UpdateWorkflowOptions) (client.WorkflowUpdateHandle, error) {
	return nil, serviceerror.NewFailedPrecondition("The limit on the total number of distinct updates in this workflow has been reached (2000). Make sure …")
}

func (f *flooded) SignalWorkflow(_ context.Context, _, _, name string, args any) error {
	f.got, f.args = append(f.got, "signal "+name), args
	return f.signals
}

func (f *flooded) CancelWorkflow(context.Context, string, string) error {
	f.got = append(f.got, "cancel")
	return nil
}

func TestAWorkflowThatTakesNoMoreUpdatesIsStillCommanded(t *testing.T) {
	t.Parallel()
	full := serviceerror.NewInvalidArgument("exceeded workflow execution limit for signal events")
	for name, c := range map[string]struct {
		signals error
		command string
		want    error
		got     []string
	}{
		"by a signal":                       {nil, contract.UpdatePause, errSentWithoutAnswer, []string{"signal pause"}},
		"a stop by a signal":                {nil, contract.UpdateStop, errSentWithoutAnswer, []string{"signal stop"}},
		"a stop by a cancellation":          {full, contract.UpdateStop, errSentWithoutAnswer, []string{"signal stop", "cancel"}},
		"or the sender is told why not":     {full, contract.UpdatePause, full, []string{"signal pause"}},
		"and a stop that cannot arrive too": {serviceerror.NewUnavailable("away"), contract.UpdateStop, serviceerror.NewUnavailable("away"), []string{"signal stop"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := &flooded{signals: c.signals}
			err := update(t.Context(), f, "run-7", c.command, "id", nil, nil)
			require.Equal(t, c.want, err)
			require.Equal(t, c.got, f.got)
		})
	}
}

func TestCommandsReachHistoriesAndTheLedgerWithoutSecrets(t *testing.T) {
	t.Parallel()
	f, stored := &flooded{}, storetest.Setup(t)
	runs := &Runs{Store: stored.Store, Temporal: f}
	secret := "ghp_" + "0123456789abcdefghijABCDEFGHIJ012345"
	_, err := runs.Steer(t.Context(), stored.First.ID, contract.UpdatePause, contract.Command{By: "ann " + secret, Reason: "with " + secret})
	require.NoError(t, err)
	require.Equal(t, []string{"signal " + contract.UpdatePause}, f.got)
	require.NotContains(t, fmt.Sprint(f.args), secret)

	p, _, err := stored.SpawnPipeline(t.Context(), store.NewPipelineRow{Objective: "o", Settings: contract.DeliberationSettings{Mode: contract.ModeLocal}})
	require.NoError(t, err)
	_, err = runs.Pipelines().Stop(t.Context(), p.ID, contract.PipelineCommand{By: "ann " + secret, Reason: "with " + secret})
	require.NoError(t, err)
	require.Len(t, f.got, 2)
	require.NotContains(t, fmt.Sprint(f.args), secret)
}
