package workerhost

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/fault"
	"github.com/rocketgpt/orchestrator/internal/temporal"
)

// text is an activity's input or result.
type text struct {
	Text string `json:"text"`
}

func sized(n int) text { return text{strings.Repeat("x", n)} }

// tooLong is more than a history accepts; full is the maximum.
const (
	tooLong = contract.PayloadLimit + 1
	full    = contract.PayloadLimit - 1000
)

func options(ctx workflow.Context) workflow.Context {
	ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{StartToCloseTimeout: time.Minute})
	ctx = workflow.WithLocalActivityOptions(ctx, workflow.LocalActivityOptions{StartToCloseTimeout: time.Minute})
	return workflow.WithChildOptions(ctx, workflow.ChildWorkflowOptions{WorkflowID: "child"})
}

// carryOut runs a workflow behind the edge and returns how often its activity ran,
// and its error.
func carryOut(t *testing.T, flow func(workflow.Context) (text, error)) (int, error) {
	t.Helper()
	var suite testsuite.WorkflowTestSuite
	env := suite.NewTestWorkflowEnvironment()
	env.SetWorkerOptions(worker.Options{Interceptors: []interceptor.WorkerInterceptor{temporal.NewSizeLimit(), &activityInterceptor{log: slog.New(slog.DiscardHandler)}}})
	ran := 0
	env.RegisterActivityWithOptions(func(_ context.Context, n int) (text, error) { ran++; return sized(n), nil }, activity.RegisterOptions{Name: "make"})
	env.RegisterActivityWithOptions(func(context.Context, text) error { ran++; return nil }, activity.RegisterOptions{Name: "take"})
	env.RegisterWorkflowWithOptions(func(workflow.Context, text) error { return nil }, workflow.RegisterOptions{Name: "child"})
	env.RegisterWorkflowWithOptions(flow, workflow.RegisterOptions{Name: "flow"})
	env.ExecuteWorkflow("flow")
	require.True(t, env.IsWorkflowCompleted())
	return ran, env.GetWorkflowError()
}

func TestWhatIsTooLargeForAHistoryIsRefusedByNameWhereverItWouldEnter(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		flow func(ctx workflow.Context, n int) (text, error)
		ran  int // a refused result is not computed again
	}{
		"result of an activity": {func(ctx workflow.Context, n int) (out text, err error) {
			err = workflow.ExecuteActivity(options(ctx), "make", n).Get(ctx, &out)
			return text{}, err
		}, 1},
		"result of a local activity": {func(ctx workflow.Context, n int) (out text, err error) {
			err = workflow.ExecuteLocalActivity(options(ctx), "make", n).Get(ctx, &out)
			return text{}, err
		}, 1},
		"input of an activity": {func(ctx workflow.Context, n int) (text, error) {
			return text{}, workflow.ExecuteActivity(options(ctx), "take", sized(n)).Get(ctx, nil)
		}, 0},
		"input of a child": {func(ctx workflow.Context, n int) (text, error) {
			child := workflow.ExecuteChildWorkflow(options(ctx), "child", sized(n))
			if err := child.GetChildWorkflowExecution().Get(ctx, nil); err != nil {
				return text{}, err
			}
			return text{}, child.Get(ctx, nil)
		}, 0},
		"result of a workflow": {func(_ workflow.Context, n int) (text, error) { return sized(n), nil }, 0},
		"next state": {func(ctx workflow.Context, n int) (text, error) {
			return text{}, workflow.NewContinueAsNewError(ctx, "flow", sized(n))
		}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ran, err := carryOut(t, func(ctx workflow.Context) (text, error) { return c.flow(ctx, tooLong) })
			require.Error(t, err)
			failure := fault.Of(err)
			require.Equal(t, contract.CodeTooLarge, failure.Code, "%v", err)
			require.Contains(t, failure.Message, "more than the limit of 65536")
			require.Equal(t, c.ran, ran)

			_, err = carryOut(t, func(ctx workflow.Context) (text, error) { return c.flow(ctx, full) })
			if !workflow.IsContinueAsNewError(err) {
				require.NoError(t, err, "what just fits goes through")
			}
		})
	}
}
