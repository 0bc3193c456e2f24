package store

import (
	"context"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/store/db"
	"github.com/rocketgpt/orchestrator/internal/store/internal/dberr"
	"github.com/rocketgpt/orchestrator/internal/store/internal/rowconv"
)

// Events returns the events of a run after a sequence number, in order, at most limit
// of them (default and maximum 1000). A run that does not exist has none.
func (s *Store) Events(ctx context.Context, runID, afterSeq int64, limit int) ([]contract.Event, error) {
	rows, err := s.q.Events(ctx, db.EventsParams{RunID: runID, AfterSeq: afterSeq, Most: rowconv.Limit(limit, 1000)})
	return rowconv.Convert(rows, func(r db.EventsRow) contract.Event {
		return contract.Event{RunID: r.RunID, Seq: r.Seq, Type: contract.EventType(r.EventType), Payload: r.Payload, CreatedAt: r.CreatedAt}
	}), dberr.Explain(err, "read the events of run %d", runID)
}

// PipelineEvents returns the events that name a pipeline, after a sequence number, in order, at
// most limit of them (default and maximum 1000). They are numbered with all events of their run, so
// there are gaps.
func (s *Store) PipelineEvents(ctx context.Context, id, afterSeq int64, limit int) ([]contract.Event, error) {
	rows, err := s.q.PipelineEvents(ctx, db.PipelineEventsParams{PipelineID: id, AfterSeq: afterSeq, Most: rowconv.Limit(limit, 1000)})
	return rowconv.Convert(rows, func(r db.PipelineEventsRow) contract.Event {
		return contract.Event{RunID: r.RunID, Seq: r.Seq, Type: contract.EventType(r.EventType), Payload: r.Payload, CreatedAt: r.CreatedAt}
	}), dberr.Explain(err, "read the events of pipeline %d", id)
}
