package store

import (
	"context"
	"time"

	"github.com/rocketgpt/orchestrator/internal/store/db"
	"github.com/rocketgpt/orchestrator/internal/store/internal/dberr"
	"github.com/rocketgpt/orchestrator/internal/store/internal/rowconv"
)

// AppendOutput stores a piece of the output of a run's commands, for live viewing.
func (s *Store) AppendOutput(ctx context.Context, runID int64, source, piece string) error {
	return dberr.OfRun(s.q.AppendOutput(ctx, db.AppendOutputParams{RunID: runID, Source: rowconv.Text(source), Text: rowconv.Text(piece)}), runID, "store output of run %d", runID)
}

// DropOutputs removes pieces of output older than age; by then, the whole output is stored as an
// artifact.
func (s *Store) DropOutputs(ctx context.Context, age time.Duration) (int64, error) {
	n, err := s.q.DropOutputs(ctx, age.Seconds())
	return n, dberr.Explain(err, "remove old output")
}
