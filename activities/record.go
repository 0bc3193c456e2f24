package activities

import (
	"context"

	"go.temporal.io/sdk/activity"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/store"
)

// Record writes one transition of a run: its state and events, once, in order.
func (a *Activities) Record(ctx context.Context, rec contract.Record) (contract.RecordResult, error) {
	execution := activity.GetInfo(ctx).WorkflowExecution
	return a.Store.Record(ctx, store.Source{WorkflowID: execution.ID, WorkflowRunID: execution.RunID}, rec)
}
