package temporal

import (
	"context"
	"fmt"

	commonpb "go.temporal.io/api/common/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/workflow"
	"google.golang.org/protobuf/proto"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/fault"
)

// CheckSize returns an error if values cannot be written to a history because they exceed
// contract.PayloadLimit or cannot be encoded as JSON.
func CheckSize(what string, values ...any) error {
	payloads, err := encoded(values)
	if err != nil {
		return fmt.Errorf("encode the %s: %w", what, err)
	}
	if n := proto.Size(payloads); n > contract.PayloadLimit {
		return fault.New(contract.ClassRuntime, contract.CodeTooLarge,
			"the %s is %d bytes long, more than the limit of %d for one workflow history entry; use fewer steps or checks, or shorter names", what, n, contract.PayloadLimit)
	}
	return nil
}

// encoded returns values in the form stored in histories. Results of local activities are already
// in that form.
func encoded(values []any) (*commonpb.Payloads, error) {
	if len(values) == 1 {
		if done, ok := values[0].(*commonpb.Payloads); ok {
			return done, nil
		}
	}
	return Converter().ToPayloads(values...)
}

// checkSize is CheckSize for workflow code, which requires failures in Temporal's form.
func checkSize(what string, values ...any) error {
	return fault.ToTemporal(CheckSize(what, values...), 1)
}

// sizeLimit keeps oversized values out of the histories of a worker's workflows.
type sizeLimit struct {
	interceptor.WorkerInterceptorBase
}

// NewSizeLimit returns the interceptor that fails a worker's workflows if they would write more
// than contract.PayloadLimit to their history in one entry.
func NewSizeLimit() interceptor.WorkerInterceptor { return &sizeLimit{} }

// InterceptWorkflow applies the limit to a workflow and its commands.
func (*sizeLimit) InterceptWorkflow(_ workflow.Context, next interceptor.WorkflowInboundInterceptor) interceptor.WorkflowInboundInterceptor {
	return &workflowInbound{interceptor.WorkflowInboundInterceptorBase{Next: next}}
}

type workflowInbound struct {
	interceptor.WorkflowInboundInterceptorBase
}

func (e *workflowInbound) Init(outbound interceptor.WorkflowOutboundInterceptor) error {
	return e.Next.Init(&workflowOutbound{interceptor.WorkflowOutboundInterceptorBase{Next: outbound}})
}

func (e *workflowInbound) ExecuteWorkflow(ctx workflow.Context, in *interceptor.ExecuteWorkflowInput) (any, error) {
	result, err := e.Next.ExecuteWorkflow(ctx, in)
	if err == nil {
		err = checkSize("result of workflow "+workflow.GetInfo(ctx).WorkflowExecution.ID, result)
	}
	return result, err
}

type workflowOutbound struct {
	interceptor.WorkflowOutboundInterceptorBase
}

func (e *workflowOutbound) ExecuteActivity(ctx workflow.Context, name string, args ...any) workflow.Future {
	if err := checkSize("input of "+name, args...); err != nil {
		return failedFuture(ctx, err)
	}
	return e.Next.ExecuteActivity(ctx, name, args...)
}

func (e *workflowOutbound) ExecuteChildWorkflow(ctx workflow.Context, name string, args ...any) workflow.ChildWorkflowFuture {
	if err := checkSize("input of "+name, args...); err != nil {
		return failedChild{failedFuture(ctx, err)}
	}
	return e.Next.ExecuteChildWorkflow(ctx, name, args...)
}

func (e *workflowOutbound) SignalExternalWorkflow(ctx workflow.Context, workflowID, runID, name string, arg any) workflow.Future {
	if err := checkSize("signal "+name, arg); err != nil {
		return failedFuture(ctx, err)
	}
	return e.Next.SignalExternalWorkflow(ctx, workflowID, runID, name, arg)
}

func (e *workflowOutbound) NewContinueAsNewError(ctx workflow.Context, workflowFunc any, args ...any) error {
	if err := checkSize("state carried over by workflow "+workflow.GetInfo(ctx).WorkflowExecution.ID, args...); err != nil {
		return err
	}
	return e.Next.NewContinueAsNewError(ctx, workflowFunc, args...)
}

func failedFuture(ctx workflow.Context, err error) workflow.Future {
	future, set := workflow.NewFuture(ctx)
	set.SetError(err)
	return future
}

// failedChild is a child workflow that was never started.
type failedChild struct{ workflow.Future }

func (f failedChild) GetChildWorkflowExecution() workflow.Future { return f }

func (f failedChild) SignalChildWorkflow(workflow.Context, string, any) workflow.Future { return f }

// clientInterceptor keeps oversized external values out of histories: inputs of runs, and messages
// from people and services.
type clientInterceptor struct {
	interceptor.ClientInterceptorBase
}

func (*clientInterceptor) InterceptClient(next interceptor.ClientOutboundInterceptor) interceptor.ClientOutboundInterceptor {
	return &clientOutbound{interceptor.ClientOutboundInterceptorBase{Next: next}}
}

type clientOutbound struct {
	interceptor.ClientOutboundInterceptorBase
}

func (e *clientOutbound) ExecuteWorkflow(ctx context.Context, in *interceptor.ClientExecuteWorkflowInput) (client.WorkflowRun, error) {
	if err := CheckSize("input of workflow "+in.Options.ID, in.Args...); err != nil {
		return nil, err
	}
	return e.Next.ExecuteWorkflow(ctx, in)
}

func (e *clientOutbound) SignalWorkflow(ctx context.Context, in *interceptor.ClientSignalWorkflowInput) error {
	if err := CheckSize("signal "+in.SignalName, in.Arg); err != nil {
		return err
	}
	return e.Next.SignalWorkflow(ctx, in)
}

func (e *clientOutbound) UpdateWorkflow(ctx context.Context, in *interceptor.ClientUpdateWorkflowInput) (client.WorkflowUpdateHandle, error) {
	if err := CheckSize("update "+in.UpdateName, in.Args...); err != nil {
		return nil, err
	}
	return e.Next.UpdateWorkflow(ctx, in)
}
