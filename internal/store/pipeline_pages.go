package store

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/store/db"
	"github.com/rocketgpt/orchestrator/internal/store/internal/dberr"
	"github.com/rocketgpt/orchestrator/internal/store/internal/rowconv"
)

// WaitingPipelines returns how many pipelines wait for a person.
func (s *Store) WaitingPipelines(ctx context.Context) (int, error) {
	n, err := s.q.CountWaitingPipelines(ctx)
	return int(n), dberr.Explain(err, "count the pipelines that wait for a person")
}

// LastEvent returns the number of the last event of a run, or of the row that
// carries pipelines: a stream that goes on from there misses nothing.
func (s *Store) LastEvent(ctx context.Context, runID int64) (int64, error) {
	seq, err := s.q.EventSeq(ctx, runID)
	return seq, dberr.OfRun(err, runID, "find the last event of run %d", runID)
}

// ArtifactNamed returns the artifact of a run, or of the row that carries
// pipelines, that has a name, or ErrNotFound.
func (s *Store) ArtifactNamed(ctx context.Context, runID int64, name string) (contract.Artifact, error) {
	row, err := s.q.ArtifactNamed(ctx, db.ArtifactNamedParams{RunID: runID, Name: rowconv.Text(name)})
	if errors.Is(err, pgx.ErrNoRows) {
		return contract.Artifact{}, dberr.NotFound("run %d has no artifact %q", runID, name)
	}
	return rowconv.Artifact(db.ArtifactsRow(row)), dberr.Explain(err, "read artifact %q of run %d", name, runID)
}
