package store

import "context"

// WaitingPipelines returns how many pipelines wait for a person.
func (s *Store) WaitingPipelines(ctx context.Context) (int, error) {
	n, err := s.q.CountWaitingPipelines(ctx)
	return int(n), explain(err, "count the pipelines that wait for a person")
}

// LastEvent returns the number of the last event of a run, or of the row that
// carries pipelines: a stream that goes on from there misses nothing.
func (s *Store) LastEvent(ctx context.Context, runID int64) (int64, error) {
	seq, err := s.q.EventSeq(ctx, runID)
	return seq, ofRun(err, runID, "find the last event of run %d", runID)
}
