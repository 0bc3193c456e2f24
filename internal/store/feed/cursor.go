package feed

import (
	"context"
	"strconv"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/store/db"
	"github.com/rocketgpt/orchestrator/internal/store/internal/dberr"
	"github.com/rocketgpt/orchestrator/internal/store/internal/rowconv"
)

// Cursor is a position in the events of all runs. The zero value is before the first one.
type Cursor struct {
	Tx int64 `json:"tx"` // transaction that wrote the event
	ID int64 `json:"id"`
}

// Event is an event with its position among those of all runs.
type Event struct {
	contract.Event
	Cursor Cursor `json:"cursor"`
}

// Page returns events of all runs after a cursor, at most limit of them (default and maximum 1000).
// It shows an event once no older transaction can still add one before it, so a reader that
// continues from the last cursor misses none; events of one run keep their order. Cursors belong to
// one database cluster: after a restore into another one, start from End.
func (f *Feed) Page(ctx context.Context, after Cursor, limit int) ([]Event, error) {
	rows, err := f.q.Feed(ctx, db.FeedParams{AfterTx: strconv.FormatInt(after.Tx, 10), AfterID: after.ID, Most: rowconv.Limit(limit, 1000)})
	return rowconv.Convert(rows, func(r db.FeedRow) Event {
		return Event{
			Event:  contract.Event{RunID: r.RunID, Seq: r.Seq, Type: contract.EventType(r.EventType), Payload: r.Payload, CreatedAt: r.CreatedAt},
			Cursor: Cursor{Tx: r.Tx, ID: r.ID},
		}
	}), dberr.Explain(err, "read the events of all runs")
}

// End returns a cursor that precedes all events committed from now on. It also precedes events that
// were committed since the oldest open transaction began.
func (f *Feed) End(ctx context.Context) (Cursor, error) {
	tx, err := f.q.FeedEnd(ctx)
	return Cursor{Tx: tx}, dberr.Explain(err, "find the end of the event feed")
}

// before reports whether a cursor comes before another one.
func (c Cursor) before(d Cursor) bool {
	return c.Tx < d.Tx || c.Tx == d.Tx && c.ID < d.ID
}

// LastEvent returns the number of the last event of a run, or of the row that accounts for
// pipelines: a stream that continues from there misses nothing.
func (f *Feed) LastEvent(ctx context.Context, runID int64) (int64, error) {
	seq, err := f.q.EventSeq(ctx, runID)
	return seq, dberr.OfRun(err, runID, "find the last event of run %d", runID)
}
