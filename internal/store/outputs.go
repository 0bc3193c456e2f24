package store

import (
	"context"
	"time"

	"github.com/rocketgpt/orchestrator/internal/store/db"
)

// Output is a piece of what something printed while it ran.
type Output struct {
	ID        int64     `json:"id"`
	Source    string    `json:"source"` // environment, the id of a check, or a step
	Text      string    `json:"text"`
	CreatedAt time.Time `json:"created_at"`
}

// AppendOutput stores a piece of what a run's commands print, for those who
// watch.
func (s *Store) AppendOutput(ctx context.Context, runID int64, source, piece string) error {
	return ofRun(s.q.AppendOutput(ctx, db.AppendOutputParams{RunID: runID, Source: text(source), Text: text(piece)}), runID, "store output of run %d", runID)
}

// LiveOutput returns what a run's commands printed after the piece with the id
// after, in order, at most limit pieces. Pieces older than an hour may be gone.
func (s *Store) LiveOutput(ctx context.Context, runID, after int64, limit int) ([]Output, error) {
	rows, err := s.q.Outputs(ctx, db.OutputsParams{RunID: runID, After: after, Most: pageSize(limit, 500)})
	if err != nil {
		return nil, ofRun(err, runID, "read the output of run %d", runID)
	}
	return convert(rows, func(r db.OutputsRow) Output { return Output(r) }), nil
}

// DropOutputs removes pieces of output older than age, whose whole has been kept
// as an artifact since.
func (s *Store) DropOutputs(ctx context.Context, age time.Duration) (int64, error) {
	n, err := s.q.DropOutputs(ctx, age.Seconds())
	return n, explain(err, "remove old output")
}
