package store

import (
	"context"
	"encoding/json"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/store/db"
	"github.com/rocketgpt/orchestrator/internal/store/internal/dberr"
	"github.com/rocketgpt/orchestrator/internal/store/internal/rowconv"
)

// AddArtifacts stores artifacts of a run with an event artifact.added for each. If the run already
// has an artifact with the same name, that artifact is kept and no event is added.
func (s *Store) AddArtifacts(ctx context.Context, runID int64, artifacts []contract.Artifact) error {
	if len(artifacts) == 0 {
		return nil
	}
	doc, err := artifactRows(artifacts)
	if err != nil {
		return err
	}
	q, batch := newBatch(s.pool)
	batch.queue(q.LockRun(ctx, runID))
	_, err = q.AddArtifacts(ctx, db.AddArtifactsParams{RunID: runID, Artifacts: doc, EventType: string(contract.EventArtifactAdded)})
	return dberr.OfRun(err, runID, "store artifacts of run %d", runID)
}

// artifactRows encodes artifacts for the query AddArtifacts.
func artifactRows(artifacts []contract.Artifact) (json.RawMessage, error) {
	type row struct {
		ExecutionID *int64                `json:"execution_id"`
		Name        string                `json:"name"`
		Type        contract.ArtifactType `json:"type"`
		Size        int64                 `json:"size"`
		Digest      string                `json:"digest"`
		LeftOut     string                `json:"left_out,omitempty"`
	}
	rows := make([]row, len(artifacts))
	for i, a := range artifacts {
		rows[i] = row{Name: a.Name, Type: a.Type, Size: a.Size, Digest: a.Digest, LeftOut: rowconv.Text(a.LeftOut)}
		if a.ExecutionID != 0 {
			rows[i].ExecutionID = &a.ExecutionID
		}
	}
	return rowconv.Encode(rows)
}

// Artifacts returns the artifacts of a run in the order in which they were added.
func (s *Store) Artifacts(ctx context.Context, runID int64) ([]contract.Artifact, error) {
	rows, err := s.q.Artifacts(ctx, runID)
	return rowconv.Convert(rows, rowconv.Artifact), dberr.Explain(err, "read the artifacts of run %d", runID)
}
