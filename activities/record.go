package activities

import (
	"context"

	"go.temporal.io/sdk/activity"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/internal/telemetry"
)

// Record writes one transition of a run: its state and events, once, in order.
func (a *Activities) Record(ctx context.Context, rec contract.Record) (contract.RecordResult, error) {
	execution := activity.GetInfo(ctx).WorkflowExecution
	result, err := a.Store.Record(ctx, store.Source{WorkflowID: execution.ID, WorkflowRunID: execution.RunID}, rec)
	if err == nil && rec.Run != nil && rec.Run.Finished {
		telemetry.CountRun(rec.Run.Status)
	}
	return result, err
}
