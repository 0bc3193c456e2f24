package activities

import (
	"context"
	"slices"

	"go.temporal.io/sdk/activity"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/internal/telemetry"
)

// Record writes one transition of a run: its state and events, once, in order.
func (a *Activities) Record(ctx context.Context, rec contract.Record) (contract.RecordResult, error) {
	execution := activity.GetInfo(ctx).WorkflowExecution
	result, err := a.Store.Record(ctx, store.Source{WorkflowID: execution.ID, WorkflowRunID: execution.RunID}, rec)
	if err != nil {
		return result, err
	}
	if endsRun(rec) {
		telemetry.CountRun(rec.Run.Status)
	}
	for _, h := range rec.Heals {
		if h.Status == contract.HealSuccess || h.Status == contract.HealFailed {
			telemetry.CountHeal(h)
		}
	}
	if b := rec.Begin; b != nil && b.Step == "" {
		result.Replay, err = a.Store.TakeReplay(ctx, result.Execution)
	}
	return result, err
}

// endsRun reports whether a record is the one that ends its run. One that stays
// with its branch ends with its release, whatever else is said of it later.
func endsRun(rec contract.Record) bool {
	if rec.Run == nil || !rec.Run.Finished {
		return false
	}
	return !rec.Run.Staying || slices.ContainsFunc(rec.Events, func(e contract.EventDraft) bool { return e.Type == contract.EventStayStarted })
}
