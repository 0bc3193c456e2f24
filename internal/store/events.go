package store

import (
	"context"
	"strconv"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/store/db"
	"github.com/rocketgpt/orchestrator/internal/store/internal/dberr"
	"github.com/rocketgpt/orchestrator/internal/store/internal/rowconv"
)

// Events returns the events of a run after a number, in order, at most limit of
// them (default and most 1000). A run that does not exist has none.
func (s *Store) Events(ctx context.Context, runID, afterSeq int64, limit int) ([]contract.Event, error) {
	rows, err := s.q.Events(ctx, db.EventsParams{RunID: runID, AfterSeq: afterSeq, Most: rowconv.Limit(limit, 1000)})
	if err != nil {
		return nil, dberr.Explain(err, "read the events of run %d", runID)
	}
	events := make([]contract.Event, len(rows))
	for i, r := range rows {
		events[i] = contract.Event{RunID: r.RunID, Seq: r.Seq, Type: contract.EventType(r.EventType), Payload: r.Payload, CreatedAt: r.CreatedAt}
	}
	return events, nil
}

// FeedCursor is a place in the events of all runs. The zero value is before the
// first one.
type FeedCursor struct {
	Tx int64 `json:"tx"` // transaction that wrote the event
	ID int64 `json:"id"`
}

// FeedEvent is an event with its place among those of all runs.
type FeedEvent struct {
	contract.Event
	Cursor FeedCursor `json:"cursor"`
}

// Feed returns events of all runs after a cursor, at most limit of them
// (default and most 1000). It shows an event once no older transaction can
// still add one before it, so a reader that goes on from the last cursor misses
// none; events of one run keep their order. Cursors belong to one database
// cluster: after a restore into another one, start from FeedEnd.
func (s *Store) Feed(ctx context.Context, after FeedCursor, limit int) ([]FeedEvent, error) {
	rows, err := s.q.Feed(ctx, db.FeedParams{AfterTx: strconv.FormatInt(after.Tx, 10), AfterID: after.ID, Most: rowconv.Limit(limit, 1000)})
	if err != nil {
		return nil, dberr.Explain(err, "read the events of all runs")
	}
	events := make([]FeedEvent, len(rows))
	for i, r := range rows {
		events[i] = FeedEvent{
			Event:  contract.Event{RunID: r.RunID, Seq: r.Seq, Type: contract.EventType(r.EventType), Payload: r.Payload, CreatedAt: r.CreatedAt},
			Cursor: FeedCursor{Tx: r.Tx, ID: r.ID},
		}
	}
	return events, nil
}

// FeedEnd returns a cursor before all events that are committed from now on. As
// many as were committed since the oldest transaction under way began come
// after it too.
func (s *Store) FeedEnd(ctx context.Context) (FeedCursor, error) {
	tx, err := s.q.FeedEnd(ctx)
	return FeedCursor{Tx: tx}, dberr.Explain(err, "find the end of the events")
}

// AddArtifacts stores artifacts of a run with an event artifact.added for each.
// Of a name that the run has already the first stays, without another event.
func (s *Store) AddArtifacts(ctx context.Context, runID int64, artifacts []contract.Artifact) error {
	if len(artifacts) == 0 {
		return nil
	}
	type row struct {
		ExecutionID *int64                `json:"execution_id"`
		Name        string                `json:"name"`
		Type        contract.ArtifactType `json:"type"`
		Size        int64                 `json:"size"`
		Digest      string                `json:"digest"`
	}
	rows := make([]row, len(artifacts))
	for i, a := range artifacts {
		rows[i] = row{Name: a.Name, Type: a.Type, Size: a.Size, Digest: a.Digest}
		if a.ExecutionID != 0 {
			rows[i].ExecutionID = &a.ExecutionID
		}
	}
	doc, err := rowconv.Encode(rows)
	if err != nil {
		return err
	}
	q, batch := newBatch(s.pool)
	batch.queue(q.LockRun(ctx, runID))
	_, err = q.AddArtifacts(ctx, db.AddArtifactsParams{RunID: runID, Artifacts: doc, EventType: string(contract.EventArtifactAdded)})
	return dberr.OfRun(err, runID, "store artifacts of run %d", runID)
}

// Artifacts returns the artifacts of a run in the order in which they came.
func (s *Store) Artifacts(ctx context.Context, runID int64) ([]contract.Artifact, error) {
	rows, err := s.q.Artifacts(ctx, runID)
	if err != nil {
		return nil, dberr.Explain(err, "read the artifacts of run %d", runID)
	}
	return rowconv.Convert(rows, rowconv.Artifact), nil
}
