package views

import (
	"context"
	"encoding/json"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/store/db"
	"github.com/rocketgpt/orchestrator/internal/store/internal/dberr"
	"github.com/rocketgpt/orchestrator/internal/store/internal/rowconv"
)

// ShownEvent is an event whose payload may be truncated, and then is not valid JSON.
type ShownEvent struct {
	contract.Event
	Payload string
	Size    int // of the whole payload, in bytes
}

// EventWindow selects events of a run by their numbers.
type EventWindow struct {
	Above, Upto int64  // numbers above the first up to and including the second
	Prefix      string // of the type
	Down        bool   // last ones first
	Most        int
	Cut         int // characters of each payload
}

// EventsIn returns events of a window. Numbers have no gaps, so a window limits the number of
// events read.
func (v *Views) EventsIn(ctx context.Context, runID int64, w EventWindow) ([]ShownEvent, error) {
	p := db.EventsBetweenParams{Cut: int32(w.Cut), RunID: runID, Above: w.Above, Upto: w.Upto, Prefix: w.Prefix, Most: int32(w.Most)}
	var rows []db.EventsBetweenRow
	var err error
	if w.Down {
		var down []db.EventsBetweenDownRow
		down, err = v.q.EventsBetweenDown(ctx, db.EventsBetweenDownParams(p))
		rows = rowconv.Convert(down, func(r db.EventsBetweenDownRow) db.EventsBetweenRow { return db.EventsBetweenRow(r) })
	} else {
		rows, err = v.q.EventsBetween(ctx, p)
	}
	return rowconv.Convert(rows, func(r db.EventsBetweenRow) ShownEvent {
		e := contract.Event{RunID: r.RunID, Seq: r.Seq, Type: contract.EventType(r.EventType), CreatedAt: r.CreatedAt}
		if len(r.Payload) == int(r.Size) {
			e.Payload = json.RawMessage(r.Payload)
		}
		return ShownEvent{Event: e, Payload: r.Payload, Size: int(r.Size)}
	}), dberr.Explain(err, "read events of run %d", runID)
}
