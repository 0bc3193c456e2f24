package views

import (
	"context"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/internal/store/db"
	"github.com/rocketgpt/orchestrator/internal/store/internal/dberr"
	"github.com/rocketgpt/orchestrator/internal/store/internal/rowconv"
)

// Timing is where the time of a run went: what began and ended when.
type Timing struct {
	Executions []store.Execution `json:"executions"`
	ModelCalls []store.ModelCall `json:"model_calls"`
	ToolCalls  []store.ToolCall  `json:"tool_calls"`
	Checks     []store.Check     `json:"checks"` // without their cases
	// Preparing are the events of environment and baseline.
	Preparing []contract.Event `json:"preparing,omitempty"`
}

// Timing returns where the time of a run went. A run that does not exist took none.
func (v *Views) Timing(ctx context.Context, runID int64) (t Timing, err error) {
	if t.Executions, err = v.store.Executions(ctx, runID); err != nil {
		return t, err
	}
	if t.ModelCalls, err = v.store.ModelCalls(ctx, runID); err != nil {
		return t, err
	}
	if t.ToolCalls, err = v.store.ToolCalls(ctx, runID); err != nil {
		return t, err
	}
	rows, err := v.q.ChecksOfRun(ctx, runID)
	if err != nil {
		return t, dberr.Explain(err, "read the checks of run %d", runID)
	}
	if t.Checks, err = checksOf(rowconv.Convert(rows, func(c db.Check) db.CheckRowsRow {
		return db.CheckRowsRow{ExecutionID: c.ExecutionID, Result: c.Result, LogDigest: c.LogDigest, StartedAt: c.StartedAt, FinishedAt: c.FinishedAt}
	})); err != nil {
		return t, err
	}
	t.Preparing, err = v.PreparationEvents(ctx, runID)
	return t, err
}
