package views

import (
	"context"
	"slices"
	"time"

	"github.com/rocketgpt/orchestrator/internal/store/db"
	"github.com/rocketgpt/orchestrator/internal/store/internal/dberr"
	"github.com/rocketgpt/orchestrator/internal/store/internal/rowconv"
)

// Output is a piece of the output of a command.
type Output struct {
	ID        int64     `json:"id"`
	Source    string    `json:"source"` // environment, the id of a check, or a step
	Text      string    `json:"text"`
	CreatedAt time.Time `json:"created_at"`
}

// outputDelay is the minimum age of pieces that are read: a piece with a lower id may be committed
// later, and a reader that continues from the last id would miss it.
const outputDelay = time.Second

// outputPage is the default number of pieces to read.
const outputPage = 500

// LiveOutput returns the output of a run's commands after the piece with the id after, in order, at
// most limit pieces. Pieces older than an hour may have been removed. The newest pieces are omitted
// while the run continues.
func (v *Views) LiveOutput(ctx context.Context, runID, after int64, limit int) ([]Output, error) {
	rows, err := v.q.Outputs(ctx, db.OutputsParams{
		RunID: runID, After: after, Most: rowconv.Limit(limit, outputPage), DelaySeconds: outputDelay.Seconds(),
	})
	if err != nil {
		return nil, dberr.OfRun(err, runID, "read the output of run %d", runID)
	}
	if young := slices.IndexFunc(rows, func(r db.OutputsRow) bool { return !r.Settled }); young >= 0 {
		rows = rows[:young] // later pieces are omitted too: readers continue from the last id
	}
	return rowconv.Convert(rows, func(r db.OutputsRow) Output {
		return Output{ID: r.ID, Source: r.Source, Text: r.Text, CreatedAt: r.CreatedAt}
	}), nil
}

// LastOutput returns the last output of a run's commands, in order, at most limit pieces.
func (v *Views) LastOutput(ctx context.Context, runID int64, limit int) ([]Output, error) {
	rows, err := v.q.LastOutputs(ctx, db.LastOutputsParams{RunID: runID, Most: rowconv.Limit(limit, outputPage)})
	return rowconv.Convert(rows, func(r db.LastOutputsRow) Output { return Output(r) }), dberr.OfRun(err, runID, "read the output of run %d", runID)
}
