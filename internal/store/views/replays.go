package views

import (
	"context"
	"time"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/store/db"
	"github.com/rocketgpt/orchestrator/internal/store/internal/dberr"
	"github.com/rocketgpt/orchestrator/internal/store/internal/rowconv"
)

// Replayed is one replay of a run.
type Replayed struct {
	ID          int64
	Phase       contract.Phase
	Spec        contract.ReplaySpec // without what was kept
	Kept        []string            // steps whose work was kept
	ExecutionID int64               // that it led to; 0: not begun
	Attempt     int                 // of the phase
	Status      contract.ExecutionStatus
	CreatedAt   time.Time
}

// Replays returns the replays of a run, last one first, at most the given number.
func (v *Views) Replays(ctx context.Context, runID int64, most int) ([]Replayed, error) {
	rows, err := v.q.ReplaysOf(ctx, db.ReplaysOfParams{RunID: runID, Most: int32(most)})
	if err != nil {
		return nil, dberr.Explain(err, "read the replays of run %d", runID)
	}
	return rowconv.ConvertAll(rows, func(r db.ReplaysOfRow) (p Replayed, err error) {
		p = Replayed{
			ID: r.ID, Phase: contract.Phase(r.Phase), ExecutionID: r.ExecutionID, Attempt: int(r.Attempt), Status: contract.ExecutionStatus(r.Status), CreatedAt: r.CreatedAt,
		}
		if p.Spec, err = rowconv.Decode[contract.ReplaySpec](r.ReplayOrder); err != nil {
			return p, err
		}
		p.Kept, err = rowconv.Decode[[]string](r.Kept)
		return p, err
	})
}

// Replay marks a replay of a run.
type Replay struct {
	ID          int64
	Phase       contract.Phase
	Step        string
	By          string
	ExecutionID int64 // that it led to; 0: not begun yet
	At          time.Time
}

// ReplayMarks returns the replays of a run, in order.
func (v *Views) ReplayMarks(ctx context.Context, runID int64) ([]Replay, error) {
	rows, err := v.q.TimelineReplays(ctx, db.TimelineReplaysParams{RunID: runID, Most: maxReplays})
	return rowconv.Convert(rows, func(r db.TimelineReplaysRow) Replay {
		return Replay{ID: r.ID, Phase: contract.Phase(r.Phase), Step: r.Step, By: r.AskedBy, ExecutionID: rowconv.Deref(r.ExecutionID), At: r.CreatedAt}
	}), dberr.Explain(err, "read the replays of run %d", runID)
}
