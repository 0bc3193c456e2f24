package activities

import (
	"cmp"
	"context"

	"go.temporal.io/sdk/activity"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/store"
)

// Record writes one transition of a run: its state and events, once, in order.
func (a *Activities) Record(ctx context.Context, rec contract.Record) (contract.RecordResult, error) {
	execution := activity.GetInfo(ctx).WorkflowExecution
	result, err := a.Store.Record(ctx, store.Source{WorkflowID: cmp.Or(rec.Workflow, execution.ID), WorkflowRunID: execution.RunID}, rec)
	if err != nil {
		return result, err
	}
	if b := rec.Begin; b != nil && b.Step == "" {
		result.Replay, err = a.Store.TakeReplay(ctx, result.Execution)
	}
	return result, err
}
